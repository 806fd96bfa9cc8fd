"""Stationary covariances of linear systems: Lyapunov's equation in continuous and in discrete time.

    A P + P A' + Q = 0           dx = A x dt + dW, Cov dW = Q dt
    P = Phi P Phi' + Q           x' = Phi x + w, Cov w = Q

Every variance is wanted with a small relative error, whatever the units of the components and however far apart the
rates of the system are. LAPACK alone gives P with an error relative to its largest entry, so that a variance in small
units may be all rounding, even negative. Here

1. components are put in an order in which A is block triangular, and each block gets a Schur form of its own, so that
   rounding of fast blocks does not reach slow ones;
2. components are scaled by powers of two, first so that rows and columns of each block are of one size and then, if
   that was not enough, so that all variances are of one size: what is small beside the largest is then small beside
   each;
3. P is corrected by the same Schur forms from its residual, which is computed with twice as many digits. The correction
   is the error that P had: it has to become small, or there is an error in words.

In discrete time Cayley's transform of Phi takes the place of A. The residual needs products of matrices with more
digits than BLAS has: the factors are split into slices of so few bits that BLAS multiplies them without rounding
(K. Ozaki, T. Ogita, S. Oishi & S. M. Rump, Numer. Algorithms 59, 2012), and what rounding takes from sums of the
products is found and added in the end (T. Ogita, S. M. Rump & S. Oishi, SIAM J. Sci. Comput. 26, 2005). Large
structures with few noises have a module of their own, sparse_lyapunov.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

EPSILON = float(np.finfo(float).eps)
SMALL = 1e-11  # of the variances: the most that the last correction may leave of an error
SMALLEST = SMALL**2  # the size of the last correction where variances are small differences of others
CORRECTIONS, SCALINGS = 12, 6
LEAST = (
    2.0**-22
)  # of a standard deviation as it would be if nothing cancelled: rounding of A and Q decides what is less
RANGE = 1e250
LEAST_DECAY = 1e-12  # 1 - ρ(M) above which callers solve P = M P Mᵀ + Q: at a condition of 1/(1 - ρ), four digits
ROUNDED = 1e-12  # of a covariance: asymmetry and negative eigenvalues that one may have, by choice far above n ε
ONE_FORM = 1e9  # ratio of an entry to a rate up to which LAPACK solves triangular equations of several blocks at once


class NotStable(ValueError):
    """The system has no stationary law: a mode grows, or does not decay.

    is_growing  whether its rate is above what rounding makes of 0
    """

    def __init__(self, words: str, is_growing: bool = True):
        super().__init__(words)
        self.is_growing = is_growing


def continuous(A: ArrayLike, Q: ArrayLike, C: ArrayLike | None = None) -> np.ndarray:
    """The stationary covariance P of dx = A x dt + dW, Cov dW = Q dt, or that of C x: A P + P A' + Q = 0.

    A must be stable. Each variance has a relative error far below 1e-9; one that is 0 but for rounding of A and Q,
    because the noise cancels in it, is returned as 0.
    """
    A = _in_range("A", A)
    return _covariance(_Continuous(A, _spread("Q", Q, len(A))), C)


def discrete(Phi: ArrayLike, Q: ArrayLike, C: ArrayLike | None = None) -> np.ndarray:
    """The stationary covariance P of x' = Phi x + w, Cov w = Q, or that of C x: P = Phi P Phi' + Q.

    Phi must be a contraction; the errors are those of `continuous`.
    """
    Phi = square("Phi", Phi)
    return _covariance(_Discrete(Phi, _spread("Q", Q, len(Phi))), C)


def square(name: str, value: ArrayLike, size: int | None = None) -> np.ndarray:
    """A finite square matrix, or an error that names it."""
    return _with_largest(name, value, size)[0]


def _with_largest(name: str, value: ArrayLike, size: int | None) -> tuple[np.ndarray, float]:
    """A finite square matrix, or an error that names it, and the size of its largest entry."""
    matrix = np.asarray(value, dtype=float)
    n = matrix.shape[0] if size is None and matrix.ndim else size
    largest = float(np.maximum.reduce(np.abs(matrix), axis=None, initial=0.0))
    if matrix.shape != (n, n) or n == 0 or not math.isfinite(largest):
        wanted = "a finite square matrix, not empty" if size is None else f"a finite matrix of shape ({size}, {size})"
        raise ValueError(f"{name}: expected {wanted}, got shape {matrix.shape}:\n{matrix}")
    return matrix, largest


def symmetric(P: np.ndarray) -> np.ndarray:
    """The symmetric part of a matrix."""
    return 0.5 * (P + P.T)


def _spread(name: str, value: ArrayLike, size: int) -> np.ndarray:
    """A covariance, or an error that names it."""
    Q = _in_range(name, value, size)
    is_symmetric = (Q == Q.T).all() or np.abs(Q - Q.T).max() <= ROUNDED * np.abs(Q).max()
    if not is_symmetric or not _is_positive(Q):
        raise ValueError(
            f"{name}: expected a covariance, symmetric and with eigenvalues of 0 or more, got one whose lowest is "
            f"{np.linalg.eigvalsh(symmetric(Q))[0]:.6g}:\n{Q}"
        )
    return Q


def _is_positive(Q: np.ndarray) -> bool:
    """Whether Q has no negative eigenvalue, except for rounding of its largest entry or of its entries one by one."""
    raised, rounding = Q.copy(), len(Q) * ROUNDED
    raised.ravel()[:: len(Q) + 1] += rounding * max(float(Q.diagonal().max()), 0.0)
    if not scipy.linalg.lapack.dpotrf(raised)[1]:
        return True
    values = np.linalg.eigvalsh(Q)
    unit = np.sqrt(np.abs(Q.diagonal()))
    unit = np.where(unit > 0.0, unit, 1.0)
    return bool(values[0] >= -rounding * values[-1] or np.linalg.eigvalsh(Q / unit / unit[:, None])[0] >= -rounding)


def _in_range(name: str, value: ArrayLike, size: int | None = None) -> np.ndarray:
    """A square matrix, without numbers whose products leave the range of float64."""
    matrix, largest = _with_largest(name, value, size)
    if largest and not 1.0 / RANGE <= largest <= RANGE:
        raise ValueError(
            f"{name}: its largest entry is {largest:.3g}, expected one from {1.0 / RANGE:g} to {RANGE:g}. Write the "
            "system in other units, of time or of its components."
        )
    return matrix


# --- the two equations ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Equation:
    """An equation for the covariance P of components in the order of their blocks."""

    matrix: np.ndarray
    Q: np.ndarray

    def scaled(self, scale: np.ndarray) -> Any:
        """The equation of the components divided by powers of two."""
        if np.logical_and.reduce(scale == 1.0):
            return self
        rows = scale[:, None]
        return type(self)(self.matrix * (scale / rows), self.Q / (scale * rows))


class _Continuous(_Equation):
    def forms(self, ends: np.ndarray) -> _Forms:
        return _Forms(self.matrix, ends)

    def solved(self, forms: _Forms, Q: np.ndarray) -> np.ndarray:
        return forms.solved(Q)

    def residual(self, P: np.ndarray, low: np.ndarray, unit: Any = 1.0) -> np.ndarray:
        """The residual of P + low, with twice as many digits; the sizes of components in `unit` are powers of two."""
        half, rest = _product(self.matrix * unit, P / unit)
        rest += self.matrix.dot(low)
        total, first = _two_sum(half, half.T)
        total, second = _two_sum(total, self.Q)
        return total + (first + second + (rest + rest.T))

    def growth(self, rates: np.ndarray) -> float:
        """The growth of the slowest mode in units of what rounding makes of it."""
        return float(np.maximum.reduce(rates.real) / (len(rates) * EPSILON * np.maximum.reduce(np.abs(rates)) or 1.0))

    def refusal(self, rates: np.ndarray) -> str:
        worst = rates[np.argmax(rates.real)]
        return (
            f"A: no stationary covariance, the eigenvalue {_formatted(worst)} does not have a negative real part"
            f"{_beside(rates) if worst.real < 0.0 else ''}. "
            "Add damping, or ask for the covariance at a finite time (van_loan.covariance)."
        )

    def without_cancelling(self, rates: np.ndarray) -> np.ndarray:
        """What gives, times standard deviations, those that there would be if no terms of an equation cancelled."""
        return np.abs(self.matrix) / (np.maximum.reduce(np.abs(rates)) or 1.0)


class _Discrete(_Equation):
    """Cayley's transform A = (Phi + 1)^-1 (Phi - 1) gives A P + P A' + 2 (Phi + 1)^-1 Q (Phi' + 1)^-1 = 0."""

    @functools.cached_property
    def half(self) -> np.ndarray:
        one = np.eye(len(self.matrix))
        *_, inverse, is_singular = scipy.linalg.lapack.dgesv(self.matrix + one, one)
        if is_singular:
            raise NotStable(_growing(-1.0))
        return inverse

    def forms(self, ends: np.ndarray) -> _Forms:
        return _Forms(self.half @ (self.matrix - np.eye(len(self.matrix))), ends)

    def solved(self, forms: _Forms, Q: np.ndarray) -> np.ndarray:
        return forms.solved(2.0 * self.half.dot(Q).dot(self.half.T))

    def residual(self, P: np.ndarray, low: np.ndarray, unit: Any = 1.0) -> np.ndarray:
        """The residual of P + low, with twice as many digits; the sizes of components in `unit` are powers of two."""
        whole, rest = _congruence(self.matrix, P, low, unit)
        total, first = _two_sum(whole, -P)
        total, second = _two_sum(total, self.Q)
        return symmetric(total + (first + second + (rest - low)))

    def growth(self, rates: np.ndarray) -> float:
        return float(np.max(2.0 * rates.real / np.abs(1.0 - rates) ** 2) / (len(rates) * EPSILON))

    def refusal(self, rates: np.ndarray) -> str:
        eigenvalues = (1.0 + rates) / (1.0 - rates)
        return _growing(eigenvalues[np.argmax(np.abs(eigenvalues))])

    def without_cancelling(self, rates: np.ndarray) -> np.ndarray:
        return np.abs(self.matrix)


def _growing(eigenvalue: complex) -> str:
    return (
        f"Phi: no stationary covariance, the eigenvalue {_formatted(eigenvalue)} has the modulus "
        f"{abs(eigenvalue):.6g}, expected less than 1. Add damping, or take a smaller step if this is the step of a "
        "method."
    )


def _formatted(value: complex) -> str:
    return f"{value.real:.6g}" if value.imag == 0 else f"{value.real:.6g}{value.imag:+.6g}i"


def _beside(rates: np.ndarray) -> str:
    return f" that could be told from rounding beside rates of {np.abs(rates).max():.3g}"


# --- blocks and their Schur forms -------------------------------------------------------------------------------------


def _blocks(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order of the components in which A is block upper triangular, and the ends of its blocks in that order."""
    n = len(A)
    if A.all():
        return np.arange(n), np.array([n])
    order, first, last = _apart(A)
    if first == last:
        return order, np.arange(1, n + 1)
    if last - first == n - 1:
        return _strong_blocks(A)
    between = order[first : last + 1]
    inner, ends = _strong_blocks(A[between[:, None], between])
    order[first : last + 1] = between[inner]
    return order, np.concatenate([np.arange(1, first + 1), first + ends, np.arange(last + 2, n + 1)])


def _apart(A: np.ndarray) -> tuple[np.ndarray, int, int]:
    """An order in which A is triangular but for a block from a first to a last component: one and the same where it is
    triangular, as cascades of filters are."""
    _, first, last, partner, _ = scipy.linalg.lapack.dgebal(A, permute=1)
    order, n = list(range(len(A))), len(A)
    for k in (*range(n - 1, last, -1), *range(first)):
        other = int(partner[k]) - 1
        order[k], order[other] = order[other], order[k]
    return np.array(order), first, last


def _strong_blocks(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order and the ends of the blocks of a matrix without one of size 1 at its ends, by what its entries reach."""
    n = len(A)
    # Two blocks of three are one of one and one of two. In a chain neighbours act on each other.
    if n <= 3 or (A.diagonal(1).all() and A.diagonal(-1).all()):
        return np.arange(n), np.array([n])
    ways = (A != 0.0).astype(float, order="C")
    ways.ravel()[:: n + 1] = 1.0
    for _ in range(math.ceil(math.log2(n))):
        ways = np.minimum(ways.dot(ways), 1.0)
    if ways.all():
        return np.arange(n), np.array([n])
    reaches = ways > 0.0
    first_of_block = np.argmax(reaches & reaches.T, axis=1)
    order = np.lexsort((first_of_block, -reaches.sum(axis=1)))
    return order, np.append(np.flatnonzero(np.diff(first_of_block[order])) + 1, n)


class _Forms:
    """Schur forms of the blocks of a block upper triangular A = U T U', by which A X + X A' + Q = 0 is solved."""

    U: np.ndarray | None  # none where A is triangular itself

    def __init__(self, A: np.ndarray, ends: np.ndarray):
        self.ends = ends
        if len(ends) == 1:
            self.T, self.U, self.rates = _schur(A)
            return
        if len(ends) == len(A):
            self.T, self.U, self.rates = A, None, A.diagonal()
            return
        self.U, self.rates, forms = np.eye(len(A)), A.diagonal().astype(complex), []
        large = [block for block in self.blocks if block.stop - block.start > 1]
        for block in large:
            form, self.U[block, block], self.rates[block] = _schur(A[block, block])
            forms.append(form)
        self.T = self.U.T @ A @ self.U
        for block, form in zip(large, forms, strict=True):
            self.T[block, block] = form

    @functools.cached_property
    def blocks(self) -> list[slice]:
        return [slice(begin, end) for begin, end in itertools.pairwise([0, *self.ends.tolist()])]

    @functools.cached_property
    def groups(self) -> list[slice]:
        """Neighbouring blocks, as long as no rate of them is small beside an entry: LAPACK would alter it."""
        if len(self.ends) == 1 or self._go_together(slice(None)):
            return [slice(None)]
        groups = self.blocks[:1]
        for block in self.blocks[1:]:
            joined = slice(groups[-1].start, block.stop)
            if self._go_together(joined):
                groups[-1] = joined
            else:
                groups.append(block)
        return groups

    def _go_together(self, components: slice) -> bool:
        slowest = np.abs(self.rates[components].real).min()
        return bool(np.abs(self.T[components, components]).max() <= ONE_FORM * slowest)

    def solved(self, Q: np.ndarray) -> np.ndarray:
        """X, from its last rows and columns to the first."""
        if self.U is None:
            return symmetric(self._solved(-Q))
        return symmetric(self.U.dot(self._solved(-self.U.T.dot(Q).dot(self.U))).dot(self.U.T))

    def _solved(self, right: np.ndarray) -> np.ndarray:
        """X of T X + X T' = right."""
        T = self.T
        if len(self.groups) == 1:
            return _triangular(T, T, right)
        X = np.empty_like(right)
        for b, columns in reversed(list(enumerate(self.groups))):
            for rows in reversed(self.groups[: b + 1]):
                below, beside = slice(rows.stop, None), slice(columns.stop, None)
                known = T[rows, below] @ X[below, columns] + X[rows, beside] @ T[columns, beside].T
                X[rows, columns] = _triangular(T[rows, rows], T[columns, columns], right[rows, columns] - known)
                X[columns, rows] = X[rows, columns].T
        return X


def _schur(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T, U and the eigenvalues of A = U T U'."""
    T, _, real, imaginary, U, _, failed = scipy.linalg.lapack.dgees(lambda *_: False, A, lwork=34 * len(A))
    if failed:
        raise ValueError(f"A: LAPACK's QR iteration does not end for this matrix, expected one with a Schur form:\n{A}")
    return T, U, real + 1j * imaginary


def _triangular(T: np.ndarray, S: np.ndarray, right: np.ndarray) -> np.ndarray:
    """X of T X + X S' = right. Where LAPACK alters sums of eigenvalues near 0, corrections do not become small."""
    X, scale, _ = scipy.linalg.lapack.dtrsyl(T, S, right, tranb="T")
    return X / scale


# --- solving, correcting, scaling -------------------------------------------------------------------------------------


class _Solution(NamedTuple):
    """P = high + low, its last correction, the standard deviations (n,) with which that was compared, and its size.

    cancels  whether some of these are not those of P, which are smaller since terms cancel in them
    """

    high: np.ndarray
    low: np.ndarray
    correction: np.ndarray
    unit: np.ndarray
    error: float
    cancels: bool


def _covariance(equation: Any, C: ArrayLike | None) -> np.ndarray:
    order, ends = _blocks(equation.matrix)
    is_in_order = order.tolist() == list(range(len(order)))
    if not is_in_order:
        equation = type(equation)(*(matrix[order[:, None], order] for matrix in (equation.matrix, equation.Q)))
    parts = _solution(equation, ends, 1 if C is None else 2)
    if not is_in_order:
        back = np.argsort(order)
        parts = tuple(part[back[:, None], back] for part in parts)
    _require_covariance(parts[0].diagonal())
    return parts[0] if C is None else _of_outputs(np.asarray(C, float), *parts)


def _require_covariance(variances: np.ndarray) -> None:
    worst = int(variances.argmin())
    if variances[worst] < 0.0:
        raise ValueError(
            f"Q: expected a covariance, got a matrix that gives component {worst} the variance {variances[worst]:.6g}; "
            "its eigenvalues have to be 0 or more."
        )


def _of_outputs(C: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """C (high + low) C'; a variance that is not above 0 is rounding of one that is 0."""
    covariance = symmetric(np.add(*_congruence(C, high, low)))
    return _without(covariance, covariance.diagonal() <= 0.0)


def _solution(equation: Any, ends: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """P as one matrix or as the sum of two, in units in which its corrections become small relative to every
    variance."""
    small = EPSILON if count == 1 else SMALLEST
    scale = _balance(equation.matrix, ends)
    for _ in range(SCALINGS):
        scaled = equation.scaled(scale)
        forms = scaled.forms(ends)
        _require_stable(scaled, forms)
        result = _corrected(scaled, forms, small)
        if result.error <= SMALL:
            parts: Any = (_without_rounding(result) if result.cancels else result)[:count]
            return parts if scaled is equation else tuple(scale[:, None] * scale * part for part in parts)
        scale = scale * _power_of_two(result.unit)
    raise ValueError(_undetermined(forms.rates, result.error))


def _corrected(equation: Any, forms: _Forms, small: float) -> _Solution:
    """P, corrected until a correction leaves little, or is not half as large as the one before.

    It leaves its size times the factor by which it is smaller than the one before. Of variances that are small
    differences of others that is not known: their corrections have to be small themselves.
    """
    high, least = equation.solved(forms, equation.Q), LEAST * equation.without_cancelling(forms.rates)
    low, left, error, before = np.zeros(high.shape), 1.0, 1.0, math.inf
    for _ in range(CORRECTIONS):
        if left <= small or not error <= 0.5 * before:
            break
        deviations = np.sqrt(np.abs(high.diagonal()))
        unit = _units(least, deviations)
        cancels = unit.tolist() != deviations.tolist()
        correction = equation.solved(forms, equation.residual(high, low, _power_of_two(unit)))
        high, low = _two_sum(high, low + correction)
        small = SMALLEST if cancels else small
        before, error = error, float(np.maximum.reduce(np.abs(correction / (unit * unit[:, None])), axis=None))
        left = error if small == SMALLEST else error * error / before
    return _Solution(high, low, correction, unit, left if error <= 0.5 * before else min(before, error), cancels)


def _units(least: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    unit = np.maximum(deviations, least.dot(deviations))
    return unit if unit.all() else np.where(unit > 0.0, unit, 1.0)


def _without_rounding(result: _Solution) -> tuple[np.ndarray, np.ndarray]:
    """P without variances that are so small beside what cancels in them that they are not known."""
    variances, corrections = result.high.diagonal(), result.correction.diagonal()
    is_rounding = (np.abs(variances) < 0.5 * result.unit**2) & (np.abs(corrections) > 1e-9 * variances)
    return _without(result.high, is_rounding), _without(result.low, is_rounding)


def _without(P: np.ndarray, components: np.ndarray) -> np.ndarray:
    return np.where(components | components[:, None], 0.0, P) if components.any() else P


def _require_stable(equation: Any, forms: _Forms) -> None:
    """Refuse a mode that does not decay. Rounding may hide the sign of its rate: Lyapunov's theorem then decides."""
    if equation.growth(forms.rates) <= -1.0:
        return  # that of no block is higher
    for block in forms.blocks:
        rates = forms.rates[block]
        growth = equation.growth(rates)
        if growth >= 0.0 or (growth > -1.0 and not _is_stable(equation, forms)):
            raise NotStable(equation.refusal(rates), growth > 1.0)


def _is_stable(equation: Any, forms: _Forms) -> bool:
    """Whether the equation with Q = 1 has a positive solution."""
    result = _corrected(type(equation)(equation.matrix, np.eye(len(equation.Q))), forms, EPSILON)
    return result.error <= SMALL and bool((result.high.diagonal() > 0.0).all())


def _undetermined(rates: np.ndarray, error: float) -> str:
    slowest = rates[np.argmax(rates.real)]
    return (
        f"A: the stationary covariance is not determined by numbers of 16 digits: the mode {_formatted(slowest)}"
        f"{_beside(rates).replace('that could', 'cannot')}, and variances are known to {error:.1g} of themselves, "
        f"expected less than {SMALL:g}. Take the fast and the slow part apart, or write the system in variables "
        "of which none is a small difference of others."
    )


def _balance(A: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Powers of two that make rows and columns of each block of one size, entries on the diagonal aside."""
    if len(ends) == len(A):
        return np.ones(len(A))
    coupled = A.copy()
    coupled.ravel()[:: len(A) + 1] = 0.0
    if len(ends) > 1:
        block = np.searchsorted(ends, np.arange(len(A)), side="right")
        coupled[block != block[:, None]] = 0.0
    return scipy.linalg.lapack.dgebal(coupled, scale=1)[3]


def _power_of_two(x: np.ndarray) -> np.ndarray:
    return np.ldexp(1.0, np.frexp(x)[1])


# --- products and sums with twice as many digits ----------------------------------------------------------------------


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and what rounding has left out."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X Y' as a sum of two matrices: the product rounded, and what rounding has left out.

    A sum with 2^(52 - bits) times the largest entry of a row has a unit in the last place of at least 2^(-1 - bits) of
    that entry: the first slice of the row consists of integers up to 2^(bits + 1) in this unit, the second, in 2^-bits
    of it, of integers up to 2^bits. Sums of their products stay below 2^53 and are exact. Products with the third slice
    are smaller by 2^(-2 bits), and may be rounded.
    """
    n, factors = len(X), np.concatenate([X, Y])
    bits = (51 - math.ceil(math.log2(X.shape[1]))) // 2
    shift = np.maximum.reduce(np.abs(factors), axis=1, keepdims=True) * 2.0 ** (52 - bits)
    first = (factors + shift) - shift
    rest = factors - first
    shift *= 2.0**-bits
    second = (rest + shift) - shift
    third = rest - second
    (X1, X2, X3), (Y1, Y2, Y3) = (first[:n], second[:n], third[:n]), (first[n:].T, second[n:].T, third[n:].T)
    rounded, left = _two_sum(X1.dot(Y1), X1.dot(Y2) + X2.dot(Y1))
    return rounded, left + (X1.dot(Y3) + X2.dot(rest[n:].T) + X3.dot(Y.T))


def _congruence(X: np.ndarray, P: np.ndarray, low: np.ndarray, unit: Any = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """X (P + low) X' as a sum of two matrices, for a symmetric P of components of these sizes, powers of two."""
    half, rest = _product(X * unit, P / unit)
    whole, left = _product(half / unit, X * unit)
    return whole, left + (rest + X.dot(low)).dot(X.T)
