"""The structure of a problem's noise: additive, diagonal, scalar, commutative; whether time enters its equations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.numerics.bounded import Bounded
from stodyn.numerics.facts.axes import Facts, facts_of
from stodyn.numerics.facts.degree import is_proved_affine
from stodyn.numerics.facts.dependence import Dependence, dependence_of
from stodyn.numerics.printing.entrywise import TABLE, UNKNOWN
from stodyn.numerics.printing.fingerprints import without_prints
from stodyn.numerics.printing.operations import equations_of
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.trace import owners
from stodyn.numerics.printing.unprintable import Unprintable, or_else, remembered
from stodyn.numerics.tracing_errors import one_error_of_derivatives
from stodyn.problems.contract import WITHOUT_AREAS, NoiseStructure, TracedFunction
from stodyn.problems.operators import Diagonal, Operator, Sparse

CHECKED_STATES = 64
CHECKED, PROVED = f"checked at {CHECKED_STATES} random states", "proved from the trace"
UNDERIVED = "JAX has no derivative of it"
COMMUTES = 1e-9  # of its terms: a commutator below this is none, by choice far above n ε; what it would do is as small
TAKEN_APART = 10_000  # entries of an array up to which each is followed through the trace
DIFFERENTIATED = 10_000  # n² m: beyond it derivatives are taken in random directions, at a cost linear in m
PAIRED = 16  # channels that are compared with all others at a time
Diffusion = Callable[[Any, Array, Any], Array]


def stated_structure(kind: str, known: str) -> NoiseStructure:
    """Return the structure that a user states, or that is known in another way."""
    if kind == WITHOUT_AREAS:
        return NoiseStructure(("commutative",), "taken so: its areas are left out")
    return NoiseStructure(() if kind == "general" else tuple(dict.fromkeys((kind, "commutative"))), known)


def find_structure(
    g: Diffusion, x: Any, params: Any, sampled: tuple[Any, Any] | None = None, traced: TracedFunction | None = None
) -> NoiseStructure:
    """The structure of the noise of dx = ... + g(t, x, params) dW around the state x; `traced` is the trace of g, where
    it is known.

    Additive, diagonal and scalar are proved from the trace of g, seen as whole arrays, and entry by entry where these
    are few; where nothing can be proved, and for commutativity, g is evaluated in random states around x, each at a
    time of its own, and with the parameters of another path where these differ: `sampled` is the result of
    contract.sample_params(problem, CHECKED_STATES).
    """
    traced = traced or trace_of(g, x, params)
    try:
        with one_error_of_derivatives():
            return _structure(g, x, traced, sampled or (params, None))
    except NotImplementedError:
        is_scalar = traced.trace.out_avals[0].shape[1] == 1
        return NoiseStructure(("scalar", "commutative") if is_scalar else (), UNDERIVED)


def _structure(g: Diffusion, x: Any, traced: TracedFunction, sampled: tuple[Any, Any]) -> NoiseStructure:
    """Find the structure of noise; raises NotImplementedError where JAX has no derivative of g."""
    (kinds, is_settled), known = proved_kinds(traced), PROVED
    n, m = traced.trace.out_avals[0].shape
    looked: tuple[np.ndarray, np.ndarray] | None = None
    in_directions = n * n * m > DIFFERENTIATED
    if not (kinds or is_settled):
        looked = None if in_directions else _sampled_noise(g, x, sampled)
        kinds = directed_kinds(g, x, sampled) if looked is None else checked_kinds(*looked)
        known = CHECKED if kinds else known
    if m == 1:
        kinds.append("scalar")
    if kinds:
        return NoiseStructure((*kinds, "commutative"), known)
    if in_directions:
        commuting = commutes_in_directions(g, x, sampled)
    else:
        commuting = commutes(*(looked or _sampled_noise(g, x, sampled)))
    return NoiseStructure(("commutative",) if commuting else (), CHECKED)


def find_structure_of_operator(
    operator: Callable[[Any, Array, Any], Operator], x: Any, params: Any, sampled: tuple[Any, Any]
) -> NoiseStructure:
    """The structure of noise that is never a matrix, from the numbers it is made of and its products with vectors."""
    kinds, (n, m) = kinds_of_operator(operator, x, params)
    is_small = n * m <= TAKEN_APART
    if is_small and (not kinds or (n == m and "diagonal" not in kinds)):
        return find_structure(lambda t, x, p: operator(t, x, p).dense(), x, params, sampled)
    if m == 1:
        kinds.append("scalar")
    if kinds:
        return NoiseStructure((*kinds, "commutative"), PROVED)
    commuting = commutes_in_directions(operator, x, sampled)
    return NoiseStructure(("commutative",) if commuting else (), CHECKED)


def kinds_of_operator(
    operator: Callable[[Any, Array, Any], Operator], x: Any, params: Any
) -> tuple[list[str], tuple[int, int]]:
    """Which of "additive" and "diagonal" are proved of noise that is never a matrix, and its shape."""
    arguments = (np.zeros(()), x, params)
    operators: list[Operator] = []

    def entries(t, x, p):
        operators.append(operator(t, x, p))
        return operators[-1].entries

    facts = facts_of(jax.make_jaxpr(entries)(*arguments), arguments, vector=1)
    kinds, noise = [] if 1 in facts.on else ["additive"], operators[-1]
    is_diagonal = isinstance(noise, Diagonal)
    if isinstance(noise, Sparse) and noise.shape[0] == noise.shape[1] and np.array_equal(noise.rows, noise.columns):
        is_diagonal = kinds == ["additive"] or np.array_equal(noise.rows, np.arange(noise.shape[0]))
    if is_diagonal and facts.takes_along(1, 0):
        kinds.append("diagonal")
    return kinds, noise.shape


def is_zero_off_diagonal(g: Diffusion, x: Any, params: Any) -> bool:
    """Whether the trace of g, seen as whole arrays, proves that its square matrix is zero off the diagonal."""
    return _is_proved_zero(trace_of(g, x, params))


@or_else(lambda g: False)
def _is_proved_zero(g: TracedFunction) -> bool:
    return facts_of(g.trace, g.arguments, vector=1).is_zero((0, 1))


def trace_of(g: Diffusion, x: Any, params: Any) -> TracedFunction:
    arguments = (np.zeros(()), x, params)
    return TracedFunction(g, arguments, jax.make_jaxpr(g)(*arguments))


_proved: Bounded[Any, tuple[list[str], bool]] = Bounded(256)


def proved_kinds(g: TracedFunction) -> tuple[list[str], bool]:
    """Which of "additive" and "diagonal" are proved from the trace of g, and whether the others are disproved by it."""
    key = g.digest, tuple(owners(g.arguments))
    kinds, is_settled = remembered(_proved, key, lambda: _proved_kinds(g))
    return [*kinds], is_settled


@or_else(lambda g: ([], False))
def _proved_kinds(g: TracedFunction) -> tuple[list[str], bool]:
    trace, arguments = g.trace, g.arguments
    n, m = trace.out_avals[0].shape
    kinds = _seen_as_a_whole(facts_of(trace, arguments, vector=1), n == m)
    if "diagonal" not in kinds and n * m <= TAKEN_APART:
        with contextlib.suppress(Unprintable):
            return _seen_entry_by_entry(dependence_of(trace, arguments)), True
    return kinds, False


def _seen_as_a_whole(g: Facts, is_square: bool) -> list[str]:
    kinds = [] if 1 in g.on else ["additive"]
    return [*kinds, "diagonal"] if is_square and g.is_zero((0, 1)) and g.takes_along(1, 0) else kinds


def _seen_entry_by_entry(g: Dependence) -> list[str]:
    n, m = g.zero.shape
    on_state = g.on(1).tocoo()
    kinds = [] if on_state.nnz else ["additive"]
    is_diagonal = n == m and g.zero[~np.eye(n, dtype=bool)].all() and (on_state.row // m == on_state.col).all()
    return [*kinds, "diagonal"] if is_diagonal else kinds


def depends_on_time(function: Callable[[Any, Array, Any], Array], x: Any, params: Any) -> bool:
    """Whether function(t, x, params) depends on t itself, in any state: proved from its trace.

    Where the trace cannot be taken apart, from values at random states around x and random times: a pulse between
    these times is then not seen.
    """
    with jax.enable_x64(True):
        x = np.asarray(x, float)
        arguments = (np.zeros(()), x, params)
        trace = without_prints(jax.make_jaxpr(function)(*arguments))
        if 0 not in facts_of(trace, arguments, vector=1).on:
            return False
        if trace.out_avals[0].size <= TAKEN_APART:
            with contextlib.suppress(Unprintable):
                return 0 in dependence_of(trace, arguments).arguments
        rng = np.random.default_rng(2024)
        states = x + rng.standard_normal((CHECKED_STATES, x.size))
        times = 10.0 ** rng.uniform(-2, 2, CHECKED_STATES)
        looked = AtPoints(function, (0, 0, None))
        now, then = looked(0.0 * times, states, params), looked(times, states, params)
        return not np.array_equal(now, then, equal_nan=True)


_fixed: Bounded[Any, bool] = Bounded(256)


def has_fixed_slopes(f: Callable[[Any, Array, Any], Array], x: Any, params: Any) -> bool:
    """Whether it is proved that f(t, x, params) is affine in x with slopes that depend on params alone."""

    def slopes(t, x, p):
        return jax.jacfwd(lambda x: f(t, x, p))(x)

    with jax.enable_x64(True):
        traced = trace_of(f, x, params)
        key = (traced.digest, tuple(owners(traced.arguments))) if traced.has_full_digest else object()

        def are_fixed() -> bool:
            return is_proved_affine(f, traced.arguments, moving=1) and not (
                depends_on_time(f, x, params) and depends_on_time(slopes, x, params)
            )

        return remembered(_fixed, key, are_fixed)


@or_else(lambda trace: ())
def partial_functions(trace: Any) -> tuple[str, ...]:
    """The functions of a trace that are not numbers for some arguments, in words."""
    rows = (TABLE.get(equation.primitive.name, UNKNOWN) for equation in equations_of(trace.jaxpr))
    return tuple(dict.fromkeys(row.undefined for row in rows if row.undefined))


def is_autonomous(problem: Any) -> bool:
    """Whether time enters neither the drift nor the diffusion of a problem."""
    x, params = problem.example_start(), problem.example_params()
    return not any(depends_on_time(function, x, params) for function in problem.rates_and_noise())


def _random_states(x: Array) -> tuple[np.ndarray, np.ndarray]:
    """Times, and states near and far from x."""
    rng = np.random.default_rng(2024)
    reach = 10.0 ** rng.uniform(-2, 0, (CHECKED_STATES, 1)) * (1.0 + np.abs(x))
    states = x + reach * rng.standard_normal((CHECKED_STATES, x.size))
    return 10.0 ** rng.uniform(-2, 2, CHECKED_STATES), np.asarray(states)


def _sampled_noise(g: Diffusion, x: Array, sampled: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """g (states, n, m) and ∂g/∂x (states, n, m, n) in random states near and far from x, where both are finite."""
    (times, states), (params, axes) = _random_states(x), sampled
    return _finite(noise_and_slopes(g, axes)(times, states, params))


def noise_and_slopes(g: Diffusion, axes: Any) -> AtPoints:
    """g (n, m) and ∂g/∂x (n, m, n) at many points; axes: those of the parameters."""

    def both(t, x, p):
        return g(t, x, p), jax.jacfwd(lambda x: g(t, x, p))(x)

    return AtPoints(both, (0, 0, axes))


def _finite(looked: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    values, slopes = looked
    finite = np.isfinite(values).all((1, 2)) & np.isfinite(slopes).all((1, 2, 3))
    return values[finite], slopes[finite]


def holds_in(kind: str, looked: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether noise is "additive", "diagonal" or "commutative" in all the states in which it is looked at."""
    values, slopes = _finite(looked)
    return _commute(values, slopes) if kind == "commutative" else kind in _kinds(values, slopes)


