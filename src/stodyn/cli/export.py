"""stodyn export: the model of a run file, or a noise, as C, as an FMU or in NumPy for another simulator."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stodyn import runfile
from stodyn.cli._output import Allow, AsJson, console, errors_as_messages, print_json
from stodyn.exporting.export import export


class Form(StrEnum):
    """In which form a run is written."""

    c = "c"
    fmu = "fmu"
    numpy = "numpy"


SUFFIXES = {Form.c: ".c", Form.fmu: ".fmu", Form.numpy: ".py"}


def command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.toml", help="A run file, as for `stodyn run`, or one with a table [noise].")
    ],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="What to write: it ends in .c, .fmu or .py.")
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option("--as", help="Write FILE.c, FILE.fmu or, in NumPy alone, FILE.py, unless --to says where."),
    ] = None,
    *,
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
            "--platforms",
            help="A platform for which a unit holds a library, such as x86_64-windows; others than this one need zig. "
            "May be given several times.",
        ),
    ] = None,
    allow: Allow = None,
    as_json: AsJson = False,
) -> None:
    """Write one path of a run file's model, with its method, step and noise, as a program for other simulators.

    Path p of what is written has the numbers of path p of `stodyn run FILE.toml`, to the last bit. A file with a table
    [noise] describes a noise or a sensor by itself, which can be written in NumPy, too.
    """
    with errors_as_messages():
        target = _target(file, to, form)
        described = runfile.read_export(file, allow or ())
        files = export(
            described.problem,
            described.method,
            to=target,
            inputs=inputs or (),
            outputs=outputs,
            fmi=fmi,
            platforms=platforms or (),
            **described.options,
        )
    if as_json:
        print_json({"files": [str(name) for name in files]})
        return
    for name in files:
        console().print(str(name), soft_wrap=True)


def _target(file: Path, to: Path | None, form: Form | None) -> Path:
    """The file to write: the one that was named, or the run file's own name with another ending."""
    if form is None:
        if to is None:
            raise ValueError("--to: missing; say --to FILE.c, FILE.fmu or FILE.py, or --as c, fmu or numpy")
        return to
    if to is None:
        own = file.with_suffix(SUFFIXES[form])
        if own.exists() or own.is_symlink():  # also a link to what is not there yet
            raise ValueError(f"--as {form}: {own} is there already; say --to FILE{own.suffix} to name what is written")
        return own
    if to.suffix != SUFFIXES[form]:
        raise ValueError(f"--to: {to} does not end in {SUFFIXES[form]}, as --as {form} has it; leave one of them out")
    return to
