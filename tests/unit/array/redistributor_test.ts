/** How the elements of a redistribution travel, as far as that is a rule. */
import { assertEquals } from "@std/assert";
import { messagesFor } from "../../../src/array/redistribution/redistributor.ts";

Deno.test("messages are packed, but for what moves once under Open MPI", () => {
  assertEquals(messagesFor("open_mpi", true), "derived_types");
  assertEquals(messagesFor("open_mpi", false), "packed_alltoallv");
  for (const vendor of ["mpich", "intel", "cray", "mvapich", "unknown"] as const) {
    for (const isOnce of [true, false]) assertEquals(messagesFor(vendor, isOnce), "packed_alltoallv");
  }
});
