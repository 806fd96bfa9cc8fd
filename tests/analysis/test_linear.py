"""The step map against closed forms of Euler, Heun, theta and midpoint steps, and against every outcome enumerated."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from stodyn.analysis import covariance as cv
from stodyn.analysis.linear import coefficients, exact_moments, step_map
from stodyn.methods.contract import EXPLICIT, Method
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ImplicitMidpoint, ThetaEuler
from stodyn.noise import discrete, wiener
from stodyn.numerics import gauss, lyapunov, van_loan
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.contract import Problem
from stodyn.problems.sde import SDE

rng = np.random.default_rng(3)
A, a = rng.normal(size=(3, 3)) - 2 * np.eye(3), rng.normal(size=3)
B, b = 0.4 * rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3))


def general(calculus):
    """dx = (A x + a) dt + Σ_k (B_k x + b_k) dW_k, three components and two channels that do not commute."""
    return SDE(lambda t, x: A @ x + a, lambda t, x: (jnp.asarray(B) @ x + b).T, [1.0, -1.0, 0.5], calculus=calculus)


GENERAL = {calculus: general(calculus) for calculus in ("ito", "stratonovich")}


def geometric(l, s, calculus="ito"):
    return SDE(lambda t, x, p: p[0] * x, lambda t, x, p: p[1] * x, 1.0, params=(l, s), calculus=calculus)


GEOMETRIC = {calculus: geometric(-1.3, 0.8, calculus) for calculus in ("ito", "stratonovich")}


OU = SDE(lambda t, x, p: p["rate"] * (p["level"] - x), lambda t, x, p: p["s"], 0.0,
         params={"rate": 1.5, "level": 2.0, "s": 0.6})  # fmt: skip


LANGEVIN = SDE(lambda t, x: jnp.stack([x[1], -x[0] - 0.1 * x[1]]), lambda t, x: jnp.array([[0.0], [0.5]]), [0.0, 0.0])

CLOCK = np.array([[0.0, 1.0], [-1.0, -0.001]])
BETA = 0.5
KUBO = SDE(
    lambda t, x: jnp.asarray(CLOCK) @ x, lambda t, x: BETA * (jnp.asarray(CLOCK) @ x)[:, None], [2.0, 0.0],
    calculus="stratonovich",
)  # fmt: skip


def energy(mean, covariance):
    return 0.5 * (np.trace(covariance) + mean @ mean)


def normal_power(mean, variance, k):
    """E z^k for z ~ N(mean, variance)."""
    return sum(
        math.comb(k, 2 * i) * math.prod(range(1, 2 * i, 2)) * variance**i * mean ** (k - 2 * i)
        for i in range(k // 2 + 1)
    )


# --- one step ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.01, 0.3])
def test_euler_on_geometric_brownian_motion(h):
    l, s = -1.3, 0.8
    step = step_map(GEOMETRIC["ito"], EulerMaruyama, h)
    np.testing.assert_allclose(step.M, [[1 + l * h]], rtol=1e-14)
    np.testing.assert_allclose(step.MM, [[(1 + l * h) ** 2 + s**2 * h]], rtol=1e-14)
    assert step.c == 0 and step.cc == 0 and step.Mc == 0
    assert step.error < 1e-15 and step.autonomous
    assert math.isclose(step.mean_square_radius(), (1 + l * h) ** 2 + s**2 * h, rel_tol=1e-14)
    assert math.isclose(step.spectral_radius(), abs(1 + l * h), rel_tol=1e-14)


@pytest.mark.parametrize("calculus", ["ito", "stratonovich"])
@pytest.mark.parametrize("h", [0.01, 0.3])
def test_heun_on_geometric_brownian_motion(h, calculus):
    """M = 1 + z + z²/2 with z = l h + s W, l the Stratonovich drift; an Ito problem is converted first."""
    l, s = -1.3, 0.8
    step = step_map(GEOMETRIC[calculus], Heun, h)
    drift = l - 0.5 * s**2 if calculus == "ito" else l
    z = [normal_power(drift * h, s**2 * h, k) for k in range(5)]
    np.testing.assert_allclose(step.M, [[1 + z[1] + z[2] / 2]], rtol=1e-14)
    np.testing.assert_allclose(step.MM, [[1 + 2 * z[1] + 2 * z[2] + z[3] + z[4] / 4]], rtol=1e-14)


@pytest.mark.parametrize("h", [0.02, 0.5])
def test_euler_on_a_general_linear_system(h):
    step = step_map(GENERAL["ito"], EulerMaruyama, h)
    M, c = np.eye(3) + h * A, h * a
    np.testing.assert_allclose(step.M, M, atol=1e-14)
    np.testing.assert_allclose(step.c, c, atol=1e-14)
    np.testing.assert_allclose(step.MM, np.kron(M, M) + h * sum(np.kron(Bk, Bk) for Bk in B), atol=1e-14)
    mixed = sum(np.kron(Bk, bk[:, None]) for Bk, bk in zip(B, b, strict=True))
    np.testing.assert_allclose(step.Mc, np.kron(M, c[:, None]) + h * mixed, atol=1e-14)
    np.testing.assert_allclose(step.cc, np.outer(c, c) + h * b.T @ b, atol=1e-14)


def test_midpoint_is_rational_and_its_quadrature_error_is_reported():
    """M = (1 - z/2)⁻¹ (1 + z/2) in the clock's complex mode, integrated here by a rule of 200 nodes."""
    xi, w = gauss.hermite(200)
    for h in (0.5, 0.25, 0.1):
        z = (h + BETA * math.sqrt(h) * xi)[:, None, None] * CLOCK
        M = np.linalg.solve(np.eye(2) - z / 2, np.eye(2) + z / 2)
        exact = np.einsum("s,sij,skl->ikjl", w, M, M).reshape(4, 4)
        for nodes in (6, 12, 24):
            step = step_map(KUBO, ImplicitMidpoint, h, nodes=nodes)
            error = np.abs(step.MM - exact).max()
            assert error < 20 * step.error + 1e-14
            assert nodes > 6 or step.error > 1e-12
    assert step_map(KUBO, ImplicitMidpoint, 0.5, nodes=40).error < 1e-14


