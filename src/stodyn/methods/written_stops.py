"""Whether steps are short enough for stops that a user wrote into the force, by jnp.where or jnp.maximum.

A stop is there a region of x in which the force is far steeper than at the start. Such regions are looked for at points
to which the equations linearised about the start lead: of an affine force all points of a region have one slope, while
the slopes of a smooth force scatter and say nothing of how far its paths go.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.methods.contacts import NOTABLE, tell_of_stiff_stop
from stodyn.methods.linear_law import LinearLaw, law_without_stops
from stodyn.numerics import uncompiled
from stodyn.numerics.facts.degree import corners
from stodyn.numerics.printing.fingerprints import holds
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import or_else
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.stops import Stiffest

REFUSED = 2.5, 1.0  # h √(k/m), and growth of the energy in the time in which it decays, above which a run is refused
MOST_COORDINATES = 30  # of systems whose slopes are computed at many points
TIMES = 0.03, 0.1, 0.3, 1.0  # at which points are taken, in units of the run
POINTS = 32  # for each time
REGION = 0.05  # of all points, that have nearly one rate where they are in one region
ALIKE = 0.01  # relative difference of such rates
WORDS = (
    "of a body that meets a stop in `force`, a region in which it is so much steeper than at the start that h √(k/m) "
    "is {Ω:.3g}. Take {shorter}write the stop as stodyn.elements.Gap: methods of the α family with order=1.0, such as "
    "StochasticAlpha, then keep the energy."
)


def check_written_stops(method: Any, problem: Any, h: float, T: float) -> None:
    """Warn where the steps of a run of length T are too long for a stop in the user's own force; refuse where they
    multiply the energy."""
    stiffest = _stiffest(problem, h, T) if isinstance(problem, Mechanical) else None
    if stiffest is not None:
        tell_of_stiff_stop(method, h, stiffest, REFUSED, WORDS)


@or_else(lambda problem, h, T: None)
def _stiffest(problem: Mechanical, h: float, T: float) -> Stiffest | None:
    """√(k/m) and c/m in the steepest region of the force; None where there is none."""
    law = law_without_stops(problem) if _may_have_stops(problem) else None
    if law is None:
        return None
    N, points = law.N, _points(law, T) + problem.motion.start[: law.N]
    stiffness = _stiffness(problem, points)
    squares, directions = np.linalg.eig(stiffness[np.isfinite(stiffness).all(axis=(1, 2))])
    rates = np.sqrt(np.maximum(squares.real.max(axis=1, initial=0.0), 0.0))
    rate = _rate_of_a_region(rates)
    if not rate * h > NOTABLE[0] / 10.0:
        return None
    i = int(np.argmin(np.abs(rates - rate)))
    u = directions[i, :, np.argmax(squares[i].real)].real
    return Stiffest(rate, float(-u @ law.A[N : 2 * N, N : 2 * N] @ u / (u @ u)))


def _may_have_stops(problem: Mechanical) -> bool:
    """Whether the force has corners, and its slopes at many points cost little."""
    if problem.N > MOST_COORDINATES or callable(problem.mass) or problem.joints is not None:
        return False
    motion = problem.motion.without_stops
    y, v, z = motion.example_coordinates()

    def force(y):
        return motion.balance(0.0, y, v, z, motion.params)[0]

    with jax.enable_x64(True):
        trace = jax.make_jaxpr(force)(y)
        return not (holds(trace, "while") or holds(trace, "scan")) and bool(corners(force, (y,), 0))


def _points(law: LinearLaw, T: float) -> np.ndarray:
    """Places (points, N), less the start, to which the law leads."""
    normals = np.random.default_rng(0).standard_normal((len(TIMES), POINTS, law.N))
    moments = [law.from_the_start.second_moments(share * T)[: law.N, : law.N] for share in TIMES]
    places = [ξ @ _root(S).T for ξ, S in zip(normals, moments, strict=True) if np.isfinite(S).all()]
    return np.concatenate([np.zeros((1, law.N)), *places])


def _root(S: np.ndarray) -> np.ndarray:
    λ, Q = np.linalg.eigh(S)
    return Q * np.sqrt(np.maximum(λ, 0.0))


def _stiffness(problem: Mechanical, points: np.ndarray) -> np.ndarray:
    """M⁻¹K (points, N, N) with what each point adds to the stiffness K at the first one, the start, and with the mass
    and the velocities there."""
    motion = problem.motion.without_stops
    y, v, z = motion.example_coordinates()

    def slope(y):
        return jax.jacfwd(lambda y: motion.balance(0.0, y, v, z, motion.params)[0])(y)

    def over_mass(y):
        return motion.solved(0.0, y, v, z, motion.params, jnp.eye(len(y)))

    slopes = AtPoints(slope, few=1)(points)
    with jax.enable_x64(True):
        return uncompiled.value(over_mass, np.asarray(y)) @ (slopes[0] - slopes)


def _rate_of_a_region(rates: np.ndarray) -> float:
    """The largest rate that many points nearly have; 0 where there is none."""
    for rate in np.unique(rates)[::-1]:
        if np.mean((rates <= rate) & (rates >= (1.0 - ALIKE) * rate)) >= REGION:
            return float(rate)
    return 0.0
