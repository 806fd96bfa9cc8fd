"""stodyn export: the model of a run file as C or as an FMU for another simulator."""

from pathlib import Path
from typing import Annotated

import typer

from stodyn import runfile
from stodyn.cli._output import Allow, AsJson, console, errors_as_messages, print_json
from stodyn.exporting.export import export


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="A run file, as for `stodyn run`.")],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="What to write: it ends in .c or .fmu.")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="A parameter that the host sets. May be given several times.")
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--output", help="A component to show; left out: all of them.")
    ] = None,
    fmi: Annotated[str, typer.Option("--fmi", help="The version of FMI: 2.0 or 3.0.")] = "2.0",
    platforms: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            help="A platform for which a unit holds a library, such as x86_64-windows; others than this one need zig. "
            "May be given several times.",
        ),
    ] = None,
    allow: Allow = None,
    as_json: AsJson = False,
) -> None:
    """Write one path of a run file's model, with its method, step and noise, as a program for other simulators.

    Path p of what is written has the numbers of path p of `stodyn run FILE.toml`, to the last bit.
    """
    with errors_as_messages():
        described = runfile.read(file, allow or ())
        options = described.options
        files = export(
            described.problem,
            described.method,
            dt=options["dt"],
            to=to,
            inputs=inputs or (),
            outputs=outputs,
            t0=float(options["t"][0]),
            seed=int(options["seed"]),
            fmi=fmi,
            platforms=platforms or (),
        )
    if as_json:
        print_json({"files": [str(name) for name in files]})
        return
    for name in files:
        console().print(str(name), soft_wrap=True)
