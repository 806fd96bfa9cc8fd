"""Structures from matrices: M x'' + C x' + K x = load(t) + noise ξ, as finite-element programs write them.

modes=r      x ≈ Φ_r z:         z'' + diag(2 ζ ω) z' + diag(ω²) z = Φ_r' (load + noise ξ)
interface=b  x ≈ Ψ x_b + Φ z:   x_b as they are, inner coordinates that follow them at rest, Ψ = -K_ii⁻¹ K_ib, and
             modes with x_b held: Craig and Bampton's reduction (AIAA J. 6, 1968)

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
from stodyn.problems.changing_matrices import NEGATIVE, Changing
from stodyn.problems.known_matrices import ConstantNoise, Matrices, Product, Reduction, is_positive, is_symmetric
from stodyn.problems.modal import are_equal, damping_matrix, natural_modes


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
    interface: Sequence[Any] | None = None,
    symmetric: bool = True,
    accelerations: bool = False,
) -> Any:
    """Return the structure of `Mechanical.from_matrices`, which describes the arguments."""
    mass, stiffness = _matrix("M", M), _matrix("K", K, symmetric)
    N = mass.shape[0]
    if stiffness.shape != mass.shape:
        raise ValueError(f"K: has shape {stiffness.shape}, but M has {mass.shape}; expected the same")
    _check_symmetric("M", mass)
    _check_not_negative("M", mass, "a body pushed one way would be accelerated the other way")
    if symmetric:
        _check_symmetric("K", stiffness)
        _check_not_negative("K", stiffness, "the structure would buckle; an element that pushes away is nonlinear")
    if (C is None) == (damping is None):
        raise ValueError(
            "C, damping: expected one of the two: the matrix C (zeros for none), or damping=('rayleigh', (ω1, ζ1), "
            "(ω2, ζ2)) or ('modal', ζ) with C=None"
        )
    damper = _matrix("C", C, symmetric) if C is not None else damping_matrix(mass, stiffness, damping)
    if damper.shape != mass.shape:
        raise ValueError(f"C: has shape {damper.shape}, but M has {mass.shape}; expected the same")
    if symmetric:
        _check_symmetric("C", damper)
        _check_not_negative("C", damper, "a damper would feed energy in")
    whole = _structure(
        kind, Matrices(mass, damper, stiffness), _load(load, N), noise=_noise(noise, N),
        start=(np.zeros(N), np.zeros(N)) if start is None else start, params=params, names=names, units=units,
        accelerations=accelerations,
    )  # fmt: skip
    if interface is not None:
        return reduced_inside(whole, interface, 0 if modes is None else modes)
    return whole if modes is None else reduced(whole, modes)


def changing_structure(
    kind: type, M: Any, C: Any, K: Any, *, load: Any = None, noise: Any = None, start: Any = None, **options: Any
) -> Any:
    """Return a mechanical system whose matrices are functions of (t[, params]), or constant; `kind` is its class."""
    known = {"damping", "modes", "interface", "symmetric"} & set(options)
    if known - {"symmetric"}:
        raise ValueError(
            f"{sorted(known - {'symmetric'})[0]}: needs matrices that are known, but M, C or K is a function; give C, "
            "and all coordinates"
        )
    checked = options.pop("symmetric", True)
    if C is None:
        raise ValueError("C: expected a matrix or a function of (t[, params]), zeros for no damping")
    matrices = {name: A if callable(A) else _matrix(name, A, False).toarray()
                for name, A in (("M", M), ("C", C), ("K", K))}  # fmt: skip
    sizes = {len(A) for A in matrices.values() if not callable(A)}
    if not sizes and start is None:
        raise ValueError("start: expected (x0, v0), as no matrix is constant and says how many coordinates there are")
    N = np.size(start[0]) if start is not None else max(sizes)
    if sizes - {N}:
        name, A = next((name, A) for name, A in matrices.items() if not callable(A) and len(A) != N)
        raise ValueError(f"{name}: has shape {A.shape}, expected {(N, N)}, a row for each coordinate")
    start = (np.zeros(N), np.zeros(N)) if start is None else start
    force = Changing(matrices, _load(load, N), checked)
    mass = (lambda t, x, v, params: force.at("M", t, params)) if callable(M) else matrices["M"]
    return kind(force, _noise(noise, N), start, mass, **options)


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


def with_load(whole: Any, load: Callable) -> Any:
    """Return a structure with other forces besides its noise than its `load`."""
    return _structure(
        type(whole), whole.matrices, load, noise=whole.noise, start=whole.start, params=whole.params, names=whole.names,
        units=whole.units, accelerations=whole.accelerations, reduction=whole.reduction,
    )  # fmt: skip


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


def _matrix(name: str, value: Any, symmetric: bool = True) -> scipy.sparse.csr_array:
    """A matrix given as numbers, a diagonal, a sparse array, or the name of a Matrix Market file."""
    if isinstance(value, (str, Path)):
        value = read_matrix_market(name, value, symmetric)
    if scipy.sparse.issparse(value):
        matrix = scipy.sparse.csr_array(value)
    else:
        try:
            dense = np.asarray(value)
            dense = dense if np.iscomplexobj(dense) else np.asarray(dense, float)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name}: expected a matrix (N, N), its diagonal (N,), a scipy.sparse array or the name of a Matrix "
                f"Market file, got {type(value).__name__}{_way_out(name, value)}"
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


def _way_out(name: str, value: Any) -> str:
    """What to write in place of what is no matrix of numbers."""
    if isinstance(value, list | tuple | np.ndarray) and any(
        hasattr(entry, "ppf") for entry in np.asarray(value, dtype=object).ravel()
    ):
        return f"; random numbers stand in params={{'k': ...}}, beside a function {name}(t, params) that reads them"
    return "; give rayleigh or modal damping as damping=, with C=None" if name == "C" else ""


def read_matrix_market(name: str, path: str | Path, symmetric: bool = True) -> scipy.sparse.csr_array:
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
    if symmetric and symmetry in ("skew-symmetric", "hermitian"):
        raise ValueError(
            f"{name}: {str(path)!r} holds a {symmetry} matrix, expected a symmetric one; symmetric=False takes others"
        )
    if rows != columns:
        raise ValueError(f"{name}: {str(path)!r} holds a matrix of shape ({rows}, {columns}), expected a square one")
    return scipy.sparse.csr_array(scipy.io.mmread(str(path), spmatrix=False))


def _check_symmetric(name: str, matrix: scipy.sparse.csr_array) -> None:
    if not is_symmetric(matrix):
        off = scipy.sparse.coo_array(abs(matrix - matrix.T))
        worst = int(np.argmax(off.data))
        i, j = int(off.row[worst]), int(off.col[worst])
        raise ValueError(
            f"{name}: is not symmetric, entry ({i}, {j}) is {matrix[i, j]:g} and ({j}, {i}) is {matrix[j, i]:g}. If "
            "the file holds one triangle only, add the other: A + A.T - diag(A)"
            f"{'' if name == 'M' else '; if its forces are gyroscopic or circulatory, give symmetric=False'}"
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


def _between_shapes(A: scipy.sparse.csr_array, Φ: np.ndarray) -> scipy.sparse.csr_array:
    """Φ'AΦ; what couples shapes by no more than rounding of the product and of the shapes, N ε of its terms, is 0."""
    product = Φ.T @ (A @ Φ)
    rounding = 2 * len(Φ) * np.finfo(float).eps * (np.abs(Φ).T @ (abs(A) @ np.abs(Φ)))
    is_there = (np.abs(product) > rounding) | np.eye(len(product), dtype=bool)
    return scipy.sparse.csr_array(np.where(is_there, product, 0.0))


