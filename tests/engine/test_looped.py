"""Steps of large systems as loops over arrays: the same paths as by scalars, failures, statistics and threads."""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.engine.program import executors
from stodyn.engine.spec import describe

N = 9
START = np.linspace(-1.0, 1.0, N)


@pytest.fixture
def by_loops(monkeypatch):
    """A switch: by_loops(True) prints every step as loops, by_loops(False) as scalars."""

    def switch(on):
        executors.forget()
        monkeypatch.setattr(executors, "LOOPED", -1 if on else 10**9)
        monkeypatch.setattr(executors, "SMALL", 0)

    yield switch
    executors.forget()


def ring(t, x, p):
    return p["pull"] * (jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1)) + p["push"] * jnp.sin(t) - x * jnp.mean(x**2)


def noisy(t, x, p):
    return sd.diagonal(0.1 + p["noise"] * jnp.cos(x))


def problem(**changes):
    params = {"pull": 0.7, "push": sd.PerPath(np.linspace(0, 1, 11)), "noise": np.linspace(0.1, 0.2, N)}
    return sd.SDE(ring, noisy, START, params | changes, calculus="stratonovich")


def both(by_loops, problem, method, **options):
    found = []
    for on in (True, False):
        by_loops(on)
        run = {"t": (0, 0.5), "dt": 0.05, "paths": 11, "seed": 5} | options
        found.append(sd.simulate(problem, method, **run))
        reason = sd.provenance(found[-1])["executor_reason"]
        assert ("over arrays" in reason) == on, reason
    return found


@pytest.mark.brief("AB3", "SRIW1")
@pytest.mark.parametrize("method", ["Heun", "Milstein", "SRIW1", "AB3"])
def test_paths_are_those_of_scalars(by_loops, method):
    one, other = both(by_loops, problem(), method, collect=sd.statistics.Paths(11, every=3))
    np.testing.assert_allclose(one.path, other.path, rtol=1e-13, atol=1e-14)


def test_statistics_are_those_of_scalars(by_loops):
    energy = sd.statistics.Observable(lambda t, x, p: 0.5 * jnp.sum(x**2), every=2)
    collect = [sd.statistics.Moments(every=2), energy, sd.statistics.Passage(-0.9, "x0", mean=False)]
    one, other = both(by_loops, problem(), "EulerMaruyama", collect=collect)
    for name in one.data_vars:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-10, atol=1e-13, err_msg=name)


def test_single_precision_and_unequal_steps(by_loops):
    steps = np.array([0.02, 0.05, 0.01, 0.1])
    one, other = both(by_loops, problem(push=0.3), "Heun", dt=steps, t=(0, steps.sum()), dtype="float32",
                      collect=sd.statistics.Paths(3, at=[steps.sum()]))  # fmt: skip
    np.testing.assert_allclose(one.path, other.path, rtol=3e-6, atol=3e-6)


def test_failures_are_found_at_the_same_time(by_loops):
    growing = sd.SDE(lambda t, x: x**3 * 50, lambda t, x: sd.diagonal(0.3 * x), START)
    options = {"on_failure": "record", "collect": sd.statistics.Moments(every=2), "dt": 0.1, "t": (0, 2)}
    one, other = both(by_loops, growing, "EulerMaruyama", **options)
    assert np.array_equal(one.paths_used, other.paths_used)
    assert int(one.paths_used[-1]) < 11
    assert np.array_equal(one.failed_path, other.failed_path)
    assert np.array_equal(one.failure_time, other.failure_time)


def test_threads_blocks_and_replay_have_the_same_bits(monkeypatch):
    monkeypatch.setattr(executors, "LOOPED_BYTES", 8 * 300 * 8)
    large = sd.SDE(lambda t, x: (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + 8.0,
                   lambda t, x: jnp.diag(0.1 * x), np.linspace(7.0, 8.0, 300), calculus="stratonovich")  # fmt: skip
    options = {"t": (0, 0.03), "dt": 0.01, "seed": 1, "collect": sd.statistics.Paths(20, every=1)}
    one = sd.simulate(large, "Heun", paths=20, threads=1, **options)
    assert sd.provenance(one)["executor_reason"] == "2 loops over arrays per step, 8 paths together on one thread"
    assert sd.provenance(one)["block"] == 8
    two = sd.simulate(large, "Heun", paths=20, threads=2, **options)
    assert np.array_equal(one.path, two.path)
    monkeypatch.undo()
    wide = sd.simulate(large, "Heun", paths=20, threads=1, **options)
    assert np.array_equal(one.path, wide.path)


def test_few_paths_of_a_long_run_are_shared_among_threads():
    """Eight paths of a large system work for long enough to be a block; those of a short run stay together."""
    ring = sd.SDE(lambda t, x: jnp.roll(x, 1) - x**3, lambda t, x: sd.diagonal(0.1 * x), np.ones(900))
    widths = [executors.get(describe(ring, "Heun", (0.0, end), 0.01, None, "float64")).width for end in (0.02, 100.0)]
    assert widths[0] >= 512
    assert widths[1] == 8


def test_what_no_loop_can_do_goes_to_vmap_with_the_reason():
    sorting = sd.SDE(lambda t, x: -jnp.sort(x), lambda t, x: sd.diagonal(0.1 * x), np.linspace(0, 1, 3000))
    way = executors.get(
        describe(sorting, sd.method("EulerMaruyama"), (0, 0.02), 0.01, sd.statistics.Paths(1), "float64")
    )
    assert way.name == "vmap" and "sort" in way.reason
