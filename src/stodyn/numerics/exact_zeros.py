"""Zeros in arrays are exact: such a zero times anything is zero, infinite numbers and NaN included.

Printed scalars know these zeros from the structure of a trace, and leave out the operations with them: that is how
constant matrices and Jacobians are sparse. Here they are followed through a trace, whole arrays at a time, so that
loops over arrays and XLA take them in the same meaning. A zero that is written as a number, not in an array, follows
IEEE 754.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from stodyn.numerics import uncompiled
from stodyn.numerics.places import read_places, written_places
from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import PRINTED, TABLE, Zeros, chosen
from stodyn.numerics.printing.operations import CALLS, Dot, Operation, Scan, While
from stodyn.numerics.printing.scalars import MOVES
from stodyn.numerics.printing.trace import interpret

LARGEST, PRODUCTS = 300_000, 4_000_000  # entries of arrays that are followed, and products of entries
FULL = 0.5  # of the longest row of a known matrix: a fuller one is multiplied entry by entry
OPENED = CALLS - {"custom_vmap_call"}  # whose own rule says how it is mapped
MADE = kinds.Counted | kinds.Empty  # arrays of known numbers from nothing
UNFOLLOWED = While | Scan | kinds.Cond | kinds.Executed  # of known numbers, too: their turns may be many


@dataclasses.dataclass(eq=False)
class Known:
    """The numbers of an array, and which of them are known; is_written: a number that stands by itself."""

    numbers: np.ndarray
    known: np.ndarray
    is_written: bool = False

    @property
    def zero(self) -> np.ndarray:
        """Where it is exactly zero."""
        return np.zeros_like(self.known) if self.is_written else self.known & (self.numbers == 0)


Fact = Known | None  # None: no entry is known


def fact_about(numbers: Any) -> Fact:
    """The fact about numbers that a trace holds."""
    if isinstance(numbers, jax.core.Tracer):
        return None
    x = np.asarray(numbers)
    return Known(x, np.broadcast_to(np.True_, x.shape), x.ndim == 0 and x.dtype.kind == "f")


def follow(operation: Operation, facts: Sequence[Fact]) -> list[Fact]:
    """The facts about the results of an operation."""
    name, how, outs = operation.name, operation.how, operation.outs
    nothing: list[Fact] = [None] * len(outs)
    is_followed = (any(facts) or isinstance(how, MADE)) and not isinstance(how, UNFOLLOWED)
    if not is_followed or any(out.size > LARGEST for out in outs):
        return nothing
    if all(fact is not None and fact.known.all() for fact in facts):
        results = _computed(operation, [fact.numbers for fact in facts if fact is not None])
        if results is None:
            return nothing
        is_written = name in PRINTED and all(fact is not None and fact.is_written for fact in facts)
        return [Known(r, np.broadcast_to(np.True_, r.shape), is_written and r.ndim == 0) for r in results]
    if type(how) in MOVES or uncompiled.moves_by_indices(operation):
        return _moved(operation, facts) or nothing
    if isinstance(how, kinds.Reduced) and how.fold in uncompiled.REDUCTIONS:
        (x,), axes = facts, tuple(how.axes)
        assert x is not None
        (numbers,) = _computed(operation, [x.numbers]) or [np.zeros(outs[0].shape, outs[0].dtype)]
        return [_if_any(numbers, np.asarray(x.known.all(axes)))]
    if isinstance(how, Dot):
        zeros = products_of_zeros(operation, facts)
        numbers = np.zeros(outs[0].shape, outs[0].dtype)
        return nothing if zeros is None else [_if_any(numbers, _summed(operation, zeros))]
    if uncompiled.lands(operation):
        return [_landed(operation, facts)]
    return [_between_entries(operation, facts)] if name in PRINTED else nothing


def masked(operation: Operation, facts: Sequence[Fact]) -> np.ndarray | None:
    """Where a product or a quotient is zero because of a zero in an array; None where that is nowhere."""
    row = TABLE.get(operation.name)
    if row is None or not row.factors or not any(facts):
        return None
    (out,) = operation.outs
    if np.dtype(out.dtype).kind != "f":
        return None
    a, b = (_whole(fact, out) for fact in facts)
    zero = a.zero & ~b.known
    zero = zero | (b.zero & ~a.known) if row.factors == 2 else zero
    return zero if zero.any() else None


def products_of_zeros(operation: Operation, facts: Sequence[Fact]) -> np.ndarray | None:
    """Which products of dot_general are zero because of a zero in an array, (batch, rows, columns, products), or 1 in
    place of rows or columns where they are all alike; None where none of them is, or where they are too many."""
    if len(facts) != 2 or not any(fact is not None and fact.zero.any() for fact in facts):
        return None
    sizes = zip(facts, operation.ins, strict=True)
    a, b = (np.zeros(like.shape, bool) if fact is None else fact.zero for fact, like in sizes)
    left, right = arranged(operation.how, a, b)
    left, right = left[:, :, None, :], right[:, None, :, :]
    if not left.any() or not right.any():
        return left if left.any() else right
    return None if left.shape[1] * right.size > PRODUCTS else left | right


def arranged(how: Dot, a: Any, b: Any) -> tuple[Any, Any]:
    """The operands of dot_general as (batch, rows, products) and (batch, columns, products)."""
    (contract_a, contract_b), (batch_a, batch_b) = how

    def of(x: Any, contracted: Sequence[int], batch: Sequence[int]) -> Any:
        free = [k for k in range(x.ndim) if k not in (*contracted, *batch)]
        sizes = [math.prod(x.shape[k] for k in axes) for axes in (batch, free, contracted)]
        return x.transpose([*batch, *free, *contracted]).reshape(sizes)

    return of(a, contract_a, batch_a), of(b, contract_b, batch_b)


def _whole(fact: Fact, out: Any) -> Known:
    """A fact about an operand of the shape of the result, or about one number for all its entries."""
    if fact is None:
        return Known(np.zeros(out.shape, out.dtype), np.zeros(out.shape, bool))
    return Known(np.broadcast_to(fact.numbers, out.shape), np.broadcast_to(fact.known, out.shape), fact.is_written)


def _if_any(numbers: np.ndarray, known: np.ndarray) -> Fact:
    return Known(numbers, known) if np.any(known) else None


def _summed(operation: Operation, zeros: np.ndarray) -> np.ndarray:
    """Which sums of products hold no other products."""
    a, b = arranged(operation.how, *(np.empty(like.shape) for like in operation.ins))
    return np.broadcast_to(zeros.all(-1), (*a.shape[:2], b.shape[1])).reshape(operation.outs[0].shape)


def _computed(operation: Operation, numbers: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The numbers of the results; None where NumPy does not know how to compute them."""
    try:
        with np.errstate(all="ignore"):
            return uncompiled.apply(operation, list(numbers))
    except uncompiled.Compile:
        return None


