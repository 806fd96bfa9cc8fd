"""The law that a method delivers: a linear problem as its steps take it from reading to reading.

s is the method's own state, with its history: s' = (1 + E) s + c + noise of covariance Q in one step, x = W s + w. The
steps of a gap are composed by doubling; the first ones of a multistep method have laws of their own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.analysis.step.linear import for_step, read_map
from stodyn.analysis.step.one_step import OneStep
from stodyn.inference.gaussian import Start
from stodyn.inference.kalman import Array
from stodyn.inference.laws import Parts, Plant, SensedPlant, View, expect_steps_of_all, white
from stodyn.inference.schedule import WHOLE, Schedule
from stodyn.methods.catalogue import stepping
from stodyn.numerics import linear_flow, lyapunov
from stodyn.numerics.linear_flow import Law
from stodyn.problems.sensor import Sensor


@dataclasses.dataclass(frozen=True, eq=False)
class SteppedModel(SensedPlant):
    """A plant whose law is that of steps dt of a method."""

    method: Any
    dt: float
    keys: tuple[tuple[int, int], ...]
    moved: ClassVar[str] = ""

    @property
    def is_timed(self) -> bool:
        """Whether what is read depends on time itself."""
        return any(self.timed)

    @functools.cached_property
    def steps(self) -> list[OneStep]:
        """The starting steps and then the step of the method."""
        count = self.method.starting_steps
        starting = [OneStep(self.plant.problem, self.method, starting=True) for _ in range(min(count, 1))]
        return [*starting * count, OneStep(self.plant.problem, self.method)]

    @property
    def name(self) -> str:
        """The law in words."""
        return f"{self.method.name}, dt={self.dt:g}"

    @property
    def states(self) -> int:
        """How many numbers the method carries."""
        return self.steps[-1].size

    def own(self, params: Any) -> Law:
        """Return the law of a step."""
        return self._law(len(self.steps) - 1, params)

    def widened(self, laws: Sequence[Law]) -> SteppedModel:
        """Return this, which answers for all parameters."""
        return self

    def refuse_unstable(self, law: Law) -> None:
        """Refuse steps without a stationary law, in words."""
        lyapunov.discrete(np.eye(self.states) + law.E[0], law.Q[0])

    def checked(self, params: Any) -> SteppedModel:
        """Return this after the proof that the step adds its noise to something affine."""
        for k, one in enumerate(self.steps):
            read_map(one, self.dt, 0.0, params, None, k)
        return self

    def _law(self, k: int, params: Any) -> Law:
        """The law of the starting step k, or of a step."""
        one, N = self.steps[k], self.states
        points = np.concatenate([np.zeros((1, N + one.normals)), np.eye(N + one.normals)])

        def after(point: Array) -> Array:
            return one.function(k, 0.0, self.dt, params, point[:N], point[N:])

        values = jax.vmap(after)(points)
        slopes = (values[1:] - values[0]).T
        G = slopes[:, N:]
        return Law((slopes[:, :N] - jnp.eye(N))[None], values[:1], (G @ G.T)[None])

    def at(self, params: Any) -> Parts:
        """Return everything at some params."""
        last = len(self.steps) - 1
        laws = [self._law(k, params) for k in range(len(self.steps))]
        powers = [laws[last]]
        for _ in range(max(count for _, count in self.keys).bit_length()):
            powers.append(powers[-1].doubled())
        gaps = [self._composed(first, count, laws, powers) for first, count in self.keys]
        law = jax.tree.map(lambda *parts: jnp.concatenate(parts), *gaps)
        into, times = self._start(params), jnp.asarray(self.schedule.times)
        m, P = (
            into[:, :-1] @ self.start.mean_at(params) + into[:, -1],
            into[:, :-1] @ self.start.covariance @ into[:, :-1].T,
        )
        if self.start.is_stationary:
            m, P = linear_flow.limit(laws[last])
        view = jax.vmap(lambda t: self.view(params, t))(times) if self.is_timed else self.view(params, times[0])
        return Parts(law, m, P, view)

    def _composed(self, first: int, count: int, laws: list[Law], powers: list[Law]) -> Law:
        """The law of so many steps from step number `first` on."""
        total = jax.tree.map(jnp.zeros_like, laws[-1])
        for k in range(first, min(first + count, len(laws) - 1)):
            total, count = total.then(laws[k]), count - 1
        for bit in range(count.bit_length()):
            if count >> bit & 1:
                total = total.then(powers[bit])
        return total

    def _start(self, params: Any) -> Array:
        one = self.steps[0]
        points = np.concatenate([np.zeros((1, one.n)), np.eye(one.n)])
        values = jax.vmap(lambda x: one.begun(0.0, params, x))(points)
        return jnp.concatenate([(values[1:] - values[0]).T, values[0][:, None]], axis=1)

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        matrix = self.steps[-1].reading[0]
        return matrix[:, :-1], matrix[:, -1]

    def view(self, params: Any, t: Any) -> View:
        """Return what is seen at a time."""
        (W, w), H, d, R = self._read(), [], [], []
        for sensor, width in zip(self.sensors, self.widths, strict=True):

            def value(s: Array, sensor: Sensor = sensor) -> Array:
                return sensor.value(self.plant.problem, t, W @ s + w, params)

            zero = jnp.zeros(W.shape[1])
            H.append(jax.jacfwd(value)(zero))
            d.append(value(zero))
            R.append(jnp.broadcast_to(jnp.asarray(white(sensor, params), float), (width,)))
        return View(jnp.concatenate(H), jnp.concatenate(d), jnp.concatenate(R), W, w)

    def diffuse(self) -> np.ndarray | None:
        """Return the directions of which nothing is known, as columns; None where there are none."""
        if not self.start.diffuse:
            return None
        into = self.steps[0].start(0.0, self.plant.problem.example_params())[0]
        return into[:, list(self.start.diffuse)]


def stepped(
    sensors: tuple[Sensor, ...], widths: tuple[int, ...], schedule: Schedule, start: Start, plant: Plant,
    timed: tuple[bool, ...], law: Any, dt: float | None,
) -> SteppedModel:  # fmt: skip
    """Return a plant whose law is that of steps dt of a method."""
    method = stepping(law, "law")
    expect_steps_of_all(plant.problem, method, "law")
    if dt is None or not dt > 0:
        raise ValueError(f"dt: expected the step of {method.name}, whose law is asked for, got {dt!r}")
    for sensor in sensors:
        if sensor.average or sensor.increment or sensor.bias is not None:
            raise ValueError(
                f"law ({sensor.name}): averages, increments and biases are taken with law='exact'; by the steps of a "
                f"method also with method={method.name!r}, by='ekf', exact if it is linear"
            )
    places = (schedule.times - schedule.times[0]) / dt
    numbers = np.round(places).astype(int)
    off = np.abs(places - numbers) > WHOLE
    if off.any():
        raise ValueError(
            f"dt: time {schedule.times[np.argmax(off)]:.12g} is not a whole number of steps of {dt:g} after "
            f"{schedule.times[0]:.12g}"
        )
    counts = np.diff(numbers, prepend=0)
    method = for_step(plant.problem, method, dt)
    first = np.minimum(numbers - counts, method.starting_steps)
    keys, gap = np.unique(np.stack([first, counts], axis=1), axis=0, return_inverse=True)
    pairs = tuple((int(a), int(b)) for a, b in keys)
    schedule = dataclasses.replace(schedule, gap=np.ravel(gap))
    return SteppedModel(sensors, widths, schedule, start, plant, timed, method, float(dt), pairs)
