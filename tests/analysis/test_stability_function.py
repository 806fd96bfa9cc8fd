"""A-stability in mean square by exact arithmetic: stability functions, the origin, poles, boundaries and verdicts.

Reference values were computed independently, with other programs.
"""

import random
from fractions import Fraction as Q

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.analysis import stability
from stodyn.analysis.linear import step_map
from stodyn.analysis.stability import a_stability, boundary_polynomial, largest_noise, mean_square, origin
from stodyn.analysis.stability_function import stability_function
from stodyn.engine.spec import matched
from stodyn.methods import stiff
from stodyn.methods.stiff_table import StiffTable
from stodyn.noise.increment import Increment
from stodyn.numerics.polynomial import variables
from stodyn.numerics.printing.points import at_points
from stodyn.numerics.surd import sqrt
from stodyn.problems.sde import SDE

x, Y = variables(2)
ZERO = (0, 0, 0)
A_STABLE = ("ImplicitEuler", "Trapezoidal", "RK1A3", "RK1A4", "RK1A4L", "RK1A3M", "RK1A4M", "RK1ATM")
PAPER = ("RK1W1", "RK1W2", "RK1W3", "RK1W4", "RK1W5")


def family(a1, a2, a3, z=1, **more):
    """Three stages, diffusion explicit, c₁ = c₂: the first kind of all the solutions of the order conditions."""
    return StiffTable(
        name="family", A=((a1, 0, 0), (a1 - a2, a2, 0), (1 - a3, 0, a3)), B1=(ZERO, ZERO, (1, 0, 0)),
        B2=(ZERO, ZERO, (-1 / Q(z), 1 / Q(z), 0)), B3=(ZERO, (z, 0, 0), ZERO), claims=(), source="here",
    )  # fmt: skip


# --- R and R̂ --------------------------------------------------------------------------------------------------------

POINTS = [(-1, 0.5), (-1, 1), (-2, 1.5), (-5, 2), (-20, 4), (-0.1, 0.3), (0.5, 0.5), (-1 + 0.7j, 0.4 - 0.6j)]
VALUES = {
    "RK1A3": ".258142297492 .408142297492 .207954450429 .0335437343024 .00137185983957 .898542036626 4.56527929313 "
    ".272282719225",
    "RK1A4": ".162898709105 .412062017622 .330279050396 .251117598922 .510350690246 .895955864094 3.56237526697 "
    ".269087119152",
    "RK1A4L": ".168087510204 .398942040816 .273627558019 .0896550460859 .0267568447132 .895802502307 3.52250840922 "
    ".252872095941",
    "RK1A4M": ".156757232746 .313798395878 .0824231400182 .134907941141 .4912601182 .895547410899 3.6281412834 "
    ".244534380003",
}
VALUES["RK1A3M"] = VALUES["RK1A3"]


@pytest.mark.parametrize("name", VALUES)
def test_the_shipped_step_and_the_exact_function_have_the_reference_values(name):
    h, k = np.array(POINTS).T
    expected = [float(word) for word in VALUES[name].split()]
    np.testing.assert_allclose(mean_square(name, h, k), expected, rtol=5e-12)
    np.testing.assert_allclose(stability_function(getattr(stiff, name).table).mean_square(h, k), expected, rtol=5e-12)


def test_stability_functions_have_their_exact_rational_values():
    exact = {
        "RK1A4": (Q(6033, 14641), Q(793, 2401), Q(89, 121), Q(-37, 98)),
        "RK1A4L": (Q(61088, 153125), Q(39097, 142884), Q(128, 175), Q(-107, 378)),
        "RK1A4M": (Q(555913, 1771561), Q(9697, 117649), Q(89, 121), Q(-62, 343)),
    }

    def R(name, h, k, ξ):
        f = stability_function(getattr(stiff, name).table)
        hermite = {0: 1, 1: ξ, 2: ξ * ξ - 1}
        return sum(C(h, k, 1) * hermite[j] for j, C in f.parts.items()) / f.denominator(h, k, 1)

    for name, (first, second, at_one, at_two) in exact.items():
        f = stability_function(getattr(stiff, name).table)
        assert (f.exact_mean_square(Q(-1), Q(1)), f.exact_mean_square(Q(-2), Q(3, 2))) == (first, second)
        assert R(name, Q(-1), Q(1), Q(1)) == at_one and R(name, Q(-2), Q(3, 2), Q(-1, 2)) == at_two
    assert R("RK1A3", Q(-1), Q(1), Q(1)) == (2 * sqrt(10) - 2) / 5


