"""A method for a plant in a loop: steps with the inputs held, and at every tick the sensors and parts that are due.

The state is that of the method and the registers of the loop. The number of a step follows from its time; between ticks
a step costs one comparison more, and what does not act at every tick is entered at its own alone. Where the lengths of
steps differ, all instants of the loop are ends of steps, and a tick is due at an end that lies nearer to it than half
the shortest step. The normals of a sensor are a function of (seed, path, sensor, sample), so that they are the same at
every dt and cost nothing between samples: every sensor has a generator, which samples advance. It makes pairs, and
where a sample leaves one of a pair, that is the first of the next sample.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array, lax

from stodyn.methods.contract import Method, Solver
from stodyn.methods.wrapping import WrappedSteps, in_types_of, innermost_method
from stodyn.noise import counter, generators
from stodyn.noise.distribution import Distribution
from stodyn.numerics.rarely import rarely
from stodyn.problems.looped import KEYS, SINCE, SLOPE, Arrived, Looped, Part
from stodyn.problems.sdae import SDAE
from stodyn.problems.sensor import Sensor

_pair = jax.jit(counter.pair)  # traced once, and not at every sensor of every run


def looping(method: Any, problem: Looped, t: float, h: float | np.ndarray) -> Method:
    """The method for a loop with steps from t on, of length h or of these lengths."""
    method = in_steps(method, problem, float(np.max(h)))
    kind: Any = type(method)
    return _Looping(method, Clock(problem, t, h), kind.start is not Method.start)


def in_steps(method: Any, problem: Looped, h: float) -> Method:
    """A method for the plant of a loop, which makes steps; refuses those that carry derivatives over a jump."""
    stepping = method if isinstance(method, Method) else _stepping(method, problem, h)
    _refuse_derivatives(stepping, problem.problem)
    return stepping


def is_taken(method: Any) -> bool:
    """Whether a loop takes a method that its plant takes: one that makes steps and goes on after a jump of an input."""
    if isinstance(method, Method):
        return not method.starting_steps and not keeps_more(method)
    return type(method).as_steps is not Solver.as_steps if isinstance(method, Solver) else False


def _refuse_derivatives(method: Method, plant: Any) -> None:
    if method.starting_steps:
        fitting = "Trapezoidal or RK1W2" if isinstance(plant, SDAE) else "RK4 or Heun"
        raise ValueError(
            f"method: {method.name} keeps derivatives from before a jump of an input; take a method of one step such "
            f"as {fitting}"
        )
    if keeps_more(method):
        raise ValueError(
            f"method: {method.name} keeps more than the state from step to step and does not say how it goes on after "
            "a jump of an input; take a method of one step such as RK4, Trapezoidal or Newmark"
        )


def keeps_more(method: Method) -> bool:
    """Whether a method keeps more than the state, and does not say how it goes on after a jump."""
    kind: Any = type(innermost_method(method, WrappedSteps))
    return kind.start is not Method.start and kind.after_jump is Method.after_jump


def _stepping(method: Any, problem: Looped, h: float) -> Method:
    stepping = method.as_steps(problem.problem, h, tuple(problem.layout.inputs))
    if stepping is None:
        raise ValueError(f"method: {method.name} makes whole paths at once, but a loop acts between steps; take RK4")
    return stepping


class Registers(NamedTuple):
    """What the loop remembers: inputs as held, readings as seen, outputs of parts that write none, own states of parts,
    values on their way and, of jittered things, the ticks at which they arrive, states of noises, generators of normals
    and the one of a pair that is left, averages, and when jittered things act next: the tick and the number of the
    sample, and the tick of the one before."""

    held: dict[str, Array]
    readings: dict[str, Array]
    outputs: dict[str, Array]
    own: dict[str, Any]
    queues: dict[str, Array]
    arrivals: dict[str, Array]
    noises: dict[str, Array]
    generators: dict[str, Array]
    spares: dict[str, Array]
    sums: dict[str, Array]
    upcoming: dict[str, Array]
    key: Any  # of the random numbers of sensors: 64 bits, None where nothing is random


class Clock:
    """The ticks of a loop in steps of a run, and the periods, phases and delays of everything in ticks."""

    def __init__(self, problem: Looped, t: float, h: float | np.ndarray):
        things = problem.things
        self.begin, self.h, self.takes_equal_steps = t, float(np.min(h)), not np.ndim(h)
        problem.expect_steps(t, h)
        steps = problem.steps_per_tick(self.h) if self.takes_equal_steps else 1
        is_fine = any(thing.jitter is not None for thing in things)
        self.problem = problem
        self.steps = 1 if is_fine else steps  # to a tick; jitter is counted in single steps
        self.whole = np.int32 if self.takes_equal_steps else np.int64  # ticks may be far more than steps that differ
        factor = steps if is_fine else 1
        self.times = {thing.name: [int(time / problem.tick) * factor for time in thing.times] for thing in things}
        jitters = {id(thing.jitter): thing.jitter for thing in things if thing.jitter is not None}
        self.jitters = {
            thing.name: list(jitters).index(id(thing.jitter)) for thing in things if thing.jitter is not None
        }
        self.streams = {sensor.name: 2 * k for k, sensor in enumerate(problem.sensors)}
        self.recursions = {
            sensor.name: sensor.recursion(problem.layout.readings[sensor.name])
            for sensor in problem.sensors
            if sensor.recursive
        }

    def ticks(self, t: Any, h: Any) -> tuple[Array, Array]:
        """Whether a tick falls on the end of the step of length h that begins at t, and the number of that step,
        counted from 1; times of steps are whole multiples of h. Whole numbers cost the reals of the step no time.

        Where steps differ: whether an instant falls on the end, and the number of the nearest tick.
        """
        if not self.takes_equal_steps:
            since, length = (t - self.begin) + h, float(self.problem.tick)
            nearest = jnp.round(since / length)
            tick = nearest.astype(np.int64)
            return (jnp.abs(since - nearest * length) < 0.5 * self.h) & self._is_instant(tick), tick
        number = 1 + jnp.round((t - self.begin) * (1.0 / self.h)).astype(np.int64)
        return lax.rem(number, np.int64(self.steps)) == 0, number

    def _is_instant(self, tick: Array) -> Any:
        """Whether something acts or arrives at a tick; without jitter."""
        due = [_is_multiple(tick, first, every) for every, phase, delay in self.times.values()
               for first in {phase, phase + delay}]  # fmt: skip
        return functools.reduce(operator.or_, due)

    def moves(self, tick: Any) -> Any:
        """Whether an input may change at a tick: where what a part writes arrives; with jitter at every one."""
        if self.jitters:
            return True
        writing = (self.times[part.name] for part in self.problem.parts if part.writes)
        due = (every == 1 or (tick - (phase + delay)) % every == 0 for every, phase, delay in writing)
        return functools.reduce(operator.or_, due, False)

    @property
    def is_rare(self) -> bool:
        """Whether steps may end between ticks."""
        return self.steps > 1 or not self.takes_equal_steps

    def depth(self, name: str) -> int:
        """How many values of a thing may be on their way."""
        every, _, delay = self.times[name]
        jitter = next(thing.jitter for thing in self.problem.things if thing.name == name)
        if jitter is None or not delay:
            return -(-delay // every)
        if jitter.drifting:
            return -(-delay // (every - jitter.steps))
        return -(-(delay + 2 * jitter.steps) // every)


@dataclasses.dataclass(frozen=True)
class _Looping(WrappedSteps):
    """A step of the method with the inputs held, then whatever is due."""

    clock: Any
    begins_anew: bool
    accepts = Looped

    def start(self, problem, t, x, params):
        loop = Loop(problem, self.clock, params)
        plant = x[: problem.problem.n]
        registers = loop.begun(t, plant, _key(params[KEYS]) if problem.draws else None)
        inner = self.method.start(problem.problem, t, plant, loop.inputs(registers))
        registers = loop.acted(t, jnp.zeros((), self.clock.whole), self.method.read(inner), registers)
        if self.begins_anew:
            inner = self.method.start(problem.problem, t, plant, loop.inputs(registers))
        return inner, registers

    def step(self, problem, t, state, noise, params):
        inner, registers = state
        loop = Loop(problem, self.clock, params)
        held = loop.inputs(registers)
        before = self.method.read(inner)
        stepped, report = self.method.step(problem.problem, t, inner, noise, held)
        inner = in_types_of(inner, stepped)
        end = t + noise.h
        registers = loop.summed(end, noise.h, before, self.method.read(inner), registers)
        is_due, number = self.clock.ticks(t, noise.h)

        def act(now):
            inner, registers, end, number = now  # what a turn is handed is computed in the turn, and nowhere else
            tick = lax.div(number, np.int64(self.clock.steps)).astype(self.clock.whole)
            registers = loop.acted(end, tick, self.method.read(inner), registers)

            def begun_anew(inner):
                return in_types_of(inner, self.method.after_jump(problem.problem, end, inner, loop.inputs(registers)))

            if self.begins_anew:
                moves = self.clock.moves(tick)
                inner = begun_anew(inner) if moves is True else rarely(moves, begun_anew, inner, loops=loop.loops)
            return inner, registers, end, number

        now = inner, registers, jnp.asarray(end), number
        return rarely(is_due, act, now, loops=self.clock.is_rare)[:2], report

    def after_jump(self, problem, t, state, params):
        inner, registers = state
        held = Loop(problem, self.clock, params).inputs(registers)
        return self.method.after_jump(problem.problem, t, inner, held), registers

    def read(self, state):
        inner, registers = state
        x = self.method.read(inner)
        shown = Loop.shown(self.clock.problem, registers)
        return jnp.concatenate([x, *(jnp.ravel(value).astype(x.dtype) for value in shown)])


class Loop:
    """The sensors and parts of one path."""

    loops = True  # what is not due is not computed

    def __init__(self, problem: Looped, clock: Clock, params: Any):
        self.problem, self.clock, self.layout = problem, clock, problem.layout
        self.params = {name: value for name, value in params.items() if name != KEYS}
        self.key: Any = None

    @staticmethod
    def shown(problem: Looped, registers: Registers) -> list[Array]:
        """What a run shows besides the plant: readings, outputs, own states, in the order of the components."""
        values = [registers.readings[sensor.name] for sensor in problem.sensors]
        for part in problem.parts:
            values += [registers.held[name] for name in part.writes] or [registers.outputs[part.name]]
        return [*values, *(leaf for part in problem.parts for leaf in jax.tree.leaves(registers.own[part.name]))]

    def inputs(self, registers: Registers) -> dict[str, Any]:
        """The params of the plant, with the inputs as they are held."""
        return {**self.params, **registers.held}

    def felt(self, t: Any, registers: Registers) -> dict[str, Any]:
        """The params of the plant at a time, with the inputs as they act on it."""
        params = self.inputs(registers)
        for name in [name for part in self.problem.parts if part.hold == "first" for name in part.writes]:
            params[name] = params[name] + params[SLOPE.format(name)] * (t - params[SINCE.format(name)])
        return params

    def normals(self, stream: int, sample: Array, count: int, dtype: Any) -> Array:
        """The normals of a sample."""
        pairs = (count + 1) // 2
        numbers = sample.astype(np.uint64) * np.uint64(pairs) + jnp.arange(pairs, dtype=np.uint64)
        words = (self.key & np.uint64(0xFFFFFFFF)).astype(np.uint32), (self.key >> np.uint64(32)).astype(np.uint32)
        both = _pair(words, np.uint32(stream), jnp.zeros_like(numbers), numbers)
        return jnp.stack(both, axis=-1).reshape(-1)[:count].astype(dtype)

    def generator(self, name: str) -> Array:
        """The generator of a sensor's normals before its first sample."""
        return generators.seeded(self.key, self.clock.streams[name])

    def noise(self, name: str, sample: Array, count: int, registers: Registers) -> tuple[Array, Registers]:
        """The next normals of a sensor's generator; of an odd number, those of two samples are drawn at once."""
        generator, spare = registers.generators[name], registers.spares.get(name)
        if spare is None:
            z, generator = generators.normals(generator, count)
        else:
            dtype = spare.dtype

            def both(old: Any) -> Any:
                z, generator = generators.normals(old[2], 2 * count)
                return z[:count].astype(dtype), z[count:].astype(dtype), generator

            z, spare, generator = rarely(sample % 2 == 0, both, (spare, spare, generator), loops=self.loops)
            registers = registers._replace(spares={**registers.spares, name: spare})
        registers = registers._replace(generators={**registers.generators, name: generator})
        return z.astype(registers.readings[name].dtype), registers

    def when(self, is_due: Any, act: Any, registers: Registers) -> Registers:
        """The registers after something that acts where it is due."""
        return act(registers) if is_due is True else rarely(is_due, act, registers, loops=self.loops)

    # --- the start ----------------------------------------------------------------------------------------------------

    def begun(self, t: Any, x: Array, key: Any) -> Registers:
        """The registers before the first instant: inputs as in params, readings without noise."""
        self.key = key
        layout, like = self.layout, x.dtype
        ideal = {s.name: s.value(self.problem.problem, t, x, self.params) for s in self.problem.sensors}
        held = {name: jnp.asarray(self.params[name], like) for name in layout.inputs}
        parts = self.problem.parts
        for name in [name for part in parts if part.hold == "first" for name in part.writes]:
            for word in (SLOPE.format(name), SINCE.format(name)):
                held[word] = jnp.asarray(self.params[word], like)
        outputs = {part.name: jnp.zeros(layout.outputs[part.name], like) for part in parts if not part.writes}
        values = {**ideal, **{p.name: _output(p, held, outputs, layout.outputs[p.name]) for p in parts}}
        depths = {name: self.clock.depth(name) for name in values}
        queues = {name: jnp.repeat(values[name][None], depth, axis=0) for name, depth in depths.items() if depth}
        arrivals = {name: jnp.full(depths[name], -1, np.int32) for name in queues if name in self.clock.jitters}
        noises: dict[str, Any] = {}
        sources: dict[str, Any] = {}
        spares: dict[str, Any] = {}
        for name, recursion in self.clock.recursions.items():
            sources[name] = self.generator(name)
            count = layout.readings[name] + recursion.drive.shape[1]
            if count % 2:
                spares[name] = jnp.zeros(count, like)
            if recursion.states:
                z = self.normals(self.clock.streams[name] + 1, jnp.zeros((), np.int32), recursion.start.shape[1], like)
                noises[name] = (recursion.start @ z).astype(like)
        sums = {s.name: jnp.zeros_like(ideal[s.name]) for s in self.problem.sensors if s.average}
        own = {
            part.name: jax.tree.map(lambda v: jnp.asarray(v, like), layout.own[part.name])
            for part in self.problem.parts
        }
        upcoming = {name: self.next_time(name, jnp.zeros((), np.int32), None) for name in self.clock.jitters}
        return Registers(held, ideal, outputs, own, queues, arrivals, noises, sources, spares, sums, upcoming, key)

    # --- between instants ---------------------------------------------------------------------------------------------

    def summed(self, t: Any, h: Any, before: Array, after: Array, registers: Registers) -> Registers:
        """The integrals of what sensors average, one step further by the trapezoidal rule."""
        sums = dict(registers.sums)
        for sensor in self.problem.sensors:
            if sensor.average:
                values = [
                    sensor.value(self.problem.problem, at, x, self.felt(at, registers))
                    for at, x in ((t - h, before), (t, after))
                ]
                sums[sensor.name] = sums[sensor.name] + 0.5 * h * (values[0] + values[1])
        return registers._replace(sums=sums)

    # --- an instant ---------------------------------------------------------------------------------------------------

    def acted(self, t: Any, tick: Array, x: Array, registers: Registers) -> Registers:
        """The registers after everything that is due at this tick."""
        self.t, self.tick, self.key = t, tick, registers.key
        for thing in self.problem.things:
            registers = self._arrived(thing, registers)
        for thing in self.problem.things:
            is_due, sample = self._due(thing.name, registers)
            act = self._sensed if isinstance(thing, Sensor) else self._updated
            registers = self.when(is_due, functools.partial(self._acted, act, thing, x, sample), registers)
        return registers

    def _acted(self, act: Any, thing: Sensor | Part, x: Array, sample: Array, registers: Registers) -> Registers:
        """The registers after something has acted, and its next time, where that is random, has been drawn."""
        registers = act(thing, self.t, x, sample, registers)
        if thing.name not in self.clock.jitters:
            return registers
        following = self.next_time(thing.name, sample + np.int32(1), registers.upcoming[thing.name][0])
        return registers._replace(upcoming={**registers.upcoming, thing.name: following})

    def _arrived(self, thing: Sensor | Part, registers: Registers) -> Registers:
        """A value that was on its way, where it is due."""
        every, phase, delay = self.clock.times[thing.name]
        if not delay:
            return registers
        if thing.name in self.clock.jitters:
            is_now = registers.arrivals[thing.name] == self.tick
            return self.when(
                jnp.any(is_now), lambda now: self._delivered(thing, self._arriving(thing, now), now), registers
            )
        is_due = _is_multiple(self.tick, phase + delay, every)
        return self.when(is_due, lambda now: self._delivered(thing, now.queues[thing.name][0], now), registers)

    def _arriving(self, thing: Sensor | Part, registers: Registers) -> Array:
        """The value of a jittered thing that arrives at this tick."""
        queue, arrivals = registers.queues[thing.name], registers.arrivals[thing.name]
        value = queue[0]
        for place in range(1, len(queue)):
            value = jnp.where(arrivals[place] == self.tick, queue[place], value)
        return value

    def _delivered(self, thing: Sensor | Part, value: Array, registers: Registers) -> Registers:
        if isinstance(thing, Sensor):
            return registers._replace(readings={**registers.readings, thing.name: value})
        held, flat, first = dict(registers.held), jnp.ravel(value), 0
        for name in thing.writes:
            shape = self.layout.inputs[name]
            piece = flat[first : first + math.prod(shape)].reshape(shape)
            first += math.prod(shape)
            if thing.hold == "first":
                slope, since = SLOPE.format(name), SINCE.format(name)
                held[slope] = (piece - held[name]) / float(thing.times.every)
                held[since] = jnp.asarray(self.t, held[since].dtype)
            held[name] = piece
        outputs = registers.outputs if thing.writes else {**registers.outputs, thing.name: value}
        return registers._replace(held=held, outputs=outputs)

    def _released(self, thing: Sensor | Part, value: Array, registers: Registers) -> Registers:
        """A new value, delivered at once or sent on its way."""
        name, delay = thing.name, self.clock.times[thing.name][2]
        if not delay:
            return self._delivered(thing, value, registers)
        queues = {**registers.queues, name: jnp.concatenate([registers.queues[name][1:], value[None]])}
        if name not in self.clock.jitters:
            return registers._replace(queues=queues)
        arrival = jnp.asarray(self.tick + np.int32(delay), np.int32)[None]
        arrivals = {**registers.arrivals, name: jnp.concatenate([registers.arrivals[name][1:], arrival])}
        return registers._replace(queues=queues, arrivals=arrivals)

    def _due(self, name: str, registers: Registers) -> tuple[Any, Array]:
        """Whether a thing acts at this tick, and the number of its sample."""
        every, phase, _ = self.clock.times[name]
        if name in self.clock.jitters:
            upcoming = registers.upcoming[name]
            return self.tick == upcoming[0], upcoming[1]
        return _is_multiple(self.tick, phase, every), (self.tick - phase) // every

    def next_time(self, name: str, sample: Array, before: Array | None) -> Array:
        """The tick of a jittered sample, its number, and the tick of the sample before it."""
        every, phase, _ = self.clock.times[name]
        thing = next(thing for thing in self.problem.things if thing.name == name)
        assert thing.jitter is not None
        steps, number = thing.jitter.steps, self.clock.jitters[name]
        z = self.normals(2**14 + number, sample, 1, np.float64)[0]
        late = jnp.floor(jax.scipy.special.ndtr(z) * (2 * steps + 1)).astype(np.int32) - np.int32(steps)
        regular = sample * np.int32(every) + np.int32(phase)
        if thing.jitter.drifting and before is not None:
            regular = before + np.int32(every)
        return jnp.stack([jnp.maximum(regular + late, 0), sample, jnp.zeros_like(sample) if before is None else before])

    def _sensed(self, sensor: Sensor, t: Any, x: Array, sample: Array, registers: Registers) -> Registers:
        name = sensor.name
        value = sensor.value(self.problem.problem, t, x, self.felt(t, registers))
        if sensor.average:
            value = jnp.where(sample == 0, value, registers.sums[name] / self._averaged_over(sensor, registers))
            registers = registers._replace(sums={**registers.sums, name: jnp.zeros_like(registers.sums[name])})
        value, registers = self._with_noise(sensor, value, sample, registers)
        value = self.rounded(sensor, value)
        if sensor.loss:
            sent = registers.queues[name][-1] if name in registers.queues else registers.readings[name]
            instead = sent if sensor.keep == "last" else jnp.zeros_like(value)
            value = jnp.where(self.is_lost(sensor, sample, x.dtype), instead, value)
        return self._released(sensor, value, registers)

    def _averaged_over(self, sensor: Sensor, registers: Registers) -> Any:
        """The time since the sample before."""
        if sensor.name not in self.clock.jitters:
            return float(sensor.times.every)
        tick, _, before = registers.upcoming[sensor.name]
        steps = jnp.maximum(tick - before, 1)  # the first has none before it, and is not averaged
        return jnp.asarray(self.clock.h * steps, registers.sums[sensor.name].dtype)

    def rounded(self, sensor: Sensor, value: Array) -> Array:
        """A reading as the sensor shows it."""
        return sensor.shown(value)

    def _arrives(self, name: str, dtype: Any) -> Array:
        """1 where a reading arrives at this tick, else 0."""
        sensor = next(sensor for sensor in self.problem.sensors if sensor.name == name)
        every, phase, delay = self.clock.times[name]
        arrives = jnp.asarray(_is_multiple(self.tick, phase + delay, every))
        if sensor.loss:
            sample = jnp.maximum(self.tick - (phase + delay), 0) // every
            arrives = arrives & ~self.is_lost(sensor, sample, dtype)
        return arrives.astype(dtype)

    def quantiles(self, law: Distribution, z: Array) -> Array:
        """Draws of a distribution from normals."""
        return _quantiles(law, z)

    def is_lost(self, sensor: Sensor, sample: Array, dtype: Any) -> Array:
        """Whether a reading does not arrive."""
        z = self.normals(2**15 + self.clock.streams[sensor.name], sample, 1, dtype)[0]
        return z < scipy.special.ndtri(sensor.loss)

    def _with_noise(self, sensor: Sensor, value: Array, sample: Array, registers: Registers) -> Any:
        name = sensor.name
        if isinstance(sensor.noise, Distribution):
            z = self.normals(2**13 + self.clock.streams[name], sample, len(value), value.dtype)
            value = (value + self.quantiles(sensor.noise, z)).astype(value.dtype)
        if name not in self.clock.recursions:
            return value, registers
        recursion = self.clock.recursions[name]
        count = len(value)
        z, registers = self.noise(name, sample, count + recursion.drive.shape[1], registers)
        white = jnp.asarray(recursion.white(self.params), value.dtype)
        noisy = value + white * z[:count]
        if not recursion.states:
            return noisy, registers
        s = registers.noises[name]
        after = (recursion.Phi @ s + recursion.drive @ z[count:]).astype(s.dtype)
        noisy = (noisy + recursion.C @ s).astype(value.dtype)
        return noisy, registers._replace(noises={**registers.noises, name: after})

    def _updated(self, part: Part, t: Any, x: Array, sample: Array, registers: Registers) -> Registers:
        values = {}
        for name, word in self.layout.reads(part):
            if word == "true":
                values[name] = x[self.problem.problem.components.index(name)]
            elif word == "arrived":
                values[Arrived(name).key] = self._arrives(name, x.dtype)
            elif word == "reading":
                values[name] = (
                    registers.readings[name][0] if self.layout.readings[name] == 1 else registers.readings[name]
                )
            else:
                other = next(other for other in self.problem.parts if other.name == name)
                values[name] = _output(other, registers.held, registers.outputs, self.layout.outputs[name])
        for word in part.reads:  # an input is read by its name, as it is held
            if isinstance(word, str) and word not in values:
                values[word] = registers.held[word]
        own, out = part.update(t, registers.own[part.name], values, self.inputs(registers))
        own = in_types_of(registers.own[part.name], own)
        registers = registers._replace(own={**registers.own, part.name: own})
        pieces = [out[name] for name in part.writes] if isinstance(out, Mapping) else out
        pieces = pieces if isinstance(pieces, tuple | list) else (pieces,)
        flat = jnp.concatenate([jnp.ravel(jnp.asarray(piece, x.dtype)) for piece in pieces])
        return self._released(part, flat.reshape(self.layout.outputs[part.name]), registers)


def _output(part: Part, held: dict[str, Array], outputs: dict[str, Array], shape: tuple[int, ...]) -> Array:
    """The last output of a part: what it has written, or its own register."""
    if not part.writes:
        return outputs[part.name]
    return jnp.concatenate([jnp.ravel(held[name]) for name in part.writes]).reshape(shape)


def _is_multiple(tick: Array, first: int, every: int) -> Any:
    """Whether a tick is the first of something or a multiple of its period later; True where all are."""
    since = tick - first
    if every == 1:
        return True if first == 0 else since >= 0
    is_whole = since % np.asarray(every, since.dtype) == 0
    return is_whole if first == 0 else (since >= 0) & is_whole


def _quantiles(law: Distribution, z: Array) -> Array:
    """Draws of a distribution from normals, by a table of its quantiles."""
    grid = np.linspace(-8.0, 8.0, 2049)
    return jnp.interp(z, grid, np.asarray(law.ppf(scipy.special.ndtr(grid)), float))


def _key(numbers: Array) -> Array:
    """64 bits from four numbers of 16."""
    words = numbers.astype(np.uint64)
    return words[0] | (words[1] << np.uint64(16)) | (words[2] << np.uint64(32)) | (words[3] << np.uint64(48))
