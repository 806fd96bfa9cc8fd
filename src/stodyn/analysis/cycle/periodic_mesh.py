"""The steps of a cycle: equal ones, steps that end at corners, and steps that are short where the solution is fast.

A relaxation oscillator rests for most of its period and switches within a millionth of it. Its pace says which share of
the steps lies before each time: a monotone function, made of the steps that an adaptive run takes, of which nodes are
equal shares. Lengths grow by no more than a constant share from one step to the next.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

SAME = 1e-9  # of the period, a choice: corners that are nearer to each other are one
USUAL = 256  # steps for which the growth of lengths is limited
GROWTH = 0.5  # of its length, by which a step may be longer than the one next to it
HALVINGS = 30  # of a long step, where lengths grow from those beside it
GROUP, UNEVEN_GROUP = 6, 2  # intervals on which a polynomial is integrated: through uneven ones, a low one


class Pace(NamedTuple):
    """The share of the steps that lies before a share of the period, linear between knots: both from 0 to 1."""

    shares: np.ndarray
    counts: np.ndarray

    def before(self, shares: np.ndarray | float) -> np.ndarray:
        """Return the share of the steps before shares of the period."""
        return np.interp(shares, self.shares, self.counts)

    def at(self, counts: np.ndarray) -> np.ndarray:
        """Return the shares of the period before which these shares of the steps lie."""
        return np.interp(counts, self.counts, self.shares)

    def slope(self, shares: np.ndarray) -> np.ndarray:
        """Return the steps per period there, as a multiple of the mean."""
        k = np.clip(np.searchsorted(self.shares, shares, side="right") - 1, 0, len(self.shares) - 2)
        return (np.diff(self.counts) / np.diff(self.shares))[k]

    def shifted(self, share: float) -> Pace:
        """Return the pace of the same cycle from another place on."""
        share = share % 1.0
        k = int(np.searchsorted(self.shares, share, side="right"))
        first = float(self.before(share))
        shares = np.concatenate([[0.0], self.shares[k:] - share, 1.0 - share + self.shares[1:k], [1.0]])
        counts = np.concatenate([[0.0], self.counts[k:] - first, 1.0 - first + self.counts[1:k], [1.0]])
        different = np.append(True, (np.diff(shares) > 0.0) & (np.diff(counts) > 0.0))
        return Pace(shares[different], counts[different])


def pace_of(ends: np.ndarray) -> Pace:
    """Return the pace of steps that end at these shares of the period, from 0 to 1."""
    lengths = np.diff(ends)
    halves = 0.5 ** np.arange(1, HALVINGS)
    inside = np.concatenate([np.outer(lengths, halves), np.outer(lengths, 1.0 - halves)], axis=1) + ends[:-1, None]
    knots = np.unique(np.append(inside.ravel(), ends))
    limited = _graded(knots, _least_beside(knots, ends) * len(lengths) / USUAL)
    counts = np.append(0.0, np.cumsum(2.0 * np.diff(knots) / (limited[1:] + limited[:-1])))
    return Pace(knots, counts / counts[-1])


def _least_beside(knots: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The length of the step in which a knot lies; between two, of the shorter, the last beside the first."""
    lengths = np.diff(ends)
    last = len(lengths) - 1
    before = lengths[np.clip(np.searchsorted(ends, knots, side="left") - 1, 0, last)]
    after = lengths[np.clip(np.searchsorted(ends, knots, side="right") - 1, 0, last)]
    result = np.minimum(before, after)
    result[[0, -1]] = min(result[0], result[-1])
    return result


