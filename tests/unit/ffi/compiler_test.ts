/** The machine's C compiler: when it is started, what is kept, and that nothing depends on it. */
import { assert, assertEquals } from "@std/assert";
import { findCompiler } from "../../../ffi/compiler.ts";

const ignore = findCompiler() === null;
const fixture = new URL("fixtures/compile.ts", import.meta.url).pathname;

/** Compile in a process of its own, with the kept files in a folder. */
async function compile(folder: string, env: Record<string, string> = {}, permissions = ["-A"]) {
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--no-check", ...permissions, fixture],
    env: { DISTMATH_NATIVE: `${folder}/native`, ...env },
  }).output();
  const [out, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  assert(out !== "", errors);
  return JSON.parse(out) as { value: number | null; starts: number };
}

const kept = (folder: string) => [...Deno.readDirSync(`${folder}/kernels`)].map(({ name }) => name).sort();

function inFolder(body: (folder: string) => Promise<void>): () => Promise<void> {
  return async () => {
    const folder = Deno.makeTempDirSync();
    try {
      await body(folder);
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  };
}

Deno.test({
  name: "what is compiled is kept whole, by one of several processes, and compiled again if it is broken",
  ignore,
  fn: inFolder(async (folder) => {
    const first = await Promise.all([0, 1, 2].map(() => compile(folder)));
    assertEquals(first.map(({ value }) => value), [42, 42, 42]);
    const [lock, library, ...others] = kept(folder);
    assertEquals([lock, others], ["lock", []]);
    const path = `${folder}/kernels/${library}`;
    const { mtime } = Deno.statSync(path);
    assertEquals(await compile(folder), { value: 42, starts: 0 });
    assertEquals(Deno.statSync(path).mtime, mtime);
    const whole = Deno.readFileSync(path);
    for (const broken of [whole.subarray(0, 5000), whole.with(4200, whole[4200] ^ 1), new Uint8Array()]) {
      Deno.writeFileSync(path, broken);
      assertEquals(await compile(folder), { value: 42, starts: 1 });
      assertEquals(await compile(folder), { value: 42, starts: 0 });
    }
    assertEquals(kept(folder), [lock, library]);
  }),
});

Deno.test({
  name: "the compiler is told nothing of the rank that starts it",
  ignore,
  fn: inFolder(async (folder) => {
    const program = `${folder}/compiler`;
    Deno.writeTextFileSync(program, `#!/bin/sh\nenv >> ${folder}/environment\nexec cc "$@"\n`, { mode: 0o755 });
    const env = { DISTMATH_COMPILER: program, OMPI_COMM_WORLD_RANK: "1", PMI_RANK: "1", PMIX_RANK: "1" };
    assertEquals(await compile(folder, env), { value: 42, starts: 1 });
    const names = Deno.readTextFileSync(`${folder}/environment`).matchAll(/^(\w+)=/gm);
    const allowed = ["HOME", "LC_ALL", "OLDPWD", "PATH", "PWD", "SHLVL", "TMPDIR", "_"];
    assertEquals([...new Set([...names].map(([, name]) => name))].filter((name) => !allowed.includes(name)), []);
  }),
});

Deno.test({
  name: "without a compiler, its permission, or a place to keep files there are no functions, and no error",
  fn: inFolder(async (folder) => {
    const nothing = { value: null, starts: 0 };
    assertEquals(await compile(folder, { DISTMATH_COMPILER: "none" }), nothing);
    assertEquals(await compile(folder, { DISTMATH_COMPILER: `${folder}/none` }), nothing);
    assertEquals(await compile(folder, {}, ["--allow-ffi", "--allow-env", "--allow-read", "--allow-write"]), nothing);
    assertEquals(await compile(folder, {}, ["--allow-ffi", "--allow-env", "--allow-read", "--allow-run"]), nothing);
    Deno.writeTextFileSync(`${folder}/kernels`, "not a folder");
    assertEquals((await compile(folder)).value, null);
    Deno.removeSync(`${folder}/kernels`);
    const program = `${folder}/compiler`;
    Deno.writeTextFileSync(program, `#!/bin/sh\ncase "$*" in *-E*) exec cc "$@";; esac\nexit 1\n`, { mode: 0o755 });
    assertEquals((await compile(folder, { DISTMATH_COMPILER: program })).value, null);
    assertEquals(kept(folder), ignore ? [] : ["lock"]);
  }),
});
