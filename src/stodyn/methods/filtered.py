"""A method on a problem with coloured noise, the noise itself stepped exactly: its law is right at any step."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.methods.catalogue import named
from stodyn.methods.contract import Claim, Method
from stodyn.methods.wrapping import without
from stodyn.noise.increment import Recipe
from stodyn.numerics import van_loan
from stodyn.problems import lowering
from stodyn.problems.driven import Driven
from stodyn.problems.driven_mechanical import DrivenMechanical


def exactly_filtered(method: Method | str, problem: Any, dt: float) -> Method:
    """The method for a problem made by with_noise and steps of length dt, with the filter of the noise stepped exactly.

    In a step the filter's state and the average of the noise over it are drawn from their joint law (Van Loan), and the
    method steps the problem's own equations with this average for the noise, constant over the step. So the noise has
    its exact covariance and autocovariance at any dt, and the response an error of order dt² for smooth systems: it
    receives the exact impulse of every step. Costs k + p normals a step for k states of the filter and p outputs.
    """
    method = named(method)
    if not isinstance(method, Method) or method.starting_steps:
        raise TypeError(f"method: expected a one-step method such as RK4, got {method!r}")
    if isinstance(problem, DrivenMechanical):
        if issubclass(DrivenMechanical, method.accepts):
            raise TypeError(
                f"method: {method.name} keeps the noise of a mechanical system exact by itself; run it as it is"
            )
        problem = problem.lower(Driven)[0]  # type: ignore[index]
    if not isinstance(problem, Driven):
        raise TypeError(f"problem: expected one made by with_noise, got a {type(problem).__name__}")
    if not isinstance(problem.own, method.accepts):
        raise TypeError(
            f"method: {method.name} steps {method.accepts.__name__} problems, and the equations of one made by "
            "with_noise are written as an SDE; take a method for SDEs such as RK4 or Heun"
        )
    if not (math.isfinite(dt) and dt > 0):
        raise ValueError(f"dt: expected a step > 0, got {dt!r}")
    return _ExactlyFiltered(method, problem, float(dt))


@dataclasses.dataclass(frozen=True)
class _AndFilter(Recipe):
    """The increments of another recipe over the problem's own channels, and the filter's normals in aux["coloured"]."""

    recipe: Recipe
    channels: int
    count: int

    def normals(self, m):
        return {**self.recipe.normals(self.channels), "coloured": self.count}

    def increment(self, h, normals, m):
        own = {name: z for name, z in normals.items() if name != "coloured"}
        made = self.recipe.increment(h, own, self.channels)
        return dataclasses.replace(made, aux={**(made.aux or {}), "coloured": normals["coloured"]})


@dataclasses.dataclass(frozen=True)
class _ExactlyFiltered(Method):
    """The base method on the problem's own equations, then the filter; the state is that of the base and s."""

    base: Any
    problem: Any = dataclasses.field(repr=False)
    dt: float

    accepts = Driven
    calculus = None
    claims: tuple[Claim, ...] = dataclasses.field(default=(), init=False, repr=False)

    @property
    def name(self):
        return f"{self.base.name} with exact noise"

    @property
    def citation(self):
        return f"{self.base.citation}; the noise: C. Van Loan, IEEE Trans. Automat. Control 23 (1978)"

    @functools.cached_property
    def own(self) -> Any:
        """The problem's own equations in the calculus of the base, the noise being a parameter."""
        convert = {"ito": lowering.to_ito, "stratonovich": lowering.to_stratonovich}.get(self.base.calculus)
        return convert(self.problem.own) if convert else self.problem.own

    @functools.cached_property
    def law(self) -> tuple[np.ndarray, np.ndarray]:
        """(s, average of y) after a step = transition s + root ξ."""
        A, B, C = self.problem.noise.A, self.problem.noise.B, self.problem.noise.C
        k, p = len(A), len(C)
        joint = np.block([[A, np.zeros((k, p))], [C, np.zeros((p, p))]])
        Phi, Qd = van_loan.discretise(
            joint, np.concatenate([B, np.zeros((p, B.shape[1]))]), np.eye(B.shape[1]), self.dt
        )
        per_step = np.concatenate([np.ones(k), np.full(p, 1.0 / self.dt)])  # an average, not an integral
        return per_step[:, None] * Phi[:, :k], van_loan.root(np.outer(per_step, per_step) * Qd)

    @property
    def needs(self):
        return _AndFilter(self.base.needs, self.own.m, len(self.law[1]))

    def refusal(self, problem):
        if not self.problem.is_copy_of(problem):
            return f"{self.name} was made for another problem; make it for this one with exactly_filtered(...)"
        return self.base.refusal(self.own)

    def step_refusal(self, h):
        if abs(h - self.dt) > 1e-9 * self.dt:
            return f"{self.name} was made for steps of {self.dt:g}, not {h:g}; make it anew with exactly_filtered(...)"
        return self.base.step_refusal(h)

    def prepared(self, problem, h):
        problem.check_response(self, h)
        return self

    def on(self, problem: Driven) -> Method:
        """The same for another problem."""
        return dataclasses.replace(self, problem=problem)

    def start(self, problem, t, x, params):
        n = self.own.n
        return self.base.start(self.own, t, x[:n], self._given(params, jnp.zeros(len(self.problem.noise.C)))), x[n:]

    def step(self, problem, t, state, noise, params):
        before, s = state
        transition, root = self.law
        k = len(s)
        drawn = transition @ s + root @ noise.aux["coloured"]
        after, report = self.base.step(self.own, t, before, without(noise, "coloured"), self._given(params, drawn[k:]))
        # Steps of another length would draw from the wrong law; simulate refuses them by their longest.
        right = jnp.abs(noise.h - self.dt) <= 1e-6 * self.dt
        return (after, drawn[:k]), report._replace(ok=jnp.asarray(report.ok) & right)

    def read(self, state):
        return jnp.concatenate([self.base.read(state[0]), state[1]])

    def _given(self, params, y):
        return {"own": params, "noise": y}
