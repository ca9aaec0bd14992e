/** `matmul`: NumPy's files in and out, against plain loops; and everything that it refuses. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { mpiInstallations } from "../mpi_installations.ts";
import { main, temporaryFolder } from "./command.ts";

type Code = "f2" | "f4" | "f8" | "c8" | "c16";

const arrays = { f2: Float16Array, f4: Float32Array, f8: Float64Array, c8: Float32Array, c16: Float64Array };

interface Matrix {
  rows: number;
  columns: number;
  code: Code;
  /** Row by row; complex numbers as two. */
  values: number[];
}

const partsOf = (code: Code) => code.startsWith("c") ? 2 : 1;

/** Small integers, so that products are exact in every dtype. */
function matrix(rows: number, columns: number, code: Code): Matrix {
  const values = Array.from({ length: rows * columns * partsOf(code) }, (_, index) => (index * 7) % 5 - 2);
  return { rows, columns, code, values };
}

/** Values in the order of the file. */
function inOrder({ rows, columns, code, values }: Matrix, isFortran: boolean): number[] {
  if (!isFortran) return values;
  const parts = partsOf(code);
  const turned: number[] = [];
  for (let j = 0; j < columns; j++) {
    for (let i = 0; i < rows; i++) {
      turned.push(...values.slice((i * columns + j) * parts, (i * columns + j + 1) * parts));
    }
  }
  return turned;
}

interface Layout {
  version?: 1 | 2 | 3;
  isFortran?: boolean;
  isBigEndian?: boolean;
}

/** A file as NumPy writes it. */
function encode(array: Matrix, { version = 1, isFortran = false, isBigEndian = false }: Layout = {}): Uint8Array {
  const { rows, columns, code } = array;
  const descr = `${isBigEndian ? ">" : "<"}${code}`;
  const order = isFortran ? "True" : "False";
  const dictionary = `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': (${rows}, ${columns}), }`;
  const start = version === 1 ? 10 : 12;
  const text = dictionary.padEnd(Math.ceil((start + dictionary.length + 1) / 64) * 64 - start - 1) + "\n";
  const length = version === 1 ? [text.length & 255, text.length >> 8] : [text.length & 255, text.length >> 8, 0, 0];
  const body = new Uint8Array((arrays[code] ?? Uint8Array).from(inOrder(array, isFortran)).buffer);
  if (isBigEndian) {
    const width = arrays[code].BYTES_PER_ELEMENT;
    for (let at = 0; at < body.length; at += width) body.subarray(at, at + width).reverse();
  }
  const magic = [0x93, ...new TextEncoder().encode("NUMPY"), version, 0, ...length];
  return new Uint8Array([...magic, ...new TextEncoder().encode(text), ...body]);
}

function decode(bytes: Uint8Array): { header: string; matrix: Matrix } {
  const start = bytes[6] === 1 ? 10 : 12;
  const end = start + new DataView(bytes.buffer).getUint16(8, true);
  const header = new TextDecoder().decode(bytes.subarray(start, end));
  const [, code, isFortran, rows, columns] =
    /'descr': '<(\w+)', 'fortran_order': (True|False), 'shape': \((\d+), (\d+)\)/.exec(header)!;
  const stored = Array.from(new arrays[code as Code](bytes.slice(end).buffer));
  const file: Matrix = { rows: Number(rows), columns: Number(columns), code: code as Code, values: stored };
  if (isFortran === "False") return { header, matrix: file };
  const turned = inOrder({ ...file, rows: file.columns, columns: file.rows }, true);
  return { header, matrix: { ...file, values: turned } };
}

function at(array: Matrix, i: number, j: number): [number, number] {
  const parts = partsOf(array.code);
  const place = (i * array.columns + j) * parts;
  return [array.values[place], parts === 2 ? array.values[place + 1] : 0];
}

