"""Every method of the library: found by listing the family modules, named in no central list."""

from __future__ import annotations

import functools
from typing import Any

from stodyn import listing, methods
from stodyn.methods.contract import Catalogued, Method
from stodyn.problems.contract import Problem


@functools.cache
def catalogue() -> dict[str, Catalogued]:
    """name -> method, in alphabetical order."""
    return listing.values(methods, Catalogued)  # type: ignore[type-abstract]


def find(name: str) -> Catalogued:
    """The method of that name, or an error with the names near it."""
    return listing.find(name, catalogue(), "method")


def named(method: Any) -> Any:
    """The method of that name; anything but a string is returned unchanged."""
    return find(method) if isinstance(method, str) else method


def stepping(method: Any, argument: str = "method") -> Method:
    """The method itself or the one of that name, which must make steps; `argument` is what an error calls it."""
    found = named(method)
    if isinstance(found, Problem):
        raise TypeError(f"{argument}: got a problem ({type(found).__name__}). The problem comes first, then the method")
    if not isinstance(found, Method):
        given = f"{found.name}, which takes the whole grid at once" if isinstance(found, Catalogued) else repr(found)
        raise TypeError(f'{argument}: expected a method that makes steps, or its name, such as "Heun", got {given}')
    return found


def fitting(problem, kind: type | None = None) -> list[str]:
    """The names of the methods that take a problem as it is or after an exact conversion; of one kind if asked."""
    names, lowered = [], {type(problem): problem}
    for name, method in catalogue().items():
        accepts = method.accepts
        if kind not in (None, accepts):
            continue
        if accepts not in lowered:
            lowered[accepts] = problem if isinstance(problem, accepts) else (problem.lower(accepts) or (None,))[0]
        if lowered[accepts] is not None and method.refusal(lowered[accepts]) is None:
            names.append(name)
    return names
