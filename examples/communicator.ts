// MPI for scripts: a tour of Communicator, which works without arrays and matmul too.
//
//   deno task run -n 2 examples/communicator.ts
import { Communicator } from "../mod.ts";

const world = Communicator.world();
const { rank, size } = world;

// Typed arrays travel as they are; `into` saves the allocation.
const sum = world.allReduce(new Float64Array([rank + 1]), { op: "sum" });
const ranks = world.allGather(new Int32Array([rank]));

// Objects travel as structured clones: dates, maps, typed arrays and cycles arrive as what they were.
interface Settings {
  title: string;
  sizes: Map<string, number>;
}
const settings = world.broadcastObject<Settings | null>(
  rank === 0 ? { title: "tour", sizes: new Map([["m", 128]]) } : null,
)!;

// Point to point, without blocking: a ring.
const received = new Int32Array(1);
const receiving = world.ireceive(received, (rank + size - 1) % size);
const sending = world.isend(new Int32Array([rank * 10]), (rank + 1) % size);
await receiving;
await sending;

// A communicator of its own for even and odd ranks.
using half = world.split(rank % 2);

console.log(
  `rank ${rank} of ${size}: sum ${sum[0]}, ranks ${[...ranks]}, "${settings.title}" with m = ${
    settings.sizes.get("m")
  }, got ${received[0]}, ` +
    `${half === null ? "no half" : `rank ${half.rank} of ${half.size} in my half`}`,
);
const isRight = sum[0] === size * (size + 1) / 2 && ranks.every((value, i) => value === i) &&
  received[0] === (rank + size - 1) % size * 10 && settings.sizes.get("m") === 128;
if (!isRight) Deno.exit(1);
