"""The derivatives of the probability of a rare event by its level and by parameters.

    θ d ln p/dθ = (ln p(θ exp δ) - ln p(θ exp -δ))/(2δ),   for a level ℓ with ℓ ± δ ℓ,   δ = .1

ln p is nearly quadratic in a level and a smooth function of parameters, so that neighbours may lie far apart, where the
difference of their estimates is large beside its error: for ln p = -ℓ²/(2 σ²) it is exact by ℓ, and off by .7 % by σ.
Runs of one number have one seed on both sides; the error is that of the differences of their relative estimates.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from stodyn.problems.level import Level
from stodyn.problems.tangents import with_tangents

APART = 0.1  # of a level or a parameter (of 1 where it is 0)
LEVEL = "level"  # the name of the level of the event


class Side(NamedTuple):
    """A question beside another one: by how much it is apart, with which problem and event."""

    by: float
    problem: Any
    event: Level


def gradient(
    problem: Any, event: Level, of: str | Sequence[str], probability: tuple[float, float], estimates: Callable
) -> tuple[list[str], dict[str, Any]]:
    """The names, and the derivatives with their errors by each; estimates(problem, event) are those of single runs."""
    names, slopes, errors = [], [], []
    for name, above, below in _neighbours(problem, event, (of,) if isinstance(of, str) else tuple(of)):
        slope, error = _slope(*(np.asarray(estimates(side.problem, side.event)) for side in (above, below)))
        names.append(name)
        slopes.append(slope / (above.by - below.by))
        errors.append(error / (above.by - below.by))
    p, stderr = probability
    log, log_stderr = np.array(slopes), np.array(errors)
    by = ("parameter",)
    return names, {
        "log_gradient": (by, log),
        "log_gradient_stderr": (by, log_stderr),
        "gradient": (by, p * log),
        "gradient_stderr": (by, np.hypot(p * log_stderr, stderr * log)),
    }


def _slope(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """ln(mean above/mean below), and its error; NaN where no run saw the event on a side."""
    means = float(above.mean()), float(below.mean())
    if min(means) <= 0:
        return math.nan, math.nan
    apart = above / means[0] - below / means[1]
    return math.log(means[0] / means[1]), float(np.std(apart, ddof=1)) / math.sqrt(len(apart))


def _neighbours(problem: Any, event: Level, names: tuple[str, ...]) -> list[tuple[str, Side, Side]]:
    """The questions on both sides, by name."""
    chosen = []
    if LEVEL in names:
        if len(event.bounds) != 1 or callable(event.level):
            raise ValueError(
                "of: the event has no one level that is a number; make it a parameter: Level(lambda t, p: p[...])"
            )
        sizes = [side * APART * (abs(event.level) or 1.0) for side in (1.0, -1.0)]
        above, below = (Side(by, problem, dataclasses.replace(event, level=event.level + by)) for by in sizes)
        chosen.append((LEVEL, above, below))
    rest = tuple(name for name in names if name != LEVEL)
    return chosen + (_of_params(problem, event, rest) if rest else [])


def _of_params(problem: Any, event: Level, names: tuple[str, ...]) -> list[tuple[str, Side, Side]]:
    """The questions on both sides of parameters."""
    paths, chosen = with_tangents(problem, names), []
    for k, direction in enumerate(paths.directions):
        if direction.leaf is None or direction.along is not None:
            raise ValueError(f"of: {direction.name}: starts are not moved; run rare twice and compare")
        value = float(np.ravel(jax.tree.leaves(problem.params)[direction.leaf])[direction.entry])
        above, below = (
            Side(side * APART * (value or 1.0), paths.moved(k, _beside(value, side) - value), event)
            for side in (1.0, -1.0)
        )
        chosen.append((direction.name, above, below))
    return chosen


def _beside(value: float, side: float) -> float:
    """A parameter on one side of its value, by a factor where it is not 0."""
    return value * math.exp(side * APART) if value else side * APART
