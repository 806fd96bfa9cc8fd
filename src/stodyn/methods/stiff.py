"""Methods for index-1 SDAEs M dX = f dt + g dW and stiff Ito SDEs: stiffly accurate Runge-Kutta and its competitors."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from fractions import Fraction as Q
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from stodyn.methods.contract import Claim, Method, Report
from stodyn.methods.milstein import ByArea
from stodyn.methods.stiff_table import StiffTable
from stodyn.methods.tableau import Tabulated
from stodyn.noise import wiener
from stodyn.noise.increment import Recipe
from stodyn.noise.iterated import MrongowiusRoessler
from stodyn.numerics.elimination import Order, determinant, factorised, is_written_out, only_where, solved
from stodyn.numerics.elimination import solve as eliminate
from stodyn.numerics.newton import newton
from stodyn.numerics.sparse import Elimination
from stodyn.numerics.surd import Number, sqrt
from stodyn.problems.sdae import SDAE

_PAPER = "D. Küpper, A. Kværnø & A. Rößler, A Runge-Kutta method for index 1 stochastic differential-algebraic \
equations with scalar noise, BIT 52 (2012), NTNU preprint 6/2010"
_STABLE = f"stodyn, in the class of {_PAPER}, who call for A-stable methods of order 1; such methods may be in \
their Stability analysis and classification of Runge-Kutta methods for index 1 stochastic differential-algebraic \
equations with scalar noise, Appl. Numer. Math. 96 (2015)"
_MANY = f"stodyn; the stages of {_PAPER}, with the I_(j,k) as in E. Platen's and A. Rößler's schemes"


DIP = (
    0.1  # the determinant d of the constraints is examined where it falls within a step to this part of its end values
)
TOUCH, NEAR = 1e-3, 1.0 / 64.0  # d touches zero where it falls to TOUCH of its value within NEAR of a step
ROUNDS = 40  # the most evaluations of d in the search for its minimum
LARGE = 600.0  # the largest logarithm of a determinant relative to another; beyond it the size does not matter


def _touches_zero(d: Callable[[Array], Array], begin: Array, middle: Array, end: Array) -> Array:
    """Whether the minimum of d >= 0 between 0 and 1 is zero: less than TOUCH of the value of d at a distance of NEAR.

    This distinguishes a root of any order from a value that is small because many regular constraints decrease at once.
    The minimum lies between a and b, a < m < b; every round evaluates d in the longer half.
    """

    class Bracket(NamedTuple):
        rounds: Array
        a: Array
        m: Array
        b: Array
        at_a: Array
        at_m: Array
        at_b: Array
        rim: Array

    def touches(now: Bracket) -> Array:
        return (now.b - now.a <= NEAR) & (now.at_m <= TOUCH * now.rim)

    def narrowed(now: Bracket) -> Bracket:
        left = now.m - now.a > now.b - now.m
        u = jnp.where(left, 0.5 * (now.a + now.m), 0.5 * (now.m + now.b))
        at_u = d(u)
        lower = at_u < now.at_m
        # the neighbour of the new middle: the old middle, or u
        beside, at_beside = jnp.where(lower, now.m, u), jnp.where(lower, now.at_m, at_u)
        ends_left = left ^ lower
        a, at_a = jnp.where(ends_left, beside, now.a), jnp.where(ends_left, at_beside, now.at_a)
        b, at_b = jnp.where(ends_left, now.b, beside), jnp.where(ends_left, now.at_b, at_beside)
        rim = jnp.where(b - a > NEAR, jnp.minimum(at_a, at_b), now.rim)
        m, at_m = jnp.where(lower, u, now.m), jnp.where(lower, at_u, now.at_m)
        return Bracket(now.rounds + 1, a, m, b, at_a, at_m, at_b, rim)

    zero, one = jnp.zeros_like(middle), jnp.ones_like(middle)
    whole = Bracket(jnp.asarray(0, jnp.int32), zero, 0.5 * one, one, begin, middle, end, jnp.minimum(begin, end))
    return touches(lax.while_loop(lambda now: (now.rounds < ROUNDS) & ~touches(now), narrowed, whole))


class _Stage(NamedTuple):
    """Functions of the unknowns z that a stage eliminates: the residual of their equations, all unknowns Z, and the
    Jacobian of the residual."""

    residual: Callable[[Array], Array]
    whole: Callable[[Array], Array]
    jacobian: Callable[[Array], Array]


def _of_all_unknowns(residual: Callable[[Array], Array]) -> _Stage:
    """Return a stage that eliminates every unknown."""
    return _Stage(residual, lambda Z: Z, jax.jacfwd(residual))


class Stepping:
    """One step of a stiff method: it solves the stages, counts Newton rounds, and watches the constraint Jacobian.

    The unknown of a stage is its increment Z = H - x:
        R M Z = known + a R f(s, x + Z) + b R g(s, x + Z)   and   0 = N f(s, x + Z).
    With H itself as the unknown, the rounding errors of M H - M x would hide constraints of the size h f. Because A is
    triangular, each stage satisfies its constraints by itself.

    `share(s, a)` eliminates the matrix of this equation once for all stages with the same a: this is exact where f is
    affine, and simplified Newton where the matrix is large; paths on which that does not converge continue with Newton
    itself. A sparse matrix (problem.facts.sparsity) that is not shared is likewise eliminated once per stage, because a
    Jacobian costs as much as many solves. Small matrices are eliminated in every round: the faster convergence pays.
    """

    def __init__(self, method: Any, problem: SDAE, t, x: Array, params: Any):
        self.method, self.problem, self.t, self.x, self.params = method, problem, t, x, params
        self.facts, self.matrices = problem.facts, problem.matrices
        self.rates = self.matrices.rates(params, x.dtype)
        self.report = Report(jnp.asarray(True), jnp.asarray(0, jnp.int32), jnp.asarray(False))
        self.shared: Callable[[Array], Array] | None = None
        self.sign: Array | None = None

    def f(self, s, Z: Array) -> Array:
        """Return R f of a stage, the rates of its differential equations."""
        return self.matrices.equations(self.rates(s, self.x + Z))

    def g(self, s, Z: Array) -> Any:
        """g of a stage in the form that problem.push takes."""
        return self.problem.multiplier(s, self.x + Z, self.params)

    def residual(self, s, known: Array, a=None, b=None) -> Callable[[Array], Array]:
        """Z -> the residual of the equations of a stage."""

        def residual(Z: Array) -> Array:
            return self._defect(s, Z, self.rates(s, self.x + Z), known, a, b)

        return residual

    def _defect(self, s, Z: Array, drift: Array, known: Array, a=None, b=None) -> Array:
        problem = self.problem
        top = problem.matrices.momentum(Z) - known
        if a is not None:
            top = top - a * problem.matrices.equations(drift)
        if b is not None:
            top = top - problem.push(self.g(s, Z), b)
        return top if problem.r == problem.n else jnp.concatenate([top, problem.matrices.constraints(drift)])

    def _eliminated(self, s, known: Array, a=None, b=None) -> _Stage:
        """The equations of the unknowns that are eliminated. Stages that are implicit in the noise eliminate all."""
        problem, rest = self.problem, self.facts.rest
        if rest is None or b is not None:
            return _of_all_unknowns(self.residual(s, known, a, b))
        filtered = rest.filtered(self.x, known, a)
        nothing = jnp.zeros(len(rest.explicit.stored), self.x.dtype)

        def completed(z: Array) -> tuple[Array, Array]:
            return rest.completed(lambda x: self.rates(s, x), self.x, z, filtered)

        def residual(z: Array) -> Array:
            return self._defect(s, *completed(z), known, a)[rest.rows]

        def jacobian(z: Array) -> Array:
            return problem.matrices.of_rest(self.x + rest.whole(z, nothing, filtered), a, self.params)

        return _Stage(residual, lambda z: completed(z)[0], jacobian)

    def _start_of(self, guess: Array | None, b=None) -> Array:
        """Where Newton's method begins, of the unknowns that are eliminated."""
        whole = jnp.zeros_like(self.x) if guess is None else guess
        return whole if self.facts.rest is None or b is not None else whole[self.facts.rest.unknowns]

    def share(self, s, a) -> None:
        """Eliminate the matrix of the stages with this a once, at the start of the step, where that pays."""
        if not self.facts.is_affine and is_written_out(self.facts.unknowns, self.matrices.row_orders[0]):
            return
        self.shared = self._shared_by(s, a)

    def _shared_by(self, s, a) -> Callable[[Array], Array]:
        """r -> J⁻¹ r for the stages with this a. Where f is affine and sparse, J is made without the state, so that it
        is eliminated once for all steps."""
        nothing, slopes = jnp.zeros_like(self.x), self.matrices.constant_slopes(self.params, self.x.dtype)
        if slopes is None:
            stage = self._eliminated(s, self.matrices.momentum(nothing), a)
            return self._factorised(stage, self._start_of(None))

        def linear(Z: Array) -> Array:
            drift = slopes(Z)
            top = self.matrices.momentum(Z) - a * self.matrices.equations(drift)
            is_whole = self.problem.r == self.problem.n
            return top if is_whole else jnp.concatenate([top, self.matrices.constraints(drift)])

        return self._factorised(_of_all_unknowns(linear), nothing)

    def along_constraints(self, s) -> Callable[[Array], Array]:
        """r -> v with [R M; N f_x] v = r at x, where v has all unknowns, explicit ones among them."""
        nothing = jnp.zeros_like(self.x)
        stage = _of_all_unknowns(self.residual(s, self.matrices.momentum(nothing)))
        return self._factorised(stage, nothing, implicit_noise=self.facts.rest is not None)

    def solve(self, s, known: Array, a=None, b=None, guess: Array | None = None) -> tuple[Array, Report]:
        """Z of a stage, and the report of its solve."""
        stage = self._eliminated(s, known, a, b)
        shared = None if a is None or b is not None else self.shared
        start = self._start_of(guess, b)
        fresh = functools.partial(self._fresh, stage, implicit_noise=b is not None)
        if shared is None and self._sparse(b is not None) is not None:
            is_linear = self.facts.is_affine and a is not None and b is None
            shared = self._shared_by(s, a) if is_linear else self._factorised(stage, start, b is not None)
        reused = None if shared is None else lambda residual, Z, r: shared(r)
        if self.facts.is_affine and (b is None or self.facts.has_affine_noise):
            nothing = jnp.zeros_like(start)
            Z = -(reused or fresh)(stage.residual, nothing, stage.residual(nothing))
            ok, rounds = jnp.all(jnp.isfinite(Z)), jnp.asarray(1, jnp.int32)
            return stage.whole(Z), Report(ok if b is None else ok & self._before_the_pole(stage.residual, Z), rounds)
        order = self.matrices.row_orders[0]

        def twice(residual, z, r):
            return solved(stage.jacobian(z), r, order)

        is_small = reused is None and b is None and self.facts.rest is not None
        root = newton(stage.residual, start, tol=self.method.tol, limit=self.method.limit,
                      solve=None if is_small else reused or fresh, fallback=fresh if reused else None,
                      twice=twice if is_small else False, linear=self._linear(b is not None))  # fmt: skip
        ok = root.ok if b is None else root.ok & self._before_the_pole(stage.residual, root.x)
        return stage.whole(root.x), Report(ok, root.iterations, root.rounded)

    def stage(self, s, known: Array, a=None, b=None, guess: Array | None = None) -> Array:
        """Z of a stage; the report of its solve is added to that of the step."""
        Z, report = self.solve(s, known, a, b, guess)
        self.report = self.report.joined(report)
        return Z

    def end(self, h, Z: Array) -> tuple[Array, Report]:
        """x' = x + Z; not ok where the constraints' Jacobian is singular on the way, since there the index is not 1."""
        problem, after = self.problem, self.x + Z
        if problem.facts.has_constant_orientation:
            return after, self.report
        return after, self.report._replace(ok=self.report.ok & self._stays_regular(h, Z))

    def _stays_regular(self, h, Z: Array) -> Array:
        """Whether the determinant d of the constraints' Jacobian keeps its sign from x to x + Z without touching zero.

        It touches zero where its root is of even order or several constraints become singular at once. A parabola
        through d at both ends and in the middle shows whether d may have a small minimum between them; only then is it
        searched for (`_touches_zero`).
        """
        first, d = self._determinant_along(h, Z)
        last = d(1.0)
        sign, least = jnp.sign(first), jnp.minimum(jnp.abs(first), jnp.abs(last))
        begin, middle, end = sign * first, sign * d(0.5), sign * last
        bent, slope = 2.0 * (begin - 2.0 * middle + end), 4.0 * middle - 3.0 * begin - end
        u = -0.5 * slope / jnp.where(bent > 0, bent, 1.0)
        dips = (bent > 0) & (u > 0) & (u < 1) & (begin + 0.5 * slope * u < DIP * least)
        touched = only_where(dips, lambda: _touches_zero(lambda u: sign * d(u), begin, middle, end))
        return (sign * last > 0) & (middle > 0) & ~touched

    # --- matrices: sparse ones in the elimination order of the problem, others by rows or by the library --------------

    def _sparse(self, implicit_noise: bool = False) -> Elimination | None:
        sparsity = self.facts.noisy_sparsity if implicit_noise else self.facts.sparsity
        return None if sparsity is None else sparsity.matrix

    def _factorised(self, stage: _Stage, z: Array, implicit_noise: bool = False) -> Callable[[Array], Array]:
        """r -> J⁻¹ r for the Jacobian of a stage at z."""
        if (sparse := self._sparse(implicit_noise)) is not None:
            return sparse.factorised(sparse.pattern.jacobian(stage.residual, z))
        return factorised(stage.jacobian(z), self._order(implicit_noise))

    def _fresh(self, stage: _Stage, residual: Callable, z: Array, r: Array, implicit_noise: bool) -> Array:
        """Return J⁻¹ r for a Jacobian that is used once."""
        if (sparse := self._sparse(implicit_noise)) is not None:
            return sparse.solve_at(residual, z, r)
        return eliminate(stage.jacobian(z), r, self._order(implicit_noise))

    def _linear(self, implicit_noise: bool) -> Callable[[Callable, Array, Array], Array]:
        """(residual, z, r) -> J⁻¹ r with the Jacobian of any residual that has the places of a stage's."""
        if (sparse := self._sparse(implicit_noise)) is not None:
            return sparse.solve_at
        order = self._order(implicit_noise)
        return lambda residual, z, r: eliminate(jax.jacfwd(residual)(z), r, order)

    def _order(self, implicit_noise: bool) -> Order:
        return None if implicit_noise and self.facts.rest is not None else self.matrices.row_orders[0]

    def _sign(self, residual: Callable, Z: Array, implicit_noise: bool = False) -> Array:
        """Return the sign of det J."""
        if (sparse := self._sparse(implicit_noise)) is not None:
            return sparse.determinant(sparse.pattern.jacobian(residual, Z))[0]
        unit = self.matrices.determinant_units[0]
        return jnp.sign(determinant(jax.jacfwd(residual)(Z), self._order(implicit_noise), unit))

    def _determinant_along(self, h, Z: Array) -> tuple[Array, Callable[[Any], Array]]:
        """The determinant of the constraints' Jacobian at x, and at x + u Z as a function of u.

        Both lack a factor that is the same for all u. For large systems, where the determinant may be of any size, the
        function gives it relative to its size at x.
        """
        problem = self.problem

        def at_rest(u) -> tuple[_Stage, Array]:
            """The equations of a step of no length at x + u Z, and their unknowns."""
            there = Stepping(self.method, problem, self.t + u * h, self.x + u * Z, self.params)
            return there._eliminated(there.t, jnp.zeros(problem.r, self.x.dtype)), there._start_of(None)

        if problem.facts.sparsity is None:

            def dense(u):
                if problem.facts.rest is None:
                    jacobian = problem.matrices.orientation(self.t + u * h, self.x + u * Z, self.params)
                else:
                    stage, nothing = at_rest(u)
                    jacobian = stage.jacobian(nothing)
                return determinant(jacobian, problem.matrices.row_orders[1], problem.matrices.determinant_units[1])

            return dense(0.0), dense
        matrix = problem.facts.sparsity.matrix

        def sparse(u):
            stage, nothing = at_rest(u)
            return matrix.determinant(matrix.pattern.jacobian(stage.residual, nothing))

        first, unit = sparse(0.0)

        def in_units(u):
            sign, size = sparse(u)
            return sign * jnp.exp(jnp.minimum(size - unit, LARGE))

        return first, in_units

    def _before_the_pole(self, residual: Callable[[Array], Array], Z: Array) -> Any:
        """Whether the determinant of a stage that is implicit in the noise has the sign it has for h = 0.

        b contains √h, so the inverse has poles at finite h; beyond a pole Z is not on a branch that h -> 0 can reach.
        """
        if not self.method.guard:
            return True
        if self.sign is None:
            nothing = jnp.zeros_like(self.x)
            self.sign = self._sign(self.residual(self.t, self.matrices.momentum(nothing)), nothing)
        return self._sign(residual, Z, implicit_noise=True) * self.sign > 0


