import { assertEquals, assertThrows } from "@std/assert";
import { hostname } from "node:os";
import { findAllocation, hostsOf, parseHostfile, slurmHosts } from "../../../../scripts/launch/allocation.ts";
import { parsePlace, parseRanks } from "../../../../scripts/launch/job_place.ts";
import { CommandError } from "../../../../scripts/terminal.ts";

Deno.test("slurmHosts() expands Slurm's short forms", () => {
  assertEquals(slurmHosts("gpu[01-03,7],login", "2(x3),1(x2)"), ["gpu01:2", "gpu02:2", "gpu03:2", "gpu7:1", "login:1"]);
  assertEquals(slurmHosts("a[1-2]b[08-10]", "4(x6)").map((host) => host.split(":")[0]), [
    "a1b08",
    "a1b09",
    "a1b10",
    "a2b08",
    "a2b09",
    "a2b10",
  ]);
  assertEquals(slurmHosts("one", "8"), ["one:8"]);
});

Deno.test("parseHostfile() reads what Open MPI, MPICH and PBS write", () => {
  assertEquals(parseHostfile("a slots=2\n# none\nb slots = 4 max_slots=4\n", "f"), ["a:2", "b:4"]);
  assertEquals(parseHostfile("a:2\nb\n", "f"), ["a:2", "b:1"]);
  assertEquals(parseHostfile("a\na\nb\nb\n", "f"), ["a:2", "b:2"]);
  assertThrows(() => parseHostfile("a two\n", "f"), CommandError, 'f: "a two" names no host; a line is "a", "a:2"');
  assertThrows(() => parseHostfile("\n", "f"), CommandError, "f names no hosts");
  for (const line of ["a:0", "a slots=0"]) assertThrows(() => parseHostfile(line, "f"), CommandError, "names no host");
});

Deno.test("parseHostfile() reads what follows a name in any order, and refuses what is no name", () => {
  const text = "a max_slots=4 slots=2\nb:2 ifname=eth0 user=x\nc max-slots = 8\nd binding=rr slots =3\n";
  assertEquals(parseHostfile(text, "f"), ["a:2", "b:2", "c:1", "d:3"]);
  for (const line of ["a:2 slots=3", "a slots=2 slots=2"]) {
    assertThrows(() => parseHostfile(line, "f"), CommandError, `f: "${line}" tells the slots twice; a line is "a"`);
  }
  for (
    const line of [
      "a,b",
      "^b",
      "-a",
      "a slot=2",
      "a slots=x",
      "a slots=99999999999999999999999",
      "slots=2",
      "a b:2",
      "a:2:3",
    ]
  ) {
    assertThrows(() => parseHostfile(line, "f"), CommandError, `f: "${line}" names no host; a line is "a", "a:2"`);
  }
});

Deno.test("findAllocation() knows Slurm, PBS and MPIJobs by their variables", () => {
  const slurm = { SLURM_JOB_ID: "7", SLURM_JOB_NODELIST: "n[1-2]", SLURM_TASKS_PER_NODE: "3(x2)" };
  assertEquals(findAllocation(slurm), { system: "Slurm", hosts: ["n1:3", "n2:3"] });
  const read = (path: string) => path === "/nodes" ? "a\na\nb\n" : "w-0.job slots=2\nw-1.job slots=2\n";
  assertEquals(findAllocation({ PBS_NODEFILE: "/nodes" }, read), { system: "PBS", hosts: ["a:2", "b:1"] });
  assertEquals(findAllocation({ OMPI_MCA_orte_default_hostfile: "/etc/mpi/hostfile" }, read), {
    system: "MPIJob",
    hosts: ["w-0.job:2", "w-1.job:2"],
  });
  assertEquals(findAllocation({ SLURM_PROCID: "0", HOME: "/h" }), null);
});

