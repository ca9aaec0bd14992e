/** Partitions and schedules of all kinds, for property tests. */
import fc from "fast-check";
import {
  type Axis,
  evenParts,
  type MatrixName,
  type Part,
  type Partition,
  partitionOf,
} from "../../../src/overlap/partition.ts";
import { GATHER_WAYS, REDUCE_WAYS, type Variant } from "../../../src/overlap/schedule.ts";

const extent = fc.integer({ min: 1, max: 11 });

/** Parts in any order of the ranks, some of them empty. */
function partsOf(extent: number, cuts: readonly number[], order: readonly number[]): Part[] {
  const ends = cuts.map((cut) => cut % (extent + 1)).sort((one, other) => one - other);
  const parts = order.map((_, i) => ({
    start: i === 0 ? 0 : ends[i - 1],
    end: i === order.length - 1 ? extent : ends[i],
  }));
  return order.map((place) => parts[place]);
}

/** What travels in a product of a kind, and along which axes it may. */
const travellers = fc.constantFrom<readonly [Partition["kind"], MatrixName, Axis]>(
  ["gather", "a", "m"],
  ["gather", "a", "k"],
  ["gather", "b", "n"],
  ["gather", "b", "k"],
  ["reduce", "d", "m"],
  ["reduce", "d", "n"],
  ["all_reduce", "d", "m"],
  ["all_reduce", "d", "n"],
);

/** Any partition of a small product over 1 to 8 ranks: even parts, or any. */
export const partitions: fc.Arbitrary<Partition> = fc.integer({ min: 1, max: 8 }).chain((size) => {
  const shuffled = fc.shuffledSubarray(Array.from({ length: size }, (_, i) => i), { minLength: size });
  const cuts = fc.array(fc.nat(20), { minLength: size - 1, maxLength: size - 1 });
  const some = fc.option(fc.tuple(cuts, shuffled), { freq: 2 });
  return fc.record({ travellers, extents: fc.record({ m: extent, n: extent, k: extent }), some, others: some }).map(
    ({ travellers: [kind, travels, axis], extents, some, others }) => {
      const fixedAxis = travels === "d" ? "k" : travels === "a" ? "n" : "m";
      const parts = (axis: Axis, given: typeof some) =>
        given ? partsOf(extents[axis], ...given) : evenParts(extents[axis], size);
      return partitionOf({
        kind,
        extents,
        size,
        travels,
        axis,
        parts: parts(axis, some),
        fixedParts: parts(fixedAxis, others),
      });
    },
  );
});

/** Any way to do it. */
export const variantsOf = ({ kind }: Partition): fc.Arbitrary<Variant> =>
  fc.record({
    way: fc.constantFrom<Variant["way"]>(...(kind === "gather" ? GATHER_WAYS : REDUCE_WAYS)),
    pieces: fc.integer({ min: 1, max: 3 }),
    hasAddend: fc.boolean(),
  });
