"""A sweep is the runs of its points on the same paths; its differences have the errors of the pathwise differences."""

import gc
import json
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from stodyn import SDE, Level, PathsFailed, Stop, difference, load, place, plot, provenance, simulate, sweep
from stodyn import statistics as st
from stodyn.engine import spec
from stodyn.engine import sweep as sweeping
from stodyn.engine.sweep import MEMORY_SHARE
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK, ornstein_uhlenbeck
from stodyn.statistics import comparison
from stodyn.warnings import Censored, UnstableSteps

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")
PATHS = 300
RUN = dict(t=(0, 1), dt=1 / 32, paths=PATHS, seed=5, block=128)
COLLECT = [st.Moments(every=16), st.Observable(lambda t, x, p: x[0] ** 2, name="square"), st.Paths(PATHS, every=16)]
RATES, SIGMAS = [0.5, 1.0, 2.0], [0.4, 0.5]


@pytest.fixture(scope="module")
def swept(quick_compiling_everywhere):
    with jax.enable_x64(True):
        return sweep(ornstein_uhlenbeck(), Heun, over={"rate": RATES, "sigma": SIGMAS}, collect=COLLECT, **RUN)


def test_every_point_is_the_run_with_those_parameters(swept):
    for rate in RATES:
        for sigma in SIGMAS:
            point = swept.sel(rate=rate, sigma=sigma)
            run = simulate(ornstein_uhlenbeck(rate, sigma), Heun, collect=COLLECT, **RUN)
            for name in run.data_vars:
                assert point[name].dims == run[name].dims
                np.testing.assert_array_equal(point[name].values, run[name].values)
    assert provenance(swept)["sweep"]["dimensions"] == ["rate", "sigma"]


