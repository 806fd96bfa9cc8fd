"""White noise in the equations: removed from constraints, and merged into fewer channels where its law allows.

A node without a capacitor, or one held by a voltage source, makes a constraint 0 = N f, and white noise g ξ may not
stand there: N g = 0. Where the equations are linear in the unknowns that the constraint determines, x = x̃ + Δ ξ takes
the noise out of it: f(x̃ + Δ ξ) = f(x̃) + f_x Δ ξ, and

    N (g + f_x Δ) = 0,   M Δ = 0   give   g̃ = g + f_x Δ.

For a resistor at a voltage source this is the Norton form: the source takes up the noise, Δ is its current. For one in
series with an inductor it is the Thévenin form. The unknowns that move are reported without their white part, whose
variance is infinite.

Where that cannot be done, the circuit has its analyses without noise and those in the frequency domain; whatever asks
for its noise in time is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.circuits import topology
from stodyn.circuits.assembly import INDEX, Network, Source, Stamps, Sums
from stodyn.circuits.element import GROUND
from stodyn.circuits.text import NetlistError, Position
from stodyn.numerics import direct
from stodyn.numerics.rounding import otherwise_solved
from stodyn.problems import operators

NEGLECTED = 1e-9  # of the noise of a source: what may be left of it in a constraint, where it has no effect
UNCERTAIN = 1e-6  # of it: what may be left where that is rounding


class Channels(NamedTuple):
    """g_ij = coefficients √(Σ weights S[sources]): column j sums in law over all the sources of channel j.

    rows, columns, coefficients  the entries of g
    members, sources, weights    which source (by its place in Network.intensity) feeds which channel, and how strongly
    total                        the number of channels
    labels                       the names of the elements of each channel
    without_white                the unknowns that are reported without their white part
    """

    rows: np.ndarray
    columns: np.ndarray
    coefficients: np.ndarray
    members: np.ndarray
    sources: np.ndarray
    weights: np.ndarray
    total: int
    labels: tuple[tuple[str, ...], ...]
    without_white: tuple[str, ...]

    def matrix(self, n: int, intensity: Any, factor: Any, xp: Any) -> Any:
        """g (n, channels): white noise times the factor; the filters of flicker noise keep their strength."""
        if not self.total:
            return xp.zeros((n, 1))
        g = np.zeros((n, self.total))
        g[self.rows, self.columns] = self.coefficients
        return g * self._strength(intensity, factor, xp)

    def operator(self, n: int, intensity: Any, factor: Any) -> Any:
        """Return g as `matrix` does, but as rows, columns and values, for many unknowns."""
        if not self.total:
            return operators.sparse(self.rows, self.columns, jnp.zeros(0), (n, 1))
        values = self.coefficients * self._strength(intensity, factor, jnp)[self.columns]
        return operators.sparse(self.rows, self.columns, values, (n, self.total))

    def _strength(self, intensity: Any, factor: Any, xp: Any) -> Any:
        """The root (channels,) of the power of each channel, times the factor where it is white."""
        sums = Sums(np.append(self.members, self.total), self.total + 1)
        entries = xp.concatenate([self.weights * intensity[self.sources], xp.zeros(1)])
        power = sums(entries, xp)[: self.total]
        is_white = np.bincount(self.members, minlength=self.total) > 0
        return xp.where(is_white, factor * xp.sqrt(xp.where(is_white, power, 1.0)), 1.0)


class Unplaced:
    """What stands in place of the channels of a circuit whose noise has no place in time: it raises an error in words
    for all who ask."""

    def __init__(self, words: str, at: Position):
        self._words, self._at = words, at

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NetlistError(self._words, self._at)


class Refused(NamedTuple):
    """A source of white noise in a constraint, and the names of the nodes that it would drive infinitely hard."""

    source: Source
    nodes: tuple[str, ...]


def channels(network: Network) -> Channels | Unplaced:
    """The columns of g; sources that push in the same direction become one channel of strength √(Σ S)."""
    numbers: dict[tuple, int] = {}
    labels: list[list[str]] = []
    entries: list[tuple[int, int, float]] = []
    members: list[tuple[int, int, float]] = []
    columns_of_g, moved, refused = resolved(network)
    if refused:
        return Unplaced(_refusal(refused), refused[0].source.element.at)
    if network.flickers and network.filters is None:
        return _without_band(network)
    for source, (rows, values) in zip(network.noises, columns_of_g, strict=True):
        if not len(rows):  # a voltage source absorbs this noise
            continue
        direction = values / values[0]
        # The same direction, to nine digits of every entry, since rows have units of their own.
        key = (rows.tobytes(), *(f"{value:.8e}" for value in direction))
        channel = numbers.setdefault(key, len(numbers))
        if channel == len(labels):
            labels.append([])
            size = float(abs(values[0]))
            entries += [(int(row), channel, float(value) / size) for row, value in zip(rows, values, strict=True)]
        labels[channel].append(source.element.name)
        members.append((channel, source.place, float(values[0]) ** 2))
    for part in network.flickers:
        filters = network.filters
        assert filters is not None
        for states, device in zip(part.states, part.devices, strict=True):
            for state, strength in zip(states, np.abs(filters.B).sum(axis=1), strict=True):
                entries.append((int(state), len(labels), float(strength)))
                labels.append([f"{network.groups[part.group].elements[device].name} (flicker)"])
    rows, columns, coefficients = _arrays(entries)
    at, sources, weights = _arrays(members)
    return Channels(
        rows,
        columns,
        coefficients,
        at,
        sources,
        weights,
        len(labels),
        tuple(map(tuple, labels)),
        tuple(network.names[i] for i in moved),
    )


def _arrays(entries: list[tuple[int, int, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b, c = zip(*entries, strict=True) if entries else ((), (), ())
    return np.array(a, INDEX), np.array(b, INDEX), np.array(c, float)


def resolved(network: Network) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, list[Refused]]:
    """Rows and values of the column of each source in `network.noises`, none in a constraint; the unknowns moved; and
    the sources that cannot be moved out of one.
    """
    n = network.n
    columns = []
    for source in network.noises:
        # The sign is a convention: noise flows from the first node to the second, but grounded elements push their
        # node up, and a channel always carries noise from drain to source.
        direction = -1.0 if source.b == n and source.kind != "channel" else 1.0
        pairs = sorted((row, value) for row, value in ((source.a, -direction), (source.b, direction)) if row != n)
        columns.append((np.array([row for row, _ in pairs]), np.array([value for _, value in pairs])))
    piece = _supernodes(network)
    pieces = int(piece.max(initial=-1)) + 1
    nothing = np.zeros(0, int)
    if not pieces:
        return columns, nothing, []
    stuck = [k for k, source in enumerate(network.noises) if piece[source.a] != piece[source.b]]
    if not stuck:
        return columns, nothing, []
    N = _constraints(network, piece, pieces)
    f_x, stand_ins = network.linear.matrix(n), _stand_ins(network)
    g = scipy.sparse.lil_array((n, len(stuck)))
    for column, k in enumerate(stuck):
        g[columns[k][0], column] = columns[k][1]
    moves, others = _moves(N, N @ (f_x + stand_ins) @ N.T, -(N @ g).toarray())

    def rounding(matrix: scipy.sparse.csr_array) -> np.ndarray:
        solved = 2.0 * np.max([np.abs(matrix @ (other - moves)) for other in others], axis=0)
        return solved + n * np.finfo(float).eps * (abs(matrix) @ np.abs(moves))

    clean = g.toarray() + f_x @ moves
    held = [network.branches[name] for name in network.charged]
    left = np.abs(np.concatenate([N @ clean, clean[held], stand_ins @ moves]))
    equations = scipy.sparse.vstack([N @ f_x, f_x[held], stand_ins]).tocsr()
    within, of_clean = rounding(equations), rounding(f_x)
    size = np.abs(clean).max(axis=0, initial=0.0) + 1.0
    # A node's equation counts currents, but that of a branch may have any factor, such as the gain of an amplifier.
    factor = np.ones((len(left), 1))
    of_branches = slice(pieces, N.shape[0] + len(held))
    factor[of_branches] = np.maximum(abs(equations[of_branches]).max(axis=1).toarray().reshape(-1, 1), 1.0)
    settled = np.all(left <= np.clip(within, NEGLECTED * size, UNCERTAIN * size * factor), axis=0)
    refused = []
    for column, k in enumerate(stuck):
        if not settled[column]:
            refused.append(_refused(network, network.noises[k], piece, moves[:, column]))
            continue
        values = clean[:, column]
        rows = np.flatnonzero(np.abs(values) > of_clean[:, column])
        columns[k] = rows, values[rows]
    return columns, np.flatnonzero(np.any(np.abs(moves) > rounding(scipy.sparse.eye_array(n)), axis=1)), refused


def _moves(N: scipy.sparse.csr_array, C: scipy.sparse.csr_array, right: np.ndarray) -> tuple[np.ndarray, list]:
    """N' y with C y = right, and as other roundings give it; not a number where C is singular."""
    try:
        return N.T @ direct.solved(C, right), [N.T @ y for y in otherwise_solved(C, right)]
    except np.linalg.LinAlgError:
        nothing = np.full((N.shape[1], right.shape[1]), np.nan)
        return nothing, [nothing]


