"""The DC operating point: Newton with limited junction steps, then gmin stepping, settling and source stepping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy

from stodyn.circuits import points
from stodyn.circuits.assembly import Network, by_name
from stodyn.circuits.devices import LARGEST
from stodyn.circuits.text import NetlistError
from stodyn.circuits.words import several
from stodyn.numerics import direct
from stodyn.numerics.one_thread import blas_on_one_thread
from stodyn.numerics.rounding import UNITS

ROUNDS = 200
SETTLED = 1e-12  # relative to the voltages: the error after a last move this small is of the order of its square
ROUGHLY = 1e-6  # relative to the voltages: from moves this small on, they are compared with rounding errors
GMIN = 1e-2, 1e-12  # S, from every node to ground: the first and the last, by decades or, where that fails, less
MOST_STILL = 1e2  # S: where steps as short as this fail, longer ones do not help
SETTLING = 100, 50  # steps of the circuit with a capacitor at every node, and rounds of Newton's method in one
LEAST_FACTOR = 10.0 ** (1.0 / 16.0)  # between two of them
SPICES_GMIN, LEAKING = 1e-12, 1e-4  # S, and the share of the largest voltage by which it moves what leakage holds
MOVED = 1e-6  # of the largest voltage: the least by which GMIN across junctions is told to move others
SHOWN = 6  # names in a note
STILL, MOST_LOOKED_AT, MOST_MODES = 1e3, 1000, 120  # of the largest entry of f_x, S; unknowns
SLOW = 1e-9  # of the longest time constant of a circuit: shorter ones may be rounding errors
NEAR, BEGINNINGS = 0.1, 20  # V, and tries: how far from its first guess the search begins where that has no value
SIGNS = 4  # combinations of signs of rounding errors that are tried
HALVINGS = 60  # of a step that leads to where an expression has no value
STEPS = 1e-6  # the shortest step of source stepping, as a share of the sources
CAPS = ((120, 0.1), (40, 0.5))  # iterations of Newton's method, and the longest step of a voltage from then on, V

Residual = Callable[[np.ndarray], np.ndarray]


class OperatingPoint(NamedTuple):
    """The state x (n,) with f = 0, including the currents of all V, E, H and L; how it was computed; the iterations.
    point["out"] is the voltage of the node out, point["i(v1)"] a current."""

    x: np.ndarray
    how: str
    rounds: int
    names: tuple[str, ...] = ()

    def __getitem__(self, name: Any) -> Any:
        return by_name(self, self.x, self.names, name)


@blas_on_one_thread
def operating_point(
    network: Network, sources: np.ndarray, held: dict[int, float] | None = None, near: np.ndarray | None = None
) -> OperatingPoint:
    """Voltages and currents at rest with the sources at these values and the nodes of `held` at theirs (.ic).

    Capacitors are open, inductors short. The unknown of a source in a loop with capacitors is its current, not its
    charge. The search begins with the nodes of .nodeset held at their voltages, so that of several operating points
    the one near these voltages is found; or at the state `near`, if it is given.
    """
    held = dict(zip(network.resting.tolist(), network.netlist.resting.values(), strict=True)) | (held or {})
    if network.memories is not None:
        return _with_memories(network, sources, held, near)
    return _at_rest(network, sources, held, near)


def _with_memories(
    network: Network, sources: np.ndarray, held: dict[int, float], near: np.ndarray | None
) -> OperatingPoint:
    """The point at which no switch with memory would change: they begin as their lines say, or as they are at the
    state `near`, and all that would change do, until none does."""
    memories, states = network.memories, set()
    assert memories is not None
    on = memories.at_first if near is None else near[memories.rows]
    while on.tobytes() not in states:
        states.add(on.tobytes())
        point = _at_rest(network, sources, held | dict(zip(memories.rows.tolist(), on.tolist(), strict=True)), near)
        changes = memories.distances(point.x, np) <= 0.0
        if not changes.any():
            return point
        on = np.where(changes, 1.0 - on, on)
    names = ", ".join(name for name, change in zip(memories.names, changes, strict=True) if change)
    raise NetlistError(
        f"no DC operating point: {names} goes on where it is off, and off where it is on. Start from given voltages "
        "with .tran ... uic"
    )


def _at_rest(
    network: Network, sources: np.ndarray, held: dict[int, float], near: np.ndarray | None = None
) -> OperatingPoint:
    """The operating point with these unknowns held."""
    solver = _Solver(network, sources, held)
    if near is not None and (point := solver.newton(near)) is not None:
        return OperatingPoint(point, "Newton from the point before", solver.rounds)
    nothing = np.zeros(network.n)
    guesses = {network.nodes[name]: value for name, (value, _) in network.netlist.guesses.items()}
    if guesses:
        guess = _Solver(network, sources, guesses | held).newton(nothing)
        point = None if guess is None else solver.newton(guess)
        if point is not None:
            return OperatingPoint(point, "Newton from .nodeset", solver.rounds)
    point = solver.newton(nothing)
    if point is not None:
        return OperatingPoint(point, "Newton", solver.rounds)
    before = _by_gmin_stepping(solver, nothing)
    if before is not None:
        point = solver.newton(before)
        if point is not None:
            return OperatingPoint(point, "gmin stepping", solver.rounds)
        if network.groups:  # a node may be connected only to devices that are off
            return OperatingPoint(before, f"gmin stepping, with {GMIN[1]:g} S from every node to ground", solver.rounds)
    point = _by_settling(solver, nothing)
    if point is not None:
        return OperatingPoint(point, "settling", solver.rounds)
    point = _by_source_stepping(solver, nothing)
    if point is not None:
        return OperatingPoint(point, "source stepping", solver.rounds)
    names = ", ".join(name for name, row in network.nodes.items() if row in held)
    advice = "Give voltages with .ic"
    if names:
        advice = f".ic holds {names}: take out those that inductors or sources hold already"
    raise NetlistError(
        f"no DC operating point was found in {solver.rounds} rounds of Newton, gmin stepping, settling and source "
        f"stepping{solver.trouble}. {advice}, or start from them with .tran ... uic"
    )


def _by_gmin_stepping(solver: _Solver, x: np.ndarray) -> np.ndarray | None:
    """The point with the last GMIN, from that with the first on; in a chain of gates a decade may be too much."""
    (g, last), factor = GMIN, 10.0
    point = solver.newton(x, gmin=g)
    while point is not None and g > last:
        ahead = g / factor if g > 1.001 * factor * last else last
        further = solver.newton(point, gmin=ahead)
        if further is None:
            factor **= 0.25
            if factor < LEAST_FACTOR:
                return None
        else:
            point, g, factor = further, ahead, min(10.0, factor**2)
    return point


def remarks(network: Network, sources: np.ndarray, held: dict[int, float], x: np.ndarray) -> list[str]:
    """What to say of an operating point: why other simulators may find other voltages, or find none."""
    if not network.groups:
        return []
    solver = _Solver(network, sources, held)
    words = [_held_by_leakage(solver, x) or _driven_away(solver, x) or _moved_by_gmin(solver, x)]
    words.append(_beyond_exponentials(network, x))
    for group in network.groups:
        if group.law.remark is None:
            continue
        which, why = group.law.remark
        names = [group.elements[k].name for k in np.flatnonzero(which(group.read(np.append(x, 0.0)), group.numbers))]
        words += [f"{several(names, SHOWN)}: {why}"] if names else []
    return [*filter(None, words)]


def _held_by_leakage(solver: _Solver, x: np.ndarray) -> str:
    """The nodes of an operating point that only leakage holds, in words: those that nothing determines, or those that
    SPICE's GMIN from every node to ground would move by more than LEAKING of the largest voltage."""
    network = solver.network
    if solver.newton(x) is None:
        return f"the operating point is determined only with {GMIN[1]:g} S from every node to ground{solver.trouble}"
    other = solver.newton(x, gmin=SPICES_GMIN)
    moves = np.zeros(network.n) if other is None else np.abs(other - x)
    largest = np.abs(x[: solver.count]).max(initial=0.0)
    names = [name for name, row in network.nodes.items() if moves[row] > LEAKING * largest]
    if not names:
        return ""
    return (
        f"only leakage holds {several(names, SHOWN)}: SPICE's GMIN of {SPICES_GMIN:g} S from each node to ground, "
        f"which is not here, would move voltages by up to {moves[: solver.count].max():.2g} V"
    )


