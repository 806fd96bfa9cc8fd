"""The Lorenz system with noise on every component: chaos and noise together."""

import jax.numpy as jnp

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)


def lorenz(prandtl=10.0, rayleigh=28.0, ratio=8.0 / 3.0, strength=0.3, noise="multiplicative", start=(1.0, 1.0, 1.0)):
    """dx = prandtl (y - x) dt, dy = (x (rayleigh - z) - y) dt, dz = (x y - ratio z) dt, each with noise of its own.

    There is no closed form. E. N. Lorenz, Deterministic nonperiodic flow, J. Atmos. Sci. 20 (1963).

    Parameters
    ----------
    prandtl, rayleigh, ratio : float
        The parameters of the flow.
    strength : float
        The strength of the noise.
    noise : "multiplicative" or "additive"
        "multiplicative" adds strength x_i dW_i to component i, "additive" strength dW_i.
    start : sequence of 3 numbers
        Where paths start.

    Returns
    -------
    SDE
        The problem.

    Examples
    --------
    >>> from stodyn.models.lorenz import lorenz
    >>> problem = lorenz()
    """
    if noise not in DIFFUSIONS:
        raise ValueError(f"noise: expected one of {', '.join(DIFFUSIONS)}, got {noise!r}")
    params = {"prandtl": prandtl, "rayleigh": rayleigh, "ratio": ratio, "strength": strength}
    return SDE(drift, DIFFUSIONS[noise], start, params=params, names=("x", "y", "z"))


def drift(t, state, p):
    x, y, z = state
    return jnp.stack([p["prandtl"] * (y - x), x * (p["rayleigh"] - z) - y, x * y - p["ratio"] * z])


def multiplicative(t, state, p):
    return jnp.diag(p["strength"] * state)


def additive(t, state, p):
    return p["strength"] * jnp.eye(3)


DIFFUSIONS = {"multiplicative": multiplicative, "additive": additive}

LORENZ = Model(lorenz)
