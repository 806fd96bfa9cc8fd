"""The index of M dX = f(t, X) dt + g(t, X) dW: its constraints, consistent starts, and the diagnosis before a run.

Every question has one entrance. Of a small system it is asked of dense matrices and in many states at once, of a large
one (a sparse M) of sparse matrices and in one state after the other. A sparse mass matrix falls into connected blocks
of rows and columns: a block of one entry is an equation with a derivative, an empty row a constraint; small blocks are
split as dense matrices are, and a large one is regular, or its rows add up to zero, as those of capacitors without a
path to ground do.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.numerics import direct
from stodyn.numerics.facts.dependence import dependence
from stodyn.numerics.printing.points import AtPoints, at_points
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.rounding import Amounts, of_solution, of_sparse_solution
from stodyn.numerics.sparse import Pattern
from stodyn.problems import describing
from stodyn.problems.contract import sample_params
from stodyn.problems.operators import entries_at

# What counts as zero in the index, by choice far above n ε: constants that users round, and derivatives of their
# functions, miss zero by more. Verdicts that hang on rounding measure it, see `_rounding`.
RANK = 1e-12  # a singular value of the scaled mass matrix below this share of the largest is zero
SINGULAR = 1e-10  # the same of the scaled constraint Jacobian
CANCELLED = 1e-11  # a sum this much smaller than its terms is zero
DOUBTFUL = 1e-8  # of the largest slope of an equation: smaller ones may be what a cancellation within f has left
SAMPLES = 8  # of the rounding of a slope
STATES = 64  # in which the equations are evaluated
FEW = 12  # evaluations by NumPy: an index needs some, but compiling the equations of a beam takes ten seconds
LISTED = 20  # constraints, or components, that a message names
DENSE = 1000  # rows of a block, or constraints, up to which a singular matrix is examined as a dense one
NEARBY = 4  # states around a singular start in which the constraints of a large system are examined
START_TOLERANCE = 1e-13
START_LIMIT = 400  # rounds of Newton for a consistent start: an exponential comes down by one scale per round
Matrix = Any  # a scipy.sparse.csr_array


class Split(NamedTuple):
    """The equations R M dX = R f dt + R g dW and the constraints 0 = N f, with M K = 0 and N M = 0.

    rows       (r,) the equations that remain: R picks these rows of M, f and g
    N          (n - r, n) cancels M from the left: one constraint per row
    K          (n, n - r) the directions that M does not see
    columns    (r,) components that, with the constraints, determine all others

    N and K of a large system are sparse.
    """

    rows: np.ndarray
    N: Any
    K: Any
    columns: np.ndarray

    @property
    def r(self) -> int:
        """The rank of M."""
        return len(self.rows)

    @property
    def directions(self) -> np.ndarray:
        """K as a dense matrix."""
        return self.K.toarray() if scipy.sparse.issparse(self.K) else self.K

    def equations(self, values: jax.Array) -> jax.Array:
        """R v, the rows of v (n, ...) that belong to equations with a derivative."""
        return values if self.r == self.N.shape[1] else values[self.rows]

    def constraints(self, values: jax.Array) -> jax.Array:
        """N v, the combinations of rows of v (n, ...) that belong to constraints."""
        N = self.N
        if scipy.sparse.issparse(N):
            if np.all(N.data == 1.0) and N.nnz == N.shape[0]:
                return values[N.indices]
            return Pattern.of_csr(N).times(jnp.asarray(N.data, values.dtype), values)
        if np.all((N == 0.0) | (N == 1.0)) and np.all(N.sum(axis=1) == 1.0):
            return values[np.argmax(N, axis=1)]
        return jnp.asarray(N, values.dtype) @ values


def split(M: Any) -> Split:
    """Equations, constraints and algebraic directions of a mass matrix, after its rows and columns have been scaled.

    A zero row of M is a constraint by itself, a zero column an algebraic component. Where rows depend on others without
    a single zero row, each dependent one minus its share of the others is a constraint. N and K are sparse where M is.
    """
    if scipy.sparse.issparse(M):
        rows, N = _independent_sparse_rows(M)
        columns, K = _independent_sparse_rows(scipy.sparse.csr_array(M.T))
        return Split(rows, N, scipy.sparse.csr_array(K.T), columns)
    rows, N = independent_rows(M)
    columns, K = independent_rows(M.T)
    return Split(rows, N, K.T, columns)


def evolving(M: Any, parts: Split) -> Any:
    """(r, n): the differential components y = evolving x; a component itself where that is possible."""
    return _sparse_evolving(M, parts) if scipy.sparse.issparse(M) else _dense_evolving(M, parts)


def independent_rows(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of rows that span the others, and combinations of rows that vanish, one for each other row."""
    n = len(M)
    if is_diagonal(M):
        is_zero = np.diagonal(M) == 0.0
        return np.flatnonzero(~is_zero), np.eye(n)[is_zero]
    scale = _inverse(np.abs(M).max(axis=1))
    scaled = M * scale[:, None]
    scaled = scaled * _inverse(np.abs(scaled).max(axis=0))
    _, triangle, order = scipy.linalg.qr(scaled.T, mode="economic", pivoting=True)
    size = np.abs(np.diagonal(triangle))
    rank = int(np.sum(size > RANK * max(size.max(initial=0.0), 1e-300))) if scaled.any() else 0
    independent, others = np.sort(order[:rank]), np.sort(order[rank:])
    vanishing = np.zeros((n - rank, n))
    vanishing[np.arange(n - rank), others] = 1.0
    if rank and len(others):
        share = np.linalg.lstsq(scaled[independent].T, scaled[others].T, rcond=None)[0].T
        rounding = of_solution(scaled[independent].T, share.T).T
        vanishing[:, independent] = -np.where(np.abs(share) > rounding, share, 0.0)
    vanishing = vanishing * scale
    return independent, vanishing / np.abs(vanishing).max(axis=1, keepdims=True, initial=1e-300)


