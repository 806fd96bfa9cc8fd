"""A method for equations that jump in time where steps end: no step sees the far side of a jump, and what is carried
over one begins anew.

A step that begins at a jump is made a little later than it is, and one that ends there a little earlier: by so little
that its functions read the near side and everything else stays as it is. Where steps lie between two jumps, all are
shortened instead, by twice as much. α methods take their acceleration from the far side, equations with constraints
their algebraic components, and methods with a history make their starting steps again.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.methods.contract import Method, Report
from stodyn.methods.looping import keeps_more
from stodyn.methods.wrapping import WrappedSteps, in_types_of
from stodyn.numerics.rarely import rarely

SHOWN = 6  # jumps in the record of a run


def carries(method: Method) -> bool:
    """Whether a method carries more than the state from step to step, and begins it anew."""
    kind: Any = type(method)
    return bool(method.starting_steps) or (kind.start is not Method.start and not keeps_more(method))


@dataclasses.dataclass(frozen=True)
class AtJumps(WrappedSteps):
    """A step on its own side of the jumps.

    times    of the jumps, increasing: each is the end of a step
    beside   how far from a jump it is seen, in time
    near     times that are nearer to each other are the same
    inside   whether all steps are shortened, because some lie between two jumps
    """

    times: tuple[float, ...]
    beside: float
    near: float
    inside: bool

    @property
    def accepts(self):  # type: ignore[override]
        return self.method.accepts

    @property
    def in_words(self) -> str:
        """What becomes of the jumps, for the record of a run."""
        shown = ", ".join(f"{time:g}" for time in self.times[:SHOWN])
        return f"steps keep to their side of the jumps at t = {shown}{', ...' if len(self.times) > SHOWN else ''}"

    def start(self, problem, t, x, params):
        return self.method.start(problem, self._begun(t), x, params)

    def step(self, problem, t, state, noise, params):
        at, own = self._within(t, noise)
        last = self._last(t) if carries(self.method) else None
        if last is None:
            return self.method.step(problem, at, state, own, params)
        if not self.starting_steps:

            def begun_anew(state):
                return in_types_of(state, self.method.after_jump(problem, at, state, params))

            return self.method.step(problem, at, rarely(jnp.abs(t - last) < self.near, begun_anew, state), own, params)
        since = self._steps_since(last, t, noise.h)

        def started_anew(_):
            return _as_arrays(*self.method.starting_step(since, problem, at, state, own, params))

        starts = (since >= 0) & (since < self.starting_steps)
        return rarely(starts, started_anew, _as_arrays(*self.method.step(problem, at, state, own, params)))

    def starting_step(self, k, problem, t, state, noise, params):
        at, own = self._within(t, noise)
        since = self._steps_since(self._last(t), t, noise.h)
        k = jnp.where(since >= 0, jnp.minimum(k, since), k)
        return self.method.starting_step(k, problem, at, state, own, params)

    def after_jump(self, problem, t, state, params):
        return self.method.after_jump(problem, t, state, params)

    def leading(self, state):
        return self.method.leading(state)

    def read(self, state):
        return self.method.read(state)

    def _within(self, t: Any, noise: Any) -> tuple[Any, Any]:
        """When the step is made, and its noise."""
        if self.inside:
            return t + self.beside, dataclasses.replace(noise, h=noise.h - 2.0 * self.beside)
        end = t + noise.h
        earlier = jnp.where(jnp.abs(end - self._last(end)) < self.near, self.beside, 0.0)
        return jnp.asarray(self._begun(t) - earlier, jnp.result_type(t)), noise

    def _begun(self, t: Any) -> Any:
        """The time at which a step from t on begins to see."""
        later = self.beside if self.inside else jnp.where(jnp.abs(t - self._last(t)) < self.near, self.beside, 0.0)
        return jnp.asarray(t + later, jnp.result_type(t))

    def _last(self, t: Any) -> Array:
        """The last jump that is not after t; the first of all where there is none."""
        times = jnp.asarray(np.asarray(self.times), jnp.result_type(t))
        if len(self.times) == 1:
            return times[0]
        place = jnp.searchsorted(times, t + self.near, side="right", method="scan_unrolled")
        return times[jnp.maximum(place - 1, 0)]

    def _steps_since(self, last: Array, t: Any, h: Any) -> Array:
        """How many steps lie between the last jump and t; negative where there was none."""
        return jnp.round((t - last) / h).astype(np.int32)


def _as_arrays(after: Any, report: Report) -> tuple[Any, Report]:
    ok, rounded = (jnp.asarray(flag, bool) for flag in (report.ok, report.rounded))
    return after, Report(ok, jnp.asarray(report.iterations, np.int32), rounded)
