"""Explicit Runge-Kutta tables driven by noise: exact factors, the equation they solve, and what they refuse."""

import dataclasses
import itertools
import warnings
from fractions import Fraction as Q

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from stodyn import SDE, simulate
from stodyn.analysis import covariance
from stodyn.analysis.integrator import linear_step
from stodyn.analysis.linear import step_map
from stodyn.engine.program import executors
from stodyn.engine.spec import describe
from stodyn.methods import classical as c
from stodyn.methods import explicit
from stodyn.methods.catalogue import catalogue
from stodyn.noise.stages import Stages
from stodyn.numerics import gauss, uncompiled
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.surd import sqrt
from stodyn.problems.linear import linear

pytestmark = pytest.mark.usefixtures("quick_compiling")

TABLES = [value for value in vars(c).values() if isinstance(value, c.ExplicitRungeKutta)]


def fresh(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", c.CovarianceError)
        return table(noise="fresh")


def slopes(function, count):
    """The matrix of a linear function of `count` numbers."""
    unit = np.eye(count)
    return uncompiled.run(jax.make_jaxpr(jax.vmap(function))(unit), unit)[0].T


# --- exact numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "gamma"),
    [
        (c.Euler, 1), (c.RK2, 2), (c.RK3, 2), (c.RK4, Q(18, 5)), (c.ThreeEighths, Q(16, 5)), (c.Gill, Q(18, 7)),
        (c.RK56Butcher, Q(810, 229)), (c.RK56Lawson, Q(810, 229)), (c.KuttaNystrom, Q(1024, 1065)),
    ],
)  # fmt: skip
def test_factors_are_exact_fractions(table, gamma):
    assert fresh(table).Gamma == gamma
    assert isinstance(fresh(table).Gamma, Q)
    assert table(noise="held").Gamma == 1


def test_factors_of_embedded_pairs():
    assert float(fresh(c.RKF45).Gamma) == pytest.approx(1.559338874, abs=5e-10)
    assert float(fresh(c.DOPRI5).Gamma) == pytest.approx(1.324413859, abs=5e-10)
    with pytest.warns(c.CovarianceError, match=r"c1 .* 0\.763628 is not 1"):
        assert float(fresh(c.RKF45).companion.Gamma) == pytest.approx(1.744333477, abs=5e-10)


@pytest.mark.parametrize(
    ("table", "f"),
    [
        (c.Euler, (1,)),
        (c.RK2, (1, 1, Q(1, 2))),
        (c.RK3, (1, 1, Q(7, 18), Q(1, 9), Q(1, 18))),
        (c.RK4, (1, 1, Q(3, 5), Q(1, 4), Q(1, 10), Q(1, 40), Q(1, 160))),
        (c.ThreeEighths, (1, 1, Q(19, 30), Q(4, 15), Q(4, 45), Q(1, 90), Q(1, 180))),
        (c.Gill, (1, 1, Q(1, 2) - sqrt(2) / 14, (5 - sqrt(2)) / 28, Q(1, 14), Q(1, 56), Q(1, 224))),
        (c.RK56Butcher, (1, 1, Q(128, 229), Q(1407, 4580), Q(489, 3664), Q(2091, 73280), Q(171, 14656), Q(-9, 146560),
                         Q(9, 36640), Q(27, 1172480), Q(81, 9379840))),
    ],
)  # fmt: skip
def test_noise_of_a_step_as_an_exact_polynomial_and_from_the_shipped_step(table, f):
    method = fresh(table)
    assert method.f == f
    for z in (-0.05, -0.2, -0.7):
        assert covariance.local_factor(method, z) == pytest.approx(
            sum(float(a) * z**k for k, a in enumerate(f)), abs=1e-12
        )


def test_lawson_differs_from_butcher_in_the_third_coefficient():
    assert fresh(c.RK56Lawson).f[:4] == (1, 1, Q(128, 229), Q(2259, 9160))


def test_stability_functions_are_the_exact_polynomials():
    taylor = (1, 1, Q(1, 2), Q(1, 6), Q(1, 24))
    assert c.RK4.R == c.ThreeEighths.R == c.Gill.R == taylor
    assert (*taylor, Q(1, 120), Q(1, 640)) == c.RK56Butcher.R
    assert (*taylor, Q(1, 120), Q(1, 1280)) == c.RK56Lawson.R


