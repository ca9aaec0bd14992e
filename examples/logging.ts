// A logger is told what is planned and what ran. `console` will do, and so will any object with the same methods.
//
//   deno task run -n 2 examples/logging.ts
import { DistributedArray, initialize, matmul, Slab } from "../mod.ts";

using runtime = initialize();
const lines: string[] = [];
const logger = {
  debug: (message: string) => lines.push(`debug ${message}`),
  info: (message: string) => lines.push(`info  ${message}`),
  warn: (message: string) => lines.push(`warn  ${message}`),
};

const a = DistributedArray.full(runtime, [64, 64], Slab.X, 1, { dtype: "float64" });
using product = matmul(a, a, { logger });

runtime.print(lines.join("\n"));
if (lines.length === 0 || product.sum() !== 64 ** 3) Deno.exit(1);
