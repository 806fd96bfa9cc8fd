"""The functions of a problem at a state, as the user wrote them: their values, and which entries are not numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax.extend import core

from stodyn import results
from stodyn.arguments import checks_arguments
from stodyn.engine.follow import States
from stodyn.engine.program import executors
from stodyn.engine.run import Run
from stodyn.engine.spec import as_it_is_now, describe
from stodyn.engine.traces import traced_functions_of, with_article
from stodyn.noise.supply import CountedNormals, DrawnNormals
from stodyn.numerics import uncompiled
from stodyn.numerics.printing.fingerprints import without_prints
from stodyn.numerics.printing.unprintable import or_else
from stodyn.problems.contract import differs_from_path_to_path, expect_problem
from stodyn.problems.describing import listed
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE

SHOWN = 8  # components of a state in words
BELIEVABLE = 1e30  # size of a state: what overflows beyond it does so since the state blows up
MOST = 10_000_000  # numbers of a path that is computed again to say where it failed


@checks_arguments
def evaluate(problem: Any, x: Any = None, *, t: float = 0.0, params: Any = None) -> xr.Dataset:
    """Compute the functions of a problem, such as its drift and its diffusion, at one state.

    Parameters
    ----------
    problem : Problem
        The problem.
    x : number or array (n,), optional
        The state, in the order of the components; by default the start. Of coordinates and velocities, the velocities
        come second.
    t : float
        The time.
    params : optional
        Parameters in place of the problem's; by default its own, and of random ones an example.

    Returns
    -------
    xarray.Dataset
        The functions by the names of the arguments that they were given as: of an SDE, drift (component) and diffusion
        (component, channel).

    Raises
    ------
    ValueError
        If the state has another number of components.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import stodyn as sd
    >>> spring = sd.SDE(lambda t, x: jnp.array([x[1], -4.0 * x[0]]), lambda t, x: jnp.array([[0.0], [0.3]]),
    ...                 start=[1.0, 0.0], names=("x", "v"))
    >>> sd.analysis.evaluate(spring, [0.5, 2.0])["drift"].values
    array([ 2., -2.])
    """
    expect_problem(problem)
    problem = as_it_is_now(problem)
    components = list(_own(problem).components)
    state = np.asarray(_own(problem).example_start() if x is None else x, float).reshape(-1)
    if len(state) != len(components):
        raise ValueError(f"x: expected {len(components)} numbers, for {listed(components)}; got {len(state)}")
    values = values_at(problem, float(t), state, params)
    variables = {
        name.replace(".", "_"): (_dimensions(name, value, len(components)), value) for name, value in values.items()
    }
    variables["x"] = (("component",), state)
    return results.answering(xr.Dataset(variables, {"component": components, "t": float(t)}))


def _dimensions(name: str, value: np.ndarray, n: int) -> tuple[str, ...]:
    rows = ("component",) if value.ndim and len(value) == n else tuple(f"{name}_{k}" for k in range(value.ndim)[:1])
    return (*rows, *(("channel",) if value.ndim == 2 else ()))


def _own(problem: Any) -> Any:
    """The problem whose functions take the state: without the filters of coloured loads."""
    return problem.own if isinstance(problem, Mechanical) else problem


def values_at(problem: Any, t: float, x: np.ndarray, params: Any = None, silent: bool = False) -> dict[str, np.ndarray]:
    """The values of a problem's functions at a state, by name; a function of parts of the problem is left out."""
    own, values = _own(problem), {}
    with jax.enable_x64(True):
        for name, look in traced_functions_of(own).items():
            if "." in name:
                continue
            parts, first = [np.asarray(t, float)], 0
            for argument in look.arguments[1:]:
                if first < own.n:
                    parts.append(np.asarray(x[first : first + np.size(argument)], float).reshape(np.shape(argument)))
                    first += np.size(argument)
            rest = list(look.arguments[len(parts) :])
            if rest and params is not None:
                rest = [params]
            leaves, trace = jax.tree.leaves((parts, rest)), without_prints(look.trace) if silent else look.trace
            try:
                values[name] = np.asarray(uncompiled.run(trace, *leaves)[0])
            except uncompiled.Compile:
                values[name] = np.asarray(jax.jit(core.jaxpr_as_fun(trace))(*leaves)[0])
    return values


