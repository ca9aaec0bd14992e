/**
 * Loaded before a test file on each rank: lets what tests print through to standard error, since `deno test` keeps it
 * back for a reporter that does not show it.
 *
 * @module
 */
import { format } from "node:util";

const output = Deno.openSync("/dev/stderr", { append: true });

function print(...values: unknown[]): void {
  output.writeSync(new TextEncoder().encode(`${format(...values)}\n`));
}

for (const name of ["debug", "error", "info", "log", "warn"] as const) console[name] = print;

// An error outside a test ends the file without a word in that reporter.
addEventListener("error", ({ error }) => print("error: Uncaught", error));
addEventListener("unhandledrejection", ({ reason }) => print("error: Uncaught (in promise)", reason));
