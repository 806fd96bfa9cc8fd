"""Indices in a function that lie outside the array they index: JAX silently moves them inside, or drops them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics import uncompiled
from stodyn.numerics.printing.entrywise import TABLE
from stodyn.numerics.printing.operations import Gather, Operation, Scatter, SliceAt, equations_of, has_indices
from stodyn.numerics.printing.table import EVERY, row_of
from stodyn.numerics.printing.trace import interpret
from stodyn.numerics.printing.unprintable import or_else
from stodyn.numerics.tracing_errors import OTHERS, names_argument

LARGEST = 10_000_000  # numbers of an array of indices that is computed

Known = Callable[[], np.ndarray] | None  # computes the numbers when they are needed; None where they are not known


def check_bounds(closed: core.ClosedJaxpr, who: str) -> None:
    """Refuse a trace with an index that is known and out of bounds; `who` begins the sentence."""
    outside = out_of_bounds(closed)
    if outside is not None:
        raise IndexError(
            f"{who} {outside}. Count from 0, and check the length of the vector; where it is meant, say so in the "
            'call: mode="clip", "fill" or "drop".'
        )


@or_else(lambda closed: None)
def out_of_bounds(closed: core.ClosedJaxpr) -> str | None:
    """The first index of a trace that is known and out of bounds, in words; None where there is none."""
    if not any(map(has_indices, equations_of(closed.jaxpr))):
        return None
    faults: list[str] = []

    def literal(numbers: Any) -> Known:
        return None if isinstance(numbers, jax.core.Tracer) else lambda: np.asarray(numbers)

    def apply(operation: Operation, values: list[Known]) -> list[Known]:
        outside = _refused(operation, values)
        if outside is not None:
            faults.append(outside)
        if not values or None in values or not _prepares(operation):
            return [None] * len(operation.outs)

        @functools.cache
        def computed() -> list[np.ndarray]:
            with np.errstate(all="ignore"):
                return uncompiled.apply(operation, [value() for value in values if value is not None])

        return [functools.partial(lambda k: computed()[k], k) for k in range(len(operation.outs))]

    interpret(closed, [None] * len(closed.jaxpr.invars), apply, literal)
    return faults[0] if faults else None


def _prepares(operation: Operation) -> bool:
    """Whether an operation may prepare an index."""
    plain = all(math.prod(out.shape) <= LARGEST and isinstance(out.dtype, np.dtype) for out in operation.outs)
    row = row_of(operation)
    is_computed = row.numpy is not None and not row.real and (row.data is EVERY or operation.name in TABLE)
    return plain and is_computed and not operation.has_effects


def _refused(operation: Operation, values: list[Known]) -> str | None:
    """The first index out of bounds in a slice, a gather or a scatter whose indices are known."""
    how = operation.how
    sizes = operation.ins[0].shape if operation.ins else ()
    if isinstance(how, SliceAt):
        for axis, (start, length) in enumerate(zip(values[1:], how.sizes, strict=True)):
            if start is not None and not 0 <= int(start()) <= sizes[axis] - length:
                return _read(int(start()), axis, sizes)
    if isinstance(how, Gather | Scatter) and values[1] is not None:
        indices, is_read = values[1](), isinstance(how, Gather)
        for place, axis in enumerate(how.axes):
            here = indices[..., place].ravel()
            last = sizes[axis] - (how.sizes[axis] if isinstance(how, Gather) else 1)
            outside = (here < 0) | (here > last)
            if outside.any() and not _is_meant(operation):
                return (_read if is_read else _write)(int(here[np.argmax(outside)]), axis, sizes)
    return None


def _is_meant(operation: Operation) -> bool:
    """Whether the user has said what becomes of indices outside: by a mode, or by a sum over segments, which leaves
    them out. Updates are dropped by default too, which a trace does not tell from a mode: it stands in the call."""
    how, lines = operation.how, operation.callers
    if how.clips or isinstance(how, Gather):
        return how.clips or how.fills
    own = max((k for k, line in enumerate(lines) if not line.filename.startswith(OTHERS)), default=-1)
    if own < 0:
        return False
    called = lines[own + 1].name if own + 1 < len(lines) else ""
    return called.startswith("segment_") or names_argument(lines[own], "mode")


def _read(index: int, axis: int, sizes: tuple[int, ...]) -> str:
    return f"reads {_words(index, axis, sizes)}. JAX would silently read the nearest entry"


def _write(index: int, axis: int, sizes: tuple[int, ...]) -> str:
    return f"writes to {_words(index, axis, sizes)}. JAX would silently leave that out"


def _words(index: int, axis: int, sizes: tuple[int, ...]) -> str:
    where = f"axis {axis} of an array of shape {sizes}" if len(sizes) > 1 else f"a vector of {sizes[0]}"
    return f"index {index} into {where}, which goes from 0 to {sizes[axis] - 1}"