@dataclasses.dataclass(frozen=True)
class _Stiff(Method):
    """The common part of the methods here: they take SDAEs and solve stages to `tol` in at most `limit` rounds."""

    accepts = SDAE
    calculus = "ito"
    guard = True

    def start(self, problem, t, x, params):
        return problem.consistent(t, x, params)

    def after_jump(self, problem, t, state, params):
        return self.start(problem, t, self.read(state), params)


@dataclasses.dataclass(frozen=True)
class StiffRungeKutta(Tabulated, _Stiff):
    """A stiffly accurate Runge-Kutta method; the equations are in stiff_table.StiffTable, x' is the last stage.

    The step of an SDAE is the step of its state-space form, so the order is the same. Tables that use W alone take any
    noise, the others scalar noise. One solve for n unknowns per implicit stage; if two or more stages have the same
    matrix (equal A_ii, no B3_ii) it is eliminated once per step.

    Parameters
    ----------
    table : StiffTable
        The coefficients; your own table is StiffTable(name=..., A=..., B1=..., claims=..., source=...).
    tol : float
        Newton's tolerance, relative to 1 + max|Z|.
    limit : int
        The most Newton rounds per stage.
    guard : bool
        Stages with B3_ii != 0 are implicit in the noise: the inverse of their matrix M - A_ii h f' - B3_ii √h g' has
        poles, and a step beyond a pole is reported as failed unless guard is False.
    """

    table: StiffTable = dataclasses.field(repr=False)
    tol: float = 1e-12
    limit: int = 20
    guard: bool = True

    needs = wiener.W

    def __post_init__(self):
        if not self.table.stiffly_accurate:
            raise ValueError(
                f"table: {self.table.name} is not stiffly accurate (α, β1, β2, β3 are not the last rows of A, B1, B2, "
                "B3): its x' would not satisfy the constraints. Leave α and β out, or add a last stage."
            )
        if not self.table.solvable:
            raise ValueError(
                f"table: {self.table.name} has a zero on the diagonal of A after its first stage, so that the "
                "constraints do not determine that stage; expected A_ii != 0 there."
            )

    @property
    def structures(self):
        return () if self.table.uses_W_alone else ("scalar",)

    def step(self, problem, t, x, noise, params):
        T, h, W = self.table, noise.h, noise.W
        root, s = jnp.sqrt(h), len(T.A)
        step = Stepping(self, problem, t, x, params)
        II = (W * W - h) / (2.0 * root)
        first = int(T.begins_explicitly)
        alike = {T.A[i][i] for i in range(first, s)}
        if len(alike) == 1 and s - first > 1 and not any(T.B3[i][i] for i in range(s)):
            step.share(t + float(T.c[first]) * h, float(*alike) * h)

        def kick(i, j):
            """The factor of g of stage j in stage i, (m,)."""
            terms = ((T.B1[i][j], W), (T.B2[i][j], II), (T.B3[i][j], root * jnp.ones_like(W)))
            return sum(float(b) * term for b, term in terms if b)

        @functools.cache
        def f(j):
            return h * step.f(t + float(T.c[j]) * h, Z[j])

        @functools.cache
        def g(j):
            return step.g(t + float(T.c[j]) * h, Z[j])

        Z = [jnp.zeros_like(x)] if first else []
        for i in range(first, s):
            known = jnp.zeros(problem.r, x.dtype)
            for j in range(i):
                known = known + float(T.A[i][j]) * f(j) if T.A[i][j] else known
                if any(B[i][j] for B in (T.B1, T.B2, T.B3)):
                    known = known + problem.push(g(j), kick(i, j))
            b = kick(i, i) if T.B3[i][i] else None
            Z.append(step.stage(t + float(T.c[i]) * h, known, float(T.A[i][i]) * h, b, Z[-1] if Z else None))
        return step.end(h, Z[-1])


