/** The declarations of MPI's binary interfaces, and what the launcher says through the environment. */
import { assert, assertEquals } from "@std/assert";
import { launcher } from "../../../ffi/mpi/mod.ts";
import { MPI_FUNCTION_NAMES } from "../../../ffi/mpi/functions.ts";
import { mpichAbi } from "../../../ffi/mpi/mpich.ts";
import { standardAbi } from "../../../ffi/mpi/standard_abi.ts";

for (const { name, constants, errorClasses, handle, status } of [mpichAbi, standardAbi]) {
  Deno.test(`the handles of the ${name} interface are distinct and of its C type`, () => {
    const { types, operations, ...rest } = constants;
    const named = [rest.world, rest.self, rest.nullCommunicator, rest.nullInfo, rest.errorsReturn];
    const handles = [...named, ...Object.values(types), ...Object.values(operations)];
    assertEquals(new Set(handles).size, handles.length);
    const expected = handle === "i32" ? "number" : "bigint";
    assert(handles.map((value): string => typeof value).every((type) => type === expected));
    assert(errorClasses.includes("MPI_ERR_TRUNCATE") && errorClasses[0] === "MPI_SUCCESS");
    assertEquals(new Set(errorClasses).size, errorClasses.length);
    assert(status.source < status.words && status.tag < status.words);
  });
}

Deno.test("mpich's error classes have the numbers of its mpi.h", () => {
  const of = (name: string) => mpichAbi.errorClasses.indexOf(`MPI_ERR_${name}`);
  assertEquals(["TRUNCATE", "REQUEST", "NO_MEM", "RMA_SYNC", "ASSERT"].map(of), [14, 19, 34, 50, 53]);
});

Deno.test("the standard interface's error classes have the numbers of MPI 5.0", () => {
  const of = (name: string) => standardAbi.errorClasses.indexOf(`MPI_ERR_${name}`);
  assertEquals(["TRUNCATE", "PENDING", "NO_MEM", "WIN", "ABI"].map(of), [15, 18, 39, 56, 62]);
});

Deno.test("each function is declared once for each kind of buffer", () => {
  assertEquals(new Set(MPI_FUNCTION_NAMES).size, MPI_FUNCTION_NAMES.length);
  for (const name of MPI_FUNCTION_NAMES) {
    const base = name.replace(/_(in_place|at)$/, "") as typeof name;
    assert(MPI_FUNCTION_NAMES.includes(base), name);
  }
});

const LAUNCHER_VARIABLES = [
  "OMPI_COMM_WORLD_RANK",
  "OMPI_COMM_WORLD_SIZE",
  "OMPI_COMM_WORLD_LOCAL_RANK",
  "OMPI_COMM_WORLD_LOCAL_SIZE",
  "OMPI_VERSION",
  "PMI_RANK",
  "PMI_SIZE",
  "MPI_LOCALRANKID",
  "MPI_LOCALNRANKS",
  "SLURM_PROCID",
  "SLURM_STEP_NUM_TASKS",
  "SLURM_LOCALID",
  "SLURM_NODEID",
  "SLURM_STEP_TASKS_PER_NODE",
  "PMIX_RANK",
  "TORCHELASTIC_RUN_ID",
  "RANK",
  "WORLD_SIZE",
  "LOCAL_RANK",
  "LOCAL_WORLD_SIZE",
  "MASTER_ADDR",
  "MASTER_PORT",
];

/** The launcher in an environment with these variables only. */
function launcherIn(variables: Record<string, string>): ReturnType<typeof launcher> {
  const before = LAUNCHER_VARIABLES.map((name) => [name, Deno.env.get(name)] as const);
  for (const name of LAUNCHER_VARIABLES) Deno.env.delete(name);
  for (const [name, value] of Object.entries(variables)) Deno.env.set(name, value);
  try {
    return launcher();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
}

Deno.test("launcher() reads what Open MPI, MPICH and Slurm set", () => {
  assertEquals(launcherIn({}), null);
  assertEquals(launcherIn({ PMI_RANK: "1" }), null);
  assertEquals(launcherIn({ OMPI_COMM_WORLD_RANK: "1", OMPI_COMM_WORLD_SIZE: "4", OMPI_COMM_WORLD_LOCAL_RANK: "1" }), {
    kind: "open_mpi",
    release: 4,
    rank: 1,
    size: 4,
    localRank: 1,
    localSize: null,
  });
  const five = launcherIn({ OMPI_COMM_WORLD_RANK: "0", OMPI_COMM_WORLD_SIZE: "2", OMPI_VERSION: "5.0.11" });
  assertEquals(five?.release, 5);
  assertEquals(launcherIn({ PMI_RANK: "3", PMI_SIZE: "4", MPI_LOCALRANKID: "1", MPI_LOCALNRANKS: "2" }), {
    kind: "mpich",
    release: null,
    rank: 3,
    size: 4,
    localRank: 1,
    localSize: 2,
  });
  const onNode = (id: number, sizes: string) => ({
    SLURM_LOCALID: "1",
    SLURM_NODEID: String(id),
    SLURM_STEP_TASKS_PER_NODE: sizes,
  });
  const slurm = launcherIn({ SLURM_PROCID: "2", SLURM_STEP_NUM_TASKS: "8", ...onNode(0, "8") });
  assertEquals(slurm, { kind: "slurm", release: null, rank: 2, size: 8, localRank: 1, localSize: 8 });
  // MPICH's ranks that srun starts.
  const sizes = [0, 1, 2, 3].map((id) => launcherIn({ PMI_RANK: "3", PMI_SIZE: "8", ...onNode(id, "2(x2),1,3") }));
  assertEquals(sizes.map((rank) => [rank?.kind, rank?.localRank, rank?.localSize]), [
    ["mpich", 1, 2],
    ["mpich", 1, 2],
    ["mpich", 1, 1],
    ["mpich", 1, 3],
  ]);
});

Deno.test("launcher() knows jobs without MPI from those of MPI in which the same variables are set", () => {
  const torch = { RANK: "1", WORLD_SIZE: "4", LOCAL_RANK: "1", MASTER_ADDR: "a", MASTER_PORT: "1" };
  const told = { kind: "torch", release: null, rank: 1, size: 4, localRank: 1, localSize: null } as const;
  assertEquals(launcherIn(torch), told);
  assertEquals(launcherIn({ ...torch, LOCAL_WORLD_SIZE: "2" }), { ...told, localSize: 2 });
  assertEquals(launcherIn({ RANK: "1" }), null);
  const [openMpi, slurm] = [
    { OMPI_COMM_WORLD_RANK: "0", OMPI_COMM_WORLD_SIZE: "2" },
    { SLURM_PROCID: "2", SLURM_STEP_NUM_TASKS: "8" },
  ];
  assertEquals(launcherIn({ ...torch, ...openMpi })?.kind, "open_mpi");
  assertEquals(launcherIn({ ...torch, ...openMpi, TORCHELASTIC_RUN_ID: "x" })?.kind, "torch");
  // Plain srun starts what has no MPI; one that speaks to MPI says so.
  assertEquals(launcherIn({ ...torch, ...slurm })?.kind, "torch");
  assertEquals(launcherIn({ ...torch, ...slurm, PMIX_RANK: "2" })?.kind, "slurm");
});
