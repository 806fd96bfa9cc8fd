"""Explicit Runge-Kutta methods for ordinary differential equations, applied to x' = f(t, x) + g(t, x) w, w white noise.

Each step draws new samples w_i, one per stage, of mean 0 and covariance E w_i w_j' = (Γ/h) C_ij:

    k_i = f(t + c_i h, X_i) + g(t + c_i h, X_i) w_i,    X_i = x + h Σ_j a_ij k_j,    x' = x + h Σ_i b_i k_i.

Γ = 1/(b'Cb) gives the state the covariance of the continuous process as h -> 0. The limit is the Ito equation with the
drift f + κ Σ_k (∂g_k/∂x) g_k, κ = Γ Σ_ij b_i a_ij C_ij: Ito for κ = 0, Stratonovich for κ = 1/2, neither otherwise.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from fractions import Fraction as Q
from typing import Any

import numpy as np

from stodyn.methods.contract import EXPLICIT, Claim, Method
from stodyn.noise import wiener
from stodyn.noise.increment import Recipe
from stodyn.noise.stages import Stages
from stodyn.numerics.surd import Surd, sqrt
from stodyn.problems.calculus import correction
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import CovarianceError

Number = Any  # int, Fraction, Surd: exact; or float
Row = tuple[Number, ...]
EXACT = (int, Fraction, Surd)
HIGHEST_ORDER = 8  # of the order conditions that are checked
TOLERANCE = 1e-9  # of order conditions in floating point


@dataclasses.dataclass(frozen=True)
class ExplicitRungeKutta(Method):
    """An explicit Runge-Kutta method with the table (A, b) and correlated noise in its stages; equations in the module.

    Weak order 1 (2 for additive noise where conditions ii and iii hold, which of the tables here only RK2 with held
    noise satisfies); without noise, the order of the table. One evaluation of f and g per stage.

    Parameters
    ----------
    A, b : sequences
        The table. Entries may be ints, fractions.Fraction or surds, which stay exact, or floats.
    noise : str, number or matrix
        "held" (the default): one sample per step, C_ij = 1; needs W alone, Γ = 1, Stratonovich for tables of order 2
        and more. "fresh": a new sample per stage, C = I; Γ = 1/Σ b_i², Ito. A number ρ: C_ij = ρ between different
        stages. Or the matrix C itself.
    gamma : float, optional
        Used in place of Γ, to show the effect of a wrong scaling.
    compensate : bool
        Subtract κ Σ_k (∂g_k/∂x) g_k from the drift, so that the scheme solves the Ito equation whatever its κ.
    embedded : sequence, optional
        A second row of weights; `estimate` gives the difference of the two results.
    variances : sequence, optional
        The variances of the samples of the stages relative to Γ/h, for a table made for "fresh" noise; 1 by default.
    name, citation, what : str
        The name of the method, its source, and a few words on what it is.

    References
    ----------
    T. L. Riggs, Modeling continuous-time random processes in digital computer simulations (1986), with corrections.

    Examples
    --------
    >>> from stodyn.methods.classical import ExplicitRungeKutta
    >>> midpoint = ExplicitRungeKutta(A=[[], [0.5]], b=[0, 1])
    >>> midpoint.order, midpoint.calculus
    (2, 'stratonovich')
    """

    A: Sequence[Sequence[Number]] = dataclasses.field(repr=False)
    b: Sequence[Number] = dataclasses.field(repr=False)
    noise: str | float | Sequence[Sequence[Number]] = "held"
    gamma: float | None = None
    compensate: bool = False
    embedded: Sequence[Number] | None = dataclasses.field(default=None, repr=False)
    variances: Sequence[Number] | None = dataclasses.field(default=None, repr=False)
    name: str = dataclasses.field(default="ExplicitRungeKutta", repr=False)
    citation: str = dataclasses.field(default="a table of the user's own", repr=False)
    what: str = dataclasses.field(default="", repr=False, compare=False)

    accepts = SDE

    def __post_init__(self):
        fill = object.__setattr__
        fill(self, "b", _row("b", self.b))
        s = len(self.b)
        fill(self, "A", _lower_triangle(self.A, s))
        for name in ("embedded", "variances"):
            if getattr(self, name) is not None:
                fill(self, name, _row(name, getattr(self, name), s))
        if not isinstance(self.noise, str) and np.ndim(self.noise) != 0:
            fill(self, "noise", tuple(_row("noise", row, s) for row in self.noise))  # type: ignore[union-attr]
        if self.gamma is not None and not (math.isfinite(self.gamma) and self.gamma > 0):
            raise ValueError(f"gamma: expected a factor > 0, got {self.gamma!r}; leave it out for Γ = 1/(b'Cb)")
        if abs(float(sum(self.b)) - 1.0) > TOLERANCE:
            raise ValueError(f"b: the weights add up to {float(sum(self.b)):.12g}, expected 1")
        if isinstance(self.noise, str) and self.noise not in ("held", "fresh"):
            raise ValueError(f'noise: expected "held", "fresh", a number or a matrix, got {self.noise!r}')
        _check_correlation(self.C, self.noise, s)
        if self.order >= 2 and not _equal(self.c1, 1):
            tell(
                f"{self.name}: with this noise the covariance has an error of order h, c1 = 2 b'aCb/b'Cb = "
                f"{float(self.c1):.6g} is not 1. Hold the sample (noise='held'), or take RK4 or RK2 for fresh noise.",
                CovarianceError,
            )

    @property
    def summary(self) -> str:
        words = {"held": "held noise", "fresh": "fresh noise"}
        return (
            (self.what or f"{len(self.b)}-stage Runge-Kutta")
            + f" of order {self.order}"
            + (" for linear systems" if self.variances else "")
            + (", error estimate" if self.embedded else "")
            + f", {words.get(str(self.noise), 'correlated noise')}"
        )

    # --- properties of the table, exact where its entries are ------------------------------------------------------

    @functools.cached_property
    def C(self) -> tuple[Row, ...]:
        """The correlation of the samples of a step: E w_i w_j' = (Γ/h) C_ij."""
        s = len(self.b)
        if self.noise == "held":
            return ((1,) * s,) * s
        if isinstance(self.noise, tuple):
            C = self.noise
        else:
            diagonal = self.variances or (1,) * s
            beside = 0 if self.noise == "fresh" else self.noise
            C = tuple(tuple(diagonal[i] if i == j else beside for j in range(s)) for i in range(s))
        exact = all(isinstance(x, EXACT) for row in C for x in row)
        return C if exact else tuple(tuple(float(x) for x in row) for row in C)

    @property
    def c(self) -> Row:
        """The times of the stages, c_i = Σ_j a_ij."""
        return tuple(sum(row) for row in self.A)

    @functools.cached_property
    def Gamma(self) -> Number:
        """Γ = 1/(b'Cb): samples of covariance ΓQ/h give white noise of intensity Q as h -> 0."""
        return _reciprocal(self._form(self.b, self.b))

    @functools.cached_property
    def kappa(self) -> Number:
        """κ = Γ Σ_ij b_i a_ij C_ij: 0 is Ito, 1/2 Stratonovich."""
        C = self.C
        stages = range(len(self.b))
        total = sum(_product(self.b[i], self.A[i][j], C[i][j]) for i in stages for j in stages)
        return _plain(_product(self.Gamma, total))

    @functools.cached_property
    def c1(self) -> Number:
        """c1 = 2 Γ b'aCb (condition ii): the coefficient of hA in the noise of a step, 1 in the continuous process."""
        second = self.rows[1] if len(self.rows) > 1 else (0,) * len(self.b)
        return _plain(_product(2, self.Gamma, self._form(second, self.b)))

    @functools.cached_property
    def drift_spread(self) -> Number:
        """Γ Σ_i b_i (aCa')_ii (condition iii): 1/2 where E f(x) of a curved f is right to second order."""
        total = sum(_product(b_i, self._form(a_i, a_i)) for b_i, a_i in zip(self.b, self.A, strict=True))
        return _plain(_product(self.Gamma, total))

    @functools.cached_property
    def rows(self) -> tuple[Row, ...]:
        """b', b'a, b'a², ...: the noise of stage j enters x' by h Σ_k (hA)^k (b'a^k)_j w_j for x' = A x + w."""
        rows = [self.b]
        while any(rows[-1]):
            rows.append(
                tuple(sum(_product(r, a[j]) for r, a in zip(rows[-1], self.A, strict=True)) for j in range(len(self.b)))
            )
        return tuple(tuple(map(_plain, row)) for row in rows[:-1])

    @property
    def R(self) -> Row:
        """The coefficients of the stability function R(z) = 1 + Σ_k z^(k+1) b'a^k 1."""
        return (1, *(_plain(sum(row)) for row in self.rows))

    @property
    def covariance_coefficients(self) -> tuple[Row, ...]:
        """The coefficients [i][j] of h^(i+j+1) A^i Λ A'^j in the covariance that a step adds, Γ (b'a^i) C (b'a^j)'.

        Those of the continuous process are 1/((i + j + 1) i! j!).
        """
        return tuple(tuple(_plain(_product(self.Gamma, self._form(p, q))) for q in self.rows) for p in self.rows)

    @property
    def f(self) -> Row:
        """The coefficients of f(z): a step of x' = A x + w adds the variance h f(hA); (exp(2z) - 1)/(2z) is exact."""
        K = self.covariance_coefficients
        degrees = range(2 * len(K) - 1)
        return tuple(_plain(sum(K[i][d - i] for i in range(len(K)) if 0 <= d - i < len(K))) for d in degrees)

    @functools.cached_property
    def order(self) -> int:
        """The order of the table on ordinary differential equations."""
        return _order(self.A, self.b)

    @functools.cached_property
    def claims(self) -> tuple[Claim, ...]:
        claims = [Claim("deterministic", float(self.order), source="order conditions")]
        if self.gamma is not None:
            return tuple(claims)
        if self.calculus is None:
            claims.append(Claim("weak", 1.0, when=("additive",), source="Γ = 1/(b'Cb)"))
        else:
            claims.append(Claim("weak", 1.0, source="Γ and κ"))
        c_weighted = tuple(b * c for b, c in zip(self.b, self.c, strict=True))
        second = (2 * self.drift_spread, self.c1, _product(2, self.Gamma, self._form(c_weighted, self.b)))
        if self.order >= 2 and all(_equal(value, 1) for value in second):
            claims.append(Claim("weak", 2.0, when=("additive",), source="conditions ii and iii"))
        if self.noise == "held":
            claims.append(Claim("strong", 0.5, source="Rümelin (1982)"))
            when = "commutative" if self.order >= 2 else "additive"
            claims.append(Claim("strong", 1.0, when=(when,), source="Rümelin (1982)"))
        return tuple(claims)

    def _form(self, p: Sequence[Number], q: Sequence[Number]) -> Number:
        """Return the form p' C q."""
        return sum(_product(p_i, C_ij, q_j) for p_i, C_i in zip(p, self.C, strict=True) if p_i
                   for C_ij, q_j in zip(C_i, q, strict=True) if C_ij and q_j)  # fmt: skip

    # --- the step -------------------------------------------------------------------------------------------------

    @property
    def calculus(self) -> str | None:
        return "ito" if self.compensate else known_calculus(self.kappa)

    def refusal(self, problem) -> str | None:
        if self.calculus is None and not problem.noise_structure.implies("additive"):
            return neither(f"{self.name}(noise={self.noise!r})", self.kappa, problem)
        return None

    @functools.cached_property
    def needs(self) -> Recipe:
        if self.noise == "held" and self.gamma is None:
            return wiener.W
        scale = math.sqrt(float(self.Gamma) if self.gamma is None else self.gamma)
        factor = scale * _square_root(np.array([[float(x) for x in row] for row in self.C]), self.noise)
        return Stages(tuple(map(tuple, factor.tolist())), tuple(map(float, self.b)))

    def step(self, problem, t, x, noise, params):
        hk = self.stages(problem, t, x, noise, params, self.b)
        return weighted(x, self.b, hk), EXPLICIT

    def estimate(self, problem, t, x, noise, params):
        """x' with the weights b minus x' with the embedded weights: an error estimate for held noise.

        With fresh noise it is of size √h whatever the accuracy, since the two results average different samples.
        """
        if self.embedded is None:
            raise ValueError(f"{self.name} has no embedded weights; give embedded=, or take RKF45, RKF78 or DOPRI5")
        difference = tuple(b - e for b, e in zip(self.b, self.embedded, strict=True))
        hk = self.stages(problem, t, x, noise, params, difference)
        return weighted(x, difference, hk) - x

    @property
    def companion(self) -> ExplicitRungeKutta:
        """The method that steps with the embedded weights."""
        if self.embedded is None:
            raise ValueError(f"{self.name} has no embedded weights; give embedded=, or take RKF45, RKF78 or DOPRI5")
        name = f"{self.name}companion"
        return dataclasses.replace(self, b=self.embedded, embedded=self.b, gamma=None, name=name)

    def stages(self, problem, t, x, noise, params, weights: Sequence[Number]) -> dict[int, Any]:
        """h k_i of every stage that the result with these weights depends on."""
        h = noise.h
        samples = noise.W if self.noise == "held" and self.gamma is None else noise.aux["stages"]
        hk: dict[int, Any] = {}
        for i in _contributing_stages(self.A, weights):
            time = t + float(self.c[i]) * h if self.c[i] else t
            X = weighted(x, self.A[i], hk)
            drift = problem.f(time, X, params)
            if self.compensate and self.kappa:
                drift = drift - 2.0 * float(self.kappa) * correction(problem, time, X, params)
            hw = samples if samples.ndim == 1 else samples[i]
            hk[i] = h * drift + problem.push(time, X, params, hw)
        return hk


