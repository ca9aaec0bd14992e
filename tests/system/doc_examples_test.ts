/** Every example in the documentation comments runs: those that start MPI each in a process of its own. */
import { assert, assertEquals } from "@std/assert";
import { finish, root, start } from "./command.ts";

interface Example {
  file: string;
  /** `#` and the number of its first line, as they stand in the name that `deno test --doc` gives to it. */
  place: string;
  text: string;
}

function* sourceFiles(folder: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(root + folder)) {
    if (isDirectory) yield* sourceFiles(`${folder}/${name}`);
    else if (name.endsWith(".ts")) yield `${folder}/${name}`;
  }
}

function examplesIn(file: string): Example[] {
  const text = Deno.readTextFileSync(root + file);
  return [...text.matchAll(/^ *\* ```ts\n(.*?)^ *\* ```$/gms)].map((match) => {
    const line = text.slice(0, match.index).split("\n").length;
    return { file, place: `#${line}-`, text: match[1] };
  });
}

const examples = ["mod.ts", ...["ffi", "src", "scripts"].flatMap((folder) => [...sourceFiles(folder)])]
  .flatMap(examplesIn);

const { name: packageName, exports: entryPoints } = JSON.parse(Deno.readTextFileSync(`${root}deno.json`));
const specifiers = Object.keys(entryPoints).map((path) => packageName + path.slice(1));

Deno.test("examples can be pasted: they import the package's entry points only", () => {
  assert(examples.length > 50);
  for (const { file, place, text } of examples) {
    for (const [, specifier] of text.matchAll(/\bfrom "([^"]+)"/g)) {
      assert(specifiers.includes(specifier), `${file}${place}: "${specifier}" is none of ${specifiers.join(", ")}`);
    }
  }
});

/** Examples that open a library. */
const needsProcess = ({ text }: Example) =>
  /\b(initialize|Communicator\.\w+|testRuntime|currentRuntime|open[A-Z]\w*)\(/.test(text);

async function run(selected: readonly Example[]): Promise<void> {
  const pattern = selected.map(({ file, place }) => `${file}${place}`.replaceAll(/[./]/g, "\\$&")).join("|");
  const files = [...new Set(selected.map(({ file }) => file))];
  const args = ["test", "-A", "--doc", "--no-check", "--reporter=tap", `--filter=/(${pattern})/`, ...files];
  const { code, stdout, stderr } = await finish(start(Deno.execPath(), args), 120);
  // A machine without a GPU has none of its libraries.
  if (/LibraryNotFoundError/.test(stdout) && files.every((file) => /^ffi\/(cu|nv|nccl)/.test(file))) return;
  assertEquals(code, 0, stdout + stderr);
  assertEquals(stdout.match(/^ok \d+/gm)?.length, selected.length, stdout + stderr);
}

Deno.test("examples that open no library", () => run(examples.filter((example) => !needsProcess(example))));

for (const example of examples.filter(needsProcess)) {
  Deno.test(`example at ${example.file}, line ${example.place.replaceAll(/\D/g, "")}`, () => run([example]));
}
