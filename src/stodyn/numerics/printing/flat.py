"""A trace without inner functions: one list of equations, with the readers of each value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics.printing.scalars import ELEMENTWISE, Unprintable
from stodyn.numerics.printing.trace import CALLS, inner_of, interpret, traces_inside


@dataclasses.dataclass(eq=False)
class Value:
    """A variable of the flat trace: its number where it is written in the trace, and its readers."""

    aval: Any
    number: np.ndarray | None = None
    readers: list[Equation] = dataclasses.field(default_factory=list)
    is_result: bool = False


@dataclasses.dataclass(eq=False)
class Equation:
    name: str
    params: dict[str, Any]
    inputs: list[Value]
    outputs: list[Value]


def flattened(closed: core.ClosedJaxpr) -> tuple[list[Value], list[Equation], list[Value]]:
    """The inputs, the equations and the outputs of a trace; inner functions are opened, all branches computed."""
    equations: list[Equation] = []

    def literal(numbers: Any) -> Value:
        numbers = np.asarray(numbers)
        return Value(jax.core.ShapedArray(numbers.shape, numbers.dtype), numbers)

    def apply(equation: Any, inputs: list[Value]) -> list[Value]:
        name = equation.primitive.name
        if name == "optimization_barrier":
            return inputs
        if name == "custom_linear_solve":  # the solution alone: the other functions are for derivatives
            lengths, functions = equation.params["const_lengths"], equation.params["jaxprs"]
            before = lengths.matvec + lengths.vecmat
            return opened(functions.solve, [*inputs[before : before + lengths.solve], *inputs[sum(lengths) :]])
        if name == "cond":
            branches = [opened(branch, inputs[1:]) for branch in equation.params["branches"]]
            chosen = [Value(v.aval) for v in equation.outvars]
            for value, *cases in zip(chosen, *branches, strict=True):
                equations.append(Equation("select_n", {}, [inputs[0], *cases], [value]))
            return chosen
        if equation.effects:
            raise Unprintable(f"{name} has a side effect")
        outputs = [Value(v.aval) for v in equation.outvars]
        equations.append(Equation(name, equation.params, inputs, outputs))
        return outputs

    def opened(trace: core.ClosedJaxpr, inputs: Sequence[Value]) -> list[Value]:
        return interpret(trace, inputs, apply, literal)

    arguments = [Value(v.aval) for v in closed.jaxpr.invars]
    results = opened(closed, arguments)
    needed = {id(v) for v in results}
    still_needed = []
    for equation in reversed(equations):
        if any(id(v) in needed for v in equation.outputs):
            needed.update(id(v) for v in equation.inputs)
            still_needed.append(equation)
    for equation in reversed(still_needed):
        for value in equation.inputs:
            value.readers.append(equation)
    for value in results:
        value.is_result = True
    return arguments, still_needed[::-1], results


def scalar_operations(closed: core.ClosedJaxpr) -> int:
    """How many operations a trace has, entry by entry: an estimate that looks at shapes alone.

    Every turn of a scan counts, and one of a while loop.
    """
    total = 0
    for equation in closed.jaxpr.eqns:
        name = equation.primitive.name
        if name in CALLS:
            inner = inner_of(equation)
            total += scalar_operations(inner if isinstance(inner, core.ClosedJaxpr) else core.ClosedJaxpr(inner, ()))
        elif name in ("while", "cond", "scan"):
            total += equation.params.get("length", 1) * sum(map(scalar_operations, traces_inside(equation)))
        elif name == "custom_linear_solve":
            total += scalar_operations(equation.params["jaxprs"].solve)
        elif name == "execute_instructions":
            total += equation.params["program"].operations
        elif name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            length = math.prod(equation.invars[0].aval.shape[k] for k in contracted)
            total += 2 * length * equation.outvars[0].aval.size
        elif name.startswith(("reduce_", "cum")):
            total += equation.invars[0].aval.size
        elif name.startswith("scatter"):
            total += equation.invars[2].aval.size
        elif name in ELEMENTWISE and name not in ("copy", "convert_element_type"):
            total += equation.outvars[0].aval.size
    return total
