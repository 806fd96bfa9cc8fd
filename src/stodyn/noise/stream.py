"""The random numbers that belong to a block of paths: a function of (seed, block, stream) alone."""

import numpy as np

# A stream's number is part of every result: append, never renumber.
STREAMS = {
    "W": 0, "Z": 1, "area": 2, "aux": 3, "start": 4, "params": 5, "coloured": 6, "measurement": 7, "extreme": 8,
    "event": 9, "selection": 10, "wall": 11, "place": 12, "switch": 13, "sensor": 14, "jitter": 15,
}  # fmt: skip


def bit_generator(seed: int, part: int, stream: str, *further: int) -> np.random.SFC64:
    """The SFC64 generator of one stream of one block."""
    return np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(part, STREAMS[stream], *further)))


def generator(seed: int, part: int, stream: str, *further: int) -> np.random.Generator:
    """The same numbers as a NumPy Generator, for draws that are not normals."""
    return np.random.Generator(bit_generator(seed, part, stream, *further))
