"""A method for a mechanical system with impacts, each located within its step.

The method makes a step from x to y. Where Hermite's cubic through the distance from a wall and its rate reaches zero,
after the share u of the step, the path is stopped there:

    position   on the cubics of all coordinates, moved onto the wall
    velocity   the slopes of the cubics plus ½ √(h u (1 - u)) b ξ, the law of the velocity of an integrated Brownian
               path given both ends and the position
    elements   the states of hysteretic elements on the cubics through them and their rates; an impact changes none
    impact     the map of the wall
    rest       a step of the method of length (1 - u) h from there, with noise of its own

and the rest is treated likewise. A path that falls back onto the wall it has just left without getting off it, or
strikes more than MOST times in a step, is at rest there: a state beyond the wall is moved onto it and loses its speed.

Coloured noise knows nothing of impacts: that of a step is drawn once, by the law of its filter, and a rest takes what
is left of it (methods.excited). The white noise of the rests comes from two normals of the stream "wall", whose bits
are the key of a counter-based generator, so that it costs nothing where nothing is struck.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from stodyn.methods.contract import Method, Report
from stodyn.methods.excited import Course, Excited
from stodyn.methods.wrapping import AndNormals, WrappedSteps, without
from stodyn.noise import counter
from stodyn.noise.increment import Increment, Recipe
from stodyn.numerics import crossing
from stodyn.numerics.rarely import rarely
from stodyn.problems.elements import Hysteretic
from stodyn.problems.impact import COUNTED, Struck
from stodyn.problems.level import Gauge
from stodyn.problems.mechanical import Mechanical

STREAM = "wall"
MOST = 8  # the most impacts in a step
NO_WAY = 1e-9  # the share of a step within which a path has not got off the wall
LEAST = 1e-14  # the least share of a step that a rest covers: methods divide by the length of their steps
NEVER = 2.0  # a share beyond the step, for walls that are not struck
POLISHED = 2  # how many Newton rounds follow the bisection for a root


def striking(method: Any, problem: Struck) -> Method:
    """The method for a system with impacts; refuses methods that cannot restart within a step."""
    if not isinstance(method, Method):
        raise ValueError(
            f"method: {method.name} makes whole paths at once, but impacts happen in steps; take StochasticAlpha"
        )
    if problem.own.coloured is not None and not isinstance(method, Excited):
        raise ValueError(
            f"method: {method.name} draws coloured noise step by step, but an impact cuts a step in two; take a method "
            "that knows its integrals, such as StochasticAlpha, or beside joints RattleAlpha"
        )
    if method.starting_steps or (method.takes_equal_steps and not isinstance(method, Excited)):
        why = method.takes_equal_steps or "takes its history at equal steps"
        raise ValueError(
            f"method: {method.name} {why}, but an impact cuts a step in two; take a one-step method such as "
            "StochasticAlpha, Newmark or SRA1"
        )
    return _Striking(method)


@dataclasses.dataclass(frozen=True)
class _Striking(WrappedSteps):
    """A step of the method, then the impacts in it; its state is that of the method and two counts (COUNTED)."""

    accepts = Struck

    @property
    def needs(self):
        return AndNormals(self.method.needs, STREAM, 2)

    def start(self, problem, t, x, params):
        inner = self.method.start(problem.problem, t, x[: problem.own.n], params)
        return inner, jnp.zeros(len(COUNTED), np.int32)

    def read(self, state):
        x = self.method.read(state[0])
        return jnp.concatenate([x, state[1].astype(x.dtype)])

    def step(self, problem, t, state, noise, params):
        inner, counts = state
        own, h = problem.problem, noise.h
        noise_of_step = without(noise, STREAM)
        after, report = self.method.step(own, t, inner, noise_of_step, params)
        course = self.method.course(own, inner, noise_of_step) if isinstance(self.method, Excited) else None
        x = self.method.read(inner)
        key = key_of(noise.aux[STREAM])
        gauges = problem.gauges
        reports = Report(*(jnp.asarray(part) for part in report))
        first = _located(gauges, t, h, x, self.method.read(after), params)
        begun = jnp.zeros((), x.dtype), x, after, jnp.zeros((), np.int32), first, reports

        def goes_on(now):
            *_, k, (share, _, rests), _ = now
            return (share < NEVER) & ~rests & (k < MOST)

        def struck(now):
            gone, x, after, k, (share, which, _), reports = now
            begin, length = t + gone * h, jnp.maximum(1.0 - gone, LEAST) * h
            normals = self._normals_at_rest(key, k, own.m, x.dtype)
            place = _place(problem, length, x, self.method.read(after), share, params, begin, normals.pop(""))
            when = begin + share * length
            hit = [problem.after(i, gauge, when, problem.onto(gauge, when, place, params), params)
                   for i, gauge in enumerate(gauges)]  # fmt: skip
            x = _chosen(which, hit)
            gone = gone + share * (1.0 - gone)
            rest = jnp.maximum(1.0 - gone, LEAST) * h
            x, after, report = self._rest(own, when, x, self._needs_at_rest.increment(rest, normals, own.m), params,
                                          None if course is None else course.rest(gone, h))  # fmt: skip
            new = Report(*(jnp.asarray(part) for part in report))
            next_one = _located(gauges, when, rest, x, self.method.read(after), params)
            return gone, x, after, k + 1, next_one, reports.joined(new)

        *_, after, k, (share, _, _), reports = lax.while_loop(goes_on, struck, begun)
        at_wall = share < NEVER

        def rested(after):
            y = self.method.read(after)
            for gauge in gauges:
                is_beyond = gauge.distances(t + h, y, params)[0] <= 0
                on = problem.onto(gauge, t + h, y, params)
                still = problem.moved(gauge, t + h, on, params, lambda speed: jnp.maximum(speed, 0.0))
                y = jnp.where(is_beyond, still, y)
            return self.method.start(own, t + h, y, params)

        after = rarely(at_wall, rested, after)
        counted = counts + jnp.stack([k, at_wall.astype(np.int32)])
        return (after, counted), Report(*reports) if report.ok is not True else report

    @property
    def _needs_at_rest(self) -> Recipe:
        """The noise of the rest of a step: no coloured noise, which is drawn for whole steps."""
        return self.method.method.needs if isinstance(self.method, Excited) else self.method.needs

    def _rest(self, own, t, x: Array, noise: Increment, params, course: Course | None) -> tuple[Array, Any, Report]:
        """The state at a place x as the method holds it, and that after a step from there, with coloured noise on its
        course."""
        if course is None:
            begun = self.method.start(own, t, x, params)
            return self.method.read(begun), *self.method.step(own, t, begun, noise, params)
        begun = self.method.begun(own, t, x, course.first, params)
        return self.method.read(begun), *self.method.step_along(course, own, t, begun, noise, params)

    def _normals_at_rest(self, key: tuple[Array, Array], k: Array, m: int, dtype: Any) -> dict[str, Array]:
        """The normals of rest number k: those of its step by their streams, and under "" m for the velocity."""
        wanted = {**self._needs_at_rest.normals(m), "": m}
        normals, by_stream = normals_of(key, k, sum(wanted.values()), dtype), {}
        for name, count in wanted.items():
            by_stream[name], normals = normals[:count], normals[count:]
        return by_stream


def key_of(normals: Array) -> tuple[Array, Array]:
    """The bits of two normals as two words of 32 bits."""
    if normals.dtype == np.float32:
        first, second = (lax.bitcast_convert_type(z, np.uint32) for z in normals)
        return first, second
    words = [lax.bitcast_convert_type(z, np.uint64) for z in normals]
    first, second = ((word ^ (word >> np.uint64(32))).astype(np.uint32) for word in words)
    return first, second


def normals_of(key: tuple[Array, Array], k: Array, count: int, dtype: Any) -> Array:
    """`count` normals, or one more, for event number k of a step with this key."""
    pairs = (count + 1) // 2
    numbers = k.astype(np.uint64) * np.uint64(pairs) + jnp.arange(pairs, dtype=np.uint64)
    return jnp.concatenate(counter.pair(key, np.uint32(0), jnp.zeros_like(numbers), numbers)).astype(dtype)


def _located(gauges: tuple[Gauge, ...], t, h, x: Array, y: Array, params) -> tuple[Array, Array, Array]:
    """The share of a step after which the first wall is struck, which wall it is, and whether the path rests on it.

    The share is NEVER where no wall is struck. A path rests where it falls back at once although it did not move
    towards the wall at the start.
    """
    shares, falls = [], []
    for gauge in gauges:
        (a,), (b,) = gauge.distances(t, x, params), gauge.distances(t + h, y, params)
        (p,), (q,) = h * gauge.distance_rates(t, x, params), h * gauge.distance_rates(t + h, y, params)
        ends, slopes = (jnp.maximum(a, 0.0), b), (p, q)
        beyond, lowest = crossing.cubic_lowest(ends, slopes)
        is_struck = (lowest <= 0.0) & (beyond > 0.0)
        root = rarely(is_struck, functools.partial(_root, ends, slopes, beyond), jnp.full_like(a, NEVER))
        shares.append(root)
        falls.append((root < NO_WAY) & (p >= 0.0))
    which = jnp.argmin(jnp.stack(shares))
    return jnp.min(jnp.stack(shares)), which.astype(np.int32), jnp.any(jnp.stack(falls))


def _root(ends: tuple[Array, Array], slopes: tuple[Array, Array], beyond: Array, none: Array) -> Array:
    """The root of the cubic, to all digits; it takes the place of `none`."""
    u = crossing.cubic_root(ends, slopes, beyond)
    for _ in range(POLISHED):
        value, slope = jax.jvp(lambda u: crossing.cubic_at(u, ends, slopes), (u,), (jnp.ones_like(u),))
        better = u - value / jnp.where(slope < 0.0, slope, 1.0)
        u = jnp.where((slope < 0.0) & (jnp.abs(better - u) < 1e-6), jnp.clip(better, 0.0, 1.0), u)
    return u


def _place(problem: Struck, h, x: Array, y: Array, u: Array, params, t, normals: Array) -> Array:
    """Positions and velocities after the share u of a step, and the states of elements; a filter's are those before the
    step, since a rest knows its noise."""
    own, N = problem.own, problem.own.N
    ends, slopes = (x[:N], y[:N]), (h * x[N : 2 * N], h * y[N : 2 * N])
    position, rate = jax.jvp(lambda u: crossing.cubic_at(u, ends, slopes), (u,), (jnp.ones_like(u),))
    velocity = rate / h
    if own.m:
        kicks = own.motion.kicks(t, x[:N], x[N : 2 * N], x[:0], params)
        velocity = velocity + 0.5 * jnp.sqrt(h * u * (1.0 - u)) * (kicks @ normals)
    return jnp.concatenate([position, velocity, *_elements(own.own, h, x, y, u), x[own.own.n :]])


def _elements(own: Mechanical, h, x: Array, y: Array, u: Array) -> list[Array]:
    """The states of hysteretic elements after the share u of a step."""
    if not isinstance(own, Hysteretic):
        return []
    ends = [jnp.split(part[: own.n], (own.N, 2 * own.N)) for part in (x, y)]
    slopes = tuple(h * own.rates(*end) for end in ends)
    return [crossing.cubic_at(u, (ends[0][2], ends[1][2]), slopes)]


def _chosen(which: Array, states: list[Array]) -> Array:
    """Return states[which], for a traced `which`."""
    chosen = states[0]
    for i, state in enumerate(states[1:], 1):
        chosen = jnp.where(which == i, state, chosen)
    return chosen
