"""Computations that few paths need: done where one of them needs it, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax


def rarely(needed: Array, function: Callable[[Any], Any], state: Any, loops: bool = True) -> Any:
    """function(state) where `needed`, and otherwise state.

    A loop of one turn, entered only by paths that need it: a printed program computes it only where one of a few paths
    does, and each path keeps its own values. Without `loops`, as steps of large systems are
    printed, it is computed for all paths and picked.
    """
    if not loops:
        return jax.tree.map(lambda new, old: jnp.where(needed, new, old), function(state), state)

    def turn(both):
        return jnp.zeros_like(both[0]), function(both[1])

    return lax.while_loop(lambda both: both[0], turn, (needed, state))[1]
