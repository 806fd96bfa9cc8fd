"""A trace without inner functions: one list of equations, with the readers of each value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import TABLE, Zeros
from stodyn.numerics.printing.fingerprints import digest_of
from stodyn.numerics.printing.operations import CALLS, Operation, called_by, operation_of
from stodyn.numerics.printing.trace import interpret
from stodyn.numerics.printing.unprintable import Unprintable, or_else

LOOPS = kinds.While | kinds.Scan


@dataclasses.dataclass(eq=False)
class Value:
    """A variable of the flat trace: its number where it is written in the trace, and its readers."""

    aval: Any
    number: np.ndarray | None = None
    readers: list[Equation] = dataclasses.field(default_factory=list)
    is_result: bool = False


@dataclasses.dataclass(eq=False)
class Equation:
    operation: Operation
    inputs: list[Value]
    outputs: list[Value]

    @property
    def name(self) -> str:
        return self.operation.name

    @property
    def how(self) -> Any:
        return self.operation.how


def flattened(closed: core.ClosedJaxpr) -> tuple[list[Value], list[Equation], list[Value]]:
    """The inputs, the equations and the outputs of a trace; inner functions are opened, all branches computed."""
    equations: list[Equation] = []

    def literal(numbers: Any) -> Value:
        numbers = np.asarray(numbers)
        return Value(jax.core.ShapedArray(numbers.shape, numbers.dtype), numbers)

    def apply(operation: Operation, inputs: list[Value]) -> list[Value]:
        how, outputs = operation.how, list(map(Value, operation.outs))
        if isinstance(how, kinds.Barrier):
            return inputs
        if isinstance(how, kinds.LinearSolve):  # the solution alone: the other functions are for derivatives
            return opened(how.solve, [*inputs[how.of], *inputs[how.rest :]])
        if isinstance(how, kinds.Cond):
            branches = [opened(branch, inputs[1:]) for branch in how.branches]
            for value, *cases in zip(outputs, *branches, strict=True):
                among = [inputs[0], *cases]
                choice = Operation("select_n", None, [v.aval for v in among], [value.aval])
                equations.append(Equation(choice, among, [value]))
            return outputs
        if operation.has_effects:
            raise Unprintable(f"{operation.name} has a side effect")
        equations.append(Equation(operation, inputs, outputs))
        return outputs

    def opened(trace: core.ClosedJaxpr, inputs: Sequence[Value]) -> list[Value]:
        return interpret(trace, inputs, apply, literal)

    arguments = [Value(v.aval) for v in closed.jaxpr.invars]
    results = opened(closed, arguments)
    equations, results = _merged(equations, results)
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


def _merged(equations: list[Equation], results: list[Value]) -> tuple[list[Equation], list[Value]]:
    """The equations and results with one equation for those that compute the same from the same, where some of them are
    loops.

    An iteration that several functions need, or several derivatives of one, is then made once. Traces that repeat no
    loop stay as they are: what else they repeat costs less than to look for it.
    """
    digests: dict[Any, str] = {}

    def digest(operation: Operation) -> str:
        key = operation.origin, operation.name
        if key not in digests:
            digests[key] = digest_of(operation)
        return digests[key]

    loops = [digest(e.operation) for e in equations if isinstance(e.how, LOOPS)]
    if len(set(loops)) == len(loops):
        return equations, results
    first: dict[Any, Value] = {}  # the same for values that are equal
    unique: dict[Any, Equation] = {}

    def earliest(value: Value) -> Value:
        number = value.number
        key = id(value) if number is None else (number.dtype.num, number.shape, number.tobytes())
        return first.setdefault(key, value)

    for equation in equations:
        equation.inputs = list(map(earliest, equation.inputs))
        same = unique.setdefault((digest(equation.operation), *map(id, equation.inputs)), equation)
        first.update(zip(map(id, equation.outputs), same.outputs, strict=True))
    return list(unique.values()), list(map(earliest, results))


def _numbers_made(closed: core.ClosedJaxpr) -> int:
    """How many numbers the operations of a trace make, those of inner functions left out."""
    return sum(math.prod(v.aval.shape) for equation in closed.jaxpr.eqns for v in equation.outvars)


@or_else(_numbers_made)
def scalar_operations(closed: core.ClosedJaxpr) -> int:
    """How many operations a trace has, entry by entry: an estimate that looks at shapes alone.

    Every turn of a scan counts, and one of a while loop.
    """
    return sum(map(_scalar_operations, closed.jaxpr.eqns))


def _scalar_operations(equation: Any) -> int:
    called = called_by(equation) if equation.primitive.name in CALLS else None
    if called is not None:
        return scalar_operations(called if isinstance(called, core.ClosedJaxpr) else core.ClosedJaxpr(called, ()))
    operation = operation_of(equation)
    row = TABLE.get(operation.name)
    if row is not None:
        return 0 if row.zeros is Zeros.COPIED or row.node is None else operation.outs[0].size
    match operation.how:
        case kinds.While() | kinds.Cond():
            return sum(map(scalar_operations, operation.traces))
        case kinds.Scan(length=length):
            return length * sum(map(scalar_operations, operation.traces))
        case kinds.LinearSolve(solve=solve):
            return scalar_operations(solve)
        case kinds.Executed(program=program):
            return program.operations
        case kinds.Dot(contracted=(contracted, _)):
            length = math.prod(operation.ins[0].shape[k] for k in contracted)
            return 2 * length * operation.outs[0].size
        case kinds.Reduced() | kinds.Cumulated():
            return operation.ins[0].size
        case kinds.Scatter():
            return operation.ins[2].size
    return 0
