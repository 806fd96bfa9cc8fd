"""One table of operations: a row for each, with everything that readers of traces ask about it.

Operations between entries have their rows by name (entrywise.py), all others by their records: how NumPy computes them,
whether they only move entries, and where axes go with them, in what they are linear, and where they jump or bend.
"""

from __future__ import annotations

import functools
import string
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from stodyn.numerics.places import read_places, written_places
from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import TABLE, UNKNOWN, Row, flat, linear
from stodyn.numerics.printing.nodes import BOOL, value_of
from stodyn.numerics.printing.operations import Cumulated, Dot, Gather, Operation, Padded, Scatter, Sliced, Spread

SUM = "add"  # the operation that joins terms
EVERY: Sequence[int] = range(sys.maxsize)
Shape = tuple[int, ...]
Axes = Callable[[Any, Shape, Shape], Mapping[int, int] | None]


def row_of(operation: Operation) -> Row:
    """What is known about an operation: its row by its name, or by its record."""
    row = TABLE.get(operation.name) or KINDS.get(operation.kind, UNKNOWN)
    return row if isinstance(row, Row) else row(operation.how)


# --- moved entries ----------------------------------------------------------------------------------------------------


def _moves(numpy: Callable[..., Any], axes: Axes = lambda how, shape, out: None) -> Row:
    """The row of an operation that moves the entries of arrays, whatever they are: also those of object arrays."""
    return Row(numpy=numpy, with_how=True, is_affine=linear, data=EVERY, axes=axes)


def _slice(how: Sliced, x: np.ndarray) -> np.ndarray:
    return x[tuple(map(slice, how.starts, how.limits, how.steps or (1,) * x.ndim))]


def _spread(how: Spread, x: np.ndarray, *_sizes: np.ndarray) -> np.ndarray:
    shape = how.shape
    new_shape = [1] * len(shape)
    for axis, dimension in enumerate(how.axes):
        new_shape[dimension] = x.shape[axis]
    if x.ndim == 0 and shape and x.dtype == object:  # a number spread over an array is the array's structure
        number, x = _structural(x), np.empty((), object)
        x[()] = number
    return np.broadcast_to(x.reshape(new_shape), shape)


def _structural(x: np.ndarray) -> Any:
    value = value_of(x[()])
    return x[()] if value is None else value


def _pad(how: Padded, x: np.ndarray, value: np.ndarray) -> np.ndarray:
    def place(n: int, low: int, gap: int) -> np.ndarray:
        return low + (gap + 1) * np.arange(n)

    shape = [low + high + max(0, (n - 1) * (gap + 1) + 1)
             for n, (low, high, gap) in zip(x.shape, how.widths, strict=True)]  # fmt: skip
    result = np.empty(shape, x.dtype)
    result.fill(_structural(value))
    at = [place(n, low, gap) for n, (low, _, gap) in zip(x.shape, how.widths, strict=True)]
    is_inside = [(p >= 0) & (p < size) for p, size in zip(at, shape, strict=True)]
    result[np.ix_(*(p[k] for p, k in zip(at, is_inside, strict=True)))] = x[np.ix_(*is_inside)] if x.ndim else x
    return result


def parts_of(x: np.ndarray, axis: int) -> list[np.ndarray]:
    """The arrays along an axis (plain iteration would hand out bare entries for a vector)."""
    moved = np.moveaxis(x, axis, 0)
    return [moved[k : k + 1].reshape(moved.shape[1:]) for k in range(moved.shape[0])]


def counted(how: kinds.Counted) -> np.ndarray:
    """The array whose entries are their indices along an axis."""
    shape = [-1 if axis == how.axis else 1 for axis in range(len(how.shape))]
    return np.broadcast_to(np.arange(how.shape[how.axis]).astype(how.dtype).reshape(shape), how.shape)


# --- moved from or to where other operands say ------------------------------------------------------------------------


def _moves_by_indices(numpy: Callable[..., Any], *data: int) -> Row:
    return Row(
        numpy=numpy,
        with_how=True,
        is_affine=lambda how, *moves: not any(m for k, m in enumerate(moves) if k not in data),
        data=data,
    )


