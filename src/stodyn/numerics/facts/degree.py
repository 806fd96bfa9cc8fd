"""Whether a function is affine in some of its arguments, and whether it jumps or bends: proofs from its trace.

A derivative that is constant does not prove it: those of floor(x), sign(x) and where(x > 0, 1, -1) are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core

from stodyn.numerics.facts.dependence import dependence
from stodyn.numerics.printing.operations import Operation, equations_of, operation_of
from stodyn.numerics.printing.table import row_of
from stodyn.numerics.printing.trace import interpret, owners
from stodyn.numerics.printing.unprintable import Unprintable, or_else
from stodyn.numerics.tracing_errors import one_error_of_derivatives

FIXED, AFFINE, OTHER = range(3)


@or_else(lambda trace, moving: False)
def is_affine(trace: core.ClosedJaxpr, moving: Sequence[bool]) -> bool:
    """Whether all results are affine in the inputs that move, the others held fixed; False where it is not proved."""

    def apply(operation: Operation, inputs: list[int]) -> list[int]:
        degree = max(inputs, default=FIXED)
        if degree == AFFINE and not row_of(operation).is_affine(operation.how, *(kind == AFFINE for kind in inputs)):
            degree = OTHER
        return [degree] * len(operation.outs)

    inputs = [AFFINE if moves else FIXED for moves in moving]
    return OTHER not in interpret(trace, inputs, apply, lambda _: FIXED)


@or_else(lambda trace, arguments, moving: False)
def is_affine_in(trace: core.ClosedJaxpr, arguments: Sequence[Any], moving: Sequence[int]) -> bool:
    """Whether all results are affine in the arguments that move, which are told by their numbers."""
    return is_affine(trace, [k in moving for k in owners(arguments)])


def is_proved_affine(function: Callable, arguments: Sequence[Any], moving: int) -> bool:
    """Whether a function is affine in its argument number `moving`: by its trace, or since its derivative is proved not
    to depend on it and nothing in it jumps."""
    trace = jax.make_jaxpr(function)(*arguments)
    if is_affine_in(trace, arguments, (moving,)):
        return True
    if _met(trace, arguments, (moving,), _is_flat):
        return False
    try:
        with one_error_of_derivatives():
            return moving not in dependence(jax.jacfwd(function, argnums=moving), *arguments).arguments
    except (Unprintable, NotImplementedError):  # JAX differentiates most operations, but not all
        return False


def has_jumps(function: Callable, arguments: Sequence[Any], moving: Sequence[int], *, with_cuts: bool = False) -> bool:
    """Whether some operation in a function of `arguments` has no slope in the `moving` ones but may still change with
    them, such as a sign: then its derivatives do not show how it depends on them. with_cuts: or has slopes on both
    sides of a line at which it jumps, as the angle of a vector does."""
    trace = jax.make_jaxpr(function)(*arguments)
    return has_jumps_in(trace, arguments, moving) or (with_cuts and bool(_met(trace, arguments, moving, _is_cut)))


def has_jumps_in(trace: core.ClosedJaxpr, arguments: Sequence[Any], moving: Sequence[int]) -> bool:
    """The same of a function that is traced already."""
    return bool(_met(trace, arguments, moving, _is_flat))


def is_rough(function: Callable, arguments: Sequence[Any], moving: int) -> bool:
    """Whether a function of `arguments` applies, to what depends on its argument number `moving`, an operation that is
    not smooth everywhere: a root, a power, an absolute value, a maximum, a comparison."""
    return bool(_met(jax.make_jaxpr(function)(*arguments), arguments, (moving,), _is_rough))


def corners(function: Callable, arguments: Sequence[Any], moving: int) -> list[str]:
    """The operations that a function of `arguments` applies to what depends on its argument number `moving` and that
    have jumps or corners among ordinary numbers, where roots and powers have none."""
    return _met(jax.make_jaxpr(function)(*arguments), arguments, (moving,), _has_corners)


def jumps(trace: core.ClosedJaxpr, arguments: Sequence[Any]) -> list[frozenset[int]]:
    """The arguments, by their numbers, that each jump in a trace of a function of `arguments` depends on."""
    return [on for _, on in _dependent(trace, arguments, _is_flat) if on]


def _met(
    trace: core.ClosedJaxpr, arguments: Sequence[Any], moving: Sequence[int], kind: Callable[[Operation], bool]
) -> list[str]:
    """The operations of some kind that are applied to what depends on the arguments that move, by their numbers."""
    return list(dict.fromkeys(name for name, on in _dependent(trace, arguments, kind) if not on.isdisjoint(moving)))


@or_else(lambda trace, arguments, kind: [("an operation that is not known", frozenset(range(len(arguments))))])
def _dependent(
    trace: core.ClosedJaxpr, arguments: Sequence[Any], kind: Callable[[Operation], bool]
) -> list[tuple[str, frozenset[int]]]:
    """The operations of some kind in a trace, each with the numbers of the arguments that its operands depend on."""
    met: list[tuple[str, frozenset[int]]] = []

    def apply(operation: Operation, inputs: list[frozenset[int]]) -> list[frozenset[int]]:
        on = frozenset[int]().union(*inputs)
        if on:
            inside = (operation_of(other) for inner in operation.traces for other in equations_of(inner.jaxpr))
            met.extend((one.name, on) for one in (operation, *inside) if kind(one))
        return [on] * len(operation.outs)

    interpret(trace, [frozenset((k,)) for k in owners(arguments)], apply, lambda _: frozenset())
    return met


def _is_flat(operation: Operation) -> bool:
    return row_of(operation).is_flat(operation.how, len(operation.outs))


def _is_cut(operation: Operation) -> bool:
    return row_of(operation).has_cut


def _has_corners(operation: Operation) -> bool:
    return _is_flat(operation) or row_of(operation).has_corners


def _is_rough(operation: Operation) -> bool:
    return _has_corners(operation) or row_of(operation).is_singular
