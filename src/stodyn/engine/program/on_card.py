"""Printed steps on a GPU: the path is the fastest index, so that neighbouring threads read neighbouring numbers.

Of scalars one thread takes one path, makes its normals by counter and keeps its state in registers. Of loops the
threads of a block take some paths, and of each loop entries at a fixed distance,

    thread (path p, share s):   for each loop of the step:  for (i = s; i < n; i += shares): entry i of path p;  barrier

so that few paths of a large system keep a card busy too; the normals of a step are written to rows before it. At a save
a kernel leaves sums over the paths of a block for statistics that average, and rows for those that look at all paths.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from stodyn.engine.program.as_loops import Loops
from stodyn.engine.program.kernel import (
    ALONE,
    GROUP,
    JOINING,
    Kernel,
    LaunchResults,
    joined,
    module,
    normal_pair,
    normal_pair_function,
)
from stodyn.engine.program.source import Source, Step
from stodyn.engine.program.steps import Call, Carried, Form, Target, finite, over_steps
from stodyn.numerics.printing.arrays import Buffer, Loop
from stodyn.numerics.printing.loops import LoopPrinter, Program, plus, stored
from stodyn.numerics.printing.nodes import Node
from stodyn.numerics.printing.rows import Function

CROWDED = ((250, 8), (1000, 6), (np.inf, 4))  # operations up to which so many blocks should run together on a processor
REGISTERS, OWN = 512, 40  # of a thread while one block runs there, and those it needs besides its state
UNROLLED = 8  # pairs of normals of a step that are written one by one; more are drawn in a loop
THREADS, MANY_THREADS, FEW = 512, 1024, 150  # sharing loops, and those of a step of few operations, with few registers
MOST_PATHS, FEWEST_PATHS = 8, 4  # of a block whose threads share loops: memory is read by fours at least
BLOCKS = 128  # that keep a card busy
NOBODY = -1  # the number of no loop


def blocks_together(operations: int, numbers: int) -> int:
    """How many blocks of paths should run at a time on one processor of a card, for a step of that many operations on a
    state of that many numbers: as many as hide the time that an instruction takes, and leave registers for the state.
    """
    wanted = next(blocks for most, blocks in CROWDED if operations <= most)
    return max(min(wanted, REGISTERS // (2 * numbers + OWN)), 2)


def threads_of_a_block(source: Source, group: int = GROUP) -> int:
    """Threads of a block of paths, on a card whose blocks have `group` threads where each takes a path."""
    if not isinstance(source, Loops) or group == ALONE:
        return group
    return MANY_THREADS if source.stepped.program.operations <= FEW else THREADS


def paths_of_a_block(source: Source, group: int, lanes: int) -> int:
    """Paths of a block of threads: a power of two where they share loops."""
    if not isinstance(source, Loops) or group == ALONE:
        return group
    paths = MOST_PATHS
    while paths > FEWEST_PATHS and lanes // paths < BLOCKS:
        paths //= 2
    return paths


def names(source: Source, results: LaunchResults, diagnosing: bool = False) -> list[str]:
    """The kernels of a program."""
    first = [] if diagnosing else ["begin", *(f"join{k}" for k in results.summed)]
    return [*first, *source.steps]


def text(source: Source, results: LaunchResults, diagnosing: bool = False, group: int = GROUP,
         joining: int = JOINING) -> str:  # fmt: skip
    """The kernels begin, run, starting (where the method has it) and join<k> of each summed statistic, as LLVM text."""
    functions: list[Function] = []
    if not diagnosing:
        functions.append(Thread("begin", source, results, group).begun())
        functions += [joined(f"join{k}", results, k, joining) for k in results.summed]
    functions += [
        Thread(name, source, results, group).advanced(step, diagnosing) for name, step in source.steps.items()
    ]
    return "\n".join([normal_pair_function(), module(functions, results.most)])


class Thread(Target):
    """A thread, its path, and its share of the entries.

    speaks  whether it is the one that speaks for its path
    """

    in_place, room = False, np.inf
    w: Kernel

    def __init__(self, name: str, source: Source, results: LaunchResults, group: int):
        threads = threads_of_a_block(source, group)
        super().__init__(source, Kernel(name, threads, results.most))
        self.launch, self.is_sharing, w = results, isinstance(source, Loops), self.w
        self.stride = w.whole("mul", w.count("stride"), 8)
        if self.is_sharing:
            shift = w.count("shift")
            inside = w.whole("sub", w.whole("shl", 1, shift), 1)
            self.lane = w.whole("add", w.whole("shl", w.block_number, shift), w.whole("and", w.tid, inside))
            self.share, self.shares = w.whole("lshr", w.tid, shift), w.whole("lshr", threads, shift)
            self.short_stride = w.value(f"trunc i64 {self.stride} to i32")
        else:
            self.lane = w.whole("add", w.whole("mul", w.block_number, group), w.tid)
        self.is_path = w.value(f"icmp slt i64 {self.lane}, {w.count('paths')}")
        self.is_first = w.value(f"icmp eq i64 {self.share}, 0") if self.is_sharing else "true"

    def begun(self) -> Function:
        form = self.source.form(self, self.source.begun)
        form.begin()
        form.see("0", "0")
        form.end()
        self._flag(form)
        return self.w

    def advanced(self, step: Step, diagnosing: bool) -> Function:
        w = self.w
        self.path = w.whole("add", w.count("first_path"), self.lane)
        form = self.source.form(self, step.program, step.cause if diagnosing else None)
        if not self.is_sharing:
            w.blocks_at_once = blocks_together(w.operations, len(self.source.layout.dtypes))
        over_steps(form, Call(w.count("first"), w.count("last"), listed="first_save"))
        self._flag(form)
        return w

    def _flag(self, form: Form) -> None:
        """Leave a flag where a path has gone bad, and how many steps ended at rounding so far."""
        w = self.w
        bad = w.value(f"and i1 {self.is_path}, {w.value(f'xor i1 {form.sound()}, true')}")
        w.when(bad, lambda: w.store("1", w.address("flag"), "i64"))
        if self.source.layout.rounded:
            count = form.rounded()
            some = w.value(f"and i1 {self.is_path}, {w.value(f'icmp sgt i64 {count}, 0')}")
            some = w.value(f"and i1 {some}, {self.is_first}")
            w.when(some, lambda: w.emit(f"atomicrmw add ptr {w.address('rounded')}, i64 {count} monotonic"))

    def row(self, array: str, k: int | str) -> str:
        w = self.w
        if array == "start":
            row = w.at(w.address(array), w.whole("mul", w.count("start_row"), k))
            return w.at(row, w.whole("mul", w.count("start_lane"), self.lane))
        return w.at(w.at(w.address(array), w.whole("mul", self.stride, k)), self.lane, 8)

    def number_of(self, step: str) -> str:
        return step

    def fail(self, sound: str, cause: str, following: str) -> None:
        """Threads that share a path and find it unsound at the same step write the same."""
        w = self.w
        failed, causes = (w.at(w.address(name), self.lane, 8) for name in ("failed", "causes"))
        known = w.load(failed, "i64")
        is_unknown, is_here = w.value(f"icmp slt i64 {known}, 0"), w.value(f"icmp eq i64 {known}, {following}")
        is_fresh = w.value(f"or i1 {is_unknown}, {is_here}")
        is_fresh = w.value(f"and i1 {is_fresh}, {w.value(f'xor i1 {sound}, true')}")

        def write() -> None:
            w.store(following, failed, "i64")
            w.store(cause, causes, "i64")

        w.when(is_fresh, write)
        self.barrier()

    def barrier(self) -> None:
        if self.is_sharing and self.w.threads != ALONE:
            self.w.barrier()

    # --- normals ------------------------------------------------------------------------------------------------------

    def _pair(self, stream: str, number: str) -> tuple[str, str]:
        return normal_pair(self.w, stream, self.path, number)

    def spares(self) -> list[Carried]:
        """What an odd first step takes from the pair before it, for each stream with an odd number of normals."""
        w, spares = self.w, []
        for number, (stream, count) in enumerate(self.source.traced.streams):
            if count % 2:
                offset, slot = w.whole("mul", w.count("first"), count), f"%spare_of_{number}"
                w.head.append(f"  {slot} = alloca double, align 8")
                w.store("0.0", slot, "double")

                def keep(stream: str = stream, offset: str = offset, slot: str = slot) -> None:
                    w.store(self._pair(stream, w.whole("lshr", offset, 1))[1], slot, "double")

                w.when(w.value(f"trunc i64 {offset} to i1"), keep)
                spares.append(Carried("spare", "double", w.load(slot, "double")))
        return spares

    def draw(self, step: str, spares: Sequence[str]) -> tuple[list[str], list[str]]:
        """Normal k of a step is number step·count + k of its stream; numbers 2j and 2j + 1 are pair j. Before an odd
        step of an odd stream one normal is left over, so that its other pairs begin one number later."""
        w, normals, left, old = self.w, [], [], iter(spares)
        for stream, count in self.source.traced.streams:
            offset = w.whole("mul", step, count)
            base = w.whole("lshr", w.whole("add", offset, 1), 1)
            common = self._pairs(stream, base, count // 2)
            if count % 2:
                is_odd = w.value(f"trunc i64 {offset} to i1")
                last, spare = self._pair_unless(is_odd, next(old), stream, w.whole("add", base, count // 2))
                left.append(spare)
                late = [last, *common]
                common = [
                    w.value(f"select i1 {is_odd}, double {a}, double {b}")
                    for a, b in zip(late, [*common, last], strict=True)
                ]
            normals += common
        return normals, left

    def _pair_unless(self, is_odd: str, old: str, stream: str, number: str) -> tuple[str, str]:
        """A new pair of normals; where a step is odd, twice the one that is left over."""
        w = self.w
        inside, end, before = w.fresh("pair"), w.fresh("end"), w.block
        w.branch(is_odd, end, inside)
        w.open(inside)
        pair = self._pair(stream, number)
        reached = w.block
        w.jump(end)
        w.open(end)
        first, second = (w.value(f"phi double [ {old}, %{before} ], [ {z}, %{reached} ]") for z in pair)
        return first, second

    def _pairs(self, stream: str, base: str, count: int) -> list[str]:
        """2 count normals, from pair number `base` on."""
        w = self.w
        if count <= UNROLLED:
            return [z for k in range(count) for z in self._pair(stream, w.whole("add", base, k))]
        array = f"%{w.fresh('normals')}"
        w.head.append(f"  {array} = alloca [{2 * count} x double], align 8")
        with w.counted(0, count) as k:
            for half, z in enumerate(self._pair(stream, w.whole("add", base, k))):
                w.store(z, w.at(array, w.whole("add", w.whole("mul", k, 2), half), 8), "double")
        return [w.load(w.at(array, k, 8), "double") for k in range(2 * count)]

    def normal(self, place: int) -> str:
        raise AssertionError("all normals of a step are drawn before it")

    def normals_in_memory(self, step: str) -> dict[str, str]:
        """They are written in pairs, as `draw` counts them, so that a step may begin with the second of a pair."""
        w, first, bases = self.w, 0, {}
        for number, (stream, count) in enumerate(self.source.traced.streams):
            offset = w.whole("mul", step, count)
            pair, late = w.whole("lshr", offset, 1), w.whole("and", offset, 1)
            begin = self.entry(self.row("normals", 0), str(first))
            with w.counted(self.share, pairs_of(count), self.shares) as k:
                for half, z in enumerate(self._pair(stream, w.whole("add", pair, k))):
                    w.store(z, self.entry(begin, w.whole("add", w.whole("shl", k, 1), half)), "double")
            bases[f"normals {number}"] = self.entry(begin, late)
            first += 2 * pairs_of(count)
        self.barrier()
        return bases

    # --- saves --------------------------------------------------------------------------------------------------------

    def save(self, values: Iterable[str], slot: str) -> None:
        w, source, results = self.w, self.source, self.launch
        numbers = list(zip(values, source.saved_dtypes, strict=True))
        sound = finite(w, numbers[: source.n], self.is_path)
        if results.rows:
            base = w.whole("mul", slot, results.rows)
            for k, (x, dtype) in enumerate(numbers):
                w.store_row(x, self.row("seen", w.whole("add", base, k)), dtype)
            one = w.value(f"select i1 {sound}, double 1.0, double 0.0")
            w.store(one, self.row("seen", w.whole("add", base, results.rows - 1)), "double")
        for k, summed in results.summed.items():
            counted = self.is_path if k in results.counting_failed else sound
            self._sum(k, [self._real(*numbers[i]) for i in summed], counted, slot)

    def _real(self, x: str, dtype: np.dtype) -> str:
        w = self.w
        if dtype == np.float64:
            return x
        if dtype.kind == "f":
            return w.value(f"fpext float {x} to double")
        return w.value(f"{'sitofp' if dtype.kind == 'i' else 'uitofp'} {w.type(dtype)} {x} to double")

    def _sum(self, k: int, x: list[str], sound: str, slot: str) -> None:
        w, results = self.w, self.launch
        base = w.whole("add", w.whole("mul", slot, results.values), results.places[k])

        def leave(j: str, total: str) -> None:
            row = w.whole("mul", w.whole("add", base, j), w.count("blocks"))
            w.store(total, w.at(w.address("partials"), w.whole("add", row, w.block_number), 8), "double")

        w.central(x, sound, leave)

    @contextlib.contextmanager
    def rows_of_save(self, slot: str) -> Iterator[str]:
        """The last row is 1 where a path is sound, else 0."""
        w, results = self.w, self.launch
        rows = self.row("seen", w.whole("mul", slot, results.rows))
        sound = self.entry(rows, str(results.rows - 1))
        one = w.value(f"select i1 {self.is_path}, double 1.0, double 0.0")
        w.when(self.is_first, lambda: w.store(one, sound, "double"))
        yield rows
        bad = w.value(f"xor i1 {self.are_finite(rows, [(0, self.source.n)])}, true")
        w.when(bad, lambda: w.store("0.0", sound, "double"))

    # --- states in memory ---------------------------------------------------------------------------------------------

    def states(self) -> list[str]:
        return [self.row(name, 0) for name in ("state", "one", "other")]

    def take_back(self, state: str) -> None:
        """The last of the steps has written to where it belongs."""

    def scratch(self, behind: Program | None = None) -> str:
        first = self.row("entries", 0)
        return first if behind is None else self.entry(first, str(rows_of(behind)[1]))

    def printer(self, program: Program, inputs: Callable[[Node], str], bases: dict[str, str]) -> LoopPrinter:
        bases["own_params"] = self.row("own_params", 0)
        return _SharedLoops(self, program, inputs, _Rows(self, program, bases))

    def entry(self, base: str, k: str) -> str:
        """The place of entry k behind a base, by one product of words of 32 bits."""
        w = self.w
        short = k if k.isdigit() else w.value(f"trunc i64 {k} to i32")
        wide = [w.value(f"zext i32 {word} to i64") for word in (short, self.short_stride)]
        return w.at(base, w.whole("mul", *wide))

    @contextlib.contextmanager
    def shared(self, first: int, last: int) -> Iterator[str]:
        w = self.w
        with w.counted(w.whole("add", self.share, first), last, self.shares) as k:
            yield k


class _SharedLoops(LoopPrinter):
    """Prints loops of which each thread takes its share, with a barrier behind each; one that is written out is the
    first thread's of a path."""

    def __init__(self, thread: Thread, program: Program, inputs: Callable[[Node], str], rows: _Rows):
        super().__init__(thread.w, program, inputs, rows)  # type: ignore[arg-type]
        self.thread, self._shared = thread, NOBODY

    def _loop(self, loop: Loop) -> None:
        """The threads share the longest of its counters."""
        if loop.counters:
            _, self._shared = max((length, number) for number, _, length in loop.counters)
            super()._loop(loop)
            self._shared = NOBODY
        else:
            self._alone(lambda: super(_SharedLoops, self)._loop(loop))
        self.thread.barrier()

    def _alone(self, what: Callable[[], None]) -> None:
        with self.scope():
            self.thread.w.when(self.thread.is_first, what)

    @contextlib.contextmanager
    def _counting(self, number: int, counter: Node, length: int) -> Iterator[None]:
        first, step = (self.thread.share, self.thread.shares) if number == self._shared else ("0", "1")
        with self.w.counted(first, length, step) as i, self.scope():
            self.name(counter, i)
            self._opened.add(number)
            yield
            self._opened.remove(number)