def test_kasdin_is_right_only_with_the_coefficient_that_copies_leave_out():
    assert [float(x) for x in c.Kasdin4.R] == pytest.approx([1, 1, 1 / 2, 1 / 6, 1 / 24], abs=1e-12)
    assert [float(x) for x in c.Kasdin4.f[:4]] == pytest.approx([1, 1, 2 / 3, 1 / 3], abs=1e-12)
    assert float(c.Kasdin4.f[4]) == pytest.approx(0.1157, abs=5e-5)
    rows = [list(row) for row in c.Kasdin4.A]
    rows[3][2] = 0
    copied = dataclasses.replace(c.Kasdin4, A=rows)
    assert copied.order == 1
    assert [float(x) for x in copied.R] == pytest.approx([1, 1, 0.4804, 0.2876], abs=5e-5)


def test_coefficients_of_the_covariance_are_those_of_riggs_81():
    K = fresh(c.RK4).covariance_coefficients
    assert (
        (1, Q(1, 2), Q(3, 20), Q(1, 40)),
        (Q(1, 2), Q(3, 10), Q(1, 10), Q(1, 40)),
        (Q(3, 20), Q(1, 10), Q(1, 20), Q(1, 80)),
        (Q(1, 40), Q(1, 40), Q(1, 80), Q(1, 160)),
    ) == K


@pytest.mark.parametrize(
    ("table", "order"),
    [(c.Euler, 1), (c.RK2, 2), (c.ExplicitMidpoint, 2), (c.Ralston, 2), (c.RK3, 3), (c.Heun3, 3), (c.SSP3, 3),
     (c.RK4, 4),
     (c.ThreeEighths, 4), (c.Gill, 4), (c.RK56Butcher, 5), (c.RK56Lawson, 5), (c.KuttaNystrom, 5), (c.RKF45, 4),
     (c.RKF45.companion, 5), (c.RKF78, 7), (c.RKF78.companion, 8), (c.DOPRI5, 5), (c.DOPRI5.companion, 4),
     (c.Kasdin4, 2)],
)  # fmt: skip
def test_orders_of_the_tables(table, order):
    assert table.order == order


def test_number_of_rooted_trees():
    assert [len(c._trees(n)) for n in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]


@pytest.mark.parametrize(
    ("table", "c1"),
    [(c.ExplicitMidpoint, 0), (c.Ralston, 0.4), (c.Heun3, 0), (c.SSP3, 1 / 3), (c.KuttaNystrom, 0.4635),
     (c.RKF45, 0.70),
     (c.DOPRI5, 0.65)],
)  # fmt: skip
def test_warning_where_fresh_noise_leaves_an_error_of_order_h(table, c1):
    with pytest.warns(c.CovarianceError, match="c1") as caught:
        method = table(noise="fresh")
    assert caught[0].filename == __file__
    assert float(method.c1) == pytest.approx(c1, abs=5e-3)


@pytest.mark.parametrize("table", [c.RK2, c.RK3, c.RK4, c.ThreeEighths, c.Gill, c.RK56Butcher, c.RK56Lawson, c.RKF78])
def test_no_warning_where_there_is_no_such_error(table):
    assert table(noise="fresh").c1 == 1


@pytest.mark.parametrize(
    ("method", "value"),
    [(fresh(c.RK4), 1.2), (c.RK4, 1 / 3), (fresh(c.RK2), 1), (c.RK2, 1 / 2), (fresh(c.RK56Butcher), 3.12),
     (fresh(c.ThreeEighths), 2.67), (fresh(c.Gill), 1.71), (c.RK56Butcher, 1 / 3)],
)  # fmt: skip
def test_condition_for_curved_drifts(method, value):
    assert float(method.drift_spread) == pytest.approx(value, abs=5e-3)


