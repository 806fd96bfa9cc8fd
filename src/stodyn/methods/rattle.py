"""RATTLE with noise, and constrained BAOAB: impulse methods for mechanical systems with joints and a constant mass.

With C = M⁻¹Gᵀ, and Λ1, Λ2 such that g = 0 and G v + g_t = 0 hold at the end of the step,

    v½ = v + ½ M⁻¹(h f + B W) - ½ C Λ1,   q' = q + h v½,   v' = v½ + ½ M⁻¹(h f' + B'W) - ½ C' Λ2,   ΔΛ = ½ (Λ1 + Λ2).

Where B_k is a gradient, the step is for every W the RATTLE step of a Hamiltonian system, and therefore symplectic. Its
error has a large constant, which a shift removes: v + b(q) H before the step and v - b(q') H after it, where b is the
part of M⁻¹B along the constraints and H = Z/h - W/2. *Shifted* RATTLE is RATTLE-α's step where f and B are constant.

BAOAB composes B (half a kick of the forces along the constraints), A (RATTLE without forces, in substeps) and O
(friction and its noise, exact in law along the constraints). Its invariant law is exp(-V/kT) √det(JᵀMJ) du in minimal
coordinates u, to order 2; with a stiff spring in place of a constraint the law lacks the root (Fixman's factor).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.hints import is_integer
from stodyn.methods.alpha import Coefficients
from stodyn.methods.contract import Claim, Report
from stodyn.methods.langevin_splitting import mean_decay
from stodyn.methods.rattle_alpha import MEASURED, Constrained, bent_kicks, impulses, is_sound, refuses_mass, shown
from stodyn.noise import wiener
from stodyn.numerics import elimination
from stodyn.numerics.newton import newton
from stodyn.numerics.printing.points import at_points
from stodyn.problems.joints import Joints, factorised
from stodyn.problems.mechanical import Mechanical

ANDERSEN = "H. C. Andersen, RATTLE: a velocity version of the SHAKE algorithm, J. Comput. Phys. 52 (1983)"
HALVES = Coefficients(0.0, 0.0, 0.0, 0.5)
BALANCED = 1e-9  # relative tolerance of the balance of noise and friction


def impulse_step(joints: Joints, t, h, state, kicks, params, newton_options: dict):
    """q', v', ΔΛ, the frame at q' and the report of a step from the state (q, v): kick v by the first kick, drift,
    kick v by the second, a function of q', with impulses of the constraints."""
    (q, v), (first, second) = state, kicks
    here = joints.frame(t, q, params)
    known = q + h * (v + first)

    def held(Λ):
        return joints.value(t + h, known - 0.5 * h * here.pushed(Λ), params) / h

    root = newton(held, jnp.zeros(joints.c, q.dtype), **newton_options, **joints.solver)
    after = known - 0.5 * h * here.pushed(root.x)
    there = joints.frame(t + h, after, params)
    w = v + first - 0.5 * here.pushed(root.x) + second(after)
    v, half = there.held(w, joints.rate(t + h, after, params))
    return after, v, 0.5 * root.x + half, there, Report(root.ok & is_sound(here, there), root.iterations, root.rounded)


