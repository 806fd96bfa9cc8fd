"""Whether steps are short enough for stops that a user wrote into a force or a drift, by jnp.where or jnp.maximum.

Stops stand where the pieces of a function meet (methods.surfaces). Paths from the start show which of them are met.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.methods.contacts import NOTABLE, REFUSED, is_resolved, tell_of_stiff_stop
from stodyn.methods.passages import Passage, excess, passage
from stodyn.methods.surfaces import (
    CROSSINGS,
    NOTHING,
    Equations,
    Stop,
    Surfaces,
    crossed,
    crossed_sharply,
    equations_of,
    has_corners,
    is_sharp_somewhere,
    lines_from_start,
    slopes_at_start,
    stop_between,
    stops_at,
)
from stodyn.numerics import van_loan
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.tracing_errors import one_error_of_derivatives
from stodyn.problems.driven import longest_step, step_matrices
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE
from stodyn.problems.stops import Stiffest
from stodyn.telling import tell
from stodyn.warnings import StopsNotResolved

FEW = 12  # components of systems whose slopes are looked at along paths
MOMENTS = 8  # at which the Jacobians at a surface are compared
STAGE, STAGES = 50, 12  # steps of a length until they may double
ENOUGH = 8  # times that paths meet a surface, after which those that go through it are only counted
CURVED = 0.02  # share of nonlinear motion in a step, of the way of a path, up to which its steps double
MUCH = 0.5  # relative error of E v² above which a run is refused
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
        with one_error_of_derivatives():
            met, (place, remedy) = _what_is_met(method, problem, h, times), words
    except (Unprintable, NotImplementedError):  # its pieces, or its derivatives, are not known
        return
    if met.stop.swings > 0.0:
        swinging = Stiffest(met.stop.swings, met.stop.damping)
        tell_of_stiff_stop(method, h, swinging, REFUSED, WORDS.format(place=place, remedy=remedy))
    if met.stop.pushes > 0.0:
        _tell_of_deeper_paths(method, h, met.stop.pushes, place)
    if met.excess is not None:
        _tell_of_passages(method, h, met.excess, place)


def _tell_of_passages(method: Any, h: float, excess: Callable[[float], float], place: str) -> None:
    with np.errstate(all="ignore"):
        error = excess(h)
        if not error > NOTABLE[1]:
            return
        longest = longest_step(lambda shorter: not excess(shorter) <= NOTABLE[1], h)
    size = f"about {100.0 * error:.2g} % too large" if error <= MUCH else "far too large"
    words = (
        f"dt: with steps of {h:g} {method.name} makes E v² of bodies that go through a steep piece of {place} {size}: "
        f"steps see its force by chance. Take {'smaller steps' if longest is None else f'steps of {longest:g} or less'}"
        ", or make the piece less steep."
    )
    if not error <= MUCH:
        raise ValueError(words)
    tell(words, StopsNotResolved)


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


class _Met(NamedTuple):
    """What paths meet, of that alone for which steps may be too long.

    stop     the stiffest stops at which bodies are turned round, and that push paths back
    excess   the relative error of E v² by what bodies go through, by the step; None where they go through nothing
    """

    stop: Stop
    excess: Callable[[float], float] | None


def _what_is_met(method: Any, problem: Any, h: float, times: tuple[float, float]) -> _Met:
    has_pieces, equations = has_corners(problem), equations_of(problem)
    if equations is None:
        return _Met(NOTHING, None)
    with np.errstate(all="ignore"):
        rng, search = np.random.default_rng(0), None
        if has_pieces:
            search = _of_pieces(method, equations, h, times, rng)
        if search is None and len(equations.start) <= FEW:
            search = _of_slopes(equations, h, times, rng)
        surfaces = [] if search is None else _meetings(equations, h, times, search, rng)
    sorts = [own.sorted() for own in surfaces if own.stops]
    turning = [stop for own in sorts for stop in own.turning]
    swinging = max(turning, key=lambda stop: stop.swings, default=NOTHING)
    stop = swinging._replace(pushes=max((stop.pushes for own in sorts for stop in own.pushing), default=0.0))
    passing = [own.excess for own in sorts if own.excess is not None]
    return _Met(stop, (lambda h: sum(excess(h) for excess in passing)) if passing else None)


class _Sorts(NamedTuple):
    """The stops at one surface: those at which bodies are turned round and those that push paths back; the error by
    what bodies go through."""

    turning: list[Stop]
    pushing: list[Stop]
    excess: Callable[[float], float] | None


class _Surface:
    """What paths meet at one surface: the first times, and how often in all.

    stops     what they met
    passages  the way on from there, of those that swing
    is_deep   whether the step ended in what pushes it back, as most do in a stop, but not in a narrow piece such as
              that of saturated friction about rest
    """

    def __init__(self) -> None:
        self.stops: list[Stop] = []
        self.passages: list[Passage | None] = []
        self.is_deep: list[bool] = []
        self.count, self.spent = 0.0, 0.0

    def note(self, stop: Stop, entry: Passage | None, is_deep: bool) -> None:
        self.stops.append(stop)
        self.passages.append(entry)
        self.is_deep.append(is_deep)

    @property
    def is_seen(self) -> bool:
        return len(self.stops) >= ENOUGH

    @property
    def is_known(self) -> bool:
        """Whether it was met so often that there is nothing more to learn."""
        return self.is_seen and not self._through

    def sorted(self) -> _Sorts:
        """A surface is what half of the meetings there are at least."""
        half = 0.5 * len(self.stops)
        pushing = [stop for stop, is_deep in zip(self.stops, self.is_deep, strict=True) if stop.pushes and is_deep]
        turning = [
            stop for stop, entry in zip(self.stops, self.passages, strict=True)
            if entry is not None and math.isinf(entry.width) and stop.is_new
        ]  # fmt: skip
        through = self._through
        error = functools.partial(excess, through, self.count / self.spent) if len(through) >= half else None
        return _Sorts(turning if len(turning) >= half else [], pushing if len(pushing) >= half else [], error)

    @property
    def _through(self) -> list[Passage]:
        return [entry for entry in self.passages if entry is not None and math.isfinite(entry.width)]


def _limits(method: Any, h: float, stops: list[Stop]) -> tuple[float, float]:
    """The rates of stops up to which a method's steps of length h may be right, where some of these are beyond it."""
    swings, pushes = (max((getattr(stop, name) for stop in stops), default=0.0) for name in ("swings", "pushes"))
    limit = min(NOTABLE[0], swings * h)
    while limit > NOTABLE[0] / 16.0 and not is_resolved(method, limit):
        limit *= 0.5
    return limit / h, pushes if _deeper(method, pushes * h) <= DEEPER[0] else DEEPER[0] / h


