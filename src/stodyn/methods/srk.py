"""Explicit stochastic Runge-Kutta methods: strong order 1.5 (SRA, SRI) and weak order 2 (DRI, RS)."""

from __future__ import annotations

import dataclasses
import functools
import operator
from fractions import Fraction as Q

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.methods.contract import EXPLICIT, Claim
from stodyn.methods.tableau import DRITable, RSTable, SRATable, SRITable, Tabulated
from stodyn.noise import discrete, wiener
from stodyn.numerics.surd import sqrt
from stodyn.problems.sde import SDE


@dataclasses.dataclass(frozen=True)
class SRA(Tabulated):
    """Rößler's methods for Ito problems with additive noise g(t); the equations are in tableau.SRATable.

    Take them for additive noise that must be followed path by path: strong order 1.5. They need W and Z = I_(k,0). One
    evaluation of f per stage, one of g for each different time c1.
    """

    table: SRATable = dataclasses.field(repr=False)
    accepts = SDE
    calculus = "ito"
    structures = ("additive",)
    needs = wiener.WZ

    def step(self, problem, t, x, noise, params):
        T, h = self.table, noise.h

        @_once(T.c0, T.A0, T.B0)
        def hf(i):
            H = _sum(x, _dot(T.A0[i], hf), _dot(T.B0[i], gZ))
            return h * problem.f(_time(t, T.c0[i], h), H, params)

        g = _once(T.c1)(lambda i: problem.multiplier(_time(t, T.c1[i], h), x, params))
        gW = _once(T.c1)(lambda i: g(i) @ noise.W)
        gZ = _once(T.c1)(lambda i: g(i) @ (noise.Z * (1.0 / h)))
        return _sum(x, _dot(T.α, hf), _dot(T.β1, gW), _dot(T.β2, gZ)), EXPLICIT


@dataclasses.dataclass(frozen=True)
class SRI(Tabulated):
    """Rößler's methods for Ito problems with scalar or diagonal noise; the equations are in tableau.SRITable.

    Strong order 1.5. They need W and Z = I_(k,0); I_(k,k) and I_(k,k,k) are polynomials in W. Of diagonal noise only
    the n entries are computed.
    """

    table: SRITable = dataclasses.field(repr=False)
    accepts = SDE
    calculus = "ito"
    structures = ("scalar", "diagonal")
    needs = wiener.WZ

    def step(self, problem, t, x, noise, params):
        T, h, W = self.table, noise.h, noise.W
        root = jnp.sqrt(h)
        # I_(k), I_(k,k)/√h, I_(k,0)/h, I_(k,k,k)/h: one number for scalar noise, one per component for diagonal noise.
        I = (W, (W * W - h) / (2.0 * root), noise.Z / h, W * (W * W - 3.0 * h) / (6.0 * h))

        @_once(T.c0, T.A0, T.B0)
        def hf(i):
            H0 = _sum(x, _dot(T.A0[i], hf), _dot(T.B0[i], gI10))
            return h * problem.f(_time(t, T.c0[i], h), H0, params)

        @_once(T.c1, T.A1, T.B1)
        def g(i):
            H1 = _sum(x, _dot(T.A1[i], hf), _dot(T.B1[i], g_root))
            time = _time(t, T.c1[i], h)
            return problem.g(time, H1, params)[:, 0] if problem.m == 1 else problem.diagonal(time, H1, params)

        gI10 = functools.cache(lambda i: I[2] * g(i))
        g_root = functools.cache(lambda i: root * g(i))
        weights = [_dot(β, I.__getitem__) for β in zip(T.β1, T.β2, T.β3, T.β4, strict=True)]
        noisy = [weight * g(i) for i, weight in enumerate(weights) if weight is not None]
        return _sum(x, _dot(T.α, hf), *noisy), EXPLICIT


