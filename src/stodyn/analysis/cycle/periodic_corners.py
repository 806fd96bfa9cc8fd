"""Steps that end where the equations have corners: a transistor changes its region, a source its slope.

Across a corner the derivatives of a solution jump, and a method loses its order on every step that contains one. The
decisions in the trace of f and g (numerics/regions.py) say between which points of a cycle there may be one, bisection
says when, and the values of f and g on both sides say whether there is: from either side polynomials through six points
are extrapolated to the corner, at several distances. Where all derivatives agree they differ by the sixth power of the
distance, otherwise by a lower one. Differences that the rounding of f and g explains, which the weights of the
extrapolation multiply, say nothing: processors round differently, and may not find different corners.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from stodyn.analysis.cycle.periodic_mesh import SAME, Mesh
from stodyn.analysis.cycle.periodic_system import System

HALVINGS = 40  # of the distance between two stages: to 1e-14 of the period or less
# Of the period, choices in this order: times are rounded to 1e-16 of it, corners are located to 1e-14.
PLACED = 1e-11  # how near to a corner a step has to end
SIDE = 1e-10  # how far before a corner the equations of the stage that lies on it are evaluated
NEAR = 1.0 / 8.0, 1.0 / 64.0, 1.0 / 512.0  # of the mean step there: distances between the points next to a corner
POINTS = 6  # on either side
TOGETHER = 1e-2  # of the mean step: changes of decisions that are nearer to each other are judged together
STILL = 1e-2  # of the mean step: a change so near to a known corner is that corner
SMOOTH = (NEAR[0] / NEAR[1]) ** (POINTS - 1.5)  # ratio of successive differences from which f counts as smooth
JUMP = 1e-6  # of the terms in f: smaller jumps are of no consequence
AWAY = 1e-5  # of the range: by which the state is moved to see whether the time of a jump depends on it
MOST = 20_000  # changes of decisions: beyond, they flicker with rounding
CHUNK = 1_000_000  # numbers of f and g² at the points next to corners


def before_corners(mesh: Mesh, gap: float, places: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places (N, s) and states (N, s, n) at which the stages' equations are evaluated.

    The last stage of a step that ends at a corner is moved back a little, to the near side of it. `gap` is the distance
    between the last two stages, as a share of the step.
    """
    if not mesh.at_corner.any():
        return places, X
    places, X = places.copy(), X.copy()
    k = np.flatnonzero(mesh.at_corner)
    back = np.minimum(SIDE / (gap * mesh.lengths[k]), 0.01)
    places[k, -1] += back * (places[k, -2] - places[k, -1])
    X[k, -1] += back[:, None] * (X[k, -2] - X[k, -1])
    return places, X


class Solution(Protocol):
    """What corners are found by: a periodic solution, with f_x and g at its nodes."""

    @property
    def system(self) -> System: ...
    @property
    def mesh(self) -> Mesh: ...
    @property
    def c(self) -> np.ndarray: ...
    @property
    def t(self) -> np.ndarray: ...
    @property
    def x(self) -> np.ndarray: ...
    @property
    def period(self) -> float: ...
    @property
    def jacobians(self) -> np.ndarray: ...
    @property
    def noise(self) -> np.ndarray: ...

    def on(self, shares: np.ndarray) -> np.ndarray:
        """The states at shares of the period."""


def corners_of(cycle: Solution, known_only: bool = False) -> np.ndarray:
    """The shares of the period at which f or g has a corner along a cycle, in increasing order; or only where those at
    which steps end already lie now."""
    shares = np.unique(np.concatenate([cycle.mesh.shares, cycle.mesh.places(cycle.c).ravel()]))
    regions = _regions(cycle, shares)
    step, which = np.nonzero(regions[1:] != regions[:-1])
    if not 0 < len(step) <= MOST:
        return np.zeros(0)
    before, low, high = regions[step, which], shares[step], shares[step + 1]
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        points, place = np.unique(middle, return_inverse=True)  # several decisions may change at one corner
        same = _regions(cycle, points)[place, which] == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    changes = np.unique(high)
    changes = changes[np.diff(changes, prepend=-1.0) > SAME]
    known, length = cycle.mesh.corners, cycle.mesh.mean_step(changes)
    is_corner = np.min(np.abs(np.subtract.outer(changes, known)), axis=1, initial=np.inf) < STILL * length
    if known_only:
        return changes[is_corner]
    apart = np.abs(np.subtract.outer(changes, changes))
    apart = np.where(apart > TOGETHER * length[:, None], apart, np.inf).min(axis=1)
    reach = np.minimum(length, apart / (NEAR[0] * POINTS))  # the points do not go beyond the next change
    is_corner[~is_corner] = _are_corners(cycle, changes[~is_corner], reach[~is_corner])
    return changes[is_corner]


