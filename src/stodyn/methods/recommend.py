"""Which method a problem gets when none is named."""

from __future__ import annotations

from stodyn.methods import explicit
from stodyn.methods.contract import Catalogued
from stodyn.problems.sde import SDE


def recommend(problem) -> Catalogued:
    """Stratonovich problems: Heun. Ito problems: Euler-Maruyama."""
    if not isinstance(problem, SDE):
        raise TypeError(f"problem: no method is recommended for {type(problem).__name__}; name one")
    return explicit.Heun if problem.calculus == "stratonovich" else explicit.EulerMaruyama
