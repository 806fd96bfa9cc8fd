"""Structures from matrices: M x'' + C x' + K x = load(t) + noise ξ, as finite-element programs write them.

Rayleigh damping  C = a_M M + a_K K,          ζ(ω) = a_M/2ω + a_K ω/2
modal damping     C = M Φ diag(2 ζ ω) Φ' M,   K Φ = M Φ diag(ω²), Φ' M Φ = 1
modes=r           x ≈ Φ_r z,                  z'' + diag(2 ζ ω) z' + diag(ω²) z = Φ_r' (load + noise ξ)
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn.arguments import checks_arguments, stacklevel_of_user
from stodyn.noise.coloured import Coloured
from stodyn.numerics.elimination import WRITTEN_OUT
from stodyn.numerics.sparse import Elimination, Pattern, find_order
from stodyn.problems.calling import call
from stodyn.problems.contract import NoiseStructure
from stodyn.problems.driven_mechanical import DrivenMechanical, driven_mechanical
from stodyn.problems.inertia import Inertia
from stodyn.problems.mechanical import ADDITIVE_LINEAR, CONSTANT_UNDAMPED, Facts, Mechanical
from stodyn.warnings import Overdamped

SYMMETRIC = 1e-10  # relative: asymmetry that the rounding of a finite-element program may leave
NEGATIVE = 1e-10  # relative: eigenvalues below minus this are negative; matrices from files have some ten digits
SAME = 1e-8  # relative: frequencies no farther apart count as one, since their shapes turn into each other by rounding
FULL = 0.25  # of the places of a matrix: a fuller one is multiplied as a dense one
UNEVEN = 4  # rows that are this many times longer than the mean are not filled up with zeros


class Product:
    """x -> A x in JAX, for a constant matrix: dense, by rows filled up to one length, or entry by entry."""

    def __init__(self, matrix: scipy.sparse.csr_array):
        n = matrix.shape[0]
        lengths = np.diff(matrix.indptr)
        width = int(lengths.max(initial=0))
        self.dense = self.columns = None
        if n <= WRITTEN_OUT or matrix.nnz > FULL * n * n:
            self.dense = matrix.toarray()
        elif width <= UNEVEN * max(matrix.nnz / n, 1.0):
            self.columns, self.values = np.zeros((width, n), np.int32), np.zeros((width, n))
            rows = np.repeat(np.arange(n), lengths)
            place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
            self.columns[place, rows], self.values[place, rows] = matrix.indices, matrix.data
        else:
            self.entries = scipy.sparse.coo_array(matrix)

    def __call__(self, x: Array) -> Array:
        if self.dense is not None:
            return jnp.asarray(self.dense, x.dtype) @ x
        if self.columns is not None:
            parts = (jnp.asarray(v, x.dtype) * x[c] for v, c in zip(self.values, self.columns, strict=True))
            return sum(parts, jnp.zeros_like(x))
        entries = self.entries
        products = jnp.asarray(entries.data, x.dtype) * x[entries.col]
        return jnp.zeros_like(x).at[entries.row].add(products)


class Matrices(NamedTuple):
    """M, C and K (N, N) of a structure, symmetric, in SciPy's compressed rows."""

    M: Any
    C: Any
    K: Any


class Reduction(NamedTuple):
    """A modal reduction: shapes Φ (N, r) with Φ' M Φ = 1, frequencies ω (r,), and the structure that was reduced."""

    shapes: np.ndarray
    frequencies: np.ndarray
    whole: Any

    def coordinates(self, z: Any) -> Any:
        """x ≈ Φ z of modal coordinates (..., r)."""
        return z @ self.shapes.T


