"""Functionals, of which expectations are taken: a number or a vector for each path.

    End(f)            f at the end
    TimeAverage(f)    ∫ f dt/T, by the trapezoidal rule (weak order 2);  Integral(f): ∫ f dt
    Maximum(f)        the largest value of f, between the steps too: f is followed as a Brownian bridge of its variance
                      rate (weak order 1), or as a cubic where no noise acts on it (order 1.5);  Minimum(f)
    Probability(phi)  P(phi > 0) at the end, with the Gaussian law of the last step: smooth in the path before it
    Survival(phi)     P(phi > 0 at all times), with the law of a bridge between the steps: continuous in the path

Functions take (t, x[, params]) for one path. A functional gathers numbers step by step, by `move` over a step, or by
`halved` over a long step whose two half increments are known, so that fine and coarse paths that share their noise
also share the draws between their steps. `finish` computes its value from those numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.methods.coupled import Step
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.calling import call
from stodyn.problems.contract import written_as
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

__all__ = ["End", "Functional", "Integral", "Maximum", "Minimum", "Probability", "Survival", "TimeAverage"]
__dir__ = listing.names_of(__name__)

NOISE_SAMPLES = 8  # times and states at which to look for noise


@dataclasses.dataclass(frozen=True)
class Functional:
    """A functional of a path.

    weak_order       the highest weak order it can have, whatever the method
    has_roots        whether its error has powers of √h
    normals          how many normals it draws for each fine step
    diffuses         whether it needs f and g of an SDE
    watches          whether the last number it gathers is how far a path went
    tells            how many numbers follow its own in its value: a control beside what it controls
    gathers_in_time  whether the function is needed along the path, not only at its end
    of_numbers       whether the value of the function must be a number
    has_kinks        whether it has kinks where the function is smooth
    """

    function: Callable

    weak_order: ClassVar[float] = math.inf
    has_roots: ClassVar[bool] = False
    normals: ClassVar[int] = 0
    diffuses: ClassVar[bool] = False
    watches: ClassVar[bool] = False
    tells: ClassVar[int] = 0
    gathers_in_time: ClassVar[bool] = False
    of_numbers: ClassVar[bool] = False
    has_kinks: ClassVar[bool] = False

    def __post_init__(self):
        if not callable(self.function):
            raise TypeError(f"{type(self).__name__}: expected a function of (t, x[, params]), got {self.function!r}")

    def value(self, problem, t, x, params) -> jax.Array:
        """The function of one state, as a vector."""
        return jnp.atleast_1d(jnp.asarray(call(self.function, t, x, params=params), x.dtype))

    def begin(self, problem, t, x, params) -> jax.Array:
        """The numbers gathered at the start: a vector."""
        return jnp.zeros(0, x.dtype)

    def move(self, problem, gathered, step: Step, params) -> jax.Array:
        return gathered

    def halved(self, problem, gathered, step: Step, params) -> jax.Array:
        """Gather over a step whose first half is known; step.normals are those of both halves."""
        return self.move(problem, gathered, step, params)

    def finish(self, problem, t, gathered, x, params) -> jax.Array:
        """The value of the functional once the path has ended."""
        return self.value(problem, t, x, params)

    def along(self, problem, t: tuple[float, float]) -> Functional:
        """The functional in its best form for the paths of a problem."""
        return self


@checks_arguments
@dataclasses.dataclass(frozen=True)
class End(Functional):
    """The value of a function of the state at the end of the path.

    Parameters
    ----------
    function : callable
        function(t, x[, params]) -> number or vector, written for one path with jax.numpy.

    Examples
    --------
    >>> from stodyn.statistics.functional import End
    >>> second_moment = End(lambda t, x: x**2)
    """


@checks_arguments
@dataclasses.dataclass(frozen=True)
class Integral(Functional):
    """The integral ∫ f dt of a function over the path, by the trapezoidal rule (weak order 2).

    Parameters
    ----------
    function : callable
        function(t, x[, params]) -> number or vector, written for one path with jax.numpy.
    """

    gathers_in_time = True

    def begin(self, problem, t, x, params):
        return jnp.zeros_like(self.value(problem, t, x, params))

    def move(self, problem, gathered, step, params):
        here = self.value(problem, step.t, step.before, params)
        there = self.value(problem, step.t + step.h, step.after, params)
        return gathered + 0.5 * step.h * (here + there)

    def finish(self, problem, t, gathered, x, params):
        return gathered


@checks_arguments
@dataclasses.dataclass(frozen=True)
class TimeAverage(Integral):
    """The mean of a function over the time of the path, ∫ f dt/T, by the trapezoidal rule (weak order 2).

    Parameters
    ----------
    function : callable
        function(t, x[, params]) -> number or vector, written for one path with jax.numpy.
    """

    def begin(self, problem, t, x, params):
        return jnp.concatenate([super().begin(problem, t, x, params), jnp.reshape(jnp.asarray(t, x.dtype), (1,))])

    def move(self, problem, gathered, step, params):
        return jnp.concatenate([super().move(problem, gathered[:-1], step, params), gathered[-1:]])

    def finish(self, problem, t, gathered, x, params):
        return gathered[:-1] / (t - gathered[-1])


def _rate(problem, function, t, x, params) -> jax.Array:
    """The rate ∇f · g at which each channel of noise acts on a function of the state."""
    return jax.grad(lambda x: function(t, x)[0])(x) @ problem.g(t, x, params)


def _is_noisy(functional: Functional, problem: Any, t: tuple[float, float]) -> bool:
    """Whether noise acts on a function of the state, as some random states show; where that is not known, it does."""
    sde = None if isinstance(problem, SDAE) else written_as(problem, SDE)
    if sde is None:
        return True
    rng, params, x = np.random.default_rng(0), sde.example_params(), np.asarray(sde.example_start(), float)
    times = t[0] + (t[1] - t[0]) * rng.random(NOISE_SAMPLES)
    states = x + (1.0 + np.abs(x)) * rng.standard_normal((NOISE_SAMPLES, sde.n))

    def rate(t, x, params):
        return _rate(sde, lambda t, x: functional.value(sde, t, x, params), t, x, params)

    return bool(np.any(AtPoints(rate, (0, 0, None))(times, states, params)))


@dataclasses.dataclass(frozen=True)
class _Bridged(Functional):
    """A functional that follows its function between the steps as a Brownian bridge of its variance rate."""

    weak_order = 1.0
    has_roots = True
    has_kinks = True
    diffuses = True
    gathers_in_time = True
    of_numbers = True

    def over(self, problem, gathered, bridges, normals) -> jax.Array:
        """Gather over bridges, each with its two ends and its variance."""
        raise NotImplementedError

    def _ends(self, problem, step, params):
        """The function at both ends of a step, and the rate at which noise acts on it."""

        def one(t, x):
            return self.value(problem, t, x, params)

        rate = _rate(problem, one, step.t, step.before, params)
        return one(step.t, step.before), one(step.t + step.h, step.after), rate

    def move(self, problem, gathered, step, params):
        start, end, rate = self._ends(problem, step, params)
        return self.over(problem, gathered, [(start, end, step.h * jnp.sum(rate**2))], step.normals)

    def halved(self, problem, gathered, step, params):
        start, end, rate = self._ends(problem, step, params)
        middle = 0.5 * (start + end) + 0.5 * (rate @ (step.first_W - (step.W - step.first_W)))
        variance = 0.5 * step.h * jnp.sum(rate**2)
        return self.over(problem, gathered, [(start, middle, variance), (middle, end, variance)], step.normals)

    def finish(self, problem, t, gathered, x, params):
        return gathered


@checks_arguments
@dataclasses.dataclass(frozen=True)
class Maximum(_Bridged):
    """The largest value of a function over the path; between two states, that of a Brownian bridge (weak order 1).

    Where no noise acts on the function, ∇f · g = 0, as for the displacement of an oscillator, f has a slope along the
    path, and a cubic takes the place of the bridge (order 1.5). `estimate` looks for that by itself.

    Parameters
    ----------
    function : callable
        function(t, x[, params]) -> number, written for one path with jax.numpy.
    """

    normals = 1
    sign: ClassVar[float] = 1.0

    def along(self, problem, t):
        """The functional with cubics between states where no noise acts on the function, as some random states show."""
        return self if _is_noisy(self, problem, t) else _Smooth(self.function, sign=self.sign)

    def begin(self, problem, t, x, params):
        return self.value(problem, t, x, params)

    def _between(self, start, end, variance, normal):
        """Draw the extreme of a bridge from a to b: (a + b ± √((b - a)² - 2 v ln U))/2 with U = Φ(normal)."""
        below = -jnp.log(jax.scipy.special.ndtr(normal))
        return 0.5 * (start + end + self.sign * jnp.sqrt((end - start) ** 2 + 2.0 * variance * below))

    def _further(self, gathered, candidate):
        """The more extreme of two values."""
        return self.sign * jnp.maximum(self.sign * gathered, self.sign * candidate)

    def over(self, problem, gathered, bridges, normals):
        for k, (start, end, variance) in enumerate(bridges):
            gathered = self._further(gathered, self._between(start, end, variance, normals[k]))
        return gathered


@checks_arguments
@dataclasses.dataclass(frozen=True)
class Minimum(Maximum):
    """The smallest value of a function over the path; between two states, that of a Brownian bridge (weak order 1).

    Parameters
    ----------
    function : callable
        function(t, x[, params]) -> number, written for one path with jax.numpy.
    """

    sign = -1.0


@dataclasses.dataclass(frozen=True)
class _Smooth(Functional):
    """The largest value (the smallest: sign = -1) of a function on which no noise acts.

    Between two states it is that of the cubic a + s u + k u² + l u³ with the values and the slopes at both ends, if one
    lies there: where u = s/(√(k² - 3 l s) - k), which for k > 0 is (√(k² - 3 l s) + k)/(-3 l), s being 0 or not. The
    slopes vary as √h within a step, hence the order 1.5.
    """

    sign: float = 1.0

    weak_order = 1.5
    has_roots = True
    has_kinks = True
    diffuses = True
    gathers_in_time = True
    of_numbers = True

    def begin(self, problem, t, x, params):
        return self.value(problem, t, x, params)

    def _end(self, problem, t, x, params):
        """The value and the slope along the path, with the sign that makes extremes maxima."""

        def one(t, x):
            return self.sign * self.value(problem, t, x, params)

        moving = jnp.ones_like(x[0]), problem.f(t, x, params)
        return jax.jvp(one, (jnp.asarray(t, x.dtype), x), moving)

    def move(self, problem, gathered, step, params):
        a, slope_a = self._end(problem, step.t, step.before, params)
        b, slope_b = self._end(problem, step.t + step.h, step.after, params)
        first, last = step.h * slope_a, step.h * slope_b
        k, l = 3.0 * (b - a) - 2.0 * first - last, 2.0 * (a - b) + first + last
        turns = (last < 0) & ((first > 0) | ((first == 0) & (k > 0)))
        root, is_late = jnp.sqrt(jnp.where(turns, k**2 - 3.0 * l * first, 1.0)), turns & (k > 0)
        early = jnp.where(turns, first, 0.0) / jnp.where(turns & ~is_late, root - k, 1.0)
        u = jnp.where(is_late, (k + root) / jnp.where(is_late, -3.0 * l, 1.0), early)
        highest = a + u * (first + u * (k + u * l))
        highest_so_far = jnp.maximum(jnp.maximum(a, b), highest)
        return self.sign * jnp.maximum(self.sign * gathered, highest_so_far)

    def finish(self, problem, t, gathered, x, params):
        return gathered


@checks_arguments
@dataclasses.dataclass(frozen=True)
class Probability(Functional):
    """The probability that a function of the state is positive at the end of the path.

    It is Φ(m/s), with the mean m and the variance s² of the linearised function after the last step, given the path
    before it, and so is smooth in that path.

    Parameters
    ----------
    function : callable
        function(t, x[, params]) -> number, with a gradient, written for one path with jax.numpy.
    """

    diffuses = True
    of_numbers = True

    def begin(self, problem, t, x, params):
        return jnp.zeros(1, x.dtype)

    def _smooth(self, problem, step, params, known, left):
        """The probability given the part `known` of the increment, with the time `left` still unknown."""
        t, h, x = step.t, step.h, step.before

        def one(t, x):
            return self.value(problem, t, x, params)

        mean = one(t + h, x + h * problem.f(t, x, params) + problem.g(t, x, params) @ known)
        deviation = jnp.sqrt(left * jnp.sum(_rate(problem, one, t, x, params) ** 2))
        return jax.scipy.special.ndtr(mean / deviation)

    def move(self, problem, gathered, step, params):
        return self._smooth(problem, step, params, jnp.zeros_like(step.W), step.h)

    def halved(self, problem, gathered, step, params):
        return self._smooth(problem, step, params, step.first_W, 0.5 * step.h)

    def finish(self, problem, t, gathered, x, params):
        return gathered


@checks_arguments
@dataclasses.dataclass(frozen=True)
class Survival(_Bridged):
    """The probability that a function of the state stays positive over the whole path.

    Between two states it does so with the probability 1 - exp(-2 a b/v) of a Brownian bridge, from the values a and b
    there and the variance v of the step (weak order 1). The product over the steps is continuous in the path, so that
    it has a derivative with respect to levels and noise intensities, where the event itself has none.

    Parameters
    ----------
    function : callable
        function(t, x[, params]) -> number, such as a level less the component that must not reach it.

    Examples
    --------
    >>> from stodyn.statistics.functional import Survival
    >>> below = Survival(lambda t, x, p: p["level"] - x[0])
    """

    def along(self, problem, t):
        """The functional itself; refuses functions that noise does not reach, which have no bridge."""
        if _is_noisy(self, problem, t):
            return self
        raise ValueError(
            "f: Survival needs a function on which noise acts directly; here it acts through the rate alone; "
            "give End with stop=stodyn.Stop(...) to sensitivity, or take simulate with statistics.Passage"
        )

    def begin(self, problem, t, x, params):
        return jnp.where(self.value(problem, t, x, params) > 0, 1.0, 0.0).astype(x.dtype)

    @staticmethod
    def _stays(start, end, variance):
        """The probability that a bridge stays positive."""
        start, end = jnp.maximum(start, 0.0), jnp.maximum(end, 0.0)
        return -jnp.expm1(-2.0 * start * end / variance)

    def over(self, problem, gathered, bridges, normals):
        return functools.reduce(jnp.multiply, [self._stays(*bridge) for bridge in bridges], gathered)


@dataclasses.dataclass(frozen=True)
class Controlled(Functional):
    """f - β (c - E c): it has the expectation of f, with less variance where c correlates with f and E c is known.

    c follows in its value, so that the stated E c can be compared with the mean of the same paths.

    f, c       functionals of the path; slope: β, a number for each entry of f; known: E c
    is_stated  whether the user stated E c
    """

    function: Functional  # type: ignore[assignment]
    control: Functional
    slope: Any
    known: float
    is_stated: bool = False

    tells = 1

    def __post_init__(self):
        both = (self.function, self.control)
        object.__setattr__(self, "weak_order", min(one.weak_order for one in both))
        object.__setattr__(self, "normals", self.function.normals)
        object.__setattr__(self, "diffuses", any(one.diffuses for one in both))
        if self.control.normals:
            raise ValueError(
                "control: Maximum and Minimum draw between the steps and cannot be controls; take End, Integral or "
                "TimeAverage"
            )

    def _parted(self, problem, gathered, t, x, params):
        """Split the gathered numbers into those of f and those of its control."""
        size = jax.eval_shape(lambda x: self.function.begin(problem, t, x, params), x).shape[0]
        return gathered[:size], gathered[size:]

    def begin(self, problem, t, x, params):
        return jnp.concatenate([one.begin(problem, t, x, params) for one in (self.function, self.control)])

    def move(self, problem, gathered, step, params):
        own, other = self._parted(problem, gathered, step.t, step.before, params)
        moved = self.function.move(problem, own, step, params), self.control.move(problem, other, step, params)
        return jnp.concatenate(moved)

    def halved(self, problem, gathered, step, params):
        own, other = self._parted(problem, gathered, step.t, step.before, params)
        moved = self.function.halved(problem, own, step, params), self.control.halved(problem, other, step, params)
        return jnp.concatenate(moved)

    def finish(self, problem, t, gathered, x, params):
        own, other = self._parted(problem, gathered, t, x, params)
        c = self.control.finish(problem, t, other, x, params)[:1]
        less = jnp.asarray(self.slope, c.dtype) * (c[0] - self.known)
        return jnp.concatenate([self.function.finish(problem, t, own, x, params) - less, c])


@dataclasses.dataclass(frozen=True)
class PairWithControl(Controlled):
    """A functional and its control beside each other, from which the slope β is determined."""

    tells = 0

    def finish(self, problem, t, gathered, x, params):
        own, other = self._parted(problem, gathered, t, x, params)
        c = self.control.finish(problem, t, other, x, params)[:1]
        return jnp.concatenate([self.function.finish(problem, t, own, x, params), c])


@dataclasses.dataclass(frozen=True)
class Watching(Functional):
    """Another functional, `function`, together with max |x_i| over the path, which reveals paths that run away."""

    function: Functional  # type: ignore[assignment]

    watches = True

    def __post_init__(self):
        for name in ("weak_order", "normals", "diffuses", "tells"):
            object.__setattr__(self, name, getattr(self.function, name))

    def begin(self, problem, t, x, params):
        return jnp.append(self.function.begin(problem, t, x, params), jnp.max(jnp.abs(x)))

    def _after(self, move, problem, gathered, step, params):
        """Gather over a step, together with the largest size of the state after it."""
        far = jnp.maximum(gathered[-1], jnp.max(jnp.abs(step.after)))
        return jnp.append(move(problem, gathered[:-1], step, params), far)

    def move(self, problem, gathered, step, params):
        return self._after(self.function.move, problem, gathered, step, params)

    def halved(self, problem, gathered, step, params):
        return self._after(self.function.halved, problem, gathered, step, params)

    def finish(self, problem, t, gathered, x, params):
        return self.function.finish(problem, t, gathered[:-1], x, params)
