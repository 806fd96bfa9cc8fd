"""A method's step on a large system as a program of loops: eight paths at a time, their state in memory.

    for each eight paths: for each step: its normals, drawn with those of the steps that fit the cache beside it;
                                         for each loop of the step: for each entry: eight paths

The text is as long as the trace, so that compiling takes the same time for 100 components and 100 000.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stodyn.engine.spec import Spec
from stodyn.engine.stepping import FRAME, GENERATORS, GROUP, OfOnePath, of_statistics
from stodyn.engine.watching import Watched
from stodyn.numerics.printing import compiling, rows
from stodyn.numerics.printing.array_traces import ArrayTraces
from stodyn.numerics.printing.arrays import Array, Buffer
from stodyn.numerics.printing.loops import WIDTH, LoopPrinter, Memory, Program, mapped
from stodyn.numerics.printing.nodes import INT32, Entry, Node
from stodyn.numerics.printing.rows import Function

ROWS = ("start", "state", "own_params", "seen")  # arrays whose entries lie [entry][lanes]


class LoopSource(OfOnePath):
    """The loops of a program for one path: its beginning, its step, and the numbers seen at a save."""

    def __init__(self, spec: Spec, watched: Watched):
        super().__init__(spec, watched)
        self.tables: list[np.ndarray] = []
        with of_statistics():
            self.see, self.saved, self.saved_dtypes, self.rows_of = self._saved_rows()
        self.begun = self._beginning()
        self.stepped, self.ok = self._stepped(None)
        self.starting = self._stepped("k") if self.traced.starting is not None else None
        steps = [self.stepped, *([self.starting[0]] if self.starting else [])]
        self.scratch = max(self.begun.scratch, self.see.scratch + max(program.scratch for program in steps))

    def operations(self) -> int:
        """Operations of a step for each path, by the shapes of its trace."""
        return self.traced.operations

    def width(self) -> int:
        return WIDTH

    @property
    def description(self) -> str:
        count = self.stepped.loops
        return f"{count} loop{'s' * (count != 1)} over arrays per step, {WIDTH} paths together on one thread"

    def compiled(self, width: int, diagnosing: bool = False) -> compiling.Program:
        return printed(self, diagnosing)

    # --- inputs -------------------------------------------------------------------------------------------------------

    def _begin(self) -> ArrayTraces:
        arrays = ArrayTraces()
        arrays.tables = self.tables
        return arrays

    def _number(self, arrays: ArrayTraces, name: str, dtype: Any, moves: bool = True) -> Array:
        return arrays.one(arrays.graph.input((name, 0), dtype, lane=False, moves=moves))

    def _params(self, arrays: ArrayTraces, lane_axis: bool = False) -> list[Array]:
        params, own, common = [], 0, 0
        for example, differs in zip(self.examples, self.varies, strict=True):
            shape, size = np.shape(example), int(np.prod(np.shape(example)))
            name, first = ("own_params", own) if differs else ("common_params", common)
            dtype = np.asarray(example).dtype
            buffer = Buffer(name, first, shape, dtype, lane=bool(differs), moves=False)
            array = arrays.buffered(buffer)
            params.append(_with_lane(array) if lane_axis and differs else array)
            own, common = own + size * differs, common + size * (not differs)
        return params

    def _leaves(self, name: str) -> list[Buffer]:
        """The arrays of the state, one after another."""
        leaves, first = [], 0
        for shape, dtype in zip(self.layout.shapes, self.layout.leaf_dtypes, strict=True):
            leaves.append(Buffer(name, first, shape, dtype))
            first += leaves[-1].size
        return leaves

    def _x(self, arrays: ArrayTraces, state: Sequence[Array]) -> Array:
        return arrays.run(self.traced.read, state)[0]

    # --- the three functions ------------------------------------------------------------------------------------------

    def _beginning(self) -> Program:
        arrays = self._begin()
        t = self._number(arrays, "t", self.dtype)
        n = self.traced.start.jaxpr.invars[1].aval.shape[0]
        x = arrays.buffered(Buffer("start", 0, (n,), self.dtype))
        state = arrays.run(self.traced.start, [t, x, *self._params(arrays)])
        here = _with_lane(self._x(arrays, state))
        gathered = arrays.run(self.watched.begin, [t, here, *self._params(arrays, True)])
        counts = [arrays.one(INT32.type(0))] * (self.layout.iterations + self.layout.rounded)
        for array, buffer in zip([*state, *gathered, *counts], self._leaves("state"), strict=True):
            arrays.in_memory(array, buffer)
        return Program(arrays)

    def _stepped(self, k: str | None) -> tuple[Program, Entry]:
        """The state after a step, and whether it was solved."""
        arrays, layout = self._begin(), self.layout
        t, h = self._number(arrays, "t", self.dtype), self._number(arrays, "h", self.dtype, not self.equal_steps)
        leaves = [arrays.buffered(buffer) for buffer in self._leaves("now")]
        method, gathered = leaves[: layout.method], leaves[layout.method : layout.method + layout.gathered]
        normals = []
        for number, (_, count) in enumerate(self.traced.streams):
            standard = arrays.buffered(Buffer(f"normals {number}", 0, (count,), np.dtype(float)))
            normals.append(standard if self.dtype == np.float64 else _converted(arrays, standard, self.dtype))
        common = [t, h] if k is None else [self._number(arrays, "k", INT32), t, h]
        trace = self.traced.step if k is None else self.traced.starting
        *after, ok, iterations, rounded = arrays.run(trace, [*common, *method, *normals, *self._params(arrays)])
        ok, iterations, rounded = map(arrays.in_memory, (ok, iterations, rounded))
        into = iter(self._leaves("then"))
        after = [arrays.in_memory(array, next(into)) for array in after]
        if layout.gathered:
            moved = [_with_lane(self._x(arrays, x)) for x in (method, after)]
            tracked = arrays.run(self.watched.track, [t, h, *moved, *gathered, *self._params(arrays, True)])
            for array in tracked:
                arrays.in_memory(array, next(into))
        counts = leaves[layout.method + layout.gathered :]
        wanted = [*([iterations] if layout.iterations else []), *([rounded] if layout.rounded else [])]
        for count, more in zip(counts, wanted, strict=True):
            added = arrays.graph.convert(more.at(()), INT32)
            arrays.in_memory(arrays.one(arrays.graph.make("add", INT32, count.at(()), added)), next(into))
        return Program(arrays, [ok.at(())]), ok.at(())

    def _saved_rows(self) -> tuple[Program, range, list[np.dtype], list[list[np.ndarray]]]:
        """The rows that are written at a save, and of each statistic the numbers of those that are its own.

        The first ones are the components; a statistic that wants just these has them.
        """
        arrays, layout, watched = self._begin(), self.layout, self.watched
        t = self._number(arrays, "t", self.dtype)
        leaves = [arrays.buffered(buffer) for buffer in self._leaves("state")]
        gathered = leaves[layout.method : layout.method + layout.gathered]
        x = self._x(arrays, leaves[: layout.method])
        last = layout.method + layout.gathered
        count = _with_lane(leaves[last]) if layout.iterations else arrays.constant(np.zeros(1, np.int32))
        values = arrays.run(watched.see, [t, _with_lane(x), count, *gathered, *self._params(arrays, True)])
        numbers, dtypes, total = [], [x.dtype] * x.size, x.size
        arrays.in_memory(x, Buffer("seen", 0, x.shape, x.dtype))
        for array in values:
            if _are_components(arrays, array, x):
                numbers.append(np.arange(x.size).reshape(array.shape[:-1]))
                continue
            arrays.in_memory(array, Buffer("seen", total, array.shape, array.dtype))
            numbers.append(total + np.arange(array.size).reshape(array.shape[:-1]))
            dtypes += [array.dtype] * array.size
            total += array.size
        rest = iter(numbers)
        rows_of = [[next(rest) for _ in range(count)] for count in watched.row_counts]
        return Program(arrays), range(total), dtypes, rows_of


def _with_lane(x: Array) -> Array:
    """With a last axis of one path."""
    return Array((*x.shape, 1), x.dtype, lambda index: x.at(index[:-1]), x.cost)


def _converted(arrays: ArrayTraces, x: Array, dtype: np.dtype) -> Array:
    return Array(x.shape, dtype, lambda index: arrays.graph.convert(x.at(index), dtype))


def _are_components(arrays: ArrayTraces, array: Array, x: Array) -> bool:
    """Whether an array has the entries of x, seen at one counter."""
    if array.shape != (*x.shape, 1) or array.dtype != x.dtype:
        return False
    arrays.close()
    _, counter = arrays.graph.counter()
    return array.at((counter, np.int64(0))) is x.at((counter,))


# --- text -------------------------------------------------------------------------------------------------------------


def printed(source: LoopSource, diagnosing: bool = False) -> compiling.Program:
    """The functions begin, look, run and, where the method has them, starting."""
    functions = [
        mapped("begin", source.begun, FRAME, ROWS),
        mapped("look", source.see, FRAME, ROWS),
        _Advance("run", source, source.stepped, source.ok, diagnosing).function(),
    ]
    if source.starting is not None:
        functions.append(_Advance("starting", source, *source.starting, diagnosing).function())
    operations = max(function.operations for function in functions)
    return compiling.Program(rows.module(functions), [f.name for f in functions], operations, source.operations())


class _Advance:
    """The steps of all vectors of paths, one after another."""

    def __init__(self, name: str, source: LoopSource, program: Program, ok: Entry, diagnosing: bool):
        self.w = Function(name, WIDTH, FRAME)
        self.source, self.program, self.ok, self.diagnosing = source, program, ok, diagnosing
        self.place: dict[str, str] = {}
        self.entries = len(source.layout.dtypes)

    def function(self) -> Function:
        w = self.w
        names = ["now", "then", "scratch", *(f"normals {k}" for k in range(len(self.source.traced.streams)))]
        bases: dict[str, Callable[[], str]] = {name: functools.partial(self.place.__getitem__, name) for name in names}
        self.memory = memory = Memory(w, ("own_params",), bases)
        self.printer = LoopPrinter(w, self.program, self.input_value, memory)
        w.operations = self.program.operations
        states = w.address("scratch")
        size = 8 * WIDTH
        one, other = states, w.at(states, self.entries, size)
        self.place["scratch"] = w.at(states, 2 * self.entries, size)
        with w.counted(w.count("first_lane"), w.count("last_lane"), WIDTH) as lane, self.printer.scope():
            memory.lane = self.place["lane"] = lane
            self.copy(lane, one, inwards=True)
            self.printer.before_steps()
            before, head, end = w.block, w.fresh("step"), w.fresh("done")
            i, q, now, then = (f"%{w.fresh(word)}" for word in ("i", "q", "now", "then"))
            w.jump(head)
            w.open(head)
            phis = len(w.lines)
            w.lines += [""] * 4
            self.place |= {"step": i, "now": now, "then": then}
            in_slab = w.whole("srem", i, w.count("slab"))
            self.draw(lane, i, in_slab)
            with self.printer.scope():
                self.printer.step()
                following = w.value(f"add nsw i64 {i}, 1")
                if self.diagnosing:
                    self.diagnose(self.printer.read(self.ok), then, following, lane)
            q_after = self.save(lane, then, following, q)
            goes_on = w.value(f"icmp slt i64 {following}, {w.count('steps')}")
            w.carry(phis, before, (
                (i, "i64", "0", following), (q, "i64", "0", q_after), (now, "ptr", one, then), (then, "ptr", other, now)
            ))  # fmt: skip
            w.branch(goes_on, head, end)
            w.open(end)
            self.copy(lane, then, inwards=False)
        return w

    def input_value(self, node: Node) -> str:
        w, (name, _) = self.w, node.attr
        if name == "k":
            return w.value(f"trunc i64 {w.whole('add', self.place['step'], w.count('first_step'))} to i32")
        step = 0 if name == "h" and self.source.equal_steps else self.place["step"]
        return w.load_row(w.at(w.address(name), step, 8), node.dtype, False)

    def copy(self, lane: str, local: str, inwards: bool) -> None:
        """The state between its rows and the memory that the steps work on."""
        w = self.w
        with w.counted(0, self.entries) as k:
            row = w.at(w.at(w.address("state"), w.whole("mul", self.memory.stride, k)), lane, 8)
            here = w.value(f"getelementptr [{WIDTH} x double], ptr {local}, i64 {k}")
            source, target = (row, here) if inwards else (here, row)
            w.store(w.load(source, w.type("int64")), target, w.type("int64"))

    def draw(self, lane: str, step: str, in_slab: str) -> None:
        """The normals of a slab of steps, before its first: of each stream [step][channel][8]."""
        w, drawing, on, first = self.w, self.w.fresh("draw"), self.w.fresh("drawn"), 0
        bases = []
        for _, count in self.source.traced.streams:
            bases.append(w.at(w.address("normals"), w.whole("mul", w.count("slab"), first), 8 * GROUP))
            first += count
        w.branch(w.value(f"icmp eq i64 {in_slab}, 0"), drawing, on)
        w.open(drawing)
        left = w.whole("sub", w.count("steps"), step)
        steps = w.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {w.count('slab')})")
        group = w.whole("sdiv", lane, GROUP)
        for number, ((_, count), out) in enumerate(zip(self.source.traced.streams, bases, strict=True)):
            place = w.whole("add", group, w.whole("mul", w.count("groups"), number))
            generators = w.at(w.address("generators"), place, GENERATORS)
            total = w.whole("mul", steps, count)
            w.emit(f"call void {w.address('fill')}(ptr {generators}, ptr {out}, i64 {total}, i64 {GROUP})")
        w.jump(on)
        w.open(on)
        for number, ((_, count), base) in enumerate(zip(self.source.traced.streams, bases, strict=True)):
            self.place[f"normals {number}"] = w.at(base, w.whole("mul", in_slab, count), 8 * GROUP)

    def save(self, lane: str, then: str, following: str, q: str) -> str:
        """Write the rows seen after a step that is listed in `saves`; returns the number of the next save."""
        w, source = self.w, self.source
        saving, on = w.fresh("save"), w.fresh("on")
        due = w.load(w.at(w.address("saves"), q, 8), "i64")
        reached = w.block
        w.branch(w.value(f"icmp eq i64 {following}, {due}"), saving, on)
        w.open(saving)
        first = w.whole("mul", w.whole("mul", q, len(source.saved)), self.memory.stride)
        rows = w.at(w.address("seen"), first)
        behind = w.at(self.place["scratch"], self.program.scratch, 8 * WIDTH)
        bases: dict[str, Callable[[], str]] = {
            "state": lambda: then, "seen": lambda: rows, "scratch": lambda: behind
        }  # fmt: skip
        memory = Memory(w, ("seen", "own_params"), bases)
        memory.lane = lane

        def input_value(node: Node) -> str:
            return w.load_row(w.at(w.address("t"), following, 8), node.dtype, False)

        printer = LoopPrinter(w, source.see, input_value, memory)
        printer.before_steps()
        printer.step()
        next_q = w.value(f"add nsw i64 {q}, 1")
        saved = w.block
        w.jump(on)
        w.open(on)
        return w.value(f"phi i64 [ {q}, %{reached} ], [ {next_q}, %{saved} ]")

    def diagnose(self, ok: str, then: str, following: str, lane: str) -> None:
        """The step after which the state of a path was first not finite, and whether its solve failed there."""
        w, layout = self.w, self.source.layout
        mask, word, vector = w.type("bool"), w.type("int64"), w.type("float64")
        w.head.append(f"  %unsound = alloca {vector}, align 64")
        w.store("zeroinitializer", "%unsound", vector)
        first = 0
        for shape, dtype in list(zip(layout.shapes, layout.leaf_dtypes, strict=True))[: layout.method]:
            size = int(np.prod(shape))
            if dtype.kind == "f":
                with w.counted(first, first + size) as k:
                    x = w.load(w.value(f"getelementptr [{WIDTH} x double], ptr {then}, i64 {k}"), vector)
                    apart = w.value(f"fsub {vector} {x}, {x}")
                    w.store(w.value(f"fadd {vector} {w.load('%unsound', vector)}, {apart}"), "%unsound", vector)
            first += size
        sound = w.value(f"fcmp oeq {vector} {w.load('%unsound', vector)}, zeroinitializer")
        failed, unsolved = (w.at(w.address(name), lane, 8) for name in ("failed", "unsolved"))
        old = w.load(failed, word)
        unknown = w.value(f"icmp slt {word} {old}, zeroinitializer")
        fresh = w.value(f"and {mask} {unknown}, {w.value(f'xor {mask} {sound}, splat (i1 true)')}")
        number = self.printer.spread(following, "int64")
        w.store(w.value(f"select {mask} {fresh}, {word} {number}, {word} {old}"), failed, word)
        not_ok = w.value(f"zext {mask} {w.value(f'xor {mask} {ok}, splat (i1 true)')} to {word}")
        w.store(w.value(f"select {mask} {fresh}, {word} {not_ok}, {word} {w.load(unsolved, word)}"), unsolved, word)