@dataclasses.dataclass(frozen=True)
class DRI(Tabulated):
    """Weak methods of Debrabant and Rößler for Ito problems, any noise; the equations are in tableau.DRITable.

    Weak order 2. They need three-point W and two-point draws. The number of evaluations of g grows linearly with that
    of the channels.
    """

    table: DRITable = dataclasses.field(repr=False)
    accepts = SDE
    calculus = "ito"
    needs = discrete.WeakPairs()

    def step(self, problem, t, x, noise, params):
        T, h, I, m = self.table, noise.h, noise.W, problem.m
        root = jnp.sqrt(h)

        @_once(T.c0, T.A0, T.B0)
        def hf(i):
            H0 = _sum(x, _dot(T.A0[i], hf), _dot(T.B0[i], gI))
            return h * problem.f(_time(t, T.c0[i], h), H0, params)

        @_once(T.c1, T.A1, T.B1)
        def g(i):  # (m, n): row k is g^k(Hk_i)
            H = _sum(x, _dot(T.A1[i], hf), _dot(T.B1[i], g_root))
            return _own(_channels(problem, _time(t, T.c1[i], h), H, params))

        gI = functools.cache(lambda i: I @ g(i))
        g_root = functools.cache(lambda i: root * g(i))
        I_kk = (I * I - h) / (2.0 * root)
        weights = [_dot(β, (I, I_kk).__getitem__) for β in zip(T.β1, T.β2, strict=True)]
        noisy = [weight @ g(i) for i, weight in enumerate(weights) if weight is not None]
        if m > 1:
            I_k = jnp.broadcast_to(I[:, None], (m, m))
            I_kl = (jnp.outer(I, I) + _antisymmetric(I, noise.aux["two"])) / (2.0 * root)
            for i, β in enumerate(zip(T.β3, T.β4, strict=True)):
                weight = _dot(β, (I_k, I_kl).__getitem__)
                if weight is None:
                    continue
                weight = jnp.where(np.eye(m, dtype=bool), 0.0, weight)
                G = _channels(problem, t, _sum(x, _dot(T.B2[i], g_root)), params)
                if G.ndim == 2:  # Ĥl_i = x for every l
                    noisy.append(jnp.sum(weight, 1) @ G)
                else:
                    noisy.append(jnp.sum(weight.T[:, :, None] * G, (0, 1)))
        return _sum(x, _dot(T.α, hf), *noisy), EXPLICIT


@dataclasses.dataclass(frozen=True)
class RS(Tabulated):
    """Rößler's weak methods for Stratonovich problems, any noise; the equations are in tableau.RSTable.

    Weak order 2. They need three-point W and two-point draws. The number of evaluations of g grows linearly with that
    of the channels.
    """

    table: RSTable = dataclasses.field(repr=False)
    accepts = SDE
    calculus = "stratonovich"
    needs = discrete.WeakPairs()

    def step(self, problem, t, x, noise, params):
        T, h, I, m = self.table, noise.h, noise.W, problem.m

        @_once(T.c0, T.A0, T.B0)
        def hf(i):
            H0 = _sum(x, _dot(T.A0[i], hf), _dot(T.B0[i], gI))
            return h * problem.f(_time(t, T.c0[i], h), H0, params)

        @_once(T.c1, T.A1, T.B1, T.B3)
        def g(i):  # (m, n): row k is g^k(Hk_i)
            others = _dot(T.B3[i], lambda j: gI(j) - g_own(j)) if m > 1 else None
            H = _sum(x, _dot(T.A1[i], hf), _dot(T.B1[i], g_own), others)
            return _own(_channels(problem, _time(t, T.c1[i], h), H, params))

        g_own = functools.cache(lambda i: I[:, None] * g(i))
        gI = functools.cache(lambda i: jnp.sum(g_own(i), 0))
        noisy = [_dot(T.β1, gI)]
        if m > 1:  # with one channel Ĥ = x, and the weights β2 add up to 0
            root = jnp.sqrt(h)
            I_kl = _antisymmetric(I, noise.aux["two"]) / root
            for i, β2 in enumerate(T.β2):
                if β2:
                    H = _sum(x, _dot(T.B2[i], lambda j: I_kl @ g(j)))
                    noisy.append(float(β2) * root * jnp.sum(_own(_channels(problem, t, H, params)), 0))
        return _sum(x, _dot(T.α, hf), *noisy), EXPLICIT


def _dot(row, values):
    """Σ row[j] values(j) over the nonzero entries; None if all are zero."""
    terms = [float(a) * values(j) for j, a in enumerate(row) if a]
    return functools.reduce(operator.add, terms) if terms else None


def _sum(x, *terms):
    """x + the sum of the terms that are not None. They are small beside x: summed first, none is lost in float32."""
    present = [term for term in terms if term is not None]
    return x + functools.reduce(operator.add, present) if present else x


