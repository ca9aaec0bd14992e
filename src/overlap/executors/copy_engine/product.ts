/**
 * Stage schedules on GPUs of one machine: products by cuBLASLt on one stream, copies by copy engines on another.
 *
 * A signal is a number that a stream writes into another GPU's memory, behind what it has copied there. A wait is a kernel
 * of one thread that looks at its own GPU's memory: it ends at a deadline, so that a rank that is gone holds no GPU.
 *
 * Each run has a number. Windows take turns by the parity of that number, and flags hold the number itself, so that there
 * are neither barriers nor resets, as `check.ts` proves. Numbers come round, and so do the calls of a run, which a graph of
 * each number makes at once. A run that is captured in a user's graph has no number of its own: there the ranks meet at its
 * beginning, where each takes its flags back, and one window is enough.
 *
 * @module
 */
import { checkCudaDriver, CuStreamWriteValueFlags, openCudaDriver } from "../../../../ffi/cuda/driver.ts";
import { scalar, type ScalarArgument, setScalar } from "../../../blas/arguments.ts";
import type { MatrixInMemory } from "../../../blas/gemm.ts";
import {
  GEMM_WORKSPACE_BYTES,
  type GemmLaunch,
  type GemmMatrix,
  GpuGemm,
  type GpuGemmOptions,
} from "../../../blas/gpu_gemm.ts";
import { type AccumulatorDType, type DType, dtypeInfo, type Scalar } from "../../../dtype/dtype.ts";
import { Event } from "../../../gpu/event.ts";
import { RepeatedCalls } from "../../../gpu/repeated_calls.ts";
import { meetAll, prepareFlags, prepareWait } from "../../../gpu/kernels/flag_kernels.ts";
import { addBlocks, prepareSum } from "../../../gpu/kernels/sum_kernels.ts";
import { Stream } from "../../../gpu/stream.ts";
import { clearOnDevice, copyOnDevice, copyPlaneOnDevice } from "../../../memory/copy.ts";
import { DeviceBuffer } from "../../../memory/device_buffer.ts";
import { lineElements, type Partition } from "../../partition.ts";
import {
  type Copy,
  type Gemm,
  type MemoryLines,
  type Reduce,
  type Schedule,
  scheduleOf,
  type ScheduleStep,
  spanOf,
  type Variant,
} from "../../schedule.ts";
import type { Interval } from "../../../runtime/timeline.ts";
import { AWAITED, Patience } from "../patience.ts";
import { Places } from "../places.ts";
import { numberOf, NUMBERS } from "../run_number.ts";
import { GpuProduct } from "../gpu_product.ts";

/** What is multiplied, on one rank. */
export interface CopyEngineProblem extends Omit<GpuGemmOptions, "types" | "scaleType" | "algorithm"> {
  /** Where everything is. */
  readonly partition: Partition;
  /** This rank. */
  readonly rank: number;
  /** The element types of the matrices. */
  readonly types: Readonly<Record<GemmMatrix, DType>>;
  /** The type in which sums travel. */
  readonly sumType: DType;
  /** The type of alpha and beta. */
  readonly scaleType: AccumulatorDType;
}

/** How it is done. */
export interface CopyEngineVariant extends Pick<Variant, "way" | "pieces"> {
  /** Which of cuBLASLt's algorithms. */
  readonly algorithm?: number | "fuller";
}

/** This rank's matrices, which lie column by column. */
export interface CopyEngineOperands {
  /** A. */
  readonly a: MatrixInMemory;
  /** B. */
  readonly b: MatrixInMemory;
  /** What is added, perhaps D itself; or nothing. */
  readonly c: MatrixInMemory | null;
  /** D. */
  readonly d: MatrixInMemory;
}

/** Each flag has a sector of memory for itself. */
const FLAG_BYTES = 64;

/** The words in which ranks meet come first. */
const MEETING_BYTES = 256;

const PARITIES = 2;

/** As which every run counts that begins with a meeting, in which flags are taken back. */
const MET_RUN = 1;

/** For how many sets of operands the calls are kept. */
const MOST_PREPARED = 8;

const align = (bytes: number) => Math.ceil(bytes / 256) * 256;

/** What a rank's part of the memory that all ranks address holds: the same on all of them. */
interface ExchangeLayout {
  readonly flags: number;
  readonly windowBytes: number;
  readonly windows: number;
  readonly bytes: number;
}

