/** Every example in the documentation comments runs: those that do not end what they start each in a process of its own. */
import { assert, assertEquals } from "@std/assert";
import { finish, root, start, temporaryFolder } from "./command.ts";

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

const examples = ["mod.ts", "internals.ts", ...["ffi", "src", "scripts"].flatMap((folder) => [...sourceFiles(folder)])]
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

async function runAlone({ file, place }: Example): Promise<void> {
  const filter = `--filter=/${`${file}${place}`.replaceAll(/[./]/g, "\\$&")}/`;
  await expectPassed(["--doc", filter, file], 1);
}

/** `cwd` is where files of examples are written. */
async function expectPassed(args: readonly string[], count: number, cwd = root): Promise<void> {
  const all = ["test", "-A", "--no-check", "--reporter=tap", ...args];
  const { code, stdout, stderr } = await finish(start(Deno.execPath(), all, { cwd }), 240);
  assertEquals(code, 0, stdout + stderr);
  assertEquals(stdout.match(/^ok \d+/gm)?.length, count, stdout + stderr);
}

/** Whether it leaves nothing open, so that others can follow in the same process. */
const isClosed = (example: Example) =>
  !needsProcess(example) || /\busing runtime = initialize\(/.test(example.text) && !/\bfinalize\(/.test(example.text);

/** An example as a module, whose function runs it. */
function moduleOf({ text }: Example): string {
  const imports = /^ *\* import [^;]*;\n/gm;
  const lines = [...text.matchAll(imports)].map(([line]) => line).join("");
  const here = (code: string) =>
    code.replaceAll(/^ *\* ?/gm, "").replaceAll(/from "(\S+)"/g, (_, name) => {
      const path = name.slice(packageName.length);
      return `from "file://${root}${entryPoints[path === "" ? "." : `.${path}`].slice(2)}"`;
    });
  return `${here(lines)}\nexport async function run() {\n${here(text.replaceAll(imports, ""))}\n}\n`;
}

Deno.test("examples that leave nothing open, one after the other", async () => {
  using folder = temporaryFolder();
  const selected = examples.filter(isClosed);
  const tests = selected.map((example, i) => {
    Deno.writeTextFileSync(`${folder.path}/example_${i}.ts`, moduleOf(example));
    return `Deno.test("${example.file}${example.place}", (await import("./example_${i}.ts")).run);\n`;
  });
  Deno.writeTextFileSync(`${folder.path}/all_test.ts`, tests.join(""));
  await expectPassed([`${folder.path}/all_test.ts`], selected.length, folder.path);
});

for (const example of examples.filter((example) => !isClosed(example))) {
  Deno.test(
    `example at ${example.file}, line ${example.place.replaceAll(/\D/g, "")}`,
    () => runAlone(example),
  );
}
