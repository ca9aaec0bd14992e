/**
 * A planned transform: its steps with what each of them needs, and the buffers in between. Everything but what transforms
 * one rank's part is the same for all engines.
 *
 * @module
 */
import { predictOnGpu } from "../../../array/gpu_model.ts";
import { type AlgorithmTimes, predictOnHost } from "../../../array/host_model.ts";
import { type Order, sizeOfShape, stridesOf } from "../../../array/layout.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { elementsBetween, elementsCopied, type Parts } from "../../../array/redistribution/plan.ts";
import type { RedistributionAlgorithm, Redistributor } from "../../../array/redistribution/redistributor.ts";
import { SymmetricArray } from "../../../array/symmetric_array.ts";
import { countOf } from "../../../array/traverse.ts";
import { addBytes, busiestBytes, noBytes } from "../../../distribution/communication.ts";
import { CommunicationMatrix } from "../../../distribution/mod.ts";
import { type DType, dtypeInfo, type TypedArray } from "../../../dtype/dtype.ts";
import { ConfigurationError } from "../../../errors.ts";
import { refuseCapture } from "../../../gpu/graph.ts";
import { copyOnDevice } from "../../../memory/copy.ts";
import { DeviceBuffer, type DeviceMemory } from "../../../memory/device_buffer.ts";
import { allocateForPlan } from "../../../memory/symmetric_memory.ts";
import { freeUnlessAgreed } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { shortestSeconds } from "../../../stopwatch.ts";
import { FFT_DIRECTIONS, type FFTDirection, type FFTPrecision } from "../../problem.ts";
import { findRoutes } from "../../route.ts";
import type { Route } from "../../steps.ts";
import type { FFTEnginePlan, FFTReport, FFTRequest } from "../engine.ts";
import { ROUTE_ALGORITHMS, type RouteAlgorithm } from "./algorithms.ts";
import { type Location, locationsOf } from "./locations.ts";
import { type Operation, operationsFor } from "./operations.ts";
import {
  byteLengthOf,
  type Cut,
  cutting,
  findCut,
  findCutOfUse,
  partAlong,
  partsOf,
  partsOnGpus,
  type StepsInPlace,
} from "./parts.ts";
import { type Apart, apartAt, spreading } from "./spreading.ts";
import type { Transformer } from "./transformer.ts";
import { inWords } from "./words.ts";
import { operationsOfStep, passedBytes } from "./work.ts";

/** The algorithms of engines that plan by stages. */
export const STAGED_ALGORITHMS: readonly RouteAlgorithm[] = Object.values(ROUTE_ALGORITHMS);

/** What is tried is tried so often. */
const ROUNDS = 3;

/** A step, or all of them, prepared for these arrays. */
interface Prepared {
  readonly source: LocalArray;
  readonly target: LocalArray;
  readonly run: () => void;
}

/**
 * Results of so few bytes a rank are made in memory of the plan, for which everything stays prepared, and then copied: that
 * takes less time than to prepare the moves for each new result.
 */
const MOST_KEPT_BYTES = { host: 2 ** 16, gpu: 2 ** 24 };

/** What is done with each part of what a move brings. */
type Uses = readonly (() => void)[];

/** A transform and a move that were prepared for an operand, and for a result at some address. */
interface PreparedBoth {
  readonly source: LocalArray;
  readonly key: string;
  readonly run: (uses: Uses) => void;
}

/** Some steps that go part by part, as one. */
interface Together {
  readonly steps: number;
  readonly run: () => void;
}

/** A transform of parts and a move that were prepared for an operand, and prepare themselves for a result. */
interface PreparedParts {
  readonly source: LocalArray;
  readonly target: LocalArray;
  /** `null` if it was not known yet whether parts can move meanwhile. */
  readonly move: ((result: LocalArray) => () => void) | null;
}

