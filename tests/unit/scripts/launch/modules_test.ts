import { assert, assertEquals, assertRejects } from "@std/assert";
import { localModules, nextChange, warmCache } from "../../../../scripts/launch/modules.ts";
import { CommandError } from "../../../../scripts/terminal.ts";

/** A script that imports a file by a name of an import map, and another one without its ending. */
function project(): { path: string } & Disposable {
  const path = Deno.makeTempDirSync({ prefix: "a project " });
  Deno.writeTextFileSync(`${path}/map.json`, '{ "imports": { "mapped": "./mapped.ts" } }');
  Deno.writeTextFileSync(`${path}/mapped.ts`, "export {};");
  Deno.writeTextFileSync(`${path}/sloppy.ts`, "export {};");
  Deno.writeTextFileSync(`${path}/a.ts`, 'import "mapped"; import "./sloppy";');
  Deno.writeTextFileSync(`${path}/missing.ts`, 'import "./nowhere.ts";');
  return { path, [Symbol.dispose]: () => Deno.removeSync(path, { recursive: true }) };
}

const sloppy = "--unstable-sloppy-imports";

Deno.test("warmCache() takes the flags with which ranks find modules, by paths of the user's folder", async () => {
  using folder = project();
  const { path } = folder;
  for (const flags of [["--import-map", "map.json"], ["--import-map=map.json", "--quiet", "-q", "--preload=x", "-A"]]) {
    await warmCache(`${path}/a.ts`, [...flags, sloppy], path);
  }
  // What was fetched anew is in the cache for the ranks.
  const flags = ["--reload", "-r", "--import-map=map.json", sloppy, "-q"];
  assertEquals(await warmCache(`${path}/a.ts`, flags, path), flags.slice(2));
  // Nothing is to be fetched, or what is not known.
  for (const flag of ["--cached-only", "--conditions=x"]) await warmCache(`${path}/missing.ts`, [flag], path);
});

Deno.test("localModules() finds the files that ranks will, and refuses a script without any", async () => {
  using folder = project();
  const { path } = folder;
  const files = await localModules(`${path}/a.ts`, ["--import-map", "map.json", sloppy, "--reload", "--seed=1"], path);
  assertEquals(files.sort(), ["a.ts", "mapped.ts", "sloppy.ts"].map((name) => `${path}/${name}`));
  // Also one that is being written, and does not make sense yet.
  Deno.writeTextFileSync(`${path}/sloppy.ts`, "export {");
  Deno.writeTextFileSync(`${path}/b.ts`, 'import "./sloppy.ts"');
  assertEquals((await localModules(`${path}/b.ts`, [], path)).sort(), [`${path}/b.ts`, `${path}/sloppy.ts`]);
  assertEquals(await localModules(`${path}/sloppy.ts`, [], path), [`${path}/sloppy.ts`]);
  await assertRejects(
    () => localModules("http://127.0.0.1:9/a.ts", [], path),
    CommandError,
    "--watch: http://127.0.0.1:9/a.ts imports no file of this machine",
  );
});

/** Whether a change is seen of these files of a folder. */
async function isSeen(files: string[], change: () => void): Promise<boolean> {
  let isCalled = false;
  using next = nextChange(files, () => isCalled = true);
  change();
  await Promise.race([next.happened, new Promise((resolve) => setTimeout(resolve, 5000))]);
  return isCalled;
}

Deno.test("nextChange() sees changes of what a link leads to, and of the link", async () => {
  using folder = project();
  const { path } = folder;
  Deno.mkdirSync(`${path}/elsewhere`);
  Deno.writeTextFileSync(`${path}/elsewhere/real.ts`, "");
  Deno.symlinkSync("elsewhere/real.ts", `${path}/link.ts`);
  assert(await isSeen([`${path}/link.ts`], () => Deno.writeTextFileSync(`${path}/elsewhere/real.ts`, "1")));
  assert(await isSeen([`${path}/link.ts`], () => Deno.removeSync(`${path}/link.ts`)));
});

Deno.test("nextChange() waits for folders that are not there yet, and sees them go", async () => {
  using folder = project();
  const { path } = folder;
  const file = `${path}/lib/deep/b.ts`;
  assert(await isSeen([file], () => Deno.mkdirSync(`${path}/lib/deep`, { recursive: true })));
  assert(await isSeen([file], () => Deno.writeTextFileSync(file, "")));
  assert(await isSeen([file], () => Deno.renameSync(`${path}/lib/deep`, `${path}/lib/other`)));
  Deno.renameSync(`${path}/lib/other`, `${path}/lib/deep`);
  assert(await isSeen([file], () => Deno.removeSync(`${path}/lib`, { recursive: true })));
});

Deno.test("nextChange() takes no notice of other files", async () => {
  using folder = project();
  const { path } = folder;
  using next = nextChange([`${path}/a.ts`, `${path}/lib/b.ts`], () => {
    throw new Error("none of these has changed");
  });
  Deno.writeTextFileSync(`${path}/mapped.ts`, "");
  Deno.readTextFileSync(`${path}/a.ts`);
  await Promise.race([next.happened, new Promise((resolve) => setTimeout(resolve, 500))]);
});
