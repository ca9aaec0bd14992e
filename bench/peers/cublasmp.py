"""The same cublasMpMatmul calls as bench/cublasmp.ts, driven by ctypes alone: what execute() is compared with.

Started by mpirun, one rank a GPU; the ranks find each other through a file. Prints one JSON line on rank 0.
usage: mpirun --bind-to none -n 4 python3 cublasmp.py UNIQUE_ID_FILE [ROUNDS] [exact]
With exact each shape has workspace of its own, of the size that it needs, as in NVIDIA's samples.
"""
import ctypes as c
import json
import os
import statistics
import sys
import time

rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
id_file, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9
is_exact = sys.argv[3:] == ["exact"]
folders = os.environ["DISTMATH_LIBRARY_PATH"].split(":")
# bench/cublasmp.ts warms up two ways to call, 200 times each.
WARMUPS, CALLS = 400, 20


def load(name):
    for folder in folders:
        if os.path.exists(f"{folder}/{name}"):
            return c.CDLL(f"{folder}/{name}", mode=c.RTLD_GLOBAL)
    raise SystemExit(f"{name} is in none of {folders}")


cuda, nccl = load("libcudart.so.13"), load("libnccl.so.2")
load("libcublasLt.so.13")
load("libcublas.so.13")
mp = load("libcublasmp.so.0")


def check(code):
    if code != 0:
        raise SystemExit(f"rank {rank}: code {code}")


class UniqueId(c.Structure):
    _fields_ = [("bytes", c.c_char * 128)]


check(cuda.cudaSetDevice(rank))
unique = UniqueId()
if rank == 0:
    check(nccl.ncclGetUniqueId(c.byref(unique)))
    with open(id_file + ".new", "wb") as file:
        file.write(bytes(unique))
    os.rename(id_file + ".new", id_file)
else:
    while not os.path.exists(id_file):
        time.sleep(0.01)
    with open(id_file, "rb") as file:
        c.memmove(c.byref(unique), file.read(), 128)
comm = c.c_void_p()
check(nccl.ncclCommInitRank(c.byref(comm), size, unique, rank))
stream, handle = c.c_void_p(), c.c_void_p()
check(cuda.cudaStreamCreateWithFlags(c.byref(stream), 1))
check(mp.cublasMpCreate(c.byref(handle), stream))
grid_columns, grid_rows = c.c_void_p(), c.c_void_p()
i64 = c.c_int64
check(mp.cublasMpGridCreate(i64(size), i64(1), 0, comm, c.byref(grid_columns)))
check(mp.cublasMpGridCreate(i64(1), i64(size), 1, comm, c.byref(grid_rows)))
BF16 = 14


# Memory comes from the stream's pool, which keeps what is freed, as distmath's does.
pool = c.c_void_p()
check(cuda.cudaDeviceGetDefaultMemPool(c.byref(pool), rank))
check(cuda.cudaMemPoolSetAttribute(pool, 4, c.byref(c.c_uint64(2**64 - 1))))


def malloc(elements):
    pointer = c.c_void_p()
    check(cuda.cudaMallocAsync(c.byref(pointer), c.c_size_t(2 * elements), stream))
    check(cuda.cudaMemsetAsync(pointer, 0x3C, c.c_size_t(2 * elements), stream))
    return pointer


one_float = malloc(2)


def barrier():
    check(nccl.ncclAllReduce(one_float, one_float, c.c_size_t(1), 7, 0, comm, stream))
    check(cuda.cudaStreamSynchronize(stream))


# One workspace for all shapes, as distmath has.
shared = None


