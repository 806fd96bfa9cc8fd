"""Responses along a path, many at once: their values at the steps, and how they go on between two of them.

Where noise enters a response at most in its rate (a displacement; anything under coloured forces), it is followed
between two steps by Hermite's cubic through values and rates. Elsewhere only the values at the steps are known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import suggestion
from stodyn.numerics import crossing, uncompiled
from stodyn.numerics.facts.dependence import dependence
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.problems.calling import call
from stodyn.problems.contract import example_arguments, returned_shape

STATES = 4  # random times and states at which to look for noise in a response


@dataclasses.dataclass(frozen=True, eq=False)
class Followed:
    """Responses of one path of a problem, (entries,).

    of          the numbers of components, or a function of (t, x[, params]) -> a number or a vector
    components  the components that they depend on and whose rates are known
    is_smooth   for each response, whether its rate is known
    """

    problem: Any
    of: tuple[int, ...] | Callable
    names: tuple[str, ...] | None
    components: tuple[int, ...] = ()
    is_smooth: tuple[bool, ...] = ()

    def value(self, t, x: Array, params) -> Array:
        """The values of the responses."""
        if callable(self.of):
            return jnp.atleast_1d(jnp.asarray(call(self.of, t, x, params=params), x.dtype))
        return x[np.asarray(self.of)]

    def rate(self, t, x: Array, params) -> Array:
        """Their rates along the path; without meaning for those that are not smooth."""
        along = jnp.zeros_like(x)
        if self.components:
            rates: Any = self.problem.mean_rates(t, x, params, self.components)
            along = along.at[np.asarray(self.components)].set(jnp.stack(rates).astype(x.dtype))
        t = jnp.asarray(t, x.dtype)
        return jax.jvp(lambda t, x: self.value(t, x, params), (t, x), (jnp.ones_like(t), along))[1]

    def extremes(self, t, h, before: Array, after: Array, params) -> tuple[Array, Array]:
        """The smallest and the largest values within a step."""
        ends = self.value(t, before, params), self.value(t + h, after, params)
        chord = ends[1] - ends[0]
        if not any(self.is_smooth):
            return jnp.minimum(*ends), jnp.maximum(*ends)
        is_smooth = np.asarray(self.is_smooth)
        slopes = [jnp.where(is_smooth, h * self.rate(*at, params), chord) for at in ((t, before), (t + h, after))]
        broken = self.problem.is_broken(before, after)
        if broken is not None:
            slopes = [jnp.where(broken, chord, slope) for slope in slopes]
        lowest = crossing.cubic_lowest(ends, (slopes[0], slopes[1]))[1]
        upside_down = (-ends[0], -ends[1]), (-slopes[0], -slopes[1])
        return lowest, -crossing.cubic_lowest(*upside_down)[1]

    def axes(self, params: Any) -> Any:
        """The axes of lanes of the leaves of params: -1 for those that have one, else None."""
        examples = self.problem.example_params()
        return jax.tree.map(lambda leaf, one: -1 if np.ndim(leaf) > np.ndim(one) else None, params, examples)

    @property
    def between_steps(self) -> str:
        """How the responses are followed between two steps, in words."""
        if all(self.is_smooth):
            return "cubic: noise does not enter the responses, at most their rates"
        on_grid = np.flatnonzero(~np.asarray(self.is_smooth))
        which = "all" if len(on_grid) == len(self.is_smooth) else ", ".join(map(str, on_grid[:8]))
        return f"grid: noise enters responses, or their rates are not known ({which}); others cubic"


def check_of(who: str, of: Any) -> Any:
    """Return the responses that a user asks for, a function or a tuple of components; refuse others."""
    if callable(of):
        return of
    wanted = (of,) if isinstance(of, (str, int, np.integer)) else of
    if not (isinstance(wanted, Sequence) and wanted and all(isinstance(one, (str, int, np.integer)) for one in wanted)):
        raise TypeError(
            f"{who}: of must be a component by its name or number, several of them, or a function of (t, x[, params]) "
            f"-> a number or a vector, got {of!r}"
        )
    return tuple(wanted)


def followed(who: str, of: Any, problem: Any) -> Followed:
    """Return responses on a problem, with what is known of them between two steps; errors begin with `who`."""
    if callable(of):
        shape = returned_shape(problem, f"{who}: of", of, ("t", 0.0), ("x", np.asarray(problem.example_start()))).shape
        if len(shape) > 1 or 0 in shape:
            raise ValueError(f"{who}: of returned shape {shape}, expected a number or a vector")
        responses = Followed(problem, of, None)
    else:
        places = tuple(_place(who, one, problem.components) for one in of)
        responses = Followed(problem, places, tuple(problem.components[i] for i in places))
    depends = _components(responses)
    known = _with_known_rates(problem, depends)
    responses = dataclasses.replace(responses, components=known)
    return dataclasses.replace(responses, is_smooth=_smooth(responses, sorted(set(depends) - set(known))))


def _place(who: str, one: Any, names: Sequence[str]) -> int:
    if isinstance(one, str):
        if one not in names:
            raise ValueError(
                f"{who}: there is no component {one!r}; the components are {', '.join(names)}{suggestion(one, names)}"
            )
        return list(names).index(one)
    if not 0 <= one < len(names):
        raise ValueError(f"{who}: there is no component {one}; there are {len(names)}, counted from 0")
    return int(one)


def _components(responses: Followed) -> tuple[int, ...]:
    """The components that the responses depend on; all where their trace cannot be taken apart."""
    if not callable(responses.of):
        return tuple(sorted(set(responses.of)))
    with jax.enable_x64(True):
        try:
            reached = dependence(responses.value, *example_arguments(responses.problem))
        except Unprintable:
            return tuple(range(responses.problem.n))
    return tuple(sorted(reached.on(1).indices.tolist()))


def _with_known_rates(problem: Any, components: Sequence[int]) -> tuple[int, ...]:
    """The components that are of a diffusion and go on without a jump."""
    periods = problem.periods or ()
    rows: list[Any] = []

    def look(t, x, params):
        rows.extend(problem.noise_rows(t, x, params, components))
        return x

    with jax.enable_x64(True):
        jax.eval_shape(look, *example_arguments(problem))
    return tuple(
        i
        for i, row in zip(components, rows, strict=True)
        if row is not None and not problem.jumps(i) and not (i < len(periods) and periods[i])
    )


def _smooth(responses: Followed, unknown: Sequence[int]) -> tuple[bool, ...]:
    """Whether each response is free of noise, and of components without a known rate, at some random states."""
    problem, rng = responses.problem, np.random.default_rng(0)
    _, start, params = example_arguments(problem)

    def entering(t, x):
        """What one direction of noise, and changes of the unknown components, do to the responses."""
        directions = []
        if problem.m and responses.components:
            rows: Any = problem.noise_rows(t, x, params, responses.components)
            kicks = jnp.stack([jnp.sum(jnp.abs(row)) for row in rows])
            directions.append(jnp.zeros_like(x).at[np.asarray(responses.components)].set(kicks))
        if unknown:
            directions.append(jnp.zeros_like(x).at[np.asarray(unknown)].set(1.0))
        jacobian = jnp.abs(jax.jacfwd(lambda x: responses.value(t, x, params))(x))
        return sum((jacobian @ one for one in directions), jnp.zeros_like(responses.value(t, x, params)))

    states = start + (1.0 + np.abs(start)) * rng.standard_normal((STATES, len(start)))
    parts = [uncompiled.value(entering, np.asarray(rng.random()), x) for x in states]
    return tuple(not np.any(part) for part in np.transpose(parts))
