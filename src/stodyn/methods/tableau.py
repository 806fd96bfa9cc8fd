"""Tables of coefficients of stochastic Runge-Kutta methods, in exact numbers, and the orders that follow from them."""

from __future__ import annotations

import dataclasses
import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import ClassVar

from stodyn.methods.contract import Claim, Method
from stodyn.methods.signature import Coefficient, integral, variable
from stodyn.methods.trees import Order, Scheme, Stage, deterministic_order, strong_order, weak_order
from stodyn.numerics.surd import Number

Row = tuple[Number, ...]
Matrix = tuple[Row, ...]
Block = tuple[Row, int, Hashable, Coefficient]  # coefficients, colour, family of stages, common factor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table(ABC):
    """A method's coefficients as its paper prints them, with the claims they support and their source.

    Making a table raises ValueError if it misses a claimed order with one noise channel; `missed` tries more channels.

    Parameters
    ----------
    name, claims, source
        The name, the claims and the citation of the method.
    what : str
        One line on what the method is.
    proved : bool
        True where the claims are known to hold: tests prove the tables of this package, so that imports need not.
    """

    name: str
    claims: tuple[Claim, ...]
    source: str
    what: str = dataclasses.field(default="", repr=False, compare=False)
    proved: bool = dataclasses.field(default=False, repr=False, compare=False)
    calculus: ClassVar[str]

    def __post_init__(self):
        missed = () if self.proved else self.missed(channels=(1,))
        if missed:
            raise ValueError(f"table {missed[0]}. Check the coefficients against the paper, or claim less.")

    @abstractmethod
    def scheme(self, m: int) -> Scheme:
        """The step for m noise channels, in the form of which methods.trees computes orders."""

    def order(self, kind: str, structure: str = "general", m: int = 2, limit: Fraction | float = 2) -> Order:
        """The order, at most `limit`, for noise of this structure in m channels.

        `kind` is "strong", "weak" or "deterministic".
        """
        match kind:
            case "strong":
                return strong_order(self.scheme(m), structure, limit)
            case "weak":
                return weak_order(self.scheme(m), structure, limit)
            case "deterministic":
                return deterministic_order(self.scheme(m), int(limit))
        raise ValueError(f"order: kind is {kind!r}; expected 'strong', 'weak' or 'deterministic'")

    def missed(self, channels: Iterable[int] = (1, 2)) -> tuple[str, ...]:
        """The claimed orders that the coefficients miss, in words that give a violated condition."""
        misses = []
        for claim in self.claims:
            if claim.kind not in ("strong", "weak", "deterministic") or claim.order is None:
                continue
            for structure, m in itertools.product(claim.when or ("general",), channels):
                if structure == "scalar" and m > 1:
                    continue
                order, violated = self.order(claim.kind, structure, m, claim.order)
                if order < claim.order:
                    misses.append(
                        f"{self.name} claims {claim.kind} order {claim.order} for {structure} noise but has order "
                        f"{order} with {m} channel(s); violated: {violated[0]}"
                    )
        return tuple(misses)


class OfTable(Method):
    """A method with the name, the claims and the source of its table."""

    table: Table

    @property
    def name(self):
        return self.table.name

    @property
    def summary(self):
        return self.table.what or super().summary

    @property
    def claims(self):
        return self.table.claims

    @property
    def citation(self):
        return self.table.source


