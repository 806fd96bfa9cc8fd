"""Linear-quadratic design for a plant that is sampled: regulators, estimators, and both together.

The plant between samples, with its input held and late by a delay, is z⁺ = A z + B u + noise of covariance Q, where z
holds the state and those earlier inputs that have not acted in full yet. The cost ∫ xᵀ W x + uᵀ ρ u dt over a period is
a quadratic form of (z, u), with cross terms, plus what the noise within the period costs. With X and Y the solutions of
the two Riccati equations, K the gain of the regulator and Y_f the covariance of the filtered estimate,
    J = [tr(X Q) + tr(Kᵀ (R + Bᵀ X B) K Y_f) + the cost of noise within the period] / h.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy

from stodyn.numerics import lyapunov, quadratic_cost, van_loan
from stodyn.problems.linear_plant import Plant, Readings

LONGEST = 64  # periods up to which a delay is looked for that makes a loop unstable
PARTS_OF_A_PERIOD = 8
HALVINGS = 40


class System(NamedTuple):
    """A discrete system: x⁺ = A x + B y, u = C x + D y."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray


class Period(NamedTuple):
    """A plant from sample to sample, z⁺ = A z + B u + noise; (z, u) costs its `cost` and the noise `of_noise`."""

    A: np.ndarray
    B: np.ndarray
    Q: np.ndarray
    cost: np.ndarray
    of_noise: float


class Regulator(NamedTuple):
    """u = -K z; X solves its Riccati equation, and `weight` is R + Bᵀ X B."""

    K: np.ndarray
    X: np.ndarray
    weight: np.ndarray


class Estimator(NamedTuple):
    """The gain of a filter for (x, s), and the covariance of its estimates before and after a reading."""

    L: np.ndarray
    predicted: np.ndarray
    filtered: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Design:
    """What a part was designed to be.

    Attributes
    ----------
    gains : dict
        "control": K of u = -K z, z the state and then the inputs that are on their way; "filter": the gain of readings.
    J : float or None
        The average cost in the long run; None for an estimator alone.
    poles : array
        The factors by which the modes of the designed loop change in a period.
    covariance : array or None
        The covariance of the error of the filtered estimate; None where the state is known.
    system : System
        The part itself: x⁺ = A x + B y, u = C x + D y.
    """

    gains: dict[str, np.ndarray]
    J: float | None
    poles: np.ndarray
    covariance: np.ndarray | None
    system: System
    plant: Plant
    reads: np.ndarray
    every: Fraction
    delay: Fraction

    @functools.cached_property
    def longest_delay(self) -> float:
        """The delay of the part from which on the loop is unstable, all else as designed; infinite where none is found
        in 64 periods."""
        if self.J is None:
            raise ValueError("longest_delay: an estimator alone closes no loop; ask the regulator")
        step = self.every / PARTS_OF_A_PERIOD
        low, high = self.delay, self.delay + step
        while self._radius(high) < 1.0:
            low, high = high, high + step
            if high > LONGEST * self.every:
                return math.inf
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._radius(middle) < 1.0 else (low, middle)
        return float(high)

    def _radius(self, delay: Fraction) -> float:
        """The spectral radius of the loop with another delay."""
        period = sampled_plant(self.plant, self.every, delay)
        return float(np.abs(np.linalg.eigvals(closed(period, self.reads, self.system))).max())


def closed(period: Period, H: np.ndarray, system: System) -> np.ndarray:
    """The loop of a plant and a discrete system that reads H x, from sample to sample."""
    reads = np.hstack([H, np.zeros((len(H), len(period.A) - H.shape[1]))])
    return np.block([
        [period.A + period.B @ system.D @ reads, period.B @ system.C],
        [system.B @ reads, system.A],
    ])  # fmt: skip


