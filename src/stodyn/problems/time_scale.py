"""The time scale of a problem's equations, in whatever unit its time is measured."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.contract import written_as
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE
from stodyn.problems.stops import stiffest_stop


def time_scale(problem: Any, t: float = 0.0) -> float:
    """The inverse of the largest rate of a problem about its start: of |λ| of the drift and |λ|² of each channel.

    λ are the eigenvalues of the derivatives by the state; a body at a stop has the rate √(k/m), too. A derivative that
    is infinite at the start, as that of a root at 0, is left out: it is no rate. It is inf where all rates vanish, and
    for problems that are not SDEs.
    """
    slopes = _slopes(problem, t)
    if slopes is None:
        return math.inf
    A, B = (np.where(np.isfinite(D), D, 0.0) for D in slopes)
    rates = [np.abs(np.linalg.eigvals(A)).max(), *(np.abs(np.linalg.eigvals(Bk)).max() ** 2 for Bk in B)]
    stop = stiffest_stop(problem) if isinstance(problem, Mechanical) else None
    rates += [] if stop is None else [stop.rate]
    rate = max((float(r) for r in rates if np.isfinite(r)), default=0.0)
    return 1.0 / rate if rate > 0 else math.inf


def has_slopes(problem: Any) -> bool:
    """Whether the derivatives by the state at a problem's start are finite, as those of a root at 0 are not."""
    slopes = _slopes(problem, 0.0)
    return slopes is None or all(np.isfinite(D).all() for D in slopes)


def _slopes(problem: Any, t: float) -> tuple[np.ndarray, np.ndarray] | None:
    """The derivatives by the state of the drift (n, n), and of each channel (m, n, n), at the start of an SDE."""
    sde: Any = written_as(problem, SDE)
    if sde is None:
        return None
    x, params = np.asarray(sde.example_start(), float), sde.example_params()

    def along(direction):
        return jax.jvp(lambda x: (sde.f(t, x, params), sde.g(t, x, params)), (x,), (direction,))[1]

    A, B = AtPoints(along, few=1)(np.eye(len(x)))  # column by column
    return A, np.moveaxis(B, 2, 0)
