"""The law of a linear system: the covariance of its state as it is, and as the steps of a run deliver it.

A step is a linear map s' = M s + G ξ + c of the method's state s and its normals ξ. The program of the run makes single
steps from unit states and with unit normals, which gives M and G, and by doubling the covariance after any number of
steps and in the long run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np
import scipy

from stodyn.engine.held import with_steps
from stodyn.numerics import lyapunov, uncompiled, van_loan

FEW = 60  # scalars of a state up to which it is taken as a whole
LINEAR = 1e-3  # of the largest change by a step, by which those of a sum and the sum of those may differ
INFINITE = 2**64  # steps, in which every system that settles has settled


class Law(Protocol):
    """Variances of components: exact, and delivered by steps of a length, at a time and, at infinity, in the long run;
    None where they are not known. is_of_end: whether those at the end of a run are judged by themselves."""

    is_of_end: bool

    def exact(self, T: float) -> np.ndarray | None: ...

    def delivered(self, h: float, T: float) -> np.ndarray | None: ...


class Whole:
    """The law of all components together of dx = A x dt + b dW, whose starts have the covariance `start`, 0 by default;
    by steps as they are at time t. `is_of_end` where it has no limit."""

    def __init__(
        self, run: Any, A: np.ndarray, b: np.ndarray, shift: float, t: float, start: np.ndarray | None = None,
        is_of_end: bool = False,
    ):  # fmt: skip
        self.A, self.b = A, b
        self.start, self.start_of_steps = np.zeros_like(A), np.zeros((len(run.executor.real_rows),) * 2)
        if start is not None and start.any():
            first = starting(run, len(A), shift)
            self.start, self.start_of_steps = start, first @ start @ first.T
        units = np.eye(len(run.executor.real_rows))
        self.step, self.read = stepper(run, units, shift, t), reading(run, units, len(A))
        self.is_of_end = is_of_end or self.exact(np.inf) is None

    def exact(self, T: float) -> np.ndarray | None:
        if np.isfinite(T):
            with np.errstate(all="ignore"):
                P = van_loan.discretise(self.A, self.b, np.eye(self.b.shape[1]), T).of(self.start)
            return np.diagonal(P) if np.isfinite(P).all() else None
        try:
            return np.diagonal(lyapunov.continuous(self.A, self.b @ self.b.T))
        except ValueError:  # nothing is known of the long run of modes that decay no faster than rounding lets them
            return None

    def delivered(self, h: float, T: float) -> np.ndarray | None:
        steps = max(round(T / h), 1) if np.isfinite(T) else INFINITE
        matrices = self.step(T / steps if np.isfinite(T) else h)
        if matrices is None:
            return None
        M, G = matrices
        P = covariance(M[None], G @ G.T, steps, self.start_of_steps)
        return None if P is None else np.sum((self.read @ P) * self.read, axis=1)


def stepper(
    run: Any, directions: np.ndarray, shift: float, t: float
) -> Callable[[float], tuple[np.ndarray, np.ndarray] | None]:
    """M times some directions, and G, of a step at time t by its length, from single steps of the run's program about
    the state it begins with; None where these are not linear."""
    spec, executor, rows = run.spec, run.executor, run.executor.real_rows
    streams, count = spec.traced.streams, directions.shape[1]
    inputs = scipy.linalg.block_diag(directions, *(np.eye(size) for _, size in streams))
    shares = np.random.default_rng(0).uniform(1.2, 2.0, inputs.shape[1])  # not 1, at which a sign would look linear
    inputs = shift * np.column_stack([np.zeros(len(inputs)), inputs, inputs @ shares])
    shifts, *parts = np.split(inputs, np.cumsum([len(rows), *(size for _, size in streams)])[:-1])
    normals = {name: part for (name, _), part in zip(streams, parts, strict=True)}
    states = np.repeat(executor.states_after(run.layout, 1, spec.traced.starting_steps), inputs.shape[1], axis=1)
    states[rows] += shifts

    def step(h: float) -> tuple[np.ndarray, np.ndarray] | None:
        one: Any = with_steps(run, h)
        after = one.executor.stepper(one.layout, normals, inputs.shape[1])(states, t, h)[rows]
        moved = (after[:, 1:] - after[:, :1]) / shift
        moved, by_all = moved[:, :-1], moved[:, -1]
        is_linear = np.abs(by_all - moved @ shares).max() <= LINEAR * np.abs(moved).max()  # NaN is not
        return (moved[:, :count], moved[:, count:]) if is_linear else None

    return step


def reading(run: Any, directions: np.ndarray, count: int) -> np.ndarray:
    """The first components (count, directions) that are read off some directions of the real scalars of a state."""
    traced = run.spec.traced
    states = np.zeros((sum(int(np.prod(shape)) for shape in traced.state_shapes), directions.shape[1]))
    states[run.executor.real_rows] = directions
    return np.array([uncompiled.run(traced.read, *traced.leaves(state))[0][:count] for state in states.T]).T


def starting(run: Any, count: int, shift: float) -> np.ndarray:
    """The real scalars of the state with which a method begins, by the first components (.., count) of the start, from
    starts that are so far from another."""
    spec, rows, own = run.spec, run.executor.real_rows, []
    x, params = np.asarray(spec.problem.example_start(), float), jax.tree.leaves(spec.problem.example_params())
    for moved in np.vstack([x, x + shift * np.eye(count, len(x))]):
        leaves = uncompiled.run(spec.traced.start, np.asarray(spec.times[0]), moved, *params)
        own.append(np.concatenate([np.ravel(leaf) for leaf in leaves])[rows])
    return (np.array(own[1:]) - own[0]).T / shift


def covariance(M: np.ndarray, Q: np.ndarray, steps: int, start: np.ndarray | None = None) -> np.ndarray | None:
    """M P M' + Q of so many steps on, from P = start, 0 by default, by doubling, where M (blocks, s, s) is the diagonal
    of a matrix of blocks; None where it overflows, or where there is no limit."""

    def from_left(P: np.ndarray) -> np.ndarray:
        return (M @ P.reshape(len(M), M.shape[1], -1)).reshape(P.shape)

    total, doubled, is_endless = np.zeros_like(Q) if start is None else start, Q, steps >= INFINITE
    with np.errstate(all="ignore"):
        while steps and np.isfinite(doubled).all():
            if steps & 1:
                total = doubled + from_left(from_left(total).T)
            if is_endless and np.abs(M).max() < np.finfo(float).eps:
                return doubled
            steps >>= 1
            doubled, M = doubled + from_left(from_left(doubled).T), M @ M
    return total if np.isfinite(total).all() and not is_endless else None


def mean_of(laws: list[Law]) -> Law:
    """The law of a run of which these are the laws of some paths."""
    return laws[0] if len(laws) == 1 else Mean(laws)


class Mean:
    """The law of a system whose parameters differ between paths, from those of some of these."""

    def __init__(self, laws: list[Law]):
        self.laws, self.is_of_end = laws, laws[0].is_of_end

    def exact(self, T: float) -> np.ndarray | None:
        return _mean([law.exact(T) for law in self.laws])

    def delivered(self, h: float, T: float) -> np.ndarray | None:
        return _mean([law.delivered(h, T) for law in self.laws])


def _mean(variances: list[np.ndarray | None]) -> np.ndarray | None:
    known = [own for own in variances if own is not None]
    return np.mean(known, axis=0) if len(known) == len(variances) else None
