"""Normal laws of nonlinear problems: how a step changes mean and covariance, and what readings do to them.

    s' = step(s, ξ),  s ~ N(m, P),  ξ ~ N(0, I);   y = h(s) + noise of variance R

"ekf"          step and h are linearised where the mean is: P' = F P F' + G G'. Noise that depends on the state adds
               Σ F_r P F_r' with F_r = ∂F/∂ξ_r, and step gains Σ ∂²step/∂ξ_r² / 2, which holds Ito's correction
"statistical"  expectations over N(m, P) by three points of Gauss and Hermite for each of up to four numbers, which are
               exact to degree five, and else by the 2n points ±√n of a cubature

The law after a reading is that of z = (s, h) as if it were normal: readings are those of the last numbers of z, and are
taken one after the other as those of a linear filter. Both filters are then the same but for where z comes from.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.inference import kalman
from stodyn.inference.kalman import Adjoint, Array, Reading, Row, Sensing, State

FEW = 4  # numbers up to which points are those of a product
SINGULAR = 1e-13  # of a variance, a choice: of less that is left of it after those before, rounding leaves few digits


class Expected(NamedTuple):
    """A function of s ~ N(m, P): its mean, its covariance, and the slope A with Cov(function, s) = A P."""

    mean: Array
    covariance: Array
    slope: Array


class Stride(NamedTuple):
    """A row of a record in steps: the time before, the length of the step, 0 where there is none, the readings, and
    what the coloured noise of sensors does in the step: s <- Phi s + root ξ."""

    time: Array
    length: Array
    row: Row
    Phi: Array
    root: Array


def points(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (k, n) and weights (k,) for expectations over standard normals."""
    if n <= FEW:
        nodes = np.array(list(itertools.product((-math.sqrt(3.0), 0.0, math.sqrt(3.0)), repeat=n)))
        return nodes, np.where(nodes == 0.0, 2.0 / 3.0, 1.0 / 6.0).prod(axis=1)
    sides = math.sqrt(n) * np.eye(n)
    return np.concatenate([sides, -sides]), np.full(2 * n, 0.5 / n)


def root(P: Array) -> Array:
    """Return a lower triangle L with L L' = P, which may be singular: its columns are zero where P has nothing left."""
    n = len(P)
    L = jnp.zeros_like(P)
    for j in range(n):
        column = P[:, j] - L[:, :j] @ L[j, :j]
        is_there = column[j] > SINGULAR * P[j, j]
        pivot = jnp.sqrt(jnp.where(is_there, column[j], 1.0))
        below = jnp.where((np.arange(n) >= j) & is_there, column / pivot, 0.0)
        L = L.at[:, j].set(below)
    return L


def _over(C: Array, L: Array) -> Array:
    """A with A L = C, zero for directions in which L has nothing."""
    n = len(L)
    A = jnp.zeros_like(C)
    for j in reversed(range(n)):
        is_there = L[j, j] > 0.0
        rest = C[:, j] - A[:, j + 1 :] @ L[j + 1 :, j]
        A = A.at[:, j].set(jnp.where(is_there, rest / jnp.where(is_there, L[j, j], 1.0), 0.0))
    return A


class Ekf:
    """Moments after a step that is linearised about their mean, as in an extended Kalman filter."""

    def step(self, step: Callable, state: State, normals: int, is_additive: bool) -> Expected:
        """Return the law after a step."""
        m, P = state.m, state.P
        zero = jnp.zeros(normals)
        mean, F, G = _tangents(step, m, zero)
        own = G @ G.T
        if not is_additive:
            for r in range(normals):
                bend, turn, bent = _curvature(step, m, zero, r)
                mean, F = mean + 0.5 * bend, F + 0.5 * bent
                own = own + turn @ P @ turn.T + 0.5 * jnp.outer(bend, bend)
        return Expected(mean, F @ P @ F.T + own, F)

    def sense(self, sense: Callable, m: Array, P: Array) -> Expected:
        """Return the law of what is read, without its noise."""
        H = jax.jacfwd(sense)(m)
        return Expected(sense(m), H @ P @ H.T, H)


class Statistical:
    """Moments after a step as expectations over points of a normal law, as in an unscented or cubature Kalman
    filter."""

    def step(self, step: Callable, state: State, normals: int, is_additive: bool) -> Expected:
        """Return the law after a step."""
        zero = jnp.zeros(normals)

        def pushed(s: Array) -> tuple[Array, Array]:
            value, G = step(s, zero), jax.jacfwd(step, 1)(s, zero)
            spread = G @ G.T
            if not is_additive:
                for r in range(normals):
                    bend = _second(step, s, zero, r)
                    value, spread = value + 0.5 * bend, spread + 0.5 * jnp.outer(bend, bend)
            return value, spread

        return _expected(pushed, state.m, state.P)

    def sense(self, sense: Callable, m: Array, P: Array) -> Expected:
        """Return the law of what is read, without its noise."""
        return _expected(lambda s: (sense(s), None), m, P)


WAYS: dict[str, Ekf | Statistical] = {"ekf": Ekf(), "statistical": Statistical()}


def _expected(function: Callable, m: Array, P: Array) -> Expected:
    """The law of a value with a covariance of its own at each point."""
    L = root(P)
    nodes, weights = points(len(P))
    values, spreads = jax.vmap(function)(m + nodes @ L.T)
    mean = weights @ values
    rest = (values - mean) * np.sqrt(weights)[:, None]
    covariance = rest.T @ rest
    if spreads is not None:
        covariance = covariance + jnp.tensordot(weights, spreads, 1)
    return Expected(mean, covariance, _over((values * weights[:, None]).T @ nodes, L))


