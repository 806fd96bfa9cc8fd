"""Langevin's equation in exact pieces: kicks (B), drifts (A), and friction with its noise (O), in turn.

    dq = T'(p) dt,   dp = -U'(q) dt - γ p dt + σ dW

    A: q += c h T'(p)       B: p -= c h U'(q)       O: p = e^(-c γ h) p + √((1 - e^(-2 c γ h))/(2 γ)) σ ξ

O has the law of the Ornstein-Uhlenbeck process for any step, so that the momenta of a free particle have the right
temperature however long the steps are.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.methods.contract import EXPLICIT, Claim, Method
from stodyn.noise import wiener
from stodyn.numerics.diagonals import diagonal
from stodyn.numerics.printing.points import at_one
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.structure import is_zero_off_diagonal

CLAIMS = (
    Claim("strong", 1.0, source="the noise of a step is right to h^(3/2)"),
    Claim("weak", 2.0, source="symmetric composition of exact flows"),
    Claim("deterministic", 2.0),
    Claim("symplectic", source="shears and shifts"),
    Claim("temperature of free particles", source="O is exact in law"),
)


def damping_matrix(problem: Hamiltonian, k: int, t: Any, p: Any, params: Any) -> Any:
    """Γ of the force -Γ p of channel k, (N, N)."""
    q = jnp.zeros_like(p)
    return -jax.jacfwd(lambda p: problem.push(k, t, q, p, params))(p)


def has_diagonal_damping(problem: Hamiltonian) -> bool:
    """Whether the traces of the forces -Γ p of all channels prove that every Γ is diagonal."""
    damped = [k for k in range(problem.m + 1) if not problem.facts.depends(k, "push").zero]
    with jax.enable_x64(True):
        _, p = problem.split(problem.example_start())
        arguments = p, problem.example_params()
        return all(is_zero_off_diagonal(functools.partial(damping_matrix, problem, k), *arguments) for k in damped)


def damping(problem: Hamiltonian, t: Any, p: Any, params: Any) -> Any:
    """The diagonal of Γ of the drift, (N,), without the matrix."""
    return diagonal(functools.partial(damping_matrix, problem, 0))(t, p, params)


def _at_start(problem: Hamiltonian, w: np.ndarray) -> tuple[np.ndarray, ...]:
    """The force on momenta 0, the diagonal of Γ, and the kicks of increments of 1 and of w, all at the start."""

    def evaluate(x, params, w):
        q, p = problem.split(x)
        kicks = [problem.kick(0.0, q, p, params, v)[1] for v in (jnp.ones_like(w), w)]
        return problem.push(0, 0.0, q, 0.0 * p, params), damping(problem, 0.0, p, params), *kicks

    return at_one(evaluate, np.asarray(problem.example_start(), float), problem.example_params(), w)


@dataclasses.dataclass(frozen=True)
class Splitting(Method):
    """A symmetric composition of A, B and O for Langevin's equation: separable Hamiltonian, noise on the momenta alone.

    Take it to sample a temperature: its invariant measure is right to order 2. Strong order 1, weak order 2. The
    friction is -γ p with one constant γ per coordinate; where these differ, each coordinate needs its own noise.
    Explicit, with one evaluation of the forces for each B at a new position.

    Parameters
    ----------
    pieces : str
        The pieces in their order, such as "BAOAB"; BAOAB and OBABO set it.
    """

    pieces: str
    accepts = Hamiltonian
    calculus = "stratonovich"
    structures = ("additive",)
    citation = "B. Leimkuhler & C. Matthews, Rational construction of stochastic numerical methods for molecular \
sampling, Appl. Math. Res. eXpress (2013) 34-56"

    @property
    def summary(self):
        return f"Langevin's equation in exact pieces, {' '.join(self.pieces)}"

    @property
    def name(self):
        return self.pieces

    @property
    def claims(self):
        exact = Claim("exact spread of harmonic oscillators", source="Leimkuhler & Matthews (2013)")
        measure = Claim("invariant measure", 2.0, source="Leimkuhler & Matthews (2013)")
        return (*CLAIMS, measure, *((exact,) if self.pieces == "BAOAB" else ()))

    @property
    def needs(self):
        return wiener.W if self.pieces.count("O") == 1 else wiener.WZ

    def refusal(self, problem):
        reason = super().refusal(problem)
        if reason is not None:
            return reason
        if not problem.separable:
            return f"{self.name} takes separable Hamiltonians, T(p) + U(q), but these are not separable"
        if any(not problem.facts.depends(r, "velocity").zero for r in range(1, problem.m + 1)):
            return f"{self.name} takes noise on the momenta alone, h_r = -σ_r · q, but here some h_r depends on p"
        push = problem.facts.depends(0, "push")
        w = np.random.default_rng(0).standard_normal(problem.m)
        at_rest, γ, alike, own = _at_start(problem, w)
        is_diagonal = problem.n == 2 or has_diagonal_damping(problem)
        if push.on_q or not push.affine_p or np.any(at_rest) or not is_diagonal:
            return (
                f"{self.name} takes the friction -γ p, γ a constant for each coordinate, but here it has another form"
            )
        if np.ptp(γ) == 0.0 or problem.m == 0:
            return None
        if problem.m != len(γ) or not np.allclose(own, alike * w, rtol=1e-12, atol=0.0):
            return (
                f"{self.name} takes different frictions where each coordinate has noise of its own (h_i = -σ_i q_i), "
                "but here some of them share their noise"
            )
        return None

    def step(self, problem, t, x, noise, params):
        h, (q, p) = noise.h, problem.split(x)
        γ = damping(problem, t + 0.5 * h, p, params)
        increments, passed = list(self._increments(noise)), 0.0
        for piece in self.pieces:
            c = 1.0 / self.pieces.count(piece)
            if piece == "A":
                q = q + c * h * problem.velocity(0, t + 0.5 * h, q, p, params)
                passed += c
            elif piece == "B":
                p = p + c * h * problem.pull(0, t + passed * h, q, p, params)
            else:
                middle = t + (0.5 if c == 1.0 else 0.25 + 0.5 * (len(increments) == 1)) * h
                _, kick = problem.kick(middle, q, p, params, increments.pop(0))
                p = jnp.exp(-c * h * γ) * p + jnp.sqrt(mean_decay(2.0 * c * h * γ)) * kick
        return problem.wrap(jnp.concatenate([q, p])), EXPLICIT

    def _increments(self, noise):
        """The independent increments of each O: W, or W/2 ± √3 (Z/h - W/2), which have the variance h/2."""
        if self.pieces.count("O") == 1:
            return (noise.W,)
        apart = np.sqrt(3.0) * (noise.Z / noise.h - 0.5 * noise.W)
        return 0.5 * noise.W + apart, 0.5 * noise.W - apart


def mean_decay(z):
    """Return (1 - e^(-z))/z, which is 1 at 0."""
    safe = jnp.where(z == 0.0, 1.0, z)
    return jnp.where(z == 0.0, 1.0, -jnp.expm1(-safe) / safe)


BAOAB = Splitting("BAOAB")
OBABO = Splitting("OBABO")
