"""What a folder of the package holds, and looking a name up in it: nobody keeps a central list."""

import difflib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """The modules in a package's folder, in the order of their names."""
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        yield importlib.import_module(f"{package.__name__}.{info.name}")


def values(package: ModuleType, kind: type[T]) -> dict[str, T]:
    """name -> value, for every value of type `kind` in the package's modules; two under one name are refused."""
    found: dict[str, T] = {}
    homes: dict[str, str] = {}
    for module in modules(package):
        for value in vars(module).values():
            if not isinstance(value, kind):
                continue
            name = value.name  # type: ignore[attr-defined]
            if name in found and found[name] is not value and found[name] != value:
                raise ValueError(
                    f"{name}: {homes[name]} and {module.__name__} both hold a {kind.__name__} of this name; rename one"
                )
            found.setdefault(name, value)
            homes.setdefault(name, module.__name__)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def find(name: str, found: Mapping[str, T], kind: str) -> T:
    """The value called `name`, capitals and hyphens aside, or an error with the names near it."""
    folded = {_folded(known): known for known in found}
    if _folded(name) in folded:
        return found[folded[_folded(name)]]
    near = [folded[match] for match in difflib.get_close_matches(_folded(name), folded, n=3, cutoff=0.5)]
    hint = f"Near it: {', '.join(near)}." if near else f"There are: {', '.join(found)}."
    raise ValueError(f"{kind}: there is no {name!r}. {hint if found else 'There are none.'}")


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")
