"""The likelihood of a record as a function of the parameters, with its derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.inference.question import Question, chosen, marginals, question_of, why_singular, with_start
from stodyn.inference.scales import Scale, scales_of
from stodyn.problems.contract import expect_problem


@dataclasses.dataclass(eq=False)
class Likelihood:
    """The log-likelihood of a record as a function of parameters; made by stodyn.likelihood.

    Parameters are given as {name: number} or as a vector in the order of `names`; those left out have the problem's
    values. Derivatives come in the order of `names`. A call costs some milliseconds and the recursion itself.

    Attributes
    ----------
    names : tuple of str
        The free parameters.
    start : array
        Their values in the problem.
    """

    question: Question
    places: tuple[int, ...]
    scales: tuple[Scale, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The free parameters."""
        return tuple(self.question.names[k] for k in self.places)

    @property
    def start(self) -> np.ndarray:
        """The values of the free parameters in the problem."""
        return self.question.values[list(self.places)]

    def __call__(self, params: Any = None) -> float:
        """Return the log-likelihood; -inf where there is none, as with a start that has no stationary law."""
        (value,) = self._evaluated(self.vector(params)[None])
        return float(value[0])

    def gradient(self, params: Any = None) -> np.ndarray:
        """Return the derivatives of the log-likelihood."""
        theta, count = self.vector(params), len(self.places)
        return self._evaluated(np.repeat(theta[None], count, axis=0), np.eye(count))[1]

    def hessian(self, params: Any = None) -> np.ndarray:
        """Return the second derivatives of the log-likelihood."""
        return self.derivatives(params)[2]

    def information(self, params: Any = None) -> np.ndarray:
        """Return the observed information, minus the second derivatives."""
        return -self.hessian(params)

    def derivatives(self, params: Any = None) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the log-likelihood, its gradient and its second derivatives, by one recursion."""
        value, gradient, hessian = self.at_many(self.vector(params)[None])
        return float(value[0]), gradient[0], hessian[0]

    def values(self, thetas: np.ndarray) -> np.ndarray:
        """Return the log-likelihoods (k,) at parameters (k, p)."""
        return self._evaluated(thetas)[0]

    def at_many(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values (k,), gradients (k, p) and second derivatives (k, p, p) at parameters (k, p)."""
        k, count = thetas.shape
        i, j = np.triu_indices(count)
        unit = np.eye(count)
        results = self._evaluated(np.repeat(thetas, len(i), axis=0), np.tile(unit[i], (k, 1)), np.tile(unit[j], (k, 1)))
        value, first, _, mixed = (part.reshape(k, len(i)) for part in results)
        hessian = np.empty((k, count, count))
        hessian[:, i, j] = hessian[:, j, i] = mixed
        return value[:, 0], first[:, i == j], hessian

    def jax(self, params: Any) -> Array:
        """Return the log-likelihood as a number of JAX, to be traced and derived in either direction; NaN where rates
        are more than eight times those of the problem."""
        whole = jnp.asarray(self.question.values).at[np.array(self.places)].set(jnp.asarray(self._theta(params), float))
        return self.question.evaluated.log_total(whole)

    def log_density(self, u: Any) -> Array:
        """Return log L, log prior and the logarithm of the slope of the parameters at u on the line, for samplers."""
        theta = self.constrain(u)
        slopes = sum(scale.log_slope(u[k]) for k, scale in enumerate(self.scales))
        return self.jax(theta) + self.log_prior(theta) + slopes

    def log_prior(self, theta: Any) -> Any:
        """Return the logarithm of the density of the priors at a vector of parameters."""
        return sum(scale.log_prior(theta[k]) for k, scale in enumerate(self.scales))

    def constrain(self, u: Any) -> Array:
        """Return the parameters at places u on the line, one for each of `names`."""
        return jnp.stack([scale.constrain(u[k]) for k, scale in enumerate(self.scales)])

    def unconstrain(self, params: Any = None) -> Array:
        """Return the places of parameters on the line."""
        theta = self._theta(self.start if params is None else params)
        return jnp.stack([scale.unconstrain(theta[k]) for k, scale in enumerate(self.scales)])

    def _theta(self, params: Any) -> Any:
        """A vector in the order of names."""
        if not isinstance(params, Mapping):
            return params
        unknown = [name for name in params if name not in self.names]
        if unknown:
            raise ValueError(f"params: {unknown[0]!r} is not free; free are {', '.join(self.names)}")
        return [params.get(name, value) for name, value in zip(self.names, self.start, strict=True)]

    def vector(self, params: Any = None) -> np.ndarray:
        """Return parameters as a vector in the order of `names`."""
        theta = np.asarray(self.start if params is None else self._theta(params), float)
        if theta.shape != (len(self.places),):
            raise ValueError(
                f"params: expected {len(self.places)} numbers, those of {', '.join(self.names)}, got {params!r}"
            )
        return theta

    def _whole(self, thetas: np.ndarray, are_directions: bool) -> np.ndarray:
        """Values, or directions, of all parameters from those of the free ones."""
        whole = np.zeros((len(thetas), self.question.values.size))
        if not are_directions:
            whole[:] = self.question.values
        whole[:, self.places] = thetas
        return whole

    def _evaluated(self, thetas: np.ndarray, *directions: np.ndarray) -> list[np.ndarray]:
        """The log-likelihood at θ (lanes, p) and its derivatives along directions."""
        at, along = self._whole(thetas, False), [self._whole(u, True) for u in directions]
        evaluated = self.question.evaluated
        results = evaluated.log_likelihood(at, *along)
        if np.isfinite(results[0]).all():
            return results
        wider = evaluated.for_parameters(at[np.isfinite(at).all(axis=1)])
        if wider is not evaluated:
            self.question = dataclasses.replace(self.question, evaluated=wider)
            results = wider.log_likelihood(at, *along)
        return [np.where(np.isfinite(results[0]), results[0], -np.inf), *results[1:]]


