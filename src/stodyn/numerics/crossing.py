"""Whether a path reached a level between two states that are both on this side of it, and when.

Distances to the level are positive on this side. A *bridge* is a Brownian path with fixed ends; its distances a, b
are measured in standard deviations of the step, so that its variance is 1:

    one level    P(reached) = exp(-2 a b)
    two levels   P(neither) = Σ_k exp(-2 k l (k l + b - a)) - exp(-2 (k l + a)(k l + b)), l apart, a, b from the lower
    when         given a crossing, the share of the step before it is s/(1 + s), s inverse Gaussian of mean a/|b| and
                 shape a²
    before       a bridge that has not reached the level is the length of a bridge in space (Bessel's process of
                 dimension 3): to the origin at the time of the crossing, or, without one, to a point at the distance b
                 in a direction of density ∝ exp(a b cos θ)

A *cubic* (Hermite's) is fixed by its values and slopes at both ends: the mean of an integrated Brownian path.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array

IMAGES = 2  # of each level on either side
WIDE = 2.0  # l² below which waves take the place of images
BISECTIONS = 40


def bridge_chance(a: Array, b: Array) -> Array:
    """The probability that a bridge reaches the level; 1 where an end is beyond it."""
    return jnp.exp(-2.0 * jnp.maximum(a, 0.0) * jnp.maximum(b, 0.0))


def bridge_chance_of_two(lower: tuple[Array, Array], upper: tuple[Array, Array]) -> Array:
    """The probability that a bridge reaches one of two levels; `lower` and `upper` are its distances (a, b) to each."""
    (a, b), (c, d) = (tuple(jnp.maximum(x, 0.0) for x in pair) for pair in (lower, upper))
    first, last = a + c, b + d
    apart = 0.5 * (first + last)
    neither = -jnp.expm1(-2.0 * a * b)
    for k in (k for j in range(1, IMAGES + 1) for k in (-j, j)):
        neither += jnp.exp(-2.0 * k * apart * (k * apart + b - a)) - jnp.exp(-2.0 * (k * first + a) * (k * last + b))
    is_wide = apart**2 < WIDE
    waves = _waves(jnp.where(is_wide, a, 0.5), jnp.where(is_wide, b, 0.5), jnp.where(is_wide, apart, 1.0))
    is_inside = (a > 0.0) & (b > 0.0) & (c > 0.0) & (d > 0.0)
    return jnp.where(is_inside, 1.0 - jnp.clip(jnp.where(is_wide, waves, neither), 0.0, 1.0), 1.0)


def _waves(a: Array, b: Array, apart: Array) -> Array:
    """P(neither) by the eigenfunctions of the strip: useful where it is narrower than the step is wide."""
    decay = 0.5 * (math.pi / apart) ** 2
    total = sum(
        jnp.sin(k * math.pi * a / apart) * jnp.sin(k * math.pi * b / apart) * jnp.exp(0.5 * (b - a) ** 2 - k**2 * decay)
        for k in (1, 2, 3)
    )
    return 2.0 * math.sqrt(2.0 * math.pi) / apart * total


def distance_before(
    ends: tuple[Array, Array], share: Array, until: Array, crosses: Array, off: Array, uniform: Array, normals: Array
) -> Array:
    """The distance at a share of the step of a bridge that first reaches the level at the share `until`, or not at all.

    `off` is how far the bridge is from its chord there when it does not heed the level, √(share (1 - share)) times a
    normal; `uniform` and two normals are fresh.
    """
    (a, b), tiny = ends, jnp.finfo(share.dtype).tiny
    until = jnp.maximum(until, tiny)
    part, left = jnp.minimum(share / until, 1.0), jnp.maximum(until - share, 0.0)
    pull = jnp.maximum(a * b, 1e-6)
    cosine = jnp.clip(1.0 + jnp.log1p((1.0 - uniform) * jnp.expm1(-2.0 * pull)) / pull, -1.0, 1.0)
    along = jnp.where(crosses, 0.0, part * b * cosine)
    across = jnp.where(crosses, 0.0, part * b * jnp.sqrt(1.0 - cosine**2))
    shrunk = jnp.where(crosses, jnp.sqrt(left / jnp.maximum(until * (1.0 - share), tiny)), 1.0)
    spread = jnp.sqrt(part * left)
    x, y, z = a * (1.0 - part) + along + shrunk * off, across + spread * normals[0], spread * normals[1]
    return jnp.sqrt(x**2 + y**2 + z**2)


def share_after_crossing(a: Array, b: Array) -> Array:
    """The mean share of a step that a bridge has left when it first reaches a level, given that it does.

    1 - a √(π/2) erfcx((a + |b|)/√2), from ∫ (1 - u) f_a(u) p_b(1 - u) du over p_(a+b)(1), f_a the density of the first
    passage and p_b that of the end.
    """
    return 1.0 - math.sqrt(0.5 * math.pi) * a * erfcx(math.sqrt(0.5) * (a + jnp.abs(b)))


ERFCX = (
    1.25300805827, -0.135621104436, -0.0475622942872, 0.129645095371, -0.11927366593,
    0.0683087194534, -0.0237704866927, 0.00252602564954, 0.00188854647085, -0.000771301991223,
    -0.000104765815741, 0.000113189116376, 4.32323284997e-06, -1.10397107386e-05, -1.31702897946e-07,
)  # (1 + 2 z) erfcx(z) as a polynomial of (z - 3)/(z + 3), interpolated at Chebyshev's points: to 1e-10  # fmt: skip


def erfcx(z: Array) -> Array:
    """exp(z²) erfc(z) for z >= 0, to ten digits; with one division, and even and odd powers of y side by side."""
    above, below = z + 3.0, 1.0 + 2.0 * z
    inverse = 1.0 / (above * below)
    y = (z - 3.0) * below * inverse
    square = y * y
    even, odd = jnp.zeros_like(y), jnp.zeros_like(y)
    for coefficient in reversed(ERFCX[0::2]):
        even = even * square + coefficient
    for coefficient in reversed(ERFCX[1::2]):
        odd = odd * square + coefficient
    return (even + y * odd) * (above * inverse)


def inverse_gaussian(mean: Array, shape: Array, normal: Array, uniform: Array) -> Array:
    """A draw from the inverse Gaussian law: J. Michael, W. Schucany & R. Haas, Am. Stat. 30 (1976).

    The smaller root is taken in a form that does not cancel, so that a mean of infinity (an end at the level) is Lévy's
    law.
    """
    y = normal**2
    is_long = mean > 1e8 * shape  # where it is Lévy's: 1/mean is negligible beside 1/shape
    usual = jnp.where(is_long, 1.0, mean)
    w = usual * y / shape
    smaller = usual * 2.0 / (2.0 + w + jnp.sqrt(w * (4.0 + w)))
    time = jnp.where(uniform * (usual + smaller) <= usual, smaller, usual**2 / smaller)
    return jnp.where(is_long, shape / jnp.maximum(y, jnp.finfo(y.dtype).tiny), time)


def cubic_at(u: Array, ends: tuple[Array, Array], slopes: tuple[Array, Array]) -> Array:
    """Hermite's cubic at the share u of the step; slopes are per step."""
    (a, b), (p, q) = ends, slopes
    return a + u * (p + u * (3.0 * (b - a) - 2.0 * p - q + u * (2.0 * (a - b) + p + q)))


