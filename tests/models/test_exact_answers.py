"""Every exact answer satisfies the equation it is the answer of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from scipy.integrate import quad

from stodyn.models.double_well import DOUBLE_WELL
from stodyn.models.geometric_brownian_motion import GEOMETRIC_BROWNIAN_MOTION
from stodyn.models.kubo import KUBO
from stodyn.models.lorenz import LORENZ, lorenz
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK
from stodyn.numerics.printing.points import at_one, at_points


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def slope(function, x, h=1e-3):
    """The derivative by central differences of order 6."""
    near, middle, far = (function(x + k * h) - function(x - k * h) for k in (1, 2, 3))
    return (45.0 * near - 9.0 * middle + far) / (60.0 * h)


def curvature(function, x, h=1e-2):
    """The second derivative by central differences of order 6."""
    near, middle, far = (function(x + k * h) + function(x - k * h) for k in (1, 2, 3))
    return (270.0 * near - 27.0 * middle + 2.0 * far - 490.0 * function(x)) / (180.0 * h**2)


def over_the_noise(function, t, degree=60):
    """E function(W(t)) by Gauss-Hermite quadrature; function takes W of shape (..., 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(degree)
    values = function(np.sqrt(t) * nodes[:, None])
    return np.tensordot(weights / np.sqrt(2.0 * np.pi), values, axes=1)


PATHS = [
    KUBO(beta=0.7, nu=0.3, start=(1.5, -0.4)),
    KUBO(beta=0.7, nu=0.0),
    KUBO(beta=0.2, nu=1.9, start=(-1.0, 2.0)),
    GEOMETRIC_BROWNIAN_MOTION(growth=0.3, volatility=0.8, start=2.0),
    GEOMETRIC_BROWNIAN_MOTION(growth=-1.0, volatility=0.1),
]


@pytest.mark.parametrize("model", PATHS, ids=lambda model: f"{model.name} {dict(model.overrides)}")
@pytest.mark.parametrize(("t", "w"), [(0.0, 0.0), (0.4, -0.9), (2.0, 1.3)])
def test_solutions_satisfy_ito_formula(model, t, w):
    """x = u(t, W): ∂u/∂W = g(u), and ∂u/∂t = f(u) for Stratonovich, ∂u/∂t + ½ ∂²u/∂W² = f(u) for Ito."""
    problem, solution = model.problem, model.exact["solution"]
    x = jnp.asarray(solution(t, np.array([w])))
    in_noise = slope(lambda w: solution(t, np.array([w])), w)
    in_time = slope(lambda t: solution(t, np.array([w])), t)
    if problem.calculus == "ito":
        in_time = in_time + 0.5 * curvature(lambda w: solution(t, np.array([w])), w)
    np.testing.assert_allclose(in_noise, problem.g(t, x, problem.params)[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(in_time, problem.f(t, x, problem.params), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", PATHS, ids=lambda model: f"{model.name} {dict(model.overrides)}")
@pytest.mark.parametrize("t", [0.0, 0.5, 3.0])
def test_moments_are_those_of_the_solution(model, t):
    mean = over_the_noise(lambda W: model.exact["solution"](t, W), t)
    square = over_the_noise(lambda W: model.exact["solution"](t, W) ** 2, t)
    np.testing.assert_allclose(model.exact["mean"](t), mean, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(model.exact["variance"](t), square - mean**2, rtol=1e-11, atol=1e-11)
    if model.name == "kubo":
        np.testing.assert_allclose(model.exact["energy"](t), 0.5 * np.sum(square), rtol=1e-11)


@pytest.mark.parametrize(
    ("t", "energy"), [(1.0, 1.998552966661), (10.0, 1.980108712765), (100.0, 1.809697909573), (1000.0, 0.735851041914)]
)
def test_kubo_energy_at_the_parameters_of_the_paper(t, energy):
    assert KUBO.parameters == {"beta": 0.5, "nu": 0.001, "start": (2.0, 0.0)}
    np.testing.assert_allclose(KUBO.exact["energy"](t), energy, rtol=1e-12)


def test_kubo_answers_are_refused_where_they_do_not_hold():
    with pytest.raises(ValueError, match=r"nu: the exact answers hold for .* 0 <= nu < 2, got 2.5"):
        KUBO(nu=2.5).exact["energy"](1.0)


def test_ornstein_uhlenbeck_moments_satisfy_their_equations():
    """m' = f(m), v' = 2 f'(0) v + sigma²."""
    model = ORNSTEIN_UHLENBECK(rate=1.7, sigma=0.6, start=-2.0)
    problem, t = model.problem, np.linspace(0.0, 3.0, 7)
    at = model.exact["mean"](t)
    drift = at_points(lambda x: problem.f(0.0, x, problem.params), at)
    np.testing.assert_allclose(slope(model.exact["mean"], t), drift, rtol=1e-10)
    v = model.exact["variance"](t)
    np.testing.assert_allclose(slope(model.exact["variance"], t), -2.0 * 1.7 * v + 0.6**2, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(model.exact["variance"](np.inf), 0.6**2 / 3.4, rtol=1e-14)


def test_ornstein_uhlenbeck_correlations():
    """The regression R' = -rate R from R(0) = Var x(∞), and Wiener-Khinchin."""
    model = ORNSTEIN_UHLENBECK(rate=1.7, sigma=0.6)
    R = model.exact["autocovariance"]
    lags = np.array([0.1, 0.5, 2.0])
    np.testing.assert_allclose(R(0.0), model.exact["variance"](np.inf)[0], rtol=1e-14)
    np.testing.assert_allclose(slope(R, lags), -1.7 * R(lags), rtol=1e-10)
    np.testing.assert_array_equal(R(-lags), R(lags))
    for frequency in (0.0, 0.2, 1.5):
        integral = 2.0 * quad(lambda s: R(s) * np.cos(2.0 * np.pi * frequency * s), 0.0, 25.0, limit=400)[0]
        np.testing.assert_allclose(model.exact["spectrum"](frequency), integral, rtol=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        ORNSTEIN_UHLENBECK(rate=1.7, sigma=0.6),
        DOUBLE_WELL,
        DOUBLE_WELL(barrier=2.0, well=1.5, sigma=0.8),
        DOUBLE_WELL(barrier=1.0, well=0.5, sigma=0.2),
        DOUBLE_WELL(barrier=0.01, well=1.0, sigma=2.0),
    ],
    ids=lambda model: f"{model.name} {dict(model.overrides)}",
)
def test_stationary_densities_solve_fokker_planck(model):
    """No flux, f ρ - ½ (g² ρ)' = 0, and ∫ ρ = 1."""
    problem, density = model.problem, model.exact["stationary_density"]
    x = np.linspace(-2.0, 2.0, 401)
    f = at_points(lambda x: problem.f(0.0, x[None], problem.params)[0], x)
    g = at_points(lambda x: problem.g(0.0, x[None], problem.params)[0, 0], x)
    flux = f * density(x) - 0.5 * slope(lambda y: g**2 * density(y), x)
    assert np.max(np.abs(flux)) < 1e-7 * np.max(np.abs(f * density(x)))
    grid = np.linspace(-12.0, 12.0, 48_001)  # the trapezoidal rule is exact to rounding for smooth decaying functions
    np.testing.assert_allclose(np.sum(density(grid)) * (grid[1] - grid[0]), 1.0, rtol=1e-11)
    if model.name == "double_well":
        variance = np.sum(density(grid) * grid**2) * (grid[1] - grid[0])
        np.testing.assert_allclose(model.exact["stationary_variance"](), variance, rtol=1e-11)


@pytest.mark.parametrize("a", [0.01, 0.5, 2.0, 40.0])
def test_double_well_normalisation_in_bessel_functions(a):
    """∫ exp(-a (x² - 1)²) dx = (π/2) exp(-a/2) (I_(-1/4)(a/2) + I_(1/4)(a/2))."""
    model = DOUBLE_WELL(barrier=0.5 * a, well=1.0, sigma=1.0)
    integral = 0.5 * np.pi * (scipy.special.ive(-0.25, 0.5 * a) + scipy.special.ive(0.25, 0.5 * a))
    np.testing.assert_allclose(1.0 / model.exact["stationary_density"](1.0), integral, rtol=1e-12)


def test_double_well_rests_at_its_wells_and_its_barrier():
    problem = DOUBLE_WELL(barrier=2.0, well=1.5).problem
    for x in (-1.5, 0.0, 1.5):
        assert problem.f(0.0, jnp.array([x]), problem.params) == 0.0
    assert DOUBLE_WELL(barrier=2.0, well=1.5).exact["potential"](0.0) == 2.0


@pytest.mark.parametrize("noise", ["additive", "multiplicative"])
def test_the_lorenz_system_has_its_rests_contraction_and_noise(noise):
    """Its three rests, its constant contraction of volume, and its noise."""
    model = LORENZ(strength=0.4, noise=noise)
    problem = model.problem
    assert problem.noise_structure.implies("diagonal")
    assert problem.noise_structure.implies("additive") == (noise == "additive")

    def drift(x):
        return problem.f(0.0, x, problem.params)

    r = np.sqrt(8.0 / 3.0 * 27.0)
    for rest in ([0.0, 0.0, 0.0], [r, r, 27.0], [-r, -r, 27.0]):
        np.testing.assert_allclose(at_one(drift, np.array(rest)), np.zeros(3), atol=1e-12)
    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(np.trace(at_one(jax.jacfwd(drift), x)), -(10.0 + 1.0 + 8.0 / 3.0), rtol=1e-15)
    wanted = 0.4 * np.diag(x if noise == "multiplicative" else np.ones(3))
    np.testing.assert_allclose(at_one(lambda x: problem.g(0.0, x, problem.params), x), wanted, rtol=1e-15)


def test_lorenz_refuses_other_noise():
    with pytest.raises(ValueError, match="noise: expected one of multiplicative, additive, got 'coloured'"):
        lorenz(noise="coloured")
