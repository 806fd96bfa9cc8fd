"""Orders of stochastic Runge-Kutta schemes from coloured rooted trees, in exact arithmetic."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, reduce
from itertools import combinations, product
from operator import mul
from typing import NamedTuple

from stodyn.methods.signature import Coefficient, Random, homogeneous, integrate, mean
from stodyn.noise.words import weight
from stodyn.numerics.surd import Number

Stage = Hashable
Row = Mapping[tuple[int, Stage], Coefficient]  # (colour, stage) -> coefficient
Fields = tuple[int | None, ...]  # the driver of each colour, None for the clock
Tree = tuple[int, tuple["Tree", ...]]  # the root's colour and the sorted trees on it
Forest = tuple[Tree, ...]

_LAST = object()  # the key of the result x' among the stages


@dataclass(frozen=True)
class Scheme:
    """One step h = 1 of a Runge-Kutta scheme, explicit or implicit, for dX = Σ_c F_c(t, X) dW_d, d = drives[c].

        H_i = x + Σ rows[i][c, j] F_c(t + clock[j], H_j),      x' = x + Σ last[c, j] F_c(t + clock[j], H_j)

    The driver of a colour c is 0 for time (a drift) or the number 1, 2, ... of a noise channel. The parts of a split or
    partitioned system are colours with the same driver but different coefficients. Coefficients are numbers or
    signature.Random. Without a clock the fields do not depend on time. Heun's scheme with one channel:

        W = signature.integral(1)
        rows = {"x": {}, "ahead": {(0, "x"): 1, (1, "x"): W}}
        last = {(0, "x"): Fraction(1, 2), (0, "ahead"): Fraction(1, 2), (1, "x"): W / 2, (1, "ahead"): W / 2}
        strong_order(Scheme("stratonovich", (0, 1), rows, last)).order      # 1
    """

    calculus: str
    drives: tuple[int, ...]
    rows: Mapping[Stage, Row]
    last: Row
    clock: Mapping[Stage, Number] | None = None

    def __post_init__(self):
        if self.calculus not in ("ito", "stratonovich"):
            raise ValueError(f"Scheme: calculus is {self.calculus!r}; expected 'ito' or 'stratonovich'")
        for colour, stage in (key for row in (*self.rows.values(), self.last) for key in row):
            if stage not in self.rows or not 0 <= colour < len(self.drives):
                raise ValueError(
                    f"Scheme: a row uses colour {colour} at stage {stage!r}; drives and rows must name both"
                )
        if self.clock is not None and self.clock.keys() != self.rows.keys():
            raise ValueError("Scheme: clock must give a time to every stage of rows, and to no other")

    def weight(self, tree: Tree) -> Coefficient:
        """The elementary weight Φ(τ): x' = x + Σ_τ Φ(τ)/σ(τ) F(τ)(x)."""
        return self._at(_LAST, tree)

    def fields(self, structure: str) -> Fields:
        """The drivers of the colours, with None for the clock t' = 1 if its conditions do not follow from the others.

        They follow if the clock of every stage is the row sum of one drift colour: ∂/∂t then acts as that drift does.
        This does not hold for additive noise, whose only derivative is ∂/∂t.
        """
        if self.clock is None or (self._row_sums_are_clocks and structure != "additive"):
            return self.drives
        return (*self.drives, None)

    @cached_property
    def _row_sums_are_clocks(self) -> bool:
        assert self.clock is not None
        return any(
            driver == 0 and all(self._at(i, (colour, ())) == c for i, c in self.clock.items())
            for colour, driver in enumerate(self.drives)
        )

    @cached_property
    def _rows(self):
        return {stage: _by_colour(row) for stage, row in (*self.rows.items(), (_LAST, self.last))}

    @cached_property
    def _weights(self) -> dict[tuple[Stage, Tree], Coefficient]:
        return {}

    def _at(self, i: Stage, tree: Tree) -> Coefficient:
        if (i, tree) not in self._weights:
            is_clock = tree[0] == len(self.drives)
            self._weights[i, tree] = self.clock[i] if is_clock else self._sum(self._rows[i], tree)  # type: ignore[index]
        return self._weights[i, tree]

    def _sum(self, row, tree: Tree) -> Coefficient:
        colour, branches = tree
        total: Coefficient = 0
        for j, coefficient in row[colour]:
            for branch in branches:
                if coefficient:
                    coefficient = self._at(j, branch) * coefficient
            if coefficient:
                total = total + coefficient
        return total


class Condition(NamedTuple):
    """A violated order condition: its elementary differentials, the exact value, and the value for the scheme."""

    kind: str
    order: Fraction
    differential: str
    exact: Coefficient
    scheme: Coefficient

    def __str__(self) -> str:
        return f"{self.kind} of {self.differential} (order {self.order}): exact {self.exact}, scheme {self.scheme}"


class Order(NamedTuple):
    """The largest order whose conditions hold, and the violated conditions of the next (none if the search ended)."""

    order: Fraction
    violated: tuple[Condition, ...]


