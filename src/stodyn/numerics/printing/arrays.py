"""Arrays that are never stored: rules that give an entry as a node of a graph of scalars, and loops over their entries.

An array gives its entry (i, j, ...) as a node, where the indices are nodes too, so that chains of rules are fused.
Arrays kept in memory are stored by a loop over their entries; loops over equal shapes share a body until one needs an
entry that another has not made yet. Reductions are folds: loops inside a body. Turns, as those of Newton's method, hold
loops themselves; the values they carry from one to the next are in memory.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from stodyn.numerics.facts.entries import Fact, fact_about
from stodyn.numerics.printing.nodes import BOOL, NOWHERE, Entry, Graph, Node, is_known, reachable
from stodyn.numerics.printing.scalars import TYPES
from stodyn.numerics.printing.unprintable import Unprintable

INT64 = np.dtype(np.int64)
FEW = 4  # entries of an axis that is written out
WRITTEN_OUT = 8  # terms of a fold that is written out

Index = tuple[Entry, ...]


class Shifted(Exception):
    """An entry is needed that the loop making its array has not made yet."""


@dataclasses.dataclass(eq=False)
class Buffer:
    """Entries in memory, one after another.

    name    the memory it is in: "scratch", "table", or the inputs' own; first: its first entry there
    lane    whether each path has its own numbers; moves: whether they may change from step to step
    within  the buffer of which this is the part that begins at its entry `first`
    """

    name: str
    first: int
    shape: tuple[int, ...]
    dtype: np.dtype
    lane: bool = True
    moves: bool = True
    within: Buffer | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def whole(self) -> Buffer:
        """The buffer that is placed in memory."""
        return self if self.within is None else self.within

    @property
    def begin(self) -> int:
        """Its first entry in its memory."""
        return self.first if self.within is None else self.within.first + self.first


class Array:
    """at(index) is the node of an entry; cost: operations that it takes, from arrays in memory; depth: how many rules,
    one inside another, give it; fact: which entries are known."""

    known: np.ndarray | None = None
    fact: Fact = None
    depth = 0

    def __init__(self, shape: Sequence[int], dtype: Any, at: Callable[[Index], Entry], cost: int = 0):
        self.shape, self.dtype, self.cost = tuple(shape), np.dtype(dtype), cost
        self._at, self._cache = at, {}  # type: ignore[var-annotated]

    def at(self, index: Index) -> Entry:
        key = tuple(int(i) if is_known(i) else i for i in index)
        if key not in self._cache:
            self._cache[key] = self._at(index)
        return self._cache[key]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Stored(Array):
    """An array in memory: an entry is the node its loop has just made or, after that loop, a load."""

    def __init__(self, buffer: Buffer, at: Callable[[Index], Entry]):
        super().__init__(buffer.shape, buffer.dtype, at)
        self.buffer = buffer

    def at(self, index: Index) -> Entry:
        return self._at(index)


@dataclasses.dataclass(eq=False)
class Loop:
    """for every index of `shape`: stores, each (buffer, entry's place in it, its value).

    numbers and counters of its long axes, outermost first; the short ones are written out
    """

    shape: tuple[int, ...]
    counters: list[tuple[int, Node, int]]  # number of the loop, its counter, its length
    stores: list[tuple[Buffer, Entry, Entry]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Turns:
    """A repetition: the items of a turn, in their order.

    number, counter  of the turns; length: how many there are, None where each path ends by itself
    condition        items that compute `goes_on`, whether a path makes another turn; `active` stands for it in a turn
    copies           results that turns hand on are stored where the next turn reads them
    """

    number: int
    counter: Node
    active: Node
    length: int | None = None
    goes_on: Entry | None = None
    condition: list[Item] = dataclasses.field(default_factory=list)
    body: list[Item] = dataclasses.field(default_factory=list)
    copies: list[Item] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Executed:
    """Instructions z = (base - Σ left right)/divisor, one after another: base and right in `state`, which the results
    follow from its entry `first` on, left and divisor in `fixed`.

    words   base + 2^32 divisor of each instruction; ends: of its products, of which each is left + 2^32 right
    one     the number of the divisor that is 1
    """

    state: Buffer
    fixed: Buffer
    first: int
    count: int
    words: Buffer
    ends: Buffer
    products: Buffer
    one: int


Item = Loop | Turns | Executed


@dataclasses.dataclass(eq=False)
class Fold:
    """for (k = first; k < last; ...): every total = after, beginning with its own start.

    kind  the loops on which its totals depend, and whether they move: the same for all of them
    """

    number: int
    counter: Node
    first: Entry
    last: Entry
    kind: tuple[frozenset[int], bool] | None = None
    totals: list[Total] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Total:
    carried: Node
    start: Entry
    after: Entry
    result: Node


class ArrayGraph(Graph):
    """A graph with counters, loads from memory and folds."""

    def counter(self) -> tuple[int, Node]:
        number = next(self._numbers)
        return number, Node("counter", INT64, (), number, False, False, frozenset([number]))

    def load(self, buffer: Buffer, place: Entry) -> Node:
        key = ("load", id(buffer), int(place) if is_known(place) else id(place))
        if key not in self._cache:
            loops = NOWHERE if is_known(place) else place.loops
            moves, lane = buffer.moves, buffer.lane
            if isinstance(place, Node):
                moves, lane = moves or place.moves, lane or place.lane
            self._cache[key] = Node("load", buffer.dtype, (place,), buffer, lane, moves, loops)
        return self._cache[key]

    def whole(self, op: str, a: Entry, b: Entry | int) -> Entry:
        """An operation of whole numbers between two indices."""
        return self.make(op, INT64, a, np.int64(b) if isinstance(b, int) else b)

    def inside(self, index: Entry, low: int, high: int) -> Entry:
        """low <= index < high."""
        above = self.make("ge", BOOL, index, np.int64(low))
        return self.make("and", BOOL, above, self.make("lt", BOOL, index, np.int64(high)))

    def clamped(self, index: Entry, size: int) -> Entry:
        return self.whole("min", self.whole("max", index, 0), size - 1)


class Arrays:
    """Loops in the order in which they run, the memory that they need, and the tables that they read."""

    def __init__(self, graph: ArrayGraph | None = None):
        self.graph = graph or ArrayGraph()
        self.items: list[Item] = []
        self.tables: list[np.ndarray] = []
        self._open: Loop | None = None
        self._stage = 0
        self._pending: dict[int, dict[Any, Entry]] = {}
        self._folds: dict[Any, list[Fold]] = {}
        self._context: tuple[int, ...] = ()
        self._tabled: dict[Any, Buffer] = {}
        self._tables_by_id: dict[int, tuple[np.ndarray, Buffer]] = {}  # arrays, held so that no other has their id

    # --- leaves -------------------------------------------------------------------------------------------------------

    def buffered(self, buffer: Buffer) -> Array:
        """The array whose entries are those of a buffer in memory."""

        def at(index: Index) -> Entry:
            place = self.place(buffer.shape, index)
            pending = self._pending.get(id(buffer))
            if pending is None:
                return self.graph.load(buffer, place)
            key = int(place) if is_known(place) else id(place)
            if key not in pending:
                raise Shifted
            return pending[key]

        return Stored(buffer, at)

    def place(self, shape: tuple[int, ...], index: Index) -> Entry:
        """The number of an entry, row by row."""
        total: Entry = np.int64(0)
        for i, size in zip(index, shape, strict=True):
            total = self.graph.whole("add", self.graph.whole("mul", total, size), i)
        return total

    def one(self, entry: Entry) -> Array:
        return Array((), entry.dtype, lambda index: entry)

    def constant(self, x: np.ndarray) -> Array:
        """Numbers known beforehand: one where all are equal, else a table."""
        if x.dtype not in TYPES:
            raise Unprintable(f"numbers of type {x.dtype}")
        x = np.asarray(x)
        first = x.reshape(-1)[:1]
        if x.ndim == 0:
            entry = self.graph.literal(first[0]) if x.dtype.kind == "f" else first[0]
            array = Array((), x.dtype, lambda index: entry)
        elif x.size and (x == first[0]).all() and (x.dtype.kind != "f" or (np.signbit(x) == np.signbit(first)).all()):
            array = Array(x.shape, x.dtype, lambda index: first[0])
        else:
            array = Array(x.shape, x.dtype, lambda index: self._entry_of_table(x, index))
        array.known, array.fact = x, fact_about(x)
        return array

    def zeros_of(self, operands: Sequence[Array]) -> list[Callable[[Index], Entry] | None]:
        """For each factor of a product, a function of the index that says whether the entry is exactly zero, so that
        the product is; None where no entry is zero, or where the other factor is known and finite."""
        zeros: list[Callable[[Index], Entry] | None] = []
        for k, x in enumerate(operands):
            others = [other for j, other in enumerate(operands) if j != k]
            is_finite = all(other.known is not None and np.isfinite(other.known).all() for other in others)
            if x.dtype.kind != "f" or x.fact is None or is_finite or not x.fact.zero.any():
                zeros.append(None)
            elif x.known is None:
                zeros.append(self.constant(x.fact.zero).at)
            else:
                zeros.append(functools.partial(self._is_zero, x))
        return zeros

    def _is_zero(self, x: Array, index: Index) -> Entry:
        return self.graph.make("eq", BOOL, x.at(index), x.dtype.type(0))

    def _entry_of_table(self, x: np.ndarray, index: Index) -> Entry:
        if all(map(is_known, index)):
            return x[tuple(int(i) for i in index)]
        stored = self.graph.load(self.table(x), self.place(x.shape, index))
        return (
            self.graph.make("ne", BOOL, stored, np.int64(0)) if x.dtype == BOOL else self.graph.convert(stored, x.dtype)
        )

    def table(self, x: np.ndarray) -> Buffer:
        """A known array in the memory of tables: reals as doubles, whole numbers as 64-bit integers."""
        if id(x) in self._tables_by_id:
            return self._tables_by_id[id(x)][1]
        words = np.ascontiguousarray(x.astype(np.float64 if x.dtype.kind == "f" else INT64, copy=False).reshape(-1))
        key = (words.dtype.str, hashlib.sha256(words.data).digest())
        if key not in self._tabled:
            first = sum(t.size for t in self.tables)
            self._tabled[key] = Buffer("table", first, (words.size,), words.dtype, lane=False, moves=False)
            self.tables.append(words.view(np.int64))
        self._tables_by_id[id(x)] = x, self._tabled[key]
        return self._tabled[key]

    # --- arrays in memory ---------------------------------------------------------------------------------------------

    def in_memory(self, x: Array, into: Buffer | None = None) -> Array:
        """An array whose entries are stored by a loop; of one without axes the node alone."""
        if not x.shape and into is None:
            return self.one(self.entry(x))
        return self.buffered(self.stored(x, into))

    def entry(self, x: Array) -> Entry:
        """The only entry of an array without axes."""
        try:
            return x.at(())
        except Shifted:
            self.close()
            return x.at(())

    def stored(
        self, x: Array, into: Buffer | Callable[[bool, bool], Buffer] | None = None, row: Entry | None = None
    ) -> Buffer:
        """Where a loop stores the entries of an array: in all of a buffer, or in one of its rows.

        into  a buffer, or what makes one of whether the entries differ between paths and whether they move
        """
        if self._open is None or self._open.shape != x.shape:
            self._begin(x.shape)
        assert self._open is not None
        try:
            entries = self._entries(self._open, x)
        except Shifted:
            self._begin(x.shape)
            entries = self._entries(self._open, x)
        if not isinstance(into, Buffer):
            nodes = [entry for _, entry in entries if isinstance(entry, Node)]
            kind = any(node.lane for node in nodes), any(node.moves for node in nodes)
            into = Buffer("scratch", 0, x.shape, x.dtype, *kind) if into is None else into(*kind)
        leading = () if row is None else (row,)
        places = [(self.place(into.shape, (*leading, *index)), entry) for index, entry in entries]
        self._open.stores += [(into, place, entry) for place, entry in places]
        self._pending[id(into)] = {int(p) if is_known(p) else id(p): entry for p, entry in places}
        return into

    def _entries(self, loop: Loop, x: Array) -> list[tuple[Index, Entry]]:
        outer = self._context
        self._context = (*outer, *(number for number, _, _ in loop.counters))
        try:
            return [(index, x.at(index)) for index in _indices(loop)]
        finally:
            self._context = outer

    def _begin(self, shape: tuple[int, ...]) -> None:
        self.close()
        counters = [(*self.graph.counter(), size) for size in shape if size > FEW]
        self._open = Loop(shape, counters)
        self._stage += 1
        self.items.append(self._open)

    def close(self) -> None:
        """End the current loop: arrays are stored by another one from now on."""
        self._open = None
        self._stage += 1  # folds before and after a loop are not one
        self._pending.clear()

    # --- folds --------------------------------------------------------------------------------------------------------

    def folded(
        self, op: str, dtype: Any, start: Entry, first: Entry, last: Entry, term: Callable[[Entry], Entry]
    ) -> Entry:
        """start op term(first) op ... op term(last - 1), one after another."""
        if is_known(first) and is_known(last) and last - first <= WRITTEN_OUT:
            total = start
            for k in range(int(first), int(last)):
                total = self.graph.make(op, dtype, total, term(np.int64(k)))
            return total
        outer = self._context
        names = tuple(int(b) if is_known(b) else id(b) for b in (first, last))
        alike = self._folds.setdefault((outer, names, self._stage), [])
        for fold in itertools.chain(alike, [None]):
            if fold is None:
                fold = Fold(*self.graph.counter(), first, last)
                alike.append(fold)
            self._context = (*outer, fold.number)
            try:
                entry = term(fold.counter)
            finally:
                self._context = outer
            loops = (entry.loops if isinstance(entry, Node) else NOWHERE) | {fold.number}
            bounds = [b for b in (first, last, start) if isinstance(b, Node)]
            outside = frozenset().union(loops - {fold.number}, *(b.loops for b in bounds))
            moves = any(isinstance(e, Node) and e.moves for e in (entry, start, first, last))
            waits = any(node.op == "folded" and node.attr is fold for node in reachable([entry, start, first, last]))
            if waits or fold.kind not in (None, (outside, moves)):
                continue
            fold.kind = outside, moves
            lane = any(isinstance(e, Node) and e.lane for e in (entry, start))
            carried = Node(
                "carried", np.dtype(dtype), (), (fold.number, len(fold.totals)), lane, moves, loops | outside
            )
            after = self.graph.make(op, dtype, carried, entry)
            result = Node("folded", np.dtype(dtype), (after, start, first, last), fold, lane, moves, outside)
            fold.totals.append(Total(carried, start, after, result))
            return result
        raise AssertionError


def _indices(loop: Loop) -> Iterator[Index]:
    """The indices of a loop's body: counters, and all numbers of short axes."""
    counters = iter(loop.counters)
    axes = [[next(counters)[1]] if size > FEW else [np.int64(k) for k in range(size)] for size in loop.shape]
    return itertools.product(*axes)


def broadcast(shape: tuple[int, ...], index: Index) -> Index:
    """The index into an operand that may have no axes, or axes of one entry."""
    if not shape:
        return ()
    return tuple(np.int64(0) if size == 1 else i for size, i in zip(shape, index, strict=True))
