"""What every problem offers to methods and to the engine."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.noise.distribution import PerPath, draw, is_random

STRUCTURES = ("additive", "diagonal", "scalar", "commutative", "general")
CALCULI = ("ito", "stratonovich")


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


class Problem(ABC):
    """A frozen record of functions and numbers; concrete classes are frozen dataclasses compared by identity.

    n, m     components of the state and channels of the noise
    names    names of the components; units: component -> unit, or None
    params   a pytree given to the functions as their last argument, or None: then they are called without it
    """

    n: int
    m: int
    names: Any
    units: Any
    params: Any
    calculus: str

    @property
    @abstractmethod
    def noise_structure(self) -> NoiseStructure:
        """What is true of the noise, and how it is known."""

    @abstractmethod
    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        """The initial values of the given paths, (len(paths), n)."""

    def lower(self, kind: type) -> tuple[Problem, str] | None:
        """This problem as one of another class with the same law, and what was done in words; None if there is none."""
        return None

    def example_start(self) -> np.ndarray:
        """One initial value, (n,)."""
        return self.draw_start(np.random.default_rng(0), range(1))[0]

    def example_params(self) -> Any:
        """The parameters of one path."""
        return jax.tree.map(
            lambda leaf: draw(leaf, np.random.default_rng(0), range(1), "params")[0] if is_random(leaf) else leaf,
            self.params,
            is_leaf=lambda leaf: isinstance(leaf, PerPath) or hasattr(leaf, "rvs"),
        )

    def extra(self, params: Any) -> tuple:
        """The last argument of the user's functions: (params,), or () where the problem has none."""
        return () if self.params is None else (params,)


def returned_shape(
    problem: Problem, name: str, function: Callable, *arguments: tuple[str, Any]
) -> jax.ShapeDtypeStruct:
    """The shape of what a user's function returns, or an error in the user's terms.

    `arguments` are (name, example) pairs; the parameters are added where the problem has them.
    """
    wanted = f"{name}({', '.join([word for word, _ in arguments] + ['params'] * (problem.params is not None))})"
    examples = [*(jnp.asarray(example) for _, example in arguments), *problem.extra(problem.example_params())]
    if not callable(function):
        raise TypeError(f"{name}: expected a function {wanted}, got {function!r}")
    try:
        inspect.signature(function).bind(*examples)
    except TypeError as error:
        given = "not given" if problem.params is None else "given"
        raise TypeError(f"{name}: must take {wanted} because params were {given}; {error}") from error
    except ValueError:
        pass  # a built-in without a signature: the call below tells
    try:
        result = jax.eval_shape(function, *examples)
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


def component_names(names: Any, default: Sequence[str]) -> tuple[str, ...]:
    """The given names, or the default ones, checked."""
    found = tuple(default) if names is None else (names,) if isinstance(names, str) else tuple(names)
    if len(found) != len(default) or len(set(found)) != len(found) or not all(isinstance(n, str) for n in found):
        raise ValueError(f"names: expected {len(default)} different names, one a component, got {found}")
    return found


def component_units(units: Any, names: Sequence[str]) -> dict[str, str] | None:
    """Component -> unit, from a mapping or one entry a component."""
    if units is None:
        return None
    if not isinstance(units, Mapping):
        units = (units,) if isinstance(units, str) else tuple(units)
        if len(units) != len(names):
            raise ValueError(f"units: expected {len(names)} entries, one a component, got {len(units)}")
        units = dict(zip(names, units, strict=True))
    if set(units) - set(names):
        raise ValueError(f"units: {sorted(set(units) - set(names))} are no components; there are {tuple(names)}")
    return dict(units)


def fixed_value(name: str, value: Any) -> np.ndarray:
    """A number or a vector of finite numbers."""
    try:
        x = np.asarray(value, float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected a number, a vector, or {name}(rng, size), got {value!r}") from error
    if x.ndim > 1:
        raise ValueError(f"{name}: expected a number or a vector, got shape {x.shape}")
    if not np.all(np.isfinite(x)):
        raise ValueError(f"{name}: not finite: {x}. Give finite values.")
    return x
