"""Small index-1 SDAEs with exact solutions: linear and nonlinear, one channel and two, commuting and not."""

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.problems.sdae import SDAE

__dir__ = listing.names_of(__name__)

M = np.array([[-0.1, -2.4, 0.9, 0.1], [1.5, 3.0, 0.0, -1.5], [-1.5, -7.5, 4.5, 1.5], [0.0, 0.0, 0.0, 0.0]])
B = np.array([[1.0, 1.0, -1.0, -1.0], [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
V = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
L = np.array([[1.5, 3.0, 0.0], [3.0, -3.0, 4.5], [-0.8, 1.5, -0.9]])
FIRST = np.array([[-1 / 8, 1 / 15, 1 / 8], [1 / 30, -13 / 80, 0.0], [1 / 120, -1 / 45, -59 / 240]])
SECOND = np.eye(3) / 10 + L / 50


def linear_dae(channels=1) -> SDAE:
    """d(M X) = (B X + s(t)) dt + Σ_k G_k X dW_k, M (4, 4) of rank 3: a linear SDAE whose channels commute.

    X = V (Y, -sin t) and dY = L⁻¹ Y dt + Σ_k L⁻¹ B_k Y dW_k, all matrices commuting; s = B V (0, 0, 0, sin t). One
    channel is test example 1 of D. Küpper, A. Kværnø & A. Rößler (BIT 2012), with the doubled row (0, 1, 0, 0) of the
    printed B dropped; the second one, B_2 = 1/10 + L/50, is added here.

    Parameters
    ----------
    channels : int
        The number of channels of noise: 1 or 2.

    Returns
    -------
    SDAE
        The problem.
    """
    if channels not in (1, 2):
        raise ValueError(f"channels: expected 1 or 2, got {channels!r}")
    source = (B @ V)[:, 3]
    G = [B @ V @ scipy.linalg.block_diag(part, 0.0) @ np.linalg.inv(V) for part in (FIRST, SECOND)[:channels]]
    G = [np.where(np.abs(matrix) < 1e-15, 0.0, matrix) for matrix in G]

    def drift(t, x):
        return jnp.asarray(B, x.dtype) @ x + jnp.asarray(source, x.dtype) * jnp.sin(t)

    def diffusion(t, x):
        return jnp.stack([jnp.asarray(matrix, x.dtype) @ x for matrix in G], axis=1)

    return SDAE(M, drift, diffusion, _linear_start())


def _linear_start():
    return V @ np.array([0.2, 0.5, 0.7, 0.0])


def linear_solution(t, W, *, channels):
    """Y = exp((L⁻¹ - ½ Σ (L⁻¹ B_k)²) t + Σ L⁻¹ B_k W_k) Y(0): the matrices have common eigenvectors."""
    t, W = np.broadcast_arrays(np.asarray(t, float)[..., None], np.asarray(W, float))
    rate, vectors = (np.real(part) for part in np.linalg.eig(np.linalg.inv(L)))  # complex since NumPy 2.5
    modes = np.linalg.inv(vectors)
    noise = [np.diagonal(modes @ np.linalg.inv(L) @ part @ vectors) for part in (FIRST, SECOND)[:channels]]
    exponent = t[..., :1] * (rate - 0.5 * sum(μ**2 for μ in noise)) + sum(
        μ * W[..., k, None] for k, μ in enumerate(noise)
    )
    start = np.array([0.2, 0.5, 0.7])
    Y = np.where(exponent == 0.0, start, np.einsum("ij,...j->...i", vectors, np.exp(exponent) * (modes @ start)))
    return np.concatenate([Y, -np.sin(t[..., :1])], axis=-1) @ V.T


def nonlinear_dae(alpha=0.6 * np.pi, beta=1.8 * np.pi, r=0.8) -> SDAE:
    """d(M X) = f(X) dt + g(X) dW, M (2, 2) of rank 1 without a zero row, from two rotations of a nonlinear SDAE.

    With u = b X₁ + a X₂ and v = b X₂ - a X₁, a = sin alpha, b = cos alpha, it is du = r² u v² dt + r v² dW and
    0 = v² - u² - 1. The constraint has two branches v = ±√(1 + u²), so that the index is 1 only as long as a path
    stays on one. Test example 2 of D. Küpper, A. Kværnø & A. Rößler (BIT 2012), whose solution in print lacks the
    rotation.

    Parameters
    ----------
    alpha, beta : float
        The angles of the two rotations.
    r : float
        The strength of the noise.

    Returns
    -------
    SDAE
        The problem.
    """
    a, b = np.sin(alpha), np.cos(alpha)
    along, across = _directions(alpha, beta)

    def drift(t, x):
        u, v = b * x[0] + a * x[1], b * x[1] - a * x[0]
        return r**2 * u * v**2 * along.astype(x.dtype) + (v**2 - u**2 - 1.0) * across.astype(x.dtype)

    def diffusion(t, x):
        return (r * (b * x[1] - a * x[0]) ** 2 * along.astype(x.dtype))[:, None]

    return SDAE(np.outer(along, [b, a]), drift, diffusion, (-a, b))


def _directions(alpha, beta):
    """The columns that multiply the differential equation and the constraint."""
    cos, sin = np.cos(alpha + beta), np.sin(alpha + beta)
    return np.array([cos, sin]), np.array([-sin, cos])


def nonlinear_solution(t, W, *, alpha, r):
    """X = (b U - a √(1 + U²), a U + b √(1 + U²)) with U = tan(r W)."""
    a, b, U = np.sin(alpha), np.cos(alpha), np.tan(r * np.asarray(W, float)[..., 0])
    root = np.sqrt(1.0 + U**2)
    return np.stack([b * U - a * root, a * U + b * root], axis=-1)


def stiff_dae(rate=-100.0, noise=10.0) -> SDAE:
    """dX = (rate (X - cos t) - sin t) dt + noise X dW, 0 = Z - X²: X follows cos t, drawn back stiffly and shaken.

    As a circuit: a capacitor charged through a resistor whose conductance fluctuates, and its power. Without the source
    it is stable in mean square where noise² < -2 rate.

    Parameters
    ----------
    rate : float
        The rate of the restoring drift, negative.
    noise : float
        The strength of the noise.

    Returns
    -------
    SDAE
        The problem.
    """

    def drift(t, x, p):
        return jnp.stack([p["rate"] * (x[0] - jnp.cos(t)) - jnp.sin(t), x[1] - x[0] ** 2])

    def diffusion(t, x, p):
        return jnp.stack([p["noise"] * x[0], jnp.zeros_like(x[0])])[:, None]

    return SDAE(np.diag([1.0, 0.0]), drift, diffusion, (1.0, 1.0), {"rate": rate, "noise": noise}, names=("x", "z"))


def amplified_noise(offset=0.5, start=(0.0, 0.2)) -> SDAE:
    """dx₁ = -x₁ dt + dW₁, dx₂ = -x₂ dt + z dW₂, 0 = z - x₁ - offset: a linear SDAE whose channels do not commute.

    Parameters
    ----------
    offset : float
        The amplitude of the second channel at x₁ = 0.
    start : pair of float
        (x₁, x₂) at the start.

    Returns
    -------
    SDAE
        The problem.
    """

    def drift(t, x, p):
        return jnp.stack([-x[0], -x[1], x[2] - x[0] - p["offset"]])

    def diffusion(t, x, p):
        one, zero = jnp.ones_like(x[0]), jnp.zeros_like(x[0])
        return jnp.stack([jnp.stack([one, zero]), jnp.stack([zero, x[2]]), jnp.stack([zero, zero])])

    params, whole = {"offset": offset}, (*start, start[0] + offset)
    return SDAE(np.diag([1.0, 1.0, 0.0]), drift, diffusion, whole, params, names=("x1", "x2", "z"))


def amplified_mean(t, *, offset, start):
    """E (x₁, x₂, z) = (e⁻ᵗ x₁, e⁻ᵗ x₂, e⁻ᵗ x₁ + offset)."""
    decay = np.exp(-np.asarray(t, float))
    return np.stack([decay * start[0], decay * start[1], decay * start[0] + offset], axis=-1)


def amplified_variance(t, *, offset, start):
    """Var x₁ = Var z = (1 - e⁻²ᵗ)/2, Var x₂ = ∫ e^(-2(t-s)) E z(s)² ds."""
    t = np.asarray(t, float)
    a = start[0]
    first = -0.5 * np.expm1(-2.0 * t)
    # E z² = offset² + 2 offset a e⁻ˢ + a² e⁻²ˢ + (1 - e⁻²ˢ)/2
    second = (offset**2 + 0.5) * first + 2.0 * offset * a * (np.exp(-t) - np.exp(-2.0 * t))
    second = second + (a**2 - 0.5) * t * np.exp(-2.0 * t)
    return np.stack([first, second, first], axis=-1)


def noncommuting_dae(x1=0.0, x2=0.0) -> SDAE:
    """dx₁ = -x₁ dt + dW₁, dx₂ = -x₂ dt + z dW₂, 0 = z + z³/10 - x₁ - 1/2: two channels that do not commute.

    The amplitude z of the second channel follows the first: without the areas of W no method has more than order 1/2.

    Parameters
    ----------
    x1, x2 : float
        The differential components at the start.

    Returns
    -------
    SDAE
        The problem.
    """

    def drift(t, x):
        return jnp.stack([-x[0], -x[1], x[2] + 0.1 * x[2] ** 3 - x[0] - 0.5])

    def diffusion(t, x):
        one, zero = jnp.ones_like(x[0]), jnp.zeros_like(x[0])
        return jnp.stack([jnp.stack([one, zero]), jnp.stack([zero, x[2]]), jnp.stack([zero, zero])])

    roots = np.roots([0.1, 0.0, 1.0, -x1 - 0.5])
    start = (x1, x2, float(roots[np.argmin(np.abs(roots.imag))].real))
    return SDAE(np.diag([1.0, 1.0, 0.0]), drift, diffusion, start, names=("x1", "x2", "z"))


def constrained_pendulum(length=1.0, gravity=9.81, drag=0.2, gust=0.5, angle=1.0) -> SDAE:
    """dx = v dt, dv = (-λ x - g e_y - drag v) dt + gust (-y, x)/length dW, 0 = |v|² - λ |x|² - g y - drag x·v.

    A pendulum in the plane with its rod as a constraint, differentiated twice: index 1 with the force λ of the rod as
    the algebraic component. The noise pushes along the circle, as it must: across it, it would enter the constraint.
    The angle θ of x = length (sin θ, -cos θ) has dω = (-gravity/length sin θ - drag ω) dt + gust/length dW.

    Parameters
    ----------
    length, gravity : float
        The length of the rod, and g.
    drag : float
        The friction.
    gust : float
        The strength of the noise.
    angle : float
        The angle θ at the start, from the downward vertical.

    Returns
    -------
    SDAE
        The problem.
    """

    def drift(t, s, p):
        x, v, tension = s[:2], s[2:4], s[4]
        weight = jnp.stack([jnp.zeros_like(s[0]), p["gravity"] + jnp.zeros_like(s[0])])
        pull = -tension * x - weight - p["drag"] * v
        balance = v @ v - tension * (x @ x) - p["gravity"] * x[1] - p["drag"] * (x @ v)
        return jnp.concatenate([v, pull, balance[None]])

    def diffusion(t, s, p):
        zero = jnp.zeros_like(s[0])
        return p["gust"] / p["length"] * jnp.stack([zero, zero, -s[1], s[0], zero])[:, None]

    start = (length * np.sin(angle), -length * np.cos(angle), 0.0, 0.0, gravity * np.cos(angle) / length)
    params = {"length": length, "gravity": gravity, "drag": drag, "gust": gust}
    mass = np.diag([1.0, 1.0, 1.0, 1.0, 0.0])
    return SDAE(mass, drift, diffusion, start, params, names=("x", "y", "vx", "vy", "tension"))


LINEAR_DAE = Model(linear_dae, {"solution": linear_solution})
NONLINEAR_DAE = Model(nonlinear_dae, {"solution": nonlinear_solution})
STIFF_DAE = Model(stiff_dae)
AMPLIFIED_NOISE = Model(amplified_noise, {"mean": amplified_mean, "variance": amplified_variance})
NONCOMMUTING_DAE = Model(noncommuting_dae)
CONSTRAINED_PENDULUM = Model(constrained_pendulum)