@pytest.mark.parametrize("name", ["RK1W1", "RK1W2", "RK1W4", "RK1W5", "RK1WRM", "RK1A4L", "Trapezoidal"])
def test_exact_function_of_any_table(name):
    """Against the shipped step at complex points, denominators with k and terms that are not even in k included."""
    rng = np.random.default_rng(5)
    h = -rng.uniform(0.1, 4.0, 20) + 1j * rng.standard_normal(20)
    k = rng.standard_normal(20) + 1j * rng.standard_normal(20)
    found = stability_function(getattr(stiff, name).table).mean_square(h, k)
    np.testing.assert_allclose(found, mean_square(name, h, k), rtol=1e-10)


def test_the_largest_stable_noise_of_a_stable_tables_is_the_published_one():
    steps = (-0.1, -0.5, -1.0, -5.0, -20.0)
    largest = {
        "RK1A3": (0.20248615, 1.1842492, 3.0448673, 69.78647, None),
        "RK1A4": (0.20002784, 1.0024872, 2.0151988, 10.838511, 62.332624),
        "RK1A4L": (0.20044368, 1.0175076, 2.0938584, 15.816956, 285.74717),
    }
    for name, expected in largest.items():
        for h, value in zip(steps, expected, strict=True):
            found = largest_noise(name, h)
            assert found > 400.0 if value is None else found == pytest.approx(value, rel=1e-7)


def test_on_the_boundary():
    """1 - R̂ at k² = -2h, without cancellation; that of RK1A4 tends to 32/81."""
    size = np.array([0.1, 1.0, 10.0, 100.0, 1000.0])
    expected = {
        "RK1A3": (0.00233983, 0.335858, 0.98551, 0.999959, 1.000),
        "RK1A4": (2.76453e-5, 0.0109282, 0.214854, 0.369812, 0.392439),
        "RK1A4L": (4.39627e-4, 0.0638759, 0.831048, 0.998171, 0.999984),
    }
    for name, values in expected.items():
        f = stability_function(getattr(stiff, name).table)
        np.testing.assert_allclose(-f.excess(size), values, rtol=6e-6)
        np.testing.assert_allclose(f.excess(size), mean_square(name, -size, np.sqrt(2 * size)) - 1, atol=1e-14)
        tiny = stability_function(getattr(stiff, name).table).excess(1e-9)
        assert -1e-18 < tiny < 0.0
    assert 1 - stability_function(stiff.RK1A4.table).at_infinity() == Q(32, 81)
    near = {"RK1W1": 1.0993, "RK1W2": 1.1894, "RK1W4": 35.9, "RK1W5": 33.2, "RK1A3": 0.5903407758,
            "RK1A4": 0.9123060549, "RK1A4L": 0.8538589314, "RK1A4M": 0.5033782462}  # fmt: skip
    for name, value in near.items():
        digits = 1e-10 if name.startswith("RK1A") else 3e-3
        assert mean_square(name, -1.11, np.sqrt(0.95 * 2.22)) == pytest.approx(value, rel=digits)
    assert mean_square("RK1W1", -1.11, -np.sqrt(0.95 * 2.22)) == pytest.approx(1.6807, rel=1e-4)
    assert mean_square("RK1W5", -1.11, -np.sqrt(0.95 * 2.22)) == pytest.approx(0.632, rel=1e-3)


# --- the origin, poles, F ---------------------------------------------------------------------------------------------


