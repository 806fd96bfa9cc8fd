"""Traces that XLA compiles as they are written.

XLA takes log(exp(x)) for x, exp(x) exp(y) for exp(x + y), exp(x)/exp(y) for exp(x - y) and exp(x)^y for exp(x y). Where
an exponential overflows or underflows these differ: log(exp(800)) is ∞ in IEEE's arithmetic and in printed programs.
XLA also takes (x > 0) y for a choice between y and 0, which differs where y is not finite. A barrier in front of the
reader of such an exponential or truth value keeps it. It costs some speed, so that other traces stay unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax
from jax.extend import core

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import TABLE, UNKNOWN, Row, Zeros
from stodyn.numerics.printing.operations import UNMAPPED, Equation, Operation, equations_of
from stodyn.numerics.printing.trace import interpret, retraced
from stodyn.numerics.printing.unprintable import or_else

SHAPED = kinds.Spread | kinds.Reshaped | kinds.Squeezed | kinds.Transposed  # XLA looks through them, or moves them
LOOPS = kinds.While | kinds.Scan | kinds.Cond


@or_else(lambda trace: trace)
def as_written(trace: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The trace with barriers behind the exponentials and truth values that XLA would merge with their readers."""
    if not any(map(_is_merged, equations_of(trace.jaxpr))):
        return trace
    exponentials: dict[int, Any] = {}  # by identity; held, so that no other value takes it
    truths: dict[int, Any] = {}
    changed = False

    def apply(operation: Operation, values: list[Any]) -> list[Any]:
        nonlocal changed
        row = TABLE.get(operation.name, UNKNOWN)
        among = [id(value) in exponentials for value in values]
        held = among if sum(among) >= (row.merges or len(values) + 1) else [False] * len(values)
        if row.factors == 2:
            held = [is_one or id(value) in truths for is_one, value in zip(held, values, strict=True)]
        if any(held):
            values = [lax.optimization_barrier(v) if is_one else v for v, is_one in zip(values, held, strict=True)]
            changed = True
        guarded = operation.rewritten(as_written) if isinstance(operation.how, LOOPS) else operation
        changed |= guarded is not operation
        results = guarded.bind(*values)
        is_shaped = isinstance(operation.how, SHAPED) or operation.name == "neg"
        for those, is_one in ((exponentials, row.is_exponential), (truths, _is_of_truth(row, operation.ins))):
            if is_one or (is_shaped and id(values[0]) in those):
                those[id(results[0])] = results[0]
        return results

    def walked(*inputs: Any) -> list[Any]:
        return interpret(trace, inputs, apply, lambda value: value, UNMAPPED)

    rewritten = retraced(walked, trace)
    return rewritten if changed else trace


def _is_of_truth(row: Row, operands: Sequence[Any]) -> bool:
    """Whether an operation makes a number of a truth value."""
    return row.zeros is Zeros.COPIED and operands[0].dtype == bool


def _is_merged(equation: Equation) -> bool:
    """Whether XLA may merge the result of an operation with its readers."""
    row = TABLE.get(equation.primitive.name, UNKNOWN)
    return row.is_exponential or _is_of_truth(row, [v.aval for v in equation.invars])
