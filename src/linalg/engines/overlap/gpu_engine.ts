/**
 * The overlap engine on GPUs that address each other's memory: tile kernels where there are some, and cuBLASLt with copy
 * engines for what they have not, or where that was measured to be faster.
 *
 * @module
 */
import { digest } from "../../../../ffi/digest.ts";
import { openCublasLt } from "../../../../ffi/cuda/cublaslt.ts";
import { openNvrtc } from "../../../../ffi/cuda/nvrtc.ts";
import { ConfigurationError } from "../../../errors.ts";
import { TILE_SHAPES } from "../../../overlap/executors/tile/configuration.ts";
import { TileKernel } from "../../../overlap/executors/tile/kernel.ts";
import { configurationOf } from "../../../overlap/executors/tile/operands.ts";
import { tileSource } from "../../../overlap/executors/tile/source.ts";
import type { Partition } from "../../../overlap/partition.ts";
import { areWavesFull } from "../../../blas/gpu_gemm.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { isEmpty } from "../../matmul/problem.ts";
import { isQuantized } from "../../matmul/quantization.ts";
import type { EngineRequest, MatmulEngine, Refusal } from "../engine.ts";
import { measureRates, ratesOf } from "../machine_rates.ts";
import { CopyPlan } from "./copy_plan.ts";
import {
  copiesWorthMeasuring,
  copySeconds,
  type CopyStrategy,
  copyStrategy,
  copyTraffic,
  isCopyVariant,
} from "./copy_strategy.ts";
import { wavesOf } from "./copy_waves.ts";
import { OVERLAP_ALGORITHMS, type OverlapAlgorithm } from "./host_strategy.ts";
import { findMissing, refuseTiles, supportedTiles, TilePlan } from "./tile_engine.ts";
import { kernelEpilog } from "./tile_epilog.ts";
import { tileSeconds, type TileStrategy, tileStrategy, tileTraffic } from "./tile_strategy.ts";
import { type Extents, variantsWorthMeasuring } from "./tile_variants.ts";

/** Schedules of copies are checked for up to so many ranks; a trial with 16 failed. */
const MOST_COPYING = 8;

const CHANGE = "Leave engine out: cublasmp takes the product.";

/** Null if copy engines can run a request on this runtime's GPUs. */
function refuseCopies(request: EngineRequest, { size, localSize, device }: Runtime): Refusal | null {
  if (localSize !== size) {
    return { reason: `its GPUs use each other's memory, and ${size} ranks are on several machines`, instead: CHANGE };
  }
  if (isEmpty(request.problem)) return null;
  if (size > MOST_COPYING) return { reason: `it knows at most ${MOST_COPYING} GPUs, not ${size}`, instead: CHANGE };
  if (size === 1) return { reason: "one GPU has nothing to exchange", instead: CHANGE };
  const { a } = request.problem;
  const [major, minor] = device.computeCapability ?? [0, 0];
  if (isQuantized(a.dtype) && 10 * major + minor < 89) {
    return {
      reason: `${a.dtype} needs compute capability 8.9, and ${device.name} has ${major}.${minor}`,
      instead: CHANGE,
    };
  }
  const found = copiesFor(request);
  return "reason" in found ? found : null;
}

/** The request as one of the two sees it: without a variant of the other. */
function seenBy(isByCopies: boolean, { variant, ...request }: EngineRequest): EngineRequest {
  return variant === undefined || isCopyVariant(variant) !== isByCopies ? request : { ...request, variant };
}

/** What tile kernels do for a request on this runtime's GPUs, or why they cannot. */
function tilesFor(request: EngineRequest, runtime: Runtime): TileStrategy | Refusal {
  const seen = seenBy(false, request);
  return refuseTiles(seen, runtime) ?? tileStrategy(seen);
}

function hasNarrowFactors({ problemOf }: TileStrategy): boolean {
  return problemOf(0).narrow !== undefined;
}

/** What copy engines do for a request, or why they cannot. */
function copiesFor(request: EngineRequest): CopyStrategy | Refusal {
  return copyStrategy(seenBy(true, request));
}

/** Whether a request is for copy engines: by its variant, since there is no tile kernel for it, or by the rule. */
function isForCopies(request: EngineRequest, runtime: Runtime): boolean {
  if (request.variant !== undefined) return isCopyVariant(request.variant);
  const tiles = tilesFor(request, runtime);
  if ("reason" in tiles) return true;
  const copies = copiesFor(request);
  if ("reason" in copies) return false;
  const areFull = () => areWavesFull(wavesOf(copies, runtime.stream!));
  const isInSymmetricMemory = request.settings?.isInSymmetricMemory ?? false;
  return areCopiesFaster(tiles.partition.kind, tiles.extents, hasNarrowFactors(tiles), areFull, isInSymmetricMemory);
}

