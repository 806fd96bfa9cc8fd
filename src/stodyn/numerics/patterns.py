"""On which entries of a vector each entry of a large array depends: a proof from a trace, whole arrays at a time.

Besides its shape an array has a sparse matrix of truth values, a row for each of its entries and a column for each of
the vector's, and the numbers of those entries that are known. Operations between entries unite rows, data movement
moves them, sums add them up; a known zero times anything depends on nothing. So a proof costs as much as the
operations, where dependence.py, which follows every scalar, would take minutes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import scipy
from jax.extend import core

from stodyn.numerics import uncompiled
from stodyn.numerics.places import read_places, written_places
from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import PRINTED, TABLE, Zeros
from stodyn.numerics.printing.operations import Operation
from stodyn.numerics.printing.scalars import MOVES
from stodyn.numerics.printing.trace import interpret
from stodyn.numerics.printing.unprintable import Unprintable, or_unprintable

LARGEST, COLUMNS = 20_000_000, 64  # products of entries that are followed one by one; columns of a product


@dataclasses.dataclass(eq=False)
class Spread:
    """An array: its numbers, which of them are known, and on which entries of the vector each depends."""

    numbers: np.ndarray
    known: np.ndarray
    on: scipy.sparse.csr_array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    def is_zero(self) -> np.ndarray:
        return self.known & (self.numbers == 0)


def rows_of(function: Callable, *arguments: Any) -> scipy.sparse.csr_array:
    """(entries of function(x, ...), entries of x): where one may depend on the other, x being the first argument.

    Raises Unprintable where the trace holds an operation outside the lists below.
    """
    return rows_of_trace(jax.make_jaxpr(function)(*arguments))


@or_unprintable()
def rows_of_trace(closed: core.ClosedJaxpr) -> scipy.sparse.csr_array:
    """The same of a trace; values captured from another one that is being made do not depend on x."""
    first, *others = closed.jaxpr.invars
    n = int(np.prod(first.aval.shape))
    whole = scipy.sparse.csr_array(scipy.sparse.eye_array(n, dtype=bool))
    spreads = [_of(first.aval, whole), *(_unknown(v.aval, n) for v in others)]

    def apply(operation: Operation, inputs: list[Spread]) -> list[Spread]:
        if all(x.known.all() for x in inputs):
            return [_constant(x, n) for x in _computed(operation, inputs)]
        return _applied(operation, inputs)

    (rows,) = interpret(closed, spreads, apply, lambda numbers: _constant(numbers, n))
    return rows.on


def _unknown(aval: Any, n: int) -> Spread:
    return _of(aval, scipy.sparse.csr_array((int(np.prod(aval.shape)), n), dtype=bool))


def _of(aval: Any, on: scipy.sparse.csr_array) -> Spread:
    return Spread(np.zeros(aval.shape, aval.dtype), np.zeros(aval.shape, bool), on)


def _constant(x: Any, n: int) -> Spread:
    if isinstance(x, jax.core.Tracer):
        return _unknown(x.aval, n)
    x = np.asarray(x)
    return Spread(x, np.ones(x.shape, bool), scipy.sparse.csr_array((x.size, n), dtype=bool))


def _computed(operation: Operation, inputs: Sequence[Spread]) -> list[np.ndarray]:
    try:
        with np.errstate(all="ignore"):
            return uncompiled.apply(operation, [x.numbers for x in inputs])
    except uncompiled.Compile as error:
        raise Unprintable(f"primitive {error} of known numbers") from None


def _applied(operation: Operation, inputs: list[Spread]) -> list[Spread]:
    how = operation.how
    if type(how) in MOVES:
        return _moved(operation, inputs, lambda numbered: MOVES[type(how)](how, *numbered))
    if uncompiled.moves_by_indices(operation):
        return _by_indices(operation, inputs)
    if type(how) in RULES:
        return [RULES[type(how)](operation, inputs)]
    if operation.name in PRINTED:
        return [_between_entries(operation, inputs)]
    raise Unprintable(f"primitive {operation.name} is not among the operations whose pattern can be followed")


def _joined(matrices: Sequence[scipy.sparse.csr_array]) -> scipy.sparse.csr_array:
    """The rows united: true where one of them is."""
    total = matrices[0]
    for other in matrices[1:]:
        total = total + other
    return scipy.sparse.csr_array(total, dtype=bool)


def _masked(on: scipy.sparse.csr_array, rows: np.ndarray) -> scipy.sparse.csr_array:
    """The pattern with only these rows."""
    if rows.all():
        return on
    masked = scipy.sparse.csr_array(scipy.sparse.diags_array(rows.astype(float)) @ on)
    masked.eliminate_zeros()
    return scipy.sparse.csr_array(masked, dtype=bool)


def _spread_over(x: Spread, shape: tuple[int, ...]) -> Spread:
    if x.shape == shape:
        return x
    numbered = np.broadcast_to(np.arange(x.numbers.size).reshape(x.shape), shape).ravel()
    return Spread(np.broadcast_to(x.numbers, shape), np.broadcast_to(x.known, shape), x.on[numbered])


def _between_entries(operation: Operation, inputs: list[Spread]) -> Spread:
    out, row = operation.outs[0], TABLE[operation.name]
    spreads = [_spread_over(x, out.shape) for x in inputs]
    known = np.logical_and.reduce([x.known for x in spreads])
    if row.zeros is Zeros.CHOSEN and spreads[0].known.all():
        which = np.asarray(spreads[0].numbers, np.intp)
        cases = [_masked(x.on, (which == k).ravel()) for k, x in enumerate(spreads[1:])]
        options = spreads[1:]
        return Spread(np.choose(which, [x.numbers for x in options]), np.choose(which, [x.known for x in options]),
                      _joined(cases))  # fmt: skip
    zero = np.zeros(out.shape, bool)
    for factor in spreads[: row.factors]:
        zero = zero | factor.is_zero()
    numbers = np.zeros(out.shape, out.dtype)
    if known.any():
        (computed,) = _computed(operation, [dataclasses.replace(x, numbers=np.asarray(x.numbers)) for x in spreads])
        numbers = np.where(known, computed, numbers)
    on = _joined([x.on for x in spreads])
    return Spread(np.where(zero, 0, numbers), known | zero, _masked(on, ~zero.ravel()))


def _moved(operation: Operation, inputs: list[Spread], move: Callable) -> list[Spread]:
    """Data movement: the numbers of the entries, counted through all inputs, are moved instead."""
    firsts = np.cumsum([0, *(x.numbers.size for x in inputs)])
    numbered = [np.arange(f, f + x.numbers.size).reshape(x.shape) for f, x in zip(firsts, inputs, strict=False)]
    moved = move(numbered)
    numbers, known = (np.concatenate([np.ravel(getattr(x, part)) for x in inputs]) for part in ("numbers", "known"))
    on = scipy.sparse.csr_array(scipy.sparse.vstack([x.on for x in inputs]))
    results = moved if isinstance(moved, list) else [moved]
    return [Spread(numbers[at], known[at], on[np.ravel(at)]) for at in map(np.asarray, results)]


def _by_indices(operation: Operation, inputs: list[Spread]) -> list[Spread]:
    """Movement to or from known places; a read out of bounds depends on the nearest entry, or on none."""
    how = operation.how
    arrays = uncompiled.ARRAYS[type(how)]
    places = {k: x for k, x in enumerate(inputs) if k not in arrays}
    if isinstance(how, kinds.Scatter) and not uncompiled.lands(operation):
        raise Unprintable("a function of some entries, x.at[k].apply(f)")
    if not all(x.known.all() for x in places.values()):
        raise Unprintable(f"{operation.name} with an index that is computed")

    def move(numbered: list[np.ndarray]) -> np.ndarray:
        moved = iter(numbered)
        operands = [places[k].numbers if k in places else next(moved) for k in range(len(inputs))]
        if isinstance(how, kinds.Gather):
            places_read, _ = read_places(how, inputs[0].shape, operands[1], operation.outs[0].shape)
            return operands[0].ravel()[places_read]
        return uncompiled.placed(operation, operands)

    return _moved(operation, [inputs[k] for k in arrays], move)


def _summed(target: np.ndarray, x: Spread, operation: Operation) -> Spread:
    """Rows summed: entry k of x goes to entry target[k]."""
    aval = operation.outs[0]
    ones = np.ones(target.size, bool)
    collect = scipy.sparse.csr_array((ones, (target, np.arange(target.size))), (aval.size, target.size))
    return _of(aval, scipy.sparse.csr_array(collect @ x.on, dtype=bool))


def _reduction(operation: Operation, inputs: list[Spread]) -> Spread:
    (x,), axes = inputs, operation.how.axes
    remaining = [a for a in range(len(x.shape)) if a not in axes]
    target = np.arange(int(np.prod([x.shape[a] for a in remaining]))).reshape([x.shape[a] for a in remaining])
    wide = np.broadcast_to(np.expand_dims(target, tuple(axes)), x.shape)
    return _summed(wide.ravel(), x, operation)


def _dot_general(operation: Operation, inputs: list[Spread]) -> Spread:
    """Σ_k a b, of the products that are not zero."""
    a, b = inputs
    (contract_a, contract_b), (batch_a, _) = operation.how
    out = operation.outs[0]
    length = int(np.prod([a.shape[k] for k in contract_a]))
    if batch_a or len(contract_a) != 1:
        raise Unprintable("dot_general over several axes")
    first = np.moveaxis(np.arange(a.numbers.size).reshape(a.shape), contract_a[0], -1).reshape(-1, length)
    second = np.moveaxis(np.arange(b.numbers.size).reshape(b.shape), contract_b[0], -1).reshape(-1, length)
    place = np.arange(out.size).reshape(len(first), len(second))
    if len(first) < len(second):
        a, b, first, second, place = b, a, second, first, place.T
    i, k = np.nonzero(~a.is_zero().ravel()[first])
    if len(i) * len(second) > LARGEST or len(second) > COLUMNS:
        raise Unprintable("dot_general of many products")
    total = scipy.sparse.csr_array((out.size, a.on.shape[1]), dtype=bool)
    for j, own in enumerate(~b.is_zero().ravel()[second]):
        those = own[k]
        rows, ones = place[i[those], j], np.ones(int(those.sum()), bool)
        for x, at in ((a, first[i[those], k[those]]), (b, second[j, k[those]])):
            if x.on.nnz:
                pick = scipy.sparse.csr_array((ones, (rows, at)), (out.size, x.numbers.size))
                total = total + scipy.sparse.csr_array(pick @ x.on, dtype=bool)
    return _of(out, scipy.sparse.csr_array(total, dtype=bool))


def _scattered(operation: Operation, inputs: list[Spread]) -> Spread:
    """An entry depends on its old value and on all updates that land on it."""
    x, indices, updates = inputs
    if not indices.known.all():
        raise Unprintable("a scatter to computed places")
    place, lands = written_places(operation.how, x.shape, indices.numbers, updates.shape)
    landed = dataclasses.replace(updates, on=_masked(updates.on, lands.ravel()))
    return _of(operation.outs[0], _joined([x.on, _summed(place.ravel(), landed, operation).on]))


RULES: dict[type, Callable[[Operation, list[Spread]], Spread]] = {
    kinds.Reduced: _reduction,
    kinds.Dot: _dot_general,
    kinds.Scatter: _scattered,
}
