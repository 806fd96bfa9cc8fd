"""The index of M dX = f(t, X) dt + g(t, X) dW: its constraints, consistent starts, and the diagnosis before a run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.numerics.dependence import dependence
from stodyn.numerics.printing.points import AtPoints, at_points
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.rounding import Amounts, of_solution
from stodyn.numerics.sparse import Pattern
from stodyn.problems import describing
from stodyn.problems.contract import sample_params

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
START_TOLERANCE = 1e-13
START_LIMIT = 400  # rounds of Newton for a consistent start: an exponential comes down by one scale per round


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


def split(M: np.ndarray) -> Split:
    """Equations, constraints and algebraic directions of a mass matrix, after its rows and columns have been scaled.

    A zero row of M is a constraint by itself, a zero column an algebraic component. Where rows depend on others without
    a single zero row, each dependent one minus its share of the others is a constraint.
    """
    rows, N = independent_rows(M)
    columns, K = independent_rows(M.T)
    return Split(rows, N, K.T, columns)


def independent_rows(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of rows that span the others, and combinations of rows that vanish, one for each other row."""
    n = len(M)
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


def _inverse(size: np.ndarray) -> np.ndarray:
    return 1.0 / np.where(size > 0.0, size, 1.0)


def evolving(M: np.ndarray, parts: Split) -> np.ndarray:
    """(r, n): the differential components y = evolving x; a component itself where that is possible."""
    RM = M[parts.rows]
    directions = np.linalg.solve(RM[:, parts.columns], RM) if parts.r else RM
    if parts.r:
        directions[np.abs(directions) <= of_solution(RM[:, parts.columns], directions)] = 0.0
    directions[:, parts.columns] = np.eye(parts.r)
    return directions


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


def diagnose(problem: Any, t: float = 0.0) -> Diagnosis:
    """Whether an SDAE is of index 1 at its start at time t, and if not, why.

    Index 1 means that no noise enters the constraints 0 = N f, and that they determine the algebraic components: the
    Jacobian N f_x K is regular. Rows and columns are scaled before a rank is taken. Both are asked at the (consistent)
    start and at random states around it; along the paths of a run the Jacobian is watched by every step.
    """
    parts: Split = problem.facts.split
    constraints = tuple(f"0 = {combination(row, [f'f[{i}]' for i in range(problem.n)])}" for row in parts.N)
    differential, algebraic = components(problem)
    x = problem.example_start()
    if not constraints:
        return Diagnosis(0, "", (), (), 0, 1.0, differential, (), x, dict.fromkeys(problem.components, 0.0))
    start, repaired = _consistent(problem, t, x)
    moved = dict(zip(problem.components, (start - x).tolist(), strict=True))
    offsets = np.random.default_rng(5).standard_normal((STATES, problem.n)) * 0.1 * (1.0 + np.abs(x))
    offsets[0] = 0.0
    looked = look(problem, np.full(STATES, t), start + offsets)
    noisy = _noisy(problem, parts.N, t, start)
    rounding = _rounding(problem, parts, t, start, start + offsets, looked.f_x)
    ranks, conditions = zip(
        *(rank_of(parts, jacobian, start, r) for jacobian, r in zip(looked.f_x, rounding, strict=True)), strict=True
    )
    count = len(parts.N)
    reason = ""
    if noisy:
        reason = noise_in_a_constraint(noisy[0], constraints)
    elif ranks[0] < count:
        slopes = np.where(np.abs(looked.f_x[0]) > rounding[0], looked.f_x[0], 0.0)
        reason = why_singular(parts, slopes, start, ranks[0], constraints, algebraic)
        if repaired and max(ranks) == count:
            reason = singular_at_the_start(constraints, algebraic)
    elif not repaired:
        reason = no_start(f"{x.tolist()}", constraints, t, algebraic)
    return Diagnosis(
        None if reason else 1,
        reason,
        constraints,
        noisy,
        ranks[0],
        conditions[0],
        differential,
        algebraic,
        start,
        moved,
    )


listed = functools.partial(describing.listed, most=LISTED)


def noise_in_a_constraint(noisy: tuple[int, int], constraints: Sequence[str]) -> str:
    """Why a system whose noise enters a constraint is not of index 1."""
    constraint, channel = noisy
    return (
        f"noise channel {channel} enters constraint {constraint}, {constraints[constraint]}, which no process can "
        "then satisfy. Noise may stand only in equations with a derivative: give that component a mass (a "
        "capacitance), or leave the noise of that element out"
    )


