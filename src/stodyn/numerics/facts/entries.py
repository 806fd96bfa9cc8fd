"""Which entries of arrays are known, and on which of the inputs' numbers the others depend, whole arrays at a time.

    y_i is known       where all that it is made of is known, or where it is a product with an exact zero
    y_i depends on x_j where something that it is made of does and is not multiplied by an exact zero

Data movement moves the numbers of entries, so that one rule serves all of it. Operations between entries, sums and
products unite what their operands depend on: rows of sparse matrices of truth values, so that a proof costs as much as
the operations. Nothing is guessed: an operation outside these rules has no result.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import scipy

from stodyn.numerics import uncompiled
from stodyn.numerics.places import read_places, written_places
from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import PRINTED, TABLE, Row, Zeros, chosen
from stodyn.numerics.printing.operations import Operation
from stodyn.numerics.printing.table import row_of

PRODUCTS, LIVE = 4_000_000, 20_000_000  # products of entries that are asked for zeros, and that are followed
FEW, AT_ONCE = 8, 1_000_000_000  # columns of `on` up to which products, so many, are not followed one by one

Rows = Any  # csr_array (entries, numbers of the inputs), true where one depends on the other; None: nothing does


@dataclasses.dataclass(eq=False)
class Entries:
    """The numbers of an array, which of them are known, and on what the others depend.

    A zero in an array is exact, but not a number that is written by itself (is_written): that follows IEEE 754.
    """

    numbers: np.ndarray
    known: np.ndarray
    on: Rows = None
    is_written: bool = False

    @property
    def zero(self) -> np.ndarray:
        """Where it is exactly zero."""
        return np.zeros_like(self.known) if self.is_written else self.known & (self.numbers == 0)


Fact = Entries | None  # None: no entry is known, and none depends on the inputs that are followed


def follow(operation: Operation, facts: Sequence[Fact]) -> list[Fact]:
    """The facts about the results of an operation; None for those that no rule below is about."""
    if all(fact is not None and fact.known.all() for fact in facts):
        return _of_known(operation, facts)  # type: ignore[arg-type]
    if any(out.size > LIVE for out in operation.outs):
        return [None] * len(operation.outs)
    data = row_of(operation).data
    if data:
        return _moved(operation, facts, [k for k in range(len(facts)) if k in data])
    rule = RULES.get(operation.kind, _between_entries if operation.name in PRINTED else None)
    if rule is None:
        return [None] * len(operation.outs)
    return [rule(operation, [fact or _unknown(like) for fact, like in zip(facts, operation.ins, strict=True)])]


def fact_about(numbers: Any) -> Fact:
    """The fact about numbers that a trace holds."""
    if isinstance(numbers, jax.core.Tracer):
        return None
    x = np.asarray(numbers)
    return Entries(x, np.broadcast_to(np.True_, x.shape), is_written=x.ndim == 0 and x.dtype.kind == "f")


def _unknown(like: Any) -> Entries:
    nowhere = np.broadcast_to(np.False_, like.shape)
    return Entries(nowhere, nowhere)


def _of_known(operation: Operation, facts: Sequence[Entries]) -> list[Fact]:
    results = _computed(operation, [fact.numbers for fact in facts])
    if results is None:
        return [None] * len(operation.outs)
    is_written = operation.name in PRINTED and all(fact.is_written for fact in facts)
    return [Entries(r, np.broadcast_to(np.True_, r.shape), is_written=is_written and r.ndim == 0) for r in results]


def _computed(operation: Operation, numbers: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The numbers of the results; None where NumPy does not know how to compute them."""
    try:
        with np.errstate(all="ignore"):
            return uncompiled.apply(operation, list(numbers))
    except uncompiled.Compile:
        return None


def _fact(out: Any, known: np.ndarray, on: Rows, numbers: Any = 0) -> Fact:
    if on is None and not known.any():
        return None
    return Entries(np.broadcast_to(np.asarray(numbers, out.dtype), out.shape), known, on)


def _where_known(operation: Operation, known: np.ndarray, inputs: Sequence[Entries]) -> tuple[np.ndarray, Any]:
    """Which entries of a result are known, of those that could be, and their numbers."""
    results = _computed(operation, [np.asarray(x.numbers) for x in inputs]) if known.any() else None
    return (np.zeros_like(known), 0) if results is None else (known, results[0])


# --- what depends on what ---------------------------------------------------------------------------------------------


def _union(*all_rows: Rows) -> Rows:
    """True where one of them is."""
    some = [rows for rows in all_rows if rows is not None]
    return functools.reduce(operator.add, some) if some else None


def _summed(rows: Rows, target: np.ndarray, count: int, source: np.ndarray | None = None) -> Rows:
    """Rows united: row source[k], or k, goes to row target[k] of `count`."""
    if rows is None:
        return None
    source = np.arange(target.size) if source is None else source
    collect = scipy.sparse.csr_array((np.ones(target.size, bool), (target, source)), (count, rows.shape[0]))
    return collect @ rows


