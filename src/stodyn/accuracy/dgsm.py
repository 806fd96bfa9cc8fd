"""Which random parameters matter: mean squared derivatives of paths, and the bounds on Sobol shares that they give.

With ν = E (∂f/∂p)² and Poincaré's constant C of the law of p, E Var(f | all else) ≤ C ν: of the variance of f, noise
included, p has with all its interactions at most the share C ν/Var f.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from stodyn.accuracy.levels import differentiated
from stodyn.engine.record import identity
from stodyn.engine.where import Where
from stodyn.noise.distribution import distribution
from stodyn.statistics.moments import Sums, summarise


def mean_squares(inquiry: Any, paths: int, seed: int, where: Where) -> xr.Dataset:
    """The mean squared derivatives of the question of a `sensitivity` whose names are those of random parameters."""
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

    sums = inquiry.sums(followed, stepping, values, paths, seed, where)
    record = {
        "problem": type(inquiry.problem).__name__,
        "method": inquiry.method.spelling,
        "random": {one.name: repr(law) for one, law in zip(directions, laws, strict=True)},
        "paths": paths,
        "seed": seed,
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