def _supernodes(network: Network) -> np.ndarray:
    """Return for each node the number of its piece (n + 1,), connected by capacitors; -1 if that contains ground."""
    elements = [e for e in network.netlist.elements if topology.is_capacitive(e) or e.name in network.charged]
    count = len(network.nodes)
    pieces = topology.pieces({**network.nodes, GROUND: count}, elements)
    names = [p for p in dict.fromkeys(pieces.tolist()) if p != pieces[count]]
    number = {p: k for k, p in enumerate(names)}
    supernodes = np.full(network.n + 1, -1)
    supernodes[:count] = [number.get(p, -1) for p in pieces[:count].tolist()]
    return supernodes


def _constraints(network: Network, piece: np.ndarray, pieces: int) -> scipy.sparse.csr_array:
    """N: one row per piece and one per source. Its transpose holds the directions without a derivative."""
    evolving = set(network.mass.rows.tolist())
    free = [i for name, i in network.branches.items() if name not in network.charged and i not in evolving]
    inside = np.flatnonzero(piece[: network.n] >= 0)
    rows = np.concatenate([piece[inside], pieces + np.arange(len(free))])
    columns = np.concatenate([inside, np.array(free, int)])
    return scipy.sparse.coo_array((np.ones(len(rows)), (rows, columns)), (pieces + len(free), network.n)).tocsr()


