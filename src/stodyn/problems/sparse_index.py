"""The questions of problems.index about large SDAEs, asked of sparse matrices: constraints, consistent start, index.

A mass matrix falls into connected blocks of rows and columns. A block of one entry is an equation with a
derivative, an empty row a constraint; small blocks are split as dense matrices are, and a large one is regular, or its
rows add up to zero, as those of capacitors without a path to ground do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy

from stodyn.numerics import direct
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.rounding import of_sparse_solution
from stodyn.problems import index
from stodyn.problems.index import CANCELLED, RANK, SINGULAR, START_LIMIT, START_TOLERANCE, STATES, Diagnosis, Split
from stodyn.problems.sparsity import entries_at

DENSE = 1000  # rows of a block, or constraints, up to which a singular matrix is examined as a dense one
DIRECTIONS = 8  # in which noise is tested for commuting
Matrix = Any  # a scipy.sparse.csr_array


def split(M: Matrix) -> Split:
    """Equations, constraints and algebraic directions of a mass matrix as index.split gives them, N and K sparse."""
    rows, N = _independent_rows(M)
    columns, K = _independent_rows(scipy.sparse.csr_array(M.T))
    return Split(rows, N, scipy.sparse.csr_array(K.T), columns)


def _independent_rows(M: Matrix) -> tuple[np.ndarray, Matrix]:
    """The numbers of rows that span the others, and combinations of rows that vanish, one for each other row."""
    n = M.shape[0]
    both = scipy.sparse.block_array([[None, M], [M.T, None]])
    count, block = scipy.sparse.csgraph.connected_components(both, directed=False)
    of_row, of_column = block[:n], block[n:]
    high, wide = (np.bincount(lines, minlength=count) for lines in (of_row, of_column))
    alone = (high[of_row] == 1) & (wide[of_row] == 1)
    empty = wide[of_row] == 0
    independent, vanishing = [np.flatnonzero(alone)], [_units(np.flatnonzero(empty), n)]
    by_row, by_column = np.argsort(of_row, kind="stable"), np.argsort(of_column, kind="stable")
    row_ends, column_ends = np.cumsum(high), np.cumsum(wide)
    for number in np.unique(of_row[~alone & ~empty]).tolist():
        rows = by_row[row_ends[number] - high[number] : row_ends[number]]
        columns = by_column[column_ends[number] - wide[number] : column_ends[number]]
        own, combinations = _of_block(scipy.sparse.csr_array(M[rows][:, columns]))
        independent.append(rows[own])
        placed = scipy.sparse.csr_array(combinations).tocoo()
        entries = placed.data, (placed.row, rows[placed.col])
        vanishing.append(scipy.sparse.csr_array(entries, (placed.shape[0], n)))
    return np.sort(np.concatenate(independent)), scipy.sparse.csr_array(scipy.sparse.vstack(vanishing))


def _units(places: np.ndarray, n: int) -> Matrix:
    return scipy.sparse.csr_array((np.ones(len(places)), (np.arange(len(places)), places)), (len(places), n))


def _of_block(M: Matrix) -> tuple[np.ndarray, Any]:
    """`_independent_rows` of connected rows."""
    n = M.shape[0]
    if M.shape[0] == M.shape[1] and n > direct.SMALL:
        if not 1.0 / _condition(_scaled_to_one(M)) < RANK:
            return np.arange(n), np.zeros((0, n))
        sums, sizes = M.sum(axis=0), abs(M).sum(axis=0)
        others = _scaled_to_one(scipy.sparse.csr_array(M[:-1, :-1]))
        if np.all(np.abs(sums) <= CANCELLED * sizes) and not 1.0 / _condition(others) < RANK:
            return np.arange(n - 1), np.ones((1, n))
    if n > DENSE:
        raise ValueError(
            f"mass: {n} of its rows are connected and depend on each other in a way that is searched for only in "
            f"blocks of up to {DENSE} rows; state the equations so that constraints are rows of zeros"
        )
    return index.independent_rows(M.toarray())


def _scaled_to_one(C: Matrix) -> Matrix:
    """Rows and columns scaled until they are of one size."""
    for _ in range(3):
        C = scipy.sparse.diags_array(_inverse(_largest(C, 1))) @ C
        C = C @ scipy.sparse.diags_array(_inverse(_largest(C, 0)))
    return scipy.sparse.csr_array(C)


def _largest(C: Matrix, axis: int) -> np.ndarray:
    return abs(C).max(axis=axis).toarray().ravel() if C.nnz else np.zeros(C.shape[1 - axis])


def _inverse(size: np.ndarray) -> np.ndarray:
    return 1.0 / np.where(size > 0.0, size, 1.0)


def _condition(C: Matrix) -> float:
    """The condition number in the 1-norm, estimated; infinite where C is singular."""
    if not np.isfinite(C.data).all():
        return np.inf
    try:
        factors = direct.factorised(C)
    except np.linalg.LinAlgError:
        return np.inf
    n = C.shape[0]
    inverse = scipy.sparse.linalg.LinearOperator(
        (n, n), matvec=factors.solve, rmatvec=lambda b: factors.solve(b, trans="T"), dtype=float
    )
    with np.errstate(all="ignore"):
        estimate = float(scipy.sparse.linalg.onenormest(inverse) * abs(C).sum(axis=0).max())
    return estimate if np.isfinite(estimate) else np.inf


# --- the diagnosis ----------------------------------------------------------------------------------------------------


class Coefficients(NamedTuple):
    """f (n,), its derivative and g, sparse, in one state."""

    f: np.ndarray
    f_x: Matrix
    g: Matrix


def coefficients_at(problem: Any) -> Callable[[float, np.ndarray], Coefficients]:
    """(t, x) -> f, ∂f/∂x and g of one path there."""
    drift, places, params = problem.facts.drift_pattern, problem.facts.noise_pattern, problem.example_params()

    def at(t, x, p):
        def f(x):
            return problem.f(t, x, p)

        return f(x), drift.jacobian(f, x), entries_at(places, problem.multiplier(t, x, p))

    values = AtPoints(at, (0, 0, None), few=START_LIMIT + STATES)

    def looked(t: float, x: np.ndarray) -> Coefficients:
        f, slopes, g = (part[0] for part in values(np.array([t]), x[None], params))
        return Coefficients(f, drift.csr(slopes), scipy.sparse.csr_array(g) if places is None else places.csr(g))

    return looked


def diagnose(problem: Any, t: float) -> Diagnosis:
    """As index.diagnose does it: whether no noise enters the constraints, and their Jacobian N f_x K is regular.

    Whether it is regular is asked at the start, and at random states around it only where it is singular there; its
    condition number is an estimate in the 1-norm.
    """
    parts, names, x = problem.facts.split, problem.components, problem.example_start()
    differential = words(problem.facts.evolving, names)
    if not parts.N.shape[0]:
        return Diagnosis(0, "", (), (), 0, 1.0, differential, (), x, dict.fromkeys(names, 0.0))
    constraints = tuple(f"0 = {one}" for one in words(parts.N, [f"f[{i}]" for i in range(problem.n)]))
    algebraic = words(scipy.sparse.csr_array(parts.K.T), names)
    look = coefficients_at(problem)
    start, repaired = _consistent(parts, look, t, x)
    moved = dict(zip(names, (start - x).tolist(), strict=True))
    here = look(t, start).f_x
    noisy = _noisy(problem, parts, look, t, start)
    condition = _condition(_scaled(parts, here, start))
    count, reason = len(constraints), ""
    rank = count if condition < 1.0 / SINGULAR else -1
    if noisy:
        reason = index.noise_in_a_constraint(noisy[0], constraints)
    elif rank < count:
        rank, reason = _singular(parts, here, start, constraints, algebraic)
        offsets = np.random.default_rng(5).standard_normal((4, problem.n)) * 0.1 * (1.0 + np.abs(x))
        near = (_condition(_scaled(parts, look(t, start + offset).f_x, start)) for offset in offsets)
        if repaired and any(one < 1.0 / SINGULAR for one in near):
            reason = index.singular_at_the_start(constraints, algebraic)
    elif not repaired:
        reason = index.no_start(f"of {problem.n} components", constraints, t, algebraic)
    return Diagnosis(None if reason else 1, reason, constraints, noisy, rank, condition, differential, algebraic,
                     start, moved)  # fmt: skip


def words(combinations: Any, names: Any) -> tuple[str, ...]:
    """The rows of a sparse matrix as sums of names."""
    rows = scipy.sparse.csr_array(combinations)
    ends = rows.indptr
    return tuple(
        index.combination(rows.data[a:b], [names[i] for i in rows.indices[a:b]]) for a, b in itertools.pairwise(ends)
    )


def _consistent(parts: Split, look: Callable, t: float, x: np.ndarray) -> tuple[np.ndarray, bool]:
    """The consistent start by Newton and True, or the start as it is and False where Newton found none."""
    states = np.array(x, float)
    with np.errstate(all="ignore"):
        for _ in range(START_LIMIT):
            f, f_x, _ = look(t, states)
            defect = parts.N @ f
            if not np.isfinite(defect).all():
                break
            if not defect.any():
                return states, True
            try:
                move = parts.K @ direct.solved(parts.N @ f_x @ parts.K, defect)
            except np.linalg.LinAlgError:
                break
            states = states - move
            if np.abs(move).max() <= START_TOLERANCE * (1.0 + np.abs(states).max()):
                return states, True
    return np.asarray(x, float), False


def _noisy(problem: Any, parts: Split, look: Callable, t: float, x: np.ndarray) -> tuple[tuple[int, int], ...]:
    """(constraint, channel) pairs with N g != 0, as index.diagnose looks for them, among the places of g."""
    places = problem.facts.noise_pattern
    if places is not None and not (abs(parts.N) @ places.csr(1.0)).nnz:
        return ()
    rng = np.random.default_rng(6)
    times = t + np.append(0.0, 10.0 ** rng.uniform(-3.0, 3.0, STATES - 1))
    reach = 10.0 ** rng.uniform(-1.0, 2.0, (STATES, 1)) * (1.0 + np.abs(x))
    present: set[tuple[int, int]] = set()
    for time, state in zip(times, x + reach * rng.standard_normal((STATES, len(x))), strict=True):
        g = look(time, state).g
        left, terms = scipy.sparse.coo_array(abs(parts.N @ g)), scipy.sparse.csr_array(abs(parts.N) @ abs(g))
        with np.errstate(invalid="ignore"):  # far away g need not be finite
            there = left.data > CANCELLED * _at(terms, left)
        present |= set(zip(left.row[there].tolist(), left.col[there].tolist(), strict=True))
    return tuple(sorted(present))


def _at(matrix: Matrix, places: Any) -> np.ndarray:
    """The entries of a matrix at the places that another one stores."""
    return np.asarray(matrix[places.row, places.col]).ravel() if places.nnz else np.zeros(0)


def _scaled(parts: Split, f_x: Matrix, x: np.ndarray) -> Matrix:
    """N f_x K in units in which its rows and columns are of one size, entries that are only rounding left out."""
    N, K, size = parts.N, parts.K, np.maximum(1.0, np.abs(x))
    C = scipy.sparse.coo_array(N @ f_x @ K)
    of_row = _largest(scipy.sparse.csr_array(abs(N @ f_x) @ scipy.sparse.diags_array(size)), 1)
    of_column = _largest(scipy.sparse.csr_array(scipy.sparse.diags_array(size) @ abs(K)), 0)
    terms = _at(scipy.sparse.csr_array(abs(N) @ abs(f_x) @ abs(K)), C)
    least = CANCELLED * np.maximum(terms, 1e-3 * of_row[C.row] / of_column[C.col])
    there = ~(np.abs(C.data) <= least)
    return _scaled_to_one(scipy.sparse.csr_array((C.data[there], (C.row[there], C.col[there])), C.shape))


def _singular(parts: Split, f_x: Matrix, x: np.ndarray, constraints, algebraic) -> tuple[int, str]:
    """The rank of the constraint Jacobian, by its pattern where it is large, and why it is singular, in words."""
    count = len(constraints)
    if count <= DENSE:
        dense = Split(parts.rows, parts.N.toarray(), parts.K.toarray(), parts.columns)
        rank, _ = index.rank_of(dense, f_x.toarray(), x)
        return rank, index.why_singular(dense, f_x.toarray(), x, rank, constraints, algebraic)
    rank = min(int(scipy.sparse.csgraph.structural_rank(_scaled(parts, f_x, x))), count - 1)
    return rank, (
        f"its index is 2 or higher: the {count} constraints do not determine the {count} algebraic components (their "
        f"scaled Jacobian has a rank of at most {rank}). Differentiate constraints, or choose other variables, until "
        "the index is 1"
    )


def evolving(M: Matrix, parts: Split) -> Matrix:
    """(r, n): the differential components y = evolving x; a component itself where that is possible."""
    RM, columns = scipy.sparse.csr_array(M[parts.rows]), parts.columns
    others = np.setdiff1d(np.unique(RM.indices), columns)
    directions = _units(columns, M.shape[0])
    if not len(others):
        return directions
    whole, right = RM[:, columns], RM[:, others].toarray()
    share = direct.solved(whole, right)
    share[np.abs(share) <= of_sparse_solution(whole, right, share)] = 0.0
    entries = scipy.sparse.coo_array(share)
    return scipy.sparse.csr_array(
        directions + scipy.sparse.csr_array((entries.data, (entries.row, others[entries.col])), directions.shape)
    )


def commutes(problem: Any) -> bool:
    """Whether noise commutes in the state-space form: ∂(g b)/∂x v(a) = ∂(g a)/∂x v(b) for random a and b in some
    consistent states, v(a) being the motion that R M v = R g a and the constraints' N f_x v = 0 leave."""
    parts, look, params = problem.facts.split, coefficients_at(problem), problem.example_params()
    RM, x, rng = problem.sparse_mass[parts.rows], problem.facts.diagnosed().start, np.random.default_rng(2024)

    def pushed(t, x, p, w):
        return problem.push(problem.multiplier(t, x, p), w)

    def both(t, x, p, v, a, b):
        return tuple(jax.jvp(lambda x: pushed(t, x, p, w), (x,), (v[k],))[1] for k, w in ((0, b), (1, a)))

    push, slopes = (AtPoints(f, (0, 0, None, *(0,) * more), few=2 * DIRECTIONS) for f, more in ((pushed, 1), (both, 3)))
    answers = []
    for _ in range(DIRECTIONS):
        t, reach = np.array([10.0 ** rng.uniform(-2, 2)]), 10.0 ** rng.uniform(-2, 0) * (1.0 + np.abs(x))
        state, is_sound = _consistent(parts, look, t[0], x + reach * rng.standard_normal(problem.n))
        a, b = rng.standard_normal((2, 1, problem.m))
        g = np.concatenate([push(t, state[None], params, w) for w in (a, b)])
        right = np.concatenate([g, np.zeros((2, parts.N.shape[0]))], axis=1)
        try:
            along = direct.solved(scipy.sparse.vstack([RM, parts.N @ look(t[0], state).f_x]), right.T).T
        except np.linalg.LinAlgError:
            continue
        one, two = (part[0] for part in slopes(t, state[None], params, along[None], a, b))
        if is_sound and np.isfinite(one).all() and np.isfinite(two).all():
            answers.append(bool(np.all(np.abs(one - two) <= 1e-9 * np.abs(one).max())))
    return len(answers) > 1 and all(answers)