_SCALAR = ("scalar",)
_FIRST_ORDER = (
    Claim("strong", 1.0, when=_SCALAR, source="Theorem 2.1 of the paper; its 14 conditions hold exactly"),
    Claim("deterministic", 2.0, source="order of A"),
)
_A_STABLE = Claim("A-stable", source="F >= 0 (analysis.stability_function); docs/a_stable.md")
_L_STABLE = Claim("L-stable", source="A-stable, and R̂ -> 0 for |h| -> ∞; docs/a_stable.md")
γ = 1 - sqrt(2) / 2  # of R. Alexander's L-stable method of order 2
_ALEXANDER = ((γ, 0, 0), (0, γ, 0), (sqrt(2) / 2, 0, γ))
_ZERO = (0, 0, 0)

ImplicitEuler = StiffRungeKutta(
    StiffTable(
        name="ImplicitEuler",
        what="Backward Euler, with noise from the start of the step",
        A=((0, 0), (0, 1)),
        B1=((0, 0), (1, 0)),
        claims=(
            Claim("strong", 0.5, source="Remark 2.2 of the paper"),
            Claim("strong", 1.0, when=("additive",), source="Kloeden & Platen (1992), section 12.2"),
            Claim("deterministic", 1.0),
            _A_STABLE,
            _L_STABLE,
        ),
        source=f"W. Römisch & R. Winkler, Stochastic DAEs in circuit simulation (2003); {_PAPER}",
    )
)
Trapezoidal = StiffRungeKutta(
    StiffTable(
        name="Trapezoidal",
        what="The trapezoidal rule, with noise from the start of the step",
        A=((0, 0), (Q(1, 2), Q(1, 2))),
        B1=((0, 0), (1, 0)),
        claims=(
            Claim("strong", 0.5, source="Example 2.3 of the paper"),
            Claim("strong", 1.0, when=("additive",), source="Kloeden & Platen (1992), section 12.2"),
            Claim("deterministic", 2.0, source="order of A"),
            _A_STABLE,
        ),
        source=f"R. Winkler, J. Comput. Appl. Math. 157 (2003); {_PAPER}",
    )
)
RK1W1 = StiffRungeKutta(
    StiffTable(
        name="RK1W1",
        what="Three-stage Runge-Kutta with a trapezoidal drift",
        A=(_ZERO, (0, Q(1, 2), 0), (Q(1, 2), 0, Q(1, 2))),
        B1=(_ZERO, _ZERO, (1, 0, 0)),
        B2=(_ZERO, _ZERO, (-1, 1, 0)),
        B3=(_ZERO, (1, 0, 0), _ZERO),
        claims=_FIRST_ORDER,
        source=_PAPER,
    )
)
RK1W2 = StiffRungeKutta(
    StiffTable(
        name="RK1W2",
        what="Three-stage Runge-Kutta with Alexander's L-stable drift",
        A=_ALEXANDER,
        B1=(_ZERO, _ZERO, (1, 0, 0)),
        B2=(_ZERO, _ZERO, (-1, 1, 0)),
        B3=(_ZERO, (1, 0, 0), _ZERO),
        claims=_FIRST_ORDER,
        source=f"{_PAPER}; reconstructed: its table is missing in print, and the order conditions leave only the scale "
        "B3_21 = 1/B2_32 = 1 open, which is that of RK1W1",
    )
)
RK1W3 = StiffRungeKutta(
    StiffTable(
        name="RK1W3",
        what="Runge-Kutta, Alexander's drift, noise from a middle stage",
        A=_ALEXANDER,
        B1=(_ZERO, (Q(1, 2), 0, 0), (0, 1, 0)),
        B3=(_ZERO, (Q(-1, 2), 0, 0), (-1, 1, 0)),
        claims=_FIRST_ORDER,
        source=_PAPER,
    )
)
RK1W4 = StiffRungeKutta(
    StiffTable(
        name="RK1W4",
        what="Runge-Kutta, Alexander's drift, noise from symmetric stages",
        A=((γ, 0, 0), (0, γ, 0), (sqrt(2) / 4, sqrt(2) / 4, γ)),
        B1=(_ZERO, _ZERO, (Q(1, 2), Q(1, 2), 0)),
        B2=(_ZERO, _ZERO, (Q(1, 2), Q(-1, 2), 0)),
        B3=((1, 0, 0), (0, -1, 0), _ZERO),
        claims=_FIRST_ORDER,
        source=_PAPER,
    )
)
RK1W5 = StiffRungeKutta(
    StiffTable(
        name="RK1W5",
        what="Three-stage Runge-Kutta with the diagonal 1/2, ODE order 1",
        A=((Q(1, 2), 0, 0), (Q(1, 2), Q(1, 2), 0), (0, Q(1, 2), Q(1, 2))),
        B1=(_ZERO, _ZERO, (0, 1, 0)),
        B2=(_ZERO, _ZERO, (1, -1, 0)),
        B3=((1, 0, 0), (Q(1, 2), Q(-1, 2), 0), _ZERO),
        claims=(_FIRST_ORDER[0], Claim("deterministic", 1.0, source="order of A")),
        source=_PAPER,
    )
)

