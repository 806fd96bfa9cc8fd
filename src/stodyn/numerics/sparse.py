"""Sparse systems a x = b in an order fixed before the run: O(n) work per path if the pattern of a is that of a net."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array, lax
from jax.custom_batching import custom_vmap

from stodyn.numerics import direct
from stodyn.numerics.elimination import WRITTEN_OUT
from stodyn.numerics.facts.dependence import dependence, dependence_by_arrays
from stodyn.numerics.instructions import LED, ONE, WIDEST, ZERO, Instructions, execute, led, rows_of
from stodyn.numerics.printing.unprintable import or_else
from stodyn.numerics.rarely import rarely
from stodyn.numerics.uncompiled import Uncompiled

REVERSE_COST = 2  # of a derivative backwards, in derivatives forwards
SMALL_PIVOT = 0.1  # a pivot below this share of its column waits until there is no other
PATIENCE = 4  # pivots that cost up to this many times the cheapest are taken in the same round
MOST_FULL = 0.5  # of the places of a matrix: a fuller one is dense
DENSE = 12  # more than n³/12 products, a quarter of a dense elimination's, are too many
ON_DIAGONAL = 200  # unknowns from which the diagonal is tried first, by compiled code
AT_ONCE = 1_000_000  # places of a matrix at which its entries are looked up together
TRUSTED = 1e-9  # error of a solution of ones up to which pivots on the diagonal are good enough
PIVOTED = 1000  # unknowns up to which a printed program eliminates a whole matrix where the order fails


@dataclasses.dataclass(frozen=True, eq=False)
class Pattern:
    """The places of a matrix (m, n) that may differ from zero; `values` below are the entries at these places.

    rows, columns  (nnz,) sorted by rows, then columns
    reversible     whether the function with this Jacobian can be differentiated in reverse mode
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

    @classmethod
    def of_csr(cls, matrix: scipy.sparse.csr_array) -> Pattern:
        """The places that a sparse matrix stores."""
        matrix = scipy.sparse.csr_array(matrix)
        matrix.sum_duplicates()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return cls(rows, matrix.indices.astype(np.int64), matrix.shape)

    def csr(self, values: Any = True) -> scipy.sparse.csr_array:
        """A sparse matrix with values at these places."""
        values = np.broadcast_to(values, self.rows.shape)
        return scipy.sparse.csr_array((values, (self.rows, self.columns)), self.shape)

    def values_of(self, matrix: Any) -> np.ndarray:
        """The values (nnz,) of a sparse matrix at these places, which hold all of its entries."""
        entries = scipy.sparse.csr_array(matrix).tocoo()
        entries.sum_duplicates()
        places, values = self.rows * self.shape[1] + self.columns, np.zeros(len(self.rows))
        values[np.searchsorted(places, entries.row.astype(np.int64) * self.shape[1] + entries.col)] = entries.data
        return values

    @functools.cached_property
    def long(self) -> np.ndarray:
        """Rows so long that differentiating each of them backwards is cheaper: those of a supply rail."""
        lengths = np.bincount(self.rows, minlength=self.shape[0])
        order = np.argsort(-lengths, kind="stable")
        cost = np.append(lengths[order], 0) + REVERSE_COST * np.arange(len(order) + 1)
        return np.sort(order[: int(np.argmin(cost))]) if self.reversible else order[:0]

    @functools.cached_property
    def colours(self) -> np.ndarray:
        """(n,) a number for each column, such that columns with the same number share only long rows."""
        of_column: list[list[int]] = [[] for _ in range(self.shape[1])]
        short = ~np.isin(self.rows, self.long)
        for row, column in zip(self.rows[short].tolist(), self.columns[short].tolist(), strict=True):
            of_column[column].append(row)
        colours = [-1] * self.shape[1]
        used = [0] * self.shape[0]  # the colours in each row, as the bits of a number
        for column in np.argsort([-len(rows) for rows in of_column], kind="stable").tolist():
            beside = functools.reduce(operator.or_, (used[row] for row in of_column[column]), 0)
            first = ~beside & (beside + 1)
            colours[column] = first.bit_length() - 1
            for row in of_column[column]:
                used[row] |= first
        return np.array(colours, int)

    def jacobian(self, function: Callable[[Array], Array], x: Array) -> Array:
        """The values of ∂function/∂x at x: one derivative for each colour, and one backwards for each long row."""
        colours, long = self.colours, self.long
        count = int(colours.max(initial=0)) + 1
        y, slope = jax.linearize(function, x)
        entries = jax.vmap(slope)(jnp.asarray(colours == np.arange(count)[:, None], x.dtype)).ravel()
        place = colours[self.columns] * self.shape[0] + self.rows
        if len(long):
            back = jax.linear_transpose(slope, x)
            rows = jax.vmap(lambda unit: back(unit)[0])(jnp.eye(self.shape[0], dtype=y.dtype)[long])
            entries = jnp.concatenate([entries, rows.ravel()])
            backwards = count * self.shape[0] + np.searchsorted(long, self.rows) * self.shape[1] + self.columns
            place = np.where(np.isin(self.rows, long), backwards, place)
        return entries[place]

    def dense(self, values: Array) -> Array:
        """The dense matrix with these values at its places."""
        return jnp.zeros(self.shape, values.dtype).at[self.rows, self.columns].set(values, unique_indices=True)

    def times(self, values: Array, x: Array) -> Array:
        """The product a x, (m,)."""
        return self._times(values, x)

    def sums(self, values: Array, x: Array) -> Array:
        """a x (m,), as sums whose terms a trace shows."""
        return self._row_sums(led(values[:, None]), x[:, None])[:, 0]

    def transposed_sums(self, values: Array, y: Array) -> Array:
        """aᵀ y (n,), as sums whose terms a trace shows."""
        return self._column_sums(led(values[:, None]), y[:, None])[:, 0]

    @functools.cached_property
    def _row_sums(self) -> Sums:
        return Sums(self.rows, LED + np.arange(len(self.rows)), self.columns, self.shape[0])

    @functools.cached_property
    def _column_sums(self) -> Sums:
        return Sums(self.columns, LED + np.arange(len(self.rows)), self.rows, self.shape[1])

    @functools.cached_property
    def products(self) -> Instructions:
        """-a x from x, the values of a being those behind the constants of another program."""
        m, n = self.shape
        ends = np.searchsorted(self.rows, np.arange(m + 1))
        nothing, places = np.zeros(m, np.int64), LED + np.arange(len(self.rows))
        return Instructions(n, nothing + ZERO, nothing + ONE, ends, places, LED + self.columns, LED + len(places))

    @functools.cached_property
    def _times(self) -> Callable[[Array, Array], Array]:
        @jax.custom_jvp
        def times(values: Array, x: Array) -> Array:
            return -execute(self.products, x, loaded(values))[LED + self.shape[1] :]

        @times.defjvp
        def derivative(primals, changes):
            (values, x), (dvalues, dx) = primals, changes
            return times(values, x), self.sums(dvalues, x) + self.sums(values, dx)

        return times


