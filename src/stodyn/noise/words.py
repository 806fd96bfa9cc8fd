"""The algebra of multiple Ito integrals I_w: their products, and which of them follow from which.

A word w = (j_1, ..., j_r) lists the integrators from the inside out: 0 is time, 1..m are the channels.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache

Word = tuple[int, ...]
# A polynomial in integrals: {(word, word, ...): coefficient}, the words of a monomial sorted.
Polynomial = dict[tuple[Word, ...], Fraction]


def weight(word: Word) -> int:
    """Twice the order of I_w in h: time weighs 2, a channel 1."""
    return sum(2 if letter == 0 else 1 for letter in word)


@cache
def up_to_weight(limit: int, m: int) -> tuple[Word, ...]:
    """Every word over 0..m of weight at most `limit`, the empty one first, by growing weight."""
    levels: list[list[Word]] = [[()]]
    for n in range(1, limit + 1):
        channels = [(*w, j) for w in levels[n - 1] for j in range(1, m + 1)]
        levels.append(channels + ([(*w, 0) for w in levels[n - 2]] if n > 1 else []))
    return tuple(itertools.chain.from_iterable(levels))


@cache
def product(u: Word, v: Word) -> dict[Word, int]:
    """I_u I_v as a sum of integrals, by Ito's product rule: d(I_u I_v) = I_u dI_v + I_v dI_u + d[I_u, I_v]."""
    if not u or not v:
        return {u + v: 1}
    terms: Counter[Word] = Counter()
    for count, last in [(product(u[:-1], v), u[-1]), (product(u, v[:-1]), v[-1])]:
        terms.update({(*w, last): c for w, c in count.items()})
    if u[-1] == v[-1] != 0:
        terms.update({(*w, 0): c for w, c in product(u[:-1], v[:-1]).items()})
    return dict(terms)


@cache
def express(word: Word, held: frozenset[Word]) -> Polynomial | None:
    """I_word as a polynomial in the held integrals and h = I_(0), or None where Ito's product rule does not give it.

    The products I_u I_v of shorter words are linear equations for the integrals with the letters of `word`; they are
    solved exactly.
    """
    if word in held or word == (0,):
        return {(word,): Fraction(1)}
    if not any(word):
        return {((0,),) * len(word): Fraction(1, math.factorial(len(word)))}
    # The target stands last, so that after elimination a row that holds nothing else is its value.
    unknown = [w for w in sorted(set(itertools.permutations(word))) if w not in held and w != word] + [word]
    rows = [row for u, v in _factors(word) if (row := _equation(u, v, unknown, held)) is not None]
    for column in range(len(unknown)):
        pivot = next((row for row in rows if row[0][column] != 0), None)
        if pivot is not None:
            rows = [_eliminate(row, pivot, column) for row in rows if row is not pivot]
    return None if pivot is None else _add({}, pivot[1], 1 / pivot[0][-1])


# The coefficients of the unknown integrals, and the polynomial in held ones that their sum is equal to.
Row = tuple[list[Fraction], Polynomial]


def _equation(u: Word, v: Word, unknown: list[Word], held: frozenset[Word]) -> Row | None:
    left, right = express(u, held), express(v, held)
    if left is None or right is None:
        return None
    terms, value = product(u, v), _times(left, right)
    for w in terms.keys() - set(unknown):
        known = express(w, held)
        if known is None:
            return None
        value = _add(value, known, Fraction(-terms[w]))
    return [Fraction(terms.get(w, 0)) for w in unknown], value


def _factors(word: Word) -> list[tuple[Word, Word]]:
    orders = set(itertools.permutations(word))
    return sorted({(w[:cut], w[cut:]) for w in orders for cut in range(1, len(word) // 2 + 1)})


def _eliminate(row: Row, pivot: Row, column: int) -> Row:
    factor = row[0][column] / pivot[0][column]
    return [a - factor * b for a, b in zip(row[0], pivot[0], strict=True)], _add(row[1], pivot[1], -factor)


def _add(p: Polynomial, q: Polynomial, factor: Fraction) -> Polynomial:
    total = p | {monomial: p.get(monomial, Fraction(0)) + factor * c for monomial, c in q.items()}
    return {monomial: c for monomial, c in total.items() if c}


def _times(p: Polynomial, q: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for (a, c), (b, d) in itertools.product(p.items(), q.items()):
        total = _add(total, {tuple(sorted(a + b)): c * d}, Fraction(1))
    return total
