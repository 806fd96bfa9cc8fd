"""Milstein's method: the step against closed forms, and its strong order for every structure of noise."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.analysis.order import strong_order
from stodyn.methods.explicit import EulerMaruyama
from stodyn.methods.milstein import ImplicitMilstein, Milstein, MilsteinLevy
from stodyn.noise import wiener
from stodyn.noise.increment import Increment
from stodyn.noise.iterated import MrongowiusRoessler, SineSeries, Substeps
from stodyn.numerics.printing.points import at_one, at_points
from stodyn.problems.sde import SDE

A = np.array([[-0.5, 1.0], [-1.0, -0.3]])
B = np.array([[[0.2, 0.5], [0.1, -0.3]], [[0.4, 0.0], [-0.6, 0.1]]])
IMPLICIT_LEVY = ImplicitMilstein(area=MrongowiusRoessler(4))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def linear(B=B, A=A):
    """dx = A x dt + Σ B_k x dW_k."""
    return SDE(
        lambda t, x: jnp.asarray(A, x.dtype) @ x,
        lambda t, x: jnp.stack([jnp.asarray(b, x.dtype) @ x for b in B], axis=1),
        [1.0, 0.5],
    )


def diagonal(structure=None):
    """dx_i = x_i (a_i dt + b_i dW_i)."""
    return SDE(
        lambda t, x: jnp.stack([0.5 * x[0], -0.5 * x[1]]),
        lambda t, x: jnp.diag(jnp.stack([0.4 * x[0], 0.5 * x[1]])),
        [1.0, 0.7],
        structure=structure,
    )


def some_noise(h=0.1, m=2):
    x = np.random.default_rng(1).standard_normal((m + 2, m))
    return Increment(h, math.sqrt(h) * x[0], II=h * x[2:])


def one_step(method, problem, noise, x, t=0.0):
    return at_one(lambda t, x, noise: method.step(problem, t, x, noise, None), float(t), np.asarray(x), noise)


def test_the_step_of_a_linear_problem_with_areas():
    """x' = x + h A x + Σ W_k B_k x + Σ I_(j,k) B_k B_j x: the inner integral is applied first."""
    noise, x = some_noise(), np.array([0.7, -1.2])
    exact = x + noise.h * A @ x + sum(noise.W[k] * B[k] @ x for k in range(2))
    exact += sum(noise.II[j, k] * B[k] @ B[j] @ x for j in range(2) for k in range(2))
    after, report = one_step(MilsteinLevy, linear(), noise, x)
    np.testing.assert_allclose(after, exact, rtol=1e-14)
    assert bool(report.ok)


def test_areas_are_exact_where_the_integral_is_an_area():
    """dx = dW_1, dy = dW_2, dz = x dW_2 is solved exactly, z by I_(1,2)."""
    problem = SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, x[0]]]), [0.3, 0.0, 1.0])
    noise = some_noise()
    W, II = noise.W, noise.II
    np.testing.assert_allclose(
        one_step(MilsteinLevy, problem, noise, [0.3, 0.0, 1.0])[0], [0.3 + W[0], W[1], 1 + 0.3 * W[1] + II[0, 1]]
    )


def test_the_step_of_one_channel():
    problem = SDE(lambda t, x: jnp.sin(x), lambda t, x: t + x**2, 0.8)
    h, W, x, t = 0.1, -0.4, 0.8, 0.3
    g, slope = t + x**2, 2 * x
    exact = x + h * math.sin(x) + g * W + slope * g * (W**2 - h) / 2
    for method in (Milstein, MilsteinLevy):
        noise = Increment(h, jnp.array([W]), II=jnp.array([[(W**2 - h) / 2]]))
        assert float(one_step(method, problem, noise, [x], t)[0][0]) == pytest.approx(exact, rel=1e-14)


def test_diagonal_noise_is_a_shorter_way_to_the_same_step():
    noise, x = some_noise(), [0.7, -1.2]
    short, long = (one_step(Milstein, diagonal(kind), noise, x)[0] for kind in (None, "commutative"))
    np.testing.assert_allclose(short, long, rtol=1e-14)


def test_diagonal_noise_costs_one_derivative_of_n_entries():
    """Twice the channels make twice the operations, not four times as many."""

    def operations(n):
        problem = SDE(lambda t, x: -x, lambda t, x: jnp.diag(jnp.sin(x)), jnp.ones(n))
        noise = Increment(0.1, jnp.ones(n))
        compiled = jax.jit(lambda x: Milstein.step(problem, 0.0, x, noise, None)[0]).lower(jnp.ones(n)).compile()
        return compiled.cost_analysis()["transcendentals"]

    assert operations(64) <= 2.2 * operations(32)


