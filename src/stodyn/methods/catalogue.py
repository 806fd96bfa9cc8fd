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
    return [
        name
        for name, method in catalogue().items()
        if isinstance(problem, method.accepts) and method.refusal(problem) is None
    ]
