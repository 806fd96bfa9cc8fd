"""Where the functions of a RandomDAE bend or jump within the laws of its parameters, or are singular at their ends.

Along one parameter at a time, the others at their means and once more elsewhere (a bend in a combination of parameters
moves), and along lines between places of the whole domain, which show the bends of combinations, the jump of the slope
between neighbouring chords is found on a grid, and again on grids eight times as fine about the largest ones. A smooth
function halves it with every halving; at a bend it stays, and at a jump it grows. Towards an end of a law, the slope
of a function that is singular there grows and grows, or the mass loses its rank.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stodyn.problems import pencil
from stodyn.problems.random_start import INDEX_LIMIT

PLACES, CLOSER, ZOOMS = 257, 17, 3  # places along a parameter, about a bend, and how often they are taken closer
ASIDE = 0.3  # quantile of the other parameters in the second place
LIKELY = 0.01  # probability on either side beyond which nobody looks
LINES, PLACES_ON_LINE = 4, 129  # that are looked along for bends of combinations, and places along each
MOST = 6  # bends that are looked for along a parameter
STAYS = 0.5  # share of the jump of a slope that is left on finer grids, where it is one
LEAST = 1e-6  # jump of a slope beside the slope of the whole, or span beside the value, below which it is rounding
TIMES = 5  # of a run, at which a source is evaluated
NEARER = 4.0 ** -np.arange(11)  # shares of the way from an end of a law, at which slopes are compared
GROWS = 4.0  # over the last five of which the slope grows as much where a power below 4/5 of the distance begins
LOST = 1e-4  # of a singular value of the mass, where it is lost

Values = Callable[[np.ndarray], np.ndarray]  # nodes (K, Q) -> (K, entries)


@dataclasses.dataclass(frozen=True)
class Bends:
    """Where functions are not smooth, without what is named in kinks: by parameter the values at which they bend or
    jump, a place at which they do that no value of one parameter names, and the ends of laws at which they are
    singular."""

    named: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)
    oblique: Mapping[str, float] = dataclasses.field(default_factory=dict)
    ends: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.named or self.oblique)

    @property
    def way_out(self) -> str:
        """What to do about them, in words; nothing where there are none."""
        words = ""
        if self.named:
            places = {name: [float(f"{value:.4g}") for value in values] for name, values in self.named.items()}
            where = _spelled((name, value) for name, values in places.items() for value in values)
            words += (
                f"Functions of the problem bend or jump at {where}: name that, kinks={places}, and take Quadrature or "
                "Galerkin, which then split their integrals there. "
            )
        if self.oblique:
            words += (
                "Functions of the problem bend or jump where a combination of parameters reaches a value, as at "
                f"{_spelled(self.oblique.items())}, and kinks cannot name that: take Sampling, or a parameter for the "
                "combination if its law is known. "
            )
        if self.ends and not words:
            name = next(iter(self.ends))
            words += (
                f"The equations are singular at {_spelled(self.ends.items())}, where the law ends, and polynomials of "
                f"{name} follow the solution slowly: take Sampling, a law that ends before, or a parameter in which "
                f"the solution is smoother, such as the logarithm of {name}. "
            )
        return words


def _spelled(places: Any) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in places)


def bends(problem: Any, times: np.ndarray) -> Bends:
    """Where the functions of a problem are not smooth."""
    functions, places = _functions(problem, times), dict[str, list[float]]()
    ends = _singular_ends(problem, functions)  # a pole just beyond the grid looks like a bend
    aside = np.array([law.ppf(ASIDE) for law in problem.distributions])
    for i, (name, law) in enumerate(problem.laws.items()):
        grid = np.linspace(law.ppf(LIKELY), law.ppf(1 - LIKELY), PLACES)
        known = [float(kink) for kink in problem.kinks.get(name, ())]
        known += [grid[np.argmin(np.abs(grid - end))] for end in (ends[name],)] if name in ends else []
        for function in functions:
            here, there = (_along(_line(function, others, i), grid) for others in (problem.center, aside))
            for place in here:
                if _is_near(place, there, grid) and not _is_near(place, [*known, *places.get(name, ())], grid):
                    places.setdefault(name, []).append(place)
    named = {name: sorted(values) for name, values in places.items()}
    return Bends(named, _oblique(problem, functions, named), ends)


def _oblique(problem: Any, functions: Sequence[Values], named: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """A place at which a function bends or jumps, and not by the value of one parameter."""
    laws = problem.distributions
    known = [[*problem.kinks.get(name, ()), *named.get(name, ())] for name in problem.parameters]
    grid, rng = np.linspace(0.0, 1.0, PLACES_ON_LINE), np.random.default_rng(0)
    for k in range(LINES if len(laws) > 1 else 0):
        u = rng.random(len(laws)) if k % 2 else rng.integers(0, 2, len(laws)) * 1.0  # every other from a corner
        ends = [LIKELY + (1.0 - 2.0 * LIKELY) * one for one in (u, rng.random(len(laws)) if k % 2 else 1.0 - u)]
        begin, end = (np.array([law.ppf(one) for law, one in zip(laws, v, strict=True)]) for v in ends)
        for function in functions:
            for s in _along(lambda s: function(begin + s[:, None] * (end - begin)), grid):
                place = begin + s * (end - begin)
                slack = 2.0 * np.abs(end - begin) / PLACES_ON_LINE
                if not any(abs(p - v) <= d for p, d, own in zip(place, slack, known, strict=True) for v in own):
                    return dict(zip(problem.parameters, place.tolist(), strict=True))
    return {}


def _singular_ends(problem: Any, functions: Sequence[Values]) -> dict[str, float]:
    """The ends of laws at which a function is singular or the mass loses its rank, by parameter."""
    ends: dict[str, float] = {}
    ranks: list[Values] = []
    if problem.n <= INDEX_LIMIT:
        ranks = [lambda nodes: np.linalg.svd(problem.systems.masses(nodes), compute_uv=False)]
    for i, (name, law) in enumerate(problem.laws.items()):
        for end, inner in ((law.low, law.ppf(LIKELY)), (law.high, law.ppf(1 - LIKELY))):
            if not np.isfinite(end) or not abs(inner - end) > 0.0:
                continue
            places = end + (inner - end) * NEARER
            with np.errstate(all="ignore"):
                is_singular = any(
                    _steepens(_line(function, problem.center, i)(places), places) for function in functions
                )
                is_lost = any(_vanishes(_line(values, problem.center, i)(places)) for values in ranks)
            if is_singular or is_lost:
                ends[name] = float(end)
    return ends


def _steepens(F: np.ndarray, places: np.ndarray) -> bool:
    """Whether the slope of a function grows towards the last place, or the function has no value there."""
    slopes = np.abs(np.diff(F, axis=0) / np.diff(places)[:, None])
    return not np.all(np.isfinite(F)) or bool(np.any(slopes[-1] > GROWS * np.abs(slopes[:-5]).max(axis=0)))


def _vanishes(values: np.ndarray) -> bool:
    """Whether a singular value of the mass falls to nothing towards the last place."""
    return not np.all(np.isfinite(values)) or bool(np.any(values[-1] < LOST * values[0]))


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
    spans = np.ptp(F, axis=0)
    whole = np.where(spans > LEAST * np.abs(F).max(axis=0), spans, 0.0) / (grid[-1] - grid[0])
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
