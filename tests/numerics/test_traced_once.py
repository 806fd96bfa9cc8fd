"""A function read off its own trace."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.numerics.traced_once import TracedOnce


def test_it_is_traced_once_for_each_form_of_its_arguments():
    calls = []

    def function(x, more):
        calls.append(1)
        return {"sum": x.sum() * (1.0 if more is None else more), "where": jnp.where(x > 0.0, x**2, jnp.sin(x))}

    once = TracedOnce(function)
    with jax.enable_x64(True):
        x = jnp.array([-1.0, 2.0])
        for _ in range(2):
            np.testing.assert_array_equal(once(x, None)["where"], function(x, None)["where"])
        made = len(calls)
        jacobian = jax.jit(jax.jacfwd(lambda x: once(x, 2.0)["where"] * once(x, 2.0)["sum"]))
        expected = jax.jacfwd(lambda x: function(x, 2.0)["where"] * function(x, 2.0)["sum"])
        np.testing.assert_allclose(jacobian(x), jax.jit(expected)(x), rtol=1e-14)
        np.testing.assert_allclose(jax.jit(jax.vmap(once, (0, None)))(np.ones((3, 2)), 2.0)["sum"], 4.0)
    assert made == 3 and len(calls) == 3 + 1 + 2
    assert once(np.ones(2, np.float32), None)["sum"].dtype == np.float32


def doubled(x):
    return 2.0 * x


def test_it_travels_without_its_traces():
    once = TracedOnce(doubled)
    assert once(0.5) == 1.0 and once._cache
    other = pickle.loads(pickle.dumps(once))
    assert not other._cache and other(0.5) == once(0.5)
