"""Complex transforms of double precision on slabs by mpi4py-fft, with measured plans of FFTW, on each rank. See
bench/fft.ts."""

import numpy
from mpi4py import MPI
from mpi4py_fft import PFFT, fftw

from worker import serve, time_chunks

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
held = {}


def fill(array):
    array[:] = numpy.random.default_rng(rank).random(array.shape)


def transform_of(natural, extents):
    """Slabs of the first extent; `natural` leaves the result where it is, false brings it back to such slabs."""
    plan = PFFT(world, extents, axes=tuple(range(len(extents))), dtype="D", grid=(-1,), collapse=True)
    fill(plan.forward.input_array)
    if natural:
        return lambda: plan.forward(normalize=False)
    start, end = plan.pencil
    back = end.transfer(start, "D")
    result = numpy.empty(start.subshape, "D")

    def run():
        back.forward(plan.forward(normalize=False), result)

    return run


def batch_of(count, length):
    """Transforms one by one in memory, in place."""
    mine = count // size + (rank < count % size)
    data = fftw.aligned((mine, length), dtype="D")
    plan = fftw.fftn(data, axes=(1,), flags=(fftw.FFTW_MEASURE,), output_array=data)
    fill(data)
    return plan


def measure(key, repeats, make, calls=1):
    """A plan serves all rounds."""
    if held.get("key") != key:
        held.clear()
        held.update(key=key, run=make())
    run = held["run"]
    run()
    return time_chunks(int(repeats), int(calls), run, world.Barrier)


def transform(natural, repeats, *extents):
    return measure((natural, *extents), repeats, lambda: transform_of(natural == "true", [int(n) for n in extents]))


def batch(repeats, count, length):
    return measure(("batch", count, length), repeats, lambda: batch_of(int(count), int(length)))


def small(chunks, calls, *extents):
    return measure(("small", *extents), chunks, lambda: transform_of(True, [int(n) for n in extents]), calls)


serve(rank, {"transform": transform, "batch": batch, "small": small})
