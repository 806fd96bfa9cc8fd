"""Free parameters on a line: ranges and priors, and the scale on which a parameter has no limits.

(None, None)  θ itself       (low, None)  ln(θ - low)
(None, high)  ln(high - θ)   (low, high)  ln((θ - low)/(high - θ))
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import special

from stodyn.inference.priors import Prior, prior_of


@dataclasses.dataclass(frozen=True)
class Scale:
    """The range of a parameter; its functions take and give numbers of JAX, or arrays of NumPy."""

    low: float = -math.inf
    high: float = math.inf
    prior: Prior | None = None

    @property
    def is_unlimited(self) -> bool:
        """Whether the line is that of the parameter itself."""
        return math.isinf(self.low) and math.isinf(self.high)

    def named(self, name: str) -> str:
        """What the line is, in words: ln a for a range from 0 on."""
        if self.is_unlimited:
            return name
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"logit {name}"
        if math.isfinite(self.high):
            return f"ln({self.high:g} - {name})"
        return f"ln {name}" if self.low == 0.0 else f"ln({name} - {self.low:g})"

    def constrain(self, u: Any) -> Any:
        """The parameter at a place on the line."""
        array, sigmoid = _functions(u)
        if math.isfinite(self.low) and math.isfinite(self.high):
            return self.low + (self.high - self.low) * sigmoid(u)
        if math.isfinite(self.low):
            return self.low + array.exp(u)
        return self.high - array.exp(u) if math.isfinite(self.high) else array.asarray(u)

    def slopes(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first and second derivative of the parameter along the line."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            share = special.expit(u)
            first = (self.high - self.low) * share * (1.0 - share)
            return first, first * (1.0 - 2.0 * share)
        if self.is_unlimited:
            return np.ones_like(u), np.zeros_like(u)
        growth = np.exp(u) if math.isfinite(self.low) else -np.exp(u)
        return growth, growth

    def unconstrain(self, value: Any) -> Any:
        """The place of a parameter on the line."""
        array, _ = _functions(value)
        if math.isfinite(self.low) and math.isfinite(self.high):
            return array.log(value - self.low) - array.log(self.high - value)
        if math.isfinite(self.low):
            return array.log(value - self.low)
        return array.log(self.high - value) if math.isfinite(self.high) else array.asarray(value)

    def log_slope(self, u: Any) -> Array:
        """The logarithm of the slope of the parameter along the line."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return math.log(self.high - self.low) - jax.nn.softplus(-u) - jax.nn.softplus(u)
        return jnp.asarray(u if math.isfinite(self.low) or math.isfinite(self.high) else 0.0 * u)

    def holds(self, value: float) -> bool:
        """Whether a parameter lies inside."""
        return self.low < value < self.high

    def log_prior(self, value: Any) -> Any:
        """The logarithm of the prior's density; 0 where there is none."""
        return 0.0 * value if self.prior is None else self.prior.log_density(value)


def _functions(number: Any) -> tuple[Any, Any]:
    """NumPy or jax.numpy, whichever a number is of, and its logistic function."""
    return (np, special.expit) if isinstance(number, np.ndarray | np.floating) else (jnp, jax.nn.sigmoid)


def scales_of(free: Any) -> dict[str, Scale]:
    """Return the names that a user leaves free, with their ranges."""
    if not isinstance(free, Mapping):
        words = (free,) if isinstance(free, str) else tuple(free)
        return {word: Scale() for word in words}
    return {name: _scale(name, wanted) for name, wanted in free.items()}


def _scale(name: str, wanted: Any) -> Scale:
    if wanted is None or isinstance(wanted, int | float | np.number):
        return Scale()
    if hasattr(wanted, "rvs"):
        prior = prior_of(name, wanted)
        return Scale(float(prior.law.low), float(prior.law.high), prior)
    if isinstance(wanted, tuple | list) and len(wanted) == 2:
        low, high = (end if end is not None else sign * math.inf for end, sign in zip(wanted, (-1, 1), strict=True))
        if not low < high:
            raise ValueError(f"free ({name}): expected (low, high) with low < high, got {wanted!r}")
        return Scale(float(low), float(high))
    raise TypeError(
        f"free ({name}): expected a range (low, high) with None for no limit, a distribution as prior, or a number to "
        f"begin at, got {wanted!r}"
    )
