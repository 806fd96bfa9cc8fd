"""A particle in two wells, kicked over the barrier by noise."""

import numpy as np
from scipy.integrate import quad

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)


def double_well(barrier=0.25, well=1.0, sigma=0.5, start=1.0) -> SDE:
    """dx = -V'(x) dt + sigma dW, V(x) = barrier ((x/well)² - 1)²: wells at ±well, x - x³ for barrier 1/4, well 1.

    Parameters
    ----------
    barrier : float
        The height of the barrier, V(0) - V(well).
    well : float
        The distance of the wells from 0.
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
    >>> from stodyn.models.double_well import double_well
    >>> problem = double_well()
    """
    return SDE(drift, diffusion, start, params={"barrier": barrier, "well": well, "sigma": sigma})


def drift(t, x, p):
    return -4.0 * p["barrier"] / p["well"] ** 2 * x * ((x / p["well"]) ** 2 - 1.0)


def diffusion(t, x, p):
    return p["sigma"]


def potential(x, *, barrier, well):
    """V(x) = barrier ((x/well)² - 1)²."""
    return barrier * (np.square(np.asarray(x, float) / well) - 1.0) ** 2


def _weight(x, barrier, well, sigma):
    return np.exp(-2.0 * potential(x, barrier=barrier, well=well) / sigma**2)


def _integral(function, barrier, well, sigma):
    """∫ of an even function times exp(-2V/sigma²), to where that is below 1e-100 of its peak."""
    end = well * np.sqrt(1.0 + np.sqrt(115.0 * sigma**2 / barrier))
    return 2.0 * sum(
        quad(lambda x: function(x) * _weight(x, barrier, well, sigma), *ends, epsabs=0.0, epsrel=1e-12)[0]
        for ends in ((0.0, well), (well, end))
    )


def stationary_density(x, *, barrier, well, sigma):
    """exp(-2 V(x) / sigma²) / Z, Z by quadrature."""
    return _weight(x, barrier, well, sigma) / _integral(lambda x: 1.0, barrier, well, sigma)


def stationary_variance(*, barrier, well, sigma):
    """∫ x² stationary_density(x) dx; the stationary mean is 0."""
    return _integral(np.square, barrier, well, sigma) / _integral(lambda x: 1.0, barrier, well, sigma)


DOUBLE_WELL = Model(
    double_well,
    {
        "potential": potential,
        "stationary_density": stationary_density,
        "stationary_variance": stationary_variance,
    },
)
