"""Generalised-α methods for noisy mechanics: implicit, with one number that sets how high frequencies are damped."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.methods.contacts import check_contacts
from stodyn.methods.contract import Claim, Method, Report
from stodyn.methods.excited import Excited, check_response
from stodyn.methods.hysteresis import Hysteresis
from stodyn.noise import wiener
from stodyn.noise.increment import Increment, Recipe
from stodyn.noise.iterated import SecondMoments, Signature, SineSeries, Words
from stodyn.numerics import elimination
from stodyn.numerics.banded import Band
from stodyn.numerics.newton import Root, newton
from stodyn.numerics.printing.points import at_points
from stodyn.numerics.sparse import Elimination, order_of
from stodyn.numerics.turns import turns
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.mechanical_facts import ADDITIVE_LINEAR, CONSTANT_UNDAMPED
from stodyn.problems.motion import Motion
from stodyn.problems.time_scale import time_scale
from stodyn.telling import tell
from stodyn.warnings import StiffWarning

NARROW = 3  # of a band: the text of a wider one is longer than that of sparse elimination

PAPER = "N. Rajan & S. Raha, The Stochastic α Method: A Numerical Method for Simulation of Noisy Second Order \
Dynamical Systems, CMES: Computer Modeling in Engineering & Sciences (2008)"
CHUNG_HULBERT = "J. Chung & G. M. Hulbert, A time integration algorithm for structural dynamics with improved \
numerical dissipation: the generalized-α method, J. Appl. Mech. 60 (1993)"
MEASURED = "measured; Rajan & Raha claim strong order 2 for x and 3/2 for v"
ORDERS = (1.0, 1.5, 2.0)
MOST_SUBSTEPS = 64  # that are taken by default for iterated integrals
SHORT = 0.5  # h √(k/m) of the parts of a step in which stops are met
STAYING = 1.25  # h √(k/m) up to which a body that stays in a stop is moved in one part
MOST_PARTS = 16  # of such a step
LARGE_OMEGA = 2.0  # beyond it the explicit terms of orders 1.5 and 2.0 amplify noise


class Coefficients(NamedTuple):
    """The coefficients αm, αf, β and γ of the generalised-α scheme."""

    alpha_m: Any
    alpha_f: Any
    beta: Any
    gamma: Any

    @property
    def is_second_order(self) -> bool:
        return math.isclose(self.gamma, 0.5 + self.alpha_f - self.alpha_m, abs_tol=1e-14)


class GeneralisedAlpha(Method):
    """The generalised-α scheme; with a = M⁻¹ force and b_k = M⁻¹ noise_k at the start of the step, L^l = (b_l · ∂/∂v):

        x' = x + h v + h² [(1/2 - β) φ + β φ'] + Σ_k b_k I_(k,0) + Σ_lk (L^l b_k) I_(l,k,0)
        v' = v + h [(1 - γ) φ + γ φ']          + Σ_k b_k I_(k)   + Σ_lk (L^l b_k) I_(l,k)
        (1 - αm) φ' + αm φ = (1 - αf) a' + αf a,                  φ = a at the start of a path.

    One Newton solve for N unknowns per step, beginning at φ; banded where there are more than 12 unknowns and their
    equations are banded. The noise is not implicit: multiplicative noise is stable in mean square only where
    analysis.second_order says so.

    Parameters
    ----------
    order : 1.0, 1.5 or 2.0
        1.0: the terms above, which are those of the paper. Strong order 1 in x and v, or 2 if the noise is constant and
        the force does not depend on v. 1.5 and 2.0: with further Ito-Taylor terms of v (`taylor_terms`), which give
        this strong order for all smooth equations. They are explicit, so keep 1.0 for stiff systems (ωh above 2);
        simulate warns.
    tol : float
        Newton's tolerance, relative to 1 + max|φ|.
    limit : int
        The most Newton rounds per step.
    area : Recipe, optional
        The recipe for the iterated integrals. By default the cheapest that the problem's functions allow: W and Z where
        the noise does not depend on v, one more normal for one channel, areas for channels that do not commute. For
        several such channels and orders 1.5 and 2.0 it is iterated.Signature(K) with the K that the order needs at this
        step, up to 64; beyond that a ResolutionWarning names the K.
    """

    accepts = Mechanical
    calculus = "ito"
    order: float
    tol: float
    limit: int
    area: Recipe | None

    @abstractmethod
    def coefficients(self, h) -> Coefficients:
        """The coefficients for steps of length h."""

    def refusal(self, problem):
        if problem.joints is not None:
            return f"{self.name} takes no constraints, but this problem has them: take RattleAlpha or ProjectedAlpha"
        if problem.motion.slips and not (self.order == 1.0 and self.coefficients(0.0).beta > 0):
            return (
                f"{self.name} takes forces at points in time, but dry friction that sticks (Coulomb) has none at rest; "
                "take order=1.0, or Friction"
            )
        return super().refusal(problem)

    def _check(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order: expected one of {ORDERS}, got {self.order!r}; the paper's terms are order 1.0")
        if self.order != 1.0 and not self.is_second_order:
            raise ValueError(
                f"order: {self.order} needs γ = 1/2 + αf - αm, but here γ is {self.coefficients(0.0).gamma:g}. "
                "Take order=1.0, or other coefficients."
            )

    @property
    def is_second_order(self) -> bool:
        """Whether γ = 1/2 + αf - αm, so that the scheme without noise is of order 2."""
        return self.coefficients(0.0).is_second_order

    @property
    def needs(self) -> Recipe:
        return self.area or (SecondMoments(4) if self.order == 1.0 else Words())

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (
            Claim("strong", float(self.order), source=MEASURED),
            Claim("deterministic", 2.0 if self.is_second_order else 1.0, source=CHUNG_HULBERT),
        )

    def prepared(self, problem: Mechanical, h: float) -> GeneralisedAlpha | Excited:
        """The method with the cheapest noise that this problem allows; warns where its order is not safe."""
        if self.order != 1.0 and (problem.facts.noise_on_v or problem.facts.force_on_v):
            Ω = h * largest_rate(problem)
            if math.isinf(Ω):
                raise ValueError(
                    f"order: {self.order} takes the derivative of force or noise by the state, but at the start it is "
                    "not finite (as that of |v|^0.4 at v = 0). Smooth it, start elsewhere, or take order=1.0"
                )
            if Ω > LARGE_OMEGA:
                tell(
                    f"order={self.order}: its noise terms are explicit and may amplify noise where the fastest rate "
                    f"of the system times the step is above {LARGE_OMEGA:g}; at the start it is {Ω:.3g}. Take a step "
                    f"of {h * LARGE_OMEGA / Ω:.2g}, or order=1.0.",
                    StiffWarning,
                )
        if not self.keeps_contacts(problem):
            check_contacts(self, problem, h)
        ready: Any = self if self.area is not None else self(area=cheapest(problem, self.order, h))
        if problem.own.hysteresis:
            if self.order != 1.0:
                raise ValueError(
                    f"order: {self.order} needs forces with derivatives, but those of hysteretic elements have none "
                    "where the motion turns; take order=1.0"
                )
            ready = Hysteresis(ready)
        elif problem.coloured is not None and not problem.motion.slips:
            check_response(self, problem, h)
        return ready if problem.coloured is None else Excited(ready, problem, h)

    def start(self, problem, t, x, params):
        if problem.coloured is not None or problem.hysteresis:
            raise TypeError(
                f"{self.name} cannot step a system with coloured noise or hysteretic elements as it is; take the "
                "method that method.prepared(problem, h) returns"
            )
        motion = problem.motion
        y, v, z = motion.coordinates(x)
        if len(z):
            root = newton(lambda z: motion.balance(t, y, v, z, params)[1], z, tol=self.tol, limit=100)
            z = jnp.where(root.ok, root.x, jnp.nan)
        free = motion.without_stops if self.keeps_contacts(problem) else motion.without_slips
        φ = free.acceleration(t, y, v, z, params)
        return self._state(problem, t, (y, v, z, φ), jnp.zeros_like(z), params)

    def after_jump(self, problem, t, state, params):
        return self.start(problem, t, self.read(state), params)

    def step(self, problem, t, state, noise, params, *, later=None, push=None):
        """A step; `later` are the parameters at its end, and `push` is added to x' and v' (methods.excited)."""
        shown, φ = state
        y, v, z = problem.motion.coordinates(shown)
        γ = self.coefficients(noise.h).gamma
        kicks = noise_terms(Fields(problem, z, params, self.order), (t, y, v), noise, γ, self.order)
        if push is not None:
            kicks = kicks[0] + push[0], kicks[1] + push[1], kicks[2]
        ends = params, params if later is None else later
        advance = self._met if self.keeps_contacts(problem) else self._moved
        (y, v, after, φ), root = advance(problem.motion, (t, noise.h), (y, v, z, φ), kicks, ends)
        rate = (after - z) / noise.h
        return self._state(problem, t + noise.h, (y, v, after, φ), rate, ends[1]), Report(*root)

    def _moved(self, motion, when, now, kicks, ends, contacts=None, rests=()):
        """y, v, z and φ after a step, and the outcome of the solve.

        With contacts, whose mean accelerations p over the step are added to v' as h p and to y' as h² p/2, the
        equations are solved for β φ' + p/2 instead of φ', so that p is a function of the unknown. The forces of stops
        on which a body rests are ordinary ones: s is their acceleration, which a and φ have as well during the step.
        Dry friction takes its mean acceleration from v' and y' in the same way; its means are unknowns.
        """
        (t, h), (y, v, z, φ), (x_kick, v_kick, N_kick), r = when, now, kicks, motion.r
        free = motion.without_slips if contacts is None else motion.without_stops
        drag = motion.drag(t, y, v, ends[0]) if motion.slips else None
        αm, αf, β, γ = self.coefficients(h)
        a = free.acceleration(t, y, v, z, ends[0])
        if contacts is not None:
            s = contacts.acceleration(y, rests)
            a, φ = a + s, φ + s
        y_known = y + h * v + h**2 * (0.5 - β) * φ + x_kick
        v_known = v + h * (1.0 - γ) * φ + v_kick
        known = αm * φ - αf * a
        if self.order != 1.0:
            known = known - (αf - αm) * N_kick

        def at_end(u):
            u, still = u[:r], 0.0 if drag is None else drag.acceleration(u[motion.N :])
            if contacts is None and drag is None:
                return u, y_known + β * h**2 * u, v_known + γ * h * u
            if contacts is None:
                return u, y_known + β * h**2 * u - 0.5 * h**2 * still, v_known + γ * h * u - h * still
            y_after = y_known + h**2 * u - 0.5 * h**2 * still
            p = contacts.mean_acceleration(y, y_after, [~is_resting for is_resting in rests])
            φ = (u - 0.5 * p) / β
            return φ, y_after, v_known + γ * h * φ + h * p - h * still

        def residual(u):
            φ, y, v = at_end(u)
            now = t + h, y, v, u[r : motion.N], ends[1]
            force, vanishing = free.balance(*now)
            inertial = (1.0 - αm) * φ + known
            if contacts is not None:
                inertial = inertial - (1.0 - αf) * contacts.acceleration(y, rests)
            left = free.mass_times(inertial, *now)
            dry = [] if drag is None else [drag.balance(u[motion.N :], t + h, y, v, h)]
            return jnp.concatenate([left - (1.0 - αf) * force, vanishing, *dry])

        still = jnp.zeros(len(motion.slips), y.dtype)
        guess = jnp.concatenate([φ if contacts is None else β * φ, z, still])
        linear = motion.step_matrices if contacts is None and drag is None else None
        if linear is None:
            root = newton(residual, guess, tol=self.tol, limit=self.limit, **_solver(motion, residual, guess))
        else:
            M, C, K = (jnp.asarray(entries, φ.dtype) for entries in linear[1:])
            matrix = (1.0 - αm) * M + (1.0 - αf) * (β * h**2 * K + γ * h * C)
            root = affine_root(residual, guess, linear.order.factorised(matrix))
        φ, y, v = at_end(root.x)
        return (y, v, root.x[r : motion.N], φ if contacts is None else φ - contacts.acceleration(y, rests)), root[1:]

    # --- stops --------------------------------------------------------------------------------------------------------

    def keeps_contacts(self, problem: Mechanical) -> bool:
        """Whether a step takes the mean forces of the problem's stops, which keep their energy."""
        motion = problem.motion
        has_stops = bool(motion.stops) and motion.joints is None and motion.is_regular
        return has_stops and self.order == 1.0 and self.coefficients(0.0).beta > 0

    def _met(self, motion, when, now, kicks, ends):
        """A step with stops. Where a contact begins or ends, in short steps: the damping of a body that turns round
        within a step would be lost in the mean of its velocities. The noise then comes in two independent halves,
        before and after: noise in the midst of a contact would be reflected by it, and lose a part of its energy.
        """
        (t, h), (y, v, z, φ), (x_kick, v_kick, N_kick) = when, now, kicks
        contacts = motion.contacts(t, y, v, ends[0])
        a = motion.without_stops.acceleration(t, y, v, z, ends[0]) + contacts.acceleration(y)
        is_met, rests = contacts.outlook(h, y, v, y + h * v + 0.5 * h**2 * φ, a, STAYING)
        first = 0.5 * v_kick + math.sqrt(0.75) * (2.0 / h * x_kick - v_kick)
        count = jnp.where(is_met, jnp.clip(jnp.ceil(h * contacts.rate / SHORT), 1.0, MOST_PARTS), 1.0)
        kicks = jnp.where(is_met, 0.0, x_kick), jnp.where(is_met, 0.0, v_kick), N_kick

        def params_after(k):
            return jax.tree.map(lambda a, b: a if a is b else a + k / count * (b - a), *ends)

        def advance(k, so_far):
            now, outcome = so_far
            part, between = (t + k * h / count, h / count), (params_after(k), params_after(k + 1.0))
            now, new = self._moved(motion, part, now, kicks, between, contacts, rests)
            return now, outcome.joined(Report(*new))

        none = Report(jnp.asarray(True), jnp.asarray(0, jnp.int32), jnp.asarray(False))
        begin = (y, jnp.where(is_met, v + first, v), z, φ), none
        (y, v, z, φ), outcome = turns(count, MOST_PARTS, advance, begin)
        return (y, jnp.where(is_met, v + v_kick - first, v), z, φ), outcome

    def _state(self, problem, t, now, rate, params):
        """The components that a run shows, (x, v) or (x, v, acceleration), and φ."""
        (y, v, z, φ), motion = now, problem.motion
        parts = [motion.joined(y, z), motion.joined(v, rate)]
        if problem.accelerations:
            a = φ + motion.contacts(t, y, v, params).acceleration(y) if self.keeps_contacts(problem) else φ
            parts.append(motion.joined(a, jnp.zeros_like(z)))
        return jnp.concatenate(parts), φ

    def read(self, state):
        return state[0]


