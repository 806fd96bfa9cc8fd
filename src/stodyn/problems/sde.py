"""Stochastic differential equations dx = f(t, x) dt + g(t, x) dW, Ito or Stratonovich."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.noise.distribution import PerPath, draw, is_random
from stodyn.numerics.dependence import dependence
from stodyn.numerics.lanes import Unlaned

STRUCTURES = ("additive", "diagonal", "scalar", "commutative", "general")
CALCULI = ("ito", "stratonovich")
CHECKED_STATES = 64


@dataclasses.dataclass(frozen=True)
class NoiseStructure:
    """What is true of a problem's noise, and how it is known.

    additive     g does not depend on x
    diagonal     n = m, g is diagonal and g_ii depends on x_i alone
    scalar       one channel
    commutative  (∂g_k/∂x) g_j = (∂g_j/∂x) g_k for all channels j, k (follows from each of the above)
    general      nothing of these
    """

    kinds: tuple[str, ...]
    known: str

    def implies(self, kind: str) -> bool:
        return kind == "general" or kind in self.kinds

    @property
    def kind(self) -> str:
        """The most special name that fits."""
        return next((kind for kind in STRUCTURES if kind in self.kinds), "general")

    def __str__(self) -> str:
        return f"{self.kind} ({self.known})"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=False)
class SDE:
    """dx = drift(t, x) dt + diffusion(t, x) dW, x of n components, W of m independent channels.

    drift      drift(t, x[, params]) -> (n,)
    diffusion  diffusion(t, x[, params]) -> (n, m): column k belongs to channel k
    start      the initial value, (n,); a plain number makes the functions scalar (drift and diffusion return
               numbers); or one draw a path: a frozen scipy.stats distribution, PerPath(values), or
               start(rng, size) -> (size, n)
    params     any pytree; given to the functions as their last argument if it is not None. Leaves may be PerPath
               values or frozen scipy.stats distributions: then every path has its own
    calculus   "ito" or "stratonovich"
    names      names of the components; units: their units, kept as attributes of the result
    structure  overrides what is found about the noise: a name from STRUCTURES (see `noise_structure`)
    """

    drift: Callable
    diffusion: Callable
    start: Any
    params: Any = None
    calculus: str = "ito"
    names: Sequence[str] | None = None
    units: Sequence[str] | Mapping[str, str] | None = None
    structure: str | None = None

    scalar: bool = dataclasses.field(init=False)
    n: int = dataclasses.field(init=False)
    m: int = dataclasses.field(init=False)

    def __post_init__(self):
        if self.calculus not in CALCULI:
            raise ValueError(f"calculus: expected one of {CALCULI}, got {self.calculus!r}")
        if self.structure is not None and self.structure not in STRUCTURES:
            raise ValueError(f"structure: expected one of {STRUCTURES}, got {self.structure!r}")
        for name in ("drift", "diffusion"):
            if not callable(getattr(self, name)):
                raise TypeError(
                    f"{name}: expected a function of (t, x{_params_word(self)}), got {getattr(self, name)!r}"
                )
        example = self.example_start()
        fill = object.__setattr__
        fill(self, "scalar", example.ndim == 0)
        fill(self, "n", 1 if example.ndim == 0 else example.shape[0])
        self._check_shapes(example)
        names = tuple(self.names) if self.names is not None else tuple(f"x{i}" for i in range(self.n))
        if self.scalar and self.names is None:
            names = ("x",)
        if isinstance(self.names, str):
            names = (self.names,)
        if len(names) != self.n or len(set(names)) != self.n:
            raise ValueError(f"names: expected {self.n} different names, one a component, got {names}")
        fill(self, "names", names)
        units = self.units
        if units is not None and not isinstance(units, Mapping):
            units = (units,) if isinstance(units, str) else tuple(units)
            if len(units) != self.n:
                raise ValueError(f"units: expected {self.n} entries, one a component, got {len(units)}")
            units = dict(zip(names, units, strict=True))
        if units is not None and set(units) - set(names):
            raise ValueError(f"units: {sorted(set(units) - set(names))} are no components; there are {names}")
        fill(self, "units", units)

    # --- what methods use -----------------------------------------------------------------------------------------

    def f(self, t, x: Array, params) -> Array:
        """The drift as a vector (n,)."""
        return jnp.reshape(self.drift(t, x[0] if self.scalar else x, *_extra(self, params)), (self.n,))

    def g(self, t, x: Array, params) -> Array:
        """The diffusion as a matrix (n, m)."""
        return jnp.reshape(self.diffusion(t, x[0] if self.scalar else x, *_extra(self, params)), (self.n, self.m))

    @functools.cached_property
    def noise_structure(self) -> NoiseStructure:
        """What is true of the noise (additive, diagonal, scalar, commutative, general), and how it is known."""
        if self.structure is not None:
            kinds = () if self.structure == "general" else tuple(dict.fromkeys((self.structure, "commutative")))
            return NoiseStructure(kinds, "stated by the user")
        with jax.enable_x64(True):
            return _find_structure(self)

    # --- starts and parameters ------------------------------------------------------------------------------------

    def example_start(self) -> np.ndarray:
        """One initial value: the start itself, or a draw of it."""
        if is_random(self.start):
            return draw(self.start, np.random.default_rng(0), range(1), "start")[0]
        try:
            x = np.asarray(self.start, float)
        except (TypeError, ValueError) as error:
            raise TypeError(f"start: expected a number, a vector, or start(rng, size), got {self.start!r}") from error
        if x.ndim > 1:
            raise ValueError(f"start: expected a number or a vector, got shape {x.shape}")
        if not np.all(np.isfinite(x)):
            raise ValueError(f"start: not finite: {x}. Give finite initial values.")
        return x

    def example_params(self) -> Any:
        """The parameters of one path."""
        return jax.tree.map(
            lambda leaf: draw(leaf, np.random.default_rng(0), range(1), "params")[0] if is_random(leaf) else leaf,
            self.params,
            is_leaf=lambda leaf: isinstance(leaf, PerPath) or hasattr(leaf, "rvs"),
        )

    def _check_shapes(self, example: np.ndarray) -> None:
        n = self.n
        with jax.enable_x64(True):
            drift = _trace(self, "drift", self.drift, example)
            diffusion = _trace(self, "diffusion", self.diffusion, example)
        if drift.shape != example.shape:
            raise ValueError(
                f"drift: returned shape {drift.shape}, expected {example.shape}, the shape of start. "
                "One number a component is needed."
            )
        if self.scalar:
            if diffusion.shape != ():
                raise ValueError(
                    f"diffusion: returned shape {diffusion.shape} for a scalar start; expected a number. "
                    "For several channels give start as a vector: start=[...]."
                )
            object.__setattr__(self, "m", 1)
            return
        if diffusion.ndim != 2:
            raise ValueError(
                f"diffusion: returned shape {diffusion.shape}, expected ({n}, channels): write [:, None] for one "
                "channel, jnp.diag(...) for one channel a component."
            )
        if diffusion.shape[0] != n or diffusion.shape[1] == 0:
            raise ValueError(
                f"diffusion: returned shape {diffusion.shape}, expected ({n}, channels): one row a component."
            )
        object.__setattr__(self, "m", diffusion.shape[1])


def _params_word(problem: SDE) -> str:
    return "" if problem.params is None else ", params"


def _extra(problem: SDE, params: Any) -> tuple:
    return () if problem.params is None else (params,)


def _trace(problem: SDE, name: str, function: Callable, example: np.ndarray) -> jax.ShapeDtypeStruct:
    """The shape of what a user's function returns, or an error in the user's terms."""
    wanted = f"{name}(t, x{_params_word(problem)})"
    arguments = (jnp.zeros(()), jnp.asarray(example), *_extra(problem, problem.example_params()))
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{name}: must take {wanted} because params were {'not ' if problem.params is None else ''}given; {error}"
        ) from error
    except ValueError:
        pass  # a built-in without a signature: the call below tells
    try:
        result = jax.eval_shape(function, *arguments)
    except Exception as error:
        raise TypeError(
            f"{name}: {wanted} could not be traced by JAX ({type(error).__name__}: {str(error).splitlines()[0]}). "
            "Write it with jax.numpy on arrays: jnp.sin for math.sin, jnp.where or lax.cond for `if` on x."
        ) from error
    if not isinstance(result, jax.ShapeDtypeStruct):
        raise TypeError(
            f"{name}: {wanted} returned a {type(result).__name__}, expected one array. Wrap it: jnp.array([...])."
        )
    if not jnp.issubdtype(result.dtype, jnp.floating) and not jnp.issubdtype(result.dtype, jnp.integer):
        raise TypeError(f"{name}: {wanted} returned {result.dtype} values, expected real numbers.")
    return result


def _find_structure(problem: SDE) -> NoiseStructure:
    x = jnp.asarray(problem.example_start()).reshape(problem.n)
    params = problem.example_params()
    kinds, known = [], "proved from the trace"
    try:
        (entries,) = dependence(lambda t, x, p: problem.g(t, x, p), jnp.zeros(()), x, params)
        on_state = [
            [{i for a, i in e if a == 1} if isinstance(e, frozenset) else set() for e in row] for row in entries
        ]
        if not any(s for row in on_state for s in row):
            kinds.append("additive")
        if problem.n == problem.m and all(
            on_state[i][j] <= {i} if i == j else not isinstance(entries[i][j], frozenset) and entries[i][j] == 0
            for i in range(problem.n)
            for j in range(problem.m)
        ):
            kinds.append("diagonal")
    except Unlaned:
        known = f"checked at {CHECKED_STATES} random states"
        kinds += _checked_kinds(problem, x, params)
    if problem.m == 1:
        kinds.append("scalar")
    if kinds:
        return NoiseStructure((*kinds, "commutative"), known)
    if _commutes(problem, x, params):
        return NoiseStructure(("commutative",), f"checked at {CHECKED_STATES} random states")
    return NoiseStructure((), f"checked at {CHECKED_STATES} random states")


def _random_states(x: Array) -> Array:
    """States around the start, for the checks that a trace cannot settle."""
    z = np.random.default_rng(2024).standard_normal((CHECKED_STATES, x.size))
    return x + z * (1.0 + jnp.abs(x))


def _checked_kinds(problem: SDE, x: Array, params: Any) -> list[str]:
    states = _random_states(x)
    jacobians = np.asarray(jax.vmap(jax.jacfwd(lambda x: problem.g(0.0, x, params)))(states))
    values = np.asarray(jax.vmap(lambda x: problem.g(0.0, x, params))(states))
    finite = np.isfinite(jacobians).all((1, 2, 3)) & np.isfinite(values).all((1, 2))
    jacobians, values = jacobians[finite], values[finite]
    if len(values) < CHECKED_STATES // 8:
        return []
    kinds = ["additive"] if not jacobians.any() else []
    off = ~np.eye(problem.n, problem.m, dtype=bool)
    if problem.n == problem.m and not values[:, off].any():
        foreign = jacobians.copy()
        for i in range(problem.n):
            foreign[:, i, i, i] = 0
        if not foreign.any():
            kinds.append("diagonal")
    return kinds


def _commutes(problem: SDE, x: Array, params: Any) -> bool:
    def directional(x):  # [i, k, j] = sum over l of (∂g_ik/∂x_l) g_lj
        g = problem.g(0.0, x, params)
        return jnp.einsum("ikl,lj->ikj", jax.jacfwd(lambda x: problem.g(0.0, x, params))(x), g)

    products = np.asarray(jax.vmap(directional)(_random_states(x)))
    products = products[np.isfinite(products).all((1, 2, 3))]
    if len(products) < CHECKED_STATES // 8:
        return False
    scale = np.abs(products).max() + 1e-300
    return bool(np.abs(products - products.transpose(0, 1, 3, 2)).max() <= 1e-9 * scale)