def test_growth_at_the_origin_is_exact_for_every_table():
    """κ of all tables, exactly: every method of the paper is unstable at arbitrarily small steps."""
    assert {name: origin(name) for name in PAPER} == {
        "RK1W1": 2, "RK1W2": 4 * sqrt(2) - 4, "RK1W3": 4 * sqrt(2) - 4, "RK1W4": 4 + 2 * sqrt(2), "RK1W5": 2,
    }  # fmt: skip
    found = {name: origin(name) for name in ("RK1A3", "RK1A4", "RK1A4L", "RK1A4M", "ImplicitEuler", "Trapezoidal")}
    expected = {"RK1A3": 0, "RK1A4": 0, "RK1A4L": Q(-1, 28), "RK1A4M": 0, "ImplicitEuler": -1, "Trapezoidal": 0}
    assert found == expected
    for name in (*PAPER[:2], "RK1A4L"):
        measured = (mean_square(name, -1e-3, np.sqrt(2e-3)) - 1) / 1e-6
        assert measured == pytest.approx(float(origin(name)), abs=0.05)
    with pytest.raises(TypeError, match="expected a StiffTable or a method that has one"):
        origin("StiffMilstein")


def test_poles_are_told_to_be_inside_or_outside():
    """Those of RK1W4 are where the equation is stable; of RK1W5 one touches the boundary, and the other is outside."""
    inside = stability_function(stiff.RK1W4.table).poles
    assert len(inside) == 2 and all("inside" in words for words in inside)
    assert stability_function(stiff.RK1W5.table).poles == ("h = -2, k = 2, on the boundary of the equation's region",)
    h, k = -2.0, -2.0 * 2.0  # the other pole, k = -2 (1 - h/2), at its nearest: k² is four times the equation's limit
    assert 1.0 - h / 2 + k / 2 == 0.0 and k * k == 4 * -2 * h
    assert stability_function(family(Q(1, 2), Q(-1, 4), Q(1, 2))).poles == (
        "h = -4, k = 0, inside the equation's region",
    )
    for name in A_STABLE:
        assert stability_function(getattr(stiff, name).table).poles == ()


def test_boundary_polynomials_are_the_published_ones():
    """F of the A-stable tables as published here, coefficient by coefficient."""
    size = x * x + Y  # |h|²
    assert boundary_polynomial("RK1A4") == size * (x * Q(1, 32) + size * Q(1, 128))
    assert boundary_polynomial("RK1A4L") == (
        x**6 * Q(1, 4096) + x**5 * Q(3, 512) + x**4 * Y * Q(3, 4096) + x**4 * Q(7, 128) + x**3 * Y * Q(3, 256)
        + x**3 * Q(923, 6272) + x * x * Y * Y * Q(3, 4096) + x * x * Y * Q(1, 16) + x * x * Q(1, 28)
        + x * Y * Y * Q(3, 512) + x * Y * Q(139, 6272) + Y**3 * Q(1, 4096) + Y * Y * Q(1, 128)
    )  # fmt: skip
    real = [c * 8192 for c in boundary_polynomial("RK1A4M").along(0)]
    assert real == [0, 0, 0, 3 * 6912, 3 * 512, 3 * 28, 9]
    assert len(boundary_polynomial("RK1A4M").terms) == 12
    assert boundary_polynomial("Trapezoidal") == 0
    u = 1 + x + size * Q(1, 4)  # |1 - h/2|²
    assert boundary_polynomial("RK1ATM") == 2 * x * ((u - 1) * x + u * size * Q(1, 4))
    g = sqrt(10) / 2 - 1
    bound = g * g * g * g * size * size + 4 * g * g * g * x * size + (4 * g - 2 * g * g - 1) * Y
    U = 1 + 2 * g * x + g * g * size
    rest = boundary_polynomial("RK1A3") - bound * U  # what replacing 1/|1 - gh|² by 1 in S2 gives away
    assert rest == 2 * x * x * (U - 1) and 2 * g * g + 4 * g == 3


