"""The covariance integrators deliver and the noise they need, against exact functions, tables and other routes."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from numpy.polynomial import polynomial

from stodyn import SDE
from stodyn.analysis import covariance as cv
from stodyn.analysis.integrator import BlackBox, linear_step
from stodyn.analysis.linear import step_map
from stodyn.methods import classical as c
from stodyn.methods import explicit, implicit, srk
from stodyn.methods.exact import VanLoan
from stodyn.methods.multistep import AB2, AB3, AB4, AM4
from stodyn.numerics import lyapunov, van_loan
from stodyn.problems.linear import linear

RK2F, RK3F, RK4F, GILLF, BUTCHERF = (t(noise="fresh") for t in (c.RK2, c.RK3, c.RK4, c.Gill, c.RK56Butcher))
AB2H, AB3H, AB4H = (t(placement="history", starter="adams") for t in (AB2, AB3, AB4))
OSCILLATOR = np.array([[0.0, 1.0], [-1.0, -0.4]])
FORCED = np.array([[0.0], [1.0]])


# --- one component --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "values"),
    [
        (c.Euler, (-4.837418e-3, -1.873075e-2, -7.032005e-2)),
        (RK2F, (3.758196e-5, 2.692469e-4, 1.679954e-3)),
        (RK3F, (6.671391e-5, 5.125803e-4, 3.777732e-3)),
        (RK4F, (1.564524e-5, 1.172957e-4, 8.189940e-4)),
        (GILLF, (6.439248e-5, 4.954964e-4, 3.662459e-3)),
        (BUTCHERF, (2.660150e-5, 2.101696e-4, 1.637718e-3)),
    ],
)
def test_error_functions_have_the_published_values(method, values):
    found = [cv.error_function(method, z) for z in (-0.05, -0.1, -0.2)]
    assert found == pytest.approx(values, rel=1e-6)


Z = (-0.002, -0.01, -0.05, -0.1, -0.2)


@pytest.mark.parametrize(
    ("method", "values"),
    [
        (AB4H, (1.01478383, 1.07605296, 1.44344558, 2.11359240, 5.46556311)),
        (AM4(gamma=1.0), (0.53153805, 0.53265267, 0.53734163, 0.54127351, 0.54451709)),
        (AM4(gamma=1.0, corrections=4), (0.53189197, 0.53446930, 0.54758675, 0.56454257, 0.60046481)),
        (AM4(noise="held"), (0.99967820, 0.99834421, 0.99058155, 0.97851808, 0.94858247)),
        (AM4(gamma=1.0, predictor="rk4"), (0.53247865, 0.53741762, 0.56270660, 0.59575440, 0.66698248)),
    ],
    ids=lambda x: getattr(x, "spelling", ""),
)
def test_steady_variance_of_multistep_methods(method, values):
    assert [cv.steady_ratio(method, z) for z in Z] == pytest.approx(values, abs=6e-9)


def test_factor_that_corrects_adams_bashforth():
    found = [float(cv.noise_needed(AB4H, z, 1.0, 1.0).samples[0, 0]) for z in Z]
    assert found == pytest.approx([0.98543155, 0.92932229, 0.69278677, 0.47312812, 0.18296376], abs=6e-9)


@pytest.mark.parametrize(
    ("method", "U", "V"),
    [
        (AB2H, [1, -1], [0, -2, -1, 1]),
        (AB3H, [1, -19 / 9, 55 / 24], [0, -2, -11 / 6, 19 / 9, -55 / 24]),
        (AB4H, [1, -817 / 144, 115 / 12, -25 / 4], [0, -2, -10 / 3, 1105 / 144, -115 / 12, 25 / 4]),
    ],
    ids=["AB2", "AB3", "AB4"],
)
def test_rational_functions_of_adams_bashforth(method, U, V):
    for z in (-0.01, -0.1, -0.25):
        exact = -2 * z * polynomial.polyval(z, U) / polynomial.polyval(z, V)
        assert cv.steady_ratio(method, z) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(
    ("method", "values"),
    [
        (AM4, (1.00264, 1.01147, 1.01887, 1.02497)),
        (AM4(corrections=2), (1.0061, 1.0311, 1.0644, 1.1395)),
        (AM4(corrections=4), (1.00606, 1.03075, 1.06267, 1.13029)),
        (AM4(predictor="rk4"), (1.0116, 1.0592, 1.1214, 1.2555)),
        (AM4(noise="held", corrections=4), (0.99841, 0.99230, 0.98514, 0.97238)),
        (AM4(mode="PEC"), (0.99838, 0.99196, 0.98870)),
        (AM4(mode="PEC", predictor="rk4"), (1.01854, 1.09537, 1.19756, 1.42289)),
    ],
    ids=lambda x: getattr(x, "spelling", ""),
)
def test_predictor_correctors_with_their_own_factor(method, values):
    found = [cv.steady_ratio(method, z) for z in (-0.01, -0.05, -0.1, -0.2)[: len(values)]]
    assert found == pytest.approx(values, abs=6e-5)


TABLE = {  # percent, at |z| = .05, .1, .2, .3, .4, .5
    "Kasdin4": (c.Kasdin4, (-0.00001, -0.00009, -0.00151, -0.00771, -0.0244, -0.0595)),
    "RK2 fresh": (RK2F, (0.0016, 0.0138, 0.122, 0.455, 1.190, 2.564)),
    "RK2 held": (c.RK2, (-0.0641, -0.262, -1.099, -2.579, -4.762, -7.692)),
    "RK3 fresh": (RK3F, (-0.0706, -0.287, -1.177, -2.699, -4.849, -7.587)),
    "RK3 held": (c.RK3, (-0.0203, -0.0788, -0.293, -0.603, -0.958, -1.299)),
    "RK4 fresh": (RK4F, (-0.0164, -0.0646, -0.247, -0.523, -0.854, -1.189)),
    "RK4 held": (c.RK4, (-0.0208, -0.0833, -0.334, -0.752, -1.341, -2.107)),
    "Gill fresh": (GILLF, (-0.0677, -0.273, -1.110, -2.519, -4.490, -6.982)),
    "Butcher fresh": (BUTCHERF, (-0.0280, -0.116, -0.497, -1.190, -2.236, -3.661)),
    "Euler": (c.Euler, (2.564, 5.263, 11.11, 17.65, 25.0, 33.3)),
    "AB2": (AB2H, (7.8, 16, 36, 61, 94, 140)),
    "AB3": (AB3H, (16.8, 38, 98, 207, 465, 1854)),
    "PECE fresh": (AM4, (1.15, 1.89, 2.50, 3.00, 5.24, 11.6)),
    "PECE held": (AM4(noise="held"), (-0.94, -2.15, -5.14, -8.37, -11.0, -12.2)),
}


@pytest.mark.parametrize("name", TABLE)
def test_steady_variances_are_those_of_the_practical_table(name):
    method, values = TABLE[name]
    for size, value in zip((0.05, 0.1, 0.2, 0.3, 0.4, 0.5), values, strict=True):
        digits = len(f"{value}".partition(".")[2])
        tolerance = 0.6 * 10.0**-digits if isinstance(value, float) else 0.6
        assert 100 * (cv.steady_ratio(method, -size) - 1) == pytest.approx(value, abs=tolerance)


def test_increment_outside_the_history():
    assert [100 * (cv.steady_ratio(AB4, z) - 1) for z in (-0.05, -0.1, -0.2)] == pytest.approx(
        (0.0513, 0.385, 5.0), rel=2e-3
    )


@pytest.mark.brief("method2-0.3-1e-10", "method5-1.054-0.001", "method7-0.15789473684210525-1e-10", "method8-2.0-1e-10")
@pytest.mark.parametrize(
    ("method", "limit", "tolerance"),
    [(AB2H, 1.0, 1e-10), (AB3H, 6 / 11, 1e-10), (AB4H, 0.3, 1e-10), (AB4, 0.3, 1e-10), (AM4, 1.285, 1e-3),
     (AM4(corrections=2), 1.054, 1e-3), (AM4(corrections=4), 1.431, 1e-3), (AM4(mode="PEC"), 3 / 19, 1e-10),
     (c.Euler, 2.0, 1e-10)],
)  # fmt: skip
def test_stability_limits_are_the_published_ones(method, limit, tolerance):
    assert cv.stability_limit(method) == pytest.approx(limit, abs=tolerance)


def test_implicit_methods_have_no_limit():
    assert cv.stability_limit(implicit.ThetaEuler) == np.inf


def jury(m, l):
    """E x² of x = M(ζ)/L(ζ) w with unit noise by Jury's determinants, Riggs' (61) and (62); m_0, l_0 belong to ζ^n."""
    n = len(l) - 1
    Ω = np.array([[(l[j - i] if j >= i else 0.0) + (l[i + j] if 0 < i <= n - j else 0.0) for j in range(n + 1)]
                  for i in range(n + 1)])  # fmt: skip
    Ω1 = Ω.copy()
    Ω1[:, 0] = [sum(m[k] * m[k + i] for k in range(n + 1 - i)) * (2 if i else 1) for i in range(n + 1)]
    return np.linalg.det(Ω1) / (l[0] * np.linalg.det(Ω))


@pytest.mark.parametrize("z", [-0.01, -0.1, -0.25])
def test_jurys_determinants_agree_for_adams_bashforth(z):
    b = np.array([55, -59, 37, -9]) / 24
    value = jury([0.0, *b], [1.0, -1.0 - b[0] * z, *(-b[1:] * z)])
    assert cv.steady_ratio(AB4H, z) == pytest.approx(-2 * z * value, rel=1e-9)


# --- systems --------------------------------------------------------------------------------------------------------


def test_reading_agrees_with_the_moments_of_the_step_map():
    problem = linear(OSCILLATOR, FORCED)
    for method in (RK4F, c.RK4, srk.SRA1, explicit.Heun, implicit.ImplicitMidpoint):
        step = linear_step(problem, method, 0.2)
        other = step_map(problem, method, 0.2, nodes=3)
        np.testing.assert_allclose(step.M, other.M, atol=1e-9)
        np.testing.assert_allclose(step.G @ step.G.T, other.second[:, -1, :, -1], atol=1e-9)
        for name in ("MM", "Mc", "cc", "second", "start", "read"):
            np.testing.assert_allclose(getattr(step, name), getattr(other, name), atol=1e-9, err_msg=name)
        assert step.mean_square_radius() == pytest.approx(other.mean_square_radius(), abs=1e-9)
        for mine, true in zip(step.stationary(), other.stationary(), strict=True):
            np.testing.assert_allclose(mine, true, atol=1e-8)
    with pytest.raises(ValueError, match=r"G: the moments of ImplicitMidpoint .* take integrator.linear_step"):
        other.G  # noqa: B018


def test_example_of_riggs_over_time():
    problem, times = linear(-2.0, 1.0, 0.01), [0.1, 0.5, 1.0, 2.0]
    exact = cv.exact(problem, times).covariance[:, 0, 0]
    assert exact == pytest.approx([8.2419988e-4, 2.16166179e-3, 2.45421090e-3, 2.49916134e-3], rel=1e-8)
    found = cv.delivered(problem, RK4F, 0.1, 20).covariance[[1, 5, 10, 20], 0, 0]
    assert found == pytest.approx([8.2215240e-4, 2.15630877e-3, 2.44814263e-3, 2.49298475e-3], rel=1e-8)


def test_mean_with_an_input_and_a_random_start():
    problem = linear(OSCILLATOR, FORCED, 0.5, Bu=FORCED, u=lambda t: np.array([1.5]) + 0.0 * t, mean=[1.0, -1.0],
                     covariance=[[0.2, 0.1], [0.1, 0.3]])  # fmt: skip
    Phi, Qd = van_loan.discretise(OSCILLATOR, FORCED, [[0.5]], 1.2)
    steady = np.linalg.solve(OSCILLATOR, -FORCED[:, 0] * 1.5)
    found = cv.exact(problem, 1.2)
    np.testing.assert_allclose(found.mean, steady + Phi @ ([1.0, -1.0] - steady), atol=1e-12)
    np.testing.assert_allclose(found.covariance, Phi @ [[0.2, 0.1], [0.1, 0.3]] @ Phi.T + Qd, atol=1e-12)
    discrete = cv.delivered(problem, c.RK4, 0.01, 120)
    np.testing.assert_allclose(discrete.mean[-1], found.mean, atol=1e-8)
    np.testing.assert_allclose(discrete.covariance[-1], found.covariance, atol=2e-5)


def test_coefficients_that_change_with_time():
    problem = linear(lambda t: -1.0 - t, 1.0, lambda t: 1.0 + jnp.sin(t) ** 2, mean=[2.0])
    # m = 2 exp(-t - t²/2) and P' = -2 (1 + t) P + 1 + sin² t, by quadrature
    end = 1.5
    s = np.linspace(0, end, 20001)
    weight = np.exp(-2 * ((end + end**2 / 2) - (s + s**2 / 2))) * (1 + np.sin(s) ** 2)
    P = scipy.integrate.simpson(weight, x=s)
    found = cv.exact(problem, end)
    assert float(found.mean[0]) == pytest.approx(2 * np.exp(-end - end**2 / 2), rel=1e-10)
    assert float(found.covariance[0, 0]) == pytest.approx(P, rel=1e-10)
    errors = [float(cv.delivered(problem, c.RK4, end / k, k).covariance[-1, 0, 0]) / P - 1 for k in (30, 60)]
    assert abs(errors[1]) < 1e-3 and errors[0] / errors[1] == pytest.approx(4, abs=0.2)


@pytest.mark.parametrize(
    ("method", "x", "v", "tolerance"),
    [
        (RK4F, 1e-5, -4.8e-4, 5e-6),
        (c.RK4, -3.3e-3, -3.8e-3, 5e-5),
        (RK2F, 5.6e-3, 5.2e-3, 5e-5),
        (c.Euler, 1.02, 1.06, 5e-3),
        (AB4H, 0.25, 0.75, 5e-3),
        (AM4, 0.004, 0.019, 5e-4),
    ],
)
def test_oscillator_driven_in_one_channel(method, x, v, tolerance):
    P = cv.steady(method, OSCILLATOR, FORCED, 0.2)
    assert np.diagonal(P) / 1.25 - 1 == pytest.approx([x, v], abs=tolerance)


def test_kasdin_on_the_oscillator():
    P = cv.steady(c.Kasdin4, OSCILLATOR, FORCED, 0.2)
    assert np.abs(np.diagonal(P) / 1.25 - 1).max() == pytest.approx(3e-5, abs=5e-6)


@pytest.mark.parametrize(
    ("method", "scale"), [(c.Euler, 0.242), (RK2F, 0.98212), (RK4F, 1.000496), (AB4H, 0.4065)], ids=lambda x: str(x)[:6]
)
def test_best_factor_where_there_is_no_exact_noise(method, scale):
    needed = cv.noise_needed(method, OSCILLATOR, FORCED, 0.3)
    assert needed.scale == pytest.approx(scale, rel=2e-3 if scale < 0.3 else 2e-5 if scale > 0.9 else 2e-4)
    assert needed.channels is None and "No exact samples" in str(needed)
    P = cv.steady(method, OSCILLATOR, FORCED, 0.3)
    np.testing.assert_allclose(needed.residual, needed.scale * P - 1.25 * np.eye(2), atol=1e-10)


def test_uncorrected_adams_bashforth_on_the_oscillator():
    P = cv.steady(AB4H, OSCILLATOR, FORCED, 0.3)
    assert np.diagonal(P) / 1.25 - 1 == pytest.approx([1.18, 1.74], abs=5e-3)
    residual = np.abs(cv.noise_needed(AB4H, OSCILLATOR, FORCED, 0.3).residual)
    assert residual.min() == pytest.approx(0.14, abs=5e-3) and residual.max() == pytest.approx(0.27, abs=5e-3)


def test_indefinite_noise_is_told():
    h = 0.1
    lowest = {
        (RK2F, "local"): -0.0035,
        (RK2F, "steady"): -7.3e-4,
        (c.Euler, "steady"): -0.128,
        (AB4H, "steady"): -0.0051,
    }
    for (method, match), value in lowest.items():
        needed = cv.noise_needed(method, OSCILLATOR, FORCED, h, match=match)
        assert needed.eigenvalues[0] * h == pytest.approx(value, rel=0.02) and not needed.exists
        assert "indefinite" in str(needed)
    for method, match in ((RK4F, "local"), (RK4F, "steady"), (c.Euler, "local"), (c.RK4, "local")):
        assert cv.noise_needed(method, OSCILLATOR, FORCED, h, match=match).exists


@pytest.mark.parametrize("match", ["steady", "local"])
@pytest.mark.parametrize("method", [RK4F, c.RK4], ids=["fresh", "held"])
def test_samples_that_are_needed_deliver_the_covariance(method, match):
    h, needed = 0.1, cv.noise_needed(method, OSCILLATOR, FORCED, 0.1, match=match)
    root = np.linalg.cholesky(needed.samples * h)
    step = cv.system_step(cv.unscaled(method), OSCILLATOR, root, h)
    if match == "local":
        np.testing.assert_allclose(
            step.G @ step.G.T, van_loan.discretise(OSCILLATOR, FORCED, [[1.0]], h)[1], atol=1e-13
        )
    else:
        P = lyapunov.discrete(step.M, step.G @ step.G.T)
        np.testing.assert_allclose(P, 1.25 * np.eye(2), atol=1e-10)


def test_small_step_series_of_the_samples_needed_by_rk4():
    h, A, L = 0.01, OSCILLATOR, FORCED @ FORCED.T
    series = L + h**2 * ((A @ A @ L + L @ (A @ A).T) / 60 + A @ L @ A.T / 30)
    needed = cv.noise_needed(RK4F, A, FORCED, h, match="local")
    np.testing.assert_allclose(needed.samples * h / 3.6, series, atol=1e-6)


def test_scalar_noise_that_makes_the_whole_transient_right():
    z = -0.3
    needed = cv.noise_needed(RK4F, z, 1.0, 1.0)
    R, f = (sum(float(a) * z**k for k, a in enumerate(p)) for p in (RK4F.R, RK4F.f))
    assert needed.samples[0, 0] == pytest.approx(3.6 * (1 - R**2) / (-2 * z * f), rel=1e-12)
    assert needed.channels is not None and needed.exists
    local = cv.noise_needed(RK4F, z, 1.0, 1.0, match="local")
    assert local.samples[0, 0] == pytest.approx(3.6 * np.expm1(2 * z) / (2 * z * f), rel=1e-12)


@pytest.mark.parametrize(
    ("method", "ratio"),
    [(RK2F, 1.002770), (RK3F, 0.997917), (RK4F, 1.000187), (GILLF, 0.998099), (BUTCHERF, 0.999673), (c.RK4, 1),
     (AB4H, 1)],
)  # fmt: skip
def test_spectrum_at_zero_frequency(method, ratio):
    found = cv.spectrum(method, -0.1, 1.0, 1.0, 0.0) / cv.exact_spectrum(-0.1, 1.0, 0.0)
    assert float(found.real[0, 0]) == pytest.approx(ratio, abs=6e-7)


def test_spectrum_integrates_to_the_covariance():
    h = 0.2
    f = np.arange(4096) / 4096 / h
    for method in (RK4F, AM4, AB4H):
        total = cv.spectrum(method, OSCILLATOR, FORCED, h, f).mean(axis=0) / h
        np.testing.assert_allclose(total.real, cv.steady(method, OSCILLATOR, FORCED, h), atol=1e-10)


# --- integrators of the user's own ----------------------------------------------------------------------------------


def rk4_step(f, x, t, h, noise):
    k1 = f(x, t, noise())
    k2 = f(x + h / 2 * k1, t + h / 2, noise())
    k3 = f(x + h / 2 * k2, t + h / 2, noise())
    k4 = f(x + h * k3, t + h, noise())
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def held_heun(f, x, t, h, noise):
    w = noise()
    k1 = f(x, t, w)
    return x + h / 2 * (k1 + f(x + h * k1, t + h, w))


def ab2(f, s, t, h, noise):
    x, before = np.split(s, 2)
    now = f(x, t, noise())
    return np.concatenate([x + h / 2 * (3 * now - before), now])


def test_probe_of_a_step_written_in_numpy():
    found = cv.probe(rk4_step, OSCILLATOR, FORCED, dt=0.2)
    assert found.gamma == pytest.approx(3.6, abs=1e-12) and found.kappa == pytest.approx(0, abs=1e-10)
    assert found.calculus == "ito"
    assert found.error == pytest.approx(
        100 * (np.diagonal(cv.steady(RK4F, OSCILLATOR, FORCED, 0.2)) / 1.25 - 1), abs=1e-9
    )
    shipped = cv.noise_needed(RK4F, OSCILLATOR, FORCED, 0.2)
    np.testing.assert_allclose(found.noise.samples, shipped.samples, atol=1e-8)
    assert found.noise.scale == pytest.approx(shipped.scale, rel=1e-10)
    assert found.stability_limit == pytest.approx(cv.stability_limit(c.RK4, OSCILLATOR), rel=1e-9)


def test_probe_of_held_noise_and_of_a_step_with_memory():
    held = cv.probe(held_heun)
    assert held.gamma == pytest.approx(1.0, abs=1e-12) and held.calculus == "stratonovich"
    multistep = cv.probe(ab2, memory=1)
    assert multistep.gamma == pytest.approx(1.0, abs=1e-12) and multistep.kappa == pytest.approx(0, abs=1e-10)
    assert multistep.stability_limit == pytest.approx(1.0, abs=1e-9)
    assert multistep.error[0] == pytest.approx(100 * (cv.steady_ratio(AB2H, -0.1) - 1), abs=1e-8)
    assert "Stable up to h = 1." in str(multistep) and "out of the history" in str(multistep)
    assert "stratonovich" in str(held) and "history" not in str(held)


def test_integrators_are_taken_by_name_and_as_plain_functions():
    assert cv.gamma("RK4") == cv.gamma(c.RK4) and cv.kappa("rk4") == cv.kappa(c.RK4)
    assert cv.gamma(rk4_step) == pytest.approx(3.6, abs=1e-12)
    problem = linear(-2.0, 1.0)
    np.testing.assert_array_equal(cv.delivered(problem, "RK4", 0.1, 3)[1], cv.delivered(problem, c.RK4, 0.1, 3)[1])
    for other, found in (("VanLoan", "takes the whole grid"), (4, "got 4")):
        with pytest.raises(TypeError, match=f"integrator: expected a method .* step.*{found}"):
            cv.gamma(other)


def test_bad_black_boxes():
    with pytest.raises(ValueError, match="not linear in its noise"):
        cv.probe(lambda f, x, t, h, noise: x + h * f(x, t, noise() ** 2))
    with pytest.raises(ValueError, match="two calls with the same samples differ"):
        rng = np.random.default_rng(0)
        cv.probe(lambda f, x, t, h, noise: x + h * f(x, t, rng.standard_normal(1)))
    with pytest.raises(ValueError, match=r"returned shape \(2,\)"):
        cv.probe(lambda f, x, t, h, noise: np.zeros(2))
    with pytest.raises(ValueError, match="draws 1 samples in one step and more in another"):
        cv.probe(lambda f, x, t, h, noise: x + h * f(x, t, noise() + (noise() if x[0] else 0.0)))
    with pytest.raises(ValueError, match=r"called f with .* \(\), \(1,\), \(1,\); expected f\(x, t, w\)"):
        cv.probe(lambda f, x, t, h, noise: x + h * f(t, x, noise()))
    with pytest.raises(ValueError, match="drew no noise"):
        cv.probe(lambda f, x, t, h, noise: x + h * f(x, t, 0.0))
    with pytest.raises(ValueError, match="samples leave no trace"):
        cv.probe(lambda f, x, t, h, noise: x + h * f(x, t, 0.0 * noise()))
    with pytest.raises(ValueError, match="returned nothing"):
        cv.probe(lambda f, x, t, h, noise: None)


def bdf2(f, s, t, h, noise):
    """x' = (4 x - x₋)/3 + ⅔ h f(x'), solved for a linear f."""
    (x, before), w, eye = np.split(s, 2), noise(), np.eye(len(s) // 2)
    quiet = f(0.0 * x, t + h, w)
    slope = np.stack([f(e, t + h, w) - quiet for e in eye], axis=1)
    return np.concatenate([np.linalg.solve(eye - 2 / 3 * h * slope, (4 * x - before) / 3 + 2 / 3 * h * quiet), x])


def leapfrog(f, s, t, h, noise, filtered=0.0):
    x, before = np.split(s, 2)
    after = before + 2 * h * f(x, t, noise())
    return np.concatenate([after, x + filtered * (after - 2 * x + before)])


def position_and_velocity(f, s, t, h, noise):
    x, v = s
    v = v + h * f(s, t, noise())[1]
    return np.array([x + h * v, v])


def test_parasitic_roots_that_die_out_leave_gamma_alone():
    """What a sample adds once all has settled: BDF2 has the root 1/3, leapfrog with Asselin's filter -0.8."""
    assert cv.gamma(BlackBox(bdf2, 1)) == pytest.approx(1.0, abs=1e-12)
    assert cv.gamma(BlackBox(lambda *a: leapfrog(*a, filtered=0.1), 1)) == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(ValueError, match="parasitic root of modulus 1: what a sample adds to x never settles"):
        cv.probe(leapfrog, memory=1)


