"""The index of a linear system A x' + B x = s(t), its constraints and consistent starts, from the pencil (A, B).

Two independent algorithms look at (A, B) after rows, columns and time have been scaled:

    shuffle     compress the rows of A; the rows B₂ beside its zero rows are constraints, B₂ x = s₂; put their
                derivatives B₂ x' = s₂' in place of the zero rows; repeat until A is regular. Count the rounds.
    nilpotency  M = (λA + B)⁻¹ A for a λ that makes λA + B regular; peel its kernel off by orthogonal steps, until the
                remainder is regular. Count the steps: the size of the largest Jordan block of M at 0.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

EPSILON = float(np.finfo(float).eps)
TOLERANCE = 1e-10  # of the largest singular value: smaller ones count as zero; users' entries are known no better
ELIMINATED = 1e-12  # of the largest of a row: entries that count as eliminated when constraints are written in words
SHIFTS = (1.0, -1.0, 0.61, -0.61, 1.7, -1.7, 3.1, -3.1)  # λ in scaled time
WELL_CONDITIONED = 1e4
# Choices as well, for numbers that users round; where the pencil rounds more, its own rounding takes their place.
INCONSISTENT = 1e-8  # of the state and the source in scaled units: a smaller jump of a start is none
ABSENT = 1e-9  # of the largest response in scaled units: a component with a smaller one does not respond
SINGULAR = 1e13  # the condition of λA + B for every λ beyond which the pencil is called singular
COUNTED = 1e-14  # of the largest of its row or column: smaller entries do not count in the scaling; no rank hangs on it


class SingularPencil(ValueError):
    """det(λA + B) = 0 for every λ: the equations do not determine the solution."""


class NotFinite(ValueError):
    """A matrix with entries that are not finite, or none at all."""


class Decision(NamedTuple):
    """One decision about a rank, with the singular values on both sides of it relative to the largest."""

    stage: str
    rank: int
    smallest_kept: float
    largest_dropped: float  # the largest called zero


class Scaling(NamedTuple):
    """diag(rows) A diag(columns) / time and diag(rows) B diag(columns) have entries of about 1."""

    rows: np.ndarray
    columns: np.ndarray
    time: float


class Constraint(NamedTuple):
    """coefficients · x = Σ_j weights[j] · s^(j); hidden where derivatives of s, or of equations, were needed."""

    coefficients: np.ndarray
    weights: np.ndarray
    hidden: bool

    def in_words(self, names: Sequence[str]) -> str:
        """The left-hand side, e.g. 'u3 - 2 u2', the right-hand side as combinations of s, s', ..."""
        size = np.abs(self.coefficients).max()
        terms = [(c, name) for c, name in zip(self.coefficients, names, strict=True) if abs(c) > 1e-9 * size]
        factors = ["" if abs(abs(c) - 1.0) < 1e-9 else f"{abs(c):.6g} " for c, _ in terms]
        left = " ".join(f"{'+' if c > 0 else '-'} {f}{n}" for (c, n), f in zip(terms, factors, strict=True))
        sources = [f"s{chr(39) * j}" for j, w in enumerate(self.weights) if np.abs(w).max() > 0]
        return f"{left.removeprefix('+ ')} = {'0' if not sources else 'a combination of ' + ', '.join(sources)}"


class Start(NamedTuple):
    """The effect of an initial value: the solution starts at x, and impulses[j] multiplies δ^(j)(t)."""

    x: np.ndarray
    jump: np.ndarray
    impulses: np.ndarray
    moved: np.ndarray  # which components jump by more than rounding
    harmless: bool  # A jump = 0: the first step corrects it, and nothing else changes


