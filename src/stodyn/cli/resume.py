"""stodyn resume: continue a run that `stodyn run` began."""

from pathlib import Path
from typing import Annotated

import typer

from stodyn import runfile
from stodyn.cli._output import AsJson, errors_as_messages
from stodyn.cli.run import show


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The ledger of a `stodyn run`.")],
    as_json: AsJson = False,
) -> None:
    """Continue a run from its ledger; the result has the same bits as that of a run without interruption."""
    with errors_as_messages():
        show(runfile.resumed(folder), as_json)
