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
import scipy

from stodyn.circuits import points
from stodyn.circuits.assembly import Network
from stodyn.circuits.text import NetlistError
from stodyn.circuits.waveforms import TIME
from stodyn.numerics import radau
from stodyn.problems.index import split

ACCURACY = 1e-4  # the relative accuracy of the solution without noise
SMALLEST = 1e-4  # smaller ranges count as this share of the largest range in the same unit
STILL = 1e-9  # of the largest in the same unit: what moves by less is at rest, and steps need not resolve it
SAME = 1e-13  # of the time, a choice: nearer corners and times of .tran are one, since sums of periods round apart
MERGED = 1e-6  # as a share of a step: a corner nearer than this to a time of .tran is merged with it
FEWEST, MOST_PARTS = 8, 512  # the parts of a step with which its error is first estimated, and the most it is cut into
WATCHED = 0.25, 0.5, 0.75, 1.0  # shares of a step at which switches with memory are looked at
NEAR = 1e-9  # of the distance between the two levels of such a switch: a control this near to its level has reached it
ROUNDS = 60  # of Newton's method for the voltages after a change
SINGULAR = 1e12  # a condition, a choice: constraints beyond it do not determine the unknowns without derivatives
CHUNK = 2_000_000  # the most numbers processed in one batch
STRAIGHT = {"pulse", TIME}  # waveforms of straight lines; sources that are constant or PWL have no law here
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
        _curved(network, times),
    )
    states, x = np.empty((len(times), network.n)), start
    states[0] = start
    corners = corners_apart(network.sources.corners(times[0], times[-1]), times)
    stops = np.concatenate([times[:1], corners, times[-1:]])
    for begin, end in itertools.pairwise(stops):
        inside = np.flatnonzero((times > begin) & (times <= end))
        grid = np.unique(np.concatenate([[begin], times[inside], [end]]))
        path = _between_corners(network, system, grid, x, rtol, watch)
        states[inside] = path[np.searchsorted(grid, times[inside])]
        x = path[-1]
    return _on_constraints(network, times, states, rtol)


