"""The α method for accelerations and kicks along the constraints, with a projection onto them after every step.

With a and b of problems.joints in place of M⁻¹ force and M⁻¹ noise, a step of StochasticAlpha gives q and v near the
constraints; then q' = q - C(q) μ with g(t', q') = 0, and v' = v - C(q') ν with G(q') v' + g_t = 0. The exact solution
lies on the constraints, so the projection moves a state by no more than its error and keeps the strong order. Impulses:

    1.0:       ΔΛ = h [(1 - γ) l + γ l'] + μ W + ν,    l the α-filtered λ, l = λ at the start
    1.5, 2.0:  ΔΛ = ½ h (λ + λ') + μ W + (dμ/dt along v) (h W - Z) + (∂λ/∂v b) (Z - ½ h W)
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from stodyn.methods.alpha import Coefficients, Fields, StochasticAlpha, noise_terms
from stodyn.methods.contract import Report
from stodyn.methods.rattle_alpha import ConstrainedAlpha, impulses, is_sound, shown
from stodyn.noise.increment import Recipe
from stodyn.numerics.newton import newton
from stodyn.problems.mechanical import Mechanical


@dataclasses.dataclass(frozen=True)
class _ProjectedAlpha(ConstrainedAlpha):
    """The α method along the constraints, projected back onto them: for joints, of strong order 2, singular masses too.

    Two Newton solves per step, for N unknowns and for c constraints. The terms beyond order 1.0 are explicit and need
    second and third derivatives of g.

    Parameters
    ----------
    rho : float from 0 to 1
        The factor by which one step reduces an oscillation with ωh → ∞, as for StochasticAlpha.
    order : 2.0, 1.5 or 1.0
        The strong order, by the terms of StochasticAlpha. For 1.0 RattleAlpha has smaller errors and costs less.
    tol, limit
        Newton's tolerance and its most rounds per solve.
    area : Recipe, optional
        The recipe for the iterated integrals; by default the cheapest that suffices.
    """

    rho: float = 0.8
    order: float = 2.0
    tol: float = 1e-10
    limit: int = 20
    area: Recipe | None = None

    name = "ProjectedAlpha"
    kicks_before_impulses: ClassVar[bool] = False
    citation = "stodyn: the stochastic α method of N. Rajan & S. Raha, CMES (2008), with E. Hairer & G. Wanner's \
projection, Solving Ordinary Differential Equations II (1996)"

    def __post_init__(self):
        StochasticAlpha(rho=self.rho, order=self.order)

    def start(self, problem, t, x, params):
        components, N = super().start(problem, t, x, params), problem.N
        φ, λ = problem.joints.accelerated(t, components[:N], components[N : 2 * N], params)
        return components, φ, λ

    def coefficients(self, h) -> Coefficients:
        return StochasticAlpha(rho=self.rho).coefficients(h)

    def step(self, problem, t, state, noise, params, *, later=None, push=None):
        """A step; `later` are the parameters at its end, and the part of `push` along the constraints is added to q'
        and v' (methods.excited)."""
        components, φ, filtered = state
        joints, N, h = problem.joints, problem.N, noise.h
        q, v = components[:N], components[N : 2 * N]
        αm, αf, β, γ = self.coefficients(h)
        here = joints.frame(t, q, params)
        later = params if later is None else later
        fields = Fields(problem, q[:0], params, self.order)
        x_kick, v_kick, N_kick = noise_terms(fields, (t, q, v), noise, γ, self.order)
        pushed = jnp.zeros(joints.c, q.dtype)
        if push is not None:
            in_v, pushed = here.held(push[1])
            x_kick, v_kick = x_kick + here.held(push[0])[0], v_kick + in_v
        a, λ = joints.accelerated(t, q, v, params)
        q_known = q + h * v + h**2 * (0.5 - β) * φ + x_kick
        v_known = v + h * (1.0 - γ) * φ + v_kick
        known = αm * φ - αf * a - (0.0 if self.order == 1.0 else (αf - αm) * N_kick)

        def near(φ):
            return t + h, q_known + β * h**2 * φ, v_known + γ * h * φ, later

        root = newton(
            lambda φ: (1.0 - αm) * φ + known - (1.0 - αf) * joints.acceleration(*near(φ)),
            φ, tol=self.tol, limit=self.limit,
        )  # fmt: skip
        φ = root.x
        t_after, q_near, v_near, _ = near(φ)
        q_after, projected = joints.moved_onto(t_after, q_near, later, self.tol, self.limit)
        frame = joints.frame(t_after, q_after, later)
        v_after, ν = frame.held(v_near, joints.rate(t_after, q_after, later))
        report = Report(*root[1:]).joined(Report(*projected[1:]))
        report = report._replace(ok=report.ok & is_sound(here, frame))
        Λ = jnp.zeros(joints.c, q.dtype)
        if problem.impulses and self.order == 1.0:
            λ_near = joints.accelerated(*near(φ))[1]
            before, filtered = filtered, ((1.0 - αf) * λ_near + αf * λ - αm * filtered) / (1.0 - αm)
            Λ = h * ((1.0 - γ) * before + γ * filtered) + joints.kicked(t, q, v, params)[1] @ noise.W + ν + pushed
        elif problem.impulses:
            λ_after = joints.accelerated(t_after, q_after, v_after, later)[1]
            Λ = 0.5 * h * (λ + λ_after) + pushed + _noise_of_impulses(problem, t, q, v, noise, params)
        return (
            shown(problem, t_after, q_after, v_after, impulses(problem, components) + Λ, later),
            φ,
            filtered,
        ), report

    def read(self, state):
        return state[0]


def _noise_of_impulses(problem: Mechanical, t, q, v, noise, params):
    """μ W + (dμ/dt along v) (h W - Z) + (∂λ/∂v b) (Z - ½ h W)."""
    joints: Any = problem.joints
    b, μ = joints.kicked(t, q, v, params)
    if not problem.m:
        return jnp.zeros(joints.c, q.dtype)
    t = jnp.asarray(t, q.dtype)
    along = jax.jvp(lambda t, q: joints.kicked(t, q, v, params)[1], (t, q), (jnp.ones_like(t), v))[1]
    slopes = [jax.jvp(lambda v: joints.accelerated(t, q, v, params)[1], (v,), (b[:, k],))[1] for k in range(problem.m)]
    late = noise.Z - 0.5 * noise.h * noise.W
    return μ @ noise.W + along @ (noise.h * noise.W - noise.Z) + jnp.stack(slopes, axis=1) @ late


ProjectedAlpha = _ProjectedAlpha()
