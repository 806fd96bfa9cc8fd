"""stodyn region: where a method is stable in mean square."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from stodyn.cli import looked_up
from stodyn.methods.catalogue import find

STEPS = (-0.1, -0.5, -1.0, -2.0, -5.0, -10.0, -20.0)


def command(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="A method, as `stodyn methods` names it.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the region to a file.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the table as JSON.")] = None,
) -> None:
    """Print how much noise a method bears on dy = λ y dt + μ y dW, h = λ Δt and k = μ √Δt, and whether it is A-stable.

    The equation itself is stable in mean square where k² < -2h. Verdicts on methods with a table for SDAEs are proved.
    """
    chosen: Any = looked_up(find, method)
    for option, file in (("--out", out), ("--json", json_file)):
        if file is not None and not file.parent.is_dir():
            raise typer.BadParameter(f"{option}: the folder {file.parent} does not exist; make it first")
    from stodyn.analysis import stability  # compiles JAX programs on import

    try:
        limits = {sign: [stability.largest_noise(chosen, h, sign) for h in STEPS] for sign in (1, -1)}
        verdict, in_the_plane = (stability.a_stability(chosen, complex_arguments=c) for c in (False, True))
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    console = Console()
    shown = Table("h", "equation", "k > 0", "k < 0", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for i, h in enumerate(STEPS):
        shown.add_row(f"{h:g}", f"{-2 * h:g}", *(f"{limits[sign][i]:.8g}" for sign in (1, -1)))
    console.print(f"{chosen.name}: largest k² for stability in mean square", highlight=False)
    console.print(shown)
    for which, found in (("real", verdict), ("complex", in_the_plane)):
        console.print(f"{which} λ and μ: {found}", highlight=False, soft_wrap=True)
    if out is not None:
        draw(chosen, out)
    if json_file is not None:
        record = {
            "method": chosen.name,
            "h": list(STEPS),
            "largest_k_squared": {
                str(sign): [x if math.isfinite(x) else None for x in limits[sign]] for sign in (1, -1)
            },
            "a_stable": verdict.a_stable,
            "a_stable_for_complex_arguments": in_the_plane.a_stable,
            "l_stable": in_the_plane.l_stable,
            "worst": verdict.worst if math.isfinite(verdict.worst) else None,
        }
        json_file.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n")
    for file in (out, json_file):
        if file is not None:
            console.print(f"wrote {file}", soft_wrap=True, highlight=False, markup=False)


def draw(method: Any, out: Path) -> None:
    from stodyn import plot
    from stodyn.analysis import stability

    h, squares = np.linspace(-8.0, 2.0, 150), np.linspace(0.0, 20.0, 150)
    ax = None
    for sign, color in ((1, plot.BLUE), (-1, plot.ORANGE)):
        level = stability.region(method, h, squares, sign)
        label = f"{method.name}, k {'>' if sign > 0 else '<'} 0"
        ax = plot.region(h, squares, level, labels=("h", "k²"), label=label, color=color, ax=ax)
    assert ax is not None
    ax.plot([-8.0, 0.0], [16.0, 0.0], "--", color=plot.GREY, lw=1, label="equation: k² = -2h")
    ax.legend(frameon=False, fontsize="small")
    plot.save(ax, out)
