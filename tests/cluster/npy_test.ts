import { assert, assertEquals } from "@std/assert";
import {
  BlockCyclic,
  Box,
  CollectiveError,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  DistributionError,
  type DType,
  DTypeError,
  dtypeInfo,
  dtypes,
  loadNpy,
  loadNpz,
  type Order,
  ProcessGrid,
  Replicated,
  type Runtime,
  saveNpy,
  saveNpz,
  ShapeError,
  Slab,
  StateError,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";

/** Run a test in a folder of its own, the same on all ranks, which is gone afterwards. */
function inFolder(runtime: Runtime, body: (folder: string) => void): void {
  const { rank, communicator } = runtime;
  const folder = communicator.broadcastObject(rank === 0 ? Deno.makeTempDirSync({ prefix: "distmath_npy_" }) : "");
  try {
    body(folder);
  } finally {
    communicator.barrier();
    if (rank === 0) Deno.removeSync(folder, { recursive: true });
  }
}

/** Let rank 0 do something, and the others wait. */
function onRoot(runtime: Runtime, action: () => void): void {
  if (runtime.rank === 0) action();
  runtime.communicator.barrier();
}

function distributions(size: number, shape: readonly number[]): Distribution[] {
  const list: Distribution[] = [...shape.map((_, dimension) => new Slab(dimension)), Replicated];
  if (shape.length !== 2) return list;
  const [m, n] = shape;
  const boxes = Array.from({ length: size }, (_, rank) =>
    [
      [0, Math.floor(n * rank / size)],
      [m, Math.floor(n * (rank + 1) / size)],
    ] as const).toReversed();
  return [...list, new BlockCyclic(new ProcessGrid({ shape: [1, size] }), [2, 3]), new Box(boxes)];
}

const hasNumpy = (() => {
  try {
    return new Deno.Command("python3", { args: ["-c", "import numpy"], stdout: "null", stderr: "null" }).outputSync()
      .success;
  } catch {
    return false;
  }
})();

function python(code: string, ...args: string[]): string {
  const { success, stdout, stderr } = new Deno.Command("python3", { args: ["-c", code, ...args] }).outputSync();
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (!success) throw new Error(decode(stderr));
  return decode(stdout);
}

/** A file byte by byte: the format's own description, not this library's writer. */
function fileOf(text: string, data: Uint8Array, version = 1): Uint8Array {
  const start = version === 1 ? 10 : 12;
  const body = new TextEncoder().encode(text.padEnd(Math.ceil((start + text.length + 1) / 64) * 64 - start - 1) + "\n");
  const length = new Uint8Array(version === 1 ? 2 : 4);
  for (let i = 0; i < length.length; i++) length[i] = body.length >> (8 * i) & 255;
  return Uint8Array.of(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, version, 0, ...length, ...body, ...data);
}

function header(descr: string, order: Order, shape: string): string {
  return `{'descr': '${descr}', 'fortran_order': ${order === "F" ? "True" : "False"}, 'shape': ${shape}, }`;
}

clusterTest("a file written by hand is read, in all versions, orders and byte orders", (runtime) => {
  inFolder(runtime, (folder) => {
    const path = `${folder}/hand.npy`;
    for (const version of [1, 2, 3]) {
      for (const order of ["C", "F"] as const) {
        for (const isBig of [false, true]) {
          const bytes = new Uint8Array(6 * 4);
          const view = new DataView(bytes.buffer);
          for (let k = 0; k < 6; k++) view.setFloat32(4 * k, k + 0.5, !isBig);
          onRoot(
            runtime,
            () => Deno.writeFileSync(path, fileOf(header(isBig ? ">f4" : "<f4", order, "(2, 3)"), bytes, version)),
          );
          for (const distribution of distributions(runtime.size, [2, 3])) {
            const a = loadNpy(runtime, path, distribution);
            assertEquals([[...a.shape], a.dtype, a.order], [[2, 3], "float32", order]);
            assert(a.distribution.equals(distribution));
            assertEquals([...a.allGather()], [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]);
            const other = loadNpy(runtime, path, distribution, { order: order === "C" ? "F" : "C", dtype: "float64" });
            const turned = order === "C" ? [0.5, 3.5, 1.5, 4.5, 2.5, 5.5] : [0.5, 2.5, 4.5, 1.5, 3.5, 5.5];
            assertEquals([other.dtype, ...other.allGather()], ["float64", ...turned]);
          }
          runtime.communicator.barrier();
        }
      }
    }
  });
});

clusterTest("a single number and a vector", (runtime) => {
  inFolder(runtime, (folder) => {
    const number = new Uint8Array(Float64Array.of(2.5).buffer);
    onRoot(runtime, () => Deno.writeFileSync(`${folder}/scalar.npy`, fileOf(header("<f8", "C", "()"), number)));
    const scalar = loadNpy(runtime, `${folder}/scalar.npy`, Slab.X);
    assertEquals([[...scalar.shape], ...scalar.allGather()], [[1], 2.5]);
    const vector = DistributedArray.generate(runtime, [10], Slab.X, (i) => i, { dtype: "int32" });
    saveNpy(vector, `${folder}/vector.npy`);
    assertEquals([...loadNpy(runtime, `${folder}/vector.npy`, Slab.X).allGather()], [...Array(10).keys()]);
  });
});

clusterTest("saved and loaded: every dtype, order and distribution, small and long runs", (runtime) => {
  inFolder(runtime, (folder) => {
    const path = `${folder}/round.npy`;
    for (const [i, dtype] of dtypes.entries()) {
      for (const shape of [[7, 5], [3, 4, 2], [6, 900]]) {
        const list = distributions(runtime.size, shape);
        const order = i % 2 === 0 ? "C" : "F";
        const [from, to] = [list[i % list.length], list[(i + 1) % list.length]];
        const a = DistributedArray.random(runtime, shape, from, { dtype, order, seed: i });
        saveNpy(a, path);
        const options = dtypeInfo(dtype).npy === null ? { dtype } : {};
        const b = loadNpy(runtime, path, to, options);
        assertEquals([b.dtype, b.order, ...b.shape], [dtype, order, ...shape]);
        assertEquals(b.allGather(), a.allGather());
        runtime.communicator.barrier();
      }
    }
    assertEquals([...Deno.readDirSync(folder)].map((entry) => entry.name), ["round.npy"]);
  });
});

clusterTest("views, slices and padded parts are saved as they look", (runtime) => {
  inFolder(runtime, (folder) => {
    const a = DistributedArray.generate(runtime, [8, 9], Slab.X, (i, j) => 10 * i + j);
    saveNpy(a.transpose(), `${folder}/t.npy`);
    const t = loadNpy(runtime, `${folder}/t.npy`, Slab.X);
    assertEquals([t.order, ...t.shape, t.maxAbsDifference(a.transpose())], ["F", 9, 8, 0]);
    const part = a.slice([[1, 7], [2, 5]]);
    saveNpy(part, new URL(`file://${folder}/part%201.npy`));
    assertEquals(loadNpy(runtime, `${folder}/part 1.npy`, Slab.Y).maxAbsDifference(part), 0);
  });
});

clusterTest("an existing file is replaced, also behind a symbolic link", (runtime) => {
  inFolder(runtime, (folder) => {
    const save = (value: number, name: string) =>
      saveNpy(DistributedArray.full(runtime, [4, 4], Slab.X, value), `${folder}/${name}`);
    save(1, "a.npy");
    onRoot(runtime, () => Deno.symlinkSync(`${folder}/a.npy`, `${folder}/link.npy`));
    save(2, "link.npy");
    assert(Deno.lstatSync(`${folder}/link.npy`).isSymlink);
    assertEquals(loadNpy(runtime, `${folder}/a.npy`, Slab.X).sum(), 32);
    // A link to a link to a file that is still to be made, relative to the link's own folder.
    onRoot(runtime, () => {
      Deno.mkdirSync(`${folder}/links`);
      Deno.symlinkSync("../new.npy", `${folder}/links/second.npy`);
      Deno.symlinkSync("links/second.npy", `${folder}/first.npy`);
    });
    save(3, "first.npy");
    for (const link of ["first.npy", "links/second.npy"]) assert(Deno.lstatSync(`${folder}/${link}`).isSymlink);
    assert(Deno.lstatSync(`${folder}/new.npy`).isFile);
    assertEquals(loadNpy(runtime, `${folder}/first.npy`, Slab.X).sum(), 48);
    onRoot(runtime, () => Deno.symlinkSync("loop.npy", `${folder}/loop.npy`));
    assertThrowsEverywhere(runtime, () => save(4, "loop.npy"), ConfigurationError, `${folder}/loop.npy: `);
  });
});

clusterTest("a file that is replaced keeps its permissions", (runtime) => {
  inFolder(runtime, (folder) => {
    const path = `${folder}/private.npy`;
    const a = DistributedArray.full(runtime, [4, 4], Slab.X, 1);
    saveNpy(a, path);
    for (const mode of [0o600, 0o664]) {
      onRoot(runtime, () => Deno.chmodSync(path, mode));
      saveNpy(a, path);
      saveNpz({ a }, path);
      onRoot(runtime, () => assertEquals(Deno.statSync(path).mode! & 0o777, mode));
    }
  });
});

clusterTest("NumPy reads what is saved", { ignore: !hasNumpy && "no NumPy" }, (runtime) => {
  inFolder(runtime, (folder) => {
    const wanted: string[] = [];
    for (const dtype of dtypes.filter((name) => dtypeInfo(name).npy !== null)) {
      for (const order of ["C", "F"] as const) {
        const { isComplex } = dtypeInfo(dtype);
        const a = DistributedArray.generate(
          runtime,
          [5, 6],
          order === "C" ? Slab.Y : Slab.X,
          (i, j) => isComplex ? [i + 1, -j] : dtype === "int64" ? BigInt(10 * i + j) : 10 * i + j,
          { dtype, order },
        );
        saveNpy(a, `${folder}/${dtype}-${order}.npy`);
        wanted.push(`${dtype}-${order}.npy ${dtype} (5, 6) ${order === "F" ? "True" : "False"} True`);
      }
    }
    onRoot(runtime, () => {
      const code = "import numpy as np, os, sys\n" +
        "for name in os.listdir(sys.argv[1]):\n" +
        "  a = np.load(f'{sys.argv[1]}/{name}')\n" +
        "  i, j = np.indices((5, 6))\n" +
        "  w = i + 1 - 1j * j if a.dtype.kind == 'c' else 10 * i + j\n" +
        "  print(name, a.dtype.name, a.shape, a.flags.f_contiguous, bool((a == w).all()))\n";
      assertEquals(python(code, folder).trim().split("\n").sort(), wanted.sort());
    });
  });
});

clusterTest("what NumPy saves is read", { ignore: !hasNumpy && "no NumPy" }, (runtime) => {
  inFolder(runtime, (folder) => {
    const names = ["<f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c8", "<c16", "|i1", "|u1", "<i4", ">i4", "<i8", ">i8"];
    onRoot(runtime, () => {
      const code = "import numpy as np, sys\n" +
        "for n in sys.argv[2:]:\n" +
        "  for o in 'CF':\n" +
        "    a = (np.arange(4 * 700).reshape(4, 700) % 100).astype(n)\n" +
        "    if a.dtype.kind == 'c': a -= 1j * a\n" +
        '    np.save(f\'{sys.argv[1]}/{n[1:]}{"b" if n[0] == ">" else ""}{o}.npy\', np.asarray(a, order=o))\n' +
        "  with open(f'{sys.argv[1]}/{n[1:]}v3.npy', 'wb') as f: np.lib.format.write_array(f, a, version=(3, 0))\n";
      python(code, folder, ...names);
    });
    for (const [k, name] of names.entries()) {
      for (const order of ["C", "F"] as const) {
        const path = `${folder}/${name.slice(1)}${name[0] === ">" ? "b" : ""}${order}.npy`;
        const list = distributions(runtime.size, [4, 700]);
        const a = loadNpy(runtime, path, list[k % list.length]);
        const { isComplex } = dtypeInfo(a.dtype);
        const value = (i: number, j: number) => (700 * i + j) % 100;
        const wanted = DistributedArray.generate(
          runtime,
          [4, 700],
          Slab.X,
          (i, j) => isComplex ? [value(i, j), -value(i, j)] : a.dtype === "int64" ? BigInt(value(i, j)) : value(i, j),
          { dtype: a.dtype },
        );
        assertEquals([a.order, a.maxAbsDifference(wanted)], [order, 0], path);
      }
    }
    for (const name of ["f4", "c16"]) assertEquals(loadNpy(runtime, `${folder}/${name}v3.npy`, Slab.X).shape, [4, 700]);
  });
});

// ---- misuse ---------------------------------------------------------------------------------------------------------

const eight = new Uint8Array(64);
const broken: [name: string, bytes: Uint8Array, errorClass: new (m: string) => Error, message: string][] = [
  ["an empty file", new Uint8Array(0), ConfigurationError, "has only 0 bytes"],
  ["no numpy file", new TextEncoder().encode("1 2 3\n4 5 6\n"), ConfigurationError, "does not begin with \\x93NUMPY"],
  ["an unknown version", fileOf(header("<f8", "C", "(8,)"), eight, 9), ConfigurationError, "version is 9.0"],
  ["a cut header", fileOf(header("<f8", "C", "(8,)"), eight).subarray(0, 30), ConfigurationError, "only 30 are there"],
  ["a broken dictionary", fileOf("{'descr': '<f8', 'fortran_order'", eight), ConfigurationError, 'lacks a ":"'],
  ["a missing key", fileOf("{'descr': '<f8', 'shape': (8,)}", eight), ConfigurationError, "must have the keys"],
  [
    "too few bytes",
    fileOf(header("<f8", "C", "(3, 3)"), eight),
    ConfigurationError,
    "too short: for shape [3,3] of float64",
  ],
  ["strings", fileOf(header("<U2", "C", "(8,)"), eight), DTypeError, '"<U2"; distmath reads f2'],
  ["objects", fileOf(header("|O", "C", "(8,)"), eight), DTypeError, '"|O"'],
  ["raw bits without a dtype", fileOf(header("|V2", "C", "(8,)"), eight), DTypeError, 'pass { dtype: "bfloat16" }'],
  [
    "an absurd shape",
    fileOf(header("<f8", "C", "(99999999999, 99999999)"), eight),
    ShapeError,
    "more than 2^53",
  ],
];

for (const [name, bytes, errorClass, message] of broken) {
  clusterTest(`loadNpy refuses ${name}, on every rank`, (runtime) => {
    inFolder(runtime, (folder) => {
      onRoot(runtime, () => Deno.writeFileSync(`${folder}/x.npy`, bytes));
      const load = () => loadNpy(runtime, `${folder}/x.npy`, Slab.X);
      const error = assertThrowsEverywhere(runtime, load, errorClass, message);
      assert(error.message.startsWith(`${folder}/x.npy: `), error.message);
    });
  });
}

clusterTest("loadNpy refuses what cannot be opened, distributed or converted", (runtime) => {
  inFolder(runtime, (folder) => {
    const throws = assertThrowsEverywhere;
    const path = `${folder}/a.npy`;
    throws(runtime, () => loadNpy(runtime, path, Slab.X), ConfigurationError, "no such file");
    throws(runtime, () => loadNpy(runtime, path, Slab.X), ConfigurationError, "check the path");
    throws(runtime, () => loadNpy(runtime, folder, Slab.X), ConfigurationError, "");
    throws(
      runtime,
      () => loadNpy(runtime, null as never, Slab.X),
      TypeError,
      "The path must be a string or a URL, not null",
    );
    throws(runtime, () => loadNpy(null as never, path, Slab.X), TypeError, "the runtime must be what initialize()");
    throws(runtime, () => loadNpy(runtime, path, Slab.X, null as never), TypeError, "must be an object; got null");
    throws(runtime, () => loadNpy(runtime, path, Slab.X, { type: "int8" } as never), TypeError, '"dtype"?');
    saveNpy(DistributedArray.zeros(runtime, [4, 4], Slab.X, { dtype: "complex64" }), path);
    throws(runtime, () => loadNpy(runtime, path, Slab.Z), DistributionError, "Slab.Z");
    throws(
      runtime,
      () => loadNpy(runtime, path, Slab.X.bind([9, 4], runtime.size)),
      DistributionError,
      "to shape [9, 4]",
    );
    throws(runtime, () => loadNpy(runtime, path, Slab.X, { dtype: "float32" }), DTypeError, "imaginary parts");
    throws(runtime, () => loadNpy(runtime, path, Slab.X, { order: "K" as Order }), TypeError, '"C" or "F"');
    throws(runtime, () => loadNpy(runtime, path, Slab.X, { dtype: "f4" as DType }), DTypeError, 'no dtype "f4"');
    throws(runtime, () => loadNpy(runtime, path, "Slab.X" as never), TypeError, "must be one such as Slab.X");
  });
});

clusterTest("a file that one rank cannot see is an error on all", { ranks: [2, 3, 4] }, (runtime) => {
  inFolder(runtime, (folder) => {
    const path = runtime.rank === 1 ? `${folder}/missing.npy` : `${folder}/there.npy`;
    saveNpy(DistributedArray.zeros(runtime, [4, 4], Slab.X), `${folder}/there.npy`);
    const error = assertThrowsEverywhere(
      runtime,
      () => loadNpy(runtime, path, Slab.X),
      ConfigurationError,
      "no such file",
    );
    assertEquals(error.ranks, [1]);
    const a = DistributedArray.zeros(runtime, [4, 4], Slab.X);
    const save = () => saveNpy(a, path);
    assertThrowsEverywhere(runtime, save, CollectiveError, "path");
  });
});

clusterTest("an output that cannot be written leaves nothing behind", (runtime) => {
  inFolder(runtime, (folder) => {
    const a = DistributedArray.zeros(runtime, [4, 4], Slab.X);
    const throws = assertThrowsEverywhere;
    throws(runtime, () => saveNpy(a, `${folder}/missing/a.npy`), ConfigurationError, "no such file or folder");
    throws(runtime, () => saveNpy(a, folder), ConfigurationError, "no plain file");
    throws(runtime, () => saveNpy(a, "/dev/null"), ConfigurationError, "no plain file");
    assertEquals([...Deno.readDirSync(folder)], []);
    throws(runtime, () => saveNpy(a, null as never), TypeError, "The path must be a string or a URL, not null");
    const onOne = runtime.rank === runtime.size - 1 ? null as never : a;
    throws(
      runtime,
      () => saveNpy(onOne, `${folder}/a.npy`),
      TypeError,
      "saveNpy: the array must be a DistributedArray",
    );
    throws(runtime, () => saveNpy(null as never, `${folder}/a.npy`), TypeError, "not null");
    a.free();
    throws(runtime, () => saveNpy(a, `${folder}/a.npy`), StateError, "was freed");
    assertEquals([...Deno.readDirSync(folder)], []);
  });
});

clusterTest("a rank that fails while it writes: the same error everywhere, the old file unharmed", (runtime) => {
  inFolder(runtime, (folder) => {
    const path = `${folder}/a.npy`;
    saveNpy(DistributedArray.full(runtime, [64, 64], Slab.X, 1), path);
    const next = DistributedArray.full(runtime, [64, 64], Slab.X, 2);
    const failing = runtime.size - 1;
    const write = Deno.FsFile.prototype.writeSync;
    let calls = 0;
    if (runtime.rank === failing) {
      // The disk is full once this rank writes its part; with one rank the first call wrote the header.
      Deno.FsFile.prototype.writeSync = function (data) {
        if (runtime.size === 1 && calls++ === 0) return write.call(this, data);
        throw new Error("No space left on device (os error 28)");
      };
    }
    try {
      const error = assertThrowsEverywhere(
        runtime,
        () => saveNpy(next, path),
        ConfigurationError,
        "No space left on device",
      );
      assertEquals(error.ranks, [failing]);
      assert(error.message.startsWith(`${path}: `) && !error.message.includes("\n"), error.message);
      assert(error.message.includes("free space"), error.message);
    } finally {
      Deno.FsFile.prototype.writeSync = write;
    }
    assertEquals([...Deno.readDirSync(folder)].map((entry) => entry.name), ["a.npy"]);
    assertEquals(loadNpy(runtime, path, Slab.Y).sum(), 4096);
  });
});

/** Save, and return what else lies in the folder while rank 0 writes. */
function namesWhileSaving(runtime: Runtime, folder: string): string[] {
  const write = Deno.FsFile.prototype.writeSync;
  const seen = new Set<string>();
  const names = () => Array.from(Deno.readDirSync(folder), ({ name }) => name).sort();
  const before = runtime.communicator.broadcastObject(names());
  Deno.FsFile.prototype.writeSync = function (data) {
    for (const name of names()) seen.add(name);
    return write.call(this, data);
  };
  try {
    saveNpy(DistributedArray.full(runtime, [8, 8], Slab.X, 1), `${folder}/a.npy`);
  } finally {
    Deno.FsFile.prototype.writeSync = write;
  }
  return runtime.communicator.broadcastObject([...seen].filter((name) => !before.includes(name)));
}

clusterTest(
  "a file has no name before it is complete, and goes with its writers where it has to have one",
  (runtime) => {
    inFolder(runtime, (folder) => {
      assertEquals(namesWhileSaving(runtime, folder), []);
      assertEquals(namesWhileSaving(runtime, folder), []);
      // Left by a writer that was killed; of one that is at work; of other files.
      const [abandoned, own, ...others] = ["a.npy.0123abcd", "a.npy.89abcdef", "b.npy.0123abcd", "a.npy.backup"];
      onRoot(
        runtime,
        () => [abandoned, own, ...others].forEach((name) => Deno.writeTextFileSync(`${folder}/${name}.part`, "")),
      );
      using stack = new DisposableStack();
      onRoot(runtime, () => stack.use(Deno.openSync(`${folder}/${own}.part`, { write: true })).lockSync(true));
      // A rank on another machine sees nothing of this one's processes.
      const { statSync } = Deno;
      if (runtime.rank === runtime.size - 1) {
        Deno.statSync = (path) => statSync(String(path).startsWith("/proc/") ? "/no such file" : path);
      }
      try {
        const [name, ...more] = namesWhileSaving(runtime, folder);
        assert(/^a\.npy\.[0-9a-f]{8}\.part$/.test(name), name);
        assertEquals(more, []);
      } finally {
        Deno.statSync = statSync;
      }
      runtime.communicator.barrier();
      const left = Array.from(Deno.readDirSync(folder), ({ name }) => name).sort();
      assertEquals(left, ["a.npy", ...[own, ...others].map((name) => `${name}.part`)].sort());
      assertEquals(loadNpy(runtime, `${folder}/a.npy`, Slab.Y).sum(), 64);
    });
  },
);

const ROOMS = { a: Slab.X, "b c": Slab.Y, ü: Replicated } as const;

clusterTest("saveNpz() writes what loadNpz() and numpy.load read", (runtime) => {
  inFolder(runtime, (folder) => {
    const path = `${folder}/all.npz`;
    const arrays = {
      a: DistributedArray.random(runtime, [9, 7], Slab.Y, { seed: 1 }),
      "b c": DistributedArray.generate(runtime, [5, 4], Slab.X, (i, j) => 10 * i + j, { dtype: "int32", order: "F" }),
      ü: DistributedArray.random(runtime, [600, 3], Slab.X, { dtype: "complex64" }),
      empty: DistributedArray.zeros(runtime, [0, 3], Slab.X),
    };
    saveNpz(arrays, path);
    const read = loadNpz(runtime, path, ROOMS);
    assertEquals(Object.keys(read), Object.keys(ROOMS));
    for (const [name, array] of Object.entries(read)) {
      const [original, distribution] = [arrays[name as "a"], ROOMS[name as "a"]];
      assertEquals([array.dtype, String(array.distribution)], [original.dtype, String(distribution)], name);
      assertEquals(array.maxAbsDifference(original.redistribute(distribution)), 0, name);
    }
    const all = loadNpz(runtime, path, Slab.X, { dtype: "complex128" });
    assertEquals(Object.entries(all).map(([name, { dtype, shape }]) => [name, dtype, ...shape]), [
      ["a", "complex128", 9, 7],
      ["b c", "complex128", 5, 4],
      ["ü", "complex128", 600, 3],
      ["empty", "complex128", 0, 3],
    ]);
    assertEquals(
      saveNpzText(runtime, folder, path),
      runtime.rank === 0 && hasNumpy ? "None [0, 1, 2, 3] 43 True" : null,
    );
    const misuse = <E extends Error>(
      call: () => unknown,
      // deno-lint-ignore no-explicit-any
      type: new (...values: any[]) => E,
      text: string,
    ) => assertThrowsEverywhere(runtime, call, type, text);
    misuse(
      () => loadNpz(runtime, path, { d: Slab.X }),
      ConfigurationError,
      'has no array "d"; it has: a, b c, ü, empty',
    );
    misuse(() => loadNpz(runtime, path, { a: 3 } as never), TypeError, "distribution");
    misuse(() => loadNpz(runtime, path, 3 as never), TypeError, "distribution");
    misuse(() => saveNpz({}, path), TypeError, "");
    const unreadable = new Proxy(arrays, {
      ownKeys: () => {
        throw new TypeError("no names to be had");
      },
    });
    misuse(() => saveNpz(runtime.rank === 0 ? unreadable : arrays, path), TypeError, "no names to be had");
    misuse(() => saveNpz({ "": arrays.a }, path), TypeError, "a name that is not empty");
    misuse(
      () => saveNpz({ ["n".repeat(65532)]: arrays.a }, path),
      TypeError,
      "65532 bytes is too long; ZIP files take at most 65531",
    );
    for (const name of ["a\0b", "\ud800"]) {
      misuse(() => saveNpz({ [name]: arrays.a }, path), TypeError, "half a character");
    }
    onRoot(runtime, () => {
      const bytes = Deno.readFileSync(path);
      Deno.writeFileSync(`${folder}/cut.npz`, bytes.subarray(0, bytes.length - 100));
      Deno.writeFileSync(`${folder}/none.npz`, bytes.subarray(0, 1000));
    });
    misuse(() => loadNpz(runtime, `${folder}/none.npz`, Slab.X), ConfigurationError, "no directory at its end");
    misuse(() => loadNpz(runtime, `${folder}/cut.npz`, Slab.X), ConfigurationError, "no directory at its end");
  });
});

clusterTest("loadNpz() tells names apart that begin with U+FEFF", (runtime) => {
  inFolder(runtime, (folder) => {
    const path = `${folder}/marks.npz`;
    const names = ["\ufeffa", "a", "\ufeff", "b\ufeff"];
    saveNpz(
      Object.fromEntries(names.map((name, k) => [name, DistributedArray.full(runtime, [2], Slab.X, k + 1)])),
      path,
    );
    const read = loadNpz(runtime, path, Slab.X);
    assertEquals(
      Object.entries(read).map(([name, array]) => [name, array.sum()]),
      names.map((name, k) => [name, 2 * k + 2]),
    );
    assertEquals(Object.keys(loadNpz(runtime, path, { "\ufeffa": Slab.X })), ["\ufeffa"]);
  });
});

/** What Python finds in an archive; null on other ranks, or without NumPy. */
function saveNpzText(runtime: Runtime, folder: string, path: string): string | null {
  if (runtime.rank !== 0 || !hasNumpy) return null;
  const code = `import zipfile, numpy as np
z = np.load("${path}")
b = z["b c"]
print(zipfile.ZipFile("${path}").testzip(), b[0].tolist(), b[4, 3], b.flags.f_contiguous)
np.savez("${folder}/stored.npz", x=np.arange(12.0).reshape(3, 4), y=np.array(7, dtype=">i4"))
np.savez_compressed("${folder}/packed.npz", x=np.arange(12.0).reshape(3, 4).T)`;
  const { stdout, stderr, success } = new Deno.Command("python3", { args: ["-c", code] }).outputSync();
  assert(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

clusterTest(
  "loadNpz() reads stored and compressed archives of NumPy's",
  { ignore: !hasNumpy && "no NumPy" },
  (runtime) => {
    inFolder(runtime, (folder) => {
      const empty = `${folder}/a.npz`;
      saveNpz({ "b c": DistributedArray.zeros(runtime, [5, 4], Slab.X) }, empty);
      onRoot(runtime, () => void saveNpzText(runtime, folder, empty));
      const { x, y } = loadNpz(runtime, `${folder}/stored.npz`, Slab.X);
      assertEquals([x.shape, y.shape, y.dtype, y.sum()], [[3, 4], [1], "int32", 7]);
      const packed = loadNpz(runtime, `${folder}/packed.npz`, { x: Slab.Y }).x;
      assertEquals([packed.shape, packed.order], [[4, 3], "F"]);
      const counted = DistributedArray.generate(runtime, [4, 3], Slab.Y, (i, j) => 4 * j + i);
      assertEquals(packed.maxAbsDifference(counted), 0);
      const assertDamaged = (damage: (bytes: Uint8Array<ArrayBuffer>) => void, words: string) => {
        const damaged = `${folder}/damaged.npz`;
        onRoot(runtime, () => {
          const bytes = Deno.readFileSync(`${folder}/packed.npz`);
          damage(bytes);
          Deno.writeFileSync(damaged, bytes);
        });
        assertThrowsEverywhere(runtime, () => loadNpz(runtime, damaged, Slab.X), ConfigurationError, words);
      };
      assertDamaged((bytes) => bytes.fill(255, 45, 60), "cannot be unpacked");
      // The checksum in the directory.
      assertDamaged((bytes) => {
        const start = bytes.findLastIndex((_, i) =>
          new TextDecoder().decode(bytes.subarray(i, i + 4)) === "PK\x01\x02"
        );
        bytes[start + 16] ^= 1;
      }, "is damaged: its checksum is another one");
    });
  },
);
