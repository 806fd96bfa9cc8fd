"""List the contents of the package's folders and look names up in them, so that no central list is needed."""

import ast
import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """Yield the modules in a package's folder, in the order of their names."""
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        yield importlib.import_module(f"{package.__name__}.{info.name}")


def values(package: ModuleType, kind: type[T]) -> dict[str, T]:
    """Return name -> value, for every value of type `kind` in the package's modules.

    Where two modules hold different values of one name, both are listed as module.name.
    """
    by_file: dict[str, dict[str, T]] = {}
    for module in modules(package):
        for value in vars(module).values():
            if isinstance(value, kind):
                homes = by_file.setdefault(value.name, {})  # type: ignore[attr-defined]
                if not any(value is known or value == known for known in homes.values()):
                    home = module.__name__.rpartition(".")[2]
                    if home in homes:
                        raise ValueError(f"{value.name}: {module.__name__} holds two of this name; rename one")  # type: ignore[attr-defined]
                    homes[home] = value
    named = {
        name if len(homes) == 1 else f"{home}.{name}": value
        for name, homes in by_file.items()
        for home, value in homes.items()
    }
    return dict(sorted(named.items(), key=lambda item: item[0].lower()))


def classes(package: ModuleType, kind: type) -> dict[str, Any]:
    """Return name -> class, for every public, concrete class of a kind in the package's modules."""
    kinds = {
        name: value
        for module in modules(package)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, kind) and value.__module__ == module.__name__
        if not name.startswith("_") and not inspect.isabstract(value)
    }
    return dict(sorted(kinds.items()))


def find(name: str, things: Mapping[str, T], kind: str) -> T:
    """Return the value called `name`, ignoring capitals and hyphens; errors for unknown names list similar ones."""
    if name in things:
        return things[name]
    folded = {_folded(known): known for known in things}
    if _folded(name) in folded:
        return things[folded[_folded(name)]]
    qualified = [known for known in things if _folded(known).rpartition(".")[2] == _folded(name)]
    if qualified:
        raise ValueError(f"{kind}: there are several called {name!r}: {', '.join(qualified)}. Say which.")
    begun = [match for match in folded if match.startswith(_folded(name))] if name else []
    near = [folded[match] for match in begun or difflib.get_close_matches(_folded(name), folded, n=3, cutoff=0.5)]
    hint = f"Near it: {', '.join(near)}." if near else f"There are: {', '.join(things)}."
    raise ValueError(f"{kind}: there is no {name!r}. {hint if things else 'There are none.'}")


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")


def on_demand(
    package: str,
    file: str,
    renamed: Mapping[str, str] | None = None,
    elsewhere: Callable[[str], str] | None = None,
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return the __all__, __getattr__ and __dir__ of a package whose names are imported when they are first used.

    The names are those that the package's __init__.pyi, which type checkers and editors read, imports and lists in
    __all__; so a name has one home. Modules of the package that are not listed open too.

    renamed    old name -> what it is called now, for the error of those who still type it
    elsewhere  a name -> how it is written, where it is a name of another part of the library; otherwise ""
    """
    homes = _homes(Path(file).with_suffix(".pyi"))

    def get(name: str) -> Any:
        home, called = homes.get(name, (package, name))
        value = _module(f"{home}.{called}")
        if value is None and name in homes:
            value = getattr(importlib.import_module(home), called)
        if value is None:
            near = difflib.get_close_matches(name, homes, n=3)
            hint = f". Near it: {', '.join(near)}" if near else ""
            there = elsewhere(name) if elsewhere is not None else ""
            hint = f". Write {there}" if there else hint
            hint = f". It is called {renamed[name]} now" if renamed and name in renamed else hint
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name)
        setattr(importlib.import_module(package), name, value)
        return value

    return sorted(homes), get, lambda: sorted(homes)


def below(file: str, name: str) -> str:
    """Return package.name for the first package beside `file` whose __init__.pyi lists the name; "" for none."""
    for stub in sorted(Path(file).parent.glob("*/__init__.pyi")):
        if name in _homes(stub):
            return f"{Path(file).parent.name}.{stub.parent.name}.{name}"
    return ""


def _homes(stub: Path) -> dict[str, tuple[str, str]]:
    """Return name -> (module, name there), for the names that a stub imports."""
    homes: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom):
            homes |= {alias.asname or alias.name: (str(statement.module), alias.name) for alias in statement.names}
    return homes


def modules_on_demand(package: str) -> Callable[[str], Any]:
    """Return the __getattr__ of a package whose modules are imported when they are first used."""

    def get(name: str) -> Any:
        value = _module(f"{package}.{name}")
        if value is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        return value

    return get


def names_of(module: str) -> Callable[[], list[str]]:
    """Return the __dir__ of a public module: the names in its __all__, or else those that it defines itself.

    These are its functions, its classes, and named values of classes of its package, such as models; imports and
    constants are left out.
    """

    def is_own(value: Any) -> bool:
        if inspect.isfunction(value) or inspect.isclass(value):
            return bool(value.__module__ == module)
        return hasattr(value, "name") and type(value).__module__.rpartition(".")[0] == module.rpartition(".")[0]

    def names() -> list[str]:
        room = vars(importlib.import_module(module))
        own = [name for name, value in room.items() if not name.startswith("_") and is_own(value)]
        return sorted(room.get("__all__", own))

    return names


def _module(name: str) -> ModuleType | None:
    """Return the module of that name, or None if there is none."""
    if name.rpartition(".")[2].startswith("__"):
        return None
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
