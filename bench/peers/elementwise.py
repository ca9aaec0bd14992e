"""Elementwise functions and sums with NumPy: order <name> <dtype> <n> <repeats>, answered by the seconds of every call.

Results go into an array that is there, but those of `new`, which adds into new memory.
"""

import functools

import numpy
from worker import serve, time_each


@functools.cache
def arrays(dtype, n):
    generator = numpy.random.default_rng(1)
    half = numpy.array(0.5, dtype=dtype)
    return [generator.random(int(n), dtype=dtype) + half for _ in range(3)]


def measured(run):
    def order(dtype, n, repeats):
        a, b, c = arrays(dtype, n)
        run(a, b, c)
        return time_each(int(repeats), lambda: run(a, b, c))

    return order


serve(
    0,
    {
        "add": measured(lambda a, b, c: numpy.add(a, b, out=c)),
        "new": measured(lambda a, b, c: numpy.add(a, b)),
        "scale": measured(lambda a, b, c: numpy.multiply(a, 2.0, out=c)),
        "divide": measured(lambda a, b, c: numpy.divide(a, b, out=c)),
        "minimum": measured(lambda a, b, c: numpy.minimum(a, b, out=c)),
        "less": measured(lambda a, b, c: numpy.less(a, b)),
        "sqrt": measured(lambda a, b, c: numpy.sqrt(a, out=c)),
        "exp": measured(lambda a, b, c: numpy.exp(a, out=c)),
        "sum": measured(lambda a, b, c: numpy.sum(a)),
        "max": measured(lambda a, b, c: numpy.max(a)),
    },
)
