"""Slabs of normals filled on the host, stream by stream, in order, where a program cannot draw its own."""

from __future__ import annotations

import numpy as np

from stodyn.noise import stream
from stodyn.noise.normals import Normals

SLAB_BYTES = 2_000_000
LONGEST_SLAB = 2048
ALIGNMENT = 64  # JAX takes a NumPy buffer of this alignment without copying it


def slab_steps(normals: int, lanes: int) -> int:
    """Steps whose normals are drawn together: what fits a core's cache."""
    return int(np.clip(SLAB_BYTES // (8 * max(normals, 1) * lanes), 8, LONGEST_SLAB))


class Feed:
    """The normals of one block: `slab(steps)` gives each stream's next (slab, count, lanes) array.

    The arrays are filled up to `steps` and reused: what was taken from the last slab must have been computed.
    """

    def __init__(self, seed: int, block: int, streams: tuple[tuple[str, int], ...], lanes: int, steps: int):
        self.streams = streams
        self.buffers = [_aligned((steps, count, lanes)) for _, count in streams]
        self.begin(seed, block)

    def begin(self, seed: int, block: int) -> None:
        """Go on with another block, from its first step."""
        self.sources = [Normals(stream.bit_generator(seed, block, name)) for name, _ in self.streams]

    def slab(self, steps: int) -> list[np.ndarray]:
        for source, buffer in zip(self.sources, self.buffers, strict=True):
            source.fill(buffer[:steps])
        return self.buffers


def _aligned(shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape)) * 8
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    return raw[offset : offset + size].view(np.float64).reshape(shape)
