"""W and (W, Z) from independent standard normals, exact in law."""

import dataclasses
import math

import jax.numpy as jnp

from stodyn import listing
from stodyn.noise.increment import Increment, Recipe

__all__ = ["WZ", "W", "Wiener", "WienerIntegral"]
__dir__ = listing.names_of(__name__)


@dataclasses.dataclass(frozen=True)
class Wiener(Recipe):
    """The Wiener increments alone: W_j = √h U_j."""

    def normals(self, m):
        return {"W": m}

    def increment(self, h, normals, m):
        return Increment(h, jnp.sqrt(h) * normals["W"])


@dataclasses.dataclass(frozen=True)
class WienerIntegral(Recipe):
    """W and Z = I_(j,0): W = √h U, Z = h^(3/2) (U + V/√3)/2; Var Z = h³/3, Cov(W, Z) = h²/2."""

    def normals(self, m):
        return {"W": m, "Z": m}

    def increment(self, h, normals, m):
        W = jnp.sqrt(h) * normals["W"]
        return Increment(h, W, Z=0.5 * h * (W + math.sqrt(1.0 / 3.0) * jnp.sqrt(h) * normals["Z"]))


W = Wiener()
WZ = WienerIntegral()
