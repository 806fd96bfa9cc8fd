"""The text of a kernel of a GPU: its threads, their barriers, their normals, and the sums over a block of them.

The threads of a block add up central sums of numbers of theirs,

    N,  m = Σ x / N,  Σ (x - m)(y - m),  Σ (x - m)³,  Σ (x - m)⁴      over the sound paths of the block,

which a second kernel then joins over the blocks, in an order that is always the same. Printed for a processor, on which
kernels are tested, a block has one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stodyn.engine.program.source import Source
from stodyn.engine.program.watching import is_added_up_by_kernels
from stodyn.noise import counter
from stodyn.noise.stream import STREAMS
from stodyn.numerics.printing import rows
from stodyn.numerics.printing.llvm import Printer, Writer
from stodyn.numerics.printing.nodes import Graph
from stodyn.numerics.printing.rows import Function
from stodyn.statistics.contract import Statistic

GROUP, JOINING = 128, 256  # threads of a block of paths, and of a block that joins sums
WARP, ALONE = 32, 1
FEW = 12  # numbers per path whose sums are taken in the kernel
FEW_SUMS = 24  # that are written out one by one; more are taken in a loop
FRAME = (
    "start", "start_row", "start_lane", "state", "after", "own_params", "common_params", "t", "h", "first", "last",
    "saves", "first_save", "seen", "partials", "totals", "blocks", "stride", "paths", "first_path", "flag",
    "rounded", "failed", "causes", "grid", "rows", "count", "seconds", "shift", "one", "other", "entries", "normals",
    "tables", *(f"key{k}" for k in range(counter.ROUNDS)),
)  # fmt: skip
TID = "@llvm.nvvm.read.ptx.sreg.tid.x"
BLOCK = "@llvm.nvvm.read.ptx.sreg.ctaid.x"


def sums_of(count: int) -> int:
    """How many sums are taken of `count` numbers of a path."""
    return 1 + count + count * (count + 1) // 2 + 2 * count


class LaunchResults:
    """The results that a launch leaves for the statistics: sums of those in `summed`, by their rows; rows where others
    look.

    rows  how many rows a save has, the last being 1 where the path is sound and 0 where not; 0 if no statistic looks
    """

    def __init__(self, source: Source, statistics: Sequence[Statistic]):
        self.summed = {
            k: source.rows_of[k][0].ravel()
            for k, statistic in enumerate(statistics)
            if source.has_registers and is_added_up_by_kernels(statistic) and source.rows_of[k][0].size <= FEW
        }
        self.counting_failed = {k for k in self.summed if statistics[k].counts_failed}
        self.rows = len(source.saved_dtypes) + 1 if len(self.summed) < len(statistics) else 0
        self.places, place = {}, 0
        for k, numbers in self.summed.items():
            self.places[k] = place
            place += sums_of(len(numbers))
        self.values = place
        self.most = max([1, *(sums_of(len(numbers)) for numbers in self.summed.values())])  # of one statistic


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
        """Print a branch: what `then` prints is executed by threads for which `which` is true."""
        inside, end = self.fresh("then"), self.fresh("end")
        self.branch(which, inside, end)
        self.open(inside)
        then()
        self.jump(end)
        self.open(end)

    # --- sums over a block --------------------------------------------------------------------------------------------

    def thread_sums(self, limit: str, count: int, terms: Callable[[str], list[str]]) -> list[str]:
        """Sums of `count` terms of each number below the word `limit` of the frame, over the share of a thread."""
        slots = [f"%{self.fresh('sum')}" for _ in range(count)]
        self.head += [f"  {slot} = alloca double, align 8" for slot in slots]
        for slot in slots:
            self.store("0.0", slot, "double")
        with self.counted(self.tid, self.count(limit), self.threads) as number:
            for slot, term in zip(slots, terms(number), strict=True):
                self.store(self.value(f"fadd double {self.load(slot, 'double')}, {term}"), slot, "double")
        return [self.load(slot, "double") for slot in slots]

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

    count, *moments = w.block_sums(w.thread_sums("blocks", 1 + n, firsts))
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

    w.leave_sums(
        w.thread_sums("blocks", sums_of(n) - 1 - n, powers), lambda k, total: leave(w.whole("add", k, 1 + n), total)
    )
    return w
