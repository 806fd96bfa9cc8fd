"""The step, the start and the reading of a method on a problem, as JAX traces for one path."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend import core
from jax.interpreters import partial_eval

from stodyn.engine.failure import LEFT, UNFIT, UNSOLVED
from stodyn.methods.contract import Method, Report
from stodyn.numerics.printing.fingerprints import fingerprint, holds, without_prints
from stodyn.numerics.printing.flat import scalar_operations
from stodyn.numerics.printing.operations import inner_traces
from stodyn.numerics.printing.unprintable import or_else
from stodyn.problems.contract import Fitness, Problem, TracedFunction, innermost


@dataclasses.dataclass(frozen=True)
class Traced:
    """A step, a start and a reading of one path, as JAX traces over flat lists of arrays.

    step      (t, h, *state, *normals, *params) -> (*state, ok, iterations, rounded); a state whose step failed is NaN
    names_causes  whether a step also gives, before `ok`, why it failed (engine.failure)
    start     (t, x, *params) -> state
    read      state -> x
    starting  (k, t, h, ...) -> the same as step, for the first `starting_steps` steps k; None where there are none
    state_shapes, state_dtypes  of the arrays of a state; `leaves` makes them of its scalars
    leading   how many of the state's arrays have the same bits with or without the others
    """

    step: core.ClosedJaxpr
    start: core.ClosedJaxpr
    read: core.ClosedJaxpr
    starting: core.ClosedJaxpr | None
    starting_steps: int
    streams: tuple[tuple[str, int], ...]
    state_shapes: tuple[tuple[int, ...], ...]
    state_dtypes: tuple[Any, ...]
    params_tree: Any
    leading: int
    names_causes: bool = False

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of the step."""
        return fingerprint(self.step) + ("" if self.starting is None else fingerprint(self.starting))

    @functools.cached_property
    def fingerprints(self) -> tuple[str, str, str]:
        """The fingerprints of the step, the start and the reading."""
        return self.fingerprint, fingerprint(self.start), fingerprint(self.read)

    @functools.cached_property
    def unprintable(self) -> str | None:
        """Why it cannot be printed, where that is known from the start; else None."""
        if holds(self.step, "lu"):
            return "primitive lu: a linear solve that is not written out goes to LAPACK"
        return None

    @functools.cached_property
    def operations(self) -> int:
        """The operations of a step on scalars, by the shapes in its trace."""
        return scalar_operations(self.step)

    @property
    def silent(self) -> Traced:
        """The same without the prints of the user's functions."""
        parts = {name: without_prints(getattr(self, name)) for name in ("step", "start", "read")}
        starting = None if self.starting is None else without_prints(self.starting)
        return dataclasses.replace(self, **parts, starting=starting)

    def leaves(self, scalars: Any) -> list[Any]:
        """The arrays of a state from its scalars, which may have further axes, as of paths."""
        sizes = [int(np.prod(shape)) for shape in self.state_shapes]
        parts = zip(np.cumsum(sizes), sizes, self.state_shapes, self.state_dtypes, strict=True)
        return [
            scalars[end - size : end].reshape((*shape, *scalars.shape[1:])).astype(dtype)
            for end, size, shape, dtype in parts
        ]

    @property
    def may_round(self) -> bool:
        """Whether a step may be solved no better than rounding allows."""
        return not isinstance(self.step.jaxpr.outvars[-1], core.Literal)

    @functools.cached_property
    def rounded_constants(self) -> list[str]:
        """The float32 arrays in the step that may have lost digits, in words."""
        return [str(constant) for constant in single_precision_constants(self.step)]


@dataclasses.dataclass(frozen=True)
class Fit:
    """Which states a problem as the user wrote it allows, asked of the state after each step.

    n  components of the problem as the method steps it
    """

    fitness: Fitness
    n: int

    def fails(self, t: Array, shown: Array, params: Any) -> Array:
        """Whether a path that a method shows like this is finite, not stopped, and in a state that is not allowed."""
        is_going: Any = shown[-1] == 0 if len(shown) > self.n else True
        x = shown[: self.n]
        return is_going & jnp.all(jnp.isfinite(x)) & ~self.fitness.allows(t, x, params)