def weighted(x, row: Sequence[Number], values):
    """x + Σ row_j values_j over the nonzero entries."""
    for j, a in enumerate(row):
        if a:
            x = x + (values[j] if a == 1 else float(a) * values[j])
    return x


def known_calculus(kappa: Number) -> str | None:
    """The calculus that κ stands for, or None where it is neither Ito nor Stratonovich."""
    return "ito" if _equal(kappa, 0) else "stratonovich" if _equal(kappa, Q(1, 2)) else None


def neither(method: str, kappa: Number, problem) -> str:
    """Why a scheme whose κ is neither 0 nor 1/2 is refused for state-dependent noise."""
    return (
        f"{method} solves neither the Ito nor the Stratonovich equation of noise that depends on the state (κ = "
        f"{kappa if isinstance(kappa, EXACT) else format(float(kappa), '.6g')}; Ito is 0, Stratonovich 1/2), but this "
        f"problem's noise is {problem.noise_structure}. Take another noise option, or compensate=True to subtract the "
        "difference from the drift"
    )


# --- numbers and tables ---------------------------------------------------------------------------------------------


def _row(name: str, values: Sequence[Number], length: int | None = None) -> Row:
    row = tuple(v if isinstance(v, EXACT) and not isinstance(v, bool) else float(v) for v in values)
    if length is not None and len(row) != length:
        raise ValueError(f"{name}: expected {length} entries, one per stage, got {len(row)}")
    if not row or not all(math.isfinite(float(v)) for v in row):
        raise ValueError(f"{name}: expected finite numbers, got {row}")
    return row


