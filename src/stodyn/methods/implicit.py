"""Implicit methods for plain SDEs: the theta scheme (drift-implicit Euler) and the implicit midpoint rule."""

import dataclasses
from typing import Any

from stodyn.methods.contract import Claim, Method, Report
from stodyn.noise import wiener
from stodyn.numerics.newton import newton
from stodyn.problems.sde import SDE


def solver_options(problem: SDE) -> dict[str, Any]:
    """The options of `newton`: how a large problem with a sparse Jacobian is solved, and that a dense one is used
    twice."""
    if problem.elimination is None:
        return {"twice": True}
    return {"solve": problem.elimination.solve_at, "linear": problem.elimination.solve_at}


@dataclasses.dataclass(frozen=True)
class _ThetaEuler(Method):
    """Drift-implicit Euler: x' = x + h [(1-θ) f(t, x) + θ f(t+h, x')] + g(t, x) W, for stiff Ito problems.

    Strong order 1/2 (1 for additive noise), weak order 1. One Newton solve for n unknowns per step; for a large system
    with a sparse Jacobian its cost is proportional to the number of nonzero entries.

    Parameters
    ----------
    theta : float, 0 < theta <= 1
        1 damps stiff components within one step; 1/2 is the trapezoidal rule in the drift.
    tol : float
        Newton's tolerance, relative to 1 + |x|.
    limit : int
        The most Newton rounds per step.
    """

    theta: float = 1.0
    tol: float = 1e-10
    limit: int = 20

    accepts = SDE
    calculus = "ito"
    name = "ThetaEuler"
    needs = wiener.W
    citation = "P. E. Kloeden & E. Platen, Numerical Solution of Stochastic Differential Equations (1992), section 12.2"
    claims = (
        Claim("strong", 0.5, source="Kloeden & Platen (1992), section 12.2"),
        Claim("strong", 1.0, when=("additive",), source="Kloeden & Platen (1992), section 12.2"),
        Claim("weak", 1.0, source="Kloeden & Platen (1992), section 15.4"),
        Claim("deterministic", 1.0),
    )

    def __post_init__(self):
        if not 0 < self.theta <= 1:
            raise ValueError(f"theta: expected 0 < theta <= 1, got {self.theta}; theta = 0 is EulerMaruyama")

    def step(self, problem, t, x, noise, params):
        h, θ = noise.h, self.theta
        known = x + problem.push(t, x, params, noise.W)
        if θ < 1:
            known = known + h * (1 - θ) * problem.f(t, x, params)
        options = {"tol": self.tol, "limit": self.limit} | solver_options(problem)
        root = newton(lambda y: y - known - h * θ * problem.f(t + h, y, params), x, **options)
        return root.x, Report(*root[1:])


@dataclasses.dataclass(frozen=True)
class _ImplicitMidpoint(Method):
    """The stochastic implicit midpoint rule for Stratonovich problems: x' = x + h f(t+h/2, y) + g(t+h/2, y) W with
    y = (x + x')/2.

    Keeps quadratic invariants of the system exactly (up to `tol`); its stationary covariance is exact for linear
    systems with additive noise, whatever the step. Strong order 1 for commutative noise (1/2 otherwise), weak order 1.
    One Newton solve for n unknowns per step. W is unbounded, so a step may have no solution near x; such paths are
    reported as failed.

    Parameters
    ----------
    tol : float
        Newton's tolerance, relative to 1 + |x|.
    limit : int
        The most Newton rounds per step.
    """

    tol: float = 1e-10
    limit: int = 20

    accepts = SDE
    calculus = "stratonovich"
    name = "ImplicitMidpoint"
    needs = wiener.W
    citation = "G. N. Milstein, Yu. M. Repin & M. V. Tretyakov, Numerical methods for stochastic systems preserving \
symplectic structure, SIAM J. Numer. Anal. 40 (2002)"
    claims = (
        Claim("strong", 0.5, source="Milstein, Repin & Tretyakov (2002)"),
        Claim("strong", 1.0, when=("commutative",), source="Milstein, Repin & Tretyakov (2002)"),
        Claim("weak", 1.0, source="Milstein, Repin & Tretyakov (2002)"),
        Claim("deterministic", 2.0),
    )

    def step(self, problem, t, x, noise, params):
        h, W, middle = noise.h, noise.W, t + 0.5 * noise.h

        def residual(y):
            return y - x - 0.5 * (h * problem.f(middle, y, params) + problem.push(middle, y, params, W))

        root = newton(residual, x, tol=self.tol, limit=self.limit, **solver_options(problem))
        return 2.0 * root.x - x, Report(*root[1:])


ThetaEuler = _ThetaEuler()
ImplicitMidpoint = _ImplicitMidpoint()
