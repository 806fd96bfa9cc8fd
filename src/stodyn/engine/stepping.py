"""A method's step as a program printed from its trace: a few paths at a time, their state in registers over a slab."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stodyn.engine.spec import Spec
from stodyn.engine.watching import Watched
from stodyn.noise import path_normals
from stodyn.numerics.printing import compiling, rows, scalars
from stodyn.numerics.printing.llvm import Printer
from stodyn.numerics.printing.nodes import INT32, Entry, Graph, Node, is_known, reachable
from stodyn.numerics.printing.rows import Function
from stodyn.numerics.printing.unprintable import Unprintable, or_unprintable

GROUP = path_normals.LANES  # paths whose generators lie side by side
GENERATORS = 8 * 4 * GROUP  # bytes of them
FRAME = (
    "start", "state", "own_params", "common_params", "t", "h", "steps", "first_step", "saves", "seen", "stride",
    "first_lane", "last_lane", "normals", "slab", "generators", "groups", "fill", "failed", "unsolved", "scratch",
    "tables",
)  # fmt: skip
TINY, SHORT = 60, 150  # operations of a step with room for more paths; the same where operations wait for each other
SERIAL = 8  # operations side by side that fill a processor


class State:
    """Where the scalars of a path lie in the rows of its state: the method's, those gathered, and those counted.

    counted  whether Newton's iterations are counted, and the steps that it solves no better than rounding allows
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any], gathered: Sequence[Any],
                 counted: Sequence[bool]):  # fmt: skip
        counts = sum(counted)
        self.shapes = [*shapes, *(g.shape for g in gathered), *[()] * counts]
        self.leaf_dtypes = [np.dtype(d) for d in (*dtypes, *(g.dtype for g in gathered), *[INT32] * counts)]
        self.method, self.gathered, (self.iterations, self.rounded) = len(shapes), len(gathered), counted
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.dtypes = [d for d, size in zip(self.leaf_dtypes, sizes, strict=True) for _ in range(size)]
        self.of_method = sum(sizes[: self.method])
        self.real = np.array([dtype.kind == "f" for dtype in self.dtypes[: self.of_method]], bool)

    def inputs(self, graph: Graph) -> list[np.ndarray]:
        nodes = [graph.input(("state", k), dtype) for k, dtype in enumerate(self.dtypes)]
        return scalars.unflatten(nodes, self.shapes)


def params_inputs(graph: Graph, examples: Sequence[Any], varies: Sequence[int], lane_axis: bool) -> list[np.ndarray]:
    """The parameters as inputs: rows of own_params for those that differ, else numbers of common_params."""
    inputs, own, common = [], 0, 0
    for example, differs in zip(examples, varies, strict=True):
        shape, size = np.shape(example), int(np.prod(np.shape(example)))
        name, first = ("own_params", own) if differs else ("common_params", common)
        dtype = np.asarray(example).dtype
        nodes = [graph.input((name, first + k), dtype, lane=bool(differs), moves=False) for k in range(size)]
        (array,) = scalars.unflatten(nodes, [shape])
        inputs.append(array[..., None] if lane_axis and differs else array)
        own, common = own + size * differs, common + size * (not differs)
    return inputs


def _flat(arrays: Sequence[np.ndarray]) -> list[Entry]:
    return scalars.flatten(arrays)


def _name(entry: Entry) -> Any:
    return (entry.dtype.num, entry.tobytes()) if is_known(entry) else id(entry)


def _one(node: Entry) -> np.ndarray:
    return scalars.unflatten([node], [()])[0]


class UnprintableValues(Unprintable):
    """Raised where the values that statistics compute of a path cannot be taken apart: the step may be."""


@contextlib.contextmanager
def of_statistics() -> Iterator[None]:
    """While the values of statistics are taken apart."""
    try:
        with or_unprintable():
            yield
    except Unprintable as error:
        raise UnprintableValues(str(error)) from error


