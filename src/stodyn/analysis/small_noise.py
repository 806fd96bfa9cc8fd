"""The mean path and the covariance of small noise along it: transient noise analysis without sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
from numpy.typing import ArrayLike

from stodyn.analysis.linear import Moments
from stodyn.problems.contract import Problem
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

RTOL = 1e-11


def small_noise(problem: Problem, t: ArrayLike, rtol: float = RTOL) -> Moments:
    """Mean (times, n) and covariance (times, n, n) at the times t, to leading order in the noise.

    The mean is the path without noise, x' = f(t, x), and the covariance solves P' = A P + P A' + g g' along it with
    A = ∂f/∂x: what a circuit simulator calls transient noise. An SDAE is taken in its state-space form. Exact for
    linear drifts with additive noise; else the relative error is of the size of the noise. The first time is that of
    the start.
    """
    times = np.atleast_1d(np.asarray(t, float))
    if len(times) < 1 or np.any(np.diff(times) <= 0.0) or not np.isfinite(times).all():
        raise ValueError(f"t: expected increasing times, the first that of the start, got {t!r}")
    sde, whole = _form(problem, float(times[0]))
    r, p = sde.n, sde.example_params()

    @jax.jit
    def slope(t, z):
        y, P = z[:r], z[r:].reshape(r, r)
        A, g = jax.jacfwd(lambda y: sde.f(t, y, p))(y), sde.g(t, y, p)
        return jnp.concatenate([sde.f(t, y, p), (A @ P + P @ A.T + g @ g.T).ravel()])

    @jax.jit
    def seen(t, z):
        T = jax.jacfwd(lambda y: whole(t, y))(z[:r])
        return whole(t, z[:r]), T @ z[r:].reshape(r, r) @ T.T

    with jax.enable_x64(True):
        start = np.concatenate([sde.example_start(), np.zeros(r * r)])
        noise = np.asarray(sde.g(times[0], jnp.asarray(start[:r]), p))
        span = max(times[-1] - times[0], 1e-300)
        size = np.concatenate([1.0 + np.abs(start[:r]), np.full(r * r, np.abs(noise @ noise.T).max() * span + 1e-300)])
        states = start[None]
        if len(times) > 1:
            run = scipy.integrate.solve_ivp(
                lambda t, z: np.asarray(slope(t, z)), (times[0], times[-1]), start, "LSODA", times, rtol=rtol,
                atol=1e-3 * rtol * size, max_step=span / 50,
            )  # fmt: skip
            if not run.success:
                raise RuntimeError(f"problem: the path without noise could not be followed ({run.message})")
            states = run.y.T
        mean, covariance = zip(*(map(np.asarray, seen(t, z)) for t, z in zip(times, states, strict=True)), strict=True)
    return Moments(np.stack(mean), np.stack(covariance))


def _form(problem: Problem, t: float) -> tuple[SDE, Callable[[Any, Any], Any]]:
    """The SDE that is followed, and the whole state from its components."""
    if isinstance(problem, SDAE):
        problem.before_run(t)
        sde = problem.lower(SDE)[0]  # type: ignore[index]
        params = problem.example_params()
        return sde, lambda t, y: problem.state(t, y, params)  # type: ignore[return-value]
    lowered = problem if isinstance(problem, SDE) else (problem.lower(SDE) or (None,))[0]
    if not isinstance(lowered, SDE):
        raise TypeError(f"problem: expected one that can be written as an SDE, got a {type(problem).__name__}")
    return lowered, lambda t, y: y
