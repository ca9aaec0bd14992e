/**
 * Reading the test results that `deno test --reporter=tap` prints, and what `test_output.ts` tells besides.
 *
 * @module
 */

/** How a test went. */
export type Outcome = "passed" | "failed" | "skipped";

export interface TestResult {
  /** The test's name. */
  name: string;
  outcome: Outcome;
  /** The error of a failed one, with those of its steps. */
  message: string;
  /** What was printed while it ran. */
  output: string[];
}

/** A test that began. */
export interface Start {
  /** The test's name. */
  name: string;
  /** What was printed since then. */
  output: string[];
  /** When that was, in milliseconds; left out without a clock. */
  at?: number;
  /** How long its body took; left out while it runs. */
  seconds?: number;
  /** The error of this rank itself, with its stack, while the others may not know of it yet. */
  failure?: string;
  /** Whether it went well on this rank, which has to wait for the others yet. */
  isWaiting?: boolean;
  /** Whether an error that nobody caught has ended the process since then. */
  isFatal?: boolean;
  /** Whether its body has ended: the process may be gone before it reports the result. */
  end?: Pick<TestResult, "outcome" | "message">;
}

/** A test that a file has registered. */
export interface Registration {
  name: string;
  /** Whether it is marked to be left out. */
  isIgnored: boolean;
  /** Why, if that is known. */
  reason?: string;
  /** Whether it is marked to be the only one that runs. */
  isOnly: boolean;
}

/**
 * What `test_output.ts` tells, which TAP does not or too late: a test was registered, it begins, it may take so long, it
 * fails on this rank, or waits there for the others, its body has ended; what runs before or after it has failed; an error
 * was caught by nobody, or by somebody after all.
 */
export type News =
  | { registered: Registration }
  | { started: string; isAgain: boolean }
  | { limited: string; seconds: number }
  | { failed: string; error: string }
  | { waits: string }
  | { ended: string; error: string | null }
  | { hook: string }
  | { uncaughtIn: string | null; isFatal: boolean };

/** A name without the reason that a test which is left out may end it with: Deno has no other place for that. */
export function splitReason(name: string): Pick<Registration, "name" | "reason"> {
  const [, bare, reason] = /^(.+?) \(skipped: (.+)\)$/s.exec(name) ?? [];
  return bare === undefined ? { name } : { name: bare, reason };
}

/** Begins a line with {@linkcode News} as JSON. */
export const newsMarker = "# distmath test: ";

/**
 * Reads TAP line by line. Other lines are the output of the test that began last: results come in another stream, and may
 * be late. Where it is not told that tests begin, they are the output of the test whose result follows.
 */
export class TapReader {
  /** The tests of the file. */
  readonly registered: Registration[] = [];
  /** Those that began. */
  readonly started: Start[] = [];
  /** The results so far. */
  readonly results: TestResult[] = [];
  /** How often a test has begun, said how long it may take, or ended. */
  steps = 0;
  /** How long the test that runs may take by its own word. */
  ownSeconds: number | null = null;
  /** Whether what runs before or after tests has failed: a test may fail then without having begun. */
  hasFailedAround = false;
  /** Whether all tests have run: their number is printed at the end. */
  isFinished = false;
  /** Whether an error that nobody caught has ended the file outside of its tests. */
  #isFatal = false;
  #output: string[] = [];
  #details: string[] = [];
  /** Whether `deno test` has begun to say that tests failed. */
  #isAtEnd = false;
  /** The step whose error follows. */
  #failedStep = "";
  readonly #clock: (() => number) | null;

  /** @param clock Milliseconds, by which tests are timed as they begin and end. */
  constructor(clock: (() => number) | null = null) {
    this.#clock = clock;
  }