# --- stable in mean square wherever the test equation is, for complex λ and μ; docs/a_stable.md -----------------------

_ZEROS = (0, 0, 0, 0)
# Ralston's nodes for the noise, ±√h/2 about them for I_(1,1): the errors at f'g, g'f and g''(g, g) are next to least.
_PAIRED: dict[str, Any] = {
    "B1": (_ZEROS, (Q(2, 3), 0, 0, 0), (Q(2, 3), 0, 0, 0), (Q(1, 4), Q(3, 8), Q(3, 8), 0)),
    "B3": (_ZEROS, (Q(1, 2), 0, 0, 0), (Q(-1, 2), 0, 0, 0), (0, Q(-1, 2), Q(1, 2), 0)),
}
_δ = sqrt(10) / 2 - 1  # 2δ² + 4δ = 3: the least ODE error that A-stability leaves three stages with a diagonal below 1

RK1A3 = StiffRungeKutta(
    StiffTable(
        name="RK1A3",
        what="Three-stage Runge-Kutta, A- and L-stable in mean square",
        A=((_δ, 0, 0), (0, _δ, 0), (1 - _δ, 0, _δ)),
        B1=(_ZERO, (Q(1, 2), 0, 0), (0, 1, 0)),
        B3=(_ZERO, (Q(-1, 2), 0, 0), (-1, 1, 0)),
        claims=(_FIRST_ORDER[0], Claim("deterministic", 1.0, source="order of A"), _A_STABLE, _L_STABLE),
        source=_STABLE,
    )
)
RK1A4 = StiffRungeKutta(
    StiffTable(
        name="RK1A4",
        what="Four-stage Runge-Kutta, A-stable in mean square, ODE order 2",
        A=(_ZEROS, (Q(7, 24), Q(3, 8), 0, 0), (Q(7, 24), 0, Q(3, 8), 0), (Q(7, 16), Q(3, 32), Q(3, 32), Q(3, 8))),
        claims=(*_FIRST_ORDER, _A_STABLE),
        source=_STABLE,
        **_PAIRED,
    )
)
RK1A4L = StiffRungeKutta(
    StiffTable(
        name="RK1A4L",
        what="Four-stage Runge-Kutta, A- and L-stable in mean square",
        A=(
            (Q(1, 4), 0, 0, 0),
            (Q(7, 12), Q(1, 4), 0, 0),
            (Q(7, 12), 0, Q(1, 4), 0),
            (Q(9, 14), Q(3, 56), Q(3, 56), Q(1, 4)),
        ),
        claims=(*_FIRST_ORDER, _A_STABLE, _L_STABLE),
        source=_STABLE,
        **_PAIRED,
    )
)


