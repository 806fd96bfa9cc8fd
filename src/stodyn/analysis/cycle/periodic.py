"""Periodic solutions of M x' = f(t, x): limit cycles of oscillators, steady states of driven systems, multipliers.

N steps of length h = T/N, or of other lengths where the equations have corners (periodic_corners.py), by the
collocation of Radau IIA, stages X_i at t + c_i h, D the inverse of its matrix:
    M Σ_j D_ij (X_j - x_n)/h = f(t_n + c_i h, X_i),   x_{n+1} = X_s,   x_N = x_0.
Newton solves for all stages, x_0 and, where f does not depend on time, T. The derivatives of every step
    δx_{n+1} = A_n δx_n + b_n δT,    Φ = A_{N-1} … A_0,
are those of the equations at the solution, exact, and Newton's correction comes from
    [Φ - 1, d; nᵀ, 0] (δx_0, δT) = (x_0 - x_N - …, 0),   d = Σ A_{N-1} … A_{n+1} b_n,
with n the component that moves fastest at the start. M may be singular: Φ then has zero eigenvalues, and nothing needs
to be eliminated.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np

from stodyn.analysis.cycle import periodic_corners, periodic_mesh, periodic_pace, periodic_start
from stodyn.analysis.cycle.periodic_mesh import Mesh, mesh
from stodyn.analysis.cycle.periodic_start import NoOscillation
from stodyn.analysis.cycle.periodic_system import StageEquations, System, system_of
from stodyn.arguments import check_positive, checks_arguments
from stodyn.circuits import Circuit
from stodyn.engine.precision import warn_of_rounded
from stodyn.hints import is_integer
from stodyn.methods.switching import refuse_switches
from stodyn.numerics.one_thread import blas_on_one_thread
from stodyn.numerics.radau import Scheme
from stodyn.problems.contract import Problem
from stodyn.problems.linear_plant import refuse_random_params

ADVICE = (
    "Give period=, start= nearer to it, such as the last state of a long run without noise, or more steps= where edges "
    "are steep; or find it by analysis.periodic with settle=, whose Cycle the other analyses take"
)
ROUNDS = 40
HALVINGS = 8
ONE = 1e-6  # a choice: multipliers nearer to 1 count as 1, since amplitudes that decay so slowly are not followed
SETTLED = 1e-9  # of the range, a choice: where Newton may stop when it gets no better, as rounding lets it not
SMALL_SYSTEM = 32  # unknowns up to which the order 9 costs little
SAME = 0.2  # by which the period and the ranges may differ from those that were observed
REFINED = 1e-3  # of the error of a cycle: how exactly the derivatives of one with other steps are computed
CACHED = 1_000_000  # numbers in the derivatives of the steps of one batch
SHOTS = 30  # rounds of Newton where some components drift
FAR = 0.1  # of the largest component in its unit: by which those that drift may be moved at once, beyond their range
CLOSE = 1e-2  # of that: a change after which Newton goes on from the stages
PLACINGS = 20  # rounds in which steps are made to end at corners
SEARCHES = 2  # of them in which all corners are searched for; later ones follow those that are known
ROUGH = 1e-3  # of the range: a change of Newton's that is small enough to place corners again
FEWEST = 12  # steps between two corners from which means over the period are taken
KNOWN = 1e-4  # a multiplier of an oscillator so near to 1 is that of its phase
AMISS = 0.1  # a choice: an oscillator of which no multiplier is so near to 1 has too long steps, if it is one at all
CLOSER = 2  # times that steps are doubled to see whether a cycle is stable
GAUSS = 12  # points of a step at which its Fourier coefficients are summed
REST = 1e-6  # of its size: a cycle whose components all stay within that is an equilibrium


@functools.cache
def _scheme(order: int) -> Scheme:
    return Scheme((order + 1) // 2)


class Kicks(NamedTuple):
    """How far noise moves the state for each unit of dW, `sizes` (p, n, sources), at which nodes, and the `weights`
    (p,) of these in a mean over the period."""

    nodes: np.ndarray | slice
    weights: np.ndarray
    sizes: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Cycle:
    """A periodic solution at N + 1 times and the derivatives of its N steps, equally long unless its mesh says other.

    mesh         its times as shares of the period
    t, x         (N + 1,) and (N + 1, n): times from `begin` on, states; x[N] = x[0]
    period       T
    driven       whether the system depends on time: then there is no phase that is free
    multipliers  the eigenvalues of Phi, the largest first; one of an oscillator is 1
    A, Phi       derivatives of the steps (N, n, n), and of the whole period
    stages       (N, s, n), and flows (N, s, n, n) = ∂stages/∂x_n
    rounds       of Newton; residual: the last change, relative to the range of each component
    """

    system: System
    mesh: Mesh
    t: np.ndarray
    x: np.ndarray
    period: float
    driven: bool
    order: int
    A: np.ndarray
    Phi: np.ndarray
    stages: np.ndarray
    flows: np.ndarray
    residual: float
    rounds: int

    @property
    def problem(self) -> Problem:
        return self.system.problem

    @property
    def steps(self) -> int:
        return len(self.t) - 1

    @property
    def h(self) -> np.ndarray:
        """The lengths (N,) of the steps."""
        return self.period * self.mesh.lengths

    @property
    def c(self) -> np.ndarray:
        """The places of the stages within a step, as shares of it."""
        return _scheme(self.order).c

    @functools.cached_property
    def weights(self) -> np.ndarray:
        """The weights (N,) of the nodes in a mean over the period."""
        return self.mesh.weights()

    @property
    def names(self) -> tuple[str, ...]:
        return self.system.names

    @functools.cached_property
    def multipliers(self) -> np.ndarray:
        eigenvalues = np.linalg.eigvals(self.Phi)
        return eigenvalues[np.argsort(-np.abs(eigenvalues))]

    @functools.cached_property
    def others(self) -> np.ndarray:
        """The multipliers except the one that belongs to the phase of an oscillator."""
        if self.driven:
            return self.multipliers
        return np.delete(self.multipliers, np.argmin(np.abs(self.multipliers - 1.0)))

    @property
    def stable(self) -> bool:
        return bool(np.all(np.abs(self.others) < 1.0 - ONE))

    @functools.cached_property
    def jacobians(self) -> np.ndarray:
        """f_x (N, n, n) at the nodes."""
        return self.system.jacobian(self.t[:-1], self.x[:-1])

    @functools.cached_property
    def velocity(self) -> np.ndarray:
        """x' (N, n) at the nodes."""
        if self.driven:
            return self.system.velocity(self.t[:-1], self.x[:-1], self.jacobians)
        f = self.system.f(self.t[:-1], self.x[:-1])[:, self.system.split.rows]
        return np.einsum("pnr,pr->pn", self.impulses, f)

    @functools.cached_property
    def impulses(self) -> np.ndarray:
        """How far (N, n, r) an impulse in the differential equations at a node moves the state."""
        return self.system.kicked(self.jacobians)

    @functools.cached_property
    def noise(self) -> np.ndarray:
        """g (N, n, sources) at the nodes."""
        return self.system.g(self.t[:-1], self.x[:-1])

    @functools.cached_property
    def kicks(self) -> Kicks:
        """How far the noise at the nodes moves the state, on both sides of those that lie at corners."""
        before, weights = self.mesh.weights_of_sides()
        system, k = self.system, np.flatnonzero(self.mesh.after_corner)
        rows = system.split.rows
        if not len(k):
            return Kicks(slice(None), weights, self.impulses @ self.noise[:, rows])
        shares = np.mod(self.mesh.shares[k] + periodic_corners.SIDE * np.array([[-1.0], [1.0]]), 1.0)
        t, x = self.t[0] + self.period * shares, self.on(shares)
        earlier, later = system.g(t.ravel(), x.reshape(-1, system.n)).reshape(2, len(k), *self.noise.shape[1:])
        nodes, impulses, noise = np.append(np.arange(self.steps), k), self.impulses.copy(), self.noise.copy()
        impulses[k] = system.kicked(system.jacobian(t[1], x[1]))  # what comes just before a corner is felt after it
        noise[k] = later
        sizes = impulses[nodes] @ np.concatenate([noise, earlier])[:, rows]
        return Kicks(nodes, np.append(weights, before[k]), sizes)

    def at(self, t: Any) -> np.ndarray:
        """The states at any times, from the collocation polynomials."""
        return self.on(np.mod((np.asarray(t, float) - self.t[0]) / self.period, 1.0))

    def on(self, shares: np.ndarray) -> np.ndarray:
        """The states at shares of the period, from 0 to 1."""
        nodes = self.mesh.shares
        step = np.clip(np.searchsorted(nodes, shares, side="right") - 1, 0, self.steps - 1)
        weights = _scheme(self.order).interpolation((shares - nodes[step]) / self.mesh.lengths[step])
        x = self.x[step]
        return x + np.einsum("...s,...sn->...n", weights, self.stages[step] - x[..., None, :])

    @functools.cached_property
    def refined(self) -> Cycle:
        """The same cycle with twice as many steps: the difference is the error of this one."""
        return _at_corners(self._with(self.mesh.of(2 * self.mesh.density)))

    @functools.cached_property
    def coarsened(self) -> Cycle:
        """The same cycle with half as many steps between corners: the difference is more than the error of this one."""
        return self._with(self.mesh.of(max(self.mesh.density // 2, 1)))

    @functools.cached_property
    def averaging(self) -> Cycle:
        """The same cycle with so many steps between any two corners that means over the period are right."""
        nodes = self.mesh.of(self.mesh.density, FEWEST)
        return self if len(nodes.at_corner) == self.steps else self._with(nodes)

    @functools.cached_property
    def halved(self) -> Cycle:
        """The same cycle with about half as many steps. Where corners are near each other, this one has more: a
        difference shows either way."""
        return self._with(self.mesh.of(max(self.mesh.density // 2, 1), FEWEST // 2))

    @functools.cached_property
    def paced(self) -> Cycle | None:
        """The same cycle of an oscillator with steps that are short where it is fast; None where none is found."""
        guess = periodic_start.Guess(0.0, self.x[0], self.period, (self.period,))
        return _paced(self.system, guess, periodic_mesh.USUAL, self.order, 1e-12)

    def shifted(self, begin: float) -> Cycle:
        """The same cycle, beginning elsewhere on it; of an oscillator only."""
        return self._with(self.mesh.shifted((begin - self.t[0]) / self.period), begin)

    def with_node_at(self, t: float) -> Cycle:
        """The same cycle with a step that ends at a time."""
        return self._with(self.mesh.at(np.append(self.mesh.corners, (t - self.t[0]) / self.period)))

    def _with(self, other: Mesh, begin: float | None = None) -> Cycle:
        """Return the same cycle with other steps."""
        begin = self.t[0] if begin is None else begin
        orbit = _Orbit(begin, self.at(begin), self.at(begin + self.period * other.places(self.c)), self.period, other)
        return _newton(self.system, orbit, self.order, 1e-12, REFINED)

    def harmonics(self, orders: np.ndarray) -> np.ndarray:
        """The Fourier coefficients (orders, n) of the states, in the period as it lies here."""
        if self.mesh.pace is None:
            even = np.fft.fft(self.on(np.arange(self.steps) / self.steps), axis=0) / self.steps
            return even[np.minimum(orders, self.steps - 1)]
        places, weights = np.polynomial.legendre.leggauss(GAUSS)
        shares = self.mesh.places(0.5 + 0.5 * places)
        x = self.on(shares.ravel()) * (0.5 * np.outer(self.mesh.lengths, weights)).ravel()[:, None]
        return np.exp(-2j * np.pi * np.outer(orders, shares)) @ x

    def to_dataset(self) -> Any:
        """t, x and the multipliers as an xarray.Dataset."""
        import xarray as xr

        dataset = xr.Dataset(
            {"x": (("time", "component"), self.x), "multiplier": (("mode",), np.abs(self.multipliers)),
             "period": ((), self.period)},
            {"time": self.t, "component": list(self.names)},
        )  # fmt: skip
        dataset["x"].attrs["units"] = dict(self.system.units)
        return dataset


@checks_arguments
@blas_on_one_thread
def periodic(
    problem: Problem,
    *,
    period: float | None = None,
    start: Any = None,
    steps: int = 256,
    order: int | None = None,
    settle: float = 20.0,
    tol: float = 1e-12,
) -> Cycle:
    """Find the periodic solution of a problem without its noise.

    Parameters
    ----------
    problem : Problem
        An SDE, an SDAE or a circuit. Noise is left out, and with it the question of Ito or Stratonovich.
    period : float, optional
        Of a system that depends on time, the period that is sought; circuits know that of their sources. For an
        oscillator, a first guess, which is searched for by default.
    start : array (n,), optional
        A state near the solution; by default the start of the problem.
    steps : int
        The number of steps over the period, all equal where the equations have no corners. Where they do, as those of
        transistors that switch off or saturate, steps end there, and there are a few more. Where equal steps find no
        cycle of an oscillator, they are short where it is fast, as those of an adaptive run are.
    order : {3, 5, 7, 9}, optional
        The order of the Radau IIA method; by default 9 up to 32 unknowns, not counting stored charges, and 5 beyond.
    settle : float
        The number of periods for which the system is followed before Newton's method begins.
    tol : float
        The relative change of every component and of the period at which Newton's method stops.

    Returns
    -------
    Cycle
        The solution, its period, its multipliers and the derivatives of its steps.

    Raises
    ------
    ValueError
        If an argument is impossible, the period of a driven system is missing, or no periodic solution is found.
    """
    refuse_switches(problem, "periodic")
    refuse_random_params("problem", problem)
    system = system_of(problem)
    warn_of_rounded(problem, "this analysis in float64")
    order = (9 if len(system.implicit) <= SMALL_SYSTEM else 5) if order is None else order
    if order not in (3, 5, 7, 9):
        raise ValueError(f"order: expected 3, 5, 7 or 9, got {order!r}")
    if not is_integer(steps, 8):
        raise ValueError(f"steps: expected a whole number >= 8, got {steps!r}")
    if period is not None:
        check_positive("a time", period=period)
    begin, x = 0.0, system.start if start is None else _given_start(system, start)
    if system.is_driven:
        if period is None and isinstance(problem, Circuit):
            period, begin = problem.network.sources.period()
        if period is None:
            raise ValueError("period: the problem depends on time; expected its period. Give period=..., or periodic "
                             "sources")  # fmt: skip
        try:
            guess = periodic_start.driven(system, begin, x, period, settle)
        except NoOscillation as error:
            raise ValueError(f"problem: no periodic solution was found from this start: {error}. {ADVICE}") from None
        begin = guess.t
    else:
        try:
            for guess in periodic_start.autonomous(system, x, period, settle):
                for from_there in (_from_drifting,) if guess.drifts else (_from_turn, _from_drifting):
                    at_once = from_there(system, guess, steps, order, tol)
                    if at_once is not None:
                        return _at_corners(_shortest(at_once, tol), tol)
            guess = periodic_start.sharpened(system, guess)
        except NoOscillation as error:
            raise ValueError(f"problem: no periodic solution was found from this start: {error}. {ADVICE}") from None
    if system.is_driven:
        return _at_corners(_solved_from(system, begin, guess, steps, order, tol), tol)
    try:
        even = _at_corners(_shortest(_solved_from(system, begin, guess, steps, order, tol), tol), tol)
    except ValueError:
        paced = _paced(system, guess, steps, order, tol)
        if paced is None:
            raise
        return paced
    is_known = np.abs(even.multipliers - 1.0).min() <= AMISS
    return even if is_known else _paced(system, guess, steps, order, tol) or even


def _at_corners(cycle: Cycle, tol: float = 1e-12) -> Cycle:
    """The cycle with steps that end where its equations have corners; NoOscillation where a guess leads to none."""
    before = np.inf
    for placing in range(PLACINGS):
        known = cycle.mesh.corners
        placed = cycle.mesh.at(periodic_corners.corners_of(cycle, placing >= SEARCHES and len(known) > 0))
        if len(known) == len(placed.corners):
            moved = np.max(np.abs(placed.corners - known), initial=0.0)
            if moved <= periodic_corners.PLACED or (moved <= periodic_mesh.SAME and moved > 0.5 * before):
                break
            before = moved
        orbit = _Orbit(cycle.t[0], cycle.x[0], cycle.on(placed.places(cycle.c)), cycle.period, placed)
        try:
            cycle = _newton(cycle.system, orbit, cycle.order, tol, rough=ROUGH)
        except (NoOscillation, np.linalg.LinAlgError):
            if cycle.residual > SETTLED:
                raise
            break
    if cycle.residual > SETTLED and cycle.mesh.at_corner.any():
        orbit = _Orbit(cycle.t[0], cycle.x[0], cycle.stages, cycle.period, cycle.mesh)
        cycle = _newton(cycle.system, orbit, cycle.order, max(tol, SETTLED))
    return cycle


def _solved(system: System, guess: _Orbit, order: int, tol: float) -> Cycle:
    """The solution near a guess: with equal steps, or where slopes that jump keep Newton from it, at corners."""
    try:
        return _newton(system, guess, order, tol)
    except NoOscillation:
        N, s, n = guess.stages.shape
        sketch = _cycle(system, guess, order, np.zeros((N, s, n, n)), np.inf, 0)
        if not len(periodic_corners.corners_of(sketch)):
            raise
        return _at_corners(sketch, tol)


def _from_turn(system: System, guess: periodic_start.Guess, steps: int, order: int, tol: float) -> Cycle | None:
    """The stable cycle to which Newton's method converges from the last observed period; None where it does not."""
    if guess.window is None:
        return None
    nodes = mesh(steps)
    shares = nodes.places(_scheme(order).c)
    stages = guess.turn(shares.ravel()).reshape(steps, -1, system.n)
    try:
        cycle = _solved(system, _Orbit(0.0, guess.turn(np.zeros(1))[0], stages, guess.period, nodes), order, tol)
    except (NoOscillation, np.linalg.LinAlgError):
        return None
    near = abs(cycle.period / guess.period - 1.0) <= SAME and np.all(
        np.abs(np.ptp(cycle.x, axis=0) - np.ptp(guess.turn(shares.ravel()), axis=0)) <= SAME * np.ptp(cycle.x, axis=0)
    )
    return cycle if near and _is_stable(cycle) else None


def _is_stable(cycle: Cycle) -> bool:
    """Whether it is, by its own steps, or by more where none of its multipliers is near 1: they are not known then."""
    for _ in range(CLOSER):
        if cycle.stable or np.abs(cycle.multipliers - 1.0).min() < KNOWN:
            break
        try:
            cycle = cycle.refined
        except (NoOscillation, np.linalg.LinAlgError):
            return False
    return cycle.stable


def _from_drifting(system: System, guess: periodic_start.Guess, steps: int, order: int, tol: float) -> Cycle | None:
    """The stable cycle to which Newton comes while some components may drift; None where it comes to none.

    They may lie further from it than their range, so every round follows one period from its start: stages that moved
    along with the start would leave the laws of the devices behind.
    """
    if guess.window is None:
        return None
    x, T, method = guess.turn(np.zeros(1))[0], guess.period, _scheme(order)
    nodes, others = mesh(steps), np.setdiff1d(np.arange(system.n), system.wandering)
    for _ in range(SHOTS):
        times = T * nodes.places(method.c)
        try:
            X = periodic_start.followed(system, np.append(0.0, times.ravel()), x)[1:].reshape(*times.shape, system.n)
        except NoOscillation:
            return None
        linear = _linearised(system, _Orbit(0.0, x, X, T, nodes), method)
        size = np.abs(X).max(axis=(0, 1))
        far = np.ptp(X, axis=(0, 1)) + FAR * np.maximum(size, system.largest_alike(size)) + _rounding(system, size)
        try:
            delta, delta_T, _ = _correction(system, linear, x, X, T, False, far)
        except NoOscillation:
            return None
        moved = float((np.abs(delta) / far)[others].max())
        if not math.isfinite(moved):
            return None
        share = min(1.0, 0.1 * T / abs(delta_T) if delta_T else 1.0, 1.0 / moved if moved > 1.0 else 1.0)
        x, T = x + share * delta, T + share * delta_T
        if moved < CLOSE:
            try:
                cycle = _solved_from(system, 0.0, periodic_start.Guess(0.0, x, T, (T,)), steps, order, tol)
            except ValueError:
                return None
            return cycle if _is_stable(cycle) else None
    return None


def _paced(system: System, guess: periodic_start.Guess, steps: int, order: int, tol: float) -> Cycle | None:
    """The stable cycle with steps that are short where it is fast; None where there is none."""
    try:
        turn = periodic_pace.turn(system, guess)
        nodes = mesh(steps, pace=turn.pace)
        stages = turn.on(nodes.places(_scheme(order).c))
        orbit = _Orbit(0.0, turn.on(np.zeros(1))[0], stages, turn.period, nodes)
        cycle = _at_corners(_solved(system, orbit, order, tol), tol)
    except (NoOscillation, np.linalg.LinAlgError):
        return None
    return cycle if _is_stable(cycle) else None


def _shortest(cycle: Cycle, tol: float) -> Cycle:
    """A cycle that is several turns of a shorter one is that one."""
    for part in (5, 3, 2):
        if _repeats(cycle, part):
            shorter = periodic_start.Guess(0.0, cycle.x[0], cycle.period / part, (cycle.period,))
            cycle = _solved_from(cycle.system, 0.0, shorter, cycle.mesh.density, cycle.order, tol)
    return cycle


def _given_start(system: System, start: Any) -> np.ndarray:
    x = np.asarray(start, float)
    if x.shape == (system.problem.n,):
        return x[system.unknowns]
    if x.shape != (system.n,):
        raise ValueError(f"start: expected {system.problem.n} numbers, got shape {x.shape}")
    return x


def _solved_from(system: System, begin: float, guess: periodic_start.Guess, steps: int, order: int, tol: float):
    nodes = mesh(steps)
    times = begin + guess.period * nodes.places(_scheme(order).c)
    try:
        states = periodic_start.followed(system, np.append(begin, times.ravel()), guess.x, periodic_start.FINE)
        stages = states[1:].reshape(*times.shape, system.n)
        return _solved(system, _Orbit(begin, guess.x, stages, guess.period, nodes), order, tol)
    except NoOscillation as error:
        last = ", ".join(f"{p:.6g}" for p in guess.periods)
        raise ValueError(f"problem: no periodic solution was found from this start ({error}; the last periods seen: "
                         f"{last}). {ADVICE}") from None  # fmt: skip


class _Orbit(NamedTuple):
    """A solution, or a guess at one: its first time and state, its stages (N, s, n), its period and its mesh."""

    begin: float
    x0: np.ndarray
    stages: np.ndarray
    period: float
    mesh: Mesh


def _newton(
    system: System, guess: _Orbit, order: int, tol: float, refined: float = 0.0, rough: float = 0.0
) -> Cycle:  # fmt: skip
    """The solution near a guess; its derivatives are right to `tol`, or to the share `refined` of the first change:
    where the stages come from a solution with other steps, that is the error of those. A change up to `rough` is
    enough as well."""
    begin, x0, X, T, nodes = guess
    n = system.n
    driven = system.is_driven
    method = _scheme(order)
    best = None
    for rounds in range(1, ROUNDS + 1):
        linear = _linearised(system, _Orbit(begin, x0, X, T, nodes), method)
        span = np.ptp(np.concatenate([x0[None], X.reshape(-1, n)]), axis=0)
        size = np.abs(X).reshape(-1, n).max(axis=0)
        scale = np.where(span > REST * size, span, size) + _rounding(system, size)
        if not driven and np.all(span <= REST * (size + 1e-300)):
            raise NoOscillation("Newton went to an equilibrium")
        delta, delta_T, changes = _correction(system, linear, x0, X, T, driven)
        measure = float(np.max(np.abs(changes) / scale, initial=0.0)) + abs(delta_T) / T
        if not math.isfinite(measure):
            raise NoOscillation("Newton's equations are singular")
        others = np.ones(n, bool)
        others[system.wandering] = False
        measure = float(np.max((np.abs(changes) / scale)[..., others], initial=0.0)) + abs(delta_T) / T
        tol = max(tol, refined * min(measure, 1.0)) if rounds == 1 else tol
        share = min(1.0, 0.25 * T / abs(delta_T) if delta_T else 1.0, 1.0 / measure if measure > 1.0 else 1.0)
        x0, X, T = x0 + share * delta, X + share * changes, T + share * delta_T
        done = measure <= tol
        stuck = best is not None and measure <= SETTLED and measure > 0.3 * best
        best = measure if best is None else min(best, measure)
        if done or stuck or measure <= rough:
            if not done:
                linear = _linearised(system, _Orbit(begin, x0, X, T, nodes), method)
            return _cycle(system, _Orbit(begin, x0, X, T, nodes), order, linear[0], measure, rounds)
    raise NoOscillation(f"Newton did not converge in {ROUNDS} rounds, the last change {measure:.1e} of the range")


def _rounding(system: System, size: np.ndarray) -> np.ndarray:
    """What rounding does to components of these sizes: n ε of the largest in the same unit, or of all. Sizes count as
    at least those of the start, since a cycle that is zero has none of its own."""
    size = np.maximum(size, np.abs(system.start))
    alike, limits = system.largest_alike(size), np.finfo(float)
    return system.n * limits.eps * np.where(alike > 0.0, alike, size.max()) + limits.tiny


class CycleSlope(NamedTuple):
    """The derivative of a cycle by a parameter: of its first state (n,), its stages (N, s, n) and its period."""

    x0: np.ndarray
    stages: np.ndarray
    period: float


def slope_of(cycle: Cycle, above: System, below: System, apart: float) -> CycleSlope:
    """The derivative of a cycle by a parameter, by which the systems `above` and `below` are `apart`: Newton's
    equations with ∂f/∂p - ∂M/∂p x' on the right."""
    begin, T, X, nodes, method = cycle.t[0], cycle.period, cycle.stages, cycle.mesh, _scheme(cycle.order)
    N, s, n = X.shape
    places, points = periodic_corners.before_corners(nodes, method.c[-1] - method.c[-2], nodes.places(method.c), X)
    times, D = (begin + T * places).ravel(), np.linalg.inv(method.A)
    J = cycle.system.jacobian(times, points.reshape(-1, n)).reshape(N, s, n, n)
    equations = StageEquations(cycle.system, J, D, cycle.h)
    before = np.concatenate([cycle.x[:1], X[:-1, -1]])
    velocity = np.einsum("ij,Njn->Nin", D, X - before[:, None]) / cycle.h[:, None, None]
    f_above, f_below = (side.f(times, points.reshape(-1, n)).reshape(N, s, n) for side in (above, below))
    rates = (f_above - f_below - velocity @ (above.mass - below.mass).T) / apart
    right = np.stack([rates, velocity @ cycle.system.mass.T], axis=-1)
    added, by_period = np.moveaxis(equations.solved(right), -1, 0)
    delta, delta_T, changes = _correction(
        cycle.system, (cycle.flows, added, by_period), X[-1, -1], X, T, cycle.driven, np.ptp(cycle.x, axis=0)
    )
    return CycleSlope(delta, changes, delta_T)


def moved(cycle: Cycle, system: System, slope: CycleSlope, step: float) -> Cycle:
    """The cycle of a system whose parameter is larger by a step than that of another cycle."""
    x0, X, T = cycle.x[0] + step * slope.x0, cycle.stages + step * slope.stages, cycle.period + step * slope.period
    other = _newton(system, _Orbit(cycle.t[0], x0, X, T, cycle.mesh), cycle.order, 1e-12)
    return _at_corners(other) if cycle.mesh.at_corner.any() else other


def _linearised(system: System, orbit: _Orbit, method: Scheme):
    """The derivatives ∂X/∂x_n (N, s, n, n) of every step, Newton's own correction of X (N, s, n), and T ∂X/∂T (N, s,
    n).

    Steps are taken in batches whose matrices fit into the caches of a processor.
    """
    begin, x0, X, T, nodes = orbit
    N, s, n = X.shape
    before, D = np.concatenate([x0[None], X[:-1, -1]]), np.linalg.inv(method.A)
    places, points = periodic_corners.before_corners(nodes, method.c[-1] - method.c[-2], nodes.places(method.c), X)
    times, h = begin + T * places, T * nodes.lengths
    flows, added, by_period = np.empty((N, s, n, n)), np.empty((N, s, n)), np.empty((N, s, n))
    batch = max(1, CACHED // (s * n * n))
    for first in range(0, N, batch):
        some = slice(first, first + batch)
        f = system.f(times[some].ravel(), points[some].reshape(-1, n)).reshape(-1, s, n)
        J = system.jacobian(times[some].ravel(), points[some].reshape(-1, n)).reshape(-1, s, n, n)
        f = f + _up_to_corners(system, J, (times[some], points[some]), (begin + T * nodes.shares[1:][some], X[some]))
        slopes = np.einsum("ij,Njn->Nin", D, X[some] - before[some, None]) @ system.mass.T / h[some, None, None]
        flows[some], added[some], by_period[some] = _solved_steps(StageEquations(system, J, D, h[some]), f, slopes)
    return flows, added, by_period


def _up_to_corners(system: System, J: np.ndarray, evaluated: tuple, ends: tuple) -> np.ndarray:
    """Return what f grows by (N, s, n) from the points at which it was evaluated to the stages, by its slopes there.
    Only the last stages of steps that end at corners lie elsewhere."""
    (times, points), (t, X) = evaluated, ends
    more = np.zeros_like(X)
    k = np.flatnonzero(np.any(points[:, -1] != X[:, -1], axis=1) | (times[:, -1] < t - 1e-13 * np.abs(t)))
    if len(k):
        more[k, -1] = np.einsum("pij,pj->pi", J[k, -1], X[k, -1] - points[k, -1])
        more[k, -1] += system.drifting(times[k, -1], points[k, -1]) * (t[k] - times[k, -1])[:, None]
    return more


def _solved_steps(equations: StageEquations, f: np.ndarray, slopes: np.ndarray):
    """Solve some steps of the linearised equations, from f and M x' at their stages."""
    M, (N, s, n) = equations.system.mass, f.shape
    felt = np.flatnonzero(M.any(axis=1))  # rows through which the state at the beginning of a step acts
    right = np.zeros((N, s, n, len(felt) + 2))
    right[:, :, felt, np.arange(len(felt))] = equations.D.sum(axis=2)[:, :, None]
    right[..., -2] = f - slopes
    right[..., -1] = slopes
    solution = equations.solved(right)
    return solution[..., :-2] @ M[felt], solution[..., -2], solution[..., -1]


def _correction(
    system: System, linear, x0: np.ndarray, X: np.ndarray, T: float, driven: bool, reach: np.ndarray | None = None
):
    """δx_0, δT and the changes of all stages. At the start of an oscillation the component is held that moves fastest
    by its range, or by its `reach`."""
    flows, added, by_period = linear
    n = system.n
    held = np.ones(n)
    held[system.wandering] = 0.0
    Phi, r, d = np.eye(n), np.zeros(n), np.zeros(n)
    for k in range(len(flows)):
        A = flows[k, -1]
        Phi, r, d = A @ Phi, A @ r + added[k, -1], A @ d + by_period[k, -1]
    miss = held * (x0 - X[-1, -1] - r)
    matrix = held[:, None] * Phi - np.eye(n)
    if driven:
        delta, relative = np.linalg.solve(matrix, miss), 0.0
    else:
        span = np.ptp(X[:, -1], axis=0) if reach is None else reach
        speed = np.abs(X[0, -1] - x0) / np.where(span > 0.0, span, np.inf)
        speed[system.wandering] = 0.0
        row = np.eye(n)[np.argmax(speed)]
        size = np.where(span > 0.0, span, 1.0)  # rows and columns of one size
        bordered = np.block([[matrix * size / size[:, None], (held * d / size)[:, None]], [row[None] * size, 0.0]])
        try:
            solution = np.linalg.solve(bordered, np.append(miss / size, 0.0))
        except np.linalg.LinAlgError:
            raise NoOscillation("the equations of Newton's method are singular: the steps may be too long for edges") \
                from None  # fmt: skip
        delta, relative = size * solution[:n], float(solution[n])
    changes, moved = np.empty_like(X), delta
    for k in range(len(flows)):
        changes[k] = flows[k] @ moved + added[k] + by_period[k] * relative
        moved = changes[k, -1]
    return delta, relative * T, changes


def _cycle(system: System, orbit: _Orbit, order: int, flows: np.ndarray, residual: float, rounds: int) -> Cycle:
    begin, x0, X, T, nodes = orbit
    A = np.ascontiguousarray(flows[:, -1])
    Phi = functools.reduce(lambda total, step: step @ total, A)
    Phi[system.wandering] = 0.0
    x = np.concatenate([x0[None], X[:, -1]])
    t = begin + T * nodes.shares
    return Cycle(system, nodes, t, x, float(T), system.is_driven, order, A, Phi, X, flows, residual, rounds)


def _repeats(cycle: Cycle, part: int) -> bool:
    """Whether the cycle is `part` turns of a shorter one."""
    reach = np.ptp(cycle.x, axis=0)
    apart = np.abs(cycle.at(cycle.t[0] + cycle.period * np.arange(1, part) / part) - cycle.x[0])
    apart[:, cycle.system.wandering] = 0.0
    return bool(np.all(apart <= 1e-6 * reach + _rounding(cycle.system, np.abs(cycle.x).max(axis=0))))
