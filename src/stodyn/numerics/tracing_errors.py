"""Why JAX could not trace a user's function: the user's own line, and how to write it instead.

try:
    jax.make_jaxpr(drift)(t, x)
except Exception as error:
    raise TypeError(f"drift: could not be traced ({in_words(error)}). {way_out(error)}") from error

drift: could not be traced (TracerArrayConversionError: ..., in `np.sin(x)`, line 7 of pendulum.py). Write it with
jax.numpy on arrays: jnp.sin for np.sin.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import difflib
import functools
import itertools
import linecache
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from traceback import FrameSummary
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

OTHERS = (
    f"{Path(__file__).parents[1]}/",
    *(f"{Path(str(package.__file__)).parent}/" for package in (jax, np, scipy)),
    functools.__file__,
)  # whose lines are not the user's
TRACED = (
    jax.errors.TracerArrayConversionError,
    jax.errors.ConcretizationTypeError,
    jax.errors.UnexpectedTracerError,
    jax.errors.TracerBoolConversionError,
)  # raised where a number is needed and the value is one that JAX is tracing
LONGEST = 60  # characters of a line that are shown
ARRAYS = "Write it with jax.numpy on arrays"
BRANCHES = "jnp.where or lax.cond for `if` on x, & for `and`"
OF_PYTHON = {"abs": "jnp.abs", "max": "jnp.maximum", "min": "jnp.minimum", "pow": "jnp.power", "round": "jnp.round",
             "sum": "jnp.sum", "sorted": "jnp.sort"}  # fmt: skip


class Place(NamedTuple):
    """The last line of the user's code that an error passed through, and the expression in it that failed."""

    frame: FrameType
    file: str
    line: int
    expression: str

    def __str__(self) -> str:
        text = self.expression or linecache.getline(self.file, self.line, self.frame.f_globals).strip()
        shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
        where = f"line {self.line} of {Path(self.file).name}"
        return f"in `{shown}`, {where}" if shown else f"in {where}"


@contextlib.contextmanager
def one_error_of_derivatives() -> Iterator[None]:
    """Raise NotImplementedError wherever JAX has no derivative: of calls to the host it raises a ValueError."""
    try:
        yield
    except ValueError as error:
        if "do not support JVP" not in str(error):
            raise
        raise NotImplementedError(str(error).partition(". ")[0]) from error


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def in_words(error: BaseException) -> str:
    """Return the kind of an error, the first line of its message, and the user's line."""
    place = user_place(error)
    words = first_line(error).partition(": https://")[0].rstrip(".")
    return words if place is None else f"{words}, {place}"


def way_out(error: BaseException) -> str:
    """Return how to write the user's line so that JAX can trace it; "" where the error is not one of tracing."""
    place = user_place(error)
    name, replacement = ("", "") if place is None else _replacement(place)
    if replacement:
        return f"{ARRAYS}: {replacement} for {name}."
    if name in ("float", "int", "bool") and isinstance(error, jax.errors.ConcretizationTypeError):
        return (
            f"{ARRAYS}: leave {name}() out, since x is not known while the function is traced; lax.fori_loop for "
            "range(int(x))."
        )
    if "immutable" in str(error) and place is not None and isinstance(node := _parsed(place.expression), ast.Subscript):
        array, index = ast.unparse(node.value), ast.unparse(node.slice)
        return f"{ARRAYS}: {array} = {array}.at[{index}].set(value) for {array}[{index}] = value."
    if "setting an array element" in str(error):
        return f"{ARRAYS}: jnp.array([...]) of all entries, or array = array.at[i].set(value) on jnp.zeros(n)."
    if isinstance(error, NameError):
        return "Define that name before the problem is made, or pass its value in params."
    if "scalar index" in str(error):
        return f"{ARRAYS}: lax.fori_loop for range(x), jnp.array(values)[i] with a whole number i for a list."
    if "not a valid JAX" in str(error):
        return "Return one array: jnp.array([...])."
    if isinstance(error, jax.errors.TracerBoolConversionError):
        return f"{ARRAYS}: {BRANCHES}."
    if isinstance(error, jax.errors.JAXTypeError):
        return f"{ARRAYS}: jnp in place of np and math, {BRANCHES}."
    return ""


