"""RATTLE-α: the generalised-α method for noisy mechanics with joints, with impulses at both ends of a step.

With φ the α-filtered free acceleration M⁻¹f, C = M⁻¹Gᵀ, b_k the part of M⁻¹B_k along the constraints, W_k = I_(k),
Z_k = I_(k,0), H_k = Z_k/h - W_k/2, and φ', Λ1, Λ2 such that g = 0 and G v + g_t = 0 hold at the end of the step:

    q' = q + h v + h² [(1/2 - β) φ + β φ'] + Σ M⁻¹B_k Z_k             - (h/2) C(q) Λ1
    v' = v + h [(1 - γ) φ + γ φ']          + Σ M⁻¹B_k W_k + E         - ½ C(q) Λ1 - ½ C(q') Λ2
    (1 - αm) φ' + αm φ = (1 - αf) M⁻¹f(t', q', v') + αf M⁻¹f(t, q, v) + (αf - αm) N,      ΔΛ = ½ (Λ1 + Λ2)

Where B or M depends on t or q the kicks are those of shifted RATTLE: v + b(q) H first, ½ M⁻¹B W with each impulse, and
- b(q') H last; for constant B and M both steps are the same. Where B depends on v, Milstein's terms with b along the
constraints are added. E = N = 0 gives order 1; order 1.5 takes

    N = Σ d_k W_k,  E = Σ d_k (Z_k - γ h W_k) - Σ (b_k · ∂_q) b_k [h W_k²/12 + h H_k²/5 + h²/15],  d_k = M⁻¹ f_v b_k,

where the last sum corrects the mean of I_(k,0,k) given W and Z, for which the two impulses give h (W²/4 - H²). If B
depends on v, β_k = M⁻¹B_k is frozen over the step, so that the last sum is (b_k · ∂_q) of the part of β_k along the
constraints, and E also has the change of β_k,

    Σ (L⁰ β_k) I_(0,k) + Σ (L^i L^l β_k) I_(i,l,k),   L^l = b_l · ∂_v,  L⁰ = ∂_t + v · ∂_q + a · ∂_v + ½ Σ (b_l · ∂_v)²,

with the acceleration a along the constraints.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.methods.alpha import Coefficients, Fields, StochasticAlpha, cheapest, milstein_terms, words
from stodyn.methods.contacts import check_contacts
from stodyn.methods.contract import Claim, Method, Report
from stodyn.methods.excited import Excited
from stodyn.methods.hysteresis import Hysteresis
from stodyn.noise.increment import Increment, Recipe
from stodyn.noise.iterated import SecondMoments, Words
from stodyn.numerics import elimination
from stodyn.numerics.newton import Twice, newton
from stodyn.numerics.sparse import order_of
from stodyn.problems.joints import Frame, Joints
from stodyn.problems.links import LinkedForce
from stodyn.problems.mechanical import Mechanical

MEASURED = "measured on the same Brownian path as in minimal coordinates"
SOURCE = "stodyn: the generalised-α method of Chung & Hulbert (1993) with the impulses of RATTLE, H. C. Andersen, \
J. Comput. Phys. 52 (1983), and the noise terms of N. Rajan & S. Raha, CMES (2008)"


class Constrained(Method):
    """The common part of methods for mechanical systems with joints: their refusals, starts and shown components."""

    accepts = Mechanical
    calculus = "ito"
    takes_hysteresis: ClassVar[bool] = False
    kicks_before_impulses: ClassVar[bool] = True  # integrals of coloured noise may enter before those of joints

    def refusal(self, problem):
        if problem.joints is None:
            return f"{self.name} is made for constraints, but this problem has none; take StochasticAlpha"
        if problem.own.hysteresis and not self.takes_hysteresis:
            return f"{self.name} takes no hysteretic elements; take RattleAlpha"
        if problem.motion.slips and not self.takes_hysteresis:
            return (
                f"{self.name} takes forces at points in time, but dry friction that sticks (Coulomb) has none at rest; "
                "take RattleAlpha, or Friction"
            )
        return super().refusal(problem)

    def prepared(self, problem, h):
        """The method with the cheapest noise for this problem, and with its elements and coloured noise around it."""
        problem.check_step(self, h)
        check_contacts(self, problem, h)
        ready: Any = self.with_noise_for(problem, h)
        if problem.own.hysteresis:
            ready = Hysteresis(ready)
        return ready if problem.coloured is None else Excited(ready, problem, h)

    def with_noise_for(self, problem, h):
        return self

    def after_jump(self, problem, t, state, params):
        return self.start(problem, t, self.read(state), params)

    def start(self, problem, t, x, params):
        q, v = problem.joints.consistent(t, x[: problem.N], x[problem.N : 2 * problem.N], params)
        return shown(problem, t, q, v, impulses(problem, x), params)


def shown(problem: Mechanical, t: Any, q: Array, v: Array, Λ: Array, params: Any) -> Array:
    """The components that a run shows: (x, v), then on request the accelerations and the impulses.

    The accelerations are those along the constraints, without their noise.
    """
    joints: Any = problem.joints
    parts = [q, v, *([joints.acceleration(t, q, v, params)] if problem.accelerations else [])]
    return jnp.concatenate([*parts, *([Λ] if problem.impulses else [])])


def impulses(problem: Mechanical, x: Array) -> Array:
    """Λ from the components that a run shows; zeros where Λ is not among them."""
    return x[-problem.joints.c :] if problem.impulses else jnp.zeros(problem.joints.c, x.dtype)  # type: ignore[union-attr]


def refuses_mass(problem: Mechanical, name: str) -> str | None:
    """Why a method that solves with M alone cannot take a singular M, in words; None where M is regular."""
    if problem.joints is None or problem.joints.mass_is_regular:
        return None
    return (
        f"{name} solves with the mass, which is singular here; add s G'G to it, which changes no motion, or take "
        "ProjectedAlpha"
    )


def is_sound(here: Frame, there: Frame) -> Array | bool:
    """Whether the constraints are independent at both ends of a step, and each end determines the other's impulses.

    det G(q') M⁻¹ G(q)ᵀ changes sign where normals turn by 90° and where the path passes a singular configuration.
    """
    if here.joints.c > elimination.WRITTEN_OUT:
        return there.is_regular
    return (elimination.determinant(there.times(here)) > 0.0) & there.is_regular


class ConstrainedAlpha(Constrained):
    """The common part of α methods for joints: what noise a step of each order takes, and what it promises."""

    order: float
    area: Recipe | None

    @property
    def needs(self):
        return self.area or (SecondMoments(4) if self.order == 1.0 else Words())

    @property
    def claims(self):
        strong = Claim("strong", float(self.order), source=MEASURED)
        return strong, Claim("deterministic", 2.0, source=MEASURED), Claim("constraints", source="solved by Newton")

    def with_noise_for(self, problem, h):
        return self if self.area is not None else self(area=cheapest(problem, self.order, h))


@dataclasses.dataclass(frozen=True)
class _RattleAlpha(ConstrainedAlpha):
    """The α method with the impulses of RATTLE for mechanical systems with joints: g = 0 and G v + g_t = 0 to rounding.

    The first choice for joints, and the method for coloured noise beside them, whose exact integrals enter the step as
    kicks do. One Newton solve per step, for N + c unknowns (c if the force depends on t alone); where these are more
    than 12 and each constraint holds few coordinates, by sparse elimination.

    Parameters
    ----------
    rho : float from 0 to 1
        The factor by which one step reduces an oscillation with ωh → ∞, as for StochasticAlpha.
    order : 1.0 or 1.5
        1.0: strong order 1, with a small constant. 1.5: with an explicit correction.
    tol, limit
        Newton's tolerance and its most rounds per step.
    area : Recipe, optional
        The recipe for the iterated integrals of noise that depends on v; by default the cheapest that suffices.
    """

    rho: float = 0.8
    order: float = 1.0
    tol: float = 1e-10
    limit: int = 20
    area: Recipe | None = None

    citation = SOURCE

    def __post_init__(self):
        StochasticAlpha(rho=self.rho)
        if self.order not in (1.0, 1.5):
            raise ValueError(f"order: expected 1.0 or 1.5, got {self.order!r}; ProjectedAlpha has order 2.0")

    @property
    def summary(self):
        return f"The α method with RATTLE's impulses, for joints{'' if self.order == 1.0 else ', corrected'}"

    @property
    def name(self):
        return "RattleAlpha" if self.order == 1.0 else "RattleAlpha15"

    @property
    def takes_hysteresis(self) -> bool:  # type: ignore[override]
        """Whether its forces may lack derivatives."""
        return self.order == 1.0

    def refusal(self, problem):
        return super().refusal(problem) or refuses_mass(problem, self.name)

    def coefficients(self, h) -> Coefficients:
        """The coefficients for steps of length h, the same for all."""
        return _coefficients(self.rho)

    def start(self, problem, t, x, params):
        if problem.coloured is not None or problem.hysteresis:
            raise TypeError(f"{self.name} cannot step a system with coloured noise or hysteretic elements as it is; "
                            "take the method that method.prepared(problem, h) returns")  # fmt: skip
        components = super().start(problem, t, x, params)
        N = problem.N
        free = problem.joints.free.motion.without_slips
        φ = free.acceleration(t, components[:N], components[N : 2 * N], components[:0], params)
        return components, φ

    def step(self, problem, t, state, noise, params, *, later=None, push=None):
        """A step; `later` are the parameters at its end, and `push` is added to q' and v' (methods.excited)."""
        components, φ = state
        q, v = components[: problem.N], components[problem.N : 2 * problem.N]
        kicks, params_at_ends = (
            self._kicks(problem, t, q, v, noise, params),
            (params, params if later is None else later),
        )
        if push is not None:
            kicks = dataclasses.replace(kicks, x=kicks.x + push[0], u=kicks.u + push[1])
        φ, q, v, Λ, report = _moved(kicks, self, problem, t, q, v, φ, params_at_ends)
        return (shown(problem, t + noise.h, q, v, impulses(problem, components) + Λ, params_at_ends[1]), φ), report

    def read(self, state):
        return state[0]

    def _kicks(self, problem: Mechanical, t: Any, q: Array, v: Array, noise: Increment, params: Any) -> _Kicks:
        """The kicks of the noise on q and v, with the first impulse and with the second."""
        joints, none = problem.joints, q[:0]
        free, zero = joints.free.motion, jnp.zeros_like(q)  # type: ignore[union-attr]
        frame, h = joints.frame(t, q, params), noise.h  # type: ignore[union-attr]
        if not problem.m:
            return _Kicks(frame, h, zero, zero, zero, None, None)
        facts, b = joints.free.facts, free.kicks(t, q, v, none, params)  # type: ignore[union-attr]
        W, Z = noise.W, jnp.asarray(noise.Z)
        H = Z / h - 0.5 * W
        shifts = _shifts(problem)
        if shifts:
            at_first = frame.tangent(b) @ H
            x, u = h * at_first + 0.5 * h * (b @ W), at_first + 0.5 * (b @ W)
        else:
            x, u = b @ Z, b @ W
        if facts.noise_on_v:
            more_x, more_u = milstein_terms(lambda v: free.kicks(t, q, v, none, params), v, frame.tangent(b), noise)
            x, u = x + more_x, u + more_u
        N = zero
        if self.order != 1.0:
            E, N = _correction(problem, t, q, v, noise, frame.tangent(b), _coefficients(self.rho).gamma, params)
            u = u + E
            if facts.noise_on_v:
                u = u + _growth(problem, t, q, v, noise, params)
        return _Kicks(frame, h, x, u, N, (W, H) if shifts else None, free if shifts else None)


@dataclasses.dataclass(frozen=True)
class _Kicks:
    """The frame at the start, h, the noise terms x of q, u of v, N of the force; W and H where kicks depend on q'."""

    frame: Frame
    h: Any
    x: Array
    u: Array
    N: Array
    shift: tuple[Array, Array] | None
    free: Any

    def after(
        self, t: Any, q: Array, v: Array, w: Array, rate: Array, frame: Frame, params: Any
    ) -> tuple[Array, Array]:
        """The velocity along the constraints at the end of a step, from w before the second impulse, and Λ2."""
        if self.shift is None:
            v, half = frame.held(w, rate)
            return v, 2.0 * half
        W, H = self.shift
        b = self.free.kicks(t, q, v, q[:0], params)
        v, half = frame.held(w + 0.5 * (b @ W), rate)
        return v - frame.held(b @ H)[0], 2.0 * half

    def before_impulse(self, t: Any, q: Array, v: Array, w: Array, params: Any) -> Array:
        """The velocity w with the kicks that depend on q', before the impulse that brings it along the constraints."""
        if self.shift is None:
            return w
        W, H = self.shift
        return w + self.free.kicks(t, q, v, q[:0], params) @ (0.5 * W - H)


def _coefficients(rho: float) -> Coefficients:
    return StochasticAlpha(rho=rho).coefficients(0.0)


def _shifts(problem: Mechanical) -> bool:
    """Whether the kicks are those of shifted RATTLE: M⁻¹B depends on t or q, but not on v."""
    facts = problem.joints.free.facts  # type: ignore[union-attr]
    return (facts.noise_on_t or facts.noise_on_x) and not facts.noise_on_v


def _moved(kicks, method, problem, t, q, v, φ, params_at_ends):
    """φ', q', v', ΔΛ and the report of the step: Newton's method finds φ' and Λ1, on which Λ2 depends linearly, and
    the mean accelerations p of dry friction.

    `params_at_ends` are the parameters at the start and at the end of the step.
    """
    before, params = params_at_ends
    αm, αf, β, γ = _coefficients(method.rho)
    joints: Joints = problem.joints
    whole, none, N, h, frame = joints.free.motion, q[:0], problem.N, kicks.h, kicks.frame
    free, drag = whole.without_slips, whole.drag(t, q, v, before) if whole.slips else None
    a = free.acceleration(t, q, v, none, before)
    q_known = q + h * v + h**2 * (0.5 - β) * φ + kicks.x
    v_known = v + h * (1.0 - γ) * φ + kicks.u
    known = αm * φ - αf * a - (αf - αm) * kicks.N
    t_after, on_v = t + h, joints.free.facts.force_on_v

    def position(φ, Λ, p):
        near = q_known + β * h**2 * φ - 0.5 * h * frame.pushed(Λ)
        return near if drag is None else near - 0.5 * h**2 * drag.acceleration(p)

    def before_second(φ, Λ, p):
        w = v_known + γ * h * φ - 0.5 * frame.pushed(Λ)
        return w if drag is None else w - h * drag.acceleration(p)

    def velocity(w, q):
        there = joints.frame(t_after, q, params)
        return (*kicks.after(t_after, q, v, w, joints.rate(t_after, q, params), there, params), there)

    def held(q):
        return joints.value(t_after, q, params) / h

    zero, p = jnp.zeros(joints.c, q.dtype), jnp.zeros(len(whole.slips), q.dtype)
    if joints.force_is_free_of_state:
        φ = ((1.0 - αf) * free.acceleration(t_after, q, v, none, params) - known) / (1.0 - αm)
        root = newton(lambda Λ: held(position(φ, Λ, p)), zero, tol=method.tol, limit=method.limit, **joints.solver)
        Λ1 = root.x
    else:

        def imbalance(φ, q, v, force):
            left = free.mass_times((1.0 - αm) * φ + known, t_after, q, v, none, params)
            return left - (1.0 - αf) * force

        def forced(q, v):
            return free.balance(t_after, q, v, none, params)[0]

        def dry(p, q, v):
            return [] if drag is None else [drag.balance(p, t_after, q, v, h)]

        def residual(u):
            φ, Λ, p = jnp.split(u, (N, N + joints.c))
            q = position(φ, Λ, p)
            after = velocity(before_second(φ, Λ, p), q)[0] if on_v else v
            return jnp.concatenate([imbalance(φ, q, after, forced(q, after)), held(q), *dry(p, q, after)])

        linked = free.force if isinstance(free.force, LinkedForce) else None
        ν = zero if on_v else none
        s = none if linked is None else linked.links(t, q, v)

        def released(u):
            """With the multipliers ν of v' and the forces s of links among the unknowns: without A⁻¹, and without the
            bodies on which s depends, every equation holds few of them."""
            φ, Λ, near_ν, near_s, p = jnp.split(u, np.cumsum([N, joints.c, len(ν), len(s)]))
            q, after, across = position(φ, Λ, p), v, []
            if on_v:
                there = joints.slopes(t_after, q, params)
                after = kicks.before_impulse(t_after, q, v, before_second(φ, Λ, p), params) - there.pushed(near_ν)
                across = [there.across(after) + joints.rate(t_after, q, params)]
            if linked is None:
                force, pull = forced(q, after), []
            else:
                force, pull = linked.total(t_after, q, after, near_s), [near_s - linked.links(t_after, q, after)]
            return jnp.concatenate([imbalance(φ, q, after, force), held(q), *across, *pull, *dry(p, q, after)])

        start = jnp.concatenate([φ, zero, p])
        solve: Twice | None = None
        if joints.pattern is not None:
            begin = jnp.concatenate([φ, zero, ν, s, p])
            order = order_of(released, begin)
            if order is not None:
                # Pivots beside M and G M⁻¹ Gᵀ are zero where the constraints depend on each other, and nowhere else.
                residual, start, solve = released, begin, dataclasses.replace(order, is_mended=False).solve_twice_at
        root = newton(residual, start, tol=method.tol, limit=method.limit, twice=solve or False)
        φ, Λ1, p = root.x[:N], root.x[N : N + joints.c], root.x[len(root.x) - len(p) :]
    q = position(φ, Λ1, p)
    v, Λ2, there = velocity(before_second(φ, Λ1, p), q)
    return φ, q, v, 0.5 * (Λ1 + Λ2), Report(root.ok & is_sound(frame, there), root.iterations, root.rounded)


def _correction(problem, t, q, v, noise, b, γ, params) -> tuple[Array, Array]:
    """Return the terms E and N by which a step has order 1.5."""
    h, W, Z, free, none = noise.h, noise.W, noise.Z, problem.joints.free.motion, q[:0]
    E, N = jnp.zeros_like(q), jnp.zeros_like(q)
    size = h * W**2 / 12.0 + h * (Z / h - 0.5 * W) ** 2 / 5.0 + h**2 / 15.0
    for k in range(problem.m):
        if problem.joints.free.facts.force_on_v:
            d = jax.jvp(lambda v: free.acceleration(t, q, v, none, params), (v,), (b[:, k],))[1]
            E, N = E + d * (Z[k] - γ * h * W[k]), N + d * W[k]
    return E - bent_kicks(problem, t, q, v, b, params) @ size, N


def _growth(problem, t, q, v, noise, params) -> Array:
    """Σ (L⁰ β_k) I_(0,k) + Σ (L^i L^l β_k) I_(i,l,k): the change within a step of an M⁻¹B that depends on v."""
    fields, free = Fields(problem, q[:0], params, 1.5), problem.joints.free.motion

    def β(t, q, v):
        return free.kicks(t, q, v, q[:0], params)

    terms = fields.L0(β)(t, q, v) @ words(noise, (0, None))
    for i in fields.channels:
        for l in fields.channels:
            terms = terms + fields.L(i, fields.L(l, β))(t, q, v) @ words(noise, (i + 1, l + 1, None))
    return terms


def bent_kicks(problem: Mechanical, t: Any, q: Array, v: Array, b: Array, params: Any) -> Array:
    """(b_k · ∂_q) b_k, one column for each channel; with M⁻¹B_k at q where it depends on v."""
    joints: Any = problem.joints
    if not problem.m:
        return b
    frozen = joints.free.motion.kicks(t, q, v, q[:0], params) if joints.free.facts.noise_on_v else None

    def kick(k):
        def at(q):
            if frozen is None:
                return joints.kicks(t, q, v, params)[:, k]
            return joints.frame(t, q, params).held(frozen[:, k])[0]

        return at

    return jnp.stack([jax.jvp(kick(k), (q,), (b[:, k],))[1] for k in range(problem.m)], axis=1)


RattleAlpha = _RattleAlpha()
RattleAlpha15 = _RattleAlpha(order=1.5)
