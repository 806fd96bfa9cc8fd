"""Exact polynomials in several variables, and whether one is nonnegative where its variables are.

p(x) >= 0 for all x >= 0 if and only if it is so at one point of every interval between the roots of p, which Sturm's
theorem finds. F(x, y) >= 0 for all x, y >= 0 if and only if it is so along one line x = x₀ of every strip between the
numbers x at which roots of F(x, ·) meet, vanish at infinity or pass through y = 0: roots of a resultant, of the leading
and of the last coefficient (G. E. Collins' cylindrical decomposition in two variables). All arithmetic is exact.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from stodyn.numerics.surd import Number, Surd, conjugate, primes, sign

Exponents = tuple[int, ...]
Dense = list[Any]  # coefficients of 1, x, x², ...


class Polynomial:
    """Σ c x₁^e₁ x₂^e₂ ..., with exact c; made of `variables`, numbers, +, - and *."""

    __slots__ = ("count", "terms")

    def __init__(self, terms: Mapping[Exponents, Any], count: int):
        self.terms, self.count = {e: c for e, c in terms.items() if c}, count

    def __add__(self, other: Polynomial | Number) -> Polynomial:
        total: dict[Exponents, Any] = defaultdict(int, self.terms)
        for e, c in self._like(other).terms.items():
            total[e] += c
        return Polynomial(total, self.count)

    def __mul__(self, other: Polynomial | Number) -> Polynomial:
        if not isinstance(other, Polynomial):
            return Polynomial({e: c * other for e, c in self.terms.items()}, self.count)
        total: dict[Exponents, Any] = defaultdict(int)
        for (e, c), (f, d) in itertools.product(self.terms.items(), other.terms.items()):
            total[tuple(map(sum, zip(e, f, strict=True)))] += c * d
        return Polynomial(total, self.count)

    def __neg__(self) -> Polynomial:
        return self * -1

    def __sub__(self, other: Polynomial | Number) -> Polynomial:
        return self + (-other)

    def __rsub__(self, other: Number) -> Polynomial:
        return -self + other

    def __pow__(self, n: int) -> Polynomial:
        return math.prod([self] * n, start=self._like(1))

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, Fraction, Surd, Polynomial)) and self.terms == self._like(other).terms

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __call__(self, *values: Any) -> Any:
        """The value at numbers, arrays or other polynomials, one for each variable."""
        powers = (
            math.prod((v**n for v, n in zip(values, e, strict=True) if n), start=c) for e, c in self.terms.items()
        )
        return sum(powers, 0)

    def __repr__(self) -> str:
        words = []
        for e, c in sorted(self.terms.items(), reverse=True):
            powers = [f"x{i + 1}" if n == 1 else f"x{i + 1}^{n}" for i, n in enumerate(e) if n]
            words.append(" ".join([f"({c})" if isinstance(c, Surd) else str(c), *powers]))
        return " + ".join(words) or "0"

    def degree(self, variable: int) -> int:
        """The highest power of a variable, -1 for the polynomial 0."""
        return max((e[variable] for e in self.terms), default=-1)

    def collected(self, variable: int) -> dict[int, Polynomial]:
        """Power of a variable -> the polynomial in the others that multiplies it, the lowest first."""
        by_power: dict[int, dict[Exponents, Any]] = defaultdict(dict)
        for e, c in self.terms.items():
            by_power[e[variable]][(*e[:variable], 0, *e[variable + 1 :])] = c
        return {power: Polynomial(terms, self.count) for power, terms in sorted(by_power.items())}

    def along(self, variable: int) -> list[Any]:
        """The coefficients of 1, x, x², ... of the terms that have no other variable."""
        coefficients: list[Any] = [Fraction(0)] * (self.degree(variable) + 1)
        for e, c in self.terms.items():
            if sum(e) == e[variable]:
                coefficients[e[variable]] = c
        return _trimmed(coefficients)

    def floats(self) -> Polynomial:
        """The same function in floating-point arithmetic."""
        return Polynomial({e: float(c) for e, c in self.terms.items()}, self.count)

    def _like(self, other: Any) -> Polynomial:
        return other if isinstance(other, Polynomial) else Polynomial({(0,) * self.count: other}, self.count)


def variables(count: int) -> tuple[Polynomial, ...]:
    """The polynomials x₁, x₂, ..."""
    return tuple(Polynomial({tuple(int(i == j) for j in range(count)): Fraction(1)}, count) for i in range(count))


# --- nonnegative for nonnegative arguments ----------------------------------------------------------------------------


def negative_on_half_line(p: Sequence[Number]) -> Fraction | None:
    """Some x > 0 with p(x) < 0, p by the coefficients of 1, x, x², ...; None where p >= 0 for all x >= 0."""
    if all(sign(c) >= 0 for c in p):
        return None
    return next((x for x in between_roots(rational_multiple(p)) if sign(_at(p, x)) < 0), None)


def negative_on_quadrant(F: Polynomial) -> tuple[Fraction, Fraction] | None:
    """Some x, y > 0 with F(x, y) < 0; None where F >= 0 for all x, y >= 0."""
    if all(sign(c) >= 0 for c in F.terms.values()):
        return None
    # Points first: where F is negative on a wide set no decomposition is needed.
    tried = [Fraction(2) ** n for n in range(-8, 9)]
    for x, y in itertools.product(tried, tried):
        if sign(F(x, y)) < 0:
            return x, y
    rows = F.collected(1)
    lowest = min(rows)
    columns = [rows[power].along(0) if power in rows else [] for power in range(lowest, max(rows) + 1)]
    critical = [columns[0], columns[-1], *([_discriminant(columns)] if len(columns) > 2 else [])]
    product: Dense = [1]
    for p in critical:
        product = _times(product, rational_multiple(p))
    for x in between_roots(product):
        below = negative_on_half_line([_at(column, x) for column in columns])
        if below is not None:
            return x, below
    return None


def between_roots(p: Sequence[Fraction]) -> Iterator[Fraction]:
    """One point of every interval between neighbouring positive roots of p, 0 and infinity."""
    chain = _sturm(p)
    *lower, lead = chain[0]
    n, bound = len(lower), Fraction(1)
    while any((n + 1) * abs(c) > abs(lead) * bound ** (n - i) for i, c in enumerate(lower)):
        bound *= 2  # until the lower terms together are smaller than the leading one: there is no root beyond

    def changes(x: Fraction) -> int:
        signs = [s for s in (sign(_at(q, x)) for q in chain) if s]
        return sum(a != b for a, b in itertools.pairwise(signs))

    def isolated(a: Fraction, b: Fraction, at_a: int, at_b: int) -> Iterator[tuple[Fraction, Fraction, int]]:
        """(a, b] with at_a - at_b roots, cut into pieces with one each."""
        if at_a - at_b == 1:
            yield a, b, at_b
        elif at_a > at_b:
            middle = (a + b) / 2
            between = changes(middle)
            yield from isolated(a, middle, at_a, between)
            yield from isolated(middle, b, between, at_b)

    before = Fraction(0)
    for a, b, at_b in isolated(before, bound, changes(before), changes(bound)):
        while a <= before:  # there is room, as the root before is at most `before` and this one is larger
            a, b = ((a + b) / 2, b) if changes((a + b) / 2) > at_b else (a, (a + b) / 2)
        yield a
        before = b
    yield bound + 1


def rational_multiple(p: Sequence[Number]) -> Dense:
    """A polynomial with rational coefficients among whose roots are those of p: p times all its conjugates."""
    multiple = list(p)
    for prime in primes(*p):
        if any(isinstance(c, Surd) and any(d % prime == 0 for d in c.parts) for c in multiple):
            multiple = _times(multiple, [conjugate(c, prime) for c in multiple])
    return [c.parts.get(1, Fraction(0)) if isinstance(c, Surd) else Fraction(c) for c in multiple]


def _discriminant(columns: Sequence[Dense]) -> Dense:
    """A polynomial in x whose roots are those x at which the number of distinct roots y of F = Σ columns[j](x) y^j
    changes while its degree does not: the first principal subresultant of F and ∂F/∂y that is not zero."""
    n = len(columns) - 1
    longest = max(len(column) for column in columns) - 1
    for j in range(n):
        size = 2 * n - 1 - 2 * j
        points = [Fraction(i) for i in range(1, size * longest + 2)]
        values = [_subresultant([_at(column, x) for column in columns], j) for x in points]
        if any(values):
            return _interpolated(points, values)
    raise AssertionError("a polynomial of positive degree has a derivative")


def _subresultant(p: Dense, j: int) -> Number:
    """The principal subresultant coefficient of degree j of p and p'."""
    n, slope = len(p) - 1, [i * c for i, c in enumerate(p)][1:]
    rows = [[*[0] * i, *reversed(p), *[0] * (n - 2 - j - i)] for i in range(n - 1 - j)]
    rows += [[*[0] * i, *reversed(slope), *[0] * (n - 1 - j - i)] for i in range(n - j)]
    return _determinant([row[: len(rows)] for row in rows])


