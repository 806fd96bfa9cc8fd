"""stodyn cite: where a method is from."""

from typing import Annotated

import typer

from stodyn.cli import looked_up
from stodyn.cli.methods import in_words
from stodyn.methods.catalogue import find


def command(name: Annotated[str, typer.Argument(metavar="METHOD", help="A method, as `stodyn methods` names it.")]):
    """Print where a method is from, and the source of each of its claims."""
    method = looked_up(find, name)
    typer.echo(f"{method.name}: {method.citation}")
    for claim in method.claims:
        if claim.source:
            typer.echo(f"  {in_words(claim, method)}: {claim.source}")
