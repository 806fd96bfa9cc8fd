"""A traced function computed by NumPy, operation by operation, for values needed too rarely to compile it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.fingerprints import without_prints
from stodyn.numerics.printing.operations import Cond, Operation, Scan, While
from stodyn.numerics.printing.table import row_of
from stodyn.numerics.printing.trace import interpret
from stodyn.numerics.printing.unprintable import report_fault
from stodyn.numerics.tracing_errors import TRACED


class Compile(Exception):
    """The trace holds an operation without a counterpart in NumPy here: let JAX compile it."""


def run(closed: core.ClosedJaxpr, *arguments: Any) -> list[np.ndarray]:
    """The outputs of a trace for arguments of its input shapes; raises Compile where NumPy does not know how."""
    try:
        with np.errstate(all="ignore"):
            return interpret(closed, [np.asarray(a) for a in arguments], apply, np.asarray)
    except (Compile, *TRACED):
        raise
    except Exception as error:
        raise Compile(report_fault("a computation by NumPy", error, "with JAX's own, more slowly")) from error


def value(function: Callable, *arguments: Any) -> np.ndarray:
    """function(*arguments), one array, of arrays, in double precision: by NumPy where it knows how, else compiled."""
    with jax.enable_x64(True):
        trace = without_prints(jax.make_jaxpr(function)(*arguments))
        try:
            return run(trace, *arguments)[0]
        except Compile:
            return np.asarray(jax.jit(core.jaxpr_as_fun(trace))(*jax.tree.leaves(arguments))[0])


class Uncompiled:
    """function(*trees of arrays) with arrays of NumPy as its results: by NumPy where it knows how, else compiled.

    It is traced in double precision, at the first call with such shapes; hold it for as long as it stays the same.
    """

    def __init__(self, function: Callable):
        self.function = function
        self._cache: dict[Any, tuple[core.ClosedJaxpr, Any, Callable | None]] = {}

    def __call__(self, *arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        arrays = [np.asarray(leaf) for leaf in leaves]
        key = tree, tuple((a.shape, a.dtype) for a in arrays)
        with jax.enable_x64(True):
            if key not in self._cache:
                self._cache[key] = self._traced(tree, arrays)
            trace, results, by_xla = self._cache[key]
            if by_xla is None:
                try:
                    return jax.tree.unflatten(results, run(trace, *arrays))
                except Compile:
                    by_xla = jax.jit(core.jaxpr_as_fun(trace))
                    self._cache[key] = trace, results, by_xla
            return jax.tree.unflatten(results, map(np.asarray, by_xla(*arrays)))

    def _traced(self, tree: Any, arrays: list[np.ndarray]) -> tuple[core.ClosedJaxpr, Any, None]:
        """The trace for such arguments, the structure of its results, and nothing compiled yet."""

        def flat(*leaves):
            return self.function(*jax.tree.unflatten(tree, leaves))

        trace, shape = jax.make_jaxpr(flat, return_shape=True)(*arrays)
        trace = without_prints(trace)
        return trace, jax.tree.structure(shape), None


def apply(operation: Operation, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of one operation of a trace."""
    results = results_of(operation, inputs)
    return [np.asarray(r, out.dtype) for r, out in zip(results, operation.outs, strict=True)]


def results_of(operation: Operation, inputs: Sequence[np.ndarray]) -> list[Any]:
    """The results for operands of any type."""
    how, row = operation.how, row_of(operation)
    if row.numpy is not None and not (row.real and any(np.iscomplexobj(x) for x in inputs)):
        results = row.numpy(how, *inputs) if row.with_how else row.numpy(*inputs)
        return results if isinstance(results, list) else [results]
    if operation.kind in CONTROL:
        return CONTROL[operation.kind](how, inputs)
    raise Compile(operation.name)


def _while(how: While, inputs: list[np.ndarray]) -> list[np.ndarray]:
    test, body, carry = inputs[: how.tested], inputs[how.tested : how.fixed], inputs[how.fixed :]
    while (goes_on := run(how.condition, *test, *carry)[0]).any():
        turn = run(how.body, *body, *carry)
        if goes_on.ndim:  # under vmap each path keeps its values once it is done
            wide = [goes_on.reshape(goes_on.shape + (1,) * (new.ndim - goes_on.ndim)) for new in turn]
            turn = [np.where(on, new, old) for on, new, old in zip(wide, turn, carry, strict=True)]
        carry = turn
    return carry


def _cond(how: Cond, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return run(how.branches[int(np.clip(inputs[0], 0, len(how.branches) - 1))], *inputs[1:])


def _scan(how: Scan, inputs: list[np.ndarray]) -> list[np.ndarray]:
    fixed, carried, length, is_reverse, _, body = how
    consts, carry, xs = inputs[:fixed], inputs[fixed : fixed + carried], inputs[fixed + carried :]
    ys: list[Any] = [np.empty((length, *aval.shape), aval.dtype) for aval in body.out_avals[carried:]]
    for k in reversed(range(length)) if is_reverse else range(length):
        results = run(body, *consts, *carry, *(x[k] for x in xs))
        carry = results[:carried]
        for y, value in zip(ys, results[carried:], strict=True):
            y[k] = value
    return [*carry, *ys]


CONTROL: dict[type, Callable] = {
    While: _while, Cond: _cond, Scan: _scan, kinds.Barrier: lambda how, inputs: inputs,
}  # fmt: skip
