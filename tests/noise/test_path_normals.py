"""Normals of paths: NumPy's numbers from the same words, a path's own however the run is cut, normal and independent.

Sampled tests draw with fixed seeds. Each z-score is refused beyond 5.5, which a right generator does once in 2.6e7
scores; there are fewer than 100 of them, so all together raise a false alarm once in 2.6e5 choices of the seeds, and
the seeds are fixed.
"""

import ctypes

import numpy as np
import pytest
import scipy.stats

from stodyn.noise import path_normals
from stodyn.noise.stream import STREAMS
from stodyn.noise.ziggurat import TAIL

WAYS = ["interleaved", "vector"]
LIMIT = 5.5


def drawn(way, key, paths, rows):
    from stodyn.noise import path_normals_code

    states = path_normals.states(key, paths)
    out = np.empty((len(states), rows, 8))
    for state, block in zip(states, out, strict=True):
        path_normals_code.compiled(way).fill(state.ctypes.data, block.ctypes.data, rows, 8)
    return out.transpose(1, 0, 2).reshape(rows, -1), states


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**64 + 3, 2**127 + 2**90 + 5, 2**128 - 1, 2**128, 7**300])
def test_words_of_a_stream_are_those_of_numpy(seed):
    for stream in ("W", "area", "jitter"):
        words = np.random.SeedSequence(seed, spawn_key=(STREAMS[stream],)).generate_state(3, np.uint64)
        np.testing.assert_array_equal(path_normals.key(seed, stream), words)


