"""Gauss quadrature of probability measures from the recurrence of their orthogonal polynomials."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.numerics import orthogonal


class Rule(NamedTuple):
    """Σ weights f(nodes) = ∫ f dμ for every polynomial f of degree up to 2n - 1; nodes increasing."""

    nodes: np.ndarray
    weights: np.ndarray


def rule(alpha: ArrayLike, beta: ArrayLike) -> Rule:
    """The n-point rule of the measure with monic π_(k+1) = (x - alpha_k) π_k - beta_k π_(k-1), beta_0 its total mass.

    Nodes are the eigenvalues of the Jacobi matrix (diagonal alpha, beside it √beta), polished by a Newton step on π_n;
    weights are Christoffel's 1 / Σ p_k(x)² over the orthonormal p_0, ..., p_(n-1), which keeps the digits of the
    smallest. Costs O(n²).
    G. Golub & J. Welsch, Calculation of Gauss quadrature rules, Math. Comp. 23 (1969).
    """
    a, b = np.atleast_1d(np.asarray(alpha, dtype=float)), np.atleast_1d(np.asarray(beta, dtype=float))
    if a.ndim != 1 or a.shape != b.shape or len(a) == 0:
        raise ValueError(f"alpha, beta: expected two sequences of one length n >= 1, got shapes {a.shape}, {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all() and (b > 0).all()):
        raise ValueError(f"alpha, beta: expected finite alpha and positive beta, got alpha = {a}, beta = {b}")
    x = scipy.linalg.eigvalsh_tridiagonal(a, np.sqrt(b[1:]))
    p, slope, *_ = _orthonormal(x, a, b)
    x = x - p / slope
    if not a.any():
        x = 0.5 * (x - x[::-1])  # a symmetric measure: odd moments vanish exactly
    _, _, total, exponent = _orthonormal(x, a, b)
    return Rule(x, np.ldexp(1.0 / total, -2 * exponent))


def _orthonormal(x: np.ndarray, a: np.ndarray, b: np.ndarray):
    """√beta_n p_n, its derivative and Σ p_k² at x, the first two over 2^exponent and the last over 4^exponent."""
    root = np.sqrt(b)
    before, p = np.zeros_like(x), np.full_like(x, 1.0 / root[0])
    slope_before, slope = np.zeros_like(x), np.zeros_like(x)
    total, exponent = np.zeros_like(x), np.zeros(x.shape, dtype=int)
    for k in range(len(a)):
        total = total + p * p
        norm = root[k + 1] if k + 1 < len(a) else 1.0
        old = root[k] if k else 0.0
        before, p, slope_before, slope = (
            p,
            ((x - a[k]) * p - old * before) / norm,
            slope,
            ((x - a[k]) * slope + p - old * slope_before) / norm,
        )
        # Far out in the tails p_k passes 1e308 where the weight passes 1e-308: powers of two are taken out.
        shift = np.maximum(np.frexp(np.maximum(np.abs(p), np.abs(slope)))[1] - 100, 0)
        before, p, slope_before, slope = (np.ldexp(v, -shift) for v in (before, p, slope_before, slope))
        total, exponent = np.ldexp(total, -2 * shift), exponent + shift
    return p, slope, total, exponent


def legendre(n: int) -> Rule:
    """n nodes for the uniform distribution on [-1, 1]."""
    return rule(*orthogonal.legendre(n))


def lobatto(n: int) -> Rule:
    """n nodes for the uniform distribution on [-1, 1], two of them its ends; of degree 2n - 3."""
    last = np.polynomial.Legendre.basis(n - 1)
    nodes = np.concatenate([[-1.0], last.deriv().roots().real, [1.0]])
    return Rule(nodes, 1.0 / (n * (n - 1) * last(nodes) ** 2))


def hermite(n: int) -> Rule:
    """n nodes for the standard normal distribution (the probabilists' Hermite polynomials)."""
    return rule(*orthogonal.hermite(n))


def laguerre(n: int) -> Rule:
    """n nodes for the exponential distribution exp(-x) on [0, ∞)."""
    return rule(*orthogonal.laguerre(n))


def jacobi(n: int, a: float, b: float) -> Rule:
    """n nodes for the density proportional to (1 - x)^a (1 + x)^b on [-1, 1], a and b > -1 (a beta distribution)."""
    return rule(*orthogonal.jacobi(n, a, b))


def of_degree_5(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (2 count² + 1, count) and weights of so many independent standard normals together, exact for polynomials
    of total degree 5; some weights are negative.

    J. McNamee & F. Stenger, Construction of fully symmetric numerical integration formulas, Numer. Math. 10 (1967).
    """
    far = np.sqrt(3.0)
    on_axes = [sign * far * unit for unit in np.eye(count) for sign in (1.0, -1.0)]
    in_pairs = [far * (p * np.eye(count)[i] + q * np.eye(count)[j])
                for i in range(count) for j in range(i) for p in (1.0, -1.0) for q in (1.0, -1.0)]  # fmt: skip
    weights = [
        1.0 + count * (count - 7.0) / 18.0,
        *[(4.0 - count) / 18.0] * len(on_axes),
        *[1.0 / 36.0] * len(in_pairs),
    ]
    return np.array([np.zeros(count), *on_axes, *in_pairs]), np.array(weights)
