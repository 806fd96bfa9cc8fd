"""Fragility curves: the probability of exceeding a bound within a time, over a parameter such as an intensity."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy
import xarray as xr

from stodyn import results
from stodyn.accuracy.rare import rare
from stodyn.arguments import checks_arguments
from stodyn.engine.sweep import points, told_by_point
from stodyn.methods.contract import Catalogued
from stodyn.telling import tell
from stodyn.warnings import NotIdentified

LEAST = 3  # points with probabilities between 0 and 1 that a curve is fitted to


@checks_arguments
def fragility(
    problem: Any, method: Catalogued | str | None = None, *, over: Mapping[Any, Any], **options: Any
) -> xr.Dataset:
    """Estimate the probability of an event at every value of a parameter, and fit a lognormal curve through it.

    Parameters
    ----------
    problem : Problem, model or function
        A problem, whose `params` are changed; or a model or a function of the swept name that returns one.
    method
        As in `rare`.
    over : mapping
        One name and its values, as in `sweep`.
    **options
        As in `rare`: event, before, dt, seed, of and others. Every point has the same seed. With by="elementary" the
        event is looked for at the ends of steps only, which finds too little where noise enters the function itself.

    Returns
    -------
    xarray.Dataset
        probability, probability_stderr, probability_low and probability_high over the swept dimension. For positive
        values of the parameter, also the median and the dispersion of the curve Φ(ln(value/median)/dispersion), fitted
        with weights from the standard errors, if at least three probabilities lie between 0 and 1, else a
        warning says why not: curve["median"], as curve.median is a method of every Dataset. With of=, the derivatives
        of each probability, as in `rare`.
        `plot.fragility` draws it. Warnings name the point that they are about.

    Raises
    ------
    ValueError
        If `over` has more than one name.

    Examples
    --------
    >>> import stodyn as sd
    >>> problem = sd.SDE(lambda t, x: -x, lambda t, x, p: p["intensity"], 0.0, {"intensity": 1.0})
    >>> curve = sd.fragility(problem, over={"intensity": [0.5, 1.0, 2.0]}, event=sd.Level(2.0), before=1.0, dt=0.1,
    ...                      seed=1, by="elementary", runs=4)
    >>> bool(curve["probability"][0] < curve["probability"][2])
    True
    """
    axes, problems = points(problem, over)
    if len(axes) != 1:
        raise ValueError(f"over: a curve has one parameter, got {len(axes)}: {', '.join(axis.name for axis in axes)}")
    runs = list(told_by_point(axes, lambda one: rare(one, method, **options), problems))
    names = [f"probability{part}" for part in ("", "_stderr", "_low", "_high")]
    axis = axes[0]
    variables: dict[str, Any] = {name: ((axis.name,), np.array([float(one[name]) for one in runs])) for name in names}
    coords: dict[str, Any] = dict(axis.coords())
    values = np.asarray(coords[axis.name][1])
    for name in ("log_gradient", "log_gradient_stderr", "gradient", "gradient_stderr"):
        if name in runs[0]:
            variables[name] = ((axis.name, "parameter"), np.stack([one[name].values for one in runs]))
            coords["parameter"] = runs[0]["parameter"].values
    fitted = _lognormal(values, variables["probability"][1], variables["probability_stderr"][1])
    if fitted is not None:
        variables |= {"median": ((), fitted[0]), "dispersion": ((), fitted[1])}
    elif reason := _without_curve(values, variables["probability"][1], variables["probability_stderr"][1]):
        tell(f"over: {reason}; the result has no median and no dispersion", NotIdentified)
    records = [results.provenance(one) for one in runs]
    record = {**records[0], "swept": axis.name, "path_steps": sum(one["path_steps"] for one in records)}
    return xr.Dataset(variables, coords, {"provenance": json.dumps(record)})


def _lognormal(values: np.ndarray, p: np.ndarray, stderr: np.ndarray) -> tuple[float, float] | None:
    """Median and dispersion of Φ(ln(v/median)/dispersion), by least squares of Φ⁻¹(p) = (ln v - ln median)/dispersion
    with the weights (φ(Φ⁻¹ p)/stderr)²."""
    if not _are_positive(values):
        return None
    inside = _inside(p, stderr)
    if np.count_nonzero(inside) < LEAST:
        return None
    score = scipy.stats.norm.ppf(p[inside])
    weight = scipy.stats.norm.pdf(score) / stderr[inside]
    slope, shift = np.polyfit(np.log(values[inside].astype(float)), score, 1, w=weight)
    return (math.exp(-shift / slope), 1.0 / slope) if slope > 0 else None


def _without_curve(values: np.ndarray, p: np.ndarray, stderr: np.ndarray) -> str:
    """Why no curve is fitted to probabilities at positive values, in words; "" at other values, which have none."""
    if not _are_positive(values):
        return ""
    if (count := np.count_nonzero(_inside(p, stderr))) < LEAST:
        return (
            f"a curve is fitted to at least {LEAST} probabilities between 0 and 1, of which there are {count} among "
            f"{len(p)} values of the parameter: give more values where the probability rises from 0 to 1"
        )
    return "the probabilities fall as the parameter grows, so that no lognormal curve is fitted: sweep its inverse"


def _are_positive(values: np.ndarray) -> bool:
    return values.dtype.kind in "iuf" and bool(np.all(values > 0))


def _inside(p: np.ndarray, stderr: np.ndarray) -> np.ndarray:
    """Which probabilities lie between 0 and 1 and have an error."""
    return (p > 0) & (p < 1) & (stderr > 0)
