/** What native libraries hold for this process: handles that were made and not freed, counted where they are called. */

/** Where a function has the handle: a parameter by its number, from the end if negative, or its result. */
type Place = number | "result";

/** What is counted together: the functions that make it, and those that free it. */
interface Kind {
  readonly made: Readonly<Record<string, Place>>;
  readonly freed: Readonly<Record<string, number>>;
}

/** Functions that all have the handle at one place. */
const at = <P extends Place>(place: P, names: string): Record<string, P> =>
  Object.fromEntries(names.split(" ").map((name) => [name, place]));

// deno-fmt-ignore
const KINDS: Readonly<Record<string, Kind>> = {
  communicators: {
    made: at(-1, "MPI_Comm_dup MPI_Comm_split MPI_Comm_split_type MPI_Comm_create_group MPI_Cart_create"),
    freed: at(0, "MPI_Comm_free"),
  },
  groups: { made: at(-1, "MPI_Comm_group MPI_Group_incl"), freed: at(0, "MPI_Group_free") },
  datatypes: {
    made: at(-1, "MPI_Type_contiguous MPI_Type_vector MPI_Type_create_hvector MPI_Type_create_hindexed MPI_Type_create_resized"),
    freed: at(0, "MPI_Type_free"),
  },
  operators: { made: at(-1, "MPI_Op_create"), freed: at(0, "MPI_Op_free") },
  requests: {
    made: {
      ...at(-1, "MPI_Isend MPI_Irecv MPI_Irecv_at MPI_Send_init MPI_Recv_init MPI_Ibarrier MPI_Ibcast MPI_Ireduce MPI_Iallreduce"),
      ...at(-1, "MPI_Igather MPI_Iscatter MPI_Iallgather MPI_Iallgatherv MPI_Ialltoall"),
    },
    freed: at(0, "MPI_Wait MPI_Test MPI_Request_free"),
  },
  windows: { made: at(-1, "MPI_Win_allocate_shared"), freed: at(0, "MPI_Win_free") },
  "process grids": {
    made: { Csys2blacs_handle: "result", Cblacs_gridmap: 0, cublasMpGridCreate: -1 },
    freed: at(0, "Cfree_blacs_system_handle Cblacs_gridexit cublasMpGridDestroy"),
  },
  "plans of transforms": {
    made: {
      ...at("result", "fftw_plan_guru64_dft fftw_plan_guru64_dft_r2c fftw_plan_guru64_dft_c2r"),
      ...at(0, "cufftCreate cufftMpCreateReshape"),
    },
    freed: at(0, "fftw_destroy_plan cufftDestroy cufftMpDestroyReshape"),
  },
  streams: { made: at(0, "cudaStreamCreateWithFlags cudaStreamCreateWithPriority"), freed: at(0, "cudaStreamDestroy") },
  events: { made: at(0, "cudaEventCreateWithFlags cudaIpcOpenEventHandle"), freed: at(0, "cudaEventDestroy") },
  graphs: {
    made: { cudaStreamEndCapture: 1, cudaGraphInstantiate: 0 },
    freed: at(0, "cudaGraphDestroy cudaGraphExecDestroy"),
  },
  modules: {
    made: at(0, "cuModuleLoadData cuModuleLoadDataEx nvrtcCreateProgram"),
    freed: at(0, "cuModuleUnload nvrtcDestroyProgram"),
  },
  allocations: {
    made: {
      ...at(0, "cudaMalloc cudaMallocAsync cudaHostAlloc cudaIpcOpenMemHandle ncclMemAlloc"),
      ...at("result", "nvshmem_malloc nvshmem_calloc nvshmem_align"),
    },
    freed: at(0, "cudaFree cudaFreeAsync cudaFreeHost cudaIpcCloseMemHandle ncclMemFree nvshmem_free"),
  },
  "handles of NCCL": {
    made: { ncclCommInitRank: 0, ncclCommSplit: 3, ncclCommRegister: 3, ncclCommWindowRegister: 3 },
    freed: { ...at(0, "ncclCommDestroy ncclCommAbort"), ...at(1, "ncclCommDeregister ncclCommWindowDeregister") },
  },
  "handles of cuBLAS": {
    made: {
      ...at(0, "cublasLtCreate cublasLtMatmulDescCreate cublasLtMatrixLayoutCreate cublasLtMatmulPreferenceCreate"),
      ...at(0, "cublasMpCreate cublasMpMatmulDescriptorCreate"),
      ...at(-1, "cublasMpMatrixDescriptorCreate"),
      ...at(1, "cublasMpBufferRegister"),
    },
    freed: {
      ...at(0, "cublasLtDestroy cublasLtMatmulDescDestroy cublasLtMatrixLayoutDestroy cublasLtMatmulPreferenceDestroy"),
      ...at(0, "cublasMpDestroy cublasMpMatmulDescriptorDestroy cublasMpMatrixDescriptorDestroy"),
      ...at(1, "cublasMpBufferDeregister"),
    },
  },
};

