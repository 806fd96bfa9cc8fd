"""Whether a drift or force jumps in time where a step ends, under a method that carries derivatives from step to step.

Such a method takes the derivatives from before the jump along, and its last step before reads the value after it: its
order falls to 1. The value at the jump that is the mean of both sides keeps the order (docs/howto/choose_a_step.md).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.engine.traces import traced_functions_of
from stodyn.methods.contract import Method
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.facts.degree import has_jumps_in
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import or_else
from stodyn.problems.contract import TracedFunction
from stodyn.problems.ground import GroundLoad
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import JumpsInTime

MOST_TIMES = 4096  # of the ends of steps that are looked at
MOST_COMPONENTS = 100
BESIDE = 1e-9  # of a step: how near to its end the function is evaluated, by choice far above the rounding of times
NOTABLE = 1e-6  # of the largest value: a jump below this is none, by choice

_jumps: Bounded[str, bool] = Bounded(256)


def check_jumps(method: Any, problem: Any, times: np.ndarray) -> None:
    """Warn where a drift or force jumps at one of the times, and is not the mean of both sides there."""
    carries = isinstance(method, Method) and (
        type(method).after_jump is not Method.after_jump or method.starting_steps > 0
    )
    own = getattr(problem, "own", problem)
    is_recorded = isinstance(getattr(own, "load", None), GroundLoad)  # whose end is a jump, and not the user's
    if not carries or is_recorded or not isinstance(problem, SDE | Mechanical) or problem.n > MOST_COMPONENTS:
        return
    for name, look in traced_functions_of(problem).items():
        word = name.rsplit(".", 1)[-1]
        time = first_jump(look, times[1:-1][:MOST_TIMES]) if word in ("drift", "force") else None
        if time is not None:
            tell(
                f"{word}: jumps at t = {time:g}, where a step ends. {method.name} carries derivatives across it, so "
                "that its order is 1. Give it the mean of both sides there, as in jnp.where(t > T, b, "
                "jnp.where(t == T, (a + b)/2, a)), which keeps the order.",
                JumpsInTime,
            )


@or_else(lambda look, times: None)
def first_jump(look: TracedFunction, times: np.ndarray) -> float | None:
    """The first of the times at which a function of (t, ...) jumps, with its other arguments at the start."""
    if look.digest not in _jumps:
        _jumps[look.digest] = has_jumps_in(look.trace, look.arguments, (0,))
    if not _jumps[look.digest] or not len(times):
        return None
    others = look.arguments[1:]

    def value(t: Any) -> Any:
        return jnp.ravel(jnp.asarray(look.function(t, *others)))

    δ = BESIDE * np.min(np.diff(times, prepend=0.0)[1:], initial=times[0] or 1.0)
    with jax.enable_x64(True):
        before, here, after = (np.asarray(AtPoints(value)(t)) for t in (times - δ, times, times + δ))
    size = NOTABLE * np.max(np.abs([before, here, after]), initial=0.0)
    apart = (np.abs(after - before) > size) & (np.abs(here - 0.5 * (before + after)) > size)
    return float(times[np.argmax(apart.any(axis=1))]) if apart.any() else None
