"""A rigid bar held by a stiff bushing: two translations and a rotation, all of frequencies of order 1/eps."""

import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.mechanical import Mechanical

__dir__ = listing.names_of(__name__)

NOISES = {
    "multiplicative": ((0.012, 0.005, -0.017), None),
    "additive": (None, (0.42, 0.25, 0.73)),
    "both": ((0.022, 0.045, -0.017), (0.42, 0.25, 0.73)),
    "none": (None, None),
}


def bushing(eps=1e-5, torque="printed", noise="multiplicative") -> Mechanical:
    """d²(x, y, θ)/dt²: fx/eps², fy/eps² + 1, -θ/(10 eps²) ± torque, fx = (1 - 2x + cos θ)/2, fy = (-2y + sin θ)/2.

    Parameters
    ----------
    eps : float
        The small number: frequencies are of order 1/eps.
    torque : "printed" or "conservative"
        "printed": +(cos θ (1 + fy/eps²) - sin θ fx/eps²)/2, as in Rajan & Raha's (34c), which has no potential.
        "conservative": -(cos θ fy - sin θ fx)/(2 eps²), from (fx² + fy²)/(2 eps²) + θ²/(20 eps²) - y.
    noise : "multiplicative", "additive", "both" or "none"
        "multiplicative": one channel (.012 x', .005 y', -.017 θ'). "both": two, (.022 x', .045 y', -.017 θ') and
        (.42, .25, .73). "additive": only the second of these, because the paper's own additive noise is lost.

    Returns
    -------
    Mechanical
        The problem.
    """
    if torque not in ("printed", "conservative") or noise not in NOISES:
        raise ValueError(f"torque, noise: expected 'printed' or 'conservative', and one of {tuple(NOISES)}; got "
                         f"{torque!r}, {noise!r}")  # fmt: skip
    damped, constant = NOISES[noise]

    def force(t, x, v, p):
        (x, y, θ), stiff = x, 1.0 / p["eps"] ** 2
        c, s = jnp.cos(θ), jnp.sin(θ)
        fx, fy = 0.5 - x + 0.5 * c, 0.5 * s - y
        turn = c * fy - s * fx
        moment = 0.5 * (c + turn * stiff) if torque == "printed" else -0.5 * turn * stiff
        return jnp.stack([fx * stiff, fy * stiff + 1.0, -0.1 * θ * stiff + moment])

    def kick(t, x, v, p):
        columns = [] if damped is None else [np.array(damped) * v]
        columns += [] if constant is None else [jnp.asarray(np.array(constant), v.dtype)]
        return jnp.stack(columns, axis=1)

    return Mechanical(force, None if noise == "none" else kick, ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
                      params={"eps": eps}, names=("x", "y", "th"))  # fmt: skip


def scaled(x, t, *, eps):
    """(Q, V, s) of states (..., 6): q = (1, 0, 0) + eps² Q, V = q'/eps and t = eps s, all of order 1."""
    x = np.asarray(x, float)
    return (x[..., :3] - np.array([1.0, 0.0, 0.0])) / eps**2, x[..., 3:] / eps, np.asarray(t) / eps


BUSHING = Model(bushing, {"scaled": scaled})
