"""The state-space form of an SDAE: the SDE of its differential components, the structure of whose noise is its own."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn.numerics import direct
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.contract import NoiseStructure
from stodyn.problems.facts import Facts
from stodyn.problems.index import (
    CANCELLED,
    STATES,
    consistent_states,
    look,
    noise_slopes,
    sparse_coefficients_at,
    sparse_consistent,
)
from stodyn.problems.operators import Diagonal, Operator, Sparse
from stodyn.problems.structure import (
    PROVED,
    are_equal_in_units,
    checked_kinds,
    commutes,
    kinds_of_operator,
    proved_kinds,
    stated_structure,
    trace_of,
)

DIRECTIONS = 8  # in which noise is tested for commuting
FEW = STATES // 8  # states in which most noise without a structure shows that
CHECKED = f"checked at {STATES} random states"
CHECKED_IN_DIRECTIONS = f"checked in random directions at {DIRECTIONS} random states"


@dataclasses.dataclass(frozen=True, eq=False)
class StateSpace:
    """dY = S R f dt + S R g dW, S = (R M E)⁻¹ and E the columns of the differential components y."""

    problem: Any
    facts: Facts

    @functools.cached_property
    def places(self) -> dict[int, int]:
        """Component -> its place among the differential components, of those that are one by themselves."""
        alone = np.flatnonzero(np.diff(scipy.sparse.csr_array(self.facts.evolving).indptr) == 1)
        return {int(self.facts.split.columns[k]): int(k) for k in alone}

    @functools.cached_property
    def solved_mass(self) -> np.ndarray:
        """S (r, r); its diagonal (r,) where the system is large and S has no more."""
        split = self.facts.split
        block = scipy.sparse.csr_array(self.problem.sparse_mass[split.rows][:, split.columns])
        if self.facts.is_large and block.nnz == np.count_nonzero(block.diagonal()):
            return 1.0 / block.diagonal()
        return np.linalg.inv(block.toarray())

    def solved(self, values: Array) -> Array:
        """S R v of v (n, ...)."""
        S, values = jnp.asarray(self.solved_mass, values.dtype), self.facts.split.equations(values)
        return (values.T * S).T if S.ndim == 1 else S @ values

    def solved_noise(self, g: Any) -> Any:
        """S R g, an operator where g and S allow it."""
        if self.solved_mass.ndim != 1 or not isinstance(g, Diagonal | Sparse):
            return self.solved(g.dense() if isinstance(g, Operator) else g)
        n, r, own = self.problem.n, self.facts.split.r, np.arange(self.problem.n)
        rows, columns = (own, own) if isinstance(g, Diagonal) else (g.rows, g.columns)
        place = np.full(n, -1)
        place[self.facts.split.rows] = np.arange(r)
        solved = np.flatnonzero(place[rows] >= 0)
        values = g.entries[solved] * jnp.asarray(self.solved_mass[place[rows[solved]]], g.entries.dtype)
        if isinstance(g, Diagonal) and r == n:
            return Diagonal(values)
        return Sparse(place[rows[solved]], columns[solved], values, (r, self.problem.m))

    def picked(self, rows: Any, components: Sequence[int]) -> tuple[Array | None, ...]:
        """The rows of these components, None for those that are not differential by themselves."""
        row = rows.row if isinstance(rows, Operator) else rows.__getitem__
        return tuple(row(self.places[i]) if i in self.places else None for i in components)

    def spread(self, moved: Array) -> Array:
        """Values (r,) of the differential components at their places among all, (n,), with zeros elsewhere."""
        nothing = jnp.zeros(self.problem.n, moved.dtype)
        return nothing.at[np.array([*self.places], int)].set(moved[np.array([*self.places.values()], int)])

    def near(self, y: Array) -> Array:
        """A state x (n,) whose differential components are y (r,), its algebraic ones those of the start."""
        start = self.facts.diagnosed().start
        change = y - jnp.asarray(self.facts.evolving @ start, y.dtype)
        return jnp.asarray(start, y.dtype).at[self.facts.split.columns].add(change)

    def state(self, t, y: Array, params) -> Array:
        """The state x (n,) at time t whose differential components are y (r,): (y, F(t, y))."""
        return self.problem.consistent(t, self.near(y), params)


def find_noise_structure(problem: Any) -> NoiseStructure:
    """Return the structure of the noise in the state-space form, and how it is known."""
    if problem.structure is not None:
        return stated_structure(problem.structure, problem.known.noise)
    scalar = ("scalar",) if problem.m == 1 else ()
    example = problem.example_start(), problem.example_params()
    with jax.enable_x64(True):
        proved, _ = (
            kinds_of_operator(problem.multiplier, *example)
            if problem.is_operator
            else proved_kinds(trace_of(problem.g, *example))
        )
    if "additive" in proved:
        return NoiseStructure(("additive", *scalar, "commutative"), PROVED)
    if scalar:
        return NoiseStructure(("scalar", "commutative"), PROVED)
    if problem.facts.is_large:
        return NoiseStructure(("commutative",) if _commutes_in_directions(problem) else (), CHECKED_IN_DIRECTIONS)
    sampled = _sampled_noise(problem)
    values, slopes = _in_free_directions(*(part[:FEW] for part in sampled))
    if not checked_kinds(values, slopes) and len(values) == FEW and not commutes(values, slopes):
        return NoiseStructure((), CHECKED)
    values, slopes = _in_free_directions(*sampled)
    special = checked_kinds(values, slopes)
    if special or commutes(values, slopes):
        return NoiseStructure((*special, "commutative"), CHECKED)
    return NoiseStructure((), CHECKED)


def _sampled_noise(problem: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R g (states, r, m), its derivative (states, r, m, n) in x, and [R M; N f_x] (states, n, n), in consistent states
    around the start."""
    rng = np.random.default_rng(2024)
    n, x = problem.n, problem.facts.diagnosed().start
    reach = 10.0 ** rng.uniform(-2, 0, (STATES, 1)) * (1.0 + np.abs(x))
    times = 10.0 ** rng.uniform(-2, 2, STATES)
    states = consistent_states(problem, times, x + reach * rng.standard_normal((STATES, n)))
    looked = look(problem, times, states)
    rows, N, *_ = problem.facts.split
    r = len(rows)
    matrices = np.concatenate([np.broadcast_to(problem.mass_matrix[rows], (STATES, r, n)), N @ looked.f_x], axis=1)
    return looked.g[:, rows], noise_slopes(problem, times, states)[:, rows], matrices


