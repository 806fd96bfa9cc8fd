"""The command `stodyn`: every file of this folder is a sub-command, its function `command`."""

import contextlib
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Annotated, TypeVar

import typer

from stodyn import listing
from stodyn.engine.failure import PathsFailed
from stodyn.engine.worker import WorkerDiffers, WorkersDied

T = TypeVar("T")


def application() -> typer.Typer:
    """The application with every command found in this folder."""
    from stodyn import cli

    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

    def tell_version(asked: bool) -> None:
        if asked:
            typer.echo(f"stodyn {metadata.version('stodyn')}")
            raise typer.Exit

    @app.callback()
    def stodyn(
        version: Annotated[
            bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Print the version and leave.")
        ] = False,
    ) -> None:
        """Simulate physical systems with noise in them."""

    for module in listing.modules(cli):
        app.command(module.__name__.rpartition(".")[2].replace("_", "-"))(module.command)
    return app


def main() -> None:
    application()()


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Errors in what the user gave, told in a line."""
    try:
        yield
    except (ValueError, TypeError, OSError, MemoryError, ImportError, PathsFailed, WorkerDiffers, WorkersDied) as error:
        raise typer.BadParameter(str(error)) from error


def looked_up(find: Callable[[str], T], name: str) -> T:
    """find(name), its error told as a mistake in the command line."""
    try:
        return find(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