def workspace_of(needed, own, other):
    global shared
    if shared is not None and not is_exact and shared[1] >= needed:
        return shared[0]
    free, total = c.c_size_t(), c.c_size_t()
    check(cuda.cudaMemGetInfo(c.byref(free), c.byref(total)))
    size = needed if is_exact else -(-max(needed, total.value // 128) // 2**21) * 2**21
    memory = c.c_void_p()
    check(mp.cublasMpMalloc(own, c.byref(memory), c.c_size_t(size)))
    check(mp.cublasMpBufferRegister(other, memory, c.c_size_t(size)))
    shared = memory, size
    return memory


def matrix(rows, columns, block_rows, block_columns, leading, grid):
    descriptor = c.c_void_p()
    extents = [i64(x) for x in (rows, columns, block_rows, block_columns, 0, 0, leading)]
    check(mp.cublasMpMatrixDescriptorCreate(*extents, BF16, grid, c.byref(descriptor)))
    return descriptor


def measure(kind, m, n, k):
    if kind == "gather":
        a = matrix(k, m, k, m // size, k, grid_rows)
        b = matrix(k, n, k, n // size, k, grid_rows)
        d = matrix(m, n, m // size, n // size, m // size, grid_columns)
        own, other = grid_columns, grid_rows
    else:
        a = matrix(k, m, k // size, m, k // size, grid_columns)
        b = matrix(k, n, k // size, n // size, k // size, grid_columns)
        d = matrix(m, n, m, n // size, m, grid_rows)
        own, other = grid_rows, grid_columns
    memory = [malloc(k * m // size), malloc(k * n // size), malloc(m * n // size)]
    product = c.c_void_p()
    check(mp.cublasMpMatmulDescriptorCreate(c.byref(product), 68))
    for attribute, value in ((0, 1), (1, 0), (3, 1)):
        cell = c.c_int32(value)
        check(mp.cublasMpMatmulDescriptorSetAttribute(product, attribute, c.byref(cell), c.c_size_t(4)))
    alpha, beta = c.c_float(1), c.c_float(0)
    one = i64(1)
    arguments = [
        handle, product, i64(m), i64(n), i64(k),
        c.byref(alpha), memory[0], one, one, a, memory[1], one, one, b,
        c.byref(beta), c.c_void_p(), one, one, d, memory[2], one, one, d,
    ]
    device, host = c.c_size_t(), c.c_size_t()
    check(mp.cublasMpMatmul_bufferSize(*arguments, c.byref(device), c.byref(host)))
    workspace, host_workspace = workspace_of(device.value, own, other), c.create_string_buffer(max(16, host.value))
    call = [*arguments, workspace, device, host_workspace, c.c_size_t(len(host_workspace))]
    events = [c.c_void_p(), c.c_void_p()]
    for event in events:
        check(cuda.cudaEventCreate(c.byref(event)))
    times = []
    for _ in range(WARMUPS):
        check(mp.cublasMpMatmul(*call))
    check(cuda.cudaStreamSynchronize(stream))
    for _ in range(rounds):
        barrier()
        check(cuda.cudaEventRecord(events[0], stream))
        for _ in range(CALLS):
            check(mp.cublasMpMatmul(*call))
        check(cuda.cudaEventRecord(events[1], stream))
        check(cuda.cudaStreamSynchronize(stream))
        milliseconds = c.c_float()
        check(cuda.cudaEventElapsedTime(c.byref(milliseconds), events[0], events[1]))
        times.append(1000 * milliseconds.value / CALLS)
    for pointer in memory:
        check(cuda.cudaFreeAsync(pointer, stream))
    if is_exact:
        check(mp.cublasMpBufferDeregister(other, workspace))
        check(mp.cublasMpFree(own, workspace))
    return {"device": statistics.median(times), "rounds": [round(t, 1) for t in times], "workspaceBytes": device.value}


results = {}
for shape in ((8192, 11008, 4096), (8192, 8192, 8192)):
    for kind in ("gather", "reduce"):
        results[f"{kind} {'x'.join(map(str, shape))}"] = measure(kind, *shape)
if rank == 0:
    program = "ctypes exact" if is_exact else "ctypes"
    print(json.dumps({"program": program, "ranks": size, "results": results}), flush=True)