class _Rows:
    """Where the buffers of a program stand; bases: the addresses of this path's numbers in row 0."""

    def __init__(self, thread: Thread, program: Program, bases: dict[str, str]):
        self.thread, self.w, self.bases, self.places = thread, thread.w, bases, rows_of(program)[0]

    def address(self, buffer: Buffer, place: str) -> str:
        w, name = self.w, buffer.name
        if name == "scratch":
            inside = buffer.first if buffer.within is not None else 0
            return self.thread.entry(self.bases[name], plus(w, place, self.places[id(buffer.whole)] + inside))
        number = plus(w, place, buffer.begin)
        if name in self.bases and buffer.lane:
            return self.thread.entry(self.bases[name], number)
        if buffer.lane:
            return self.thread.row(name, number)
        return w.at(w.address("tables" if name == "table" else name), number, 8)

    def load(self, buffer: Buffer, place: str) -> str:
        return self.w.load_row(self.address(buffer, place), buffer.dtype)

    gather = load  # a thread has one path

    def store(self, buffer: Buffer, place: str, x: str) -> None:
        self.w.store_row(x, self.address(buffer, place), buffer.dtype)


def rows_of(program: Program) -> tuple[dict[int, int], int]:
    """The first row of each buffer of the scratch, and how many rows there are; every path has its own numbers of all,
    since blocks of threads are not at the same step."""
    places: dict[int, int] = {}
    rows = 0
    for buffer in stored([*program.fixed, *program.items]):
        if buffer.name == "scratch" and id(buffer) not in places:
            places[id(buffer)] = rows
            rows += buffer.size
    return places, rows


def rows_of_scratch(source: Loops) -> int:
    """Rows that the loops need besides the state: the rows of a save lie behind those of the step."""
    programs = [source.begun, *(step.program for step in source.steps.values())]
    return max(rows_of(program)[1] for program in programs) + rows_of(source.see)[1]


def pairs_of(count: int) -> int:
    """Pairs of normals that hold `count` of them, wherever they begin."""
    return count // 2 + 1


def rows_of_normals(streams: Sequence[tuple[str, int]]) -> int:
    """Rows that the normals of a step take."""
    return sum(2 * pairs_of(count) for _, count in streams)
