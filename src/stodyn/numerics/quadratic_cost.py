"""Quadratic costs of a linear system over a stretch of time, exactly.

With x' = F x + noise of the intensity S, from x₀ over h:
    E ∫ xᵀ W x dt = x₀ᵀ V x₀ + tr(S I),   V(h) = ∫₀^h exp(Fᵀ s) W exp(F s) ds,   I = ∫₀^h V(s) ds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.numerics.lyapunov import square, symmetric
from stodyn.numerics.van_loan import BLOCK_LIMIT


class Accumulated(NamedTuple):
    """What a stretch of time makes of a state, and what it costs."""

    Phi: np.ndarray
    of_start: np.ndarray
    of_noise: np.ndarray


def accumulated(F: ArrayLike, W: ArrayLike, h: float) -> Accumulated:
    """exp(F h), V(h) and its integral, all from one exponential of a block matrix,

        exp(h [-Fᵀ  1   0]) = [*  *        A]
              [ 0  -Fᵀ  W]    [0  *        B]    V = exp(F h)ᵀ B,   ∫ V = exp(F h)ᵀ A.
              [ 0   0   F]    [0  0  exp(F h)]

    It holds exp(-F h), in which digits drown once the norm of h F is large; beyond norm 1 the block is taken at h/2^s
    and doubled s times, in sums in which nothing cancels.
    """
    F, W = square("F", F), square("W", W)
    n = len(F)
    norm = float(np.linalg.norm(F, 1)) * h
    doublings = max(0, math.ceil(math.log2(norm / BLOCK_LIMIT))) if norm > 0 else 0
    step = h / 2.0**doublings
    zero, one = np.zeros((n, n)), np.eye(n)
    size = float(np.abs(W).max()) or 1.0  # brings the entries of the block to one size, whatever the units of the cost
    blocks = scipy.linalg.expm(step * np.block([[-F.T, one, zero], [zero, -F.T, W / size], [zero, zero, F]]))
    Phi = blocks[2 * n :, 2 * n :]
    V, total = (symmetric(size * Phi.T @ blocks[k * n : (k + 1) * n, 2 * n :]) for k in (1, 0))
    for _ in range(doublings):
        total = symmetric(total + step * V + Phi.T @ total @ Phi)
        V = symmetric(V + Phi.T @ V @ Phi)
        Phi, step = Phi @ Phi, 2.0 * step
    return Accumulated(Phi, V, total)
