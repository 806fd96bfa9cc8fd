"""Exact conversions of one problem into a plainer or another one of the same law."""

import dataclasses

import jax

from stodyn.problems.sde import SDE


def correction(problem: SDE, t, x, params):
    """½ Σ_k (∂g_k/∂x) g_k, the difference between the Ito and the Stratonovich drift."""
    if problem.noise_structure.implies("diagonal"):
        own, slope = jax.linearize(lambda x: problem.diagonal(t, x, params), x)
        return 0.5 * slope(own)
    g = problem.g(t, x, params)
    terms = [jax.jvp(lambda x, k=k: problem.g(t, x, params)[:, k], (x,), (g[:, k],))[1] for k in range(problem.m)]
    return 0.5 * sum(terms)


def to_ito(problem: SDE) -> SDE:
    """The Ito problem with the same solution: f + ½ Σ_k (∂g_k/∂x) g_k."""
    return problem if problem.calculus == "ito" else _shifted(problem, +1.0, "ito")


def to_stratonovich(problem: SDE) -> SDE:
    """The Stratonovich problem with the same solution: f - ½ Σ_k (∂g_k/∂x) g_k."""
    return problem if problem.calculus == "stratonovich" else _shifted(problem, -1.0, "stratonovich")


def _shifted(problem: SDE, sign: float, calculus: str) -> SDE:
    if problem.noise_structure.implies("additive"):
        return dataclasses.replace(problem, calculus=calculus)

    def drift(t, x, params):
        vector = x[None] if problem.scalar else x
        shifted = problem.f(t, vector, params) + sign * correction(problem, t, vector, params)
        return shifted[0] if problem.scalar else shifted

    return dataclasses.replace(problem, drift=drift, calculus=calculus)
