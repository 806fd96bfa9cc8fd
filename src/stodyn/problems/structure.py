"""What is true of a problem's noise: additive, diagonal, scalar, commutative; and whether time enters its equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.numerics.dependence import dependence
from stodyn.numerics.lanes import Unlaned
from stodyn.problems.contract import NoiseStructure

CHECKED_STATES = 64
CHECKED = f"checked at {CHECKED_STATES} random states"
Diffusion = Callable[[Any, Array, Any], Array]


def find_structure(g: Diffusion, x: Array, params: Any, sampled: tuple[Any, Any] | None = None) -> NoiseStructure:
    """The structure of the noise of dx = ... + g(t, x, params) dW around the state x.

    Additive, diagonal and scalar are proved from the trace of g; where it cannot be taken apart, and for
    commutativity, g is looked at in random states around x, each at a time of its own, and with the parameters of
    another path where these differ: `sampled` is what Problem.sample_params(CHECKED_STATES) gives.
    """
    n, m = jax.eval_shape(g, jnp.zeros(()), x, params).shape
    kinds, known = [], "proved from the trace"
    try:
        (entries,) = dependence(g, jnp.zeros(()), x, params)
        on_state = [
            [{i for a, i in e if a == 1} if isinstance(e, frozenset) else set() for e in row] for row in entries
        ]
        if not any(s for row in on_state for s in row):
            kinds.append("additive")
        if n == m and all(
            on_state[i][j] <= {i} if i == j else not isinstance(entries[i][j], frozenset) and entries[i][j] == 0
            for i in range(n)
            for j in range(m)
        ):
            kinds.append("diagonal")
    except Unlaned:
        kinds += checked_kinds(*_look(g, x, sampled or (params, None)))
        known = CHECKED if kinds else known
    if m == 1:
        kinds.append("scalar")
    if kinds:
        return NoiseStructure((*kinds, "commutative"), known)
    return NoiseStructure(("commutative",) if commutes(*_look(g, x, sampled or (params, None))) else (), CHECKED)


def depends_on_time(function: Callable[[Any, Array, Any], Array], x: Any, params: Any) -> bool:
    """Whether function(t, x, params) depends on t itself, in any state: proved from its trace.

    Where the trace cannot be taken apart, from values at random states around x and random times: a pulse between
    these times is then not seen.
    """
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        x = jnp.asarray(x, float)
        try:
            (entries,) = dependence(function, jnp.zeros(()), x, params)
        except Unlaned:
            rng = np.random.default_rng(2024)
            states = x + rng.standard_normal((CHECKED_STATES, x.size))
            times = 10.0 ** rng.uniform(-2, 2, CHECKED_STATES)
            looked = jax.jit(jax.vmap(function, in_axes=(0, 0, None)))
            now, then = looked(0.0 * times, states, params), looked(times, states, params)
            return not np.array_equal(now, then, equal_nan=True)
    return any((0, 0) in entry for entry in entries.ravel() if isinstance(entry, frozenset))


PARTIAL = {"sqrt": "a square root", "rsqrt": "a square root", "log": "a logarithm", "log1p": "a logarithm",
           "pow": "a power", "acos": "an arc cosine", "asin": "an arc sine", "acosh": "an inverse hyperbolic cosine",
           "atanh": "an inverse hyperbolic tangent"}  # fmt: skip


def partial_functions(trace: Any) -> tuple[str, ...]:
    """The functions of a trace that are not numbers for some arguments, in words."""
    found: dict[str, None] = {}
    waiting = [getattr(trace, "jaxpr", trace)]
    while waiting:
        for equation in waiting.pop().eqns:
            if equation.primitive.name in PARTIAL:
                found[PARTIAL[equation.primitive.name]] = None
            for value in equation.params.values():
                inner = [getattr(v, "jaxpr", v) for v in (value if isinstance(value, tuple | list) else (value,))]
                waiting += [jaxpr for jaxpr in inner if hasattr(jaxpr, "eqns")]
    return tuple(found)


def is_autonomous(problem: Any) -> bool:
    """Whether time enters neither the drift nor the diffusion of a problem."""
    x, params = problem.example_start(), problem.example_params()
    return not any(depends_on_time(function, x, params) for function in (problem.f, problem.g))


def _look(g: Diffusion, x: Array, sampled: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """g (states, n, m) and ∂g/∂x (states, n, m, n) in random states near and far from x, where both are finite."""
    rng = np.random.default_rng(2024)
    reach = 10.0 ** rng.uniform(-2, 0, (CHECKED_STATES, 1)) * (1.0 + np.abs(x))
    states = x + reach * rng.standard_normal((CHECKED_STATES, x.size))
    times = 10.0 ** rng.uniform(-2, 2, CHECKED_STATES)
    params, axes = sampled

    def both(t, x, p):
        return g(t, x, p), jax.jacfwd(lambda x: g(t, x, p))(x)

    looked = jax.jit(jax.vmap(both, in_axes=(0, 0, axes)))(times, states, params)
    values, slopes = map(np.asarray, looked)
    finite = np.isfinite(values).all((1, 2)) & np.isfinite(slopes).all((1, 2, 3))
    return values[finite], slopes[finite]


def checked_kinds(values: np.ndarray, slopes: np.ndarray) -> list[str]:
    """Which of "additive" and "diagonal" hold for g (states, n, m) and ∂g/∂x (states, n, m, n) in many states."""
    if len(values) < CHECKED_STATES // 8:
        return []
    n, m = values.shape[1:]
    kinds = ["additive"] if not slopes.any() else []
    off = ~np.eye(n, m, dtype=bool)
    if n == m and not values[:, off].any():
        foreign = slopes.copy()
        for i in range(n):
            foreign[:, i, i, i] = 0
        if not foreign.any():
            kinds.append("diagonal")
    return kinds


def commutes(values: np.ndarray, slopes: np.ndarray) -> bool:
    """Whether Σ_l (∂g_ik/∂x_l) g_lj is symmetric in k and j, to the rounding of its terms."""
    if len(values) < CHECKED_STATES // 8:
        return False
    products = np.einsum("sikl,slj->sikj", slopes, values)
    rounding = 1e-9 * np.einsum("sikl,slj->sikj", np.abs(slopes), np.abs(values)).max((1, 2, 3), keepdims=True)
    return bool(np.all(np.abs(products - products.transpose(0, 1, 3, 2)) <= rounding))
