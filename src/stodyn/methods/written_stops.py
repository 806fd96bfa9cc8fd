"""Whether steps are short enough for stops of first order that a user wrote into a drift, by jnp.where or jnp.maximum:
walls that push a path back, x' = -k max(x - L, 0).

They stand where the pieces of a function meet (methods.surfaces). Paths from the start show which of them are met.
Stops that turn bodies round are judged by the energy of these (engine.energies).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.methods.surfaces import (
    CROSSINGS,
    Equations,
    Surfaces,
    crossed,
    crossed_sharply,
    equations_of,
    has_corners,
    is_sharp_somewhere,
    lines_from_start,
    push_between,
    pushes_at,
    slopes_at_start,
    thinned,
)
from stodyn.numerics import van_loan
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.tracing_errors import one_error_of_derivatives
from stodyn.problems.driven import step_matrices
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import StopsNotResolved

FEW = 12  # components of systems whose slopes are looked at along paths
MOMENTS = 8  # at which the Jacobians at a surface are compared
SLOPES = 2**24  # numbers in all these Jacobians, at most
STAGE, STAGES = 50, 12  # steps of a length until they may double
ENOUGH = 8  # times that paths meet a surface, after which it is known
CURVED = 0.02  # share of nonlinear motion in a step, of the way of a path, up to which its steps double
DEEPER = 1.0, 4.0  # times as deep in a stop after a step, above which a run warns and is refused
MOST_HALVINGS = 24  # of the step, in search of one that is short enough


def check_written_stops(method: Any, problem: Any, h: float, times: tuple[float, float]) -> None:
    """Warn where the steps of a run between two times are too long for a stop of first order in the user's own drift;
    refuse where they throw paths far out of it."""
    if not isinstance(problem, SDE):
        return
    try:
        with one_error_of_derivatives():
            rate = _fastest_push(method, problem, h, times)
    except (Unprintable, NotImplementedError):  # its pieces, or its derivatives, are not known
        return
    deeper = _deeper(method, h * rate)
    if deeper <= DEEPER[0]:
        return
    share = next((s for k in range(1, MOST_HALVINGS) if _deeper(method, (s := 0.5**k) * h * rate) <= DEEPER[0]), None)
    shorter = "" if share is None else f"steps of {share * h:.2g} or "
    words = (
        f"dt: with steps of {h:g} {method.name} makes the depth to which a path has entered a stop in `drift` "
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


def _fastest_push(method: Any, problem: Any, h: float, times: tuple[float, float]) -> float:
    """The largest rate at which a stop that paths meet pushes them back, of those for which steps may be too long."""
    has_pieces, equations = has_corners(problem), equations_of(problem)
    if equations is None:
        return 0.0
    with np.errstate(all="ignore"):
        rng, search = np.random.default_rng(0), None
        if has_pieces:
            search = _of_pieces(method, equations, h, times, rng)
        if search is None and len(equations.start) <= FEW:
            search = _of_slopes(equations, h, times, rng)
        surfaces = [] if search is None else _meetings(equations, h, times, search, rng)
    return max((surface.rate for surface in surfaces), default=0.0)


class _Surface:
    """The rates of the stops that paths meet at one surface, and whether steps ended in what pushes them back, as most
    do in a stop, but not in a narrow piece such as that of saturated friction about rest."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.is_deep: list[bool] = []

    @property
    def is_known(self) -> bool:
        """Whether it was met so often that there is nothing more to learn."""
        return len(self.rates) >= ENOUGH

    @property
    def rate(self) -> float:
        """0 where fewer than half of the meetings are with a stop."""
        deep = [rate for rate, is_deep in zip(self.rates, self.is_deep, strict=True) if is_deep]
        return max(deep, default=0.0) if len(deep) >= 0.5 * len(self.rates) else 0.0


class _Search(NamedTuple):
    """What is looked for on the way of paths.

    at_start   the slopes there
    decisions  surfaces by their numbers
    limit      the rate of stops up to which steps may be right
    crossed    the surfaces, of some decisions, that lines from a to b at times t cross
    """

    at_start: np.ndarray
    decisions: np.ndarray
    limit: float
    crossed: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Surfaces]