def _lower_triangle(A: Sequence[Sequence[Number]], s: int) -> tuple[Row, ...]:
    """A as a square matrix; rows may end before the diagonal, and the first, empty row may be left out."""
    rows = [tuple(row) for row in A]
    if len(rows) == s - 1:
        rows = [(), *rows]
    if len(rows) != s or any(len(row) > s for row in rows):
        raise ValueError(f"A: expected {s} rows of at most {s} entries, as many as b has, got {[len(r) for r in rows]}")
    if any(value for i, row in enumerate(rows) for value in row[i:]):
        raise ValueError("A: expected zeros on and above the diagonal; the table must be explicit")
    return tuple(_row("A", (*row, *(0,) * (s - len(row)))) for row in rows)


def _check_correlation(C: tuple[Row, ...], noise: Any, s: int) -> None:
    matrix = np.array([[float(x) for x in row] for row in C])
    if matrix.shape != (s, s) or not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12):
        raise ValueError(f"noise: expected a symmetric matrix of shape ({s}, {s}), one row per stage, got {noise!r}")
    lowest = np.linalg.eigvalsh(matrix)[0]
    if lowest < -1e-12 * max(1.0, np.abs(matrix).max()):
        raise ValueError(
            f"noise: the correlation of the stages has the eigenvalue {lowest:.4g}, expected none below 0. "
            f"Equal correlations of {s} stages lie between {-1 / max(s - 1, 1):.4g} and 1."
        )


