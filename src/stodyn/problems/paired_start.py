"""States made of two vectors of one length: coordinates and momenta, positions and velocities."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from stodyn.noise.source import Source, joined, source_of
from stodyn.problems.contract import Problem, checked_source, component_names


def pair_names(value: Any, default: Sequence[str], derived: str) -> tuple[str, ...]:
    """Return the names of all 2N components: of N names the second part has `derived` in front; 2N are taken as they
    are, and `default` where there are none."""
    N = len(default) // 2
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else value
    if isinstance(names, tuple) and len(names) == N:
        names = (*names, *(f"{derived}{name}" for name in names))
    try:
        return component_names(names, default)
    except ValueError:
        raise ValueError(
            f"names: expected {N} different names, one per coordinate, or {2 * N}, one per component, got {value!r}"
        ) from None


class Paired(Problem):
    """A problem whose state is two vectors of one length, or two numbers; `letters` names them, "qp" or "xv"."""

    letters: ClassVar[str]

    @functools.cached_property
    def example_pair(self) -> tuple[np.ndarray, np.ndarray]:
        """Both parts of the state of one path, as the functions see them."""
        return example(self.start, self.letters)

    @property
    def scalar(self) -> bool:
        """Whether the parts are numbers."""
        return self.example_pair[0].ndim == 0

    @functools.cached_property
    def start_source(self) -> Source:
        """Where the starts of the paths come from."""
        return source(self.start, self.letters)


def source(start: Any, letters: str) -> Source:
    """The source of states (2N,) of a start: a pair, each part fixed or random, or one sampler of whole states."""
    a, b = tuple(letters)
    if start is None:
        raise ValueError(f"start: missing; give ({a}0, {b}0), two numbers or two vectors")
    if source_of(start).is_random:
        return checked_source("start", start)
    if not hasattr(start, "__len__") or len(start) != 2:
        description = f"{len(start)} entries" if hasattr(start, "__len__") else repr(start)
        raise ValueError(f"start: expected ({a}0, {b}0), got {description}; N coordinates are one vector {a}0")
    names = tuple(f"start {letter}0" for letter in letters)
    parts = [checked_source(name, part) for name, part in zip(names, start, strict=True)]
    first, second = (np.shape(part.example(name)) for name, part in zip(names, parts, strict=True))
    if first != second or len(first) > 1 or first == (0,):
        raise ValueError(
            f"start: {a}0 has the shape {first} and {b}0 {second}; expected two numbers or two vectors of one length"
        )
    return joined(parts, names)


def example(start: Any, letters: str) -> tuple[np.ndarray, np.ndarray]:
    """Both parts for one path, in the shapes the user's functions see: numbers or vectors of one length."""
    a, b = tuple(letters)
    whole = np.asarray(source(start, letters).example("start"))
    if whole.ndim != 1 or whole.size % 2:
        raise ValueError(f"start: a draw has the shape {whole.shape}, expected (2N,): {a} first, then {b}")
    first, second = np.split(whole, 2)
    is_pair = not source_of(start).is_random
    scalar = first.size == 1 and not (is_pair and np.ndim(source_of(start[0]).example("start")) == 1)
    return (first[0], second[0]) if scalar else (first, second)
