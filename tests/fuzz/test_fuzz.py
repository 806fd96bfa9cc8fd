"""Generated calls: each gives a right result or raises an error of stodyn's own with a message, never a raw one.

Some hundreds of calls in CI, the same ones every time; `make fuzz` makes more than 10 000 new ones.
"""

import dataclasses
import math
import os
import traceback
from pathlib import Path

import hypothesis
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import strategies as make

import stodyn
from stodyn import (
    SDAE,
    SDE,
    Hamiltonian,
    Mechanical,
    PathsFailed,
    PerPath,
    difference,
    linear,
    load,
    place,
    provenance,
    runfile,
    simulate,
    sweep,
)
from stodyn import statistics as st
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.problems.contract import Problem
from stodyn.statistics.contract import Statistic

FULL = bool(os.environ.get("STODYN_FUZZ"))
HOME = str(Path(stodyn.__file__).parent)
OWN = (ValueError, TypeError, MemoryError, OSError, PathsFailed)


def calls(in_ci: int, full: int):
    """How many calls; in CI always the same ones."""
    return hypothesis.settings(
        max_examples=full if FULL else in_ci, derandomize=not FULL, deadline=None, database=None,
        suppress_health_check=list(hypothesis.HealthCheck), print_blob=False,
    )  # fmt: skip


def attempted(function, /, *arguments, **options):
    """The result, or None where an error of stodyn's own was raised; any other error is a fault."""
    try:
        return function(*arguments, **options)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = last.filename.startswith(HOME) or type(error).__module__.startswith("stodyn.")
        spoken = len(str(error)) > 8 and isinstance(error, (*OWN, UserWarning))
        if not (ours and spoken):
            raise AssertionError(f"a raw {type(error).__name__} from {last.filename}:{last.lineno}") from error
        return None


pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")


class Stranger:
    """An object that nobody knows."""

    def __repr__(self):
        return "Stranger()"


JUNK = [
    None, True, -1, 0, 3, 2.5, -0.5, math.nan, math.inf, "", "x", "rate", b"x", [], {}, (), [1], [math.nan], ["a", "b"],
    [[1.0, 2.0], [3.0, 4.0]], {"a": 1}, {1: 2}, 1 + 2j, 10**30, Stranger(), Stranger, len, lambda: 0, lambda *a: None,
    np.array([]), np.float32(0.1), np.array(["a"]), np.eye(3), range(3), ..., PerPath([1.0, 2.0]), scipy.stats.norm(),
    scipy.stats.norm, st.Moments(), EulerMaruyama,
]  # fmt: skip
junk = make.integers(0, len(JUNK) - 1).map(lambda number: JUNK[number])


def mostly(*values):
    """One of these, or now and then anything."""
    numbers = make.integers(0, len(values) - 1)  # not the values themselves: Hypothesis would print them at every draw
    return make.integers(0, 11).flatmap(lambda k: junk if k == 0 else numbers.map(lambda number: values[number]))


# --- simulate ---------------------------------------------------------------------------------------------------------

DECAY = SDE(lambda t, x, p: -p["rate"] * x, lambda t, x, p: 0.0 * x, 1.5, params={"rate": 0.5})
PAIR = SDE(lambda t, x: -0.5 * x, lambda t, x: 0.3 * jnp.eye(2), [1.0, -1.0], names=("a", "b"))
STRATONOVICH = SDE(lambda t, x: -x, lambda t, x: 0.2 * x, scipy.stats.uniform(1, 1), calculus="stratonovich")
collected = make.lists(
    mostly(st.Moments(), st.Moments(every=2), st.Paths(64), st.Observable(lambda t, x, *p: x[0], name="seen"),
           st.Histogram([-1.0, 0.0, 1.0]), st.Moments(at=[1.0]), st.Iterations(), st.Passage(2.0, mean=False)),
    max_size=3,
)  # fmt: skip
simulated = make.fixed_dictionaries(
    dict(
        problem=mostly(DECAY, DECAY, PAIR, STRATONOVICH),
        method=mostly("EulerMaruyama", "EulerMaruyama", Heun, None, "heun", "no such"),
        t=mostly((0, 1), (0, 1), (0.0, 1.0), [0, 1], (1, 0)),
        dt=mostly(0.25, 0.25, 0.5, [0.25, 0.25, 0.5], 0.3),
        paths=mostly(1, 5, 8, 17, np.int64(8)),
        seed=mostly(0, 1, 7, np.uint32(3), 2**40),
        on_failure=mostly("raise", "record"),
        dtype=mostly("float64", "float64", "float64", "float32"),
        executor=mostly("auto", "auto", "auto", "printed", "printed", "vmap"),  # XLA takes a second for each program
        block=mostly(None, 8, 8, 16),
    ),
    optional=dict(collect=collected, threads=mostly(1, 2), progress=mostly(False), place=mostly(place.threads(2))),
)