def _moved_by_gmin(solver: _Solver, x: np.ndarray) -> str:
    """What to say where SPICE's GMIN across junctions would move a voltage by more than MOVED of the largest, to first
    order; junctions between the same two nodes count as one."""
    network, y = solver.network, np.append(x, 0.0)
    junctions = {
        pair
        for group in network.groups
        for (c, d), names in zip(group.control, group.law.junction, strict=False)
        if names is not None
        for pair in zip(c.tolist(), d.tolist(), strict=True)
    }
    currents = np.zeros(len(y))
    for c, d in junctions:
        currents[c] += SPICES_GMIN * (y[c] - y[d])
        currents[d] -= SPICES_GMIN * (y[c] - y[d])
    currents[list(solver.held)] = 0.0
    moves = solver.solved(solver.jacobian(x, np.zeros(network.n)), currents[:-1])
    most = 0.0 if moves is None else np.abs(moves[: solver.count]).max(initial=0.0)
    if most <= MOVED * np.abs(x[: solver.count]).max(initial=0.0):
        return ""
    return (
        f"SPICE's GMIN of {SPICES_GMIN:g} S across junctions, which is not here, would move voltages by up to "
        f"{most:.2g} V"
    )


def _beyond_exponentials(network: Network, x: np.ndarray) -> str:
    """What to say of junctions that are driven so hard that their exponentials are not followed."""
    names: dict[str, None] = {}
    for group in network.groups:
        read = group.read(np.append(x, 0.0))
        for k in range(len(group.law.junction)):
            beyond = np.flatnonzero(group.law.is_beyond(k, read[k], group.numbers))
            names |= dict.fromkeys(group.elements[one].name for one in beyond)
    if not names:
        return ""
    return (
        f"{several(names, SHOWN)}: a junction would carry more than {LARGEST:g} A at the operating point; its current "
        "is continued along a tangent there, so that voltages and currents near it are not those of the device. Put "
        "the resistance that limits it into the netlist, as RB, RS or a resistor"
    )


