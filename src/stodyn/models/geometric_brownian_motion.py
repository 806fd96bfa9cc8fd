"""Geometric Brownian motion: growth at a fluctuating rate."""

import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)


def geometric_brownian_motion(growth=0.5, volatility=0.4, start=1.0) -> SDE:
    """dx = growth x dt + volatility x dW (Ito): the linear test equation of multiplicative noise.

    Parameters
    ----------
    growth : float
        The mean rate of growth.
    volatility : float
        The strength of the noise.
    start : float
        Where paths start.

    Returns
    -------
    SDE
        The problem.

    Examples
    --------
    >>> from stodyn.models.geometric_brownian_motion import geometric_brownian_motion
    >>> problem = geometric_brownian_motion()
    """
    return SDE(drift, diffusion, start, params={"growth": growth, "volatility": volatility})


def drift(t, x, p):
    return p["growth"] * x


def diffusion(t, x, p):
    return p["volatility"] * x


def solution(t, W, *, growth, volatility, start):
    """x(t) = start exp((growth - volatility²/2) t + volatility W(t))."""
    return start * np.exp((growth - 0.5 * volatility**2) * np.asarray(t, float) + volatility * np.asarray(W, float))


def mean(t, *, growth, start):
    """E x(t) = start exp(growth t)."""
    return start * np.exp(growth * np.asarray(t, float))[..., None]


def variance(t, *, growth, volatility, start):
    """Var x(t) = start² exp(2 growth t) (exp(volatility² t) - 1)."""
    t = np.asarray(t, float)[..., None]
    return start**2 * np.exp(2.0 * growth * t) * np.expm1(volatility**2 * t)


GEOMETRIC_BROWNIAN_MOTION = Model(geometric_brownian_motion, {"solution": solution, "mean": mean, "variance": variance})