/** A transform by local transforms and this library's redistributions. */
export class StagedPlan implements FFTEnginePlan {
  readonly #runtime: Runtime;
  readonly #rank: number;
  readonly #order: Order;
  readonly #route: Route;
  readonly #transformer: Transformer;
  readonly #operations: readonly Operation[];
  readonly #locations: readonly Location[];
  /** Null if what would lie there has other memory. */
  readonly #buffers: (TypedArray | DeviceMemory | null)[];
  readonly #views = new Map<string, LocalArray>();
  /** The steps whose elements lie further apart. */
  readonly #spreads = new Set<number>();
  readonly #prepared: Record<FFTDirection, (Prepared | null)[]> = { forward: [], inverse: [] };
  readonly #both: Record<FFTDirection, Record<number, PreparedBoth | null>> = { forward: {}, inverse: {} };
  /** How steps go part by part, as far as that was asked. */
  readonly #cuts: (Cut | null)[] = [];
  /** How steps are done with what arrives for them, as far as that was asked. */
  readonly #cutsOfUse: (Cut | null)[] = [];
  readonly #made: Record<FFTDirection, Record<number, PreparedParts>> = { forward: {}, inverse: {} };
  readonly #inplace: boolean;
  readonly #scalesFirst: boolean;
  /** The operand, scaled; null if that is done nowhere, or in its own memory. */
  #scaled: LocalArray | null = null;
  readonly #moves: readonly Redistributor[];
  readonly #itemSizes: readonly number[];
  readonly #mayLand: boolean;
  /** Whether results are made in memory of the plan; by direction that memory, and all steps into it. */
  readonly #keeps: boolean;
  readonly #keptResults: Partial<Record<FFTDirection, LocalArray>> = {};
  readonly #kept: Partial<Record<FFTDirection, Prepared & { readonly scale: number }>> = {};
  /** Where moves write straight to, by the step that follows: memory that all ranks address; null before it is open. */
  #landings: ReadonlyMap<number, SymmetricArray> | null = null;
  /** What ranks found out together that is done differently. */
  readonly #notes: string[] = [];

