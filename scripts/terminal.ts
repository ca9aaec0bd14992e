/**
 * What the commands share: errors that end a command, paths as the user means them, colours, a progress bar.
 *
 * @module
 */
import { fstatSync, statSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import process from "node:process";
import { parseArgs, type ParseArgsConfig, styleText } from "node:util";
import { nearest } from "../internals.ts";

/** Ends a command with a message on one line and an exit code; 2 means that it was called wrongly. */
export class CommandError extends Error {
  override name = "CommandError";
  /** The exit code. */
  readonly code: number;

  /** Make the error; the code is 2 unless another is given. */
  constructor(message: string, code = 2) {
    super(message);
    this.code = code;
  }
}

/** Ends a command that was asked what it does, by the answer. */
export class Help extends Error {}

/** Options of a command, as `parseArgs` takes them. */
export type Options = NonNullable<ParseArgsConfig["options"]>;

/** What {@linkcode parseCommand} returns. */
export type ParsedCommand<T extends Options> = ReturnType<
  typeof parseArgs<{ args: string[]; options: T; allowPositionals: true }>
>;

/**
 * Parse the arguments of a command.
 *
 * @throws {CommandError} when an option is unknown or lacks its value.
 * @throws {Help} the text `help`, for `--help`.
 */
export function parseCommand<const T extends Options>(args: string[], options: T, help: string): ParsedCommand<T> {
  const all: Options = { ...options, help: { type: "boolean", short: "h" } };
  const parsed = parse(joinNegativeNumbers(args, all), all);
  if (parsed.values.help === true) throw new Help(help);
  return parsed as ParsedCommand<T>;
}

function parse(args: string[], options: Options): ParsedCommand<Options> {
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    const { message } = error as Error;
    const unknown = /^Unknown option '(-[^']*)'/.exec(message)?.[1];
    throw new CommandError(unknown === undefined ? message.replace(/\.$/, "") : describeUnknown(unknown, options));
  }
}

function describeUnknown(option: string, options: Options): string {
  const names = Object.keys(options).map((name) => `--${name}`);
  const near = nearest(option, names);
  const hint = near === null ? "." : `; did you mean ${near}?`;
  return `there is no option ${option}${hint} Allowed: ${names.join(", ")}`;
}

/** Refuse arguments that a command has no use for. */
export function refuseArguments(command: string, positionals: readonly string[]): void {
  if (positionals.length > 0) throw new CommandError(`${command} takes options only, not "${positionals.join(" ")}"`);
}

/** `--alpha -2.5` as `--alpha=-2.5`: `parseArgs` alone takes a negative number for an option. */
function joinNegativeNumbers(args: string[], options: Options): string[] {
  const joined: string[] = [];
  for (const argument of args) {
    const last = joined.at(-1) ?? "";
    const isValue = /^-\.?\d/.test(argument) && options[last.replace(/^--/, "")]?.type === "string";
    if (isValue && last.startsWith("--")) joined[joined.length - 1] = `${last}=${argument}`;
    else joined.push(argument);
  }
  return joined;
}

/**
 * Split the arguments of a command at its first positional one: what follows it belongs to the script it names.
 */
export function splitAtPositional(args: string[], options: Options): [own: string[], rest: string[]] {
  const { tokens } = parseArgs({ args, options, allowPositionals: true, strict: false, tokens: true });
  const first = tokens.find(({ kind }) => kind === "positional");
  return first ? [args.slice(0, first.index), args.slice(first.index)] : [args, []];
}

/** A whole number that a user gave as `option`. */
export function parseCount(text: string, option: string, least = 1): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least) {
    throw new CommandError(`${option} takes a whole number of at least ${least}, not "${text}"`);
  }
  // Launchers take the low bits of a larger number, and start fewer ranks than asked for without a word.
  if (value >= 2 ** 31) throw new CommandError(`${option} takes a number below 2^31, not "${text}"`);
  return value;
}

