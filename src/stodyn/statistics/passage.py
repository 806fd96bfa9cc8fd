"""First passage: when a component first reaches a level."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import Array

from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.moments import Averaged, summarise


class Track(NamedTuple):
    """Of each lane: the probability, given the path on the grid, that the level has not been reached; its integral."""

    survival: Array
    time: Array


def share_after_crossing(a: Array, b: Array, variance: Array) -> Array:
    """The mean share of a step that a Brownian bridge has left when it first reaches a level, given that it does.

    It begins at the distance a and ends at b, on either side; `variance` is that of the step:
        1 - a √(π/2v) erfcx((a + b)/√(2v)),
    from ∫ (1 - u) f_a(u) p_b(1 - u) du over p_(a+b)(1), f_a the density of the first passage and p_b that of the end.
    """
    scale = jnp.sqrt(2.0 * variance)
    z = (a + b) / scale
    small, large = jnp.minimum(z, 8.0), jnp.maximum(z, 8.0)
    w = 0.5 / large**2
    series = (1.0 - w * (1.0 - 3.0 * w * (1.0 - 5.0 * w * (1.0 - 7.0 * w)))) / (math.sqrt(math.pi) * large)
    erfcx = jnp.where(z < 8.0, jnp.exp(small**2) * jax.scipy.special.erfc(small), series)
    return 1.0 - math.sqrt(math.pi) * a / scale * erfcx


@dataclasses.dataclass(frozen=True, kw_only=True)
class Passage(Averaged):
    """The law of the first time τ at which a component reaches `level`, from below ("up") or from above ("down").

    A path may cross and come back between two steps. With bridge=True (the default) the chance of that is taken from
    the Brownian bridge between the two states, exp(-2 (level - x)(level - x') / (h Σ_k g_k²)), g at the beginning of
    the step, and so is the mean time of the crossing: both exact for Brownian motion at any step, and of a higher order
    in h than without. No further random numbers are drawn: each path carries the probability that it has survived.
    Without the bridge crossings are seen at the grid only, and τ comes out late by O(√h).

    Variables, NAME being `name`: NAME_survival = P(τ > t), NAME_time = E min(τ, t), each with _stderr (time).
    """

    level: float = dataclasses.field(kw_only=False)
    component: str | int = dataclasses.field(kw_only=False, default=0)
    direction: str = "up"
    bridge: bool = True
    name: str = "passage"
    index: int = dataclasses.field(default=0, init=False, repr=False)
    variance_rate: Callable | None = dataclasses.field(default=None, init=False, repr=False)

    def prepared(self, problem, times):
        found = np.asarray(self.level)
        if found.ndim or found.dtype.kind not in "iuf" or not np.isfinite(found):
            raise ValueError(f"Passage: level must be a number, got {self.level!r}; write Passage(level, component)")
        if self.direction not in ("up", "down"):
            raise ValueError(f'Passage: direction must be "up" or "down", got {self.direction!r}')
        if isinstance(self.component, str):
            if self.component not in problem.names:
                raise ValueError(f"Passage: no component {self.component!r}; there are {', '.join(problem.names)}")
            index = problem.names.index(self.component)
        else:
            index = int(self.component)
            if not 0 <= index < problem.n:
                raise ValueError(f"Passage: component {index}, expected 0 to {problem.n - 1}")
        if self.bridge and (not hasattr(problem, "g") or isinstance(problem, SDAE)):
            raise ValueError(
                f"Passage: the bridge needs the diffusion of an SDE, and this is a {type(problem).__name__}; "
                "lower the problem to an SDE, or pass bridge=False"
            )
        ready = dataclasses.replace(self)
        object.__setattr__(ready, "index", index)
        if self.bridge:
            row = problem.row if isinstance(problem, SDE) else lambda t, x, p, i: problem.g(t, x, p)[i]
            object.__setattr__(ready, "variance_rate", lambda t, x, p: jnp.sum(row(t, x, p, index) ** 2))
        return ready

    def _distance(self, x: Array) -> Array:
        distance = self.level - x[self.index]
        return distance if self.direction == "up" else -distance

    def track_start(self, t, x, params):
        alive = jnp.where(self._distance(x) > 0, 1.0, 0.0).astype(x.dtype)
        return Track(alive, jnp.zeros_like(alive))

    def track(self, gathered, move):
        before, after = self._distance(move.before), self._distance(move.after)
        stays = jnp.where(after > 0, 1.0, 0.0).astype(after.dtype)
        time = 0.5 * move.h * (1.0 + stays)
        if self.variance_rate is not None:
            axes = (None, -1, move.axes)
            rate = jax.vmap(self.variance_rate, in_axes=axes)(move.t, move.before, move.params)
            variance = jnp.where(rate > 0, move.h * rate, 1.0)
            before = jnp.maximum(before, 0)  # beyond the level nothing is left to be lost
            crossed = jnp.exp(-2 * before * jnp.maximum(after, 0) / variance)
            lost = crossed * move.h * share_after_crossing(before, jnp.abs(after), variance)
            time = jnp.where(rate > 0, move.h - lost, time)
            stays = jnp.where(rate > 0, stays * (1 - crossed), stays)
        return Track(gathered.survival * stays, gathered.time + gathered.survival * time)

    def values(self, snapshot):
        return jnp.stack([snapshot.track.survival, snapshot.track.time])

    def means(self):
        return {f"{self.name}_survival": slice(0, 1), f"{self.name}_time": slice(1, 2)}

    def label(self, result, run):
        s = summarise(result)
        return Labelled(
            {
                f"{self.name}_survival": Variable(("time",), s.mean[:, 0]),
                f"{self.name}_survival_stderr": Variable(("time",), s.mean_stderr[:, 0]),
                f"{self.name}_time": Variable(("time",), s.mean[:, 1]),
                f"{self.name}_time_stderr": Variable(("time",), s.mean_stderr[:, 1]),
            }
        )