def _rows_where(rows: Rows, those: np.ndarray) -> Rows:
    """The rows where `those` is true, the others empty."""
    if rows is None or those.all():
        return rows
    at = np.flatnonzero(those)
    return _summed(rows, at, rows.shape[0], at)


# --- rules ------------------------------------------------------------------------------------------------------------


def _moved(operation: Operation, facts: Sequence[Fact], arrays: Sequence[int]) -> list[Fact]:
    """Data movement: the numbers of the entries, counted through all arrays, are moved instead."""
    indices = [fact for k, fact in enumerate(facts) if k not in arrays]
    is_led = all(fact is not None and fact.known.all() for fact in indices)
    if not is_led or not any(facts[k] for k in arrays):
        return [None] * len(operation.outs)
    inputs = [fact or _unknown(like) for fact, like in zip(facts, operation.ins, strict=True)]
    those = [inputs[k] for k in arrays]
    ends = np.cumsum([0, *(x.numbers.size for x in those)])
    operands = [x.numbers for x in inputs]
    for k, first, last in zip(arrays, ends, ends[1:], strict=False):
        operands[k] = np.arange(first, last).reshape(operands[k].shape)
    moved, inside = _entries_moved(operation, operands)
    numbers, known = (np.concatenate([np.ravel(getattr(x, part)) for x in those]) for part in ("numbers", "known"))
    on = _union(*(_summed(x.on, np.arange(f, f + x.known.size), ends[-1]) for x, f in zip(those, ends, strict=False)))
    return [_fact(out, known[at] & inside, None if on is None else _rows_where(on[np.ravel(at)], inside), numbers[at])
            for at, out in zip(map(np.asarray, moved), operation.outs, strict=True)]  # fmt: skip


def _entries_moved(operation: Operation, operands: Sequence[np.ndarray]) -> tuple[list[Any], Any]:
    """The results of data movement, whatever the entries are, and which of them come from inside the operands."""
    how = operation.how
    if isinstance(how, kinds.Gather):
        at, inside = read_places(how, operands[0].shape, operands[1])
        return [operands[0].ravel()[at]], inside if how.fills else np.True_
    return uncompiled.results_of(operation, operands), np.True_


def _between_entries(operation: Operation, inputs: Sequence[Entries]) -> Fact:
    (out,), row, operands = operation.outs, TABLE[operation.name], spread_over(operation, inputs)
    if row.zeros is Zeros.CHOSEN:
        return _chosen(out, *operands)
    zero = zero_products(row, operands)
    known, numbers = _where_known(operation, np.logical_and.reduce([x.known for x in operands]), operands)
    on = _rows_where(_union(*(x.on for x in operands)), ~zero)
    return _fact(out, known | zero, on, np.where(zero, 0, numbers))


def spread_over(operation: Operation, facts: Sequence[Fact]) -> list[Entries]:
    """The facts about operands of the shape of the result: one number stands for all its entries."""
    shape, operands = operation.outs[0].shape, []
    for fact, like in zip(facts, operation.ins, strict=True):
        x = fact or _unknown(like)
        on = x.on
        if on is not None and like.shape != shape:
            on = on[np.broadcast_to(np.arange(like.size).reshape(like.shape), shape).ravel()]
        operands.append(Entries(np.broadcast_to(x.numbers, shape), np.broadcast_to(x.known, shape), on, x.is_written))
    return operands


def zero_products(row: Row, operands: Sequence[Entries]) -> np.ndarray:
    """Where a product or a quotient is zero because of an exact zero, whatever its other operand is."""
    zero = np.zeros(operands[0].known.shape, bool)
    for k, factor in enumerate(operands[: row.factors]):
        zero |= factor.zero & ~operands[1 - k].known
    return zero


def _chosen(out: Any, which: Entries, *cases: Entries) -> Fact:
    """The case that is chosen; where it is not known which, any of them."""
    alike = np.logical_and.reduce([x.known & (x.numbers == cases[0].numbers) for x in cases])
    known = np.where(which.known, chosen(which.numbers, *(x.known for x in cases)), alike)
    numbers = np.where(which.known, chosen(which.numbers, *(x.numbers for x in cases)), cases[0].numbers)
    of_cases = [_rows_where(x.on, ~which.known | (which.numbers == k)) for k, x in enumerate(cases)]
    return _fact(out, known, _rows_where(_union(which.on, *of_cases), ~known), numbers)


def _reduced(operation: Operation, inputs: Sequence[Entries]) -> Fact:
    """An entry is known where all those are that it joins."""
    (x,), (out,), axes = inputs, operation.outs, tuple(operation.how.axes)
    known, numbers = _where_known(operation, np.asarray(x.known.all(axes)), inputs)
    target = np.broadcast_to(np.expand_dims(np.arange(out.size).reshape(out.shape), axes), x.known.shape)
    return _fact(out, known, _summed(x.on, target.ravel(), out.size), numbers)


