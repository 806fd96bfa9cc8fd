"""What a record says of the state: given the readings so far, or all of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from stodyn.arguments import checks_arguments
from stodyn.inference import checks, grid, kalman, moments
from stodyn.inference.question import Question, marginals, question_of, why_singular
from stodyn.inference.record import nearest
from stodyn.telling import tell
from stodyn.warnings import NotGaussian

CONTRADICTS = 2.0  # of log L between a filter and a grid
FAR = 100.0  # times the record's length: a start so long before it was hardly meant


@checks_arguments
def filtered(
    problem: Any,
    method: Any = None,
    *,
    data: Any,
    sensors: Any = None,
    t0: float | None = None,
    dt: float | None = None,
    by: str | None = None,
    law: Any = None,
    params: Any = None,
    initial: Any = None,
    at: Any = None,
    check: bool = True,
) -> xr.Dataset:
    """Filter a record: what the readings up to each time say of the state, and how they fit the model.

    Parameters
    ----------
    problem : Problem
        A linear problem with additive noise, or any other with `by`. Algebraic components of an SDAE are given too.
    method : Method or str, optional
        Of by="ekf" and "statistical", the method whose steps are taken; by default Heun's.
    data : Record, mapping, table or (times, values)
        The readings, in any form that sd.Record takes.
    sensors : Sensor or sequence of Sensor
        What made them; may be left out where `data` is a Record.
    t0 : float
        The time of the start, by default 0; no reading is earlier.
    dt : float, optional
        The step of the method; with `by`, by default so short that half of it changes log L by less than 0.05.
    by : "kalman", "ekf" or "statistical", optional
        The filter. Kalman's is exact, and takes linear problems alone: what is not proved to be one is refused. The
        others take the law of the state for a normal one: "ekf" takes the equations for straight over its spread,
        "statistical" averages them over it. They may agree and be wrong: see `check`.
    law : "exact", Method or str, optional
        The law between readings: by default that of the equations. A method: what its steps dt deliver, for records
        made by a simulator; readings are then whole numbers of steps apart.
    params : mapping, optional
        Numbers in place of the problem's params, and those that only sensors have; "spring.rate" for nested ones.
    initial : "stationary", "diffuse" or {component: "diffuse"}, optional
        The law of the start where it is not the problem's own: that of the long run, or nothing known.
    at : sequence of numbers, optional
        Give the state at these times; by default at the times of the readings.
    check : bool
        Whether a filter that is not exact is checked against the likelihood on a grid, for one and two components.

    Returns
    -------
    xarray.Dataset
        mean (time, component) and covariance (time, component, other) of the state; of what is still unknown after a
        diffuse start NaN and infinity. reading_observed, innovation, innovation_sd and nis (reading), with
        reading_time, sensor and `reads`, the component that it reads as it is; loglik, and loglik_grid where it was
        checked; p_value and statistic (check). attrs: by, law, exact, reasons.

    Raises
    ------
    TypeError, ValueError
        If data and sensors do not match, the problem is not linear, or a reading has no variance.

    Warns
    -----
    NotGaussian
        If log L by "ekf" or "statistical" differs by more than 2 from that on a grid.

    Notes
    -----
    `innovation` is a reading minus its prediction from earlier times, and innovation_sd the standard deviation of that.
    nis is the square of a standardised innovation, of simultaneous readings given those before it: they add up to a χ².

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x: -x, lambda t, x: 1.0 + 0.0 * x, 0.0)
    >>> sensor = sd.Sensor("y", of="x", noise=sd.per_sample(0.1))
    >>> result = sd.filtered(decay, data=([0.5, 0.7, 1.5], [0.3, float("nan"), -0.2]), sensors=sensor)
    >>> round(float(result.loglik), 12)
    -1.11539255786
    """
    options = {"t0": t0, "dt": dt, "by": by, "law": law, "params": params, "initial": initial, "at": at}
    question = question_of(problem, method, data=data, sensors=sensors, **options)
    parts, history, variables = run(question, check)
    state = history.state
    mean, covariance = parts.view.components(state.m, state.P)
    if state.D is not None:
        mean, covariance = _unknown(parts.view.W, state, mean, covariance)
    return _dataset(question, at, mean, covariance, variables)


@checks_arguments
def smoothed(
    problem: Any,
    method: Any = None,
    *,
    data: Any,
    sensors: Any = None,
    t0: float | None = None,
    dt: float | None = None,
    by: str | None = None,
    law: Any = None,
    params: Any = None,
    initial: Any = None,
    at: Any = None,
    check: bool = True,
) -> xr.Dataset:
    """Smooth a record: what all readings together say of the state at each time.

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
    t0 : float
        The time of the start, by default 0.
    dt : float, optional
        The step of the method.
    by : "kalman", "ekf" or "statistical", optional
        The filter, as in sd.filtered.
    law : "exact", Method or str, optional
        The law between readings: by default that of the equations. A method: what its steps dt deliver, for records
        made by a simulator; readings are then whole numbers of steps apart.
    params : mapping, optional
        Numbers in place of the problem's params, and those that only sensors have.
    initial : "stationary", "diffuse" or {component: "diffuse"}, optional
        The law of the start where it is not the problem's own.
    at : sequence of numbers, optional
        Give the state at these times; by default at the times of the readings.
    check : bool
        Whether a filter that is not exact is checked against the likelihood on a grid, for one and two components.

    Returns
    -------
    xarray.Dataset
        As that of sd.filtered, with mean and covariance given all readings.

    Raises
    ------
    TypeError, ValueError
        As sd.filtered; and if the readings do not determine what is diffuse.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x: -x, lambda t, x: 1.0 + 0.0 * x, 0.0)
    >>> sensor = sd.Sensor("y", of="x", noise=sd.per_sample(0.1))
    >>> result = sd.smoothed(decay, data=([0.5, 1.5], [0.3, -0.2]), sensors=sensor, at=[1.0])
    >>> round(float(result["mean"][0, 0]), 12)
    0.042235311276
    """
    options = {"t0": t0, "dt": dt, "by": by, "law": law, "params": params, "initial": initial, "at": at}
    question = question_of(problem, method, data=data, sensors=sensors, **options)
    parts, history, variables = run(question, check)
    if history.state.left is not None and history.state.left[-1] > 0:
        raise ValueError(
            f"initial: the readings do not determine everything that is diffuse: {history.state.left[-1]:.0f} of "
            f"{history.state.D.shape[-1]} directions are still unknown at the end"
        )
    mean, covariance = parts.view.components(*question.evaluated.smoothed(parts, history))
    return _dataset(question, at, mean, covariance, variables)


def run(question: Question, check: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Return the matrices, what the filter leaves of every row, and the variables of the readings."""
    parts, history = question.evaluated.history(question.values)
    innovation, variance = marginals(question, parts, history.predicted)
    reason = why_singular(question, history.readings, variance)
    if reason is not None:
        raise ValueError(reason)
    variables = _readings(question, history, innovation, variance)
    if check and question.model.by in moments.WAYS:
        _compare(question, parts, history, variables)
    return parts, history, variables


