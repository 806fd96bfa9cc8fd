"""An elastic inextensible beam, clamped at one end and pulled at the other, in n rigid elements."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn import listing
from stodyn.hints import is_integer
from stodyn.models.catalogue import Model
from stodyn.problems.mechanical import Mechanical

__dir__ = listing.names_of(__name__)

PULL_ENDS = np.pi  # the force is 1.5 sin² t until then


def beam(n=10, position=0.04, velocity=0.04, additive=-0.4, form="banded") -> Mechanical:
    """d²θ/dt² = C w + D u of the n angles θ with C u = D w + θ'², w the bending and the pull: a clamped elastic beam.

    Noise has three channels: position θ_l, velocity θ_l' and additive.

    Parameters
    ----------
    n : int
        The number of elements, at least 2.
    position, velocity, additive : float
        The strengths of the three channels; there is no noise if all are 0.
    form : "banded" or "dense"
        "banded": u stands among the coordinates, as one without inertia that 0 = C u - D w - θ'² determines, so that
        every equation involves neighbours only and a step costs O(n). "dense": u is solved for in the force.

    Returns
    -------
    Mechanical
        The problem.

    Raises
    ------
    ValueError
        If `form` or `n` is impossible.
    """
    if form not in ("banded", "dense"):
        raise ValueError(f"form: expected 'banded' or 'dense', got {form!r}")
    if not is_integer(n, 2):
        raise ValueError(f"n: expected at least 2 elements, got {n!r}")
    loud = any((position, velocity, additive))
    names = tuple(f"th{k}" for k in range(1, n + 1))

    def rows(θ, ω):
        return jnp.stack([position * θ, velocity * ω, jnp.full(n, additive, θ.dtype)], axis=1)

    if form == "dense":

        def force(t, x, v):
            w, C, D = _parts(t, x, n)
            return C(w) + D(_tridiagonal(x, D(w) + v**2))

        rest = np.zeros(n)
        return Mechanical(force, (lambda t, x, v: rows(x, v)) if loud else None, (rest, rest), names=names)

    def both(t, x, v):
        θ, u = x[:n], x[n:]
        w, C, D = _parts(t, θ, n)
        return jnp.concatenate([C(w) + D(u), C(u) - D(w) - v[:n] ** 2])

    def noise(t, x, v):
        return jnp.concatenate([rows(x[:n], v[:n]), jnp.zeros((n, 3), x.dtype)])

    rest = np.zeros(2 * n)
    mass = np.repeat([1.0, 0.0], n)
    names = (*names, *(f"u{k}" for k in range(1, n + 1)))
    return Mechanical(both, noise if loud else None, (rest, rest), mass=mass, names=names)


def _parts(t, θ: Array, n: int):
    """w, and the products with C (diagonal 1, 2, ..., 2, 3, beside it -cos(θ_l - θ_l±1)) and D (-sin of the same)."""
    pull = jnp.where((t >= 0.0) & (t <= PULL_ENDS), 1.5 * jnp.sin(t) ** 2, 0.0)
    below, above = jnp.concatenate([-θ[:1], θ[:-1]]), jnp.concatenate([θ[1:], θ[-1:]])
    w = float(n) ** 4 * (below - 2.0 * θ + above) + float(n) ** 2 * pull * (jnp.cos(θ) + jnp.sin(θ))
    c, s, zero = jnp.cos(θ[:-1] - θ[1:]), jnp.sin(θ[:-1] - θ[1:]), jnp.zeros(1, θ.dtype)

    def C(z):
        return _diagonal(n) * z - jnp.concatenate([c * z[1:], zero]) - jnp.concatenate([zero, c * z[:-1]])

    def D(z):
        return jnp.concatenate([zero, s * z[:-1]]) - jnp.concatenate([s * z[1:], zero])

    return w, C, D


def _diagonal(n: int) -> np.ndarray:
    return np.concatenate([[1.0], np.full(n - 2, 2.0), [3.0]])


def _tridiagonal(θ: Array, right: Array) -> Array:
    """C⁻¹ right, by elimination: C is positive definite."""
    n = len(right)
    c, pivots, y = -jnp.cos(θ[:-1] - θ[1:]), [jnp.asarray(_diagonal(n)[0], θ.dtype)], [right[0]]
    for k in range(1, n):
        factor = c[k - 1] / pivots[-1]
        pivots.append(_diagonal(n)[k] - factor * c[k - 1])
        y.append(right[k] - factor * y[-1])
    x = [y[-1] / pivots[-1]]
    for k in reversed(range(n - 1)):
        x.insert(0, (y[k] - c[k] * x[0]) / pivots[k])
    return jnp.stack(x)


def frequencies(*, n):
    """The n angular frequencies of small vibrations about the straight beam, increasing."""
    C = np.diag(_diagonal(n)) - np.eye(n, k=1) - np.eye(n, k=-1)
    bending = 2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    bending[0, 0], bending[-1, -1] = 3.0, 1.0
    return np.sqrt(np.sort(np.linalg.eigvals(C @ bending * n**4).real))


def modes(*, n):
    """The shapes of these vibrations, one per column, of length 1."""
    C = np.diag(_diagonal(n)) - np.eye(n, k=1) - np.eye(n, k=-1)
    bending = 2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    bending[0, 0], bending[-1, -1] = 3.0, 1.0
    values, vectors = np.linalg.eig(C @ bending)
    vectors = vectors[:, np.argsort(values.real)].real
    return vectors / np.linalg.norm(vectors, axis=0)


BEAM = Model(beam, {"frequencies": frequencies, "modes": modes})
