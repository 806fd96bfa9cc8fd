"""A run without paths: an Expansion solves for the coefficients, and a Surrogate turns them into results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stodyn.engine import grid
from stodyn.methods.contract import Expansion
from stodyn.statistics.contract import Labelled, Labels, Statistic
from stodyn.statistics.surrogate import Surrogate


def expanded(
    problem: Any, method: Expansion, times: np.ndarray, collect: Statistic | Sequence[Statistic] | None, seed: int
) -> tuple[list[tuple[Statistic, Labelled, Labels]], dict[str, Any]]:
    """The arguments of results.dataset, and the record of the run."""
    statistics = (
        (Surrogate(),) if collect is None else tuple(collect) if isinstance(collect, (list, tuple)) else (collect,)
    )
    if len(statistics) != 1 or not isinstance(statistics[0], Surrogate):
        raise TypeError(
            f"collect: {method.name} gives an expansion, not paths; leave it out, or give one statistics.Surrogate("
            f"every=..., quantiles=...), got {collect!r}"
        )
    saved = grid.save_steps(statistics[0], times, None)
    expansion = method.expand(problem, times, saved, seed)
    labels = Labels(times[saved], tuple(problem.components), problem.component_units or {}, saved)
    record = {"t": [float(times[0]), float(times[-1])], "steps": len(times) - 1, **expansion.record}
    return [(statistics[0], statistics[0].label(expansion, labels), labels)], record
