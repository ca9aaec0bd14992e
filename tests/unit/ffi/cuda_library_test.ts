import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { refuseSecondNccl } from "../../../ffi/cuda/cublasmp.ts";
import { openCudaLibrary, requireEnvironment, settleMulticast } from "../../../ffi/cuda/library.ts";
import { ConfigurationError } from "../../../ffi/errors.ts";
import { LibraryNotFoundError, nativePrefix, searchFolders } from "../../../ffi/library.ts";
import { createNcclConfig, NCCL_CONFIG, NCCL_UNIQUE_ID, requireNcclVersion } from "../../../ffi/cuda/nccl.ts";
import {
  createNvshmemInitAttr,
  createNvshmemUniqueId,
  NVSHMEM_INIT_ATTR,
  openNvshmem,
} from "../../../ffi/cuda/nvshmem.ts";
import { fileOfFunction, LIBC_CANDIDATES } from "../../../ffi/memory.ts";
import { readField, type StructLayout } from "../../../ffi/struct.ts";

/** What `fn` returns with some environment variables set, or unset where the value is null. */
function withEnvironment<T>(variables: Record<string, string | null>, fn: () => T): T {
  const set = (name: string, value: string | null | undefined) =>
    value === null || value === undefined ? Deno.env.delete(name) : Deno.env.set(name, value);
  const before = Object.keys(variables).map((name) => [name, Deno.env.get(name)] as const);
  try {
    for (const [name, value] of Object.entries(variables)) set(name, value);
    return fn();
  } finally {
    for (const [name, value] of before) set(name, value);
  }
}

/** The error of looking for a library that nobody has. */
function notFound(variables: Record<string, string | null>): LibraryNotFoundError {
  const request = { name: "Absent", files: ["libabsent.so.1", "libabsent.so.0"], wheelFolders: ["absent/lib"] };
  return withEnvironment(variables, () => assertThrows(() => openCudaLibrary(request, {}), LibraryNotFoundError));
}

Deno.test("a library is looked for in the documented order, each file in each folder", () => {
  const { attempts, message } = notFound({
    DISTMATH_LIBRARY_PATH: "/explicit/a:/explicit/b",
    DISTMATH_NATIVE: "/native",
    VIRTUAL_ENV: "/venv",
    CONDA_PREFIX: null,
    CUDA_HOME: "/cuda",
    CUDA_PATH: null,
  });
  const tried = attempts.map(({ path, source }) => `${source}: ${path}`);
  assertEquals(tried.slice(0, 8), [
    "DISTMATH_LIBRARY_PATH: /explicit/a/libabsent.so.1",
    "DISTMATH_LIBRARY_PATH: /explicit/a/libabsent.so.0",
    "DISTMATH_LIBRARY_PATH: /explicit/b/libabsent.so.1",
    "DISTMATH_LIBRARY_PATH: /explicit/b/libabsent.so.0",
    "native install: /native/cuda/lib/libabsent.so.1",
    "native install: /native/cuda/lib/libabsent.so.0",
    "VIRTUAL_ENV: /venv/lib/python3.14/site-packages/nvidia/absent/lib/libabsent.so.1",
    "VIRTUAL_ENV: /venv/lib/python3.14/site-packages/nvidia/absent/lib/libabsent.so.0",
  ]);
  const place = (text: string) => tried.indexOf(text);
  assert(place("VIRTUAL_ENV: /venv/lib/python3.9/site-packages/nvidia/absent/lib/libabsent.so.0") > 0);
  assert(place("VIRTUAL_ENV: /venv/lib/libabsent.so.0") < place("OS loader: libabsent.so.1"));
  assert(place("OS loader: libabsent.so.1") < place("CUDA_HOME: /cuda/lib64/libabsent.so.1"));
  assert(!message.includes("/native/cpu/"), "the CPU libraries hold none of NVIDIA's");
  assertStringIncludes(message, "To install it: deno task native install cuda");
});