def test_params_stand_in_for_the_problems_own():
    other = step_map(GEOMETRIC["ito"], EulerMaruyama, 0.1, params=(-2.0, 0.7))
    np.testing.assert_allclose(other.MM, [[0.8**2 + 0.49 * 0.1]], rtol=1e-14)


def test_callers_precision_is_left_alone():
    with jax.enable_x64(False):
        step = step_map(KUBO, Heun, 0.05)
        assert jnp.zeros(1).dtype == jnp.float32
    np.testing.assert_array_equal(step.MM, step_map(KUBO, Heun, 0.05).MM)


# --- moments over time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [EulerMaruyama, Heun, ThetaEuler(theta=0.7), ImplicitMidpoint], ids=lambda m: m.name)
def test_covariance_is_that_of_every_outcome_enumerated(method):
    """Three steps of the shipped method through all combinations of a 3-node rule: the law itself, no recursion."""
    h, n, problem = 0.2, 3, GENERAL[method.calculus]
    xi, w = gauss.hermite(3)
    pairs = np.array(list(itertools.product(range(3), repeat=2)))

    outcomes = AtPoints(lambda z, x: method.step(problem, 0.0, x, wiener.W.increment(h, {"W": z}, 2), None)[0])
    mean0, root = np.array([1.0, 2.0, -1.0]), rng.normal(size=(n, n))
    cloud = math.sqrt(n) * root.T
    states, weights = np.zeros((486, n)), np.zeros(486)
    states[: 2 * n], weights[: 2 * n] = mean0 + np.concatenate([cloud, -cloud]), 1 / (2 * n)  # mean0, root root'
    found = step_map(problem, method, h, nodes=3).moments(mean0, root @ root.T, 3)
    for k in range(4):  # 6, 54, 486 and 4374 outcomes
        mean = weights @ states
        np.testing.assert_allclose(found.mean[k], mean, atol=1e-12)
        away = states - mean
        np.testing.assert_allclose(found.covariance[k], (away * weights[:, None]).T @ away, atol=1e-11)
        occupied = np.argsort(-weights, kind="stable")[:486]
        states = outcomes(np.repeat(xi[pairs], len(occupied), axis=0), np.tile(states[occupied], (len(pairs), 1)))
        weights = np.outer(np.prod(w[pairs], axis=1), weights[occupied]).ravel()


