"""An α method for a structure or mechanism with coloured noise, whose exact integrals enter each step.

With b = M⁻¹Γ at the start of the step, y and y' the noise at its ends, Y1 = ∫y and Y2 = ∫∫y over it (drawn from their
joint law with the filter's state), and η the noise as the recursion for φ follows it,

    (1 - αm) η' + αm η = (1 - αf) y' + αf y,             η = y at the start of a path,
    the force in the recursion for φ:                    force + Γ y, at both ends,
    v' gets  b (Y1 - h [(1 - γ) η + γ η']),              x' gets  b (Y2 - h² [(1/2 - β) η + β η']).

The exact integrals thus replace the recursion's own approximation of y, while force and Γ see a continuous y. This
gives strong order 2; y sampled at the ends of the steps, or averaged over them, would give 1. If b is constant, the
step is the same as with y left out of the force, b Y1 added to v' and b Y2 to x'. With joints, the kicks enter
RATTLE-α's step in the same way, before its impulses; reactions are functions of time unless white noise enters them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn.methods.wrapping import AndNormals, StepsBeside, without
from stodyn.noise.coloured.delay import Delayed
from stodyn.numerics import lyapunov
from stodyn.problems.driven import (
    IN_THE_LONG_RUN,
    LINEARISED,
    SLOW,
    Driven,
    by_van_loan,
    longest_step,
    response_in_words,
    warn_of_response,
)
from stodyn.problems.driven_mechanical import DrivenMechanical

STREAM = "coloured"


MOST_STATES = 200  # of a structure and its filter, whose covariances are compared before a run


def check_response(method: Any, problem: Any, h: float) -> None:
    """Warn where the step gives x or v a wrong variance in the long run, by the equations linearised about the start.

    White noise alone is checked where a run begins, see engine.variances.
    """
    if isinstance(problem.coloured, Delayed):  # its outputs one by one: each must be delivered
        problem = dataclasses.replace(problem, coloured=problem.coloured.undelayed)
    N, k = problem.N, problem.coloured.states
    if problem.joints is not None or not problem.motion.is_regular or 3 * N + k > MOST_STATES:
        return
    lowered = problem.lower(Driven)
    assert lowered is not None
    driven: Any = lowered[0]
    A, G, b = driven.slopes_at_the_start()
    exact = _exact(problem, A, G, b)
    if exact is None:
        return

    def delivered(h: float) -> np.ndarray | None:
        step, kick = linear_step(method, problem, h, A[N:], G[N:], b[N:])
        if not np.abs(np.linalg.eigvals(step)).max() < 1.0 - lyapunov.LEAST_DECAY:
            return None
        try:
            return np.diagonal(lyapunov.discrete(step, kick @ kick.T))[: 2 * N]
        except ValueError:
            return None

    def is_off(h: float) -> bool:
        shorter = delivered(h)
        return shorter is None or response_in_words(shorter, exact, problem.components) is not None

    now = delivered(h)
    if now is not None and is_off(h):
        compared = now, exact
        longest, remedy = longest_step(is_off, h), by_van_loan(problem)
        warn_of_response(method, h, compared, problem.components, IN_THE_LONG_RUN, longest, LINEARISED, remedy)


def _exact(problem: DrivenMechanical, A: np.ndarray, G: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The variances of x and v in the long run; None where they are not known."""
    rates = np.linalg.eigvals(A)
    if not all(np.isfinite(part).all() for part in (A, G, b)) or rates.real.max() >= -SLOW * np.abs(rates).max():
        return None
    noise, n = problem.coloured, len(A)
    whole = np.block([[A, G @ noise.C], [np.zeros((len(noise.A), n)), noise.A]])
    try:
        return np.diagonal(lyapunov.continuous(whole, scipy.linalg.block_diag(b @ b.T, noise.B @ noise.B.T)))[:n]
    except ValueError:  # modes that decay no faster than rounding lets them: nothing is known of the long run
        return None


