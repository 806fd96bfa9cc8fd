"""The command `stodyn`: every file of this folder is a sub-command, its function `command`.

Files whose names begin with an underscore hold what the commands share.
"""

from typing import Annotated

import typer

import stodyn
from stodyn import listing

EXIT_CODES = (
    "Exit codes: 0 when the command did what it was asked; 1 when it ran and failed (paths that failed, workers that "
    "died, a study that raised an error); 2 when an argument or a file it was given cannot be used; 130 when it was "
    "interrupted."
)


def application() -> typer.Typer:
    """Return the application with every command found in this folder."""
    from stodyn import cli

    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

    def print_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"stodyn {stodyn.__version__}")
            raise typer.Exit

    @app.callback(epilog=EXIT_CODES)
    def callback(
        version: Annotated[
            bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        """Simulate physical systems with noise in them."""

    for module in listing.modules(cli):
        name = module.__name__.rpartition(".")[2]
        if not name.startswith("_"):
            app.command(name.replace("_", "-"), epilog=EXIT_CODES)(module.command)
    return app


def main() -> None:
    """Run the command line."""
    application()()
