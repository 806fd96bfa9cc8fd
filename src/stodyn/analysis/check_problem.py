"""One suite that every kind of problem must pass: the properties on which methods, statistics and the engine rely."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import stodyn.statistics as st
from stodyn import listing
from stodyn.analysis.check import Result, answers, states_near
from stodyn.arguments import checks_arguments
from stodyn.engine.ready import prepare
from stodyn.engine.simulate import simulate
from stodyn.methods.contract import Expansion
from stodyn.methods.recommend import recommended
from stodyn.noise.source import PerPath
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.points import at_one
from stodyn.problems import lowering
from stodyn.problems.contract import CALCULI, WITHOUT_AREAS, Around, expect_problem, written_as
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)

AGREE = 1e-10  # relative: between two ways to write the same equations
SINGLE = 1e-3  # between runs in float32 and in float64
STEP, STEPS, PATHS = 2.0**-7, 3, 4  # of the runs that are compared


@checks_arguments
def check_problem(problem: Any, runs: bool = True) -> list[Result]:
    """Put a problem to the suite that every kind of problem must pass.

    record     it is a frozen record of its arguments as the user passed them, with a name for each component, and units
               of these; a copy is the same problem, and takes other units
    start      draws are finite and of the shape (paths, n); paths have different ones; each is taken as a start again
    rows       noise_rows, noise_push and noise_along describe the same noise, and mean_rates has the same gaps
    written    written as an SDE or SDAE it has the same drift and the same noise, in the same components
    structure  the noise has the structure that is claimed for it: additive, diagonal, scalar, commutative
    method     the method that is recommended takes it, and the run shows its components
    starts     numbers, values path by path and a function give the same start
    params     numbers and values path by path give the same parameters; NaN is refused
    float32    a run in single precision agrees with one in double precision to three digits
    named      a function that cannot be called is named in the error

    Parameters
    ----------
    problem : Problem
        Of any kind. Runs take three steps of 2^-7 from t = 0.
    runs : bool
        Whether `method`, `starts`, `params` and `float32` are asked, which compile and run programs.

    Returns
    -------
    list of Result
        One for each question.

    Raises
    ------
    CheckFailed
        If any check fails; its `results` hold all answers.
    """
    expect_problem(problem)
    with jax.enable_x64(True), underived():
        suite = SUITE if runs else {question: SUITE[question] for question in SUITE if question not in OF_RUNS}
        return answers(type(problem).__name__, suite, problem)


# --- the record -------------------------------------------------------------------------------------------------------


def _record(problem: Any) -> str:
    assert getattr(getattr(problem, "__dataclass_params__", None), "frozen", False), "it is not a frozen dataclass"
    assert problem.n >= 1 and problem.m >= 0, f"n = {problem.n}, m = {problem.m}"
    assert problem.calculus in CALCULI, f"calculus is {problem.calculus!r}"
    names = tuple(problem.components)
    assert len(set(names)) == problem.n, f"{problem.n} components are called {names}"
    strange = sorted(set(problem.component_units or {}) - {*names, "time"})
    assert not strange, f"units has {strange}, which are not components"
    copy: Any = dataclasses.replace(problem)
    for name in ("n", "m", "components", "component_units", "calculus"):
        old, new = getattr(problem, name), getattr(copy, name)
        assert old == new, f"{name} of a copy is {new}, not {old}"
    for field in dataclasses.fields(problem):
        assert field.init, f"{field.name} is a field, but not an argument: what is derived is a property"
        assert getattr(copy, field.name) is getattr(problem, field.name), f"{field.name} is not kept as it was given"
    timed: Any = dataclasses.replace(problem, units={"time": "s"}) if "units" in vars(problem) else copy
    assert timed is copy or timed.component_units == {"time": "s"}, f"units of a copy are {timed.component_units}"
    x = _states(problem)[0]
    _same(_noise(problem, x), _noise(copy, x), 0.0, "the noise of a copy")
    _same(_rates(problem, x), _rates(copy, x), 0.0, "the drift of a copy")
    return f"{problem.n} components, {problem.m} channels"


def _start(problem: Any) -> str:
    starts = [problem.draw_start(np.random.default_rng(seed), range(2, 5)) for seed in (1, 2)]
    for values in (*starts, problem.example_start()[None]):
        assert values.shape[1:] == (problem.n,), f"starts have the shape {values.shape[1:]}, expected ({problem.n},)"
        assert np.isfinite(values).all(), "a start is not finite"
    _same(problem.example_start(), np.asarray(problem.flat_start(problem.example_start())), 0.0, "a start as a vector")
    same = np.array_equal(*starts)
    listed = all(part.is_listed or not part.is_random for part in problem.start_parts)
    if problem.has_random_start:
        assert len(np.unique(starts[0], axis=0)) == 3, "several paths have the same random start"
        assert listed or not same, "a random start does not depend on the seed"
        return "random"
    assert same and len(np.unique(np.concatenate(starts), axis=0)) == 1, "a start said to be common to all paths is not"
    return "common to all paths"


# --- drift and noise --------------------------------------------------------------------------------------------------


def _noise(problem: Any, x: np.ndarray) -> np.ndarray:
    """The effect of unit increments of the channels on the components, (n, m)."""
    if not problem.m:
        return np.zeros((problem.n, 0))
    params, units = problem.example_params(), np.eye(problem.m)
    return at_one(lambda x: jnp.stack([problem.noise_push(0.3, x, params, W) for W in units], axis=1), x)


def _rates(problem: Any, x: np.ndarray) -> np.ndarray:
    """The drift of each component, NaN where there is none."""
    params = problem.example_params()

    def rates(x):
        mean_rates = problem.mean_rates(0.3, x, params, range(problem.n))
        return jnp.stack([jnp.full((), jnp.nan) if rate is None else jnp.asarray(rate, float) for rate in mean_rates])

    return at_one(rates, x)


def _rows(problem: Any) -> str:
    params, rng, count = problem.example_params(), np.random.default_rng(3), 0
    for x in _states(problem):
        G, rates = _noise(problem, x), _rates(problem, x)
        moved: list[bool] = []

        def squares(x):
            rows = problem.noise_rows(0.3, x, params, range(problem.n))
            moved[:] = [row is not None for row in rows]
            return jnp.stack([jnp.zeros(()) if row is None else jnp.sum(jnp.asarray(row) ** 2) for row in rows])

        _same(np.sum(G**2, axis=1), at_one(squares, x), AGREE, "the square of a row of the noise")
        gaps = np.isnan(rates).tolist()
        assert gaps == [not m for m in moved], f"mean_rates has no drift of {gaps}, and noise_rows no row of {moved}"
        having = tuple(np.flatnonzero(moved))
        weights = np.zeros(problem.n)
        weights[list(having)] = rng.normal(size=len(having))
        if having and problem.m:
            along = at_one(lambda x, w: problem.noise_along(0.3, x, params, w, having), x, weights)
            reached = float(np.sum(along**2))
            assert np.isclose(reached, np.sum((weights @ G) ** 2), rtol=AGREE), "noise_along is not that of the rows"
            W = rng.normal(size=problem.m)
            pushed = at_one(lambda x, W: problem.noise_push(0.3, x, params, W), x, W)
            _same(G @ W, pushed, AGREE, "the noise of several channels at once")
        count = len(having)
    if isinstance(problem, Around):
        inner = problem.problem
        _same(_rates(inner, _states(problem)[0][: inner.n]), _rates(problem, _states(problem)[0])[: inner.n], 0.0,
              "the drift of the problem inside")  # fmt: skip
    return f"{count} of {problem.n} components are those of a diffusion"


def _conversions(problem: Any) -> str:
    """Drift and g g' of every component that both forms have, by its name."""
    forms = []
    for kind in (SDE, SDAE):
        own: Any = lowering.to_ito(problem) if isinstance(problem, SDE) else problem  # an SDAE is Ito's
        lowered = None if isinstance(own, kind) else own.lower(kind)
        if lowered is None:
            continue
        other, words = lowered
        assert words and isinstance(other, kind), f"lower({kind.__name__}) gives a {type(other).__name__}, {words!r}"
        names: Any = other.components
        places = {name: i for i, name in enumerate(own.components)}
        shared = [(places[name], i) for i, name in enumerate(names) if name in places]
        assert shared, f"as {kind.__name__} it has the components {other.components}, none of {own.components}"
        mine, theirs = (list(column) for column in zip(*shared, strict=True))
        for x in _states(own):
            y = np.asarray(other.example_start(), float)
            y[theirs] = x[mine]
            f, G = _rates(own, x)[mine], _noise(own, x)[mine]
            there, rows = _rates(other, y)[theirs], _noise(other, y)[theirs]
            known = ~np.isnan(f) & ~np.isnan(there)
            _same(f[known], there[known], AGREE, f"the drift as {kind.__name__}")
            square = np.ix_(known, known)
            _same((G @ G.T)[square], (rows @ rows.T)[square], AGREE, f"the noise as {kind.__name__}")
        forms.append(kind.__name__)
    return f"the same as {' and '.join(forms)}" if forms else "it is not written as another kind"