def test_weak_order_two_is_claimed_by_the_trapezoidal_table_held_alone():
    def second(method):
        return any(claim.kind == "weak" and claim.order == 2.0 for claim in method.claims)

    assert [table.name for table in TABLES if second(table)] == ["RK2"]
    assert not any(second(fresh(table)) for table in TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_fresh_noise_is_of_ito_and_held_noise_of_stratonovich(table):
    assert fresh(table).kappa == 0 and fresh(table).calculus == "ito"
    held = table(noise="held")
    assert held.calculus == ("ito" if table is c.Euler else "stratonovich")


@pytest.mark.parametrize("rho", [Q(0), Q(1, 4), Q(1, 2), Q(1)])
def test_correlated_stages_give_equations_in_between(rho):
    assert c.RK4(noise=rho).kappa == 9 * rho / (13 * rho + 5)


@pytest.mark.parametrize("noise", ["held", "fresh", 0.5, -0.2])
def test_kappa_of_the_shipped_step(noise):
    method = c.RK4(noise=noise)
    assert covariance.kappa(method) == pytest.approx(float(method.kappa), abs=1e-10)


# --- the samples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [fresh(c.RK4), c.RK4(noise=0.3), c.Kasdin4, fresh(c.DOPRI5), c.RK4(noise=-1 / 3)])
def test_samples_have_the_stated_covariance_and_add_up_to_w(method):
    recipe, h, m = method.needs, 0.3, 2
    count = sum(recipe.normals(m).values())

    def samples(z):
        noise = recipe.increment(h, {"W": z[:m], "aux": z[m:]}, m)
        return jnp.concatenate([noise.aux["stages"].ravel(), noise.W])

    linear_map = slopes(samples, count)
    stages, W = linear_map[:-m], linear_map[-m:]
    C = float(method.Gamma) * np.array([[float(x) for x in row] for row in method.C])
    np.testing.assert_allclose(stages @ stages.T, h * np.kron(C, np.eye(m)), atol=1e-13)
    b = np.kron(np.array([float(x) for x in method.b]), np.eye(m))
    np.testing.assert_allclose(b @ stages, W, atol=1e-13)


def test_fewer_normals_where_the_correlation_is_singular():
    assert c.RK4(noise=1.0).needs.normals(1) == {"W": 1, "aux": 0}
    assert c.RK4(noise=-1 / 3).needs.normals(1) == {"W": 1, "aux": 2}
    assert isinstance(c.RK4(noise="fresh").needs, Stages)


def test_held_trapezoidal_rule_is_stochastic_heun_and_euler_is_euler_maruyama():
    problem = SDE(lambda t, x: jnp.sin(x) - t, lambda t, x: jnp.stack([jnp.cos(x), 0.2 * x], 1), [0.3, 0.4],
                  calculus="stratonovich")  # fmt: skip
    noise = explicit.Heun.needs.increment(0.1, {"W": jnp.array([0.7, -1.2])}, 2)
    x = jnp.array([0.3, 0.4])
    for mine, other in ((c.RK2, explicit.Heun), (c.Euler, explicit.EulerMaruyama)):
        a, b = (m.step(problem, 0.5, x, noise, None)[0] for m in (mine, other))
        np.testing.assert_allclose(a, b, rtol=1e-15)


@pytest.mark.parametrize("method", [c.RK4, fresh(c.RK4), fresh(c.RKF78), c.RK4(noise=0.5), c.Kasdin4])
def test_steps_are_printed(method):
    problem = linear([[0, 1], [-1, -0.4]], [[0], [1]])
    spec = describe(problem, method, (0.0, 1.0), 0.25, None, "float64")
    assert executors.get(spec).name == "printed"


def test_stages_that_nothing_needs_are_not_evaluated():
    seen = []

    def drift(t, x):
        seen.append(1)
        return -x

    problem = SDE(drift, lambda t, x: 1.0 + 0.0 * x, 1.0, structure="additive")
    noise = c.DOPRI5.needs.increment(0.1, {"W": jnp.zeros(1)}, 1)
    seen.clear()
    c.DOPRI5.step(problem, 0.0, jnp.ones(1), noise, None)
    assert len(seen) == 6


# --- embedded estimates ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("h", "with_fresh", "with_held"), [(0.1, 2.4e-3, 7.3e-8), (0.05, 1.67e-3, 3.0e-9), (0.025, 1.17e-3, 1.3e-10)]
)
def test_embedded_estimate_sees_the_error_with_held_noise_and_noise_with_fresh(h, with_fresh, with_held):
    problem, P = linear(-2.0, 1.0, 0.01), 0.0025
    for method, expected in ((fresh(c.RKF45), with_fresh), (c.RKF45, with_held)):
        counts = method.needs.normals(1)
        size = sum(counts.values())

        def estimate(point, method=method, counts=counts):
            normals = dict(zip(counts, jnp.split(point[1:], np.cumsum(list(counts.values()))[:-1]), strict=True))
            noise = method.needs.increment(h, normals, 1)
            return method.estimate(problem, 0.0, point[:1], noise, None)[0]

        slope = slopes(estimate, 1 + size)
        rms = np.sqrt(slope[0] ** 2 * P + np.sum(slope[1:] ** 2))
        assert rms == pytest.approx(expected, rel=0.03)


