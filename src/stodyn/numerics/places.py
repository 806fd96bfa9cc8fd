"""Which entries of an array a gather reads and a scatter writes to, as XLA defines it, where the indices are known."""

from __future__ import annotations

from typing import Any

import numpy as np


def read_places(shape: tuple[int, ...], indices: np.ndarray, out: tuple[int, ...], params: Any) -> tuple[Any, Any]:
    """Of each entry of the result of a gather: the number of the entry of the array (of `shape`) that it reads, and
    whether its slice lies inside; one that does not is moved to the nearest place where it does."""
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    along = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    remaining = [axis for axis in range(len(shape)) if axis not in numbers.collapsed_slice_dims and axis not in along]
    in_slice = dict(zip(remaining, numbers.offset_dims, strict=True))
    return _places(shape, indices, out, in_slice, along, numbers.start_index_map, sizes)


def written_places(
    shape: tuple[int, ...], indices: np.ndarray, updates: tuple[int, ...], params: Any
) -> tuple[Any, Any]:
    """Of each entry of a scatter's updates: the number of the entry of the array (of `shape`) that it lands on, and
    whether it lands at all: windows that are partly outside are dropped, or moved inside where the mode says so."""
    numbers = params["dimension_numbers"]
    along = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    remaining = [axis for axis in range(len(shape)) if axis not in numbers.inserted_window_dims and axis not in along]
    in_window = dict(zip(remaining, numbers.update_window_dims, strict=True))
    sizes = [updates[in_window[axis]] if axis in in_window else 1 for axis in range(len(shape))]
    axes = numbers.scatter_dims_to_operand_dims
    place, inside = _places(shape, indices, updates, in_window, along, axes, sizes)
    return place, np.ones_like(inside) if "CLIP" in str(params["mode"]) else inside


def _places(
    shape: tuple[int, ...], indices: np.ndarray, of: tuple[int, ...], in_slice: dict[int, int], along: dict[int, int],
    axes: Any, sizes: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The numbers of entries (of `of`), and whether the slices that hold them are inside.

    in_slice  array axis -> the axis of `of` that counts inside a slice; along: -> the axis of indices that counts it
    axes      those on which slices begin where a row of indices says; sizes: of a slice
    """
    own = np.indices(of, sparse=True)
    batch = tuple(own[d] for d in range(len(of)) if d not in in_slice.values())
    where: list[Any] = [own[in_slice[axis]] if axis in in_slice else 0 for axis in range(len(shape))]
    for axis, of_batch in along.items():
        where[axis] = batch[of_batch]
    inside: Any = np.True_
    for row, axis in enumerate(axes):
        first, last = indices[..., row][batch].astype(np.int64), shape[axis] - sizes[axis]
        inside = inside & (first >= 0) & (first <= last)
        where[axis] = where[axis] + np.clip(first, 0, max(last, 0))
    number: Any = np.int64(0)
    for axis, size in enumerate(shape):
        number = number * size + where[axis]
    return np.broadcast_to(number, of), np.broadcast_to(inside, of)
