"""Runs that stop their paths: against closed forms, and the same bits however their paths are packed."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.program import printed

DRIFT, SIGMA = 0.3, 0.8  # of a Brownian motion with S(2) = P(level 1 is not reached before 2) = 0.4373243966415
BROWNIAN = sd.SDE(lambda t, x: DRIFT + 0.0 * x, lambda t, x: SIGMA, 0.0)
PLANE = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.eye(2), [0.5, 0.0])


def stopped(problem, level, *, t, dt, paths=8000, method="EulerMaruyama", seed=1, **options):
    levels = level if isinstance(level, tuple) else (level,)
    return sd.simulate(problem, method, t=(0, t), dt=dt, paths=paths, seed=seed, stop=sd.Stop(*levels), **options)


def z(values, exact):
    """The deviation of a mean from the truth in standard errors."""
    return (np.mean(values) - exact) / (np.std(values) / np.sqrt(len(values)))


def times(run, end):
    """min(τ, end)."""
    found = run["stop_time"].values
    return np.where(np.isnan(found), end, np.minimum(found, end))


def test_brownian_motion_is_stopped_exactly_at_any_step():
    """Survival and E min(τ, 2) by the reflection principle, with steps of half the horizon. |z| < 5: one in 10⁶."""
    run = stopped(BROWNIAN, sd.Level(1.0), t=2.0, dt=1.0)
    assert abs(z(np.isnan(run["stop_time"].values), 0.4373243966415)) < 5
    assert abs(z(times(run, 2.0), 1.4113088148605)) < 5
    here = run["stop_state"].values[run["stopped_by"].values == 0]
    assert np.max(np.abs(here - 1.0)) < 1e-12
    assert run["alive"].values.tolist() == [8000, *(np.sum(times(run, 9) > t) for t in (1.0, 2.0))]


@pytest.mark.parametrize("levels", ["a strip", "two levels"])
def test_out_of_a_strip(levels):
    """S(1) of (-0.7, 1), by images: as a pair, and as two levels of which the first stops the path. |z| < 5."""
    both = (sd.Level((-0.7, 1.0)),) if levels == "a strip" else (sd.Level(-0.7, direction="down"), sd.Level(1.0))
    run = stopped(BROWNIAN, both, t=1.0, dt=0.125)
    assert abs(z(np.isnan(run["stop_time"].values), 0.4150659857872)) < 5
    ends = run["stop_state"].values[:, 0]
    assert set(np.unique(np.round(ends[np.isfinite(ends)], 12))) == {-0.7, 1.0}
    if levels == "two levels":
        assert np.array_equal(run["stopped_by"].values == 0, ends < 0)


def test_a_level_that_moves():
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
    run = stopped(problem, sd.Level(lambda t: 1.0 + 0.5 * t), t=1.0, dt=0.5)
    assert abs(z(run["stop_time"].values <= 1.0, 0.1803118185958)) < 5


@pytest.mark.parametrize("of", [lambda t, x: jnp.hypot(x[0], x[1]), lambda t, x: x @ x], ids=["radius", "its square"])
def test_where_planar_brownian_motion_leaves_the_disc(of):
    """E τ = 3/8 and E Re z² = 1/4 from (1/2, 0): time and place within the step. The bias at h = 0.05 is below 10⁻³
    for both functions, a tenth of a standard error. |z| < 5: one in 10⁶."""
    run = stopped(PLANE, sd.Level(1.0, of=of), t=6.0, dt=0.05, paths=4000)
    assert np.all(run["stopped_by"].values == 0)
    x, y = run["stop_state"].values.T
    assert abs(z(run["stop_time"].values, 0.375)) < 5
    assert abs(z(x**2 - y**2, 0.25)) < 5
    assert np.max(np.abs(np.hypot(x, y) - 1.0)) < 1e-4


def test_the_first_of_two_levels_stops_a_path_before_the_other():
    """Two Brownian motions with the level 1, with steps of half the horizon: no path is beyond the other level, and
    E exp(-d), d the distance from it, is the quadrature of the density of τ times that of a motion that is absorbed
    there. |z| < 5: one in 10⁶."""
    plane = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.eye(2), [0.0, 0.0])
    run = stopped(plane, (sd.Level(1.0, of=0), sd.Level(1.0, of=1)), t=2.0, dt=1.0)
    by, place = run["stopped_by"].values, run["stop_state"].values
    assert abs(z(by == 0, 0.5 * (1.0 - math.erf(0.5) ** 2))) < 5
    beside = np.where(by == 0, place[:, 1], place[:, 0])[by >= 0]
    assert beside.max() <= 1.0
    assert abs(z(np.exp(beside - 1.0), 0.3296945507863)) < 5


def test_two_levels_of_functions_with_noise_in_common():
    """No path is stopped beyond the other level, a strip of a curved function, and each is on the level it reached."""
    levels = sd.Level(1.0, of=0), sd.Level((-0.5, 0.75), of=lambda t, x: 0.3 * x[0] + x[1] + 0.1 * x[1] ** 2)
    run = stopped(PLANE, levels, t=2.0, dt=0.5, paths=1000)
    by, (x, y) = run["stopped_by"].values, run["stop_state"].values.T
    other = 0.3 * x + y + 0.1 * y**2
    assert np.max(np.abs(x[by == 0] - 1.0)) < 1e-9
    assert np.max(np.abs(np.abs(other[by == 1] - 0.125) - 0.625)) < 1e-3
    assert np.max(np.abs(other[by == 0] - 0.125)) < 0.625 + 1e-3
    assert np.max(x[by == 1]) < 1.0 + 1e-3


OSCILLATOR = sd.SDE(lambda t, x: jnp.stack([x[1], -x[0] - 0.1 * x[1]]), lambda t, x: np.eye(2)[:, 1:], [0.0, 0.0])
LINE = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)


@pytest.mark.parametrize("problem, functions, heights", [
    (PLANE, (lambda t, x: x[0] ** 2 + x[1] ** 2, lambda t, x: x[0] + 0.2 * x[1]), (1.0, 0.8)),
    (OSCILLATOR, (lambda t, x: x[0], lambda t, x: x[1]), (1.0, 1.2)),
    (OSCILLATOR, (lambda t, x: x[0] + 0.3 * x[0] ** 2, lambda t, x: x[0] ** 2 + x[1] ** 2), (0.5, 1.2)),
], ids=["curved", "a position and a velocity", "a position and an energy"])  # fmt: skip
def test_no_path_is_stopped_off_its_level_or_beyond_another(problem, functions, heights):
    """At steps so long that functions bend within them."""
    levels = tuple(sd.Level(height, of=of) for of, height in zip(functions, heights, strict=True))
    run = stopped(problem, levels, t=8.0, dt=0.5, paths=2000)
    by, places = run["stopped_by"].values, run["stop_state"].values.T
    distances = np.stack([height - of(0.0, places) for of, height in zip(functions, heights, strict=True)])[:, by >= 0]
    assert np.mean(by >= 0) > 0.95
    own = by[by >= 0] == np.arange(2)[:, None]
    assert np.max(np.abs(distances[own])) < 1e-6
    assert np.min(distances[~own]) > 0.0


def test_levels_that_share_their_noise():
    """The farther of two levels stops no path before the nearer one, and two on either side are those of a strip.
    |z| < 5: one in 10⁶."""
    farther = sd.Level(1.1, of=lambda t, x: x[0])
    with pytest.warns(sd.warnings.Unmet, match=r"the closest was 0\.1 away"):
        run = stopped(LINE, (sd.Level(1.0), farther), t=1.0, dt=0.5)
    assert set(run["stopped_by"].values.tolist()) == {-1, 0}
    assert abs(z(run["stopped_by"].values == 0, math.erfc(math.sqrt(0.5)))) < 5
    run = stopped(LINE, (sd.Level(1.0), sd.Level(-1.1, of=lambda t, x: x[0], direction="down")), t=40.0, dt=0.5)
    assert abs(z(run["stopped_by"].values == 0, 1.1 / 2.1)) < 5
    assert abs(z(run["stop_time"].values, 1.1)) < 5


def test_which_side_of_a_wedge_is_reached_first():
    """From the angle φ in a wedge of ±b, Brownian motion leaves by the upper side with the chance (φ + b)/(2 b). The
    bias at h = 0.1 is below 2 10⁻³, a third of a standard error. |z| < 5: one in 10⁶."""
    b, φ = 0.6, 0.24
    start, normal = [math.cos(φ), math.sin(φ)], (math.cos(b), math.sin(b))
    inside = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.eye(2), start)
    run = stopped(inside, (sd.Level(0.0, of=lambda t, x: normal[0] * x[1] - normal[1] * x[0]),
                           sd.Level(0.0, of=lambda t, x: normal[0] * x[1] + normal[1] * x[0], direction="down")),
                  t=80.0, dt=0.1, paths=6000)  # fmt: skip
    by = run["stopped_by"].values
    assert abs(z(by[by >= 0] == 0, (φ + b) / (2.0 * b))) < 5


def test_a_position_stops_at_the_root_of_the_cubic():
    """Without noise x = sin t reaches 1/2 at π/6, and at 1 - 10⁻⁴ between two steps, after which it is lower again."""
    problem = sd.SDE(lambda t, x: jnp.stack([x[1], -x[0]]), lambda t, x: jnp.zeros((2, 1)), [0.0, 1.0])
    for level, exact in ((0.5, np.pi / 6), (1 - 1e-4, np.arcsin(1 - 1e-4))):
        run = stopped(problem, sd.Level(level, of=0), t=2.2, dt=0.1, paths=1, method="RK4")
        assert run["stop_time"].values[0] == pytest.approx(exact, abs=1e-5 if level == 0.5 else 2e-4)
        assert run["stop_state"].values[0] == pytest.approx([level, np.cos(exact)], abs=2e-3)
        assert "cubic" in sd.provenance(run)["stop"][0]


def test_statistics_of_the_stopped_process_and_of_those_that_go_on():
    """E x(min(τ, 2)) = drift E min(τ, 2) by Wald's identity; those alive at 2 have the mean of what is left of it."""
    collect = st.Moments(at=[2.0])
    run = stopped(BROWNIAN, sd.Level(1.0), t=2.0, dt=0.5, collect=collect)
    error = run["mean_stderr"].values[0, 0]
    assert abs(run["mean"].values[0, 0] - DRIFT * 1.4113088148605) < 5 * error
    only = sd.simulate(BROWNIAN, "EulerMaruyama", t=(0, 2), dt=0.5, paths=8000, seed=1, collect=collect,
                       stop=sd.Stop(sd.Level(1.0), stopped="alive"))  # fmt: skip
    alive = int(run["alive"].values[-1])
    assert only["paths_used"].values[0] == only["alive"].values[-1] == alive
    whole, count = run["mean"].values[0, 0], len(run["stop_time"])
    assert only["mean"].values[0, 0] == pytest.approx((whole * count - (count - alive) * 1.0) / alive, rel=1e-12)
    assert np.array_equal(only["stop_state"].values, run["stop_state"].values, equal_nan=True)


