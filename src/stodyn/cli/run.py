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
    if "probability" in run:
        low, high = float(run["probability_low"]), float(run["probability_high"])
        console.print(
            f"{record['event']}: {float(run['probability']):.4g}, 95 %: {low:.3g} to {high:.3g}", markup=False
        )
        console.print(
            f"{record['runs']} runs, {record['path_steps']:,} path-steps in {record['seconds']:.1f} s", markup=False
        )
        _list(console, files)
        return
    paths = (
        f"{record['paths']:,} paths x {record['steps']:,} steps" if "paths" in record else f"{record['steps']:,} steps"
    )
    console.print(f"{paths} of {record['method']} in {record['seconds']:.1f} s", markup=False)
    if described.ledger is not None:
        read, blocks = record["blocks_read"], -(-record["paths"] // record["block"])
        console.print(f"ledger {described.ledger}: {read} of {blocks} blocks were there, {blocks - read} computed")
    if "stop_time" in run:
        stopped = int((run["stopped_by"] >= 0).sum())
        console.print(f"{stopped:,} paths were stopped, at {float(run['stop_time'].mean()):.4g} on average")
    _list(console, files)


def _list(console: Console, files: list[Path]) -> None:
    for path in files:
        console.print(f"wrote {path}", markup=False)
