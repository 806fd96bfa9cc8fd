"""Loops whose number of turns is known only while they run, and which can still be derived in reverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend import core


def turns(count: Array, most: int, body: Callable[[Array, Any], Any], begin: Any) -> Any:
    """The state after turns k = 0, 1, ..., count - 1 of state <- body(k, state), with count <= most.

    The loop ends after `count` turns. Its derivatives are those of one with `most` turns, of which those after `count`
    are left out: JAX derives only loops of a fixed length in reverse.
    """
    leaves, tree = jax.tree.flatten(begin)
    zero = jnp.zeros_like(count)
    traced = jax.make_jaxpr(lambda k, *leaves: jax.tree.leaves(body(k, jax.tree.unflatten(tree, leaves))))(
        zero, *leaves
    )

    def turn(constants: Any, k: Array, state: Any) -> list[Array]:
        return core.jaxpr_as_fun(core.ClosedJaxpr(traced.jaxpr, constants))(k, *state)

    @jax.custom_jvp
    def run(constants: Any, count: Array, begin: Any) -> Any:
        state = zero, begin
        return lax.while_loop(lambda state: state[0] < count, lambda s: (s[0] + 1, turn(constants, *s)), state)[1]

    def run_all(constants: Any, count: Array, begin: Any) -> Any:
        def counted(state: Any, k: Array) -> Any:
            return [
                jnp.where(k < count, new, old) for new, old in zip(turn(constants, k, state), state, strict=True)
            ], None

        return lax.scan(counted, begin, jnp.arange(most, dtype=zero.dtype))[0]

    run.defjvp(lambda primals, tangents: jax.jvp(run_all, primals, tangents))
    return jax.tree.unflatten(tree, run(traced.consts, count, leaves))
