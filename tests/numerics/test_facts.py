"""What is proved of single entries: alike by scalars and by whole arrays, and never against derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from stodyn.numerics import uncompiled
from stodyn.numerics.facts import entries
from stodyn.numerics.facts.dependence import arguments_of, dependence, dependence_by_arrays, varies_by_arrays
from stodyn.numerics.printing.unprintable import Unprintable

N = 5
HALF = np.triu(np.arange(1.0, 26.0).reshape(N, N))
WHICH = np.arange(N) % 2 == 0

FUNCTIONS = {
    "a matrix": lambda t, x: HALF @ x + t,
    "a Jacobian": lambda t, x: jax.jacfwd(lambda y: HALF @ jnp.sin(y) + y * jnp.roll(y, 1))(x),
    "a product of two matrices": lambda t, x: (HALF * x) @ jnp.diag(x),
    "several products": lambda t, x: jnp.einsum("bij,bj->bi", np.stack([HALF, HALF.T]), jnp.stack([x, x * t])),
    "known sums times x": lambda t, x: (WHICH * 1.0 - WHICH).sum() * x,
    "a written zero": lambda t, x: 0.0 * x + t,
    "a known choice": lambda t, x: jnp.where(WHICH, x, t),
    "a choice by x": lambda t, x: jnp.where(x > 0, t, x[::-1]),
    "a choice among equals": lambda t, x: jnp.where(x > 0, np.ones(N), np.ones(N)) * t,
    "entries added": lambda t, x: jnp.zeros(N).at[np.array([1, 1, 7])].add(x[:3]) * t,
    "entries set": lambda t, x: jnp.asarray(x).at[np.array([0, 3])].set(t),
    "entries outside": lambda t, x: jnp.asarray(x).at[np.array([3, 9])].get(mode="fill", fill_value=1.0),
    "a slice": lambda t, x: lax.dynamic_update_slice(jnp.zeros(N), x[:2] * t, (3,)),
    "parts": lambda t, x: jnp.concatenate([x[3:], jnp.pad(x[:1], (1, 1)), -x[:2] / t]),
    "a largest number": lambda t, x: jnp.max(jnp.outer(x, HALF[3]), axis=1),
}


def proofs(function):
    arguments = (np.array(0.7), np.linspace(1.0, 2.0, N))
    with jax.enable_x64(True):
        trace = jax.make_jaxpr(function)(*arguments)
        return dependence(function, *arguments), dependence_by_arrays(trace, arguments), arguments


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole_arrays_tell_what_scalars_tell(name):
    by_scalars, by_arrays, _ = proofs(FUNCTIONS[name])
    np.testing.assert_array_equal(by_arrays.rows.toarray(), by_scalars.rows.toarray())
    np.testing.assert_array_equal(by_arrays.zero, by_scalars.zero)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_slope_is_where_no_dependence_is(name):
    function = FUNCTIONS[name]
    found, _, arguments = proofs(function)
    assert not uncompiled.value(function, *arguments)[found.zero].any()
    for k, x in enumerate(arguments):
        slope = uncompiled.value(jax.jacfwd(function, argnums=k), *arguments)
        assert not slope.reshape(found.zero.size, np.size(x))[~found.on(k).toarray()].any()


def test_entries_changed_by_a_function_depend_on_what_they_were():
    """Of which JAX has no derivatives."""
    by_scalars, by_arrays, _ = proofs(lambda t, x: (x * t).at[np.array([1, 3])].apply(jnp.cos))
    np.testing.assert_array_equal(by_arrays.rows.toarray(), by_scalars.rows.toarray())
    assert not by_arrays.zero.any()


def test_arguments_are_numbered_through_their_leaves():
    def function(t, x, params):
        return params["a"] * t + 0.0 * x + params["b"][1]

    example = (np.array(1.0), np.ones(3), {"a": np.array(2.0), "b": np.ones(2)})
    assert arguments_of(function, *example) == {0, 2}
    with pytest.raises(Unprintable, match="sort"):
        arguments_of(lambda t, x, params: jnp.sort(x), *example)
    np.testing.assert_array_equal(dependence(function, *example).varies((0, 1)), np.ones(3, bool))


def varying(function, moving):
    arguments = (np.array(0.7), np.linspace(1.0, 2.0, N))
    with jax.enable_x64(True):
        return varies_by_arrays(jax.make_jaxpr(function)(*arguments), arguments, moving)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_followed_as_one_tell_what_their_numbers_tell(name):
    by_numbers = proofs(FUNCTIONS[name])[1]
    for moving in ((0,), (1,), (0, 1)):
        np.testing.assert_array_equal(varying(FUNCTIONS[name], moving), by_numbers.varies(moving))


def test_products_of_full_matrices_are_not_followed_one_by_one(monkeypatch):
    """Those of a network of 300 are 27 million, and each took memory and time."""
    function = FUNCTIONS["a product of two matrices"]
    whole = varying(function, (1,))
    monkeypatch.setattr(entries, "_live_pairs", None)
    np.testing.assert_array_equal(varying(function, (1,)), whole)
    assert whole.any() and not whole.all()


def test_arrays_too_large_to_be_followed_prove_nothing(monkeypatch):
    monkeypatch.setattr(entries, "LIVE", N * N - 1)
    assert varying(FUNCTIONS["a matrix"], (1,)).all()
    with pytest.raises(Unprintable, match="not among the operations that are followed"):
        varying(FUNCTIONS["a product of two matrices"], (1,))
