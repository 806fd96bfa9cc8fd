"""The effect of rounding on a function: its values when data and intermediate results change in their last digits.

Changed data alone do not show it. In sin(y + h x) - sin(y) with a small h the sum loses digits of h x: the same ones
for all floats y next to each other, and changes of y cancel. In cosh(x) - 1 with a small x the cosine loses them, and
changes of x are too small to be seen. In x·0.1·10 - x the products do.

Processors and compilers differ by such changes: functions of libraries by a unit or two in the last place, a product
that is fused with a sum by half of one. A verdict on values of a function that comes from differences of them takes its
threshold from `amounts`, never from what one processor gives.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend import core

from stodyn.numerics import direct, uncompiled
from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import TABLE
from stodyn.numerics.printing.operations import INLINED, WHOLE, Operation
from stodyn.numerics.printing.table import row_of
from stodyn.numerics.printing.trace import interpret
from stodyn.numerics.printing.unprintable import or_else

CHANGE, SAMPLES = 32, 8  # changes are up to this many ε, and made this many times
UNITS = 4  # ε: what processors may differ by in one operation, and more
HALF = 2.0**27 + 1.0  # times a number, it separates the upper half of the number's digits from the lower
WITH_TRACES = kinds.Cond | kinds.While | kinds.Scan | kinds.LinearSolve  # taken as one operation


@or_else(lambda equations, x: jnp.asarray(False))
def is_rounding(equations: core.ClosedJaxpr, x: Array) -> Array:
    """Whether each entry of equations(x) is at most twice what changes by up to 32 ε make of it, of x, of all that the
    trace has captured and that may differ between paths, and of the sums, products and functions it computes."""
    (size,) = core.jaxpr_as_fun(equations)(x)

    def sample(state: tuple[Array, Array]) -> tuple[Array, Array]:
        k, largest = state
        changes = _changes(k)

        def changed(value: Array, size: Array) -> Array:
            return _changed(value, size, changes)

        captured = [changed(c, c) if isinstance(c, jax.core.Tracer) else c for c in equations.consts]
        (moved,) = _evaluated(core.ClosedJaxpr(equations.jaxpr, captured), [changed(x, x)], changed)
        return k + 1.0, jnp.maximum(largest, jnp.abs(moved - size))

    first = jnp.ones((), size.dtype)
    _, largest = lax.while_loop(lambda s: s[0] <= SAMPLES, sample, (first, jnp.zeros_like(size)))
    return jnp.all(jnp.abs(size) <= 2.0 * largest)


def of_solution(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How much of x in A x = b may be rounding, by columns (..., 1, columns): elimination and orthogonal factors solve
    with a matrix A + δA, |δA| <= 3 n ε |A|, whose rows have been brought to one size."""
    rows = np.abs(A).max(axis=-1, keepdims=True)
    condition = np.linalg.cond(A / np.where(rows > 0.0, rows, 1.0))[..., None, None]
    return 3.0 * max(A.shape[-2:]) * np.finfo(float).eps * condition * np.abs(x).max(axis=-2, keepdims=True)


