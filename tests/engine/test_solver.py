"""The second kind of method: host code that takes a block over the whole grid. Exact Ornstein-Uhlenbeck sampling."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from stodyn import SDE, PathsFailed, PerPath, provenance, replay, simulate
from stodyn import statistics as st
from stodyn.methods.contract import Solver
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK, ornstein_uhlenbeck
from stodyn.noise import stream


@dataclasses.dataclass(frozen=True)
class ExactOU(Solver):
    """x(t + h) = exp(-rate h) x(t) + sigma sqrt((1 - exp(-2 rate h))/(2 rate)) Z, no error at any step."""

    accepts = SDE
    calculus = "ito"
    name = "ExactOU"
    claims = ()
    citation = "the transition law of a linear equation"

    def solve(self, problem, grid, start, params, streams):
        rate, sigma = params["rate"], params["sigma"]
        assert rate.shape == sigma.shape == (len(start),)
        states = [start[:, 0]]
        for h in np.diff(grid):
            spread = sigma * np.sqrt(-np.expm1(-2 * rate * h) / (2 * rate))
            states.append(np.exp(-rate * h) * states[-1] + spread * streams["W"].standard_normal(len(start)))
        return np.stack(states)[:, :, None]


RUN = dict(t=(0.0, 2.0), dt=0.5, seed=12)
MODEL = ORNSTEIN_UHLENBECK(rate=0.8, sigma=0.6, start=1.5)


@pytest.mark.usefixtures("quick_compiling")
def test_every_statistic_sees_it():
    """2500 paths in two blocks: the exact law at the exact times, to 6 standard errors (2e-9 each)."""
    collect = [
        st.Moments(every=2),
        st.Paths(2500, every=2),
        st.Histogram([-1.0, 0.0, 1.0]),
        st.Observable(lambda t, x, p: x[0] ** 2 + p["rate"], name="square"),
        st.Iterations(),
        st.Passage(2.5, bridge=False, mean=False),
        st.Autocorrelation(lags=1, every=1),
        st.Change(lambda t, x, p: (1.0 + t) * x[0], name="grown", every=2),
    ]
    run = simulate(MODEL.problem, ExactOU(), paths=2500, block=1250, collect=collect, **RUN)
    t = run["time"].values
    mean, variance = MODEL.exact["mean"](t), MODEL.exact["variance"](t)
    x = run["path"].values
    assert np.all(np.abs(run["mean"] - mean) <= 6 * run["mean_stderr"] + 1e-14)
    assert np.all(np.abs(run["variance"] - variance) <= 6 * run["variance_stderr"] + 1e-14)
    np.testing.assert_allclose(run["mean"], x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(run["square"], (x[..., 0] ** 2).mean(axis=0) + 0.8, rtol=1e-12)
    np.testing.assert_allclose(run["cumulative"][:, 0, 1], (x[..., 0] < 0).mean(axis=0), rtol=1e-12)
    grown = (1.0 + t) * x[..., 0] - x[:, :1, 0]
    np.testing.assert_allclose(run["grown_rms"], np.sqrt((grown**2).mean(axis=0)), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(run["iterations"], [np.nan, 0.0, 0.0])
    np.testing.assert_array_equal(run["paths_used"], 2500)
    collect = st.Paths(2500, every=1)
    full = simulate(MODEL.problem, ExactOU(), paths=2500, block=1250, collect=collect, **RUN)["path"].values
    np.testing.assert_array_equal(full[:, ::2], x)
    alive = np.cumprod(full[..., 0] < 2.5, axis=1).mean(axis=0)
    np.testing.assert_allclose(run["passage_survival"], alive[::2], rtol=1e-12)
    assert provenance(run)["method"] == "ExactOU"
    assert run["autocovariance"].shape == (2, 1)


def test_it_draws_from_the_streams_of_its_block():
    """Same seed, same numbers; the W of a block is the W that stepping methods are fed."""
    runs = [
        simulate(MODEL.problem, ExactOU(), paths=20, block=8, threads=k, collect=st.Paths(20), **RUN)["path"].values
        for k in (1, 2)
    ]
    np.testing.assert_array_equal(*runs)
    z = stream.generator(12, 1, "W").standard_normal(8)
    spread = 0.6 * np.sqrt(-np.expm1(-0.8) / 1.6)
    np.testing.assert_allclose(runs[0][8:16, 1, 0], np.exp(-0.4) * 1.5 + spread * z, rtol=1e-13)


def test_starts_and_parameters_of_each_path():
    rates = np.linspace(0.5, 2.0, 20)
    problem = ornstein_uhlenbeck(rate=PerPath(rates), sigma=0.0, start=scipy.stats.norm(0, 1))
    run = simulate(problem, ExactOU(), paths=20, block=8, collect=st.Paths(20, at=[0.0, 2.0]), **RUN)
    start, end = run["path"].values[:, :, 0].T
    np.testing.assert_allclose(end, start * np.exp(-2.0 * rates), rtol=1e-12)


def test_paths_of_a_solver_are_replayed():
    run = simulate(MODEL.problem, ExactOU(), paths=20, block=8, collect=st.Paths(20, every=1), **RUN)
    again = replay(MODEL.problem, ExactOU(), run, 19)
    np.testing.assert_array_equal(again["path"], run["path"][19])
    with pytest.raises(ValueError, match="its start or params differ"):
        replay(ornstein_uhlenbeck(), ExactOU(), run, 19)


@dataclasses.dataclass(frozen=True)
class Broken(ExactOU):
    """Path 2 is lost at the second time; or the states come in another order of axes."""

    transposed: bool = False

    def solve(self, problem, grid, start, params, streams):
        states = np.ones((len(grid), *start.shape))
        states[1:, 2] = np.nan
        return states.swapaxes(0, 1) if self.transposed else states


def test_failures_of_a_solver():
    run = simulate(MODEL.problem, Broken(), paths=5, on_failure="record", collect=st.Moments(every=1), **RUN)
    np.testing.assert_array_equal(run["failed_path"], [2])
    np.testing.assert_array_equal(run["failure_time"], [0.5])
    np.testing.assert_array_equal(run["paths_used"], [5, 4, 4, 4, 4])
    with pytest.raises(PathsFailed, match=r"1 of the 5 paths run so far failed.* First: path 2 at t = 0.5"):
        simulate(MODEL.problem, Broken(), paths=5, **RUN)


def test_states_of_a_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"method: ExactOU\.solve gave shape \(3, 5, 1\), expected \(5, 3, 1\)"):
        simulate(MODEL.problem, Broken(transposed=True), paths=3, block=8, **RUN)
