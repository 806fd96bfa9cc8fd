"""Where the functions of a RandomDAE bend or jump within the laws of its parameters.

Along one parameter at a time, the others at their means and once more elsewhere (a bend in a combination of parameters
moves, and cannot be named), the jump of the slope between neighbouring chords is found on
a grid, and again on grids eight times as fine about the largest ones. A smooth function halves it with every halving;
at a bend it stays, and at a jump it grows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stodyn.problems import pencil

PLACES, CLOSER, ZOOMS = 257, 17, 3  # places along a parameter, about a bend, and how often they are taken closer
ASIDE = 0.3  # quantile of the other parameters in the second place
LIKELY = 0.01  # probability on either side beyond which nobody looks
MOST = 6  # bends that are looked for along a parameter
STAYS = 0.5  # share of the jump of a slope that is left on finer grids, where it is one
LEAST = 1e-6  # jump of a slope beside the slope of the whole, below which it is rounding
TIMES = 5  # of a run, at which a source is evaluated

Values = Callable[[np.ndarray], np.ndarray]  # nodes (K, Q) -> (K, entries)


def bends(problem: Any, times: np.ndarray) -> dict[str, list[float]]:
    """Name -> the values of a parameter at which a function bends or jumps, without those that are named in kinks."""
    functions, places = _functions(problem, times), dict[str, list[float]]()
    aside = np.array([law.ppf(ASIDE) for law in problem.distributions])
    for i, (name, law) in enumerate(problem.laws.items()):
        grid = np.linspace(law.ppf(LIKELY), law.ppf(1 - LIKELY), PLACES)
        known = [float(kink) for kink in problem.kinks.get(name, ())]
        for function in functions:
            here, there = (_along(_line(function, others, i), grid) for others in (problem.center, aside))
            for place in here:
                if _is_near(place, there, grid) and not _is_near(place, [*known, *places.get(name, ())], grid):
                    places.setdefault(name, []).append(place)
    return {name: sorted(values) for name, values in places.items()}


def _line(function: Values, others: np.ndarray, i: int) -> Values:
    """The function along parameter i."""

    def along(x: np.ndarray) -> np.ndarray:
        nodes = np.tile(others, (len(x), 1))
        nodes[:, i] = x
        return function(nodes)

    return along


def _is_near(place: float, others: Sequence[float], grid: np.ndarray) -> bool:
    return any(abs(place - other) <= grid[1] - grid[0] for other in others)


def _functions(problem: Any, times: np.ndarray) -> list[Values]:
    """The functions that are not multi-affine in the parameters, as such have no bends."""
    systems, terms = problem.systems, problem.dependence
    look = times[np.unique(np.linspace(0, len(times) - 1, TIMES).astype(int))]

    def matrices(name: str) -> Values:
        return lambda nodes: np.stack([pencil.dense(name, M).ravel() for M in systems.values(name, nodes)])

    functions: list[Values] = [matrices("mass")] if terms.mass_terms is None else []
    if problem.linear and terms.matrix_terms is None:
        functions.append(matrices("matrix"))
    if problem.linear and terms.source_terms(times) is None:
        functions.append(lambda nodes: np.moveaxis(systems.sources(look, nodes), 1, 0).reshape(len(nodes), -1))
    if terms.start_terms is None:
        functions.append(systems.starts)
    if not problem.linear:
        x = problem.start_at(problem.center)
        functions.append(lambda nodes: systems.rates(look[:1], np.tile(x, (1, len(nodes), 1)), nodes)[0])
    return functions


def _along(values: Values, grid: np.ndarray) -> list[float]:
    """The places at which a function of one variable bends or jumps."""
    F = values(grid)
    if not np.all(np.isfinite(F)):
        return []
    whole = np.ptp(F, axis=0) / (grid[-1] - grid[0])
    sizes = _jumps(F, grid)
    shares = np.where(whole > 0, sizes / np.where(whole > 0, whole, 1.0), 0.0)
    most = shares.max(axis=1)
    peaks = np.flatnonzero((most >= np.r_[0.0, most[:-1]]) & (most >= np.r_[most[1:], 0.0]) & (most > LEAST))
    places = []
    for k in sorted(peaks, key=lambda k: -most[k])[:MOST]:
        place = _closer(values, grid[k + 1], grid[1] - grid[0], int(np.argmax(shares[k])), sizes[k])
        if place is not None:
            places.append(place)
    return places


def _jumps(F: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """How much the slope changes from chord to chord, (places - 2, entries)."""
    return np.abs(np.diff(np.diff(F, axis=0) / np.diff(grid)[:, None], axis=0))


def _closer(values: Values, place: float, spacing: float, entry: int, sizes: np.ndarray) -> float | None:
    """The place of a bend or jump of an entry, which a coarser grid shows at `place`; None where there is none."""
    for _ in range(ZOOMS):
        near = place + spacing * np.linspace(-1.0, 1.0, CLOSER)
        size = _jumps(values(near), near)[:, entry]
        if not size.max() > STAYS * sizes[entry]:
            return None
        place, spacing = float(near[1 + np.argmax(size)]), near[1] - near[0]
    return place
