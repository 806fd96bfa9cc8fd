"""Zeros in arrays are exact: such a zero times anything is zero, infinite numbers and NaN included.

Printed scalars know these zeros from the structure of a trace, and leave out the operations with them: that is how
constant matrices and Jacobians are sparse. Here a trace is written anew so that XLA takes them in the same meaning, as
loops over arrays do. A zero that is written as a number, not in an array, follows IEEE 754.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend import core

from stodyn.numerics.facts import entries
from stodyn.numerics.facts.entries import Fact, fact_about, products_of_zeros, spread_over, zero_products
from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import TABLE
from stodyn.numerics.printing.operations import UNMAPPED, Dot, Operation, Scan, While
from stodyn.numerics.printing.trace import interpret, retraced
from stodyn.numerics.printing.unprintable import or_else

LARGEST = 300_000  # entries of arrays that are followed
FULL = 0.5  # of the longest row of a known matrix: a fuller one is multiplied entry by entry
MADE = kinds.Counted | kinds.Empty  # arrays of known numbers from nothing
UNFOLLOWED = While | Scan | kinds.Cond | kinds.Executed  # of known numbers, too: their turns may be many


@or_else(lambda trace, facts=None: trace)
def exact_zeros(trace: core.ClosedJaxpr, facts: Sequence[Fact] | None = None) -> core.ClosedJaxpr:
    """The trace in which zeros in arrays are exact; the trace itself where no such zero meets a number unknown here."""
    facts = [None] * len(trace.jaxpr.invars) if facts is None else list(facts)
    if not _needs_a_change(trace, facts):
        return trace

    def walked(*inputs: Any) -> list[Any]:
        values = interpret(trace, list(zip(inputs, facts, strict=True)), _apply, lambda x: (x, fact_about(x)), UNMAPPED)
        return [value for value, _ in values]

    return retraced(walked, trace)


def follow(operation: Operation, facts: Sequence[Fact]) -> list[Fact]:
    """The facts about the results of an operation, where they are worth their price."""
    is_followed = (any(facts) or isinstance(operation.how, MADE)) and not isinstance(operation.how, UNFOLLOWED)
    if not is_followed or any(out.size > LARGEST for out in operation.outs):
        return [None] * len(operation.outs)
    return entries.follow(operation, facts)


def _apply(operation: Operation, inputs: list[Any]) -> list[Any]:
    values, facts = [value for value, _ in inputs], [fact for _, fact in inputs]
    if isinstance(operation.how, Dot) and _is_changed(operation, facts):
        results = [_product(operation, values, facts)]
    else:
        inside = {id(inner): (inner, own) for inner, own in _inside(operation, facts)}
        exact = operation.rewritten(lambda inner: exact_zeros(*inside[id(inner)])) if inside else operation
        results = exact.bind(*values)
    zero = _zeroed(operation, facts)
    if zero is not None:
        results = [jnp.where(zero, np.zeros((), results[0].dtype), results[0])]
    return list(zip(results, follow(operation, facts), strict=True))


def _needs_a_change(trace: core.ClosedJaxpr, facts: list[Fact]) -> bool:
    changes = False

    def apply(operation: Operation, facts: list[Fact]) -> list[Fact]:
        nonlocal changes
        changes = changes or _is_changed(operation, facts)
        return follow(operation, facts)

    interpret(trace, facts, apply, fact_about, UNMAPPED)
    return changes


def _is_changed(operation: Operation, facts: list[Fact]) -> bool:
    if isinstance(operation.how, Dot):
        is_real = np.dtype(operation.outs[0].dtype).kind == "f"
        is_known = all(fact is not None and fact.known.all() for fact in facts)
        return is_real and not is_known and products_of_zeros(operation, facts) is not None
    is_inside = any(_needs_a_change(inner, own) for inner, own in _inside(operation, facts))
    return is_inside or _zeroed(operation, facts) is not None


def _zeroed(operation: Operation, facts: Sequence[Fact]) -> np.ndarray | None:
    """Where a product or a quotient of real numbers is zero because of a zero in an array; None where nowhere."""
    row = TABLE.get(operation.name)
    if row is None or not row.factors or not any(facts) or np.dtype(operation.outs[0].dtype).kind != "f":
        return None
    zero = zero_products(row, spread_over(operation, facts))
    return zero if zero.any() else None


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


def _product(operation: Operation, values: list[Any], facts: list[Fact]) -> Any:
    """dot_general without the products of zeros: those of a known matrix with few entries are not computed at all."""
    (out,) = operation.outs
    zeros = products_of_zeros(operation, facts)
    assert zeros is not None
    a, b = operation.how.arranged(*(jnp.asarray(value, out.dtype) for value in values))
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
