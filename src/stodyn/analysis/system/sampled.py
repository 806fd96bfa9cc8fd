"""Linear loops without sampling: covariances, averages, costs and stability of a plant with sensors and discrete parts.

ξ holds the plant, what the loop remembers, and its own states. Between ticks it flows, at a tick it jumps:
    P⁻ = Φ P Φᵀ + Q,   P⁺ = J P⁻ Jᵀ + N Nᵀ;   over the period of the loop   P = M P Mᵀ + C.
Φ and Q are those of the exact plant (Van Loan), or what the steps of a method deliver. J and N are the derivatives of
the loop's own functions, after a proof from their traces that they are affine. A reading that is lost with the chance p
makes the jump random, and P⁺ the mean over both: then P ↦ M P Mᵀ is a sum of such terms, solved in the entries of P.
With jitter a sample falls on one of 2m + 1 steps. P is then kept apart for paths that wait for theirs and for those
that have taken it; of those that wait, 1/(2m + 1 - i) take it at step i. Where the intervals between samples are drawn
and everything acts at them, the loop is followed from one sample to the next in the same way.

Averages over time are those of P' = F P + P Fᵀ + G Gᵀ: what the covariances after the ticks come to, which is linear in
their sum, and what the noise of a tick adds.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.flatten_util import ravel_pytree
from jax.interpreters import partial_eval

from stodyn.arguments import checks_arguments
from stodyn.engine import kept_traces, traces
from stodyn.engine.spec import matched
from stodyn.methods.catalogue import named
from stodyn.methods.contract import Method
from stodyn.methods.looping import Clock, Loop, in_steps
from stodyn.noise import readings
from stodyn.noise.distribution import Distribution
from stodyn.numerics import lyapunov, quadratic_cost, uncompiled, van_loan
from stodyn.numerics.facts import degree
from stodyn.numerics.systems import Matrices
from stodyn.numerics.van_loan import Stretch
from stodyn.problems.contract import written_as
from stodyn.problems.linear_plant import affine, affine_rates, derivative, inputs_read, refuse_random_params
from stodyn.problems.looped import SLOPE, Looped
from stodyn.problems.sde import SDE
from stodyn.problems.structure import depends_on_time
from stodyn.telling import tell
from stodyn.warnings import CoarseReadings

LEAST_NOISE = 0.5  # of a resolution, from which on rounding adds a noise of its own
LINEARISE = "linearise with at=, or simulate"
MARGIN = 1e-8  # about 1, of the factor of a mode that neither grows nor decays
MOST_RANDOM = 30  # states up to which equations in all entries of P are solved


class Jump(NamedTuple):
    """What a tick makes of ξ, by chance: (probability, J, N) of every case."""

    cases: tuple[tuple[float, np.ndarray, np.ndarray], ...]

    def of(self, P: np.ndarray, share: float = 1.0) -> np.ndarray:
        """The covariance after the tick, of a share of all paths."""
        return sum(p * (J @ P @ J.T + share * (N @ N.T)) for p, J, N in self.cases)

    @property
    def mean(self) -> np.ndarray:
        """What it makes of means."""
        return np.sum([p * J for p, J, _ in self.cases], axis=0)


class Moments(NamedTuple):
    """Covariances times their shares of all paths: of those that wait for a jittered sample, whose share is given, and
    of those that have taken it."""

    waiting: np.ndarray
    past: np.ndarray
    share: float

    @property
    def total(self) -> np.ndarray:
        """The covariance of all paths."""
        return self.waiting + self.past

    def after(self, flow: Stretch) -> Moments:
        """The moments after a stretch of time that begins with these."""
        waiting, past = (flow.Phi @ P @ flow.Phi.T for P in (self.waiting, self.past))
        return Moments(waiting + self.share * flow.Q, past + (1.0 - self.share) * flow.Q, self.share)


class Tick(NamedTuple):
    """What happens at a tick: `rest` to all paths, or `act` to those that take a jittered sample at it, which of those
    that wait are the share `hazard`; at the first step of jitter, which it `opens`, all begin to wait."""

    rest: Jump
    act: Jump | None = None
    hazard: float = 0.0
    opens: bool = False

    def met(self, moments: Moments) -> Moments:
        """The moments that the tick meets."""
        return Moments(moments.total, 0.0 * moments.past, 1.0) if self.opens else moments

    def of(self, moments: Moments) -> Moments:
        """The moments after this tick, by those before it."""
        waiting, past, share = self.met(moments)
        past = self.rest.of(past, 1.0 - share)
        if self.act is None:
            return Moments(waiting, past, share)
        left = 1.0 - self.hazard
        past = past + self.hazard * self.act.of(waiting, share)
        return Moments(left * self.rest.of(waiting, share), past, left * share)


def _to_the_next_sample(begun: np.ndarray, flow: Stretch, ticks: Sequence[Tick]) -> tuple[list[Moments], Moments]:
    """Follow the covariance `begun` after a sample, where the interval to the next is drawn: return what each tick
    meets, and what is there after the sample. Paths that have taken it go on from there, in intervals of their own."""
    moments, met = Moments(begun, 0.0 * begun, 1.0), []
    for tick in ticks:
        waiting = moments.after(flow).waiting
        met.append(Moments(waiting, moments.past, moments.share))
        if tick.act is not None:
            past = moments.past + tick.hazard * tick.act.of(waiting, moments.share)
            left = 1.0 - tick.hazard
            moments = Moments(left * waiting, past, left * moments.share)
        else:
            moments = Moments(waiting, moments.past, moments.share)
    return met, moments


class _Probe(Loop):
    """The loop with its normals handed in, in the order in which it asks for them, and its losses decided."""

    loops = False

    def __init__(
        self, problem: Looped, clock: Clock, params: Any, normals: Any, lost: Mapping[str, Any], acts: Any = False
    ):
        super().__init__(problem, clock, params)
        self.supply, self.used, self.lost, self.acts = normals, 0, lost, acts

    def _due(self, name, registers):
        if name in self.clock.jitters:
            return self.acts, jnp.ones((), np.int32)
        return super()._due(name, registers)

    def next_time(self, name, sample, before):
        return jnp.zeros(3, np.int32)

    def felt(self, t, registers):
        return self.inputs(registers)  # no sensor reads a straight line

    def generator(self, name):
        return jnp.zeros(0)

    def noise(self, name, sample, count, registers):
        return self.normals(None, None, count, None), registers

    def normals(self, stream, sample, count, dtype):
        self.used += count
        return self.supply[self.used - count : self.used]

    def quantiles(self, law, z):
        return math.sqrt(law.variance) * z  # all that covariances know of it

    def is_lost(self, sensor, sample, dtype):
        return self.lost[sensor.name]

    def rounded(self, sensor, value):
        """The reading, within its limits, with the noise that rounding adds."""
        value = readings.shown(value, None, sensor.range)
        if sensor.resolution is None:
            return value
        return value + sensor.resolution / math.sqrt(12.0) * self.normals(None, None, len(value), None)


class _Fed:
    """A function that is affine in its first argument, a vector, as matrices: its trace for all unit vectors at once is
    taken once and computed by NumPy, for any values of the other arguments. About a point it is that of the function's
    derivative there, whether it is affine or not."""

    def __init__(self, function: Any, size: int, *others: Any, about: Any = None):
        self.rows = np.concatenate([np.zeros((1, size)), np.eye(size)])
        axes = 0, *(None for _ in others)

        def derivative(v: Any, *others: Any) -> Any:
            return jax.jvp(lambda w: function(w, *others), (about,), (v,))[1]

        fed = function if about is None else derivative
        self.trace = jax.make_jaxpr(jax.vmap(fed, in_axes=axes))(self.rows, *others)
        moves = [True, *(False for _ in others)]
        self.is_affine = about is not None or degree.is_affine(self.trace, moves)
        self.is_affine = self.is_affine or degree.is_proved_affine(function, (self.rows[0], *others), 0)

    def matrix(self, *others: Any) -> np.ndarray:
        """The matrix of its linear part."""
        try:
            (values,) = uncompiled.run(self.trace, self.rows, *others)
        except uncompiled.Compile:
            (values,) = jax.jit(core.jaxpr_as_fun(self.trace))(self.rows, *others)
        return np.array(values[1:] - values[0]).T


@dataclasses.dataclass(frozen=True, eq=False)
class Sampled:
    """A linear loop solved without paths; made by stodyn.analysis.sampled.

    Attributes
    ----------
    names : tuple of str
        The components, as in a run.
    radius : float
        The spectral radius of the loop over its period; of the covariances where readings are lost or late at random.
    period : float
        The time after which the loop repeats itself.
    law : str
        "exact", or the method and step whose covariances these are; "linearised" before it where the loop was.
    """

    names: tuple[str, ...]
    radius: float
    period: float
    law: str
    ticks: tuple[Tick, ...] = dataclasses.field(repr=False)
    flow: Stretch = dataclasses.field(repr=False)
    rates: tuple[np.ndarray, np.ndarray] | None = dataclasses.field(repr=False)
    shown: np.ndarray = dataclasses.field(repr=False)
    begun: np.ndarray = dataclasses.field(repr=False)
    tick: float = dataclasses.field(repr=False)
    events: dict[str, tuple[int, ...]] = dataclasses.field(repr=False)
    entered: np.ndarray = dataclasses.field(repr=False)

    @property
    def stable(self) -> bool:
        """Whether covariances have a limit."""
        return self.radius < 1.0

    @property
    def system(self) -> Matrices:
        """The loop from period to period, for other libraries: control.ss(*system).

        Its states are those of the loop just before a period begins, its outputs the components at that instant, and
        its inputs independent standard normal numbers.
        """
        over_period = _over_period(self.flow, self.ticks)
        if over_period is None:
            raise ValueError("system: readings are lost or late at random, so that no matrices stand for every period")
        outputs = np.zeros((len(self.shown), len(self.flow.Phi)))
        return Matrices(over_period.Phi, van_loan.root(over_period.Q), self.shown, outputs, self.period)

    @functools.cached_property
    def _before(self) -> list[Moments]:
        """The moments that each tick of the period meets."""
        return self._met()

    def _met(self) -> list[Moments]:
        first, all_of_them = _first(self.ticks), {}
        moments = Moments(0.0 * self.begun, self.begun, 0.0)
        for k in (*range(first, len(self.ticks)), *range(first)):
            all_of_them[k] = self.ticks[k].met(moments)
            moments = self.ticks[k].of(moments).after(self.flow)
        return [all_of_them[k] for k in range(len(self.ticks))]

    @checks_arguments
    def covariance(self, t: float = 0.0, *, before: bool = False) -> np.ndarray:
        """Return the covariance of the components at a time within the period, in the long run.

        Parameters
        ----------
        t : float
            The time since the beginning of the period, at which sensors and parts of phase 0 act.
        before : bool
            Before what happens at this instant, where something does; by default after it, as runs show it.

        Returns
        -------
        array (n, n)
        """
        if isinstance(t, str) or np.ndim(t):
            raise TypeError(
                f"t: expected one time, got {t!r}; components stand in the order of `names`, covariance(t)[i, j]"
            )
        number, rest = divmod(t % self.period, self.tick)
        number = int(number)
        if rest > self.tick * (1 - 1e-9):
            number, rest = (number + 1) % len(self.ticks), 0.0
        moments = self._before[number]
        if not (before and rest < 1e-9 * self.tick):
            moments = self.ticks[number].of(moments)
        P = moments.total
        if rest >= 1e-9 * self.tick:
            P = self._part(rest).of(P)
        return self.shown @ P @ self.shown.T

    def _part(self, time: float) -> Stretch:
        if self.rates is None:
            raise ValueError(
                f"t: what a method delivers is given at ticks, multiples of {self.tick:g}, got a time {time:g} after "
                "one. Leave method and dt out for the exact covariance at any time."
            )
        F, G = self.rates
        return van_loan.discretise(F, G, np.eye(G.shape[1]), time)

    @checks_arguments
    def before(self, name: str) -> np.ndarray:
        """Return the covariance just before a sensor or a part acts, averaged over its samples in the period.

        That before one of them is covariance(t, before=True).

        Parameters
        ----------
        name : str
            A sensor or a part.

        Returns
        -------
        array (n, n)
        """
        return self._at(name, before=True)

    @checks_arguments
    def after(self, name: str) -> np.ndarray:
        """Return the covariance after a sensor or a part has acted, averaged over its samples in the period.

        Parameters
        ----------
        name : str
            A sensor or a part.

        Returns
        -------
        array (n, n)
        """
        return self._at(name, before=False)

    def _at(self, name: str, before: bool) -> np.ndarray:
        if name not in self.events:
            raise ValueError(f"name: there is no sensor or part {name!r}; there are {', '.join(self.events)}")
        numbers = self.events[name]
        if numbers:
            return np.mean([self.covariance(k * self.tick, before=before) for k in numbers], axis=0)
        covariances = [self._at_sample(k, before) for k, tick in enumerate(self.ticks) if tick.act is not None]
        return self.shown @ (sum(covariances) / sum(tick.opens for tick in self.ticks)) @ self.shown.T

    def _at_sample(self, k: int, before: bool) -> np.ndarray:
        """The share of the covariance at jittered samples that comes from those at this tick."""
        tick, (waiting, _, share) = self.ticks[k], self._before[k]
        assert tick.act is not None
        return tick.hazard * (waiting if before else tick.act.of(waiting, share))

    @functools.cached_property
    def average(self) -> np.ndarray:
        """The covariance of the components averaged over time, (n, n)."""
        total = np.zeros((len(self.names),) * 2)
        if self.rates is None:
            for k in range(len(self.ticks)):
                total += self.covariance(k * self.tick)
            return total / len(self.ticks)
        F, G = self.rates
        begun = sum(tick.of(moments).total for tick, moments in zip(self.ticks, self._before, strict=True))
        lasting = van_loan.discretise(F, np.eye(len(F)), begun, self.tick)[1]
        added = quadratic_cost.accumulated(F.T, G @ G.T, self.tick).of_noise
        total = self.shown @ (lasting + len(self.ticks) * added) @ self.shown.T
        return total / (self.tick * len(self.ticks))

    @checks_arguments
    def response(self, start: Mapping[str, float], t: Any) -> np.ndarray:
        """Return how the mean of the loop, begun away from where it rests, goes back.

        Parameters
        ----------
        start : mapping
            Component of the plant -> its deviation at time 0; others begin at rest.
        t : float or array (...)
            Times from 0 on, after what happens at each; of a method, multiples of the tick.

        Returns
        -------
        array (..., n)
            Deviations of the components.
        """
        count = self.entered.shape[1]
        _expect_components("start", start, self.names[:count])
        if any(tick.act is not None for tick in self.ticks):
            raise ValueError("response: the loop has jitter, and its paths have no one response; simulate the loop")
        deviation = np.array([start.get(name, 0.0) for name in self.names[:count]], float)
        times = np.asarray(t, float)
        if not np.all(times >= 0.0):
            raise ValueError(f"t: expected times from 0 on, got {t!r}")
        rows = [self._mean_at(self.entered @ deviation, time) for time in times.ravel()]
        return np.reshape(rows, (*times.shape, len(self.names)))

    def _mean_at(self, mean: np.ndarray, t: float) -> np.ndarray:
        """The components at a time, from the mean of ξ before the first tick."""
        number = int(t / self.tick + 1e-9)
        for k in range(number):
            mean = self.flow.Phi @ self.ticks[k % len(self.ticks)].rest.mean @ mean
        mean, rest = self.ticks[number % len(self.ticks)].rest.mean @ mean, t - number * self.tick
        return self.shown @ (mean if rest < 1e-9 * self.tick else self._part(rest).Phi @ mean)

    @checks_arguments
    def cost(self, weights: Mapping[str, float]) -> float:
        """Return the average over time of Σ w c² over components c.

        Parameters
        ----------
        weights : mapping
            Component -> its weight.

        Returns
        -------
        float
        """
        _expect_components("weights", weights, self.names)
        average = np.diagonal(self.average)
        return float(sum(weight * average[self.names.index(name)] for name, weight in weights.items()))


def _expect_components(argument: str, names: Iterable[str], known: Sequence[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{argument}: there is no component {unknown[0]!r}; there are {', '.join(known)}")


class Drifting(Sampled):
    """A loop whose intervals between samples are drawn independently, so that it has no period.

    `before` and `after` a sensor or a part, `average` and `cost` are those in the long run; its radius is that of the
    covariances from sample to sample.
    """

    def _met(self) -> list[Moments]:
        return _to_the_next_sample(self.begun, self.flow, self.ticks)[0]

    @checks_arguments
    def covariance(self, t: float = 0.0, *, before: bool = False) -> np.ndarray:
        """Refuse: times that drift have no period.

        Parameters
        ----------
        t, before
            As of a loop with a period.
        """
        raise ValueError("t: the times of the samples drift, and the loop has no period; use before, after or average")

    @functools.cached_property
    def average(self) -> np.ndarray:
        """The covariance of the components averaged over time, (n, n)."""
        begun = [Moments(self.begun, 0.0 * self.begun, 1.0)]
        for tick, (waiting, past, share) in zip(self.ticks, self._before, strict=True):
            left = 1.0 - tick.hazard
            begun.append(Moments(left * waiting, past, left * share))
        total, shares = np.sum([one.waiting for one in begun], axis=0), sum(one.share for one in begun)
        if self.rates is not None:
            F, G = self.rates
            lasting = van_loan.discretise(F, np.eye(len(F)), total, self.tick)[1]
            added = quadratic_cost.accumulated(F.T, G @ G.T, self.tick).of_noise
            total = (lasting + shares * added) / self.tick
        return self.shown @ (total / shares) @ self.shown.T


@checks_arguments
def sampled(
    loop: Any, method: Any = None, dt: float | None = None, *, at: Mapping[str, float] | None = None
) -> Sampled:
    """Solve a linear loop without sampling it, or the linear part of another one about a point.

    Parameters
    ----------
    loop : Looped
        From stodyn.with_loop; its plant is linear with additive noise, its parts are affine, and its sensors have no
        limits; time may move what they add, not their matrices. Readings that are rounded to a resolution q have a
        further noise of variance q²/12.
    method, dt : Method or str, float, optional
        Give the covariances that runs with this method and step have; by default those of the exact plant. Jitter is
        counted in steps, so that it needs dt in any case. Where it drifts, everything must act at its times, and there
        are covariances before and after samples and averages, but none at times of a period.
    at : mapping, optional
        Linearise about this point: component of the plant or input -> value. Others are as at the start, the states of
        parts too. The answer is that of small deviations and small noise, and its `law` says so.

    Returns
    -------
    Sampled
        With covariance(t), before(part), after(part), average, cost(weights), response(start, t), radius.

    Raises
    ------
    ValueError
        If something is not affine or changes with time, which is named, or the loop is unstable, with the mode.

    Warns
    -----
    CoarseReadings
        If the noise of a sensor is less than half its resolution: what rounding does then depends on the state.

    Examples
    --------
    >>> import stodyn as sd
    >>> plant = sd.SDE(
    ...     lambda t, x, p: p["u"] + 0 * x, lambda t, x: sd.diagonal([1.0]), start=[0.0], params={"u": 0.0}, names=["x"]
    ... )
    >>> def law(t, own, seen, params):
    ...     return own, -5 * seen["x"]
    >>> law = sd.Part("law", every=0.1, reads=sd.true("x"), writes="u", update=law)
    >>> round(float(sd.analysis.sampled(sd.with_loop(plant, law)).covariance()[0, 0]), 12)
    0.133333333333
    """
    if not isinstance(loop, Looped):
        raise TypeError(f"loop: expected stodyn.with_loop(...), got {type(loop).__name__}")
    if dt is not None and (callable(dt) or np.ndim(dt)):
        raise TypeError("dt: expected one step; steps that differ are not analysed; take sd.simulate(..., dt=...)")
    is_jittered = any(thing.jitter is not None for thing in loop.things)
    if is_jittered and dt is None:
        raise ValueError("dt: jitter is counted in steps; give dt, the step that they have")
    if (method is None) != (dt is None) and not is_jittered:
        raise ValueError("method, dt: give both, for what a run delivers, or neither, for the exact plant")
    _refuse_what_is_not_analysed(loop, method, at)
    with jax.enable_x64(True):
        if method is None:
            functions, question = traces.traced_anew(loop), ("sampled", dt, at)
            solved, messages = kept_traces.of_problem(loop, functions, question, lambda: _solved(loop, None, dt, at))
        else:
            solved, messages = _solved(loop, method, dt, at)
    for message in messages:
        tell(message, CoarseReadings)
    return copy.deepcopy(solved)  # whose arrays are the user's own


def _refuse_what_is_not_analysed(loop: Looped, method: Any, at: Any) -> None:
    refuse_random_params("loop", loop.problem, loop.layout.inputs)
    for sensor in loop.sensors:
        if sensor.range is not None and at is None:
            raise ValueError(f"range ({sensor.name}): is not affine; leave it out, linearise with at=, or simulate")
    for name, look in loop.layout.traces.items():
        if _slopes_move(look.function, *look.arguments):
            raise ValueError(
                f"{name}: its slopes change with time, and the analysis is of loops that repeat themselves; simulate it"
            )
    for part in loop.parts:
        if part.hold == "first" and method is not None:
            raise ValueError(
                f"hold ({part.name}): what steps make of straight lines is not analysed; leave method and dt out, or "
                "simulate the loop"
            )
    _refuse_lines_that_are_read(loop)
    _refuse_jitter(loop)


def _refuse_lines_that_are_read(loop: Looped) -> None:
    lines = [name for part in loop.parts if part.hold == "first" for name in part.writes]
    with jax.enable_x64(True):
        params = jax.tree.map(lambda v: jnp.asarray(v, float), loop.problem.example_params())
        for sensor in loop.sensors if lines else ():
            if read := inputs_read(sensor, loop.problem, params, lines):
                raise ValueError(
                    f"of ({sensor.name}): reads {read[0]}, a straight line between samples, which is not analysed; "
                    'take hold="zero", or simulate the loop'
                )


def _drifts(loop: Looped) -> bool:
    return any(thing.jitter is not None and thing.jitter.drifting for thing in loop.things)


def _refuse_jitter(loop: Looped) -> None:
    """Refuse jitter that is not that of one instant in each period, or of intervals at whose ends everything acts."""
    jittered = [thing for thing in loop.things if thing.jitter is not None]
    for thing in jittered:
        assert thing.jitter is not None
        reason = None
        if thing.times.delay:
            reason = "values that arrive a delay after instants that are drawn"
        elif getattr(thing, "average", None):
            reason = "averages over times that are drawn"
        elif thing.jitter.drifting and len(jittered) < len(loop.things):
            reason = "times that drift beside others"
        elif thing.jitter is not jittered[0].jitter or thing.times[:2] != jittered[0].times[:2]:
            reason = "instants that are late independently of each other"
        elif getattr(thing, "hold", "zero") == "first":
            reason = "straight lines between random times"
        if reason is not None:
            raise ValueError(f"jitter ({thing.name}): {reason} are not analysed; simulate the loop")


def _slopes_move(function: Any, t: Any, *arguments: Any) -> bool:
    """Whether time enters the derivatives of a function (t, ...): not where it moves what is added alone."""

    def along(t: Any, arguments: Any, tangents: Any) -> Any:
        return jax.jvp(lambda *values: function(t, *values), arguments, tangents)[1]

    with jax.enable_x64(True):
        arguments = jax.tree.map(lambda v: jnp.asarray(v, float), arguments)
        jaxpr: Any = jax.make_jaxpr(along)(jnp.asarray(t, float), arguments, arguments).jaxpr
    return bool(partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1][0])


class _Point(NamedTuple):
    """Where a loop is linearised: state and params of the plant; None where it need not be."""

    x: np.ndarray
    params: Any


def _point(loop: Looped, plant: Any, params: Any, at: Mapping[str, float] | None) -> _Point | None:
    if at is None:
        return None
    inputs, names = tuple(loop.layout.inputs), plant.components
    _expect_components("at", at, (*names, *inputs))
    start = np.array(plant.example_start(), float)
    x = np.array([at.get(name, value) for name, value in zip(names, start, strict=True)], float)
    held = {
        name: jnp.broadcast_to(jnp.asarray(at[name], float), jnp.shape(params[name])) for name in inputs if name in at
    }
    return _Point(x, {**params, **held})


def _solved(
    loop: Looped, method: Any, dt: float | None, at: Mapping[str, float] | None
) -> tuple[Sampled, tuple[str, ...]]:
    """The solution, and what is to be told of it."""
    clock = Clock(loop, 0.0, dt if dt is not None else float(loop.tick))
    tick = float(loop.tick) if dt is None or not clock.jitters else dt
    plant = loop.problem if isinstance(loop.problem, SDE) else written_as(loop.problem, SDE)
    if plant is None or plant.n != loop.problem.n:
        raise ValueError(
            f"loop: its plant, a {type(loop.problem).__name__}, has no form as an SDE of its own components; write it "
            "as one, or simulate the loop"
        )
    params = jax.tree.map(lambda v: jnp.asarray(v, float), plant.example_params())
    point = _point(loop, plant, params, at)
    params, x = (params, jnp.zeros(plant.n)) if point is None else (point.params, jnp.asarray(point.x))
    begun, unravel = _begun(loop, clock, params, x)
    flat = uncompiled.value(begun, x) if point is not None else np.zeros(jax.eval_shape(begun, x).shape)
    size, about = flat.size, None if point is None else flat
    lines = _lines(loop, unravel, size)
    rates = _rates(loop, plant, (params, point), unravel, size, lines)
    flow, law, begins = van_loan.discretise(*rates, np.eye(rates[1].shape[1]), tick), "exact", np.zeros((0, size))
    if method is not None:
        assert dt is not None
        flow, begins = _delivered(loop, named(method), dt, clock, unravel, flat, params)
        law = f"{named(method).name}, dt={dt:g}"
    messages = tuple(_coarse_readings(loop, clock, params))
    ticks, events = (_intervals if _drifts(loop) else _jumps)(loop, clock, params, unravel, size, about)
    ticks = tuple(tick._replace(rest=_with_lines(tick.rest, k, clock, lines)) for k, tick in enumerate(ticks))
    if carried := len(begins):
        ticks = tuple(_with_carried(one, k, clock, begins) for k, one in enumerate(ticks))
        rates = np.pad(rates[0], (0, carried)), np.pad(rates[1], ((0, carried), (0, 0)))
    whole = len(rates[0])
    shown = np.pad(_shown(loop, unravel, size), ((0, 0), (0, whole - size)))
    jumps = {id(jump): jump for one in ticks for jump in (one.rest, one.act) if jump is not None}
    keep = _observable(shown, [flow.Phi, rates[0], *(J for jump in jumps.values() for _, J, _ in jump.cases)])
    flow = Stretch(*(matrix[np.ix_(keep, keep)] for matrix in flow))
    reduced = {
        number: Jump(tuple((p, J[np.ix_(keep, keep)], N[keep]) for p, J, N in jump.cases))
        for number, jump in jumps.items()
    }
    ticks = tuple(one._replace(rest=reduced[id(one.rest)], act=reduced.get(id(one.act))) for one in ticks)
    rates, shown = (rates[0][np.ix_(keep, keep)], rates[1][keep]), shown[:, keep]
    radius, P = _stationary(loop, flow, ticks, [_name(loop, column) for column in shown.T])
    entered = uncompiled.value(jax.jacfwd(begun), x)
    entered = np.concatenate([entered, begins @ entered, np.zeros((whole - size - carried, plant.n))])[keep]
    law = law if point is None else f"linearised, {law}"
    kind = Drifting if _drifts(loop) else Sampled
    solved = kind(loop.components, radius, float(loop.period), law, ticks, flow,
                  rates if method is None else None, shown, P, tick, events, entered)  # fmt: skip
    return solved, messages


class _Line(NamedTuple):
    """An input that is a straight line in time: the part that writes it, and the places in ξ of its last value, of its
    slope, and of what it has come to since."""

    part: str
    held: np.ndarray
    slope: np.ndarray
    now: np.ndarray


def _lines(loop: Looped, unravel: Any, size: int) -> dict[str, _Line]:
    """Inputs that are straight lines; what each has come to stands behind all other entries of ξ."""
    held, lines, first = _places(unravel, size)[1].held, {}, size
    for part in loop.parts:
        for name in part.writes if part.hold == "first" else ():
            place, slope = (np.ravel(held[word]) for word in (name, SLOPE.format(name)))
            lines[name] = _Line(part.name, place, slope, first + np.arange(place.size))
            first += place.size
    return lines


def _places(unravel: Any, size: int) -> tuple[np.ndarray, Any]:
    """Where the state of the plant and the registers stand in ξ."""
    return jax.tree.map(lambda v: np.asarray(v, int), unravel(np.arange(size, dtype=float)))


def _with_lines(jump: Jump, tick: int, clock: Clock, lines: Mapping[str, _Line]) -> Jump:
    """A tick with the inputs that are straight lines: each begins anew where a value of its part arrives."""
    if not lines:
        return jump
    more = sum(line.now.size for line in lines.values())
    cases = []
    for chance, J, N in jump.cases:
        J, N = np.pad(J, (0, more)), np.pad(N, ((0, more), (0, 0)))
        for line in lines.values():
            if _is_due(clock, line.part, tick)[1]:
                J[line.now], N[line.now] = J[line.held], N[line.held]
            else:
                J[line.now, line.now] = 1.0
        cases.append((chance, J, N))
    return Jump(tuple(cases))


def _with_carried(tick: Tick, number: int, clock: Clock, begins: np.ndarray) -> Tick:
    """A tick with what a method carries beyond the state, which begins anew where an input may change."""
    moves = bool(clock.moves(number))

    def carried(jump: Jump) -> Jump:
        cases = []
        for chance, J, N in jump.cases:
            rows, keep = begins * moves, np.eye(len(begins)) * (not moves)
            J = np.block([[J, np.zeros((len(J), len(keep)))], [rows @ J, keep]])
            cases.append((chance, J, np.concatenate([N, rows @ N])))
        return Jump(tuple(cases))

    return tick._replace(rest=carried(tick.rest), act=None if tick.act is None else carried(tick.act))


def _coarse_readings(loop: Looped, clock: Clock, params: Any) -> Iterator[str]:
    """Where noise is too small beside a resolution for rounding to be a noise, in words: from half of it on the
    variance q²/12 is right to 2.4 %, at a fifth it is ten times too large."""
    for sensor in loop.sensors:
        if sensor.resolution is None:
            continue
        variance = sensor.noise.variance if isinstance(sensor.noise, Distribution) else 0.0
        if sensor.name in clock.recursions:
            law = clock.recursions[sensor.name]
            coloured = np.sum((law.C @ law.start) ** 2, axis=1)
            variance = variance + np.min(np.asarray(law.white(params), float) ** 2 + coloured)
        size = math.sqrt(variance)
        if size < LEAST_NOISE * sensor.resolution:
            yield (
                f"resolution ({sensor.name}): {sensor.resolution:g} is coarse beside the noise of a reading, "
                f"{size:.3g}; below half a resolution rounding is no noise of variance q²/12, as taken here. "
                "Simulate the loop."
            )


def _begun(loop: Looped, clock: Clock, params: Any, x: Any) -> tuple[Any, Any]:
    """ξ before the first tick, without noise, as a function of the plant's state; and how it is taken apart."""
    normals = jnp.zeros(sum(recursion.start.shape[1] for recursion in clock.recursions.values()))

    def begun(x: Any) -> Any:
        return x, _Probe(loop, clock, params, normals, {}).begun(0.0, x, None)

    def flat(x: Any) -> Any:
        return ravel_pytree(jax.tree.map(lambda v: jnp.asarray(v, float), begun(x)))[0]

    shapes = jax.eval_shape(begun, x)
    return flat, ravel_pytree(jax.tree.map(lambda v: np.zeros(v.shape), shapes))[1]


