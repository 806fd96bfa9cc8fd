"""A method's step on a large system as kernels of a GPU: the loops of engine/looped.py, the path as the fastest index.

Entry k of an array is row k over the paths, so that neighbouring threads read neighbouring numbers. The threads
of a block take some paths, and of each loop entries at a fixed distance,

    thread (path p, share s):   for each loop of the step:  for (i = s; i < n; i += shares): entry i of path p;  barrier

so that few paths of a large system keep a card busy too. The normals of a step are written to rows before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from stodyn.engine.kernel import ALONE, Kernel, LaunchResults, module, normal_pair, normal_pair_function
from stodyn.engine.looped import LoopSource
from stodyn.engine.stepping import past_a_save
from stodyn.numerics.printing.arrays import Buffer, Loop
from stodyn.numerics.printing.loops import LoopPrinter, Program, plus, stored
from stodyn.numerics.printing.nodes import Entry, Node
from stodyn.numerics.printing.rows import Function

THREADS, MANY_THREADS, FEW = 512, 1024, 150  # of a block, and of one whose step has few operations, with few registers
MOST_PATHS, FEWEST_PATHS = 8, 4  # of a block: memory is read by fours at least
BLOCKS = 128  # that keep a card busy
NOBODY = -1  # the number of no loop


def threads_of_a_block(source: LoopSource) -> int:
    return MANY_THREADS if source.stepped.operations <= FEW else THREADS


def paths_of_a_block(lanes: int) -> int:
    """The number of paths of a block, a power of two."""
    paths = MOST_PATHS
    while paths > FEWEST_PATHS and lanes // paths < BLOCKS:
        paths //= 2
    return paths


def names(source: LoopSource) -> list[str]:
    return ["begin", "run", *(["starting"] if source.starting is not None else [])]


def text(source: LoopSource, results: LaunchResults, diagnosing: bool, threads: int) -> str:
    """The kernels begin, run and, where the method has it, starting, as LLVM text."""
    functions: list[Function] = [
        _Begin("begin", source, results, threads).function(),
        _Advance("run", source, results, source.stepped, source.ok, diagnosing, threads).function(),
    ]
    if source.starting is not None:
        functions.append(_Advance("starting", source, results, *source.starting, diagnosing, threads).function())
    return "\n".join([normal_pair_function(), module(functions, 1)])


class _SharedLoops(LoopPrinter):
    """Prints loops of which each thread takes its share, with a barrier behind each; one that is written out is the
    first thread's of a path."""

    def __init__(self, of: _OfPaths, program: Program, input_value: Callable[[Node], str], rows: _Rows):
        super().__init__(of.w, program, input_value, rows)  # type: ignore[arg-type]
        self.of, self._shared = of, NOBODY

    def _loop(self, loop: Loop) -> None:
        """The threads share the longest of its counters."""
        if loop.counters:
            _, self._shared = max((length, number) for number, _, length in loop.counters)
            super()._loop(loop)
            self._shared = NOBODY
        else:
            self._alone(lambda: super(_SharedLoops, self)._loop(loop))
        self.of.barrier()

    def _alone(self, what: Callable[[], None]) -> None:
        with self.scope():
            self.of.w.when(self.of.is_first, what)

    @contextlib.contextmanager
    def _counting(self, number: int, counter: Node, length: int) -> Iterator[None]:
        first, step = (self.of.share, self.of.shares) if number == self._shared else ("0", "1")
        with self.w.counted(first, length, step) as i, self.scope():
            self.name(counter, i)
            self._opened.add(number)
            yield
            self._opened.remove(number)


