"""Several correlated samples of one white noise within a step, whose weighted sum is the W of every other recipe."""

import dataclasses
import math

import jax.numpy as jnp

from stodyn import listing
from stodyn.noise.increment import Increment, Recipe

__dir__ = listing.names_of(__name__)


@dataclasses.dataclass(frozen=True)
class Stages(Recipe):
    """aux["stages"][i] = h w_i (s, m): the samples w_i of a step, times its length; Cov(h w_i, h w_j) = h (F F')_ij.

    factor   F (s, r): r independent normals per channel and step
    weights  (s,): with them the samples make the increment of the step. Σ_i weights_i h w_i is a multiple of W, the
             increment that the same seed gives to every other method; the multiple is 1 where |F' weights| = 1

    The r normals ξ of a channel are turned by the reflection that takes the first unit vector to F' weights, so that
    the first of them is the normal of the stream "W" and the others fill the rest of the law. Does not compose.
    """

    factor: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]

    def normals(self, m):
        return {"W": m, "aux": (len(self.factor[0]) - 1) * m}

    def increment(self, h, normals, m):
        ξ = [normals["W"], *jnp.reshape(normals["aux"], (-1, m))]
        β = [sum(b * row[k] for b, row in zip(self.weights, self.factor, strict=True)) for k in range(len(ξ))]
        length = math.hypot(*β)
        sign = math.copysign(1.0, β[0])
        v = [β_k / length + (sign if k == 0 else 0.0) for k, β_k in enumerate(β)]
        along = _dot([2.0 * v_k / sum(v_j * v_j for v_j in v) for v_k in v], ξ)
        turned = [sign * (v_k * along - ξ_k) if v_k else -sign * ξ_k for v_k, ξ_k in zip(v, ξ, strict=True)]
        root = jnp.sqrt(h)
        stages = jnp.stack([root * _dot(row, turned) for row in self.factor])
        return Increment(h, root * normals["W"], aux={"stages": stages})


def _dot(row, values):
    """Σ row_k values_k over the entries that are not zero."""
    terms = [a if c == 1.0 else c * a for c, a in zip(row, values, strict=True) if c]
    return sum(terms[1:], start=terms[0]) if terms else jnp.zeros_like(values[0])
