"""The side of a benchmark that runs on a rank, for Python peers; see bench/harness/worker.ts."""

import json
import os
import socket
import time


def time_each(repeats, run, before=lambda: None):
    """Seconds that `repeats` calls took, one by one; `before` is not measured."""
    times = []
    for _ in range(repeats):
        before()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def time_chunks(chunks, calls, run, before=lambda: None):
    """Seconds a call, averaged over chunks of `calls` calls: for calls that are too short for the clock."""

    def chunk():
        for _ in range(calls):
            run()

    return [seconds / calls for seconds in time_each(chunks, chunk, before)]


def serve(rank, handlers):
    """Obey the driver's orders until it hangs up."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["DISTMATH_BENCH_SOCKET"])
    with connection, connection.makefile("rw") as lines:
        print(rank, file=lines, flush=True)
        for line in lines:
            name, *words = line.split()
            try:
                answer = handlers[name](*words)
            except Exception as error:  # the driver is told
                answer = {"error": repr(error)}
            print(json.dumps(answer), file=lines, flush=True)