def unnamed_entry(error: BaseException, names: Sequence[str] = ()) -> str:
    """Return how to read an entry of an array that a function reads by its name; "" for other errors.

    names  those of the components, as far as they are known
    """
    place = user_place(error)
    match None if place is None else _parsed(place.expression):
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))) | ast.Attribute(value=owner, attr=name):
            array = _value(owner, place.frame)  # type: ignore[union-attr]
        case _:
            return ""
    is_by_name = isinstance(error, AttributeError) or "string index" in str(error)
    if not is_by_name or not isinstance(array, jax.core.Tracer):
        return ""
    called, shape = ast.unparse(owner), array.shape
    if not shape:
        return f"{called} is a number, without entries."
    if name in names:
        return (
            f"{called} is an array, whose entries have numbers: write {called}[{list(names).index(name) % shape[0]}]."
        )
    known = f"; the components are {', '.join(names)}" if names else ", in the order of start"
    return f"{called} is an array, whose entries have numbers: write {called}[0] for the first{known}."


def missing_entry(error: BaseException, params: Any) -> str:
    """Return which entry of params a function must mean that reads one that is not there; "" for other errors."""
    if isinstance(error, KeyError) and error.args:
        name, owner, called = error.args[0], params, "params"
        place = user_place(error)
        node = None if place is None else _parsed(place.expression)
        if isinstance(node, ast.Subscript) and isinstance(mapping := _value(node.value, place.frame), Mapping):  # type: ignore[union-attr]
            owner, called = mapping, ast.unparse(node.value)
    elif isinstance(error, AttributeError) and isinstance(error.obj, (Mapping, type(params))):
        name, owner, called = error.name, error.obj, "params"
        place = user_place(error)
        node = None if place is None else _parsed(place.expression)
        if isinstance(node, ast.Attribute) and node.attr == name:
            called = ast.unparse(node.value)
        if isinstance(owner, Mapping) and name in owner:
            return f"{called} is a dict: write {called}[{name!r}]."
    else:
        return ""
    names = [str(entry) for entry in (owner if isinstance(owner, Mapping) else _fields(owner))]
    near = difflib.get_close_matches(str(name), names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"{called} has no entry {name!r}. It has {', '.join(map(repr, names)) or 'none'}{hint}"


def _fields(owner: Any) -> Iterable[str]:
    """Return the names of the fields of a named tuple or of another object."""
    return owner._fields if hasattr(owner, "_fields") else getattr(owner, "__dict__", ())


def user_place(error: BaseException) -> Place | None:
    """Return the last line of the user's code that an error passed through; None where there is none."""
    trace, last = error.__traceback__, None
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(OTHERS):
            last = trace
        trace = trace.tb_next
    return None if last is None else _place(last)


def names_argument(line: FrameSummary, name: str) -> bool:
    """Return whether the call of a function around a line of Python names this argument, f(..., name=...); False where
    the file cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(line.filename)))
    except (SyntaxError, ValueError):
        return False
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    around = (call for call in calls if call.lineno <= (line.lineno or 0) <= (call.end_lineno or 0))
    return any(keyword.arg == name for call in around for keyword in call.keywords)


def _place(trace: TracebackType) -> Place:
    frame = trace.tb_frame
    file = frame.f_code.co_filename
    first, last, begin, end = next(itertools.islice(frame.f_code.co_positions(), trace.tb_lasti // 2, None))
    if first is None or last is None or begin is None or end is None:
        return Place(frame, file, trace.tb_lineno, "")
    lines = [linecache.getline(file, line, frame.f_globals).encode() for line in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    return Place(frame, file, trace.tb_lineno, " ".join(line.decode(errors="replace").strip() for line in lines))


def _parsed(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name, of its attributes or of its entries; None where it has none."""
    match node:
        case ast.Name(id=name):
            return {**vars(builtins), **frame.f_globals, **frame.f_locals}.get(name)
        case ast.Attribute(value=owner, attr=name):
            return getattr(_value(owner, frame), name, None)
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)):
            mapping = _value(owner, frame)
            return mapping.get(key) if isinstance(mapping, Mapping) else None
    return None


def _replacement(place: Place) -> tuple[str, str]:
    """Return the function called where the error was raised, as the user wrote it, and that of JAX which replaces it.

    Either is "" where it is not known.
    """
    node = _parsed(place.expression)
    if not isinstance(node, ast.Call):
        return "", ""
    function, called = _value(node.func, place.frame), ast.unparse(node.func)
    package, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "")
    if package == "builtins":
        return called, OF_PYTHON.get(name, "")
    if isinstance(function, np.ufunc) or package.partition(".")[0] in ("numpy", "math", "scipy"):
        inner = package.partition(".")[2].split(".")
        for prefix, module in (("jnp", jnp), ("jax.scipy.special", jax.scipy.special), ("jax.scipy", jax.scipy)):
            for path in ([*inner[:1], name], [called.rpartition(".")[2]], [name]):
                if _attribute(module, path) is not None:
                    return called, ".".join([prefix, *path])
    return called, ""


def _attribute(owner: Any, path: list[str]) -> Any:
    for name in path:
        owner = getattr(owner, name, None)
    return owner
