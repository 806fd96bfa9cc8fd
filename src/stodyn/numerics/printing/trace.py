"""How traces are read: the one walk through their equations, and what stands inside them.

Whoever asks something of a trace gives the answer for one operation and for one number written in it:

    results = interpret(closed, inputs, apply, literal)      # apply(equation, values) -> a value for each result

A value may be anything: an array, a node of a graph, what is known of an array. Functions that a trace calls are
opened.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax.extend import core

Equation = Any  # jax.extend.core.JaxprEqn
Of = TypeVar("Of")

WHOLE = "call_hi_primitive"  # from JAX 0.11 on, which so keeps custom_root in a trace, and from 0.12 on searchsorted
INLINED = {
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
    "custom_vmap_call", "checkpoint", "remat2", "eval_jaxpr",
}  # fmt: skip
CALLS = INLINED | {WHOLE}


def _branch_for_all(platforms: Sequence[Sequence[str] | None]) -> int:
    """The branch of a function written for each platform apart that is for all others, or for processors."""
    return next((k for k, those in enumerate(platforms) if those is None or "cpu" in those), 0)


def interpret(
    trace: core.ClosedJaxpr | core.Jaxpr,
    inputs: Sequence[Of],
    apply: Callable[[Equation, list[Of]], Sequence[Of]],
    literal: Callable[[Any], Of],
    calls: set[str] = CALLS,
) -> list[Of]:
    """The values of a trace's outputs for those of its inputs.

    `apply` gives the values of an operation's results, `literal` that of a number or captured array in the trace, and
    `calls` names the operations that are opened: the trace they hold is walked in their place.
    """
    jaxpr, captured = (trace.jaxpr, trace.consts) if isinstance(trace, core.ClosedJaxpr) else (trace, ())
    values: dict[Any, Of] = dict(zip(jaxpr.invars, inputs, strict=True))
    values.update(zip(jaxpr.constvars, map(literal, captured), strict=True))

    def read(variable: Any) -> Of:
        return literal(literal_value(variable)) if isinstance(variable, core.Literal) else values[variable]

    for equation in jaxpr.eqns:
        operands = [read(variable) for variable in equation.invars]
        name, params = equation.primitive.name, equation.params
        if name in calls:
            results: Sequence[Of] = interpret(inner_of(equation), operands, apply, literal, calls)
        elif name == "platform_index":
            results = [literal(np.int32(_branch_for_all(params["platforms"])))]
        elif name == "cond" and params.get("branches_platforms") is not None:
            branch = params["branches"][_branch_for_all(params["branches_platforms"])]
            results = interpret(branch, operands[1:], apply, literal, calls)
        else:
            results = apply(equation, operands)
        values.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def literal_value(literal: Any) -> np.ndarray:
    """The number written in a trace in place of a variable, in its own dtype."""
    return np.asarray(literal.val, literal.aval.dtype)


def inner_of(equation: Equation) -> Any:
    """The trace that an equation holds in place of an operation."""
    if equation.primitive.name == WHOLE:
        return opened(equation)
    return next(equation.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call") if key in equation.params)


def opened(equation: Equation) -> core.ClosedJaxpr:
    """The trace of an operation that a trace holds as a whole."""
    return _opened(_Itself(equation.params["_prim"]))


class _Itself:
    """An operation that is equal to itself alone: to JAX it is equal to that of other operands, or has no hash."""

    def __init__(self, operation: Any):
        self.operation = operation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.operation is other.operation

    def __hash__(self) -> int:
        return id(self.operation)


@functools.lru_cache(maxsize=256)
def _opened(itself: _Itself) -> core.ClosedJaxpr:
    operation = itself.operation

    def flat(*arguments):
        return jax.tree.leaves(operation.expand(*jax.tree.unflatten(operation.in_tree, arguments)))

    with jax.enable_x64(True):  # the trace has the dtypes it has, whatever the caller's are
        shapes = (jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in operation.in_avals_flat)
        return jax.make_jaxpr(flat)(*shapes)


def applies_a_function(name: str, params: Mapping[str, Any]) -> bool:
    """Whether an operation is a scatter that puts a function of the old entries in their places: x.at[k].apply(f)."""
    return name == "scatter" and params.get("update_jaxpr") is not None


def scan_sizes(params: Mapping[str, Any], inputs: int) -> tuple[int, int]:
    """How many of a scan's inputs are constants, and how many it carries."""
    if "num_consts" in params:  # before JAX 0.11
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].update(range(inputs)).unpack()
    return len(list(consts)), len(list(carry))


def traces_inside(equation: Equation) -> list[core.ClosedJaxpr]:
    """The functions, branches and loop bodies inside an equation."""
    if equation.primitive.name == WHOLE:
        return [opened(equation)]
    return [
        value if isinstance(value, core.ClosedJaxpr) else core.ClosedJaxpr(value, ())
        for parameter in equation.params.values()
        for value in (parameter if isinstance(parameter, (tuple, list)) else (parameter,))
        if isinstance(value, (core.ClosedJaxpr, core.Jaxpr))
    ]


def inner_traces(jaxpr: core.Jaxpr) -> list[core.ClosedJaxpr]:
    """The functions, branches and loop bodies inside a trace's equations."""
    return list(itertools.chain.from_iterable(map(traces_inside, jaxpr.eqns)))


def equations_of(jaxpr: core.Jaxpr) -> Iterator[Equation]:
    """The equations of a trace, and those of its inner functions and loop bodies (a loop body once)."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in traces_inside(equation):
            yield from equations_of(inner.jaxpr)


def count_operations(jaxpr: core.Jaxpr) -> int:
    """How many operations on arrays a trace has, those of its inner functions and loop bodies included."""
    return sum(not traces_inside(equation) for equation in equations_of(jaxpr))
