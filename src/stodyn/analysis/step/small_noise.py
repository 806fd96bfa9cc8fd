"""The mean path and the covariance of small noise along it: transient noise analysis without sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.flatten_util import ravel_pytree
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.analysis.step.linear import Moments
from stodyn.arguments import checks_arguments
from stodyn.engine.precision import warn_of_rounded
from stodyn.engine.spec import as_it_is_now, matched
from stodyn.methods.catalogue import stepping
from stodyn.methods.contract import Method
from stodyn.methods.switching import refuse_switches
from stodyn.numerics import uncompiled
from stodyn.numerics.printing.points import AtPoints, at_points
from stodyn.problems.contract import Problem, written_as
from stodyn.problems.linear_plant import refuse_random_params
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)

RTOL = 1e-11


@checks_arguments
def small_noise(problem: Problem, t: ArrayLike, rtol: float = RTOL) -> Moments:
    """Compute mean and covariance at the times t, to leading order in the noise.

    The mean is the path without noise, x' = f(t, x), and the covariance solves P' = A P + P A' + g g' along it with
    A = ∂f/∂x: circuit simulators call this transient noise. An SDAE is taken in its state-space form. Exact for
    linear drifts with additive noise; otherwise the relative error is of the size of the noise.

    Parameters
    ----------
    problem : Problem
        An SDE, or one that lowers to it.
    t : array (times,)
        Increasing times, the first being that of the start.
    rtol : float
        The relative error of the integration in time.

    Returns
    -------
    Moments
        Mean (times, n) and covariance (times, n, n).

    Raises
    ------
    ValueError
        If the times do not increase.
    RuntimeError
        If the path without noise cannot be followed to the end.
    """
    times = np.atleast_1d(np.asarray(t, float))
    if len(times) < 1 or np.any(np.diff(times) <= 0.0) or not np.isfinite(times).all():
        raise ValueError(f"t: expected increasing times, the first that of the start, got {t!r}")
    warn_of_rounded(problem, "this analysis in float64")
    refuse_switches(problem, "small_noise")
    refuse_random_params("problem", problem)
    sde, whole = _form(problem, float(times[0]))
    r, p = sde.n, sde.example_params()

    def slope(t, z):
        y, P = z[:r], z[r:].reshape(r, r)
        A, g = jax.jacfwd(lambda y: sde.f(t, y, p))(y), sde.g(t, y, p)
        return jnp.concatenate([sde.f(t, y, p), (A @ P + P @ A.T + g @ g.T).ravel()])

    def moments(t, z):
        T = jax.jacfwd(lambda y: whole(t, y))(z[:r])
        return whole(t, z[:r]), T @ z[r:].reshape(r, r) @ T.T

    slope_at = AtPoints(slope, (None, 0))
    with jax.enable_x64(True):
        start = np.concatenate([sde.example_start(), np.zeros(r * r)])
        noise = np.asarray(sde.g(times[0], jnp.asarray(start[:r]), p))
        span = max(times[-1] - times[0], 1e-300)
        size = np.concatenate([1.0 + np.abs(start[:r]), np.full(r * r, np.abs(noise @ noise.T).max() * span + 1e-300)])
        states = start[None]
        if len(times) > 1:
            solution = scipy.integrate.solve_ivp(
                lambda t, z: slope_at(t, z[None])[0], (times[0], times[-1]), start, "LSODA", times, rtol=rtol,
                atol=1e-3 * rtol * size, max_step=span / 50,
            )  # fmt: skip
            if not solution.success:
                raise RuntimeError(f"problem: the path without noise could not be followed ({solution.message})")
            states = solution.y.T
    return Moments(*at_points(moments, times, states))


def _form(problem: Problem, t: float) -> tuple[SDE, Callable[[Any, Any], Any]]:
    """The SDE that is followed, and the whole state from its components."""
    if isinstance(problem, SDAE):
        problem.before_run(t)
        sde = problem.lower(SDE)[0]  # type: ignore[index]
        params = problem.example_params()
        return sde, lambda t, y: problem.state_space.state(t, y, params)  # type: ignore[return-value]
    lowered = written_as(problem, SDE)
    if not isinstance(lowered, SDE):
        raise TypeError(f"problem: expected one that can be written as an SDE, got a {type(problem).__name__}")
    return lowered, lambda t, y: y


@checks_arguments
@overload
def delivered_small_noise(problem: Problem, method: Method | str, t: tuple[float, float], steps: int) -> Moments: ...


@overload
def delivered_small_noise(
    problem: Problem, method: Method | str, t: tuple[float, float], steps: Sequence[int]
) -> list[Moments]: ...


@checks_arguments
def delivered_small_noise(
    problem: Problem, method: Method | str, t: tuple[float, float], steps: int | Sequence[int]
) -> Moments | list[Moments]:
    """Compute mean and covariance of small noise as a method delivers them with equal steps; see `small_noise`.

    The mean path is stepped without noise, x' = Φ(x, 0), and the covariance with the derivatives of the step along it,
    P' = Φ_x P Φ_x' + Φ_ξ Φ_ξ', ξ all normals of a step.

    Parameters
    ----------
    problem : Problem
        A problem that the method takes.
    method : Method or str
        A one-step method with normal increments whose state is that of the problem, or its name.
    t : (start, end)
        The interval.
    steps : int or sequence of int
        The number of steps, or several such numbers.

    Returns
    -------
    Moments
        Mean (steps + 1, n) and covariance (steps + 1, n, n); for several numbers of steps a list of these.

    Raises
    ------
    ValueError
        If `steps` or `t` is impossible.
    RuntimeError
        If the method fails along the path without noise.
    """
    method, counts = stepping(method), np.atleast_1d(np.asarray(steps))
    if counts.ndim != 1 or not len(counts) or counts.dtype.kind not in "iu" or counts.min() < 1:
        raise ValueError(f"steps: expected a whole number >= 1, or several, got {steps!r}")
    if np.shape(t) != (2,) or not -np.inf < t[0] < t[1] < np.inf:
        raise ValueError(f"t: expected (begin, end), begin before end, got {t!r}")
    refuse_random_params("problem", problem)
    begin, h = float(t[0]), (t[1] - t[0]) / counts
    with jax.enable_x64(True):
        start, step = _linearised(as_it_is_now(problem), method, begin)
    x, P = np.tile(start, (len(counts), 1)), np.zeros((len(counts), len(start), len(start)))
    means, covariances = [[start] for _ in counts], [[matrix] for matrix in P.copy()]
    for k in range(counts.max()):
        going = np.flatnonzero(counts > k)
        A, B, x[going] = step(begin + k * h[going], h[going], x[going])
        P[going] = A @ P[going] @ A.mT + B @ B.mT
        for i in going:
            if not np.isfinite(P[i]).all() or not np.isfinite(x[i]).all():
                raise RuntimeError(
                    f"steps: with {counts[i]} of them {method.name} fails at t = {begin + k * h[i]:g}, without noise: "
                    "its equations were not solved, or the state left the finite numbers. Take more steps."
                )
            means[i].append(x[i].copy())
            covariances[i].append(P[i].copy())
    moments = [
        Moments(np.stack(mean), np.stack(covariance)) for mean, covariance in zip(means, covariances, strict=True)
    ]
    return moments[0] if np.ndim(steps) == 0 else moments


def _linearised(problem: Problem, method: Method, begin: float) -> tuple[np.ndarray, AtPoints]:
    """The method's start, and (t, h, x) -> Φ_x, Φ_ξ and Φ of a step without noise, at many points; NaN where its
    equations were not solved."""
    converted, p = matched(problem, method)[0], problem.example_params()
    if method.starting_steps:
        raise ValueError(f"method: {method.name} needs a history, so that a step is not a function of the state alone")
    if hasattr(method.needs, "nodes"):
        raise ValueError(f"method: {method.name} draws from a few points, but a step has no derivative by such a draw")
    converted.before_run(begin)
    start = method.start(converted, jnp.asarray(begin), jnp.asarray(converted.example_start()), p)
    if not isinstance(start, jax.Array) or start.shape != (converted.n,):
        raise ValueError(f"method: {method.name} carries more than the state: a step is not a function of it alone")
    increment, silence, felt = _increments(method, converted.m)

    def after(t, h, x, ξ):
        reached, report = method.step(converted, t, x, increment(h, silence.at[felt].set(ξ)), p)
        return reached, jnp.where(report.ok, reached, jnp.nan)

    def step(t, h, x):
        (A, B), reached = jax.jacfwd(after, argnums=(2, 3), has_aux=True)(t, h, x, silence[felt])
        return A, B, reached

    return np.asarray(start), AtPoints(step)


def _increments(method: Method, m: int) -> tuple[Callable[[Any, Any], Any], Any, np.ndarray]:
    """Return (h, ξ) -> the noise of a step; ξ = 0; and which of ξ matter there: areas are products, without a slope at
    0."""
    silence, unravel = ravel_pytree({name: jnp.zeros(count) for name, count in method.needs.normals(m).items()})

    def increment(h, ξ):
        return method.needs.increment(h, unravel(ξ), m)

    slopes = uncompiled.value(jax.jacfwd(lambda ξ: ravel_pytree(increment(1.0, ξ))[0]), silence)
    return increment, silence, np.flatnonzero(np.any(slopes != 0.0, axis=0))
