"""Traces computed by NumPy give what JAX gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.numerics import uncompiled


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
        np.testing.assert_allclose(uncompiled.run(closed, t, x, M)[0], function(t, x, M), rtol=1e-13)


def test_what_numpy_has_no_word_for_is_left_to_jax():
    closed = jax.make_jaxpr(lambda x: jnp.linalg.inv(x))(np.eye(2))
    with pytest.raises(uncompiled.Compile):
        uncompiled.run(closed, np.eye(2))
