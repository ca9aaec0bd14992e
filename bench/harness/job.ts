/**
 * A job: a program on one or more ranks that stays alive between measurements, so that two programs can be measured in
 * turns, warm, within one run. Every rank connects to a socket of the driver, sleeps until an order comes, and answers
 * with times.
 *
 * @module
 */
import { linesOf, sendLine } from "./lines.ts";
import { slowest } from "./statistics.ts";
import { socketVariable } from "./worker.ts";

/** How to start a job. */
export interface JobOptions {
  /** The name that tables show. */
  name: string;
  /** The program and its arguments. */
  command: readonly string[];
  /** How many ranks will connect. */
  ranks?: number;
  /** Environment variables besides the driver's own. */
  env?: Record<string, string>;
}

/** The time after which a silent job is given up. */
const patienceSeconds = 180;

async function within<T>(seconds: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${seconds} s.`)), seconds * 1000);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The line to one rank. */
class Rank {
  #connection: Deno.Conn;
  #lines: AsyncGenerator<string, void>;

  constructor(connection: Deno.Conn) {
    this.#connection = connection;
    this.#lines = linesOf(connection);
  }

  async hear(): Promise<string> {
    const { value } = await this.#lines.next();
    if (value === undefined) throw new Error("it hung up.");
    return value;
  }

  async ask(order: string): Promise<number[] | { error: string }> {
    await sendLine(this.#connection, order);
    return JSON.parse(await this.hear());
  }

  /** Half-close: the rank sees the end of its orders. */
  async hangUp(): Promise<void> {
    await this.#connection.closeWrite().catch(() => {});
    await this.#lines.next();
  }
}

/** A running job. */
export class Job implements AsyncDisposable {
  /** The name that tables show. */
  readonly name: string;
  #process: Deno.ChildProcess;
  #errors: Promise<string>;
  #ranks: Rank[];

  private constructor(name: string, process: Deno.ChildProcess, errors: Promise<string>, ranks: Rank[]) {
    this.name = name;
    this.#process = process;
    this.#errors = errors;
    this.#ranks = ranks;
  }

  /** Start a program and wait until all of its ranks have connected. */
  static async start({ name, command: [program, ...args], ranks = 1, env = {} }: JobOptions): Promise<Job> {
    const folder = await Deno.makeTempDir({ prefix: "distmath-bench-" });
    const path = `${folder}/socket`;
    using listener = Deno.listen({ transport: "unix", path });
    const process = new Deno.Command(program, {
      args,
      env: { ...env, [socketVariable]: path },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const errors = new Response(process.stderr).text();
    const died = process.status.then(async ({ code }) => {
      throw new Error(`${name} ended with exit code ${code} before it was ready:\n${tail(await errors)}`);
    });
    died.catch(() => {});
    const [found, byNumber]: Rank[][] = [[], []];
    try {
      for (let count = 0; count < ranks; count++) {
        const connection = await within(patienceSeconds, `Starting ${name}`, Promise.race([listener.accept(), died]));
        const rank = new Rank(connection);
        const number = Number(await rank.hear());
        found.push(rank);
        if (byNumber[number]) {
          throw new Error(`${name} has two processes with rank ${number}: its MPI is not the launcher's.`);
        }
        byNumber[number] = rank;
      }
      return new Job(name, process, errors, byNumber);
    } catch (error) {
      for (const rank of found) rank.hangUp();
      kill(process);
      throw error;
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }

  /**
   * Give an order to all ranks; the times of the calls, each that of the slowest rank, in seconds. If a rank does not
   * answer, the job is ended; an error that a rank answers with is thrown, and the job goes on.
   */
  async ask(order: string): Promise<number[]> {
    const question = `${this.name}, asked "${order}"`;
    const asked = Promise.all(this.#ranks.map((rank) => rank.ask(order)));
    const answers = await within(patienceSeconds, "The answer", asked).catch(async (error: Error) => {
      await this[Symbol.asyncDispose]();
      throw new Error(`${question}: ${error.message}\n${tail(await this.#errors)}`);
    });
    return slowest(answers.map((answer) => {
      if (!Array.isArray(answer)) throw new Error(`${question}: ${answer.error}`);
      return answer;
    }));
  }

  /** Hang up, and wait for the end of the program; one that does not end by itself is ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    const timer = setTimeout(() => kill(this.#process), 5000);
    await Promise.all(this.#ranks.map((rank) => rank.hangUp()));
    await this.#process.status;
    clearTimeout(timer);
  }
}

function kill(process: Deno.ChildProcess): void {
  try {
    process.kill("SIGTERM");
  } catch {
    // It has ended by itself.
  }
}

/** The last lines of a program's complaints. */
function tail(text: string): string {
  return text.trim().split("\n").slice(-15).join("\n");
}