class _Rows:
    """Where the buffers of a program stand.

    bases    the addresses of this path's numbers in row 0
    strides  bytes from row to row, a word of 32 bits, of arrays that are not laid out like the state
    """

    def __init__(self, of: _OfPaths, program: Program, bases: dict[str, str], strides: dict[str, str] | None = None):
        self.of, self.w, self.bases, self.strides = of, of.w, bases, strides or {}
        self.places = _scratch(program)[0]

    def address(self, buffer: Buffer, place: str) -> str:
        w, name = self.w, buffer.name
        if name == "scratch":
            inside = buffer.first if buffer.within is not None else 0
            return self.of.row(self.bases[name], plus(w, place, self.places[id(buffer.whole)] + inside))
        number = plus(w, place, buffer.begin)
        if buffer.lane:
            return self.of.row(self.bases[name], number, self.strides.get(name))
        return w.at(w.address("tables" if name == "table" else name), number, 8)

    def load(self, buffer: Buffer, place: str) -> str:
        return self.w.load_row(self.address(buffer, place), buffer.dtype)

    gather = load  # a thread has one path

    def store(self, buffer: Buffer, place: str, x: str) -> None:
        self.w.store_row(x, self.address(buffer, place), buffer.dtype)


def _scratch(program: Program) -> tuple[dict[int, int], int]:
    """The first row of each buffer of the scratch, and how many rows there are; every path has its own numbers of all,
    since blocks of threads are not at the same step."""
    places: dict[int, int] = {}
    rows = 0
    for buffer in stored([*program.fixed, *program.items]):
        if buffer.name == "scratch" and id(buffer) not in places:
            places[id(buffer)] = rows
            rows += buffer.size
    return places, rows


def rows_of_scratch(source: LoopSource) -> int:
    """Rows that the loops need besides the state: the rows of a save lie behind those of the step."""
    programs = [source.begun, source.stepped, *([source.starting[0]] if source.starting else [])]
    return max(_scratch(program)[1] for program in programs) + _scratch(source.see)[1]