def _moved(operation: Operation, facts: Sequence[Fact]) -> list[Fact] | None:
    """Data movement: the numbers of the entries, counted through all arrays, are moved instead."""
    how, outs = operation.how, operation.outs
    arrays = uncompiled.ARRAYS.get(type(how), range(len(facts)))
    places = {k: fact for k, fact in enumerate(facts) if k not in arrays}
    if not any(facts[k] for k in arrays) or (isinstance(how, kinds.Scatter) and not uncompiled.lands(operation)):
        return None
    if any(fact is None or not fact.known.all() for fact in places.values()):
        return None
    shapes = [like.shape for like in operation.ins]
    those = [facts[k] or Known(np.zeros(shapes[k]), np.zeros(shapes[k], bool)) for k in arrays]
    firsts = np.cumsum([0, *(x.numbers.size for x in those)])
    numbered = {k: np.arange(f, f + x.numbers.size).reshape(x.numbers.shape)
                for k, f, x in zip(arrays, firsts, those, strict=False)}  # fmt: skip
    operands = [numbered[k] if fact is None or k in numbered else fact.numbers for k, fact in enumerate(facts)]
    inside: Any = np.True_
    if isinstance(how, kinds.Gather):
        at, inside = read_places(how, shapes[0], operands[1], outs[0].shape)
        inside = inside if how.fills else np.True_
        moved: Any = operands[0].ravel()[at]
    elif type(how) in uncompiled.ARRAYS:
        moved = uncompiled.placed(operation, operands)
    else:
        moved = MOVES[type(how)](how, *operands)
    numbers, known = (np.concatenate([np.ravel(getattr(x, part)) for x in those]) for part in ("numbers", "known"))
    results = map(np.asarray, moved if isinstance(moved, list) else [moved])
    return [_if_any(numbers[at].astype(out.dtype), known[at] & inside) for at, out in zip(results, outs, strict=True)]