def _driven_away(solver: _Solver, x: np.ndarray) -> str:
    """What to say of an operating point at which the circuit does not rest: that of an oscillator, or in a latch.

    It has a mode that grows; or it would have one with a capacitance at every node: with a large conductance g from
    every node to where it is the circuit rests, and if det f_x has another sign without g, det (f_x - g) vanishes on
    the way.
    """
    network, rows = solver.network, list(solver.held)
    if network.n > MOST_LOOKED_AT:
        return ""
    J = direct.dense(solver.jacobian(x, np.zeros(network.n)))
    still = J - np.diag(np.where(np.arange(network.n) < solver.count, STILL * np.abs(J).max(), 0.0))
    still[rows] = J[rows]
    if _sign(J) * _sign(still) >= 0.0 and not (network.n <= MOST_MODES and _has_growing_mode(network, x)):
        return ""
    return (
        "at the operating point feedback drives the circuit away, as in an oscillator or a latch: other simulators may "
        "find another point, or a moment of the oscillation. .nodeset chooses among several points"
    )


def _has_growing_mode(network: Network, x: np.ndarray) -> bool:
    """Whether a mode grows: those of M x' = f_x x are exp(t/τ) for the eigenvalues τ of f_x⁻¹ M.

    Only the rate of a charge that a source has delivered is read: it takes the place of the charge, so that f_x has no
    column of zeros."""
    M, J = (np.array(direct.dense(matrix)) for matrix in network.small_signal(x))
    delivered = [network.branches[name] for name in network.charged]
    J[:, delivered], M[:, delivered] = -M[:, delivered], 0.0
    try:
        times = np.linalg.eigvals(np.linalg.solve(_perturbed(J), M))
    except np.linalg.LinAlgError:
        return False
    return bool((times.real > SLOW * np.abs(times).max(initial=0.0)).any(axis=-1).all())