class _OfPaths:
    """The common part of kernels over the paths: the path of a thread, its share of the entries, its rows at a save."""

    def __init__(self, name: str, source: LoopSource, results: LaunchResults, threads: int):
        self.source, self.launch = source, results
        self.w = w = Kernel(name, threads, 1)
        shift = w.count("shift")
        inside = w.whole("sub", w.whole("shl", 1, shift), 1)
        self.lane = w.whole("add", w.whole("shl", w.block_number, shift), w.whole("and", w.tid, inside))
        self.share, self.shares = w.whole("lshr", w.tid, shift), w.whole("lshr", threads, shift)
        self.is_path = w.value(f"icmp slt i64 {self.lane}, {w.count('paths')}")
        self.is_first = w.value(f"icmp eq i64 {self.share}, 0")
        self.stride = w.value(f"trunc i64 {w.whole('mul', w.count('stride'), 8)} to i32")

    def barrier(self) -> None:
        if self.w.threads != ALONE:
            self.w.barrier()

    def here(self, array: str) -> str:
        """The address of this path's number in row 0 of an array."""
        return self.w.at(self.w.address(array), self.lane, 8)

    def row(self, base: str, number: str | int, stride: str | None = None) -> str:
        """The address in row `number`, by one product of words of 32 bits."""
        w = self.w
        short = str(number) if str(number).isdigit() else w.value(f"trunc i64 {number} to i32")
        wide = [w.value(f"zext i32 {word} to i64") for word in (short, stride or self.stride)]
        return w.at(base, w.whole("mul", *wide))

    def input_value(self, node: Node, step: str) -> str:
        """A number that all paths have in common at a step."""
        w, (name, _) = self.w, node.attr
        if name == "k":
            return w.value(f"trunc i64 {step} to i32")
        number = 0 if name == "h" and self.source.equal_steps else step
        return w.load_row(w.at(w.address(name), number, 8), node.dtype)

    def printed(self, program: Program, step: str, rows: _Rows) -> None:
        """A program from its beginning to its end."""
        printer = _SharedLoops(self, program, lambda node: self.input_value(node, step), rows)
        with printer.scope():
            printer.before_steps()
            printer.step()

    def see(self, state: str, step: str, slot: str | int, behind: Program) -> None:
        """The rows of a save, number `slot` of the launch; the last is 1 where a path is sound."""
        w, results = self.w, self.launch
        n = self.source.traced.start.jaxpr.invars[1].aval.shape[0]
        rows = w.at(self.here("seen"), w.whole("mul", w.whole("mul", slot, results.rows), w.count("stride")), 8)
        sound = self.row(rows, results.rows - 1)
        one = w.value(f"select i1 {self.is_path}, double 1.0, double 0.0")
        w.when(self.is_first, lambda: w.store(one, sound, "double"))
        scratch = self.row(self.here("entries"), _scratch(behind)[1])
        bases = {"state": state, "seen": rows, "scratch": scratch, "own_params": self.here("own_params")}
        self.printed(self.source.see, step, _Rows(self, self.source.see, bases))
        self.finite(rows, 0, n, lambda: w.store("0.0", sound, "double"))

    def finite(self, base: str, first: int, count: int, otherwise: Callable[[], None]) -> None:
        """Call `otherwise` where a number in this thread's share of some rows is not finite."""
        w = self.w
        apart = f"%{w.fresh('apart')}"
        w.head.append(f"  {apart} = alloca double, align 8")
        w.store("0.0", apart, "double")
        with w.counted(w.whole("add", self.share, first), first + count, self.shares) as k:
            x = w.load(self.row(base, k), "double")
            nothing = w.value(f"fsub double {x}, {x}")
            w.store(w.value(f"fadd double {w.load(apart, 'double')}, {nothing}"), apart, "double")
        w.when(w.value(f"fcmp une double {w.load(apart, 'double')}, 0.0"), otherwise)

    def reals(self) -> Iterator[tuple[int, int]]:
        """The first row and the number of rows of each array of reals in the method's state."""
        layout, first = self.source.layout, 0
        for shape, dtype in list(zip(layout.shapes, layout.leaf_dtypes, strict=True))[: layout.method]:
            size = int(np.prod(shape))
            if dtype.kind == "f":
                yield first, size
            first += size

    def leave(self, state: str) -> None:
        """A flag where a path has gone bad, and how many steps ended at rounding so far."""
        w, layout = self.w, self.source.layout

        def flag() -> None:
            w.when(self.is_path, lambda: w.store("1", w.address("flag"), "i64"))

        for first, size in self.reals():
            self.finite(state, first, size, flag)
        if layout.rounded:
            count = w.load(self.row(state, len(layout.dtypes) - 1), "i64")
            some = w.value(f"and i1 {self.is_path}, {w.value(f'icmp sgt i64 {count}, 0')}")
            some = w.value(f"and i1 {some}, {self.is_first}")
            w.when(some, lambda: w.emit(f"atomicrmw add ptr {w.address('rounded')}, i64 {count} monotonic"))


class _Begin(_OfPaths):
    def function(self) -> Function:
        w, source = self.w, self.source
        state, own = self.here("after"), self.here("own_params")
        start = w.at(w.address("start"), w.whole("mul", w.count("start_lane"), self.lane))
        row = w.value(f"trunc i64 {w.count('start_row')} to i32")
        bases = {"start": start, "state": state, "scratch": self.here("entries"), "own_params": own}
        w.operations = source.begun.operations
        self.printed(source.begun, "0", _Rows(self, source.begun, bases, {"start": row}))
        self.see(state, "0", 0, source.begun)
        self.leave(state)
        return w


