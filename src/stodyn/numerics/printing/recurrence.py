"""A recursion over the rows of data, as lax.scan of a function that is mapped over lanes, but compiled in milliseconds.

    carry, kept[k] <- function(carry, table[which[k]], fixed, rows[k])   for k = 0, 1, ..., in every lane

The function is traced for one lane and one row, printed as scalars, and put into two loops, over vectors of lanes and
over rows. Where it cannot be printed, or is too long, XLA compiles the same.

A part of the carry may come to rest although the rest goes on, as the covariance of a filter does whose readings are
equally far apart. Its function then stands apart,

    slow, link, is_settled <- settling(slow, table[which[k]], fixed, rows[k])
    carry, kept[k] <- function(carry, link, table[which[k]], fixed, rows[k])

and is left out, with its last link, in rows that repeat the one before once it has settled in all lanes of a vector.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax import lax
from jax.extend import core

from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing import compiling, rows, scalars
from stodyn.numerics.printing.fingerprints import fingerprint
from stodyn.numerics.printing.llvm import Printer
from stodyn.numerics.printing.nodes import Entry, Graph, Node, reachable
from stodyn.numerics.printing.points import MOST_OPERATIONS, QUICK
from stodyn.numerics.printing.unprintable import Unprintable, or_unprintable

FAST, SLOW = ("carry", "link", "table", "fixed", "row"), ("slow", "table", "fixed", "row")
FRAME = ("carry", "slow", "link", "table", "fixed", "row", "which", "repeats", "settled", "kept", "first_lane",
         "last_lane", "stride", "length")  # fmt: skip


class Rows(NamedTuple):
    """The rows of data, prepared once: a tree of arrays, which entry of the table belongs to each row, and whether a
    row has the same entry and the same numbers, as far as `settling` reads them, as the one before."""

    tree: Any
    which: np.ndarray
    repeats: np.ndarray | None
    words: np.ndarray


def prepared(tree: Any, which: np.ndarray, pattern: Sequence[np.ndarray] | None = None) -> Rows:
    """Return rows; `pattern` has those of their numbers that `settling` reads."""
    which = np.ascontiguousarray(which, np.int64)
    leaves = [rows.words(np.asarray(leaf)).reshape(len(which), -1) for leaf in jax.tree.leaves(tree)]
    repeats = None
    if pattern is not None:
        same = [np.diff(part.reshape(len(which), -1).astype(float), axis=0) == 0 for part in (which, *pattern)]
        repeats = np.concatenate([[0], np.concatenate(same, axis=1).all(axis=1)]).astype(np.int64)[: len(which)]
    return Rows(tree, which, repeats, np.concatenate(leaves, axis=1) if leaves else np.zeros((len(which), 1)))


class Traces(NamedTuple):
    """What is printed: the function of a row, and that which settles; with how many leaves each part of their arguments
    has, by its name."""

    fast: core.ClosedJaxpr
    slow: core.ClosedJaxpr | None
    counts: dict[str, int]
    results: Any  # the trees of carry, what is kept, and the slow carry


class Recurrence:
    """function(carry, entry, fixed, row) -> (carry, kept), row by row; all are trees of arrays, in double precision.

    It takes carry and fixed with the lanes first, the table with its entries and then the lanes first, and rows that
    all lanes share. It returns the last carry, and what was kept with the rows and then the lanes first. With
    `settling`, the carry is a pair (slow, carry).
    """

    def __init__(self, function: Callable[..., Any], settling: Callable[..., Any] | None = None):
        self.function, self.settling = function, settling
        self._cache: dict[Any, Traces] = {}
        self._programs: dict[Any, Compiled] = {}

    def __call__(self, carry: Any, table: Any, fixed: Any, data: Rows) -> tuple[Any, Any]:
        slow, fast = carry if self.settling is not None else ((), carry)
        parts = {"slow": slow, "carry": fast, "table": table, "fixed": fixed, "row": data.tree}
        leaves, trees = {}, []
        for name, part in parts.items():
            own, tree = jax.tree.flatten(part)
            leaves[name] = [np.asarray(leaf) for leaf in own]
            trees.append(tree)
        lead = {"table": 2}
        shapes = tuple(tuple((a.shape[lead.get(name, 1) :], a.dtype) for a in part) for name, part in leaves.items())
        lanes = len(leaves["carry"][0])
        with jax.enable_x64(True):
            key = *trees, shapes
            traces = self._cache.get(key)
            if traces is None:
                traces = self._cache[key] = self._traced(parts, shapes)
            width = _width(lanes)
            program = self._programs.get((key, width))
            if program is None:
                program = self._programs[key, width] = _compiled(traces, width)
            results = program(leaves, data, lanes)
        last, series, slow = (jax.tree.unflatten(tree, part)
                              for tree, part in zip(traces.results, results, strict=True))  # fmt: skip
        return (last if self.settling is None else (slow, last)), series

    def _traced(self, parts: dict[str, Any], shapes: Any) -> Traces:
        """The traces for one lane and one row."""
        examples = {
            name: jax.tree.unflatten(jax.tree.structure(part), [jax.ShapeDtypeStruct(*own) for own in shape])
            for (name, part), shape in zip(parts.items(), shapes, strict=True)
        }
        link: Any = ()
        slow = None
        if self.settling is not None:
            slow, (_, link, _) = _trace_of(self.settling, *(examples[name] for name in SLOW))
            fast, (carry, series) = _trace_of(self.function, *(({"link": link} | examples)[name] for name in FAST))
        else:
            fast, (carry, series) = _trace_of(self.function, *(examples[name] for name in FAST if name != "link"))
        counts = {name: len(jax.tree.leaves(part)) for name, part in ({"link": link} | examples).items()}
        return Traces(fast, slow, counts, tuple(map(jax.tree.structure, (carry, series, parts["slow"]))))


def _trace_of(function: Callable[..., Any], *examples: Any) -> tuple[core.ClosedJaxpr, Any]:
    """The trace of a function of trees, as one of their leaves, and the shapes of its results."""
    leaves, tree = jax.tree.flatten(examples)
    return jax.make_jaxpr(lambda *own: function(*jax.tree.unflatten(tree, own)), return_shape=True)(*leaves)


# Of the leaves of the parts, the rows, and how many lanes; with the leaves of the last carry, the series and the slow.
Compiled: TypeAlias = Callable[[dict[str, list[np.ndarray]], Rows, int], list[list[np.ndarray]]]
_programs: Bounded[str, Any] = Bounded(64)
_making = threading.Lock()


def _width(lanes: int) -> int:
    """How many lanes a program takes at a time."""
    register = compiling.processor().register if compiling.unavailable() is None else 1
    return 1 if lanes == 1 else register if lanes <= register else 2 * register


def _compiled(traces: Traces, width: int) -> Compiled:
    """The program of traces for so many lanes at a time."""
    prints = [None if own is None else fingerprint(own) for own in (traces.fast, traces.slow)]
    key = hashlib.sha256(repr((prints, traces.counts, width, compiling.unavailable())).encode()).hexdigest()
    with _making:
        if key not in _programs:
            try:
                with or_unprintable():
                    _programs[key] = _Printed(traces, width)
            except Unprintable:
                _programs[key] = _ByXla(traces)
        return _programs[key]


class _Section:
    """One of the traces as scalars: its entries, and the shapes, types and sizes of its results."""

    def __init__(self, closed: core.ClosedJaxpr, names: Sequence[str], counts: dict[str, int]):
        graph, inputs, self.sizes = Graph(), [], dict.fromkeys(names, 0)
        variables = iter(closed.jaxpr.invars)
        for part in names:
            for _ in range(counts[part]):
                aval = next(variables).aval
                first = self.sizes[part]
                self.sizes[part] += int(np.prod(aval.shape))
                nodes = [graph.input((part, k), aval.dtype, lane=part != "row") for k in range(first, self.sizes[part])]
                inputs += scalars.unflatten(nodes, [aval.shape])
        self.results = [(v.aval.shape, v.aval.dtype, int(np.prod(v.aval.shape))) for v in closed.jaxpr.outvars]
        self.entries: list[Entry] = scalars.flatten(scalars.scalarised(closed, inputs, graph))
        self.dtypes = [dtype for _, dtype, size in self.results for _ in range(size)]
        self.operations = rows.operations(reachable(self.entries))
        if self.operations > MOST_OPERATIONS:
            raise Unprintable(f"{self.operations} scalar operations, more than {MOST_OPERATIONS}")


class _Printed:
    """The leaves of the parts -> results, by a printed function."""

    def __init__(self, traces: Traces, width: int):
        reason = compiling.unavailable()
        if reason is not None:
            raise Unprintable(reason)
        self.width, self.carried = width, traces.counts["carry"]
        self.fast = _Section(traces.fast, FAST, traces.counts)
        self.slow = None if traces.slow is None else _Section(traces.slow, SLOW, traces.counts)
        self.stored = len(self.fast.entries) - self.fast.sizes["carry"]
        operations = self.fast.operations + (0 if self.slow is None else self.slow.operations)
        self.program = compiling.Program(rows.module([_looped(width, self.fast, self.slow)]), ["run"], operations)

    def __call__(self, leaves: dict[str, list[np.ndarray]], data: Rows, lanes: int) -> list[list[np.ndarray]]:
        padded = -(-lanes // self.width) * self.width
        length = len(data.which)
        slow, carry, fixed = (_with_lanes(leaves[part], 0, padded) for part in ("slow", "carry", "fixed"))
        table = _with_lanes(leaves["table"], 1, padded)
        series = np.empty((length, self.stored, padded)) if self.stored else carry
        frame = rows.Frame(FRAME)
        frame.set(carry=carry, slow=slow, link=np.empty((max(self.fast.sizes["link"], 1), padded)), table=table,
                  fixed=fixed, row=data.words, which=data.which, settled=np.zeros(1, np.int64), kept=series,
                  repeats=data.which if data.repeats is None else data.repeats, first_lane=0, last_lane=padded,
                  stride=padded, length=length)  # fmt: skip
        self.program.machine(length * padded / self.width)["run"](frame.address)
        results = self.fast.results
        slow_results = [] if self.slow is None else self.slow.results[: len(leaves["slow"])]
        pairs = (carry, results[: self.carried]), (series, results[self.carried :]), (slow, slow_results)
        return [_leaves_of(source, own, lanes) for source, own in pairs]


def _leaves_of(source: np.ndarray, results: Sequence[tuple[Any, Any, int]], lanes: int) -> list[np.ndarray]:
    """Numbers of lanes (..., numbers, lanes) as arrays with the lanes before their own shapes."""
    outputs, used, turned = [], 0, source[..., :lanes].swapaxes(-1, -2)
    for shape, dtype, size in results:
        part = rows.typed(turned[..., used : used + size], dtype)
        outputs.append(part.reshape(*part.shape[:-1], *shape))
        used += size
    return outputs


def _with_lanes(arrays: Sequence[np.ndarray], lead: int, padded: int) -> np.ndarray:
    """Arrays with `lead` axes and the lanes first as one, with the numbers of a lane next to last and lanes last; the
    first lane fills up whole vectors."""
    if not arrays:
        return np.zeros((*(1,) * lead, 1, padded))
    joined = np.concatenate([rows.words(a).reshape(*a.shape[: lead + 1], -1) for a in arrays], axis=-1)
    *first, lanes, numbers = joined.shape
    if lanes == padded:
        return np.ascontiguousarray(joined.swapaxes(-1, -2))
    whole = np.empty((*first, numbers, padded))
    whole[..., :lanes] = joined.swapaxes(-1, -2)
    whole[..., lanes:] = whole[..., :1]
    return whole


def _looped(width: int, fast: _Section, slow: _Section | None) -> rows.Function:
    """The function: for all vectors of lanes, for all rows, results from the row and the carry, which they replace."""
    w = rows.Function("run", width, FRAME)
    stride = w.whole("mul", w.count("stride"), 8)
    begins: dict[str, str] = {}

    def place(part: str, k: int) -> str:
        return w.at(begins[part], w.whole("mul", stride, k))

    def input_value(node: Node) -> str:
        part, k = node.attr
        if part == "row":
            return w.load_row(w.at(begins["row"], k, 8), node.dtype, False)
        return w.load_row(place(part, k), node.dtype)

    def store(section: _Section, values: list[str], first: str, then: str) -> None:
        """Store the results, the first of them in place of what they came from."""
        for i, (value, dtype) in enumerate(zip(values, section.dtypes, strict=False)):
            size = section.sizes[first]
            w.store_row(value, place(first, i) if i < size else place(then, i - size), dtype)

    sections = [fast] if slow is None else [slow, fast]
    printers = {id(section): Printer(w, section.entries, input_value) for section in sections}
    w.operations = sum(len(printer.nodes) for printer in printers.values())
    stored = max(len(fast.entries) - fast.sizes["carry"], 1)
    with w.counted(w.count("first_lane"), w.count("last_lane"), width) as lane:
        for part in ("carry", "slow", "link", "fixed", "table", "kept"):
            begins[part] = w.at(w.address(part), lane, 8)
        all_entries, all_kept = begins["table"], begins["kept"]
        w.store("0", w.address("settled"), "i64")
        with w.counted(0, w.count("length")) as k:
            number = w.load(w.at(w.address("which"), k, 8), "i64")
            begins["row"] = w.at(w.address("row"), w.whole("mul", k, 8 * max(fast.sizes["row"], 1)))
            begins["table"] = w.at(all_entries, w.whole("mul", w.whole("mul", number, fast.sizes["table"]), stride))
            begins["kept"] = w.at(all_kept, w.whole("mul", w.whole("mul", k, stored), stride))
            if slow is not None:
                printer, settle, on = printers[id(slow)], w.fresh("settle"), w.fresh("on")
                is_at_rest = w.whole("and", w.load(w.address("settled"), "i64"),
                                     w.load(w.at(w.address("repeats"), k, 8), "i64"))  # fmt: skip
                w.branch(w.value(f"icmp eq i64 {is_at_rest}, 1"), on, settle)
                w.open(settle)
                with printer.scope():
                    *values, settled = [printer.read(entry) for entry in slow.entries]
                    store(slow, values, "slow", "link")
                    moves = printer.any(w.value(f"xor {w.type('bool')} {settled}, {printer.number(np.True_)}"))
                    w.store(w.value(f"zext i1 {w.value(f'xor i1 {moves}, true')} to i64"), w.address("settled"), "i64")
                w.jump(on)
                w.open(on)
            printer = printers[id(fast)]
            with printer.scope():
                # all of them before any is replaced
                store(fast, [printer.read(entry) for entry in fast.entries], "carry", "kept")
    return w


class _ByXla:
    """The recursion by lax.scan."""

    def __init__(self, traces: Traces):
        counts = traces.counts
        fast = _of_lanes(traces.fast, FAST, counts)
        slow = None if traces.slow is None else _of_lanes(traces.slow, SLOW, counts)

        def run(parts: dict[str, Any], which: Any) -> Any:
            def turn(carry: Any, at: Any) -> Any:
                number, row = at
                rest, own = carry
                shared = [leaf[number] for leaf in parts["table"]], parts["fixed"], row
                link: Any = []
                if slow is not None:
                    results = slow(rest, *shared)
                    rest, link = results[: counts["slow"]], results[counts["slow"] : -1]
                results = fast(own, link, *shared)
                return (rest, results[: counts["carry"]]), results[counts["carry"] :]

            (rest, last), series = lax.scan(turn, (parts["slow"], parts["carry"]), (which, parts["row"]))
            return last, series, rest

        self.run = jax.jit(run, compiler_options=QUICK)

    def __call__(self, leaves: dict[str, list[np.ndarray]], data: Rows, lanes: int) -> list[list[np.ndarray]]:
        return [[np.asarray(a) for a in part] for part in self.run(leaves, data.which)]


def _of_lanes(closed: core.ClosedJaxpr, names: Sequence[str], counts: dict[str, int]) -> Callable[..., Any]:
    """A trace of one lane as a function of lists of leaves, over lanes."""
    axes = [None if part == "row" else 0 for part in names for _ in range(counts[part])]
    mapped = jax.vmap(lambda *leaves: core.jaxpr_as_fun(closed)(*leaves), in_axes=axes)
    return lambda *parts: mapped(*(leaf for part in parts for leaf in part))
