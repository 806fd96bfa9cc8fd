"""stodyn covariance: how well each integrator delivers the variance of a linear system with white noise."""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stodyn.analysis.covariance import Advice, advise


def command(
    pole: Annotated[
        float | None, typer.Option(metavar="A", help="The pole of x' = A x + w, below 0; or give --file.")
    ] = None,
    dt: Annotated[float, typer.Option(metavar="H", help="The step.")] = 0.1,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A, B and Q of x' = A x + B w, from a .json or .npz file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of a table.")] = False,
) -> None:
    """Print by how many percent every integrator's steady-state variances are wrong, the best first."""
    if (pole is None) == (file is None):
        raise typer.BadParameter("give either --pole (one component) or --file (matrices)")
    system: dict[str, Any] = {"A": [[pole]], "B": [[1.0]]} if file is None else read_system(file)
    try:
        rows = advise(system["A"], system["B"], system.get("Q"), dt)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        typer.echo(json.dumps([plain(row) for row in rows], indent=2, allow_nan=False))
        return
    console = Console()
    console.print("Error of the steady-state variances in percent, with each method's own noise", highlight=False)
    console.print(table(rows))


def read_system(file: Path) -> dict[str, Any]:
    """A, B and, where it is given, Q."""
    if not file.is_file():
        raise typer.BadParameter(f"--file: {file} does not exist")
    try:
        found = dict(np.load(file)) if file.suffix == ".npz" else json.loads(file.read_text())
    except ValueError as error:
        raise typer.BadParameter(f"--file: {file} could not be read ({error}); expected .json or .npz") from error
    if not isinstance(found, dict) or not {"A", "B"} <= set(found) <= {"A", "B", "Q"}:
        raise typer.BadParameter(f"--file: expected the matrices A, B and, if you like, Q in {file}")
    return found


def table(rows: list[Advice]) -> Table:
    shown = Table("method", box=None, header_style="bold", padding=(0, 2, 0, 0))
    shown.columns[0].no_wrap = True
    components = len(rows[0].error) if rows[0].error is not None else 1
    for i in range(components):
        shown.add_column(f"var x{i}" if components > 1 else "var x", justify="right", no_wrap=True)
    shown.add_column("")
    for row in rows:
        errors = ["" for _ in range(components)] if row.error is None else [percent(e) for e in row.error]
        shown.add_row(*map(Text, (row.name, *errors, row.remark)))
    return shown


def percent(error: float) -> str:
    """With a sign, to three digits: 0, +0.0138, -2.58, +447."""
    if abs(error) < 5e-7:
        return "0"
    digits = max(0, 2 - int(np.floor(np.log10(abs(error)))))
    return f"{error:+.{min(digits, 6)}f}"


def plain(row: Advice) -> dict[str, Any]:
    error = None if row.error is None else row.error.tolist()
    return {"method": row.name, "error_percent": error, "remark": row.remark}