def _landed(operation: Operation, facts: Sequence[Fact]) -> Fact:
    """An entry is known where it was and where only known updates land on it."""
    shape = operation.ins[2].shape
    x, indices, updates = facts
    if x is None or indices is None or not indices.known.all():
        return None
    updates = updates or Known(np.zeros(shape, x.numbers.dtype), np.zeros(shape, bool))
    at, lands = written_places(operation.how, x.numbers.shape, indices.numbers, shape)
    known = x.known.ravel().copy()
    known[at[lands & ~updates.known]] = False
    with np.errstate(all="ignore"):
        numbers = uncompiled.placed(operation, [x.numbers, indices.numbers, updates.numbers])
    return _if_any(numbers, known.reshape(x.known.shape))


def _between_entries(operation: Operation, facts: Sequence[Fact]) -> Fact:
    (out,) = operation.outs
    operands = [_whole(fact, out) for fact in facts]
    known = np.logical_and.reduce([x.known for x in operands])
    numbers = np.zeros(out.shape, out.dtype)
    if TABLE[operation.name].zeros is Zeros.CHOSEN:
        which, *cases = operands
        is_known = chosen(which.numbers, *(x.known for x in cases))
        alike = np.logical_and.reduce([x.known & (x.numbers == cases[0].numbers) for x in cases])
        numbers = chosen(which.numbers, *(x.numbers for x in cases))
        numbers = np.where(which.known, numbers, cases[0].numbers)
        return _if_any(numbers.astype(out.dtype), np.where(which.known, is_known, alike))
    if known.any():
        computed = _computed(operation, [np.asarray(x.numbers) for x in operands])
        known, numbers = (known, computed[0]) if computed is not None else (np.zeros_like(known), numbers)
    zero = masked(operation, facts)
    if zero is not None:
        known, numbers = known | zero, np.where(zero, 0, numbers).astype(out.dtype)
    return _if_any(numbers, known)


# --- for XLA ----------------------------------------------------------------------------------------------------------


def exact_zeros(trace: core.ClosedJaxpr, facts: Sequence[Fact] | None = None) -> core.ClosedJaxpr:
    """The trace in which zeros in arrays are exact; the trace itself where no such zero meets a number unknown here."""
    facts = [None] * len(trace.jaxpr.invars) if facts is None else list(facts)
    if not _needs_a_change(trace, facts):
        return trace

    def walked(*inputs: Any) -> list[Any]:
        values = interpret(trace, list(zip(inputs, facts, strict=True)), _apply, lambda x: (x, fact_about(x)), OPENED)
        return [value for value, _ in values]

    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, weak_type=v.aval.weak_type) for v in trace.jaxpr.invars]
    return jax.make_jaxpr(walked)(*shapes)


def _needs_a_change(trace: core.ClosedJaxpr, facts: list[Fact]) -> bool:
    changes = False

    def apply(operation: Operation, facts: list[Fact]) -> list[Fact]:
        nonlocal changes
        inside = _inside(operation, facts)
        changes = changes or any(_needs_a_change(inner, own) for inner, own in inside) or _is_changed(operation, facts)
        return [None] * len(operation.outs) if inside else follow(operation, facts)

    interpret(trace, facts, apply, fact_about, OPENED)
    return changes


def _is_changed(operation: Operation, facts: Sequence[Fact]) -> bool:
    if isinstance(operation.how, Dot):
        is_real = np.dtype(operation.outs[0].dtype).kind == "f"
        is_known = all(fact is not None and fact.known.all() for fact in facts)
        return is_real and not is_known and products_of_zeros(operation, facts) is not None
    return masked(operation, facts) is not None


