"""stodyn fit: parameters from a record, described in a TOML file."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from stodyn import runfile
from stodyn.cli import _output
from stodyn.cli._output import Allow, AsJson, console, errors_as_messages, print_files, print_json
from stodyn.warnings import Multimodal, NotIdentified, StepTooLong


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to fit, as above.")],
    allow: Allow = None,
    as_json: AsJson = False,
) -> None:
    """Fit parameters of a model and of its sensors to a record, and print them with intervals.

    With this file, and a record.csv whose first line is time,gauge, it finds the rate and the noise of the sensor:

    \b
        model = {name = "ornstein_uhlenbeck"}
        data = {file = "record.csv"}
        sensors.gauge = {of = "x", noise = "r"}
        free = {rate = [0, inf], r = [0, inf]}
        fit = {params = {r = 0.1}}
        output = {pictures = "pictures"}

    The name is one of `stodyn models`, or my_model:problem for a problem in my_model.py, which `--allow my_model.py`
    admits. The record lies in the folder of the file, or below.
    `python -m pydoc stodyn.runfile` explains all tables and keys.
    """
    with errors_as_messages(), warnings.catch_warnings():
        for doubt in (Multimodal, NotIdentified, StepTooLong):
            warnings.simplefilter("ignore", doubt)  # said below
        result, files = runfile.fitted(runfile.read_fit(file, allow or ()))
    names = ("estimate", "stderr", "low", "high")
    if as_json:
        parameters = {str(own): {name: float(result[name].sel(parameter=own)) for name in names}
                      for own in result["parameter"].values}  # fmt: skip
        print_json({"parameters": parameters, "loglik": float(result["loglik"]), **result.attrs, "files": files})
        return
    screen = console()
    heads = ("estimate", "standard error", "from", "to")
    shown = _output.table("parameter", *heads, right=heads)
    for own in result["parameter"].values:
        shown.add_row(str(own), *(f"{float(result[name].sel(parameter=own)):.5g}" for name in names))
    screen.print(shown)
    screen.print(f"log-likelihood {float(result['loglik']):.8g}, by the law: {result.attrs['law']}")
    for reason in filter(None, result.attrs["reasons"].split("; ")):
        screen.print(f"Note: {reason}")
    print_files(screen, files)
