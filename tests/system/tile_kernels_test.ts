/**
 * Every second tile kernel (all with DISTMATH_CASES=all), compiled by NVRTC from its pinned wheel without a GPU: its registers, and what its machine code does
 * in the loop that multiplies. The wheels (96 MB) are kept in the user's cache.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { SHAPES_BETWEEN, TILE_SHAPES, tileShapeNamed } from "../../src/overlap/executors/tile/configuration.ts";
import { finish, root, start, temporaryFolder } from "./command.ts";

const cache = Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME")}/.cache`;
const isLinux = Deno.build.os === "linux" && Deno.build.arch === "x86_64";

/** The folder of the tools' wheels, installed at the first call. */
async function installTools(): Promise<string> {
  const pins = `${root}tests/system/kernel_tools.txt`;
  const digest = await crypto.subtle.digest("SHA-256", Deno.readFileSync(pins));
  const folder = `${cache}/distmath/kernel_tools/${new Uint8Array(digest).toHex().slice(0, 16)}`;
  try {
    Deno.statSync(folder);
    return `${folder}/nvidia/cu13`;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const unfinished = `${folder}.${crypto.randomUUID()}`;
  // deno-fmt-ignore
  const pip = start("python3", [
    "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--disable-pip-version-check",
    "--target", unfinished, "-r", pins,
  ]);
  const { code, stderr } = await finish(pip, 300);
  assertEquals(code, 0, stderr);
  for (const tool of ["cuobjdump", "nvdisasm"]) Deno.chmodSync(`${unfinished}/nvidia/cu13/bin/${tool}`, 0o755);
  Deno.renameSync(unfinished, folder);
  return `${folder}/nvidia/cu13`;
}

/** An instruction of the machine code. */
interface Instruction {
  address: number;
  text: string;
}

function instructionsOf(sass: string): Instruction[] {
  const lines = sass.matchAll(/^\s+\/\*([0-9a-f]{4,})\*\/\s+([^;]+);/gm);
  return [...lines].map(([, address, text]) => ({ address: parseInt(address, 16), text: text.trim() }));
}

/** Whether tensor cores multiply: HGMMA 16 bits, QGMMA 8. */
function isProduct(text: string): boolean {
  return /\b[HQ]GMMA\b/.test(text);
}

/** The loops that end in a jump back, and multiply: from the shortest to the longest. */
function multiplyingLoops(code: readonly Instruction[]): Instruction[][] {
  const loops = code.flatMap(({ address, text }) => {
    const target = parseInt(/\bBRA(?:\.\S+)? (?:U?P\d+, )?(?:`\(\S+\))?(0x[0-9a-f]+)/.exec(text)?.[1] ?? "", 16);
    return target < address ? [code.filter((other) => other.address >= target && other.address <= address)] : [];
  });
  return loops.filter((loop) => loop.some(({ text }) => isProduct(text))).sort((a, b) => a.length - b.length);
}

/** What waits for memory beyond the block: each costs a quarter of the speed in the loop that multiplies. */
const SLOW = /^(@!?U?P\w+ )?(MEMBAR|FENCE|ERRBAR|CGAERRBAR|CCTL|LDL|STL|LDG|STG|LD\b|ST\b|ATOM|RED|BAR)/;

Deno.test({
  name: `tile kernels compile without spilling, and their main loop only multiplies${
    isLinux ? "" : " (skipped: not Linux on x86-64)"
  }`,
  ignore: !isLinux,
  fn: async () => {
    const tools = await installTools();
    using folder = temporaryFolder();
    const env = {
      DISTMATH_LIBRARY_PATH: `${tools}/lib`,
      DISTMATH_NATIVE: `${folder.path}/native`,
      PATH: `${tools}/bin:${Deno.env.get("PATH")}`,
    };
    const script = `${root}tests/system/fixtures/compile_tile_kernels.ts`;
    const compiled = await finish(start(Deno.execPath(), ["run", "-A", script, folder.path], { env }), 400);
    assertEquals(compiled.code, 0, compiled.stderr);
    const names = compiled.stdout.trim().split("\n");
    // All of them have three epilogs.
    const isAll = Deno.env.get("DISTMATH_CASES") === "all";
    const [wide, narrow, between, pushed] = isAll ? [24, 36, 24 * SHAPES_BETWEEN.length, 6] : [4, 2, 2 * 2, 2];
    assertEquals(names.length, Object.keys(TILE_SHAPES).length * wide + narrow + between + pushed);
    for (const name of names) {
      const dump = async (option: string) => {
        const { code, stdout, stderr } = await finish(
          start("cuobjdump", [option, `${folder.path}/${name}.cubin`], { env }),
          60,
        );
        assertEquals(code, 0, stderr);
        return stdout;
      };
      // 384 threads with 168 registers each: what the groups then take and give back is theirs. Where float16 is turned into
      // float32 one word more is needed once a tile, and lies outside of registers.
      const stack = name.includes("float16") && /wide|roomy/.test(name) ? "[08]" : "0";
      assertMatch(await dump("--dump-resource-usage"), new RegExp(`REG:168 STACK:${stack} SHARED:\\d+ LOCAL:0 `), name);

      const code = instructionsOf(await dump("--dump-sass"));
      const { columns } = tileShapeNamed(name.split("_")[0])!;
      const products = code.filter(({ text }) => isProduct(text));
      const [, a, b] = /_(e\dm\d)_(e\dm\d)/.exec(name) ?? [];
      const wanted = a === undefined
        ? `HGMMA.64x${columns}x16.F32${name.includes("bfloat16") ? ".BF16" : ""} `
        : `QGMMA.64x${columns}x32.F32.${a.toUpperCase()}.${b.toUpperCase()} `;
      assert(
        products.length > 0 && products.every(({ text }) => text.includes(wanted)),
        `${name}: ${products[0]?.text}`,
      );
      if (stack === "0") assert(!code.some(({ text }) => /\b(LDL|STL)\b/.test(text)), `${name} uses local memory`);

      const [loop] = multiplyingLoops(code);
      assert(loop, `${name} has no loop that multiplies`);
      assertEquals(loop.filter(({ text }) => isProduct(text)).length, a === undefined ? 4 : 8, name);
      assertEquals(loop.filter(({ text }) => SLOW.test(text)).map(({ text }) => text), [], name);
      // In the steps at both ends of a tile, chunks are handed over: with fences of the block's own memory alone.
      const between = code.filter(({ address }) =>
        address >= products[0].address && address <= products.at(-1)!.address
      );
      const wide = between.filter(({ text }) => /MEMBAR\.\w+\.(GPU|SYS|VC)|FENCE\.VIEW\.ASYNC(?!\.S)/.test(text));
      assertEquals(wide.map(({ text }) => text), [], name);
    }
  },
});
