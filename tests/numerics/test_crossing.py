"""Chances and times of crossings between two steps, against quadrature and the killed kernel."""

import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import invgauss, norm

from stodyn.numerics import crossing
from stodyn.numerics.printing.points import at_one, at_points


def survivors(l, a, b, v):
    """P(neither of two levels, l apart, is reached) by forty images of each: the killed over the free kernel."""
    k = np.arange(-40, 41)
    return np.sum(np.exp(-2 * k * l * (k * l + b - a) / v) - np.exp(-2 * (k * l + a) * (k * l + b) / v))


@pytest.mark.parametrize(
    ("l", "a", "b", "v"),
    [(1.0, 0.3, 0.7, 0.5), (1.0, 0.2, 0.5, 0.1), (1.0, 0.5, 0.5, 1.0), (1.0, 0.5, 0.4, 1.9), (1, 0.9, 0.2, 2.1),
     (1.0, 0.3, 0.6, 4.0), (1.0, 0.01, 0.02, 1e-3)],
)  # fmt: skip
def test_the_chance_of_crossing_either_of_two_levels_is_the_series(l, a, b, v):
    s = np.sqrt(v)
    found = 1.0 - at_one(crossing.bridge_chance_of_two, (a / s, b / s), ((l - a) / s, (l - b) / s))
    assert found == pytest.approx(survivors(l, a, b, v), abs=1e-9)


def test_published_chances_of_two_levels():
    """Of the specification: 0.23070788998 and 0.8643300857."""
    for (l, a, b, v), exact in {(1, 0.3, 0.7, 0.5): 0.23070788998, (1, 0.2, 0.5, 0.1): 0.8643300857}.items():
        s = np.sqrt(v)
        found = 1.0 - at_one(crossing.bridge_chance_of_two, (a / s, b / s), ((l - a) / s, (l - b) / s))
        assert found == pytest.approx(exact, abs=1e-10)


def test_an_end_beyond_a_level_has_crossed():
    assert at_one(crossing.bridge_chance, 1.0, -0.1) == 1.0
    assert at_one(crossing.bridge_chance_of_two, (1.0, 2.0), (3.0, -0.1)) == 1.0
    assert at_one(crossing.bridge_chance_of_two, (1.0, -0.1), (3.0, 2.0)) == 1.0


@pytest.mark.parametrize(("share", "until"), [(0.2, 0.9), (0.5, 0.6), (0.01, 0.3)])
def test_the_distance_before_a_crossing_scatters_alike_in_three_directions(share, until):
    """Before it first arrives a bridge is as far off as a point of space that ends at 0: along the way the scatter of
    the bridge is turned into √(share (until - share)/until), as across."""
    spread, a = np.sqrt(share * (until - share) / until), 1.3
    one = np.sqrt(share * (1.0 - share))  # what `off` is where the normal is 1
    straight = a * (1.0 - share / until)
    for off, normals, expected in (
        (one, (0.0, 0.0), straight + spread),
        (0.0, (0.6, -0.8), np.hypot(straight, spread)),
    ):
        found = at_one(crossing.distance_before, (a, 0.7), share, until, True, off, 0.4, np.array(normals))
        assert found == pytest.approx(expected, rel=1e-14)


def test_the_distance_on_the_way_of_a_bridge_that_does_not_cross():
    """Its chord from 1.3 to 0.7 and what it is off along it, with the scatter of a bridge across."""
    normals, spread = np.array([0.6, -1.1]), np.sqrt(0.2 * 0.8)
    found = at_one(crossing.distance_before, (1.3, 0.7), 0.2, 1.0, False, 0.25, 1.0, normals)
    along = 0.8 * 1.3 + 0.2 * 0.7 + 0.25
    assert found == pytest.approx(np.sqrt(along**2 + spread**2 * normals @ normals), rel=1e-14)


