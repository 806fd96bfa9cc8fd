"""Paths that fail are named with their number, time and cause, change no other path, and are never averaged away."""

import pickle
import re

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, Hamiltonian, Mechanical, PathsFailed, PerPath, replay, simulate
from stodyn import statistics as st
from stodyn.engine.failure import FailureLog
from stodyn.engine.looking import not_numbers
from stodyn.engine.spec import GUARDED, _undefined_in_words
from stodyn.engine.traces import traced_functions_of
from stodyn.methods.explicit import EulerMaruyama
from stodyn.methods.implicit import ImplicitMidpoint, ThetaEuler
from stodyn.models.beam import beam
from stodyn.noise import path_normals
from stodyn.numerics.printing.entrywise import TABLE
from stodyn.warnings import Unbelievable, UnstableSteps

H, STEPS = 0.1, 30
RUN = dict(t=(0.0, H * STEPS), dt=H, seed=12)
LEFT, UNSOLVED = "its state left the floating-point numbers", "its equations were not solved"


def cubic(start=0.5):
    """dx = x³ dt + dW: explodes when the noise has carried it far enough."""
    return SDE(lambda t, x: x**3, lambda t, x: 1.0, start)


def failures_by_hand(starts, seed):
    """Euler step by step in NumPy on the engine's own normals: the time each path's state was first not finite."""
    times = np.full(len(starts), np.nan)
    grid = np.round(H * np.arange(STEPS + 1), 12)
    z = path_normals.rows(seed, "W", 0, len(starts), STEPS, 1)
    for path, x in enumerate(starts):
        for k in range(STEPS):
            with np.errstate(over="ignore", invalid="ignore"):
                x = x + H * x**3 + np.sqrt(H) * z[k, 0, path]
            if not np.isfinite(x):
                times[path] = grid[k + 1]
                break
    return times


@pytest.fixture(scope="module")
def expected():
    times = failures_by_hand(np.full(40, 0.5), 12)
    assert 5 < np.count_nonzero(np.isfinite(times)) < 40
    return times


def test_count_time_and_numbers_are_those_of_a_run_by_hand(expected):
    run = simulate(cubic(), EulerMaruyama, paths=40, block=16, on_failure="record", collect=st.Moments(every=1), **RUN)
    failed = np.flatnonzero(np.isfinite(expected))
    np.testing.assert_array_equal(run["failed_path"], failed)
    np.testing.assert_array_equal(run["failure_time"], expected[failed])
    assert set(run["failure_cause"].values) == {LEFT}
    sound = [np.count_nonzero(~(expected <= t)) for t in run["time"].values]
    np.testing.assert_array_equal(run["paths_used"], sound)


def test_the_error_says_how_many_which_when_and_what_to_try(expected):
    """The run stops at the first block with failures, and tells of the paths run so far."""
    with pytest.raises(PathsFailed) as caught:
        simulate(cubic(), EulerMaruyama, paths=40, block=16, **RUN)
    error, of_block = caught.value, expected[:16]
    failed = np.flatnonzero(np.isfinite(of_block))
    order = failed[np.argsort(of_block[failed], kind="stable")]
    np.testing.assert_array_equal(error.paths, order)
    np.testing.assert_array_equal(error.times, of_block[order])
    words = str(error)
    assert words.startswith(
        f"{len(failed)} of the 16 paths run so far failed ({len(failed)} whose state became infinite"
    )
    assert f"First: path {order[0]} at t = {of_block[order[0]]:.6g}" in words
    for way_out in ("a smaller dt", "an implicit method", "stodyn.replay", 'on_failure="record"'):
        assert way_out in words
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == words
    np.testing.assert_array_equal(back.paths, error.paths)


def test_lanes_beyond_the_last_path_are_never_reported(expected):
    """11 paths in a block of 16: the other five lanes have noise of their own, and some of them blow up."""
    assert np.any(np.isfinite(expected[11:16]))
    run = simulate(cubic(), EulerMaruyama, paths=11, block=16, on_failure="record", collect=st.Moments(every=1), **RUN)
    np.testing.assert_array_equal(run["failed_path"], np.flatnonzero(np.isfinite(expected[:11])))
    assert run["paths_used"][0] == 11


