"""A step for one path -> the same step on a block of paths, in lanes or by jax.vmap."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
import weakref
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend import core
from jax.interpreters import partial_eval

from stodyn.methods.contract import Method, Report
from stodyn.numerics import lanes
from stodyn.numerics.elimination import ELIMINATION

LANE_OPERATIONS = 1500  # beyond this many scalar operations a step compiles slowly and runs faster under vmap
ELIMINATING_OPERATIONS = 6000  # the same for steps that eliminate small systems, which run faster in lanes
WORTH_COMPILING = 3_000_000  # path-steps, above which that saves more time than compiling them takes


@dataclasses.dataclass(frozen=True)
class Traced:
    """A step, a start and a reading of one path, as JAX traces over flat lists of arrays.

    step      (t, h, *state, *normals, *params) -> (*state, ok, iterations); a state whose step failed is NaN
    start     (t, x, *params) -> state
    read      state -> x
    starting  (k, t, h, ...) -> the same as step, for the first `starting_steps` steps k; None where there are none
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

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of the step."""
        return fingerprint(self.step) + ("" if self.starting is None else fingerprint(self.starting))

    @functools.cached_property
    def fingerprints(self) -> tuple[str, str, str]:
        """Of the step, the start and the reading."""
        return self.fingerprint, fingerprint(self.start), fingerprint(self.read)

    @functools.cached_property
    def rounded_constants(self) -> list[str]:
        """Descriptions of the float32 arrays in the step that may have lost digits."""
        return single_precision_constants(self.step)


def trace(problem, method: Method, dtype=np.float64) -> Traced:
    """Trace the three functions of a method on a problem."""
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, number_type(leaf, dtype)), problem.example_params())
    leaves: list[Any]
    tree: Any
    leaves, tree = jax.tree.flatten(params)
    x, t = jnp.zeros(problem.n, dtype), jnp.zeros((), dtype)
    counts = method.needs.normals(problem.m)
    streams = tuple((name, count) for name, count in counts.items() if count)
    start_shape = jax.eval_shape(lambda t, x, *p: method.start(problem, t, x, tree.unflatten(p)), t, x, *leaves)
    state_tree: Any
    state_leaves, state_tree = jax.tree.flatten(start_shape)

    def start(t, x, *flat_params):
        return jax.tree.leaves(method.start(problem, t, x, tree.unflatten(flat_params)))

    def step(t, h, *rest):
        return stepped(method.step, t, h, rest)

    def starting(k, t, h, *rest):
        return stepped(functools.partial(method.starting_step, k), t, h, rest)

    def stepped(step, t, h, rest):
        state = state_tree.unflatten(rest[: len(state_leaves)])
        rest = rest[len(state_leaves) :]
        normals = {name: jnp.zeros(count, dtype) for name, count in counts.items() if not count}
        normals |= dict(zip((name for name, _ in streams), rest, strict=False))
        noise = method.needs.increment(h, normals, problem.m)
        found = step(problem, t, state, noise, tree.unflatten(rest[len(streams) :]))
        after, report = _checked(method, found, start_shape)
        if report.ok is not True:
            after = jax.tree.map(lambda s: jnp.where(report.ok, s, jnp.nan) if _is_real(s) else s, after)
        flat = [jnp.asarray(a, s.dtype) for a, s in zip(jax.tree.leaves(after), state_leaves, strict=True)]
        return *flat, jnp.asarray(report.ok), jnp.asarray(report.iterations, np.int32)

    def read(*state):
        return jnp.asarray(method.read(state_tree.unflatten(state)), dtype)

    normals = [jnp.zeros(count, dtype) for _, count in streams]
    inputs = (t, t, *state_leaves, *normals, *leaves)
    return Traced(
        _without_dead_code(jax.make_jaxpr(step)(*inputs)),
        jax.make_jaxpr(start)(t, x, *leaves),
        jax.make_jaxpr(read)(*state_leaves),
        jax.make_jaxpr(starting)(jnp.zeros((), np.int32), *inputs) if method.starting_steps else None,
        method.starting_steps,
        streams,
        tuple(leaf.shape for leaf in state_leaves),
        tuple(leaf.dtype for leaf in state_leaves),
        tree,
    )


def _checked(method: Method, found: Any, state: Any) -> tuple[Any, Report]:
    """What a step returned, or an error in the words of someone who writes a method."""
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Report)):
        kinds = ", ".join(type(part).__name__ for part in found) if isinstance(found, tuple) else type(found).__name__
        raise TypeError(f"method: {method.name}.step must return (state, Report(...)), and returns {kinds}")
    shapes = [jax.tree.map(lambda x: np.shape(x), tree) for tree in (found[0], state)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"method: {method.name}.start gives a state of shape {shapes[1]}, and step one of {shapes[0]}")
    return found


def _without_dead_code(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The trace without what no output needs: integrals a recipe offers and the method does not use."""
    jaxpr: Any = closed.jaxpr
    needed, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return core.ClosedJaxpr(needed, closed.consts)