def _rates(
    loop: Looped, plant: Any, where: tuple[Any, _Point | None], unravel: Any, size: int, lines: Mapping[str, _Line]
) -> tuple[np.ndarray, np.ndarray]:
    """F and G of dξ = F ξ dt + G dW, rows of registers zero, those of averages what they average, those of straight
    lines their slopes."""
    params, point = where
    if point is None and not plant.noise_structure.implies("additive"):
        raise ValueError(
            f"loop: the noise of the plant is {plant.noise_structure}; an exact analysis needs additive noise. "
            "Linearise with at=, or simulate the loop"
        )
    _refuse_moving_plant(plant, params, loop.layout.inputs)
    places, registers = _places(unravel, size)
    inputs = {name: np.ravel(registers.held[name]) for name in loop.layout.inputs}
    about = None if point is None else point.x
    rates = affine_rates("loop: the plant is", plant, params, tuple(inputs), about, LINEARISE)
    whole = size + sum(line.now.size for line in lines.values())
    F, G = np.zeros((whole, whole)), np.zeros((whole, rates.G.shape[1]))
    for name, line in lines.items():
        inputs[name], F[line.now, line.slope] = line.now, 1.0
    held = np.concatenate([places[:0], *inputs.values()])
    F[np.ix_(places, places)], F[np.ix_(places, held)], G[places] = rates.A, rates.B, rates.G
    columns = np.concatenate([places, held])
    for sensor in loop.sensors:
        if sensor.average:
            reading = functools.partial(_reading, sensor, loop.problem, params, tuple(inputs))
            words, sizes = f"of ({sensor.name}): the reading is", [np.ravel(params[name]) for name in inputs]
            zero, both = np.zeros(len(columns)), None if about is None else np.concatenate([about, *sizes])
            H = affine(words, reading, zero, LINEARISE)[0] if both is None else derivative(reading, both)
            F[np.ix_(registers.sums[sensor.name], columns)] = H
    return F, G