def is_diagonal(M: np.ndarray) -> bool:
    """Whether a square matrix has nothing beside its diagonal."""
    return M.shape[0] == M.shape[1] and np.array_equal(M, np.diag(np.diagonal(M)))


def _inverse(size: np.ndarray) -> np.ndarray:
    return 1.0 / np.where(size > 0.0, size, 1.0)


def _independent_sparse_rows(M: Matrix) -> tuple[np.ndarray, Matrix]:
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
    """The independent ones of connected rows, and combinations that vanish."""
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
    return independent_rows(M.toarray())


def _scaled_to_one(C: Matrix) -> Matrix:
    """Rows and columns scaled until they are of one size."""
    for _ in range(3):
        C = scipy.sparse.diags_array(_inverse(_largest(C, 1))) @ C
        C = C @ scipy.sparse.diags_array(_inverse(_largest(C, 0)))
    return scipy.sparse.csr_array(C)


def _largest(C: Matrix, axis: int) -> np.ndarray:
    return abs(C).max(axis=axis).toarray().ravel() if C.nnz else np.zeros(C.shape[1 - axis])


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


def _dense_evolving(M: np.ndarray, parts: Split) -> np.ndarray:
    RM = M[parts.rows]
    directions = np.linalg.solve(RM[:, parts.columns], RM) if parts.r else RM
    if parts.r:
        directions[np.abs(directions) <= of_solution(RM[:, parts.columns], directions)] = 0.0
    directions[:, parts.columns] = np.eye(parts.r)
    return directions


def _sparse_evolving(M: Matrix, parts: Split) -> Matrix:
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


@dataclasses.dataclass(frozen=True, eq=False)
class Diagnosis:
    """The diagnosis of an SDAE before a run.

    index         0 where M is regular, 1, or None where the system is not of index 1: `reason` says why
    constraints   the constraints in words, "0 = f[2]" or "0 = f[0] - 0.5 f[3]"
    noisy         (constraint, channel) pairs: noise that enters a constraint
    rank          of the constraint Jacobian N f_x K, scaled; index 1 means as many as there are constraints
    condition     its condition number, scaled
    differential  the components, or combinations of them, that evolve; algebraic: those the constraints determine
    start         the consistent start: the differential part kept, Newton on the constraints
    moved         how far each component moved for that
    """

    index: int | None
    reason: str
    constraints: tuple[str, ...]
    noisy: tuple[tuple[int, int], ...]
    rank: int
    condition: float
    differential: tuple[str, ...]
    algebraic: tuple[str, ...]
    start: np.ndarray
    moved: dict[str, float]

    def __str__(self) -> str:
        if self.index is None:
            return f"not of index 1: {self.reason}"
        if self.index == 0:
            return "index 0: the mass matrix is regular, there are no constraints"
        words = f"index 1: {len(self.constraints)} constraint(s) {listed(self.constraints)} for "
        words += f"{listed(self.algebraic)}; scaled constraint Jacobian of condition {self.condition:.3g}"
        return words + (f"; {self.move}" if self.move else "")

    @property
    def move(self) -> str:
        return how_moved(self.moved)


