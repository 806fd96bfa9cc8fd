"""Normals as a function of (seed, path, stream, number), for machines with thousands of threads: Philox4x32-10.

Nothing is carried from draw to draw, so any thread can make the normals of any path at any step; a run's paths do not
depend on how it is cut into blocks or over devices. Written in plain JAX, from whose trace kernels are printed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend import core

from stodyn.noise.stream import STREAMS
from stodyn.numerics.printing.nodes import Entry, Graph
from stodyn.numerics.printing.scalars import scalarised, unflatten

NAME = "Philox4x32-10 by counter, pairs along each path"

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

# (sin r - r)/r³ and (cos r - 1 + r²/2)/r⁴ in powers of r² for |r| <= π/4, to 2⁻⁵⁸: FDLIBM 5.3, k_sin.c and k_cos.c
# (Sun Microsystems, 1993).
SIN = (-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
       2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)  # fmt: skip
COS = (4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
       -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)  # fmt: skip


def philox(key: Sequence[Array], counter: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
    """Four random words of 32 bits for each counter of four words, under a key of two, or all words of its `schedule`,
    which a GPU reads from its constant memory faster than it adds them up."""
    words, (c0, c1, c2, c3) = schedule(*key) if len(key) == 2 else key, counter
    for k0, k1 in zip(words[::2], words[1::2], strict=True):
        (high0, low0), (high2, low2) = _product(MULTIPLIERS[0], c0), _product(MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high2 ^ c1 ^ k0, low2, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3


def schedule(k0: Any, k1: Any) -> list[Any]:
    """The two words of each round, one after the other."""
    words = [k0, k1]
    for _ in range(ROUNDS - 1):
        words += [words[-2] + np.uint32(WEYL[0]), words[-1] + np.uint32(WEYL[1])]
    return words


def _product(a: int, b: Array) -> tuple[Array, Array]:
    """Return the high and the low word of the product a b."""
    wide = b.astype(np.uint64) * np.uint64(a)
    return (wide >> np.uint64(32)).astype(np.uint32), wide.astype(np.uint32)


def key_of(seed: int) -> np.ndarray:
    """Return the key of a run, two words of 32 bits, from its seed."""
    return np.random.SeedSequence(seed).generate_state(2, np.uint32)


def pair(key: Sequence[Array], stream: Any, path: Array, number: Array) -> tuple[Array, Array]:
    """The normals that a path takes from stream number `stream` as its 2 number-th and the one after it.

    `path` and `number` are uint64, below 2⁴⁸ and 2⁶³. By Box and Muller, r (cos φ, sin φ) with r = √(-2 ln u): 53 bits
    in u, which is never 0, so |z| < 8.74; 52 bits in φ within an eighth of a turn on either side of 0, and two for its
    three images.
    """
    place = (path >> np.uint64(32)).astype(np.uint32) | (jnp.asarray(stream, np.uint32) << np.uint32(16))
    words = (path.astype(np.uint32), place, number.astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32))
    a, b, c, d = philox(key, jnp.broadcast_arrays(*words))
    opposite, swapped = (d & np.uint32(1)) > 0, (d & np.uint32(2)) > 0
    return box_muller(_uniform(a, b), _from_one_to_two(c, d), opposite, swapped)


def box_muller(u: Array, turn: Array, opposite: Array, swapped: Array) -> tuple[Array, Array]:
    """Two normals of u in (0, 1), of a number in [1, 2) and of two flags, which make the angle."""
    sine, cosine = _within_an_eighth((math.pi / 2) * turn - 0.75 * math.pi)
    radius = _radius(u)
    radius = jnp.where(opposite, -radius, radius)
    return radius * jnp.where(swapped, sine, cosine), radius * jnp.where(swapped, cosine, sine)


def _within_an_eighth(r: Array) -> tuple[Array, Array]:
    """sin r and cos r for |r| <= π/4, an eighth of a turn."""
    z = r * r
    return r + r * z * _polynomial(SIN, z), 1.0 - 0.5 * z + z * z * _polynomial(COS, z)


def _polynomial(coefficients: Sequence[float], z: Array) -> Array:
    """The sum of coefficients[k] zᵏ."""
    total = jnp.full_like(z, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * z + coefficient
    return total


def _from_one_to_two(high: Array, low: Array) -> Array:
    """A number in [1, 2) from the 32 bits of one word and the upper 20 of another, which become its digits."""
    digits = (high.astype(np.uint64) << np.uint64(20)) | (low >> np.uint32(12)).astype(np.uint64)
    return lax.bitcast_convert_type(digits | ONE, np.float64)


def _uniform(high: Array, low: Array) -> Array:
    """Return (k + 1/4)/2⁵³, in (0, 1) and never rounded to 1; k has the 32 bits of one word and the upper 21 of
    another."""
    last = jnp.where((low & np.uint32(2**11)) > 0, 1.25, 0.25)
    return (_from_one_to_two(high, low) - 1.0) + last * 2.0**-53


def _radius(u: Array) -> Array:
    """√(-2 ln u) for 0 < u < 1 to 3e-16.

    u = 2ᵉ m with m from √½ to √2, and ln m = 2 artanh s = 2 s + s³ A(s²) of s = (m - 1)/(m + 1). A library's logarithm
    takes any number, and takes a GPU longer.
    """
    bits = lax.bitcast_convert_type(u, np.int64)
    e = (bits - ROOT_OF_HALF) >> np.int64(52)
    m = lax.bitcast_convert_type(bits - (e << np.int64(52)), np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    exponent = lax.bitcast_convert_type(e + LARGE.view(np.int64), np.float64) - LARGE
    w = (-2.0 * math.log(2.0)) * exponent - (4.0 * s + 2.0 * (s * z) * _polynomial(ARTANH, z))
    return jnp.sqrt(w)


def normals(key: tuple[Array, Array], stream: str, paths: Array, first: int, count: int) -> Array:
    """The normals of some paths from number `first` on, (count, paths)."""
    pairs = jnp.asarray(first // 2, np.uint64) + jnp.arange(count // 2 + 1, dtype=np.uint64)
    halves = jax.vmap(lambda number: jnp.stack(pair(key, STREAMS[stream], paths, number)))(pairs)
    return lax.dynamic_slice_in_dim(halves.reshape(-1, paths.size), first % 2, count)


@functools.cache
def _trace(words: int) -> core.ClosedJaxpr:
    word, long = jax.ShapeDtypeStruct((), np.uint32), jax.ShapeDtypeStruct((), np.uint64)
    with jax.enable_x64(True):
        return jax.make_jaxpr(lambda *inputs: pair(inputs[:words], *inputs[words:]))(*[word] * (words + 1), long, long)


def entries(graph: Graph, key: Sequence[Entry], stream: Entry, path: Entry, number: Entry) -> list[Entry]:
    """Return the two normals of `pair` as entries of a graph."""
    inputs = unflatten([*key, stream, path, number], [()] * (len(key) + 3))
    return [half[()] for half in scalarised(_trace(len(key)), inputs, graph)]