def _refuse_moving_plant(plant: Any, params: Any, inputs: Iterable[str]) -> None:
    """Refuse a plant whose slopes or noise change with time; what is added may move."""
    x = np.asarray(plant.example_start(), float)
    held = {name: params[name] for name in inputs}
    moves = _slopes_move(lambda t, x, held: plant.f(t, x, {**params, **held} if held else params), 0.0, x, held)
    if moves or depends_on_time(plant.g, x, params):
        raise ValueError(
            "loop: the slopes or the noise of the plant change with time, and the analysis is of loops that repeat "
            "themselves; simulate the loop, or analyse the plant as it is at one time"
        )


def _reading(sensor: Any, plant: Any, params: Any, inputs: tuple[str, ...], both: Any) -> Any:
    """What a sensor reads of the state and the inputs, one after the other."""
    held, first = {}, plant.n
    for name in inputs:
        shape = jnp.shape(params[name])
        held[name] = both[first : first + math.prod(shape)].reshape(shape)
        first += math.prod(shape)
    return sensor.value(plant, 0.0, both[: plant.n], {**params, **held})


def _delivered(
    loop: Looped, method: Any, dt: float, clock: Clock, unravel: Any, about: Any, params: Any
) -> tuple[Stretch, np.ndarray]:
    """One tick by steps of a method with the inputs held: Φ and Q of the product of its steps. What a method carries
    beyond the state stands behind all other entries of ξ; the rows are how it begins, given these."""
    stepped = matched(loop.problem, method)[0]
    ready = in_steps(method.prepared(stepped, dt), loop, dt)
    needs = ready.needs.normals(stepped.m)
    counts = [(name, count) for name, count in needs.items() if count]

    def begin(flat: Any) -> Any:
        x, registers = unravel(flat)
        return ready.start(stepped, 0.0, x, {**params, **registers.held}), registers

    parts = ravel_pytree(jax.tree.map(lambda v: jnp.zeros(v.shape), jax.eval_shape(begin, about)))[1]

    def step(flat: Any, normals: Any) -> Any:
        inner, registers = parts(flat)
        z, first = {name: jnp.zeros(0) for name, count in needs.items() if not count}, 0
        for name, count in counts:
            z[name], first = normals[first : first + count], first + count
        noise = ready.needs.increment(dt, z, stepped.m)
        after = ready.step(stepped, 0.0, inner, noise, {**params, **registers.held})[0]
        sums = dict(registers.sums)
        for s in loop.sensors:
            if s.average:
                felt = {**params, **registers.held}
                values = [s.value(loop.problem, 0.0, ready.read(y), felt) for y in (inner, after)]
                sums[s.name] = sums[s.name] + 0.5 * dt * (values[0] + values[1])
        return ravel_pytree((after, registers._replace(sums=sums)))[0]

    def end(flat: Any) -> Any:
        inner, registers = parts(flat)
        return ravel_pytree((ready.read(inner), registers))[0]

    place = uncompiled.value(lambda flat: ravel_pytree(begin(flat))[0], about)
    normals = jnp.zeros(sum(count for _, count in counts))
    Phi, N = (np.array(uncompiled.value(jax.jacfwd(step, argnums=k), place, normals)) for k in (0, 1))
    steps = Stretch(Phi, N @ N.T).repeated(clock.steps)
    enter, leave = derivative(lambda flat: ravel_pytree(begin(flat))[0], about), derivative(end, place)
    size, held = len(about), len(about) - loop.problem.n
    kind: Any = type(ready)
    if kind.start is Method.start or all(map(clock.moves, range(_ticks_of(clock)))):  # nothing to carry
        return Stretch(leave @ steps.Phi @ enter, leave @ steps.Q @ leave.T), np.zeros((0, size))
    carried = len(place) - held
    enter_there = np.eye(len(place), size + carried, size)
    enter_there[carried:, size - held : size] = np.eye(held)
    leave = np.concatenate([leave, np.eye(carried, len(place))])
    return Stretch(leave @ steps.Phi @ enter_there, leave @ steps.Q @ leave.T), enter[:carried]


