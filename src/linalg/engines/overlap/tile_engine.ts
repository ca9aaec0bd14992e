/**
 * The overlap engine on GPUs of compute capability 9.0: tile kernels between GPUs that address each other's memory.
 *
 * @module
 */
import { openCublasLt } from "../../../../ffi/cuda/cublaslt.ts";
import { openNvrtc } from "../../../../ffi/cuda/nvrtc.ts";
import { openNvshmem } from "../../../../ffi/cuda/nvshmem.ts";
import { ratesInWords } from "../../../array/gpu_model.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { isZero } from "../../../blas/arguments.ts";
import { CommunicationMatrix } from "../../../distribution/mod.ts";
import { ConfigurationError } from "../../../errors.ts";
import { Device } from "../../../gpu/device.ts";
import { linksOf } from "../../../gpu/report.ts";
import type { Stream } from "../../../gpu/stream.ts";
import { SymmetricBuffer } from "../../../memory/symmetric_memory.ts";
import { TileKernel } from "../../../overlap/executors/tile/kernel.ts";
import { factorBytes } from "../../../overlap/executors/tile/configuration.ts";
import { arePartsAligned, isSplitInSequence, padded } from "../../../overlap/executors/tile/exchange.ts";
import { configurationOf, type TileOperands, tileRefusal } from "../../../overlap/executors/tile/operands.ts";
import { partsOf, type TileProblem, type TileVariant } from "../../../overlap/tile_order.ts";
import { predictTiles } from "../../../overlap/cost_model.ts";
import { wavesOf } from "../../../overlap/waves.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { biasOf, type EpilogValues } from "../../matmul/epilog.ts";
import { isEmpty, type LocalOperands, matrixName } from "../../matmul/problem.ts";
import { bytesBetween } from "../product_traffic.ts";
import type { Use } from "../communicator_resources.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues, Refusal, TimelineSteps } from "../engine.ts";
import { describeOneDimensional } from "../host/one_dimensional.ts";
import { KeptArray } from "../kept_array.ts";
import { ratesOf } from "../machine_rates.ts";
import {
  applyAuxiliary,
  auxiliaryFor,
  auxiliaryName,
  givenEpilog,
  kernelEpilog,
  prepareAuxiliary,
} from "./tile_epilog.ts";
import { matrixOf, type Placed, TileOperand } from "./tile_operands.ts";
import { type SharedProduct, useTileProduct } from "./tile_products.ts";
import { tileSeconds, type TileStrategy, tileStrategy, tileTraffic } from "./tile_strategy.ts";
import { variantNamed, variantsWorthMeasuring } from "./tile_variants.ts";

const NAME = "overlap";
const NOTHING: EpilogValues = Object.freeze({});
const CHANGE = "Leave engine out: cublasmp takes the product.";

/** Null if a tile kernel can run a request on this runtime's GPUs. */
export function refuseTiles(request: EngineRequest, { device, size, localSize }: Runtime): Refusal | null {
  const [major, minor] = device.computeCapability ?? [0, 0];
  if (major !== 9 || minor !== 0) {
    return {
      reason:
        `tile kernels are for GPUs of compute capability 9.0 (H100, H200), and ${device.name} has ${major}.${minor}`,
      instead: CHANGE,
    };
  }
  if (localSize !== size) {
    return { reason: `its GPUs use each other's memory, and ${size} ranks are on several machines`, instead: CHANGE };
  }
  // Kernels that fill it would keep the other ranks' copies from running, for which they wait.
  if (device.kind === "gpu" && device.isShared) {
    return {
      reason: "its kernels wait for each other on GPUs of their own, and here ranks share them",
      instead: CHANGE,
    };
  }
  if (isEmpty(request.problem)) return null;
  if (size === 1) return { reason: "one GPU has nothing to exchange", instead: CHANGE };
  const found = tileStrategy(request);
  if ("reason" in found) return found;
  for (let rank = 0; rank < size; rank++) {
    const problem = found.problemOf(rank);
    const reason = tileRefusal(problem, stagedLeading(problem), true);
    if (reason !== null) return { reason, instead: CHANGE };
  }
  return null;
}