function layoutOf({ partition, windowLines, flags }: Schedule, itemSize: number): ExchangeLayout {
  const windows = align(MEETING_BYTES + PARITIES * flags * FLAG_BYTES);
  const windowBytes = align(windowLines * lineElements(partition) * itemSize);
  return { flags, windowBytes, windows, bytes: windows + PARITIES * windowBytes };
}

function schedulesFor({ partition, rank }: CopyEngineProblem, { way, pieces }: CopyEngineVariant): Schedule[] {
  return [false, true].map((hasAddend) =>
    scheduleOf(partition, rank, { way, ...pieces !== undefined && { pieces }, hasAddend, canAddApart: true })
  );
}

/** The type of what travels. */
function travellingType({ partition: { travels }, types, sumType }: CopyEngineProblem): DType {
  return travels === "d" ? sumType : types[travels];
}

/** Bytes of a rank's part of the memory that all ranks address. */
export function exchangeBytes(problem: CopyEngineProblem, variant: CopyEngineVariant): number {
  const { itemSize } = dtypeInfo(travellingType(problem));
  return layoutOf(schedulesFor(problem, variant)[0], itemSize).bytes;
}

/** A step that is ready to be put on streams: in the run of which number, on which stream. */
type Ready = (number: number, stream: Stream) => void;

/** What is prepared for a set of operands. */
interface Prepared {
  /** For each parity of the run, what is done for each step. */
  readonly steps: readonly (readonly Ready[])[];
  /** What repeats the calls of a run: for all of it, or but for copies; and for copies. */
  readonly calls: readonly RepeatedCalls[];
  /** What they multiply by, alpha and beta. */
  factors: readonly number[];
}

/** How a run goes, with an addend or without. */
interface Way {
  readonly schedule: Schedule;
  /** By step. */
  readonly links: readonly Links[];
  /** Whether copies have to wait for the beginning of a run, since their first step waits for no product of it. */
  readonly awaitsBeginning: boolean;
  /** Whether nothing else joins the streams but the end. */
  readonly areApart: boolean;
}

/** What a step waits for, and how others wait for it. */
interface Links {
  readonly waits: readonly Event[];
  readonly done: Event | null;
}

/**
 * A product that is run many times, on one rank. The ranks make it with the same problem and variant, run it equally
 * often, and free it after all have ended their last run.
 */
export class CopyEngineProduct extends GpuProduct implements Disposable {
  /** What is multiplied. */
  readonly problem: CopyEngineProblem;
  protected override readonly stream: Stream;
  readonly #copies: Stream;
  /** Without an addend, and with one. */
  readonly #ways: readonly Way[];
  readonly #places: Places;
  readonly #layout: ExchangeLayout;
  readonly #peers: readonly bigint[];
  protected override readonly patience: Patience;
  readonly #memory: DeviceBuffer;
  readonly #gemms = new Map<string, GpuGemm>();
  readonly #algorithm: number | "fuller";
  readonly #prepared = new Map<string, Prepared>();
  /** The last run's: whoever repeats a run passes the same object. */
  #recent: { readonly operands: CopyEngineOperands; readonly prepared: Prepared } | null = null;
  readonly #begun = new Event();
  readonly #ended = new Event();
  readonly #alpha: ScalarArgument;
  readonly #beta: ScalarArgument;
  readonly #zero: ScalarArgument;
  readonly #one: ScalarArgument;
  #runs = 0;