Deno.test("a file that is no library ends the search: no other is taken in its place", () => {
  const folder = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${folder}/libabsent.so.0`, "not a library");
    const { attempts, isDamaged, message } = notFound({ DISTMATH_LIBRARY_PATH: folder });
    assertEquals(attempts.map(({ outcome }) => outcome), ["absent", "damaged"]);
    assert(isDamaged);
    assertEquals(
      message,
      `Absent: ${folder}/libabsent.so.0 (DISTMATH_LIBRARY_PATH) is there, but cannot be loaded: with 13 bytes it is no ` +
        "shared library. No other library is taken in its place. Install it again (deno task native install cuda), or " +
        "let DISTMATH_LIBRARY_PATH name the folder of one that can be loaded.",
    );
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("an NCCL that was cut short is an error before NVSHMEM, which opens it by itself, is loaded", () => {
  const native = Deno.makeTempDirSync();
  try {
    const libraries = `${native}/cuda/lib`;
    Deno.mkdirSync(libraries, { recursive: true });
    const [nccl, nvshmem] = ["libnccl.so.2", "libnvshmem_host.so.3"].map((name) => `${libraries}/${name}`);
    for (const path of [nccl, nvshmem]) Deno.copyFileSync(fileOfFunction(LIBC_CANDIDATES.at(-1)!, "malloc")!, path);
    const { size } = Deno.statSync(nccl);
    Deno.truncateSync(nccl, size - 1);
    const variables = {
      DISTMATH_LIBRARY_PATH: null,
      DISTMATH_NATIVE: native,
      NCCL_NVLS_ENABLE: null,
      NVSHMEM_DISABLE_NVLS: null,
    };
    const { isDamaged, message } = withEnvironment(
      variables,
      () => assertThrows(() => openNvshmem(), LibraryNotFoundError),
    );
    assert(isDamaged);
    assertStringIncludes(message, `NCCL: ${nccl} (native install) is there, but cannot be loaded: it was cut short`);
    assert(!Deno.readTextFileSync("/proc/self/maps").includes(libraries));
  } finally {
    Deno.removeSync(native, { recursive: true });
  }
});

Deno.test("what the environment names by a relative path is not searched", () => {
  const relative = {
    DISTMATH_LIBRARY_PATH: null,
    DISTMATH_NATIVE: null,
    XDG_CACHE_HOME: "cache",
    // Of Deno that other tests start meanwhile.
    DENO_DIR: Deno.env.get("DENO_DIR") ?? Deno.makeTempDirSync(),
    HOME: "home",
    VIRTUAL_ENV: "venv",
    CONDA_PREFIX: "conda",
    CUDA_HOME: "cuda",
    CUDA_PATH: "./cuda",
  };
  const { attempts } = notFound(relative);
  assertEquals(attempts.filter(({ path }) => path.includes("/") && !path.startsWith("/")), []);
  withEnvironment(relative, () => {
    assertEquals(nativePrefix(), undefined);
    assertEquals(searchFolders().filter(({ path }) => path !== null && !path.startsWith("/")), []);
  });
  withEnvironment({ ...relative, HOME: "/home/somebody" }, () => {
    assertEquals(nativePrefix(), "/home/somebody/.cache/distmath/native");
  });
});

Deno.test("an environment variable is set where it has another value", () => {
  withEnvironment({ DISTMATH_TEST_VARIABLE: "1" }, () => {
    requireEnvironment("DISTMATH_TEST_VARIABLE", "0");
    assertEquals(Deno.env.get("DISTMATH_TEST_VARIABLE"), "0");
  });
});

Deno.test({
  name: "a variable that may not be set is an error that says how to start",
  permissions: { env: false },
  fn() {
    assertThrows(
      () => requireEnvironment("NCCL_NVLS_ENABLE", "0"),
      ConfigurationError,
      "Start with NCCL_NVLS_ENABLE=0 in the environment and --allow-env=NCCL_NVLS_ENABLE.",
    );
  },
});

Deno.test("multicast is switched off unless it is allowed", () => {
  withEnvironment({ NCCL_NVLS_ENABLE: null, NVSHMEM_DISABLE_NVLS: null }, () => {
    settleMulticast({ allowMulticast: true });
    assertEquals(Deno.env.get("NCCL_NVLS_ENABLE"), undefined);
    settleMulticast({});
    assertEquals(Deno.env.get("NCCL_NVLS_ENABLE"), "0");
    assertEquals(Deno.env.get("NVSHMEM_DISABLE_NVLS"), "1");
  });
});

Deno.test("an NCCL that is too old is refused with both versions and the file", () => {
  requireNcclVersion({ version: 22902, path: "/lib/libnccl.so.2" }, 22902, "cuBLASMp");
  assertThrows(
    () => requireNcclVersion({ version: 22809, path: "/lib/libnccl.so.2" }, 22902, "cuBLASMp"),
    ConfigurationError,
    "cuBLASMp needs NCCL 2.29.2 or newer, but /lib/libnccl.so.2 is NCCL 2.28.9.",
  );
});

Deno.test("a communicator's settings are unset but the given ones", () => {
  const config = createNcclConfig({ blocking: 0, commName: 0x1234n });
  assertEquals(readField(NCCL_CONFIG, config, "size"), 80n);
  assertEquals(readField(NCCL_CONFIG, config, "magic"), 0xcafebeef);
  assertEquals(readField(NCCL_CONFIG, config, "version"), 22800);
  assertEquals(readField(NCCL_CONFIG, config, "blocking"), 0);
  assertEquals(readField(NCCL_CONFIG, config, "commName"), 0x1234n);
  assertEquals(readField(NCCL_CONFIG, config, "netName"), 0n);
  const layout: StructLayout = NCCL_CONFIG;
  for (const [field, [, type]] of Object.entries(layout.fields)) {
    if (type === "i32" && field !== "blocking") {
      assertEquals(readField(layout, config, field) as number, -2147483648, field);
    }
  }
  assertEquals(NCCL_UNIQUE_ID.size, 128);
});

Deno.test("NVSHMEM's arguments carry the versions that its header's initializers write", () => {
  const attr = createNvshmemInitAttr();
  assertEquals(attr.length, 144);
  assertEquals(readField(NVSHMEM_INIT_ATTR, attr, "version"), 65680);
  assertEquals(readField(NVSHMEM_INIT_ATTR, attr, "args.version"), 65664);
  assertEquals(readField(NVSHMEM_INIT_ATTR, attr, "args.uid_args.version"), 65560);
  assertEquals([...createNvshmemUniqueId().subarray(0, 5)], [128, 0, 1, 0, 0]);
});

Deno.test("two NCCLs in one process are refused, and named", () => {
  refuseSecondNccl([]);
  refuseSecondNccl(["/one/libnccl.so.2"]);
  assertThrows(
    () => refuseSecondNccl(["/one/libnccl.so.2", "/other/libnccl.so.2"]),
    ConfigurationError,
    "has 2 NCCLs, and cuBLASMp needs one: /one/libnccl.so.2 and /other/libnccl.so.2",
  );
});