@dataclasses.dataclass(frozen=True, eq=False)
class Pencil:
    """The analysis of A x' + B x = s.

    index       by shuffling; `nilpotency` by the other algorithm; `agree` tells whether they are the same
    freedom     dynamic degrees of freedom: how many initial values may be chosen
    decisions   every rank that was decided, with its singular values
    leading     the sign of the leading coefficient of det(λA + B): where it changes between two systems, the index
                changes on the way from one to the other
    projector   onto the dynamic subspace along the one that the equations determine
    response    (index, n, n): the determined part of x is Σ_j response[j] s^(j)
    """

    A: np.ndarray
    B: np.ndarray
    scaling: Scaling
    index: int
    nilpotency: int
    freedom: int
    decisions: tuple[Decision, ...]
    constraints: tuple[Constraint, ...]
    leading: float
    projector: np.ndarray
    response: np.ndarray
    nilpotent: np.ndarray  # (I - λM)⁻¹ M on the determined subspace, unscaled
    rounding: float  # of the projector and of the response, relative to the largest in scaled units

    @property
    def agree(self) -> bool:
        return self.index == self.nilpotency

    @property
    def margin(self) -> float:
        """The smallest singular value that was not called zero: how far a rank is from dropping, 1 at the best."""
        return min((d.smallest_kept for d in self.decisions), default=1.0)

    @functools.cached_property
    def component_index(self) -> np.ndarray:
        """One plus the number of derivatives of s in each component: 0 dynamic, 1 algebraic, 2, 3, ..."""
        r, c, tau = self.scaling
        scaled = np.abs(self.response) / (c[:, None] * r) / tau ** np.arange(len(self.response))[:, None, None]
        sizes = scaled.max(axis=2) if scaled.size else np.zeros((0, len(c)))
        is_present = sizes > max(ABSENT, self.rounding) * max(sizes.max(initial=0.0), np.finfo(float).tiny)
        return np.max(np.where(is_present, 1 + np.arange(len(sizes))[:, None], 0), axis=0, initial=0)

    def start(self, x0: np.ndarray, sources: np.ndarray) -> Start:
        """The start of the system from x0: sources[j] is the j-th derivative of s at the start, j < index."""
        sources = np.atleast_2d(sources)
        determined = sum((R @ s for R, s in zip(self.response, sources, strict=False)), np.zeros(len(x0)))
        jump = self.projector @ x0 + determined - x0
        impulses, step = [], -self.nilpotent @ jump
        for _ in range(max(self.index - 1, 0)):
            impulses.append(step)
            step = -self.nilpotent @ step
        r, c, tau = self.scaling
        forcing = np.abs(sources) * r * tau ** np.arange(len(sources))[:, None]
        size = max(np.abs(x0 / c).max(), np.abs(jump / c).max(), forcing.max(), np.finfo(float).tiny)
        least = max(INCONSISTENT, self.rounding) * size
        moved = np.abs(jump / c) > least
        harmless = bool(np.abs(r * (self.A @ jump)).max() / tau <= least)
        return Start(x0 + jump, jump, np.reshape(impulses, (-1, len(x0))), moved, harmless)

    def __str__(self) -> str:
        words = f"index {self.index}" if self.agree else (
            f"index {self.index} by shuffling and {self.nilpotency} by nilpotency: the ranks are not clear"
        )  # fmt: skip
        closest = max(self.decisions, key=lambda d: d.largest_dropped / max(d.smallest_kept, 1e-300), default=None)
        if closest is not None:
            words += f", least clear rank {closest.rank} of {closest.stage}: {closest.smallest_kept:.1e} kept, "
            words += f"{closest.largest_dropped:.1e} dropped"
        return f"{words}; {self.freedom} degrees of freedom in {len(self.A)} components"


def analyse(
    A: Any, B: Any, tolerance: float = TOLERANCE, scaling: Scaling | None = None, names: Sequence[str] | None = None
) -> Pencil:
    """The index and the related facts, O(n³) on dense matrices; `names` of the components are for errors."""
    A, B = dense("A", A), dense("B", B)
    if A.shape != B.shape or A.shape[0] != A.shape[1]:
        raise ValueError(f"A, B: expected two square matrices of one size, got shapes {A.shape} and {B.shape}")
    scaling = scaling or scaled(A, B)
    r, c, tau = scaling
    E, H = r[:, None] * A * c / tau, r[:, None] * B * c
    shift, M, rounding = _shifted(E, H, c, names)
    index, freedom, rows, decisions = _shuffle(E, H, tolerance)
    nilpotency, K, rest, others = _staircase(M, tolerance)
    _, L, _, _ = _staircase(M.T, tolerance)
    leading = np.linalg.slogdet(shift * E + H)[0] * np.linalg.slogdet(rest)[0]
    if K.shape != L.shape:
        raise ValueError(f"A, B: the rank of (λA + B)⁻¹A is not clear: {others}")
    complement = K @ np.linalg.solve(L.T @ K, L.T) if K.shape[1] else np.zeros_like(M)
    N = K.T @ M @ K
    G = np.linalg.inv(np.eye(K.shape[1]) - shift * N)
    response: list[np.ndarray] = []
    power: Any = G
    for _ in range(max(index, 1) if K.shape[1] else 0):
        response.append(K @ power @ K.T @ complement @ np.linalg.inv(shift * E + H))
        power = -G @ N @ power
    scaled_back = [c[:, None] * D * r * tau**j for j, D in enumerate(response)]
    constraints = _reduced(rows, scaling)
    return Pencil(
        A, B, scaling, index, nilpotency, freedom, (*decisions, *others), constraints,
        float(leading), np.eye(len(A)) - c[:, None] * complement / c,
        np.reshape(scaled_back, (-1, len(A), len(A))), tau * c[:, None] * (K @ G @ N @ K.T @ complement) / c,
        rounding,
    )  # fmt: skip


