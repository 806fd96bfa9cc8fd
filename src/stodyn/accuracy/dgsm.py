"""Which random parameters matter: mean squared derivatives of paths, and the bounds on Sobol shares that they give.

With ν = E (∂f/∂p)² and Poincaré's constant C of the law of p, E Var(f | all else) ≤ C ν: of the variance of f, noise
included, p has with all its interactions at most the share C ν/Var f.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from stodyn.accuracy.controls import functional_of
from stodyn.accuracy.levels import differentiated
from stodyn.accuracy.sensitivity import Inquiry
from stodyn.engine.door import front_door
from stodyn.engine.places.contract import Place
from stodyn.engine.record import identity
from stodyn.engine.simulate import check_options
from stodyn.engine.spec import as_it_is_now
from stodyn.engine.where import where_of
from stodyn.hints import Count, Integer, Reals
from stodyn.methods.contract import Catalogued
from stodyn.noise.distribution import distribution
from stodyn.problems.tangents import with_random_tangents
from stodyn.statistics.functional import Functional
from stodyn.statistics.moments import Sums, summarise


@front_door
def dgsm(
    problem,
    f: Callable | Functional,
    *,
    of: str | Sequence[str] | None = None,
    t: Reals,
    dt: ArrayLike,
    paths: Count,
    seed: Integer,
    method: Catalogued | str | None = None,
    place: Place | None = None,
    threads: Integer | None = None,
    device: Any = "cpu",
    progress: bool | None = None,
) -> xr.Dataset:
    """Estimate the mean squared derivative of f by each random parameter, and what share of Var f it can have at most.

    Derivative-based global sensitivity measures come from the paths of one run, for any number of parameters. A
    parameter whose bound is small does not matter and may be fixed; how much the others matter is told by
    `analysis.tolerance.split_variance`, which needs many more paths.

    Parameters
    ----------
    problem : Problem
        The equations, with `params` some of which have a distribution.
    f : function or Functional
        As for `sensitivity`, a number that does not jump.
    of : str or sequence of str, optional
        Names of random parameters; by default all.
    t, dt, paths, seed, method, place, threads, device, progress
        As for `sensitivity`. The parameters are drawn anew for every path.

    Returns
    -------
    xarray.Dataset
        value and variance of f; by `parameter`: dgsm = E (∂f/∂p)², poincare, the constant C of its law (width²/π² of a
        uniform, σ² of a normal one, for others Muckenhoupt's bound, at most four times too large) and bound = C
        dgsm/variance, on the total Sobol share; value, dgsm and bound also with _stderr.

    Raises
    ------
    ValueError, TypeError
        If a name is not that of a random parameter, f or the equations jump, or f is not a number.

    Examples
    --------
    >>> import stodyn as sd
    >>> rate = sd.noise.Normal(1.0, 0.1)
    >>> decay = sd.SDE(lambda t, x, p: -p["rate"] * x, lambda t, x: 0.05, 1.0, params={"rate": rate})
    >>> result = sd.dgsm(decay, lambda t, x: x[0], t=(0, 1), dt=0.05, paths=1000, seed=1)
    >>> bool(0.2 < result["bound"].item() < 0.6)
    True
    """
    check_options(paths, seed, "raise")
    where = where_of(threads=threads, place=place, device=device, progress=progress)
    follow = functools.partial(with_random_tangents, of=of)
    inquiry = Inquiry(as_it_is_now(problem), functional_of(f), follow, t, dt, method)
    directions = inquiry.followed.directions
    if inquiry.entries > 1:
        raise ValueError(f"f: expected a number, got {inquiry.entries} of them; ask for one after the other")
    for direction in directions:
        if wrong := inquiry.question.wrong("tangent", direction):
            raise ValueError(f"f: mean squared derivatives of paths are wrong here: {wrong}")
    leaves = jax.tree.leaves(inquiry.problem.params)
    laws = [distribution(leaves[one.leaf], f"params[{one.name!r}]") for one in directions if one.leaf is not None]
    constants = np.array([law.poincare for law in laws])
    levelled, stepping = inquiry.levelled(inquiry.functional)
    followed, numbers = differentiated(levelled, directions)

    def values(t, x, params):
        own, *slopes = numbers(t, x, params)
        return jnp.stack([own, own**2, *(slope**2 for slope in slopes)])

    sums = inquiry.sums(followed, stepping, values, int(paths), int(seed), where)
    record = {
        "problem": type(inquiry.problem).__name__,
        "method": inquiry.method.spelling,
        "random": {one.name: repr(law) for one, law in zip(directions, laws, strict=True)},
        "paths": int(paths),
        "seed": int(seed),
        **where.record,
        "versions": identity.versions(),
    }
    names = {"parameter": [one.name for one in directions]}
    return xr.Dataset(_variables(sums, constants), names, {"provenance": json.dumps(record)})


def _variables(sums: Sums, constants: np.ndarray) -> dict[str, Any]:
    """The result from the sums of f, f² and the squares of its derivatives; errors by the delta method."""
    summary, count = summarise(sums), float(np.asarray(sums.weight)[0])
    mean, covariance = summary.mean[0], summary.covariance[0] / count  # type: ignore[index]
    stderr = np.sqrt(np.diagonal(covariance))
    variance, squares = float(summary.variance[0, 0]), mean[2:]
    bound, bound_stderr = constants * squares / variance, np.empty_like(squares)
    for k, C in enumerate(constants):
        slope = np.zeros(len(mean))
        slope[0], slope[1], slope[2 + k] = 2.0 * mean[0] * bound[k] / variance, -bound[k] / variance, C / variance
        bound_stderr[k] = np.sqrt(slope @ covariance @ slope)
    by = ("parameter",)
    return {
        "value": ((), mean[0]),
        "value_stderr": ((), stderr[0]),
        "variance": ((), variance),
        "dgsm": (by, squares),
        "dgsm_stderr": (by, stderr[2:]),
        "poincare": (by, constants),
        "bound": (by, bound),
        "bound_stderr": (by, bound_stderr),
    }