def _compare(question: Question, parts: Any, history: Any, variables: dict[str, Any]) -> None:
    """Compare the log-likelihood with that on a grid, and warn where they contradict each other."""
    model, loglik = question.model, variables["loglik"][1]
    try:
        exact = on_grid(question, parts, history)
    except grid.Unchecked as reason:
        variables["reasons"].append(
            f"by={model.by!r} takes the law of the state for a normal one; not checked: {reason}"
        )
        return
    variables["loglik_grid"] = ((), exact)
    if not abs(exact - loglik) < CONTRADICTS:
        words = (
            f"log L is {loglik:.6g} by {model.by!r}, which takes the law for a normal one, but {exact:.6g} on a grid"
        )
        variables["reasons"].append(words)
        tell(f"by: {words}", NotGaussian)


def on_grid(question: Question, parts: Any, history: Any) -> float:
    """Return log L on a grid that covers what a filter has passed; raises grid.Unchecked where there is none."""
    laws = [parts.view.components(state.m, state.P) for state in (history.predicted, history.state)]
    evaluated: Any = question.evaluated
    return grid.log_likelihood(evaluated, question.values, laws)


def _readings(question: Question, history: Any, innovation: np.ndarray, variance: np.ndarray) -> dict[str, Any]:
    """Innovations, the log-likelihood and the checks, as variables of a Dataset."""
    is_read, plan, columns = question.evaluated.rows.is_read, question.model.schedule, question.record.columns
    readings, loglik = history.readings, float(history.loglik.sum())
    counts = is_read if readings.sees is None else is_read & ~readings.sees
    blank = np.full(is_read.shape, np.nan)
    e = np.divide(readings.v, np.sqrt(readings.S, where=counts, out=blank.copy()), where=counts, out=blank.copy())
    rows, places = np.nonzero(is_read)

    def listed(values: np.ndarray) -> np.ndarray:
        return np.where(counts, values, np.nan)[rows, places]

    table = np.full((len(plan.times), len(columns)), np.nan)
    table[rows, plan.outputs[places]] = e[rows, places]
    checklist = checks.checked(table, plan.times, columns)
    with np.errstate(invalid="ignore"):
        spread = np.sqrt(variance)
    return {
        "loglik": ((), loglik),
        "innovation": ("reading", listed(innovation)),
        "innovation_sd": ("reading", listed(spread)),
        "nis": ("reading", listed(e**2)),
        "reading_observed": ("reading", question.evaluated.rows.values[rows, places]),
        "reading_time": ("reading", plan.times[rows]),
        "sensor": ("reading", np.array(columns)[plan.outputs[places]]),
        "reads": ("reading", _components_read(question)[plan.outputs[places]]),
        "statistic": ("check", np.array([check.statistic for check in checklist])),
        "p_value": ("check", np.array([check.p for check in checklist])),
        "check": ("check", np.array([check.name for check in checklist], dtype=str)),
        "reasons": [*_approximations(question), *(check.words for check in checklist if check.p < checks.DOUBTFUL)],
    }


