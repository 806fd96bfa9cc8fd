"""Intervals of a fit: by the profile of the likelihood, or of a normal law."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from stodyn.inference import climbing
from stodyn.inference.line import Line

PLACES = np.array([0.3, 0.7, 1.1, 1.5, 1.8, 2.1, 2.5, 3.0])  # of a profile, in standard deviations on either side
MOST = 6  # parameters
PLAIN = 1e-7  # of the root of a drop: places of a profile this close say nothing of its slope
WIDE = 3.0  # standard deviations on the line of a parameter with a limit, a factor of 20: a parabola says nothing there
REACHES = 0.25 * 1.4 ** np.arange(18)  # along that line, up to 76
FALL = 0.01, 0.5 * PLACES[-1] ** 2  # of log L: where it begins, and as far as a profile is wanted
HIGHER = 1e-6  # of log L: a neighbour whose end, moved over, is this much higher was the better start


class Intervals(NamedTuple):
    """The ends of intervals of 95 % (p,), and profiles (p, points): the values of a parameter, and the drops there."""

    low: np.ndarray
    high: np.ndarray
    values: np.ndarray | None = None
    drops: np.ndarray | None = None


def intervals(
    line: Line, best: climbing.Climbed, spread: np.ndarray, by_profile: bool, report: Callable[[int], None]
) -> Intervals:
    """Return the intervals about a maximum with the covariance `spread` on the line."""
    z = float(special.ndtri(0.975))
    sizes = np.sqrt(np.diagonal(spread))
    if not by_profile or line.count > MOST or not np.isfinite(sizes).all():
        theta, slopes = line.parameters(best.u[None])[0], np.abs(line.slopes(best.u))
        return Intervals(theta - z * sizes * slopes, theta + z * sizes * slopes)
    signed = np.concatenate([-PLACES[::-1], PLACES])
    count, points = line.count, len(signed)
    which = np.repeat(np.arange(count), points)
    shift = np.tile(signed, count)
    u = best.u + shift[:, None] * (spread / sizes)[:, which].T
    for k in map(int, np.flatnonzero((sizes > WIDE) & ~np.array([own.is_unlimited for own in line.like.scales]))):
        u[which == k] = best.u
        u[which == k, k] += np.concatenate([-_reached(line, best, k, -1.0)[::-1], _reached(line, best, k, 1.0)])
    u, value = _climbed(line, best, u, which, report)
    drop = np.minimum(value - best.value, 0.0).reshape(count, points)
    places = u[np.arange(len(which)), which].reshape(count, points)
    roots = np.sign(signed) * np.sqrt(-2.0 * drop)
    ends = np.array([_crossings(best.u[k], places[k], roots[k], z) for k in range(count)])
    limits = np.sort([line.one_by_one(best.u, side, np.arange(count)) for side in ends.T], axis=0)
    values = line.one_by_one(best.u, places.ravel(), which).reshape(count, points)
    return Intervals(limits[0], limits[1], values, drop)


def _reached(line: Line, best: climbing.Climbed, k: int, side: float) -> np.ndarray:
    """How far along a parameter its profile is taken on one side, where a parabola does not say: where log L falls, the
    other parameters being where they are. On a plain, as towards a noise of zero, any places do."""

    def fall(steps: np.ndarray) -> np.ndarray:
        u = np.repeat(best.u[None], len(steps), axis=0)
        u[:, k] += side * steps
        return best.value - line.values(u)

    steps = np.insert(REACHES, 0, 0.0)
    for _ in range(2):
        falls = fall(steps)
        begins, ends = (np.flatnonzero(falls > least) for least in FALL)
        if not begins.size:
            return REACHES[: len(PLACES)]
        end = ends[0] if ends.size else -1
        steps = np.linspace(steps[max(begins[0] - 1, 0)], steps[end], 33)
    return steps[0] + (steps[-1] - steps[0]) * PLACES / PLACES[-1]


def _climbed(
    line: Line, best: climbing.Climbed, u: np.ndarray, which: np.ndarray, report: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray]:
    """The places (lanes, p) and heights of the profile, from the places to which a quadratic leads.

    Where the record says little of another parameter, as of a noise that is nearly zero, these lie far off, and the
    search ends on a plain: then it begins at the end of a neighbour's, and before that at the maximum.
    """
    held, lanes = u[np.arange(len(which)), which], np.arange(len(which))
    is_free = ~np.eye(line.count, dtype=bool)[which]

    def beside(other: np.ndarray) -> np.ndarray:
        """Other places with the parameter of each lane where it is held."""
        moved = np.array(other)
        moved[lanes, which] = held
        return moved

    near = beside(np.repeat(best.u[None], len(which), axis=0))
    u = np.where((line.values(near) > line.values(u))[:, None], near, u)
    ends = climbing.climb(line, u, is_free, report, for_all=True)
    u, value = ends.u.copy(), ends.value.copy()
    for _ in PLACES:
        is_done = True
        for step in (1, -1):
            other = beside(np.roll(u, step, axis=0))
            below = np.flatnonzero((np.roll(which, step) == which) & (line.values(other) > value + HIGHER))
            if len(below):
                ends = climbing.climb(line, other[below], is_free[below], lambda count: None, for_all=True)
                u[below], value[below], is_done = ends.u, ends.value, False
        if is_done:
            break
    return u, value


def _crossings(best: float, places: np.ndarray, roots: np.ndarray, z: float) -> tuple[float, float]:
    """Where the signed root of a profile is -z and z; beyond its ends along its last slope."""
    all_places = np.insert(places, len(places) // 2, best)
    all_roots = np.insert(roots, len(roots) // 2, 0.0)
    order = np.argsort(all_roots)
    x, y = all_places[order], all_roots[order]

    def at(wanted: float) -> float:
        if y[0] <= wanted <= y[-1]:
            return _cubic(y, x, wanted)
        inner, outer = (1, 0) if wanted < y[0] else (-2, -1)
        slope = (y[outer] - y[inner]) / (x[outer] - x[inner])
        return float(x[outer] + (wanted - y[outer]) / slope) if slope > 1e-12 else float(np.sign(wanted) * np.inf)

    return at(-z), at(z)


def _cubic(y: np.ndarray, x: np.ndarray, wanted: float) -> float:
    """x at a value of y, by the cubic through the four nearest points, in the form of Lagrange."""
    differs = np.diff(y, prepend=-np.inf) > PLAIN
    y, x = y[differs], x[differs]
    nearest = np.argsort(np.abs(y - wanted))[:4]
    away = y[nearest] - wanted
    shares = [np.prod(np.delete(away, k) / (np.delete(away, k) - away[k])) for k in range(len(away))]
    return float(np.dot(shares, x[nearest]))
