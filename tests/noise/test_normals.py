"""The inlined ziggurat gives NumPy's numbers, and they are independent standard normals.

The statistical tests have fixed seeds; their false-alarm rates are stated for a seed drawn afresh.
"""

import importlib.util
import math
import sys
import threading

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from stodyn.noise import normals
from stodyn.noise.normals import INLINED, NUMPY, TABLE, TAIL, Normals
from stodyn.noise.stream import STREAMS, bit_generator

DRAWS = 10_000_000


@pytest.fixture(scope="module")
def sample():
    out = np.empty(DRAWS)
    Normals(bit_generator(7, 0, "W"), INLINED).fill(out)
    return out


def drawn(seed, block, stream, count):
    out = np.empty(count)
    Normals(bit_generator(seed, block, stream)).fill(out)
    return out


def test_same_numbers_as_numpy(sample):
    theirs = np.random.Generator(bit_generator(7, 0, "W")).standard_normal(DRAWS)
    assert np.max(np.abs(sample / theirs - 1.0)) < 1e-12
    assert np.sum(np.abs(sample) > TAIL) > 1000  # the tails were among them


def test_layers_have_equal_area_under_the_density():
    threshold, width, rise, height = TABLE.reshape(2, 256, 4)[0].T
    x = width * 2.0**52
    np.testing.assert_allclose(height[1:], np.exp(-0.5 * x[1:] ** 2), rtol=1e-14)
    np.testing.assert_allclose(rise[1:] + height[1:], [1.0, *height[1:-1]], rtol=1e-15)
    base = TAIL * math.exp(-0.5 * TAIL**2)
    tail = scipy.integrate.quad(lambda x: math.exp(-0.5 * x * x), TAIL, np.inf, epsabs=1e-16)[0]
    np.testing.assert_allclose(x[0] * math.exp(-0.5 * TAIL**2), base + tail, rtol=1e-12)
    np.testing.assert_allclose(x[1:] * rise[1:], base + tail, rtol=1e-12)
    np.testing.assert_allclose(threshold[2:] * 2.0**-52, x[1:-1] / x[2:], rtol=1e-12)
    assert threshold[1] == 0
    np.testing.assert_array_equal(TABLE.reshape(2, 256, 4)[1], np.stack([threshold, -width, rise, height], axis=1))


@pytest.mark.parametrize("power", range(1, 9))
def test_moments(sample, power):
    """E x^k within 5.5 standard errors, exact variances; false alarm 8 x 4e-8."""

    def moment(k):
        return 0.0 if k % 2 else float(scipy.special.factorial2(k - 1))

    spread = math.sqrt((moment(2 * power) - moment(power) ** 2) / DRAWS)
    assert abs(np.mean(sample**power) - moment(power)) < 5.5 * spread


def test_distribution_function(sample):
    """Kolmogorov-Smirnov, false alarm 1e-7."""
    assert scipy.stats.kstest(sample[:1_000_000], "norm").pvalue > 1e-7


@pytest.mark.parametrize("beyond", [3.0, TAIL, 4.0, 4.5])
def test_tails(sample, beyond):
    """Both tails' counts and, in them, the mean excess; within 5.5 standard errors, false alarm 16 x 4e-8."""
    p = scipy.stats.norm.sf(beyond)
    mean = scipy.stats.norm.pdf(beyond) / p
    variance = 1.0 + beyond * mean - mean**2
    for side in (sample, -sample):
        tail = side[side > beyond]
        assert abs(tail.size - DRAWS * p) < 5.5 * math.sqrt(DRAWS * p)
        assert abs(np.mean(tail) - mean) < 5.5 * math.sqrt(variance / tail.size)


