"""Whether functions are affine: proofs from traces, and what stands on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.accuracy.exact_steps import are_exact
from stodyn.numerics.facts.degree import corners, has_jumps, is_affine, is_rough
from stodyn.numerics.newton import newton
from stodyn.numerics.printing.points import at_one

A = np.array([[2.0, 1.0, 0.0], [0.5, 3.0, -1.0], [0.0, 1.0, 4.0]])
AFFINE = {
    "a matrix": lambda x, c: A @ x + c,
    "a roll": lambda x, c: jnp.roll(x, 1) - 2.0 * x,
    "a fixed factor": lambda x, c: x * jnp.exp(c) / (1.0 + c),
    "entries set": lambda x, c: x.at[0].set(3.0).at[1].add(2.0 * x[2]),
    "a fixed choice": lambda x, c: jnp.where(c > 0, x, -x),
    "a sum": lambda x, c: jnp.concatenate([jnp.sum(x)[None], -x[:1]]),
    "a fixed matrix divided": lambda x, c: jnp.linalg.solve(jnp.asarray(A), x),
    "no x": lambda x, c: jnp.floor(c),
}
OTHERS = {
    "a square": lambda x, c: x * x,
    "a product of entries": lambda x, c: x[0] * x[1:],
    "a quotient": lambda x, c: c / x,
    "a sine": lambda x, c: jnp.sin(x),
    "a maximum": lambda x, c: jnp.maximum(x, 0.0),
    "a size": lambda x, c: jnp.abs(x),
    "a sign": lambda x, c: -jnp.sign(x),
    "a floor": lambda x, c: x - jnp.floor(x),
    "a choice by x": lambda x, c: jnp.where(x > 0, 1.0, -1.0),
    "an entry chosen by x": lambda x, c: c[jnp.argmax(x)][None],
    "a function of an entry": lambda x, c: x.at[0].apply(jnp.sin),
    "whole numbers": lambda x, c: x.astype(int).astype(float),
    "a loop": lambda x, c: jax.lax.fori_loop(0, 3, lambda k, y: y * x, c),
}


def traced(function):
    return jax.make_jaxpr(function)(np.ones(3), np.ones(3))


@pytest.mark.parametrize("name", AFFINE)
def test_affine_functions_are_seen(name):
    assert is_affine(traced(AFFINE[name]), [True, False])


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_never_taken_for_affine(name):
    assert not is_affine(traced(OTHERS[name]), [True, False])


def test_jumps_are_those_of_the_arguments_that_move():
    def switched(t, x):
        return jnp.sign(jnp.sin(t)) * x

    assert has_jumps(switched, (0.5, np.ones(2)), moving=(0,))
    assert not has_jumps(switched, (0.5, np.ones(2)), moving=(1,))


@pytest.mark.parametrize(
    "f, names",
    [
        (lambda x, t: jnp.abs(x[0]), ["abs"]),
        (lambda x, t: jnp.where(x[0] > 0.3, 1.0, 0.0), ["gt"]),
        (lambda x, t: jnp.max(x), ["reduce_max"]),
        (lambda x, t: jax.lax.cummin(x)[1], ["cummin"]),
        (lambda x, t: jnp.argmax(x) * 1.0, ["argmax"]),
        (lambda x, t: jnp.sort(x)[0], ["sort"]),
        (lambda x, t: jax.lax.rem(x[0], 0.7), ["rem"]),
        (lambda x, t: jnp.int32(x[0]) * 1.0, ["convert_element_type"]),
        (lambda x, t: jax.lax.cond(x[0] < t, jnp.sum, jnp.prod, x), ["lt", "convert_element_type"]),
        (lambda x, t: jnp.where(t > 0.3, jnp.sin(x[0]), jnp.exp(x[1])), []),
        (lambda x, t: x @ x + jnp.abs(t) * jnp.sum(x), []),
    ],
)
def test_corners_in_what_moves_are_named(f, names):
    arguments = np.array([0.5, 0.7]), 0.5
    assert corners(f, arguments, moving=0) == names
    assert is_rough(f, arguments, moving=0) == bool(names)


def test_roots_and_powers_have_no_corners_among_ordinary_numbers():
    def f(x):
        return jnp.sqrt(x) * x**1.5

    assert not corners(f, (0.5,), moving=0)
    assert is_rough(f, (0.5,), moving=0)


def test_newton_solves_affine_equations_at_once():
    root = at_one(lambda x: newton(lambda x: A @ x - jnp.arange(3.0), x, twice=True), np.zeros(3))
    assert root.ok
    assert int(root.iterations) == 1
    np.testing.assert_allclose(root.x, np.linalg.solve(A, np.arange(3.0)), rtol=1e-15)


def test_newton_does_not_call_singular_affine_equations_solved():
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert not at_one(lambda x: newton(lambda x: singular @ x - np.array([1.0, 0.0]), x, twice=True).ok, np.zeros(2))


@pytest.mark.parametrize("start", [0.5, 1.0, -2.0])
def test_a_matrix_that_is_zero_but_for_rounding_is_not_solved(start):
    """y - .1 · 10 y is 0 or, fused, -5.6e-17 y: a second update may lead back from where the first went."""
    root = at_one(
        lambda x, h: newton(lambda y: y - x - h * (10.0 * y), jnp.full(1, x), twice=True),
        np.array(start),
        np.array(0.1),
    )
    assert not root.ok


def test_two_updates_with_one_jacobian_converge_cubically():
    """On x² = 2 from √2 + e Newton's update leaves e₁ = e²/2x, and a second one with the same slope e₁ (e - e₁/2)/x."""
    x = 3.0
    for limit in (1, 2, 3):
        found = at_one(
            lambda x: newton(lambda x: x * x - 2.0, x, limit=limit, tol=0.0, twice=True).x[0], np.full(1, 3.0)
        )
        e = x - np.sqrt(2.0)
        assert abs(found - (np.sqrt(2.0) + e**2 / (2 * x) * (e - e**2 / (4 * x)) / x)) < 1e-15
        x = found


