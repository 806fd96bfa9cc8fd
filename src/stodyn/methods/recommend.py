"""Which method a problem gets when none is named."""

from __future__ import annotations

from stodyn.methods import explicit, srk, variational
from stodyn.methods.contract import Catalogued
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.measured import Measured
from stodyn.problems.sde import SDE


def recommend(problem) -> Catalogued:
    """Additive noise: SRA1. Else for Stratonovich problems Heun; for Ito problems SRIW1 where the noise is scalar or
    diagonal, Euler-Maruyama where it is neither. Hamiltonian systems: the midpoint rule."""
    if isinstance(problem, Measured):
        return recommend(problem.problem)
    if isinstance(problem, Hamiltonian):
        return variational.Midpoint
    if not isinstance(problem, SDE):
        raise TypeError(f"problem: no method is recommended for {type(problem).__name__}; name one")
    if problem.noise_structure.implies("additive"):
        return srk.SRA1
    if problem.calculus == "stratonovich":
        return explicit.Heun
    if any(problem.noise_structure.implies(kind) for kind in srk.SRIW1.structures):
        return srk.SRIW1
    return explicit.EulerMaruyama
