"""A nonlinear problem and its sensors in steps of a method, filtered as if its law were normal."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stodyn.analysis.step.one_step import AFFINE, OneStep
from stodyn.inference import evaluating, kalman, moments
from stodyn.inference.kalman import Array, Row, State
from stodyn.inference.laws import Parts, Sensed, View, expect_steps_of_all, white
from stodyn.inference.moments import Functions, Stride
from stodyn.inference.schedule import WHOLE, Schedule, alike, keeping
from stodyn.methods.catalogue import stepping
from stodyn.methods.recommend import recommended
from stodyn.numerics import van_loan
from stodyn.numerics.newton import derived_forwards, underived
from stodyn.numerics.printing import recurrence
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.recurrence import Recurrence
from stodyn.numerics.uncompiled import Uncompiled
from stodyn.problems.contract import written_as
from stodyn.problems.driven_mechanical import DrivenMechanical
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Sensor
from stodyn.problems.sensor_noise import root, window

CHANGE = 0.05  # of log L by halving the step: less is small enough
HALVINGS = 14
MOST_STEPS = 20_000_000  # a row of two states is some hundred bytes


@dataclasses.dataclass(frozen=True, eq=False)
class NormalModel(Sensed):
    """A problem in steps of a method on the rows of a record, one row for each step, by "ekf" or "statistical"."""

    problem: Any
    method: Any
    by: str
    dt: float

    @functools.cached_property
    def one(self) -> OneStep:
        """A step of the method."""
        return OneStep(self.problem, self.method)

    @property
    def name(self) -> str:
        """The law in words."""
        return f"{self.method.name}, dt={self.dt:g}"

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many numbers the method carries, coloured noise, and integrals of what is read over windows."""
        return self.one.size, len(self.memory.A), self.schedule.integrated(self.widths)

    @property
    def states(self) -> int:
        """How many there are in all."""
        return sum(self.sizes)

    @functools.cached_property
    def reading(self) -> tuple[np.ndarray, np.ndarray]:
        """W and w of x = W s + w."""
        matrix, defect = self.one.reading
        if defect > AFFINE:
            raise ValueError(f"method: what {self.method.name} shows of its state is not linear in it; take another")
        wide = np.zeros((len(matrix), self.states))
        wide[:, : self.one.size] = matrix[:, :-1]
        return wide, matrix[:, -1]

    def diffuse(self) -> None:
        """Return None: nothing is diffuse."""

    @property
    def functions(self) -> Functions:
        """The step and what is read, as functions of params."""
        (W, w), own, (n, k, integrals) = self.reading, self.one, self.sizes
        C = self.memory.C
        windows = [(sensor, width, count) for sensor, width, count
                   in zip(self.sensors, self.widths, self.schedule.integrals, strict=True)]  # fmt: skip

        def read(sensor: Sensor, params: Any, t: Array, s: Array) -> Array:
            return sensor.value(self.problem, t, W @ s + w, params)

        def integrands(params: Any, t: Array, s: Array) -> Array:
            return jnp.concatenate([jnp.tile(read(own, params, t, s), count) for own, _, count in windows if count])

        def step(params: Any, stride: Stride, s: Array, ξ: Array) -> Array:
            """Coloured noise exactly, and integrals by the trapezoidal rule with the noise of what is counted."""
            t, h = stride.time, stride.length
            after = own.function(0, t, h, params, s[:n], ξ[: own.normals])
            if k:
                mixed = stride.Phi @ s[n : n + k] + stride.root @ ξ[own.normals : own.normals + k]
                after = jnp.concatenate([after, mixed])
            if not integrals:
                return after
            before = s[n + k :]
            ends = integrands(params, t, s), integrands(params, t + h, jnp.concatenate([after, before]))
            roots = [
                jnp.full(width * count, root(one, params) if one.increment else 0.0) for one, width, count in windows
            ]
            kicks = jnp.sqrt(h) * jnp.concatenate(roots) * ξ[own.normals + k :]
            return jnp.concatenate([after, before + 0.5 * h * (ends[0] + ends[1]) + kicks])

        def sense(params: Any, t: Array, s: Array) -> Array:
            columns, place = [], n + k
            for sensor, width, count in windows:
                here = slice(place, place + width * count)
                columns += [read(sensor, params, t, s)] if not count else [s[here] / (window(sensor) or 1.0)]
                place = here.stop
            return jnp.concatenate(columns) + (C @ s[n : n + k] if k else 0.0)

        def variances(params: Any) -> Array:
            sizes = [(jnp.asarray(white(own, params), float), width * max(count, 1)) for own, width, count in windows]
            return jnp.concatenate([jnp.broadcast_to(size, k) for size, k in sizes])

        is_additive = self.problem.noise_structure.implies("additive")
        return Functions(step, sense, variances, self._settled(), own.normals + k + integrals, is_additive)

    def _settled(self) -> Callable | None:
        """The function that moves a mean back onto joints, which a reading takes it off by the square of its way."""
        joints = self.problem.joints
        if joints is None:
            return None
        W, w = self.reading
        N = self.problem.N

        def settled(params: Any, t: Array, s: Array) -> Array:
            x = W @ s + w
            q, v = joints.consistent(t, x[:N], x[N : 2 * N], params)
            return s + W[: 2 * N].T @ (jnp.concatenate([q, v]) - x[: 2 * N])

        return settled

    def begun(self, params: Any) -> tuple[Array, Array]:
        """Return mean and covariance of the method's state at the start."""
        (n, k, _), t = self.sizes, float(self.schedule.times[0])

        def begun(x: Array) -> Array:
            return jnp.pad(self.one.begun(t, params, x), (0, self.states - n))

        mean = jnp.asarray(self.start.mean_at(params))
        into = jax.jacfwd(begun)(mean)
        P = into @ self.start.covariance @ into.T
        return begun(mean), P.at[n : n + k, n : n + k].set(self.memory.P)