class _Search(NamedTuple):
    """What is looked for on the way of paths.

    at_start   the slopes there
    decisions  surfaces by their numbers
    limits     the rates of stops up to which steps may be right
    crossed    the surfaces, of some decisions, that lines from a to b at times t cross
    counted    how often each of the decisions changes on them
    """

    at_start: np.ndarray
    decisions: np.ndarray
    limits: tuple[float, float]
    crossed: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Surfaces]
    counted: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _of_pieces(
    method: Any, equations: Equations, h: float, times: tuple[float, float], rng: np.random.Generator
) -> _Search | None:
    """Where the decisions of a function change, of which some lead to stops that steps may be too long for."""
    at_start = slopes_at_start(equations, times[0], rng)
    if not np.isfinite(at_start).all():
        return None
    looked = crossed(equations, *lines_from_start(equations, times, rng), most=CROSSINGS)
    stops = stops_at(equations, looked, rng.uniform(*times, MOMENTS), at_start)
    limits = _limits(method, h, stops)
    decisions = np.tile(looked.decision, MOMENTS + 1)[[stop.is_beyond(limits) for stop in stops]]

    def counted(t: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.count_nonzero(np.asarray(equations.pieces(t, a)) != np.asarray(equations.pieces(t, b)), axis=0)

    return _Search(
        at_start, np.unique(decisions), limits, functools.partial(crossed, equations), counted
    ) if len(decisions) else None  # fmt: skip


def _of_slopes(equations: Equations, h: float, times: tuple[float, float], rng: np.random.Generator) -> _Search | None:
    """Where slopes jump although no decision says so: in a table, a function that sorts, or a sharp exponential."""
    limits = NOTABLE[0] / h, DEEPER[0] / h
    least = min(limits[0] ** 2, limits[1])
    at_start = slopes_at_start(equations, times[0], rng)
    if not (np.isfinite(at_start).all() and is_sharp_somewhere(equations, times, rng, least)):
        return None

    def jumps(t: np.ndarray, a: np.ndarray, b: np.ndarray, of: np.ndarray) -> Surfaces:
        return crossed_sharply(equations, t, a, b, least)

    return _Search(at_start, np.zeros(1, int), limits, jumps, lambda t, a, b: len(jumps(t, a, b, t).t) * np.ones(1))


def _meetings(
    equations: Equations, h: float, times: tuple[float, float], search: _Search, rng: np.random.Generator
) -> list[_Surface]:
    """What paths from the start come to. One that is turned round there, or pushed back, begins anew, and all end where
    each surface is known."""
    at_start, limits = search.at_start, search.limits
    t, z, length, met = times[0], equations.starts(rng), h, {int(k): _Surface() for k in search.decisions}
    curved, spent = math.inf, 0.0
    step = _Exponential(equations, at_start, times[0], length)
    for k in range(STAGES * STAGE):
        if t >= times[1] or all(surface.is_known for surface in met.values()):
            break
        if k % STAGE == 0:
            if curved < CURVED:
                length *= 2.0
                step = _Exponential(equations, at_start, times[0], length)
            curved = 0.0
        reached, after, bent = step(t, z, rng)
        now = np.full(len(z), t)
        open_ = np.array([k for k, own in met.items() if not own.is_seen])
        surfaces = search.crossed(now, z, reached, open_)
        if any(own.is_seen for own in met.values()):
            changes = search.counted(now, z, reached)
            for k, surface in met.items():
                if surface.is_seen:
                    surface.count += 0.5 * float(changes[k])  # half of them lead into the piece
        count, curved = len(surfaces.t), max(curved, bent)
        stops = stops_at(equations, surfaces, np.array([t + length]), at_start)
        stops = [
            late if late.is_beyond(limits) else now for now, late in zip(stops[:count], stops[count:], strict=True)
        ]
        is_stiff = np.array([stop.is_beyond(limits) for stop in stops], bool)
        begins, t, spent = ~np.isfinite(after).all(axis=1), t + length, spent + length * len(z)
        if is_stiff.any():
            before, behind = (np.asarray(equations.slopes(np.full(count, t), at[surfaces.line])) for at in (z, reached))
            for i in np.flatnonzero(is_stiff):
                stop, surface, entry = stops[i], met[int(surfaces.decision[i])], None
                if surface.is_seen or (stop.swings and not stop.enters):
                    continue
                surface.count += 1.0
                if stop.swings:
                    entry = passage(equations, stop, float(surfaces.t[i]), surfaces.near[i], times[1])
                deeper = stop_between(before[i], behind[i], at_start).pushes
                surface.note(stop, entry, deeper > 0.5 * stop.pushes)
                begins[surfaces.line[i]] |= entry is None or math.isinf(entry.width)
        z = np.where(begins[:, None], equations.starts(rng), after) if begins.any() else after
    for surface in met.values():
        surface.spent = spent
    return list(met.values())


class _Exponential:
    """Steps of a length h of paths: exact in the equations linearised about the start, of second order in the rest."""

    def __init__(self, equations: Equations, A: np.ndarray, t: float, h: float):
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
