/**
 * What cuBLASMp needs beside a product: a handle, process grids, workspace that all ranks reach. Made once for a runtime,
 * shared by its plans, and freed before MPI ends.
 *
 * @module
 */
import { checkCublasMp, type CublasMp, CublasMpGridLayout, openCublasMp } from "../../../../ffi/cuda/cublasmp.ts";
import { NcclConstant } from "../../../../ffi/cuda/nccl.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { ConfigurationError } from "../../../errors.ts";
import { freeBytesFor } from "../../../memory/memory_pool.ts";
import { SymmetricBuffer } from "../../../memory/symmetric_memory.ts";
import { agree, agreeOnLargest } from "../../../runtime/agreement.ts";
import { callJointly } from "../../../runtime/joint_call.ts";
import { beforeMpiEnds } from "../../../mpi/init_finalize.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { NcclCommunicator } from "../../../gpu/nccl.ts";
import { RunOrder } from "../../../gpu/run_order.ts";
import { isIdle, type Stream } from "../../../gpu/stream.ts";
import type { GridShape } from "./paths.ts";

/** A plan's use of memory that cuBLASMp reaches on all ranks. */
export interface Workspace {
  readonly address: bigint;
  /** The bytes that were asked for, by the rank that asked for the most. */
  readonly byteLength: number;
}

/** Workspace of NCCL symmetric memory, registered with every grid that uses it. */
interface RegisteredWorkspace {
  readonly address: bigint;
  /** Its size, the same on all ranks. */
  readonly byteLength: number;
  /** The grid that allocated it. */
  readonly owner: bigint;
  /** The other grids that it is registered with. */
  readonly registered: Set<bigint>;
}

/** Sizes are rounded up to this. */
const GRANULARITY = 2 ** 21;

/** NCCL's windows end at multiples of this many bytes. */
const WINDOW_ALIGNMENT = NcclConstant.WIN_REQUIRED_ALIGNMENT;

/** The part of a GPU's memory that the first workspace takes at least, so that most later plans find it large enough. */
const FIRST_SHARE = 1 / 128;

/** cuBLASMp on the GPUs of a runtime. */
export class CublasMpResources {
  /** cuBLASMp's functions. */
  readonly symbols: CublasMp["symbols"];
  /** cuBLASMp's version, such as 1000 for 0.10.0. */
  readonly version: number;
  readonly #runtime: Runtime;
  readonly #nccl: NcclCommunicator;
  readonly #handle: bigint;
  readonly #grids = new Map<string, bigint>();
  /** Each larger than the one before. Plans and captured graphs may still use the smaller ones. */
  readonly #workspaces: RegisteredWorkspace[] = [];
  /** Memory of the user's, and the grids that it is registered with. */
  readonly #buffers = new Map<bigint, Map<bigint, boolean>>();
  readonly #kept: unknown[] = [];
  #stream: bigint;
  readonly #order: RunOrder;