COLLECT = (st.Moments(every=3), st.Observable(lambda t, x: t * x[0], name="moved", every=3), st.Paths(5, every=5))


def equal(a, b):
    return all(np.array_equal(a[name].values, b[name].values, equal_nan=a[name].dtype.kind == "f") for name in a)


@pytest.mark.parametrize("method", ["EulerMaruyama", "ImplicitMidpoint"])
def test_packing_changes_no_bit(method, monkeypatch):
    """Packed after every few steps, at halves and never; in one block and one thread, or in two."""
    options = dict(t=6.0, dt=0.05, paths=600, method=method, collect=COLLECT, block=512)
    runs = []
    for share, steps, threads in ((0.5, 2**16, 1), (1.0, 512, 2), (0.5, 4096, 1), (0.0, 2**20, 1)):
        monkeypatch.setattr(printed, "PACKED_AT", share)
        monkeypatch.setattr(printed, "STOPPING", steps)
        runs.append(stopped(BROWNIAN, sd.Level(1.0), threads=threads, **options))
    assert 0 < runs[0]["alive"].values[-1] < 100
    assert all(equal(runs[0], other) for other in runs[1:])


def test_a_path_is_the_same_in_any_company():
    """Stop times are a function of seed and path: fewer paths, other blocks, and a path replayed by itself."""
    level, options = sd.Level(1.0), dict(t=2.0, dt=0.1)
    run = stopped(BROWNIAN, level, paths=200, **options)
    few = stopped(BROWNIAN, level, paths=50, block=32, **options)
    assert np.array_equal(run["stop_time"].values[:50], few["stop_time"].values, equal_nan=True)
    path = sd.replay(BROWNIAN, "EulerMaruyama", run, 7, stop=sd.Stop(level))["path"].values
    assert path[-1] == (run["stop_state"].values[7] if run["stopped_by"].values[7] == 0 else path[-1])
    with pytest.raises(ValueError, match="stop: the run stopped its paths; give the same stop="):
        sd.replay(BROWNIAN, "EulerMaruyama", run, 7)


