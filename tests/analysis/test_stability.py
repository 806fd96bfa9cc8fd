"""Mean-square stability: reference values, the paper's closed form and its erratum, regions, verdicts."""

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.analysis import stability
from stodyn.analysis.stability import a_stability, closed_form, largest_noise, mean_square, region
from stodyn.analysis.stability_function import stability_function
from stodyn.methods import stiff
from stodyn.methods.contract import EXPLICIT, Method
from stodyn.methods.explicit import EulerMaruyama
from stodyn.problems.sde import SDE
from stodyn.studies.sdae_linear import METHODS

POINTS = [(-1, 0.5), (-1, 1), (-1, -1), (-2, 1.5), (-5, 2), (-5, -2), (-20, 4), (-0.1, 0.3), (0.5, 0.5)]
VALUES = {
    "ImplicitEuler": ".3125 .5 .5 .361111111111 .138888888889 .138888888889 .0385487528345 .900826446281 5",
    "Trapezoidal": ".222222222222 .555555555556 .555555555556 .5625 .510204081633 .510204081633 .801652892562 "
    ".90022675737 3.22222222222",
    "RK1W1": ".222222222222 .58024691358 .777777777778 .580078125 .513536026656 .780091628488 .821323680076 "
    ".90254060808 3.44444444444",
    "RK1W2": ".218971576581 .587750038693 .587750038693 .519625228972 .175240463909 .175240463909 .0324535000373 "
    ".902254674794 3.29697217056",
    "RK1W4": ".20916231599 2.95855994374 2.95855994374 68.6724174324 2.9246912889 2.9246912889 .115502735231 "
    ".907321380789 4.92844486154",
    "RK1W5": ".312925170068 .861111111111 .386666666667 1.11570247934 .154195011338 .0401821555068 .0117614653079 "
    ".902375353434 9.66666666667",
}
VALUES["RK1W3"] = VALUES["RK1W2"]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_shipped_step_has_the_reference_values(method):
    """To ten digits; for three stages the closed form of the paper, its erratum mended, agrees."""
    h, k = np.array(POINTS).T
    found = mean_square(method, h, k)
    np.testing.assert_allclose(found, [float(word) for word in VALUES[method.name].split()], rtol=1e-10)
    if len(method.table.A) == 3:
        np.testing.assert_allclose(closed_form(method.table, h, k), found, rtol=1e-12)


def test_mean_square_growth_for_complex_arguments_is_the_closed_form():
    """|R|² of implicit Euler is (1 + |k|²)/|1 - h|²; of the others the closed form, read with conjugates."""
    rng = np.random.default_rng(3)
    h = -rng.uniform(0.1, 4.0, 20) + 1j * rng.standard_normal(20)
    k = rng.standard_normal(20) + 1j * rng.standard_normal(20)
    euler = (1.0 + np.abs(k) ** 2) / np.abs(1.0 - h) ** 2
    np.testing.assert_allclose(mean_square(stiff.ImplicitEuler, h, k), euler, rtol=1e-13)
    for method in (stiff.RK1W3, stiff.RK1W5):
        np.testing.assert_allclose(mean_square(method, h, k), closed_form(method.table, h, k), rtol=1e-11)
    np.testing.assert_allclose(
        mean_square("RK1W3", h.real + 0j, k.real), mean_square("RK1W3", h.real, k.real), rtol=1e-12
    )


@pytest.mark.parametrize("h", [-0.7, -0.7 + 0.4j])
def test_the_closed_form_holds_for_any_table(h):
    """Of RK1W5 with other weights of the noise: all that are shipped have β¹₂₁ β²₃₂ + β²₂₁ β¹₃₂ = 0, and no Σ₃."""
    B1 = [["0", "0", "0"], ["1/2", "0", "0"], ["1/3", "1", "0"]]
    B2 = [["0", "0", "0"], ["1/4", "0", "0"], ["-1/5", "1/2", "0"]]
    B1, B2 = ([[Fraction(x) for x in row] for row in B] for B in (B1, B2))
    table = dataclasses.replace(stiff.RK1W5.table, B1=B1, B2=B2, β1=(), β2=(), claims=())
    method = dataclasses.replace(stiff.RK1W5, table=table)
    for k in (0.6, -1.1):
        k = k + 0.0 * h
        np.testing.assert_allclose(closed_form(table, h, k), mean_square(method, h, k), rtol=1e-11)


