"""The systems of a RandomDAE at chosen values of its parameters, as integrators take them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.radau import Forcing, Linear, Nonlinear
from stodyn.numerics.sparse import MOST_FULL, Pattern, find_pattern
from stodyn.problems import pencil
from stodyn.problems.calling import call
from stodyn.problems.contract import fixed_value
from stodyn.problems.multiaffine import MultiAffine
from stodyn.problems.param_dependence import ParamDependence

DENSE_LIMIT = 64  # components up to which the nodes are solved as one dense batch


@dataclasses.dataclass(frozen=True, eq=False)
class RandomSystems:
    """M, A, s and f of a RandomDAE at nodes, that is, at values (K, Q) of its Q random parameters."""

    problem: Any
    dependence: ParamDependence

    def masses(self, nodes: np.ndarray) -> np.ndarray:
        """M at the nodes (K, Q), (K, n, n)."""
        return self._stacked(self.dependence.mass_terms, "mass", nodes)

    def matrices(self, nodes: np.ndarray) -> np.ndarray:
        """A at the nodes, (K, n, n)."""
        return self._stacked(self.dependence.matrix_terms, "matrix", nodes)

    def starts(self, nodes: np.ndarray) -> np.ndarray:
        """The initial values at the nodes, (K, n)."""
        if not callable(self.problem.start):
            return np.tile(self.problem.start_at(self.problem.center), (len(nodes), 1))
        return np.stack([fixed_value("start", row) for row in self.values("start", nodes)])

    def sources(self, times: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """s at the times and nodes, (T, K, n); the times of an integrator come in parts of one length."""
        points = np.repeat(np.asarray(times, float), len(nodes)), np.tile(nodes, (len(times), 1))
        values = self.values("source", points[1], points[0])
        return np.reshape(values, (len(times), len(nodes), self.problem.n))

    def _stacked(self, terms: MultiAffine | None, name: str, nodes: np.ndarray) -> np.ndarray:
        if terms is not None:
            return terms.values(nodes)
        return np.stack([pencil.dense("mass, matrix", value) for value in self.values(name, nodes)])

    def values(self, name: str, nodes: np.ndarray, *times: np.ndarray) -> Any:
        """A function of the parameters at nodes (K, Q), and a source at the time of each, as a list or an array.

        A function of JAX is computed at all of them at once: each of its operations takes long by itself.
        """
        batched = self._batched(name)
        if batched is None:
            at = getattr(self.problem, f"{name}_at")
            return [at(*map(float, t), p) for *t, p in zip(*times, nodes, strict=True)]
        return batched(*times, nodes)

    def _batched(self, name: str) -> AtPoints | None:
        """A function that returns arrays of JAX, at many points; None for one that does not, or cannot be traced."""
        if name not in self._functions:
            self._functions[name] = self._find_batched(name)
        return self._functions[name]

    @functools.cached_property
    def _functions(self) -> dict[str, AtPoints | None]:
        return {}

    def _find_batched(self, name: str) -> AtPoints | None:
        problem, function = self.problem, getattr(self.problem, name)
        if not callable(function):
            return None
        t = (0.0,) if name == "source" else ()
        with jax.enable_x64(True):
            value = call(function, *t, params=problem.params_at(problem.center))
        if not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
            return None

        def at(*arguments: Any) -> jax.Array:
            *t, p = arguments
            own = dict(zip(problem.parameters, p, strict=True)) if problem.parameters else {}
            params = None if problem.params is None else {**problem.params, **own}
            return jnp.asarray(call(function, *t, params=params), float)

        batched = AtPoints(at)
        try:
            batched(*(np.array([s]) for s in t), problem.center[None])
        except Exception:  # whatever the user's function does not do to tracers
            return None
        return batched

    def system(self, nodes: np.ndarray, times: np.ndarray) -> Linear | Nonlinear:
        """The systems at the nodes (K, Q) as one batch."""
        if not self.problem.linear:
            return self.nonlinear(nodes)
        return Linear(self.masses(nodes), -self.matrices(nodes), self.forcing(nodes, times))

    @property
    def is_sparse(self) -> bool:
        """Whether the nodes are solved one after another with sparse matrices."""
        return self.problem.n > DENSE_LIMIT and (self.problem.linear or self._drift_pattern is not None)

    def sparse_system(self, p: np.ndarray, times: np.ndarray) -> Linear | Nonlinear:
        """The system at one parameter with sparse matrices."""
        M = scipy.sparse.csr_array(self.problem.mass_at(p))
        if self.problem.linear:
            return Linear(M, -scipy.sparse.csr_array(self.problem.matrix_at(p)), self.forcing(p[None], times))
        pattern: Any = self._drift_pattern
        params = {name: p[i : i + 1] for i, name in enumerate(self.problem.parameters)}

        def jacobian(t, x):
            with jax.enable_x64(True):
                return pattern.csr(np.asarray(self._sparse_slopes(t, x, params))[0])

        return Nonlinear(M, self._rates(params), jacobian)

    def forcing(self, nodes: np.ndarray, times: np.ndarray) -> Forcing:
        """s(t, p) at the nodes; a source that does not depend on p is evaluated once for all of them."""
        sets, columns = self.dependence.source_terms(times), np.arange(self.problem.n)
        if sets is None:
            return Forcing(lambda t: self.sources(t, nodes), columns)
        if sets == [()]:
            return Forcing(lambda t: self.dependence.source_parts(t, sets)[:, 0], columns)
        products = MultiAffine(self.problem.center, dict.fromkeys(sets)).monomials(nodes)
        return Forcing(lambda t: np.einsum("ks,tsn->tkn", products, self.dependence.source_parts(t, sets)), columns)

    def nonlinear(self, nodes: np.ndarray) -> Nonlinear:
        """The systems of a drift at the nodes as one batch."""
        params = {name: nodes[:, i] for i, name in enumerate(self.problem.parameters)}

        def jacobian(t, x):
            with jax.enable_x64(True):
                return np.asarray(self._slopes(t, x, params))

        return Nonlinear(self.masses(nodes), self._rates(params), jacobian)

    def rates(self, t: np.ndarray, x: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """f of a nonlinear system at times (S,), states (S, K, n) and nodes (K, Q)."""
        return self._rates({name: nodes[:, i] for i, name in enumerate(self.problem.parameters)})(t, x)

    def _rates(self, params: Mapping[str, np.ndarray]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """f (stages, members, n) at these parameters."""

        def f(t, x):
            with jax.enable_x64(True):
                return np.asarray(self._batched_drift(t, x, params))

        return f

    @functools.cached_property
    def _batched_drift(self) -> Callable:
        """f (stages, members, n), compiled once per shape."""
        return jax.jit(jax.vmap(jax.vmap(self.problem.drift_at, (None, 0, 0)), (0, 0, None)))

    @functools.cached_property
    def _slopes(self) -> Callable:
        """The Jacobian (members, n, n), compiled once per shape."""
        return jax.jit(jax.vmap(jax.jacfwd(self.problem.drift_at, 1), (None, 0, 0)))

    @functools.cached_property
    def _drift_pattern(self) -> Pattern | None:
        """Where the Jacobian of the drift may differ from zero; None where it is full or cannot be followed."""
        with jax.enable_x64(True):
            means = zip(self.problem.parameters, self.problem.center, strict=True)
            p = {name: jnp.asarray(value) for name, value in means}
            start = np.asarray(self.problem.start_at(self.problem.center), float)
            try:
                pattern = find_pattern(lambda x, t: self.problem.drift_at(t, x, p), start, np.zeros(()))
            except Unprintable:
                return None
        return pattern if len(pattern.rows) <= MOST_FULL * self.problem.n**2 else None

    @functools.cached_property
    def _sparse_slopes(self) -> Callable:
        """The entries (members, nnz) of the Jacobian at the places of its pattern, compiled once per shape."""
        pattern: Any = self._drift_pattern

        def slopes(t, x, p):
            return pattern.jacobian(lambda x: self.problem.drift_at(t, x, p), x)

        return jax.jit(jax.vmap(slopes, (None, 0, 0)))