/** A positive number of seconds that a user gave as `option`. */
export function parseSeconds(text: string, option: string): number {
  const value = Number(text);
  // A timer of more milliseconds than 32 bits hold goes off at once.
  if (text.trim() === "" || !(value > 0 && value < 2 ** 31 / 1000)) {
    throw new CommandError(`${option} takes a positive number of seconds below 2147483, not "${text}"`);
  }
  return value;
}

/** A path that the user gave, relative to the folder where a task of this library, which runs in its own, was called. */
export function userPath(path: string): string {
  const called = Deno.cwd() === resolve(scriptAddress("..")) ? Deno.env.get("INIT_CWD") : undefined;
  return resolve(called ?? Deno.cwd(), path);
}

/** The folder that `option` names; `undefined` without one. */
export function userFolder(path: string | undefined, option: string): string | undefined {
  if (path === "") throw new CommandError(`${option} takes the name of a folder, not ""`);
  return path === undefined ? undefined : userPath(path);
}

/**
 * Refuse a file that `option` names if it cannot be written, before the work begins whose results it is for.
 *
 * @throws {CommandError} that says what to do.
 */
export function checkWritable(path: string, option: string): void {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    // A pipe would end here for its reader.
    if (found && !found.isFile() && !found.isDirectory()) return;
    Deno.openSync(path, { append: true, create: true }).close();
    // Behind a link to a file that is still to be made.
    if (!found) Deno.removeSync(Deno.realPathSync(path));
  } catch (error) {
    throw unwritable(path, option, error);
  }
}

/** Write a file; one that is this process's output, such as `/dev/stdout`, after what has been written there. */
export function writeText(path: string, text: string): void {
  const isFileOf = (stream: number) => {
    const [found, own] = [statSync(path, { throwIfNoEntry: false }), fstatSync(stream)];
    return found?.dev === own.dev && found.ino === own.ino;
  };
  const stream = [1, 2].find(isFileOf);
  if (stream === undefined) Deno.writeTextFileSync(path, text);
  else writeFileSync(stream, text);
}

/** The error of a file, given by an option, that cannot be written to this folder. */
export function unwritable(path: string, option: string, error: unknown, folder: string = dirname(path)): CommandError {
  const todo = error instanceof Deno.errors.NotFound ? `make the folder ${folder}, or ` : "";
  const reason = oneLine(error).replace(/: \w+ '.*'$/, "");
  return new CommandError(`${option}: ${path} cannot be written: ${reason}; ${todo}name another file`);
}

/** The address of a file beside this one, as `deno run` takes it: a path, or a URL when this file came from one. */
export function scriptAddress(name: string): string {
  const url = new URL(name, import.meta.url);
  return url.protocol === "file:" ? decodeURIComponent(url.pathname) : url.href;
}

/** Text in a style, where the terminal shows it or `FORCE_COLOR` asks for it, and `NO_COLOR` does not forbid it. */
export function style(
  format: "bold" | "dim" | "green" | "red" | "yellow" | "blue" | "magenta" | "cyan",
  text: string,
  stream: "stdout" | "stderr" = "stdout",
): string {
  // Node takes an empty FORCE_COLOR for a wish, Deno for none.
  const isUnasked = Deno.env.get("FORCE_COLOR") === "" && !process[stream].isTTY;
  return isUnasked ? text : styleText(format, text, { stream: process[stream], validateStream: true });
}

/** Variables for ranks whose output is read by a command. */
export const withoutColors = { NO_COLOR: "1", FORCE_COLOR: "" } as const;

/**
 * Variables for ranks whose output is passed on: launchers give them terminals and pipes of their own, which say nothing of
 * where the output goes.
 */
export function colorVariables(): Record<string, string> {
  if (Deno.env.get("FORCE_COLOR")) return {};
  const isShown = Deno.stdout.isTerminal() && Deno.stderr.isTerminal();
  return isShown && !Deno.noColor ? { FORCE_COLOR: "1" } : { NO_COLOR: "1" };
}

