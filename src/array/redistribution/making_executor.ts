/**
 * Executing a redistribution between ranks of one machine of what is still being made: each part is written into the memory
 * of the other processes as soon as it is there, and still in the caches.
 *
 * @module
 */
import { dtypeInfo } from "../../dtype/dtype.ts";
import { StateError } from "../../errors.ts";
import { type Offered, type PeerChannels, type RemoteArray, waitForPeers } from "../../memory/peer_channels.ts";
import { prepareProcessCopy } from "../../memory/process_memory.ts";
import { pin } from "../../memory/spare.ts";
import { recorder } from "../../runtime/recorder.ts";
import { type Copy, type Order, prepareCopy, type Run, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { countOf } from "../traverse.ts";
import { partLength, partsAlong } from "./pieces.ts";
import type { Parts, RedistributionPlan, Transfer } from "./plan.ts";
import { segmentsOf } from "./segments.ts";

/**
 * A source that is made while it moves, in at most so many parts along a dimension of which every rank gets everything: part
 * i is there after `make(i)`, on GPUs in the order of the main stream.
 */
export interface Making {
  readonly dimension: number;
  readonly parts: number;
  /** Whether each part takes the place of the one before it, in memory for one; in host memory only. */
  readonly isInOnePlace?: boolean;
  make(part: number): void;
}

/**
 * What is done with a target while it arrives, in parts along a dimension of which the source has everything: part i after
 * `use(i)`, on GPUs in the order of the main stream. The last part of a source that is made travels in as many.
 */
export interface Using {
  readonly dimension: number;
  readonly parts: number;
  use(part: number): void;
}

/** What another rank gets. */
interface Lane {
  readonly offered: Offered;
  /** Ready for an array with the place that it offered. */
  readonly writesTo: (place: RemoteArray) => readonly ((address: number) => void)[];
}

/**
 * Check nothing, and prepare all that does not depend on the target: returns what prepares, for a dense one apart from the
 * source, what makes the elements of `source`, or its first part, and moves them there. That is collective.
 */
export function prepareMaking(
  plan: RedistributionPlan,
  channels: PeerChannels,
  making: Making,
  source: LocalArray,
  order: Order,
): (target: LocalArray) => () => void {
  const { rank, to } = plan;
  const size = to.size!;
  const { itemSize, parts: words } = dtypeInfo(source.dtype);
  const { dimension } = making;
  // Beginning with the next rank, so that not all of them write to the same one.
  const inTurn = plan.directSends.toSorted((a, b) => (a.peer - rank + size) % size - (b.peer - rank + size) % size);
  const lanes = inTurn.map((transfer) => laneOf(transfer, to, channels, making, source, order));
  const offerings = plan.receives.map(({ peer }) => channels.offering(peer, "write"));
  const staying = partsOf(plan.stays, making);
  return (target) => {
    const bytes = sizeOfShape(target.shape) * itemSize;
    const stays = shiftedCopies(
      staying,
      dimension,
      ({ runs }) => prepareCopy(source, target, runs, words, bytes),
      (copy, from, to) => () => copy(from * source.strides[dimension], to * target.strides[dimension]),
    );
    const { address, data, offset, strides } = target;
    const place: RemoteArray = { address: Number(address), bytes: data.byteLength - offset * itemSize, strides };
    return () => {
      for (const offering of offerings) offering.offer(place);
      try {
        makeAndWrite(making, stays, lanes);
        for (const offering of offerings) waitForPeers(() => offering.isUsed());
      } catch (error) {
        // Others may still be writing to it.
        pin(data.buffer);
        throw error;
      }
    };
  };
}

/** A block in the parts in which it is made. */
function partsOf(transfer: Transfer, { dimension, parts, isInOnePlace = false }: Making): Transfer[] {
  const length = partLength(transfer.shape[dimension], parts);
  const list = partsAlong(transfer, dimension, parts, null);
  return isInOnePlace ? list.map((part, i) => moved(part, dimension, i * length)) : list;
}

function laneOf(
  transfer: Transfer,
  to: Parts,
  channels: PeerChannels,
  making: Making,
  source: LocalArray,
  order: Order,
): Lane {
  const { peer } = transfer;
  const list = partsOf(transfer, making);
  const prepared = (strides: readonly number[]) => ({
    key: String(strides),
    ...writesOf(list, channels.processes![peer], making.dimension, source, strides, order),
  });
  let known = prepared(stridesOf(to.ranges(peer).map(countOf), order));
  return {
    offered: channels.offered(peer, "write"),
    writesTo({ bytes, strides }) {
      if (strides !== null && String(strides) !== known.key) known = prepared(strides);
      if (known.reach <= bytes) return known.writes;
      throw new StateError(
        `Rank ${peer} offers ${bytes} bytes of memory, of which this rank was to write the first ${known.reach}: the ` +
          `ranks are in different redistributions. Call them in the same order on all ranks; checks: "collective" ` +
          `finds out.`,
      );
    },
  };
}

/** Make each part, copy what stays of it, and write the rest to where the other ranks have offered memory. */
function makeAndWrite(making: Making, stays: readonly Copy[], lanes: readonly Lane[]): void {
  let targets: (readonly [address: number, writes: readonly ((address: number) => void)[]])[] = [];
  for (let part = 0; part < making.parts; part++) {
    making.make(part);
    const span = recorder?.begin("copy", "redistribution");
    stays[part]?.();
    if (part === 0) {
      targets = lanes.map(({ offered, writesTo }) => {
        waitForPeers(() => offered.isThere());
        const place = offered.place();
        return [place.address, writesTo(place)] as const;
      });
    }
    for (const [address, writes] of targets) writes[part]?.(address);
    span?.end();
  }
  for (const { offered } of lanes) offered.finish();
}

/** What writes each part to an array of another process, given the address of its first element, and how far that goes. */
function writesOf(
  list: readonly Transfer[],
  process: number,
  dimension: number,
  source: LocalArray,
  strides: readonly number[],
  order: Order,
): { readonly writes: readonly ((address: number) => void)[]; readonly reach: number } {
  const { itemSize } = dtypeInfo(source.dtype);
  const own = Number(source.address);
  const [along, into] = [source.strides[dimension] * itemSize, strides[dimension] * itemSize];
  let reach = 0;
  const writes = shiftedCopies(
    list,
    dimension,
    ({ runs }) => {
      const here = segmentsOf({ runs, side: "source", strides: source.strides }, order, itemSize);
      const there = segmentsOf({ runs, side: "target", strides }, order, itemSize);
      const end = there.starts.reduce((most, start, i) => Math.max(most, start + there.lengths[i]), 0);
      return { end, copy: prepareProcessCopy("write", process, here, there) };
    },
    ({ end, copy }, from, to) => {
      reach = Math.max(reach, end + to * into);
      return (address: number) => copy(own + from * along, address + to * into);
    },
  );
  return { writes, reach };
}

/** Something for each part. Parts that differ in nothing but where they begin share what is prepared. */
function shiftedCopies<Prepared, Shifted>(
  parts: readonly Transfer[],
  dimension: number,
  prepare: (part: Transfer) => Prepared,
  shifted: (prepared: Prepared, from: number, to: number) => Shifted,
): Shifted[] {
  let first: { readonly runs: readonly Run[]; readonly prepared: Prepared } | null = null;
  return parts.map((part) => {
    const runs = part.runs[dimension];
    const isAlike = first !== null && first.runs.length === 1 && runs.length === 1 &&
      first.runs[0].length === runs[0].length;
    const shared = first = isAlike ? first! : { runs, prepared: prepare(part) };
    const [from, to] = [runs[0].source - shared.runs[0].source, runs[0].target - shared.runs[0].target];
    return shifted(shared.prepared, from, to);
  });
}

/** The same part where its source begins so many indices earlier. */
function moved(part: Transfer, dimension: number, by: number): Transfer {
  const runs = part.runs[dimension].map((run) => ({ ...run, source: run.source - by }));
  return { ...part, runs: part.runs.with(dimension, runs) };
}
