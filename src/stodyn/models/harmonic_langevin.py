"""A damped oscillator in thermal noise."""

import numpy as np
import scipy

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.hamiltonian import Hamiltonian

__dir__ = listing.names_of(__name__)


def harmonic_langevin(friction=0.1, sigma=0.5, start=(1.0, 0.0)) -> Hamiltonian:
    """dq = p dt, dp = (-q - friction p) dt + sigma dW: H = (q² + p²)/2, F = -friction p, h = -sigma q.

    Parameters
    ----------
    friction : float
        The friction.
    sigma : float
        The strength of the noise.
    start : pair of float
        (q, p) at the start.

    Returns
    -------
    Hamiltonian
        The problem.

    Examples
    --------
    >>> from stodyn.models.harmonic_langevin import harmonic_langevin
    >>> problem = harmonic_langevin()
    """
    return Hamiltonian(
        lambda t, q, p, c: 0.5 * (q**2 + p**2),
        lambda t, q, p, c: -c["sigma"] * q,
        lambda t, q, p, c: -c["friction"] * p,
        start=start,
        params={"friction": friction, "sigma": sigma},
    )


def mean(t, *, friction, start):
    """E (q, p)(t)."""
    A = np.array([[0.0, 1.0], [-1.0, -friction]])
    t = np.asarray(t, float)
    values = [scipy.linalg.expm(time * A) @ np.asarray(start, float) for time in t.ravel()]
    return np.array(values).reshape(*t.shape, 2)


def variance(t, *, friction, sigma):
    """Var (q, p)(t) after a fixed start: V - e^(tA) V e^(tA)' with the stationary V."""
    A, V = np.array([[0.0, 1.0], [-1.0, -friction]]), 0.5 * sigma**2 / friction
    t = np.asarray(t, float)
    powers = [scipy.linalg.expm(time * A) for time in t.ravel()]
    values = [V * (1.0 - np.sum(power**2, axis=1)) for power in powers]
    return np.array(values).reshape(*t.shape, 2)


def ergodic_energy(*, friction, sigma):
    """E H in the stationary state: sigma²/(2 friction)."""
    return 0.5 * sigma**2 / friction


HARMONIC_LANGEVIN = Model(harmonic_langevin, {"mean": mean, "variance": variance, "ergodic_energy": ergodic_energy})
