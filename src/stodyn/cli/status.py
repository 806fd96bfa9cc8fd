"""stodyn status: how far a run is."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stodyn.cli import told
from stodyn.cli.reproduce import duration
from stodyn.engine import ledger


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A ledger: the folder given to ledger=.")],
) -> None:
    """Tell how many blocks of a run are done, how fast, and how long it will take; nothing is computed or locked."""
    with told():
        found = ledger.status(folder)
    for line in in_words(found):
        Console(highlight=False).print(line)


def in_words(found: ledger.Status) -> list[str]:
    lines = [
        f"{found.done} of {found.blocks} blocks done ({100 * found.done / found.blocks:.0f} %), {found.paths:,} paths"
    ]
    if found.complete:
        return [*lines, "complete: stodyn.load gives the result"]
    if found.rate is not None and found.idle is not None and found.left is not None:
        lines.append(f"{found.rate:.3g} blocks a second over the last ones")
        if found.idle > max(60.0, 20 / found.rate):
            lines.append(
                f"nothing for {duration(found.idle)}: ended, it seems; it would take {duration(found.left)} more"
            )
        else:
            lines.append(f"about {duration(found.left)} left")
    elif found.done == found.blocks:
        lines.append("all blocks are there, and the result is not: give the same run again, which takes a moment")
    return lines