def _determinant(rows: list[Dense]) -> Number:
    rows, determinant = [list(row) for row in rows], Fraction(1)
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            rows[k], rows[pivot], determinant = rows[pivot], rows[k], -determinant
        determinant = determinant * rows[k][k]
        for i in range(k + 1, len(rows)):
            if rows[i][k]:
                factor = rows[i][k] / (rows[k][k] * Fraction(1))
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return determinant


def _interpolated(points: Sequence[Fraction], values: Sequence[Number]) -> Dense:
    """Newton's interpolation: the coefficients of 1, x, x², ..."""
    table, newton = list(values), []
    for k in range(len(points)):
        newton.append(table[0])
        table = [(b - a) / (points[i + k + 1] - points[i]) for i, (a, b) in enumerate(itertools.pairwise(table))]
    polynomial: Dense = []
    for x, c in zip(reversed(points), reversed(newton), strict=True):
        shifted = [0, *polynomial]
        polynomial = [a - x * b for a, b in zip(shifted, [*polynomial, 0], strict=True)]
        polynomial = [polynomial[0] + c, *polynomial[1:]]
    return _trimmed(polynomial)


def _sturm(p: Sequence[Fraction]) -> list[list[int]]:
    """Sturm's chain of p without its multiple roots, every member a positive multiple of the true one."""
    chain = _remainders(_primitive(p))
    if len(chain[-1]) > 1:
        chain = _remainders(_primitive(_quotient(chain[0], chain[-1])))
    return chain


