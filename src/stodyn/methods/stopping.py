"""A method whose paths are stopped where a function of the state first reaches a level.

After every step the method decides whether a level was reached within the step (problems.level), and when:

    bridge   with the probability exp(-2 a b) of a Brownian bridge, a and b its distances in standard deviations of the
             step; then the share of the step before the crossing is s/(1 + s), s inverse Gaussian of mean a/|b| and
             shape a², and the state lies on the chord, plus the bridge of the noise along the level
    cubic    where Hermite's cubic through the function and its rate is at the level
    grid     at the end of the step

The decision takes two normals z of the stream "event": E = |z|²/2 is exponential, and the level is reached where
E > 2 a b. In this case E - 2 a b is again exponential and independent of the direction of z, so that z, shortened to
|z|² - 4 a b, is a fresh pair of normals, from which the share is drawn.

Where several levels have bridges, the state at the stop is also one from which no other level was reached before: its
distance from each of them is that of a bridge kept from the level until it reaches it, or to the end of the step
(crossing.distance_before). This is exact where the noises of the functions are independent.

Where functions are curved, share their noise or are decided in different ways, such a place may still lie off its level
or beyond another one. The path is then stopped where the line from the beginning of the step to it first meets a level,
and by that level.

The state of a stopped path no longer changes. The last entry of the method's state is the number of the level
that stopped the path, counted from 1, and 0 while the path goes on.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.methods.contract import Method, Report
from stodyn.methods.wrapping import AndNormals, WrappedSteps, without
from stodyn.numerics import crossing
from stodyn.numerics.rarely import rarely
from stodyn.problems.level import BRIDGE, CUBIC, GRID, Gauge, Level

STREAM = "event"
SMALL = 16  # components up to which the work for a crossing is done in a loop that runs only where there is one
ONTO = 4  # how many moves bring a chord that is close to the level onto it, up to rounding
FAR = 15.0  # a b from which a bridge that keeps from a level is any bridge: exp(-2 a b) < 1e-13
FURTHER = 5  # how often a move that ends before the level is doubled
LEAST_SLOPE = 1e-3  # 1 - ρ² of two functions' noises, below which a place cannot be moved along one for the other
KINDS = ("frozen", "alive")


@checks_arguments
@dataclasses.dataclass(frozen=True, init=False)
class Stop:
    """Stop each path where a function of its state first reaches one of some levels.

    Parameters
    ----------
    *levels : Level
        The first level that a path reaches stops it.
    stopped : "frozen" or "alive"
        The paths that later statistics include: "frozen" (the default), all paths, where stopped paths stay at
        the place of their stop (the stopped process); "alive", only paths that have not been stopped.

    Examples
    --------
    >>> import stodyn as sd
    >>> stop = sd.Stop(sd.Level(1.0, of="x"))
    """

    levels: tuple[Level, ...]
    stopped: str = "frozen"

    def __init__(self, *levels: Level, stopped: str = "frozen"):
        if not levels:
            raise ValueError("stop: has no level; write stop=stodyn.Stop(stodyn.Level(1.0, of=...))")
        for level in levels:
            if not isinstance(level, Level):
                raise TypeError(f"stop: expected levels such as stodyn.Level(1.0, of=...), got {level!r}")
        if stopped not in KINDS:
            raise ValueError(f'stopped: expected "frozen" or "alive", got {stopped!r}')
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "stopped", stopped)


def stopping(method: Any, problem: Any, stop: Stop, t: float) -> Stopping:
    """The method with a stop, for a problem whose run begins at time t; refuses methods that cannot be stopped."""
    if not isinstance(stop, Stop):
        raise TypeError(f"stop: expected stodyn.Stop(stodyn.Level(...)), got {stop!r}")
    if not isinstance(method, Method):
        raise ValueError(
            f"stop: {method.name} makes whole paths at once and cannot stop them on the way; take a method of steps"
        )
    gauges = tuple(level.on(problem, t) for level in stop.levels)
    for gauge in gauges:
        reached = gauge.reached_at_start(t)
        if reached is not None:
            raise ValueError(f"stop: {reached}")
        gauge.warn_of_grid("stop", "Add it as a differential state, or take small steps.")
    smooth = tuple(
        i for i in range(problem.n if problem.n <= SMALL else 0) if Level(0.0, i).on(problem, t).known[0] == CUBIC
    )
    return Stopping(method, gauges, stop.stopped, problem.n, problem.m, smooth)


class End(NamedTuple):
    """When, where and by which level a path was stopped, and its smallest distance so far from each level.

    `place` is None where the method's state holds it; distances are those at the ends of steps.
    """

    time: Any
    closest: Any
    place: Any
    by: Any


@dataclasses.dataclass(frozen=True)
class Stopping(WrappedSteps):
    """A step of the wrapped method, then the decision whether and where in it the path is stopped.

    `gauges` are the levels for this problem of n components and m noise channels; `smooth` are the components that
    noise does not enter directly. With stopped="frozen" a stopped path shows its last state, with "alive" NaN.
    """

    gauges: tuple[Gauge, ...]
    stopped: str
    n: int
    m: int
    smooth: tuple[int, ...]
    accepts = object
    stops = True

    @property
    def levels_in_words(self) -> list[str]:
        """The words on the levels in the record of a run."""
        return [f"{gauge.level}: {gauge.known[0]}, {gauge.known[1]}" for gauge in self.gauges]

    @property
    def bridges(self) -> int:
        """The number of levels that need a random decision."""
        return sum(gauge.known[0] == BRIDGE for gauge in self.gauges)

    @property
    def needs(self):
        if not self.bridges:
            return self.method.needs
        return AndNormals(self.method.needs, STREAM, 2 * self.bridges + self.places)

    @property
    def places(self) -> int:
        """The number of normals that draw where a path is, beside the level that stopped it."""
        kinds = [gauge.known[0] for gauge in self.gauges]
        is_mixed = BRIDGE in kinds and CUBIC in kinds
        return self.m + 2 * (self.bridges - (not is_mixed)) if self.bridges and (self.m > 1 or is_mixed) else 0

    @property
    def places_exactly(self) -> bool:
        """Whether places lie on their level by construction: on one level of a component, or at the ends of steps."""
        on_a_component = len(self.gauges) == 1 and not callable(self.gauges[0].of)
        return on_a_component or all(gauge.known[0] == GRID for gauge in self.gauges)

    @property
    def is_plain(self) -> bool:
        """Whether the method's state is the vector of the problem's components."""
        return type(self.method).read is Method.read and type(self.method).start is Method.start

    def start(self, problem, t, x, params):
        inner = self.method.start(problem, t, x, params)
        here = self.method.read(inner)
        closest = jnp.stack([jnp.min(gauge.distances(t, here, params)) for gauge in self.gauges])
        by = jnp.where(jnp.any(closest <= 0), jnp.argmin(closest) + 1, 0).astype(np.int32)
        return inner, End(jnp.asarray(t, x.dtype), closest, None if self.is_plain else here, by)

    def step(self, problem, t, state, noise, params):
        stepped = self.method.step(problem, t, state[0], without(noise, STREAM), params)
        return self._decided(problem, t, state, noise, params, stepped)

    def starting_step(self, k, problem, t, state, noise, params):
        stepped = self.method.starting_step(k, problem, t, state[0], without(noise, STREAM), params)
        return self._decided(problem, t, state, noise, params, stepped)

    def read(self, state):
        inner, end = state
        x = self.method.read(inner)
        place = x if end.place is None else jnp.where(end.by > 0, end.place, x)
        shown = jnp.where(end.by > 0, jnp.nan, x) if self.stopped == "alive" else place
        by = end.by.astype(x.dtype)
        return jnp.concatenate([shown, end.time[None], end.closest, place, by[None]])

    # --- the decision after a step ------------------------------------------------------------------------------------

    def _decided(self, problem, t, state, noise, params, stepped):
        inner, end = state
        after, report = stepped
        goes_on = end.by == 0
        x, y = self.method.read(inner), self.method.read(after)
        stops, share, by, place = self._stopped(problem, t, noise, x, y, params, goes_on)
        until, shown = t + jnp.where(stops, share, 1.0) * noise.h, jnp.where(stops, place, y)
        closest = [jnp.min(gauge.distances(until, shown, params)) for gauge in self.gauges]
        time = jnp.where(stops, t + share * noise.h, end.time)
        following = jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), after, inner)
        if self.is_plain:
            following, last = jnp.where(stops, place, following), None
        else:
            last = jnp.where(stops, place, end.place)
        lowest = jnp.where(goes_on, jnp.minimum(end.closest, jnp.stack(closest)), end.closest)
        return (following, End(time, lowest, last, jnp.where(stops, by, end.by))), of_those(report, goes_on)

    def _stopped(self, problem, t, noise, x, y, params, goes_on):
        """Whether a path is stopped in a step from x to y, after which share of the step, by which level, and where."""
        h, used = noise.h, 0
        tests: list[_Test] = []
        normals = noise.aux[STREAM] if self.bridges else jnp.zeros(0, x.dtype)
        for gauge in self.gauges:
            z, is_bridge = normals[used : used + 2], gauge.known[0] == BRIDGE
            if used and is_bridge:
                z = next(test for test in tests if test.kind == BRIDGE).shared_with(gauge, z)
            tests.append(_Test(gauge, self, t, h, x, y, params, z))
            used += 2 * is_bridge
        possible = goes_on & jnp.any(jnp.stack([test.is_possible() for test in tests]))

        def once(_):
            reached, share, by, place = jnp.asarray(False), jnp.ones_like(x[0]), jnp.asarray(0, np.int32), y
            crossings = [test.crossing() for test in tests]
            for number, (test, (crosses, when, side)) in enumerate(zip(tests, crossings, strict=True), 1):
                when = when.astype(x.dtype)
                where = test.place(when, side, normals[used : used + self.m] if self.places else normals[:0])
                if self.places and test.kind != GRID:
                    others = [(other, *its_crossing) for other, its_crossing in zip(tests, crossings, strict=True)
                              if other is not test and other.kind == BRIDGE]  # fmt: skip
                    moved = test.before_others(where, when, side, others, normals[used + self.m :])
                    far = [jnp.any(of.gauge.distances(t + when * h, moved, params) < -of.rounding) for of in tests]
                    where = jnp.where(jnp.any(jnp.stack(far)), where, moved)
                if not self.places_exactly:
                    where = test.at_or_beyond(where, when, side)
                is_first = crosses & (~reached | (when < share))
                share, by = jnp.where(is_first, when, share), jnp.where(is_first, np.int32(number), by)
                reached, place = reached | crosses, jnp.where(is_first, where, place)
            if not self.places_exactly:
                share, by, place = self._first_met(tests, reached, share, by, place)
            return reached, share.astype(x.dtype), by, place.astype(x.dtype)

        nothing = jnp.asarray(False), jnp.ones_like(x[0]), jnp.asarray(0, np.int32), y
        return rarely(possible, once, nothing, loops=problem.n <= SMALL)

    def _first_met(self, tests, reached, share, by, place):
        """The share, the level and the place where the line from the beginning of a step to a place first meets a
        level, if the place lies off its own level or beyond another."""
        numbers = jnp.asarray([k for k, test in enumerate(tests, 1) if test.kind != GRID], np.int32)
        checked = [test for test in tests if test.kind != GRID]

        def beyond(u):
            """How far the path is beyond each level after a part u of the line."""
            return -jnp.stack([jnp.min(test.distances_on_the_way(place, u, share)) for test in checked])

        def halved(_, bounds):
            middle = 0.5 * (bounds[0] + bounds[1])
            is_beyond = jnp.any(beyond(middle) > 0.0)
            return jnp.where(is_beyond, bounds[0], middle), jnp.where(is_beyond, middle, bounds[1])

        one = jnp.ones_like(share)
        allowed = jnp.where(numbers == by, jnp.stack([test.rounding for test in checked]), 0.0)
        is_off = reached & jnp.any(beyond(one) > allowed)
        inside, outside = jax.lax.fori_loop(0, crossing.BISECTIONS, halved, (jnp.zeros_like(one), one))
        first = numbers[jnp.argmax(beyond(outside))]
        place = jnp.where(is_off, tests[0].x + inside * (place - tests[0].x), place)
        return jnp.where(is_off, inside * share, share), jnp.where(is_off, first, by), place


def of_those(report: Report, goes_on: Array) -> Report:
    """The report of a step, which counts only for a path that goes on."""
    if report.ok is True:
        return report
    rounded = report.rounded if report.rounded is False else report.rounded & goes_on
    is_explicit = isinstance(report.iterations, int)
    iterations = report.iterations if is_explicit else jnp.where(goes_on, report.iterations, 0)
    return Report(report.ok | ~goes_on, iterations, rounded)


class _Test:
    """The test whether one path reached one level in a step from x to y; z holds two normals, for a bridge."""

    def __init__(self, gauge: Gauge, method: Stopping, t, h, x, y, params, z):
        self.gauge, self.kind, self.smooth = gauge, gauge.known[0], method.smooth
        self.t, self.h, self.x, self.y, self.params, self.z = t, h, x, y, params, z
        if self.kind == CUBIC:
            self.ends, self.slopes = gauge.ends_and_slopes(t, h, x, y, params)
        else:
            self.ends = gauge.distances(t, x, params), gauge.distances(t + h, y, params)
        if self.kind == BRIDGE:
            self.frozen = method.method.freezes_noise(gauge.problem)
            self.units = gauge.in_deviations(t, h, x, y, params, self.frozen)
            self.energy = 0.5 * jnp.sum(z**2)

    def shared_with(self, gauge: Gauge, z: Array) -> Array:
        """Normals for another level, which has as much of its noise in common with this one as its function has."""
        if len(self.gauge.sides) + len(gauge.sides) > 2:
            return z
        one, other = (g.sides[0] * g.noise(self.t, self.x, self.params) for g in (self.gauge, gauge))
        tiny = jnp.finfo(z.dtype).tiny
        common = one @ other / jnp.sqrt(jnp.maximum((one @ one) * (other @ other), tiny))
        against = -jnp.log(-jnp.expm1(-self.energy)) / jnp.maximum(self.energy, tiny)
        same = self.z * jnp.where(common > 0.0, 1.0, jnp.sqrt(against))
        return jnp.abs(common) * same + jnp.sqrt(jnp.maximum(1.0 - common**2, 0.0)) * z

    def is_possible(self) -> Array:
        """Whether the level may have been reached."""
        beyond = jnp.any(self.ends[0] <= 0) | jnp.any(self.ends[1] <= 0)
        if self.kind == BRIDGE:
            a, b = self.units
            spare = np.log(len(a))  # the chance to reach either of two levels is at most twice the larger chance
            return beyond | (self.energy + spare > 2.0 * jnp.min(a * b))
        if self.kind == CUBIC:
            return jnp.any(crossing.cubic_lowest(self.ends, self.slopes)[1] <= 0)
        return beyond

    def crossing(self) -> tuple[Array, Array, Array]:
        """Whether the level was reached, after which share of the step, and which of two levels it was."""
        one = jnp.ones_like(self.x[0])
        if self.kind == GRID:
            return jnp.any(self.ends[1] <= 0), one, jnp.argmin(self.ends[1])
        if self.kind == CUBIC:
            u, lowest = crossing.cubic_lowest(self.ends, self.slopes)
            roots = jnp.where(lowest <= 0, crossing.cubic_root(self.ends, self.slopes, u), jnp.inf)
            return jnp.any(lowest <= 0), jnp.min(roots), jnp.argmin(roots)
        reached, energy, side = self._decision()
        normal, other = self.z * jnp.sqrt(energy / jnp.maximum(self.energy, jnp.finfo(one.dtype).tiny))
        a, b = (jnp.maximum(jnp.abs(x[side]), 1e-30) for x in self.units)
        s = crossing.inverse_gaussian(a / b, a**2, normal, jax.scipy.special.ndtr(other))
        return reached, jnp.where(self.ends[0][side] > 0, s / (1.0 + s), 0.0), side

    def _decision(self) -> tuple[Array, Array, Array]:
        """Whether a bridge reached the level, the remaining exponential variable, and the side."""
        a, b = (jnp.maximum(x, 0.0) for x in self.units)
        if len(a) == 1:
            left = self.energy - 2.0 * a[0] * b[0]
            return left > 0, jnp.maximum(left, 0.0), jnp.zeros((), int)
        chance = self._chance(a, b)
        low, high = crossing.bridge_chance(a[0], b[0]), crossing.bridge_chance(a[1], b[1])
        uniform, share = jnp.exp(-self.energy) / chance, low / (low + high)
        is_low = uniform < share
        left = jnp.where(is_low, uniform / share, (uniform - share) / (1.0 - share))
        return uniform < 1.0, -jnp.log(jnp.clip(left, 1e-30, 1.0)), jnp.where(is_low, 0, 1)

    def place(self, share: Array, side: Array, normals: Array) -> Array:
        """The state after the share of the step at which the level was reached."""
        t, h, x, y, params, problem = self.t, self.h, self.x, self.y, self.params, self.gauge.problem
        if self.kind == GRID:
            return y
        chord = x + share * (y - x)
        here, there = (problem.mean_rates(*at, params, self.smooth) for at in ((t, x), (t + h, y)))
        for i, p, q in zip(self.smooth, here, there, strict=True):
            cubic = crossing.cubic_at(share, (x[i], y[i]), (h * p, h * q))
            broken = problem.is_broken(x, y)
            chord = chord.at[i].set(cubic if broken is None else jnp.where(broken, chord[i], cubic))
        if len(normals):
            push = jnp.sqrt(h * share * (1.0 - share)) * problem.noise_push(t, x, params, normals)
            chord = chord + push - self.gauge.toward(t, chord, params) * (self.gauge.gradient(t, chord, params) @ push)
        for _ in range(ONTO if self.kind == BRIDGE else 0):
            chord = self._onto(chord, t + share * h, side)
        return chord

    def _onto(self, place: Array, when: Array, side: Array) -> Array:
        """The place moved to the level, in the direction in which noise moves the function."""
        off = (self.gauge.signs(place) * self.gauge.distances(when, place, self.params))[side]
        return place + off * self.gauge.toward(when, place, self.params)

    def before_others(self, place: Array, share: Array, side: Array, others: list, normals: Array) -> Array:
        """The place, moved along this level so that no other one was reached before; others are tests with their
        crossings, and there are two normals for each."""
        when = self.t + share * self.h
        pairs = normals.reshape(-1, 2)[: len(others)]
        aims = [other.distance_before(place, share, its_crossing, pair)
                for (other, *its_crossing), pair in zip(others, pairs, strict=True)]  # fmt: skip
        for _ in range(ONTO if others else 0):
            for (other, *_crossing), (aim, near) in zip(others, aims, strict=True):
                place = place + self._along(other.gauge, place, when, aim, near)
            place = self._onto(place, when, side)
        return place

    @property
    def rounding(self) -> Array:
        """How far from its level a place may be that is on it: a rounding of the distances at the ends of the step."""
        first, last = self.ends
        return jnp.sqrt(jnp.finfo(self.x.dtype).eps) * jnp.max(jnp.abs(first) + jnp.abs(last))

    def distances_on_the_way(self, place: Array, u: Array, share: Array) -> Array:
        """The distances after a part u of the line from the beginning of the step to a place."""
        return self.gauge.distances(self.t + u * share * self.h, self.x + u * (place - self.x), self.params)

    def at_or_beyond(self, place: Array, share: Array, side: Array) -> Array:
        """The place, or one beyond the level if it lies before it."""
        when = self.t + share * self.h
        off = self.gauge.distances(when, place, self.params)[side]
        direction = self.gauge.toward(when, place, self.params)
        if self.kind == CUBIC:
            slope = self.gauge.gradient(when, place, self.params)
            direction = slope / jnp.maximum(slope @ slope, jnp.finfo(slope.dtype).tiny)
        move, moved = (self.gauge.signs(place)[side] * off) * direction, place
        for k in range(FURTHER):
            is_before = self.gauge.distances(when, moved, self.params)[side] > self.rounding
            moved = jnp.where(is_before, place + 2.0**k * move, moved)
        return moved

    def _along(self, other: Gauge, place: Array, when: Array, aim: Array, near: Array) -> Array:
        """The move along this level to the distance `aim` from a side of another; none where noise has no such way."""
        here = when, place, self.params
        toward = other.toward(*here)
        direction = toward - self.gauge.toward(*here) * (self.gauge.gradient(*here) @ toward)
        slope = other.gradient(*here) @ direction
        off = (other.signs(place) * (other.distances(*here) - aim))[near]
        return jnp.where(slope > LEAST_SLOPE, off / jnp.maximum(slope, LEAST_SLOPE), 0.0) * direction

    def distance_before(self, place: Array, share: Array, its_crossing: list, normals: Array) -> tuple[Array, Array]:
        """Return how far from this level, and from which side of it, a path is that is stopped by another level at a
        place drawn without regard to this one."""
        crosses, crossed_at, side = its_crossing
        a, b = (jnp.maximum(x, 0.0) for x in self.units)
        near = jnp.where(crosses, side, jnp.argmin(a * b))
        scale = self._deviation(share, near)
        free = self.gauge.distances(self.t + share * self.h, place, self.params)
        first, last = (x[near] for x in self.units)
        off = free[near] / scale - (first + share * (last - first))
        uniform = -jnp.expm1(-self.energy) / jnp.maximum(1.0 - self._chance(a, b), jnp.finfo(place.dtype).tiny)
        until = jnp.where(crosses, crossed_at, 1.0)
        distance = crossing.distance_before((a[near], b[near]), share, until, crosses, off, uniform, normals) * scale
        if len(a) == 2:
            width = jnp.sum(free)
            distance = width - jnp.abs(width - jnp.mod(distance, 2.0 * width))
        is_far = ~crosses & (jnp.min(a * b) > FAR)
        return jnp.where(is_far, free[near], distance).astype(place.dtype), near

    def _deviation(self, share: Array, side: Array) -> Array:
        """The standard deviation of the step, between those at its ends."""
        first, _, *both = self.gauge.ends_and_deviations(self.t, self.h, self.x, self.y, self.params, self.frozen)
        one, other = (jnp.broadcast_to(deviation, first.shape)[side] for deviation in both)
        return one + share * (other - one)

    @staticmethod
    def _chance(a: Array, b: Array) -> Array:
        """The probability that the level, or one of the two, was reached."""
        if len(a) == 1:
            return crossing.bridge_chance(a[0], b[0])
        return crossing.bridge_chance_of_two((a[0], b[0]), (a[1], b[1]))
