"""The one walk through the equations of a trace.

Whoever asks something of a trace gives the answer for one operation and for one number written in it:

    results = interpret(closed, inputs, apply, literal)      # apply(operation, values) -> a value for each result

A value may be anything: an array, a node of a graph, what is known of an array. Functions that a trace calls are
opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics.printing.operations import (
    CALLS,
    Cond,
    Operation,
    Platform,
    called_by,
    equations_of,
    operation_of,
    traces_inside,
)

Of = TypeVar("Of")


def interpret(
    trace: core.ClosedJaxpr | core.Jaxpr,
    inputs: Sequence[Of],
    apply: Callable[[Operation, list[Of]], Sequence[Of]],
    literal: Callable[[Any], Of],
    calls: set[str] = CALLS,
) -> list[Of]:
    """The values of a trace's outputs for those of its inputs; a value is given up behind its last reader.

    `apply` gives the values of an operation's results, `literal` that of a number or captured array in the trace, and
    `calls` names the operations that are opened: the trace they hold is walked in their place.
    """
    jaxpr, captured = (trace.jaxpr, trace.consts) if isinstance(trace, core.ClosedJaxpr) else (trace, ())
    values: dict[Any, Of] = dict(zip(jaxpr.invars, inputs, strict=True))
    values.update(zip(jaxpr.constvars, map(literal, captured), strict=True))

    def read(variable: Any) -> Of:
        return literal(literal_value(variable)) if isinstance(variable, core.Literal) else values[variable]

    def results_of(equation: Any, operands: list[Of]) -> Sequence[Of]:
        called = called_by(equation) if equation.primitive.name in calls else None
        if called is not None:
            return interpret(called, operands, apply, literal, calls)
        operation = operation_of(equation)
        if isinstance(operation.how, Platform):
            return [literal(np.int32(operation.how.number))]
        if isinstance(operation.how, Cond) and operation.how.chosen is not None:
            return interpret(operation.how.branches[operation.how.chosen], operands[1:], apply, literal, calls)
        return apply(operation, operands)

    for equation, over in zip(jaxpr.eqns, _last_read(jaxpr), strict=True):
        values.update(zip(equation.outvars, results_of(equation, [*map(read, equation.invars)]), strict=True))
        for variable in over:
            del values[variable]
    return [read(variable) for variable in jaxpr.outvars]


def _last_read(jaxpr: core.Jaxpr) -> list[list[Any]]:
    """For each equation of a trace, the variables that nothing reads after it."""
    read, over = set(_variables(jaxpr.outvars)), []
    for equation in reversed(jaxpr.eqns):
        last = set(_variables((*equation.invars, *equation.outvars))) - read
        read |= last
        over.append(list(last))
    return over[::-1]


def _variables(operands: Sequence[Any]) -> list[Any]:
    return [v for v in operands if not isinstance(v, core.Literal)]


def retraced(function: Callable[..., Any], trace: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The trace of another function of the same inputs."""
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, weak_type=v.aval.weak_type) for v in trace.jaxpr.invars]
    return jax.make_jaxpr(function)(*shapes)


def owners(arguments: Sequence[Any]) -> list[int]:
    """Return, for every input of the trace of a function, the number of the argument that it belongs to."""
    return [number for number, argument in enumerate(arguments) for _ in jax.tree.leaves(argument)]


def literal_value(literal: Any) -> np.ndarray:
    """The number written in a trace in place of a variable, in its own dtype."""
    return np.asarray(literal.val, literal.aval.dtype)


def count_operations(jaxpr: core.Jaxpr) -> int:
    """How many operations on arrays a trace has, those of its inner functions and loop bodies included."""
    return sum(not traces_inside(equation) for equation in equations_of(jaxpr))
