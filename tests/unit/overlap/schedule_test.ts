/** Stage schedules of all ranks together are proved right; each of a list of planted mistakes is found. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { stageProgram, type Taking, withMeeting } from "../../../src/overlap/actions.ts";
import {
  type Action,
  check,
  type Finding,
  type RankProgram,
  type Span,
  type Wanted,
} from "../../../src/overlap/proof.ts";
import { type Partition, partitionOf } from "../../../src/overlap/partition.ts";
import {
  GATHER_WAYS,
  REDUCE_WAYS,
  type Schedule,
  scheduleOf,
  schedulesOf,
  type ScheduleStep,
  type Variant,
} from "../../../src/overlap/schedule.ts";
import { partitions, variantsOf } from "./arbitraries.ts";

const cases = partitions.chain((partition) =>
  fc.record({ partition: fc.constant(partition), variant: variantsOf(partition) })
);

const programs = (schedules: readonly Schedule[], taking: Taking = "streams"): RankProgram[] =>
  schedules.map((schedule) => stageProgram(schedule, taking));

Deno.test("every schedule is right, on 1 to 8 ranks, whatever the parts, however steps are taken and flags are told apart", () => {
  const taking = fc.constantFrom<Taking>("streams", "list");
  // One product alone needs no second word for its flags, unless they come round.
  const flags = fc.constantFrom({ flags: "counted", flagTurns: 1 } as const, { flags: "captured" } as const);
  fc.assert(
    fc.property(cases, taking, flags, ({ partition, variant }, taking, flags) => {
      assertEquals(check([programs(schedulesOf(partition, variant), taking)], flags), []);
    }),
    { numRuns: 1500 },
  );
});

// What a graph repeats has one word for each flag, whose values do not tell runs apart, and one window.
const REPEATED = { flags: "captured", flagTurns: 1 } as const;

Deno.test("what a graph repeats is right: the ranks meet, take their flags back, and need one window", () => {
  fc.assert(
    fc.property(cases, ({ partition, variant }) => {
      const met = withMeeting(programs(schedulesOf(partition, variant)));
      for (const { turns } of met) assertEquals(partition.size > 1 ? turns : {}, {});
      assertEquals(check([met], REPEATED), []);
    }),
    { numRuns: 150 },
  );
});

Deno.test("every run raises and awaits the same flags, with an addend or without: none is older than the run before last", () => {
  const flagsOf = ({ steps }: Schedule) =>
    steps.flatMap((step) =>
      step.kind === "signal" || step.kind === "wait" ? [[step.kind, step.rank, step.flag].join()] : []
    )
      .sort();
  fc.assert(
    fc.property(cases, ({ partition, variant }) => {
      const [without, having] = [false, true].map((hasAddend) =>
        schedulesOf(partition, { ...variant, hasAddend }).map(flagsOf)
      );
      assertEquals(having, without);
    }),
    { numRuns: 300 },
  );
});

Deno.test("planted: a graph that is repeated without a meeting, or whose copies do not wait for it", () => {
  const partition = partitionOf({ kind: "gather", extents: { m: 6, n: 6, k: 6 }, size: 3 });
  const plain = programs(schedulesOf(partition, { way: "push" }));
  const once = plain.map((program) => ({ ...program, turns: {} }));
  assert(check([once], REPEATED).some(({ kind }) => kind === "race" || kind === "flag"));
  const early = withMeeting(plain).map((program) => ({
    ...program,
    lanes: program.lanes.map((lane, number) =>
      number === 1 ? lane.map((action): Action => ({ ...action, after: [] })) : lane
    ),
  }));
  assert(check([early], REPEATED).some(({ kind }) => kind === "race" || kind === "flag"));
});

const pairs = fc.integer({ min: 2, max: 5 }).chain((size) => {
  const ofSize = cases.filter(({ partition }) => partition.size === size);
  return fc.tuple(ofSize, ofSize);
});

/** Several products as one rank's programs: operands and results of their own, the same windows. */
function byTurns(products: readonly { partition: Partition; variant: Variant }[]): RankProgram[][] {
  return products.map(({ partition, variant }, product) => {
    const own = (span: Span): Span =>
      span.memory === "window" ? span : { ...span, memory: `${span.memory} ${product}` };
    const wanted = (list: readonly Wanted[]) => list.map((one) => ({ ...one, span: own(one.span) }));
    return programs(schedulesOf(partition, variant), "list").map((program): RankProgram => ({
      ...program,
      lanes: program.lanes.map((lane) =>
        lane.map((action): Action =>
          action.kind !== "put"
            ? action
            : { ...action, to: action.to.map(own), from: action.from.map(own), needs: wanted(action.needs) }
        )
      ),
      inputs: wanted(program.inputs),
      outputs: wanted(program.outputs),
      sizes: Object.fromEntries(
        Object.entries(program.sizes).map(([name, size]) => [name === "window" ? name : `${name} ${product}`, size]),
      ),
    }));
  });
}

