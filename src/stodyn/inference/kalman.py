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
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from stodyn.numerics.linear_flow import Law
from stodyn.numerics.printing.recurrence import Recurrence

Array: TypeAlias = Any  # of JAX, or of NumPy

FEW = 4  # columns up to which the readings of a row are written out one by one
STILL = 4e-15  # of a covariance: a change from row to row that is rounding
SEEN = 1e-9  # of |h| |D|, a choice: less of a diffuse direction in a reading is what earlier steps have rounded


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


class Spread(NamedTuple):
    """What is known of x without its mean: the covariance P + κ D D', and how many directions of D are left."""

    P: Array
    D: Array | None
    left: Array | None


class State(NamedTuple):
    """What is known of x: N(m, P + κ D D'), and how many directions of D are left."""

    m: Array
    P: Array
    D: Array | None
    left: Array | None

    @property
    def spread(self) -> Spread:
        """What a filter knows of the state besides its mean."""
        return Spread(self.P, self.D, self.left)


class Gain(NamedTuple):
    """What a reading does, whatever its value: its variance S given the readings before it in the row, its gain, P h;
    and whether it sees something diffuse, with |D' h|²."""

    S: Array
    K: Array
    Ph: Array
    sees: Array | None
    size: Array | None


class Reading(NamedTuple):
    """One reading on its way into the state: its innovation, and its gain as above."""

    v: Array
    S: Array
    K: Array
    Ph: Array
    sees: Array | None
    size: Array | None


def whole(n: int, keep: Array) -> Array:
    """Return 1 for each state, and 0 for integrals that are reset."""
    return jnp.concatenate([jnp.ones(n - keep.size), keep])


def after_resets(m: Array, keep: Array) -> Array:
    """Return a mean where integrals that begin anew are 0."""
    return m * whole(len(m), keep) if keep.size else m


def moved_mean(m: Array, law: Law, keep: Array) -> Array:
    """Return the mean at the next row before its readings."""
    m = after_resets(m, keep)
    return m + law.E @ m + law.c


def moved_spread(spread: Spread, law: Law, keep: Array) -> Spread:
    """Return the covariance at the next row before its readings."""
    P, D, left = spread
    if keep.size:
        mask = whole(len(P), keep)
        P, D = P * mask * mask[:, None], None if D is None else D * mask[:, None]
    half = P + law.E @ P
    P = half + half @ law.E.T + law.Q
    return Spread(0.5 * (P + P.T), None if D is None else D + law.E @ D, left)


def moved(state: State, law: Law, keep: Array) -> State:
    """Return the prediction for the next row."""
    return State(moved_mean(state.m, law, keep), *moved_spread(state.spread, law, keep))


def gained(spread: Spread, h: Array, r: Array, is_read: Array) -> tuple[Spread, Gain]:
    """Return the covariance after one reading, and the gain of the reading."""
    P, D, left = spread
    Ph = P @ h
    S = h @ Ph + r
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
    return Spread(0.5 * (P + P.T), D, left), Gain(S, K, Ph, sees, size)


def read(state: State, h: Array, d: Array, r: Array, y: Array, is_read: Array) -> tuple[State, Reading]:
    """Return the state after one reading, and the reading."""
    v = y - h @ state.m - d
    spread, gain = gained(state.spread, h, r, is_read)
    return State(state.m + gain.K * v, *spread), Reading(v, *gain)


def counts(gain: Gain | Reading, is_read: Array) -> Array:
    """Return which readings have a share in the likelihood."""
    return is_read if gain.sees is None else is_read & ~gain.sees


def log_density(reading: Reading, is_read: Array) -> Array:
    """Return the shares of readings in the log-likelihood."""
    has_share = counts(reading, is_read)
    S = jnp.where(has_share, reading.S, 1.0)
    return jnp.where(has_share, -0.5 * (reading.v**2 / S + jnp.log(2.0 * math.pi * S)), 0.0)


def in_order(update: Callable, first: Any, columns: Any) -> tuple[Any, Any]:
    """Return what is left after the readings of a row, one after the other, and what each leaves, stacked."""

    def turn(state: Any, column: Any) -> Any:
        return update(state, *column)

    if len(columns[0]) > FEW:
        return lax.scan(turn, first, tuple(columns))
    state, series = first, []
    for k in range(len(columns[0])):
        state, own = turn(state, [part[k] for part in columns])
        series.append(own)
    return state, jax.tree.map(lambda *parts: jnp.stack(parts), *series)


def updated(predicted: State, sensing: Sensing, row: Row) -> tuple[State, Reading]:
    """Return the state after all readings of a row, and these."""
    return in_order(read, predicted, (*sensing, row.values, row.is_read))


# --- the log-likelihood alone -----------------------------------------------------------------------------------------


class Link(NamedTuple):
    """What a row does to means and to the log-likelihood: of each reading what it sees of the state before the row, HΦ,
    with its offset, so that innovations need not wait for the prediction; its gain and 1/S; and the terms ln 2πS."""

    sight: Array
    offset: Array
    K: Array
    inverse: Array
    constant: Array


