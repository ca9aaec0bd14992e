/**
 * Products by a tile kernel: on one GPU, and all-gather GEMM, GEMM reduce-scatter and GEMM all-reduce between GPUs that
 * address each other's memory.
 *
 * @module
 */
import { checkCudaDriver, CuStreamWriteValueFlags, openCudaDriver } from "../../../../ffi/cuda/driver.ts";
import { ShapeError } from "../../../errors.ts";
import type { Device } from "../../../gpu/device.ts";
import { Event } from "../../../gpu/event.ts";
import { meetAll, prepareFlags } from "../../../gpu/kernels/flag_kernels.ts";
import { Stream } from "../../../gpu/stream.ts";
import { clearOnDevice, copyFromDevice, copyOnDevice, copyPlaneOnDevice, copyToDevice } from "../../../memory/copy.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import type { Interval, Span } from "../../../runtime/timeline.ts";
import type { Part } from "../../partition.ts";
import {
  gatheredPieces,
  packTiles,
  panelTiles,
  partsOf,
  type Region,
  tileOrder,
  type TileProblem,
  type TileVariant,
} from "../../tile_order.ts";
import { GpuProduct } from "../gpu_product.ts";
import { AWAITED, Patience } from "../patience.ts";
import {
  CHUNK_BYTES,
  chunksOf,
  type CompiledEpilog,
  factorBytes,
  stepElements,
  type TileConfiguration,
} from "./configuration.ts";
import {
  type ExchangeLayout,
  exchangeLayout,
  FLAG_BYTES,
  gatheredPart,
  isSplitInSequence,
  padded,
} from "./exchange.ts";
import { TileKernel } from "./kernel.ts";
import { configurationOf, type DeviceMatrix, type TileOperands, tileRefusal } from "./operands.ts";
import { type Destination, Panels } from "./panels.ts";
import {
  callSetter,
  compiledEpilog,
  type Operand,
  packArguments,
  type PushedPart,
  setMarks,
  TILE_MARKS,
} from "./parameters.ts";

/** A launch that is ready. */
interface Launch {
  /** The kernel's argument. */
  readonly parameters: Uint8Array<ArrayBuffer>;
  /** Sets what changes from run to run. */
  readonly setCall: (call: number, alpha: number, beta: number) => void;
  readonly put: (stream: Stream) => void;
}

/** Where the last one is. */
const MET = 2;

/** For how many sets of operands the kernel's arguments are kept. */
const MOST_PREPARED = 16;

/** The number of every run that begins with a meeting, in which flags are taken back. */
const MET_CALL = 1;

/**
 * What pushes a part to the other ranks: a copy follows the one before at once, since who tells that one is there is another
 * stream.
 */
interface Pushing {
  readonly stream: Stream;
  readonly notices: Stream;
  readonly begun: Event;
  readonly passed: Event;
  readonly ended: Event;
}

function makePushing(device: Device): Pushing {
  const [stream, notices] = ["copies", "notices"].map((name) => new Stream(device, { name }));
  return { stream, notices, begun: new Event(), passed: new Event(), ended: new Event() };
}

/**
 * A product that is run many times, on one rank. The ranks make it with the same problem and variant, run it equally
 * often, and free it after all have ended their last run.
 *
 * Each run has a number. What it receives goes into memory by the parity of that number, and flags hold the number
 * itself: a rank that has what all others sent in a run knows that they have ended the run before, so that neither
 * barriers nor resets are needed. A run that is captured in a graph has no number of its own, and so every run from then on:
 * there the ranks meet first, and take their flags back. Panels are then stored where others have them, tile by tile.
 */
