/**
 * Removing a file whose writer is killed, which that one cannot do itself.
 *
 * @module
 */
import { attempt } from "../attempt.ts";

/** Looks after a file until it has another name or is removed, or its writer has ended. */
const WATCH = `while [ -e "$2" ] && kill -0 "$1"; do sleep 0.2; done; rm -f "$2"`;

/**
 * In a session of its own, where a launcher that ends its ranks does not look, and without the pipes and sockets of MPICH's
 * launcher, which its ranks pass on: it waits for the ends of all of them before it sees to a rank that has died.
 */
const START = `
for file in /proc/self/fd/*; do
  number=\${file##*/}
  [ "$number" -le 2 ] || eval "exec $number>&-"
done
setsid bash -c "$0" bash "$1" "$2" </dev/null >/dev/null 2>&1 &
`;

/**
 * Have a file removed soon after this process has ended, however that is, if it has its name still. Nothing is promised:
 * programs may not be allowed, or there is none of this name.
 */
export function removeAtEnd(path: string): void {
  if (Deno.permissions.querySync({ name: "run", command: "bash" }).state !== "granted") return;
  const { resolve } = globalThis.process.getBuiltinModule("node:path");
  attempt(() =>
    new Deno.Command("bash", {
      args: ["-c", START, WATCH, String(Deno.pid), resolve(path)],
      // Without what launchers and this library know the processes of a job by.
      clearEnv: true,
      env: { PATH: "/usr/bin:/bin" },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).outputSync()
  );
}
