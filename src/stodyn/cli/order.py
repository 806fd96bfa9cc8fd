"""stodyn order: the order of a method on a model, measured."""

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stodyn.cli import looked_up
from stodyn.methods.catalogue import find as find_method
from stodyn.models.catalogue import find as find_model


class Kind(StrEnum):
    strong = "strong"
    weak = "weak"
    deterministic = "deterministic"


def command(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="A method, as `stodyn methods` names it.")],
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of stodyn.models, such as kubo.")],
    kind: Annotated[Kind, typer.Option(help="Which order.")] = Kind.strong,
    steps: Annotated[
        str, typer.Option(metavar="N,N,...", help="Steps over the interval, a point each.")
    ] = "8,16,32,64,128",
    end: Annotated[float, typer.Option(metavar="T", help="The interval is (0, T).")] = 1.0,
    paths: Annotated[int | None, typer.Option(metavar="N", help="Paths (default: 1000 strong, 100 000 weak).")] = None,
    seed: Annotated[int, typer.Option(help="Of the Brownian paths.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the errors to a file.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the table as JSON.")] = None,
) -> None:
    """Measure the strong, weak or deterministic order of a method on a model.

    The errors are against the model's exact solution where it has one, else against a fine reference on the same paths.
    """
    chosen, system = looked_up(find_method, method), looked_up(find_model, model)
    for option, file in (("--out", out), ("--json", json_file)):
        if file is not None and not file.parent.is_dir():
            raise typer.BadParameter(f"{option}: the folder {file.parent} does not exist; make it first")
    try:
        study = measured(kind, chosen, system, t=(0.0, end), steps=counts(steps), paths=paths, seed=seed)
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    console = Console()
    show(study, console)
    if out is not None:
        from stodyn import plot

        plot.order(study).figure.savefig(out, dpi=150)  # type: ignore[union-attr]
    if json_file is not None:
        json_file.write_text(json.dumps(record(study), indent=2, allow_nan=False) + "\n")
    for file in (out, json_file):
        if file is not None:
            console.print(f"wrote {file}", soft_wrap=True, highlight=False, markup=False)


def counts(words: str) -> list[int]:
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise ValueError(f"--steps: expected whole numbers such as 8,16,32, got {words!r}") from None


def measured(kind: Kind, method: Any, model: Any, *, paths: int | None, seed: int, **options: Any) -> xarray.Dataset:
    from stodyn.analysis.order import deterministic_order, strong_order, weak_order  # compiles JAX programs on import

    if kind is Kind.deterministic:
        return deterministic_order(method, model, **options)
    options |= {"seed": seed} if paths is None else {"seed": seed, "paths": paths}
    return (strong_order if kind is Kind.strong else weak_order)(method, model, **options)


def show(study: xarray.Dataset, console: Console) -> None:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for head in ("h", "error", "standard error"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("used")
    for h, error, stderr, used, reason in rows(study):
        told = Text("yes" if used else f"no: {reason}")
        table.add_row(f"{h:.6g}", f"{error:.4g}", f"{stderr:.2g}" if stderr else "", told)
    console.print(table)
    a = study.attrs
    interval = f"{100 * a['level']:g}% interval [{a['order_low']:.3f}, {a['order_high']:.3f}]"
    said = f"{a['kind']} order {a['order']:.3f}, {interval}: {a['method']} on {a['model']} against {a['reference']}"
    console.print(said, highlight=False, markup=False, soft_wrap=True)


def rows(study: xarray.Dataset) -> list[tuple]:
    names = ("step", "error", "error_stderr", "used", "reason")
    return list(zip(*(study[name].values.tolist() for name in names), strict=True))


def record(study: xarray.Dataset) -> dict[str, Any]:
    """The study in plain values; what is not a finite number is null, since JSON has no other name for it."""

    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    heads = ("h", "error", "stderr", "used", "reason")
    points = [dict(zip(heads, map(plain, row), strict=True)) for row in rows(study)]
    return {name: plain(value) for name, value in study.attrs.items()} | {"points": points}
