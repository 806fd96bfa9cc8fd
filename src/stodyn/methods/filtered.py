"""A method for a problem with coloured noise that steps the noise itself exactly: its law is right for any step."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.methods.catalogue import stepping
from stodyn.methods.contract import Claim, Method, WithBase
from stodyn.methods.wrapping import AndNormals, Wrapping, without
from stodyn.numerics import van_loan
from stodyn.problems import lowering
from stodyn.problems.driven import Driven

SAME = 1e-6  # of the length of a step, by which others may differ and count as the same


@checks_arguments
@dataclasses.dataclass(frozen=True)
class ExactNoise(WithBase):
    """A method combined with coloured noise that is exact at any step.

    In each step the filter's state and the average of the noise over the step are drawn from their joint law (Van
    Loan), and the base method steps the problem's own equations with this average as a constant noise. The noise
    therefore has its exact covariance and autocovariance for any dt. The response receives the exact impulse of every
    step, and its error is of order dt² for smooth systems. Costs k + p normals per step for k states of the filter and
    p outputs.

    Parameters
    ----------
    base : Method or str
        A one-step method for SDEs, or its name; RK4 by default. The problem, made by `with_noise`, and dt come from
        the run.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.ExactNoise("RK4").name
    'ExactNoise(RK4)'
    """

    base: Any = "RK4"

    accepts = Driven
    calculus = None
    claims: tuple[Claim, ...] = dataclasses.field(default=(), init=False, repr=False)

    def __post_init__(self):
        if stepping(self.base, "base").starting_steps:
            raise TypeError(f"base: expected a one-step method such as RK4, got {self.base!r}, which has a history")

    @property
    def name(self):
        return f"ExactNoise({stepping(self.base).name})"

    @property
    def spelling(self):
        return f"ExactNoise({stepping(self.base).spelling})"

    @property
    def citation(self):
        return f"{stepping(self.base).citation}; the noise: C. Van Loan, IEEE Trans. Automat. Control 23 (1978)"

    def refusal(self, problem):
        base = stepping(self.base)
        if not isinstance(problem.own, base.accepts):
            return (
                f"{base.name} steps {base.accepts.__name__} problems, but with exact noise the equations are written "
                "as an SDE. Take a method for SDEs such as RK4 or Heun as base; methods of the α family keep the noise "
                "of a mechanical system exact by themselves"
            )
        return base.refusal(problem.own)

    def step_refusal(self, h):
        return stepping(self.base).step_refusal(h)

    def prepared(self, problem, h):
        ready = self.for_steps(problem, h)
        problem.check_response(ready, h)
        return ready

    def for_steps(self, problem: Driven, dt: float) -> Method:
        """Return the method with the law of the noise of a problem over equal steps.

        Parameters
        ----------
        problem : Driven
            The problem.
        dt : float
            The length of the steps.

        Returns
        -------
        Method
        """
        return _OverEqualSteps(self, stepping(self.base), problem, float(dt))

    @property
    def needs(self):
        raise TypeError(f"method: {self._unprepared}")

    def step(self, problem, t, state, noise, params):
        raise TypeError(f"method: {self._unprepared}")

    @property
    def _unprepared(self) -> str:
        return (
            f"{self.name} draws from a law that depends on the problem and on dt. A run hands them over; for a single "
            "step take method.for_steps(problem, dt)"
        )


@dataclasses.dataclass(frozen=True)
class _OverEqualSteps(Wrapping, Method):
    """ExactNoise for one problem and steps of length dt: the base on the problem's own equations, then the filter.

    The state is that of the base and s.
    """

    base: Any
    problem: Any = dataclasses.field(repr=False)
    dt: float
    takes_any: bool = False  # whether steps of another length than dt are sound

    accepts = Driven

    @property
    def takes_equal_steps(self) -> str:
        return "draws coloured noise from its law over one length of step"

    @functools.cached_property
    def own(self) -> Any:
        """The problem's own equations in the calculus of the base, with the noise as a parameter."""
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
        return AndNormals(self.base.needs, "coloured", len(self.law[1]), self.own.m)

    def refusal(self, problem):
        return self.method.refusal(problem)

    def on(self, problem: Driven) -> Method:
        """Return the same method for another problem."""
        return dataclasses.replace(self, problem=problem)

    def at_any_length(self) -> Method:
        return dataclasses.replace(self, takes_any=True)

    def with_steps(self, dt: float) -> Method:
        """Return the same method for steps of another length."""
        return self if abs(dt - self.dt) <= SAME * self.dt else dataclasses.replace(self, dt=dt)

    def after_jump(self, problem, t, state, params):
        return self.start(problem, t, self.read(state), params)

    def start(self, problem, t, x, params):
        n = self.own.n
        return self.base.start(self.own, t, x[:n], self._inner_params(params, jnp.zeros(len(self.problem.noise.C)))), x[
            n:
        ]

    def step(self, problem, t, state, noise, params):
        before, s = state
        transition, root = self.law
        k = len(s)
        joint = transition @ s + root @ noise.aux["coloured"]
        after, report = self.base.step(
            self.own, t, before, without(noise, "coloured"), self._inner_params(params, joint[k:])
        )
        if not self.takes_any:  # steps of another length have another law
            right = jnp.abs(noise.h - self.dt) <= SAME * self.dt
            report = report._replace(ok=jnp.asarray(report.ok) & right)
        return (after, joint[:k]), report

    def read(self, state):
        return jnp.concatenate([self.base.read(state[0]), state[1]])

    def _inner_params(self, params, y):
        return {"own": params, "noise": y}
