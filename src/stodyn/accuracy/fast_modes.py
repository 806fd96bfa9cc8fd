"""The noise of modes that decay within a step: implicit steps damp it out, and no difference of levels shows it.

    M dx = f dt + g dW,    A = ∂f/∂x,    A v = λ M v,    w* A = λ w* M,    γ = w* g/(w* M v)

A mode of rate λ driven by noise has the variance |γ|²/(2|λ|). Implicit Euler steps of length h give it |γ|²/(|λ|² h),
and steps of half that length twice as much: as long as |λ|h ≫ 1 both are negligible beside the truth, and so is their
difference. Hence the covariance of the modes with |Re λ| h > 1 is taken from the linearised equations, and its effect
on f is computed: at the end or along the path, directly and through the mean of the drift.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy

from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.looped import Looped, plant_of
from stodyn.statistics.functional import Functional, Integral, Maximum, Probability, TimeAverage

FLOW = 16  # implicit Euler steps along which the equations are linearised
OBSERVED_AFTER = (0, 8, 16)  # after which of them
STATES = 4  # at each look: one on the path of the mean, the others spread around it
MOST_STEPS = 2**15  # the most that steps_for asks for
SHARE = 0.2  # of the error that may be damped out; it counts as bias
EPSILON = float(np.finfo(float).eps)
DENSITY = 0.4  # the largest density of a standard normal


class LinearisedAt(NamedTuple):
    """The linearised equations at one time of the path of the mean."""

    time: float
    state: np.ndarray
    spread: np.ndarray  # a root of the covariance there
    A: np.ndarray
    g: np.ndarray


class Shift(NamedTuple):
    """The shifts by fast modes of the means of f and of the drift and of the deviation of f; the whole deviation."""

    of_f: float
    of_drift: np.ndarray
    deviation: float
    whole_deviation: float


class FastModes:
    """The fast modes of an SDE or SDAE over an interval, and their effect on a functional; of a plant in a loop, whose
    sensors may read them, any effect is too much."""

    def __init__(self, problem: Any, functional: Functional, t: tuple[float, float]):
        self.is_read = isinstance(problem, Looped)
        self.problem, self.functional, self.t = plant_of(problem), functional, t
        problem = self.problem
        self.mass = problem.mass_matrix
        self._known: dict[int, float] = {}

    def steps_for(self, error: float, is_relative: bool, least: int) -> int:
        """The fewest steps, at least `least`, with which only a small share of the error is damped out."""
        if is_relative and not self.is_read:
            error = error * self._size
        n = least
        while n <= MOST_STEPS and self.unseen(n) > SHARE * error:
            n *= 2
        return n

    def unseen(self, steps: int) -> float:
        """Roughly how far E f is off if all modes that decay within one of `steps` steps have no noise."""
        if steps not in self._known:
            with np.errstate(all="ignore"):
                self._known[steps] = self._unseen(steps)
        return self._known[steps]

    def _unseen(self, steps: int) -> float:
        """Compute what `unseen` states, once for every number of steps."""
        T = self.t[1] - self.t[0]
        roots = [self._root(look, steps / T) for look in self._linearisations]
        if not any(root.any() for root in roots):
            return 0.0
        if self.is_read:
            return math.inf
        f = self.functional
        own = [self._shifts(at, root) for at, root in zip(self._linearisations, roots, strict=True)]
        if isinstance(f, Maximum):
            return max(shift.deviation for shift in own)
        if isinstance(f, Probability):
            return DENSITY * own[-1].deviation / max(own[-1].whole_deviation, 1e-300)
        if isinstance(f, (Integral, TimeAverage)):
            return float(np.mean([shift.of_f for shift in own])) * (1.0 if isinstance(f, TimeAverage) else T)
        drift = np.mean([shift.of_drift for shift in own], axis=0)
        last = self._linearisations[-1]
        moved = np.linalg.solve(self.mass - T * last.A, T * drift)
        through = self._values(last.time, np.stack([last.state, last.state + moved]))
        return own[-1].of_f + float(np.abs(through[1] - through[0]).max())

    def _shifts(self, at: LinearisedAt, root: np.ndarray) -> Shift:
        """The effect of modes with the covariance root rootᵀ on f and the drift, by three Gauss points along each
        column at states around the path."""
        spread = np.random.default_rng(0).standard_normal((STATES - 1, root.shape[0])) @ at.spread.T
        states = at.state + np.concatenate([np.zeros((1, root.shape[0])), spread])
        columns = root.T[np.any(root != 0, axis=0)]
        moves = np.sqrt(3.0) * np.concatenate([np.zeros((1, root.shape[0])), columns, -columns])
        points = (states[:, None] + moves).reshape(-1, root.shape[0])

        def mean_change(values: np.ndarray) -> np.ndarray:
            values = values.reshape(STATES, len(moves), -1)
            change = (values[:, 1:] - values[:, :1]).sum(axis=1) / 6.0
            return np.where(np.isfinite(change), change, 0.0)

        f = self._values(at.time, points)
        first = f.reshape(STATES, len(moves), -1)[:, :, 0]
        along = (first[:, 1 : 1 + len(columns)] - first[:, 1 + len(columns) :]) / (2 * np.sqrt(3.0))
        around = first[:, 0] - first[0, 0]
        deviation = float(np.nanmax(np.sqrt((along**2).sum(axis=1))))
        drift = self._drift(np.full(len(points), at.time), points, self.problem.example_params())[0]
        return Shift(
            float(np.abs(mean_change(f)).mean(axis=0).max()),
            mean_change(drift).mean(axis=0),
            deviation,
            float(np.sqrt(np.nanmean(around**2) + deviation**2)),
        )

    def _root(self, look: LinearisedAt, rate: float) -> np.ndarray:
        """A root of the covariance of the modes that decay faster than `rate`."""
        n = len(look.state)
        if not np.all(np.isfinite(look.A)):
            return np.zeros((n, n))
        rows, columns = _units(np.abs(look.A) + rate * np.abs(self.mass))
        A, M, g = rows[:, None] * look.A * columns, rows[:, None] * self.mass * columns, rows[:, None] * look.g
        rates, left, right = scipy.linalg.eig(A, M, left=True)
        own = np.einsum("ik,ij,jk->k", left.conj(), M, right)
        sizes = np.linalg.norm(left, axis=0) * np.linalg.norm(right, axis=0)
        known = np.abs(rates * own) > _rounding(A, M, rates) * sizes
        fast = np.isfinite(rates) & (rates.real < -rate) & known
        if not fast.any():
            return np.zeros((n, n))
        rates, right = rates[fast], columns[:, None] * right[:, fast]
        driven = left[:, fast].conj().T @ g / own[fast][:, None]
        modes = -(driven @ driven.conj().T) / (rates[:, None] + rates.conj())
        covariance = (right @ modes @ right.conj().T).real
        return _root(covariance)

    @functools.cached_property
    def _linearisations(self) -> list[LinearisedAt]:
        """The linearised equations and their covariance along the path of the mean, by implicit Euler steps."""
        x, t, h = np.asarray(self.problem.example_start(), float), self.t[0], (self.t[1] - self.t[0]) / FLOW
        covariance, states, params = np.zeros((len(x), len(x))), [], self.problem.example_params()
        for k in range(FLOW + 1):
            f, A, g = (part[0] for part in self._drift(np.array([t + k * h]), x[None], params))
            if k in OBSERVED_AFTER:
                states.append(LinearisedAt(t + k * h, x, _root(covariance), A, g))
            with np.errstate(all="ignore"):
                try:
                    step = np.linalg.inv(self.mass - h * A)
                except np.linalg.LinAlgError:
                    break
                x, before = x + h * step @ f, x
                whole = self.mass @ covariance @ self.mass.T + h * g @ g.T
                covariance = step @ whole @ step.T
            if not (np.all(np.isfinite(x)) and np.all(np.isfinite(covariance))):
                states.append(LinearisedAt(t + k * h, before, np.zeros_like(covariance), A, g))
                break
        return states

    @functools.cached_property
    def _drift(self) -> AtPoints:
        """The drift f, its Jacobian A and the diffusion g at points (t, x)."""
        p = self.problem

        def both(t, x, params):
            return p.f(t, x, params), jax.jacfwd(lambda y: p.f(t, y, params))(x), p.g(t, x, params)

        return AtPoints(both, (0, 0, None))

    def _values(self, time: float, states: np.ndarray) -> np.ndarray:
        """The function that the functional is made of, at states (points, n): (points, entries)."""
        return self._function(np.full(len(states), time), states, self.problem.example_params())

    @functools.cached_property
    def _function(self) -> AtPoints:
        return AtPoints(lambda t, x, params: self.functional.value(self.problem, t, x, params), (0, 0, None))

    @functools.cached_property
    def _size(self) -> float:
        """The largest |f| along the path of the mean."""
        return float(max(np.abs(self._values(look.time, look.state[None])).max() for look in self._linearisations))


def _units(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Powers of two that bring rows and columns to one size."""

    def inverse(size: np.ndarray) -> np.ndarray:
        return np.exp2(-np.rint(np.log2(np.where(size > 0.0, size, 1.0))))

    rows, columns = np.ones(len(sizes)), np.ones(len(sizes))
    for _ in range(3):
        rows = inverse((sizes * columns).max(axis=1))
        columns = inverse((rows[:, None] * sizes).max(axis=0))
    return rows, columns


def _rounding(A: np.ndarray, M: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """The most that rounding makes of λ w* M v, |w| = |v| = 1: the modes found are those of A + δA and M + δM,
    |δA| <= n ε |A| and |δM| <= n ε |M|, so that λ is off by w* (δA - λ δM) v/(w* M v)."""
    return len(A) * EPSILON * (np.linalg.norm(A) + np.abs(rates) * np.linalg.norm(M))


def _root(covariance: np.ndarray) -> np.ndarray:
    """R with R Rᵀ = covariance, which may be singular; columns of rounding are zero.

    By the correlations: components have their own units, and a small variance is not rounding of a large one.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    unit = np.where(deviations > 0.0, deviations, np.inf)
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T) / np.outer(unit, unit))
    rounding = len(values) * EPSILON * np.abs(values).max(initial=0.0)
    return deviations[:, None] * vectors * np.sqrt(np.where(values > rounding, values, 0.0))