@pytest.mark.parametrize(
    ("integrator", "exact"),
    [
        (BlackBox(bdf2, 1), 2 / 3),
        ("Milstein", 0.0),
        (c.RK4(noise=0.3, compensate=True), 0.0),
        (c.RK4(noise=0.3), float(c.RK4(noise=0.3).kappa)),
        (AM4(noise="held", compensate=True), 0.0),
        (AM4(noise="held"), float(AM4(noise="held").kappa)),
        ("RS1", 0.5),
        ("RS2", 0.5),
        ("BDF2Maruyama", 0.0),
        ("ImplicitMidpoint", 0.5),
    ],
    ids=lambda value: getattr(value, "spelling", getattr(value, "name", str(value))),
)
def test_kappa_is_the_growth_of_the_mean(integrator, exact):
    """Also where terms in h beside those in W² make the mean: Milstein's, a compensated drift, a solved equation."""
    assert cv.kappa(integrator) == pytest.approx(exact, abs=1e-8)


def test_probe_of_a_position_and_its_velocity():
    """Symplectic Euler on x'' = -x - v/2 + w against its step as matrices: G = (h, 1) √h."""
    A, h = np.array([[0.0, 1.0], [-1.0, -0.5]]), 0.1
    found = cv.probe(position_and_velocity, A, [[0.0], [1.0]], dt=h)
    M = np.array([[1 - h**2, h - 0.5 * h**2], [-h, 1 - 0.5 * h]])
    G = np.sqrt(h) * np.array([[h], [1.0]])
    P = scipy.linalg.solve_discrete_lyapunov(M, G @ G.T)
    assert found.error == pytest.approx(100 * (np.diagonal(P) / 1.0 - 1), abs=1e-9)
    assert found.gamma == pytest.approx(1.0, abs=1e-9) and found.calculus == "ito"
    assert not found.noise.exists and "takes no noise in some of the components" in str(found)
    with pytest.raises(ValueError, match=r"raised ValueError .* for x of 1 component. .* give the system"):
        cv.probe(position_and_velocity)
    with pytest.raises(TypeError, match="StoermerVerlet steps only Hamiltonian problems"):
        cv.kappa("StoermerVerlet")


