"""A question to data: problem, record, law and parameters, checked and put together once for all verbs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from stodyn.arguments import suggestion
from stodyn.inference import laws, moments, nonlinear, square_root, stepping
from stodyn.inference.evaluating import Evaluated
from stodyn.inference.gaussian import START, start_of
from stodyn.inference.record import Record, as_record
from stodyn.inference.schedule import scheduled
from stodyn.noise.source import joined

KALMAN = "kalman"
SINGULAR = 1e-13  # of a reading's variance before the others of its time, a choice: rounding leaves three digits of it


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """What the verbs share: the model on the rows of a record, and parameters by their names."""

    record: Record
    evaluated: Evaluated | nonlinear.NormalEvaluated | square_root.SquareRootEvaluated
    names: tuple[str, ...]
    values: np.ndarray

    @property
    def model(self) -> laws.Model | stepping.SteppedModel | nonlinear.NormalModel | square_root.SquareRootModel:
        """The model on the rows of the record."""
        return self.evaluated.model


def question_of(
    problem: Any,
    method: Any,
    *,
    data: Any,
    sensors: Any,
    t0: float | None,
    by: str | None,
    law: Any,
    params: Any,
    initial: Any,
    at: Any = None,
    dt: float | None = None,
) -> Question:
    """Return the question after its checks."""
    laws.expect_plant(problem)
    if by in moments.WAYS:
        return _of_steps(problem, method, data, sensors, Options(by, t0, law, params, initial, at, dt))
    if by not in (None, KALMAN):
        raise ValueError(f"by: expected {', '.join(map(repr, (KALMAN, *moments.WAYS)))}, got {by!r}")
    is_exact = law is None or law == "exact"
    if method is not None or (is_exact and dt is not None):
        raise ValueError(
            "method, dt: the exact law of a linear problem has no steps; for what a method delivers give law= and dt=, "
            f"for a nonlinear problem by=: {laws.NAME_ONE}"
        )
    record, tree = _numbers(problem, data, sensors, params)
    with jax.enable_x64(True):
        if is_exact and square_root.is_square_root(problem, record.sensors, tree, record.values):
            return _of_transitions(problem, record, tree, t0, initial, at)
        plant = laws.plant_of(problem, tree)
        widths, timed = laws.read_by(plant, record.sensors, tree)
        _check_record(record, widths)
        schedule = scheduled(record, 0.0 if t0 is None else float(t0), at)
        begun = (plant.start, plant.states) if is_exact else (joined(problem.start_parts), problem.components)
        start = start_of(begun[0], initial, begun[1], stated_in(problem, tree))
        if plant.moved and (not is_exact or initial == "stationary"):
            raise ValueError(
                "law, initial: what depends on time has no law of a step, and no stationary one. Leave law out for the "
                "exact law, or take method= and dt= with by='ekf', which is exact for linear problems"
            )
        parts = record.sensors, tuple(widths), schedule, start, plant, tuple(timed)
        model = laws.Model(*parts).scheduled() if is_exact else stepping.stepped(*parts, law, dt).checked(tree)
        names, values, params_of = numbers_in(tree)
        laws.refuse_singular(plant, tree, schedule.times)
        evaluated = Evaluated(model, params_of).for_parameters(values[None]).resolved(values)
        laws.refuse_singular(plant, tree, evaluated.model.schedule.times)
        if start.is_stationary:
            _refuse_unstable(evaluated, values)
    return Question(record, evaluated, names, values)


def _refuse_unstable(evaluated: Evaluated, values: np.ndarray) -> None:
    try:
        evaluated.refuse_unstable(values)
    except ValueError as error:
        raise ValueError(f"initial: 'stationary' needs a system that comes to rest. {error}") from error


def _numbers(problem: Any, data: Any, sensors: Any, params: Any) -> tuple[Record, Any]:
    """The record and the params as numbers."""
    record = as_record(data, sensors)
    if problem.has_random_params:
        raise ValueError("params: expected numbers; those of the problem are random")
    tree = merged(problem, params)
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not np.isfinite(leaf).all():
            raise ValueError(f"params: {jax.tree_util.keystr(path, simple=True, separator='.')} is {leaf}, not finite")
    _refuse_unread(problem, record, tree)
    for sensor in record.sensors:
        for part in sensor.parts:
            sensor.unit_of(part, problem)
    return record, tree


def _refuse_unread(problem: Any, record: Record, tree: Any) -> None:
    """Refuse names that neither the problem nor a sensor has; a function of params may read any."""
    if not isinstance(tree, Mapping):
        return
    noises = [getattr(own.noise, "size", getattr(own.noise, "root", None)) for own in record.sensors]
    if any(map(callable, noises)) or any(callable(part) for own in record.sensors for part in own.parts):
        return
    own = problem.example_params()
    read = [noise for noise in noises if isinstance(noise, str)]
    known = list(dict.fromkeys([*(own if isinstance(own, Mapping) else ()), *read, START]))
    for name in tree:
        if name not in known:
            raise ValueError(f"params: neither the problem nor a sensor has {name!r}; they have "
                             f"{', '.join(known[:-1]) or 'none'}{suggestion(str(name), known)}")  # fmt: skip


class Options(NamedTuple):
    """What a user says of a filter, besides problem, method and record."""

    by: str
    t0: float | None
    law: Any
    params: Any
    initial: Any
    at: Any
    dt: float | None


def _of_steps(problem: Any, method: Any, data: Any, sensors: Any, options: Options) -> Question:
    """The question to a filter that takes the law of a problem in steps for a normal one."""
    by, t0, law, params, initial, at, dt = options
    if law is not None:
        raise ValueError(f"law: by={by!r} has the law of its method's steps; name method= and dt= instead")
    if dt is not None and not dt > 0:
        raise ValueError(f"dt: expected a positive step, got {dt!r}")
    if initial is not None:
        raise ValueError(f"initial: by={by!r} takes the start of the problem; give it a fixed or a normal start")
    record, tree = _numbers(problem, data, sensors, params)
    with jax.enable_x64(True):
        widths = tuple(laws.width_of(problem, sensor, tree) for sensor in record.sensors)
        _check_record(record, widths)
        schedule = scheduled(record, 0.0 if t0 is None else float(t0), at)
        start = start_of(joined(problem.start_parts), None, problem.components, stated_in(problem, tree))
        method = nonlinear.chosen_method(problem, method)
        model = nonlinear.NormalModel(record.sensors, widths, schedule, start, problem, method, by, 0.0)
        names, values, params_of = numbers_in(tree)
        evaluated = nonlinear.with_steps(model, params_of, values, dt)
    return Question(record, evaluated, names, values)


def _of_transitions(problem: Any, record: Record, tree: Any, t0: float | None, initial: Any, at: Any) -> Question:
    """The question to a process whose transitions are known."""
    if at is not None or initial == "stationary":
        raise ValueError(
            "at, initial: what is read without noise is known at its readings; a start is fixed or diffuse"
        )
    begun = record.times[0] if t0 is None and initial == "diffuse" else t0
    schedule = scheduled(record, 0.0 if begun is None else float(begun))
    start = start_of(problem.start_source, initial, problem.components)
    if start.covariance.any():
        raise ValueError("start: expected a fixed one, or initial='diffuse', which is given the first reading")
    model = square_root.SquareRootModel(record.sensors, (1,), schedule, start, problem)
    names, values, params_of = numbers_in(tree)
    return Question(record, square_root.SquareRootEvaluated(model, params_of, values), names, values)


def _check_record(record: Record, widths: Sequence[int]) -> None:
    for sensor, own, width in zip(record.sensors, record.series, widths, strict=True):
        if own.values.shape[1] != width:
            raise ValueError(f"data ({sensor.name}): {own.values.shape[1]} columns, but the sensor has {width} outputs")
        if sensor.range is not None:
            low, high = sensor.range
            with np.errstate(invalid="ignore"):
                outside = int(((own.values <= low) | (own.values >= high)).sum())
            if outside:
                raise ValueError(
                    f"range ({sensor.name}): {outside} readings lie at or beyond its limits, where a reading says only "
                    "that the quantity is outside; write NaN for them, or leave range out"
                )


def merged(problem: Any, params: Any) -> Any:
    """Return the params of a problem with other values, and entries that only sensors have, in their place."""
    own = problem.example_params()
    if params is None:
        return jax.tree.map(lambda value: np.asarray(value, float), {} if own is None else own)
    if not isinstance(params, Mapping) or not (own is None or isinstance(own, Mapping)):
        raise TypeError(f"params: expected {{name: number}}, for a problem whose params are a dict, got {params!r}")
    tree = jax.tree.map(lambda value: np.asarray(value, float), dict(own or {}))
    for name, value in params.items():
        *outer, last = str(name).split(".")
        place = tree
        for word in outer:
            place = place.setdefault(word, {}) if word == START else place[word]
        place[last] = np.asarray(value, float)
    return tree


def stated_in(problem: Any, tree: Any) -> tuple[str, ...]:
    """Return the components whose start stands among the params, where that word is not the problem's own."""
    own = problem.example_params()
    is_own = isinstance(own, Mapping) and START in own
    return tuple(tree[START]) if isinstance(tree, Mapping) and START in tree and not is_own else ()


