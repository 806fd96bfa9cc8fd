"""Newton's method for many maxima at once: a lane for each start or for each place of a profile.

Steps are those of -H with its eigenvalues made positive and no smaller than a damping, which grows after a step that
does not climb and falls after one that does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

ROUNDS = 100
ENOUGH = 15  # rounds after which the search ends with the highest lane
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-12, 1e12
FLAT = 1e-10  # of a Newton step's gain in the logarithm: less is the end
LONGEST = 2.0  # of a step along any coordinate, in units of the line


class Climbed(NamedTuple):
    """Maxima: places (lanes, p), values (lanes,), slopes, curvatures (lanes, p, p), and whether each is one."""

    u: np.ndarray
    value: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    converged: np.ndarray


def climb(
    function: Callable, u: np.ndarray, is_free: np.ndarray, report: Callable[[int], None], *, for_all: bool
) -> Climbed:
    """Return maxima of function(u) -> value, slope and curvature, from u (lanes, p) on, along free coordinates.

    report(k) is called where k more lanes have ended. Unless the maxima of all lanes are wanted, those that are still
    below the highest one after some rounds are left where they are, not converged.
    """
    u = np.array(u, float)
    value, slope, curvature = _usable(function(u))
    damping = np.full(len(u), FIRST_DAMPING)
    converged = np.zeros(len(u), bool)
    active = np.isfinite(value)
    report(int((~active).sum()))
    for turn in range(ROUNDS):
        if not active.any() or (not for_all and turn >= ENOUGH and converged[int(np.argmax(value))]):
            break
        before = int(active.sum())
        lanes, gains = np.flatnonzero(active), np.zeros(len(u))
        trial = u[lanes]
        for i, k in enumerate(lanes):
            step, gains[k] = _step(slope[k], curvature[k], damping[k], is_free[k])
            trial[i] += step
        new = _usable(function(trial))
        for i, k in enumerate(lanes):
            # The gain of the last step is below the rounding of the value, and shows in the slope alone.
            is_flatter = gains[k] < FLAT and np.abs(new[1][i][is_free[k]]).sum() < np.abs(slope[k][is_free[k]]).sum()
            if np.isfinite(new[0][i]) and (new[0][i] > value[k] or is_flatter):
                u[k], value[k], slope[k], curvature[k] = trial[i], *(part[i] for part in new)
                damping[k] = max(damping[k] / 10.0, LEAST_DAMPING)
            else:
                damping[k] *= 10.0
            converged[k] = gains[k] < FLAT
            active[k] = not converged[k] and damping[k] < MOST_DAMPING
        report(before - int(active.sum()))
    return Climbed(u, value, slope, curvature, converged)


def _usable(parts: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, slopes and curvatures; values are -inf where a derivative is not finite, as far away it may not be."""
    value, slope, curvature = (np.array(part) for part in parts)
    is_finite = np.isfinite(slope).all(axis=1) & np.isfinite(curvature).all(axis=(1, 2))
    return np.where(is_finite, value, -np.inf), slope, curvature


def _step(slope: np.ndarray, curvature: np.ndarray, damping: float, is_free: np.ndarray) -> tuple[np.ndarray, float]:
    """A step uphill, and what it gains in a quadratic."""
    step = np.zeros_like(slope)
    if not is_free.any():
        return step, 0.0
    values, vectors = np.linalg.eigh(-curvature[np.ix_(is_free, is_free)])
    sizes = np.maximum(np.abs(values), 1e-12 * max(np.abs(values).max(), 1e-300)) + damping
    along = vectors.T @ slope[is_free]
    step[is_free] = vectors @ (along / sizes)
    longest = np.abs(step).max()
    return step * min(1.0, LONGEST / max(longest, 1e-300)), float(0.5 * np.sum(along**2 / sizes))