def test_steps_that_are_none_of_the_equation_are_refused():
    with pytest.raises(ValueError, match=r"not a consistent step: .* added up to -2 and not to -1"):
        cv.probe(lambda f, x, t, h, noise: x + 2 * h * f(x, t, noise()))
    with pytest.raises(ValueError, match=r"takes x = 0 of x' = A x to \[0.01\]; expected 0"):
        cv.probe(lambda f, x, t, h, noise: x + h * f(x, t, noise()) + 0.01)


def test_a_step_in_float32_is_linear_to_its_digits():
    found = cv.probe(lambda f, x, t, h, noise: np.float32(x + h * f(x, t, noise())))
    assert found.gamma == pytest.approx(1.0, abs=1e-5) and found.calculus == "ito"
    assert found.error[0] == pytest.approx(100 * (2 / (2 - 0.1) - 1), abs=1e-3)


def test_a_method_that_is_stable_at_no_step_is_called_so():
    with pytest.raises(ValueError, match=r"unstable on this system with dt = 0.1 .* and with smaller ones too"):
        cv.steady(lambda f, x, t, h, noise: x - h * f(x, t, noise()), -1.0, 1.0, 0.1)


def test_black_box_of_a_shipped_step_is_the_shipped_step():
    box = BlackBox(rk4_step)
    for z in (-0.1, -0.5):
        assert 3.6 * cv.steady_ratio(box, z) == pytest.approx(cv.steady_ratio(RK4F, z), rel=1e-12)