def _square_root(C: np.ndarray, noise: Any) -> np.ndarray:
    """F with F F' = C and as few columns as there are independent samples; diagonal where C is."""
    if noise == "held":
        return np.ones((len(C), 1))
    if not np.any(C - np.diag(np.diagonal(C))):
        return np.diag(np.sqrt(np.diagonal(C)))
    values, vectors = np.linalg.eigh(C)
    is_positive = values > 1e-12 * values[-1]
    return vectors[:, is_positive] * np.sqrt(values[is_positive])


def _contributing_stages(A: Sequence[Sequence[Number]], weights: Sequence[Number]) -> list[int]:
    """The stages that the result depends on."""
    wanted = {i for i, b in enumerate(weights) if b}
    for i in reversed(range(len(A))):
        if i in wanted:
            wanted |= {j for j, a in enumerate(A[i]) if a}
    return sorted(wanted)


def _plain(x: Number) -> Number:
    """The value as a Fraction where it is rational, unchanged otherwise."""
    if isinstance(x, Surd):
        return Fraction(x.parts.get(1, 0)) if set(x.parts) <= {1} else x
    return Fraction(x) if isinstance(x, int) else x


def _product(*factors: Number) -> Number:
    """The product, which is exact if all factors are."""
    return math.prod(map(float, factors)) if any(isinstance(x, float) for x in factors) else math.prod(factors)


