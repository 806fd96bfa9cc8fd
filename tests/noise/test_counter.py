"""Counted normals: the generator's published answers, and the law of what is made of them."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from stodyn.noise import counter
from stodyn.noise.stream import STREAMS
from stodyn.noise.supply import CountedNormals

# Random123 1.14, tests/kat_vectors: philox4x32 10 (counter, key, answer).
ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("at", "key", "answer"), ANSWERS)
def test_philox_gives_the_published_answers(at, key, answer):
    words = [np.asarray([w], np.uint32) for w in at]
    found = counter.philox(tuple(jnp.asarray(key, np.uint32)), tuple(map(jnp.asarray, words)))
    assert [int(word[0]) for word in found] == list(answer)


PATHS, PAIRS = 2500, 2000


@pytest.fixture(scope="module")
def drawn():
    """z[half, pair number, path]: 1e7 normals."""
    key = tuple(jnp.asarray(counter.key_of(3)))
    with jax.enable_x64(True):
        path, numbers = jnp.arange(PATHS, dtype=np.uint64), jnp.arange(PAIRS, dtype=np.uint64)
        both = jax.jit(jax.vmap(lambda number: counter.pair(key, STREAMS["W"], path, number)))(numbers)
        return np.stack([np.asarray(z) for z in both])


def test_moments_to_order_eight(drawn):
    """E z^k = (k - 1)!! for even k; 4.5 standard errors, so another seed fails with probability 5e-5."""
    count, double_factorial = drawn.size, {0: 1, 2: 1, 4: 3, 6: 15, 8: 105, 10: 945, 12: 10395, 14: 135135, 16: 2027025}
    power = np.ones_like(drawn)
    for k in range(1, 9):
        power *= drawn
        expected = double_factorial.get(k, 0)
        spread = np.sqrt(double_factorial[2 * k] - expected**2)
        assert abs(power.mean() - expected) < 4.5 * spread / np.sqrt(count), k


def test_tails_and_the_middle(drawn):
    """Counts beyond ±0.01 .. ±5, each within 4.5 standard errors: another seed fails with probability 1e-4."""
    for edge in (0.01, 1.0, 2.0, 3.0, 4.0, 5.0):
        for side in (drawn > edge, drawn < -edge):
            expected = drawn.size * scipy.stats.norm.sf(edge)
            assert abs(side.sum() - expected) < 4.5 * np.sqrt(expected) + 1, edge
    assert np.abs(drawn).max() < 8.66


def test_no_correlation_across_halves_numbers_and_paths(drawn):
    """Of z and of z²: neighbours in each direction, 4.5 standard errors: another seed fails with probability 4e-5."""
    for values in (drawn, (drawn**2 - 1) / np.sqrt(2)):
        pairs = (
            values[0] * values[1],
            values[:, 1:] * values[:, :-1],
            values[..., 1:] * values[..., :-1],
            values[0, 1:] * values[1, :-1],
        )
        for product in pairs:
            assert abs(product.mean()) < 4.5 / np.sqrt(product.size)


def test_streams_seeds_and_far_paths_differ():
    path = jnp.asarray([5, 5 + 2**32], np.uint64)
    one, pair = jnp.asarray(7, np.uint64), jax.jit(counter.pair)
    seen = [
        np.asarray(pair(tuple(jnp.asarray(counter.key_of(seed))), STREAMS[name], path, number)).ravel()
        for seed, name, number in ((1, "W", one), (1, "Z", one), (2, "W", one), (1, "W", one + np.uint64(2**32)))
    ]
    assert len(np.unique(np.concatenate(seen))) == 16


def test_pairs_follow_each_other_along_a_path():
    key, paths = tuple(jnp.asarray(counter.key_of(9))), jnp.arange(3, 7, dtype=np.uint64)
    z = np.asarray(jax.jit(lambda: counter.normals(key, "Z", paths, 0, 9))())
    pair = jax.jit(lambda number: counter.pair(key, STREAMS["Z"], paths, number))
    for number in range(9):
        halves = pair(np.uint64(number // 2))
        np.testing.assert_array_equal(z[number], halves[number % 2])
    np.testing.assert_array_equal(jax.jit(lambda: counter.normals(key, "Z", paths, 3, 4))(), z[3:7])


def test_processors_count_the_same_bits():
    """The printed function beside JAX's, in calls of any length."""
    supply = CountedNormals(7)
    states = supply.states("area", 3, 16)
    fill = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(supply.address)
    out = np.zeros((2, 10, 8))
    for state, rows in zip(states, out, strict=True):
        fill(state.ctypes.data, rows[:3].ctypes.data, 3, 8)
        fill(state.ctypes.data, rows[3:].ctypes.data, 7, 8)
    feed = supply.feed((("area", 2),), 3, 16)
    expected = np.concatenate([np.asarray(feed(steps)[0]).reshape(-1, 16) for steps in (1, 4)])
    np.testing.assert_allclose(np.concatenate(list(out), axis=1), expected, rtol=1e-15)


def test_uniforms_and_radii_at_their_ends_and_between():
    """(k + 1/4)/2⁵³ to rounding, never 0 or 1; √(-2 ln u) to 2 ε against 80 bits (or 64 where there are no more)."""
    rng = np.random.default_rng(5)
    ends = [(0, 0), (0, 2**11), (2**32 - 1, 2**32 - 1), (2**31, 0), (0xB504F333, 0), (0xB504F334, 0)]
    high, low = np.concatenate([rng.integers(0, 2**32, (100_000, 2)), ends]).T.astype(np.uint32)
    k = (high.astype(np.uint64) << np.uint64(21)) | (low >> np.uint32(11)).astype(np.uint64)
    with jax.enable_x64(True):
        u = np.asarray(counter._uniform(jnp.asarray(high), jnp.asarray(low)))
        radius = np.asarray(jax.jit(counter._radius)(u))
    np.testing.assert_array_less(np.abs(u / ((k.astype(np.longdouble) + 0.25) / 2**53) - 1), 2.3e-16)
    assert u.min() > 0 and u.max() < 1
    exact = np.sqrt(-2 * np.log(u.astype(np.longdouble)))
    np.testing.assert_array_less(np.abs(radius / exact - 1), 4.5e-16 if np.finfo(np.longdouble).nmant > 52 else 9e-16)
