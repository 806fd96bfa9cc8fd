"""A recursion over the rows of data, as lax.scan of a function that is mapped over lanes, but compiled in milliseconds.

    carry, kept[k] <- function(carry, table[which[k]], fixed, rows[k])   for k = 0, 1, ..., in every lane

The function is traced for one lane and one row, printed as scalars, and put into two loops, over vectors of lanes and
over rows. Where it cannot be printed, or is too long, XLA compiles the same.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

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

PARTS = ("carry", "table", "fixed", "row")
FRAME = (*PARTS, "which", "kept", "first_lane", "last_lane", "stride", "length")


class Recurrence:
    """function(carry, entry, fixed, row) -> (carry, kept), row by row; all are trees of arrays, in double precision.

    It takes carry and fixed with the lanes first, the table with its entries and then the lanes first, which entry
    belongs to which row, and rows that all lanes share. It returns the last carry, and what was kept with the rows and
    then the lanes first.
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self._cache: dict[Any, Any] = {}

    def __call__(self, carry: Any, table: Any, fixed: Any, which: np.ndarray, rows: Any) -> tuple[Any, Any]:
        parts = carry, table, fixed, rows
        leaves, trees = zip(*(jax.tree.flatten(part) for part in parts), strict=True)
        arrays = [[np.asarray(leaf) for leaf in part] for part in leaves]
        shapes = tuple(
            tuple((a.shape[lead:], a.dtype) for a in part) for part, lead in zip(arrays, (1, 2, 1, 1), strict=True)
        )
        lanes = next(len(leaf) for leaf in arrays[0])
        with jax.enable_x64(True):
            key = trees, shapes
            if key not in self._cache:
                self._cache[key] = self._traced(trees, shapes)
            closed, result = self._cache[key]
            run = _compiled(closed, [len(part) for part in arrays], lanes)
            return jax.tree.unflatten(result, run(arrays, np.ascontiguousarray(which, np.int64), lanes))

    def _traced(self, trees: Any, shapes: Any) -> tuple[core.ClosedJaxpr, Any]:
        """The trace for one lane and one row, and the structure of its results."""

        def flat(*leaves: Any) -> Any:
            parts, first = [], 0
            for tree in trees:
                parts.append(jax.tree.unflatten(tree, leaves[first : first + tree.num_leaves]))
                first += tree.num_leaves
            return self.function(*parts)

        examples = [jax.ShapeDtypeStruct(shape, dtype) for part in shapes for shape, dtype in part]
        closed, out = jax.make_jaxpr(flat, return_shape=True)(*examples)
        return closed, jax.tree.structure(out)


Compiled: TypeAlias = Callable[[Any, np.ndarray, int], list[np.ndarray]]  # of the arrays, which rows, how many lanes
_programs: Bounded[str, Any] = Bounded(64)
_making = threading.Lock()


def _compiled(closed: core.ClosedJaxpr, counts: list[int], lanes: int) -> Compiled:
    """The program of a trace for so many lanes."""
    register = compiling.processor().register if compiling.unavailable() is None else 1
    width = 1 if lanes == 1 else register if lanes <= register else 2 * register
    key = hashlib.sha256(repr((fingerprint(closed), counts, width, compiling.unavailable())).encode()).hexdigest()
    with _making:
        if key not in _programs:
            try:
                with or_unprintable():
                    _programs[key] = _Printed(closed, counts, width)
            except Unprintable:
                _programs[key] = _ByXla(closed, counts)
        return _programs[key]