  /** Whether an error that nobody caught has ended the process: nothing begins after that. */
  get isDead(): boolean {
    return this.started.at(-1)?.isFatal ?? (this.started.length === 0 && this.#isFatal);
  }

  /** What was printed last. */
  get output(): string[] {
    return this.started.at(-1)?.output ?? this.#output;
  }

  /** Take a line. What tests print goes to standard error, where it is no result whatever it looks like. */
  push(line: string, stream: "stdout" | "stderr" = "stdout"): void {
    if (line.startsWith(newsMarker)) {
      this.#take(line.slice(newsMarker.length));
      return;
    }
    if (stream === "stderr") {
      if (!this.#isRepeated(line) && !this.#isEndOfRunner(line)) this.output.push(line);
      return;
    }
    const result = /^(not )?ok \d+ - (.*)$/.exec(line);
    if (result) {
      this.#add(result[2], result[1] !== undefined);
      return;
    }
    if (this.#addBehind(line)) return;
    this.#failedStep = unescaped(/^\s+not ok \d+ - (.*)$/.exec(line)?.[1] ?? this.#failedStep);
    this.isFinished ||= /^1\.\.\d+$/.test(line);
    const detail = /^\s+(\{"message":.*\})\s*$/.exec(line);
    if (detail) this.#addMessage(detail[1], line);
    else if (!isStructure(line) && !this.#isRepeated(line)) this.output.push(line);
  }

  /** Between two tests Deno itself tells of an error that nobody caught, too. */
  #isRepeated(line: string): boolean {
    return this.isDead &&
      ["error: ", "error: Uncaught ", "error: Uncaught (in promise) "].some((words) =>
        this.output.includes(line.replace(/^error: /, words))
      );
  }

  /** What `deno test` says at its end of tests that failed, unless one prints that. */
  #isEndOfRunner(line: string): boolean {
    const last = this.started.at(-1);
    if (last !== undefined && last.end === undefined) return false;
    this.#isAtEnd ||= line === "error: Test failed";
    return this.#isAtEnd && /^(error: Test failed|Stack backtrace:|\s+\d+: <unknown>|)$/.test(line);
  }

  #take(json: string): void {
    let news: News;
    try {
      news = JSON.parse(json);
    } catch {
      return; // Cut off with the process.
    }
    if ("registered" in news) this.registered.push(news.registered);
    else if ("started" in news) this.#start(news.started, news.isAgain);
    else if ("hook" in news) this.hasFailedAround = true;
    else if ("limited" in news) this.#step(news.seconds);
    else if ("ended" in news) this.#end(news.ended, news.error);
    else if ("waits" in news) this.#note(news.waits, { isWaiting: true });
    else if ("failed" in news) this.#note(news.failed, { failure: news.error });
    else if (news.uncaughtIn === null) this.#isFatal = news.isFatal;
    else this.#note(news.uncaughtIn, { isFatal: news.isFatal });
  }

  #step(ownSeconds: number | null = null): void {
    this.steps++;
    this.ownSeconds = ownSeconds;
  }

  #start(name: string, isAgain: boolean): void {
    this.#step();
    // Of several attempts the last one counts.
    const earlier = isAgain ? this.started.findLastIndex((start) => start.name === name) : -1;
    const output = earlier < 0 ? [] : this.started.splice(earlier, 1)[0].output;
    this.started.push({ name, output, ...this.#clock && { at: this.#clock() } });
  }

  /** Of files that run side by side, the test that began last may be of another one. */
  #note(name: string, more: Partial<Start>): void {
    Object.assign(this.started.findLast((start) => start.name === name) ?? {}, more);
  }

  #end(name: string, error: string | null): void {
    this.#step();
    const at = this.started.findLast((start) => start.name === name)?.at;
    this.#note(name, {
      ...this.#clock && at !== undefined && { seconds: (this.#clock() - at) / 1000 },
      end: error === null ? { outcome: "passed", message: "" } : { outcome: "failed", message: error },
    });
  }

  /** A result that is due, behind what native code has printed without an end of line; returns whether it is one. */
  #addBehind(line: string): boolean {
    const [, printed, not, number, text] = /^(.*?)(not )?ok (\d+) - (.*)$/.exec(line) ?? [];
    // Steps are told of behind four spaces.
    if (printed === undefined || /^\s*$|\s{4}$/.test(printed) || Number(number) !== this.results.length + 1) {
      return false;
    }
    const isOf = (test: { name: string }) => test.name === nameIn(text);
    if (this.results.filter(isOf).length >= this.registered.filter(isOf).length) return false;
    (this.started.findLast(isOf)?.output ?? this.#output).push(printed);
    this.#add(text, not !== undefined);
    return true;
  }

  #add(text: string, isFailed: boolean): void {
    const isSkipped = / # SKIP\b/.test(text);
    const name = nameIn(text);
    const outcome = isSkipped ? "skipped" : isFailed ? "failed" : "passed";
    const earlier = this.results.filter((result) => result.name === name).length;
    const start = this.started.filter((start) => start.name === name)[earlier];
    this.results.push({ name, outcome, message: this.#details.join("\n"), output: start?.output ?? this.#output });
    this.#details = [];
    if (!start) this.#output = [];
  }

  /** The message of a failed test follows its line; those of its steps come before it. */
  #addMessage(json: string, line: string): void {
    let message: string;
    try {
      message = JSON.parse(json).message;
    } catch {
      message = json;
    }
    const last = this.results.at(-1);
    const isOfTest = /^ {2}\{/.test(line) && last?.outcome === "failed";
    // The steps themselves have told of it.
    if (/^\d+ test steps? failed\.$/.test(message) && (!isOfTest || last.message !== "")) return;
    if (isOfTest) last.message = [last.message, message].filter(Boolean).join("\n");
    else this.#details.push(`in step "${this.#failedStep}": ${message}`);
  }
}

/** The name of the test that a result is of. */
function nameIn(text: string): string {
  return unescaped(text.replace(/ # SKIP\b.*$/, ""));
}

/** A name as it was before TAP. */
function unescaped(name: string): string {
  return name.replace(/\\([#\\])/g, "$1");
}

function isStructure(line: string): boolean {
  return line.trim() === "" || /^\s*(TAP version \d+|\d+\.\.\d+|---|\.\.\.|# |(not )?ok \d+ - )/.test(line) ||
    /^(error: Test failed$|Stack backtrace:|\s+\d+: <unknown>)/.test(line);
}