def test_differences_are_those_of_the_same_paths(swept):
    """Mean and standard error of x(rate') - x(rate) path by path, from three blocks merged, to rounding."""
    x = swept["path"].values[..., 0]  # rate, sigma, number, time
    for name, values in (("mean", x), ("square", x**2)):
        for axis, dim in enumerate(("rate", "sigma")):
            pathwise = np.diff(values, axis=axis)
            found = difference(swept, dim)
            mean, stderr = (found[f"{name}{end}"].values.reshape(*pathwise.shape[:2], 3) for end in ("", "_stderr"))
            np.testing.assert_allclose(mean, pathwise.mean(axis=2), rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(stderr, pathwise.std(axis=2, ddof=1) / np.sqrt(PATHS), rtol=1e-9, atol=1e-17)
    assert difference(swept, "rate")["rate_before"].values.tolist() == [0.5, 1.0]
    from_first = difference(swept, "rate", reference=0.5)
    np.testing.assert_allclose(from_first["mean"][1], swept["mean"][2] - swept["mean"][0], rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(from_first["mean_stderr"][0], difference(swept, "rate")["mean_stderr"][0])
    assert from_first["rate"].values.tolist() == [1.0, 2.0]


def test_the_covariance_of_errors_holds_the_errors_of_the_points(swept):
    for name in ("mean", "variance", "square", "square_variance"):
        for dim in ("rate", "sigma"):
            joint = swept[f"{name}_error_covariance_{dim}"]
            own = joint.isel({f"{dim}_other": 0}).copy(data=np.diagonal(joint.values, axis1=-2, axis2=-1))
            found = np.sqrt(own.transpose(*swept[name].dims).values)
            np.testing.assert_allclose(found, swept[f"{name}_stderr"].values, rtol=1e-9, atol=1e-14)


def test_the_error_of_a_difference_of_variances():
    """x and 2x are normal with correlation 1: Var(s²(2x) - s²(x)) = 9 Var s²(x) = 18 σ⁴/(N - 1) in expectation.

    20 seeds of 4000 paths: the mean of the estimated variance lies within 5 of its own standard errors (6e-7)."""
    problem = SDE(lambda t, x, p: 0.0 * x, lambda t, x, p: p, 0.0, params=1.0)
    options = dict(t=(0, 1), dt=1.0, paths=4000, block=1024, collect=st.Moments(at=[1.0]))
    found = []
    for seed in range(20):
        run = sweep(problem, EulerMaruyama, over={"params": [1.0, 2.0]}, seed=seed, **options)
        found.append(float(difference(run, "params")["variance_stderr"].squeeze()) ** 2)
    assert abs(np.mean(found) - 18 / 3999) < 5 * np.std(found) / np.sqrt(20)


def test_common_paths_pay_and_separate_ones_do_not(swept):
    own = sweep(
        ornstein_uhlenbeck(), Heun, over={"rate": RATES, "sigma": SIGMAS}, common=False, collect=COLLECT[:1], **RUN
    )
    apart, together = (difference(run, "sigma")["mean_stderr"].values[..., 1:, :] for run in (own, swept))
    assert np.all(together < 0.5 * apart)
    squares = own["mean_stderr"].values ** 2
    np.testing.assert_allclose(apart, np.sqrt(squares[:, 1:] + squares[:, :1])[..., 1:, :], rtol=1e-12)
    assert len(np.unique(own["mean"].values[..., -1, 0])) == 6


def test_lists_builders_and_ledgers(tmp_path):
    over = {("rate", "start"): [(1.0, 2.0), (2.0, 3.0)], "sigma": np.array([0.4, 0.5])}
    options = dict(over=over, collect=st.Moments(every=16), **RUN)
    run = sweep(ORNSTEIN_UHLENBECK, Heun, **options)
    assert run.sizes["rate_start"] == 2 and run["start"].values.tolist() == [2.0, 3.0]
    np.testing.assert_array_equal(run["mean"][:, 0, 0, 0], [2.0, 3.0])
    built = sweep(lambda rate, start, sigma: ornstein_uhlenbeck(rate, sigma, start), Heun, **options)
    assert built.drop_attrs().identical(run.drop_attrs())
    names = {"time", "component", "rate_start", "rate", "start"}
    assert set(difference(run, "sigma").coords) == names | {"sigma", "sigma_before"}
    folder = tmp_path / "run"
    for read in (0, 3):
        kept = sweep(ORNSTEIN_UHLENBECK, Heun, ledger=folder, place=place.threads(1), **options)
        assert kept.drop_attrs().identical(run.drop_attrs())
        assert provenance(kept)["blocks_read"] == read
    assert load(folder).identical(kept)
    with pytest.raises(ValueError, match=r"sweep points sigma 1 sigma was 0.5 and is 0.6"):
        sweep(ORNSTEIN_UHLENBECK, Heun, ledger=folder, **options | dict(over=over | {"sigma": [0.4, 0.6]}))


def test_failures_of_points_are_counted():
    """dx = p x³ dt: nothing moves at p = 0, everything is beyond the floats after five steps at p = 1e6."""
    problem = SDE(lambda t, x, p: p * x**3, lambda t, x, p: 0.0, scipy.stats.uniform(1, 1), params=0.0)
    options = dict(over={"params": [0.0, 1e6]}, t=(0, 1), dt=0.125, paths=40, seed=1)
    with pytest.raises(PathsFailed, match=r"at params = 1000000.0: 40 of the 40 paths"):
        sweep(problem, EulerMaruyama, **options)
    run = sweep(problem, EulerMaruyama, on_failure="record", **options)
    assert run["failures"].values.tolist() == [0, 40]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dict(over={}), "over: expected names and their values"),
        (dict(over={"rate": []}), "over: 'rate' needs a list of values"),
        (dict(over={"rate": 2.0}), "over: 'rate' needs a list of values"),
        (dict(over={"mass": [1.0]}), "over: 'mass' is not among the problem's params; they are rate, sigma"),
        (dict(over={("rate", "sigma"): [1.0]}), "needs a value for each name at every point, got 1.0"),
        (dict(over={"rate": [1.0], ("rate", "sigma"): [(1.0, 2.0)]}), "over: 'rate' is swept twice"),
        (dict(over={"rate": [[1.0, 2.0]]}), r"over: rate has shape \(\) in params, but a swept value has shape \(2,\)"),
        (dict(paths=0), "paths: expected a whole number >= 1"),
    ],
)
def test_wrong_arguments_are_named_with_what_is_expected(change, said):
    with pytest.raises(ValueError, match=said):
        sweep(ornstein_uhlenbeck(), Heun, **RUN | dict(over={"rate": [1.0]}) | change)