@pytest.mark.parametrize("name", A_STABLE)
def test_a_stable_by_proof(name):
    """No coefficient of F is negative: that is the proof, for complex arguments."""
    assert all(c > 0 for c in boundary_polynomial(name).terms.values())
    for complex_arguments in (False, True):
        verdict = a_stability(name, complex_arguments)
        assert verdict.a_stable is True and verdict.worst <= 1.0 and str(verdict).startswith("A-")
        assert verdict.l_stable == (name not in ("Trapezoidal", "RK1A4", "RK1A4M", "RK1ATM"))
        assert a_stability(getattr(stiff, name).table, complex_arguments) == verdict


@pytest.mark.parametrize("name", PAPER)
def test_not_a_stable_and_why(name):
    for complex_arguments in (False, True):
        verdict = a_stability(name, complex_arguments)
        asked = {condition.name: condition for condition in verdict.conditions}
        assert verdict.a_stable is False and verdict.l_stable is False and verdict.worst > 1.1
        assert not asked["origin"].holds and "arbitrarily small steps" in str(verdict)
        assert asked["poles"].holds == (name not in ("RK1W4", "RK1W5"))
    assert a_stability("RK1W2").worst == pytest.approx(1.2698, abs=1e-4)


# --- theorems ---------------------------------------------------------------------------------------------------------


def test_three_stages_with_explicit_diffusion():
    """A-stable for real arguments if and only if (1 + a₁)(1 + a₃) >= 5/2, for complex ones if (1 - a₁)(1 - a₃) <= 1/2
    as well."""
    draw = random.Random(7)
    seen = set()
    for _ in range(60):
        a1, a3 = (Q(draw.randint(1, 2200), 1000) for _ in range(2))
        table = family(a1, Q(draw.randint(50, 2000), 1000), a3, z=Q(draw.randint(1, 20), 7))
        real = (1 + a1) * (1 + a3) >= Q(5, 2)
        both = real and (1 - a1) * (1 - a3) <= Q(1, 2)
        assert (a_stability(table).a_stable, a_stability(table, True).a_stable) == (real, both), table
        seen.add((real, both))
    assert seen == {(False, False), (True, False), (True, True)}


@pytest.mark.parametrize("a1", [0, Q(1, 4), Q(2, 3), Q(3, 2)])
def test_equality_is_decided(a1):
    """At the bounds the method is A-stable, and beyond them by 1e-9 it is not."""
    a3, a2, bit = Q(5, 2) / (1 + a1) - 1, Q(1, 2), Q(1, 10**9)
    if a3 > 0:
        assert a_stability(family(a1, a2, a3)).a_stable and not a_stability(family(a1, a2, a3 - bit)).a_stable
    if a1 > 1:
        a3 = 1 - Q(1, 2) / (1 - a1)
        assert a_stability(family(a1, a2, a3), True).a_stable
        assert a_stability(family(a1, a2, a3 + bit)).a_stable  # real arguments do not see this bound
        assert not a_stability(family(a1, a2, a3 + bit), True).a_stable


def four_stages(g, explicit=True, r=Q(1, 2)):
    """The families of RK1A4 (explicit first stage) and RK1A4L: order 2 for ODEs, p = α B1 e + β1 A e = 1 or near it."""
    Z = (0, 0, 0, 0)
    if explicit:
        c, w = Q(2, 3), (Q(1, 2) - g) * Q(3, 2)  # α c = 1/2
        A = (Z, (c - g, g, 0, 0), (c - g, 0, g, 0), (1 - w - g, w / 2, w / 2, g))
    else:
        A = stiff.RK1A4L.table.A
    B1 = (Z, (Q(2, 3), 0, 0, 0), (Q(2, 3), 0, 0, 0), (Q(1, 4), Q(3, 8), Q(3, 8), 0))
    B3 = (Z, (r, 0, 0, 0), (-r, 0, 0, 0), (0, -1 / (4 * r), 1 / (4 * r), 0))
    return StiffTable(name="four stages", A=A, B1=B1, B3=B3, claims=(), source="here")


