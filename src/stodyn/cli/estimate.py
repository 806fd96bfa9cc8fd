"""stodyn estimate: an expectation to a stated error, described in a TOML file."""

import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from stodyn import runfile
from stodyn.cli._output import Allow, AsJson, console, errors_as_messages, print_files, print_json
from stodyn.warnings import Untrusted


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to estimate, as above.")],
    allow: Allow = None,
    as_json: AsJson = False,
) -> None:
    """Estimate an expectation to a stated total error, and print how it was done.

    With this file, the function energy(t, x) in my.py, and `--allow my.py`, which admits it, this is the mean energy at
    time 5 to ±0.001:

    \b
        model = {name = "ornstein_uhlenbeck"}
        estimate = {t = [0, 5], error = 1e-3, seed = 1, function = "my:energy"}

    The name is one of `stodyn models`, or my:problem for a problem in my.py.
    `python -m pydoc stodyn.runfile` explains all tables and keys.
    """
    with errors_as_messages(), warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)  # said below
        described = runfile.read_estimate(file, allow or ())
        result, files = runfile.estimated(described)
    if as_json:
        print_json({"value": result["value"].values, "error": result["error"].values, **result.attrs, "files": files})
        return
    screen = console()
    level = described.options.get("level", 0.95)
    for value, error in zip(np.atleast_1d(result["value"].values), np.atleast_1d(result["error"].values), strict=True):
        screen.print(f"{value:.10g} ± {error:.2g} (bias and sampling, {100 * level:g} %)")
    attrs = result.attrs
    screen.print(
        f"{attrs['route']}: {attrs['path_steps']:.2g} path-steps, {attrs['pilot_path_steps']:.2g} in the pilot"
    )
    screen.print(attrs["why"])
    if not attrs["trusted"]:
        screen.print(f"Do not trust this interval: {attrs['reasons']}")
    print_files(screen, files)