def _answers(question: Callable, x: Array, sampled: tuple[Any, Any]) -> np.ndarray:
    """The answers (states, k) of question(t, x, other x, p, z) in state after state; z (2, n) are normals.

    The last answer is whether everything was finite; the others are used only where it was.
    """
    times, states = _random_states(x)
    rng, (params, axes) = np.random.default_rng(2025), sampled
    normals = rng.standard_normal((CHECKED_STATES, 2, x.size))
    ask, answers = AtPoints(question, (0, 0, 0, axes, 0), few=CHECKED_STATES), []
    for k in range(CHECKED_STATES):
        now, other = slice(k, k + 1), slice(k - 1, k or None)
        own = jax.tree.map(
            lambda axis, leaf, now=now: leaf if axis is None else leaf[now], axes, params, is_leaf=lambda a: a is None
        )
        answers.append(ask(times[now], states[now], states[other], own, normals[now])[0])
    samples = np.array(answers)
    return samples[samples[:, -1]][:, :-1]


def directed_kinds(g: Diffusion, x: Array, sampled: tuple[Any, Any]) -> list[str]:
    """Which of "additive" and "diagonal" hold where some or all of the state is changed, in many states."""

    def question(t, x, other, p, z):
        here, mixed = g(t, x, p), jnp.where(z[0] > 0, x, other)
        there, between = g(t, other, p), g(t, mixed, p)
        finite = jnp.isfinite(here).all() & jnp.isfinite(there).all() & jnp.isfinite(between).all()
        own = (jnp.diagonal(between) == jnp.diagonal(here)) | (z[0, : min(here.shape)] <= 0)
        off = jnp.count_nonzero(here) == jnp.count_nonzero(jnp.diagonal(here))
        return jnp.stack([(here == there).all(), off & own.all() & (here.shape[0] == here.shape[1]), finite])

    answers = _answers(question, x, sampled)
    if len(answers) < CHECKED_STATES // 8:
        return []
    return [kind for kind, holds in zip(("additive", "diagonal"), np.atleast_1d(answers.all(0)), strict=True) if holds]