@dataclasses.dataclass(frozen=True)
class _Rattle(Constrained):
    """RATTLE with a random kick in each of its two impulses: for a constant mass, forces and noise independent of v.

    Parameters
    ----------
    shifted : bool
        Shift v by H before and after the step, which makes the error many times smaller.
    correction : bool
        Correct the mean of the combined effect of kicks and constraints, for strong order 1.5; needs `shifted`.
    tol, limit
        Newton's tolerance and its most rounds per solve.
    """

    shifted: bool = False
    correction: bool = False
    tol: float = 1e-10
    limit: int = 20

    citation = ANDERSEN + "; shifted and corrected: stodyn"

    def __post_init__(self):
        if self.correction and not self.shifted:
            raise ValueError("correction: it belongs to shifted=True; give both, or neither")

    @property
    def summary(self):
        if not self.shifted:
            return "RATTLE with a random kick in each of its two impulses"
        return f"RATTLE between two shifts of v{', with corrected mean' if self.correction else ''}"

    @property
    def name(self):
        return ("ShiftedRattle15" if self.correction else "ShiftedRattle") if self.shifted else "Rattle"

    @property
    def order(self):
        return 1.5 if self.correction else 1.0

    @property
    def needs(self):
        return wiener.WZ if self.shifted else wiener.W

    @property
    def claims(self):
        strong = Claim("strong", self.order, source=MEASURED)
        common = strong, Claim("deterministic", 2.0, source=ANDERSEN), Claim("constraints", source="solved by Newton")
        return common if self.shifted else (*common, Claim("symplectic", source="RATTLE of a Hamiltonian for every W"))

    def refusal(self, problem):
        return super().refusal(problem) or refuses_mass(problem, self.name) or _takes(self.name, problem)

    def coefficients(self, h) -> Coefficients:
        """The coefficients of the rule by which a step takes forces, a half at each end."""
        return HALVES

    def step(self, problem, t, x, noise, params, *, later=None, push=None):
        """A step; `later` are the parameters at its end, and `push` is added to q' and v' (methods.excited)."""
        joints, N, h = problem.joints, problem.N, noise.h
        free, q, v = joints.free.motion, x[:N], x[N : 2 * N]
        none, frame = q[:0], joints.frame(t, q, params)
        later = params if later is None else later

        def half_kick(t, q, params):
            a = h * free.acceleration(t, q, v, none, params)
            return 0.5 * (a + free.kicks(t, q, v, none, params) @ noise.W)

        if self.shifted:
            H = noise.Z / h - 0.5 * noise.W
            b = frame.tangent(free.kicks(t, q, v, none, params))
            v = v + b @ H
        at_first, at_second = _parts_of(push, h)
        first = half_kick(t, q, params) + at_first
        if self.correction:
            size = h * noise.W**2 / 12.0 + h * H**2 / 5.0 + h**2 / 15.0
            bent = bent_kicks(problem, t, q, v, b, params) @ size
        else:
            bent = jnp.zeros_like(q)
        kicks = first, lambda q: half_kick(t + h, q, later) - bent + at_second
        newton_options = {"tol": self.tol, "limit": self.limit}
        q, v, Λ, there, report = impulse_step(joints, t, h, (q, v), kicks, params, newton_options)
        if self.shifted:
            v = v - there.held(free.kicks(t + h, q, v, none, params) @ H)[0]
        return shown(problem, t + h, q, v, impulses(problem, x) + Λ, later), report


def _parts_of(push: tuple[Array, Array] | None, h: Any) -> tuple[Any, Any]:
    """What the first and the second kick add to v, so that q' gains push[0] and v' push[1]."""
    return (0.0, 0.0) if push is None else (push[0] / h, push[1] - push[0] / h)


def _takes(name: str, problem: Mechanical) -> str | None:
    """Why RATTLE cannot take the forces, the noise or the mass, in words; None where it can."""
    if callable(problem.mass):
        return f"{name} takes a constant mass, but here it depends on the state; take RattleAlpha"
    facts = problem.joints.free.facts  # type: ignore[union-attr]
    if problem.coloured is not None and problem.pushes_by_velocity:  # type: ignore[attr-defined]
        return f"{name} takes coloured noise that does not depend on v, but here it does; take RattleAlpha"
    if facts.force_on_v:
        return f"{name} takes forces that do not depend on v; with friction take RattleAlpha or ConstrainedBAOAB"
    if facts.noise_on_v:
        return f"{name} takes noise that does not depend on v, but here it does; take RattleAlpha"
    return None


