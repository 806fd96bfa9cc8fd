"""A shear building on ground that shakes."""

import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.noise.coloured import kanai_tajimi
from stodyn.numerics import lyapunov
from stodyn.problems.excitation import with_noise
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)


def shear_building(storeys=5, mass=2.0e5, stiffness=2.5e8, damping=0.05, omega_g=15.6, zeta_g=0.6, sigma_g=1.0) -> SDE:
    """d²d/dt² = -K d - D dd/dt - a_g e_1: the drifts d of a building's storeys on ground of acceleration a_g, SI units.

    Floors of equal mass on storeys of equal stiffness: m (ẍ_i + a_g) = k d_(i+1) - k d_i + damper forces. a_g has the
    Kanai-Tajimi spectrum; the defaults are those of firm soil. States: the drifts d_i = x_i - x_(i-1) (x_0 is the
    ground), their rates, a_g and one more state of its filter.

    Parameters
    ----------
    storeys : int
        The number of storeys.
    mass, stiffness : float
        The mass m of a floor and the stiffness k of a storey.
    damping : float
        The damping ratio of the first mode.
    omega_g, zeta_g : float
        The frequency [rad/s] and the damping ratio of the ground.
    sigma_g : float
        The standard deviation of a_g [m/s²].

    Returns
    -------
    SDE
        The problem.
    """
    K, D = matrices(storeys, mass, stiffness, damping)
    names = (*(f"drift{i}" for i in range(1, storeys + 1)), *(f"rate{i}" for i in range(1, storeys + 1)))
    units = dict.fromkeys(names[:storeys], "m") | dict.fromkeys(names[storeys:], "m/s")

    def drift(t, z):
        d, v = z[:storeys], z[storeys:]
        return jnp.concatenate([v, -K @ d - D @ v])

    quiet = SDE(drift, lambda t, z: jnp.zeros((2 * storeys, 1)), np.zeros(2 * storeys), names=names, units=units)
    ground = kanai_tajimi(omega_g, zeta_g, sigma=sigma_g)
    # The ground's acceleration pushes the first floor's drift alone: the floors above move with the one below.
    return with_noise(quiet, ground, into=-np.eye(2 * storeys)[:, [storeys]])


def matrices(storeys, mass, stiffness, damping):
    """K and D of d̈ = -K d - D ḋ - a_g e_1 for the drifts d."""
    n = storeys
    # Force on floor i over its mass: (k/m)(d_(i+1) - d_i); the acceleration of a drift is the difference of two floors.
    floors = np.eye(n) - np.eye(n, k=1)
    K = stiffness / mass * (floors - np.vstack([np.zeros((1, n)), floors[:-1]]))
    lowest = 2.0 * np.sqrt(stiffness / mass) * np.sin(np.pi / (2.0 * (2 * n + 1)))
    return K, 2.0 * damping / lowest * K


def floor_accelerations(z, *, storeys, mass, stiffness, damping):
    """The absolute accelerations (..., storeys) of the floors in the states z, due to springs and dampers."""
    K, D = matrices(storeys, mass, stiffness, damping)
    z = np.asarray(z, float)
    return np.cumsum(-z[..., :storeys] @ K.T - z[..., storeys : 2 * storeys] @ D.T, axis=-1)


def stationary_covariance(*, storeys, mass, stiffness, damping, omega_g, zeta_g, sigma_g):
    """The covariance of all states in the long run."""
    K, D = matrices(storeys, mass, stiffness, damping)
    ground = kanai_tajimi(omega_g, zeta_g, sigma=sigma_g).with_outputs_first()
    n = storeys
    A = np.zeros((2 * n + 2, 2 * n + 2))
    A[:n, n : 2 * n], A[n : 2 * n, :n], A[n : 2 * n, n : 2 * n] = np.eye(n), -K, -D
    A[n, 2 * n :], A[2 * n :, 2 * n :] = -ground.C[0], ground.A
    B = np.concatenate([np.zeros((2 * n, 1)), ground.B])
    return lyapunov.continuous(A, B @ B.T)


SHEAR_BUILDING = Model(
    shear_building,
    {"floor_accelerations": floor_accelerations, "stationary_covariance": stationary_covariance},
)
