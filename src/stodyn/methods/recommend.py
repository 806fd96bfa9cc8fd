"""Which method a problem gets when none is named, and which others promise most."""

from __future__ import annotations

from typing import Any

from stodyn.methods.catalogue import catalogue, find, fitting
from stodyn.methods.contract import Catalogued


def recommended(problem: Any) -> Catalogued:
    """The method that a problem gets when none is named."""
    name, _, options = problem.recommended
    return find(name)(**options) if options else find(name)


def stable_methods(problem: Any) -> tuple[Catalogued, ...]:
    """Implicit methods for a problem whose time scales are far apart, of higher order first."""
    return tuple(map(find, problem.stable_methods))


def best_fitting(problem, refused: str = "") -> str:
    """In words: the forms of the refused method that take the problem (SRKw2Coupled, MilsteinLevy: their names begin
    with its own), the recommended method, and some of those that promise the highest strong and weak order."""
    names = fitting(problem, type(problem)) or fitting(problem)
    if not names:
        return "No method takes it."
    try:
        found = [f"{recommended(problem).name} (recommended)"]
    except TypeError:  # none is recommended for problems of this kind
        found = []
    forms = [name for name in names if refused and name.startswith(refused)]
    if forms:
        found.insert(0, f"{', '.join(forms)} (as {refused}, for such noise)")
    return f"Those that fit best: {'; '.join(found + of_highest_order(problem, names))}. `stodyn methods` lists all."


def advice(problem, chosen: Catalogued) -> str:
    """Which methods of the same kind have a higher order for a problem than the one chosen for it; "" if none has."""
    better = of_highest_order(problem, fitting(problem, chosen.accepts), than=chosen)
    return f"higher orders for {problem.noise_structure.kind} noise: {'; '.join(better)}" if better else ""


def of_highest_order(problem, names: list[str], than: Catalogued | None = None, most: int = 3) -> list[str]:
    """For strong and weak orders each, the first of the methods with the highest one, where it is higher than that of
    another: "MilsteinLevy (strong 1)"."""
    noise, found = problem.noise_structure, []
    for kind in ("strong", "weak"):
        orders = {name: catalogue()[name].promised(kind, noise) for name in names}
        best = max(orders.values(), default=0.0)
        if best > (0.0 if than is None else than.promised(kind, noise)):
            holders = [name for name, order in orders.items() if order == best]
            found.append(f"{', '.join(holders[:most])} ({kind} {best:g})")
    return found
