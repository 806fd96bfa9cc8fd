"""The steps of a transient, chosen before the run: they meet the corners of the sources, and are short where the
circuit without noise is fast.

The circuit without noise is followed from corner to corner by Radau IIA of order 5 with steps of its own, whose
collocation polynomials give x'''. The trapezoidal rule makes the error h³ |x'''|/12 in a step. Every step of .tran,
cut at the corners that lie in it, is cut into so many equal parts that this error, relative to the range of every
component that is stored, stays below tol in each. The times of .tran remain times of the run, so that statistics can
look at equal distances.
"""

from __future__ import annotations

import itertools

import numpy as np

from stodyn.circuits import points
from stodyn.circuits.assembly import Network
from stodyn.numerics import radau

ACCURACY = 1e-3  # relative, of the solution that is followed
SMALLEST = 1e-4  # of the largest range in a unit: smaller ranges count as that
MERGED = 1e-6  # of a step: a corner nearer to a time of .tran is met by that
MOST_PARTS = 1000  # of a step
LARGEST = 300  # unknowns, and corners, beyond which only the corners are met
MOST_SEGMENTS = 2000


def time_steps(network: Network, start: np.ndarray, times: np.ndarray, tol: float) -> np.ndarray:
    """The lengths of the steps from times[0] to times[-1], through all the times and the corners between them."""
    corners = network.sources.corners(times[0], times[-1])
    after = np.searchsorted(times, corners).clip(1, len(times) - 1)
    room = MERGED * np.diff(times)[after - 1]
    corners = corners[(corners - times[after - 1] > room) & (times[after] - corners > room)]
    cuts = np.unique(np.concatenate([times, corners]))
    if network.n > LARGEST or len(corners) > MOST_SEGMENTS:
        return np.diff(cuts)
    begins, thirds = _followed(network, start, np.concatenate([times[:1], corners, times[-1:]]))
    first = np.searchsorted(begins, cuts[:-1], side="right") - 1
    last = np.searchsorted(begins, cuts[1:], side="left")
    largest = np.stack([thirds[i:j].max(axis=0) for i, j in zip(first, np.maximum(last, first + 1), strict=True)])
    lengths = np.diff(cuts)
    error = np.max(lengths[:, None] ** 3 * largest / 12.0, axis=1, initial=0.0)
    parts = np.clip(np.ceil(np.cbrt(error / tol)), 1, MOST_PARTS).astype(int)
    return np.repeat(lengths / parts, parts)


def _followed(network: Network, start: np.ndarray, stops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """When the steps began, and |x'''| in each over the ranges of the components that are stored."""
    mass = network.mass.matrix(network.n).toarray()
    stored = np.flatnonzero(mass.any(axis=0))
    system = radau.Nonlinear(
        mass[None],
        lambda t, x: points.rates(network, t, x[:, 0])[:, None],
        lambda t, x: points.slopes(network, x),
    )
    begins: list[float] = []
    thirds: list[np.ndarray] = []
    low, high = start.copy(), start.copy()

    def watch(t: float, h: float, x: np.ndarray, Z: np.ndarray) -> None:
        begins.append(t)
        thirds.append(np.abs(radau.scheme(5).derivative(Z, h)[0]))
        np.minimum(low, (x + Z).min(axis=(0, 1)), out=low)
        np.maximum(high, (x + Z).max(axis=(0, 1)), out=high)

    x = start[None]
    for begin, end in itertools.pairwise(stops):
        floor = 1e-3 * ACCURACY * (np.abs(x).max() + 1e-12)
        x = radau.controlled(system, np.array([begin, end]), x, 5, ACCURACY, floor, watch=watch)[0][-1]
    units, reach = np.array(network.units), high - low
    for unit in set(network.units):
        alike = units == unit
        reach[alike] = np.maximum(reach[alike], SMALLEST * reach[alike & np.isin(np.arange(network.n), stored)].max(
            initial=0.0))  # fmt: skip
    sizes = np.where(reach > 0.0, reach, np.inf)
    return np.array(begins), (np.array(thirds) / sizes)[:, stored]
