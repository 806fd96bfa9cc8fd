"""Operations that move, join and sum entries of arrays, as arithmetic on indices, tables of them, and folds.

Slices, rolls and padded edges are sums and selections of indices; movement along known indices is a table of these; a
known matrix with few entries is a table of its rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.arrays import FEW, INT64, WRITTEN_OUT, Array, Arrays, Index, broadcast
from stodyn.numerics.printing.entrywise import TABLE
from stodyn.numerics.printing.flat import Equation
from stodyn.numerics.printing.nodes import BOOL, Entry, Node, is_known, reachable, value_of
from stodyn.numerics.printing.table import filling
from stodyn.numerics.printing.unprintable import Unprintable

MOST_COMPARED = 2**18  # computed places with all places, for a scatter to them: above it, XLA's is as fast
FULL = 0.2  # of a known matrix: a fuller one is multiplied as it is


# --- arithmetic on indices --------------------------------------------------------------------------------------------


def _moved(x: Array, shape: Sequence[int], where: Callable[[Index], Index]) -> Array:
    """A view: its entry I is entry where(I) of x."""
    return Array(shape, x.dtype, lambda index: x.at(where(index)), x.cost)


def _out(equation: Equation) -> tuple[int, ...]:
    return equation.outputs[0].aval.shape


def _broadcast_in_dim(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    (x, *_), axes = inputs, equation.how.axes
    if not x.shape:
        entry = self.entry(x)
        value = value_of(entry)  # a number spread over an array is the array's structure
        return Array(_out(equation), x.dtype, lambda index: entry if value is None else value)
    return _moved(x, _out(equation), lambda index: broadcast(x.shape, tuple(index[a] for a in axes)))


def _reshape(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    x, shape = inputs[0], _out(equation)
    if [s for s in x.shape if s != 1] == [s for s in shape if s != 1]:

        def matched(index: Index) -> Index:
            long = iter(i for i, size in zip(index, shape, strict=True) if size != 1)
            return tuple(np.int64(0) if size == 1 else next(long) for size in x.shape)

        return _moved(x, shape, matched)

    def divided(index: Index) -> Index:
        left, indices = self.place(shape, index), []
        for size in reversed(x.shape[1:]):
            indices.append(self.graph.whole("rem", left, size))
            left = self.graph.whole("div", left, size)
        return (left, *reversed(indices)) if x.shape else ()

    return _moved(x, shape, divided)


def _transpose(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    order = equation.how.order
    return _moved(inputs[0], _out(equation), lambda index: tuple(index[order.index(a)] for a in range(len(order))))


def _rev(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    axes, (x,) = equation.how.axes, inputs
    return _moved(x, x.shape, lambda index: tuple(
        self.graph.whole("sub", np.int64(size - 1), i) if a in axes else i
        for a, (i, size) in enumerate(zip(index, x.shape, strict=True))))  # fmt: skip


def _slice(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    starts, steps = equation.how.starts, equation.how.steps or (1,) * len(_out(equation))
    return _moved(inputs[0], _out(equation), lambda index: tuple(
        self.graph.whole("add", self.graph.whole("mul", i, step), start)
        for i, start, step in zip(index, starts, steps, strict=True)))  # fmt: skip


def _split(self: Arrays, equation: Equation, inputs: list[Array]) -> list[Array]:
    axis, starts = equation.how.axis, np.cumsum([0, *equation.how.sizes])
    return [
        _moved(inputs[0], value.aval.shape, functools.partial(_shifted, self, axis, int(start)))
        for value, start in zip(equation.outputs, starts, strict=False)
    ]


def _shifted(self: Arrays, axis: int, by: int, index: Index) -> Index:
    return (*index[:axis], self.graph.whole("add", index[axis], by), *index[axis + 1 :])


def _unstack(self: Arrays, equation: Equation, inputs: list[Array]) -> list[Array]:
    axis, (x,) = equation.how.axis, inputs
    return [
        _moved(x, value.aval.shape, functools.partial(_in_front_of, axis, np.int64(k)))
        for k, value in enumerate(equation.outputs)
    ]


def _in_front_of(axis: int, place: Entry, index: Index) -> Index:
    return (*index[:axis], place, *index[axis:])


def _tile(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    (x,) = inputs
    missing = len(_out(equation)) - len(x.shape)  # axes that the operand lacks come first
    return _moved(x, _out(equation), lambda index: tuple(
        self.graph.whole("rem", i, size) for i, size in zip(index[missing:], x.shape, strict=True)))  # fmt: skip


def _concatenate(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    axis, graph, parts = equation.how.axis, self.graph, [x for x in inputs if x.size]
    starts = np.cumsum([0, *(x.shape[axis] for x in parts)])

    def of_part(k: int, index: Index, is_clamped: bool) -> Entry:
        where = _shifted(self, axis, -int(starts[k]), index)
        if is_clamped:
            where = (*where[:axis], graph.clamped(where[axis], parts[k].shape[axis]), *where[axis + 1 :])
        return parts[k].at(where)

    def at(index: Index) -> Entry:
        i = index[axis]
        if is_known(i):
            return of_part(int(np.searchsorted(starts, i, side="right")) - 1, index, False)
        raw = [of_part(k, index, False) for k in range(len(parts))]
        is_one_buffer = all(isinstance(e, Node) and e.op == "load" and e.attr is raw[0].attr for e in raw)
        if not is_one_buffer or any(node.op == "load" for e in raw for node in reachable(e.args)):
            raw = [of_part(k, index, True) for k in range(len(parts))]  # what is not wanted is loaded, too
        entries = [e.args[0] for e in raw] if is_one_buffer else raw
        entry = entries[-1]
        for k in range(len(parts) - 2, -1, -1):
            before = graph.make("lt", BOOL, i, np.int64(starts[k + 1]))
            entry = graph.select(before, entries[k], entry, entry.dtype)
        return graph.load(raw[0].attr, entry) if is_one_buffer else entry

    return Array(_out(equation), parts[0].dtype, at, max(x.cost for x in parts) + len(parts) - 1)


def _pad(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    (x, filling), graph, config = inputs, self.graph, equation.how.widths
    if not any(map(any, config)):
        return x

    def at(index: Index) -> Entry:
        inside, where = np.True_, []
        for i, size, (low, high, gap) in zip(index, x.shape, config, strict=True):
            place = graph.whole("sub", i, low)
            if low > 0 or high > 0:
                inside = graph.make("and", BOOL, inside, graph.inside(i, low, low + (size - 1) * (gap + 1) + 1))
            if gap:
                here = graph.make("eq", BOOL, graph.whole("rem", place, gap + 1), np.int64(0))
                inside, place = graph.make("and", BOOL, inside, here), graph.whole("div", place, gap + 1)
            where.append(graph.clamped(place, size))
        fill = filling.at(())
        if value_of(fill) is not None:
            fill = value_of(fill)
        return graph.select(inside, x.at(tuple(where)), fill, x.dtype) if x.size else fill

    return Array(_out(equation), x.dtype, at, x.cost + 1)


def _iota(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    axis, out = equation.how.axis, equation.outputs[0].aval
    return Array(out.shape, out.dtype, lambda index: self.graph.convert(index[axis], out.dtype))


def _empty(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    out = equation.outputs[0].aval
    return self.constant(np.zeros(out.shape, out.dtype))


# --- by tables of indices ---------------------------------------------------------------------------------------------


def _whole_index(self: Arrays, entry: Entry) -> Entry:
    """An index from a trace as one that addresses memory."""
    return self.graph.convert(entry, INT64)


def _gather(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    """Slices of x that begin at the rows of `indices`, laid out as XLA defines it."""
    (x, indices), how, graph, shape = inputs, equation.how, self.graph, _out(equation)
    limits = [full - size for full, size in zip(x.shape, how.sizes, strict=True)]
    batch_axes = [a for a in range(len(shape)) if a not in how.inside.values()]
    checks = True  # XLA moves indices inside that are not filled, promised to be there or not
    if indices.known is not None:
        most = np.array([limits[a] for a in how.axes])
        checks = not bool(((indices.known >= 0) & (indices.known <= most)).all())
    fill = np.asarray(filling(x.dtype) if how.fill is None else how.fill, x.dtype)[()]

    def at(index: Index) -> Entry:
        batch = tuple(index[a] for a in batch_axes)
        where: list[Entry] = [np.int64(0)] * len(x.shape)
        inside: Entry = np.True_
        for k, axis in enumerate(how.axes):
            start = _whole_index(self, indices.at((*batch, np.int64(k))))
            if checks:
                inside = graph.make("and", BOOL, inside, graph.inside(start, 0, limits[axis] + 1))
                start = graph.clamped(start, limits[axis] + 1)
            where[axis] = start
        for axis, of in how.along.items():
            where[axis] = batch[of]
        for axis, a in how.inside.items():
            where[axis] = graph.whole("add", where[axis], index[a])
        entry = x.at(tuple(where))
        return graph.select(inside, entry, fill, x.dtype) if how.fills else entry

    return Array(shape, x.dtype, at, x.cost + indices.cost)


def _dynamic_slice(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    x, *starts = inputs
    sizes, graph = equation.how.sizes, self.graph

    def where(index: Index) -> Index:
        firsts = [graph.clamped(_whole_index(self, s.at(())), full - size + 1)
                  for s, full, size in zip(starts, x.shape, sizes, strict=True)]  # fmt: skip
        return tuple(graph.whole("add", first, i) for first, i in zip(firsts, index, strict=True))

    return _moved(x, sizes, where)


def _dynamic_update_slice(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    x, update, *starts = inputs
    graph = self.graph

    def at(index: Index) -> Entry:
        inside, where = np.True_, []
        for i, s, full, size in zip(index, starts, x.shape, update.shape, strict=True):
            first = graph.clamped(_whole_index(self, s.at(())), full - size + 1)
            shifted = graph.whole("sub", i, first)
            if full != size:
                inside = graph.make("and", BOOL, inside, graph.inside(shifted, 0, size))
            where.append(graph.clamped(shifted, size) if full != size else i)
        return graph.select(inside, update.at(tuple(where)), x.at(index), x.dtype)

    return Array(x.shape, x.dtype, at, x.cost + update.cost + 1)


def _added(
    self: Arrays, how: Any, inputs: list[Array], limits: np.ndarray, update_at: Callable[[Entry, Index], Entry]
) -> Array:
    """x with updates added to the entries at computed places: each entry asks all places whether they are its own."""
    (x, indices, updates), graph = inputs, self.graph
    count = indices.shape[0]
    places = math.prod(x.shape[a] for a in how.axes)
    if count * places > MOST_COMPARED:
        raise Unprintable(f"a scatter of {count} entries to {places} places that are computed")

    def at(index: Index) -> Entry:
        flat = tuple(np.int64(0) if a in how.axes else i for a, i in enumerate(index))

        def landing(k: Entry) -> Entry:
            here: Entry = np.True_
            for place, (a, limit) in enumerate(zip(how.axes, limits, strict=True)):
                start = _whole_index(self, indices.at((k, np.int64(place))))
                start = graph.clamped(start, int(limit) + 1) if how.clips else start
                here = graph.make("and", BOOL, here, graph.make("eq", BOOL, start, index[a]))
            return graph.select(here, update_at(k, flat), x.dtype.type(-0.0), x.dtype)  # -0.0 changes no number

        return self.folded("add", x.dtype, x.at(index), np.int64(0), np.int64(count), landing)

    return Array(x.shape, x.dtype, at, x.cost + (updates.cost + indices.cost + 2) * count)


def _scatter(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    """x with updates written to, or combined with, the entries they land on; many places are known beforehand."""
    (x, indices, updates), how, graph = inputs, equation.how, self.graph
    if how.along:
        raise Unprintable("a scatter under vmap, in a step that is printed as loops")
    if how.function is not None:
        raise Unprintable("a function of some entries, x.at[k].apply(f), in a step that is printed as loops")
    axes = how.axes
    window = {a: updates.shape[d] for a, d in how.inside.items()}
    limits = np.array([x.shape[a] - window.get(a, 1) for a in axes])
    batch_dims = [d for d in range(len(updates.shape)) if d not in how.inside.values()]
    batch_shape = tuple(updates.shape[d] for d in batch_dims)
    count = math.prod(batch_shape)

    def update_at(batch: Index, index: Index, starts: dict[int, Entry]) -> Entry:
        where: list[Entry] = [np.int64(0)] * len(updates.shape)
        for d, b in zip(batch_dims, batch, strict=True):
            where[d] = b
        for a, d in how.inside.items():
            where[d] = graph.whole("sub", index[a], starts[a]) if a in starts else index[a]
        return updates.at(tuple(where))

    def joined(old: Entry, new: Entry) -> Entry:
        return new if how.fold is None else graph.make(how.fold, x.dtype, old, new)

    if count <= FEW:  # a few windows, one after another

        def among(index: Index) -> Entry:
            entry = x.at(index)
            for k in range(count):
                batch = tuple(np.int64(b) for b in np.unravel_index(k, batch_shape))
                inside, starts, clamped = np.True_, {}, list(index)
                for place, (a, limit) in enumerate(zip(axes, limits, strict=True)):
                    first = _whole_index(self, indices.at((*batch, np.int64(place))))
                    if how.clips:
                        first = graph.clamped(first, int(limit) + 1)
                    else:
                        inside = graph.make("and", BOOL, inside, graph.inside(first, 0, int(limit) + 1))
                    starts[a] = first
                    size = window.get(a, 1)
                    last = graph.whole("add", first, size - 1)
                    if size < x.shape[a]:
                        above = graph.make("ge", BOOL, index[a], first)
                        here = graph.make("and", BOOL, above, graph.make("le", BOOL, index[a], last))
                        inside = graph.make("and", BOOL, inside, here)
                        clamped[a] = graph.whole("min", graph.whole("max", index[a], first), last)
                new = update_at(batch, tuple(clamped), starts)
                entry = graph.select(inside, joined(entry, new), entry, x.dtype)
            return entry

        return Array(x.shape, x.dtype, among, x.cost + (updates.cost + 1) * count)
    lengths, zero = tuple(x.shape[a] for a in axes), {a: np.int64(0) for a in axes if a in window}
    if indices.known is None:
        if how.fold != "add" or len(batch_shape) != 1 or any(window.get(a, 1) != 1 for a in axes):
            raise Unprintable("a scatter to many places that are computed, in a step that is printed as loops")
        return _added(self, how, inputs, limits, lambda k, index: update_at((k,), index, zero))
    rows = indices.known.reshape(-1, len(axes)).astype(np.int64)
    if how.clips:
        rows = np.clip(rows, 0, limits)
    sound = ((rows >= 0) & (rows <= limits)).all(axis=1)
    if any(window.get(a, 1) != 1 for a in axes):
        raise Unprintable("a scatter of many windows, in a step that is printed as loops")
    numbers_of_updates = np.flatnonzero(sound)
    landed = np.ravel_multi_index(tuple(rows[sound].T), lengths)
    order = np.argsort(landed, kind="stable")
    ends = np.searchsorted(landed[order], np.arange(math.prod(lengths) + 1))
    listed = [self.constant(b) for b in np.unravel_index(numbers_of_updates[order], batch_shape)]
    bounds = self.constant(ends.astype(np.int64))
    most = int(np.diff(ends).max(initial=0))

    def at(index: Index) -> Entry:
        row = self.place(lengths, tuple(index[a] for a in axes))
        flat = tuple(np.int64(0) if a in axes else i for a, i in enumerate(index))
        first, last = (bounds.at((graph.whole("add", row, k),)) for k in (0, 1))

        def landing(k: Entry) -> Entry:
            return update_at(tuple(_whole_index(self, b.at((k,))) for b in listed), flat, zero)

        old = x.at(index)
        if most <= 1 or how.fold is None:
            some = graph.make("lt", BOOL, first, last)
            k = graph.clamped(graph.whole("sub", last, 1), max(len(landed), 1))
            return graph.select(some, joined(old, landing(k)), old, x.dtype)
        return self.folded(how.fold, x.dtype, old, first, last, landing)

    return Array(x.shape, x.dtype, at, x.cost + (updates.cost + 1) * max(most, 1) + 1)


# --- folds ------------------------------------------------------------------------------------------------------------


def _reduction(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    (x,), dtype, op = inputs, np.dtype(equation.outputs[0].aval.dtype), equation.how.fold
    axes, neutral = sorted(equation.how.axes), TABLE[op].neutral(dtype)
    count = math.prod(x.shape[a] for a in axes)

    def at(index: Index) -> Entry:
        def over(left: list[int], indices: dict[int, Entry]) -> Entry:
            axis, *others = left

            def term(k: Entry) -> Entry:
                now = {**indices, axis: k}
                if others:
                    return over(others, now)
                rest = iter(index)
                return x.at(tuple(now[a] if a in now else next(rest) for a in range(len(x.shape))))

            return self.folded(op, dtype, neutral, np.int64(0), np.int64(x.shape[axis]), term)

        return over(axes, {}) if axes else x.at(index)

    return Array(_out(equation), dtype, at, (x.cost + 1) * max(count, 1))


def _converted(self: Arrays, x: Array, dtype: np.dtype) -> Array:
    if x.dtype == dtype:
        return x
    if x.known is not None:
        return self.constant(x.known.astype(dtype))
    converted = Array(x.shape, dtype, lambda index: self.graph.convert(x.at(index), dtype), x.cost)
    converted.fact = x.fact
    return converted


def _dot_general(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    (contract_a, contract_b), (batch_a, batch_b) = equation.how
    graph, dtype = self.graph, np.dtype(equation.outputs[0].aval.dtype)
    if any(x.dtype != dtype and x.dtype.kind != "f" for x in inputs):
        raise Unprintable("dot_general between numbers of different kinds")
    a, b = inputs = [_converted(self, x, dtype) for x in inputs]
    free_a = [k for k in range(len(a.shape)) if k not in (*contract_a, *batch_a)]
    free_b = [k for k in range(len(b.shape)) if k not in (*contract_b, *batch_b)]
    lengths = [a.shape[k] for k in contract_a]
    for place, known in enumerate((a, b)):
        if known.known is not None and len(known.shape) == 2 and len(lengths) == 1 and not batch_a and known.size:
            matrix = known.known if (contract_a, contract_b)[place][0] == 1 else known.known.T
            if np.count_nonzero(matrix) <= FULL * matrix.size and min(matrix.shape) > WRITTEN_OUT:
                return _sparse_product(self, equation, matrix, inputs[1 - place], place)

    zeros = self.zeros_of(inputs)

    def at(index: Index) -> Entry:
        batch, rows = index[: len(batch_a)], index[len(batch_a) : len(batch_a) + len(free_a)]
        columns = index[len(batch_a) + len(free_a) :]

        def term(indices: list[Entry]) -> Entry:
            left, right = ([np.int64(0)] * len(x.shape) for x in (a, b))
            for where, axes, free, of_batch, mine in (
                (left, contract_a, free_a, batch_a, rows), (right, contract_b, free_b, batch_b, columns),
            ):  # fmt: skip
                for axis, k in (*zip(axes, indices, strict=True), *zip(free, mine, strict=True),
                                *zip(of_batch, batch, strict=True)):  # fmt: skip
                    where[axis] = k
            product = graph.make("mul", dtype, a.at(tuple(left)), b.at(tuple(right)))
            for is_zero, where in zip(zeros, (left, right), strict=True):
                if is_zero is not None:
                    product = graph.select(is_zero(tuple(where)), dtype.type(0), product, dtype)
            return product

        def over(indices: list[Entry]) -> Entry:
            if len(indices) == len(lengths):
                return term(indices)
            length = np.int64(lengths[len(indices)])
            return self.folded("add", dtype, dtype.type(0), np.int64(0), length, lambda k: over([*indices, k]))

        return over([])

    return Array(_out(equation), dtype, at, (a.cost + b.cost + 2) * max(math.prod(lengths), 1))


def _sparse_product(self: Arrays, equation: Equation, matrix: np.ndarray, other: Array, place: int) -> Array:
    """A known matrix with few entries times an array: each row with only its nonzero entries."""
    graph, dtype = self.graph, np.dtype(equation.outputs[0].aval.dtype)
    rows, columns = np.nonzero(matrix)
    ends = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int64)
    values, listed, bounds = map(self.constant, (matrix[rows, columns], columns.astype(np.int64), ends))
    axis = equation.how.contracted[1 - place][0]

    def at(index: Index) -> Entry:
        row, rest = (index[0], index[1:]) if place == 0 else (index[-1], index[:-1])
        first, last = (bounds.at((graph.whole("add", row, k),)) for k in (0, 1))

        def term(k: Entry) -> Entry:
            where = (*rest[:axis], listed.at((k,)), *rest[axis:])
            return graph.make("mul", dtype, values.at((k,)), other.at(where))

        return self.folded("add", dtype, dtype.type(0), first, last, term)

    most = int(np.diff(ends).max(initial=1))
    return Array(_out(equation), dtype, at, (other.cost + 2) * most)


def _stack(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    axis, graph = equation.how.axis, self.graph

    def at(index: Index) -> Entry:
        rest, i = (*index[:axis], *index[axis + 1 :]), index[axis]
        if is_known(i):
            return inputs[int(i)].at(rest)
        entry = inputs[-1].at(rest)
        for k in range(len(inputs) - 2, -1, -1):
            entry = graph.select(graph.make("le", BOOL, i, np.int64(k)), inputs[k].at(rest), entry, entry.dtype)
        return entry

    return Array(_out(equation), inputs[0].dtype, at, max(x.cost for x in inputs))


VIEWS: dict[type, Callable[[Arrays, Equation, list[Array]], Array | list[Array]]] = {
    kinds.Reshaped: _reshape, kinds.Squeezed: _reshape, kinds.Expanded: _reshape, kinds.Spread: _broadcast_in_dim,
    kinds.Transposed: _transpose, kinds.Reversed: _rev, kinds.Sliced: _slice, kinds.Split: _split,
    kinds.Joined: _concatenate, kinds.Padded: _pad, kinds.Stacked: _stack, kinds.Unstacked: _unstack,
    kinds.Tiled: _tile, kinds.Counted: _iota, kinds.Empty: _empty, kinds.Gather: _gather,
    kinds.SliceAt: _dynamic_slice, kinds.UpdateAt: _dynamic_update_slice, kinds.Scatter: _scatter,
    kinds.Reduced: _reduction, kinds.Dot: _dot_general,
}  # fmt: skip
