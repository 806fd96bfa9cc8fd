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
from stodyn.numerics.printing.operations import Operation, equations_of, operation_of
from stodyn.numerics.printing.scalars import MOVES, Unprintable
from stodyn.numerics.printing.trace import interpret

FIXED, AFFINE, OTHER = range(3)
SUMS = {
    "add", "add_any", "sub", "neg", "copy", "copy_p", "reduce_sum", "cumsum", "optimization_barrier", "real", "imag",
}  # fmt: skip
BILINEAR = {"mul", "dot_general"}
BY_THE_REST_FIXED = {  # affine in these operands where all others are fixed
    "div": slice(0, 1),
    "execute_instructions": slice(0, 1),  # those whose factors and divisors are given beside the data
    "select_n": slice(1, None),
    "gather": slice(0, 1),
    "dynamic_slice": slice(0, 1),
    "dynamic_update_slice": slice(0, 2),
    "pad": slice(0, 2),
    "scatter": slice(0, None, 2),
    "scatter-add": slice(0, None, 2),
    "scatter-sub": slice(0, None, 2),
}
FLAT = {
    "floor", "ceil", "round", "sign", "lt", "le", "gt", "ge", "eq", "ne", "lt_to", "le_to", "is_finite", "argmax",
    "argmin", "rem", "nextafter", "stop_gradient",
}  # fmt: skip

ROUGH = FLAT | {"sqrt", "rsqrt", "cbrt", "pow", "abs", "max", "min", "clamp", "reduce_max", "reduce_min", "sort"}


def is_affine(trace: core.ClosedJaxpr, moving: Sequence[bool]) -> bool:
    """Whether all results are affine in the inputs that move, the others held fixed; False where it is not proved."""

    def apply(operation: Operation, kinds: list[int]) -> list[int]:
        return [_kind(operation, kinds)] * len(operation.outs)

    inputs = [AFFINE if moves else FIXED for moves in moving]
    return OTHER not in interpret(trace, inputs, apply, lambda _: FIXED)


def _kind(operation: Operation, kinds: list[int]) -> int:
    name, how, worst = operation.name, operation.how, max(kinds, default=FIXED)
    if worst != AFFINE:
        return worst
    if name == "convert_element_type" and jnp.issubdtype(how, jnp.inexact):
        return AFFINE
    if name in SUMS or name in MOVES:
        return AFFINE
    if name in BILINEAR:
        return AFFINE if FIXED in kinds else OTHER
    if name == "polynomial":  # a_0 + a_1 x and more: affine in its coefficients, and in x where there are two
        x, _, *slopes = kinds
        return AFFINE if x == FIXED or slopes == [FIXED] else OTHER
    if name == "custom_linear_solve":  # its matrix stands first, in several forms
        return OTHER if AFFINE in kinds[: how.rest] else AFFINE
    if name == "execute_instructions" and len(kinds) == 1:  # it multiplies the data by themselves
        return OTHER
    if name == "scatter" and how.function is not None:
        return OTHER
    if name in BY_THE_REST_FIXED:
        free = set(range(len(kinds))[BY_THE_REST_FIXED[name]])
        return AFFINE if all(kind == FIXED or k in free for k, kind in enumerate(kinds)) else OTHER
    return OTHER


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
    return operation.name in FLAT or to_whole


def has_jumps(function: Callable, arguments: Sequence[Any], moving: Sequence[int]) -> bool:
    """Whether some operation in a function of `arguments` has no slope in the `moving` ones but may still change with
    them, such as a sign: then its derivatives do not show how it depends on them."""
    return _jumps(*_traced(function, arguments, moving))


def is_rough(function: Callable, arguments: Sequence[Any], moving: int) -> bool:
    """Whether a function of `arguments` applies, to what depends on its argument number `moving`, an operation that is
    not smooth everywhere: a root, a power, an absolute value, a maximum, a comparison."""
    trace, moves = _traced(function, arguments, (moving,))
    return _meets(trace, moves, lambda operation: operation.name in ROUGH)


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
