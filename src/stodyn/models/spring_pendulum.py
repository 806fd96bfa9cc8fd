"""A mass on a stiff spring, with gravity and noise that grows with its velocity."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.mechanical import Mechanical

__dir__ = listing.names_of(__name__)


def spring_pendulum(stiffness=2000.0, gravity=1.0, noise=(0.2, 0.4), start=((0.9, 0.0), (0.0, 0.0))) -> Mechanical:
    """d²(x, y)/dt² = -stiffness (r-1)/r (x, y) + (0, gravity) + (noise_x x', noise_y y') ξ; r = |(x, y)|, y is down.

    Parameters
    ----------
    stiffness, gravity : float
        The stiffness of the spring, and the acceleration of gravity.
    noise : pair of float
        The strengths noise_x and noise_y.
    start : pair of pairs
        (x, y) and its rates at the start.

    Returns
    -------
    Mechanical
        The problem.
    """
    params = {"stiffness": stiffness, "gravity": gravity, "noise": np.asarray(noise, float)}
    return Mechanical(force, kick, start, params=params, names=("x", "y"))


def force(t, x, v, p):
    stretch = 1.0 - lax.rsqrt(x @ x)  # (r - 1)/r
    return -p["stiffness"] * stretch * x + jnp.stack([jnp.zeros_like(stretch), p["gravity"]])


def kick(t, x, v, p):
    return (p["noise"] * v)[:, None]


def energy(x, *, stiffness, gravity):
    """The energy v²/2 + stiffness (r-1)²/2 - gravity y of states (..., 4)."""
    x = np.asarray(x)
    r = np.hypot(x[..., 0], x[..., 1])
    return 0.5 * (x[..., 2] ** 2 + x[..., 3] ** 2 + stiffness * (r - 1.0) ** 2) - gravity * x[..., 1]


SPRING_PENDULUM = Model(spring_pendulum, {"energy": energy})