def _tangents(step: Callable, m: Array, zero: Array) -> tuple[Array, Array, Array]:
    """A step, and its derivatives by state and normals."""
    value, push = jax.linearize(step, m, zero)
    n = len(m)
    both = jax.vmap(push)(
        jnp.concatenate([jnp.eye(n), jnp.zeros((len(zero), n))]),
        jnp.concatenate([jnp.zeros((n, len(zero))), jnp.eye(len(zero))]),
    )
    return value, both[:n].T, both[n:].T


def _second(step: Callable, s: Array, zero: Array, r: int) -> Array:
    """The second derivative of a step by one normal."""
    unit = jnp.zeros_like(zero).at[r].set(1.0)

    def slope(ξ: Array) -> Array:
        return jax.jvp(lambda ξ: step(s, ξ), (ξ,), (unit,))[1]

    return jax.jvp(slope, (zero,), (unit,))[1]


def _curvature(step: Callable, m: Array, zero: Array, r: int) -> tuple[Array, Array, Array]:
    """The second derivative of a step by one normal, the slope of the first by the state, and that of the second."""
    unit = jnp.zeros_like(zero).at[r].set(1.0)
    turn = jax.jacfwd(lambda s: jax.jvp(lambda ξ: step(s, ξ), (zero,), (unit,))[1])(m)

    def second(s: Array) -> Array:
        return _second(step, s, zero, r)

    return second(m), turn, jax.jacfwd(second)(m)


# --- rows -------------------------------------------------------------------------------------------------------------


class Functions(NamedTuple):
    """A problem in steps: step(params, stride, s, ξ), what is read, sense(params, t, s), the variances of the noise of
    readings, variances(params), and settled(params, t, s), the state on its constraints."""

    step: Callable
    sense: Callable
    variances: Callable
    settled: Callable | None
    normals: int
    is_additive: bool


class Passed(NamedTuple):
    """What a filter leaves of a row: as kalman.History, of (s, h), and the slopes of the step and of h."""

    predicted: State
    state: State
    readings: Reading
    loglik: Array
    F: Array
    A: Array


def advanced(
    filter_by: Ekf | Statistical, functions: Functions, params: Any, state: State, stride: Stride
) -> tuple[State, Passed]:
    """Return the state after a row, and what is left of the row."""
    moves = stride.length > 0.0
    moving = stride._replace(length=jnp.where(moves, stride.length, 1.0))
    whole, n = kalman.whole(len(state.m), stride.row.keep), len(state.m)
    state = state._replace(m=whole * state.m, P=whole * state.P * whole[:, None])

    def step(s: Array, ξ: Array) -> Array:
        return functions.step(params, moving, s, ξ)

    after = filter_by.step(step, state, functions.normals, functions.is_additive)
    m, F = jnp.where(moves, after.mean, state.m), jnp.where(moves, after.slope, jnp.eye(n)) * whole
    P = _symmetric(jnp.where(moves, after.covariance, state.P))
    now = stride.time + stride.length
    sensed = filter_by.sense(lambda s: functions.sense(params, now, s), m, P)
    cross = sensed.slope @ P
    both = _symmetric(jnp.block([[P, cross.T], [cross, sensed.covariance]]))
    predicted = State(jnp.concatenate([m, sensed.mean]), both, None, None)
    columns = len(sensed.mean)
    H = jnp.concatenate([jnp.zeros((columns, n)), jnp.eye(columns)], axis=1)
    sensing = Sensing(H, jnp.zeros(columns), functions.variances(params))
    known, readings = kalman.updated(predicted, sensing, stride.row)
    m = known.m[:n]
    if functions.settled is not None:
        m = jnp.where(jnp.any(stride.row.is_read), functions.settled(params, now, m), m)
        known = known._replace(m=known.m.at[:n].set(m))
    loglik = jnp.sum(kalman.log_density(readings, stride.row.is_read))
    return State(m, known.P[:n, :n], None, None), Passed(predicted, known, readings, loglik, F, sensed.slope)


def _symmetric(P: Array) -> Array:
    return 0.5 * (P + P.T)


def returned(adjoint: Adjoint, entry: Any, fixed: Any, at: tuple[Passed, Row]) -> tuple[Adjoint, tuple[Array, Array]]:
    """One row backwards: mean and covariance of (s, h) given all readings; the adjoint is that of s after the row."""
    passed, row = at
    (m, P, _, _), readings, n = passed.predicted, passed.readings, len(passed.F)
    columns = len(m) - n
    λ = jnp.concatenate([adjoint.λ, jnp.zeros(columns)])
    Λ = jnp.zeros_like(P).at[:n, :n].set(adjoint.Λ)
    for k in reversed(range(columns)):
        reading: Reading = jax.tree.map(lambda part, k=k: part[k], readings)
        unit = jnp.zeros(len(m)).at[n + k].set(1.0)
        λ, Λ = kalman.unread(Adjoint(λ, Λ, None, None, None), unit, reading, row.is_read[k])[:2]
    mean, covariance = m - P @ λ, P - P @ Λ @ P
    into = jnp.concatenate([passed.F, passed.A @ passed.F])
    back = Adjoint(into.T @ λ, into.T @ Λ @ into, None, None, None)
    return back, (mean, _symmetric(covariance))