def _remainders(p: list[int]) -> list[list[int]]:
    """p, p', and the remainders with changed sign, down to the greatest common divisor of p and p'."""
    chain = [p]
    following = _trimmed([i * c for i, c in enumerate(p)][1:])
    while following:
        chain.append(_primitive(following))
        following = [-c for c in _remainder(chain[-2], chain[-1])]
    return chain


def _remainder(p: Sequence[int], q: Sequence[int]) -> list[int]:
    """A positive multiple of the remainder of p divided by q."""
    rest, lead = list(p), abs(q[-1])
    while len(rest) >= len(q):
        top = rest[-1] if q[-1] > 0 else -rest[-1]
        shift = len(rest) - len(q)
        rest = [lead * c for c in rest]
        for i, c in enumerate(q):
            rest[shift + i] -= top * c
        rest = _trimmed(rest)
    return rest


def _quotient(p: Sequence[int], q: Sequence[int]) -> list[Fraction]:
    rest, quotient = [Fraction(c) for c in p], []
    while len(rest) >= len(q):
        factor, shift = rest[-1] / q[-1], len(rest) - len(q)
        quotient.append(factor)
        for i, c in enumerate(q):
            rest[shift + i] -= factor * c
        rest.pop()
    return quotient[::-1]


def _primitive(p: Sequence[Any]) -> list[int]:
    """A positive multiple of p with coprime integer coefficients."""
    exact = [Fraction(c) for c in _trimmed(list(p))]
    scale = math.lcm(*(c.denominator for c in exact))
    whole = [int(c * scale) for c in exact]
    return [c // math.gcd(*whole) for c in whole]


def _trimmed(p: Dense) -> Dense:
    while p and not p[-1]:
        p = p[:-1]
    return p


def _times(p: Dense, q: Dense) -> Dense:
    product: Dense = [0] * (len(p) + len(q) - 1)
    for (i, a), (j, b) in itertools.product(enumerate(p), enumerate(q)):
        product[i + j] = product[i + j] + a * b
    return product


def _at(p: Sequence[Any], x: Fraction) -> Any:
    value: Any = 0
    for c in reversed(p):
        value = value * x + c
    return value