class _Advance(_OfPaths):
    """for each step from `first` to `last`: draw; step from the rows at `now` to those at `then`; where it is the next
    of `saves`, which end with -1: see. The state begins in `state`, then goes to and fro between `one` and `other`."""

    def __init__(
        self,
        name: str,
        source: LoopSource,
        results: LaunchResults,
        program: Program,
        ok: Entry,
        diagnosing: bool,
        threads: int,
    ):
        super().__init__(name, source, results, threads)
        self.program, self.ok, self.diagnosing = program, ok, diagnosing

    def function(self) -> Function:
        w = self.w
        w.operations = self.program.operations
        bases = {"scratch": self.here("entries"), "own_params": self.here("own_params")}
        self.step = w.count("first")  # no number that changes between steps is read here
        rows = _Rows(self, self.program, bases)
        printer = _SharedLoops(self, self.program, lambda node: self.input_value(node, self.step), rows)
        self.path = w.whole("add", w.count("first_path"), self.lane)
        normals = self.here("normals")
        listed = w.load(w.at(w.address("saves"), w.count("first_save"), 8), "i64")
        begun, one, other = map(self.here, ("state", "one", "other"))
        printer.before_steps()
        before, head, saving, on, done = w.block, *map(w.fresh, ("step", "save", "on", "done"))
        i, q, due, now, then, spare = (f"%{w.fresh(word)}" for word in ("i", "q", "due", "now", "then", "spare"))
        w.jump(head)
        w.open(head)
        place = len(w.lines)
        w.lines += [""] * 6
        self.step = i
        bases |= {"now": now, "then": then}
        self._draw(i, normals, bases)
        self.barrier()
        with printer.scope():
            printer.step()
            following = w.value(f"add nsw i64 {i}, 1")
            if self.diagnosing:
                self._diagnose(printer.read(self.ok), then, following)
        w.branch(w.value(f"icmp eq i64 {following}, {due}"), saving, on)
        reached = w.block
        w.open(saving)
        if not self.diagnosing:
            self.see(then, following, q, self.program)
        after_q, after_due = past_a_save(w, q, due, reached, on, "first_save")
        w.branch(w.value(f"icmp slt i64 {following}, {w.count('last')}"), head, done)
        phis = [
            (i, "i64", w.count("first"), following), (q, "i64", "0", after_q), (due, "i64", listed, after_due),
            (now, "ptr", begun, then), (then, "ptr", one, spare), (spare, "ptr", other, then),
        ]  # fmt: skip
        w.carry(place, before, phis)
        w.open(done)
        self.leave(then)
        return w

    def _draw(self, step: str, rows: str, bases: dict[str, str]) -> None:
        """The normals of a step, written in pairs: number k of a stream's step is its number step·count + k of all, and
        pair j holds 2j and 2j + 1, so that a step may begin with the second of a pair."""
        w, first = self.w, 0
        for number, (stream, count) in enumerate(self.source.traced.streams):
            offset = w.whole("mul", step, count)
            pair, late = w.whole("lshr", offset, 1), w.whole("and", offset, 1)
            begin = self.row(rows, first)
            with w.counted(self.share, pairs_of(count), self.shares) as k:
                halves = normal_pair(w, stream, self.path, w.whole("add", pair, k))
                for half, z in enumerate(halves):
                    w.store(z, self.row(begin, w.whole("add", w.whole("shl", k, 1), half)), "double")
            bases[f"normals {number}"] = self.row(begin, late)
            first += 2 * pairs_of(count)

    def _diagnose(self, ok: str, then: str, following: str) -> None:
        """The step after which the state of the path was first not finite, and whether its solve failed there.

        Threads that find it at the same step write the same."""
        w = self.w
        failed, unsolved = (w.at(w.address(name), self.lane, 8) for name in ("failed", "unsolved"))
        not_ok = w.value(f"zext i1 {w.value(f'xor i1 {ok}, true')} to i64")

        def write() -> None:
            known = w.load(failed, "i64")
            unknown = w.value(f"icmp slt i64 {known}, 0")
            fresh = w.value(f"or i1 {unknown}, {w.value(f'icmp eq i64 {known}, {following}')}")

            def first_time() -> None:
                w.store(following, failed, "i64")
                w.store(not_ok, unsolved, "i64")

            w.when(fresh, first_time)

        for first, size in self.reals():
            self.finite(then, first, size, write)
        self.barrier()


def pairs_of(count: int) -> int:
    """Pairs of normals that hold `count` of them, wherever they begin."""
    return count // 2 + 1


def rows_of_normals(streams: Sequence[tuple[str, int]]) -> int:
    """Rows that the normals of a step take."""
    return sum(2 * pairs_of(count) for _, count in streams)