def affine_root(residual: Callable, guess: Array, solve: Callable) -> Root:
    """The root of an affine residual, by one solve with its matrix."""
    root = guess - solve(residual(guess))
    return Root(root, jnp.all(jnp.isfinite(root)), jnp.asarray(1, jnp.int32), jnp.asarray(False))


def _solver(motion: Motion, residual: Callable, start: Array) -> dict[str, Any]:
    """The options of newton for its linear systems.

    Many unknowns with banded or sparse equations are solved with the Jacobian at the start of the step, and where that
    does not converge with the Jacobian of every iterate. Few unknowns: by elimination, in a row order fixed by the mass
    matrix.
    """
    if motion.slips:
        order = order_of(residual, start) if len(start) > elimination.WRITTEN_OUT else None
        return {} if order is None else {"solve": order.solve_at}
    if motion.N > elimination.WRITTEN_OUT:
        band = motion.band
        matrix: Band | Elimination | None = band
        if (band is None or band.width > NARROW) and motion.is_regular:
            matrix = order_of(residual, start) or band
        if matrix is not None:
            first = matrix.factorised(matrix.jacobian(residual, start))

            def anew(residual: Callable, u: Array, right: Array) -> Array:
                return matrix.factorised(matrix.jacobian(residual, u))(right)

            return {"solve": lambda residual, u, right: first(right), "fallback": anew, "linear": anew}
    if motion.row_order is None:
        return {}
    rows = motion.row_order

    def in_order(residual: Callable, u: Array, right: Array) -> Array:
        return elimination.solve(jax.jacfwd(residual)(u), right, rows)

    return {"solve": in_order, "linear": in_order}