/** The product by plain loops. */
function multiply(a: Matrix, b: Matrix, isT: { a?: boolean; b?: boolean }, alpha: number): number[] {
  const [m, k] = isT.a ? [a.columns, a.rows] : [a.rows, a.columns];
  const n = isT.b ? b.rows : b.columns;
  const values: number[] = [];
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let [re, im] = [0, 0];
      for (let p = 0; p < k; p++) {
        const [x, y] = isT.a ? at(a, p, i) : at(a, i, p);
        const [u, v] = isT.b ? at(b, j, p) : at(b, p, j);
        re += x * u - y * v;
        im += x * v + y * u;
      }
      values.push(alpha * re, ...partsOf(a.code) === 2 ? [alpha * im] : []);
    }
  }
  return values;
}

Deno.test("matmul multiplies every dtype, order, byte order and format version", async () => {
  const cases: {
    code: Code;
    a?: Layout;
    b?: Layout;
    args?: string[];
    isT?: { a?: boolean; b?: boolean };
    alpha?: number;
  }[] = [
    { code: "f4" },
    { code: "f8", a: { isFortran: true }, args: ["--ranks", "3"] },
    { code: "f2", b: { isFortran: true, version: 2 }, args: ["--distribution", "slab-y", "--order", "f"] },
    { code: "c8", a: { version: 3 }, isT: { a: true }, args: ["--ranks", "4"] },
    { code: "c16", isT: { b: true }, args: ["--distribution", "block-cyclic:3x2", "--ranks", "4"] },
    { code: "f8", a: { isBigEndian: true }, isT: { a: true, b: true }, alpha: -2.5, args: ["--ranks", "1"] },
    { code: "f4", b: { isBigEndian: true, isFortran: true }, alpha: 3, args: ["--distribution", "block-cyclic:1x64"] },
  ];
  for (const { code, a: layoutA, b: layoutB, args = [], isT = {}, alpha = 1 } of cases) {
    using folder = temporaryFolder();
    const a = isT.a ? matrix(13, 9, code) : matrix(9, 13, code);
    const b = isT.b ? matrix(11, 13, code) : matrix(13, 11, code);
    Deno.writeFileSync(`${folder.path}/a.npy`, encode(a, layoutA));
    Deno.writeFileSync(`${folder.path}/b.npy`, encode(b, layoutB));
    const flags = [...isT.a ? ["--transpose-a"] : [], ...isT.b ? ["--transpose-b"] : [], `--alpha=${alpha}`, ...args];
    const label = `${code} ${flags.join(" ")}`;
    const command = ["matmul", "a.npy", "b.npy", "--out", "d.npy", ...flags, "--json"];
    const { code: exit, stdout, stderr } = await main(command, { cwd: folder.path });
    assertEquals(exit, 0, `${label}\n${stderr}`);
    const report = JSON.parse(stdout);
    assertEquals(report.shape, [9, 11]);
    assert(report.seconds > 0 && report.gflops > 0 && typeof report.algorithm.algorithm === "string");
    const { header, matrix: product } = decode(Deno.readFileSync(`${folder.path}/d.npy`));
    assertEquals(header.includes(`'fortran_order': ${args.includes("f") ? "True" : "False"}`), true, label);
    assertEquals([product.rows, product.columns, product.code], [9, 11, code], label);
    assertEquals(product.values, multiply(a, b, isT, alpha), label);
    assertEquals([...Deno.readDirSync(folder.path)].length, 3);
  }
});

Deno.test("matmul of empty matrices writes what NumPy has: none, or zeros", async () => {
  using folder = temporaryFolder();
  const cases: [m: number, n: number, k: number, code: Code, args: string[]][] = [
    [0, 5, 6, "f4", []],
    [4, 0, 6, "c8", ["--distribution", "block-cyclic:3x2", "-n", "4"]],
    [4, 5, 0, "f8", ["--order", "f", "-n", "3"]],
    [4, 5, 0, "f2", ["--distribution", "slab-y"]],
    [3, 2, 0, "c16", ["-n", "1", "--transpose-a"]],
    [0, 0, 0, "f4", ["--transpose-a", "--transpose-b"]],
  ];
  for (const [m, n, k, code, args] of cases) {
    const [isTransposedA, isTransposedB] = ["--transpose-a", "--transpose-b"].map((flag) => args.includes(flag));
    Deno.writeFileSync(`${folder.path}/a.npy`, encode(isTransposedA ? matrix(k, m, code) : matrix(m, k, code)));
    Deno.writeFileSync(`${folder.path}/b.npy`, encode(isTransposedB ? matrix(n, k, code) : matrix(k, n, code)));
    const command = ["matmul", "a.npy", "b.npy", "--out", "d.npy", "--json", ...args];
    const { code: exit, stdout, stderr } = await main(command, { cwd: folder.path });
    assertEquals([exit, stderr], [0, ""], `${m} x ${n} x ${k}`);
    const { shape, gflops, algorithm } = JSON.parse(stdout);
    assertEquals([shape, gflops, algorithm.algorithm], [[m, n], 0, "none"]);
    const { matrix: product } = decode(Deno.readFileSync(`${folder.path}/d.npy`));
    assertEquals(product, { rows: m, columns: n, code, values: Array(m * n * partsOf(code)).fill(0) });
  }
});

