"""stodyn allan: the Allan variance of a record in a file, and the noise of the sensor that made it."""

import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from stodyn.analysis.system.allan import allan
from stodyn.cli import _output
from stodyn.cli._output import AsJson, console, errors_as_messages, print_json
from stodyn.warnings import DoesNotFit

MOST_BYTES = 2_000_000_000


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rates, equally spaced: .csv, .txt or .npy.")],
    dt: Annotated[float, typer.Option(metavar="T", help="The time between samples.")],
    column: Annotated[
        str, typer.Option(metavar="K", help="A column: its number from 0, or its name in the file's first line.")
    ] = "0",
    terms: Annotated[str, typer.Option(metavar="LETTERS", help="Terms to fit, of QNBKRG.")] = "QNBKR",
    averaged: Annotated[bool, typer.Option("--averaged", help="Samples are averages over the time between.")] = False,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curve into this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the coefficients of a sensor's noise with intervals, and its Allan deviations."""
    with errors_as_messages():
        columns, names = read_columns(file)
        record = _chosen(columns, names, column)
        curve = allan(record, dt)
        doubt = _other_times(columns, dt)
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always", DoesNotFit)
            fit = curve.fit(terms, averaged=averaged)
        if picture is not None:
            from stodyn import plot

            plot.save(plot.allan(curve, fit), picture)
    low, high = (np.sqrt(end) for end in curve.interval(fit))
    if as_json:
        coefficients = {letter: fit[letter]._asdict() for letter in fit.terms}
        print_json({"tau": curve.tau, "deviation": curve.deviation, "low": low, "high": high,
                    "coefficients": coefficients, "p_value": fit.p_value})  # fmt: skip
        return
    screen = console()
    shown = _output.table(
        "averaging time", "deviation", "from", "to", right=("averaging time", "deviation", "from", "to")
    )
    for row in zip(curve.tau, curve.deviation, low, high, strict=True):
        shown.add_row(*(f"{number:.4g}" for number in row))
    screen.print(shown)
    screen.print(str(fit))
    for message in (*doubt, *(warning.message for warning in doubts)):
        console(stderr=True).print(f"Warning: {message}")


def _chosen(columns: np.ndarray, names: list[str], column: str) -> np.ndarray:
    """One of the columns, by its number or its name; refuses one that counts up in equal steps."""
    numbers = [str(number) for number in range(columns.shape[1])]
    chosen = next((words.index(column) for words in (names, numbers) if words.count(column) == 1), None)
    if chosen is None:
        named = f", or one of the names {', '.join(names)}" if names else ""
        raise typer.BadParameter(f"--column: expected 0 to {numbers[-1]}{named}, got {column}")
    gap = _equal_steps(columns[:, chosen])
    if gap:
        raise typer.BadParameter(
            f"--column: column {column} counts up in steps of {gap:g}, as times do; give that of the rates"
        )
    return columns[:, chosen]


def _other_times(columns: np.ndarray, dt: float) -> list[str]:
    """What is said where a column counts up in other steps than dt, which are no numbers of samples and no such times
    in ms, us or ns."""
    gaps = [(number, _equal_steps(column)) for number, column in enumerate(columns.T)]
    same = [1.0 / dt, 1.0, 1e3, 1e6, 1e9]
    return [
        f"--dt: {dt:g}, but column {number} counts up in steps of {gap:g}, as times do; every result depends on it"
        for number, gap in gaps
        if gap and not np.isclose(gap / dt, same, rtol=1e-2).any()
    ]


def _equal_steps(column: np.ndarray) -> float:
    """The steps in which a column counts up; 0 where they are not equal."""
    with np.errstate(all="ignore"):  # of numbers that are not finite
        gaps = np.diff(column)
    is_even = len(gaps) > 1 and gaps[0] > 0.0 and np.allclose(gaps, gaps[0], rtol=1e-3, atol=0.0)
    return float(gaps.mean()) if is_even else 0.0


def read_columns(file: Path) -> tuple[np.ndarray, list[str]]:
    """Read the columns of numbers, and their names where the first line holds them."""
    if not file.is_file():
        raise typer.BadParameter(f"FILE: {file} does not exist")
    if file.stat().st_size > MOST_BYTES:
        raise typer.BadParameter(f"FILE: {file} has {file.stat().st_size:,} bytes, expected at most {MOST_BYTES:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as those about files without numbers
            numbers, names = (np.load(file, allow_pickle=False), []) if file.suffix == ".npy" else _from_text(file)
    except Exception as error:  # files are refused in many ways
        raise typer.BadParameter(f"FILE: {file} could not be read ({error}); expected .csv, .txt or .npy") from error
    columns = numbers.reshape(len(numbers), -1) if numbers.ndim else numbers.reshape(1, 1)
    return columns, names if len(names) == columns.shape[1] else []


def _from_text(file: Path) -> tuple[np.ndarray, list[str]]:
    with file.open(encoding="utf-8") as lines:
        first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    separator = next((mark for mark in ",;\t" if mark in first), None)
    words = first.split(separator)
    try:
        [float(word) for word in words]
        names = []
    except ValueError:
        names = [word.strip().strip('"') for word in words]
    return np.loadtxt(file, delimiter=separator, skiprows=1 if names else 0), names
