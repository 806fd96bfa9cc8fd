"""Processes whose drift and squared noise are straight lines, read exactly: their transitions are known.

    dx = (b0 + b1 x) dt + √(c0 + c1 x) dW,   z = x + c0/c1,   c = -2 b1 / (c1 (1 - e^{b1 h}))

2 c z after a time h is noncentral χ² with 4 (b0 - b1 c0/c1)/c1 degrees of freedom and noncentrality 2 c e^{b1 h} z0 (J.
C. Cox, J. E. Ingersoll & S. A. Ross, Econometrica 53, 1985): a mixture of gamma laws with the weights of a Poisson law,
which is summed about its largest term.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy import special

from stodyn.inference.kalman import Array, History, Reading, Row, State
from stodyn.inference.laws import Parts, Sensed, View
from stodyn.numerics.facts.degree import is_proved_affine
from stodyn.numerics.uncompiled import Uncompiled, value
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Sensor
from stodyn.problems.structure import depends_on_time, is_autonomous

STRAIGHT = 1e-10  # of the squared noise, a choice: nearer to a line it is one, and the variance is off by no more
PLACES = 9  # at which it is compared with one
TERMS = 8.0  # standard deviations of the mixture that are summed on either side of its largest term
MOST_TERMS = 2.0**15
LARGE = 16.0  # of ψ': beyond it five terms of its series are enough


class Lines(NamedTuple):
    """b0 + b1 x, the drift, and c0 + c1 x, the square of the noise."""

    b0: Array
    b1: Array
    c0: Array
    c1: Array


def is_square_root(problem: Any, sensors: tuple[Sensor, ...], params: Any, values: np.ndarray) -> bool:
    """Return whether a problem is such a process, read without noise at these values."""
    if not isinstance(problem, SDE) or problem.n != 1 or problem.m != 1 or len(sensors) != 1:
        return False
    own = sensors[0]
    if own.noise is not None or own.bias is not None or own.average or own.increment or own.resolution is not None:
        return False
    equations: Any = problem
    values = values[np.isfinite(values)]
    low, high = values.min(), values.max()
    if not high > low or not is_proved_affine(problem.f, (np.zeros(()), np.zeros(1), params), 1):
        return False

    def value(t: Any, x: Any, params: Any) -> Any:
        return own.value(problem, t, x, params)

    if not is_autonomous(problem) or depends_on_time(value, np.zeros(1), params):
        return False
    places = np.linspace(low, high, PLACES)
    squares = np.array([float(np.sum(np.asarray(equations.g(0.0, np.array([x]), params)) ** 2)) for x in places])
    line = squares[0] + (squares[-1] - squares[0]) * (places - low) / (high - low)
    read = [float(np.asarray(value(0.0, np.array([x]), params))[0]) for x in places]
    return bool(np.abs(squares - line).max() <= STRAIGHT * squares.max() and squares[0] != squares[-1]
                and np.array_equal(read, places))  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class SquareRootModel(Sensed):
    """A square-root process with the rows of a record, whose law is known exactly."""

    problem: Any
    name: ClassVar[str] = "exact"
    by: ClassVar[str] = "transition"
    states: ClassVar[int] = 1

    @functools.cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The row of each reading, the values before and at it, and the time between; a diffuse start leaves out the
        first."""
        values = self.schedule.values[:, 0]
        rows = np.flatnonzero(np.isfinite(values))
        at, times = values[rows], self.schedule.times[rows]
        if self.start.diffuse:
            return rows[1:], at[:-1], at[1:], np.diff(times)
        begun = self.schedule.times[0]
        if times[0] == begun:
            raise ValueError("data: the first reading is at the start, whose value is fixed; leave it out")
        first = np.concatenate([self.start.mean, at[:-1]])
        return rows, first, at, np.diff(times, prepend=begun)

    def lines(self, params: Any) -> Lines:
        """Return drift and squared noise as lines."""
        _, before, after, _ = self.pairs
        low, high = (np.array([end]) for end in (min(before.min(), after.min()), max(before.max(), after.max())))
        f = [self.problem.f(0.0, x, params)[0] for x in (low, high)]
        g2 = [jnp.sum(self.problem.g(0.0, x, params) ** 2) for x in (low, high)]
        b1, c1 = (f[1] - f[0]) / (high - low)[0], (g2[1] - g2[0]) / (high - low)[0]
        return Lines(f[0] - b1 * low[0], b1, g2[0] - c1 * low[0], c1)

    def chi2(self, lines: Lines) -> tuple[Array, Array, Array, Array]:
        """Return c, u, v and q: p(x) is c times Σ Poisson(j; u) Gamma(v; j + q + 1)."""
        _, before, after, h = self.pairs
        b0, b1, c0, c1 = lines
        c = 2.0 / c1 / (-jnp.expm1(b1 * h) / -b1)
        shift = c0 / c1
        return c, c * jnp.exp(b1 * h) * (before + shift), c * (after + shift), 2.0 * (b0 - b1 * shift) / c1 - 1.0

    def places(self, params: Any) -> tuple[Array, Array, Array]:
        """Return ln(u v) of each transition, q, and all of log L that is not in the mixture."""
        c, u, v, q = self.chi2(self.lines(params))
        return jnp.log(u * v), q, jnp.sum(jnp.log(c) - u - v + q * jnp.log(v))


