/**
 * Threads beside the main one: they run also while it waits in a native call, and keep no script from ending.
 *
 * @module
 */
import { libcFile } from "./memory.ts";

/**
 * A function, or a class, that runs in a thread. It sees the others of that thread by their names, and nothing else of its
 * module.
 */
// deno-lint-ignore no-explicit-any
type ThreadFunction = ((...values: any[]) => unknown) | (new (...values: any[]) => unknown);

type Functions<S extends Deno.ForeignLibraryInterface> = Deno.DynamicLibrary<S>["symbols"];

/**
 * Start a thread: `main` is called in it with a copy of `data`, in which shared memory stays shared, and with `symbols` of
 * the C library, or of another one. `others` are the functions and classes that it calls.
 *
 * The thread is started from the functions' text: a file or URL of its own would take permission to read or to import it,
 * a network at the first use, and Node's workers take no URL. They are Node's since Deno's own keep a script from ending.
 */
export function startThread<T, const S extends Deno.ForeignLibraryInterface>(
  main: (data: T, functions: Functions<S>) => void,
  others: readonly ThreadFunction[],
  data: T,
  symbols: S,
  file: string = libcFile(),
): void {
  // Loaded here, since it takes 20 ms that most scripts do without.
  const { Worker } = globalThis.process.getBuiltinModule("node:worker_threads");
  const program = `import { workerData } from "node:worker_threads";
${[main, ...others].join("\n")}
const { data, file, symbols } = workerData;
${main.name}(data, Deno.dlopen(file, symbols).symbols);`;
  const url = new URL(`data:text/javascript,${encodeURIComponent(program)}`);
  new Worker(url, { workerData: { data, file, symbols } }).unref();
}
