"""stodyn estimate: an expectation to a stated error, described in a TOML file."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from stodyn import runfile
from stodyn.cli import told


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to estimate; the reference shows one.")],
) -> None:
    """Estimate an expectation to a stated total error, and say how it was done."""
    console = Console(highlight=False, soft_wrap=True)
    with told():
        described = runfile.read_estimate(file)
        found, files = runfile.estimated(described)
    level = described.options.get("level", 0.95)
    for value, error in zip(np.atleast_1d(found.value.values), np.atleast_1d(found.error.values), strict=True):
        console.print(f"{value:.10g} ± {error:.2g} (bias and sampling, {100 * level:g} %)", markup=False)
    attrs = found.attrs
    console.print(
        f"{attrs['route']}: {attrs['path_steps']:.2g} path-steps, {attrs['pilot_path_steps']:.2g} in the pilot"
    )
    console.print(attrs["why"], markup=False)
    if not attrs["trusted"]:
        console.print(f"not to be trusted: {attrs['reasons']}", markup=False)
    for path in files:
        console.print(f"wrote {path}", markup=False)
