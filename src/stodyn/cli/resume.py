"""stodyn resume: continue a run that `stodyn run` began."""

from pathlib import Path
from typing import Annotated

import typer

from stodyn import runfile
from stodyn.cli._output import Allow, AsJson, errors_as_messages
from stodyn.cli.run import show


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The ledger of a `stodyn run`.")],
    allow: Allow = None,
    as_json: AsJson = False,
) -> None:
    """Continue a run from its ledger; the result has the same bits as that of a run without interruption.

    What the run file names must be admitted as in `stodyn run`, and so must the folders of outputs that do not lie
    beside the ledger or below; if the ledger has been moved, of all outputs outside it.
    """
    with errors_as_messages():
        show(runfile.resumed(folder, allow or ()), as_json)
