import { assertEquals, assertInstanceOf, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import {
  commandLine,
  findLauncher,
  identifyLauncher,
  type Launcher,
  parseLauncherVersion,
} from "../../../../scripts/launch/launcher.ts";
import { TaggedLines } from "../../../../scripts/launch/tagged_output.ts";
import { CommandError } from "../../../../scripts/terminal.ts";
import { dirname } from "node:path";

const openMpi4: Launcher = { path: "/usr/bin/mpirun", kind: "open_mpi", version: "4.1.4", source: "PATH" };
const openMpi5: Launcher = { path: "/n/bin/mpirun", kind: "open_mpi", version: "5.0.11", source: "native install" };
const mpich: Launcher = { path: "/usr/bin/mpirun.mpich", kind: "mpich", version: "4.0.2", source: "PATH" };
const intelMpi: Launcher = { path: "/i/mpirun", kind: "mpich", version: "2021.13", source: "PATH", isIntel: true };
const srun: Launcher = { path: "/usr/bin/srun", kind: "slurm", version: "23.11.4", source: "PATH", pmi: "pmix" };
const machine = { cores: 2, isRoot: false, environment: {} };
const program = ["deno", "run", "-A", "a.ts"];

Deno.test("parseLauncherVersion() knows the launchers by what --version prints", () => {
  assertEquals(parseLauncherVersion("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to …"), {
    kind: "open_mpi",
    version: "4.1.4",
  });
  assertEquals(parseLauncherVersion("mpirun (Open MPI) 5.0.11"), { kind: "open_mpi", version: "5.0.11" });
  const hydra = "HYDRA build details:\n    Version:                                 5.0.2\n    Release Date: …";
  assertEquals(parseLauncherVersion(hydra), { kind: "mpich", version: "5.0.2" });
  const intel = "Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240701";
  assertEquals(parseLauncherVersion(intel), { kind: "mpich", version: "2021.13", isIntel: true });
  assertEquals(parseLauncherVersion("slurm 23.11.4"), { kind: "slurm", version: "23.11.4" });
  assertEquals(parseLauncherVersion("slurm-wlm 22.05.8"), { kind: "slurm", version: "22.05.8" });
  assertEquals(parseLauncherVersion("GNU bash, version 5.2"), null);
});

Deno.test("commandLine() starts quickly on one host, with more ranks than cores", () => {
  assertEquals(commandLine(openMpi5, { ranks: 4, program }, machine), {
    command: "/n/bin/mpirun",
    args: ["--bind-to", "none", "-n", "4", ...program],
    env: {
      DENO_NO_UPDATE_CHECK: "1",
      PRTE_MCA_rmaps_default_mapping_policy: ":oversubscribe",
      OMPI_MCA_mpi_yield_when_idle: "1",
      OMPI_MCA_pml: "ob1",
      OMPI_MCA_btl: "self,sm",
    },
  });
  const old = commandLine(openMpi4, { ranks: 2, program }, machine).env;
  assertEquals(old.OMPI_MCA_btl, "self,vader");
  assertEquals(old.OMPI_MCA_rmaps_base_oversubscribe, "1");
  assertEquals(old.OMPI_MCA_mpi_yield_when_idle, undefined);
  const patient = commandLine(openMpi4, { ranks: 2, yieldsWhenIdle: true, program }, machine).env;
  assertEquals(patient.OMPI_MCA_mpi_yield_when_idle, "1");
});

Deno.test("commandLine() lets more MPICH ranks than cores wait for each other without spinning", () => {
  assertEquals(Object.keys(commandLine(mpich, { ranks: 3, program }, machine).env), [
    "DENO_NO_UPDATE_CHECK",
    "MPIR_CVAR_ENABLE_HEAVY_YIELD",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT",
  ]);
  assertEquals(commandLine(mpich, { ranks: 2, program }, machine).env, { DENO_NO_UPDATE_CHECK: "1" });
});

Deno.test("commandLine() lets Open MPI run as root, and leaves what the user has set", () => {
  const environment = { OMPI_MCA_btl: "tcp,self", OMPI_ALLOW_RUN_AS_ROOT: "0" };
  const { env } = commandLine(openMpi5, { ranks: 1, program }, { ...machine, isRoot: true, environment });
  assertEquals(env.OMPI_MCA_btl, undefined);
  assertEquals(env.OMPI_ALLOW_RUN_AS_ROOT, undefined);
  assertEquals(env.OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, "1");
});

Deno.test("commandLine() names hosts as each launcher wants it, without the settings for one host", () => {
  const environment = { DISTMATH_NATIVE: "/n", HOME: "/h", NCCL_NVLS_ENABLE: "0", XDG_CACHE_HOME: "/c" };
  const launch = { ranks: 4, hosts: ["a:2", "b:2"], program };
  const open = commandLine(openMpi5, launch, { ...machine, environment });
  const names = ["DENO_NO_UPDATE_CHECK", "DISTMATH_NATIVE", "NCCL_NVLS_ENABLE", "XDG_CACHE_HOME"]
    .flatMap((name) => ["-x", name]);
  assertEquals(open.args, ["--bind-to", "none", "--host", "a:2,b:2", ...names, "-n", "4", ...program]);
  assertEquals(open.env.OMPI_MCA_pml, undefined);
  assertEquals(commandLine(mpich, launch, machine).args, ["-hosts", "a:2,b:2", "-n", "4", ...program]);
});

Deno.test("commandLine() gives Intel MPI and srun hosts as they take them", () => {
  const launch = { ranks: 4, hosts: ["a:2", "b:2"], program };
  const underShell = ["-c", `trap '' PIPE; exec "$0" "$@"`, "/i/mpirun"];
  const { command, args } = commandLine(intelMpi, launch, machine);
  assertEquals([command, args], ["sh", [...underShell, "-hosts", "a,b", "-ppn", "2", "-n", "4", ...program]]);
  const own = ["--mpi=pmix", "--cpu-bind=none", "--kill-on-bad-exit=1"];
  const place = ["--nodelist=a,b", "--ntasks-per-node=2"];
  assertEquals(commandLine(srun, launch, machine).args, [...own, ...place, "-n", "4", ...program]);
  // Within a step, whose CPUs the ranks share.
  const inStep = { ...machine, environment: { SLURM_STEP_ID: "0" } };
  assertEquals([machine, inStep].map((one) => commandLine(srun, launch, one).env.SLURM_OVERLAP), [undefined, "1"]);
  // Where sbatch was told to export nothing, srun would hand over nothing, either.
  const bare = { ...machine, environment: { SLURM_EXPORT_ENV: "NONE" } };
  assertEquals(commandLine(srun, { ranks: 1, program }, bare).args, [...own, "--export=ALL", "-n", "1", ...program]);
  const tagged = commandLine(srun, { ...launch, isAllocated: true, tag: true }, machine).args;
  assertEquals(tagged, [...own, "--label", "-n", "4", ...program]);
  for (const [launcher, who] of [[intelMpi, "Intel MPI"], [srun, "srun"]] as const) {
    const uneven = { ...launch, hosts: ["a:1", "b:3"] };
    const message = `${who} takes the same number of slots on each host, not a:1,b:3`;
    assertThrows(() => commandLine(launcher, uneven, machine), CommandError, message);
  }
});

Deno.test("commandLine() sets a launch's own variables, on other hosts too", () => {
  const launcher = { path: "/m/mpirun", kind: "open_mpi", version: "5.0.11", source: "PATH" } as const;
  const launch = { ranks: 2, program: ["p"], env: { NO_COLOR: "1" } };
  const machine = { cores: 2, isRoot: false, environment: { NO_COLOR: "", HOME: "/h" } };
  assertEquals(commandLine(launcher, launch, machine).env.NO_COLOR, "1");
  const { args } = commandLine(launcher, { ...launch, hosts: ["a:2"] }, { ...machine, environment: {} });
  assertEquals(args.slice(args.indexOf("-x"), -3).includes("NO_COLOR"), true, args.join(" "));
});

Deno.test("commandLine() asks for tagged output, and TaggedLines reads it", () => {
  const launch = { ranks: 2, tag: true, program };
  assertEquals(commandLine(openMpi4, launch, machine).args.includes("--tag-output"), true);
  assertEquals(commandLine(openMpi5, launch, machine).args.slice(2, 4), ["--output", "tag"]);
  assertEquals(commandLine(mpich, launch, machine).args.slice(0, 2), ["-prepend-pattern", "<rank %r>:"]);
  assertEquals(commandLine(intelMpi, launch, machine).args.slice(3, 5), ["-prepend-pattern", "<rank %r>:"]);

  const read = (line: string, launcher: Launcher) => new TaggedLines(launcher, 13).push(line);
  assertEquals(read("[1,0]<stdout>:    ok 1 - a", openMpi4), [{ rank: 0, text: "    ok 1 - a" }]);
  assertEquals(read("[1,12]<stderr>:   {}", openMpi5), [{ rank: 12, text: "  {}" }]);
  assertEquals(read("<rank 3>:  {}", mpich), [{ rank: 3, text: "  {}" }]);
  assertEquals(read("<rank 3>:", mpich), [{ rank: 3, text: "" }]);
  assertEquals(read("<rank 3>:  {} [1] 2: 3", intelMpi), [{ rank: 3, text: "  {} [1] 2: 3" }]);
  assertEquals(read(" 3:   {} 4: 5", srun), [{ rank: 3, text: "  {} 4: 5" }]);
  assertEquals(read("[1,0]<stdout>: a [1,13]<stdout>: b", openMpi5), [{ rank: 0, text: "a [1,13]<stdout>: b" }]);
  assertEquals(read("<rank 13>:a<rank 12>:b", mpich), [{ rank: null, text: "<rank 13>:a" }, { rank: 12, text: "b" }]);
  for (const launcher of [openMpi4, openMpi5, mpich, intelMpi, srun]) {
    assertEquals(read("prterun noticed", launcher), [{ rank: null, text: "prterun noticed" }]);
  }
});

Deno.test("TaggedLines joins the parts of a rank's line that those of others lie between", () => {
  for (
    const [launcher, tag] of [
      [openMpi4, (rank: number) => `[1,${rank}]<stdout>:`],
      [openMpi5, (rank: number) => `[1,${rank}]<stdout>: `],
      [mpich, (rank: number) => `<rank ${rank}>:`],
      [intelMpi, (rank: number) => `<rank ${rank}>:`],
    ] as const
  ) {
    const lines = new TaggedLines(launcher, 3);
    // As launchers pass on what they read: rank 1's line ends first, then the launcher's own, then those of 0 and 2.
    assertEquals(lines.push(`${tag(0)}rank 0${tag(1)}rank 1 is${tag(2)}rank ${tag(1)} done`), [
      { rank: 1, text: "rank 1 is done" },
    ]);
    assertEquals(lines.push("prterun noticed"), [{ rank: null, text: "prterun noticed" }]);
    assertEquals(lines.push(`prterun ${tag(0)} is${tag(0)} done`), [
      { rank: null, text: "prterun " },
      { rank: 0, text: "rank 0 is done" },
    ]);
    assertEquals(lines.push(`${tag(2)}2`), [{ rank: 2, text: "rank 2" }]);
    assertEquals(lines.push(`${tag(1)}cut off${tag(0)}`), [{ rank: 0, text: "" }]);
    assertEquals(lines.end(), [{ rank: 1, text: "cut off" }]);
    assertEquals(lines.end(), []);
  }
});

Deno.test("TaggedLines joins what srun cuts into lines of 1024 bytes", () => {
  const lines = new TaggedLines(srun, 2);
  const text = "é".repeat(512);
  assertEquals(lines.push(`0: ${text}`), []);
  assertEquals(lines.push(`1: ${text.slice(1)}`), [{ rank: 1, text: text.slice(1) }]);
  assertEquals(lines.push(`0: ${text}`), []);
  assertEquals(lines.push("srun: error: it"), [{ rank: null, text: "srun: error: it" }]);
  assertEquals(lines.push("0: end"), [{ rank: 0, text: `${text}${text}end` }]);
  // A line of just so many bytes is followed by an empty part.
  assertEquals(lines.push(`1: ${text}`), []);
  assertEquals(lines.push("1: "), [{ rank: 1, text }]);
});

Deno.test("identifyLauncher() gives a reason for what is no launcher", async () => {
  assertEquals(await identifyLauncher({ path: "/nonexistent/mpirun", source: "PATH" }), "there is no such file");
  assertEquals(
    await identifyLauncher({ path: Deno.execPath(), source: "PATH" }),
    "it is none of Open MPI's, MPICH's and Slurm's launchers",
  );
});

Deno.test("findLauncher() refuses a named launcher that is none", async () => {
  await assertRejects(() => findLauncher(Deno.execPath()), CommandError, "--mpirun names");
});

Deno.test("findLauncher() reads no file of hosts, which may be gone", async () => {
  Deno.env.set("PBS_NODEFILE", "/nonexistent");
  try {
    const found = await findLauncher().catch((error: Error) => error);
    // A machine without MPI has none.
    if (found instanceof Error) assertInstanceOf(found, CommandError);
    else assertNotEquals(found.kind, "slurm");
  } finally {
    Deno.env.delete("PBS_NODEFILE");
  }
});

Deno.test("findLauncher() takes the launcher beside the library that DISTMATH_MPI names, or one of its family", async () => {
  const folder = Deno.makeTempDirSync();
  const place = (path: string, version: string) => {
    Deno.mkdirSync(`${folder}/${dirname(path)}`, { recursive: true });
    Deno.writeTextFileSync(`${folder}/${path}`, `#!/bin/sh\necho "${version}"\n`, { mode: 0o755 });
  };
  place("openmpi/bin/mpirun", "mpirun (Open MPI) 5.0.11");
  place("mpich/bin/mpirun", "HYDRA build details:\n    Version:    5.0.2");
  place("mpich/bin/mpiexec.hydra", "HYDRA build details:\n    Version:    5.0.2");
  const intel = "Intel(R) MPI Library for Linux* OS, Version 2021.19";
  for (const name of ["mpiexec", "mpiexec.hydra"]) place(`intel/bin/${name}`, intel);
  Deno.writeTextFileSync(`${folder}/intel/bin/mpirun`, '#!/bin/sh\nexec mpiexec.hydra "$@"\n', { mode: 0o755 });
  const before = { ...Deno.env.toObject() };
  const variables = ["PATH", "DISTMATH_MPI", "DISTMATH_MPIRUN", "DISTMATH_LIBRARY_PATH", "DISTMATH_NATIVE"];
  try {
    for (const name of variables) Deno.env.delete(name);
    Deno.env.set("DISTMATH_NATIVE", "/nonexistent");
    Deno.env.set("PATH", `${folder}/openmpi/bin:${folder}/mpich/bin:${before.PATH}`);
    const found = async (library: string) => {
      Deno.env.set("DISTMATH_MPI", library);
      const { kind, path } = await findLauncher();
      return [kind, path];
    };
    const mpich = ["mpich", `${folder}/mpich/bin/mpirun`];
    const openMpi = ["open_mpi", `${folder}/openmpi/bin/mpirun`];
    assertEquals(await found(""), openMpi);
    assertEquals(await found(`${folder}/mpich/lib/libmpi_abi.so.1`), mpich);
    assertEquals(await found(`${folder}/mpich/lib`), mpich);
    // Its mpirun starts the first mpiexec.hydra of PATH, which is MPICH's here.
    assertEquals(await found(`${folder}/intel/lib/libmpi.so.12`), ["mpich", `${folder}/intel/bin/mpiexec`]);
    assertEquals((await findLauncher(`${folder}/intel/bin/mpirun`)).path, `${folder}/intel/bin/mpiexec`);
    assertEquals(await found("libmpich.so.12"), mpich);
    assertEquals(await found("libmpi.so.40"), openMpi);
  } finally {
    for (const name of variables) {
      if (before[name] === undefined) Deno.env.delete(name);
      else Deno.env.set(name, before[name]);
    }
    Deno.removeSync(folder, { recursive: true });
  }
});