def test_the_noise_of_a_path_is_that_of_the_run_without_a_stop():
    free = sd.simulate(BROWNIAN, "EulerMaruyama", t=(0, 1), dt=0.1, paths=20, seed=1, collect=st.Paths(20, every=1))
    run = stopped(BROWNIAN, sd.Level(1.0), t=1.0, dt=0.1, paths=20, collect=st.Paths(20, every=1))
    for k, end in enumerate(times(run, 1.05)):
        before = free["time"].values < end
        assert np.array_equal(free["path"].values[k, before], run["path"].values[k, before])


def test_kernels_stop_paths_too():
    """By the print for a GPU, run by the processor: other normals, the same law. |z| < 5: one in 10⁶."""
    run = stopped(BROWNIAN, sd.Level(1.0), t=2.0, dt=1.0, device=jax.devices("cpu"))
    assert abs(z(np.isnan(run["stop_time"].values), 0.4373243966415)) < 5
    assert run["alive"].values[-1] == np.sum(np.isnan(run["stop_time"].values))


def test_ready_and_swept():
    ready = sd.prepare(BROWNIAN, "EulerMaruyama", t=(0, 2), dt=0.5, paths=100, stop=sd.Stop(sd.Level(1.0)))
    assert equal(ready(seed=1), stopped(BROWNIAN, sd.Level(1.0), t=2.0, dt=0.5, paths=100))
    swept = sd.SDE(lambda t, x, p: p["drift"] + 0.0 * x, lambda t, x, p: SIGMA, 0.0, params={"drift": DRIFT})
    found = sd.sweep(swept, "EulerMaruyama", over={"drift": [-1.0, DRIFT]}, t=(0, 2), dt=0.5, paths=100, seed=1,
                     stop=sd.Stop(sd.Level(1.0)))  # fmt: skip
    assert np.all(found["alive"].values[0] >= found["alive"].values[1])
    assert np.array_equal(found["stop_time"].values[1], ready(seed=1)["stop_time"].values, equal_nan=True)


