/** The kinds of entries that collective calls are of: the same numbers on all ranks, and not of what is not known. */
import { assertEquals } from "@std/assert";
import { entryKinds, kindOf, ofKind } from "../../../ffi/mpi/entry_kinds.ts";
import { mpichAbi } from "../../../ffi/mpi/mpich.ts";
import { callOf, rooted } from "../../../ffi/mpi/waits.ts";

const { types, operations } = mpichAbi.constants;
const kinds = entryKinds(mpichAbi.constants);

Deno.test("each type, alone and by each operation, is a kind with its own number and name", () => {
  const found = new Map<number, string>();
  for (const [type, handle] of Object.entries(types)) {
    found.set(kindOf(kinds, handle, null), type);
    for (const [name, operation] of Object.entries(operations)) {
      found.set(kindOf(kinds, handle, operation), `${name} of ${type}`);
    }
  }
  assertEquals(found.size, Object.keys(types).length * (Object.keys(operations).length + 1));
  for (const [kind, name] of found) assertEquals(kinds.names[kind], name);
  assertEquals(kinds.names.length, found.size + 1);
});

Deno.test("a kind has the same number whatever its handle is, and in whichever order handles are listed", () => {
  const reversed = (handles: object) =>
    Object.fromEntries(Object.keys(handles).reverse().map((name, i) => [name, 70n + BigInt(i)]));
  const others = { types: reversed(types), operations: reversed(operations) } as unknown as typeof mpichAbi.constants;
  assertEquals(
    kindOf(entryKinds(others), others.types.float32, others.operations.max),
    kindOf(kinds, types.float32, operations.max),
  );
});

Deno.test("what a script has made is of no kind: types and operators", () => {
  assertEquals(kindOf(kinds, 12345, null), 0);
  assertEquals(kindOf(kinds, types.int8, 12345), 0);
  assertEquals(kindOf(kinds, 12345, operations.sum), 0);
});

Deno.test("function, root and kind are known from what stands for a call", () => {
  const functions = new Map([[71, "MPI_Barrier"], [72, "MPI_Reduce"]]);
  const names = { functions, kinds: kinds.names };
  const kind = kindOf(kinds, types.int64, operations.prod);
  assertEquals(callOf(71, names, 4), { name: "MPI_Barrier", root: null, entries: "" });
  assertEquals(callOf(ofKind(72, kind), names, 4), { name: "MPI_Reduce", root: null, entries: "prod of int64" });
  assertEquals(callOf(ofKind(rooted(72, 3), kind), names, 4), {
    name: "MPI_Reduce",
    root: 3,
    entries: "prod of int64",
  });
  assertEquals(callOf(ofKind(rooted(72, 3), kind), names, 3), null);
});