/** Why memory that all ranks address, or the compiler, cannot be had. */
export function findMissing(): Refusal | null {
  // GPUs that this process does not see are left to NVSHMEM.
  const slow = linksOf(Device.count()).find(({ kind, hasPeerAccess }) => kind === "pcie" || hasPeerAccess === false);
  if (slow) {
    const [one, other] = slow.ordinals;
    return { reason: `it stores over NVLink, which does not join GPUs ${one} and ${other}`, instead: CHANGE };
  }
  try {
    openNvrtc();
    openNvshmem();
    openCublasLt();
    return null;
  } catch (error) {
    if (error instanceof ConfigurationError) {
      return { reason: `it needs NVRTC, NVSHMEM and cuBLASLt. ${error.message}`, instead: CHANGE };
    }
    throw error;
  }
}

/** The leading dimensions of matrices that are copied. */
function stagedLeading(problem: TileProblem): Record<"a" | "b" | "d", number> {
  const { kind, m, n, k, split, rank, isRowMajorA, isRowMajorB } = problem;
  const { start, end } = partsOf(problem)[rank];
  const part = (extent: number, name: "rows" | "columns", isParted: boolean) =>
    isParted && split === name ? end - start : extent;
  return {
    a: padded(isRowMajorA ? k : part(m, "rows", kind === "gather"), factorBytes(problem)),
    b: padded(isRowMajorB ? part(n, "columns", kind === "gather") : k, factorBytes(problem)),
    d: padded(part(n, "columns", kind === "reduce")),
  };
}

/** Where a kernel leaves D. */
interface Target extends Pick<TileOperands, "d" | "partsOfD" | "peersOfD"> {
  /** All of it, if it is one matrix there. */
  readonly local: LocalArray | null;
  /** What brings it to where it is wanted; null if it is there. */
  readonly bring: (() => void) | null;
  /** What brings C there, where D's parts lie apart. */
  readonly fill?: (c: LocalArray) => void;
}

const NAMES = ["a", "b", "c", "d"] as const;

type Name = typeof NAMES[number];

/** What an execution has prepared. */
interface Ready {
  /** What the kernel does not take where it is. */
  readonly copied: ReadonlySet<Name>;
  readonly operands: Omit<TileOperands, "d">;
  /** What is copied before the kernel. */
  readonly before: readonly (() => void)[];
  /** Null where all ranks store into memory that they make together. */
  readonly target: Target | null;
  /** The auxiliary matrix, given or made. */
  readonly auxiliary: LocalArray | null;
}

/** An execution that can be repeated by the kernel alone. */
interface Repeatable {
  readonly matrices: LocalOperands;
  /** That of D. */
  readonly address: bigint;
  readonly values: EngineValues;
  readonly given: TileOperands;
}

/** Whether an execution is as the one before; its memory was not freed, or that is an error here. */
function isRepeated({ matrices, address, values }: Repeatable, next: LocalOperands, given: EngineValues): boolean {
  const { a, b, c, d } = next;
  if (given !== values || a !== matrices.a || b !== matrices.b || c !== matrices.c) return false;
  // Memory that was freed refuses to tell its address.
  for (const matrix of [a, b, c]) void matrix?.buffer.address;
  const [[row, column], [lastRow, lastColumn]] = [d.strides, matrices.d.strides];
  return d.address === address && row === lastRow && column === lastColumn;
}

/** A product by a tile kernel. */
export class TilePlan implements EnginePlan {
  readonly #runtime: Runtime;
  readonly #request: EngineRequest;
  readonly #tiles: TileStrategy;
  readonly #problem: TileProblem;
  readonly #matrices: Readonly<Record<Name, TileOperand>>;
  readonly #bias: KeptArray;
  readonly #given: KeptArray;
  #shared: Use<SharedProduct> | null = null;
  /** The last execution, if nothing but the kernel ran. */
  #repeatable: Repeatable | null = null;
  /** What the last execution copied: a timeline's D may lie otherwise, and other operands did. */
  #copied: ReadonlySet<Name> = new Set();
  /** Whether the last execution copied a sum that all ranks have to D. */
  #isCopied = false;

