"""A method's step as kernels of a GPU, printed from the same graphs as the processor's: one thread takes one path.

A thread keeps the state of its path in registers over the steps of a call, and makes its normals by counter. At a save
the threads of a block add up central sums of what the statistics average,

    N,  m = Σ x / N,  Σ (x - m)(y - m),  Σ (x - m)³,  Σ (x - m)⁴      over the sound paths of the block,

which a second kernel then joins over the blocks, in an order that is always the same. Statistics that look at all paths
together get rows of what they see. Printed for a processor, on which kernels are tested, a block has one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stodyn.engine.looped import LoopSource
from stodyn.engine.stepping import Source, past_a_save
from stodyn.engine.watching import averages_itself
from stodyn.noise import counter
from stodyn.noise.stream import STREAMS
from stodyn.numerics.printing import rows
from stodyn.numerics.printing.llvm import Printer, Writer
from stodyn.numerics.printing.nodes import Entry, Graph, Node
from stodyn.numerics.printing.rows import Function
from stodyn.statistics.contract import Statistic

GROUP, JOINING = 128, 256  # threads of a block of paths, and of a block that joins sums
WARP, ALONE = 32, 1
FEW = 12  # numbers per path whose sums are taken in the kernel
FEW_SUMS = 24  # that are written out one by one; more are taken in a loop
CROWDED = ((250, 8), (1000, 6), (np.inf, 4))  # operations up to which so many blocks should run together on a processor
REGISTERS, OWN = 512, 40  # of a thread while one block runs there, and those it needs besides its state
UNROLLED = 8  # pairs of normals of a step that are written one by one; more are drawn in a loop
FRAME = (
    "start", "start_row", "start_lane", "state", "after", "own_params", "common_params", "t", "h", "first", "last",
    "saves", "first_save", "seen", "partials", "totals", "blocks", "stride", "paths", "first_path", "flag",
    "rounded", "failed", "unsolved", "grid", "rows", "count", "seconds", "shift", "one", "other", "entries", "normals",
    "tables", *(f"key{k}" for k in range(counter.ROUNDS)),
)  # fmt: skip
TID = "@llvm.nvvm.read.ptx.sreg.tid.x"
BLOCK = "@llvm.nvvm.read.ptx.sreg.ctaid.x"


def sums_of(count: int) -> int:
    """How many sums are taken of `count` numbers of a path."""
    return 1 + count + count * (count + 1) // 2 + 2 * count


def blocks_together(operations: int, numbers: int) -> int:
    """How many blocks of paths should run at a time on one processor of a card, for a step of that many operations on a
    state of that many numbers: as many as hide the time that an instruction takes, and leave registers for the state.
    """
    wanted = next(blocks for most, blocks in CROWDED if operations <= most)
    return max(min(wanted, REGISTERS // (2 * numbers + OWN)), 2)


class LaunchResults:
    """The results that a launch leaves for the statistics: sums of those in `summed`, by their rows; rows where others
    look.

    rows  how many rows a save has, the last being 1 where the path is sound and 0 where not; 0 if no statistic looks
    """

    def __init__(self, source: Source | LoopSource, statistics: Sequence[Statistic]):
        self.summed = {
            k: source.rows_of[k][0].ravel()
            for k, statistic in enumerate(statistics)
            if isinstance(source, Source) and averages_itself(statistic) and source.rows_of[k][0].size <= FEW
        }
        self.counting_failed = {k for k in self.summed if statistics[k].counts_failed}
        self.rows = len(source.saved) + 1 if len(self.summed) < len(statistics) else 0
        self.places, place = {}, 0
        for k, numbers in self.summed.items():
            self.places[k] = place
            place += sums_of(len(numbers))
        self.values = place
        self.most = max([1, *(sums_of(len(numbers)) for numbers in self.summed.values())])  # of one statistic


def names(source: Source, results: LaunchResults, diagnosing: bool = False) -> list[str]:
    """The kernels of a program."""
    first = [] if diagnosing else ["begin", *(f"join{k}" for k in results.summed)]
    return [*first, "run", *(["starting"] if source.starting is not None else [])]


def text(
    source: Source, results: LaunchResults, diagnosing: bool = False, group: int = GROUP, joining: int = JOINING
) -> str:
    """The kernels begin, run, starting (where the method has it) and join<k> of each summed statistic, as LLVM text."""
    functions: list[Function] = []
    if not diagnosing:
        functions.append(_Begin(source, results, group).function())
        functions += [joined(f"join{k}", results, k, joining) for k in results.summed]
    functions.append(_Advance("run", source, results, source.stepped, source.ok, diagnosing, group).function())
    if source.starting is not None:
        functions.append(_Advance("starting", source, results, *source.starting, diagnosing, group).function())
    return "\n".join([normal_pair_function(), module(functions, results.most)])


def module(functions: Sequence[Function], most: int) -> str:
    """Kernels that sum at most that many numbers at a time, with what they share and call."""
    shared = f"@shared = internal addrspace(3) global [{2 * most * JOINING // WARP} x double] undef, align 8\n"
    return shared + rows.module(functions, for_gpu=True)


class Kernel(Function):
    """The text of a kernel of blocks of `threads` threads, which sum at most `most` numbers at a time."""

    def __init__(self, name: str, threads: int, most: int):
        super().__init__(name, 1, FRAME)
        self.threads, self.most = threads, most
        self.blocks_at_once = 1  # that should run on a processor of the card: more have fewer registers each
        if threads == ALONE:
            self.tid, self.block_number = "0", "%block"
        else:
            self.tid, self.block_number = (self._register(word) for word in (TID, BLOCK))

    def _register(self, word: str) -> str:
        number = self.value(f"call i32 {word}()")
        return self.value(f"zext i32 {number} to i64")

    def half(self, name: str, which: int) -> str:
        """The lower or the upper 32 bits of a word of the frame."""
        value = f"%{name}.{which}"
        if value not in self._words:
            slot = f"%{self.fresh('slot')}"
            self.head += [f"  {slot} = getelementptr i8, ptr %frame, i64 {8 * self.places[name] + 4 * which}",
                          f"  {value} = load i32, ptr {slot}, align 4"]  # fmt: skip
            self._words[value] = value
        return value

    def finished(self) -> str:
        self.emit("ret void")
        if self.threads == ALONE:
            return self.text(f"internal void @{self.name}.block(ptr %frame, i64 %block)") + self._of_all_blocks()
        argument = f"ptr byval([{len(FRAME)} x i64]) align 8 %frame"
        size = f'"nvvm.maxntid"="{self.threads}"'
        if self.blocks_at_once > 1:
            size += f' "nvvm.minctasm"="{self.blocks_at_once}"'
        return self.text(f"ptx_kernel void @{self.name}({argument}) {size}")

    def _of_all_blocks(self) -> str:
        w = Function(self.name, 1, FRAME)
        with w.counted(0, w.count("grid")) as block:
            w.emit(f"call void @{self.name}.block(ptr %frame, i64 {block})")
        return w.finished()

    def when(self, which: str, then: Callable[[], None]) -> None:
        """if (which) then."""
        inside, end = self.fresh("then"), self.fresh("end")
        self.branch(which, inside, end)
        self.open(inside)
        then()
        self.jump(end)
        self.open(end)

    # --- sums over a block --------------------------------------------------------------------------------------------

    def block_sums(self, values: Sequence[str]) -> list[str]:
        """The sums of numbers over the threads of a block, which every thread gets.

        They go through the first half of the shared memory, those of `leave_sums` through the second: where one is
        called after the other, the barrier of each ensures that all threads have read what the other shared.
        """
        if self.threads == ALONE:
            return list(values)
        self._share([self._warp_sum(x) for x in values], 0)
        return [self._shared_sum(0, k) for k in range(len(values))]

    def leave_sums(self, values: Sequence[str], leave: Callable[[str, str], None]) -> None:
        """leave(k, total) the sum of values[k] over the threads of a block; thread k does it."""
        if self.threads == ALONE:
            for number, x in enumerate(values):
                leave(str(number), x)
            return
        if len(values) <= FEW_SUMS:
            self._share([self._warp_sum(x) for x in values], 1)
        else:
            array = f"%{self.fresh('values')}"
            self.head.append(f"  {array} = alloca [{len(values)} x double], align 8")
            for place, x in enumerate(values):
                self.store(x, self.at(array, place, 8), "double")
            with self.counted(0, len(values)) as k:
                self._share([self._warp_sum(self.load(self.at(array, k, 8), "double"))], 1, k, barrier=False)
            self.barrier()
        mine = self.value(f"icmp slt i64 {self.tid}, {len(values)}")
        self.when(mine, lambda: leave(self.tid, self._shared_sum(1, self.tid)))

    def _share(self, totals: Sequence[str], half: int, first: str | int = 0, barrier: bool = True) -> None:
        """Share the sums of each warp, from place `first` of a half of the shared memory on."""
        warps = self.threads // WARP
        lane, warp = self.whole("and", self.tid, WARP - 1), self.whole("lshr", self.tid, 5)

        def write() -> None:
            for k, total in enumerate(totals):
                place = self.whole("mul", self.whole("add", first, half * self.most + k), warps)
                shared = self._shared(self.whole("add", place, warp))
                self.emit(f"store double {total}, ptr addrspace(3) {shared}, align 8")

        self.when(self.value(f"icmp eq i64 {lane}, 0"), write)
        if barrier:
            self.barrier()

    def barrier(self) -> None:
        self.emit("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    def _shared_sum(self, half: int, k: str | int) -> str:
        """The sum of the numbers that the warps have shared at place k."""
        warps = self.threads // WARP
        place = self.whole("mul", self.whole("add", k, half * self.most), warps)
        parts = [
            self.value(f"load double, ptr addrspace(3) {self._shared(self.whole('add', place, j))}, align 8")
            for j in range(warps)
        ]
        while len(parts) > 1:
            parts = [self.value(f"fadd double {a}, {b}") for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def _shared(self, index: str | int) -> str:
        return self.value(f"getelementptr double, ptr addrspace(3) @shared, i64 {index}")

    def _warp_sum(self, x: str) -> str:
        for apart in (16, 8, 4, 2, 1):
            word = self.value(f"bitcast double {x} to i64")
            low, high = self.value(f"trunc i64 {word} to i32"), self.whole("lshr", word, 32)
            high = self.value(f"trunc i64 {high} to i32")
            low, high = (
                self.value(f"call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 {half}, i32 {apart}, i32 31)")
                for half in (low, high)
            )
            low, high = self.value(f"zext i32 {low} to i64"), self.value(f"zext i32 {high} to i64")
            word = self.whole("or", low, self.whole("shl", high, 32))
            x = self.value(f"fadd double {x}, {self.value(f'bitcast i64 {word} to double')}")
        return x

    def central(self, x: Sequence[str], sound: str, leave: Callable[[str, str], None]) -> None:
        """leave(k, total) the sums over a block of the numbers x of its threads, of those that are sound."""

        def chosen(value: str) -> str:
            return self.value(f"select i1 {sound}, double {value}, double 0.0")

        count, *firsts = self.block_sums([chosen("1.0"), *map(chosen, x)])
        means = self.means(count, firsts, leave)
        d = [chosen(self.value(f"fsub double {a}, {m}")) for a, m in zip(x, means, strict=True)]
        behind = 1 + len(x)
        self.leave_sums(self._powers(d), lambda k, total: leave(self.whole("add", k, behind), total))

    def means(self, count: str, firsts: Sequence[str], leave: Callable[[str, str], None]) -> list[str]:
        """The means of sums over `count` paths, left with the count by the first thread."""
        share = self.value(f"call double @llvm.maxnum.f64(double {count}, double 1.0)")
        means = [self.value(f"fdiv double {first}, {share}") for first in firsts]

        def write() -> None:
            for k, value in enumerate((count, *means)):
                leave(str(k), value)

        self.when(self.value(f"icmp eq i64 {self.tid}, 0"), write)
        return means

    def _powers(self, d: Sequence[str]) -> list[str]:
        squares = [self.value(f"fmul double {a}, {a}") for a in d]
        second = [
            squares[i] if i == j else self.value(f"fmul double {d[i]}, {d[j]}")
            for i in range(len(d))
            for j in range(i + 1)
        ]
        third = [self.value(f"fmul double {s}, {a}") for s, a in zip(squares, d, strict=True)]
        return [*second, *third, *(self.value(f"fmul double {s}, {s}") for s in squares)]


def normal_pair_function() -> str:
    """The function sd_pair(words of the key's schedule, stream, path, number) -> two normals (noise.counter)."""
    w, graph = Writer(1), Graph()
    words = [f"k{k}" for k in range(2 * counter.ROUNDS)]
    names = {**dict.fromkeys(words, np.uint32), "stream": np.uint32, "path": np.uint64, "number": np.uint64}
    nodes = [graph.input((name, 0), dtype) for name, dtype in names.items()]
    halves = counter.entries(graph, nodes[:-3], *nodes[-3:])
    printer = Printer(w, halves, lambda node: f"%{node.attr[0]}")
    whole = "{ double, double }"
    first, second = map(printer.read, halves)
    both = w.value(f"insertvalue {whole} poison, double {first}, 0")
    w.emit(f"ret {whole} {w.value(f'insertvalue {whole} {both}, double {second}, 1')}")
    arguments = ", ".join(f"{w.type(np.dtype(dtype))} %{name}" for name, dtype in names.items())
    return w.text(f"internal {whole} @sd_pair({arguments}) alwaysinline")


def normal_pair(w: Kernel, stream: str, path: str, number: str) -> tuple[str, str]:
    """Two normals of a path, by that function."""
    words = ", ".join(f"i32 {w.half(f'key{k}', half)}" for k in range(counter.ROUNDS) for half in (0, 1))
    both = w.value(f"call {{ double, double }} @sd_pair({words}, i32 {STREAMS[stream]}, i64 {path}, i64 {number})")
    first, second = (w.value(f"extractvalue {{ double, double }} {both}, {k}") for k in (0, 1))
    return first, second


class _OfPaths:
    """The common part of kernels over the paths: the lane of a thread, the inputs of its path, its rows at a save."""

    def __init__(self, name: str, source: Source, results: LaunchResults, group: int):
        self.w, self.source, self.launch = Kernel(name, group, results.most), source, results
        w = self.w
        self.stride = w.whole("mul", w.count("stride"), 8)
        self.lane = w.whole("add", w.whole("mul", w.block_number, group), w.tid)
        self.is_path = w.value(f"icmp slt i64 {self.lane}, {w.count('paths')}")
        self.place: dict[str, str] = {}

    def row(self, array: str, k: int | str) -> str:
        """The address of a row's number for this path."""
        w = self.w
        return w.at(w.at(w.address(array), w.whole("mul", self.stride, k)), self.lane, 8)

    def input_value(self, node: Node) -> str:
        w, (array, k) = self.w, node.attr
        if array in ("t", "h"):
            step = 0 if array == "h" and self.source.equal_steps else self.place["step"]
            return w.load_row(w.at(w.address(array), step, 8), node.dtype, False)
        if array == "k":
            return w.value(f"trunc i64 {self.place['step']} to i32")
        if array == "common_params":
            return w.load_row(w.at(w.address(array), k, 8), node.dtype, False)
        if array == "start":
            row = w.at(w.address("start"), w.whole("mul", w.count("start_row"), k))
            return w.load_row(w.at(row, w.whole("mul", w.count("start_lane"), self.lane)), node.dtype)
        return w.load_row(self.row(array, k), node.dtype)

    def see(self, state: Sequence[str], step: str, slot: str) -> None:
        """Keep the numbers of the path at a save, number `slot` of the launch."""
        w, source, results = self.w, self.source, self.launch

        def input_value(node: Node) -> str:
            array, k = node.attr
            if array == "state":
                return state[k]
            if array == "t":
                return w.load_row(w.at(w.address("t"), step, 8), node.dtype, False)
            return self.input_value(node)

        printer = Printer(w, source.saved, input_value)
        values = list(map(printer.read, source.saved))
        n = source.traced.start.jaxpr.invars[1].aval.shape[0]
        sound = self.finite(values[:n], source.saved_dtypes[:n], self.is_path)
        if results.rows:
            base = w.whole("mul", slot, results.rows)
            for k, (x, dtype) in enumerate(zip(values, source.saved_dtypes, strict=True)):
                w.store_row(x, self.row("seen", w.whole("add", base, k)), dtype)
            one = w.value(f"select i1 {sound}, double 1.0, double 0.0")
            w.store(one, self.row("seen", w.whole("add", base, results.rows - 1)), "double")
        for k, numbers in results.summed.items():
            counted = self.is_path if k in results.counting_failed else sound
            self._sum(k, [self._real(values[i], source.saved_dtypes[i]) for i in numbers], counted, slot)

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

    def finite(self, values: Sequence[str], dtypes: Sequence[np.dtype], so_far: str) -> str:
        w = self.w
        for x, dtype in zip(values, dtypes, strict=True):
            if dtype.kind == "f":
                T = w.type(dtype)
                nothing = w.value(f"fsub {T} {x}, {x}")
                so_far = w.value(f"and i1 {so_far}, {w.value(f'fcmp oeq {T} {nothing}, 0.0')}")
        return so_far

    def leave(self, state: Sequence[str]) -> None:
        """The state after a launch, a flag where a path has gone bad, and how many steps ended at rounding so far."""
        w, layout = self.w, self.source.layout
        for k, (x, dtype) in enumerate(zip(state, layout.dtypes, strict=True)):
            w.store_row(x, self.row("after", k), dtype)
        own = slice(0, layout.of_method)
        sound = self.finite(state[own], layout.dtypes[own], "true")
        bad = w.value(f"and i1 {self.is_path}, {w.value(f'xor i1 {sound}, true')}")
        w.when(bad, lambda: w.store("1", w.address("flag"), "i64"))
        if layout.rounded:
            count = w.value(f"sext i32 {state[-1]} to i64")
            some = w.value(f"and i1 {self.is_path}, {w.value(f'icmp sgt i64 {count}, 0')}")
            w.when(some, lambda: w.emit(f"atomicrmw add ptr {w.address('rounded')}, i64 {count} monotonic"))


class _Begin(_OfPaths):
    def __init__(self, source: Source, results: LaunchResults, group: int):
        super().__init__("begin", source, results, group)

    def function(self) -> Function:
        w, source = self.w, self.source
        self.place["step"] = "0"
        printer = Printer(w, source.begun, self.input_value)
        w.operations = len(printer.nodes)
        state = list(map(printer.read, source.begun))
        self.see(state, "0", "0")
        self.leave(state)
        return w


class _Advance(_OfPaths):
    """for each step from `first` to `last`: draw; step; where it is the next of `saves`, which end with -1: see."""

    def __init__(
        self,
        name: str,
        source: Source,
        launch: LaunchResults,
        results: list[Entry],
        ok: Entry,
        diagnosing: bool,
        group: int,
    ):
        super().__init__(name, source, launch, group)
        self.results, self.ok, self.diagnosing = results, ok, diagnosing

    def function(self) -> Function:
        w, dtypes = self.w, self.source.layout.dtypes
        printer = Printer(w, [*self.results, self.ok] if self.diagnosing else self.results, self.input_value)
        w.operations = len(printer.nodes)
        w.blocks_at_once = blocks_together(w.operations, len(dtypes))
        for node in printer.nodes:  # nodes that are the same in all steps
            if not node.moves and not node.loops and node.op not in ("literal", "carried"):
                printer.need(node)
        begun = [w.load_row(self.row("state", k), dtype) for k, dtype in enumerate(dtypes)]
        self.path = w.whole("add", w.count("first_path"), self.lane)
        spares = self._first_spares()
        listed = w.load(w.at(w.address("saves"), w.count("first_save"), 8), "i64")
        before = w.block
        head, saving, on, done = w.fresh("step"), w.fresh("save"), w.fresh("on"), w.fresh("done")
        i, q, due = (f"%{w.fresh(word)}" for word in ("i", "q", "due"))
        w.jump(head)
        w.open(head)
        place = len(w.lines)
        names = [f"%{w.fresh('s')}" for _ in dtypes]
        kept_spares = {number: f"%{w.fresh('spare')}" for number in spares}
        w.lines += [""] * (3 + len(names) + len(spares))
        self.place["step"] = i
        with printer.scope():
            by_name = {node.attr: node for node in printer.nodes if node.op == "input"}
            for k, name in enumerate(names):
                if ("state", k) in by_name:
                    printer.name(by_name["state", k], name)
            normals, new_spares = self._normals(i, kept_spares)
            for k, z in enumerate(normals):
                if ("normals", k) in by_name:
                    printer.name(by_name["normals", k], z)
            after = list(map(printer.read, self.results))
            following = w.value(f"add nsw i64 {i}, 1")
            if self.diagnosing:
                self._diagnose(after, printer.read(self.ok), following)
            w.branch(w.value(f"icmp eq i64 {following}, {due}"), saving, on)
            reached = w.block
            w.open(saving)
            if not self.diagnosing:
                self.see(after, following, q)
            after_q, after_due = past_a_save(w, q, due, reached, on, "first_save")
        w.branch(w.value(f"icmp slt i64 {following}, {w.count('last')}"), head, done)
        phis = [(i, "i64", w.count("first"), following), (q, "i64", "0", after_q), (due, "i64", listed, after_due)]
        phis += [(name, w.type(d), x, new) for name, d, x, new in zip(names, dtypes, begun, after, strict=True)]
        phis += [(kept_spares[number], "double", spares[number], new_spares[number]) for number in spares]
        w.carry(place, before, phis)
        w.open(done)
        self.leave(after)
        return w

    # --- normals ------------------------------------------------------------------------------------------------------

    def _pair(self, stream: str, number: str) -> tuple[str, str]:
        return normal_pair(self.w, stream, self.path, number)

    def _first_spares(self) -> dict[int, str]:
        """Of each stream with an odd number of normals, what an odd first step takes from the pair before it."""
        w, spares = self.w, {}
        for number, (stream, count) in enumerate(self.source.traced.streams):
            if count % 2:
                offset = w.whole("mul", w.count("first"), count)
                w.head.append(f"  %spare_of_{number} = alloca double, align 8")
                w.store("0.0", f"%spare_of_{number}", "double")
                is_odd = w.value(f"trunc i64 {offset} to i1")

                def keep(stream=stream, offset=offset, number=number):
                    w.store(self._pair(stream, w.whole("lshr", offset, 1))[1], f"%spare_of_{number}", "double")

                w.when(is_odd, keep)
                spares[number] = w.load(f"%spare_of_{number}", "double")
        return spares

    def _normals(self, step: str, spares: dict[int, str]) -> tuple[list[str], dict[int, str]]:
        """The normals of a step through all streams, and the normal left over from each odd one.

        Normal k of a step is number step·count + k of its stream; numbers 2j and 2j + 1 are pair j. Before an odd step
        of an odd stream one normal is left over, so that its other pairs begin one number later.
        """
        w, normals, left = self.w, [], {}
        for number, (stream, count) in enumerate(self.source.traced.streams):
            offset = w.whole("mul", step, count)
            base = w.whole("lshr", w.whole("add", offset, 1), 1)
            common = self._pairs(stream, base, count // 2)
            if count % 2:
                is_odd = w.value(f"trunc i64 {offset} to i1")
                inside, end, before = w.fresh("pair"), w.fresh("end"), w.block
                w.branch(is_odd, end, inside)
                w.open(inside)
                last, spare = self._pair(stream, w.whole("add", base, count // 2))
                reached = w.block
                w.jump(end)
                w.open(end)
                old = spares[number]
                last = w.value(f"phi double [ {old}, %{before} ], [ {last}, %{reached} ]")
                left[number] = w.value(f"phi double [ {old}, %{before} ], [ {spare}, %{reached} ]")
                late = [last, *common]
                common = [
                    w.value(f"select i1 {is_odd}, double {a}, double {b}")
                    for a, b in zip(late, [*common, last], strict=True)
                ]
            normals += common
        return normals, left

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

    # --- failures -----------------------------------------------------------------------------------------------------

    def _diagnose(self, after: Sequence[str], ok: str, following: str) -> None:
        """The step after which the state of the path was first not finite, and whether its solve failed there."""
        w, layout = self.w, self.source.layout
        own = slice(0, layout.of_method)
        sound = self.finite(after[own], layout.dtypes[own], "true")
        failed, unsolved = (w.at(w.address(name), self.lane, 8) for name in ("failed", "unsolved"))
        unknown = w.value(f"icmp slt i64 {w.load(failed, 'i64')}, 0")
        fresh = w.value(f"and i1 {unknown}, {w.value(f'xor i1 {sound}, true')}")

        def write() -> None:
            w.store(following, failed, "i64")
            w.store(w.value(f"zext i1 {w.value(f'xor i1 {ok}, true')} to i64"), unsolved, "i64")

        w.when(fresh, write)


def joined(name: str, results: LaunchResults, statistic: int, threads: int) -> Function:
    """The kernel that joins the sums of blocks b, one block of threads for each save: with δ = m_b - m,

    M2 = Σ M2_b + N_b δ δᵀ,   M3 = Σ M3_b + 3 δ M2_b + N_b δ³,   M4 = Σ M4_b + 4 δ M3_b + 6 δ² M2_b + N_b δ⁴.
    """
    w, n = Kernel(name, threads, results.most), len(results.summed[statistic])
    row_bytes = w.whole("mul", w.count("blocks"), 8)
    first = w.whole("add", w.whole("mul", w.block_number, results.values), results.places[statistic])

    def part(j: int, block: str) -> str:
        row = w.at(w.address("partials"), w.whole("mul", w.whole("add", first, j), row_bytes))
        return w.load(w.at(row, block, 8), "double")

    def over_blocks(count: int, terms: Callable[[str], list[str]]) -> list[str]:
        """The sums of each thread over its blocks."""
        slots = [f"%{w.fresh('sum')}" for _ in range(count)]
        w.head += [f"  {slot} = alloca double, align 8" for slot in slots]
        for slot in slots:
            w.store("0.0", slot, "double")
        with w.counted(w.tid, w.count("blocks"), threads) as block:
            for slot, term in zip(slots, terms(block), strict=True):
                w.store(w.value(f"fadd double {w.load(slot, 'double')}, {term}"), slot, "double")
        return [w.load(slot, "double") for slot in slots]

    def product(*factors: str) -> str:
        result = factors[0]
        for factor in factors[1:]:
            result = w.value(f"fmul double {result}, {factor}")
        return result

    def total(*terms: str) -> str:
        result = terms[0]
        for term in terms[1:]:
            result = w.value(f"fadd double {result}, {term}")
        return result

    def firsts(block: str) -> list[str]:
        count = part(0, block)
        return [count, *(product(count, part(1 + i, block)) for i in range(n))]

    def leave(j: str, value: str) -> None:
        w.store(value, w.at(w.address("totals"), w.whole("add", first, j), 8), "double")

    count, *moments = w.block_sums(over_blocks(1 + n, firsts))
    means = w.means(count, moments, leave)
    seconds = [(i, j) for i in range(n) for j in range(i + 1)]
    diagonal = {i: k for k, (i, j) in enumerate(seconds) if i == j}

    def powers(block: str) -> list[str]:
        here = part(0, block)
        is_there = w.value(f"fcmp ogt double {here}, 0.0")
        d = [
            w.value(f"select i1 {is_there}, double {w.value(f'fsub double {part(1 + i, block)}, {m}')}, double 0.0")
            for i, m in enumerate(means)
        ]
        second = [part(1 + n + k, block) for k in range(len(seconds))]
        third = [part(1 + n + len(seconds) + i, block) for i in range(n)]
        fourth = [part(1 + 2 * n + len(seconds) + i, block) for i in range(n)]
        own = [second[diagonal[i]] for i in range(n)]
        square = [product(x, x) for x in d]
        return [
            *(total(second[k], product(here, d[i], d[j])) for k, (i, j) in enumerate(seconds)),
            *(total(third[i], product("3.0", d[i], own[i]), product(here, square[i], d[i])) for i in range(n)),
            *(
                total(fourth[i], product("4.0", d[i], third[i]), product("6.0", square[i], own[i]),
                      product(here, square[i], square[i]))
                for i in range(n)
            ),
        ]  # fmt: skip

    w.leave_sums(over_blocks(sums_of(n) - 1 - n, powers), lambda k, total: leave(w.whole("add", k, 1 + n), total))
    return w
