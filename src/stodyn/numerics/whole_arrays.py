"""Facts about whole arrays from a trace: on what they depend, where they are diagonal, and which entry takes which.

    y = diag(σ x)   depends on x; y_ij = 0 where i ≠ j; y_ij takes of x the number x_i alone

follows from the operations (iota = iota, where, a product with an identity) without a look at the n² entries, so that
the proof costs what the trace costs. Facts that do not follow in this way are left out: no fact is ever wrong, but many
are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import TABLE, Zeros
from stodyn.numerics.printing.nodes import FOLDS
from stodyn.numerics.printing.operations import Operation
from stodyn.numerics.printing.trace import interpret

Pairs = frozenset[tuple[int, int]]
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
    zero: Pairs = NONE
    number: Any = None
    counts: int | None = None

    def is_zero(self, pair: tuple[int, int]) -> bool:
        return pair in self.zero or (self.number is not None and bool(self.number == 0))

    def takes_along(self, vector: int, axis: int) -> bool:
        """Whether an entry takes of argument `vector` at most the number with its index on that axis."""
        if vector not in self.on or axis in self.along:
            return True
        return any(axis in pair and self.along & set(pair) for pair in self.zero)


def facts_of(closed: core.ClosedJaxpr, arguments: Sequence[int], vector: int) -> list[Facts]:
    """The facts about each output of a trace; `arguments` numbers its inputs, and `vector` is the one whose entries are
    followed."""
    facts = [Facts(frozenset([a]), frozenset([0]) if a == vector and v.aval.ndim == 1 else NONE)
             for a, v in zip(arguments, closed.jaxpr.invars, strict=True)]  # fmt: skip

    def apply(operation: Operation, inputs: list[Facts]) -> list[Facts]:
        row = TABLE.get(operation.name)
        rule = RULES.get(operation.kind, _unknown) if row is None or row.node is None else ENTRYWISE[row.zeros]
        return [rule(operation, inputs, vector)] * len(operation.outs)

    return interpret(closed, facts, apply, _of_constant)


def _of_constant(x: Any) -> Facts:
    x = np.asarray(x)
    if x.size and x.dtype.kind in "fiub" and (x.ndim == 0 or bool((x == x.reshape(-1)[0]).all())):
        return Facts(number=x.reshape(-1)[0])
    if x.ndim == 2 and np.count_nonzero(x) == np.count_nonzero(np.diagonal(x)):
        return Facts(zero=frozenset([(0, 1)]))
    return Facts()


def _unknown(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    """Only that an array depends on whatever its inputs depend on."""
    return Facts(_all_on(inputs))


def _all_on(inputs: Iterable[Facts]) -> frozenset[int]:
    return NONE.union(*(x.on for x in inputs))


# --- entry by entry ---------------------------------------------------------------------------------------------------


def _entrywise(
    operation: Operation, inputs: Sequence[Facts], vector: int, zero: Callable[[tuple[int, int]], bool] | None = None
) -> Facts:
    """The facts about an operation between entries at the same place; `zero` says which pairs of axes are zero."""
    ndim = operation.outs[0].ndim
    along = frozenset(axis for axis in range(ndim) if all(x.takes_along(vector, axis) for x in inputs))
    pairs = NONE if zero is None else frozenset((a, b) for b in range(ndim) for a in range(b) if zero((a, b)))
    if all(x.number is not None for x in inputs) and operation.name in FOLDS:
        with np.errstate(all="ignore"):
            number = FOLDS[operation.name](*(x.number for x in inputs))
        return Facts(number=np.asarray(number, operation.outs[0].dtype)[()])
    return Facts(_all_on(inputs), along, pairs)


def _unary(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    (x,) = inputs
    is_copy = TABLE[operation.name].zeros is Zeros.COPIED
    if x.number is not None and is_copy:
        return x._replace(number=np.asarray(x.number).astype(operation.outs[0].dtype)[()])
    result, dtype = _entrywise(operation, inputs, vector, x.is_zero), operation.outs[0].dtype
    still_counts = is_copy and dtype.kind in "iu" and dtype.itemsize >= 4
    return result._replace(counts=x.counts) if still_counts else result


def _product(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    a, b = inputs
    if any(x.number is not None and x.number == 0 for x in inputs):
        return Facts(number=operation.outs[0].dtype.type(0))
    return _entrywise(operation, inputs, vector, lambda pair: a.is_zero(pair) or b.is_zero(pair))


def _sum(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    a, b = inputs
    for x, other in ((a, b), (b, a)):
        if other.number is not None and other.number == 0 and (x is a or operation.name != "sub"):
            return x
    return _zero_of_zeros(operation, inputs, vector)


def _zero_of_zeros(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    return _entrywise(operation, inputs, vector, lambda pair: all(x.is_zero(pair) for x in inputs))


def _quotient(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    a, b = inputs
    sound = b.number != 0 if b.number is not None else bool(b.on) and not b.zero
    return _entrywise(operation, inputs, vector, a.is_zero if sound else None)


def _power(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    power = operation.how if len(inputs) == 1 else inputs[1].number
    return _entrywise(operation, inputs, vector, inputs[0].is_zero if power is not None and power > 0 else None)


def _equal(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    a, b = inputs
    if a.counts is not None and b.counts is not None and a.counts != b.counts:
        return Facts(zero=frozenset([(min(a.counts, b.counts), max(a.counts, b.counts))]))
    return _entrywise(operation, inputs, vector)


def _select(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    """The first case where `which` is false, and so off its diagonal."""
    which, first, *others = inputs
    if which.number is not None:
        return inputs[1 + int(which.number)]
    if operation.ins[0].ndim == 0 and operation.outs[0].ndim:
        which = Facts(which.on)

    def zero(pair):
        return first.is_zero(pair) and (which.is_zero(pair) or all(x.is_zero(pair) for x in others))

    result = _entrywise(operation, inputs, vector, zero)
    hidden = [x for x in others if vector in x.on]  # of these only the diagonal is seen
    if hidden and not any(vector in x.on for x in (which, first)):
        more = {
            axis
            for pair in which.zero
            for axis in pair
            if all(any(x.takes_along(vector, a) for a in pair) for x in hidden)
        }
        result = result._replace(along=result.along | more)
    return result


# --- moved about ------------------------------------------------------------------------------------------------------


def _with_axes(x: Facts, to: Mapping[int, int]) -> Facts:
    """The facts of an array whose axis a has become to[a]; nothing is known about axes without a place there."""
    pairs = (tuple(sorted((to[a], to[b]))) for a, b in x.zero if a in to and b in to)
    counts = to.get(x.counts) if x.counts is not None else None
    return x._replace(along=frozenset(to[a] for a in x.along if a in to), zero=frozenset(pairs), counts=counts)  # type: ignore[arg-type]


def _moved(axes: Callable[[Any, Sequence[int], Sequence[int]], Mapping[int, int] | None]) -> Callable:
    def rule(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
        source, out = operation.ins[0].shape, operation.outs[0].shape
        to = axes(operation.how, source, out)
        if to is None:
            return _unknown(operation, inputs, vector)._replace(number=inputs[0].number if len(inputs) == 1 else None)
        return _with_axes(inputs[0], {a: b for a, b in to.items() if source[a] == out[b]})

    return rule


def _kept_axes(dropped: Sequence[int], ndim: int) -> dict[int, int]:
    remaining = [axis for axis in range(ndim) if axis not in dropped]
    return {axis: place for place, axis in enumerate(remaining)}


def _reshaped(how: Any, source: Sequence[int], out: Sequence[int]) -> Mapping[int, int] | None:
    """Axes of one entry come and go."""
    long_given, long_out = ([a for a, size in enumerate(shape) if size != 1] for shape in (source, out))
    if [source[a] for a in long_given] != [out[a] for a in long_out]:
        return None
    return dict(zip(long_given, long_out, strict=True))


def _pad(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    plain = all(wide == (0, 0, 0) for wide in operation.how.widths)
    return inputs[0] if plain else _unknown(operation, inputs, vector)


def _split(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    return inputs[0] if len(operation.outs) == 1 else _unknown(operation, inputs, vector)


def _reduce_sum(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    (x,), axes, ndim = inputs, operation.how.axes, operation.ins[0].ndim
    if operation.how.fold != "add":
        return _unknown(operation, inputs, vector)
    along = frozenset(axis for axis in range(ndim) if x.takes_along(vector, axis))
    return _with_axes(Facts(x.on, along, x.zero), _kept_axes(axes, ndim))


def _dot_general(operation: Operation, inputs: Sequence[Facts], vector: int) -> Facts:
    """(A B)_ij = Σ_k A_ik B_kj, for matrices and vectors."""
    (contract_a, contract_b), batch = operation.how
    if any(batch) or len(contract_a) != 1 or any(x.ndim > 2 for x in operation.ins):
        return _unknown(operation, inputs, vector)
    free = [[axis for axis in range(x.ndim) if axis not in c]
            for x, c in zip(operation.ins, (contract_a, contract_b), strict=True)]  # fmt: skip
    along, diagonal = set(), []
    for place in (0, 1):
        x, y = inputs[place], inputs[1 - place]
        k, other_k = (contract_a[0], contract_b[0])[:: 1 - 2 * place]
        for i in free[place]:
            diagonal.append(x.is_zero((min(i, k), max(i, k))))
            through = diagonal[-1] and y.takes_along(vector, other_k)
            if x.takes_along(vector, i) and (vector not in y.on or through):
                along.add(0 if place == 0 else len(free[0]))
    is_diagonal = len(diagonal) == 2 and all(diagonal)
    return Facts(_all_on(inputs), frozenset(along), frozenset([(0, 1)]) if is_diagonal else NONE)


ENTRYWISE: dict[Zeros, Callable[[Operation, Sequence[Facts], int], Facts]] = {
    Zeros.NOWHERE: _entrywise,
    Zeros.KEPT: _unary,
    Zeros.COPIED: _unary,
    Zeros.FACTOR: _product,
    Zeros.TERM: _sum,
    Zeros.ALL: _zero_of_zeros,
    Zeros.NUMERATOR: _quotient,
    Zeros.BASE: _power,
    Zeros.UNEQUAL: _equal,
    Zeros.CHOSEN: _select,
}
RULES: dict[type, Callable[[Operation, Sequence[Facts], int], Facts]] = {
    kinds.Counted: lambda operation, inputs, vector: Facts(counts=operation.how.axis),
    kinds.Spread: _moved(lambda how, source, out: dict(enumerate(how.axes))),
    kinds.Transposed: _moved(lambda how, source, out: {a: b for b, a in enumerate(how.order)}),
    kinds.Squeezed: _moved(lambda how, source, out: _kept_axes(how.axes, len(source))),
    kinds.Reshaped: _moved(_reshaped),
    kinds.Expanded: _moved(_reshaped),
    kinds.Sliced: _moved(lambda how, source, out: {a: a for a in range(len(source))} if source == out else None),
    kinds.Padded: _pad,
    kinds.Split: _split,
    kinds.Reduced: _reduce_sum,
    kinds.Dot: _dot_general,
}
