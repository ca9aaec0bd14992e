"""Making, collecting and reading arrays with NumPy (and mpi4py between ranks).

Orders, each answered by the seconds of every call, for n x n matrices that are cut into bands of rows:
generate, broadcast, random, gather or gather-new <dtype> <n> <repeats>; npy <path> <repeats>.
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


def gather(dtype, n, repeats, is_new=False):
    n = int(n)
    start, end = band(n)
    local = numpy.ones((end - start, n), dtype=dtype)
    counts = world.gather((end - start) * n)
    given = None if is_new else numpy.empty((n, n), dtype=dtype)
    result = None

    def run():
        """A new result is there until the next one takes its place, as in a loop of a program."""
        nonlocal result
        if rank != 0:
            return world.Gatherv(local, None)
        whole = numpy.empty((n, n), dtype=dtype) if given is None else given
        world.Gatherv(local, (whole, counts))
        result = whole

    return measure(repeats, run)


def gather_new(dtype, n, repeats):
    return gather(dtype, n, repeats, is_new=True)


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
        "npy": npy,
    },
)
