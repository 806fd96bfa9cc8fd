"""stodyn tour: one noisy system from each field, its answer beside the truth, and a page with pictures and code."""

import time
from pathlib import Path
from typing import Annotated

import typer

from stodyn import listing, plot, tour
from stodyn.tour import page
from stodyn.tour.contract import Stop, Told


def command(
    out: Annotated[Path, typer.Option(help="Folder for the page and its pictures.")] = Path("tour"),
    paths: Annotated[int, typer.Option(help="Paths of each system.", min=640)] = 20_000,
    seed: Annotated[int, typer.Option(help="Another seed, other paths.", min=0)] = 1,
) -> None:
    """Simulate one noisy system from each field, set the answers beside the truth, and draw them."""
    out.mkdir(parents=True, exist_ok=True)
    stops = all_stops()
    typer.echo(f"\n{len(stops)} systems with noise in them, {paths:,} paths each.\n")
    began = time.perf_counter()
    visits: list[tuple[Stop, Told, float]] = []
    for stop in stops:
        typer.secho(stop.question, bold=True)
        started = time.perf_counter()
        told = stop.visit(paths, seed)
        seconds = time.perf_counter() - started
        plot.save(told.picture, out / f"{stop.name}.png")
        visits.append((stop, told, seconds))
        for a in told.answers:
            typer.echo(f"  {a.quantity}: {a.ours:.4g} ± {a.stderr:.1g}; the truth is {a.truth:.4g} (z = {a.z:+.1f})")
        typer.echo(f"  {told.run}, {seconds:.1f} s with compiling\n")
    typer.echo(
        f"z is the distance from the truth in standard errors. All of it took {time.perf_counter() - began:.0f} s."
    )
    typer.echo(f"Open {page.write(out, visits)}: all pictures, numbers, and the code that made them.\n")
    typer.echo("Next: `stodyn methods` lists the methods; the README has twenty lines to start from.")


def all_stops() -> list[Stop]:
    """The stops of the tour in their order."""
    return sorted(listing.values(tour, Stop).values(), key=lambda stop: stop.place)
