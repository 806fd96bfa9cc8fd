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
(K. Ozaki, T. Ogita, S. Oishi & S. M. Rump, Numer. Algorithms 59, 2012), and the products are added by error-free
extraction (S. M. Rump, T. Ogita & S. Oishi, SIAM J. Sci. Comput. 31, 2008). Large structures with few noises have a
module of their own, sparse_lyapunov.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

EPSILON = float(np.finfo(float).eps)
SMALL = 1e-11  # a correction relative to the variances; the error that it leaves is at most as large
SMALLEST = SMALL**2  # the same where variances are small differences of others
CORRECTIONS, SCALINGS = 12, 6
LEAST = (
    2.0**-22
)  # of a standard deviation as it would be if nothing cancelled: rounding of A and Q decides what is less
RANGE = 1e250
LEAST_DECAY = 1e-12  # 1 - ρ(M) above which callers solve P = M P Mᵀ + Q: at a condition of 1/(1 - ρ), four digits
ROUNDED = 1e-12  # of a covariance: negative eigenvalues up to this are rounding
OF_ONE_SIZE = 2.0**8  # ratio of standard deviations that costs a residual few of its digits
FEW = 4  # components up to which exact integers cost less than slices of floating-point numbers
ONE_FORM = 1e9  # ratio of an entry to a rate up to which LAPACK solves triangular equations of several blocks at once


class NotStable(ValueError):
    """The system has no stationary law: a mode grows, or does not decay."""


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
    matrix = np.asarray(value, dtype=float)
    n = matrix.shape[0] if size is None and matrix.ndim else size
    if matrix.shape != (n, n) or n == 0 or not np.isfinite(matrix).all():
        wanted = "a finite square matrix, not empty" if size is None else f"a finite matrix of shape ({size}, {size})"
        raise ValueError(f"{name}: expected {wanted}, got shape {matrix.shape}:\n{matrix}")
    return matrix


def symmetric(P: np.ndarray) -> np.ndarray:
    """The symmetric part of a matrix."""
    return 0.5 * (P + P.T)


def _spread(name: str, value: ArrayLike, size: int) -> np.ndarray:
    """A covariance, or an error that names it."""
    Q = _in_range(name, value, size)
    is_symmetric = (Q == Q.T).all() or np.abs(Q - Q.T).max() <= ROUNDED * np.abs(Q).max()
    if not is_symmetric or (scipy.linalg.lapack.dpotrf(Q)[1] and _is_negative(Q)):
        raise ValueError(
            f"{name}: expected a covariance, symmetric and with eigenvalues of 0 or more, got one whose lowest is "
            f"{np.linalg.eigvalsh(symmetric(Q))[0]:.6g}:\n{Q}"
        )
    return Q


def _is_negative(Q: np.ndarray) -> bool:
    """Whether Q has a negative eigenvalue that is rounding neither of its largest entry nor of its entries one by
    one."""
    values = np.linalg.eigvalsh(Q)
    if values[0] >= -len(Q) * ROUNDED * values[-1]:
        return False
    unit = np.sqrt(np.abs(Q.diagonal()))
    unit = np.where(unit > 0.0, unit, 1.0)
    return bool(np.linalg.eigvalsh(Q / unit / unit[:, None])[0] < -len(Q) * ROUNDED)


def _in_range(name: str, value: ArrayLike, size: int | None = None) -> np.ndarray:
    """A square matrix, without numbers whose products leave the range of float64."""
    matrix = square(name, value, size)
    largest = float(np.maximum.reduce(np.abs(matrix), axis=None))
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
    exact_residual: ClassVar[Callable[..., np.ndarray]]
    residual_of_slices: ClassVar[Callable[..., np.ndarray]]

    @functools.cached_property
    def slices(self) -> np.ndarray:
        return _slices(self.matrix)

    @functools.cached_property
    def integers(self) -> tuple[int, np.ndarray]:
        return _integers(self.matrix, self.Q)

    def residual(self, P: np.ndarray, low: np.ndarray) -> np.ndarray:
        """That of P + low, with twice as many digits."""
        if len(P) <= FEW:
            with contextlib.suppress(OverflowError, ValueError):  # of numbers too far apart, or none
                k, (high, rest) = _integers(P, low)
                return self.exact_residual(k, high + rest)
        return self.residual_of_slices(P, low)

    def scaled(self, scale: np.ndarray) -> Any:
        """The equation of the components divided by powers of two."""
        if (scale == 1.0).all():
            return self
        rows = scale[:, None]
        return type(self)(self.matrix * (scale / rows), self.Q / (scale * rows))