def _reciprocal(q: Number) -> Number:
    """1/q, which is exact if q is."""
    if float(q) == 0.0:
        raise ValueError("noise: b'Cb is 0, so the samples of a step cancel; choose another correlation")
    return 1 / _plain(q)


def _equal(x: Number, y: Number) -> bool:
    return abs(float(x) - float(y)) <= TOLERANCE


Tree = tuple["Tree", ...]  # a rooted tree is the sorted tuple of the trees on its root


@functools.cache
def _trees(n: int) -> tuple[Tree, ...]:
    """The rooted trees of n vertices."""

    def forests(vertices: int, largest: int, last: int) -> Iterator[Tree]:
        if vertices == 0:
            yield ()
        for size in range(min(vertices, largest), 0, -1):
            kinds = _trees(size)
            for k in range(last if size == largest else len(kinds) - 1, -1, -1):
                for rest in forests(vertices - size, size, k):
                    yield (kinds[k], *rest)

    return ((),) if n == 1 else tuple(forests(n - 1, n - 1, len(_trees(n - 1)) - 1))


def _size(tree: Tree) -> int:
    return 1 + sum(map(_size, tree))


def _density(tree: Tree) -> int:
    return _size(tree) * math.prod(map(_density, tree))


@functools.lru_cache(maxsize=128)
def _order(A: Sequence[Sequence[Number]], b: Sequence[Number]) -> int:
    """The largest p <= HIGHEST_ORDER with Σ b_i Φ_i(τ) = 1/γ(τ) for all rooted trees τ of at most p vertices."""
    a, weights = np.array([[float(x) for x in row] for row in A]), np.array([float(x) for x in b])

    @functools.cache
    def Φ(tree: Tree) -> np.ndarray:
        product = np.ones(len(b))
        for branch in tree:
            product = product * (a @ Φ(branch))
        return product

    for p in itertools.count(1):
        if p > HIGHEST_ORDER or any(abs(weights @ Φ(tree) - 1 / _density(tree)) > TOLERANCE for tree in _trees(p)):
            return p - 1
    raise AssertionError