def strong_order(scheme: Scheme, structure: str = "general", limit: Fraction | float = Fraction(3, 2)) -> Order:
    """The mean-square order p <= limit, a multiple of 1/2, by Milstein's theorem.

    The weight of every tree of order <= p is that of the exact solution on each path, and of order p + 1/2 in the mean.
    """
    return _search(scheme, structure, limit, lambda n: (("path", n, False), ("mean", n + 1, False)))


def weak_order(scheme: Scheme, structure: str = "general", limit: Fraction | float = 2) -> Order:
    """The weak order p <= limit, a multiple of 1/2: products of trees of total order <= p + 1/2 have the exact mean."""
    return _search(scheme, structure, limit, lambda n: (("mean", n, True), ("mean", n + 1, True))[n > 1 :])


def deterministic_order(scheme: Scheme, limit: int = 4) -> Order:
    """The order p <= limit of the scheme without noise."""
    order, violated = _search(scheme, "noiseless", limit, lambda n: (("path", n, False),))
    return Order(Fraction(int(order)), violated)


def _search(scheme: Scheme, structure: str, limit: Fraction | float, requirements: Callable) -> Order:
    """The last n/2 <= limit such that all requirements(n), of (kind, twice the order, products), hold."""
    channels = max(scheme.drives)
    if structure == "scalar" and channels > 1:
        raise ValueError(f"structure: 'scalar' means one noise channel, but the scheme is written for {channels}")
    for n in range(1, int(2 * limit) + 1):
        violated = tuple(one for required in requirements(n) for one in _violated(scheme, structure, *required))
        if violated:
            return Order(Fraction(n - 1, 2), violated)
    return Order(Fraction(limit), ())


def _violated(scheme: Scheme, structure: str, kind: str, n: int, products: bool) -> Iterator[Condition]:
    fields = scheme.fields(structure)
    for condition in conditions(n, fields, structure, products):
        exact = _combine(condition, lambda tree: exact_weight(tree, fields, scheme.calculus))
        ours = _combine(condition, scheme.weight)
        if kind == "mean":
            exact, ours = mean(exact), mean(ours)
        if homogeneous(exact - ours):
            terms = (f"{'' if q == 1 else f'{q} '}{show(forest, fields)}" for forest, q in condition.items())
            yield Condition(kind, Fraction(n, 2), " + ".join(terms), exact, ours)


def _combine(condition: Mapping[Forest, Fraction], weight_of: Callable[[Tree], Coefficient]) -> Coefficient:
    total: Coefficient = 0
    for forest, factor in condition.items():
        term = reduce(mul, map(weight_of, forest))
        total = total + (term if factor == 1 else factor * term)
    return total


@cache
def exact_weight(tree: Tree, fields: Fields, calculus: str) -> Random:
    """φ(τ) of the exact solution x + Σ_τ φ(τ)/σ(τ) F(τ)(x): the branches' φ multiplied and integrated."""
    colour, branches = tree
    return integrate(
        math.prod((exact_weight(b, fields, calculus) for b in branches), start=1), fields[colour] or 0, calculus
    )


@cache
def trees(n: int, fields: Fields, structure: str = "general") -> tuple[Tree, ...]:
    """The trees of order n/2 whose elementary differential need not vanish for noise of this structure."""
    grown = []
    for colour, driver in enumerate(fields):
        if structure == "noiseless" and driver:
            continue
        on_it = tuple(c for c, child in enumerate(fields) if _may_act(structure, driver, child))
        grown += [(colour, branches) for branches in _forests(n - weight((driver or 0,)), fields, structure, on_it)]
    return tuple(grown)


def forests(n: int, fields: Fields, structure: str = "general") -> tuple[Forest, ...]:
    """The products of trees of total order n/2; the clock alone is not one of the trees, since its time is exact."""
    return _forests(n, fields, structure, tuple(c for c, driver in enumerate(fields) if driver is not None))


@cache
def _forests(n: int, fields: Fields, structure: str, roots: tuple[int, ...]) -> tuple[Forest, ...]:
    pool = [(tree, k) for k in range(1, n + 1) for tree in trees(k, fields, structure) if tree[0] in roots]

    def extend(missing: int, start: int) -> Iterator[list[Tree]]:
        if missing == 0:
            yield []
        for index in range(start, len(pool)):
            tree, k = pool[index]
            if k > missing:
                break
            for rest in extend(missing - k, index):
                yield [tree, *rest]

    return tuple(tuple(sorted(forest)) for forest in extend(n, 0))


def _may_act(structure: str, driver: int | None, child: int | None) -> bool:
    """Whether the field of a driver may have a derivative along a tree whose root has the driver `child`."""
    if driver is None or (structure == "noiseless" and child):
        return False
    if driver and structure == "additive":
        return child is None
    if driver and structure == "diagonal":
        return child in (None, 0, driver)
    return True


