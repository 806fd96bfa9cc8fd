"""Numbers that were rounded to float32 before a computation in float64 began, by name and value.

jax.numpy makes float32 arrays outside a 64-bit context. One that a user's function captures is a constant in the trace
of the function, whatever the precision of the trace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import jax
import numpy as np

from stodyn.engine.traces import single_precision_constants, traced_functions_of, was_rounded
from stodyn.telling import tell
from stodyn.warnings import SinglePrecisionConstant

SHOWN = 4  # numbers that a warning lists


def warn_of_rounded(problem: Any, computation: str, further: list[str] | None = None) -> None:
    """Warn of float32 numbers in the functions of a problem, its start and its params, which a computation in float64
    uses; `further` are values of float32 constants that were seen elsewhere, listed where the functions do not have
    them."""
    rounded = _rounded(problem)
    listed = [words for words, _ in rounded]
    listed += [value for value in further or () if value not in {value for _, value in rounded}]
    if listed:
        tell(
            f"{computation} uses float32 numbers: {'; '.join(listed[:SHOWN])}. They were made by jax.numpy outside a "
            "64-bit context; make them with numpy, or inside the function.",
            SinglePrecisionConstant,
        )


def _rounded(problem: Any) -> list[tuple[str, str]]:
    """Every such number in words, and its value alone."""
    rounded = []
    for name, look in traced_functions_of(problem).items():
        for constant in single_precision_constants(look.trace):
            variable = _variable(look.function, constant)
            rounded.append((f"{f'{variable} in {name}' if variable else name} = {constant}", str(constant)))
    for name, tree in {"start": getattr(problem, "start", None), "params": problem.params}.items():
        for place, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
            if was_rounded(leaf):
                rounded.append((f"{name}{jax.tree_util.keystr(place)} = {leaf}", str(leaf)))
    return list(dict.fromkeys(rounded))


def _variable(function: Callable[..., Any], constant: Any) -> str:
    """The name under which a function has captured a constant; "" where it has none."""
    for name, value in _captured(function):
        if getattr(value, "dtype", None) == np.float32 and np.array_equal(value, constant):
            return name
    return ""


def _captured(function: Any) -> Iterator[tuple[str, Any]]:
    """The variables of its surroundings that a function reads, by name."""
    while isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, functools.partial) else function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
    for name in _names(code):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    """The global names in a function and in those inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
