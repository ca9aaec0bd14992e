import { assertEquals } from "@std/assert";
import { existsSync } from "node:fs";
import { removeAbandonedFolders } from "../../../../ffi/mpi/segment_folder.ts";
import { removeAbandonedFiles, removeFilesOfDead } from "../../../../scripts/launch/abandoned_files.ts";

/** Larger than any number of a process. */
const nobody = 4194305;
const me = Deno.pid;

/** A folder with files that were last changed so many seconds ago. */
function folderOf(ages: Record<string, number>): { path: string; left: () => string[] } & Disposable {
  const path = Deno.realPathSync(Deno.makeTempDirSync());
  for (const [name, seconds] of Object.entries(ages)) {
    Deno.writeTextFileSync(`${path}/${name}`, "");
    const time = new Date(Date.now() - 1000 * seconds);
    Deno.utimeSync(`${path}/${name}`, time, time);
  }
  return {
    path,
    left: () => Object.keys(ages).filter((name) => existsSync(`${path}/${name}`)),
    [Symbol.dispose]: () => Deno.removeSync(path, { recursive: true }),
  };
}

Deno.test("removeAbandonedFiles() removes memory of processes that are no more, and of no others", () => {
  const [gone, used, fresh] = [1e6, 1e6, 0];
  using folder = folderOf({
    [`distmath.${nobody}.1`]: fresh,
    [`distmath_sm.${nobody}.1`]: fresh,
    [`__KMP_REGISTERED_LIB_${nobody}_0`]: fresh,
    mpich_shar_tmpA1: gone,
    ucx_shm_posix_1: gone,
    "sm_segment.1": gone,
    Intel_MPI_A1b2C3: gone,
    [`distmath.${me}.1`]: used,
    [`distmath_sm.${me}.1`]: used,
    [`__KMP_REGISTERED_LIB_${me}_0`]: used,
    mpich_shm_1: used,
    "not_of_mpi.1": used,
    mpich_shar_tmpB1: fresh,
    "vader_segment.1": fresh,
    Intel_MPI_D4e5F6: fresh,
    hydra_hwloc_xmlfile_A1: gone,
    hydra_hwloc_xmlfile_B1: fresh,
  });
  using _open = Deno.openSync(`${folder.path}/mpich_shm_1`);
  removeAbandonedFiles({ shared: folder.path, temporary: folder.path });
  assertEquals(folder.left(), [
    ...[`distmath.${me}.1`, `distmath_sm.${me}.1`, `__KMP_REGISTERED_LIB_${me}_0`, "mpich_shm_1", "not_of_mpi.1"],
    ...["mpich_shar_tmpB1", "vader_segment.1", "Intel_MPI_D4e5F6", "hydra_hwloc_xmlfile_B1"],
  ]);
});

Deno.test("removeFilesOfDead() removes what nobody has, and is younger than the job", async () => {
  const left = { "sm_segment.1": 1e6, mpich_vci_1: 0, hydra_hwloc_xmlfile_A1: 0 };
  using folder = folderOf({ mpich_shar_tmpA1: 0, hydra_hwloc_xmlfile_B1: 0, [`distmath.${nobody}.1`]: 0, ...left });
  using _open = Deno.openSync(`${folder.path}/mpich_vci_1`);
  using _openToo = Deno.openSync(`${folder.path}/hydra_hwloc_xmlfile_A1`);
  await removeFilesOfDead(Date.now() - 1000, { shared: folder.path, temporary: folder.path });
  assertEquals(folder.left(), Object.keys(left));
});

Deno.test("what a process of another container holds stays, though its number is nobody's here", async () => {
  const held = `distmath_sm.${nobody}.held`;
  using folder = folderOf({ [held]: 0, [`distmath_sm.${nobody}.1`]: 0 });
  using file = Deno.openSync(`${folder.path}/${held}`);
  file.lockSync(true);
  await removeFilesOfDead(Date.now() - 1000, { shared: folder.path, temporary: folder.path });
  assertEquals(folder.left(), [held]);
});

Deno.test("removeAbandonedFolders() removes what is old and what nobody holds", () => {
  const [held, young] = ["distmath_sm.1.held", "distmath_sm.1.young"];
  using folder = folderOf({
    [held]: 100,
    [young]: 10,
    "distmath_sm.1.left": 100,
    "distmath_sm.2.left": 100,
    other: 100,
  });
  using file = Deno.openSync(`${folder.path}/${held}`);
  file.lockSync(true);
  removeAbandonedFolders(folder.path);
  assertEquals(folder.left(), [held, young, "other"]);
});