# --- many channels ----------------------------------------------------------------------------------------------------


def _integrals(problem, noise, area: Recipe | None) -> Array:
    """I_(j,k) (m, m), from the recipe, or as (W_j W_k - δ_jk h)/2, which is enough where the noise commutes."""
    if area is None:
        return 0.5 * (jnp.outer(noise.W, noise.W) - noise.h * jnp.eye(problem.m, dtype=noise.W.dtype))
    if noise.II is None:
        raise ValueError(
            f"area: expected a recipe that gives I_(j,k), got {area}; take iterated.MrongowiusRoessler(p), for example"
        )
    return noise.II


class _Drift(NamedTuple):
    """The drift coefficients of a method for many channels (c = a21 + a, α1 + α2 + a = 1), its scale z and claims."""

    a: Number
    a21: Number
    α1: Number
    α2: Number
    z: Q
    order: float
    what: str
    claims: tuple[Claim, ...] = ()

    @property
    def c(self) -> Number:
        return self.a21 + self.a

    @property
    def uses_start(self) -> bool:
        return bool(self.a21 or self.α1)


_ALEXANDERS = _Drift(γ, 0, 0, sqrt(2) / 2, Q(1), 2.0, "Runge-Kutta, Alexander's L-stable drift")
_DRIFTS = {
    "W2": _ALEXANDERS,
    "WR": _ALEXANDERS._replace(what="Runge-Kutta, Alexander's drift, stage pairs"),
    "A3": _Drift(_δ, 0, 0, 1 - _δ, Q(1, 2), 1.0, "Runge-Kutta, A- and L-stable in mean square", (_A_STABLE, _L_STABLE)),
    "A4": _Drift(
        Q(3, 8), Q(1, 4), Q(17, 40), Q(1, 5), Q(1, 4), 2.0, "Runge-Kutta, A-stable in mean square", (_A_STABLE,)
    ),
    "AT": _Drift(Q(1, 2), 0, Q(1, 2), 0, Q(1, 4), 2.0, "Trapezoidal rule, noise from the middle", (_A_STABLE,)),
}


