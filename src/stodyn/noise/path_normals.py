"""Standard normals of paths: every path has a generator of its own, so its noise depends on (seed, stream, path) alone.

However many paths, threads, lanes or slabs of steps a run has, path p of stream s reads the same numbers, step by step
and within a step channel by channel:

    k0, k1, k2 = SeedSequence(seed, spawn_key=(number of the stream,)).generate_state(3, uint64)
    a, b, c    = mix(k0 + (p + 1) G), mix(k1 + (p + 1) G), mix(k2 + (p + 1) G)     modulo 2^64, G = 0x9E3779B97F4A7C15
    generator  = SFC64 from the words a, b, c and the counter 1, its first 12 words discarded
    normals    = NumPy's ziggurat of 256 layers (noise.ziggurat), with exp and log1p of numerics.printing.elementary

mix is SplitMix64's (G. Steele, D. Lea & C. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014), SFC64
C. Doty-Humphrey's. The generators of eight paths stand side by side, uint64[4][8], and are advanced together. One
generator for eight paths in common, measured beside it, is not faster (Neoverse-N1: 2.7 ns per normal against 2.6).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike

from stodyn.noise import path_normals_code, sfc64
from stodyn.noise.sfc64 import LANES
from stodyn.noise.stream import STREAMS
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.rows import address

DEFINITION = "SFC64 and ziggurat per path, 1"  # part of a run's identity: renamed whenever a number changes
COMPILED, NUMPY = "compiled", "NumPy"


def _is_compiled(implementation: str | None) -> bool:
    """Whether a draw is compiled: as the argument says, or where it can be."""
    return compiling.unavailable() is None if implementation is None else implementation == COMPILED


@functools.lru_cache(64)
def key(seed: int, stream: str) -> np.ndarray:
    """The three words that all paths of a stream share."""
    if seed < 2 ** (32 * path_normals_code.POOL) and _is_compiled(None):  # in a tenth of NumPy's time
        parts = [seed >> 32 * k & 0xFFFFFFFF for k in range(path_normals_code.POOL)]
        entropy = np.array([*parts, STREAMS[stream]], np.uint32)
        words = np.empty(3, np.uint64)
        path_normals_code.compiled().key(address(entropy), address(words))
        return words
    return np.random.SeedSequence(seed, spawn_key=(STREAMS[stream],)).generate_state(3, np.uint64)


def states(key: np.ndarray, paths: ArrayLike, implementation: str | None = None) -> np.ndarray:
    """The generators of these paths before their first draw, uint64[group][4][8]: path number i in lane i % 8.

    Where the last group is not full, it is filled up with the paths that follow the last one.
    """
    numbers = np.ascontiguousarray(paths, np.uint64).reshape(-1)
    more = -numbers.size % LANES
    if more:
        numbers = np.concatenate([numbers, numbers[-1:] + np.arange(1, more + 1, dtype=np.uint64)])
    if _is_compiled(implementation):
        groups = np.empty((numbers.size // LANES, 4, LANES), np.uint64)
        words = np.ascontiguousarray(key, np.uint64)
        path_normals_code.compiled().seed(address(words), address(numbers), address(groups), numbers.size)
        return groups
    return np.ascontiguousarray(sfc64.seeded(key, numbers).reshape(4, -1, LANES).swapaxes(0, 1))


def fill(states: np.ndarray, rows: int, implementation: str | None = None) -> np.ndarray:
    """The next normals [row][path] of the generators, which are advanced in place."""
    if states.dtype != np.uint64 or states.ndim != 3 or states.shape[1:] != (4, LANES) or not states.flags.c_contiguous:
        raise ValueError(f"states: expected contiguous uint64 (groups, 4, {LANES}), got {states.dtype} {states.shape}")
    count = len(states) * LANES
    out = np.empty((rows, count))
    if _is_compiled(implementation):
        fill_group, first, place = path_normals_code.compiled().fill, states.ctypes.data, out.ctypes.data
        for group in range(len(states)):
            fill_group(first + 32 * LANES * group, place + 8 * LANES * group, rows, count)
        return out
    state = states.swapaxes(0, 1).reshape(4, -1)
    for row in out:
        sfc64.fill_normals(row, state)
    states[:] = state.reshape(4, -1, LANES).swapaxes(0, 1)
    return out


def rows(
    seed: int, stream: str, first_path: int, paths: int, steps: int, channels: int, implementation: str | None = None
) -> np.ndarray:
    """The normals of consecutive paths from the first step on: [step][channel][path]."""
    numbers = range(first_path, first_path + paths)
    normals = fill(states(key(seed, stream), numbers, implementation), steps * channels, implementation)
    return normals.reshape(steps, channels, -1)[:, :, :paths]


def fill_address() -> int:
    """The address of void fill(uint64_t state[4][8], double *out, int64_t rows, int64_t stride).

    It writes out[row * stride + lane]. Eight paths advance by `rows` normals each; a row is a channel of a step.
    The state is advanced in place. It touches nothing else, so any number of threads may call it, each with states
    of its own.
    """
    return path_normals_code.compiled().fill_address


def seed_address() -> int:
    """The address of void seed(const uint64_t key[3], const uint64_t *paths, uint64_t (*states)[4][8], int64_t count).

    The generators of `count` paths before their first draw; lanes beyond them are left alone.
    """
    return path_normals_code.compiled().seed_address
