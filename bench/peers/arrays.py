"""Making, collecting and reading arrays with NumPy (and mpi4py between ranks).

Orders, each answered by the seconds of every call, for n x n matrices that are cut into bands of rows:
generate, broadcast, random, gather, gather-new or gather-kept <dtype> <n> <repeats>; npy <path> <repeats>.
gather-kept keeps each result until the next one takes its place, as a loop of a program does.
"""

import numpy
from mpi4py import MPI
from worker import serve, time_each

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()


def band(n):
    """The rows of this rank: the first n % size ranks hold one more."""
    start = rank * (n // size) + min(rank, n % size)
    return start, start + n // size + (rank < n % size)


def measure(repeats, run):
    run()
    return time_each(int(repeats), run, world.Barrier)


def generate(dtype, n, repeats):
    """A function of the indices: called once, with arrays of all indices."""
    n = int(n)
    start, end = band(n)
    return measure(
        repeats,
        lambda: numpy.fromfunction(lambda i, j: (start + i) * n + j, (end - start, n), dtype=dtype),
    )


def broadcast(dtype, n, repeats):
    """The same values by arithmetic on a row and a column."""
    n = int(n)
    start, end = band(n)
    columns = numpy.arange(n, dtype=dtype)
    return measure(repeats, lambda: numpy.arange(start, end, dtype=dtype)[:, None] * n + columns)


def random(dtype, n, repeats):
    start, end = band(int(n))
    generator = numpy.random.default_rng(1)
    return measure(repeats, lambda: generator.random((end - start, int(n)), dtype=dtype))


def gather(dtype, n, repeats, is_new=False, is_kept=False):
    n = int(n)
    start, end = band(n)
    local = numpy.ones((end - start, n), dtype=dtype)
    counts = world.gather((end - start) * n)
    given = None if is_new else numpy.empty((n, n), dtype=dtype)
    result = None

    def run():
        nonlocal result
        if rank != 0:
            return world.Gatherv(local, None)
        whole = numpy.empty((n, n), dtype=dtype) if given is None else given
        world.Gatherv(local, (whole, counts))
        result = whole if is_kept else None

    return measure(repeats, run)


def gather_new(dtype, n, repeats):
    return gather(dtype, n, repeats, is_new=True)


def gather_kept(dtype, n, repeats):
    return gather(dtype, n, repeats, is_new=True, is_kept=True)


def npy(path, repeats):
    def run():
        if size == 1:
            return numpy.load(path)
        mapped = numpy.load(path, mmap_mode="r")
        start, end = band(mapped.shape[0])
        return numpy.array(mapped[start:end])

    return measure(repeats, run)


serve(
    rank,
    {
        "generate": generate,
        "broadcast": broadcast,
        "random": random,
        "gather": gather,
        "gather-new": gather_new,
        "gather-kept": gather_kept,
        "npy": npy,
    },
)
