"""Exact arithmetic with random coefficients: polynomials in iterated integrals and discrete variables, their means."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Union

from stodyn.noise.words import Word, product, weight
from stodyn.numerics.surd import Number, Surd

Monomial = tuple[tuple[str, str, int], ...]


class Random:
    """A polynomial in Ito integrals over a step h = 1 and in independent discrete variables: Σ q · monomial · I_word.

    A word (j1, ..., jk) stands for ∫ dW_j1(s1) ... dW_jk(sk) over 0 < s1 < ... < sk < 1, the first letter innermost,
    with 0 for time. Products are reduced to sums of words by Ito's product rule, so that equal variables have equal
    terms once `homogeneous` has brought their words to the same weight.
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[tuple[Monomial, Word], Number]):
        self.terms = {key: q for key, q in terms.items() if q}

    def __add__(self, other: Coefficient) -> Random:
        total = defaultdict(int, self.terms)
        for key, q in _terms(other).items():
            total[key] += q
        return Random(total)

    def __mul__(self, other: Coefficient) -> Random:
        if isinstance(other, (int, Fraction, Surd)):
            return Random({key: q * other for key, q in self.terms.items()})
        total: dict[tuple[Monomial, Word], Number] = defaultdict(int)
        for (a, u), p in self.terms.items():
            for (b, v), q in other.terms.items():
                monomial, factor = _monomial(a + b)
                pq = p * q if factor == 1 else p * q * factor
                for word, count in product(u, v).items():
                    total[monomial, word] += pq if count == 1 else pq * count
        return Random(total)

    def __neg__(self) -> Random:
        return self * -1

    def __sub__(self, other: Coefficient) -> Random:
        return self + (-other)

    def __rsub__(self, other: Coefficient) -> Random:
        return -self + other

    def __truediv__(self, other: int | Fraction) -> Random:
        return self * (1 / Fraction(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __repr__(self) -> str:
        def show(monomial, word, q):
            names = [f"{name}^{power}" if power > 1 else name for _, name, power in monomial]
            integral = [f"I{word}".replace(" ", "").replace(",)", ")")] if word else []
            return " ".join([f"({q})" if isinstance(q, Surd) else str(q), *names, *integral])

        return " + ".join(show(*key, q) for key, q in sorted(self.terms.items(), key=lambda item: item[0])) or "0"


Coefficient = Union[Number, Random]  # noqa: UP007 (evaluated at run time)


def integral(*word: int) -> Random:
    """The Ito integral I_word over a step h = 1: integral(1) is W_1, integral(1, 0) is Z_1, integral(0) is h."""
    return Random({((), word): 1})


def variable(law: str, name: str) -> Random:
    """A variable independent of all others: law "two" (±1), "three" (±√3 with 1/6 each, else 0) or "normal".

    It stands for a draw of a weak scheme, divided by √h. The Wiener increments of a path are integrals.
    """
    if law not in ("two", "three", "normal"):
        raise ValueError(f"variable: the law of {name} is {law!r}; known are 'two', 'three' and 'normal'")
    return Random({(((law, name, 1),), ()): 1})


def mean(x: Coefficient) -> Number:
    """E x: an Ito integral has mean 1/n! if its word is n zeros and 0 otherwise."""
    total: Number = 0
    for (monomial, word), q in _terms(x).items():
        if not any(word):
            total += q * (Fraction(1, math.factorial(len(word))) * math.prod(_moment(v) for v in monomial))
    return total


def integrate(x: Coefficient, letter: int, calculus: str) -> Random:
    """∫ x dW_letter over the step (dt for letter 0), for x a sum of words; Ito or Stratonovich.

    ∫ I_w ∘ dW_j = I_wj + ½ I_w'0 where w = w'j: half the covariation of integrand and integrator.
    """
    total: dict[tuple[Monomial, Word], Number] = defaultdict(int)
    for (monomial, word), q in _terms(x).items():
        total[monomial, (*word, letter)] += q
        if calculus == "stratonovich" and letter and word and word[-1] == letter:
            total[monomial, (*word[:-1], 0)] += q * Fraction(1, 2)
    return Random(total)


def homogeneous(x: Coefficient) -> dict[tuple[Monomial, Word], Number]:
    """The coordinates of x in independent variables: x vanishes only if they all do.

    With h = 1 the products I_0 I_w and I_w are the same variable; words of one weight are independent, and so are words
    with an odd and an even number of noise letters. So each word is multiplied by I_0 up to the largest weight of its
    parity.
    """
    terms = _terms(x)
    top = {parity: max((weight(w) for _, w in terms if weight(w) % 2 == parity), default=0) for parity in (0, 1)}
    total: dict[tuple[Monomial, Word], Number] = defaultdict(int)
    for (monomial, word), q in terms.items():
        missing = (top[weight(word) % 2] - weight(word)) // 2
        for longer, count in product(word, (0,) * missing).items():
            total[monomial, longer] += q * (count * math.factorial(missing))
    return {key: q for key, q in total.items() if q}


@cache
def _monomial(factors: Monomial) -> tuple[Monomial, int]:
    """A product of powers in normal form: η² = 1 for two-point and θ³ = 3θ for three-point variables."""
    powers: Counter[tuple[str, str]] = Counter()
    for law, name, power in factors:
        powers[law, name] += power
    result, factor = [], 1
    for (law, name), power in sorted(powers.items()):
        if law == "two":
            power %= 2
        while law == "three" and power > 2:
            power, factor = power - 2, factor * 3
        if power:
            result.append((law, name, power))
    return tuple(result), factor


def _moment(factor: tuple[str, str, int]) -> int:
    law, _, power = factor
    if power % 2:
        return 0
    return math.prod(range(1, power, 2)) if law == "normal" else 1


def _terms(x: Coefficient) -> Mapping[tuple[Monomial, Word], Number]:
    if isinstance(x, Random):
        return x.terms
    return {((), ()): x} if x else {}