def reduced(whole: Any, count: int) -> Any:
    """Return a structure in the coordinates of its lowest modes, as `modes` of from_matrices gives it."""
    M, C, K = whole.matrices
    _check_count(count, 1, whole.N)
    ω, Φ = natural_modes(M, K, min(int(count) + 1, whole.N))
    _check_apart(ω, count, M, K)
    ω, Φ = ω[:count], Φ[:, :count]
    masses, stiffnesses = (scipy.sparse.csr_array(np.diag(values)) for values in (np.ones(count), ω**2))
    matrices = Matrices(masses, _between_shapes(C, Φ), stiffnesses)
    start = tuple(Φ.T @ (M @ np.asarray(part, float)) for part in whole.start)
    return _in_shapes(whole, matrices, start, _mode_names(count), Reduction(Φ, ω, whole))


def reduced_inside(whole: Any, interface: Sequence[Any], count: int) -> Any:
    """Return a structure in its coordinates at an interface and its lowest modes with the interface held, as
    `interface` of from_matrices gives it."""
    M, C, K = whole.matrices
    if not is_symmetric(K):
        raise ValueError("interface: K is not symmetric, but the shapes of a reduction are those of a symmetric K")
    held = _places(interface, whole.coordinates)
    inner = np.setdiff1d(np.arange(whole.N), held)
    _check_count(count, 0, len(inner))
    inside, between = K[inner][:, inner], K[inner][:, held]
    shapes = np.zeros((whole.N, len(held) + count))
    shapes[held, np.arange(len(held))] = 1.0
    ω = np.zeros(0)
    if len(inner):
        if not is_positive(scipy.sparse.csr_array(inside)):
            raise ValueError("interface: the structure can move while these coordinates are held; add some to hold it")
        shapes[inner, : len(held)] = -np.linalg.solve(inside.toarray(), between.toarray())
    if count:
        ω, Φ = natural_modes(M[inner][:, inner], inside, min(int(count) + 1, len(inner)))
        _check_apart(ω, count, M[inner][:, inner], inside)
        ω, shapes[inner, len(held) :] = ω[:count], Φ[:, :count]
    matrices = Matrices(*(_between_shapes(A, shapes) for A in (M, C, K)))
    to_start = np.linalg.solve(matrices.M.toarray(), shapes.T @ M.toarray())
    names = (*(whole.coordinates[i] for i in held), *_mode_names(count))
    start = tuple(to_start @ np.asarray(part, float) for part in whole.start)
    return _in_shapes(whole, matrices, start, names, Reduction(shapes, ω, whole, len(held)))


