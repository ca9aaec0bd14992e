/**
 * Two hosts on one machine: network namespaces, joined by a pair of virtual interfaces, with host names and shared memory
 * of their own. What would be ssh is a script that enters a namespace.
 */
import { temporaryFolder } from "./command.ts";

/** Two hosts, by their addresses. */
export interface Hosts extends Disposable {
  /** As `--hosts` takes them: two ranks each. */
  list: string;
  /** The program that runs its arguments on the first host, and variables for launchers to reach the other. */
  first: readonly string[];
  environment: Record<string, string>;
  /** Cut the second host off. */
  cut(): void;
  /** Kill all that runs on the second host. */
  kill(): void;
  /** How many processes run on the hosts. */
  processes(): number;
}

function ip(...args: string[]): string {
  const { success, stdout, stderr } = new Deno.Command("ip", { args }).outputSync();
  if (!success) throw new Error(`ip ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** Why there can be no hosts here; `null` if there can. */
export function whyNoHosts(): string | null {
  if (Deno.uid() !== 0) return "network namespaces need root";
  const name = `dm${Deno.pid}t`;
  try {
    ip("netns", "add", name);
    ip("netns", "delete", name);
    return null;
  } catch (error) {
    return `no network namespaces: ${(error as Error).message.trim()}`;
  }
}

/** Enters the namespace of the host that the first argument after options names, with a name and shared memory of its own. */
const enter = `#!/bin/sh
while case $1 in -*) true ;; *) false ;; esac; do shift; done
address=$1
shift
exec ip netns exec "$PREFIX\${address##*.}" unshare --uts --mount sh -c \\
  'hostname "$0"; mount -t tmpfs none /dev/shm; exec sh -c "$*"' "host\${address##*.}" "$@"
`;

/** Make two hosts. */
export function makeHosts(): Hosts {
  const prefix = `dm${Deno.pid}n`;
  const names = [`${prefix}1`, `${prefix}2`];
  const folder = temporaryFolder();
  const agent = `${folder.path}/enter`;
  Deno.writeTextFileSync(agent, enter.replace("$PREFIX", prefix), { mode: 0o755 });
  for (const name of names) ip("netns", "add", name);
  ip("link", "add", "dm0", "netns", names[0], "type", "veth", "peer", "name", "dm0", "netns", names[1]);
  names.forEach((name, i) => {
    ip("-n", name, "address", "add", `10.77.0.${i + 1}/24`, "dev", "dm0");
    for (const device of ["lo", "dm0"]) ip("-n", name, "link", "set", device, "up");
  });
  const pids = () => names.flatMap((name) => ip("netns", "pids", name).split("\n").filter(Boolean).map(Number));
  const killAll = (found: readonly number[]) => {
    for (const pid of found) {
      try {
        Deno.kill(pid, "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  };
  return {
    list: "10.77.0.1:2,10.77.0.2:2",
    first: [agent, "10.77.0.1"],
    environment: {
      OMPI_MCA_plm_rsh_agent: agent,
      PRTE_MCA_plm_ssh_agent: agent,
      HYDRA_LAUNCHER: "ssh",
      HYDRA_LAUNCHER_EXEC: agent,
    },
    cut: () => ip("-n", names[1], "link", "set", "dm0", "down"),
    kill: () => killAll(ip("netns", "pids", names[1]).split("\n").filter(Boolean).map(Number)),
    processes: () => pids().length,
    [Symbol.dispose]() {
      killAll(pids());
      for (const name of names) ip("netns", "delete", name);
      folder[Symbol.dispose]();
    },
  };
}
