/**
 * What arrays on GPUs reach: copies, fills, conversions, random numbers, reductions, redistribution.
 *
 * Start it on as many ranks as there are GPUs: `deno task run -n 2 bench/gpu_arrays.ts`. Rank 0 prints microseconds and
 * the gigabytes that a GPU reads and writes a second (for a redistribution: of its part), as JSON.
 *
 * @module
 */
import { DeviceBuffer, DistributedArray, type DType, dtypeInfo, initialize, LocalArray, Slab } from "../mod.ts";

const ROUNDS = 20;
const EXTENT = 16384;
const DTYPES: readonly DType[] = ["bfloat16", "float32", "float64"];

const runtime = initialize();
const { stream, device, rank, size } = runtime;
if (stream === null) throw new Error("This benchmark needs a GPU.");
const results: Record<string, { microseconds: number; gigabytesPerSecond?: number }> = {};

/** The mean of some rounds; what they did has ended. */
function measure(name: string, bytes: number, action: () => void, rounds = ROUNDS): void {
  action();
  stream!.synchronize();
  const start = performance.now();
  for (let i = 0; i < rounds; i++) action();
  stream!.synchronize();
  const microseconds = Math.round(1e4 * (performance.now() - start) / rounds) / 10;
  const speed = bytes === 0 ? {} : { gigabytesPerSecond: Math.round(bytes / microseconds / 1e3) };
  results[name] = { microseconds, ...speed };
}

for (const dtype of DTYPES) {
  const { itemSize } = dtypeInfo(dtype);
  const bytes = itemSize * EXTENT * EXTENT;
  const inner = [EXTENT - 2, EXTENT - 2];
  const [a, b] = [1, 2].map(() => LocalArray.zeros(dtype, [EXTENT, EXTENT], "C", stream));
  const wide = LocalArray.zeros(dtype === "float32" ? "float64" : "float32", [EXTENT, EXTENT], "C", stream);
  const wideBytes = wide.byteLength;
  measure(`${dtype}: copy`, 2 * bytes, () => b.set(a));
  measure(`${dtype}: transposing copy`, 2 * bytes, () => b.set(a.transpose()));
  measure(`${dtype}: copy of a slice`, 2 * bytes, () => b.slice([1, 1], inner).set(a.slice([0, 0], inner)));
  measure(`${dtype}: fill`, bytes, () => b.fill(3));
  measure(`${dtype} to ${wide.dtype}`, bytes + wideBytes, () => wide.set(a));
  measure(`${wide.dtype} to ${dtype}`, bytes + wideBytes, () => a.set(wide));
  for (const array of [a, b, wide]) array.release();

  const make = () => DistributedArray.random(runtime, [EXTENT, EXTENT], Slab.X, { dtype, seed: 1 });
  const whole = make();
  const part = bytes / size;
  measure(`${dtype}: random`, part, () => make().free());
  measure(`${dtype}: sum`, part, () => void whole.sum());
  measure(`${dtype}: maxAbsDifference`, 2 * part, () => void whole.maxAbsDifference(whole));
  measure(`${dtype}: redistribute Slab.X to Slab.Y`, part, () => whole.redistribute(Slab.Y).free());
  whole.free();
}

const small = DistributedArray.zeros(runtime, [16, 16], Slab.X);
measure("a buffer of 4096 bytes, made and freed", 0, () => new DeviceBuffer(stream, 4096).free(), 2000);
measure("zeros of 16 x 16, made and freed", 0, () => DistributedArray.zeros(runtime, [16, 16], Slab.X).free(), 1000);
measure("sum of 16 x 16", 0, () => void small.sum(), 200);
if (rank === 0) {
  const versions = runtime.versions().map(({ name, version }) => `${name} ${version}`);
  console.log(JSON.stringify({ device: device.name, ranks: size, extent: EXTENT, versions, results }, null, 2));
}