def number_type(leaf: Any, dtype: Any) -> Any:
    """The dtype a parameter has in a run: the run's own for real numbers, its own for integers."""
    found = np.result_type(leaf) if not hasattr(leaf, "dtype") else leaf.dtype
    return dtype if np.issubdtype(found, np.floating) else found


def _is_real(x: Any) -> bool:
    return jnp.issubdtype(jnp.asarray(x).dtype, jnp.inexact)


@dataclasses.dataclass(frozen=True)
class Lanes:
    """One array over the paths for each scalar: a block's carry is the flat tuple of its state's scalars."""

    traced: Traced
    paths: int
    on_gpu: bool = False
    name = "lanes"

    def pack(self, leaves: Sequence[Array]) -> tuple[Array, ...]:
        """State leaves with a last axis of paths -> carry."""
        return tuple(entry for x in leaves for entry in lanes.unstack(x, x.ndim - 1).ravel())

    def step(self, carry, t, h, normals, params, varies, k=None):
        """(carry, ok, iterations) after a step, or after starting step k; the last two may be known while tracing."""
        params = [lanes.unstack(p, p.ndim - v) for p, v in zip(params, varies, strict=True)]
        return self.step_of_entries(carry, t, h, [lanes.unstack(z, 1) for z in normals], params, k)

    def step_of_entries(self, carry, t, h, normals: Sequence[np.ndarray], params: Sequence[np.ndarray], k=None):
        """The same from normals and parameters that are object arrays of a path's own shape already."""
        state = lanes.unflatten(carry, self.traced.state_shapes)
        common = (t, h) if k is None else (k, t, h)
        arguments = [*(lanes.unstack(c, 0) for c in common), *state, *normals, *params]
        traced: Any = self.traced.step if k is None else self.traced.starting
        *after, ok, iterations = lanes.evaluate(traced, arguments, self.paths, self.on_gpu)
        full = tuple(
            lanes.spread(entry, (self.paths,), dtype)
            for x, dtype in zip(after, self.traced.state_dtypes, strict=True)
            for entry in x.ravel()
        )
        return full, ok[()], iterations[()]

    def read(self, carry) -> Array:
        """The components (n, paths)."""
        state = lanes.unflatten(carry, self.traced.state_shapes)
        (x,) = lanes.evaluate(self.traced.read, state, self.paths, self.on_gpu)
        return lanes.stack(x, self.traced.read.out_avals[0].dtype, self.paths)