Deno.test("findAllocation() takes variables that are empty, or name no file, for none", () => {
  const refuse = (path: string) => {
    throw new Error(`${path} is read`);
  };
  for (
    const environment of [
      { PBS_NODEFILE: "" },
      { OMPI_MCA_orte_default_hostfile: "none", PRTE_MCA_prte_default_hostfile: "none", HYDRA_HOST_FILE: "" },
      { SLURM_JOB_ID: "1", SLURM_JOB_NODELIST: "" },
      { SLURM_JOB_ID: "", SLURM_JOB_NODELIST: "a" },
    ]
  ) {
    assertEquals(findAllocation(environment, refuse), null);
  }
  const named = { PBS_NODEFILE: "", OMPI_MCA_orte_default_hostfile: "none", HYDRA_HOST_FILE: "/f" };
  assertEquals(findAllocation(named, (path) => path), { system: "MPIJob", hosts: ["/f:1"] });
});

Deno.test("hosts with no slots, or too many, are refused", () => {
  const allowed = "each host has at least 1, and all together have fewer than 2^31; name others by --hosts";
  for (const hosts of ["localhost:4294967298", "a:2147483647,b"]) {
    const slots = hosts.startsWith("l") ? 4294967298 : 2147483648;
    assertThrows(() => parsePlace({ hosts }), CommandError, `--hosts ${hosts}: there are ${slots} slots; ${allowed}`);
  }
  const slurm = (slots: string) => ({ SLURM_JOB_ID: "1", SLURM_JOB_NODELIST: "n[1-2]", SLURM_TASKS_PER_NODE: slots });
  assertThrows(
    () => parsePlace({}, slurm("0(x2)")),
    CommandError,
    `the allocation of Slurm: there are 0 slots; ${allowed}`,
  );
  for (const slots of ["0(x2)", "2,0", "2147483647(x2)"]) {
    assertThrows(() => parsePlace({}, slurm(slots)), CommandError, "the allocation of Slurm: there are ");
    assertThrows(() => parseRanks(undefined, {}, slurm(slots)), CommandError, "the allocation of Slurm: there are ");
  }
  const folder = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${folder}/hosts`, "a:3000000000");
    assertThrows(
      () => parsePlace({ hostfile: `${folder}/hosts` }),
      CommandError,
      `--hostfile ${folder}/hosts: there are 3000000000 slots; ${allowed}`,
    );
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("an allocation of this host alone is no other host", () => {
  const hosts = [`${hostname().split(".")[0]}.domain:4`];
  assertEquals(hostsOf({ system: "PBS", hosts }), []);
  assertEquals(hostsOf({ system: "PBS", hosts: ["elsewhere:4"] }), ["elsewhere:4"]);
  const environment = { SLURM_JOB_ID: "1", SLURM_JOB_NODELIST: hostname(), SLURM_TASKS_PER_NODE: "4" };
  assertEquals([parsePlace({}, environment), parseRanks(undefined, {}, environment)], [{}, 4]);
});

Deno.test("jobs start in the allocation without being told, unless hosts are named", () => {
  const environment = { SLURM_JOB_ID: "1", SLURM_JOB_NODELIST: "n[1-2]", SLURM_TASKS_PER_NODE: "2(x2)" };
  assertEquals(parsePlace({ timeout: "5" }, environment), {
    hosts: ["n1:2", "n2:2"],
    isAllocated: true,
    timeoutSeconds: 5,
  });
  assertEquals(parsePlace({ hosts: "a:2" }, environment), { hosts: ["a:2"] });
  assertEquals([
    parseRanks(undefined, {}, environment),
    parseRanks("3", {}, environment),
    parseRanks(undefined, {}, {}),
  ], [
    4,
    3,
    1,
  ]);
  const ranksOn = (hosts: string) => parseRanks(undefined, parsePlace({ hosts }, environment), environment);
  assertEquals([ranksOn("a:3,b"), ranksOn("a")], [4, 1]);
  assertEquals(parsePlace({ hosts: "a,b:2,a" }), { hosts: ["a:2", "b:2"] });
  for (const hosts of ["a:2 b:2", "a:0", "a:x", "a:", ",", "^a", "-a:2"]) {
    assertThrows(() => parsePlace({ hosts }), CommandError, `--hosts takes a list such as a:2,b:2, not "${hosts}"`);
  }
  assertThrows(() => parsePlace({ hosts: "a", hostfile: "f" }), CommandError, "take --hosts or --hostfile, not both");
  assertThrows(
    () => parsePlace({ hostfile: "/nonexistent" }),
    CommandError,
    "the file of hosts /nonexistent cannot be",
  );
});