def _graded(knots: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The lengths, none of which is longer than those near it by more than GROWTH times the distance, on the circle."""
    places = np.concatenate([knots - 1.0, knots, knots + 1.0]) * GROWTH
    lengths = np.tile(lengths, 3)
    lengths = np.minimum.accumulate(lengths - places) + places
    lengths = (np.minimum.accumulate((lengths + places)[::-1]))[::-1] - places
    return lengths[len(knots) : 2 * len(knots)]


class Mesh(NamedTuple):
    """The nodes of a cycle as shares of the period (N + 1,), from 0 to 1; which steps end at a corner (N,); the number
    of steps per period, without those that corners add; and their pace, None of steps that are equal between corners.
    """

    shares: np.ndarray
    at_corner: np.ndarray
    density: int
    pace: Pace | None = None

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.shares)

    @property
    def corners(self) -> np.ndarray:
        return self.shares[1:][self.at_corner]

    @property
    def is_even(self) -> bool:
        """Whether all steps are equal."""
        return self.pace is None and not self.at_corner.any()

    def mean_step(self, shares: np.ndarray) -> np.ndarray:
        """Return the lengths of steps at shares of the period, without regard to corners."""
        length = np.full(np.shape(shares), 1.0 / self.density)
        return length if self.pace is None else length / self.pace.slope(shares)

    def places(self, c: np.ndarray) -> np.ndarray:
        """The shares (N, s) of the period at which the stages lie."""
        return self.shares[:-1, None] + np.outer(self.lengths, c)

    def of(self, density: int, fewest: int = 1) -> Mesh:
        """The mesh with the same corners and pace, and another number of steps."""
        return mesh(density, self.corners, fewest, self.pace)

    def at(self, corners: np.ndarray) -> Mesh:
        """The mesh with the same number of steps and pace, and other corners."""
        return mesh(self.density, corners, pace=self.pace)

    def shifted(self, share: float) -> Mesh:
        """The mesh that begins at another place of the same cycle."""
        return mesh(self.density, self.corners - share, pace=self.pace and self.pace.shifted(share))

    def weights(self) -> np.ndarray:
        """The weights (N,) of the nodes in a mean over the period; between corners, those of Newton and Cotes."""
        return np.sum(self.weights_of_sides(), axis=0)

    def weights_of_sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The weights as two parts (N,), of the values just before the nodes and just after them: what jumps at a
        corner has two values there. Where there is no corner, the first is 0."""
        N = len(self.at_corner)
        if self.is_even:
            return np.zeros(N), np.full(N, 1.0 / N)
        before, after = np.zeros(N + 1), np.zeros(N + 1)
        ends = np.flatnonzero(np.append(self.at_corner[:-1], True)) + 1
        group = GROUP if self.pace is None else UNEVEN_GROUP
        for first, last in zip(np.append(0, ends[:-1]), ends, strict=True):
            cuts = np.linspace(first, last, 1 - (first - last) // group).round().astype(int)
            for begin, end in itertools.pairwise(cuts):
                weights = self._weights_between(begin, end) * (self.shares[end] - self.shares[begin])
                after[begin:end] += weights[:-1]
                (before if end == last else after)[end] += weights[-1]
        before, after = np.append(before[-1], before[1:-1]), after[:-1]
        at_corner = self.after_corner
        return np.where(at_corner, before, 0.0), np.where(at_corner, after, after + before)

    def _weights_between(self, begin: int, end: int) -> np.ndarray:
        """Weights in a mean of the nodes from one to another."""
        if self.pace is None:
            return _integrating(np.arange(end - begin + 1) / (end - begin))
        places = self.shares[begin : end + 1] - self.shares[begin]
        return _integrating(places / places[-1])

    @property
    def after_corner(self) -> np.ndarray:
        """Which steps begin at a corner (N,)."""
        return np.roll(self.at_corner, 1)


def _integrating(places: np.ndarray) -> np.ndarray:
    """Weights of points from 0 to 1 in a mean, that of the polynomial through them."""
    powers = np.arange(len(places))
    return np.linalg.solve(places ** powers[:, None], 1.0 / (powers + 1.0))


def mesh(steps: int, corners: np.ndarray | None = None, fewest: int = 1, pace: Pace | None = None) -> Mesh:
    """Return a mesh of at least `steps` steps, with equal shares of the pace between corners, whose shares are taken
    modulo 1, and at least `fewest` steps between any two corners."""
    shares = np.mod(np.zeros(0) if corners is None else corners, 1.0)
    at_end = bool(np.any((shares <= SAME) | (shares >= 1.0 - SAME)))
    shares = np.sort(shares[(shares > SAME) & (shares < 1.0 - SAME)])
    shares = shares[np.diff(shares, prepend=-1.0) > SAME]
    ends = np.concatenate([[0.0], shares, [1.0]])
    marks = ends if pace is None else pace.before(ends)
    counts = np.maximum(np.ceil(steps * np.diff(marks) - SAME), fewest).astype(int)
    nodes = np.concatenate([first + (last - first) * np.arange(count) / count
                            for first, last, count in zip(marks[:-1], marks[1:], counts, strict=True)])  # fmt: skip
    at_corner = np.zeros(counts.sum(), bool)
    at_corner[np.cumsum(counts)[:-1] - 1] = True
    if pace is not None:
        nodes = pace.at(nodes)
        nodes[1:][at_corner[:-1]] = shares
    at_corner[-1] = at_end
    return Mesh(np.append(nodes, 1.0), at_corner, steps, pace)
