"""Where a start or a parameter comes from: one value for all paths, or a value for each of them.

    source_of(1.5)                     Fixed: the same for all paths
    source_of(PerPath(values))         listed: values[i] belongs to path i
    source_of(scipy.stats.norm(0, 1))  drawn from a distribution
    source_of(draw)                    drawn by a function, draw(rng, size) -> (size, ...)
    source_of(from_normals(f, 2))      a traced function of normal numbers (noise/from_normals.py)

The arguments of users are converted once, by `source_of`; all other code uses the source.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import scipy

from stodyn.arguments import checks_arguments
from stodyn.noise.uniforms import Uniforms

REPEATS = 16  # draws of a user's function that are made twice


class Source(ABC):
    """Where the values of all paths come from.

    is_random  whether each path has its own value
    is_listed  whether some of the values are listed path by path
    count      for how many paths there are values
    """

    is_random: bool = True
    is_listed: bool = False
    count: float = math.inf
    ppf: Callable | None = None  # the quantiles of a number drawn from a distribution

    @abstractmethod
    def draw(self, rng: np.random.Generator, paths: range, name: str) -> np.ndarray:
        """The values of some paths, (len(paths), ...); errors begin with `name`."""

    def example(self, name: str) -> Any:
        """The value of one path."""
        return self.draw(np.random.default_rng(0), range(1), name)[0]

    def spread(self, rng: np.random.Generator, count: int, name: str) -> np.ndarray:
        """The values of `count` paths chosen from the whole ensemble."""
        return self.draw(rng, range(count), name)

    @property
    def parts(self) -> tuple[Source, ...]:
        """The sources of which this one is composed."""
        return (self,)

    @property
    def argument(self) -> Any:
        """The argument from which a problem makes this source."""
        return self

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> Source:
        """The source of function(rows), for values as rows (paths, numbers)."""
        return _Mapped(self, function)

    def normal(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and covariance of the values of a path as a vector; None where their law is not normal."""
        return None


class ByPath(Source):
    """A source whose values depend on the run's seed and the path's number alone."""

    @abstractmethod
    def of_paths(self, seed: int, first: int, last: int) -> np.ndarray:
        """The values of the paths from `first` to `last`."""


@dataclasses.dataclass(frozen=True, eq=False)
class Fixed(Source):
    """One value for all paths."""

    value: Any
    is_random = False

    def draw(self, rng, paths, name):
        return np.repeat(np.asarray(self.value)[None], len(paths), axis=0)

    def example(self, name):
        return self.value

    @property
    def argument(self):
        return self.value

    def mapped(self, function):
        return Fixed(function(np.reshape(self.value, (1, -1)))[0])

    def normal(self):
        value = np.ravel(np.asarray(self.value, float))
        return value, np.zeros((len(value), len(value)))


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class PerPath(Source):
    """Values listed path by path, for a start or a parameter.

    Parameters
    ----------
    values : array (paths, ...)
        `values[i]` belongs to path i.

    Raises
    ------
    ValueError
        If `values` is a single number, or a run has more paths than there are values.

    Examples
    --------
    As the start of a problem, or as a leaf of its params:

    >>> import stodyn as sd
    >>> problem = sd.SDE(lambda t, x, p: -p * x, lambda t, x: 0.1, start=1.0, params=sd.PerPath([1.0, 2.0, 3.0]))
    """

    values: np.ndarray
    is_listed = True

    def __init__(self, values: Any):
        values = np.asarray(values, float)
        if values.ndim == 0:
            raise ValueError("PerPath: values is a single number; give one value per path, shape (paths, ...)")
        object.__setattr__(self, "values", values)

    @property
    def count(self) -> float:  # type: ignore[override]
        return len(self.values)

    def draw(self, rng, paths, name):
        if isinstance(rng, Uniforms) and rng.places is not None:
            return rng.chosen(self.values)
        if paths.stop > len(self.values):
            raise ValueError(
                f"{name}: PerPath holds values for {len(self.values)} paths, but path {paths.stop - 1} of the run "
                "needs one too. Give one value per path."
            )
        return self.values[paths.start : paths.stop]

    def spread(self, rng, count, name):
        return self.values[np.linspace(0, len(self.values) - 1, count).astype(int)]

    def mapped(self, function):
        return PerPath(function(self.values.reshape(len(self.values), -1)))


@dataclasses.dataclass(frozen=True, eq=False)
class _FromDistribution(Source):
    """Draws from a distribution: one of noise.distribution, or a frozen one of scipy.stats."""

    law: Any

    @property
    def ppf(self):  # type: ignore[override]
        return getattr(self.law, "ppf", None)

    def draw(self, rng, paths, name):
        law, size = self.law, len(paths)
        if isinstance(law, (scipy.stats.rv_continuous, scipy.stats.rv_discrete)):
            raise TypeError(
                f"{name}: {law.name} is a family of distributions; give its parameters: scipy.stats.{law.name}(...)"
            )
        check_law(law, name)
        arguments = (*law.args, *law.kwds.values()) if hasattr(law, "args") else ()
        own = np.broadcast_shapes(*map(np.shape, arguments))
        if isinstance(rng, Uniforms) and self.ppf is not None:
            return checked_draws(np.asarray(self.ppf(rng.take(size, own)), float), size, name)
        values = np.asarray(law.rvs(size=(size, *own) if own else size, random_state=rng), float)
        if size == 1 and values.shape[:1] != (1,):
            values = values[None]  # scipy drops the axis of a single draw of a vector
        return checked_draws(values, size, name)

    def normal(self):
        law = getattr(self.law, "law", self.law)  # of a distribution of noise.distribution, that of scipy.stats
        if getattr(getattr(law, "dist", None), "name", "") == "norm":
            _, location, scale = law.dist._parse_args(*law.args, **law.kwds)
            mean, deviation = np.broadcast_arrays(*map(np.atleast_1d, (location, scale)))
            return mean.astype(float), np.diag(np.square(deviation, dtype=float))
        if hasattr(law, "cov_object"):
            return np.atleast_1d(np.asarray(law.mean, float)), np.atleast_2d(law.cov_object.covariance)
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class _FromFunction(Source):
    """Draws of a user's function(rng, size) -> (size, ...)."""

    function: Callable

    def normal(self):
        law: Any = self.function
        return (law.mean, law.covariance) if hasattr(law, "mean") and hasattr(law, "covariance") else None

    def example(self, name):
        example = super().example(name)
        first, second = (np.asarray(self.function(np.random.default_rng(0), REPEATS)).tobytes() for _ in range(2))
        if first != second:
            raise ValueError(
                f"{name}: called twice with the same generator, {name}(rng, size) gives different numbers, so that a "
                "run could not be repeated. Draw from rng alone: rng.normal(size=size), not np.random.normal(size=size)"
            )
        return example

    def draw(self, rng, paths, name):
        return checked_draws(np.asarray(self.function(rng, len(paths)), float), len(paths), name)


