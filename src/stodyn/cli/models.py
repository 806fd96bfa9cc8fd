"""stodyn models: the ready-made systems, one line each."""

import json
from typing import Annotated

import typer

from stodyn.models.catalogue import catalogue


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print the models as JSON instead of a table.")] = False,
) -> None:
    """List the ready-made systems: their equations, and what is known exactly of them."""
    models = catalogue()
    if as_json:
        rows = [
            {
                "name": name,
                "module": model.build.__module__,
                "summary": model.summary,
                "parameters": {key: str(value) for key, value in model.parameters.items()},
                "exact": list(model.answers),
            }
            for name, model in models.items()
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    for name, model in models.items():
        typer.echo(f"{name}  (from {model.build.__module__} import {name.upper()})\n    {model.summary}")
