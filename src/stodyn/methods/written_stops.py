"""Whether steps are short enough for stops that a user wrote into a force or a drift, by jnp.where or jnp.maximum.

Where a function made of pieces passes from one to the next, its Jacobian jumps by u wᵀ, with w normal to the surface
between the pieces. A path that meets the steeper piece moves along u by

    λ² - (wᵀu) λ - wᵀS u = 0,

S being the Jacobian of the other piece: it swings with √(-wᵀS u), the √(k/m) of a stop, or is pushed back at the rate
-wᵀu, as by a stop in an equation of first order. Surfaces are found along lines, by the decisions that the trace of the
function takes, so that a piece need not be wide. Then paths from the start show which of the stops are met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.methods.contacts import NOTABLE, REFUSED, is_resolved, tell_of_stiff_stop
from stodyn.noise.coloured.delay import Delayed
from stodyn.numerics import van_loan
from stodyn.numerics.facts.degree import corners
from stodyn.numerics.printing.fingerprints import holds
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.regions import region
from stodyn.problems.driven import step_matrices
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE
from stodyn.problems.stops import Stiffest
from stodyn.telling import tell
from stodyn.warnings import StopsNotResolved

MOST_STATES = 60  # of systems whose Jacobians are computed at many points
STEEPER = 2.0  # times that a stop is at least as stiff as what is beside it, and as the start
LINES, SCALES = 64, np.geomspace(1e-4, 1e4, 65)  # in search of surfaces, and places on them in units of a state's size
CROSSINGS = 16  # of each surface that are looked at
AT_START = 1e-12  # of the size of a state: how far from the start its piece is looked for
MOMENTS = 8  # at which the Jacobians at a surface are compared
BISECTIONS, BESIDE = 30, 1e-7  # how exactly a surface is found, and how far from it its pieces are judged
PATHS, STAGE, STAGES = 64, 50, 12  # paths from the start, and steps of a length until they may double
ENOUGH = 8  # times that paths meet a surface
CURVED = 0.02  # share of nonlinear motion in a step, of the way of a path, up to which its steps double
DEEPER = 1.0, 4.0  # times as deep in a stop of first order after a step, above which a run warns and is refused
MOST_HALVINGS = 24  # of the step, in search of one that is short enough
WORDS = (
    "of a body that meets a stop in {place}, a region in which it is so much steeper than at the start that h √(k/m) "
    "is {{Ω:.3g}}. Take {{shorter}}write {remedy}: methods of the α family with order=1.0, such as StochasticAlpha, "
    "then keep the energy."
)
PLACES = {  # how a stop is told to the user of each kind
    Mechanical: ("`force`", "the stop as stodyn.elements.Gap"),
    Hamiltonian: ("`H` or `force`", "the system as Mechanical with the stop as stodyn.elements.Gap"),
    SDE: ("`drift`", "the system as Mechanical with the stop as stodyn.elements.Gap"),
}


def check_written_stops(method: Any, problem: Any, h: float, times: tuple[float, float]) -> None:
    """Warn where the steps of a run between two times are too long for a stop in the user's own force or drift; refuse
    where they multiply the energy there."""
    words = next((words for kind, words in PLACES.items() if isinstance(problem, kind)), None)
    if words is None:
        return
    try:
        stop, (place, remedy) = _stiffest(method, problem, h, times), words
    except (Unprintable, NotImplementedError):  # its pieces, or its derivatives, are not known
        return
    if stop.swings > 0.0:
        swinging = Stiffest(stop.swings, stop.damping)
        tell_of_stiff_stop(method, h, swinging, REFUSED, WORDS.format(place=place, remedy=remedy))
    if stop.pushes > 0.0:
        _tell_of_deeper_paths(method, h, stop.pushes, place)


def _tell_of_deeper_paths(method: Any, h: float, rate: float, place: str) -> None:
    deeper = _deeper(method, h * rate)
    if deeper <= DEEPER[0]:
        return
    share = next((s for k in range(1, MOST_HALVINGS) if _deeper(method, (s := 0.5**k) * h * rate) <= DEEPER[0]), None)
    shorter = "" if share is None else f"steps of {share * h:.2g} or "
    words = (
        f"dt: with steps of {h:g} {method.name} makes the depth to which a path has entered a stop in {place} "
        f"{deeper:.3g} times as large in a step, on one side of it or the other, but it should vanish: h times the "
        f"rate at which the stop moves the path back is {h * rate:.3g}. Take {shorter}an implicit method, or reflect "
        "paths there by stodyn.Walls."
    )
    if deeper > DEEPER[1]:
        raise ValueError(words)
    tell(words, StopsNotResolved)


def _deeper(method: Any, z: float) -> float:
    """The factor, without its sign, of a step of x' = -z x; 0 where it is not known."""
    decay = SDE(lambda t, x: -z * x, lambda t, x: jnp.zeros((1, 1)), np.zeros(1),
                calculus=getattr(method, "calculus", None) or "ito", structure="additive")  # fmt: skip
    matrices = step_matrices(method, decay, 1.0) if isinstance(decay, method.accepts) else None
    return 0.0 if matrices is None else float(np.abs(np.linalg.eigvals(matrices[0])).max())