def test_the_time_left_after_a_crossing():
    """Against its definition, with the density a/√(2πu³) exp(-a²/2u) of the first passage of a level at a."""
    assert at_one(crossing.share_after_crossing, 0.3, 0.2) == pytest.approx(0.73709066, abs=1e-8)
    for a, b in ((0.3, 0.2), (1.5, 0.01), (0.05, 3.0), (12.0, 2.0)):

        def density(u, a=a, b=b):
            first = a / u**1.5 * np.exp(-(a**2) / (2 * u))
            return first * np.exp(-(b**2) / (2 * (1 - u)) + 0.5 * (a + b) ** 2) / np.sqrt(2 * np.pi * (1 - u))

        exact = quad(lambda u, f=density: (1 - u) * f(u), 0, 1, epsabs=1e-12)[0]
        assert at_one(crossing.share_after_crossing, a, b) == pytest.approx(exact, rel=1e-7)


def test_draws_of_the_inverse_gaussian_law():
    """The distribution function at five quantiles within 5 standard errors; false alarm 3e-6, the seed is fixed. An end
    at the level (mean infinity) has Lévy's law."""
    rng, count = np.random.default_rng(1), 40_000
    normal, uniform = rng.standard_normal(count), rng.random(count)
    p = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    error = 5 * np.sqrt(p * (1 - p) / count)
    for mean, shape in ((1.5, 0.09), (0.2, 4.0)):
        drawn = at_points(crossing.inverse_gaussian, np.full(count, mean), np.full(count, shape), normal, uniform)
        quantiles = invgauss.ppf(p, mean / shape, scale=shape)
        assert np.all(np.abs((drawn[:, None] < quantiles).mean(axis=0) - p) < error)
    drawn = at_points(crossing.inverse_gaussian, np.full(count, np.inf), np.full(count, 0.5), normal, uniform)
    quantiles = 0.5 / norm.isf(p / 2) ** 2
    assert np.all(np.abs((drawn[:, None] < quantiles).mean(axis=0) - p) < error)


def test_the_lowest_point_of_a_cubic():
    """Against a fine grid, for a thousand random cubics and for those that are quadratic, linear and constant."""
    rng = np.random.default_rng(2)
    a, b, p, q = rng.standard_normal((4, 1000)) * np.array([1, 1, 4, 4])[:, None]
    special = np.array([[1, 1, -1, 1], [1, 2, 1, 1], [2, 1, -1, -1], [1, 1, 0, 0], [1, 1, 1, -1], [0, 0, 1, 1]], float)
    a, b, p, q = np.concatenate([np.stack([a, b, p, q], 1), special]).T
    u = np.linspace(0, 1, 2001)[:, None]
    on_grid = np.asarray(crossing.cubic_at(u, (a, b), (p, q)))
    share, lowest = at_points(crossing.cubic_lowest, (a, b), (p, q))
    np.testing.assert_allclose(lowest, on_grid.min(axis=0), atol=1e-5)
    np.testing.assert_allclose(at_points(crossing.cubic_at, share, (a, b), (p, q)), lowest, atol=1e-14)
    assert np.all((share >= 0) & (share <= 1))


def test_the_first_root_of_a_cubic():
    """x = (u - .25)(u - .75)(u - 2)·(-1) begins above zero: its roots are known."""
    ends, slopes = (0.25 * 0.75 * 2, 0.75 * 0.25 * 1.0), []
    polynomial = -np.poly([0.25, 0.75, 2.0])
    for u in (0.0, 1.0):
        slopes.append(np.polyval(np.polyder(polynomial), u))
    ends = tuple(np.polyval(polynomial, u) for u in (0.0, 1.0))
    lowest, value = at_one(crossing.cubic_lowest, ends, tuple(slopes))
    assert value < 0
    found = jax.jit(crossing.cubic_root)(*(jax.numpy.asarray(x) for x in (ends, slopes)), lowest)
    assert found == pytest.approx(0.25, abs=1e-11)
    coarse = at_one(lambda ends, slopes, lowest: crossing.cubic_root(ends, slopes, lowest, 12), ends, slopes, lowest)
    assert coarse == pytest.approx(0.25, abs=2e-4)