def test_euler_on_ornstein_uhlenbeck():
    rate, level, s, h = 1.5, 2.0, 0.6, 0.2
    step = step_map(OU, EulerMaruyama, h)
    mean, covariance = step.stationary()
    np.testing.assert_allclose(mean, [level], rtol=1e-14)
    np.testing.assert_allclose(covariance, [[s**2 / (2 * rate - rate**2 * h)]], rtol=1e-14)
    run = step.moments(5.0, 0.3, 20)
    r, k = 1 - rate * h, np.arange(21)
    np.testing.assert_allclose(run.mean[:, 0], level + 3.0 * r**k, rtol=1e-14)
    exact = 0.3 * r ** (2 * k) + s**2 * h * (1 - r ** (2 * k)) / (1 - r**2)
    np.testing.assert_allclose(run.covariance[:, 0, 0], exact, rtol=1e-13)


@pytest.mark.parametrize("theta", [0.5, 0.75, 1.0])
@pytest.mark.parametrize("h", [0.1, 50.0])
def test_theta_scheme_on_ornstein_uhlenbeck(theta, h):
    """Stationary variance s²/(2a + (2θ-1) a² h): exact for the trapezoidal rule, and stable at every step."""
    rate, s = 1.5, 0.6
    step = step_map(OU, ThetaEuler(theta=theta), h)
    mean, covariance = step.stationary()
    np.testing.assert_allclose(mean, [2.0], rtol=1e-12)
    np.testing.assert_allclose(covariance, [[s**2 / (2 * rate + (2 * theta - 1) * rate**2 * h)]], rtol=1e-12)


@pytest.mark.parametrize("h, heun", [(0.5, 1.647618), (0.25, 1.279930), (0.125, 1.251216)])
def test_stationary_energy_of_the_langevin_oscillator(h, heun):
    """Midpoint has the exact 1.25 at every step; Heun: E(H) of its own Lyapunov equation."""
    _, covariance = step_map(LANGEVIN, ImplicitMidpoint, h).stationary()
    np.testing.assert_allclose(covariance, 1.25 * np.eye(2), rtol=1e-12, atol=1e-12)
    mean, covariance = step_map(LANGEVIN, Heun, h).stationary()
    drift = np.array([[0.0, 1.0], [-1.0, -0.1]])
    M, g = np.eye(2) + h * drift + h * h / 2 * drift @ drift, (np.eye(2) + h / 2 * drift) @ [0.0, 0.5]
    np.testing.assert_allclose(covariance, lyapunov.discrete(M, h * np.outer(g, g)), rtol=1e-11, atol=1e-12)
    assert abs(energy(mean, covariance) - heun) < 1e-6