export class TileProduct extends GpuProduct implements Disposable {
  /** What is multiplied. */
  readonly problem: TileProblem;
  /** Blocks of the kernel. */
  readonly blocks: number;
  protected override readonly stream: Stream;
  readonly #variant: TileVariant;
  readonly #layout: ExchangeLayout;
  readonly #pieces: readonly Part[];
  readonly #peers: readonly bigint[];
  readonly #count: number;
  /** What timelines show of the kernel. */
  readonly #span: Span;
  readonly #memory: DeviceBuffer;
  /** Where the list of tiles lies, and, if they travel in panels, that of runs in which they travel one by one. */
  readonly #lists: readonly bigint[];
  protected override readonly patience: Patience;
  readonly #copies: Pushing | null;
  readonly #panels: Panels | null;
  /** By operands: a launch for each parity of the call, and for runs that begin with a meeting. */
  readonly #prepared = new Map<string, readonly Launch[]>();
  readonly #stamps: bigint;
  /** The last run's: whoever repeats a run passes the same object. */
  #recent: { readonly operands: TileOperands; readonly launches: readonly Launch[] } | null = null;
  #calls = 0;

  /**
   * Prepare it: the kernel for `epilog` is compiled, others once a run needs them; the list of tiles goes to the GPU. `peers` are the addresses of the ranks' parts of
   * the memory that all address ({@linkcode exchangeLayout}), as this rank sees them; all zeros before the first run.
   * `stamps` is memory of the GPU for {@linkcode STAMPED_RUNS}: the first nanosecond of each, all ones before, and the
   * last one, 0 before.
   *
   * @throws {ConfigurationError} on other GPUs than those of compute capability 9.0.
   */
  constructor(
    stream: Stream,
    problem: TileProblem,
    variant: TileVariant,
    peers: readonly bigint[],
    options: { blocks?: number; patienceSeconds?: number; stamps?: bigint; epilog?: CompiledEpilog } = {},
  ) {
    super();
    const { kind } = problem;
    const kernel = TileKernel.of(configurationOf(problem, variant, options.epilog));
    const { cluster } = variant.shape;
    this.problem = problem;
    this.#stamps = options.stamps ?? 0n;
    this.stream = stream;
    this.#variant = variant;
    this.#peers = peers;
    kernel.prepare(stream.device);
    prepareFlags(stream);
    this.#layout = exchangeLayout(problem, variant);
    this.#pieces = gatheredPieces(problem, variant);
    const most = (options.blocks ?? kernel.blocksOn(stream.device)) / cluster;
    this.blocks = cluster * (this.#isSum ? this.#clustersFor(most) : most);
    const panel = panelTiles(problem, variant);
    const listOf = (variant: TileVariant) => packTiles(tileOrder(problem, variant, this.blocks / cluster), cluster);
    const { panels: _, lead: __, ...oneByOne } = variant;
    // Where tiles travel in panels, runs that begin with a meeting have a list of their own.
    const lists = [listOf(variant), ...panel === null ? [] : [listOf(oneByOne)]];
    this.#count = lists[0].length / 4;
    this.#span = { lane: 0, kind: "gemm", label: `${this.#count} tiles` };
    const starts = [FLAG_BYTES, FLAG_BYTES + lists[0].byteLength];
    this.#memory = new DeviceBuffer(stream, lists.reduce((sum, { byteLength }) => sum + byteLength, FLAG_BYTES));
    this.#lists = lists.map((_, i) => this.#memory.address + BigInt(starts[i]));
    clearOnDevice(this.#memory.address, FLAG_BYTES, stream);
    lists.forEach((words, i) => copyToDevice(this.#lists[i], words, stream));
    this.#panels = panel === null
      ? null
      : new Panels(stream, problem, variant, panel, this.#layout.dataBytes, (peer) => this.#destinationAt(peer));
    this.patience = new Patience(stream, problem.rank, options.patienceSeconds);
    this.#copies = kind === "gather" && !variant.blocksPush ? makePushing(stream.device) : null;
  }

  /**
   * Put a run on the stream. All ranks have to do it, in any order.
   *
   * @throws {ShapeError} if a tile kernel cannot do it.
   */
  execute(operands: TileOperands, stream: Stream = this.stream): void {
    const launches = this.#prepareFor(operands);
    const { a, b, alpha = 1, beta = 1 } = operands;
    const isMeeting = this.isMeeting(stream);
    const call = isMeeting ? MET_CALL : ++this.#calls;
    this.order.begin(stream);
    const launch = launches[isMeeting ? MET : call % 2];
    launch.setCall(call, alpha, beta);
    try {
      if (isMeeting) this.#takeBack(stream);
      if (this.#copies) this.#push(this.problem.split === "rows" ? a : b, call, stream);
      this.#put(stream, this.#span, () => launch.put(stream));
      // After the kernel, which they wait for: streams may share a queue of the GPU.
      if (!isMeeting) {
        const put = (stream: Stream, label: string, copy: () => void) =>
          this.#put(stream, { lane: 1, kind: "copy", label }, copy);
        this.#panels?.push(call, put);
      }
      // What is pushed has to stay as it is until then.
      if (this.#copies) stream.wait(this.#copies.ended);
    } finally {
      this.order.end(stream);
    }
  }

  override get notes(): readonly string[] {
    const notes = super.notes;
    return notes.length === 0 || this.#panels === null ? notes : [...notes, "panels do not travel then, but tiles do"];
  }

  /**
   * Run once, after all ranks have met, and return when copies ran, and what each cluster of blocks did with its tiles: a lane
   * for each. All ranks have to do it.
   */
  trace(operands: TileOperands): Interval[] {
    const words = new BigUint64Array(this.#count * 2 * TILE_MARKS.length);
    using marks = new DeviceBuffer(this.stream, words.byteLength);
    clearOnDevice(marks.address, words.byteLength, this.stream);
    const mark = (address: bigint) => this.#recent!.launches.forEach(({ parameters }) => setMarks(parameters, address));
    const intervals = this.traced(this.problem.rank, () => {
      this.#prepareFor(operands);
      mark(marks.address);
      try {
        this.execute(operands);
      } finally {
        mark(0n);
      }
    });
    copyFromDevice(words, marks.address, this.stream);
    return intervals.flatMap((one) => one.kind === "gemm" ? this.#tilesOf(one, words) : [one]);
  }

  /** Bytes of the GPU that only this rank uses. */
  get byteLength(): number {
    return this.#memory.byteLength + (this.#panels?.byteLength ?? 0);
  }

  /** Free it after what is on the stream. Does not communicate. */
  [Symbol.dispose](): void {
    this.settle();
    this.#panels?.[Symbol.dispose]();
    this.#memory.free();
    this.patience[Symbol.dispose]();
    for (const one of Object.values(this.#copies ?? {})) one[Symbol.dispose]();
  }

  #prepareFor(operands: TileOperands): readonly Launch[] {
    if (operands !== this.#recent?.operands) this.#recent = { operands, launches: this.#prepare(operands) };
    return this.#recent.launches;
  }

  /** What was marked of the tiles, as what happened during the kernel. */
  #tilesOf({ rank, start }: Interval, marks: BigUint64Array): Interval[] {
    const clusters = this.blocks / this.#variant.shape.cluster;
    const first = marks.reduce((least, mark) => mark !== 0n && mark < least ? mark : least, 2n ** 64n - 1n);
    const at = (index: number) => start + Number(marks[index] - first) / 1e3;
    return Array.from({ length: this.#count }, (_, tile) =>
      TILE_MARKS.flatMap((what, i): Interval[] => {
        const index = 2 * (tile * TILE_MARKS.length + i);
        if (marks[index] === 0n || marks[index + 1] === 0n) return [];
        const kind = what === "products" ? "gemm" : "wait";
        const label = what === "products" ? `tile ${tile}` : `waits for ${what}`;
        return [{ rank, lane: tile % clusters, kind, label, start: at(index), end: at(index + 1) }];
      })).flat();
  }

  /** The kernel's argument for each parity of the call. */
  #prepare(operands: TileOperands): readonly Launch[] {
    const { a, b, d, c = null, peersOfD = [], partsOfD = [], partsOfFactor = [], epilog: { bias, activation } = {} } =
      operands;
    const matrices = [a, b, d, c].map((matrix) =>
      matrix === null || matrix === "in D" ? matrix : `${matrix.address}/${matrix.leading}`
    );
    const key = [matrices, peersOfD, partsOfD, partsOfFactor, bias?.address, bias?.isOfRows, activation].join();
    let launches = this.#prepared.get(key);
    if (launches === undefined) {
      const leading = { a: a.leading, b: b.leading, d: d.leading };
      const refusal = tileRefusal(this.problem, leading, partsOfD.length + partsOfFactor.length > 0);
      if (refusal) throw new ShapeError(`This product is not for tile kernels: ${refusal}.`);
      const epilog = compiledEpilog(operands.epilog ?? {});
      const kernel = TileKernel.of(configurationOf(this.problem, this.#variant, epilog));
      const argument = (parity: number, panels: Panels | null) =>
        this.#arguments(kernel.configuration, operands, parity, panels);
      const byParity = [0, 1].map((parity) => argument(parity, this.#panels));
      // Nothing says whether a graph begins with the kernel, or with what waits for its panels.
      const met = this.#panels === null ? byParity[MET_CALL % 2] : argument(MET_CALL % 2, null);
      launches = [...byParity, met].map((parameters) => ({
        parameters,
        setCall: callSetter(parameters),
        put: kernel.prepareLaunch(this.stream.device, this.blocks, parameters, this.#runsTogether),
      }));
      if (this.#prepared.size >= MOST_PREPARED) this.#prepared.clear();
      this.#prepared.set(key, launches);
    }
    return launches;
  }

  /** Meet, and take flags and counters back, for which no copy waits any more. */
  #takeBack(stream: Stream): void {
    // A graph that is captured cannot wait for what is no part of it: the host does, once.
    if (this.#calls > 0) this.#panels?.settle();
    this.#calls = 0;
    this.meet(stream, true);
  }

  /** Wait until all ranks are here, and have taken their flags back if that is said. */
  protected override meet(stream: Stream, takesBack: boolean): void {
    const { rank } = this.problem;
    const { tileFlags, data } = this.#layout;
    const words = this.#peers.map((address) => address + BigInt(2 * FLAG_BYTES));
    const own = this.#peers[rank];
    meetAll(stream, {
      cleared: takesBack
        ? [
          { address: own, words: 2 * FLAG_BYTES / 4 },
          { address: own + BigInt(tileFlags), words: (data - tileFlags) / 4 },
        ]
        : [],
      number: this.#memory.address,
      words,
      rank,
      what: AWAITED.meeting,
    }, this.patience.notes);
  }

  #put(stream: Stream, span: Span, put: () => void): void {
    const { tracing } = this;
    if (tracing) tracing.span(stream, span, put);
    else put();
  }

  /** As few clusters as go through the list in as many turns as `most` of them. */
  #clustersFor(most: number): number {
    const { length } = tileOrder(this.problem, this.#variant, most);
    return Math.ceil(length / Math.ceil(length / most));
  }

  /**
   * Whether all blocks have to run at the same time, since some wait for what others make. Where each cluster sends one tile
   * and waits for the same one, any number of them is enough: they begin in the order of their numbers. Ranks that one process
   * plays on one GPU need something between two such runs, so that none's next run takes the room of another's.
   */
  get #runsTogether(): boolean {
    return this.#isSum && !(this.#variant.isExchange && this.#count <= this.blocks / this.#variant.shape.cluster);
  }

  /** Whether ranks add up what others send. */
  get #isSum(): boolean {
    const { kind } = this.problem;
    return kind === "reduce" || kind === "all_reduce";
  }

  /** The place of a sender among those that a rank receives from. */
  #slot(sender: number, receiver: number): number {
    const { size } = this.problem;
    return (sender - receiver - 1 + size) % size;
  }

  /** Where a sender's data for a receiver lies, which is with the one or the other. */
  #dataOf(sender: number, receiver: number, parity: number): bigint {
    const { data, dataBytes, senders } = this.#layout;
    const index = parity * senders + this.#slot(sender, receiver);
    return this.#peers[this.#isSum && this.#variant.pulls ? sender : receiver] + BigInt(data + index * dataBytes);
  }

  /** Where a receiver has a sender's flags of tiles. */
  #flagsOf(sender: number, receiver: number): bigint {
    const { tileFlags, flagBytes } = this.#layout;
    return this.#peers[receiver] + BigInt(tileFlags + this.#slot(sender, receiver) * flagBytes);
  }

  /** Where this rank counts what it has stored for a receiver: a counter for each panel. */
  #countersFor(receiver: number): bigint {
    const { rank } = this.problem;
    const { counters, counterBytes } = this.#layout;
    return this.#peers[rank] + BigInt(counters + this.#slot(rank, receiver) * counterBytes);
  }

  #destinationAt(peer: number): Destination {
    const { rank } = this.problem;
    const data = (parity: number) => this.#dataOf(rank, peer, parity);
    return { counters: this.#countersFor(peer), data: [data(0), data(1)], flags: this.#flagsOf(rank, peer) };
  }

  /** Where a receiver has a sender's one word: 0 for what was gathered, 1 for the end of its stores. */
  #wordOf(sender: number, receiver: number, kind: 0 | 1): bigint {
    return this.#peers[receiver] + BigInt(kind * FLAG_BYTES + this.#slot(sender, receiver) * 4);
  }

  #byRank(address: (rank: number) => bigint, isUsed = true): bigint[] {
    const { rank: self, size } = this.problem;
    const isOfItself = this.#variant.isExchange === true;
    return Array.from({ length: size }, (_, rank) => isUsed && (isOfItself || rank !== self) ? address(rank) : 0n);
  }

  /** This rank's part of the gathered operand, for blocks that push it; null if they do not. */
  #pushedPart({ a, b }: Pick<TileOperands, "a" | "b">): PushedPart | null {
    const { kind, split, rank } = this.problem;
    if (kind !== "gather" || !this.#variant.blocksPush) return null;
    const { inner, outer } = gatheredPart(this.problem, partsOf(this.problem)[rank]);
    const unitsOf = (elements: number) => Math.ceil(elements * factorBytes(this.problem) / 16);
    const isAcross = isSplitInSequence(this.problem);
    const [{ end }] = this.#pieces;
    return {
      address: (split === "rows" ? a : b).address,
      // Among the words of those that end their stores, which there are none of.
      shares: this.#peers[rank] + BigInt(FLAG_BYTES),
      rows: outer,
      units: unitsOf(inner),
      pieceRows: isAcross ? end : 0,
      pieceUnits: isAcross ? 0 : unitsOf(end),
      pitch: unitsOf(padded(inner, factorBytes(this.problem))),
    };
  }

  /**
   * How many steps lie between two chunks of a tile that leave, or are added. Where there are fewer slots than chunks, a slot
   * has to be free again for the next one: on a link that takes some microseconds, and a step about 0.7. What leaves has the
   * first half of a tile's steps, what is added the other one.
   */
  #stepsBetweenChunks(
    configuration: TileConfiguration,
    panels: Panels | null,
  ): { putEvery: number; takeEvery: number } {
    const { kind, k } = this.problem;
    const chunks = chunksOf(configuration);
    const steps = Math.ceil(k / stepElements(configuration));
    const between = (most: number) => Math.max(1, Math.min(most, Math.floor(steps / (2 * chunks))));
    const haveSlots = chunks <= configuration.slots;
    const travels = this.#variant.pulls
      ? kind === "all_reduce" && !haveSlots
      : this.#isSum && (kind === "all_reduce" || panels === null);
    return { putEvery: between(travels ? 8 : 2), takeEvery: between(haveSlots ? 2 : 6) };
  }

  #arguments(
    configuration: TileConfiguration,
    { a, b, d, c, peersOfD, partsOfD, partsOfFactor, epilog }: TileOperands,
    parity: number,
    panels: Panels | null,
  ): Uint8Array<ArrayBuffer> {
    const { kind, m, k, rank } = this.problem;
    const targets = this.#targets(d, peersOfD, partsOfD);
    const { isExchange = false, pulls = false } = this.#variant;
    const isSum = this.#isSum;
    const pushed = this.#pushedPart({ a, b });
    const stores = kind === "all_reduce" && !isExchange;
    return packArguments(configuration, {
      a: this.#operands(a, "rows", parity, partsOfFactor),
      b: this.#operands(b, "columns", parity, partsOfFactor),
      d: targets,
      c: c && c !== "in D" ? { ...c, ...this.#own } : c ?? null,
      origin: { row: this.#own.rows.start, column: this.#own.columns.start },
      tiles: panels === this.#panels ? this.#lists[0] : this.#lists[1],
      count: this.#count,
      k,
      rank,
      panel: panels?.halves ?? 1,
      isPushed: panels !== null,
      send: this.#byRank(
        (peer) => panels?.dataFor(peer, parity) ?? this.#dataOf(rank, peer, parity),
        isSum || pushed !== null,
      ),
      raise: this.#byRank(
        (peer) => pushed ? this.#wordOf(rank, peer, 0) : panels ? this.#countersFor(peer) : this.#flagsOf(rank, peer),
        isSum || pushed !== null,
      ),
      arrive: this.#byRank((peer) => this.#dataOf(peer, rank, parity), isSum),
      expect: this.#byRank((peer) => this.#flagsOf(peer, rank), isSum),
      finish: this.#byRank((peer) => this.#wordOf(rank, peer, 1), stores),
      finished: this.#byRank((peer) => this.#wordOf(peer, rank, 1), stores),
      finishCount: 2 * this.blocks,
      gathered: this.#byRank((peer) => this.#wordOf(peer, rank, 0), kind === "gather"),
      pushed,
      error: this.patience.notes.error,
      report: this.patience.notes.report,
      bias: epilog?.bias,
      patienceSeconds: this.patience.notes.patienceSeconds,
      pieces: this.#pieces.length,
      pieceSteps: Math.ceil(this.#pieces[0].end / stepElements(this.problem)),
      stamps: this.#stamps,
      piece: this.#variant.piece ??
        (isExchange || pulls ? CHUNK_BYTES : m <= 2048 ? CHUNK_BYTES / 4 : CHUNK_BYTES / 2),
      ...this.#stepsBetweenChunks(configuration, panels),
    });
  }

  /** The parts of A, whose rows may be split, or of B, whose columns may be. */
  #operands(
    own: DeviceMatrix,
    extent: "rows" | "columns",
    parity: number,
    apart: readonly bigint[] = [],
  ): Operand[] {
    const { kind, m, n, k, split, rank } = this.problem;
    const sums = { start: 0, end: k };
    const operand = (matrix: DeviceMatrix, part: Part): Operand =>
      extent === "rows" ? { ...matrix, rows: part, columns: sums } : { ...matrix, rows: sums, columns: part };
    const whole = { start: 0, end: extent === "rows" ? m : n };
    if (extent !== split || kind === "plain" || kind === "all_reduce") return [operand(own, whole)];
    return partsOf(this.problem).map((part, index) => {
      const { end } = part;
      // All of it is here: a tile of a part may read on, and what it gets there is not stored.
      if (kind === "reduce" && apart.length === 0) return operand(own, { ...whole, end });
      if (kind === "reduce") return operand({ ...own, address: apart[index] }, part);
      if (index === rank) return operand(own, part);
      const leading = padded(gatheredPart(this.problem, part).inner, factorBytes(this.problem));
      return operand({ address: this.#dataOf(index, rank, parity), leading }, part);
    });
  }

  /** The matrices that results are stored into. */
  #targets(
    d: DeviceMatrix,
    peersOfD: readonly bigint[] = [],
    partsOfD: readonly bigint[] = [],
  ): (Operand | null)[] {
    const { kind, split, rank, size } = this.problem;
    const whole = { ...d, ...this.#own };
    switch (kind) {
      case "plain":
        return [whole];
      case "gather":
        // A tile stores no further than its part.
        return partsOf(this.problem).map(({ start, end }, part) =>
          partsOfD.length > 0
            ? { ...whole, address: partsOfD[part], [split]: { start, end } }
            : { ...whole, [split]: { start: 0, end } }
        );
      case "reduce":
        return Array.from({ length: rank + 1 }, (_, i) => i < rank ? null : whole);
      case "all_reduce":
        return Array.from({ length: size }, (_, i) => {
          if (i === rank) return whole;
          return peersOfD[i] === undefined ? null : { ...whole, address: peersOfD[i] };
        });
    }
  }

  /** The rows and columns of D that this rank has. */
  get #own(): Region {
    const { kind, m, n, split, rank } = this.problem;
    const whole = { rows: { start: 0, end: m }, columns: { start: 0, end: n } };
    return kind === "reduce" ? { ...whole, [split]: partsOf(this.problem)[rank] } : whole;
  }

  /** Send this rank's part to the others, to the one first that needs it first. */
  #push(own: DeviceMatrix, call: number, on: Stream): void {
    const { rank, size } = this.problem;
    const { stream, notices, begun, passed, ended } = this.#copies!;
    const teller = size === 2 && this.#pieces.length === 1 ? stream : notices;
    const { inner, outer } = gatheredPart(this.problem, partsOf(this.problem)[rank]);
    const itemSize = factorBytes(this.problem);
    const pitch = padded(inner, itemSize) * itemSize;
    const isAcross = isSplitInSequence(this.problem);
    const { cuStreamWriteValue32 } = openCudaDriver().symbols;
    begun.record(on);
    stream.wait(begun);
    for (let i = 1; i < size; i++) {
      const peer = (rank - i + size) % size;
      const to = this.#dataOf(rank, peer, call % 2);
      const flag = this.#wordOf(rank, peer, 0);
      this.#pieces.forEach(({ start, end }, piece) => {
        const [first, rows, width] = isAcross
          ? [start * pitch, end - start, inner * itemSize]
          : [start * itemSize, outer, (end - start) * itemSize];
        const copy = () => {
          const [target, source] = [to + BigInt(first), own.address + BigInt(first)];
          // What lies in sequence but for padding is one piece of memory.
          if (isAcross || this.#pieces.length === 1) copyOnDevice(target, source, (rows - 1) * pitch + width, stream);
          else {copyPlaneOnDevice(
              target,
              source,
              { width, height: rows, sourcePitch: pitch, targetPitch: pitch },
              stream,
            );}
        };
        this.#put(stream, { lane: 1, kind: "copy", label: `its part to rank ${peer}` }, copy);
        const here = (call - 1) * this.#pieces.length + piece + 1;
        if (teller !== stream) {
          passed.record(stream);
          teller.wait(passed);
        }
        checkCudaDriver(
          cuStreamWriteValue32(teller.handle, flag, here >>> 0, CuStreamWriteValueFlags.DEFAULT),
          "cuStreamWriteValue32",
        );
      });
    }
    ended.record(teller);
  }
}
