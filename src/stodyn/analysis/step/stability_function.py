"""Stability functions of stiff tables in exact arithmetic: R itself, near 0 and at infinity, and whether R̂ <= 1.

On dy = λ y dt + μ y dW a step is y' = R y, with h = λ Δt, k = μ √Δt and ξ = W/√Δt

    R(h, k, ξ) = Σ_j C_j(h, k) He_j(ξ) / D(h, k),    R̂ = E|R|² = Σ_j j! |C_j|² / |D|²,    D = Π (1 - a h - r k)

with Hermite polynomials He_j, for complex h and k too. A table has the normal form where D is free of k and every C_j
is one power of k times S_j(h): then R̂ grows with |k|, and with h = -x + iy, Y = y², |k|² = 2x on the boundary of the
equation's own stability, the method is A-stable if and only if all a >= 0 and

    F(x, Y) = |D|² - Σ_j j! (2x)^e_j |S_j|² >= 0   for all x, Y >= 0.

Within the boundary R̂ < 1 then follows: R̂ grows with |k| unless all S_j but S_0 vanish at h, and |S_0/D| < 1 for
Re h < 0 by the maximum principle, unless R = 1 throughout.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.methods.stiff_table import StiffTable
from stodyn.numerics.polynomial import Polynomial, negative_on_half_line, negative_on_quadrant, variables
from stodyn.numerics.surd import Number, Surd, sign

__dir__ = listing.names_of(__name__)

_H, _K, _XI = variables(3)
Factor = tuple[Number, Number]  # (a, r) of 1 - a h - r k


@dataclasses.dataclass(frozen=True, eq=False)
class StabilityFunction:
    """R of a table: `parts` holds C_j(h, k) by j, `factors` how often each 1 - a h - r k divides."""

    name: str
    parts: Mapping[int, Polynomial]
    factors: Mapping[Factor, int]

    @functools.cached_property
    def denominator(self) -> Polynomial:
        """D(h, k), the common denominator of R."""
        return _product(self.factors)

    def mean_square(self, h: ArrayLike, k: ArrayLike) -> np.ndarray:
        """R̂ at real or complex h and k, in floating-point arithmetic; inf at poles."""
        h, k = np.broadcast_arrays(np.asarray(h), np.asarray(k))
        with np.errstate(all="ignore"):
            D = np.prod([(1.0 - float(a) * h - float(r) * k) ** n for (a, r), n in self.factors.items()], axis=0)
            square = sum(math.factorial(j) * np.abs(C.floats()(h, k, 1.0) / D) ** 2 for j, C in self.parts.items())
        return np.broadcast_to(np.where(np.isfinite(square), square, np.inf), h.shape)

    def rounding(self, h: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return how much of mean_square(h, k) may be rounding: of C_j/D by the relative errors of both, squared."""
        with np.errstate(all="ignore"):
            D, off = np.ones(np.shape(h)), 4.0
            for (a, r), n in self.factors.items():
                factor = np.abs(1.0 - float(a) * h - float(r) * k)
                D = D * factor**n
                off = off + 10.0 * n * (1.0 + abs(float(a)) * np.abs(h) + abs(float(r)) * np.abs(k)) / factor
            values = {j: np.abs(C.floats()(h, k, 1.0)) for j, C in self.parts.items()}
            squares = (
                math.factorial(j) * value * (off * value + 2.0 * _sizes_of_terms(self.parts[j], h, k)) / D**2
                for j, value in values.items()
            )
            return np.finfo(float).eps * sum(squares, np.zeros(np.shape(h)))

    def exact_mean_square(self, h: Fraction, k: Fraction) -> Number:
        """R̂ at a real point, exactly."""
        D, values = self.denominator(h, k, 1), {j: C(h, k, 1) for j, C in self.parts.items()}
        return sum((math.factorial(j) * C * C for j, C in values.items()), Fraction(0)) / (D * D)

    # --- near 0, poles, at infinity ---------------------------------------------------------------------------------

    def origin(self) -> dict[int, Number]:
        """Power n -> the coefficient of kⁿ in R̂ - 1 on the boundary h = -k²/2, for n up to 4."""
        R = [_series(C, self.factors) for C in self.parts.values()]
        total = [Fraction(0)] * 5
        for j, series in zip(self.parts, R, strict=True):
            for a in range(5):
                for b in range(5 - a):
                    total[a + b] = total[a + b] + math.factorial(j) * series[a] * series[b]
        total[0] = total[0] - 1
        return {n: value for n, value in enumerate(total) if value or n == 4}

    @property
    def poles(self) -> tuple[str, ...]:
        """In words, the poles of R̂ in the closed region |k|² <= -2 Re h; those that only touch its boundary say so.

        1 - a h = r k has a solution in the open region if and only if a < 0 or r² > 2a; where r² = 2a it has one on the
        boundary, at h = -1/a, k = 2/r, near which R̂ is unbounded unless all C_j vanish there.
        """
        poles = []
        for a, r in self.factors:
            edge = sign(r * r - 2 * a) if r else -sign(a)
            if edge > 0:
                x = 1.0 / abs(float(a)) if a else 1.0 / float(r * r)
                k = (1.0 + float(a) * x) / float(r) if r else 0.0
                poles.append(f"h = {-x:.6g}, k = {k:.6g}, inside the equation's region")
            elif (
                r
                and edge == 0
                and any(C(-1 / (a * Fraction(1)), 2 / (r * Fraction(1)), 1) for C in self.parts.values())
            ):
                x = 1.0 / float(a)
                poles.append(f"h = {-x:.6g}, k = {2.0 / float(r):.6g}, on the boundary of the equation's region")
        return tuple(poles)

    def at_infinity(self) -> Number | None:
        """The limit of R̂ for h -> -∞ along the boundary |k|² = -2h, None where it is infinite; normal form."""
        D, total = self.denominator.along(0), Fraction(0)
        for j, (e, S) in self.normal_form.items():
            N = S.along(0)
            twice = 2 * (len(N) - 1) + e - 2 * (len(D) - 1)
            if twice > 0:
                return None
            if twice == 0:
                total = total + math.factorial(j) * 2**e * (N[-1] * N[-1]) / (D[-1] * D[-1] * Fraction(1))
        return total

    # --- the normal form ----------------------------------------------------------------------------------------------

    @functools.cached_property
    def normal_form(self) -> dict[int, tuple[int, Polynomial]]:
        """j -> (e_j, S_j); a ValueError names a term that is not of that form."""
        for a, r in self.factors:
            if r:
                raise ValueError(
                    f"table: {self.name} has the denominator 1 - {_word(a)} h - {_word(r)} k, with k in it"
                )
        by_power = {}
        for j, C in self.parts.items():
            powers = C.collected(1)
            if len(powers) > 1:
                terms = ", ".join(f"k^{e}" for e in powers)
                raise ValueError(f"table: in R of {self.name} He_{j}(ξ) stands with {terms}, expected one power of k")
            ((e, S),) = powers.items()
            by_power[j] = e, S
        return by_power

    @functools.cached_property
    def boundary_polynomial(self) -> Polynomial:
        """F(x, Y); ValueError where the table does not have the normal form."""
        x, _ = variables(2)
        squares = (math.factorial(j) * (2 * x) ** e * _modulus(S) for j, (e, S) in self.normal_form.items())
        return sum((-square for square in squares), _modulus(self.denominator))

    def excess(self, x: ArrayLike, Y: ArrayLike = 0.0) -> np.ndarray:
        """R̂ - 1 = -F/|D|² on the boundary, without cancellation: negative where the method is stable. Normal form."""
        x, Y = np.broadcast_arrays(np.asarray(x, float), np.asarray(Y, float))
        with np.errstate(divide="ignore"):  # at poles
            return -self.boundary_polynomial.floats()(x, Y) / np.asarray(_modulus(self.denominator).floats()(x, Y))

    def beyond_boundary(self, complex_arguments: bool) -> tuple[Fraction, Fraction] | None:
        """Return (x, Y) with F(x, Y) < 0, Y = 0 for real arguments; None where there is no such point. Normal form."""
        F = self.boundary_polynomial
        x = negative_on_half_line(F.along(0))
        if x is not None:
            return x, Fraction(0)
        return negative_on_quadrant(F) if complex_arguments else None

    @property
    def is_one(self) -> bool:
        """Whether R = 1 for all h and k: the step does nothing."""
        return not self.factors and set(self.parts) == {0} and self.parts[0] == 1

    @property
    def vanishes_at_infinity(self) -> bool:
        """Whether R̂ -> 0 for |h| -> ∞ in |k|² <= -2 Re h; normal form."""
        D = self.denominator.degree(0)
        return all(2 * S.degree(0) + e < 2 * D for e, S in self.normal_form.values())


