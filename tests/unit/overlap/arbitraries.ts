/** Partitions and schedules of all kinds, for property tests. */
import fc from "fast-check";
import { type Axis, evenParts, type Part, type Partition, partitionOf } from "../../../src/overlap/partition.ts";
import { GATHER_WAYS, REDUCE_WAYS, type Variant } from "../../../src/overlap/schedule.ts";
import { fixedAxisOf, TRAVELLERS } from "./travellers.ts";

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

const travellers = fc.constantFrom(...TRAVELLERS);

/** Any partition of a small product over 1 to 8 ranks: even parts, or any. */
export const partitions: fc.Arbitrary<Partition> = fc.integer({ min: 1, max: 8 }).chain((size) => {
  const shuffled = fc.shuffledSubarray(Array.from({ length: size }, (_, i) => i), { minLength: size });
  const cuts = fc.array(fc.nat(20), { minLength: size - 1, maxLength: size - 1 });
  const some = fc.option(fc.tuple(cuts, shuffled), { freq: 2 });
  return fc.record({ travellers, extents: fc.record({ m: extent, n: extent, k: extent }), some, others: some }).map(
    ({ travellers: [kind, travels, axis], extents, some, others }) => {
      const parts = (axis: Axis, given: typeof some) =>
        given ? partsOf(extents[axis], ...given) : evenParts(extents[axis], size);
      return partitionOf({
        kind,
        extents,
        size,
        travels,
        axis,
        parts: parts(axis, some),
        fixedParts: parts(fixedAxisOf(travels), others),
      });
    },
  );
});

/** Any way to do it. */
export const variantsOf = ({ kind }: Partition): fc.Arbitrary<Variant> =>
  fc.record({
    way: fc.constantFrom<Variant["way"]>(...(kind === "gather" ? GATHER_WAYS : REDUCE_WAYS)),
    pieces: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.constantFrom([3, 4, 1], [1, 2])),
    hasAddend: fc.boolean(),
    canAddApart: fc.boolean(),
  });
