/**
 * The life of a collective operation: check, agree, plan, execute, reset, release, free.
 *
 * An operation gives each step as a function of one rank, which reads and checks what the user gave and allocates what is
 * needed, and returns what the ranks then do together. In between they agree: each step fails on every rank, or on none.
 *
 * @module
 */
import { ConfigurationError, StateError } from "../errors.ts";
import { Event } from "../gpu/event.ts";
import { Stream } from "../gpu/stream.ts";
import { describe, keysOf, readOptions } from "../options.ts";
import { agree, agreeOnExecution, type Facts } from "./agreement.ts";
import { checkLogger, guardLogger, type Logger } from "./logger.ts";
import { type Recorded, recorder } from "./recorder.ts";
import type { Runtime } from "./runtime.ts";

/** What was planned. Plans hold buffers and native objects until they are disposed. */
export interface OperationPlan extends Disposable {
  /** What runs, and what is done differently from what was asked for. */
  readonly report?: { readonly engine: string; readonly algorithm: string; readonly notes: readonly string[] };
  /** Make what all ranks make together, once, after all of them have planned. Collective. */
  open?(): void;
  /** Let go of what executions were given, if the plan keeps any of it. */
  release?(): void;
}

/** Options of an execution. */
export interface ExecuteOptions {
  /**
   * The stream of a GPU to run on, in place of the runtime's; on a CPU null. It waits for what is on the runtime's stream
   * already; what uses the result elsewhere has to wait for it. What waits for other GPUs (products, redistributions, graphs
   * that hold some) is done one after the other on all streams: in two orders GPUs would wait for each other for ever.
   */
  stream?: Stream | null;
}

/** The keys of {@linkcode ExecuteOptions}. */
export const EXECUTE_OPTION_KEYS = keysOf<ExecuteOptions>({ stream: true });

/** How an operation runs and tells what it does: the same for all of its executions. */
export interface OperationSettings {
  /** The stream of a GPU to run on if an execution names none. */
  readonly stream?: Stream | null;
  /** Whether an execution waits for the result: true always, `auto` on CPUs only. */
  readonly blocking?: true | "auto";
  /** Where messages go. */
  readonly logger?: Logger;
}

/** What a check has found. */
export interface CheckedOperation<Plan extends OperationPlan = OperationPlan> {
  /** What has to be the same on every rank. */
  readonly facts?: Facts;
  /** The plan, if it follows from what was given. */
  readonly plan?: Plan;
  readonly settings?: OperationSettings;
  /** What is done differently from what was asked for, whatever the plan. */
  readonly notes?: readonly string[];
  /** What is asked for, and planned if it is, in words. */
  explain?(plan: Plan | null): string;
}

/** What the ranks do together once all of them are ready for it. */
export interface CollectiveStep<T> {
  /** What has to be the same on every rank. */
  readonly facts?: Facts;
  /** Collective. */
  readonly run: () => T;
}

export interface Change {
  /** What has to be the same on every rank. */
  readonly facts?: Facts;
  /** Make the change, once all ranks have agreed. Local. */
  readonly commit?: () => void;
}

/** As {@linkcode agree}, or the other way to agree that is given, and returns what the check has found. Collective. */
export function checkTogether<T extends { readonly facts?: Facts }>(
  runtime: Runtime,
  operation: string,
  check: () => T,
  agreeing = agree,
): T {
  let found!: T;
  agreeing(runtime, operation, () => (found = check()).facts);
  return found;
}

/**
 * A whole life in one call, with one agreement: `check` checks, plans and prepares. Collective.
 *
 * @throws what `check` throws on any rank.
 */