@functools.lru_cache(maxsize=256)
def stability_function(table: StiffTable) -> StabilityFunction:
    """Compute R of a table, exactly.

    Parameters
    ----------
    table : StiffTable
        The table.

    Returns
    -------
    StabilityFunction
    """
    A, B1 = (*table.A, table.α), (*table.B1, table.β1)
    B2, B3 = (*table.B2, table.β2), (*table.B3, table.β3)
    square = (_XI * _XI - 1) * Fraction(1, 2)

    def weight(i: int, j: int) -> Polynomial:
        return A[i][j] * _H + (B1[i][j] * _XI + B2[i][j] * square + B3[i][j] + 0 * _K) * _K

    stages: list[tuple[Polynomial, Counter]] = []
    s = len(table.A)
    for i in range(s if table.stiffly_accurate else s + 1):
        used = [(weight(i, j), *stages[j]) for j in range(min(i, s)) if weight(i, j)]
        common: Counter = functools.reduce(lambda a, b: a | b, (factors for _, _, factors in used), Counter())
        N = _product(common)
        for w, numerator, factors in used:
            N = N + w * numerator * _product(common - factors)
        own = (A[i][i], B3[i][i]) if i < s else (0, 0)
        stages.append((N, common + Counter([own] if any(own) else [])))
    N, factors = stages[-1]
    parts = {j: C for j, C in _hermite(N).items() if C}
    for factor in list(factors):
        while factors[factor] and (fewer := _without(parts, factor)):
            parts, factors[factor] = fewer, factors[factor] - 1
    return StabilityFunction(table.name, parts, {key: n for key, n in factors.items() if n})