# --- the noise --------------------------------------------------------------------------------------------------------


class Fields:
    """a and b as functions of (t, x, v) near the start of a step, and Ito's operators for such functions."""

    def __init__(self, problem: Mechanical, z: Array, params: Any, order: float):
        self.facts, self.channels, motion = problem.facts, range(problem.m), problem.motion
        follows = len(z) > 0 and (order != 1.0 or self.facts.noise_follows_constraints)

        def with_z(function):
            def of(t, y, v):
                return function(t, y, v, motion.settled(t, y, v, z, params) if follows else z, params)

            return of

        self.a, self.b = with_z(motion.acceleration), with_z(motion.kicks)

    def L(self, j: int, g: Callable) -> Callable:
        """L^j g = (b_j · ∂/∂v) g."""

        def applied(t, y, v):
            return jax.jvp(lambda v: g(t, y, v), (v,), (self.b(t, y, v)[:, j],))[1]

        return applied

    def L0(self, g: Callable) -> Callable:
        """L^0 g = g_t + (v · ∂/∂x) g + (a · ∂/∂v) g + ½ Σ_k (b_k · ∂/∂v)² g, with b_k held constant."""

        def applied(t, y, v):
            one = jnp.ones((), v.dtype)
            drift = jax.jvp(g, (jnp.asarray(t, v.dtype), y, v), (one, v, self.a(t, y, v)))[1]
            b = self.b(t, y, v)

            def bent(k):
                def slope(v):
                    return jax.jvp(lambda v: g(t, y, v), (v,), (b[:, k],))[1]

                return jax.jvp(slope, (v,), (b[:, k],))[1]

            return drift + 0.5 * sum(map(bent, self.channels))

        return applied