def test_the_erratum_of_7_2():
    """As printed RK1W2 would have R̂(-1, 1) = .51113; RK1W3 has B2 = 0 and does not notice."""
    assert closed_form(stiff.RK1W2.table, -1.0, 1.0, printed=True) == pytest.approx(0.51113, abs=5e-6)
    for table in (stiff.RK1W3.table,):
        assert closed_form(table, -1.0, 1.0, printed=True) == closed_form(table, -1.0, 1.0)
    with pytest.raises(ValueError, match="3 stages, but Trapezoidal has 2"):
        closed_form(stiff.Trapezoidal.table, -1.0, 1.0)


def test_a_caller_in_single_precision_gets_all_digits():
    with jax.enable_x64(False):
        found = mean_square(stiff.ImplicitEuler(limit=19), -0.3, 0.7)  # nobody has asked for this one before
    assert found == pytest.approx(1.49 / 1.69, rel=1e-14)


def test_rk1w2_and_rk1w3_are_the_same_map_on_linear_problems():
    rng = np.random.default_rng(1)
    h, k = -10.0 * rng.random(50), 3.0 * rng.standard_normal(50)
    np.testing.assert_allclose(mean_square("RK1W2", h, k), mean_square("RK1W3", h, k), rtol=1e-12)


STEPS = (-0.1, -0.5, -1, -2, -5, -10, -20)
LARGEST = {
    ("ImplicitEuler", 1): (0.21, 1.25, 3, 8, 35, 120, 440),
    ("Trapezoidal", 1): (0.2, 1, 2, 4, 10, 20, 40),
    ("RK1W1", 1): (0.18752244, 0.87016934, 1.7404187, 3.6286018, 9.8373523, 19.92028, 37.678107),
    ("RK1W1", -1): (0.18137248, 0.7211642, 1.2614576, 2.2465268, 5.1788862, 10.325609, 21.253413),
    ("RK1W2", 1): (0.18702475, 0.83412647, 1.6432785, 3.6481509, 15.629986, 69.945439, ">400"),
    ("RK1W4", 1): (0.15414799, 0.47514473, 0.72899943, 1.1793468, 3.0496176, 9.0168133, 33.179737),
    ("RK1W5", 1): (0.17250975, 0.60701637, 1.0675377, 2.180981, 7.9961711, 27.054767, 101.99288),
    ("RK1W5", -1): (0.1941753, 1.04828, 2.449221, 6.5572994, 30.142984, 108.4662, ">400"),
}


@pytest.mark.parametrize(("name", "sign"), LARGEST)
def test_the_largest_stable_noise_is_the_tabulated_one(name, sign):
    for h, expected in zip(STEPS, LARGEST[name, sign], strict=True):
        found = largest_noise(name, float(h), sign)
        if expected == ">400":
            assert found > 400.0
        else:
            assert found == pytest.approx(expected, rel=1e-6)


def test_a_stability_is_decided_as_the_theorems_say():
    """Implicit Euler and the trapezoidal rule are A-stable, for complex arguments too; no method of order 1 is."""
    for name in ("ImplicitEuler", "Trapezoidal"):
        assert a_stability(name).a_stable and a_stability(name, complex_arguments=True).a_stable
    worst = {name: a_stability(name) for name in ("RK1W1", "RK1W2", "RK1W4", "RK1W5")}
    assert not any(verdict.a_stable for verdict in worst.values())
    assert worst["RK1W2"].worst == pytest.approx(1.27, abs=0.01) and worst["RK1W2"].h.real == pytest.approx(
        -1.11, abs=0.05
    )
    on_boundary = mean_square("RK1W2", np.array([-2.573, -2.572]), np.sqrt(2 * np.array([2.573, 2.572])))
    assert on_boundary[0] < 1.0 < on_boundary[1]  # W2 is unstable only for -2.572735 < h
    boundary = -np.logspace(-2, 3, 200)
    assert mean_square("RK1W5", boundary, -np.sqrt(-2 * boundary)).max() == pytest.approx(1.01, abs=0.005)


