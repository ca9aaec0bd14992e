// A transform that is planned once and executed often, on other operands, in both directions.
//
//   deno task run -n 2 examples/fft_stateful.ts
import { DistributedArray, FFT, initialize, Slab } from "../mod.ts";

using runtime = initialize();
const fields = [1, 2, 3].map((seed) =>
  DistributedArray.random(runtime, [40, 30], Slab.X, { dtype: "complex128", seed })
);

using transform = new FFT(fields[0], { redistribute: true });
transform.plan();
// Which algorithms there are depends on shape and distributions; the fastest one stays.
const measured = transform.autotune({ repetitions: 2 });

const errors = fields.map((field) => {
  transform.resetOperands(field);
  using spectrum = transform.execute();
  transform.resetOperands(spectrum);
  using again = transform.execute({ direction: "inverse" });
  return again.maxAbsDifference(field);
});
transform.releaseOperands();
const { algorithm, variant, bytesMoved } = transform.algorithm;
if (runtime.rank === 0) {
  console.log(`measured: ${measured.map(({ algorithm }) => algorithm).join(", ")}`);
  console.log(`${algorithm}: ${variant}, ${bytesMoved} bytes between ranks`);
  console.log(`errors: ${errors.join(", ")}`);
}
if (errors.some((error) => !(error < 1e-13))) Deno.exit(1);
