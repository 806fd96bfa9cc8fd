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
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.methods.contract import Method
from stodyn.methods.wrapping import AndNormals, Wrapping, without
from stodyn.numerics import van_loan
from stodyn.problems.driven import SLOW, Driven
from stodyn.problems.driven_mechanical import DrivenMechanical

STREAM = "coloured"


MOST_STATES = 200  # of a structure and its filter, whose covariances are compared before a run


def check_response(method: Any, problem: DrivenMechanical, h: float) -> None:
    """Warn where the step gives x or v, linearised about the start, a wrong variance in the long run.

    White noise beside the coloured one counts as exact.
    """
    N, k = problem.N, len(problem.coloured.A)
    if problem.joints is not None or not problem.is_regular or 3 * N + k > MOST_STATES:
        return
    lowered = problem.lower(Driven)
    assert lowered is not None
    driven: Any = lowered[0]
    A, G, b = driven.slopes_at_the_start()
    whole = np.block([[A, G @ problem.coloured.C], [np.zeros((k, 2 * N)), problem.coloured.A]])
    rates = np.linalg.eigvals(A)
    if not np.isfinite(whole).all() or rates.real.max() >= -SLOW * np.abs(rates).max():
        return
    step, kick = linear_step(method, problem, h, A[N:], G[N:])
    if not np.abs(np.linalg.eigvals(step)).max() < 1.0:
        return
    of_noise = np.concatenate([np.zeros((2 * N, problem.coloured.B.shape[1])), problem.coloured.B])
    exact, white, delivered = (
        np.diagonal(covariance)[: 2 * N]
        for covariance in (
            van_loan.lyapunov(whole, of_noise @ of_noise.T), van_loan.lyapunov(A, b @ b.T), _settled(step, kick)
        )
    )  # fmt: skip
    driven.warn_of_response(method, h, delivered + white, exact + white)


def _settled(step: np.ndarray, kick: np.ndarray) -> np.ndarray:
    """Σ step^j kick kick' step'^j over 2^40 steps, by doubling: no unit of a component is too small for it."""
    covariance = kick @ kick.T
    for _ in range(40):
        covariance, step = covariance + step @ covariance @ step.T, step @ step
    return covariance


def linear_step(method: Any, problem: DrivenMechanical, h: float, A: np.ndarray, b: np.ndarray) -> tuple:
    """The step of (x, v, φ, s) without white noise for x'' = A (x, v) + b y: its matrix, and that of its normals."""
    αm, αf, β, γ = method.coefficients(h)
    transition, root = problem.integrals(h)
    N, k, p = problem.N, len(problem.coloured.A), problem.outputs
    x, v, φ, s = np.split(np.eye(3 * N + k), [N, 2 * N, 3 * N])
    nothing = np.zeros((N, root.shape[1]))

    def joined(rows: np.ndarray, of_normals: np.ndarray) -> np.ndarray:
        return np.concatenate([rows, of_normals], axis=1)

    x, v, φ = (joined(rows, nothing) for rows in (x, v, φ))
    joint = joined(transition @ s, root)
    s_after, Y1, Y2 = joint[:k], joint[k : k + p], joint[k + p :]
    x_known = x + h * v + h**2 * (0.5 - β) * φ + b @ Y2
    v_known = v + h * (1.0 - γ) * φ + b @ Y1
    right = (1.0 - αf) * A @ np.concatenate([x_known, v_known]) - αm * φ + αf * A @ np.concatenate([x, v])
    left = (1.0 - αm) * np.eye(N) - (1.0 - αf) * (β * h**2 * A[:, :N] + γ * h * A[:, N:])
    φ = np.linalg.solve(left, right)
    after = np.concatenate([x_known + β * h**2 * φ, v_known + γ * h * φ, φ, s_after])
    return after[:, : 3 * N + k], after[:, 3 * N + k :]


@dataclasses.dataclass(frozen=True)
class Excited(Wrapping, Method):
    """An α method with the filter's law for steps of length dt; its state is that of the method, s and η."""

    problem: Any = dataclasses.field(repr=False)
    dt: float

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
            return self.problem.has_constant_push and not self.problem.accelerations
        terms = self.method.order == 1.0 or self.problem.own.facts.additive  # L⁰b of other noise contains the force
        return self.problem.has_constant_push and terms

    def prepared(self, problem, h):
        return self.method.prepared(problem, h)

    def start(self, problem, t, x, params):
        k = len(problem.coloured.A)
        s = x[-k:]
        y = self._output(problem, s)
        if self.is_direct:
            begun = self.method.start(problem.own, t, x[:-k], params)
            return self._shown(problem, begun, self._push(problem, t, begun, params) @ y), s
        inner_params = {"own": params, "noise": y}
        return self.method.start(problem.given_y, t, x[:-k], inner_params), s, y

    def draw(self, state, noise):
        """The filter's state s after a step, and ∫y and ∫∫y over the step."""
        s = state[1]
        k, p = len(s), len(self.problem.coloured.C)
        transition, root = (jnp.asarray(matrix, s.dtype) for matrix in self.law)
        joint = transition @ s + root @ noise.aux[STREAM]
        return joint[:k], joint[k : k + p], joint[k + p :]

    def step(self, problem, t, state, noise, params):
        (before, s), h = state[:2], noise.h
        s_after, Y1, Y2 = self.draw(state, noise)
        own_noise = without(noise, STREAM)
        b = self._push(problem, t, before, params)
        if self.is_direct:  # with the same b at all times and in all states
            after, report = self.method.step(problem.own, t, before, own_noise, params, push=(b @ Y2, b @ Y1))
            now: tuple = (self._shown(problem, after, b @ self._output(problem, s_after)), s_after)
        else:
            αm, αf, β, γ = self.method.coefficients(h)
            η, at_start, at_end = state[2], self._output(problem, s), self._output(problem, s_after)
            η_after = ((1 - αf) * at_end + αf * at_start - αm * η) / (1 - αm)
            in_x = Y2 - h**2 * ((0.5 - β) * η + β * η_after)
            in_v = Y1 - h * ((1 - γ) * η + γ * η_after)
            inner_params, later = ({"own": params, "noise": value} for value in (at_start, at_end))
            after, report = self.method.step(
                problem.given_y, t, before, own_noise, inner_params, later=later, push=(b @ in_x, b @ in_v)
            )
            now = (after, s_after, η_after)
        # Steps of another length would draw from the wrong law; runs refuse them before they begin.
        right = jnp.abs(h - self.dt) <= 1e-6 * self.dt
        return now, report._replace(ok=jnp.asarray(report.ok) & right)

    def read(self, state):
        return jnp.concatenate([self.method.read(state[0]), state[1]])

    def _output(self, problem, s):
        return jnp.asarray(problem.coloured.C, s.dtype) @ s

    def _push(self, problem, t, state, params):
        """The change of v per unit impulse of each output."""
        shown = self.method.read(state)
        (y, z), v = problem.split(shown[: problem.N]), problem.split(shown[problem.N : 2 * problem.N])[0]
        return problem.push(t, y, v, z, params)

    def _shown(self, problem, state, push):
        """The method's state, with the coloured force in the accelerations that are shown."""
        if not problem.accelerations:
            return state
        shown, φ = state
        return jnp.concatenate([shown[: 2 * problem.N], φ + push]), φ