@calls(70, 5000)
@hypothesis.given(options=simulated)
def test_any_call_of_simulate_is_answered_or_refused_in_words(options):
    run = attempted(simulate, **options)
    if run is None:
        return
    record, paths = provenance(run), int(options["paths"])
    assert record["paths"] == paths and record["seed"] == int(options["seed"])
    assert run["time"].values[0] >= 0.0 and run["time"].values[-1] == 1.0
    problem, dtype = options["problem"], options["dtype"]
    n = problem.n
    if "mean" in run:
        times = run["mean"].dims[0]  # "time", or another one beside statistics that look at other times
        assert run["mean"].shape == (run.sizes[times], n) and run[times].values[-1] == 1.0
        assert run["mean"].dtype == np.float64
        assert run["paths_used"].dtype.kind == "i" and np.all(run["paths_used"] == paths)
    if "path" in run:
        assert run["path"].shape[0] == min(64, paths) and run["path"].dtype == np.dtype(dtype)
        if "mean" in run and run["path"].dims[1] == run["mean"].dims[0]:
            tolerance = 1e-12 if dtype == "float64" else 1e-5
            np.testing.assert_allclose(run["path"].mean("number"), run["mean"], rtol=tolerance, atol=tolerance)
    if "mean" in run and problem is DECAY and record["method"] == "EulerMaruyama" and run.sizes["time"] > 1:
        h = np.diff(np.concatenate([[0.0], np.cumsum(np.broadcast_to(record["dt"], record["steps"]))]))
        exact = 1.5 * np.prod(1 - 0.5 * h)
        np.testing.assert_allclose(run["mean"][-1, 0], exact, rtol=1e-12 if dtype == "float64" else 1e-5)


# --- problems ---------------------------------------------------------------------------------------------------------

functions = mostly(
    lambda t, x: -x, lambda t, x, p: -x, lambda t, x: 0.1, lambda t, x, p: 0.1 * jnp.eye(2), lambda t, x: x[0],
    lambda t, x: jnp.zeros((2, 0)), lambda t, x: jnp.array([1.0]), lambda x: x, lambda t, x: "x", lambda t, x: None,
    lambda t, x: 1 / 0, lambda t, x: x if x > 0 else -x, lambda t, x, p: p["no"], lambda t, x: jnp.linalg.inv(x),
    lambda t, x, v: -x, lambda t, x, v: jnp.zeros((1, 1)), lambda q, p: 0.5 * p**2, lambda t, q, p: p @ p + q @ q,
)  # fmt: skip
starts = mostly(1.0, [1.0, 2.0], [1.0], np.zeros(2), lambda rng, size: rng.normal(size=(size, 2)), lambda: 0,
                ([1.0], [0.0]), ([1.0, 2.0], [0.0, 1.0]), [[1.0]], scipy.stats.norm(), PerPath([[1.0], [2.0]])
                )  # fmt: skip
common = dict(
    params=mostly(None, None, 1.0, {"a": 1.0}, scipy.stats.norm()),
    names=mostly(None, ("x",), ("x", "y")),
    units=mostly(None, ("m",), {"x": "m"}, {"time": "s"}),
)
PROBLEMS = {
    SDE: dict(
        drift=functions, diffusion=functions, start=starts, calculus=mostly("ito", "stratonovich"),
        structure=mostly(None, None, "additive", "diagonal", "scalar", "general"), **common,
    ),
    Mechanical: dict(force=functions, noise=functions, start=starts, mass=mostly(None, 2.0, np.eye(2)), **common),
    Hamiltonian: dict(H=functions, h=functions, start=starts, **common),
    SDAE: dict(mass=mostly(np.eye(2), np.diag([1.0, 0.0]), 1.0), drift=functions, diffusion=functions, start=starts),
    linear: dict(A=mostly(-1.0, -np.eye(2), [[0.0, 1.0], [-1.0, -1.0]]), B=mostly(1.0, np.eye(2), [[0.0], [1.0]]),
                 start=starts),
}  # fmt: skip


