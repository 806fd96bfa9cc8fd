"""Exact steps of linear equations with constant coefficients, on levels that share their noise:

    dx = (A x + a) dt + B dW,   x(t + h) = Φ x(t) + c + w,   Φ = exp(Ah),   c = ∫ exp(As) a ds,   w = ∫ exp(As) B dW,

with W and w drawn from their joint law. The noise of two adjacent steps joins to W₁ + W₂ and Φ w₁ + w₂, so that a
coarse path goes through every second state of the fine one: differences of levels hold only what f misses between the
steps. In a loop a is that of the inputs as they are held, c = Γ a.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.methods.contract import EXPLICIT, Claim, Method
from stodyn.methods.exact import linear_coefficients, multiplies, step_law
from stodyn.noise.increment import Recipe
from stodyn.problems.sde import SDE

MOST = 32  # components: a step costs about 2 n² multiplications


def are_exact(problem: SDE, inputs: Sequence[str] = ()) -> bool:
    """Whether the steps of a problem can be taken without any error, because it is linear with additive noise, and no
    input multiplies the state or the noise."""
    if problem.n > MOST or problem.has_random_params or not problem.noise_structure.implies("additive"):
        return False
    coefficients = linear_coefficients(problem)
    is_linear = coefficients.reason is None and coefficients.a is not None and np.isfinite(coefficients.A).all()
    return bool(is_linear) and not (inputs and multiplies(problem, inputs))


class _Law(NamedTuple):
    """Φ, Γ, c and the law w = share W + rest ξ over a step, ξ standard normal."""

    Phi: np.ndarray
    Gamma: np.ndarray
    c: np.ndarray
    share: np.ndarray
    rest: np.ndarray


@functools.partial(jax.tree_util.register_dataclass, data_fields=("h", "W", "w"), meta_fields=("is_joined",))
@dataclasses.dataclass(frozen=True)
class _Noise:
    """W and w of one step, or of two that were joined."""

    h: Any
    W: Any
    w: Any
    is_joined: bool = False


@dataclasses.dataclass(frozen=True)
class _ExactIncrements(Recipe):
    """W and w of steps of one length, by m normals and as many more as w has directions beside W."""

    steps: ExactSteps

    def normals(self, m):
        return {"W": m + self.steps.law.rest.shape[1]}

    def increment(self, h, normals, m):
        law, z = self.steps.law, normals["W"]
        W = jnp.sqrt(h) * z[:m]
        return _Noise(h, W, jnp.asarray(law.share, z.dtype) @ W + jnp.asarray(law.rest, z.dtype) @ z[m:])

    def join(self, first, second):
        Phi = jnp.asarray(self.steps.law.Phi, first.w.dtype)
        return _Noise(first.h + second.h, first.W + second.W, Phi @ first.w + second.w, True)


@dataclasses.dataclass(frozen=True)
class ExactSteps(Method):
    """The exact steps as a method; once prepared, it serves one problem and the step `h` of its finer level.

    is_held  whether inputs among the params are held over each step
    """

    is_held: bool = dataclasses.field(default=False, repr=False)
    problem: Any = dataclasses.field(default=None, repr=False)
    h: float = dataclasses.field(default=0.0, repr=False)

    accepts = SDE
    calculus = None
    name = "ExactSteps"
    citation = (
        "C. Van Loan, Computing integrals involving the matrix exponential, IEEE Trans. Automat. Control 23 (1978)"
    )
    claims = (Claim("weak", 2.0, when=("additive",)), Claim("strong", 2.0, when=("additive",)))
    structures = ("additive",)

    def prepared(self, problem, h):
        return dataclasses.replace(self, problem=problem, h=float(h))

    @property
    def needs(self):
        return _ExactIncrements(self)

    @functools.cached_property
    def law(self) -> _Law:
        A, B, a, _ = linear_coefficients(self.problem)
        assert a is not None  # are_exact
        Phi, Gamma, share, rest = step_law(A, B, self.h)
        c = scipy.linalg.expm(self.h * np.block([[A, a[:, None]], [np.zeros((1, len(A) + 1))]]))[: len(A), len(A)]
        return _Law(Phi, Gamma, c, share, rest)

    def step(self, problem, t, state, noise, params):
        Phi, Gamma, c, *_ = self.law
        if noise.is_joined:
            Phi, Gamma, c = Phi @ Phi, Phi @ Gamma + Gamma, Phi @ c + c
        if self.is_held:
            a = problem.f(t, jnp.zeros_like(state), params).astype(state.dtype)
            c = jnp.asarray(Gamma, state.dtype) @ a
        return jnp.asarray(Phi, state.dtype) @ state + jnp.asarray(c, state.dtype) + noise.w, EXPLICIT
