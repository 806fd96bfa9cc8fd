"""Ensembles against closed forms of the very steps that were made: nothing is left to the error of the method.

Every comparison allows 6 standard errors: a false alarm of 2e-9 each, below 1e-6 for all of them together.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, simulate
from stodyn import statistics as st
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ImplicitMidpoint, ThetaEuler
from stodyn.models.kubo import kubo
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck

SIGMAS = 6.0


def assert_within(value, error, exact):
    value, error = np.asarray(value), np.asarray(error)
    assert np.all(np.isfinite(value))
    pulls = np.abs(value - exact) / np.where(error > 0, error, 1e-13)
    assert np.all(pulls < SIGMAS), f"{pulls.max():.1f} standard errors"


@pytest.mark.parametrize(
    ("method", "damping"),
    [
        (EulerMaruyama, lambda z: (1 - z, 1.0)),
        (ThetaEuler, lambda z: (1 / (1 + z), 1 / (1 + z))),
        (ThetaEuler(theta=0.5), lambda z: ((1 - z / 2) / (1 + z / 2), 1 / (1 + z / 2))),
        (Heun, lambda z: (1 - z + z * z / 2, 1 - z / 2)),
        (ImplicitMidpoint, lambda z: ((1 - z / 2) / (1 + z / 2), 1 / (1 + z / 2))),
    ],
    ids=lambda p: getattr(p, "spelling", ""),
)
def test_ornstein_uhlenbeck_step_by_step(method, damping):
    """x' = a x + b σ W exactly, so E x_k = a^k x_0 and Var x_k = b² σ² h (1 - a^2k)/(1 - a²)."""
    rate, sigma, h, N = 1.7, 0.6, 0.2, 10
    run = simulate(
        ornstein_uhlenbeck(rate, sigma, 2.0),
        method,
        t=(0, N * h),
        dt=h,
        paths=20_000,
        seed=20,
        collect=st.Moments(every=2),
    )
    a, b = damping(rate * h)
    k = np.arange(0, N + 1, 2)
    assert_within(run["mean"][:, 0], run["mean_stderr"][:, 0], 2.0 * a**k)
    variance = (b * sigma) ** 2 * h * (1 - a ** (2.0 * k)) / (1 - a * a)
    assert_within(run["variance"][:, 0], run["variance_stderr"][:, 0], variance)
    np.testing.assert_allclose(run["variance_stderr"][1:, 0], np.sqrt(2 / 19_999) * variance[1:], rtol=0.15)


def test_strong_error_of_euler_on_geometric_brownian_motion():
    """The same W drives the scheme and the exact solution, so E |x_N - X(T)|² is a sum of three powers.

    E x_N² = ((1+μh)² + σ²h)^N, E X² = exp((2μ+σ²)T), E x_N X = (exp(μh)(1 + μh + σ²h))^N.
    """
    mu, sigma, T, N = 0.5, 0.4, 1.0, 16
    h = T / N
    both = SDE(lambda t, x: jnp.array([mu * x[0], 0.0]), lambda t, x: jnp.array([[sigma * x[0]], [1.0]]), [1.0, 0.0])

    def exact(t, W):
        return jnp.exp((mu - sigma**2 / 2) * t + sigma * W)

    collect = [
        st.Observable(lambda t, x: (x[0] - exact(t, x[1])) ** 2, name="error", at=[T]),
        st.Observable(lambda t, x: x[0] * exact(t, x[1]), name="product"),
        st.Observable(lambda t, x: x[0] ** 2, name="square"),
    ]
    run = simulate(both, EulerMaruyama, t=(0, T), dt=h, paths=40_000, seed=21, collect=collect)
    square = ((1 + mu * h) ** 2 + sigma**2 * h) ** N
    product = (np.exp(mu * h) * (1 + mu * h + sigma**2 * h)) ** N
    error = square - 2 * product + np.exp((2 * mu + sigma**2) * T)
    for name, value in (("error", error), ("product", product), ("square", square)):
        assert_within(run[name], run[f"{name}_stderr"], value)


