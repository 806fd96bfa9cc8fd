"""Radau IIA methods for M x' = f(t, x), M singular or not, on many independent members or on one sparse system.

With the stages x + Z_i at t + c_i h,   M Σ_j (A⁻¹)_ij Z_j / h = f(t + c_i h, x + Z_i),   and the step ends in the last
one. A⁻¹ = T Λ T⁻¹ splits the linear algebra into one system λM/h - J for each real and each pair of complex λ.

E. Hairer & G. Wanner, Solving Ordinary Differential Equations II (1996), IV.8 and VII.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy

from stodyn.numerics import direct
from stodyn.numerics.one_thread import blas_on_one_thread

NEWTON_LIMIT = 12
EXACT = 1e-13  # of every component: where Newton stops when the steps are prescribed
STALLED = 1e-12  # of the largest component: where Newton stops when the small components get no better
COARSE = 1e-8  # of the largest component: the change Newton may end with when nothing gets better
SMALL = 256  # unknowns up to which a dense product is quicker than the call of a sparse one
BETWEEN = np.array([0.4, 0.85])  # of a step, between the stages: where the polynomial of a source is looked at
ROUNDED = 1e-14  # of the largest value of a source: below it a step's polynomial represents rounding
SHORTENINGS = 40  # of a step until its polynomial represents the sources
CHUNK = 4_000_000  # numbers of right-hand sides held at once


class Scheme:
    """The coefficients of the s-stage method, of order 2s - 1, and the eigenvalues of A⁻¹ with a sign of at least 0."""

    def __init__(self, stages: int):
        c = _radau_points(stages)
        powers = np.arange(1, stages + 1)
        A = (c[:, None] ** powers / powers) @ np.linalg.inv(c[:, None] ** (powers - 1))
        values, T = np.linalg.eig(np.linalg.inv(A))
        inverse = np.linalg.inv(T)
        self.stages, self.order, self.A, self.c = stages, 2 * stages - 1, A, c
        upper = [k for k in range(stages) if values[k].imag > -1e-12]
        self.eigen = [_Eigen(values[k], T[:, k], inverse[k]) for k in upper]
        real = [e.value.real for e in self.eigen if abs(e.value.imag) < 1e-12]
        self.gamma = real[0] if real else abs(self.eigen[0].value)
        # The embedded formula uses f at the beginning with the weight 1/γ, and is of order s.
        moments = 1.0 / powers - np.where(powers == 1, 1.0 / self.gamma, 0.0)
        embedded = np.linalg.solve(c ** (powers[:, None] - 1), moments)
        self.error = self.gamma * (embedded - A[-1]) @ np.linalg.inv(A)
        nodes = np.append(0.0, c)
        self._vandermonde = np.linalg.inv(nodes[:, None] ** np.arange(stages + 1))

    def interpolation(self, place: np.ndarray) -> np.ndarray:
        """Weights of the Z_i in x(t + place h) - x(t): the collocation polynomial, of order s + 1 inside the step."""
        return (np.asarray(place)[..., None] ** np.arange(self.stages + 1) @ self._vandermonde)[..., 1:]


class _Eigen:
    """One eigenvalue λ of A⁻¹: its systems are solved once for a pair of complex ones."""

    def __init__(self, value: complex, column: np.ndarray, row: np.ndarray):
        self.real = abs(value.imag) < 1e-12
        self.value = value.real if self.real else value
        self.column = column.real if self.real else 2.0 * column  # twice the real part represents the pair
        self.row = row.real if self.real else row
        self.last, self.total = self.column[-1], self.row.sum()


@functools.cache
def scheme(order: int) -> Scheme:
    """Radau IIA of order 3 or 5."""
    if order not in (3, 5):
        raise ValueError(f"order: expected 3 or 5, got {order!r}")
    return Scheme((order + 1) // 2)


def _radau_points(stages: int) -> np.ndarray:
    if stages == 2:
        return np.array([1.0 / 3.0, 1.0])
    if stages == 3:
        return np.array([(4.0 - np.sqrt(6.0)) / 10.0, (4.0 + np.sqrt(6.0)) / 10.0, 1.0])
    return np.append(0.5 + 0.5 * scipy.special.roots_jacobi(stages - 1, 1.0, 0.0)[0], 1.0)


class Forcing(NamedTuple):
    """The source of a linear system, zero except in some columns: values(times) -> (times, columns) for all members, or
    (times, members, columns)."""

    values: Callable[[np.ndarray], np.ndarray]
    columns: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Linear:
    """A x' + B x = s(t): A and B of shape (members, n, n), or sparse (n, n) for one member."""

    A: Any
    B: Any
    forcing: Forcing

    @property
    def sparse(self) -> bool:
        return scipy.sparse.issparse(self.A)

    @property
    def mass(self) -> Any:
        return self.A

    def f(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        f = -_product(self.B, x)
        values = self.forcing.values(t)
        f[..., self.forcing.columns] += values[:, None] if values.ndim == 2 else values
        return f

    def jacobian(self, t: float, x: np.ndarray) -> Any:
        return -self.B


@dataclasses.dataclass(frozen=True, eq=False)
class Nonlinear:
    """M x' = f(t, x): mass (members, n, n), f(t (s,), x (s, members, n)) of that shape, jacobian(t, x (members, n)),
    and the sources that f reads, in parts of their largest values, sources(t (s,)) -> (s, sources), where any are
    curved."""

    mass: np.ndarray
    f: Callable[[np.ndarray, np.ndarray], np.ndarray]
    jacobian: Callable[[float, np.ndarray], np.ndarray]
    sources: Callable[[np.ndarray], np.ndarray] | None = None


@dataclasses.dataclass
class Work:
    """The work of a run."""

    steps: int = 0
    rejected: int = 0
    factorisations: int = 0
    iterations: int = 0


# --- prescribed steps ----------------------------------------------------------------------------------------------


def prescribed(system: Linear | Nonlinear, grid: np.ndarray, start: np.ndarray, order: int = 5):
    """(states (len(grid), members, n), Work) with one step from each time of the grid to the next.

    A member whose equations Newton does not solve is NaN from there on.
    """
    work = Work(steps=len(grid) - 1)
    if isinstance(system, Linear):
        return _linear_steps(system, grid, start, scheme(order), work), work
    method, states = scheme(order), np.empty((len(grid), *start.shape))
    states[0], solved, guess = start, np.ones(len(start), bool), None
    for k, h in enumerate(np.diff(grid)):
        x = np.where(solved[:, None], states[k], start)
        factors = _factors(system, system.jacobian(grid[k], x), h, method, work)
        Z, converged = _newton(system, factors, method, _Step(grid[k], h, x), guess, None, work)
        solved &= converged
        states[k + 1] = np.where(solved[:, None], x + Z[-1], np.nan)
        guess = np.tensordot(method.interpolation(1.0 + method.c), Z, 1) - Z[-1]
        guess[:, ~solved] = 0.0
    return states, work


def _linear_steps(system: Linear, grid, start, method: Scheme, work: Work) -> np.ndarray:
    states = np.empty((len(grid), *start.shape))
    states[0] = start
    for first, last, h in _equal_lengths(grid):
        work.factorisations += len(method.eigen)
        advance = _sparse_steps if system.sparse else _batched_steps
        advance(system, grid, states, first, last, h, method)
    return states


def _equal_lengths(grid: np.ndarray) -> Iterator[tuple[int, int, float]]:
    """(first, last, length) of runs of equal steps."""
    lengths, first = np.diff(grid), 0
    for k in range(1, len(lengths) + 1):
        if k == len(lengths) or abs(lengths[k] - lengths[first]) > 1e-9 * lengths[first]:
            yield first, k, float((grid[k] - grid[first]) / (k - first))
            first = k


def _chunks(first: int, last: int, numbers: int) -> Iterator[tuple[int, int]]:
    size = max(CHUNK // max(numbers, 1), 1)
    for begin in range(first, last, size):
        yield begin, min(begin + size, last)


def _batched_steps(system: Linear, grid, states, first, last, h, method: Scheme) -> None:
    """x(t + h) = P x(t) + Σ_i Q_i s(t + c_i h) with P and Q_i made once for every member."""
    A, B, (source, columns) = system.A, system.B, system.forcing
    K, n, _ = A.shape
    P, Q = np.tile(np.eye(n), (K, 1, 1)), np.zeros((K, method.stages, n, len(columns)))
    for e in method.eigen:
        inverse = _inverse(e.value / h * A + B)
        P -= np.real(e.last * e.total * (inverse @ B))
        weights = (e.last * e.row)[:, None, None]
        Q += np.real(weights * inverse[:, None, :, columns])
    Q = np.moveaxis(Q, 1, 2).reshape(K, n, -1)
    for begin, end in _chunks(first, last, K * n * (method.stages + 1)):
        s = source(np.add.outer(grid[begin:end], method.c * h).ravel())
        if s.ndim == 2:
            force = np.moveaxis(s.reshape(end - begin, -1) @ np.swapaxes(Q, 1, 2), 0, 1)
        else:
            s = np.moveaxis(s.reshape(end - begin, method.stages, K, -1), 2, 1).reshape(end - begin, K, -1)
            force = np.einsum("kij,tkj->tki", Q, s)
        for k in range(begin, end):
            states[k + 1] = np.matmul(P, states[k][..., None])[..., 0] + force[k - begin]


def _sparse_steps(system: Linear, grid, states, first, last, h, method: Scheme) -> None:
    A, B, (source, columns) = system.A, system.B, system.forcing
    factors = [factorised(e.value / h * A + B) for e in method.eigen]
    B = B.toarray() if B.shape[0] <= SMALL else B.tocsr()
    x = states[first, 0]
    for begin, end in _chunks(first, last, len(columns) * (method.stages + 2)):
        s = source(np.add.outer(grid[begin:end], method.c * h).ravel())
        s = s.reshape(end - begin, method.stages, -1)
        projections = [np.einsum("i,tij->tj", e.row, s) for e in method.eigen]
        for k in range(begin, end):
            Bx, following = B @ x, x
            for e, lu, part in zip(method.eigen, factors, projections, strict=True):
                right = -e.total * Bx
                right[columns] += part[k - begin]
                solved = e.last * lu.solve(right)
                following = following + (solved if e.real else solved.real)
            x = following
            states[k + 1, 0] = x


def factorised(matrix: Any) -> Any:
    """SuperLU's factors; it brings rows and columns to one size itself."""
    try:
        return direct.factorised(matrix)
    except np.linalg.LinAlgError as error:
        raise ValueError("A, B: λA/h + B is singular for the step taken; the pencil may be singular") from error


def _inverse(matrices: np.ndarray) -> np.ndarray:
    """The inverse of each matrix, after its rows have been brought to one size."""
    size = np.abs(matrices).max(axis=-1, keepdims=True)
    size = np.where(size > 0, size, 1.0)
    try:
        return np.linalg.inv(matrices / size) / np.swapaxes(size, -1, -2)
    except np.linalg.LinAlgError as error:
        raise ValueError("A, B: λA/h + B is singular for the step taken; the pencil may be singular") from error


def _product(matrix: Any, x: np.ndarray) -> np.ndarray:
    """matrix x over the last axis of x (..., members, n)."""
    if scipy.sparse.issparse(matrix):
        return (matrix @ x.reshape(-1, x.shape[-1]).T).T.reshape(x.shape)
    return np.matmul(matrix, x[..., None])[..., 0]


# --- Newton -----------------------------------------------------------------------------------------------------------


def _factors(system, J: Any, h: float, method: Scheme, work: Work, gamma: bool = False) -> list[Callable]:
    """The functions that solve (λM/h - J) y = r, one for each eigenvalue λ, and one for γ where that is asked for."""
    M = system.mass
    values = [e.value for e in method.eigen]
    if gamma and not any(e.real for e in method.eigen):
        values.append(method.gamma)
    work.factorisations += len(values)
    if scipy.sparse.issparse(M):
        factors = [factorised(value / h * M - J) for value in values]
        solves = [lambda r, lu=lu: lu.solve(r.T).T for lu in factors]
    else:
        inverses = [_inverse(value / h * M - J) for value in values]
        solves = [lambda r, inverse=inverse: np.matmul(inverse, r[..., None])[..., 0] for inverse in inverses]
    return solves


class _Step(NamedTuple):
    """A step to be made: from the time t and the states x (members, n), of length h."""

    t: float
    h: float
    x: np.ndarray


def _newton(system, factors, method: Scheme, step: _Step, guess, scale, work: Work) -> tuple[np.ndarray, np.ndarray]:
    """The stages Z (s, members, n) and which members were solved.

    scale  sizes of the components -> the errors allowed for, both (members, n); None iterates to rounding

    Changes that shrink by a rate θ leave an error of θ/(1 - θ) times the last one (Hairer & Wanner, IV.8): where the
    steps are chosen by their error, Newton stops when that is small, one iteration earlier than by the change itself.
    """
    t, h, x = step
    shape = (method.stages, *x.shape)
    linear = isinstance(system, Linear)
    Z = np.zeros(shape) if guess is None or linear else guess
    times = t + method.c * h
    inverse_A = np.linalg.inv(method.A)
    before, largest_before = np.full((2, len(x)), np.inf)
    solved = np.zeros(len(x), bool)
    for iteration in range(NEWTON_LIMIT):
        work.iterations += 1
        with np.errstate(all="ignore"):
            residual = system.f(times, x + Z)
            if not linear:
                residual = residual - _product(system.mass, np.tensordot(inverse_A, Z, 1)) / h
            change = np.zeros(shape)
            for e, solve in zip(method.eigen, factors, strict=False):
                part = solve(np.tensordot(e.row, residual, 1))
                change += np.real(e.column[:, None, None] * part)
            change = np.where(solved[:, None], 0.0, change)
            Z = Z + change
            if linear:
                return Z, np.isfinite(Z).all(axis=(0, 2))
            sizes = np.abs(x) + np.abs(Z).max(axis=0)
            allowed = EXACT * sizes + 1e-290 if scale is None else 1e-2 * scale(sizes)
            size = np.sqrt(np.mean((change / allowed) ** 2, axis=(0, 2)))
            largest = np.abs(change).max(axis=(0, 2)) / (np.abs(x + Z).max(axis=(0, 2)) + 1e-290)
            rate = size / before if iteration else np.full(len(x), np.nan)
            stalled = (rate > 0.3) & ((largest <= STALLED) | ((largest <= COARSE) & (largest > 0.3 * largest_before)))
            left = size if scale is None else np.where(rate < 1.0, rate / (1.0 - rate), 1.0) * size
        solved |= (np.fmin(size, left) <= 1.0) | (stalled & (scale is None))
        lost = ~np.isfinite(size)
        if np.all(solved | lost) or (scale is not None and np.any(lost | (~solved & (rate >= 1.0)))):
            break
        before, largest_before = size, largest
    return Z, solved & np.isfinite(Z).all(axis=(0, 2))


# --- steps chosen by the error ----------------------------------------------------------------------------------------


class _LastStep(NamedTuple):
    """The last step: its length, its stages, and its error relative to the one allowed (at least 1e-2)."""

    h: float
    Z: np.ndarray
    norm: float

    def ahead(self, method: Scheme, h: float) -> np.ndarray:
        """The stages of a next step of length h, from the polynomial of this one."""
        return np.tensordot(method.interpolation(1.0 + method.c * h / self.h), self.Z, 1) - self.Z[-1]


class StepTooSmall(ValueError):
    """The error asked for was not reached with steps that still change the time."""


@blas_on_one_thread
def controlled(
    system: Linear | Nonlinear,
    grid: np.ndarray,
    start: np.ndarray,
    order: int = 5,
    rtol: float = 1e-6,
    atol: float | np.ndarray = 0.0,
    component_index: np.ndarray | None = None,
    watch: Callable[[float, float, np.ndarray, np.ndarray], None] | None = None,
):
    """(states (len(grid), members, n), Work): steps as long as the error allows, common to all members, and the states
    at the grid's times from the collocation polynomial. `watch` is called with t, h, x and Z of every step taken.

    The error of a step is that of the embedded formula, filtered by (γM/h - J)⁻¹, in each component relative to the
    largest value it has had; one that starts at 0 is measured by its size after the grid's first step. Components of
    index 2 and 3 (component_index) magnify it by 1/h and 1/h²: they count times (h / length of the interval)^(index -
    1), so that they do not stop the run.

    This error is that at the end of a step. What follows a source without delay is exact at the stages of any step,
    even of one of several periods, but not between them: steps are so short that their polynomial represents the
    system's sources to rtol of the largest value of each so far.
    """
    if not (np.isfinite(rtol) and rtol > 0):
        raise ValueError(f"rtol: expected a relative error > 0, got {rtol!r}; None makes the steps of the grid")
    method, work = scheme(order), Work()
    states = np.empty((len(grid), *start.shape))
    states[0], done = start, 1
    t, x, end = float(grid[0]), np.array(start, float), float(grid[-1])
    span = end - t
    powers = np.zeros(x.shape[-1]) if component_index is None else np.maximum(np.asarray(component_index) - 1.0, 0.0)
    first = float(grid[1]) - t
    J = system.jacobian(t, x)
    first_factors = _factors(system, J, first, method, work)
    Z, solved = _newton(system, first_factors, method, _Step(t, first, x), None, None, work)
    magnitude = np.where(x == 0.0, np.where(solved[:, None], np.abs(Z[-1]), 0.0), np.abs(x))

    def allowed(sizes: np.ndarray) -> np.ndarray:
        largest = np.maximum(magnitude, sizes)
        return np.maximum(atol, rtol * np.maximum(largest, 1e-10 * largest.max(initial=0.0))) + 1e-290

    h = _first_step(system, t, x, span, rtol)
    factors: list[Callable] | None = None
    last: _LastStep | None = None
    rejected = True  # the first step is treated as carefully as one after a rejection
    where = next((k for k, e in enumerate(method.eigen) if e.real), len(method.eigen))
    sources = system.sources if isinstance(system, Nonlinear) else None
    heights = np.zeros(()) if sources is None else np.abs(sources(np.array([t]))[0])
    while done < len(grid):
        h = min(h, end - t)
        if sources is not None:
            resolved, heights = _resolved(sources, method, t, h, rtol, heights)
            h, factors = resolved, factors if resolved == h else None
        if h <= 4.0 * np.spacing(abs(t)) + 1e-14 * span:
            raise StepTooSmall(
                f"rtol: {rtol:g} was not reached at t = {t:.6g}: the step fell to {h:.1e}. Take a larger rtol, or look "
                "for a jump or a singularity there; rtol=None makes the steps of the grid instead."
            )
        if factors is None:
            factors = _factors(system, J, h, method, work, gamma=True)
        guess = None if last is None else last.ahead(method, h)
        Z, solved = _newton(system, factors, method, _Step(t, h, x), guess, allowed, work)
        if not solved.all():
            h, factors, rejected = 0.5 * h, None, True
            work.rejected += 1
            continue
        grown = np.maximum(magnitude, np.abs(x + Z[-1]))
        weights = (h / span) ** powers / allowed(grown)
        defect = _product(system.mass, np.tensordot(method.error, Z, 1)) / h
        error = factors[where](system.f(np.array([t]), x[None])[0] + defect)
        norm = _norm(error * weights)
        if norm >= 1.0 and rejected:
            error = factors[where](system.f(np.array([t]), (x + error)[None])[0] + defect)
            norm = _norm(error * weights)
        power = 1.0 / (method.stages + 1)
        factor = 0.9 * max(norm, 1e-10) ** -power
        if norm >= 1.0:
            h, factors, rejected = h * np.clip(factor, 0.2, 0.9), None, True
            work.rejected += 1
            continue
        if last is not None:  # the error constant goes on changing as it did from the last step to this one
            factor = min(factor, factor * (h / last.h) * (last.norm / max(norm, 1e-10)) ** power)
        factor = np.clip(factor, 0.2, 1.0 if rejected and last is not None else 8.0)
        work.steps += 1
        if watch is not None:
            watch(t, h, x, Z)
        reached = end if end - (t + h) <= 1e-12 * span else t + h
        inside = int(np.searchsorted(grid, reached + 1e-14 * span, side="right"))
        if inside > done:
            weights = method.interpolation((grid[done:inside] - t) / h)
            states[done:inside] = x + np.tensordot(weights, Z, 1)
            done = inside
        longer = h * factor if not 1.0 <= factor <= 1.2 else h
        last = _LastStep(h, Z, max(norm, 1e-2))
        t, x, magnitude, rejected = reached, x + Z[-1], grown, False
        if not isinstance(system, Linear):
            J, factors = system.jacobian(t, x), None
        elif longer != h:
            factors = None
        h = longer
    return states, work


def _resolved(
    sources: Callable, method: Scheme, t: float, h: float, rtol: float, heights: np.ndarray
) -> tuple[float, np.ndarray]:
    """A step of at most h whose polynomial represents the sources, and the largest values that they have had."""
    places = np.concatenate([[0.0], method.c, BETWEEN])
    for _ in range(SHORTENINGS):
        values = sources(t + places * h)
        reached = np.maximum(heights, np.abs(values).max(axis=0))
        rises = values - values[0]
        off = np.abs(method.interpolation(BETWEEN) @ rises[1 : method.stages + 1] - rises[method.stages + 1 :])
        norm = float((off / (rtol * reached + ROUNDED)).max(initial=0.0))
        if norm < 1.0:
            break
        h *= float(np.clip(0.9 * norm ** (-1.0 / (method.stages + 1)), 0.2, 0.9))
    return h, reached


def _norm(scaled: np.ndarray) -> float:
    """The largest root mean square over the components of a member."""
    return float(np.sqrt(np.mean(scaled**2, axis=-1)).max())


def _first_step(system, t: float, x: np.ndarray, span: float, rtol: float) -> float:
    """A step over which the source and the state change by about rtol^(1/4) of their size; at most a hundredth, but
    many times the rounding of t."""
    tiny = 1e-6 * span
    f0, f1 = system.f(np.array([t, t + tiny]), np.stack([x, x]))
    change = np.abs(f1 - f0).max() / max(np.abs(f1).max(), np.abs(f0).max(), np.finfo(float).tiny)
    step = float(np.clip(rtol**0.25 * tiny / max(change, 1e-12), 1e-8 * span, 1e-2 * span))
    return max(step, 64.0 * float(np.spacing(abs(t))))