def test_estimate_needs_embedded_weights():
    with pytest.raises(ValueError, match="RK4 has no embedded weights"):
        c.RK4.estimate(None, 0.0, None, None, None)


# --- which equation -------------------------------------------------------------------------------------------------

GBM = SDE(lambda t, x: -0.3 * x, lambda t, x: 0.6 * x, 1.0)
MOMENTS = {
    ("Euler", "fresh"): {5: (0.73390402, 0.79685757), 10: (0.73742413, 0.79159145), 20: (0.73913643, 0.78907217)},
    ("RK2", "fresh"): {5: (0.74095773, 0.79765191), 10: (0.74085232, 0.79192863), 20: (0.74082665, 0.78922690)},
    ("RK2", "held"): {5: (0.89382020, 1.11660710), 10: (0.89032190, 1.12173396), 20: (0.88860897, 1.12453452)},
    ("RK4", "fresh"): {5: (0.74081825, 0.79931431), 10: (0.74081822, 0.79275144), 20: (0.74081822, 0.78963643)},
    ("RK4", "held"): {5: (0.88706412, 1.12732810), 10: (0.88695563, 1.12745380), 20: (0.88692915, 1.12748599)},
}


@pytest.mark.parametrize("key", MOMENTS, ids="-".join)
def test_exact_moments_of_geometric_brownian_motion_at_finite_steps(key):
    name, noise = key
    method = fresh(getattr(c, name)) if noise == "fresh" else getattr(c, name)
    # The equation x' = mu x + s x w as it stands in the calculus that the method solves.
    problem = dataclasses.replace(GBM, calculus=method.calculus)
    for K, expected in MOMENTS[key].items():
        found = step_map(problem, method, 1.0 / K, nodes=8).moments(1.0, 0.0, K)
        mean = found.mean[-1, 0]
        assert (mean, found.covariance[-1, 0, 0] + mean**2) == pytest.approx(expected, abs=6e-9)


def test_rotation_grows_with_fresh_noise_and_keeps_its_length_with_held():
    turn = 0.5 * np.array([[0.0, -1.0], [1.0, 0.0]])
    for method, expected in ((fresh(c.RK4), 1.28518835), (c.RK4, 0.99999798)):
        problem = SDE(lambda t, x: 0.0 * x, lambda t, x: (turn @ x)[:, None], [1.0, 0.0], calculus=method.calculus)
        found = step_map(problem, method, 1 / 40, nodes=6).moments([1.0, 0.0], np.zeros((2, 2)), 40)
        square = np.trace(found.covariance[-1]) + found.mean[-1] @ found.mean[-1]
        assert square == pytest.approx(expected, abs=6e-9)


# Two channels that do not commute, x' = (M_1 w_1 + M_2 w_2) x, the noise correlated with the intensity C.
M = np.array([[[0, 1], [0, 0.3]], [[0.2, 0], [-0.8, 0]]])
C = np.array([[0.5, 0.2], [0.2, 0.4]])
PAIR = np.einsum("ka,kij->aij", np.linalg.cholesky(C), M)
SQUARE = np.einsum("aij,ajk->ik", PAIR, PAIR)


def mean_of_the_pair(method, K, nodes):
    problem = SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.einsum("aij,j->ia", PAIR, x), [1.0, 0.5],
                  calculus=method.calculus)  # fmt: skip
    return step_map(problem, method, 1 / K, nodes=nodes).moments([1.0, 0.5], np.zeros((2, 2)), K).mean[-1]


def test_fresh_noise_leaves_the_mean_of_two_channels_alone():
    np.testing.assert_allclose(mean_of_the_pair(fresh(c.RK4), 10, 3), [1.0, 0.5], atol=1e-12)