def jumps_with_the_state(cycle: Solution) -> bool:
    """Whether f jumps at a corner whose time depends on the state: the derivatives of the steps do not know that."""
    system, shares = cycle.system, cycle.mesh.corners
    if not len(shares):
        return False
    sizes = _sizes_of_terms(cycle)
    both = []
    for near in (SIDE, 8.0 * SIDE):
        f = [system.f(*_at(cycle, np.mod(shares + side * near, 1.0))) for side in (-1.0, 1.0)]
        both.append(np.abs(f[1] - f[0]) / np.where(sizes > 0.0, sizes, np.inf))
    jumps = np.any((both[0] > JUMP) & (both[0] > 0.5 * both[1]), axis=1)
    if not jumps.any():
        return False
    t, x = _at(cycle, np.mod(shares[jumps] - SIDE, 1.0))
    before = system.region(t, x)
    changed = _regions(cycle, np.mod(shares[jumps] + SIDE, 1.0)) != before
    moves = AWAY * np.diag(np.ptp(cycle.x, axis=0))
    return any(bool(np.any(changed & (system.region(t, x + move) != before))) for move in (*moves, *-moves))


def _at(cycle: Solution, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the times and states of a cycle at shares of its period."""
    return cycle.t[0] + cycle.period * shares, cycle.on(shares)


def _sizes_of_terms(cycle: Solution) -> np.ndarray:
    """Return the size (n,) of the largest terms in each row of f along the cycle."""
    return (np.abs(cycle.jacobians) @ np.abs(cycle.x[:-1, :, None])).max(axis=(0, 2))


def _regions(cycle: Solution, shares: np.ndarray) -> np.ndarray:
    return cycle.system.region(*_at(cycle, shares))


def _taylor(places: np.ndarray) -> np.ndarray:
    """Weights (k, points) of values at these places in the k-th coefficient at 0 of the polynomial through them.

    They are correctly rounded: products of such places are exact. The inverse of Vandermonde's matrix has errors a
    thousand times as large, others with every processor, and a constant then seems to have slopes.
    """
    others = [np.delete(places, k) for k in range(len(places))]
    return np.stack([np.poly(o)[::-1] / np.prod(p - o) for p, o in zip(places, others, strict=True)], axis=1)


def _are_corners(cycle: Solution, shares: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Whether f or the density of a source has a jump in one of its first derivatives at these shares of the period,
    along the cycle's direction; `reach` bounds the distances there."""
    system = cycle.system
    times, x = cycle.t[0] + cycle.period * shares, cycle.on(shares)
    direction = system.velocity(times, x, system.jacobian(times, x))
    sizes = np.concatenate([_sizes_of_terms(cycle), np.sum(cycle.noise**2, axis=1).max(axis=0)])
    places = np.arange(POINTS) + 0.5
    extrapolated = _taylor(places)[: POINTS - 1]
    extrapolated /= np.sum(np.abs(extrapolated), axis=1, keepdims=True)  # results are no less exact than the values
    signs = (-1.0) ** np.arange(POINTS - 1)[:, None]
    places = np.concatenate([-places, places])
    result = np.zeros(len(shares), bool)
    batch = max(1, CHUNK // (2 * POINTS * len(sizes)))
    for first in range(0, len(shares), batch):
        some = slice(first, first + batch)
        differences, rounding = [], np.zeros(0)
        for near in NEAR:
            ahead = np.outer(near * cycle.period * reach[some], places)
            t, y = times[some, None] + ahead, x[some, None] + ahead[..., None] * direction[some, None]
            at = t.ravel(), y.reshape(-1, system.n)
            values = np.concatenate([system.f(*at), np.sum(system.g(*at) ** 2, axis=1)], axis=1)
            values = values.reshape(*t.shape, -1)
            left, right = extrapolated @ values[:, :POINTS], extrapolated @ values[:, POINTS:]
            differences.append(np.abs(signs * left - right).max(axis=1))
            if near == NEAR[0]:
                summed = POINTS * np.finfo(float).eps * np.maximum(np.abs(values).max(axis=1), sizes)
                rounding = summed + system.rounding(*at).reshape(values.shape).max(axis=1)
        far, near, nearest = differences
        both = 2.0 * rounding  # of the values on the left and on the right
        rough = (near > both) & (near < SMOOTH * np.maximum(nearest, both))
        rough &= (nearest > both) | (far < SMOOTH * near)  # where the nearest are rounding, the others decide
        result[some] = rough.any(axis=1)
    return result