def how_moved(moved: dict[str, float]) -> str:
    """How a start was made consistent, in words; "" where it was consistent."""
    far = {name: distance for name, distance in moved.items() if abs(distance) > 1e-9}
    moves = listed([f"{name} by {distance:+.6g}" for name, distance in far.items()])
    return f"the start did not satisfy the constraints and was moved: {moves}" if far else ""


# --- the diagnosis ----------------------------------------------------------------------------------------------------


class _Verdict(NamedTuple):
    """Whether the constraints determine the algebraic components: the rank of their Jacobian, its condition number,
    a function for the rank and the reason where it is singular, and one that asks whether it is regular nearby."""

    rank: int
    condition: float
    explained: Callable[[], tuple[int, str]]
    is_regular_nearby: Callable[[], bool]


def diagnose(problem: Any, t: float = 0.0) -> Diagnosis:
    """Whether an SDAE is of index 1 at its start at time t, and if not, why.

    Index 1 means that no noise enters the constraints 0 = N f, and that they determine the algebraic components: the
    Jacobian N f_x K is regular. Rows and columns are scaled before a rank is taken. Both are asked at the (consistent)
    start and at random states around it; along the paths of a run the Jacobian is watched by every step. Of a large
    system, states around the start are asked only where the Jacobian is singular at the start, and the condition number
    is an estimate in the 1-norm.
    """
    facts, names, x = problem.facts, problem.components, problem.example_start()
    parts: Split = facts.split
    differential = words(facts.evolving, names)
    count = parts.N.shape[0]
    if not count:
        return Diagnosis(0, "", (), (), 0, 1.0, differential, (), x, dict.fromkeys(names, 0.0))
    constraints = tuple(f"0 = {one}" for one in words(parts.N, [f"f[{i}]" for i in range(problem.n)]))
    algebraic = words(parts.K.T, names)
    examined = _examined_sparse if facts.is_large else _examined_dense
    start, repaired, noisy, verdict = examined(problem, t, x, constraints, algebraic)
    rank, reason = verdict.rank, ""
    if noisy:
        reason = _noise_in_a_constraint(noisy[0], constraints)
    elif rank < count:
        rank, reason = verdict.explained()
        if repaired and verdict.is_regular_nearby():
            reason = _singular_at_the_start(constraints, algebraic)
    elif not repaired:
        in_words = f"of {problem.n} components" if facts.is_large else f"{x.tolist()}"
        reason = _no_start(in_words, constraints, t, algebraic)
    moved = dict(zip(names, (start - x).tolist(), strict=True))
    return Diagnosis(None if reason else 1, reason, constraints, noisy, rank, verdict.condition, differential,
                     algebraic, start, moved)  # fmt: skip


_Examined = tuple[np.ndarray, bool, tuple[tuple[int, int], ...], _Verdict]


def _examined_dense(problem: Any, t: float, x: np.ndarray, constraints, algebraic) -> _Examined:
    """The start, whether it is consistent, where noise enters constraints, and the verdict, by dense matrices."""
    parts = problem.facts.split
    start, repaired = _consistent(problem, t, x)
    offsets = np.random.default_rng(5).standard_normal((STATES, problem.n)) * 0.1 * (1.0 + np.abs(x))
    offsets[0] = 0.0
    looked = look(problem, np.full(STATES, t), start + offsets)
    noisy = _noisy(problem, parts.N, t, start)
    rounding = _rounding(problem, parts, t, start, start + offsets, looked.f_x)
    ranks, conditions = zip(
        *(rank_of(parts, jacobian, start, r) for jacobian, r in zip(looked.f_x, rounding, strict=True)), strict=True
    )

    def explained() -> tuple[int, str]:
        slopes = np.where(np.abs(looked.f_x[0]) > rounding[0], looked.f_x[0], 0.0)
        return ranks[0], _why_singular(parts, slopes, start, ranks[0], constraints, algebraic)

    return start, repaired, noisy, _Verdict(ranks[0], conditions[0], explained, lambda: max(ranks) == len(constraints))