def trace(problem: Any, method: Method, dtype: Any = np.float64, fit: Fit | None = None) -> Traced:
    """Trace the three functions of a method on a problem."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, number_type(leaf, dtype)), problem.example_params())
    leaves: list[Any]
    tree: Any
    leaves, tree = jax.tree.flatten(params)
    x, t = np.zeros(problem.n, dtype), np.zeros((), dtype)  # in NumPy: JAX would compile each zero
    counts = method.needs.normals(problem.m)
    streams = tuple((name, count) for name, count in counts.items() if count)

    def start(t: Array, x: Array, *flat_params: Array) -> Any:
        return method.start(problem, t, x, tree.unflatten(flat_params))

    begun, start_shape = jax.make_jaxpr(start, return_shape=True)(t, x, *leaves)
    state_tree: Any
    state_leaves, state_tree = jax.tree.flatten(start_shape)

    def step(t: Array, h: Array, *rest: Array) -> tuple[Array, ...]:
        return stepped(method.step, t, h, rest)

    def starting(k: Array, t: Array, h: Array, *rest: Array) -> tuple[Array, ...]:
        return stepped(functools.partial(method.starting_step, k), t, h, rest)

    def stepped(step: Callable[..., Any], t: Array, h: Array, rest: tuple[Array, ...]) -> tuple[Array, ...]:
        state = state_tree.unflatten(rest[: len(state_leaves)])
        rest = rest[len(state_leaves) :]
        normals = {name: jnp.zeros(count, dtype) for name, count in counts.items() if not count}
        normals |= dict(zip((name for name, _ in streams), rest, strict=False))
        noise = method.needs.increment(h, normals, problem.m)
        outcome = step(problem, t, state, noise, tree.unflatten(rest[len(streams) :]))
        after, report = _checked(method, outcome, start_shape)
        cause = []
        if fit is not None:
            is_unfit = report.ok & fit.fails(t + h, method.read(after), tree.unflatten(rest[len(streams) :]))
            cause = [jnp.where(is_unfit, UNFIT, jnp.where(report.ok, LEFT, UNSOLVED)).astype(np.int32)]
            report = report._replace(ok=report.ok & ~is_unfit)
        if report.ok is not True:
            after = jax.tree.map(lambda s: jnp.where(report.ok, s, jnp.nan) if _is_real(s) else s, after)
        flat = [jnp.asarray(a, s.dtype) for a, s in zip(jax.tree.leaves(after), state_leaves, strict=True)]
        flat += cause
        return *flat, jnp.asarray(report.ok), jnp.asarray(report.iterations, np.int32), jnp.asarray(report.rounded)

    def read(*state: Array) -> Array:
        return jnp.asarray(method.read(state_tree.unflatten(state)), dtype)

    normals = [np.zeros(count, dtype) for _, count in streams]
    inputs = (t, t, *state_leaves, *normals, *leaves)
    return Traced(
        _without_dead_code(jax.make_jaxpr(step)(*inputs)),
        begun,
        jax.make_jaxpr(read)(*state_leaves),
        jax.make_jaxpr(starting)(np.zeros((), np.int32), *inputs) if method.starting_steps else None,
        method.starting_steps,
        streams,
        tuple(leaf.shape for leaf in state_leaves),
        tuple(leaf.dtype for leaf in state_leaves),
        tree,
        len(jax.tree.leaves(method.leading(start_shape))),
        fit is not None,
    )


def jump_trace(problem: Any, method: Method, dtype: Any = np.float64) -> core.ClosedJaxpr:
    """The trace (t, *state, *params) -> state of what a method does where an input among the params has jumped."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, number_type(leaf, dtype)), problem.example_params())
    leaves: list[Any]
    tree: Any
    leaves, tree = jax.tree.flatten(params)
    t = np.zeros((), dtype)
    state = jax.eval_shape(functools.partial(method.start, problem), t, np.zeros(problem.n, dtype), params)
    state_leaves: list[Any]
    state_tree: Any
    state_leaves, state_tree = jax.tree.flatten(state)

    def jumped(t: Array, *rest: Array) -> list[Array]:
        before, own = rest[: len(state_leaves)], rest[len(state_leaves) :]
        after = method.after_jump(problem, t, state_tree.unflatten(before), tree.unflatten(own))
        return [jnp.asarray(a, s.dtype) for a, s in zip(jax.tree.leaves(after), state_leaves, strict=True)]

    return jax.make_jaxpr(jumped)(t, *state_leaves, *leaves)