def spread_row(spread: Spread, law: Law, sensing: Sensing, row: Row) -> tuple[Spread, Link, Array]:
    """One row of the covariance, which does not depend on what is read, and whether it leaves it as it was."""
    moved = moved_spread(spread, law, row.keep)
    after, gains = in_order(gained, moved, (sensing.H, sensing.R, row.is_read))
    has_share = counts(gains, row.is_read)
    S = jnp.where(has_share, gains.S, 1.0)
    inverse = jnp.where(has_share, 1.0 / S, 0.0)
    constant = -0.5 * jnp.sum(jnp.where(has_share, jnp.log(2.0 * math.pi * S), 0.0))
    link = Link(sensing.H + sensing.H @ law.E, sensing.d + sensing.H @ law.c, gains.K, inverse, constant)
    is_settled = _is_still(after.P - spread.P, after.P, after.P)
    if after.left is not None:
        is_settled = is_settled & (after.left == 0.0)
    return after, link, is_settled


def _is_still(change: Array, P: Array, size: Array) -> Array:
    """Whether a covariance, or a derivative of it, has changed by no more than rounding, in units of the deviations."""
    deviations = jnp.sqrt(jnp.where(jnp.diagonal(P) > 0.0, jnp.diagonal(P), 1.0))
    units = deviations * deviations[:, None]
    return jnp.max(jnp.abs(change) / units) <= STILL * jnp.max(jnp.abs(size) / units)


class Sum(NamedTuple):
    """A mean, and a log-likelihood with what its additions have rounded off: a settled filter adds the same term a
    million times, and would round it the same way each time."""

    m: Array
    total: Array
    lost: Array


def mean_row(carry: Sum, link: Link, law: Law, sensing: Sensing, row: Row) -> tuple[Sum, tuple]:
    """One row of the mean and of the log-likelihood so far."""

    before = after_resets(carry.m, row.keep)

    def update(carry: Any, h: Array, K: Array, inverse: Array, v: Array) -> tuple[Any, tuple]:
        change, square = carry
        v = v - h @ change
        return (change + K * v, square + inverse * v * v), ()

    columns = sensing.H, link.K, link.inverse, (row.values - link.offset) - link.sight @ before
    (change, square), _ = in_order(update, (jnp.zeros_like(before), jnp.zeros(())), columns)
    term = link.constant - 0.5 * square + carry.lost
    total = carry.total + term
    return Sum((before + law.c) + law.E @ before + change, total, term - (total - carry.total)), ()


def summed_row(carry: tuple[Spread, Sum], law: Law, sensing: Sensing, row: Row) -> tuple[Spread, Sum]:
    """One row of everything, with nothing stored but the log-likelihood."""
    spread, link, _ = spread_row(carry[0], law, sensing, row)
    return spread, mean_row(carry[1], link, law, sensing, row)[0]


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

    def both(*arguments: Any) -> Any:
        *pairs, row = arguments
        primals, tangents = zip(*pairs, strict=True)
        (new, _), (slope, _) = jax.jvp(lambda *parts: function(*parts, row), primals, tangents)
        return (new, slope), ()

    return both


def derived_spread(function: Any) -> Any:
    """Return a row of the covariance with a derivative beside each number; it is settled where both are."""

    def both(spread: Any, law: Any, sensing: Any, row: Row) -> Any:
        def own(*parts: Any) -> Any:
            after, link, is_settled = function(*parts, row)
            return (after, link), is_settled

        primals, tangents = zip(spread, law, sensing, strict=True)
        (after, link), (slope, bend), is_settled = jax.jvp(own, primals, tangents, has_aux=True)
        P = jax.tree.leaves(after)[0]
        changes = zip(_covariances(slope), _covariances(spread[1]), strict=True)
        for new, old in changes:
            is_settled = is_settled & _is_still(new - old, P, new)
        return (after, slope), (link, bend), is_settled

    return both


def _covariances(spread: Any) -> list[Array]:
    """All covariances in pairs of pairs of spreads."""
    return [spread.P] if isinstance(spread, Spread) else [P for part in spread for P in _covariances(part)]


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
        mask = whole(len(m), row.keep)
        return part * mask if part.ndim == 1 else part * mask * mask[:, None]

    return Adjoint(*map(back, adjoint)), (mean, 0.5 * (covariance + covariance.T))


def timed(function: Callable) -> Callable:
    """Return a row whose entry of the table is (law, sensing): what is read depends on time."""

    def own(*arguments: Any) -> Any:
        *carry, (law, sensing), _, row = arguments
        return function(*carry, law, sensing, row)

    return own


def _sums(mean: Callable, spread: Callable) -> tuple[Recurrence, ...]:
    """The log-likelihood with its derivatives, by their order."""
    first, second = derived(mean), derived_spread(spread)
    return Recurrence(mean, spread), Recurrence(first, second), Recurrence(derived(first), derived_spread(second))


# whether what is read depends on time
SUMS = {False: _sums(mean_row, spread_row), True: _sums(timed(mean_row), timed(spread_row))}
STORED, SMOOTHED = ({False: Recurrence(row), True: Recurrence(timed(row))} for row in (stored_row, smoothed_row))
