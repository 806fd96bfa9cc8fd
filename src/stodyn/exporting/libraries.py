"""The libraries of a unit: compiled for this machine by its own compiler, for other platforms by zig where it is there.

Nothing compiled is shipped. Without a compiler a unit holds its sources alone, and a warning says so.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stodyn.arguments import suggestion
from stodyn.exporting import c_file
from stodyn.telling import tell


class Platform(NamedTuple):
    """A platform: its folder in units of FMI 2.0, its name as a target of zig, and how names of libraries end there."""

    folder: str
    target: str
    suffix: str


PLATFORMS = {
    "x86_64-linux": Platform("linux64", "x86_64-linux-gnu.2.17", ".so"),
    "aarch64-linux": Platform("linux64", "aarch64-linux-gnu.2.17", ".so"),
    "x86_64-windows": Platform("win64", "x86_64-windows-gnu", ".dll"),
    "x86_64-darwin": Platform("darwin64", "x86_64-macos", ".dylib"),
    "aarch64-darwin": Platform("darwin64", "aarch64-macos", ".dylib"),
}


def this_machine() -> str:
    """The name of this platform."""
    system = {"win32": "windows", "darwin": "darwin"}.get(sys.platform, "linux")
    machine = platform.machine().lower()
    return f"{ {'amd64': 'x86_64', 'arm64': 'aarch64'}.get(machine, machine) }-{system}"


def check_platforms(platforms: Sequence[str], fmi: str) -> None:
    """Refuse platforms that are not known, that share a folder of FMI 2.0, or for which there is no compiler."""
    if isinstance(platforms, str):
        raise TypeError(f"platforms: expected a list of names such as [{platforms!r}], got the word {platforms!r}")
    for name in platforms:
        if name not in PLATFORMS:
            raise ValueError(
                f"platforms: expected some of {', '.join(PLATFORMS)}, got {name!r}{suggestion(name, PLATFORMS)}"
            )
    folders = [PLATFORMS[name].folder for name in platforms]
    if fmi == "2.0" and len(set(folders)) < len(folders):
        raise ValueError(
            f"platforms: {', '.join(platforms)}; units of FMI 2.0 have one folder for each system, whatever its "
            'processor. Give fmi="3.0", or write a unit for each'
        )
    others = [name for name in platforms if _own_compiler(name) is None]
    if others and _zig() is None:
        raise ValueError(
            f"platforms: libraries for {', '.join(others)} are compiled by zig, which is not installed here; "
            "pip install ziglang, or leave platforms out: the sources are always in the unit"
        )


def libraries(sources: Mapping[str, str], name: str, fmi: str, platforms: Sequence[str]) -> dict[str, bytes]:
    """The libraries by their places in a unit; by default that of this machine, if it has a compiler."""
    if not platforms:
        compiler = _own_compiler(this_machine())
        if compiler is None:
            _warn_of_sources_alone()
            return {}
        return dict([_library(sources, name, fmi, this_machine(), compiler)])
    return dict(_library(sources, name, fmi, one, _own_compiler(one) or _compiler_for(one)) for one in platforms)


def _own_compiler(name: str) -> list[str] | None:
    """The compiler of this machine, where that is the platform."""
    compiler = os.environ.get("CC") or shutil.which("cc")
    return compiler.split() if compiler and name == this_machine() else None


def _zig() -> list[str] | None:
    """How zig is called: the program, or the package of Python."""
    program = shutil.which("zig")
    if program is not None:
        return [program]
    return [sys.executable, "-m", "ziglang"] if importlib.util.find_spec("ziglang") else None


def _compiler_for(name: str) -> list[str]:
    zig = _zig()
    assert zig is not None
    return [*zig, "cc", "-target", PLATFORMS[name].target]


def _library(
    sources: Mapping[str, str], name: str, fmi: str, platform_name: str, compiler: Sequence[str]
) -> tuple[str, bytes]:
    """The place and the content of a library."""
    known = PLATFORMS.get(platform_name, Platform("linux64", "", ".so"))
    folder = known.folder if fmi == "2.0" else platform_name
    return f"binaries/{folder}/{name}{known.suffix}", _compiled(sources, known.suffix, compiler)


def _compiled(sources: Mapping[str, str], suffix: str, compiler: Sequence[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        for word, text in sources.items():
            (Path(folder) / word).write_text(text, encoding="utf-8")
        library = Path(folder) / f"library{suffix}"
        movable = [] if suffix == ".dll" else ["-fPIC"]
        call = [*compiler, *c_file.FLAGS.split(), "-shared", *movable, "-o", str(library), "model.c", "fmi.c", "-lm"]
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"to: {' '.join(compiler)} could not compile the model:\n{done.stderr[-2000:]}")
        return library.read_bytes()


def _warn_of_sources_alone() -> None:
    tell(
        "to: no C compiler was found ($CC, cc), so that the unit holds its sources and no library; most hosts need "
        "one. Install a compiler, or compile the sources on the host's machine"
    )