Deno.test("matmul agrees with NumPy on files that NumPy wrote", async () => {
  using folder = temporaryFolder();
  const python = async (source: string) => {
    const args = ["-c", `import numpy as np\n${source}`];
    return await new Deno.Command("python3", { args, cwd: folder.path, stderr: "null" }).output().catch(() => null);
  };
  const made = await python(`
g = np.random.default_rng(0)
np.save("a.npy", g.standard_normal((70, 90)).astype("c8") + 1j)
np.save("b.npy", np.asfortranarray(g.standard_normal((90, 50)).astype("c8")))`);
  if (!made?.success) return; // no NumPy here
  const { code, stderr } = await main(["matmul", "a.npy", "b.npy", "--out", "d.npy", "-n", "3"], { cwd: folder.path });
  assertEquals(code, 0, stderr);
  const compared = await python(`
a, b, d = (np.load(n + ".npy") for n in "abd")
e = a.astype("c16") @ b.astype("c16")
assert d.dtype == np.complex64 and np.abs(d - e).max() < 1e-5 * np.abs(e).max()`);
  assert(compared?.success);
});

Deno.test("matmul refuses what does not fit: a line, exit code 2, nothing written", async () => {
  using folder = temporaryFolder();
  const write = (name: string, bytes: Uint8Array) => Deno.writeFileSync(`${folder.path}/${name}`, bytes);
  const good = encode(matrix(4, 6, "f4"));
  write("a.npy", good);
  write("b.npy", encode(matrix(6, 5, "f4")));
  write("double.npy", encode(matrix(6, 5, "f8")));
  write("short.npy", good.subarray(0, good.length - 1));
  write("cut.npy", good.subarray(0, 40));
  write("empty.npy", new Uint8Array(0));
  write("text.npy", new TextEncoder().encode("1, 2, 3, 4, 5, 6, 7, 8"));
  const patched = (from: string, to: string) => {
    const text = String.fromCharCode(...good).replace(from, to);
    return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  };
  write("integers.npy", patched("<f4", "<i4"));
  write("letter.npy", patched("<f4", "xf4"));
  write("escapes.npy", encode({ ...matrix(4, 6, "f4"), code: "\x1b[2J\u009b1m" as Code, values: [] }, { version: 3 }));
  write("cube.npy", patched("(4, 6), }   ", "(2, 2, 6), }"));
  write("broken.npy", patched("'shape'", "'shapf'"));
  write("version.npy", patched("NUMPY\x01", "NUMPY\x09"));
  write("none.npy", encode({ rows: 0, columns: 6, code: "f4", values: [] }));
  for (const [name, rows, columns] of [["tall.npy", 1e7, 1], ["wide.npy", 1, 1e7]] as const) {
    const header = encode({ rows, columns, code: "f2", values: [] });
    write(name, header);
    Deno.truncateSync(`${folder.path}/${name}`, header.length + 2e7);
  }
  write("old.npy", new TextEncoder().encode("an older output"));
  Deno.mkdirSync(`${folder.path}/folder`);
  // Standing in for /dev/null and its like, which a rename would replace.
  new Deno.Command("mkfifo", { args: [`${folder.path}/pipe`] }).outputSync();

  const cases: [args: string[], message: string][] = [
    [["a.npy"], "matmul takes two files"],
    [["a.npy", "b.npy", "b.npy"], "matmul takes two files"],
    [["a.npy", "nothing.npy"], `there is no file ${folder.path}/nothing.npy`],
    [["a.npy", "folder"], "folder is no file"],
    [["pipe", "b.npy"], "pipe is no file"],
    [["a.npy", "a.npy"], "the shapes do not fit: A is 4 x 6 and B is 4 x 6"],
    [["a.npy", "b.npy", "--transpose-a"], "the transpose of A is 6 x 4 and B is 6 x 5"],
    [["a.npy", "double.npy"], "must be of one dtype"],
    [["short.npy", "b.npy"], "short.npy is too short"],
    [["cut.npy", "b.npy"], "cut.npy"],
    [["empty.npy", "b.npy"], "empty.npy"],
    [["text.npy", "b.npy"], "numpy.save"],
    [["integers.npy", "b.npy"], "holds <i4; matmul takes float16"],
    [["letter.npy", "b.npy"], "holds xf4; matmul takes float16"],
    [["cube.npy", "b.npy"], "3 dimensions, and a matrix has 2"],
    [["broken.npy", "b.npy"], "broken.npy"],
    [["version.npy", "b.npy"], "version is 9.0"],
    [["escapes.npy", "b.npy"], 'its element type is "<\\u001b[2J\\u009b1m", and there is none of that name'],
    [["none.npy", "b.npy", "--transpose-a"], "the transpose of A is 6 x 0 and B is 6 x 5"],
    [["a.npy", "b.npy", "--distribution", "slab-z"], "--distribution takes"],
    [["a.npy", "b.npy", "--distribution", "block-cyclic:0x4"], "--distribution takes"],
    [["a.npy", "b.npy", "--distribution", "block-cyclic:1x99999999999999999999"], "--distribution takes"],
    [["a.npy", "b.npy", "--alpha", "two"], "--alpha takes a number"],
    [["a.npy", "b.npy", "--order", "k"], "--order takes c or f"],
    [["a.npy", "b.npy", "--ranks", "-3"], "--ranks takes a whole number"],
    [["a.npy", "b.npy", "--ranks", "4294967298"], "--ranks takes a number below 2^31"],
    [["a.npy", "b.npy", "--beta", "1"], "--beta"],
    [
      ["a.npy", "b.npy", "--out", "nowhere/d.npy"],
      `error: --out: ${folder.path}/nowhere/d.npy cannot be written: No such file or directory (os error 2); make the folder ` +
      `${folder.path}/nowhere, or name another file\n`,
    ],
    [
      ["a.npy", "b.npy", "--out", "a.npy/d.npy"],
      "a.npy/d.npy cannot be written: Not a directory (os error 20); name another file",
    ],
    [["tall.npy", "wide.npy"], "it takes 200 TB, and the disk has"],
    [["a.npy", "b.npy", "--out", "folder"], "is a folder"],
    [["a.npy", "b.npy", "--out", "pipe"], "pipe is no file"],
    [["a.npy", "b.npy", "--out", "b.npy"], "is an input as well"],
  ];
  const before = [...Deno.readDirSync(folder.path)].map(({ name }) => name).sort();
  for (const [args, message] of cases) {
    const { code, stdout, stderr } = await main(["matmul", "--out", "old.npy", ...args], { cwd: folder.path });
    assertEquals([code, stdout], [2, ""], `${args.join(" ")}: ${stderr}`);
    assertStringIncludes(stderr, message);
    assertEquals(stderr.trim().split("\n").length, 1, stderr);
  }
  assertEquals((await main(["matmul", "a.npy", "b.npy"], { cwd: folder.path })).stderr.includes("needs --out"), true);
  assertEquals([...Deno.readDirSync(folder.path)].map(({ name }) => name).sort(), before);
  assertEquals(Deno.readTextFileSync(`${folder.path}/old.npy`), "an older output");
});

