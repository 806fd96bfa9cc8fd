"""Exact discretisation and covariance of linear systems dx = A x dt + B dW, Cov dW = Q dt.

The covariance in the long run is that of `lyapunov`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.numerics.lyapunov import square, symmetric

BLOCK_LIMIT = 1.0  # norm of h A up to which one block exponential is used


class Stretch(NamedTuple):
    """A stretch of time of a linear system: x goes to Phi x plus noise of the covariance Q."""

    Phi: np.ndarray
    Q: np.ndarray

    def of(self, P: np.ndarray) -> np.ndarray:
        """The covariance at its end, from P at its beginning."""
        return self.Phi @ P @ self.Phi.T + self.Q

    def then(self, other: Stretch) -> Stretch:
        """The law over this stretch and then over another one."""
        return Stretch(other.Phi @ self.Phi, other.of(self.Q))

    def repeated(self, count: int) -> Stretch:
        """The law over this stretch so many times in a row, at least once."""
        result, power = None, self
        while count:
            if count & 1:
                result = power if result is None else result.then(power)
            power, count = power.then(power), count >> 1
        assert result is not None
        return result


def discretise(A: ArrayLike, B: ArrayLike, Q: ArrayLike, h: float) -> Stretch:
    """Phi and Qd of x(t + h) = Phi x(t) + w, w ~ N(0, Qd), exact for dx = A x dt + B dW with Cov dW = Q dt.

    Phi = exp(A h) and Qd = ∫ exp(A s) B Q B' exp(A' s) ds over 0..h come from one exponential of a block matrix,

        exp(h [-A  BQB']) = [*  exp(-A h) Qd]
              [ 0   A'  ]   [0  exp(A h)'   ].

    It holds exp(-A h), so once the norm of h A passes about ten the digits of Qd drown in it (and at some hundreds it
    overflows). Beyond norm 1 the block is taken at h/2^s and doubled s times, with E = Phi - I,

        E <- 2 E + E E,   Qd <- Phi Qd Phi' + Qd,

    sums of covariances in which nothing cancels; slow components of a stiff A keep their digits because E holds them
    without the 1. Costs O((s + 10) n³).
    C. Van Loan, Computing integrals involving the matrix exponential, IEEE Trans. Automat. Control 23 (1978).
    """
    A, S = _system(A, B, Q)
    if not (np.ndim(h) == 0 and math.isfinite(h) and h >= 0):
        raise ValueError(f"h: expected a finite length of time >= 0, got {h!r}")
    n = len(A)
    norm = np.linalg.norm(A, 1) * h
    doublings = max(0, math.ceil(math.log2(norm / BLOCK_LIMIT))) if norm > 0 else 0
    step = h / 2.0**doublings
    strength = np.abs(S).max() or 1.0  # brings the entries of the block to one size, whatever the units of the noise
    blocks = scipy.linalg.expm(step * np.block([[-A, S / strength], [np.zeros((n, n)), A.T]]))
    Qd = symmetric(strength * blocks[n:, n:].T @ blocks[:n, n:])
    if doublings == 0:
        return Stretch(blocks[n:, n:].T, Qd)
    integral = scipy.linalg.expm(step * np.block([[A, np.eye(n)], [np.zeros((n, 2 * n))]]))[:n, n:]
    E = A @ integral
    for _ in range(doublings):
        half = Qd + E @ Qd  # Phi Qd
        Qd = symmetric(Qd + half + half @ E.T)
        E = 2.0 * E + E @ E
    return Stretch(np.eye(n) + E, Qd)


def covariance(A: ArrayLike, B: ArrayLike, Q: ArrayLike, P0: ArrayLike, t: ArrayLike) -> np.ndarray:
    """The covariance of x at the times t (a number or an array), from P0 at time 0: P' = A P + P A' + B Q B'."""
    P0 = square("P0", P0, np.shape(A)[0])
    times = np.asarray(t, dtype=float)
    result = np.empty((*times.shape, *P0.shape))
    for index, time in np.ndenumerate(times):
        Phi, Qd = discretise(A, B, Q, float(time))
        result[index] = symmetric(Phi @ P0 @ Phi.T) + Qd
    return result


def root(P: ArrayLike) -> np.ndarray:
    """F with F F' = P for a covariance P, also a singular one; components of very different size keep their digits."""
    P = np.asarray(P, float)
    scale = np.sqrt(np.diagonal(P))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(P / np.outer(scale, scale))
    return scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))


def rough_root(P: np.ndarray) -> np.ndarray:
    """F with F F' = P for a covariance P, also a singular one; its rounding is that of the largest component. `root`
    keeps the digits of small components too, for a little more."""
    values, vectors = np.linalg.eigh(P)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _system(A: ArrayLike, B: ArrayLike, Q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    A = square("A", A)
    B = np.asarray(B, dtype=float)
    if B.ndim != 2 or len(B) != len(A) or not np.isfinite(B).all():
        raise ValueError(f"B: expected a finite matrix of shape ({len(A)}, channels), got shape {B.shape}:\n{B}")
    Q = square("Q", Q, B.shape[1])
    return A, symmetric(B @ Q @ B.T)