def _structure(problem: Any) -> str:
    noise, states = problem.noise_structure, _states(problem)
    inside: Any = problem
    while isinstance(inside, Around):
        inside, states = inside.problem, [x[: inside.problem.n] for x in states]
    sde: Any = written_as(inside, SDE)
    assert noise.kind == "general" or noise.kinds, f"it is {noise}"
    if problem.m == 1:
        assert noise.implies("scalar"), f"it has one channel, and is said to be {noise}"
    if sde is None or not problem.m:
        return str(noise)
    places = {name: i for i, name in enumerate(inside.components)}
    if not all(name in places for name in sde.components):
        return f"{noise}; not asked further: it is one of other components"
    columns, params = [places[name] for name in sde.components], sde.example_params()
    values, slopes = [], []
    for x in (state[columns] for state in states):
        values.append(at_one(lambda x: sde.g(0.3, x, params), x))
        slopes.append(at_one(jax.jacfwd(lambda x: sde.g(0.3, x, params)), x))
    g, g_x = np.array(values), np.array(slopes)
    size = 1.0 + np.abs(g_x).max()
    if noise.implies("additive"):
        assert np.abs(g_x).max() < AGREE, f"it is said to be additive, and its slope is {np.abs(g_x).max():.2g}"
    if noise.implies("diagonal"):
        n = sde.n
        entries = np.einsum("sijk->ijk", np.abs(g_x)) * (1 - np.einsum("ij,jk->ijk", np.eye(n), np.eye(n)))
        off = np.abs(g * (1 - np.eye(n))).max()
        assert sde.n == sde.m and off == 0.0 and entries.max() < AGREE, "it is said to be diagonal"
    moved = np.einsum("sikl,slj->sijk", g_x, g)
    apart = np.abs(moved - np.swapaxes(moved, 2, 3)).max() / size
    if noise.implies("commutative") and getattr(problem, "structure", None) != WITHOUT_AREAS:
        assert apart < 1e-7, f"it is said to be commutative, and its channels are {apart:.2g} apart"
    elif not noise.implies("commutative") and "stated" not in noise.known:
        assert apart > 1e-9, "it is not said to be commutative, and its channels commute"
    return str(noise)