@pytest.mark.brief("0.05-19.799685")
@pytest.mark.parametrize("h, expected", [(0.05, 19.799685), (0.02, 2.1707709), (0.01, 1.2164979)])
def test_heun_gains_energy_in_the_kubo_oscillator(h, expected):
    """E(H)(1000) = ½ tr of E[M⊗M]^k, M = 1 + z J + z² J²/2 with normal z: here from the moments of z and a power."""
    steps = round(1000 / h)
    step = step_map(KUBO, Heun, h)
    run = step.moments([2.0, 0.0], np.zeros((2, 2)), steps)
    found = energy(run.mean[-1], run.covariance[-1])
    powers = [np.eye(2), CLOCK, CLOCK @ CLOCK / 2]
    MM = sum(
        normal_power(h, BETA**2 * h, i + j) * np.kron(powers[i], powers[j])
        for i, j in itertools.product(range(3), repeat=2)
    )
    np.testing.assert_allclose(step.MM, MM, atol=1e-15)
    square = np.linalg.matrix_power(MM, steps) @ [4.0, 0.0, 0.0, 0.0]
    assert math.isclose(found, 0.5 * (square[0] + square[3]), rel_tol=1e-9)
    assert math.isclose(found, expected, rel_tol=5e-8)


@pytest.mark.parametrize("h, expected", [(0.5, 0.83557173), (0.25, 0.77892611), (0.1, 0.75111418)])
def test_midpoint_energy_of_the_kubo_oscillator(h, expected):
    run = step_map(KUBO, ImplicitMidpoint, h).moments([2.0, 0.0], np.zeros((2, 2)), round(1000 / h))
    assert math.isclose(energy(run.mean[-1], run.covariance[-1]), expected, rel_tol=2e-8)


def test_small_noise_keeps_its_digits_beside_a_large_mean():
    """Var = (1 + σ² h)^k - 1 for dx = σ x dW under Euler, 1e-18 of the squared mean."""
    s, h = 1e-9, 0.5
    run = step_map(GEOMETRIC["ito"], EulerMaruyama, h, params=(0.0, s)).moments(1e3, 0.0, 10)
    np.testing.assert_allclose(run.covariance[1:, 0, 0], 1e6 * s**2 * h * np.arange(1, 11), rtol=1e-6)


def test_mean_square_stability_of_euler_ends_where_the_closed_form_says():
    """(1 + l h)² + s² h < 1 for h < -(2 l + s²)/l²."""
    l, s = -3.0, 1.0
    limit = -(2 * l + s**2) / l**2

    def at(h):
        return step_map(GEOMETRIC["ito"], EulerMaruyama, h, params=(l, s))

    assert at(limit * (1 - 1e-9)).is_mean_square_stable
    assert not at(limit).is_mean_square_stable
    assert at(limit).spectral_radius() < 1


# --- weak draws, larger states ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _WeakEuler(Method):
    """Euler's step through three-point draws."""

    accepts, calculus, name, needs, claims, citation = SDE, "ito", "WeakEuler", discrete.ThreePoint(), (), ""

    def step(self, problem, t, x, noise, params):
        return x + noise.h * problem.f(t, x, params) + problem.g(t, x, params) @ noise.W, EXPLICIT


def test_discrete_draws_use_their_own_nodes():
    """Three-point draws have the first five moments of W: Euler's mean-square matrix is that of normals, no more."""
    weak, strong = step_map(GENERAL["ito"], _WeakEuler(), 0.2), step_map(GENERAL["ito"], EulerMaruyama, 0.2)
    np.testing.assert_allclose(weak.MM, strong.MM, atol=1e-14)
    np.testing.assert_allclose(weak.cc, strong.cc, atol=1e-14)
    assert weak.error == 0.0


@dataclasses.dataclass(frozen=True)
class _TwoStep(Method):
    """x'' = x' + h (3 f(x') - f(x))/2 + g W, started with x before x: the state is a pair."""

    accepts, calculus, name, needs, claims, citation = SDE, "ito", "TwoStep", wiener.WZ, (), ""

    def start(self, problem, t, x, params):
        return {"now": x, "before": x + 1.0}

    def step(self, problem, t, state, noise, params):
        x, old = state["now"], state["before"]
        drift = 1.5 * problem.f(t, x, params) - 0.5 * problem.f(t, old, params)
        return {"now": x + noise.h * drift + problem.g(t, x, params) @ noise.Z, "before": x}, EXPLICIT

    def read(self, state):
        return state["now"]


