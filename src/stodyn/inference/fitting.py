"""Parameters from a record: the maximum of the likelihood, its intervals by profiles, and what cannot be known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr

from stodyn.arguments import checks_arguments
from stodyn.engine.progress import Progress
from stodyn.inference import climbing, filtering, profiles, starts
from stodyn.inference.gaussian import START
from stodyn.inference.grid import Unchecked
from stodyn.inference.likelihood import likelihood
from stodyn.inference.line import Line
from stodyn.inference.moments import WAYS
from stodyn.inference.predictive import predicted
from stodyn.inference.question import Question
from stodyn.problems.contract import expect_problem
from stodyn.telling import tell
from stodyn.warnings import Multimodal, NotGaussian, NotIdentified, StepTooLong

NEAR = 2.0  # of log L: another maximum this close competes
UNKNOWN = 1e-6  # of the largest eigenvalue of the scaled information: below it a combination is not known
ROUNDING = 1e-13  # of the same, a choice: 450 roundings of 1, the diagonal; below it nothing is left of the information
SAME = 1e-6  # of log L: maxima this close are equal
DROP = 1.92  # of log L at the ends of an interval of 95 %
APART = 0.5  # of log L: a filter and a grid that differ so much in this drop do not give the same interval
LONG = 0.5  # of log L: a step whose half changes it by more is too long
COORDINATES = ("check", "output", "summary", "reading_time", "sensor")


@checks_arguments
def fit(
    problem: Any,
    method: Any = None,
    *,
    data: Any,
    sensors: Any = None,
    free: Any,
    start: Mapping[str, float] | None = None,
    t0: float | None = None,
    dt: float | None = None,
    by: str | None = None,
    law: Any = None,
    params: Any = None,
    initial: Any = None,
    profile: bool = True,
    predictive: int = 200,
    check: bool = True,
    seed: int = 0,
    progress: bool | None = None,
) -> xr.Dataset:
    """Fit parameters of a problem and of its sensors to a record, by the largest likelihood.

    Parameters
    ----------
    problem : Problem
        A linear problem with additive noise, or any other with `by`.
    method : Method or str, optional
        As that of sd.filtered.
    data : Record, mapping, table or (times, values)
        The readings, in any form that sd.Record takes.
    sensors : Sensor or sequence of Sensor
        What made them; may be left out where `data` is a Record.
    free : sequence of str or mapping
        The names of the parameters to fit, or {name: what is known of it}: a range (low, high) with None for no limit,
        a distribution of stodyn.noise or scipy.stats as its prior, a number to begin at, or None. "spring.rate" is a
        nested one, "start.x" the start of the component x.
    start : mapping, optional
        {name: number}: where the search begins; by default at the problem's own values.
    t0 : float
        The time of the start, by default 0.
    dt : float, optional
        The step of the method.
    by : "kalman", "ekf" or "statistical", optional
        The filter, as in sd.filtered.
    law : "exact", Method or str, optional
        As that of sd.filtered.
    params : mapping, optional
        Numbers in place of the problem's params, and those that only sensors have.
    initial : "stationary", "diffuse" or {component: "diffuse"}, optional
        The law of the start where it is not the problem's own.
    profile : bool
        Whether intervals are those of the profile likelihood, for up to six parameters; else of a normal law.
    predictive : int
        How many records the fitted model makes, at the same times by the same sensors, for the bands beside the record;
        0 for none.
    check : bool
        Whether a filter that is not exact is checked against the likelihood on a grid, as in sd.filtered, and so is its
        drop to the upper end of each interval. Of two components each takes a second or so.
    seed : int
        Of the seven further starts, one of which is the best of a survey, and of the simulated records.
    progress : bool, optional
        Show a bar; by default on a terminal and in a notebook.

    Returns
    -------
    xarray.Dataset
        estimate, stderr, low and high (parameter): the maximum, standard errors by the observed information, and the
        ends of 95 % intervals; correlation (parameter, other); profile and profile_value (parameter, point): the
        largest log-likelihood with the parameter held at a value, minus the maximum; loglik; p_value and statistic
        (check) as in sd.filtered; loglik_grid where it was checked; with law= a method, loglik_halved at half its
        step. Of the simulated records, as ..._observed, ..._low and ..._high of a band of 95 %: reading (reading), with
        reading_time and sensor; summary (output, summary); spectrum (output, band), with frequency. attrs: converged,
        maximum (of what), by, law, exact, calculus, reasons.

    Raises
    ------
    TypeError, ValueError
        As sd.likelihood; if the likelihood is zero at the start, or nothing depends on a free parameter.

    Warns
    -----
    NotIdentified, Multimodal, StepTooLong, NotGaussian
        If the record does not determine a combination of parameters, another maximum comes close, half the step of
        the method whose law is asked for gives another likelihood, or log L by "ekf" or "statistical" differs from that
        on a grid: by more than 2, or by more than 0.5 in its drop to the end of an interval, which is then wrong.

    Notes
    -----
    Rates of short records come out too large; their profile intervals cover all the same. With priors the estimate is
    where the density of the posterior is highest, and intervals are those of its profile. Of a long record, the first
    20 000 times are simulated.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x, p: p["s"], 0.0, params={"s": 1.0})
    >>> steps = np.cumsum([0.3, -1.2, 0.7, 2.0, -0.4, 0.1, 1.1, -0.9])
    >>> read = sd.Sensor("y", of="x")
    >>> result = sd.fit(walk, data=(np.arange(1.0, 9.0), steps), sensors=read, free={"s": (0, None)})
    >>> round(float(result.estimate[0]), 9)  # the root of the mean square of the steps
    1.013039979
    """
    if predictive < 0:
        raise ValueError(f"predictive: expected a number of records, 0 for none, got {predictive}")
    options = {"t0": t0, "dt": dt, "by": by, "law": law, "params": params, "initial": initial}
    like = likelihood(problem, method, data=data, sensors=sensors, free=free, **options)
    line = Line(like, starts.starting(like, free, start))
    points = 2 * len(profiles.PLACES) * line.count if profile and line.count <= profiles.MOST else 0
    with Progress(starts.STARTS + points, progress, label="fitting") as bar:
        _refuse_unknown(line)
        others = climbing.climb(line, starts.scattered(line, seed), _all_free(line), bar.advance, for_all=False)
        best = climbing.Climbed(*(part[_highest(line, others)] for part in others))
        reasons = _doubts(line, best, others)
        spread = _inverse(-best.curvature)
        ends = profiles.intervals(line, best, spread, profile, bar.advance)
    reasons += _at_limits(line, ends)
    variables, more = _afterwards(
        line, best, spread, (problem, method), {"data": data, "sensors": sensors, **options}, predictive, check, seed
    )
    return _dataset(line, best, spread, ends, variables, [*reasons, *more])


def _highest(line: Line, others: climbing.Climbed) -> int:
    """The lane of the maximum; of equal ones, such as s and -s of a noise, that nearest to the user's start, and rather
    one that has come to its end than one that is almost there."""
    is_equal = others.value > others.value.max() - SAME
    has_ended = is_equal & others.converged
    far = np.abs(others.u - line.start).max(axis=1)
    return int(np.argmin(np.where(has_ended if has_ended.any() else is_equal, far, np.inf)))


def _all_free(line: Line) -> np.ndarray:
    return np.ones((starts.STARTS, line.count), bool)


def _refuse_unknown(line: Line) -> None:
    value, slope, curvature = (part[0] for part in line.like.at_many(line.parameters(line.start[None])))
    if not np.isfinite(value):
        raise ValueError(
            f"start: the likelihood is zero at the start, where {line.words(line.start)}; begin elsewhere, by start="
        )
    unused = [name for k, name in enumerate(line.like.names) if slope[k] == 0.0 and not curvature[k].any()]
    if unused:
        raise ValueError(f"free: nothing that is read depends on {unused[0]!r}; leave it out")


def _doubts(line: Line, best: climbing.Climbed, others: climbing.Climbed) -> list[str]:
    """What the search leaves open, in words; the user is warned of it."""
    reasons = [] if best.converged else ["the search did not come to an end"]
    unknown = _unknown(line, -best.curvature)
    for words in unknown:
        tell(f"free: {words}", NotIdentified)
    another = None if reasons or unknown else _another(line, best, others)
    if another is not None:
        tell(f"free: {another}", Multimodal)
    return [*reasons, *unknown, *filter(None, [another])]


def _unknown(line: Line, information: np.ndarray) -> list[str]:
    """The combinations of parameters that the record does not determine, in words."""
    size = np.sqrt(np.maximum(np.abs(np.diagonal(information)), 1e-300))
    values, vectors = np.linalg.eigh(information / size / size[:, None])
    lines = []
    for _, vector in filter(lambda pair: pair[0] < UNKNOWN * values[-1], zip(values, vectors.T, strict=True)):
        along = vector / size
        shares = along / along[np.argmax(np.abs(along))]
        parts = [f"{share:+.2g} {scale.named(name)}"
                 for name, scale, share in zip(line.like.names, line.like.scales, shares, strict=True)
                 if abs(share) > 0.05]  # fmt: skip
        lines.append(f"the record does not determine {' '.join(parts)}: leave one of them out, or give it a prior")
    return lines


def _at_limits(line: Line, ends: profiles.Intervals) -> list[str]:
    """The parameters of which the record does not exclude a limit, in words."""
    words = []
    for name, scale, low, high in zip(line.like.names, line.like.scales, ends.low, ends.high, strict=True):
        if np.isfinite(scale.low) and low <= scale.low:
            words.append(f"{name} may be {scale.low:g}, where its range begins")
        if np.isfinite(scale.high) and high >= scale.high:
            words.append(f"{name} may be {scale.high:g}, where its range ends")
    return words


def _another(line: Line, best: climbing.Climbed, others: climbing.Climbed) -> str | None:
    """Another maximum that comes close, in words."""
    spread = np.sqrt(np.diagonal(_inverse(-best.curvature)))
    close = others.converged & (others.value > best.value - NEAR)
    apart = (np.abs(others.u - best.u) > 0.5 * spread).any(axis=1)
    is_unlimited = np.array([scale.is_unlimited for scale in line.like.scales])
    sizes, own = (np.where(is_unlimited, np.abs(u), u) for u in (others.u, best.u))
    is_mirrored = (others.value > best.value - SAME) & (np.abs(sizes - own) < 0.5 * spread).all(axis=1)  # noise -s is s
    for k in np.flatnonzero(close & apart & ~is_mirrored):
        return f"another maximum is {best.value - others.value[k]:.3g} lower, where {line.words(others.u[k])}"
    return None


def _inverse(information: np.ndarray) -> np.ndarray:
    """The covariance of an information, NaN where it has none: where it is singular but for rounding."""
    size = np.sqrt(np.abs(np.diagonal(information)))
    scaled = information / np.maximum(size, 1e-300) / np.maximum(size, 1e-300)[:, None]
    if not np.isfinite(scaled).all() or np.linalg.eigvalsh(scaled)[0] <= ROUNDING:
        return np.full_like(information, np.nan)
    return np.linalg.inv(scaled) / size / size[:, None]


def _afterwards(
    line: Line,
    best: climbing.Climbed,
    spread: np.ndarray,
    posed: tuple[Any, Any],
    options: dict[str, Any],
    predictive: int,
    check: bool,
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """The checks of the residuals and of the step, and the predictive bands, as variables and in words."""
    theta = line.parameters(best.u[None])[0]
    whole = line.like.question.values.copy()
    whole[list(line.like.places)] = theta
    question = dataclasses.replace(line.like.question, values=whole)
    _, _, checked = filtering.run(question, check)
    variables: dict[str, Any] = {word: checked[word] for word in ("statistic", "p_value", "check")}
    words: list[str] = checked["reasons"]
    if "loglik_grid" in checked:
        variables["loglik_grid"] = checked["loglik_grid"]
        words += _wrong_intervals(line, best, spread, question, checked["loglik_grid"][1])
    if options["dt"] is not None:
        at = {**(options["params"] or {}), **dict(zip(line.like.names, theta, strict=True))}
        halved = likelihood(*posed, **options | {"params": at, "dt": 0.5 * options["dt"]})()
        own = float(line.like(theta))
        variables["loglik_halved"] = (), halved
        if abs(halved - own) > LONG:
            words.append(
                f"with steps of half the length the log-likelihood changes by {halved - own:+.3g}: the parameters are "
                f"those of steps of {options['dt']:g}, not of the equations; take a shorter dt, or law='exact'"
            )
            tell(f"dt: {words[-1]}", StepTooLong)
    if predictive:
        bands, outside = predicted(question, whole, predictive, seed)
        variables, words = variables | bands, words + outside
    return variables, words


def _wrong_intervals(
    line: Line, best: climbing.Climbed, spread: np.ndarray, question: Question, exact: float
) -> list[str]:
    """In words, the first parameter to the end of whose interval log L drops otherwise on a grid than by a filter."""
    sizes, shares = np.sqrt(np.diagonal(spread)), np.linspace(0.1, 2.5, 25)
    for k in range(line.count if np.isfinite(sizes).all() else 0):
        u = best.u + shares[:, None] * (spread[k] / sizes[k])
        drops = line.like.values(line.parameters(u)) - line.like.values(line.parameters(best.u[None]))
        at = int(np.argmin(np.abs(drops + DROP)))
        whole = question.values.copy()
        whole[list(line.like.places)] = line.parameters(u[at : at + 1])[0]
        moved = dataclasses.replace(question, values=whole)
        try:
            other = filtering.on_grid(moved, *moved.evaluated.history(whole)) - exact
        except Unchecked:
            continue
        if not abs(other - drops[at]) < APART:
            words = (
                f"towards the end of the interval of {line.like.names[k]}, log L changes by {drops[at]:+.3g} by "
                f"{question.model.by!r}, which takes the law for a normal one, but by {other:+.3g} on a grid: the "
                "intervals are not to be trusted"
            )
            tell(f"by: {words}", NotGaussian)
            return [words]
    return []


def _dataset(
    line: Line,
    best: climbing.Climbed,
    spread: np.ndarray,
    ends: profiles.Intervals,
    variables: dict[str, Any],
    reasons: list[str],
) -> xr.Dataset:
    like, theta = line.like, line.parameters(best.u[None])[0]
    sizes = np.sqrt(np.diagonal(spread))
    everything: dict[str, Any] = {
        "estimate": ("parameter", theta),
        "stderr": ("parameter", sizes * np.abs(line.slopes(best.u))),
        "low": ("parameter", ends.low),
        "high": ("parameter", ends.high),
        "correlation": (("parameter", "other"), spread / sizes / sizes[:, None]),
        "loglik": ((), float(best.value - line.log_prior(best.u[None])[0])),
        **variables,
    }
    if ends.values is not None:
        everything |= {
            "profile_value": (("parameter", "point"), ends.values),
            "profile": (("parameter", "point"), ends.drops),
        }
    names = np.array(like.names)
    coords = {word: everything.pop(word) for word in COORDINATES if word in everything}
    model = like.question.model
    attrs = {
        "converged": "yes" if best.converged else "no",
        "maximum": "of the posterior density" if line.has_priors else "of the likelihood",
        "by": model.by,
        "law": model.name,
        "exact": "no" if model.by in WAYS else "yes",
        "calculus": model.problem.calculus,
        "reasons": "; ".join(reasons),
    }
    return xr.Dataset(everything, {"parameter": names, "other": names, **coords}, attrs)


@checks_arguments
def fitted(problem: Any, result: xr.Dataset) -> Any:
    """Return a problem with the parameters of a fit.

    Parameters
    ----------
    problem : Problem
        The problem that was fitted, or another one with these params.
    result : xarray.Dataset
        From sd.fit.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If the result is not one of sd.fit, or the problem has none of its parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x, p: p["s"], 0.0, params={"s": 1.0})
    >>> data = np.arange(1.0, 5.0), np.array([1.0, -1.0, 1.0, -1.0])
    >>> result = sd.fit(walk, data=data, sensors=sd.Sensor("y", of="x"), free={"s": (0, None)})
    >>> round(float(sd.fitted(walk, result).params["s"]), 8)
    1.80277564
    """
    expect_problem(problem)
    if not isinstance(result, xr.Dataset) or "estimate" not in result:
        raise ValueError("result: expected the result of sd.fit")
    values = dict(zip(result.parameter.values, result.estimate.values, strict=True))
    leaves, structure = jax.tree_util.tree_flatten_with_path(problem.params)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") or "params" for path, _ in leaves]
    if not (set(names) & set(values) or any(name.startswith(f"{START}.") for name in values)):
        raise ValueError(
            f"problem: it has none of the parameters {', '.join(values)}; it has {', '.join(names) or 'none'}"
        )
    changed = [float(values[name]) if name in values else leaf for name, (_, leaf) in zip(names, leaves, strict=True)]
    begun = _begun(problem, values)
    return problem.changed(params=jax.tree_util.tree_unflatten(structure, changed), **begun)


def _begun(problem: Any, values: Mapping[str, float]) -> dict[str, Any]:
    """The start of a problem with components that were fitted, as a change of it."""
    own = {f"{START}.{name}": k for k, name in enumerate(problem.components)}
    if not set(own) & set(values):
        return {}
    if problem.start_source.is_random:
        raise ValueError("problem: its start is random, and components of it were fitted; give it numbers first")
    start = np.array(problem.start_source.example("start"), float)
    flat = start.reshape(-1)
    for name in set(own) & set(values):
        flat[own[name]] = values[name]
    return {"start": start}