def _stand_ins(network: Network) -> scipy.sparse.csr_array:
    """A conductance in place of every voltage that a nonlinear device reads.

    An admissible move leaves these voltages unchanged, so that the stand-ins carry no current and the linear equations
    hold as they are; any other move is revealed by the current in them.
    """
    size = float(np.median(np.abs(network.linear.values))) if len(network.linear.values) else 1.0
    rows, columns, values = [], [], []
    for c, d in (pair for group in (*network.groups, *network.charges) for pair in group.control):
        rows += [c, c, d, d]
        columns += [c, d, c, d]
        values += [np.full(len(c), sign * size) for sign in (-1.0, 1.0, 1.0, -1.0)]
    if not rows:
        return scipy.sparse.csr_array((network.n, network.n))
    return Stamps(np.concatenate(rows), np.concatenate(columns), np.concatenate(values)).matrix(network.n)


def _without_band(network: Network) -> Unplaced:
    devices = [network.groups[part.group].elements[k] for part in network.flickers for k in part.devices]
    names = ", ".join(device.name for device in devices)
    return Unplaced(f"{names}: flicker noise in time needs a band, from .tran or .options flo=... fhi=...; .noise and "
                    ".ac need none", devices[0].at)  # fmt: skip


def _refused(network: Network, source: Source, piece: np.ndarray, move: np.ndarray) -> Refused:
    names = list(network.nodes)
    return Refused(source, tuple(names[i] for i in (source.a, source.b) if piece[i] >= 0 and move[i] != 0.0))


def _refusal(refused: list[Refused]) -> str:
    """All the sources at once, and the ways out."""
    stated = [one for one in refused if one.source.element.name == one.source.element.nodes[0]]  # N, on its own node
    rest = [one for one in refused if one not in stated]
    return ". ".join(([_stated_refusal(stated)] if stated else []) + ([_own_refusal(rest)] if rest else []))


def _own_refusal(refused: list[Refused]) -> str:
    elements = list(dict.fromkeys(one.source.element.name for one in refused))
    nodes = list(dict.fromkeys(node for one in refused for node in one.nodes))
    kinds = " and ".join(dict.fromkeys(one.source.kind for one in refused))
    own, verb = ("its", "it") if len(elements) == 1 else ("their", "they")
    return (
        f"{', '.join(elements)}: {own} {kinds} noise is white but there is no capacitor from {', '.join(nodes)} to "
        f"ground, so that in time {verb} would drive a constraint or a nonlinear device infinitely hard. Put a "
        "capacitor at each of these nodes (every real node has one; .options cmin=1f puts one at all), or switch this "
        "noise off: noise=off on the lines of these elements, or .options noise=off. .op, .ac, .noise and the "
        "transient without noise need neither"
    )


def _stated_refusal(refused: list[Refused]) -> str:
    names = ", ".join(dict.fromkeys(one.source.element.name for one in refused))
    return (
        f"{names}: this noise is white, and in time it would drive a capacitor, a constraint or a nonlinear device "
        "infinitely hard. Give the bandwidth of the amplifier, bw=... in Hz on the line of the element, or switch the "
        "noise off: noise=off. .op, .ac, .noise and the transient without noise need neither"
    )