@dataclasses.dataclass(frozen=True)
class Tabulated(OfTable):
    """A method that is described by a table, which is its first field."""

    table: Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class SRATable(Table):
    """Rößler's class for additive noise, with I = W and I_(k,0) for each channel:

    H_i = x + h Σ A0_ij f(t + c0_j h, H_j) + Σ_k I_(k,0)/h Σ B0_ij g^k(t + c1_j h)
    x'  = x + h Σ α_i f(t + c0_i h, H_i) + Σ_k Σ (β1_i I_(k) + β2_i I_(k,0)/h) g^k(t + c1_i h)
    """

    c0: Row
    c1: Row
    A0: Matrix
    B0: Matrix
    α: Row
    β1: Row
    β2: Row
    calculus = "ito"

    def scheme(self, m: int) -> Scheme:
        stages = range(len(self.α))
        W = {k: integral(k) for k in range(1, m + 1)}
        Z = {k: integral(k, 0) for k in range(1, m + 1)}
        rows: dict[Stage, dict] = {("t", i): {} for i in stages}
        for i in stages:
            rows["H", i] = _row((self.A0[i], 0, "H", 1), *((self.B0[i], k, "t", Z[k]) for k in Z))
        last = _row((self.α, 0, "H", 1), *((self.β1, k, "t", W[k]) for k in W), *((self.β2, k, "t", Z[k]) for k in Z))
        clock: dict[Stage, Number] = {("H", i): self.c0[i] for i in stages}
        clock |= {("t", i): self.c1[i] for i in stages}
        return Scheme(self.calculus, tuple(range(m + 1)), rows, last, clock)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SRITable(Table):
    """Rößler's class for scalar or diagonal noise, with I_(1), I_(1,1), I_(1,0), I_(1,1,1) for each channel:

    H0_i = x + h Σ A0_ij f(t + c0_j h, H0_j) + I_(1,0)/h Σ B0_ij g(t + c1_j h, H1_j)
    H1_i = x + h Σ A1_ij f(t + c0_j h, H0_j) + √h Σ B1_ij g(t + c1_j h, H1_j)
    x'   = x + h Σ α_i f(H0_i) + Σ (β1_i I_(1) + β2_i I_(1,1)/√h + β3_i I_(1,0)/h + β4_i I_(1,1,1)/h) g(H1_i)
    """

    c0: Row
    c1: Row
    A0: Matrix
    A1: Matrix
    B0: Matrix
    B1: Matrix
    α: Row
    β1: Row
    β2: Row
    β3: Row
    β4: Row
    calculus = "ito"

    def scheme(self, m: int) -> Scheme:
        stages, channels = range(len(self.α)), range(1, m + 1)
        rows: dict[Stage, dict] = {}
        last: list[Block] = [(self.α, 0, "H0", 1)]
        for i in stages:
            rows["H0", i] = _row((self.A0[i], 0, "H0", 1), *((self.B0[i], k, "H1", integral(k, 0)) for k in channels))
            rows["H1", i] = _row((self.A1[i], 0, "H0", 1), *((self.B1[i], k, "H1", 1) for k in channels))
        for k in channels:
            integrals = integral(k), integral(k, k), integral(k, 0), integral(k, k, k)
            last += [(β, k, "H1", I) for β, I in zip((self.β1, self.β2, self.β3, self.β4), integrals, strict=True)]
        clock: dict[Stage, Number] = {("H0", i): self.c0[i] for i in stages}
        clock |= {("H1", i): self.c1[i] for i in stages}
        return Scheme(self.calculus, tuple(range(m + 1)), rows, _row(*last), clock)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DRITable(Table):
    """The class of Debrabant and Rößler for Ito equations (with A2 = 0), I_k three-point and J_k = ±√h two-point:

    H0_i = x + h Σ A0_ij f(t + c0_j h, H0_j) + Σ_k I_k Σ B0_ij g^k(t + c1_j h, Hk_j)
    Hk_i = x + h Σ A1_ij f(t + c0_j h, H0_j) + √h Σ B1_ij g^k(t + c1_j h, Hk_j)
    Ĥl_i = x + √h Σ B2_ij g^l(t + c1_j h, Hl_j)
    x'   = x + h Σ α_i f(H0_i) + Σ_k Σ (β1_i I_k + β2_i I_kk/√h) g^k(Hk_i)
             + Σ_(k≠l) Σ (β3_i I_k + β4_i I_kl/√h) g^k(t, Ĥl_i)
    I_kk = (I_k² - h)/2,   I_kl = (I_k I_l + I_k J_l)/2 for l < k,   (I_k I_l - I_l J_k)/2 for l > k

    Other texts print the pairs (I_k I_l + √h J_l)/2 and (I_k I_l - √h J_k)/2, for which E I_12 I_13 is h²/4 in place of
    0: weak order 2 for two channels, 1 for more. The pairs used here have the right moments for any number of channels.
    """

    c0: Row
    c1: Row
    A0: Matrix
    A1: Matrix
    B0: Matrix
    B1: Matrix
    B2: Matrix
    α: Row
    β1: Row
    β2: Row
    β3: Row
    β4: Row
    calculus = "ito"

    def scheme(self, m: int) -> Scheme:
        stages, channels = range(len(self.α)), range(1, m + 1)
        I, J = _draws(m)
        rows: dict[Stage, dict] = {}
        last: list[Block] = [(self.α, 0, "H0", 1)]
        clock: dict[Stage, Number] = {}
        for i in stages:
            rows["H0", i] = _row((self.A0[i], 0, "H0", 1), *((self.B0[i], k, ("H", k), I[k]) for k in channels))
            clock["H0", i] = self.c0[i]
            for k in channels:
                rows[("H", k), i] = _row((self.A1[i], 0, "H0", 1), (self.B1[i], k, ("H", k), 1))
                rows[("Ĥ", k), i] = _row((self.B2[i], k, ("H", k), 1))
                clock[("H", k), i], clock[("Ĥ", k), i] = self.c1[i], 0
        for k in channels:
            last += [(self.β1, k, ("H", k), I[k]), (self.β2, k, ("H", k), (I[k] * I[k] - 1) / 2)]
            for l in channels:
                if l != k:
                    I_kl = (I[k] * I[l] + (I[k] * J[l] if l < k else -I[l] * J[k])) / 2
                    last += [(self.β3, k, ("Ĥ", l), I[k]), (self.β4, k, ("Ĥ", l), I_kl)]
        return Scheme(self.calculus, tuple(range(m + 1)), rows, _row(*last), clock)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RSTable(Table):
    """Rößler's class for Stratonovich equations (with A2 = 0), I_k three-point and J_k = ±√h two-point:

    H0_i = x + h Σ A0_ij f(t + c0_j h, H0_j) + Σ_l I_l Σ B0_ij g^l(t + c1_j h, Hl_j)
    Hk_i = x + h Σ A1_ij f(t + c0_j h, H0_j) + I_k Σ B1_ij g^k(t + c1_j h, Hk_j) + Σ_(l≠k) I_l Σ B3_ij g^l(Hl_j)
    Ĥk_i = x + Σ_(l≠k) I_kl/√h Σ B2_ij g^l(t + c1_j h, Hl_j)
    x'   = x + h Σ α_i f(H0_i) + Σ_k I_k Σ β1_i g^k(Hk_i) + √h Σ_k Σ β2_i g^k(t, Ĥk_i)
    I_kl = I_k J_l for l < k,   -I_l J_k for l > k
    """

    c0: Row
    c1: Row
    A0: Matrix
    A1: Matrix
    B0: Matrix
    B1: Matrix
    B2: Matrix
    B3: Matrix
    α: Row
    β1: Row
    β2: Row
    calculus = "stratonovich"

    def scheme(self, m: int) -> Scheme:
        stages, channels = range(len(self.α)), range(1, m + 1)
        I, J = _draws(m)
        rows: dict[Stage, dict] = {}
        last: list[Block] = [(self.α, 0, "H0", 1)]
        clock: dict[Stage, Number] = {}
        for i in stages:
            rows["H0", i] = _row((self.A0[i], 0, "H0", 1), *((self.B0[i], l, ("H", l), I[l]) for l in channels))
            clock["H0", i] = self.c0[i]
            for k in channels:
                others = [l for l in channels if l != k]
                rows[("H", k), i] = _row(
                    (self.A1[i], 0, "H0", 1),
                    (self.B1[i], k, ("H", k), I[k]),
                    *((self.B3[i], l, ("H", l), I[l]) for l in others),
                )
                rows[("Ĥ", k), i] = _row(
                    *((self.B2[i], l, ("H", l), I[k] * J[l] if l < k else -I[l] * J[k]) for l in others)
                )
                clock[("H", k), i], clock[("Ĥ", k), i] = self.c1[i], 0
        for k in channels:
            last += [(self.β1, k, ("H", k), I[k]), (self.β2, k, ("Ĥ", k), 1)]
        return Scheme(self.calculus, tuple(range(m + 1)), rows, _row(*last), clock)


def _draws(m: int):
    channels = range(1, m + 1)
    return {k: variable("three", f"I{k}") for k in channels}, {k: variable("two", f"J{k}") for k in channels}


def _row(*blocks: Block) -> dict[tuple[int, Stage], Coefficient]:
    total: dict[tuple[int, Stage], Coefficient] = defaultdict(int)
    for coefficients, colour, family, factor in blocks:
        for j, a in enumerate(coefficients):
            if a:
                total[colour, (family, j)] += a * factor
    return dict(total)
