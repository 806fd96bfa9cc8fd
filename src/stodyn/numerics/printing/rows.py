"""Functions of many paths in machine code: numbers lie in rows over the paths, eight bytes each.

A function takes the address of a frame, a table of addresses and counts. A row is [lanes], one number for each path;
reals are stored as doubles, whole numbers and truth values as 64-bit integers, whatever their type in the function.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from stodyn.numerics.printing import compiling, elementary
from stodyn.numerics.printing.llvm import Printer, Writer
from stodyn.numerics.printing.nodes import Entry, Node

DOUBLE = np.dtype(float)


def words(values: np.ndarray) -> np.ndarray:
    """Numbers as they are stored in rows: reals as doubles, others as 64-bit integers; to be read, not changed."""
    if values.dtype is DOUBLE:
        return values
    return values.astype(float, copy=False) if values.dtype.kind == "f" else values.astype(np.int64).view(float)


_byte = ctypes.c_char.from_buffer


def address(array: np.ndarray) -> int:
    """Where an array begins."""
    try:
        return ctypes.addressof(_byte(array))  # type: ignore[arg-type]  # ten times as fast as array.ctypes.data
    except (TypeError, ValueError, BufferError):  # it is empty, read-only, or not contiguous
        return array.ctypes.data


@functools.cache
def places_of(names: tuple[str, ...]) -> dict[str, int]:
    return {name: k for k, name in enumerate(names)}


class Frame:
    """The arguments of a function by name: addresses and counts; what they point to lives as long as it."""

    def __init__(self, names: Sequence[str]):
        self.places = places_of(tuple(names))
        self.words = np.zeros(len(names), np.int64)
        self.address = address(self.words)
        self._held: dict[str, Any] = {}

    def set(self, **values: Any) -> None:
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                self._held[name] = value
                value = address(value)
            self.words[self.places[name]] = value

    def copy(self) -> Frame:
        """A copy of the arguments, to be changed independently."""
        other = Frame(())
        other.places, other.words, other._held = self.places, self.words.copy(), dict(self._held)
        other.address = address(other.words)
        return other


class Function(Writer):
    """A function of a frame being written: `word(name)` reads one of its words."""

    def __init__(self, name: str, width: int, frame: Sequence[str]):
        super().__init__(width, name)
        self.places = {word: k for k, word in enumerate(frame)}
        self._words: dict[str, str] = {}
        self.operations = 0

    def address(self, name: str) -> str:
        return self._word(name, "ptr")

    def count(self, name: str) -> str:
        return self._word(name, "i64")

    def _word(self, name: str, type_: str) -> str:
        """Read at the beginning, where every block sees it."""
        if name not in self._words:
            slot, value = f"%{self.fresh('slot')}", f"%{name}"
            self.head += [f"  {slot} = getelementptr i8, ptr %frame, i64 {8 * self.places[name]}",
                          f"  {value} = load {type_}, ptr {slot}, align 8"]  # fmt: skip
            self._words[name] = value
        return self._words[name]

    def finished(self) -> str:
        self.emit("ret void")
        is_wide = compiling.processor().register == 8
        wide = ' "prefer-vector-width"="512" "min-legal-vector-width"="512"' if is_wide else ""
        return self.text(f"void @{self.name}(ptr noalias %frame){wide}")


def module(functions: Sequence[Function], for_gpu: bool = False) -> str:
    """The text of a module with these functions and the elementary ones they call."""
    how: dict[str, Any] = {"tabled": False, "inlined": True} if for_gpu else {}
    texts = [function.finished() for function in functions]
    wanted: dict[int, set[str]] = {}
    for function in functions:
        for name, width in function.elementary:
            wanted.setdefault(width, set()).add(name)
    weights = '!0 = !{!"branch_weights", i32 1, i32 1000}'  # of branches that are taken rarely
    tables = [function.table.text() for function in functions if function.table is not None]
    functions_called = [elementary.definitions(names, width, **how) for width, names in sorted(wanted.items())]
    return "\n".join([*tables, *functions_called, *texts, weights, ""])


def operations(nodes: Sequence[Node]) -> int:
    """Scalar operations among the nodes of a graph, a turn of a loop counted once."""
    return sum(node.op not in ("input", "literal", "carried", "result") for node in nodes)


def mapped(
    name: str, width: int, results: Sequence[Entry], dtypes: Sequence[Any], frame: Sequence[str], into: str = "results"
) -> Function:
    """The function that computes rows of results from rows: for (lane = first_lane; lane < last_lane; lane += width).

    Inputs are named (array, k): row k of that array, or number k of an array common to all paths. Results go to the
    rows of the array `into`; a frame has `first_lane`, `last_lane` and `stride`, the lanes of a row.
    """
    w = Function(name, width, frame)
    stride = w.whole("mul", w.count("stride"), 8)
    lane_of: dict[str, str] = {}

    def input_value(node: Node) -> str:
        array, k = node.attr
        if not node.lane:
            return w.load_row(w.at(w.address(array), k, 8), node.dtype, False)
        return w.load_row(w.at(w.at(w.address(array), w.whole("mul", stride, k)), lane_of["here"], 8), node.dtype)

    printer = Printer(w, results, input_value)
    w.operations = len(printer.nodes)
    for node in printer.nodes:
        if not node.lane and not node.loops and node.op not in ("literal", "carried"):
            printer.need(node)
    with w.counted(w.count("first_lane"), w.count("last_lane"), width) as lane, printer.scope():
        lane_of["here"] = lane
        for k, (result, dtype) in enumerate(zip(results, dtypes, strict=True)):
            x = printer.read(result)
            address = w.at(w.at(w.address(into), w.whole("mul", stride, k)), lane, 8)
            w.store_row(x, address, dtype)
    return w


def typed(rows: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers of rows in their own type; to be read, not changed."""
    if dtype is DOUBLE:
        return rows
    if dtype.kind == "f":
        return rows.astype(dtype, copy=False)
    return np.ascontiguousarray(rows).view(np.int64).astype(dtype)
