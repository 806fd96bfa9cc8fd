"""Whether steps are short enough for the stops of a structure, where a method takes their forces at points in time.

Such steps change the energy of a body that meets a stop, by two causes: the method's own growth or decay of the
oscillation with √(k/m) that half a period of contact is, and the instant of the contact, which lies within a step. The
limits are where the stationary E v² of a body between two stops, with 55 contacts in the time in which its energy
decays, was measured to be off by 2 %, and by a third to a half, beyond which it grows fast with the step.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.methods.excited import linear_step
from stodyn.methods.one_contact import gain_at_contact
from stodyn.problems.driven import step_matrices
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE
from stodyn.problems.stops import Stiffest, stiffest_stop
from stodyn.telling import tell
from stodyn.warnings import StopsNotResolved

NOTABLE = 0.3, 0.02  # h √(k/m), and the error of E v², above which a run warns
REFUSED = 0.7, 0.1  # above which it is refused
CONTACTS = 55  # at most, in the time in which the energy decays
LEAST_GAIN = 1e-3  # of the energy at a contact, below which it is not said whether a method takes or gives
FEWEST = 0.02  # of h √(k/m), below which no contact is followed by a method's own steps
MOST_HALVINGS = 16  # of the step, in search of one that is short enough
WORDS = "of a body that meets a stop (Gap): h √(k/m) is {Ω:.3g} for the stiffest one. Take {shorter}"
ALPHA = (
    "a method of the α family with order=1.0, such as StochasticAlpha, which takes the mean force of a stop over the "
    "step."
)
IMPACT = "an impact in place of the stop, sd.with_walls(problem, sd.Impact(...)), whose impulse the joints share."


def check_contacts(method: Any, problem: Any, h: float) -> None:
    """Warn where a method that takes the forces of stops at points in time makes steps that are too long for them;
    refuse where these multiply the energy."""
    stiffest = stiffest_stop(problem) if isinstance(problem, Mechanical) else None
    if stiffest is None:
        return
    tell_of_stiff_stop(method, h, stiffest, REFUSED, WORDS + (ALPHA if problem.joints is None else IMPACT))


def tell_of_stiff_stop(method: Any, h: float, stiffest: Stiffest, refused: tuple[float, float], words: str) -> None:
    """Warn where steps of length h are too long for a stop, and refuse above given limits; `words` say which stop it
    is, at {Ω}, and what to do, where {shorter} names shorter steps."""
    Ω, damping = h * stiffest.rate, max(stiffest.damping / stiffest.rate, 0.0)
    if _is_within(NOTABLE, method, Ω, damping):
        return
    shares = (0.5**k for k in range(1, MOST_HALVINGS))
    share = next((share for share in shares if _is_within(NOTABLE, method, share * Ω, damping)), None)
    words = words.format(Ω=Ω, shorter="" if share is None else f"steps of {share * h:.2g} or ")
    if not _is_within(refused, method, Ω, damping):
        raise ValueError(f"dt: with steps of {h:g} {method.name} {_does(method, Ω)} the energy {words}")
    tell(
        f"dt: with steps of {h:g} {method.name} changes the energy {words}", StopsNotResolved)  # fmt: skip


def _does(method: Any, Ω: float) -> str:
    """What a method does with the energy of a body that meets a stop, as its own steps show it."""
    gain = gain_at_contact(method, Ω)
    if gain is None or abs(gain) < LEAST_GAIN:
        return "changes"
    return "multiplies" if gain > 0.0 else "takes away"


def keeps_stops(method: Any, problem: Any) -> bool:
    """Whether a method keeps the energy of a problem's stops, or there are none."""
    if not isinstance(problem, Mechanical) or not problem.motion.stops:
        return True
    return hasattr(method, "keeps_contacts") and method.keeps_contacts(problem)


def _is_within(limits: tuple[float, float], method: Any, Ω: float, damping: float) -> bool:
    contacts = min(CONTACTS, max(1.0, 1.0 / max(math.pi * damping, 1e-300)))
    return limits[0] >= Ω and contacts * abs(change_of_energy(method, Ω, damping)) <= limits[1]


def change_of_energy(method: Any, Ω: float, damping: float = 0.0) -> float:
    """The relative error of the energy of x'' = -x - damping x' after half a period, by steps of length Ω; 0 where
    there is no oscillation. Where a step is no matrix it is that of a body at a stop, as the method's steps show it."""
    if damping >= 2.0:
        return 0.0
    if hasattr(method, "coefficients"):
        none = np.zeros((1, 0))
        matrix = linear_step(method, None, Ω, np.array([[-1.0, -damping]]), none, none)[0]
    else:
        oscillator = SDE(lambda t, x: jnp.stack([x[1], -x[0] - damping * x[1]]), lambda t, x: jnp.zeros((2, 1)),
                         np.zeros(2), calculus=method.calculus or "ito", structure="additive")  # fmt: skip
        matrices = step_matrices(method, oscillator, Ω) if isinstance(oscillator, method.accepts) else None
        if matrices is None:
            return _gain(method, Ω) or 0.0
        matrix = matrices[0]
    modulus = np.abs(np.linalg.eigvals(matrix)).max()
    return math.expm1(math.pi * (2.0 / Ω * math.log(modulus) + damping))


def _gain(method: Any, Ω: float) -> float | None:
    """The relative gain of energy at a contact; where a contact has too few steps to show it, it shrinks with the step
    at first order or faster."""
    shorter = min(1.0, Ω / FEWEST)
    gain = gain_at_contact(method, max(Ω, FEWEST))
    return None if gain is None else shorter * gain
