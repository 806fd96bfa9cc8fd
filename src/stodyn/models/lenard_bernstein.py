"""Particles in a periodic field with the Lenard-Bernstein collision operator."""

import jax.numpy as jnp
import numpy as np
import scipy
from jax.scipy.special import ndtr

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.noise.from_normals import from_normals
from stodyn.problems.hamiltonian import Hamiltonian

__dir__ = listing.names_of(__name__)


def lenard_bernstein(nu=0.01, mu=1.0, D=2.0**0.5, E0=3.0, eps=0.25, a=0.5, v0=4.0, width=0.5) -> Hamiltonian:
    """dx = v dt, dv = (-E0 cos(4πx) - nu mu v) dt + √nu D dW on a circle of length 1: H = v²/2 + E0/(4π) sin(4πx).

    The start is 1 + eps cos(2πx) in x, and in v a bump on the tail: a Maxwellian, with a/(1 + a) of the particles at
    v0. M. Kraus & T. M. Tyranowski, Variational integrators for stochastic dissipative Hamiltonian systems, IMA J.
    Numer. Anal. 41 (2021), section 4.3.1.

    Parameters
    ----------
    nu, mu, D : float
        The rate of collisions, the friction, and the strength of the noise.
    E0 : float
        The amplitude of the electric field.
    eps : float
        The amplitude of the density wave at the start.
    a, v0, width : float
        The size, the velocity and the width of the bump.

    Returns
    -------
    Hamiltonian
        The problem.
    """

    def bump_on_tail(z):
        """A uniform x moves by half a circle with probability (1 - eps cos 2πx)/2; that gives it its density."""
        x, moves, is_fast = ndtr(z[:3])
        x = jnp.where(2.0 * moves < 1.0 + eps * jnp.cos(2.0 * jnp.pi * x), x, (x + 0.5) % 1.0)
        return jnp.stack([x, jnp.where(is_fast < a / (1.0 + a), v0 + width * z[3], z[3])])

    return Hamiltonian(
        lambda t, x, v, c: 0.5 * v**2 + c["E0"] / (4.0 * jnp.pi) * jnp.sin(4.0 * jnp.pi * x),
        lambda t, x, v, c: -jnp.sqrt(c["nu"]) * c["D"] * x,
        lambda t, x, v, c: -c["nu"] * c["mu"] * v,
        start=from_normals(bump_on_tail, 4),
        params={"nu": nu, "mu": mu, "D": D, "E0": E0},
        names=("x", "v"),
        periodic=1.0,
    )


def initial_density(x, v, *, eps, a, v0, width):
    """The density at the start."""
    maxwellian = np.exp(-0.5 * v**2) / np.sqrt(2.0 * np.pi)
    bump = np.exp(-0.5 * ((v - v0) / width) ** 2) / (np.sqrt(2.0 * np.pi) * width)
    return (1.0 + eps * np.cos(2.0 * np.pi * x)) * (maxwellian + a * bump) / (1.0 + a)


def initial_energy(*, a, v0, width):
    """E H at the start: half of E v²."""
    return 0.5 * (1.0 + a * (v0**2 + width**2)) / (1.0 + a)


def position_density(x, *, mu, D, E0):
    """The stationary density of x, exp(-(2 mu/D²) E0/(4π) sin(4πx)) / I_0."""
    k = 2.0 * mu / D**2 * E0 / (4.0 * np.pi)
    return np.exp(-k * np.sin(4.0 * np.pi * np.asarray(x, float)) - k) / scipy.special.ive(0, k)


def velocity_density(v, *, mu, D):
    """The stationary density of v, a Maxwellian of variance D²/(2 mu)."""
    return np.exp(-mu / D**2 * np.asarray(v, float) ** 2) * np.sqrt(mu / np.pi) / D


def ergodic_energy(*, mu, D, E0):
    """E H in the stationary state: D²/(4 mu) - κ I_1(bκ)/I_0(bκ) with κ = E0/(4π), b = 2 mu/D²."""
    kappa, b = E0 / (4.0 * np.pi), 2.0 * mu / D**2
    return float(0.5 / b - kappa * scipy.special.ive(1, b * kappa) / scipy.special.ive(0, b * kappa))


LENARD_BERNSTEIN = Model(
    lenard_bernstein,
    {
        "initial_density": initial_density,
        "initial_energy": initial_energy,
        "position_density": position_density,
        "velocity_density": velocity_density,
        "ergodic_energy": ergodic_energy,
    },
)
