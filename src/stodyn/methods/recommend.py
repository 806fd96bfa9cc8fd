"""Which method a problem gets when none is named, and which others promise most."""

from __future__ import annotations

from stodyn.circuits import Circuit
from stodyn.methods import (
    alpha,
    expansions,
    explicit,
    implicit,
    projected_alpha,
    radau,
    rattle_alpha,
    srk,
    stiff,
    variational,
)
from stodyn.methods.catalogue import catalogue, fitting
from stodyn.methods.contract import Catalogued
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.measured import Measured
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.random_dae import RandomDAE
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.walls import Walled


def recommend(problem) -> Catalogued:
    """Additive noise: SRA1. Else for Stratonovich problems Heun; for Ito problems SRIW1 where the noise is scalar or
    diagonal, Euler-Maruyama where it is neither. Hamiltonian systems: the midpoint rule. Mechanical ones: the
    stochastic α method, with joints RATTLE-α. SDAEs: RK1A4 for one channel whose noise depends on the state, else
    RK1A4M, with areas where the noise does not commute (errors at equal cost: benchmarks/sdae_error_at_cost.py);
    circuits, whose noise is small, the trapezoidal rule, for its kT/C is right at any step. DAEs with random
    parameters: Galerkin where they are linear, else Quadrature with up to four parameters and regression with more."""
    if isinstance(problem, Walled) and isinstance(problem.problem, Mechanical):
        return recommend(problem.problem.lower(SDE)[0])  # type: ignore[index]
    if isinstance(problem, Measured):
        return recommend(problem.problem)
    if isinstance(problem, Hamiltonian):
        return variational.Midpoint
    if isinstance(problem, Mechanical):
        if problem.joints is None:
            return alpha.StochasticAlpha
        return rattle_alpha.RattleAlpha if problem.joints.mass_is_regular else projected_alpha.ProjectedAlpha
    if isinstance(problem, RandomDAE):
        if not problem.random:
            return radau.Radau5
        if problem.linear:
            return expansions.Galerkin
        return expansions.Quadrature if len(problem.random) <= 4 else expansions.Sampling(fit="regression")
    if isinstance(problem, Circuit):
        return stiff.Trapezoidal
    if isinstance(problem, SDAE):
        noise = problem.noise_structure
        if noise.implies("scalar") and not noise.implies("additive"):
            return stiff.RK1A4
        return stiff.RK1A4M if noise.implies("commutative") else stiff.RK1A4MLevy
    if not isinstance(problem, SDE):
        raise TypeError(f"problem: no method is recommended for {type(problem).__name__}; name one")
    if problem.noise_structure.implies("additive"):
        return srk.SRA1
    if problem.calculus == "stratonovich":
        return explicit.Heun
    if any(problem.noise_structure.implies(kind) for kind in srk.SRIW1.structures):
        return srk.SRIW1
    return explicit.EulerMaruyama


def stable_methods(problem) -> tuple[Catalogued, ...]:
    """Implicit methods for a problem whose time scales are far apart, of higher order first."""
    if isinstance(problem, Measured):
        return stable_methods(problem.problem)
    if isinstance(problem, Hamiltonian):
        return (variational.Midpoint,)
    if isinstance(problem, Mechanical):
        return (recommend(problem),)
    if isinstance(problem, SDAE):
        return (stiff.Trapezoidal, stiff.ImplicitEuler)
    return (implicit.ImplicitMidpoint, implicit.ThetaEuler) if isinstance(problem, SDE) else ()


def best_fitting(problem, refused: str = "") -> str:
    """In words: the forms of the refused method that take the problem (SRKw2Coupled, MilsteinLevy: their names begin
    with its own), the recommended method, and some of those that promise the highest strong and weak order."""
    names = fitting(problem, type(problem)) or fitting(problem)
    if not names:
        return "No method takes it."
    try:
        found = [f"{recommend(problem).name} (recommended)"]
    except TypeError:  # none is recommended for problems of this kind
        found = []
    forms = [name for name in names if refused and name.startswith(refused)]
    if forms:
        found.insert(0, f"{', '.join(forms)} (as {refused}, for such noise)")
    return f"Those that fit best: {'; '.join(found + of_highest_order(problem, names))}. `stodyn methods` lists all."


def advice(problem, chosen: Catalogued) -> str:
    """Which methods of the same kind have a higher order for a problem than the one chosen for it; "" if none has."""
    better = of_highest_order(problem, fitting(problem, chosen.accepts), than=chosen)
    return f"higher orders for {problem.noise_structure.kind} noise: {'; '.join(better)}" if better else ""


def of_highest_order(problem, names: list[str], than: Catalogued | None = None, most: int = 3) -> list[str]:
    """For strong and weak orders each, the first of the methods with the highest one, where it is higher than that of
    another: "MilsteinLevy (strong 1)"."""
    noise, found = problem.noise_structure, []
    for kind in ("strong", "weak"):
        orders = {name: catalogue()[name].promised(kind, noise) for name in names}
        best = max(orders.values(), default=0.0)
        if best > (0.0 if than is None else than.promised(kind, noise)):
            holders = [name for name, order in orders.items() if order == best]
            found.append(f"{', '.join(holders[:most])} ({kind} {best:g})")
    return found
