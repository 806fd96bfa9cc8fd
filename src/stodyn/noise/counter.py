"""Normals as a function of (seed, path, stream, number), for machines with thousands of threads: Philox4x32-10.

Nothing is carried from draw to draw, so any thread can make the normals of any path at any step; a run's paths do not
depend on how it is cut into blocks or over devices. Written in plain JAX, inside a GPU kernel as outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from stodyn.noise.stream import STREAMS
from stodyn.numerics.trigonometry import polynomial, within_an_eighth

NAME = "Philox4x32-10 by counter, its bits as digits"

# Salmon, Moraes, Dror & Shaw, Parallel random numbers: as easy as 1, 2, 3, SC11 (2011).
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)

ONE = np.float64(1.0).view(np.uint64)
LARGE = np.float64(2**52 + 2**10)  # whose last digit is worth 1: adding to its bits adds to it
ROOT_OF_HALF = np.float64(math.sqrt(0.5)).view(np.int64)
# (2 artanh s - 2 s)/s³ in powers of s² for |s| <= (√2 - 1)/(√2 + 1), to 3.1e-16: at the zeros of a Chebyshev
# polynomial, in 50 digits.
ARTANH = (0.66666666666666696862, 0.39999999999899504429, 0.285714286259755127, 0.22222211134790545357,
          0.18182889125592100432, 0.15331721589574306991, 0.14616449820782474981)  # fmt: skip


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

    By Box and Muller, r (cos φ, sin φ) with r = √(-2 ln u): 53 bits in u, which is never 0, so |z| < 8.74; 52
    bits in φ within an eighth of a turn on either side of 0, and two for its three images.
    """
    place = ((neighbours >> np.uint64(32)) | np.uint64(STREAMS[stream] << 16)).astype(np.uint32)
    words = (neighbours.astype(np.uint32), place, number.astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32))
    a, b, c, d = philox(key, [jnp.broadcast_to(word, neighbours.shape) for word in words])
    sine, cosine = within_an_eighth((math.pi / 2) * _from_one_to_two(c, d) - 0.75 * math.pi)
    opposite, swapped = (d & np.uint32(1)) > 0, (d & np.uint32(2)) > 0
    radius = _radius(_uniform(a, b))
    radius = jnp.where(opposite, -radius, radius)
    return radius * jnp.where(swapped, sine, cosine), radius * jnp.where(swapped, cosine, sine)


def _from_one_to_two(high: Array, low: Array) -> Array:
    """A number in [1, 2) from the 32 bits of one word and the upper 20 of another, which become its digits."""
    digits = (high.astype(np.uint64) << np.uint64(20)) | (low >> np.uint32(12)).astype(np.uint64)
    return lax.bitcast_convert_type(digits | ONE, np.float64)


def _uniform(high: Array, low: Array) -> Array:
    """(k + 1/4)/2⁵³, in (0, 1) and never rounded to 1; k has the 32 bits of one word and the upper 21 of another."""
    last = jnp.where((low & np.uint32(2**11)) > 0, 1.25, 0.25)
    return (_from_one_to_two(high, low) - 1.0) + last * 2.0**-53


def _radius(u: Array) -> Array:
    """√(-2 ln u) for 0 < u < 1 to 3e-16.

    u = 2ᵉ m with m from √½ to √2, and ln m = 2 artanh s = 2 s + s³ A(s²) of s = (m - 1)/(m + 1). A library's logarithm
    serves any number, and takes a GPU longer.
    """
    bits = lax.bitcast_convert_type(u, np.int64)
    e = (bits - ROOT_OF_HALF) >> np.int64(52)
    m = lax.bitcast_convert_type(bits - (e << np.int64(52)), np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    exponent = lax.bitcast_convert_type(e + LARGE.view(np.int64), np.float64) - LARGE
    w = (-2.0 * math.log(2.0)) * exponent - (4.0 * s + 2.0 * (s * z) * polynomial(ARTANH, z))
    return w * lax.rsqrt(w)


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