def noise_terms(fields: Fields, at: tuple, noise: Increment, γ, order) -> tuple[Array, Array, Array]:
    """The terms that the noise adds to x, to v and (orders 1.5 and 2) to the force that φ follows.

    Σ_k b_k I_(k) and Σ_lk (L^l b_k) I_(l,k) in v, the same with a further time integral in x; then `taylor_terms`.
    """
    N_kick = jnp.zeros_like(at[2])
    if not fields.channels:
        return N_kick, N_kick, N_kick
    b = fields.b(*at)
    x_kick, v_kick = b @ noise.Z, b @ noise.W
    if fields.facts.noise_on_v:
        t, y, v = at
        x_more, v_more = milstein_terms(lambda v: fields.b(t, y, v), v, b, noise)
        x_kick, v_kick = x_kick + x_more, v_kick + v_more
    if order != 1.0:
        further, N_kick = taylor_terms(fields, at, noise, γ, order)
        v_kick = v_kick + further
    return x_kick, v_kick, N_kick


def milstein_terms(kicks: Callable, v: Array, b: Array, noise: Increment) -> tuple[Array, Array]:
    """Σ_lk (b_l · ∂/∂v) kicks_k(v) times I_(l,k,0) for x, and times I_(l,k) for v."""
    x_kick = v_kick = jnp.zeros_like(v)
    for l in range(b.shape[1]):
        slope = jax.jvp(kicks, (v,), (b[:, l],))[1]
        v_kick = v_kick + slope @ words(noise, (l + 1, None))
        x_kick = x_kick + slope @ words(noise, (l + 1, None, 0))
    return x_kick, v_kick


