"""Old public names: they work for two minor versions, with a warning that names the new word, and are errors after."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from stodyn.arguments import stacklevel_of_user

MINOR_VERSIONS = 2  # for which an old name works


def answer(old: str, new: str, since: str) -> None:
    """Warn the user who writes `old` to write `new`, as since version `since`; two minor versions later, refuse it."""
    major, minor = _numbers(since)
    end = (major, minor + MINOR_VERSIONS)
    words = f"{old}: write {new}, as it is called since stodyn {since}"
    version = importlib.import_module("stodyn").__version__  # asked now: the package stands above this module
    if _numbers(version) >= end:
        raise AttributeError(f"{words}; the old name is gone")
    words += f"; the old name goes in version {end[0]}.{end[1]}"
    warnings.warn(words, DeprecationWarning, stacklevel=stacklevel_of_user())


def old_names(module: str, names: Mapping[str, tuple[str, str]]) -> Callable[[str], Any]:
    """Return the __getattr__ of a module that answers old names, {old: (the name there now, version of the change)}."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        new, since = names[name]
        answer(f"{module}.{name}", new, since)
        return getattr(importlib.import_module(module), new)

    return get


def _numbers(version: str) -> tuple[int, int]:
    """Return the major and the minor number of a version."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
