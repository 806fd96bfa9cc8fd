"""Steps for Hamiltonian systems with additive noise or linear friction, more accurate there than the general steps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from fractions import Fraction as Q
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.methods.contract import EXPLICIT, Claim, Method
from stodyn.methods.langevin_splitting import has_diagonal_damping
from stodyn.methods.partitioned import Solution, Stages, Sums
from stodyn.methods.signature import integral
from stodyn.methods.tableau import Matrix, Row, Table
from stodyn.methods.trees import Scheme
from stodyn.methods.variational import DIRK, PAPER, Midpoint, StoermerVerlet
from stodyn.noise import wiener
from stodyn.numerics.diagonals import diagonal
from stodyn.numerics.printing.points import at_one
from stodyn.numerics.surd import sqrt
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.hamiltonian_facts import PARTS
from stodyn.problems.operators import Diagonal
from stodyn.problems.structure import depends_on_time

SQUARINGS = 9  # of the exponential of a friction matrix


@dataclasses.dataclass(frozen=True)
class Shifted(Method):
    """A step of this library between two shifts of the momenta: p + Σ σ_r H_r, the step with W, p - Σ σ_r H_r.

    H_r = Z_r/h - W_r/2, σ_r the noise vector of channel r; if σ_r depends on time, the shifts are the differences of
    the exact ∫ σ dW and ∫∫ σ dW (see `integrals`) to those of the step. Mean-square order 2 for Langevin-type systems
    (additive noise on the momenta, drift affine in p), where the step alone has order 1. The shifts are translations,
    so symplecticity and the conformal factor are those of the step. They cost one normal and two additions per channel.
    """

    base: Any = dataclasses.field(repr=False)
    label: str = dataclasses.field(repr=False)

    accepts = Hamiltonian
    calculus = "stratonovich"
    needs = wiener.WZ
    structures = ("additive",)
    citation = f"J. Foster, T. Lyons & H. Oberhauser, The shifted ODE method for underdamped Langevin MCMC, \
arXiv 2101.03446 (2021); the step: {PAPER}"
    claims = (
        Claim("strong", 2.0, when=("additive",), source="Foster, Lyons & Oberhauser (2021)"),
        Claim("weak", 2.0, when=("additive",), source="Foster, Lyons & Oberhauser (2021)"),
        Claim("deterministic", 2.0),
        Claim("symplectic", source="the shifts are translations"),
    )

    @property
    def summary(self):
        return f"{self.base.name} between two shifts of the momenta"

    @property
    def name(self):
        return self.label

    def refusal(self, problem):
        reason = super().refusal(problem) or self.base.refusal(problem)
        if reason:
            return reason
        if any(not problem.facts.depends(r, "velocity").zero for r in range(1, problem.m + 1)):
            return f"{self.name} takes noise on the momenta alone, h_r = -σ_r · q, but here some h_r depends on p"
        if not all(problem.facts.depends(0, part).affine_p for part in PARTS):
            return (
                f"{self.name} has its order where the drift is affine in p, but here it is not; AdditiveDIRK has mean-"
                "square order 1.5 for any drift with additive noise"
            )
        return None

    def step(self, problem, t, x, noise, params):
        once, twice = integrals(problem, t, x, noise, params)
        approximate = once  # the step's own approximation of ∫ σ dW
        if noise_depends_on_time(problem):
            approximate = (
                sum(w * problem.g(t + c * noise.h, x, params) for c, w in kick_weights(self.base).items()) @ noise.W
            )
        before, after = twice / noise.h - 0.5 * approximate, once - 0.5 * approximate - twice / noise.h
        on_momenta = np.arange(problem.n) >= problem.n // 2
        stepped, report = self.base.step(problem, t, x + jnp.where(on_momenta, before, 0.0), noise, params)
        return stepped + jnp.where(on_momenta, after, 0.0), report


def noise_depends_on_time(problem: Hamiltonian) -> bool:
    """Whether the noise vectors depend on time."""
    return depends_on_time(problem.g, problem.example_start(), problem.example_params())


def integrals(problem: Hamiltonian, t: Any, x: Array, noise: Any, params: Any) -> tuple[Array, Array]:
    """∫ σ dW and ∫∫ σ dW ds over a step for additive noise σ(t), (2N,) each.

    Exact where σ is constant, else σ(t + h/2) W - (σ(t + h) - σ(t)) H and σ(t + h/2) Z. The errors of both are
    martingale increments of size h^(5/2), which mean-square order 2 allows.
    """
    h = noise.h
    if not noise_depends_on_time(problem):
        g = problem.g(t, x, params)
        return g @ noise.W, g @ noise.Z
    begin, middle, end = (problem.g(t + c * h, x, params) for c in (0.0, 0.5, 1.0))
    return middle @ noise.W - (end - begin) @ (noise.Z / h - 0.5 * noise.W), middle @ noise.Z


def kick_weights(base: Any) -> dict[float, float]:
    """The weights of the noise on the momenta in a step by the times t + c h at which it is evaluated: c -> weight."""
    if isinstance(base, _ConformalVerlet):
        return {0.0: 0.5, 1.0: 0.5}
    stages, weights = base.table.stages(1), dict[float, float]()
    for (k, stage), weight in stages.last.pull.items():
        if k == 1:
            weights[float(stages.clock[stage])] = weights.get(float(stages.clock[stage]), 0.0) + float(weight)
    return weights


ShiftedVerlet = Shifted(StoermerVerlet, "ShiftedVerlet")
ShiftedMidpoint = Shifted(Midpoint, "ShiftedMidpoint")
ShiftedDIRK = Shifted(DIRK, "ShiftedDIRK")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdditiveTable(Table):
    """The class for additive noise; where σ_r depends on time, `integrals` replaces W_r σ_r and Z_r σ_r:

    X_i = x + h Σ A_ij f(X_j) + Σ_r (c1_i W_r + c2_i Z_r/h) σ_r,    x' = x + h Σ α_i f(X_i) + Σ_r W_r σ_r
    """

    A: Matrix
    α: Row
    c1: Row
    c2: Row
    calculus = "stratonovich"

    def scheme(self, m: int) -> Scheme:
        channels, stages = range(1, m + 1), range(len(self.α))
        rows: dict[Any, Mapping] = {"x": {}}
        for i in stages:
            drift = {(0, j): w for j, w in enumerate(self.A[i]) if w}
            rows[i] = drift | {(r, "x"): self.c1[i] * integral(r) + self.c2[i] * integral(r, 0) for r in channels}
        last: dict[Any, Any] = {(0, i): self.α[i] for i in stages} | {(r, "x"): integral(r) for r in channels}
        return Scheme(self.calculus, tuple(range(m + 1)), rows, last)


@dataclasses.dataclass(frozen=True)
class _AdditiveDIRK(Method):
    """Two midpoint half-steps with the noise loads ±W/√6 + Z/h: mean-square order 1.5 for any drift, additive noise.

    Symplectic where there are no forces, since constants in the stages do not change the variational equation. Two
    solves per step for 2N unknowns (N for separable Hamiltonians).

    Parameters
    ----------
    tol, limit
        Newton's tolerance and its most rounds per solve.
    """

    tol: float = 1e-10
    limit: int = 30

    accepts = Hamiltonian
    calculus = "stratonovich"
    name = "AdditiveDIRK"
    needs = wiener.WZ
    structures = ("additive",)
    citation = f"stodyn, from the order conditions; the drift: {PAPER}, (3.40)"
    claims = (
        Claim("strong", 1.5, when=("additive",), source="order conditions"),
        Claim("weak", 2.0, when=("additive",), source="order conditions"),
        Claim("deterministic", 2.0),
        Claim("symplectic", source="constants in the stages do not change the variational equation"),
    )

    @property
    def table(self) -> AdditiveTable:
        """The coefficients; making the table checks the claimed orders in exact arithmetic."""
        load = sqrt(6) / 6
        return AdditiveTable(
            name=self.name, claims=self.claims, source=self.citation,
            A=((Q(1, 4), 0), (Q(1, 2), Q(1, 4))), α=(Q(1, 2), Q(1, 2)), c1=(load, -load), c2=(Q(1), Q(1)),
        )  # fmt: skip

    def step(self, problem, t, x, noise, params):
        W, Z = integrals(problem, t, x, noise, params)
        Z = Z / noise.h
        spread = W / np.sqrt(6.0)
        quarter, report = Sums(*({(0, "X"): Q(1, 4)} for _ in PARTS)), EXPLICIT

        def half_step(start, clock):
            stages = Stages({"X": quarter}, quarter, {"X": clock})
            newton_options = {"tol": self.tol, "limit": self.limit}
            solved = Solution(stages, problem, t, start, noise, params, newton_options, unread=True)
            return 2.0 * (jnp.concatenate(solved.stage("X")) - start), solved.report  # h/2 times the drift

        first, one = half_step(x + Z + spread, Q(1, 4))
        second, two = half_step(x + first + Z - spread, Q(3, 4))
        report = one.joined(two)
        return problem.wrap(x + first + second + W), report


@dataclasses.dataclass(frozen=True)
class _ConformalVerlet(Method):
    """Störmer-Verlet with the friction solved exactly: P = e^(-γ/2) (p + ½ kick(q)), p' = e^(-γ/2) P + ½ kick(q').

    For separable Hamiltonians and the forces F = -Γ_0 p, f_r = -Γ_r p with constant matrices; γ = h Γ_0 + Σ W_r Γ_r.
    Phase-space volume shrinks by exactly exp(-tr γ), as in the system; if every Γ is a multiple of the identity, the
    step is conformally symplectic with the exact factor. Explicit, and no draw is singular. The orders are those of
    StoermerVerlet.
    """

    accepts = Hamiltonian
    calculus = "stratonovich"
    name = "ConformalVerlet"
    needs = wiener.W
    citation = f"stodyn; the step without friction: {PAPER}, (3.38)"
    claims = (
        Claim("strong", 0.5, source="as (3.38)"),
        Claim("strong", 1.0, when=("commutative",), source="as (3.38)"),
        Claim("weak", 1.0, source="as (3.38)"),
        Claim("deterministic", 2.0),
        Claim("symplectic", source="shears and scalings"),
    )

    def refusal(self, problem):
        if not problem.separable:
            return f"{self.name} takes separable Hamiltonians, T(p) + U(q), but these are not separable"
        for k in range(problem.m + 1):
            push = problem.facts.depends(k, "push")
            q, p = problem.split(np.asarray(problem.example_start(), float))
            at_rest = at_one(functools.partial(problem.push, k, 0.0), q, 0.0 * p, problem.example_params())
            if push.on_q or not push.affine_p or np.any(at_rest):
                return f"{self.name} takes forces -Γ p with constant matrices Γ, but that of channel {k} is not one"
        return None

    def step(self, problem, t, x, noise, params):
        h, drivers = noise.h, [noise.h, *(noise.W[r] for r in range(problem.m))]
        q, p = problem.split(x)

        def total(part, time, q, p):
            live = [k for k in range(problem.m + 1) if not problem.facts.depends(k, part).zero]
            return sum((drivers[k] * getattr(problem, part)(k, time, q, p, params) for k in live), jnp.zeros_like(q))

        def γ(p):
            return -jax.jacfwd(lambda p: total("push", t, q, p))(p)

        if problem.n > 2 and has_diagonal_damping(problem):
            decay = Diagonal(jnp.exp(-0.5 * diagonal(γ)(p)))
        else:
            decay = _exponential(-0.5 * γ(p))
        P = decay @ (p + 0.5 * total("pull", t, q, p))
        q_next = q + total("velocity", t + 0.5 * h, q, P)
        p_next = decay @ P + 0.5 * total("pull", t + h, q_next, P)
        return problem.wrap(jnp.concatenate([q_next, p_next])), EXPLICIT


def _exponential(A):
    """exp(A) of a small matrix by 12 terms of the series for A/2^9 and nine squarings; NaN where |A| is above 2^8.

    Squaring acts on exp - 1, which keeps the digits that 1 would cost.
    """
    if A.shape == (1, 1):
        return jnp.exp(A)
    scaled = A / 2.0**SQUARINGS
    term = beyond = scaled
    for n in range(2, 13):
        term = term @ scaled / n
        beyond = beyond + term
    for _ in range(SQUARINGS):
        beyond = 2.0 * beyond + beyond @ beyond
    is_sound = jnp.max(jnp.sum(jnp.abs(scaled), axis=1)) <= 0.5
    return jnp.where(is_sound, jnp.eye(len(A), dtype=A.dtype) + beyond, jnp.nan)


AdditiveDIRK = _AdditiveDIRK()
ConformalVerlet = _ConformalVerlet()
ShiftedConformalVerlet = Shifted(ConformalVerlet, "ShiftedConformalVerlet")
