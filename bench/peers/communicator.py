"""Small messages, called from Python through mpi4py's buffer interface.

Orders: allreduce <chunks> <calls>, pingpong <chunks> <calls>: seconds a call (a round trip), averaged over chunks.
"""

import numpy
from mpi4py import MPI
from worker import serve, time_chunks

world = MPI.COMM_WORLD
rank = world.Get_rank()
sent, received = numpy.ones(1), numpy.empty(1)
byte = numpy.zeros(1, dtype=numpy.uint8)


def all_reduce():
    world.Allreduce(sent, received, MPI.SUM)


def ping_pong():
    if rank == 0:
        world.Send(byte, 1)
        world.Recv(byte, 1)
    elif rank == 1:
        world.Recv(byte, 0)
        world.Send(byte, 0)


def handler(run):
    return lambda chunks, calls: time_chunks(int(chunks), int(calls), run, world.Barrier)


serve(rank, {"allreduce": handler(all_reduce), "pingpong": handler(ping_pong)})
