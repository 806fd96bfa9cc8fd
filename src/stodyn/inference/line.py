"""What a fit climbs: log-likelihood and priors on the line where no parameter has limits, for many places at once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.inference.likelihood import Likelihood
from stodyn.numerics.uncompiled import Uncompiled, value


class Line:
    """The logarithm of likelihood times prior at u, where the parameters are like.constrain(u * unit)."""

    def __init__(self, like: Likelihood, start: np.ndarray):
        self.like, self.count = like, len(like.names)
        self.unit = np.array([max(abs(own), 1.0) if scale.is_unlimited else 1.0
                              for scale, own in zip(like.scales, start, strict=True)])  # fmt: skip
        self._scales = Uncompiled(jax.vmap(self._constrained))
        self._priors = Uncompiled(jax.vmap(self._expected))
        self.start = self.places(start)

    def _constrained(self, u: Any) -> Any:
        first = jax.jacfwd(self._theta)
        return self._theta(u), first(u), jax.jacfwd(first)(u)

    def _theta(self, u: Any) -> Any:
        return self.like.constrain(u * self.unit)

    def _expected(self, u: Any) -> Any:
        def log_prior(u: Any) -> Any:
            return jnp.asarray(self.like.log_prior(self._theta(u)))

        first = jax.jacfwd(log_prior)
        return log_prior(u), first(u), jax.jacfwd(first)(u)

    @property
    def has_priors(self) -> bool:
        """Whether any parameter has one."""
        return any(scale.prior is not None for scale in self.like.scales)

    def places(self, theta: np.ndarray) -> np.ndarray:
        """The place (p,) of parameters."""
        return value(self.like.unconstrain, theta) / self.unit

    def along(self, k: int, values: np.ndarray) -> np.ndarray:
        """The places of values of parameter k."""
        return value(self.like.scales[k].unconstrain, values) / self.unit[k]

    def parameters(self, u: np.ndarray) -> np.ndarray:
        """The parameters at places (lanes, p)."""
        return self._scales(u)[0]

    def one_by_one(self, u: np.ndarray, places: np.ndarray, which: np.ndarray) -> np.ndarray:
        """The parameters of these numbers at these places, the others being at u (p,)."""
        at = np.repeat(u[None], len(which), axis=0)
        at[np.arange(len(which)), which] = places
        return self.parameters(at)[np.arange(len(which)), which]

    def slopes(self, u: np.ndarray) -> np.ndarray:
        """dθ/du at one place, (p,)."""
        return np.diagonal(self._scales(u[None])[1][0])

    def log_prior(self, u: np.ndarray) -> np.ndarray:
        """The logarithms of the priors at places (lanes, p)."""
        return self._priors(u)[0]

    def values(self, u: np.ndarray) -> np.ndarray:
        """Values alone, (lanes,)."""
        return self.like.values(self.parameters(u)) + self.log_prior(u)

    def __call__(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values (lanes,), slopes (lanes, p) and curvatures (lanes, p, p) at places (lanes, p)."""
        theta, first, second = self._scales(u)
        value, gradient, hessian = self.like.at_many(theta)
        slope = np.einsum("li,lij->lj", gradient, first)
        curvature = np.einsum("lia,lij,ljb->lab", first, hessian, first) + np.einsum("li,liab->lab", gradient, second)
        if not self.has_priors:
            return value, slope, curvature
        prior = self._priors(u)
        return value + prior[0], slope + prior[1], curvature + prior[2]

    def words(self, u: np.ndarray) -> str:
        """The parameters at a place, in words."""
        values = self.parameters(u[None])[0]
        return ", ".join(f"{name} = {value:.6g}" for name, value in zip(self.like.names, values, strict=True))