/** Bytes as people read them: `123 MB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1);
  const value = bytes / 1000 ** power;
  return `${value.toFixed(value < 10 && power > 0 ? 1 : 0)} ${units[power]}`;
}

/** A sentence for one line of the terminal: the message of an error without its stack or its line breaks. */
export function oneLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/\s*\n\s*/g, " ").trim();
}

/** Whether somebody looks at standard error as it grows, so that a line of it can be written over. */
function isWatched(): boolean {
  return Deno.stderr.isTerminal() && !Deno.env.get("CI") && Deno.env.get("TERM") !== "dumb";
}

/**
 * Variables for ranks whose output is passed on: after how many seconds they tell of long files. Where nobody watches the
 * lines stay, so that there are fewer.
 */
export function progressVariables(): Record<string, string> {
  return Deno.env.get("DISTMATH_PROGRESS") === undefined ? { DISTMATH_PROGRESS: isWatched() ? "2" : "30" } : {};
}

/** How a {@linkcode ProgressBar} tells of progress. */
export interface ProgressOptions {
  /** How far it is, in words; bytes when left out. */
  format?: (done: number) => string;
  /** Whether each step is told of in a line where nobody watches: not if it is told of otherwise. True when left out. */
  hasLines?: boolean;
}

/** A progress bar on standard error; where nobody watches, such as in a pipe or in CI, a line a step. */
export class ProgressBar {
  readonly #total: number;
  readonly #format: (done: number) => string;
  readonly #hasLines: boolean;
  readonly #live = isWatched();
  #step = "";

  /** A bar that is full at `total`, of bytes or what else there is. */
  constructor(total: number, { format = formatBytes, hasLines = true }: ProgressOptions = {}) {
    this.#total = total;
    this.#format = format;
    this.#hasLines = hasLines;
  }

  /** Show what is being done, and how far it is. */
  update(step: string, amount: number): void {
    const done = Math.min(amount, this.#total);
    if (this.#live) {
      const width = 24;
      const full = this.#total === 0 ? width : Math.round(width * done / this.#total);
      const bar = "█".repeat(full) + "░".repeat(width - full);
      const line = `${bar} ${this.#format(done)} of ${this.#format(this.#total)}  ${step}`;
      // One that wraps would leave its first row behind.
      this.#write(`\r\x1b[K${[...line].slice(0, columnsOfTerminal() - 1).join("")}`);
    } else if (this.#hasLines && step !== this.#step) {
      this.#write(`${step}\n`);
    }
    this.#step = step;
  }

  /** Take the bar away, for good or to write something else. */
  end(): void {
    if (this.#live) this.#write("\r\x1b[K");
  }

  #write(text: string): void {
    Deno.stderr.writeSync(new TextEncoder().encode(text));
  }
}

/** How many characters fit into a line of the terminal. */
function columnsOfTerminal(): number {
  try {
    return Deno.consoleSize().columns || 80;
  } catch {
    return 80;
  }
}

/** A bar that counts jobs, whose results are printed when they are there. */
export function jobProgress(jobs: number): ProgressBar {
  return new ProgressBar(jobs, { format: String, hasLines: false });
}

/** The exit codes of what these signals end. */
export const signalCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Have Ctrl-C, SIGTERM and SIGHUP call what `handler` returns for their exit code, until disposed of. */
export function onSignals(handler: (code: number) => () => void): Disposable {
  const handlers = Object.entries(signalCodes).map(([name, code]) => [name as Deno.Signal, handler(code)] as const);
  for (const [signal, handle] of handlers) Deno.addSignalListener(signal, handle);
  return {
    [Symbol.dispose]() {
      for (const [signal, handle] of handlers) Deno.removeSignalListener(signal, handle);
    },
  };
}
