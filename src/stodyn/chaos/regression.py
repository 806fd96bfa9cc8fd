"""Expansions from samples, by least squares or by projection, with the error at samples that were left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from stodyn.chaos.basis import Basis, make
from stodyn.chaos.expansion import NOTHING


class Fit(NamedTuple):
    """The coefficients (terms, ...) of a fit, and its error (K, ...) at each sample, had that been left out."""

    basis: Basis
    coefficients: np.ndarray
    off: np.ndarray

    @property
    def left_out(self) -> np.ndarray:
        """The root mean square over the samples of the errors that they would have if they were left out."""
        return np.sqrt(np.mean(self.off**2, axis=0))


def fitted(basis: Basis, points: np.ndarray, values: np.ndarray) -> Fit:
    """The least-squares expansion of values (K, ...) at points (K, Q).

    The error of sample k, had it been left out, is its residual over 1 - h_k with the diagonal h of the hat matrix:
    the whole cross-validation costs one QR factorisation.
    """
    if len(points) <= len(basis):
        raise ValueError(f"samples: {len(points)} for {len(basis)} terms; expected more, two to three times as many")
    Q, R = scipy.linalg.qr(basis.evaluate(points), mode="economic")
    flat = values.reshape(len(points), -1)
    coefficients = scipy.linalg.solve_triangular(R, Q.T @ flat)
    rest = 1.0 - np.sum(Q**2, axis=1)
    off = (flat - Q @ (Q.T @ flat)) / np.maximum(rest, np.finfo(float).eps)[:, None]
    return Fit(basis, coefficients.reshape(-1, *values.shape[1:]), off.reshape(values.shape))


def projected(basis: Basis, points: np.ndarray, values: np.ndarray) -> Fit:
    """The expansion whose coefficients are the means of x Φ_i over the samples; without sample k, its error there is
    x_k - (K fit_k - x_k Σ_i Φ_i²) / (K - 1).
    """
    phi, flat, K = basis.evaluate(points), values.reshape(len(points), -1), len(points)
    coefficients = phi.T @ flat / K
    without = (K * (phi @ coefficients) - flat * np.sum(phi**2, axis=1)[:, None]) / (K - 1)
    return Fit(basis, coefficients.reshape(-1, *values.shape[1:]), (flat - without).reshape(values.shape))


def selected(kind: str, laws, most: int, points: np.ndarray, values: np.ndarray) -> Fit:
    """The fit of that degree, up to `most`, whose left-out errors are the smallest: in the mean over all outputs, each
    relative to its spread.
    """
    fits: list[Fit] = []
    for degree in range(1, most + 1):
        basis = make(kind, laws, degree)
        if 3 * len(basis) > 2 * len(points) and fits:
            break
        fits.append(fitted(basis, points, values))
    spread = values.std(axis=0)
    spread = np.where(spread > NOTHING * np.abs(values).max(initial=0.0), spread, np.inf)
    return min(fits, key=lambda fit: float(np.mean((fit.left_out / spread) ** 2)))
