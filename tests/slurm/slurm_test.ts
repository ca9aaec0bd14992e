/** Jobs under Slurm itself: two hosts with two ranks each, started by srun, by run, by sbatch; and how they end. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { launchers, libraryFile, type MpiInstallation, newestLaunchers } from "../mpi_installations.ts";
import { root } from "../system/command.ts";
import { type Cluster, makeCluster, whyNoCluster } from "./cluster.ts";

const run = `${Deno.execPath()} run -A ${root}scripts/main.ts run`;
const rank = `${Deno.execPath()} run -A`;

const pluginOf = ({ family }: MpiInstallation) => family === "open_mpi" ? "pmix" : "pmi2";

/** What has ranks, and commands, take this MPI. */
const environmentOf = (mpi: MpiInstallation): Record<string, string> =>
  mpi.libraryPath === null
    ? { DISTMATH_NATIVE: "/nonexistent", DISTMATH_MPI: libraryFile(mpi) }
    : { DISTMATH_LIBRARY_PATH: mpi.libraryPath };

const right = [0, 1, 2, 3].map((rank) => `rank ${rank} of 4, ${rank % 2} on host${rank < 2 ? 1 : 2}: right`);
const lines = (text: string) => text.split("\n").filter((line) => /^(\[\d\] )?rank /.test(line)).sort();

/** What is left on the hosts once Slurm has ended a job. */
async function leftovers(cluster: Cluster): Promise<string[]> {
  for (let i = 0; i < 100 && cluster.processes().length > 0; i++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return cluster.processes();
}

const steps: [
  name: string,
  mpis: readonly MpiInstallation[],
  body: (mpi: MpiInstallation, slurm: Cluster) => unknown,
][] = [
  ["srun starts a script on two hosts", launchers, async (mpi, slurm) => {
    const { code, stdout, stderr } = await slurm.shell(
      `srun -n 4 --mpi=${pluginOf(mpi)} ${rank} hosts.ts`,
      environmentOf(mpi),
    );
    assertEquals([code, lines(stdout)], [0, right], stderr);
  }],
  ["run takes the allocation that it is in, and srun", newestLaunchers, async (mpi, slurm) => {
    const { code, stdout, stderr } = await slurm.shell(`salloc -Q -n 4 ${run} hosts.ts`, environmentOf(mpi));
    assertEquals([code, lines(stdout), stderr], [0, right, ""]);
  }],
  ["run takes the hosts of the allocation with another launcher", launchers, async (mpi, slurm) => {
    const { code, stdout, stderr } = await slurm.shell(
      `salloc -Q -n 4 ${run} --mpirun ${mpi.mpirun} hosts.ts`,
      environmentOf(mpi),
    );
    assertEquals([code, lines(stdout)], [0, right], stderr);
  }],
  ["tagged lines come whole, however long", newestLaunchers.slice(0, 1), async (mpi, slurm) => {
    const script = `${slurm.folder}/lines.ts`;
    Deno.writeTextFileSync(
      script,
      'const rank = Deno.env.get("SLURM_PROCID"); for (const n of [1023, 1024, 5000]) console.log(`${rank}`.repeat(n));',
    );
    const { code, stdout, stderr } = await slurm.shell(
      `salloc -Q -n 4 ${run} --tag-output ${script}`,
      environmentOf(mpi),
    );
    const wanted = [0, 1, 2, 3].flatMap((rank) => [1023, 1024, 5000].map((n) => `[${rank}] ${`${rank}`.repeat(n)}`));
    assertEquals([code, stdout.trim().split("\n").sort()], [0, wanted.sort()], stderr);
  }],
  ["sbatch takes the job file of run", newestLaunchers.slice(0, 1), async (mpi, slurm) => {
    const file = `${slurm.folder}/job.sh`;
    const { code, stderr } = await slurm.shell(
      `${run} -n 4 --timeout 60 --tag-output --sbatch ${file} hosts.ts && sbatch --wait --output ${slurm.folder}/out ${file}`,
      environmentOf(mpi),
    );
    const output = Deno.readTextFileSync(`${slurm.folder}/out`);
    assertEquals([code, lines(output)], [0, right.map((line, i) => `[${i}] ${line}`)], stderr + output);
  }],
  ["plain srun is noticed", newestLaunchers, async (mpi, slurm) => {
    const { code, stderr } = await slurm.shell(`srun -n 4 ${rank} hosts.ts`, environmentOf(mpi));
    assertEquals(code, 1, stderr);
    assertMatch(stderr, /The launcher started 4 ranks, but MPI .* sees only 1, /);
    assertStringIncludes(stderr, `Start the script by srun --mpi=${pluginOf(mpi)},`);
  }],
  ["run tells of the rank that failed", newestLaunchers, async (mpi, slurm) => {
    const { code, stderr } = await slurm.shell(`salloc -Q -n 4 ${run} throws.ts 3`, environmentOf(mpi));
    assertEquals(code, 1, stderr);
    assertMatch(
      stderr,
      /^error: Uncaught .*broken on purpose\n[^]*\nerror: rank 3 ended the job .*: an uncaught error\n$/,
    );
  }],
  ["a rank that leaves early ends the job", newestLaunchers, async (mpi, slurm) => {
    const script = `${root}tests/faults/fixtures/leaves.ts`;
    const { code, stderr } = await slurm.shell(
      `srun -n 4 -K --mpi=${pluginOf(mpi)} ${rank} ${script} exits`,
      { ...environmentOf(mpi), DISTMATH_PATIENCE_SECONDS: "2" },
    );
    assertEquals(code === 0, false, stderr);
    assertMatch(stderr, /^distmath: rank 0 has waited for more than 2 s in .* for rank 1, which has ended/m);
  }],
  ["a time limit tells where the ranks of this host are", newestLaunchers, async (mpi, slurm) => {
    const { code, stderr } = await slurm.shell(`salloc -Q -n 4 ${run} --timeout 15 hosts.ts waits`, environmentOf(mpi));
    assertEquals(code, 124, stderr);
    assertMatch(stderr, /was ended; the ranks of this machine were here:\n {2}rank [01] /);
    assertEquals(await leftovers(slurm), []);
  }],
  ["scancel ends all ranks", newestLaunchers, async (mpi, slurm) => {
    const out = `${slurm.folder}/${mpi.family}.out`;
    const wait = `until [ "$(grep -c 'all are here' ${out})" = 4 ]; do sleep 0.1; done`;
    const { code, stderr } = await slurm.shell(
      `${run} -n 4 --sbatch ${slurm.folder}/waits.sh hosts.ts waits && ` +
        `job=$(sbatch --parsable --output ${out} ${slurm.folder}/waits.sh) && ${wait} && scancel $job`,
      environmentOf(mpi),
    );
    assertEquals(code, 0, stderr);
    assertEquals(await leftovers(slurm), []);
  }],
];

const reason = whyNoCluster();

Deno.test({
  name: `Slurm${reason === null ? "" : ` (skipped: ${reason})`}`,
  ignore: reason !== null,
  async fn(test) {
    using slurm = await makeCluster();
    for (const [name, mpis, body] of steps) {
      for (const mpi of mpis) await test.step(`${name} [${mpi.name}]`, async () => void await body(mpi, slurm));
    }
  },
});
