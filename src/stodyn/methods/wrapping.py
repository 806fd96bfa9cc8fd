"""The common part of methods that wrap another method, and of the problems that only they take."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from stodyn.methods.contract import Catalogued, Method
from stodyn.noise.increment import Increment, Recipe
from stodyn.problems.contract import Around


@dataclasses.dataclass(frozen=True)
class AndNormals(Recipe):
    """The increments of another recipe, and beside them `count` normals from another stream, in aux[stream].

    channels  of the recipe, where it serves fewer than the problem has
    """

    recipe: Recipe
    stream: str
    count: int
    channels: int | None = None

    def normals(self, m):
        return {**self.recipe.normals(self._channels(m)), self.stream: self.count}

    def increment(self, h, normals, m):
        others = {name: z for name, z in normals.items() if name != self.stream}
        own = self.recipe.increment(h, others, self._channels(m))
        return dataclasses.replace(own, aux={**(own.aux or {}), self.stream: normals[self.stream]})

    def _channels(self, m: int) -> int:
        return m if self.channels is None else self.channels


def without(noise: Increment, stream: str) -> Increment:
    """The increment without that stream, as the wrapped method's own recipe made it."""
    rest = {name: z for name, z in (noise.aux or {}).items() if name != stream}
    return dataclasses.replace(noise, aux=rest or None)


def in_types_of(like: Any, values: Any) -> Any:
    """Values in the types of others: constants in the functions of a problem may be of 64 bits."""
    return jax.tree.map(lambda one, value: jnp.asarray(value, one.dtype), like, values)


@dataclasses.dataclass(frozen=True)
class Wrapping(Catalogued):
    """A method with the name, the claims and the source of the method it wraps."""

    method: Any

    @property
    def name(self):
        return self.method.name

    @property
    def calculus(self):
        return self.method.calculus

    @property
    def claims(self):
        return self.method.claims

    @property
    def citation(self):
        return self.method.citation

    @property
    def spelling(self):
        return self.method.spelling


def innermost_method(method: Any, wrapping: type[Wrapping] = Wrapping) -> Any:
    """The method inside all wrappings of a kind."""
    while isinstance(method, wrapping):
        method = method.method
    return method


@dataclasses.dataclass(frozen=True)
class WrappedSteps(Wrapping, Method):
    """A step around that of the wrapped method, which says what noise it takes, how it begins, and which steps."""

    @property
    def needs(self):
        return self.method.needs

    @property
    def starting_steps(self):
        return self.method.starting_steps

    @property
    def takes_equal_steps(self):
        return self.method.takes_equal_steps

    @property
    def fixed_params(self):
        return self.method.fixed_params

    def with_steps(self, dt):
        return self._around(self.method.with_steps(dt))

    def at_any_length(self):
        return self._around(self.method.at_any_length())

    def _around(self, method):
        return self if method is self.method else dataclasses.replace(self, method=method)


@dataclasses.dataclass(frozen=True)
class StepsBeside(WrappedSteps):
    """A step around that of the wrapped method, whose state is that of the method and further components; a run shows
    these behind those of the method."""

    def read(self, state):
        return jnp.concatenate([self.method.read(state[0]), state[1]])


@dataclasses.dataclass(frozen=True, eq=False)
class FurtherState(Around):
    """A problem whose state holds more than that of the problem inside, in numbers that have no units."""

    @property
    def units(self) -> None:
        return None
