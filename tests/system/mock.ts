/** What the tests on mock GPUs share: the mock's libraries, built once a file, and why they cannot be had. */
import { buildMockGpu } from "../gpu/mock/build.ts";
import { buildMockCublasMp } from "../gpu/mock/build_cublasmp.ts";
import { mpiInstallations } from "../mpi_installations.ts";
import { temporaryFolder } from "./command.ts";

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

let root: ReturnType<typeof temporaryFolder> | undefined;
const built = new Map<MockCublasMp, string>();

/** The folder of the mock's libraries. */
export function mockLibraries(cublasMp: MockCublasMp): string {
  const known = built.get(cublasMp);
  if (known !== undefined) return known;
  if (root === undefined) {
    const made = root = temporaryFolder();
    globalThis.addEventListener("unload", () => made[Symbol.dispose]());
  }
  const folder = `${root.path}/${cublasMp}`;
  if (cublasMp === "none") buildMockGpu(folder);
  else {
    const others = mockLibraries("none");
    Deno.mkdirSync(folder);
    for (const { name } of Deno.readDirSync(others)) Deno.copyFileSync(`${others}/${name}`, `${folder}/${name}`);
    buildMockCublasMp(folder);
  }
  built.set(cublasMp, folder);
  return folder;
}

/** Run something on two mock GPUs: `environment` is that of its processes, `folder` is there as long as it runs. */
export type OnMock = (environment: Record<string, string>, folder: string) => Promise<void>;

/** A test on two mock GPUs. */
export function mockTest(name: string, body: OnMock, cublasMp: MockCublasMp = "0.10"): void {
  Deno.test({
    name: reason === null ? name : `${name} (skipped: ${reason})`,
    ignore: reason !== null,
    fn: async () => {
      using folder = temporaryFolder();
      const { path } = folder;
      await body({
        DISTMATH_LIBRARY_PATH: mockLibraries(cublasMp),
        DISTMATH_NATIVE: `${path}/native`, // Compiled kernels are kept beside it.
        DISTMATH_TEST_SECONDS: "240", // Processors are slow GPUs.
        MOCK_GPUS: "2",
        TMPDIR: path,
      }, path);
    },
  });
}