  constructor(runtime: Runtime, request: EngineRequest) {
    this.#runtime = runtime;
    this.#request = request;
    const tiles = this.#tiles = supportedTiles(request);
    const problem = this.#problem = tiles.problemOf(runtime.rank);
    const { dtype, narrow: [narrowA, narrowB] = [dtype, dtype], kind, split } = problem;
    const stream = runtime.stream!;
    const isGathered = (name: "rows" | "columns") => kind === "gather" && split === name;
    // The problem's B is the kernel's A.
    this.#matrices = {
      a: new TileOperand(narrowB, stream, isGathered("columns")),
      b: new TileOperand(narrowA, stream, isGathered("rows")),
      c: new TileOperand(dtype, stream),
      d: new TileOperand(dtype, stream),
    };
    this.#bias = new KeptArray(stream);
    this.#given = new KeptArray(stream);
    // What one rank may fail at alone: to compile.
    this.#compile();
    if (auxiliaryName(request.epilog) !== null) prepareAuxiliary(stream);
  }

  get workspaceBytes(): number {
    const held = [...Object.values(this.#matrices), this.#bias, this.#given];
    return held.reduce((sum, { byteLength }) => sum + byteLength, this.#shared?.value.byteLength ?? 0);
  }

  get choice(): string {
    return `tiles: ${this.#tiles.name}`;
  }

  get report(): AlgorithmReport {
    const { problem, epilog } = this.#request;
    const { strategy, name } = this.#tiles;
    const copied = NAMES.filter((name) => this.#copied.has(name));
    return {
      engine: NAME,
      algorithm: strategy.algorithm,
      variant: `${describeOneDimensional(problem, strategy)}; tiles: ${name}`,
      workspaceBytes: this.workspaceBytes,
      bytesMoved: tileTraffic(this.#tiles, problem),
      copies: [
        ...copied.map((name) => `${matrixName(problem, name)} copied on each rank, since 16 bytes are moved at a time`),
        ...this.#isCopied ? ["D copied from memory that all ranks store into"] : [],
      ],
      times: { ...tileSeconds(this.#tiles, ratesOf(this.#runtime)), basis: ratesInWords(this.#runtime) },
      notes: [
        ...strategy.travels === "d" ? [`partial sums travel in ${problem.d.dtype}`] : [],
        ...this.#shared?.value.product.notes ?? [],
        ...auxiliaryName(epilog) === null
          ? []
          : [`the epilog ${epilog.name} reads the product after it was rounded to ${problem.d.dtype}`],
      ],
    };
  }

  communication(): CommunicationMatrix {
    const { problem } = this.#request;
    return new CommunicationMatrix(bytesBetween(problem, this.#tiles.strategy, tileTraffic(this.#tiles, problem)));
  }

  open(): void {
    this.#shared = useTileProduct(this.#runtime, this.#tiles, kernelEpilog(this.#request.epilog));
  }

  prepare(operands: LocalOperands, values: EngineValues, stream: Stream | null = null): () => EpilogValues {
    const own = this.#runtime.stream!;
    const on = stream ?? own;
    this.#shared?.value.product.checkEnded();
    const last = this.#repeatable;
    if (last !== null && isRepeated(last, operands, values)) {
      return () => {
        this.#shared!.value.product.execute(last.given, on);
        return NOTHING;
      };
    }
    const ready = this.#ready(operands, values);
    return () => this.#execute(operands, values, ready, on);
  }

  timeline(operands: LocalOperands, values: EngineValues): TimelineSteps {
    const { operands: given, before, target: prepared } = this.#ready(operands, values);
    const { product } = this.#shared!.value;
    const { variant, problemOf } = this.#tiles;
    const clusters = product.blocks / variant.shape.cluster;
    const problems = Array.from({ length: this.#problem.size }, (_, rank) => problemOf(rank));
    return {
      predicted: wavesOf(predictTiles(problems, variant, clusters, ratesOf(this.#runtime))),
      run: () => {
        const { d, partsOfD, peersOfD } = prepared ?? this.#commonTarget(operands.d);
        if (before.length > 0) product.settle();
        for (const copy of before) copy();
        return wavesOf(product.trace({ ...given, d, ...partsOfD && { partsOfD }, ...peersOfD && { peersOfD } }));
      },
    };
  }

  release(): void {
    this.#repeatable = null;
  }

  [Symbol.dispose](): void {
    this.#shared?.value.product.settle();
    this.#shared?.[Symbol.dispose]();
    this.#shared = null;
    this.#repeatable = null;
    for (const memory of [...Object.values(this.#matrices), this.#bias, this.#given]) memory.free();
  }

  #execute(
    matrices: LocalOperands,
    values: EngineValues,
    { operands, before, target: prepared, auxiliary, copied }: Ready,
    on: Stream,
  ): EpilogValues {
    const { d } = matrices;
    const own = this.#runtime.stream!;
    const { epilog, problem: { transposed } } = this.#request;
    const { product } = this.#shared!.value;
    const target = prepared ?? this.#commonTarget(d);
    const { local, bring, fill: _, ...places } = target;
    this.#copied = copied;
    this.#isCopied = prepared === null && bring !== null;
    const isStaged = before.length > 0 || bring !== null;
    // Elements are copied on the runtime's stream, between what is on the other one before and after.
    if (isStaged && on !== own) own.wait(on);
    if (isStaged) product.settle();
    for (const copy of before) copy();
    const given = { ...operands, ...places };
    product.execute(given, on);
    this.#repeatable = isStaged || auxiliary ? null : { matrices, address: d.address, values, given };
    const apply = (to: LocalArray, stream: Stream) =>
      auxiliary && applyAuxiliary(epilog, transposed ? to.transpose() : to, auxiliary, stream);
    if (local !== null) apply(local, on);
    if (bring !== null) {
      if (on !== own) own.wait(on);
      bring();
      if (local === null) apply(d, own);
    }
    if (isStaged && on !== own) on.wait(own);
    return auxiliary && epilog.aux === "output" ? { [auxiliaryName(epilog)!]: auxiliary } : NOTHING;
  }

  #ready({ a, b, c, d }: LocalOperands, { alpha, beta, epilog: inputs, scales }: EngineValues): Ready {
    const { epilog, problem: { transposed } } = this.#request;
    const matrices = this.#matrices;
    const before: (() => void)[] = [];
    const copied = new Set<Name>();
    const read = (name: Name, { matrix, bring }: Placed) => {
      if (bring) before.push(bring);
      if (bring) copied.add(name);
      return matrix;
    };
    const factor = (name: "a" | "b", local: LocalArray, split: TileProblem["split"]) => {
      const problem = this.#problem;
      const isOne = problem.kind !== "reduce" || problem.split !== split || !isSplitInSequence(problem) ||
        arePartsAligned(problem);
      if (isOne) return { matrix: read(name, matrices[name].read(local)), parts: undefined };
      const placed = matrices[name].readParts(local, partsOf(problem));
      return { matrix: read(name, placed), parts: placed.parts };
    };
    // The problem's B is the kernel's A.
    const [left, right] = [factor("b", b, "rows"), factor("a", a, "columns")];
    const partsOfFactor = left.parts ?? right.parts;
    const target = isCommon(this.#tiles) ? null : this.#ownTarget(d);
    const addend = c === null || isZero(beta) ? null : target?.fill ? "in D" as const : read("c", matrices.c.read(c));
    if (target?.bring) copied.add("d");
    if (addend === "in D") before.push(() => target!.fill!(c!));
    const given = biasOf(epilog, inputs);
    const bias = given && this.#biasOf(given, before);
    return {
      operands: {
        a: left.matrix,
        b: right.matrix,
        ...partsOfFactor && { partsOfFactor },
        c: addend,
        alpha: Number(alpha) * Number(scales.a ?? 1) * Number(scales.b ?? 1),
        beta: Number(beta),
        epilog: givenEpilog(epilog, bias, transposed),
      },
      before,
      target,
      auxiliary: this.#auxiliary(d, inputs, before),
      copied,
    };
  }

  /** Compile the kernel, and those that `autotune` will want. */
  #compile(): void {
    const { device } = this.#runtime.stream!;
    const epilog = kernelEpilog(this.#request.epilog);
    const [own, ...others] = [this.#tiles.variant, ...this.#request.variant === undefined ? othersOf(this.#tiles) : []]
      .map((variant) => configurationOf(this.#problem, variant, epilog));
    const kernel = TileKernel.of(own);
    kernel.compileBeside(others, device);
    kernel.prepare(device);
  }

  #ownTarget(d: LocalArray): Target {
    const { kind, split } = this.#problem;
    const { d: place } = this.#matrices;
    if (kind !== "gather" || split !== "columns" || arePartsAligned(this.#problem)) {
      const { matrix, bring, local } = place.write(d);
      return { d: matrix, bring, local };
    }
    const { matrix, bring, fill, parts: partsOfD } = place.writeParts(d, partsOf(this.#problem));
    return { d: matrix, partsOfD, bring, fill, local: null };
  }

  /** D itself if all ranks address it; or memory that is copied to D. */
  #commonTarget(d: LocalArray): Target {
    const { buffer, local } = this.#shared!.value.result!;
    const addresses = (of: SymmetricBuffer, offset: bigint) =>
      Array.from({ length: this.#runtime.size }, (_, rank) => of.peerAddress(rank) + offset);
    if (this.#matrices.d.takes(d) && d.buffer instanceof SymmetricBuffer) {
      const offset = d.address - d.buffer.address;
      return { d: matrixOf(d), peersOfD: addresses(d.buffer, offset), bring: null, local: d };
    }
    return { d: matrixOf(local), peersOfD: addresses(buffer, 0n), bring: () => d.set(local), local };
  }

  /** The auxiliary matrix: memory for it, or the one that is given. */
  #auxiliary(d: LocalArray, inputs: EpilogValues, before: (() => void)[]): LocalArray | null {
    const { epilog, problem: { transposed } } = this.#request;
    const name = auxiliaryName(epilog);
    if (name === null) return null;
    const { dtype } = this.#problem;
    if (epilog.aux === "output") {
      return auxiliaryFor(epilog, dtype, transposed ? d.transpose() : d, this.#runtime.stream!);
    }
    return this.#auxiliaryOf(inputs[name]!, before);
  }

  /** The bias in the type in which it is added. */
  #biasOf(bias: LocalArray, before: (() => void)[]): LocalArray {
    const isDense = bias.isOnDevice && bias.dtype === "float32" && bias.isDense("F");
    if (isDense) return bias;
    const kept = this.#bias.have("float32", bias.shape, "F");
    before.push(() => kept.set(bias));
    return kept;
  }

  /** An auxiliary matrix that is read, in D's type. */
  #auxiliaryOf(given: LocalArray, before: (() => void)[]): LocalArray {
    const dtype = given.dtype === "uint8" ? "uint8" : this.#problem.dtype;
    if (given.isOnDevice && given.dtype === dtype && given.strides[0] === 1) return given;
    const kept = this.#given.have(dtype, given.shape, "F");
    before.push(() => kept.set(given));
    return kept;
  }
}

/** The variants that are worth measuring. */
function othersOf({ partition: { kind }, extents, problemOf }: TileStrategy): TileVariant[] {
  const isNarrow = problemOf(0).narrow !== undefined;
  return variantsWorthMeasuring(kind, extents, isNarrow).map((name) => variantNamed(name).variant);
}

/** Whether all ranks store into each other's D. */
function isCommon({ partition: { kind }, variant }: TileStrategy): boolean {
  return kind === "all_reduce" && !variant.isExchange;
}

/** The strategy of a request that is supported. */
export function supportedTiles(request: EngineRequest): TileStrategy {
  const found = tileStrategy(request);
  if ("reason" in found) throw new ConfigurationError(`engine overlap: ${found.reason}. ${found.instead}`);
  return found;
}
