/**
 * A cluster of Slurm's on one machine: its daemons on the two hosts of `hosts.ts`, and a shell on the first.
 */
import { type Ended, finish, root, start, temporaryFolder } from "../system/command.ts";
import { makeHosts, whyNoHosts } from "../system/hosts.ts";

/** Two hosts, each with two cores, on which Slurm starts jobs. */
export interface Cluster extends Disposable {
  /** A folder that both hosts see. */
  folder: string;
  /** Run a line of a shell on the first host, in the folder of fixtures. */
  shell(line: string, env?: Record<string, string>): Promise<Ended>;
  /** The processes on the hosts that are not Slurm's own, by their command lines. */
  processes(): string[];
}

const programs = ["slurmctld", "slurmd", "srun", "sbatch", "salloc", "scancel", "nsenter"];

/** Why there can be no cluster here; `null` if there can. */
export function whyNoCluster(): string | null {
  const missing = programs.find((name) => !new Deno.Command("which", { args: [name] }).outputSync().success);
  return missing === undefined ? whyNoHosts() : `there is no ${missing}: apt-get install slurm-wlm`;
}

/** No keys and no cgroups: everything is this user's, on this machine. */
const configuration = (folder: string, addresses: readonly string[]) => `
ClusterName=distmath
SlurmctldHost=host1(${addresses[0]})
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/spool-%n
SlurmctldPidFile=${folder}/slurmctld.pid
SlurmdPidFile=${folder}/slurmd-%n.pid
SlurmctldLogFile=${folder}/slurmctld.log
SlurmdLogFile=${folder}/slurmd-%n.log
TmpFS=${folder}/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=2
${addresses.map((address, i) => `NodeName=host${i + 1} NodeAddr=${address} CPUs=2`).join("\n")}
PartitionName=all Nodes=ALL Default=YES State=UP
`;

const fixtures = `${root}tests/system/fixtures`;

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Start a cluster. */
export async function makeCluster(): Promise<Cluster> {
  const [hosts, folder] = [makeHosts(), temporaryFolder()];
  const file = `${folder.path}/slurm.conf`;
  Deno.writeTextFileSync(file, configuration(folder.path, hosts.addresses));
  Deno.writeTextFileSync(`${folder.path}/cgroup.conf`, "CgroupPlugin=cgroup/v1\n");
  for (const name of ["state", "tmp-host1", "tmp-host2"]) Deno.mkdirSync(`${folder.path}/${name}`);
  const env = { SLURM_CONF: file };
  const daemons = [["slurmctld -D -i", 0], ["slurmd -D", 0], ["slurmd -D", 1]] as const;
  const children = daemons.map(([command, host]) =>
    new Deno.Command(hosts.agent, {
      args: [hosts.addresses[host], `exec ${command}`],
      env,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn()
  );
  // Their namespaces are those of the first host's slurmd, memory that is shared among them.
  const enter = ["--target", String(children[1].pid), "--net", "--mount", "--uts", `--wd=${fixtures}`];
  const shell = (line: string, more: Record<string, string> = {}) =>
    finish(
      start("nsenter", [...enter, "sh", "-c", line], { env: { ...env, ...more } }),
    );
  const cluster: Cluster = {
    folder: folder.path,
    shell,
    processes: () => hosts.processes().filter((line) => !/^(: )?slurm/.test(line)),
    [Symbol.dispose]() {
      hosts[Symbol.dispose]();
      folder[Symbol.dispose]();
    },
  };
  for (let i = 0; i < 300; i++) {
    if ((await shell("sinfo -h -t idle -o %D")).stdout.trim() === "2") return cluster;
    await pause(100);
  }
  const logs = ["slurmctld", "slurmd-host1", "slurmd-host2"].map((name) => `${folder.path}/${name}.log`);
  const text = logs.map((log) => Deno.readTextFileSync(log)).join("\n");
  cluster[Symbol.dispose]();
  throw new Error(`Slurm's hosts do not come up:\n${text}`);
}
