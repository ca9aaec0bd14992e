/**
 * Two hosts on one machine: network namespaces, joined by a pair of virtual interfaces, with host names and shared memory
 * of their own. What would be ssh is a script that enters a namespace.
 */
import { existsSync } from "node:fs";
import { temporaryFolder } from "./command.ts";

/** Two hosts, by their addresses. */
export interface Hosts extends Disposable {
  /** As `--hosts` takes them: two ranks each. */
  list: string;
  addresses: readonly string[];
  /** The program that runs a line of a shell on the host whose address comes first; variables for launchers to use it. */
  agent: string;
  environment: Record<string, string>;
  /** Cut the second host off. */
  cut(): void;
  /** Kill all that runs on the second host. */
  kill(): void;
  /** What runs on the hosts: command lines. */
  processes(): string[];
}

export function ip(...args: string[]): string {
  const { success, stdout, stderr } = new Deno.Command("ip", { args }).outputSync();
  if (!success) throw new Error(`ip ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** The network namespaces of this machine, by name. */
export const namespaces = (): string[] => ip("netns", "list").split("\n").flatMap((line) => line.split(" ", 1));

const pidsIn = (name: string) => ip("netns", "pids", name).split("\n").filter(Boolean).map(Number);

function killAll(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      Deno.kill(pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
}

function remove(name: string): void {
  killAll(pidsIn(name));
  ip("netns", "delete", name);
}

/** Begins the names of hosts: with the number of this process, and what tells it from an earlier one of this number. */
const newPrefix = () => `dm${Deno.pid}.${crypto.randomUUID().slice(0, 4)}.`;

/** Remove the hosts of processes that are no more, which could not. */
export function removeAbandonedHosts(): void {
  for (const name of namespaces()) {
    const [, pid] = /^dm(\d+)\./.exec(name) ?? [];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) remove(name);
  }
}

/** Why there can be no hosts here; `null` if there can. */
export function whyNoHosts(): string | null {
  if (Deno.uid() !== 0) return "network namespaces need root";
  const name = `${newPrefix()}0`;
  try {
    removeAbandonedHosts();
    ip("netns", "add", name);
    ip("netns", "delete", name);
    return null;
  } catch (error) {
    return `no network namespaces: ${(error as Error).message.trim()}`;
  }
}

/**
 * Enters the namespace of the host that the first argument after options names, with a name and shared memory of its own,
 * and the names of both.
 */
const enter = `#!/bin/sh
while case $1 in -*) true ;; *) false ;; esac; do shift; done
address=$1
shift
exec ip netns exec "$PREFIX\${address##*.}" unshare --uts --mount sh -c \\
  'hostname "$0"; mount -t tmpfs none /dev/shm; mount --bind "$FOLDER/hosts" /etc/hosts; exec sh -c "$*"' "host\${address##*.}" "$@"
`;

/** The command line of a process; nothing if it has ended. */
function commandLineOf(pid: number): string {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
  } catch {
    return "";
  }
}

/** Make two hosts. */
export function makeHosts(): Hosts {
  const prefix = newPrefix();
  const names = [`${prefix}1`, `${prefix}2`];
  const addresses = ["10.77.0.1", "10.77.0.2"];
  const folder = temporaryFolder();
  const agent = `${folder.path}/enter`;
  Deno.writeTextFileSync(agent, enter.replace("$PREFIX", prefix).replace("$FOLDER", folder.path), { mode: 0o755 });
  Deno.writeTextFileSync(`${folder.path}/hosts`, addresses.map((address, i) => `${address} host${i + 1}\n`).join(""));
  for (const name of names) ip("netns", "add", name);
  ip("link", "add", "dm0", "netns", names[0], "type", "veth", "peer", "name", "dm0", "netns", names[1]);
  names.forEach((name, i) => {
    ip("-n", name, "address", "add", `${addresses[i]}/24`, "dev", "dm0");
    for (const device of ["lo", "dm0"]) ip("-n", name, "link", "set", device, "up");
  });
  return {
    list: addresses.map((address) => `${address}:2`).join(),
    addresses,
    agent,
    environment: {
      OMPI_MCA_plm_rsh_agent: agent,
      PRTE_MCA_plm_ssh_agent: agent,
      HYDRA_LAUNCHER: "ssh",
      HYDRA_LAUNCHER_EXEC: agent,
    },
    cut: () => ip("-n", names[1], "link", "set", "dm0", "down"),
    kill: () => killAll(pidsIn(names[1])),
    processes: () => names.flatMap(pidsIn).map(commandLineOf).filter(Boolean),
    [Symbol.dispose]() {
      names.forEach(remove);
      folder[Symbol.dispose]();
    },
  };
}
