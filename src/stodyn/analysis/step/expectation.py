"""Expectations of a method, without sampling: by the moments of linear steps, and by every outcome of weak draws."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.analysis.step.linear import StepMap, exact_moments, read_map
from stodyn.analysis.step.one_step import OneStep
from stodyn.engine.spec import matched
from stodyn.methods.contract import Method
from stodyn.numerics import gauss
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.contract import differs_from_path_to_path

NODES = 7  # per normal: exact for steps of degree 6 in it, and small batches of steps with one or two normals
USUAL_NODES, MOST_NODES = 1_000, 20_000  # of the noise of one step: used as long as three per normal allow it
MOST_OUTCOMES = 2_000_000  # of all steps
CHUNK = 100_000
FINE_NODES = 80  # per channel, for the expectation of an exact solution


def quadrature_nodes(method: Method, m: int) -> int:
    """How many nodes each normal of a step gets, from NODES down to 3; 0 where even three are too many."""
    normals = sum(method.needs.normals(m).values())
    usual = min(NODES, int(USUAL_NODES ** (1.0 / max(normals, 1))))
    return usual if usual >= 3 else 3 if 3**normals <= MOST_NODES else 0


def linear_moments(
    problem: Any, method: Method, t: tuple[float, float], steps: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """E x_i and E x_i x_j, i <= j, at the end: of the method (points, ...), of the equation, and the former's error.

    None where they cannot be computed: the problem is not linear or has random parameters, or the noise of a step has
    too many normals for a quadrature of three nodes each.
    """
    nodes, n = quadrature_nodes(method, problem.m), problem.n
    if differs_from_path_to_path(problem):
        return None
    if nodes < 3 and not hasattr(method.needs, "nodes"):
        return None
    start = np.reshape(problem.example_start(), n)
    truth = _exact_moments(problem, *t)
    if truth is None:
        return None
    values, doubt = [], []
    step = OneStep(problem, method)
    starting = OneStep(problem, method, starting=True) if method.starting_steps else step
    params = problem.params
    for count in steps:
        h = (t[1] - t[0]) / count
        maps = [read_map(starting, h, t[0] + k * h, params, nodes, k) for k in range(method.starting_steps)]
        maps.append(read_map(step, h, t[0] + len(maps) * h, params, nodes))
        if not maps[-1].autonomous:
            maps += [read_map(step, h, t[0] + k * h, params, nodes) for k in range(len(maps), count)]
        values.append(_joined(*_moments_after(maps, start, count)))
        doubt.append(max(step.error for step in maps) * count)
    return np.array(values), truth, np.array(doubt)


def _exact_moments(problem: Any, begin: float, end: float) -> np.ndarray | None:
    """Return the exact moments that linear_moments compares with; None for a problem that is not linear."""
    start = np.reshape(problem.example_start(), problem.n)
    try:
        return _joined(*exact_moments(problem, end, start, np.zeros((problem.n, problem.n)), begin))
    except ValueError:
        return None


def _moments_after(maps: Sequence[StepMap], start: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance after some steps from a certain start, the last map being that of every further step."""
    into, out = maps[-1].start, maps[-1].read
    m, P = into[:, :-1] @ start + into[:, -1], np.zeros((len(into), len(into)))
    for k in range(count):
        m, P = maps[min(k, len(maps) - 1)].advance(m, P)
    return out[:, :-1] @ m + out[:, -1], out[:, :-1] @ P @ out[:, :-1].T


def _joined(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    return np.concatenate([mean, (covariance + np.outer(mean, mean))[np.triu_indices(len(mean))]])


def enumerated(
    problem: Any, method: Method, t: tuple[float, float], steps: Sequence[int], φ: Callable
) -> np.ndarray | None:
    """E φ(x) at the end, (points, ...), the sum over all outcomes of the draws with their probabilities.

    None for noise that is not discrete, or where the outcomes are too many. φ takes states (paths, n).
    """
    if not hasattr(method.needs, "nodes"):
        return None
    rules = method.needs.nodes(problem.m)
    sizes = [len(values) for values, _ in rules]
    if math.prod(sizes) ** max(steps) > MOST_OUTCOMES:
        return None
    stepped, counts = matched(problem, method)[0], method.needs.normals(problem.m)
    ends = np.cumsum(list(counts.values()))[:-1]
    params = problem.example_params()

    def end(ξ):
        h = (t[1] - t[0]) / len(ξ)

        def advance(state, inputs):
            k, ξ = inputs
            noise = method.needs.increment(h, dict(zip(counts, jnp.split(ξ, ends), strict=True)), problem.m)
            with underived():
                after, report = method.numbered_step(k, stepped, t[0] + k * h, state, noise, params)
            return jax.tree.map(lambda s: jnp.where(report.ok, s, jnp.nan), after), None

        start = jnp.reshape(jnp.asarray(problem.example_start(), float), problem.n)
        first = method.start(stepped, jnp.asarray(t[0], float), start, params)
        return method.read(jax.lax.scan(advance, first, (jnp.arange(len(ξ)), ξ))[0])

    many = AtPoints(end)
    outcomes = []
    with jax.enable_x64(True):
        for count in steps:
            shape = sizes * count
            total: Any = 0.0
            for begin in range(0, math.prod(shape), CHUNK):
                index = np.unravel_index(np.arange(begin, min(begin + CHUNK, math.prod(shape))), shape)
                ξ = np.stack([np.array(rules[k % len(rules)][0])[i] for k, i in enumerate(index)], axis=1)
                weight = np.prod([np.array(rules[k % len(rules)][1], float)[i] for k, i in enumerate(index)], axis=0)
                total = total + weight @ np.asarray(φ(many(ξ.reshape(len(ξ), count, -1))))
            outcomes.append(total)
    return np.array(outcomes)


def integrated(solution: Callable, t: tuple[float, float], m: int, φ: Callable) -> np.ndarray | None:
    """E φ(solution(T, W)) at the end T of the interval t by Gauss-Hermite over W; None for more than two channels."""
    if m > 2:
        return None
    nodes, weights = gauss.hermite(FINE_NODES)
    W = math.sqrt(t[1] - t[0]) * np.stack([g.ravel() for g in np.meshgrid(*[nodes] * m)], axis=-1)
    weight = functools.reduce(np.multiply.outer, [weights] * m).ravel()
    with jax.enable_x64(True):
        return weight @ np.asarray(φ(jnp.asarray(solution(t[1], W))))
