"""Stochastic differential equations dx = f(t, x) dt + g(t, x) dW, Ito or Stratonovich."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.noise.from_normals import FromNormals
from stodyn.numerics import diagonals
from stodyn.numerics.sparse import Elimination
from stodyn.problems.calling import call
from stodyn.problems.contract import (
    CALCULI,
    STATED,
    AsNow,
    NoiseStructure,
    Problem,
    Recommended,
    TracedFunction,
    check_params,
    derive,
    noise_hint,
    returned_shape,
    sample_params,
    shared,
)
from stodyn.problems.operators import Diagonal, Operator, check_memory, returned_noise, silent
from stodyn.problems.sparsity import NoisePlaces, find_elimination, find_noise_places
from stodyn.problems.structure import (
    CHECKED_STATES,
    find_structure,
    find_structure_of_operator,
    is_zero_off_diagonal,
    stated_structure,
    trace_of,
)


class _Shape(NamedTuple):
    """The sizes and kinds of the functions of an SDE."""

    scalar: bool
    n: int
    m: int
    is_operator: bool


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class SDE(Problem):
    """dx = drift(t, x) dt + diffusion(t, x) dW, x of n components, W of m independent channels.

    Parameters
    ----------
    drift : function drift(t, x[, params]) -> (n,)
        The rate of change without noise, written with jax.numpy.
    diffusion : function diffusion(t, x[, params]) -> (n, m), or None
        Column k belongs to channel k. Instead of a matrix it may return an operator that is never written out:
        sd.diagonal(vector), sd.sparse(rows, columns, values, shape) or sd.product(apply, channels). None means no white
        noise, for instance where coloured noise alone drives the system (`with_noise`).
    start : number, array (n,) or random values
        The initial value. A plain number makes the functions scalar: drift and diffusion then return numbers. Random
        starts, one per path, are a frozen scipy.stats distribution, PerPath(values), a function start(rng, size) ->
        (size, n), or from_normals(function, normals).
    params : pytree, optional
        Passed to the functions that have an argument for it after (t, x). Leaves may be PerPath values or frozen
        scipy.stats distributions; every path then has its own.
    calculus : "ito" or "stratonovich"
        How the noise term is understood.
    names : sequence of str, optional
        The names of the components.
    units : sequence or mapping, optional
        One unit per component, or name -> unit, where "time" and the entries of params may have one too. Names and
        units appear in results and plots.
    structure : str, optional
        Overrides the structure of the noise that is otherwise determined from `diffusion`: one of "additive",
        "diagonal", "scalar", "commutative" and "general" (see `noise_structure`). A run refuses what the diffusion is
        not about the start or where the first four paths come to. "without areas" takes noise that does not commute as
        if it did, for areas too small to matter.

    Raises
    ------
    ValueError
        If the functions return arrays of the wrong shape.

    Examples
    --------
    >>> import stodyn as sd
    >>> growth = sd.SDE(lambda t, x: 0.05 * x, lambda t, x: 0.2 * x, start=1.0, names=["price"])
    >>> growth.noise_structure.kind
    'diagonal'
    """

    drift: Callable
    diffusion: Any
    start: Any
    params: Any = None
    calculus: str = "ito"
    names: Sequence[str] | None = None
    units: Sequence[str] | Mapping[str, str] | None = None
    structure: str | None = None

    def __post_init__(self):
        if self.calculus not in CALCULI:
            raise ValueError(f"calculus: expected one of {CALCULI}, got {self.calculus!r}")
        if self.structure is not None and self.structure not in STATED:
            raise ValueError(f"structure: expected one of {STATED}, got {self.structure!r}")
        check_params(self.params)
        if (self.structure == "scalar" and self.m > 1) or (self.structure == "diagonal" and self.n != self.m):
            raise ValueError(f"structure: {self.structure!r} is impossible: diffusion returns shape {(self.n, self.m)}")
        self._check_memory()
        derive(self, "component_units")

    @property
    def scalar(self) -> bool:
        """Whether the functions take and return numbers."""
        return self._shape.scalar

    @property
    def n(self) -> int:  # type: ignore[override]
        return self._shape.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self._shape.m

    @property
    def _is_operator(self) -> bool:
        return self._shape.is_operator

    @property
    def mass_matrix(self) -> np.ndarray:
        """M of M dx = f dt + g dW, as an SDAE has it: the identity."""
        return np.eye(self.n)

    @property
    def default_names(self) -> Sequence[str]:
        return ("x",) if self.scalar else super().default_names

    @property
    def _noise(self) -> Callable:
        return silent if self.diffusion is None else self.diffusion

    @functools.cached_property
    def _shape(self) -> _Shape:
        """The sizes of start, drift and diffusion, after their shapes have been checked."""
        if not callable(self.drift):
            raise TypeError(
                f"drift: expected a function drift(t, x[, params]), got {self.drift!r}; the order of the arguments is "
                "SDE(drift, diffusion, start)"
            )
        example = np.asarray(self.start_source.example("start"))
        if example.ndim > 1 or example.size == 0:
            raise ValueError(f"start: expected a number or a vector per path, got shape {example.shape}")
        n, arguments = example.size, (("t", 0.0), ("x", example))
        with jax.enable_x64(True):
            drift = returned_shape(self, "drift", self.drift, *arguments)
            shape, is_operator = returned_noise(self, self._noise, *arguments)
        if drift.shape != example.shape:
            raise ValueError(
                f"drift: returned shape {drift.shape}, expected {example.shape}, the shape of start. "
                "One number per component is needed."
            )
        if example.ndim == 0:
            if is_operator or shape != ():
                description = "an operator" if is_operator else f"shape {shape}"
                raise ValueError(
                    f"diffusion: returned {description} for a scalar start; expected a number. "
                    "For several channels give start as a vector: start=[...]."
                )
            return _Shape(True, 1, 1, False)
        if len(shape) != 2 or shape[0] != n or shape[1] == 0:
            raise ValueError(
                f"diffusion: returned shape {shape}, expected ({n}, channels), one row per component and "
                f"one column per channel{noise_hint(shape, n)}."
            )
        return _Shape(False, n, shape[1], is_operator)

    def _check_memory(self) -> None:
        """Refuse a matrix that would not fit into memory."""
        if not self._is_operator and not self._is_diagonal_matrix:
            check_memory(self.n, self.m)

    def f(self, t, x: Array, params) -> Array:
        """The drift as a vector (n,)."""
        return jnp.reshape(call(self.drift, t, x[0] if self.scalar else x, params=params), (self.n,))

    def g(self, t, x: Array, params) -> Array:
        """The diffusion as a matrix (n, m)."""
        noise = call(self._noise, t, x[0] if self.scalar else x, params=params)
        return noise.dense() if isinstance(noise, Operator) else jnp.reshape(noise, (self.n, self.m))

    def multiplier(self, t, x: Array, params) -> Any:
        """The factor of an increment, multiplier @ W: an operator, or the matrix (n, m)."""
        if self._is_diagonal_matrix:
            return Diagonal(self.diagonal(t, x, params))
        return call(self._noise, t, x, params=params) if self._is_operator else self.g(t, x, params)

    def push(self, t, x: Array, params, W: Array) -> Array:
        """g(t, x) W, (n,): the effect of an increment of the channels on the components."""
        return self.multiplier(t, x, params) @ W

    def row(self, t, x: Array, params, i: int) -> Array:
        """The noise of component i, one number per channel; zeros may be left out."""
        noise = self.multiplier(t, x, params)
        return noise.row(i) if isinstance(noise, Operator) else noise[i]

    def noise_rows(self, t, x, params, components):
        return tuple(self.row(t, x, params, i) for i in components)

    def mean_rates(self, t, x, params, components):
        rates = self.f(t, x, params)
        return tuple(rates[i] for i in components)

    def noise_along(self, t, x, params, weights, components):
        return jax.grad(lambda W: weights @ self.push(t, x, params, W))(jnp.zeros(self.m, x.dtype))

    def noise_push(self, t, x, params, W):
        return self.push(t, x, params, W)

    def diagonal(self, t, x: Array, params) -> Array:
        """The diagonal (n,) of the diffusion, without its matrix where that is possible."""
        noise = call(self._noise, t, x, params=params) if self._is_operator else None
        return noise.entries if isinstance(noise, Diagonal) else diagonals.diagonal(self.g)(t, x, params)

    @functools.cached_property
    def _is_diagonal_matrix(self) -> bool:
        """Whether the diffusion returns a square matrix whose trace proves that it is zero off its diagonal."""
        if self._is_operator or self.n != self.m or self.n == 1:
            return False
        with jax.enable_x64(True):
            return is_zero_off_diagonal(self.g, self.example_start(), self.example_params())

    @functools.cached_property
    def examined_structure(self) -> NoiseStructure:
        """The structure of the noise by its functions, whatever is stated of it."""
        return dataclasses.replace(self, structure=None).noise_structure

    @AsNow
    def noise_structure(self) -> NoiseStructure:
        """The structure of the noise (additive, diagonal, scalar, commutative, general), and how it is known."""
        if self.structure is not None:
            return stated_structure(self.structure, "stated by the user")
        with jax.enable_x64(True):
            examples = self.example_start(), self.example_params(), sample_params(self, CHECKED_STATES)
            if self._is_operator:
                return find_structure_of_operator(self.multiplier, *examples)
            return find_structure(self.g, *examples, traced=self._traced_noise)

    @property
    def _traced_noise(self) -> TracedFunction:
        """The trace of g, which that of the diffusion is where both are matrices."""
        if not self.scalar and "diffusion" in self.traced_functions:
            return self.traced_functions["diffusion"]
        arguments = self.example_start(), self.example_params()
        traced = shared("noise", self.diffusion, lambda: trace_of(self.g, *arguments), arguments)
        return dataclasses.replace(traced, arguments=(np.zeros(()), *arguments))

    @property
    def recommended(self) -> Recommended:
        noise = self.noise_structure
        if noise.implies("additive"):
            return Recommended("SRA1", "strong order 1.5 for additive noise at two evaluations of the drift")
        if self.calculus == "stratonovich":
            return Recommended("Heun", "solves Stratonovich equations, of strong order 1 where noise commutes")
        if noise.implies("scalar") or noise.implies("diagonal"):
            return Recommended("SRIW1", "strong order 1.5 for scalar and for diagonal noise")
        if noise.implies("commutative"):
            return Recommended("Milstein", "strong order 1 without Lévy areas, since the noise commutes")
        return Recommended("EulerMaruyama", "such noise allows no higher strong order without its Lévy areas")

    @property
    def stable_methods(self) -> tuple[str, ...]:
        return "ImplicitMidpoint", "ThetaEuler"

    def without_noise(self, calculus: str | None = None) -> SDE:
        shape = () if self.scalar else (self.n, self.m)
        return dataclasses.replace(
            self,
            diffusion=lambda t, x: jnp.zeros(shape),
            calculus=calculus or self.calculus,
            structure=None,
        )

    @functools.cached_property
    def elimination(self) -> Elimination | None:
        """How the sparse matrices of implicit steps are eliminated; None where they are small or full."""
        return find_elimination(self)

    @functools.cached_property
    def noise_places(self) -> NoisePlaces | None:
        """Where noise that is never a matrix has its entries, in groups that do not disturb each other."""
        return find_noise_places(self) if self._is_operator or self._is_diagonal_matrix else None

    @property
    def start_from_normals(self) -> FromNormals | None:
        return self.start if isinstance(self.start, FromNormals) else None