def taylor_terms(fields: Fields, at: tuple, noise: Increment, γ, order) -> tuple[Array, Array]:
    """The terms of v that strong orders 1.5 and 2 need besides the paper's, and N, the noise of the force over a step.

    1.5:  Σ_k (L^0 b_k) I_(0,k) + Σ_ilk (L^i L^l b_k) I_(i,l,k) + Σ_j (L^j a) (I_(j,0) - γ h I_(j)),
          N = Σ_j (L^j a) I_(j)
    2.0:  also Σ_lk [(L^0 L^l b_k) I_(0,l,k) + (L^l L^0 b_k) I_(l,0,k)] + Σ_ijlk (L^i L^j L^l b_k) I_(i,j,l,k)
          + Σ_ij (L^i L^j a) (I_(i,j,0) - γ h I_(i,j)),  N also Σ_ij (L^i L^j a) I_(i,j)
    φ - a - N is smooth, so γ + αm - αf = 1/2 gives the h²/2 L^0 a of Taylor's formula. Terms that vanish for the
    problem's functions are left out.
    """
    a, b, L, L0, facts = fields.a, fields.b, fields.L, fields.L0, fields.facts
    word, h = noise.word, noise.h
    v_kick = N_kick = jnp.zeros_like(at[2])
    if facts.noise_on_t or not facts.additive:
        v_kick = v_kick + L0(b)(*at) @ words(noise, (0, None))
    for l in (l + 1 for l in fields.channels):
        if facts.force_on_v:
            slope = L(l - 1, a)(*at)
            v_kick = v_kick + slope * (word((l, 0)) - γ * h * word((l,)))
            N_kick = N_kick + slope * word((l,))
        if order == 2.0 and not facts.additive:
            v_kick = v_kick + L(l - 1, L0(b))(*at) @ words(noise, (l, 0, None))
        if order == 2.0 and facts.noise_on_v:
            v_kick = v_kick + L0(L(l - 1, b))(*at) @ words(noise, (0, l, None))
        for i in (i + 1 for i in fields.channels):
            if facts.noise_on_v:
                v_kick = v_kick + L(i - 1, L(l - 1, b))(*at) @ words(noise, (i, l, None))
            if order == 2.0 and facts.force_on_v and not (facts.additive and facts.linear_damping):
                slope = L(i - 1, L(l - 1, a))(*at)
                v_kick = v_kick + slope * (word((i, l, 0)) - γ * h * word((i, l)))
                N_kick = N_kick + slope * word((i, l))
            for j in (j + 1 for j in fields.channels):
                if order == 2.0 and facts.noise_on_v:
                    v_kick = v_kick + L(i - 1, L(j - 1, L(l - 1, b)))(*at) @ words(noise, (i, j, l, None))
    return v_kick, N_kick


