"""Platen's explicit step of weak order 2, driven by W itself and therefore of strong order 1 where the noise commutes.

Increments of W add up to the increments of longer steps, so that fine and coarse steps can follow the same Brownian
path; the discrete draws of other weak methods cannot.
"""

import dataclasses

import jax
import jax.numpy as jnp

from stodyn.methods.contract import EXPLICIT, Claim, Method
from stodyn.noise import wiener
from stodyn.noise.increment import Increment, Recipe
from stodyn.problems.sde import SDE


@dataclasses.dataclass(frozen=True)
class WienerPairs(Recipe):
    """W and, independent of it, aux["pairs"]: the antisymmetric V_rj = h U_rj, one standard normal for each r < j.

    V takes the place of the part of the integrals I_(r,j) that is independent of W: for weak order 2 it is enough that
    its mean is 0 and its variance h².
    """

    def normals(self, m):
        return {"W": m, "aux": m * (m - 1) // 2}

    def increment(self, h, normals, m):
        upper = jnp.triu_indices(m, 1)
        V = jnp.zeros((m, m), normals["W"].dtype).at[upper].set(h * normals["aux"])
        return Increment(h, jnp.sqrt(h) * normals["W"], aux={"pairs": V - V.T})

    def join(self, first, second):
        """The longer step has V = √2 (V_1 + V_2), which has the right variance."""
        V = jnp.sqrt(2.0) * (first.aux["pairs"] + second.aux["pairs"])
        return Increment(jnp.asarray(first.h) + second.h, first.W + second.W, aux={"pairs": V})


@dataclasses.dataclass(frozen=True)
class _PlatenWeak2(Method):
    """Platen's step of weak order 2 with Gaussian increments, for Ito problems:

        u = x + f h + Σ g_j W_j,  R±_j = x + f h ± g_j √h,  U±_r = x ± g_r √h,
        x' = x + (f(u) + f) h/2 + Σ_j (g_j(R+_j) + g_j(R-_j) + 2 g_j) W_j/4 + (g_j(R+_j) - g_j(R-_j)) (W_j² - h)/(4√h)
               + Σ_j Σ_(r≠j) (g_j(U+_r) + g_j(U-_r) - 2 g_j) W_j/4 + (g_j(U+_r) - g_j(U-_r)) (W_j W_r + V_rj)/(4√h).

    Weak order 2. PlatenWeak2 takes commuting channels, needs no V and has strong order 1; PlatenWeak2Pairs takes any.
    Two evaluations of f per step and, unless the noise is additive, 4m - 1 of g (3 for diagonal noise).
    """

    pairs: bool = dataclasses.field(default=False, repr=False)

    accepts = SDE
    calculus = "ito"
    citation = "P. E. Kloeden & E. Platen, Numerical Solution of Stochastic Differential Equations (1992), section 15.1"

    @property
    def summary(self):
        return f"Platen's weak step of order 2{', with draws for pairs of channels' if self.pairs else ''}"

    @property
    def name(self):
        return "PlatenWeak2Pairs" if self.pairs else "PlatenWeak2"

    @property
    def needs(self):
        return WienerPairs() if self.pairs else wiener.W

    @property
    def structures(self):
        return () if self.pairs else ("commutative",)

    @property
    def claims(self):
        source = "Kloeden & Platen (1992), section 15.1"
        strong = () if self.pairs else (Claim("strong", 1.0, source="its terms up to h are Milstein's"),)
        return (*strong, Claim("weak", 2.0, source=source), Claim("deterministic", 2.0))

    def step(self, problem, t, x, noise, params):
        h, W = noise.h, noise.W
        f, root = problem.f(t, x, params), jnp.sqrt(noise.h)
        pushed = problem.push(t, x, params, W)
        drift = 0.5 * h * (f + problem.f(t + h, x + (h * f + pushed), params))
        if problem.noise_structure.implies("additive"):
            return x + (drift + 0.5 * (pushed + problem.push(t + h, x, params, W))), EXPLICIT
        if problem.noise_structure.implies("diagonal"):
            return x + (drift + self._diagonal(problem, t, x, h, f, W, params)), EXPLICIT
        G = problem.g(t, x, params)

        def column(j, t, x):
            return problem.g(t, x, params)[:, j]

        change = drift
        for j in range(problem.m):
            up, down = (column(j, t + h, x + h * f + sign * root * G[:, j]) for sign in (1.0, -1.0))
            along, across = up + down + 2.0 * G[:, j], (up - down) * (W[j] ** 2 - h)
            for r in range(problem.m):
                if r != j:
                    up, down = (column(j, t, x + sign * root * G[:, r]) for sign in (1.0, -1.0))
                    along = along + (up + down - 2.0 * G[:, j])
                    area = W[j] * W[r] + (noise.aux["pairs"][r, j] if self.pairs else 0.0)
                    across = across + (up - down) * area
            change = change + 0.25 * (along * W[j] + across / root)
        return x + change, EXPLICIT

    def _diagonal(self, problem, t, x, h, f, W, params) -> jax.Array:
        """The noise terms of diagonal problems, in which no channel depends on the others."""
        G, root = problem.diagonal(t, x, params), jnp.sqrt(h)
        up, down = (problem.diagonal(t + h, x + h * f + sign * root * G, params) for sign in (1.0, -1.0))
        return 0.25 * ((up + down + 2.0 * G) * W + (up - down) * (W * W - h) / root)


PlatenWeak2 = _PlatenWeak2()
PlatenWeak2Pairs = _PlatenWeak2(pairs=True)