def second_moments(step, x, steps, beta, h, times):
    """E x x' after each step of a linear scheme x' = step(τ) x, τ = h + beta W, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    weights = weights / weights.sum()
    P, kept = np.outer(x, x), []
    for k in range(steps + 1):
        if k in times:
            kept.append(P)
        matrices = [step(h + beta * np.sqrt(h) * z) for z in nodes]
        P = sum(w * M @ P @ M.T for w, M in zip(weights, matrices, strict=True))
    return np.array(kept)


def test_energy_of_the_kubo_oscillator_step_by_step():
    """Heun on a linear system: x' = (1 + τA + τ²A²/2) x with τ = h + beta W; all second moments follow."""
    beta, nu, h, N = 0.5, 0.3, 0.1, 20
    A = np.array([[0.0, 1.0], [-1.0, -nu]])
    collect = [
        st.Observable(lambda t, x, p: 0.5 * (x @ x), name="energy", every=5),
        st.Observable(lambda t, x, p: jnp.array([x[0] ** 2, x[0] * x[1], x[1] ** 2]), name="products"),
    ]
    run = simulate(kubo(beta, nu), Heun, t=(0, N * h), dt=h, paths=20_000, seed=22, collect=collect)
    P = second_moments(lambda tau: np.eye(2) + tau * A + tau**2 / 2 * A @ A, [2.0, 0.0], N, beta, h, range(0, N + 1, 5))
    assert_within(run["energy"], run["energy_stderr"], (P[:, 0, 0] + P[:, 1, 1]) / 2)
    assert_within(run["products"], run["products_stderr"], np.stack([P[:, 0, 0], P[:, 0, 1], P[:, 1, 1]], axis=1))


def test_the_midpoint_rule_keeps_every_paths_energy():
    """Undamped Kubo: q² + p² is a quadratic invariant, kept on each path to the tolerance of Newton."""
    run = simulate(kubo(nu=0.0), ImplicitMidpoint, t=(0, 2), dt=0.1, paths=50, seed=23, collect=st.Paths(50, every=10))
    np.testing.assert_allclose((run["path"].values ** 2).sum(axis=-1), 4.0, rtol=1e-9)


def test_time_dependent_coefficients_are_read_at_the_right_time():
    """dx = cos(t) dt + s(t) dW by Euler: exact sums over the steps, from a start time that is not zero."""
    problem = SDE(lambda t, x: jnp.cos(t), lambda t, x: 1.0 + t, 0.5)
    lengths = np.array([0.1, 0.3, 0.2, 0.4])
    run = simulate(problem, EulerMaruyama, t=(1.0, 2.0), dt=lengths, paths=20_000, seed=24, collect=st.Moments(every=1))
    begins = np.array([1.0, 1.1, 1.4, 1.6])
    mean = 0.5 + np.concatenate([[0.0], np.cumsum(lengths * np.cos(begins))])
    variance = np.concatenate([[0.0], np.cumsum(lengths * (1 + begins) ** 2)])
    assert_within(run["mean"][:, 0], run["mean_stderr"][:, 0], mean)
    assert_within(run["variance"][:, 0], run["variance_stderr"][:, 0], variance)


def test_channels_are_independent():
    """Three channels into two components: Cov x = t g g'."""
    g = np.array([[1.0, 0.5, 0.0], [0.0, -0.3, 2.0]])
    problem = SDE(lambda t, x: jnp.zeros(2), lambda t, x: g, [0.0, 0.0])
    product = st.Observable(lambda t, x: x[0] * x[1], name="product")
    run = simulate(
        problem, EulerMaruyama, t=(0, 1), dt=0.25, paths=20_000, seed=25, collect=[st.Moments(at=[1.0]), product]
    )
    assert_within(run["variance"][0], run["variance_stderr"][0], np.diag(g @ g.T))
    assert_within(run["product"], run["product_stderr"], (g @ g.T)[0, 1])
