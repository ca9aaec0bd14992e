import { assertEquals, assertRejects } from "@std/assert";
import { Job } from "../../../bench/harness/job.ts";

const worker = new URL("../../../bench/harness/worker.ts", import.meta.url);

/** A job of `ranks` processes without MPI: a shell starts them, and each learns its rank by an argument. */
async function start(code: string, ranks = 1): Promise<Job> {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  const head = `import { serve, timeEach } from "${worker}"; const rank = Number(Deno.args[0]);\n`;
  await Deno.writeTextFile(file, head + code);
  const script = `for rank in $(seq 0 $((${ranks} - 1))); do "$0" run -A --no-check "$1" $rank & done; wait`;
  return await Job.start({ name: "a job", command: ["sh", "-c", script, Deno.execPath(), file], ranks });
}

Deno.test("bench: a job answers each order with the slowest rank's times", async () => {
  await using job = await start(
    `await serve(rank, { twice: (text) => [Number(text) + rank, Number(text) - rank], none: () => [] });`,
    2,
  );
  assertEquals(await job.ask("twice 5"), [6, 5]);
  assertEquals(await job.ask("none"), []);
  assertEquals(await job.ask("twice 7"), [8, 7]);
});

Deno.test("bench: a job's times are measured, without what goes before", async () => {
  await using job = await start(`
    let now = 0;
    performance.now = () => now;
    const work = (ms: number) => void (now += ms);
    await serve(rank, { work: () => timeEach(3, () => work(20), () => work(200)) });`);
  assertEquals(await job.ask("work"), [0.02, 0.02, 0.02]);
});

Deno.test("bench: an order that fails is told with its reason", async () => {
  await using job = await start(`await serve(rank, { fail: () => { throw new RangeError("too much"); } });`);
  await assertRejects(() => job.ask("fail"), Error, "RangeError: too much");
});

Deno.test("bench: a program that ends before it is ready is told with its complaints", async () => {
  await assertRejects(
    () => start(`console.error("no MPI here"); Deno.exit(3);`).then((job) => job[Symbol.asyncDispose]()),
    Error,
    "no MPI here",
  );
});

Deno.test("bench: a program that dies at work is told", async () => {
  await using job = await start(`await serve(rank, { die: () => Deno.exit(3) });`);
  await assertRejects(() => job.ask("die"), Error, "hung up");
});

Deno.test("bench: two processes with one rank are refused: they are not one job", async () => {
  await assertRejects(
    () => start(`await serve(0, {});`, 2).then((job) => job[Symbol.asyncDispose]()),
    Error,
    "two processes with rank 0",
  );
});
