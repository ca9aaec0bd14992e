// Qualifiers say what is done to an operand before it is multiplied: as an object, or as packed records.
//
//   deno task run -n 2 examples/qualifiers.ts
import { DistributedArray, initialize, matmul, matrixQualifiers, Slab } from "../mod.ts";

using runtime = initialize();
const n = 24;
const a = DistributedArray.random(runtime, [n, n], Slab.X, { dtype: "complex128", seed: 1 });
const b = DistributedArray.random(runtime, [n, n], Slab.X, { dtype: "complex128", seed: 2 });

// A^H B, written as an object …
using d = matmul(a, b, { qualifiers: { a: { isTranspose: true, isConjugate: true } } });

// … and as one record a matrix (A, B, C), packed so that native code could read the buffer.
const records = matrixQualifiers(3);
records[0].isTranspose = 1;
records[0].isConjugate = 1;
using same = matmul(a, b, { qualifiers: records });

const difference = d.maxAbsDifference(same);
runtime.print(`A^H B twice, difference ${difference}, D is ${d.distribution}`);
if (difference !== 0) Deno.exit(1);