# --- advice ---------------------------------------------------------------------------------------------------------


def test_advice_is_sorted_with_the_exact_discretisation_first():
    """The first component is that of one pole; no noise reaches the second, which is not off."""
    rows = cv.advise([[-2.0, 0.5], [0.0, -2.0]], [[1.0], [0.0]], 0.01, 0.2, step=rk4_step)
    assert rows[0].name == "VanLoan" and rows[0].worst == 0.0
    assert [row.worst for row in rows] == sorted(row.worst for row in rows)
    by_name = {row.name: row for row in rows}
    assert by_name["RK4 fresh, 3.6 Q/h"].error[0] == pytest.approx(-0.854, abs=6e-4)
    assert by_name["exact ODE solver, held noise Q/h"].error[0] == pytest.approx(-1.312, abs=6e-4)
    assert by_name["your step, 3.6 Q/h"].error == pytest.approx(by_name["RK4 fresh, 3.6 Q/h"].error)
    assert {"AM4 PEC fresh, Q/h", "AM4 P(EC)^2E fresh, 1.882 Q/h"} <= set(by_name)
    assert all(row.worst >= np.abs(row.halved).max() for row in rows if row.halved is not None)
    euler = next(row for row in rows if row.name.startswith("Euler"))
    assert euler.error == pytest.approx([100 * (1 / (1 - 0.2) - 1), 0.0], abs=1e-9)
    unstable = by_name["AB4, noise in the history, Q/h"]
    assert unstable.error is None and "below 0.15" in unstable.remark
    assert rows[0].method is VanLoan and repr(by_name["RK4 fresh, 3.6 Q/h"].method).startswith("RK4(noise='fresh'")


