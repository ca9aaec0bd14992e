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

const a = DistributedArray.random(runtime, [64, 64], Slab.X, { dtype: "float64" });
using _product = matmul(a, a, { logger });

if (runtime.rank === 0) console.log(lines.join("\n"));
if (lines.length === 0) Deno.exit(1);