@dataclasses.dataclass(frozen=True, eq=False)
class Structure(Mechanical):
    """A mechanical system whose matrices are known; made by `Mechanical.from_matrices`.

    matrices   M, C, K of the coordinates of this problem
    linear_force  the force load(t) - K x - C v: where `force` is exactly that, a step is one linear system
    reduction  the modal reduction that made it; None where it is not reduced
    load       the right-hand side besides noise: a function of (t[, params]), or None
    """

    matrices: Any = None
    linear_force: Any = None
    reduction: Any = None
    load: Any = None

    def __post_init__(self):
        super().__post_init__()
        if not np.array_equal(self.matrices.M.toarray(), self.mass_matrix):
            raise ValueError("mass: differs from the given M; make a new structure with Mechanical.from_matrices")

    @property
    def is_linear(self) -> bool:
        """Whether nothing but load(t) - K x - C v acts."""
        return self.force is self.linear_force

    @property
    def mass_matrix(self):
        return self.mass  # from_matrices has checked it

    @functools.cached_property
    def inertia(self) -> Inertia | None:
        M = self.matrices.M
        if self.mass_matrix is None or not _is_positive(M):
            return super().inertia
        return _SparseInertia(self.mass_matrix, M)

    @functools.cached_property
    def facts(self) -> Facts:
        if not self.is_linear or (self.m and getattr(self.noise, "matrix", None) is None):
            return super().facts
        return Facts(False, False, False, self.matrices.C.nnz > 0, True)

    @functools.cached_property
    def has_constant_slopes(self) -> bool:
        return self.is_linear or super().has_constant_slopes

    @functools.cached_property
    def noise_structure(self) -> NoiseStructure:
        if self.m == 0 or getattr(self.noise, "matrix", None) is None or not self.is_regular:
            return super().noise_structure
        kinds = ("additive", *(("scalar",) if self.m == 1 else ()), "commutative")
        if self.is_linear:
            kinds = (*kinds, ADDITIVE_LINEAR, *((CONSTANT_UNDAMPED,) if not self.facts.force_on_v else ()))
        return NoiseStructure(kinds, "its matrix is constant")

    @functools.cached_property
    def step_matrices(self) -> tuple[Elimination, np.ndarray, np.ndarray, np.ndarray] | None:
        """How a M + b C + c K is eliminated for any a, b, c > 0, and the entries of M, C, K at its places; None where
        the structure is small, not linear, without inertia somewhere, or where elimination fills the matrix up."""
        if self.N <= WRITTEN_OUT or not self.is_linear or not self.is_regular:
            return None
        M, C, K = (scipy.sparse.csr_array(abs(matrix)) for matrix in self.matrices)
        coo = scipy.sparse.coo_array(M + C + K + scipy.sparse.eye_array(self.N))
        order = np.lexsort((coo.col, coo.row))
        rows, columns = coo.row[order], coo.col[order]
        entries = [np.asarray(A[rows, columns]).ravel() for A in self.matrices]
        stiff = abs(entries[0]).max() / max(abs(entries[2]).max(), 1e-300)
        samples = np.array([entries[0] + a * stiff * entries[2] for a in (1e-3, 1.0, 1e3)])
        elimination = find_order(Pattern(rows, columns, (self.N, self.N)), samples)
        return None if elimination is None else (elimination, entries[0], entries[1], entries[2])


class _SparseInertia(Inertia):
    """A regular mass whose entries are few."""

    def __init__(self, M: np.ndarray, sparse: Any):
        super().__init__(M)
        object.__setattr__(self, "sparse", sparse)
        object.__setattr__(self, "product", Product(sparse))

    @property
    def r(self) -> int:
        return len(self.M)

    @property
    def is_regular(self) -> bool:
        return True

    def times(self, a: Array) -> Array:
        return super().times(a) if self.diagonal is not None else self.product(a)  # type: ignore[attr-defined]

    def solve(self, right: Array) -> Array:
        if self.diagonal is not None or len(self.M) <= WRITTEN_OUT or self._sparse_solve is None:
            return super().solve(right)
        solve = self._sparse_solve
        return solve(right) if right.ndim == 1 else jnp.stack([solve(column) for column in right.T], axis=1)

    @functools.cached_property
    def _sparse_solve(self) -> Callable[[Array], Array] | None:
        sparse = self.sparse  # type: ignore[attr-defined]
        rows = np.repeat(np.arange(len(self.M)), np.diff(sparse.indptr))
        elimination = find_order(Pattern(rows, sparse.indices, sparse.shape), sparse.data[None])
        return None if elimination is None else elimination.factorised_once(sparse.data)


# --- from matrices ----------------------------------------------------------------------------------------------------


