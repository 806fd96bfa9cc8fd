"""Van der Pol's oscillator with additive noise, and its energy averaged over the fast rotation."""

import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.hamiltonian import Hamiltonian

__dir__ = listing.names_of(__name__)

DEGREE = 28  # of the polynomials in the energy
NODES = 400


def van_der_pol(nu=0.001, sigma=0.05, start=(1.0, 1.0)) -> Hamiltonian:
    """dq = p dt, dp = (-q + nu (1 - q²) p) dt + sigma dW: H = (q² + p²)/2, F = nu (1 - q²) p, h = -sigma q.

    M. Kraus & T. M. Tyranowski, Variational integrators for stochastic dissipative Hamiltonian systems, IMA J. Numer.
    Anal. 41 (2021), section 4.2.

    Parameters
    ----------
    nu : float
        The strength of the nonlinear friction.
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
    >>> from stodyn.models.van_der_pol import van_der_pol
    >>> problem = van_der_pol()
    """
    return Hamiltonian(
        lambda t, q, p, c: 0.5 * (q**2 + p**2),
        lambda t, q, p, c: -c["sigma"] * q,
        lambda t, q, p, c: c["nu"] * (1.0 - q**2) * p,
        start=start,
        params={"nu": nu, "sigma": sigma},
    )


def averaged_density(E, *, nu, sigma):
    """The stationary density of the energy in the limit of slow change: exp((2 nu/sigma²)(E - E²/4)), normalised."""
    E, (_, log_total) = np.asarray(E, float), _grid(nu, sigma)[2]
    return np.exp(2.0 * nu / sigma**2 * (E - 0.25 * E**2) - log_total)


def averaged_energy(t, *, nu, sigma, start):
    """E H(t) of the averaged equation dE = (nu (E - E²/2) + sigma²/2) dt + sigma √E dW; the error is O(nu).

    The generator (1/ρ) d/dE (½ sigma² E ρ d/dE) is symmetric in L²(ρ), ρ the stationary density; it is diagonalised
    in polynomials.
    """
    x, w, (shape, log_total) = _grid(nu, sigma)
    reach = x[-1] + x[0]
    root = np.sqrt(w * np.exp(shape - log_total))
    u = 2.0 * x / reach - 1.0
    V = np.polynomial.legendre.legvander(u, DEGREE)
    slopes = np.stack(
        [np.polynomial.legendre.legval(u, np.polynomial.legendre.legder(row)) for row in np.eye(DEGREE + 1)], axis=1
    ) * (2.0 / reach)
    orthonormal, R = np.linalg.qr(root[:, None] * V)
    derivative = np.linalg.solve(R.T, (root[:, None] * slopes).T).T
    rates, modes = np.linalg.eigh(-0.5 * sigma**2 * derivative.T @ (x[:, None] * derivative))
    q, p = start
    here = np.linalg.solve(R.T, np.polynomial.legendre.legvander(np.array([(q**2 + p**2) / reach - 1.0]), DEGREE)[0])
    weights = (modes.T @ (orthonormal.T @ (root * x))) * (modes.T @ here)
    return np.exp(np.asarray(t, float)[..., None] * np.minimum(rates, 0.0)) @ weights


def averaging_limit(*, nu, sigma):
    """E H in the stationary state, as nu and sigma² go to 0 together."""
    x, w, (shape, log_total) = _grid(nu, sigma)
    return float(np.sum(w * x * np.exp(shape - log_total)))


def _grid(nu, sigma):
    """Gauss-Legendre nodes and weights where the density lives; its exponent there, and the log of its integral."""
    rate = 2.0 * nu / sigma**2
    reach = 2.0 + 2.0 * np.sqrt(1.0 + 37.0 / rate)  # the density is 1e-16 of its largest there
    u, w = np.polynomial.legendre.leggauss(NODES)
    x, w = 0.5 * reach * (u + 1.0), 0.5 * reach * w
    shape = rate * (x - 0.25 * x**2)
    return x, w, (shape, np.log(np.sum(w * np.exp(shape))))


VAN_DER_POL = Model(
    van_der_pol,
    {"averaged_energy": averaged_energy, "averaged_density": averaged_density, "averaging_limit": averaging_limit},
)