def test_points_that_cannot_stand_in_one_result_are_refused():
    for over, said in (
        ({"size": [1, 2]}, "components must be the same at every point, got 1 and 2"),
        ({"name": ["x", "y"]}, r"names must be the same at every point, got \('x',\) and \('y',\)"),
    ):
        with pytest.raises(ValueError, match=said):
            sweep(
                lambda size=1, name=None: SDE(lambda t, x: -x, None, np.ones(size), names=name), Heun, over=over, **RUN
            )


def test_values_of_a_block_at_all_points_must_fit_into_memory(monkeypatch):
    """Four numbers of eight bytes for each of 3 times, 128 paths and 2 points; those of one time less fit."""
    monkeypatch.setattr("stodyn.engine.sweep.machine_memory", lambda: 32 * 3 * 128 * 2 / MEMORY_SHARE)
    options = RUN | dict(over={"rate": [1.0, 2.0]}, collect=st.Moments(every=16))
    sweep(ornstein_uhlenbeck(), EulerMaruyama, **options)
    monkeypatch.setattr("stodyn.engine.sweep.machine_memory", lambda: (32 * 3 * 128 * 2 - 1) / MEMORY_SHARE)
    with pytest.raises(MemoryError, match="differences: the values of one block at all points take"):
        sweep(ornstein_uhlenbeck(), EulerMaruyama, **options)
    sweep(ornstein_uhlenbeck(), EulerMaruyama, differences=False, **options)
    monkeypatch.setattr("stodyn.engine.sweep.machine_memory", lambda: 32 * 3 * 16 * 2 / MEMORY_SHARE)
    sweep(ornstein_uhlenbeck(), EulerMaruyama, **options | dict(paths=16))  # fewer than a block has room for


def test_memory_is_asked_for_before_all_points_are_described(monkeypatch):
    """100 000 points took minutes before they were refused."""
    described = []
    original = sweeping.run_of
    monkeypatch.setattr(sweeping, "run_of", lambda *arguments: described.append(1) or original(*arguments))
    monkeypatch.setattr(sweeping, "machine_memory", lambda: 1.0)
    with pytest.raises(MemoryError, match="differences: the values of one block at all points take"):
        sweep(ornstein_uhlenbeck(), EulerMaruyama, over={"rate": [1.0, 2.0, 3.0]}, **RUN)
    assert len(described) == 1


def test_differences_along_or_from_what_is_not_there_are_refused(swept):
    for arguments, said in (
        (("time",), "along: expected one of rate, sigma, got 'time'"),
        (("rate", 7.0), r"reference: rate has no 7.0; it has \[0.5, 1.0, 2.0\]"),
    ):
        with pytest.raises(ValueError, match=said):
            difference(swept, *arguments)
    with pytest.raises(ValueError, match="run: not a sweep"):
        difference(simulate(ornstein_uhlenbeck(), Heun, collect=COLLECT[:1], **RUN), "rate")
    with pytest.raises(ValueError, match=r"over: 'mean' is already a name in the result"):
        sweep(lambda mean: ornstein_uhlenbeck(mean), Heun, over={"mean": [1.0, 2.0]}, collect=COLLECT[:1], **RUN)


def test_a_device_runs_the_paths_it_has_in_simulate():
    """A list of processors computes the paths of a GPU; the points of a sweep on it are its runs."""
    problem, options = ornstein_uhlenbeck(), RUN | {"device": jax.devices("cpu"), "paths": 64}
    found = sweep(problem, EulerMaruyama, over={"sigma": SIGMAS}, **options)
    alone = simulate(ornstein_uhlenbeck(sigma=SIGMAS[1]), EulerMaruyama, **options)
    np.testing.assert_array_equal(found["mean"].values[1], alone["mean"].values)
    assert (difference(found, "sigma")["variance_stderr"].values[0, -1] > 0).all()


def test_swept_parameters_keep_their_units_and_have_words():
    decay = SDE(lambda t, x, p: -p["rate"] * x, lambda t, x, p: p["s"] + 0.0 * x, 1.0,
                   params={"rate": 1.0, "s": 0.1}, units={"x": "m", "rate": "1/s", "time": "s"})  # fmt: skip
    options = dict(t=(0, 0.5), dt=0.25, paths=8, seed=1)
    run = sweep(decay, "Heun", over={"rate": [1.0, 2.0]}, **options)
    assert run["rate"].attrs == {"units": "1/s"}
    assert json.loads(run["mean"].attrs["units"]) == {"x": "m"}
    assert plot.sweep(run).get_xlabel() == "rate [1/s]"
    laws = sweep(decay, "Heun", over={"s": [0.1, scipy.stats.norm(0.1, 0.01)]}, **options)
    assert provenance(laws)["sweep"]["points"]["s"][1] == {"s": "norm(loc=0.1, scale=0.01)"}


