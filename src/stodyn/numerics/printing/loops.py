"""Loops over the entries of arrays as LLVM text: one counter for each long axis, a vector of paths innermost.

What does not depend on a counter stands before its loop. Only what is read by somebody is stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stodyn.numerics.printing.arrays import Arrays, Buffer, Fold, Loop, Total
from stodyn.numerics.printing.llvm import Printer, Writer
from stodyn.numerics.printing.nodes import Entry, Node, reachable
from stodyn.numerics.printing.rows import Function

WIDTH = 8  # paths taken together: a line of the cache, and enough independent chains for every processor
SKIPPED = ("literal", "carried", "counter")  # nodes that nobody prints


class Program:
    """The loops of a function of arrays that are needed for what it stores outside of the scratch, and for `results`.

    scratch  entries of it that are used; operations: nodes of all bodies
    """

    def __init__(self, arrays: Arrays, results: Sequence[Entry] = ()):
        self.results = list(results)
        self.loops = _needed(arrays.loops, self.results)
        self.scratch = 0
        placed: set[int] = set()
        for loop in self.loops:
            for buffer, _, _ in loop.stores:
                if buffer.name == "scratch" and id(buffer) not in placed:
                    placed.add(id(buffer))
                    buffer.first, self.scratch = self.scratch, self.scratch + buffer.size
        self.wanted = [*self.results, *(e for loop in self.loops for _, *pair in loop.stores for e in pair)]
        self.operations = len(reachable(self.wanted))


def _needed(loops: Sequence[Loop], results: Sequence[Entry]) -> list[Loop]:
    """The loops with those stores only that are read or belong to the caller."""
    read = _loaded(results)
    kept = []
    for loop in reversed(loops):
        stores = [s for s in loop.stores if s[0].name != "scratch" or id(s[0]) in read]
        read |= _loaded([e for _, place, entry in stores for e in (place, entry)])
        if stores:
            kept.append(Loop(loop.shape, loop.counters, stores))
    return kept[::-1]


def _loaded(entries: Sequence[Entry]) -> set[int]:
    return {id(node.attr) for node in reachable(entries) if node.op == "load"}


class LoopPrinter(Printer):
    """Prints loops and folds; `load` gives the value of an entry of a buffer, `store` takes one."""

    def __init__(
        self,
        writer: Writer,
        program: Program,
        inputs: Callable[[Node], str],
        load: Callable[[Buffer, str], str],
        store: Callable[[Buffer, str, str], None],
    ):
        super().__init__(writer, program.wanted, inputs)
        self.program, self.load, self.store = program, load, store
        self._present = {id(node) for node in self.nodes}
        self._opened: set[int] = set()

    def before(self, moves: bool) -> None:
        """Print what depends on nothing that moves, or on no loop."""
        stored = {id(buffer) for loop in self.program.loops for buffer, _, _ in loop.stores}
        later: set[int] = set()  # nodes that need what a loop of the program stores
        for node in self.nodes:
            if (node.op == "load" and id(node.attr) in stored) or any(id(a) in later for a in node.args):
                later.add(id(node))
            elif node.op not in SKIPPED and not node.loops and (moves or not node.moves):
                self.need(node)

    def write(self) -> None:
        """All loops, one after another."""
        for loop in self.program.loops:
            nodes = reachable([e for _, *pair in loop.stores for e in pair])
            with contextlib.ExitStack() as stack:
                for number, counter, length in loop.counters:
                    self._hoist(nodes)
                    stack.enter_context(self._counting(number, counter, length))
                for buffer, place, entry in loop.stores:
                    self.store(buffer, self.read(place, False), self.read(entry))

    @contextlib.contextmanager
    def _counting(self, number: int, counter: Node, length: int) -> Iterator[None]:
        with self.w.counted(0, length) as i, self.scope():
            self.name(counter, i)
            self._opened.add(number)
            yield
            self._opened.remove(number)

    def _hoist(self, nodes: Sequence[Node]) -> None:
        """What depends on the counters of the loops around alone; numbers common to all paths as vectors too."""
        spread = {id(a) for node in nodes if node.lane for a in node.args if isinstance(a, Node) and not a.lane}
        for node in nodes:
            if node.op not in SKIPPED and node.loops <= self._opened:
                self.read(node, id(node) in spread and node.dtype.kind == "f")

    # --- nodes --------------------------------------------------------------------------------------------------------

    def operands(self, node: Node) -> list[Entry]:
        if node.op != "folded":
            return super().operands(node)
        fold: Fold = node.attr
        totals = self._totals(fold)
        return [fold.first, fold.last, *(t.start for t in totals), *self._outside(totals)]

    def _totals(self, fold: Fold) -> list[Total]:
        return [total for total in fold.totals if id(total.result) in self._present]

    def _outside(self, totals: Sequence[Total]) -> list[Node]:
        """What the turns of a fold take from outside of it: what depends on the loops around it alone."""
        found: dict[int, Node] = {}
        seen: set[int] = set()
        stack: list[Any] = [total.after for total in totals]
        while stack:
            node = stack.pop()
            if not isinstance(node, Node) or id(node) in seen or node.op in SKIPPED:
                continue
            seen.add(id(node))
            if node.loops <= self._opened:
                found[id(node)] = node
            else:
                stack += node.args
        return list(found.values())

    def _print(self, node: Node) -> None:
        if node.op == "load":
            self.name(node, self.load(node.attr, self.read(node.args[0], False)))
        elif node.op == "folded":
            self._fold(node.attr)
        else:
            super()._print(node)

    def _fold(self, fold: Fold) -> None:
        w, totals = self.w, self._totals(fold)
        first, last = self.read(fold.first, False), self.read(fold.last, False)
        starts = [self.read(t.start, t.carried.lane) for t in totals]
        types = [w.type(t.carried.dtype, t.carried.lane) for t in totals]
        before, head, body, end = w.block, w.fresh("fold"), w.fresh("term"), w.fresh("folded")
        i, names = f"%{w.fresh('k')}", [f"%{w.fresh('sum')}" for _ in totals]
        w.jump(head)
        w.open(head)
        place = len(w.lines)
        w.lines += [""] * (1 + len(totals))
        w.branch(w.value(f"icmp slt i64 {i}, {last}"), body, end)
        w.open(body)
        with self.scope():
            self.name(fold.counter, i)
            for total, name in zip(totals, names, strict=True):
                self.name(total.carried, name)
            self._opened.add(fold.number)
            after = [self.read(t.after, t.carried.lane) for t in totals]
            self._opened.remove(fold.number)
            following = w.value(f"add nsw i64 {i}, 1")
        phis = zip((i, *names), ("i64", *types), (first, *starts), (following, *after), strict=True)
        for k, (name, type_, start, new) in enumerate(phis):
            w.lines[place + k] = f"  {name} = phi {type_} [ {start}, %{before} ], [ {new}, %{w.block} ]"
        w.jump(head)
        w.open(end)
        for total, name in zip(totals, names, strict=True):
            self.name(total.result, name)


class Memory:
    """Where the buffers of a function stand: those `at_rows` [entry][lanes], the others [entry][eight paths].

    bases  of each kind of memory its address, where that is not a word of the frame
    """

    def __init__(self, w: Function, at_rows: Sequence[str], bases: dict[str, Callable[[], str]]):
        self.w, self.at_rows, self.bases = w, set(at_rows), bases
        self.stride = w.whole("mul", w.count("stride"), 8)
        self.lane = ""

    def address(self, buffer: Buffer, place: str) -> str:
        w, first, name = self.w, buffer.first, buffer.name
        number = place if not first else str(int(place) + first) if place.isdigit() else w.whole("add", place, first)
        base = self.bases[name]() if name in self.bases else w.address("tables" if name == "table" else name)
        if name in self.at_rows and buffer.lane:
            return w.at(w.at(base, w.whole("mul", self.stride, number)), self.lane, 8)
        unit = f"[{WIDTH} x double]" if buffer.lane else "double"
        return w.value(f"getelementptr {unit}, ptr {base}, i64 {number}")

    def load(self, buffer: Buffer, place: str) -> str:
        return self.w.load_row(self.address(buffer, place), buffer.dtype, buffer.lane)

    def store(self, buffer: Buffer, place: str, x: str) -> None:
        self.w.store_row(x, self.address(buffer, place), buffer.dtype)


def mapped(name: str, program: Program, frame: Sequence[str], at_rows: Sequence[str]) -> Function:
    """The function that runs a program for all vectors of paths: for (lane = first_lane; lane < last_lane; ...).

    Inputs that are numbers are words of the frame: addresses of one number each.
    """
    w = Function(name, WIDTH, frame)
    memory = Memory(w, at_rows, {})

    def given(node: Node) -> str:
        return w.load_row(w.address(node.attr[0]), node.dtype, False)

    printer = LoopPrinter(w, program, given, memory.load, memory.store)
    w.operations = program.operations
    with w.counted(w.count("first_lane"), w.count("last_lane"), WIDTH) as lane, printer.scope():
        memory.lane = lane
        printer.before(moves=True)
        printer.write()
    return w
