/**
 * What `deno task bench overlap` and bench/overlap.ts are asked for.
 *
 * @module
 */
import { parseArgs } from "node:util";

/** All-gather GEMM, GEMM reduce-scatter, GEMM all-reduce. */
export type Kind = "ag" | "rs" | "ar";

/** M, N and K of a product of all ranks together. */
export type Shape = readonly [m: number, n: number, k: number];

const DTYPES = ["bfloat16", "float8_e4m3"] as const;

/** The options. */
export interface OverlapArguments {
  /** What is measured. */
  readonly kinds: readonly Kind[];
  /** On which shapes; null for those of each kind. */
  readonly shapes: readonly Shape[] | null;
  /** In which type; of factors of 8 bits the products are bfloat16. */
  readonly dtype: typeof DTYPES[number];
  /** How often everything is repeated. */
  readonly rounds: number;
  /** How many ranks each one should seem to be one of; null for as many as there are. */
  readonly geometry: number | null;
  /** Whether the steady state is measured, too. */
  readonly steady: boolean;
  /** Peers that are left out. */
  readonly without: readonly string[];
  /** Where the record goes; null for the output. */
  readonly json: string | null;
}

/** The usage. */
export const overlapUsage =
  `Usage: deno task bench overlap [--kinds ag,rs,ar] [--shapes M,N,K;…] [--dtype bfloat16|float8_e4m3]
  [--rounds N] [--geometry P] [--steady] [--without cublasmp,nccl,torch] [--json FILE]`;

function whole(name: string, text: string, least: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  throw new Error(`--${name} takes a whole number of at least ${least}, not ${text}.\n\n${overlapUsage}`);
}

function shapeOf(text: string): Shape {
  const extents = text.split(",").map(Number);
  if (extents.length === 3 && extents.every((extent) => Number.isInteger(extent) && extent > 0)) {
    return extents as unknown as Shape;
  }
  throw new Error(`--shapes takes M,N,K;M,N,K;…, and "${text}" is no shape.\n\n${overlapUsage}`);
}

/** Read the options; throws an Error with the usage if they are wrong. */
export function parseOverlapArguments(args: readonly string[]): OverlapArguments {
  const text = { type: "string" } as const;
  const { values } = (() => {
    try {
      return parseArgs({
        args: [...args],
        options: {
          kinds: text,
          shapes: text,
          dtype: text,
          rounds: text,
          geometry: text,
          steady: { type: "boolean" },
          without: text,
          json: text,
        },
      });
    } catch (error) {
      throw new Error(`${(error as Error).message}\n\n${overlapUsage}`);
    }
  })();
  const { kinds = "ag,rs,ar", shapes, dtype = "bfloat16", rounds = "4", geometry, without = "" } = values;
  const unknown = kinds.split(",").filter((kind) => !["ag", "rs", "ar"].includes(kind));
  if (unknown.length > 0) throw new Error(`--kinds takes ag, rs and ar, not ${unknown.join()}.\n\n${overlapUsage}`);
  const known = DTYPES.find((name) => name === dtype);
  if (known === undefined) throw new Error(`--dtype takes ${DTYPES.join(" and ")}, not ${dtype}.\n\n${overlapUsage}`);
  return {
    kinds: kinds.split(",") as Kind[],
    shapes: shapes === undefined ? null : shapes.split(";").map(shapeOf),
    dtype: known,
    rounds: whole("rounds", rounds, 1),
    geometry: geometry === undefined ? null : whole("geometry", geometry, 2),
    steady: values.steady ?? false,
    without: without.split(",").filter((name) => name !== ""),
    json: values.json ?? null,
  };
}
