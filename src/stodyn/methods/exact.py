"""The exact discretisation of linear systems with additive noise, without error for any step.

Where inputs are held, VanLoan makes steps, in runs, in loops, in kernels and in exported models alike:

    x(t + h) = Φ x(t) + Γ a + w,   Φ = exp(Ah),   Γ = ∫ exp(As) ds,   w = ∫ exp(As) B dW = share W + rest ξ,

with the input a held over the step, the increment W that the seed gives to every method, and further normals ξ. Where
the input changes with time or the steps differ in length, it makes whole paths at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.methods.contract import EXPLICIT, Claim, Method, Solver
from stodyn.methods.wrapping import Wrapping
from stodyn.noise.increment import Increment, Recipe
from stodyn.numerics import gauss, van_loan
from stodyn.numerics.printing.points import at_one, at_points
from stodyn.problems.sde import SDE
from stodyn.problems.structure import depends_on_time, has_fixed_slopes

INPUT_NODES = 12  # nodes of the Gauss rule over a step, for inputs that change with time
LINEAR = 1e-9  # of the largest value: the deviation that cancelling terms may leave in a drift that is proved affine


@dataclasses.dataclass(frozen=True)
class _VanLoan(Solver):
    """The exact solution of linear equations: dx = (A x + a(t)) dt + B dW with constant A and B, between grid points:

    x(t + h) = exp(Ah) x(t) + ∫ exp(A(h-s)) a(t+s) ds + w,   w ~ N(0, ∫ exp(As) BB' exp(A's) ds).

    Mean, covariance and all joint distributions of the states on the grid are exact for any step (up to 12-point Gauss
    quadrature over a step if the input a(t) changes). Two matrix exponentials per step length and n² operations per
    path and step. With equal steps and a constant input its paths follow the increments that the seed gives to every
    method; otherwise it is host code that draws its own normals.
    """

    accepts = SDE
    calculus = None
    name = "VanLoan"
    citation = (
        "C. Van Loan, Computing integrals involving the matrix exponential, IEEE Trans. Automat. Control 23 (1978)"
    )
    claims = (Claim("exact in law", when=("additive",), source="Van Loan (1978)"),)
    structures = ("additive",)

    def refusal(self, problem) -> str | None:
        reason = super().refusal(problem)
        if reason is not None:
            return reason
        if problem.has_random_params:
            return f"{self.name} takes one linear system for all paths, but this problem's params differ between paths"
        return linear_coefficients(problem).reason

    def as_steps(self, problem, h, inputs):
        coefficients = linear_coefficients(problem)
        if coefficients.a is None and not inputs:
            return None
        if coefficients.a is None:
            raise ValueError(
                f"method: {self.name} holds inputs over a step, but the drift changes with time by itself; take RK4"
            )
        if inputs and multiplies(problem, inputs):
            raise ValueError(
                f"method: {self.name} makes its steps with matrices that no input changes, but here "
                f"{', '.join(inputs)} multiplies the state or the noise; take RK4"
            )
        return _ExactSteps(self, step_law(coefficients.A, coefficients.B, h), _in_matrices(problem))

    def solve(self, problem, grid, start, params, streams):
        A, B, constant, _ = linear_coefficients(problem)
        n, rng = problem.n, streams["W"]
        states = np.empty((len(grid), len(start), n))
        states[0] = start
        lengths = np.diff(grid)
        discretised: dict[float, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        rule = gauss.legendre(INPUT_NODES)
        places = 0.5 * (1.0 + rule.nodes)
        for k, h in enumerate(lengths):
            near = next((known for known in discretised if abs(known - h) <= 1e-12 * h), float(h))
            if near not in discretised:
                Phi, Qd = van_loan.discretise(A, B, np.eye(B.shape[1]), near)
                pairs = zip(places, rule.weights, strict=True)
                spread = [w * near * scipy.linalg.expm(A * near * (1.0 - c)) for c, w in pairs]
                discretised[near] = Phi, van_loan.root(Qd), np.stack(spread)
            Phi, root, weights = discretised[near]
            if constant is not None:
                inputs = np.tile(constant, (len(places), 1))
            else:
                inputs = _inputs(problem, grid[k] + h * places)
            force = np.einsum("kij,kj->i", weights, inputs)
            states[k + 1] = states[k] @ Phi.T + force + rng.standard_normal((len(start), root.shape[1])) @ root.T
        return states


class StepLaw(NamedTuple):
    """Φ, Γ and the law w = share W + rest ξ over a step, ξ standard normal."""

    Phi: np.ndarray
    Gamma: np.ndarray
    share: np.ndarray
    rest: np.ndarray


def step_law(A: np.ndarray, B: np.ndarray, h: float) -> StepLaw:
    """The exact step of dx = (A x + a) dt + B dW."""
    n, m = B.shape
    both = np.block([[A, np.zeros((n, m))], [np.zeros((m, n + m))]])
    Phi, Q = van_loan.discretise(both, np.concatenate([B, np.eye(m)]), np.eye(m), h)
    Gamma = scipy.linalg.expm(h * np.block([[A, np.eye(n)], [np.zeros((n, 2 * n))]]))[:n, n:]
    share = Q[:n, n:] / h
    rest = van_loan.root(Q[:n, :n] - share @ Q[n:, :n])
    return StepLaw(Phi[:n, :n], Gamma, share, rest[:, np.any(rest != 0, axis=0)])


@dataclasses.dataclass(frozen=True)
class _WithRest(Recipe):
    """W, and beside it the normals ξ of what w has besides W."""

    rest: int

    def normals(self, m):
        return {"W": m} | ({"aux": self.rest} if self.rest else {})

    def increment(self, h, normals, m):
        return Increment(h, jnp.sqrt(h) * normals["W"], aux={"rest": normals.get("aux", jnp.zeros(0))})


@dataclasses.dataclass(frozen=True, eq=False)
class _ExactSteps(Wrapping, Method):
    """VanLoan step by step, for one problem and one length of step."""

    law: StepLaw
    fixed: Mapping[str, Any]

    @property
    def fixed_params(self):
        return tuple(self.fixed)

    @property
    def needs(self):
        return _WithRest(self.law.rest.shape[1])

    @property
    def takes_equal_steps(self):
        return "has the matrices of one length of step"

    def step(self, problem, t, state, noise, params):
        Phi, Gamma, share, rest = (jnp.asarray(matrix, state.dtype) for matrix in self.law)
        own = {**params, **self.fixed} if isinstance(params, Mapping) else params
        a = problem.f(t, jnp.zeros_like(state), own).astype(state.dtype)
        return Phi @ state + Gamma @ a + (share @ noise.W + rest @ noise.aux["rest"]), EXPLICIT


def _in_matrices(problem: Any) -> dict[str, Any]:
    """The params by name that the matrices of a step are made of; all, as "params", where they have no names."""
    params = problem.params
    if not isinstance(params, Mapping):
        return {} if params is None else {"params": params}
    return {name: params[name] for name in params if multiplies(problem, (name,))}


def multiplies(problem: Any, inputs: Sequence[str]) -> bool:
    """Whether the linear part of the drift, or the noise, depends on inputs among the params."""

    def moved(function: Callable) -> Callable:
        return lambda s, x, p: function(0.0, x, {**p, **{name: _plus(p[name], s) for name in inputs}})

    def slope(t: Any, x: Any, p: Any) -> Any:
        return jax.jacfwd(lambda x: problem.f(t, x, p))(x)

    zero, params = np.zeros(problem.n), problem.example_params()
    return any(depends_on_time(moved(function), zero, params) for function in (slope, problem.g))


def _plus(leaves: Any, s: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf + s, leaves)


class Coefficients(NamedTuple):
    """dx = (A x + a) dt + B dW; a is None if it changes with time, and `reason` says why a problem has another form."""

    A: np.ndarray
    B: np.ndarray
    a: np.ndarray | None
    reason: str | None


def linear_coefficients(problem: Any) -> Coefficients:
    """A, B and a of a problem that is linear with constant A and B, or the reason why it is not."""
    n = problem.n
    random = np.random.default_rng(3).standard_normal((2, n))
    points = np.concatenate([np.zeros((1, n)), np.eye(n), random])
    params = problem.params
    with jax.enable_x64(True):
        values = at_points(lambda x: problem.f(0.0, x, params), points)
        B = at_one(lambda x: problem.g(0.0, x, params), np.zeros(n))
        fixed = not depends_on_time(problem.f, points[0], params)
        steady_noise = not depends_on_time(problem.g, points[0], params)
    a, A = values[0], (values[1 : n + 1] - values[0]).T
    reason = None
    off = np.abs(values[n + 1 :] - (random @ A.T + a)).max()  # NaN where the drift is
    if not (has_fixed_slopes(problem.f, points[0], params) and off <= LINEAR * max(np.abs(values).max(), 1e-300)):
        reason = "VanLoan is made for linear systems with constant coefficients, but this drift is not of that kind"
    elif not steady_noise:
        reason = "VanLoan is made for constant noise, but this problem's noise depends on time"
    return Coefficients(A, B, a if fixed else None, reason)


def _inputs(problem: Any, times: np.ndarray) -> np.ndarray:
    """Return the inputs a(t) of dx = (A x + a(t)) dt + B dW at these times."""
    zero = np.zeros(problem.n)
    return at_points(lambda t, x: problem.f(t, x, problem.params), np.asarray(times, float), zero, in_axes=(0, None))


VanLoan = _VanLoan()
