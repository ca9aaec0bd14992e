// Transforms of real numbers, of whose spectrum only one half is kept; and in place, in padded rows.
//
//   deno task run -n 2 examples/fft_real.ts
import { allocateOperand, DistributedArray, initialize, irfft, rfft, Slab } from "../mod.ts";

using runtime = initialize();
const shape = [12, 18, 15];
using field = DistributedArray.random(runtime, shape, Slab.X, { dtype: "float64", seed: 1 });

// The last axis is halved: 15 real numbers have 8 frequencies, the others are conjugates.
using spectrum = rfft(field);
// Whether it was 14 or 15 numbers, the spectrum does not tell.
using again = irfft(spectrum, { lastAxisParity: "odd" });
const error = again.maxAbsDifference(field);

// In place: each row of real numbers has room for the row of complex ones that takes its place.
const operand = allocateOperand(runtime, shape, Slab.X, { dtype: "float64" });
operand.local.set(field.local);
const strides = operand.local.strides;
const inPlace = rfft(operand, { inplace: true });
const difference = inPlace.maxAbsDifference(spectrum);

if (runtime.rank === 0) {
  console.log(`[${field.shape}] in ${field.distribution} -> [${spectrum.shape}] in ${spectrum.distribution} and back`);
  console.log(`error ${error}; in place, with strides [${strides}]: difference ${difference}`);
}
if (!(error < 1e-13 && difference < 1e-12)) Deno.exit(1);