@dataclasses.dataclass(frozen=True)
class _ConstrainedBAOAB(Constrained):
    """Langevin's equation with joints in exact pieces, B A O A B: its invariant law to order 2, for any friction.

    Takes force = F(t, x) - Γ v and noise B with B Bᵀ = 2 kT Γ, Γ symmetric; kT is computed from them, and problems
    without a temperature are refused. Where Γ is γ M, O is exp(-γ h) with its noise, otherwise the implicit midpoint
    rule, which keeps the Gaussian law of v.

    Parameters
    ----------
    substeps : int
        How many steps RATTLE makes in each A. It follows chords: with four substeps its error is an eighth of that
        with one.
    tol, limit
        Newton's tolerance and its most rounds per solve.
    """

    substeps: int = 4
    tol: float = 1e-10
    limit: int = 20

    name = "ConstrainedBAOAB"
    order = "invariant"
    needs = wiener.W
    citation = (
        "B. Leimkuhler & C. Matthews, Efficient molecular dynamics using geodesic integration and solvent-solute \
splitting, Proc. R. Soc. A 472 (2016); T. Lelièvre, M. Rousset & G. Stoltz, Langevin dynamics with constraints and \
computation of free energy differences, Math. Comp. 81 (2012)"
    )
    claims = (
        Claim("invariant measure", 2.0, source="computed without sampling for a pendulum"),
        Claim("deterministic", 2.0, source="symmetric composition"),
        Claim("constraints", source="solved by Newton"),
    )

    def __post_init__(self):
        if not is_integer(self.substeps):
            raise ValueError(f"substeps: expected a whole number >= 1, got {self.substeps!r}")

    def refusal(self, problem):
        return super().refusal(problem) or refuses_mass(problem, self.name) or _unbalanced(self.name, problem)

    def coefficients(self, h) -> Coefficients:
        """The coefficients of the rule by which a step takes forces, a half at each end."""
        return HALVES

    def step(self, problem, t, x, noise, params, *, later=None, push=None):
        """A step; `later` are the parameters at its end, and `push` is added to q' and v' (methods.excited)."""
        joints, N, h = problem.joints, problem.N, noise.h
        q, v, none = x[:N], x[N : 2 * N], x[:0]
        free = joints.free.motion
        at_first, at_second = _parts_of(push, h)
        later = params if later is None else later

        def B(t, q, v, push, params):
            frame = joints.frame(t, q, params)
            change, λ = frame.held(0.5 * h * free.acceleration(t, q, jnp.zeros_like(v), none, params) + push)
            return v + change, λ

        def A(q, v):
            δ = 0.5 * h / self.substeps

            def turn(_, carried):
                q, v, Λ, ok, iterations, rounded = carried
                zero = jnp.zeros_like(q)
                kicks = zero, lambda q: zero
                newton_options = {"tol": self.tol, "limit": self.limit}
                q, v, more, _, r = impulse_step(joints, t, δ, (q, v), kicks, params, newton_options)
                return q, v, Λ + more, ok & r.ok, iterations + r.iterations, rounded | r.rounded

            start = jnp.zeros(joints.c, q.dtype), jnp.asarray(True), jnp.zeros((), jnp.int32), jnp.asarray(False)
            q, v, Λ, *outcome = jax.lax.fori_loop(0, self.substeps, turn, (q, v, *start))
            return q, v, Λ, Report(*outcome)

        v, Λ = B(t, q, v, at_first, params)
        q, v, more, first = A(q, v)
        Λ = Λ + more
        v, more = _friction(joints, t + 0.5 * h, q, v, h, noise.W, params)
        Λ = Λ + more
        q, v, more, second = A(q, v)
        Λ = Λ + more
        v, more = B(t + h, q, v, at_second, later)
        return shown(problem, t + h, q, v, impulses(problem, x) + Λ + more, later), first.joined(second)


def damping(joints: Joints, t: Any, q: Array, params: Any) -> Array:
    """Γ of the force -Γ v, (N, N)."""
    return -jax.jacfwd(lambda v: joints.forces(t, q, v, params))(jnp.zeros_like(q))