# --- the tables -----------------------------------------------------------------------------------------------------

Euler = ExplicitRungeKutta(
    ((),), (1,), name="Euler", what="Euler's step", citation="L. Euler, Institutionum calculi integralis (1768)"
)
RK2 = ExplicitRungeKutta(
    ((1,),),
    (Q(1, 2), Q(1, 2)),
    name="RK2",
    what="Heun's 2-stage Runge-Kutta",
    citation="K. Heun, Z. Math. Phys. 45 (1900) 23-38: the trapezoidal form",
)
ExplicitMidpoint = ExplicitRungeKutta(
    ((Q(1, 2),),),
    (0, 1),
    name="ExplicitMidpoint",
    what="The explicit midpoint rule",
    citation="C. Runge, Math. Ann. 46 (1895) 167-178: the midpoint form",
)
Ralston = ExplicitRungeKutta(
    ((Q(2, 3),),),
    (Q(1, 4), Q(3, 4)),
    name="Ralston",
    what="Ralston's 2-stage Runge-Kutta",
    citation="A. Ralston, Runge-Kutta methods with minimum error bounds, Math. Comp. 16 (1962) 431-437",
)
RK3 = ExplicitRungeKutta(
    ((Q(1, 2),), (-1, 2)),
    (Q(1, 6), Q(2, 3), Q(1, 6)),
    name="RK3",
    what="Kutta's 3-stage Runge-Kutta",
    citation="W. Kutta, Z. Math. Phys. 46 (1901) 435-453: the third-order form",
)
Heun3 = ExplicitRungeKutta(
    ((Q(1, 3),), (0, Q(2, 3))),
    (Q(1, 4), 0, Q(3, 4)),
    name="Heun3",
    what="Heun's 3-stage Runge-Kutta",
    citation="K. Heun, Z. Math. Phys. 45 (1900) 23-38: the third-order form",
)
SSP3 = ExplicitRungeKutta(
    ((1,), (Q(1, 4), Q(1, 4))),
    (Q(1, 6), Q(1, 6), Q(2, 3)),
    name="SSP3",
    what="Strong-stability-preserving Runge-Kutta",
    citation="C.-W. Shu & S. Osher, Efficient implementation of essentially non-oscillatory shock-capturing schemes, "
    "J. Comput. Phys. 77 (1988) 439-471",
)
RK4 = ExplicitRungeKutta(
    ((Q(1, 2),), (0, Q(1, 2)), (0, 0, 1)),
    (Q(1, 6), Q(1, 3), Q(1, 3), Q(1, 6)),
    name="RK4",
    what="The classical Runge-Kutta step",
    citation="W. Kutta, Z. Math. Phys. 46 (1901) 435-453",
)
ThreeEighths = ExplicitRungeKutta(
    ((Q(1, 3),), (Q(-1, 3), 1), (1, -1, 1)),
    (Q(1, 8), Q(3, 8), Q(3, 8), Q(1, 8)),
    name="ThreeEighths",
    what="Kutta's 3/8 Runge-Kutta",
    citation="W. Kutta, Z. Math. Phys. 46 (1901) 435-453: the 3/8 form",
)
_r2 = sqrt(2)
Gill = ExplicitRungeKutta(
    ((Q(1, 2),), ((_r2 - 1) / 2, (2 - _r2) / 2), (0, -_r2 / 2, 1 + _r2 / 2)),
    (Q(1, 6), (2 - _r2) / 6, (2 + _r2) / 6, Q(1, 6)),
    name="Gill",
    what="Gill's Runge-Kutta",
    citation="S. Gill, A process for the step-by-step integration of differential equations in an automatic digital "
    "computing machine, Proc. Camb. Phil. Soc. 47 (1951) 96-108",
)
_five_six = (Q(7, 90), 0, Q(32, 90), Q(12, 90), Q(32, 90), Q(7, 90))
RK56Butcher = ExplicitRungeKutta(
    (
        (Q(1, 4),),
        (Q(1, 8), Q(1, 8)),
        (0, Q(-1, 2), 1),
        (Q(3, 16), 0, 0, Q(9, 16)),
        (Q(-3, 7), Q(2, 7), Q(12, 7), Q(-12, 7), Q(8, 7)),
    ),
    _five_six,
    name="RK56Butcher",
    what="Butcher's 6-stage Runge-Kutta",
    citation="J. C. Butcher, On Runge-Kutta processes of high order, J. Austral. Math. Soc. 4 (1964) 179-194",
)
RK56Lawson = ExplicitRungeKutta(
    (
        (Q(1, 2),),
        (Q(3, 16), Q(1, 16)),
        (0, 0, Q(1, 2)),
        (0, Q(-3, 16), Q(6, 16), Q(9, 16)),
        (Q(1, 7), Q(4, 7), Q(6, 7), Q(-12, 7), Q(8, 7)),
    ),
    _five_six,
    name="RK56Lawson",
    what="Lawson's 6-stage Runge-Kutta",
    citation="J. D. Lawson, An order five Runge-Kutta process with extended region of stability, "
    "SIAM J. Numer. Anal. 3 (1966) 593-597",
)
KuttaNystrom = ExplicitRungeKutta(
    (
        (Q(1, 3),),
        (Q(4, 25), Q(6, 25)),
        (Q(1, 4), -3, Q(15, 4)),
        (Q(6, 81), Q(90, 81), Q(-50, 81), Q(8, 81)),
        (Q(6, 75), Q(36, 75), Q(10, 75), Q(8, 75)),
    ),
    (Q(23, 192), 0, Q(125, 192), 0, Q(-81, 192), Q(125, 192)),
    name="KuttaNystrom",
    what="Kutta and Nyström's Runge-Kutta",
    citation="E. J. Nyström, Über die numerische Integration von Differentialgleichungen, "
    "Acta Soc. Sci. Fenn. 50 (1925), after Kutta",
)
RKF45 = ExplicitRungeKutta(
    (
        (Q(1, 4),),
        (Q(3, 32), Q(9, 32)),
        (Q(1932, 2197), Q(-7200, 2197), Q(7296, 2197)),
        (Q(439, 216), -8, Q(3680, 513), Q(-845, 4104)),
        (Q(-8, 27), 2, Q(-3544, 2565), Q(1859, 4104), Q(-11, 40)),
    ),
    (Q(25, 216), 0, Q(1408, 2565), Q(2197, 4104), Q(-1, 5), 0),
    embedded=(Q(16, 135), 0, Q(6656, 12825), Q(28561, 56430), Q(-9, 50), Q(2, 55)),
    name="RKF45",
    what="Fehlberg's Runge-Kutta",
    citation="E. Fehlberg, Low-order classical Runge-Kutta formulas with stepsize control, NASA TR R-315 (1969)",
)
RKF78 = ExplicitRungeKutta(
    (
        (Q(2, 27),),
        (Q(1, 36), Q(1, 12)),
        (Q(1, 24), 0, Q(1, 8)),
        (Q(5, 12), 0, Q(-25, 16), Q(25, 16)),
        (Q(1, 20), 0, 0, Q(1, 4), Q(1, 5)),
        (Q(-25, 108), 0, 0, Q(125, 108), Q(-65, 27), Q(125, 54)),
        (Q(31, 300), 0, 0, 0, Q(61, 225), Q(-2, 9), Q(13, 900)),
        (2, 0, 0, Q(-53, 6), Q(704, 45), Q(-107, 9), Q(67, 90), 3),
        (Q(-91, 108), 0, 0, Q(23, 108), Q(-976, 135), Q(311, 54), Q(-19, 60), Q(17, 6), Q(-1, 12)),
        (Q(2383, 4100), 0, 0, Q(-341, 164), Q(4496, 1025), Q(-301, 82), Q(2133, 4100), Q(45, 82), Q(45, 164),
         Q(18, 41)),
        (Q(3, 205), 0, 0, 0, 0, Q(-6, 41), Q(-3, 205), Q(-3, 41), Q(3, 41), Q(6, 41), 0),
        (Q(-1777, 4100), 0, 0, Q(-341, 164), Q(4496, 1025), Q(-289, 82), Q(2193, 4100), Q(51, 82), Q(33, 164),
         Q(12, 41), 0, 1),
    ),
    (Q(41, 840), 0, 0, 0, 0, Q(34, 105), Q(9, 35), Q(9, 35), Q(9, 280), Q(9, 280), Q(41, 840), 0, 0),
    embedded=(0, 0, 0, 0, 0, Q(34, 105), Q(9, 35), Q(9, 35), Q(9, 280), Q(9, 280), 0, Q(41, 840), Q(41, 840)),
    name="RKF78", what="Fehlberg's Runge-Kutta",
    citation="E. Fehlberg, Classical fifth-, sixth-, seventh-, and eighth-order Runge-Kutta formulas with stepsize "
    "control, NASA TR R-287 (1968)",
)  # fmt: skip
DOPRI5 = ExplicitRungeKutta(
    (
        (Q(1, 5),),
        (Q(3, 40), Q(9, 40)),
        (Q(44, 45), Q(-56, 15), Q(32, 9)),
        (Q(19372, 6561), Q(-25360, 2187), Q(64448, 6561), Q(-212, 729)),
        (Q(9017, 3168), Q(-355, 33), Q(46732, 5247), Q(49, 176), Q(-5103, 18656)),
        (Q(35, 384), 0, Q(500, 1113), Q(125, 192), Q(-2187, 6784), Q(11, 84)),
    ),
    (Q(35, 384), 0, Q(500, 1113), Q(125, 192), Q(-2187, 6784), Q(11, 84), 0),
    embedded=(Q(5179, 57600), 0, Q(7571, 16695), Q(393, 640), Q(-92097, 339200), Q(187, 2100), Q(1, 40)),
    name="DOPRI5",
    what="Dormand-Prince",
    citation="J. R. Dormand & P. J. Prince, A family of embedded Runge-Kutta formulae, "
    "J. Comput. Appl. Math. 6 (1980) 19-26",
)
# For linear time-invariant systems: the covariance of a step is right to z², and nearly so beyond (for nonlinear drifts
# the order is 2). Copies of this table in public code leave the last entry of A unused and are then of first order.
Kasdin4 = ExplicitRungeKutta(
    (
        (Q("2.71644396264860"),),
        (Q("-6.95653259006152"), Q("0.78313689457981")),
        (0, Q("0.48257353309214"), Q("0.26171080165848")),
    ),
    (Q("0.47012396888046"), Q("0.36597075368373"), Q("0.08906615686702"), Q("0.07483912056879")),
    noise="fresh",
    variances=(Q("2.12709852335625"), Q("2.73245878238737"), Q("11.22760917474960"), Q("13.36199560336697")),
    name="Kasdin4",
    what="Kasdin's Runge-Kutta",
    citation="N. J. Kasdin, Runge-Kutta algorithm for the numerical integration of stochastic differential equations, "
    "J. Guid. Control Dyn. 18 (1995) 114-120",
)
