"""The index of M(p) x' = f(t, x, p) over the domain of its parameters p: one number, or where it changes."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any

import numpy as np
import scipy

from stodyn.problems import pencil

DOMAIN_POINTS = 32
INWARD = (1e-9, 1e-6, 1e-3)  # probabilities from the ends at which to look where an end itself has another index
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


def over_domain(problem: Any, points: int = DOMAIN_POINTS) -> DomainIndex:
    """The index at the means, at the ends of the parameters and at points of a Sobol sequence; where the leading
    coefficient of det(λM - A) has another sign at one of them, also at the surface on the way there; and where the
    margin is least, found by minimising it: an index may change without a change of sign.

    An end of a support is a value of probability zero. Where the index is another there (a mass that is zero, a
    resistance in a denominator), values next to the end decide.
    """
    scaling = problem.pencil_at().scaling
    inward = _inward(problem, scaling)
    places = _domain(problem, points, inward)
    answers = [_pencil_at(problem, p, scaling) for p in places]

    def alike() -> bool:
        return len({one.index for one in answers}) == 1

    unlike = np.flatnonzero([one.leading != answers[0].leading for one in answers])
    if len(unlike) and alike():
        surface = _surface(problem, scaling, places[0], places[unlike[0]], answers[0].leading)
        places, answers = np.vstack([places, surface]), [*answers, _pencil_at(problem, surface, scaling)]
    for start in np.argsort([one.margin for one in answers])[:STARTS] if problem.parameters else ():
        if alike():
            place = _least_clear(problem, scaling, places[start], answers[start], inward)
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
    """Parameters at which the equations do not determine the solution at all, or cannot be written down: no index."""

    words: str = "the pencil being singular"
    index = -1
    leading = 0.0
    margin = 0.0
    agree = False

    def __str__(self) -> str:
        return f"none, {self.words},"


def _pencil_at(problem: Any, p: np.ndarray, scaling: Any) -> Any:
    """The pencil at parameters, or _Singular."""
    try:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return problem.pencil_at(p, scaling=scaling)
    except pencil.SingularPencil:
        return _Singular()
    except (ArithmeticError, pencil.NotFinite) as error:
        return _Singular(f"mass or matrix having no value there ({error})")


def _domain(problem: Any, points: int, inward: float = 0.0) -> np.ndarray:
    """The means first, then corners, points between kinks, and points all over."""
    laws = problem.distributions
    if not laws:
        return problem.center[None]
    u = scipy.stats.qmc.Sobol(len(laws), scramble=False).random(points)[1:]
    inner = np.stack([law.ppf(u[:, i]) for i, law in enumerate(laws)], axis=1)
    return np.vstack([problem.center, _corners(problem, inward), problem.dependence.between_kinks, inner])


def _corners(problem: Any, inward: float) -> np.ndarray:
    """All combinations of ends of up to four parameters; of more, each end with the others at their means."""
    ends = np.array([_ends(law, inward) for law in problem.distributions])
    if len(ends) <= 4:
        return np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, len(ends))
    corners = np.tile(problem.center, (2 * len(ends), 1))
    for i, pair in enumerate(ends):
        corners[2 * i : 2 * i + 2, i] = pair
    return corners


def _inward(problem: Any, scaling: Any) -> float:
    """The probability between the ends of supports and the corners: the least at which the index is that at the means,
    0 where it is so at the ends themselves or nowhere.
    """
    if not problem.parameters:
        return 0.0
    index = _pencil_at(problem, problem.center, scaling).index
    for inward in (0.0, *INWARD):
        if all(_pencil_at(problem, p, scaling).index == index for p in _corners(problem, inward)):
            return inward
    return 0.0


def _ends(law: Any, inward: float) -> np.ndarray:
    """The ends of a support, or the values at this probability from them; those of infinite ones at 1e-3."""
    low, high = (max(inward, 1e-3 * np.isinf(end)) for end in (law.low, law.high))
    return np.asarray(law.ppf([low, 1.0 - high]), float)


def _least_clear(problem: Any, scaling, start: np.ndarray, answer: Any, inward: float) -> np.ndarray:
    """Where the margin is least between the ends of the parameters, downhill from a place, or the index changes."""
    low, high = np.array([_ends(law, inward) for law in problem.distributions]).T
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


def _surface(problem: Any, scaling, a: np.ndarray, b: np.ndarray, leading: float) -> np.ndarray:
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
