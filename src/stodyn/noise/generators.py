"""Generators of normals that a path carries with it and advances where it draws: SFC64, pairs by Box and Muller.

For what is drawn now and then, such as the noise of a sensor. A word costs a tenth of one of Philox (noise.counter),
which has no memory. Written in plain JAX, from whose trace steps are printed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from stodyn.noise.counter import ONE, box_muller
from stodyn.noise.sfc64 import DISCARDED, INCREMENT

U64 = np.uint64


def seeded(key: Array, stream: int) -> Array:
    """The generator of a stream of a path, whose key has 64 bits, before its first draw: four words."""
    generator = jnp.stack([key, jnp.full_like(key, U64(stream)), jnp.full_like(key, INCREMENT), jnp.ones_like(key)])
    return _discarded(generator)


@jax.jit
def _discarded(generator: Array) -> Array:
    for _ in range(DISCARDED):
        _, generator = word(generator)
    return generator


def word(generator: Array) -> tuple[Array, Array]:
    """The next word of 64 bits, and the generator after it."""
    a, b, c, counter = generator
    following = a + b + counter
    turned = (c << U64(24)) | (c >> U64(40))
    return following, jnp.stack([b ^ (b >> U64(11)), c + (c << U64(3)), turned + following, counter + U64(1)])


def normals(generator: Array, count: int) -> tuple[Array, Array]:
    """The next normals, an even number of them, and the generator after them."""
    pairs = []
    for _ in range(count // 2):
        pair, generator = _pair(generator)
        pairs.append(pair)
    return jnp.concatenate(pairs), generator


@jax.jit  # traced once, and not at every sensor of every run
def _pair(generator: Array) -> tuple[Array, Array]:
    """A pair: 53 bits make u, which is never 0, 52 and two flags the angle."""
    first, generator = word(generator)
    second, generator = word(generator)
    u = (_from_one_to_two(first) - 1.0) + jnp.where((first & U64(2**11)) > 0, 1.25, 0.25) * 2.0**-53
    both = box_muller(u, _from_one_to_two(second), (second & U64(1)) > 0, (second & U64(2)) > 0)
    return jnp.stack(both), generator


def _from_one_to_two(bits: Array) -> Array:
    """A number in [1, 2) from the upper 52 bits of a word, which become its digits."""
    return lax.bitcast_convert_type((bits >> U64(12)) | ONE, np.float64)