def sampled_plant(
    plant: Plant, every: Fraction, delay: Fraction, W: np.ndarray | None = None, rho: np.ndarray | None = None
) -> Period:
    """Return a plant from sample to sample, its input late by `delay`; W and ρ weigh its state and its input."""
    n, p = plant.B.shape
    whole, rest = divmod(delay, every)
    slots = int(whole) + (rest > 0)
    size = n + (slots + 1) * p
    unit = np.eye(size)
    inputs = [unit[size - p :], *(unit[n + k * p : n + (k + 1) * p] for k in range(slots))]  # u now, one ago, ...
    F = np.block([[plant.A, plant.B], [np.zeros((p, n + p))]])
    weights = scipy.linalg.block_diag(np.zeros((n, n)) if W is None else W, np.zeros((p, p)) if rho is None else rho)
    x, cost = unit[:n], np.zeros((size, size))
    for time, number in ((rest, int(whole) + 1), (every - rest, int(whole))):
        if time > 0:
            both = np.concatenate([x, inputs[number]])
            Phi, of_start, _ = quadratic_cost.accumulated(F, weights, float(time))
            cost += both.T @ of_start @ both
            x = (Phi @ both)[:n]
    after = np.concatenate([x, *inputs[:slots]])
    Q = np.zeros((size - p, size - p))
    Q[:n, :n] = van_loan.discretise(plant.A, plant.G, np.eye(plant.G.shape[1]), float(every))[1]
    of_noise = quadratic_cost.accumulated(plant.A, weights[:n, :n], float(every)).of_noise
    return Period(
        after[:, :-p] if p else after, after[:, size - p :], Q, cost, float(np.sum(of_noise * (plant.G @ plant.G.T)))
    )


def regulator(period: Period) -> Regulator:
    """Return the gain that costs least."""
    A, B = period.A, period.B
    n = len(A)
    Q, S, R = period.cost[:n, :n], period.cost[:n, n:], period.cost[n:, n:]
    X = _riccati(A, B, Q, R, S, "cost: no regulator makes the loop stable at a finite cost; the inputs do not reach an "
                                "unstable mode, or the cost does not see one")  # fmt: skip
    weight = R + B.T @ X @ B
    K = np.linalg.solve(weight, B.T @ X @ A + S.T)
    return Regulator(K, X, weight)


def estimator(period: Period, readings: Readings, n: int) -> Estimator:
    """Return the steady filter of the state and of what the noise of the sensors remembers."""
    Phi, Q, H = with_readings(period, readings, n)
    words = "sensors: no filter has bounded errors; the readings do not show an unstable mode, or no noise moves one"
    Y = _riccati(Phi.T, H.T, Q, readings.R, None, words)
    spread = H @ Y @ H.T + readings.R
    if np.linalg.cond(spread) > 1e14:
        raise ValueError("sensors: some reading follows from the others without error; leave it out, or give it noise")
    L = np.linalg.solve(spread, H @ Y).T
    return Estimator(L, Y, lyapunov.symmetric(Y - L @ H @ Y))


def with_readings(period: Period, readings: Readings, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Φ and Q of the state and of what the noise of the sensors remembers, and H, by which they are read."""
    Phi = scipy.linalg.block_diag(period.A[:n, :n], readings.Phi)
    Q = scipy.linalg.block_diag(period.Q[:n, :n], readings.Q)
    return Phi, Q, np.hstack([readings.H, readings.C])


def _riccati(A: Any, B: Any, Q: Any, R: Any, S: Any, words: str) -> np.ndarray:
    """The stabilising solution of X = AᵀXA + Q - (AᵀXB + S)(R + BᵀXB)⁻¹(...)ᵀ, corrected by one step of Newton."""
    S = np.zeros_like(B) if S is None else S
    try:
        X = scipy.linalg.solve_discrete_are(A, B, lyapunov.symmetric(Q), lyapunov.symmetric(R), s=S)
        K = np.linalg.solve(R + B.T @ X @ B, B.T @ X @ A + S.T)
    except np.linalg.LinAlgError as failure:
        raise ValueError(words) from failure
    loop = A - B @ K
    if not np.abs(np.linalg.eigvals(loop)).max() < 1.0 - lyapunov.LEAST_DECAY:
        raise ValueError(words)
    return lyapunov.discrete(loop.T, lyapunov.symmetric(Q + K.T @ R @ K - S @ K - K.T @ S.T))
