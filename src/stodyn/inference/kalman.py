"""Kalman's recursions, forwards and backwards: one row of a record as pure functions of matrices.

A row is a time: the state goes there by the law of its gap, and then takes the readings of that time one after the
other. Readings have independent noise, so that a variance S is all that is ever divided by: covariances may be
singular, and a reading that is missing is left out. Updates are Joseph's, P <- C P C' + r K K' with C = 1 - K h', which
is right for every gain.

Components of which nothing is known have the covariance κ D D', κ -> ∞. A reading that sees them, u = D' h ≠ 0, takes
the gain K = D u/|u|², the limit of P h/S, and contributes nothing to the likelihood; D loses the direction u.
Backwards, the adjoint is a series in 1/κ of which three terms count (J. Durbin & S. J. Koopman, Time Series Analysis by
State Space Methods, 2012, chapter 5). Elsewhere backwards is G. J. Bierman, Automatica 9 (1973): nothing is inverted
but S.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from stodyn.numerics.linear_flow import Law
from stodyn.numerics.printing.recurrence import Recurrence

Array: TypeAlias = Any  # of JAX, or of NumPy

FEW = 4  # columns up to which the readings of a row are written out one by one
SEEN = 1e-9  # of |h| |D|: less of a diffuse direction in a reading is rounding


class Sensing(NamedTuple):
    """y = H x + d + noise of variance R, for each column."""

    H: Array
    d: Array
    R: Array


class Row(NamedTuple):
    """The readings of one time; `keep` is 0 for integrals, the last states, that are reset on the way there."""

    values: Array
    is_read: Array
    keep: Array


class State(NamedTuple):
    """What is known of x: N(m, P + κ D D'), and how many directions of D are left."""

    m: Array
    P: Array
    D: Array | None
    left: Array | None


class Reading(NamedTuple):
    """One reading on its way into the state: innovation and variance, given the readings before it in the row, its
    gain, P h; and whether it sees something diffuse, with |D' h|²."""

    v: Array
    S: Array
    K: Array
    Ph: Array
    sees: Array | None
    size: Array | None


def moved(state: State, law: Law, keep: Array) -> State:
    """Return the prediction for the next row."""
    m, P, D, left = state
    if keep.size:
        whole = jnp.concatenate([jnp.ones(len(m) - keep.size), keep])
        m, P, D = m * whole, P * whole * whole[:, None], None if D is None else D * whole[:, None]
    half = P + law.E @ P
    P = half + half @ law.E.T + law.Q
    return State(m + law.E @ m + law.c, 0.5 * (P + P.T), None if D is None else D + law.E @ D, left)


def read(state: State, h: Array, d: Array, r: Array, y: Array, is_read: Array) -> tuple[State, Reading]:
    """Return the state after one reading, and the reading."""
    m, P, D, left = state
    Ph = P @ h
    S, v = h @ Ph + r, y - h @ m - d
    K = Ph / jnp.where(is_read & (S > 0.0), S, 1.0)
    sees = size = None
    if D is not None and left is not None:
        u = h @ D
        size = u @ u
        sees = is_read & (left > 0.0) & (size > SEEN**2 * (h @ h) * jnp.sum(D * D))
        gain = D @ u / jnp.where(sees, size, 1.0)
        D = jnp.where(sees, D - jnp.outer(gain, u), D)
        K, left = jnp.where(sees, gain, K), left - jnp.where(sees, 1.0, 0.0)
    K = jnp.where(is_read, K, 0.0)
    X = P - jnp.outer(K, Ph)
    P = X - jnp.outer(X @ h, K) + r * jnp.outer(K, K)
    return State(m + K * v, 0.5 * (P + P.T), D, left), Reading(v, S, K, Ph, sees, size)


def log_density(reading: Reading, is_read: Array) -> Array:
    """Return the shares of readings in the log-likelihood."""
    counts = is_read if reading.sees is None else is_read & ~reading.sees
    S = jnp.where(counts, reading.S, 1.0)
    return jnp.where(counts, -0.5 * (reading.v**2 / S + jnp.log(2.0 * math.pi * S)), 0.0)


def updated(predicted: State, sensing: Sensing, row: Row) -> tuple[State, Reading]:
    """Return the state after all readings of a row, and these."""

    def update(state: State, column: Any) -> tuple[State, Reading]:
        return read(state, *column)

    columns = *sensing, row.values, row.is_read
    if len(sensing.d) > FEW:
        return lax.scan(update, predicted, columns)
    state, readings = predicted, []
    for k in range(len(sensing.d)):
        state, reading = update(state, [part[k] for part in columns])
        readings.append(reading)
    return state, jax.tree.map(lambda *parts: jnp.stack(parts), *readings)


def summed_row(carry: tuple[State, Array], law: Law, sensing: Sensing, row: Row) -> tuple[tuple[State, Array], tuple]:
    """One row, with nothing stored but the log-likelihood."""
    state, total = carry
    state, readings = updated(moved(state, law, row.keep), sensing, row)
    return (state, total + jnp.sum(log_density(readings, row.is_read))), ()


class History(NamedTuple):
    """What a filter leaves of a row: prediction, state after the readings, the readings, and their log-likelihood."""

    predicted: State
    state: State
    readings: Reading
    loglik: Array


def stored_row(state: State, law: Law, sensing: Sensing, row: Row) -> tuple[State, History]:
    """One row, with everything stored."""
    predicted = moved(state, law, row.keep)
    state, readings = updated(predicted, sensing, row)
    return state, History(predicted, state, readings, jnp.sum(log_density(readings, row.is_read)))


def derived(function: Any) -> Any:
    """Return a row with a derivative beside each number: arguments and results are pairs (value, tangent)."""

    def both(carry: Any, law: Any, sensing: Any, row: Row) -> Any:
        primals, tangents = zip(carry, law, sensing, strict=True)
        (new, _), (slope, _) = jax.jvp(lambda *parts: function(*parts, row), primals, tangents)
        return (new, slope), ()

    return both


# --- backwards --------------------------------------------------------------------------------------------------------


class Adjoint(NamedTuple):
    """What later readings say of a state: its mean becomes m - P λ and its covariance P - P Λ P, where λ and Λ are
    series λ + λ1/κ and Λ + Λ1/κ + Λ2/κ² as long as something is diffuse."""

    λ: Array
    Λ: Array
    λ1: Array | None
    Λ1: Array | None
    Λ2: Array | None


def _through(Λ: Array, h: Array, K: Array) -> Array:
    """C' Λ C with C = 1 - K h'."""
    ΛK = Λ @ K
    return Λ - jnp.outer(h, ΛK) - jnp.outer(ΛK, h) + (K @ ΛK) * jnp.outer(h, h)


def unread(adjoint: Adjoint, h: Array, reading: Reading, is_read: Array) -> Adjoint:
    """Return the adjoint before a reading from that after it."""
    λ, Λ, λ1, Λ1, Λ2 = adjoint
    v, S, K, Ph, sees, size = reading
    square = jnp.outer(h, h)
    inverse = jnp.where(is_read, 1.0 / jnp.where(is_read, S, 1.0), 0.0)
    before = Adjoint(λ - h * (K @ λ) - h * v * inverse, _through(Λ, h, K) + square * inverse, None, None, None)
    if sees is None:
        return before
    assert λ1 is not None and Λ1 is not None and Λ2 is not None and size is not None
    before1, through_1, through_2 = λ1 - h * (K @ λ1), _through(Λ1, h, K), _through(Λ2, h, K)
    before = before._replace(λ1=before1, Λ1=through_1, Λ2=through_2)
    F = jnp.where(sees, size, 1.0)
    K1 = (Ph - K * S) / F
    K2 = -K1 * S / F
    through, through1 = Λ - jnp.outer(Λ @ K, h), Λ1 - jnp.outer(Λ1 @ K, h)
    mixed, mixed1 = jnp.outer(h, K1 @ through), jnp.outer(h, K1 @ through1)
    mixed2 = jnp.outer(h, K2 @ through)
    limit = Adjoint(
        λ - h * (K @ λ),
        _through(Λ, h, K),
        before1 - h * (v / F + K1 @ λ),
        through_1 + square / F - mixed - mixed.T,
        through_2 + square * (K1 @ Λ @ K1 - S / F**2) - mixed1 - mixed1.T - mixed2 - mixed2.T,
    )
    return jax.tree.map(lambda a, b: jnp.where(sees, a, b), limit, before)


class Passed(NamedTuple):
    """What the way back needs of a row: the prediction, its readings, and the row."""

    predicted: State
    readings: Reading
    row: Row


def smoothed_row(adjoint: Adjoint, law: Law, sensing: Sensing, passed: Passed) -> tuple[Adjoint, tuple[Array, Array]]:
    """One row backwards: mean and covariance given all readings, before the reset that follows the row."""
    (m, P, D, _), readings, row = passed
    for k in reversed(range(len(sensing.d))):
        adjoint = unread(adjoint, sensing.H[k], jax.tree.map(lambda part: part[k], readings), row.is_read[k])
    λ, Λ, λ1, Λ1, Λ2 = adjoint
    mean, covariance = m - P @ λ, P - P @ Λ @ P
    if D is not None:
        assert Λ1 is not None and Λ2 is not None
        spread = D @ D.T
        mixed = spread @ Λ1 @ P
        mean, covariance = mean - spread @ λ1, covariance - mixed - mixed.T - spread @ Λ2 @ spread

    def back(part: Array | None) -> Array | None:
        if part is None:
            return None
        part = part + law.E.T @ part
        if part.ndim == 2:
            part = part + part @ law.E
        if not row.keep.size:
            return part
        whole = jnp.concatenate([jnp.ones(len(m) - row.keep.size), row.keep])
        return part * whole if part.ndim == 1 else part * whole * whole[:, None]

    return Adjoint(*map(back, adjoint)), (mean, 0.5 * (covariance + covariance.T))


SUMS = tuple(map(Recurrence, (summed_row, derived(summed_row), derived(derived(summed_row)))))  # by order of derivative
STORED, SMOOTHED = Recurrence(stored_row), Recurrence(smoothed_row)
