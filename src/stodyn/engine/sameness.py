"""Whether a problem would be traced to the same equations again, found by looking at what its functions can see.

A trace is worth keeping from run to run: it takes longer than many a run. But a function may read what has changed
since: a variable of its module, an array that was written to. So everything that it refers to is looked at, by value;
where something cannot be judged so (an object of the user's own), nothing is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import types
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import scipy.stats
from scipy.stats.distributions import rv_frozen

from stodyn.numerics.surd import Surd

KEPT = 64
LARGEST_ARRAY = 100_000  # numbers, beyond which comparing costs more than tracing
LIBRARIES = {"jax", "jaxlib", "numpy", "scipy", "math", "cmath", "functools", "itertools", "operator", "builtins",
             "dataclasses", "typing", "collections", "stodyn"}  # fmt: skip
PLAIN = (type(None), bool, int, float, complex, Fraction, str, bytes, type(Ellipsis), np.generic, np.dtype, range)


class Unjudged(Exception):
    """Something whose changes could not be seen."""


def token(thing: Any) -> Hashable:
    """Equal for two things that say the same, now. Raises Unjudged."""
    return _Reader().read(thing)


def judged(thing: Any) -> Hashable:
    """Its token, or None where there is none."""
    try:
        return token(thing)
    except (Unjudged, RecursionError):
        return None


class _Reader:
    def __init__(self):
        self.reading: dict[int, int] = {}  # functions and modules, in order: they may refer to themselves
        self.codes: list[types.CodeType] = []  # of the functions being read

    def read(self, thing: Any) -> Hashable:
        if isinstance(thing, PLAIN):
            return type(thing).__name__, repr(thing)
        if isinstance(thing, (tuple, list)):
            return type(thing).__name__, *map(self.read, thing)
        if isinstance(thing, dict):
            return "dict", *((self.read(key), self.read(value)) for key, value in thing.items())
        if isinstance(thing, (np.ndarray, jax.Array)) and not isinstance(thing, jax.core.Tracer):
            return self.array(thing)
        if isinstance(thing, types.ModuleType):
            return self.module(thing)
        if isinstance(thing, Surd):
            return "Surd", self.read(thing.parts)
        if isinstance(thing, functools.partial):
            return "partial", self.read(thing.func), self.read(thing.args), self.read(thing.keywords)
        if isinstance(thing, types.MethodType):
            return "method", self.read(thing.__func__), self.read(thing.__self__)
        if _of_a_library(thing):
            return "library", thing.__module__, thing.__qualname__
        if isinstance(thing, types.FunctionType):
            return self.function(thing)
        if hasattr(thing, "__wrapped__") and callable(thing):  # jax.jit and its kin
            return type(thing).__name__, self.read(thing.__wrapped__)
        if isinstance(thing, rv_frozen):
            return self.distribution(thing)
        if dataclasses.is_dataclass(thing) and not isinstance(thing, type) and _library(type(thing).__module__):
            fields = ((field.name, self.read(getattr(thing, field.name))) for field in dataclasses.fields(thing))
            return type(thing).__qualname__, *fields
        raise Unjudged(type(thing).__name__)

    def array(self, array: Any) -> Hashable:
        if array.size > LARGEST_ARRAY or array.dtype == object:
            raise Unjudged("a large array")
        numbers = np.asarray(array)
        return "array", str(numbers.dtype), numbers.shape, numbers.tobytes()

    def distribution(self, frozen: Any) -> Hashable:
        """One of scipy's own; others of its classes hold what it does not show."""
        name = frozen.dist.name
        if type(frozen.dist) is not type(getattr(scipy.stats, name, None)):
            raise Unjudged(f"the distribution {name}")
        return "distribution", name, self.read(frozen.args), self.read(frozen.kwds)

    def module(self, module: types.ModuleType) -> Hashable:
        """A module of the user's: what the functions being read may take from it."""
        if _library(module.__name__):
            return "module", module.__name__
        if id(module) in self.reading:
            return "module being read", module.__name__
        self.reading[id(module)] = len(self.reading)
        try:
            names = sorted({name for code in self.codes for name in _names(code)} & vars(module).keys())
            return "module", module.__name__, *((name, self.read(vars(module)[name])) for name in names)
        finally:
            del self.reading[id(module)]

    def function(self, function: types.FunctionType) -> Hashable:
        if id(function) in self.reading:
            return "itself", self.reading[id(function)]
        self.reading[id(function)] = len(self.reading)
        self.codes.append(function.__code__)
        try:
            cells = tuple(self.cell(cell) for cell in function.__closure__ or ())
            known = function.__globals__
            seen = tuple((name, self.read(known[name])) for name in _names(function.__code__) if name in known)
            return (
                "function", function.__code__, cells, seen, self.read(function.__defaults__),
                self.read(function.__kwdefaults__), self.read(function.__dict__.get("__wrapped__")),
            )  # fmt: skip
        finally:
            self.codes.pop()
            del self.reading[id(function)]

    def cell(self, cell: Any) -> Hashable:
        try:
            return self.read(cell.cell_contents)
        except ValueError:  # not filled yet
            return "empty"


def _names(code: types.CodeType) -> list[str]:
    """The global names a function and those written inside it may read (and attributes, which do no harm here)."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return [*code.co_names, *(name for one in inner for name in _names(one))]


def _library(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in LIBRARIES


def _of_a_library(thing: Any) -> bool:
    """Whether it is a function or class that a library defines by name, and not a closure made there."""
    named = isinstance(getattr(thing, "__qualname__", None), str) and "<locals>" not in thing.__qualname__
    return named and callable(thing) and _library(getattr(thing, "__module__", None))


class Kept:
    """What was found for a token before, the latest few; safe for threads."""

    def __init__(self):
        self.values: dict[Hashable, Any] = {}
        self.lock = threading.Lock()

    def find(self, key: Hashable) -> Any:
        """What is kept for a token; None where there is nothing."""
        with self.lock:
            if key is None or key not in self.values:
                return None
            self.values[key] = value = self.values.pop(key)
            return value

    def keep(self, key: Hashable, value: Any) -> None:
        if key is None:
            return
        with self.lock:
            self.values[key] = value
            while len(self.values) > KEPT:
                del self.values[next(iter(self.values))]

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """What is kept for a token, or compute()."""
        value = self.find(key)
        if value is None:
            value = compute()
            self.keep(key, value)
        return value
