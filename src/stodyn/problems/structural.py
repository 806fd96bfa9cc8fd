"""Structures from matrices: M x'' + C x' + K x = load(t) + noise ξ, as finite-element programs write them.

modes=r reduces a structure to x ≈ Φ_r z:   z'' + diag(2 ζ ω) z' + diag(ω²) z = Φ_r' (load + noise ξ)

`kind` below is the class of the problem that is made, problems.mechanical.Structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.problems.calling import call
from stodyn.problems.known_matrices import ConstantNoise, Matrices, Product, Reduction, is_positive
from stodyn.problems.modal import are_equal, damping_matrix, natural_modes

SYMMETRIC = 1e-10  # relative: asymmetry that the rounding of a finite-element program may leave
NEGATIVE = 1e-10  # relative: eigenvalues below minus this are negative; matrices from files have some ten digits


def structure(
    kind: type,
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
) -> Any:
    """Return the structure of `Mechanical.from_matrices`, which describes the arguments."""
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
        kind, Matrices(mass, damper, stiffness), _load(load, N), noise=_noise(noise, N),
        start=(np.zeros(N), np.zeros(N)) if start is None else start, params=params, names=names, units=units,
        accelerations=accelerations,
    )  # fmt: skip
    return whole if modes is None else reduced(whole, modes)


def _structure(kind: type, matrices: Matrices, load, **fields) -> Any:
    """Return the structure with these matrices and this load; further fields are those of its kind."""
    stiffness, damper = Product(matrices.K), Product(matrices.C) if matrices.C.nnz else None

    def force(t, x, v, params):
        total = -stiffness(jnp.atleast_1d(x))
        if damper is not None:
            total = total - damper(jnp.atleast_1d(v))
        if load is not None:
            total = total + jnp.asarray(call(load, t, params=params), total.dtype)
        return jnp.reshape(total, jnp.shape(x))

    return kind(force, mass=matrices.M.toarray(), matrices=matrices, linear_force=force, load=load, **fields)


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
    return ConstantNoise(matrix)


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


def _check_not_negative(name: str, matrix: scipy.sparse.csr_array, otherwise: str) -> None:
    if matrix.nnz == 0:
        return
    size = abs(matrix).max()
    if is_positive(matrix, NEGATIVE * size):
        return
    values, vectors = np.linalg.eigh(matrix.toarray())
    if values[0] < -NEGATIVE * matrix.shape[0] * size:
        count = int((values < -NEGATIVE * matrix.shape[0] * size).sum())
        most = int(np.argmax(np.abs(vectors[:, 0])))
        raise ValueError(
            f"{name}: is negative in {count} direction(s): its lowest eigenvalue is {values[0]:.4g}, and coordinate "
            f"{most} moves most in that direction; {otherwise}"
        )


def reduced(whole: Any, count: int) -> Any:
    """Return a structure in the coordinates of its lowest modes, as `modes` of from_matrices gives it."""
    M, C, K = whole.matrices
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= whole.N:
        raise ValueError(f"modes: expected a whole number from 1 to {whole.N}, got {count!r}")
    ω, Φ = natural_modes(M, K, min(int(count) + 1, whole.N))
    if len(ω) > count and are_equal(ω)[-1]:
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
        if isinstance(function, ConstantNoise):
            return ConstantNoise(Φ.T @ function.matrix)
        return lambda t, z, v, params: Φ.T @ call(function, t, Φ @ z, Φ @ v, params=params)

    load = None if whole.load is None else (lambda t, params: Φ.T @ call(whole.load, t, params=params))
    noise = None if whole.noise is None else of_modes(whole.noise)
    start = tuple(Φ.T @ (M @ np.asarray(part, float)) for part in whole.start)
    names = tuple(f"mode{i + 1}" for i in range(int(count)))
    return _structure(
        type(whole), matrices, load, noise=noise, start=start, params=whole.params, names=names,
        accelerations=whole.accelerations, reduction=Reduction(Φ, ω, whole),
    )  # fmt: skip