class OfOnePath:
    """The source of a program: the traces of a run, and how the state of a path is laid out."""

    def __init__(self, spec: Spec, watched: Watched):
        traced: Any = spec.traced
        self.traced, self.watched, self.equal_steps = traced, watched, spec.has_equal_steps
        self.varies, self.examples, self.dtype = spec.varies, spec.examples, spec.dtype
        gathered = [v.aval for v in watched.begin.jaxpr.outvars]
        counted = [watched.counts_iterations, traced.may_round]
        self.layout = State(traced.state_shapes, traced.state_dtypes, gathered, counted)


class Source(OfOnePath):
    """The graphs of a program for one path: its beginning, its step, and the numbers seen at a save."""

    def __init__(self, spec: Spec, watched: Watched):
        super().__init__(spec, watched)
        with of_statistics():
            self.saved, self.saved_dtypes, self.rows_of = self._saved_rows()
        self.begun = self._beginning()
        self.stepped, self.ok = self._stepped(None)
        self.starting = self._stepped("k") if self.traced.starting is not None else None

    def _params(self, graph: Graph, lane_axis: bool = False) -> list[np.ndarray]:
        return params_inputs(graph, self.examples, self.varies, lane_axis)

    def _x(self, graph: Graph, state: Sequence[np.ndarray]) -> np.ndarray:
        return scalars.scalarised(self.traced.read, state, graph)[0]

    def _beginning(self) -> list[Entry]:
        graph = Graph()
        t = _one(graph.input(("t", 0), self.dtype, lane=False))
        n = self.traced.start.jaxpr.invars[1].aval.shape[0]
        x = scalars.inputs_of(graph, "start", (n,), self.dtype)
        state = scalars.scalarised(self.traced.start, [t, x, *self._params(graph)], graph)
        here = self._x(graph, state)
        gathered = scalars.scalarised(self.watched.begin, [t, here[:, None], *self._params(graph, True)], graph)
        counted = self.layout.iterations + self.layout.rounded
        return [*_flat(state), *_flat(gathered), *[INT32.type(0)] * counted]

    def _stepped(self, k: str | None) -> tuple[list[Entry], Entry]:
        """The state after a step, and whether it was solved."""
        graph, layout = Graph(), self.layout
        t = _one(graph.input(("t", 0), self.dtype, lane=False))
        h = _one(graph.input(("h", 0), self.dtype, lane=False, moves=not self.equal_steps))
        leaves = layout.inputs(graph)
        method, gathered = leaves[: layout.method], leaves[layout.method : layout.method + layout.gathered]
        normals, place = [], 0
        for _, count in self.traced.streams:
            entries = [graph.input(("normals", place + j), np.float64, noise=True) for j in range(count)]
            normals += scalars.unflatten([graph.convert(entry, self.dtype) for entry in entries], [(count,)])
            place += count
        common = [t, h] if k is None else [_one(graph.input(("k", 0), INT32, lane=False)), t, h]
        trace = self.traced.step if k is None else self.traced.starting
        outputs = scalars.scalarised(trace, [*common, *method, *normals, *self._params(graph)], graph)
        *after, ok, iterations, rounded = outputs
        results = _flat(after)
        if layout.gathered:
            moved = [x[:, None] for x in (self._x(graph, method), self._x(graph, after))]
            outputs = scalars.scalarised(
                self.watched.track, [t, h, *moved, *gathered, *self._params(graph, True)], graph
            )
            results += _flat(outputs)
        counts = leaves[layout.method + layout.gathered :]
        wanted = [*([iterations] if layout.iterations else []), *([rounded] if layout.rounded else [])]
        for count, more in zip(counts, wanted, strict=True):
            results.append(graph.make("add", INT32, count[()], graph.convert(more[()], INT32)))
        return results, ok[()]

    def _saved_rows(self) -> tuple[list[Entry], list[np.dtype], list[list[np.ndarray]]]:
        """The rows that are written at a save, each once, and of each statistic the numbers of those that are its own.

        The first ones are the components.
        """
        graph, layout, watched = Graph(), self.layout, self.watched
        t = _one(graph.input(("t", 0), self.dtype, lane=False))
        leaves = layout.inputs(graph)
        gathered = leaves[layout.method : layout.method + layout.gathered]
        x = self._x(graph, leaves[: layout.method])
        last = layout.method + layout.gathered
        count = leaves[last][None] if layout.iterations else scalars.known_entries(np.zeros(1, np.int32))
        values = scalars.scalarised(watched.see, [t, x[:, None], count, *gathered, *self._params(graph, True)], graph)
        entries: list[Entry] = _flat([x[: self.traced.start.jaxpr.invars[1].aval.shape[0]]])
        places: dict[Any, int] = {}
        for k, entry in enumerate(entries):
            places.setdefault(_name(entry), k)

        def place(entry: Entry) -> int:
            if _name(entry) not in places:
                places[_name(entry)] = len(entries)
                entries.append(entry)
            return places[_name(entry)]

        numbers = [np.array([place(e) for e in _flat([array])]).reshape(array.shape[:-1]) for array in values]
        rest = iter(numbers)
        rows_of = [[next(rest) for _ in range(count)] for count in watched.row_counts]
        return entries, [e.dtype for e in entries], rows_of

    scratch = 0  # numbers that a vector of paths needs beside its state
    tables: tuple[np.ndarray, ...] = ()

    @functools.cached_property
    def description(self) -> str:
        """How it is printed, in words."""
        return f"{self.operations()} scalar operations per step, {self.width()} paths together"

    def compiled(self, width: int, diagnosing: bool = False) -> compiling.Program:
        return printed(self, width, diagnosing)

    # --- how wide -----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _size(self) -> tuple[int, int]:
        """Operations of a step, and the longest chain of them, without those that few paths need."""
        nodes, depth = reachable(self.stepped, rare=False), dict[int, int]()
        for node in nodes:
            depth[id(node)] = 1 + max([depth.get(id(a), 0) for a in node.args], default=0)
        return rows.operations(nodes), max(depth.values(), default=0)

    def operations(self) -> int:
        return self._size[0]

    def width(self) -> int:
        """Paths taken together: as many as leave the processor neither waiting nor short of registers."""
        register, (count, depth) = compiling.processor().register, self._size
        if count < TINY or (count < SHORT and count < SERIAL // 2 * depth):
            return 4 * register
        return 2 * register if count < SERIAL * depth else register


def past_a_save(w: Function, q: str, due: str, reached: str, on: str, first: str = "") -> tuple[str, str]:
    """End the block of save number q, due after step `due`, and open the block `on`, which steps without a save reach
    from `reached`: there, the number of the next save and when it is due. Saves are listed from `first` on."""
    next_q = w.value(f"add nsw i64 {q}, 1")
    index = w.whole("add", next_q, w.count(first)) if first else next_q
    next_due = w.load(w.at(w.address("saves"), index, 8), "i64")
    saved = w.block
    w.jump(on)
    w.open(on)
    after_q = w.value(f"phi i64 [ {q}, %{reached} ], [ {next_q}, %{saved} ]")
    return after_q, w.value(f"phi i64 [ {due}, %{reached} ], [ {next_due}, %{saved} ]")


def printed(source: Source, width: int, diagnosing: bool = False) -> compiling.Program:
    """The functions begin, look, run and, where the method has them, starting.

    Diagnosing ones write down when each path failed, and why.
    """
    layout = source.layout
    functions = [
        rows.mapped("begin", width, source.begun, layout.dtypes, FRAME, "state"),
        rows.mapped("look", width, source.saved, source.saved_dtypes, FRAME, "seen"),
        _Advance("run", width, source, source.stepped, source.ok, diagnosing).function(),
    ]
    if source.starting is not None:
        functions.append(_Advance("starting", width, source, *source.starting, diagnosing).function())
    operations = max(function.operations for function in functions)
    names = [function.name for function in functions]
    return compiling.Program(rows.module(functions), names, operations, source.operations())


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
            is_own = isinstance(first, Node) and first.op == "input" and first.attr == ("state", k)
            if loop.is_branch and is_own and readers[id(first)] == 1:
                changed[k] = (loop.number, place)
    return changed


class _Advance:
    """for each chunk of paths: for each slab of steps: draw its normals; for each vector of paths: step by step.

    A chunk is a whole number of groups of generators and of vectors. After the steps listed in `saves`, which ends with
    -1, the observed numbers go to the rows of `seen`, save by save.
    """

    def __init__(self, name: str, width: int, source: Source, results: list[Entry], ok: Entry, diagnosing: bool):
        self.w = Function(name, width, FRAME)
        self.source, self.results, self.ok, self.diagnosing = source, results, ok, diagnosing
        self.width, self.chunk = width, max(width, GROUP)
        layout, here = source.layout, compiling.processor()
        self.printer = Printer(self.w, [*results, ok] if diagnosing else results, self.input_value)
        self.w.operations = len(self.printer.nodes)
        more = range(layout.of_method, len(layout.dtypes))
        self.in_branches = _changed_by_branches(results, self.printer.readers, more)
        room = 24 if here.registers >= 32 else 10
        self.in_memory = (len(layout.dtypes) - len(self.in_branches)) * max(width // here.register, 1) > room
        self.place: dict[str, str] = {}

    def function(self) -> Function:
        w, source = self.w, self.source
        self.stride = w.whole("mul", w.count("stride"), 8)
        w.head.append("  %next_save = alloca i64, align 8")
        if self.in_memory:
            size = len(source.layout.dtypes) * self.width
            w.head += [f"  %{name} = alloca [{size} x double], align 64" for name in ("one", "other")]
        for node in self.printer.nodes:  # nodes that are the same for all paths and steps
            if not node.lane and not node.moves and not node.loops and node.op not in ("literal", "carried"):
                self.printer.need(node)
        with w.counted(w.count("first_lane"), w.count("last_lane"), self.chunk) as lane:
            w.store("0", "%next_save", "i64")
            with w.counted(0, w.count("steps"), w.count("slab")) as first:
                left = w.whole("sub", w.count("steps"), first)
                is_short = w.value(f"icmp slt i64 {left}, {w.count('slab')}")
                steps = w.value(f"select i1 {is_short}, i64 {left}, i64 {w.count('slab')}")
                self.draw(lane, steps)
                save = w.load("%next_save", "i64")
                with w.counted(0, self.lanes_left(lane), self.width) as part, self.printer.scope():
                    self.vector(w.whole("add", lane, part), part, first, steps, save)
        return w

    def lanes_left(self, lane: str) -> str | int:
        """How many lanes of the chunk that begins at `lane` are computed: the last one may hold few paths."""
        if self.chunk == self.width:
            return self.chunk
        left = self.w.whole("sub", self.w.count("last_lane"), lane)
        return self.w.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {self.chunk})")

    # --- normals ------------------------------------------------------------------------------------------------------

    def stream_at(self, number: int) -> str:
        """The slab of a stream: [group][step][channel][8]."""
        before = sum(count for _, count in self.source.traced.streams[:number]) * (self.chunk // GROUP) * GROUP * 8
        return self.w.at(self.w.address("normals"), self.w.whole("mul", self.w.count("slab"), before))

    def draw(self, lane: str, steps: str) -> None:
        w = self.w
        for number, (_, count) in enumerate(self.source.traced.streams):
            slab, group = self.stream_at(number), w.whole("sdiv", lane, GROUP)
            first = w.whole("add", group, w.whole("mul", w.count("groups"), number))
            total = w.whole("mul", steps, count)
            apart = w.whole("mul", w.count("slab"), count * GROUP * 8)
            for k in range(self.chunk // GROUP):
                generators = w.at(w.address("generators"), w.whole("add", first, k), GENERATORS)
                out = w.at(slab, w.whole("mul", apart, k))
                w.emit(f"call void {w.address('fill')}(ptr {generators}, ptr {out}, i64 {total}, i64 {GROUP})")

    def normal(self, place: int) -> str:
        """Normal number `place` of a step, counted through the streams, for the paths of the vector."""
        w, number = self.w, 0
        while place >= self.source.traced.streams[number][1]:
            place -= self.source.traced.streams[number][1]
            number += 1
        count = self.source.traced.streams[number][1]
        row = w.whole("add", w.whole("mul", self.place["step_in_slab"], count), place)
        address = w.at(self.stream_at(number), row, GROUP * 8)
        if self.width <= GROUP:
            return w.load(w.at(address, self.place["part"], 8), w.type("float64"))
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

    # --- inputs -------------------------------------------------------------------------------------------------------

    def input_value(self, node: Node) -> str:
        w, (array, k) = self.w, node.attr
        if array == "normals":
            return self.normal(k)
        if array == "state":
            return w.load_row(w.at(self.place["now"], k * self.width, 8), node.dtype)
        if array == "t":
            return w.load_row(w.at(w.address("t"), self.place["step"], 8), node.dtype, False)
        if array == "h":
            step = 0 if self.source.equal_steps else self.place["step"]
            return w.load_row(w.at(w.address("h"), step, 8), node.dtype, False)
        if array == "k":
            return w.value(f"trunc i64 {w.whole('add', self.place['step'], w.count('first_step'))} to i32")
        if array == "common_params":
            return w.load_row(w.at(w.address(array), k, 8), node.dtype, False)
        return w.load_row(
            w.at(w.at(w.address(array), w.whole("mul", self.stride, k)), self.place["lane"], 8), node.dtype
        )

    def state_at(self, k: int, lane: str) -> str:
        return self.w.at(self.w.at(self.w.address("state"), self.w.whole("mul", self.stride, k)), lane, 8)

    # --- the steps of a vector of paths -------------------------------------------------------------------------------

    def vector(self, lane: str, part: str, first: str, steps: str, save: str) -> None:
        w, printer = self.w, self.printer
        dtypes = {k: dtype for k, dtype in enumerate(self.source.layout.dtypes) if k not in self.in_branches}
        self.place |= {"lane": lane, "part": part}
        printer.homes = {branch: self.state_at(k, lane) for k, branch in self.in_branches.items()}
        for node in printer.nodes:  # nodes of single paths that are the same in all steps
            if not node.moves and not node.loops and node.op not in ("literal", "carried"):
                printer.need(node)
        begun = {k: w.load_row(self.state_at(k, lane), dtype) for k, dtype in dtypes.items()}
        if self.in_memory:
            for k, dtype in dtypes.items():
                w.store_row(begun[k], w.at("%one", k * self.width, 8), dtype)
        end, before = w.whole("add", first, steps), w.block
        listed = w.load(w.at(w.address("saves"), save, 8), "i64")
        head, saving, on, done = w.fresh("step"), w.fresh("save"), w.fresh("on"), w.fresh("done")
        i, q, due = (f"%{w.fresh(word)}" for word in ("i", "q", "due"))
        w.jump(head)
        w.open(head)
        place = len(w.lines)
        names = {} if self.in_memory else {k: f"%{w.fresh('s')}" for k in dtypes}
        now, then = f"%{w.fresh('now')}", f"%{w.fresh('then')}"
        w.lines += [""] * (3 + (2 if self.in_memory else len(names)))
        self.place |= {"step": i, "step_in_slab": w.whole("sub", i, first), "now": now}
        with printer.scope():
            by_name = {node.attr: node for node in printer.nodes if node.op == "input"}
            for k, name in names.items():
                if ("state", k) in by_name:
                    printer.name(by_name["state", k], name)
            after = {}
            for k, dtype in dtypes.items():
                after[k] = printer.read(self.results[k])
                if self.in_memory:
                    w.store_row(after[k], w.at(then, k * self.width, 8), dtype)
            for k in self.in_branches:
                printer.need(self.results[k])
            following = w.value(f"add nsw i64 {i}, 1")
            if self.diagnosing:
                self.diagnose(after, printer.read(self.ok), following, lane)
            w.branch(w.value(f"icmp eq i64 {following}, {due}"), saving, on)
            reached = w.block
            w.open(saving)
            self.see(after, then, following, q, lane)
            after_q, after_due = past_a_save(w, q, due, reached, on)
        w.branch(w.value(f"icmp slt i64 {following}, {end}"), head, done)
        phis = [(i, "i64", first, following), (q, "i64", save, after_q), (due, "i64", listed, after_due)]
        if self.in_memory:
            phis += [(now, "ptr", "%one", then), (then, "ptr", "%other", now)]
        else:
            phis += [(names[k], w.type(dtype), begun[k], after[k]) for k, dtype in dtypes.items()]
        w.carry(place, before, phis)
        w.open(done)
        for k, dtype in dtypes.items():
            x = w.load_row(w.at(then, k * self.width, 8), dtype) if self.in_memory else after[k]
            w.store_row(x, self.state_at(k, lane), dtype)
        w.store(after_q, "%next_save", "i64")

    def see(self, after: dict[int, str], then: str, following: str, save: str, lane: str) -> None:
        """Write the rows that are seen after a step."""
        w, source = self.w, self.source

        def input_value(node: Node) -> str:
            array, k = node.attr
            if array == "state" and k in self.in_branches:
                return w.load_row(self.state_at(k, lane), node.dtype)
            if array == "state":
                return w.load_row(w.at(then, k * self.width, 8), node.dtype) if self.in_memory else after[k]
            if array == "t":
                return w.load_row(w.at(w.address("t"), following, 8), node.dtype, False)
            return self.input_value(node)

        printer = Printer(w, source.saved, input_value)
        first = w.whole("mul", w.whole("mul", save, len(source.saved)), self.stride)
        base = w.at(w.address("seen"), first)
        for k, (result, dtype) in enumerate(zip(source.saved, source.saved_dtypes, strict=True)):
            x = printer.read(result)
            w.store_row(x, w.at(w.at(base, w.whole("mul", self.stride, k)), lane, 8), dtype)

    def diagnose(self, after: dict[int, str], ok: str, following: str, lane: str) -> None:
        """The step after which the state of a path was first not finite, and whether its solve failed there."""
        w, layout = self.w, self.source.layout
        mask, word = w.type("bool"), w.type("int64")
        sound = "splat (i1 true)"
        for k, dtype in enumerate(layout.dtypes[: layout.of_method]):
            if dtype.kind == "f":
                T = w.type(dtype)
                difference = w.value(f"fsub {T} {after[k]}, {after[k]}")
                sound = w.value(f"and {mask} {sound}, {w.value(f'fcmp oeq {T} {difference}, zeroinitializer')}")
        failed, unsolved = (w.at(w.address(name), lane, 8) for name in ("failed", "unsolved"))
        old = w.load(failed, word)
        unknown = w.value(f"icmp slt {word} {old}, zeroinitializer")
        fresh = w.value(f"and {mask} {unknown}, {w.value(f'xor {mask} {sound}, splat (i1 true)')}")
        w.store(
            w.value(f"select {mask} {fresh}, {word} {self.printer.spread(following, 'int64')}, {word} {old}"),
            failed,
            word,
        )
        not_ok = w.value(f"zext {mask} {w.value(f'xor {mask} {ok}, splat (i1 true)')} to {word}")
        w.store(w.value(f"select {mask} {fresh}, {word} {not_ok}, {word} {w.load(unsolved, word)}"), unsolved, word)
