/**
 * Reading the test results that `deno test --reporter=tap` prints.
 *
 * @module
 */

/** How a test went. */
export type Outcome = "passed" | "failed" | "skipped";

/** One test's result. */
export interface TestResult {
  /** The test's name. */
  name: string;
  /** How it went. */
  outcome: Outcome;
  /** The error of a failed one, with those of its steps. */
  message: string;
  /** What was printed since the result before. */
  output: string[];
}

/**
 * Reads TAP line by line; other lines are kept as the output of the test whose result follows.
 */
export class TapReader {
  /** The results so far. */
  readonly results: TestResult[] = [];
  /** What was printed since the last result. */
  output: string[] = [];
  /** Whether all tests have run: their number is printed at the end. */
  isFinished = false;
  #details: string[] = [];

  /** Take a line. */
  push(line: string): void {
    const result = /^(not )?ok \d+ - (.*)$/.exec(line);
    if (result) {
      this.#add(result[2], result[1] !== undefined);
      return;
    }
    this.isFinished ||= /^1\.\.\d+$/.test(line);
    const detail = /^\s+(\{"message":.*\})\s*$/.exec(line);
    if (detail) this.#addMessage(detail[1], line);
    else if (!isStructure(line)) this.output.push(line);
  }

  #add(text: string, isFailed: boolean): void {
    const isSkipped = / # SKIP\b/.test(text);
    const name = text.replace(/ # SKIP\b.*$/, "").replace(/\\#/g, "#");
    const outcome = isSkipped ? "skipped" : isFailed ? "failed" : "passed";
    this.results.push({ name, outcome, message: this.#details.join("\n"), output: this.output });
    this.#details = [];
    this.output = [];
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
    if (/^ {2}\{/.test(line) && last?.outcome === "failed") {
      last.message = [last.message, message].filter(Boolean).join("\n");
    } else {
      this.#details.push(message);
    }
  }
}

function isStructure(line: string): boolean {
  return line.trim() === "" || /^\s*(TAP version \d+|\d+\.\.\d+|---|\.\.\.|# |(not )?ok \d+ - )/.test(line) ||
    /^(error: Test failed|Stack backtrace:|\s+\d+: <unknown>)/.test(line);
}