def structure(
    M: Any,
    C: Any,
    K: Any,
    *,
    damping: Sequence[Any] | None = None,
    load: Any = None,
    noise: Any = None,
    start: Any = None,
    params: Any = None,
    names: Sequence[str] | None = None,
    units: Any = None,
    modes: int | None = None,
    accelerations: bool = False,
) -> Structure:
    """The structure of `Mechanical.from_matrices`, which describes the arguments."""
    mass, stiffness = _matrix("M", M), _matrix("K", K)
    N = mass.shape[0]
    if stiffness.shape != mass.shape:
        raise ValueError(f"K: has shape {stiffness.shape}, but M has {mass.shape}; expected the same")
    _check_symmetric("M", mass)
    _check_symmetric("K", stiffness)
    _check_not_negative("M", mass, "a body pushed one way would be accelerated the other way")
    _check_not_negative("K", stiffness, "the structure would buckle; an element that pushes away is a nonlinear one")
    if (C is None) == (damping is None):
        raise ValueError(
            "C, damping: expected one of the two: the matrix C (zeros for none), or damping=('rayleigh', (ω1, ζ1), "
            "(ω2, ζ2)) or ('modal', ζ) with C=None"
        )
    damper = _matrix("C", C) if C is not None else damping_matrix(mass, stiffness, damping)
    if damper.shape != mass.shape:
        raise ValueError(f"C: has shape {damper.shape}, but M has {mass.shape}; expected the same")
    _check_symmetric("C", damper)
    _check_not_negative("C", damper, "a damper would feed energy in")
    whole = _structure(
        Matrices(mass, damper, stiffness), _load(load, N), noise=_noise(noise, N),
        start=(np.zeros(N), np.zeros(N)) if start is None else start, params=params, names=names, units=units,
        accelerations=accelerations,
    )  # fmt: skip
    return whole if modes is None else reduced(whole, modes)


def _structure(matrices: Matrices, load, **fields) -> Structure:
    """The structure with these matrices and this load; further fields are those of Structure."""
    stiffness, damper = Product(matrices.K), Product(matrices.C) if matrices.C.nnz else None

    def force(t, x, v, params):
        total = -stiffness(jnp.atleast_1d(x))
        if damper is not None:
            total = total - damper(jnp.atleast_1d(v))
        if load is not None:
            total = total + jnp.asarray(call(load, t, params=params), total.dtype)
        return jnp.reshape(total, jnp.shape(x))

    return Structure(force, mass=matrices.M.toarray(), matrices=matrices, linear_force=force, load=load, **fields)


class _ConstantNoise:
    """noise(t, x, v) -> a constant matrix."""

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix

    def __call__(self, t, x, v):
        return jnp.asarray(self.matrix, jnp.asarray(x).dtype)


def _load(load: Any, N: int) -> Callable | None:
    if load is None or callable(load):
        return load
    vector = np.asarray(load, float)
    if vector.shape != (N,) or not np.isfinite(vector).all():
        raise ValueError(f"load: expected {N} finite numbers or a function load(t[, params]), got shape {vector.shape}")
    return lambda t: jnp.asarray(vector)


def _noise(noise: Any, N: int) -> Any:
    if noise is None or callable(noise):
        return noise
    matrix = np.asarray(noise, float)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or len(matrix) != N or matrix.shape[1] == 0 or not np.isfinite(matrix).all():
        raise ValueError(
            f"noise: expected a finite matrix ({N}, channels), a vector ({N},) for one channel, or a function of (t, "
            f"x, v[, params]), got shape {matrix.shape}"
        )
    return _ConstantNoise(matrix)