export function runOnce<T, Plan extends OperationPlan>(
  runtime: Runtime,
  operation: string,
  check: () => CheckedOperation<Plan> & CollectiveStep<T>,
): T {
  const start = performance.now();
  const checked = checkTogether(runtime, operation, check);
  const account = new Account(runtime, operation, checked);
  using plan = checked.plan;
  plan?.open?.();
  if (plan) account.planned(plan, start);
  const result = account.run(checked.settings?.stream ?? null, checked.run);
  if (account.recorded !== null) noteRecorded(runtime, operation, account.recorded);
  return result;
}

/** The last recorded call of each operation in one call. */
const lastRecorded = new WeakMap<Runtime, Map<string, Recorded>>();

/** What the last call of an operation in one call did that was recorded, in words. Local. */
export function historyOf(runtime: Runtime, operation: string): string {
  return recordedInWords(runtime, operation, lastRecorded.get(runtime)?.get(operation) ?? null);
}

function noteRecorded(runtime: Runtime, operation: string, recorded: Recorded): void {
  const known = lastRecorded.get(runtime) ?? new Map<string, Recorded>();
  lastRecorded.set(runtime, known.set(operation, recorded));
}

function recordedInWords({ stream }: Runtime, name: string, recorded: Recorded | null): string {
  if (recorded === null) return `no ${name} was recorded (Runtime.record)`;
  const counted = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts).map(([name, count]) => `${name} ${count}`).join(", ");
  const calls = counted(recorded.collectives) || "none";
  const exchanges = counted(recorded.exchanges);
  const { gpuSeconds } = recorded;
  const onGpu = gpuSeconds === undefined ? "" : ` and ${(1e6 * gpuSeconds).toFixed(1)} us of its GPU`;
  const time = `${(1e6 * recorded.seconds).toFixed(1)} us${stream === null ? "" : ` of the host${onGpu}`} on this rank`;
  return `the last ${name} that was recorded took ${time}; besides its check, collective calls: ${calls}` +
    (exchanges === "" ? "" : `; exchanges: ${exchanges}`);
}

/** Refuse settings of a kind that no operation has. */
export function checkSettings({ blocking, stream, logger }: OperationSettings, runtime: Runtime): void {
  if (blocking !== undefined && blocking !== true && blocking !== "auto") {
    throw new TypeError(`blocking must be true or "auto"; got ${describe(blocking)}.`);
  }
  checkStream(stream, runtime);
  if (logger !== undefined) checkLogger(logger);
}

/** Refuse what is no stream that can be used, and any where the device has none. */
function checkStream(stream: unknown, { device, stream: own }: Runtime): void {
  if (stream === undefined || stream === null) return;
  if (device.kind === "cpu") {
    throw new ConfigurationError("stream is for GPUs; this runtime's device is a CPU. Leave it out or pass null.");
  }
  if (!(stream instanceof Stream)) throw new TypeError(`stream must be a Stream; got ${describe(stream)}.`);
  if (stream.isDisposed) throw new StateError("stream was disposed of; make a new Stream.");
  if (stream !== own && own!.isCapturing) {
    throw new StateError("While a graph is captured, everything is on the runtime's stream. Leave stream out.");
  }
}

/** How many operations of each name a runtime has had. */
const counts = new WeakMap<Runtime, Map<string, number>>();

/** Which one of its name a new operation is, as a fact: ranks make them together, so that all count alike. */
function nextOf(runtime: Runtime, name: string): Facts {
  const ofRuntime = counts.get(runtime) ?? new Map<string, number>();
  const count = (ofRuntime.get(name) ?? 0) + 1;
  counts.set(runtime, ofRuntime.set(name, count));
  return { [`which ${name} it is, in the order in which they were made`]: count };
}

/** An operation that is checked once, planned once, and executed often, on other operands if they are alike. */
export class CollectiveOperation<Operands, Plan extends OperationPlan> implements Disposable {
  readonly #runtime: Runtime;
  readonly #name: string;
  readonly #settings: OperationSettings;
  readonly #account: Account<Plan>;
  /** What tells it from others of its name, which some ranks may be at. */
  readonly #identity: Facts;
  #operands: Operands | null;
  readonly #titles = new Map<string, string>();
  #plan: Plan | null = null;
  /** How long an execution by the plan takes, if that was measured. */
  #measured: number | null = null;
  #isFreed = false;

