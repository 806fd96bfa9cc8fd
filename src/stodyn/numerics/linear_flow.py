"""The law of dx = (A x + a) dt + dW, Cov dW = S dt, over many lengths of time, as functions that JAX differentiates.

    x(t + h) = Φ x(t) + c + w,  Cov w = Q;  Φ = exp(A h),  c = ∫ exp(A s) a ds,  Q = ∫ exp(A s) S exp(A' s) ds over 0..h

Numbers alone are those of `van_loan` and `lyapunov`. Here h is halved until Taylor's series of all three are short;
they share the powers of A, so that many lengths cost little more than one. Then they are doubled, in E = Φ - 1:

    Q <- Q + Φ Q Φ',   c <- c + Φ c,   E <- 2 E + E E

are sums in which nothing cancels, and their limit is the stationary law.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

TERMS = 16  # of Taylor's series: 1/17! where the norm of A h is 1
NEAR = 0.125  # norm of A h up to which it is halved: parameters may then grow by a factor of 8
FURTHEST = 64  # doublings to the stationary law, of steps of 1/8 of the fastest time


class Law(NamedTuple):
    """Laws over lengths of time, one after the other: E = Φ - 1 (k, n, n), c (k, n), Q (k, n, n)."""

    E: Array
    c: Array
    Q: Array

    @property
    def Phi(self) -> Array:
        """The matrices that take the state along."""
        return jnp.eye(self.E.shape[-1]) + self.E

    def doubled(self) -> Law:
        """Over twice the times."""
        half = self.Q + self.E @ self.Q
        Q = self.Q + half + half @ self.E.mT
        c = 2.0 * self.c + (self.E @ self.c[..., None])[..., 0]
        return Law(2.0 * self.E + self.E @ self.E, c, 0.5 * (Q + Q.mT))

    def then(self, other: Law) -> Law:
        """These times and others after them."""
        half = self.Q + other.E @ self.Q
        Q = other.Q + half + half @ other.E.mT
        c = other.c + self.c + (other.E @ self.c[..., None])[..., 0]
        return Law(self.E + other.E + other.E @ self.E, c, 0.5 * (Q + Q.mT))


def norm(A: Array) -> Array:
    """Return the largest sum of a column's moduli."""
    return jnp.abs(A).sum(axis=0).max()


def doublings(A: np.ndarray, longest: float) -> int:
    """Return how often `over` has to double at this A, with room for larger ones."""
    size = float(np.abs(A).sum(axis=0).max()) * longest
    return max(0, math.ceil(math.log2(size / NEAR))) if size > 0.0 else 0


def over(A: Array, a: Array, S: Array, times: Array, longest: float, halvings: int) -> Law:
    """Return the laws over these times, up to the longest; NaN where A has become too large for the halvings."""
    unit = longest / 2.0**halvings
    share = times / longest
    short = _series(A * unit, a * unit, S * unit, share)
    fits = jnp.where(norm(A) * unit <= 1.0, 0.0, jnp.nan)
    law = jax.tree.map(lambda part: part + fits, short)
    return lax.fori_loop(0, halvings, lambda _, law: law.doubled(), law) if halvings else law


def stationary(A: Array, a: Array, S: Array) -> tuple[Array, Array]:
    """Return the mean and the covariance in the long run, of a stable A."""
    unit = lax.stop_gradient(NEAR / jnp.maximum(norm(A), jnp.finfo(A.dtype).tiny))
    short = _series(A * unit, a * unit, S * unit, jnp.ones(1))
    return limit(short)


def limit(law: Law) -> tuple[Array, Array]:
    """Return the mean and the covariance to which a law leads that is repeated for ever."""
    far, _ = lax.scan(lambda law, _: (law.doubled(), None), law, None, length=FURTHEST)
    return far.c[0], far.Q[0]


def _series(A: Array, a: Array, S: Array, share: Array) -> Law:
    """The laws over shares of the unit of time, in whose units A, a and S are, by Taylor's series."""

    def next_term(term: Law, k: Array) -> tuple[Law, Law]:
        grown = A @ term.Q
        term = Law(term.E @ A / k, A @ term.c / k, (grown + grown.T) / k)
        return term, term

    first = Law(A, a, S)
    _, others = lax.scan(next_term, first, jnp.arange(2.0, TERMS + 1.0))
    weights = share[:, None] ** jnp.arange(1, TERMS + 1)
    return Law(*(jnp.tensordot(weights, jnp.concatenate([one[None], more]), 1)
                 for one, more in zip(first, others, strict=True)))  # fmt: skip
