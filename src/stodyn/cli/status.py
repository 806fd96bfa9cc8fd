"""stodyn status: how far a run has come."""

from pathlib import Path
from typing import Annotated

import typer

from stodyn.cli._output import AsJson, console, duration, errors_as_messages, print_json
from stodyn.engine.record import ledger


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A ledger: the folder given to ledger=.")],
    as_json: AsJson = False,
) -> None:
    """Print how many blocks of a run are done, how fast, and how long the rest will take.

    Nothing is computed and nothing is locked.
    """
    with errors_as_messages():
        status = ledger.status(folder)
    if as_json:
        print_json({**status._asdict(), "left": status.left})
        return
    for line in in_words(status):
        console().print(line)


def in_words(status: ledger.Status) -> list[str]:
    """Describe the state of a run in lines for a person."""
    share = 100 * status.done / status.blocks
    lines = [f"{status.done} of {status.blocks} blocks done ({share:.0f} %), {status.paths:,} paths"]
    if status.complete:
        return [*lines, "complete: stodyn.load reads the result"]
    if status.rate is not None and status.idle is not None and status.left is not None:
        lines.append(f"{status.rate:.3g} blocks per second recently")
        if status.idle > max(60.0, 20 / status.rate):
            lines.append(
                f"no new block for {duration(status.idle)}: the run seems to have ended; the rest would take "
                f"{duration(status.left)}"
            )
        else:
            lines.append(f"about {duration(status.left)} left")
    elif status.done == status.blocks:
        lines.append(
            "All blocks are done but the result has not been written. Run the same command again; it will finish in a "
            "moment."
        )
    return lines