  /** Check what an operation of this name is given. Collective. */
  constructor(runtime: Runtime, name: string, check: () => CheckedOperation<Plan> & { readonly operands: Operands }) {
    const checked = checkTogether(runtime, `new ${name}`, check);
    this.#runtime = runtime;
    this.#name = name;
    this.#identity = nextOf(runtime, name);
    this.#settings = checked.settings ?? {};
    this.#operands = checked.operands;
    this.#account = new Account(runtime, `${name}.execute`, checked);
    if (checked.plan) this.#open(checked.plan);
    this.#account.explain(this.#plan);
  }

  /** What `autotune` measured of the plan, and what the last execution did that was recorded, in words. */
  get history(): string {
    const seconds = this.#measured;
    const measured = seconds === null
      ? ""
      : `autotune measured ${(1e6 * seconds).toFixed(1)} us, on the slowest rank; `;
    return measured + recordedInWords(this.#runtime, "execution", this.#account.recorded);
  }

  /** Whether it was freed or disposed. */
  get isFreed(): boolean {
    return this.#isFreed;
  }

  /** What it works on; null after {@linkcode release}. */
  get operands(): Operands | null {
    return this.#operands;
  }

  /** The plan, if there is one. */
  get currentPlan(): Plan | null {
    return this.#plan;
  }

  /** Agree on a step of this operation, unless it was freed. Collective. */
  agree<T extends { readonly facts?: Facts }>(method: string, check: () => T): T {
    return checkTogether(this.#runtime, this.#titleOf(method), () => {
      this.checkAlive(`${method}()`);
      return this.#identified(check());
    });
  }

