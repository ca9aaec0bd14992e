/**
 * The C functions of MPI that distmath calls, as MPI 3.1 declares them; each returns an error code.
 *
 * A name that ends in `_in_place` is the same C function with one buffer given as an address, for `MPI_IN_PLACE`; one that
 * ends in `_at` for memory that no typed array holds.
 *
 * @module
 */
import { noteStarting, noteWaiting } from "../waiting.ts";
import type { Abi, Handle } from "./abi.ts";

/** How a C parameter is passed: host memory, an address, a C `int`, or a handle. */
export type MpiParameter = "buffer" | "address" | "int" | "handle";

/** The parameters of each function. */
// deno-fmt-ignore
export const MPI_FUNCTIONS = {
  MPI_Init_thread: ["address" /* int* argc */, "address" /* char*** argv */, "int" /* required */, "buffer" /* int* provided */],
  MPI_Initialized: ["buffer" /* int* flag */],
  MPI_Finalized: ["buffer" /* int* flag */],
  MPI_Is_thread_main: ["buffer" /* int* flag */],
  MPI_Finalize: [],
  MPI_Abort: ["handle" /* comm */, "int" /* errorcode */],
  MPI_Get_library_version: ["buffer" /* char* version */, "buffer" /* int* resultlen */],
  MPI_Error_class: ["int" /* errorcode */, "buffer" /* int* errorclass */],
  MPI_Error_string: ["int" /* errorcode */, "buffer" /* char* string */, "buffer" /* int* resultlen */],

  MPI_Comm_rank: ["handle" /* comm */, "buffer" /* int* rank */],
  MPI_Comm_size: ["handle" /* comm */, "buffer" /* int* size */],
  MPI_Comm_dup: ["handle" /* comm */, "buffer" /* MPI_Comm* newcomm */],
  MPI_Comm_split: ["handle" /* comm */, "int" /* color */, "int" /* key */, "buffer" /* MPI_Comm* newcomm */],
  MPI_Comm_split_type: ["handle" /* comm */, "int" /* split_type */, "int" /* key */, "handle" /* info */, "buffer" /* MPI_Comm* newcomm */],
  MPI_Cart_create: ["handle" /* comm_old */, "int" /* ndims */, "buffer" /* int dims[] */, "buffer" /* int periods[] */, "int" /* reorder */, "buffer" /* MPI_Comm* comm_cart */],
  MPI_Cart_coords: ["handle" /* comm */, "int" /* rank */, "int" /* maxdims */, "buffer" /* int coords[] */],
  MPI_Cart_shift: ["handle" /* comm */, "int" /* direction */, "int" /* disp */, "buffer" /* int* rank_source */, "buffer" /* int* rank_dest */],
  MPI_Neighbor_allgather: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "handle" /* comm */],
  MPI_Neighbor_alltoall: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "handle" /* comm */],
  MPI_Comm_free: ["buffer" /* MPI_Comm* comm */],
  MPI_Comm_set_errhandler: ["handle" /* comm */, "handle" /* errhandler */],
  MPI_Comm_c2f: ["handle" /* comm */],
  MPI_Comm_toint: ["handle" /* comm */],
  MPI_Comm_group: ["handle" /* comm */, "buffer" /* MPI_Group* group */],
  MPI_Group_translate_ranks: ["handle" /* group1 */, "int" /* n */, "buffer" /* int ranks1[] */, "handle" /* group2 */, "buffer" /* int ranks2[] */],
  MPI_Group_incl: ["handle" /* group */, "int" /* n */, "buffer" /* int ranks[] */, "buffer" /* MPI_Group* newgroup */],
  MPI_Group_free: ["buffer" /* MPI_Group* group */],
  MPI_Comm_create_group: ["handle" /* comm */, "handle" /* group */, "int" /* tag */, "buffer" /* MPI_Comm* newcomm */],

  MPI_Barrier: ["handle" /* comm */],
  MPI_Bcast: ["buffer" /* void* buffer */, "int" /* count */, "handle" /* datatype */, "int" /* root */, "handle" /* comm */],
  MPI_Reduce: ["buffer" /* void* sendbuf */, "buffer" /* void* recvbuf */, "int" /* count */, "handle" /* datatype */, "handle" /* op */, "int" /* root */, "handle" /* comm */],
  MPI_Allreduce: ["buffer" /* void* sendbuf */, "buffer" /* void* recvbuf */, "int" /* count */, "handle" /* datatype */, "handle" /* op */, "handle" /* comm */],
  MPI_Allreduce_in_place: ["address" /* void* sendbuf */, "buffer" /* void* recvbuf */, "int" /* count */, "handle" /* datatype */, "handle" /* op */, "handle" /* comm */],
  MPI_Scan: ["buffer" /* void* sendbuf */, "buffer" /* void* recvbuf */, "int" /* count */, "handle" /* datatype */, "handle" /* op */, "handle" /* comm */],
  MPI_Scan_in_place: ["address" /* void* sendbuf */, "buffer" /* void* recvbuf */, "int" /* count */, "handle" /* datatype */, "handle" /* op */, "handle" /* comm */],
  MPI_Exscan: ["buffer" /* void* sendbuf */, "buffer" /* void* recvbuf */, "int" /* count */, "handle" /* datatype */, "handle" /* op */, "handle" /* comm */],
  MPI_Exscan_in_place: ["address" /* void* sendbuf */, "buffer" /* void* recvbuf */, "int" /* count */, "handle" /* datatype */, "handle" /* op */, "handle" /* comm */],
  MPI_Reduce_scatter: ["buffer" /* void* sendbuf */, "buffer" /* void* recvbuf */, "buffer" /* int recvcounts[] */, "handle" /* datatype */, "handle" /* op */, "handle" /* comm */],
  MPI_Gatherv: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "buffer" /* int recvcounts[] */, "buffer" /* int displs[] */, "handle" /* recvtype */, "int" /* root */, "handle" /* comm */],
  MPI_Gather: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "int" /* root */, "handle" /* comm */],
  MPI_Scatter: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "int" /* root */, "handle" /* comm */],
  MPI_Scatterv: ["buffer" /* void* sendbuf */, "buffer" /* int sendcounts[] */, "buffer" /* int displs[] */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "int" /* root */, "handle" /* comm */],
  MPI_Allgather: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "handle" /* comm */],
  MPI_Allgather_in_place: ["address" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "handle" /* comm */],
  MPI_Allgatherv: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "buffer" /* int recvcounts[] */, "buffer" /* int displs[] */, "handle" /* recvtype */, "handle" /* comm */],
  MPI_Allgatherv_in_place: ["address" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "buffer" /* int recvcounts[] */, "buffer" /* int displs[] */, "handle" /* recvtype */, "handle" /* comm */],
  MPI_Alltoall: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "handle" /* comm */],
  MPI_Alltoallv: ["buffer" /* void* sendbuf */, "buffer" /* int sendcounts[] */, "buffer" /* int sdispls[] */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "buffer" /* int recvcounts[] */, "buffer" /* int rdispls[] */, "handle" /* recvtype */, "handle" /* comm */],
  MPI_Alltoallw: ["buffer" /* void* sendbuf */, "buffer" /* int sendcounts[] */, "buffer" /* int sdispls[] */, "buffer" /* MPI_Datatype sendtypes[] */, "buffer" /* void* recvbuf */, "buffer" /* int recvcounts[] */, "buffer" /* int rdispls[] */, "buffer" /* MPI_Datatype recvtypes[] */, "handle" /* comm */],

  MPI_Send: ["buffer" /* void* buf */, "int" /* count */, "handle" /* datatype */, "int" /* dest */, "int" /* tag */, "handle" /* comm */],
  MPI_Recv: ["buffer" /* void* buf */, "int" /* count */, "handle" /* datatype */, "int" /* source */, "int" /* tag */, "handle" /* comm */, "buffer" /* MPI_Status* status */],
  MPI_Sendrecv: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "int" /* dest */, "int" /* sendtag */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "int" /* source */, "int" /* recvtag */, "handle" /* comm */, "buffer" /* MPI_Status* status */],
  MPI_Probe: ["int" /* source */, "int" /* tag */, "handle" /* comm */, "buffer" /* MPI_Status* status */],
  MPI_Iprobe: ["int" /* source */, "int" /* tag */, "handle" /* comm */, "buffer" /* int* flag */, "buffer" /* MPI_Status* status */],
  MPI_Get_count: ["buffer" /* MPI_Status* status */, "handle" /* datatype */, "buffer" /* int* count */],

  MPI_Isend: ["buffer" /* void* buf */, "int" /* count */, "handle" /* datatype */, "int" /* dest */, "int" /* tag */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Irecv: ["buffer" /* void* buf */, "int" /* count */, "handle" /* datatype */, "int" /* source */, "int" /* tag */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Irecv_at: ["address" /* void* buf */, "int" /* count */, "handle" /* datatype */, "int" /* source */, "int" /* tag */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Ibarrier: ["handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Iallgatherv: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "buffer" /* int recvcounts[] */, "buffer" /* int displs[] */, "handle" /* recvtype */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Ibcast: ["buffer" /* void* buffer */, "int" /* count */, "handle" /* datatype */, "int" /* root */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Ireduce: ["buffer" /* void* sendbuf */, "buffer" /* void* recvbuf */, "int" /* count */, "handle" /* datatype */, "handle" /* op */, "int" /* root */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Iallreduce: ["buffer" /* void* sendbuf */, "buffer" /* void* recvbuf */, "int" /* count */, "handle" /* datatype */, "handle" /* op */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Igather: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "int" /* root */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Iscatter: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "int" /* root */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Iallgather: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Ialltoall: ["buffer" /* void* sendbuf */, "int" /* sendcount */, "handle" /* sendtype */, "buffer" /* void* recvbuf */, "int" /* recvcount */, "handle" /* recvtype */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Send_init: ["buffer" /* void* buf */, "int" /* count */, "handle" /* datatype */, "int" /* dest */, "int" /* tag */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Recv_init: ["buffer" /* void* buf */, "int" /* count */, "handle" /* datatype */, "int" /* source */, "int" /* tag */, "handle" /* comm */, "buffer" /* MPI_Request* request */],
  MPI_Start: ["buffer" /* MPI_Request* request */],
  MPI_Startall: ["int" /* count */, "buffer" /* MPI_Request requests[] */],
  MPI_Request_free: ["buffer" /* MPI_Request* request */],
  MPI_Test: ["buffer" /* MPI_Request* request */, "buffer" /* int* flag */, "buffer" /* MPI_Status* status */],
  MPI_Wait: ["buffer" /* MPI_Request* request */, "buffer" /* MPI_Status* status */],
  MPI_Cancel: ["buffer" /* MPI_Request* request */],
  MPI_Test_cancelled: ["buffer" /* MPI_Status* status */, "buffer" /* int* flag */],

  MPI_Type_contiguous: ["int" /* count */, "handle" /* oldtype */, "buffer" /* MPI_Datatype* newtype */],
  MPI_Type_vector: ["int" /* count */, "int" /* blocklength */, "int" /* stride */, "handle" /* oldtype */, "buffer" /* MPI_Datatype* newtype */],
  MPI_Type_create_hvector: ["int" /* count */, "int" /* blocklength */, "address" /* MPI_Aint stride */, "handle" /* oldtype */, "buffer" /* MPI_Datatype* newtype */],
  MPI_Type_create_hindexed: ["int" /* count */, "buffer" /* int blocklengths[] */, "buffer" /* MPI_Aint displacements[] */, "handle" /* oldtype */, "buffer" /* MPI_Datatype* newtype */],
  MPI_Type_create_resized: ["handle" /* oldtype */, "address" /* MPI_Aint lb */, "address" /* MPI_Aint extent */, "buffer" /* MPI_Datatype* newtype */],
  MPI_Type_commit: ["buffer" /* MPI_Datatype* datatype */],
  MPI_Type_free: ["buffer" /* MPI_Datatype* datatype */],
  MPI_Op_create: ["address" /* MPI_User_function* user_fn */, "int" /* commute */, "buffer" /* MPI_Op* op */],
  MPI_Op_free: ["buffer" /* MPI_Op* op */],

  MPI_Win_allocate_shared: ["address" /* MPI_Aint size */, "int" /* disp_unit */, "handle" /* info */, "handle" /* comm */, "buffer" /* void* baseptr */, "buffer" /* MPI_Win* win */],
  MPI_Win_shared_query: ["handle" /* win */, "int" /* rank */, "buffer" /* MPI_Aint* size */, "buffer" /* int* disp_unit */, "buffer" /* void* baseptr */],
  MPI_Win_set_errhandler: ["handle" /* win */, "handle" /* errhandler */],
  MPI_Win_lock_all: ["int" /* assert */, "handle" /* win */],
  MPI_Win_unlock_all: ["handle" /* win */],
  MPI_Win_sync: ["handle" /* win */],
  MPI_Win_free: ["buffer" /* MPI_Win* win */],
} as const satisfies Record<string, readonly MpiParameter[]>;

/** What is passed for a parameter. */
export type MpiArgument<P> = P extends "buffer" ? ArrayBufferView | null : P extends "address" ? bigint
: P extends "int" ? number
: Handle;
export type MpiArguments<P extends readonly MpiParameter[]> = { -readonly [I in keyof P]: MpiArgument<P[I]> };

export type MpiFunctionName = keyof typeof MPI_FUNCTIONS;

/** The functions; each returns an error code. */
export type MpiFunctions = {
  [Name in MpiFunctionName]: (...values: MpiArguments<(typeof MPI_FUNCTIONS)[Name]>) => number;
};

/** The keys of {@linkcode MPI_FUNCTIONS}. */
export const MPI_FUNCTION_NAMES: readonly MpiFunctionName[] = Object.keys(MPI_FUNCTIONS) as MpiFunctionName[];

/** The functions that wait for other ranks. */
const WAITING: ReadonlySet<string> = new Set(
  [
    "MPI_Finalize",
    "MPI_Comm_dup",
    "MPI_Comm_split",
    "MPI_Comm_split_type",
    "MPI_Comm_create_group",
    "MPI_Comm_free",
    "MPI_Barrier",
    "MPI_Bcast",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Scan",
    "MPI_Exscan",
    "MPI_Reduce_scatter",
    "MPI_Gather",
    "MPI_Gatherv",
    "MPI_Scatter",
    "MPI_Scatterv",
    "MPI_Allgather",
    "MPI_Allgatherv",
    "MPI_Alltoall",
    "MPI_Alltoallv",
    "MPI_Alltoallw",
    "MPI_Send",
    "MPI_Recv",
    "MPI_Sendrecv",
    "MPI_Probe",
    "MPI_Wait",
    "MPI_Win_allocate_shared",
    "MPI_Win_free",
    "MPI_Cart_create",
    "MPI_Neighbor_allgather",
    "MPI_Neighbor_alltoall",
  ] satisfies readonly MpiFunctionName[],
);

/** Those that begin what all ranks take part in. */
const STARTING = /^MPI_I(all|barrier|bcast|reduce|gather|scatter)/;

function cName(name: MpiFunctionName): string {
  return name.replace(/_(in_place|at)$/, "");
}

function declaration(name: MpiFunctionName, handle: Abi["handle"]): Deno.ForeignFunction {
  const types = { buffer: "buffer", address: "u64", int: "i32", handle } as const;
  return {
    name: cName(name),
    parameters: MPI_FUNCTIONS[name].map((parameter: MpiParameter) => types[parameter]),
    result: "i32",
  };
}

/** Tell of a function in a table if it waits for other ranks, or begins what they take part in. */
export function noteFunction(functions: MpiFunctions, name: MpiFunctionName): void {
  if (WAITING.has(cName(name))) noteWaiting(functions, { [name]: cName(name) });
  if (STARTING.test(name)) noteStarting(functions, { [name]: cName(name) });
}

/** What the functions of a table throw that has ended. */
const refusals = new WeakMap<MpiFunctions, () => never>();

/**
 * Have all functions of a table throw from now on. Those that were never opened find it out when they are asked for: to put
 * something in the place of each takes 4 ms.
 */
export function endFunctions(functions: MpiFunctions, refusal: () => never): void {
  refusals.set(functions, refusal);
  for (const name of MPI_FUNCTION_NAMES) {
    const isOpened = "value" in Object.getOwnPropertyDescriptor(functions, name)!;
    if (isOpened) functions[name] = refusal;
  }
}

/**
 * The functions of the library in the file `path`. A function is opened when it is asked for first, since each costs 0.1 to
 * 0.4 ms and few scripts need more than ten. Nothing else stands in its place before: V8 calls at once what is always the
 * same function where it is called.
 */
export function mpiFunctions(path: string, handle: Abi["handle"]): MpiFunctions {
  const functions = {} as MpiFunctions;
  for (const name of MPI_FUNCTION_NAMES) {
    const set = (value: unknown) => Object.defineProperty(functions, name, { value, writable: true, enumerable: true });
    const get = () => {
      const refusal = refusals.get(functions);
      if (refusal !== undefined) return refusal;
      try {
        set(Deno.dlopen(path, { [name]: declaration(name, handle) }).symbols[name]);
      } catch (error) {
        // A function that this MPI lacks fails where it is called, not where a table of all is looked at.
        return () => {
          throw error;
        };
      }
      noteFunction(functions, name);
      return functions[name];
    };
    Object.defineProperty(functions, name, { get, set, enumerable: true, configurable: true });
  }
  return functions;
}
