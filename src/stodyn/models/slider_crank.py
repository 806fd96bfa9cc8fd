"""A slider crank with a flexible connecting rod, in the form of the IVP test set."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn import listing
from stodyn.hints import is_integer
from stodyn.models.catalogue import Model
from stodyn.numerics import elimination, gauss
from stodyn.problems.mechanical import Mechanical

__dir__ = listing.names_of(__name__)

M2, M3, L1, L2, J1, J2 = 0.151104, 0.075552, 0.15, 0.30, 0.002727, 0.0045339259
YOUNG, AREA, HEIGHT, DENSITY = 0.2e12, 0.008 * 0.008, 0.008, 7870.0
PI = 3.1415927  # the test set's
SPEED = 150.0  # of the crank
X3, SWING = 0.4500169327969, -74.99576703969453  # of the slider, and the rate of phi2
LATERAL_RATES = (0.444896105, 0.463434311e-2)
MIDDLE, END = (0.103339863e-4, -0.178591076e-5), (0.169327969e-4, -2.68938672e-6)  # stretch of the rod, and its rate


def slider_crank(noise=0.0, elements=None) -> Mechanical:
    """d²(phi1, phi2, x3, q)/dt² from [M G'; G 0] (acceleration, λ) = (F, -γ), with a white force on the rod's middle.

    The coordinates q1, q2 are the amplitudes of sin(πx/l) and sin(2πx/l), the rod's lateral modes; q1 is the deflection
    of its middle. q3, ... are longitudinal displacements. Constraints hold for the accelerations: positions drift off
    them, and `constraints` measures how far. The crank turns at 150 rad/s. B. Simeon's problem in the Test Set for IVP
    Solvers.

    Parameters
    ----------
    noise : float
        The strength of the force on q1. Its column is b with [M G'; G 0] (b, μ) = (noise e_q1, 0), so that G b = 0.
    elements : int, optional
        By default q3 and q4 belong to the middle and the end of one quadratic element with the test set's masses
        ρ b h l (8, 1; 1, 2); otherwise q3, ... belong to the nodes of that many two-node elements.

    Returns
    -------
    Mechanical
        The problem.
    """
    rod = two_node_rod(elements) if elements is not None else QUADRATIC
    size = 3 + len(rod.M)
    node = rod.nodes
    shapes = np.stack([4.0 * node * (1.0 - node), node * (2.0 * node - 1.0)])
    stretch, rate = (np.array([MIDDLE[k], END[k]]) @ shapes for k in (0, 1))
    start = (np.array([0.0, 0.0, X3, 0.0, 0.0, *stretch]), np.array([SPEED, SWING, END[1], *LATERAL_RATES, *rate]))

    def force(t, x, v):
        M, F, G, γ = equations(rod, x, v)
        return _solve(M, G, jnp.concatenate([F, -γ]))[:size]

    def kick(t, x, v):
        M, _, G, _ = equations(rod, x, v)
        return _solve(M, G, jnp.zeros(size + 3, x.dtype).at[3].set(noise))[:size, None]

    names = ("phi1", "phi2", "x3", *(f"q{i}" for i in range(1, size - 2)))
    return Mechanical(force, kick if noise else None, start, names=names)


@dataclasses.dataclass(frozen=True)
class Rod:
    """Integrals over the rod of its shape functions: two lateral sines, then the longitudinal functions.

    M, K  mass and stiffness; B: lateral times longitudinal, antisymmetric
    c1, c2, c12, c21  of the longitudinal ones, of the lateral ones, and of both times x
    nodes             where the longitudinal unknowns stand, as a share of the length
    """

    M: np.ndarray
    K: np.ndarray
    B: np.ndarray
    c1: np.ndarray
    c2: np.ndarray
    c12: np.ndarray
    c21: np.ndarray
    nodes: np.ndarray


def _rod(M: np.ndarray, K: np.ndarray, products: np.ndarray, mean: np.ndarray, moment: np.ndarray, nodes) -> Rod:
    """Make the rod from the longitudinal blocks of M and K over ρ b h l and E b h/l, and from ∫ sin(jπξ) N_i dξ, ∫ N_i
    dξ and ∫ ξ N_i dξ."""
    k, volume, none = len(M), AREA * L2, np.zeros(len(M))
    mass, stiffness, B = (np.zeros((2 + k, 2 + k)) for _ in range(3))
    mass[:2, :2] = 0.5 * np.eye(2) * DENSITY * volume
    mass[2:, 2:] = M * DENSITY * volume
    bending = YOUNG * AREA / L2 * PI**4 / 24 * (HEIGHT / L2) ** 2
    stiffness[:2, :2] = bending * np.diag([1.0, 16.0])
    stiffness[2:, 2:] = K * YOUNG * AREA / L2
    B[:2, 2:] = -volume * products
    return Rod(
        mass, stiffness, B - B.T,
        volume * np.concatenate([[0.0, 0.0], mean]), volume * np.concatenate([[2.0 / PI, 0.0], none]),
        volume * L2 * np.concatenate([[0.0, 0.0], moment]),
        volume * L2 * np.concatenate([[1.0 / PI, -0.5 / PI], none]), np.asarray(nodes),
    )  # fmt: skip


QUADRATIC = _rod(
    np.array([[8.0, 1.0], [1.0, 2.0]]),
    np.array([[16.0, -8.0], [-8.0, 7.0]]) / 3.0,
    np.array([[16.0 / PI**3, 1.0 / PI - 8.0 / PI**3], [0.0, -0.5 / PI]]),
    np.array([2.0 / 3.0, 1.0 / 6.0]), np.array([1.0 / 3.0, 1.0 / 6.0]), (0.5, 1.0),
)  # fmt: skip


def two_node_rod(elements: int) -> Rod:
    """k linear elements of equal length; the first node is fixed, their integrals are by Gauss' rule."""
    if not is_integer(elements):
        raise ValueError(f"elements: expected a whole number >= 1, or None for the quadratic element, got {elements!r}")
    k, (point, weight) = elements, gauss.legendre(12)
    ξ = ((np.arange(k)[:, None] + 0.5 * (point + 1.0)) / k).ravel()
    w = np.tile(weight / k, k)
    nodes = np.arange(1, k + 1) / k
    N = np.maximum(0.0, 1.0 - k * np.abs(ξ - nodes[:, None]))
    slope = k * (np.eye(k) - np.eye(k, k=1)).T  # of N_i on each element
    sines = np.sin(PI * np.outer([1.0, 2.0], ξ))
    return _rod((N * w) @ N.T, slope.T @ slope / k, (sines * w) @ N.T, N @ w, N @ (w * ξ), nodes)


def equations(rod: Rod, x: Array, v: Array) -> tuple[Array, Array, Array, Array]:
    """M, F, the constraint matrix G and γ of M a + G'λ = F, G a + γ = 0."""
    a, b, u, w, q, rate = x[0], x[1], v[0], v[1], x[3:], v[3:]
    c, s, ρ = jnp.cos(a - b), jnp.sin(a - b), DENSITY
    along, across, along_rate, across_rate = rod.c1 @ q, rod.c2 @ q, rod.c1 @ rate, rod.c2 @ rate
    pair = 0.5 * L1 * L2 * M2 * c + ρ * L1 * (s * across + c * along)
    turning = J2 + q @ (rod.M @ q) + 2.0 * ρ * (rod.c12 @ q)
    zero = jnp.zeros((), x.dtype)
    by_first, by_second = ρ * L1 * (c * rod.c2 - s * rod.c1), ρ * (rod.c21 + q @ rod.B)
    M = jnp.concatenate([
        jnp.concatenate([jnp.stack([zero + J1 + M2 * L1**2, pair, zero]), by_first])[None],
        jnp.concatenate([jnp.stack([pair, turning, zero]), by_second])[None],
        jnp.concatenate([jnp.stack([zero, zero, zero + M3]), 0.0 * q])[None],
        jnp.concatenate([jnp.stack([by_first, by_second, 0.0 * q], axis=1), jnp.asarray(rod.M, x.dtype)], axis=1),
    ])  # fmt: skip
    half = 0.5 * L1 * L2 * M2 * s
    first = w**2 * (-half + ρ * L1 * (c * across - s * along)) - 2.0 * ρ * L1 * w * (c * along_rate + s * across_rate)
    second = u**2 * (half + ρ * L1 * (s * along - c * across)) - 2.0 * w * (ρ * (rod.c12 @ rate) + rate @ (rod.M @ q))
    second = second - ρ * (rate @ (rod.B @ rate))
    bend = w**2 * (rod.M @ q + ρ * rod.c12) + ρ * (L1 * u**2 * (c * rod.c1 + s * rod.c2) + 2.0 * w * (rod.B @ rate))
    F = jnp.concatenate([jnp.stack([first, second, zero]), bend - rod.K @ q])
    length, stretch = L2 + q[-1], rate[-1]
    ca, sa, cb, sb = jnp.cos(a), jnp.sin(a), jnp.cos(b), jnp.sin(b)
    rest = jnp.zeros(len(q) - 1, x.dtype)
    G = jnp.stack([
        jnp.concatenate([jnp.stack([L1 * ca, length * cb, zero]), rest, sb[None]]),
        jnp.concatenate([jnp.stack([L1 * sa, length * sb, zero + 1.0]), rest, -cb[None]]),
        jnp.concatenate([jnp.stack([zero + 1.0, zero, zero]), rest, zero[None]]),
    ])  # fmt: skip
    γ = jnp.stack([
        -L1 * sa * u**2 - length * sb * w**2 + 2.0 * w * cb * stretch,
        L1 * ca * u**2 + length * cb * w**2 + 2.0 * w * sb * stretch,
        zero,
    ])  # fmt: skip
    return M, F, G, γ


def _solve(M: Array, G: Array, right: Array) -> Array:
    """[M G'; G 0] z = right; M is positive definite, so rows are eliminated in their order."""
    below = jnp.concatenate([G, jnp.zeros((3, 3), M.dtype)], axis=1)
    return elimination.solve(jnp.concatenate([jnp.concatenate([M, G.T], axis=1), below]), right)


def constraints(t, x):
    """How far states (..., n) at times t are from the crank's angle, the slider's line and its place, (..., 3)."""
    x, t = np.asarray(x, float), np.asarray(t, float)
    coordinates = x.shape[-1] // 2
    a, b, place, length = x[..., 0], x[..., 1], x[..., 2], L2 + x[..., coordinates - 1]
    line = L1 * np.sin(a) + length * np.sin(b)
    return np.stack([a - SPEED * t, line, place - L1 * np.cos(a) - length * np.cos(b)], axis=-1)


SLIDER_CRANK = Model(slider_crank, {"constraints": constraints})
