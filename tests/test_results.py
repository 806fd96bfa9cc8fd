"""The Dataset of a run: its names, units, grids and provenance; saved and loaded without loss."""

import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import stodyn as sd
from stodyn import SDE, simulate
from stodyn import statistics as st
from stodyn.methods.explicit import EulerMaruyama
from stodyn.methods.implicit import ThetaEuler
from stodyn.models.kubo import kubo
from stodyn.results import attributes, run_in_words
from stodyn.warnings import CovarianceError

RUN = dict(t=(0.0, 1.0), dt=0.1, paths=40, seed=3)


def energy(t, x, p):
    return 0.5 * (x @ x)


@pytest.fixture(scope="module")
def run():
    oscillator = SDE(
        lambda t, x, k: jnp.array([x[1], -k * x[0]]),
        lambda t, x, k: jnp.array([[0.0], [0.3]]),
        [1.0, 0.0],
        params=2.0,
        names=("q", "v"),
        units={"q": "m", "time": "s"},
    )
    collect = [
        st.Moments(every=5),
        st.Paths(3, at=[0.0, 0.3]),
        st.Histogram([-1.0, 0.0, 1.0], every=4),
        st.Observable(energy, units="J"),
        st.Observable(lambda t, x, p: x, name="again", at=[0.3]),
    ]
    return simulate(oscillator, EulerMaruyama, collect=collect, **RUN)


def test_each_grid_has_its_own_time(run):
    """The first grid is `time`; one that named none takes the first that was named."""
    np.testing.assert_allclose(run["time"], [0.0, 0.5, 1.0])
    np.testing.assert_allclose(run["time_paths"], [0.0, 0.3])
    np.testing.assert_allclose(run["time_histogram"], [0.0, 0.4, 0.8, 1.0])
    np.testing.assert_allclose(run["time_observable"], [0.3])
    assert run["mean"].dims == ("time", "component")
    assert run["path"].dims == ("number", "time_paths", "component")
    assert run["density"].dims == ("time_histogram", "component", "bin")
    assert run["energy"].dims == ("time",)
    assert run["again"].dims == ("time_observable", "again_entry")


def test_what_is_seen_at_one_time_is_the_same_on_every_grid(run):
    np.testing.assert_array_equal(run["mean"][0], run["path"][0, 0])
    np.testing.assert_allclose(
        run["cumulative"].sel(time_histogram=1.0, edge=0.0), run["cumulative"][-1, :, 1], rtol=0, atol=0
    )
    assert list(run["component"].values) == ["q", "v"]
    assert list(run["other"].values) == ["q", "v"]


def test_units_are_attributes(run):
    for name in ("mean", "variance", "path", "density"):
        assert json.loads(run[name].attrs["units"]) == {"q": "m"}
    assert run["energy"].attrs["units"] == "J"
    assert "units" not in run["paths_used"].attrs
    assert run["time"].attrs["units"] == "s"


def test_provenance_records_everything_that_makes_the_run_again(run):
    record = sd.provenance(run)
    assert record["problem"] == "SDE"
    assert record["method"] == "EulerMaruyama"
    assert (record["t"], record["dt"], record["steps"]) == ([0.0, 1.0], 0.1, 10)
    assert (record["paths"], record["seed"], record["dtype"], record["block"]) == (40, 3, "float64", 4096)
    assert record["noise"] == "additive (proved from the trace)"
    assert record["executor"] == "printed"
    assert "scalar operations per step" in record["executor_reason"]
    assert record["versions"]["jax"] == jax.__version__
    assert record["seconds"] >= 0
    with pytest.raises(ValueError, match="run: this Dataset has no provenance; it was not made by simulate"):
        sd.provenance(xr.Dataset())


def test_options_of_a_method_are_in_its_provenance():
    run = simulate(kubo(), ThetaEuler(theta=0.5, tol=1e-8), collect=st.Moments(at=[1.0]), **RUN)
    assert sd.provenance(run)["method"] == "ThetaEuler(theta=0.5, tol=1e-08, limit=20)"


def test_saved_and_loaded_without_loss(run, tmp_path):
    sd.save(run, tmp_path / "run.nc")
    back = sd.load(tmp_path / "run.nc")
    xr.testing.assert_identical(back, run)
    assert sd.provenance(back) == sd.provenance(run)
    for name in run.variables:
        assert back[name].dtype.kind == run[name].dtype.kind


@pytest.mark.parametrize(("start", "failures"), [(0.1, 0), (50.0, 1)])
def test_failures_are_saved_and_loaded(start, failures, tmp_path):
    cubic = SDE(lambda t, x: x**3, lambda t, x: jnp.zeros((2, 1)), sd.PerPath([[0.0, 0.1], [0.0, start]]))
    options = RUN | dict(paths=2)
    run = simulate(cubic, EulerMaruyama, on_failure="record", collect=st.Moments(at=[0.3]), **options)
    sd.save(run, tmp_path / "run.nc")
    back = sd.load(tmp_path / "run.nc")
    assert run.sizes["failure"] == failures
    for name in run.variables:
        np.testing.assert_array_equal(back[name].values, run[name].values)


