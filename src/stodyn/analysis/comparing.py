"""Error against cost of several methods on a problem of your own.

All methods at all step sizes follow the same Brownian paths, and so does the reference, a method of high order at a
step several times finer. With x the reference at the end T and x_h a method at step h, the error is

    √E |x_h(T) - x(T)|²  (quantity "paths"),   or   |E f(T, x_h(T)) - E f(T, x(T))|  (quantity f)

and the cost is the processor time of one path, measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from stodyn import listing
from stodyn.analysis.step.common_paths import PathRun, common_paths, follows_path
from stodyn.analysis.step.order import best_reference, shown
from stodyn.arguments import checks_arguments
from stodyn.engine.grid import step_times
from stodyn.engine.ready import prepare
from stodyn.engine.spec import as_it_is_now, matched
from stodyn.hints import Count, Integer, Reals, check_seed, whole
from stodyn.methods.catalogue import named
from stodyn.methods.contract import Method
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.tracing_errors import in_words, missing_entry, unnamed_entry, way_out
from stodyn.problems.calling import call, check_call, takes_params
from stodyn.problems.contract import expect_problem
from stodyn.statistics.moments import Moments

__dir__ = listing.names_of(__name__)

REFINE = 4  # how many times finer than the finest step the reference is
TIMED = 200_000  # path-steps that are timed
ALONE = 2  # an error is distinguished from the reference's own where it is this many times as large


@checks_arguments
def compare(
    problem: Any,
    methods: Sequence[Any],
    quantity: str | Callable = "paths",
    *,
    t: Reals,
    dt: Reals,
    paths: Count = 1000,
    seed: Integer = 0,
) -> xr.Dataset:
    """Compare error and cost of several methods on one problem: which method, and which step, for a wanted accuracy?

    Parameters
    ----------
    problem : Problem
        Your problem.
    methods : sequence of methods or their names
        The methods to compare; `sd.recommend(problem)` has candidates.
    quantity : "paths" or function
        "paths": how far the paths are from the true ones at the end. A function f(t, x), or f(t, x, params), of the
        state at the end, a number or a vector: how far its mean is from the true one.
    t : (start, end)
        The interval.
    dt : sequence of float
        The steps. Each is made to divide the interval, and each is a whole multiple of the finest one.
    paths, seed : int
        The number of paths, and the seed of their noise.

    Returns
    -------
    xarray.Dataset
        error, error_stderr and cost (seconds of processor time for one path) over integrator and dt; `settled`, whether
        the error is clear of sampling and of the reference's own error. `sd.plot.comparison` draws it.

    Raises
    ------
    ValueError
        If steps do not divide each other, or a method with discrete draws is compared path by path.
    TypeError
        If a method makes no steps, or `quantity` is neither "paths" nor a function.

    Examples
    --------
    >>> import stodyn as sd
    >>> growth = sd.SDE(lambda t, x: 0.5 * x, lambda t, x: 0.3 * x, 1.0)
    >>> study = sd.compare(growth, ["EulerMaruyama", "Milstein"], t=(0, 1), dt=[0.25, 0.125], paths=200, seed=1)
    >>> error = study.error.sel(dt=0.125)
    >>> bool(error.sel(integrator="Milstein") < error.sel(integrator="EulerMaruyama"))
    True
    """
    expect_problem(problem)
    problem = as_it_is_now(problem)
    compared = _checked_methods(problem, methods)
    (begin, end), steps = _checked_steps(t, dt)
    f = _checked_quantity(problem, quantity, compared[0])
    paths = whole("paths", paths, 2)
    check_seed(seed)
    weak_draws = [m.name for m in compared if not follows_path(m.needs, problem.m)]
    if f is None and weak_draws:
        raise ValueError(
            f"methods: the draws of {weak_draws[0]} share moments with a Brownian path but are not one: its paths have "
            "no error of their own. Give a function as `quantity`, or leave it out."
        )
    reference = best_reference(problem, compared[0])
    fine = REFINE * steps[-1]
    factors = tuple(fine // count for count in steps)
    runs = [*(PathRun(method, factors) for method in compared), PathRun(reference, (1, 2))]
    apart: list[np.ndarray] = []  # (paths, methods + 1, steps, values): from the reference; the last is its own
    with jax.enable_x64(True), np.errstate(all="ignore"):
        for _, states in common_paths(problem, runs, (begin, end), fine, paths, int(seed)):
            values = [x if f is None else _values_of(f, end, x) for x in states]
            truth = values[-1][:, :1]
            own = np.broadcast_to(values[-1][:, 1:] - truth, values[0].shape)
            apart.append(np.stack([*(value - truth for value in values[:-1]), own], axis=1))
    error, stderr = _errors(np.concatenate(apart), of_paths=f is None)
    failed = ~np.isfinite(error[:-1])
    own_error = error[-1, 0] + 2 * stderr[-1, 0]
    settled = ~failed & (error[:-1] > ALONE * np.maximum(2 * stderr[:-1], own_error))
    lengths = (end - begin) / np.array(steps)
    per_step = np.array([_seconds_per_step(problem, method, (begin, end), steps[-1], int(seed)) for method in compared])
    coordinates = {"integrator": [method.name for method in compared], "dt": lengths}
    over = ("integrator", "dt")
    return xr.Dataset(
        {
            "error": (over, error[:-1]),
            "error_stderr": (over, stderr[:-1]),
            "cost": (over, np.outer(per_step, steps), {"units": "s", "long_name": "processor time of one path"}),
            "settled": (over, settled),
        },
        coordinates,
        {
            "quantity": quantity if isinstance(quantity, str) else getattr(quantity, "__name__", "f"),
            "reference": f"{reference.name} at dt = {(end - begin) / fine:g}",
            "t": (begin, end),
            "paths": paths,
            "seed": seed,
        },
    )


def _checked_methods(problem: Any, methods: Sequence[Any]) -> list[Method]:
    if isinstance(methods, (str, Method)) or not isinstance(methods, Sequence) or not methods:
        raise TypeError(f'methods: expected a list of methods such as ["Heun", "SRIW1"], got {methods!r}')
    resolved = [named(method) for method in methods]
    for method in resolved:
        if not isinstance(method, Method):
            raise TypeError(f"methods: expected methods that step, such as Heun, got {method!r}")
        matched(problem, method)
    if len({method.name for method in resolved}) < len(resolved):
        raise ValueError(f"methods: a method is named twice in {[method.name for method in resolved]}")
    for method in resolved[1:]:
        if shown(problem, method) != shown(problem, resolved[0]):
            raise ValueError(
                f"methods: {method.name} shows {shown(problem, method)} components of this problem and "
                f"{resolved[0].name} {shown(problem, resolved[0])}; compare those that run it in the same form"
            )
    return resolved


def _checked_steps(t: Reals, dt: Reals) -> tuple[tuple[float, float], list[int]]:
    """The interval, and the number of steps of each length, fewest first."""
    if np.ndim(dt) != 1 or len(dt) < 2 or not all(np.isfinite(h) and h > 0 for h in dt):
        raise ValueError(f"dt: expected at least two steps to compare, such as [0.1, 0.05, 0.025], got {dt!r}")
    begin, end = (float(x) for x in step_times(t, float(t[1]) - float(t[0]))[0])
    steps = sorted({max(1, round((end - begin) / float(h))) for h in dt})
    odd = [count for count in steps if steps[-1] % count]
    if odd or len(steps) < 2:
        raise ValueError(
            f"dt: {list(dt)} makes {steps} steps from {begin:g} to {end:g}; each number must divide the largest, as "
            "with steps that are halved, since all follow the same Brownian paths"
        )
    return (begin, end), steps


def _checked_quantity(problem: Any, quantity: Any, method: Method) -> Callable | None:
    """f of one state as a vector, or None where the paths themselves are compared."""
    if isinstance(quantity, str) and quantity == "paths":
        return None
    if not callable(quantity):
        raise TypeError(f'quantity: expected "paths" or a function f(t, x) of the state at the end, got {quantity!r}')
    check_call("quantity", quantity, ("t", "x"), problem.params)
    takes = takes_params(quantity, 2, problem.params)
    if takes and problem.has_random_params:
        raise ValueError("quantity: params differ from path to path here; give a function f(t, x) of the state alone")
    params = problem.example_params() if takes else None

    def f(t, x):
        return jnp.ravel(jnp.asarray(call(quantity, t, x, params=params), float))

    n = shown(problem, method)
    try:
        shape = jax.eval_shape(f, 0.0, jax.ShapeDtypeStruct((n,), np.dtype(float)))
    except Exception as error:
        hint = unnamed_entry(error) or missing_entry(error, params) or way_out(error)
        raise TypeError(
            f"quantity: f(t, x{', params' if takes else ''}) could not be traced by JAX with x of shape ({n},) "
            f"({in_words(error)}).{hint and ' '}{hint}"
        ) from error
    if not jnp.issubdtype(shape.dtype, jnp.floating):
        raise TypeError(f"quantity: f returned {shape.dtype} values, expected real numbers")
    return f


def _values_of(f: Callable, t: float, x: np.ndarray) -> np.ndarray:
    """f of states (paths, steps, n), (paths, steps, values)."""
    paths, steps, n = x.shape
    return np.asarray(AtPoints(lambda point: f(t, point))(x.reshape(paths * steps, n))).reshape(paths, steps, -1)


def _errors(apart: np.ndarray, of_paths: bool) -> tuple[np.ndarray, np.ndarray]:
    """The errors and their standard errors (methods, steps), from differences (paths, methods, steps, values)."""
    count = len(apart)
    if of_paths:
        squares = np.sum(apart**2, axis=3)
        error = np.sqrt(squares.mean(axis=0))
        return error, squares.std(axis=0, ddof=1) / np.sqrt(count) / (2 * np.where(error > 0, error, 1.0))
    mean, deviation = apart.mean(axis=0), apart.std(axis=0, ddof=1) / np.sqrt(count)
    return np.linalg.norm(mean, axis=2), np.linalg.norm(deviation, axis=2)


def _seconds_per_step(problem: Any, method: Method, t: tuple[float, float], steps: int, seed: int) -> float:
    """Processor seconds of one step of one path in a run of some paths, compiling left out."""
    paths = int(np.clip(TIMED // steps, 64, 4096))
    options: dict[str, Any] = {"t": t, "dt": (t[1] - t[0]) / steps, "paths": paths, "collect": Moments(at=[t[1]])}
    ready = prepare(problem, method, on_failure="record", threads=1, **options)
    ready(seed=seed)
    began = time.process_time()
    ready(seed=seed)
    return (time.process_time() - began) / (paths * steps)
