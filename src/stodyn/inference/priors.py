"""Priors of free parameters: the logarithms of densities as functions of JAX, and where they have their mass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.noise.distribution import Distribution, Truncated, distribution
from stodyn.numerics import uncompiled

# The logarithm of each density at z = (x - location)/scale, without its constant, which scipy's own density gives.
SHAPES: dict[str, Callable[..., Any]] = {
    "uniform": lambda z: 0.0 * z,
    "norm": lambda z: -0.5 * z**2,
    "halfnorm": lambda z: -0.5 * z**2,
    "lognorm": lambda z, s: -jnp.log(z) - 0.5 * (jnp.log(z) / s) ** 2,
    "gamma": lambda z, a: (a - 1.0) * jnp.log(z) - z,
    "invgamma": lambda z, a: -(a + 1.0) * jnp.log(z) - 1.0 / z,
    "expon": lambda z: -z,
    "beta": lambda z, a, b: (a - 1.0) * jnp.log(z) + (b - 1.0) * jnp.log1p(-z),
    "t": lambda z, df: -0.5 * (df + 1.0) * jnp.log1p(z**2 / df),
    "cauchy": lambda z: -jnp.log1p(z**2),
    "halfcauchy": lambda z: -jnp.log1p(z**2),
    "logistic": lambda z: -z - 2.0 * jnp.log1p(jnp.exp(-z)),
}


@dataclasses.dataclass(frozen=True)
class Prior:
    """A distribution as a prior: `law` with its support, and its density as a function of JAX."""

    law: Distribution
    shape: Callable[..., Any]
    numbers: tuple[float, ...]
    location: float
    scale: float
    constant: float

    def log_density(self, value: Any) -> Array:
        """The logarithm of the density at a value inside the support."""
        return self.shape((value - self.location) / self.scale, *self.numbers) + self.constant

    def scattered(self, shares: np.ndarray) -> np.ndarray:
        """The values below which these shares of the mass lie."""
        return np.asarray(self.law.ppf(shares), float)


def prior_of(name: str, wanted: Any) -> Prior:
    """Return a distribution of stodyn.noise or scipy.stats as the prior of a parameter."""
    law = distribution(wanted, f"free ({name})")
    base = law.base if isinstance(law, Truncated) else law
    frozen = getattr(base, "law", None)
    kind = getattr(getattr(frozen, "dist", None), "name", type(law).__name__)
    if frozen is None or kind not in SHAPES:
        raise ValueError(
            f"free ({name}): {law!r} is not among the priors whose derivatives are known: {', '.join(SHAPES)} of "
            "scipy.stats, those of stodyn.noise with these laws, and Truncated ones"
        )
    shapes, location, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    parts = SHAPES[kind], tuple(map(float, shapes)), float(location), float(scale)
    middle = float(law.ppf(0.5))
    plain = Prior(law, *parts, 0.0)
    constant = np.log(law.pdf(middle)) - uncompiled.value(plain.log_density, middle)
    return dataclasses.replace(plain, constant=float(constant))
