"""Whether a function is affine in some of its arguments: a proof from its trace.

A derivative that is constant does not prove it: those of floor(x), sign(x) and where(x > 0, 1, -1) are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from stodyn.numerics.dependence import dependence
from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import TABLE, Entrywise, Zeros
from stodyn.numerics.printing.operations import Operation, equations_of, operation_of
from stodyn.numerics.printing.scalars import MOVES
from stodyn.numerics.printing.trace import interpret
from stodyn.numerics.printing.unprintable import Unprintable

FIXED, AFFINE, OTHER = range(3)
UNKNOWN = Entrywise()
IN_THESE = {  # affine in these operands where all others are fixed
    kinds.Executed: slice(0, 1),  # those whose factors and divisors are given beside the data
    kinds.Gather: slice(0, 1),
    kinds.SliceAt: slice(0, 1),
    kinds.UpdateAt: slice(0, 2),
    kinds.Scatter: slice(0, None, 2),
}


def is_affine(trace: core.ClosedJaxpr, moving: Sequence[bool]) -> bool:
    """Whether all results are affine in the inputs that move, the others held fixed; False where it is not proved."""

    def apply(operation: Operation, inputs: list[int]) -> list[int]:
        return [_kind(operation, inputs)] * len(operation.outs)

    inputs = [AFFINE if moves else FIXED for moves in moving]
    return OTHER not in interpret(trace, inputs, apply, lambda _: FIXED)


def _kind(operation: Operation, inputs: list[int]) -> int:
    worst = max(inputs, default=FIXED)
    if worst != AFFINE:
        return worst
    if operation.name == "polynomial":  # a_0 + a_1 x and more: affine in its coefficients, and in x where there are two
        x, _, *slopes = inputs
        return AFFINE if x == FIXED or slopes == [FIXED] else OTHER
    return AFFINE if _is_affine_in(operation, [kind == AFFINE for kind in inputs]) else OTHER


def _is_affine_in(operation: Operation, moves: list[bool]) -> bool:
    """Whether an operation is affine in the operands that move."""
    how, row = operation.how, TABLE.get(operation.name)
    if row is not None:
        if row.zeros is Zeros.CHOSEN:
            return not moves[0]
        if row.factors:  # of a quotient only the numerator
            return sum(moves) == 1 and any(moves[: row.factors])
        return row.is_linear or (row.zeros is Zeros.COPIED and jnp.issubdtype(how, jnp.inexact))
    match how:
        case kinds.Barrier() | kinds.Reduced(fold="add") | kinds.Cumulated(fold="add"):
            return True
        case kinds.Dot():
            return sum(moves) == 1
        case kinds.LinearSolve(rest=rest):  # its matrix stands first, in several forms
            return not any(moves[:rest])
        case kinds.Executed() if len(moves) == 1:  # it multiplies the data by themselves
            return False
        case kinds.Scatter(fold=fold, function=function) if fold not in (None, "add", "sub") or function is not None:
            return False
    if operation.kind in IN_THESE:
        free = range(len(moves))[IN_THESE[operation.kind]]
        return all(k in free for k, moving in enumerate(moves) if moving)
    return operation.kind in MOVES


def is_proved_affine(function: Callable, arguments: Sequence[Any], moving: int) -> bool:
    """Whether a function is affine in its argument number `moving`: by its trace, or since its derivative is proved not
    to depend on it and nothing in it jumps."""
    trace, moves = _traced(function, arguments, (moving,))
    if is_affine(trace, moves):
        return True
    if _jumps(trace, moves):
        return False
    try:
        (entries,) = dependence(jax.jacfwd(function, argnums=moving), *arguments)
    except (Unprintable, NotImplementedError):  # JAX differentiates most operations, but not all
        return False
    return not any(a == moving for e in entries.ravel() if isinstance(e, frozenset) for a, _ in e)


def _is_flat(operation: Operation) -> bool:
    to_whole = operation.name == "convert_element_type" and not jnp.issubdtype(operation.how, jnp.inexact)
    return to_whole or isinstance(operation.how, kinds.Extreme) or TABLE.get(operation.name, UNKNOWN).is_flat


def _is_rough(operation: Operation) -> bool:
    is_extreme = isinstance(operation.how, kinds.Reduced) and operation.how.fold in ("max", "min")
    row = TABLE.get(operation.name, UNKNOWN)
    return is_extreme or isinstance(operation.how, kinds.Extreme) or row.is_flat or row.is_rough


def has_jumps(function: Callable, arguments: Sequence[Any], moving: Sequence[int]) -> bool:
    """Whether some operation in a function of `arguments` has no slope in the `moving` ones but may still change with
    them, such as a sign: then its derivatives do not show how it depends on them."""
    return _jumps(*_traced(function, arguments, moving))


def is_rough(function: Callable, arguments: Sequence[Any], moving: int) -> bool:
    """Whether a function of `arguments` applies, to what depends on its argument number `moving`, an operation that is
    not smooth everywhere: a root, a power, an absolute value, a maximum, a comparison."""
    trace, moves = _traced(function, arguments, (moving,))
    return _meets(trace, moves, _is_rough)


def _traced(function: Callable, arguments: Sequence[Any], moving: Sequence[int]) -> tuple[core.ClosedJaxpr, list[bool]]:
    """The trace of a function, and which of its inputs move."""
    moves = [k in moving for k, argument in enumerate(arguments) for _ in jax.tree.leaves(argument)]
    return jax.make_jaxpr(function)(*arguments), moves


def _jumps(trace: core.ClosedJaxpr, moves: Sequence[bool]) -> bool:
    return _meets(trace, moves, _is_flat)


def _meets(trace: core.ClosedJaxpr, moves: Sequence[bool], kind: Callable[[Operation], bool]) -> bool:
    """Whether an operation of some kind is applied to what depends on the inputs that move."""
    met = []

    def apply(operation: Operation, inputs: list[bool]) -> list[bool]:
        is_moved = any(inputs)
        inside = (operation_of(other) for inner in operation.traces for other in equations_of(inner.jaxpr))
        met.append(is_moved and any(map(kind, (operation, *inside))))
        return [is_moved] * len(operation.outs)

    interpret(trace, moves, apply, lambda _: False)
    return any(met)
