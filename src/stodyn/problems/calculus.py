"""Ito and Stratonovich: an SDE of one calculus as the SDE of the other with the same solution."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.problems.sde import SDE

WRITTEN_OUT = 8  # channels whose terms are written one after another in a trace


def correction(problem: SDE, t, x, params):
    """½ Σ_k (∂g_k/∂x) g_k, the difference between the Ito and the Stratonovich drift."""
    if problem.noise_structure.implies("diagonal"):
        own, slope = jax.linearize(lambda x: problem.diagonal(t, x, params), x)
        return 0.5 * slope(own)
    if (places := problem.noise_places) is not None:
        rows, _, groups = places
        values, slope = jax.linearize(lambda x: problem.multiplier(t, x, params).entries, x)
        directions = jnp.zeros((int(groups.max()) + 1, problem.n), x.dtype).at[groups, rows].add(values)
        changes = jax.vmap(slope)(directions)[groups, np.arange(groups.size)]
        return 0.5 * jnp.zeros_like(x).at[rows].add(changes)
    if problem.m > WRITTEN_OUT:

        def term(W):
            return jax.jvp(lambda x: problem.push(t, x, params, W), (x,), (problem.push(t, x, params, W),))[1]

        return 0.5 * jnp.sum(jax.vmap(term)(jnp.eye(problem.m, dtype=x.dtype)), axis=0)
    g = problem.g(t, x, params)
    terms = [jax.jvp(lambda x, k=k: problem.g(t, x, params)[:, k], (x,), (g[:, k],))[1] for k in range(problem.m)]
    return 0.5 * sum(terms)


def to_ito(problem: SDE) -> SDE:
    """Return the Ito problem with the same solution: its drift is f + ½ Σ_k (∂g_k/∂x) g_k.

    Parameters
    ----------
    problem : SDE
        The problem in either calculus.

    Returns
    -------
    SDE
        The problem itself where it is an Ito problem already.
    """
    return problem if problem.calculus == "ito" else _shifted(problem, +1.0, "ito")


def to_stratonovich(problem: SDE) -> SDE:
    """Return the Stratonovich problem with the same solution: its drift is f - ½ Σ_k (∂g_k/∂x) g_k.

    Parameters
    ----------
    problem : SDE
        The problem in either calculus.

    Returns
    -------
    SDE
        The problem itself where it is a Stratonovich problem already.
    """
    return problem if problem.calculus == "stratonovich" else _shifted(problem, -1.0, "stratonovich")


def _shifted(problem: SDE, sign: float, calculus: str) -> SDE:
    if problem.noise_structure.implies("additive"):
        return dataclasses.replace(problem, calculus=calculus)

    def drift(t, x, params):
        vector = x[None] if problem.scalar else x
        shifted = problem.f(t, vector, params) + sign * correction(problem, t, vector, params)
        return shifted[0] if problem.scalar else shifted

    return dataclasses.replace(problem, drift=drift, calculus=calculus)
