"""stodyn run: a run described in a TOML file."""

from pathlib import Path
from typing import Annotated

import typer
import xarray

from stodyn import runfile
from stodyn.cli._output import Allow, AsJson, console, errors_as_messages, print_files, print_json
from stodyn.results import provenance


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to run, as above.")],
    allow: Allow = None,
    as_json: AsJson = False,
) -> None:
    """Carry out the run that a TOML file describes and write the outputs it asks for.

    Where the file names a ledger, the same command continues a run that was interrupted. An example:

    \b
        model = {name = "ornstein_uhlenbeck", parameters = {rate = 2.0}}
        grid = {t = [0, 5], dt = 0.01}
        run = {paths = 100000, seed = 1, ledger = "ou"}
        collect = [{statistic = "Moments", every = 10}]
        output = {netcdf = "ou.nc"}

    The name is one of `stodyn models`, or my_model:problem for a problem in my_model.py, which `--allow my_model.py`
    admits: no file has code run that you have not admitted.
    `python -m pydoc stodyn.runfile` explains all tables and keys.
    """
    with errors_as_messages():
        show(runfile.read(file, allow or ()), as_json)


def show(described: runfile.RunFile, as_json: bool) -> None:
    """Carry out the run that a file describes, and print a summary."""
    result, files = runfile.run(described)
    if as_json:
        numbers = {name: variable.item() for name, variable in result.data_vars.items() if not variable.dims}
        print_json({"provenance": provenance(result), "numbers": numbers, "files": files})
        return
    screen = console()
    for line in in_words(result, described.ledger is not None):
        screen.print(line)
    print_files(screen, files)


def in_words(result: xarray.Dataset, has_ledger: bool) -> list[str]:
    """Describe a run in lines for a person."""
    record = provenance(result)
    if "probability" in result:
        low, high = float(result["probability_low"]), float(result["probability_high"])
        return [
            f"{record['event']}: {float(result['probability']):.4g}, 95 %: {low:.3g} to {high:.3g}",
            f"{record['runs']} runs, {record['path_steps']:,} path-steps in {record['seconds']:.1f} s",
        ]
    paths = f"{record['paths']:,} paths × " if "paths" in record else ""
    lines = [f"{paths}{record['steps']:,} steps of {record['method']} in {record['seconds']:.1f} s"]
    if has_ledger:
        read, blocks = record["blocks_read"], -(-record["paths"] // record["block"])
        lines.append(f"{read} of {blocks} blocks were read from the ledger, {blocks - read} were computed")
    if "stop_time" in result:
        stopped = int((result["stopped_by"] >= 0).sum())
        lines.append(f"{stopped:,} paths were stopped, at {float(result['stop_time'].mean()):.4g} on average")
    return lines