type Handle = bigint | number;
type Call = (...given: unknown[]) => unknown;

/** Functions of native libraries by name. */
type Functions = Readonly<Record<string, Call | null>>;

/** A handle that is passed as it is, or in memory that the function writes to. */
const handleIn = (given: unknown): Handle => ArrayBuffer.isView(given) ? (given as BigUint64Array)[0] : given as Handle;

/** The handles that are alive. Each is there once, however often a library gives it away. */
export class LiveHandles {
  /** By kind, of kinds that were made. */
  readonly #live = new Map<string, Set<Handle>>();
  /** What stands for none: a null pointer, what is no context of BLACS, and what frees leave, such as MPI_COMM_NULL. */
  readonly #none = new Set<Handle>([0n, -1]);

  /** The same functions, with handles noted. */
  counted(functions: Functions): Functions {
    const all = Object.entries(functions);
    return Object.fromEntries(all.map(([name, call]) => [name, call === null ? null : this.#around(name, call)]));
  }

  /** How many there are of each kind of which any were made. */
  counts(): Record<string, number> {
    return Object.fromEntries([...this.#live].map(([kind, { size }]) => [kind, size]));
  }

  #around(name: string, call: Call): Call {
    for (const [kind, { made, freed }] of Object.entries(KINDS)) {
      if (name in made) return this.#making(kind, made[name], call);
      if (name in freed) return this.#freeing(kind, freed[name], call);
    }
    return call;
  }

  #making(kind: string, place: Place, call: Call): Call {
    return (...given) => {
      const result = call(...given);
      const hasFailed = place !== "result" && (result ?? 0) !== 0;
      const handle = place === "result" ? result as Handle : handleIn(given.at(place));
      if (hasFailed || this.#none.has(handle)) return result;
      if (!this.#live.has(kind)) this.#live.set(kind, new Set());
      this.#live.get(kind)!.add(handle);
      return result;
    };
  }

  /** What stays in its place was not freed: a request that is not complete, or a prepared one. Another time there is none. */
  #freeing(kind: string, place: number, call: Call): Call {
    return (...given) => {
      const handle = handleIn(given[place]);
      const result = call(...given);
      const live = this.#live.get(kind);
      if (!ArrayBuffer.isView(given[place])) {
        live?.delete(handle);
        return result;
      }
      const left = handleIn(given[place]);
      if (left === handle) return result;
      this.#none.add(left);
      for (const gone of [handle, left]) live?.delete(gone);
      return result;
    };
  }
}

/** Count the handles of all libraries that are opened from now on. */
export function countHandles(): LiveHandles {
  const handles = new LiveHandles();
  const { dlopen } = Deno;
  Deno.dlopen = (file, symbols) => {
    const library = dlopen(file, symbols);
    return { symbols: handles.counted(library.symbols as Functions), close() {} } as typeof library;
  };
  return handles;
}
