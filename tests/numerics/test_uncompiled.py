"""Traces computed by NumPy give what JAX gives."""

import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.numerics import uncompiled
from stodyn.numerics.printing.trace import interpret
from stodyn.numerics.sparse import find_pattern


def everything(t, x, M):
    y = jnp.concatenate([M @ x, x[1:] * jnp.sin(t)]) / (1.0 + t)
    first, rest = jnp.split(y, [2])
    z = jnp.where(t > 0.5, jnp.stack([first[0] ** 2, jnp.exp(-first[1])]), first * 0.0)
    return jnp.einsum("i,ij->j", z, M[:2]) + jnp.max(rest) + jnp.sum(jnp.sqrt(jnp.abs(rest)))


def test_a_bit_of_everything():
    rng = np.random.default_rng(0)
    M, x = rng.standard_normal((3, 3)), rng.standard_normal((5, 3))
    function = jax.vmap(everything, in_axes=(None, 0, None))
    for t in (0.3, 0.9):
        closed = jax.make_jaxpr(function)(t, x, M)
        np.testing.assert_allclose(uncompiled.run(closed, t, x, M)[0], jax.jit(function)(t, x, M), rtol=1e-13)


def looping(x, start):
    """Loops whose turns differ from point to point, branches that do, and what is gathered and scattered there."""
    root = jax.lax.while_loop(lambda r: jnp.abs(r * r - x[0]) > 1e-12, lambda r: 0.5 * (r + x[0] / r), start)
    chosen = jax.lax.cond(x[1] > 1.0, lambda: x * root, lambda: x - root)
    total, parts = jax.lax.scan(lambda sum, y: (sum + y * root, sum * y), jnp.zeros(()), chosen, reverse=True)
    place = jnp.argmax(chosen)
    return parts.at[place].set(total).at[0].add(root) + chosen[place], jnp.any(parts > 1.0), jnp.min(parts)


def test_loops_and_branches_at_one_point_and_at_many():
    x = np.random.default_rng(1).uniform(0.5, 2.0, (6, 3))
    many = jax.vmap(looping, in_axes=(0, None))
    for function, given in ((looping, x[0]), (many, x)):
        found = uncompiled.run(jax.make_jaxpr(function)(given, 1.0), given, 1.0)
        for value, expected in zip(found, jax.jit(function)(given, 1.0), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_numbers_without_a_whole_one_are_converted_as_xla_does(dtype):
    x = np.array([np.nan, np.inf, -np.inf, 1e300, -3.7, 2.5, 2.0**31, -0.0])
    found = uncompiled.value(lambda x: x.astype(dtype), x)
    np.testing.assert_array_equal(found, jax.lax.convert_element_type(jnp.asarray(x), dtype))


def test_the_sign_of_a_zero_is_that_zero():
    x = np.array([-0.0, 0.0, -2.0, 3.0, np.nan])
    found = uncompiled.value(jnp.sign, x)
    np.testing.assert_array_equal(found, [0.0, 0.0, -1.0, 1.0, np.nan])
    np.testing.assert_array_equal(np.signbit(found[:4]), [True, False, True, False])


def test_more_cases_than_numpy_chooses_from():
    def function(x):
        return jax.lax.select_n(x.astype(np.int32), *(jnp.full(3, 10.0 * k) for k in range(70)))

    np.testing.assert_array_equal(uncompiled.value(function, np.array([0.0, 33.0, 69.0])), [0.0, 330.0, 690.0])


I, J = np.random.default_rng(2).integers(-1, 7, (2, 9))
PLACED = {
    "rows": lambda x: x.at[I].add(x[J]).at[J].subtract(x[I] ** 2),
    "columns": lambda x: x.at[:, I].multiply(x[:, J]).at[:, J].max(0.3).at[:, I].min(0.8),
    "entries": lambda x: x.at[I, J].set(2.0).at[I, J].add(x[J, I]) + x[I[0], 1:3].sum(),
    "outside": lambda x: x.at[I + 4, J].add(1.0, mode="drop") + x.at[I + 4].get(mode="clip")[:7],
    "filled": lambda x: x.at[I + 4].get(mode="fill", fill_value=3.0)[:7] + x.at[I + 4].set(1.0, mode="clip"),
    "windows": lambda x: jax.lax.dynamic_update_slice(x, x[:2, :2], (6, 5)) + jax.lax.dynamic_slice(x, (9, 9), (7, 7)),
    "cumulative": lambda x: jnp.cumsum(jnp.floor(3 * x), axis=1) - jax.lax.cumsum(jnp.ceil(x), 0, reverse=True),
    "inverse": lambda x: jnp.arcsin(x) + jnp.arccos(x) * jnp.arctan(x) - jnp.arcsinh(jax.nn.sigmoid(jnp.cbrt(x))),
}


@pytest.mark.parametrize("name", PLACED)
def test_entries_are_read_and_written_where_jax_does(name):
    x = np.random.default_rng(3).uniform(-1.0, 1.0, (2, 7, 7))
    with jax.enable_x64(True):
        for function, given in ((PLACED[name], x[0]), (jax.vmap(PLACED[name]), x)):
            found = uncompiled.run(jax.make_jaxpr(function)(given), given)[0]
            np.testing.assert_allclose(found, jax.jit(function)(given), rtol=1e-14, atol=1e-15)


def test_what_numpy_has_no_word_for_is_left_to_jax():
    closed = jax.make_jaxpr(lambda x: jnp.linalg.inv(x))(np.eye(2))
    with pytest.raises(uncompiled.Compile):
        uncompiled.run(closed, np.eye(2))


def test_a_function_is_traced_once_for_its_shapes_and_compiled_where_numpy_has_no_word_for_it():
    traced = []

    def function(x, more):
        traced.append(x.shape)
        return {"sum": x.sum() + more["a"], "inverse": jnp.linalg.inv(x) if len(x) == 2 else x}

    called = uncompiled.Uncompiled(function)
    for size in (2, 3, 3):
        found = called(2.0 * np.eye(size), {"a": np.float32(1.0)})
        assert found["sum"] == 2.0 * size + 1.0 and found["inverse"][0, 0] == (0.5 if size == 2 else 2.0)
        assert all(type(value) is np.ndarray and value.dtype == float for value in found.values())
    assert traced == [(2, 2), (3, 3)]


def test_it_computes_while_something_else_is_traced():
    """As the pattern of a large circuit's equations is found while its step is traced."""
    order = np.random.default_rng(2).permutation(70)

    def step(y):
        pattern = find_pattern(lambda x: x[order] * 2.0, np.ones(70))
        return y * len(pattern.rows)

    assert jax.eval_shape(step, 1.0).shape == ()


def test_numbers_are_given_up_behind_their_last_reader():
    """All those of a long function at many points, kept to the end, take memory, and most of the time."""

    class Value:
        pass

    alive, most = weakref.WeakSet(), 0

    def made(*_):
        nonlocal most
        value = Value()
        alive.add(value)
        most = max(most, len(alive))
        return [value]

    def function(x):
        first = y = jnp.sin(x)
        for _ in range(30):
            y = jnp.sin(y)
        return y + first, x

    trace = jax.make_jaxpr(function)(1.0)
    results = interpret(trace, made(), made, lambda number: made()[0])
    assert len(results) == 2 and most <= 5
