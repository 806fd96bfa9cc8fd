"""A path of an earlier run, again at every step, to the last bit; and only of that run."""

import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn import PerPath, replay, simulate
from stodyn import statistics as st
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ImplicitMidpoint, ThetaEuler
from stodyn.methods.srk import SRA1
from stodyn.models.double_well import double_well
from stodyn.models.geometric_brownian_motion import geometric_brownian_motion
from stodyn.models.kubo import kubo
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck

# An interval whose floating-point end is not start + steps * dt, paths that do not fill their last block.
RUN = dict(t=(0.1, 1.0), dt=0.9 / 21, paths=21, seed=5, block=8)
RANDOM = ornstein_uhlenbeck(
    rate=scipy.stats.uniform(1.0, 2.0), sigma=PerPath(np.linspace(0, 1, 21)), start=scipy.stats.norm(0, 1)
)


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.parametrize(
    ("problem", "method", "options"),
    [
        (kubo(), Heun, {}),
        (double_well(), ImplicitMidpoint, dict(executor="vmap")),
        (geometric_brownian_motion(), Heun, dict(dtype="float32")),
        (RANDOM, SRA1, dict(dt=np.repeat([0.05, 0.04], 10))),
    ],
    ids=["printed", "vmap and Newton", "float32 and lowered", "random starts and parameters, given steps"],
)
def test_replayed_paths_are_those_of_the_run(problem, method, options):
    run = simulate(problem, method, collect=[st.Paths(21, every=7), st.Moments()], **RUN | options)
    grid = run["time"].values
    for number in (7, 20):  # the last of a block, the last of the partial block
        again = replay(problem, method, run, number)
        assert again["path"].dims == ("time", "component")
        assert again.attrs["path"] == number
        np.testing.assert_array_equal(again["path"].sel(time=grid), run["path"][number])
        assert again["path"].dtype == run["path"].dtype
        assert len(again["time"]) == sd.provenance(run)["steps"] + 1


def test_a_saved_run_can_be_replayed(tmp_path):
    run = simulate(kubo(), Heun, collect=st.Paths(21, every=7), **RUN)
    sd.save(run, tmp_path / "run.nc")
    again = replay(kubo(), "heun", sd.load(tmp_path / "run.nc"), 20)
    np.testing.assert_array_equal(again["path"].values[::7], run["path"][20])


@pytest.fixture(scope="module")
def run():
    return simulate(ornstein_uhlenbeck(), EulerMaruyama, **RUN)


OTHERS = {
    "equations": (sd.SDE(lambda t, x: -1.0 * x, lambda t, x: 0.5, 1.0), "its equations or constants differ"),
    "params": (ornstein_uhlenbeck(rate=1.1), "its start or params differ"),
    "start": (ornstein_uhlenbeck(start=1.1), "its start or params differ"),
    "random start": (ornstein_uhlenbeck(start=scipy.stats.norm(1, 1)), "its start or params differ"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_problem_is_refused(run, name):
    problem, words = OTHERS[name]
    with pytest.raises(ValueError, match=rf"problem: this is not the one the run was made with \({words}\)"):
        replay(problem, EulerMaruyama, run, 3)


def test_values_of_a_later_path_are_part_of_the_problem():
    """PerPath values that differ in the last block alone."""
    values = np.linspace(0, 1, 21)
    first = simulate(ornstein_uhlenbeck(start=PerPath(values)), EulerMaruyama, **RUN)
    values[20] = 7.0
    with pytest.raises(ValueError, match="its start or params differ"):
        replay(ornstein_uhlenbeck(start=PerPath(values)), EulerMaruyama, first, 2)


def test_another_method_is_refused(run):
    with pytest.raises(ValueError, match="method: the run was made with EulerMaruyama, got Heun"):
        replay(ornstein_uhlenbeck(), Heun, run, 3)
    with pytest.raises(ValueError, match=r"method: the run was made with EulerMaruyama, got ThetaEuler\(theta=1.0"):
        replay(ornstein_uhlenbeck(), ThetaEuler, run, 3)


@pytest.mark.parametrize("number", [-1, 21, 1.5, True, "first"])
def test_a_path_that_is_not_there_is_refused(run, number):
    with pytest.raises(ValueError, match="path: expected a whole number from 0 to 20, got"):
        replay(ornstein_uhlenbeck(), EulerMaruyama, run, number)
