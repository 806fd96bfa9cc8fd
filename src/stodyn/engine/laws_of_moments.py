"""The moments of linear SDEs whose noise depends on the state or whose slopes change in time, as they are and as the
steps of a run deliver them.

Of dx = (A x + a) dt + Σ_j (B_j x + b_j) dW_j, whose coefficients may change in time, the second moments S of z = (x, 1)
obey the linear equation dS = (F S + S F' + Σ_j G_j S G_j') dt with F = [A a; 0 0] and G_j = [B_j b_j; 0 0]. A step of a
method is z' = M(ξ) z for its own state, and S' = E[M S M'] an expectation over the normals of one step, which a Gauss
rule gives. Coefficients that change are looked at in every step of the run, and if it is long, of its beginning.
Parameters that differ between paths are those of a few paths.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.extend import core

from stodyn.engine.held import in_double, spread_params, with_params, with_steps
from stodyn.engine.laws import LINEAR, reading, starting
from stodyn.numerics import gauss, uncompiled
from stodyn.numerics.facts.degree import is_proved_affine
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems import lowering
from stodyn.problems.contract import written_as
from stodyn.problems.sde import SDE
from stodyn.problems.structure import depends_on_time

MOST = 20  # scalars of a state whose moments are followed
MOST_STEPS, WORK = 50_000, 3e9  # of a run whose coefficients change; operations on its moments
NODES, FEWEST = (32, 8), 5  # of each normal of a step, where steps are the same and where they change; at least
MOST_NODES = 1024  # of all normals of a step together
MOST_POINTS, AT_ONCE = 4_000_000, 200_000  # at which steps are taken, and at a time
NUMBERS = 5_000_000  # in the matrices of all intervals of a run
LOOKS = 16  # times of a run at which moments are looked at, to know their sizes
FINEST, SETTLED = 2**17, 1e-3  # intervals of a run, and a change of its moments by halving them that is small enough
DIGITS = 1e-8  # of its mean square, below which a variance is rounding


class Moments(NamedTuple):
    """The means and variances of the components."""

    mean: np.ndarray
    variance: np.ndarray

    @property
    def is_known(self) -> bool:
        """Whether all are finite, and no variance is rounding beside the square of a mean."""
        with np.errstate(all="ignore"):
            return bool(np.isfinite(self.mean + self.variance).all())


class Starts(NamedTuple):
    """The mean and the covariance of the starts of the paths."""

    mean: np.ndarray
    covariance: np.ndarray


class Recursion:
    """The moments of a run by those of some of its paths, each a run and its equations."""

    def __init__(self, cases: list[tuple[Any, _Equations]], starts: Starts):
        self.cases, self.starts = cases, starts
        self.times = cases[0][0].spec.times
        self.is_moving = any(equations.are_moving for _, equations in cases)
        self.most_nodes = NODES[self.is_moving]
        self._steps: dict[tuple[int, bool], _Steps] = {}

    @property
    def steps(self) -> int:
        """The steps of the run that are followed."""
        steps = len(self.times) - 1
        return min(steps, MOST_STEPS) if self.is_moving else steps

    def exact(self, T: float) -> list[Moments] | None:
        """The moments at some times up to T; None where they are not known."""
        first, begin = _moved(self.starts, np.eye(len(self.starts.mean)), 0.0), float(self.times[0])
        along = []
        for _, equations in self.cases:
            own = equations.along(first, begin, T)
            if own is None:
                return None
            along.append(own)
        moments = [_moments(S) for S in np.mean(along, axis=0)]
        return moments if all(one.is_known for one in moments) else None

    def delivered(self, h: float, T: float, *, is_rough: bool = False) -> Moments | None:
        """The moments that steps of length h deliver after T, by fewer nodes where asked; None where steps are not
        linear, where they are too many, and where moments grow without bound."""
        steps = max(round(T / h), 1)
        if self.is_moving and steps > MOST_STEPS:
            return None
        totals = []
        for k in range(len(self.cases)):
            own = self._steps_of(k, T / steps, is_rough)
            S = own.after(self.starts, float(self.times[0]), T / steps, steps, self.is_moving)
            if S is None:
                return None
            totals.append(S)
        moments = _moments(np.mean(totals, axis=0))
        return moments if moments.is_known else None

    def _steps_of(self, k: int, h: float, is_rough: bool) -> _Steps:
        """The steps of a case, which are traced once if they may have any length."""
        run, equations = self.cases[k]
        other = with_steps(run, h)
        if other is not run:
            return _Steps(other, equations, self.most_nodes - is_rough)
        if (k, is_rough) not in self._steps:
            self._steps[k, is_rough] = _Steps(run, equations, self.most_nodes - is_rough)
        return self._steps[k, is_rough]


def recursion(run: Any, system: Any, method: Any, starts: Starts) -> Recursion | None:
    """The moments of a run of a linear SDE; None where they are not known."""
    sde = written_as(system, SDE)
    if sde is None or sde.n != system.n or not all(np.isfinite(part).all() for part in starts) or not _is_linear(sde):
        return None
    members = spread_params(sde)
    systems = [system.changed(params=params) for params in members] or [system]
    first = run if run.spec.dtype == np.float64 else in_double(run.spec, systems[0], method)
    traced: Any = first.spec.traced
    if not all(np.issubdtype(dtype, np.floating) for dtype in traced.state_dtypes):
        return None
    if sum(math.prod(shape) for shape in traced.state_shapes) > MOST:
        return None
    runs = [with_params(first, case) for case in systems] if members else [first]
    ito, params = lowering.to_ito(sde), members or [sde.example_params()]
    look = AtPoints(lambda t, x, p: (ito.f(t, x, p), ito.g(t, x, p)), (0, 0, None))
    are_moving = any(depends_on_time(f, np.asarray(sde.example_start(), float), params[0]) for f in (ito.f, ito.g))
    cases = [(own, _Equations(look, sde.n, values, are_moving)) for own, values in zip(runs, params, strict=True)]
    return Recursion(cases, starts)


def _is_linear(sde: SDE) -> bool:
    """Whether it is proved that drift and diffusion are affine in the state."""
    with jax.enable_x64(True):
        point = np.zeros(()), np.asarray(sde.example_start(), float), sde.example_params()
        return all(is_proved_affine(function, point, moving=1) for function in (sde.f, sde.g))


# --- second moments as vectors ----------------------------------------------------------------------------------------


def _moved(starts: Starts, directions: np.ndarray, offset: np.ndarray | float) -> np.ndarray:
    """The second moments of (directions x + offset, 1) of starts x, as a matrix."""
    mean = directions @ starts.mean + offset
    S = np.outer(np.append(mean, 1.0), np.append(mean, 1.0))
    S[:-1, :-1] += directions @ starts.covariance @ directions.T
    return S


def _moments(S: np.ndarray) -> Moments:
    """Means and variances from the second moments of (x, 1)."""
    mean, squares = S[:-1, -1], np.diagonal(S)[:-1]
    variance = squares - mean**2
    with np.errstate(all="ignore"):
        return Moments(mean, np.where(variance > DIGITS * squares, variance, 0.0))


@functools.lru_cache(maxsize=32)
def _pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries of a symmetric matrix that make its vector."""
    return np.triu_indices(size)


