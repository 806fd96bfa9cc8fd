"""Exact numbers with square roots: Σ q_d √d, rational q_d and squarefree d."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Union


@functools.total_ordering
class Surd:
    """Σ q_d √d over squarefree d >= 1: exact under +, -, *, / and comparison. Made by `sqrt`.

    The square roots of distinct squarefree numbers are independent over the rationals, so the sum is zero only if
    every q_d is, and two values are equal only if they are written alike. The sign of a sum that is not zero is found
    by bounding its roots ever more closely.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: Mapping[int, Fraction]):
        self.parts = {d: q for d, q in parts.items() if q}

    def __add__(self, other: Number) -> Surd:
        if not isinstance(other, (int, Fraction, Surd)):
            return NotImplemented
        total = dict(self.parts)
        for d, q in _parts(other).items():
            total[d] = total.get(d, Fraction(0)) + q
        return Surd(total)

    def __mul__(self, other: Number) -> Surd:
        if not isinstance(other, (int, Fraction, Surd)):
            return NotImplemented
        total: dict[int, Fraction] = {}
        for a, p in self.parts.items():
            for b, q in _parts(other).items():
                g = math.gcd(a, b)  # √a √b = g √(ab/g²), and ab/g² is squarefree again
                d = (a // g) * (b // g)
                total[d] = total.get(d, Fraction(0)) + p * q * g
        return Surd(total)

    def __truediv__(self, other: Number) -> Surd:
        return self * (other.reciprocal() if isinstance(other, Surd) else 1 / Fraction(other))

    def __rtruediv__(self, other: Number) -> Surd:
        return self.reciprocal() * other

    def reciprocal(self) -> Surd:
        """1/x, by (a - b √p)/(a² - p b²) for x = a + b √p, one prime p after another."""
        if not self.parts:
            raise ZeroDivisionError("surd: 1/0")
        if set(self.parts) == {1}:
            return Surd({1: 1 / self.parts[1]})
        other = conjugate(self, primes(self)[0])
        return other * (self * other).reciprocal()

    def __lt__(self, other: Number) -> bool:
        if not isinstance(other, (int, Fraction, Surd)):
            return NotImplemented
        return sign(self - other) < 0

    def __neg__(self) -> Surd:
        return self * -1

    def __sub__(self, other: Number) -> Surd:
        return self + (-other)

    def __rsub__(self, other: Number) -> Surd:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, Fraction, Surd)) and self.parts == _parts(other)

    def __hash__(self) -> int:
        rational = not self.parts or set(self.parts) == {1}
        return hash(self.parts.get(1, 0)) if rational else hash(frozenset(self.parts.items()))

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __float__(self) -> float:
        return math.fsum(float(q) * math.sqrt(d) for d, q in self.parts.items())

    def __repr__(self) -> str:
        return " + ".join(f"{q}" if d == 1 else f"{q}√{d}" for d, q in sorted(self.parts.items())) or "0"


Number = Union[int, Fraction, Surd]  # noqa: UP007 (evaluated at run time, before Surd could overload |)


def sqrt(x: int | Fraction) -> Surd:
    """√x of a rational x >= 0, exactly: √(p/q) = √(pq)/q."""
    x = Fraction(x)
    if x < 0:
        raise ValueError(f"sqrt: {x} is negative; the tables are real")
    root, d = Fraction(1, x.denominator), x.numerator * x.denominator
    factor = 2
    while factor * factor <= d:
        while d % (factor * factor) == 0 and d:
            root, d = root * factor, d // (factor * factor)
        factor += 1
    return Surd({d: root} if d else {})


def sign(x: Number) -> int:
    """-1, 0 or 1, exactly."""
    parts, bits = _parts(x), 64
    if not parts:
        return 0
    while True:
        low = high = Fraction(0)
        for d, q in parts.items():
            root = math.isqrt(d << 2 * bits)
            ends = q * root, q * (root + (root * root < d << 2 * bits))
            low, high = low + min(ends), high + max(ends)
        if low > 0 or high < 0:
            return 1 if low > 0 else -1
        bits *= 2


def conjugate(x: Number, p: int) -> Surd:
    """x with -√p in place of √p, p a prime."""
    return Surd({d: q if d % p else -q for d, q in _parts(x).items()})


def primes(*numbers: Number) -> list[int]:
    """The primes whose square roots the numbers are made of."""
    factors = set()
    for d in {d for x in numbers for d in _parts(x)}:
        rest, p = d, 2
        while rest > 1:
            if rest % p == 0:
                factors.add(p)
                rest //= p
            p += 1
    return sorted(factors)


def _parts(x: Number) -> Mapping[int, Fraction]:
    if isinstance(x, Surd):
        return x.parts
    return {1: Fraction(x)} if x else {}