# --- runs -------------------------------------------------------------------------------------------------------------


def _run(problem: Any, dtype: str = "float64") -> np.ndarray:
    """Every component of some paths at every step, (times, paths, n)."""
    collect, t = st.Paths(PATHS), (0.0, STEPS * STEP)
    return prepare(problem, t=t, dt=STEP, paths=PATHS, collect=collect, dtype=dtype).arrays(seed=1)["path"]


@functools.lru_cache(maxsize=1)
def _plain_run(problem: Any) -> np.ndarray:
    return _run(problem)


def _method(problem: Any) -> str:
    method: Any = recommended(problem)
    reason = method.refusal(problem) if isinstance(problem, method.accepts) else None
    assert reason is None, f"{method.name} is recommended and refuses it: {reason}"
    if isinstance(method, Expansion):
        run = simulate(problem, t=(0.0, STEPS * STEP), dt=STEP)
        assert tuple(run["component"].values) == tuple(problem.components), f"a run has {run['component'].values}"
        assert np.isfinite(run["mean"].values).all(), "a mean is not finite"
        return method.name
    path = _plain_run(problem)
    assert path.shape[-1] == problem.n and np.isfinite(path).all(), f"its paths are {path}"
    return method.name


def _given_start(problem: Any) -> Any:
    """The start as it was given: of the problem inside, where there is one."""
    while isinstance(problem, Around):
        problem = problem.problem
    return problem.start


