"""What is true of a problem's noise: additive, diagonal, scalar, commutative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.numerics.dependence import dependence
from stodyn.numerics.lanes import Unlaned
from stodyn.problems.contract import NoiseStructure

CHECKED_STATES = 64
Diffusion = Callable[[Any, Array, Any], Array]


def find_structure(g: Diffusion, x: Array, params: Any) -> NoiseStructure:
    """The structure of the noise of dx = ... + g(t, x, params) dW around the state x.

    Additive, diagonal and scalar are proved from the trace of g; where it cannot be taken apart, and for
    commutativity, g is looked at in random states around x.
    """
    n, m = jax.eval_shape(g, jnp.zeros(()), x, params).shape
    kinds, known = [], "proved from the trace"
    try:
        (entries,) = dependence(g, jnp.zeros(()), x, params)
        on_state = [
            [{i for a, i in e if a == 1} if isinstance(e, frozenset) else set() for e in row] for row in entries
        ]
        if not any(s for row in on_state for s in row):
            kinds.append("additive")
        if n == m and all(
            on_state[i][j] <= {i} if i == j else not isinstance(entries[i][j], frozenset) and entries[i][j] == 0
            for i in range(n)
            for j in range(m)
        ):
            kinds.append("diagonal")
    except Unlaned:
        known = f"checked at {CHECKED_STATES} random states"
        kinds += _checked_kinds(g, x, params)
    if m == 1:
        kinds.append("scalar")
    if kinds:
        return NoiseStructure((*kinds, "commutative"), known)
    if _commutes(g, x, params):
        return NoiseStructure(("commutative",), f"checked at {CHECKED_STATES} random states")
    return NoiseStructure((), f"checked at {CHECKED_STATES} random states")


def _random_states(x: Array) -> Array:
    """States around the start, for the checks that a trace cannot settle."""
    z = np.random.default_rng(2024).standard_normal((CHECKED_STATES, x.size))
    return x + z * (1.0 + jnp.abs(x))


def _checked_kinds(g: Diffusion, x: Array, params: Any) -> list[str]:
    states = _random_states(x)
    jacobians = np.asarray(jax.vmap(jax.jacfwd(lambda x: g(0.0, x, params)))(states))
    values = np.asarray(jax.vmap(lambda x: g(0.0, x, params))(states))
    finite = np.isfinite(jacobians).all((1, 2, 3)) & np.isfinite(values).all((1, 2))
    jacobians, values = jacobians[finite], values[finite]
    if len(values) < CHECKED_STATES // 8:
        return []
    n, m = values.shape[1:]
    kinds = ["additive"] if not jacobians.any() else []
    off = ~np.eye(n, m, dtype=bool)
    if n == m and not values[:, off].any():
        foreign = jacobians.copy()
        for i in range(n):
            foreign[:, i, i, i] = 0
        if not foreign.any():
            kinds.append("diagonal")
    return kinds


def _commutes(g: Diffusion, x: Array, params: Any) -> bool:
    def directional(x):  # [i, k, j] = sum over l of (∂g_ik/∂x_l) g_lj
        return jnp.einsum("ikl,lj->ikj", jax.jacfwd(lambda x: g(0.0, x, params))(x), g(0.0, x, params))

    products = np.asarray(jax.vmap(directional)(_random_states(x)))
    products = products[np.isfinite(products).all((1, 2, 3))]
    if len(products) < CHECKED_STATES // 8:
        return False
    scale = np.abs(products).max() + 1e-300
    return bool(np.abs(products - products.transpose(0, 1, 3, 2)).max() <= 1e-9 * scale)
