"""Normals as a function of (seed, path, stream, number), for machines with thousands of threads: Philox4x32-10.

Nothing is carried from draw to draw, so any thread can make the normals of any path at any step; a run's paths do not
depend on how it is cut into blocks or over devices. Written in plain JAX, inside a GPU kernel as outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.noise.stream import STREAMS
from stodyn.numerics.trigonometry import within_an_eighth

NAME = "Philox4x32-10 by counter"

# Salmon, Moraes, Dror & Shaw, Parallel random numbers: as easy as 1, 2, 3, SC11 (2011).
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(key: tuple[Array, Array], counter: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
    """Four random words of 32 bits for each counter of four words, under a key of two."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(ROUNDS):
        (high0, low0), (high2, low2) = _product(MULTIPLIERS[0], c0), _product(MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high2 ^ c1 ^ k0, low2, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + np.uint32(WEYL[0]), k1 + np.uint32(WEYL[1])
    return c0, c1, c2, c3


def _product(a: int, b: Array) -> tuple[Array, Array]:
    """The high and the low word of a b."""
    wide = b.astype(np.uint64) * np.uint64(a)
    return (wide >> np.uint64(32)).astype(np.uint32), wide.astype(np.uint32)


def key_of(seed: int) -> np.ndarray:
    """The key of a run, two words of 32 bits."""
    return np.random.SeedSequence(seed).generate_state(2, np.uint32)


def pair(key: tuple[Array, Array], stream: str, neighbours: Array, number: Array) -> tuple[Array, Array]:
    """The normals of a stream that two neighbouring paths take as their `number`th; uint64, below 2⁴⁸ and 2⁶⁴.

    By Box and Muller, r (cos φ, sin φ) with r = √(-2 ln u): 53 bits in u, which is never 0, so |z| < 8.66; 51
    bits in φ within an eighth of a turn on either side of 0, and two for its three images.
    """
    place = ((neighbours >> np.uint64(32)) | np.uint64(STREAMS[stream] << 16)).astype(np.uint32)
    words = (neighbours.astype(np.uint32), place, number.astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32))
    a, b, c, d = philox(key, [jnp.broadcast_to(word, neighbours.shape) for word in words])
    sine, cosine = within_an_eighth((math.pi / 2) * _uniform(c, d) - math.pi / 4)
    swapped, opposite = (c & np.uint32(1)) > 0, (d & np.uint32(1)) > 0
    radius = jnp.sqrt(-2.0 * jnp.log(_uniform(a, b)))
    radius = jnp.where(opposite, -radius, radius)
    return radius * jnp.where(swapped, sine, cosine), radius * jnp.where(swapped, cosine, sine)


def _uniform(high: Array, low: Array) -> Array:
    """A number in (0, 1) from the upper 27 and 26 bits of two words."""
    bits = ((high >> np.uint32(5)).astype(np.uint64) << np.uint64(26)) | (low >> np.uint32(6)).astype(np.uint64)
    return (bits.astype(np.int64).astype(np.float64) + 0.5) * 2.0**-53


class Normals:
    """The normals of each step of some paths, `streams` naming how many of each; all of them from one key.

    Neighbours share pairs: `pairs` numbers them, and paths 2k and 2k + 1 take the two halves of pair k.
    """

    def __init__(self, key: tuple[Array, Array], streams: tuple[tuple[str, int], ...], pairs: Array):
        self.key, self.streams, self.pairs = key, streams, pairs

    def step(self, n: Array) -> list[list[Array]]:
        """The normals of step n: for each stream a list of `count` arrays over the paths."""
        return [[self._drawn(name, n.astype(np.uint64) * np.uint64(count) + np.uint64(k)) for k in range(count)]
                for name, count in self.streams]  # fmt: skip

    def _drawn(self, name: str, number: Array) -> Array:
        halves = pair(self.key, name, self.pairs, number)
        return jnp.stack(halves, axis=-1).reshape(2 * self.pairs.size)