def words(noise: Increment, pattern: tuple) -> Array:
    """I_word with every channel in place of None, (m,)."""
    channels = range(1, noise.W.shape[-1] + 1)
    return jnp.stack([noise.word(tuple(k if letter is None else letter for letter in pattern)) for k in channels])


def cheapest(problem: Mechanical, order: float, h: float) -> Recipe:
    """The cheapest noise with which a method has this order for a problem at steps of length h."""
    facts, one = problem.facts, problem.m == 1
    if problem.m == 0 or (order != 2.0 and not facts.noise_on_v):
        return wiener.WZ
    if order == 2.0:
        if facts.additive and facts.linear_damping:
            return wiener.WZ
        return SineSeries(8) if one else _substeps(problem, order, h)
    if one or (order == 1.0 and problem.noise_structure.implies("commutative")):
        return SecondMoments(0)
    return SecondMoments(4) if order == 1.0 else _substeps(problem, order, h)


def _substeps(problem: Mechanical, order: float, h: float) -> Signature:
    """The signature of as many substeps as the order needs, but of no more than MOST_SUBSTEPS."""
    most, unit = Signature(MOST_SUBSTEPS), time_scale(problem)
    enough = math.isfinite(unit) and most.is_enough(order, h, problem.m, unit)
    return Signature.for_order(order, h, problem.m, unit) if enough else most


def largest_rate(problem: Mechanical) -> float:
    """The largest modulus of the eigenvalues of the equations of y and v, linearised at the start.

    It is inf where the derivative of the force is not finite there.
    """
    with jax.enable_x64(True):
        motion = problem.motion
        (y, v, z), params, r = motion.example_coordinates(), motion.params, motion.r

        def a(y, v):
            return motion.acceleration(0.0, y, v, motion.settled(0.0, y, v, z, params), params)

        slopes = at_points(jax.jacfwd(a, argnums=(0, 1)), np.asarray(y)[None], np.asarray(v)[None])
        stiffness, damping = (J[0] for J in slopes)
    system = np.block([[np.zeros((r, r)), np.eye(r)], [stiffness, damping]])
    return float(np.abs(np.linalg.eigvals(system)).max()) if np.isfinite(system).all() else math.inf


# --- the members of the family ----------------------------------------------------------------------------------------


def stochastic_coefficients(rho: float, y) -> tuple[Any, Any]:
    """β and γ from (15) of the paper, in a form without cancellation, for y = h Σ η².

    In the stiff limit of the test equation x'' = -ω²x + η v ξ the means of the sum and of the discriminant of the
    eigenvalues are then those of two eigenvalues -ρ.
    """
    θ = 1152 - y**4 - 6 * y**3 - 6 * y**2 * (4 * rho * (rho - 2) + 5) - 96 * y * rho * (rho - 2)
    root = (jnp.sqrt if isinstance(y, jax.Array) else np.sqrt)(2 * θ)
    above = 24 + y + 4 * rho * y + rho * y**2 + root / 2
    below = 24 * (1 + rho) ** 2 + 2 * y * (4 * rho**2 + 2 * rho + 1) + y**2 * (2 * rho**2 + 1)
    β = above / (2 * below)
    return β, 2 * β * (1 + rho) - 0.5


def largest_y(rho: float) -> float:
    """The largest y = h Σ η² for which the coefficients (15) are real."""
    roots = np.roots([-1, -6, -6 * (4 * rho * (rho - 2) + 5), -96 * rho * (rho - 2), 1152])
    return float(min(root.real for root in roots if abs(root.imag) < 1e-9 and root.real > 0))


