"""Functions of one point over many, printed: the numbers of jax.vmap, whatever differs from point to point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from stodyn.numerics.printing import points
from stodyn.numerics.printing.points import AtPoints, _Loop, at_points

rng = np.random.default_rng(0)
TIMES, STATES = rng.standard_normal(7), rng.standard_normal((7, 3))
PARAMS = {"k": np.arange(7), "j": np.float64(2.0)}
AXES = (0, 0, {"k": 0, "j": None})


def several(t, x, p):
    """Results of several types and shapes, one of them the same everywhere."""
    positive = jnp.stack([x[0] > 0, x[1] > 1])
    return {"number": jnp.sin(t) * x @ x + p["k"] * p["j"], "truth": positive, "matrix": jnp.outer(x, x), "three": 3.0}


def solved(t, x, p):
    """By LAPACK, which is not printed."""
    return jnp.linalg.solve(jnp.eye(3) + 0.1 * jnp.outer(x, x), x) * t


@pytest.mark.parametrize("function", [several, solved])
@pytest.mark.parametrize("few", [0, 1])
def test_the_numbers_are_those_of_vmap(function, few):
    found = AtPoints(function, AXES, few)(TIMES, STATES, PARAMS)
    expected = jax.jit(jax.vmap(function, in_axes=AXES))(TIMES, STATES, PARAMS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14), found, expected)
    assert jax.tree.map(lambda a: (a.shape, a.dtype), found) == jax.tree.map(lambda a: (a.shape, a.dtype), expected)


def test_points_last_and_other_numbers_of_points():
    """One compiled function serves every number of points, and takes them from either end of an argument."""
    twice = AtPoints(lambda x, y: x @ y, (0, -1))
    for count in (1, 5, 64):
        x, y = rng.standard_normal((count, 3)), rng.standard_normal((3, count))
        np.testing.assert_allclose(twice(x, y), np.einsum("pi,ip->p", x, y), rtol=1e-14, atol=1e-15)


def test_derivatives_of_loops_over_whole_numbers():
    """JAX gives whole numbers derivatives of a type of its own, float0: they are printed as nothing."""

    def power(x):
        return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x))[1]

    x = np.array([0.5, -1.5, 2.0])
    np.testing.assert_allclose(at_points(jax.jacfwd(power), x), 4 * x**3, rtol=1e-14)


@pytest.mark.parametrize("how", ["add", "set", "max", "multiply"])
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8])
def test_places_outside_are_moved_inside_where_the_user_says_so(how, dtype):
    """Written or combined with mode="clip", one place after another: they were dropped."""
    places = np.array([[-90, 1], [1, 3], [0, 99], [2, 0]], np.int64).astype(dtype)
    values = np.random.default_rng(4).standard_normal((4, 3))
    for shape in ((3,), (3, 1)):

        def function(x, k, shape=shape):
            entries = x.reshape(shape).at[(k,) + (0,) * (len(shape) - 1)]
            return getattr(entries, how)(jnp.array([0.5, 3.0]), mode="clip")

        assert np.array_equal(at_points(function, values, places), jax.vmap(function)(values, places))


def test_what_is_compiled_is_kept_under_what_the_function_says():
    """A function that says the same takes the same program, another one its own, though its name is the same."""
    scale = 2.0

    def scaled(x):
        return scale * x

    assert at_points(scaled, np.ones(2)).tolist() == [2.0, 2.0]
    kept = set(points._loops)
    assert at_points(lambda x: 2.0 * x, np.ones(2)).tolist() == [2.0, 2.0] and set(points._loops) == kept
    scale = 3.0
    assert at_points(scaled, np.ones(2)).tolist() == [3.0, 3.0] and len(set(points._loops) - kept) == 1


def test_entries_that_are_known_or_the_same_are_not_computed_again():
    """Of a diagonal matrix of 30 numbers there are 30 to compute, not 900."""
    points = np.random.default_rng(3).standard_normal((4, 30))

    def function(x):
        return jnp.diag(x), jnp.arange(-2, 1), jnp.asarray([True, False]), jnp.concatenate([x[:2] + 1.0, x[:1] + 1.0])

    diagonal, counted, truths, repeated = at_points(function, points)
    np.testing.assert_array_equal(diagonal, points[:, :, None] * np.eye(30))
    np.testing.assert_array_equal(repeated, points[:, [0, 1, 0]] + 1.0)
    assert (counted == [-2, -1, 0]).all() and counted.dtype.kind == "i" and (truths == [True, False]).all()
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(lambda x: jnp.diag(x))(points[0])
    assert _Loop(closed, [True]).count == 30


@pytest.mark.parametrize("index", [jnp.int8, jnp.uint8, jnp.int32])
def test_an_index_of_few_bits_into_a_longer_table_is_printed(index):
    """An int8 counts to 127, and reads what lies there; entries beyond are out of its reach."""
    table, x = np.linspace(0.0, 1.0, 200), np.arange(2.0, 128.0, 5.0)
    found = AtPoints(lambda x: lax.dynamic_slice(table, (index(x),), (1,))[0])(x)
    closed = jax.make_jaxpr(lambda x: lax.dynamic_slice(table, (index(x),), (1,)))(0.0)
    assert points._printed(closed, [True]) is not None
    np.testing.assert_array_equal(found, table[x.astype(int)])


def test_long_functions_that_are_not_printed_are_not_compiled_by_xla(monkeypatch):
    """It takes minutes for a derivative through hundreds of steps that are written out; NumPy takes milliseconds."""

    def steps(x):
        for _ in range(40):
            x = x + 0.01 * jnp.sin(x) * jnp.roll(x, 1)
        return x

    def refused(*_, **__):
        raise AssertionError("compiled by XLA")

    x = np.random.default_rng(1).normal(size=(5, 4))
    printed = AtPoints(jax.jacfwd(steps))(x)
    monkeypatch.setattr(points, "MOST_OPERATIONS", 1000)
    monkeypatch.setattr(points, "_loops", {})
    monkeypatch.setattr(points.jax, "jit", lambda function, **_: refused)
    np.testing.assert_allclose(AtPoints(jax.jacfwd(steps))(x), printed, rtol=1e-12, atol=1e-13)


def test_what_is_the_same_at_all_points_is_no_constant_of_the_compiled_program():
    """It was computed beforehand, and held for each of the points: 5 GB for a drift of 60 components in the fuzz."""

    def chosen(x):
        return lax.switch(jnp.sign(x[0]).astype(int) % 3, [lambda: jnp.arange(6.0), lambda: jnp.sort(x), lambda: x])

    x = np.linspace(-1.0, 1.0, 606).reshape(101, 6)
    x[50] = 0.0
    before = jax.config.jax_captured_constants_warn_bytes
    jax.config.update("jax_captured_constants_warn_bytes", 10_000)  # told by a warning, which fails a test
    try:
        slopes = AtPoints(jax.jacfwd(chosen))(x)
    finally:
        jax.config.update("jax_captured_constants_warn_bytes", before)
    np.testing.assert_array_equal(slopes, x.any(axis=1)[:, None, None] * np.eye(6))


def test_numpy_takes_many_points_in_parts(monkeypatch):
    """All that is computed on the way is kept to the end, which for many points at once were gigabytes."""
    x, seen, run = np.random.default_rng(0).normal(size=(10, 3)), [], points.uncompiled.run
    monkeypatch.setattr(points, "MOST_COMPILED", 0)
    monkeypatch.setattr(points, "MOST_OPERATIONS", 0)
    monkeypatch.setattr(points, "AT_ONCE", 4 * 6)
    monkeypatch.setattr(points.uncompiled, "run", lambda trace, *a: seen.append(len(a[0])) or run(trace, *a))
    np.testing.assert_allclose(AtPoints(lambda x, a: a * jnp.tanh(x), (0, None))(x, 2.0), 2.0 * np.tanh(x), rtol=1e-15)
    assert seen == [4, 4, 2]


def test_how_many_numbers_a_function_makes():
    times_two = AtPoints(lambda t, x: jnp.sin(x) * 2.0 + t, (0, -1))
    assert times_two.numbers_made(np.ones(7), np.ones((3, 7))) == 3 * 3
