"""Stationary laws of linear problems, and their derivatives with respect to parameters, without paths.

    dx = (A x + a) dt + B dW:   m = -A⁻¹ a,   A P + P A' + B B' = 0,   S(f) = T T*,   T = (2πi f - A)⁻¹ B,
of which the derivatives solve equations with the same A:
    A dm = -(dA m + da),   A dP + dP A' + (dA P + P dA' + dB B' + B dB') = 0,   dT = (2πi f - A)⁻¹ (dA T + dB).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.analysis.step.linear import coefficients
from stodyn.arguments import checks_arguments
from stodyn.engine.spec import as_it_is_now
from stodyn.numerics import lyapunov
from stodyn.numerics.printing.points import at_one
from stodyn.problems.contract import written_as
from stodyn.problems.looped import Looped
from stodyn.problems.sde import SDE
from stodyn.problems.structure import is_autonomous
from stodyn.problems.tangents import WithTangents, with_tangents


class Stationary(NamedTuple):
    """A stationary law and its derivatives, the parameters first.

    mean, covariance   (n,) and (n, n); spectrum: (frequencies, n, n), two-sided, where frequencies were given
    parameters         the names of the parameters
    mean_gradient, covariance_gradient, spectrum_gradient  (parameters, ...)
    """

    mean: np.ndarray
    covariance: np.ndarray
    spectrum: np.ndarray | None
    parameters: tuple[str, ...]
    mean_gradient: np.ndarray
    covariance_gradient: np.ndarray
    spectrum_gradient: np.ndarray | None


class _System(NamedTuple):
    """A, a and B, or their derivatives by a parameter."""

    A: np.ndarray
    a: np.ndarray
    B: np.ndarray


@checks_arguments
def stationary(problem: Any, of: str | Sequence[str] = (), frequency: ArrayLike | None = None) -> Stationary:
    """Compute the stationary mean, covariance and spectrum of a linear problem, and their exact gradients.

    Parameters
    ----------
    problem : Problem
        A stable linear SDE with constant coefficients and additive noise, or a problem that can be written as one.
    of : str or sequence of str
        Names among the params, as for `sensitivity`, with respect to which derivatives are taken.
    frequency : array_like, optional
        Frequencies of the spectrum, in cycles per unit of time.

    Returns
    -------
    Stationary

    Raises
    ------
    ValueError
        If the problem is not linear with additive noise, changes with time or is not stable, or a name is unknown.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x: 1.0, 0.0, params={"k": 2.0})
    >>> law = sd.analysis.stationary(decay, of="k")
    >>> law.covariance.item(), law.covariance_gradient.item()  # 1/(2k) and -1/(2k²)
    (0.25, -0.125)
    """
    sde = _additive(problem)
    paths = with_tangents(sde, of) if of else None
    own, slopes = _system(sde), [] if paths is None else _slopes(sde, paths)
    m, P = -np.linalg.solve(own.A, own.a), lyapunov.continuous(own.A, own.B @ own.B.T)
    f = None if frequency is None else np.atleast_1d(np.asarray(frequency, float))
    transfers = None if f is None else [_transfer(own, f_k, own.B) for f_k in f]
    return Stationary(
        m,
        P,
        None if transfers is None else np.array([T @ T.conj().T for T in transfers]),
        () if paths is None else tuple(one.name for one in paths.directions),
        np.array([-np.linalg.solve(own.A, d.A @ m + d.a) for d in slopes]).reshape(-1, *m.shape),
        np.array([_moved(own, d, P) for d in slopes]).reshape(-1, *P.shape),
        None if f is None else _spectra(own, slopes, f, transfers),
    )


def _additive(problem: Any) -> SDE:
    """The problem as a linear SDE with constant coefficients and additive noise."""
    if isinstance(problem, Looped):
        raise TypeError(
            "problem: a loop acts at times of its own, and its law changes between them: stodyn.analysis.sampled(loop) "
            "has it at these times; stodyn.sensitivity(loop, f, of=...) differentiates means along its paths"
        )
    sde = written_as(as_it_is_now(problem), SDE)
    if not isinstance(sde, SDE):
        raise TypeError(f"problem: expected one that can be written as an SDE, got a {type(problem).__name__}")
    if coefficients(sde).B.any():
        raise ValueError("problem: noise multiplies the state; expected additive noise, g(t, x) without x")
    if not is_autonomous(sde):
        raise ValueError("problem: its coefficients depend on time, so that there is no stationary law")
    return sde


def _system(sde: SDE) -> _System:
    A, a, _, b = coefficients(sde)
    return _System(A, a, b.T)


def _slopes(sde: SDE, paths: WithTangents) -> list[_System]:
    """The derivatives of A, a and B by each parameter."""
    for direction in paths.directions:
        if direction.leaf is None:
            raise ValueError(f"of: {direction.name}: a stationary law does not depend on the start")
    zero = np.zeros(sde.n)

    def system(values):
        params = paths.with_values(sde.params, values)
        drift = jax.jacfwd(lambda x: sde.f(0.0, x, params))(jnp.asarray(zero))
        return drift, sde.f(0.0, jnp.asarray(zero), params), sde.g(0.0, jnp.asarray(zero), params)

    with jax.enable_x64(True):
        values = np.asarray(paths.values(sde.params), float)
        all_slopes = at_one(jax.jacfwd(system), values)
    return [_System(*(np.asarray(part)[..., k] for part in all_slopes)) for k in range(len(values))]


def _moved(own: _System, d: _System, P: np.ndarray) -> np.ndarray:
    """dP, in units of the deviations: components may have units far apart."""
    half = d.A @ P + d.B @ own.B.T
    deviations = np.sqrt(np.diagonal(P))
    unit = np.where(deviations > 0, deviations, 1.0)
    scale = np.outer(unit, unit)
    return scale * scipy.linalg.solve_continuous_lyapunov(own.A * unit / unit[:, None], -(half + half.T) / scale)


def _transfer(own: _System, frequency: float, driven: np.ndarray) -> np.ndarray:
    return np.linalg.solve(2j * np.pi * frequency * np.eye(len(own.A)) - own.A, driven)


def _spectra(own: _System, slopes: list[_System], f: np.ndarray, transfers: Any) -> np.ndarray:
    """The derivatives of the spectrum, (parameters, frequencies, n, n)."""
    n = len(own.A)
    result = np.empty((len(slopes), len(f), n, n), complex)
    for index in np.ndindex(result.shape[:2]):
        d, T = slopes[index[0]], transfers[index[1]]
        half = _transfer(own, float(f[index[1]]), d.A @ T + d.B) @ T.conj().T
        result[index] = half + half.conj().T
    return result
