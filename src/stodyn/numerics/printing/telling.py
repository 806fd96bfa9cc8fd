"""What a trace says: a digest of it, and whether it holds some operation."""

from __future__ import annotations

import hashlib
import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core

from stodyn.numerics.printing.scalars import WHOLE, inner_traces, literal_value, opened

_host_functions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_unweak_functions: dict[int, tuple[Any, int]] = {}  # those that Python cannot refer to weakly, such as NumPy's
_numbers = itertools.count()


def _host_number(function: Any) -> int:
    try:
        return _host_functions.setdefault(function, next(_numbers))
    except TypeError:
        return _unweak_functions.setdefault(id(function), (function, next(_numbers)))[1]


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
                take_array(literal_value(variable))
            else:
                take(numbers[variable])

        for equation in jaxpr.eqns:
            take(equation.primitive.name)
            for variable in equation.invars:
                operand(variable)
            if equation.primitive.name == WHOLE:
                whole = opened(equation)
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
            take(_host_number(getattr(value, "callback_func", value)))
        elif not callable(value) or isinstance(value, type):
            take(value)  # other callables (derivative rules) are not run; what is run is in the traces

    walk(closed.jaxpr, closed.consts)
    return digest.hexdigest()


def calls_host(closed: core.ClosedJaxpr) -> bool:
    """Whether a trace calls back to Python."""
    return any("callback" in equation.primitive.name for equation in closed.jaxpr.eqns) or any(
        map(calls_host, inner_traces(closed.jaxpr))
    )


def holds(closed: core.ClosedJaxpr, name: str) -> bool:
    """Whether there is a primitive or a compiled function of that name in a trace."""
    here = any(name in (e.primitive.name, e.params.get("name")) for e in closed.jaxpr.eqns)
    return here or any(holds(inner, name) for inner in inner_traces(closed.jaxpr))
