/**
 * Having Open MPI's launcher remove what a rank leaves, which a rank that is killed cannot.
 *
 * @module
 */
import { addressOf } from "../memory.ts";
import { environment } from "../library.ts";

/** Source: opal/mca/pmix/pmix-internal.h of Open MPI 5. */
const OPAL_SYMBOLS = {
  opal_pmix_register_cleanup: {
    parameters: ["buffer", /* char* path */ "bool", /* directory */ "bool", /* ignore */ "bool" /* jobscope */],
    result: "i32",
  },
} as const satisfies Deno.ForeignLibraryInterface;

/** Source: pmix.h. What is answered is not asked for. */
const PMIX_SYMBOLS = {
  PMIx_Job_control: {
    parameters: [
      ...["buffer", /* const pmix_proc_t targets[] */ "usize"], // size_t ntargets
      ...["buffer", /* const pmix_info_t directives[] */ "usize"], // size_t ndirs
      ...["buffer", /* pmix_info_t** results */ "buffer"], // size_t* nresults
    ],
    result: "i32",
  },
} as const satisfies Deno.ForeignLibraryInterface;

const [PROC_BYTES, PROC_RANK] = [260, 256];
const [INFO_BYTES, INFO_TYPE, INFO_DATA] = [552, 520, 528];
const [PMIX_BOOL, PMIX_STRING] = [1, 3];

/** Where Open MPI 5 has its functions; and PMIx's, which Open MPI 4 may have within. Both are loaded already. */
const [OPAL_LIBRARY, PMIX_LIBRARY] = ["libopen-pal.so.80", "libpmix.so.2"];

/**
 * Have the launcher remove a folder when this process has ended, in whatever way. MPI has started; `release` is Open MPI's.
 * Where it cannot be asked, later jobs remove the folder.
 */
export function removeByLauncher(folder: string, release: number | null): void {
  if (release !== 4 && release !== 5) return;
  const path = new TextEncoder().encode(`${folder}\0`);
  const library = release === 4 ? PMIX_LIBRARY : OPAL_LIBRARY;
  // Nobody is asked for a permission that the rest does without.
  if (Deno.permissions.querySync({ name: "ffi", path: library }).state !== "granted") return;
  try {
    if (release === 4) askPmix(path);
    else Deno.dlopen(OPAL_LIBRARY, OPAL_SYMBOLS).symbols.opal_pmix_register_cleanup(path, true, false, false);
  } catch {
    // An Open MPI with other libraries.
  }
}

function askPmix(path: Uint8Array<ArrayBuffer>): void {
  const { PMIx_Job_control } = Deno.dlopen(PMIX_LIBRARY, PMIX_SYMBOLS).symbols;
  const self = new Uint8Array(PROC_BYTES);
  new TextEncoder().encodeInto(environment("PMIX_NAMESPACE") ?? "", self);
  new DataView(self.buffer).setUint32(PROC_RANK, Number(environment("PMIX_RANK")), true);
  const directives = new Uint8Array(2 * INFO_BYTES);
  const setDirective = (at: number, key: string, type: number, value: bigint) => {
    new TextEncoder().encodeInto(key, directives.subarray(at));
    const view = new DataView(directives.buffer, at);
    view.setUint16(INFO_TYPE, type, true);
    view.setBigUint64(INFO_DATA, value, true);
  };
  setDirective(0, "pmix.reg.cleanupdir", PMIX_STRING, addressOf(path));
  setDirective(INFO_BYTES, "pmix.clnup.recurse", PMIX_BOOL, 1n);
  const [results, count] = [new BigUint64Array(1), new BigUint64Array(1)];
  PMIx_Job_control(self, 1n, directives, 2n, results, count);
}
