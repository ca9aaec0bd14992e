/** Whose calls wait where: communicators are known from the call that makes them. */
import { assert, assertEquals } from "@std/assert";
import { mpichAbi } from "../../../ffi/mpi/mpich.ts";
import type { Presence } from "../../../ffi/mpi/presence.ts";
import { NO_PEER, type PresentRank } from "../../../ffi/mpi/presence_page.ts";
import { ownTurns, publishWaits, waitsForThisRank } from "../../../ffi/mpi/waits.ts";
import { noteWaiting } from "../../../ffi/waiting.ts";

Deno.test("collective calls are counted on communicators of every kind", () => {
  const begun: { scope: number; turn: number; peers: number[] }[] = [];
  const begin: Presence["begin"] = (_operation, _function, scope, turn, ...peers) =>
    begun.push({ scope, turn, peers: peers as number[] }) > 0;
  const presence = { begin, end: () => {}, meetings: { enter: () => null } };
  publishWaits(presence as unknown as Presence, { handle: 1, rank: 0 }, { ...mpichAbi.constants, self: 99 }, () => 0);
  const makes = (at: number, handle: number) => (...values: unknown[]) => (values[at] as Int32Array)[0] = handle;
  const table = {
    MPI_Comm_dup: makes(1, 2),
    MPI_Comm_split: makes(3, 3),
    MPI_Comm_split_type: makes(4, 4),
    MPI_Cart_create: makes(5, 5),
    MPI_Barrier: () => {},
    MPI_Comm_free: (cell: unknown) => (cell as Int32Array)[0] = 0,
    MPI_Sendrecv: (...values: unknown[]) => values,
    MPI_Finalize: (first: unknown, second: unknown) => [first, second],
  };
  noteWaiting(table, Object.keys(table));
  const out = new Int32Array(1);
  const {
    MPI_Comm_dup,
    MPI_Comm_split,
    MPI_Comm_split_type,
    MPI_Cart_create,
    MPI_Barrier,
    MPI_Comm_free,
    MPI_Sendrecv,
    MPI_Finalize,
  } = table as Record<string, (...values: unknown[]) => unknown>;
  MPI_Comm_dup(1, out);
  MPI_Comm_split(1, 0, 0, out);
  MPI_Comm_split_type(1, 0, 0, 0, out);
  MPI_Cart_create(1, 1, Int32Array.of(1), Int32Array.of(0), 0, out);
  for (const handle of [2, 3, 4, 5]) MPI_Barrier(handle);
  const barriers = begun.slice(4);
  assertEquals(barriers.map(({ turn }) => turn), [1, 1, 1, 1]);
  const scopes = new Set(barriers.map(({ scope }) => scope));
  assert(scopes.size === 4 && !scopes.has(0), JSON.stringify(barriers));

  // A message waits for its ranks, whatever it is called with; it is no turn.
  const message = [null, 1, 0, 7, 0, null, 1, 0, 8, 0, 5, null];
  assertEquals(MPI_Sendrecv(...message), message);
  assertEquals(begun.at(-1), { scope: barriers[3].scope, turn: 0, peers: [7, 8] });

  // For which of two peers it waits is not known: to and from the other one messages may have come long ago.
  const other = { calls: 5, scope: barriers[3].scope, turn: 0, messagesAhead: 0 };
  const waits = (peers: number[]) => waitsForThisRank({ ...other, peers } as unknown as PresentRank);
  assertEquals([[0], [1], [1, 0], [0, 1], [1, 2], [0, 0]].map(waits), [true, false, null, null, false, true]);

  // So does what waits in a function's name, whatever it takes.
  assertEquals([MPI_Finalize(1, 2), begun.at(-1)], [[1, 2], { scope: 0, turn: 0, peers: [NO_PEER, NO_PEER] }]);

  // MPI gives the handle of a communicator that was freed to another one, of which nothing may be known.
  MPI_Comm_free(Int32Array.of(5));
  assertEquals(begun.at(-1), { ...barriers[3], turn: 2 });
  MPI_Barrier(5);
  assertEquals(begun.at(-1), { ...barriers[3], scope: 0, turn: 0 });
  const known = ownTurns().map(([id]) => id);
  assertEquals([known.includes(barriers[2].scope), known.includes(barriers[3].scope)], [true, false]);
  assertEquals([waits([1]), waitsForThisRank({ ...other, scope: 12345, peers: [1] } as unknown as PresentRank)], [
    null,
    false,
  ]);

  // Communicators that are made and freed without end leave no more behind than the newest, and no wait is denied then.
  const before = ownTurns().length;
  const cycle = () => {
    MPI_Comm_dup(1, out);
    MPI_Comm_free(Int32Array.of(2));
  };
  for (let i = 0; i < 5000; i++) cycle();
  const after = ownTurns().length;
  assert(after - before <= 1000, `${after - before} are kept of 5000`);
  assert(after - before >= 250, "other machines are told of the newest 250");
  assertEquals([waits([1]), waits([1, 0])], [null, null]);
  MPI_Comm_dup(1, out);
  MPI_Barrier(2);
  const newest = { ...other, scope: begun.at(-1)!.scope };
  assertEquals(waitsForThisRank({ ...newest, peers: [1] } as unknown as PresentRank), false);
  assertEquals(waitsForThisRank({ ...newest, peers: [0] } as unknown as PresentRank), true);
  MPI_Comm_free(Int32Array.of(2));
  cycle();
  assertEquals(waitsForThisRank({ ...newest, peers: [0] } as unknown as PresentRank), null);
});