def _matrix(name: str, value: Any) -> scipy.sparse.csr_array:
    """A matrix given as numbers, a diagonal, a sparse array, or the name of a Matrix Market file."""
    if isinstance(value, (str, Path)):
        value = read_matrix_market(name, value)
    if scipy.sparse.issparse(value):
        matrix = scipy.sparse.csr_array(value)
    else:
        try:
            dense = np.asarray(value)
            dense = dense if np.iscomplexobj(dense) else np.asarray(dense, float)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name}: expected a matrix (N, N), its diagonal (N,), a scipy.sparse array or the name of a Matrix "
                f"Market file, got {type(value).__name__}"
                f"{'; give rayleigh or modal damping as damping=, with C=None' if name == 'C' else ''}"
            ) from error
        matrix = scipy.sparse.csr_array(np.diag(dense) if dense.ndim == 1 else np.atleast_2d(dense))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"{name}: expected a square matrix, got shape {matrix.shape}")
    if np.iscomplexobj(matrix):
        raise ValueError(
            f"{name}: holds complex numbers, expected real ones; for the losses of a complex stiffness K (1 + i η) "
            "give modal damping with the ratio η/2"
        )
    matrix = scipy.sparse.csr_array(matrix, dtype=float)
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{name}: holds numbers that are not finite")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def read_matrix_market(name: str, path: str | Path) -> scipy.sparse.csr_array:
    """The real matrix of a Matrix Market file; other kinds are refused by name."""
    try:
        rows, columns, _, layout, field, symmetry = scipy.io.mminfo(str(path))
    except FileNotFoundError:
        raise FileNotFoundError(f"{name}: there is no file {str(path)!r}") from None
    except Exception as error:
        raise ValueError(f"{name}: {str(path)!r} is not a Matrix Market file ({error})") from error
    if field not in ("real", "integer", "double", "unsigned-integer"):
        raise ValueError(
            f"{name}: {str(path)!r} holds a {field} matrix ({layout}, {symmetry}), expected real numbers"
            + ("; a pattern gives the places of entries, not their values" if field == "pattern" else "")
        )
    if symmetry in ("skew-symmetric", "hermitian"):
        raise ValueError(f"{name}: {str(path)!r} holds a {symmetry} matrix, expected a symmetric one")
    if rows != columns:
        raise ValueError(f"{name}: {str(path)!r} holds a matrix of shape ({rows}, {columns}), expected a square one")
    return scipy.sparse.csr_array(scipy.io.mmread(str(path), spmatrix=False))


def _check_symmetric(name: str, matrix: scipy.sparse.csr_array) -> None:
    off = scipy.sparse.coo_array(abs(matrix - matrix.T))
    if off.nnz and off.data.max() > SYMMETRIC * abs(matrix).max():
        worst = int(np.argmax(off.data))
        i, j = int(off.row[worst]), int(off.col[worst])
        raise ValueError(
            f"{name}: is not symmetric, entry ({i}, {j}) is {matrix[i, j]:g} and ({j}, {i}) is {matrix[j, i]:g}. If "
            "the file holds one triangle only, add the other: A + A.T - diag(A)"
        )


def _is_positive(matrix: scipy.sparse.csr_array, shift: float = 0.0) -> bool:
    """Whether a symmetric matrix + shift is positive definite, by Cholesky in an order that makes it narrow."""
    shifted = scipy.sparse.csr_array(matrix + shift * scipy.sparse.eye_array(matrix.shape[0]))
    diagonal = shifted.diagonal()
    if diagonal.min() <= 0.0:
        return False
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(shifted, symmetric_mode=True)
    scale = 1.0 / np.sqrt(diagonal)
    narrow = scipy.sparse.coo_array((shifted * scale * scale[:, None])[order][:, order])
    width = int(abs(narrow.row - narrow.col).max(initial=0))
    band = np.zeros((width + 1, len(diagonal)))
    lower = narrow.row >= narrow.col
    band[(narrow.row - narrow.col)[lower], narrow.col[lower]] = narrow.data[lower]
    try:
        factor = scipy.linalg.cholesky_banded(band, lower=True)
    except np.linalg.LinAlgError:
        return False
    return bool(factor[0].min() > 1e-7)


def _check_not_negative(name: str, matrix: scipy.sparse.csr_array, otherwise: str) -> None:
    if matrix.nnz == 0:
        return
    size = abs(matrix).max()
    if _is_positive(matrix, NEGATIVE * size):
        return
    values, vectors = np.linalg.eigh(matrix.toarray())
    if values[0] < -NEGATIVE * matrix.shape[0] * size:
        count = int((values < -NEGATIVE * matrix.shape[0] * size).sum())
        most = int(np.argmax(np.abs(vectors[:, 0])))
        raise ValueError(
            f"{name}: is negative in {count} direction(s): its lowest eigenvalue is {values[0]:.4g}, and coordinate "
            f"{most} moves most in that direction; {otherwise}"
        )


# --- damping and modes ------------------------------------------------------------------------------------------------


