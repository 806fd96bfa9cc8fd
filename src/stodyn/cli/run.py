"""stodyn run: a run described in a TOML file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stodyn import runfile
from stodyn.cli import told
from stodyn.results import provenance


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to run; the reference shows one.")],
) -> None:
    """Run what a TOML file describes, and write what it asks for; the same again goes on where it was ended."""
    with told():
        show(runfile.read(file))


def show(described: runfile.RunFile) -> None:
    """Run it, and say what was done."""
    console = Console(highlight=False, soft_wrap=True)
    run, files = runfile.run(described)
    record = provenance(run)
    paths = (
        f"{record['paths']:,} paths x {record['steps']:,} steps" if "paths" in record else f"{record['steps']:,} steps"
    )
    console.print(f"{paths} of {record['method']} in {record['seconds']:.1f} s", markup=False)
    if described.ledger is not None:
        read, blocks = record["blocks_read"], -(-record["paths"] // record["block"])
        console.print(f"ledger {described.ledger}: {read} of {blocks} blocks were there, {blocks - read} computed")
    for path in files:
        console.print(f"wrote {path}", markup=False)
