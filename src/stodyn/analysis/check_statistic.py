"""One suite that every statistic must pass, whoever wrote it: the needs of the engine, the promises of its errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn import listing
from stodyn import statistics as st
from stodyn.analysis.check import Result, answers
from stodyn.arguments import checks_arguments
from stodyn.engine.ready import Ready, prepare
from stodyn.noise.readings import per_sample
from stodyn.noise.source import PerPath
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Sensor
from stodyn.statistics import intervals
from stodyn.statistics.contract import Snapshot, Statistic
from stodyn.statistics.moments import Averaged

__dir__ = listing.names_of(__name__)

PATHS, WIDTH = 24, 8  # of the runs that are compared
GRID: dict[str, Any] = dict(t=(0.0, 4.0), dt=0.25)
FAR = 1e9
AGREE, MOVED, SINGLE = 1e-9, 1e-5, 1e-3  # relative: between ways to merge, after a move by FAR, in float32
CONFIDENCE = 0.95
SKEWED, SETTLED = 0.03, 0.01  # the coverage that may be missing with 8 and 1000 paths, as estimates are not normal
Make = Callable[[float], Statistic]


@checks_arguments
def check_statistic(statistic: Statistic | Make, seeds: int = 0) -> list[Result]:
    """Put a statistic to the suite that every statistic must pass, on dX = -X dt + dW with two components.

    record    it is a frozen, hashable value, and claims no less memory for a longer run or for more paths
    merge     blocks may be merged in pairs from either end, with the result of a single block
    one       a single path has finite numbers, errors and variances apart
    failed    paths that failed leave no trace, even where they are a whole block, unless the statistic counts them
    offset    states moved by 1e9 give the same numbers, or numbers moved by 1e9
    float32   states in single precision give the same numbers to three digits, summed up in double precision
    weights   where it averages over paths, a path of weight 2 counts as two paths
    coverage  each NAME_stderr is the scatter of NAME over the seeds, with 8 paths and with 1000, and the interval of
              95 % that NAME names (`results.interval`; Student's where it names none) covers the truth as often, apart
              from the effect of skewness (3 % with 8 paths, 1 % with 1000). A variable whose NAME_kind says that it may
              be only a bound is not asked

    Parameters
    ----------
    statistic : Statistic or callable
        The statistic, or a function of the offset that gives the one for states moved by it, since a level or edges
        have to move with them: lambda offset: Histogram(edges + offset).
    seeds : int
        The number of seeds with which coverage is measured, 300 or more for a firm answer; 0: it is not measured.

    Returns
    -------
    list of Result
        One for each question.

    Raises
    ------
    CheckFailed
        If any check fails; its `results` hold all answers.
    """
    make: Make = (lambda offset: statistic) if isinstance(statistic, Statistic) else statistic
    checks = dict(SUITE)
    if seeds:
        checks["coverage"] = functools.partial(_coverage, seeds=seeds)
    with jax.enable_x64(True):
        return answers(type(make(0.0)).__name__, checks, make)


def _record(make: Make) -> str:
    statistic = make(0.0)
    assert isinstance(statistic, Statistic), f"{statistic!r} is not a Statistic"
    assert getattr(getattr(statistic, "__dataclass_params__", None), "frozen", False), "it is not a frozen dataclass"
    hash(statistic)
    few, many = (statistic.memory(times, paths, n) for times, paths, n in ((4, 3, 2), (400, 3000, 5)))
    more = [statistic.memory(8, 3, 2), statistic.memory(4, 6, 2), statistic.memory(4, 3, 4)]
    assert 0 <= few <= min(more) and max(more) <= many, f"its memory is {few}, {more} and {many} for ever larger runs"
    return repr(statistic)


def _merge(make: Make) -> str:
    ready = _ready(make)
    parts = [ready.run.compute(block, lambda steps: None).folded[0] for block in range(ready.run.blocks)]
    merge = ready.run.spec.statistics[0].merge
    a, b, c = (jax.tree.map(np.array, part) for part in parts)
    from_left, from_right = merge(merge(a, b), c), merge(*(jax.tree.map(np.array, p) for p in (a, merge(b, c))))
    left, right = (_labelled(ready, result) for result in (from_left, from_right))
    _compare(left, right, AGREE, "merged from the right")
    _compare(left, _ready(make, block=PATHS).arrays(seed=ready.run.layout.seed), AGREE, "as one block")
    return f"{len(left)} variables"


def _one(make: Make) -> str:
    arrays = _ready(make, paths=1).arrays(seed=1)
    for name, values in arrays.items():
        is_asked = not any(
            word in name for word in ("stderr", "variance", "std", "hazard")
        )  # a hazard needs someone left
        if is_asked and values.dtype.kind == "f":
            assert np.isfinite(values.ravel()[-1:]).any(), f"{name} of one path is {values.ravel()[:3]}"
    return f"{len(arrays)} variables"


def _failed(make: Make) -> str:
    """Whether a statistic leaves failed paths out. There is no noise, so that a path is its start; of 24 paths, those
    of the first block all fail, and two of the second."""
    if make(0.0).counts_failed:
        return "not asked: paths that failed count"
    starts = np.linspace(-1.0, 1.0, 2 * PATHS).reshape(PATHS, 2)
    bad = np.isin(np.arange(PATHS), [*range(WIDTH), WIDTH + 1, WIDTH + 5])
    with_bad = np.where(bad[:, None], 100.0, starts)
    some = _ready(make, start=PerPath(with_bad), noise=0.0, on_failure="record")
    others = _ready(make, start=PerPath(starts[~bad]), noise=0.0, paths=int((~bad).sum()), block=PATHS)
    actual, expected = some.arrays(seed=1), others.arrays(seed=1)
    dims = {name: variable.dims for name, variable in _variables(others).items()}
    for name, values in expected.items():
        first = 1 if dims[name][:1] == ("time",) else 0  # at the start nobody has failed
        if "number" not in dims[name]:
            later = [np.atleast_1d(array)[first:] for array in (values, actual[name])]
            _compare({name: later[0]}, {name: later[1]}, AGREE, "with failed paths")
    return f"{bad.sum()} of {PATHS} paths left out"


def _offset(make: Make) -> str:
    plain, moved = (_ready(make, offset=offset).arrays(seed=1) for offset in (0.0, FAR))
    for name, values in plain.items():
        if values.dtype.kind == "U":
            assert np.array_equal(moved[name], values), f"{name} is {moved[name]} where all states are moved by {FAR:g}"
            continue
        gap = moved[name].astype(float) - values
        gap = np.where(np.abs(gap - FAR) < 0.5 * FAR, gap - FAR, gap)
        bound = MOVED * (1.0 + np.abs(values))
        assert np.all((np.abs(gap) <= bound) | (np.isnan(values) & np.isnan(moved[name]))), (
            f"{name} differs by {np.nanmax(np.abs(gap)):.2g} where all states are moved by {FAR:g}"
        )
    return f"equal to {MOVED:g}"


def _float32(make: Make) -> str:
    double, single = (_ready(make, dtype=dtype).arrays(seed=1) for dtype in ("float64", "float32"))
    for name, values in single.items():
        expected = np.float32 if name == "path" else np.float64
        assert values.dtype.kind != "f" or values.dtype == expected, f"{name} is of {values.dtype}"
    _compare(double, single, SINGLE, "in float32")
    return f"equal to {SINGLE:g}"


def _weights(make: Make) -> str:
    """Weights 1, 2, 3 against paths that occur once, twice, three times."""
    statistic = make(0.0)
    if not isinstance(statistic, Averaged):
        return "not asked: it is not made of averages"
    problem, repeats = _problem(0.0, 1.0, None), np.array([1, 2, 3, 1])
    ready = statistic.prepared(problem, np.linspace(0.0, 4.0, 17))
    x = np.random.default_rng(1).normal(size=(2, 4))

    def observation(x, weight):
        lanes = x.shape[1]
        t, x = jnp.zeros(()), jnp.asarray(x)
        track = ready.track_start(t, x, None)
        return ready.observe(Snapshot(t, x, jnp.ones(lanes, bool), jnp.asarray(weight), None, None, 0, track))

    once, often = (
        observation(x, repeats.astype(float)),
        observation(np.repeat(x, repeats, axis=1), np.ones(repeats.sum())),
    )
    for a, b in zip(jax.tree.leaves(once), jax.tree.leaves(often), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    return "a weight of k is k paths"


def _coverage(make: Make, seeds: int) -> str:
    few, many = (_over_seeds(make, paths, seeds) for paths in (8, 1000))
    attrs = {name: dict(variable.attrs) for name, variable in _variables(_ready(make)).items()}
    lines, sigma = [], np.sqrt(CONFIDENCE * (1.0 - CONFIDENCE) / seeds)
    for name in [name for name in many if f"{name}_stderr" in many and f"{name}_kind" not in many]:
        truth = many[name].mean(axis=0)
        for paths, shares, lacking in ((8, few, SKEWED), (1000, many, SETTLED)):
            values, stderr = shares[name], shares[f"{name}_stderr"]
            is_random = (many[name].std(axis=0) > 1e-9 * (1.0 + np.abs(truth))) & np.isfinite(stderr).all(axis=0)
            if not is_random.any():
                continue
            values, stderr = values[:, is_random], stderr[:, is_random]
            ratio = float(np.mean(stderr**2) / np.mean(values.var(axis=0, ddof=1)))
            spread = 5.0 * np.sqrt(3.0 / seeds) + lacking
            assert abs(ratio - 1.0) < spread, f"{name}_stderr² is {ratio:.3g} of its scatter with {paths} paths"
            counted = attrs[name].get("paths")
            known: dict[str, Any] = {"interval": intervals.STUDENT} | attrs[name]
            known["paths"] = shares[counted] if isinstance(counted, str) else paths
            low, high = (
                x[:, is_random] for x in intervals.limits(shares[name], shares[f"{name}_stderr"], known, CONFIDENCE)
            )
            covered = float(np.mean((low <= truth[is_random]) & (truth[is_random] <= high)))
            assert covered > CONFIDENCE - lacking - 3.0 * sigma, f"{name}: {covered:.3f} covered with {paths} paths"
            lines.append(f"{name} {covered:.3f} ({paths} paths, {ratio:.2f})")
    if "spectrum_low" in many:
        truth = many["spectrum"].mean(axis=0)
        for paths, shares, lacking in ((8, few, SKEWED), (1000, many, SETTLED)):
            covered = float(np.mean((shares["spectrum_low"] <= truth) & (truth <= shares["spectrum_high"])))
            assert covered > CONFIDENCE - lacking - 3.0 * sigma, f"spectrum: {covered:.3f} covered with {paths} paths"
            lines.append(f"spectrum {covered:.3f} ({paths} paths)")
    return ", ".join(lines) or "it has no errors"


SUITE: dict[str, Callable[[Make], str]] = {
    "record": _record,
    "merge": _merge,
    "one": _one,
    "failed": _failed,
    "offset": _offset,
    "float32": _float32,
    "weights": _weights,
}


def _sensor(offset: float) -> Sensor:
    return Sensor("reading", of=lambda t, x: x - offset, every=0.5, noise=per_sample(0.1))


EDGES = np.linspace(-2.0, 2.0, 6)
EXAMPLES: dict[str, Make] = {  # every statistic of paths, as it is asked
    "Moments": lambda offset: st.Moments(every=4),
    "Moments with errors of covariance": lambda offset: st.Moments(every=8, covariance=True),
    "Moments without covariance": lambda offset: st.Moments(every=8, covariance=False),
    "Observable": lambda offset: st.Observable(lambda t, x: x, name="seen", every=8),
    "Change": lambda offset: st.Change(lambda t, x: x[0], every=8),
    "Extreme": lambda offset: st.Extreme([0, 1], kind="largest", levels=[1.0 + offset], quantiles=[0.5], every=8),
    "Rainflow": lambda offset: st.Rainflow(lambda t, x: x - offset, curve=(1e3, 3.0), edges=[0.0, 1.0, 9.0]),
    "Histogram": lambda offset: st.Histogram(EDGES + offset, every=8),
    "Paths": lambda offset: st.Paths(9, every=8),
    "Sensed": lambda offset: st.Sensed(_sensor(offset), count=9),
    "Passage": lambda offset: st.Passage(1.0 + offset, bridge=False, every=8),
    "Iterations": lambda offset: st.Iterations(every=8),
    "Autocorrelation": lambda offset: st.Autocorrelation(lags=4),
    "Spectrum": lambda offset: st.Spectrum(segment=8),
    "Allan": lambda offset: st.Allan(),
    "Spectrum of segments": lambda offset: st.Spectrum(segment=8, mean="segment"),
}


# --- the runs ---------------------------------------------------------------------------------------------------------


def _problem(offset: float, noise: float, start: Any) -> SDE:
    def drift(t, x):
        return jnp.where(x > offset + 50.0, jnp.nan, offset - x)

    def diffusion(t, x):
        return noise * jnp.eye(2)

    def stationary(rng, size):
        return offset + rng.normal(0.0, np.sqrt(0.5), (size, 2))

    return SDE(drift, diffusion, stationary if start is None else start, structure="additive")


def _ready(make: Make, *, offset: float = 0.0, noise: float = 1.0, start: Any = None, **options: Any) -> Ready:
    arguments: dict[str, Any] = dict(paths=PATHS, block=WIDTH, collect=make(offset)) | GRID | options
    return prepare(_problem(offset, noise, start), "EulerMaruyama", **arguments)


def _over_seeds(make: Make, paths: int, seeds: int) -> dict[str, np.ndarray]:
    """Every variable with a leading axis of seeds."""
    ready = _ready(make, paths=paths, block=None)
    runs = [ready.arrays(seed=seed) for seed in range(seeds)]
    return {name: np.stack([run[name] for run in runs]) for name in runs[0]}


def _variables(ready: Ready) -> dict[str, Any]:
    part = ready.run.compute(0, lambda steps: None).folded
    return dict(ready.run.label(part)[0][1].variables)


def _labelled(ready: Ready, result: Any) -> dict[str, np.ndarray]:
    ((_, labelled, _),) = ready.run.label([result])
    return {name: variable.values for name, variable in labelled.variables.items()}


def _compare(expected: dict[str, np.ndarray], actual: dict[str, np.ndarray], tolerance: float, how: str) -> None:
    assert set(expected) <= set(actual), f"{how} it has the variables {sorted(actual)}, expected {sorted(expected)}"
    for name, values in expected.items():
        if values.dtype.kind == "U":
            assert np.array_equal(actual[name], values), f"{how} {name} is {actual[name]}, expected {values}"
            continue
        near = np.isclose(actual[name], values, rtol=tolerance, atol=tolerance, equal_nan=True)
        gap = np.abs(actual[name].astype(float) - values)
        assert near.all(), f"{how} {name} differs by {np.nanmax(np.where(near, 0.0, gap)):.2g}"
