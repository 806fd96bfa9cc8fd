"""The explicit Runge-Kutta methods R2 and E1 of K. and P. M. Burrage for Stratonovich problems."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections import defaultdict
from fractions import Fraction as Q
from typing import Any

from stodyn.methods.contract import EXPLICIT, Claim
from stodyn.methods.signature import integral
from stodyn.methods.tableau import Matrix, Row, Table, Tabulated
from stodyn.methods.trees import Scheme
from stodyn.noise import wiener
from stodyn.numerics.surd import Number
from stodyn.problems.sde import SDE


@dataclasses.dataclass(frozen=True, kw_only=True)
class BurrageTable(Table):
    """The class of K. and P. M. Burrage, with W_r and Z_r = ∫ W_r ds for each channel:

    X_i = x + h Σ A_ij f(X_j) + Σ_r Σ (B1_ij W_r + B2_ij Z_r/h) g_r(X_j)
    x'  = x + h Σ α_i f(X_i) + Σ_r Σ (γ1_i W_r + γ2_i Z_r/h) g_r(X_i)
    """

    A: Matrix
    B1: Matrix
    B2: Matrix
    α: Row
    γ1: Row
    γ2: Row
    calculus = "stratonovich"

    def scheme(self, m: int) -> Scheme:
        def row(drift: Row, W: Row, Z: Row) -> dict:
            total: dict = defaultdict(int)
            for j, weights in enumerate(zip(drift, W, Z, strict=True)):
                total[0, j] += weights[0]
                for r in range(1, m + 1):
                    total[r, j] += weights[1] * integral(r) + weights[2] * integral(r, 0)
            return {key: weight for key, weight in total.items() if weight}

        rows: dict[Any, dict] = {i: row(*parts) for i, parts in enumerate(zip(self.A, self.B1, self.B2, strict=True))}
        clock: dict[Any, Number] = {i: sum(self.A[i], Q(0)) for i in rows}
        return Scheme(self.calculus, tuple(range(m + 1)), rows, row(self.α, self.γ1, self.γ2), clock)


@dataclasses.dataclass(frozen=True)
class Burrage(Tabulated):
    """An explicit step with a BurrageTable; one evaluation of f and g per stage, and Z only where the table uses it."""

    table: BurrageTable = dataclasses.field(repr=False)
    accepts = SDE
    calculus = "stratonovich"

    @property
    def structures(self):
        return ("scalar",) if any(self.table.γ2) else ()

    @property
    def needs(self):
        return wiener.WZ if any(self.table.γ2) else wiener.W

    def step(self, problem, t, x, noise, params):
        T, h = self.table, noise.h
        drift: list = []
        by_W: list = []
        by_Z: list = []

        def combined(*rows):
            terms = [
                float(w) * vectors[j]
                for row, vectors in zip(rows, (drift, by_W, by_Z), strict=True)
                for j, w in enumerate(row)
                if w
            ]
            return functools.reduce(operator.add, terms, x)

        for i in range(len(T.α)):
            X, c = combined(T.A[i], T.B1[i], T.B2[i]), sum(T.A[i], Q(0))
            time = t + float(c) * h if c else t
            drift.append(h * problem.f(time, X, params))
            G = problem.multiplier(time, X, params)
            by_W.append(G @ noise.W)
            by_Z.append(G @ (noise.Z / h) if any(T.γ2) else None)
        return combined(T.α, T.γ1, T.γ2), EXPLICIT


_NONE: Matrix = ((0, 0), (0, 0))

R2 = Burrage(
    BurrageTable(
        name="R2",
        what="Burrage and Burrage's two-stage step for Stratonovich problems",
        proved=True,
        source="K. Burrage & P. M. Burrage, High strong order explicit Runge-Kutta methods for stochastic ordinary "
        "differential equations, Appl. Numer. Math. 22 (1996)",
        claims=(
            Claim("strong", 0.5, source="order conditions"),
            Claim("strong", 1.0, when=("commutative",), source="Burrage & Burrage (1996)"),
            Claim("weak", 1.0, source="order conditions"),
            Claim("deterministic", 2.0),
        ),
        A=((0, 0), (Q(2, 3), 0)),
        B1=((0, 0), (Q(2, 3), 0)),
        B2=_NONE,
        α=(Q(1, 4), Q(3, 4)),
        γ1=(Q(1, 4), Q(3, 4)),
        γ2=(0, 0),
    )
)

# Every pathwise condition up to order 1.5 holds, but not the means of order 2: mean-square order 1, not 1.5.
E1 = Burrage(
    BurrageTable(
        name="E1",
        what="Burrage and Burrage's four-stage step for one noise channel",
        proved=True,
        source="K. Burrage & P. M. Burrage, Order conditions of stochastic Runge-Kutta methods by B-series, SIAM J. "
        "Numer. Anal. 38 (2000)",
        claims=(
            Claim("strong", 1.0, when=("scalar",), source="order conditions"),
            Claim("weak", 1.0, when=("scalar",), source="order conditions"),
            Claim("deterministic", 3.0),
        ),
        A=((0, 0, 0, 0), (Q(2, 3), 0, 0, 0), (Q(3, 2), Q(-1, 3), 0, 0), (Q(7, 6), 0, 0, 0)),
        B1=((0, 0, 0, 0), (Q(2, 3), 0, 0, 0), (Q(1, 2), Q(1, 6), 0, 0), (Q(-1, 2), 0, Q(1, 2), 0)),
        B2=((0, 0, 0, 0), (0, 0, 0, 0), (Q(-2, 3), 0, 0, 0), (Q(1, 6), Q(1, 2), 0, 0)),
        α=(Q(1, 4), Q(3, 4), Q(-3, 4), Q(3, 4)),
        γ1=(Q(-1, 2), Q(3, 2), Q(-3, 4), Q(3, 4)),
        γ2=(Q(3, 2), Q(-3, 2), 0, 0),
    )
)
