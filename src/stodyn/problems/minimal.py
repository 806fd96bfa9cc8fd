"""A mechanical system with joints in coordinates u that satisfy them by themselves: q = ψ(t, u).

With J = ψ_u, v = J w + ψ_t and κ the second derivative of ψ along u' = w, t' = 1,

    JᵀMJ dw = Jᵀ (f - M κ) dt + JᵀB dW,        du = w dt.

u has a derivative, so that no term of Ito's appears, and both forms have the same paths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from stodyn.problems.calling import call
from stodyn.problems.mechanical import Mechanical


def in_minimal_coordinates(
    problem: Mechanical, embedding: Callable, start: Any, names: Sequence[str] | None = None
) -> Mechanical:
    """Return a mechanical system without its constraints, in coordinates u with x = embedding(t, u[, params]).

    The mass is JᵀMJ, a function of (t, u), where J is the derivative of the embedding with respect to u. The embedding
    is the user's: where it violates the constraints, the result is a different system.

    Parameters
    ----------
    problem : Mechanical
        The system with constraints.
    embedding : callable
        The coordinates x as a function of (t, u), or of (t, u, params).
    start : tuple of arrays
        The coordinates u and their velocities w at the start.
    names : sequence of str, optional
        The names of the new coordinates.

    Returns
    -------
    Mechanical
        The system in the coordinates u.

    Raises
    ------
    ValueError
        If the problem has no constraints.
    """
    joints = problem.joints
    if joints is None:
        raise ValueError("problem: it has no constraints, so its coordinates are already minimal")

    def at(t, u, w, params):
        return *_along(embedding, t, u, w, params), jax.jacfwd(lambda u: call(embedding, t, u, params=params))(u)

    def mass(t, u, w, params):
        q, _, _, J = at(t, u, w, params)
        return J.T @ joints.mass(t, q, params) @ J

    def force(t, u, w, params):
        q, v, κ, J = at(t, u, w, params)
        return J.T @ (joints.forces(t, q, v, params) - joints.mass(t, q, params) @ κ)

    def noise(t, u, w, params):
        q, v, _, J = at(t, u, w, params)
        return J.T @ joints.pushes(t, q, v, params)

    return Mechanical(force, noise if problem.m else None, start, mass, problem.params, names)


def placed(embedding: Callable, t: Any, state: Any, params: Any = None) -> Any:
    """(x, v) of the constrained problem, (2N,), of a state (u, w) in minimal coordinates."""
    u, w = jnp.split(jnp.asarray(state), 2)
    return jnp.concatenate(_along(embedding, t, u, w, params)[:2])


def _along(embedding: Callable, t: Any, u: Any, w: Any, params: Any) -> tuple[Any, Any, Any]:
    """ψ, its first and its second derivative along u' = w, t' = 1."""
    t = jnp.asarray(t, u.dtype)
    one = jnp.ones_like(t)

    def slope(t, u):
        return jax.jvp(lambda t, u: jnp.asarray(call(embedding, t, u, params=params)), (t, u), (one, w))

    (q, v), (_, κ) = jax.jvp(slope, (t, u), (one, w))
    return q, v, κ
