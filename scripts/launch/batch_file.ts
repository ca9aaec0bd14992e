/**
 * Job files for batch systems: they start `run` again, which finds the allocation that it is in.
 *
 * @module
 */
import { CommandError } from "../terminal.ts";
import { countSlots, evenSlots, nameOf, slotsOf } from "./allocation.ts";
import { quote } from "./shell.ts";

/** The batch systems, as options of `run` name them. */
export const batchSystems = ["sbatch", "pbs", "mpijob"] as const;

/** One of {@linkcode batchSystems}. */
export type BatchSystem = (typeof batchSystems)[number];

/** What is to be started. */
export interface BatchJob {
  name: string;
  ranks: number;
  hosts: readonly string[];
  timeoutSeconds: number | null;
  /** GPUs a host; 0 for none. */
  gpus: number;
  /** The folder to start in. */
  folder: string;
  /** `run`, as a program with its arguments. */
  command: readonly string[];
  /** The container image of an MPIJob. */
  image: string;
}

/** What a directive's value has to look like, by the option's name. */
type Grammar = Readonly<Record<string, RegExp>>;

const name = /^[A-Za-z][\w.-]*$/;
const number = /^[1-9]\d*$/;

/** The directives that are written, as `sbatch` and `qsub` take them. */
const grammars: Record<"sbatch" | "pbs", { mark: string; directives: Grammar }> = {
  sbatch: {
    mark: "#SBATCH",
    directives: {
      "--job-name": name,
      "--output": /^[\w.%-]+$/,
      "--ntasks": number,
      "--ntasks-per-node": number,
      "--nodelist": /^[\w.,-]+$/,
      "--gpus-per-node": number,
      "--time": /^\d+:[0-5]\d:[0-5]\d$/,
    },
  },
  pbs: {
    mark: "#PBS",
    directives: {
      "-N": name,
      "-j": /^oe$/,
      "-V": /^$/,
      "-l select":
        /^\d+(:(ncpus|mpiprocs|ngpus)=\d+|:host=[\w.-]+)*(\+\d+(:(ncpus|mpiprocs|ngpus)=\d+|:host=[\w.-]+)*)*$/,
      "-l place": /^scatter$/,
      "-l walltime": /^\d+:[0-5]\d:[0-5]\d$/,
    },
  },
};

