"""A rigid body that turns freely, by a quaternion q of length 1, under a white torque fixed in the body.

ω = 2 E(q) q' are the rates about the principal axes and T = ½ ωᵀJω: as a system of q it has the mass 4 EᵀJE, of rank
3, to which c q qᵀ is added, the square of the gradient of the constraint: it changes no motion. In the rates,
J dω = (Jω)×ω dt + σ dW.
"""

import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.minimal import in_minimal_coordinates

__dir__ = listing.names_of(__name__)


def rates_matrix(q, xp=jnp):
    """E(q), (3, 4): E q = 0, E Eᵀ = |q|²; xp is jax.numpy or numpy."""
    a, b, c, d = q
    return xp.stack([xp.stack([-b, a, d, -c]), xp.stack([-c, -d, a, b]), xp.stack([-d, c, -b, a])])


def rigid_body(
    J=(1.0, 2.0, 2.5), torque=(0.6, -0.4, 0.8), rates=(0.5, 1.5, -0.7), stiffening=3.0, impulses=False
) -> Mechanical:
    """d²q/dt² of the quaternion of a free rigid body, |q| = 1, under one white torque about an axis of the body.

    Parameters
    ----------
    J : sequence of 3 numbers
        The principal moments of inertia.
    torque : sequence of 3 numbers
        The strengths σ of the white torque about the principal axes.
    rates : sequence of 3 numbers
        The angular velocity about the principal axes at the start.
    stiffening : float
        The number c; 0 leaves the mass singular, which ProjectedAlpha accepts.
    impulses : bool
        Whether the impulses of the constraints are components of the run, as statistics.Reaction needs.

    Returns
    -------
    Mechanical
        The problem.
    """
    inertia, σ = np.diag(np.asarray(J, float)), np.asarray(torque, float)

    def mass(t, q, v):
        E = rates_matrix(q)
        return 4.0 * E.T @ inertia @ E + stiffening * jnp.outer(q, q)

    def force(t, q, v):
        return -8.0 * rates_matrix(v).T @ (inertia @ (rates_matrix(q) @ v)) - stiffening * jnp.sum(v * v) * q

    start = np.array([1.0, 0.0, 0.0, 0.0])
    return Mechanical(
        force, lambda t, q, v: (2.0 * rates_matrix(q).T @ σ)[:, None],
        (start, 0.5 * rates_matrix(start, np).T @ np.asarray(rates, float)), mass,
        names=("q0", "q1", "q2", "q3"), constraints=lambda t, q: 0.5 * (jnp.sum(q * q) - 1.0)[None],
        constraint_names=("length",), impulses=impulses,
    )  # fmt: skip


def body_rates(x):
    """ω about the principal axes of states (..., 8)."""
    q, v = np.moveaxis(np.asarray(x, float), -1, 0).reshape(2, 4, *np.shape(x)[:-1])
    return 2.0 * np.moveaxis(np.einsum("ij...,j...->i...", rates_matrix(q, np), v), 0, -1)


def energy(t, *, J, torque, rates):
    """E T(t) = T(0) + ½ Σ σ_i²/J_i t, exactly."""
    J, σ, ω = (np.asarray(part, float) for part in (J, torque, rates))
    return 0.5 * np.sum(J * ω**2) + 0.5 * np.sum(σ**2 / J) * np.asarray(t)


def _turned(t, u):
    """The quaternion of the rotation by |u| about u; a chart for |u| < 2π."""
    square = jnp.sum(u * u)
    safe = jnp.where(square > 1e-8, square, 1.0)
    half = 0.5 * jnp.sqrt(safe)
    cosine = jnp.where(square > 1e-8, jnp.cos(half), 1.0 - square / 8.0 + square**2 / 384.0)
    sine = jnp.where(square > 1e-8, jnp.sin(half) / (2.0 * half), 0.5 - square / 48.0)
    return jnp.concatenate([cosine[None], sine * u])


def _rotation_vector(*, J, torque, rates, stiffening):
    problem = rigid_body(J, torque, rates, stiffening)
    return in_minimal_coordinates(problem, _turned, (np.zeros(3), np.asarray(rates, float)), ("ux", "uy", "uz"))


RIGID_BODY = Model(
    rigid_body,
    {"energy": energy, "body_rates": body_rates, "embedding": _turned,
     "minimal": _rotation_vector},
)  # fmt: skip
