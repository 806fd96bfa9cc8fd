"""Which scalars of a function's result depend on which scalars of its arguments: a proof from the trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics import lanes


def dependence(function: Callable, *arguments: Any) -> list[np.ndarray]:
    """For each output array of `function`, an object array whose entries are the number itself where it is a constant,
    or else the frozenset of (argument, flat index) pairs it may depend on.

    The trace is taken apart scalar by scalar, so that a zero of a Jacobian or of a diagonal matrix is seen as one.
    Raises lanes.Unlaned where the trace cannot be taken apart.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    leaves = jax.tree.leaves(arguments)
    labels = [
        (number, index)
        for number, argument in enumerate(arguments)
        for leaf in jax.tree.leaves(argument)
        for index in range(np.size(leaf))
    ]

    def scalars(*flat):
        outputs.extend(lanes.evaluate(closed, lanes.unflatten(flat, [np.shape(leaf) for leaf in leaves]), None))
        return [entry for output in outputs for entry in output.ravel() if not lanes.is_known(entry)]

    outputs: list[np.ndarray] = []
    dtypes = [variable.aval.dtype for variable in closed.jaxpr.invars]
    examples = [
        jax.ShapeDtypeStruct((), d) for leaf, d in zip(leaves, dtypes, strict=True) for _ in range(np.size(leaf))
    ]
    flat_jaxpr = jax.make_jaxpr(scalars)(*examples).jaxpr
    reached: dict[Any, frozenset] = {v: frozenset([label]) for v, label in zip(flat_jaxpr.invars, labels, strict=True)}

    def of(variable: Any) -> frozenset:
        return frozenset() if isinstance(variable, core.Literal) else reached.get(variable, frozenset())

    for equation in flat_jaxpr.eqns:
        union = frozenset().union(*(of(v) for v in equation.invars))
        for variable in equation.outvars:
            reached[variable] = union
    found = iter(flat_jaxpr.outvars)
    result = []
    for output in outputs:
        sets = np.empty(output.shape, object)
        for index in np.ndindex(output.shape):
            sets[index] = output[index] if lanes.is_known(output[index]) else of(next(found))
        result.append(sets)
    return result