class _Continuous(_Equation):
    def forms(self, ends: np.ndarray) -> _Forms:
        return _Forms(self.matrix, ends)

    def solved(self, forms: _Forms, Q: np.ndarray) -> np.ndarray:
        return forms.solved(Q)

    def exact_residual(self, k: int, P: np.ndarray) -> np.ndarray:
        """That of the integers P over 2^k."""
        own, (A, Q) = self.integers
        half = A @ P
        return _rounded(own + k, half + half.T + (Q << k))

    def residual_of_slices(self, P: np.ndarray, low: np.ndarray) -> np.ndarray:
        half = [_products(self.slices, _slices(P)), (self.matrix @ low)[None]]
        return _sum(*half, *(products.swapaxes(1, 2) for products in half), self.Q[None])

    def growth(self, rates: np.ndarray) -> float:
        """The growth of the slowest mode in units of what rounding makes of it."""
        return float(rates.real.max() / (len(rates) * EPSILON * np.abs(rates).max() or 1.0))

    def refusal(self, rates: np.ndarray) -> str:
        worst = rates[np.argmax(rates.real)]
        return (
            f"A: no stationary covariance, the eigenvalue {_formatted(worst)} does not have a negative real part"
            f"{_beside(rates) if worst.real < 0.0 else ''}. "
            "Add damping, or ask for the covariance at a finite time (van_loan.covariance)."
        )

    def without_cancelling(self, rates: np.ndarray) -> np.ndarray:
        """What gives, times standard deviations, those that there would be if no terms of an equation cancelled."""
        return np.abs(self.matrix) / (np.abs(rates).max() or 1.0)


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
        return forms.solved(2.0 * self.half @ Q @ self.half.T)

    def exact_residual(self, k: int, P: np.ndarray) -> np.ndarray:
        own, (Phi, Q) = self.integers
        return _rounded(2 * own + k, Phi @ P @ Phi.T + (Q << (own + k)) - (P << (2 * own)))

    def residual_of_slices(self, P: np.ndarray, low: np.ndarray) -> np.ndarray:
        return symmetric(_sum(_congruence(self.matrix, self.slices, P, low), np.stack([self.Q, -P, -low])))

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
    reaches = (A != 0.0) | np.eye(n, dtype=bool)
    for _ in range(math.ceil(math.log2(n))):
        steps = reaches.astype(np.float32)
        reaches = steps @ steps > 0.0
    first_of_block = np.argmax(reaches & reaches.T, axis=1)
    order = np.lexsort((first_of_block, -reaches.sum(axis=1)))
    return order, np.append(np.flatnonzero(np.diff(first_of_block[order])) + 1, n)