def with_start(problem: Any, names: Sequence[str], params: Any) -> Any:
    """Return params with the problem's start for those of these names that are components of the start."""
    wanted = [name for name in names if name.startswith(f"{START}.") and name not in (params or {})]
    if not wanted:
        return params
    moments = joined(problem.start_parts).normal()
    if moments is None:
        raise ValueError(f"free ({wanted[0]}): the start of the problem is not normal; give it as numbers")
    mean = np.broadcast_to(moments[0], (problem.n,))
    own = dict(zip(problem.components, mean, strict=True))
    return {**(params or {}), **{name: own.get(name.partition(".")[2], 0.0) for name in wanted}}


def numbers_in(tree: Any) -> tuple[tuple[str, ...], np.ndarray, Any]:
    """Return the names and values of the scalar parameters, and a function that makes params of such values."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    names, places = [], []
    for k, (path, leaf) in enumerate(leaves):
        if np.ndim(leaf) == 0:
            names.append(jax.tree_util.keystr(path, simple=True, separator=".") or "params")
            places.append(k)
    fixed = [leaf for _, leaf in leaves]

    def params_of(theta: Any) -> Any:
        values = list(fixed)
        for k, place in enumerate(places):
            values[place] = theta[k]
        return jax.tree_util.tree_unflatten(structure, values)

    return tuple(names), np.array([float(fixed[place]) for place in places]), params_of


def chosen(names: Sequence[str], wanted: Any) -> tuple[int, ...]:
    """Return the places of the parameters that a user names."""
    words = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    for word in words:
        if word not in names:
            raise ValueError(f"free: there is no parameter {word!r}; there are {', '.join(names) or 'none'}"
                             f"{suggestion(str(word), names)}")  # fmt: skip
    if not words:
        raise ValueError(f"free: expected at least one parameter, of {', '.join(names) or 'none that there are'}")
    if len(set(words)) < len(words):
        raise ValueError(f"free: expected different names, got {words}")
    return tuple(names.index(word) for word in words)


def why_singular(question: Question, readings: Any, marginal: np.ndarray) -> str | None:
    """Return the words for the first reading whose variance is zero; None where all are positive."""
    is_read, plan = question.evaluated.rows.is_read, question.model.schedule
    counts = is_read if readings.sees is None else is_read & ~readings.sees
    bad = counts & ~(SINGULAR * np.maximum(marginal, 0.0) < readings.S)
    if not bad.any():
        return None
    row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
    name = question.record.columns[plan.outputs[column]]
    return (
        f"data ({name}): the reading at time {plan.times[row]:.12g} is known before it is read, with the variance "
        f"{readings.S[row, column]:.3g}: it has no noise, and nothing that it reads is uncertain. Give the sensor "
        "noise, or leave the reading out."
    )


def marginals(question: Question, parts: Any, predicted: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return innovation and variance of each reading against the prediction from earlier times."""
    mean, variance = parts.view.readings(predicted.m, predicted.P)
    return question.evaluated.rows.values - mean, variance
