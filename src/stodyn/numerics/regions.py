"""Which of its pieces a function is on: where abs, max, comparisons and the like in its trace change their answer.

A function made of smooth pieces, such as the law of a transistor that is off, saturated or neither, is told apart from
its trace: `region(function)` has one number for each decision in it, and between two points where all of them are equal
it is smooth. The reverse does not hold: max(x, 0) + max(-x, 0) - |x| has three decisions and no corner.
Decisions inside a loop (scan, while) count by the whole numbers that leave it, as those of a search in a table do.
Functions written for NumPy arrays are not traced: they are handed `Watched` arrays, which note the decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from stodyn.numerics.printing.entrywise import TABLE
from stodyn.numerics.printing.operations import Cond, Operation, Reduced
from stodyn.numerics.printing.trace import interpret


def region(function: Callable) -> Callable:
    """The function of the same arguments whose result (decisions,) says on which piece `function` is there."""

    def decided(*arguments: Any) -> Any:
        decisions: list[Any] = []
        leaves = jax.tree.leaves(arguments)
        _walk(jax.make_jaxpr(function)(*arguments), leaves, decisions)
        parts = [jnp.ravel(part).astype(float) for part in decisions]
        return jnp.concatenate(parts) if parts else jnp.zeros(0)

    return decided


def _walk(trace: core.ClosedJaxpr, inputs: list[Any], decisions: list[Any]) -> None:
    def apply(operation: Operation, values: list[Any]) -> list[Any]:
        if isinstance(operation.how, Cond):
            for branch in operation.how.branches:
                _walk(branch, values[1:], decisions)
        results = operation.bind(*values)
        if any(jnp.issubdtype(jnp.result_type(value), jnp.floating) for value in values):
            decisions.extend(_decisions(operation, values, results))
        return results

    interpret(trace, inputs, apply, jnp.asarray)


def _decisions(operation: Operation, values: list[Any], results: list[Any]) -> list[Any]:
    """What an operation decides from numbers that are not whole."""
    row = TABLE.get(operation.name)
    if row is not None and row.decides is not None:
        return list(row.decides(*results, *values))
    if isinstance(operation.how, Reduced) and TABLE[operation.how.fold].decides is not None:
        (axes, fold), whole = operation.how, values[0]
        others = tuple(k for k in range(whole.ndim) if k not in axes)
        flat = jnp.transpose(whole, (*others, *axes)).reshape(*(whole.shape[k] for k in others), -1)
        return [getattr(jax.lax, TABLE[fold].place)(flat, flat.ndim - 1, jnp.int32)]
    return [result for result in results if not jnp.issubdtype(result.dtype, jnp.floating)]


# --- of functions of NumPy arrays -------------------------------------------------------------------------------------

COMPARISONS = {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}
ROUNDED = {np.floor, np.ceil, np.rint, np.trunc}


class Watched(np.ndarray):
    """An array that notes every decision taken on it, and on what is computed from it, in the list `decisions`."""

    decisions: list[np.ndarray]

    def __array_finalize__(self, other: Any) -> None:
        if isinstance(other, Watched):
            self.decisions = other.decisions

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        plain = [np.asarray(value) for value in inputs]
        result = getattr(ufunc, method)(*plain, **kwargs)
        if method == "__call__":
            self._note(ufunc, plain, result)
        return self._watched(result)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        plain = jax.tree.map(lambda value: np.asarray(value) if isinstance(value, Watched) else value, arguments)
        if function is np.clip:
            x, low, high = plain
            self.decisions.extend([x > low, x > high])
        return self._watched(function(*plain, **options))

    def _note(self, function: Any, inputs: list[np.ndarray], result: Any) -> None:
        if function in COMPARISONS or function in ROUNDED:
            self.decisions.append(np.asarray(result))
        elif function in (np.maximum, np.minimum):
            self.decisions.append(inputs[0] > inputs[1])
        elif function in (np.absolute, np.sign):
            self.decisions.append(inputs[0] > 0.0)

    def _watched(self, result: Any) -> Any:
        return watched(result, self.decisions) if isinstance(result, np.ndarray) else result


def watched(values: np.ndarray, decisions: list[np.ndarray]) -> Watched:
    """The array, noting decisions in that list."""
    view = np.asarray(values).view(Watched)
    view.decisions = decisions
    return view
