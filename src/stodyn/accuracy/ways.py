"""Whether paths to a rare event go different ways, and whether every run has taken each of them.

At some stages of the way to the event, counted by the logarithm of the probability, the states of all runs are
pooled. For each component they are cut in two where the variance between the two groups is largest (N. Otsu, IEEE
Trans. Syst. Man Cybern. 9 (1979)). The groups are two ways if their means m are far apart beside their variances v,

    √2 |m₁ - m₂|/√(v₁ + v₂) > DISTINCT,

where the halves of a normal law have 2.65 and those of a uniform law 3.46. A way that several runs have not taken,
though it holds a fair share of all paths, may be missed by most runs: each of those estimates too little, but the few
that took it too much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stodyn.accuracy.rare_estimate import Estimate
from stodyn.accuracy.splitting import Outcome

STAGES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DISTINCT = 3.8
RARE, MISSING = 0.05, 0.25  # least share of all paths on a way, and least share of the runs without it, for a warning
FEW_ANCESTORS, FAR_FROM_IDEAL, DIFFERENT = 5, 2.0, 3.0  # limits beyond which a result is called doubtful


class Way(NamedTuple):
    """A component in which paths go two ways: the means of the smaller and the larger group, the share of the smaller
    one, and how many runs have no path in it."""

    component: int
    here: float
    others: float
    share: float
    missing: int


def rarely_found(outcomes: Sequence[Outcome], probability: float, watched: Sequence[int]) -> Way | None:
    """The way that most runs have missed; None where there is no sign of one.

    watched  the components that the event depends on: they follow the level, which each run reaches at its own time
    """
    runs = [one for one in outcomes if len(one.shares)]
    ways = []
    for stage in STAGES if len(runs) >= 4 else ():
        aim = stage * math.log(probability)
        states = np.array([one.snapshots[int(np.argmin(np.abs(np.log(one.shares) - aim)))] for one in runs])
        for component in sorted({*range(states.shape[2])} - {*watched}):
            group = _smaller_group(component, states[:, :, component])
            if group is not None and group.share >= RARE and group.missing >= MISSING * len(runs):
                ways.append(group)
    return max(ways, key=lambda group: group.missing, default=None)


def _smaller_group(component: int, values: np.ndarray) -> Way | None:
    """The smaller of two distinct groups of the values (runs, paths); None if they are not distinct."""
    ordered = np.sort(values, axis=None)
    count, last = np.arange(1, ordered.size), ordered - ordered.mean()
    first, second = np.cumsum(last)[:-1], np.cumsum(last**2)[:-1]
    means = first / count, -first / (ordered.size - count)
    variances = second / count - means[0] ** 2, (np.sum(last**2) - second) / (ordered.size - count) - means[1] ** 2
    k = int(np.argmax(count * (ordered.size - count) * (means[1] - means[0]) ** 2))
    apart, within = means[1][k] - means[0][k], max(float(variances[0][k] + variances[1][k]), 0.0)
    if not math.sqrt(2.0) * apart > DISTINCT * math.sqrt(within):
        return None
    is_upper = values > 0.5 * (ordered[k] + ordered[k + 1])
    centres = ordered.mean() + means[0][k], ordered.mean() + means[1][k]
    is_small = is_upper if np.mean(is_upper) < 0.5 else ~is_upper
    here, others = centres[::-1] if np.mean(is_upper) < 0.5 else centres
    missing = int(np.sum(~is_small.any(axis=1)))
    return Way(component, float(here), float(others), float(np.mean(is_small)), missing)


def signs(outcomes: Sequence[Outcome], estimate: Estimate, replicas: int, spec: Any) -> list[str]:
    """The signs that runs have missed some ways to the event, in words."""
    names, watched = spec.problem.problem.components, spec.method.method.gauges[0].components
    ideal = math.sqrt(-math.log(min(estimate.mean, 0.999)) / replicas)
    ancestors = float(np.mean([one.ancestors for one in outcomes]))
    words = []
    if ancestors < FEW_ANCESTORS:
        words.append(f"all paths of a run come from {ancestors:.2g} of its {replicas} first ones")
    if estimate.scatter > FAR_FROM_IDEAL * ideal:
        words.append(f"runs scatter {estimate.scatter / ideal:.2g} times as much as with a perfect score")
    words += [
        f"runs went different ways: in {names[i]} they are {ratio:.2g} times as far apart, by variance, as the paths "
        "within them predict"
        for i, ratio in enumerate(apart(outcomes, estimate.mean))
        if ratio > DIFFERENT
    ]
    group = rarely_found(outcomes, estimate.mean, watched)
    if group is not None:
        words.append(
            f"paths go two ways, with {names[group.component]} near {group.here:.2g} and near {group.others:.2g}, but "
            f"{group.missing} of {len(outcomes)} runs have none on the first, which holds "
            f"{100 * group.share:.2g} % of all"
        )
    extinct = sum(one.probability == 0 for one in outcomes)
    return [*words, f"{extinct} of {len(outcomes)} runs died out"] if extinct else words


def apart(outcomes: Sequence[Outcome], probability: float) -> np.ndarray:
    """Return how far runs of splitting go different ways: for each component, the variance between runs of the mean
    state half way to the event (by the logarithm of the probability), divided by the value that the variance within
    runs predicts; 1 if all runs go the same ways.

    Runs are half way at different levels, which moves the states of all of them alike: the part that follows the level
    along a straight line is left out.
    """
    means, expected, levels = [], [], []
    for one in outcomes:
        if len(one.shares):
            k = int(np.argmin(np.abs(np.log(one.shares) - 0.5 * math.log(probability))))
            means.append(one.means[k])
            levels.append(one.levels[k])
            expected.append(one.variances[k] / max(one.families[k] - 1.0, 1.0))
    if len(means) < 4:
        return np.ones(len(outcomes[0].means.T))
    off, deviations = np.array(levels) - np.mean(levels), np.array(means) - np.mean(means, axis=0)
    slope = off @ deviations / max(off @ off, np.finfo(float).tiny)
    left = np.sum((deviations - off[:, None] * slope) ** 2, axis=0) / (len(means) - 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(left / np.mean(expected, axis=0), nan=1.0, posinf=1.0)