def singular_at_the_start(constraints: Sequence[str], algebraic: Sequence[str]) -> str:
    """Why a system that is of index 1 only away from its start cannot be run."""
    return (
        f"the Jacobian of the constraints {listed(constraints)} in {listed(algebraic)} is singular at "
        "the start. Near the start it is regular: the index is lost at this state alone, start elsewhere"
    )


def no_start(start: str, constraints: Sequence[str], t: float, algebraic: Sequence[str]) -> str:
    """Why a start that could not be made consistent cannot be run."""
    return (
        f"the start {start} does not satisfy the constraints {listed(constraints)} at t = {t:g}, and "
        f"Newton found no values of {listed(algebraic)} that do. Give a start nearer to a solution"
    )


def components(problem: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The differential components of an SDAE, or combinations of components, and the algebraic ones, in words."""
    facts, names = problem.facts, problem.components
    if facts.is_large:
        diagnosis = facts.diagnosed()
        return diagnosis.differential, diagnosis.algebraic
    differential = tuple(combination(row, names) for row in facts.evolving)
    algebraic = tuple(combination(column, names) for column in facts.split.K.T)
    return differential, algebraic


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


def _consistent(problem: Any, t: float, x: np.ndarray) -> tuple[np.ndarray, bool]:
    """The consistent start and True, or the start as it is and False where Newton found none."""
    states = consistent_states(problem, np.full(STATES, t), np.tile(x, (STATES, 1)))[0]
    repaired = bool(np.isfinite(states).all())
    return (states if repaired else x), repaired


def _noisy(problem: Any, N: np.ndarray, t: float, x: np.ndarray):
    """(constraint, channel) pairs with N g != 0: those that the trace does not exclude, tried at t and later and in
    states near x and far from it. Noise of any size counts, but for sums that cancel."""
    params = problem.example_params()
    with jax.enable_x64(True):
        try:
            (entries,) = dependence(lambda t, x, p: N @ problem.g(t, x, p), np.zeros(()), np.asarray(x), params)
            suspects = [
                index for index, entry in np.ndenumerate(entries) if isinstance(entry, frozenset) or float(entry) != 0.0
            ]
        except Unprintable:
            suspects = list(np.ndindex(len(N), problem.m))
    if not suspects:
        return ()
    rng = np.random.default_rng(6)
    times = t + np.append(0.0, 10.0 ** rng.uniform(-3.0, 3.0, STATES - 1))
    reach = 10.0 ** rng.uniform(-1.0, 2.0, (STATES, 1)) * (1.0 + np.abs(x))
    values = look(problem, times, x + reach * rng.standard_normal((STATES, len(x)))).g
    with np.errstate(invalid="ignore"):  # far away g need not be finite
        values_left, terms = np.abs(N @ values), np.abs(N) @ np.abs(values)
        present = np.any(values_left > CANCELLED * terms, axis=0)
    return tuple((int(i), int(k)) for i, k in suspects if present[i, k])


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
    scaled = _scaled(parts, np.where(np.abs(jacobian) > rounding, jacobian, 0.0), x)
    if not scaled.size:
        return 0, 1.0
    size = np.linalg.svd(scaled, compute_uv=False)
    rank = int(np.sum(size > SINGULAR * max(size[0], 1e-300)))
    return rank, float(size[0] / size[-1]) if size[-1] > 0 else np.inf


def _scaled(parts: Split, jacobian: np.ndarray, x: np.ndarray) -> np.ndarray:
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


def why_singular(parts: Split, jacobian, x: np.ndarray, rank: int, constraints, algebraic) -> str:
    """Why the constraint Jacobian is singular, in words."""
    if not np.isfinite(jacobian).all():
        return "the derivative of f with respect to the state is not finite at the start"
    C = _scaled(parts, jacobian, x)
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


def combination(row: np.ndarray, names: Any) -> str:
    """Σ row_i name_i in words."""
    terms: list[str] = []
    for value, name in zip(row, names, strict=True):
        if value:
            size = "" if abs(abs(value) - 1.0) < 1e-9 else f"{abs(value):.6g} "
            sign = "- " if value < 0 else "+ "
            terms.append((sign if terms else sign.replace("+ ", "").strip()) + size + name)
    return " ".join(terms) or "0"