def _in_free_directions(
    values: np.ndarray, g_x: np.ndarray, matrices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """R g (states, r, m) and its derivative (states, r, m, r) in R M x, in the states in which both are finite."""
    r, n = values.shape[1], matrices.shape[2]
    sound = np.isfinite(matrices).all((1, 2)) & (np.linalg.cond(np.nan_to_num(matrices)) < 1e14)
    matrices = np.where(sound[:, None, None], matrices, np.eye(n))
    size = np.abs(matrices).max(axis=2, keepdims=True)
    inverse = np.linalg.inv(matrices / size) / size.mT
    along = inverse[..., :r]
    # elimination gives the inverse of a matrix A + δA, |δA| <= 3 n ε |A|, which differs by A⁻¹ δA A⁻¹
    doubt = 3.0 * n * np.finfo(float).eps * np.abs(inverse) @ np.abs(matrices) @ np.abs(along)
    slopes = g_x @ along[:, None]
    rounding = np.abs(g_x) @ (CANCELLED * np.abs(along) + doubt)[:, None]
    slopes = np.where(np.abs(slopes) > rounding, slopes, 0.0)
    values = np.where(sound[:, None, None], values, np.nan)
    finite = np.isfinite(values).all((1, 2)) & np.isfinite(slopes).all((1, 2, 3))
    return values[finite], slopes[finite]


def _commutes_in_directions(problem: Any) -> bool:
    """Whether noise commutes in the state-space form: ∂(g b)/∂x v(a) = ∂(g a)/∂x v(b) for random a and b in some
    consistent states, v(a) being the motion that R M v = R g a and the constraints' N f_x v = 0 leave."""
    parts, look, params = problem.facts.split, sparse_coefficients_at(problem), problem.example_params()
    RM, x, rng = problem.sparse_mass[parts.rows], problem.facts.diagnosed().start, np.random.default_rng(2024)

    def pushed(t, x, p, w):
        return problem.push(problem.multiplier(t, x, p), w)

    def both(t, x, p, v, a, b):
        return tuple(jax.jvp(lambda x: pushed(t, x, p, w), (x,), (v[k],))[1] for k, w in ((0, b), (1, a)))

    push, slopes = (AtPoints(f, (0, 0, None, *(0,) * more), few=2 * DIRECTIONS) for f, more in ((pushed, 1), (both, 3)))
    answers = []
    for _ in range(DIRECTIONS):
        t, reach = np.array([10.0 ** rng.uniform(-2, 2)]), 10.0 ** rng.uniform(-2, 0) * (1.0 + np.abs(x))
        state, is_sound = sparse_consistent(parts, look, t[0], x + reach * rng.standard_normal(problem.n))
        a, b = rng.standard_normal((2, 1, problem.m))
        g = np.concatenate([push(t, state[None], params, w) for w in (a, b)])
        right = np.concatenate([g, np.zeros((2, parts.N.shape[0]))], axis=1)
        try:
            along = direct.solved(scipy.sparse.vstack([RM, parts.N @ look(t[0], state).f_x]), right.T).T
        except np.linalg.LinAlgError:
            continue
        one, two = (part[0] for part in slopes(t, state[None], params, along[None], a, b))
        if is_sound and np.isfinite(one).all() and np.isfinite(two).all():
            answers.append(bool(are_equal_in_units(one, two, np.abs(g).max(axis=0), np)))
    return len(answers) > 1 and all(answers)
