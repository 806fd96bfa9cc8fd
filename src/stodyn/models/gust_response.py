"""An airliner in Dryden gusts: the longitudinal motion, linearised about level flight."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.noise.coloured import dryden
from stodyn.numerics import lyapunov
from stodyn.problems.excitation import with_noise
from stodyn.problems.linear import GaussianStart
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)

# A Boeing 747-100 at 40 000 ft, Mach 0.8: x' = A x of speed u [ft/s], heave w [ft/s], pitch rate q [rad/s] and pitch
# angle θ [rad]. B. Etkin & L. D. Reid, Dynamics of Flight, 3rd ed. (1996), section 6.2.
MOTION = np.array([
    [-0.006868, 0.01395, 0.0, -32.2],
    [-0.09055, -0.3151, 773.98, 0.0],
    [0.0001187, -0.001026, -0.4285, 0.0],
    [0.0, 0.0, 1.0, 0.0],
])  # fmt: skip
SPEED, SPAN = 774.0, 195.68  # ft/s, ft
# The air forces follow the motion relative to the air: u - u_g, w - w_g, q - q_g; the 773.98 q of the heave equation is
# the turning of the axes, which gusts do not do.
GUST_INPUT = -MOTION[:, :3] * np.array([[1, 1, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]])


def gust_response(sigma=10.0, L=1750.0, stationary=True) -> SDE:
    """dx = (A x + G y) dt: an airliner's speed, heave, pitch rate and pitch angle in Dryden gusts y = (u_g, w_g, q_g).

    The gusts are those of MIL-F-8785C. States: u, w, q, theta, the gusts u_g, w_g, q_g and one more state of their
    filter.

    Parameters
    ----------
    sigma : float
        The intensity of the gusts u and w, in ft/s.
    L : float
        Their length scale, in ft.
    stationary : bool
        True: paths start in the stationary law. False: they start in still flight with gusts already blowing.

    Returns
    -------
    SDE
        The problem.
    """
    still = SDE(lambda t, x: jnp.asarray(MOTION, x.dtype) @ x, lambda t, x: jnp.zeros((4, 1)), np.zeros(4),
                names=("u", "w", "q", "theta"),
                units={"u": "ft/s", "w": "ft/s", "q": "rad/s", "theta": "rad", "time": "s"})  # fmt: skip
    problem = with_noise(still, gusts(sigma, L), GUST_INPUT)
    if not stationary:
        return problem
    start = GaussianStart(np.zeros(problem.n), stationary_covariance(sigma=sigma, L=L))
    return dataclasses.replace(problem, start=start)


def gusts(sigma, L):
    """The gusts u_g, w_g and q_g."""
    return dryden(SPEED, sigma, L, SPAN, "uwq").with_outputs_first()


def system(*, sigma, L):
    """A and B of dx = A x dt + B dW for all the states."""
    wind = gusts(sigma, L)
    k = len(wind.A)
    A = np.block([[MOTION, GUST_INPUT @ wind.C], [np.zeros((k, 4)), wind.A]])
    return A, np.concatenate([np.zeros((4, wind.B.shape[1])), wind.B])


def stationary_covariance(*, sigma, L):
    """The covariance of all states in the long run."""
    A, B = system(sigma=sigma, L=L)
    return lyapunov.continuous(A, B @ B.T)


def spectrum(frequency, *, sigma, L):
    """The two-sided spectral density (..., n, n) of all states at frequencies in cycles per second."""
    A, B = system(sigma=sigma, L=L)
    f = np.asarray(frequency, float)[..., None, None]
    H = np.linalg.solve(2j * np.pi * f * np.eye(len(A)) - A, B.astype(complex))
    return H @ np.conj(np.swapaxes(H, -1, -2))


GUST_RESPONSE = Model(
    gust_response, {"system": system, "stationary_covariance": stationary_covariance, "spectrum": spectrum}
)
