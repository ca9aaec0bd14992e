"""The transforms of bench/gpu_fft.ts on one GPU by torch.fft, which calls cuFFT. Prints one JSON line."""

import json
import statistics

import torch

CALLS, ROUNDS = 5, 9


def measure(n, dtype):
    field = torch.randn(n, n, n, dtype=dtype, device="cuda")
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    times = []
    torch.fft.fftn(field)
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        events[0].record()
        for _ in range(CALLS):
            torch.fft.fftn(field)
        events[1].record()
        torch.cuda.synchronize()
        times.append(1000 * events[0].elapsed_time(events[1]) / CALLS)
    return round(statistics.median(times), 1)


sizes = ((512, torch.complex64), (1024, torch.complex64), (256, torch.complex128))
results = {f"{n}^3 {str(dtype).split('.')[1]}": measure(n, dtype) for n, dtype in sizes}
print(json.dumps({"program": f"torch.fft {torch.__version__}", "ranks": 1, "microseconds": results}))
