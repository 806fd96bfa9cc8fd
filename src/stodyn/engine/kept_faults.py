"""Faults of earlier runs: a run that goes by what was kept then tells of them as those runs did."""

from __future__ import annotations

from typing import Any

from stodyn.engine.traces import Traced
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing.unprintable import report_again

_of_steps: Bounded[tuple[str, ...], list[str]] = Bounded(256)  # by their digests, under which programs are kept
OF_PROBLEM = "~faults"  # in the variables of a problem, beside the facts that it holds


def tell_again(problem: Any, traced: Traced | None, noted: list[str]) -> None:
    """Report what failed when this problem, or these steps, were examined before, unless it is noted already."""
    of_steps = () if traced is None else _of_steps.get(traced.fingerprints, ())
    for reason in (*vars(problem).get(OF_PROBLEM, ()), *of_steps):
        if reason not in noted:
            report_again(reason)


def keep(problem: Any, traced: Traced | None, of_problem: list[str], noted: list[str]) -> None:
    """Keep the faults that a run has noted, and those among them that were met while its problem was examined."""
    if of_problem:
        vars(problem)[OF_PROBLEM] = of_problem
    if noted and traced is not None:
        _of_steps[traced.fingerprints] = noted


def forget() -> None:
    """Drop all faults that are kept, but for those that problems hold themselves."""
    _of_steps.clear()