@dataclasses.dataclass(frozen=True)
class _ManyChannels(ByArea, _Stiff):
    """Stiffly accurate Runge-Kutta for any number of channels, with one of two noise corrections K:

    M H0 = M x + h (a21 f(t, x) + a f(t + ch, H0)),   c = a21 + a
    M x' = M x + h (α1 f(t, x) + α2 f(t + ch, H0) + a f(t + h, x')) + Σ_k I_k g_k(H0) + K
    RK1WRM      K = Σ_k √h/2 (g_k(H_k⁺) - g_k(H_k⁻)),            M H_k± as M H0, ± Σ_l I_(l,k)/√h g_l(H0)
    the others  K = Σ_lk I_(l,k)/(z √h) (g_k(H_l) - g_k(H0)),    M H_l  as M H0, + z √h g_l(H0)

    RK1W2M, RK1WRM  R. Alexander's drift, a = 1 - √2/2, α2 = √2/2, z = 1: order 2 for ODEs, L-stable there
    RK1A3M          a = √10/2 - 1, α2 = 1 - a, z = 1/2: order 1 for ODEs, A- and L-stable in mean square
    RK1A4M          a = 3/8, a21 = 1/4, α1 = 17/40, α2 = 1/5, z = 1/4: order 2 for ODEs, A-stable in mean square
    RK1ATM          a = α1 = 1/2, z = 1/4: the trapezoidal rule, noise from the middle of the step: order 2 for ODEs,
                    A-stable in mean square, second moments of linear systems to order 2; Trapezoidal for additive noise

    Strong order 1. m + 2 solves per step (RK1WRM: 2m + 2; additive noise: 2) share one elimination. For one channel the
    method is the Runge-Kutta method with its `table`, which for RK1W2M is RK1W2.

    Parameters
    ----------
    area : Recipe, optional
        A recipe that gives I_(l,k). Without it the method takes noise that commutes (in the state-space form), for
        which W is enough; with it, any noise, down to the step h at which the rms error of the recipe is h^(3/2).
    tol : float
        Newton's tolerance, relative to 1 + max|Z|.
    limit : int
        The most Newton rounds per stage.
    """

    form: str = dataclasses.field(repr=False)
    area: Recipe | None = None
    tol: float = 1e-12
    limit: int = 20

    citation = _MANY

    @property
    def drift(self) -> _Drift:
        return _DRIFTS[self.form]

    @property
    def claims(self):
        return (
            Claim("strong", 1.0, source="moments of the remainder, as for A. Rößler's SRI schemes; measured"),
            Claim("deterministic", self.drift.order, source="order of the drift's table"),
            *self.drift.claims,
        )

    @property
    def summary(self):
        return f"{self.drift.what}, {'commuting noise' if self.area is None else 'with Lévy areas'}"

    @property
    def name(self):
        return f"RK1{self.form}M" if self.area is None else f"RK1{self.form}MLevy"

    @property
    def table(self) -> StiffTable:
        """The table for one channel; its stages are x (where the drift uses it), H0, H_1 (or H_1⁺ and H_1⁻), x'."""
        d, paired, first = self.drift, self.form == "WR", int(self.drift.uses_start)
        s = first + 3 + paired
        rows: dict[str, Any] = {name: [[0] * s for _ in range(s)] for name in ("A", "B1", "B2", "B3")}
        A, B1, B2, B3 = rows.values()
        for i in range(first, s):
            A[i][0], A[i][i] = d.a21, d.a
        A[-1][0], A[-1][first], B1[-1][first] = d.α1, d.α2, 1
        if paired:
            B2[first + 1][first], B2[first + 2][first] = 1, -1
            B3[-1][first + 1], B3[-1][first + 2] = Q(1, 2), Q(-1, 2)
        else:
            B3[first + 1][first], B2[-1][first], B2[-1][first + 1] = d.z, -1 / d.z, 1 / d.z
        rows = {name: tuple(map(tuple, matrix)) for name, matrix in rows.items()}
        claims = tuple(dataclasses.replace(claim, when=_SCALAR) for claim in self.claims)
        return StiffTable(name=self.name, claims=claims, source=self.citation, **rows)

    def step(self, problem, t, x, noise, params):
        d, h = self.drift, noise.h
        a, s = float(d.a) * h, t + float(d.c) * h
        step = Stepping(self, problem, t, x, params)
        step.share(s, a)
        early = late = jnp.zeros(problem.r, x.dtype)
        if d.uses_start:
            f = h * step.f(t, jnp.zeros_like(x))
            early, late = float(d.a21) * f, float(d.α1) * f
        Z = step.stage(s, early, a)
        g0 = step.g(s, Z)
        known = late + problem.push(g0, noise.W)
        known = known + float(d.α2) * h * step.f(s, Z) if d.α2 else known
        if not problem.noise_structure.implies("additive"):
            J = _integrals(problem, noise, self.area) / jnp.sqrt(h)
            correction = self._from_pairs if self.form == "WR" else self._from_differences
            known = known + correction(step, s, a, early, Z, g0, J, jnp.sqrt(h))
        return step.end(h, step.stage(t + h, known, a, guess=Z))

    def _from_differences(self, step, s, a, early, Z, g0, J, root):
        def channel(carry, inputs):
            total, report = carry
            kick, row = inputs
            H, solved = step.solve(s, early + kick, a, guess=Z)
            return (total + step.matrices.push(step.g(s, H) - g0, row), report.joined(solved)), None

        kicks = step.matrices.kicks(g0)
        begin = (jnp.zeros_like(kicks[0]), step.report)
        z = float(self.drift.z)
        (total, step.report), _ = lax.scan(channel, begin, (z * root * kicks, J / z))
        return total

    def _from_pairs(self, step, s, a, early, Z, g0, J, root):
        def channel(carry, inputs):
            total, report = carry
            kick, unit = inputs
            ahead, solved_ahead = step.solve(s, early + kick, a, guess=Z)
            behind, solved_behind = step.solve(s, early - kick, a, guess=Z)
            change = 0.5 * root * step.matrices.push(step.g(s, ahead) - step.g(s, behind), unit)
            return (total + change, report.joined(solved_ahead).joined(solved_behind)), None

        kicks = (step.matrices.kicks(g0).T @ J).T
        begin = (jnp.zeros_like(kicks[0]), step.report)
        units = jnp.eye(g0.shape[1], dtype=kicks.dtype)
        (total, step.report), _ = lax.scan(channel, begin, (kicks, units))
        return total