def _largest(a: Any, q: Any) -> Any:
    """The number of the largest term of the mixture."""
    return jnp.floor(0.5 * (jnp.sqrt(q**2 + 4.0 * jnp.exp(a)) - q))


def terms_of(a: np.ndarray) -> np.ndarray:
    """Return how many terms are summed on either side of the largest: a power of two, NaN where they are too many."""
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = 2.0 ** np.ceil(np.log2(10.0 + TERMS * np.sqrt(1.0 + 0.5 * np.exp(0.5 * a))))
    return np.where(wanted <= MOST_TERMS, wanted, np.nan)


def mixture(a: np.ndarray, q: np.ndarray) -> list[np.ndarray]:
    """Return A = ln Σ e^{a j}/(Γ(j+1) Γ(j+q+1)), its slopes by a and q, and its curvatures by aa, aq and qq."""
    counts = terms_of(a)
    results = [np.full_like(a, np.nan) for _ in range(6)]
    for count in np.unique(counts[np.isfinite(counts)]):
        those = counts == count
        for whole, own in zip(results, _summed(a[those], q[those], int(count)), strict=True):
            whole[those] = own
    return results


def _summed(a: np.ndarray, q: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    first = np.maximum(np.floor(0.5 * (np.sqrt(q**2 + 4.0 * np.exp(a)) - q)) - count, 0.0)
    j = first[:, None] + np.arange(2 * count)
    above = j + q[:, None] + 1.0
    each = a[:, None] * j - special.gammaln(j + 1.0) - special.gammaln(above)
    largest = each.max(axis=1, keepdims=True)
    weights = np.exp(each - largest)
    total = weights.sum(axis=1, keepdims=True)
    weights /= total

    def mean(x: np.ndarray) -> np.ndarray:
        return np.sum(weights * x, axis=1)

    psi = -special.psi(above)
    by_a, by_q = mean(j), mean(psi)
    rest, turn = j - by_a[:, None], psi - by_q[:, None]
    by_qq = mean(turn**2) - mean(_trigamma(above))
    return (largest + np.log(total))[:, 0], by_a, by_q, mean(rest**2), mean(rest * turn), by_qq


def _trigamma(x: np.ndarray) -> np.ndarray:
    """ψ'(x), by Stirling's series where x is large, which is most of it and much faster."""
    y = 1.0 / np.maximum(x, LARGE) ** 2
    series = (1.0 + y * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * 5 / 66))))) / x + 0.5 * y
    small = x < LARGE
    series[small] = special.zeta(2.0, x[small])
    return series