def _components_read(question: Question) -> np.ndarray:
    """The component that each output reads as it is, without a window; "" where there is none."""
    components, names = question.model.problem.components, []
    for sensor, own in zip(question.record.sensors, question.record.series, strict=True):
        is_plain = len(sensor.parts) == own.values.shape[1] and not (sensor.average or sensor.increment)
        for part in sensor.parts if is_plain else [None] * own.values.shape[1]:
            names.append(part if isinstance(part, str) else components[part] if isinstance(part, int) else "")
    return np.array(names, dtype=str)


def _units(question: Question) -> dict[str, str]:
    """The units of the components: those of the problem, else of the sensors that read them as they are."""
    reads, own = _components_read(question), question.model.problem.component_units or {}
    sensors = zip(question.record.sensors, question.record.series, strict=True)
    units = [sensor.unit for sensor, series in sensors for _ in range(series.values.shape[1])]
    read = {str(name): unit for name, unit in zip(reads, units, strict=True) if name and unit}
    return {name: unit for name, unit in (read | dict(own)).items() if name != "time"}


def _approximations(question: Question) -> list[str]:
    rounded = [sensor for sensor in question.record.sensors if sensor.resolution is not None]
    words = [
        f"the rounding of {own.name} to {own.resolution:g} counts as noise of variance {own.resolution**2 / 12:.3g}"
        for own in rounded
    ]
    words += [
        f"the times of {own.name} are those at which it reads, not {float(own.delay):g} later, when readings arrive"
        for own in question.record.sensors
        if own.delay
    ]
    begins, times = question.model.schedule.times[0], question.record.times
    if times[0] - begins > FAR * np.ptp(times) > 0.0:
        words.append(f"the start is at {begins:.6g}, long before the first reading at {times[0]:.12g}; give t0")
    return words


def _unknown(W: np.ndarray, state: Any, mean: np.ndarray, covariance: np.ndarray) -> tuple[Any, Any]:
    """Mean and covariance with NaN and infinity for components in which something diffuse is left."""
    reach = W @ state.D
    size = np.abs(W).sum(axis=-1)
    free = (np.abs(reach).max(axis=-1) > kalman.SEEN * size) & (state.left > 0)[:, None]
    mean, covariance = np.where(free, np.nan, mean), covariance.copy()
    covariance[free[:, :, None] | free[:, None, :]] = np.nan
    rows, components = np.nonzero(free)
    covariance[rows, components, components] = np.inf
    return mean, covariance


def _dataset(
    question: Question, at: Any, mean: np.ndarray, covariance: np.ndarray, variables: dict[str, Any]
) -> xr.Dataset:
    plan, problem = question.model.schedule, question.model.problem
    wanted = question.record.times if at is None else np.unique(np.atleast_1d(np.asarray(at, float)))
    chosen = nearest(plan.times, wanted)
    coords = {name: variables.pop(name) for name in ("reading_time", "sensor", "reads", "check")}
    reasons = variables.pop("reasons")
    unit = (problem.component_units or {}).get("time")
    times = {"units": unit} if unit else {}
    names, units = np.array(problem.components), _units(question)
    return xr.Dataset(
        {
            "mean": (("time", "component"), mean[chosen], {"units": json.dumps(units)} if units else {}),
            "covariance": (("time", "component", "other"), covariance[chosen]),
            **variables,
        },
        {"time": ("time", plan.times[chosen], times), "component": names, "other": names, **coords},
        {
            "by": question.model.by,
            "law": question.model.name,
            "exact": "no" if question.model.by in moments.WAYS else "yes",
            "reasons": "; ".join(reasons),
        },
    )
