"""Repetitions in functions of arrays, as turns that hold loops: while, scan, cumulative sums; and instructions.

A path that has ended keeps its values while others go on. Values that turns hand on are in memory twice: as a turn
reads them, and as it leaves them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.arrays import Array, Arrays, Buffer, Executed, Index, Stored, Turns
from stodyn.numerics.printing.entrywise import TABLE
from stodyn.numerics.printing.flat import Equation
from stodyn.numerics.printing.nodes import BOOL, Entry, Node
from stodyn.numerics.printing.unprintable import Unprintable

Kind = tuple[bool, bool]  # whether numbers differ between paths, and whether they change from step to step


def _kind(entry: Any) -> Kind:
    return (entry.lane, entry.moves) if isinstance(entry, (Node, Buffer)) else (False, False)


def _either(a: Kind, b: Kind) -> Kind:
    return a[0] or b[0], a[1] or b[1]


def turned(
    self: Arrays,
    start: Sequence[Array],
    changes: Sequence[bool],
    turn: Callable[[list[Array], Entry], Sequence[Array]],
    goes_on: Callable[[list[Array]], Array] | None = None,
    length: int | None = None,
    rows: Callable[[Entry], Entry] = lambda counter: counter,
) -> list[Array]:
    """The carried arrays after the last turn, and after them the series whose rows the turns made.

    turn(arrays, counter) gives the arrays after a turn and a row of each series, which is its row number
    rows(counter). Turns are made while goes_on(arrays), or `length` times. Arrays that are the same after a turn, as
    `changes` says, are not carried. A turn is traced again until it is known which numbers differ between paths.
    """
    self.close()
    outer, kinds = self.items, _first_kinds(self, start)
    while True:
        self.items = []
        begun = [self.stored(x, Buffer("scratch", 0, x.shape, x.dtype, *kind))
                 for x, kind in zip(start, kinds, strict=True)]  # fmt: skip
        self.close()
        before, self.items = self.items, []
        number, counter = self.graph.counter()
        arrays = [self.buffered(buffer) if moves else x for x, buffer, moves in zip(start, begun, changes, strict=True)]
        condition_entry = None if goes_on is None else self.entry(goes_on(arrays))
        self.close()
        condition, self.items = self.items, []
        active = Node("carried", BOOL, (), (number, -1), *_kind(condition_entry), frozenset([number]))
        turns = Turns(number, counter, active, length, condition_entry, condition)
        wanted = [_either(kind, _kind(condition_entry)) for kind in kinds]
        if wanted == kinds:
            series = _turn(self, turns, turn, arrays, begun, changes, wanted, rows)
            if wanted == kinds:
                break
        kinds = wanted
    self.items = [*outer, *before, turns]
    left = [self.buffered(buffer) if changed else x for x, buffer, changed in zip(start, begun, changes, strict=True)]
    return [*left, *map(self.buffered, series)]


def _first_kinds(self: Arrays, start: Sequence[Array]) -> list[Kind]:
    """The kinds with which the carried arrays begin: reals and truth values have one in common, since they mostly meet;
    whole numbers have their own."""
    outer, self.items = self.items, []
    kinds = [_kind(self.stored(x)) for x in start]
    self.close()
    self.items = outer
    any_lane, any_moves = (any(kind[k] for kind in kinds) for k in (0, 1))
    return [(lane or (any_lane and x.dtype.kind in "fb"), any_moves)
            for x, (lane, _) in zip(start, kinds, strict=True)]  # fmt: skip


def _turn(
    self: Arrays,
    turns: Turns,
    turn: Callable[[list[Array], Entry], Sequence[Array]],
    arrays: list[Array],
    begun: Sequence[Buffer],
    changes: Sequence[bool],
    wanted: list[Kind],
    rows: Callable[[Entry], Entry],
) -> list[Buffer]:
    """Fill in a turn; `wanted` is set to the kinds that the values it hands on turn out to have."""
    outer, self._context = self._context, (*self._context, turns.number)
    after: list[Any] = list(turn(arrays, turns.counter))
    handed_on = []
    for k, (x, changed) in enumerate(zip(after[: len(arrays)], changes, strict=True)):
        if changed:
            is_made_here = (
                isinstance(x, Stored) and x.buffer.name == "scratch" and not any(x.buffer is b for b in begun)
            )
            handed_on.append((begun[k], x.buffer if is_made_here else self.stored(x)))
            wanted[k] = _either(wanted[k], _kind(handed_on[-1][1]))
    series: list[Buffer] = []
    for x in after[len(arrays) :]:
        shape: tuple[Any, ...] = (turns.length, *x.shape)
        whole = functools.partial(Buffer, "scratch", 0, shape, x.dtype)
        series.append(self.stored(x, whole, rows(turns.counter)))
    self.close()
    turns.body, self.items = self.items, []
    for carried, new in handed_on:
        old, fresh = self.buffered(carried), self.buffered(new)

        def chosen(index: Index, old: Array = old, fresh: Array = fresh) -> Entry:
            return self.graph.select(turns.active, fresh.at(index), old.at(index), fresh.dtype)

        self.stored(fresh if turns.goes_on is None else Array(fresh.shape, fresh.dtype, chosen), carried)
    self.close()
    turns.copies, self._context = self.items, outer
    return series


def _held(self: Arrays, x: Array, room: int) -> Array:
    """The values that turns take from outside, computed once."""
    if x.cost == 0 or x.known is not None or x.size > max(room, 1):
        return x
    held = self.in_memory(x)
    held.fact = x.fact
    return held


def _is_handed_on(closed: Any, consts: int, k: int) -> bool:
    return closed.jaxpr.outvars[k] is closed.jaxpr.invars[consts + k]


def _while(self: Any, equation: Equation, inputs: list[Array]) -> list[Array]:
    how = equation.how
    if how.condition.out_avals[0].ndim:
        raise Unprintable("a while loop under jax.vmap, in a step that is printed as loops")
    consts = [_held(self, x, self.room) for x in inputs[: how.fixed]]
    changes = [not _is_handed_on(how.body, how.consts, k) for k in range(len(inputs) - how.fixed)]
    return turned(
        self,
        inputs[how.fixed :],
        changes,
        lambda arrays, counter: self.run(how.body, [*consts[how.tested :], *arrays]),
        lambda arrays: self.run(how.condition, [*consts[: how.tested], *arrays])[0],
    )


def _of_row(x: Array, row: Entry, index: Index) -> Entry:
    return x.at((row, *index))


def _scan(self: Any, equation: Equation, inputs: list[Array]) -> list[Array]:
    n_consts, n_carry, length, is_reverse, _, closed = equation.how
    consts, xs = [_held(self, x, self.room) for x in inputs[:n_consts]], inputs[n_consts + n_carry :]

    def row(counter: Entry) -> Entry:
        return self.graph.whole("sub", np.int64(length - 1), counter) if is_reverse else counter

    def turn(arrays: list[Array], counter: Entry) -> list[Array]:
        at = row(counter)
        slices = [Array(x.shape[1:], x.dtype, functools.partial(_of_row, x, at), x.cost) for x in xs]
        return self.run(closed, [*consts, *arrays, *slices])

    changes = [not _is_handed_on(closed, n_consts, k) for k in range(n_carry)]
    return turned(self, inputs[n_consts : n_consts + n_carry], changes, turn, length=length, rows=row)


def _cumulative(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    (x,), (axis, is_reverse, op), graph = inputs, equation.how, self.graph
    length, rest = x.shape[axis], (*x.shape[:axis], *x.shape[axis + 1 :])
    neutral = TABLE[op].neutral(x.dtype)

    def row(counter: Entry) -> Entry:
        return graph.whole("sub", np.int64(length - 1), counter) if is_reverse else counter

    def turn(arrays: list[Array], counter: Entry) -> list[Array]:
        at = row(counter)

        def total(index: Index) -> Entry:
            return graph.make(op, x.dtype, arrays[0].at(index), x.at((*index[:axis], at, *index[axis:])))

        new = Array(rest, x.dtype, total, x.cost + 1)
        return [new, new]

    *_, stacked = turned(self, [Array(rest, x.dtype, lambda index: neutral)], [True], turn, length=length, rows=row)
    return Array(x.shape, x.dtype, lambda index: stacked.at((index[axis], *index[:axis], *index[axis + 1 :])))


def _execute(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    """Instructions (numerics.instructions) on given numbers, which lie in front of the results."""
    program, data, out = equation.how.program, inputs[0], equation.outputs[0].aval
    if out.dtype != np.float64:
        raise Unprintable(f"sparse elimination of numbers of type {out.dtype}, in a step that is printed as loops")
    fixed = None
    if len(inputs) > 1:
        other = inputs[1]
        fixed = other.buffer if isinstance(other, Stored) and other.buffer.name == "scratch" else self.stored(other)
    state: list[Buffer] = []

    def part(lane: bool, moves: bool) -> Buffer:
        kind = _either((lane, moves), _kind(fixed))
        state.append(Buffer("scratch", 0, out.shape, out.dtype, *kind))
        return Buffer("scratch", program.led, data.shape, out.dtype, *kind, within=state[0])

    self.close()
    self.stored(data, part)
    constants = self.constant(np.asarray(program.constants))
    (whole,) = state
    self.stored(constants, Buffer("scratch", 0, constants.shape, out.dtype, whole.lane, whole.moves, within=whole))
    self.close()
    words, ends, products = map(self.table, program.packed)
    self.items.append(Executed(whole, fixed or whole, program.led + data.size, program.count, words, ends, products,
                               program.one))  # fmt: skip
    return self.buffered(whole)


def _extreme_place(self: Arrays, equation: Equation, inputs: list[Array]) -> Array:
    """argmax or argmin: the first entry that is the largest, or NaN."""
    (x,), graph, out = inputs, self.graph, equation.outputs[0].aval
    axes, op = equation.how
    if len(axes) != 1:
        raise Unprintable(f"{equation.name} over several axes, in a step that is printed as loops")
    length = np.int64(x.shape[axes[0]])

    def at(index: Index) -> Entry:
        def of(k: Entry) -> Entry:
            return x.at((*index[: axes[0]], k, *index[axes[0] :]))

        most = self.folded(op, x.dtype, TABLE[op].neutral(x.dtype), np.int64(0), length, of)

        def here(k: Entry) -> Entry:
            entry = of(k)
            is_it = graph.make("or", BOOL, graph.make("eq", BOOL, entry, most), graph.make("ne", BOOL, entry, entry))
            return graph.select(is_it, k, length, length.dtype)

        place_of_extreme = self.folded("min", length.dtype, length, np.int64(0), length, here)
        return graph.convert(place_of_extreme, out.dtype)

    return Array(out.shape, out.dtype, at, (x.cost + 3) * int(length))


TURNS: dict[type, Callable[..., Array | list[Array]]] = {
    kinds.While: _while, kinds.Scan: _scan, kinds.Executed: _execute, kinds.Cumulated: _cumulative,
    kinds.Extreme: _extreme_place,
}  # fmt: skip
