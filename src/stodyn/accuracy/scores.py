"""Scores: how near a path is to a rare event, by which splitting ranks paths. Only the ranks matter.

distance  -(smallest distance from the level in the step): perfect where the level must be passed on the way
index     -min over 0 < u <= T - t of (level - m(u))/s(u), with mean m and standard deviation s of the function at
          t + u given the state at t: the reliability index of the remaining time, for linear problems. A state that
          is high and late is worth less than one that is high and early
amplitude √(x² + (v/ω)²) of the oscillator whose position is watched
function  any function of (t, x[, params])
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.analysis.step.linear import coefficients
from stodyn.methods.branching import LEAST
from stodyn.numerics import van_loan
from stodyn.problems.calling import call
from stodyn.problems.contract import returned_shape
from stodyn.problems.level import SIDES, Gauge
from stodyn.problems.structure import is_autonomous

HORIZONS = 16  # lengths of time ahead that the index considers, besides the end
MOST_STEPS = 100_000  # most steps whose rows are tabulated
POSITIONS = 256  # rows of a table that every path reads at a place of its own
LARGE = 64  # components beyond which no matrices are made


def distance(t: Any, y: Any, closest: Any, params: Any) -> Any:
    """The score that grows as a path comes nearer: minus the smallest distance from the level in the step."""
    return -closest


def from_function(function: Callable, problem: Any) -> Callable:
    """The score from the user's function of (t, x[, params])."""
    with jax.enable_x64(True):
        shape = returned_shape(problem, "score", function, ("t", 0.0), ("x", np.asarray(problem.example_start()))).shape
    if shape != ():
        raise ValueError(f"score: returned shape {shape}, expected one number, the larger the nearer to the event")

    def score(t, y, closest, params):
        return jnp.asarray(call(function, t, y, params=params), y.dtype)

    return score


class LinearParts(NamedTuple):
    """dx = (A x + a) dt + noise of intensity S, and the function c·x + offset that reaches a level."""

    A: np.ndarray
    a: np.ndarray
    S: np.ndarray
    c: np.ndarray
    offset: float


class NotLinear(ValueError):
    """Why a problem and its level have no `linear_parts`."""


def linear_parts(gauge: Gauge) -> LinearParts:
    """The matrices of a linear problem with additive noise and a level of a linear function; NotLinear if something is
    not linear, depends on time or differs from path to path."""
    problem = gauge.problem
    if any(map(callable, gauge.level.bounds)):
        raise NotLinear("the level moves in time")
    if problem.n > LARGE:
        raise NotLinear(f"the problem has {problem.n} components; at most {LARGE} are possible")
    if not problem.noise_structure.implies("additive"):
        raise NotLinear("the noise is not additive")
    try:
        A, a, _, b = coefficients(problem)
        if not is_autonomous(problem):
            raise NotLinear("the equations depend on time, as those under an envelope do")
        with jax.enable_x64(True):
            params = problem.example_params()
            states = np.zeros((4, problem.n))
            states[1:] = np.random.default_rng(0).standard_normal((3, problem.n))
            rows = np.array([gauge.gradient(0.0, jnp.asarray(x), params) for x in states])
            offset = float(gauge.value(0.0, jnp.zeros(problem.n), params))
            later = float(gauge.value(1.7, jnp.asarray(states[1]), params))
    except NotLinear:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise NotLinear(str(error)) from error
    c, further = rows[0][: len(A)], rows[0][len(A) :]
    if not np.isfinite(rows).all() or not np.array_equal(rows[1:], np.repeat(rows[:1], 3, axis=0)) or further.any():
        raise NotLinear(f"{gauge.words} is not a linear function of the state")
    if not np.isclose(later, offset + rows[0] @ states[1], rtol=1e-12, atol=1e-12):
        raise NotLinear(f"{gauge.words} is not a linear function of the state, the same at all times")
    return LinearParts(A, a, b.T @ b, c, offset)


