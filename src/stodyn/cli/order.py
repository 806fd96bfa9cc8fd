"""stodyn order: the order of a method on a model, measured."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray

from stodyn.cli._output import (
    AsJson,
    check_file,
    console,
    errors_as_messages,
    looked_up,
    print_files,
    print_json,
    table,
)
from stodyn.methods.catalogue import find as find_method
from stodyn.models.catalogue import find as find_model


class Kind(StrEnum):
    """Which order is measured."""

    strong = "strong"
    weak = "weak"
    deterministic = "deterministic"


def command(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="A method, as `stodyn methods` names it.")],
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model, as `stodyn models` names it.")],
    *,
    kind: Annotated[Kind, typer.Option(help="Which order.")] = Kind.strong,
    steps: Annotated[
        str, typer.Option(metavar="N,N,...", help="Numbers of steps over the interval; each gives one error.")
    ] = "8,16,32,64,128",
    end: Annotated[float, typer.Option(metavar="T", help="The interval is (0, T).")] = 1.0,
    paths: Annotated[
        int | None, typer.Option(metavar="N", help="Number of paths (default: 1000 strong, 100 000 weak).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the Brownian paths.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the errors to a file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the strong, weak or deterministic order of a method on a model.

    The errors are against the model's exact solution where it has one, else against a fine reference on the same paths.
    """
    chosen, system = looked_up(find_method, method), looked_up(find_model, model)
    check_file("--out", out)
    with errors_as_messages():
        study = measure(kind, chosen, system, t=(0.0, end), steps=counts(steps), paths=paths, seed=seed)
    if out is not None:
        from stodyn import plot

        plot.save(plot.order(study), out)
    files = [] if out is None else [out]
    if as_json:
        heads = ("h", "error", "stderr", "used", "reason")
        points = [dict(zip(heads, row, strict=True)) for row in rows(study)]
        print_json({**study.attrs, "points": points, "files": files})
        return
    screen = console()
    shown = table("h", "error", "standard error", "used", right=("h", "error", "standard error"))
    for h, error, stderr, used, reason in rows(study):
        shown.add_row(f"{h:.6g}", f"{error:.4g}", f"{stderr:.2g}" if stderr else "", "yes" if used else f"no: {reason}")
    screen.print(shown)
    a = study.attrs
    interval = f"{100 * a['level']:g}% interval [{a['order_low']:.3f}, {a['order_high']:.3f}]"
    screen.print(f"{a['kind']} order {a['order']:.3f}, {interval}:")
    screen.print(f"{a['method']} on {a['model']} against {a['reference']}")
    print_files(screen, files)


def counts(words: str) -> list[int]:
    """Read numbers of steps from 8,16,32."""
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise ValueError(f"--steps: expected whole numbers such as 8,16,32, got {words!r}") from None


def measure(kind: Kind, method: Any, model: Any, *, paths: int | None, seed: int, **options: Any) -> xarray.Dataset:
    """Measure one kind of order."""
    from stodyn.analysis.step.order import (  # compiles JAX programs on import
        deterministic_order,
        strong_order,
        weak_order,
    )

    if kind is Kind.deterministic:
        return deterministic_order(model, method, **options)
    options |= {"seed": seed} if paths is None else {"seed": seed, "paths": paths}
    return (strong_order if kind is Kind.strong else weak_order)(model, method, **options)


def rows(study: xarray.Dataset) -> list[tuple]:
    """Return (step, error, standard error, whether the fit used it, why not) for each step."""
    names = ("step", "error", "error_stderr", "used", "reason")
    return list(zip(*(study[name].values.tolist() for name in names), strict=True))
