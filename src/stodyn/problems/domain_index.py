"""The index of M(p) x' = f(t, x, p) over the domain of its parameters p: one number, or where it changes."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from stodyn.problems import pencil

if TYPE_CHECKING:
    from stodyn.problems.random_dae import RandomDAE

DOMAIN_POINTS = 32
STARTS, EVALUATIONS = 2, 40  # starts of the search for the least clear place, and evaluations per parameter


@dataclasses.dataclass(frozen=True)
class DomainIndex:
    """The index at sampled parameters: `index` where it is the same at all of them, else None.

    places    parameters (points, Q) and the index at each, -1 where they leave the pencil singular; `where` is the
              parameter nearest to a change, or at one
    margin    the smallest singular value kept in a decision about a rank: 0 would be a change of index
    words     the same in words
    """

    index: int | None
    places: np.ndarray
    indices: np.ndarray
    where: dict[str, float]
    margin: float
    words: str


def over_domain(problem: RandomDAE, points: int = DOMAIN_POINTS) -> DomainIndex:
    """The index at the means, at the ends of the parameters and at points of a Sobol sequence; where the leading
    coefficient of det(λM - A) has another sign at one of them, also at the surface on the way there; and where the
    margin is least, found by minimising it: an index may change without a change of sign.
    """
    places = _domain(problem, points)
    scaling = problem.pencil_at().scaling
    answers = [_pencil_at(problem, p, scaling) for p in places]

    def alike() -> bool:
        return len({one.index for one in answers}) == 1

    unlike = np.flatnonzero([one.leading != answers[0].leading for one in answers])
    if len(unlike) and alike():
        surface = _surface(problem, scaling, places[0], places[unlike[0]], answers[0].leading)
        places, answers = np.vstack([places, surface]), [*answers, _pencil_at(problem, surface, scaling)]
    for start in np.argsort([one.margin for one in answers])[:STARTS] if problem.parameters else ():
        if alike():
            place = _least_clear(problem, scaling, places[start], answers[start])
            places, answers = np.vstack([places, place]), [*answers, _pencil_at(problem, place, scaling)]
    indices = np.array([one.index for one in answers])
    same = bool(np.all(indices == indices[0]) and all(one.agree for one in answers))
    worst = int(np.argmin([one.margin for one in answers])) if same else int(np.argmax(indices != indices[0]))
    where = dict(zip(problem.parameters, places[worst].tolist(), strict=True))
    at = ", ".join(f"{name} = {value:.6g}" for name, value in where.items())
    if same:
        words = f"index {indices[0]} at {len(places)} parameters; least clear at {at} ({answers[worst]})"
    else:
        words = f"index {indices[0]} at the means but {answers[worst]} at {at}"
    return DomainIndex(int(indices[0]) if same else None, places, indices, where, answers[worst].margin, words)


@dataclasses.dataclass(frozen=True)
class _Singular:
    """Parameters at which the equations do not determine the solution at all: no index."""

    index = -1
    leading = 0.0
    margin = 0.0
    agree = False

    def __str__(self) -> str:
        return "none, the pencil being singular,"


def _pencil_at(problem: RandomDAE, p: np.ndarray, scaling: Any) -> Any:
    """The pencil at parameters, or _Singular."""
    try:
        return problem.pencil_at(p, scaling=scaling)
    except pencil.SingularPencil:
        return _Singular()


def _domain(problem: RandomDAE, points: int) -> np.ndarray:
    """The means first; ends of infinite supports are taken at probability 1e-3."""
    laws = problem.distributions
    if not laws:
        return problem.center[None]
    u = scipy.stats.qmc.Sobol(len(laws), scramble=False).random(points)[1:]
    inner = np.stack([law.ppf(u[:, i]) for i, law in enumerate(laws)], axis=1)
    ends = np.array([_ends(law) for law in laws])
    if len(laws) <= 4:
        corners = np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, len(laws))
    else:
        corners = np.tile(problem.center, (2 * len(laws), 1))
        for i, pair in enumerate(ends):
            corners[2 * i : 2 * i + 2, i] = pair
    return np.vstack([problem.center, corners, inner])


def _ends(law: Any) -> np.ndarray:
    """The ends of a support; infinite ones at probability 1e-3."""
    return np.asarray(law.ppf([1e-3 * np.isinf(law.low), 1.0 - 1e-3 * np.isinf(law.high)]), float)


def _least_clear(problem: RandomDAE, scaling, start: np.ndarray, answer: Any) -> np.ndarray:
    """Where the margin is least between the ends of the parameters, downhill from a place, or the index changes."""
    low, high = np.array([_ends(law) for law in problem.distributions]).T
    width = np.where(high > low, high - low, 1.0)
    best = [answer.margin, start]

    def height(u: np.ndarray) -> float:
        place = low + np.clip(u, 0.0, 1.0) * width
        here = _pencil_at(problem, place, scaling)
        if here.index != answer.index:
            best[:] = [-1.0, place]
            raise StopIteration
        if here.margin < 0.99 * best[0]:
            best[:] = [here.margin, place]
        return math.log(max(here.margin, 1e-300))

    with contextlib.suppress(StopIteration):
        scipy.optimize.minimize(
            height, (start - low) / width, method="Nelder-Mead", bounds=[(0.0, 1.0)] * len(low),
            options={"maxfev": EVALUATIONS * (len(low) + 1), "xatol": 1e-12, "fatol": 1e-6},
        )  # fmt: skip
    return best[1]


def _surface(problem: RandomDAE, scaling, a: np.ndarray, b: np.ndarray, leading: float) -> np.ndarray:
    """The point between a and b where the leading coefficient passes 0, by bisection until the index shows it."""
    index, low, high = None, 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        answer = _pencil_at(problem, a + middle * (b - a), scaling)
        index = answer.index if index is None else index
        if answer.index != index:
            break
        low, high = (middle, high) if answer.leading == leading else (low, middle)
    return a + middle * (b - a)