def _time(t, c, h):
    return t + float(c) * h if c else t


def _once(*columns):
    """Let a function of the stage be evaluated once for all stages with equal entries in these columns."""
    stages = list(zip(*columns, strict=True))

    def decorate(function):
        evaluate = functools.cache(function)
        return lambda i: evaluate(stages.index(stages[i]))

    return decorate


def _channels(problem, t, H, params):
    """g^k(H) in row k: (m, n) for one state H, (states, m, n) for several."""
    if H.ndim == 1:
        return problem.g(t, H, params).T
    return jax.vmap(lambda x: problem.g(t, x, params).T)(H)


def _own(G):
    """Return row k of the k-th state, g^k(Hk), for every k."""
    return G if G.ndim == 2 else jnp.diagonal(G, axis1=0, axis2=1).T


def _antisymmetric(I, J):
    """I_k J_l below the diagonal, -I_l J_k above: a substitute for the Lévy areas, with their moments."""
    below = jnp.where(np.tri(len(I), k=-1, dtype=bool), jnp.outer(I, J), 0.0)
    return below - below.T


_STRONG = (
    "A. Rößler, Runge-Kutta methods for the strong approximation of solutions of stochastic differential equations, "
    "SIAM J. Numer. Anal. 48 (2010) 922-952"
)
_ITO = (
    "K. Debrabant and A. Rößler, Families of efficient second order Runge-Kutta methods for the weak approximation of "
    "Itô stochastic differential equations, Appl. Numer. Math. 59 (2009) 582-594"
)
_STRATONOVICH = (
    "A. Rößler, Second order Runge-Kutta methods for Stratonovich stochastic differential equations, "
    "BIT Numer. Math. 47 (2007) 657-680"
)

SRA1 = SRA(
    SRATable(
        name="SRA1",
        what="Rößler's two-stage step for additive Ito noise",
        proved=True,
        source=_STRONG,
        claims=(
            Claim("strong", 1.5, when=("additive",), source="Rößler (2010)"),
            Claim("weak", 2.0, when=("additive",), source="order conditions"),
            Claim("deterministic", 2.0),
        ),
        c0=(0, Q(3, 4)),
        c1=(1, 0),
        A0=((0, 0), (Q(3, 4), 0)),
        B0=((0, 0), (Q(3, 2), 0)),
        α=(Q(1, 3), Q(2, 3)),
        β1=(1, 0),
        β2=(-1, 1),
    )
)

SRA3 = SRA(
    SRATable(
        name="SRA3",
        what="Rößler's three-stage step for additive Ito noise",
        proved=True,
        source=_STRONG,
        claims=(
            Claim("strong", 1.5, when=("additive",), source="Rößler (2010)"),
            Claim("weak", 2.0, when=("additive",), source="order conditions"),
            Claim("deterministic", 3.0),
        ),
        c0=(0, 1, Q(1, 2)),
        c1=(1, 0, 0),
        A0=((0, 0, 0), (1, 0, 0), (Q(1, 4), Q(1, 4), 0)),
        B0=((0, 0, 0), (0, 0, 0), (1, Q(1, 2), 0)),
        α=(Q(1, 6), Q(1, 6), Q(2, 3)),
        β1=(1, 0, 0),
        β2=(-1, 1, 0),
    )
)

# No weak order is claimed: it is 3/2, since the mean of the term g · g'''(g, g, g) is -h^(5/2)/4 in place of 0.
SRIW1 = SRI(
    SRITable(
        name="SRIW1",
        what="Rößler's four-stage step for scalar or diagonal Ito noise",
        proved=True,
        source=_STRONG,
        claims=(
            Claim("strong", 1.5, when=("scalar", "diagonal"), source="Rößler (2010)"),
            Claim("deterministic", 2.0),
        ),
        c0=(0, Q(3, 4), 0, 0),
        c1=(0, Q(1, 4), 1, Q(1, 4)),
        A0=((0, 0, 0, 0), (Q(3, 4), 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)),
        A1=((0, 0, 0, 0), (Q(1, 4), 0, 0, 0), (1, 0, 0, 0), (0, 0, Q(1, 4), 0)),
        B0=((0, 0, 0, 0), (Q(3, 2), 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)),
        B1=((0, 0, 0, 0), (Q(1, 2), 0, 0, 0), (-1, 0, 0, 0), (-5, 3, Q(1, 2), 0)),
        α=(Q(1, 3), Q(2, 3), 0, 0),
        β1=(-1, Q(4, 3), Q(2, 3), 0),
        β2=(-1, Q(4, 3), Q(-1, 3), 0),
        β3=(2, Q(-4, 3), Q(-2, 3), 0),
        β4=(-2, Q(5, 3), Q(-2, 3), 1),
    )
)