def test_four_stages_with_an_explicit_first():
    """F >= |h|² [(2g² + 2g - 1) x + (2g - 1)² (4g - 1)/4 |h|²], with equality here: A-stable iff g >= (√3 - 1)/2."""
    size = x * x + Y
    for g in (Q(3, 8), Q(1, 3), Q(2, 5), Q(1, 2)):
        table = four_stages(g)
        assert not any(table.conditions().values())
        expected = size * ((2 * g * g + 2 * g - 1) * x + (2 * g - 1) ** 2 * (4 * g - 1) / 4 * size)
        assert boundary_polynomial(table) == expected
        assert a_stability(table, True).a_stable == (2 * g * g + 2 * g >= 1)
    bound = sqrt(3) / 2 - Q(1, 2)
    assert a_stability(four_stages(bound), True).a_stable
    assert not a_stability(four_stages(bound - Q(1, 10**6)), True).a_stable
    assert four_stages(Q(3, 8)).A == stiff.RK1A4.table.A


def test_stable_for_real_arguments_alone():
    """γ = 3/10 has R0(∞) = -1/9 and F(x, 0) > 0, and R̂ = 1.0477 at h = -.652 + 2.7i."""
    Z, f = (0, 0, 0, 0), Q(1, 10)
    table = StiffTable(
        name="tempting",
        A=(Z, (2 * f, 3 * f, 0, 0), (2 * f, 0, 3 * f, 0), (3 * f, 4 * f, 0, 3 * f)),
        B1=(Z, Z, Z, (-4 * f, 14 * f, 0, 0)),
        B2=(Z, Z, Z, (0, -4, 4, 0)),
        B3=(Z, Z, (0, Q(1, 4), 0, 0), Z),
        claims=(), source="here",
    )  # fmt: skip
    assert not any(table.conditions().values())
    assert a_stability(table).a_stable is True
    verdict = a_stability(table, complex_arguments=True)
    assert verdict.a_stable is False and verdict.worst == pytest.approx(1.048, abs=1e-3)
    assert abs(verdict.h - (-0.652 + 2.7j)) < 0.3 and "boundary: R̂ - 1 = 0.04" in str(verdict)
    R = stability_function(table)
    assert R.mean_square(-0.652 + 2.7j, np.sqrt(2 * 0.652)) == pytest.approx(1.0477, abs=1e-4)
    assert [c * 25000 for c in R.boundary_polynomial.along(0)] == [0, 0, 0, 44500, -600, -375, 18]


def test_implicit_diffusion_is_undecided_for_real_arguments_and_fails_for_complex_ones():
    table = StiffTable(
        name="implicit noise",
        A=((1, 0, 0), (Q(7, 8), 1, 0), (Q(8, 7), Q(-4, 7), Q(3, 7))),
        B1=(ZERO, ZERO, (2, -1, 0)), B2=(ZERO, ZERO, (Q(-16, 9), Q(16, 9), 0)),
        B3=((Q(9, 16), 0, 0), (Q(1, 4), Q(7, 8), 0), ZERO), claims=(), source="here",
    )  # fmt: skip
    assert not any(table.conditions().values())
    verdict = a_stability(table)
    assert verdict.a_stable is None and str(verdict).startswith("undecided") and "with k in it" in str(verdict)
    with pytest.raises(ValueError, match=r"the denominator 1 - 1 h - 9/16 k, with k in it"):
        boundary_polynomial(table)
    assert a_stability(table, complex_arguments=True).a_stable is False
    with pytest.raises(ValueError, match=r"in R of RK1W1 He_2\(ξ\) stands with k\^1, k\^2, expected one power"):
        boundary_polynomial("RK1W1")


def test_methods_without_a_table_are_tried_at_points():
    assert a_stability("SplitStepEuler").a_stable is None and "6776 points" in str(a_stability("SplitStepEuler"))
    verdict = a_stability("StiffMilstein")
    assert verdict.a_stable is False and verdict.worst == pytest.approx(2.0, rel=1e-2)


