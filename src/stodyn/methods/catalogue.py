"""Every method of the library: found by listing the family modules, named in no central list."""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil

from stodyn import methods
from stodyn.methods.contract import Catalogued


@functools.cache
def catalogue() -> dict[str, Catalogued]:
    """name -> method, in alphabetical order."""
    found: dict[str, Catalogued] = {}
    for module in pkgutil.iter_modules(methods.__path__):
        if module.name == "catalogue":
            continue
        for value in vars(importlib.import_module(f"{methods.__name__}.{module.name}")).values():
            if isinstance(value, Catalogued) and found.setdefault(value.name, value) is not value:
                raise ValueError(f"two methods are named {value.name}; the second is in methods/{module.name}.py")
    return dict(sorted(found.items()))


def find(name: str) -> Catalogued:
    """The method of that name; capitals do not matter."""
    known = catalogue()
    matches = [key for key in known if key.lower() == str(name).lower()]
    if matches:
        return known[matches[0]]
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(known)}."
    raise ValueError(f"method: no method is called {name!r}. {hint}")


def fitting(problem) -> list[str]:
    """The names of the methods that take a problem as it is or after an exact conversion."""
    return [
        name
        for name, method in catalogue().items()
        if isinstance(problem, method.accepts) and method.refusal(problem) is None
    ]
