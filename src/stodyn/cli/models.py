"""stodyn models: the ready-made systems."""

from stodyn.cli._output import AsJson, console, print_json
from stodyn.models.catalogue import catalogue


def command(as_json: AsJson = False) -> None:
    """List the ready-made systems: their equations, and what is known exactly about them."""
    models = catalogue()
    if as_json:
        print_json(
            [
                {
                    "name": name,
                    "module": model.build.__module__,
                    "summary": model.summary,
                    "parameters": {key: str(value) for key, value in model.parameters.items()},
                    "exact": list(model.answers),
                }
                for name, model in models.items()
            ]
        )
        return
    screen = console()
    for name, model in models.items():
        screen.print(f"{name}  (from {model.build.__module__} import {name.upper()})")
        screen.print(f"    {model.summary}")
