"""Circuits: noise-free values, deviations of small noise, kT/C, and the pendulum on its rod."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn
from stodyn.analysis.linear import coefficients, step_map
from stodyn.analysis.small_noise import small_noise
from stodyn.methods.stiff import RK1W3
from stodyn.models.circuits import BOLTZMANN, NANO, RC_LADDER, RECTIFIER, RING_OSCILLATOR, TWO_DIODES
from stodyn.models.differential_algebraic import CONSTRAINED_PENDULUM
from stodyn.noise.increment import Increment
from stodyn.numerics.lyapunov import continuous
from stodyn.studies.ring_oscillator import crossings, cycle, growth

pytestmark = pytest.mark.usefixtures("quick_compiling")

# Noise-free values to the digits printed, and standard deviations from the Lyapunov equation, computed independently.
REFERENCES = [
    (RECTIFIER, 0.25, (1, 0.6254034904, 0.190653094, -0.037459651), {"u2": 1.077481e-5, "u3": 1.158994e-5}),
    (RECTIFIER, 1.0, (0, -0.45071277638, 0.17774394801, -0.045071277638), {"u2": 2.761618e-8, "u3": 1.829134e-5}),
    (TWO_DIODES, 0.125, (0.4615441327, 0.4570177473, 0.4095153287), {"u1": 4.453657e-6, "u2": 4.476779e-6}),
    (
        RING_OSCILLATOR,
        1.0,
        (2.8727765071, 3.1919726306, 1.0449976327, 4.9237717984, 5, -1.5245640315),
        {"u1": 2.440750e-4, "u2": 3.401941e-4, "u3": 4.227786e-4, "udd": 4.777642e-6},
    ),
]


@pytest.mark.brief("two_diodes---")
@pytest.mark.parametrize(
    ("model", "end", "values", "deviations"), REFERENCES, ids=lambda value: getattr(value, "name", "")
)
def test_noise_free_values_and_small_noise(model, end, values, deviations):
    mean, covariance = small_noise(model.problem, (0.0, end))
    np.testing.assert_allclose(mean[-1], values, rtol=2e-10, atol=2e-10)
    for name, deviation in deviations.items():
        i = model.problem.components.index(name)
        assert np.sqrt(covariance[-1, i, i]) == pytest.approx(deviation, rel=1e-6)
    if end == 0.25:
        assert covariance[-1, 1, 2] / np.sqrt(covariance[-1, 1, 1] * covariance[-1, 2, 2]) == pytest.approx(
            -0.611823, abs=1e-6
        )


def test_the_diodes_start_where_the_constant_bias_leaves_them():
    """At any parameters the currents into the nodes balance: f = 0 at t = 0."""
    for given in ({}, {"r1": 5.0, "r2": 30.0, "saturation": 1e-10, "bias": 0.1}, {"bias": 2.0, "saturation": 1e-14}):
        problem = TWO_DIODES(**given).problem
        currents = problem.f(0.0, jnp.asarray(problem.example_start()), problem.params)
        np.testing.assert_allclose(currents, 0.0, atol=1e-13)


def test_units_of_the_noise():
    """√(2kT/R) of 10 kOhm is 9.101590e-13 A/√Hz: in mA √us a million times that."""
    G = np.asarray(RC_LADDER(nodes=1, resistance=10.0).problem.g(0.0, jnp.zeros(2), None))
    assert G[0, 0] == pytest.approx(9.101590e-13 * 1e6, rel=1e-6)


def test_kt_over_c_by_covariance_analysis():
    """The stationary covariance of the equations, and of the trapezoidal rule at any step, is kT C⁻¹ to 1e-8."""
    model = RC_LADDER(nodes=3, resistance=7.0, coupling=0.004, gain=2.0)
    exact = model.exact["equilibrium"]()
    C = model.problem.mass[:3, :3]
    np.testing.assert_allclose(exact[:3, :3], BOLTZMANN * 300.0 / NANO * np.linalg.inv(C), rtol=1e-14)
    A, _, _, b = coefficients(model.problem)
    np.testing.assert_allclose(continuous(A, b.T @ b), exact[:3, :3], rtol=1e-8)
    np.testing.assert_allclose(
        step_map(model.problem, "Trapezoidal", 0.2, nodes=3).stationary().covariance, exact, rtol=1e-8
    )


def test_kt_over_c_by_paths():
    """Means and variances of 40 000 paths within 5.4 standard errors: right ones miss at one seed in 10⁶, and steps of
    any length have the right ones (test above)."""
    model = RC_LADDER()
    run = stodyn.simulate(model.problem, "Trapezoidal", t=(0.0, 10.0), dt=0.1, paths=40_000, seed=4)
    exact = np.diagonal(model.exact["equilibrium"]())
    found = run.isel(time=-1)
    assert np.all(np.abs(found["variance"] - exact) <= 5.4 * found["variance_stderr"])
    assert np.all(np.abs(found["mean"]) <= 5.4 * found["mean_stderr"])


@pytest.mark.long("tests/analysis/test_phase_noise.py, whose ring is the same circuit")
def test_the_ring_oscillates_with_its_period():
    assert cycle(RING_OSCILLATOR.problem).period == pytest.approx(3.343391, abs=2e-6)


def test_the_jitter_of_period_ends_and_where_they_are():
    # A clock whose periods are independent with variance s² has Var t_k = s² k.
    rng = np.random.default_rng(2)
    ends = np.cumsum(1.0 + 0.01 * rng.standard_normal((4000, 20)), axis=1)
    slope, stderr = growth(ends)
    assert abs(slope - 1e-4) < 6.0 * stderr and stderr < 1e-5
    t = np.linspace(0.0, 3.0, 301)
    rising = 2.0 + np.sin(2.0 * np.pi * (t - np.array([[0.25], [0.31]])))
    np.testing.assert_allclose(crossings(t, rising, 2), [[0.25, 1.25], [0.31, 1.31]], atol=1e-4)


@pytest.mark.long("tests/models/test_jointed.py follows angles")
def test_the_pendulum_follows_its_angle():
    """The SDAE of position, velocity and rod on the same path as the SDE of the angle: the gap falls with the step."""
    p = CONSTRAINED_PENDULUM.parameters
    problem = CONSTRAINED_PENDULUM.problem
    fine = np.random.default_rng(7).standard_normal(256) * np.sqrt(1.0 / 256)

    def angle(W, h):  # semi-implicit Euler on the finest path, additive noise
        def step(state, w):
            θ, ω = state
            ω = ω + h * (-p["gravity"] / p["length"] * jnp.sin(θ) - p["drag"] * ω) + p["gust"] / p["length"] * w
            return (θ + h * ω, ω), None

        return jax.lax.scan(step, (p["angle"], 0.0), W)[0][0]

    @jax.jit
    def rod(W, h):
        def step(carry, w):
            k, x, ok = carry
            x, report = RK1W3.step(problem, k * h, x, Increment(h, w[None]), problem.params)
            return (k + 1.0, x, ok & report.ok), None

        start = RK1W3.start(problem, 0.0, jnp.asarray(problem.example_start()), problem.params)
        return jax.lax.scan(step, (0.0, start, True), W)[0]

    θ = float(angle(jnp.asarray(np.repeat(fine, 16) / 16), 1.0 / 256 / 16))
    gaps, lengths = [], []
    for W, h in ((fine.reshape(-1, 2).sum(axis=1), 1.0 / 128), (fine, 1.0 / 256)):
        _, x, ok = rod(jnp.asarray(W), h)
        assert ok
        gaps.append(float(np.abs(x[:2] - np.array([np.sin(θ), -np.cos(θ)])).max()))
        lengths.append(abs(float(x[0] ** 2 + x[1] ** 2) - 1.0))
    assert gaps[1] < 4e-3 and gaps[1] < 0.75 * gaps[0]
    assert lengths[1] < 4e-3 and lengths[1] < 0.75 * lengths[0]  # twice differentiated, the rod is kept to the order
