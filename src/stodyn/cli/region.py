"""stodyn region: where a method is stable in mean square."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from stodyn.cli._output import (
    AsJson,
    check_file,
    console,
    errors_as_messages,
    looked_up,
    print_files,
    print_json,
    table,
)
from stodyn.methods.catalogue import find

STEPS = (-0.1, -0.5, -1.0, -2.0, -5.0, -10.0, -20.0)


def command(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="A method, as `stodyn methods` names it.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the region to a file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print how much noise a method tolerates on dy = λ y dt + μ y dW, h = λ Δt, k = μ √Δt, and whether it is A-stable.

    The equation itself is stable in mean square where k² < -2h. Verdicts on methods with a table for SDAEs are proved.
    """
    chosen: Any = looked_up(find, method)
    check_file("--out", out)
    from stodyn.analysis import stability  # compiles JAX programs on import

    with errors_as_messages():
        limits = {sign: [stability.largest_noise(chosen, h, sign) for h in STEPS] for sign in (1, -1)}
        verdict, in_the_plane = (stability.a_stability(chosen, complex_arguments=c) for c in (False, True))
    if out is not None:
        draw(chosen, out)
    files = [] if out is None else [out]
    if as_json:
        print_json(
            {
                "method": chosen.name,
                "h": STEPS,
                "largest_k_squared": limits,
                "a_stable": verdict.a_stable,
                "a_stable_for_complex_arguments": in_the_plane.a_stable,
                "l_stable": in_the_plane.l_stable,
                "worst": verdict.worst,
                "files": files,
            }
        )
        return
    screen = console()
    shown = table("h", "equation", "k > 0", "k < 0")
    for i, h in enumerate(STEPS):
        shown.add_row(f"{h:g}", f"{-2 * h:g}", *(f"{limits[sign][i]:.8g}" for sign in (1, -1)))
    screen.print(f"{chosen.name}: largest k² for stability in mean square")
    screen.print(shown)
    for which, answer in (("real", verdict), ("complex", in_the_plane)):
        screen.print(f"{which} λ and μ: {answer}")
    print_files(screen, files)


def draw(method: Any, out: Path) -> None:
    """Draw the regions of both signs of k."""
    from stodyn import plot
    from stodyn.analysis.step import stability

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
