"""Stationary laws and their gradients: closed forms of an oscillator, and differences of a random system."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd


def oscillator(k=2.0, c=0.3, s=0.7, load=0.5):
    """Variances s²/(2ck) and s²/(2c), the mean load/k."""
    return sd.Mechanical(
        lambda t, x, v, p: p["load"] - p["k"] * x - p["c"] * v, lambda t, x, v, p: p["s"] * jnp.eye(1),
        ([0.0], [0.0]), params={"k": k, "c": c, "s": s, "load": load},
    )  # fmt: skip


def test_an_oscillator_by_its_spring_its_damper_its_noise_and_its_load():
    k, c, s, load = 2.0, 0.3, 0.7, 0.5
    law = sd.analysis.stationary(oscillator(k, c, s, load), of=("k", "c", "s", "load"))
    assert law.parameters == ("k", "c", "s", "load")
    x, v = s**2 / (2 * c * k), s**2 / (2 * c)
    np.testing.assert_allclose(law.covariance, np.diag([x, v]), atol=1e-13)
    expected = [np.diag([-x / k, 0]), np.diag([-x / c, -v / c]), np.diag([2 * x / s, 2 * v / s]), np.zeros((2, 2))]
    np.testing.assert_allclose(law.covariance_gradient, expected, atol=1e-12)
    np.testing.assert_allclose(law.mean, [load / k, 0.0], atol=1e-15)
    np.testing.assert_allclose(law.mean_gradient[:, 0], [-load / k**2, 0, 0, 1 / k], atol=1e-14)


def test_the_spectrum_of_an_oscillator():
    """S = s²/((k - ω²)² + c²ω²), whose derivatives are those of its denominator."""
    k, c, s, f = 2.0, 0.3, 0.7, np.array([0.1, 0.225, 0.6])
    law = sd.analysis.stationary(oscillator(k, c, s), of=("k", "c", "s"), frequency=f)
    w = 2 * np.pi * f
    D = (k - w**2) ** 2 + c**2 * w**2
    np.testing.assert_allclose(law.spectrum[:, 0, 0], s**2 / D, rtol=1e-12)
    expected = [-(s**2) / D**2 * 2 * (k - w**2), -(s**2) / D**2 * 2 * c * w**2, 2 * s / D]
    np.testing.assert_allclose(law.spectrum_gradient[:, :, 0, 0], expected, rtol=1e-11)


def test_entries_of_a_matrix_of_components_with_units_far_apart():
    rng = np.random.default_rng(5)
    units = np.array([1e-9, 1.0, 1e6])
    A = (rng.standard_normal((3, 3)) - 4 * np.eye(3)) * units[:, None] / units
    B = rng.standard_normal((3, 2)) * units[:, None]

    def system(A):
        return sd.SDE(lambda t, x, p: p["A"] @ x, lambda t, x: jnp.asarray(B), np.zeros(3), {"A": A})

    law = sd.analysis.stationary(system(A), of="A")
    for name, slope in zip(law.parameters, law.covariance_gradient, strict=True):
        i, j = map(int, name[2:-1].split(","))
        ε = 1e-5 * units[i] / units[j] * np.outer(np.eye(3)[i], np.eye(3)[j])
        ends = [sd.analysis.stationary(system(A + side)).covariance for side in (ε, -ε)]
        difference = (ends[0] - ends[1]) / (2e-5 * units[i] / units[j])
        np.testing.assert_allclose(slope / difference, 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    "drift, noise, of, words",
    [
        (lambda t, x, p: -p["k"] * x, lambda t, x, p: x, "k", "noise multiplies the state"),
        (lambda t, x, p: -p["k"] * x + jnp.sin(t), lambda t, x, p: 1.0, "k", "depend on time"),
        (lambda t, x, p: -p["k"] * x, lambda t, x, p: 1.0, "start.x", "does not depend on the start"),
        (lambda t, x, p: -p["k"] * x**3, lambda t, x, p: 1.0, "k", "drift"),
        (lambda t, x, p: p["k"] * x, lambda t, x, p: 1.0, "k", "no stationary covariance"),
    ],
)
def test_what_has_no_stationary_law_is_refused(drift, noise, of, words):
    problem = sd.SDE(drift, noise, 1.0, {"k": 1.0}, names=["x"])
    with pytest.raises(ValueError, match=words):
        sd.analysis.stationary(problem, of=of)


@pytest.mark.parametrize("rate", [scipy.stats.uniform(1, 2), sd.PerPath([1.0, 2.0])])
@pytest.mark.parametrize(
    "ask",
    [
        sd.analysis.stationary,
        sd.analysis.linear.coefficients,
        sd.analysis.periodic,
        lambda problem: sd.analysis.small_noise.small_noise(problem, [0.0, 1.0]),
        lambda problem: sd.analysis.small_noise.delivered_small_noise(problem, "Heun", (0, 1), 2),
        lambda problem: sd.analysis.covariance.delivered(problem, "Heun", 0.1, 2),
        lambda problem: sd.analysis.covariance.exact(problem, [0.0, 1.0]),
        lambda problem: sd.analysis.ergodic.stationary(
            problem, sd.analysis.ergodic.Hermite(2), sd.analysis.ergodic.Hermite(2)
        ),
    ],
)
def test_parameters_that_are_drawn_for_each_path_have_no_one_law(ask, rate):
    """They ended in errors of JAX, or the answer was that of one draw."""
    problem = sd.SDE(
        lambda t, x, p: jnp.array([x[1], -p["k"] * x[0] - x[1]]), lambda t, x: jnp.array([[0.0], [1.0]]), [1.0, 0.0],
        params={"k": rate},
    )  # fmt: skip
    with pytest.raises(ValueError, match="problem: its parameter k differs from path to path"):
        ask(problem)


def test_a_loop_is_sent_to_the_law_of_its_times():
    plant = sd.SDE(lambda t, x, p: p["u"] - x, lambda t, x: 0.3, 0.5, params={"u": 0.0}, names="x")
    gauge = sd.Sensor("y", of="x", every=0.5, noise=sd.per_sample(0.1))
    law = sd.Part("law", 0.5, lambda t, own, seen, p: (own, -seen["y"]), reads="y", writes="u")
    loop = sd.with_loop(plant, gauge, law)
    with pytest.raises(TypeError, match=r"problem: a loop acts at times of its own.*stodyn.analysis.sampled\(loop\)"):
        sd.analysis.stationary(loop)