def not_numbers(problem: Any, t: float, x: np.ndarray) -> str:
    """Which functions of a problem are not finite at a state, in words with the entries; "" where all are."""
    words = []
    for name, value in values_at(problem, t, x, silent=True).items():
        bad = np.argwhere(~np.isfinite(value))
        if len(bad):
            kind = "NaN" if np.isnan(value[tuple(bad[0])]) else "infinite"
            entries = listed((f"[{', '.join(map(str, place))}]" for place in bad), 4)
            words.append(f"{with_article(name)} is {kind}{f' in entry {entries}' if value.size > 1 else ''}")
    return f"{' and '.join(words)} at t = {t:.6g}, {_in_words(problem, x)}" if words else ""


def _in_words(problem: Any, x: np.ndarray) -> str:
    state = ", ".join(f"{name} = {value:.6g}" for name, value in zip(_own(problem).components[:SHOWN], x, strict=False))
    return f"{state}{', ...' if len(x) > SHOWN else ''}"


@or_else(lambda problem, spec: "")
def unfit_start(problem: Any, spec: Any) -> str:
    """Which functions of an SDE are not finite at the start that all paths share, and from which an explicit method
    steps: every path would fail. "" where there is no such function."""
    if not isinstance(problem, SDE) or differs_from_path_to_path(problem) or spec.traced is None:
        return ""
    if not isinstance(spec.traced.step.jaxpr.outvars[-2], core.Literal):
        return ""  # an implicit step asks at its end
    return not_numbers(problem, float(spec.times[0]), problem.example_start())


@or_else(lambda run, problem, method, stop, path, time: "")
def where_it_failed(run: Run, problem: Any, method: Any, stop: Any, path: int, time: float) -> str:
    """Which functions are not finite at the last finite state of a path that failed, which is computed again."""
    spec = run.spec
    if problem.has_random_params or problem.n * len(spec.times) > MOST or getattr(run.executor, "devices", ()):
        return ""
    if spec.suspect:
        return ""  # steps that are too long, or another fault that is known
    ends = [float(spec.times[0]), float(spec.times[-1])]
    spec = describe(problem, method, ends, spec.lengths, States(every=1), str(spec.dtype), stop)
    counted = str(run.executor.normals).startswith("Philox")
    executor = executors.get(spec, run.executor.name, CountedNormals if counted else DrawnNormals)
    with jax.enable_x64(True):
        states = one_path(Run(spec, dataclasses.replace(run.layout, spec=spec), executor), path)
    last = int(np.argmin(np.abs(spec.times - time))) - 1  # times are sums of steps, which round
    if last < 0 or len(states[last]) < _own(problem).n or not np.abs(states[last]).max() < BELIEVABLE:
        return ""
    t, x = float(spec.times[last]), states[last]
    words = not_numbers(problem, t, x)
    if words:
        return words
    ahead = [2.0 * x - states[last - 1]] if last else []
    drift, noise = (values_at(problem, t, x, silent=True).get(name) for name in ("drift", "diffusion"))
    if isinstance(problem, SDE) and drift is not None and noise is not None:
        h = float(spec.lengths[last])
        kicks = np.sqrt(h) * np.reshape(noise, (len(x), -1)).T
        ahead += [x + h * drift, *(x + h * drift + sign * kick for kick in kicks for sign in (-1.0, 1.0))]
    nearby = next(filter(None, (not_numbers(problem, t, near) for near in ahead)), "")
    return f"its last state was {_in_words(problem, x)}, and near it {nearby}" if nearby else ""


def one_path(run: Run, path: int) -> np.ndarray:
    """The states (times, n) of one path."""
    layout, executor = run.layout, run.executor
    if isinstance(executor, executors.Stepping):
        first = path // executor.lane_multiple * executor.lane_multiple
        members = layout.members_from(first, min(executor.lane_multiple, layout.paths - first), executor.lane_multiple)
        observed = executor.paths(members, first, executor.supply(layout.seed)).observed
    else:
        first = path // layout.width * layout.width
        observed = executor.block(layout, path // layout.width, lambda steps: None).observed
    return observed[0][:, :, path - first]
