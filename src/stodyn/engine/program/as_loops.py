"""A step on a large system as loops over the entries of its arrays, its state in memory.

The text is as long as the trace, so that compiling takes the same time for 100 components and 100 000.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stodyn.engine.program.source import Leaf, Source, Terms
from stodyn.engine.program.steps import Carried, Form, Target
from stodyn.engine.program.watching import Watched
from stodyn.engine.spec import Spec
from stodyn.numerics.printing.array_traces import ArrayTraces
from stodyn.numerics.printing.arrays import Array, Buffer
from stodyn.numerics.printing.loops import WIDTH, LoopPrinter, Program, mapped
from stodyn.numerics.printing.nodes import Entry
from stodyn.numerics.printing.rows import Function

ROWS = ("start", "state", "own_params", "seen")  # arrays whose entries lie [entry][lanes]


class LoopTerms(Terms):
    """Arrays are rules that give their entries; those that are kept are in memory."""

    def __init__(self, tables: list[np.ndarray]):
        self.arrays = ArrayTraces()
        self.arrays.tables, self.graph = tables, self.arrays.graph

    def one(self, entry: Entry) -> Array:
        return self.arrays.one(entry)

    def entry(self, x: Array) -> Entry:
        return x.at(())

    def constant(self, numbers: np.ndarray) -> Array:
        return self.arrays.constant(numbers)

    def inputs(self, name: str, leaf: Leaf, lane: bool = True, moves: bool = True) -> Array:
        return self.arrays.buffered(Buffer(name, *leaf, lane=lane, moves=moves))

    def normals(self, stream: int, first: int, count: int, dtype: np.dtype) -> Array:
        x = self.arrays.buffered(Buffer(f"normals {stream}", 0, (count,), np.dtype(float)))
        if dtype == np.float64:
            return x
        return Array(x.shape, dtype, lambda index: self.graph.convert(x.at(index), dtype))

    def with_path_axis(self, x: Array) -> Array:
        return Array((*x.shape, 1), x.dtype, lambda index: x.at(index[:-1]), x.cost)

    def run(self, trace: Any, arguments: Sequence[Array]) -> list[Array]:
        return self.arrays.run(trace, arguments)

    def keep(self, x: Array, name: str = "", leaf: Leaf | None = None) -> Array:
        return self.arrays.in_memory(x, Buffer(name, *leaf) if leaf is not None else None)

    def keep_rows(self, x: Array, n: int, values: Sequence[Array]) -> tuple[list[np.ndarray], list[np.dtype]]:
        """A statistic that looks at the components alone has their rows."""
        numbers, dtypes = [], [x.dtype] * x.size
        self.keep(x, "seen", Leaf(0, x.shape, x.dtype))
        for array in values:
            first = 0 if self._are_components(array, x) else len(dtypes)
            numbers.append(first + np.arange(array.size).reshape(array.shape[:-1]))
            if first:
                self.keep(array, "seen", Leaf(first, array.shape, array.dtype))
                dtypes += [array.dtype] * array.size
        return numbers, dtypes

    def _are_components(self, array: Array, x: Array) -> bool:
        """Whether an array has the entries of x, seen at one counter."""
        if array.shape != (*x.shape, 1) or array.dtype != x.dtype:
            return False
        self.arrays.close()
        _, counter = self.arrays.graph.counter()
        return array.at((counter, np.int64(0))) is x.at((counter,))

    def program(self, results: Sequence[Entry] = ()) -> Program:
        return Program(self.arrays, results)


class Loops(Source):
    """The loops of one path."""

    has_registers = False

    def __init__(self, spec: Spec, watched: Watched):
        self.tables: list[np.ndarray] = []
        super().__init__(spec, watched)
        longest = max(step.program.scratch for step in self.steps.values())
        self.scratch = max(self.begun.scratch, self.see.scratch + longest)

    def terms(self) -> Terms:
        return LoopTerms(self.tables)

    def form(self, target: Target, program: Program, cause: Entry | None = None) -> LoopForm:
        return LoopForm(target, program, cause)

    def mapped(self, name: str, width: int, frame: Sequence[str]) -> Function:
        return mapped(name, {"begin": self.begun, "look": self.see}[name], frame, ROWS)

    @property
    def programs(self) -> list[Program]:
        return [self.begun, self.see, *(step.program for step in self.steps.values())]

    def operations(self) -> int:
        """Operations of a step for each path, by the shapes of its trace."""
        return self.traced.operations

    def width(self) -> int:
        return WIDTH

    @property
    def description(self) -> str:
        count = self.stepped.program.loops
        return f"{count} loop{'s' * (count != 1)} over arrays per step, {WIDTH} paths together on one thread"


class LoopForm(Form):
    """The state in two memories in turns, or in three where that before the first step is not to be written."""

    printer: LoopPrinter

    def __init__(self, target: Target, program: Program, cause: Entry | None):
        super().__init__(target, cause)
        self.program, self.bases, self.then = program, {"scratch": target.scratch()}, ""
        self.printer = target.printer(program, lambda node: target.common(node, self.number), self.bases)
        self.w.operations = program.operations

    def begin(self) -> None:
        self.bases["state"] = self.then = self.target.row("after", 0)
        self.printer.before_steps()
        self.printer.step()

    def carried(self) -> list[Carried]:
        starts = self.target.states()
        self.printer.before_steps()
        return [Carried(word, "ptr", start) for word, start in zip(("now", "then", "spare"), starts, strict=False)]

    def step(self, names: Sequence[str]) -> list[str]:
        now, self.then, *spare = names
        self.bases |= {"now": now, "then": self.then} | self.target.normals_in_memory(self.number)
        self.printer.step()
        return [self.then, *spare, self.then] if spare else [self.then, now]

    def sound(self) -> str:
        return self.target.are_finite(self.then, [(leaf.first, leaf.last) for leaf in self.source.layout.reals()])

    def rounded(self) -> str:
        return self.w.load(self.target.entry(self.then, str(len(self.source.layout.dtypes) - 1)), "i64")

    def see(self, step: str, slot: str) -> None:
        with self.target.rows_of_save(slot) as rows:
            bases = {"state": self.then, "seen": rows, "scratch": self.target.scratch(behind=self.program)}
            printer = self.target.printer(self.source.see, lambda node: self.target.common(node, step), bases)
            printer.before_steps()
            printer.step()

    def end(self) -> None:
        self.target.take_back(self.then)
