"""What the commands share: results in words or as JSON, lines of at most 100 columns, errors in one message."""

import contextlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from stodyn.admission import NotAdmitted
from stodyn.engine.failure import PathsFailed
from stodyn.engine.places.worker import WorkerDiffers, WorkersDied

T = TypeVar("T")
WIDEST = 100  # columns

AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else there.")
]

Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="FILE_OR_MODULE",
        help="What the file may use: a Python file or a module that it names as module:name, a folder (with a slash at "
        "its end) outside its own to write into, the address of a Dask scheduler. May be given several times.",
    ),
]


def print_json(result: Any) -> None:
    """Print a result as JSON: arrays as lists, paths as text, and null for every number that is not finite."""
    typer.echo(json.dumps(plain(result), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """Convert a value to what JSON has names for."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def console(stderr: bool = False) -> Console:
    """Return a console that prints text as it is, in lines of at most 100 columns."""
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    return Console(stderr=stderr, highlight=False, markup=False, width=width)


def table(*heads: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table without lines; columns named in `right` hold numbers."""
    empty = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for head in heads:
        empty.add_column(head, justify="right" if head in right else "left", no_wrap=head in right)
    return empty


def print_files(screen: Console, files: list[Path]) -> None:
    """Print the names of the files that a command wrote."""
    for file in files:
        screen.print(f"wrote {file}", soft_wrap=True)


@contextlib.contextmanager
def errors_as_messages() -> Iterator[None]:
    """Turn errors in the user's input and failures of a run into one message and an exit code."""
    try:
        yield
    except NotAdmitted as error:  # in plain lines, so that the command in it can be copied
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error
    except (PathsFailed, WorkerDiffers, WorkersDied) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


def looked_up(find: Callable[[str], T], name: str) -> T:
    """Return find(name); an unknown name is a mistake in the command line."""
    with errors_as_messages():
        return find(name)


def check_file(option: str, file: Path | None) -> None:
    """Refuse a file in a folder that does not exist before anything is computed."""
    if file is not None and not file.parent.is_dir():
        raise typer.BadParameter(f"{option}: the folder {file.parent} does not exist; make it first")


def check_folder(option: str, folder: Path) -> Path:
    """Make a folder for results; refuse one that cannot be made or written into."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except FileExistsError:
        raise typer.BadParameter(f"{option}: {folder} is not a folder; name another") from None
    except OSError as error:
        raise typer.BadParameter(
            f"{option}: nothing can be written into {folder} ({error.strerror}); name another folder"
        ) from None
    return folder


def duration(seconds: float) -> str:
    """Format a time span: 12.3 s, 5 min, 2 h 5 min."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