def linear_step(
    method: Any, problem: DrivenMechanical | None, h: float, A: np.ndarray, G: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix of a step of (x, v, φ, s) for x'' = A (x, v) + G y + b ξ, and that of its normals; without a
    problem there is no y."""
    αm, αf, β, γ = method.coefficients(h)
    N, p, m = len(A), G.shape[1], b.shape[1]
    nothing = np.zeros((0, 0)), np.zeros((0, 0))
    transition, root = nothing if problem is None else problem.integrals(h)
    k = transition.shape[1]
    n = 3 * N + k
    x, v, φ, s, normals, W, other = np.split(
        np.eye(n + root.shape[1] + 2 * m), np.cumsum([N, N, N, k, root.shape[1], m])
    )
    joint = transition @ s + root @ normals
    s_after, Y1, Y2 = joint[:k], joint[k : k + p], joint[k + p :]
    W = math.sqrt(h) * W
    Z = 0.5 * h * W + math.sqrt(h**3 / 12.0) * other
    x_known = x + h * v + h**2 * (0.5 - β) * φ + G @ Y2 + b @ Z
    v_known = v + h * (1.0 - γ) * φ + G @ Y1 + b @ W
    right = -αm * φ + αf * A @ np.concatenate([x, v])
    if method.order != 1.0:  # its terms of the noise in the force, see methods.alpha.taylor_terms
        slope = A[:, N:] @ b
        v_known = v_known + slope @ (Z - γ * h * W)
        right = right + (αf - αm) * slope @ W
    right = right + (1.0 - αf) * A @ np.concatenate([x_known, v_known])
    left = (1.0 - αm) * np.eye(N) - (1.0 - αf) * (β * h**2 * A[:, :N] + γ * h * A[:, N:])
    φ = np.linalg.solve(left, right)
    after = np.concatenate([x_known + β * h**2 * φ, v_known + γ * h * φ, φ, s_after])
    return after[:, :n], after[:, n:]


class Course(NamedTuple):
    """The coloured noise of a step: y at its ends, the filter's state at its end, ∫y and ∫∫y over it."""

    first: Array
    last: Array
    s: Array
    once: Array
    twice: Array

    def rest(self, u: Array, h: Any) -> Course:
        """What is left of it after the share u of a step of length h: on the cubic with these ends and integrals, which
        is the mean of a Brownian path with them."""
        a, b, m, d = self.first, self.last, self.once / h, 2.0 * self.twice / h**2
        c, e = 30.0 * d - 24.0 * m + 3.0 * b - 9.0 * a, 84.0 * m - 90.0 * d + 18.0 * a - 12.0 * b
        f = b - a - c - e  # y = a + c w + e w² + f w³ for w from 0 to 1
        gone = u * (a + u * (c / 2.0 + u * (e / 3.0 + u * f / 4.0)))
        twice_gone = u**2 * (a / 2.0 + u * (c / 6.0 + u * (e / 12.0 + u * f / 20.0)))
        return Course(
            a + u * (c + u * (e + u * f)), b, self.s, h * (m - gone), h**2 * (d / 2.0 - twice_gone - (1.0 - u) * gone)
        )


@dataclasses.dataclass(frozen=True)
class Excited(StepsBeside):
    """An α method with the filter's law for steps of length dt; its state is that of the method, s and η."""

    problem: Any = dataclasses.field(repr=False)
    dt: float
    takes_any: bool = False  # whether steps of another length than dt are sound

    accepts = DrivenMechanical

    @property
    def takes_equal_steps(self) -> str:
        return "draws coloured noise from its law over one length of step"

    @functools.cached_property
    def law(self) -> tuple[np.ndarray, np.ndarray]:
        return self.problem.integrals(self.dt)

    @property
    def needs(self):
        return AndNormals(self.method.needs, STREAM, self.law[1].shape[1])

    @functools.cached_property
    def is_direct(self) -> bool:
        """Whether y is left out of the force, and its integrals are added to x' and v'."""
        if self.problem.joints is not None:
            shows_none = not self.problem.accelerations
            return self.problem.has_constant_push and shows_none and self.method.kicks_before_impulses
        terms = self.method.order == 1.0 or self.problem.own.facts.additive  # L⁰b of other noise contains the force
        return self.problem.has_constant_push and terms

    def prepared(self, problem, h):
        return self.method.prepared(problem, h)

    def after_jump(self, problem, t, state, params):
        return self.start(problem, t, self.read(state), params)

    def start(self, problem, t, x, params):
        return self.begun(problem, t, x, self._output(problem, x[-problem.coloured.states :]), params)

    def begun(self, problem, t, x, y, params):
        """The state at a place x, where the noise is y."""
        k = problem.coloured.states
        s = x[-k:]
        if self.is_direct:
            begun = self.method.start(problem.own, t, x[:-k], params)
            return self._shown(problem, begun, self._push(problem, t, begun, params) @ y), s
        inner_params = {"own": params, "noise": y}
        return self.method.start(problem.given_y, t, x[:-k], inner_params), s, y

    def draw(self, state, noise):
        """The filter's state s after a step, and ∫y and ∫∫y over the step."""
        s = state[1]
        law = tuple(jnp.asarray(matrix, s.dtype) for matrix in self.law)
        return self.problem.coloured.advanced(law, s, noise.aux[STREAM])

    def step(self, problem, t, state, noise, params):
        course = self.course(problem, state, noise)
        now, report = self.step_along(course, problem, t, state, without(noise, STREAM), params)
        # Steps of another length would draw from the wrong law; runs refuse them before they begin.
        right = self.takes_any or jnp.abs(noise.h - self.dt) <= 1e-6 * self.dt
        return now, report._replace(ok=jnp.asarray(report.ok) & right)

    def course(self, problem, state, noise):
        """The coloured noise of a step."""
        s, once, twice = self.draw(state, noise)
        return Course(self._output(problem, state[1]), self._output(problem, s), s, once, twice)

    def step_along(self, course, problem, t, state, own_noise, params):
        """A step with this coloured noise, and with the other noise of the method."""
        before, h, s_after, Y1, Y2 = state[0], own_noise.h, course.s, course.once, course.twice
        b = self._push(problem, t, before, params)
        if self.is_direct:  # with the same b at all times and in all states
            after, report = self.method.step(problem.own, t, before, own_noise, params, push=(b @ Y2, b @ Y1))
            return (self._shown(problem, after, b @ course.last), s_after), report
        αm, αf, β, γ = self.method.coefficients(h)
        η, at_start, at_end = state[2], course.first, course.last
        η_after = ((1 - αf) * at_end + αf * at_start - αm * η) / (1 - αm)
        in_x = Y2 - h**2 * ((0.5 - β) * η + β * η_after)
        in_v = Y1 - h * ((1 - γ) * η + γ * η_after)
        inner_params, later = ({"own": params, "noise": value} for value in (at_start, at_end))
        after, report = self.method.step(
            problem.given_y, t, before, own_noise, inner_params, later=later, push=(b @ in_x, b @ in_v)
        )
        return (after, s_after, η_after), report

    def with_steps(self, dt):
        return dataclasses.replace(self, dt=dt)

    def at_any_length(self):
        return dataclasses.replace(self, takes_any=True)

    def _output(self, problem, s):
        return jnp.asarray(problem.coloured.C, s.dtype) @ s

    def _push(self, problem, t, state, params):
        """The change of v per unit impulse of each output."""
        y, v, z = problem.motion.coordinates(self.method.read(state))
        return problem.push(t, y, v, z, params)

    def _shown(self, problem, state, push):
        """The method's state, with the coloured force in the accelerations that are shown."""
        if not problem.accelerations:
            return state
        shown, φ = state
        return shown.at[2 * problem.N :].add(push), φ