def _sizes_of_terms(C: Polynomial, h: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The error of the sum C(h, k) in units of ε: that of n terms of the degree d is 2 (n + d) of their sizes."""
    sizes = Polynomial({e: abs(float(c)) for e, c in C.terms.items()}, C.count)
    return 2.0 * (len(C.terms) + max(map(sum, C.terms))) * np.asarray(sizes(np.abs(h), np.abs(k), 1.0))


def _factor(key: Factor) -> Polynomial:
    a, r = key
    return 1 - a * _H - r * _K


def _product(factors: Mapping[Factor, int]) -> Polynomial:
    return math.prod((_factor(key) ** n for key, n in factors.items()), start=0 * _H + 1)


def _hermite(N: Polynomial) -> dict[int, Polynomial]:
    """Σ N_n ξⁿ = Σ C_j He_j(ξ), by ξⁿ = Σ n!/(2^i i! (n - 2i)!) He_(n-2i)(ξ)."""
    coefficients: dict[int, Polynomial] = {}
    for n, coefficient in N.collected(2).items():
        for i in range(n // 2 + 1):
            factor = Fraction(math.factorial(n), 2**i * math.factorial(i) * math.factorial(n - 2 * i))
            coefficients[n - 2 * i] = coefficients.get(n - 2 * i, 0) + coefficient * factor
    return coefficients


def _without(parts: Mapping[int, Polynomial], factor: Factor) -> dict[int, Polynomial] | None:
    """All C_j/(1 - a h - r k), None where one of them is not a polynomial.

    Of a quotient the parts q_d of degree d are q_d = C_d + (a h + r k) q_(d-1), and end before those of C.
    """
    a, r = factor
    remaining = {}
    for j, C in parts.items():
        quotient = part = 0 * _H
        for d in range(max(e[0] + e[1] for e in C.terms) + 1):
            part = Polynomial({e: c for e, c in C.terms.items() if e[0] + e[1] == d}, 3) + part * (a * _H + r * _K)
            quotient = quotient + part
        if part:
            return None
        remaining[j] = quotient
    return remaining


def _series(C: Polynomial, factors: Mapping[Factor, int]) -> list[Any]:
    """The coefficients of 1, k, ..., k⁴ of C/D at h = -k²/2."""
    total: list[Any] = [Fraction(0)] * 5
    for (i, j, _), c in C.terms.items():
        if 2 * i + j < 5:
            total[2 * i + j] = total[2 * i + j] + c * Fraction(-1, 2) ** i
    for (a, r), n in factors.items():
        for _ in range(n):  # divide by 1 - r k + a k²/2
            for m in range(1, 5):
                total[m] = total[m] + r * total[m - 1] - (a * Fraction(1, 2) * total[m - 2] if m > 1 else 0)
    return total


def _modulus(N: Polynomial) -> Polynomial:
    """|N(-x + iy)|² of a polynomial in h alone, as a polynomial in x and Y = y²."""
    x, y = variables(2)
    real = imaginary = 0 * x
    for c in reversed(N.along(0)):
        real, imaginary = -x * real - y * imaginary + c, -x * imaginary + y * real
    return Polynomial({(i, j // 2): c for (i, j), c in (real * real + imaginary * imaginary).terms.items()}, 2)


def _word(x: Number) -> str:
    return f"({x})" if isinstance(x, Surd) else str(x)