def loaded(values: Array) -> Array:
    """Values as the numbers of a program without instructions."""
    none = np.zeros(0, np.int64)
    return execute(Instructions(values.size, none, none, np.zeros(1, np.int64), none, none), values)


def find_pattern(function: Callable, *arguments: Any) -> Pattern:
    """Where ∂function/∂(first argument) may differ from zero: a proof from the trace.

    Raises printing.unprintable.Unprintable where the trace cannot be taken apart.
    """
    return Pattern.of_csr(dependence(function, *arguments).on(0))


@dataclasses.dataclass(frozen=True, eq=False)
class Elimination:
    """Gaussian elimination of matrices of one pattern in one order, without exchanges; `find_order` gives the order.

    rows, columns  (n,) of the pivots, in their order
    beside, below  of each pivot the others in whose columns U has entries beside it, and in whose rows L has entries
                   below it
    is_mended      whether paths whose pivots are too small are eliminated again, with exchanges; else they get NaN
    """

    pattern: Pattern
    rows: np.ndarray
    columns: np.ndarray
    beside: Pattern
    below: Pattern
    is_mended: bool = True

    def jacobian(self, residual: Callable[[Array], Array], x: Array) -> Array:
        """The values of the Jacobian of a residual at x, which has the pattern."""
        return self.pattern.jacobian(residual, x)

    def solve_at(self, residual: Callable[[Array], Array], x: Array, r: Array) -> Array:
        """J⁻¹ r with the Jacobian J of a residual at x, as `newton` takes it."""
        return self.factorised(self.jacobian(residual, x))(r)

    def solve_twice_at(self, residual: Callable[[Array], Array], x: Array, r: Array) -> tuple[Array, Callable]:
        """J⁻¹ r likewise, and what gives it for a further r."""
        divide = self.factorised(self.jacobian(residual, x))
        return divide(r), divide

    def factorised(self, values: Array) -> Callable[[Array], Array]:
        """b -> x with a x = b, a eliminated once for any number of right-hand sides.

        Where a pivot is too small for the a of a path (a x = a·1 does not give ones back to √ε), x comes from dense
        elimination with partial pivoting, one such path after another. Derivatives are those of the dense system.
        """
        factors, sound = self._factors(lax.stop_gradient(values))
        return lambda b: self._solution(values, factors, sound, b)

    def factorised_once(self, values: np.ndarray) -> Callable[[Array], Array] | None:
        """b -> x with a x = b for one matrix of numbers; None where a pivot is too small for it.

        Nothing but substitution is left to a step, and x is proved to be linear in b (numerics.facts.degree).
        """
        factors, sound = Uncompiled(self._factors)(np.asarray(values, float))
        if not sound:
            return None

        @jax.custom_jvp
        def solution(b):
            return self._plan.substituted(jnp.asarray(factors, b.dtype), b)

        solution.defjvp(lambda b, change: (solution(*b), solution(*change)))
        return solution

    def determinant(self, values: Array) -> tuple[Array, Array]:
        """The sign of det a and log |det a|, found in the same two ways; 0 or NaN and -∞ or NaN where a is singular."""
        sign, size = self._determinant(lax.stop_gradient(values))
        return sign, size

    @functools.cached_property
    def _plan(self) -> _Plan:
        return _Plan(self)

    def _factors(self, values: Array) -> tuple[Array, Array]:
        """The factors of a matrix, and whether they are sound."""
        factors = execute(self._plan.factoring, values)
        n = self.pattern.shape[0]
        row_sums = -execute(self.pattern.products, jnp.ones(n, values.dtype), factors)[LED + n :]
        tolerance = math.sqrt(float(jnp.finfo(values.dtype).eps))
        return factors, jnp.max(jnp.abs(self._plan.substituted(factors, row_sums) - 1.0)) <= tolerance

    @functools.cached_property
    def _solution(self) -> Callable[[Array, Array, Array, Array], Array]:
        mended = self._mended(lambda x, *_: x)

        @jax.custom_jvp
        def solution(values, factors, sound, b):
            return mended(values, sound, b, self._plan.substituted(factors, b))

        @solution.defjvp
        def derivative(primals, changes):
            values, x = primals[0], solution(*primals)
            dense = self.pattern.dense
            return x, jnp.linalg.solve(dense(values), changes[-1] - dense(changes[0]) @ x)

        return solution

    @functools.cached_property
    def _determinant(self) -> Callable[[Array], Array]:
        swaps = _parity(self.rows) * _parity(self.columns)
        mended = self._mended(lambda _, sign, size: jnp.stack([sign, size])[:, None])

        def determinant(values: Array) -> Array:
            factors, sound = self._factors(values)
            pivots = factors[self._plan.diagonal]
            quick = jnp.stack([swaps * jnp.prod(jnp.sign(pivots)), jnp.sum(jnp.log(jnp.abs(pivots)))])
            return mended(values, sound, jnp.zeros(self.pattern.shape[0], values.dtype), quick)

        return determinant

    def _mended(self, wanted: Callable) -> Callable[[Array, Array, Array, Array], Array]:
        """`quick`, replaced by the result of dense elimination where it is not sound.

        Under vmap such paths are eliminated one after another, and full matrices are left to LAPACK. Printed programs
        keep memory for it up to PIVOTED unknowns, and give NaN beyond.
        """
        if not self.is_mended:
            return lambda values, sound, b, quick: jnp.where(sound, quick, jnp.nan)

        def dense(values, b):
            return wanted(*eliminated(self.pattern.dense(values), b))

        def by_lapack(values, b):
            a = self.pattern.dense(values)
            return wanted(jnp.linalg.solve(a, b[:, None]), *jnp.linalg.slogdet(a))[:, 0]

        @custom_vmap
        def mended(values, sound, b, quick):
            left = ~sound & jnp.all(jnp.isfinite(values))  # a path that failed before needs no repair
            if self.pattern.shape[0] > PIVOTED:
                return jnp.where(left, jnp.nan, quick)
            return rarely(left, lambda _: dense(values, b[:, None])[:, 0], quick)

        @mended.def_vmap
        def of_many(paths, batched, *operands):
            values, sound, b, quick = (x if is_batched else jnp.broadcast_to(x, (paths, *x.shape))
                                       for x, is_batched in zip(operands, batched, strict=True))  # fmt: skip
            if len(self.pattern.rows) == math.prod(self.pattern.shape):
                return jax.vmap(by_lapack)(values, b), True

            def one(state):
                solution, left = state
                k = jnp.argmax(left)
                return solution.at[k].set(dense(values[k], b[k][:, None])[:, 0]), left.at[k].set(False)

            left = ~sound & jnp.all(jnp.isfinite(values), axis=1)
            return lax.while_loop(lambda state: jnp.any(state[1]), one, (quick, left))[0], True

        return mended