def of_sparse_solution(A: Any, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How much of each entry of x in A x = b may be rounding, A sparse: twice the most that other roundings change it.
    Of the inverse of a large matrix no more is known than solutions show."""
    return 2.0 * np.max([np.abs(other - x) for other in otherwise_solved(A, b)], axis=0)


def otherwise_solved(A: Any, b: np.ndarray) -> Iterator[np.ndarray]:
    """Solutions x of A x = b, A sparse, where entries of A and b change by up to UNITS ε."""
    rng = np.random.default_rng(0)

    def changed(values: np.ndarray) -> np.ndarray:
        return values * (1.0 + UNITS * np.finfo(float).eps * rng.uniform(-1.0, 1.0, values.shape))

    for _ in range(SAMPLES // 2):
        other = A.copy()
        other.data = changed(A.data)
        yield direct.solved(other, changed(b))


class Amounts:
    """How much of the results of a function at many points may be rounding.

    Called with arguments that have the points first, it returns an array of the shape of each result: by how much it
    changes where the arguments and every rounded result of the function's operations change by up to UNITS ε, at each
    point by different ones. One point shows less than the most that can happen; take the largest of several.
    """

    def __init__(self, function: Callable):
        self.function = function
        self._traces: dict[Any, core.ClosedJaxpr] = {}

    def __call__(self, *arguments: np.ndarray) -> list[np.ndarray]:
        shapes = tuple(a.shape for a in arguments)
        units = np.random.default_rng(0)

        def changed(value: Any, size: Any) -> Any:
            if not jnp.issubdtype(value.dtype, jnp.inexact):
                return value
            change = UNITS * float(np.finfo(value.dtype).eps) * units.uniform(-1.0, 1.0, value.shape)
            return value + (change * size).astype(value.dtype)

        with jax.enable_x64(True), np.errstate(all="ignore"):
            if shapes not in self._traces:
                self._traces[shapes] = jax.make_jaxpr(jax.vmap(self.function))(*arguments)
            trace = self._traces[shapes]
            plain = interpret(trace, arguments, _computed, np.asarray, calls=INLINED)
            moved = _evaluated(trace, [changed(a, a) for a in arguments], changed, _computed, np.asarray)
        return [np.abs(np.asarray(b, float) - np.asarray(a, float)) for a, b in zip(plain, moved, strict=True)]


def otherwise_rounded(function: Callable, seed: int = 1) -> Callable:
    """The function as another processor might compute it.

    The result of every operation of its trace that is rounded, and every term of a sum of many, changes by up to
    UNITS ε. The change is the lower half of its own digits, or of those of a multiple that the seed selects, so that
    the function stays a function; it has no slope, decides nothing, and leaves what is affine, or zero, as it is.
    """
    multiple = 1.0 + np.sqrt(seed + 1.0) % 1.0

    def changed(value: Any, _: Any = None) -> Any:
        if not jnp.issubdtype(value.dtype, jnp.floating):
            return value
        other = lax.mul(value, np.full(value.shape, multiple, value.dtype))
        large = lax.mul(other, np.full(value.shape, HALF, value.dtype))
        lower = lax.sub(other, lax.sub(large, lax.sub(large, other)))
        units = UNITS * 2.0**26 * float(jnp.finfo(value.dtype).eps) / multiple
        return lax.add(value, lax.mul(lower, np.full(value.shape, units, value.dtype)))

    def applied(operation: Operation, values: Sequence[Any]) -> list[Any]:
        return _applied(operation, [changed(jnp.asarray(v)) for v in values] if row_of(operation).is_sum else values)

    def rounded(*arguments: Any) -> Any:
        trace, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = _evaluated(trace, list(map(jnp.asarray, jax.tree.leaves(arguments))), changed, applied, jnp.asarray)
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return rounded


def _computed(operation: Operation, values: Sequence[Any]) -> list[Any]:
    """The results of an operation by NumPy, or by JAX where NumPy does not know how."""
    try:
        return uncompiled.apply(operation, list(values))
    except uncompiled.Compile:
        with jax.ensure_compile_time_eval():
            return list(map(np.asarray, _applied(operation, values)))


def _changes(k: Array) -> Iterator[Array]:
    """cos k, cos 2k, cos 3k, ...: the factors of the changes of sample k, one for each array."""
    before, now = jnp.ones_like(k), jnp.cos(k)
    twice = 2.0 * now
    while True:
        yield now
        before, now = now, lax.sub(lax.mul(twice, now), before)


def _changed(value: Array, size: Array, changes: Iterator[Array]) -> Array:
    """value plus up to CHANGE ε of `size`, a different share for each entry.

    By lax: there are as many of these as operations in the residual, and jnp would take three times as long to trace
    each of them.
    """
    dtype, shape = value.dtype, value.shape
    if not jnp.issubdtype(dtype, jnp.inexact):
        return value
    change = lax.convert_element_type(next(changes), dtype)
    change = lax.mul(change, np.asarray(CHANGE * jnp.finfo(dtype).eps, dtype))
    return lax.add(value, lax.mul(lax.broadcast(change, shape), lax.mul(_shares(shape, dtype), size)))


@functools.lru_cache(maxsize=256)
def _shares(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    number = np.arange(math.prod(shape)).reshape(shape)
    return (np.where(np.cos(number) < 0.0, -0.5, 0.5) * (1.0 + np.sqrt(2.0) * number % 1.0)).astype(dtype)


def _is_rounded(operation: Operation) -> bool:
    row = TABLE.get(operation.name)
    return row.is_rounded if row is not None else isinstance(operation.how, WITH_TRACES) or operation.name == WHOLE


def _applied(operation: Operation, values: Sequence[Any]) -> list[Any]:
    return operation.bind(*values)


def _evaluated(
    equations: core.ClosedJaxpr,
    inputs: Sequence[Any],
    changed: Callable[[Any, Any], Any],
    applied: Callable[[Operation, Sequence[Any]], list[Any]] = _applied,
    literal: Callable[[Any], Any] = lambda numbers: numbers,
) -> list[Any]:
    """The results of a trace in which everything that is rounded is changed: changed(value, size of the rounding)."""

    def apply(operation: Operation, values: list[Any]) -> list[Any]:
        results = applied(operation, values)
        if _is_rounded(operation):
            return [changed(result, result) for result in results]
        if row_of(operation).is_sum:
            sizes = applied(operation, [abs(v) if jnp.issubdtype(v.dtype, jnp.inexact) else v for v in values])
            return [changed(r, size) for r, size in zip(results, sizes, strict=True)]
        return results

    return interpret(equations, inputs, apply, literal, calls=INLINED)