def scaled(A: np.ndarray, B: np.ndarray) -> Scaling:
    """Powers of two that bring the logarithms of all entries nearest to 0 in the mean square (Curtis and Reid's
    scaling, with a unit of time beside rows and columns): an index does not change with units, ranks in floating
    point do.
    """
    n = len(A)
    rows, right = [], []
    for matrix, timed in ((A, 1.0), (B, 0.0)):
        size = np.abs(matrix)
        bound = np.maximum(size.max(axis=1, initial=0.0)[:, None], size.max(axis=0, initial=0.0))
        for i, j in np.argwhere(size > COUNTED * bound):
            rows.append((i, n + j, timed))
            right.append(-np.log2(size[i, j]))
    m = len(rows)
    if m == 0:
        return Scaling(np.ones(n), np.ones(n), 1.0)
    row, column, time = (np.array(part) for part in zip(*rows, strict=True))
    k, ones = np.arange(m), np.ones(m)
    design = scipy.sparse.csr_matrix(
        (np.concatenate([ones, ones, -time]), (np.tile(k, 3), np.concatenate([row, column, np.full(m, 2 * n)]))),
        (m, 2 * n + 1),
    )
    factors = np.exp2(np.rint(scipy.sparse.linalg.lsqr(design, np.array(right), atol=1e-6, btol=1e-6)[0]))
    return Scaling(factors[:n], factors[n : 2 * n], float(factors[2 * n]))


def dense(name: str, matrix: Any) -> np.ndarray:
    """A matrix as a dense array of finite numbers."""
    entries = np.asarray(matrix.todense() if scipy.sparse.issparse(matrix) else matrix, float)
    if entries.ndim != 2 or not np.isfinite(entries).all():
        raise NotFinite(f"{name}: expected a finite matrix, got shape {entries.shape}")
    return entries


def _shifted(
    E: np.ndarray, H: np.ndarray, columns: np.ndarray, names: Sequence[str] | None
) -> tuple[float, np.ndarray, float]:
    """λ and (λE + H)⁻¹ E for the first λ that is conditioned well enough, else the best, and how much of a solution may
    be rounding. Singular values are right to n ε of the largest: the condition of a singular matrix may be 1/(n ε)."""
    conditions: list[float] = []
    for shift in SHIFTS:
        conditions.append(float(np.linalg.cond(shift * E + H)))
        if conditions[-1] < WELL_CONDITIONED:
            break
    best = int(np.argmin(conditions))
    rounding = 3.0 * len(E) * EPSILON * conditions[best]
    if not conditions[best] < min(SINGULAR, 1.0 / (len(E) * EPSILON)):
        direction = np.linalg.svd(SHIFTS[best] * E + H)[2][-1] * columns
        loose = np.flatnonzero(np.abs(direction / columns) > 1e-3 * np.abs(direction / columns).max())
        which = (
            ", ".join(names[i] for i in loose.tolist()) if names else f"components {loose.tolist()} (counted from 0)"
        )
        raise SingularPencil(
            "A, B: the pencil is singular, det(λA + B) = 0 for every λ: the equations do not determine "
            f"{which}. Look for an equation that repeats others, a component that no "
            "equation holds, a node without a path to ground."
        )
    return SHIFTS[best], np.linalg.solve(SHIFTS[best] * E + H, E), rounding


