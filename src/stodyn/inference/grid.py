"""The log-likelihood of a problem of one or two components on a grid: what filters that take its law for normal are
checked by.

u(x) is the likelihood of the readings after a time, given the state x at that time. It goes backwards through a step as
u(x) <- E u(step(x, ξ)), an expectation by Gauss and Hermite's rule of values between the points of the grid, and takes
a reading as a factor. The law is that of the discretised problem, and nothing in it needs a density.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy

from stodyn.inference.nonlinear import NormalEvaluated
from stodyn.numerics import gauss
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.uncompiled import value

MOST_COMPONENTS = 2
MOST_NORMALS = 2
NODES = (7, 5)  # for each normal, by the number of components
STENCIL = 6  # points of an axis between which a value is interpolated
REACH = 6.0  # standard deviations of the filter that the grid covers
SPREAD = 3.0  # spacings of the grid in the standard deviation of a reading
MOST_WORK = 4e9  # multiplications: some seconds
SHORT = 1e-9  # of a step: those closer than this share their matrix


class Box(NamedTuple):
    """A grid: the first point, the spacings and the numbers of points along the axes."""

    low: np.ndarray
    spacing: np.ndarray
    counts: tuple[int, ...]

    @property
    def points(self) -> np.ndarray:
        """All points of the grid, (points, axes)."""
        axes = [low + step * np.arange(k) for low, step, k in zip(self.low, self.spacing, self.counts, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))

    def between(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of grid points and their weights (x, stencil) in the value at places x (x, axes); beyond the grid, of
        its edge."""
        numbers, weights = np.zeros((len(x), 1), int), np.ones((len(x), 1))
        for axis, count in enumerate(self.counts):
            place = np.clip((x[:, axis] - self.low[axis]) / self.spacing[axis], 0.0, count - 1.0)
            first = np.clip(np.floor(place).astype(int) - STENCIL // 2 + 1, 0, count - STENCIL)
            own = _lagrange(place - first)
            there = first[:, None] + np.arange(STENCIL)
            numbers = (numbers[:, :, None] * count + there[:, None, :]).reshape(len(x), -1)
            weights = (weights[:, :, None] * own[:, None, :]).reshape(len(x), -1)
        return numbers, weights


def _lagrange(place: np.ndarray) -> np.ndarray:
    """The weights of values at 0, 1, ... in the value at a place."""
    weights = np.ones((len(place), STENCIL))
    for i, j in itertools.permutations(range(STENCIL), 2):
        weights[:, i] *= (place - j) / (i - j)
    return weights


class Unchecked(Exception):
    """Why there is no check on a grid, in words."""


def log_likelihood(evaluated: NormalEvaluated, theta: np.ndarray, passed: Sequence[tuple[Any, Any]]) -> float:
    """Return log L at θ (p,) on a grid; `passed` has means and covariances of components that it has to cover."""
    model = evaluated.model
    n, normals = model.problem.n, model.one.normals
    if n > MOST_COMPONENTS:
        raise Unchecked(f"{n} components, and a grid takes {MOST_COMPONENTS}")
    if model.schedule.integrated(model.widths):
        raise Unchecked("readings over windows are not those of a state, as a grid takes them")
    if len(model.memory.A):
        raise Unchecked("the noise of a sensor has a memory, which a grid does not take")
    if model.states != n or normals > MOST_NORMALS:
        raise Unchecked(f"a step of {model.method.name} takes more numbers than a grid does; take method='Heun'")
    params, variances = evaluated.params_of(theta), evaluated.variances(theta)
    box = _box(evaluated, params, variances, passed)
    nodes = NODES[n - 1]
    work = math.prod(box.counts) * STENCIL**n * nodes**normals * len(model.schedule.times)
    if work > MOST_WORK:
        raise Unchecked(f"a grid of {' × '.join(map(str, box.counts))} points is too large for so many steps")
    return _backwards(evaluated, params, variances, box, nodes)


def _box(evaluated: NormalEvaluated, params: Any, variances: np.ndarray, passed: Sequence[tuple[Any, Any]]) -> Box:
    low: Any = np.inf
    high: Any = -np.inf
    for mean, covariance in passed:
        spread = REACH * np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0))
        low, high = np.minimum(low, (mean - spread).min(axis=0)), np.maximum(high, (mean + spread).max(axis=0))
    spacing = np.maximum((high - low) / 60.0, 1e-300)
    functions, centre = evaluated.model.functions, 0.5 * (low + high)
    slopes = _slopes(functions, params, centre)
    sizes = np.sqrt(variances)
    with np.errstate(divide="ignore"):
        finest = (sizes[:, None] / np.abs(slopes) / SPREAD).min(axis=0)
    counts = np.ceil((high - low) / np.minimum(spacing, finest)) + STENCIL
    if not np.isfinite(counts).all() or (counts > MOST_WORK).any():
        raise Unchecked("its readings are too precise for a grid")
    return Box(low, (high - low) / (counts - 1.0), tuple(counts.astype(int)))


