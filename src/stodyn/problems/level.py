"""An event: a function of the state reaches a level.

    Level(1.5)                                       the first component, from below
    Level(0.0, of="x", direction="down")             a component, from above
    Level((-1.0, 1.0), of=lambda t, x: x[1] - x[0])  a function of (t, x[, params]), out of a strip
    Level(lambda t: 1.0 + 0.5 * t)                   a level that moves

On a problem a level becomes a Gauge, for one path: how far the function is from the level, how noise reaches it, and so
which of three ways decides whether the level was reached between two steps:

    "bridge"   noise enters the function: a Brownian bridge between the two values
    "cubic"    noise enters its rate at most (a position): Hermite's cubic through values and rates
    "grid"     neither is known: only the two values
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments, suggestion
from stodyn.numerics import uncompiled
from stodyn.numerics.facts.dependence import Dependence, dependence
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.problems.calling import call
from stodyn.problems.contract import Problem, differs_from_path_to_path, example_arguments, returned_shape
from stodyn.telling import tell
from stodyn.warnings import NoBridge

BRIDGE, CUBIC, GRID = "bridge", "cubic", "grid"
SIDES = {"up": (1.0,), "down": (-1.0,), "out": (-1.0, 1.0)}  # the signs of level - f on this side


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Level:
    """A function of the state reaches a level: what st.Passage, sd.Stop, sd.Impact and sd.rare wait for.

    Parameters
    ----------
    level : number, function or pair
        A number; a function level(t[, params]); or a pair of these, (low, high): then leaving the strip is the event.
    of : str, int or function
        The quantity that reaches it: a component by its name or number, or a function of(t, x[, params]) -> number,
        written for one path with jax.numpy. x is a vector even where the problem is scalar. As for drift, params are
        passed where the problem has them.
    direction : "up" or "down"
        Whether the level is reached from below (the default) or from above. A pair has no direction.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.Level(1.5, of="x")
    Level(1.5, of='x', direction='up')
    """

    level: Any
    of: str | int | Callable = 0
    direction: str | None = None

    def __post_init__(self):
        fill = object.__setattr__
        if isinstance(self.level, (tuple, list)):
            if len(self.level) != 2:
                raise ValueError(f"level: expected a number, a function or a pair (low, high), got {self.level!r}")
            if self.direction is not None and self.direction != "out":
                raise ValueError(
                    f"direction: {self.direction!r} was given for the pair of levels {self.level!r}. Leave it out: the "
                    "event is to leave the strip between them; or give one level"
                )
            fill(self, "level", tuple(map(_checked_level, self.level)))
            fill(self, "direction", "out")
            low, high = self.level
            if not (callable(low) or callable(high)) and not low < high:
                raise ValueError(f"level: expected a pair (low, high) with low < high, got {self.level!r}")
        else:
            fill(self, "level", _checked_level(self.level))
            fill(self, "direction", "up" if self.direction is None else self.direction)
            if self.direction not in ("up", "down"):
                raise ValueError(f'direction: expected "up" or "down", got {self.direction!r}')
        if not callable(self.of) and (isinstance(self.of, bool) or not isinstance(self.of, (str, int, np.integer))):
            raise TypeError(
                f"of: expected a component by its name or number, or a function of (t, x[, params]), got {self.of!r}"
            )

    def __repr__(self) -> str:
        direction = "" if self.direction == "out" else f", direction={self.direction!r}"
        return f"Level({_words(self.level)}, of={_words(self.of)}{direction})"

    @property
    def bounds(self) -> tuple[Any, ...]:
        """The level, or both levels, as a tuple."""
        return self.level if isinstance(self.level, tuple) else (self.level,)

    def on(self, problem: Problem, t: float = 0.0) -> Gauge:
        """The level on a problem whose run begins at time t; errors are in the user's terms."""
        names: Any = problem.components
        of = self.of
        if isinstance(of, str):
            if of not in names:
                raise ValueError(
                    f"of: there is no component {of!r}; the components are {', '.join(names)}{suggestion(of, names)}"
                )
            of = names.index(of)
        if not callable(of) and not 0 <= of < problem.n:
            raise ValueError(f"of: there is no component {of}; there are {problem.n}, counted from 0")
        with jax.enable_x64(True):
            if callable(of):
                shape = returned_shape(problem, "of", of, ("t", 0.0), ("x", np.asarray(problem.example_start()))).shape
                if shape != ():
                    raise ValueError(f"of: returned shape {shape}, expected one number: the one that reaches a level")
            for bound in filter(callable, self.bounds):
                shape = returned_shape(problem, "level", bound, ("t", 0.0)).shape
                if shape != ():
                    raise ValueError(f"level: returned shape {shape}, expected one number")
            gauge = Gauge(self, problem, of if callable(of) else int(of))
            gauge.check_order(t)
            gauge.check_reach()
        return gauge


