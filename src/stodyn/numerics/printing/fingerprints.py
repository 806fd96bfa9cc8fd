"""The meaning of a trace: a digest of it, and whether it holds some operation."""

from __future__ import annotations

import functools
import hashlib
import itertools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from stodyn.numerics.printing.operations import (
    WHOLE,
    Operation,
    equations_of,
    function_name,
    opened,
    parameters_of,
    with_traces,
)
from stodyn.numerics.printing.trace import literal_value
from stodyn.numerics.printing.unprintable import or_else

UNKNOWN = "unknown"  # begins the digest of a trace that could not be taken in
LARGE = 100_000  # bytes of a constant that is not kept beside the others
PRINTS = ("debug_print", "debug_callback")  # the operations of jax.debug.print and jax.debug.callback
MESH = "ctx_mesh"  # of compiled functions: the devices of the session, callable but without meaning for the digest

_host_functions: dict[int, tuple[Callable[[], Any], int]] = {}  # by id: what refers to each, and its number
_numbers = itertools.count()


def _host_number(function: Any) -> Any:
    """A number for each callable object, and a pair of them for a bound method, which Python makes anew at every use.

    Two objects that compare equal are two: they may differ in what comparison leaves out, or be changed later on.
    """
    if isinstance(function, types.MethodType):
        return _host_number(function.__self__), _host_number(function.__func__)
    key = id(function)
    refer, number = _host_functions.get(key, (lambda: None, -1))
    if refer() is not function:
        try:
            refer = weakref.ref(function, lambda _: _host_functions.pop(key, None))
        except TypeError:  # of those that Python cannot refer to weakly, such as NumPy's, the object itself is kept
            refer = lambda: function  # noqa: E731
        number = next(_numbers)
        _host_functions[key] = refer, number
    return number


@functools.cache
def named(dtype: np.dtype) -> str:
    """The name of a dtype, which NumPy is slow to put together."""
    return str(dtype)


def _no_digest(closed: core.ClosedJaxpr) -> str:
    """A digest like no other."""
    return f"{UNKNOWN} {next(_numbers)}"


@or_else(_no_digest)
def fingerprint(closed: core.ClosedJaxpr) -> str:
    """A digest of a trace and of every constant in it: equal for two functions that compute the same."""
    return _Digest().of(closed)


def are_known_to_differ(first: core.ClosedJaxpr, second: core.ClosedJaxpr) -> bool:
    """Whether two traces have different digests, both of them known."""
    digests = fingerprint(first), fingerprint(second)
    return digests[0] != digests[1] and not any(digest.startswith(UNKNOWN) for digest in digests)


def digest_of(operation: Operation) -> str:
    """A digest of an operation: equal for two that compute the same from the same operands."""
    digest = _Digest()
    digest.take(f"{operation.name!r} {list(map(str, operation.outs))}")
    for name, value in operation.parameters:
        digest.take_parameter(name, value)
    return digest.ended()


class _Digest:
    """A trace taken in word by word: constants, variables by their numbers, equations with all their parameters."""

    def __init__(self) -> None:
        self.digest, self.parts = hashlib.sha256(), list[bytes]()
        self.shown: dict[Any, str] = {}  # types in words, which are slow to make

    def of(self, closed: core.ClosedJaxpr) -> str:
        self.walk(closed.jaxpr, closed.consts)
        return self.ended()

    def ended(self) -> str:
        self.digest.update(b"".join(self.parts))
        return self.digest.hexdigest()

    def take(self, words: str) -> None:
        self.parts.append(words.encode())

    def take_array(self, array: np.ndarray) -> None:
        self.take(f"('{named(array.dtype)}', {array.shape})")
        self.parts.append(array.tobytes())
        if array.nbytes > LARGE:
            self.digest.update(b"".join(self.parts))
            self.parts.clear()

    def walk(self, jaxpr: Any, consts: Sequence[Any]) -> None:
        numbers: dict[Any, int] = {}
        for const in consts:
            self.take_array(np.asarray(const))
        for variable in (*jaxpr.constvars, *jaxpr.invars):
            self.take_variable(numbers, variable)
        for equation in jaxpr.eqns:
            self.take(f"({equation.primitive.name!r},)")
            for variable in equation.invars:
                self.take_operand(numbers, variable)
            self.take_inside(equation)
            for variable in equation.outvars:
                self.take_variable(numbers, variable)
        for variable in jaxpr.outvars:
            self.take_operand(numbers, variable)

    def take_variable(self, numbers: dict[Any, int], variable: Any) -> None:
        """A variable where it first stands: its number and its type."""
        kind = variable.aval
        if kind not in self.shown:
            self.shown[kind] = repr(str(kind))
        self.take(f"({numbers.setdefault(variable, len(numbers))}, {self.shown[kind]})")

    def take_operand(self, numbers: dict[Any, int], variable: Any) -> None:
        if isinstance(variable, core.Literal):
            self.take_array(literal_value(variable))
        else:
            self.take(f"({numbers[variable]},)")

    def take_inside(self, equation: Any) -> None:
        """What an equation holds besides its operands."""
        if equation.primitive.name == WHOLE:
            whole = opened(equation)
            self.walk(whole.jaxpr, whole.consts)
            return
        for name, value in parameters_of(equation):
            self.take_parameter(name, value)

    def take_parameter(self, name: str, value: Any) -> None:
        self.take(f"({name!r},)")
        if value is None or isinstance(value, (int, str)):
            self.take(f"({value!r},)")
        elif isinstance(value, core.ClosedJaxpr):
            self.walk(value.jaxpr, value.consts)
        elif isinstance(value, core.Jaxpr):
            self.walk(value, ())
        elif isinstance(value, (tuple, list)):
            for entry in value:
                self.take_parameter("", entry)
        elif name == "callback":  # the trace does not show what a host function does: its identity stands for it
            self.take(f"({_host_number(getattr(value, 'callback_func', value))},)")
        elif not callable(value) or isinstance(value, type):
            self.take(
                f"({value!r},)"
            )  # other callables (derivative rules) are not run; those that run are in the traces


@or_else(lambda closed: False)
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


@or_else(lambda closed: False)
def calls_host(closed: core.ClosedJaxpr) -> bool:
    """Whether a trace calls back to Python."""
    return any(map(_is_callback, equations_of(closed.jaxpr)))


@or_else(lambda closed: closed)
def without_prints(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """A trace without jax.debug.print and its like: users want to see the steps of a run, and not what looks at their
    functions before it."""
    return closed.replace(jaxpr=_silent(closed.jaxpr)) if prints(closed) else closed


@or_else(lambda closed: False)
def prints(closed: core.ClosedJaxpr) -> bool:
    """Whether a trace shows numbers as it is computed."""
    return any(equation.primitive.name in PRINTS for equation in equations_of(closed.jaxpr))


def _silent(jaxpr: Any) -> Any:
    """A trace without the operations that print, also in those inside it."""
    quiet = [
        with_traces(equation, _silent).replace(effects=_quiet(equation.effects))
        for equation in jaxpr.eqns
        if equation.primitive.name not in PRINTS
    ]
    return jaxpr.replace(eqns=quiet, effects=_quiet(jaxpr.effects))


def _quiet(effects: Any) -> Any:
    return frozenset(effect for effect in effects if "Debug" not in type(effect).__name__)


@or_else(lambda closed, name: False)
def holds(closed: core.ClosedJaxpr, name: str) -> bool:
    """Whether there is a primitive or a compiled function of that name in a trace."""
    return any(name in (e.primitive.name, function_name(e)) for e in equations_of(closed.jaxpr))
