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

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import PRINTED, TABLE, Zeros
from stodyn.numerics.printing.operations import INLINED, Operation
from stodyn.numerics.printing.trace import interpret


def diagonal(function: Callable) -> Callable:
    """The function that gives the diagonal (n,) of the matrix (n, n) that `function` gives."""

    def of_arguments(*arguments: Any) -> Any:
        closed = jax.make_jaxpr(function)(*arguments)
        inputs: list[_Value] = [_InputValue(a) for a in jax.tree.leaves(arguments)]
        (result,) = interpret(closed, inputs, _applied, _InputValue, calls=INLINED)
        return jnp.asarray(result.diagonal, closed.out_avals[0].dtype)

    return of_arguments


class _Value:
    """An array of a trace: all of it or its diagonal, each computed when it is needed."""

    @functools.cached_property
    def whole(self) -> Any:
        raise NotImplementedError

    @functools.cached_property
    def diagonal(self) -> Any:
        """The diagonal of a matrix; a number is its own."""
        return self.whole if np.ndim(self.whole) == 0 else _diagonal_of(self.whole)


class _InputValue(_Value):
    def __init__(self, array: Any):
        self.whole = array


class _ComputedValue(_Value):
    """A result of an equation outside the lists: its diagonal is taken from the whole matrix."""

    def __init__(self, compute: Callable[[], Sequence[Any]], place: int):
        self.compute, self.place = compute, place

    @functools.cached_property
    def whole(self) -> Any:
        return self.compute()[self.place]


class _Followed(_ComputedValue):
    """The matrix of an equation whose diagonal is known from its operands."""

    def __init__(self, compute: Callable[[], Sequence[Any]], along: Callable[[], Any]):
        super().__init__(compute, 0)
        self.along = along

    @functools.cached_property
    def diagonal(self) -> Any:
        return self.along()


def _applied(operation: Operation, inputs: Sequence[_Value]) -> list[_Value]:
    shape = operation.outs[0].shape

    @functools.cache
    def compute() -> Sequence[Any]:
        return operation.bind(*(x.whole for x in inputs))

    along = _along(operation, inputs) if len(shape) == 2 and shape[0] == shape[1] else None
    if along is not None:
        return [_Followed(compute, along)]
    return [_ComputedValue(compute, place) for place in range(len(operation.outs))]


def _along(operation: Operation, inputs: Sequence[_Value]) -> Callable[[], Any] | None:
    """How the diagonal of an equation's result is computed, where it follows from the operands."""
    how, n = operation.how, operation.outs[0].shape[0]
    if isinstance(how, kinds.Counted):
        return lambda: np.arange(n).astype(how.dtype)
    is_same = isinstance(how, kinds.Split | kinds.Reshaped) and operation.ins[0].shape == (n, n)
    if isinstance(how, kinds.Transposed) or is_same:
        return lambda: inputs[0].diagonal
    if isinstance(how, kinds.Spread):
        return lambda: _spread(_part_read(inputs[0], operation.ins[0].shape, n), n)
    if operation.name in PRINTED:
        shapes = [like.shape for like in operation.ins]
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


def _diagonal_of(matrix: Any) -> Any:
    return np.diagonal(matrix) if isinstance(matrix, np.ndarray) else jnp.diagonal(matrix)
