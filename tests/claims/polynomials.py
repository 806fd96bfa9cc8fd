"""Weak errors on nonlinear problems without sampling.

Where drift and noise take polynomials in (u, v) of weight at most 4 (u counts 1, v counts 2) to such polynomials, their
expectations obey a linear equation, E φ(x(T)) = exp(T G) φ(x₀) for the nine monomials φ; a step of an explicit method
is a polynomial in its normals of the same kind, so E φ(x_N) = T_h^N φ(x₀), T_h by Gauss-Hermite quadrature.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from stodyn.analysis.order import Errors
from stodyn.engine.spec import matched
from stodyn.numerics import gauss
from stodyn.numerics.printing.points import AtPoints, at_one, at_points
from stodyn.problems import lowering

WEIGHT = 4
NODES = 9  # a normal: exact to degree 17 in it, beyond which terms are below h^9
POINTS = np.random.default_rng(0).uniform(-1.0, 1.0, (16, 2))


def monomials(x):
    return jnp.stack([x[0] ** i * x[1] ** j for j in range(WEIGHT // 2 + 1) for i in range(WEIGHT + 1 - 2 * j)])


def in_monomials(values):
    """The matrix M with values = M φ at POINTS; what is no polynomial of that weight is an error."""
    φ = at_points(monomials, POINTS)
    M, *_ = np.linalg.lstsq(φ, values, rcond=None)
    assert np.abs(φ @ M - values).max() < 1e-9 * np.abs(values).max(), "not a polynomial of the weight that is kept"
    return M.T


def exact_expectations(problem, T):
    ito = lowering.to_ito(problem)

    def generator(x):
        """f · ∇φ + ½ Σ_k ∇²φ(g_k, g_k)."""

        def slope(v):
            return lambda x: jax.jvp(monomials, (x,), (v,))[1]

        g = ito.g(0.0, x, None)
        bent = sum(jax.jvp(slope(g[:, k]), (x,), (g[:, k],))[1] for k in range(ito.m))
        return slope(ito.f(0.0, x, None))(x) + 0.5 * bent

    G = in_monomials(at_points(generator, POINTS))
    return scipy.linalg.expm(T * G) @ at_one(monomials, problem.start)


def computed_weak_order(method, problem, steps, T=1.0, level=0.99):
    """As analysis.order.weak_order for the nine monomials: the slope, its interval and the errors."""
    taken, recipe = matched(problem, method)[0], method.needs
    counts = recipe.normals(problem.m)
    ends = np.cumsum(list(counts.values()))[:-1]
    rules = recipe.nodes(problem.m) if hasattr(recipe, "nodes") else [gauss.hermite(NODES)] * sum(counts.values())
    ξ = np.stack([v.ravel() for v in np.meshgrid(*(np.array(v) for v, _ in rules), indexing="ij")], axis=-1)
    weight = functools.reduce(np.multiply.outer, [np.array(w, float) for _, w in rules]).ravel()

    def after(h, x, ξ):
        noise = recipe.increment(h, dict(zip(counts, jnp.split(ξ, ends), strict=True)), problem.m)
        return monomials(method.step(taken, 0.0, x, noise, None)[0])

    afters = AtPoints(after, (None, 0, 0))

    def expected(h):
        pairs = np.repeat(POINTS, len(ξ), axis=0), np.tile(ξ, (len(POINTS), 1))
        return np.einsum("k,xki->xi", weight, afters(np.asarray(h), *pairs).reshape(len(POINTS), len(ξ), -1))

    start, truth = at_one(monomials, problem.start), exact_expectations(problem, T)
    error = []
    for N in steps:
        step = in_monomials(expected(T / N))
        error.append(np.linalg.norm(np.linalg.matrix_power(step, N) @ start - truth))
    rounding = {"rounding": 1e-13 * np.array(steps)}
    errors = Errors(np.array(error), rounding, np.zeros(len(steps)))
    assert not any(errors.reasons), errors
    return errors.fit(T / np.array(steps), level) | {"errors": error}
