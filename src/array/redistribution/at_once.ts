/**
 * Moving little between GPUs of one machine: what takes time then is to start copies and to wait for each other, so that one
 * kernel does all of it at a time.
 *
 * @module
 */
import { type LaneTurn, MOST_LANES, prepareExchange } from "../../gpu/kernels/exchange_kernel.ts";
import type { Mark } from "../../gpu/kernels/meeting_kernel.ts";
import type { Stream } from "../../gpu/stream.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import type { DeviceChannels } from "../../memory/device_channels.ts";
import { recordSpan } from "../../runtime/recorder.ts";
import type { Run } from "../layout.ts";
import { layOutCopies } from "../on_device/copies.ts";
import type { DeviceArray } from "../on_device/device_array.ts";

/** The most ranks that it serves. */
export const MOST_RANKS_AT_ONCE = MOST_LANES;

/** Elements that go to, or come from, a rank: its own ones stay. */
export interface Block {
  readonly peer: number;
  readonly source: DeviceArray;
  readonly target: DeviceArray;
  readonly runs: readonly (readonly Run[])[];
}

/** What is ready to be put on a stream, each time anew, and the index lists that it needs on the GPU. */
export interface Ready {
  readonly move: () => void;
  readonly tables: readonly DeviceBuffer[];
}

/**
 * An exchange of blocks, by the marks that each of them needs this time. Those that come here through slots may wait for what
 * leaves other ranks by the same exchange.
 */
function prepareLanes(
  channels: DeviceChannels,
  main: Stream,
  leaving: readonly Block[],
  coming: readonly Block[],
  writers: readonly number[] = [],
) {
  const { copies, tables } = layOutCopies([...leaving, ...coming], main);
  const counters = [
    ...leaving.map(({ peer }) => channels.counter("leaving", peer)),
    ...coming.map(({ peer }) => channels.counter("coming", peer)),
  ];
  const lanes = copies.map((copy, i) => ({ copy, counter: counters[i] }));
  const exchange = prepareExchange(main.device, lanes, leaving.length, {
    turns: channels.counter("turns"),
    ended: channels.counter("ended"),
  });
  const others = [...leaving, ...coming].map(({ peer }) => peer).concat(writers).filter((peer) =>
    peer !== channels.rank
  );
  const peers = [...new Set(others)].sort((a, b) => a - b);
  const ranks = `rank${peers.length === 1 ? "" : "s"} ${peers.join(", ")}`;
  const label = peers.length === 0 ? "what stays" : `exchange with ${ranks}`;
  const put = (turns: readonly LaneTurn[], raised: readonly Mark[] = [], awaited: readonly Mark[] = []) =>
    recordSpan(main, { kind: "copy", label }, () => exchange(main, turns, { raised, awaited }, channels.patience));
  return { put, tables };
}

/** What stays waits for nobody. */
const STAYS: LaneTurn = { awaited: null, raised: null, sourceShift: 0n, targetShift: 0n };

/** Through slots: what leaves goes into those of others, and when it is there from this rank's own into place. */
export function preparePassing(
  channels: DeviceChannels,
  main: Stream,
  leaving: readonly Block[],
  coming: readonly Block[],
): Ready {
  const send = ({ peer }: Block): LaneTurn => {
    if (peer === channels.rank) return STAYS;
    const piece = channels.next("passed", peer);
    const before = piece - channels.slots;
    return {
      awaited: before > 0 ? channels.from("taken", peer, before) : null,
      raised: channels.own("passed", peer, piece),
      sourceShift: 0n,
      targetShift: channels.slotShift(piece),
    };
  };
  const receive = ({ peer }: Block): LaneTurn => {
    const piece = channels.next("taken", peer);
    return {
      awaited: channels.from("passed", peer, piece),
      raised: channels.own("taken", peer, piece),
      sourceShift: channels.slotShift(piece),
      targetShift: 0n,
    };
  };
  if (leaving.length + coming.length <= MOST_LANES) {
    const { put, tables } = prepareLanes(channels, main, leaving, coming);
    return { move: () => put([...leaving.map(send), ...coming.map(receive)]), tables };
  }
  const [leave, take] = [leaving, coming].map((blocks) => prepareLanes(channels, main, blocks, []));
  return {
    move() {
      leave.put(leaving.map(send));
      take.put(coming.map(receive));
    },
    tables: [...leave.tables, ...take.tables],
  };
}

/** Straight into place in other ranks' memory; `writers` do the same here. */
export function prepareWriting(
  channels: DeviceChannels,
  main: Stream,
  leaving: readonly Block[],
  writers: readonly number[],
): Ready {
  const { put, tables } = prepareLanes(channels, main, leaving, [], writers);
  const write = ({ peer }: Block): LaneTurn => {
    if (peer === channels.rank) return STAYS;
    const time = channels.next("written", peer);
    return { ...STAYS, awaited: channels.from("ready", peer, time), raised: channels.own("written", peer, time) };
  };
  return {
    move() {
      const times = writers.map((peer) => ({ peer, time: channels.next("ready", peer) }));
      put(
        leaving.map(write),
        times.map(({ peer, time }) => channels.own("ready", peer, time)),
        times.map(({ peer, time }) => channels.from("written", peer, time)),
      );
    },
    tables,
  };
}
