"""Linear oscillators with noise: the test equation of the α methods, and a damped chain."""

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.numerics import lyapunov
from stodyn.problems.mechanical import Mechanical

__dir__ = listing.names_of(__name__)


def noisy_oscillator(omega=3.0, eta=0.5, chi=1.0, start=(1.0, 0.0)) -> Mechanical:
    """dv = -omega² x dt + (chi x + eta v) dW, dx = v dt; chi and eta may be vectors with one entry per channel.

    Parameters
    ----------
    omega : float
        The angular frequency.
    eta, chi : float or sequence of float
        The strengths of the noise in proportion to the velocity and to the position.
    start : pair of float
        (x, v) at the start.

    Returns
    -------
    Mechanical
        The problem.
    """
    eta, chi = np.broadcast_arrays(np.atleast_1d(np.asarray(eta, float)), np.atleast_1d(np.asarray(chi, float)))
    params = {"omega": omega, "eta": eta, "chi": chi}
    pair = tuple([float(part)] for part in start)
    return Mechanical(spring, kick, pair, params=params, names=("x",))


def spring(t, x, v, p):
    return -(p["omega"] ** 2) * x


def kick(t, x, v, p):
    return (p["chi"] * x + p["eta"] * v)[None, :]


def second_moments(t, *, omega, eta, chi, start):
    """E x², E x v and E v² at times t of any shape (...): (..., 3)."""
    q, u = start
    A, begin = moment_matrix(omega, eta, chi), np.array([q * q, q * u, u * u], float)
    times = np.asarray(t, float)
    moments = [scipy.linalg.expm(A * time) @ begin for time in times.ravel()]
    return np.reshape(moments, (*times.shape, 3))


def moment_matrix(omega, eta, chi):
    """d/dt (E x², E x v, E v²) = A (E x², E x v, E v²)."""
    eta, chi = np.atleast_1d(eta), np.atleast_1d(chi)
    N, c2, p = np.sum(eta**2), np.sum(chi**2), np.sum(eta * chi)
    return np.array([[0.0, 2.0, 0.0], [-(omega**2), 0.0, 1.0], [c2, 2.0 * p - 2.0 * omega**2, N]])


def growth(*, omega, eta, chi):
    """The exact rate at which second moments grow: positive for any noise."""
    return float(np.linalg.eigvals(moment_matrix(omega, eta, chi)).real.max())


def oscillator_chain(count=10, stiffness=4.0, damping=0.3, noise=0.5) -> Mechanical:
    """d²x/dt² = -K x - damping v + noise ξ, one channel each; K is stiffness (2, -1 beside it): both ends are held.

    Parameters
    ----------
    count : int
        The number of oscillators.
    stiffness, damping : float
        The stiffness of the springs, and the friction.
    noise : float
        The strength of the noise.

    Returns
    -------
    Mechanical
        The problem.
    """
    K = stiffness * chain_matrix(count)

    def force(t, x, v):
        return -K @ x - damping * v

    def kick(t, x, v):
        return noise * jnp.eye(count, dtype=x.dtype)

    rest = np.zeros(count)
    return Mechanical(force, kick, (rest, rest))


def chain_matrix(count):
    """2 on the diagonal, -1 beside it."""
    return 2.0 * np.eye(count) - np.eye(count, k=1) - np.eye(count, k=-1)


def stationary_covariance(*, count, stiffness, damping, noise):
    """The covariance of (x, v), (2 count, 2 count), from Lyapunov's equation A P + P A' + B B' = 0."""
    A = np.block([
        [np.zeros((count, count)), np.eye(count)],
        [-stiffness * chain_matrix(count), -damping * np.eye(count)],
    ])  # fmt: skip
    Q = np.zeros_like(A)
    Q[count:, count:] = noise**2 * np.eye(count)
    return lyapunov.continuous(A, Q)


NOISY_OSCILLATOR = Model(noisy_oscillator, {"second_moments": second_moments, "growth": growth})
OSCILLATOR_CHAIN = Model(oscillator_chain, {"stationary_covariance": stationary_covariance})
