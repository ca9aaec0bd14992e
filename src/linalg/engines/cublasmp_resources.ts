/**
 * What cuBLASMp needs beside a product: a handle, process grids, workspace that all ranks reach. Made once for a runtime,
 * shared by its plans, and freed before MPI ends.
 *
 * @module
 */
import { checkCublasMp, type CublasMp, CublasMpGridLayout, openCublasMp } from "../../../ffi/cublasmp.ts";
import { beforeMpiEnds } from "../../runtime/mpi.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Stream } from "../../runtime/stream.ts";
import type { GridShape } from "./cublasmp_paths.ts";

/** Workspace that cuBLASMp reaches on all ranks: NCCL symmetric memory, registered with every grid that uses it. */
interface SharedWorkspace {
  /** The same on all ranks. */
  readonly id: number;
  /** Where it lies. */
  readonly address: bigint;
  /** Its size, the same on all ranks. */
  readonly byteLength: number;
  /** The grid that allocated it. */
  readonly owner: bigint;
  /** The other grids that it is registered with. */
  readonly registered: Set<bigint>;
  isUsed: boolean;
}

/** A plan's use of workspace; disposing gives it back for the next plan. */
export interface WorkspaceUse extends Disposable {
  /** Where it lies. */
  readonly address: bigint;
  /** Its size. */
  readonly byteLength: number;
  /** The bytes that were asked for, by the rank that asked for the most. */
  readonly needed: number;
}

/** Sizes are rounded up to this, so that plans of similar sizes share. */
const GRANULARITY = 2 ** 21;

/** cuBLASMp on the GPUs of a runtime. */
export class CublasMpResources {
  readonly #runtime: Runtime;
  readonly #library: CublasMp;
  readonly #handle: bigint;
  readonly #grids = new Map<string, bigint>();
  readonly #workspaces: SharedWorkspace[] = [];
  readonly #kept: unknown[] = [];
  #stream: bigint;
  #made = 0;

  /** Collective: begins with the NCCL communicator, if that is not there yet. */
  constructor(runtime: Runtime) {
    const out = new BigUint64Array(1);
    runtime.nccl();
    this.#runtime = runtime;
    this.#library = openCublasMp();
    this.#stream = runtime.stream!.handle;
    checkCublasMp(this.#library.symbols.cublasMpCreate(out, this.#stream), "cublasMpCreate");
    this.#handle = out[0];
    beforeMpiEnds(() => this.#free());
  }

  /** cuBLASMp's functions. */
  get symbols(): CublasMp["symbols"] {
    return this.#library.symbols;
  }

  /** The `cublasMpHandle_t`, whose work goes to the given stream from now on. */
  handleOn(stream: Stream): bigint {
    if (stream.handle !== this.#stream) {
      checkCublasMp(this.symbols.cublasMpSetStream(this.#handle, stream.handle), "cublasMpSetStream");
      this.#stream = stream.handle;
    }
    return this.#handle;
  }

  /** Keep host memory that work on the runtime's stream may still use. */
  keepUntilDone(memory: unknown): void {
    if (this.#runtime.stream!.isDone) this.#kept.length = 0;
    this.#kept.push(memory);
  }

  /** The grid of a shape. Collective at its first use. */
  grid({ rows, columns, layout }: GridShape): bigint {
    const key = `${rows} x ${columns} ${layout}`;
    let grid = this.#grids.get(key);
    if (grid === undefined) {
      const out = new BigUint64Array(1);
      const order = layout === "column-major" ? CublasMpGridLayout.COL_MAJOR : CublasMpGridLayout.ROW_MAJOR;
      const comm = this.#runtime.nccl().handle;
      const code = this.symbols.cublasMpGridCreate(BigInt(rows), BigInt(columns), order, comm, out);
      checkCublasMp(code, "cublasMpGridCreate");
      this.#grids.set(key, grid = out[0]);
    }
    return grid;
  }

  /**
   * Workspace of at least so many bytes, which the ranks need not agree on, registered with these grids. Collective.
   */
  workspace(bytes: number, grids: readonly bigint[]): WorkspaceUse {
    const { communicator } = this.#runtime;
    const [needed] = communicator.allReduce(Float64Array.of(bytes), { op: "max" });
    const size = Math.max(GRANULARITY, Math.ceil(needed / GRANULARITY) * GRANULARITY);
    // A plan may have been disposed of on some ranks only: take what is free on all of them.
    const isFree = Int8Array.from(this.#workspaces, ({ isUsed, byteLength }) => isUsed || byteLength < size ? 0 : 1);
    const isFreeEverywhere = communicator.allReduce(isFree, { op: "min" });
    const fitting = this.#workspaces.filter((_, i) => isFreeEverywhere[i] === 1);
    fitting.sort((one, other) => one.byteLength - other.byteLength || one.id - other.id);
    const workspace = fitting[0] ?? this.#allocate(size, grids[0]);
    for (const grid of grids) this.#register(workspace, grid);
    workspace.isUsed = true;
    const { address, byteLength } = workspace;
    return {
      address,
      byteLength,
      needed,
      [Symbol.dispose]: () => {
        workspace.isUsed = false;
      },
    };
  }

  #allocate(byteLength: number, owner: bigint): SharedWorkspace {
    const out = new BigUint64Array(1);
    checkCublasMp(this.symbols.cublasMpMalloc(owner, out, BigInt(byteLength)), "cublasMpMalloc");
    const workspace = {
      id: this.#made++,
      address: out[0],
      byteLength,
      owner,
      registered: new Set<bigint>(),
      isUsed: false,
    };
    this.#workspaces.push(workspace);
    return workspace;
  }

  #register({ address, byteLength, owner, registered }: SharedWorkspace, grid: bigint): void {
    if (grid === owner || registered.has(grid)) return;
    checkCublasMp(this.symbols.cublasMpBufferRegister(grid, address, BigInt(byteLength)), "cublasMpBufferRegister");
    registered.add(grid);
  }

  #free(): void {
    this.#runtime.stream!.synchronize();
    for (const { address, owner, registered } of this.#workspaces) {
      for (const grid of registered) {
        checkCublasMp(this.symbols.cublasMpBufferDeregister(grid, address), "cublasMpBufferDeregister");
      }
      checkCublasMp(this.symbols.cublasMpFree(owner, address), "cublasMpFree");
    }
    for (const grid of this.#grids.values()) {
      checkCublasMp(this.symbols.cublasMpGridDestroy(grid), "cublasMpGridDestroy");
    }
    checkCublasMp(this.symbols.cublasMpDestroy(this.#handle), "cublasMpDestroy");
    resources.delete(this.#runtime);
  }
}

const resources = new WeakMap<Runtime, CublasMpResources>();

/** cuBLASMp on the GPUs of a runtime. Collective at the first call. */
export function cublasMpResources(runtime: Runtime): CublasMpResources {
  let found = resources.get(runtime);
  if (!found) resources.set(runtime, found = new CublasMpResources(runtime));
  return found;
}
