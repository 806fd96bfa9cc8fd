"""Where the normals of a run come from: drawn by the generators of its paths, counted as on a GPU, or supplied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from stodyn.noise import counter, path_normals
from stodyn.noise.path_normals import LANES
from stodyn.noise.stream import STREAMS
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.llvm import Printer, Writer
from stodyn.numerics.printing.nodes import Graph, Node

Streams = Sequence[tuple[str, int]]  # names, and how many normals a step takes of each


class DrawnNormals:
    """The normals of a run, drawn from its seed by a generator for each path."""

    name = path_normals.DEFINITION

    def __init__(self, seed: int):
        self.seed = seed

    def states(self, stream: str, first_path: int, paths: int) -> np.ndarray:
        """Where a stream of some paths begins: uint64[group][4][8], which the function at `address` advances."""
        return path_normals.states(
            path_normals.key(self.seed, stream), np.arange(first_path, first_path + paths, dtype=np.uint64)
        )

    @property
    def address(self) -> int:
        """The address of void fill(uint64_t state[4][8], double *out, int64_t rows, int64_t stride)."""
        return path_normals.fill_address()

    def feed(self, streams: Streams, first_path: int, paths: int) -> Callable[[int], list[np.ndarray]]:
        """feed(steps) gives the next normals of some paths: of each stream (steps, count, paths)."""
        states = [self.states(name, first_path, paths) for name, _ in streams]

        def feed(steps: int) -> list[np.ndarray]:
            return [path_normals.fill(state, steps * count).reshape(steps, count, -1)
                    for state, (_, count) in zip(states, streams, strict=True)]  # fmt: skip

        return feed


class PathByPath:
    """The normals of a stream as steps read them, (channels, paths) at a time, in place of a NumPy Generator."""

    def __init__(self, seed: int, stream: str, first_path: int, paths: int):
        self.states = DrawnNormals(seed).states(stream, first_path, paths)

    def standard_normal(self, shape: tuple[int, int]) -> np.ndarray:
        channels, paths = shape
        return path_normals.fill(self.states, channels)[:, :paths]


class Numbered(DrawnNormals):
    """The normals of a seed for paths of any numbers, one for each lane."""

    def __init__(self, seed: int, numbers: np.ndarray):
        super().__init__(seed)
        self.numbers = np.asarray(numbers, np.uint64)

    def states(self, stream: str, first_path: int, paths: int) -> np.ndarray:
        return path_normals.states(path_normals.key(self.seed, stream), self.numbers[first_path : first_path + paths])


class CountedNormals:
    """The normals of a seed as GPUs count them (noise.counter)."""

    name = counter.NAME

    def __init__(self, seed: int):
        self.key = counter.key_of(seed)

    def states(self, stream: str, first_path: int, paths: int) -> np.ndarray:
        """For each group of paths: their numbers, how many normals they have taken, the key, the stream's number."""
        groups_of_states = np.empty((-(-paths // LANES), 4, LANES), np.uint64)
        groups_of_states[:, 0] = first_path + np.arange(groups_of_states[:, 0].size).reshape(-1, LANES)
        groups_of_states[:, 1], groups_of_states[:, 2], groups_of_states[:, 3] = (
            0,
            self.key.view("<u8")[0],
            STREAMS[stream],
        )
        return groups_of_states

    @property
    def address(self) -> int:
        return _counting().address("sd_count")

    def feed(self, streams: Streams, first_path: int, paths: int) -> Callable[[int], list[Any]]:
        """Return a function that gives the normals of the next steps, as that of `DrawnNormals.feed` does, in JAX
        arrays."""
        next_step, numbers = 0, np.uint64(first_path) + np.arange(paths, dtype=np.uint64)

        def feed(steps: int) -> list[Any]:
            nonlocal next_step
            first, next_step = next_step, next_step + steps
            return [_counted(self.key, name, numbers, np.uint64(first * count), steps * count).reshape(steps, count, -1)
                    for name, count in streams]  # fmt: skip

        return feed


_counted = jax.jit(
    lambda key, name, paths, first, count: counter.normals((key[0], key[1]), name, paths, first, count),
    static_argnums=(1, 4),
)


class GivenNormals:
    """Normals that the caller supplies, from the first step on: of each stream (steps, count, paths), 8 k paths."""

    name = "given"

    def __init__(self, normals: Mapping[str, Any]):
        self.normals = {name: np.asarray(z, float) for name, z in normals.items()}
        self._groups = {name: np.ascontiguousarray(z.reshape(-1, z.shape[2] // LANES, LANES).swapaxes(0, 1))
                        for name, z in self.normals.items()}  # fmt: skip

    def states(self, stream: str, first_path: int, paths: int) -> np.ndarray:
        groups = self._groups[stream][first_path // LANES :][: -(-paths // LANES)]
        numbers = np.zeros((len(groups), 4, LANES), np.uint64)
        numbers[:, 0, 0] = [group.ctypes.data for group in groups]
        return numbers

    @property
    def address(self) -> int:
        return _copying().address("sd_copy")

    def feed(self, streams: Streams, first_path: int, paths: int) -> Callable[[int], list[np.ndarray]]:
        next_step = 0

        def feed(steps: int) -> list[np.ndarray]:
            nonlocal next_step
            first, next_step = next_step, next_step + steps
            return [self.normals[name][first:next_step, :, first_path : first_path + paths] for name, _ in streams]

        return feed


Supply = DrawnNormals | CountedNormals | GivenNormals


@compiling.once
def _copying() -> compiling.Machine:
    """void sd_copy(const double **from, double *out, int64_t rows, int64_t stride): rows of eight, side by side."""
    text = f"""
define void @sd_copy(ptr %state, ptr %out, i64 %rows, i64 %stride) {{
  %from = load ptr, ptr %state, align 8
  %bytes = mul i64 %rows, {8 * LANES}
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %from, i64 %bytes, i1 false)
  %behind = getelementptr i8, ptr %from, i64 %bytes
  store ptr %behind, ptr %state, align 8
  ret void
}}
"""
    return compiling.compiled(text, ["sd_copy"], level=1)


@compiling.once
def _counting() -> compiling.Machine:
    """void sd_count(uint64_t state[4][8], double *out, int64_t rows, int64_t stride): the next of eight paths."""
    w, graph = Writer(LANES), Graph()
    words = [graph.input((name, 0), np.uint32, lane=False) for name in ("key0", "key1", "stream")]
    path, number = graph.input(("path", 0), np.uint64), graph.input(("number", 0), np.uint64, lane=False)
    first, second = counter.entries(graph, (words[0], words[1]), words[2], path, number)
    is_odd = graph.input(("is_odd", 0), bool, lane=False)
    result = graph.select(is_odd, second, first, np.float64)
    row = 8 * LANES
    offset, key = (w.load(w.at("%state", k * row), "i64") for k in (1, 2))
    inputs = {
        "path": w.load("%state", w.type("uint64")),
        "key0": w.value(f"trunc i64 {key} to i32"),
        "key1": w.value(f"trunc i64 {w.whole('lshr', key, 32)} to i32"),
        "stream": w.value(f"trunc i64 {w.load(w.at('%state', 3 * row), 'i64')} to i32"),
    }

    def value(node: Node) -> str:
        return inputs[node.attr[0]]

    printer = Printer(w, [result], value)
    with w.counted(0, "%rows") as k, printer.scope():
        place = w.whole("add", offset, k)
        inputs |= {"number": w.whole("lshr", place, 1), "is_odd": w.value(f"trunc i64 {place} to i1")}
        w.store(printer.read(result), w.at("%out", w.whole("mul", k, "%stride"), 8), w.type("float64"))
    behind = w.spread(w.whole("add", offset, "%rows"), "uint64")
    w.store(behind, w.at("%state", row), w.type("uint64"))
    w.emit("ret void")
    text = w.text("void @sd_count(ptr %state, ptr %out, i64 %rows, i64 %stride)")
    return compiling.compiled(text, ["sd_count"], level=3)
