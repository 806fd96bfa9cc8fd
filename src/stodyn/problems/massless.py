"""Before a run: the mass of a mechanical system, and its coordinates without inertia, at the start."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.numerics.printing.points import at_one
from stodyn.problems.calling import call
from stodyn.problems.contract import kind_named, written_as
from stodyn.problems.index import combination
from stodyn.problems.inertia import Inertia, check_mass
from stodyn.problems.motion import Motion


def check_mass_at_start(motion: Motion, t: float) -> None:
    """Refuse a mass that depends on the state and is none at the start: singular, negative or unsymmetric."""
    with jax.enable_x64(True):
        y, v, z = motion.example_coordinates()
        M = np.asarray(motion.mass_at(t, y, v, z, motion.params))
    if not (np.isfinite(M).all() and Inertia(M).is_regular):
        raise ValueError(
            f"mass: at the start and t = {t:g} it is singular, {M.tolist()}, so that some coordinates have no "
            "inertia. A mass that depends on the state must be regular: start elsewhere, or write the "
            "equations as stodyn.SDAE"
        )
    check_mass(M, f"at the start and t = {t:g} is")


def remarks_on_constraints(problem: Any, t: float) -> tuple[str, ...]:
    """Return the remarks on the equations without inertia; refuse those that do not determine their coordinates."""
    motion = problem.motion
    _check_hidden_rates(motion, t)
    try:
        return written_as(problem, kind_named("SDAE")).before_run(t)
    except ValueError as error:
        words = re.sub(r"\bf\[(\d+)\]", lambda match: _equation(motion, int(match[1])), str(error))
        raise ValueError(f"mass: has rank {motion.r} of {motion.N}. As an SDAE of (x, v): {words}") from error


def _check_hidden_rates(motion: Motion, t: float) -> None:
    """Refuse force and noise that depend on the velocity of a coordinate without inertia."""
    with jax.enable_x64(True):
        y, v, z = motion.example_coordinates()

        def of_hidden_rates(w):
            state = motion.joined(y, z), motion.joined(v, w)
            f = call(motion.force, t, *state, params=motion.params)
            B = jnp.zeros(0) if motion.noise is None else call(motion.noise, t, *state, params=motion.params)
            return jnp.concatenate([jnp.ravel(f), jnp.ravel(B)])

        if np.any(at_one(jax.jacfwd(of_hidden_rates), np.zeros(np.shape(z)))):
            raise ValueError(
                f"mass: has rank {motion.r} of {motion.N}, but force or noise depends on the velocity of a coordinate "
                "without inertia, which the constraints do not give. Leave its damping out, give it a mass, or "
                "write the system as stodyn.SDAE."
            )


def _equation(motion: Motion, row: int) -> str:
    """Return a row of the drift of the SDAE in the terms of the mechanical problem."""
    names = [f"force[{i}]" for i in range(motion.N)]
    if motion.inertia is None or row < 2 * motion.r:
        return f"row {row} of (v, force)"
    return combination(np.asarray(motion.inertia.without(jnp.eye(motion.N)))[row - 2 * motion.r], names)
