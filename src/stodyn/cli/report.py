"""stodyn report: one page of a saved run, with its numbers, their errors, pictures, and how it was made."""

import base64
import functools
import html
import json
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from stodyn import plot, results
from stodyn.cli._output import AsJson, console, errors_as_messages, print_json
from stodyn.engine.record import ledger
from stodyn.plot.shared import unit_of_number
from stodyn.tour.page import STYLE

CURVES = {"bin", "edge", "lag", "frequency", "tau"}  # dimensions of variables that are curves
MOST_ROWS, MOST_PICTURES = 80, 24  # of a page that is read
MOST_POINTS = 5  # of a sweep, in its table
OWN_STYLE = ".warning { border-left: .3rem solid #D55E00; padding: .3rem .8rem; } pre { white-space: pre-wrap; }"
ITEM = r'(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)'  # of JSON: a string, a number, true, false or null
FLAT = re.compile(rf"\[\n\s*((?:{ITEM},\n\s*)*{ITEM})\n\s*\]")  # a list of these as json.dumps indents it


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of stodyn.save, or a finished ledger.")],
    out: Annotated[Path | None, typer.Option(help="The page; by default FILE with the ending .html.")] = None,
    title: Annotated[str, typer.Option(help="The heading of the page.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML page of a saved run: numbers with errors, pictures, provenance, what to heed."""
    with errors_as_messages():
        run = ledger.load(file)
        own = file.with_suffix(".html")
        if out is None and own.is_symlink():  # one that came with the file would lead elsewhere
            own.unlink()
        try:
            page = write(run, out or own, title or file.stem)
        except (AttributeError, IndexError, KeyError, TypeError) as error:  # in what somebody else made of a record
            words = f"{file}: its record is not that of a run of stodyn ({type(error).__name__}: {error})"
            raise ValueError(words) from error
    if as_json:
        print_json({"page": page, "bytes": page.stat().st_size})
        return
    console().print(f"Open {page}: {page.stat().st_size / 1e3:.0f} kB, with its pictures.", soft_wrap=True)


def write(run: xr.Dataset, page: Path, title: str) -> Path:
    """Write the page of a run to a file."""
    record = results.provenance(run)
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"]
    parts.append(f"<title>{html.escape(title)}</title><style>{STYLE}\n{OWN_STYLE}</style><h1>{html.escape(title)}</h1>")
    for name in ("problem", "run", "advice"):
        parts += [f"<p>{html.escape(str(run.attrs[name]))}</p>"] if name in run.attrs else []
    parts += [f"<p class=warning>{html.escape(words)}</p>" for words in to_heed(run, record)]
    sections = [_table(run, record), _gallery(run, record)]
    for section in sections[::-1] if "sweep" in record else sections:  # of a sweep, curves say more than a table
        parts += section
    whole = html.escape(spelled(record))
    parts.append(
        f"<h2>How it was made</h2><details><summary>The record of the run</summary><pre>{whole}</pre></details>"
    )
    page.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return page


def _table(run: xr.Dataset, record: dict[str, Any]) -> list[str]:
    """The numbers as HTML; those of a long sweep at some of its points."""
    shown, where = thinned(run, record)
    errors = "how far they may be off" if "coefficient" in run else "the standard error and the interval of 95 %"
    parts = [f"<h2>Numbers</h2><p>At the last stored time{where}, with {errors}.</p>"]
    rows = list(numbers(shown))
    has_units = any(unit for *_, unit in rows)
    heads = ("", "value", "± error", "low", "high", *(("unit",) if has_units else ()))
    parts.append(f"<div class=wide><table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>")
    for name, *values, unit in rows[:MOST_ROWS]:
        cells = "".join(f"<td>{'' if value is None else f'{value:.5g}'}</td>" for value in values)
        cells += f"<td>{html.escape(unit)}</td>" if has_units else ""
        parts.append(f"<tr><td>{html.escape(name)}</td>{cells}</tr>")
    parts.append("</table></div>")
    return parts + ([f"<p>{len(rows) - MOST_ROWS} more are in the file.</p>"] if len(rows) > MOST_ROWS else [])


def _gallery(run: xr.Dataset, record: dict[str, Any]) -> list[str]:
    """The pictures as HTML."""
    images = (f"<p><img alt='{html.escape(name)}' src='data:image/png;base64,{image}'></p>"
              for name, image in pictures(run, record))  # fmt: skip
    return ["<h2>Pictures</h2>", *images]


def thinned(run: xr.Dataset, record: dict[str, Any]) -> tuple[xr.Dataset, str]:
    """Return a run, of a sweep of many points the first, the last and some between, and words that say which."""
    words = ""
    for dim in (str(name) for name in record.get("sweep", {}).get("dimensions", ()) if name in run.dims):
        size, most = run.sizes[dim], MOST_POINTS
        if size > most:
            run = run.isel({dim: np.unique(np.linspace(0, size - 1, most).round().astype(int))})
            words += f", at {most} of the {size} points of {dim}"
    return run, words


def spelled(record: dict[str, Any]) -> str:
    """Return the record of a run as indented JSON, with lists on one line, and the points of a sweep as lists."""
    points = {dim: _by_name(own) for dim, own in record.get("sweep", {}).get("points", {}).items()}
    record = record | ({"sweep": record["sweep"] | {"points": points}} if points else {})
    whole = json.dumps(record, indent=1, ensure_ascii=False)
    return FLAT.sub(lambda items: "[" + re.sub(r",\n +", ", ", items[1]) + "]", whole)


def _by_name(points: Any) -> Any:
    """Points [{name: value}, ...] as {name: [value, ...]}."""
    if not (isinstance(points, list) and points and all(isinstance(one, dict) for one in points)):
        return points
    return {name: [one.get(name) for one in points] for name in points[0]}


def to_heed(run: xr.Dataset, record: dict[str, Any]) -> Iterator[str]:
    """What of the record a reader must know before the numbers."""
    if run.sizes.get("failure", 0):
        yield f"{run.sizes['failure']} of {record['paths']:,} paths failed and are left out of the numbers."
    if "failures" in run:
        yield f"{int(run['failures'].sum())} paths failed at some of the points and are left out of the numbers."
    if record.get("rounded_steps"):
        yield f"{record['rounded_steps']:,} steps were solved no better than rounding allows."
    yield from record.get("warnings", ())
    for fault in record.get("faults", ()):
        yield f"A fault of stodyn, which the run went around: {fault}."
    for reason in (
        json.loads(run.attrs.get("reasons", "[]")) if str(run.attrs.get("reasons", "")).startswith("[") else ()
    ):
        yield f"Not to be trusted: {reason}."
    lost = [str(name) for name in run.data_vars if run[name].dtype.kind == "f" and np.isinf(run[name].values).any()]
    if lost:
        yield f"Infinite numbers stand in {', '.join(lost)}."


def numbers(run: xr.Dataset) -> Iterator[tuple[str, float, float, float | None, float | None, str]]:
    """Every number that has an error, at the last time: its name, value, error, interval and unit.

    Those of an expansion in random parameters have no standard error, but an estimate of how far they are off.
    """
    endings = ("_stderr", "_error") if "coefficient" in run else ("_stderr",)
    for name in map(str, run.data_vars):
        error = next((f"{name}{ending}" for ending in endings if f"{name}{ending}" in run), None)
        if error is None or run[name].dtype.kind not in "fi":
            continue
        parts = [run[name], run[error], *_limits(run, name)]
        times = [dim for dim in run[name].dims if str(dim).startswith("time")]
        last = [part.isel({dim: -1 for dim in times}) for part in parts]
        if any(str(dim) in CURVES or str(dim).endswith("_middle") for dim in last[0].dims):
            continue  # it is drawn
        for place in np.ndindex(last[0].shape):
            at = [_place(last[0], str(dim), k) for dim, k in zip(last[0].dims, place, strict=True)]
            values = [float(part.values[place]) for part in last]
            unit = unit_of_number(run, last[0][place])
            yield (f"{name} ({', '.join(at)})" if at else name, *values, *[None] * (4 - len(values)), unit)  # type: ignore[misc]


def _limits(run: xr.Dataset, name: str) -> list[xr.DataArray]:
    """The ends of the interval of a variable, where it has one."""
    if f"{name}_low" in run and f"{name}_high" in run:
        return [run[f"{name}_low"], run[f"{name}_high"]]
    limits = results.interval(run, name) if "interval" in run[name].attrs else None
    return [] if limits is None else [limits["low"], limits["high"]]


def _place(variable: xr.DataArray, dim: str, k: int) -> str:
    """Where the entry k along a dimension stands, in words: `x` of the components, `k = 2.5` of a parameter."""
    along = {str(name): own.values[k] for name, own in variable.coords.items() if own.dims == (dim,)}
    along = {dim: along[dim]} if dim in along else along
    is_number = {name: np.issubdtype(type(value), np.number) for name, value in along.items()}
    words = [f"{name} = {value:.5g}" if is_number[name] else str(value) for name, value in along.items()]
    return ", ".join(words) or f"{dim} {k}"


def pictures(run: xr.Dataset, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The names and the PNGs, in base64, of the pictures that fit what the run holds."""
    with tempfile.TemporaryDirectory() as folder:
        for k, (name, draw) in enumerate(list(drawings(run, record))[:MOST_PICTURES]):
            file = Path(folder) / f"{k}.png"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    plot.save(draw(), file)
            except ValueError:
                continue  # one time only, or a shape that this picture does not show
            yield name, base64.b64encode(file.read_bytes()).decode()


def drawings(run: xr.Dataset, record: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The pictures of a run: for each its name, and the call that draws it."""
    components = [str(name) for name in np.atleast_1d(run["component"].values)] if "component" in run.coords else []
    if "sweep" in record:
        for name in (
            str(v) for v in run.data_vars if f"{v}_stderr" in run and not str(v).startswith(("std", "density"))
        ):
            for own in components if "component" in run[name].dims else [None]:
                yield f"{name} {own or ''}", functools.partial(plot.sweep, run, name, own)
        return
    if "swept" in record and "probability_low" in run:
        yield "fragility", functools.partial(plot.fragility, run)
    by_component = {"variance": plot.band, "path": plot.paths, "density": plot.histogram, "spectrum": plot.spectrum,
                    "autocorrelation": plot.autocorrelation, "sobol_first": plot.indices}  # fmt: skip
    for name, draw in by_component.items():
        if name in run.variables and not (name == "path" and "variance" in run):
            for own in components:
                yield f"{name} of {own}", functools.partial(draw, run, own)
    for name in map(str, run.data_vars):
        for ending, by_name in (("_survival", plot.survival), ("_hazard", plot.hazard), ("_passed", plot.fragility)):
            if name.endswith(ending) and f"{name}_stderr" in run:
                yield name, functools.partial(by_name, run, name.removesuffix(ending))
        if name.endswith("_quantile") and f"{name}_stderr" in run:
            yield name, functools.partial(plot.profile, run, name.removesuffix("_quantile"))
        if f"{name}_std" in run and f"{name}_stderr" in run:
            yield name, functools.partial(plot.observable, run, name, spread=True)