def test_along_many_points_each_is_compared_with_the_one_before_it_alone(monkeypatch):
    """The covariances of all pairs took memory and time with the square of the points; the differences are the same."""
    over = {"rate": [0.5, 1.0, 1.5, 2.5], "sigma": [0.2, 0.3]}
    options = dict(t=(0.0, 1.0), dt=0.25, paths=40, seed=3, block=16, collect=st.Moments(at=[0.5, 1.0]))
    pairs = sweep(ornstein_uhlenbeck(), "Heun", over=over, **options)
    monkeypatch.setattr(comparison, "ALL_PAIRS", 3)
    run = sweep(ornstein_uhlenbeck(), "Heun", over=over, **options)
    assert run["mean_error_covariance_rate"].shape == (2, 1, 2, 4, 2)
    assert run["mean_error_covariance_sigma"].dims == pairs["mean_error_covariance_sigma"].dims
    for along in over:
        one, other = difference(run, along), difference(pairs, along)
        assert set(one.data_vars) == {"mean", "mean_stderr", "variance", "variance_stderr"}
        for name in one.data_vars:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-10, atol=1e-15)
    with pytest.raises(ValueError, match=r"reference: along more than 3 points .* Leave reference out"):
        difference(run, "rate", reference=0.5)


def test_differences_of_passages_and_stops_have_the_errors_of_shared_paths():
    """Against the scatter of the differences of the single paths: survival by indicators, and the paths alive."""
    paths, over = 64, {"rate": [0.5, 1.0, 2.0]}
    options = dict(t=(0.0, 1.0), dt=0.125, paths=paths, seed=3, block=24)
    level = Level(0.9, of=0, direction="down")
    passage = st.Passage(level, bridge=False, mean=False, every=4)
    run = sweep(ornstein_uhlenbeck(start=1.5), "Heun", over=over, collect=[passage], **options)
    stopped = sweep(ornstein_uhlenbeck(start=1.5), "Heun", over=over, stop=Stop(level), **options)
    singles = sweep(ornstein_uhlenbeck(start=1.5), "Heun", over=over, collect=[st.Paths(paths, every=1)], **options)
    reached = np.minimum.accumulate(singles["path"].values[..., 0], axis=2) <= 0.9  # (rate, number, time)
    survives = 1.0 - reached[:, :, [0, 4, 8]]
    apart = np.diff(survives, axis=0)
    moved = difference(run, "rate")
    np.testing.assert_allclose(moved["passage_survival"], apart.mean(axis=1), atol=1e-14)
    error = apart.std(axis=1, ddof=1) / np.sqrt(paths)
    np.testing.assert_allclose(moved["passage_survival_stderr"], error, atol=1e-12)
    assert 0 < error[0, 1] < np.hypot(*run["passage_survival_stderr"].values[:2, 1])
    assert "passage_restricted_mean_stderr" in moved
    alive, stops = difference(stopped, "rate"), np.isfinite(stopped["stop_time"].values)
    ends = np.diff(1.0 - stops, axis=0)
    np.testing.assert_allclose(alive["alive"][:, -1], ends.sum(axis=1))
    np.testing.assert_allclose(alive["alive_stderr"][:, -1], ends.std(axis=1, ddof=1) * np.sqrt(paths), rtol=1e-12)


def test_warnings_of_a_sweep_name_their_point():
    """Explicit Euler steps of 0.1 are unstable for rates above 20: two points of three."""
    decay = SDE(lambda t, x, p: -p["k"] * x, lambda t, x, p: 0.1 * x, 1.0, params={"k": 1.0})
    with pytest.warns(UnstableSteps, match=r"at k = 25.0 \(and at 1 other point\): dt: steps of 0.1 are uns") as told:
        sweep(decay, "EulerMaruyama", over={"k": [1.0, 25.0, 30.0]}, t=(0, 1), dt=0.1, paths=8, seed=1)
    assert [warning.filename for warning in told] == [__file__]


