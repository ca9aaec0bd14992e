/** The tasks on a machine that has its native libraries but reaches no registry, as a compute node: nothing is fetched. */
import { assertEquals, assertMatch } from "@std/assert";
import { finish, start, temporaryFolder } from "./command.ts";

/** How to enter a network namespace of one's own, as root or as a user; null where neither is allowed. */
function namespace(): readonly string[] | null {
  const ways = [["--net"], ["--map-root-user", "--net"]];
  const works = (args: readonly string[]) => {
    try {
      return new Deno.Command("unshare", { args: [...args, "true"], stdout: "null", stderr: "null" }).outputSync()
        .success;
    } catch {
      return false;
    }
  };
  return ways.find(works) ?? null;
}

/** SIOCSIFFLAGS with IFF_UP: launchers talk to their ranks over the loopback interface, which every machine has. */
const loopback = `import fcntl, os, socket, struct, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))
os.execvp(sys.argv[1], sys.argv[1:])`;

const entrance = namespace();

/** Run a task without a route to anywhere, with an empty cache of Deno's. */
async function offline(task: string, args: readonly string[]) {
  using cache = temporaryFolder();
  const command = [...entrance!, "python3", "-c", loopback, Deno.execPath(), "task", task, ...args];
  return await finish(start("unshare", command, { env: { DENO_DIR: cache.path } }));
}

const suffix = entrance ? "" : " (skipped: no network namespace can be made here)";

for (
  const [task, args, expected] of [
    ["doctor", [], /matmul\s+works/],
    ["run", ["-n", "2", "examples/slab.ts"], /Slab\.X/],
    ["demo", ["--shape", "8,12,16"], /max error/],
    ["native", ["list"], /openmpi/],
    ["cluster-test", ["--ranks", "2", "tests/system/fixtures/passing_test.ts"], /1 passed, 0 failed/],
  ] as const
) {
  Deno.test({
    name: `without a network and with an empty cache, task ${task} starts${suffix}`,
    ignore: entrance === null,
    fn: async () => {
      const { code, stdout, stderr } = await offline(task, args);
      assertEquals(code, 0, stdout + stderr);
      assertMatch(stdout, expected);
      assertEquals(/Download/.test(stderr), false, stderr);
    },
  });
}

/** A 4 x 4 matrix of ones of float64 as NumPy saves it. */
function npyOfOnes(): Uint8Array {
  const header = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 4), }".padEnd(117) + "\n";
  const preamble = Uint8Array.of(0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, header.length, 0);
  return new Uint8Array([
    ...preamble,
    ...new TextEncoder().encode(header),
    ...new Uint8Array(new Float64Array(16).fill(1).buffer),
  ]);
}

Deno.test({
  name: `without a network and with an empty cache, task matmul multiplies files${suffix}`,
  ignore: entrance === null,
  fn: async () => {
    using folder = temporaryFolder();
    const [a, d] = ["a.npy", "d.npy"].map((name) => `${folder.path}/${name}`);
    Deno.writeFileSync(a, npyOfOnes());
    const { code, stdout, stderr } = await offline("matmul", [a, a, "--out", d, "--ranks", "2"]);
    assertEquals(code, 0, stdout + stderr);
    const elements = new Float64Array(Deno.readFileSync(d).slice(-16 * 8).buffer);
    assertEquals([...elements], Array(16).fill(4));
  },
});
