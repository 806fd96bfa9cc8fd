"""Two- and three-point draws for weak methods: the low moments of W, not its law."""

import dataclasses
from fractions import Fraction
from statistics import NormalDist

import jax.numpy as jnp

from stodyn import listing
from stodyn.noise.increment import Increment, Recipe

__dir__ = listing.names_of(__name__)

# P(U > THIRD) = 1/6 for a standard normal U.
THIRD = NormalDist().inv_cdf(5 / 6)

_THREE = ((-2.0, 0.0, 2.0), (Fraction(1, 6), Fraction(2, 3), Fraction(1, 6)))
_TWO = ((-1.0, 1.0), (Fraction(1, 2), Fraction(1, 2)))


def _three_point(h, U):
    return jnp.sqrt(3.0 * h) * jnp.where(jnp.abs(U) > THIRD, jnp.sign(U), 0.0)


@dataclasses.dataclass(frozen=True)
class ThreePoint(Recipe):
    """W_j = ±√(3h) with probability 1/6 each, 0 with probability 2/3.

    The moments of W_j up to the fifth are those of N(0, h) (0, h, 0, 3h², 0): enough for weak order 2. The draw is
    the normal of the stream "W" cut at its quantiles 1/6 and 5/6, so it has the sign of the W of the same seed. It is
    not a piece of a Brownian path: two of them do not compose, and there is no strong order.
    Kloeden & Platen (1992), section 14.2.
    """

    def normals(self, m):
        return {"W": m}

    def increment(self, h, normals, m):
        return Increment(h, _three_point(h, normals["W"]), aux={})

    def nodes(self, m: int) -> list[tuple[tuple[float, ...], tuple[Fraction, ...]]]:
        """(values, weights) of each normal that a step takes, in the order of `normals`.

        Feeding the values with their exact probabilities instead of normals gives every outcome of a step once: an
        expectation is the sum over the product of the lists.
        """
        return [_THREE] * m


@dataclasses.dataclass(frozen=True)
class WeakPairs(Recipe):
    """Three-point W and, independent of it, aux["two"]_j = ±√h with probability 1/2 each.

    From both a weak second-order Runge-Kutta method makes substitutes for its mixed integrals: W_j two_k for j > k and
    -W_k two_j for j < k (Stratonovich); half of W_j W_k plus these in place of I_(j,k) (Ito, see tableau.DRITable for
    why not the pairs with √h that are also in use). Does not compose.
    A. Rößler, Second order Runge-Kutta methods for Stratonovich SDEs, BIT 47 (2007); K. Debrabant & A. Rößler, Families
    of efficient second order Runge-Kutta methods for the weak approximation of Ito SDEs, Appl. Numer. Math. 59 (2009).
    """

    def normals(self, m):
        return {"W": m, "aux": m}

    def increment(self, h, normals, m):
        two = jnp.sqrt(h) * jnp.where(normals["aux"] < 0.0, -1.0, 1.0)
        return Increment(h, _three_point(h, normals["W"]), aux={"two": two})

    def nodes(self, m: int) -> list[tuple[tuple[float, ...], tuple[Fraction, ...]]]:
        """(values, weights) of each normal a step takes: m of the stream "W", then m of "aux"; see ThreePoint.nodes."""
        return [_THREE] * m + [_TWO] * m
