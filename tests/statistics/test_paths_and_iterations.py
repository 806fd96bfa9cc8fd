"""The paths themselves, and how many Newton iterations their steps took."""

import os

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, PerPath, simulate
from stodyn import statistics as st
from stodyn.methods.explicit import EulerMaruyama
from stodyn.methods.implicit import ThetaEuler
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.numerics import uncompiled

RUN = dict(t=(0.0, 1.0), dt=0.1, seed=6)


def still(starts):
    return SDE(lambda t, x: 0.0, lambda t, x: 0.0, PerPath(starts))


@pytest.mark.parametrize("count", [1, 3, 4, 5, 10])
def test_paths_are_the_first_ones_in_order(count):
    """10 paths in blocks of 4: a count that ends inside, at the end of, or beyond a block."""
    starts = np.arange(10.0)
    run = simulate(still(starts), EulerMaruyama, paths=10, block=4, collect=st.Paths(count, at=[0.0, 1.0]), **RUN)
    np.testing.assert_array_equal(run["path"][..., 0], np.stack([starts[:count]] * 2, axis=1))
    assert run["path"].dims == ("number", "time", "component")


def test_paths_choose_a_grid_of_their_own():
    """Fine enough to be drawn, whatever the others take: every step, or about 1000 of many."""
    moments = st.Moments(at=[1.0])
    run = simulate(still(np.ones(2)), EulerMaruyama, paths=2, collect=[moments, st.Paths(2)], **RUN)
    assert run.sizes["time"] == 1 and run["path"].shape == (2, 11, 1)
    many = simulate(still(np.ones(2)), EulerMaruyama, paths=2, collect=st.Paths(1), **RUN | {"dt": 1 / 4096})
    assert many["path"].shape == (1, 1025, 1)
    np.testing.assert_allclose(many["time"][:2], [0.0, 4 / 4096])


def test_paths_ask_for_memory_before_anything_runs(monkeypatch):
    """A thousandth of the machine would hold it, a hundred times the machine does not; nothing is computed."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    paths = 100 * there // (8 * 11)
    monkeypatch.setattr(
        "stodyn.numerics.printing.compiling.compiled",
        lambda *arguments, **options: pytest.fail("something was compiled"),
    )
    problem = SDE(lambda t, x: 0.0, lambda t, x: 0.0, 1.0)
    with pytest.raises(MemoryError, match=r"Paths: would keep .* GB, but the limit is .* GB.*\. Keep fewer paths"):
        simulate(problem, EulerMaruyama, paths=paths, collect=st.Paths(paths, every=1), **RUN)


@pytest.mark.parametrize(
    "statistic", [st.Moments(), st.Histogram([0.0, 1.0]), st.Paths(3)], ids=lambda s: type(s).__name__
)
def test_every_large_result_is_asked_for(statistic, monkeypatch):
    monkeypatch.setattr("stodyn.engine.spec.MEMORY_SHARE", 1e-12)  # a machine of a few hundredths of a byte
    with pytest.raises(MemoryError, match=rf"{type(statistic).__name__}: would keep .* fewer times with every= or at="):
        simulate(still(np.ones(3)), EulerMaruyama, paths=3, collect=statistic, **RUN)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "all"])
def test_counts_that_are_refused(count):
    with pytest.raises(ValueError, match="Paths: count must be a whole number >= 1"):
        st.Paths(count)


# --- iterations ----------------------------------------------------------------------------------------------------


def test_a_linear_problem_takes_one_iteration():
    """One elimination solves it; explicit methods take none."""
    problem = ornstein_uhlenbeck()
    run = simulate(problem, ThetaEuler, paths=20, block=8, collect=st.Iterations(every=5), **RUN)
    np.testing.assert_array_equal(run["iterations"], [np.nan, 1.0, 1.0])
    np.testing.assert_array_equal(run["iterations_stderr"], [np.nan, 0.0, 0.0])
    run = simulate(problem, EulerMaruyama, paths=20, collect=st.Iterations(at=[0.3, 1.0]), **RUN)
    np.testing.assert_array_equal(run["iterations"], [0.0, 0.0])


def count_by_hand(x, h, steps, tol=1e-10):
    """Newton on y - x + h y³ = 0 from y = x, two updates by one slope if the second is at most a quarter of the first;
    (states, iterations) of every step."""
    counts = []
    for _ in range(steps):
        y, count, done = x, 0, False
        while not done:
            slope, scale = 1 + 3 * h * y**2, 1 + abs(y)
            delta = (y - x + h * y**3) / slope
            y, count = y - delta, count + 1
            second = (y - x + h * y**3) / slope
            if abs(second) <= abs(delta) / 4:
                y, delta = y - second, second
            done = abs(delta) <= tol * scale
        counts.append(count)
        x = y
    return np.array(counts)


def test_iterations_are_averaged_over_paths_and_steps():
    """x' = -x³ without noise, each path from a start of its own: Newton's counts by hand, and their standard error."""
    starts = np.linspace(0.1, 6.0, 30)
    problem = SDE(lambda t, x: -(x**3), lambda t, x: 0.0, PerPath(starts))
    run = simulate(problem, ThetaEuler, paths=30, block=8, collect=st.Iterations(at=[0.2, 0.5, 1.0]), **RUN)
    counts = np.array([count_by_hand(x, 0.1, 10) for x in starts])
    assert len(np.unique(counts)) > 2
    of_path = np.stack([counts[:, a:b].mean(axis=1) for a, b in ((0, 2), (2, 5), (5, 10))])
    np.testing.assert_allclose(run["iterations"], of_path.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(run["iterations_stderr"], of_path.std(axis=1, ddof=1) / np.sqrt(30), rtol=1e-10)


def test_failed_paths_are_not_counted():
    """x' = x² + 1 from 2 has no root at h = 0.1 after a step or two; the path at rest near -1 goes on."""
    problem = SDE(lambda t, x: jnp.where(x > 0, x**2 + 1.0, 0.0), lambda t, x: 0.0, PerPath([-1.0, 2.0]))
    run = simulate(problem, ThetaEuler, paths=2, collect=st.Iterations(at=[0.5, 1.0]), on_failure="record", **RUN)
    np.testing.assert_array_equal(run["failed_path"], [1])
    np.testing.assert_array_equal(run["iterations"], [1.0, 1.0])


def test_what_only_picks_numbers_out_is_observed_at_many_times_at_once(monkeypatch):
    """A call of Python for each time made storing every step 180 times as long as the steps."""
    calls, run_by_numpy = [], uncompiled.run
    monkeypatch.setattr(uncompiled, "run", lambda *arguments: calls.append(1) or run_by_numpy(*arguments))
    problem = SDE(lambda t, x: x[::-1], None, [1.0, 2.0])
    run = simulate(problem, EulerMaruyama, t=(0.0, 1.0), dt=1 / 512, seed=1, paths=2, collect=st.Paths(2, every=1))
    assert run["path"].shape == (2, 513, 2) and len(calls) < 10
    sums, steps = run["path"].sum("component"), np.arange(513)
    np.testing.assert_allclose(sums, np.broadcast_to(3.0 * (1 + 1 / 512) ** steps, (2, 513)), rtol=1e-13)