def test_areas_of_the_noise_are_not_used_without_the_option():
    """A path drawn with areas for another method must not change what Milstein does."""
    noise = some_noise()
    plain = dataclasses.replace(noise, II=None)
    problem = diagonal("commutative")
    np.testing.assert_array_equal(*(one_step(Milstein, problem, i, [0.7, -1.2])[0] for i in (noise, plain)))


def test_additive_noise_leaves_euler_maruyama():
    problem = SDE(lambda t, x: jnp.sin(x), lambda t, x: jnp.array([[1.0, 0.5], [0.0, 2.0 + t]]), [1.0, 0.5])
    noise = some_noise()
    for method in (Milstein, MilsteinLevy):
        ends = [one_step(other, problem, noise, [0.7, -1.2], 0.3)[0] for other in (method, EulerMaruyama)]
        np.testing.assert_allclose(*ends, rtol=1e-15)


@pytest.mark.parametrize("theta", [0.5, 1.0])
@pytest.mark.parametrize("method", [ImplicitMilstein, IMPLICIT_LEVY])
def test_the_implicit_step_solves_its_equation(method, theta):
    m, x = 2 if method.area else 1, np.array([0.7, -1.2])
    problem, noise = linear(B[:m]), some_noise(m=m)
    after, report = one_step(method(theta=theta), problem, noise, x)
    explicit = MilsteinLevy if method.area else Milstein
    kick = np.asarray(one_step(explicit, problem, noise, x)[0]) - x - noise.h * A @ x
    exact = np.linalg.solve(np.eye(2) - theta * noise.h * A, x + (1 - theta) * noise.h * A @ x + kick)
    np.testing.assert_allclose(after, exact, rtol=1e-12)
    assert bool(report.ok) and int(report.iterations) <= 3


def test_the_implicit_step_is_stable_where_the_explicit_one_is_not():
    """dx = -1000 x dt + x dW, h = 0.1: the drift divides by 101 or multiplies by -99."""
    problem = SDE(lambda t, x: -1000.0 * x, lambda t, x: x, 1.0)
    noise = Increment(0.1, jnp.array([0.3]))
    assert abs(one_step(ImplicitMilstein, problem, noise, [1.0])[0][0]) < 0.02
    assert abs(one_step(Milstein, problem, noise, [1.0])[0][0]) > 90


def test_a_step_without_a_solution_is_reported():
    """x' = 10 (1 + x'²) has no real solution."""
    problem = SDE(lambda t, x: 10.0 * (1.0 + x**2), lambda t, x: 1.0 + 0.0 * x, 0.0)
    report = one_step(ImplicitMilstein, problem, Increment(1.0, jnp.zeros(1)), [0.0])[1]
    assert not bool(report.ok)


def test_moments_of_a_step_on_geometric_brownian_motion():
    """E x' = 1 + a h and E x'² = (1 + a h)² + b² h + b⁴ h²/2, by Gauss-Hermite quadrature."""
    a, b, h = 0.3, 0.8, 0.2
    problem = SDE(lambda t, x: a * x, lambda t, x: b * x, 1.0)
    U, weights = np.polynomial.hermite_e.hermegauss(6)
    ends = np.array([one_step(Milstein, problem, Increment(h, jnp.array([math.sqrt(h) * u])), [1.0])[0][0] for u in U])
    weights = weights / weights.sum()
    assert weights @ ends == pytest.approx(1 + a * h)
    assert weights @ ends**2 == pytest.approx((1 + a * h) ** 2 + b**2 * h + b**4 * h**2 / 2)


def slope(method, problem, **against):
    """Of the root mean squares of x_h(1) - x(1) for 8, 16, 32 and 64 steps on the same 1000 paths."""
    study = strong_order(problem, method, steps=(8, 16, 32, 64), paths=1000, seed=1, **against)
    return np.polyfit(np.log(study["step"]), np.log(study["error"]), 1)[0]


def test_order_for_diagonal_noise():
    """Against the exact solution; the slopes have standard errors below 0.01."""

    def solution(t, W):
        return np.array([1.0, 0.7]) * np.exp(t * np.array([0.5 - 0.08, -0.5 - 0.125]) + np.array([0.4, 0.5]) * W)

    for method in (Milstein, ImplicitMilstein):
        assert abs(slope(method, diagonal(), exact=solution) - 1.0) < 0.1


