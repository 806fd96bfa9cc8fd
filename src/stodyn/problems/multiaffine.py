"""Whether a function of parameters is affine or multi-affine in them, found by exact interpolation.

F(p) = Σ_S Π_(i ∈ S) (p_i - c_i) F_S,   S running over sets of parameters: of one member each (affine) or of any size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy

# Of the largest value of an entry, a choice: an interpolant that is right to this takes the place of the function. That
# of many parameters is rounded to more, even where it is exact, and is not used.
EXACT = 1e-11
ROUNDING = 64 * np.finfo(float).eps  # of it: the rounding of one value; a coefficient of k parameters has that of 2^k
MOST_ACTIVE = 12  # parameters up to which all subsets are tried


class MultiAffine(NamedTuple):
    """The coefficients F_S by sets S (sorted tuples of parameter numbers), around the center c."""

    center: np.ndarray
    terms: Mapping[tuple[int, ...], Any]

    @property
    def order(self) -> int:
        """0 for a constant, 1 for an affine function, more where parameters are multiplied with each other."""
        return max(map(len, self.terms))

    @property
    def kind(self) -> str:
        return "constant" if self.order == 0 else "affine" if self.order == 1 else "multi-affine"

    def monomials(self, nodes: np.ndarray) -> np.ndarray:
        """Π_(i ∈ S) (p_i - c_i) at the nodes (K, Q): (K, terms)."""
        shifted = nodes - self.center
        return np.stack([shifted[:, list(S)].prod(axis=1) for S in self.terms], axis=1)

    def values(self, nodes: np.ndarray) -> np.ndarray:
        """F at the nodes, (K, *shape), dense."""
        parts = np.stack([np.asarray(F.todense() if scipy.sparse.issparse(F) else F) for F in self.terms.values()])
        return np.tensordot(self.monomials(nodes), parts, 1)


def subsets(active: list[int], order: int) -> list[tuple[int, ...]]:
    """The sets of at most `order` of the active parameters, small ones first."""
    return [S for size in range(order + 1) for S in itertools.combinations(active, size)]


def interpolated(at: Callable[[np.ndarray], Any], center: np.ndarray, spread: np.ndarray, sets: list[tuple[int, ...]]):
    """F_S for the given sets from values at the corners c + Σ_(i ∈ T) spread_i e_i of all their subsets T."""
    corners, terms = {}, {}
    for T in {T for S in sets for T in subsets(list(S), len(S))}:
        p = center.copy()
        p[list(T)] += spread[list(T)]
        corners[T] = at(p)
    for S in sets:
        signed = [((-1) ** (len(S) - k), T) for k in range(len(S) + 1) for T in itertools.combinations(S, k)]
        total = sum(sign * corners[T] for sign, T in signed)
        terms[S] = total / np.prod(spread[list(S)]) if S else total
    return terms


def find(
    at: Callable[[np.ndarray], Any], center: np.ndarray, spread: np.ndarray, tests: np.ndarray
) -> MultiAffine | None:
    """The interpolant of F = at(p) where it is exact at the test points (tests, Q), else None.

    at returns arrays, or sparse matrices throughout. center and center + spread in any components must be allowed.
    """
    values = [at(p) for p in tests]
    size = _largest([abs(value) for value in values])
    active = [i for i in range(len(center)) if _depends(at, center, tests, i)]
    for order in (0, 1, len(active)):
        if order > len(active) or (order > 1 and len(active) > MOST_ACTIVE):
            continue
        sets = subsets(active, order)
        coefficients = interpolated(at, center, spread, sets)
        terms = {S: _cleared(F, size, float(np.prod(0.5 * spread[list(S)]))) for S, F in coefficients.items()}
        terms = {S: F for S, F in terms.items() if S == () or _count(F)}
        candidate = MultiAffine(center, terms)
        if all(_near(_combined(candidate, p), value, size) for p, value in zip(tests, values, strict=True)):
            return candidate
    return None


def _depends(at, center, tests, i: int) -> bool:
    base = tests[0].copy()
    value = at(base)
    for other in (center[i], *tests[1:, i]):
        moved = base.copy()
        moved[i] = other
        if not _same(at(moved), value):
            return True
    return False


def _combined(form: MultiAffine, p: np.ndarray) -> Any:
    weights = form.monomials(p[None])[0]
    return sum(weight * F for weight, F in zip(weights, form.terms.values(), strict=True))


def _largest(values: list[Any]) -> Any:
    largest = values[0]
    for value in values[1:]:
        largest = largest.maximum(value) if scipy.sparse.issparse(largest) else np.maximum(largest, value)
    return largest


def _near(a: Any, b: Any, size: Any) -> bool:
    off = abs(a - b) - EXACT * size
    return bool(off.max() <= 0.0) if off.shape and min(off.shape) else True


def _same(a: Any, b: Any) -> bool:
    return _count(a - b) == 0


def _count(F: Any) -> int:
    return int(F.count_nonzero() if scipy.sparse.issparse(F) else np.count_nonzero(F))


def _cleared(F: Any, size: Any, step: float) -> Any:
    """The matrix without the entries that are only rounding: `step` is that of the difference by the number of values
    in it."""
    if scipy.sparse.issparse(F):
        return F.multiply(abs(F) * abs(step) > ROUNDING * size).tocsr()
    return np.where(np.abs(F) * abs(step) > ROUNDING * size, F, 0.0)
