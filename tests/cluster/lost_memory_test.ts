/** Arrays whose buffer was transferred away: told of on every rank, whatever is done with them. */
import { assertEquals } from "@std/assert";
import {
  DistributedArray,
  initialize,
  Matmul,
  matmul,
  Redistribution,
  type Runtime,
  saveNpy,
  Slab,
  StateError,
  syrk,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";

const MANY = { ranks: [2, 3, 4] };

/** An array of this rank's own buffer. */
function inBuffer(runtime: Runtime): { array: DistributedArray; buffer: ArrayBuffer } {
  const data = new Float64Array(8).fill(1);
  const array = DistributedArray.fromLocal(runtime, data, Slab.X, { localShape: [2, 4] });
  return { array, buffer: data.buffer };
}

clusterTest("memory that one rank transferred away is told of on every rank", MANY, (runtime) => {
  const gone = "is gone on this rank: it was that of an array that was freed, or its buffer was transferred away";
  const folder = Deno.makeTempDirSync();
  const uses: ((array: DistributedArray, turned: DistributedArray) => unknown)[] = [
    (a) => a.sum(),
    (a) => a.copy(),
    (a) => a.redistribute(Slab.Y),
    (_, turned) => turned.gather(),
    (a) => saveNpy(a, `${folder}/a.npy`),
    (a) => syrk(a),
    (a, turned) => matmul(a, turned),
  ];
  for (const use of uses) {
    const { array, buffer } = inBuffer(runtime);
    const turned = array.transpose();
    if (runtime.rank === 1) buffer.transfer();
    assertThrowsEverywhere(runtime, () => use(array, turned), StateError, gone);
  }
  const { array: { local }, buffer } = inBuffer(runtime);
  if (runtime.rank === 1) buffer.transfer();
  const again = () => DistributedArray.fromLocal(runtime, local, Slab.X);
  assertThrowsEverywhere(runtime, again, StateError, "The memory of the LocalArray is gone");
  assertEquals([...Deno.readDirSync(folder)], []);
  Deno.removeSync(folder);
});

clusterTest("planned products and redistributions find that memory has gone", MANY, (runtime) => {
  const { array, buffer } = inBuffer(runtime);
  using b = DistributedArray.full(runtime, [4, 2], Slab.Y, 1);
  using product = new Matmul(array, b);
  product.plan();
  using plan = new Redistribution(array, Slab.Y);
  const bias = new Float64Array(2);
  using biased = new Matmul(array, b, { epilog: "bias", epilogInputs: { bias } });
  biased.plan();
  product.execute();
  biased.execute();
  if (runtime.rank === 0) bias.buffer.transfer();
  assertThrowsEverywhere(runtime, () => biased.execute(), StateError, "The memory of epilogInputs.bias is gone");
  if (runtime.rank === 0) buffer.transfer();
  assertThrowsEverywhere(runtime, () => product.execute(), StateError, "The memory of a is gone on this rank");
  assertThrowsEverywhere(runtime, () => product.autotune(), StateError, "The memory of a is gone on this rank");
  assertThrowsEverywhere(
    runtime,
    () => product.resetOperands({ b }),
    StateError,
    "The memory of a is gone on this rank",
  );
  assertThrowsEverywhere(runtime, () => plan.execute(), StateError, "The memory of the array is gone on this rank");
  const fresh = inBuffer(runtime).array;
  product.resetOperands({ a: fresh });
  assertEquals(product.execute().sum(), 2 * runtime.size * 4 * 2);
});

clusterTest('checks: "local" finds memory that has gone, too', (runtime) => {
  runtime[Symbol.dispose]();
  using local = initialize({ device: "cpu", checks: "local" });
  const { array, buffer } = inBuffer(local);
  using b = DistributedArray.full(local, [4, 2], Slab.Y, 1);
  using product = new Matmul(array, b);
  product.plan();
  buffer.transfer();
  assertThrowsEverywhere(local, () => product.execute(), StateError, "The memory of a is gone");
});