def test_a_second_update_with_one_jacobian_that_overshoots_is_not_taken():
    """From 3 the first update of e^x = 100 goes to 7, from where the slope at 3 would lead to -41."""
    root = newton(lambda x: jnp.exp(x) - 100.0, jnp.full(1, 3.0), twice=True)
    assert root.ok
    np.testing.assert_allclose(root.x, np.log(100.0), rtol=1e-14)


@pytest.mark.parametrize("n", [3, 40])
def test_dry_friction_has_no_slope_but_acts(n):
    """x' = -sign(x)/2 with a constraint z = x_0: x = 1 - t/2, few unknowns or many."""
    mass = np.diag(np.append(np.ones(n - 1), 0.0))
    problem = sd.SDAE(
        mass,
        lambda t, x: jnp.append(-0.5 * jnp.sign(x[:-1]), x[-1] - x[0]),
        lambda t, x: jnp.zeros((n, 1)),
        np.ones(n),
    )
    assert not problem.facts.is_affine
    run = sd.simulate(problem, t=(0, 1), dt=0.1, paths=1, seed=1, progress=False)
    np.testing.assert_allclose(run["mean"].isel(time=-1), 0.5, rtol=1e-12)


def test_dry_friction_of_a_hamiltonian_is_not_affine():
    problem = sd.Hamiltonian(
        lambda t, q, p: 0.5 * p[0] ** 2, start=([0.0], [1.0]), force=lambda t, q, p: -0.5 * jnp.sign(p)
    )
    found = problem.facts.depends(0, "push")
    assert found.affine_q
    assert not found.affine_p
    assert not found.affine


def gap(x):
    """A spring of stiffness 1 that meets a stop at 4."""
    return -x - 1e3 * jnp.maximum(x - 4.0, 0.0)


def test_equations_that_are_linear_only_near_zero_have_no_exact_answers():
    """States that were tried do not reach the stop; the trace shows it."""
    problem = sd.SDE(lambda t, x: gap(x), lambda t, x: 1.0, 0.0)
    with pytest.raises(ValueError, match="drift: linear in the states that were tried, but"):
        sd.analysis.linear.exact_moments(problem, 1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="VanLoan is made for linear systems"):
        sd.simulate(problem, "VanLoan", t=(0, 1), dt=0.5, paths=2, seed=1, progress=False)
    assert not are_exact(problem)
    assert are_exact(sd.SDE(lambda t, x: 1.0 - x, lambda t, x: 1.0, 0.0))
