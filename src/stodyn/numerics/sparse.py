"""Sparse systems a x = b in an order fixed before the run: O(n) work a path where the pattern of a is that of a net."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap

from stodyn.numerics.dependence import dependence

REVERSE_COST = 2  # of a derivative backwards, in derivatives forwards
SMALL_PIVOT = 0.1  # a pivot below this share of its column waits until there is no other
PATIENCE = 4  # pivots that cost up to this many times the cheapest are taken in the same round
DENSE = 12  # more than n³/12 products, a quarter of a dense elimination's, are too many
ZERO, ONE, MINUS_ONE, LED = 0, 1, 2, 3  # the constants in front of the numbers of a program
SLOTS = 32  # instructions that are executed together
WIDEST = 8  # sums of up to this many products are written out


@dataclasses.dataclass(frozen=True, eq=False)
class Pattern:
    """The places of a matrix (m, n) that may differ from zero; `values` below are the entries at these places.

    rows, columns  (nnz,) sorted by rows, then columns
    reversible     whether what has this Jacobian can be differentiated in reverse mode
    """

    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]
    reversible: bool = False

    @classmethod
    def of(cls, holds: np.ndarray, reversible: bool = False) -> Pattern:
        """The places where `holds` (m, n) is not zero."""
        rows, columns = np.nonzero(holds)
        return cls(rows, columns, holds.shape, reversible)

    def holds(self) -> np.ndarray:
        """(m, n) True at these places."""
        found = np.zeros(self.shape, bool)
        found[self.rows, self.columns] = True
        return found

    @functools.cached_property
    def long(self) -> np.ndarray:
        """Rows so long that it is cheaper to differentiate each of them backwards: those of a supply rail."""
        lengths = np.bincount(self.rows, minlength=self.shape[0])
        order = np.argsort(-lengths, kind="stable")
        cost = np.append(lengths[order], 0) + REVERSE_COST * np.arange(len(order) + 1)
        return np.sort(order[: int(np.argmin(cost))]) if self.reversible else order[:0]

    @functools.cached_property
    def colours(self) -> np.ndarray:
        """(n,) a number for each column, such that columns of one number share no row but long ones."""
        of_row: list[list[int]] = [[] for _ in range(self.shape[0])]
        of_column: list[list[int]] = [[] for _ in range(self.shape[1])]
        short = ~np.isin(self.rows, self.long)
        for row, column in zip(self.rows[short].tolist(), self.columns[short].tolist(), strict=True):
            of_row[row].append(column)
            of_column[column].append(row)
        found = np.full(self.shape[1], -1)
        for column in np.argsort([-len(rows) for rows in of_column], kind="stable"):
            taken = {int(found[other]) for row in of_column[column] for other in of_row[row]}
            found[column] = next(c for c in range(self.shape[1] + 1) if c not in taken)
        return found

    def jacobian(self, function: Callable[[Array], Array], x: Array) -> Array:
        """The values of ∂function/∂x at x: one derivative for each colour, and one backwards for each long row."""
        colours, long = self.colours, self.long
        count = int(colours.max(initial=0)) + 1
        y, slope = jax.linearize(function, x)
        found = jax.vmap(slope)(jnp.asarray(colours == np.arange(count)[:, None], x.dtype)).ravel()
        place = colours[self.columns] * self.shape[0] + self.rows
        if len(long):
            back = jax.linear_transpose(slope, x)
            rows = jax.vmap(lambda unit: back(unit)[0])(jnp.eye(self.shape[0], dtype=y.dtype)[long])
            found = jnp.concatenate([found, rows.ravel()])
            backwards = count * self.shape[0] + np.searchsorted(long, self.rows) * self.shape[1] + self.columns
            place = np.where(np.isin(self.rows, long), backwards, place)
        return found[place]

    def dense(self, values: Array) -> Array:
        """The matrix itself."""
        return jnp.zeros(self.shape, values.dtype).at[self.rows, self.columns].set(values, unique_indices=True)

    def times(self, values: Array, x: Array) -> Array:
        """a x (m,)."""
        return self._times(values, x)

    @functools.cached_property
    def _times(self) -> Callable[[Array, Array], Array]:
        products = [
            (r, LED + k, c) for k, (r, c) in enumerate(zip(self.rows.tolist(), self.columns.tolist(), strict=True))
        ]
        sums = Sums(products, self.shape[0])

        def batched(values: Array, x: Array) -> Array:
            return sums(_led(values), x)

        def plain(values: Array, x: Array) -> Array:
            return batched(values[:, None], x[:, None])[:, 0]

        quickly = paths_last(batched)

        @jax.custom_jvp
        def times(values: Array, x: Array) -> Array:
            return quickly(values, x)

        @times.defjvp
        def derivative(given, changes):
            (values, x), (dvalues, dx) = given, changes
            return times(values, x), plain(dvalues, x) + plain(values, dx)

        return times


def find_pattern(function: Callable, *arguments: Any) -> Pattern:
    """Where ∂function/∂(first argument) may differ from zero: a proof from the trace.

    Raises printing.scalars.Unprintable where the trace cannot be taken apart.
    """
    (entries,) = dependence(function, *arguments)
    places = [(i, sorted(j for a, j in entry if a == 0)) for i, entry in enumerate(entries.ravel())
              if isinstance(entry, frozenset)]  # fmt: skip
    rows = np.repeat([i for i, _ in places], [len(those) for _, those in places]).astype(int)
    columns = np.array([j for _, those in places for j in those], int)
    return Pattern(rows, columns, (entries.size, np.size(arguments[0])))


class Pivot(NamedTuple):
    """A pivot, the columns in which U has entries beside it and the rows in which L has entries below it."""

    row: int
    column: int
    beside: tuple[int, ...]
    below: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Elimination:
    """Gaussian elimination of matrices of one pattern in one order, without exchanges; `ordered` finds the order."""

    pattern: Pattern
    pivots: tuple[Pivot, ...]

    def factorised(self, values: Array) -> Callable[[Array], Array]:
        """b -> x with a x = b, a eliminated once for any number of right-hand sides.

        Where a pivot is too small for the a of a path (a x = a·1 does not give ones back to √ε), x comes from dense
        elimination with partial pivoting, one such path after another. Derivatives are those of the dense system.
        """
        factors, sound = self._factors(lax.stop_gradient(values))
        return lambda b: self._solution(values, factors, sound, b)

    def determinant(self, values: Array) -> tuple[Array, Array]:
        """The sign of det a and log |det a|, found in the same two ways; 0 or NaN and -∞ or NaN where a is singular."""
        sign, size = self._determinant(lax.stop_gradient(values))
        return sign, size

    @functools.cached_property
    def _plan(self) -> _Plan:
        return _Plan(self.pattern, self.pivots)

    def _factored(self, values: Array) -> tuple[Array, Array]:
        """The factors of matrices (nnz, paths), and whether they serve (1, paths)."""
        plan = self._plan
        factors = plan.decompose(values)
        ones = plan.substitute(factors, plan.row_sums(_led(values), jnp.ones((1, 1), values.dtype)))
        tolerance = math.sqrt(float(jnp.finfo(values.dtype).eps))
        return factors, jnp.max(jnp.abs(ones - 1.0), axis=0, keepdims=True) <= tolerance

    @functools.cached_property
    def _factors(self) -> Callable[[Array], tuple[Array, Array]]:
        return paths_last(self._factored)

    @functools.cached_property
    def _solution(self) -> Callable[[Array, Array, Array, Array], Array]:
        def batched(values: Array, factors: Array, sound: Array, b: Array) -> Array:
            return self._mended(values, sound, b, self._plan.substitute(factors, b), lambda x, *_: x)

        quickly = paths_last(batched)

        @jax.custom_jvp
        def solution(values, factors, sound, b):
            return quickly(values, factors, sound, b)

        @solution.defjvp
        def derivative(given, changes):
            values, x = given[0], solution(*given)
            dense = self.pattern.dense
            return x, jnp.linalg.solve(dense(values), changes[-1] - dense(changes[0]) @ x)

        return solution

    @functools.cached_property
    def _determinant(self) -> Callable[[Array], Array]:
        swaps = _parity([p.row for p in self.pivots]) * _parity([p.column for p in self.pivots])

        def batched(values: Array) -> Array:
            factors, sound = self._factored(values)
            pivots = factors[self._plan.diagonal]
            quick = jnp.stack([swaps * jnp.prod(jnp.sign(pivots), axis=0), jnp.sum(jnp.log(jnp.abs(pivots)), axis=0)])
            nothing = jnp.zeros((self.pattern.shape[0], 1), values.dtype)
            return self._mended(values, sound, nothing, quick, lambda _, sign, size: jnp.stack([sign, size])[:, None])

        return paths_last(batched)

    def _mended(self, values: Array, sound: Array, b: Array, quick: Array, wanted: Callable) -> Array:
        """`quick` (entries, paths), where it is not sound replaced by what dense elimination gives."""

        def dense(values, b):
            return wanted(*eliminated(self.pattern.dense(values), b))

        if values.shape[1] == 1:
            return lax.cond(sound[0, 0], lambda: quick, lambda: dense(values[:, 0], b))
        b = jnp.broadcast_to(b, (len(b), values.shape[1]))

        def one(state):
            found, left = state
            k = jnp.argmax(left)
            return found.at[:, k].set(dense(values[:, k], b[:, k][:, None])[:, 0]), left.at[k].set(False)

        left = ~sound[0] & jnp.all(jnp.isfinite(values), axis=0)  # a path that failed before needs no care
        return lax.while_loop(lambda state: jnp.any(state[1]), one, (quick, left))[0]


class _Plan:
    """The arithmetic of an elimination, written as two programs of the instruction z = (base - Σ left right)/divisor.

    Factors are the constants 0, 1, -1, the entries of a, and the results: an entry of L, U or their diagonal is that
    of a less Σ L U over the pivots before it, L divided by its pivot. Forwards and backwards substitution is the same.
    """

    def __init__(self, pattern: Pattern, pivots: Sequence[Pivot]):
        n, places = pattern.shape[0], zip(pattern.rows.tolist(), pattern.columns.tolist(), strict=True)
        given = {place: LED + k for k, place in enumerate(places)}
        entries = n + sum(len(p.beside + p.below) for p in pivots)
        factoring = _Writer(LED + len(given), sum(len(p.beside) * len(p.below) for p in pivots) / entries)
        upper: list[dict[int, int]] = []  # of a pivot: column -> where U is
        lower: list[dict[int, int]] = [{} for _ in range(n)]  # of a row: pivot -> where L is
        self.diagonal = np.empty(n, np.int32)

        def entry(row: int, column: int, divisor: int) -> int:
            products = [(at, upper[p][column]) for p, at in lower[row].items() if column in upper[p]]
            return factoring.write(given.get((row, column), ZERO), products, divisor)

        for k, pivot in enumerate(pivots):
            self.diagonal[k] = entry(pivot.row, pivot.column, ONE)
            upper.append({})
            upper[k] = {column: entry(pivot.row, column, ONE) for column in pivot.beside}
            for row in pivot.below:
                lower[row][k] = entry(row, pivot.column, int(self.diagonal[k]))
        solving = _Writer(LED + n, entries / (2 * n), fixed=True)
        y: list[int] = []
        for pivot in pivots:
            y.append(solving.write(LED + pivot.row, [(at, y[p]) for p, at in lower[pivot.row].items()], ONE))
        x: dict[int, int] = {}
        for k in reversed(range(n)):
            products = [(at, x[column]) for column, at in upper[k].items()]
            x[pivots[k].column] = solving.write(y[k], products, int(self.diagonal[k]))
        self.unknowns = np.array([x[column] for column in range(n)], np.int32)
        self.factoring, self.solving = factoring.tables(), solving.tables()
        self.row_sums = Sums([(r, at, 0) for (r, _), at in given.items()], n)

    def decompose(self, values: Array) -> Array:
        """The factors of a."""
        return _execute(self.factoring, _led(values))

    def substitute(self, factors: Array, b: Array) -> Array:
        """x from L U x = b."""
        paths = max(factors.shape[1], b.shape[1])
        return _execute(self.solving, _led(jnp.broadcast_to(b, (len(b), paths))), factors)[self.unknowns]


class _Writer:
    """Packs instructions into groups of SLOTS that read only results of groups before them.

    first  where results begin
    mean   how many products a sum has: an instruction has about as many, longer sums are made of several
    fixed  whether `left` and `divisor` are taken from another array, which is there before
    """

    def __init__(self, first: int, mean: float, fixed: bool = False):
        self.first, self.fixed = first, fixed
        self.width = min(1 << max(round(math.log2(mean + 1.0)), 1), WIDEST)  # two at the least, to add results up
        self.groups: list[list[tuple[int, list[tuple[int, int]], int]]] = []

    def write(self, base: int, products: list[tuple[int, int]], divisor: int) -> int:
        """Where the result will be."""
        if not products and divisor == ONE:
            return base
        while len(products) > self.width:
            parts = [products[k : k + self.width] for k in range(0, len(products), self.width)]
            products = [(MINUS_ONE, self.write(ZERO, part, ONE)) for part in parts]
        read = [base, *(right for _, right in products)]
        if not self.fixed:
            read += [divisor, *(left for left, _ in products)]
        group = max((at - self.first) // SLOTS + 1 if at >= self.first else 0 for at in read)
        while group < len(self.groups) and len(self.groups[group]) == SLOTS:
            group += 1
        if group == len(self.groups):
            self.groups.append([])
        self.groups[group].append((base, products, divisor))
        return self.first + group * SLOTS + len(self.groups[group]) - 1

    def tables(self) -> Tables:
        count = len(self.groups)
        base, divisor = np.full((count, SLOTS), ZERO, np.int32), np.full((count, SLOTS), ONE, np.int32)
        left, right = np.full((2, count, self.width, SLOTS), ZERO, np.int32)
        for g, group in enumerate(self.groups):
            for s, (of, products, by) in enumerate(group):
                base[g, s], divisor[g, s] = of, by
                for q, (a, b) in enumerate(products):
                    left[g, q, s], right[g, q, s] = a, b
        return Tables(base, left, right, divisor)


class Tables(NamedTuple):
    """Instructions: base and divisor (groups, SLOTS), left and right (groups, width, SLOTS)."""

    base: np.ndarray
    left: np.ndarray
    right: np.ndarray
    divisor: np.ndarray


def _execute(tables: Tables, state: Array, fixed: Array | None = None) -> Array:
    """The state (entries, paths) with the results of a program below it."""
    count, first = len(tables.base), len(state)
    state = jnp.concatenate([state, jnp.zeros((count * SLOTS, state.shape[1]), state.dtype)])

    def group(k, state):
        base, left, right, divisor = lax.optimization_barrier(tuple(jnp.asarray(table)[k] for table in tables))
        other = state if fixed is None else fixed
        z = _rows(state, base)
        for q in range(len(left)):
            z = z - _rows(other, left[q]) * _rows(state, right[q])
        z = lax.optimization_barrier(z / _rows(other, divisor))  # else the state would be copied for every group
        return lax.dynamic_update_slice(state, z, (first + k * SLOTS, 0))

    return lax.fori_loop(0, count, group, state)


def _rows(a: Array, at: Any) -> Array:
    """The rows of a (entries, paths) at given places, which are there."""
    return a.at[at].get(mode="promise_in_bounds")


def _led(values: Array) -> Array:
    """Values (entries, paths) after the constants 0, 1, -1."""
    constants = np.array([[0.0], [1.0], [-1.0]])
    return jnp.concatenate([jnp.broadcast_to(jnp.asarray(constants, values.dtype), (LED, values.shape[1])), values])


class Sums:
    """s_i = Σ a[left] b[right] over the products (i, left, right), for arrays (entries, paths); a[0] must be 0.

    Sums of about as many products are made together, filled up with zeros.
    """

    def __init__(self, products: Sequence[tuple[int, int, int]], size: int):
        members: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        for i, left, right in products:
            members[i].append((left, right))
        classes: dict[int, list[int]] = {}
        for i, mine in enumerate(members):
            classes.setdefault(1 << (max(len(mine), 1) - 1).bit_length(), []).append(i)
        self.tables = []
        for width, those in sorted(classes.items()):
            table = np.zeros((2, width, len(those)), np.int32)
            for k, i in enumerate(those):
                for q, pair in enumerate(members[i]):
                    table[:, q, k] = pair
            self.tables.append(table)
        order = [i for _, those in sorted(classes.items()) for i in those]
        self.place = None if order == sorted(order) else np.argsort(order).astype(np.int32)

    def __call__(self, a: Array, b: Array) -> Array:
        parts = [
            functools.reduce(jnp.add, (_rows(a, i) * _rows(b, j) for i, j in zip(left, right, strict=True)))
            if len(left) <= WIDEST
            else (_rows(a, left) * _rows(b, right)).sum(axis=0)
            for left, right in self.tables
        ]
        whole = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        return whole if self.place is None else _rows(whole, self.place)


def paths_last(function: Callable) -> Callable:
    """A function of arrays (entries, paths) as one of the vectors (entries,) of a path, which vmap turns back.

    vmap by itself would gather along the last axis, number by number; so it gathers rows, all paths at once.
    """

    @custom_vmap
    def of_one(*vectors):
        return jax.tree.map(lambda x: x[:, 0], function(*(v[:, None] for v in vectors)))

    @of_one.def_vmap
    def of_many(paths, batched, *vectors):
        found = function(*(v.T if b else v[:, None] for v, b in zip(vectors, batched, strict=True)))
        found = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(x), paths)).T, found)
        return found, jax.tree.map(lambda _: True, found)

    return of_one


def eliminated(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """x with a x = b, a (n, n) and b (n, k), the sign of det a and log |det a|, by dense elimination with partial
    pivoting.

    Not by the library's LU: of programs that call the library one thread less can run.
    """
    n = len(a)
    number = jnp.arange(n)

    def eliminate(k, state):
        rows, sign, size = state
        pivot = jnp.argmax(jnp.where(number >= k, jnp.abs(rows[:, k]), -1.0))
        upper, lower = rows[pivot], rows[k]
        rows = rows.at[pivot].set(lower).at[k].set(upper)
        factor = jnp.where(number > k, rows[:, k] / upper[k], 0.0)
        sign = sign * jnp.where(pivot == k, 1.0, -1.0) * jnp.sign(upper[k])
        return rows - factor[:, None] * upper, sign, size + jnp.log(jnp.abs(upper[k]))

    def substitute(i, x):
        k = n - 1 - i
        return x.at[k].set((rows[k, n:] - rows[k, :n] @ x) / rows[k, k])

    begin = jnp.concatenate([a, b], axis=1), jnp.ones((), a.dtype), jnp.zeros((), a.dtype)
    rows, sign, size = lax.fori_loop(0, n, eliminate, begin)
    return lax.fori_loop(0, n, substitute, jnp.zeros_like(b)), sign, size


def ordered(pattern: Pattern, samples: np.ndarray) -> Elimination | None:
    """An order for matrices of a pattern, from the values (K, nnz) of a few of them.

    None where that finds no pivots, or where dense elimination would cost about as little.

    In every round the pivots are those that touch the fewest entries (H. Markowitz, Management Sci. 3 (1957)) among
    those that are not small in their columns in any of the samples, as many as do not stand in each other's way: a
    ladder of n nodes takes log₂ n rounds, and its factors about 5n numbers.
    """
    n, scaled = pattern.shape[0], samples.T
    for lines in (pattern.rows, pattern.columns):
        largest = np.zeros((n, len(samples)))
        np.maximum.at(largest, lines, np.abs(scaled))
        scaled = scaled / _or_one(largest)[lines]
    rows: list[dict[int, np.ndarray]] = [{} for _ in range(n)]
    columns: list[set[int]] = [set() for _ in range(n)]
    for i, j, value in zip(pattern.rows.tolist(), pattern.columns.tolist(), scaled, strict=True):
        rows[i][j] = value
        columns[j].add(i)
    order: list[Pivot] = []
    open_columns, work = set(range(n)), 0
    while open_columns:
        pivots = _choose(rows, columns, open_columns)
        if not pivots or work > n**3 / DENSE:
            return None
        for i, j in pivots:
            beside, below = tuple(c for c in rows[i] if c != j), tuple(r for r in columns[j] if r != i)
            order.append(Pivot(i, j, beside, below))
            work += len(beside) * len(below)
            _remove(rows, columns, i, j)
        open_columns -= {j for _, j in pivots}
    return Elimination(pattern, tuple(order))


def _choose(
    rows: list[dict[int, np.ndarray]], columns: list[set[int]], open_columns: set[int]
) -> list[tuple[int, int]]:
    """The pivots of a round."""
    found = []
    for j in open_columns:
        those = list(columns[j])
        sizes = np.abs([rows[i][j] for i in those])
        shares = np.min(sizes / _or_one(sizes.max(axis=0)), axis=1)
        good = [(len(columns[j]) - 1) * (len(rows[i]) - 1) for i in those]
        best = min(range(len(those)), key=lambda k: (shares[k] < SMALL_PIVOT, good[k], -shares[k]))
        found.append((good[best], -float(shares[best]), those[best], j))
    sound = sorted(one for one in found if -one[1] >= SMALL_PIVOT)
    if not sound:
        _, share, i, j = min(found, key=lambda one: one[1])
        return [(i, j)] if share < 0.0 else []
    most = PATIENCE * (1 + sound[0][0])
    chosen: list[tuple[int, int]] = []
    touched_rows: set[int] = set()
    touched_columns: set[int] = set()
    for cost, _, i, j in sound:
        if cost <= most and i not in touched_rows and j not in touched_columns:
            chosen.append((i, j))
            touched_rows |= columns[j]
            touched_columns |= rows[i].keys()
    return chosen


def _remove(rows: list[dict[int, np.ndarray]], columns: list[set[int]], i: int, j: int) -> None:
    """Eliminate with the pivot (i, j), in the samples and in the pattern."""
    upper = rows[i]
    pivot = upper.pop(j)
    columns[j].discard(i)
    for c in upper:
        columns[c].discard(i)
    for r in columns[j]:
        factor = rows[r].pop(j) / _or_one(pivot)
        for c, value in upper.items():
            rows[r][c] = rows[r].get(c, 0.0) - factor * value
            columns[c].add(r)


def _or_one(size: np.ndarray) -> np.ndarray:
    return np.where(size != 0.0, size, 1.0)


def _parity(permutation: Sequence[int]) -> int:
    """The sign of a permutation."""
    seen, sign = np.zeros(len(permutation), bool), 1
    for k in range(len(permutation)):
        while not seen[k]:
            seen[k] = True
            k, sign = int(permutation[k]), -sign if not seen[permutation[k]] else sign
    return sign