@checks_arguments
def likelihood(
    problem: Any,
    method: Any = None,
    *,
    data: Any,
    sensors: Any = None,
    free: Any = None,
    t0: float | None = None,
    dt: float | None = None,
    by: str | None = None,
    law: Any = None,
    params: Any = None,
    initial: Any = None,
) -> Likelihood:
    """Prepare the likelihood of a record as a function of parameters, with gradient and second derivatives.

    Parameters
    ----------
    problem : Problem
        A linear problem with additive noise, or any other with `by`.
    method : Method or str, optional
        As that of sd.filtered.
    data : Record, mapping, table or (times, values)
        The readings, in any form that sd.Record takes.
    sensors : Sensor or sequence of Sensor
        What made them; may be left out where `data` is a Record.
    free : sequence of str or mapping, optional
        The parameters that it is a function of, as those of sd.fit; by default all numbers among the params.
    t0 : float
        The time of the start, by default 0.
    dt : float, optional
        The step of the method.
    by : "kalman", "ekf" or "statistical", optional
        The filter, as in sd.filtered.
    law : "exact", Method or str, optional
        The law between readings: by default that of the equations. A method: what its steps dt deliver, for records
        made by a simulator; readings are then whole numbers of steps apart.
    params : mapping, optional
        Numbers in place of the problem's params, and those that only sensors have.
    initial : "stationary", "diffuse" or {component: "diffuse"}, optional
        The law of the start where it is not the problem's own.

    Returns
    -------
    Likelihood
        like(params) is the log-likelihood, with all factors of 2π; like.gradient, like.hessian and like.information its
        derivatives; like.jax and like.log_density functions of JAX.

    Raises
    ------
    TypeError, ValueError
        As sd.filtered; and if a free parameter is unknown.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x, p: -p["rate"] * x, lambda t, x: 1.0 + 0.0 * x, 0.0, params={"rate": 1.0})
    >>> sensor = sd.Sensor("y", of="x", noise=sd.per_sample(0.1))
    >>> like = sd.likelihood(decay, data=([0.5, 1.5], [0.3, -0.2]), sensors=sensor, free=["rate"])
    >>> round(like({"rate": 1.0}), 9), like.gradient({"rate": 1.0}).round(9)
    (-1.115392558, array([0.48762004]))
    """
    scales = None if free is None else scales_of(free)
    expect_problem(problem)
    params = with_start(problem, list(scales or ()), params)
    question = question_of(
        problem, method, data=data, sensors=sensors, t0=t0, dt=dt, by=by, law=law, params=params, initial=initial
    )
    scales = {name: Scale() for name in question.names} if scales is None else scales
    like = Likelihood(question, chosen(question.names, list(scales)), tuple(scales.values()))
    if not np.isfinite(like()):
        parts, history = question.evaluated.history(question.values)
        reason = why_singular(question, history.readings, marginals(question, parts, history.predicted)[1])
        if reason is not None:
            raise ValueError(reason)
    return like