def damping_matrix(M: scipy.sparse.csr_array, K: scipy.sparse.csr_array, damping: Any) -> scipy.sparse.csr_array:
    """C from damping ratios."""
    kind = damping[0] if isinstance(damping, Sequence) and damping else None
    if kind == "rayleigh" and len(damping) == 3:
        a_M, a_K = _rayleigh(damping[1:])
        if min(a_M, a_K) < 0.0:
            ω = _modes(M, K)[0]
            ζ = 0.5 * a_M / np.maximum(ω, 1e-300) + 0.5 * a_K * ω
            if ζ.min() < -1e-12 * ζ.max():  # a ratio of 0 at a frequency of the structure is 0 but for rounding
                raise ValueError(
                    f"damping: the ratio at ω = {ω[np.argmin(ζ)]:.4g}, a frequency of the structure, would be "
                    f"{ζ.min():.4g}. Give the ratios at frequencies that enclose the structure's, or modal damping"
                )
        return scipy.sparse.csr_array(a_M * M + a_K * K)
    if kind == "modal" and len(damping) == 2:
        ω, Φ = _modes(M, K)
        ζ = _ratios(damping[1], len(ω))
        unclear = np.flatnonzero(_equal(ω) & (np.diff(ζ) != 0.0))
        if len(unclear):
            i = int(unclear[0])
            raise ValueError(
                f"damping: modes {i + 1} and {i + 2} have the same frequency {ω[i]:.6g} but the ratios {ζ[i]:g} and "
                f"{ζ[i + 1]:g}; their shapes are not determined, and so C would not be. Give them the same ratio, or C"
            )
        shapes = M @ Φ
        return scipy.sparse.csr_array(shapes * (2.0 * ζ * ω) @ shapes.T)
    raise ValueError(
        f"damping: expected ('rayleigh', (ω1, ζ1), (ω2, ζ2)) or ('modal', ζ), ζ a number or one per mode, got "
        f"{damping!r}"
    )


def _rayleigh(points: Sequence[Any]) -> tuple[float, float]:
    try:
        (ω1, ζ1), (ω2, ζ2) = ((float(a), float(b)) for a, b in points)
    except (TypeError, ValueError):
        raise ValueError(f"damping: expected two pairs (ω, ζ), got {points!r}") from None
    if not (ω1 > 0 and ω2 > 0 and ω1 != ω2 and ζ1 >= 0 and ζ2 >= 0) or not np.isfinite([ω1, ω2, ζ1, ζ2]).all():
        raise ValueError(f"damping: expected two different frequencies > 0 with ratios >= 0, got {points!r}")
    _warn_of_percents(max(ζ1, ζ2))
    a_M, a_K = np.linalg.solve([[0.5 / ω1, 0.5 * ω1], [0.5 / ω2, 0.5 * ω2]], [ζ1, ζ2])
    return float(a_M), float(a_K)


def _ratios(value: Any, count: int) -> np.ndarray:
    ζ = np.asarray(value, float)
    if ζ.ndim > 1 or (ζ.ndim == 1 and len(ζ) != count) or not np.isfinite(ζ).all() or (ζ < 0).any():
        raise ValueError(f"damping: expected a ratio >= 0, or {count} of them, one per mode, got {value!r}")
    _warn_of_percents(float(ζ.max(initial=0.0)))
    return np.broadcast_to(ζ, (count,))


def _warn_of_percents(ζ: float) -> None:
    """Warn where a damping ratio is above 1, as a percentage would be."""
    if ζ > 1.0:
        warnings.warn(
            f"damping: the ratio {ζ:g} is {100.0 * ζ:g} % of critical damping, so that its mode creeps back and does "
            f"not swing. Ratios are not percentages: {ζ:g} % is {ζ / 100.0:g}.",
            Overdamped,
            stacklevel=stacklevel_of_user(),
        )


def _modes(M: scipy.sparse.csr_array, K: scipy.sparse.csr_array, count: int | None = None):
    """Frequencies ω (r,), ascending, and shapes Φ (N, r) with Φ' M Φ = 1, those of the lowest frequencies."""
    if not _is_positive(M):
        raise ValueError("M: is singular, but modes need inertia in every coordinate; leave out the massless ones")
    N = M.shape[0]
    chosen = None if count is None or count == N else (0, count - 1)
    values, shapes = scipy.linalg.eigh(K.toarray(), M.toarray(), subset_by_index=chosen)
    return np.sqrt(np.maximum(values, 0.0)), shapes