def _sign(J: np.ndarray) -> float:
    """The sign of a determinant; 0 where rounding errors in the entries can change it."""
    signs = np.linalg.slogdet(_perturbed(direct.of_one_size(J, J[0])[0]))[0]
    return float(signs[0]) if (signs == signs[0]).all() else 0.0


def _perturbed(J: np.ndarray) -> np.ndarray:
    """The matrix (tries, n, n) with rounding errors of its entries."""
    signs = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], (SIGNS, *J.shape))
    return J * (1.0 + UNITS * np.finfo(float).eps * signs)


def _by_source_stepping(solver: _Solver, x: np.ndarray) -> np.ndarray | None:
    share, step = 0.0, 0.1
    start = solver.newton(x, share=0.0)
    if start is None:
        return None
    x = start
    while share < 1.0:
        ahead = min(1.0, share + step)
        point = solver.newton(x, share=ahead)
        if point is None:
            step /= 4.0
            if step < STEPS:
                return None
        else:
            x, share, step = point, ahead, 2.0 * step
    return x


def _by_settling(solver: _Solver, x: np.ndarray) -> np.ndarray | None:
    """The point at which the circuit settles with a capacitor at every node: steps of the implicit Euler method, ever
    longer ones, which a comparator with feedback needs where a change of GMIN makes it jump."""
    g = GMIN[0]
    for _ in range(SETTLING[0]):
        ahead = solver.newton(x, gmin=g, anchor=x, most=SETTLING[1])
        if ahead is None and g > MOST_STILL:
            return None
        if ahead is None:
            g *= 8.0
            continue
        x, g = ahead, g / 4.0
        if g < GMIN[1]:
            return solver.newton(x)
    return None


def shortened(turn: int, move: float) -> float:
    """The factor that shortens a step of Newton's method: after some iterations no voltage moves farther than CAPS
    allows, so that the iteration cannot cycle for ever."""
    cap = next((volts for turns, volts in CAPS if turn >= turns), np.inf)
    return min(1.0, cap / move) if move > 0.0 else 1.0


