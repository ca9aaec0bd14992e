/**
 * Which algorithm cuBLASMp took, as its log tells: nothing else does.
 *
 * @module
 */
import { environment } from "../../../../ffi/library.ts";
import { toCString } from "../../../../ffi/memory.ts";
import type { CublasMp } from "../../../../ffi/cuda/cublasmp.ts";
import { algorithmNamed, type CublasMpAlgorithm } from "./attributes.ts";
import { type CublasMpPath, PATH_NAMES } from "./paths.ts";

/** What the log says about a product. */
export interface ObservedAlgorithm {
  /** The path, or null if its name is new. */
  readonly path: CublasMpPath | null;
  /** The algorithm, where the path has several. */
  readonly algorithm: CublasMpAlgorithm | null;
  /** The log's own words. */
  readonly text: string;
}

/** Errors, traces and hints. */
const LEVEL = 3;

const USING = /\bUsing (?:([A-Z0-9_]+) )?([^\n]*Matmul[^\n]*)/g;

/** The algorithm that a part of the log names, or null if it names none. */
export function parseLog(log: string): ObservedAlgorithm | null {
  const matches = [...log.matchAll(USING)].map(([, word = "", name = ""]) => ({ word, name: name.trim() }));
  const last = matches.at(-1);
  if (last === undefined) return null;
  const paths = Object.keys(PATH_NAMES) as CublasMpPath[];
  const path = paths.find((candidate) => last.name === PATH_NAMES[candidate]) ?? null;
  return { path, algorithm: algorithmNamed(last.word), text: `${last.word} ${last.name}`.trim() };
}

let file: string | null | undefined;

/** A file for the log; null if there cannot be one, or the user has a log. */
function openLog(symbols: CublasMp["symbols"]): string | null {
  if (environment("CUBLASMP_LOG_LEVEL") || environment("CUBLASMP_LOG_FILE")) return null;
  try {
    const path = Deno.makeTempFileSync({ prefix: "distmath-cublasmp-", suffix: ".log" });
    globalThis.addEventListener("unload", () => Deno.removeSync(path));
    return symbols.cublasMpLoggerOpenFile(toCString(path)) === 0 ? path : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable || error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** What the log says went wrong, or null. */
export function errorsOf(log: string): string | null {
  const lines = log.split("\n").filter((line) => line.includes("[Error]")).map((line) =>
    line.replace(/^.*\[Error\]/, "")
  );
  return lines.length === 0 ? null : lines.join("; ");
}

/**
 * Run a product and return what the log says about it; null if no log can be had.
 *
 * @throws what `run` throws, with the errors in the log added to its message.
 */
export function observe(symbols: CublasMp["symbols"], run: () => void): ObservedAlgorithm | null {
  if (file === undefined) file = openLog(symbols);
  if (file === null) {
    run();
    return null;
  }
  const path = file;
  const start = Deno.statSync(path).size;
  const written = () => new TextDecoder().decode(Deno.readFileSync(path).subarray(start));
  symbols.cublasMpLoggerSetLevel(LEVEL);
  try {
    run();
  } catch (error) {
    const errors = errorsOf(written());
    if (error instanceof Error && errors !== null) error.message += ` The log of cuBLASMp: ${errors}`;
    throw error;
  } finally {
    symbols.cublasMpLoggerSetLevel(0);
  }
  return parseLog(written());
}