def known(kind, options):
    import inspect

    return {name: strategy for name, strategy in options.items() if name in inspect.signature(kind).parameters}


problems = make.sampled_from(list(PROBLEMS)).flatmap(
    lambda kind: make.tuples(make.just(kind), make.fixed_dictionaries({}, optional=known(kind, PROBLEMS[kind])))
)


@calls(120, 2500)
@hypothesis.given(drawn=problems)
def test_any_problem_is_made_or_refused_in_words(drawn):
    import inspect

    kind, options = drawn
    needed = [p.name for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
    hypothesis.assume(all(name in options for name in needed))
    problem = attempted(kind, **options)
    if problem is not None:
        assert isinstance(problem, Problem)
        assert len(problem.components) == problem.n >= 1
        assert np.shape(problem.example_start()) == (problem.n,)


# --- statistics -------------------------------------------------------------------------------------------------------

counts, levels = mostly(1, 5, 100), mostly(0.5, 1.0, -1.0)
functions_of_state = mostly(lambda t, x: x[0], lambda t, x: x, lambda t, x: "x", lambda t, x: x @ x, lambda x: x,
                            lambda t, x: jnp.zeros((2, 2)), lambda t, x: 1j * x[0])  # fmt: skip
times = dict(every=mostly(None, None, 1, 2), at=mostly(None, None, [1.0], [0.0, 0.5], 0.5, [2.0]))
STATISTICS = {
    st.Moments: {}, st.Iterations: {}, st.Paths: dict(count=counts),
    st.Histogram: dict(edges=mostly([0.0, 1.0], np.linspace(-1, 1, 4), [1.0, 0.0])),
    st.Observable: dict(function=functions_of_state, name=mostly(None, "seen", "time"), units=mostly(None, "J")),
    st.Passage: dict(level=mostly(2.0, 5.0, -1.0, (-3.0, 3.0)), of=mostly(0, 1, "a", "z", lambda t, x: x @ x),
                     direction=mostly(None, "up", "down", "left"), bridge=mostly(True, False), mean=mostly(False)),
    st.Spectrum: dict(segment=mostly(8, 256), paths=counts, after=mostly(None, 0.5), confidence=mostly(0.9, 2.0),
                      mean=mostly("paths", "segment", "none")),
    st.Autocorrelation: dict(lags=mostly(1, 50), paths=counts, after=mostly(None, 0.5)),
    st.Change: dict(function=functions_of_state),
}  # fmt: skip
statistics = make.sampled_from(list(STATISTICS)).flatmap(
    lambda kind: make.tuples(make.just(kind), make.fixed_dictionaries(STATISTICS[kind], optional=times))
)


@calls(25, 2000)
@hypothesis.given(drawn=statistics, problem=make.sampled_from([PAIR, PAIR, PAIR, DECAY]))
def test_any_statistic_is_computed_or_refused_in_words(drawn, problem):
    kind, options = drawn
    statistic = attempted(kind, **options)
    if statistic is None:
        return
    assert isinstance(statistic, Statistic) and dataclasses.is_dataclass(statistic)
    run = attempted(simulate, problem, "EulerMaruyama", t=(0, 1), dt=0.25, paths=5, seed=1, block=8, collect=statistic)
    if run is not None:
        assert all(variable.dtype.kind in "fiU" for variable in run.data_vars.values())


# --- sweeps -----------------------------------------------------------------------------------------------------------

rates = make.one_of(mostly([0.5, 1.0], [0.25], (2.0, 1.0), np.array([0.5]), [0.5, "x"], ["a"], [[1.0]]), junk)
overs = make.one_of(
    make.fixed_dictionaries({"rate": rates}),
    make.fixed_dictionaries({"rate": rates}, optional={"mass": rates, ("rate",): rates, ("rate", "x"): rates}),
    junk,
)


@calls(40, 800)
@hypothesis.given(
    over=overs, common=mostly(True, False), differences=mostly(True, False), paths=mostly(5, 8, 17),
    problem=mostly(DECAY, DECAY, DECAY, lambda rate: DECAY, lambda rate: 3, PAIR),
)  # fmt: skip
def test_any_sweep_is_computed_or_refused_in_words(over, common, differences, paths, problem):
    options = dict(t=(0, 1), dt=0.25, paths=paths, seed=1, block=8, collect=st.Moments(at=[1.0]))
    run = attempted(sweep, problem, "EulerMaruyama", over=over, common=common, differences=differences, **options)
    if run is None:
        return
    assert run["mean"].dims[-2:] == ("time", "component") and run.sizes["rate"] == len(over["rate"])
    if problem is DECAY:
        exact = 1.5 * (1 - 0.25 * np.asarray(over["rate"], float)) ** 4
        np.testing.assert_allclose(run["mean"].values[:, 0, 0], exact, rtol=1e-12)
        compared = attempted(difference, run, "rate")
        if compared is not None:
            np.testing.assert_allclose(compared["mean"].values[:, 0, 0], np.diff(exact), rtol=1e-9, atol=1e-12)
            assert np.all(compared["mean_stderr"].values < 1e-7)  # there is no noise, but there is rounding


# --- run files --------------------------------------------------------------------------------------------------------

WHOLE = {
    "model": {"name": "ornstein_uhlenbeck", "parameters": {"rate": 0.5, "sigma": 0.0}},
    "method": {"name": "EulerMaruyama"},
    "grid": {"t": [0, 1], "dt": 0.25},
    "run": {"paths": 5, "seed": 1, "block": 8},
    "collect": [{"statistic": "Moments", "every": 1}],
}
PLAIN = [True, -1, 0, 3, 2.5, "", "x", "Heun", "os:system", "lambda x: x", [], [1], ["a"], {}, {"a": 1}, 10**30]
KEYS = [
    "name", "parameters", "options", "t", "dt", "paths", "seed", "block", "ledger", "statistic", "every", "function",
    "kind", "workers", "address", "model", "method", "grid", "run", "collect", "place", "output", "typo",
]  # fmt: skip
edits = make.lists(
    make.tuples(make.sampled_from([*WHOLE, "place", "output", ""]), make.sampled_from(KEYS),
                make.one_of(make.none(), make.sampled_from(PLAIN))), min_size=0, max_size=2,
)  # fmt: skip


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f"'{value}'" if isinstance(value, str) else repr(value)


@calls(100, 2500)
@hypothesis.given(changes=edits, cut=make.one_of(make.none(), make.none(), make.none(), make.integers(0, 300)))
def test_any_run_file_is_run_or_refused_in_words(changes, cut):
    content = {name: dict(table) if isinstance(table, dict) else list(table) for name, table in WHOLE.items()}
    for table, key, value in changes:
        target = content.setdefault(table, {}) if table else content
        if isinstance(target, list) and target and isinstance(target[0], dict):
            target[0] = target = dict(target[0])
        if isinstance(target, dict):
            target[key] = value
            if value is None:
                del target[key]
    hypothesis.assume("ledger" not in str(content.get("run")) and "output" not in content)  # nothing is written here
    text = "\n".join(f"{key} = {toml(value)}" for key, value in content.items())[:cut]
    described = attempted(runfile.parsed, text, Path("."))
    if described is None:
        return
    found = attempted(runfile.run, described)
    if found is not None:
        run, files = found
        assert files == [] and run.sizes["time"] >= 1
        if content == WHOLE:
            np.testing.assert_allclose(run["mean"][:, 0], (1 - 0.125) ** np.arange(5), rtol=1e-12)


def test_ledgers_of_all_kinds_of_statistics(tmp_path):
    """What a call keeps is what it gives."""
    kinds = [st.Moments(), st.Passage(2.0, mean=False), st.Change(lambda t, x: x[0]), st.Paths(3),
             st.Histogram([-1.0, 0.0, 1.0]), st.Observable(lambda t, x: x @ x, name="energy"), st.Iterations(),
             st.Autocorrelation(lags=1, paths=5), st.Spectrum(segment=8, paths=5)]  # fmt: skip
    options = dict(t=(0, 1), dt=0.125, paths=20, seed=1, block=8, collect=kinds, ledger=tmp_path / "run")
    run, again = (simulate(PAIR, "EulerMaruyama", **options) for _ in range(2))
    assert provenance(again)["blocks_read"] == 3
    assert load(tmp_path / "run").identical(again)
    assert run.drop_attrs().identical(again.drop_attrs())
