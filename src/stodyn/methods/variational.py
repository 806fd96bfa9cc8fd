"""Lagrange-d'Alembert integrators for forced stochastic Hamiltonian systems, and the discrete mechanics behind them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from fractions import Fraction as Q
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from stodyn.methods.catalogue import stepping
from stodyn.methods.contract import Claim, Method, Report
from stodyn.methods.partitioned import MeanSquareTable, PartitionedTable, Solution, WeakTable
from stodyn.methods.tableau import OfTable
from stodyn.noise import discrete as draws
from stodyn.noise import wiener
from stodyn.noise.increment import Increment
from stodyn.numerics.newton import newton
from stodyn.numerics.sparse import order_of
from stodyn.numerics.surd import sqrt
from stodyn.problems.contract import expect_problem
from stodyn.problems.hamiltonian import Hamiltonian

PAPER = (
    "M. Kraus & T. M. Tyranowski, Variational integrators for stochastic dissipative Hamiltonian systems, "
    "IMA J. Numer. Anal. 41 (2021)"
)
_SQUARE = (
    Claim("strong", 0.5, source="Theorem 3.5"),
    Claim("strong", 1.0, when=("commutative",), source="Theorem 3.5"),
    Claim("weak", 1.0, source="order conditions"),
    Claim("deterministic", 2.0),
    Claim("symplectic", source="Theorem 3.4: where there are no forces"),
)


class LagrangeDAlembert(OfTable):
    """A partitioned Runge-Kutta step of the form (3.15) or (3.42).

    Stages are explicit or linear wherever the problem's structure allows; the others are solved by Newton's method to
    `tol` in at most `limit` rounds, and paths where that fails are reported. Without forces the step is symplectic;
    with forces it follows a discrete Lagrange-d'Alembert principle, see `discrete`.
    """

    accepts = Hamiltonian
    calculus = "stratonovich"
    table: PartitionedTable
    tol: float
    limit: int
    truncation: float | None = None

    @property
    def needs(self):
        return draws.ThreePoint() if isinstance(self.table, WeakTable) else wiener.W

    def step_refusal(self, h):
        if self.truncation is not None and h >= 1.0:
            return (
                f"{self.name} with truncation={self.truncation:g} cuts W at √(2·{self.truncation:g}·|ln h|·h), which "
                f"is 0 at h = 1 and not real beyond; h = {h:g}. Take h < 1 in your unit of time or truncation=None"
            )
        if self.truncation is not None:
            cut = math.erfc(math.sqrt(max(self.truncation, 0.0) * -math.log(h)))
            if cut > 0.5:
                return (
                    f"{self.name} with truncation={self.truncation:g} would cut {100 * cut:.3g} % of the draws of W at "
                    f"h = {h:g}, more than half, so that the noise would be much too small. Take truncation=2 or more, "
                    "a smaller h, or truncation=None"
                )
        return None

    def step(self, problem, t, x, noise, params):
        solved = self.solve(self.table.stages(problem.m), problem, t, x, noise, params)
        return problem.wrap(solved.result()), solved.report

    def solve(self, stages, problem, t, x, noise, params, **options) -> Solution:
        """The stages of one step; the options are those of Solution."""
        if self.truncation is not None:
            noise = dataclasses.replace(noise, W=truncated(noise.W, noise.h, self.truncation))
        newton_options = {"tol": self.tol, "limit": self.limit}
        return Solution(stages, problem, t, x, noise, params, newton_options, **options)


def truncated(W: Array, h: Any, k: float) -> Array:
    """W cut to [-A, A], A = √(2 k |ln h| h), so that implicit equations have solutions for every draw.

    k >= 2 keeps mean-square order 1 (k = 1 lowers it to about 0.65). The share of the draws that is cut at h = .5, .2
    and .02 is 24%, 7% and .5% for k = 1; 9.6%, 1.1% and 8e-5 for k = 2; 1.9%, 3e-4 and 2e-8 for k = 4. Requires h < 1.
    G. N. Milstein, Yu. M. Repin & M. V. Tretyakov, SIAM J. Numer. Anal. 40 (2002).
    """
    bound = jnp.sqrt(2.0 * k * jnp.abs(jnp.log(h)) * h)
    return jnp.clip(W, -bound, bound)


@dataclasses.dataclass(frozen=True)
class FromTable(LagrangeDAlembert):
    """An integrator with a table of the mean-square class (3.15) or the weak class (3.42), yours or the library's.

    Parameters
    ----------
    table : PartitionedTable
        The coefficients.
    tol, limit
        Newton's tolerance and its most rounds per solve.
    truncation : float, optional
        The k of `truncated`, which bounds the Wiener increments; not bounded by default.
    """

    table: PartitionedTable = dataclasses.field(repr=False)
    tol: float = 1e-10
    limit: int = 30
    truncation: float | None = None

    def __post_init__(self):
        if self.truncation is not None and isinstance(self.table, WeakTable):
            raise ValueError(
                f"truncation: {self.name} draws three-point increments, none beyond √(3h), and cutting them would "
                "lower its order; leave it out"
            )

    @property
    def structures(self):
        return ("scalar", "additive") if isinstance(self.table, WeakTable) and self.table.symplecticity(2) else ()


def _midpoint_table() -> MeanSquareTable:
    half, one = ((Q(1, 2),),), (Q(1),)
    return MeanSquareTable(
        name="Midpoint", what="The stochastic midpoint rule for Hamiltonian systems",
        claims=_SQUARE, source=PAPER, proved=True,
        a=half, a_bar=half, a_hat=half, b=half, b_bar=half, b_hat=half, α=one, α_hat=one, β=one, β_hat=one,
    )  # fmt: skip


def _verlet_table() -> MeanSquareTable:
    q, p, w = ((0, 0), (Q(1, 2), Q(1, 2))), ((Q(1, 2), 0), (Q(1, 2), 0)), (Q(1, 2), Q(1, 2))
    return MeanSquareTable(
        name="StoermerVerlet", what="Störmer-Verlet for Hamiltonian systems with noise",
        claims=_SQUARE, source=PAPER, proved=True,
        a=q, a_bar=p, a_hat=p, b=q, b_bar=p, b_hat=p, α=w, α_hat=w, β=w, β_hat=w,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _dirk_table(lam: Q) -> MeanSquareTable:
    a, w = ((lam / 2, 0), (lam, (1 - lam) / 2)), (lam, 1 - lam)
    return MeanSquareTable(
        name="DIRK", what="Two midpoint steps, of lam h and (1 - lam) h",
        claims=_SQUARE, source=PAPER,
        a=a, a_bar=a, a_hat=a, b=a, b_bar=a, b_hat=a, α=w, α_hat=w, β=w, β_hat=w,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _srkw1_table(lam: Q) -> WeakTable:
    half, one = ((Q(1, 2),),), (Q(1),)
    claims = Claim("weak", 1.0, source="order conditions"), Claim("deterministic", 2.0), _SQUARE[-1]
    return WeakTable(
        name="SRKw1", what="A one-stage weak step with three-point draws",
        claims=claims, source=f"{PAPER}, after P. Wang, J. Hong & D. Xu, Commun. Comput. Phys. 21 (2017)",
        A0=half, B0=((lam,),), A1=((1 - lam,),), B1=half, B3=half, α=one, β=one,
    )  # fmt: skip


def _srkw2_table(name: str, coupled: bool) -> WeakTable:
    s, none = sqrt(3), (Q(0),) * 4
    B1 = ((Q(1, 4), Q(1, 4) - s / 6, 0, 0), (Q(1, 4) + s / 6, Q(1, 4), 0, 0), none, none)
    second = ("scalar", "additive", *(("commutative",) if coupled else ()))
    claims = (
        Claim("weak", 1.0, source="order conditions"),
        Claim("weak", 2.0, when=second, source="order conditions"),
        Claim("deterministic", 2.0),
        _SQUARE[-1],
    )
    return WeakTable(
        name=name, what=f"A four-stage weak step of order 2 for {'commuting noise' if coupled else 'one channel'}",
        claims=claims, source=f"{PAPER}, after P. Wang, J. Hong & D. Xu, Commun. Comput. Phys. 21 (2017)", proved=True,
        A0=tuple(tuple(Q(1, 4) if j < i else Q(1, 8) if j == i else Q(0) for j in range(4)) for i in range(4)),
        B0=((Q(5, 6) - s / 3, -Q(1, 2), 0, 0), (-Q(1, 6) + s / 3, Q(1, 2), 0, 0), (Q(1, 2), Q(1, 2), 0, 0),
            (-Q(1, 6), Q(1, 2), 0, 0)),
        A1=((-Q(1, 6) + s / 6, Q(1, 3) - s / 6, 0, Q(1, 3)), (Q(1, 2), 0, 0, 0), none, none),
        B1=B1, B3=B1 if coupled else (none,) * 4, α=(Q(1, 4),) * 4, β=(Q(1, 2), Q(1, 2), 0, 0),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Dirk(LagrangeDAlembert):
    """The 2-stage diagonally implicit step (3.40): a midpoint step with (lam h, lam W), then one with the rest.

    Mean-square order 1 for commutative noise (1/2 otherwise). Two solves per step for 2N unknowns (N for separable
    Hamiltonians).

    Parameters
    ----------
    lam : Fraction or float
        The share of the step that the first midpoint step covers.
    tol, limit, truncation
        As for FromTable.
    """

    lam: Q | float = Q(1, 2)
    tol: float = 1e-10
    limit: int = 30
    truncation: float | None = None

    table: PartitionedTable = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if not math.isfinite(self.lam):
            raise ValueError(f"lam: expected a number, got {self.lam!r}")
        object.__setattr__(self, "table", _dirk_table(Q(self.lam)))


@dataclasses.dataclass(frozen=True)
class _Srkw1(LagrangeDAlembert):
    """The 1-stage weak step (3.48) with three-point draws: weak order 1 for any noise and any lam.

    Parameters
    ----------
    lam : Fraction or float
        0 (the default) solves the drift first and then the noise; 1/2 is the midpoint rule.
    tol, limit
        Newton's tolerance and its most rounds per solve.
    """

    lam: Q | float = Q(0)
    tol: float = 1e-10
    limit: int = 30

    table: PartitionedTable = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if not math.isfinite(self.lam):
            raise ValueError(f"lam: expected a number, got {self.lam!r}")
        object.__setattr__(self, "table", _srkw1_table(Q(self.lam)))


Midpoint = FromTable(_midpoint_table())
StoermerVerlet = FromTable(_verlet_table())
DIRK = _Dirk()
SRKw1 = _Srkw1()
SRKw2 = FromTable(_srkw2_table("SRKw2", coupled=False))
SRKw2Coupled = FromTable(_srkw2_table("SRKw2Coupled", coupled=True))


# --- the discrete mechanics ------------------------------------------------------------------------------------------


class Pieces(NamedTuple):
    """The derivatives of H_d⁺ by q_k and p_(k+1), and the discrete forces, (N,) each."""

    D1: Array
    D2: Array
    F_plus: Array
    F_minus: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Discrete:
    """The discrete Hamiltonian H_d⁺ and forces F_d^± of a step, as functions of (t, q_k, p_(k+1), noise, params).

    The step is q_(k+1) = D₂H - F_plus, p_k = D₁H - F_minus, the form (3.1). `pieces` gives all four terms from one
    solve of the stages.
    """

    H: Callable[..., Array]
    pieces: Callable[..., Pieces]

    def F_plus(self, t, q: Array, p_next: Array, noise: Increment, params) -> Array:
        """The discrete force F_plus in q_(k+1) = D₂H - F_plus."""
        return self.pieces(t, q, p_next, noise, params).F_plus

    def F_minus(self, t, q: Array, p_next: Array, noise: Increment, params) -> Array:
        """The discrete force F_minus in p_k = D₁H - F_minus."""
        return self.pieces(t, q, p_next, noise, params).F_minus

    def map(self, t, q: Array, p_next: Array, noise: Increment, params) -> tuple[Array, Array]:
        """The map (q_k, p_(k+1)) -> (q_(k+1), p_k)."""
        D1, D2, F_plus, F_minus = self.pieces(t, q, p_next, noise, params)
        return D2 - F_plus, D1 - F_minus


def discrete(problem: Hamiltonian, method: LagrangeDAlembert | str) -> Discrete:
    """Return the discrete Hamiltonian H_d⁺ and the discrete forces F_d^± behind a variational method for a problem.

    They are (3.18)-(3.19) and (3.45)-(3.46) of the method's source, from stages solved for given p_(k+1), and may be
    differentiated any number of times. They generate the method's map where the table satisfies the conditions (3.16)
    or (3.43), that is, where `method.table.symplecticity(problem.m)` is empty.

    Parameters
    ----------
    problem : Hamiltonian
        The problem.
    method : Method or str
        A variational method with a table, such as "Midpoint".

    Returns
    -------
    Discrete
        The functions `H` and `pieces` of (t, q, p_next, noise, params), and `map`, which computes the step from them.

    Raises
    ------
    TypeError
        If the method is not a variational one with a table.
    """
    expect_problem(problem)
    stepped = stepping(method)
    if not isinstance(stepped, LagrangeDAlembert):
        raise TypeError(f"method: expected one of methods.variational with a table, got {stepped.name}")
    method = stepped
    stages = method.table.stages(problem.m)
    backward = stages.backward()

    def solved(t, q, p_next, noise, params):
        x = jnp.concatenate([q, p_next])
        return method.solve(backward, problem, t, x, noise, params, unread=True)

    def hamiltonian(s: Solution, t, p_next, noise, params) -> Array:
        q_next, _ = problem.split(s.result())
        total = p_next @ q_next
        for (k, stage), weight in stages.last.velocity.items():
            Q_i, P_i = s.stage(stage)
            time = t + float(stages.clock[stage]) * noise.h
            energy = problem.energy(k, time, Q_i, P_i, params)
            total = total - float(weight) * s.drivers[k] * (P_i @ s.at(k, "velocity", stage) - energy)
        return total

    def H(t, q, p_next, noise, params):
        return hamiltonian(solved(t, q, p_next, noise, params), t, p_next, noise, params)

    def pieces(t, q, p_next, noise, params):
        def varied(q, p_next):
            s = solved(t, q, p_next, noise, params)
            pushes = [float(w) * s.drivers[k] * s.at(k, "push", i) for (k, i), w in stages.last.push.items()]
            positions = [s.stage(stage)[0] for _, stage in stages.last.push]
            return (hamiltonian(s, t, p_next, noise, params), positions), pushes

        (value, positions), pull_back, pushes = jax.vjp(varied, q, p_next, has_aux=True)
        D1, D2 = pull_back((jnp.ones_like(value), jax.tree.map(jnp.zeros_like, positions)))
        F_minus, F_plus = pull_back((jnp.zeros_like(value), pushes))
        return Pieces(D1, D2, F_plus, F_minus)

    return Discrete(H, pieces)


@dataclasses.dataclass(frozen=True)
class _FromDiscrete(Method):
    """The integrator (3.1) of a given discrete Hamiltonian and forces: one Newton solve for N unknowns per step."""

    H: Callable[..., Array]
    F_plus: Callable[..., Array] | None = None
    F_minus: Callable[..., Array] | None = None
    tol: float = 1e-10
    limit: int = 30

    accepts = Hamiltonian
    calculus = "stratonovich"
    name = "FromDiscrete"
    needs = wiener.W
    claims = ()
    citation = PAPER

    def step(self, problem, t, x, noise, params):
        q, p = problem.split(x)
        D1, D2 = jax.grad(self.H, argnums=1), jax.grad(self.H, argnums=2)

        def force(F, p_next):
            return 0.0 if F is None else F(t, q, p_next, noise, params)

        def residual(p_next):
            return D1(t, q, p_next, noise, params) - force(self.F_minus, p_next) - p

        order = order_of(residual, p)
        options: Any = {} if order is None else {"solve": order.solve_at, "linear": order.solve_at}
        root = newton(residual, p, tol=self.tol, limit=self.limit, **options)
        q_next = D2(t, q, root.x, noise, params) - force(self.F_plus, root.x)
        return problem.wrap(jnp.concatenate([q_next, root.x])), Report(*root[1:])


def from_discrete(
    H_d: Callable[..., Array],
    F_plus: Callable[..., Array] | None = None,
    F_minus: Callable[..., Array] | None = None,
    *,
    tol: float = 1e-10,
    limit: int = 30,
) -> Method:
    """Return the integrator q_(k+1) = D₂H_d - F_plus, p_k = D₁H_d - F_minus of your own Hamiltonian and forces.

    Each is a function of (t, q_k, p_(k+1), noise, params); noise.h is the step, noise.W the increments. Without forces
    the step is symplectic whatever H_d is; its accuracy depends on H_d.

    Parameters
    ----------
    H_d : callable
        The discrete Hamiltonian.
    F_plus, F_minus : callable, optional
        The discrete forces; none without them.
    tol : float
        The tolerance of Newton's method, relative to 1 + max|p|.
    limit : int
        The most iterations of Newton's method in a step.

    Returns
    -------
    Method
        The integrator, for `sd.simulate` and for all analyses.

    Raises
    ------
    TypeError
        If one of the first three is not a function.
    """
    for name, function in (("H_d", H_d), ("F_plus", F_plus), ("F_minus", F_minus)):
        if not callable(function) and (function is not None or name == "H_d"):
            raise TypeError(f"{name}: expected a function of (t, q, p_next, noise, params), got {function!r}")
    return _FromDiscrete(H_d, F_plus, F_minus, tol, limit)