def _shuffle(E, H, tolerance) -> tuple[int, int, list[tuple[np.ndarray, np.ndarray, bool]], list[Decision]]:
    n, R = len(E), np.eye(len(E))[:, None, :]  # R: the right-hand sides as weights of s, s', ... (the middle axis)
    decisions: list[Decision] = []
    constraints: list[tuple[np.ndarray, np.ndarray, bool]] = []
    freedom, rounds = n, 0
    while True:
        U, S, Vt = np.linalg.svd(E)
        rank = _decide("shuffle", S, tolerance, 1.0, decisions)
        if rank == n:
            return rounds, freedom, constraints, decisions
        if rounds == n:
            raise SingularPencil("A, B: the pencil is singular: no number of differentiations gives an equation for x'")
        zero, remaining = U[:, rank:].T, U[:, :rank].T / S[:rank, None]
        C, W = zero @ H, np.einsum("ij,jkl->ikl", zero, R)
        Q, T = np.linalg.qr(C.T)
        C, W = Q.T, np.einsum("ij,jkl->ikl", np.linalg.inv(T.T), W)
        constraints += [(c, w, rounds > 0) for c, w in zip(C, W, strict=True)]
        E, H = np.concatenate([Vt[:rank], C]), np.concatenate([remaining @ H, np.zeros((n - rank, n))])
        same = np.pad(np.einsum("ij,jkl->ikl", remaining, R), ((0, 0), (0, 1), (0, 0)))
        R = np.concatenate([same, np.pad(W, ((0, 0), (1, 0), (0, 0)))])
        freedom -= n - rank
        rounds += 1


def _staircase(M: np.ndarray, tolerance: float) -> tuple[int, np.ndarray, np.ndarray, list[Decision]]:
    """The number of steps, an orthonormal basis of the kernel of M^steps, the remainder of M, and the decisions."""
    n, V, kernel = len(M), np.eye(len(M)), []
    decisions: list[Decision] = []
    whole = float(np.linalg.norm(M, 2))
    while len(M):
        _, S, Vt = np.linalg.svd(M)
        rank = _decide("nilpotency", S, tolerance, whole, decisions)
        if rank == len(M):
            break
        kernel.append(V @ Vt[rank:].T)
        V, M = V @ Vt[:rank].T, Vt[:rank] @ M @ Vt[:rank].T
    return len(kernel), np.concatenate([np.zeros((n, 0)), *kernel], axis=1), M, decisions


def _decide(stage: str, S: np.ndarray, tolerance: float, whole: float, decisions: list[Decision]) -> int:
    """The rank, noted among the decisions; singular values are measured against `whole`, the size of the matrix."""
    top = max(whole, np.finfo(float).tiny)
    rank = int(np.count_nonzero(tolerance * top < S))
    smallest_kept, largest_dropped = (
        (float(S[rank - 1] / top) if rank else 1.0),
        (float(S[rank] / top) if rank < len(S) else 0.0),
    )
    decisions.append(Decision(stage, rank, smallest_kept, largest_dropped))
    return rank


def _reduced(by_round: list[tuple[np.ndarray, np.ndarray, bool]], scaling: Scaling) -> tuple[Constraint, ...]:
    """The constraints in the user's units, those of one kind eliminated among themselves to few components each."""
    r, c, tau = scaling
    constraints: list[Constraint] = []
    for hidden in (False, True):
        rows = [(C, W) for C, W, late in by_round if late == hidden]
        if not rows:
            continue
        most = max(len(W) for _, W in rows)
        C = np.array([C for C, _ in rows])
        W = np.array([np.pad(W, ((0, most - len(W)), (0, 0))) for _, W in rows])
        for row, weights, pivot in zip(*_echelon(C, W), strict=True):
            used = np.flatnonzero(np.abs(weights).max(axis=1))
            weights = weights[: used[-1] + 1 if len(used) else 0]
            units = tau ** np.arange(len(weights))[:, None] * r * c[pivot]
            constraints.append(Constraint(row / c * c[pivot], weights * units, hidden))
    return tuple(constraints)


def _echelon(C: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Reduced rows of [C | W] and the columns of their pivots, where C is largest; rounding errors are set to 0."""
    C, W = C.copy(), W.copy()
    free, pivots = list(range(C.shape[1])), list[int]()
    for k in range(len(C)):
        i, j = divmod(int(np.argmax(np.abs(C[k:, free]))), len(free))
        column = free.pop(j)
        pivots.append(column)
        C[[k, k + i]], W[[k, k + i]] = C[[k + i, k]], W[[k + i, k]]
        W[k], C[k] = W[k] / C[k, column], C[k] / C[k, column]
        for other in range(len(C)):
            if other != k:
                W[other] -= C[other, column] * W[k]
                C[other] -= C[other, column] * C[k]
    C[np.abs(C) < ELIMINATED * np.abs(C).max(axis=1, initial=0.0)[:, None]] = 0.0
    size = np.abs(W).max(axis=(1, 2), initial=0.0)[:, None, None]
    W[np.abs(W) < ELIMINATED * size] = 0.0
    return C, W, pivots
