"""stodyn status: how far a run has come."""

from pathlib import Path
from typing import Annotated

import typer

from stodyn.cli._output import AsJson, console, duration, errors_as_messages, print_json
from stodyn.engine import ledger


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A ledger: the folder given to ledger=.")],
    as_json: AsJson = False,
) -> None:
    """Print how many blocks of a run are done, how fast, and how long the rest will take.

    Nothing is computed and nothing is locked.
    """
    with errors_as_messages():
        found = ledger.status(folder)
    if as_json:
        print_json({**found._asdict(), "left": found.left})
        return
    for line in in_words(found):
        console().print(line)


def in_words(found: ledger.Status) -> list[str]:
    """Describe the state of a run in lines for a person."""
    lines = [
        f"{found.done} of {found.blocks} blocks done ({100 * found.done / found.blocks:.0f} %), {found.paths:,} paths"
    ]
    if found.complete:
        return [*lines, "complete: stodyn.load reads the result"]
    if found.rate is not None and found.idle is not None and found.left is not None:
        lines.append(f"{found.rate:.3g} blocks per second recently")
        if found.idle > max(60.0, 20 / found.rate):
            lines.append(
                f"no new block for {duration(found.idle)}: the run seems to have ended; the rest would take "
                f"{duration(found.left)}"
            )
        else:
            lines.append(f"about {duration(found.left)} left")
    elif found.done == found.blocks:
        lines.append(
            "All blocks are done but the result has not been written. Run the same command again; it will finish in a "
            "moment."
        )
    return lines
