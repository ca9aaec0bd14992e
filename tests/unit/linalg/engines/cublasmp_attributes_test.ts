/** cuBLASMp's numbers, what its log says, and PBLAS's letters for other memory orders. */
import { assertEquals } from "@std/assert";
import {
  ALGORITHM_CODES,
  algorithmFor,
  biasType,
  epilogueCode,
  MULTICAST_ALGORITHMS,
} from "../../../../src/linalg/engines/cublasmp/attributes.ts";
import { operationCode } from "../../../../src/blas/cublas_codes.ts";
import { scaleTypeOf } from "../../../../src/linalg/matmul/compute_type.ts";
import { errorsOf, parseLog } from "../../../../src/linalg/engines/cublasmp/log.ts";
import { describeEpilog, EPILOG_NAMES } from "../../../../src/linalg/matmul/epilog.ts";
import { canonicalLetters, type PblasRoutine } from "../../../../src/linalg/pblas/call.ts";
import type { MatmulProblem } from "../../../../src/linalg/matmul/problem.ts";
import { EPILOG_CODES } from "../epilog_codes.ts";

Deno.test("every epilog has its number, with the reduction where there is one", () => {
  for (const name of EPILOG_NAMES) {
    const code = (EPILOG_CODES as Record<string, number>)[name.replace("column_", "")];
    if (code === undefined) continue;
    const epilog = describeEpilog(name, { auxDType: "float32" });
    assertEquals(epilogueCode(epilog, "all_reduce"), code | 1, name);
    assertEquals(epilogueCode(epilog, "local"), name === "all_reduce" ? 0 : code, name);
  }
});

Deno.test("algorithms are asked for by number, and never the default or a multicast one by default", () => {
  assertEquals(ALGORITHM_CODES, {
    split_p2p: 1,
    split_multicast: 2,
    atomic_p2p: 3,
    atomic_multicast: 4,
    no_overlap: 5,
    fused: 6,
  });
  const paths = ["local", "all_gather", "reduce_scatter", "all_reduce", "generic", "fallback"] as const;
  const chosen = paths.map((path) => algorithmFor(path, "default", 1000));
  assertEquals(chosen, ["no_overlap", "split_p2p", "split_p2p", "no_overlap", "no_overlap", "no_overlap"]);
  assertEquals(chosen.some((name) => MULTICAST_ALGORITHMS.includes(name!)), false);
  assertEquals(algorithmFor("all_gather", "atomic_p2p", 1000), null);
  assertEquals(algorithmFor("all_reduce", "split_p2p", 1000), null);
  assertEquals(algorithmFor("generic", "split_p2p", 1000), null);
  assertEquals(algorithmFor("reduce_scatter", "atomic_p2p", 1000), "atomic_p2p");
  assertEquals(algorithmFor("all_reduce", "fused", 901), null);
  assertEquals(algorithmFor("all_reduce", "fused", 1000), "fused");
});

Deno.test("types that go with a product", () => {
  assertEquals(scaleTypeOf("float16", "float32"), "float16");
  assertEquals(scaleTypeOf("float32_fast_tf32", "complex64"), "complex64");
  const problem = (a: string, c: string | null, d: string) =>
    ({ a: { dtype: a }, c: c && { dtype: c }, d: { dtype: d } }) as unknown as MatmulProblem;
  assertEquals(biasType(problem("float16", null, "float32")), "float32");
  assertEquals(biasType(problem("float8_e4m3", null, "float32")), "bfloat16");
  assertEquals(biasType(problem("float8_e4m3", null, "float16")), "float16");
  assertEquals(biasType(problem("float8_e4m3", "float16", "float8_e4m3")), "float16");
  assertEquals(operationCode({ transpose: true, conjugate: true }, "float32"), 1);
  assertEquals(operationCode({ transpose: true, conjugate: true }, "complex64"), 2);
});

Deno.test("the log tells the path and the algorithm", () => {
  const line = (text: string) => `[2026-11-21 15:43:09][cublasMp][923][Trace][cublasMpMatmul] Using ${text}\n`;
  assertEquals(parseLog(line("AllGather + Matmul") + line("SPLIT_P2P AllGather + Matmul")), {
    path: "all_gather",
    algorithm: "split_p2p",
    text: "SPLIT_P2P AllGather + Matmul",
  });
  assertEquals(parseLog(line("Matmul + AllReduce") + line("NO_OVERLAP Matmul + AllReduce"))?.algorithm, "no_overlap");
  assertEquals(parseLog(line("generic Matmul")), { path: "generic", algorithm: null, text: "generic Matmul" });
  assertEquals(parseLog("nothing of the kind"), null);
  assertEquals(errorsOf("[x][Error][f] wrong pitch\n[x][Hint][f] try\n"), "[f] wrong pitch");
  assertEquals(errorsOf(line("generic Matmul")), null);
});

Deno.test("PBLAS's letters for row-major matrices", () => {
  const letters = { side: "left", uplo: "lower", trans: "none", diag: "unit" } as const;
  const of = (
    routine: PblasRoutine,
    a: "C" | "F",
    result: "C" | "F",
    trans: "none" | "transpose" | "conjugate_transpose",
  ) => canonicalLetters(routine, { ...letters, trans }, { a, result });
  // X^T A^T = B^T, with the stored A being A^T already: the other side and triangle, not transposed.
  assertEquals(of("trsm", "C", "C", "none"), { ...letters, side: "right", uplo: "upper" });
  assertEquals(of("trsm", "F", "C", "none"), { ...letters, side: "right", trans: "transpose" });
  assertEquals(of("trsm", "C", "F", "none"), { ...letters, uplo: "upper", trans: "transpose" });
  assertEquals(of("trsm", "C", "F", "conjugate_transpose"), null);
  assertEquals(of("syrk", "C", "C", "none"), { ...letters, side: "right", uplo: "upper", trans: "transpose" });
  assertEquals(of("herk", "C", "C", "none"), {
    ...letters,
    side: "right",
    uplo: "upper",
    trans: "conjugate_transpose",
  });
  assertEquals(of("herk", "F", "C", "none"), null);
  assertEquals(of("geadd", "C", "C", "transpose"), { ...letters, side: "right", uplo: "upper", trans: "transpose" });
  assertEquals(of("tradd", "F", "C", "none"), { ...letters, side: "right", uplo: "upper", trans: "transpose" });
});
