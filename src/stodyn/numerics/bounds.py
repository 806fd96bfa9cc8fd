"""Indices in a function that lie outside the array they index: JAX silently moves them inside, or drops them."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics import uncompiled
from stodyn.numerics.printing.trace import INLINED, interpret

SMALL = 10_000  # numbers of an array whose entries are followed


def check_bounds(closed: core.ClosedJaxpr, who: str) -> None:
    """Refuse a trace with an index that is known and out of bounds; `who` begins the sentence."""
    outside = out_of_bounds(closed)
    if outside is not None:
        raise IndexError(
            f"{who} reads {outside}. JAX would silently read the nearest entry. Count from 0, and check the length "
            "of the vector."
        )


def out_of_bounds(closed: core.ClosedJaxpr) -> str | None:
    """The first index of a trace that is known and out of bounds, in words; None where there is none."""
    faults: list[str] = []

    def written(numbers: Any) -> Any:
        return None if isinstance(numbers, jax.core.Tracer) or np.size(numbers) > SMALL else numbers

    def apply(equation: Any, values: list[Any]) -> list[Any]:
        """The results that are known, and None for the others."""
        outside = _refused(equation, values)
        if outside is not None:
            faults.append(outside)
        if all(v is not None for v in values) and values and not equation.effects and _is_arithmetic(equation):
            with np.errstate(all="ignore"):
                return uncompiled.apply(equation, list(map(np.asarray, values)))
        return [None] * len(equation.outvars)

    interpret(closed, [None] * len(closed.jaxpr.invars), apply, written, calls=INLINED)
    return faults[0] if faults else None


def _is_arithmetic(equation: Any) -> bool:
    """Whether an equation is one of the operations by which JAX prepares an index."""
    plain = all(math.prod(v.aval.shape) <= SMALL and isinstance(v.aval.dtype, np.dtype) for v in equation.outvars)
    return plain and equation.primitive.name in (
        "lt", "add", "sub", "mul", "select_n", "broadcast_in_dim", "convert_element_type", "reshape", "concatenate",
        "squeeze", "iota", "clamp", "max", "min", "rem",
    )  # fmt: skip


def _refused(equation: Any, values: list[Any]) -> str | None:
    """The first index out of bounds in a slice, a gather or a scatter whose indices are known."""
    name, sizes = equation.primitive.name, equation.invars[0].aval.shape if equation.invars else ()
    if name == "dynamic_slice" and all(v is not None for v in values[1:]):
        for axis, (start, length) in enumerate(zip(values[1:], equation.params["slice_sizes"], strict=True)):
            if not 0 <= int(start) <= sizes[axis] - length:
                return _words(int(start), axis, sizes)
    if name in ("gather", "scatter") and values[1] is not None:
        numbers, indices = equation.params["dimension_numbers"], np.asarray(values[1])
        axes = numbers.start_index_map if name == "gather" else numbers.scatter_dims_to_operand_dims
        for place, axis in enumerate(axes):
            length = equation.params["slice_sizes"][axis] if name == "gather" else 1
            for index in indices[..., place].ravel():
                if not 0 <= int(index) <= sizes[axis] - length:
                    return _words(int(index), axis, sizes)
    return None


def _words(index: int, axis: int, sizes: tuple[int, ...]) -> str:
    where = f"axis {axis} of an array of shape {sizes}" if len(sizes) > 1 else f"a vector of {sizes[0]}"
    return f"index {index} into {where}, which goes from 0 to {sizes[axis] - 1}"
