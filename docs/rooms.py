"""The rooms of the library and the list of their modules, which is read off the first lines of the files."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docstrings import cell, escaped, table

SOURCE = Path(__file__).parents[1] / "src" / "stodyn"


class Room(NamedTuple):
    """A room: its title, what it is for, and the packages and modules in it."""

    title: str
    purpose: str
    parts: tuple[str, ...]


# From the top down: a room imports from those below it and never from those above (pyproject.toml checks it).
ROOMS = (
    Room("cli", "Commands for a shell, one file each, and a tour for a first look.", ("cli", "tour")),
    Room("studies", "Published experiments, one file each, and runs described by a file.", ("studies", "runfile")),
    Room("inference", "From data to models: what a record says of states and parameters.", ("inference",)),
    Room("accuracy", "Expectations and rare events to a stated error.", ("accuracy",)),
    Room(
        "analysis",
        "Questions about methods and problems that need no ensemble; pictures; programs for other simulators.",
        ("analysis", "plot", "exporting"),
    ),
    Room("engine", "Runs: what is computed, by which program, where, and how parts become one result.", ("engine",)),
    Room("statistics", "What a run collects, and the labelled result that users get.", ("statistics", "results")),
    Room("methods", "The steps with their claims, one file each; chaos: expansions in random parameters.",
         ("methods", "chaos")),
    Room("models", "Ready-made systems, with exact answers where there are any.", ("models",)),
    Room("circuits", "SPICE netlists as equations with the noise of their elements.", ("circuits",)),
    Room("problems", "The equations: frozen records of functions and numbers, and exact conversions.", ("problems",)),
    Room("noise", "Randomness, which knows nothing of problems: normals, increments, distributions.", ("noise",)),
    Room("numerics", "Mathematics that knows nothing of dynamics, the printer of programs, and small tools.",
         ("numerics", "listing", "arguments", "deprecation", "telling", "warnings", "hints", "admission")),
)  # fmt: skip


def modules(room: Room) -> Iterator[tuple[str, str]]:
    """Yield the address in src/stodyn and the first line of every module of a room."""
    for part in room.parts:
        below = sorted((SOURCE / part).rglob("*.py")) if (SOURCE / part).is_dir() else [SOURCE / f"{part}.py"]
        for file in below:
            yield str(file.relative_to(SOURCE)), first_sentence(file)


def first_sentence(file: Path) -> str:
    """Return the first paragraph of a module's docstring in one line; "" where there is none."""
    words = ast.get_docstring(ast.parse(file.read_text())) or ""
    return " ".join(words.partition("\n\n")[0].split())


def folders(room: Room) -> dict[str, list[list[str]]]:
    """Return folder -> rows of its modules; a package's own line is that of its __init__.py."""
    found: dict[str, list[list[str]]] = {}
    for address, line in modules(room):
        home, _, name = address.rpartition("/")
        found.setdefault(home, []).append([f"`{name.removesuffix('.py')}`", cell(line)])
    return found


def page(room: Room) -> str:
    """Return the page of a room."""
    blocks = [f"# {room.title}", escaped(room.purpose)]
    for home, rows in folders(room).items():
        blocks.append(f"## {home or 'stodyn'}")
        blocks += [row[1] for row in rows if row[0] == "`__init__`"]
        others = [row for row in rows if row[0] != "`__init__`"]
        blocks.append(table(["module", "what it does"], others) if others else "")
    return "\n\n".join(block for block in blocks if block) + "\n"


def address(room: Room) -> str:
    return f"rooms/{room.title}.md"


def nav() -> list:
    """Return the navigation of the rooms, from the top down."""
    return [{room.title: address(room)} for room in ROOMS]
