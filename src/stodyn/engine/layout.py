"""The paths of a run in blocks, and the start and the parameters of each path."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stodyn.engine.spec import Spec
from stodyn.noise import stream
from stodyn.noise.sobol import Sobol, sobol
from stodyn.noise.source import ByPath, Source
from stodyn.noise.uniforms import Uniforms
from stodyn.problems.contract import has_listed_start

PART = 1024  # paths whose random starts and parameters are drawn together


class Members(NamedTuple):
    """Some paths: which lanes are paths of the run, their weights, starts (n, lanes) and parameters."""

    member: Any
    weight: Any
    start: Any
    params: list[Any]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The paths of a run in blocks of `width`: block b holds paths b·width, ...; a path is the same in any block.

    least   where it is not `width`, the blocks hold least, least, 2 least, 4 least, ..., width, width, ... paths: for
            runs that begin with few paths and continue by doubling; width is then a multiple by a power of two
    points  "random": normals of generators of their own; "sobol": of randomised Sobol points (noise.sobol), whose first
            coordinates are those of random starts and parameters
    shuffles  whether a path takes a random place in all lists of values (PerPath), not that of its number
    """

    spec: Spec
    paths: int
    seed: int
    width: int
    least: int | None = None
    points: str = "random"
    shuffles: bool = False

    @property
    def blocks(self) -> int:
        count = self.whole_blocks
        return count + (self.first_path(count) < self.paths)

    @property
    def whole_blocks(self) -> int:
        """How many blocks at the beginning are as large as they can be."""
        if self.least is None or self.paths >= self.width:
            return self.paths // self.width + self._doublings
        return (self.paths // self.least).bit_length()

    @property
    def _doublings(self) -> int:
        return 0 if self.least is None else (self.width // self.least).bit_length() - 1

    def first_path(self, block: int) -> int:
        if self.least is None or block > self._doublings:
            return (block - self._doublings) * self.width
        return self.least * 2 ** (block - 1) if block else 0

    def paths_in(self, block: int) -> int:
        return min(self.first_path(block + 1), self.paths) - self.first_path(block)

    @property
    def has_common_start(self) -> bool:
        return self.spec.common_start is not None

    def members(self, block: int, lanes: int | None = None) -> Members:
        """The members of a block; lanes beyond the last path repeat its first ones and do not count."""
        return self.members_from(self.first_path(block), self.paths_in(block), lanes or self.width)

    def members_from(self, first: int, count: int, lanes: int) -> Members:
        if not self.has_common_start or any(self.spec.varies):
            return self._drawn_members(first, count, lanes)
        alike = self.spec.members_alike
        if (count, lanes) not in alike:
            alike[count, lanes] = self._drawn_members(first, count, lanes)
        return alike[count, lanes]

    def _drawn_members(self, first: int, count: int, lanes: int) -> Members:
        spec, lane = self.spec, np.arange(lanes)
        fill = lane % count
        start, *values = self.draw(first, first + count)
        rest, params = iter(values), []
        for leaf, example, varies in zip(spec.param_leaves, spec.examples, spec.varies, strict=True):
            own = np.moveaxis(next(rest)[fill], 0, -1) if varies else leaf
            params.append(np.ascontiguousarray(own, example.dtype) if varies else np.asarray(own, example.dtype))
        starts = np.empty((start.shape[1], lanes), spec.dtype)
        with np.errstate(over="ignore"):  # a start beyond float32 is a failure at the first time
            starts[:] = start[fill].T if len(start) > 1 else start.T
        return Members(lane < count, np.ones(lanes), starts, params)

    def draw(self, first: int, last: int) -> list[np.ndarray]:
        """The starts of the paths from `first` to `last`, and their values of each parameter that varies: a leading
        axis of paths, of length 1 for a start that all have in common."""
        return [self.starts(first, last), *self.own_params(first, last)]

    def starts(self, first: int, last: int) -> np.ndarray:
        problem = self.spec.problem
        if self.has_common_start:
            return self.spec.common_start  # type: ignore[return-value]
        if problem.start_from_normals is not None and self.points == "random":
            return problem.start_from_normals.of_paths(self.seed, first, last).reshape(last - first, problem.n)
        return _in_parts(first, last, has_listed_start(problem) and not self.shuffles,
                         lambda part, numbers: problem.draw_start(self._generator(part, 0, "start"), numbers)
        )  # fmt: skip

    def own_params(self, first: int, last: int) -> list[np.ndarray]:
        def values(k: int, source: Source) -> np.ndarray:
            if isinstance(source, ByPath) and self.points == "random":
                return source.of_paths(self.seed, first, last)
            return _in_parts(
                first, last, source.is_listed and not self.shuffles,
                lambda part, numbers: source.draw(self._generator(part, 1 + k, "params", k), numbers, "params"),
            )  # fmt: skip

        return [values(k, source) for k, source in enumerate(self._own_sources)]

    @property
    def _own_sources(self) -> list[Source]:
        return [source for source in self.spec.problem.param_sources if source.is_random]

    @property
    def net(self) -> Sobol:
        """The Sobol points of the run; the normals of a step may be those of two halves (methods.coupled)."""
        spec: Any = self.spec
        halves = getattr(spec.method.needs, "halves", 1)
        return sobol(self.seed, spec.traced.streams, tuple(spec.lengths.tolist()), halves, self.in_front[-1])

    @functools.cached_property
    def in_front(self) -> list[int]:
        """The first coordinates of the start and of each random parameter among those in front of the normals, and how
        many there are in all. The first of all chooses the place in lists of values."""
        counts, rng = [int(self._draws_places)], Uniforms(np.random.SFC64(0), np.empty((0, 1)), np.zeros(1))
        draws = [] if self.has_common_start else [lambda: self.spec.problem.draw_start(rng, range(1))]
        counts += [counts[0]] * self.has_common_start
        draws += [functools.partial(source.draw, rng, range(1), "params") for source in self._own_sources]
        for draw in draws:
            draw()
            counts.append(counts[0] + rng.position)
        return counts

    @property
    def _draws_places(self) -> bool:
        problem = self.spec.problem
        return self.shuffles and (has_listed_start(problem) or any(source.is_listed for source in self._own_sources))

    def _generator(self, part: int, number: int, *key: Any) -> np.random.Generator:
        """The generator of the starts of a part of the paths (number 0) or of their values of a parameter (1, ...)."""
        bits = stream.bit_generator(self.seed, part, *key)
        places = stream.generator(self.seed, part, "place").random(PART) if self._draws_places else None
        if self.points == "random":
            return np.random.Generator(bits) if places is None else Uniforms(bits, np.empty((0, PART)), places)
        uniforms = self.net.uniforms(part * PART, PART)
        return Uniforms(bits, uniforms[self.in_front[number] :], uniforms[0] if self._draws_places else None)


def _in_parts(first: int, last: int, is_listed: bool, draw_part: Callable[[int, range], np.ndarray]) -> np.ndarray:
    """The values drawn for the paths from `first` to `last`, part by part: a whole part is drawn even where only some
    of its paths are wanted; values listed path by path reach only to the last path."""
    parts = []
    for number in range(first // PART, -(-last // PART)):
        stop = (number + 1) * PART
        parts.append(draw_part(number, range(number * PART, min(stop, last) if is_listed else stop)))
    return np.concatenate(parts)[first % PART : first % PART + last - first]
