"""Two pendulums, one hanging from the other."""

import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.mechanical import Mechanical

__dir__ = listing.names_of(__name__)


def double_pendulum(
    L1=1.0, L2=1.0, m1=1.0, m2=2.0, g=9.81, noise=(0.2, 0.1), start=((np.pi / 2, np.pi / 2), (0.0, 0.0))
) -> Mechanical:
    """d²(θ1, θ2)/dt² of a double pendulum, angles from the downward vertical, with noise (n1 θ1', n2 θ2') ξ.

    Parameters
    ----------
    L1, L2, m1, m2, g : float
        The lengths of the rods, the masses, and the acceleration of gravity.
    noise : pair of float
        The strengths n1 and n2.
    start : pair of pairs
        The angles and their rates at the start.

    Returns
    -------
    Mechanical
        The problem.

    Examples
    --------
    >>> from stodyn.models.double_pendulum import double_pendulum
    >>> problem = double_pendulum()
    """
    params = {"L1": L1, "L2": L2, "m1": m1, "m2": m2, "g": g, "noise": np.asarray(noise, float)}
    return Mechanical(force, kick, start, params=params, names=("th1", "th2"))


def force(t, x, v, p):
    (a, b), (u, w), L1, L2, m1, m2, g = x, v, p["L1"], p["L2"], p["m1"], p["m2"], p["g"]
    d = a - b
    D = 2.0 * m1 + m2 - m2 * jnp.cos(2.0 * d)
    first = -g * (2.0 * m1 + m2) * jnp.sin(a) - m2 * g * jnp.sin(a - 2.0 * b)
    first = first - 2.0 * jnp.sin(d) * m2 * (w**2 * L2 + u**2 * L1 * jnp.cos(d))
    second = 2.0 * jnp.sin(d) * (u**2 * L1 * (m1 + m2) + g * (m1 + m2) * jnp.cos(a) + w**2 * L2 * m2 * jnp.cos(d))
    return jnp.stack([first / (L1 * D), second / (L2 * D)])


def kick(t, x, v, p):
    return (p["noise"] * v)[:, None]


def energy(x, *, L1, L2, m1, m2, g):
    """Kinetic and potential energy of states (..., 4)."""
    a, b, u, w = np.moveaxis(np.asarray(x, float), -1, 0)
    kinetic = 0.5 * (m1 + m2) * (L1 * u) ** 2 + 0.5 * m2 * (L2 * w) ** 2 + m2 * L1 * L2 * u * w * np.cos(a - b)
    return kinetic - (m1 + m2) * g * L1 * np.cos(a) - m2 * g * L2 * np.cos(b)


DOUBLE_PENDULUM = Model(double_pendulum, {"energy": energy})
