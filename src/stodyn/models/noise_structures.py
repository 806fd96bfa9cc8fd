"""One small system for each structure of noise: where the orders of methods differ, and are measured."""

import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)


def additive_noise(sigma=0.8, start=(0.4, -0.2)) -> SDE:
    """dx = (sin 2y - x) dt + s (dW₁ + dW₂/2), dy = (cos 2x - y) dt + s dW₂, s = sigma (1 + t/2): additive noise.

    Parameters
    ----------
    sigma : float
        The strength of the noise.
    start : pair of float
        Where paths start.

    Returns
    -------
    SDE
        The problem.
    """

    def drift(t, x, p):
        return jnp.stack([jnp.sin(2.0 * x[1]), jnp.cos(2.0 * x[0])]) - x

    def diffusion(t, x, p):
        return p["sigma"] * (1.0 + 0.5 * t) * jnp.array([[1.0, 0.5], [0.0, 1.0]], x.dtype)

    return SDE(drift, diffusion, start, params={"sigma": sigma})


def scalar_noise(alpha=0.5, beta=0.8, start=0.25) -> SDE:
    """dx = -(alpha + beta² x)(1 - x²) dt + beta (1 - x²) dW (Ito): x = tanh(artanh start - alpha t + beta W).

    P. E. Kloeden & E. Platen, Numerical Solution of Stochastic Differential Equations (1992), (4.4.48).

    Parameters
    ----------
    alpha : float
        The rate of decay of artanh x.
    beta : float
        The strength of the noise.
    start : float
        Where paths start.

    Returns
    -------
    SDE
        The problem.
    """

    def drift(t, x, p):
        return -(p["alpha"] + p["beta"] ** 2 * x) * (1.0 - x**2)

    def diffusion(t, x, p):
        return p["beta"] * (1.0 - x**2)

    return SDE(drift, diffusion, start, params={"alpha": alpha, "beta": beta})


def scalar_solution(t, W, *, alpha, beta, start):
    """x = ((1 + start) e - (1 - start)) / ((1 + start) e + (1 - start)), e = exp(2 (beta W - alpha t))."""
    e = (1.0 + start) * np.exp(2.0 * (beta * np.asarray(W, float) - alpha * np.asarray(t, float)))
    return (e - (1.0 - start)) / (e + (1.0 - start))


def diagonal_noise(sigma=0.8, start=(0.4, -0.2)) -> SDE:
    """dx = (sin y - x) dt + g(x) dW₁, dy = (cos x - y) dt + g(y) dW₂, g(u) = sigma (1 + sin(2u)/2): diagonal noise.

    Parameters
    ----------
    sigma : float
        The strength of the noise.
    start : pair of float
        Where paths start.

    Returns
    -------
    SDE
        The problem.
    """

    def drift(t, x, p):
        return jnp.stack([jnp.sin(x[1]), jnp.cos(x[0])]) - x

    def diffusion(t, x, p):
        return jnp.diag(p["sigma"] * (1.0 + 0.5 * jnp.sin(2.0 * x)))

    return SDE(drift, diffusion, start, params={"sigma": sigma})


def commutative_noise(decay=0.5, frequency=1.0, amplitude=0.5, phase=0.5, start=(1.0, 0.0)) -> SDE:
    """dz = (-decay + i frequency) z dt + amplitude z dW₁ + i phase z dW₂ (Ito), z = x + iy: commutative noise.

    An oscillator whose growth and clock fluctuate. Its two channels commute but are not diagonal.

    Parameters
    ----------
    decay, frequency : float
        The rate of decay and the angular frequency of the mean.
    amplitude, phase : float
        The strengths of the two channels.
    start : pair of float
        Where paths start.

    Returns
    -------
    SDE
        The problem.
    """

    def drift(t, x, p):
        return -p["decay"] * x + p["frequency"] * jnp.stack([-x[1], x[0]])

    def diffusion(t, x, p):
        return jnp.stack([p["amplitude"] * x, p["phase"] * jnp.stack([-x[1], x[0]])], axis=1)

    params = {"decay": decay, "frequency": frequency, "amplitude": amplitude, "phase": phase}
    return SDE(drift, diffusion, start, params=params, names=("x", "y"))


def commutative_solution(t, W, *, decay, frequency, amplitude, phase, start):
    """z = z₀ exp((-decay + i frequency - (amplitude² - phase²)/2) t + amplitude W₁ + i phase W₂)."""
    W, rate = np.asarray(W, float), -decay + 1j * frequency - 0.5 * (amplitude**2 - phase**2)
    z = complex(*start) * np.exp(rate * np.asarray(t, float) + amplitude * W[..., 0] + 1j * phase * W[..., 1])
    return np.stack([z.real, z.imag], axis=-1)


def commutative_mean(t, *, decay, frequency, start):
    """E z = z₀ exp((-decay + i frequency) t)."""
    z = complex(*start) * np.exp((-decay + 1j * frequency) * np.asarray(t, float))
    return np.stack([z.real, z.imag], axis=-1)


def commutative_variance(t, *, decay, frequency, amplitude, phase, start):
    """The variances, from E|z|² and E z², which grow at the rates -2 decay + amplitude² + phase² and 2 (-decay + i
    frequency) + amplitude² - phase²."""
    z, t = complex(*start), np.asarray(t, float)
    modulus = abs(z) ** 2 * np.exp((-2.0 * decay + amplitude**2 + phase**2) * t)
    square = (z**2 * np.exp((2.0 * (-decay + 1j * frequency) + amplitude**2 - phase**2) * t)).real
    mean = commutative_mean(t, decay=decay, frequency=frequency, start=start)
    return 0.5 * np.stack([modulus + square, modulus - square], axis=-1) - mean**2


def general_noise(damping=0.2, mobility=0.6, stiffness=0.6, start=(1.0, 0.5)) -> SDE:
    """dq = p (dt + mobility dW₁), dp = -(q + damping p) dt - q stiffness dW₂ (Ito): noise that does not commute.

    An oscillator whose mass and spring fluctuate.

    Parameters
    ----------
    damping : float
        The friction.
    mobility, stiffness : float
        The strengths of the two channels.
    start : pair of float
        (q, p) at the start.

    Returns
    -------
    SDE
        The problem.
    """

    def drift(t, x, p):
        return jnp.stack([x[1], -x[0] - p["damping"] * x[1]])

    def diffusion(t, x, p):
        zero = jnp.zeros_like(x[0])
        return jnp.stack([jnp.stack([p["mobility"] * x[1], zero]), jnp.stack([zero, -p["stiffness"] * x[0]])])

    params = {"damping": damping, "mobility": mobility, "stiffness": stiffness}
    return SDE(drift, diffusion, start, params=params, names=("q", "p"))


ADDITIVE_NOISE = Model(additive_noise)
SCALAR_NOISE = Model(scalar_noise, {"solution": scalar_solution})
DIAGONAL_NOISE = Model(diagonal_noise)
COMMUTATIVE_NOISE = Model(
    commutative_noise,
    {"solution": commutative_solution, "mean": commutative_mean, "variance": commutative_variance},
)
GENERAL_NOISE = Model(general_noise)