@dataclasses.dataclass(frozen=True)
class Vmap:
    """jax.vmap over the last axis: a block's carry is the tuple of its state's leaves."""

    traced: Traced
    paths: int
    name = "vmap"

    def pack(self, leaves: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(leaves)

    def step(self, carry, t, h, normals, params, varies, k=None):
        common, traced = ((t, h), self.traced.step) if k is None else ((k, t, h), self.traced.starting)
        axes = (*(None for _ in common), *(-1 for _ in (*carry, *normals)), *(-1 if v else None for v in varies))
        function = jax.vmap(core.jaxpr_as_fun(traced), in_axes=axes, out_axes=-1, axis_size=self.paths)
        *after, ok, iterations = function(*common, *carry, *normals, *params)
        return tuple(after), ok, iterations

    def read(self, carry) -> Array:
        return jax.vmap(core.jaxpr_as_fun(self.traced.read), in_axes=-1, out_axes=-1, axis_size=self.paths)(*carry)[0]


def executor(
    traced: Traced, paths: int, wanted: str = "auto", path_steps: float = math.inf
) -> tuple[Lanes | Vmap, str]:
    """The way to run a block and the reason for it; `wanted` is "auto", "lanes" or "vmap".

    path_steps  of the whole run: tells how long compiling may take
    """
    if wanted == "vmap":
        return Vmap(traced, paths), "asked for"
    is_long = path_steps >= WORTH_COMPILING
    try:
        _check_laned(traced)
        eliminates = _holds(traced.step, ELIMINATION)
        entries = lanes.count_entries(traced.step.jaxpr) if eliminates and not is_long else 0
        if wanted == "auto" and entries > 2 * LANE_OPERATIONS:  # to take it apart and count would take a second
            return Vmap(traced, paths), f"about {entries} scalar operations a step, under {WORTH_COMPILING} path-steps"
        operations = lane_operations(traced)
    except lanes.Unlaned as reason:
        if wanted == "lanes":
            raise ValueError(f'executor="lanes" is not possible for this problem and method: {reason}') from reason
        return Vmap(traced, paths), str(reason)
    if wanted == "lanes":
        return Lanes(traced, paths), "asked for"
    most = ELIMINATING_OPERATIONS if is_long and eliminates else LANE_OPERATIONS
    if operations > most:
        return Vmap(traced, paths), f"{operations} scalar operations a step, more than {most}"
    return Lanes(traced, paths), f"{operations} scalar operations a step"


def _check_laned(traced: Traced) -> None:
    """Refuse what lanes cannot do, and would find out only after all that stands before it."""
    if _holds(traced.step, "lu"):
        raise lanes.Unlaned("primitive lu: a linear solve that is not written out goes to LAPACK")
    if _holds(traced.step, "custom_vmap_call"):
        raise lanes.Unlaned("sparse elimination takes the numbers of all paths row by row")


def _holds(closed: core.ClosedJaxpr, name: str) -> bool:
    """Whether there is a primitive or a compiled function of that name in a trace."""
    here = any(name in (e.primitive.name, e.params.get("name")) for e in closed.jaxpr.eqns)
    return here or any(_holds(inner, name) for inner in lanes.inner_traces(closed.jaxpr))


_operations: dict[str, int] = {}


def lane_operations(traced: Traced) -> int:
    """How many scalar operations a step takes in lanes."""
    key = traced.fingerprint
    if key not in _operations:
        _operations[key] = _count_lane_operations(traced)
    return _operations[key]


def _count_lane_operations(traced: Traced) -> int:
    if traced.starting is not None:
        _laned(traced.starting, common=3)  # raises Unlaned where it must
    return lanes.count_equations(_laned(traced.step, common=2))


def _laned(trace: core.ClosedJaxpr, common: int) -> Any:
    """The scalar operations of a step; its first inputs (t and h) are scalars common to all paths."""

    def scalars(*flat):
        inputs = lanes.unflatten(flat, [v.aval.shape for v in trace.jaxpr.invars])
        outputs = lanes.evaluate(trace, inputs, 1)
        return [entry for x in outputs for entry in x.ravel() if not lanes.is_known(entry)]

    examples = [
        jax.ShapeDtypeStruct(() if k < common else (1,), variable.aval.dtype)
        for k, variable in enumerate(trace.jaxpr.invars)
        for _ in range(int(np.prod(variable.aval.shape)))
    ]
    return jax.make_jaxpr(scalars)(*examples).jaxpr


_host_functions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_numbers = itertools.count()


def fingerprint(closed: core.ClosedJaxpr) -> str:
    """A digest of a trace and of every constant in it: equal for two functions that say the same."""
    digest = hashlib.sha256()

    def take(*words: Any) -> None:
        digest.update(repr(words).encode())

    def take_array(array: np.ndarray) -> None:
        take(str(array.dtype), array.shape)
        digest.update(array.tobytes())

    def walk(jaxpr: Any, consts: Sequence[Any]) -> None:
        numbers: dict[Any, int] = {}
        for const in consts:
            take_array(np.asarray(const))
        for variable in (*jaxpr.constvars, *jaxpr.invars):
            take(numbers.setdefault(variable, len(numbers)), str(variable.aval))

        def operand(variable: Any) -> None:
            if isinstance(variable, core.Literal):
                take_array(lanes.literal_value(variable))
            else:
                take(numbers[variable])

        for equation in jaxpr.eqns:
            take(equation.primitive.name)
            for variable in equation.invars:
                operand(variable)
            if equation.primitive.name == lanes.WHOLE:
                whole = lanes.opened(equation)
                walk(whole.jaxpr, whole.consts)
            else:
                for name, value in sorted(equation.params.items()):
                    parameter(name, value)
            for variable in equation.outvars:
                take(numbers.setdefault(variable, len(numbers)), str(variable.aval))
        for variable in jaxpr.outvars:
            operand(variable)

    def parameter(name: str, value: Any) -> None:
        take(name)
        if isinstance(value, core.ClosedJaxpr):
            walk(value.jaxpr, value.consts)
        elif isinstance(value, core.Jaxpr):
            walk(value, ())
        elif isinstance(value, (tuple, list)):
            for entry in value:
                parameter("", entry)
        elif name == "callback":  # what a host function does is not in the trace: two are told apart by themselves
            take(_host_functions.setdefault(getattr(value, "callback_func", value), next(_numbers)))
        elif not callable(value) or isinstance(value, type):
            take(value)  # other callables (derivative rules) are not run; what is run is in the traces

    walk(closed.jaxpr, closed.consts)
    return digest.hexdigest()


def single_precision_constants(closed: core.ClosedJaxpr) -> list[str]:
    """Descriptions of the float32 arrays a trace has captured that may have lost digits."""
    found = [str(c) for c in closed.consts if was_rounded(c)]
    for inner in lanes.inner_traces(closed.jaxpr):
        found += single_precision_constants(inner)
    return found


def was_rounded(x: Any) -> bool:
    """Whether x is float32 and holds more than short numbers such as 1 or 0.5, which are exact in any precision."""
    if getattr(x, "dtype", None) != np.float32:
        return False
    x = np.asarray(x)
    with np.errstate(over="ignore"):
        return not np.array_equal(x, x.astype(np.float16))