class _Plan:
    """The arithmetic of an elimination, as two programs of instructions.

    Factors are the entries of a and the results: an entry of L, U or their diagonal is that of a less Σ L U over the
    pivots before it, L divided by its pivot. Forwards and backwards substitution is the same.

    Entries are named by the places of their pivots, (i, j) with j < i in L and i < j in U, and made in the order of
    min(i, j): the diagonal, a row of U, a column of L.
    """

    def __init__(self, elimination: Elimination):
        pattern, beside, below = elimination.pattern, elimination.beside, elimination.below
        n = pattern.shape[0]
        of_row, of_column, on = np.argsort(elimination.rows), np.argsort(elimination.columns), np.arange(n)
        wide, high = (np.bincount(those.rows, minlength=n) for those in (beside, below))
        first_upper, first_lower = np.cumsum(wide) - wide, np.cumsum(high) - high
        begin = on + first_upper + first_lower
        upper = (begin + 1 - first_upper)[beside.rows] + np.arange(len(beside.rows))
        lower = (begin + 1 + wide - first_lower)[below.rows] + np.arange(len(below.rows))
        by_row = np.argsort(below.columns, kind="stable")
        numbers = _Numbers(
            n, np.concatenate([on, beside.rows, below.columns]), np.concatenate([on, beside.columns, below.rows]),
            np.concatenate([begin, upper, lower]),
        )  # fmt: skip

        pivot = below.rows[by_row]
        parts = []
        for items in np.split(by_row, _cuts(below.columns[by_row], wide[pivot])):
            # of every entry of L, row by row, all of U beside its pivot
            of_pivot = below.rows[items]
            times = wide[of_pivot]
            left = np.repeat(items, times)
            right = np.repeat(first_upper[of_pivot] - np.cumsum(times) + times, times) + np.arange(times.sum())
            target = numbers.of(below.columns[left], beside.columns[right])
            order = _sort(target)
            parts.append((target, left[order].astype(np.int32), right[order].astype(np.int32)))
        counts = np.zeros(numbers.count, np.int64)
        for target, _, _ in parts:
            counts += np.bincount(target, minlength=numbers.count)

        base, places = np.full(numbers.count, ZERO), (of_row[pattern.rows], of_column[pattern.columns])
        in_rows = np.argsort(places[0], kind="stable")
        base[numbers.of(places[0][in_rows], places[1][in_rows])] = LED + in_rows
        is_computed = counts > 0
        is_computed[lower] = True
        at = np.where(is_computed, LED + len(pattern.rows) + np.cumsum(is_computed) - 1, base)
        self.diagonal = at[begin]
        divisor = np.full(numbers.count, ONE)
        divisor[lower] = self.diagonal[below.rows]
        ends = np.append(0, np.cumsum(counts[is_computed]))
        first, of_lower, of_upper = np.cumsum(counts) - counts, at[lower].astype(np.int32), at[upper].astype(np.int32)
        lefts, rights = (np.empty(ends[-1], np.int32) for _ in range(2))
        for target, left, right in parts:  # all products of an entry are in one part
            begins = np.flatnonzero(np.diff(target, prepend=-1))
            lengths = np.diff(begins, append=len(target))
            place = np.repeat(first[target[begins]] - begins, lengths) + np.arange(len(target))
            lefts[place], rights[place] = of_lower[left], of_upper[right]
        self.factoring = Instructions(len(pattern.rows), base[is_computed], divisor[is_computed], ends, lefts, rights)

        # y = b less L y, then x = (y less U x)/pivot from the last one backwards
        backwards = np.argsort(-beside.rows, kind="stable")
        y_counts, x_counts = np.bincount(below.columns, minlength=n), wide
        y_made = y_counts > 0
        y = np.where(y_made, LED + n + np.cumsum(y_made) - 1, LED + elimination.rows)
        x = LED + n + y_made.sum() + on[::-1]
        self.solving = Instructions(
            n,
            np.concatenate([LED + elimination.rows[y_made], y[::-1]]),
            np.concatenate([np.full(y_made.sum(), ONE), self.diagonal[::-1]]),
            np.append(0, np.cumsum(np.concatenate([y_counts[y_made], x_counts[::-1]]))),
            np.concatenate([at[lower[by_row]], at[upper[backwards]]]),
            np.concatenate([y[pivot], x[beside.columns[backwards]]]),
            self.factoring.size,
        )
        self.unknowns = x[of_column]

    def substituted(self, factors: Array, b: Array) -> Array:
        """The solution x of L U x = b."""
        return execute(self.solving, b, factors)[self.unknowns]


