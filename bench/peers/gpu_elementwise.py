"""What bench/gpu_elementwise.ts measures, by PyTorch on one GPU."""

import json
import time

import torch

ROUNDS = 20
SHAPE = (100_000, 1000)


def measure(action):
    action()
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        action()
        torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - start))
    return round(sorted(times)[ROUNDS // 2], 1)


results = {}
for name, dtype in [("float64", torch.float64), ("float32", torch.float32), ("bfloat16", torch.bfloat16)]:
    a, b, c = [(torch.rand(SHAPE, device="cuda") + 0.5).to(dtype) for _ in range(3)]
    actions = {
        "add": lambda: torch.add(a, b, out=c),
        "new": lambda: a + b,
        "scale": lambda: torch.mul(a, 2, out=c),
        "sqrt": lambda: torch.sqrt(a, out=c),
        "exp": lambda: torch.exp(a, out=c),
        "less": lambda: a < b,
        "a * exp(-b) + 1": lambda: a * torch.exp(-b) + 1,
        "sum": lambda: a.sum().item(),
        "mean": lambda: a.mean().item(),
        "var": lambda: a.var(correction=0).item(),
        "norm": lambda: torch.linalg.vector_norm(a).item(),
        "min": lambda: a.min().item(),
        "max": lambda: a.max().item(),
        "argmin": lambda: a.argmin().item(),
    }
    for axis, along in enumerate(["columns", "rows"]):
        actions |= {
            f"sum of {along}": lambda axis=axis: a.sum(axis),
            f"mean of {along}": lambda axis=axis: a.mean(axis),
            f"var of {along}": lambda axis=axis: a.var(axis, correction=0),
            f"norm of {along}": lambda axis=axis: torch.linalg.vector_norm(a, dim=axis),
            f"min of {along}": lambda axis=axis: a.amin(axis),
            f"max of {along}": lambda axis=axis: a.amax(axis),
            f"argmin of {along}": lambda axis=axis: a.argmin(axis),
        }
    for what, action in actions.items():
        results[f"{what} {name}"] = measure(action)
    del a, b, c
print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "results": results}, indent=1))