@dataclasses.dataclass(frozen=True)
class _StochasticAlpha(GeneralisedAlpha):
    """Rajan & Raha's stochastic α method, with Chung & Hulbert's αm = (2ρ-1)/(1+ρ), αf = ρ/(1+ρ).

    The first choice for structures, stiff ones included; the equations are those of GeneralisedAlpha. The recursion for
    φ is Chung & Hulbert's: the paper prints its (7c) in another convention than its (8).

    Parameters
    ----------
    rho : float from 0 to 1
        The factor by which one step reduces an oscillation with ωh → ∞. 1 keeps it (Newmark's average acceleration), 0
        removes it in one step; slow oscillations keep their energy for every rho.
    order, tol, limit, area
        As for GeneralisedAlpha.
    parameters : "deterministic" or "stochastic"
        "deterministic": β = 1/(1+ρ)², γ = (3-ρ)/(2(1+ρ)). "stochastic": (15) of the paper, where β and γ depend on the
        noise through y = h Σ eta². They are real up to y = 4.04 (ρ = 0) ... 5.11 (ρ = 1) and differ from the
        deterministic ones by terms of second order.
    eta : float or sequence of float, optional
        For "stochastic": the coefficients η_l of v in the noise, one number or one per channel.
    """

    rho: float = 0.8
    order: float = 1.0
    parameters: str = "deterministic"
    eta: Any = None
    tol: float = 1e-10
    limit: int = 20
    area: Recipe | None = None

    citation = PAPER

    def __post_init__(self):
        if not (isinstance(self.rho, (int, float, np.number)) and 0 <= self.rho <= 1):
            raise ValueError(
                f"rho: expected a number from 0 (high frequencies end in one step) to 1 (they stay), got {self.rho!r}"
            )
        if self.parameters not in ("deterministic", "stochastic"):
            raise ValueError(f'parameters: expected "deterministic" or "stochastic", got {self.parameters!r}')
        if (self.eta is not None) != (self.parameters == "stochastic"):
            raise ValueError(
                'eta: belongs to parameters="stochastic": the coefficients η_l of v in the noise of each channel'
            )
        if self.eta is not None:
            η = np.ravel(np.asarray(self.eta, float))
            if not np.isfinite(η).all():
                raise ValueError(f"eta: expected finite numbers, got {self.eta!r}")
            object.__setattr__(self, "eta", tuple(η.tolist()))
        self._check()

    @property
    def summary(self):
        if self.order == 1.0:
            return "Rajan and Raha's stochastic α, with dissipation set by rho"
        return f"Stochastic α with the noise terms of strong order {self.order}"

    @property
    def name(self):
        return "StochasticAlpha" if self.order == 1.0 else f"StochasticAlpha{round(10 * self.order)}"

    @property
    def claims(self):
        better = CONSTANT_UNDAMPED if self.order == 1.0 else ADDITIVE_LINEAR
        more = {1.0: ("strong", "weak"), 1.5: ("strong",), 2.0: ()}[self.order]
        weak = Claim("weak", 1.0 if self.order == 1.0 else 2.0, source=MEASURED)
        return (*super().claims, weak, *(Claim(kind, 2.0, when=(better,), source=MEASURED) for kind in more))

    def coefficients(self, h):
        ρ = self.rho
        β, γ = 1 / (1 + ρ) ** 2, (3 - ρ) / (2 * (1 + ρ))
        if self.eta is not None:
            β, γ = stochastic_coefficients(ρ, h * sum(η**2 for η in self.eta))
        return Coefficients((2 * ρ - 1) / (1 + ρ), ρ / (1 + ρ), β, γ)

    def step_refusal(self, h):
        if self.eta is None:
            return None
        y, most = h * sum(η**2 for η in self.eta), largest_y(self.rho)
        if y > most:
            return (
                f"parameters='stochastic' with rho={self.rho:g} needs y = h Σ eta² <= {most:.4f}, beyond which (15) is "
                f"not real; y = {y:.4g} at h = {h:g}. Take h <= {most * h / y:.4g}, or parameters='deterministic'"
            )
        return None


@dataclasses.dataclass(frozen=True)
class _General(GeneralisedAlpha):
    """The generalised-α scheme with any four coefficients; the convention is Chung & Hulbert's.

    Parameters
    ----------
    alpha_m, alpha_f, beta, gamma : float
        The coefficients αm < 1, αf < 1, β and γ; by default those of Newmark's average acceleration.
    order, tol, limit, area
        As for every generalised-α method, see StochasticAlpha.
    """

    alpha_m: float = 0.0
    alpha_f: float = 0.0
    beta: float = 0.25
    gamma: float = 0.5
    order: float = 1.0
    tol: float = 1e-10
    limit: int = 20
    area: Recipe | None = None

    name = "GeneralisedAlpha"
    citation = CHUNG_HULBERT

    def __post_init__(self):
        for name in ("alpha_m", "alpha_f", "beta", "gamma"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name}: expected a finite number, got {getattr(self, name)!r}")
        if self.alpha_m >= 1 or self.alpha_f >= 1:
            raise ValueError(
                f"alpha_m, alpha_f: expected less than 1, got {self.alpha_m} and {self.alpha_f}: φ' or f' would drop "
                "out. In the other convention Newmark's method has 1 and 1; here it has 0 and 0"
            )
        self._check()

    def coefficients(self, h):
        return Coefficients(self.alpha_m, self.alpha_f, self.beta, self.gamma)


