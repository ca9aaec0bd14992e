/**
 * Of which entries a collective call is, and by which operation it combines them: a number that is the same on all ranks,
 * whose handles differ.
 *
 * @module
 */
import type { Handle, MpiConstants } from "./abi.ts";

/** The kinds by MPI's handles: of what the library does not know, such as a script's own operator, it is 0. */
export interface EntryKinds {
  readonly types: ReadonlyMap<unknown, number>;
  readonly operations: ReadonlyMap<unknown, number>;
  /** What people are told of each kind: `""`, `"int8"`, `"sum of int8"`, …. */
  readonly names: readonly string[];
}

/** The kinds of an MPI's types and operations. */
export function entryKinds({ types, operations }: Pick<MpiConstants, "types" | "operations">): EntryKinds {
  const inOrder = (handles: Readonly<Record<string, Handle>>) =>
    Object.entries(handles).sort(([one], [other]) => one < other ? -1 : 1);
  const ways = ["", ...inOrder(operations).map(([name]) => `${name} of `)];
  const numbered = (handles: Readonly<Record<string, Handle>>, step: number) =>
    new Map<unknown, number>(inOrder(handles).map(([, handle], i) => [handle, i * step + 1]));
  return {
    types: numbered(types, ways.length),
    operations: numbered(operations, 1),
    names: ["", ...inOrder(types).flatMap(([type]) => ways.map((way) => way + type))],
  };
}

/** The kind of a type and of an operation, which is `null` for calls that combine nothing. */
export function kindOf({ types, operations }: EntryKinds, type: unknown, operation: unknown): number {
  const first = types.get(type) ?? 0;
  const way = operation === null ? 0 : operations.get(operation) ?? null;
  return first === 0 || way === null ? 0 : first + way;
}

/** What stands for a call of a kind of entries, by what stands for it otherwise; of the result that is the other way round. */
export function ofKind(callHash: number, kind: number): number {
  return callHash ^ Math.imul(kind, 0x9e3779b1);
}