def test_a_failure_is_not_a_stop():
    """Paths of dx = x³ dt + dW explode before t = 5 unless the level below stops them first."""
    problem = sd.SDE(lambda t, x: x**3, lambda t, x: 1.0, 1.5)
    run = stopped(problem, sd.Level(1.0, direction="down"), t=5.0, dt=0.02, paths=200, on_failure="record")
    failed, by = run["failed_path"].values, run["stopped_by"].values
    assert 0 < len(failed) < 200
    assert np.array_equal(np.flatnonzero(by == -1), np.sort(failed))
    assert np.all(np.isnan(run["stop_time"].values[failed]))


WRONG = {
    "no levels": (lambda: sd.Stop(), "stop: has no level"),
    "a number": (lambda: sd.Stop(1.0), "stop: expected levels such as"),
    "another kind": (lambda: sd.Stop(sd.Level(1.0), stopped="dead"), 'stopped: expected "frozen" or "alive"'),
    "a level for a stop": (
        lambda: sd.simulate(BROWNIAN, t=(0, 1), dt=0.1, paths=8, seed=1, stop=sd.Level(1.0)),
        "stop: expected stodyn.Stop",
    ),
    "reached at the start": (
        lambda: stopped(BROWNIAN, sd.Level(-1.0), t=1.0, dt=0.1),
        "stop: every path has reached it",
    ),
    "a spectrum": (
        lambda: stopped(BROWNIAN, sd.Level(1.0), t=1.0, dt=0.1, collect=st.Spectrum(segment=8, every=1)),
        "stop: Spectrum needs records that go on to the end",
    ),
    "a passage": (
        lambda: stopped(BROWNIAN, sd.Level(1.0), t=1.0, dt=0.1, collect=st.Passage(1.0)),
        "stop: Passage weighs crossings",
    ),
    "a solver": (
        lambda: stopped(sd.linear([[-1.0]], [[1.0]]), sd.Level(1.0), t=1.0, dt=0.1, method="VanLoan"),
        "stop: VanLoan makes whole paths at once",
    ),
    "a net": (
        lambda: stopped(BROWNIAN, sd.Level(1.0), t=1.0, dt=0.1, paths=64, points="sobol"),
        "stop: the points of a Sobol net are for whole paths",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_stopped_is_said(case):
    call, words = WRONG[case]
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_a_level_that_no_path_reaches_is_told_with_how_close_they_came():
    with pytest.warns(UserWarning, match=r"no path has reached Level\(50.0.*the closest was 4\d.* away") as told:
        run = stopped(BROWNIAN, sd.Level(50.0), t=1.0, dt=0.1, paths=64)
    assert told[0].filename == __file__
    assert np.all(run["alive"].values == 64)


def test_a_scan_in_the_function_of_a_level():
    """The level of a sum of squares is that of its scan."""
    scanned = sd.Level(1.0, of=lambda t, x: lax.scan(lambda s, y: (s + y * y, None), 0.0, x)[0])
    written = sd.Level(1.0, of=lambda t, x: x[0] * x[0] + x[1] * x[1])
    found = [stopped(PLANE, level, t=1.0, dt=0.25, paths=64)["stop_time"].values for level in (scanned, written)]
    np.testing.assert_allclose(*found, rtol=1e-9)
    assert np.isfinite(found[0]).sum() > 9
