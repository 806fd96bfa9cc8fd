"""Zeros in arrays are exact in print, in loops and under vmap alike; a zero written as a number follows IEEE 754."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core

import stodyn as sd
from stodyn.numerics.as_written import as_written
from stodyn.numerics.facts.exact_zeros import exact_zeros
from stodyn.numerics.printing.points import at_points

N, LANES = 12, 16
FULL = np.random.default_rng(0).standard_normal((N, N))
BAND, HALF, HOLE = np.triu(np.tril(FULL, 1), -1), np.triu(FULL), FULL * (np.arange(N * N).reshape(N, N) != 29)
MASK = np.arange(N) % 3 / 2.0
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan)


def points():
    """Points that each hold three numbers at which a product with zero shows what it means."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((LANES, N))
    for row in x:
        row[rng.permutation(N)[:3]] = rng.choice(SPECIAL, 3)
    return x


CASES = {
    "zeros": lambda x: jnp.zeros(N) * x,
    "a mask": lambda x: MASK * jnp.log(x),
    "zeros and ones": lambda x: x * (np.arange(N) % 2.0),
    "a mask over x": lambda x: MASK / x,
    "x over a mask": lambda x: x / MASK,
    "a computed mask": lambda x: jnp.where(jnp.arange(N) < 3, 0.0, 2.0) * x,
    "a written zero": lambda x: 0.0 * x,
    "a written zero over x": lambda x: 0.0 / x,
    "full": lambda x: FULL @ x,
    "one zero": lambda x: HOLE @ x,
    "a band": lambda x: BAND @ x,
    "a band from the right": lambda x: x @ BAND,
    "half": lambda x: HALF @ x,
    "half from the right": lambda x: x @ HALF,
    "a scalar product": lambda x: jnp.dot(MASK, x),
    "a sum": lambda x: jnp.sum(MASK * x),
    "entries set": lambda x: jnp.zeros(N).at[np.array([1, 4])].set(x[:2]) * x[::-1],
    "entries added": lambda x: jnp.zeros(N).at[np.array([1, 4])].add(x[:2]) * x[::-1],
    "padding": lambda x: jnp.pad(x[2:5], (3, N - 6)) * x,
    "parts": lambda x: jnp.concatenate([jnp.zeros(3), x[3:]]) * x[::-1],
    "a slice": lambda x: lax.dynamic_update_slice(jnp.zeros(N), x[:2], (3,))[np.arange(N)[::-1]] * x,
    "a diagonal matrix": lambda x: jnp.diag(x) @ x,
    "a matrix of entries": lambda x: jnp.array([[x[0], 0.0], [0.0, x[1]]]) @ x[2:4],
    "a triangle": lambda x: jnp.tril(jnp.outer(x, x)) @ x,
    "a product of matrices": lambda x: HALF @ jnp.outer(x, x),
    "several products": lambda x: jnp.einsum("bij,bj->bi", np.stack([HALF, BAND]), jnp.stack([x, x[::-1]])),
    "a Jacobian": lambda x: jax.jacfwd(lambda y: jnp.sqrt(y) * jnp.roll(y, 1))(x),
    "a Jacobian of a product": lambda x: jax.jacfwd(lambda y: BAND @ jnp.sqrt(y))(x),
    "a zero by the state": lambda x: jnp.where(x > 0, jnp.zeros(N), x) * x[::-1],
    "an entry of zeros": lambda x: jnp.zeros(3)[0] * x,
    "branches": lambda x: lax.cond(x[0] > 0, lambda: MASK * x, lambda: MASK * x[::-1]),
    "a loop": lambda x: lax.fori_loop(0, 2, lambda i, y: MASK * y + BAND @ x, x),
    "a scan": lambda x: lax.scan(lambda c, r: (c + MASK * r * x, c @ MASK), x, x[:2])[0],
    "single precision": lambda x: (MASK.astype(np.float32) * x.astype(np.float32)).astype(float),
}


def every_case(x):
    return jnp.concatenate([jnp.ravel(function(x)) for function in CASES.values()])


@pytest.fixture(scope="module")
def in_print():
    return np.asarray(at_points(every_case, points()))


def by_case(values):
    sizes = [math.prod(jax.eval_shape(function, np.zeros(N)).shape) for function in CASES.values()]
    return dict(zip(CASES, np.split(values, np.cumsum(sizes)[:-1], 1), strict=True))


def assert_alike(found, in_print):
    expected = by_case(in_print)
    for name, values in by_case(found).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-6, atol=1e-12, err_msg=name)


def test_a_zero_in_an_array_times_anything_is_zero(in_print):
    x = points()
    with np.errstate(all="ignore"):
        expected = np.where(MASK == 0, 0.0, MASK * np.log(x))
        products = np.where(BAND == 0, 0.0, BAND * x[:, None, :]).sum(-1)
        by_ieee = 0.0 * x
    found = by_case(in_print)
    np.testing.assert_allclose(found["a mask"], expected, rtol=1e-13)
    np.testing.assert_allclose(found["a band"], products, rtol=1e-12)
    np.testing.assert_array_equal(found["a written zero"], by_ieee)


def test_zeros_mean_under_vmap_what_they_mean_in_print(in_print, quick_compiling):
    with jax.enable_x64(True):
        trace = exact_zeros(jax.make_jaxpr(every_case)(np.zeros(N)))
        (found,) = jax.jit(jax.vmap(core.jaxpr_as_fun(as_written(trace))))(points())
    assert_alike(np.asarray(found), in_print)


def test_zeros_mean_in_loops_what_they_mean_in_print(in_print, evaluated):
    assert_alike(evaluated(every_case, np.ascontiguousarray(points().T)).T, in_print)


@pytest.mark.parametrize("function", [lambda x: FULL @ x, lambda x: 0.0 * x + BAND[1], jnp.sin])
def test_traces_without_such_zeros_stay_as_they_are(function):
    trace = jax.make_jaxpr(function)(np.zeros(N))
    assert exact_zeros(trace) is trace


@pytest.mark.parametrize("executor", ["printed", "vmap"])
def test_a_path_lives_where_only_a_zero_meets_what_is_not_finite(executor, quick_compiling):
    """log x of a negative component is NaN; a row of zeros takes none of it, where a written zero takes all."""
    rows = np.array([[-1.0, 0.0], [0.0, 0.0]])
    options = dict(t=(0, 0.1), dt=0.1, paths=2, seed=1, executor=executor, on_failure="record")
    for drift, left in ((lambda t, x: rows @ jnp.log(x), 2), (lambda t, x: 0.0 * jnp.log(x), 0)):
        problem = sd.SDE(drift, lambda t, x: 0.1 * jnp.eye(2), [1.0, -1.0])
        assert sd.simulate(problem, "EulerMaruyama", **options)["paths_used"].values[-1] == left
