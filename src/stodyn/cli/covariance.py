"""stodyn covariance: how well each integrator delivers the variance of a linear system with white noise."""

import json
import zipfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from stodyn.analysis.step.covariance import Advice, advise
from stodyn.cli import _output
from stodyn.cli._output import AsJson, console, errors_as_messages, print_json

MOST_BYTES = 100_000_000  # of a file of matrices, also unpacked


def command(
    pole: Annotated[
        float | None, typer.Option(metavar="A", help="The pole of x' = A x + w, below 0; or give --file.")
    ] = None,
    dt: Annotated[float, typer.Option(metavar="H", help="The step.")] = 0.1,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="A, B and Q of x' = A x + B w, from a .json or .npz file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the error of every integrator's steady-state variances in percent, the best first."""
    if (pole is None) == (file is None):
        raise typer.BadParameter("give either --pole (one component) or --file (matrices)")
    system: dict[str, Any] = {"A": [[pole]], "B": [[1.0]]} if file is None else read_system(file)
    with errors_as_messages():
        rows = advise(system["A"], system["B"], system.get("Q"), dt)
    if as_json:
        print_json([{"method": row.name, "error_percent": row.error, "remark": row.remark} for row in rows])
        return
    screen = console()
    screen.print("Error of the steady-state variances in percent, with each method's own noise")
    screen.print(table(rows))


def read_system(file: Path) -> dict[str, Any]:
    """Read A, B and, if the file has it, Q."""
    if not file.is_file():
        raise typer.BadParameter(f"--file: {file} does not exist")
    if file.stat().st_size > MOST_BYTES:
        raise typer.BadParameter(f"--file: {file} has {file.stat().st_size:,} bytes, expected at most {MOST_BYTES:,}")
    try:
        matrices = _from_archive(file) if file.suffix == ".npz" else json.loads(file.read_text(encoding="utf-8"))
    except Exception as error:  # archives and arrays are refused in many ways
        raise typer.BadParameter(f"--file: {file} could not be read ({error}); expected .json or .npz") from error
    if not isinstance(matrices, dict) or not {"A", "B"} <= set(matrices) <= {"A", "B", "Q"}:
        raise typer.BadParameter(f"--file: expected the matrices A, B and optionally Q in {file}")
    return matrices


def _from_archive(file: Path) -> dict[str, Any]:
    """Read the arrays of an .npz file, none of which is larger than the whole may be."""
    with zipfile.ZipFile(file) as archive:
        size = sum(member.file_size for member in archive.infolist())
        if size > MOST_BYTES:
            raise ValueError(f"it unpacks to {size:,} bytes, expected at most {MOST_BYTES:,}")
    return dict(np.load(file))


def table(rows: list[Advice]) -> Table:
    """Tabulate the errors, one column for each component."""
    components = len(rows[0].error) if rows[0].error is not None else 1
    errors = tuple(f"var x{i}" if components > 1 else "var x" for i in range(components))
    shown = _output.table("method", *errors, "", right=errors)
    for row in rows:
        cells = ["" for _ in errors] if row.error is None else [percent(error) for error in row.error]
        shown.add_row(row.name, *cells, row.remark)
    return shown


def percent(error: float) -> str:
    """Format with a sign, to three digits: 0, +0.0138, -2.58, +447."""
    if abs(error) < 5e-7:
        return "0"
    digits = max(0, 2 - int(np.floor(np.log10(abs(error)))))
    return f"{error:+.{min(digits, 6)}f}"
