"""The exact Allan variance of any model of noise: densities, filters, random walks, and sums of them.

Let s be the states of the noise and θ' = C s + N w. Over a stretch τ, (s, θ) goes to (Φ s, θ + c s) plus noise of
covariance Q. The difference of two neighbouring increments of θ is c (Φ - 1) s + (c, -1)·(noise before) + noise after:
    AVAR = (g P gᵀ + u Q uᵀ + Q_θθ) / 2τ²,   g = c (Φ - 1),   u = (c, -1).
P is the stationary covariance of s; a walk has none and needs none, for it g = 0. Readings that are samples T apart
and not averages take sums for integrals; their stretches are put together from single steps by doubling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.noise import readings
from stodyn.noise.coloured import Coloured
from stodyn.noise.inertial import Inertial
from stodyn.noise.readings import Density, PerSample
from stodyn.numerics import van_loan
from stodyn.numerics.van_loan import Stretch


class Model(NamedTuple):
    """ds = A s dt + B dw with the output C s, its stationary covariance P (0 for walks), and a white density N²."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    P: np.ndarray
    white: float


@checks_arguments
def allan_variance(noise: Any, tau: ArrayLike, *, every: float | None = None) -> np.ndarray:
    """Return the exact Allan variance of a model of noise; nothing is sampled.

    Parameters
    ----------
    noise : Coloured, density(...), per_sample(...), gyro(...) or accelerometer(...), or a sequence of these
        The noise; those of a sequence are independent and added.
    tau : float or array (...)
        Averaging times.
    every : float, optional
        The time between readings that are samples of the noise; averaging times are whole multiples of it. By default
        readings are averages over the time between them.

    Returns
    -------
    array (...)

    Raises
    ------
    ValueError
        If the noise has several outputs, or noise per sample is given without `every`.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.analysis.allan_variance(sd.density(0.1, sides=2), [1.0, 4.0]).round(12)
    array([0.01  , 0.0025])
    """
    tau = np.asarray(tau, float)
    if not (np.isfinite(tau).all() and (tau > 0).all()):
        raise ValueError(f"tau: expected positive times, got {tau!r}")
    model = _model(noise, every, float(tau.max()))
    counts = _counts(tau, every)
    return np.array([_of_stretch(model, t, every, k) for t, k in zip(tau.ravel(), counts, strict=True)]).reshape(
        tau.shape
    )


def _counts(tau: np.ndarray, every: float | None) -> np.ndarray:
    if every is None:
        return np.ones(tau.size, int)
    counts = np.round(tau.ravel() / every)
    is_off = np.abs(counts * every - tau.ravel()) > 1e-6 * tau.ravel()
    if is_off.any():
        raise ValueError(f"tau: {tau.ravel()[is_off][0]:g} is no whole multiple of every = {every:g}")
    return counts.astype(int)


def _of_stretch(model: Model, tau: float, every: float | None, count: int) -> float:
    """The variance at one averaging time."""
    n = len(model.A)
    if every is None:
        A, B = np.zeros((n + 1, n + 1)), np.zeros((n + 1, model.B.shape[1] + 1))
        A[:n, :n], A[n, :n], B[:n, :-1], B[n, -1] = model.A, model.C, model.B, np.sqrt(model.white)
        stretch = van_loan.discretise(A, B, np.eye(B.shape[1]), tau)
    else:
        stretch = _sampled(model, every).repeated(count)
    c, Phi, Q = stretch.Phi[n, :n], stretch.Phi[:n, :n], stretch.Q
    g, u = c @ (Phi - np.eye(n)), np.append(c, -1.0)
    return float(g @ model.P @ g + u @ Q @ u + Q[n, n]) / (2.0 * tau**2)


def _sampled(model: Model, every: float) -> Stretch:
    """One reading: θ grows by T times the sample, then the state moves on."""
    n = len(model.A)
    F, Q = np.eye(n + 1), np.zeros((n + 1, n + 1))
    if n:
        F[:n, :n], Q[:n, :n] = van_loan.discretise(model.A, model.B, np.eye(model.B.shape[1]), every)
    F[n, :n], Q[n, n] = every * model.C, every * model.white
    return Stretch(F, Q)


def _model(noise: Any, every: float | None, longest: float) -> Model:
    parts = noise if isinstance(noise, list | tuple) else [noise]
    return _sum([_one_model(part, every, longest) for part in parts])


def _sum(models: Sequence[Model]) -> Model:
    """The model of the sum of independent noises."""
    A, B, P = (scipy.linalg.block_diag(*(getattr(model, name) for model in models)) for name in ("A", "B", "P"))
    return Model(A, B, np.concatenate([model.C for model in models]), P, sum(model.white for model in models))


def _one_model(noise: Any, every: float | None, longest: float) -> Model:
    if isinstance(noise, PerSample):
        if every is None:
            raise ValueError("every: noise per sample has no density without the time between samples")
        return _white(float(readings.resolved(noise.size, None)) ** 2 * every)
    if isinstance(noise, Density) and noise.bandwidth is None:
        return _white(float(noise.two_sided()) ** 2)
    if isinstance(noise, Density):
        return _one_model(noise.coloured(), every, longest)
    if isinstance(noise, Coloured):
        if len(noise.C) != 1:
            raise ValueError(f"noise: expected one output, got {', '.join(noise.names)}; choose one by noise[name]")
        return Model(noise.A, noise.B, noise.C[0], noise.state_covariance, 0.0)
    if isinstance(noise, Inertial):
        return _of_inertial(noise, every, longest)
    raise TypeError(readings.refusal(noise))


def _white(density: float) -> Model:
    nothing = np.zeros((0, 0))
    return Model(nothing, nothing, np.zeros(0), nothing, density)


def _of_inertial(noise: Inertial, every: float | None, longest: float) -> Model:
    period = every or noise.every
    if noise.B and noise.band is None and period is None:
        raise ValueError("noise: flicker ends at half the rate of the readings; give every=, or band= of the sensor")
    biases = noise.biases(period or longest, 2.0 * longest)
    parts = [_white(noise.N**2), *(_one_model(bias, every, longest) for bias in biases)]
    if noise.K:
        zero = np.zeros((1, 1))
        parts.append(Model(zero, np.array([[noise.K]]), np.ones(1), zero, 0.0))
    return _sum(parts)
