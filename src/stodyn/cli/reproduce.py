"""stodyn reproduce: a paper's numbers beside ours."""

import dataclasses
import math
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stodyn.cli import _output
from stodyn.cli._output import AsJson, check_folder, console, duration, looked_up, print_files, print_json
from stodyn.studies.contract import Row, Size, Study, StudyResult, catalogue, find


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A study, as --list names it.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the studies and exit.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Run every study, and report at the end which failed.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Run at the paper's size; prints an estimate first.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="Only check that it runs: a few paths and steps.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for figures (default: reproduced/NAME).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a paper's experiment and print its numbers beside ours.

    What is being computed is printed to standard error, with the time since the start.
    """
    studies = catalogue()
    if list_:
        if as_json:
            print_json([{"study": study.name, "summary": study.summary} for study in studies.values()])
        else:
            console().print(listed(studies.values()))
        return
    if tiny and full:
        raise typer.BadParameter("--tiny and --full are two sizes; give one, or neither for the small one")
    size = Size.TINY if tiny else Size.FULL if full else Size.SMALL
    screen = console(stderr=as_json)
    if all_:
        if name is not None:
            raise typer.BadParameter("--all runs every study; leave NAME out")
        run_all(studies, size, out or Path("reproduced"), screen, as_json)
        return
    if name is None:
        raise typer.BadParameter("give the NAME of a study, or --all, or --list")
    study = looked_up(find, name)
    record = run_one(study, size, out or Path("reproduced") / study.name, screen)
    if as_json:
        print_json(record)


def run_one(study: Study, size: Size, out: Path, screen: Console) -> dict[str, Any]:
    """Run a study, print its table and write its figures; return its record."""
    check_folder("--out", out)
    screen.print(study.summary)
    if size is Size.FULL:
        screen.print(f"The full size takes about {duration(study.estimate())} on this machine.")
    began = time.monotonic()
    result = study.run(size, out, progress_to(console(stderr=True), began))
    took = time.monotonic() - began
    screen.print(table(result.rows))
    figures = save_figures(result, out)
    print_files(screen, figures)
    screen.print(f"{size.name.lower()} size, {duration(took)}")
    return {"study": study.name, "rows": [dataclasses.asdict(row) for row in result.rows], "files": figures}


def run_all(studies: dict[str, Study], size: Size, out: Path, screen: Console, as_json: bool) -> None:
    """Run every study, each into its own folder; one that fails does not keep the others from running."""
    failed: dict[str, str] = {}
    records = []
    for name, study in studies.items():
        screen.rule(name, style="dim")
        try:
            records.append(run_one(study, size, out / name, screen))
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            traceback.print_exception(error)
    screen.rule(style="dim")
    screen.print(f"{len(studies) - len(failed)} of {len(studies)} studies ran")
    for name, reason in failed.items():
        screen.print(f"failed: {name} ({reason})", soft_wrap=True)
    if as_json:
        print_json({"studies": records, "failed": failed})
    if failed:
        raise typer.Exit(1)


def progress_to(screen: Console, began: float) -> Callable[[str], None]:
    """Return a function that prints what is being computed, on a terminal and in a file alike."""

    def progress(words: str) -> None:
        screen.print(f"{time.monotonic() - began:7.1f} s  {words}", style="dim", soft_wrap=True)

    return progress


def save_figures(result: StudyResult, out: Path) -> list[Path]:
    """Write the figures of a study."""
    paths = [out / f"{name}.png" for name in result.figures]
    for path, figure in zip(paths, result.figures.values(), strict=True):
        figure.savefig(path, dpi=150)
    return paths


def listed(studies: Iterable[Study]) -> Table:
    """Tabulate names and summaries."""
    shown = _output.table("study", "")
    shown.columns[0].no_wrap = True
    for study in studies:
        shown.add_row(study.name, study.summary)
    return shown


def table(rows: Iterable[Row]) -> Table:
    """Tabulate the paper's numbers beside ours."""
    numbers = ("paper", "ours", "standard error")
    shown = _output.table("quantity", *numbers, "remark", right=numbers)
    for row in rows:
        stderr = number(row.stderr)
        error = "" if stderr is None else f"{stderr:.2g}"
        shown.add_row(row.quantity, printed(row.paper), printed(row.ours, row.stderr), error, row.remark)
    return shown


def number(value: Any) -> float | None:
    """Return a finite float, or None."""
    return None if value is None or not math.isfinite(value) else float(value)


def printed(value: float | str | None, stderr: float | None = None) -> str:
    """Format a value to the second digit of its standard error, or to 8 digits where it has none."""
    if value is None or isinstance(value, str):
        return value or ""
    finite, error = number(value), number(stderr)
    if finite is None:
        return str(float(value))
    if not error or not finite:
        return f"{finite:.0f}" if finite.is_integer() and abs(finite) < 1e15 else f"{finite:.8g}"
    digits = math.floor(math.log10(abs(finite))) - math.floor(math.log10(error)) + 2
    return f"{finite:#.{min(max(digits, 1), 16)}g}".rstrip(".")
