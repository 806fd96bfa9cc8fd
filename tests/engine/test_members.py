"""The members of a run: starts and parameters path by path, and how paths are cut into blocks."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from stodyn import SDE, PerPath, provenance, simulate
from stodyn import statistics as st
from stodyn.engine.layout import Layout
from stodyn.engine.spec import describe
from stodyn.methods.explicit import EulerMaruyama
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.statistics.contract import Labelled, Variable

RUN = dict(t=(0.0, 1.0), dt=0.1, seed=7)


def test_the_width_depends_on_what_is_run_alone():
    """More paths are more blocks, so that a ledger can go on; longer runs come in narrower blocks."""

    def width(paths, **options):
        return provenance(simulate(ornstein_uhlenbeck(), EulerMaruyama, paths=paths, **RUN | options))["block"]

    assert width(1) == width(100) == width(10_000) == 4096
    assert width(1, dt=1e-5) < 4096


def test_a_path_is_the_same_in_any_block_and_any_crowd():
    """Its noise, its start and its parameters, to the last bit."""
    problem = ornstein_uhlenbeck(rate=scipy.stats.uniform(1, 2), start=scipy.stats.norm(0, 1))
    few = simulate(problem, EulerMaruyama, paths=70, collect=st.Paths(70, every=5), **RUN)["path"]
    for options in (dict(paths=70, block=7), dict(paths=1500), dict(paths=1500, block=33, threads=3)):
        other = simulate(problem, EulerMaruyama, collect=st.Paths(70, every=5), **RUN | options)["path"]
        np.testing.assert_array_equal(few, other)


def test_a_block_may_be_wider_than_the_run():
    problem = SDE(lambda t, x: -x, lambda t, x: 0.0, PerPath([1.0, 2.0, 3.0]))
    run = simulate(
        problem, EulerMaruyama, paths=3, block=16, collect=[st.Moments(at=[1.0]), st.Paths(3, at=[1.0])], **RUN
    )
    np.testing.assert_allclose(run["path"][:, 0, 0], np.array([1.0, 2.0, 3.0]) * 0.9**10, rtol=1e-13)
    np.testing.assert_allclose(run["mean"], 2.0 * 0.9**10, rtol=1e-13)
    assert run["paths_used"][0] == 3


def test_values_given_path_by_path_reach_their_paths():
    """Vectors to start from, vectors and numbers as parameters, beside leaves common to all; 50 paths in 4 blocks."""
    rng = np.random.default_rng(0)
    starts, matrices, rates = rng.normal(size=(50, 2)), rng.normal(size=(50, 2, 2)), rng.uniform(size=60)
    problem = SDE(
        lambda t, x, p: p["common"] * p["matrix"] @ x - p["pair"][0] * x + p["pair"][1],
        lambda t, x, p: jnp.zeros((2, 1)),
        PerPath(starts),
        params={"matrix": PerPath(matrices), "pair": (PerPath(rates), 0.25), "common": 0.5},
    )
    run = simulate(problem, EulerMaruyama, paths=50, block=16, collect=st.Paths(50, at=[1.0]), **RUN)
    x = starts
    for _ in range(10):
        x = x + 0.1 * (0.5 * np.einsum("pij,pj->pi", matrices, x) - rates[:50, None] * x + 0.25)
    np.testing.assert_allclose(run["path"][:, 0], x, rtol=1e-12)


def drawn():
    return SDE(
        lambda t, x, p: p["a"] * jnp.ones(2),
        lambda t, x, p: jnp.zeros((2, 1)),
        lambda rng, size: rng.uniform(1.0, 2.0, (size, 2)),
        params={"a": scipy.stats.norm(3.0, 0.5), "b": scipy.stats.uniform(0, 1)},
    )


def test_draws_are_reproducible_and_have_their_law():
    """x(1) - x(0) is the parameter: mean 3, deviation 1/2, to 6 standard errors; the same on any threads."""
    collect = [st.Paths(2000, at=[0.0, 1.0]), st.Moments()]
    one, two = (simulate(drawn(), EulerMaruyama, paths=2000, threads=k, collect=collect, **RUN) for k in (1, 2))
    np.testing.assert_array_equal(one["path"], two["path"])
    start, end = one["path"].values[:, 0], one["path"].values[:, 1]
    a = (end - start)[:, 0]
    np.testing.assert_allclose((end - start)[:, 1], a, rtol=1e-12)
    assert abs(a.mean() - 3.0) < 6 * 0.5 / np.sqrt(2000)
    assert abs(a.std() - 0.5) < 6 * 0.5 / np.sqrt(4000)
    assert start.min() >= 1.0
    assert start.max() <= 2.0
    assert len(np.unique(a)) == 2000  # blocks draw from streams of their own
    assert abs(np.corrcoef(start[:, 0], a)[0, 1]) < 6 / np.sqrt(2000)
    other = simulate(drawn(), EulerMaruyama, paths=2000, collect=collect, **RUN | dict(seed=8))
    assert not np.any(other["path"].values == one["path"].values)


def test_the_noise_does_not_depend_on_what_else_is_drawn():
    """A random start or parameter takes nothing from the Brownian stream."""
    plain = SDE(lambda t, x: 0.0, lambda t, x: 1.0, 0.0)
    moved = SDE(lambda t, x, p: 0.0, lambda t, x, p: 1.0, scipy.stats.norm(5, 1), params=scipy.stats.norm(0, 1))
    W, other = (
        simulate(problem, EulerMaruyama, paths=20, collect=st.Paths(20, every=5), **RUN)["path"].values
        for problem in (plain, moved)
    )
    np.testing.assert_allclose(other - other[:, :1], W, atol=1e-13)


def test_a_draw_that_fails_in_the_run_is_told():
    problem = SDE(lambda t, x: -x, lambda t, x: 1.0, lambda rng, size: np.where(np.arange(size) > 2, np.nan, 1.0))
    with pytest.raises(ValueError, match="start: drew a value that is not finite"):
        simulate(problem, EulerMaruyama, paths=8, **RUN)


def test_starts_and_parameters_are_drawn_from_streams_of_their_own():
    """Independent: the correlation of 1024 pairs has standard deviation 1/32 (false alarms: one in a million)."""
    normal = scipy.stats.norm()
    problem = SDE(lambda t, x, p: -p["a"] * x + p["b"], lambda t, x, p: 1.0, normal, params={"a": normal, "b": normal})
    spec = describe(problem, EulerMaruyama, (0.0, 1.0), 0.5, None, "float64")
    start, a, b = (np.ravel(drawn) for drawn in Layout(spec, 1024, 3, 512).draw(0, 1024))
    correlations = np.corrcoef([start, a, b])[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 5.1 / 32


class Extent(st.Moments):
    """A statistic that asks for no mask: the range of everything it is shown."""

    def observe(self, snapshot):
        return jnp.stack([jnp.min(snapshot.x), jnp.max(snapshot.x)])

    def fold(self, observed, block):
        return observed

    def merge(self, a, b):
        return np.stack([np.minimum(a[..., 0], b[..., 0]), np.maximum(a[..., 1], b[..., 1])], axis=-1)

    def label(self, result, labels):
        return Labelled({"extent": Variable(("time", "end"), np.asarray(result))})


@pytest.mark.parametrize("paths", [1, 3])
def test_lanes_without_a_path_show_the_first_one(paths):
    """Lanes are computed by whole vectors: the others must not show paths that nobody asked for, or another run."""
    extents = []
    for before in (-1e6, 1e6):
        simulate(ornstein_uhlenbeck(start=before), EulerMaruyama, paths=8, collect=st.Paths(8), **RUN)
        run = simulate(ornstein_uhlenbeck(), EulerMaruyama, paths=paths, collect=[Extent(), st.Paths(paths)], **RUN)
        extents.append(run["extent"].values)
        lowest = run["path"].min(dim=["number", "component"])
        np.testing.assert_array_equal(extents[-1][:, 0], lowest)
    np.testing.assert_array_equal(*extents)