@dataclasses.dataclass(frozen=True)
class _Newmark(GeneralisedAlpha):
    """Newmark's method for structures: the generalised-α scheme with αm = αf = 0.

    Parameters
    ----------
    beta, gamma : float
        1/4 and 1/2 (the default) give the average acceleration, without dissipation; γ > 1/2 dissipates but lowers the
        order without noise to 1.
    order, tol, limit, area
        As for every generalised-α method, see StochasticAlpha.
    """

    beta: float = 0.25
    gamma: float = 0.5
    order: float = 1.0
    tol: float = 1e-10
    limit: int = 20
    area: Recipe | None = None

    name = "Newmark"
    citation = (
        "N. M. Newmark, A method of computation for structural dynamics, J. Eng. Mech. Div. ASCE 85 (1959); with \
noise: D. Roy & M. K. Dash, A stochastic Newmark method for engineering dynamical systems, J. Sound Vib. 249 (2002)"
    )

    def __post_init__(self):
        _General(0.0, 0.0, self.beta, self.gamma)
        self._check()

    def coefficients(self, h):
        return Coefficients(0.0, 0.0, self.beta, self.gamma)


@dataclasses.dataclass(frozen=True)
class _HHT(GeneralisedAlpha):
    """Hilber, Hughes & Taylor's α method: αm = 0, αf = (1-ρ)/(1+ρ), β = (1+αf)²/4, γ = 1/2 + αf.

    Parameters
    ----------
    rho : float from 1/2 to 1
        The factor by which one step reduces an oscillation with ωh → ∞.
    order, tol, limit, area
        As for every generalised-α method, see StochasticAlpha.
    """

    rho: float = 0.8
    order: float = 1.0
    tol: float = 1e-10
    limit: int = 20
    area: Recipe | None = None

    name = "HHT"
    citation = "H. M. Hilber, T. J. R. Hughes & R. L. Taylor, Improved numerical dissipation for time integration \
algorithms in structural dynamics, Earthquake Eng. Struct. Dyn. 5 (1977)"

    def __post_init__(self):
        if not 0.5 <= self.rho <= 1:
            raise ValueError(f"rho: HHT has 1/2 <= rho <= 1, got {self.rho!r}; StochasticAlpha takes any from 0 to 1")
        self._check()

    def coefficients(self, h):
        α = (1 - self.rho) / (1 + self.rho)
        return Coefficients(0.0, α, (1 + α) ** 2 / 4, 0.5 + α)


@dataclasses.dataclass(frozen=True)
class _WBZ(GeneralisedAlpha):
    """Wood, Bossak & Zienkiewicz's α method: αf = 0, αm = (ρ-1)/(ρ+1), β = (1-αm)²/4, γ = 1/2 - αm.

    Parameters
    ----------
    rho : float from 0 to 1
        The factor by which one step reduces an oscillation with ωh → ∞.
    order, tol, limit, area
        As for every generalised-α method, see StochasticAlpha.
    """

    rho: float = 0.8
    order: float = 1.0
    tol: float = 1e-10
    limit: int = 20
    area: Recipe | None = None

    name = "WBZ"
    citation = "W. L. Wood, M. Bossak & O. C. Zienkiewicz, An alpha modification of Newmark's method, Int. J. Numer. \
Meth. Eng. 15 (1980)"

    def __post_init__(self):
        if not 0 <= self.rho <= 1:
            raise ValueError(f"rho: expected a number from 0 to 1, got {self.rho!r}")
        self._check()

    def coefficients(self, h):
        α = (self.rho - 1) / (self.rho + 1)
        return Coefficients(α, 0.0, (1 - α) ** 2 / 4, 0.5 - α)


StochasticAlpha = _StochasticAlpha()
StochasticAlpha15 = _StochasticAlpha(order=1.5)
StochasticAlpha20 = _StochasticAlpha(order=2.0)
General = _General()
Newmark = _Newmark()
HHT = _HHT()
WBZ = _WBZ()
