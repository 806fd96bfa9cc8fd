"""Records that the fitted model would have made, beside the record: bands of readings, summaries and spectra."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import jax
import numpy as np

from stodyn.inference import evaluating, schedule
from stodyn.inference.question import Question
from stodyn.numerics.van_loan import rough_root

MOST_ROWS = 20_000  # of a record that are simulated
SUMMARIES = ("mean", "deviation", "lag 1", "least", "greatest")
ENDS = (2.5, 97.5)  # %, of the bands
BANDS = 32  # of frequencies, at most
LEAST = 8  # readings of an output that is compared


def simulated(question: Question, theta: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return records of the model at θ, (count, rows, columns), at the times and by the sensors of the record."""
    if not isinstance(question.evaluated, evaluating.Evaluated):
        return question.evaluated.simulated(theta, count, MOST_ROWS, rng)
    model, plan = question.model, question.model.schedule
    parts = jax.tree.map(lambda a: a[0], question.evaluated.parts(theta[None]))
    mean, covariance = _begun(question, theta, parts)
    roots, last = [rough_root(Q) for Q in parts.law.Q], min(len(plan.times), MOST_ROWS)
    keep = schedule.keeping(plan, model.widths)[:last]
    z = mean + rng.standard_normal((count, len(mean))) @ rough_root(covariance).T
    readings = np.empty((count, last, plan.values.shape[1]))
    whole = np.ones(len(mean))
    for k, gap in enumerate(plan.gap[:last]):
        if keep.shape[1]:
            whole[-keep.shape[1] :] = keep[k]
            z = z * whole
        z = z + z @ parts.law.E[gap].T + parts.law.c[gap] + rng.standard_normal(z.shape) @ roots[gap].T
        H, d, R, *_ = parts.view.at(k)
        readings[:, k] = z @ H.T + d + np.sqrt(R) * rng.standard_normal((count, len(R)))
    return readings


def _begun(question: Question, theta: np.ndarray, parts: Any) -> tuple[np.ndarray, np.ndarray]:
    """The law of the start; where something in it is diffuse, that given the record."""
    model: Any = question.model
    if model.diffuse() is None:
        return parts.m, parts.P
    history: Any
    parts, history = question.evaluated.history(theta)
    mean, covariance = question.evaluated.smoothed(parts, history)
    return mean[0], covariance[0]


class Output(NamedTuple):
    """The readings of one output (k,), their times, and those of simulated records (count, k)."""

    name: str
    times: np.ndarray
    readings: np.ndarray
    draws: np.ndarray


def predicted(question: Question, theta: np.ndarray, count: int, seed: int) -> tuple[dict[str, Any], list[str]]:
    """Return the variables of a comparison with so many records, and in words what lies outside of all of them."""
    draws = simulated(question, theta, count, np.random.default_rng(seed))
    outputs = [output for output in _outputs(question, draws) if len(output.readings) >= LEAST]
    if not outputs:
        return {}, []
    variables: dict[str, Any] = {"output": ("output", np.array([output.name for output in outputs])),
                                 "summary": ("summary", np.array(SUMMARIES))}  # fmt: skip
    variables |= _banded("reading", "reading", [(own.readings, own.draws) for own in outputs], np.concatenate)
    variables["reading_observed"] = *variables["reading_observed"], _units(question)
    variables["reading_time"] = "reading", np.concatenate([own.times for own in outputs])
    variables["sensor"] = "reading", np.repeat([own.name for own in outputs], [len(own.times) for own in outputs])
    tables = [(summaries(own.readings), summaries(own.draws)) for own in outputs]
    variables |= _banded("summary", ("output", "summary"), tables, np.stack)
    bands = min(BANDS, min(len(own.readings) for own in outputs) // 2)
    spectra = [(spectrum(own, own.readings, bands), spectrum(own, own.draws, bands)) for own in outputs]
    variables |= _banded("spectrum", ("output", "band"), spectra, np.stack)
    variables["frequency"] = ("output", "band"), np.stack([_frequencies(own, bands) for own in outputs])
    words = [
        line for own, (mine, others) in zip(outputs, tables, strict=True) for line in _outside(own.name, mine, others)
    ]
    return variables, words


def _units(question: Question) -> dict[str, str]:
    """The attribute `units` of readings: that of each output whose sensor has one."""
    both = zip(question.record.sensors, question.record.series, strict=True)
    units = [sensor.unit for sensor, own in both for _ in range(own.values.shape[1])]
    named = {name: unit for name, unit in zip(question.record.columns, units, strict=True) if unit}
    return {"units": json.dumps(named)} if named else {}


def _outputs(question: Question, draws: np.ndarray) -> list[Output]:
    """The outputs of the record, each with its own readings in the order of time."""
    plan, outputs = question.model.schedule, []
    values = plan.values[: draws.shape[1]]
    for k, name in enumerate(question.record.columns):
        rows, places = np.nonzero(~np.isnan(values) & (plan.outputs == k))
        outputs.append(Output(name, plan.times[rows], values[rows, places], draws[:, rows, places]))
    return outputs


def _banded(name: str, dims: Any, pairs: list[tuple[np.ndarray, np.ndarray]], joined: Any) -> dict[str, Any]:
    """What was observed, and the ends of the band in which 95 % of the simulated ones lie."""
    ends = [np.percentile(draws, ENDS, axis=0) for _, draws in pairs]
    return {
        f"{name}_observed": (dims, joined([own for own, _ in pairs])),
        f"{name}_low": (dims, joined([low for low, _ in ends])),
        f"{name}_high": (dims, joined([high for _, high in ends])),
    }


def summaries(readings: np.ndarray) -> np.ndarray:
    """Return the numbers named in SUMMARIES of readings (..., k)."""
    mean, deviation = readings.mean(axis=-1), readings.std(axis=-1)
    centred = readings - mean[..., None]
    lag = np.mean(centred[..., 1:] * centred[..., :-1], axis=-1) / np.maximum(deviation**2, 1e-300)
    return np.stack([mean, deviation, lag, readings.min(axis=-1), readings.max(axis=-1)], axis=-1)


def spectrum(output: Output, readings: np.ndarray, bands: int) -> np.ndarray:
    """Return the two-sided spectral density (..., bands) of readings (..., k), averaged over bands of frequencies.

    Readings count as equally spaced, at their mean distance: for a comparison of records that are sampled alike.
    """
    centred = readings - readings.mean(axis=-1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, axis=-1)[..., 1:]) ** 2 * _interval(output) / readings.shape[-1]
    return np.stack([part.mean(axis=-1) for part in np.array_split(power, bands, axis=-1)], axis=-1)


def _interval(output: Output) -> float:
    return float(output.times[-1] - output.times[0]) / (len(output.times) - 1)


def _frequencies(output: Output, bands: int) -> np.ndarray:
    """The middles of the bands, in cycles per unit of time."""
    frequencies = np.fft.rfftfreq(len(output.times), _interval(output))[1:]
    return np.array([part.mean() for part in np.array_split(frequencies, bands)])


def _outside(name: str, mine: np.ndarray, others: np.ndarray) -> list[str]:
    ends = others.min(axis=0), others.max(axis=0)
    return [
        f"the {summary} of {name}, {value:.4g}, lies outside those of {len(others)} simulated records, {low:.4g} to "
        f"{high:.4g}"
        for summary, value, low, high in zip(SUMMARIES, mine, *ends, strict=True)
        if not low <= value <= high
    ]
