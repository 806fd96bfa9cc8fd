"""The damped Kubo oscillator: an oscillator whose clock fluctuates."""

import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)


def kubo(beta=0.5, nu=0.001, start=(2.0, 0.0)) -> SDE:
    """dq = p dτ, dp = -(q + nu p) dτ with dτ = dt + beta ∘ dW (Stratonovich): a damped oscillator on a noisy clock.

    The numbers of the equations below are those of M. Kraus & T. M. Tyranowski, Variational integrators for stochastic
    dissipative Hamiltonian systems, IMA J. Numer. Anal. 41 (2021), section 4.1.

    Parameters
    ----------
    beta : float
        The strength of the noise.
    nu : float
        The friction.
    start : pair of float
        (q, p) at the start.

    Returns
    -------
    SDE
        The problem.

    Examples
    --------
    >>> from stodyn.models.kubo import kubo
    >>> problem = kubo()
    """
    return SDE(drift, diffusion, start, params={"beta": beta, "nu": nu}, calculus="stratonovich", names=("q", "p"))


def drift(t, x, p):
    return jnp.stack([x[1], -(x[0] + p["nu"] * x[1])])


def diffusion(t, x, p):
    return p["beta"] * drift(t, x, p)[:, None]


def _frequency(nu):
    if not 0.0 <= nu < 2.0:
        raise ValueError(f"nu: the exact answers hold for the underdamped oscillator, 0 <= nu < 2, got {nu}")
    return np.sqrt(1.0 - 0.25 * nu**2)


def solution(t, W, *, beta, nu, start):
    """(4.1): the damped oscillation at the time t + beta W(t)."""
    (q, p), w = start, _frequency(nu)
    clock = np.asarray(t, float) + beta * np.asarray(W, float)[..., 0]
    cos, sin = np.exp(-0.5 * nu * clock) * np.cos(w * clock), np.exp(-0.5 * nu * clock) * np.sin(w * clock) / w
    return np.stack([q * cos + (p + 0.5 * nu * q) * sin, p * cos - (q + 0.5 * nu * p) * sin], axis=-1)


def _modes(nu, start):
    """λ (2,) and C (n, 2) with x(τ) = Σ_i C_i exp(λ_i τ), τ the oscillator's clock."""
    w = _frequency(nu)
    rates = np.array([-0.5 * nu + 1j * w, -0.5 * nu - 1j * w])
    q, p = start
    velocity = np.array([p, -(q + nu * p)])
    first = (velocity - rates[1] * np.array([q, p])) / (rates[0] - rates[1])
    return rates, np.stack([first, first.conj()], axis=-1)


def _mean_exponential(rates, t, beta):
    """E exp(μ τ) = exp((μ + beta² μ²/2) t), because τ = t + beta W(t) is normal."""
    return np.exp((rates + 0.5 * beta**2 * rates**2) * np.asarray(t, float)[..., None])


def mean(t, *, beta, nu, start):
    """E (q, p)(t), from the two modes of the oscillation."""
    rates, C = _modes(nu, start)
    return np.einsum("...i,ni->...n", _mean_exponential(rates, t, beta), C).real


def variance(t, *, beta, nu, start):
    """Var (q, p)(t), from the products of the two modes."""
    rates, C = _modes(nu, start)
    sums, pairs = np.add.outer(rates, rates).ravel(), (C[:, :, None] * C[:, None, :]).reshape(len(C), -1)
    square = np.einsum("...k,nk->...n", _mean_exponential(sums, t, beta), pairs).real
    return square - mean(t, beta=beta, nu=nu, start=start) ** 2


def energy(t, *, beta, nu, start):
    """(4.2), (4.3): E H(t), H = (q² + p²)/2."""
    (q, p), w, t = start, _frequency(nu), np.asarray(t, float)
    a = 2.0 * (p**2 + q**2 + nu * p * q) / (4.0 - nu**2)
    b = -(nu**2 * (p**2 + q**2) + 4.0 * nu * p * q) / (2.0 * (4.0 - nu**2))
    c = nu * (q**2 - p**2) / (2.0 * np.sqrt(4.0 - nu**2))
    angle = 2.0 * (1.0 - beta**2 * nu) * w * t
    slow = np.exp(-0.5 * nu * (2.0 - beta**2 * nu) * t)
    fast = np.exp(-((2.0 - nu**2) * beta**2 + nu) * t)
    return a * slow + fast * (b * np.cos(angle) + c * np.sin(angle))


KUBO = Model(kubo, {"solution": solution, "mean": mean, "variance": variance, "energy": energy})