def test_a_state_larger_than_x():
    """x_(k+1) = (1 - 3z/2) x_k + (z/2) x_(k-1) + s Z, z = a h, Var Z = h³/3, from x_0 and x_(-1) = x_0 + 1."""
    rate, s, h = 1.5, 0.6, 0.2
    step = step_map(OU, _TwoStep(), h, params={"rate": rate, "level": 0.0, "s": s})
    z, fresh = rate * h, s**2 * h**3 / 3
    run = step.moments(5.0, 0.3, 2)
    first = (1 - z) * 5.0 + z / 2
    second = (1 - 1.5 * z) * first + z / 2 * 5.0
    np.testing.assert_allclose(run.mean[:, 0], [5.0, first, second], rtol=1e-14)
    on_start = (1 - 1.5 * z) * (1 - z) + z / 2
    variances = [0.3, (1 - z) ** 2 * 0.3 + fresh, on_start**2 * 0.3 + ((1 - 1.5 * z) ** 2 + 1) * fresh]
    np.testing.assert_allclose(run.covariance[:, 0, 0], variances, rtol=1e-13)
    companion = np.array([[1 - 1.5 * z, z / 2], [1.0, 0.0]])
    exact = lyapunov.discrete(companion, np.diag([fresh, 0.0]))
    np.testing.assert_allclose(step.stationary().covariance, exact[:1, :1], rtol=1e-12)


def test_time_dependent_equations_advance_step_by_step():
    """dx = (cos t - x) dt + s (1 + t) dW with Euler."""
    problem = SDE(lambda t, x: jnp.cos(t) - x, lambda t, x: 0.3 * (1 + t) + 0 * x, 0.0)
    h, m, P = 0.1, np.array([0.5]), np.array([[0.2]])
    mean, variance = 0.5, 0.2
    for k in range(5):
        step = step_map(problem, EulerMaruyama, h, t=k * h)
        assert not step.autonomous
        m, P = step.advance(m, P)
        mean, variance = mean + h * (math.cos(k * h) - mean), (1 - h) ** 2 * variance + 0.09 * (1 + k * h) ** 2 * h
    np.testing.assert_allclose([m[0], P[0, 0]], [mean, variance], rtol=1e-13)
    for ask in (lambda: step.moments(0.0, 0.0, 3), step.stationary):
        with pytest.raises(ValueError, match="depend on time"):
            ask()


# --- the linear SDE itself --------------------------------------------------------------------------------------------


def test_exact_energy_of_the_kubo_oscillator():
    found = exact_moments(KUBO, np.array([10.0, 100.0, 1000.0]), [2.0, 0.0], np.zeros((2, 2)))
    energies = [energy(m, P) for m, P in zip(*found, strict=True)]
    np.testing.assert_allclose(energies, [1.980108712765, 1.809697909573, 0.735851041914], rtol=1e-12)


@pytest.mark.parametrize("calculus", ["ito", "stratonovich"])
def test_exact_moments_of_geometric_brownian_motion(calculus):
    l, s, t, x, v = -0.4, 0.7, np.array([0.0, 0.5, 3.0]), 2.0, 0.09
    mean, covariance = exact_moments(geometric(l, s, calculus), t, x, v)
    drift = l if calculus == "ito" else l + 0.5 * s**2
    np.testing.assert_allclose(mean[:, 0], x * np.exp(drift * t), rtol=1e-13)
    square = (x**2 + v) * np.exp((2 * drift + s**2) * t)
    np.testing.assert_allclose(covariance[:, 0, 0], square - mean[:, 0] ** 2, rtol=1e-12)


