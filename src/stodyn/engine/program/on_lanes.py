"""Printed steps on a processor: a few paths at a time, their lanes side by side in vectors.

Normals lie in the nearest cache, those of a slab of steps at a time, of each stream [group][step][channel][8]. Scalars
take all vectors of a chunk of paths through a slab before they go on; loops take a vector through all steps of a call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from stodyn.engine.program.as_scalars import ScalarForm, Scalars
from stodyn.engine.program.source import Source, Step
from stodyn.engine.program.steps import Call, Carried, Form, Target, over_steps
from stodyn.noise import path_normals
from stodyn.numerics.printing import compiling, rows
from stodyn.numerics.printing.loops import LoopPrinter, Memory, Program
from stodyn.numerics.printing.nodes import Node
from stodyn.numerics.printing.rows import Function

GROUP = path_normals.LANES  # paths whose generators lie side by side
GENERATORS = 8 * 4 * GROUP  # bytes of them
FRAME = (
    "start", "state", "own_params", "common_params", "t", "h", "steps", "first_step", "saves", "seen", "stride",
    "first_lane", "last_lane", "normals", "slab", "generators", "groups", "fill", "failed", "causes", "scratch",
    "tables",
)  # fmt: skip


def printed(source: Source, width: int, diagnosing: bool = False) -> compiling.Program:
    """The functions begin, look, run and, where the method has them, starting.

    Diagnosing ones write down when each path failed, and why.
    """
    functions = [source.mapped(name, width, FRAME) for name in ("begin", "look")]
    functions += [Lanes(name, width, source).advanced(step, diagnosing) for name, step in source.steps.items()]
    operations = max(function.operations for function in functions)
    return compiling.Program(rows.module(functions), [f.name for f in functions], operations, source.operations())


class Lanes(Target):
    """A vector of paths; a chunk is a whole number of vectors and of groups of generators."""

    in_place = True

    def __init__(self, name: str, width: int, source: Source):
        super().__init__(source, Function(name, width, FRAME))
        self.width, self.chunk, here = width, max(width, GROUP), compiling.processor()
        self.room = (24 if here.registers >= 32 else 10) / max(width // here.register, 1)
        self.stride = self.w.whole("mul", self.w.count("stride"), 8)
        self.first = self.part = self.in_slab = ""  # of the slab, of the vector in its chunk, of the step in its slab

    def advanced(self, step: Step, diagnosing: bool) -> Function:
        parts = step.program, step.cause if diagnosing else None
        if isinstance(self.source, Scalars):
            self._slab_by_slab(self.source.form(self, *parts))
        else:
            with self._lanes(self.width):
                over_steps(self.source.form(self, *parts), Call("0", self.w.count("steps")))
        return self.w

    @contextlib.contextmanager
    def _lanes(self, apart: int) -> Iterator[None]:
        with self.w.counted(self.w.count("first_lane"), self.w.count("last_lane"), apart) as self.lane:
            yield

    def _slab_by_slab(self, form: ScalarForm) -> None:
        """for each chunk of paths: for each slab of steps: draw its normals; for each vector of paths: its steps."""
        w = self.w
        form.hoist(lane=False)
        self._mark(form)
        w.head.append("  %next_save = alloca i64, align 8")
        with self._lanes(self.chunk):
            chunk = self.lane
            w.store("0", "%next_save", "i64")
            with w.counted(0, w.count("steps"), w.count("slab")) as self.first:
                steps = self._draw(chunk, self.first)
                end, save = w.whole("add", self.first, steps), w.load("%next_save", "i64")
                with w.counted(0, self._lanes_left(chunk), self.width) as self.part, form.printer.scope():
                    self.lane = w.whole("add", chunk, self.part)
                    w.store(over_steps(form, Call(self.first, end, save)), "%next_save", "i64")

    def _mark(self, form: ScalarForm) -> None:
        """Note after which steps all paths act together: that is known before the first, and reals that each step
        computed for it would cost it time."""
        if form.acts_together:
            w = self.w
            with w.counted(0, w.count("steps")) as form.number, form.printer.scope():
                w.store(w.value(f"zext i1 {form.acts()} to i8"), self._marked(form.number), "i8", align=1)

    def _marked(self, step: str) -> str:
        return self.w.at(self.w.address("scratch"), step)

    def acts(self, form: Form) -> str:
        return self.w.value(f"icmp ne i8 {self.w.load(self._marked(form.number), 'i8', align=1)}, 0")

    def _lanes_left(self, lane: str) -> str | int:
        """How many lanes of the chunk that begins at `lane` are computed: the last one may hold few paths."""
        if self.chunk == self.width:
            return self.chunk
        left = self.w.whole("sub", self.w.count("last_lane"), lane)
        return self.w.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {self.chunk})")

    def row(self, array: str, k: int | str) -> str:
        w = self.w
        return w.at(w.at(w.address(array), w.whole("mul", self.stride, k)), self.lane, 8)

    def number_of(self, step: str) -> str:
        return self.w.whole("add", step, self.w.count("first_step"))

    def fail(self, sound: str, cause: str, following: str) -> None:
        w = self.w
        mask, word = w.type("bool"), w.type("int64")
        failed, causes = (w.at(w.address(name), self.lane, 8) for name in ("failed", "causes"))
        old = w.load(failed, word)
        unknown = w.value(f"icmp slt {word} {old}, zeroinitializer")
        fresh = w.value(f"and {mask} {unknown}, {w.value(f'xor {mask} {sound}, splat (i1 true)')}")
        w.store(w.value(f"select {mask} {fresh}, {word} {w.spread(following, 'int64')}, {word} {old}"), failed, word)
        w.store(w.value(f"select {mask} {fresh}, {word} {cause}, {word} {w.load(causes, word)}"), causes, word)

    # --- normals ------------------------------------------------------------------------------------------------------

    def _stream_at(self, stream: int) -> str:
        """The address of the slab of a stream."""
        before = sum(count for _, count in self.source.traced.streams[:stream]) * self.chunk * 8
        return self.w.at(self.w.address("normals"), self.w.whole("mul", self.w.count("slab"), before))

    def _draw(self, lane: str, first: str) -> str:
        """Draw the normals of a slab from its first step on; returns how many steps it has."""
        w = self.w
        left = w.whole("sub", w.count("steps"), first)
        steps = w.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {w.count('slab')})")
        group = w.whole("sdiv", lane, GROUP)
        for stream, (_, count) in enumerate(self.source.traced.streams):
            slab, own = self._stream_at(stream), w.whole("add", group, w.whole("mul", w.count("groups"), stream))
            total, apart = w.whole("mul", steps, count), w.whole("mul", w.count("slab"), count * GROUP * 8)
            for k in range(self.chunk // GROUP):
                generators = w.at(w.address("generators"), w.whole("add", own, k), GENERATORS)
                out = w.at(slab, w.whole("mul", apart, k))
                w.emit(f"call void {w.address('fill')}(ptr {generators}, ptr {out}, i64 {total}, i64 {GROUP})")
        return steps

    def spares(self) -> list[Carried]:
        return []

    def draw(self, step: str, spares: Sequence[str]) -> tuple[list[str], list[str]]:
        self.in_slab = self.w.whole("sub", step, self.first)
        return [], []

    def normal(self, place: int) -> str:
        w, stream = self.w, 0
        while place >= self.source.traced.streams[stream][1]:
            place -= self.source.traced.streams[stream][1]
            stream += 1
        count = self.source.traced.streams[stream][1]
        row = w.whole("add", w.whole("mul", self.in_slab, count), place)
        address = w.at(self._stream_at(stream), row, GROUP * 8)
        if self.width <= GROUP:
            return w.load(w.at(address, self.part, 8), w.type("float64"))
        apart = w.whole("mul", w.count("slab"), count * GROUP * 8)
        parts = [
            w.load(w.at(address, w.whole("mul", apart, k)), f"<{GROUP} x double>") for k in range(self.width // GROUP)
        ]
        size = GROUP
        while len(parts) > 1:
            order = ", ".join(f"i32 {k}" for k in range(2 * size))
            half, both = f"<{size} x double>", f"<{2 * size} x i32> <{order}>"
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [w.value(f"shufflevector {half} {a}, {half} {b}, {both}") for a, b in pairs]
            size *= 2
        return parts[0]

    def normals_in_memory(self, step: str) -> dict[str, str]:
        """Where the normals of a step lie in memory: those of a slab are drawn before its first step."""
        w, drawing, on = self.w, self.w.fresh("draw"), self.w.fresh("drawn")
        in_slab = w.whole("srem", step, w.count("slab"))
        w.branch(w.value(f"icmp eq i64 {in_slab}, 0"), drawing, on)
        w.open(drawing)
        self._draw(self.lane, step)
        w.jump(on)
        w.open(on)
        streams = enumerate(self.source.traced.streams)
        return {f"normals {k}": w.at(self._stream_at(k), w.whole("mul", in_slab, count), 8 * GROUP)
                for k, (_, count) in streams}  # fmt: skip

    # --- saves --------------------------------------------------------------------------------------------------------

    def _save_at(self, slot: str) -> str:
        w = self.w
        first = w.whole("mul", w.whole("mul", slot, len(self.source.saved_dtypes)), self.stride)
        return w.at(w.address("seen"), first)

    def save(self, values: Iterable[str], slot: str) -> None:
        w, base = self.w, self._save_at(slot)
        for k, (x, dtype) in enumerate(zip(values, self.source.saved_dtypes, strict=True)):
            w.store_row(x, w.at(w.at(base, w.whole("mul", self.stride, k)), self.lane, 8), dtype)

    @contextlib.contextmanager
    def rows_of_save(self, slot: str) -> Iterator[str]:
        yield self._save_at(slot)

    # --- states in memory ---------------------------------------------------------------------------------------------

    def states(self) -> list[str]:
        begun = self.w.address("scratch")
        self._copy(begun, inwards=True)
        return [begun, self._entries_behind(begun, len(self.source.layout.dtypes))]

    def take_back(self, state: str) -> None:
        self._copy(state, inwards=False)

    def _copy(self, local: str, inwards: bool) -> None:
        """Copy the state between its rows and the memory that the steps work on."""
        w, word = self.w, self.w.type("int64")
        with w.counted(0, len(self.source.layout.dtypes)) as k:
            row, here = self.row("state", k), self.entry(local, k)
            source, target = (row, here) if inwards else (here, row)
            w.store(w.load(source, word), target, word)

    def _entries_behind(self, base: str, count: int) -> str:
        return self.w.at(base, count, 8 * self.width)

    def scratch(self, behind: Program | None = None) -> str:
        count = 2 * len(self.source.layout.dtypes) + (0 if behind is None else behind.scratch)
        return self._entries_behind(self.w.address("scratch"), count)

    def printer(self, program: Program, inputs: Callable[[Node], str], bases: dict[str, str]) -> LoopPrinter:
        return LoopPrinter(self.w, program, inputs, Memory(self.w, ("seen", "own_params"), bases, self.lane))

    def entry(self, base: str, k: str) -> str:
        return self.w.value(f"getelementptr [{self.width} x double], ptr {base}, i64 {k}")

    @contextlib.contextmanager
    def shared(self, first: int, last: int) -> Iterator[str]:
        with self.w.counted(first, last) as k:
            yield k
