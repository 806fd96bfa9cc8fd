"""First excursions of linear systems under additive noise, by importance sampling from elementary events.

The function f_k = c·x(t_k) is Gaussian at each of the times t_k, so that the elementary events F_k, that it is beyond a
level at t_k, have probabilities P_k in closed form. A path is drawn from the mixture: an event k with probability
P_k/Σ P, f_k from its law beyond the level, then the whole path given f_k. If it is beyond the level at N of the times,

    p = Σ_k P_k  E[1/N],

without bias, with a scatter of about 1 for single paths however small p is (S. Au & J. Beck, First excursion
probabilities for linear systems by very efficient importance sampling, Prob. Eng. Mech. 16, 2001). Steps are exact.
The event is detected only at these times, not between them. The start is fixed or normal, as the stationary one of
coloured loads is; where it makes f random, the time of the start is one of the t_k.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from stodyn.accuracy.rare_estimate import Effort, Question
from stodyn.accuracy.repeated import OneByOne, Outcomes, run_of
from stodyn.accuracy.scores import LinearParts, NotLinear, ahead, linear_parts
from stodyn.engine import grid
from stodyn.engine.program import executors
from stodyn.engine.record import identity
from stodyn.engine.run import Run
from stodyn.engine.spec import Spec
from stodyn.methods.catalogue import named
from stodyn.numerics import van_loan
from stodyn.problems.contract import written_as
from stodyn.problems.level import SIDES
from stodyn.problems.sde import SDE

MOST_BYTES = 2**28  # memory of the paths that are drawn at once


class Elementary(NamedTuple):
    """The elementary events of a function over K times, on the sides (+1 above, -1 below) of its levels.

    mean, deviation  (K,) of f; log_chance (K, sides)
    kernel, start    (K, n), (K, n): f_k - mean_k = Σ kernel_(k-i)·z_i + start_k·y of normals z and y
    """

    mean: np.ndarray
    deviation: np.ndarray
    kernel: np.ndarray
    start: np.ndarray
    bounds: tuple[tuple[float, float], ...]  # (sign, level)
    log_chance: np.ndarray

    @property
    def total(self) -> float:
        """The sum of the probabilities of all elementary events, which is at least that of their union."""
        return float(np.exp(self.log_chance).sum())


def elementary(
    parts: LinearParts, start: tuple[np.ndarray, np.ndarray], h: float, steps: int, bounds: tuple
) -> Elementary:
    """Compute the elementary events of a path that takes steps of length h; start: its mean and covariance."""
    rows, means, deviations = ahead(parts, h, steps)
    n = len(parts.A)
    mean = rows @ start[0][:n] + means + parts.offset
    _, Qd = van_loan.discretise(parts.A, np.eye(n), parts.S, h)
    kernel, of_start = rows[:-1] @ van_loan.rough_root(Qd), rows @ van_loan.rough_root(start[1][:n, :n])
    deviation = np.hypot(deviations, np.linalg.norm(of_start, axis=1))
    if of_start[0].any():
        kernel = np.concatenate([np.zeros((1, n)), kernel])
    else:
        mean, deviation, of_start = mean[1:], deviation[1:], of_start[1:]
    safe = np.where(deviation > 0, deviation, 1.0)
    distance = np.stack([sign * (level - mean) / safe for sign, level in bounds], axis=1)
    log_chance = np.where((deviation > 0)[:, None], scipy.special.log_ndtr(-distance), -np.inf)
    return Elementary(mean, deviation, kernel, of_start[:, of_start.any(axis=0)], bounds, log_chance)


def sampled_estimates(events: Elementary, paths: int, rng: np.random.Generator) -> np.ndarray:
    """Draw paths from the mixture; each gives an unbiased estimate of the probability of the event."""
    K, sides = events.log_chance.shape
    chance = np.exp(events.log_chance - events.log_chance.max()).ravel()
    picked = rng.choice(K * sides, paths, p=chance / chance.sum())
    k, side = picked // sides, picked % sides
    size = max(int(MOST_BYTES / (8 * K * (events.kernel.shape[1] + 2))), 1)
    counts = [_times_beyond(events, k[a : a + size], side[a : a + size], rng) for a in range(0, paths, size)]
    return events.total / np.concatenate(counts)


def _times_beyond(events: Elementary, k: np.ndarray, side: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw paths that are beyond a level at their times k, and count the times at which each is beyond one."""
    K, n = events.kernel.shape
    z = rng.standard_normal((n, K, len(k)))
    y = rng.standard_normal((events.start.shape[1], len(k)))
    apart = events.start @ y + sum(
        scipy.signal.fftconvolve(z[i], events.kernel[:, i : i + 1], axes=0)[:K] for i in range(n)
    )
    signs, levels = np.array(events.bounds).T
    # Beyond the level: the deviation u with P(U > u) = P(F_k) V, V uniform
    tail = events.log_chance[k, side] + np.log(1.0 - rng.random(len(k)))
    here = -signs[side] * scipy.special.ndtri_exp(tail) * events.deviation[k]
    shift = here - apart[k, np.arange(len(k))]
    covariance = np.empty((K, len(k)))
    for one in np.unique(k):  # Cov(f_j, f_k) = Σ_i kernel_(j-i)·kernel_(k-i) + start_j·start_k
        own = _covariance(events.kernel, int(one)) + events.start @ events.start[one]
        covariance[:, k == one] = own[:, None]
    f = events.mean[:, None] + apart + covariance * (shift / events.deviation[k] ** 2)
    f[k, np.arange(len(k))] = events.mean[k] + here
    count = sum((sign * (f - level) >= 0).sum(axis=0) for sign, level in zip(signs, levels, strict=True))
    return np.maximum(count, 1)