RK1W2M = _ManyChannels("W2")
RK1W2MLevy = _ManyChannels("W2", area=MrongowiusRoessler(4))
RK1WRM = _ManyChannels("WR")
RK1WRMLevy = _ManyChannels("WR", area=MrongowiusRoessler(4))
RK1A3M = _ManyChannels("A3")
RK1A3MLevy = _ManyChannels("A3", area=MrongowiusRoessler(4))
RK1A4M = _ManyChannels("A4")
RK1A4MLevy = _ManyChannels("A4", area=MrongowiusRoessler(4))
RK1ATM = _ManyChannels("AT")
RK1ATMLevy = _ManyChannels("AT", area=MrongowiusRoessler(4))


# --- for comparison ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _SplitStepEuler(_Stiff):
    """Split-step backward Euler: M H = M x + h f(t+h, H), then M x' = M H + Σ_k g_k(t+h, H) W_k with 0 = N f(t+h, x').

    Takes any noise. Strong order 1/2 (1 for additive noise). Two solves per step, of which the second puts x' onto the
    constraints.

    Parameters
    ----------
    tol : float
        Newton's tolerance, relative to 1 + max|Z|.
    limit : int
        The most Newton rounds per stage.
    """

    tol: float = 1e-12
    limit: int = 20

    name = "SplitStepEuler"
    needs = wiener.W
    citation = "D. J. Higham, X. Mao & A. M. Stuart, SIAM J. Numer. Anal. 40 (2002); for SDAEs R. Winkler, J. Comput. \
Appl. Math. 157 (2003)"
    claims = (
        Claim("strong", 0.5, source="Higham, Mao & Stuart (2002)"),
        Claim("strong", 1.0, when=("additive",), source="Milstein's terms are zero"),
        Claim("deterministic", 1.0),
    )

    def step(self, problem, t, x, noise, params):
        h, step = noise.h, Stepping(self, problem, t, x, params)
        Z = step.stage(t + h, jnp.zeros(problem.r, x.dtype), h)
        known = problem.matrices.momentum(Z) + problem.push(step.g(t + h, Z), noise.W)
        return step.end(h, step.stage(t + h, known, guess=Z))


