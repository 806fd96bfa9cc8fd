"""Histograms count as NumPy does, and quantiles come with an error and a resolution that hold."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn import SDE, PerPath, simulate
from stodyn import statistics as st
from stodyn.methods.explicit import EulerMaruyama

EDGES = np.array([-2.0, -1.0, -0.5, 0.0, 0.1, 0.5, 1.0, 2.5])
PATHS = 3000


@pytest.fixture(scope="module")
def brownian():
    """W at t = 0, 0.5, 1: exact at any step."""
    problem = SDE(lambda t, x: 0.0, lambda t, x: 1.0, 0.0)
    collect = [st.Histogram(EDGES, every=2), st.Paths(PATHS, every=2)]
    return simulate(problem, EulerMaruyama, t=(0, 1), dt=0.25, paths=PATHS, seed=8, block=1024, collect=collect)


def test_counts_are_numpys(brownian):
    for k in range(3):
        x = brownian["path"].values[:, k, 0]
        counts, _ = np.histogram(x, EDGES)
        density = brownian["density"].values[k, 0]
        np.testing.assert_allclose(density * np.diff(EDGES) * PATHS, counts, atol=1e-9)
        below = np.array([(x < edge).mean() for edge in EDGES])
        np.testing.assert_allclose(brownian["cumulative"].values[k, 0], below, rtol=1e-14)
        share = counts / PATHS
        error = np.sqrt(share * (1 - share) / (PATHS - 1)) / np.diff(EDGES)  # unbiased
        np.testing.assert_allclose(brownian["density_stderr"].values[k, 0], error, rtol=1e-12)
        error = np.sqrt(below * (1 - below) / (PATHS - 1))
        np.testing.assert_allclose(brownian["cumulative_stderr"].values[k, 0], error, rtol=1e-12)
    np.testing.assert_array_equal(brownian["paths_used_in_histogram"], PATHS)
    np.testing.assert_array_equal(brownian["edge"], EDGES)
    np.testing.assert_array_equal(brownian["bin_left"], EDGES[:-1])
    np.testing.assert_allclose(brownian["bin"], (EDGES[1:] + EDGES[:-1]) / 2)


def test_what_lies_outside_is_not_lost(brownian):
    x = brownian["path"].values[:, -1, 0]
    below, above = brownian["cumulative"].values[-1, 0, 0], 1 - brownian["cumulative"].values[-1, 0, -1]
    np.testing.assert_allclose([below, above], [(x < -2).mean(), (x >= 2.5).mean()], atol=1e-12)
    assert below > 0
    assert above > 0


def test_the_interval_of_a_fraction_stays_between_0_and_1(brownian):
    found = sd.interval(brownian, "cumulative")
    assert (found.low >= 0).all() and (found.low <= brownian["cumulative"]).all()
    assert (brownian["cumulative"] <= found.high).all() and (found.high <= 1).all()


@pytest.mark.parametrize("q", [0.05, 0.3, 0.5, 0.77, 0.95])
def test_quantiles_lie_within_a_bin_of_the_samples_own(brownian, q):
    """Within one bin of the sample's own quantile, and of the exact one also by 6 standard errors (2e-9)."""
    found = sd.quantile(brownian, q)
    assert found["quantile"].dims == ("time", "component")
    for k, t in ((1, 0.5), (2, 1.0)):
        value, error, width = (
            float(found[name][k, 0]) for name in ("quantile", "quantile_stderr", "quantile_resolution")
        )
        exact = scipy.stats.norm.ppf(q) * np.sqrt(t)
        at = np.searchsorted(EDGES, value)
        assert width in np.diff(EDGES)
        assert abs(value - np.quantile(brownian["path"].values[:, k, 0], q)) <= width
        assert abs(value - exact) <= width + 6 * error
        density = float(brownian["density"][k, 0, at - 1])
        np.testing.assert_allclose(error, np.sqrt(q * (1 - q) / PATHS) / density, rtol=1e-9)
    assert found.attrs["q"] == q


def test_quantile_error_is_that_of_a_fine_histogram():
    """With bins of 0.02 around the median of N(0, 1): sqrt(1/4N) sqrt(2π), to the scatter of the density, 10 %."""
    problem = SDE(lambda t, x: 0.0, lambda t, x: 1.0, 0.0)
    edges = np.linspace(-0.3, 0.3, 7)
    run = simulate(
        problem, EulerMaruyama, t=(0, 1), dt=0.25, paths=20000, seed=9, collect=st.Histogram(edges, at=[1.0])
    )
    found = sd.quantile(run, 0.5)
    np.testing.assert_allclose(found["quantile_stderr"], np.sqrt(2 * np.pi / 4 / 20000), rtol=0.15)
    assert abs(found["quantile"].item()) < 6 * found["quantile_stderr"].item()


def test_quantiles_outside_the_edges_are_not_made_up(brownian):
    for q in (1e-4, 1 - 1e-4):
        assert np.isnan(sd.quantile(brownian, q)["quantile"].values[-1, 0])


def test_values_on_an_edge_belong_to_the_bin_above():
    problem = SDE(lambda t, x: 0.0, lambda t, x: 0.0, PerPath([0.0, 1.0, 1.0, 2.0]))
    run = simulate(
        problem, EulerMaruyama, t=(0, 1), dt=0.25, paths=4, seed=0, collect=st.Histogram([0.0, 1.0, 2.0], at=[1.0])
    )
    np.testing.assert_array_equal(run["cumulative"].values[0, 0], [0.0, 0.25, 0.75])
    np.testing.assert_array_equal(run["density"].values[0, 0], [0.25, 0.5])


@pytest.mark.parametrize("edges", [[0.0], [0.0, 0.0], [1.0, 0.0], [0.0, np.inf], [[0.0, 1.0]], 61])
def test_edges_that_are_refused(edges):
    with pytest.raises(ValueError, match=r"Histogram: edges must be at least two increasing finite .* np\.linspace"):
        st.Histogram(edges)


def test_quantiles_that_are_refused(brownian):
    for q in (0.0, 1.0, -0.1, np.nan):
        with pytest.raises(ValueError, match="q: expected a number between 0 and 1"):
            sd.quantile(brownian, q)
    with pytest.raises(ValueError, match=r"run: no histogram was collected; add statistics\.Histogram"):
        sd.quantile(brownian.drop_vars("cumulative"), 0.5)


def test_counts_under_vmap_are_those_in_print():
    """Two components that differ, over paths of which one fails."""
    start = PerPath(np.array([[0.2, 1.2], [0.3, -0.7], [2.0, 0.05], [60.0, 0.0]]))
    problem = SDE(lambda t, x: jnp.where(x > 50.0, jnp.nan, 0.0), lambda t, x: jnp.zeros((2, 1)), start)
    run = dict(t=(0, 1), dt=1.0, paths=4, seed=0, collect=st.Histogram(EDGES, every=1), on_failure="record")
    by_print, mapped = (simulate(problem, EulerMaruyama, executor=way, **run) for way in ("printed", "vmap"))
    np.testing.assert_array_equal(mapped["paths_used_in_histogram"], [4, 3])
    np.testing.assert_array_equal(mapped["cumulative"], by_print["cumulative"])
    np.testing.assert_allclose(mapped["cumulative"][1, 1], [0, 0, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 2 / 3, 1])
