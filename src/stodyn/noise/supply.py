"""Where the normals of a run come from: drawn from the generators of its paths, or given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stodyn.noise import path_normals
from stodyn.noise.path_normals import LANES
from stodyn.numerics.printing import compiling

Streams = Sequence[tuple[str, int]]  # names, and how many normals a step takes of each


class Drawn:
    """The normals of a seed."""

    name = path_normals.DEFINITION

    def __init__(self, seed: int):
        self.seed = seed

    def states(self, stream: str, first_path: int, paths: int) -> np.ndarray:
        """Where a stream of some paths begins: uint64[group][4][8], which the function at `address` moves on."""
        return path_normals.states(path_normals.key(self.seed, stream), first_path + np.arange(paths))

    @property
    def address(self) -> int:
        """Of void fill(uint64_t state[4][8], double *out, int64_t rows, int64_t stride)."""
        return path_normals.fill_address()

    def feed(self, streams: Streams, first_path: int, paths: int) -> Callable[[int], list[np.ndarray]]:
        """feed(steps) gives the next normals of some paths: of each stream (steps, count, paths)."""
        states = [self.states(name, first_path, paths) for name, _ in streams]

        def feed(steps: int) -> list[np.ndarray]:
            return [path_normals.fill(state, steps * count).reshape(steps, count, -1)
                    for state, (_, count) in zip(states, streams, strict=True)]  # fmt: skip

        return feed


class Given:
    """Normals brought along, from the first step on: of each stream (steps, count, paths), paths a multiple of 8."""

    name = "given"

    def __init__(self, normals: Mapping[str, Any]):
        self.normals = {name: np.asarray(z, float) for name, z in normals.items()}
        self._groups = {name: np.ascontiguousarray(z.reshape(-1, z.shape[2] // LANES, LANES).swapaxes(0, 1))
                        for name, z in self.normals.items()}  # fmt: skip

    def states(self, stream: str, first_path: int, paths: int) -> np.ndarray:
        groups = self._groups[stream][first_path // LANES :][: -(-paths // LANES)]
        found = np.zeros((len(groups), 4, LANES), np.uint64)
        found[:, 0, 0] = [group.ctypes.data for group in groups]
        return found

    @property
    def address(self) -> int:
        return _copying().address("sd_copy")

    def feed(self, streams: Streams, first_path: int, paths: int) -> Callable[[int], list[np.ndarray]]:
        taken = 0

        def feed(steps: int) -> list[np.ndarray]:
            nonlocal taken
            first, taken = taken, taken + steps
            return [self.normals[name][first:taken, :, first_path : first_path + paths] for name, _ in streams]

        return feed


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