class NormalEvaluated:
    """A model and its record: `params_of` makes params of a vector θ; as evaluating.Evaluated."""

    def __init__(self, model: NormalModel, params_of: Callable[[Any], Any]):
        self.model, self.params_of = model, params_of
        orders: list[Callable] = [self._at, self._slope, self._curvature]
        self._starts = [Uncompiled(jax.vmap(function)) for function in orders]
        sums: list[Callable] = [self._summed]
        for _ in range(2):
            sums.append(kalman.derived(sums[-1]))
        self._sums, self._stored = [Recurrence(function) for function in sums], Recurrence(self._stored_row)
        self.variances = Uncompiled(lambda theta: model.functions.variances(params_of(theta)))

    def with_schedule(self, schedule: Schedule, dt: float) -> NormalEvaluated:
        """Return this with other steps; its programs are the same."""
        other = object.__new__(NormalEvaluated)
        other.__dict__.update({k: v for k, v in vars(self).items() if k not in ("strides", "data")})
        other.model = dataclasses.replace(self.model, schedule=schedule, dt=dt)
        return other

    def _at(self, theta: Any) -> tuple[Array, Array, Array]:
        with derived_forwards():
            return *self.model.begun(self.params_of(theta)), theta

    def _slope(self, theta: Any, u: Any) -> Any:
        return jax.jvp(self._at, (theta,), (u,))

    def _curvature(self, theta: Any, u: Any, v: Any) -> Any:
        return jax.jvp(lambda theta: self._slope(theta, u), (theta,), (v,))

    def advanced(self, state: State, theta: Any, stride: Stride) -> tuple[State, moments.Passed]:
        """Return the state after a row, and what is left of the row."""
        with derived_forwards():
            filter_by = moments.WAYS[self.model.by]
            return moments.advanced(filter_by, self.model.functions, self.params_of(theta), state, stride)

    def _summed(self, carry: Any, entry: Any, theta: Any, stride: Stride) -> tuple[Any, tuple]:
        state, passed = self.advanced(carry[0], theta, stride)
        return (state, carry[1] + passed.loglik), ()

    def _stored_row(self, state: State, entry: Any, theta: Any, stride: Stride) -> tuple[State, moments.Passed]:
        return self.advanced(state, theta, stride)

    def for_parameters(self, thetas: np.ndarray) -> NormalEvaluated:
        """Return this, which answers for all parameters."""
        return self

    @functools.cached_property
    def strides(self) -> Stride:
        """The rows of the record."""
        plan = self.model.schedule
        is_read = ~np.isnan(plan.values)
        lengths = np.diff(plan.times, prepend=plan.times[0])
        row = Row(np.where(is_read, plan.values, 0.0), is_read, keeping(plan, self.model.widths))
        gaps, which = alike(plan.times)
        A, S, _, P = self.model.memory
        laws = [van_loan.discretise(A, np.eye(len(A)), S, float(gap)) for gap in gaps] if len(P) else []
        Phi, roots = np.zeros((2, len(gaps), *P.shape))
        for j, law in enumerate(laws):
            Phi[j], roots[j] = law.Phi, van_loan.root(law.Q)
        return Stride(plan.times - lengths, lengths, row, Phi[which], roots[which])

    @property
    def rows(self) -> Row:
        """The readings of the rows."""
        return self.strides.row

    def log_likelihood(self, *directions: np.ndarray) -> list[np.ndarray]:
        """Return log L at θ (lanes, p); with a direction u also its slope along u; with two, [L, L_u, L_v, L_uv]."""
        order = len(directions) - 1
        carry, table, fixed = evaluating.nested(self._starts[order](*directions), order, _arguments)
        last, _ = self._sums[order](carry, table, fixed, self.data)
        return evaluating.totals(last, order)

    def loglik(self, theta: np.ndarray) -> float:
        """Return log L at θ (p,)."""
        return float(self.log_likelihood(theta[None])[0][0])

    def halved(self) -> NormalEvaluated:
        """Return this in steps half as long."""
        dt = 0.5 * self.model.dt
        return self.with_schedule(in_steps(self.model.schedule, dt), dt)

    @functools.cached_property
    def data(self) -> recurrence.Rows:
        """The rows of the record, as a recursion takes them."""
        return recurrence.prepared(self.strides, np.zeros(len(self.model.schedule.times)))

    def history(self, theta: np.ndarray) -> tuple[Parts, moments.Passed]:
        """Return matrices for what is read of (s, h) at θ (p,), and what the filter leaves of every row."""
        m, P, _ = self._starts[0](theta[None])
        _, passed = self._stored(State(m, P, None, None), (), theta[None], self.data)
        W, w = self.model.reading
        n, columns = self.model.states, self.strides.row.values.shape[1]
        H = np.concatenate([np.zeros((columns, n)), np.eye(columns)], axis=1)
        wide = np.concatenate([W, np.zeros((len(W), columns))], axis=1)
        law: Any = None
        parts = Parts(law, m[0], P[0], View(H, np.zeros(columns), self.variances(theta), wide, w))
        return parts, jax.tree.map(lambda a: a[:, 0], passed)

    def smoothed(self, parts: Parts, passed: moments.Passed) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of (s, h) in all rows, given all readings."""
        n = self.model.states
        adjoint = kalman.Adjoint(np.zeros((1, n)), np.zeros((1, n, n)), None, None, None)
        backwards: Any = jax.tree.map(lambda a: a[::-1], (passed, self.rows))
        _, (mean, covariance) = RETURNED(adjoint, (), (), recurrence.prepared(backwards, self.data.which))
        return mean[::-1, 0], covariance[::-1, 0]

    def simulated(self, theta: np.ndarray, count: int, most: int, rng: np.random.Generator) -> np.ndarray:
        """Return records of the model at θ (count, rows, columns), of the first rows at most."""
        model, strides, noise = self.model, self.strides, np.sqrt(self.variances(theta))
        params, (mean, P, _) = self.params_of(theta), self._starts[0](theta[None])
        s = mean + rng.standard_normal((count, len(P[0]))) @ van_loan.rough_root(P[0]).T
        functions = model.functions
        sense = AtPoints(lambda t, s: functions.sense(params, t, s), (None, 0))
        step = AtPoints(lambda stride, s, ξ: functions.step(params, stride, s, ξ), (None, 0, 0))
        last = min(len(strides.length), most)
        readings = np.full((count, last, len(noise)), np.nan)
        for k, (t, h) in enumerate(zip(strides.time[:last], strides.length[:last], strict=True)):
            stride = jax.tree.map(lambda part, k=k: part[k], strides)
            s = s * np.concatenate([np.ones(s.shape[1] - len(stride.row.keep)), stride.row.keep])
            if h > 0.0:
                with underived():
                    s = step(stride, s, rng.standard_normal((count, functions.normals)))
            if strides.row.is_read[k].any():
                readings[:, k] = sense(np.asarray(t + h), s) + noise * rng.standard_normal((count, len(noise)))
        return readings

    def log_total(self, theta: Any) -> Array:
        """Return log L at θ (p,) within a trace of JAX."""
        start = State(*self.model.begun(self.params_of(theta)), None, None)

        def turn(carry: Any, stride: Any) -> Any:
            return self._summed(carry, (), theta, stride)

        return lax.scan(turn, (start, jnp.zeros(())), self.strides)[0][1]


def _arguments(parts: Any, is_tangent: bool) -> tuple[Any, Any, Any]:
    m, P, theta = parts
    return (State(m, P, None, None), np.zeros(len(m))), (), theta


RETURNED = Recurrence(moments.returned)


# --- the model of a question ------------------------------------------------------------------------------------------


def chosen_method(problem: Any, method: Any) -> Any:
    """Return the method whose steps are taken: Heun's, of weak order 2 for additive noise, or that of the problem."""
    if method is None:
        form = written_as(problem, SDE)
        method = "Heun" if form is not None and form.n == problem.n else recommended(problem)
    method = stepping(method)
    if method.starting_steps or method.takes_equal_steps:
        raise ValueError(f"method: a filter begins anew after each reading; {method.name} needs the steps before it")
    expect_steps_of_all(problem, method, "method")
    if isinstance(problem, DrivenMechanical) and isinstance(problem, method.accepts):
        way_out = "take method='Heun'"
        if problem.joints is not None:
            way_out = (
                "write the mechanism without its joints by sd.problems.in_minimal_coordinates, and give it the noise"
            )
        raise ValueError(
            f"method: {method.name} draws coloured noise for steps of one length, and those of a filter end at the "
            f"readings; {way_out}"
        )
    return method


