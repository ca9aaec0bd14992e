"""Starts MPI and NumPy, and ends."""

import numpy
from mpi4py import MPI

assert numpy.ones(1).sum() == 1
assert MPI.COMM_WORLD.Get_size() > 0