  /** Find the way, and allocate the buffers. Local. */
  constructor(runtime: Runtime, request: FFTRequest, transformer: Transformer) {
    const { problem, algorithm, inplace, effort } = request;
    const { precision, order } = problem;
    this.#runtime = runtime;
    // Of one execution the memory would cost more than it saves.
    this.#mayLand = runtime.stream !== null && effort !== "estimate";
    this.#rank = runtime.rank;
    this.#inplace = inplace;
    // What is scaled in the end may have grown beyond the largest float16 before.
    this.#scalesFirst = precision === "float16";
    // What is one line in memory has either order; as a matrix it is taken row by row.
    this.#order = problem.operand.length === 1 ? "C" : order;
    this.#route = findRoutes(problem, { algorithm, isOnHost: runtime.stream === null })[0];
    this.#transformer = transformer;
    this.#operations = operationsFor(runtime, this.#route.steps, { precision, order: this.#order }, transformer);
    const moving = this.#operations.filter(({ move }) => move !== undefined);
    this.#moves = moving.map(({ move }) => move!);
    this.#itemSizes = moving.map(({ source }) => dtypeInfo(source).itemSize);
    // No collector knows of what libraries plan.
    freeUnlessAgreed(this);
    const [first] = this.#operations;
    const bytesMade = byteLengthOf(first.step.to.globalShape!, first.target) / runtime.size;
    this.#locations = locationsOf(
      this.#route.steps,
      inplace,
      this.#mayLand && partsOnGpus(bytesMade, runtime.size) > 1,
    );
    const { step, target } = this.#operations.at(-1)!;
    const bytes = byteLengthOf(step.to.globalShape!, target) / runtime.size;
    const most = runtime.stream === null ? MOST_KEPT_BYTES.host : effort === "estimate" ? 0 : MOST_KEPT_BYTES.gpu;
    this.#keeps = !inplace && moving.length > 0 && bytes <= most;
    this.#buffers = this.#allocate(precision);
    if (runtime.stream === null && effort !== "estimate") this.#spread(request.directions[0]);
    this.#prepareInside(request.directions);
  }

  /** See {@linkcode FFTEnginePlan}. */
  get report(): FFTReport {
    const { algorithm, variant, notes = [] } = this.#route;
    const { engine, library, workspaceBytes } = this.#transformer;
    const bytes = this.#moves.map((move, i) => move.bytesMoved(this.#itemSizes[i]));
    const local = this.#operations.flatMap(({ transforms, partTransforms }) => [
      ...Object.values(transforms ?? {}),
      ...Object.values(partTransforms ?? {}),
    ]);
    const held = [...this.#moves, ...local].reduce((sum, { byteLength }) => sum + byteLength, 0);
    const counted = bytes.values();
    const isCopied = this.#locations.at(-1) !== "result";
    return {
      engine,
      algorithm,
      variant,
      library,
      workspaceBytes: [...this.#buffers, ...this.#landed, ...Object.values(this.#keptResults)].reduce(
        (sum, buffer) => sum + (buffer?.byteLength ?? 0),
        held + workspaceBytes + (this.#scaled?.byteLength ?? 0),
      ),
      bytesMoved: bytes.reduce((sum, n) => sum + n, 0),
      steps: [
        ...this.#route.steps.map((step, i) => {
          const [own, cut] = [this.#cutOf(i), i > 0 ? this.#cutOf(i - 1) : null];
          const use = this.#cutOfUse(i);
          const arriving = use ? `, in ${use.parts} parts along axis ${use.dimension}, each when it has arrived` : "";
          const meanwhile = cut ? `, in ${cut.parts} parts along axis ${cut.dimension}, ${this.#whenPartsMove}` : "";
          const transforms = this.#operations[i][own || use ? "partTransforms" : "transforms"];
          const by = new Set(transforms ? Object.values(transforms).flatMap(({ libraries }) => libraries) : []);
          const who = this.#transportOf(i) ?? [...by].join(" and ");
          const words = inWords(step, step.kind === "move" ? counted.next().value! : 0);
          const apart = this.#spreads.has(i) ? ", elements a cache line further apart" : "";
          return words + (who === "" ? "" : `, by ${who}`) + apart + meanwhile + arriving;
        }),
        ...isCopied ? ["copy into the operand's memory"] : [],
        ...this.#keeps ? ["copy into the result's memory, for which nothing was prepared"] : [],
      ],
      notes: [...notes, ...this.#transformer.notes, ...this.#notes],
    };
  }

  /** See {@linkcode FFTEnginePlan}. */
  communication(): CommunicationMatrix {
    const bytes = noBytes(this.#runtime.size);
    const moves = this.#route.steps.filter((step) => step.kind === "move");
    moves.forEach(({ from, to }, i) => addBytes(bytes, elementsBetween(from, to), this.#itemSizes[i]));
    return new CommunicationMatrix(bytes);
  }

  /** See {@linkcode FFTEnginePlan}. */
  predict(): AlgorithmTimes | null {
    if (this.#runtime.stream !== null) return this.#predictOnGpu();
    const { operationsPerSecond } = this.#transformer;
    if (operationsPerSecond === undefined) return null;
    const { steps } = this.#route;
    return predictOnHost(this.#runtime, {
      operations: steps.reduce((sum, step) => sum + operationsOfStep(step, this.#runtime.size), 0),
      operationsPerSecond: operationsPerSecond(),
      bytes: steps.filter((step) => step.kind === "move").reduce(
        (sum, { from, to }, i) => sum + elementsCopied(from, to) * this.#itemSizes[i],
        0,
      ),
      sent: busiestBytes(this.communication()),
      meetings: this.#moves.length,
    });
  }

  /** How elements travel in a step; null if they do not, or it is not known yet. */
  #transportOf(i: number): RedistributionAlgorithm | null {
    const { move, target: dtype } = this.#operations[i];
    const landing = this.#landings?.get(i + 1) ?? null;
    // On GPUs that depends on where a result lies in its operand's memory.
    const isOpen = this.#runtime.stream !== null && this.#inplace && this.#locations[i + 1] === "result";
    if (!move?.isSettled || landing === null && isOpen) return null;
    return move.algorithmFor({ dtype, isOnDevice: this.#runtime.stream !== null }, landing, this.#order);
  }

  get #whenPartsMove(): string {
    return this.#runtime.stream === null ? "each when it has been transformed" : "while others are transformed";
  }

  #predictOnGpu(): AlgorithmTimes | null {
    const { size } = this.#runtime;
    return predictOnGpu(this.#runtime, {
      bytes: this.#operations.reduce((sum, operation) => sum + passedBytes(operation, size), 0),
      sent: busiestBytes(this.communication()),
      starts: this.#operations.reduce((sum, { move }) => sum + (move ? 2 * size - 1 : 1), 0),
    });
  }

  /** See {@linkcode FFTEnginePlan}. */
  prepare(operand: LocalArray, result: LocalArray, direction: FFTDirection, scale: number): () => void {
    if (!this.#keeps || !result.isDense(this.#order)) return this.#prepareAll(operand, result, direction, scale);
    const target = this.#keptResults[direction] = this.#arrayLike(result, this.#keptResults[direction]);
    let known = this.#kept[direction];
    if (known?.source !== operand || known.target !== target || known.scale !== scale) {
      const run = this.#prepareAll(operand, target, direction, scale);
      this.#kept[direction] = known = { source: operand, target, scale, run };
    }
    const { run } = known;
    return () => {
      run();
      if (result.isOnDevice) copyOnDevice(result.address, target.address, target.byteLength, this.#runtime.stream!);
      else (result.view() as Float64Array).set(target.data as Float64Array);
    };
  }

  /** Prepare all steps from an operand to a result. */
  #prepareAll(operand: LocalArray, result: LocalArray, direction: FFTDirection, scale: number): () => void {
    // GPUs count what moves between them, and a graph would repeat the counts.
    if (this.#moves.length > 0) refuseCapture(this.#runtime.stream, "Transforms whose elements move between GPUs");
    const runs: (() => void)[] = [];
    const isFirst = scale !== 1 && this.#scalesFirst;
    const start = isFirst || this.#overwritesOperand ? this.#startOf(operand) : operand;
    for (let i = 0; i < this.#operations.length; i++) {
      const together = this.#prepareTogether(i, direction, start, result);
      runs.push(together?.run ?? this.#prepareStep(i, direction, start, result));
      if (together !== null) i += together.steps - 1;
    }
    const last = this.#operations.length - 1;
    const isCopied = this.#locations[last + 1] !== "result";
    const from = isCopied ? this.#at(last + 1, this.#operations[last].step.to, this.#operations[last].target) : result;
    const transformer = this.#transformer;
    return transformer.inOrder(
      () => {
        if (start !== operand) transformer.copy(operand, start);
        if (isFirst) transformer.scale(start, scale);
        for (const run of runs) run();
        if (from !== result) transformer.copy(from, result);
        if (scale !== 1 && !isFirst) transformer.scale(result, scale);
      },
      operand,
      result,
    );
  }

  /** cuFFT writes over the complex numbers that it makes real ones of, elsewhere too. Of several axes the first has a buffer. */
  get #overwritesOperand(): boolean {
    const [{ step }] = this.#operations;
    return this.#runtime.stream !== null && step.kind === "transform" && step.type === "c2r" && step.axes.length === 1;
  }

  /** Where the operand is scaled before it is transformed: memory of the plan, or its own that is written over anyway. */
  #startOf(operand: LocalArray): LocalArray {
    if (this.#inplace) return operand;
    return this.#scaled = this.#arrayLike(operand, this.#scaled);
  }

  /** An array of the plan: the one that is known, unless ranks that did not agree have freed it. */
  #arrayLike({ dtype, shape, size }: LocalArray, known?: LocalArray | null): LocalArray {
    if (known && !known.isLost) return known;
    const data = this.#transformer.allocate(dtype, size);
    return new LocalArray({ data, dtype, shape, strides: stridesOf(shape, this.#order) });
  }

  /** See {@linkcode FFTEnginePlan}. */
  open(): void {
    for (const move of this.#moves) move.open();
    this.#cuts.length = 0;
    this.#landings ??= this.#mayLand && cutting.lands ? this.#makeLandings() : new Map();
    // What was a guess before is known now.
    this.#cuts.length = this.#cutsOfUse.length = 0;
  }

  /** See {@linkcode FFTEnginePlan}. */
  release(): void {
    this.#both.forward = {};
    this.#both.inverse = {};
    this.#made.forward = {};
    this.#made.inverse = {};
    for (const direction of FFT_DIRECTIONS) delete this.#kept[direction];
    const isInside = (i: number) => [this.#locations[i], this.#locations[i + 1]].every((at) => typeof at === "number");
    for (const prepared of Object.values(this.#prepared)) {
      for (const i of prepared.keys()) if (!isInside(i)) prepared[i] = null;
    }
  }

  /** Free plans and buffers. */
  [Symbol.dispose](): void {
    for (const operation of this.#operations) operation[Symbol.dispose]();
    for (const { symmetric } of this.#landed) symmetric[Symbol.dispose]();
    this.#transformer[Symbol.dispose]();
    this.#views.clear();
  }

  get #landed(): SymmetricArray[] {
    return [...this.#landings?.values() ?? []];
  }

  /**
   * Memory for what is moved part by part and then transformed, into which the other ranks write straight; buffers that
   * nothing lies in then are freed. Collective.
   */
  #makeLandings(): Map<number, SymmetricArray> {
    const landings = new Map<number, SymmetricArray>();
    for (const [i, { step }] of this.#operations.entries()) {
      if (step.kind !== "transform" || i < 2 || this.#cutOf(i - 2) === null) continue;
      const { target: dtype } = this.#operations[i - 1];
      const shapes = Array.from({ length: this.#runtime.size }, (_, rank) => step.from.ranges(rank).map(countOf));
      const bytes = Math.max(...shapes.map(sizeOfShape)) * dtypeInfo(dtype).itemSize;
      try {
        const buffer = allocateForPlan(this.#runtime, "nccl", bytes);
        landings.set(i, new SymmetricArray(buffer, dtype, this.#order, shapes.map((shape) => ({ shape }))));
      } catch (error) {
        // On all ranks.
        if (!(error instanceof ConfigurationError)) throw error;
        this.#notes.push(
          `parts go through slots, since they have no memory of ${bytes} bytes to go straight to: ${error.message}`,
        );
      }
    }
    for (const [at, buffer] of this.#buffers.entries()) {
      const isUsed = this.#operations.some((_, i) => this.#locations[i + 1] === at && !landings.has(i + 1));
      if (isUsed || !(buffer instanceof DeviceBuffer)) continue;
      buffer.free();
      this.#buffers[at] = null;
    }
    return landings;
  }

  /**
   * Where an axis is transformed in a buffer, between moves: its elements lie a cache line further apart if it was measured
   * to take less time so. At a distance of whole pages they push each other out of the caches.
   */
  #spread(direction: FFTDirection): void {
    for (const [i, { target: dtype, transforms }] of this.#operations.entries()) {
      const apart = this.#apart(i);
      if (apart === null || transforms === undefined) continue;
      const [dense, padded] = [stridesOf(apart.shape, this.#order), apart.strides].map((strides) => {
        const data = this.#buffers[this.#locations[i] as number]!;
        const view = new LocalArray({ data, dtype, shape: apart.shape, strides });
        const tried = partAlong(view, apart.across, 0, apart.enough);
        return { view, run: transforms[direction].prepare(tried, tried), shortest: Infinity };
      });
      for (let round = 0; round < ROUNDS; round++) {
        for (const candidate of [dense, padded]) {
          candidate.shortest = Math.min(candidate.shortest, shortestSeconds(candidate.run, 1));
        }
      }
      if (padded.shortest > spreading.worth * dense.shortest) continue;
      this.#spreads.add(i);
      for (const value of [i, i + 1]) this.#views.set(viewKey(value, apart.shape, false), padded.view);
    }
  }

  /** How elements would lie further apart in host memory, if that may be faster; null elsewhere. */
  #apart(i: number): Apart | null {
    if (this.#runtime.stream !== null) return null;
    return apartAt(i, this.#operations, this.#locations, this.#rank, this.#order);
  }

  /** What lies between operand and result is prepared at once. */
  #prepareInside(directions: readonly FFTDirection[]): void {
    for (const direction of directions) {
      for (let i = 0; i < this.#operations.length; i++) {
        const isInside = [this.#locations[i], this.#locations[i + 1]].every((at) => typeof at === "number");
        if (isInside) this.#prepareStep(i, direction, null, null);
      }
    }
  }

  /**
   * A transform and the move that follows, part by part, so that parts move while others are transformed, and on GPUs perhaps
   * the transform of what has moved; null where that is not possible: the same on all ranks.
   */
  #prepareTogether(i: number, direction: FFTDirection, operand: LocalArray, result: LocalArray): Together | null {
    const [operation, next] = [this.#operations[i], this.#operations[i + 1]];
    const cut = this.#cutOf(i);
    if (cut === null) return null;
    const [source, target] = this.#endsOf(i, operand, result);
    const [, end] = this.#endsOf(i + 1, operand, result);
    if (this.#runtime.stream === null) {
      const run = this.#prepareOnHost(i, direction, source, target, end, cut);
      return run && { steps: 2, run };
    }
    const cutOfUse = this.#cutOfUse(i + 2);
    const uses = cutOfUse === null ? [] : this.#prepareUses(i + 2, cutOfUse, direction, operand, result);
    const steps = cutOfUse === null ? 2 : 3;
    const { dimension, parts } = cut;
    const known = this.#both[direction][i];
    const key = `${target.address} ${end.address}`;
    if (known?.source === source && known.key === key) return { steps, run: () => known.run(uses) };
    const runs: (() => void)[] = [];
    for (const [start, length] of partsOf(source.shape[dimension], parts)) {
      const part = (array: LocalArray) => partAlong(array, dimension, start, length);
      runs.push(operation.partTransforms![direction].prepare(part(source), part(target)));
    }
    const making = { dimension, parts, make: (part: number) => runs[part]?.() };
    let now: Uses = [];
    const using = cutOfUse && { ...cutOfUse, use: (part: number) => now[part]?.() };
    const move = next.move!.prepareWhile(making, target, end, this.#order, using);
    if (move === null) return null;
    const run = (uses: Uses) => {
      now = uses;
      move();
      now = [];
    };
    // It knows addresses only, but for the operand. Where results lie in the same memory again, it serves again: in place,
    // that is the operand's.
    const isKept = this.#inplace || typeof this.#locations[i + 1] === "number";
    if (isKept) this.#both[direction][i] = { source, key, run };
    return { steps, run: () => run(uses) };
  }

  /** The transform of each part of what a move brings. */
  #prepareUses(
    i: number,
    { dimension, parts }: Cut,
    direction: FFTDirection,
    operand: LocalArray,
    result: LocalArray,
  ): Uses {
    const [source, target] = this.#endsOf(i, operand, result);
    return partsOf(source.shape[dimension], parts).map(([start, length]) =>
      this.#operations[i].partTransforms![direction].prepare(
        partAlong(source, dimension, start, length),
        partAlong(target, dimension, start, length),
      )
    );
  }

  /**
   * Along which dimension what a move brings straight into place is transformed as it arrives, and in how many parts; null if
   * along none: the same on all ranks.
   */
  #cutOfUse(i: number): Cut | null {
    const known = this.#cutsOfUse[i];
    return known !== undefined ? known : this.#cutsOfUse[i] = findCutOfUse(this.#stepsInPlace, i);
  }

  /** The same in host memory, where what does not depend on the result is kept. */
  #prepareOnHost(
    i: number,
    direction: FFTDirection,
    source: LocalArray,
    target: LocalArray,
    end: LocalArray,
    { dimension, parts }: Cut,
  ): (() => void) | null {
    const known = this.#made[direction][i];
    if (known?.source === source && known.target === target && known.move !== null) return known.move(end);
    const isInOnePlace = this.#locations[i] !== this.#locations[i + 1];
    const list = partsOf(source.shape[dimension], parts);
    const room = isInOnePlace ? this.#roomIn(target, dimension, list[0]?.[1] ?? 0) : target;
    const makes = list.map(([start, length]) =>
      this.#operations[i].partTransforms![direction].prepare(
        partAlong(source, dimension, start, length),
        partAlong(room, dimension, isInOnePlace ? 0 : start, length),
      )
    );
    const making = { dimension, parts, isInOnePlace, make: (part: number) => makes[part]?.() };
    const move = this.#operations[i + 1].move!.prepareMaking(making, room, this.#order);
    this.#made[direction][i] = { source, target, move };
    return move?.(end) ?? null;
  }

  /** Room for a part in the memory of an array: it stays in the caches, as each part takes the place of the one before. */
  #roomIn({ data, dtype, shape }: LocalArray, dimension: number, length: number): LocalArray {
    const part = shape.with(dimension, length);
    return new LocalArray({ data, dtype, shape: part, strides: stridesOf(part, this.#order) });
  }

  /** Along which dimension a step and the next one can go part by part, and in how many parts; null if along none. */
  #cutOf(i: number): Cut | null {
    const known = this.#cuts[i];
    return known !== undefined ? known : this.#cuts[i] = findCut(this.#stepsInPlace, i);
  }

  /** What is asked for to find how steps go part by part. */
  get #stepsInPlace(): StepsInPlace {
    return {
      operations: this.#operations,
      locations: this.#locations,
      order: this.#order,
      isOnHost: this.#runtime.stream === null,
      isInPlace: this.#inplace,
      memoryAt: (value) => this.#memoryAt(value),
      landingAt: (value) => this.#landings?.get(value),
      cutOf: (i) => this.#cutOf(i),
    };
  }

  /** The memory in which elements lie between steps. */
  #memoryAt(value: number): SymmetricArray | Location {
    return this.#landings?.get(value) ??
      (this.#inplace && this.#locations[value] === "operand" ? "result" : this.#locations[value]);
  }

  /** Where a step reads and writes. */
  #endsOf(i: number, operand: LocalArray | null, result: LocalArray | null): [source: LocalArray, target: LocalArray] {
    const { step, source, target } = this.#operations[i];
    const given = { operand, result };
    const arrayAt = (value: number, parts: Parts, dtype: DType, isTransposed: boolean) => {
      const landing = this.#landings?.get(value);
      if (landing) return landing;
      const at = this.#locations[value];
      return typeof at === "string" ? given[at]! : this.#at(value, parts, dtype, isTransposed);
    };
    return [
      arrayAt(i, step.from, source, false),
      arrayAt(i + 1, step.to, target, step.kind === "transform" && step.isTransposed === true),
    ];
  }

  #prepareStep(i: number, direction: FFTDirection, operand: LocalArray | null, result: LocalArray | null): () => void {
    const operation = this.#operations[i];
    const [source, target] = this.#endsOf(i, operand, result);
    const known = this.#prepared[direction][i];
    if (known?.source === source && known.target === target) return known.run;
    const run = operation.prepare(source, target, direction);
    // What knows the result would keep it alive.
    if (this.#inplace || this.#locations[i] !== "result" && this.#locations[i + 1] !== "result") {
      this.#prepared[direction][i] = { source, target, run };
    }
    return run;
  }

  /** The elements between two steps, in one of the buffers. */
  #at(value: number, parts: Parts, dtype: DType, isTransposed = false): LocalArray {
    const shape = parts.ranges(this.#rank).map(countOf);
    const key = viewKey(value, shape, isTransposed);
    const known = this.#views.get(key);
    if (known) return known;
    const data = this.#buffers[this.#locations[value] as number]!;
    const order = isTransposed ? "F" : this.#order;
    const view = new LocalArray({ data, dtype, shape, strides: stridesOf(shape, order) });
    this.#views.set(key, view);
    return view;
  }

  /** Buffers that are large enough for everything that lies in them at any time. */
  #allocate(precision: FFTPrecision): (TypedArray | DeviceMemory)[] {
    const numbers = [0, 0];
    this.#operations.forEach(({ step, target }, i) => {
      const at = this.#locations[i + 1];
      if (typeof at !== "number") return;
      const apart = this.#apart(i) ?? this.#apart(i + 1);
      const elements = apart === null
        ? sizeOfShape(step.to.ranges(this.#rank).map(countOf))
        : Math.max(...apart.shape.map((extent, d) => extent * apart.strides[d]));
      numbers[at] = Math.max(numbers[at], elements * dtypeInfo(target).parts);
    });
    // Real and complex numbers may lie in the same buffer by turns.
    return numbers.map((count) => this.#transformer.allocate(precision, count + count % 2));
  }
}

function viewKey(value: number, shape: readonly number[], isTransposed: boolean): string {
  return `${value}:${shape}:${isTransposed}`;
}
