/**
 * What a job leaves on this machine: processes, and names in `/dev/shm`. Its processes have a mark in their environment,
 * and where mounts are permitted a `/dev/shm` of their own: what is in it is the job's.
 */

/**
 * How much longer everything takes now, since the machine is busy with something else: at least 1. The average is that of
 * a minute, and what wants to run just now may be more.
 */
export function slowdown(): number {
  const [minute, , , running] = Deno.readTextFileSync("/proc/loadavg").split(/[ /]/).map(Number);
  return Math.max(1, Math.max(minute, running) / navigator.hardwareConcurrency);
}

/** Why no launcher can have file systems of its own here; `null` if one can. */
export function whyNoMounts(): string | null {
  try {
    const { success } = new Deno.Command("unshare", { args: ["-m", "true"], stderr: "null" }).outputSync();
    return success ? null : "unshare -m is not permitted";
  } catch {
    return "there is no unshare(1)";
  }
}

const canMount = whyNoMounts() === null;

/** The variable that tells the processes of a job from others. */
const MARK_VARIABLE = "DISTMATH_TEST_JOB";

/** How long the last processes of a job may take to end after its launcher. */
const LONGEST_END_MILLISECONDS = 5000;

/** How long they, or the launcher, may take to remove names of memory then. */
const LONGEST_REMOVAL_MILLISECONDS = 1000;

/** Looks after a job from before its start. */
export class Leavings implements Disposable {
  readonly #mark = crypto.randomUUID();
  /** What the job sees as `/dev/shm`; `null` if that is everybody's. */
  readonly #folder = canMount ? Deno.makeTempDirSync({ dir: "/dev/shm", prefix: "distmath-test-" }) : null;

  /** What is set for the processes of the job. */
  get environment(): Record<string, string> {
    return { [MARK_VARIABLE]: this.#mark };
  }

  /** Where the names of its memory are. */
  get memoryFolder(): string {
    return this.#folder ?? "/dev/shm";
  }

  /** The command that starts a program of the job, whose process becomes that program. */
  command(program: string, args: readonly string[]): [program: string, args: string[]] {
    if (this.#folder === null) return [program, [...args]];
    const script = 'mount --bind "$0" /dev/shm && exec "$@"';
    return ["unshare", ["-m", "sh", "-c", script, this.#folder, program, ...args]];
  }

  /** What is left, some seconds later if there is something; `launchers` are the processes that were started. */
  async left(launchers: readonly number[]): Promise<string[]> {
    const processes = await lasting(() => this.#processes(), LONGEST_END_MILLISECONDS);
    return [...processes, ...await lasting(() => this.memory(launchers), LONGEST_REMOVAL_MILLISECONDS)];
  }

  /** By their command lines; those of others cannot be looked at. */
  #processes(): string[] {
    return names("/proc").filter((name) => /^\d+$/.test(name)).flatMap((process) => {
      try {
        const isMarked = Deno.readTextFileSync(`/proc/${process}/environ`).includes(`${MARK_VARIABLE}=${this.#mark}`);
        return isMarked ? [Deno.readTextFileSync(`/proc/${process}/cmdline`).replaceAll("\0", " ")] : [];
      } catch {
        return [];
      }
    });
  }

  /** Of everybody's memory, that by which ranks of these launchers find each other: whose the rest is, names do not tell. */
  memory(launchers: readonly number[]): string[] {
    if (this.#folder !== null) return names(this.#folder).map((name) => `/dev/shm/${name}`);
    return names("/dev/shm").filter((name) => launchers.some((process) => name.startsWith(`distmath.${process}.`)));
  }

  [Symbol.dispose](): void {
    if (this.#folder !== null) Deno.removeSync(this.#folder, { recursive: true });
  }
}

const names = (folder: string) => Array.from(Deno.readDirSync(folder), ({ name }) => name);

/** What is still there after so long, or later on a busy machine. */
async function lasting(look: () => string[], milliseconds: number): Promise<string[]> {
  const end = Date.now() + milliseconds * slowdown();
  let left = look();
  while (left.length > 0 && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    left = look();
  }
  return left;
}
