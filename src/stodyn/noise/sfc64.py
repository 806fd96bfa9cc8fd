"""The generators of paths in NumPy, used where nothing can be compiled: SFC64, SplitMix64's mixing, and the ziggurat.

The numbers are those of the compiled generators (path_normals_code) but for the last digit of normals beyond 3.65.
"""

from __future__ import annotations

import numpy as np

from stodyn.noise.ziggurat import LAYERS, TAIL, layer_table

LANES = 8  # paths whose generators stand side by side
INCREMENT, FIRST_FACTOR, SECOND_FACTOR = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
DISCARDED = 12
U64 = np.uint64


def seeded(key: np.ndarray, paths: np.ndarray) -> np.ndarray:
    """The generators of these paths before their first draw, uint64[4][path]."""
    state = np.stack([*(mixed(word, paths) for word in key), np.ones_like(paths)])
    for _ in range(DISCARDED):
        _draw(state, slice(None))
    return state


def mixed(word: np.uint64, paths: np.ndarray) -> np.ndarray:
    """A word of each path, made of one that all share."""
    z = word + (paths + U64(1)) * INCREMENT
    z = (z ^ (z >> U64(30))) * FIRST_FACTOR
    z = (z ^ (z >> U64(27))) * SECOND_FACTOR
    return z ^ (z >> U64(31))


def _draw(state: np.ndarray, which) -> np.ndarray:
    """Draw the next word of each of the generators `which`."""
    a, b, c, counter = state[:, which]
    word = a + b + counter
    state[:, which] = b ^ (b >> U64(11)), c + (c << U64(3)), ((c << U64(24)) | (c >> U64(40))) + word, counter + U64(1)
    return word


def _uniform(state: np.ndarray, which) -> np.ndarray:
    return (_draw(state, which) >> U64(11)) * 2.0**-53


def fill_normals(out: np.ndarray, state: np.ndarray) -> None:
    """Fill `out` with the next normal of each generator."""
    table = layer_table()
    waiting = np.arange(out.size)
    while waiting.size:
        words = _draw(state, waiting)
        threshold, width, rise, height = table[words & U64(2 * LAYERS - 1)].T
        place = ((words << U64(3)) >> U64(12)).astype(float)
        out[waiting] = x = place * width
        left = place >= threshold
        tail = left & (words & U64(LAYERS - 1) == 0)
        edge = left & ~tail
        under = rise[edge] * _uniform(state, waiting[edge]) + height[edge] < np.exp(-0.5 * x[edge] * x[edge])
        sign = np.where(words[tail] & U64(1 << 17), -1.0, 1.0)
        out[waiting[tail]] = sign * _beyond(state, waiting[tail])
        waiting = waiting[edge][~under]


def _beyond(state: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Draw the sizes of normals that lie in the tail, beyond the ziggurat."""
    values, waiting = np.empty(which.size), np.arange(which.size)
    while waiting.size:
        first = -np.log1p(-_uniform(state, which[waiting])) * (1.0 / TAIL)
        second = -np.log1p(-_uniform(state, which[waiting]))
        values[waiting] = TAIL + first
        waiting = waiting[~(second + second > first * first)]
    return values
