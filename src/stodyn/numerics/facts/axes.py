"""Facts about whole arrays from a trace: on what they depend, where they are diagonal, and which entry takes which.

    y = diag(σ x)   depends on x; y_ij = 0 where i ≠ j; y_ij takes of x the number x_i alone

follows from the operations (iota = iota, where, a product with an identity) without a look at the n² entries, so that
the proof costs what the trace costs. Facts that do not follow in this way are left out: no fact is ever wrong, but many
are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import TABLE, Zeros
from stodyn.numerics.printing.nodes import FOLDS
from stodyn.numerics.printing.operations import Operation
from stodyn.numerics.printing.table import EVERY, kept_axes, row_of
from stodyn.numerics.printing.trace import interpret, owners
from stodyn.numerics.printing.unprintable import or_else

Pair = tuple[int, int]
NONE: frozenset[Any] = frozenset()


class Facts(NamedTuple):
    """The known facts about an array.

    on      the arguments on which some entry may depend
    along   the axes for which an entry takes of the vector only the number that has its index on that axis; a fact
            that says nothing where the array does not depend on the vector
    zero    pairs of axes a < b: entries whose indices on a and b differ are zero
    number  the number that every entry is
    counts  the axis whose index every entry is
    """

    on: frozenset[int] = NONE
    along: frozenset[int] = NONE
    zero: frozenset[Pair] = NONE
    number: Any = None
    counts: int | None = None

    def is_all(self, number: float) -> bool:
        """Whether every entry is that number."""
        return self.number is not None and bool(self.number == number)

    def is_zero(self, pair: Pair) -> bool:
        return pair in self.zero or self.is_all(0)

    def takes_along(self, vector: int, axis: int) -> bool:
        """Whether an entry takes of argument `vector` at most the number with its index on that axis."""
        if vector not in self.on or axis in self.along:
            return True
        return any(axis in pair and self.along & set(pair) for pair in self.zero)


def _unknown(trace: core.ClosedJaxpr, arguments: Sequence[Any], vector: int) -> Facts:
    """Nothing but that the result may depend on every argument."""
    return Facts(frozenset(range(len(arguments))))


@or_else(_unknown)
def facts_of(trace: core.ClosedJaxpr, arguments: Sequence[Any], vector: int) -> Facts:
    """The facts about the result of the trace of a function of `arguments`; `vector` is the number of the one whose
    entries are followed."""
    facts = [Facts(frozenset([a]), frozenset([0]) if a == vector and v.aval.ndim == 1 else NONE)
             for a, v in zip(owners(arguments), trace.jaxpr.invars, strict=True)]  # fmt: skip

    def apply(operation: Operation, inputs: list[Facts]) -> list[Facts]:
        row = TABLE.get(operation.name)
        rule = RULES.get(operation.kind, _moved) if row is None or row.node is None else _between_entries
        return [rule(operation, inputs, vector)] * len(operation.outs)

    (result,) = interpret(trace, facts, apply, _of_constant)
    return result


def _of_constant(x: Any) -> Facts:
    x = np.asarray(x)
    if x.size and x.dtype.kind in "fiub" and (x.ndim == 0 or bool((x == x.reshape(-1)[0]).all())):
        return Facts(number=x.reshape(-1)[0])
    if x.ndim == 2 and np.count_nonzero(x) == np.count_nonzero(np.diagonal(x)):
        return Facts(zero=frozenset([(0, 1)]))
    return Facts()


def _all_on(inputs: Sequence[Facts]) -> frozenset[int]:
    return NONE.union(*(x.on for x in inputs))


# --- entry by entry ---------------------------------------------------------------------------------------------------


def _between_entries(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    """The facts about an operation between entries at the same place."""
    (out,), how_zero = operation.outs, TABLE[operation.name].zeros
    same = _unchanged(operation, inputs)
    if same is not None:
        return same
    if operation.name in FOLDS and all(x.number is not None for x in inputs):
        with np.errstate(all="ignore"):
            number = FOLDS[operation.name](*(x.number for x in inputs))
        return Facts(number=np.asarray(number, out.dtype)[()])
    is_zero = ZERO.get(how_zero, lambda operation, inputs, zeros, pair: False)
    pairs = ((a, b) for b in range(out.ndim) for a in range(b))
    zero = (pair for pair in pairs if is_zero(operation, inputs, [x.is_zero(pair) for x in inputs], pair))
    along = {axis for axis in range(out.ndim) if all(x.takes_along(vector, axis) for x in inputs)}
    if how_zero is Zeros.CHOSEN:
        along |= _along_seen(inputs, vector)
    still_counts = how_zero is Zeros.COPIED and out.dtype.kind in "iu" and out.dtype.itemsize >= 4
    return Facts(_all_on(inputs), frozenset(along), frozenset(zero), None, inputs[0].counts if still_counts else None)


def _unchanged(operation: Operation, inputs: Sequence[Facts]) -> Facts | None:
    """The facts where the result is one of the operands, or zero; None where it is neither."""
    zeros, (first, *others), dtype = TABLE[operation.name].zeros, inputs, operation.outs[0].dtype
    if zeros is Zeros.COPIED and first.number is not None:
        return first._replace(number=np.asarray(first.number).astype(dtype)[()])
    if zeros is Zeros.FACTOR and any(x.is_all(0) for x in inputs):
        return Facts(number=dtype.type(0))
    if zeros is Zeros.TERM and others[0].is_all(0):
        return first
    if zeros is Zeros.TERM and first.is_all(0) and others[0].number is None:  # the other operand or its negative
        return others[0]._replace(counts=None)
    if zeros is Zeros.CHOSEN and first.number is not None:
        return others[int(first.number)]
    return None


def _along_seen(inputs: Sequence[Facts], vector: int) -> set[int]:
    """The axes that entries take along of cases of which only the diagonal is seen: `which` is false off it."""
    which, first, *others = inputs
    hidden = [x for x in others if vector in x.on]
    if not hidden or any(vector in x.on for x in (which, first)):
        return set()
    shown = (pair for pair in which.zero if all(any(x.takes_along(vector, a) for a in pair) for x in hidden))
    return {axis for pair in shown for axis in pair}


def _is_quotient_zero(operation: Operation, inputs: Sequence[Facts], zeros: list[bool], pair: Pair) -> bool:
    divisor = inputs[1]
    is_sound = divisor.number != 0 if divisor.number is not None else bool(divisor.on) and not divisor.zero
    return zeros[0] and is_sound


def _is_power_zero(operation: Operation, inputs: Sequence[Facts], zeros: list[bool], pair: Pair) -> bool:
    power = operation.how if len(inputs) == 1 else inputs[1].number
    return zeros[0] and power is not None and power > 0


ZERO: dict[Zeros, Callable[[Operation, Sequence[Facts], list[bool], Pair], bool]] = {
    **dict.fromkeys(
        (Zeros.KEPT, Zeros.COPIED, Zeros.TERM, Zeros.ALL), lambda operation, inputs, zeros, pair: all(zeros)
    ),
    Zeros.FACTOR: lambda operation, inputs, zeros, pair: any(zeros),
    Zeros.NUMERATOR: _is_quotient_zero,
    Zeros.BASE: _is_power_zero,
    Zeros.UNEQUAL: lambda operation, inputs, zeros, pair: {x.counts for x in inputs} == set(pair),
    Zeros.CHOSEN: lambda operation, inputs, zeros, pair: zeros[1] and (zeros[0] or all(zeros[2:])),
}


# --- moved about ------------------------------------------------------------------------------------------------------


def _moved(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    """Data movement; of any other operation only that its result depends on whatever its operands depend on."""
    row, shapes = row_of(operation), [like.shape for like in (*operation.ins[:1], *operation.outs[:1])]
    to = row.axes(operation.how, *shapes) if len(shapes) == 2 else None  # a choice between equals gives nothing
    if to is None:
        is_one_number = row.data is EVERY and len(inputs) == 1
        return Facts(_all_on(inputs), number=inputs[0].number if is_one_number else None)
    source, out = shapes
    return _with_axes(inputs[0], {a: b for a, b in to.items() if source[a] == out[b]})


def _with_axes(x: Facts, to: Mapping[int, int]) -> Facts:
    """The facts of an array whose axis a has become to[a]; nothing is known about axes without a place there."""
    pairs = (tuple(sorted((to[a], to[b]))) for a, b in x.zero if a in to and b in to)
    counts = to.get(x.counts) if x.counts is not None else None
    return x._replace(along=frozenset(to[a] for a in x.along if a in to), zero=frozenset(pairs), counts=counts)  # type: ignore[arg-type]


def _reduced(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    (x,), axes, ndim = inputs, operation.how.axes, operation.ins[0].ndim
    if TABLE[operation.how.fold].zeros is not Zeros.TERM:
        return Facts(x.on)
    along = frozenset(axis for axis in range(ndim) if x.takes_along(vector, axis))
    return _with_axes(Facts(x.on, along, x.zero), kept_axes(axes, ndim))


def _product(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    """(A B)_ij = Σ_k A_ik B_kj, for matrices and vectors."""
    contracted, batch = operation.how
    if any(batch) or len(contracted[0]) != 1 or any(x.ndim > 2 for x in operation.ins):
        return Facts(_all_on(inputs))
    free = [[axis for axis in range(x.ndim) if axis not in c] for x, c in zip(operation.ins, contracted, strict=True)]
    along, diagonal = set(), []
    for place in (0, 1):
        x, y, (k,), (other_k,) = inputs[place], inputs[1 - place], contracted[place], contracted[1 - place]
        for i in free[place]:
            diagonal.append(x.is_zero((min(i, k), max(i, k))))
            through = diagonal[-1] and y.takes_along(vector, other_k)
            if x.takes_along(vector, i) and (vector not in y.on or through):
                along.add(0 if place == 0 else len(free[0]))
    is_diagonal = len(diagonal) == 2 and all(diagonal)
    return Facts(_all_on(inputs), frozenset(along), frozenset([(0, 1)]) if is_diagonal else NONE)


RULES: dict[type, Callable[[Operation, Sequence[Facts], int], Facts]] = {
    kinds.Counted: lambda operation, inputs, vector: Facts(counts=operation.how.axis),
    kinds.Reduced: _reduced,
    kinds.Dot: _product,
}