def _starts(problem: Any) -> str:
    if problem.has_random_start or isinstance(recommended(problem), Expansion):
        return "not asked: its start is random"
    own_start = _given_start(problem)
    parts = own_start if isinstance(own_start, tuple) and len(own_start) == 2 else (own_start,)
    single = not isinstance(own_start, tuple) or len(own_start) != 2

    def of(kind: Callable[[np.ndarray], Any]) -> Any:
        values = tuple(kind(np.asarray(part, float)) for part in parts)
        return values[0] if single else values

    listed = problem.changed(start=of(lambda part: PerPath(np.repeat(part[None], PATHS, axis=0))))
    by_function = problem.changed(start=of(lambda part: lambda rng, size: np.repeat(part[None], size, axis=0)))
    fixed, by_call = (p.draw_start(np.random.default_rng(1), range(2, 4)) for p in (problem, by_function))
    _same(fixed, by_call, 0.0, "a start given by a function")
    _same(_plain_run(problem), _run(listed), AGREE, "a run whose start is given path by path")
    return "numbers, PerPath and functions agree"


def _params(problem: Any) -> str:
    leaves: list[Any] = jax.tree.leaves(problem.params)
    tree: Any = jax.tree.structure(problem.params)
    if not leaves or problem.has_random_params:
        return "not asked: it has none" if not leaves else "not asked: they are random"
    spoilt = tree.unflatten([np.full(np.shape(leaf), np.nan) for leaf in leaves])
    try:
        problem.changed(params=spoilt)
    except ValueError as error:
        assert "params" in str(error), f"params of NaN are refused without their name: {error}"
    else:
        raise AssertionError("params of NaN are taken")
    listed = tree.unflatten([PerPath(np.repeat(np.asarray(leaf, float)[None], PATHS, axis=0)) for leaf in leaves])
    _same(_plain_run(problem), _run(problem.changed(params=listed)), AGREE, "a run whose params are given path by path")
    return "numbers and PerPath agree"


def _float32(problem: Any) -> str:
    if isinstance(recommended(problem), Expansion):
        return "not asked: it has no paths"
    _same(_plain_run(problem), _run(problem, "float32"), SINGLE, "a run in float32")
    return f"equal to {SINGLE:g}"


def _named(problem: Any) -> str:
    while isinstance(problem, Around):
        problem = problem.problem
    names = []
    for field in dataclasses.fields(problem):
        if not (field.init and field.name in USERS and callable(getattr(problem, field.name))):
            continue
        try:
            dataclasses.replace(problem, **{field.name: _broken})
        except (TypeError, ValueError) as error:
            assert str(error).startswith(field.name), f"where {field.name} cannot be called, the error says: {error}"
        else:
            raise AssertionError(f"{field.name} that cannot be called is taken")
        names.append(field.name)
    return ", ".join(names) or "it is made of numbers"


USERS = ("drift", "diffusion", "force", "noise", "mass", "matrix", "source", "constraints", "H")


def _broken(*arguments: Any) -> Any:
    raise KeyError("not there")


SUITE: dict[str, Callable[[Any], str]] = {
    "record": _record,
    "start": _start,
    "rows": _rows,
    "written": _conversions,
    "structure": _structure,
    "method": _method,
    "starts": _starts,
    "params": _params,
    "float32": _float32,
    "named": _named,
}
OF_RUNS = ("method", "starts", "params", "float32")


# --- states -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _states(problem: Any) -> list[np.ndarray]:
    """Some states near the start, on the constraints."""
    return list(_consistent(problem, states_near(problem).T[:2]))


def _consistent(problem: Any, states: np.ndarray) -> Iterator[np.ndarray]:
    hidden = isinstance(problem, Mechanical) and problem.joints is None and not problem.motion.is_regular
    sdae: Any = problem if isinstance(problem, SDAE) else problem.lower(SDAE)[0] if hidden else None
    for x in states:
        if sdae is not None:
            columns = [list(problem.components).index(name) for name in sdae.components]
            x = x.copy()
            x[columns] = at_one(lambda y: sdae.consistent(0.3, y, sdae.example_params()), x[columns])
        yield x


def _same(expected: np.ndarray, actual: np.ndarray, tolerance: float, what: str) -> None:
    assert np.shape(expected) == np.shape(actual), f"{what} has the shape {np.shape(actual)}, not {np.shape(expected)}"
    near = np.isclose(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    gap = np.abs(np.asarray(actual, float) - expected)
    assert near.all(), f"{what} differs by {np.nanmax(np.where(near, 0.0, gap)):.2g}"