def _covariance(kernel: np.ndarray, k: int) -> np.ndarray:
    """The covariances of f at time k with f at every time."""
    weights = kernel[: k + 1][::-1]  # of z_0 ... z_k in f_k
    padded = np.concatenate([weights, np.zeros((len(kernel) - k - 1, kernel.shape[1]))])
    return scipy.signal.fftconvolve(kernel, padded, axes=0)[: len(kernel)].sum(axis=1)


class Sampled(NamedTuple):
    """The estimate of a run."""

    probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Samples(Outcomes):
    """The outcomes of runs of importance sampling; they rest on the elementary events."""


def elementary_run(question: Question, effort: Effort) -> Run:
    """The runs of importance sampling that answer a question."""
    if question.others or question.end is None:
        raise ValueError('before: by="elementary" takes a time; for another level take by="splitting"')
    problem, event, t0, steps = question.problem, question.event, question.t0, question.steps
    sde = written_as(problem, SDE)
    try:
        if sde is None:
            raise NotLinear(f"{type(problem).__name__} cannot be written as an SDE here")
        start = sde.start_source.normal()
        if start is None:
            raise NotLinear("the start is random, and its law is not known to be normal")
        parts = linear_parts(event.on(sde, t0))
    except NotLinear as error:
        raise ValueError(
            'by: "elementary" needs a linear problem with additive noise that does not depend on time, a fixed or '
            f'normal start, and a level of a linear function of the state, but {error}. Take by="splitting"'
        ) from None
    events = elementary(
        parts, start, question.dt, steps, tuple(zip(SIDES[str(event.direction)], event.bounds, strict=True))
    )
    if events.total == 0:
        raise ValueError(
            f"event: noise does not reach {event.on(sde, t0).words}, or {event} is so far off that its probability "
            "underflows to 0"
        )
    record = {
        "problem": type(problem).__name__,
        "method": "exact steps (van Loan), elementary events",
        "event": str(event),
    }
    collect = Samples(replicas=effort.replicas, kill=0.0, rests_on=identity.digest(*events[:4], repr(events.bounds)))
    times, lengths = grid.step_times((t0, question.end), question.dt)
    spec = Spec(sde, named("VanLoan"), times, lengths, (collect,), (np.array([steps]),), np.dtype(float), None, record)
    return run_of(ByElementary(spec, events), effort)


class ByElementary(OneByOne):
    """Blocks of importance sampling."""

    name = "host"
    reason = "whole paths are drawn from their law at once"
    normals = None
    counts = False
    width = 4

    def __init__(self, spec: Spec, events: Elementary):
        self.spec, self.events = spec, events

    @property
    def recipe(self) -> Callable[[Spec], executors.Executor]:
        return functools.partial(ByElementary, events=self.events)

    def outcome(self, rng, tell):
        replicas = self.collect.replicas
        tell(replicas * self.spec.steps)
        return Sampled(float(sampled_estimates(self.events, replicas, rng).mean()))

    def path_steps(self, outcomes):
        return len(outcomes) * self.collect.replicas * self.spec.steps