def _examined_sparse(problem: Any, t: float, x: np.ndarray, constraints, algebraic) -> _Examined:
    """The start, whether it is consistent, where noise enters constraints, and the verdict, by sparse matrices."""
    parts, look = problem.facts.split, sparse_coefficients_at(problem)
    start, repaired = sparse_consistent(parts, look, t, x)
    here = look(t, start).f_x
    noisy = _sparse_noisy(problem, parts, t, start)
    condition = _condition(_sparse_scaled(parts, here, start))

    def is_regular_nearby() -> bool:
        offsets = np.random.default_rng(5).standard_normal((NEARBY, problem.n)) * 0.1 * (1.0 + np.abs(x))
        near = (_condition(_sparse_scaled(parts, look(t, start + offset).f_x, start)) for offset in offsets)
        return any(one < 1.0 / SINGULAR for one in near)

    rank = len(constraints) if condition < 1.0 / SINGULAR else -1
    explained = functools.partial(_sparse_singular, parts, here, start, constraints, algebraic)
    return start, repaired, noisy, _Verdict(rank, condition, explained, is_regular_nearby)


listed = functools.partial(describing.listed, most=LISTED)


def _noise_in_a_constraint(noisy: tuple[int, int], constraints: Sequence[str]) -> str:
    """Why a system whose noise enters a constraint is not of index 1."""
    constraint, channel = noisy
    return (
        f"noise channel {channel} enters constraint {constraint}, {constraints[constraint]}, which no process can "
        "then satisfy. Noise may stand only in equations with a derivative: give that component a mass (a "
        "capacitance), or leave the noise of that element out"
    )


def _singular_at_the_start(constraints: Sequence[str], algebraic: Sequence[str]) -> str:
    """Why a system that is of index 1 only away from its start cannot be run."""
    return (
        f"the Jacobian of the constraints {listed(constraints)} in {listed(algebraic)} is singular at "
        "the start. Near the start it is regular: the index is lost at this state alone, start elsewhere"
    )


def _no_start(start: str, constraints: Sequence[str], t: float, algebraic: Sequence[str]) -> str:
    """Why a start that could not be made consistent cannot be run."""
    return (
        f"the start {start} does not satisfy the constraints {listed(constraints)} at t = {t:g}, and "
        f"Newton found no values of {listed(algebraic)} that do. Give a start nearer to a solution"
    )