def _places(interface: Sequence[Any], names: Sequence[str]) -> np.ndarray:
    """The numbers of the coordinates of an interface, given by numbers or names."""
    unknown = [one for one in interface if one not in names and one not in range(len(names))]
    if isinstance(interface, str) or not len(interface) or unknown:
        raise ValueError(f"interface: expected names or numbers of coordinates, such as {list(names[:2])}, got "
                         f"{interface!r}")  # fmt: skip
    places = [list(names).index(one) if isinstance(one, str) else int(one) for one in interface]
    if len(set(places)) != len(places):
        raise ValueError(f"interface: names a coordinate twice, got {interface!r}")
    return np.asarray(places)


def _check_count(count: Any, least: int, most: int) -> None:
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not least <= count <= most:
        raise ValueError(f"modes: expected a whole number from {least} to {most}, got {count!r}")


def _check_apart(ω: np.ndarray, count: int, M: scipy.sparse.csr_array, K: scipy.sparse.csr_array) -> None:
    """Refuse to separate modes of one frequency."""
    if len(ω) > count and are_equal(ω, M, K)[-1]:
        raise ValueError(
            f"modes: {count} separates modes {count} and {count + 1}, which have the same frequency {ω[-1]:.6g}, so "
            "that their shapes are not determined; take fewer or more of them"
        )


def _mode_names(count: int) -> tuple[str, ...]:
    return tuple(f"mode{i + 1}" for i in range(int(count)))


def _in_shapes(whole: Any, matrices: Matrices, start: Any, names: Sequence[str], reduction: Reduction) -> Any:
    """Return the structure with these matrices in the coordinates z of x ≈ Φ z."""
    Φ = reduction.shapes

    def of_shapes(function: Callable) -> Callable:
        if isinstance(function, ConstantNoise):
            return ConstantNoise(Φ.T @ function.matrix)
        return lambda t, z, v, params: Φ.T @ call(function, t, Φ @ z, Φ @ v, params=params)

    load = None if whole.load is None else (lambda t, params: Φ.T @ call(whole.load, t, params=params))
    noise = None if whole.noise is None else of_shapes(whole.noise)
    return _structure(
        type(whole), matrices, load, noise=noise, start=start, params=whole.params, names=names,
        accelerations=whole.accelerations, reduction=reduction,
    )  # fmt: skip
