"""Generators that a path carries: the words of SFC64, and the normals of pairs of words."""

import jax
import numpy as np

from stodyn.noise import generators
from stodyn.noise.sfc64 import DISCARDED, INCREMENT
from stodyn.numerics.printing import points

KEY, STREAM, PAIRS = 0x9A3C51F2D8B7E604, 6, 40


def words():
    """NumPy's own SFC64 from the same four words, behind those that are discarded."""
    source = np.random.SFC64(0)
    source.state = source.state | {"state": {"state": np.array([KEY, STREAM, INCREMENT, 1], np.uint64)}}
    return source.random_raw(DISCARDED + 2 * PAIRS)[DISCARDED:].reshape(PAIRS, 2)


def test_normals_are_those_of_the_words_of_sfc64():
    """r (cos φ, sin φ) with r² = -2 ln u of the upper 53 bits of a word, and φ of the next."""
    with jax.enable_x64(True):
        z = points.AtPoints(lambda key: generators.normals(generators.seeded(key, STREAM), 2 * PAIRS)[0])(
            np.array([KEY, KEY + 1], np.uint64)
        )
    x, y = words().T
    u = ((x >> np.uint64(11)) + 0.25) / 2.0**53
    turn = (y >> np.uint64(12)) / 2.0**52 - 0.5  # of a quarter of a turn, about 0
    cosine, sine = np.cos(turn * np.pi / 2), np.sin(turn * np.pi / 2)
    cosine, sine = np.where(y & np.uint64(2), (sine, cosine), (cosine, sine))
    radius = np.sqrt(-2 * np.log(u)) * np.where(y & np.uint64(1), -1.0, 1.0)
    np.testing.assert_allclose(z[0].reshape(PAIRS, 2), np.stack([radius * cosine, radius * sine], axis=1), rtol=1e-13)
    assert not set(z[0]) & set(z[1])
