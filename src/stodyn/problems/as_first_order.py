"""Mechanical and Hamiltonian systems as SDEs or SDAEs of (x, v) and (q, p), SDAEs as SDEs of what evolves."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.noise.source import Source
from stodyn.numerics.newton import derived
from stodyn.problems.calculus import to_ito
from stodyn.problems.contract import CALCULI, NoiseStructure, differs_from_path_to_path, written_as
from stodyn.problems.index import components, listed
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.state_space import StateSpace
from stodyn.telling import tell
from stodyn.warnings import Drifting


@dataclasses.dataclass(frozen=True, eq=False)
class DriftingSDE(SDE):
    """The SDE of (x, v) with accelerations and kicks along the constraints, for methods without constraints."""

    def check_step(self, method: Any, h: float) -> None:
        tell(
            f"method: {method.name} steps accelerations that the constraints allow, but does not keep the constraints: "
            "positions drift off them, without bound. Take RattleAlpha, ProjectedAlpha or ConstrainedBAOAB",
            Drifting,
        )


def mechanical_to_sde(problem: Any) -> tuple[SDE, str] | None:
    """Return a mechanical system as an SDE of (x, v), and the conversion in words; None where there is none.

    Coordinates without inertia are solved for first, and paths of an SDE with joints drift off them. Dry friction that
    sticks has no force at a point in time.
    """
    if problem.motion.slips:
        return None
    if problem.joints is not None:
        return _drifting(problem)
    if not problem.motion.is_regular:
        lowered = written_as(problem, SDAE).lower(SDE)
        return None if lowered is None else (lowered[0], f"Mechanical -> SDAE of (x, v); {lowered[1]}")
    start, names, units = _start_and_names(problem)
    sde = SDE(problem.f, _diffusion(problem), start.argument, problem.params, "ito", names, units)
    return sde, "Mechanical -> SDE of (x, v)"


def _drifting(problem: Any) -> tuple[SDE, str] | None:
    """Return a system with joints as an SDE; None where its start would have to be moved path by path."""
    if differs_from_path_to_path(problem) or problem.joints.moves or problem.impulses:
        return None
    diagnosis = problem.joints.diagnose(0.0)
    if diagnosis.reason:
        return None
    _, names, units = _start_and_names(problem)
    sde = DriftingSDE(problem.f, _diffusion(problem), diagnosis.start, problem.params, "ito", names, units)
    return sde, "Mechanical with constraints -> SDE of (x, v) with accelerations along them: positions drift off"


def _diffusion(problem: Any) -> Any:
    """Return the diffusion of (x, v); a problem without noise gets a channel of zeros."""
    return problem.g if problem.m else lambda t, x: jnp.zeros((2 * problem.N, 1), x.dtype)


def _start_and_names(problem: Any) -> tuple[Source, tuple[str, ...], Any]:
    names = problem.components[: 2 * problem.N]
    return problem.start_source, names, _units_of(problem, names)


def _units_of(problem: Any, names: tuple[str, ...]) -> dict[str, str] | None:
    units = problem.component_units
    return None if units is None else {name: unit for name, unit in units.items() if name in (*names, "time")}


def mechanical_to_sdae(problem: Any) -> tuple[SDAE, str] | None:
    """Return a mechanical system as an SDAE of x and the velocities of y, with the words for it; None with joints.

    y' = v, R M E v' = R force + R noise ξ, 0 = N force, with y, R, E and N as in problems.inertia.
    """
    if problem.joints is not None or problem.motion.slips:
        return None
    motion, (start, names, units) = problem.motion, _start_and_names(problem)
    N, r, inertia = motion.N, motion.r, motion.inertia
    M = np.eye(N + r)
    if inertia is not None:
        M = np.zeros((N + r, N + r))
        M[:r, :N] = np.linalg.inv(inertia.coordinates)[:r]
        M[r : 2 * r, N:] = inertia.matrix
        columns = [*range(N), *(N + inertia.parts.columns)]
        start, names = start.mapped(lambda rows: rows[:, columns]), tuple(names[i] for i in columns)
        units = _units_of(problem, names)
    solve = callable(problem.mass)

    def parts(x):
        return *motion.split(x[:N]), x[N:]

    def drift(t, x, params):
        y, z, v = parts(x)
        moved, vanishing = motion.balance(t, y, v, z, params)
        return jnp.concatenate([v, motion.acceleration(t, y, v, z, params) if solve else moved, vanishing])

    def diffusion(t, x, params):
        y, z, v = parts(x)
        if problem.noise is None:
            return jnp.zeros((N + r, 1), x.dtype)
        B = motion.kicks(t, y, v, z, params) if solve else motion.pushes(t, y, v, z, params)
        if inertia is not None:
            B = jnp.concatenate([inertia.with_inertia(B), inertia.without(B)])
        return jnp.concatenate([jnp.zeros((r, motion.m), x.dtype), B])

    return SDAE(M, drift, diffusion, start.argument, problem.params, names, units), "Mechanical -> SDAE of (x, v)"


def hamiltonian_to_sde(problem: Any, calculus: str = "stratonovich") -> tuple[SDE, str]:
    """Return a Hamiltonian system as an SDE of (q, p), and the conversion in words; without noise it gets a channel of
    zeros."""
    if calculus not in CALCULI:
        raise ValueError(f"calculus: expected one of {CALCULI}, got {calculus!r}")
    diffusion: Any = problem.g if problem.m else lambda t, x: jnp.zeros((problem.n, 1), x.dtype)
    if problem.channels.all_h is not None:
        diffusion = problem.operator
    start, names, units = problem.start_source.argument, problem.components, problem.component_units
    sde = SDE(problem.f, diffusion, start, problem.params, "stratonovich", names, units)
    return to_ito(sde) if calculus == "ito" else sde, "Hamiltonian -> Stratonovich SDE of (q, p)"


def sdae_to_sde(problem: Any) -> tuple[SDE, str] | None:
    """Return the state-space form of an SDAE, and the conversion in words; None where nothing evolves.

    It is the SDE of the differential components, in which x follows from y by Newton's method.
    """
    if not problem.r:
        return None
    form: StateSpace = problem.state_space

    # Drift, noise and each of their derivatives solve for the same x. Traced once, the solution is the same loop in all
    # of them, and a printed program has it once (numerics.printing).
    @jax.jit
    def state(t, y, params):
        with derived():
            return form.state(t, y, params)

    def drift(t, y, params):
        return form.solved(problem.f(t, state(t, y, params), params))

    if problem.facts.has_differential_noise:

        def state_of_noise(t, y, params):
            return form.near(y)

    else:
        state_of_noise = state

    def diffusion(t, y, params):
        return form.solved_noise(problem.multiplier(t, state_of_noise(t, y, params), params))

    names = components(problem)[0]
    all_units: Any = problem.component_units or {}
    units = {name: all_units[name] for name in names if name in all_units} or None
    start = problem.start_source.mapped(lambda rows: (problem.facts.evolving @ rows.T).T).argument
    sde = SDE(drift, diffusion, start, problem.params, names=names, units=units, structure=problem.structure)
    if problem.structure is None:  # known already: do not determine it again through every Newton solve
        S, structure = form.solved_mass, problem.noise_structure
        mixed = S.ndim == 2 and np.any(np.diag(np.diagonal(S)) != S)
        kinds = tuple(kind for kind in structure.kinds if kind != "diagonal" or not mixed)
        vars(sde)["noise_structure"] = NoiseStructure(kinds, structure.known)
    return sde, f"SDAE -> SDE of its differential components {listed(names)}"