def _as_matrix(y: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix of a vector (.., pairs)."""
    rows, columns = _pairs(size)
    S = np.empty((*y.shape[:-1], size, size))
    S[..., rows, columns] = S[..., columns, rows] = y
    return S


def _on_pairs(products: np.ndarray) -> np.ndarray:
    """The matrices (.., pairs, pairs) of S -> Σ X S Y' on vectors, from sums of products X_ik Y_jl (.., i, k, j, l)
    that are symmetric together."""
    rows, columns = _pairs(products.shape[-1])
    i, j, k, l = rows[:, None], columns[:, None], rows, columns
    return products[..., i, k, j, l] + np.where(k != l, products[..., i, l, j, k], 0.0)


# --- the equations ----------------------------------------------------------------------------------------------------


class _Equations:
    """The linear equation of the second moments of (x, 1), of a path with some parameters."""

    def __init__(self, look: AtPoints, n: int, params: Any, are_moving: bool):
        self.look, self.n, self.params, self.are_moving = look, n, params, are_moving

    def slopes(self, times: np.ndarray) -> np.ndarray:
        """The matrices (times, pairs, pairs) of the equation of the vector of S."""
        n, K = self.n, len(times)
        states = np.concatenate([np.zeros((1, n)), np.eye(n)])
        f, g = self.look(np.repeat(times, n + 1), np.tile(states, (K, 1)), self.params)
        F, G = (_affine(values.reshape(K, n + 1, n, -1)) for values in (f[:, :, None], g))
        one = np.eye(n + 1)
        drift = np.einsum("tcik,jl->tikjl", F, one) + np.einsum("ik,tcjl->tikjl", one, F)
        return _on_pairs(drift + np.einsum("tcik,tcjl->tikjl", G, G))

    def along(self, S: np.ndarray, begin: float, T: float) -> np.ndarray | None:
        """S at some times up to begin + T; None where these do not settle as intervals are halved."""
        rows, columns = _pairs(self.n + 1)
        y = S[rows, columns]
        if not self.are_moving:
            (slopes,) = self.slopes(np.array([begin]))
            ys = _repeated(scipy.linalg.expm(T / LOOKS * slopes), y, LOOKS)
            return _as_matrix(ys, self.n + 1)
        before, intervals = None, 16 * LOOKS
        while intervals <= FINEST and intervals * len(y) ** 2 <= NUMBERS:
            now = self._by_intervals(y, begin, T, intervals)
            if before is not None and np.abs(now - before).max() <= SETTLED * np.abs(now[-1]).max():
                return _as_matrix(now, self.n + 1)
            before, intervals = now, 4 * intervals
        return None

    def _by_intervals(self, y: np.ndarray, begin: float, T: float, intervals: int) -> np.ndarray:
        """The vector at some times, by Gauss's method of order 4 on the average of the slopes in each interval."""
        h, apart = T / intervals, np.sqrt(3.0) / 6.0
        middles = begin + h * (np.arange(intervals) + 0.5)
        one, two = (self.slopes(middles + side * apart * h) for side in (-1.0, 1.0))
        Ω = 0.5 * h * (one + two) + np.sqrt(3.0) / 12.0 * h * h * (two @ one - one @ two)
        eye, square = np.eye(len(y)), Ω @ Ω / 12.0
        return _through(np.linalg.solve(eye - 0.5 * Ω + square, eye + 0.5 * Ω + square), y)


def _affine(values: np.ndarray) -> np.ndarray:
    """The matrices [A a; 0 0] (times, columns, n + 1, n + 1) of maps from their values (times, states, n, columns) at
    zero and at the unit vectors."""
    K, _, n, columns = values.shape
    matrices = np.zeros((K, columns, n + 1, n + 1))
    matrices[:, :, :n, n] = values[:, 0].swapaxes(1, 2)
    matrices[:, :, :n, :n] = (values[:, 1:] - values[:, :1]).transpose(0, 3, 2, 1)
    return matrices


def _repeated(matrix: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """y after so many steps."""
    with np.errstate(all="ignore"):
        return np.array(list(itertools.accumulate(range(count), lambda y, _: matrix @ y, initial=y)))


def _through(matrices: np.ndarray, y: np.ndarray) -> np.ndarray:
    """y at the beginning, and after each of LOOKS equal parts of the steps."""
    looked = [y]
    with np.errstate(all="ignore"):
        for part in np.array_split(matrices, LOOKS):
            for matrix in part:
                y = matrix @ y
            looked.append(y)
    return np.array(looked)


# --- the steps --------------------------------------------------------------------------------------------------------


class _Steps:
    """The steps of a method on the equations of a path, over the nodes of their normals."""

    def __init__(self, run: Any, equations: _Equations, most_nodes: int):
        self.run, self.traced, self.n = run, run.spec.traced, equations.n
        self.N = sum(int(np.prod(shape)) for shape in self.traced.state_shapes)
        self.rule = rule_of(run.spec.method.needs, self.traced.streams, run.spec.problem.m, most_nodes)
        params = [np.asarray(leaf, float if np.issubdtype(np.result_type(leaf), np.floating) else None)
                  for leaf in jax.tree.leaves(run.spec.problem.example_params())]  # fmt: skip
        ends = np.cumsum([size for _, size in self.traced.streams])[:-1]

        def after(traced_step: core.ClosedJaxpr, *numbers: Any) -> Callable[..., jax.Array]:
            def function(t: jax.Array, h: jax.Array, s: jax.Array, ξ: jax.Array) -> jax.Array:
                normals = jnp.split(ξ, ends) if self.traced.streams else []
                results = core.jaxpr_as_fun(traced_step)(*numbers, t, h, *self.traced.leaves(s), *normals, *params)
                return jnp.concatenate([jnp.ravel(part) for part in results[: len(self.traced.state_shapes)]])

            return function

        self.after_step = AtPoints(after(self.traced.step), (0, None, 0, 0))
        self.after_starting_step = [AtPoints(after(self.traced.starting, np.asarray(k, np.int32)), (0, None, 0, 0))
                                    for k in range(self.traced.starting_steps)]  # fmt: skip

    def after(self, starts: Starts, begin: float, h: float, steps: int, is_moving: bool) -> np.ndarray | None:
        """The second moments of (x, 1) after so many steps; None where they are not known."""
        points = len(self.rule.weights) * (self.N + 2) * (steps if is_moving else 1)
        if points > MOST_POINTS or (is_moving and steps * _pairs(self.N + 1)[0].size ** 2 > WORK):
            return None
        size = max(1.0, float(np.abs(starts.mean).max()))
        S = _moved(starts, starting(self.run, self.n, size), self._offset(starts, size))
        rows, columns = _pairs(self.N + 1)
        y, t = S[rows, columns], begin + h * np.arange(steps)
        first = min(len(self.after_starting_step), steps)
        for k in range(first):
            matrices = self._matrices(self.after_starting_step[k], t[k : k + 1], h, size)
            if matrices is None:
                return None
            (y,) = _repeated(matrices[0], y, 1)[1:]
        with np.errstate(all="ignore"):
            if is_moving:
                at_once = max(1, AT_ONCE // (len(self.rule.weights) * (self.N + 2)))
                for begun in range(first, steps, at_once):
                    matrices = self._matrices(self.after_step, t[begun : begun + at_once], h, size)
                    if matrices is None:
                        return None
                    for matrix in matrices:
                        y = matrix @ y
            else:
                matrices = self._matrices(self.after_step, t[first : first + 1], h, size)
                if matrices is None:
                    return None
                y = np.linalg.matrix_power(matrices[0], steps - first) @ y
        R = scipy.linalg.block_diag(reading(self.run, np.eye(self.N), self.n), np.eye(1))
        return R @ _as_matrix(y, self.N + 1) @ R.T

    def _offset(self, starts: Starts, size: float) -> np.ndarray:
        """What the method's own state at the start has beside its slopes times the start."""
        params = jax.tree.leaves(self.run.spec.problem.example_params())
        leaves = uncompiled.run(self.traced.start, np.asarray(self.run.spec.times[0]), starts.mean, *params)
        own = np.concatenate([np.ravel(leaf) for leaf in leaves])
        return own - starting(self.run, self.n, size) @ starts.mean

    def _matrices(self, after: AtPoints, t: np.ndarray, h: float, size: float) -> np.ndarray | None:
        """The matrices (times, pairs, pairs) of a step from some times on; None where it is not linear."""
        (nodes, weights), N, K = self.rule, self.N, len(t)
        shares = np.random.default_rng(0).uniform(1.2, 2.0, (1, N))  # not 1, at which a sign would look linear
        states = size * np.concatenate([np.zeros((1, N)), np.eye(N), shares])
        s, ξ = np.tile(states, (len(nodes) * K, 1)), np.tile(np.repeat(nodes, N + 2, axis=0), (K, 1))
        with np.errstate(all="ignore"):
            values = after(np.repeat(t, len(nodes) * (N + 2)), np.asarray(h), s, ξ).reshape(K, len(nodes), N + 2, N)
            c = values[:, :, 0]
            slopes = (values[:, :, 1:-1] - c[:, :, None]) / size
            by_all = (values[:, :, -1] - c) / size - np.einsum("j,tqji->tqi", shares[0], slopes)
            if not np.abs(by_all).max() <= LINEAR * np.abs(slopes).max():  # NaN is not
                return None
        M = np.zeros((K, len(nodes), N + 1, N + 1))
        M[:, :, :N, :N], M[:, :, :N, N], M[:, :, N, N] = slopes.swapaxes(2, 3), c, 1.0
        flat = M.reshape(K, len(nodes), -1)
        products = (weights[:, None] * flat).swapaxes(1, 2) @ flat
        return _on_pairs(products.reshape((K, *(N + 1,) * 4)))


class NodesOfStep(NamedTuple):
    """Nodes (count, normals) of the normals of a step, and their weights."""

    nodes: np.ndarray
    weights: np.ndarray


def rule_of(recipe: Any, streams: tuple[tuple[str, int], ...], m: int, most: int) -> NodesOfStep:
    """A rule for the normals of a step: the recipe's own where these are cut into a few values, Gauss and Hermite's of
    `most` nodes for each where they are few, and one of degree 5 for all together, turned by `most`, where they are
    many."""
    count = sum(size for _, size in streams)
    if hasattr(recipe, "nodes"):
        each = [gauss.Rule(np.array(values, float), np.array(weights, float)) for values, weights in recipe.nodes(m)]
        return _product(each)
    afforded = int(MOST_NODES ** (1.0 / max(count, 1)))
    if afforded >= FEWEST:
        return _product([gauss.hermite(min(most, afforded - most % 2))] * count)
    nodes, weights = gauss.of_degree_5(count)
    turn = np.linalg.qr(np.random.default_rng(most).standard_normal((count, count)))[0]
    return NodesOfStep(nodes @ turn, weights)


def _product(each: list[gauss.Rule]) -> NodesOfStep:
    """The product of rules, one for each normal."""
    if not each:
        return NodesOfStep(np.zeros((1, 0)), np.ones(1))
    nodes = np.stack([part.ravel() for part in np.meshgrid(*(rule.nodes for rule in each), indexing="ij")], axis=1)
    return NodesOfStep(nodes, functools.reduce(np.multiply.outer, [rule.weights for rule in each]).ravel())