Deno.test("products of different kinds may take turns on the same windows", () => {
  fc.assert(fc.property(pairs, (pair) => assertEquals(check(byTurns(pair)), [])), { numRuns: 200 });
});

Deno.test("planted: flags that products share, and that do not take turns by the parity of the call", () => {
  const partition = partitionOf({ kind: "gather", extents: { m: 6, n: 6, k: 6 }, size: 3 });
  const pair = [1, 2].map((pieces) => ({ partition, variant: { way: "push", pieces } as const }));
  assertEquals(check(byTurns(pair)), []);
  const found = check(byTurns(pair), { flagTurns: 1 });
  assert(found.some(({ kind, message }) => kind === "flag" && message.includes("back to")), JSON.stringify(found));
});

/** Every kind and way, on so many ranks, with uneven parts. */
function examples(size: number): { partition: Partition; variant: Variant }[] {
  const extents = { m: 9, n: 10, k: 11 };
  const of = (kind: Partition["kind"], ways: readonly Variant["way"][], more: object) =>
    ways.flatMap((way) =>
      [1, 2].map((pieces) => ({
        partition: partitionOf({ kind, extents, size, ...more }),
        variant: { way, pieces, hasAddend: pieces === 2 },
      }))
    );
  return [
    ...of("gather", GATHER_WAYS, { travels: "a" }),
    ...of("gather", GATHER_WAYS, { travels: "b", axis: "k" }),
    ...of("reduce", REDUCE_WAYS, {}),
    ...of("all_reduce", REDUCE_WAYS, { axis: "n" }),
  ];
}

/** A schedule without a step; what waited for it does not wait. */
function without(schedule: Schedule, dropped: number): Schedule {
  const steps = schedule.steps.toSpliced(dropped, 1).map((step): ScheduleStep => ({
    ...step,
    after: step.after.filter((number) => number !== dropped).map((number) => number > dropped ? number - 1 : number),
  }));
  return { ...schedule, steps };
}

const named = ({ partition, variant }: { partition: Partition; variant: Variant }) =>
  `${partition.kind} of ${partition.travels} by ${partition.axis}, ${variant.way}, ${variant.pieces} pieces`;

/** Change one rank's schedule at each step of some kind: each change has to be found. */
function plant(
  kinds: readonly ScheduleStep["kind"][],
  change: (schedule: Schedule, step: ScheduleStep, number: number) => Schedule | null,
  expected: readonly Finding["kind"][],
  sizes: readonly number[] = [2, 3],
): number {
  let planted = 0;
  for (const example of sizes.flatMap(examples)) {
    const schedules = schedulesOf(example.partition, example.variant);
    const rank = example.partition.size - 1;
    schedules[rank].steps.forEach((step, number) => {
      if (!kinds.includes(step.kind)) return;
      const changed = change(schedules[rank], step, number);
      if (changed === null) return;
      planted++;
      const found = check([programs(schedules.with(rank, changed))]);
      assert(found.length > 0, `not found: step ${number} (${JSON.stringify(step)}) of ${named(example)}`);
      assert(found.some(({ kind }) => expected.includes(kind)), `${JSON.stringify(found)} at ${named(example)}`);
    });
  }
  return planted;
}