def commutes_in_directions(g: Callable[[Any, Array, Any], Any], x: Array, sampled: tuple[Any, Any]) -> bool:
    """Whether ∂(g b)/∂x (g a) = ∂(g a)/∂x (g b) for random a and b."""

    def question(t, x, other, p, z):
        a, b = jnp.cos(1e3 * z[:, :1] * (1 + jnp.arange(g(t, x, p).shape[1])))

        def along(c, d):
            return jax.jvp(lambda x: g(t, x, p) @ c, (x,), (g(t, x, p) @ d,))[1]

        one, two = along(b, a), along(a, b)
        finite = jnp.isfinite(one).all() & jnp.isfinite(two).all()
        noise = jnp.stack([g(t, x, p) @ a, g(t, x, p) @ b])
        return jnp.stack([are_equal_in_units(one, two, jnp.abs(noise).max(0), jnp), finite])

    answers = _answers(question, x, sampled)
    return len(answers) >= CHECKED_STATES // 8 and bool(answers.all())


def checked_kinds(values: np.ndarray, slopes: np.ndarray) -> list[str]:
    """Which of "additive" and "diagonal" hold for g (states, n, m) and ∂g/∂x (states, n, m, n) in many states."""
    return _kinds(values, slopes) if len(values) >= CHECKED_STATES // 8 else []


