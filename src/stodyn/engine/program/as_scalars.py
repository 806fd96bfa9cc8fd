"""A step as scalars: every number of a path is a value of its own, in a register over the steps where there is room."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stodyn.engine.program.source import Leaf, Source, Terms
from stodyn.engine.program.steps import Carried, Form, Target, finite
from stodyn.numerics.printing import compiling, rows, scalars
from stodyn.numerics.printing.llvm import Printer
from stodyn.numerics.printing.nodes import Entry, Graph, Node, identity_of, reachable
from stodyn.numerics.printing.rows import Function

TINY, SHORT = 60, 150  # operations of a step with room for more paths; the same where operations wait for each other
SERIAL = 8  # operations side by side that fill a processor
CONSTANT = ("literal", "carried")  # nodes that are not printed


class ScalarTerms(Terms):
    """Arrays are object arrays of entries of a graph."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.outputs: list[Entry] = []

    def one(self, entry: Entry) -> np.ndarray:
        return scalars.unflatten([entry], [()])[0]

    def entry(self, x: np.ndarray) -> Entry:
        return x[()]

    def constant(self, numbers: np.ndarray) -> np.ndarray:
        return scalars.known_entries(numbers)

    def inputs(self, name: str, leaf: Leaf, lane: bool = True, moves: bool = True) -> np.ndarray:
        numbers = range(leaf.first, leaf.last)
        nodes = [self.graph.input((name, k), leaf.dtype, lane=lane, moves=moves) for k in numbers]
        return scalars.unflatten(nodes, [leaf.shape])[0]

    def normals(self, stream: int, first: int, count: int, dtype: np.dtype) -> np.ndarray:
        entries = [self.graph.input(("normals", first + j), np.float64, noise=True) for j in range(count)]
        return scalars.unflatten([self.graph.convert(entry, dtype) for entry in entries], [(count,)])[0]

    def with_path_axis(self, x: np.ndarray) -> np.ndarray:
        return x[..., None]

    def run(self, trace: Any, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        return scalars.scalarised(trace, arguments, self.graph)

    def keep(self, x: np.ndarray, name: str = "", leaf: Leaf | None = None) -> np.ndarray:
        if name:
            self.outputs += scalars.flatten([x])
        return x

    def keep_rows(self, x: np.ndarray, n: int, values: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.dtype]]:
        self.keep(x[:n], "seen")
        places: dict[Any, int] = {}
        for k, entry in enumerate(self.outputs):
            places.setdefault(identity_of(entry), k)

        def place(entry: Entry) -> int:
            if identity_of(entry) not in places:
                places[identity_of(entry)] = len(self.outputs)
                self.outputs.append(entry)
            return places[identity_of(entry)]

        numbers = [np.array([place(e) for e in array.reshape(-1)]).reshape(array.shape[:-1]) for array in values]
        return numbers, [entry.dtype for entry in self.outputs]

    def program(self, results: Sequence[Entry] = ()) -> list[Entry]:
        return self.outputs


