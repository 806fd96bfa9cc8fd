"""The start of a state made of two vectors of one length: coordinates and momenta, positions and velocities."""

from __future__ import annotations

from typing import Any

import numpy as np

from stodyn.noise.distribution import OfPaths, draw, is_random
from stodyn.problems.contract import fixed_value


def example(start: Any, letters: str) -> tuple[np.ndarray, np.ndarray]:
    """Both parts for one path, in the shapes the user's functions see: numbers or vectors of one length.

    start is a pair, each part fixed or random, or one sampler of whole states (2N,), the first part first. letters are
    the names of the two parts, "qp" or "xv".
    """
    a, b = tuple(letters)
    if start is None:
        raise ValueError(f"start: missing; give ({a}0, {b}0), two numbers or two vectors")
    rng = np.random.default_rng(0)
    if is_random(start):
        whole = draw(start, rng, range(1), "start")[0]
        if whole.ndim != 1 or whole.size % 2:
            raise ValueError(f"start: a draw has the shape {whole.shape}, expected (2N,): {a} first, then {b}")
        first, second = np.split(whole, 2)
        return (first[0], second[0]) if first.size == 1 else (first, second)
    if not hasattr(start, "__len__") or len(start) != 2:
        found = f"{len(start)} entries" if hasattr(start, "__len__") else repr(start)
        raise ValueError(f"start: expected ({a}0, {b}0), got {found}; N coordinates are one vector {a}0")
    first, second = (
        draw(part, rng, range(1), name)[0] if is_random(part) else fixed_value(name, part)
        for name, part in zip(_names(letters), start, strict=True)
    )
    if first.shape != second.shape or first.ndim > 1 or first.size == 0:
        raise ValueError(
            f"start: {a}0 has the shape {first.shape} and {b}0 {second.shape}; expected two numbers or two vectors of "
            "one length"
        )
    return first, second


def drawn(start: Any, letters: str, rng: np.random.Generator, paths: range, N: int) -> np.ndarray:
    """The states (len(paths), 2N) of the given paths."""
    if is_random(start):
        return draw(start, rng, paths, "start").reshape(len(paths), 2 * N)
    columns = []
    for name, part in zip(_names(letters), start, strict=True):
        values = draw(part, rng, paths, name) if is_random(part) else fixed_value(name, part)[None]
        columns.append(np.broadcast_to(values.reshape(len(values), N), (len(paths), N)))
    return np.concatenate(columns, axis=1)


def whole(start: Any, letters: str, N: int) -> Any:
    """The start as one source of vectors (2N,), for a problem whose state is one vector."""
    if is_random(start):
        return start
    rng = np.random.default_rng(0)
    if not any(map(is_random, start)):
        return drawn(start, letters, rng, range(1), N)[0]
    return OfPaths(lambda rng, paths: drawn(start, letters, rng, paths, N), start)


def _names(letters: str) -> tuple[str, ...]:
    return tuple(f"start {letter}0" for letter in letters)