def _cuts(rows: np.ndarray, work: np.ndarray) -> np.ndarray:
    """Where to cut items, sorted by rows, into parts of whole rows with some work each."""
    after = np.flatnonzero(np.diff(rows)) + 1  # where a row ends
    part = np.append(0, np.cumsum(work))[after] // AT_ONCE
    return after[np.flatnonzero(np.diff(part, prepend=0))]


def _sort(x: np.ndarray) -> np.ndarray:
    """Sort whole numbers below 2³² in place; returns their order, that of equal ones kept. Quicker than argsort."""
    bits = len(x).bit_length()
    x <<= bits
    x |= np.arange(len(x))
    x.sort()
    order = x & ((1 << bits) - 1)
    x >>= bits
    return order


class _Numbers:
    """The numbers of the entries (i, j) of a sparse matrix, looked up some rows at a time."""

    def __init__(self, n: int, i: np.ndarray, j: np.ndarray, numbers: np.ndarray):
        order = np.argsort(i, kind="stable")
        self.n, self.count, self.j, self.numbers = n, len(i), j[order], numbers[order]
        self.i = i[order]

    def of(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """The numbers of entries that exist, given row by row."""
        numbers = np.empty(len(i), np.int64)
        rows = max(AT_ONCE // self.n, 1)
        places = np.empty(min(rows, self.n) * self.n, np.int64)
        firsts = np.append(np.arange(0, self.n, rows), self.n)
        own, theirs = np.searchsorted(self.i, firsts), np.searchsorted(i, firsts)
        for k, first in enumerate(firsts[:-1]):
            mine, those = slice(own[k], own[k + 1]), slice(theirs[k], theirs[k + 1])
            if those.start == those.stop:
                continue
            places[(self.i[mine] - first) * self.n + self.j[mine]] = self.numbers[mine]
            numbers[those] = places[(i[those] - first) * self.n + j[those]]
        return numbers


class Sums:
    """s_i = Σ a[left] b[right] over the products (i, left, right), for arrays (entries, paths); a[0] must be 0.

    Sums of about as many products are made together, filled up with zeros.
    """

    def __init__(self, i: np.ndarray, left: np.ndarray, right: np.ndarray, size: int):
        by_sum, counts = np.argsort(i, kind="stable"), np.bincount(i, minlength=size)
        firsts = np.cumsum(counts) - counts
        widths = 2 ** np.ceil(np.log2(np.maximum(counts, 1))).astype(int)
        self.tables = []
        for width in np.unique(widths):
            those = np.flatnonzero(widths == width)
            number, sum_ = np.nonzero(np.arange(width)[:, None] < counts[those])
            mine = by_sum[firsts[those][sum_] + number]
            table = np.zeros((2, width, len(those)), np.int32)
            table[:, number, sum_] = left[mine], right[mine]
            self.tables.append(table)
        order = np.argsort(widths, kind="stable")
        self.place = None if (order == np.arange(size)).all() else np.argsort(order).astype(np.int32)

    def __call__(self, a: Array, b: Array) -> Array:
        parts = [
            functools.reduce(jnp.add, (rows_of(a, i) * rows_of(b, j) for i, j in zip(left, right, strict=True)))
            if len(left) <= WIDEST
            else (rows_of(a, left) * rows_of(b, right)).sum(axis=0)
            for left, right in self.tables
        ]
        whole = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        return whole if self.place is None else rows_of(whole, self.place)


def eliminated(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """x with a x = b, a (n, n) and b (n, k), the sign of det a and log |det a|, by dense elimination with partial
    pivoting.

    The library's LU is not used: programs that call the library have one thread fewer.
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


@or_else(lambda pattern, samples, most=None: None)
def find_order(pattern: Pattern, samples: np.ndarray, most: float | None = None) -> Elimination | None:
    """An order for matrices of a pattern, from the values (K, nnz) of a few of them.

    None where there are no pivots, or where elimination takes more than `most` products, by default a quarter of those
    of a dense elimination.

    In every round the pivots are those that touch the fewest entries (H. Markowitz, Management Sci. 3 (1957)) among
    those that are not small in their columns in any of the samples, as many as do not interfere: a
    ladder of n nodes takes log₂ n rounds, and its factors about 5n numbers.
    """
    n, scaled = pattern.shape[0], samples.T
    most = _few_products(n) if most is None else most
    if n >= ON_DIAGONAL and (elimination := _on_diagonal(pattern, samples, most)) is not None:
        return elimination
    for lines in (pattern.rows, pattern.columns):
        largest = np.zeros((n, len(samples)))
        np.maximum.at(largest, lines, np.abs(scaled))
        scaled = scaled / _or_one(largest)[lines]
    if n >= ON_DIAGONAL and (owner := _matched(pattern, scaled)) is not None:
        on_diagonal = _on_diagonal(pattern, samples, most, owner)
        if on_diagonal is not None:
            return on_diagonal
    rows: list[dict[int, np.ndarray]] = [{} for _ in range(n)]
    columns: list[set[int]] = [set() for _ in range(n)]
    for i, j, value in zip(pattern.rows.tolist(), pattern.columns.tolist(), scaled, strict=True):
        rows[i][j] = value
        columns[j].add(i)
    order: list[tuple[int, int]] = []
    beside, below = list[list[int]](), list[list[int]]()
    open_columns, work = set(range(n)), 0
    while open_columns:
        pivots = _choose(rows, columns, open_columns)
        if not pivots or work > most:
            return None
        for i, j in pivots:
            order.append((i, j))
            beside.append([c for c in rows[i] if c != j])
            below.append([r for r in columns[j] if r != i])
            work += len(beside[-1]) * len(below[-1])
            _remove(rows, columns, i, j)
        open_columns -= {j for _, j in pivots}
    pivot_rows, pivot_columns = np.array(order).T
    return Elimination(pattern, pivot_rows, pivot_columns, _pattern_of(beside, np.argsort(pivot_columns)),
                       _pattern_of(below, np.argsort(pivot_rows)))  # fmt: skip


@or_else(lambda residual, x, *others: None)
def order_of(residual: Callable[..., Array], x: Any, *others: Any) -> Elimination | None:
    """An order with pivots on the diagonal for the Jacobian in x of a residual x - ..., from its trace alone, which
    holds for any values of the others.

    None where there are few unknowns, the trace cannot be taken apart, or elimination would fill the matrix up.
    """
    n = x.size
    if n <= WRITTEN_OUT:
        return None
    rows = dependence_by_arrays(jax.make_jaxpr(residual)(x, *others), (x, *others)).on(0)
    pattern = Pattern.of_csr(rows + scipy.sparse.eye_array(n, dtype=bool))
    no_samples = np.zeros((0, len(pattern.rows)))
    return _on_diagonal(pattern, no_samples, _few_products(n)) if len(pattern.rows) <= MOST_FULL * n * n else None


@functools.lru_cache(maxsize=64)
def full_order(n: int) -> Elimination:
    """The order of rows and columns in which a matrix (n, n) without known zeros is eliminated: as they are."""
    every = np.ones((n, n), bool)
    own = np.arange(n)
    return Elimination(Pattern.of(every), own, own, Pattern.of(np.triu(every, 1)), Pattern.of(np.triu(every, 1)))


def _few_products(n: int) -> float:
    """The most products with which elimination still pays beside a dense one."""
    return n**3 / DENSE


def _matched(pattern: Pattern, scaled: np.ndarray) -> np.ndarray | None:
    """A row for every column, such that the entries where they meet are as large as possible together, in the sample
    where each is least; None where there are no such rows.

    scaled  (nnz, K) the samples, their rows and columns of one size
    """
    least = np.abs(scaled).min(axis=1)
    there = least > 0.0
    prices = (1.0 - np.log(least[there]), (pattern.columns[there], pattern.rows[there]))
    try:
        return scipy.sparse.csgraph.min_weight_full_bipartite_matching(scipy.sparse.csr_array(prices, pattern.shape))[1]
    except ValueError:
        return None


def _on_diagonal(
    pattern: Pattern, samples: np.ndarray, most: float, owner: np.ndarray | None = None
) -> Elimination | None:
    """An elimination that has the diagonal as pivots, in SuperLU's order of least degree, where that is good enough for
    all samples and takes at most `most` products; with `owner`, the entry of column j in row owner[j] stands for its
    diagonal."""
    n = pattern.shape[0]
    owner = np.arange(n) if owner is None else owner
    holds = scipy.sparse.csr_array(pattern.csr(1.0)[owner] + scipy.sparse.eye_array(n))
    generic = scipy.sparse.csc_array(holds)
    generic.data = np.random.default_rng(1).uniform(0.5, 1.0, generic.nnz)  # numbers that do not cancel
    generic = scipy.sparse.csc_array(generic + 2.0 * np.max(holds.sum(axis=1)) * scipy.sparse.eye_array(n))
    how = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True, "Equil": False}}
    order = np.argsort(direct.factorised(generic, permc_spec="MMD_AT_PLUS_A", **how).perm_c)
    beside, below = filled_in(holds[order][:, order])
    if np.sum(np.bincount(beside.rows, minlength=n) * np.bincount(below.rows, minlength=n)) > most:
        return None
    for values in samples:
        try:
            a = scipy.sparse.csc_array(pattern.csr(values)[owner[order]])[:, order]
            solved = direct.factorised(a, permc_spec="NATURAL", **how)
        except np.linalg.LinAlgError:  # a pivot is zero
            return None
        is_kept = (solved.perm_r == np.arange(n)).all()
        if not is_kept or not np.max(np.abs(solved.solve(a.sum(axis=1)) - 1.0)) <= TRUSTED:
            return None
    return Elimination(pattern, owner[order], order, beside, below)


def filled_in(holds: Any) -> tuple[Pattern, Pattern]:
    """Return, for every pivot along the diagonal, the columns in which U has entries beside it, and the rows in which L
    has entries below it. Both follow from the pattern alone: in numbers, fill across a long ring or grid underflows.

    A pivot fills the places where its columns and rows cross. They wait for the next pivot that is one of its columns
    or rows; where it is both, its own places hold all of them (S. Eisenstat, J. Liu, SIAM J. Matrix Anal. Appl. 13
    (1992)).
    """
    upper, lower = scipy.sparse.triu(holds, 1, format="csr"), scipy.sparse.tril(holds, -1, format="csc")
    beside, below = ([set(half.indices[a:b].tolist()) for a, b in itertools.pairwise(half.indptr.tolist())]
                     for half in (upper, lower))  # fmt: skip
    waiting: list[list[tuple[set[int], set[int]]]] = [[] for _ in beside]
    for k, (wide, high) in enumerate(zip(beside, below, strict=True)):
        for columns, rows in waiting[k]:
            if k in rows:
                wide |= columns
            if k in columns:
                high |= rows
            if not (k in rows and k in columns):
                _wait(waiting, columns - {k}, rows - {k})
        waiting[k].clear()
        wide.discard(k)
        high.discard(k)
        _wait(waiting, wide, high)
    return _pattern_of(beside), _pattern_of(below)


def _pattern_of(places: Sequence[Collection[int]], names: np.ndarray | None = None) -> Pattern:
    """Lists of places as the rows of a pattern, in which place p is column p, or column names[p]."""
    lengths = np.array([len(those) for those in places])
    rows = np.repeat(np.arange(len(places)), lengths)
    columns = np.fromiter(itertools.chain.from_iterable(places), np.int64, len(rows))
    columns = columns if names is None else names[columns]
    return Pattern(rows, columns[np.lexsort((columns, rows))], (len(places), len(places)))


def _wait(waiting: list[list[tuple[set[int], set[int]]]], columns: set[int], rows: set[int]) -> None:
    if columns and rows:
        waiting[min(min(columns), min(rows))].append((columns, rows))


def _choose(
    rows: list[dict[int, np.ndarray]], columns: list[set[int]], open_columns: set[int]
) -> list[tuple[int, int]]:
    """The pivots of a round, none where a column is empty."""
    pivots = []
    if not all(columns[j] for j in open_columns):
        return []
    for j in open_columns:
        those = list(columns[j])
        sizes = np.abs([rows[i][j] for i in those])
        shares = np.min(sizes / _or_one(sizes.max(axis=0)), axis=1)
        good = [(len(columns[j]) - 1) * (len(rows[i]) - 1) for i in those]
        best = min(range(len(those)), key=lambda k: (shares[k] < SMALL_PIVOT, good[k], -shares[k]))
        pivots.append((good[best], -float(shares[best]), those[best], j))
    sound = sorted(one for one in pivots if -one[1] >= SMALL_PIVOT)
    if not sound:
        _, share, i, j = min(pivots, key=lambda one: one[1])
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


def _parity(permutation: np.ndarray) -> int:
    """The sign of a permutation."""
    visited, sign = np.zeros(len(permutation), bool), 1
    for k in range(len(permutation)):
        while not visited[k]:
            visited[k] = True
            k, sign = int(permutation[k]), -sign if not visited[permutation[k]] else sign
    return sign