def _equal(ω: np.ndarray) -> np.ndarray:
    """Whether each frequency is the next one but for rounding, (r - 1,)."""
    return np.diff(ω) <= SAME * ω[1:]


@checks_arguments
def frequencies(problem: Mechanical) -> np.ndarray:
    """Return the natural frequencies ω of a structure from matrices, in radians per unit of time, ascending.

    Parameters
    ----------
    problem : Mechanical
        A structure of `Mechanical.from_matrices`, with or without coloured loads.

    Returns
    -------
    array, (N,)
    """
    matrices = _known(problem)
    return _modes(matrices.M, matrices.K)[0]


def _known(problem: Any) -> Matrices:
    matrices = getattr(problem.own if isinstance(problem, DrivenMechanical) else problem, "matrices", None)
    if matrices is None:
        raise TypeError("problem: expected a structure made by Mechanical.from_matrices, whose matrices are known")
    return matrices


def reduced(whole: Structure, count: int) -> Structure:
    """The structure in the coordinates of its lowest modes: as `modes` of from_matrices gives it."""
    M, C, K = whole.matrices
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= whole.N:
        raise ValueError(f"modes: expected a whole number from 1 to {whole.N}, got {count!r}")
    ω, Φ = _modes(M, K, min(int(count) + 1, whole.N))
    if len(ω) > count and _equal(ω)[-1]:
        raise ValueError(
            f"modes: {count} separates modes {count} and {count + 1}, which have the same frequency {ω[-1]:.6g}, so "
            "that their shapes are not determined; take fewer or more of them"
        )
    ω, Φ = ω[:count], Φ[:, :count]
    matrices = Matrices(*(scipy.sparse.csr_array(A) for A in (np.eye(count), Φ.T @ (C @ Φ), np.diag(ω**2))))
    for A in matrices:
        A.data[np.abs(A.data) < 1e-12 * max(abs(A).max(), 1e-300)] = 0.0
        A.eliminate_zeros()

    def of_modes(function: Callable) -> Callable:
        if isinstance(function, _ConstantNoise):
            return _ConstantNoise(Φ.T @ function.matrix)
        return lambda t, z, v, params: Φ.T @ call(function, t, Φ @ z, Φ @ v, params=params)

    load = None if whole.load is None else (lambda t, params: Φ.T @ call(whole.load, t, params=params))
    noise = None if whole.noise is None else of_modes(whole.noise)
    start = tuple(Φ.T @ (M @ np.asarray(part, float)) for part in whole.start)
    names = tuple(f"mode{i + 1}" for i in range(int(count)))
    return _structure(
        matrices, load, noise=noise, start=start, params=whole.params, names=names, accelerations=whole.accelerations,
        reduction=Reduction(Φ, ω, whole),
    )  # fmt: skip


# --- base excitation --------------------------------------------------------------------------------------------------


