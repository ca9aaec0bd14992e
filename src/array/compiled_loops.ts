/**
 * Loops over arrays by the machine's own C compiler, what they have in common.
 *
 * @module
 */
import { compileFunctions } from "../../ffi/compiler.ts";
import { recorder } from "../runtime/recorder.ts";

/** No cache of a core holds so many bytes: what is written to as many is written past the caches. */
export const BEYOND_CACHES = 2 ** 25;

/** As {@linkcode compileFunctions}, with a span in what is recorded if the compiler has to be started. */
export function compileLoops<const S extends Deno.ForeignLibraryInterface>(
  name: string,
  source: string,
  symbols: S,
): Deno.DynamicLibrary<S>["symbols"] | null {
  return compileFunctions(name, source, symbols, () => {
    const span = recorder?.begin("compute", "compiling for the CPU");
    return span && (() => span.end());
  });
}
