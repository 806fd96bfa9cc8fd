"""Orthogonal polynomials of probability measures by their three-term recurrence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Recurrence(NamedTuple):
    """Monic π_(k+1) = (x - alpha_k) π_k - beta_k π_(k-1), k = 0, ..., n-1; beta_0 is the total mass, 1."""

    alpha: np.ndarray
    beta: np.ndarray

    def moved(self, location: float, scale: float) -> Recurrence:
        """The recurrence of location + scale x."""
        return Recurrence(location + scale * self.alpha, np.append(self.beta[:1], scale**2 * self.beta[1:]))


def legendre(n: int) -> Recurrence:
    """The uniform distribution on [-1, 1]."""
    k = _counted(n)
    return Recurrence(0 * k, np.append(1.0, k[1:] ** 2 / (4 * k[1:] ** 2 - 1)))


def hermite(n: int) -> Recurrence:
    """The standard normal distribution."""
    k = _counted(n)
    return Recurrence(0 * k, np.append(1.0, k[1:]))


def laguerre(n: int, shape: float = 1.0) -> Recurrence:
    """The gamma distribution, density x^(shape-1) exp(-x) / Γ(shape) on [0, ∞); shape 1 is the exponential one."""
    k = _counted(n)
    return Recurrence(2 * k + shape, np.append(1.0, k[1:] * (k[1:] + shape - 1.0)))


def jacobi(n: int, a: float, b: float) -> Recurrence:
    """The density proportional to (1 - x)^a (1 + x)^b on [-1, 1], a and b > -1."""
    if not (a > -1 and b > -1 and np.isfinite(a + b)):
        raise ValueError(f"a, b: expected two finite exponents > -1, got a = {a}, b = {b}")
    k = _counted(n)[1:]
    s = 2 * k + a + b
    alpha = np.append((b - a) / (a + b + 2), (b - a) * (b + a) / (s * (s + 2)))
    # At k = 1 the factor (k + a + b) / (s - 1) is 1, also where it reads 0/0.
    ratio = np.divide(k + a + b, s - 1, out=np.ones_like(k), where=k > 1)
    beta = np.append(1.0, 4 * k * (k + a) * (k + b) * ratio / (s**2 * (s + 1)))
    return Recurrence(alpha, beta)


def stieltjes_wigert(n: int, sigma: float) -> Recurrence:
    """exp(sigma z), z standard normal: with q = exp(sigma²), alpha_k = q^(k-1/2) (q^k (q+1) - 1) and
    beta_k = q^(3k-2) (q^k - 1).
    """
    k = _counted(n)
    q = np.exp(sigma**2)
    return Recurrence(q ** (k - 0.5) * (q**k * (q + 1.0) - 1.0),
                      np.append(1.0, q ** (3 * k[1:] - 2) * np.expm1(k[1:] * sigma**2)))  # fmt: skip


def stieltjes(n: int, x: np.ndarray, w: np.ndarray) -> Recurrence:
    """The recurrence of the discrete measure Σ w δ_x with many more points than n: alpha_k = <x π_k, π_k> / <π_k, π_k>,
    beta_k the ratio of neighbouring norms, polynomial after polynomial (the discretised Stieltjes procedure).

    W. Gautschi, Orthogonal Polynomials: Computation and Approximation (2004), 2.2.3.
    """
    alpha, beta = np.empty(n), np.empty(n)
    before, p, norm = np.zeros_like(x), np.full_like(x, 1.0 / np.sqrt(w.sum())), np.sqrt(w.sum())
    for k in range(n):  # p is orthonormal, norm the factor that made it so
        beta[k] = norm**2
        alpha[k] = np.sum(w * x * p * p)
        following = (x - alpha[k]) * p - norm * before * (k > 0)
        norm = np.sqrt(np.sum(w * following * following))
        before, p = p, following / max(norm, np.finfo(float).tiny)
    return Recurrence(alpha, beta)


def evaluate(recurrence: Recurrence, x: np.ndarray) -> np.ndarray:
    """The orthonormal polynomials p_0, ..., p_(n-1) at x, (*x.shape, n)."""
    x, root = np.asarray(x, float), np.sqrt(recurrence.beta)
    p = np.empty((*x.shape, len(root)))
    p[..., 0] = 1.0
    for k in range(len(root) - 1):
        older = root[k] * p[..., k - 1] if k else 0.0
        p[..., k + 1] = ((x - recurrence.alpha[k]) * p[..., k] - older) / root[k + 1]
    return p


def _counted(n: int) -> np.ndarray:
    if n != int(n) or n < 1:
        raise ValueError(f"n: expected a number of nodes >= 1, got {n!r}")
    return np.arange(int(n), dtype=float)
