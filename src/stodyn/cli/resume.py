"""stodyn resume: go on with a run that `stodyn run` began."""

from pathlib import Path
from typing import Annotated

import typer

from stodyn import runfile
from stodyn.cli import told
from stodyn.cli.run import show


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The ledger of a `stodyn run`.")],
) -> None:
    """Go on with a run from its ledger, to the same bits as if it had never been ended."""
    with told():
        show(runfile.resumed(folder))
