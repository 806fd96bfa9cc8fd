"""stodyn reproduce: a paper's numbers beside ours."""

import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stodyn.cli import _output
from stodyn.cli._output import (
    AsJson,
    check_folder,
    console,
    duration,
    errors_as_messages,
    looked_up,
    print_files,
    print_json,
)
from stodyn.studies import report
from stodyn.studies.contract import Row, Size, Study, catalogue, find


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A study, as --list names it, or all: every study, one report.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the studies and exit.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Run every study, and say at the end which failed.")] = False,
    pages: Annotated[
        bool, typer.Option("--pages", help="Run nothing: write the pages again from the results stored in --out.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Run at the paper's size; prints an estimate first.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="Only check that it runs: a few paths and steps.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for results (default: reproduced/NAME, reproduced for all)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a paper's experiment and print its numbers beside ours.

    The figures and a record of the numbers (result.json) are written. With all, every study is run into a folder of its
    own and a report is written: a page in Markdown for each paper, and index.md. Progress is printed to standard error,
    with the time since the start.
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
    if all_ and name not in (None, "all"):
        raise typer.BadParameter("--all runs every study; leave NAME out")
    if pages:
        if name not in (None, "all"):
            raise typer.BadParameter("--pages writes the pages of all stored studies; leave NAME out")
        with errors_as_messages():
            files = report.write_pages(out or Path("reproduced"), studies.values())
        print_files(screen, files)
        if as_json:
            print_json({"files": files})
        return
    if all_ or name == "all":
        run_all(studies, size, out or Path("reproduced"), screen, as_json)
        return
    if name is None:
        raise typer.BadParameter("give the NAME of a study, or all, or --list")
    study = looked_up(find, name)
    record = run_one(study, size, out or Path("reproduced") / study.name, screen)
    if as_json:
        print_json(record)


def run_one(study: Study, size: Size, out: Path, screen: Console) -> dict[str, Any]:
    """Run a study, print its table, write its figures and its record; return what --json prints."""
    check_folder("--out", out)
    screen.print(study.summary)
    if size is Size.FULL:
        screen.print(f"The full size takes about {duration(study.estimate())} on this machine.")
    began, processor = time.monotonic(), time.process_time()
    result = study.run(size, out, progress_to(console(stderr=True), began))
    took = time.monotonic() - began
    screen.print(table(result.rows))
    files = report.save(study, size, result, time.process_time() - processor, out)
    print_files(screen, files)
    screen.print(f"{size.name.lower()} size, {duration(took)}")
    return {"study": study.name, "rows": [report.plain(row) for row in result.rows], "files": files}


def run_all(studies: dict[str, Study], size: Size, out: Path, screen: Console, as_json: bool) -> None:
    """Run every study, each into its own folder, and write the report; one that fails does not stop the others."""
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
    pages = report.write_pages(out, studies.values()) if records else []
    print_files(screen, pages)
    screen.print(f"{len(studies) - len(failed)} of {len(studies)} studies ran")
    for name, reason in failed.items():
        screen.print(f"failed: {name} ({reason})", soft_wrap=True)
    if as_json:
        print_json({"studies": records, "failed": failed, "pages": pages})
    if failed:
        raise typer.Exit(1)


def progress_to(screen: Console, began: float) -> Callable[[str], None]:
    """Return a function that prints what is being computed, on a terminal and in a file alike."""

    def progress(words: str) -> None:
        screen.print(f"{time.monotonic() - began:7.1f} s  {words}", style="dim", soft_wrap=True)

    return progress


def listed(studies: Iterable[Study]) -> Table:
    """Tabulate names and summaries."""
    shown = _output.table("study", "")
    shown.columns[0].no_wrap = True
    for study in studies:
        shown.add_row(study.name, study.summary)
    return shown


def table(rows: Iterable[Row]) -> Table:
    """Tabulate the paper's numbers beside ours, and the runs that they come from."""
    numbers = ("paper", "ours", "standard error")
    shown = _output.table("quantity", *numbers, "T, h, paths", "remark", right=numbers)
    for row in rows:
        *words, T, h, paths, remark = report.cells_of(row)
        shown.add_row(*words, ", ".join(filter(None, (T, h, paths))), remark)
    return shown