OWN = st.Observable(energy, name="mean")
REFUSED = {
    "two moments": ([st.Moments(), st.Moments(every=5)], "collect: 'mean' is collected twice; leave one out"),
    "a name that is taken": ([st.Moments(), OWN], r"collect: 'mean' is collected twice; .* name= to an Observable"),
    "two without names": (
        [st.Observable(lambda t, x, p: x[0]), st.Observable(lambda t, x, p: x[1])],
        "collect: 'observable' is collected twice",
    ),
    "two histograms": (
        [st.Histogram([0.0, 1.0]), st.Histogram([0.0, 2.0])],
        "collect: two statistics disagree on 'bin'; run them apart",
    ),
    "a dimension": (st.Observable(energy, name="time"), "collect: 'time' is a dimension of the result; give the Obs"),
    "another dimension": ([st.Moments(), st.Observable(energy, name="other")], "collect: 'other' is a dimension"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_stand_together_is_refused_after_the_first_block(name):
    collect, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        simulate(kubo(), "Heun", collect=collect, **RUN | dict(paths=10**9), block=8)  # and not in years


def test_a_folder_that_is_not_there_and_a_list_of_quantiles(run, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"save: there is no folder .*missing; make it first"):
        sd.save(run, tmp_path / "missing" / "run.nc")
    with pytest.raises(ValueError, match="q: expected a number between 0 and 1"):
        sd.quantile(run, [0.1, 0.9])


def test_a_run_prints_what_it_is(run):
    """Method, steps, paths, seed, and the structure of the noise with how it is known: in print and in notebooks."""
    for shown in (repr(run), run._repr_html_()):
        assert "paths by EulerMaruyama, 10 steps of 0.1 from 0 to 1, seed 3" in shown
        assert "noise: " in shown


def test_runs_in_words():
    record = {"method": "BAOAB(pieces='BAOAB')", "dt": 0.01, "steps": 800, "t": [0.0, 8.0], "paths": 100_000, "seed": 1}
    assert run_in_words(record) == "100,000 paths by BAOAB, 800 steps of 0.01 from 0 to 8, seed 1"
    swept = record | {"dt": [0.1, 0.2], "sweep": {"dimensions": ["a", "b"], "points": {"a": [1, 2], "b": [1, 2, 3]}}}
    assert run_in_words(swept) == "2 x 3 points, 100,000 paths by BAOAB, 800 steps from 0 to 8, seed 1"
    assert list(attributes({})) == ["provenance"]


def test_a_run_without_a_named_method_shows_those_of_higher_order():
    """Chemical Langevin equations get Euler's method; the result tells of those of weak order 2."""
    decay = sd.SDE(
        lambda t, x: 10.0 - x, lambda t, x: jnp.stack([jnp.sqrt(10.0) + 0.0 * x, -jnp.sqrt(jnp.abs(x))], 1), [10.0]
    )
    with pytest.warns(CovarianceError, match="weak order 1"):
        run = sd.simulate(decay, t=(0.0, 0.2), dt=0.1, paths=2, seed=1)
    assert "PlatenWeak2Pairs, RS1 (weak 2)" in run.attrs["advice"] and "advice" in repr(run)
    assert "advice" not in sd.simulate(decay, "EulerMaruyama", t=(0.0, 0.2), dt=0.1, paths=2, seed=1).attrs


def test_variables_answer_their_old_names(run, tmp_path):
    with pytest.warns(DeprecationWarning, match=r"run\['sound'\]: write run\['paths_used'\], .* since stodyn 0.4"):
        assert run["sound"].identical(run["paths_used"])
    with pytest.warns(DeprecationWarning, match="paths_used_in_histogram"):
        np.testing.assert_array_equal(run.sound_in_histogram, run["paths_used_in_histogram"])
    sd.save(run.rename(paths_used="sound"), tmp_path / "old.nc")
    assert sd.load(tmp_path / "old.nc")["paths_used"].values.tolist() == run["paths_used"].values.tolist()


def test_a_component_is_not_a_coordinate(run):
    """How it is chosen is said at every step of the way: of a run, a variable and what was made of one."""
    for asked in (lambda: run["q"], lambda: run["mean"]["q"], lambda: (2 * run["mean"])["q"]):
        with pytest.raises(KeyError, match=r"'q' is a component: write run\['mean'\]\.sel\(component='q'\)"):
            asked()
    with pytest.raises(AttributeError, match=r"'q' is a component: write run\['mean'\]\.sel\(component='q'\)"):
        _ = run.q
    assert not hasattr(run, "w")
    with pytest.raises(KeyError, match=r"'w' is no coordinate of 'mean'; its components are q, v"):
        run["mean"]["w"]
    assert run["mean"]["time"].identical(run["time"])
    assert "<xarray.Dataset>" in repr(run) and pickle.loads(pickle.dumps(run)).identical(run)