def _inside(operation: Operation, facts: list[Fact]) -> list[tuple[core.ClosedJaxpr, list[Fact]]]:
    """The traces of a loop or of branches, each with the facts about its inputs: nothing about the values of turns."""
    how = operation.how
    if isinstance(how, kinds.Cond):
        return [(branch, facts[1:]) for branch in how.branches]
    if isinstance(how, While):
        tested, fixed, condition, turn = how
        carried: list[Fact] = [None] * (len(facts) - fixed)
        return [(condition, [*facts[:tested], *carried]), (turn, [*facts[tested:fixed], *carried])]
    if isinstance(how, Scan):
        return [(how.body, [*facts[: how.consts], *([None] * (len(facts) - how.consts))])]
    return []


def _apply(operation: Operation, inputs: list[Any]) -> list[Any]:
    values, facts = [value for value, _ in inputs], [fact for _, fact in inputs]
    inside = _inside(operation, facts)
    if any(_needs_a_change(inner, own) for inner, own in inside):
        return [(value, None) for value in RESTAGED[operation.kind](operation.how, values, inside)]
    if isinstance(operation.how, Dot) and _is_changed(operation, facts):
        results: Any = [_product(operation, values, facts)]
    else:
        results = operation.bind(*values)
        zero = masked(operation, facts)
        if zero is not None:
            results = [jnp.where(zero, np.zeros((), results[0].dtype), results[0])]
    new: list[Fact] = [None] * len(results) if inside else follow(operation, facts)
    return list(zip(results, new, strict=True))


def _product(operation: Operation, values: list[Any], facts: list[Fact]) -> Any:
    """dot_general without the products of zeros: those of a known matrix with few entries are not computed at all."""
    (out,) = operation.outs
    zeros = products_of_zeros(operation, facts)
    assert zeros is not None
    left, right = (jnp.asarray(value, out.dtype) for value in values)
    a, b = arranged(operation.how, left, right)
    live = ~zeros
    longest = int(live.sum(-1).max(initial=0))
    if longest <= FULL * zeros.shape[-1]:
        order = np.argsort(zeros, axis=-1, kind="stable")[..., :longest]  # of each sum, the products that count
        batch, row, column, _ = np.indices((*a.shape[:2], *b.shape[1:]), sparse=True)
        products = a[batch, row, order] * b[batch, column, order]
        live = np.take_along_axis(live, order, -1)
    else:
        products = a[:, :, None, :] * b[:, None, :, :]
    return jnp.where(live, products, np.zeros((), out.dtype)).sum(-1).reshape(out.shape)


def _called(inner: core.ClosedJaxpr, facts: list[Fact]) -> Callable:
    return core.jaxpr_as_fun(exact_zeros(inner, facts))


def _cond(how: Any, values: list[Any], inside: list[Any]) -> list[Any]:
    return lax.switch(values[0], [_called(*branch) for branch in inside], *values[1:])


def _while(how: While, values: list[Any], inside: list[Any]) -> list[Any]:
    tested, fixed = how.tested, how.fixed
    goes_on, turn = (_called(*each) for each in inside)
    return lax.while_loop(
        lambda carry: goes_on(*values[:tested], *carry)[0], lambda carry: turn(*values[tested:fixed], *carry),
        values[fixed:],
    )  # fmt: skip


def _scan(how: Scan, values: list[Any], inside: list[Any]) -> list[Any]:
    fixed, carried = how.consts, how.carry
    turn = _called(*inside[0])

    def step(carry: Any, row: Any) -> Any:
        results = turn(*values[:fixed], *carry, *row)
        return results[:carried], results[carried:]

    carry, rows = lax.scan(step, values[fixed : fixed + carried], values[fixed + carried :], how.length,
                           how.is_reverse, how.unroll)  # fmt: skip
    return [*carry, *rows]


RESTAGED: dict[type, Callable] = {kinds.Cond: _cond, While: _while, Scan: _scan}