@pytest.mark.parametrize("lag", [1, 2, 3, 8, 255, 256])
def test_neighbours_are_uncorrelated(sample, lag):
    """x, |x| and x² against their later selves, within 5.5 standard errors; false alarm 18 x 4e-8."""
    for values in (sample, (np.abs(sample) - math.sqrt(2 / math.pi)) / math.sqrt(1 - 2 / math.pi)):
        assert abs(np.mean(values[lag:] * values[:-lag])) < 5.5 / math.sqrt(DRAWS)
    squares = (sample**2 - 1.0) / math.sqrt(2.0)
    assert abs(np.mean(squares[lag:] * squares[:-lag])) < 5.5 / math.sqrt(DRAWS)


def test_blocks_streams_and_seeds_are_uncorrelated():
    """All pairs of 20 streams of 500 000, within 6 standard errors; false alarm 190 x 2e-9."""
    count = 500_000
    keys = [(1, block, stream) for block in (0, 1, 2, 1000) for stream in STREAMS if stream in ("W", "Z", "area")]
    keys += [(seed, block, "W") for seed in (2, 3, 2**40, 2**100) for block in (0, 1)]
    rows = np.stack([drawn(*key, count) for key in keys])
    products = rows @ rows.T / count
    assert np.max(np.abs(products - np.diag(np.diag(products)))) < 6.0 / math.sqrt(count)


@pytest.mark.parametrize("implementation", [INLINED, NUMPY])
def test_fill_in_pieces_equals_fill_at_once(implementation):
    whole = np.empty((40, 3, 128))
    Normals(bit_generator(3, 5, "Z"), implementation).fill(whole)
    pieces = Normals(bit_generator(3, 5, "Z"), implementation)
    rest = whole.ravel()
    for size in (1, 0, 2, 1000, 4096):
        piece = np.empty(size)
        pieces.fill(piece)
        np.testing.assert_array_equal(piece, rest[:size])
        rest = rest[size:]
    last = np.empty((rest.size, 1))
    pieces.fill(last)
    np.testing.assert_array_equal(last[:, 0], rest)


def test_the_gil_is_released():
    """While one thread fills, this one keeps counting; held, it would count next to nothing."""
    out, done = np.empty(DRAWS), threading.Event()
    source = Normals(bit_generator(1, 0, "W"), INLINED)
    source.fill(out[:1])
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        thread = threading.Thread(target=lambda: (source.fill(out), done.set()))
        thread.start()
        counted = 0
        while not done.is_set():
            counted += 1
        thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert counted > 1000


def test_bad_input():
    source = bit_generator(1, 0, "W")
    with pytest.raises(TypeError, match=r"bit_generator: expected numpy.random.SFC64, got PCG64"):
        Normals(np.random.PCG64(1))
    with pytest.raises(ValueError, match="implementation: expected 'inlined ziggurat' or 'NumPy', got 'fast'"):
        Normals(source, "fast")
    read_only = np.empty(4)
    read_only.flags.writeable = False
    for out in (np.empty(4, np.float32), np.empty((4, 4)).T[1:], np.empty(8)[::2], read_only):
        with pytest.raises(ValueError, match="out: expected a writeable C-contiguous float64 array"):
            Normals(source).fill(out)


def test_numpy_draws_where_numba_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    spec = importlib.util.spec_from_file_location("normals_without_numba", normals.__file__)
    bare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bare)
    assert bare.IMPLEMENTATION == NUMPY
    out, ours = np.empty(1000), np.empty(1000)
    bare.Normals(bit_generator(1, 2, "W")).fill(out)
    Normals(bit_generator(1, 2, "W"), INLINED).fill(ours)
    np.testing.assert_allclose(out, ours, rtol=1e-12)
    with pytest.raises(ValueError, match="needs Numba, which is not installed; use 'NumPy'"):
        bare.Normals(bit_generator(1, 2, "W"), INLINED)


def test_compiles_without_a_folder_for_the_cache(monkeypatch):
    class Refuses:
        @staticmethod
        def njit(cache=False, nogil=False):
            if cache:
                raise RuntimeError("cannot cache function: no locator available")
            return lambda function: ("compiled", nogil, function)

    monkeypatch.setattr(normals, "numba", Refuses)
    assert normals.compiled(len) == ("compiled", True, len)
