"""stodyn cite: where a method comes from."""

from typing import Annotated

import typer

from stodyn.cli._output import AsJson, console, looked_up, print_json
from stodyn.cli.methods import described, in_words
from stodyn.methods.catalogue import find


def command(
    name: Annotated[str, typer.Argument(metavar="METHOD", help="A method, as `stodyn methods` names it.")],
    as_json: AsJson = False,
) -> None:
    """Print the publication a method comes from, and the source of each of its claims."""
    method = looked_up(find, name)
    if as_json:
        print_json({key: described(method.name, method)[key] for key in ("name", "citation", "claims")})
        return
    screen = console()
    screen.print(f"{method.name}: {method.citation}")
    for claim in method.claims:
        if claim.source:
            screen.print(f"  {in_words(claim, method)}: {claim.source}")
