"""XLA computes exponentials as they are written, where its algebra would give another number at their limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from stodyn.numerics.as_written import as_written


@jax.custom_jvp
def soft(x):
    return jnp.log(jnp.exp(x))


soft.defjvp(lambda primals, tangents: (soft(primals[0]), tangents[0]))
REWRITTEN = {
    "log of exp": lambda x: jnp.log(jnp.exp(x)),
    "product": lambda x: jnp.exp(x) * jax.jit(jnp.exp)(-x),
    "quotient": lambda x: jnp.exp(x) / jnp.exp(x - 1.0),
    "power": lambda x: jnp.power(jnp.exp(x), 0.5),
    "a truth value": lambda x: (x < 0.0) * jnp.exp(x),
    "in a custom derivative": lambda x: soft(x),
    "in a loop": lambda x: jax.lax.fori_loop(0, 1, lambda _, y: jnp.log(jnp.exp(y)), x),
    "in a branch": lambda x: jax.lax.cond(x > 0.0, lambda: jnp.log(jnp.exp(x)), lambda: x),
}
LIMITS = {
    800.0: [np.inf, np.nan, np.nan, np.inf, np.nan, np.inf, np.inf, np.inf],
    1.0: [1.0, 1.0, np.e, np.exp(0.5), 0.0, 1.0, 1.0, 1.0],
}


def test_exponentials_overflow_under_vmap_as_they_do_in_print(quick_compiling):
    trace = jax.make_jaxpr(lambda x: jnp.stack([function(x) for function in REWRITTEN.values()]))(1.0)
    (found,) = jax.jit(jax.vmap(core.jaxpr_as_fun(as_written(trace))))(jnp.array(list(LIMITS)))
    np.testing.assert_allclose(found, list(LIMITS.values()), rtol=1e-14)


@pytest.mark.parametrize("name", REWRITTEN)
def test_every_rewriting_has_a_barrier(name):
    assert "optimization_barrier" in str(as_written(jax.make_jaxpr(REWRITTEN[name])(1.0)))


@pytest.mark.parametrize("function", [jnp.exp, lambda x: x * jnp.exp(-x), lambda x: x / jnp.exp(x), jnp.log])
def test_other_traces_stay_as_they_are(function):
    trace = jax.make_jaxpr(function)(1.0)
    assert as_written(trace) is trace
