"""A linear problem and its sensors as one linear system: matrices as functions of the parameters, proved from traces.

    dz = (A z + a) dt + dW, Cov dW = S dt,   x = W z + w,   y = H z + d + noise of variance R

z holds the differential components of the problem, the states of coloured noise of sensors, and the integrals of what
is read over windows. Algebraic components of an SDAE are outputs: x = W z + w solves its constraints.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.engine.spec import matched
from stodyn.inference.gaussian import Start
from stodyn.inference.kalman import Array, Sensing
from stodyn.inference.schedule import Schedule
from stodyn.methods.catalogue import stepping
from stodyn.methods.recommend import recommended
from stodyn.noise.coloured import Coloured
from stodyn.noise.distribution import Distribution
from stodyn.noise.inertial import Inertial
from stodyn.noise.readings import Density
from stodyn.noise.source import Source
from stodyn.numerics import elimination, gauss, linear_flow, lyapunov
from stodyn.numerics.facts import degree
from stodyn.numerics.linear_flow import Law, Rates
from stodyn.numerics.uncompiled import Uncompiled
from stodyn.problems.contract import Problem, expect_problem, written_as
from stodyn.problems.impact import Struck
from stodyn.problems.looped import Looped
from stodyn.problems.measured import Measured
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Sensor
from stodyn.problems.sensor_noise import independent, interval, root, window
from stodyn.problems.structure import depends_on_time, is_autonomous
from stodyn.problems.walls import Walled

MOST = 200  # states of dense matrices
FORCES = gauss.legendre(6), gauss.lobatto(7)  # where forces that depend on time are taken in a gap, and for a check
MATRICES = gauss.legendre(2), gauss.lobatto(3)  # and matrices; the second see a jump anywhere otherwise than the first
TURNS = math.sqrt(3.0) / 12.0, 1.0 / 12.0  # of the commutator of the first and the last of them
INSIDE = 1e-9  # of a gap: how far inside its ends are, where there may be a jump
NAME_ONE = (
    "by='ekf' (takes the law of the state for a normal one, and the equations for straight over its spread) or "
    "by='statistical' (takes the law for a normal one, and averages the equations over it); a law with two humps is "
    "beyond both"
)
NOT_LINEAR = f"an exact filter takes linear problems alone. Name one that is not exact: {NAME_ONE}"


class Flow(NamedTuple):
    """dz = (A z + a) dt + dW, Cov dW = S dt, and the components x = W z + w."""

    A: Array
    a: Array
    S: Array
    W: Array
    w: Array


class Memory(NamedTuple):
    """Coloured noise of a reading: states ds = A s dt + dW that start with the covariance P; the reading has C s."""

    A: np.ndarray
    S: np.ndarray
    C: np.ndarray
    P: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Plant:
    """A linear problem without its sensors: its states and their start, its matrices flow(params, t), whether nothing
    in them depends on t but the forces `a` ("forces"), nothing at all (""), or anything ("matrices"). Where components
    are more than states and depend on t given these, `solved_by(params, t)` is the matrix that gives them."""

    problem: Problem
    start: Source
    states: tuple[str, ...]
    flow: Callable[[Any, Any], Flow]
    moved: str = ""
    solved_by: Callable[[Any, Any], Array] | None = None


def expect_plant(problem: Any) -> None:
    """Refuse what is no problem, and what has more around it than a filter follows."""
    expect_problem(problem)
    if isinstance(problem, Looped):
        raise TypeError("problem: expected the plant alone; a loop around it acts at its own times")
    if isinstance(problem, Walled | Struck):
        raise TypeError(
            "problem: expected it without walls and impacts, which fold the law of its state, so that no filter here "
            "follows it. Where the record stays far from them, give the problem that they were put around"
        )
    if isinstance(problem, Measured):
        raise TypeError(
            "problem: expected it without what is kept beside its state: give the problem that this was put around, "
            "and sensors for what is read"
        )


def expect_steps_of_all(problem: Any, method: Any, argument: str) -> None:
    """Refuse a method that takes another form of a problem, with other components."""
    if matched(problem, method)[0].n != problem.n:
        raise ValueError(
            f"{argument}: {method.name} does not step the components that constraints determine; take a method for "
            f"{type(problem).__name__} problems, such as {stepping(recommended(problem)).name}"
        )


def plant_of(problem: Any, params: Any) -> Plant:
    """Return a problem as a linear system, after the proof that it is one."""
    form = problem if isinstance(problem, SDE | SDAE) else written_as(problem, SDE) or written_as(problem, SDAE)
    if form is None or form.n != problem.n:
        raise ValueError(f"problem: a {type(problem).__name__} has no form as an SDE or SDAE of its own components")
    if not form.noise_structure.implies("additive"):
        also = "" if form.n > 1 or form.m > 1 else (
            ". Of a square-root process the transitions are taken where a single sensor without noise, window or "
            "resolution reads x itself, at values where the noise is defined"
        )  # fmt: skip
        raise ValueError(f"problem: its noise is {form.noise_structure}, but has to be additive: {NOT_LINEAR}{also}")
    x = np.zeros(form.n)
    if not (isinstance(form, SDAE) and form.known.is_affine) and not degree.is_proved_affine(
        form.f, (np.zeros(()), x, params), 1
    ):
        raise ValueError(f"problem: it is not proved to be linear: {NOT_LINEAR}")
    plant = _of_sdae(problem, form) if isinstance(form, SDAE) else _of_sde(problem, form, params)
    if len(plant.states) > MOST:
        raise ValueError(f"problem: {len(plant.states)} states, more than {MOST}: reduce the model")
    return plant


def _of_sde(problem: Any, sde: SDE, params: Any) -> Plant:
    matrices = jax.jacfwd(sde.f, 1), sde.g
    moved = "" if is_autonomous(sde) else "forces"
    if moved and any(depends_on_time(own, np.zeros(sde.n), params) for own in matrices):
        moved = "matrices"

    def flow(params: Any, t: Any) -> Flow:
        x = jnp.zeros(sde.n)
        A, B = (own(t, x, params) for own in matrices)
        return Flow(A, sde.f(t, x, params), B @ B.T, jnp.eye(sde.n), jnp.zeros(sde.n))

    return Plant(problem, sde.start_source, problem.components, flow, moved)


def _of_sdae(problem: Any, sdae: SDAE) -> Plant:
    from stodyn.problems.index import components

    sdae.facts.diagnosed()  # refuses what is not of index 1, and noise in constraints
    parts, form, is_moved = sdae.facts.split, sdae.state_space, not is_autonomous(sdae)
    evolving = scipy.sparse.csr_array(sdae.facts.evolving).toarray()
    r = parts.r

    def slopes(params: Any, t: Any) -> Array:
        return jax.jacfwd(lambda x: sdae.f(t, x, params))(jnp.zeros(sdae.n))

    def solved_by(params: Any, t: Any) -> Array:
        return jnp.concatenate([jnp.asarray(evolving), parts.constraints(slopes(params, t))])

    def flow(params: Any, t: Any) -> Flow:
        x = jnp.zeros(sdae.n)
        slope, at_zero, system = slopes(params, t), sdae.f(t, x, params), solved_by(params, t)
        right = jnp.concatenate(
            [jnp.eye(sdae.n, r), jnp.zeros((sdae.n, 1)).at[r:, 0].set(-parts.constraints(at_zero))], 1
        )
        both = jax.vmap(elimination.factorised(system), 1, 1)(right)
        W, w = both[:, :r], both[:, r]
        B = form.solved(sdae.g(t, x, params))
        return Flow(form.solved(slope @ W), form.solved(slope @ w + at_zero), B @ B.T, W, w)

    start = sdae.start_source.mapped(lambda rows: rows @ evolving.T)
    moved = ("matrices", solved_by) if is_moved else ("", None)
    return Plant(problem, start, components(sdae)[0], flow, *moved)


def refuse_singular(plant: Plant, params: Any, times: np.ndarray) -> None:
    """Refuse algebraic components that the constraints do not determine at these times, or at one between them."""
    if plant.solved_by is None:
        return
    own = plant.solved_by
    signs = np.linalg.slogdet(Uncompiled(jax.vmap(lambda t: own(params, t)))(times))[0]
    if (signs != signs[0]).any():
        place = int(np.argmax(signs != signs[0]))
        raise ValueError(
            f"problem: its constraints do not determine the algebraic components at a time from {times[place - 1]:.6g} "
            f"to {times[place]:.6g}, where it is not of index 1. End the record before, or state the equations so that "
            "they stay solvable"
        )


# --- sensors ----------------------------------------------------------------------------------------------------------


def width_of(problem: Any, sensor: Sensor, params: Any) -> int:
    """Return how many outputs a sensor has."""
    if sensor.log_density is not None:
        raise ValueError(f"log_density ({sensor.name}): these filters take normal noise; give noise=")
    return sensor.width(problem, params)


def read_by(plant: Plant, sensors: Sequence[Sensor], params: Any) -> tuple[list[int], list[bool]]:
    """Return how many outputs each sensor has and whether what it reads depends on time itself, after the proof that it
    is something linear."""
    x, widths, timed = np.zeros(plant.problem.n), [], []
    for sensor in sensors:

        def value(t: Any, x: Any, params: Any, sensor: Sensor = sensor) -> Any:
            return sensor.value(plant.problem, t, x, params)

        widths.append(width_of(plant.problem, sensor, params))
        if not degree.is_proved_affine(value, (np.zeros(()), x, params), 1):
            raise ValueError(f"of ({sensor.name}): what it reads is not proved to be linear: {NOT_LINEAR}")
        timed.append(depends_on_time(value, x, params))
    return widths, timed


def white(sensor: Sensor, params: Any) -> Any:
    """Return the variance of the independent noise of a reading; of increments, that which does not grow with time."""
    total = _variance(sensor) if isinstance(sensor.noise, Distribution) else independent(sensor, params)
    return total + (0.0 if sensor.resolution is None else sensor.resolution**2 / 12.0)


def _variance(sensor: Sensor) -> float:
    law = getattr(sensor.noise, "law", None)
    if getattr(getattr(law, "dist", None), "name", "") != "norm":
        raise ValueError(f"noise ({sensor.name}): {sensor.noise!r} is not normal, as a Kalman filter assumes")
    if abs(sensor.noise.mean) > 0.0:
        raise ValueError(f"noise ({sensor.name}): its mean is {sensor.noise.mean:g}, expected 0")
    return sensor.noise.variance


def memories(sensor: Sensor, width: int) -> list[Memory]:
    """Return the coloured noise of a reading, part by part."""
    noises: list[Any] = [sensor.bias] if sensor.bias is not None else []
    noise, walks = sensor.noise, []
    if isinstance(noise, Coloured):
        noises.append(noise)
    elif isinstance(noise, Density) and noise.bandwidth is not None:
        noises.append(noise.coloured())
    elif isinstance(noise, Inertial):
        noises += noise.biases(interval(sensor))
        if noise.K or noise.turn_on:
            one = np.eye(width)
            walks.append(Memory(0.0 * one, noise.K**2 * one, one, noise.turn_on**2 * one))
    return [_memory(own, width, sensor.name) for own in noises] + walks


def _memory(noise: Coloured, width: int, name: str) -> Memory:
    if len(noise.C) not in (1, width):
        raise ValueError(f"noise ({name}): it has {len(noise.C)} outputs, the reading has {width}")
    copies = 1 if len(noise.C) == width else width
    parts = noise.A, noise.B @ noise.B.T, noise.C, noise.state_covariance
    return Memory(*(scipy.linalg.block_diag(*[part] * copies) for part in parts))


class View(NamedTuple):
    """What is seen of z: readings H z + d with noise of variance R, and components W z + w; each with the rows first
    where it depends on time."""

    H: Array
    d: Array
    R: Array
    W: Array
    w: Array

    @property
    def sensing(self) -> Sensing:
        """The readings alone."""
        return Sensing(self.H, self.d, self.R)

    def at(self, row: int) -> View:
        """Return this in one row."""
        return self if self.H.ndim == 2 else View(*(part[row] for part in self))

    def readings(self, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of each reading in all rows from mean and covariance of z."""
        return (self.H @ m[..., None])[..., 0] + self.d, np.sum(self.H @ P * self.H, axis=-1) + self.R

    def components(self, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of the components in all rows from those of z."""
        return (self.W @ m[..., None])[..., 0] + self.w, self.W @ P @ self.W.mT


class Parts(NamedTuple):
    """All that the recursion needs, at some params: laws of the gaps, the start, and what is seen."""

    law: Law | Rates
    m: Array
    P: Array
    view: View


@dataclasses.dataclass(frozen=True, eq=False)
class Sensed:
    """Sensors on the rows of a record, whose first law is `start`: what the models of all filters have in common."""

    sensors: tuple[Sensor, ...]
    widths: tuple[int, ...]
    schedule: Schedule
    start: Start

    @functools.cached_property
    def memory(self) -> Memory:
        """The coloured noise of all columns together, of sensors with so many windows at a time as the rows have."""
        none, counts = np.zeros((0, 0)), self.schedule.integrals
        own = [memories(sensor, width) for sensor, width in zip(self.sensors, self.widths, strict=True)]
        every = [Memory(none, none, none, none), *itertools.chain(*own)]
        A, S, _, P = (scipy.linalg.block_diag(*parts) for parts in zip(*every, strict=True))
        C = [np.tile(np.concatenate([np.zeros((width, 0)), *(part.C for part in parts)], axis=1), (max(count, 1), 1))
             for parts, width, count in zip(own, self.widths, counts, strict=True)]  # fmt: skip
        return Memory(A, S, scipy.linalg.block_diag(none, *C), P)


@dataclasses.dataclass(frozen=True, eq=False)
class SensedPlant(Sensed):
    """The same of a plant, for models whose `at(params)` has all matrices. `timed` says of each sensor whether what it
    reads depends on time itself."""

    plant: Plant
    timed: tuple[bool, ...]
    by: ClassVar[str] = "kalman"

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.plant.problem


@dataclasses.dataclass(frozen=True, eq=False)
class Model(SensedPlant):
    """A plant whose law is exact."""

    halvings: int = 0
    name: ClassVar[str] = "exact"

    @functools.cached_property
    def moved(self) -> str:
        """What depends on time, as that of the plant, with the integrals of what is read."""
        integrates = [own and windows for own, windows in zip(self.timed, self.schedule.integrals, strict=True)]
        return "matrices" if any(integrates) else self.plant.moved

    @functools.cached_property
    def is_timed(self) -> bool:
        """Whether what is seen depends on time, given the states."""
        points = [own and not windows for own, windows in zip(self.timed, self.schedule.integrals, strict=True)]
        return any(points) or self.plant.solved_by is not None

    def scheduled(self) -> Model:
        """Return this with a gap of its own for each row, where the laws of gaps depend on when they begin."""
        return dataclasses.replace(self, schedule=self.schedule.one_by_one()) if self.moved else self

    @functools.cached_property
    def sizes(self) -> tuple[int, int, int]:
        """How many states are the plant's, of coloured noise, and integrals."""
        return len(self.plant.states), len(self.memory.A), self.schedule.integrated(self.widths)

    @property
    def states(self) -> int:
        """How many there are in all."""
        return sum(self.sizes)

    def system(self, params: Any, t: Any) -> tuple[Rates, View]:
        """Return the rates of all states at a time, and what is seen of them."""
        own, (n, k, _), N = self.plant.flow(params, t), self.sizes, self.states
        memory, noise = self.memory, slice(n, n + k)
        A = jnp.zeros((N, N)).at[:n, :n].set(own.A).at[noise, noise].set(memory.A)
        S = jnp.zeros((N, N)).at[:n, :n].set(own.S).at[noise, noise].set(memory.S)
        a = jnp.zeros(N).at[:n].set(own.a)
        H, d, R, integral = [], [], [], n + k
        for sensor, width, windows in zip(self.sensors, self.widths, self.schedule.integrals, strict=True):
            rows, offset = self._read(sensor, own, params, t)
            rows = jnp.zeros((width, N)).at[:, :n].set(rows)
            variance = jnp.broadcast_to(jnp.asarray(white(sensor, params), float), (width,))
            for _ in range(windows):
                here = slice(integral, integral + width)
                A, a, integral = A.at[here].set(rows), a.at[here].set(offset), here.stop
                if sensor.increment:
                    S = S.at[here, here].set(jnp.eye(width) * root(sensor, params) ** 2)
                H.append(jnp.zeros((width, N)).at[:, here].set(jnp.eye(width) / (window(sensor) or 1.0)))
                d.append(jnp.zeros(width))
                R.append(variance)
            if not windows:
                H.append(rows)
                d.append(offset)
                R.append(variance)
        W = jnp.zeros((len(own.w), N)).at[:, :n].set(own.W)
        readings = jnp.concatenate(H).at[:, noise].set(memory.C), jnp.concatenate(d), jnp.concatenate(R)
        return Rates(A, a, S), View(*readings, W, own.w)

    def _read(self, sensor: Sensor, own: Flow, params: Any, t: Any) -> tuple[Array, Array]:
        """What a sensor reads of the plant's states: a matrix and an offset."""

        def value(z: Array) -> Array:
            return sensor.value(self.plant.problem, t, own.W @ z + own.w, params)

        zero = jnp.zeros(own.W.shape[1])
        return jax.jacfwd(value)(zero), value(zero)

    def begun(self, own: Rates, params: Any) -> tuple[Array, Array]:
        """Return mean and covariance of all states at the start."""
        (n, k, _), N = self.sizes, self.states
        m: Any = self.start.mean_at(params)
        P: Any = self.start.covariance
        if self.start.is_stationary:
            m, P = linear_flow.stationary(own.A[:n, :n], own.a[:n], own.S[:n, :n])
        P = jnp.zeros((N, N)).at[:n, :n].set(P).at[n : n + k, n : n + k].set(self.memory.P)
        return jnp.zeros(N).at[:n].set(m), P

    def at(self, params: Any) -> Parts:
        """Return everything at some params."""
        plan = self.schedule
        law = self.law(params, jnp.asarray(plan.gaps), jnp.asarray(plan.begins))
        parts = self.without_laws(params)._replace(law=law)
        if not self.is_timed:
            return parts
        return parts._replace(view=jax.vmap(lambda t: self.view(params, t))(jnp.asarray(plan.times)))

    def view(self, params: Any, t: Any) -> View:
        """Return what is seen at a time."""
        return self.system(params, t)[1]

    def law(self, params: Any, gaps: Array, begins: Array, checking: bool = False) -> Law:
        """Return the laws over some lengths of time, from the times at which they begin; by other nodes for a check of
        those that depend on time."""
        longest = self.schedule.longest or 1.0
        if self.moved == "matrices":
            rates = jax.vmap(lambda gap, begin: self.rates(params, gap, begin, checking))(gaps, begins)
            own = jax.vmap(
                lambda rates, gap: linear_flow.over(rates.A, rates.a, rates.S, gap[None], longest, self.halvings)
            )(rates, gaps)
            return jax.tree.map(lambda part: part[:, 0], own)
        flow = self.own(params)
        if not self.moved:
            return linear_flow.over(flow.A, flow.a, flow.S, gaps, longest, self.halvings)
        shares, weights = _nodes(FORCES, checking)
        rest = gaps[:, None] * np.concatenate([[1.0], 1.0 - shares])
        laws = linear_flow.over(flow.A, jnp.zeros_like(flow.a), flow.S, rest.ravel(), longest, self.halvings)
        E, _, Q = (part.reshape(*rest.shape, *part.shape[1:]) for part in laws)
        times = begins[:, None] + gaps[:, None] * shares
        forces = jax.vmap(jax.vmap(lambda t: self.system(params, t)[0].a))(times)
        moved = forces + jnp.einsum("gkij,gkj->gki", E[:, 1:], forces)
        return Law(E[:, 0], gaps[:, None] * jnp.einsum("k,gki->gi", weights, moved), Q[:, 0])

    def rates(self, params: Any, gap: Array, begin: Array, checking: bool = False) -> Rates:
        """Return the constant rates in place of those of a gap, where these depend on time."""
        shares, weights = _nodes(MATRICES, checking)
        parts = [self.system(params, begin + gap * share)[0] for share in shares]
        mean = jax.tree.map(lambda *own: sum(w * a for w, a in zip(weights, own, strict=True)), *parts)
        return linear_flow.averaged(mean, parts[0], parts[-1], TURNS[checking] * gap)

    def without_laws(self, params: Any) -> Parts:
        """Return everything but the laws of the gaps, with the rates from which they come in their place."""
        rates, view = self.system(params, self.schedule.times[0])
        return Parts(rates, *self.begun(rates, params), view)

    def diffuse(self) -> np.ndarray | None:
        """Return the directions of which nothing is known, as columns; None where there are none."""
        if not self.start.diffuse:
            return None
        return np.eye(self.states)[:, list(self.start.diffuse)]

    def own(self, params: Any) -> Rates:
        """Return the rates of all states, at the start or in the middle of each gap where they depend on time."""
        plan = self.schedule
        if self.moved != "matrices":
            return self.system(params, plan.times[0])[0]
        return jax.vmap(lambda t: self.system(params, t)[0])(jnp.asarray(plan.begins + 0.5 * plan.gaps))

    def widened(self, rates: Sequence[Rates]) -> Model:
        """Return this with as many halvings of the longest gap as these rates need."""
        needed = max((linear_flow.doublings(np.asarray(own.A), self.schedule.longest) for own in rates), default=0)
        return self if needed <= self.halvings else dataclasses.replace(self, halvings=needed)

    def refuse_unstable(self, own: Rates) -> None:
        """Refuse a plant without a stationary law, in words."""
        n = len(self.plant.states)
        lyapunov.continuous(own.A[:n, :n], own.S[:n, :n])


def _nodes(rules: tuple[gauss.Rule, gauss.Rule], checking: bool) -> tuple[np.ndarray, np.ndarray]:
    """The shares of a gap at which something is taken, and their weights."""
    nodes, weights = rules[checking]
    return np.clip(0.5 + 0.5 * nodes, INSIDE, 1.0 - INSIDE), weights
