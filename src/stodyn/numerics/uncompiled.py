"""A traced function computed by NumPy, operation by operation, for values needed too rarely to compile it."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics.places import read_places, written_places
from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import TABLE
from stodyn.numerics.printing.fingerprints import without_prints
from stodyn.numerics.printing.operations import Cond, Cumulated, Dot, Gather, Operation, Scan, Scatter, While
from stodyn.numerics.printing.scalars import MOVES, filling
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


def apply(operation: Operation, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results of one operation of a trace."""
    results = _results(operation, inputs)
    return [np.asarray(r, out.dtype) for r, out in zip(results, operation.outs, strict=True)]


def _results(operation: Operation, inputs: list[np.ndarray]) -> list[Any]:
    how, kind = operation.how, operation.kind
    row = TABLE.get(operation.name)
    if row is not None and row.numpy is not None:
        if not row.real or not any(np.iscomplexobj(x) for x in inputs):
            return [row.numpy(how, *inputs) if row.with_how else row.numpy(*inputs)]
    elif kind in CONTROL:
        return CONTROL[kind](how, inputs)
    elif kind in MOVES:
        moved = MOVES[kind](how, *inputs)
        return moved if isinstance(moved, list) else [moved]
    elif isinstance(how, Gather):
        return [_gather(how, inputs[0], inputs[1], operation.outs[0].shape)]
    elif lands(operation) or isinstance(how, kinds.SliceAt | kinds.UpdateAt):
        return [placed(operation, inputs)]
    elif kind in OTHERS:
        return [OTHERS[kind](how, *inputs)]
    raise Compile(operation.name)


def lands(operation: Operation) -> bool:
    """Whether an operation is a scatter without a function of its own, as x.at[k].apply(f) has."""
    return isinstance(operation.how, Scatter) and operation.how.function is None


def moves_by_indices(operation: Operation) -> bool:
    """Whether an operation only moves entries, from or to places that other operands say."""
    return operation.kind in ARRAYS and getattr(operation.how, "fold", None) is None


def placed(operation: Operation, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """The result of a scatter or of a slice by indices, whatever its entries are."""
    if isinstance(operation.how, kinds.SliceAt):
        x, *starts = inputs
        return _slice_at(x, starts, operation.how.sizes)
    if isinstance(operation.how, kinds.UpdateAt):
        x, update, *starts = inputs
        changed = np.array(x)
        _slice_at(changed, starts, update.shape)[...] = update
        return changed
    x, indices, updates = inputs
    return _scatter(operation.how, x, indices, updates)


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


def _slice_at(x: np.ndarray, starts: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    first = [int(np.clip(start, 0, full - size)) for start, full, size in zip(starts, x.shape, sizes, strict=True)]
    return x[tuple(slice(p, p + size) for p, size in zip(first, sizes, strict=True))]


def _gather(how: Gather, x: np.ndarray, indices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    place, inside = read_places(how, x.shape, indices, shape)
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


def _dot_general(how: Dot, a: np.ndarray, b: np.ndarray) -> np.ndarray:
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


def _execute(how: kinds.Executed, data: np.ndarray, *fixed: np.ndarray) -> np.ndarray:
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


def _cumulated(how: Cumulated, x: np.ndarray) -> np.ndarray:
    joined, axis = TABLE[how.fold].numpy.accumulate, how.axis
    return np.flip(joined(np.flip(x, axis), axis), axis) if how.is_reverse else joined(x, axis)


def _extreme(how: kinds.Extreme, x: np.ndarray) -> np.ndarray:
    return (np.argmax if how.fold == "max" else np.argmin)(x, how.axes[0])


# Of operations that move entries by indices, the operands whose entries move; the others are the indices.
ARRAYS: dict[type, tuple[int, ...]] = {
    kinds.Gather: (0,),
    kinds.SliceAt: (0,),
    kinds.UpdateAt: (0, 1),
    kinds.Scatter: (0, 2),
}
OTHERS: dict[type, Callable] = {
    Dot: _dot_general,
    Cumulated: _cumulated,
    kinds.Executed: _execute,
    kinds.Extreme: _extreme,
    kinds.Reduced: lambda how, x: TABLE[how.fold].numpy.reduce(x, tuple(how.axes)),
}
