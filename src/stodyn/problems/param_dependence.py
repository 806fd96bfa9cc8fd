"""How the matrices, the start and the source of a RandomDAE depend on its parameters, found by interpolation."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from stodyn.problems import multiaffine
from stodyn.problems.multiaffine import MultiAffine

TESTS = 16  # points anywhere at which an interpolant is compared with the function
OUTER = 0.01, 0.99  # quantiles of all parameters at two points more: a bend shows that cuts off more than that
SOURCE_TIMES = 8  # times of a run at which the dependence of a source on the parameters is tested at first


@dataclasses.dataclass(frozen=True, eq=False)
class ParamDependence:
    """The terms of M, A, s and the start of a RandomDAE in its random parameters, each found when first asked for."""

    problem: Any

    @functools.cached_property
    def _tests(self) -> np.ndarray:
        """Points of which each parameter has one in every TESTS-th part of its law (a Latin hypercube), and two at
        which all of them are near their ends."""
        rng, shape = np.random.default_rng(20), (TESTS, len(self.problem.distributions))
        parts = rng.permuted(np.broadcast_to(np.arange(TESTS)[:, None], shape), axis=0)
        u = 0.02 + 0.96 * (parts + rng.uniform(size=shape)) / TESTS
        if not u.size:
            return u
        u = np.vstack([u, *(np.full(u.shape[1], one) for one in OUTER)])
        anywhere = np.stack([law.ppf(u[:, i]) for i, law in enumerate(self.problem.distributions)], axis=1)
        return np.vstack([anywhere, self.between_kinks])

    @functools.cached_property
    def between_kinks(self) -> np.ndarray:
        """The medians of the pieces between kinks, the other parameters at their means, (pieces, Q)."""
        places = []
        for i, name in enumerate(self.problem.parameters):
            for piece in self.problem.laws[name].split(self.problem.kinks[name]) if name in self.problem.kinks else ():
                places.append(self.problem.center.copy())
                places[-1][i] = piece.law.ppf(0.5)
        return np.array(places).reshape(-1, len(self.problem.parameters))

    @functools.cached_property
    def _spread(self) -> np.ndarray:
        """Steps from the means that stay inside the supports."""
        return np.array([law.ppf(0.75) - law.mean or law.ppf(0.9) - law.mean for law in self.problem.distributions])

    def _find(self, at: Callable[[np.ndarray], Any]) -> MultiAffine | None:
        return multiaffine.find(at, self.problem.center, self._spread, self._tests)

    def _sources_at(self, times: np.ndarray, p: np.ndarray) -> np.ndarray:
        return self.problem.systems.sources(times, p[None])[:, 0]

    @functools.cached_property
    def mass_terms(self) -> MultiAffine | None:
        """The mass as a multi-affine function of the parameters, with sparse coefficients; None where it is not one."""
        return self._find(lambda p: scipy.sparse.csr_array(square("mass", self.problem.mass_at(p))))

    @functools.cached_property
    def matrix_terms(self) -> MultiAffine | None:
        """The terms of the matrix A."""
        return self._find(lambda p: scipy.sparse.csr_array(square("matrix", self.problem.matrix_at(p))))

    @functools.cached_property
    def start_terms(self) -> MultiAffine | None:
        """The terms of the start."""
        return self._find(self.problem.start_at)

    def source_terms(self, times: np.ndarray) -> list[tuple[int, ...]] | None:
        """The sets of parameters whose products combine to the source at all times; None where there are none."""
        if not callable(self.problem.source):
            return [()]
        key = np.asarray(times, float).tobytes()
        if key not in self._sets_of_source:
            self._sets_of_source[key] = self._find_source_terms(np.asarray(times, float))
        return self._sets_of_source[key]

    @functools.cached_property
    def _sets_of_source(self) -> dict[bytes, list[tuple[int, ...]] | None]:
        return {}

    def _find_source_terms(self, times: np.ndarray) -> list[tuple[int, ...]] | None:
        """From some of the times, and then from those where another parameter shows that terms are missing: a pulse."""
        sample_times = times[np.unique(np.linspace(0, len(times) - 1, SOURCE_TIMES).astype(int))]
        while True:
            terms = self._find(functools.partial(self._sources_at, sample_times))
            if terms is None:
                return None
            sets = list(terms.terms)
            missed = np.setdiff1d(self._unlike(times, sets), sample_times)
            if not len(missed):
                return sets
            sample_times = np.append(sample_times, missed[:: -(-len(missed) // SOURCE_TIMES)])

    def _unlike(self, times: np.ndarray, sets: list[tuple[int, ...]]) -> np.ndarray:
        """The times at which the combination of the sets differs from the source at a test point."""
        if not self.problem.parameters:
            return times[:0]
        p = self._tests[0]
        products = MultiAffine(self.problem.center, dict.fromkeys(sets)).monomials(p[None])[0]
        parts = products[:, None] * self.source_parts(times, sets)
        values = self._sources_at(times, p)
        size = np.maximum(np.abs(parts).sum(axis=1), np.abs(values)).max(axis=0)
        return times[(np.abs(values - parts.sum(axis=1)) > multiaffine.EXACT * size).any(axis=1)]

    def source_parts(self, times: np.ndarray, sets: list[tuple[int, ...]]) -> np.ndarray:
        """The coefficients of the source for each set, (times, sets, n)."""
        at = functools.partial(self._sources_at, times)
        parts = multiaffine.interpolated(at, self.problem.center, self._spread, sets)
        return np.stack([parts[S] for S in sets], axis=1)


def square(name: str, matrix: Any) -> Any:
    """A finite square matrix, sparse or dense."""
    array = as_array(matrix)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise ValueError(f"{name}: expected a square matrix, got shape {array.shape}")
    if not np.all(np.isfinite(array.data if scipy.sparse.issparse(array) else array)):
        raise ValueError(f"{name}: has entries that are not finite")
    return array


def as_array(matrix: Any) -> Any:
    """A sparse matrix as it is, anything else as a dense array."""
    return matrix if scipy.sparse.issparse(matrix) else np.asarray(matrix, float)
