"""What the user admits for run files and ledgers, which are data that people send each other.

Such a file may name things outside itself: module:name, whose code would run; folders, into which it would write; and
the address of a Dask scheduler, which may send code here. None of them is used unless the user admits it,

    --allow my_model.py          this file, and no other, as the module my_model
    --allow my_package.models    this module, where Python finds it, and none of its submodules
    --allow /scratch/me/         this folder and those below it, to write into and for a record to be read from
    --allow tcp://host:8786      this scheduler

or an installed package declares it among its entry points:

    [project.entry-points."stodyn.admitted"]
    turbine = "turbine.models"   # a module, or module:name for one name in it

Of a module that is admitted, a file may name what the module defines itself or lists in __all__, but not what it
imports: `from os import system` in a module of yours gives nobody else a shell.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import cloudpickle

GROUP = "stodyn.admitted"  # of entry points
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
OBJECT = re.compile(rf"(?P<module>{MODULE.pattern}):(?P<name>[A-Za-z]\w*)")


class BadRunFile(ValueError):
    """A run file with an unknown key or an impossible value."""


class NotAdmitted(BadRunFile):
    """A file names things outside itself that nobody has admitted; the message ends with the command that admits them.

    Nothing has been imported, written or called by then.
    """


class Wanted(NamedTuple):
    """Something outside itself that a file names: under which key, in which words, and the --allow that admits it."""

    key: str
    text: str
    option: str


class Admission:
    """What may be used of the things that one file names.

    `allow` are the values of --allow, `command` is the command that reads the file, which errors repeat with what it
    lacks, and `folders` are where the file may write without being asked.
    """

    def __init__(self, allow: Iterable[str | Path], command: str, folders: Iterable[Path] = ()):
        self.options, self.command = [os.fspath(each) for each in allow], command
        self.files: dict[str, Path] = {}
        self.modules: set[str] = set()
        self.addresses: set[str] = set()
        self.folders = [folder.resolve() for folder in folders]
        self._opened: dict[str, ModuleType] = {}
        for option in self.options:
            self._admit(option)

    def _admit(self, option: str) -> None:
        if "://" in option:
            self.addresses.add(option)
        elif option.endswith(".py"):
            self._admit_file(Path(option))
        elif "/" in option or os.sep in option:
            self.folders.append(Path(option).resolve())
        elif MODULE.fullmatch(option):
            self.modules.add(option)
        else:
            raise BadRunFile(
                f"--allow: expected a file such as my_model.py, a module such as my_package.models, a folder such as "
                f"/scratch/me/ or an address such as tcp://host:8786, got {option!r}"
            )

    def _admit_file(self, file: Path) -> None:
        if not os.path.isfile(file):
            raise BadRunFile(f"--allow: there is no file {file}")
        if not file.stem.isidentifier():
            raise BadRunFile(f"--allow: {file.name} cannot be the name of a module; rename the file")
        if self.files.setdefault(file.stem, file.resolve()) != file.resolve():
            raise BadRunFile(f"--allow: {file} and {self.files[file.stem]} are both called {file.stem}; rename one")

    # --- what is not admitted -----------------------------------------------------------------------------------------

    def check(self, wanted: Iterable[Wanted]) -> None:
        """Refuse all that is not admitted in one error, whose command admits it."""
        lacking = [each for each in wanted if not self._admits(each)]
        if not lacking:
            return
        options = dict.fromkeys((*self.options, *(each.option for each in lacking)))
        command = " ".join([self.command, *(f"--allow {shlex.quote(option)}" for option in options)])
        raise NotAdmitted(
            f"{'; '.join(f'{each.key}: {each.text}' for each in lacking)}: not admitted. Nothing has been imported, "
            "called or written. Files and ledgers may come from others: the code they name runs, and the folders they "
            f"name are read or written into, only if you allow it. If you trust all of this, give\n\n    {command}"
        )

    def _admits(self, wanted: Wanted) -> bool:
        if "://" in wanted.option:
            return wanted.option in self.addresses
        if wanted.option.endswith(os.sep):
            return any(Path(wanted.option).is_relative_to(folder) for folder in self.folders)
        module = wanted.text.partition(":")[0]
        if module in self.files or module in self.modules:
            return True
        return not {wanted.text, module}.isdisjoint(_entry_points())

    # --- what is admitted ---------------------------------------------------------------------------------------------

    def value_of(self, wanted: Wanted) -> Any:
        """Return what module:name stands for."""
        match = OBJECT.fullmatch(wanted.text)
        if match is None:
            raise BadRunFile(
                f"{wanted.key}: expected module:name, such as my_model:problem, got {wanted.text!r}. Expressions are "
                "not evaluated, and names that begin with an underscore are not looked up."
            )
        self.check([wanted])
        try:
            module = self._module(match["module"])
            value = getattr(module, match["name"])
        except BadRunFile:
            raise
        except Exception as error:  # a module may fail in any way while it is imported
            words = f"{wanted.key}: {wanted.text} cannot be imported ({type(error).__name__}: {error})"
            raise BadRunFile(words + _way_out(error)) from error
        if not _is_own(value, module, match["name"]):
            raise BadRunFile(
                f"{wanted.key}: {wanted.text} is not defined in {match['module']}, which only imports it; define it "
                "there, or list it in the module's __all__"
            )
        return value

    def _module(self, name: str) -> ModuleType:
        if name not in self.files:
            return importlib.import_module(name)
        if name not in self._opened:
            self._opened[name] = _from_file(name, self.files[name])
        return self._opened[name]


def _entry_points() -> tuple[str, ...]:
    """What installed packages declare; a folder that happens to be the current one installs nothing."""
    here = Path.cwd()
    return _declared(tuple(folder for folder in sys.path if folder and Path(folder).resolve() != here))


@functools.lru_cache(maxsize=8)
def _declared(path: tuple[str, ...]) -> tuple[str, ...]:
    """The entry points of the packages in these folders, whose search takes some milliseconds."""
    packages = importlib.metadata.distributions(path=list(path))
    return tuple(point.value for package in packages for point in package.entry_points.select(group=GROUP))


def _is_own(value: Any, module: ModuleType, name: str) -> bool:
    """Whether a module publishes a value: it lists it, defines it itself or in a submodule, or it is no function."""
    if isinstance(value, ModuleType):
        return False
    if name in getattr(module, "__all__", ()) or not hasattr(value, "__qualname__"):
        return True
    home = getattr(value, "__module__", None) or ""
    return home == module.__name__ or home.startswith(f"{module.__name__}.")


def _way_out(error: Exception) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return (
        ". The folders of run files and of admitted files are not searched: give --allow FOLDER/my_model.py for a "
        "file, and put the folders of modules that it imports on PYTHONPATH"
    )


class _SourceAlone(importlib.machinery.SourceFileLoader):
    """Reads the file itself: bytecode beside it may come from elsewhere."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


_from_files: dict[str, ModuleType] = {}  # modules that stand in sys.modules because a file was admitted


def _from_file(name: str, file: Path) -> ModuleType:
    """Run a file as the module of this name; functions in it travel to workers by value, as the file does not."""
    known = sys.modules.get(name)
    if known is None or known is _from_files.get(name):
        sys.modules.pop(name, None)
        spec = importlib.util.find_spec(name)
        there = None if spec is None else spec.origin
    else:
        there = getattr(known, "__file__", None) or "Python itself"
    if there is not None and Path(there).resolve() != file:
        raise BadRunFile(f"--allow: {file} would stand for the module {name} of {there}; rename the file")
    loader = _SourceAlone(name, str(file))
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, loader, origin=str(file)))
    module.__file__ = str(file)
    sys.modules[name] = _from_files[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    cloudpickle.register_pickle_by_value(module)
    return module
