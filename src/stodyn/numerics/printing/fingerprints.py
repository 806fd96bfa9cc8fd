"""The meaning of a trace: a digest of it, and whether it holds some operation."""

from __future__ import annotations

import functools
import hashlib
import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core

from stodyn.numerics.printing.operations import WHOLE, equations_of, function_name, opened, parameters_of
from stodyn.numerics.printing.trace import literal_value

LARGE = 100_000  # bytes of a constant that is not kept beside the others
MESH = "ctx_mesh"  # of compiled functions: the devices of the session, callable but without meaning for the digest

_host_functions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_unweak_functions: dict[int, tuple[Any, int]] = {}  # those that Python cannot refer to weakly, such as NumPy's
_numbers = itertools.count()


def _host_number(function: Any) -> int:
    try:
        return _host_functions.setdefault(function, next(_numbers))
    except TypeError:
        return _unweak_functions.setdefault(id(function), (function, next(_numbers)))[1]


@functools.cache
def named(dtype: np.dtype) -> str:
    """The name of a dtype, which NumPy is slow to put together."""
    return str(dtype)


def fingerprint(closed: core.ClosedJaxpr) -> str:
    """A digest of a trace and of every constant in it: equal for two functions that compute the same."""
    digest, parts = hashlib.sha256(), list[bytes]()
    shown: dict[Any, str] = {}  # types in words, which are slow to make

    def take(words: str) -> None:
        parts.append(words.encode())

    def take_array(array: np.ndarray) -> None:
        take(f"('{named(array.dtype)}', {array.shape})")
        parts.append(array.tobytes())
        if array.nbytes > LARGE:
            digest.update(b"".join(parts))
            parts.clear()

    def walk(jaxpr: Any, consts: Sequence[Any]) -> None:
        numbers: dict[Any, int] = {}

        def defined(variable: Any) -> None:
            kind = variable.aval
            if kind not in shown:
                shown[kind] = repr(str(kind))
            take(f"({numbers.setdefault(variable, len(numbers))}, {shown[kind]})")

        def operand(variable: Any) -> None:
            if isinstance(variable, core.Literal):
                take_array(literal_value(variable))
            else:
                take(f"({numbers[variable]},)")

        for const in consts:
            take_array(np.asarray(const))
        for variable in (*jaxpr.constvars, *jaxpr.invars):
            defined(variable)
        for equation in jaxpr.eqns:
            name = equation.primitive.name
            take(f"({name!r},)")
            for variable in equation.invars:
                operand(variable)
            if name == WHOLE:
                whole = opened(equation)
                walk(whole.jaxpr, whole.consts)
            else:
                for key, value in parameters_of(equation):
                    parameter(key, value)
            for variable in equation.outvars:
                defined(variable)
        for variable in jaxpr.outvars:
            operand(variable)

    def parameter(name: str, value: Any) -> None:
        take(f"({name!r},)")
        if value is None or isinstance(value, (int, str)):
            take(f"({value!r},)")
        elif isinstance(value, core.ClosedJaxpr):
            walk(value.jaxpr, value.consts)
        elif isinstance(value, core.Jaxpr):
            walk(value, ())
        elif isinstance(value, (tuple, list)):
            for entry in value:
                parameter("", entry)
        elif name == "callback":  # the trace does not show what a host function does: its identity stands for it
            take(f"({_host_number(getattr(value, 'callback_func', value))},)")
        elif not callable(value) or isinstance(value, type):
            take(f"({value!r},)")  # other callables (derivative rules) are not run; those that run are in the traces

    walk(closed.jaxpr, closed.consts)
    digest.update(b"".join(parts))
    return digest.hexdigest()


def says_all(closed: core.ClosedJaxpr) -> bool:
    """Whether the digest of a trace determines its derivatives too: not if it calls the host or has its own rules."""
    return not any(_has_rules(equation) or _is_callback(equation) for equation in equations_of(closed.jaxpr))


def _has_rules(equation: Any) -> bool:
    name = equation.primitive.name
    if name.startswith("custom_") or name == WHOLE:
        return True
    for key, value in parameters_of(equation):
        if callable(value) and not isinstance(value, type) and key != MESH:
            return True
    return False


def _is_callback(equation: Any) -> bool:
    return "callback" in equation.primitive.name


def calls_host(closed: core.ClosedJaxpr) -> bool:
    """Whether a trace calls back to Python."""
    return any(map(_is_callback, equations_of(closed.jaxpr)))


def holds(closed: core.ClosedJaxpr, name: str) -> bool:
    """Whether there is a primitive or a compiled function of that name in a trace."""
    return any(name in (e.primitive.name, function_name(e)) for e in equations_of(closed.jaxpr))
