"""Extremes of paths against those of known curves, and of stored paths."""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods.explicit import EulerMaruyama

A = np.random.default_rng(1).standard_normal((400, 2))
PERIOD = 2.0 * np.pi
FROZEN = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.zeros((2, 1)), sd.PerPath(A))


def wave(t, x):
    return x[0] * jnp.cos(t) + x[1] * jnp.sin(t)


def test_peaks_of_random_waves_have_rayleighs_law():
    """max |a cos t + b sin t| is √(a² + b²), between the steps too: its cubic of 16 steps is off by h⁴/384."""
    peaks = st.Extreme(lambda t, x: jnp.stack([wave(t, x), 1e3 * wave(t, x)]), levels=[0.5, 1.0], at=[PERIOD])
    run = sd.simulate(FROZEN, EulerMaruyama, t=(0, PERIOD), dt=PERIOD / 16, paths=400, seed=1, collect=peaks, block=64)
    exact = np.hypot(*A.T)
    np.testing.assert_allclose(run["peak"].values[:, 0], exact, rtol=1e-4)
    np.testing.assert_allclose(run["peak"][:, 1], 1e3 * run["peak"][:, 0], rtol=1e-12)
    np.testing.assert_array_equal(run["peak_path"], np.arange(400))
    own = run.isel(peak_entry=0, time=0)
    assert abs(own["peak_mean"] - np.sqrt(np.pi / 2)) < 5 * own["peak_mean_stderr"]
    assert abs(own["peak_std"] - np.sqrt(2 - np.pi / 2)) < 5 * own["peak_std_stderr"]
    quantiles = np.sqrt(-2 * np.log(1 - run["peak_probability"].values))
    assert np.all(np.abs(own["peak_quantile"] - quantiles) < 5 * own["peak_quantile_stderr"])
    passed = sd.interval(run, "peak_passed", 1 - 1e-7).isel(peak_entry=0)
    law = np.exp(-(run["peak_level"].values ** 2) / 2)
    assert np.all((passed.low < law) & (law < passed.high))
    assert "cubic" in run["peak"].attrs["between_steps"]


@pytest.mark.parametrize("kind", ["absolute", "largest", "smallest"])
def test_where_noise_enters_they_are_those_of_the_steps(kind):
    """The velocity of an oscillator in white noise, by its name; its position, which is followed between the steps."""
    osc = sd.Mechanical(lambda t, x, v: -x - 0.2 * v, lambda t, x, v: 1.0, start=(0.0, 0.0), names=["x"])
    collect = [st.Extreme(["dx", "x"], kind=kind, every=10), st.Paths(40, every=1)]
    run = sd.simulate(osc, "Newmark", t=(0, 8), dt=0.2, paths=40, seed=2, collect=collect)
    path = run["path"].values[:, :, ::-1]  # dx, x
    ends = {"absolute": np.abs(path).max(axis=1), "largest": path.max(axis=1), "smallest": path.min(axis=1)}[kind]
    np.testing.assert_array_equal(run["peak"].values[:, 0], ends[:, 0])
    beyond = (run["peak"].values[:, 1] - ends[:, 1]) * (-1 if kind == "smallest" else 1)
    assert np.all(beyond >= 0) and 0 < beyond.max() < 0.05
    assert run["peak_entry"].values.tolist() == ["dx", "x"] and "grid" in run["peak"].attrs["between_steps"]
    np.testing.assert_allclose(run["peak_mean"][-1], run["peak"].mean("peak_path"), rtol=1e-12)


def test_peak_reactions_of_pendulums_are_those_of_the_books():
    """Let go at rest at the angle θ, a rod of length 1 holds at most g (3 - 2 cos θ), as the bob passes below."""
    θ, gravity = np.array([0.4, 0.9, 1.5]), 9.81
    start = sd.PerPath(np.stack([np.sin(θ), -np.cos(θ)], axis=1)), sd.PerPath(np.zeros((3, 2)))
    rods = sd.Mechanical(
        lambda t, x, v: jnp.array([0.0, -gravity]), None, start, constraints=lambda t, x: 0.5 * (x @ x - 1.0)[None]
    )
    peaks = st.Extreme(rods.multiplier, at=[0.9])
    run = sd.simulate(rods, "RattleAlpha", t=(0, 0.9), dt=0.01, paths=3, seed=1, collect=peaks)
    np.testing.assert_allclose(run["peak"].values.ravel(), gravity * (3.0 - 2.0 * np.cos(θ)), rtol=1e-3)


def test_velocities_under_coloured_forces_are_smooth():
    mast = sd.with_noise(
        sd.Mechanical.from_matrices([1.0], [0.2], [4.0]), sd.noise.coloured.gauss_markov(1.0, 1.0), into="x0"
    )
    for of, kind in (("x0", "cubic"), ("dx0", "cubic"), (2, "grid")):
        ready = st.Extreme(of).prepared(mast, np.array([0.0, 1.0]))
        assert ready.responses.between_steps.startswith(kind)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(of=["x", 1.5]), "Extreme: of must be a component by its name or number"),
        (dict(of="x", kind="both"), "Extreme: kind must be one of absolute, largest, smallest"),
        (dict(of="x", levels=[2.0, 1.0]), "Extreme: levels must be increasing finite numbers"),
        (dict(of="x", quantiles=[0.5, 1.0]), "Extreme: quantiles must lie between 0 and 1"),
    ],
)
def test_wrong_arguments_are_told(options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        st.Extreme(**options)


def test_a_component_that_is_not_there_is_told():
    with pytest.raises(ValueError, match="Extreme: there is no component 'y'; the components are x0, x1"):
        st.Extreme("y").prepared(FROZEN, np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match=r"Extreme: of returned shape \(2, 2\), expected a number or a vector"):
        st.Extreme(lambda t, x: jnp.outer(x, x)).prepared(FROZEN, np.array([0.0, 1.0]))


def test_shares_of_a_response_without_a_value_are_unknown():
    """Where a path is negative its root is NaN, which is not below a level."""
    peaks = st.Extreme(lambda t, x: jnp.stack([jnp.sqrt(x[0]), x[1]]), levels=[0.5])
    run = sd.simulate(FROZEN, EulerMaruyama, t=(0, 1), dt=0.5, paths=20, seed=1, collect=peaks)
    assert np.isnan(run["peak_passed"].values[0]).tolist() == [True, False]