class SquareRootEvaluated:
    """A model and its record: `params_of` makes params of a vector θ; as evaluating.Evaluated."""

    def __init__(self, model: SquareRootModel, params_of: Callable[[Any], Any], theta: np.ndarray):
        self.model, self.params_of = model, params_of
        self.count = 4 * int(np.nanmax(terms_of(value(lambda theta: self._at(theta)[0], theta))))
        orders: list[Callable] = [self._at, self._slope, self._curvature]
        self._orders = [Uncompiled(jax.vmap(function)) for function in orders]

    def log_total(self, theta: Any) -> Array:
        """Return log L within a trace."""
        a, q, rest = self._at(theta)
        first = jnp.maximum(jax.lax.stop_gradient(_largest(a, q)) - self.count, 0.0)
        j = first[:, None] + np.arange(2 * self.count)
        each = a[:, None] * j - gammaln(j + 1.0) - gammaln(j + q + 1.0)
        return rest + jnp.sum(jax.nn.logsumexp(each, axis=1))

    def _at(self, theta: Any) -> tuple[Array, Array, Array]:
        return self.model.places(self.params_of(theta))

    def _slope(self, theta: Any, u: Any) -> Any:
        return jax.jvp(self._at, (theta,), (u,))

    def _curvature(self, theta: Any, u: Any, v: Any) -> Any:
        return jax.jvp(lambda theta: self._slope(theta, u), (theta,), (v,))

    def log_likelihood(self, *directions: np.ndarray) -> list[np.ndarray]:
        """Return log L at θ (lanes, p); with a direction u also its slope along u; with two, [L, L_u, L_v, L_uv]."""
        order = len(directions) - 1
        parts = self._orders[order](*directions)
        a, q, rest = jax.tree.leaves(parts)[:3]
        _, different, lane = np.unique(directions[0], axis=0, return_index=True, return_inverse=True)
        q = np.broadcast_to(q[:, None], a.shape)
        A, by_a, by_q, aa, aq, qq = (part[lane.ravel()] for part in mixture(a[different], q[different]))
        total = rest + A.sum(axis=1)

        def slope(own: Any) -> np.ndarray:
            return own[2] + np.sum(by_a * own[0] + by_q * own[1][:, None], axis=1)

        if order == 0:
            return [total]
        if order == 1:
            return [total, slope(parts[1])]
        (_, along), (other, both) = parts
        bent = aa * along[0] * other[0] + qq * (along[1] * other[1])[:, None]
        bent = bent + aq * (along[0] * other[1][:, None] + other[0] * along[1][:, None])
        return [total, slope(along), slope(other), slope(both) + bent.sum(axis=1)]

    def for_parameters(self, thetas: np.ndarray) -> SquareRootEvaluated:
        """Return this, which answers for all parameters."""
        return self

    @functools.cached_property
    def rows(self) -> Row:
        """The rows of the record."""
        plan = self.model.schedule
        is_read = np.zeros(plan.values.shape, bool)
        is_read[self.model.pairs[0]] = True
        return Row(np.where(is_read, plan.values, 0.0), is_read, np.zeros((len(is_read), 0)))

    def history(self, theta: np.ndarray) -> tuple[Parts, History]:
        """Return what a filter would leave: the state is what is read, and innovations have the normal deviates of the
        chances of their readings."""
        rows = self.model.pairs[0]
        with jax.enable_x64(True):
            params = self.params_of(theta)
            lines = Lines(*map(float, self.model.lines(params)))
            c, u, v, q = (np.asarray(part) for part in self.model.chi2(lines))
        log = mixture(np.log(u * v), np.full_like(u, q))[0] + np.log(c) - u - v + q * np.log(v)
        e = special.ndtri(np.clip(special.chndtr(2 * v, 2 * q + 2, 2 * u), 1e-300, 1.0 - 1e-16))
        mean = (u + q + 1.0) / c - lines.c0 / lines.c1
        variance = (2.0 * u + q + 1.0) / c**2
        count = len(self.rows.values)

        def wide(own: np.ndarray, other: float = 0.0) -> np.ndarray:
            whole = np.full((count, 1), other)
            whole[rows, 0] = own
            return whole

        S, zero = wide(variance, 1.0), np.zeros((count, 1, 1))
        predicted = State(wide(mean), S[:, :, None], None, None)
        readings = Reading(wide(e * np.sqrt(variance)), S, zero, zero, None, None)
        values = self.model.schedule.values
        state = State(np.where(np.isfinite(values), values, np.nan), zero, None, None)
        one = np.ones((1, 1))
        law: Any = None
        parts = Parts(law, np.zeros(1), one, View(one, np.zeros(1), np.zeros(1), one, np.zeros(1)))
        return parts, History(predicted, state, readings, wide(log)[:, 0])

    def simulated(self, theta: np.ndarray, count: int, most: int, rng: np.random.Generator) -> np.ndarray:
        """Return records of the model at θ (count, rows, columns), of the first rows at most; a diffuse start is the
        first reading."""
        rows, before, _, h = self.model.pairs
        with jax.enable_x64(True):
            lines = Lines(*map(float, self.model.lines(self.params_of(theta))))
        shift, decay = lines.c0 / lines.c1, np.exp(lines.b1 * h)
        c = 2.0 * lines.b1 / (lines.c1 * np.expm1(lines.b1 * h))
        degrees = 4.0 * (lines.b0 - lines.b1 * shift) / lines.c1
        z = np.full(count, before[0] + shift)
        readings = np.full((count, min(len(self.rows.values), most), 1), np.nan)
        if self.model.start.diffuse and rows[0] > 0:
            readings[:, np.flatnonzero(np.isfinite(self.model.schedule.values[:, 0]))[0], 0] = before[0]
        for k, row in enumerate(rows[rows < most]):
            z = rng.noncentral_chisquare(degrees, 2.0 * c[k] * decay[k] * z) / (2.0 * c[k])
            readings[:, row, 0] = z - shift
        return readings

    def smoothed(self, parts: Parts, history: History) -> tuple[np.ndarray, np.ndarray]:
        """Return the state, which is what is read."""
        return history.state.m, history.state.P
