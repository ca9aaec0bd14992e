"""PyTorch's side of bench/overlap.ts: asynchronous tensor parallelism, torch.mm and NCCL, torch.mm alone.

Started by mpirun, one rank a GPU; the same shapes, slots and pauses. Prints one JSON line on rank 0.
usage: mpirun --bind-to none -n 2 python3 overlap.py [KINDS] [SHAPES, as M,N,K;...] [ROUNDS] [steady]
"""
import json
import math
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
group = dist.group.WORLD.group_name
import torch.distributed._symmetric_memory as symmetric_memory

symmetric_memory.enable_symm_mem_for_group(group)

COMMON = [(8192, 11008, 4096), (8192, 28672, 8192), (8192, 10240, 8192), (8192, 8192, 8192), (4096, 8192, 8192),
          (2048, 8192, 8192), (512, 8192, 8192)]
LONG = [(8192, 8192, 28672), (8192, 4096, 14336)]
FEW = [(m, 8192, 8192) for m in (16, 64, 128, 256)]
SHAPES = {"ag": COMMON, "rs": COMMON + LONG, "ar": COMMON + LONG + FEW}
kinds = (sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] else "ag,rs,ar").split(",")
given = [tuple(map(int, shape.split(","))) for shape in sys.argv[2].split(";")] if len(sys.argv) > 2 and sys.argv[2] else None
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 4
has_steady = "steady" in sys.argv[4:]


LEAD_MILLISECONDS = 1  # before what is timed, for the host to be ahead, as in bench/overlap/contest.ts


def slot(call, estimate, milliseconds=8, has_pause=True):
    calls = max(2, round(milliseconds * 1e3 / estimate))
    lead = math.ceil(LEAD_MILLISECONDS * 1e3 / estimate) if has_pause else 0
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    dist.barrier()
    torch.cuda.synchronize()
    for _ in range(lead):
        call()
    start.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    slowest = torch.tensor([start.elapsed_time(end) * 1e3 / calls], device="cuda")
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if has_pause:
        time.sleep((milliseconds + LEAD_MILLISECONDS) / 1e3)
    return slowest.item()


def estimate(call):
    slot(call, 1e6, 1, False)
    return slot(call, slot(call, 1000, 2, False), 2)


def steady(call):
    """Microseconds a call after 0.7 s of it, over 0.4 s."""
    expected = estimate(call)
    slot(call, expected, 700, False)
    return slot(call, expected, 400, False)


def contest(gemm, contestants):
    estimates = {name: estimate(call) for name, call in contestants.items()}
    of_gemm = estimate(gemm)
    times, ratios, alone = {n: [] for n in contestants}, {n: [] for n in contestants}, []
    names = list(contestants)
    for turn in range(rounds):
        alone.append(slot(gemm, of_gemm))
        for i in range(len(names)):
            name = names[(i + turn) % len(names)]
            spent = slot(contestants[name], estimates[name])
            alone.append(slot(gemm, of_gemm))
            times[name].append(spent)
            ratios[name].append(2 * spent / (alone[-1] + alone[-2]))
    result = {n: {"time": statistics.median(times[n]), "ratio": statistics.median(ratios[n])} for n in names}
    row = {"standings": {**result, "gemm": {"time": statistics.median(alone), "ratio": 1}}}
    if has_steady:
        row["steady"] = {name: steady(call) for name, call in {**contestants, "gemm": gemm}.items()}
    return row


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def measure(kind, m, n, k):
    contestants = {}
    if kind == "ag":
        shard, weights, whole = random(m // size, k), random(n // size, k).t(), random(m, k)
        gathered = torch.empty(m, k, device="cuda", dtype=torch.bfloat16)

        def nccl():
            dist.all_gather_into_tensor(gathered, shard)
            torch.mm(gathered, weights)

        contestants["async_tp"] = lambda: torch.ops.symm_mem.fused_all_gather_matmul(shard, [weights], 0, group)
        contestants["nccl"] = nccl
        return contest(lambda: torch.mm(whole, weights), contestants)
    left, weights = random(m, k // size), random(n, k // size).t()
    part = torch.empty(m // size, n, device="cuda", dtype=torch.bfloat16)

    def nccl():
        result = torch.mm(left, weights)
        if kind == "rs":
            dist.reduce_scatter_tensor(part, result)
        else:
            dist.all_reduce(result)

    if kind == "rs":
        contestants["async_tp"] = lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(left, weights, "sum", 0, group)
    contestants["nccl"] = nccl
    return contest(lambda: torch.mm(left, weights), contestants)


rows = []
for kind in kinds:
    for shape in given or SHAPES[kind]:
        row = {"kind": kind, "shape": shape, **measure(kind, *shape)}
        rows.append(row)
        if rank == 0:
            print(kind, *shape, *(f"{name} {s['time']:.1f}" for name, s in row["standings"].items()), flush=True)
if rank == 0:
    print(json.dumps({"program": f"torch {torch.__version__}", "ranks": size, "rows": rows}), flush=True)
dist.destroy_process_group()