def test_a_stage_that_cancels_is_no_pole():
    """The first stage has a pole at h = -1; x' does not use it."""
    table = StiffTable(name="idle", A=((-1, 0), (0, 1)), B1=((0, 0), (0, 0)), claims=(), source="here")
    assert stability_function(table).factors == {(1, 0): 1}
    assert stability_function(stiff.RK1W2.table).factors == {(1 - sqrt(2) / 2, 0): 3}


def own_table(A, B1, **more):
    return StiffTable(**{"name": "mine", "A": A, "B1": B1, "claims": (), "source": "here"} | more)


def test_tables_that_fail_say_why():
    """A table that does nothing, an explicit one, poles for h < 0 and for k alone, and one without the normal form."""
    idle = a_stability(own_table(((0,),), ((0,),)), complex_arguments=True)
    assert (
        idle.a_stable is False and str(idle) == "not A-stable: boundary: R = 1 for all h and k: the step does nothing"
    )
    euler = str(a_stability(own_table(((0, 0), (1, 0)), ((0, 0), (1, 0)))))
    assert "origin: R̂ - 1 is 1 h²" in euler and "infinity: R̂ -> ∞" in euler and "boundary: R̂ - 1 = " in euler
    assert "poles: h = -4, k = 0, inside" in str(a_stability(family(Q(1, 2), Q(-1, 4), Q(1, 2)), True))
    noisy = str(a_stability(own_table(((0, 0), (0, 1)), ((0, 0), (1, 0)), B3=((1, 0), (0, 0)))))
    assert "origin: R̂ - 1 is 2 k^3" in noisy and "poles: h = -1, k = 1, inside" in noisy
    odd = own_table(
        ((1, 0, 0), (0, Q(1, 2), 0), (0, 0, 1)), (ZERO, ZERO, (1, 0, 0)),
        B2=(ZERO, ZERO, (-1, 1, 0)), B3=(ZERO, (1, 0, 0), ZERO),
    )  # fmt: skip
    verdict = a_stability(odd, complex_arguments=True)
    assert verdict.a_stable is None and verdict.l_stable is None
    assert str(verdict).startswith("undecided: boundary: no proof is known for such a table (in R of mine He_2(ξ)")


def test_surds_and_floats():
    """√2, √3 and √5 in one table; floats are the fractions they are. The theorem on three stages says who is stable."""
    for a1, a3, stable in ((sqrt(2) / 2, sqrt(3) / 2, True), (sqrt(2) / 4, sqrt(3) / 4, False)):
        assert a_stability(family(a1, sqrt(5) / 3, a3), True).a_stable is stable
        assert a_stability(family(float(a1), float(sqrt(5) / 3), float(a3)), True).a_stable is stable


# --- several channels -------------------------------------------------------------------------------------------------


@pytest.mark.brief("RK1A4M")
@pytest.mark.parametrize("name", ["RK1A3M", "RK1A4M", "RK1ATM"])
def test_two_channels_have_the_mean_square_of_one_whatever_the_areas(name):
    """On dX = λ X dt + Σ μ_j X dW_j, R̂ = |R0|² + K |S1|² + K² |S2|²/2 with K = Σ |k_j|², for complex λ and μ.

    Gauss-Hermite quadrature of the shipped step, with another area at every node.
    """
    h, μ = -0.8 + 0.6j, (0.5 - 0.3j, 0.2 + 0.7j)
    method = getattr(stiff, f"{name}Levy")

    def times(z, v):
        return jnp.stack([z.real * v[0] - z.imag * v[1], z.imag * v[0] + z.real * v[1]])

    problem = SDE(lambda t, v: times(h, v), lambda t, v: jnp.stack([times(m, v) for m in μ], axis=1), (1.0, 0.0))
    taken = matched(problem, method)[0]
    ξ, weight = np.polynomial.hermite_e.hermegauss(6)
    W = np.stack([v.ravel() for v in np.meshgrid(ξ, ξ)], axis=1)
    area = np.random.default_rng(3).standard_normal(len(W))[:, None, None] * np.array([[0.0, 1.0], [-1.0, 0.0]])
    II = 0.5 * (W[:, :, None] * W[:, None, :] - np.eye(2)) + area

    def square(W, II):
        after, _ = method.step(taken, jnp.zeros(()), jnp.array([1.0, 0.0]), Increment(jnp.ones(()), W, II=II), None)
        return jnp.sum(after**2)

    found = np.outer(weight, weight).ravel() @ at_points(square, W, II) / (2.0 * np.pi)
    expected = stability_function(method.table).mean_square(h, np.sqrt(sum(abs(m) ** 2 for m in μ)))
    assert found == pytest.approx(float(expected), rel=1e-12)