def test_regions_and_stratonovich_methods():
    level = region("ImplicitEuler", [-2.0, -1.0, 0.5], [0.0, 1.0])
    np.testing.assert_allclose(level, [[1 / 9, 1 / 4, 4.0], [2 / 9, 1 / 2, 8.0]], rtol=1e-13)
    # One channel has no areas, however many normals are drawn for them.
    assert mean_square("MilsteinLevy", -0.5, 0.6) == pytest.approx(0.5**2 + 0.6**2 + 0.6**4 / 2, rel=1e-12)
    # Heun's scheme solves the Ito equation after the conversion λ -> λ - μ²/2.
    h, k, ξ = -0.5, 0.6, np.polynomial.hermite_e.hermegauss(12)
    λ = h - 0.5 * k**2
    z = λ + k * ξ[0]
    exact = ξ[1] @ (1 + z + z**2 / 2) ** 2 / math.sqrt(2 * math.pi)
    assert mean_square("Heun", h, k) == pytest.approx(exact, rel=1e-12)


def test_methods_without_a_stability_function_are_refused():
    with pytest.raises(ValueError, match=r"BDF2Maruyama needs a history.*mean_square_radius"):
        mean_square("BDF2Maruyama", -1.0, 0.0)
    with pytest.raises(ValueError, match="SRA1 is made for additive noise"):
        mean_square("SRA1", -1.0, 0.5)
    with pytest.raises(TypeError, match="method: expected a method that makes steps"):
        mean_square("VanLoan", -1.0, 0.5)
    with pytest.raises(ValueError, match="sign: expected 1 or -1"):
        largest_noise("ImplicitEuler", -1.0, sign=0)
    with pytest.raises(ValueError, match="h: expected finite numbers, got nan"):
        largest_noise("ImplicitEuler", math.nan)
    with pytest.raises(ValueError, match=r"h: expected a real number, got \[-1.0, -2.0\]"):
        largest_noise("ImplicitEuler", [-1.0, -2.0])
    for k_squared in ([1.0, -1.0], [1j]):
        with pytest.raises(ValueError, match="k_squared: expected numbers >= 0, got"):
            region("ImplicitEuler", [-1.0], k_squared)
    with pytest.raises(ValueError, match="sign: expected 1 or -1, got 3"):
        region("ImplicitEuler", [-1.0], [1.0], sign=3)
    for wrong in (math.nan, math.inf, "1"):
        with pytest.raises(ValueError, match="k: expected finite numbers, got"):
            mean_square("ImplicitEuler", -1.0, wrong)
    with pytest.raises(TypeError, match="complex_arguments: expected True or False, got 'real'"):
        a_stability("RK1A4", "real")
    assert stability.largest_noise("EulerMaruyama", -3.0) == 0.0


@dataclasses.dataclass(frozen=True)
class _Growing(Method):
    """A step with R̂ = e^(2h + k²) (1 + 2e-12)², which is below 1 wherever the equation is far from its boundary."""

    accepts, calculus, name, needs, claims, citation = SDE, "ito", "Growing", EulerMaruyama.needs, (), ""

    def step(self, problem, t, x, noise, params):
        rate, size = problem.f(t, x, params) / x, problem.g(t, x, params)[:, 0] / x
        return x * jnp.exp(noise.h * (rate + 0.5 * size**2)) * (1.0 + 2e-12), EXPLICIT


def test_growth_is_told_from_rounding():
    verdict = a_stability(_Growing())
    assert verdict.a_stable is False and 1e-12 < verdict.worst - 1.0 < 3e-12


@pytest.mark.parametrize("name", ["RK1W2", "RK1A4"])
def test_the_rounding_of_growth(name):
    """That of the table's formula and that of the step: above the errors, which are 1e-14 and less."""
    R, rng = stability_function(getattr(stiff, name).table), np.random.default_rng(0)
    h = -(10.0 ** rng.uniform(-3.0, 3.0, 8))
    k = np.sqrt(-2.0 * h * rng.uniform(0.0, 1.0, 8))
    exact = [R.exact_mean_square(Fraction(a), Fraction(b)) for a, b in zip(h, k, strict=True)]
    own = stability._rounding(stability._one_step(name), h, k)
    for found, rounding in ((R.mean_square(h, k), R.rounding(h, k)), (mean_square(name, h, k), own)):
        errors = [abs(float(Fraction(float(a)) - b)) for a, b in zip(found, exact, strict=True)]
        assert np.all(errors <= rounding) and rounding.max() < 1e-13
