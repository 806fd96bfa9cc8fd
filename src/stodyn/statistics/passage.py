"""First passage: when a function of the state first reaches a level.

Each path carries the probability s, given the path on the grid, that the level has not been reached yet, and its
integral; s falls in a step by the chance of a crossing within it (problems.level), so that nothing is drawn:

    survival S(t) = E s;   restricted mean E min(τ, t) = E ∫ s;   between two observations, s falling by d on the way:
    density E d/Δ;         hazard ln(S_before/S)/Δ;               errors from sums over paths of s, d, ∫ s and products
    E τ = E min(τ, T) + S(T)/λ, where the hazard λ is constant at the end (λ over the last tenth of the time)

Constant: at none of several marks near the end does λ change by more than CHANGE standard errors. That of λ over a
while follows from its error over all of them, for it falls with the time that paths spend on the way to the level
there, as for events that are counted; the own error of a while with hardly any would be nothing.

A path that fails keeps its s: a level reached before the failure counts, and after it the level is never reached.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.numerics import crossing, uncompiled
from stodyn.numerics.rarely import rarely
from stodyn.problems.level import BRIDGE, CUBIC, GRID, Gauge, Level
from stodyn.statistics import intervals
from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.moments import Averaged, Summary, summarise
from stodyn.warnings import Censored

COMPLETE = 1e-3  # survival at the end, up to which a mean is complete
MARKS, LATEST = (0.6, 0.8, 0.9, 0.97), 2  # shares of the time at which survival is stored; λ is that after the latest
CHANGE = 2.5  # standard errors of a change of the hazard at a mark; one in 25 constant hazards goes beyond at some mark
FAR = 3.0  # standard deviations of a step; where both ends are farther off, the chance of a crossing is below 2e-8
FEW_COMPONENTS, FEW_HALVINGS = 8, 12  # components up to which rare cases take loops; halvings of a root without them
FEW = 16  # observation times that are compared one by one
SURVIVAL, TIME, FALL, FAILED = range(4)  # values per path; for the mean there follow those at the marks, and f
AT_MARKS, VALUE = slice(4, 4 + len(MARKS)), 4 + len(MARKS)


class Track(NamedTuple):
    """The numbers each path carries. They change only in a step that may have reached the level and did not fail.

    survival  the probability s that the level has not been reached
    time      the integral of s up to the time `when`, where the latest such step ended
    last      s at the beginning of the observation interval that holds `when`
    at_marks  s at the marks near the end; empty where no mean is wanted
    """

    survival: Array
    time: Array
    when: Array
    last: Array
    at_marks: tuple[Array, ...]


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Passage(Averaged):
    """The law of the first time τ at which a function of the state reaches a level.

    A path may reach the level and come back between two steps. Where noise enters the function, the chance of that is
    taken from the Brownian bridge between its two values, measured in units of noise; where noise enters only its rate
    (positions), from Hermite's cubic through values and rates; where neither is known, crossings are detected only at
    grid points, and τ comes out late by O(√h), with a warning. P(τ > t) has weak order 1 with the bridge, 2 for
    additive noise and a method of weak order 2, and ½ on the grid alone. Nothing is drawn. Crossings whose chance in a
    step is below 2e-8 may not be counted; that changes the hazard by at most 2e-8 of itself.

    Parameters
    ----------
    level : number, function, pair or Level
        As for `sd.Level`: a number, a function level(t[, params]), a pair (low, high) that the path leaves, or a
        complete Level.
    of : str, int or function
        A component by its name or number, or of(t, x[, params]) -> number.
    direction : "up" or "down"
        Whether the level is reached from below (the default) or from above.
    bridge : bool
        False: crossings are detected only at the times of the steps.
    mean : bool
        False: E τ is not estimated, and there is no warning where the run was too short for it.
    name : str
        The name under which the variables appear in the result.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times; by default on the run's own grid.

    Notes
    -----
    Variables, with NAME for `name`, each with NAME_..._stderr: at the observation times (time) NAME_survival = P(τ > t)
    and NAME_restricted_mean = E min(τ, t); over the intervals between them (NAME_middle) NAME_density, NAME_hazard and,
    without an error, NAME_at_risk, how many paths enter the interval; and the number NAME_mean = E τ. NAME_mean_kind
    says what that number is: "complete" (at most one path in a thousand is left, and its share S/λ is added),
    "extrapolated" (the hazard was constant over the last two fifths of the time, and S/λ is added), or "bound"
    (E min(τ, T), a lower bound). For the last two a warning `Censored` says what is missing; where S/λ is added, also
    how large a change of the hazard near the end would not have been noticed.
    Intervals of survival, restricted mean, density and hazard: `results.interval`.

    Where paths fail (on_failure="record"), one that had reached the level before counts as any other; one that had not
    counts as a path that never reaches it. NAME_failed (time) is the part of the survival that such paths make up,
    which no error bar holds: had they not failed, P(τ > t) would lie between NAME_survival - NAME_failed and
    NAME_survival. The hazard is that of the paths that have not failed. A path whose `of` is NaN counts as failed.

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> passage = st.Passage(2.0, of="x", every=16)
    """

    counts_failed = True
    refuses_stops = "weighs crossings, but a stop decides them: read stop_time and alive from the run instead"

    level: Any = dataclasses.field(kw_only=False)
    of: Any = dataclasses.field(kw_only=False, default=0)
    direction: str | None = None
    bridge: bool = True
    mean: bool = True
    name: str = "passage"
    gauge: Any = dataclasses.field(default=None, init=False, repr=False)
    over_step: Any = dataclasses.field(default=None, init=False, repr=False)
    observed_at: Any = dataclasses.field(default=(), init=False, repr=False)
    marks: Any = dataclasses.field(default=(), init=False, repr=False)
    tolerance: float = dataclasses.field(default=0.0, init=False, repr=False)

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.level, Level):
            if self.of != 0 or self.direction is not None:
                raise ValueError("Passage: level is a Level, which has its own of and direction; leave them out here")
        else:
            with _prefixed_errors():
                Level(self.level, self.of, self.direction)
        for name in ("bridge", "mean"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"Passage: {name} must be True or False, got {getattr(self, name)!r}")
        if not isinstance(self.name, str):
            raise TypeError(f"Passage: name must be a word, got {self.name!r}")

    # --- before the run -----------------------------------------------------------------------------------------------

    def prepared(self, problem, times):
        level = self.level if isinstance(self.level, Level) else Level(self.level, self.of, self.direction)
        with _prefixed_errors():
            gauge = level.on(problem)
        if self.bridge:
            gauge.warn_of_grid("Passage", "Take a differential component of the state, or pass bridge=False.")
        return self._with(gauge=gauge, observed_at=np.asarray(times, float))

    def stepped_by(self, method, times):
        with _prefixed_errors():
            self.gauge.check_order(float(times[0]))
        reached = self.gauge.reached_at_start(float(times[0]))
        if reached is not None:
            raise ValueError(f"Passage: {reached}")
        how = self.gauge.known[0] if self.bridge else GRID
        freezes = method.freezes_noise(self.gauge.problem)
        gauge = self.gauge
        over_step = {BRIDGE: _Bridged(gauge, freezes), CUBIC: _Followed(gauge), GRID: _SeenAfterStep(gauge)}[how]
        over_step.check(float(times[0]), float(np.diff(times).max()))
        until = times[times <= self.observed_at[-1]]
        wanted = times[0] + np.array(MARKS) * (until[-1] - times[0])
        inner = until[: max(len(until) - 1, 1)]
        marks = inner[np.abs(inner[:, None] - wanted).argmin(axis=0)]
        return self._with(
            over_step=over_step,
            marks=(float(times[0]), *map(float, marks)),
            tolerance=0.25 * float(np.diff(times).min()),
        )

    def _with(self, **fields: Any) -> Passage:
        """A copy with some of the fields that preparation sets."""
        ready = dataclasses.replace(self)
        carried = {name: getattr(self, name) for name in ("gauge", "over_step", "observed_at", "marks", "tolerance")}
        for name, value in (carried | fields).items():
            object.__setattr__(ready, name, value)
        return ready

    # --- along a path -------------------------------------------------------------------------------------------------

    def track_start(self, t, x, params):
        def alive(x, params):
            has_reached = self._is_known(t, x, params) & jnp.any(self.gauge.distances(t, x, params) <= 0)
            return jnp.where(has_reached, 0.0, 1.0).astype(x.dtype)

        begun = jax.vmap(alive, in_axes=(-1, self._axes(params, x)))(x, params)
        at_marks = (begun,) * len(MARKS) if self.mean else ()
        return Track(begun, jnp.zeros_like(begun), jnp.full_like(begun, t), begun, at_marks)

    def _is_known(self, t: Array, x: Array, params: Any) -> Array:
        """Whether a path has not failed and the function of its state has a value."""
        return jnp.all(jnp.isfinite(x)) & ~jnp.isnan(self.gauge.value(t, x, params))

    def _axes(self, params: Any, x: Array) -> Any:
        """The axes of the leaves of the parameters: -1 for those whose shape has an axis of lanes, else None."""
        examples = self.gauge.problem.example_params()
        return jax.tree.map(lambda leaf, one: -1 if np.ndim(leaf) > np.ndim(one) else None, params, examples)

    def track(self, gathered, move):
        over = jax.vmap(self._over_step, in_axes=(-1, None, None, -1, -1, move.axes), out_axes=-1)
        return over(gathered, move.t, move.h, move.before, move.after, move.params)

    def _over_step(self, track: Track, t, h, before: Array, after: Array, params) -> Track:
        """The numbers one path carries after a step."""
        is_possible, law = self.over_step(t, h, before, after, params)

        def fallen(track: Track) -> Track:
            reached, lost = law()
            s = track.survival
            left = s * (1.0 - reached)
            time = track.time + s * ((t - track.when) + h * (1.0 - lost))
            is_new = self._interval(t + self.tolerance) != self._interval(track.when - self.tolerance)
            marked = zip(self.marks[1:], track.at_marks, strict=False)
            at_marks = tuple(jnp.where(t + self.tolerance < mark, left, old) for mark, old in marked)
            new = Track(left, time, t + h + 0.0 * s, jnp.where(is_new, s, track.last), at_marks)
            is_known = self._is_known(t + h, after, params) & jnp.isfinite(reached)
            return jax.tree.map(lambda a, b: jnp.where(is_known, a, b), new, track)

        def of_those_left(track: Track) -> Track:
            return rarely(is_possible & (track.survival > 0.0), fallen, track)

        if not _loops(self.gauge):
            return rarely(is_possible & (track.survival > 0.0), fallen, track, loops=False)
        return rarely(is_possible, of_those_left, track)

    def _interval(self, t: Array) -> Array:
        """The number of observation times up to t, which identifies the interval that t lies in."""
        points = self.observed_at
        apart = np.diff(points)
        if len(points) > 2 and np.ptp(apart) < 1e-6 * apart[0]:
            return jnp.maximum(jnp.floor((t - points[0]) * (1.0 / apart.mean())), -1.0)
        if len(points) <= FEW:
            return sum((jnp.where(t >= look, 1.0, 0.0) for look in points), jnp.zeros_like(t))
        return jnp.searchsorted(jnp.asarray(points, t.dtype), t, side="right").astype(t.dtype)

    def values(self, snapshot):
        track, t = snapshot.track, snapshot.t
        is_open = self._interval(t - self.tolerance) == self._interval(track.when - self.tolerance)
        fall = jnp.where(is_open, track.last - track.survival, 0.0)
        extra, axes = ((), ()) if snapshot.params is None else ((snapshot.params,), (snapshot.axes,))

        def of_each(function):
            return jax.vmap(lambda x, *p: function(t, x, *(p or (None,))), in_axes=(-1, *axes))(snapshot.x, *extra)

        is_known = of_each(self._is_known)
        failed = jnp.where(is_known, 0.0, track.survival)
        own = [track.survival, track.time + (t - track.when) * track.survival, fall, failed]
        if not self.mean:
            return jnp.stack(own)
        value = of_each(self.gauge.value)
        return jnp.stack([*own, *track.at_marks, jnp.where(jnp.isfinite(value), value, 0.0)])

    # --- the result ---------------------------------------------------------------------------------------------------

    def means(self):
        return {f"{self.name}_survival": slice(0, 1), f"{self.name}_restricted_mean": slice(1, 2)}

    def label(self, result, labels):
        summary = summarise(result)
        count = np.asarray(result.weight, float)
        how = "grid: bridge=False" if not self.bridge else ": ".join(self.gauge.known)
        variables = {
            "survival": Variable(
                ("time",),
                summary.mean[:, SURVIVAL],
                {"between_steps": how} | intervals.attributes(intervals.BINOMIAL, count),
            ),
            "survival_stderr": Variable(("time",), summary.mean_stderr[:, SURVIVAL]),
            "restricted_mean": Variable(
                ("time",),
                summary.mean[:, TIME],
                intervals.attributes(intervals.BOUNDED, count, labels.times - self.marks[0]),
            ),
            "restricted_mean_stderr": Variable(("time",), summary.mean_stderr[:, TIME]),
            "failed": Variable(("time",), summary.mean[:, FAILED]),
        }
        middle, between = self._between(summary, count, labels.times)
        variables |= {name: Variable((f"{self.name}_middle",), *values) for name, values in between.items()}
        warned: tuple[Warning, ...] = self._failed(summary, count[-1], float(labels.times[-1]))
        if self.mean:
            mean = _mean(summary, count, labels.times[-1], self.marks)
            variables |= {
                "mean": Variable((), np.asarray(mean.value)),
                "mean_stderr": Variable((), np.asarray(mean.stderr)),
                "mean_kind": Variable((), np.asarray(mean.kind)),
            }
            warned += self._warnings(mean, summary, count[-1], float(labels.times[-1]))
        coords = {f"{self.name}_middle": Variable((f"{self.name}_middle",), middle)}
        return Labelled({f"{self.name}_{name}": v for name, v in variables.items()}, coords, warned)

    def _between(self, summary: Summary, count: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """The middles of the intervals that end at an observation, and density and hazard over them with errors."""
        ends = np.flatnonzero(times > self.marks[0])
        before = np.where(ends > 0, times[ends - 1], self.marks[0])
        length = times[ends] - before
        S, fall = summary.mean[ends, SURVIVAL] - summary.mean[ends, FAILED], summary.mean[ends, FALL]
        covariance = summary.covariance[ends] / count[ends, None, None]  # type: ignore[index]
        with np.errstate(divide="ignore", invalid="ignore"):
            hazard = np.where(S > 0, np.log1p(fall / S), np.nan) / length
            slopes = np.zeros((len(ends), summary.mean.shape[1]))
            slopes[:, SURVIVAL], slopes[:, FALL] = -fall / (S * (S + fall)) / length, 1.0 / (S + fall) / length
            slopes[:, FAILED] = -slopes[:, SURVIVAL]
            error = np.sqrt(np.einsum("ti,tij,tj->t", slopes, covariance, slopes))
        return 0.5 * (before + times[ends]), {
            "density": (fall / length, intervals.attributes(intervals.BINOMIAL, count[ends], length)),
            "density_stderr": (summary.mean_stderr[ends, FALL] / length,),
            "hazard": (hazard, intervals.attributes(intervals.HAZARD, f"{self.name}_at_risk", length)),
            "hazard_stderr": (np.where(S > 0, error, np.nan),),
            "at_risk": (count[ends] * (S + fall),),
        }

    def _failed(self, summary: Summary, count: float, end: float) -> tuple[Warning, ...]:
        """The warning about paths that failed before they had reached the level."""
        S, failed = summary.mean[-1, SURVIVAL], summary.mean[-1, FAILED]
        if failed <= 0.0:
            return ()
        return (
            Censored(
                f"{self.name}: of {count:.0f} paths, {count * failed:.6g} failed before they had reached the level. "
                f"They count as paths that never reach it; had they not failed, P(τ > {end:g}) would lie between "
                f"{S - failed:.4g} and {S:.4g}."
            ),
        )

    def _warnings(self, mean: _Mean, summary: Summary, count: float, end: float) -> tuple[Warning, ...]:
        """The warnings that the mean calls for."""
        S, words, any_failed = summary.mean[-1, SURVIVAL], self.gauge.words, summary.mean[-1, FAILED] > 0.0
        if count * (1.0 - S) < 1.0:
            where = f" ({words} was {summary.mean[-1, VALUE]:.3g} there, with a standard deviation of "
            where += f"{np.sqrt(summary.variance[-1, VALUE]):.3g}{self._levels(end)})"
            return (
                Censored(
                    f"{self.name}: none of {count:.0f} paths reached the level before t = {end:g}"
                    f"{'' if any_failed else where}, so all "
                    f"that is known about the mean is that P(τ > {end:g}) > {max(1 - 3 / count, 0):.6g}, with 95 % "
                    "confidence. Run longer, give more paths, or use stodyn.rare for a rare event; mean=False leaves "
                    "the mean out."
                ),
            )
        if mean.kind == "complete":
            return ()
        left = (
            f"{self.name}: {100 * S:.3g} % of the paths had not reached the level when the run ended at t = {end:g}. "
        )
        remedy = "Run longer to know more; mean=False leaves the mean out."
        if mean.kind == "extrapolated":
            return (
                Censored(
                    f"{left}Of the mean {mean.value:.4g}, {mean.added:.4g} is extrapolated from the hazard at the end, "
                    f"which was constant as far as these paths tell: after t = {self.marks[-1]:.4g}, a change by less "
                    f"than {100 * mean.unnoticed:.2g} % would not have been noticed. {remedy}"
                ),
            )
        why = "the hazard was not constant at the end, or is not known well enough to extrapolate"
        return (
            Censored(
                f"{left}The mean {mean.value:.4g} is that of min(τ, {end:g}), a lower bound of the mean of τ: "
                f"{'paths that failed never reach it' if any_failed else why}. {remedy}"
            ),
        )

    def _levels(self, t: float) -> str:
        """The levels in words; nothing for those that move."""
        if any(map(callable, self.gauge.level.bounds)):
            return ""
        numbers = " and ".join(f"{bound:g}" for bound in self.gauge.level.bounds)
        return f"; the level is {numbers}"


class _Mean(NamedTuple):
    """The mean passage time as far as it is known.

    added      the part that is extrapolated
    unnoticed  how large a change of the hazard after the last mark would not be noticed, as a share of it
    """

    value: float
    stderr: float
    kind: str
    added: float
    unnoticed: float = np.inf


def _mean(summary: Summary, count: np.ndarray, end: float, marks: tuple[float, ...]) -> _Mean:
    """Compute E min(τ, T), and add S/λ where the hazard λ near the end permits it; the error follows from the delta
    method."""
    S, R, at_marks = summary.mean[-1, SURVIVAL], summary.mean[-1, TIME], summary.mean[-1, AT_MARKS]
    covariance = summary.covariance[-1] / count[-1]  # type: ignore[index]
    bound = _Mean(float(R), float(summary.mean_stderr[-1, TIME]), "bound", 0.0)
    if S <= 0.0:
        return bound._replace(kind="complete")
    first, latest = marks[1], marks[1 + LATEST]
    if summary.mean[-1, FAILED] > 0.0 or latest <= first or not at_marks[LATEST] > S:
        return bound

    def error(slopes: Mapping[int, float]) -> float:
        vector = np.zeros(len(covariance))
        vector[list(slopes)] = list(slopes.values())
        return float(np.sqrt(max(vector @ covariance @ vector, 0.0)))

    late, last, k = at_marks[LATEST], end - latest, AT_MARKS.start + LATEST
    λ = np.log(late / S) / last
    of_hazard = error({SURVIVAL: -1 / (S * last), k: 1 / (late * last)})
    of_all = error({SURVIVAL: -1 / (S * (end - first)), AT_MARKS.start: 1 / (at_marks[0] * (end - first))})
    changes, of_changes = _changes(np.array([*at_marks, S]), np.array([*marks[1:], end]))
    is_constant = bool(np.all(np.abs(changes) <= CHANGE * of_all * of_changes))
    of_mean = error({TIME: 1.0, SURVIVAL: 1 / λ + 1 / (λ**2 * last), k: -S / (λ**2 * late * last)})
    mean = _Mean(R + S / λ, of_mean, "extrapolated", S / λ, CHANGE * of_all * of_changes[-1] / λ)
    if S <= COMPLETE:
        return mean._replace(kind="complete", stderr=of_mean if is_constant else np.hypot(of_mean, S / λ))
    return mean if is_constant and λ > 2.0 * of_hazard else bound


def _changes(S: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the hazard after each of some times exceeds that before it, from the survivals at all of them, the first
    and the last included; and the errors of that as multiples of the error of the hazard over all."""
    exposures = np.diff(times) * (S[:-1] + S[1:]) / 2
    before, after = np.cumsum(exposures)[:-1], np.cumsum(exposures[::-1])[-2::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = np.log(S[1:-1] / S[-1]) / (times[-1] - times[1:-1]) - np.log(S[0] / S[1:-1]) / (
            times[1:-1] - times[0]
        )
        return np.where(before > 0, changes, 0.0), np.sqrt(exposures.sum() * (1 / before + 1 / after))


# --- a step: whether the level may have been reached, and the law of it -----------------------------------------------

Law = Callable[[], tuple[Array, Array]]  # the probability that it was, and that times the mean share of the step left


@dataclasses.dataclass(frozen=True)
class _SeenAfterStep:
    """Crossings detected only after the step; they are taken to be in its middle."""

    gauge: Gauge

    def __call__(self, t, h, before, after, params) -> tuple[Array, Law]:
        distances = self.gauge.distances(t + h, after, params)
        one = jnp.ones_like(after[0])
        return ~jnp.all(distances > 0), lambda: (one, 0.5 * one)

    def check(self, t: float, h: float) -> None:
        """Refuse steps that are too long."""


@dataclasses.dataclass(frozen=True)
class _Followed(_SeenAfterStep):
    """Crossings of Hermite's cubic between the ends of the step."""

    def __call__(self, t, h, before, after, params):
        gauge = self.gauge
        ends, slopes = gauge.ends_and_slopes(t, h, before, after, params)
        where, lowest = crossing.cubic_lowest(ends, slopes)

        def law():
            halvings = crossing.BISECTIONS if _loops(gauge) else FEW_HALVINGS
            share = jnp.min(jnp.where(lowest > 0, 1.0, crossing.cubic_root(ends, slopes, where, halvings)))
            return jnp.ones_like(share), 1.0 - share

        return ~jnp.all(lowest > 0), law


@dataclasses.dataclass(frozen=True)
class _Bridged(_SeenAfterStep):
    """Crossings of a Brownian bridge in units of noise; freezes: whether the method holds the noise fixed in a step."""

    freezes: bool

    def __call__(self, t, h, before, after, params):
        first, last, one, other = self.gauge.ends_and_deviations(t, h, before, after, params, self.freezes)
        is_far = self._is_far(t, h, before, after, params, (first, last), FAR * jnp.maximum(one, other))

        def law():
            end = last * (1.0 / other)
            a, b = jnp.maximum(first * (1.0 / one), 0.0), jnp.maximum(end, 0.0)
            each = crossing.bridge_chance(a, b)
            lost = each * crossing.share_after_crossing(a, jnp.abs(end))
            if len(self.gauge.level.bounds) == 1:
                return each[0], lost[0]
            reached = crossing.bridge_chance_of_two((a[0], b[0]), (a[1], b[1]))
            return reached, reached * jnp.sum(lost) / jnp.maximum(jnp.sum(each), jnp.finfo(after.dtype).tiny)

        return ~is_far, law

    def _is_far(self, t, h, before, after, params, ends: tuple[Array, Array], reach: Array) -> Array:
        """Whether both ends are farther than `reach` from each level. This is checked after every step: for a fixed
        level, with one comparison of the value that is nearest to it."""
        gauge, far = self.gauge, jnp.asarray(True)
        values = gauge.value(t, before, params), gauge.value(t + h, after, params)
        reaches = jnp.broadcast_to(reach, ends[0].shape)
        for bound, sign, r, a, b in zip(gauge.level.bounds, gauge.sides, reaches, *ends, strict=True):
            if callable(bound):
                far &= jnp.minimum(a, b) > r
            elif sign > 0:
                far &= jnp.maximum(*values) < bound - r
            else:
                far &= jnp.minimum(*values) > bound + r
        return far

    def check(self, t, h):
        if len(self.gauge.level.bounds) == 1:
            return
        gauge, problem = self.gauge, self.gauge.problem

        def narrow(x):
            levels = gauge.levels(jnp.asarray(t, float), problem.example_params())
            rate = gauge.variance_rate(jnp.asarray(t, float), x, problem.example_params())
            return jnp.stack([jnp.sqrt(h * rate), levels[1] - levels[0]])

        with jax.enable_x64(True):
            deviation, apart = uncompiled.value(narrow, np.asarray(problem.example_start(), float))
        if deviation > apart:
            raise ValueError(
                f"dt: in a step of {h:g} noise moves {gauge.words} by {deviation:.3g} (its standard deviation), but "
                f"the two levels are {apart:.3g} apart: both may be reached in one step. Take steps below "
                f"{h * (0.5 * apart / deviation) ** 2:.2g}."
            )


def _loops(gauge: Gauge) -> bool:
    """Whether loops may be used: the steps of large systems are printed without loops that depend on a path."""
    return gauge.problem.n <= FEW_COMPONENTS


class _prefixed_errors:
    """Prefix the errors of a level with the name of the statistic."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind in (ValueError, TypeError, IndexError):
            raise kind(f"Passage: {error}") from error