def _friction(joints: Joints, t, q, v, h, W, params) -> tuple[Array, Array]:
    """v after O, and the impulse of the reactions in it."""
    frame, Γ = joints.frame(t, q, params), damping(joints, t, q, params)
    push = joints.pushes(t, q, v, params) @ W
    if _is_proportional(joints.problem):
        γ = Γ[0, 0] / joints.mass(t, q, params)[0, 0]
        kick, λ = frame.held(frame.inverse(push))
        return jnp.exp(-γ * h) * v + jnp.sqrt(mean_decay(2.0 * γ * h)) * kick, λ
    M = joints.mass(t, q, params)
    solve = elimination.factorised(M + 0.5 * h * Γ)
    C = jnp.stack([solve(row) for row in frame.G], axis=1)
    w = solve(M @ v - 0.5 * h * (Γ @ v) + push)
    λ = factorised(joints, frame.G @ C)(frame.G @ w)
    return w - C @ λ, λ


def _sampled_matrices(problem: Mechanical) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Γ, B Bᵀ and M at the start and at states around it."""
    joints: Any = problem.joints

    def at(t, q, p):
        B = joints.pushes(t, q, jnp.zeros_like(q), p)
        return damping(joints, t, q, p), B @ B.T, joints.mass(t, q, p)

    q = np.asarray(problem.example_start(), float)[: problem.N]
    near = q + 0.1 * (1.0 + np.abs(q)) * np.random.default_rng(7).standard_normal((5, problem.N))
    near[0] = q
    with jax.enable_x64(True):
        return at_points(at, np.linspace(0.0, 1.0, 5), near, problem.example_params(), in_axes=(0, 0, None))


def _is_proportional(problem: Mechanical) -> bool:
    """Whether Γ = γ M with the same γ in all states."""
    Γ, _, M = _sampled_matrices(problem)
    γ = Γ[:, 0, 0] / M[:, 0, 0]
    return bool(
        np.ptp(γ) <= BALANCED * np.abs(γ).max() and np.abs(Γ - γ[:, None, None] * M).max() <= BALANCED * np.abs(Γ).max()
    )


def _unbalanced(name: str, problem: Mechanical) -> str | None:
    """Why the problem has no temperature or not the form that BAOAB takes, in words; None where it has both."""
    joints: Any = problem.joints
    if joints.moves:
        return f"{name} takes constraints that do not move, but here one depends on t; take RattleAlpha"
    if callable(problem.mass):
        return f"{name} takes a constant mass, but here it depends on the state; take RattleAlpha"
    facts = joints.free.facts
    if problem.coloured is not None and problem.pushes_by_velocity:  # type: ignore[attr-defined]
        return f"{name} takes coloured noise that does not depend on v, but here it does; take RattleAlpha"
    if facts.noise_on_v or (facts.force_on_v and not facts.linear_damping):
        return (
            f"{name} takes forces F(x) - Γ v and noise that does not depend on v, but here they depend on it "
            "otherwise; take RattleAlpha"
        )
    Γ, spread, _ = _sampled_matrices(problem)
    size = max(np.abs(spread).max(), 1e-300)
    total = np.trace(Γ, axis1=1, axis2=2)
    kT = 0.5 * np.trace(spread, axis1=1, axis2=2)[0] / total[0] if total[0] else 0.0
    if np.abs(Γ - np.swapaxes(Γ, 1, 2)).max() > BALANCED * np.abs(Γ).max(initial=0.0):
        return f"{name} takes a symmetric friction matrix Γ, but here it is not symmetric; take RattleAlpha"
    if np.abs(spread - 2.0 * kT * Γ).max() > BALANCED * size:
        return (
            f"{name} samples a temperature, but there is none: noise and friction do not balance, B B' is not 2 kT Γ "
            f"(at the start B B' = {np.round(spread[0], 6).tolist()}, Γ = {np.round(Γ[0], 6).tolist()})"
        )
    return None


Rattle = _Rattle()
ShiftedRattle = _Rattle(shifted=True)
ShiftedRattle15 = _Rattle(shifted=True, correction=True)
ConstrainedBAOAB = _ConstrainedBAOAB()
