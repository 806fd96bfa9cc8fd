"""The Ornstein-Uhlenbeck process: linear decay against constant noise."""

import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)


def ornstein_uhlenbeck(rate=1.0, sigma=0.5, start=1.0) -> SDE:
    """dx = -rate x dt + sigma dW: a velocity in a viscous medium, a noise voltage on a capacitor.

    Parameters
    ----------
    rate : float
        The rate of return to 0.
    sigma : float
        The strength of the noise.
    start : float
        Where paths start.

    Returns
    -------
    SDE
        The problem.

    Examples
    --------
    >>> from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
    >>> problem = ornstein_uhlenbeck()
    """
    return SDE(drift, diffusion, start, params={"rate": rate, "sigma": sigma})


def drift(t, x, p):
    return -p["rate"] * x


def diffusion(t, x, p):
    return p["sigma"]


def mean(t, *, rate, start):
    """E x(t) = start exp(-rate t)."""
    return start * np.exp(-rate * np.asarray(t, float))[..., None]


def variance(t, *, rate, sigma):
    """Var x(t) = sigma² (1 - exp(-2 rate t)) / (2 rate)."""
    return -(sigma**2) * np.expm1(-2.0 * rate * np.asarray(t, float))[..., None] / (2.0 * rate)


def stationary_density(x, *, rate, sigma):
    """The normal density of variance sigma² / (2 rate)."""
    return np.sqrt(rate / np.pi) / sigma * np.exp(-rate * np.square(x) / sigma**2)


def autocovariance(lag, *, rate, sigma):
    """Cov(x(s), x(s + lag)) of the stationary process = sigma² exp(-rate |lag|) / (2 rate)."""
    return sigma**2 * np.exp(-rate * np.abs(lag)) / (2.0 * rate)


def spectrum(frequency, *, rate, sigma):
    """∫ autocovariance(lag) exp(-2πi frequency lag) dlag = sigma² / (rate² + (2π frequency)²), two-sided."""
    return sigma**2 / (rate**2 + (2.0 * np.pi * np.asarray(frequency, float)) ** 2)


ORNSTEIN_UHLENBECK = Model(
    ornstein_uhlenbeck,
    {
        "mean": mean,
        "variance": variance,
        "stationary_density": stationary_density,
        "autocovariance": autocovariance,
        "spectrum": spectrum,
    },
)