@dataclasses.dataclass(frozen=True, eq=False)
class _Mapped(Source):
    """A function of another source's values, as rows."""

    source: Source
    function: Callable

    @property
    def parts(self):
        return self.source.parts

    @property
    def is_listed(self) -> bool:  # type: ignore[override]
        return self.source.is_listed

    @property
    def count(self) -> float:  # type: ignore[override]
        return self.source.count

    def draw(self, rng, paths, name):
        return self.function(self.source.draw(rng, paths, name).reshape(len(paths), -1))

    def normal(self):
        inner = self.source.normal()
        if inner is None:
            return None
        mean, covariance = inner
        offset = self.function(np.zeros((1, len(mean))))[0]
        slope = (self.function(np.eye(len(mean))) - offset).T
        is_linear = np.allclose(self.function(mean[None])[0], slope @ mean + offset, rtol=1e-12, atol=1e-300)
        return (slope @ mean + offset, slope @ covariance @ slope.T) if is_linear else None


@dataclasses.dataclass(frozen=True, eq=False)
class _Joined(Source):
    """Several sources side by side, drawn one after the other; names: that of each in errors."""

    sources: tuple[Source, ...]
    names: tuple[str, ...]

    @functools.cached_property
    def parts(self):
        return tuple(part for source in self.sources for part in source.parts)

    @property
    def is_listed(self) -> bool:  # type: ignore[override]
        return any(source.is_listed for source in self.sources)

    @property
    def count(self) -> float:  # type: ignore[override]
        return min(source.count for source in self.sources)

    def draw(self, rng, paths, name):
        named = self.names or (name,) * len(self.sources)
        columns = [source.draw(rng, paths, own) for source, own in zip(self.sources, named, strict=True)]
        return np.concatenate([column.reshape(len(paths), -1) for column in columns], axis=1)

    def normal(self):
        laws = [source.normal() for source in self.sources]
        if any(law is None for law in laws):
            return None
        means, covariances = zip(*laws, strict=True)
        return np.concatenate(means), scipy.linalg.block_diag(*covariances)


def source_of(value: Any) -> Source:
    """The source of a user's values for a start or a parameter."""
    if isinstance(value, Source):
        return value
    if hasattr(value, "rvs"):
        return _FromDistribution(value)
    return _FromFunction(value) if callable(value) else Fixed(value)


def sources_in(tree: Any) -> Any:
    """Return the pytree in which every leaf is replaced by its source."""
    return jax.tree.map(source_of, tree)


def differs(tree: Any) -> bool:
    """Whether some leaf of a pytree differs from path to path."""
    return any(source_of(leaf).is_random for leaf in jax.tree.leaves(tree))


def joined(sources: Sequence[Source], names: Sequence[str] = ()) -> Source:
    """The source of vectors whose parts come from several sources, side by side."""
    if any(source.is_random for source in sources):
        return _Joined(tuple(sources), tuple(names))
    return Fixed(np.concatenate([np.ravel(source.argument) for source in sources]))


def check_law(law: Any, name: str) -> None:
    """Refuse a frozen distribution of scipy.stats whose parameters are not those of a distribution."""
    family = getattr(law, "dist", None)
    if not isinstance(family, (scipy.stats.rv_continuous, scipy.stats.rv_discrete)):
        return
    shapes, location, scale = family._parse_args(*law.args, **law.kwds)
    named = dict(zip((family.shapes or "").replace(",", " ").split(), shapes, strict=False))
    if not np.all(np.asarray(scale) > 0):
        raise ValueError(f"{name}: scipy.stats.{family.name} has scale={scale}; the scale must be > 0")
    if not np.all(np.isfinite(location)):
        raise ValueError(f"{name}: scipy.stats.{family.name} has loc={location}; the location must be finite")
    if not np.all(family._argcheck(*shapes)):
        words = ", ".join(f"{shape}={value}" for shape, value in named.items())
        raise ValueError(
            f"{name}: scipy.stats.{family.name} is not defined for {words}; see the documentation of "
            f"scipy.stats.{family.name} for the range of {'its parameters' if len(named) > 1 else next(iter(named))}"
        )


def checked_draws(values: np.ndarray, size: int, name: str) -> np.ndarray:
    """The values drawn for `size` paths, after a check of their shape and that they are finite."""
    if values.shape[:1] != (size,):
        raise ValueError(
            f"{name}: asked for {size} draws but got an array of shape {values.shape}; "
            "its first axis must count the draws"
        )
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name}: drew a value that is not finite")
    return values