def test_order_for_commutative_noise():
    """dz = z (a dt + b dW_1 + i c dW_2) with z = x + iy: the channels commute and are not diagonal.

    Against the exact solution; the slopes have standard errors below 0.01.
    """
    a, b, c = -0.5 + 1.0j, 0.5, 0.5

    def drift(t, x):
        return jnp.stack([a.real * x[0] - a.imag * x[1], a.imag * x[0] + a.real * x[1]])

    def solution(t, W):
        z = np.exp((a - (b**2 - c**2) / 2) * t + b * W[:, 0] + 1j * c * W[:, 1])
        return np.stack([z.real, z.imag], axis=1)

    problem = SDE(drift, lambda t, x: jnp.stack([b * x, c * jnp.stack([-x[1], x[0]])], axis=1), [1.0, 0.0])
    assert problem.noise_structure.kind == "commutative"
    for method in (Milstein, ImplicitMilstein):
        assert abs(slope(method, problem, exact=solution) - 1.0) < 0.1


@pytest.mark.brief("ImplicitMilstein with areas")  # tests/claims measures MilsteinLevy, with and without its areas
@pytest.mark.parametrize(
    ("method", "order"),
    [(MilsteinLevy, 1.0), (IMPLICIT_LEVY, 1.0), (Milstein, 0.5)],
    ids=["MilsteinLevy", "ImplicitMilstein with areas", "Milstein"],
)
def test_order_for_noise_that_does_not_commute(method, order):
    """1 with areas, 1/2 without, on the same paths.

    Against MilsteinLevy with 1024 steps, 1/16 of the shortest measured; standard errors of the slopes below 0.05.
    """
    problem = SDE(
        lambda t, x: -x,
        lambda t, x: jnp.stack([jnp.stack([jnp.cos(x[1]), 0.3 * x[0]]), jnp.stack([0.2 * x[0], 1.0 + x[0]])]),
        [0.2, 0.1],
    )
    assert problem.noise_structure.kind == "general"
    if method is Milstein:
        problem = dataclasses.replace(problem, structure="without areas")
    assert abs(slope(method, problem, reference=MilsteinLevy, refine=16) - order) < (0.25 if order == 1.0 else 0.2)


def test_areas_drawn_at_the_step_itself_have_their_variance():
    """Not composed from a finer path: dz = x dW_2 from 0 has E z² = h²/2, to 5 standard errors (false alarm 6e-7)."""
    problem = SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.array([[1.0, 0.0], [0.0, x[0]]]), [0.0, 0.0])
    h, recipe = 0.3, MilsteinLevy.needs
    rng = np.random.default_rng(2)
    normals = {name: rng.standard_normal((20000, count)) for name, count in recipe.normals(2).items()}
    start = jnp.zeros(2)
    after = at_points(lambda x: MilsteinLevy.step(problem, 0.0, start, recipe.increment(h, x, 2), None)[0], normals)
    squares = after[:, 1] ** 2
    assert abs(squares.mean() - h**2 / 2) < 5 * squares.std() / math.sqrt(len(squares))


def test_what_they_need_and_take():
    general, commuting = linear(), diagonal()
    assert Milstein.needs == wiener.W and ImplicitMilstein.needs == wiener.W
    assert MilsteinLevy.needs == MrongowiusRoessler(4) and MilsteinLevy(area=Substeps(3)).needs == Substeps(3)
    assert "commutative" in Milstein.refusal(general) and "general" in Milstein.refusal(general)
    assert "commutative" in ImplicitMilstein.refusal(general)
    for method in (MilsteinLevy, IMPLICIT_LEVY):
        assert method.refusal(general) is None and method.refusal(commuting) is None
    assert Milstein.refusal(commuting) is None
    assert (Milstein.name, MilsteinLevy.name) == ("Milstein", "MilsteinLevy")


def test_a_recipe_without_areas_is_refused():
    recipe = SineSeries(2)
    noise = recipe.increment(0.1, {name: jnp.ones(count) for name, count in recipe.normals(2).items()}, 2)
    with pytest.raises(ValueError, match=r"area: expected .* gives I_\(j,k\), got SineSeries\(p=2\); take iterated\."):
        one_step(MilsteinLevy(area=recipe), linear(), noise, [1.0, 0.5])


def test_a_theta_out_of_range_is_refused():
    with pytest.raises(ValueError, match="theta: expected 0 < theta <= 1, got 0; theta = 0 is Milstein"):
        ImplicitMilstein(theta=0)


@pytest.mark.parametrize("method", [Milstein, MilsteinLevy, ImplicitMilstein, IMPLICIT_LEVY])
def test_single_precision_stays_single(method):
    with jax.enable_x64(False):
        problem = linear() if method.area else diagonal()
        counts = method.needs.normals(2)

        def step(normals, x):
            return method.step(problem, 0.0, x, method.needs.increment(0.1, normals, 2), None)[0]

        normals = {name: jnp.ones(count) for name, count in counts.items()}
        assert jax.eval_shape(step, normals, jnp.ones(2)).dtype == jnp.float32