class _Forms:
    """Schur forms of the blocks of a block upper triangular A = U T U', by which A X + X A' + Q = 0 is solved."""

    def __init__(self, A: np.ndarray, ends: np.ndarray):
        self.blocks = [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
        if len(self.blocks) == 1:
            self.T, self.U, self.rates = _schur(A)
            return
        self.U, self.rates, forms = np.eye(len(A)), A.diagonal().astype(complex), []
        large = [block for block in self.blocks if block.stop - block.start > 1]
        for block in large:
            form, self.U[block, block], self.rates[block] = _schur(A[block, block])
            forms.append(form)
        self.T = self.U.T @ A @ self.U
        for block in self.blocks[1:]:
            self.T[block, : block.start] = 0.0
        for block, form in zip(large, forms, strict=True):
            self.T[block, block] = form

    @functools.cached_property
    def groups(self) -> list[slice]:
        """Neighbouring blocks, as long as no rate of them is small beside an entry: LAPACK would alter it."""
        groups = self.blocks[:1]
        for block in self.blocks[1:]:
            joined = slice(groups[-1].start, block.stop)
            slowest = np.abs(self.rates[joined].real).min()
            if np.abs(self.T[joined, joined]).max() <= ONE_FORM * slowest:
                groups[-1] = joined
            else:
                groups.append(block)
        return groups

    def solved(self, Q: np.ndarray) -> np.ndarray:
        """X, from its last rows and columns to the first."""
        T, right = self.T, -self.U.T @ Q @ self.U
        if len(self.groups) == 1:
            return symmetric(self.U @ _triangular(T, T, right) @ self.U.T)
        X = np.empty_like(right)
        for b, columns in reversed(list(enumerate(self.groups))):
            for rows in reversed(self.groups[: b + 1]):
                below, beside = slice(rows.stop, None), slice(columns.stop, None)
                known = T[rows, below] @ X[below, columns] + X[rows, beside] @ T[columns, beside].T
                X[rows, columns] = _triangular(T[rows, rows], T[columns, columns], right[rows, columns] - known)
                X[columns, rows] = X[rows, columns].T
        return symmetric(self.U @ X @ self.U.T)


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
    """P = high + low, its last correction, the standard deviations (n,) with which that was compared, and its size."""

    high: np.ndarray
    low: np.ndarray
    correction: np.ndarray
    unit: np.ndarray
    error: float


def _covariance(equation: Any, C: ArrayLike | None) -> np.ndarray:
    order, ends = _blocks(equation.matrix)
    if len(ends) > 1:
        equation = type(equation)(*(matrix[order[:, None], order] for matrix in (equation.matrix, equation.Q)))
    high, low = _solution(equation, ends, SMALL if C is None else SMALLEST)
    if len(ends) > 1:
        back = np.argsort(order)
        high, low = high[back[:, None], back], low[back[:, None], back]
    _require_covariance(high.diagonal())
    return high if C is None else _of_outputs(np.asarray(C, float), high, low)


def _require_covariance(variances: np.ndarray) -> None:
    worst = int(np.argmin(variances))
    if variances[worst] < 0.0:
        raise ValueError(
            f"Q: expected a covariance, got a matrix that gives component {worst} the variance {variances[worst]:.6g}; "
            "its eigenvalues have to be 0 or more."
        )


def _of_outputs(C: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """C (high + low) C'; a variance that is not above 0 is rounding of one that is 0."""
    covariance = symmetric(_sum(_congruence(C, _slices(C), high, low)))
    return _without(covariance, covariance.diagonal() <= 0.0)


def _solution(equation: Any, ends: np.ndarray, small: float) -> tuple[np.ndarray, np.ndarray]:
    """P as a sum of two matrices, in units in which its corrections become small relative to every variance."""
    scale = _balance(equation.matrix, ends)
    for _ in range(SCALINGS):
        scaled = equation.scaled(scale)
        forms = scaled.forms(ends)
        _require_stable(scaled, forms)
        result = _corrected(scaled, forms, small)
        if result.error <= SMALL:
            is_rounding, size = _is_rounding(result), scale[:, None] * scale
            high, low = (size * _without(part, is_rounding) for part in result[:2])
            return high, low
        scale = scale * _power_of_two(result.unit)
    raise ValueError(_undetermined(forms.rates, result.error))


def _corrected(equation: Any, forms: _Forms, small: float) -> _Solution:
    """P, corrected until a correction is small or not half as large as the one before."""
    high, least = equation.solved(forms, equation.Q), LEAST * equation.without_cancelling(forms.rates)
    low, error, before = np.zeros(high.shape), 1.0, math.inf
    residual = _residual_in_units(equation, least, high)
    for _ in range(CORRECTIONS):
        if error <= small or not error <= 0.5 * before:
            break
        correction = equation.solved(forms, residual(high, low))
        high, low = _two_sum(high, low + correction)
        deviations = np.sqrt(np.abs(high.diagonal()))
        unit = _units(least, deviations)
        small = min(small, SMALL if (unit == deviations).all() else SMALLEST)
        before, error = error, float(np.maximum.reduce(np.abs(correction / (unit * unit[:, None])), axis=None))
    return _Solution(high, low, correction, unit, min(before, error))


def _residual_in_units(
    equation: Any, least: np.ndarray, P: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The residual, computed where variances are about 1: the digits of its products are relative to the largest."""
    if len(P) <= FEW:
        return equation.residual
    unit = _power_of_two(_units(least, np.sqrt(np.abs(P.diagonal()))))
    if unit.max() <= OF_ONE_SIZE * unit.min():
        return equation.residual
    scaled, size = equation.scaled(unit), unit[:, None] * unit
    return lambda P, low: size * scaled.residual(P / size, low / size)


def _units(least: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    unit = np.maximum(deviations, least @ deviations)
    return unit if unit.all() else np.where(unit > 0.0, unit, 1.0)


def _is_rounding(result: _Solution) -> np.ndarray:
    """Which variances are so small beside what cancels in them that they are not known."""
    variances, corrections = result.high.diagonal(), result.correction.diagonal()
    is_small = np.abs(variances) < 0.5 * result.unit**2
    return is_small & (np.abs(corrections) > 1e-9 * variances) if is_small.any() else is_small


def _without(P: np.ndarray, components: np.ndarray) -> np.ndarray:
    return np.where(components | components[:, None], 0.0, P) if components.any() else P


def _require_stable(equation: Any, forms: _Forms) -> None:
    """Refuse a mode that does not decay. Rounding may hide the sign of its rate: Lyapunov's theorem then decides."""
    for block in forms.blocks:
        rates = forms.rates[block]
        growth = equation.growth(rates)
        if growth >= 0.0 or (growth > -1.0 and not _is_stable(equation, forms)):
            raise NotStable(equation.refusal(rates))


def _is_stable(equation: Any, forms: _Forms) -> bool:
    """Whether the equation with Q = 1 has a positive solution."""
    result = _corrected(type(equation)(equation.matrix, np.eye(len(equation.Q))), forms, SMALL)
    return result.error <= SMALL and bool((result.high.diagonal() > 0.0).all())


def _undetermined(rates: np.ndarray, error: float) -> str:
    slowest = rates[np.argmax(rates.real)]
    return (
        f"A: the stationary covariance is not determined by numbers of 16 digits: the mode {_formatted(slowest)}"
        f"{_beside(rates).replace('that could', 'cannot')}, and variances still change by {error:.1g} of themselves, "
        f"expected less than {SMALL:g}. Take the fast and the slow part apart, or write the system in variables "
        "of which none is a small difference of others."
    )


def _balance(A: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Powers of two that make rows and columns of each block of one size, entries on the diagonal aside."""
    coupled = A.copy()
    np.fill_diagonal(coupled, 0.0)
    if len(ends) > 1:
        block = np.searchsorted(ends, np.arange(len(A)), side="right")
        coupled[block != block[:, None]] = 0.0
    return scipy.linalg.lapack.dgebal(coupled, scale=1)[3]


def _power_of_two(x: np.ndarray) -> np.ndarray:
    return np.ldexp(1.0, np.frexp(x)[1])


# --- products and sums with twice as many digits ----------------------------------------------------------------------


def _integers(*matrices: np.ndarray) -> tuple[int, np.ndarray]:
    """k, and the matrices times 2^k as Python's integers, with which sums and products are exact."""
    numbers = np.array(matrices)
    k = max(53 - int(np.minimum.reduce(np.frexp(numbers)[1], axis=None)), 0)
    with np.errstate(over="ignore"):  # int refuses infinity
        multiples = np.ldexp(numbers, k).ravel().tolist()
    return k, np.array([int(multiple) for multiple in multiples], object).reshape(numbers.shape)


def _rounded(k: int, integers: np.ndarray) -> np.ndarray:
    """The integers over 2^k: Python rounds a ratio once."""
    unit = 1 << k
    return np.array([number / unit for number in integers.ravel().tolist()]).reshape(integers.shape)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and what rounding has left out."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _slices(X: np.ndarray) -> np.ndarray:
    """Three matrices, one above the other, with the sum X: entries of the first two are small multiples of a unit that
    their row has, and products of such matrices are exact."""
    bits = (52 - math.ceil(math.log2(X.shape[1]))) // 2
    shift = np.ldexp(1.5, np.frexp(np.maximum.reduce(np.abs(X), axis=1, keepdims=True))[1] + (52 - bits))
    first = (X + shift) - shift
    rest = X - first
    shift = np.ldexp(shift, -bits)
    second = (rest + shift) - shift
    return np.concatenate([first, second, rest - second])


def _products(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Nine matrices with the sum X Y', from the slices of X and Y."""
    n, m = len(rows) // 3, len(columns) // 3
    return (rows @ columns.T).reshape(3, n, 3, m).swapaxes(1, 2).reshape(9, n, m)


def _congruence(X: np.ndarray, slices: np.ndarray, P: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Matrices with the sum X (P + low) X', for a symmetric P and the slices of X."""
    high, rest = _two_sum(*_parts(_products(slices, _slices(P)), (X @ low)[None]))
    return np.concatenate([_products(_slices(high), slices), (rest @ X.T)[None]])


def _sum(*terms: np.ndarray) -> np.ndarray:
    """The sum of arrays (k, n, m) over their first axis."""
    large, small = _parts(*terms)
    return large + small


def _parts(*terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same in two parts: one exact, the other the sum of a second exact part and a small rest."""
    rest = np.concatenate(terms)
    spare = math.ceil(math.log2(len(rest))) + 1
    shift = np.ldexp(1.5, np.frexp(np.maximum.reduce(np.abs(rest)))[1] + spare)
    parts = []
    for _ in range(2):
        part = (rest + shift) - shift
        rest -= part
        parts.append(np.add.reduce(part))
        shift = np.ldexp(shift, spare - 52)
    return parts[0], parts[1] + np.add.reduce(rest)