def _ticks_of(clock: Clock) -> int:
    """How many ticks a period of a loop has."""
    return math.lcm(*(every for every, _, _ in clock.times.values()))


def _jumps(
    loop: Looped, clock: Clock, params: Any, unravel: Any, size: int, about: Any
) -> tuple[tuple[Tick, ...], dict[str, tuple[int, ...]]]:
    """The ticks of a period, once all phases and delays have passed, and when everything acts at times of its own."""
    count = _ticks_of(clock)
    longest = max(sum(clock.times[thing.name][1:]) + clock.times[thing.name][0] for thing in loop.things)
    first = count * (1 + -(-longest // count))
    fed = _acting(loop, clock, params, unravel, size, about)
    known: dict[tuple, Jump] = {}
    ticks: list[Tick] = []
    events: dict[str, list[int]] = {thing.name: [] for thing in loop.things}
    for k in range(count):
        due = {name: _is_due(clock, name, k) for name in events}
        for name, (is_due, _) in due.items():
            if is_due:
                events[name].append(k)

        def jump(acts: bool, k: int = k, due: Mapping[str, tuple[bool, bool]] = due) -> Jump:
            kind = acts, *due.values()
            if kind not in known:
                here = {name: acts if name in clock.jitters else now for name, (now, _) in due.items()}
                known[kind] = _jump(loop, fed, size, first + k, here, acts)
            return known[kind]

        hazard, opens = _hazard(loop, clock, k)
        ticks.append(Tick(jump(False), jump(True) if hazard else None, hazard, opens))
    return tuple(ticks), {name: tuple(numbers) for name, numbers in events.items()}


def _intervals(
    loop: Looped, clock: Clock, params: Any, unravel: Any, size: int, about: Any
) -> tuple[tuple[Tick, ...], dict[str, tuple[int, ...]]]:
    """The ticks from one sample to the last at which the next may fall, where intervals are drawn."""
    thing = loop.things[0]
    assert thing.jitter is not None
    every, most = clock.times[thing.name][0], thing.jitter.steps
    fed = _acting(loop, clock, params, unravel, size, about)
    due = {other.name: True for other in loop.things}
    rest, act = (_jump(loop, fed, size, every, {name: acts for name in due}, acts) for acts in (False, True))
    window = range(every + most, every - most - 1, -1)  # from the last on: shares of those that still wait
    hazards = {tick: 1.0 / (1 + place) for place, tick in enumerate(window)}
    ticks = [
        Tick(rest, act if tick in hazards else None, hazards.get(tick, 0.0), tick == 1)
        for tick in range(1, every + most + 1)
    ]
    return tuple(ticks), {name: () for name in due}


def _hazard(loop: Looped, clock: Clock, tick: int) -> tuple[float, bool]:
    """The share of the paths waiting for a jittered sample that take it at a tick, and whether they begin to wait."""
    thing = next((thing for thing in loop.things if thing.jitter is not None), None)
    if thing is None or thing.jitter is None:
        return 0.0, False
    every, phase, _ = clock.times[thing.name]
    window = 2 * thing.jitter.steps + 1
    place = (tick - phase + thing.jitter.steps) % every
    return (1.0 / (window - place), place == 0) if place < window else (0.0, False)


def _is_due(clock: Clock, name: str, tick: int) -> tuple[bool, bool]:
    """Whether a thing acts at a tick by its period, and whether something of it arrives."""
    every, phase, delay = clock.times[name]
    if name in clock.jitters:
        return False, False
    return (tick - phase) % every == 0, (tick - phase - delay) % every == 0


def _acting(loop: Looped, clock: Clock, params: Any, unravel: Any, size: int, about: Any) -> _Fed:
    """What a tick makes of ξ and the normals of its readings, for its number and the readings that are lost."""
    losing = [sensor.name for sensor in loop.sensors if sensor.loss]
    readings = loop.layout.readings
    normals = sum(readings[name] + law.drive.shape[1] for name, law in clock.recursions.items())
    normals += sum(readings[s.name] for s in loop.sensors if isinstance(s.noise, Distribution))
    normals += sum(readings[s.name] for s in loop.sensors if s.resolution is not None)

    def acted(both: Any, tick: Any, acts: Any, *lost: Any) -> Any:
        x, registers = unravel(both[:size])
        probe = _Probe(loop, clock, params, both[size:], dict(zip(losing, lost, strict=True)), acts)
        return ravel_pytree((x, probe.acted(0.0, tick, x, registers)))[0]

    point = None if about is None else np.concatenate([about, np.zeros(normals)])
    fed = _Fed(acted, size + normals, np.int32(0), np.False_, *(np.False_ for _ in losing), about=point)
    if not fed.is_affine:
        raise ValueError(
            f"loop: what happens at a tick is not proved to be affine: look for products, limits or branches "
            f"in the updates of {', '.join(part.name for part in loop.parts)}, or linearise with at="
        )
    return fed


def _jump(loop: Looped, fed: _Fed, size: int, tick: int, due: Mapping[str, bool], acts: bool) -> Jump:
    """One tick: a case for every set of readings that may be lost in it; `acts`: what is jittered does."""
    losing = [sensor for sensor in loop.sensors if sensor.loss]
    choices = [((False, 1.0 - s.loss), (True, s.loss)) if due[s.name] else ((False, 1.0),) for s in losing]
    cases = []
    for case in itertools.product(*choices):
        matrix = fed.matrix(np.int32(tick), np.bool_(acts), *(np.bool_(is_lost) for is_lost, _ in case))
        cases.append((math.prod(chance for _, chance in case), matrix[:, :size], matrix[:, size:]))
    return Jump(tuple(cases))


def _observable(shown: np.ndarray, matrices: list[np.ndarray]) -> np.ndarray:
    """The entries of ξ on which any component, now or later, depends; not free integrators that nobody reads."""
    depends = np.any([matrix != 0.0 for matrix in matrices], axis=0)
    wanted = np.any(shown != 0.0, axis=0)
    while True:
        more = wanted | np.any(depends[wanted], axis=0)
        if (more == wanted).all():
            return np.flatnonzero(wanted)
        wanted = more


def _shown(loop: Looped, unravel: Any, size: int) -> np.ndarray:
    """The components of a run as rows over ξ."""

    def read(flat: Any) -> Any:
        x, registers = unravel(flat)
        return jnp.concatenate([x, *(jnp.ravel(value) for value in Loop.shown(loop, registers))])

    return _Fed(read, size).matrix()


def _name(loop: Looped, column: np.ndarray) -> str:
    row = np.flatnonzero(column)
    return loop.components[row[0]] if row.size else "a value on its way"


def _stationary(loop: Looped, flow: Stretch, ticks: tuple[Tick, ...], names: list[str]) -> tuple[float, np.ndarray]:
    """The radius over a period, and P just before its first tick; where intervals are drawn, the radius from sample to
    sample, and P after a sample."""
    if _drifts(loop):
        return _random_stationary(loop, flow, lambda P: _to_the_next_sample(P, flow, ticks)[1].past, names)
    over_period = _over_period(flow, ticks)
    if over_period is not None:
        M, C = over_period
        values, vectors = np.linalg.eig(M)
        radius = float(np.abs(values).max())
        if radius >= 1.0 - lyapunov.LEAST_DECAY:
            _refuse_unstable(loop, "unstable", values, np.abs(vectors), names)
        return radius, lyapunov.discrete(M, C)
    first = _first(ticks)

    def over(P: np.ndarray) -> np.ndarray:
        moments = Moments(0.0 * P, P, 0.0)
        for k in (*range(first, len(ticks)), *range(first)):
            moments = ticks[k].of(moments).after(flow)
        return moments.total

    return _random_stationary(loop, flow, over, names)


def _over_period(flow: Stretch, ticks: tuple[Tick, ...]) -> Stretch | None:
    """What a period makes of ξ just before its first tick; None where that is random."""
    if not all(len(tick.rest.cases) == 1 and tick.act is None for tick in ticks):
        return None
    M, C = np.eye(len(flow.Phi)), np.zeros_like(flow.Q)
    for tick in ticks:
        ((_, J, N),) = tick.rest.cases
        step = flow.Phi @ J
        M, C = step @ M, step @ C @ step.T + flow.Phi @ N @ N.T @ flow.Phi.T + flow.Q
    return Stretch(M, C)


def _first(ticks: tuple[Tick, ...]) -> int:
    """The tick at which a period is begun: one at which no path waits for a jittered sample yet."""
    return next((k for k, tick in enumerate(ticks) if tick.opens), 0)


def _random_stationary(
    loop: Looped, flow: Stretch, over: Callable[[np.ndarray], np.ndarray], names: list[str]
) -> tuple[float, np.ndarray]:
    """The spectral radius and the stationary covariance where cases are random: from what a period makes of nothing,
    and of each entry of P by itself."""
    n = len(flow.Phi)
    if n > MOST_RANDOM:
        raise ValueError(f"loop: covariances with random times or losses are solved for up to {MOST_RANDOM} states, "
                         f"got {n}")  # fmt: skip
    rows, columns = np.triu_indices(n)
    units = np.zeros((1 + len(rows), n, n))
    number = np.arange(1, 1 + len(rows))
    units[number, rows, columns] = units[number, columns, rows] = 1.0
    C, *entries = over(units)
    after = np.array(entries) - C
    operator = after[:, rows, columns].T
    values, vectors = np.linalg.eig(operator)
    radius = float(np.abs(values).max())
    if radius >= 1.0 - lyapunov.LEAST_DECAY:
        _refuse_unstable(loop, "unstable in mean square", values, np.sqrt(np.abs(vectors[rows == columns])), names)
    P = np.zeros((n, n))
    P[rows, columns] = P[columns, rows] = np.linalg.solve(np.eye(len(rows)) - operator, C[rows, columns])
    return radius, P


def _refuse_unstable(loop: Looped, words: str, values: np.ndarray, sizes: np.ndarray, names: list[str]) -> None:
    """Name the mode that grows: `sizes` of each entry of ξ, for each of the values."""
    worst = int(np.argmax(np.abs(values)))
    shape = sizes[:, worst]
    largest = [names[k] for k in np.argsort(-shape)[:3] if shape[k] > 0.1 * shape.max()]
    drifts = (
        "; nothing in the loop holds it, so that it drifts without end. Feed it back, or leave it out of the plant: "
    )
    drifts += "the difference of two readings of a place is the average of its rate, Sensor(of=rate, average=True)"
    raise ValueError(
        f"loop: {words}, its mode with the factor {abs(values[worst]):.8g} in a period of {float(loop.period):g} is "
        f"that of {', '.join(dict.fromkeys(largest))}{drifts if abs(abs(values[worst]) - 1.0) < MARGIN else ''}"
    )
