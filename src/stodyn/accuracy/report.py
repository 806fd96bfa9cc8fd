"""An estimate as a Dataset: value, interval, levels, the route and why."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stodyn.accuracy import rules
from stodyn.accuracy.controls import LIKELY
from stodyn.accuracy.cusps import WORDS
from stodyn.noise.from_normals import FromNormals
from stodyn.problems.contract import differs_from_path_to_path

ALL = 1e12  # factor of a control from which on it is said to take all the variance: of the deviation, 1e-6 is left


class Account(NamedTuple):
    """The costs of the choice of a method and of the runs, and the failures on the way."""

    doubts: list[str]
    predicted: float  # path-steps of the method that was taken, when it was taken
    other_costs: list[float]  # predicted for the methods that were not taken, the lowest first
    failures: list[str]  # methods that were given up, with the reason
    pilot: int  # path-steps
    spent: int  # path-steps, those of the pilot included
    seconds: float


def dataset(ladder: Any, work: Any, control: Any, account: Account) -> xr.Dataset:
    """Assemble the result of an estimate."""
    interval, bias, levels, counted, _ = ladder.result
    directions = ladder.question.directions
    k = ladder.question_entries // (1 + len(directions))
    by_entry: tuple[str, ...] = () if k == 1 else ("entry",)

    def own(values: np.ndarray) -> tuple[tuple[str, ...], Any]:
        return by_entry, float(values[0]) if k == 1 else values[:k]

    def over_levels(values: list[Any]) -> tuple[tuple[str, ...], np.ndarray]:
        stacked = np.asarray(values)
        return ("level", *by_entry), stacked[:, 0] if k == 1 else stacked[:, :k]

    def rows(values: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
        each = values[k:].reshape(len(directions), k)
        return ("parameter", *by_entry), each[:, 0] if k == 1 else each

    runs = [ladder.runs[one.role, one.level] for one in levels]
    roles = [
        "bias only" if one.role != "base" and not np.any(w) else one.role
        for one, w in zip(levels, counted, strict=True)
    ]
    variables = {
        "value": own(interval.value),
        "error": own(interval.half),
        "low": own(interval.value - interval.half),
        "high": own(interval.value + interval.half),
        "bias": own(interval.bias),
        "stderr": own(interval.stderr),
        "steps": ("level", [run.steps for run in runs]),
        "points": ("level", [one.known.points for one in levels]),
        "level_mean": over_levels([one.known.mean for one in levels]),
        "level_stderr": over_levels([np.sqrt(one.known.stderr2) for one in levels]),
        "level_variance": over_levels([one.known.variance for one in levels]),
        "kurtosis": over_levels([one.known.kurtosis for one in levels]),
        "gain": over_levels([run.known(slice(0, k)).gain for run in runs]),
        "path_steps": ("level", [run.spent for run in runs]),
        "sampled": ("level", [run.points for run in runs]),
        "role": ("level", roles),
        "progress_path_steps": ("look", [entry[0] for entry in work.history]),
        "progress_value": ("look", [entry[1] for entry in work.history]),
        "progress_error": ("look", [entry[2] for entry in work.history]),
    }
    if directions:
        variables |= {
            "gradient": rows(interval.value),
            "gradient_error": rows(interval.half),
            "gradient_bias": rows(interval.bias),
            "gradient_stderr": rows(interval.stderr),
        }
    plain, plain_steps = plain_cost(ladder, control.variance)
    record = {
        "problem": type(ladder.question.problem).__name__,
        "method": ladder.candidate.method.spelling,
        "f": type(ladder.functional).__name__,
        "t": list(ladder.question.t),
        "error": work.error,
        "relative": work.relative,
        "confidence": work.level,
        "seed": work.seed,
        "bias": "the last change of the extrapolated value"
        if np.all(bias.extrapolated)
        else f"the remainder of the difference between {ladder.n(ladder.top - 1)} and {ladder.n(ladder.top)} steps, "
        "should it fall by an order less than claimed; nothing is extrapolated"
        if ladder.is_plain
        else "from the ratio of the last two differences: the observed order is lower than claimed, and nothing is "
        "extrapolated",
        "starts_and_params": _starts_and_params(ladder.question.problem, runs),
        "freedom": interval.freedom if math.isfinite(interval.freedom) else None,
        "runs": [run.run.record() for run in runs],
        "given_up": account.failures,
        "not_compared": ladder.no_below,
        "seconds": round(account.seconds, 3),
    }
    attrs = {
        "route": _route(ladder, bias, runs),
        "why": _why(ladder, account, plain, control),
        "trusted": int(not account.doubts),
        "reasons": "; ".join([*account.doubts, WORDS] if account.doubts and ladder.order.is_low else account.doubts),
        "path_steps": int(account.spent),
        "pilot_path_steps": int(account.pilot),
        "predicted": float(account.predicted),
        "plain_path_steps": float(plain),
        "plain_steps": int(plain_steps),
        "provenance": json.dumps(record),
    }
    return xr.Dataset(variables, {"parameter": [one.name for one in directions]} if directions else None, attrs)


def plain_cost(ladder: Any, own: np.ndarray | None) -> tuple[float, int]:
    """The path-steps that plain Monte Carlo with the same method would need for the same error; own: the variance of f
    itself, where the levels have a control."""
    interval, error = ladder.result.interval, ladder.result.error
    variances, biases, steps = {}, {}, {}
    top = max(l for role, l in ladder.runs if role == "difference")
    left = np.zeros_like(interval.value)
    g = ladder.order.ratio
    change, variance = np.zeros_like(left), np.zeros_like(left)
    for l in range(top, 0, -1):
        if ("difference", l) in ladder.runs:
            change, variance = np.abs(ladder.known("difference", l).mean), ladder.fine(l).variance
        else:  # between the pilot and a base far above it
            change = g * change
        variances[l] = variance if own is None else own
        biases[l] = left + change / (g - 1) if l == top else left
        steps[l] = ladder.n(l)
        left = biases[l] + change
    variances = {l - 1: v for l, v in variances.items()}
    biases = {l - 1: v for l, v in biases.items()}
    steps = {l - 1: v for l, v in steps.items()}
    return rules.plain(variances, biases, steps, ladder.order, error, ladder.work.level)


def _starts_and_params(problem: Any, runs: list[Any]) -> str:
    """How random starts and parameters are drawn."""
    if not differs_from_path_to_path(problem):
        return "fixed"
    coordinates = max((run.run.layout.in_front[-1] for run in runs if run.points == "sobol"), default=0)
    if not coordinates:
        return "pseudo-random"
    by_function = any(
        one.is_random and not one.is_listed and one.ppf is None and not isinstance(one, FromNormals)
        for one in (*problem.start_parts, *problem.param_sources)
    )
    return f"{coordinates} of the Sobol coordinates" + (", others pseudo-random" if by_function else "")


def _route(ladder: Any, bias: rules.Bias, runs: list[Any]) -> str:
    """The method and the levels that were taken, in words."""
    base, top = ladder.n(ladder.base), ladder.n(ladder.top)
    shape = f"{base} steps" if ladder.is_plain or ladder.base == ladder.top else f"{base} to {top} steps"
    pairs = " antithetic," if ladder.candidate.kind == "antithetic" else ""
    sobol = sorted({run.steps for run in runs if run.points == "sobol"})
    points = "pseudo-random points" if not sobol else "Sobol points" if all(r.points == "sobol" for r in runs) else (
        f"Sobol points on {', '.join(map(str, sobol))} steps"
    )  # fmt: skip
    last = "extrapolated" if np.all(bias.extrapolated) else "not extrapolated"
    if ladder.is_plain:
        last = f"plain Monte Carlo, its bias from paths of {ladder.n(ladder.top - 1)} and {top} steps"
    return f"{ladder.candidate.method.name},{pairs} {shape}, {points}, {last}"


def _why(ladder: Any, account: Account, plain: float, control: Any) -> str:
    """The reasons for the route, in words."""
    reasons = ["it was the only candidate method"]
    if account.other_costs:
        ratio = account.other_costs[0] / max(account.predicted, 1e-300)
        reasons = [f"the next best method was predicted to cost {ratio:.2g} times as much"]
    if ladder.order.is_low:
        reasons.append(WORDS)
    if ladder.is_plain:
        reasons.append("paths of different steps lose each other, so that levels do not help")
    if control.functional is not None:
        reasons.append(f"the control lowers the variance {control.factor:.2g} times" if control.factor < ALL else
                    "the control takes all the variance away")  # fmt: skip
        if control.functional.is_stated:
            half = float(control.expectation.interval(LIKELY).half[0])
            shift = half * np.max(np.abs(control.functional.slope))
            reasons.append(
                f"its expectation is taken as stated: the paths confirm it to ± {half:.2g}, and a mistake within that "
                f"would move the value by up to {shift:.2g}, which the error leaves out"
            )
    return "; ".join([*reasons, *_beside_plain(plain / max(account.spent, 1), ladder.is_plain)])


def _beside_plain(ratio: float, is_plain: bool) -> list[str]:
    """What to say of plain Monte Carlo that takes `ratio` times as many path-steps; little where it was taken."""
    if is_plain:
        words = f"plain Monte Carlo that knew its bias would take {ratio:.2g} times as many path-steps"
        return [words] if ratio <= 0.5 else []
    if math.isinf(ratio):
        return ["none of the steps considered gives plain Monte Carlo a bias below the error"]
    if ratio > 2:
        return [f"plain Monte Carlo would take {ratio:.2g} times as many path-steps"]
    fewer = f", and would take {ratio:.2g} times as many path-steps if it knew its bias" if ratio <= 0.5 else ""
    return [f"plain Monte Carlo is as good{fewer}"]
