"""Which entries of an array a gather reads and a scatter writes to, as XLA defines it, where the indices are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stodyn.numerics.printing.operations import Gather, Scatter


def read_places(how: Gather, shape: tuple[int, ...], indices: np.ndarray) -> tuple[Any, Any]:
    """Return, for each entry of the result of a gather, the number of the entry of the array (of `shape`) that it
    reads, and whether its slice lies inside; a slice that does not is moved to the nearest place where it does."""
    sizes, rows = {place: how.sizes[axis] for axis, place in how.inside.items()}, iter(indices.shape[:-1])
    out = tuple(sizes[place] if place in sizes else next(rows) for place in range(len(sizes) + indices.ndim - 1))
    return _places(how, shape, indices, out, how.sizes)


def written_places(
    how: Scatter, shape: tuple[int, ...], indices: np.ndarray, updates: tuple[int, ...]
) -> tuple[Any, Any]:
    """Return, for each entry of a scatter's updates, the number of the entry of the array (of `shape`) that it lands
    on, and whether it lands at all: windows that are partly outside are dropped, or moved inside where the mode says
    so."""
    sizes = [updates[how.inside[axis]] if axis in how.inside else 1 for axis in range(len(shape))]
    place, inside = _places(how, shape, indices, updates, sizes)
    return place, np.ones_like(inside) if how.clips else inside


def _places(
    how: Gather | Scatter, shape: tuple[int, ...], indices: np.ndarray, of: tuple[int, ...], sizes: Sequence[int]
) -> tuple[Any, Any]:
    """The numbers of entries (of `of`), and whether the slices that hold them are inside; `sizes`: of a slice."""
    own = np.indices(of, sparse=True)
    batch = tuple(own[d] for d in range(len(of)) if d not in how.inside.values())
    where: list[Any] = [own[how.inside[axis]] if axis in how.inside else 0 for axis in range(len(shape))]
    for axis, of_batch in how.along.items():
        where[axis] = batch[of_batch]
    inside: Any = np.True_
    for row, axis in enumerate(how.axes):
        first, last = indices[..., row][batch].astype(np.int64), shape[axis] - sizes[axis]
        inside = inside & (first >= 0) & (first <= last)
        where[axis] = where[axis] + np.clip(first, 0, max(last, 0))
    number: Any = np.int64(0)
    for axis, size in enumerate(shape):
        number = number * size + where[axis]
    return np.broadcast_to(number, of), np.broadcast_to(inside, of)