# --- the equations, and where their pieces meet -----------------------------------------------------------------------


class _Equations:
    """dz = f dt + g dW of a problem without its elements, at many points, and the pieces of f.

    places        of its states among those of the problem
    noise_varies  whether g may depend on the state
    """

    def __init__(self, problem: Any, f: Callable, g: Any, places: np.ndarray):
        params = problem.example_params()

        def at_points(function: Callable, few: int = 0) -> AtPoints:
            return AtPoints(lambda t, z: function(t, z, params), few=few)

        self.problem, self.places = problem, places
        self.noise_varies = g is not None and not problem.noise_structure.implies("additive")
        self.start = np.asarray(problem.example_start(), float)[places]
        self.f, self.pieces = at_points(f), at_points(region(f))
        self.g: Any = None if g is None else at_points(g)
        self.slopes = at_points(jax.jacfwd(f, argnums=1), few=1)

    def starts(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(self.problem.draw_start(rng, range(PATHS)), float)[:, self.places]


def _equations(problem: Any) -> _Equations | None:
    """The equations of first order of a problem; None of one that is large or that cannot be written so."""
    if problem.n > MOST_STATES:
        return None
    g = problem.g if problem.m else None
    if not isinstance(problem, Mechanical):
        return _Equations(problem, problem.f, g, np.arange(problem.n))
    motion, noise, push, N = problem.motion.without_stops, problem.coloured, getattr(problem, "push", None), problem.N
    is_plain = motion.is_regular and problem.joints is None and not problem.own.hysteresis
    if not is_plain or isinstance(noise, Delayed):
        return None

    def own_rates(t, z, params):
        y, v = z[:N], z[N : 2 * N]
        return jnp.concatenate([v, motion.acceleration(t, y, v, y[:0], params)])

    if noise is None or push is None:
        return _Equations(problem, own_rates, g, np.arange(2 * N))

    def rates(t, z, params):
        y, v, s = z[:N], z[N : 2 * N], z[2 * N :]
        pushed = jnp.concatenate([jnp.zeros(N), push(t, y, v, y[:0], params) @ (noise.C @ s)])
        return jnp.concatenate([own_rates(t, z, params) + pushed, noise.A @ s])

    def kicks(t, z, params):
        own = motion.kicks(t, z[:N], z[N : 2 * N], z[:0], params)
        return jax.scipy.linalg.block_diag(jnp.concatenate([jnp.zeros_like(own), own]), jnp.asarray(noise.B))

    own = problem.own.n
    return _Equations(problem, rates, kicks, np.r_[: 2 * N, own : own + len(noise.A)])


def _has_corners(problem: Any) -> bool:
    """Whether a force or a drift has corners in the state, and its slopes at many points cost little."""
    motion = problem.motion.without_stops if isinstance(problem, Mechanical) else None

    def bare(s):
        if motion is None:
            return problem.f(0.0, s, params)
        y, v, z = motion.coordinates(s)
        return motion.balance(0.0, y, v, z, params)[0]

    params, start = problem.example_params(), jnp.asarray(problem.example_start())
    with jax.enable_x64(True):
        trace = jax.make_jaxpr(bare)(start)
        return not (holds(trace, "while") or holds(trace, "scan")) and bool(corners(bare, (start,), 0))


class _Surfaces(NamedTuple):
    """Surfaces between pieces, where lines cross them.

    t          when
    near, far  states (crossings, n) close beside them, before and behind
    decision   which of the decisions changes there
    line       which of the lines it is on
    """

    t: np.ndarray
    near: np.ndarray
    far: np.ndarray
    decision: np.ndarray
    line: np.ndarray


def _crossed(
    equations: _Equations, t: np.ndarray, a: np.ndarray, b: np.ndarray, of: np.ndarray | None = None, most: int = PATHS
) -> _Surfaces:
    """Where lines from a to b (lines, n) at times t cross surfaces, so many of each; `of` picks decisions."""
    before, after = np.asarray(equations.pieces(t, a)), np.asarray(equations.pieces(t, b))
    lines, decisions = [], []
    for k in range(before.shape[1]) if of is None else of:
        changed = np.flatnonzero(before[:, k] != after[:, k])
        changed = changed[:: max(1, -(-len(changed) // most))]
        lines.append(changed)
        decisions.append(np.full(len(changed), k))
    line, decision = (np.concatenate(parts).astype(int) if parts else np.zeros(0, int) for parts in (lines, decisions))
    t, a, step, own = t[line], a[line], b[line] - a[line], before[line, decision]
    low, high = np.zeros(len(line)), np.ones(len(line))
    for _ in range(BISECTIONS if len(line) else 0):
        middle = 0.5 * (low + high)
        here = np.asarray(equations.pieces(t, a + middle[:, None] * step))
        is_before = here[np.arange(len(line)), decision] == own
        low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
    return _Surfaces(t, a + (low - BESIDE)[:, None] * step, a + (high + BESIDE)[:, None] * step, decision, line)


class _Stop(NamedTuple):
    """What a path meets at a surface: √(k/m), and the damping, of one that swings; the rate of one that pushes back."""

    swings: float
    damping: float
    pushes: float

    def is_beyond(self, limits: tuple[float, float]) -> bool:
        return self.swings > limits[0] or self.pushes > limits[1]


NOTHING = _Stop(0.0, 0.0, 0.0)


def _stop_between(near: np.ndarray, far: np.ndarray, at_start: np.ndarray) -> _Stop:
    """The stop that a path from `near` to `far`, or back, meets by the Jacobians there and at the start."""
    jump = far - near
    if not (np.isfinite(jump).all() and jump.any()):
        return NOTHING
    rise = np.abs(jump) / np.maximum(np.abs(jump).max(), 1e-300)
    i, j = np.unravel_index(int(np.argmax(rise)), jump.shape)
    soft, stiff = (near, far) if abs(near[i, j]) <= abs(far[i, j]) else (far, near)
    if abs(stiff[i, j]) < STEEPER**2 * max(abs(soft[i, j]), abs(at_start[i, j])):
        return NOTHING
    jump = stiff - soft
    u, w = jump[:, j], jump[i] / jump[i, j]
    pushed, square = float(-w @ u), float(-w @ soft @ u)
    if pushed > 0.0 and pushed**2 >= 4.0 * square:
        return _Stop(0.0, 0.0, pushed)
    if square <= 0.0 or pushed**2 >= 4.0 * square:
        return NOTHING
    return _Stop(math.sqrt(square), pushed + float(w @ soft @ soft @ u) / square, 0.0)


def _stops(equations: _Equations, surfaces: _Surfaces, t: np.ndarray, at_start: np.ndarray) -> list[_Stop]:
    """The stops (times, crossings) at surfaces, at their own times and at other ones t."""
    count = len(surfaces.t)
    if not count:
        return []
    times = np.concatenate([surfaces.t, *(np.full(count, moment) for moment in t)])
    near, far = (np.asarray(equations.slopes(times, np.tile(side, (len(t) + 1, 1)))) for side in surfaces[1:3])
    return [_stop_between(one, other, at_start) for one, other in zip(near, far, strict=True)]


# --- which of them paths meet -----------------------------------------------------------------------------------------


def _stiffest(method: Any, problem: Any, h: float, times: tuple[float, float]) -> _Stop:
    """The stiffest stops that paths swing at and that push them back, of those alone for which steps are too long."""
    equations = _equations(problem) if _has_corners(problem) else None
    if equations is None:
        return NOTHING
    with np.errstate(all="ignore"):
        rng = np.random.default_rng(0)
        at_start = _slopes_at_start(equations, times[0], rng)
        if not np.isfinite(at_start).all():
            return NOTHING
        looked = _crossed(equations, *_lines(equations, times, rng), most=CROSSINGS)
        stops = _stops(equations, looked, rng.uniform(*times, MOMENTS), at_start)
        limits = _limits(method, h, stops)
        decisions = np.tile(looked.decision, MOMENTS + 1)[[stop.is_beyond(limits) for stop in stops]]
        met = _met(equations, at_start, h, times, np.unique(decisions), limits, rng) if len(decisions) else []
    swinging = max(met, key=lambda stop: stop.swings, default=NOTHING)
    return swinging._replace(pushes=max((stop.pushes for stop in met), default=0.0))


def _slopes_at_start(equations: _Equations, t: float, rng: np.random.Generator) -> np.ndarray:
    """The Jacobian close beside the start, where it is least: a body may start just at a stop."""
    beside = equations.start + AT_START * _directions(equations, rng)
    slopes = np.asarray(equations.slopes(np.full(len(beside), t), beside))
    return slopes[np.argmin(np.linalg.norm(slopes, axis=(1, 2)))]


def _limits(method: Any, h: float, stops: list[_Stop]) -> tuple[float, float]:
    """The rates of stops up to which a method's steps of length h may be right, where some of these are beyond it."""
    swings, pushes = (max((getattr(stop, name) for stop in stops), default=0.0) for name in ("swings", "pushes"))
    limit = NOTABLE[0]
    while limit > NOTABLE[0] / 16.0 and swings * h > 0.5 * limit and not is_resolved(method, limit):
        limit *= 0.5
    return limit / h, pushes if _deeper(method, pushes * h) <= DEEPER[0] else DEEPER[0] / h


def _lines(
    equations: _Equations, times: tuple[float, float], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times and ways, the parts of lines from the start in many directions."""
    start, n = equations.start, len(equations.start)
    places = start + np.concatenate([[0.0], SCALES])[:, None, None] * _directions(equations, rng)  # (places, lines, n)
    t = np.tile(rng.uniform(*times, LINES), len(SCALES))
    return t, places[:-1].reshape(-1, n), places[1:].reshape(-1, n)


def _directions(equations: _Equations, rng: np.random.Generator) -> np.ndarray:
    """Ways (lines, n) of a state's size."""
    sizes = np.where(np.abs(equations.start) > 0.0, np.abs(equations.start), 1.0)
    return sizes * rng.standard_normal((LINES, len(sizes)))


def _met(
    equations: _Equations, at_start: np.ndarray, h: float, times: tuple[float, float], of: np.ndarray,
    limits: tuple[float, float], rng: np.random.Generator,
) -> list[_Stop]:  # fmt: skip
    """The stops beyond some limits at the surfaces of some decisions that paths from the start come to; a path that
    does begins anew, and all end where each of these surfaces has been met often enough.

    A stop that pushes back is one where most of the steps that meet it end in it: others go beyond a narrow piece, such
    as that of saturated friction about rest.
    """
    t, z, length, met = times[0], equations.starts(rng), h, {int(k): list[_Stop]() for k in of}
    curved = math.inf
    step = _Exponential(equations, at_start, times[0], length)
    for k in range(STAGES * STAGE):
        if t >= times[1] or all(len(stops) >= ENOUGH for stops in met.values()):
            break
        if k % STAGE == 0:
            if curved < CURVED:
                length *= 2.0
                step = _Exponential(equations, at_start, times[0], length)
            curved = 0.0
        reached, after, bent = step(t, z, rng)
        surfaces = _crossed(equations, np.full(len(z), t), z, reached, of)
        count, curved = len(surfaces.t), max(curved, bent)
        stops = _stops(equations, surfaces, np.array([t + length]), at_start)
        stops = [
            late if late.is_beyond(limits) else now for now, late in zip(stops[:count], stops[count:], strict=True)
        ]
        is_stiff = np.array([stop.is_beyond(limits) for stop in stops], bool)
        begins, t = ~np.isfinite(after).all(axis=1), t + length
        if is_stiff.any():
            before, behind = (np.asarray(equations.slopes(np.full(count, t), at[surfaces.line])) for at in (z, reached))
            for i in np.flatnonzero(is_stiff):
                pushes = _stop_between(before[i], behind[i], at_start).pushes
                is_deep = stops[i].pushes == 0.0 or pushes > 0.5 * stops[i].pushes
                met[int(surfaces.decision[i])].append(stops[i] if is_deep else NOTHING)
            begins[surfaces.line[is_stiff]] = True
        z = np.where(begins[:, None], equations.starts(rng), after) if begins.any() else after
    often = {k for k, stops in met.items() if 2 * stops.count(NOTHING) <= len(stops)}
    return [stop for k in often for stop in met[k]]


class _Exponential:
    """Steps of a length h of paths: exact in the equations linearised about the start, of second order in the rest."""

    def __init__(self, equations: _Equations, A: np.ndarray, t: float, h: float):
        self.equations, self.A, self.h = equations, A, h
        n = len(A)
        now = np.full(1, t)
        g = np.zeros((n, 1)) if equations.g is None else np.asarray(equations.g(now, equations.start[None]))[0]
        stretch = van_loan.discretise(A, g, np.eye(g.shape[1]), h)
        λ, Q = np.linalg.eigh(stretch.Q)
        self.g, self.root = g, Q * np.sqrt(np.maximum(λ, 0.0))
        block = np.zeros((3 * n, 3 * n))
        block[:n, :n], block[:n, n : 2 * n], block[n : 2 * n, 2 * n :] = h * A, np.eye(n), np.eye(n)
        power = scipy.linalg.expm(block)
        self.Φ, self.first, self.second = power[:n, :n], h * power[:n, n : 2 * n], h * power[:n, 2 * n :]

    def __call__(self, t: float, z: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
        """The states to which the forces at the beginning of a step lead, those after it, and the share of what is not
        linear in it. A stop that is met within the step has no part in the first, and may throw the second far back."""
        equations, start = self.equations, self.equations.start
        rest = self._rest(t, z)
        after = (z - start) @ self.Φ.T + rest @ self.first.T
        correction = (self._rest(t + self.h, start + after) - rest) @ self.second.T
        noise = rng.standard_normal(z.shape) @ self.root.T
        if equations.noise_varies:
            excess = np.asarray(equations.g(np.full(len(z), t), z)) - self.g
            noise += math.sqrt(self.h) * np.einsum("pij,pj->pi", excess, rng.standard_normal(excess[:, 0].shape))
        moved = np.sqrt(np.mean((after + noise) ** 2, axis=0))
        shares = np.sqrt(np.mean(correction**2, axis=0)) / np.where(moved > 0.0, moved, 1.0)
        reached = start + after + noise
        return reached, reached + correction, float(shares.max())

    def _rest(self, t: float, z: np.ndarray) -> np.ndarray:
        return np.asarray(self.equations.f(np.full(len(z), t), z)) - (z - self.equations.start) @ self.A.T
