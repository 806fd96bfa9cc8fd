"""stodyn reproduce: a paper's numbers beside ours."""

import json
import math
import time
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stodyn.cli import looked_up
from stodyn.studies.contract import Row, Size, Study, StudyResult, catalogue, find


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A study, as --list names it.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the studies and stop.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Run every study, and say at the end which failed.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Run at the paper's size; prints an estimate first.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="Only see that it runs: a few paths and steps.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the rows as JSON.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for figures (default: reproduced/NAME).")
    ] = None,
) -> None:
    """Run a paper's experiment and print its numbers beside ours."""
    console = Console()
    if list_:
        console.print(listed(catalogue().values()))
        return
    if tiny and full:
        raise typer.BadParameter("--tiny and --full are two sizes; give one, or neither for the small one")
    size = Size.TINY if tiny else Size.FULL if full else Size.SMALL
    if all_:
        if name is not None or json_file is not None:
            raise typer.BadParameter("--all runs every study; leave NAME and --json out")
        run_all(size, out or Path("reproduced"), console)
        return
    if name is None:
        raise typer.BadParameter("give the NAME of a study, or --all, or --list")
    study = looked_up(find, name)
    if json_file is not None and not json_file.parent.is_dir():
        raise typer.BadParameter(f"--json: the folder {json_file.parent} does not exist; make it first")
    run_one(study, size, out or Path("reproduced") / study.name, json_file, console)


def run_one(study: Study, size: Size, out: Path, json_file: Path | None, console: Console) -> None:
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"--out: {out} is not a folder; name another")
    out.mkdir(parents=True, exist_ok=True)

    console.print(study.summary, markup=False, highlight=False)
    if size is Size.FULL:
        console.print(f"The full size takes about {duration(study.estimate())} on this machine.")
    result, took = run(study, size, out)
    console.print(table(result.rows))
    figures = save_figures(result, out)
    if json_file is not None:
        json_file.write_text(json.dumps(record(study, result, figures), indent=2, allow_nan=False) + "\n")
    for path in [*figures, *([json_file] if json_file else [])]:
        console.print(f"wrote {path}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"{size.name.lower()} size, {duration(took)}")


def run_all(size: Size, out: Path, console: Console) -> None:
    """Every study, each into its own folder; one that fails does not keep the others from running."""
    failed: dict[str, str] = {}
    studies = catalogue()
    for name, study in studies.items():
        console.rule(name, style="dim")
        try:
            run_one(study, size, out / name, None, console)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            traceback.print_exception(error)
    console.rule(style="dim")
    console.print(f"{len(studies) - len(failed)} of {len(studies)} studies ran", highlight=False)
    for name, reason in failed.items():
        console.print(f"failed: {name} ({reason})", soft_wrap=True, highlight=False, markup=False)
    if failed:
        raise typer.Exit(1)


def run(study: Study, size: Size, out: Path) -> tuple[StudyResult, float]:
    """The result and the seconds it took; what is being computed goes to a terminal's standard error."""
    began = time.monotonic()
    terminal = Console(stderr=True)

    def progress(words: str) -> None:
        if terminal.is_terminal:
            terminal.print(f"{time.monotonic() - began:7.1f} s  {words}", style="dim", highlight=False, markup=False)

    result = study.run(size, out, progress)
    return result, time.monotonic() - began


def save_figures(result: StudyResult, out: Path) -> list[Path]:
    paths = [out / f"{name}.png" for name in result.figures]
    for path, figure in zip(paths, result.figures.values(), strict=True):
        figure.savefig(path, dpi=150)
    return paths


def listed(studies) -> Table:
    rows = Table("study", "", box=None, header_style="bold", padding=(0, 2, 0, 0))
    rows.columns[0].no_wrap = True
    for study in studies:
        rows.add_row(Text(study.name), Text(study.summary))
    return rows


def table(rows) -> Table:
    shown = Table("quantity", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for head in ("paper", "ours", "standard error"):
        shown.add_column(head, justify="right", no_wrap=True)
    shown.add_column("remark")
    for row in rows:
        stderr = number(row.stderr)
        error = "" if stderr is None else f"{stderr:.2g}"
        cells = (row.quantity, printed(row.paper), printed(row.ours, row.stderr), error, row.remark)
        shown.add_row(*map(Text, cells))
    return shown


def record(study: Study, result: StudyResult, figures: list[Path]) -> dict[str, Any]:
    """The result in plain values; what is not a finite number is null, since JSON has no other name for it."""

    def plain(row: Row) -> dict[str, Any]:
        values = {"paper": row.paper, "ours": row.ours, "stderr": row.stderr}
        values = {key: value if isinstance(value, str) else number(value) for key, value in values.items()}
        return {"quantity": row.quantity, **values, "remark": row.remark}

    return {
        "study": study.name,
        "rows": [plain(row) for row in result.rows],
        "figures": [str(path) for path in figures],
    }


def number(value: Any) -> float | None:
    """A finite float, or None."""
    return None if value is None or not math.isfinite(value) else float(value)


def printed(value: float | str | None, stderr: float | None = None) -> str:
    """A value to the second digit of its standard error, or to 8 digits where it has none."""
    if value is None or isinstance(value, str):
        return value or ""
    finite, error = number(value), number(stderr)
    if finite is None:
        return str(float(value))
    if not error or not finite:
        return f"{finite:.0f}" if finite.is_integer() and abs(finite) < 1e15 else f"{finite:.8g}"
    digits = math.floor(math.log10(abs(finite))) - math.floor(math.log10(error)) + 2
    return f"{finite:#.{min(max(digits, 1), 16)}g}".rstrip(".")


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
