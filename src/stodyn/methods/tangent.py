"""A method with the tangents of its paths: the derivatives of every step, as further state.

A step is linearised where it is, and its linear part applied to each tangent, so that the path itself is computed once
and has the same bits as without tangents. Implicit steps are differentiated as the equations that they solve, with the
matrix at their root, never through the iteration (numerics.newton).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.methods.contract import Method
from stodyn.methods.wrapping import WrappedSteps
from stodyn.numerics.elimination import WRITTEN_OUT
from stodyn.numerics.newton import derived_forwards
from stodyn.numerics.printing.operations import LinearSolve, While, operation_of, traces_inside
from stodyn.problems.tangents import WithTangents


def following(method: Any, problem: WithTangents) -> Method:
    """The method with the tangents of a problem; refuses methods that make no steps."""
    if not isinstance(method, Method):
        raise ValueError(
            f"method: {method.name} makes whole paths at once, and has no step whose derivative could be taken; take "
            "a method that makes steps, such as Heun"
        )
    return Tangent(method)


@dataclasses.dataclass(frozen=True)
class Tangent(WrappedSteps):
    """A step of the method and its derivatives; its state: that of the method, and for each direction the derivatives
    of the real numbers in it."""

    accepts = WithTangents

    def start(self, problem, t, x, params):
        n = problem.problem.n
        own, rows = x[:n], x[n:].reshape(len(problem.directions), n)

        def begun(x, params):
            return self.method.start(problem.problem, t, x, params), None

        return _pushed(problem, begun, (own, [[row] for row in rows]), params)[0]

    def step(self, problem, t, state, noise, params):
        def step(own, params):
            return self.method.step(problem.problem, t, own, noise, params)

        return _pushed(problem, step, state, params)

    def starting_step(self, k, problem, t, state, noise, params):
        def step(own, params):
            return self.method.starting_step(k, problem.problem, t, own, noise, params)

        return _pushed(problem, step, state, params)

    def after_jump(self, problem, t, state, params):
        def jumped(own, params):
            return self.method.after_jump(problem.problem, t, own, params), None

        return _pushed(problem, jumped, state, params)[0]

    def leading(self, state):
        return self.method.leading(state[0])

    def read(self, state):
        own, tangents = state

        def shown(reals):
            return self.method.read(_with_reals(own, reals))

        _, push = jax.linearize(shown, _reals(own))
        return jnp.concatenate([self.method.read(own), *map(push, tangents)])


Followed = tuple[Any, list[list[jax.Array]]]  # a state, and for each direction the derivatives of its reals


def _pushed(
    problem: WithTangents, function: Callable[[Any, Any], tuple[Any, Any]], state: Followed, params: Any
) -> tuple[Followed, Any]:
    """A function (state, params) -> (state, report) of a state with its tangents."""
    own, tangents = state
    outcomes: list[Any] = []

    def moved(reals, values):
        outcomes.append(function(_with_reals(own, reals), problem.with_values(params, values)))
        return _reals(outcomes[-1][0]), [x for x in jax.tree.leaves(outcomes[-1]) if isinstance(x, jax.Array)]

    with derived_forwards():
        reals, push, arrays = _linearised(moved, _reals(own), problem.values(params))
    tree: Any
    leaves, tree = jax.tree.flatten(outcomes[0])  # numbers that are no arrays, as in EXPLICIT, stay as they are
    values = iter(arrays)
    after, report = tree.unflatten([next(values) if isinstance(x, jax.Array) else x for x in leaves])
    return (_with_reals(after, reals), _carried(push, tangents, problem.value_tangents)), report


def _linearised(function: Callable[..., tuple[Any, Any]], *at: Any) -> tuple[Any, Callable[..., Any], Any]:
    """The result of a function, the linear map of its tangents, and what it gives beside its result.

    JAX 0.11 cannot linearise the derivatives of a root again, of which it knows each derivative along a direction.
    """
    try:
        return jax.linearize(function, *at, has_aux=True)
    except NotImplementedError:
        result, beside = function(*at)
        return result, lambda *along: jax.jvp(lambda *at: function(*at)[0], at, along)[1], beside


def _carried(push: Callable, tangents: list[list[jax.Array]], rows: np.ndarray) -> list[list[jax.Array]]:
    """Each tangent after a linear map of (tangent, tangent of the values), which is a row of `rows`.

    Where the map has fewer results than there are directions, by its matrix, which is computed backwards, row by row:
    a row costs about as much as sending a tangent through all operations. Few tangents are sent together, so that they
    share the loops of small solves; large systems are loops over arrays, one tangent after the other.
    """
    dtype = tangents[0][0].dtype
    sent = [jnp.asarray(row, dtype) for row in rows]
    shapes = [part.shape for part in jax.eval_shape(push, tangents[0], sent[0])]
    count = sum(map(math.prod, shapes))
    if count > WRITTEN_OUT:
        return [push(tangent, row) for tangent, row in zip(tangents, sent, strict=True)]
    if count >= len(tangents) or not _has_transpose(jax.make_jaxpr(push)(tangents[0], sent[0]).jaxpr):
        batch = jax.vmap(push)([jnp.stack(parts) for parts in zip(*tangents, strict=True)], jnp.stack(sent))
        return [[part[k] for part in batch] for k in range(len(tangents))]
    pull = jax.linear_transpose(push, tangents[0], sent[0])
    matrix = [pull(_parted(jnp.asarray(unit), shapes)) for unit in np.eye(count, dtype=dtype)]

    def product(row: Any, tangent: list[jax.Array], along: np.ndarray) -> jax.Array:
        parts = [jnp.sum(a * b) for a, b in zip(row[0], tangent, strict=True)]
        return functools.reduce(jnp.add, [*parts, *(row[1][k] for k in np.flatnonzero(along))])

    return [
        _parted(jnp.stack([product(row, tangent, along) for row in matrix]), shapes)
        for tangent, along in zip(tangents, rows, strict=True)
    ]


def _has_transpose(trace: Any) -> bool:
    """Whether JAX can transpose a linear map: loops without a known number of turns are allowed inside of solves."""
    for equation in trace.eqns:
        how = operation_of(equation).how
        if isinstance(how, LinearSolve):
            if not how.has_transpose:
                return False
        elif isinstance(how, While) or not all(_has_transpose(t.jaxpr) for t in traces_inside(equation)):
            return False
    return True


def _parted(vector: jax.Array, shapes: list[tuple[int, ...]]) -> list[jax.Array]:
    """A vector as arrays of these shapes."""
    parts = jnp.split(vector, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _is_real(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.floating)


def _reals(state: Any) -> list[jax.Array]:
    """The arrays of reals in a state."""
    return [jnp.asarray(leaf) for leaf in jax.tree.leaves(state) if _is_real(leaf)]


def _with_reals(state: Any, reals: list[Any]) -> Any:
    """The state with other values of its reals."""
    tree: Any
    leaves, tree = jax.tree.flatten(state)
    values = iter(reals)
    return tree.unflatten([next(values) if _is_real(leaf) else leaf for leaf in leaves])
