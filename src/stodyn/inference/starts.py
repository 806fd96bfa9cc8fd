"""Where the search for a maximum begins: the user's values, the best of a survey, and others about them.

A survey takes the log-likelihood at many places at once, about the first start and then, closer and closer, about the
best ones: starting values for every kind of problem, sensor and sampling, without rules for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stodyn.inference.likelihood import Likelihood
from stodyn.inference.line import Line

STARTS = 8
FACTOR = 3.0  # by which scattered starts differ from those they are scattered about
FAR = 300.0  # by which those of a survey do, at first
CLOSER = (1.0, 1.0, 0.4, 0.16, 0.06)  # times as far, round by round
BEST = 3  # places of a survey from which the search begins
MOST_LAWS = 50_000  # laws of gaps in a round of a survey
LEAST_LANES, MOST_LANES = 16, 128


def starting(like: Likelihood, free: Any, start: Mapping[str, float] | None) -> np.ndarray:
    """Return the parameters at which the search begins."""
    ranges = free if isinstance(free, Mapping) else {}
    numbers = {name: value for name, value in ranges.items() if isinstance(value, int | float)}
    theta = like.vector({**numbers, **(start or {})})
    for k, (name, scale) in enumerate(zip(like.names, like.scales, strict=True)):
        if not scale.holds(theta[k]):
            if scale.prior is None or name in (start or {}):
                raise ValueError(
                    f"start ({name}): {theta[k]:g} lies outside its range from {scale.low:g} to {scale.high:g}"
                )
            theta[k] = scale.prior.scattered(np.array(0.5))
    return theta


def scattered(line: Line, seed: int) -> np.ndarray:
    """Return the starts of the search (STARTS, p), the user's first."""
    rng = np.random.default_rng(seed)
    first = np.concatenate([line.start[None], surveyed(line, rng)])
    centres = first[np.arange(STARTS - len(first)) % len(first)]
    return np.concatenate([first, _about(line, centres, FACTOR, 1.0, rng)])


def surveyed(line: Line, rng: np.random.Generator) -> np.ndarray:
    """Return the best places of a survey (BEST, p), the best first."""
    gaps = len(line.like.question.model.schedule.gaps)
    lanes = int(np.clip(MOST_LAWS // gaps, LEAST_LANES, MOST_LANES))
    best, highest = np.repeat(line.start[None], BEST, axis=0), np.full(BEST, -np.inf)
    for closer in CLOSER:
        u = _about(line, best[np.arange(lanes) % BEST], FAR, closer, rng)
        places, values = np.concatenate([best, u]), np.concatenate([highest, line.values(u)])
        chosen = np.argsort(-values, kind="stable")[:BEST]
        best, highest = places[chosen], values[chosen]
    return best


def _about(line: Line, centres: np.ndarray, factor: float, closer: float, rng: np.random.Generator) -> np.ndarray:
    """Places within a factor of centres (lanes, p), and at first by the prior where there is one."""
    shares = rng.random(centres.shape)
    u = centres + closer * np.log(factor) * (2.0 * shares - 1.0)
    for k, scale in enumerate(line.like.scales):
        if scale.prior is not None and closer == 1.0:
            u[:, k] = line.along(k, scale.prior.scattered(0.01 + 0.98 * shares[:, k]))
        elif scale.is_unlimited:  # of a number that may have any sign the size is unknown too
            u[:, k] = centres[:, k] + np.sign(shares[:, k] - 0.5) * (factor ** (closer * rng.random(len(u))) - 1.0)
    return u