def test_exact_moments_of_a_general_system_satisfy_their_equations():
    """One step of Euler's moments differs from the exact ones by O(h²); Richardson's value by O(h⁴) or rounding."""
    mean0, root = np.array([1.0, 2.0, -1.0]), rng.normal(size=(3, 3))
    P0, h = root @ root.T, 1e-3
    m, P = exact_moments(GENERAL["ito"], np.array([-h, h]), mean0, P0)
    square = P0 + np.outer(mean0, mean0)
    noise = sum(
        Bk @ square @ Bk.T + np.outer(Bk @ mean0, bk) + np.outer(bk, Bk @ mean0) + np.outer(bk, bk)
        for Bk, bk in zip(B, b, strict=True)
    )
    np.testing.assert_allclose((m[1] - m[0]) / (2 * h), A @ mean0 + a, atol=1e-4)
    np.testing.assert_allclose((P[1] - P[0]) / (2 * h), A @ P0 + P0 @ A.T + noise, atol=1e-3)


def test_exact_moments_with_additive_noise_are_van_loans():
    t = np.array([0.3, 4.0, 60.0])
    mean, covariance = exact_moments(LANGEVIN, t, [1.0, -2.0], 0.3 * np.eye(2))
    drift, spread = np.array([[0.0, 1.0], [-1.0, -0.1]]), np.array([[0.0], [0.5]])
    np.testing.assert_allclose(
        covariance, van_loan.covariance(drift, spread, np.eye(1), 0.3 * np.eye(2), t), rtol=1e-12, atol=1e-13
    )
    for k in range(3):
        np.testing.assert_allclose(
            mean[k], van_loan.discretise(drift, spread, np.eye(1), t[k])[0] @ [1.0, -2.0], atol=1e-13
        )


@pytest.mark.parametrize("method, order", [(EulerMaruyama, 1), (Heun, 1), (ImplicitMidpoint, 1), (ThetaEuler, 1)])
def test_every_method_tends_to_the_exact_moments(method, order):
    problem = GENERAL[method.calculus]
    P0, mean0 = 0.5 * np.eye(3), np.array([1.0, 2.0, -1.0])
    exact = exact_moments(problem, 1.0, mean0, P0)
    errors = []
    for steps in (64, 128):
        run = step_map(problem, method, 1.0 / steps, nodes=6).moments(mean0, P0, steps)
        errors.append(np.abs(run.covariance[-1] - exact.covariance).max())
    assert 2 ** (order - 0.15) < errors[0] / errors[1] < 2 ** (order + 1.2)


def test_coefficients_are_read_off():
    found = coefficients(GENERAL["ito"])
    for value, expected in zip(found, (A, a, B, b), strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-15)


@dataclasses.dataclass(frozen=True, eq=False)
class _Mass(Problem):
    """x'' = -k x: a problem of another kind, which may or may not have an SDE of the same law."""

    sde: SDE | None
    n, m, names, units, params, calculus, noise_structure = 2, 1, ("x", "v"), None, None, "ito", None

    def draw_start(self, rng, paths):
        return np.zeros((len(paths), 2))

    def lower(self, kind):
        return None if self.sde is None else (self.sde, "written as an SDE")


def test_problems_of_another_kind_are_lowered():
    lowered = exact_moments(_Mass(LANGEVIN), 1.0, [1.0, 0.0], np.zeros((2, 2)))
    np.testing.assert_array_equal(lowered.covariance, exact_moments(LANGEVIN, 1.0, [1.0, 0.0], np.zeros((2, 2)))[1])
    with pytest.raises(TypeError, match="expected one that can be written as an SDE, got a _Mass"):
        exact_moments(_Mass(None), 1.0, [1.0, 0.0], np.zeros((2, 2)))