def test_components_that_no_noise_reaches_need_none():
    A, B = [[-1.0, 0.5], [0.0, -2.0]], [[1.0], [0.0]]
    assert cv.noise_needed(c.Euler, A, B, 0.1).scale == pytest.approx(0.95, abs=1e-12)


def test_one_channel_into_two_components_keeps_its_size_in_a_step():
    held = cv.noise_needed(c.RK4, OSCILLATOR, FORCED, 0.01, match="local")  # P_D of one sample has the rank 1
    assert held.scale == pytest.approx(1.0, abs=1e-3) and held.exists and held.channels is None


def test_corrections_that_no_longer_converge_are_unstable():
    converged = AM4(corrections="converged", noise="held")
    rounds = 8.0 / 3.0 * 1e-12 ** (1.0 / 50.0)  # (3/8 h |A|)^50 = 1e-12: beyond it 50 corrections do not suffice
    assert cv.stability_limit(converged) == pytest.approx(rounds, rel=0.05)


# --- bad input ------------------------------------------------------------------------------------------------------


def test_unstable_steps_name_the_limit():
    with pytest.raises(ValueError, match=r"dt: AB4 is unstable .* stable below dt = 0\.15"):
        cv.steady(AB4H, -2.0, 1.0, 0.2)
    with pytest.raises(ValueError, match="A: not stable itself"):
        cv.stability_limit(c.RK4, 0.5)
    with pytest.raises(ValueError, match=r"stable below dt = 0\.3"):
        cv.steady_ratio(AB4H, -0.5)
    with pytest.raises(ValueError, match="z: expected h times a pole A < 0"):
        cv.steady_ratio(c.RK4, 0.5)


