"""A method whose paths begin at any state and at any step, so that a path can branch from another one.

Every path has its own clock. Its whole state, the *carry*, is shown by a run and taken as a start: the components and
the time of the stop, for observers; the state of the method; the path's own parameters, where some differ from path to
path; the number of steps made; the score of the last step; and how the path has ended (0: it goes on; 1: by the event;
2: by another level; 3: by the end of time).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.methods.contract import Method
from stodyn.methods.stopping import STREAM, Stopping, of_those
from stodyn.methods.wrapping import Wrapping
from stodyn.noise.source import Fixed, Source
from stodyn.numerics import crossing
from stodyn.problems.contract import Around
from stodyn.problems.level import BRIDGE, CUBIC

LEAST = -1e300  # the score of a step that ends a path without the event
GOES_ON, EVENT, OTHER, TIME = range(4)


@dataclasses.dataclass(frozen=True, eq=False)
class Branched(Around):
    """A problem whose components are the entries of a carry."""

    n: int
    names: Any = None
    units: Any = None

    @property
    def start_parts(self) -> tuple[Source, ...]:
        return (Fixed(np.zeros(self.n)),)  # each run of a block gets the starts of its paths

    @property
    def params(self) -> Any:
        """The parameters of one path; those that differ from path to path are in the carry."""
        return self.problem.example_params()

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        return np.zeros((len(paths), self.n))


@dataclasses.dataclass(frozen=True)
class Branching(Wrapping, Method):
    """A step of a method that stops paths, from any state and step.

    score(t, y, distance, params) is the score of a step that ends at time t in y and came within `distance` of the
    event. `tree` and `leaves` are the structure of the state as a pytree, and the shape and type of each leaf; `varies`
    says for each leaf of the parameters whether every path has its own.
    """

    method: Stopping
    score: Any
    first_time: float
    steps: int
    tree: Any
    leaves: tuple[Any, ...]
    varies: tuple[int, ...]
    accepts = Branched
    stops = True

    @property
    def needs(self):
        return self.method.needs

    def start(self, problem, t, x, params):
        own, place = [], problem.problem.n + 1
        for leaf in self.leaves:
            size = int(np.prod(leaf.shape))
            own.append(x[place : place + size].reshape(leaf.shape).astype(leaf.dtype))
            place += size
        return self.tree.unflatten(own)

    def read(self, state):
        return carried(self.method, state)

    def step(self, problem, t, state, noise, params):
        inner, own, k, score, end = state
        params = with_own(params, own, self.varies)
        here = self.first_time + k.astype(score.dtype) * noise.h
        after, report = self.method.numbered_step(k, problem.problem, here, inner, noise, params)
        by, following = after[1].by, k + 1
        time_is_over = jnp.where(following >= self.steps, np.int32(TIME), np.int32(GOES_ON))
        ended = jnp.where(by == 1, np.int32(EVENT), jnp.where(by > 1, np.int32(OTHER), time_is_over))
        reached = self._scored(here, inner, after, noise, params)
        new = after, own, following, jnp.where(ended == GOES_ON, reached, LEAST).astype(score.dtype), ended
        goes_on = end == GOES_ON
        return jax.tree.map(lambda a, b: jnp.where(goes_on, a, b), new, state), of_those(report, goes_on)

    def _scored(self, t, inner, after, noise, params):
        """The score of a step, at the smallest distance from the event within it."""
        gauge, method, h = self.method.gauges[0], self.method.method, noise.h
        x, y = method.read(inner[0]), method.read(after[0])
        kind = gauge.known[0]
        if kind == CUBIC:
            closest = crossing.cubic_lowest(*gauge.ends_and_slopes(t, h, x, y, params))[1]
            return self.score(t + h, y, jnp.min(closest), params)
        ends = gauge.distances(t + h, y, params)
        if kind != BRIDGE:
            return self.score(t + h, y, jnp.min(ends), params)
        a, b, one, other = gauge.ends_and_deviations(t, h, x, y, params, method.freezes_noise(gauge.problem))
        energy = 0.5 * jnp.sum(noise.aux[STREAM][:2] ** 2)
        closest = 0.5 * (a + b - jnp.sqrt((a - b) ** 2 + 2.0 * one * other * energy))
        side = jnp.argmin(closest)
        sign = gauge.signs(x)[side]
        y = gauge.at_the_level(t + h, y, params, ends[side] - closest[side], sign)
        return self.score(t + h, y, closest[side], params)


def with_own(params: Any, own: tuple[jax.Array, ...], varies: tuple[int, ...]) -> Any:
    """The parameters of a path: the common ones, with its own in their places."""
    leaves, tree = jax.tree.flatten(params)
    rest = iter(own)
    return jax.tree.unflatten(
        tree, [next(rest) if is_own else leaf for leaf, is_own in zip(leaves, varies, strict=True)]
    )


def carried(method: Stopping, state: Any) -> jax.Array:
    """Return what a path in a state carries from one run to the next, as one vector."""
    x = method.read(state[0])
    leaves = [jnp.asarray(leaf).astype(x.dtype).ravel() for leaf in jax.tree.leaves(state)]
    return jnp.concatenate([x[: method.n], state[0][1].time[None], *leaves])


def branching(
    method: Stopping, problem: Any, score: Any, first_time: float, steps: int, varies: tuple[int, ...]
) -> tuple[Branched, Branching]:
    """The problem and the method for paths that branch."""
    with jax.enable_x64(True):
        leaves = jax.tree.leaves(problem.example_params())
        own = tuple(jnp.asarray(leaf) for leaf, is_own in zip(leaves, varies, strict=True) if is_own)
        begun = jax.eval_shape(lambda x: beginning(method, problem, first_time, x, own, varies), jnp.zeros(problem.n))
    leaves, tree = jax.tree.flatten(begun)
    size = problem.n + 1 + sum(int(np.prod(leaf.shape)) for leaf in leaves)
    branching = Branching(method, score, first_time, steps, tree, tuple(leaves), varies)
    return Branched(problem, size, tuple(f"s{k}" for k in range(size))), branching


def beginning(
    method: Stopping, problem: Any, t: float, x: jax.Array, own: tuple[jax.Array, ...], varies: tuple[int, ...]
) -> Any:
    """The state of a path that begins in x with its own parameters."""
    inner = method.start(problem, t, x, with_own(problem.example_params(), own, varies))
    return inner, own, jnp.zeros((), np.int32), jnp.full((), LEAST, x.dtype), jnp.zeros((), np.int32)
