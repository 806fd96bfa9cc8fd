"""The steps of a transient, chosen before the run: they meet the corners of the sources, and are short where the
circuit without noise is fast.

The circuit without noise is solved from corner to corner by Radau IIA of order 5 with steps of its own, whose
collocation polynomials give the state at any time. The trapezoidal rule makes the error h³ |x'''|/12 in a step, a
twelfth of the third difference of x at that distance. Every step of .tran, cut at the corners that lie in it, is cut
into as many equal parts as keep this error, relative to the range of every component that is stored, below tol. The
times of .tran remain times of the run, so that statistics can be collected at equal intervals.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from stodyn.circuits import points
from stodyn.circuits.assembly import Network
from stodyn.numerics import radau

ACCURACY = 1e-4  # the relative accuracy of the solution without noise
SMALLEST = 1e-4  # smaller ranges count as this share of the largest range in the same unit
STILL = 1e-9  # of the largest in the same unit: what moves by less is at rest, and steps need not resolve it
SAME = 1e-13  # of the time: corners, and times of .tran, that are nearer to each other differ by rounding only
MERGED = 1e-6  # as a share of a step: a corner nearer than this to a time of .tran is merged with it
FEWEST, MOST_PARTS = 8, 512  # the parts of a step with which its error is first estimated, and the most it is cut into
CHUNK = 2_000_000  # the most numbers processed in one batch
LARGEST = 300  # unknowns, and corners, beyond which only the corners are met
MOST_SEGMENTS = 2000


def time_steps(network: Network, start: np.ndarray, times: np.ndarray, tol: float) -> np.ndarray:
    """The lengths of the steps from times[0] to times[-1], through all the times and the corners between them."""
    corners = corners_apart(network.sources.corners(times[0], times[-1]), times)
    after = np.searchsorted(times, corners).clip(1, len(times) - 1)
    room = MERGED * np.diff(times)[after - 1]
    corners = corners[(corners - times[after - 1] > room) & (times[after] - corners > room)]
    cuts = np.unique(np.concatenate([times, corners]))
    if network.n > LARGEST or len(corners) > MOST_SEGMENTS:
        return np.diff(cuts)
    followed = _Followed(network, start, times[[0, -1]])
    lengths = np.diff(cuts)
    parts, error = np.full(len(lengths), FEWEST), np.full(len(lengths), np.inf)
    while len(open_ones := np.flatnonzero((error > tol) & (parts <= MOST_PARTS))):
        error[open_ones] = followed.errors(cuts[open_ones], lengths[open_ones], int(parts[open_ones[0]]))
        parts[open_ones] = np.where(error[open_ones] > tol, 4 * parts[open_ones], parts[open_ones])
    needed = np.where(error > tol, MOST_PARTS, np.ceil(parts * np.cbrt(error / tol)))
    parts = np.clip(needed, 1, MOST_PARTS).astype(int)
    return np.repeat(lengths / parts, parts)


def corners_apart(corners: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The corners without those that repeat another one, or an end of the times, within rounding; a corner within
    rounding of one of the times is that time. Two clocks reach the same corner by different sums, and between the
    results no step can be made."""
    within = SAME * max(abs(times[0]), abs(times[-1]))
    after = np.searchsorted(times, corners).clip(1, len(times) - 1)
    nearest = np.where(corners - times[after - 1] < times[after] - corners, times[after - 1], times[after])
    corners = np.unique(np.where(np.abs(corners - nearest) <= within, nearest, corners))
    corners = corners[np.diff(corners, prepend=-np.inf) > within]
    return corners[(corners > times[0]) & (corners < times[-1])]


def noiseless(
    network: Network, start: np.ndarray, times: np.ndarray, rtol: float, watch: Callable | None = None
) -> np.ndarray:
    """The states (times, n) of the circuit without noise, solved from corner to corner; `watch` gets every step."""
    system = radau.Nonlinear(
        network.mass.matrix(network.n).toarray()[None],
        lambda t, x: points.rates(network, t, x[:, 0])[:, None],
        lambda t, x: points.slopes(network, x),
    )
    states, x = np.empty((len(times), network.n)), start[None]
    states[0] = start
    corners = corners_apart(network.sources.corners(times[0], times[-1]), times)
    stops = np.concatenate([times[:1], corners, times[-1:]])
    for begin, end in itertools.pairwise(stops):
        inside = np.flatnonzero((times > begin) & (times <= end))
        grid = np.unique(np.concatenate([[begin], times[inside], [end]]))
        floor = 1e-3 * rtol * (np.abs(x).max() + 1e-12)
        path = radau.controlled(system, grid, x, 5, rtol, floor, watch=watch)[0][:, 0]
        states[inside] = path[np.searchsorted(grid, times[inside])]
        x = path[-1:]
    return states


class _Followed:
    """The solution without noise, as the collocation polynomials of its steps."""

    def __init__(self, network: Network, start: np.ndarray, span: np.ndarray):
        begins: list[float] = []
        lengths: list[float] = []
        states: list[np.ndarray] = []
        stages: list[np.ndarray] = []

        def watch(t: float, h: float, x: np.ndarray, Z: np.ndarray) -> None:
            begins.append(t)
            lengths.append(h)
            states.append(x[0])
            stages.append(Z[:, 0])

        noiseless(network, start, span, ACCURACY, watch)
        stored = network.mass.matrix(network.n).toarray().any(axis=0)
        self.begins, self.lengths = np.array(begins), np.array(lengths)
        self.x, self.Z = np.array(states)[:, stored], np.array(stages)[..., stored]
        whole = np.concatenate([self.x, (self.x[:, None] + self.Z).reshape(-1, self.x.shape[1])])
        reach, units = np.ptp(whole, axis=0), np.array(network.units)[stored]
        for alike in (units == unit for unit in set(units)):
            least = max(SMALLEST * reach[alike].max(), STILL * np.abs(whole[:, alike]).max())
            reach[alike] = np.maximum(reach[alike], least)
        self.range = np.where(reach > 0.0, reach, np.inf)

    def errors(self, begins: np.ndarray, lengths: np.ndarray, parts: int) -> np.ndarray:
        """The largest error of the trapezoidal rule in each interval cut into equal parts: a twelfth of the third
        differences, over the ranges."""
        errors, places = np.empty(len(begins)), np.arange(parts + 1) / parts
        batch = max(1, CHUNK // (parts * self.x.shape[1]))
        for first in range(0, len(begins), batch):
            some = slice(first, first + batch)
            states = self.at((begins[some, None] + lengths[some, None] * places).ravel())
            thirds = np.diff(states.reshape(-1, parts + 1, states.shape[1]), 3, axis=1)
            errors[some] = np.max(np.abs(thirds) / self.range, axis=(1, 2)) / 12.0
        return errors

    def at(self, times: np.ndarray) -> np.ndarray:
        """The stored components (times, ...)."""
        k = (np.searchsorted(self.begins, times, side="right") - 1).clip(0)
        weights = radau.scheme(5).interpolation((times - self.begins[k]) / self.lengths[k])
        return self.x[k] + np.einsum("ts,tsn->tn", weights, self.Z[k])
