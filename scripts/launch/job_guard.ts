/**
 * Ending a job whose command is no more, since one that is killed cannot do it.
 *
 * @module
 */
/**
 * Waits for the end of its standard input, which the command holds open while it lives; then ends the launcher like
 * `endTree` does: asks it, and after a while kills all processes of the job. What they have not finished is removed.
 */
const script = `
trap '' INT TERM HUP QUIT
read -r _
kill -TERM "$1" 2>/dev/null
tenths=30
while [ $tenths -gt 0 ] && kill -0 "$1" 2>/dev/null; do sleep 0.1; tenths=$((tenths - 1)); done
for file in $(grep -lsF "$2" /proc/[0-9]*/environ); do
  process=\${file#/proc/}
  kill -KILL "\${process%/environ}"
done 2>/dev/null
if [ -n "$3" ]; then rm -f -- "$3"*; fi
`;

/**
 * Watch over a launcher until disposed of; its processes have the word `job` in their environment, and no others. Paths
 * that begin with `unfinished` are those of files that nobody else would finish.
 */
export function guardJob(launcher: Deno.ChildProcess, job: string, unfinished = ""): AsyncDisposable {
  const guard = new Deno.Command("sh", {
    args: ["-c", script, "sh", String(launcher.pid), job, unfinished],
    stdin: "piped",
    stdout: "null",
    stderr: "null",
    // A signal to the command's process group, such as that of Ctrl-\\, is not for it.
    detached: true,
  }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      guard.kill("SIGKILL");
      await guard.status;
      await guard.stdin.abort().catch(() => {});
    },
  };
}
