"""Every method of the library: found by listing the family modules, named in no central list."""

from __future__ import annotations

import functools

from stodyn import listing, methods
from stodyn.methods.contract import Catalogued


@functools.cache
def catalogue() -> dict[str, Catalogued]:
    """name -> method, in alphabetical order."""
    return listing.values(methods, Catalogued)  # type: ignore[type-abstract]


def find(name: str) -> Catalogued:
    """The method of that name, or an error with the names near it."""
    return listing.find(name, catalogue(), "method")


def fitting(problem) -> list[str]:
    """The names of the methods that take a problem as it is or after an exact conversion."""
    names = []
    for name, method in catalogue().items():
        lowered = (problem, "") if isinstance(problem, method.accepts) else problem.lower(method.accepts)
        if lowered is not None and method.refusal(lowered[0]) is None:
            names.append(name)
    return names
