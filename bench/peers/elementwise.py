"""Elementwise functions and sums with NumPy: order <name> <dtype> <n> <repeats>, answered by the seconds of every call.

Results go into an array that is there, but those of `new`, which adds into new memory, and of `where`.
"""

import functools

import numpy
from worker import serve, time_each


@functools.cache
def arrays(dtype, n):
    generator = numpy.random.default_rng(1)
    half = numpy.array(0.5, dtype=dtype)
    a, b, c = (generator.random(int(n), dtype=dtype) + half for _ in range(3))
    return a, b, c, a < b, a < b


def measured(run):
    def order(dtype, n, repeats):
        given = arrays(dtype, n)
        run(*given)
        return time_each(int(repeats), lambda: run(*given))

    return order


def unary(function):
    return measured(lambda a, b, c, truths, given: function(a, out=c))


def binary(function):
    return measured(lambda a, b, c, truths, given: function(a, b, out=c))


def comparison(function):
    return measured(lambda a, b, c, truths, given: function(a, b, out=given))


def reduction(function):
    return measured(lambda a, b, c, truths, given: function(a))


UNARY = ["abs", "sqrt", "exp", "log", "tanh", "sin", "cos", "sign"]
BINARY = ["add", "subtract", "multiply", "divide", "power", "minimum", "maximum"]
REDUCTIONS = ["sum", "mean", "var", "min", "max", "argmin"]

serve(
    0,
    {
        **{name: unary(getattr(numpy, name)) for name in UNARY},
        **{name: binary(getattr(numpy, name)) for name in BINARY},
        **{name: comparison(getattr(numpy, name)) for name in ["less", "equal"]},
        **{name: reduction(getattr(numpy, name)) for name in REDUCTIONS},
        "norm": reduction(numpy.linalg.norm),
        "new": measured(lambda a, b, *_: numpy.add(a, b)),
        "scale": measured(lambda a, b, c, *_: numpy.multiply(a, 2.0, out=c)),
        "clip": measured(lambda a, b, c, *_: numpy.clip(a, 0.7, 1.2, out=c)),
        "where": measured(lambda a, b, c, truths, given: numpy.where(truths, a, b)),
    },
)