def test_held_noise_on_two_channels_at_finite_steps_and_in_the_limit():
    """A held step is R(√h N), N = Σ M_a ξ_a: E N² = S, E N⁴ by Isserlis; R of order 4 leaves h² (E N⁴/24 - S²/8)."""
    order = [("aij,ajk,bkl,blm->im"), ("aij,bjk,akl,blm->im"), ("aij,bjk,bkl,alm->im")]
    fourth = sum(np.einsum(pairs, PAIR, PAIR, PAIR, PAIR) for pairs in order)
    found = {}
    for K in (10, 20, 40, 80):
        h = 1 / K
        exact = np.linalg.matrix_power(np.eye(2) + h / 2 * SQUARE + h**2 / 24 * fourth, K) @ [1.0, 0.5]
        found[K] = mean_of_the_pair(c.RK4, K, 4)
        np.testing.assert_allclose(found[K], exact, atol=1e-11)
    stratonovich = scipy.linalg.expm(0.5 * SQUARE) @ [1.0, 0.5]
    np.testing.assert_allclose(stratonovich, [0.97252754, 0.41836903], atol=6e-9)
    row = list(found.values())  # errors h, h², h³ taken out by Richardson's extrapolation
    for k in (1, 2, 3):
        row = [(2**k * fine - coarse) / (2**k - 1) for coarse, fine in itertools.pairwise(row)]
    np.testing.assert_allclose(row[0], stratonovich, atol=1e-8)


ERRORS = {  # of E x(1) for x' = -x + cos(2x)/2 + w from 0.3, in K steps
    ("RK2", "held"): {10: "-7.4e-4", 20: "-1.7e-4", 40: "-4.1e-5"},
    ("RK4", "held"): {10: "4.67e-3", 20: "2.36e-3", 40: "1.18e-3"},
    ("RK2", "fresh"): {10: "-1.42e-2", 20: "-7.1e-3", 40: "-3.56e-3"},
    ("RK4", "fresh"): {10: "-1.82e-2", 20: "-9.5e-3", 40: "-4.87e-3"},
    ("Euler", "held"): {10: "-3.45e-3", 20: "-1.70e-3", 40: "-8.4e-4"},
}


@pytest.mark.parametrize("key", ERRORS, ids="-".join)
def test_only_the_held_trapezoidal_rule_is_of_weak_order_two_for_curved_drifts(key):
    name, noise = key
    method = getattr(c, name)(noise=noise)
    problem = SDE(lambda t, x: -x + 0.5 * jnp.cos(2 * x), lambda t, x: 1.0 + 0.0 * x, 0.3, structure="additive")
    counts = method.needs.normals(1)
    size = sum(counts.values())
    rule = gauss.hermite({1: 12, 2: 12, 4: 6}[size])
    xi = np.stack(np.meshgrid(*[rule.nodes] * size, indexing="ij"), -1).reshape(-1, size)
    weight = np.prod(np.stack(np.meshgrid(*[rule.weights] * size, indexing="ij"), -1).reshape(-1, size), axis=1)
    grid = 7.0 * np.cos(np.pi * (np.arange(96) + 0.5) / 96)

    def step(h, x, z):
        normals = dict(zip(counts, jnp.split(z, np.cumsum(list(counts.values()))[:-1]), strict=True))
        return method.step(problem, 0.0, x[None], method.needs.increment(h, normals, 1), None)[0][0]

    steps = AtPoints(step, (None, 0, 0))
    for K, expected in ERRORS[key].items():
        pairs = np.repeat(grid, len(xi)), np.tile(xi, (len(grid), 1))
        after = steps(np.asarray(1.0 / K), *pairs).reshape(len(grid), len(xi))
        # One step of the backward equation as a matrix on values at the Chebyshev points: u -> E u(x').
        basis = np.polynomial.chebyshev.chebvander(np.clip(after / 7.0, -1.0, 1.0), len(grid) - 1)
        to_coefficients = np.linalg.inv(np.polynomial.chebyshev.chebvander(grid / 7.0, len(grid) - 1))
        backward = np.einsum("xzj,z->xj", basis, weight) @ to_coefficients
        u = np.linalg.matrix_power(backward, K) @ grid
        value = np.polynomial.chebyshev.chebval(0.3 / 7.0, to_coefficients @ u)
        digits, _, exponent = expected.partition("e")
        last = 10.0 ** (int(exponent) - len(digits.partition(".")[2]))
        assert value - 0.26252626 == pytest.approx(float(expected), abs=0.6 * last)