class _Solver:
    """Newton's method on f(x) = 0 for a network at rest."""

    def __init__(self, network: Network, sources: np.ndarray, held: dict[int, float]):
        self.network, self.sources, self.held = network, sources, held
        self.rounds, self.trouble = 0, ""
        self.count = len(network.nodes)

    def newton(
        self, x: np.ndarray, gmin: float = 0.0, share: float = 1.0, anchor: np.ndarray | float = 0.0, most: int = ROUNDS
    ) -> np.ndarray | None:
        """The point with a conductance from every node to the voltage it has in `anchor`, and a share of the sources,
        found in `most` rounds or not at all."""
        network, n = self.network, self.network.n
        grounded = np.where(np.arange(n) < self.count, gmin, 0.0)

        def residual(x: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                f = network.at_rest.rates(x, share * self.sources, np) - grounded * (x - anchor)
            for row, value in self.held.items():
                f[row] = x[row] - value
            return f

        (x, f), missing = self.beginning(x, residual), ""
        for turn in range(most if np.isfinite(f).all() else 0):
            self.rounds += 1
            with np.errstate(all="ignore"):
                J = self.jacobian(x, grounded)
            move = self.solved(J, f)
            if move is None:
                break
            step = self.limited(x, -move) * shortened(turn, np.abs(move[: self.count]).max(initial=0.0))
            x, f, missing = self.advanced(x, step, residual)
            last, size = np.abs(move[: self.count]).max(initial=0.0), 1.0 + np.abs(x[: self.count]).max(initial=0.0)
            if last <= SETTLED * size or (last <= ROUGHLY * size and last <= self.rounding(J, x)):
                return x if np.isfinite(x).all() else None
        if missing:
            self.trouble = (
                f" (an expression at {missing} has no value where the search leads, as the logarithm of a negative "
                "number or a quotient by 0)"
            )
        return None

    def beginning(self, x: np.ndarray, residual: Residual) -> tuple[np.ndarray, np.ndarray]:
        """x, or a place near it where all expressions have a value, and the residual: log(V(a)) has none at 0."""
        rng = np.random.default_rng(1)
        shifts = [np.zeros(self.count), np.full(self.count, NEAR), np.full(self.count, -NEAR)]
        shifts += list(NEAR * rng.standard_normal((BEGINNINGS, self.count)))
        for shift in shifts:
            place = x.copy()
            place[: self.count] += shift
            f = residual(place)
            if np.isfinite(f).all():
                return place, f
        self.trouble = f" (an expression has no value at any of {len(shifts)} places where the search could begin)"
        return x, residual(x)

    def advanced(self, x: np.ndarray, step: np.ndarray, residual: Residual) -> tuple[np.ndarray, np.ndarray, str]:
        """The state after a step, halved until all expressions have a value, the residual there, and the unknowns whose
        equations had none after the whole step."""
        missing = ""
        for _ in range(HALVINGS):
            f = residual(x + step)
            if np.isfinite(f).all():
                break
            missing = missing or ", ".join(self.network.names[i] for i in np.flatnonzero(~np.isfinite(f))[:SHOWN])
            step = 0.5 * step
        return x + step, f, missing

    def rounding(self, J: Any, x: np.ndarray) -> float:
        """The most by which rounding in the currents moves a voltage: with 0.1 Ω beside 100 kΩ far more than 1e-12.

        It is that of every term by UNITS ε. Which signs of it move voltages most is found by trying some."""
        rounding, signs = UNITS * np.finfo(float).eps * (abs(J) @ np.abs(x)), np.random.default_rng(1)
        moves = [self.solved(J, signs.choice([-1.0, 1.0], len(x)) * rounding) for _ in range(SIGNS)]
        return max(0.0 if move is None else float(np.abs(move[: self.count]).max(initial=0.0)) for move in moves)

    def jacobian(self, x: np.ndarray, grounded: np.ndarray) -> Any:
        """f_x, an array where the network is small; each held node has the row of its own voltage."""
        rows = list(self.held)
        if len(x) <= direct.SMALL:
            J = points.slopes(self.network.at_rest, x[None])[0] - np.diag(grounded)
            J[rows] = np.eye(len(x))[rows]
            return J
        keep = np.ones(len(x))
        keep[rows] = 0.0
        J = self.network.at_rest.slopes(x) - scipy.sparse.diags_array(grounded)
        return scipy.sparse.diags_array(keep) @ J + scipy.sparse.diags_array(1.0 - keep) if rows else J

    def solved(self, J: Any, f: np.ndarray) -> np.ndarray | None:
        if not np.isfinite(J.data if scipy.sparse.issparse(J) else J).all():
            self.trouble = " (an expression has an infinite slope where the search passed)"
            return None
        try:
            solution = direct.solved(J, f)
        except np.linalg.LinAlgError:
            self.trouble = f" (singular: {self.loose(direct.of_one_size(J, f)[0])})"
            return None
        return solution if np.isfinite(solution).all() else None

    def loose(self, J: Any) -> str:
        """Names the unknowns that no equation determines."""
        if self.network.n > 1000:
            return "some node voltages are not determined"
        direction = np.abs(np.linalg.svd(direct.dense(J))[2][-1])
        names = [self.network.names[i] for i in np.flatnonzero(direction > 0.1 * direction.max())]
        return f"{', '.join(names[:6])} {'is' if len(names) == 1 else 'are'} not determined"

    def limited(self, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        """The step, shortened so that no controlling voltage leaves the range in which the slopes of its device hold.

        A junction may rise to 2 N V_T beyond the voltage at which it conducts 10 µA, other voltages by 10 V. The whole
        step is shortened, so that its direction remains that of Newton's method.
        """
        y, dy = np.append(x, 0.0), np.append(step, 0.0)
        most = 1.0
        for group in self.network.groups:
            for k, (c, d) in enumerate(group.control):
                sign = group.numbers.of.get("sign", 1.0)
                v, dv = sign * (y[c] - y[d]), sign * (dy[c] - dy[d])
                room = group.law.room(k, v, group.numbers)
                for direction, free in ((1.0, room), (-1.0, group.law.room_below(v, group.numbers))):
                    over = direction * dv > free
                    if over.any():
                        most = min(most, float((free[over] / (direction * dv)[over]).min()))
        return most * step