  /** Collective: begins with the NCCL communicator, if that is not there yet. */
  constructor(runtime: Runtime) {
    const out = new BigUint64Array(1);
    this.#nccl = runtime.nccl();
    const { symbols, version } = openCublasMp();
    this.symbols = symbols;
    this.version = version;
    this.#runtime = runtime;
    this.#order = RunOrder.of(runtime.stream!);
    this.#stream = runtime.stream!.handle;
    checkCublasMp(symbols.cublasMpCreate(out, this.#stream), "cublasMpCreate");
    this.#handle = out[0];
    beforeMpiEnds(() => this.#free());
  }

  /** The `cublasMpHandle_t`, whose work goes to the given stream until {@linkcode end}, or for good to the runtime's. */
  handleOn(stream: Stream): bigint {
    if (stream.handle !== this.#stream) {
      checkCublasMp(this.symbols.cublasMpSetStream(this.#handle, stream.handle), "cublasMpSetStream");
      this.#stream = stream.handle;
    }
    return this.#handle;
  }

  /** Products share workspace, and wait for other GPUs: have one that begins on this stream come after those before. */
  begin(on: Stream): void {
    this.#order.begin(on);
  }

  /**
   * Note the end of a product. The handle goes back to the runtime's stream: cuBLASMp fails if the stream of its handle was
   * destroyed.
   */
  end(on: Stream): void {
    this.handleOn(this.#runtime.stream!);
    this.#order.end(on);
  }

  /** Have the runtime's stream wait for products on others, so that what they used may be freed in its order. */
  settle(): void {
    this.#order.settle();
  }

  /** Keep host memory that work on the runtime's stream may still use. */
  keepUntilDone(memory: unknown): void {
    if (isIdle(this.#runtime.stream!)) this.#kept.length = 0;
    this.#kept.push(memory);
  }

  /** The grid of a shape. Collective at its first use. */
  grid({ rows, columns, layout }: GridShape): bigint {
    const key = `${rows} x ${columns} ${layout}`;
    let grid = this.#grids.get(key);
    if (grid === undefined) {
      const out = new BigUint64Array(1);
      const order = layout === "column-major" ? CublasMpGridLayout.COL_MAJOR : CublasMpGridLayout.ROW_MAJOR;
      const comm = this.#nccl.handle;
      this.#callJointly(
        "cublasMpGridCreate",
        (name) => this.symbols[name](BigInt(rows), BigInt(columns), order, comm, out),
      );
      this.#grids.set(key, grid = out[0]);
    }
    return grid;
  }

  /**
   * Workspace of at least so many bytes, as this rank is told by `ask`, registered with these grids. All plans share it, and
   * their products run one after the other. Collective; fails on every rank if `ask` does on any.
   */
  workspace(ask: () => number, grids: readonly bigint[]): Workspace {
    const needed = agreeOnLargest(this.#runtime, "cublasMpMatmul_bufferSize", ask);
    let workspace = this.#workspaces.at(-1);
    if (workspace === undefined || workspace.byteLength < needed) {
      // GPUs may have other memory than those of other ranks.
      const share = () => Math.ceil(this.#runtime.device.memoryBytes * FIRST_SHARE);
      const usual = workspace === undefined ? agreeOnLargest(this.#runtime, "cublasMpMalloc", share) : 0;
      const size = Math.ceil(Math.max(1, needed, usual) / GRANULARITY) * GRANULARITY;
      this.#workspaces.push(workspace = this.#allocate(size, grids[0]));
    }
    for (const grid of grids) this.#register(workspace, grid);
    return { address: workspace.address, byteLength: needed };
  }

  /**
   * Register a matrix with a grid if it lies at the beginning of NCCL's symmetric memory on all ranks, so that cuBLASMp sends
   * it from there. Until that memory is freed. Collective at its first use, by which that is decided.
   */
  share(matrix: LocalArray, grid: bigint): void {
    const { buffer } = matrix;
    if (!(buffer instanceof SymmetricBuffer) || buffer.backend !== "nccl") return;
    const { address, byteLength } = buffer;
    let grids = this.#buffers.get(address);
    if (grids?.has(grid)) return;
    if (grids === undefined) {
      this.#buffers.set(address, grids = new Map());
      buffer.beforeEnd(() => this.#unshare(address));
    }
    const name = "cublasMpBufferRegister";
    // A slice may begin within the memory on some ranks only.
    const isWhole = agreeOnLargest(this.#runtime, name, () => Number(matrix.address !== address)) === 0;
    const size = BigInt(Math.ceil(byteLength / WINDOW_ALIGNMENT) * WINDOW_ALIGNMENT);
    if (isWhole) this.#callJointly(name, () => this.symbols[name](grid, address, size));
    grids.set(grid, isWhole);
  }

  #unshare(address: bigint): void {
    const grids = this.#buffers.get(address) ?? [];
    this.#buffers.delete(address);
    this.settle();
    this.#runtime.stream!.synchronize();
    for (const [grid, isRegistered] of grids) {
      if (!isRegistered) continue;
      checkCublasMp(this.symbols.cublasMpBufferDeregister(grid, address), "cublasMpBufferDeregister");
    }
  }

  #allocate(byteLength: number, owner: bigint): RegisteredWorkspace {
    // cuBLASMp would wait for a rank that has no memory.
    agree(this.#runtime, "Matmul.plan", () => this.#checkFree(byteLength));
    const out = new BigUint64Array(1);
    this.#callJointly("cublasMpMalloc", (name) => this.symbols[name](owner, out, BigInt(byteLength)));
    return { address: out[0], byteLength, owner, registered: new Set() };
  }

  #checkFree(bytes: number): void {
    const freeBytes = freeBytesFor(bytes, this.#runtime.stream!);
    if (freeBytes >= bytes) return;
    throw new ConfigurationError(
      `No memory for ${bytes} bytes of workspace on a GPU that has ${freeBytes} left. Free arrays, or distribute them ` +
        `over more GPUs.`,
    );
  }

  #register({ address, byteLength, owner, registered }: RegisteredWorkspace, grid: bigint): void {
    if (grid === owner || registered.has(grid)) return;
    this.#callJointly("cublasMpBufferRegister", (name) => this.symbols[name](grid, address, BigInt(byteLength)));
    registered.add(grid);
  }

  #callJointly<N extends "cublasMpGridCreate" | "cublasMpMalloc" | "cublasMpBufferRegister">(
    name: N,
    call: (name: N) => number,
  ): void {
    callJointly(this.#runtime, name, () => checkCublasMp(call(name), name));
  }

  #free(): void {
    const { symbols } = this;
    resources.delete(this.#runtime);
    // What cuBLASMp has made of NCCL's communicator has gone with it.
    if (this.#nccl.isAborted) return;
    this.settle();
    this.#runtime.stream!.synchronize();
    for (const address of [...this.#buffers.keys()]) this.#unshare(address);
    for (const { address, owner, registered } of this.#workspaces) {
      for (const grid of registered) {
        checkCublasMp(symbols.cublasMpBufferDeregister(grid, address), "cublasMpBufferDeregister");
      }
      checkCublasMp(symbols.cublasMpFree(owner, address), "cublasMpFree");
    }
    for (const grid of this.#grids.values()) checkCublasMp(symbols.cublasMpGridDestroy(grid), "cublasMpGridDestroy");
    checkCublasMp(symbols.cublasMpDestroy(this.#handle), "cublasMpDestroy");
  }
}

const resources = new WeakMap<Runtime, CublasMpResources>();

/** cuBLASMp on the GPUs of a runtime. Collective at the first call. */
export function cublasMpResources(runtime: Runtime): CublasMpResources {
  let found = resources.get(runtime);
  if (!found) resources.set(runtime, found = new CublasMpResources(runtime));
  return found;
}
