"""Particles in a plane periodic field with the Lorentz collision operator: scattering that keeps their energy."""

import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.noise.rejection import Rejection
from stodyn.problems.hamiltonian import Hamiltonian

__dir__ = listing.names_of(__name__)


def lorentz_collisions(nu=0.005, E0=3.0, eps=0.25) -> Hamiltonian:
    """dx = v dt, dv = -∇U(x) dt + √(2 nu) (v_y, -v_x) ∘ dW on a torus, U = E0/(4π) sin(4πx) sin(4πy): H is kept.

    The start is (1 + eps cos 2πx)(1 + eps cos 2πy) in x and y, with Maxwellian velocities.
    M. Kraus & T. M. Tyranowski, Variational integrators for stochastic dissipative Hamiltonian systems, IMA J. Numer.
    Anal. 41 (2021), section 4.3.2; the force of its (4.16) is corrected after its (4.15).

    Parameters
    ----------
    nu : float
        The rate of collisions.
    E0 : float
        The amplitude of the electric field.
    eps : float
        The amplitude of the density wave at the start.

    Returns
    -------
    Hamiltonian
        The problem.
    """
    place = Rejection(
        lambda z: np.prod(1.0 + eps * np.cos(2.0 * np.pi * z), axis=1), (0.0, 0.0), (1.0, 1.0), (1.0 + abs(eps)) ** 2
    )
    wave = 4.0 * jnp.pi

    def H(t, x, v, c):
        return 0.5 * (v[0] ** 2 + v[1] ** 2) + c["E0"] / wave * jnp.sin(wave * x[0]) * jnp.sin(wave * x[1])

    return Hamiltonian(
        H,
        noise=lambda t, x, v, c: jnp.sqrt(2.0 * c["nu"]) * jnp.stack([v[1], -v[0]]),
        start=(place, lambda rng, size: rng.standard_normal((size, 2))),
        params={"nu": nu, "E0": E0},
        names=("x", "y", "vx", "vy"),
        periodic=1.0,
    )


def mean_energy(*, eps):
    """E H at all times: 1 from the Maxwellian; the mean of U is zero (sin 4πx and cos 2πx are orthogonal)."""
    return 1.0 + 0.0 * eps


LORENTZ_COLLISIONS = Model(lorentz_collisions, {"mean_energy": mean_energy})