class _Printed:
    """arrays of the four parts -> results, by a printed function."""

    def __init__(self, closed: core.ClosedJaxpr, counts: list[int], width: int):
        reason = compiling.unavailable()
        if reason is not None:
            raise Unprintable(reason)
        graph, inputs, self.sizes = Graph(), [], dict.fromkeys(PARTS, 0)
        variables = iter(closed.jaxpr.invars)
        for part, count in zip(PARTS, counts, strict=True):
            for _ in range(count):
                aval = next(variables).aval
                first = self.sizes[part]
                self.sizes[part] += int(np.prod(aval.shape))
                nodes = [graph.input((part, k), aval.dtype, lane=part != "row") for k in range(first, self.sizes[part])]
                inputs += scalars.unflatten(nodes, [aval.shape])
        self.results = [(v.aval.shape, v.aval.dtype, int(np.prod(v.aval.shape))) for v in closed.jaxpr.outvars]
        entries: list[Entry] = scalars.flatten(scalars.scalarised(closed, inputs, graph))
        operations = rows.operations(reachable(entries))
        if operations > MOST_OPERATIONS:
            raise Unprintable(f"{operations} scalar operations, more than {MOST_OPERATIONS}")
        self.width, self.carried, self.count = width, counts[0], len(entries)
        dtypes = [dtype for _, dtype, size in self.results for _ in range(size)]
        function = _looped(width, entries, dtypes, self.sizes)
        self.program = compiling.Program(rows.module([function]), ["run"], operations)

    def __call__(self, arrays: Sequence[Sequence[np.ndarray]], which: np.ndarray, lanes: int) -> list[np.ndarray]:
        padded = -(-lanes // self.width) * self.width
        length, stored = len(which), self.count - self.sizes["carry"]
        carry, table, fixed = (_with_lanes(part, lead, padded) for part, lead in zip(arrays, (0, 1, 0), strict=False))
        row = np.concatenate([rows.words(a).reshape(length, -1) for a in arrays[3]], axis=1) if arrays[3] else which
        series = np.empty((length, max(stored, 1), padded))
        frame = rows.Frame(FRAME)
        frame.set(carry=carry, table=table, fixed=fixed, row=np.ascontiguousarray(row), which=which, kept=series,
                  first_lane=0, last_lane=padded, stride=padded, length=length)  # fmt: skip
        self.program.machine(length * padded / self.width)["run"](frame.address)
        outputs, used = [], 0
        for k, (shape, dtype, size) in enumerate(self.results):
            if k == self.carried:
                used = 0
            source = carry if k < self.carried else series
            part = rows.typed(source[..., used : used + size, :lanes], dtype)
            outputs.append(np.moveaxis(part, -1, -2).reshape(*part.shape[:-2], lanes, *shape))
            used += size
        return outputs


def _with_lanes(arrays: Sequence[np.ndarray], lead: int, padded: int) -> np.ndarray:
    """Arrays with `lead` axes and the lanes first as one, with the numbers of a lane next to last and lanes last; the
    first lane fills up whole vectors."""
    if not arrays:
        return np.zeros((*(1,) * lead, 1, padded))
    numbers = [rows.words(a).reshape(*a.shape[: lead + 1], -1) for a in arrays]
    joined = np.moveaxis(np.concatenate(numbers, axis=-1), lead, -1)
    missing = padded - joined.shape[-1]
    return np.ascontiguousarray(np.concatenate([joined, np.repeat(joined[..., :1], missing, axis=-1)], axis=-1))


def _looped(width: int, results: Sequence[Entry], dtypes: Sequence[Any], sizes: dict[str, int]) -> rows.Function:
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

    printer = Printer(w, results, input_value)
    w.operations = len(printer.nodes)
    with w.counted(w.count("first_lane"), w.count("last_lane"), width) as lane:
        for part in ("carry", "fixed", "table", "kept"):
            begins[part] = w.at(w.address(part), lane, 8)
        all_entries, all_kept = begins["table"], begins["kept"]
        with w.counted(0, w.count("length")) as k, printer.scope():
            number = w.load(w.at(w.address("which"), k, 8), "i64")
            begins["row"] = w.at(w.address("row"), w.whole("mul", k, 8 * sizes["row"]))
            begins["table"] = w.at(all_entries, w.whole("mul", w.whole("mul", number, sizes["table"]), stride))
            stored = len(results) - sizes["carry"]
            begins["kept"] = w.at(all_kept, w.whole("mul", w.whole("mul", k, max(stored, 1)), stride))
            values = [printer.read(result) for result in results]  # all of them before any is replaced
            for i, (value, dtype) in enumerate(zip(values, dtypes, strict=True)):
                part, place_in_part = ("carry", i) if i < sizes["carry"] else ("kept", i - sizes["carry"])
                w.store_row(value, place(part, place_in_part), dtype)
    return w


class _ByXla:
    """The same by lax.scan."""

    def __init__(self, closed: core.ClosedJaxpr, counts: list[int]):
        one_lane = core.jaxpr_as_fun(closed)
        axes = [None if part == "row" else 0 for part, count in zip(PARTS, counts, strict=True) for _ in range(count)]
        mapped = jax.vmap(lambda *leaves: one_lane(*leaves), in_axes=axes)

        def run(carry: Any, table: Any, fixed: Any, which: Any, row: Any) -> Any:
            def turn(carry: Any, at: Any) -> Any:
                number, row = at
                results = mapped(*carry, *(leaf[number] for leaf in table), *fixed, *row)
                return results[: counts[0]], results[counts[0] :]

            last, series = lax.scan(turn, carry, (which, row))
            return [*last, *series]

        self.run = jax.jit(run, compiler_options=QUICK)

    def __call__(self, arrays: Sequence[Any], which: np.ndarray, lanes: int) -> list[np.ndarray]:
        carry, table, fixed, row = arrays
        return [np.asarray(a) for a in self.run(carry, table, fixed, which, row)]