def _of_pieces(
    method: Any, equations: Equations, h: float, times: tuple[float, float], rng: np.random.Generator
) -> _Search | None:
    """Where the decisions of a function change, of which some lead to stops that steps may be too long for."""
    at_start = slopes_at_start(equations, times[0], rng)
    if not np.isfinite(at_start).all():
        return None
    looked = crossed(equations, *lines_from_start(equations, times, rng), most=CROSSINGS)
    looked = thinned(looked, SLOPES // (at_start.size * (MOMENTS + 1)))
    rates = pushes_at(equations, looked, rng.uniform(*times, MOMENTS), at_start)
    fastest = max(rates, default=0.0)
    limit = fastest if _deeper(method, fastest * h) <= DEEPER[0] else DEEPER[0] / h
    decisions = np.tile(looked.decision, MOMENTS + 1)[[rate > limit for rate in rates]]
    if not len(decisions):
        return None
    return _Search(at_start, np.unique(decisions), limit, functools.partial(crossed, equations))


def _of_slopes(equations: Equations, h: float, times: tuple[float, float], rng: np.random.Generator) -> _Search | None:
    """Where slopes jump although no decision says so: in a table, a function that sorts, or a sharp exponential."""
    limit = DEEPER[0] / h
    at_start = slopes_at_start(equations, times[0], rng)
    if not (np.isfinite(at_start).all() and is_sharp_somewhere(equations, times, rng, limit)):
        return None
    return _Search(at_start, np.zeros(1, int), limit,
                   lambda t, a, b, of: crossed_sharply(equations, t, a, b, limit))  # fmt: skip


def _meetings(
    equations: Equations, h: float, times: tuple[float, float], search: _Search, rng: np.random.Generator
) -> list[_Surface]:
    """What paths from the start come to. One that is pushed back begins anew, and all end where each surface is
    known."""
    t, z, length, met = times[0], equations.starts(rng), h, {int(k): _Surface() for k in search.decisions}
    curved, step = math.inf, _Exponential(equations, search.at_start, times[0], length)
    for k in range(STAGES * STAGE):
        if t >= times[1] or all(surface.is_known for surface in met.values()):
            break
        if k % STAGE == 0:
            if curved < CURVED:
                length *= 2.0
                step = _Exponential(equations, search.at_start, times[0], length)
            curved = 0.0
        reached, after, bent = step(t, z, rng)
        surfaces = search.crossed(np.full(len(z), t), z, reached, np.array([k for k in met if not met[k].is_known]))
        begins, t, curved = ~np.isfinite(after).all(axis=1), t + length, max(curved, bent)
        begins[_note(equations, surfaces, search, met, t, z, reached)] = True
        z = np.where(begins[:, None], equations.starts(rng), after) if begins.any() else after
    return list(met.values())


def _note(
    equations: Equations, surfaces: Surfaces, search: _Search, met: dict[int, _Surface], t: float, z: np.ndarray,
    reached: np.ndarray,
) -> list[int]:  # fmt: skip
    """Note the stops at surfaces that are too fast for steps; returns which paths met them."""
    count = len(surfaces.t)
    now, later = np.reshape(pushes_at(equations, surfaces, np.array([t]), search.at_start), (2, count))
    rates, noted = np.where(later > search.limit, later, now), list[int]()
    if not (rates > search.limit).any():
        return noted
    before, behind = (np.asarray(equations.slopes(np.full(count, t), at[surfaces.line])) for at in (z, reached))
    for i in np.flatnonzero(rates > search.limit):
        surface = met[int(surfaces.decision[i])]
        if not surface.is_known:
            surface.rates.append(float(rates[i]))
            surface.is_deep.append(push_between(before[i], behind[i], search.at_start) > 0.5 * rates[i])
            noted.append(int(surfaces.line[i]))
    return noted


class _Exponential:
    """Steps of a length h of paths: exact in the equations linearised about the start, of second order in the rest."""

    def __init__(self, equations: Equations, A: np.ndarray, t: float, h: float):
        self.equations, self.A, self.h = equations, A, h
        n = len(A)
        now = np.full(1, t)
        g = np.zeros((n, 1)) if equations.g is None else np.asarray(equations.g(now, equations.start[None]))[0]
        stretch = van_loan.discretise(A, g, np.eye(g.shape[1]), h)
        self.g, self.root = g, van_loan.rough_root(stretch.Q)
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