def cubic_lowest(ends: tuple[Array, Array], slopes: tuple[Array, Array]) -> tuple[Array, Array]:
    """The share of the step at which the cubic is lowest, and its value there."""
    (a, b), (p, q) = ends, slopes
    half, cubed = 3.0 * (b - a) - 2.0 * p - q, 3.0 * (2.0 * (a - b) + p + q)
    root = jnp.sqrt(jnp.maximum(half**2 - cubed * p, 0.0))
    # The minimum is where the slope p + 2 half u + cubed u² rises through zero, in the form that does not cancel.
    below = half + root
    u = jnp.where(half > 0.0, -p / jnp.where(half > 0.0, below, 1.0),
                  (root - half) / jnp.where(cubed == 0.0, 1.0, cubed))  # fmt: skip
    is_inside = (u > 0.0) & (u < 1.0) & ((half > 0.0) | (cubed != 0.0))
    inside = cubic_at(jnp.where(is_inside, u, 0.0), ends, slopes)
    at_end = jnp.where(b < a, 1.0, 0.0)
    ends_lowest = jnp.minimum(a, b)
    is_lower = is_inside & (inside < ends_lowest)
    return jnp.where(is_lower, u, at_end), jnp.where(is_lower, inside, ends_lowest)


def cubic_root(
    ends: tuple[Array, Array], slopes: tuple[Array, Array], beyond: Array, halvings: int = BISECTIONS
) -> Array:
    """The share of the step at which a cubic that begins above zero is at zero, before `beyond`, where it is not."""

    def halved(_, bounds):
        low, high = bounds
        middle = 0.5 * (low + high)
        is_above = cubic_at(middle, ends, slopes) > 0.0
        return jnp.where(is_above, middle, low), jnp.where(is_above, high, middle)

    bounds = jnp.zeros_like(beyond), beyond
    if halvings < BISECTIONS:
        for k in range(halvings):
            bounds = halved(k, bounds)
        return bounds[1]
    return jax.lax.fori_loop(0, halvings, halved, bounds)[1]
