// Symmetric memory: every rank has a buffer of the same size, and reads and writes those of the others without messages.
//
//   deno task run -n 2 examples/symmetric_memory.ts
import { allocateSymmetricMemory, DistributedArray, freeSymmetricMemory, initialize, Slab } from "../mod.ts";

using runtime = initialize();
const { rank, size } = runtime;
const mailbox = allocateSymmetricMemory(runtime, [size, 4], { dtype: "float32" });

// Each rank writes one row of every rank's mailbox: on GPUs through NVSHMEM's heap, on CPUs through a shared window.
for (let peer = 0; peer < size; peer++) mailbox.peer(peer).slice([rank, 0], [1, 4]).fill(10 * rank + peer);
mailbox.synchronize(); // what was written so far is seen by all
const received = mailbox.toNumbers();

// It is an array as any other: here as a part of a distributed one.
const whole = DistributedArray.fromLocal(runtime, mailbox, Slab.X);
const sum = whole.sum();
mailbox.synchronize(); // nobody reads any more
freeSymmetricMemory(mailbox); // collective, and explicit

console.log(`rank ${rank} got ${received.filter((_, i) => i % 4 === 0).join(", ")} by ${mailbox.backend}`);
const isRight = received.every((value, i) => value === 10 * Math.floor(i / 4) + rank);
if (!isRight || sum !== 22 * size * size * (size - 1)) Deno.exit(1);
