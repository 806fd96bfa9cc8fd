"""What sensors would read of the first paths: a record such as the one that a fit takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.hints import Count, check_seed, is_whole
from stodyn.noise import readings
from stodyn.problems.sensor import Sensor
from stodyn.problems.sensor_noise import independent, is_drawn_alone, root, window
from stodyn.statistics.contract import Labelled, Statistic, Variable

SAME = 1e-9  # of the run: times this close are one


class Plan(NamedTuple):
    """When a sensor reads, as places among the times at which the statistic looks, where its windows begin, and how
    many outputs it has."""

    ends: np.ndarray
    begins: np.ndarray | None
    gaps: np.ndarray
    outputs: int


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Sensed(Statistic):
    """What sensors read of the first paths, with their noise, windows and rounding: records for sd.Record and sd.fit.

    Parameters
    ----------
    sensors : Sensor or sequence of Sensor
        What reads. A sensor with `every` reads at its own times, phase + k every; a time at which it does not read is
        NaN.
    count : int
        How many paths: numbers 0 to count - 1.
    seed : int
        Of the sensors' noise, which is that of path number k whatever else is run; that of the paths is the run's.
    every, at : int, sequence of numbers, optional
        When all sensors read, in place of their own times: after every `every` steps, or `at` these times.

    Notes
    -----
    Variables: one for each sensor, by its name, (number, time[, NAME_output]). Averages and increments are integrals by
    the trapezoidal rule over the steps; a reading whose window begins before the run is left out. Readings have the
    time at which they are taken, whatever the sensor's `delay`; with the chance `loss` they are NaN. Where readings are
    not equally far apart, coloured noise has its exact law all the same.

    Examples
    --------
    >>> import stodyn as sd
    >>> from stodyn import statistics as st
    >>> position = sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.2))
    >>> record = st.Sensed(position, seed=3)
    """

    own_times = 1000

    sensors: Any = dataclasses.field(kw_only=False)
    count: Count = 1
    seed: int = 0
    problem: Any = dataclasses.field(default=None, init=False, repr=False)
    plans: Any = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self):
        super().__post_init__()
        several = isinstance(self.sensors, Sequence) and not isinstance(self.sensors, str)
        sensors = tuple(self.sensors) if several else (self.sensors,)
        if not sensors or not all(isinstance(sensor, Sensor) for sensor in sensors):
            raise TypeError(f"Sensed: expected sd.Sensor(...), or several, got {self.sensors!r}")
        if not is_whole(self.count):
            raise ValueError(f"Sensed: count must be a whole number >= 1, got {self.count!r}")
        check_seed(self.seed)
        object.__setattr__(self, "sensors", sensors)
        object.__setattr__(self, "count", int(self.count))
        for sensor in sensors:
            self._refuse(sensor)

    def _refuse(self, sensor: Sensor) -> None:
        """Refuse what cannot be drawn, and a sensor without times."""
        if sensor.log_density is not None:
            raise ValueError(f"Sensed ({sensor.name}): a log_density cannot be drawn from; give noise=")
        if sensor.jitter is not None:
            raise ValueError(f"Sensed ({sensor.name}): times that jitter are those of a loop; give the times by at=")
        if self.at is None and self.every is None and sensor.every is None:
            raise ValueError(
                f"Sensed: {sensor.name!r} has no times: give the sensor every=, or Sensed at= (times) or every= (steps)"
            )

    # --- times --------------------------------------------------------------------------------------------------------

    def wanted_times(self, times: np.ndarray) -> np.ndarray:
        """The times of the readings, and those at which their windows begin."""
        each = [self._reads_at(sensor, times) for sensor in self.sensors]
        begins = [_begins(sensor, own, times) for sensor, own in zip(self.sensors, each, strict=True)]
        wanted = np.sort(np.concatenate([*each, *(own for own in begins if own is not None)]))
        return wanted[np.concatenate([[True], np.diff(wanted) > SAME * (times[-1] - times[0])])]

    def _reads_at(self, sensor: Sensor, times: np.ndarray) -> np.ndarray:
        if self.at is not None:
            own = np.asarray(self.at)
        elif self.every is not None:
            own = times[:: self.every]
        else:
            period, first = float(sensor.every), times[0] + float(sensor.phase)
            own = first + period * np.arange(int((times[-1] - first) / period + SAME) + 1)
        length = window(sensor)
        before = times[0] + (length or 0.0) - SAME * (times[-1] - times[0])
        own = own[own > times[0]] if sensor.increment else own[own >= before]
        if not len(own):
            raise ValueError(f"Sensed: {sensor.name!r} reads nothing in this run, from {times[0]:g} to {times[-1]:g}")
        return own

    def prepared(self, problem, times):
        plans, params = [], problem.example_params()
        for sensor in self.sensors:
            for part in sensor.parts:
                sensor.unit_of(part, problem)
            own = self._reads_at(sensor, times)
            begins = _begins(sensor, own, times)
            exact = np.diff(own, prepend=times[0] if sensor.increment else own[0])
            gaps = np.array([float(f"{gap:.9g}") for gap in exact])  # equal ones share their law
            outputs = sensor.width(problem, params)
            ends, begun = _nearest(times, own), None if begins is None else _nearest(times, begins)
            plans.append(Plan(ends, begun, gaps, outputs))
        ready = dataclasses.replace(self)
        object.__setattr__(ready, "problem", problem)
        object.__setattr__(ready, "plans", tuple(plans))
        return ready

    # --- along a path -------------------------------------------------------------------------------------------------

    def _windowed(self, t: Any, x: Any, params: Any) -> Any:
        """What sensors with windows read of one state."""
        parts = [sensor.value(self.problem, t, x, params)
                 for sensor, plan in zip(self.sensors, self.plans, strict=True) if plan.begins is not None]  # fmt: skip
        return jnp.concatenate(parts) if parts else jnp.zeros(0)

    def track_start(self, t, x, params):
        if all(plan.begins is None for plan in self.plans):
            return None
        size = jax.eval_shape(lambda x: self._windowed(t, x, self.problem.example_params()), x[:, 0]).shape[0]
        return jnp.zeros((size, x.shape[-1]), x.dtype)

    def track(self, gathered, move):
        if gathered is None:
            return None

        def further(gathered, h, before, after, params):
            both = self._windowed(move.t, before, params) + self._windowed(move.t + h, after, params)
            return gathered + 0.5 * h * both

        of_h = -1 if jnp.ndim(move.h) else None
        over = jax.vmap(further, in_axes=(-1, of_h, -1, -1, move.axes), out_axes=-1)
        return over(gathered, move.h, move.before, move.after, move.params)

    def observe(self, snapshot):
        def reads(t, x, params):
            return jnp.concatenate([sensor.value(self.problem, t, x, params) for sensor in self.sensors])

        def variances(t, x, params):
            """The variances of the noise of each output: constant, and by the time of an increment."""
            widths = [len(sensor.value(self.problem, t, x, params)) for sensor in self.sensors]
            parts = [[independent(sensor, params), root(sensor, params) ** 2 * float(sensor.increment)]
                     for sensor in self.sensors]  # fmt: skip
            rows = [[jnp.broadcast_to(jnp.asarray(own, x.dtype), (width,)) for own in both]
                    for both, width in zip(parts, widths, strict=True)]  # fmt: skip
            return jnp.concatenate([part for both in zip(*rows, strict=True) for part in both])

        gathered = snapshot.track
        values = [snapshot.map(reads, "Sensed"), snapshot.map(variances, "Sensed")]
        if gathered is not None:
            values.append(gathered)
        return jnp.concatenate([jnp.atleast_2d(value) for value in values])[:, : self.count]

    # --- readings -----------------------------------------------------------------------------------------------------

    def fold(self, observed, block):
        wanted = int(np.clip(self.count - block.first, 0, block.paths))
        table = np.moveaxis(np.asarray(observed, float)[:, :, :wanted], 2, 0)  # (paths, times, numbers)
        return [np.stack([self._record(own, block.first + k) for k, own in enumerate(table)])] if wanted else []

    def _record(self, numbers: np.ndarray, path: int) -> np.ndarray:
        """The readings of one path, (times, outputs), NaN where a sensor does not read."""
        rng = np.random.default_rng([self.seed, path])
        width = sum(plan.outputs for plan in self.plans)
        columns, first, integral = np.full((len(numbers), width), np.nan), 0, 3 * width
        for sensor, plan in zip(self.sensors, self.plans, strict=True):
            outputs = plan.outputs
            here = slice(first, first + outputs)
            exact = numbers[plan.ends, here]
            if plan.begins is not None:
                integrals = numbers[:, integral : integral + outputs]
                exact, integral = integrals[plan.ends] - integrals[plan.begins], integral + outputs
                exact = exact / (window(sensor) or 1.0)
            constant, growing = (numbers[plan.ends, here.start + k * width : here.stop + k * width] for k in (1, 2))
            deviation = np.sqrt(constant + growing * plan.gaps[:, None])
            own = exact + deviation * rng.standard_normal(exact.shape) + _coloured(sensor, plan.gaps, outputs, rng)
            if is_drawn_alone(sensor):
                own = own + sensor.noise.rvs(exact.shape, rng)
            own = sensor.shown(own)
            columns[plan.ends, here] = np.where(rng.random((len(own), 1)) < sensor.loss, np.nan, own)
            first += outputs
        return columns

    def merge(self, a, b):
        return a + b

    def label(self, result, labels):
        table, first, variables = np.concatenate(result), 0, {}
        for sensor, plan in zip(self.sensors, self.plans, strict=True):
            outputs = plan.outputs
            dims = ("number", "time") if outputs == 1 else ("number", "time", f"{sensor.name}_output")
            values = table[:, :, first] if outputs == 1 else table[:, :, first : first + outputs]
            variables[sensor.name] = Variable(dims, values, {"units": sensor.unit} if sensor.unit else {})
            first += outputs
        return Labelled(variables, {"number": Variable(("number",), np.arange(len(table)))})

    def memory(self, times, paths, n):
        return 8 * times * min(self.count, paths) * len(self.sensors)


def _begins(sensor: Sensor, ends: np.ndarray, times: np.ndarray) -> np.ndarray | None:
    """Where the windows of readings begin; None where points are read."""
    if sensor.increment:
        return np.concatenate([times[:1], ends[:-1]])
    length = window(sensor)
    return None if length is None else np.maximum(ends - length, times[0])


def _nearest(times: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The places of times that are among others."""
    after = np.searchsorted(times, wanted).clip(1, len(times) - 1) if len(times) > 1 else np.zeros(len(wanted), int)
    return np.where(np.abs(times[after - 1] - wanted) <= np.abs(times[after] - wanted), after - 1, after)


def _coloured(sensor: Sensor, gaps: np.ndarray, outputs: int, rng: np.random.Generator) -> np.ndarray:
    """Noise that remembers, at readings so far apart."""
    total = np.zeros((len(gaps), outputs))
    for part in (sensor.noise, sensor.bias):
        if part is None or (is_drawn_alone(sensor) and part is sensor.noise):
            continue
        steps = {gap: readings.recursion(part, gap, outputs) for gap in np.unique(gaps[1:])} if len(gaps) > 1 else {}
        first = next(iter(steps.values()), None) or readings.recursion(part, 1.0, outputs)
        if not first.states:
            continue
        s = first.start @ rng.standard_normal(first.start.shape[1])
        total[0] += first.C @ s
        for k, gap in enumerate(gaps[1:], 1):
            s = steps[gap].Phi @ s + steps[gap].drive @ rng.standard_normal(steps[gap].drive.shape[1])
            total[k] += first.C @ s
    return total
