"""Arrays that go to other distributions: by one Alltoallw with derived types, by messages from pair to pair of such types, or
by such messages of what NumPy packed, on each rank. See bench/redistribution.ts."""

import json
import math

import numpy
from mpi4py import MPI

from worker import serve, time_each

world = MPI.COMM_WORLD
rank, size = world.rank, world.size


def indices(place, shape, of):
    """The global indices that a rank holds, one array a dimension."""
    at = numpy.unravel_index(of, place["grid"])
    return [
        numpy.arange(extent)[numpy.arange(extent) // block % count == i]
        for extent, block, count, i in zip(shape, place["blocks"], place["grid"], at)
    ]


def runs(positions):
    """Where runs of neighbours begin, and how long they are."""
    starts = numpy.flatnonzero(numpy.diff(positions, prepend=-2) != 1)
    return positions[starts].tolist(), numpy.diff(starts, append=len(positions)).tolist()


def selection(base, held, wanted):
    """The type of the elements of a C-order array that are wanted; None if there are none."""
    shape = [len(part) for part in held]
    pieces = [runs(numpy.flatnonzero(numpy.isin(part, other))) for part, other in zip(held, wanted)]
    if any(not starts for starts, _ in pieces):
        return None
    if all(len(starts) == 1 for starts, _ in pieces):
        counts, starts = [lengths[0] for _, lengths in pieces], [starts[0] for starts, _ in pieces]
        return base.Create_subarray(shape, counts, starts).Commit()
    made, stride = base, base.size
    for (starts, lengths), extent in zip(reversed(pieces), reversed(shape)):
        made = made.Create_resized(0, stride).Create_indexed(lengths, starts)
        stride *= extent
    # As long as the array, so that packing takes one.
    return made.Create_resized(0, base.size * math.prod(shape)).Commit()


held = {}


def prepare(key):
    """The arrays of the last order serve all rounds."""
    if held.get("key") != key:
        held.clear()
        case = json.loads(key)
        shape, start, end = case["shape"], case["from"], case["to"]
        base = MPI.DOUBLE if case["dtype"] == "float64" else MPI.C_DOUBLE_COMPLEX
        mine, wish = indices(start, shape, rank), indices(end, shape, rank)

        def types(own, place):
            made = [selection(base, own, indices(place, shape, peer)) for peer in range(size)]
            return [one is not None and 1 or 0 for one in made], [one or base for one in made]

        arrays = [numpy.ones([len(part) for part in own], case["dtype"]) for own in (mine, wish)]
        sends, receives = types(mine, end), types(wish, start)
        zeros = [0] * size
        held.update(
            key=key,
            send=[arrays[0], (sends[0], zeros), sends[1]],
            receive=[arrays[1], (receives[0], zeros), receives[1]],
        )
        assert math.prod(shape) == world.allreduce(arrays[0].size) == world.allreduce(arrays[1].size)
    return held["send"], held["receive"]


def others():
    """The other ranks, each round with another partner."""
    return [(rank + step) % size for step in range(1, size)], [(rank - step) % size for step in range(1, size)]


def alltoallw(send, receive):
    world.Alltoallw(send, receive)


def pairwise(send, receive):
    """Messages of derived types."""
    (sent, (sends, _), outgoing), (received, (receives, _), incoming) = send, receive
    targets, sources = others()
    requests = [world.Irecv([received, 1, incoming[peer]], peer) for peer in sources if receives[peer]]
    requests += [world.Isend([sent, 1, outgoing[peer]], peer) for peer in targets if sends[peer]]
    if sends[rank]:
        world.Sendrecv([sent, 1, outgoing[rank]], rank, 0, [received, 1, incoming[rank]], rank, 0)
    MPI.Request.Waitall(requests)


def packed(send, receive):
    """The same packed by MPI before, and unpacked after."""
    (sent, (sends, _), outgoing), (received, (receives, _), incoming) = send, receive
    targets, sources = others()
    room = held.setdefault("room", {})

    def buffer(side, peer, kind):
        if (side, peer) not in room:
            room[side, peer] = numpy.empty(kind.Pack_size(1, world), "b")
        return room[side, peer]

    requests = [
        world.Irecv([buffer("in", peer, incoming[peer]), MPI.PACKED], peer) for peer in sources if receives[peer]
    ]
    for peer in targets:
        if sends[peer]:
            block = buffer("out", peer, outgoing[peer])
            outgoing[peer].Pack(sent, block, 0, world)
            requests.append(world.Isend([block, MPI.PACKED], peer))
    if sends[rank]:
        world.Sendrecv([sent, 1, outgoing[rank]], rank, 0, [received, 1, incoming[rank]], rank, 0)
    MPI.Request.Waitall(requests)
    for peer in sources:
        if receives[peer]:
            incoming[peer].Unpack(room["in", peer], 0, received, world)


ways = {"alltoallw": alltoallw, "pairwise": pairwise, "packed": packed}


def move(key, repeats, way):
    send, receive = prepare(key)
    ways[way](send, receive)
    return time_each(int(repeats), lambda: ways[way](send, receive), world.Barrier)


serve(rank, {"move": move})