def test_exact_moments_where_coefficients_depend_on_time():
    """dx = -t x dt + dW has the variance ∫ exp(-(T² - s²)) ds; of dx = t x dW, E x² = x(0)² exp(T³/3)."""
    damped = SDE(lambda t, x: -t * x, lambda t, x: 1.0 + 0 * x, 0.0)
    for begin, length in ((0.0, 1.0), (0.5, 2.0)):
        end = begin + length
        exact = scipy.integrate.quad(lambda s, T=end: np.exp(s**2 - T**2), begin, end)[0]
        mean, covariance = exact_moments(damped, end, 2.0, 0.0, begin)
        assert mean[0] == pytest.approx(2.0 * np.exp(-0.5 * (end**2 - begin**2)), rel=1e-10)
        assert covariance[0, 0] == pytest.approx(exact, rel=1e-10)
    _, covariance = cv.exact(SDE(lambda t, x: 0.0 * x, lambda t, x: t * x, 1.0), [1.5, 0.5])  # from the problem's start
    assert covariance[:, 0, 0] == pytest.approx(np.expm1(np.array([1.5, 0.5]) ** 3 / 3), rel=1e-10)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_problems_that_are_not_linear_are_refused():
    pendulum = SDE(lambda t, x: jnp.stack([x[1], -jnp.sin(x[0])]), lambda t, x: jnp.array([[0.0], [0.5]]), [0.0, 0.0])
    with pytest.raises(ValueError, match=r"Heun with dt = 0\.1 is not affine in the state"):
        step_map(pendulum, Heun, 0.1)
    with pytest.raises(ValueError, match="drift: expected to be linear in the state"):
        exact_moments(pendulum, 1.0, [0.0, 0.0], np.eye(2))
    with pytest.raises(ValueError, match="diffusion: expected to be linear"):
        coefficients(SDE(lambda t, x: -x, lambda t, x: jnp.sqrt(1 + x**2), 0.0))


def test_a_step_that_is_not_solved_is_refused():
    """Backward Euler on x' = 10 x with dt = 0.1: 1 - h λ = 0."""
    with pytest.raises(ValueError, match=r"ThetaEuler with dt = 0\.1 did not give a finite step"):
        step_map(SDE(lambda t, x: 10.0 * x, lambda t, x: 1.0 + 0 * x, 0.0), ThetaEuler, 0.1)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="dt: expected a step > 0, got 0"):
        step_map(KUBO, Heun, 0.0)
    with pytest.raises(ValueError, match="params: expected the numbers of one path"):
        step_map(geometric(scipy.stats.norm(), 0.1), EulerMaruyama, 0.1)
    with pytest.raises(ValueError, match=r"nodes: expected a number >= 1 .* streams \['W'\], got \{'Z': 3\}"):
        step_map(KUBO, Heun, 0.1, nodes={"Z": 3})
    wide = SDE(lambda t, x: -x, lambda t, x: jnp.eye(7), np.zeros(7))
    with pytest.raises(
        ValueError, match=r"3.58e\+07 nodes for the normals \{'W': 7\} of a step.* Take nodes=6 or less"
    ):
        step_map(wide, EulerMaruyama, 0.1)
    step = step_map(KUBO, Heun, 0.1)
    with pytest.raises(ValueError, match=r"mean: expected a vector of 2 components, got shape \(3,\)"):
        step.moments(np.zeros(3), np.eye(2), 1)
    with pytest.raises(ValueError, match=r"covariance: expected a covariance matrix of shape \(2, 2\)"):
        step.moments(np.zeros(2), np.eye(3), 1)
    with pytest.raises(
        ValueError, match=r"stationary: the mean-square radius of Heun with dt = 0\.1 is 1\.\d+, expected less"
    ):
        step.stationary()


def test_noise_that_multiplies_a_small_entry_counts_whatever_the_units_of_others():
    """E y² of y' = .99 y + .1 (.8 y ξ + η), beside x' = .99 x + .01 u y: .01/(1 - .99² - .0064)."""
    u = 1e16
    problem = SDE(
        lambda t, x: jnp.array([-x[0] + u * x[1], -x[1]]),
        lambda t, x: jnp.array([[0.0, 0.0], [0.8 * x[1], 1.0]]),
        [0.0, 0.0],
    )
    covariance = step_map(problem, "EulerMaruyama", 0.01).stationary().covariance
    np.testing.assert_allclose(covariance[1, 1], 0.01 / (1.0 - 0.99**2 - 0.0064), rtol=1e-9)
