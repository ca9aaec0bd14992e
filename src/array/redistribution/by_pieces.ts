/**
 * Moving much between GPUs of one machine: piece by piece, on streams of what leaves, of what arrives, and of what tells how
 * far it is.
 *
 * @module
 */
import type { Mark } from "../../gpu/kernels/meeting_kernel.ts";
import type { Stream } from "../../gpu/stream.ts";
import type { DeviceChannels, MarkKind } from "../../memory/device_channels.ts";
import type { DeviceCopy } from "../on_device/copies.ts";
import type { Making, Using } from "./making_executor.ts";
import type { Transfer } from "./plan.ts";

/** A piece of what travels: of which part of the source it is, and, of the last one, of which part of the target. */
export interface Piece {
  readonly part: number;
  readonly use: number;
  readonly transfer: Transfer;
}

/** The pieces that go one way between this rank and another, and what each is of. */
export interface Lane {
  readonly peer: number;
  readonly pieces: readonly Omit<Piece, "transfer">[];
  readonly copies: readonly DeviceCopy[];
}

/** What is put on streams. */
export interface Exchange {
  readonly channels: DeviceChannels;
  /** The stream in whose order the exchange is. */
  readonly main: Stream;
  /** The next rank first, so that not all of them send to the same one. */
  readonly sends: readonly Lane[];
  /** The rank before first, as they send to this one. */
  readonly receives: readonly Lane[];
  /** What stays, by the part of the source. */
  readonly stays: readonly DeviceCopy[];
  readonly making: Making | null;
  readonly using: Using | null;
}

/** That the slots are free again which these pieces, the last that go to each rank, need. */
function freeSlots(
  channels: DeviceChannels,
  pieces: readonly { readonly peer: number; readonly piece: number }[],
): Mark[] {
  return pieces.filter(({ piece }) => piece > channels.slots)
    .map(({ peer, piece }) => channels.from("taken", peer, piece - channels.slots));
}

/**
 * Pieces go into slots, and on a stream of their own from slots into place. Those of a round leave before those of the round
 * before are taken, so that nobody waits for what has not been queued, in whatever order streams run. A round has as many for
 * each rank as there are slots for: ranks that take turns piece by piece soon send two at a time to the same one.
 */
export function passBeside({ channels, main, sends, receives, stays, making }: Exchange): void {
  const { slots, streams: { arrivals, copies: away, credits, notices } } = channels;
  for (const stream of [away, arrivals, credits]) stream.wait(main);
  const most = Math.max(0, ...[...sends, ...receives].map(({ copies }) => copies.length));
  const together = making !== null ? 1 : most <= slots ? slots : slots / 2;
  const inRound = ({ copies }: Lane, round: number) =>
    [...copies.keys()].slice(round * together, (round + 1) * together);
  let made = 0;
  /** Have the source up to a part, and copies wait for it. */
  const makeUpTo = (part: number) => {
    if (making === null || made > part) return;
    for (; made <= part; made++) {
      making.make(made);
      stays[made]?.put(main);
    }
    away.wait(main);
  };
  const sendAll = (round: number) => {
    const leaving = sends.map((lane) =>
      inRound(lane, round).map((index) => ({ ...lane, index, piece: channels.next("passed", lane.peer) }))
    );
    const free = freeSlots(channels, leaving.flatMap((pieces) => pieces.slice(-1)));
    if (free.length > 0) {
      channels.meet(credits, [], free);
      away.wait(credits);
    }
    for (const { peer, copies, pieces, index, piece } of leaving.flat()) {
      makeUpTo(pieces[index].part);
      copies[index].put(away, 0n, channels.slotShift(piece));
      notices.wait(away);
      channels.meet(notices, [channels.own("passed", peer, piece)], []);
    }
  };
  // What is taken is told along with the next wait, and at the end of a round that others may need all of.
  let taken: Mark[] = [];
  const tell = () => {
    channels.meet(arrivals, taken, []);
    taken = [];
  };
  sendAll(0);
  if (making === null) stays[0].put(main);
  for (let round = 0; round * together < most; round++) {
    sendAll(round + 1);
    for (const lane of receives) {
      for (const index of inRound(lane, round)) {
        const piece = channels.next("taken", lane.peer);
        channels.meet(arrivals, taken, [channels.from("passed", lane.peer, piece)]);
        lane.copies[index].put(arrivals, channels.slotShift(piece), 0n);
        taken = [channels.own("taken", lane.peer, piece)];
      }
    }
    if (together > 1) tell();
  }
  tell();
  if (making !== null) makeUpTo(making.parts - 1);
  // What comes next may raise the marks of these notices further.
  for (const stream of [away, arrivals, notices]) main.wait(stream);
}

/**
 * The marks of this time: others' that this rank waits for, and its own. Those of arrays that are ready count as often as
 * arrays are written part by part.
 */
function begin({ channels, sends, receives, using }: Exchange) {
  const uses = Array.from({ length: using?.parts ?? 1 }, (_, use) => use);
  const counted = (lanes: readonly Lane[], kind: MarkKind) =>
    lanes.map(({ peer }) => ({ peer, values: uses.map(() => channels.next(kind, peer)) }));
  const [leaving, coming] = [counted(sends, "written"), counted(receives, "ready")];
  return {
    /** That this rank's memory may be written. */
    ready: coming.map(({ peer, values }) => channels.own("ready", peer, values.at(-1)!)),
    /** That the others' may. */
    mayWrite: leaving.map(({ peer, values }) => channels.from("ready", peer, values.at(-1)!)),
    /** That the others' was, by the part that can be used. */
    isWritten: uses.map((use) => leaving.map(({ peer, values }) => channels.own("written", peer, values[use]))),
    /** That this rank's was. */
    written: uses.map((use) => coming.map(({ peer, values }) => channels.from("written", peer, values[use]))),
  };
}

/**
 * Everything goes straight into place, once that is ready to be written: all ranks begin each part at the same time, and so go
 * on, each sending to another one. What stays is copied while the next part of a source is made. The last part travels by what
 * it is of the target, so that this can be used while the rest is on its way.
 */
export function writeBeside(exchange: Exchange): void {
  const { channels, main, sends, stays, making, using } = exchange;
  const { copies: away, arrivals: beside } = channels.streams;
  const { ready, mayWrite, isWritten, written } = begin(exchange);
  channels.meet(main, ready, []);
  const last = (making?.parts ?? 1) - 1;
  for (let part = 0; part <= last; part++) {
    making?.make(part);
    for (const stream of [away, beside]) stream.wait(main);
    if (part === 0) channels.meet(away, [], mayWrite);
    else if (channels.size > 2) channels.meetAll(away);
    stays[part]?.put(beside);
    for (const [use, marks] of isWritten.entries()) {
      for (const { pieces, copies } of sends) {
        copies.forEach((copy, i) => {
          if (pieces[i].part === part && pieces[i].use === use) copy.put(away);
        });
      }
      if (part === last) channels.meet(away, marks, []);
    }
  }
  main.wait(beside);
  for (const [use, marks] of written.entries()) {
    channels.meet(main, [], marks);
    using?.use(use);
  }
  main.wait(away);
}
