"""Whether a run would be the same again, found by looking at what its functions can see.

What was made ready for a run, its trace above all, is worth keeping: it takes longer than many a run. But a function
may read what has changed since: a variable of its module, an array that was written to. So everything that it refers to
is looked at, by value; where something cannot be judged so (an object of the user's own), nothing is kept.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import sys
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
BY_ANY_NAME = {"globals", "vars", "getattr", "eval", "exec", "__import__"}
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


def together(*tokens: Hashable) -> Hashable:
    """One token of several, None where one of them is missing."""
    return None if None in tokens else tokens


class _Reader:
    def __init__(self):
        self.reading: dict[int, int] = {}  # functions and modules, in order: they may refer to themselves
        self.codes: list[types.CodeType] = []  # of the functions being read

    def read(self, thing: Any) -> Hashable:
        if isinstance(thing, PLAIN):
            return type(thing).__name__, repr(thing)
        if isinstance(thing, (tuple, list)):
            return type(thing).__name__, *map(self.read, thing)
        if isinstance(thing, (set, frozenset)):
            return type(thing).__name__, frozenset(map(self.read, thing))
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
            return "library", *_place(thing)
        if isinstance(thing, types.FunctionType):
            return self.function(thing)
        if hasattr(thing, "__wrapped__") and callable(thing):  # jax.jit and its kin
            return type(thing).__name__, self.read(thing.__wrapped__)
        if isinstance(thing, rv_frozen) and _library(type(thing).__module__):
            return self.distribution(thing)
        if dataclasses.is_dataclass(thing) and not isinstance(thing, type) and _library(type(thing).__module__):
            fields = ((field.name, self.read(getattr(thing, field.name))) for field in dataclasses.fields(thing))
            return type(thing).__module__, type(thing).__qualname__, *fields
        if type(thing).__module__.startswith("stodyn.") and hasattr(thing, "__dict__"):
            return type(thing).__module__, type(thing).__qualname__, self.read(vars(thing))
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
            code, known = function.__code__, function.__globals__
            if not _library(known.get("__name__")):
                self.check(code, known)
            seen = tuple((name, self.read(known[name])) for name in _names(code) if name in known)
            imported = tuple(map(self.imported, _imported(code)))
            own = {name: value for name, value in vars(function).items() if name != "__signature__"}  # only for show
            return (
                "function", code, cells, seen, imported, self.read(function.__defaults__),
                self.read(function.__kwdefaults__), self.read(own),
            )  # fmt: skip
        finally:
            self.codes.pop()
            del self.reading[id(function)]

    def imported(self, name: str) -> Hashable:
        if name not in sys.modules:
            raise Unjudged(f"the module {name}")
        return self.read(sys.modules[name])

    def check(self, code: types.CodeType, known: dict[str, Any]) -> None:
        """Refuse a function that may look up names which are not written in it."""
        for name in _names(code):
            if name in BY_ANY_NAME and name not in known:
                raise Unjudged(f"a function that calls {name}")

    def cell(self, cell: Any) -> Hashable:
        try:
            return self.read(cell.cell_contents)
        except ValueError:  # not filled yet
            return "empty"


def _names(code: types.CodeType) -> list[str]:
    """The global names a function and those written inside it may read (and attributes, which do no harm here)."""
    return [*code.co_names, *(name for one in _inside(code) for name in _names(one))]


@functools.lru_cache(maxsize=1024)
def _imported(code: types.CodeType) -> tuple[str, ...]:
    """The modules a function and those written inside it import when they run."""
    here = (step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")
    return (*here, *(name for one in _inside(code) for name in _imported(one)))


def _inside(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _library(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in LIBRARIES


def _of_a_library(thing: Any) -> bool:
    """Whether it is the function or class that a library has under its name, and not one that only carries the name:
    what functools.wraps and jax.grad return carries that of what they were given."""
    if not callable(thing):
        return False
    module, name = _place(thing)
    found: Any = sys.modules.get(module) if _library(module) else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is thing


def _place(thing: Any) -> tuple[str, str]:
    """The module and the name that a function or class gives as its own."""
    if isinstance(thing, jax.numpy.ufunc):  # has a name alone
        return "jax.numpy", getattr(thing, "__name__", "")
    name = getattr(thing, "__qualname__", None)
    return (str(getattr(thing, "__module__", None)), name) if isinstance(name, str) else ("", "")


class Kept:
    """What was found for some things before, the latest few, by what the things say; safe for threads.

    The things themselves are kept too, for what was found may hold parts of them: where one has been changed since, it
    does not serve others that say what it said.
    """

    def __init__(self):
        self.values: dict[Hashable, tuple[Any, tuple[Any, ...]]] = {}
        self.lock = threading.Lock()

    def find(self, key: Hashable, things: tuple[Any, ...]) -> Any:
        """What is kept for things whose token is `key`; None where there is nothing."""
        with self.lock:
            kept = None if key is None else self.values.pop(key, None)
        if kept is None:
            return None
        value, before = kept
        pairs = zip(before, things, strict=True)
        if not all(one is other or judged(one) == judged(other) for one, other in pairs):
            return None
        self.keep(key, value, before)
        return value

    def keep(self, key: Hashable, value: Any, things: tuple[Any, ...]) -> None:
        if key is None:
            return
        with self.lock:
            self.values[key] = value, things
            while len(self.values) > KEPT:
                del self.values[next(iter(self.values))]

    def get(self, key: Hashable, things: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """What is kept for the things, or compute()."""
        value = self.find(key, things)
        if value is None:
            value = compute()
            self.keep(key, value, things)
        return value
