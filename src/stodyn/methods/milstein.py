"""Milstein's method for Ito problems: W alone for diagonal and commutative noise, I_(j,k) for any other."""

import dataclasses

import jax
import jax.numpy as jnp

from stodyn.methods.contract import EXPLICIT, Claim, Method, Report
from stodyn.methods.implicit import solver_options
from stodyn.noise import wiener
from stodyn.noise.increment import Recipe
from stodyn.noise.iterated import MrongowiusRoessler
from stodyn.numerics.newton import newton
from stodyn.problems.sde import SDE


def noise_terms(problem, t, x, noise, params, area: Recipe | None):
    """Σ_k g_k W_k + Σ_jk (∂g_k/∂x g_j) I_(j,k) at (t, x), with the derivatives by jax.jvp.

    Without `area`, (W_j W_k - δ_jk h)/2 takes the place of I_(j,k), which gives the same sum where the noise commutes.
    One derivative of g per channel; for diagonal noise, one of its n entries in all.
    """
    W, h = noise.W, noise.h

    def g(x):
        return problem.g(t, x, params)

    if problem.noise_structure.implies("diagonal"):
        G, slope = jax.jvp(lambda x: problem.diagonal(t, x, params), (x,), (problem.diagonal(t, x, params),))
        return G * W + 0.5 * slope * (W * W - h)
    if area is not None and noise.II is None:
        raise ValueError(
            f"area: expected a recipe that gives I_(j,k), got {area}; take iterated.MrongowiusRoessler(p), for example"
        )
    G = g(x)
    I = noise.II if area is not None else 0.5 * (jnp.outer(W, W) - h * jnp.eye(problem.m, dtype=W.dtype))
    return G @ W + sum(jax.jvp(lambda x: g(x) @ I[j], (x,), (G[:, j],))[1] for j in range(problem.m))


class ByArea(Method):
    """A method for noise that commutes, whose `area` is None, or by a recipe of iterated integrals for any noise."""

    area: Recipe | None

    @property
    def needs(self):
        return wiener.W if self.area is None else self.area

    @property
    def structures(self):
        return ("commutative",) if self.area is None else ()


@dataclasses.dataclass(frozen=True)
class _Milstein(ByArea):
    """Milstein's method: x' = x + h f(t, x) + Σ_k g_k W_k + Σ_jk (∂g_k/∂x g_j) I_(j,k).

    Strong and weak order 1. One evaluation of f, one of g, and one derivative of g per channel and step (for diagonal
    noise, one of its n entries in all).

    Parameters
    ----------
    area : Recipe, optional
        A recipe of noise that gives I_(j,k). Without it the method takes problems whose channels commute (additive,
        scalar and diagonal noise does), for which W is enough; with it, any problem. The order then holds down to the
        step h at which the rms error of the recipe is h^(3/2): `iterated.check_resolution` warns below that step, and
        `MrongowiusRoessler.for_order(1.0, h, m)` is accurate enough for h.
    """

    area: Recipe | None = None

    accepts = SDE
    calculus = "ito"
    citation = "G. N. Milstein, Approximate integration of stochastic differential equations, Theory Probab. Appl. 19 \
(1975)"
    claims = (
        Claim("strong", 1.0, source="Kloeden & Platen (1992), Theorem 10.3.5"),
        Claim("weak", 1.0, source="follows from the strong order"),
        Claim("deterministic", 1.0),
    )

    @property
    def summary(self):
        noise = "noise that commutes" if self.area is None else "any noise, with Lévy areas"
        return f"Milstein's method for {noise}"

    @property
    def name(self):
        return "Milstein" if self.area is None else "MilsteinLevy"

    def step(self, problem, t, x, noise, params):
        return x + noise.h * problem.f(t, x, params) + noise_terms(problem, t, x, noise, params, self.area), EXPLICIT


@dataclasses.dataclass(frozen=True)
class _ImplicitMilstein(ByArea):
    """Drift-implicit Milstein for stiff Ito problems: Milstein's noise terms are taken at the start of the step,
    x' = x + h [(1-θ) f(t, x) + θ f(t+h, x')] + Σ_k g_k W_k + Σ_jk (∂g_k/∂x g_j) I_(j,k).

    Strong and weak order 1. One Newton solve for n unknowns per step.

    Parameters
    ----------
    theta : float, 0 < theta <= 1
        1 damps stiff components within one step; 1/2 is the trapezoidal rule in the drift.
    tol : float
        Newton's tolerance, relative to 1 + |x|.
    limit : int
        The most Newton rounds per step.
    area : Recipe, optional
        As for Milstein.
    """

    theta: float = 1.0
    tol: float = 1e-10
    limit: int = 20
    area: Recipe | None = None

    accepts = SDE
    calculus = "ito"
    name = "ImplicitMilstein"
    citation = "P. E. Kloeden & E. Platen, Numerical Solution of Stochastic Differential Equations (1992), section 12.2"
    claims = (
        Claim("strong", 1.0, source="Kloeden & Platen (1992), section 12.2"),
        Claim("weak", 1.0, source="follows from the strong order"),
        Claim("deterministic", 1.0),
    )

    def __post_init__(self):
        if not 0 < self.theta <= 1:
            raise ValueError(f"theta: expected 0 < theta <= 1, got {self.theta}; theta = 0 is Milstein")

    def step(self, problem, t, x, noise, params):
        h, θ = noise.h, self.theta
        known = x + noise_terms(problem, t, x, noise, params, self.area)
        if θ < 1:
            known = known + h * (1 - θ) * problem.f(t, x, params)
        options = {"tol": self.tol, "limit": self.limit} | solver_options(problem)
        root = newton(lambda y: y - known - h * θ * problem.f(t + h, y, params), x, **options)
        return root.x, Report(*root[1:])


Milstein = _Milstein()
MilsteinLevy = _Milstein(area=MrongowiusRoessler(4))
ImplicitMilstein = _ImplicitMilstein()