Deno.test("matmul leaves nothing when the job fails, and takes paths relative to INIT_CWD", async () => {
  using folder = temporaryFolder();
  Deno.writeFileSync(`${folder.path}/a.npy`, encode(matrix(4, 4, "f4")));
  const command = ["matmul", "a.npy", "a.npy", "--out", "d.npy"];
  const env = { INIT_CWD: folder.path };
  const failed = await main([...command, "--timeout", "0.05"], { env });
  assertEquals(failed.code, 124);
  assertStringIncludes(failed.stderr, "nothing was written");
  assertEquals([...Deno.readDirSync(folder.path)].map(({ name }) => name), ["a.npy"]);
  const { mpirun } = mpiInstallations[0];
  const withoutMpi = { ...env, DISTMATH_MPI: "/nonexistent/libmpi.so" };
  const refused = await main([...command, "--mpirun", mpirun], { env: withoutMpi });
  assertEquals([refused.code, refused.stdout, refused.stderr.trim().split("\n").length], [1, "", 1], refused.stderr);
  assertStringIncludes(refused.stderr, "the multiplication failed: MPI was not found");
  assertEquals((await main(command, { env })).code, 0);
  assertEquals([...Deno.readDirSync(folder.path)].map(({ name }) => name).sort(), ["a.npy", "d.npy"]);
});