@dataclasses.dataclass(frozen=True, eq=False)
class Gauge:
    """A level on a problem; its functions are of one path, (t, x, params).

    Distances are positive on this side of a level, with one per level: (1,), or (2,) to the lower and the upper.
    """

    level: Level
    problem: Any
    of: int | Callable

    # --- values and distances -----------------------------------------------------------------------------------------

    def value(self, t, x: Array, params) -> Array:
        """The function that reaches the level."""
        if not callable(self.of):
            return x[self.of]
        return jnp.asarray(call(self.of, t, x, params=params), x.dtype)

    def levels(self, t, params) -> Array:
        """The level, (1,), or both, (2,)."""
        levels = [call(b, t, params=params) if callable(b) else b for b in self.level.bounds]
        return jnp.stack([jnp.asarray(b, jnp.result_type(t)) for b in levels])

    def distances(self, t, x: Array, params) -> Array:
        """How far the function is from each level; not positive where it has reached it."""
        return self.signs(x) * (self.levels(t, params).astype(x.dtype) - self.value(t, x, params))

    @property
    def sides(self) -> tuple[float, ...]:
        """The sign of level - f on this side of each level."""
        return SIDES[self.level.direction]  # type: ignore[index]

    def signs(self, x: Array) -> Array:
        """The signs of `sides` as an array."""
        return jnp.asarray(self.sides, x.dtype)

    # --- rates --------------------------------------------------------------------------------------------------------

    def noise(self, t, x: Array, params) -> Array:
        """∇f · g, (m,): the coefficient of each channel in the function."""
        row = self.problem.noise_along(t, x, params, self.gradient(t, x, params), self.components)
        return jnp.asarray(row, x.dtype)

    def gradient(self, t, x: Array, params) -> Array:
        """The gradient ∇f, (n,)."""
        if not callable(self.of):
            return jnp.zeros_like(x).at[self.of].set(1.0)
        return jax.grad(lambda x: self.value(t, x, params))(x)

    def variance_rate(self, t, x: Array, params) -> Array:
        """γ² = |∇f · g|², the variance that the function gathers in unit time."""
        if callable(self.of):
            row = self.noise(t, x, params)
        else:
            (row,) = self.problem.noise_rows(t, x, params, self.components)
        return jnp.sum(jnp.asarray(row, x.dtype) ** 2)

    def in_deviations(self, t, h, x: Array, y: Array, params, frozen: bool) -> tuple[Array, Array]:
        """The distances at the beginning x and the end y of a step in standard deviations of the step, as a bridge
        counts them: a/(γ √h), large where noise does not reach the function.

        Where γ changes with f the bridge lives in ∫ df/γ, and γ is √(γ(here) γ(at the level)) at either end; with a
        method that freezes the noise over its steps it is γ(x) at both.
        """
        first, last, one, other = self.ends_and_deviations(t, h, x, y, params, frozen)
        return first * (1.0 / one), last * (1.0 / other)

    def ends_and_deviations(self, t, h, x: Array, y: Array, params, frozen: bool) -> tuple[Array, Array, Array, Array]:
        """The distances at both ends of a step, and by which numbers `in_deviations` divides them."""
        first, last = self.distances(t, x, params), self.distances(t + h, y, params)
        if frozen:
            rates = (self.variance_rate(t, x, params),) * 2
        elif self.has_constant_rate:
            rates = self.variance_rate(t, x, params), self.variance_rate(t + h, y, params)
        else:
            rates = self._mean_rate(t, x, params, first), self._mean_rate(t + h, y, params, last)
        least = float(jnp.finfo(x.dtype).tiny) ** 0.25
        one, other = (jnp.maximum(jnp.sqrt(h * rate), least) for rate in rates)
        broken = self.problem.is_broken(x, y)
        if broken is not None:
            one, other = jnp.where(broken, least, one), jnp.where(broken, least, other)
        return first, last, one, other

    def ends_and_slopes(self, t, h, x: Array, y: Array, params) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """The distances at both ends of a step, and their changes in a step there, of a function that noise does not
        enter; the chord where the path jumped on the way."""
        first, last = self.distances(t, x, params), self.distances(t + h, y, params)
        slopes = h * self.distance_rates(t, x, params), h * self.distance_rates(t + h, y, params)
        broken = self.problem.is_broken(x, y)
        if broken is not None:
            slopes = jnp.where(broken, last - first, slopes[0]), jnp.where(broken, last - first, slopes[1])
        return (first, last), slopes

    def _mean_rate(self, t, x: Array, params, distances: Array) -> Array:
        """γ(x) γ(x_l), for each level."""
        here = self.variance_rate(t, x, params)
        there = [self.variance_rate(t, self.at_the_level(t, x, params, d, s), params)
                 for d, s in zip(distances, self.sides, strict=True)]  # fmt: skip
        return jnp.sqrt(here * jnp.stack(there))

    def at_the_level(self, t, x: Array, params, distance: Array, sign: Any) -> Array:
        """The point of the level that lies in the direction in which noise moves the function, x + (level - f) n with
        n = g gᵀ∇f/γ²; x itself where noise does not reach the function there."""
        return x + sign * distance * self.toward(t, x, params)

    def toward(self, t, x: Array, params) -> Array:
        """The direction in which noise moves the function, which changes by 1 along it: n = g gᵀ∇f/γ², (n,)."""
        row = self.noise(t, x, params)
        rate = jnp.sum(row**2)
        toward = self.problem.noise_push(t, x, params, row) / jnp.where(rate > 0, rate, 1.0)
        return jnp.asarray(toward, x.dtype)

    def distance_rates(self, t, x: Array, params) -> Array:
        """The rates of the distances along the path, of a function that noise does not enter."""
        rates = jnp.stack(self.problem.mean_rates(t, x, params, self.components))
        along = jnp.zeros_like(x).at[np.asarray(self.components)].set(jnp.asarray(rates, x.dtype))
        t = jnp.asarray(t, x.dtype)
        return jax.jvp(lambda t, x: self.distances(t, x, params), (t, x), (jnp.ones_like(t), along))[1]

    # --- what is known, from traces -----------------------------------------------------------------------------------

    @functools.cached_property
    def components(self) -> tuple[int, ...]:
        """The components of the state that the function depends on."""
        if not callable(self.of):
            return (self.of,)
        reached = self._reached(self.value)
        if reached is None:
            return tuple(range(self.problem.n))
        return tuple(sorted(reached.on(1).indices.tolist()))

    @functools.cached_property
    def known(self) -> tuple[str, str]:
        """How a crossing between two steps is detected, "bridge", "cubic" or "grid", and why in words."""
        names = self.problem.components
        periods = self.problem.periods or ()
        if not callable(self.of) and self.of < len(periods) and periods[self.of]:
            return GRID, f"{names[self.of]} is wrapped to [0, {periods[self.of]:g}), so that it jumps"
        jumps = next(filter(None, map(self.problem.jumps, self.components)), "")
        if jumps:
            return GRID, jumps
        missing = [names[i] for i, row in zip(self.components, self._rows(), strict=True) if row is None]
        if missing:
            return GRID, f"how noise reaches {', '.join(missing)} is not known: not a component of a diffusion"
        rate = self._reached(self.variance_rate)
        if rate is None:
            return BRIDGE, "noise may enter the function: its trace cannot be taken apart"
        if not rate.zero:
            return BRIDGE, "noise enters the function"
        return CUBIC, "noise does not enter the function, at most its rate: proved from the trace"

    @functools.cached_property
    def has_constant_rate(self) -> bool:
        """Whether the variance rate does not depend on the state: proved from the trace."""
        rate = self._reached(self.variance_rate)
        return rate is not None and 1 not in rate.arguments

    def _rows(self) -> tuple[Any, ...]:
        rows: list[Any] = []

        def look(t, x, params):
            rows.extend(self.problem.noise_rows(t, x, params, self.components))
            return x

        with jax.enable_x64(True):
            jax.eval_shape(look, *example_arguments(self.problem))
        return tuple(rows)

    def _reached(self, function: Callable) -> Dependence | None:
        """On what a function of (t, x, params) depends; None where its trace cannot be taken apart."""
        with jax.enable_x64(True), contextlib.suppress(Unprintable):
            return dependence(function, *example_arguments(self.problem))
        return None

    # --- before a run -------------------------------------------------------------------------------------------------

    def check_order(self, t: float) -> None:
        """Refuse two levels that are in the wrong order when the run begins."""
        if len(self.level.bounds) == 2:
            low, high = uncompiled.value(lambda t: self.levels(t, self.problem.example_params()), np.asarray(t, float))
            if not low < high:
                raise ValueError(
                    f"level: at t = {t:g} the pair (low, high) is ({low:g}, {high:g}), expected low < high"
                )

    def check_reach(self) -> None:
        """Refuse fixed levels that the walls of a component keep it from reaching."""
        if callable(self.of) or any(map(callable, self.level.bounds)):
            return
        low, high = self.problem.reach(self.of)
        bounded = [
            bound < low if sign < 0 else bound > high for sign, bound in zip(self.sides, self.level.bounds, strict=True)
        ]
        if all(bounded):
            raise ValueError(
                f"level: {self.level} cannot be reached: walls keep {self.problem.components[self.of]} between "
                f"{low:g} and {high:g}"
            )

    def reached_at_start(self, t: float) -> str | None:
        """A sentence saying that every path is at or beyond the level when the run begins at time t; None where that is
        false or unknown: where starts or parameters are random, or the start is not that of a component."""
        problem = self.problem
        if differs_from_path_to_path(problem) or any(row is None for row in self._rows()):
            return None

        def look(t, x):
            params = problem.example_params()
            return jnp.concatenate(
                [self.value(t, x, params)[None], self.levels(t, params), self.distances(t, x, params)]
            )

        with jax.enable_x64(True):
            values = uncompiled.value(look, np.asarray(t, float), np.asarray(problem.example_start(), float))
        value, levels, distances = values[0], *np.split(values[1:], 2)
        if np.all(distances > 0):
            return None
        reached = levels[int(np.argmin(distances))]
        where = "at" if value == reached else "above" if value > reached else "below"
        other = {
            "up": ' (direction="down" waits for it from above)',
            "down": ' (direction="up" waits for it from below)',
        }
        return (
            f"every path has reached it when the run begins: at t = {t:g} {self.words} is {value:g}, {where} the level "
            f"{reached:g}{other.get(self.level.direction, '')}"  # type: ignore[arg-type]
        )

    def warn_of_grid(self, who: str, way_out: str) -> None:
        """Warn where crossings between two steps cannot be detected."""
        kind, why = self.known
        if kind == GRID and not self._is_held:
            tell(
                f"{who}: {self.level} is checked only at the ends of steps, so that crossings between them are missed: "
                f"{why}. {way_out}",
                NoBridge,
            )

    @property
    def _is_held(self) -> bool:
        """Whether neither the function nor the levels change within a step, so that no crossing is missed."""
        return set(self.components) <= set(self.problem.held) and not any(map(callable, self.level.bounds))

    @property
    def words(self) -> str:
        """The function, as a sentence names it."""
        return _words(self.of) if callable(self.of) else self.problem.components[self.of]


def _checked_level(level: Any) -> Any:
    if callable(level) or isinstance(level, jax.core.Tracer):
        return level
    values = np.asarray(level)
    if values.ndim or values.dtype.kind not in "iuf" or not np.isfinite(values):
        raise ValueError(
            "level: expected a finite number such as 1.5, a function level(t[, params]), or of a passage a pair such "
            f"as (-1.0, 1.0), got {level!r}"
        )
    return float(values)


def _words(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_words, value))})"
    name = getattr(value, "__name__", "function") if callable(value) else repr(value)
    return "function" if name == "<lambda>" else name
