"""One step of a method on a problem as a map between flat vectors, at many points; where it is affine, its matrix."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from stodyn.engine.spec import as_it_is_now, matched
from stodyn.methods.contract import Method
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.structure import is_autonomous

AFFINE = 1e-8  # relative defect that Newton's tolerance may leave
OTHERS = 3  # random states at which a map is tested for being affine
FEW = 300  # readings that NumPy does in less time than it takes to compile them


class OneStep:
    """A step s' = step(s, ξ) of a method on a problem as a map between flat vectors.

    s is the method's state in a row, x and for multistep methods the history; ξ are its standard normals. With
    `starting` it is a starting step of a multistep method, number `k` of `after`. `often` compiles from the start,
    which pays where it is evaluated often. Without `convert`, the problem is taken as it is, and not converted as in a
    run. It is made for one analysis and lives as long as that takes: the functions of the problem are traced once.
    """

    def __init__(self, problem: Any, method: Method, starting: bool = False, often: bool = True, convert: bool = True):
        self.problem, self.method = as_it_is_now(problem), method
        stepped = matched(self.problem, method)[0] if convert else self.problem
        counts, m = method.needs.normals(stepped.m), stepped.m
        ends = np.cumsum(list(counts.values()))[:-1]
        with jax.enable_x64(True):
            begun = jax.eval_shape(lambda x: method.start(stepped, jnp.zeros(()), x, self.problem.example_params()),
                                   np.zeros(stepped.n))  # fmt: skip
        leaves: list[Any]
        tree: Any
        leaves, tree = jax.tree.flatten(begun)
        parts = np.cumsum([leaf.size for leaf in leaves])
        self.n, self.size, self.normals = stepped.n, int(parts[-1]), sum(counts.values())

        def state(s):
            pieces = jnp.split(s, parts[:-1])
            return tree.unflatten([jnp.reshape(a, leaf.shape) for a, leaf in zip(pieces, leaves, strict=True)])

        def function(k, t, h, params, s, ξ):
            noise = method.needs.increment(h, dict(zip(counts, jnp.split(ξ, ends), strict=True)), m)
            step = functools.partial(method.starting_step, k) if starting else method.step
            new, report = step(stepped, t, state(s), noise, params)
            return jnp.where(report.ok, ravel_pytree(new)[0], jnp.nan)

        def after(*arguments):
            with underived():
                return function(*arguments)

        few = 0 if often else FEW
        self._after = AtPoints(after, (None, None, None, None, 0, 0), few)
        self.function = function  # of (k, t, h, params, s, ξ), to be traced and differentiated
        self.begun = lambda t, params, x: ravel_pytree(method.start(stepped, t, x, params))[0]
        self._start = AtPoints(self.begun, (None, None, 0), FEW)
        self._read = AtPoints(lambda s: method.read(state(s)), 0, FEW)

    @functools.cached_property
    def autonomous(self) -> bool:
        """Whether the step is the same at all times."""
        return is_autonomous(self.problem)

    def after(self, t: float, h: float, params: Any, s: np.ndarray, ξ: np.ndarray, k: int = 0) -> np.ndarray:
        """The states (points, size) after a step from time t; NaN where its equations were not solved."""
        return self._after(np.asarray(k), np.asarray(t, float), np.asarray(h, float), params, s, ξ)

    def start(self, t: float, params: Any) -> tuple[np.ndarray, float]:
        """[S | c] (size, n + 1) of s = S x + c at the start x, and how far it is from that."""
        return affine(lambda x: self._start(np.asarray(t, float), params, x), self.n)

    @functools.cached_property
    def reading(self) -> tuple[np.ndarray, float]:
        """[R | r] (n, size + 1) of x = R s + r, and how far it is from that."""
        return affine(self._read, self.size)


def affine(function: Callable[[np.ndarray], np.ndarray], size: int) -> tuple[np.ndarray, float]:
    """[M | c] of function(s) = M s + c, which takes many points at once, and how far it is from that, relative."""
    return of_one(function(probing_states(size)), size)


def of_one(values: np.ndarray, size: int) -> tuple[np.ndarray, float]:
    """[M | c] of a map from its values (points, out) at `probing_states`, and how far it is from being affine."""
    matrices, defects = of_values(values[None], size)
    return matrices[0], float(defects[0])


@functools.lru_cache(maxsize=64)
def probing_states(size: int) -> np.ndarray:
    """The states at which an affine map shows its matrix, zero and unit vectors, and others that test if it is one."""
    others = np.random.default_rng(1).standard_normal((OTHERS, size))
    states = np.concatenate([np.zeros((1, size)), np.eye(size), others])
    states.flags.writeable = False
    return states


def of_values(values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """[M | c] (maps, out, size + 1) of some maps from their values (maps, points, out) at `probing_states`, and how
    far each is from being affine, relative to its largest value; NaN where a value is not finite."""
    c = values[:, 0]
    M = (values[:, 1 : size + 1] - c[:, None]).swapaxes(1, 2)
    others = probing_states(size)[size + 1 :]
    far = np.abs(values[:, size + 1 :] - (others @ M.swapaxes(1, 2) + c[:, None])).max(axis=(1, 2), initial=0.0)
    largest = np.maximum(np.abs(values).max(axis=(1, 2), initial=0.0), 1e-300)
    return np.concatenate([M, c[:, :, None]], axis=2), far / largest
