"""Mean-square stability of methods on dy = λ y dt + μ y dW: stability functions, regions, largest noise, verdicts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.analysis.step.linear import NODES, axes
from stodyn.analysis.step.second_order import largest_stable_step as largest_step  # noqa: F401  (public here too)
from stodyn.analysis.step.stability_function import StabilityFunction, stability_function
from stodyn.arguments import checks_arguments
from stodyn.engine.spec import matched
from stodyn.methods.catalogue import stepping
from stodyn.methods.contract import Method
from stodyn.methods.stiff_table import StiffTable
from stodyn.numerics.newton import underived
from stodyn.numerics.polynomial import Polynomial
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.rounding import Amounts
from stodyn.numerics.surd import Number, sign
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)

CHUNK = 4096  # points per batch
RANGE = 1000.0  # of -h, in verdicts
SAMPLES = 8  # of the rounding at a point


@checks_arguments
def mean_square(method: Method | str, h: ArrayLike, k: ArrayLike) -> np.ndarray:
    """Compute R̂(h, k) = E|R|² of a step y' = R y on dy = λ y dt + μ y dW (Ito), h = λ Δt, k = μ √Δt.

    It is the method's own step, taken at the Gauss-Hermite nodes of its noise: exact for steps that are polynomials in
    it. The method is stable in mean square where R̂ < 1, the equation where 2 Re h + |k|² < 0.

    Parameters
    ----------
    method : Method or str
        A one-step method, or its name.
    h, k : arrays
        Real or complex, of shapes that broadcast; complex ones are run as 2 x 2 real systems. h is not the step but
        λ times it.

    Returns
    -------
    array
        R̂ at every point; inf where the step has no solution.
    """
    stepper = _one_step(method)
    h, k = np.broadcast_arrays(_numbers("h", h), _numbers("k", k))
    is_complex = bool(np.iscomplexobj(h) or np.iscomplexobj(k))
    points, squares = _as_points(h, k), _squares(stepper, is_complex)
    radii = np.empty(len(points))
    for begin in range(0, len(points), CHUNK):
        radii[begin : begin + CHUNK] = _growth(squares, points[begin : begin + CHUNK], squares.at_points)
    return np.where(np.isfinite(radii), radii, np.inf).reshape(h.shape)


@checks_arguments
def largest_noise(method: Method | str, h: float, sign: int = 1, most: float = 1e4) -> float:
    """Compute the largest k² up to which a method is stable at h < 0, going up from k = 0.

    For the equation it is -2h. Some methods (RK1W1, RK1W5) are not even in k: ask for both signs.

    Parameters
    ----------
    method : Method or str
        A one-step method, or its name.
    h : float
        λ Δt, below 0.
    sign : 1 or -1
        The sign of k.
    most : float
        The largest k² that is tried.

    Returns
    -------
    float
        0 where the method is unstable without noise, inf where it is stable up to `most`.

    Raises
    ------
    ValueError
        If `h` is not a real number.
    """
    _check_sign(sign)
    if np.ndim(h) or np.iscomplexobj(h):
        raise ValueError(f"h: expected a real number, got {h!r}")
    k = sign * np.linspace(0.0, math.sqrt(most), CHUNK)
    stable = mean_square(method, h, k) < 1.0
    if not stable[0]:
        return 0.0
    if stable.all():
        return math.inf
    first = int(np.argmin(stable))
    low, high = k[first - 1], k[first]
    for _ in range(3):  # each round looks at CHUNK points between the last two
        between = np.linspace(low, high, CHUNK)
        first = int(np.argmin(mean_square(method, h, between) < 1.0))
        low, high = between[first - 1], between[first]
    return float((0.5 * (low + high)) ** 2)


@checks_arguments
def region(method: Method | str, h: ArrayLike, k_squared: ArrayLike, sign: int = 1) -> np.ndarray:
    """Compute R̂ over the plane (h, k²), for plot.region: the method is stable where it is below 1.

    Parameters
    ----------
    method : Method or str
        A one-step method, or its name.
    h, k_squared : arrays
        The grid; real, k_squared >= 0.
    sign : 1 or -1
        The sign of k.

    Returns
    -------
    array (len(k_squared), len(h))

    Raises
    ------
    ValueError
        If `h` is not real, or `k_squared` is negative somewhere.
    """
    _check_sign(sign)
    real, squares = _numbers("h", h), _numbers("k_squared", k_squared)
    if np.iscomplexobj(real):
        raise ValueError(f"h: expected real numbers, got {h!r}; mean_square takes complex ones")
    if np.iscomplexobj(squares) or np.any(squares < 0.0):
        raise ValueError(f"k_squared: expected numbers >= 0, got {k_squared!r}")
    across, along = np.meshgrid(real, sign * np.sqrt(squares))
    return mean_square(method, across, along)


def _numbers(name: str, value: ArrayLike) -> np.ndarray:
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "iufc" or not np.isfinite(numbers).all():
        raise ValueError(f"{name}: expected finite numbers, got {value!r}")
    return numbers


def _check_sign(sign: int) -> None:
    if sign not in (-1, 1):
        raise ValueError(f"sign: expected 1 or -1, got {sign!r}")


class Condition(NamedTuple):
    """One question of a verdict: its name, whether it holds (None: not decided), and the finding in words."""

    name: str
    holds: bool | None
    statement: str


class Verdict(NamedTuple):
    """Whether a method is stable wherever the equation is, R̂ < 1 for 2 Re h + |k|² < 0, and where it is worst.

    a_stable    True (proved), False, or None: undecided
    worst       the largest R̂ found where the equation is stable or on the edge of being so, at (h, k)
    l_stable    whether it is A-stable and R̂ -> 0 for |h| -> ∞ there; None: undecided
    conditions  the questions: "origin", "poles", "infinity", "boundary"; "sampled" where no proof was possible
    """

    a_stable: bool | None
    worst: float
    h: complex
    k: complex
    l_stable: bool | None = None
    conditions: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        if self.a_stable:
            return f"{'A-stable and L-stable' if self.l_stable else 'A-stable'}: {self.conditions[-1].statement}"
        if self.a_stable is None:
            return f"undecided: {'; '.join(f'{c.name}: {c.statement}' for c in self.conditions if c.holds is None)}"
        return f"not A-stable: {'; '.join(f'{c.name}: {c.statement}' for c in self.conditions if c.holds is False)}"


@checks_arguments
def a_stability(method: Method | str | StiffTable, complex_arguments: bool = False) -> Verdict:
    """Decide whether a method is stable in mean square wherever the equation is, for real λ and μ or for complex ones.

    For a method with a StiffTable the answer is computed in exact arithmetic (analysis.stability_function): "no" where
    R̂ grows along the boundary k² = -2h near 0 (origin), has a pole where the equation is stable (poles), or exceeds 1
    far out (infinity), somewhere on the boundary, or at a point that was tried; "yes" where the table has the normal
    form and F >= 0 on the whole boundary. For real arguments a "yes" allows R̂ = 1 at points where the noise drops out
    of R. Other tables and methods are tried at points, -Re h from 1e-3 to 1000, k² up to the equation's own limit
    -2 Re h with both signs of k, with complex arguments also over phases of h and k; where none fails they are
    undecided.

    Parameters
    ----------
    method : Method, str or StiffTable
        A one-step method, its name, or a table.
    complex_arguments : bool
        Whether λ and μ may be complex.

    Returns
    -------
    Verdict

    Raises
    ------
    TypeError
        If `complex_arguments` is not a truth value.
    """
    if not isinstance(complex_arguments, bool):
        raise TypeError(f"complex_arguments: expected True or False, got {complex_arguments!r}")
    h, k = _points(complex_arguments)
    table = _table(method)
    if table is None:
        stepper = _one_step(method)  # type: ignore[arg-type]
        return _sampled(mean_square(stepper, h, k), functools.partial(_rounding, stepper), h, k)
    R = stability_function(table)
    tried = _sampled(R.mean_square(h, k), R.rounding, h, k)
    conditions = [_origin_condition(R), _poles_condition(R)]
    try:
        limit, beyond = R.at_infinity(), R.beyond_boundary(complex_arguments)
    except ValueError as reason:
        conditions.append(Condition("boundary", None, f"no proof is known for such a table ({str(reason)[7:]})"))
        if tried.a_stable is False and not complex_arguments:
            tried = tried._replace(conditions=(_at_a_point(R, tried),))
        conditions += tried.conditions
    else:
        far = "∞" if limit is None else f"{float(limit):.6g}"
        conditions.append(
            Condition("infinity", limit is not None and limit <= 1, f"R̂ -> {far} for h -> -∞ with k² = -2h")
        )
        place = None if beyond is None else _worst_on_boundary(R, beyond, complex_arguments)
        conditions.append(_boundary_condition(R, place, complex_arguments))
        if place is not None and (there := 1.0 + float(R.excess(*place))) > tried.worst:
            h_there, k_there = complex(-place[0], math.sqrt(place[1])), complex(math.sqrt(2.0 * place[0]))
            tried = tried._replace(worst=there, h=h_there, k=k_there)
    answers = {condition.holds for condition in conditions}
    answer = False if False in answers else None if None in answers else True
    return tried._replace(
        a_stable=answer, l_stable=answer and R.vanishes_at_infinity, conditions=tuple(conditions)
    )  # fmt: skip


@checks_arguments
def origin(method: Method | str | StiffTable) -> Number:
    """Compute κ = lim (R̂ - 1)/h² for h -> 0 on the equation's boundary k² = -2h, exactly.

    The method is unstable at small steps where κ > 0. For tables of strong order 1 it is 3 + 2q - 4p + 8r - 4m₁ + 8m₂
    with q = α A e, p = α B1 e + β1 A e and the coefficients r of k³ in E ξR, m₁ of hk² and m₂ of k⁴ in E R.

    Parameters
    ----------
    method
        As in `a_stability`.

    Returns
    -------
    Fraction or surd

    Raises
    ------
    ValueError
        If R̂ - 1 begins with a lower power, so that there is no κ.
    """
    origin_of_method = _required_function(method).origin()
    lower = [n for n in origin_of_method if n < 4]
    if lower:
        raise ValueError(f"method: R̂ - 1 begins with k^{lower[0]} on the boundary k² = -2h, so that there is no κ")
    return 4 * origin_of_method[4]


@checks_arguments
def boundary_polynomial(method: Method | str | StiffTable) -> Polynomial:
    """Compute F(x, Y) = |D|² (1 - R̂) on the boundary |k|² = 2x, h = -x ± i√Y, exactly.

    Parameters
    ----------
    method
        As in `a_stability`.

    Returns
    -------
    Polynomial

    Raises
    ------
    ValueError
        If a term of R, which the error names, is not of the normal form of analysis.stability_function.
    """
    return _required_function(method).boundary_polynomial


def _origin_condition(R: StabilityFunction) -> Condition:
    origin_value = R.origin()
    n = min(n for n in origin_value)
    value, what = (4 * origin_value[4], "h²") if n == 4 else (origin_value[n], f"k^{n}")
    fails = n % 2 == 1 or sign(value) > 0
    words = f"R̂ - 1 is {float(value):.6g} {what} + ... on k² = -2h near 0"
    return Condition(
        "origin", not fails, words + (", so that it is unstable at arbitrarily small steps" if fails else "")
    )


def _poles_condition(R: StabilityFunction) -> Condition:
    poles = R.poles
    return Condition("poles", not poles, "; ".join(poles) or "none where the equation is stable")


def _boundary_condition(R: StabilityFunction, place: tuple[float, float] | None, complex_arguments: bool) -> Condition:
    which = "complex" if complex_arguments else "real"
    if R.is_one:
        return Condition("boundary", False, "R = 1 for all h and k: the step does nothing")
    if place is None:
        plain = all(sign(c) >= 0 for c in R.boundary_polynomial.terms.values())
        how = "no coefficient of F is negative" if plain else "F >= 0, by its roots"
        return Condition("boundary", True, f"R̂ <= 1 on the whole boundary |k|² = -2 Re h for {which} arguments: {how}")
    x, Y = place
    h = f"{-x:.6g}" + (f" + {math.sqrt(Y):.6g}i" if Y else "")
    return Condition("boundary", False, f"R̂ - 1 = {float(R.excess(x, Y)):.6g} at h = {h}, |k|² = {2.0 * x:.6g}")


def _worst_on_boundary(R: StabilityFunction, beyond: tuple, complex_arguments: bool) -> tuple[float, float]:
    """Return (x, Y) with the largest R̂ on a grid of the boundary to which the point found by proof is added."""
    x = np.append(np.logspace(-3, np.log10(RANGE), 121), float(beyond[0]))
    Y = np.concatenate([[0.0, float(beyond[1])], np.logspace(-6, 6, 121) if complex_arguments else []])
    across, along = np.meshgrid(x, Y)
    index = np.unravel_index(np.argmax(R.excess(across, along)), across.shape)
    return float(across[index]), float(along[index])


def _at_a_point(R: StabilityFunction, tried: Verdict) -> Condition:
    """R̂ > 1 at the worst of the points tried, in exact arithmetic where the point is real and not a pole."""
    h, k = Fraction(tried.h.real), Fraction(tried.k.real)
    exact = bool(R.denominator(h, k, 1)) and 2 * h + k * k < 0 and sign(R.exact_mean_square(h, k) - 1) > 0
    (condition,) = tried.conditions
    return condition._replace(statement=condition.statement + (", exactly" if exact else ""))


def _points(complex_arguments: bool) -> tuple[np.ndarray, np.ndarray]:
    size = -np.logspace(-3, np.log10(RANGE), 121)[:, None, None]
    share = np.concatenate([np.linspace(0.0, 0.95, 20), 1.0 - np.logspace(-2, -9, 8)])[:, None]
    k = np.sqrt(-2.0 * size * share) * np.array([1.0, -1.0])
    h = np.broadcast_to(size, k.shape)
    if complex_arguments:
        tilt = np.array([-10.0, -1.0, -0.1, 0.0, 0.1, 1.0, 10.0])[:, None, None, None, None]  # Im h / Re h
        turn = np.exp(1j * np.array([0.0, 0.3, 0.5, 0.8]) * np.pi)[:, None, None, None]
        h, k = np.broadcast_arrays(h[::4] * (1.0 + 1j * tilt), k[::4] * turn)
    return h, k


def _sampled(growth: np.ndarray, rounding: Callable, h: np.ndarray, k: np.ndarray) -> Verdict:
    """The verdict by R̂ at points; rounding(h, k) is how much of it there may be rounding."""
    beyond = np.argwhere(growth > 1.0)
    beyond = beyond[np.argsort(-growth[tuple(beyond.T)], kind="stable")]
    for some in (beyond[:1], beyond[1:]):  # the largest decides, unless it may be rounding
        at = tuple(some.T)
        certain = some[~(growth[at] - 1.0 <= rounding(h[at], k[at]))] if len(some) else some
        if len(certain):
            break
    index = tuple(certain[0]) if len(certain) else np.unravel_index(np.argmax(growth), growth.shape)
    worst, h_worst, k_worst = float(growth[index]), complex(h[index]), complex(k[index])
    if not len(certain):
        statement = f"R̂ <= 1 at all {growth.size} points tried, with -Re h from 0.001 to {RANGE:g}"
        return Verdict(None, worst, h_worst, k_worst, conditions=(Condition("sampled", None, statement),))
    place = (
        f"h = {h_worst:.6g}, k = {k_worst:.6g}"
        if np.iscomplexobj(h)
        else f"h = {h_worst.real:.6g}, k = {k_worst.real:.6g}"
    )
    statement = f"R̂ = {worst:.6g} at {place}"
    return Verdict(False, worst, h_worst, k_worst, False, (Condition("sampled", False, statement),))


def _table(method: Method | str | StiffTable) -> StiffTable | None:
    table = method if isinstance(method, StiffTable) else getattr(_one_step(method), "table", None)
    return table if isinstance(table, StiffTable) else None


def _required_function(method: Method | str | StiffTable) -> StabilityFunction:
    table = _table(method)
    if table is None:
        raise TypeError(f"method: expected a StiffTable or a method that has one, got {method!r}")
    return stability_function(table)


@checks_arguments
def closed_form(table: StiffTable, h: ArrayLike, k: ArrayLike, printed: bool = False) -> np.ndarray:
    """Compute R̂ of a table of three stages by the formulas (7.1)-(7.7) of Küpper, Kværnø & Rößler.

    In (7.2), after A22 h, the paper prints B32 of B2 where B31 belongs. For complex arguments squares are read as
    squared moduli, and products as real parts of one times the conjugate of the other.

    Parameters
    ----------
    table : StiffTable
        A table of three stages.
    h, k : arrays
        Real or complex.
    printed : bool
        Whether to use (7.2) as it is printed.

    Returns
    -------
    array

    Raises
    ------
    TypeError
        If `table` is not a StiffTable.
    ValueError
        If it does not have three stages.
    """
    if not isinstance(table, StiffTable):
        raise TypeError(f"table: expected a StiffTable, such as sd.method('RK1W2').table, got {table!r}")
    if len(table.A) != 3:
        raise ValueError(f"table: the formulas are for 3 stages, but {table.name} has {len(table.A)}")
    A, B1, B2, B3 = (np.array([[float(x) for x in row] for row in m]) for m in (table.A, table.B1, table.B2, table.B3))
    h, k = np.broadcast_arrays(np.asarray(h), np.asarray(k))
    (a11, _, _), (a21, a22, _), (a31, a32, a33) = A
    (_, _, _), (p21, _, _), (p31, p32, _) = B1
    (_, _, _), (q21, _, _), (q31, q32, _) = B2
    (r11, _, _), (r21, r22, _), (r31, r32, r33) = B3
    D = (1 - a11 * h - r11 * k) * (1 - a22 * h - r22 * k) * (1 - a33 * h - r33 * k)
    hk, kk = h * k, k * k
    Γ = (
        1 + (a31 + a32) * h + a21 * a32 * h**2 + (-r11 - r22 - q31 / 2 + r31 - q32 / 2 + r32) * k
        + hk * (-a32 * r11 - a32 * q21 / 2 + a32 * r21 - a31 * r22 - a21 * q32 / 2 + a21 * r32)
        + kk * (r11 * r22 + r22 * q31 / 2 - r22 * r31 + r11 * q32 / 2 + q21 * q32 / 4 - r21 * q32 / 2 - r11 * r32
                - q21 * r32 / 2 + r21 * r32)
        - a22 * h * (1 + a31 * h - r11 * k - (q32 if printed else q31) * k / 2 + r31 * k)
        - a11 * h * (1 - a22 * h + a32 * h - r22 * k - q32 * k / 2 + r32 * k)
    ) / D  # fmt: skip
    Σ1 = (
        (p31 + p32) * k + hk * (a32 * p21 + a21 * p32 - a22 * p31 - a11 * p32)
        + kk * (-r22 * p31 - r11 * p32 - q21 * p32 / 2 + r21 * p32 - p21 * q32 / 2 + p21 * r32)
    ) / D  # fmt: skip
    Σ2 = (
        (q31 + q32) * k + hk * (a32 * q21 + a21 * q32 - a22 * q31 - a11 * q32)
        + kk * (-r22 * q31 + 2 * p21 * p32 - r11 * q32 - q21 * q32 + r21 * q32 + q21 * r32)
    ) / (2 * D)  # fmt: skip
    Σ3 = kk * (q21 * p32 + p21 * q32) / (2 * D)
    Σ4 = kk * q21 * q32 / (4 * D)

    def pair(a, b):
        return (a * np.conj(b)).real

    return (
        pair(Γ, Γ) + 2 * pair(Γ, Σ2) + 6 * pair(Γ, Σ4) + pair(Σ1, Σ1) + 6 * pair(Σ1, Σ3) + 3 * pair(Σ2, Σ2)
        + 30 * pair(Σ2, Σ4) + 15 * pair(Σ3, Σ3) + 105 * pair(Σ4, Σ4)
    )  # fmt: skip


def _one_step(method: Method | str) -> Method:
    stepper = stepping(method)
    if stepper.starting_steps:
        raise ValueError(
            f"method: {stepper.name} needs a history, so that a step is not a function of y alone. Its stability is "
            "analysis.linear.step_map(problem, method, dt).mean_square_radius()."
        )
    # Beyond a pole the solver refuses a step; its stability function goes on.
    return stepper(guard=False) if getattr(stepper, "guard", False) and "guard" in vars(stepper) else stepper


def _line(t, y, p):
    return p[0] * y


def _noise(t, y, p):
    return (p[2] * y)[:, None]


def _plane(t, y, p):
    return jnp.stack([p[0] * y[0] - p[1] * y[1], p[1] * y[0] + p[0] * y[1]])


def _plane_noise(t, y, p):
    return jnp.stack([p[2] * y[0] - p[3] * y[1], p[3] * y[0] + p[2] * y[1]])[:, None]


REAL = SDE(_line, _noise, (1.0,), params=np.zeros(4), structure="scalar")
COMPLEX = SDE(_plane, _plane_noise, (1.0, 0.0), params=np.zeros(4), structure="scalar")


class _Squares(NamedTuple):
    """|R|² at points of (Re h, Im h, Re k, Im k) for the normals ξ, as a function of one; and the quadrature."""

    one: Callable
    at_points: AtPoints
    ξ: np.ndarray
    weight: np.ndarray


@functools.lru_cache(maxsize=64)
def _squares(method: Method, is_complex: bool) -> _Squares:
    problem = matched(COMPLEX if is_complex else REAL, method)[0]
    counts = method.needs.normals(1)
    ends = np.cumsum(list(counts.values()))[:-1]

    def one(point, ξ):
        noise = method.needs.increment(jnp.ones(()), dict(zip(counts, jnp.split(ξ, ends), strict=True)), 1)
        state = method.start(problem, jnp.zeros(()), jnp.asarray(problem.example_start()), point)
        with underived():
            after, report = method.step(problem, jnp.zeros(()), state, noise, point)
        return jnp.where(report.ok, jnp.sum(method.read(after) ** 2), jnp.nan)

    squares = AtPoints(one)
    rules = axes(method.needs, 1, {name: NODES if _matters(squares, counts, name) else 1 for name in counts})
    ξ = np.stack([v.ravel() for v in np.meshgrid(*(r[0] for r in rules), indexing="ij")], axis=-1)
    return _Squares(one, squares, ξ, functools.reduce(np.multiply.outer, [r[1] for r in rules]).ravel())


def _growth(squares: _Squares, points: np.ndarray, at_points: Callable) -> np.ndarray:
    """The mean of at_points(points, normals): R̂ where these are the squares."""
    values = at_points(np.repeat(points, len(squares.ξ), axis=0), np.tile(squares.ξ, (len(points), 1)))
    with np.errstate(all="ignore"):
        return values.reshape(len(points), len(squares.ξ)) @ squares.weight


def _rounding(method: Method, h: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return how much of R̂ at points (h, k) may be rounding: of the step at each node, and of their sum."""
    squares, points = _squares(method, np.iscomplexobj(h)), _as_points(h, k)
    amounts, steps = Amounts(squares.one), []
    for begin in range(0, len(points), CHUNK // SAMPLES):
        some = np.tile(points[begin : begin + CHUNK // SAMPLES], (SAMPLES, 1))  # changed otherwise each time
        each = _growth(squares, some, lambda x, ξ: amounts(x, ξ)[0])
        steps.append(each.reshape(SAMPLES, -1).max(axis=0))
    sums = len(squares.ξ) * np.finfo(float).eps * _growth(squares, points, squares.at_points)
    return np.concatenate(steps) + sums


def _as_points(h: np.ndarray, k: np.ndarray) -> np.ndarray:
    return np.stack([h.real.ravel(), h.imag.ravel(), k.real.ravel(), k.imag.ravel()], axis=1).astype(float)


def _matters(squares: Callable, counts: Mapping[str, int], stream: str) -> bool:
    """Whether a step reads the normals of a stream: with one channel there are no areas to be made of them."""
    if len(counts) == 1:
        return True
    rng = np.random.default_rng(1)
    normals = {name: rng.standard_normal(k) for name, k in counts.items()}
    other = normals | {stream: rng.standard_normal(counts[stream])}
    ξ = np.stack([np.concatenate([*values.values()]) for values in (normals, other)])
    first, second = squares(np.tile([-0.4, 0.1, 0.3, -0.2], (2, 1)), ξ)
    return bool(first != second)