const replaced = (schedule: Schedule, number: number, step: ScheduleStep): Schedule => ({
  ...schedule,
  steps: schedule.steps.with(number, step),
});

Deno.test("planted: a dropped wait", () => {
  const planted = plant(["wait"], (schedule, _, number) => without(schedule, number), [
    "race",
    "content",
    "flag",
    "no_meeting",
  ]);
  assert(planted > 100);
});

Deno.test("planted: a dropped signal", () => {
  assert(plant(["signal"], (schedule, _, number) => without(schedule, number), ["deadlock"]) > 100);
});

Deno.test("planted: a dropped copy, product or sum", () => {
  assert(plant(["copy", "gemm", "reduce"], (schedule, _, number) => without(schedule, number), ["content"]) > 100);
});

Deno.test("planted: a signal that is sent before the step that it tells of", () => {
  const planted = plant(["copy"], (schedule, step, number) => {
    const next = schedule.steps[number + 1];
    if (step.kind !== "copy" || step.to.memory !== "window") return null;
    // Its signal comes later.
    if (step.from.memory === "result" && step.to.rank === schedule.rank) return null;
    if (next?.kind !== "signal" || next.stream !== step.stream) return null;
    const steps = schedule.steps.with(number, { ...next, after: [] }).with(number + 1, { ...step, after: step.after });
    return { ...schedule, steps };
  }, ["race", "content"]);
  assert(planted > 30);
});

Deno.test("planted: two signals whose receivers are swapped", () => {
  const planted = plant(
    ["signal"],
    (schedule, step, number) => {
      if (step.kind !== "signal") return null;
      const other = schedule.steps.findIndex((candidate, i) =>
        i > number && candidate.kind === "signal" && candidate.rank !== step.rank && candidate.stream === step.stream
      );
      if (other < 0) return null;
      // Those that tell of the same may change places.
      const isSame = !schedule.steps.slice(number + 1, other).some(({ kind }) => kind === "copy");
      if (isSame) return null;
      const { rank } = schedule.steps[other] as ScheduleStep & { kind: "signal" };
      const swapped = replaced(schedule, number, { ...step, rank });
      return replaced(swapped, other, { ...schedule.steps[other], rank: step.rank } as ScheduleStep);
    },
    ["race", "content", "deadlock", "flag"],
    [3, 4],
  );
  assert(planted > 20, String(planted));
});

Deno.test("planted: a dependency between streams that is forgotten", () => {
  const planted = plant(["copy", "gemm", "signal"], (schedule, step, number) => {
    if (step.after.length === 0 || step.kind === "signal") return null;
    // What an earlier step of the stream waited for is waited for already.
    const earlier = schedule.steps.slice(0, number).filter(({ stream }) => stream === step.stream);
    if (earlier.some(({ after }) => step.after.every((needed) => after.includes(needed)))) return null;
    return replaced(schedule, number, { ...step, after: [] });
  }, ["race", "content"]);
  assert(planted > 20);
});

Deno.test("planted: something put one line beside its place", () => {
  const planted = plant(["copy", "gemm"], (schedule, step, number) => {
    if (step.kind !== "copy" && step.kind !== "gemm") return null;
    return replaced(schedule, number, { ...step, to: { ...step.to, at: step.to.at + 1 } });
  }, ["race", "content", "bounds"]);
  assert(planted > 100);
});