class Scalars(Source):
    """The graphs of one path; a program is the list of the numbers that it writes."""

    has_registers = True

    def terms(self) -> Terms:
        return ScalarTerms()

    def form(self, target: Target, program: list[Entry], cause: Entry | None = None) -> ScalarForm:
        return ScalarForm(target, program, cause)

    def mapped(self, name: str, width: int, frame: Sequence[str]) -> Function:
        program, dtypes, into = {
            "begin": (self.begun, self.layout.dtypes, "state"), "look": (self.see, self.saved_dtypes, "seen")
        }[name]  # fmt: skip
        return rows.mapped(name, width, program, dtypes, frame, into)

    @functools.cached_property
    def description(self) -> str:
        return f"{self.operations()} scalar operations per step, {self.width()} paths together"

    @functools.cached_property
    def _size(self) -> tuple[int, int]:
        """Operations of a step, and the longest chain of them, without those that few paths need."""
        nodes, depth = reachable(self.stepped.program, rare=False), dict[int, int]()
        for node in nodes:
            depth[id(node)] = 1 + max([depth.get(id(a), 0) for a in node.args], default=0)
        return rows.operations(nodes), max(depth.values(), default=0)

    def operations(self) -> int:
        return self._size[0]

    def width(self) -> int:
        """How many paths go together: as many as leave the processor neither waiting nor short of registers."""
        register, (count, depth) = compiling.processor().register, self._size
        if count < TINY or (count < SHORT and count < SERIAL // 2 * depth):
            return 4 * register
        return 2 * register if count < SERIAL * depth else register


def _changed_by_branches(
    results: Sequence[Entry], readers: Mapping[int, int], numbers: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """Which of these numbers of the state only a branch reads and changes, so that they stay in their rows while no
    path enters it: of each, the branch and its place there."""
    changed = {}
    for k in numbers:
        if isinstance(results[k], Node) and results[k].op == "result" and readers[id(results[k])] == 1:
            loop, place = results[k].attr
            first = loop.first[place]
            is_own = isinstance(first, Node) and first.op == "input" and first.attr == ("now", k)
            if loop.is_branch and is_own and readers[id(first)] == 1:
                changed[k] = (loop.number, place)
    return changed


def _changed_by_all(results: Sequence[Entry], nodes: Sequence[Node], readers: Mapping[int, int]) -> dict[int, Node]:
    """The numbers of the state that nothing reads any more after a branch that all paths enter together, or none: they
    can be left as they are until a step has been made in full, and the branch be entered behind it."""
    ends = Counter(id(entry) for entry in results)
    read = {id(node.attr[0]) for node in nodes if node.op == "result" and readers[id(node)] > ends[id(node)]}
    return {
        k: entry
        for k, entry in enumerate(results)
        if isinstance(entry, Node) and entry.op == "result" and entry.attr[0].is_branch and entry.attr[0].is_for_all
        and id(entry.attr[0]) not in read
    }  # fmt: skip


class ScalarForm(Form):
    """The state in registers; in two memories in turns where they have no room; in its rows where only a branch that
    few paths enter changes it."""

    def __init__(self, target: Target, results: Sequence[Entry], cause: Entry | None):
        super().__init__(target, cause)
        self.results, layout = results, self.source.layout
        every = results if cause is None else [*results, cause]
        led = range(layout.leading, layout.of_method)
        leading = [entry for k, entry in enumerate(every) if k not in led] if led else None
        self.printer = Printer(self.w, every, self.input_value, leading)
        self.w.operations = len(self.printer.nodes)
        readers = self.printer.readers
        numbers = range(len(layout.dtypes))
        self.in_branches = _changed_by_branches(self.results, readers, numbers) if target.in_place else {}
        self.dtypes = {k: dtype for k, dtype in enumerate(layout.dtypes) if k not in self.in_branches}
        self.late = _changed_by_all(results, self.printer.nodes, readers) if cause is None else {}
        self.acts_together = bool(self.late)
        self.in_memory = len(self.dtypes) > target.room
        if self.in_memory:
            size = len(layout.dtypes) * self.w.width
            self.w.head += [f"  %{name} = alloca [{size} x double], align 64" for name in ("one", "other")]
        self.now = self.then = ""
        self.after: dict[int, str] = {}
        self.spares: list[str] = []

    def hoist(self, lane: bool = True) -> None:
        """Print the nodes that are the same in all steps, and for all paths where `lane` is False."""
        for node in self.printer.nodes:
            is_same = not node.moves and not node.loops and (lane or not node.lane)
            if is_same and node.op not in CONSTANT:
                self.printer.need(node)

    def input_value(self, node: Node) -> str:
        w, (array, k) = self.w, node.attr
        if not node.lane:
            return self.target.common(node, self.number)
        if array == "normals":
            return self.target.normal(k)
        if array == "now":
            return w.load_row(w.at(self.now, k * w.width, 8), node.dtype)
        return w.load_row(self.target.row(array, k), node.dtype)

    def begin(self) -> None:
        self.after = dict(enumerate(map(self.printer.read, self.results)))

    def carried(self) -> list[Carried]:
        w, row = self.w, functools.partial(self.target.row, "state")
        self.printer.homes = {branch: row(k) for k, branch in self.in_branches.items()}
        self.hoist()
        begun = {k: w.load_row(row(k), dtype) for k, dtype in self.dtypes.items()}
        if not self.in_memory:
            state = [Carried("s", w.type(dtype), begun[k]) for k, dtype in self.dtypes.items()]
            return [*state, *self.target.spares()]
        for k, dtype in self.dtypes.items():
            w.store_row(begun[k], w.at("%one", k * w.width, 8), dtype)
        return [Carried("now", "ptr", "%one"), Carried("then", "ptr", "%other"), *self.target.spares()]

    def step(self, names: Sequence[str]) -> list[str]:
        printer = self.printer
        by_name = {node.attr: node for node in printer.nodes if node.op == "input"}

        def give(array: str, values: Mapping[int, str]) -> None:
            for k, value in values.items():
                if (array, k) in by_name:
                    printer.name(by_name[array, k], value)

        count = 2 if self.in_memory else len(self.dtypes)
        if self.in_memory:
            self.now, self.then = names[:count]
        else:
            give("now", dict(zip(self.dtypes, names[:count], strict=True)))
        normals, spares = self.target.draw(self.number, names[count:])
        give("normals", dict(enumerate(normals)))
        self.after, self.spares = {}, spares
        for k in self.dtypes:
            late = self.late.get(k)
            self._write(k, printer.read(self.results[k] if late is None else late.attr[0].first[late.attr[1]]))
        for k in self.in_branches:
            if k not in self.late:
                printer.need(self.results[k])
        return self._handed_on()

    def _write(self, k: int, value: str) -> None:
        """Number k of the state after a step, or after what all paths do behind it."""
        self.after[k] = value
        if self.in_memory:
            self.w.store_row(value, self.w.at(self.then, k * self.w.width, 8), self.dtypes[k])

    def _handed_on(self) -> list[str]:
        return [*([self.then, self.now] if self.in_memory else self.after.values()), *self.spares]

    def acts(self) -> str:
        w, branches = self.w, {id(node.attr[0]): node.attr[0] for node in self.late.values()}
        entered = [self.printer.read(branch.enters, False) for branch in branches.values()]
        return functools.reduce(lambda a, b: w.value(f"or i1 {a}, {b}"), entered)

    def act(self) -> list[str]:
        for k, node in self.late.items():
            self.printer.need(node)
            if k in self.dtypes:
                self._write(k, self.printer.read(node))
        return self._handed_on()

    def joined(self, after: Sequence[str]) -> list[str]:
        if not self.in_memory:
            self.after = dict(zip(self.dtypes, after, strict=False))
        return list(after)

    def _number(self, k: int, dtype: Any) -> str:
        """Number k of the state after a step."""
        if k in self.in_branches:
            return self.w.load_row(self.target.row("state", k), dtype)
        return self.w.load_row(self.w.at(self.then, k * self.w.width, 8), dtype) if self.in_memory else self.after[k]

    def sound(self) -> str:
        dtypes = self.source.layout.dtypes[: self.source.layout.of_method]
        return finite(self.w, [(self._number(k, dtype), dtype) for k, dtype in enumerate(dtypes)])

    def rounded(self) -> str:
        return self.w.value(f"sext i32 {self.after[len(self.source.layout.dtypes) - 1]} to i64")

    def see(self, step: str, slot: str) -> None:
        def input_value(node: Node) -> str:
            array, k = node.attr
            if array == "state":
                return self._number(k, node.dtype)
            return self.target.common(node, step) if array == "t" else self.input_value(node)

        self.target.save(map(Printer(self.w, self.source.see, input_value).read, self.source.see), slot)

    def end(self) -> None:
        array = "state" if self.target.in_place else "after"
        for k, dtype in self.dtypes.items():
            self.w.store_row(self._number(k, dtype), self.target.row(array, k), dtype)