/** Seconds as hours, minutes and seconds. */
function clock(seconds: number): string {
  const whole = Math.ceil(seconds);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

function sbatchDirectives({ name, ranks, hosts, timeoutSeconds, gpus }: BatchJob): [string, string][] {
  const slots = hosts.length > 0 ? evenSlots(hosts) : null;
  if (hosts.length > 0 && slots === null) {
    throw new CommandError(`Slurm takes the same number of slots on each host, not ${hosts.join(",")}`);
  }
  return [
    ["--job-name", name],
    ["--output", `${name}-%j.out`],
    ["--ntasks", String(ranks)],
    ...slots === null ? [] : [
      ["--ntasks-per-node", String(slots)] as [string, string],
      ["--nodelist", hosts.map(nameOf).join(",")] as [string, string],
    ],
    // A rank has a GPU of its own.
    ...slots === null && gpus > 0 ? [["--ntasks-per-node", String(Math.min(gpus, ranks))] as [string, string]] : [],
    ...gpus > 0 ? [["--gpus-per-node", String(gpus)] as [string, string]] : [],
    ...timeoutSeconds === null ? [] : [["--time", clock(timeoutSeconds)] as [string, string]],
  ];
}

function pbsDirectives({ name, ranks, hosts, timeoutSeconds, gpus }: BatchJob): [string, string][] {
  const chunk = (count: number, slots: number) =>
    `${count}:ncpus=${slots}:mpiprocs=${slots}${gpus > 0 ? `:ngpus=${gpus}` : ""}`;
  // A rank has a GPU of its own.
  const slots = gpus > 0 ? Math.min(gpus, ranks) : 1;
  const [full, rest] = [Math.floor(ranks / slots), ranks % slots];
  const chunks = hosts.length > 0
    ? hosts.map((host) => `${chunk(1, slotsOf(host))}:host=${nameOf(host)}`)
    : [chunk(full, slots), ...rest > 0 ? [chunk(1, rest)] : []];
  const isSpread = hosts.length === 0 && gpus > 0 && full + rest > 1;
  return [
    ["-N", name],
    ["-j", "oe"],
    // As Slurm does by itself.
    ["-V", ""],
    ["-l select", chunks.join("+")],
    ...isSpread ? [["-l place", "scatter"] as [string, string]] : [],
    ...timeoutSeconds === null ? [] : [["-l walltime", clock(timeoutSeconds)] as [string, string]],
  ];
}

/** An option as it is written before its value, such as `--ntasks=4` or `-N name`. */
const beforeValue = (option: string) => option.length === 2 ? `${option} ` : `${option}=`;

function shellFile(system: "sbatch" | "pbs", job: BatchJob): string {
  const { mark } = grammars[system];
  const directives = system === "sbatch" ? sbatchDirectives(job) : pbsDirectives(job);
  const text = [
    "#!/bin/sh",
    ...directives.map(([option, value]) => `${mark} ${beforeValue(option)}${value}`.trimEnd()),
    `cd ${quote(job.folder)} || exit`,
    `exec ${job.command.map(quote).join(" ")}`,
    "",
  ].join("\n");
  const read = parseShellFile(system, text);
  if (JSON.stringify([...read]) !== JSON.stringify(directives)) {
    throw new CommandError(`the job file would be read in another way than it is meant:\n${text}`, 1);
  }
  return text;
}

/**
 * The directives of a job file, as `sbatch` and `qsub` read them: up to the first command.
 *
 * @throws {CommandError} for a directive that is not known, has a wrong value, comes twice or too late.
 */
export function parseShellFile(system: "sbatch" | "pbs", text: string): Map<string, string> {
  const { mark, directives } = grammars[system];
  const found = new Map<string, string>();
  const [first, ...lines] = text.split("\n");
  if (!first.startsWith("#!/")) throw new CommandError(`a job file begins with "#!/bin/sh", not "${first}"`);
  let hasCommand = false;
  for (const line of lines) {
    hasCommand ||= line.trim() !== "" && !line.startsWith("#");
    if (!line.startsWith(mark)) continue;
    const given = line.slice(mark.length).trim();
    const option = Object.keys(directives).find((option) => `${given} `.startsWith(beforeValue(option)));
    const value = option === undefined ? "" : given.slice(beforeValue(option).length);
    if (option === undefined || !directives[option].test(value)) throw new CommandError(`wrong directive: ${line}`);
    if (found.has(option)) throw new CommandError(`a directive for the second time: ${line}`);
    if (hasCommand) throw new CommandError(`a directive after the first command is not read: ${line}`);
    found.set(option, value);
  }
  return found;
}

/** Pods and services are named after an MPIJob, by up to 63 characters, of which the operator adds some. */
const LONGEST_NAME = 40;

/** A name as Kubernetes takes it: a label of RFC 1123 that begins with a letter, since services take no other. */
function nameInKubernetes(name: string): string {
  const letters = name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replace(/^[^a-z]+/, "");
  return letters.slice(0, LONGEST_NAME).replace(/-$/, "") || "job";
}

/** An MPIJob of Kubeflow's MPI operator, whose workers run the SSH server that is in the image. */
function mpijob({ name, ranks, hosts, timeoutSeconds, gpus, folder, command, image }: BatchJob): unknown {
  if (hosts.length > 0) throw new CommandError("an MPIJob's hosts are chosen by Kubernetes: leave out --hosts");
  const slots = gpus > 0 ? Math.min(gpus, ranks) : 1;
  const container = (more: object) => ({ image, workingDir: folder, ...more });
  const pod = (containers: unknown[]) => ({ template: { spec: { containers } } });
  const resources = gpus > 0 ? { resources: { limits: { "nvidia.com/gpu": gpus } } } : {};
  return {
    apiVersion: "kubeflow.org/v2beta1",
    kind: "MPIJob",
    metadata: { name: nameInKubernetes(name) },
    spec: {
      slotsPerWorker: slots,
      mpiImplementation: "OpenMPI",
      runPolicy: {
        cleanPodPolicy: "Running",
        ...timeoutSeconds !== null && { activeDeadlineSeconds: Math.ceil(timeoutSeconds) },
      },
      mpiReplicaSpecs: {
        Launcher: { replicas: 1, ...pod([container({ name: "launcher", command: command.map(asItIs) })]) },
        Worker: { replicas: Math.ceil(ranks / slots), ...pod([container({ name: "worker", ...resources })]) },
      },
    },
  };
}

/** A word of a container's command, in which Kubernetes would put variables in place of `$(NAME)`. */
const asItIs = (word: string) => word.replaceAll("$", "$$$$");

const containerOf = (role: string) => ["spec", "mpiReplicaSpecs", role, "template", "spec", "containers", 0];
const imageText = /^"[\w.:/@-]+"$/;
const folderText = /^"\/.*"$/;

/** What the values of an MPIJob have to look like as JSON, by their places; the others are the same in each. */
const mpijobGrammar: readonly (readonly [place: (string | number)[], allowed: RegExp, option?: string])[] = [
  [["metadata", "name"], new RegExp(`^"[a-z]([a-z0-9-]{0,${LONGEST_NAME - 2}}[a-z0-9])?"$`)],
  [["spec", "slotsPerWorker"], number],
  [["spec", "runPolicy", "activeDeadlineSeconds"], /^([1-9]\d*)?$/],
  [["spec", "mpiReplicaSpecs", "Launcher", "replicas"], /^1$/],
  [["spec", "mpiReplicaSpecs", "Worker", "replicas"], number],
  [[...containerOf("Launcher"), "image"], imageText, "--image"],
  [[...containerOf("Worker"), "image"], imageText, "--image"],
  [[...containerOf("Launcher"), "workingDir"], folderText],
  [[...containerOf("Worker"), "workingDir"], folderText],
  [[...containerOf("Launcher"), "command"], /^\["[^"]/],
];

/**
 * Refuse an MPIJob that Kubernetes or the operator would.
 *
 * @throws {CommandError} for the first wrong value, with its place.
 */
export function checkMpijob(text: string): void {
  const job = JSON.parse(text);
  for (const [place, allowed, option = "wrong MPIJob"] of mpijobGrammar) {
    // deno-lint-ignore no-explicit-any
    const value = JSON.stringify(place.reduce((inner: any, name) => inner?.[name], job)) ?? "";
    if (!allowed.test(value)) {
      throw new CommandError(
        `${option}: ${place.join(".")} is ${value || "missing"}, it has to match ${allowed.source}`,
      );
    }
  }
}

function mpijobFile(job: BatchJob): string {
  const text = `${JSON.stringify(mpijob(job), null, 2)}\n`;
  checkMpijob(text);
  return text;
}

/** The text of a job file. That of an MPIJob is JSON, which is YAML as well. */
export function batchFile(system: BatchSystem, job: BatchJob): string {
  if (job.hosts.length > 0 && countSlots(job.hosts) < job.ranks) {
    throw new CommandError(`${job.hosts.join(",")} take ${countSlots(job.hosts)} ranks, not ${job.ranks}`);
  }
  return system === "mpijob" ? mpijobFile(job) : shellFile(system, job);
}
