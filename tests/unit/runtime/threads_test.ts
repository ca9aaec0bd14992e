/** A rank's share of the cores, bound or not, and what is said about a launcher that binds. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { bindingWarning, threadsOf } from "../../../src/runtime/threads.ts";

const all = (count: number) => Array.from({ length: count }, (_, i) => i).join();

Deno.test("ranks that may use all cores share them", () => {
  const masks = Array(4).fill(all(16));
  assertEquals(threadsOf({ masks, rank: 1, localSize: 4, cores: 16 }), 4);
  assertEquals(threadsOf({ masks, rank: 1, localSize: 2, cores: 16 }), 8, "two machines");
  assertEquals(threadsOf({ masks, rank: 3, localSize: 4, cores: 2 }), 1, "more ranks than cores");
  assertEquals(threadsOf({ masks: [all(16)], rank: 0, localSize: 1, cores: 16 }), 16);
});

Deno.test("a rank that is bound has its cores for itself", () => {
  assertEquals(threadsOf({ masks: ["0", "1"], rank: 1, localSize: 2, cores: 1 }), 1);
  const sockets = { masks: ["0,1,2,3", "4,5,6,7"], localSize: 2, cores: 4 };
  assertEquals([0, 1].map((rank) => threadsOf({ ...sockets, rank })), [4, 4]);
  const twoMachines = { ...sockets, masks: [...sockets.masks, ...sockets.masks] };
  assertEquals([0, 1, 2, 3].map((rank) => threadsOf({ ...twoMachines, rank })), [4, 4, 4, 4]);
  const two = { masks: ["0,1", "0,1", "2,3", "2,3"], localSize: 4, cores: 2 };
  assertEquals(threadsOf({ ...two, rank: 2 }), 1, "two ranks a socket");
});

Deno.test("binding that leaves most of a machine idle is told of", () => {
  const bound = { masks: ["0", "1"], rank: 0, localSize: 2, cores: 1 };
  const text = bindingWarning(bound, 16, true)!;
  assertStringIncludes(text, "each of the 2 ranks of this machine is bound to 1 of its 16 cores");
  assertStringIncludes(text, "--bind-to none");
  assertStringIncludes(text, "deno task run");
  assertEquals(bindingWarning(bound, 2, true), null, "all cores are used");
  const free = { masks: [all(16), all(16)], rank: 0, localSize: 2, cores: 16 };
  assertEquals(bindingWarning(free, 16, true), null);
  const allocation = { masks: ["0,1", "0,1"], rank: 0, localSize: 2, cores: 2 };
  assertEquals(bindingWarning(allocation, 64, true), null, "a part of a machine that the ranks share is no binding");
  const one = { masks: ["0"], rank: 0, localSize: 1, cores: 1 };
  assertStringIncludes(bindingWarning(one, 16, true)!, "the rank of this machine is bound to 1 of its 16 cores");
  assertEquals(bindingWarning(one, 16, false), null, "a process without a launcher");
});