def components(problem: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The differential components of an SDAE, or combinations of components, and the algebraic ones, in words."""
    facts, names = problem.facts, problem.components
    return words(facts.evolving, names), words(facts.split.K.T, names)


def words(combinations: Any, names: Sequence[str]) -> tuple[str, ...]:
    """The rows of a matrix as sums of names."""
    rows = scipy.sparse.csr_array(combinations)
    ends = itertools.pairwise(rows.indptr)
    return tuple(combination(rows.data[a:b], [names[i] for i in rows.indices[a:b]]) for a, b in ends)


class Coefficients(NamedTuple):
    """f, its derivative and g in STATES states: (S, n), (S, n, n), (S, n, m)."""

    f: np.ndarray
    f_x: np.ndarray
    g: np.ndarray


def look(problem: Any, times: np.ndarray, states: np.ndarray) -> Coefficients:
    """The equations of an SDAE at STATES times and states, each with the parameters of a path of its own."""
    return Coefficients(*problem.facts.coefficients_at(times, states, sample_params(problem, STATES)[0]))


def noise_slopes(problem: Any, times: np.ndarray, states: np.ndarray) -> np.ndarray:
    """∂g/∂x (S, n, m, n) as `look` sees g; not part of it, because of its size in large circuits."""

    def at(t, x, p):
        return jax.jacfwd(lambda x: problem.g(t, x, p))(x)

    params, axes = sample_params(problem, STATES)
    if problem.known.noise_slopes is not None:
        return problem.known.noise_slopes(times, states, params)
    return at_points(at, times, states, params, in_axes=(0, 0, axes))


def coefficients_at(problem: Any) -> AtPoints:
    """(times, states, params) -> f, ∂f/∂x and g there."""

    def at(t, x, p):
        def f(x):
            return problem.f(t, x, p)

        return f(x), jax.jacfwd(f)(x), problem.g(t, x, p)

    return AtPoints(at, (0, 0, sample_params(problem, STATES)[1]), FEW)


def consistent_states(problem: Any, times: np.ndarray, states: np.ndarray) -> np.ndarray:
    """States (STATES, n) with the same M x that satisfy the constraints, by Newton; NaN where it finds none."""
    _, N, K, _ = problem.facts.split
    x, done = np.array(states), np.zeros(STATES, bool)
    with np.errstate(all="ignore"):
        for _ in range(START_LIMIT if len(N) else 0):
            looked = look(problem, times, np.where(np.isfinite(x), x, states))
            C = N @ looked.f_x @ K
            regular = np.isfinite(np.linalg.slogdet(np.where(np.isfinite(C), C, 0.0))[1])  # det may underflow
            C[~regular] = np.eye(len(N))
            move = np.linalg.solve(C, (looked.f @ N.T)[..., None])[..., 0] @ K.T
            x = np.where(regular[:, None] & ~done[:, None], x - move, x)
            done |= np.all(looked.f @ N.T == 0.0, axis=1)
            done |= regular & (np.abs(move).max(axis=1) <= START_TOLERANCE * (1.0 + np.abs(x).max(axis=1)))
            if done.all() or not (regular & ~done).any():
                break
    return np.where(done[:, None] | (len(N) == 0), x, np.nan)


class SparseCoefficients(NamedTuple):
    """f (n,), its derivative and g, sparse, in one state."""

    f: np.ndarray
    f_x: Matrix
    g: Matrix


def sparse_coefficients_at(problem: Any) -> Callable[[float, np.ndarray], SparseCoefficients]:
    """(t, x) -> f, ∂f/∂x and g of one path there."""
    drift, places, params = problem.facts.drift_pattern, problem.facts.noise_pattern, problem.example_params()

    def at(t, x, p):
        def f(x):
            return problem.f(t, x, p)

        return f(x), drift.jacobian(f, x), entries_at(places, problem.multiplier(t, x, p))

    values = AtPoints(at, (0, 0, None), few=START_LIMIT + STATES)

    def looked(t: float, x: np.ndarray) -> SparseCoefficients:
        f, slopes, g = (part[0] for part in values(np.array([t]), x[None], params))
        return SparseCoefficients(f, drift.csr(slopes), _sparse_noise(places, g))

    return looked


def _sparse_noise(places: Pattern | None, entries: np.ndarray) -> Matrix:
    """g from its entries at these places, or from the whole matrix."""
    return scipy.sparse.csr_array(entries) if places is None else places.csr(entries)


def _consistent(problem: Any, t: float, x: np.ndarray) -> tuple[np.ndarray, bool]:
    """The consistent start and True, or the start as it is and False where Newton found none."""
    states = consistent_states(problem, np.full(STATES, t), np.tile(x, (STATES, 1)))[0]
    repaired = bool(np.isfinite(states).all())
    return (states if repaired else x), repaired


def _trials(t: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """STATES times from t on, and states near x and far from it, in which noise is looked for."""
    rng = np.random.default_rng(6)
    times = t + np.append(0.0, 10.0 ** rng.uniform(-3.0, 3.0, STATES - 1))
    reach = 10.0 ** rng.uniform(-1.0, 2.0, (STATES, 1)) * (1.0 + np.abs(x))
    return times, x + reach * rng.standard_normal((STATES, len(x)))


def sparse_consistent(parts: Split, look: Callable, t: float, x: np.ndarray) -> tuple[np.ndarray, bool]:
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


def _noisy(problem: Any, N: np.ndarray, t: float, x: np.ndarray):
    """(constraint, channel) pairs with N g != 0: those that the trace does not exclude, tried at t and later and in
    states near x and far from it. Noise of any size counts, but for sums that cancel."""
    params = problem.example_params()
    with jax.enable_x64(True):
        try:
            noise = dependence(lambda t, x, p: N @ problem.g(t, x, p), np.zeros(()), np.asarray(x), params)
            suspects = list(map(tuple, np.argwhere(~noise.zero).tolist()))
        except Unprintable:
            suspects = list(np.ndindex(len(N), problem.m))
    if not suspects:
        return ()
    values = look(problem, *_trials(t, x)).g
    with np.errstate(invalid="ignore"):  # far away g need not be finite
        values_left, terms = np.abs(N @ values), np.abs(N) @ np.abs(values)
        present = np.any(values_left > CANCELLED * terms, axis=0)
    return tuple((int(i), int(k)) for i, k in suspects if present[i, k])


def _sparse_noisy(problem: Any, parts: Split, t: float, x: np.ndarray) -> tuple[tuple[int, int], ...]:
    """(constraint, channel) pairs with N g != 0, looked for among the places of g."""
    places, params = problem.facts.noise_pattern, problem.example_params()
    if places is not None and not (abs(parts.N) @ places.csr(1.0)).nnz:
        return ()
    values = AtPoints(lambda t, x, p: entries_at(places, problem.multiplier(t, x, p)), (0, 0, None), few=STATES)
    present: set[tuple[int, int]] = set()
    for time, state in zip(*_trials(t, x), strict=True):
        g = _sparse_noise(places, values(np.array([time]), state[None], params)[0])
        left, terms = scipy.sparse.coo_array(abs(parts.N @ g)), scipy.sparse.csr_array(abs(parts.N) @ abs(g))
        with np.errstate(invalid="ignore"):  # far away g need not be finite
            there = left.data > CANCELLED * _at(terms, left)
        present |= set(zip(left.row[there].tolist(), left.col[there].tolist(), strict=True))
    return tuple(sorted(present))


def _at(matrix: Matrix, places: Any) -> np.ndarray:
    """The entries of a matrix at the places that another one stores."""
    return np.asarray(matrix[places.row, places.col]).ravel() if places.nnz else np.zeros(0)


def _rounding(problem: Any, parts: Split, t: float, x: np.ndarray, states: np.ndarray, f_x: np.ndarray) -> np.ndarray:
    """How much of f_x (S, n, n) in these states may be rounding; 0 where the rank at the first, x, does not hang on it.

    A component that cancels within an equation, as in 1e4 (0.3 x) - 3e3 x, leaves a slope of 5e-13 or none, which
    depends on the processor.
    """
    doubtful = DOUBTFUL * np.abs(f_x[0]).max(axis=1, keepdims=True, initial=0.0) * np.ones(len(x))
    if rank_of(parts, f_x[0], x)[0] == rank_of(parts, f_x[0], x, doubtful)[0]:
        return np.zeros_like(f_x)
    params = problem.example_params()
    slopes = Amounts(jax.jacfwd(lambda x: problem.f(np.asarray(t), x, params)))
    (amounts,) = slopes(np.tile(states, (SAMPLES, 1)))
    return amounts.reshape(SAMPLES, *f_x.shape).max(axis=0)


def rank_of(parts: Split, jacobian: np.ndarray, x: np.ndarray, rounding: Any = 0.0) -> tuple[int, float]:
    """The rank and the condition number of N f_x K, rows and columns scaled; slopes that may be rounding are zero."""
    scaled = _dense_scaled(parts, np.where(np.abs(jacobian) > rounding, jacobian, 0.0), x)
    if not scaled.size:
        return 0, 1.0
    size = np.linalg.svd(scaled, compute_uv=False)
    rank = int(np.sum(size > SINGULAR * max(size[0], 1e-300)))
    return rank, float(size[0] / size[-1]) if size[-1] > 0 else np.inf


def _dense_scaled(parts: Split, jacobian: np.ndarray, x: np.ndarray) -> np.ndarray:
    """N f_x K in units in which its rows and columns are of one size, entries that are only rounding set to 0.

    The terms of a constraint are compared as slope times component, so that units do not matter; a
    component that is small at the start may become larger.
    """
    C, size = parts.N @ jacobian @ parts.K, np.maximum(1.0, np.abs(x))
    terms = np.abs(parts.N) @ np.abs(jacobian) @ np.abs(parts.K)
    of_row = (np.abs(parts.N @ jacobian) * size).max(axis=1, initial=0.0)  # where only other components stand
    of_column = (np.abs(parts.K) * size[:, None]).max(axis=0, initial=0.0)
    C = np.where(np.abs(C) > CANCELLED * np.maximum(terms, 1e-3 * of_row[:, None] / of_column), C, 0.0)
    for _ in range(3):
        C = C * _inverse(np.abs(C).max(axis=1, initial=0.0))[:, None]
        C = C * _inverse(np.abs(C).max(axis=0, initial=0.0))
    return C


def _sparse_scaled(parts: Split, f_x: Matrix, x: np.ndarray) -> Matrix:
    """N f_x K in units in which its rows and columns are of one size, entries that are only rounding left out."""
    N, K, size = parts.N, parts.K, np.maximum(1.0, np.abs(x))
    C = scipy.sparse.coo_array(N @ f_x @ K)
    of_row = _largest(scipy.sparse.csr_array(abs(N @ f_x) @ scipy.sparse.diags_array(size)), 1)
    of_column = _largest(scipy.sparse.csr_array(scipy.sparse.diags_array(size) @ abs(K)), 0)
    terms = _at(scipy.sparse.csr_array(abs(N) @ abs(f_x) @ abs(K)), C)
    least = CANCELLED * np.maximum(terms, 1e-3 * of_row[C.row] / of_column[C.col])
    there = ~(np.abs(C.data) <= least)
    return _scaled_to_one(scipy.sparse.csr_array((C.data[there], (C.row[there], C.col[there])), C.shape))


def _why_singular(parts: Split, jacobian, x: np.ndarray, rank: int, constraints, algebraic) -> str:
    """Why the constraint Jacobian is singular, in words."""
    if not np.isfinite(jacobian).all():
        return "the derivative of f with respect to the state is not finite at the start"
    C = _dense_scaled(parts, jacobian, x)
    count = len(constraints)
    words = f"its index is 2 or higher: the {count} constraint(s) {listed(constraints)} "
    words += f"do not determine {listed(algebraic)} (their scaled Jacobian has rank {rank} of {count})"
    silent = [constraints[i] for i in range(count) if not C[i].any()]
    unseen = [algebraic[j] for j in range(count) if not C[:, j].any()]
    if silent:
        words += f"; no algebraic component stands in {listed(silent)}"
    if unseen:
        words += f"; no constraint contains {listed(unseen)}"
        slopes = np.abs(parts.N @ jacobian @ parts.K).max(axis=0)
        tiny = [f"{slopes[j]:.2g} {algebraic[j]}" for j in range(count) if slopes[j] > 0 and not C[:, j].any()]
        if tiny:
            words += f", but for {listed(tiny)}, which beside the other terms is rounding: count it in other units"
    if not silent and not unseen:
        _, _, right = np.linalg.svd(C)
        free = [algebraic[j] for j in np.flatnonzero(np.abs(right[-1]) > 0.1)]
        words += f"; {listed(free)} can move together without being noticed"
    return f"{words}. Differentiate constraints, or choose other variables, until the index is 1"


def _sparse_singular(parts: Split, f_x: Matrix, x: np.ndarray, constraints, algebraic) -> tuple[int, str]:
    """The rank of the constraint Jacobian, by its pattern where it is large, and why it is singular, in words."""
    count = len(constraints)
    if count <= DENSE:
        dense = Split(parts.rows, parts.N.toarray(), parts.K.toarray(), parts.columns)
        rank, _ = rank_of(dense, f_x.toarray(), x)
        return rank, _why_singular(dense, f_x.toarray(), x, rank, constraints, algebraic)
    rank = min(int(scipy.sparse.csgraph.structural_rank(_sparse_scaled(parts, f_x, x))), count - 1)
    return rank, (
        f"its index is 2 or higher: the {count} constraints do not determine the {count} algebraic components (their "
        f"scaled Jacobian has a rank of at most {rank}). Differentiate constraints, or choose other variables, until "
        "the index is 1"
    )


def combination(row: np.ndarray, names: Any) -> str:
    """Σ row_i name_i in words."""
    terms: list[str] = []
    for value, name in zip(row, names, strict=True):
        if value:
            size = "" if abs(abs(value) - 1.0) < 1e-9 else f"{abs(value):.6g} "
            sign = "- " if value < 0 else "+ "
            terms.append((sign if terms else sign.replace("+ ", "").strip()) + size + name)
    return " ".join(terms) or "0"