def conditions(n: int, fields: Fields, structure: str, products: bool) -> list[dict[Forest, Fraction]]:
    """The combinations of forests (of single trees unless products) of order n/2 whose weights must be exact.

    Without relations between the elementary differentials each forest is a combination by itself. Commutative noise has
    relations: the brackets of the channels' fields vanish, with all their derivatives, wherever they stand in a tree.
    Eliminating differentials by them leaves one condition, on a sum, for each of the remaining forests.
    """
    if structure not in ("general", "commutative", "diagonal", "additive", "scalar", "noiseless"):
        raise ValueError(f"structure is {structure!r}; expected additive, scalar, diagonal, commutative or general")
    chosen = [forest for forest in forests(n, fields, structure) if products or len(forest) == 1]
    if structure != "commutative":
        return [{forest: Fraction(1)} for forest in chosen]
    rules = _eliminate(_brackets(n, fields, products))
    wanted = {forest: {forest: Fraction(1)} for forest in chosen if forest not in rules}
    for gone, row in rules.items():
        for forest, q in row.items():
            wanted[forest][gone] = q * Fraction(symmetry(forest), symmetry(gone))
    return list(wanted.values())


def _brackets(n: int, fields: Fields, products: bool) -> Iterator[dict[Forest, Fraction]]:
    """The forests of order n/2 with one field replaced by a bracket [g_j, g_k] = g_k' g_j - g_j' g_k, written out."""
    channels = sorted({driver for driver in fields if driver})
    for j, k in combinations(channels, 2):
        bracket = len(fields)
        parts = list(product(*([c for c, driver in enumerate(fields) if driver == wanted] for wanted in (j, k))))

        def write_out(tree: Tree) -> Iterator[tuple[Tree, int]]:
            colour, branches = tree
            if colour != bracket:
                for index, branch in enumerate(branches):
                    for other, sign in write_out(branch):
                        yield (colour, tuple(sorted((*branches[:index], other, *branches[index + 1 :])))), sign
                return
            for inner in product((False, True), repeat=len(branches)):
                below = tuple(branch for branch, lies_inside in zip(branches, inner, strict=True) if lies_inside)
                above = tuple(branch for branch, lies_inside in zip(branches, inner, strict=True) if not lies_inside)
                for a, b in parts:
                    yield (b, tuple(sorted((*above, (a, below))))), 1
                    yield (a, tuple(sorted((*above, (b, below))))), -1

        for forest in forests(n, (*fields, 0)):
            if sum(_count(tree, bracket) for tree in forest) != 1 or not (products or len(forest) == 1):
                continue
            total: dict[Forest, Fraction] = defaultdict(Fraction)
            for index, tree in enumerate(forest):
                for other, sign in write_out(tree):
                    total[tuple(sorted((*forest[:index], other, *forest[index + 1 :])))] += sign
            yield total


def _eliminate(rows: Iterable[dict[Forest, Fraction]]) -> dict[Forest, dict[Forest, Fraction]]:
    """Gauss-Jordan: rules F(forest) = Σ q F(other) from rows Σ q F(forest) = 0; no other is itself eliminated."""
    rules: dict[Forest, dict[Forest, Fraction]] = {}

    def substitute(row: dict[Forest, Fraction], by: Mapping[Forest, dict[Forest, Fraction]]) -> dict[Forest, Fraction]:
        total: dict[Forest, Fraction] = defaultdict(Fraction)
        for forest, q in row.items():
            for other, factor in by.get(forest, {forest: Fraction(1)}).items():
                total[other] += q * factor
        return {forest: q for forest, q in total.items() if q}

    for row in rows:
        left = substitute(row, rules)
        if left:
            gone = max(left)
            rule = {forest: -q / left[gone] for forest, q in left.items() if forest != gone}
            rules = {old: substitute(right, {gone: rule}) for old, right in rules.items()} | {gone: rule}
    return rules


def symmetry(forest: Forest) -> int:
    """σ, the number of ways in which the forest may be mapped onto itself."""
    return math.prod(math.factorial(k) * symmetry(tree[1]) ** k for tree, k in Counter(forest).items())


def show(forest: Forest, fields: Fields) -> str:
    """A product of elementary differentials in words: f'(g1) g1, t for the clock."""

    def one(tree: Tree) -> str:
        colour, branches = tree
        driver = fields[colour]
        name = "t" if driver is None else f"g{driver}" if driver else "f"
        name += f"[{colour}]" if fields.count(driver) > 1 else ""
        return name + (f"{chr(39) * len(branches)}({', '.join(map(one, branches))})" if branches else "")

    return " · ".join(map(one, forest))


def _count(tree: Tree, colour: int) -> int:
    return (tree[0] == colour) + sum(_count(branch, colour) for branch in tree[1])


def _by_colour(row: Row) -> Mapping[int, list[tuple[Stage, Coefficient]]]:
    grouped: dict[int, list[tuple[Stage, Coefficient]]] = defaultdict(list)
    for (colour, stage), coefficient in row.items():
        grouped[colour].append((stage, coefficient))
    return grouped