@pytest.mark.parametrize(
    ("Q", "message"),
    [([[1, 1], [1, 1]], "Q: singular"), ([[1, 2], [2, 1]], "Q: indefinite"), ([[1.0]], "Q: expected a symmetric"),
     ([[1, 0.5], [0, 1]], "Q: expected a symmetric matrix")],
)  # fmt: skip
def test_intensities_that_are_no_covariance_are_refused(Q, message):
    for ask in (lambda: linear(-np.eye(2), np.eye(2), Q), lambda: cv.steady(c.RK4, -np.eye(2), np.eye(2), 0.1, Q)):
        with pytest.raises(ValueError, match=message):
            ask()


def test_noise_that_depends_on_the_state_is_refused():
    problem = SDE(lambda t, x: -x, lambda t, x: x, 1.0)
    with pytest.raises(ValueError, match="not linear in state and noise together"):
        linear_step(problem, c.Euler, 0.1)


def test_other_bad_arguments():
    with pytest.raises(ValueError, match="match: expected"):
        cv.noise_needed(c.RK4, -1.0, 1.0, 0.1, match="global")
    with pytest.raises(ValueError, match="take match='steady'"):
        cv.noise_needed(AB4H, -1.0, 1.0, 0.1, match="local")
    with pytest.raises(ValueError, match="asked of a multistep method"):
        cv.local_factor(AB4, -0.1)
    with pytest.raises(ValueError, match="dt: expected a step > 0"):
        cv.steady(c.RK4, -1.0, 1.0, 0.0)
    for given in (lambda: cv.steady(c.RK4, OSCILLATOR, [0, 1], 0.1), lambda: linear(OSCILLATOR, [0, 1])):
        with pytest.raises(ValueError, match=r"B: expected .* got shape \(2,\)[^$]*write"):
            given()
    with pytest.raises(ValueError, match="u: expected the input that goes with Bu"):
        linear(OSCILLATOR, FORCED, Bu=FORCED)
    with pytest.raises(ValueError, match="give both"):
        cv.exact(SDE(lambda t, x: -x, lambda t, x: 1.0 + 0.0 * t, lambda rng, size: rng.random(size)), 1.0)