  planFor(member: string): Plan {
    if (this.#plan !== null) return this.#plan;
    this.checkAlive(member);
    throw new StateError(`${this.#name}.${member} was used before plan(). Call plan() first, once.`);
  }

  /**
   * Plan, and let go of the earlier plan once all ranks have done so: it stays if any cannot. `operands` replace those that
   * there are; `seconds` is what an execution by this plan was measured to take. Collective.
   */
  plan(
    method: string,
    make: (operands: Operands | null) => Change & { readonly plan: Plan; readonly operands: Operands | null },
    seconds: number | null = null,
  ): void {
    const start = performance.now();
    const { plan, operands, commit } = this.agree(method, () => make(this.#operands));
    const earlier = this.#plan;
    this.#open(plan);
    earlier?.[Symbol.dispose]();
    this.#operands = operands;
    this.#measured = seconds;
    commit?.();
    this.#account.planned(plan, start);
  }

  /**
   * What an execution needs; `prepare` allocates. Collective, and so is what it returns. `keys` are those of the options.
   */
  execute<T, Options extends ExecuteOptions = ExecuteOptions>(
    method: string,
    options: Options | undefined,
    prepare: (plan: Plan, operands: Operands, stream: Stream | null, options: Options) => CollectiveStep<T>,
    keys: readonly (keyof Options & string)[] = EXECUTE_OPTION_KEYS,
  ): T {
    let stream: Stream | null = null;
    const { run } = checkTogether(this.#runtime, this.#titleOf(method), () => {
      const given = options === undefined ? {} as Options : readOptions(`the options of ${method}`, options, keys);
      stream = given.stream ?? this.#settings.stream ?? null;
      checkStream(stream, this.#runtime);
      const [plan, operands] = this.ready(method);
      return this.#identified(prepare(plan, operands, stream, given));
    }, agreeOnExecution);
    return this.#account.run(stream, run);
  }

  #identified<T extends { readonly facts?: Facts }>(found: T): T {
    return { ...found, facts: found.facts ? { ...this.#identity, ...found.facts } : this.#identity };
  }

  /** Plan and operands, for a method that needs both. Local. */
  ready(method: string): [plan: Plan, operands: Operands] {
    const plan = this.planFor(`${method}()`);
    if (this.#operands !== null) return [plan, this.#operands];
    throw new StateError(
      `${this.#name}.${method}() was called after releaseOperands(). Pass new ones to resetOperands().`,
    );
  }

  /** Have a GPU that has worked hard get as fast again as it is, before something is measured. Local. */
  rest(): void {
    const { stream } = this.#runtime;
    if (stream === null) return;
    stream.synchronize();
    pause(REST_SECONDS);
  }

  /**
   * The time of an execution by another plan, the shortest of some, on the slowest rank, in seconds; or why the machine has no
   * room for it. Collective.
   */
  measure(
    title: string,
    make: () => { readonly plan: Plan; readonly facts?: Facts },
    prepare: (plan: Plan) => () => unknown,
    repetitions: number,
  ): number | ConfigurationError {
    try {
      return this.#measure(title, make, prepare, repetitions);
    } catch (error) {
      // With local checks one rank may be alone with it.
      if (!(error instanceof ConfigurationError) || this.#runtime.checks === "local") throw error;
      this.#account.tell(`${title} is passed over: ${error.message}`);
      return error;
    }
  }

  #measure(
    title: string,
    make: () => { readonly plan: Plan; readonly facts?: Facts },
    prepare: (plan: Plan) => () => unknown,
    repetitions: number,
  ): number {
    const { communicator, stream } = this.#runtime;
    using plan = this.agree("autotune", make).plan;
    plan.open?.();
    // Each execution counts as long as its slowest rank takes: where ranks share cores, each is the first one at times.
    const fastestOf = (seconds: readonly number[]) =>
      Math.min(...communicator.allReduce(Float64Array.from(seconds), { op: "max" }));
    const execute = (count: number) => {
      const { run } = this.agree<CollectiveStep<unknown>>("autotune", () => ({ run: prepare(plan) }));
      communicator.barrier();
      const start = performance.now();
      if (stream) return secondsOnGpu(stream, run, count);
      run();
      return (performance.now() - start) / 1000;
    };
    // The first one makes what is made at first use, the second one tells how many fill a slot on a GPU.
    execute(1);
    const once = stream ? fastestOf([execute(1)]) : 0;
    const count = stream ? Math.ceil(Math.min(MOST_IN_SLOT, SLOT_SECONDS / once)) : 1;
    const seconds = fastestOf(Array.from({ length: repetitions }, () => {
      if (stream) pause(Math.min(2 * SLOT_SECONDS, count * once));
      return execute(count);
    }));
    this.#account.tell(`${title} takes ${seconds} s`);
    return seconds;
  }

  /** Replace operands. Collective. */
  reset(method: string, change: (operands: Operands | null) => Change & { readonly operands: Operands }): void {
    const { operands, commit } = this.agree(method, () => change(this.#operands));
    this.#operands = operands;
    commit?.();
  }

  /** As {@linkcode reset}, without a check. Local. */
  resetUnchecked(operands: Operands): void {
    this.checkAlive("resetOperandsUnchecked()");
    this.#operands = operands;
  }

  /** Let go of the operands; the plan stays. Local. */
  release(): void {
    this.#plan?.release?.();
    this.#operands = null;
  }

  /** Free the plan and everything native that it holds. Collective; a second call does nothing. */
  free(): void {
    if (this.#isFreed) return;
    this[Symbol.dispose]();
    const { isFinalized, communicator } = this.#runtime;
    if (!isFinalized && !communicator.isFreed) this.#runtime.collect();
  }

  /** As {@linkcode free}, but local: what must be freed by all ranks together is freed at the next collective point. */
  [Symbol.dispose](): void {
    if (this.#isFreed) return;
    this.#isFreed = true;
    this.release();
    this.#plan?.[Symbol.dispose]();
    this.#plan = null;
  }

  #open(plan: Plan): void {
    try {
      plan.open?.();
    } catch (error) {
      plan[Symbol.dispose]();
      throw error;
    }
    this.#plan = plan;
  }

  /** One string for each: who tells of the same operation again need not look at its letters. */
  #titleOf(method: string): string {
    const known = this.#titles.get(method);
    if (known !== undefined) return known;
    const title = `${this.#name}.${method}`;
    this.#titles.set(method, title);
    return title;
  }

  /** Refuse a member after `free`. Local. */
  checkAlive(member: string): void {
    if (!this.#isFreed) return;
    throw new StateError(`${this.#name}.${member} was used after free(). Make a new ${this.#name}.`);
  }
}

/**
 * A GPU that has worked hard is up to 15 % slower, also for some 50 ms of half the load. So it rests before all that is
 * measured, and before each slot for as long as that takes.
 */
const REST_SECONDS = 0.1;

/** How long executions on a GPU are timed together, and how many at most: one alone is shorter than what starts it. */
const SLOT_SECONDS = 0.004;
const MOST_IN_SLOT = 100;

function pause(seconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000 * seconds);
}

/** Of those that are timed, so many more come first: the host takes long for the first one, and is ahead from then on. */
const LEAD = 1 / 4;

/** The time of an execution, of so many one after the other. */
function secondsOnGpu(stream: Stream, run: () => unknown, count: number): number {
  using start = new Event({ timing: true });
  using end = new Event({ timing: true });
  for (let i = 0; i < Math.ceil(count * LEAD); i++) run();
  stream.record(start);
  for (let i = 0; i < count; i++) run();
  stream.record(end);
  end.synchronize();
  return end.elapsedSince(start) / count;
}

/** Tells what an operation does, where it was asked to. */
class Account<Plan extends OperationPlan> {
  readonly #runtime: Runtime;
  readonly #logger: Logger | null;
  readonly #waits: boolean;
  readonly #explain: CheckedOperation<Plan>["explain"];
  readonly #name: string;
  #recorded: Recorded | null = null;

  constructor(runtime: Runtime, name: string, { settings = {}, notes = [], explain }: CheckedOperation<Plan>) {
    this.#runtime = runtime;
    this.#name = name;
    this.#logger = settings.logger ? guardLogger(settings.logger, runtime.rank) : null;
    this.#waits = settings.blocking === true;
    this.#explain = explain;
    for (const note of notes) {
      if (this.#logger === null) runtime.warnOnce(note, note);
      else this.#logger.warn(note);
    }
  }

  explain(plan: Plan | null): void {
    if (this.#logger && this.#explain) this.#logger.debug(this.#explain(plan));
  }

  tell(message: string): void {
    this.#logger?.info(message);
  }

  planned(plan: Plan, start: number): void {
    const { report } = plan;
    if (this.#logger === null || !report) return;
    this.tell(`planned ${report.algorithm} on ${report.engine} in ${(performance.now() - start).toFixed(3)} ms`);
    for (const note of report.notes) this.#logger.warn(note);
    this.explain(plan);
  }

  /** Run an execution that all ranks are ready for. */
  run<T>(stream: Stream | null, execute: () => T): T {
    const start = this.#logger ? performance.now() : 0;
    const result = recorder === null ? execute() : this.#record(stream, execute);
    if (this.#waits) (stream ?? this.#runtime.stream)?.synchronize();
    if (this.#logger) this.tell(`executed in ${(performance.now() - start).toFixed(3)} ms`);
    return result;
  }
  /** What the last execution that was recorded did; null if none was. */
  get recorded(): Recorded | null {
    return this.#recorded;
  }

  #record<T>(stream: Stream | null, execute: () => T): T {
    const { result, recorded } = recorder!.operation(this.#name, stream ?? this.#runtime.stream, execute);
    this.#recorded = recorded;
    return result;
  }
}
