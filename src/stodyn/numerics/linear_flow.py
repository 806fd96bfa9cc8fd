"""The law of dx = (A x + a) dt + dW, Cov dW = S dt, over many lengths of time, as functions that JAX differentiates.

    x(t + h) = Φ x(t) + c + w,  Cov w = Q;  Φ = exp(A h),  c = ∫ exp(A s) a ds,  Q = ∫ exp(A s) S exp(A' s) ds over 0..h

Numbers alone are those of `van_loan` and `lyapunov`. Here h is halved until Taylor's series of all three are short;
they share the powers of A, so that many lengths cost little more than one. Then they are doubled, in E = Φ - 1:

    Q <- Q + Φ Q Φ',   c <- c + Φ c,   E <- 2 E + E E

are sums in which nothing cancels, and their limit is the stationary law.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

TERMS = 16  # of Taylor's series: 1/17! where the norm of A h is 1
NEAR = 0.125  # norm of A h up to which it is halved: parameters may then grow by a factor of 8
FURTHEST = 64  # doublings to the stationary law, of steps of 1/8 of the fastest time


class Rates(NamedTuple):
    """dx = (A x + a) dt + dW, Cov dW = S dt."""

    A: Array
    a: Array
    S: Array


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
        """The law over twice the times."""
        half = self.Q + self.E @ self.Q
        Q = self.Q + half + half @ self.E.mT
        c = 2.0 * self.c + (self.E @ self.c[..., None])[..., 0]
        return Law(2.0 * self.E + self.E @ self.E, c, 0.5 * (Q + Q.mT))

    def then(self, other: Law) -> Law:
        """The law over these times and then over those of another."""
        half = self.Q + other.E @ self.Q
        Q = other.Q + half + half @ other.E.mT
        c = other.c + self.c + (other.E @ self.c[..., None])[..., 0]
        return Law(self.E + other.E + other.E @ self.E, c, 0.5 * (Q + Q.mT))


def averaged(mean: Rates, one: Rates, two: Rates, turn: Any) -> Rates:
    """Return constant rates in place of those that depend on time: their mean over a length, and the commutator of
    those early and late in it, times `turn`.

    It is the step of fourth order of W. Magnus, Communications on Pure and Applied Mathematics 7 (1954), for the matrix
    whose exponential has all three of a law; its commutators are such matrices again.
    """
    half = two.A @ one.S - one.A @ two.S
    between = Rates(two.A @ one.A - one.A @ two.A, two.A @ one.a - one.A @ two.a, half + half.mT)
    return Rates(*(own + turn * part for own, part in zip(mean, between, strict=True)))


def norm(A: Array) -> Array:
    """Return the largest sum of a column's moduli."""
    return jnp.abs(A).sum(axis=0).max()


def doublings(A: np.ndarray, longest: float) -> int:
    """Return how often `over` has to double at this A, or at all of these, with room for larger ones."""
    sums = np.abs(A).sum(axis=-2)
    size = float(sums.max(initial=0.0)) * longest
    if not math.isfinite(size):
        size = float(sums[np.isfinite(sums)].max(initial=0.0)) * longest
    return max(0, math.ceil(math.log2(size / NEAR))) if size > 0.0 else 0


def over(A: Array, a: Array, S: Array, times: Array, longest: float, halvings: int) -> Law:
    """Return the laws over these times, up to the longest; NaN where A has become too large for the halvings."""
    unit = longest / 2.0**halvings
    return over_shares(A * unit, a * unit, S * unit, times / longest, halvings)


def over_shares(A: Array, a: Array, S: Array, shares: Array, halvings: Any, terms: Any = TERMS) -> Law:
    """Return the laws over shares of 2^halvings units of time, in which A, a and S are; NaN where A is larger than 1.

    Where halvings and terms are traced, one program serves all, which has no derivatives backwards.
    """
    short = _series(A, a, S, shares, terms)
    fits = jnp.where(norm(A) <= 1.0, 0.0, jnp.nan)
    law = jax.tree.map(lambda part: part + fits, short)
    return lax.fori_loop(0, halvings, lambda _, law: law.doubled(), law)


def stationary(A: Array, a: Array, S: Array) -> tuple[Array, Array]:
    """Return the mean and the covariance in the long run, of a stable A."""
    unit = lax.stop_gradient(NEAR / jnp.maximum(norm(A), jnp.finfo(A.dtype).tiny))
    short = _series(A * unit, a * unit, S * unit, jnp.ones(1))
    return limit(short)


def limit(law: Law) -> tuple[Array, Array]:
    """Return the mean and the covariance to which a law leads that is repeated for ever."""
    far, _ = lax.scan(lambda law, _: (law.doubled(), None), law, None, length=FURTHEST)
    return far.c[0], far.Q[0]


def _series(A: Array, a: Array, S: Array, share: Array, terms: Any = TERMS) -> Law:
    """The laws over shares of the unit of time, in whose units A, a and S are, by Taylor's series."""

    def summed(whole: Array, power: Array, term: Array) -> Array:
        return whole + jnp.expand_dims(power, tuple(range(1, 1 + term.ndim))) * term

    def next_term(k: Array, carry: tuple[Law, Array, Law]) -> tuple[Law, Array, Law]:
        term, power, total = carry
        grown, number, power = A @ term.Q, k.astype(A.dtype), power * share
        term = Law(term.E @ A / number, A @ term.c / number, (grown + grown.T) / number)
        return term, power, Law(*(summed(*parts) for parts in zip(total, (power,) * 3, term, strict=True)))

    first = Law(A, a, S)
    total = Law(*(summed(jnp.zeros(1), share, own) for own in first))
    return lax.fori_loop(2, terms + 1, next_term, (first, share, total))[2]