Deno.test("matmul ends in a line when its output folder vanishes, before or after the ranks write", async () => {
  using folder = temporaryFolder();
  Deno.writeFileSync(`${folder.path}/a.npy`, encode(matrix(4, 4, "f4")));
  const { mpirun } = mpiInstallations[0];
  const remove = `case "$*" in *matmul_rank*) rm -r "${folder.path}/out";; esac`;
  const launchers = {
    "nothing was written": `#!/bin/sh\n${remove}\nexec ${mpirun} "$@"\n`,
    "error: cannot write": `#!/bin/sh\n${mpirun} "$@"\ncode=$?\n${remove}\nexit $code\n`,
  };
  for (const [message, launcher] of Object.entries(launchers)) {
    Deno.mkdirSync(`${folder.path}/out`);
    Deno.writeTextFileSync(`${folder.path}/mpirun`, launcher, { mode: 0o755 });
    const command = ["matmul", "a.npy", "a.npy", "--out", "out/d.npy", "--mpirun", `${folder.path}/mpirun`];
    const { code, stdout, stderr } = await main(command, { cwd: folder.path });
    assertEquals([code, stdout, stderr.trim().split("\n").length], [1, "", 1], stderr);
    assertStringIncludes(stderr, message);
  }
});

Deno.test("matmul writes the file that a link points to", async () => {
  using folder = temporaryFolder();
  Deno.writeFileSync(`${folder.path}/a.npy`, encode(matrix(4, 4, "f4")));
  Deno.writeTextFileSync(`${folder.path}/d.npy`, "an older output");
  Deno.symlinkSync("d.npy", `${folder.path}/link.npy`);
  const command = ["matmul", "a.npy", "a.npy", "--out", "link.npy"];
  assertEquals((await main(command, { cwd: folder.path })).code, 0);
  assert(Deno.lstatSync(`${folder.path}/link.npy`).isSymlink);
  assertEquals(decode(Deno.readFileSync(`${folder.path}/d.npy`)).matrix.rows, 4);
  // One that is still to be made, by two links; and one that only its owner reads.
  Deno.mkdirSync(`${folder.path}/there`);
  Deno.symlinkSync("there/second.npy", `${folder.path}/first.npy`);
  Deno.symlinkSync("../new.npy", `${folder.path}/there/second.npy`);
  for (const mode of [null, 0o600]) {
    if (mode !== null) Deno.chmodSync(`${folder.path}/new.npy`, mode);
    const { code, stderr } = await main(command.with(-1, "first.npy"), { cwd: folder.path });
    assertEquals(code, 0, stderr);
    for (const link of ["first.npy", "there/second.npy"]) assert(Deno.lstatSync(`${folder.path}/${link}`).isSymlink);
    const found = Deno.lstatSync(`${folder.path}/new.npy`);
    assertEquals([found.isFile, mode === null || (found.mode! & 0o777) === mode], [true, true]);
  }
});