  /**
   * Prepare it. `peers` are the addresses of the ranks' parts of the memory that all address ({@linkcode exchangeBytes}), as
   * this rank sees them; all zeros before the first run.
   */
  constructor(
    stream: Stream,
    problem: CopyEngineProblem,
    variant: CopyEngineVariant,
    peers: readonly bigint[],
    options: { patienceSeconds?: number } = {},
  ) {
    super();
    const { rank, scaleType, sumType } = problem;
    prepareFlags(stream);
    const schedules = schedulesFor(problem, variant);
    if (schedules.some(({ steps }) => steps.some(({ kind }) => kind === "reduce"))) prepareSum(sumType, stream);
    this.problem = problem;
    this.stream = stream;
    this.#peers = peers;
    this.#algorithm = variant.algorithm ?? 0;
    this.#places = new Places(schedules[0], problem);
    this.#layout = layoutOf(schedules[0], dtypeInfo(travellingType(problem)).itemSize);
    // A word that counts meetings, and the workspace.
    this.#memory = new DeviceBuffer(stream, MEETING_BYTES + GEMM_WORKSPACE_BYTES);
    clearOnDevice(this.#memory.address, MEETING_BYTES, stream);
    this.patience = new Patience(stream, rank, options.patienceSeconds);
    this.#copies = new Stream(stream.device, { priority: -1, name: "copies" });
    this.#ways = schedules.map(wayOf);
    [this.#alpha, this.#beta, this.#zero, this.#one] = [1, 0, 0, 1].map((value) => scalar(scaleType, value));
  }

  /** Bytes that it keeps besides the memory that all ranks address. */
  get byteLength(): number {
    return this.#memory.byteLength;
  }

  /** Put a run on a stream. All ranks have to do it, in any order. */
  execute(operands: CopyEngineOperands, alpha: Scalar = 1, beta: Scalar = 0, stream: Stream = this.stream): void {
    const isMeeting = this.isMeeting(stream);
    const isAdding = operands.c !== null;
    if (operands !== this.#recent?.operands) this.#recent = { operands, prepared: this.#prepare(operands) };
    const { prepared } = this.#recent;
    const run = isMeeting ? MET_RUN : ++this.#runs;
    setScalar(this.#alpha, alpha);
    setScalar(this.#beta, isAdding ? beta : 0);
    this.order.begin(stream);
    const way = this.#ways[Number(isAdding)];
    try {
      if (isMeeting) this.meet(stream, true);
      if (isMeeting || this.tracing) this.#put(prepared, way, run, stream);
      else this.#repeat(prepared, way, run, stream);
    } finally {
      this.order.end(stream);
    }
  }

  /** Run once, after all ranks have met, and return when each step began and ended. All ranks have to do it. */
  trace(operands: CopyEngineOperands, alpha: Scalar = 1, beta: Scalar = 0): Interval[] {
    return this.traced(this.problem.rank, () => this.execute(operands, alpha, beta));
  }

  /** Free it after what is on the stream. Does not communicate. */
  [Symbol.dispose](): void {
    this.settle();
    this.#memory.free();
    this.patience[Symbol.dispose]();
    this.#forget();
    for (const gemm of this.#gemms.values()) gemm[Symbol.dispose]();
    for (const { done } of this.#ways.flatMap(({ links }) => links)) done?.[Symbol.dispose]();
    for (const event of [this.#begun, this.#ended]) event[Symbol.dispose]();
    this.#copies[Symbol.dispose]();
  }

  /** Wait until all ranks are here, and have taken their flags back if that is said. */
  protected override meet(stream: Stream, takesBack: boolean): void {
    const { rank } = this.problem;
    const own = this.#peers[rank];
    meetAll(stream, {
      cleared: takesBack
        ? [{ address: own + BigInt(MEETING_BYTES), words: PARITIES * this.#layout.flags * FLAG_BYTES / 4 }]
        : [],
      number: this.#memory.address,
      words: this.#peers,
      rank,
      what: AWAITED.meeting,
    }, this.patience.notes);
  }

  /** As {@linkcode #put}, by graphs once they are worth it. */
  #repeat(prepared: Prepared, way: Way, run: number, stream: Stream): void {
    const [ofAll, ofCopies] = this.#callsOf(prepared);
    if (!way.areApart) {
      ofAll.put(stream, run % NUMBERS, (on) => this.#put(prepared, way, run, on));
      return;
    }
    // A graph without branches begins sooner.
    this.#begin(way, stream);
    ofCopies.put(this.#copies, run % NUMBERS, (on) => this.#putSteps(prepared, way, run, [null, on]));
    ofAll.put(stream, run % NUMBERS, (on) => this.#putSteps(prepared, way, run, [on, null]));
    this.#end(stream);
  }

  /** Put a run on a stream and on that of copies. */
  #put(prepared: Prepared, way: Way, run: number, stream: Stream): void {
    this.#begin(way, stream);
    this.#putSteps(prepared, way, run, [stream, this.#copies]);
    this.#end(stream);
  }

  #begin({ awaitsBeginning }: Way, stream: Stream): void {
    if (!awaitsBeginning) return;
    this.#begun.record(stream);
    this.#copies.wait(this.#begun);
  }

  /** What is copied has to stay as it is until then. */
  #end(stream: Stream): void {
    this.#ended.record(this.#copies);
    stream.wait(this.#ended);
  }

  /** Put the steps of a run on streams, but for those of a stream that is left out. */
  #putSteps(
    { steps }: Prepared,
    { schedule, links }: Way,
    run: number,
    streams: readonly [products: Stream | null, copies: Stream | null],
  ): void {
    const number = numberOf(run);
    const ready = steps[run % PARITIES];
    const { tracing } = this;
    schedule.steps.forEach((step, i) => {
      const on = streams[step.stream];
      if (on === null) return;
      const { waits, done } = links[i];
      for (const event of waits) on.wait(event);
      const span = tracing && spanOf(step);
      if (span) tracing.span(on, span, () => ready[i](number, on));
      else ready[i](number, on);
      done?.record(on);
    });
  }

  /** What repeats the calls of a run with the factors that are set. */
  #callsOf(prepared: Prepared): readonly RepeatedCalls[] {
    const factors = [...this.#alpha.values, ...this.#beta.values];
    if (!factors.every((factor, i) => Object.is(factor, prepared.factors[i]))) {
      for (const calls of prepared.calls) calls.forget();
      prepared.factors = factors;
    }
    return prepared.calls;
  }

  #forget(): void {
    for (const calls of this.#prepared.values().flatMap(({ calls }) => calls)) calls[Symbol.dispose]();
    this.#prepared.clear();
  }

  #prepare(operands: CopyEngineOperands): Prepared {
    const matrices = [operands.a, operands.b, operands.c, operands.d];
    const key = matrices.map((matrix) => matrix && `${matrix.address}/${matrix.leadingDimension}`).join();
    let prepared = this.#prepared.get(key);
    if (prepared === undefined) {
      const { schedule: { steps } } = this.#ways[Number(operands.c !== null)];
      const byParity = Array.from(
        { length: PARITIES },
        (_, parity) => steps.map((step) => this.#ready(step, operands, parity)),
      );
      const calls = [0, 1].map(() => new RepeatedCalls(this.stream.device));
      prepared = { steps: byParity, calls, factors: [] };
      if (this.#prepared.size >= MOST_PREPARED) this.#forget();
      this.#prepared.set(key, prepared);
    }
    return prepared;
  }

  #ready(step: ScheduleStep, operands: CopyEngineOperands, parity: number): Ready {
    switch (step.kind) {
      case "signal": {
        const word = this.#flag(step.rank, step.flag, parity);
        return (number, { handle }) => {
          const { cuStreamWriteValue32 } = openCudaDriver().symbols;
          const code = cuStreamWriteValue32(handle, word, number, CuStreamWriteValueFlags.DEFAULT);
          checkCudaDriver(code, "cuStreamWriteValue32");
        };
      }
      case "wait": {
        const { partition: { travels }, rank } = this.problem;
        const word = this.#flag(rank, step.flag, parity);
        const what = travels === "d" ? AWAITED.sums : AWAITED.operand;
        return prepareWait({ word, peer: step.rank, what }, this.patience.notes, this.stream.device);
      }
      case "copy":
        return this.#readyCopy(step, operands, parity);
      case "reduce":
        return this.#readyReduce(step, operands, parity);
      case "gemm": {
        const launch = this.#readyGemm(step, operands, parity);
        const beta = step.adds === "addend" ? this.#beta : step.adds === "sum" ? this.#one : this.#zero;
        return (_, stream) => launch(this.#alpha.values, beta.values, stream);
      }
    }
  }

  #readyCopy({ from, to }: Copy, operands: CopyEngineOperands, parity: number): Ready {
    // Results that all ranks get are copied as they are, not as sums travel.
    const isResult = from.memory === "result" || to.memory === "result";
    const { itemSize } = dtypeInfo(isResult ? this.problem.types.d : travellingType(this.problem));
    const [source, target] = [from, to].map((place) => this.#place(place, operands, parity));
    const [rows, columns] = this.#places.shape(from.lines);
    const width = rows * itemSize;
    const [sourcePitch, targetPitch] = [source, target].map(({ leadingDimension }) => leadingDimension * itemSize);
    const isDense = columns === 1 || (sourcePitch === width && targetPitch === width);
    return isDense
      ? (_, stream) => copyOnDevice(target.address, source.address, width * columns, stream)
      : (_, stream) =>
        copyPlaneOnDevice(
          target.address,
          source.address,
          { width, height: columns, sourcePitch, targetPitch },
          stream,
        );
  }

  #readyReduce({ from, to }: Reduce, operands: CopyEngineOperands, parity: number): Ready {
    const target = this.#place(to, operands, parity);
    const terms = from.map((place) => this.#place(place, operands, parity).address);
    const shape = this.#places.shape(to.lines);
    return (_, stream) => addBlocks(this.problem.sumType, target, terms, shape, stream);
  }

  #readyGemm(step: Gemm, operands: CopyEngineOperands, parity: number): GemmLaunch {
    const { partition: { travels }, types, sumType } = this.problem;
    const { factor, to, adds, sum } = step;
    const side = (name: "a" | "b") =>
      factor !== null && name === travels
        ? this.#place(factor, operands, parity)
        : this.#places.ownSide(step, name, operands[name], dtypeInfo(types[name]).itemSize);
    const d = this.#place(to, operands, parity);
    const typeOfD = to.memory === "window" ? sumType : types.d;
    const added = adds === "addend" && operands.c !== null
      ? { c: this.#place(to, { ...operands, d: operands.c }, parity, types.c), type: types.c }
      : adds === "sum" && sum !== undefined
      ? { c: this.#place(sum, operands, parity), type: sumType }
      : { c: d, type: dtypeInfo(typeOfD).itemSize === 1 ? types.c : typeOfD };
    return this.#gemm(added.type, typeOfD).prepare({
      extents: this.#places.extents(step.range),
      matrices: { a: side("a"), b: side("b"), c: added.c, d },
    });
  }

  /** Products that add a C of one type, and store a D of another. */
  #gemm(c: DType, d: DType): GpuGemm {
    const key = `${c} ${d}`;
    let gemm = this.#gemms.get(key);
    if (gemm === undefined) {
      const { types, scales = {}, ...options } = this.problem;
      const { c: _, d: ofD, ...ofFactors } = scales;
      const memory = this.#memory;
      const workspace = {
        address: memory.address + BigInt(MEETING_BYTES),
        byteLength: GEMM_WORKSPACE_BYTES,
        stream: memory.stream,
      };
      gemm = new GpuGemm(workspace, {
        ...options,
        types: { ...types, c, d },
        scales: { ...ofFactors, ...ofD !== undefined && d === types.d && { d: ofD } },
        algorithm: this.#algorithm,
      });
      this.#gemms.set(key, gemm);
    }
    return gemm;
  }

  #place(
    place: MemoryLines,
    operands: CopyEngineOperands,
    parity: number,
    typeOfD = this.problem.types.d,
  ): MatrixInMemory {
    const { windows, windowBytes } = this.#layout;
    const travelling = dtypeInfo(travellingType(this.problem)).itemSize;
    const itemSize = place.memory === "result" ? dtypeInfo(typeOfD).itemSize : travelling;
    const start = BigInt(windows + parity * windowBytes);
    return this.#places.matrixAt(
      place,
      operands,
      itemSize,
      (rank, element) => this.#peers[rank] + start + BigInt(element * travelling),
    );
  }

  /** Where a rank's flag lies. */
  #flag(rank: number, flag: number, parity: number): bigint {
    return this.#peers[rank] + BigInt(MEETING_BYTES + (parity * this.#layout.flags + flag) * FLAG_BYTES);
  }
}

function wayOf(schedule: Schedule): Way {
  const links = linksOf(schedule);
  const first = links[schedule.steps.findIndex(({ stream }) => stream === 1)];
  const awaitsBeginning = first === undefined || first.waits.length === 0;
  return {
    schedule,
    links,
    awaitsBeginning,
    areApart: awaitsBeginning && links.every(({ waits }) => waits.length === 0),
  };
}

/** Which events join the streams: one after each step that steps of the other stream wait for. */
function linksOf({ steps }: Schedule): Links[] {
  const awaited = new Set(steps.flatMap(({ after }) => after));
  const events = steps.map((_, i) => awaited.has(i) ? new Event() : null);
  return steps.map(({ after, stream }, i) => ({
    waits: after.filter((number) => steps[number].stream !== stream).map((number) => events[number]!),
    done: events[i],
  }));
}
