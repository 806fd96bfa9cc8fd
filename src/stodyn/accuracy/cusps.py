"""Places that steps cross and at which the order of every method is 1/2: roots of the diffusion, such as that of √|r|
instead of √max(r, 0), which true paths do not cross, and jumps of it.

Where the noise vanishes as a root, dr = b dt + σ √|r| dW, paths that have come to one side stay there. Steps do not:
they go on beyond the root, where √|r| makes them as noisy as before, and f is off by about √h. It is seen on a few
paths: along a step, the noise of a channel falls towards zero and rises again, like a power below 3/4 of the distance
on either side. A jump is seen there too: however short a part of the step, the diffusion is another at its ends.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stodyn.numerics.printing.points import AtPoints

PATHS, MOST = 256, 256  # paths, and their steps at most
SHARE = 0.02  # of the paths that cross a root, from which the order is taken to be low
PLACES, LOW = 17, 0.4  # places along a step; the least of the noise, as a share of that at both ends, to look closer
ZOOMS = 6  # times that the neighbourhood of the least is looked at more closely
POWER = 0.75  # of the distance, below which the noise is a root
LEAST_JUMP = 0.05  # of the largest entry of the noise along a step
STAYS = 0.75  # share of the largest change between places that is left where a jump is looked at closely
FAR = 1e100  # beyond which paths stay where they are
LARGE = 1024  # entries of a diffusion beyond which nobody looks

WORDS = (
    "steps cross a place where the diffusion jumps, or where it is zero like a root, as √|r| is, and go on beyond it, "
    "where true paths do not come: levels differ by about the root of their step. Write jnp.sqrt(jnp.maximum(r, 0)) if "
    "r stays positive, and a smooth change in place of a jump if there is one"
)


def crosses_roots_or_jumps(problem: Any, t: tuple[float, float], steps: int) -> bool:
    """Whether paths of Euler's method often cross a point at which the noise of a channel vanishes like a root, or
    jumps."""
    if problem.noise_structure.implies("additive") or problem.n * problem.m > LARGE:
        return False
    params, n = problem.example_params(), min(steps, MOST)
    f, g = (AtPoints(lambda t, x, one=one: one(t, x, params), (0, 0)) for one in (problem.f, problem.g))
    rng, h = np.random.default_rng(0), (t[1] - t[0]) / n
    x = np.tile(np.asarray(problem.example_start(), float), (PATHS, 1))
    has_crossed = np.zeros(PATHS, bool)
    for k in range(n):
        now = np.full(PATHS, t[0] + k * h)
        noise = np.asarray(g(now, x))
        W = math.sqrt(h) * rng.standard_normal(noise[:, 0].shape)
        with np.errstate(all="ignore"):
            moves = h * np.asarray(f(now, x)) + np.einsum("pij,pj->pi", noise, W)
            moves = np.where(np.abs(x + moves) < FAR, moves, 0.0)  # explicit steps may run away
        along = _along(g, now, x, moves)
        looked_at = along(np.tile(np.linspace(0.0, 1.0, PLACES), (PATHS, 1)))
        has_crossed |= _crosses_root(along, looked_at) | _crosses_jump(along, looked_at)
        x = x + moves
    return bool(np.mean(has_crossed) > SHARE)


def _along(noise: Any, t: np.ndarray, x: np.ndarray, moves: np.ndarray) -> Any:
    """The noise (paths, places, n, m) at shares (paths, places) of the moves; `of`: of these paths only."""

    def along(shares: np.ndarray, of: Any = slice(None)) -> np.ndarray:
        points = x[of, None] + shares[..., None] * moves[of, None]
        flat = np.asarray(noise(np.repeat(t[of], shares.shape[1]), points.reshape(-1, x.shape[1])))
        return flat.reshape(*shares.shape, *flat.shape[1:])

    return along


def _crosses_jump(along: Any, noise: np.ndarray) -> np.ndarray:
    """Which of the moves cross a place at which an entry of the noise jumps; a change of its sign alone is none."""
    count = len(noise)
    paths, shares = np.arange(count), np.tile(np.linspace(0.0, 1.0, PLACES), (count, 1))
    least = LEAST_JUMP * np.abs(noise).max(axis=(1, 2, 3))
    for _ in range(ZOOMS):
        changes = np.abs(np.diff(np.abs(noise), axis=1)).max(axis=(2, 3))
        rows = np.flatnonzero(changes.max(axis=1) > least)
        if not len(rows):
            break
        places, paths = changes[rows].argmax(axis=1), paths[rows]
        shares = np.linspace(shares[rows, places], shares[rows, places + 1], PLACES, axis=1)
        noise, least = along(shares, paths), STAYS * changes[rows, places]
    else:
        return np.isin(np.arange(count), paths)
    return np.zeros(count, bool)


def _crosses_root(along: Any, noise: np.ndarray) -> np.ndarray:
    """Which of the moves cross a root of the size of a channel's noise."""
    grid, values = np.linspace(0.0, 1.0, PLACES), np.linalg.norm(noise, axis=2)
    is_low = values.min(axis=1) < LOW * np.minimum(values[:, 0], values[:, -1])
    crossed = np.zeros(len(noise), bool)
    for channel in np.flatnonzero(is_low.any(axis=0)).tolist():

        def sizes(shares: np.ndarray, channel: int = channel) -> np.ndarray:
            return np.linalg.norm(along(shares)[:, :, :, channel], axis=2)

        lowest, width = grid[values[:, :, channel].argmin(axis=1)], grid[1]
        for _ in range(ZOOMS):
            near = lowest[:, None] + width * np.linspace(-1.0, 1.0, PLACES)
            lowest = np.take_along_axis(near, sizes(near).argmin(axis=1)[:, None], axis=1)[:, 0]
            width *= 2.0 / (PLACES - 1)
        places = np.array([-16.0, -1.0, 1.0, 16.0]) * 16 * width
        far, near, after, beyond = sizes(lowest[:, None] + places).T
        with np.errstate(all="ignore"):
            powers = np.log2(np.array([far / near, beyond / after])) / 4.0
        crossed |= is_low[:, channel] & np.all((powers > 1 - POWER) & (powers < POWER), axis=0)
    return crossed
