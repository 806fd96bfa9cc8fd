"""Tangents beside paths: the derivatives of what a method computes, and paths that do not notice them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.numerics.newton import newton
from stodyn.problems.tangents import with_tangents

PARAMS = {"k": 1.3, "c": 0.21, "a": 1.1, "s": 0.53}


def duffing(t, x, p):
    return jnp.stack([x[1], -p["c"] * x[1] - p["k"] * x[0] - p["a"] * x[0] ** 3])


def noise(t, x, p):
    return jnp.array([[0.0], [1.0]]) * p["s"]


PROBLEMS = {
    sd.SDE: sd.SDE(duffing, noise, [1.0, 0.0], params=PARAMS, names=["x", "v"]),
    sd.Hamiltonian: sd.Hamiltonian(
        lambda t, q, p, c: 0.5 * p**2 / c["a"] - c["k"] * jnp.cos(q), lambda t, q, p, c: -c["s"] * q,
        lambda t, q, p, c: -c["c"] * p, start=(0.8, -0.3), params=PARAMS,
    ),
    sd.Mechanical: sd.Mechanical(
        lambda t, x, v, p: -p["c"] * v - p["k"] * x - p["a"] * x**3, lambda t, x, v, p: p["s"] * jnp.eye(2),
        (np.array([1.0, 0.5]), np.array([0.0, 0.1])), params=PARAMS,
    ),
    sd.SDAE: sd.SDAE(
        np.diag([1.0, 1.0, 0.0]),
        lambda t, x, p: jnp.stack(
            [x[1] - p["c"] * x[0] ** 3, -p["k"] * x[2] - p["c"] * x[1], x[0] - p["a"] * x[2] - 0.1 * x[2] ** 3]
        ),
        lambda t, x, p: jnp.array([[0.0], [1.0], [0.0]]) * p["s"], [1.2, 0.0, 1.0], params=PARAMS,
    ),
}  # fmt: skip
PENDULUM = sd.Mechanical(
    lambda t, x, v, p: jnp.stack([-p["c"] * v[0], -p["k"] - p["c"] * v[1]]), lambda t, x, v, p: p["s"] * jnp.eye(2),
    (np.array([1.0, 0.0]), np.zeros(2)), params=PARAMS, constraints=lambda t, q: q @ q - 1.0,
)  # fmt: skip
FAMILIES = (
    "EulerMaruyama", "RK4", "SRIW1", "DRI1", "Milstein", "AB4", "AM3", "ImplicitMidpoint", "BAOAB", "StoermerVerlet",
    "ImplicitEuler", "StochasticAlpha", "RattleAlpha",
)  # fmt: skip


def paths_of(problem, method, steps=8, count=4):
    run = sd.simulate(problem, method, t=(0, 0.02 * steps), dt=0.02, paths=count, seed=3, collect=st.Paths(count))
    return run["path"].values


def moved(problem, name, by):
    return problem.changed(params={**problem.params, name: problem.params[name] + by})


@pytest.mark.parametrize("name", FAMILIES)
def test_paths_keep_their_bits_and_tangents_are_their_derivatives(name):
    method = sd.method(name)
    problem = PENDULUM if name == "RattleAlpha" else PROBLEMS[method.accepts]
    alone, beside = paths_of(problem, method), paths_of(with_tangents(problem, ("k", "s")), method)
    n, ε = alone.shape[-1], 1e-5
    assert np.array_equal(alone, beside[..., :n])
    for j, param in enumerate(("k", "s")):
        difference = (paths_of(moved(problem, param, ε), method) - paths_of(moved(problem, param, -ε), method)) / (
            2 * ε
        )
        tangent = beside[..., n * (1 + j) : n * (2 + j)]
        np.testing.assert_allclose(tangent, difference, rtol=0, atol=1e-7 * np.abs(difference).max())


def test_a_problem_that_is_stepped_with_fewer_components_has_their_tangents():
    """An explicit method eliminates the algebraic component."""
    problem, ε = PROBLEMS[sd.SDAE], 1e-5
    linear = problem.changed(drift=lambda t, x, p: jnp.stack([x[1], -p["k"] * x[2], x[0] - p["a"] * x[2]]))
    beside = paths_of(with_tangents(linear, "a"), "AB2")
    difference = (paths_of(moved(linear, "a", ε), "AB2") - paths_of(moved(linear, "a", -ε), "AB2")) / (2 * ε)
    assert np.array_equal(beside[..., :2], paths_of(linear, "AB2"))
    np.testing.assert_allclose(beside[..., 2:], difference, rtol=0, atol=1e-7 * np.abs(difference).max())


def test_the_matrix_of_a_step_gives_the_tangents_that_are_sent_through_it():
    """With more directions than components, rows of the matrix of a step take the place of single tangents."""
    problem = PROBLEMS[sd.SDE]
    for method in ("Heun", "ImplicitMidpoint"):
        every = paths_of(with_tangents(problem, ("k", "c", "a", "s", "start.x")), method)
        one_by_one = [paths_of(with_tangents(problem, one), method)[..., 2:] for one in ("k", "c", "a", "s", "start.x")]
        np.testing.assert_allclose(every[..., 2:], np.concatenate(one_by_one, axis=-1), rtol=0, atol=1e-13)
        assert np.array_equal(every[..., :2], paths_of(problem, method))


def test_a_product_that_a_tangent_reads_too_is_rounded_as_without_it():
    """c x0 is added to x1 in one rounding, and is a term of the derivative of (k c) x0 as well."""
    problem = sd.SDE(
        lambda t, x, p: jnp.stack([p["c"] * x[0] + x[1], (p["k"] * p["c"]) * x[0]]), noise, [1.0, 0.3], params=PARAMS
    )
    alone = paths_of(problem, "EulerMaruyama", steps=40, count=16)
    assert np.array_equal(alone, paths_of(with_tangents(problem, "k"), "EulerMaruyama", 40, 16)[..., :2])


def test_the_derivative_of_a_root_may_have_its_own_solver():
    calls = []

    def root(c, **options):
        return newton(lambda x: x**3 + x - c, jnp.ones(2), **options).x

    def linear(slope, x, r):
        calls.append(True)
        return jnp.linalg.solve(jax.jacfwd(slope)(x), r)

    with jax.enable_x64(True):
        c = jnp.array([2.0, 10.0])
        own, usual = (
            jax.jvp(lambda c: root(c, **options), (c,), (jnp.ones(2),))[1] for options in ({"linear": linear}, {})
        )
        np.testing.assert_allclose(own, 1 / (3 * np.array([1.0, 2.0]) ** 2 + 1), rtol=1e-12)
        np.testing.assert_allclose(own, usual, rtol=1e-12)
        assert calls
        back = jax.grad(lambda c: jnp.sum(root(c, linear=linear)))(c)
        np.testing.assert_allclose(back, own, rtol=1e-12)


def test_entries_of_arrays_starts_and_statistics_of_tangents():
    """dx = (-k_0 x + k_1) dt + s dW by its exact mean: tangents are components, and Observables take them."""
    decay = sd.SDE(
        lambda t, x, p: -p["k"][0] * x + p["k"][1],
        lambda t, x: 0.1,
        1.0,
        params={"k": np.array([0.7, 0.4])},
        names=["x"],
    )
    problem = with_tangents(decay, ("k", "start.x"))
    assert problem.components == ("x", "dx/dk[0]", "dx/dk[1]", "dx/dstart.x")
    one = st.Observable(lambda t, x: x[1], name="by_rate", at=[1.0])
    run = sd.simulate(problem, "Heun", t=(0, 1), dt=1 / 64, paths=64, seed=1, collect=[one, st.Moments(at=[1.0])])
    e, (a, b) = np.exp(-0.7), (0.7, 0.4)
    exact = [(1 - e) / a, e]  # x(1) = e + b (1 - e)/a + noise
    np.testing.assert_allclose(run["mean"].values[-1, 2:], exact, rtol=1e-4)
    by_rate = -e + b * (e / a - (1 - e) / a**2)
    assert abs(run["by_rate"].values[-1] - by_rate) < 6 * run["by_rate_stderr"].values[-1] + 1e-4


@pytest.mark.parametrize(
    "of, error, words",
    [
        ("kk", ValueError, "'kk' is not among the problem's params; they are k, n, r, v"),
        ("n", TypeError, "n = 3 is a whole number, which has no derivative. Write n=3.0"),
        ("r", ValueError, "r differs from path to path"),
        (("k", "k"), ValueError, "'k' is there twice"),
        ((), TypeError, "expected names of parameters"),
        ("start.y", ValueError, "there is no component 'y'; the components are x"),
        ("v[7]", ValueError, "'v\\[7\\]' is not among"),
    ],
)
def test_names_that_have_no_derivative_are_refused_in_words(of, error, words):
    params = {"k": 1.0, "n": 3, "r": sd.PerPath([1.0, 2.0]), "v": np.ones(2)}
    problem = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x: 0.1, 1.0, params=params, names=["x"])
    with pytest.raises(error, match=words):
        with_tangents(problem, of)


def test_methods_without_steps_and_starts_on_constraints_are_refused():
    linear = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x: 0.1, 1.0, params={"k": 1.0})
    with pytest.raises(ValueError, match="VanLoan makes whole paths at once"):
        paths_of(with_tangents(linear, "k"), "VanLoan")
    with pytest.raises(ValueError, match="cannot be moved in one component alone"):
        with_tangents(PENDULUM, f"start.{PENDULUM.components[0]}")