def _scattered(how: Scatter) -> Row:
    if how.function is not None:
        return UNKNOWN
    if how.fold is None:
        return SCATTERED
    is_affine = SCATTERED.is_affine if _is_linear(how.fold) else UNKNOWN.is_affine
    return SCATTERED._replace(data=(), is_affine=is_affine, is_sum=how.fold == SUM)


def filling(dtype: Any) -> Any:
    """The value that JAX puts where an index is outside: NaN, the least signed or the largest unsigned number."""
    if dtype.kind == "f":
        return np.nan
    return True if dtype == BOOL else np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


def _part(x: np.ndarray, starts: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    first = [int(np.clip(start, 0, full - size)) for start, full, size in zip(starts, x.shape, sizes, strict=True)]
    return x[tuple(slice(p, p + size) for p, size in zip(first, sizes, strict=True))]


def _slice_at(how: kinds.SliceAt, x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    return _part(x, starts, how.sizes)


def _update_at(how: kinds.UpdateAt, x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    changed = np.array(x)
    _part(changed, starts, update.shape)[...] = update
    return changed


def _gather(how: Gather, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    place, inside = read_places(how, x.shape, indices)
    entries = x.ravel()[place]
    if not how.fills or inside.all():
        return entries
    fill = filling(x.dtype) if how.fill is None else how.fill
    return np.where(inside, entries, np.asarray(fill, x.dtype))


def _scatter(how: Scatter, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    place, landing = written_places(how, x.shape, indices, updates.shape)
    changed = np.array(x).ravel()
    if how.fold is None:
        changed[place[landing]] = updates[landing]
    else:
        TABLE[how.fold].numpy.at(changed, place[landing], updates[landing])
    return changed.reshape(x.shape)


# --- which axis becomes which -----------------------------------------------------------------------------------------


def kept_axes(dropped: Collection[int], ndim: int) -> dict[int, int]:
    """The places of axes when some are dropped."""
    return {axis: place for place, axis in enumerate(axis for axis in range(ndim) if axis not in dropped)}


def _in_place(how: Any, shape: Shape, out: Shape) -> Mapping[int, int]:
    return kept_axes((), len(shape))


def _but_for_ones(how: Any, shape: Shape, out: Shape) -> Mapping[int, int] | None:
    """Axes of one entry come and go."""
    long, long_out = ([a for a, size in enumerate(sizes) if size != 1] for sizes in (shape, out))
    is_alike = [shape[a] for a in long] == [out[a] for a in long_out]
    return dict(zip(long, long_out, strict=True)) if is_alike else None


# --- entries joined ---------------------------------------------------------------------------------------------------


def _is_linear(fold: str) -> bool:
    """Whether an operation that joins entries is linear in all of them together."""
    return TABLE[fold].is_affine(None, True, True)


def _joined(numpy: Callable[..., Any]) -> Callable[[Any], Row]:
    """The rows of operations that join the entries of an array, by that which joins them."""

    @functools.cache
    def row(fold: str) -> Row:
        is_affine, has_corners = linear if _is_linear(fold) else UNKNOWN.is_affine, TABLE[fold].has_corners
        return Row(numpy=numpy, with_how=True, is_affine=is_affine, has_corners=has_corners, is_sum=fold == SUM)

    return lambda how: row(how.fold)


def _cumulated(how: Cumulated, x: np.ndarray) -> np.ndarray:
    joined, axis = TABLE[how.fold].numpy.accumulate, how.axis
    return np.flip(joined(np.flip(x, axis), axis), axis) if how.is_reverse else joined(x, axis)


def _extreme_place(how: kinds.Extreme, x: np.ndarray) -> np.ndarray:
    return getattr(np, TABLE[how.fold].place)(x, how.axes[0])


def _product(how: Dot, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (contract_a, contract_b), (batch_a, batch_b) = how
    letters = iter(string.ascii_letters)
    axes_a, axes_b = [""] * a.ndim, [""] * b.ndim
    batch = []
    for i, j in zip(batch_a, batch_b, strict=True):
        axes_a[i] = axes_b[j] = next(letters)
        batch.append(axes_a[i])
    for i, j in zip(contract_a, contract_b, strict=True):
        axes_a[i] = axes_b[j] = next(letters)
    axes_a, axes_b = ([axis or next(letters) for axis in axes] for axes in (axes_a, axes_b))
    free = [x for x in axes_a if x not in axes_b] + [x for x in axes_b if x not in axes_a]
    return np.einsum(f"{''.join(axes_a)},{''.join(axes_b)}->{''.join(batch + free)}", a, b)


def _executed(how: kinds.Executed, data: np.ndarray, *fixed: np.ndarray) -> np.ndarray:
    program = how.program
    numbers = [*program.constants, *data]
    others = fixed[0] if fixed else numbers
    for k, (base, divisor) in enumerate(zip(program.base, program.divisor, strict=True)):
        those = slice(program.ends[k], program.ends[k + 1])
        z = numbers[base]
        for left, right in zip(program.left[those], program.right[those], strict=True):
            z = z - others[left] * numbers[right]
        numbers.append(z if divisor == program.one else z / others[divisor])
    return np.array(numbers)


def _is_affine_in_data(how: kinds.Executed, data: bool, *fixed: bool) -> bool:
    """Whether instructions are carried out on data that move alone: without others they multiply them by themselves."""
    return len(fixed) > 0 and not any(fixed)


# --- the table --------------------------------------------------------------------------------------------------------

SCATTERED = _moves_by_indices(_scatter, 0, 2)
KINDS: dict[type, Row | Callable[[Any], Row]] = {
    # moved
    kinds.Reshaped: _moves(lambda how, x, *_sizes: x.reshape(how.shape), _but_for_ones),
    kinds.Squeezed: _moves(
        lambda how, x: np.squeeze(x, tuple(how.axes)), lambda how, shape, out: kept_axes(how.axes, len(shape))
    ),
    kinds.Expanded: _moves(lambda how, x: np.expand_dims(x, tuple(how.axes)), _but_for_ones),
    kinds.Transposed: _moves(
        lambda how, x: x.transpose(how.order), lambda how, *_: {a: b for b, a in enumerate(how.order)}
    ),
    kinds.Reversed: _moves(lambda how, x: np.flip(x, tuple(how.axes))),
    kinds.Joined: _moves(lambda how, *xs: np.concatenate(xs, how.axis)),
    kinds.Split: _moves(lambda how, x: np.split(x, np.cumsum(how.sizes)[:-1], how.axis), _in_place),
    kinds.Stacked: _moves(lambda how, *xs: np.stack(xs, how.axis)),
    kinds.Unstacked: _moves(lambda how, x: parts_of(x, how.axis)),
    kinds.Tiled: _moves(lambda how, x: np.tile(x, how.times)),
    kinds.Sliced: _moves(_slice, _in_place),
    kinds.Spread: _moves(_spread, lambda how, *_: dict(enumerate(how.axes))),
    kinds.Padded: _moves(_pad, lambda how, *shapes: None if any(map(any, how.widths)) else _in_place(how, *shapes)),
    kinds.Counted: _moves(counted),
    kinds.Empty: _moves(lambda how: np.zeros(*how)),  # as XLA makes it on processors
    # moved from or to where other operands say
    kinds.Gather: _moves_by_indices(_gather, 0),
    kinds.SliceAt: _moves_by_indices(_slice_at, 0),
    kinds.UpdateAt: _moves_by_indices(_update_at, 0, 1),
    kinds.Scatter: _scattered,
    # joined
    kinds.Reduced: _joined(lambda how, x: TABLE[how.fold].numpy.reduce(x, tuple(how.axes))),
    kinds.Cumulated: _joined(_cumulated),
    kinds.Extreme: Row(numpy=_extreme_place, with_how=True, is_flat=flat),
    kinds.Dot: Row(numpy=_product, with_how=True, is_affine=lambda how, *moves: sum(moves) == 1, is_sum=True),
    kinds.Executed: Row(numpy=_executed, with_how=True, is_affine=_is_affine_in_data, is_sum=True),
    # control
    kinds.Barrier: Row(is_affine=linear),
    kinds.LinearSolve: Row(is_affine=lambda how, *moves: not any(moves[: how.rest])),  # its matrix stands first
}
