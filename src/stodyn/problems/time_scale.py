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

    λ are the eigenvalues of the derivatives by the state; a body at a stop has the rate √(k/m), too. It is inf where
    all rates vanish, and for problems that are not SDEs.
    """
    sde: Any = written_as(problem, SDE)
    if sde is None:
        return math.inf
    x, params = np.asarray(sde.example_start(), float), sde.example_params()

    def along(direction):
        return jax.jvp(lambda x: (sde.f(t, x, params), sde.g(t, x, params)), (x,), (direction,))[1]

    A, B = AtPoints(along, few=1)(np.eye(len(x)))  # column by column
    B = np.moveaxis(B, 2, 0)
    rates = [np.abs(np.linalg.eigvals(A)).max(), *(np.abs(np.linalg.eigvals(Bk)).max() ** 2 for Bk in B)]
    stop = stiffest_stop(problem) if isinstance(problem, Mechanical) else None
    rates += [] if stop is None else [stop.rate]
    rate = max((float(r) for r in rates if np.isfinite(r)), default=0.0)
    return 1.0 / rate if rate > 0 else math.inf