# --- what is refused ------------------------------------------------------------------------------------------------


def test_neither_equation_is_refused_with_the_way_out_and_compensated_on_request():
    method = c.RK4(noise=Q(1, 2))
    with pytest.raises(ValueError, match=r"neither the Ito nor the Stratonovich .*κ = 9/23.*compensate=True"):
        simulate(GBM, method, t=(0, 1), dt=0.1, paths=8, seed=1)
    found = step_map(GBM, method(compensate=True), 0.01, nodes=4).moments(1.0, 0.0, 100)
    assert found.mean[-1, 0] == pytest.approx(0.74081822, abs=2e-3)
    additive = SDE(lambda t, x: -x, lambda t, x: 1.0 + 0.0 * t, 1.0)
    simulate(additive, method, t=(0, 1), dt=0.1, paths=8, seed=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": "frozen"}, 'noise: expected "held", "fresh", a number or a matrix'),
        ({"noise": -0.5}, r"eigenvalue -0.5, expected none below 0.*between -0.3333 and 1"),
        ({"noise": [[1, 0], [0, 1]]}, "noise: expected 4 entries, one per stage, got 2"),
        ({"b": [0.5, np.nan]}, "b: expected finite numbers"),
        ({"b": []}, "b: expected finite numbers"),
        ({"gamma": 0.0}, "gamma: expected a factor > 0"),
        ({"b": (1, 1, 0, 0)}, "b: the weights add up to 2, expected 1"),
        ({"A": ((1,), (0,), (0,), (0,))}, "the table must be explicit"),
        ({"A": ((1,),)}, "A: expected 4 rows"),
        ({"noise": [[1, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], "b": (Q(1, 2), Q(1, 2), 0, 0)},
         "b'Cb is 0"),
    ],
)  # fmt: skip
def test_bad_tables_and_options(options, message):
    with pytest.raises(ValueError, match=message):
        _ = c.RK4(**options).Gamma


def test_a_table_of_the_users_own():
    method = c.ExplicitRungeKutta(np.array([[0, 0], [1.0, 0]]), [0.5, 0.5], noise="fresh")
    assert method.Gamma == 2.0 and method.order == 2 and method.calculus == "ito"
    assert covariance.gamma(method) == pytest.approx(2.0, abs=1e-12)


def test_gamma_overrides_and_claims_nothing_for_noise():
    wrong = c.RK4(noise="fresh", gamma=1.0)
    assert covariance.steady_ratio(wrong, -0.01) == pytest.approx(1 / 3.6, rel=1e-4)
    assert [claim.kind for claim in wrong.claims] == ["deterministic"]


def test_every_table_is_in_the_catalogue_under_its_name():
    for table in TABLES:
        assert catalogue()[table.name] is table


def test_the_noise_depends_on_time_at_the_times_of_the_stages():
    problem = linear(0.0, 1.0, lambda t: 1.0 + t)
    G = linear_step(problem, fresh(c.RK4), 0.5, t=1.0).G
    # Γ h Σ b_i² Q(t + c_i h): 3.6 · 0.5 (2/36 + (2/9) 2.25 + 2.5/36)
    assert np.sum(G**2) == pytest.approx(1.8 * (2 / 36 + 2 / 9 * 2.25 + 2.5 / 36), rel=1e-12)


def test_correlations_of_stages_are_checked_up_to_rounding():
    """Symmetric, and no eigenvalue below zero; samples that are equal up to rounding are drawn once."""
    s = len(c.RK2.b)
    for off, refused in ((1e-14, False), (1e-10, True)):
        for matrix, words in (
            (np.eye(s) + off * np.eye(s, k=1), "symmetric"),
            (np.full((s, s), 1.0 + off) - off * np.eye(s), "eigenvalue"),
        ):
            noise = tuple(map(tuple, matrix.tolist()))
            if refused:
                with pytest.raises(ValueError, match=words):
                    c.RK2(noise=noise)
            else:
                assert c.RK2(noise=noise).needs.normals(1)["W"] == 1
    held = c.RK2(noise=((1.0, 1.0), (1.0, 1.0)))
    assert sum(held.needs.normals(1).values()) == 1 and sum(c.RK2(noise=0.5).needs.normals(1).values()) == 2
    with pytest.raises(ValueError, match="expected 2 entries"):
        c.RK2(noise=((1.0,),))