DRI1 = DRI(
    DRITable(
        name="DRI1",
        what="Debrabant and Rößler's weak step for Ito problems, any noise",
        proved=True,
        source=_ITO,
        claims=(Claim("weak", 2.0, source="Debrabant & Rößler (2009)"), Claim("deterministic", 3.0)),
        c0=(0, Q(1, 2), 1),
        c1=(0, Q(342, 491), Q(342, 491)),
        A0=((0, 0, 0), (Q(1, 2), 0, 0), (-1, 2, 0)),
        A1=((0, 0, 0), (Q(342, 491), 0, 0), (Q(342, 491), 0, 0)),
        B0=((0, 0, 0), ((6 - sqrt(6)) / 10, 0, 0), ((3 + 2 * sqrt(6)) / 5, 0, 0)),
        B1=((0, 0, 0), (3 * sqrt(Q(38, 491)), 0, 0), (-3 * sqrt(Q(38, 491)), 0, 0)),
        B2=(
            (0, 0, 0),
            (Q(-214, 513) * sqrt(Q(1105, 991)), *(Q(-491, 513) * sqrt(Q(221, 4955)),) * 2),
            (Q(214, 513) * sqrt(Q(1105, 991)), *(Q(491, 513) * sqrt(Q(221, 4955)),) * 2),
        ),
        α=(Q(1, 6), Q(2, 3), Q(1, 6)),
        β1=(Q(193, 684), Q(491, 1368), Q(491, 1368)),
        β2=(0, sqrt(Q(491, 38)) / 6, -sqrt(Q(491, 38)) / 6),
        β3=(Q(-4955, 7072), Q(4955, 14144), Q(4955, 14144)),
        β4=(0, -sqrt(Q(4955, 221)) / 8, sqrt(Q(4955, 221)) / 8),
    )
)

RS1 = RS(
    RSTable(
        name="RS1",
        what="Rößler's weak step for Stratonovich problems, ODE order 2",
        proved=True,
        source=_STRATONOVICH,
        claims=(Claim("weak", 2.0, source="Rößler (2007)"), Claim("deterministic", 2.0)),
        c0=(0, 0, 1, 0),
        c1=(0, 0, 1, 1),
        A0=((0, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0)),
        A1=((0, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0)),
        B0=((0, 0, 0, 0), (0, 0, 0, 0), (Q(1, 4), Q(3, 4), 0, 0), (0, 0, 0, 0)),
        B1=((0, 0, 0, 0), (Q(2, 3), 0, 0, 0), (Q(1, 12), Q(1, 4), 0, 0), (Q(-5, 4), Q(1, 4), 2, 0)),
        B2=((0, 0, 0, 0), (1, 0, 0, 0), (-1, 0, 0, 0), (0, 0, 0, 0)),
        B3=((0, 0, 0, 0), (0, 0, 0, 0), (Q(1, 4), Q(3, 4), 0, 0), (Q(1, 4), Q(3, 4), 0, 0)),
        α=(0, 0, Q(1, 2), Q(1, 2)),
        β1=(Q(1, 8), Q(3, 8), Q(3, 8), Q(1, 8)),
        β2=(0, Q(-1, 4), Q(1, 4), 0),
    )
)

RS2 = RS(
    dataclasses.replace(
        RS1.table,
        name="RS2",
        what="Rößler's weak step for Stratonovich problems, ODE order 3",
        proved=True,
        claims=(Claim("weak", 2.0, source="Rößler (2007)"), Claim("deterministic", 3.0)),
        c0=(0, Q(2, 3), Q(2, 3), 0),
        A0=((0, 0, 0, 0), (Q(2, 3), 0, 0, 0), (Q(1, 6), Q(1, 2), 0, 0), (0, 0, 0, 0)),
        α=(Q(1, 4), Q(1, 4), Q(1, 2), 0),
    )
)
