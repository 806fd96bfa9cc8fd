"""Exact numbers with square roots: Σ q_d √d, rational q_d and squarefree d."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Union


class Surd:
    """Σ q_d √d over squarefree d >= 1: exact under +, -, *, comparison for equality and division by rationals.

    The square roots of distinct squarefree numbers are independent over the rationals, so the sum is zero only if
    every q_d is, and two values are equal only if they are written alike. Made by `sqrt`.
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

    def __truediv__(self, other: int | Fraction) -> Surd:
        return self * (1 / Fraction(other))

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


def _parts(x: Number) -> Mapping[int, Fraction]:
    if isinstance(x, Surd):
        return x.parts
    return {1: Fraction(x)} if x else {}