def test_steady_state_of_the_process_in_any_units():
    """x'' + 2 d x' + w² x = noise of intensity q: E x² = q/(4 d w²), E x'² = q/(4 d)."""
    for w in (1e-9, 1.0, 1e9):
        P = cv.exact_steady([[0.0, 1.0], [-(w**2), -0.2 * w]], [[0.0], [1.0]], [[3.0]])
        np.testing.assert_allclose(P.diagonal(), [3.0 / (0.4 * w**3), 3.0 / (0.4 * w)], rtol=1e-12)


def test_errors_and_factors_do_not_depend_on_units():
    """An oscillator and one in units of 1e-9 beside it: both variances are off by as many percent, and both count in
    the best factor."""
    A, B = scipy.linalg.block_diag(OSCILLATOR, OSCILLATOR), scipy.linalg.block_diag(FORCED, FORCED)
    unit = np.array([1.0, 1.0, 1e-9, 1e-9])
    A, B = A * unit[:, None] / unit, B * unit[:, None]
    method = implicit.ThetaEuler(theta=1.0)
    one, both = cv.noise_needed(method, OSCILLATOR, FORCED, 0.3), cv.noise_needed(method, A, B, 0.3)
    assert both.scale == pytest.approx(one.scale, rel=1e-9)
    target, own = lyapunov.continuous(A, B @ B.T), cv.steady(method, A, B, 0.3)
    off = cv._percent(own, target)
    np.testing.assert_allclose(off[2:], off[:2], rtol=1e-9)
    assert abs(off[0]) > 1.0