def test_warnings_of_statistics_name_their_points_too_and_so_does_the_record():
    """Nobody reaches the level: two points, of which one run said so twice, without a name."""
    decay = SDE(lambda t, x, p: -p["k"] * x, lambda t, x, p: 0.1, 0.0, params={"k": 1.0})
    options = dict(over={"k": [1.0, 2.0]}, t=(0, 1), dt=0.25, paths=8, seed=1)
    levels = [st.Passage(Level(level), name=f"to_{level:g}") for level in (4.0, 5.0)]
    with pytest.warns(Censored) as told:
        run = sweep(decay, "EulerMaruyama", collect=levels, **options)
    words = [str(warning.message) for warning in told]
    assert [w.partition(": ")[0] for w in words] == ["at k = 1.0 (and at 1 other point)"] * 2
    assert [w.split(": ")[1] for w in words] == ["to_4", "to_5"]
    assert provenance(run)["warnings"] == words and {w.filename for w in told} == {__file__}


def test_points_share_the_traces_of_their_functions():
    """What a point costs does not contain tracing: its functions are traced as often for 12 points as for 4."""

    def calls_for(points):
        calls = []

        def drift(t, x, params):
            calls.append("drift")
            return -params["rate"] * x

        def diffusion(t, x, params):
            calls.append("diffusion")
            return params["sigma"] * x

        problem = SDE(drift, diffusion, 1.0, {"rate": 1.0, "sigma": 0.5})
        sweep(
            problem, "EulerMaruyama", over={"rate": np.linspace(1.0, 2.0, points)}, t=(0.0, 1.0), dt=0.5, paths=2,
            seed=1, collect=st.Moments(at=[1.0]),
        )  # fmt: skip
        return calls.count("diffusion")

    few, many = calls_for(4), calls_for(12)
    assert many <= few  # the first sweep traces the step too


def test_drifts_with_the_same_slopes_everywhere_are_not_searched_for_stops(monkeypatch):
    """For parameters of any value: the proof is made once, not at every point; others are searched at every point."""
    searched = []
    monkeypatch.setattr(spec, "check_written_stops", lambda *arguments: searched.append(arguments))

    def searches_of(problem, method="EulerMaruyama"):
        searched.clear()
        sweep(problem, method, over={"k": [1.0, 1.5, 2.0]}, t=(0.0, 1.0), dt=0.5, paths=2, seed=1)
        return len(searched)

    assert searches_of(SDE(lambda t, x, p: -p["k"] * x * jnp.cos(t), lambda t, x: x, 1.0, {"k": 1.0})) == 0
    assert searches_of(SDE(lambda t, x, p: -p["k"] * jnp.maximum(x, 0.0), lambda t, x: x, 1.0, {"k": 1.0})) == 3


def test_a_point_keeps_little_memory(monkeypatch):
    """Some 13 kB for the run, which the comparison of all points needs; its buffers go once its block is done."""
    problem, kept = SDE(lambda t, x, p: -p["k"] * x, lambda t, x: 1.0, 1.0, {"k": 1.0}), []
    label = sweeping._dataset

    def weighed(*arguments):
        gc.collect()
        kept.append(tracemalloc.get_traced_memory()[0])
        return label(*arguments)

    monkeypatch.setattr(sweeping, "_dataset", weighed)
    for points in (2, 20, 60):
        tracemalloc.start()
        sweep(problem, "Heun", over={"k": np.linspace(0.5, 2.0, points)}, t=(0.0, 1.0), dt=0.1, paths=16, seed=1,
              collect=st.Moments(at=[1.0]))  # fmt: skip
        tracemalloc.stop()
    assert (kept[2] - kept[1]) / 40 < 17_000  # 22 kB with the buffers of every point


@pytest.mark.parametrize("part", ["drift", "diffusion"])
def test_numbers_drawn_in_a_swept_function_are_refused(part):
    functions = {
        name: lambda t, x, params, k=k: params["rate"] * x * (np.random.default_rng().random() if k else 1.0)
        for name, k in (("drift", part == "drift"), ("diffusion", part == "diffusion"))
    }
    problem = SDE(functions["drift"], functions["diffusion"], 1.0, {"rate": 1.0})
    with pytest.raises(ValueError, match=f"{part}: traced twice"):
        sweep(problem, "EulerMaruyama", over={"rate": [1.0, 2.0]}, t=(0.0, 1.0), dt=0.5, paths=2, seed=1)