def _kinds(values: np.ndarray, slopes: np.ndarray) -> list[str]:
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
    """Whether Σ_l (∂g_ik/∂x_l) g_lj is symmetric in k and j, to COMMUTES of its terms in units of the noise in each
    component."""
    return len(values) >= CHECKED_STATES // 8 and _commute(values, slopes)


def _commute(values: np.ndarray, slopes: np.ndarray) -> bool:
    unit = _or_one(np.abs(values).max((0, 2), initial=0.0), np)[:, None, None]
    return all(_commutes_at(*point, unit) for point in zip(values, slopes, strict=True))


def _commutes_at(values: np.ndarray, slopes: np.ndarray, unit: np.ndarray) -> bool:
    """Whether noise commutes in a state, for some channels k at a time: all pairs of many channels take much memory."""
    apart, largest = 0.0, 0.0
    for first in range(0, values.shape[1], PAIRED):
        some = slice(first, first + PAIRED)
        swapped = np.swapaxes(slopes @ values[:, some], 1, 2)
        apart = np.maximum(apart, (np.abs(slopes[:, some] @ values - swapped) / unit).max())
        largest = np.maximum(largest, (np.abs(slopes[:, some]) @ np.abs(values) / unit).max())
    return bool(apart <= COMMUTES * largest)


def are_equal_in_units(one: Any, two: Any, noise: Any, xp: Any) -> Any:
    """Whether two changes of the noise (n,) are equal, relative to the largest in units of the noise (n,) in each
    component: components in small units count as much as others."""
    unit = _or_one(noise, xp)
    return (xp.abs(one - two) / unit <= COMMUTES * xp.max(xp.abs(one) / unit)).all()


def _or_one(size: Any, xp: Any) -> Any:
    return xp.where(size > 0.0, size, 1.0)
