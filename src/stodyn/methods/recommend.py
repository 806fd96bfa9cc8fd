"""The default method of a problem, and the others of the highest orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stodyn.methods.catalogue import catalogue, find, fitting
from stodyn.methods.contract import Catalogued
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import CovarianceError


def recommended(problem: Any) -> Catalogued:
    """The default method of a problem."""
    name, _, options = problem.recommended
    return find(name)(**options) if options else find(name)


def stable_methods(problem: Any) -> tuple[Catalogued, ...]:
    """Implicit methods for a problem whose time scales are far apart, of higher order first."""
    return tuple(map(find, problem.stable_methods))


def best_fitting(problem, refused: str = "", wanted: Callable[[Catalogued], bool] = lambda method: True) -> str:
    """A sentence for the user on the methods, of those that are wanted, that fit a problem best.

    It names the variants of the refused method that take the problem (their names begin with its name: SRKw2Coupled,
    MilsteinLevy), the recommended method, and some of the methods of the highest strong and weak order.
    """
    names = fitting(problem, type(problem), wanted) or fitting(problem, wanted=wanted)
    if not names:
        return "No method takes it."
    try:
        fits = [f"{recommended(problem).name} (recommended)"]
    except TypeError:  # no method is recommended for problems of this kind
        fits = []
    variants = [name for name in names if refused and name.startswith(refused)]
    if variants:
        fits.insert(0, f"{', '.join(variants)} (as {refused}, for such noise)")
    return f"Those that fit best: {'; '.join(fits + of_highest_order(problem, names))}. `stodyn methods` lists all."


def advice(problem, chosen: Catalogued) -> str:
    """The methods of the same kind that have a higher order for a problem than the chosen one, in words; "" if none."""
    noise = problem.noise_structure

    def promises_more(method: Catalogued) -> bool:
        return any(method.promised(kind, noise) > chosen.promised(kind, noise) for kind in ("strong", "weak"))

    better = of_highest_order(problem, fitting(problem, chosen.accepts, promises_more), than=chosen)
    return f"higher orders for {problem.noise_structure.kind} noise: {'; '.join(better)}" if better else ""


def tell_of_order_one(problem: Any, chosen: Catalogued) -> None:
    """Tell of a default that promises neither paths of order 1 nor moments of order 2, with the methods that do."""
    noise = problem.noise_structure
    is_good = chosen.promised("strong", noise) >= 1 or chosen.promised("weak", noise) >= 2
    if is_good or type(problem) is not SDE or find("PlatenWeak2Pairs").refusal(problem) is not None:
        return
    tell(
        f"method: {chosen.name}, which {noise.kind} noise gets where none is named, has weak order 1: means, variances "
        'and probabilities are off in proportion to dt. For these name one of weak order 2, such as "PlatenWeak2Pairs" '
        '(sd.recommend(problem, "weak") ranks them), for close paths "MilsteinLevy", of strong order 1; '
        f'"{chosen.name}" by name is taken without a word',
        CovarianceError,
    )


def of_highest_order(problem, names: list[str], than: Catalogued | None = None, most: int = 3) -> list[str]:
    """The first few methods of the highest strong and of the highest weak order, as in "MilsteinLevy (strong 1)".

    An order is left out where it is not higher than that of the method `than`.
    """
    noise, orders_of = problem.noise_structure, dict[str, list[str]]()
    for kind in ("strong", "weak"):
        orders = {name: catalogue()[name].promised(kind, noise) for name in names}
        best = max(orders.values(), default=0.0)
        if best > (0.0 if than is None else than.promised(kind, noise)):
            holders = [name for name, order in orders.items() if order == best]
            for name in holders[:most]:
                orders_of.setdefault(name, []).append(f"{kind} {best:g}")
    alike: dict[str, list[str]] = {}
    for name, words in orders_of.items():
        alike.setdefault(" and ".join(words), []).append(name)
    return [f"{', '.join(holders)} ({words})" for words, holders in alike.items()]
