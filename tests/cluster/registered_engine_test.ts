/** An engine that is not the library's: the products of matmul_test.ts on it, its choice, its errors, its measurement. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  ConfigurationError,
  type EngineName,
  Matmul,
  type MatmulOptions,
  Replicated,
  type Runtime,
  Slab,
} from "../../mod.ts";
import { openScalapack } from "../../ffi/blas/scalapack.ts";
import { HostPlan } from "../../src/linalg/engines/host/plan.ts";
import { hostStrategy } from "../../src/linalg/engines/overlap/host_strategy.ts";
import { AllGatherGemm } from "../../src/linalg/engines/scalapack/all_gather_gemm.ts";
import { GemmAllReduce, GemmReduceScatter } from "../../src/linalg/engines/scalapack/gemm_reduce.ts";
import { enginesFor, registerEngine } from "../../src/linalg/engines/registry.ts";
import type { MatmulEngine } from "../../src/linalg/engines/engine.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";
import { LOOPS, loopsEngine } from "./loops_engine.ts";
import { assertMatrix, combine, distribute, integers, product } from "./matmul_oracle.ts";

// With the engine registered above, which costs least.
import "./matmul_test.ts";

// Divided evenly along m and k, so that nothing has to be moved before.
const [left, right] = [integers(12, 12, 1), integers(12, 10, 2)];
const wanted = product(left, right);

function matmulOf(runtime: Runtime, options: MatmulOptions = {}): Matmul {
  const place = { distribution: Slab.X, dtype: "float32" } as const;
  const [a, b] = [distribute(runtime, left, place), distribute(runtime, right, place)];
  return new Matmul(a, b, options);
}

const isOnCpu = ({ device }: Runtime) => device.kind === "cpu";

clusterTest("a registered engine is chosen where it can multiply, and by name", (runtime) => {
  if (!isOnCpu(runtime)) return;
  const ran = (options: MatmulOptions): string => {
    using object = matmulOf(runtime, options);
    object.plan();
    assertMatrix(object.execute(), options.epilog ? combine(1, wanted, 0, null) : wanted, JSON.stringify(options));
    const { engine, algorithm } = object.algorithm;
    return `${engine} ${algorithm}`;
  };
  assertEquals(ran({}), "loops triple_loop");
  assertEquals(ran({ engine: LOOPS as EngineName }), "loops triple_loop");
  assertEquals(ran({ algorithm: "triple_loop" as "default" }), "loops triple_loop");
  assertEquals(ran({ algorithm: "pgemm" }), "scalapack pgemm", "loops has no pgemm");
  assert(ran({ engine: "scalapack" }).startsWith("scalapack "));
});

clusterTest("a plan may take another engine than the one before", (runtime) => {
  if (!isOnCpu(runtime)) return;
  using object = matmulOf(runtime);
  const engines = (["default", "pgemm", "default"] as const).map((algorithm) => {
    object.plan({ algorithm });
    assertMatrix(object.execute(), wanted, algorithm);
    return object.algorithm.engine;
  });
  assertEquals(engines, [LOOPS, "scalapack", LOOPS]);
  object.plan({ epilog: "relu" });
  assertEquals(object.algorithm.engine, "scalapack", "loops has no epilogs");
});

clusterTest("autotune measures a registered engine beside the others and keeps the fastest", (runtime) => {
  if (!isOnCpu(runtime)) return;
  using object = matmulOf(runtime);
  object.plan();
  const measured = object.autotune({ repetitions: 1 });
  const names = measured.map(({ engine, algorithm }) => `${engine} ${algorithm}`);
  assert(names.includes("loops triple_loop") && names.includes("scalapack pgemm"), names.join());
  assertEquals(new Set(names).size, names.length, "each once");
  const { engine, algorithm } = object.algorithm;
  assertEquals(`${engine} ${algorithm}`, names[0]);
  assertMatrix(object.execute(), wanted, "after autotune");
  assertEquals(object.autotune({ repetitions: 1 }).length, measured.length, "all engines again");

  using asked = matmulOf(runtime, { engine: LOOPS as EngineName });
  asked.plan();
  assertEquals(asked.autotune({ repetitions: 1 }).map(({ engine }) => String(engine)), [LOOPS]);
});

clusterTest("of engines that cost the same, the first; one without costs after the others", (runtime) => {
  if (!isOnCpu(runtime)) return;
  const chosen = (): string => {
    using object = matmulOf(runtime);
    object.plan();
    return object.algorithm.engine;
  };
  const named = (name: string, cost?: number) => {
    const { cost: _, ...others } = loopsEngine;
    const plan: typeof loopsEngine.plan = (runtime, request) => {
      const planned = loopsEngine.plan(runtime, request);
      return { ...planned, report: { ...planned.report, engine: name }, [Symbol.dispose]() {} };
    };
    return registerEngine({ ...others, name, plan, ...cost !== undefined && { cost: () => cost } });
  };
  {
    using _ = named("twin", -1);
    assertEquals(chosen(), LOOPS);
  }
  {
    using _ = named("silent");
    assertEquals(chosen(), LOOPS);
  }
  {
    using _ = named("cheaper", -2);
    assertEquals(chosen(), "cheaper");
  }
  assertEquals(chosen(), LOOPS);
  assert(!enginesFor(runtime).some(({ name }) => name === "twin"), "no longer registered");
});

clusterTest(
  "variants of an engine are measured, and the fastest is planned",
  (runtime) => {
    if (!isOnCpu(runtime)) return;
    const name = "varied" as EngineName;
    const planned: (string | undefined)[] = [];
    const engine: MatmulEngine = {
      ...loopsEngine,
      name,
      variants: () => ["slow", "quick"],
      compile: (requests) => void planned.push(`compile ${requests.map(({ variant }) => variant)}`),
      plan(runtime, request) {
        planned.push(request.variant);
        return loopsEngine.plan(runtime, request);
      },
    };
    using _registered = registerEngine(engine);
    using object = matmulOf(runtime, { engine: name });
    object.plan();
    const measured = object.autotune({ repetitions: 1 });
    assertEquals(measured.map(({ variant }) => variant).toSorted(), ["quick", "slow"]);
    // All are compiled before one is measured; the fastest is planned once more.
    assertEquals(planned, [undefined, "compile slow,quick", "slow", "quick", measured[0].variant]);
    assertMatrix(object.execute(), wanted, "after autotune");
  },
);

clusterTest("autotune passes over an engine that the machine has no room for, unless there is no other", (runtime) => {
  if (!isOnCpu(runtime)) return;
  const engine: MatmulEngine = {
    ...loopsEngine,
    name: "roomy",
    cost: () => 1e9,
    plan: (runtime, request) => ({
      ...loopsEngine.plan(runtime, request),
      open() {
        throw new ConfigurationError("there is no room");
      },
    }),
  };
  using _registered = registerEngine(engine);
  using object = matmulOf(runtime);
  object.plan();
  const names = object.autotune({ repetitions: 1 }).map(({ engine }) => String(engine));
  assert(names.includes(LOOPS) && names.includes("scalapack") && !names.includes("roomy"), names.join());
  assertMatrix(object.execute(), wanted, "after autotune");
  // An engine is opened where all ranks are sure to do so, so that it fails on all.
  using alone = matmulOf(runtime, { engine: "roomy" as EngineName });
  assertThrowsEverywhere(runtime, () => alone.plan(), ConfigurationError, "there is no room");
});

clusterTest(
  "what travels, who sends what and what is recorded tells the strategy, whatever its algorithm is called",
  { ranks: [2, 3] },
  (runtime) => {
    if (!isOnCpu(runtime)) return;
    const { X, Y } = Slab;
    const ways = [
      { exchange: "all-gather", Multiplier: AllGatherGemm, places: [X, X, X] },
      { exchange: "reduce-scatter", Multiplier: GemmReduceScatter, places: [Y, X, X] },
      { exchange: "all-reduce", Multiplier: GemmAllReduce, places: [Y, X, Replicated] },
    ] as const;
    using recording = runtime.record();
    for (const { exchange, Multiplier, places: [ofA, ofB, distribution] } of ways) {
      const engine: MatmulEngine = {
        name: "nameless",
        device: "cpu",
        algorithms: ["unheard_of"],
        supports: () => null,
        plan(runtime, request) {
          const { problem } = request;
          const strategy = { ...hostStrategy(problem, "default")!, algorithm: "unheard_of", variant: exchange };
          const { communicator, threads } = runtime;
          const scalapack = openScalapack(threads);
          const multiplier = new Multiplier({ problem, strategy, communicator, scalapack });
          return new HostPlan("nameless", runtime, request, strategy, multiplier, scalapack.blas);
        },
      };
      using _registered = registerEngine(engine);
      const ran = (engine: string) => {
        using a = distribute(runtime, left, { distribution: ofA, dtype: "float64" });
        using b = distribute(runtime, right, { distribution: ofB, dtype: "float64" });
        using object = new Matmul(a, b, { engine: engine as EngineName, distribution });
        object.plan();
        const before = recording.exchanges[`${exchange} by messages`] ?? 0;
        assertMatrix(object.execute(), wanted, exchange);
        assertEquals(recording.exchanges[`${exchange} by messages`], before + 1);
        const { algorithm: { bytesMoved, copies }, communication } = object;
        assertEquals(communication.total, bytesMoved);
        assertMatch(object.explain(), /predicted/);
        return { bytesMoved, copies, bytes: communication.bytes };
      };
      const nameless = ran("nameless");
      assert(nameless.bytesMoved > 0);
      assertEquals(nameless.copies, [], "the strategy is that of the exchange");
      assertEquals(nameless, ran("scalapack"));
    }
  },
);

clusterTest("what a registered engine refuses is refused with its name on every rank", (runtime) => {
  if (!isOnCpu(runtime)) return;
  const refused = (options: MatmulOptions, message: string) =>
    assertThrowsEverywhere(runtime, () => matmulOf(runtime, options), ConfigurationError, message);
  refused({ engine: LOOPS as EngineName, epilog: "relu" }, "engine loops: epilogs and 8-bit types are too much");
  refused(
    { engine: LOOPS as EngineName, algorithm: "pgemm" },
    "engine loops: there is no algorithm pgemm on CPUs. Use default, or one of triple_loop.",
  );
  refused(
    { engine: "scalapack", algorithm: "triple_loop" as "default" },
    "engine scalapack: there is no algorithm triple_loop on CPUs",
  );
  refused({ engine: "cublasmp" }, 'Leave engine out, or pass "scalapack" or "overlap" or "loops".');
  assertThrowsEverywhere(
    runtime,
    () => matmulOf(runtime, { engine: "loop" as EngineName }),
    TypeError,
    'engine must be one of auto, scalapack, cublasmp, overlap, loops; got "loop". Did you mean "loops"?',
  );
});