@pytest.mark.parametrize("way", WAYS)
def test_numbers_of_numpy_from_the_same_words(way):
    """SFC64 and the ziggurat as NumPy has them, which rounds its layers differently: equal to 1e-13."""
    key = path_normals.key(5, "W")
    before = path_normals.states(key, range(16))
    found, after = drawn(way, key, range(16), 4000)
    for path in range(16):
        bit_generator = np.random.SFC64(0)
        state = bit_generator.state
        state["state"]["state"] = before[path // 8, :, path % 8].copy()
        bit_generator.state = state
        expected = np.random.Generator(bit_generator).standard_normal(4000)
        np.testing.assert_allclose(found[:, path], expected, rtol=1e-13, atol=1e-15)
        np.testing.assert_array_equal(after[path // 8, :, path % 8], bit_generator.state["state"]["state"])


@pytest.mark.parametrize("way", WAYS)
def test_definition_in_plain_numpy(way):
    """Words for words, bits for bits; in the tail to the last digit of NumPy's log1p."""
    key = path_normals.key(2**70 + 3, "Z")
    paths = [0, 1, 2, 3, 2**40, 2**63, 2**64 - 1, 7, *range(1000, 5088)]
    np.testing.assert_array_equal(path_normals.states(key, paths), path_normals.states(key, paths, "NumPy"))
    found, after = drawn(way, key, paths, 150)
    states = path_normals.states(key, paths, "NumPy")
    expected = path_normals.fill(states, 150, "NumPy")
    np.testing.assert_array_equal(after, states)
    tail = np.abs(expected) > TAIL
    assert 60 < tail.sum() < 260  # 158 wanted
    np.testing.assert_array_equal(found[~tail], expected[~tail])
    np.testing.assert_allclose(found[tail], expected[tail], rtol=3e-16)


def test_first_numbers_of_the_definition():
    """A path by hand, in Python's own whole numbers."""
    seed, stream, path, modulus = 11, "area", 12345, 2**64
    words = np.random.SeedSequence(seed, spawn_key=(STREAMS[stream],)).generate_state(3, np.uint64)

    def mix(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % modulus
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % modulus
        return z ^ (z >> 31)

    a, b, c = (mix((int(k) + (path + 1) * 0x9E3779B97F4A7C15) % modulus) for k in words)
    counter = 1
    for _ in range(12):
        word = (a + b + counter) % modulus
        a, b, c, counter = b ^ (b >> 11), 9 * c % modulus, ((c << 24 | c >> 40) + word) % modulus, counter + 1
    state = path_normals.states(path_normals.key(seed, stream), [path])[0, :, 0]
    assert [a, b, c, counter] == state.tolist()


@pytest.mark.parametrize("implementation", [path_normals.COMPILED, path_normals.NUMPY])
def test_a_path_has_its_own_numbers(implementation):
    """Not those of a group, a number of paths, a place among lanes or a slab of steps."""
    whole = path_normals.rows(3, "W", 0, 29, 12, 3, implementation)
    assert whole.shape == (12, 3, 29)
    np.testing.assert_array_equal(path_normals.rows(3, "W", 13, 5, 12, 3, implementation), whole[:, :, 13:18])
    key = path_normals.key(3, "W")
    order = np.random.default_rng(0).permutation(29)
    states = path_normals.states(key, order, implementation)
    slabs = [path_normals.fill(states, rows, implementation) for rows in (1, 5, 0, 7, 23)]
    np.testing.assert_array_equal(np.concatenate(slabs)[:, :29].reshape(12, 3, 29), whole[:, :, order])


def test_continued_from_a_kept_state():
    states = path_normals.states(path_normals.key(1, "W"), range(8))
    path_normals.fill(states, 40)
    kept = states.copy()
    np.testing.assert_array_equal(path_normals.fill(states, 10), path_normals.fill(kept, 10))


def test_called_by_address():
    """Two groups fill the halves of rows of sixteen; nothing beyond is touched, and no row is nothing."""
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    fill = ctypes.CFUNCTYPE(None, pointer, pointer, count, count)(path_normals.fill_address())
    seed = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, count)(path_normals.seed_address())
    key, paths = path_normals.key(9, "W"), np.arange(16, dtype=np.uint64)
    states, out = np.zeros((2, 4, 8), np.uint64), np.full((21, 16), np.nan)
    seed(key.ctypes.data, paths.ctypes.data, states.ctypes.data, 16)
    fill(states[0].ctypes.data, out.ctypes.data, 20, 16)
    fill(states[1].ctypes.data, out.ctypes.data + 64, 20, 16)
    np.testing.assert_array_equal(out[:20], path_normals.rows(9, "W", 0, 16, 20, 1)[:, 0])
    assert np.isnan(out[20]).all()
    before = states.copy()
    fill(states[0].ctypes.data, out.ctypes.data, 0, 16)
    np.testing.assert_array_equal(states, before)


def test_states_are_checked():
    with pytest.raises(ValueError, match="states"):
        path_normals.fill(np.zeros((4, 8), np.uint64), 3)


@pytest.fixture(scope="module")
def normals():
    """[step][channel][path]: 8 million."""
    return path_normals.rows(2024, "W", 0, 16384, 256, 2)


def test_moments_and_tails(normals):
    n = normals.size
    for power, mean, second in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105), (5, 0, 945), (6, 15, 10395)):
        z = (np.mean(normals**power) - mean) / np.sqrt((second - mean**2) / n)
        assert abs(z) < LIMIT, (power, z)
    for bound in (0.1, 0.5, 1.0, 2.0, 3.0, 3.6, TAIL, 3.8, 4.5):
        for side, found in ((1, normals > bound), (-1, normals < -bound)):
            p = scipy.stats.norm.sf(bound)
            z = (np.mean(found) - p) / np.sqrt(p * (1 - p) / n)
            assert abs(z) < LIMIT, (side * bound, z)


def test_normals_fill_cells_of_equal_probability_evenly(normals):
    """Φ of the normals in 4096 cells: χ², as the normal number of the same probability."""
    counts = np.histogram(scipy.stats.norm.cdf(normals.ravel()), 4096, (0, 1))[0]
    mean = normals.size / 4096
    assert abs(scipy.stats.norm.ppf(scipy.stats.chi2.cdf(np.sum((counts - mean) ** 2) / mean, 4095))) < LIMIT


def correlation(x, y):
    """In standard deviations, of values and of squares (of the smallest sample these pass 5.5 half as often again)."""
    assert x.shape == y.shape
    return [np.sum(u * v) / np.sqrt(x.size) for u, v in ((x, y), ((x * x - 1) / np.sqrt(2), (y * y - 1) / np.sqrt(2)))]


@pytest.mark.parametrize(
    "first, second",
    [
        (np.s_[:, :, :-1], np.s_[:, :, 1:]),
        (np.s_[:, :, :-2], np.s_[:, :, 2:]),
        (np.s_[:, :, :-8], np.s_[:, :, 8:]),
        (np.s_[:, :, :-64], np.s_[:, :, 64:]),
        (np.s_[:, :, :8192], np.s_[:, :, 8192:]),
        (np.s_[:, 0], np.s_[:, 1]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[:-1, :, :-1], np.s_[1:, :, 1:]),
        (np.s_[:-1, :, 1:], np.s_[1:, :, :-1]),
        (np.s_[0, 0, :-1], np.s_[0, 0, 1:]),
    ],
    ids=["path+1", "path+2", "path+8", "path+64", "halves", "channels", "steps", "along", "against", "first draws"],
)
def test_paths_channels_and_steps_are_independent(normals, first, second):
    for z in correlation(normals[first], normals[second]):
        assert abs(z) < LIMIT


def test_streams_and_seeds_are_independent(normals):
    given = normals[:64]
    for seed, stream in ((2024, "Z"), (2024, "area"), (2024, "start"), (2025, "W"), (0, "W")):
        for z in correlation(given, path_normals.rows(seed, stream, 0, 16384, 64, 2)):
            assert abs(z) < LIMIT, (seed, stream, z)


def test_neighbours_begin_with_unlike_words():
    """Each of the 3 x 64 bits of the states of paths p and p + 1 differs in half of the pairs; none is met twice."""
    states = path_normals.states(path_normals.key(0, "W"), range(2**17)).swapaxes(1, 2).reshape(-1, 4)[:, :3]
    bits = np.unpackbits((states[1:] ^ states[:-1]).view(np.uint8).reshape(-1, 24), axis=1)
    z = (bits.mean(axis=0) - 0.5) * 2 * np.sqrt(len(bits))
    assert np.abs(z).max() < 6.5  # 192 bits: once in 6e7
    assert len(np.unique(states[:, 0])) == len(states)
    others = [path_normals.states(path_normals.key(seed, s), range(4096))[:, 0] for seed in (0, 1) for s in STREAMS]
    assert len(np.unique(others)) == np.size(others)


def test_no_two_streams_have_one_number():
    """They would draw the same numbers."""
    assert len(set(STREAMS.values())) == len(STREAMS)


@pytest.mark.parametrize(
    ("seed", "path", "normals"),
    [
        (1, 0, (1.1315506193624485, 0.24703295099811257, -1.3335179867474)),
        (1, 1, (-0.39577234203041745, 0.7295957488794181, -1.9696889672075744)),
        (2**40 + 3, 5, (-0.07474600849941788, -1.129611350209943, -0.7709410115765021)),
    ],
)
def test_first_normals_of_a_seed_are_those_of_every_version(seed, path, normals):
    assert path_normals.rows(seed, "W", path, 1, 3, 1)[:, 0, 0] == pytest.approx(normals, abs=1e-15)


def test_words_of_a_path_before_its_first_draw():
    words = path_normals.states(path_normals.key(1, "W"), [0])[0, :, 0]
    assert [f"{word:x}" for word in words] == ["1c93abf95cb014b5", "ba7eddc28ab423c3", "2bc60a5c26bc3f09", "d"]