def _checked(method: Method, outcome: Any, state: Any) -> tuple[Any, Report]:
    """The results of a step; raises an error in the words of someone who writes a method."""
    if not (isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], Report)):
        kinds = (
            ", ".join(type(part).__name__ for part in outcome) if isinstance(outcome, tuple) else type(outcome).__name__
        )
        raise TypeError(f"method: {method.name}.step must return (state, Report(...)), but returns {kinds}")
    shapes = [jax.tree.map(lambda x: np.shape(x), tree) for tree in (outcome[0], state)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"method: {method.name}.start gives a state of shape {shapes[1]}, but step one of {shapes[0]}")
    return outcome


def _without_dead_code(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The trace without operations that no output needs: integrals that a recipe offers but the method does not use."""
    jaxpr: Any = closed.jaxpr
    needed, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return core.ClosedJaxpr(needed, closed.consts)


def number_type(leaf: Any, dtype: Any) -> Any:
    """The dtype a parameter has in a run: the run's own for real numbers, its own for integers."""
    own = np.result_type(leaf) if not hasattr(leaf, "dtype") else leaf.dtype
    return dtype if np.issubdtype(own, np.floating) else own


def _is_real(x: Any) -> bool:
    return jnp.issubdtype(jnp.asarray(x).dtype, jnp.inexact)


@or_else(lambda closed: [])
def single_precision_constants(closed: core.ClosedJaxpr) -> list[Any]:
    """The float32 arrays a trace has captured that may have lost digits."""
    constants = [c for c in closed.consts if was_rounded(c)]
    for inner in inner_traces(closed.jaxpr):
        constants += single_precision_constants(inner)
    return constants


def was_rounded(x: Any) -> bool:
    """Whether x is float32 and holds more than short numbers such as 1 or 0.5, which are exact in any precision."""
    if getattr(x, "dtype", None) != np.float32:
        return False
    x = np.asarray(x)
    with np.errstate(over="ignore"):
        return not np.array_equal(x, x.astype(np.float16))


def with_article(name: str) -> str:
    """Return the name of a function as it stands in a sentence: "the drift", but "H"."""
    return name if len(name) == 1 else f"the {name}"


def traced_functions_of(problem: Any, path: str = "") -> dict[str, TracedFunction]:
    """The traces of the functions of a problem, by the names of its fields; "problem.drift" is the drift of
    the problem that another is made of. For problems that keep no traces of their own, f and g."""
    traced_functions = {path + name: look for name, look in problem.traced_functions.items()}
    for field in dataclasses.fields(problem) if dataclasses.is_dataclass(problem) else ():
        value = getattr(problem, field.name)
        if isinstance(value, Problem):
            traced_functions |= traced_functions_of(value, f"{path}{field.name}.")
    if not traced_functions:
        functions, arguments = _functions(problem)
        traced = dict(function_traces(problem))
        traced_functions = {
            path + name: TracedFunction(function, arguments, traced[name]) for name, function in functions.items()
        }
    return traced_functions


def traced_anew(problem: Any) -> dict[str, TracedFunction]:
    """The traces of the functions of a problem as they are now."""
    functions = traced_functions_of(problem)
    return {name: dataclasses.replace(look, trace=look.trace_again()) for name, look in functions.items()}


def function_traces(problem: Any) -> list[tuple[str, core.ClosedJaxpr]]:
    """The functions f and g of a problem as traces, by name; a problem that is made of another has that one's."""
    with jax.enable_x64(True):
        functions, arguments = _functions(problem)
        return [(name, jax.make_jaxpr(function)(*arguments)) for name, function in functions.items()]


def _functions(problem: Any) -> tuple[dict[str, Callable[..., Any]], tuple[Any, ...]]:
    """f and g, those that there are, and arguments to trace them with."""
    problem = innermost(problem)
    arguments = np.zeros(()), np.asarray(problem.example_start()), problem.example_params()
    return {name: getattr(problem, name) for name in "fg" if hasattr(problem, name)}, arguments