@dataclasses.dataclass(frozen=True)
class _StiffMilstein(ByArea, _Stiff):
    """Drift-implicit Milstein: M x' = M x + h f(t+h, x') + Σ_k g_k W_k + Σ_jk (∂g_k/∂x v_j) I_(j,k).

    v_j is the direction in which channel j pushes a state that stays on the constraints: R M v_j = R g_j,
    N f_x v_j = 0. Strong order 1. One solve per step, and one derivative of g per channel and step.

    Parameters
    ----------
    area : Recipe, optional
        A recipe that gives I_(j,k), for noise that does not commute; as for RK1W2M.
    tol : float
        Newton's tolerance, relative to 1 + max|Z|.
    limit : int
        The most Newton rounds per step.
    """

    area: Recipe | None = None
    tol: float = 1e-12
    limit: int = 20

    citation = "R. Winkler, Stochastic differential algebraic equations of index 1 and applications in circuit \
simulation, J. Comput. Appl. Math. 157 (2003)"
    claims = (
        Claim("strong", 1.0, source="Winkler (2003)"),
        Claim("deterministic", 1.0),
    )

    @property
    def summary(self):
        noise = "noise that commutes" if self.area is None else "any noise, with Lévy areas"
        return f"Drift-implicit Milstein for {noise}"

    @property
    def name(self):
        return "StiffMilstein" if self.area is None else "StiffMilsteinLevy"

    def step(self, problem, t, x, noise, params):
        h, step = noise.h, Stepping(self, problem, t, x, params)
        nothing = jnp.zeros_like(x)
        g0 = step.g(t, nothing)
        known = problem.push(g0, noise.W)
        if not problem.noise_structure.implies("additive"):
            I = _integrals(problem, noise, self.area)
            along = step.along_constraints(t)
            for j in range(problem.m):
                v = along(jnp.concatenate([problem.matrices.kicks(g0)[j], jnp.zeros(problem.n - problem.r, x.dtype)]))
                known = known + jax.jvp(lambda Z: problem.push(step.g(t, Z), I[j]), (nothing,), (v,))[1]
        return step.end(h, step.stage(t + h, known, h))


StiffMilstein = _StiffMilstein()
StiffMilsteinLevy = _StiffMilstein(area=MrongowiusRoessler(4))
SplitStepEuler = _SplitStepEuler()


class _Past(NamedTuple):
    x: Array
    move: Array  # R M (x - x⁻)
    kick: Array  # R g W of the previous step


@dataclasses.dataclass(frozen=True)
class _BDF2Maruyama(_Stiff):
    """Two-step backward differences: M (x' - 4/3 x + 1/3 x⁻) = 2/3 h f(t+h, x') + g(t, x) W - 1/3 g(t-h, x⁻) W⁻.

    Takes any noise. Strong order 1/2 (1 for additive noise); where the noise is small the error falls like h² down to
    the level of the noise. One solve per step. All steps must be equal; the first is an implicit Euler step.

    Parameters
    ----------
    tol : float
        Newton's tolerance, relative to 1 + max|Z|.
    limit : int
        The most Newton rounds per step.
    """

    tol: float = 1e-12
    limit: int = 20

    name = "BDF2Maruyama"
    needs = wiener.W
    citation = "E. Buckwar & R. Winkler, SIAM J. Numer. Anal. 44 (2006); T. Sickenberger, E. Weinmüller & R. Winkler, \
BIT 49 (2009)"
    claims = (
        Claim("strong", 0.5, source="Buckwar & Winkler (2006)"),
        Claim("strong", 1.0, when=("additive",), source="Buckwar & Winkler (2006)"),
        Claim("deterministic", 2.0, source="order of BDF2"),
    )
    starting_steps = 1

    def start(self, problem, t, x, params):
        nothing = jnp.zeros(problem.r, x.dtype)
        return _Past(problem.consistent(t, x, params), nothing, nothing)

    def read(self, state):
        return state.x

    def starting_step(self, k, problem, t, state, noise, params):
        return self._advance(problem, t, state, noise, params, jnp.zeros_like(state.move), 1.0)

    def step(self, problem, t, state, noise, params):
        return self._advance(problem, t, state, noise, params, (state.move - state.kick) / 3.0, 2.0 / 3.0)

    def _advance(self, problem, t, state, noise, params, from_before, β):
        h, step = noise.h, Stepping(self, problem, t, state.x, params)
        kick = problem.push(step.g(t, jnp.zeros_like(state.x)), noise.W)
        Z = step.stage(t + h, from_before + kick, β * h)
        x, report = step.end(h, Z)
        return _Past(x, problem.matrices.momentum(Z), kick), report


BDF2Maruyama = _BDF2Maruyama()
