import { assert, assertEquals, assertThrows } from "@std/assert";
import { batchFile, type BatchJob, checkMpijob, parseShellFile } from "../../../../scripts/launch/batch_file.ts";
import { CommandError } from "../../../../scripts/terminal.ts";
import mpijob from "../../../system/fixtures/mpijob_schema.json" with { type: "json" };

const job: BatchJob = {
  name: "slab",
  ranks: 4,
  hosts: [],
  timeoutSeconds: null,
  gpus: 0,
  folder: "/home/a user",
  command: ["deno", "run", "main.ts", "run", "-n", "4", "slab.ts", "it's"],
  image: "distmath",
};

async function runShell(text: string, ...flags: string[]): Promise<{ code: number; output: string }> {
  const child = new Deno.Command("sh", { args: [...flags, "-c", text], stderr: "piped" });
  const { code, stdout, stderr } = await child.output();
  return { code, output: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

Deno.test("batchFile() writes directives that are read as they are meant, and a script that sh takes", async () => {
  const more = { ...job, hosts: ["a:2", "b:2"], timeoutSeconds: 3700.5, gpus: 2 };
  assertEquals(Object.fromEntries(parseShellFile("sbatch", batchFile("sbatch", more))), {
    "--job-name": "slab",
    "--output": "slab-%j.out",
    "--ntasks": "4",
    "--ntasks-per-node": "2",
    "--nodelist": "a,b",
    "--gpus-per-node": "2",
    "--time": "1:01:41",
  });
  assertEquals(Object.fromEntries(parseShellFile("pbs", batchFile("pbs", more))), {
    "-N": "slab",
    "-j": "oe",
    "-V": "",
    "-l select": "1:ncpus=2:mpiprocs=2:ngpus=2:host=a+1:ncpus=2:mpiprocs=2:ngpus=2:host=b",
    "-l walltime": "1:01:41",
  });
  const pbs = parseShellFile("pbs", batchFile("pbs", job));
  assertEquals([pbs.get("-l select"), pbs.get("-l place")], ["4:ncpus=1:mpiprocs=1", undefined]);
  for (const system of ["sbatch", "pbs"] as const) {
    const text = batchFile(system, job);
    assertEquals(await runShell(text, "-n"), { code: 0, output: "" });
    const echoing = text.replace("cd '/home/a user'", "true").replace("exec deno", "printf '%s;'");
    assertEquals((await runShell(echoing)).output, "run;main.ts;run;-n;4;slab.ts;it's;");
  }
});

Deno.test("batchFile() asks for a GPU for each rank, on as many hosts as that takes", () => {
  const directives = (system: "sbatch" | "pbs", ranks: number, gpus: number) =>
    Object.fromEntries(parseShellFile(system, batchFile(system, { ...job, ranks, gpus })));
  for (
    const [ranks, gpus, select, place] of [
      [4, 2, "2:ncpus=2:mpiprocs=2:ngpus=2", "scatter"],
      [5, 2, "2:ncpus=2:mpiprocs=2:ngpus=2+1:ncpus=1:mpiprocs=1:ngpus=2", "scatter"],
      [2, 4, "1:ncpus=2:mpiprocs=2:ngpus=4", undefined],
    ] as const
  ) {
    const pbs = directives("pbs", ranks, gpus);
    assertEquals([pbs["-l select"], pbs["-l place"]], [select, place]);
    const sbatch = directives("sbatch", ranks, gpus);
    assertEquals([sbatch["--ntasks-per-node"], sbatch["--gpus-per-node"]], [
      String(Math.min(ranks, gpus)),
      String(gpus),
    ]);
  }
});

Deno.test("parseShellFile() refuses what sbatch and qsub would not read, or read wrongly", () => {
  const file = (...lines: string[]) => ["#!/bin/sh", ...lines].join("\n");
  for (
    const [text, message] of [
      ["echo", 'a job file begins with "#!/bin/sh"'],
      [file("#SBATCH --ntask=4"), "wrong directive: #SBATCH --ntask=4"],
      [file("#SBATCH --time=soon"), "wrong directive: #SBATCH --time=soon"],
      [file("#SBATCH --ntasks=4", "#SBATCH --ntasks=5"), "for the second time"],
      [file("cd /tmp", "#SBATCH --ntasks=4"), "after the first command is not read"],
    ]
  ) {
    assertThrows(() => parseShellFile("sbatch", text), CommandError, message);
  }
  assertThrows(() => batchFile("sbatch", { ...job, name: "a\nb" }), CommandError, "after the first command");
  assertThrows(() => batchFile("sbatch", { ...job, hosts: ["a:1", "b:3"] }), CommandError, "the same number of slots");
  assertThrows(() => batchFile("pbs", { ...job, hosts: ["a:3"] }), CommandError, "a:3 take 3 ranks, not 4");
  assertThrows(() => batchFile("mpijob", { ...job, hosts: ["a:4"] }), CommandError, "leave out --hosts");
});

interface Schema {
  type?: string;
  enum?: unknown[];
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema;
  items?: Schema;
}

/** What does not fit a schema; names that it does not know are none that Kubernetes takes. */
function faults(value: unknown, schema: Schema, path = "$"): string[] {
  const type = Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;
  const found: string[] = [];
  if (schema.type !== undefined && schema.type !== type) return [`${path} is ${type}, not ${schema.type}`];
  if (schema.enum && !schema.enum.includes(value)) found.push(`${path} is none of ${schema.enum}`);
  if (Array.isArray(value)) return value.flatMap((item, i) => faults(item, schema.items ?? {}, `${path}[${i}]`));
  if (type !== "object") return found;
  const object = value as Record<string, unknown>;
  found.push(...(schema.required ?? []).filter((name) => !(name in object)).map((name) => `${path} has no ${name}`));
  if (schema.properties === undefined && schema.additionalProperties === undefined) return found;
  return [
    ...found,
    ...Object.entries(object).flatMap(([name, item]) => {
      const inner = schema.properties?.[name] ?? schema.additionalProperties;
      return inner ? faults(item, inner, `${path}.${name}`) : [`${path} has no property ${name}`];
    }),
  ];
}

Deno.test("an MPIJob fits the operator's schema", () => {
  const text = batchFile("mpijob", { ...job, name: "My_Slab.v2", timeoutSeconds: 10, gpus: 2 });
  const made = JSON.parse(text);
  const { properties } = mpijob.schema as Schema;
  const schema = { ...mpijob.schema as Schema, properties: { ...properties, metadata: { type: "object" } } };
  assertEquals(faults(made, schema), []);
  assertEquals(made.metadata.name, "my-slab-v2");
  assertEquals(made.spec.mpiReplicaSpecs.Worker.replicas, 2);
  // The schema does refuse.
  made.spec.slotsPerWorker = "2";
  made.spec.mpiReplicaSpecs.Worker.template.spec.containers[0].imag = "x";
  assertEquals(faults(made, schema).length, 2);
  assert(faults({ spec: {} }, schema).includes("$.spec has no mpiReplicaSpecs"));
});

Deno.test("the words of an MPIJob's command are those that the container gets", () => {
  const command = ["deno", "a$$b", "$(HOME)", "$x"];
  const file = JSON.parse(batchFile("mpijob", { ...job, command }));
  const [{ command: words }] = file.spec.mpiReplicaSpecs.Launcher.template.spec.containers;
  // Kubernetes makes $ of $$, and puts a variable in place of $(NAME).
  assertEquals(words, ["deno", "a$$$$b", "$$(HOME)", "$$x"]);
});

Deno.test("an MPIJob has a name from which those of its pods and its service can be made", () => {
  const nameOf = (name: string) => JSON.parse(batchFile("mpijob", { ...job, name })).metadata.name;
  assertEquals(nameOf("2_Fields"), "fields");
  assertEquals(nameOf("__"), "job");
  // Cut before a "-", which cannot be the last character.
  assertEquals(nameOf(`${"a".repeat(39)}-${"b".repeat(40)}`), "a".repeat(39));
  assertEquals(nameOf("a".repeat(300)), "a".repeat(40));
});

Deno.test("an MPIJob that Kubernetes would refuse is not written", () => {
  const refused = (more: Partial<BatchJob>, message: string) =>
    assertThrows(() => batchFile("mpijob", { ...job, ...more }), CommandError, message);
  refused(
    { image: "my image" },
    '--image: spec.mpiReplicaSpecs.Launcher.template.spec.containers.0.image is "my image"',
  );
  refused({ folder: "here" }, 'workingDir is "here"');
  refused({ ranks: 0 }, "Worker.replicas is 0");
  const text = batchFile("mpijob", { ...job, timeoutSeconds: 10 });
  checkMpijob(text);
  assertThrows(() => checkMpijob(text.replace('"slab"', '"Slab"')), CommandError, 'metadata.name is "Slab"');
  assertThrows(() => checkMpijob(text.replace(": 10", ": 0")), CommandError, "activeDeadlineSeconds is 0");
  assertThrows(
    () => checkMpijob(text.replace('"slotsPerWorker"', '"slots"')),
    CommandError,
    "slotsPerWorker is missing",
  );
});
