"""Linear systems driven by white noise, x' = A x + B_u u(t) + B w with E w(t) w(s)' = Q δ(t - s), as SDE problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.noise.from_normals import FromNormals
from stodyn.numerics import systems, van_loan
from stodyn.problems.sde import SDE

SAME = 1e-12  # relative, by choice above n ε: asymmetry and negative eigenvalues that computed covariances may have


@checks_arguments
def linear(
    A: Any,
    B: ArrayLike | None = None,
    Q: ArrayLike | Callable | None = None,
    *,
    Bu: ArrayLike | None = None,
    u: Callable | ArrayLike | None = None,
    mean: ArrayLike | None = None,
    covariance: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    units: Any = None,
) -> SDE:
    """Make the SDE dx = (A x + B_u u(t)) dt + B √Q dW of a linear system driven by white noise.

    Parameters
    ----------
    A : array (n, n), function of t, or system
        The system matrix; for one component it may be a number. Or a continuous system of python-control or
        scipy.signal, whose states become the components.
    B : array (n, channels), optional
        The noise input matrix; it may be left out for a system, where noise then enters as the system's own input.
    Q : array (channels, channels) or function of t, optional
        The intensity of the white noise, E w(t) w(s)' = Q δ(t - s); the identity by default.
    Bu : array (n, inputs), optional
        The input matrix; the identity by default, and that of a system where B is given besides it.
    u : array (inputs,) or function of t, optional
        The input; none by default.
    mean, covariance : arrays (n,) and (n, n), optional
        The normal law of the start; both are 0 by default.
    names, units : optional
        As for SDE.

    Returns
    -------
    SDE

    Raises
    ------
    ValueError
        If shapes do not fit, Q is not positive definite, or the covariance has negative eigenvalues.

    Examples
    --------
    >>> import stodyn as sd
    >>> oscillator = sd.linear([[0.0, 1.0], [-1.0, -0.2]], [[0.0], [1.0]], names=["x", "v"])
    >>> oscillator.noise_structure.kind
    'additive'
    """
    if systems.is_system(A):
        A, B, Bu = _of_system(A, B, Bu, u)
    if B is None:
        raise ValueError("B: expected the noise input matrix, a column for each channel of noise")
    B = _matrix("B", B)
    n, m = B.shape
    A0 = _matrix("A", _at_zero(A))
    if A0.shape != (n, n):
        raise ValueError(f"A: expected shape ({n}, {n}) for a B of shape {B.shape}, got {A0.shape}")
    Q0 = np.eye(m) if Q is None else intensity(_at_zero(Q), m)
    root = np.linalg.cholesky(Q0)
    m0 = np.zeros(n) if mean is None else np.asarray(mean, float).reshape(n)
    if Bu is not None and u is None:
        raise ValueError("u: expected the input that goes with Bu, a vector or a function of t")
    forced = None if u is None else (np.eye(n) if Bu is None else _matrix("Bu", Bu))

    def drift(t, x):
        matrix = jnp.reshape(jnp.asarray(A(t)), (n, n)) if callable(A) else A0
        force = 0.0 if forced is None else forced @ jnp.atleast_1d(jnp.asarray(u(t) if callable(u) else u))
        return matrix @ x + force

    def diffusion(t, x):
        if not callable(Q):
            return B @ root + jnp.zeros((n, m))
        now = jnp.reshape(jnp.asarray(Q(t)), (m, m))
        return B @ (jnp.sqrt(now) if m == 1 else jnp.linalg.cholesky(now))

    start = m0 if covariance is None else GaussianStart(m0, _matrix("covariance", covariance))
    return SDE(drift, diffusion, start, names=names, units=units)


def _of_system(system: Any, B: Any, Bu: Any, u: Any) -> tuple[np.ndarray, Any, Any]:
    """A, B and B_u of a system of another library; noise enters as its input, or else B says where."""
    if systems.time_step(system):
        raise ValueError(
            f"A: the system is discrete in time (dt={system.dt!r}), but an SDE is continuous; give the continuous one, "
            "or make it a part of a loop by stodyn.parts.linear"
        )
    own = systems.matrices("A", system)
    if B is None:
        if u is not None:
            raise ValueError("B: expected the noise input matrix, since the system's own input is u")
        return own.A, own.B, Bu
    return own.A, B, own.B if Bu is None and u is not None else Bu


def _at_zero(matrix: ArrayLike | Callable) -> ArrayLike:
    """A matrix, or the value of a function at t = 0, in double precision."""
    if not callable(matrix):
        return matrix
    with jax.enable_x64(True):
        return matrix(0.0)


def _is_symmetric(Q: np.ndarray) -> bool:
    """Whether Q is symmetric, to SAME of the deviations of a row and a column: an entry that is 0 but for rounding has
    no digits of its own."""
    deviations = np.sqrt(np.abs(Q.diagonal()))
    return bool((np.abs(Q - Q.T) <= SAME * np.maximum(np.abs(Q), np.outer(deviations, deviations))).all())


def intensity(Q: ArrayLike, m: int) -> np.ndarray:
    """Q as a matrix (m, m), refused unless it is symmetric and positive definite."""
    matrix = _matrix("Q", Q)
    if matrix.shape != (m, m) or not _is_symmetric(matrix):
        raise ValueError(f"Q: expected a symmetric matrix of shape ({m}, {m}), one row per channel of B, got\n{matrix}")
    eigenvalues = np.linalg.eigvalsh(matrix)
    if eigenvalues[0] <= m * np.finfo(float).eps * max(eigenvalues[-1], 0.0):
        kind = "indefinite" if eigenvalues[0] < -SAME * abs(eigenvalues).max() else "singular"
        raise ValueError(
            f"Q: {kind}, its eigenvalues are {np.array2string(eigenvalues, precision=4)}; expected all above 0. "
            + (
                "An intensity is a covariance: check its signs."
                if kind == "indefinite"
                else "Leave out the channels that carry no noise of their own: use the columns of B times a root of Q."
            )
        )
    return matrix


class GaussianStart:
    """start(rng, size) of a normal distribution; the covariance may be singular."""

    def __init__(self, mean: np.ndarray, covariance: np.ndarray):
        square = covariance.shape == (len(mean), len(mean))
        values = np.linalg.eigvalsh(covariance) if square else np.array([-1.0])
        if values[0] < -SAME * max(values[-1], 1e-300):
            raise ValueError(
                f"covariance: expected a matrix of shape ({len(mean)}, {len(mean)}) without negative eigenvalues, got\n"
                f"{covariance}"
            )
        self.mean, self.covariance = mean, covariance
        self.root = van_loan.root(covariance)

    def from_normals(self) -> FromNormals:
        """The same law as a function of normals that each path counts off, which other draws than these are."""
        return FromNormals(lambda z: self.mean + self.root @ z, self.root.shape[1])

    def __call__(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return self.mean + rng.standard_normal((size, len(self.mean))) @ self.root.T


def _matrix(name: str, value: Any) -> np.ndarray:
    matrix = np.asarray(value, float)
    matrix = matrix.reshape(1, 1) if matrix.ndim == 0 else matrix
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        hint = " For one column write [[b], ...]." if matrix.ndim == 1 else ""
        raise ValueError(f"{name}: expected a finite matrix, got shape {matrix.shape}:\n{matrix}.{hint}")
    return matrix