def _landed(operation: Operation, inputs: Sequence[Entries]) -> Fact:
    """An entry on which updates land, and with which they are joined, is known where it was and all its updates are."""
    x, indices, updates = inputs
    if not indices.known.all():
        return None
    at, lands = written_places(operation.how, x.known.shape, indices.numbers, updates.known.shape)
    possible = x.known.flatten()
    possible[at[lands & ~updates.known]] = False
    known, numbers = _where_known(operation, possible.reshape(x.known.shape), inputs)
    on = _union(x.on, _summed(_rows_where(updates.on, lands), at.ravel(), x.known.size))
    return _fact(operation.outs[0], known, on, numbers)


def _product(operation: Operation, inputs: Sequence[Entries]) -> Fact:
    """Σ_k a_ik b_jk: zero where all products are, and it depends on those that are not."""
    (out,), (a, b) = operation.outs, inputs
    zeros, on = products_of_zeros(operation, inputs), None
    left, right = operation.how.arranged(*(np.arange(x.known.size).reshape(x.known.shape) for x in inputs))
    shape = *left.shape[:2], right.shape[1]
    known = False if zeros is None else zeros.all(-1)
    if a.on is not None or b.on is not None:
        columns = max(x.on.shape[1] for x in inputs if x.on is not None)
        if columns <= FEW and left.size * right.shape[1] <= AT_ONCE:
            on = _multiplied(a, b, left, right, columns)
            return _fact(out, np.broadcast_to(known, shape).reshape(out.shape), on)
        pairs = _live_pairs(~a.zero.ravel()[left], ~b.zero.ravel()[right])
        if pairs is None:
            return None
        (batch, i, j, k), into = pairs, np.ravel_multi_index(pairs[:3], shape)
        on = _union(_summed(a.on, into, out.size, left[batch, i, k]), _summed(b.on, into, out.size, right[batch, j, k]))
    return _fact(out, np.broadcast_to(known, shape).reshape(out.shape), on)


def _multiplied(a: Entries, b: Entries, left: np.ndarray, right: np.ndarray, columns: int) -> Rows:
    """On which of a few columns the sums of products depend, found by products of matrices of truth values: a product
    that is not zero depends on what either factor depends on."""
    (live_a, on_a), (live_b, on_b) = (_placed(x, places, columns) for x, places in ((a, left), (b, right)))
    ways = [(on_a[p] @ live_b.swapaxes(1, 2) + live_a @ on_b[p].swapaxes(1, 2)).ravel() > 0.0 for p in range(columns)]
    return scipy.sparse.csr_array(np.stack(ways, axis=1))


def _placed(x: Entries, places: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the entries at these places may differ from zero, and for each column which of those depend on it: 1.0."""
    live = ~x.zero.ravel()[places]
    on = np.zeros((x.known.size, columns), bool) if x.on is None else x.on.toarray()
    return live.astype(np.float32), np.array([on[places, p] & live for p in range(columns)], np.float32)


def _live_pairs(left: np.ndarray, right: np.ndarray) -> Any:
    """(batch, i, j, k) where left (batch, i, k) and right (batch, j, k) are true; None where they are too many."""
    batch, i, k = np.nonzero(left)
    other_batch, j, other_k = np.nonzero(right)
    sums, other_sums = batch * left.shape[2] + k, other_batch * left.shape[2] + other_k
    order = np.argsort(other_sums, kind="stable")
    first, last = (np.searchsorted(other_sums[order], sums, side) for side in ("left", "right"))
    counts = last - first
    if counts.sum() > LIVE:
        return None
    one = np.repeat(np.arange(len(sums)), counts)
    other = order[np.arange(len(one)) - np.repeat(np.cumsum(counts) - last, counts)]
    return batch[one], i[one], j[other], k[one]


def products_of_zeros(operation: Operation, facts: Sequence[Fact]) -> np.ndarray | None:
    """Which products of dot_general are zero because of a zero in an array, (batch, rows, columns, products), or 1 in
    place of rows or columns where they are all alike; None where none of them is, or where they are too many."""
    if not any(fact is not None and fact.zero.any() for fact in facts):
        return None
    sizes = zip(facts, operation.ins, strict=True)
    a, b = (np.zeros(like.shape, bool) if fact is None else fact.zero for fact, like in sizes)
    left, right = operation.how.arranged(a, b)
    left, right = left[:, :, None, :], right[:, None, :, :]
    if not left.any() or not right.any():
        return left if left.any() else right
    return None if left.shape[1] * right.size > PRODUCTS else left | right


RULES: dict[type, Callable[[Operation, Sequence[Entries]], Fact]] = {
    kinds.Reduced: _reduced,
    kinds.Dot: _product,
    kinds.Scatter: _landed,
}
