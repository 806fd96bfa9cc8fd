"""What a fit climbs: log-likelihood and priors on the line where no parameter has limits, for many places at once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.inference.likelihood import Likelihood
from stodyn.numerics.uncompiled import Uncompiled


class Line:
    """The logarithm of likelihood times prior at u, where the parameters are like.constrain(u * unit)."""

    def __init__(self, like: Likelihood, start: np.ndarray):
        self.like, self.count = like, len(like.names)
        self.unit = np.array([max(abs(own), 1.0) if scale.is_unlimited else 1.0
                              for scale, own in zip(like.scales, start, strict=True)])  # fmt: skip
        self._priors = Uncompiled(jax.vmap(self._expected))
        self.start = np.array([float(self.along(k, np.asarray(own))) for k, own in enumerate(start)])

    def _expected(self, u: Any) -> Any:
        def log_prior(u: Any) -> Any:
            return jnp.asarray(self.like.log_prior(self.like.constrain(u * self.unit)))

        first = jax.jacfwd(log_prior)
        return log_prior(u), first(u), jax.jacfwd(first)(u)

    @property
    def has_priors(self) -> bool:
        """Whether any parameter has one."""
        return any(scale.prior is not None for scale in self.like.scales)

    def along(self, k: int, values: np.ndarray) -> np.ndarray:
        """The places of values of parameter k."""
        return self.like.scales[k].unconstrain(values) / self.unit[k]

    def parameters(self, u: np.ndarray) -> np.ndarray:
        """The parameters at places (lanes, p)."""
        columns = [scale.constrain(own) for scale, own in zip(self.like.scales, (u * self.unit).T, strict=True)]
        return np.stack(columns, axis=1)

    def _slopes(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """dθ/du and d²θ/du² at places (lanes, p), of each parameter along its own line."""
        pairs = [scale.slopes(own) for scale, own in zip(self.like.scales, (u * self.unit).T, strict=True)]
        first, second = (np.stack(parts, axis=1) for parts in zip(*pairs, strict=True))
        return first * self.unit, second * self.unit**2

    def one_by_one(self, u: np.ndarray, places: np.ndarray, which: np.ndarray) -> np.ndarray:
        """The parameters of these numbers at these places, the others being at u (p,)."""
        at = np.repeat(u[None], len(which), axis=0)
        at[np.arange(len(which)), which] = places
        return self.parameters(at)[np.arange(len(which)), which]

    def slopes(self, u: np.ndarray) -> np.ndarray:
        """dθ/du at one place, (p,)."""
        return self._slopes(u[None])[0][0]

    def log_prior(self, u: np.ndarray) -> np.ndarray:
        """The logarithms of the priors at places (lanes, p)."""
        return self._priors(u)[0] if self.has_priors else np.zeros(len(u))

    def values(self, u: np.ndarray) -> np.ndarray:
        """The values (lanes,) of the function at places u, without its derivatives."""
        return self.like.values(self.parameters(u)) + self.log_prior(u)

    def __call__(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values (lanes,), slopes (lanes, p) and curvatures (lanes, p, p) at places (lanes, p)."""
        first, second = self._slopes(u)
        value, gradient, hessian = self.like.at_many(self.parameters(u))
        curvature = first[:, :, None] * hessian * first[:, None, :]
        diagonal = np.arange(self.count)
        curvature[:, diagonal, diagonal] += gradient * second
        if not self.has_priors:
            return value, gradient * first, curvature
        prior = self._priors(u)
        return value + prior[0], gradient * first + prior[1], curvature + prior[2]

    def words(self, u: np.ndarray) -> str:
        """The parameters at a place, in words."""
        values = self.parameters(u[None])[0]
        return ", ".join(f"{name} = {value:.6g}" for name, value in zip(self.like.names, values, strict=True))
