/** Copies between processes: what a rank takes of what others offer, and what it leaves them when it fails. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { addressOf } from "../../../ffi/memory.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import { onRoot, planRedistribution } from "../../../src/array/redistribution/plan.ts";
import { ProcessExecutor } from "../../../src/array/redistribution/process_executor.ts";
import { Slab } from "../../../src/distribution/mod.ts";
import { StateError } from "../../../src/errors.ts";
import { PeerChannels } from "../../../src/memory/peer_channels.ts";

/** Linux gives numbers below 2^22. */
const nobody = 2 ** 22 + 1;

/** Two ranks that are both this process, or think so. */
function ranks(processes = [Deno.pid, Deno.pid]): PeerChannels[] {
  const memories = [0, 1].map(() => new ArrayBuffer(2 ** 14));
  return [0, 1].map((rank) => new PeerChannels(rank, 64, memories, processes));
}

const float64 = (shape: number[]) => LocalArray.zeros("float64", shape);

Deno.test("a rank copies what another one offers, wherever that lies, and never beyond its end", () => {
  const [here, there] = ranks();
  const shape = [4, 4];
  const plan = planRedistribution(onRoot(shape, 2, 1), onRoot(shape, 2, 0), 0);
  const target = float64(shape);
  const move = new ProcessExecutor(plan).prepare(here, float64([0, 0]), target, "C");
  const offering = there.offering(0, "read");
  const rows = (width: number) => Float64Array.from({ length: 4 * width }, (_, i) => i);
  const offer = (memory: Float64Array<ArrayBuffer>, bytes: number, strides: number[]) =>
    offering.offer({ address: Number(addressOf(memory)), bytes, strides });
  for (const width of [4, 8]) {
    const memory = rows(width);
    offer(memory, memory.byteLength, [width, 1]);
    move();
    assert(offering.isUsed());
    assertEquals(target.toNumbers(), Array.from({ length: 16 }, (_, i) => i % 4 + width * Math.floor(i / 4)));
  }
  const memory = rows(4);
  offer(memory, 120, [4, 1]);
  const expected =
    "Rank 1 offers 120 bytes of memory, of which this rank was to read the first 128: the ranks are in " +
    'different redistributions. Call them in the same order on all ranks; checks: "collective" finds out.';
  assertThrows(move, StateError, expected);
  assert(!offering.isUsed());
});

Deno.test("memory that others may still write to when a copy fails is never given to another array", () => {
  const [from, to] = [Slab.X, Slab.Y].map((slab) => slab.bind([512, 512], 2));
  const plan = planRedistribution(from, to, 0);
  const moved = (process: number) => {
    const [here, there] = ranks([Deno.pid, process]);
    const [source, target, theirs] = [from, to, to].map((parts, i) => float64(parts.localShape(i === 2 ? 1 : 0)));
    const move = new ProcessExecutor(plan).prepare(here, source, target, "C");
    // The other rank offers its own target, and has written to this one's.
    there.offering(0, "write").offer({ address: Number(theirs.address), bytes: theirs.byteLength, strides: [256, 1] });
    there.offered(0, "write").finish();
    return { move, target };
  };
  const { move, target } = moved(Deno.pid);
  move();
  target.release();
  assert(target.isLost);
  const failed = moved(nobody);
  assertThrows(failed.move, StateError, `the memory of process ${nobody}, none came`);
  failed.target.release();
  assert(!failed.target.isLost);
});