def test_region_draws_from_the_step():
    level = stability.region("RK1A4", [-2.0, -1.0], [1.0, 2.25])
    np.testing.assert_allclose([level[0, 1], level[1, 0]], [6033 / 14641, 793 / 2401], rtol=1e-12)


# --- systems ---------------------------------------------------------------------------------------------------------


def system(A, B):
    return SDE(lambda t, v: jnp.asarray(A) @ v, lambda t, v: (jnp.asarray(B) @ v)[:, None], np.ones(len(A)))


def test_second_moments_of_systems():
    """E[R P R'] is that of the equation to second order in the step for RK1A4 and RK1ATM; the others miss it by
    what α B1 e, β1 A e and α A e differ from 1/2."""
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((2, 2)), rng.standard_normal((2, 2))
    eye = np.eye(2)
    L = np.kron(A, eye) + np.kron(eye, A) + np.kron(B, B)
    h = 1e-3
    for name in ("RK1A4", "RK1ATM", "RK1A4L", "RK1A3", "RK1A4M"):
        table = getattr(stiff, name).table
        α, β1, c = (np.array(row, float) for row in (table.α, table.β1, table.c))
        first, second, third = α @ c - 0.5, α @ np.array(table.B1, float).sum(axis=1) - 0.5, β1 @ c - 0.5
        missed = (
            first * (np.kron(A @ A, eye) + np.kron(eye, A @ A))
            + second * (np.kron(A @ B, B) + np.kron(B, A @ B))
            + third * (np.kron(B @ A, B) + np.kron(B, B @ A))
        )
        found = (step_map(system(A, B), getattr(stiff, name), h, nodes=4).MM - np.eye(4) - h * L) / h**2 - L @ L / 2
        np.testing.assert_allclose(found, missed, atol=5e-3 * np.abs(L @ L).max())
        assert (np.abs(missed).max() < 1e-12) == (name in ("RK1A4", "RK1ATM"))


@pytest.mark.parametrize(
    ("name", "A", "B"),
    [
        ("RK1A4L", [[-0.7308, 1.2513], [1.1353, -3.2649]], [[-0.6965, 0.7206], [2.3412, 0.0529]]),
        ("RK1A4M", [[-3.6864, -0.1809], [3.8554, -1.0253]], [[-0.4516, 1.919], [-0.1691, -0.1251]]),
    ],
)
def test_stable_systems_that_a_stable_tables_do_not_follow(name, A, B):
    """Found by benchmarks/sdae_search.py: matrices that do not commute. RK1A4, RK1ATM and Trapezoidal are stable."""
    A, B = np.array(A), 0.9995 * np.array(B)
    abscissa = np.linalg.eigvals(np.kron(A, np.eye(2)) + np.kron(np.eye(2), A) + np.kron(B, B)).real.max()
    assert abscissa < 0.0
    assert step_map(system(A, B), getattr(stiff, name), 1.0, nodes=4).mean_square_radius() > 1.002
    for stable in (stiff.RK1A4, stiff.RK1ATM, stiff.Trapezoidal):
        assert step_map(system(A, B), stable, 1.0, nodes=4).mean_square_radius() < 1.0