def in_steps(plan: Schedule, dt: float) -> Schedule:
    """Return a schedule with rows between its own, so that no step is longer than dt."""
    lengths = np.diff(plan.times, prepend=plan.times[0])
    counts = np.maximum(np.ceil(lengths / dt - WHOLE).astype(int), 1)
    if counts.sum() > MOST_STEPS:
        longest = int(counts.argmax())
        raise ValueError(
            f"dt: steps of {dt:.3g} make {counts.sum():.3g} rows, more than {MOST_STEPS:g}; {counts[longest]:.3g} of "
            f"them from {plan.times[longest - 1]:.12g} to {plan.times[longest]:.12g}. Give a longer dt, or a start t0 "
            "closer to the first reading"
        )
    last = np.cumsum(counts) - 1
    owner = np.repeat(np.arange(len(counts)), counts)
    left = last[owner] - np.arange(len(owner))  # steps to the row that a step leads to
    times = plan.times[owner] - left * (lengths / counts)[owner]
    return plan.with_rows(times, last)


def with_steps(model: NormalModel, params_of: Callable, theta: np.ndarray, dt: float | None) -> NormalEvaluated:
    """Return a model in steps of dt; left out, in steps whose halving changes log L at θ by less than 0.05."""
    plan = model.schedule
    evaluated = NormalEvaluated(model, params_of)
    if dt is not None:
        return evaluated.with_schedule(in_steps(plan, dt), dt)
    gaps = np.diff(plan.times)
    dt = float(np.median(gaps)) if len(gaps) else 1.0
    coarse = evaluated.with_schedule(in_steps(plan, dt), dt)
    for _ in range(HALVINGS):
        finer = coarse.halved()
        if abs(finer.loglik(theta) - coarse.loglik(theta)) < CHANGE:
            return coarse
        coarse = finer
    raise ValueError(
        f"dt: log L still changes by more than {CHANGE:g} at dt={coarse.model.dt:.3g}; give dt, or params at which the "
        "problem is tame"
    )