def _slopes(functions: Any, params: Any, x: np.ndarray) -> np.ndarray:
    return value(jax.jacfwd(lambda s: functions.sense(params, 0.0, s)), x)


def _backwards(evaluated: NormalEvaluated, params: Any, variances: np.ndarray, box: Box, nodes: int) -> float:
    model, strides, points = evaluated.model, evaluated.strides, box.points
    sense = AtPoints(lambda t, s: model.functions.sense(params, t, s), (None, 0))
    steps: dict[Any, scipy.sparse.csr_array] = {}
    u, total = np.ones(len(points)), 0.0
    for k in reversed(range(len(strides.length))):
        t, h, is_read = float(strides.time[k]), float(strides.length[k]), strides.row.is_read[k]
        if is_read.any():
            rest = (strides.row.values[k] - sense(np.asarray(t + h), points))[:, is_read]
            log = -0.5 * np.sum(rest**2 / variances[is_read] + np.log(2.0 * math.pi * variances[is_read]), axis=1)
            u = u * np.exp(log - log.max())
            total += log.max() + math.log(u.max())
            u = u / u.max()
        if h > 0.0:
            key = round(h / (SHORT * model.dt)) if model.one.autonomous else k
            if key not in steps:
                steps = steps if model.one.autonomous else {}
                steps[key] = _expectation(evaluated, params, box, points, t, h, nodes)
            u = np.maximum(steps[key] @ u, 0.0)
    return total + math.log(max(_at_start(model.start, params, box, points, u), 1e-300))


def _expectation(
    evaluated: NormalEvaluated, params: Any, box: Box, points: np.ndarray, t: float, h: float, nodes: int
) -> scipy.sparse.csr_array:
    """The matrix of u -> E u(step(x, ξ))."""
    one = evaluated.model.one
    rule = gauss.hermite(nodes)
    all_ξ = np.array(list(itertools.product(rule.nodes, repeat=one.normals)))
    shares = np.array(list(itertools.product(rule.weights, repeat=one.normals))).prod(axis=1)
    both = [box.between(one.after(t, h, params, points, np.tile(ξ, (len(points), 1)))) for ξ in all_ξ]
    numbers = np.concatenate([numbers for numbers, _ in both], axis=1)
    weights = np.concatenate([share * own for share, (_, own) in zip(shares, both, strict=True)], axis=1)
    begins = np.arange(len(points) + 1) * numbers.shape[1]
    return scipy.sparse.csr_array((weights.ravel(), numbers.ravel(), begins), shape=(len(points), len(points)))


def _at_start(start: Any, params: Any, box: Box, points: np.ndarray, u: np.ndarray) -> float:
    """E u over the start."""
    mean = np.asarray(start.mean_at(params))
    values, vectors = np.linalg.eigh(start.covariance)
    sizes = np.sqrt(np.maximum(values, 0.0))
    if sizes[0] > box.spacing.max():
        away = (points - mean) @ vectors / sizes
        weights = np.exp(-0.5 * np.sum(away**2, axis=1))
        return float(weights @ u / weights.sum())
    rule = gauss.hermite(9)
    ξ = np.array(list(itertools.product(rule.nodes, repeat=len(sizes))))
    shares = np.array(list(itertools.product(rule.weights, repeat=len(sizes)))).prod(axis=1)
    numbers, weights = box.between(mean + (ξ * sizes) @ vectors.T)
    return float(shares @ np.sum(weights * u[numbers], axis=1))
