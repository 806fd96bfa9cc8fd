"""Bases of orthonormal polynomials Φ_i(p) = Π_j ψ_(i_j)(p_j) of independent random parameters.

total   M_R: i_1 + ... + i_Q <= R          binomial(R + Q, Q) terms
tensor  N_R: i_1, ..., i_Q <= R            (R + 1)^Q terms
cross   Π (i_j + 1) <= R + 1               the hyperbolic cross: few terms in which many parameters interact
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from stodyn.chaos.memory import refuse_too_large
from stodyn.noise.distribution import Distribution
from stodyn.numerics import orthogonal

KINDS = ("total", "tensor", "cross")


@dataclasses.dataclass(frozen=True, eq=False)
class Basis:
    """A basis of orthonormal polynomials; `indices` (P, Q) are the degrees of its P terms in Q parameters, the first
    term being the constant."""

    laws: tuple[Distribution, ...]
    indices: np.ndarray
    kind: str
    degree: int

    def __len__(self) -> int:
        return len(self.indices)

    @functools.cached_property
    def _recurrences(self) -> list[orthogonal.Recurrence]:
        """The recurrences of the orthonormal polynomials of each parameter."""
        return [law.recurrence(self.degree + 1) for law in self.laws]

    def evaluate(self, nodes: np.ndarray) -> np.ndarray:
        """The values (K, P) of all terms at nodes (K, Q)."""
        values = np.ones((len(nodes), len(self)))
        for j, recurrence in enumerate(self._recurrences):
            values *= orthogonal.evaluate(recurrence, nodes[:, j])[:, self.indices[:, j]]
        return values

    def product(self, parameters: Sequence[int]) -> Any:
        """T_S = <Π_(j ∈ S) (p_j - mean_j) Φ_i Φ_l>, sparse (P, P), from the recurrences: at most 2^|S| entries per row
        where the distributions are symmetric, 3^|S| else.
        """
        rows, columns = np.arange(len(self)), np.arange(len(self))
        values, places = np.ones(len(self)), self.indices
        for j in parameters:
            recurrence = self._recurrences[j]
            parts = []
            for shift in (-1, 0, 1):
                k = places[:, j]
                if shift == 0:
                    factor = recurrence.alpha[k] - recurrence.alpha[0]
                else:
                    upper = k + (shift > 0)
                    factor = np.sqrt(recurrence.beta[np.clip(upper, 0, self.degree)]) * (upper >= 1)
                    factor = factor * (k + shift <= self.degree)
                used = np.flatnonzero(factor != 0.0)
                moved = places[used].copy()
                moved[:, j] += shift
                parts.append((rows[used], moved, values[used] * factor[used]))
            rows, places, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        if len(parameters):
            columns = self._find(places)
            inside = columns >= 0
            rows, columns, values = rows[inside], columns[inside], values[inside]
        return scipy.sparse.coo_array((values, (rows, columns)), (len(self), len(self)))

    @functools.cached_property
    def _keys(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Factors that turn an index into one number, the sorted numbers of all terms and which term each is."""
        factors = np.random.default_rng(1).integers(1, 2**63, len(self.laws), dtype=np.uint64) | np.uint64(1)
        keys = (self.indices.astype(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
        order = np.argsort(keys)
        return factors, keys[order], order

    def _find(self, places: np.ndarray) -> np.ndarray:
        """The numbers of the terms with these degrees, -1 where there is none."""
        factors, keys, order = self._keys
        wanted = (places.astype(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
        matches = order[np.searchsorted(keys, wanted).clip(max=len(keys) - 1)]
        return np.where((self.indices[matches] == places).all(axis=1), matches, -1)

    @property
    def spelling(self) -> str:
        """The basis in a few letters, as a result's record names it."""
        letter = {"total": "M", "tensor": "N", "cross": "cross "}[self.kind]
        return f"{letter}{'_' if self.kind != 'cross' else ''}{self.degree}, {len(self)} terms"


def make(kind: str, laws: Sequence[Distribution], degree: int) -> Basis:
    """Make a basis of orthonormal polynomials of the parameters with these laws, up to a "total" degree, to a degree
    in each parameter ("tensor") or in a hyperbolic "cross"; one that does not fit into memory is refused."""
    if kind not in KINDS:
        raise ValueError(f"basis: expected one of {KINDS}, got {kind!r}")
    if isinstance(degree, bool) or not isinstance(degree, (int, np.integer)) or degree < 0:
        raise ValueError(f"degree: expected a whole number >= 0, got {degree!r}")
    Q = len(laws)
    if Q == 0:
        raise ValueError("params: there is no random parameter to expand in; Radau5 solves such a system")
    terms = size(kind, Q, degree)
    refuse_too_large(
        2.0 * terms * (Q + 1), f"basis: {kind} of degree {degree} in {Q} parameters has {terms:.6g} terms and",
        'Take a lower degree, basis="cross", or Sampling with fit="regression".',
    )  # fmt: skip
    indices = np.array(_indices(kind, Q, int(degree)), np.int64).reshape(-1, Q)
    order = np.lexsort((*(-indices[:, j] for j in range(Q - 1, -1, -1)), indices.sum(axis=1)))
    basis = Basis(tuple(laws), indices[order], kind, int(degree))
    _ = basis._recurrences
    return basis


def size(kind: str, Q: int, degree: int) -> int:
    """How many terms a basis has."""
    if kind == "total":
        return math.comb(degree + Q, Q)
    if kind == "tensor":
        return (degree + 1) ** Q
    return _crossed(Q, degree + 1)


@functools.cache
def _crossed(Q: int, budget: int) -> int:
    """How many Q factors >= 1 have a product of at most `budget`."""
    return budget if Q == 1 else sum(_crossed(Q - 1, budget // k) for k in range(1, budget + 1))


def _indices(kind: str, Q: int, degree: int) -> list[tuple[int, ...]]:
    """The degrees of all terms in each of Q parameters."""

    def grow(left: int, budget: int) -> list[tuple[int, ...]]:
        if left == 0:
            return [()]
        rest = {
            "total": lambda k: budget - k,
            "tensor": lambda k: budget,
            "cross": lambda k: (budget + 1) // (k + 1) - 1,
        }[kind]
        return [(k, *tail) for k in range(budget + 1) for tail in grow(left - 1, rest(k))]

    return grow(Q, degree)