def index(gauge: Gauge, h: float, steps: int, first_time: float) -> Callable | None:
    """The reliability index of the remaining time of a linear problem; None if the problem is not linear."""
    try:
        parts = linear_parts(gauge)
    except NotLinear:
        return None
    if steps > MOST_STEPS:
        return None
    rows, means, deviations = ahead(parts, h, steps)
    eigenvalues = np.linalg.eigvals(parts.A)
    rates, turns = np.abs(eigenvalues.real), np.abs(eigenvalues.imag)
    memory = min([2.0 / r for r in rates if r > 0] + [2 * np.pi / w for w in turns if w > 0] + [np.inf])
    longest = int(np.clip(memory / h if np.isfinite(memory) else 0, 0, steps))
    horizons = np.unique(np.round(np.geomspace(1, longest, HORIZONS)).astype(int)) if longest >= 1 else np.empty(0, int)
    horizons = horizons[deviations[horizons] > 0]
    table = np.column_stack([rows, parts.offset + means, 1.0 / np.where(deviations > 0, deviations, np.inf)])
    end, n = first_time + steps * h, len(parts.A)
    ends = np.arange(steps + 1)
    if steps >= POSITIONS:  # closer together towards the end, where the index changes fast
        ends = np.ceil(steps * (np.arange(POSITIONS) / (POSITIONS - 1)) ** 2 - 1e-9).astype(int)
    sides = tuple(zip(SIDES[str(gauge.level.direction)], gauge.level.bounds, strict=True))

    def score(t, y, closest, params):
        left, x = jnp.clip(jnp.round((end - t) / h), 0, steps).astype(np.int32), y[:n]

        def distance(row):
            """The distance from the nearer level, in standard deviations."""
            mean = row[:n] @ x + row[n]
            distances = [sign * (level - mean) for sign, level in sides]
            return functools.reduce(jnp.minimum, distances) * row[n + 1]

        place = left if steps < POSITIONS else jnp.ceil(jnp.sqrt(left / steps) * (POSITIONS - 1)).astype(np.int32)
        last = jnp.asarray(table[ends], y.dtype)[place]
        best = jnp.where(last[n + 1] > 0, distance(last), -LEAST)
        for u in horizons:
            best = jnp.where(u < left, jnp.minimum(best, distance(jnp.asarray(table[u], y.dtype))), best)
        return -best

    return score


def ahead(parts: LinearParts, h: float, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """c exp(A u), and mean (from the state 0) and standard deviation of c·x after u = 0, h, 2h, ..."""
    A, a, S, c, _ = parts
    n = len(A)
    Phi, Qd = van_loan.discretise(A, np.eye(n), S, h)
    shift = scipy.linalg.expm(h * np.block([[A, a[:, None]], [np.zeros((1, n + 1))]]))[:n, n]
    rows, means, variances = np.empty((steps + 1, n)), np.zeros(steps + 1), np.zeros(steps + 1)
    row = np.array(c, float)
    for k in range(steps + 1):
        rows[k] = row
        if k < steps:  # c·x after k + 1 steps is c exp(A k h)·(the first of them), and so on
            means[k + 1] = means[k] + row @ shift
            variances[k + 1] = variances[k] + row @ Qd @ row
            row = row @ Phi
    return rows, means, np.sqrt(variances)


def amplitude(gauge: Gauge) -> Callable:
    """√(x² + (v/ω)²) of the watched position x, v its rate and ω² = -∂(dv/dt)/∂x where the problem starts."""
    problem = gauge.problem
    if gauge.known[0] != "cubic" or callable(gauge.of):
        raise ValueError(
            'score: "amplitude" is for the position of an oscillator, a component whose rate is driven by noise; '
            'give "distance", or a function of (t, x[, params])'
        )
    with jax.enable_x64(True):
        x = jnp.asarray(problem.example_start(), float)
        params = problem.example_params()

        def acceleration(x):
            def speed(y):
                return problem.mean_rates(0.0, y, params, (gauge.of,))[0]

            rates = jnp.stack(problem.mean_rates(0.0, x, params, tuple(range(problem.n))))
            return jax.grad(speed)(x) @ rates

        square = -float(jax.grad(acceleration)(x)[gauge.of])
    if not square > 0:
        raise ValueError('score: "amplitude" needs a restoring force, but this position has none; give "distance"')

    def score(t, y, closest, params):
        v = problem.mean_rates(t, y, params, (gauge.of,))[0]
        return jnp.sqrt(y[gauge.of] ** 2 + v**2 / square)

    return score
