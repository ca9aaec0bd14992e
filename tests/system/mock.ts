/** What the tests on mock GPUs share: the mock's libraries, and why they cannot be had. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { buildMockGpu } from "../gpu/mock/build.ts";
import { buildMockCublasMp } from "../gpu/mock/build_cublasmp.ts";
import { mpiInstallations } from "../mpi_installations.ts";
import { root, temporaryFolder } from "./command.ts";

function hasCompiler(): boolean {
  try {
    return new Deno.Command("g++", { args: ["--version"], stdout: "null", stderr: "null" }).outputSync().success;
  } catch {
    return false;
  }
}

/** The first MPI here. */
export const [mpi] = mpiInstallations;

/** Why there are no mock GPUs; null if there are. */
export const reason: string | null = mpi === undefined ? "no MPI" : hasCompiler() ? null : "no g++";

/** The mock cuBLASMp beside the other libraries. */
export type MockCublasMp = "none" | "0.10";

/** What the libraries are made from. */
function sources(): string[] {
  const files = ["tests/gpu/mock", "ffi/cuda"].flatMap((folder) =>
    Array.from(Deno.readDirSync(root + folder), ({ name }) => `${root}${folder}/${name}`).sort()
  );
  return [root, ...files.map((file) => Deno.readTextFileSync(file))];
}

const built = new Map<MockCublasMp, string>();

/** Where the mock's libraries are, by what they are made from: in the user's cache. */
function cachePlace(): { cache: string; place: string } {
  const cache = `${Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME")}/.cache`}/distmath/mock`;
  const digest = createHash("sha256").update(JSON.stringify(sources())).digest("hex").slice(0, 16);
  return { cache, place: `${cache}/${digest}` };
}

/** The folder of the mock's libraries, which all test files share: kept in the user's cache, and built by one of them. */
export function mockLibraries(cublasMp: MockCublasMp): string {
  const known = built.get(cublasMp);
  if (known !== undefined) return known;
  const { cache, place } = cachePlace();
  const folder = `${place}-${cublasMp}`;
  const others = cublasMp === "none" ? null : mockLibraries("none");
  Deno.mkdirSync(cache, { recursive: true });
  using lock = Deno.openSync(`${cache}/lock`, { create: true, write: true });
  lock.lockSync(true);
  if (!existsSync(folder)) {
    const unfinished = Deno.makeTempDirSync({ dir: cache });
    if (others === null) buildMockGpu(unfinished);
    else {
      for (const { name } of Deno.readDirSync(others)) Deno.copyFileSync(`${others}/${name}`, `${unfinished}/${name}`);
      buildMockCublasMp(unfinished);
    }
    Deno.renameSync(unfinished, folder);
  }
  built.set(cublasMp, folder);
  return folder;
}

/**
 * A folder for kernels that g++ has compiled, which all tests share: distmath keeps those of a test with the test, and most
 * are those of others.
 */
function mockKernels(): string {
  const folder = `${cachePlace().place}-kernels`;
  Deno.mkdirSync(folder, { recursive: true });
  return folder;
}

/** Run something on two mock GPUs: `environment` is that of its processes, `folder` is there as long as it runs. */
export type OnMock = (environment: Record<string, string>, folder: string) => Promise<void>;

/** A test on two mock GPUs, which may need something else: `other` says why that is not to be had. */
export function mockTest(
  name: string,
  body: OnMock,
  cublasMp: MockCublasMp = "0.10",
  other: string | null = null,
): void {
  const missing = other ?? reason;
  Deno.test({
    name: missing === null ? name : `${name} (skipped: ${missing})`,
    ignore: missing !== null,
    fn: async () => {
      using folder = temporaryFolder();
      const { path } = folder;
      await body({
        DISTMATH_LIBRARY_PATH: mockLibraries(cublasMp),
        DISTMATH_NATIVE: `${path}/native`, // Compiled kernels are kept beside it.
        DISTMATH_TEST_SECONDS: "240", // Processors are slow GPUs.
        MOCK_GPUS: "2",
        MOCK_KERNELS: mockKernels(),
        TMPDIR: path,
      }, path);
    },
  });
}
