"""The diagonal of a matrix that a trace computes, without the matrix.

    G = where(i = j, σ x_i, 0)   has the diagonal   where(i = i, σ x_i, 0) = σ x_i

An entry of an element-wise operation needs its operands in the same place only, so that the diagonal of the result
follows from the diagonals of the operands: n numbers where the matrix has n².
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import PRINTED, TABLE, Zeros
from stodyn.numerics.printing.operations import INLINED, Operation
from stodyn.numerics.printing.table import row_of
from stodyn.numerics.printing.trace import interpret
from stodyn.numerics.printing.unprintable import or_else


def diagonal(function: Callable) -> Callable:
    """The function that gives the diagonal (n,) of the matrix (n, n) that `function` gives."""

    def of_arguments(*arguments: Any) -> Any:
        return _diagonal_of(jax.make_jaxpr(function)(*arguments), jax.tree.leaves(arguments))

    return of_arguments


@or_else(lambda closed, inputs: jnp.diagonal(core.jaxpr_as_fun(closed)(*inputs)[0]))
def _diagonal_of(closed: core.ClosedJaxpr, inputs: list[Any]) -> Any:
    (result,) = interpret(closed, list(map(_value_of, inputs)), _applied, _value_of, calls=INLINED)
    return jnp.asarray(result.diagonal, closed.out_avals[0].dtype)


class _Value:
    """An array of a trace: all of it or its diagonal, each computed when it is needed."""

    def __init__(self, whole: Callable[[], Any], along: Callable[[], Any] | None = None):
        self._whole, self._along = whole, along

    @functools.cached_property
    def whole(self) -> Any:
        return self._whole()

    @functools.cached_property
    def diagonal(self) -> Any:
        """The diagonal of a matrix, from its operands where it follows from theirs; a number is its own."""
        if self._along is not None:
            return self._along()
        if np.ndim(self.whole) == 0:
            return self.whole
        return (np if isinstance(self.whole, np.ndarray) else jnp).diagonal(self.whole)


def _value_of(array: Any) -> _Value:
    return _Value(lambda: array)


def _applied(operation: Operation, inputs: Sequence[_Value]) -> list[_Value]:
    @functools.cache
    def compute() -> Sequence[Any]:
        return operation.bind(*(x.whole for x in inputs))

    shape = operation.outs[0].shape
    along = _along(operation, inputs) if len(shape) == 2 and shape[0] == shape[1] else None
    return [_Value(functools.partial(lambda place: compute()[place], k), along) for k in range(len(operation.outs))]


def _along(operation: Operation, inputs: Sequence[_Value]) -> Callable[[], Any] | None:
    """How the diagonal of an equation's result is computed, where it follows from the operands."""
    how, n = operation.how, operation.outs[0].shape[0]
    if isinstance(how, kinds.Counted):
        return lambda: np.arange(n).astype(how.dtype)
    shapes = [like.shape for like in operation.ins]
    is_row_or_whole = bool(shapes) and len(shapes[0]) <= 2 and {1, n}.issuperset(shapes[0])
    if is_row_or_whole and row_of(operation).axes(how, shapes[0], (n, n)) is not None:
        return lambda: _spread(_part_read(inputs[0], shapes[0], n), n)
    if operation.name in PRINTED:
        return lambda: _between(operation, [_part_read(x, s, n) for x, s in zip(inputs, shapes, strict=True)], n)
    return None


def _part_read(x: _Value, shape: tuple[int, ...], n: int) -> Any:
    """The part of an operand that the diagonal of a matrix (n, n) reads: a row or a column is spread over it."""
    if shape == (n, n):
        return x.diagonal
    return x.whole if len(shape) < 2 else x.whole.reshape(-1)


def _between(operation: Operation, operands: Sequence[Any], n: int) -> Any:
    """An element-wise equation on the diagonals of its operands."""
    row, which = TABLE[operation.name], operands[0]
    if all(isinstance(x, np.ndarray | np.generic) for x in operands):
        if row.is_exact and row.numpy is not None:
            return row.numpy(*operands)
        if row.zeros is Zeros.COPIED and operation.how is not None:
            return np.asarray(which).astype(operation.how)
    is_mask = row.zeros is Zeros.CHOSEN and isinstance(which, np.ndarray) and which.dtype == bool
    if is_mask and (which.all() or not which.any()):
        return operands[1 + int(which.all())]
    shaped = [x if np.ndim(x) == 0 else _spread(x, n) for x in operands]
    return operation.bind(*map(jnp.asarray, shaped))[0]


def _spread(x: Any, n: int) -> Any:
    known = isinstance(x, np.ndarray | np.generic)
    return x if np.shape(x) == (n,) else np.broadcast_to(x, (n,)) if known else jnp.broadcast_to(x, (n,))