def _on_constraints(network: Network, times: np.ndarray, states: np.ndarray, rtol: float) -> np.ndarray:
    """The states (times, n), moved along unknowns without derivatives to where the constraints hold, wherever that is
    farther than `rtol`: the polynomial of a step cuts the corner of a voltage that has a kink inside the step, as that
    of a diode between resistors."""
    _, N, K, _ = split(network.mass.matrix(network.n).toarray())
    if not K.shape[1] or np.linalg.cond(N @ points.slopes(network, states[:1])[0] @ K) > SINGULAR:
        return states  # all unknowns have derivatives, or some are determined by derivatives alone
    size = rtol * np.maximum(np.abs(states).max(axis=0), 1e-3 * (np.abs(states).max() + 1e-12))
    states, batch = states.copy(), max(1, CHUNK // network.n**2)
    for first in range(0, len(times), batch):
        t, x = times[first : first + batch], states[first : first + batch]
        y, left = x.copy(), np.arange(len(t))
        for _ in range(ROUNDS):
            defect = points.rates(network, t[left], y[left]) @ N.T
            try:
                move = np.linalg.solve(N @ points.slopes(network, y[left]) @ K, defect[..., None])[..., 0] @ K.T
            except np.linalg.LinAlgError:
                break
            y[left] -= move
            left = left[(np.abs(move) > 1e-3 * size).any(axis=1)]
            if not len(left):
                break
        far = (np.abs(y - x) > size).any(axis=1)
        far[left] = False  # where no such voltages were found
        x[far] = y[far]
    return states


def _between_corners(
    network: Network, system: radau.Nonlinear, grid: np.ndarray, x: np.ndarray, rtol: float, watch: Callable | None
) -> np.ndarray:
    """The states (grid, n) from x on, begun anew wherever a switch with memory changes."""
    states, done, begin = np.empty((len(grid), len(x))), 1, grid[0]
    states[0] = x
    x = _settled(network, begin, x)
    while done < len(grid):
        steps = _Steps(network, watch)
        rest = np.append(begin, grid[done:])
        floor = 1e-3 * rtol * (np.abs(x).max() + 1e-12)
        try:
            states[done:] = radau.controlled(system, rest, x[None], 5, rtol, floor, watch=steps)[0][1:, 0]
            break
        except _Change as change:
            reached = int(np.searchsorted(grid, change.t + SAME * abs(grid[-1]), side="right"))
            states[done:reached] = steps.at(grid[done:reached])
            done, begin, x = reached, change.t, _settled(network, change.t, change.x)
    return states


def _curved(network: Network, times: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """The values of all sources at some times, in parts of their largest values; None where they are straight between
    the corners."""
    if network.sources.moving.keys() <= STRAIGHT:
        return None
    sizes = np.abs(points.sources_at(network, times)).max(axis=0)
    sizes[sizes == 0.0] = 1.0
    return lambda t: points.sources_at(network, t) / sizes


class _Change(Exception):
    """A switch with memory changes at t, in the state x."""

    def __init__(self, t: float, x: np.ndarray):
        super().__init__(t)
        self.t, self.x = t, x


class _Steps:
    """The steps of a solution, watched for a change of a switch with memory, at which it is left."""

    def __init__(self, network: Network, watch: Callable | None):
        self.memories, self.watch = network.memories, watch
        self.steps: list[tuple[float, float, np.ndarray, np.ndarray]] = []

    def __call__(self, t: float, h: float, x: np.ndarray, Z: np.ndarray) -> None:
        if self.watch is not None:
            self.watch(t, h, x, Z)
        if self.memories is None:
            return
        self.steps.append((t, h, x[0], Z[:, 0]))
        beyond = (share for share in WATCHED if self.distance(share) <= 0.0)
        if (last := next(beyond, None)) is not None:
            share = scipy.optimize.brentq(self.distance, 0.0, last, xtol=1e-12) if self.distance(0.0) > 0.0 else 0.0
            share = min(last, share + 1e-11)  # where the level has been reached
            raise _Change(t + share * h, self.state(share))

    def state(self, share: float) -> np.ndarray:
        _, _, x, Z = self.steps[-1]
        return x + radau.scheme(5).interpolation(np.array([share]))[0] @ Z

    def distance(self, share: float) -> float:
        return float(self.memories.distances(self.state(share), np).min())  # type: ignore[union-attr]

    def at(self, times: np.ndarray) -> np.ndarray:
        """The states (times, n) at these times, which may lie within steps."""
        begins = np.array([t for t, *_ in self.steps])
        states = np.empty((len(times), len(self.steps[0][2])))
        for k, time in enumerate(times):
            t, h, x, Z = self.steps[max(int(np.searchsorted(begins, time, side="right")) - 1, 0)]
            states[k] = x + radau.scheme(5).interpolation(np.array([(time - t) / h]))[0] @ Z
        return states


def _settled(network: Network, t: float, x: np.ndarray) -> np.ndarray:
    """The state after all the switches with memory whose levels have been reached have changed, on the constraints."""
    memories = network.memories
    if memories is None:
        return x
    for _ in range(2 * len(memories.rows) + 1):
        which = memories.distances(x, np) <= NEAR * (memories.high - memories.low)
        if not which.any():
            return x
        x = _consistent(network, t, memories.changed(x, which, np))
    raise NetlistError(f"{', '.join(memories.names)}: at t = {t:.6g} switches go on and off without end")


def _consistent(network: Network, t: float, x: np.ndarray) -> np.ndarray:
    """The state with the same charges and fluxes on the constraints at time t."""
    M = network.mass.matrix(network.n).toarray()
    rows, N, *_ = split(M)
    y = x
    for _ in range(ROUNDS):
        defect = np.concatenate([M[rows] @ (y - x), N @ points.rates(network, np.array([t]), y[None])[0]])
        matrix = np.concatenate([M[rows], N @ points.slopes(network, y[None])[0]])
        size = np.abs(matrix).max(axis=1)
        move = np.linalg.solve(matrix / size[:, None], defect / size)
        y = y - move
        if np.abs(move).max() <= 1e-12 * (1.0 + np.abs(y).max()):
            return y
    raise NetlistError(f"at t = {t:.6g}, where a switch changes, no voltages were found that satisfy the equations")


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
        if network.memories is not None:
            stored[network.memories.rows] = False
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
