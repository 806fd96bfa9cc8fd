"""stodyn tour: one noisy system from each field, its answer beside the truth, and a page with pictures and code."""

import time
from pathlib import Path
from typing import Annotated

import typer

from stodyn import listing, plot, tour
from stodyn.cli._output import AsJson, check_folder, console, print_json
from stodyn.tour import page
from stodyn.tour.contract import Findings, Stop


def command(
    out: Annotated[Path, typer.Option(help="Folder for the page and its pictures.")] = Path("tour"),
    paths: Annotated[int, typer.Option(help="Number of paths of each system.", min=640)] = 20_000,
    seed: Annotated[int, typer.Option(help="Another seed gives other paths.", min=0)] = 1,
    as_json: AsJson = False,
) -> None:
    """Simulate one noisy system from each field, print the answers beside the truth, and draw them."""
    check_folder("--out", out)
    stops = all_stops()
    screen = console(stderr=as_json)
    screen.print(f"\n{len(stops)} systems with noise in them, {paths:,} paths each.\n")
    began = time.perf_counter()
    visits: list[tuple[Stop, Findings, float]] = []
    for stop in stops:
        screen.print(stop.question, style="bold")
        started = time.perf_counter()
        answer = stop.visit(paths, seed)
        seconds = time.perf_counter() - started
        plot.save(answer.picture, out / f"{stop.name}.png")
        visits.append((stop, answer, seconds))
        for a in answer.answers:
            screen.print(f"  {a.quantity}: {a.ours:.4g} ± {a.stderr:.1g}; the truth is {a.truth:.4g} (z = {a.z:+.1f})")
        screen.print(f"  {answer.words}, {seconds:.1f} s with compiling\n")
    index = page.write(out, visits)
    if as_json:
        print_json(
            [
                {"stop": stop.name, "answers": [a._asdict() for a in findings.answers], "run": findings.words}
                for stop, findings, _ in visits
            ]
        )
        return
    screen.print(
        f"z is the distance from the truth in standard errors. The whole tour took {time.perf_counter() - began:.0f} s."
    )
    screen.print(f"Open {index}: all pictures, numbers, and the code that made them.\n", soft_wrap=True)
    screen.print("Next: `stodyn methods` lists the methods; the README has twenty lines to start from.")


def all_stops() -> list[Stop]:
    """Return the stops of the tour in their order."""
    return sorted(listing.values(tour, Stop).values(), key=lambda stop: stop.place)