Deno.test("planted: a product that is added to what it should replace, or replaces what it should be added to", () => {
  const planted = plant(["gemm"], (schedule, step, number) => {
    if (step.kind !== "gemm") return null;
    const adds = step.adds === "sum" ? "nothing" : "sum";
    return replaced(schedule, number, { ...step, adds });
  }, ["content"]);
  assert(planted > 50);
});

Deno.test("planted: a window that is too small", () => {
  for (const example of [2, 3].flatMap(examples)) {
    const schedules = schedulesOf(example.partition, example.variant);
    if (schedules[0].windowLines === 0) continue;
    const small = schedules.map((schedule) => ({ ...schedule, windowLines: schedule.windowLines - 1 }));
    assert(check([programs(small)]).some(({ kind }) => kind === "bounds"), named(example));
  }
});

/** Whether ranks can be a call apart: they meet twice in a call where readers answer, and in an all-reduce. */
function needsTurns({ partition, variant }: { partition: Partition; variant: Variant }): boolean {
  return partition.kind !== "all_reduce" && variant.way !== "pull" && variant.way !== "direct";
}

Deno.test("planted: windows that do not take turns by the parity of the call", () => {
  for (const example of [2, 3].flatMap(examples)) {
    if (!needsTurns(example)) continue;
    const single = schedulesOf(example.partition, example.variant).map((schedule) => ({ ...schedule, parities: 1 }));
    const found = check([programs(single)]);
    assert(found.some(({ kind }) => kind === "race" || kind === "content"), named(example));
  }
});

Deno.test("planted: flags in graphs that do not take turns by the parity of the call", () => {
  for (const example of [2, 3].flatMap(examples)) {
    if (!needsTurns(example)) continue;
    const schedules = schedulesOf(example.partition, example.variant);
    const found = check([programs(schedules)], { flags: "captured", flagTurns: 1 });
    assert(found.some(({ kind, message }) => kind === "flag" && message.includes("was seen")), named(example));
  }
});

Deno.test("planted: ranks that wait for each other in a circle", () => {
  const partition = partitionOf({ kind: "gather", extents: { m: 6, n: 6, k: 6 }, size: 3 });
  const schedules = schedulesOf(partition, { way: "push" }).map((schedule): Schedule => ({
    ...schedule,
    // One thing after the other, and all that waits first.
    steps: schedule.steps.toSorted((one, other) => Number(other.kind === "wait") - Number(one.kind === "wait")),
  }));
  const found = check([programs(schedules, "list")]);
  assertEquals(found.map(({ kind }) => kind), ["deadlock", "deadlock", "deadlock"]);
  assertStringIncludes(found[0].message, "rank 0 never ends call 1: waits for flag 1 (lane 0, action 0)");
});

Deno.test("what a partition has no way for is refused", () => {
  const gather = partitionOf({ kind: "gather", extents: { m: 6, n: 6, k: 6 }, size: 3 });
  const message = (variant: Variant) => assertThrows(() => scheduleOf(gather, 0, variant), RangeError).message;
  assertEquals(message({ way: "ring" }), "gather can go by push, pull, share, direct, not by ring.");
  assertEquals(message({ way: "push", pieces: 0 }), "A part is cut into 1, 2, … pieces, not 0.");
});

Deno.test("an all-reduce returns each piece of a sum while the next one is multiplied", () => {
  const partition = partitionOf({ kind: "all_reduce", extents: { m: 12, n: 12, k: 12 }, size: 2 });
  const rangeOf = (step: ScheduleStep) => "range" in step ? step.range : null;
  for (const [way, last] of [["ring", "gemm"], ["scatter", "reduce"]] as const) {
    const { steps } = scheduleOf(partition, 0, { way, pieces: 3, canAddApart: true });
    const returned = steps.filter((step) => step.kind === "copy" && step.from.memory === "result");
    const before = returned.map(({ after }) => steps[after[0]]);
    assertEquals(before.map(({ kind }) => kind), [last, last, last]);
    assertEquals(before.map(rangeOf), returned.map(rangeOf));
  }
});