/**
 * Where cuBLASLt and copy engines took less time than every tile kernel on two H200s, or hardly more: what is gathered, unless
 * it is little or its parts leave many multiprocessors idle at their ends, which cuBLASLt's blocks may not where tiles
 * would (`areFull`); and sums of long rows that each rank gets a part of, but for factors of 8 bits. Where D is not symmetric
 * (`isInSymmetricMemory`), and tile kernels copy it from where it is, sums for all ranks as well, unless they are narrow or
 * little, or their pieces large.
 * Source: `bench/results/overlap_copies_h200.json`.
 */
export function areCopiesFaster(
  kind: Partition["kind"],
  { m, n, k, size }: Extents,
  isNarrow = false,
  areFull = () => false,
  isInSymmetricMemory = true,
): boolean {
  if (size !== 2 || m < 2048) return false;
  if (kind !== "gather") {
    const isLong = k / size >= 14_336;
    const isLarge = Math.min(m, n) >= 3072 && Math.max(m, n) <= 16_384 && m * n >= 24 * 2 ** 20;
    return !isNarrow && (kind === "reduce" ? isLong : isLarge && !isInSymmetricMemory);
  }
  return size * wavesOfTiles(m / size, n / size) <= 1.05 * wavesOfTiles(m, n / size) || !isNarrow && areFull();
}

/** How often an H200's multiprocessors take a tile each of a product of so many rows and columns. */
function wavesOfTiles(rows: number, columns: number): number {
  return Math.ceil(Math.ceil(rows / 128) * Math.ceil(columns / 256) / 132);
}

function supportedCopies(request: EngineRequest): CopyStrategy {
  const found = copiesFor(request);
  if ("reason" in found) throw new ConfigurationError(`engine overlap: ${found.reason}. ${found.instead}`);
  return found;
}

/** What this machine lacks; found out once. */
let missing: Refusal | null | undefined;

let kernels: string | undefined;

/** What tells the kernels of this version from others'. */
function kernelsDigest(): string {
  const source = () => tileSource({ ...TILE_SHAPES.wide, dtype: "bfloat16", isRowMajorA: true, isRowMajorB: true });
  return kernels ??= digest(source()).slice(0, 8);
}

/** The overlap engine for runtimes on GPUs. */
export const overlapGpuEngine: MatmulEngine<"overlap", OverlapAlgorithm> = {
  name: "overlap",
  device: "gpu",
  algorithms: OVERLAP_ALGORITHMS,
  hasTimelines: true,
  open: () => `NVRTC ${openNvrtc().version}, cuBLASLt ${openCublasLt().version}, kernels ${kernelsDigest()}`,
  supports(request, runtime) {
    const refusal = refuseTiles(seenBy(false, request), runtime);
    if (refusal !== null && refuseCopies(request, runtime) !== null) return refusal;
    return missing === undefined ? missing = findMissing() : missing;
  },
  cost(request, runtime) {
    return isForCopies(request, runtime)
      ? copyTraffic(supportedCopies(request), request.problem)
      : tileTraffic(supportedTiles(request), request.problem);
  },
  seconds(request, runtime) {
    // For types that tile kernels have not, it is taken where it was asked for, or measured to be faster.
    return "reason" in tilesFor(request, runtime)
      ? Infinity
      : isForCopies(request, runtime)
      ? copySeconds(supportedCopies(request), ratesOf(runtime)).predicted
      : tileSeconds(supportedTiles(request), ratesOf(runtime)).predicted;
  },
  calibrate: measureRates,
  compile(requests, runtime) {
    const configurations = requests.filter((request) => !isForCopies(request, runtime)).map((request) => {
      const { problemOf, variant } = supportedTiles(request);
      return configurationOf(problemOf(runtime.rank), variant, kernelEpilog(request.epilog));
    });
    TileKernel.compileAll(configurations, runtime.stream!.device);
  },
  variants(request, runtime) {
    const tiles = tilesFor(request, runtime);
    const copies = copiesFor(request);
    return [
      ..."reason" in tiles ? [] : variantsWorthMeasuring(tiles.partition.kind, tiles.extents, hasNarrowFactors(tiles)),
      ..."reason" in copies ? [] : copiesWorthMeasuring(copies),
    ];
  },
  plan(runtime, request) {
    return isForCopies(request, runtime)
      ? new CopyPlan(runtime, request, supportedCopies(request))
      : new TilePlan(runtime, request);
  },
};
