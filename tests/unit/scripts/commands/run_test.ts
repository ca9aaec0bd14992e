import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { run } from "../../../../scripts/commands/run.ts";
import { CommandError } from "../../../../scripts/terminal.ts";

const script = new URL("../../../../examples/slab.ts", import.meta.url).pathname;

/** The job file that `run` writes with these options. */
async function jobFile(system: string, ...options: string[]): Promise<string> {
  const file = Deno.makeTempFileSync();
  try {
    assertEquals(await run([`--${system}`, file, ...options, script]), 0);
    return Deno.readTextFileSync(file);
  } finally {
    Deno.removeSync(file);
  }
}

Deno.test("job files hold the values that variables have here, and leave GPUs and hosts to the batch system", async () => {
  const allocation = { SLURM_JOB_ID: "1", SLURM_JOB_NODELIST: "n[1-2]", SLURM_TASKS_PER_NODE: "2(x2)" };
  const set = { ...allocation, DISTMATH_ANY: "it's here" };
  for (const [name, value] of Object.entries(set)) Deno.env.set(name, value);
  try {
    const text = await jobFile("sbatch", "-n", "2", "--gpus", "4,6", "--env", "DISTMATH_ANY");
    assertStringIncludes(text, `--env 'DISTMATH_ANY=it'\\''s here' `);
    assertStringIncludes(text, "#SBATCH --gpus-per-node=2\n");
    assert(!text.includes("4,6") && !text.includes("--nodelist"), text);
    const { Launcher, Worker } = JSON.parse(await jobFile("mpijob", "-n", "2")).spec.mpiReplicaSpecs;
    assertEquals(Worker.replicas, 2);
    // As the image has it.
    const [{ workingDir, command }] = Launcher.template.spec.containers;
    assertEquals([workingDir, command[3]], ["/distmath", "/distmath/scripts/main.ts"]);
    assertMatch(command.at(-1), /^\/distmath\/.*\.ts$/);
  } finally {
    for (const name of Object.keys(set)) Deno.env.delete(name);
  }
});

Deno.test("run warns of a script that an MPIJob's image does not have by itself", async () => {
  const outside = await Deno.makeTempFile({ suffix: ".ts" });
  const told: string[] = [];
  const [error, log] = [console.error, console.log];
  console.error = (text: string) => void told.push(text);
  console.log = () => {};
  try {
    for (const name of [script, "https://example.org/a.ts", outside]) await run(["--mpijob", "-", name]);
    await run(["--sbatch", "-", outside]);
  } finally {
    Object.assign(console, { error, log });
    await Deno.remove(outside);
  }
  assertEquals(told, [
    `warning: ${outside} is not of distmath's folder: the image distmath must have it at that path`,
  ]);
});

Deno.test("run refuses options that contradict each other", async () => {
  for (
    const [options, message] of [
      ["--sbatch - --pbs -", "take --sbatch or --pbs, not both"],
      ["--mpijob - --watch", "--watch is for a job that starts now: leave out --mpijob"],
      ["--sbatch - --inspect 0", "--inspect is for a job that starts now"],
      ["--pbs - --dry-run", "--dry-run is for a job that starts now"],
      ["--sbatch - --image x", "--image is for --mpijob alone"],
      ["--watch --profile p", "take --watch or --profile, not both"],
    ]
  ) await assertRejects(() => run([...options.split(" "), script]), CommandError, message);
});