@checks_arguments
def base_excited(
    problem: Mechanical, noise: Any, direction: Any = None, envelope: Callable | None = None
) -> DrivenMechanical:
    """Return a structure on shaking ground: M x'' + C x' + K x = -M ι e(t) a_g(t), x relative to the ground.

    Ground that accelerates to the right pushes the structure on it to the left: hence the sign. The absolute
    acceleration is x'' + ι a_g, for a linear structure -M⁻¹ (C x' + K x); see `responses`.

    Parameters
    ----------
    problem : Mechanical
        A system with a constant mass, made by `Mechanical.from_matrices` or in any other way.
    noise : Coloured
        The acceleration of the ground, with one output, or one for each column of `direction`.
    direction : array (N,) or (N, outputs), optional
        ι: how all coordinates move when the ground moves by 1 and the structure stays rigid. By default ones, as for a
        shear frame; zero for rotations and for coordinates across the motion. For a modal reduction it
        has an entry for every coordinate of the whole structure.
    envelope : function of t, optional
        The strength of the motion over time, such as one of `noise.coloured.envelopes`.

    Returns
    -------
    DrivenMechanical

    Raises
    ------
    ValueError
        If the mass depends on the state, or `direction` does not fit.

    Examples
    --------
    >>> import stodyn as sd
    >>> storey = sd.Mechanical(lambda t, x, v: -25.0 * x - 0.5 * v, None, start=([0.0], [0.0]))
    >>> shaken = sd.base_excited(storey, sd.noise.coloured.kanai_tajimi(15.0, 0.6, sigma=1.0, name="a_g"))
    """
    if not isinstance(problem, Mechanical):
        raise TypeError(f"problem: expected a mechanical system, got {type(problem).__name__}")
    if not isinstance(noise, Coloured):
        raise TypeError(
            "noise: expected coloured noise such as stodyn.noise.coloured.kanai_tajimi(15, 0.6, sigma=1), got "
            f"{type(noise).__name__}"
        )
    if callable(problem.mass):
        raise ValueError("problem: its mass depends on the state; write the force of the moving base into `into`")
    if envelope is not None and not callable(envelope):
        raise TypeError(
            "envelope: expected a function of t, such as noise.coloured.envelopes.jennings(2, 10, 0.5), got "
            f"{envelope!r}. A strength that does not change belongs in the noise, as its sigma"
        )
    own = problem.own if isinstance(problem, DrivenMechanical) else problem
    inertia, N = _inertia_of(own)
    ι = np.ones(N) if direction is None else np.asarray(direction, float)
    if ι.shape not in ((N,), (N, len(noise.names))) or not np.isfinite(ι).all() or not ι.any():
        raise ValueError(
            f"direction: expected {N} finite numbers, or ({N}, {len(noise.names)}), how each coordinate moves with the "
            f"ground, got shape {ι.shape}"
        )
    load = -inertia(ι).reshape(N, -1)
    if load.shape[1] != len(noise.names):
        raise ValueError(
            f"direction: one column for {len(noise.names)} outputs of the noise, {noise.names}; give one per output"
        )
    reduction = getattr(own, "reduction", None)
    into = load if reduction is None else reduction.shapes.T @ load
    driven = driven_mechanical(problem, noise, into if envelope is None else _Enveloped(into, envelope))
    earlier = np.zeros((N, driven.outputs - load.shape[1]))
    if isinstance(problem, DrivenMechanical) and problem.base is not None:
        earlier = problem.base
    base = np.concatenate([earlier, ι.reshape(N, -1)], axis=1)
    if reduction is None or envelope is not None:
        return dataclasses.replace(driven, base=base)
    known = problem.at_nodes if isinstance(problem, DrivenMechanical) else np.zeros((N, 0))
    return dataclasses.replace(
        driven, base=base, at_nodes=None if known is None else np.concatenate([known, load], axis=1)
    )


class _Enveloped:
    """Γ(t) = e(t) Γ."""

    def __init__(self, matrix: np.ndarray, envelope: Callable):
        self.matrix, self.envelope = matrix, envelope

    def __call__(self, t, x, v):
        return jnp.asarray(self.envelope(t)) * jnp.asarray(self.matrix)


def _inertia_of(problem: Mechanical) -> tuple[Callable, int]:
    """ι -> M ι in the coordinates of the problem, of a modal reduction in those of the whole, and how many entries ι
    has."""
    reduction = getattr(problem, "reduction", None)
    if reduction is not None:
        return lambda ι: reduction.whole.matrices.M @ ι, len(reduction.shapes)
    M = np.eye(problem.N) if problem.mass_matrix is None else problem.mass_matrix
    return lambda ι: M @ ι, problem.N


@checks_arguments
def effective_masses(problem: Mechanical, direction: Any = None) -> np.ndarray:
    """The share of the mass ι'Mι that each mode moves in a direction, (r,): (Φ'Mι)²/(ι'Mι); all modes sum to 1.

    Parameters
    ----------
    problem : Mechanical
        A structure from matrices; of a modal reduction, the shares of the modes that it keeps.
    direction : array (N,), optional
        ι; by default ones.

    Returns
    -------
    array
    """
    own = problem.own if isinstance(problem, DrivenMechanical) else problem
    reduction = getattr(own, "reduction", None)
    whole = reduction.whole if reduction is not None else own
    M, _, K = _known(whole)
    ι = np.ones(whole.N) if direction is None else np.asarray(direction, float)
    Φ = reduction.shapes if reduction is not None else _modes(M, K)[1]
    return (Φ.T @ (M @ ι)) ** 2 / float(ι @ (M @ ι))