def test_failed_paths_are_left_out_of_every_statistic(expected):
    collect = [
        st.Paths(40, at=[H * STEPS]),
        st.Moments(),
        st.Histogram(np.linspace(-5, 5, 11)),
        st.Observable(lambda t, x: x[0] ** 2, name="square"),
    ]
    run = simulate(cubic(), EulerMaruyama, paths=40, block=16, on_failure="record", collect=collect, **RUN)
    x = run["path"].values[:, 0, 0]
    alive = ~np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(x), alive)
    assert run["paths_used"][0] == run["paths_used_in_histogram"][0] == np.count_nonzero(alive)
    np.testing.assert_allclose(run["mean"][0, 0], x[alive].mean(), rtol=1e-12)
    np.testing.assert_allclose(run["variance"][0, 0], x[alive].var(ddof=1), rtol=1e-12)
    np.testing.assert_allclose(run["square"][0], (x[alive] ** 2).mean(), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_block_that_fails_as_a_whole_leaves_the_others_whole(dtype):
    starts = np.array([1e3] * 4 + [0.0, 0.1, 0.2, 0.3])
    problem = SDE(lambda t, x: x**3, lambda t, x: 0.0, PerPath(starts))
    for order in (starts, starts[::-1]):
        run = simulate(
            SDE(lambda t, x: x**3, lambda t, x: 0.0, PerPath(order)),
            EulerMaruyama, paths=8, block=4, on_failure="record", dtype=dtype, collect=st.Moments(at=[3.0]), **RUN,
        )  # fmt: skip
        x = np.sort(order)[:4]
        for _ in range(STEPS):
            x = x + H * x**3
        np.testing.assert_allclose(run["mean"][0, 0], x.mean(), rtol=1e-5 if dtype == "float32" else 1e-13)
        np.testing.assert_allclose(run["variance"][0, 0], x.var(ddof=1), rtol=1e-5 if dtype == "float32" else 1e-12)
        assert run["paths_used"][0] == 4
    everybody = simulate(
        problem,
        EulerMaruyama,
        paths=4,
        block=4,
        on_failure="record",
        dtype=dtype,
        collect=st.Moments(at=[0.0, 3.0]),
        **RUN,
    )
    np.testing.assert_array_equal(everybody["paths_used"], [4, 0])
    assert np.isnan(everybody["mean"][1, 0])
    assert everybody["mean"][0, 0] == 1e3


def test_series_of_nobody_are_no_numbers():
    problem = SDE(lambda t, x: x**3, lambda t, x: 0.0, 1e3)
    collect = [st.Moments(every=1), st.Spectrum(segment=8), st.Autocorrelation(lags=2)]
    run = simulate(problem, EulerMaruyama, paths=3, on_failure="record", collect=collect, **RUN)
    assert run["spectrum"].shape == (5, 1)
    assert run["autocovariance"].shape == (3, 1)
    for name in ("spectrum", "spectrum_high", "autocovariance", "autocorrelation_stderr"):
        assert np.all(np.isnan(run[name]))


def pushed(start):
    """Smooth, stiff and solvable by Newton from anywhere below 1e100."""
    return SDE(lambda t, x: -(x**3), lambda t, x: jnp.cos(x), PerPath(start))


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.parametrize(
    ("method", "executor"), [(EulerMaruyama, "printed"), (ThetaEuler, "printed"), (ImplicitMidpoint, "vmap")]
)
def test_a_bad_path_changes_no_bit_of_any_other(method, executor):
    """Path 3 starts at 1e150 (its cube is no number), or at 1 like the rest."""
    tame, wild = np.linspace(0.5, 1.5, 8), np.linspace(0.5, 1.5, 8)
    wild[3] = 1e150
    one, other = (
        simulate(
            pushed(start), method, paths=8, on_failure="record", executor=executor, collect=st.Paths(8, every=5), **RUN
        )
        for start in (tame, wild)
    )
    np.testing.assert_array_equal(one["failed_path"], [])
    np.testing.assert_array_equal(other["failed_path"], [3])
    assert other["failure_time"][0] == H
    rest = np.arange(8) != 3
    np.testing.assert_array_equal(one["path"].values[rest], other["path"].values[rest])


def test_equations_without_a_solution():
    """y = x + h (y² + 1) has no real root once 1 < 4h (x + h): Newton cannot converge, and the state was finite."""
    starts = np.array([-8.0, -3.0, -1.0, 0.0, 1.0])
    problem = SDE(lambda t, x: x**2 + 1.0, lambda t, x: 0.0, PerPath(starts))
    expected = []
    for x in starts:
        for k in range(1, STEPS + 1):
            if 1 - 4 * H * (x + H) < 0:
                expected.append(k * H)
                break
            x = (1 - np.sqrt(1 - 4 * H * (x + H))) / (2 * H)
    assert len(expected) == 5
    run = simulate(problem, ThetaEuler, paths=5, on_failure="record", collect=st.Moments(every=1), **RUN)
    np.testing.assert_array_equal(run["failed_path"], range(5))
    np.testing.assert_allclose(run["failure_time"], expected, rtol=1e-12)
    assert set(run["failure_cause"].values) == {UNSOLVED}
    with pytest.raises(PathsFailed, match=r"5 whose implicit equations Newton did not solve.* larger Newton limit"):
        simulate(problem, ThetaEuler, paths=5, **RUN)


def test_causes_are_told_apart():
    log = FailureLog(np.linspace(0, 1, 11))
    log.add(np.array([0, 2, 3]), np.array([3, 5, 2]), np.array([True, False, False]))
    assert dict(zip(log.all()[0].tolist(), log.variables()["failure_cause"][1], strict=True)) == {
        0: UNSOLVED, 2: LEFT, 3: LEFT,
    }  # fmt: skip
    words = str(log.error(4))
    assert "(1 whose implicit equations Newton did not solve; 2 whose state became infinite or NaN)" in words
    assert "First: path 3 at t = 0.2, path 0 at t = 0.3, path 2 at t = 0.5. " in words
    assert "larger Newton limit" in words and "an implicit method" not in words  # it is implicit already


def test_states_that_are_not_allowed_are_named():
    log = FailureLog(np.linspace(0, 1, 11), "mass became negative")
    log.add(np.array([0, 1, 2]), np.array([3, 5, 2]), np.arange(3))
    within = ", maybe since its mass became negative within the step"
    assert log.variables()["failure_cause"][1].tolist() == [
        LEFT + within,
        UNSOLVED + within,
        "its mass became negative",
    ]
    assert "(1 whose mass became negative; 1 whose implicit equations Newton did not solve; 1 whose state" in str(
        log.error(4)
    )


def test_a_start_that_is_bad_already():
    """1e200 does not exist in float32: a failure at the first time, before any step."""
    problem = SDE(lambda t, x: -x, lambda t, x: 1.0, PerPath([1.0, 1e200]))
    run = simulate(
        problem, EulerMaruyama, paths=2, dtype="float32", on_failure="record", collect=st.Moments(at=[0.0, 3.0]), **RUN
    )
    np.testing.assert_array_equal(run["failed_path"], [1])
    np.testing.assert_array_equal(run["failure_time"], [0.0])
    np.testing.assert_array_equal(run["paths_used"], [1, 1])
    with pytest.raises(PathsFailed, match="First: path 1 at t = 0"):
        simulate(problem, EulerMaruyama, paths=2, dtype="float32", **RUN)


def test_a_failed_path_can_be_looked_at(expected):
    run = simulate(cubic(), EulerMaruyama, paths=40, block=16, on_failure="record", collect=st.Moments(every=1), **RUN)
    number = int(run["failed_path"][-1])
    path = replay(cubic(), EulerMaruyama, run, number)["path"].values[:, 0]
    first = np.flatnonzero(~np.isfinite(path))[0]
    np.testing.assert_allclose(first * H, expected[number], rtol=1e-12)


def test_a_run_without_failures_records_none():
    problem = SDE(lambda t, x: -x, lambda t, x: 1.0, 0.0)
    run = simulate(problem, EulerMaruyama, paths=3, on_failure="record", **RUN)
    assert run.sizes["failure"] == 0
    assert "failed_path" not in simulate(problem, EulerMaruyama, paths=3, **RUN)


def test_many_failures_are_cut_short_in_words():
    log = FailureLog(np.linspace(0, 1, 11))
    log.add(100 + np.arange(1, 64, 2), np.full(32, 5), np.zeros(32, bool))
    error = log.error(164)
    assert len(error.paths) == 32
    assert str(error).startswith("32 of the 164 paths")
    assert "path 115 at t = 0.5 and 24 more." in str(error)


def test_a_mean_that_cannot_be_is_said():
    stiff = SDE(lambda t, x: -1000.0 * x, lambda t, x: 0.1, 1.0)
    words = r"mean: not finite or beyond 1e100 from t = 1\.\d+ on.*smaller dt, or an implicit method \(.*Midpoint"
    with pytest.warns(UnstableSteps, match="steps of 0.01 are unstable"), pytest.warns(Unbelievable, match=words):
        simulate(stiff, "EulerMaruyama", t=(0, 2), dt=0.01, paths=4, seed=1)
    noise = SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
    root = st.Observable(lambda t, x: jnp.sqrt(x[0]), name="root")
    with pytest.warns(Unbelievable, match=r"root: .* from t = 0\.25 on. Its function gives NaN"):
        simulate(noise, "EulerMaruyama", t=(0, 1), dt=0.25, paths=40, seed=1, collect=root)


def test_failures_of_unstable_steps_name_the_stable_step_and_no_function_that_the_user_did_not_write():
    """The SDE that Heun steps solves for coordinates without inertia, with square roots of its own."""
    with pytest.warns(UnstableSteps) as told, pytest.raises(PathsFailed) as failed:
        simulate(beam(2), "Heun", t=(0.0, 200.0), dt=1.0, paths=2, seed=1, progress=False)
    step = re.search(r"Take steps of [\d.]+ or less", str(told[0].message)).group()
    assert step in str(failed.value)
    assert "square root" not in str(failed.value)
    rooted = Mechanical(lambda t, x, v: -jnp.sqrt(x), lambda t, x, v: 1.0, (0.1, 0.0))
    with pytest.raises(PathsFailed, match="the force takes a square root"):
        simulate(rooted, "Heun", t=(0.0, 5.0), dt=0.1, paths=20, seed=1, progress=False)


def test_a_hamiltonian_that_has_no_value_is_named_as_a_letter():
    """The error read "the H takes a square root"."""
    rooted = Hamiltonian(lambda t, q, p: p[0] ** 2 / 2 + jnp.sqrt(q[0]), start=([0.1], [0.0]))
    assert "Check the arguments first: H takes a square root" in _undefined_in_words(
        rooted, traced_functions_of(rooted)
    )
    assert not_numbers(rooted, 0.0, np.array([-1.0, 0.0])).startswith("H is NaN at t = 0")


@pytest.mark.parametrize("name", sorted({row.undefined for row in TABLE.values() if row.undefined}))
def test_what_keeps_an_argument_inside_is_a_number_everywhere(name):
    """The root of max(x, 0) is a number for every x, and its logarithm is not."""
    assert np.isfinite([eval(GUARDED[name], {"jnp": np, "x": x, "a": 0.5}) for x in (-2.0, 0.0, 0.5, 1.0, 2.0)]).all()


def test_paths_that_leave_a_logarithm_are_told_how_to_keep_its_argument():
    problem = SDE(lambda t, x: jnp.log(x), lambda t, x: 0.5, 0.3)
    with pytest.raises(PathsFailed, match=r"takes a logarithm.* as in jnp.log\(jnp.maximum\(x, 1e-9\)\)"):
        simulate(problem, "EulerMaruyama", t=(0.0, 2.0), dt=0.1, paths=20, seed=1, progress=False)
