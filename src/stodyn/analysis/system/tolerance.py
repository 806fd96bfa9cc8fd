"""Random parameters beside noise: how much of the variance comes from each.

Var x = Var_p E[x | p] + E_p Var[x | p]      the part of the parameters and the part of the noise
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.chaos import basis as bases
from stodyn.chaos import coupled, nodes
from stodyn.chaos.expansion import Series
from stodyn.circuits.circuit import Circuit
from stodyn.engine.simulate import simulate
from stodyn.hints import Count, Integer, Reals, is_whole
from stodyn.noise.distribution import distribution
from stodyn.results import provenance
from stodyn.statistics.batches import Batches
from stodyn.warnings import StartMoved

__dir__ = listing.names_of(__name__)

ROUTES = ("quadrature", "smolyak", "collocation")


@checks_arguments
def split_variance(
    problem: Any,
    method: Any = None,
    *,
    random: Mapping[str, Any] | None = None,
    t: Reals,
    dt: float | Sequence[float],
    paths: Count,
    seed: Integer,
    degree: Integer = 2,
    basis: str = "total",
    route: str = "quadrature",
    batches: Count = 32,
    every: Integer | None = None,
    at: float | Reals | None = None,
) -> xr.Dataset:
    """Split the variance of a problem with noise and random parameters, each part with its standard error.

    Parameters
    ----------
    problem, method, t, dt, seed, every, at
        As in `simulate` and its statistics.
    random : mapping, optional
        Name -> distribution, for entries of problem.params (a mapping), or for random values of a circuit. By default
        every entry that has a distribution in params, or in the netlist.
    paths, batches : int
        The number of paths at each node, and of the independent batches in which they run; the standard errors are
        taken from these.
    degree, basis : int, str
        Of the polynomials of the parameters, as in the expansions.
    route : {"quadrature", "smolyak", "collocation"}
        "quadrature" over the tensor Gauss grid of degree + 1 nodes per parameter, "smolyak" of that level, or
        "collocation" at as many points as the basis has terms; every node has the same noise.

    Returns
    -------
    xarray.Dataset
        By time and component: mean, variance, variance_parameters, variance_noise, share_parameters, and by parameter
        variance_first (from it alone) and variance_total (with its interactions); each with _stderr, by the jackknife
        over the batches. Squares of sampled coefficients are unbiased: products of different batches. truncation is
        the estimated root mean square that the basis leaves out of E[x | p].

    Raises
    ------
    TypeError
        If the params of the problem are not a mapping.
    ValueError
        If nothing is random, a name is unknown, or batches are too small.
    """
    is_circuit = isinstance(problem, Circuit)
    if not is_circuit and not isinstance(problem.params, Mapping):
        raise TypeError(f"problem: random parameters are entries of params, a mapping; this one has {problem.params!r}")
    there = problem.random if is_circuit else problem.params
    if random is None:
        random = there if is_circuit else {name: law for name, law in there.items() if hasattr(law, "rvs")}
    what = "random values of the circuit" if is_circuit else "entries of params"
    if not random:
        raise ValueError(f"random: nothing is random; give distributions for some of the {what}, {list(there)}")
    missing = [name for name in random if name not in there]
    if missing:
        raise ValueError(f"random: {missing[0]!r} is not one of the {what}, {list(there)}")
    path_count, batch_count = (int(count) if is_whole(count) else 0 for count in (paths, batches))
    if batch_count < 4 or path_count % batch_count or path_count < 2 * batch_count:
        raise ValueError(
            f"paths, batches: expected at least 4 batches of at least 2 paths each, got {paths!r} paths in {batches!r} "
            f"batches; take a multiple of {batches!r} paths, or other batches"
        )
    paths, batches = path_count, batch_count
    laws = [distribution(law, f"random[{name!r}]") for name, law in random.items()]
    chosen = bases.make(basis, laws, int(degree))
    points, weights = _rule(chosen, route)
    means, variances, run = [], [], None
    for point in points:
        values = dict(zip(random, point.tolist(), strict=True))
        fixed = problem.at(values) if is_circuit else dataclasses.replace(problem, params=dict(problem.params) | values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StartMoved)  # the constraints of each point have places of their own
            run = simulate(
                fixed, method, t=t, dt=dt, paths=paths, seed=seed,
                block=paths // batches, collect=Batches(every=every, at=at), progress=False,
            )  # fmt: skip
        means.append(run["batch_mean"].values)
        variances.append(run["batch_variance"].values)
    assert run is not None
    c = np.einsum("kl,kbtn->btnl", weights, np.stack(means))
    noise = np.einsum("k,kbtn->btn", weights[:, 0], np.stack(variances))
    used = chosen.indices > 0
    alone = used & (used.sum(axis=1) == 1)[:, None]

    def parts(c: np.ndarray, noise: np.ndarray) -> dict[str, np.ndarray]:
        """All estimates from some of the batches, the first axis."""
        B = len(c)
        squares = (c.sum(axis=0) ** 2 - (c**2).sum(axis=0)) / (B * (B - 1))
        squares[..., 0] = 0.0
        parameters, own = squares.sum(axis=-1), noise.mean(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = parameters / (parameters + own)
        return {
            "mean": c[..., 0].mean(axis=0), "variance": parameters + own, "variance_parameters": parameters,
            "variance_noise": own, "share_parameters": share, "variance_first": squares @ alone.astype(float),
            "variance_total": squares @ used.astype(float),
        }  # fmt: skip

    by = ("time", "component")
    variables: dict[str, Any] = {}
    for name, (value, stderr) in _jackknifed(parts, c, noise).items():
        dims = (*by, "parameter") if value.ndim == 3 else by
        units = {} if name.startswith("share") else run["batch_mean"].attrs
        variables[name], variables[f"{name}_stderr"] = (dims, value, units), (dims, stderr, units)
    variables["truncation"] = (by, Series(chosen, c.mean(axis=0)).truncation(), run["batch_mean"].attrs)
    coords = {"time": run["time"].variable, "component": run["component"].values, "parameter": list(random)}
    of_run = provenance(run)
    record: dict[str, Any] = {
        **{name: of_run[name] for name in ("method", "dt", "steps") if name in of_run},
        "random": {name: repr(law) for name, law in zip(random, laws, strict=True)},
        "route": route,
        "nodes": len(points),
        "basis": chosen.spelling,
        "paths": int(paths),
        "batches": int(batches),
        "seed": int(seed),
    }
    return xr.Dataset(variables, coords, {"provenance": json.dumps(record)})


def _rule(chosen: bases.Basis, route: str) -> tuple[np.ndarray, np.ndarray]:
    """Points (K, Q), and weights (K, terms) that make coefficients of values at them."""
    if route == "collocation":
        points = coupled.collocation_points(chosen)
        return points, np.linalg.inv(coupled.collocation_matrix(chosen, points)).T
    if route not in ROUTES:
        raise ValueError(f"route: expected one of {ROUTES}, got {route!r}")
    make = nodes.tensor if route == "quadrature" else nodes.smolyak
    grid = make(chosen.laws, chosen.degree + (route == "quadrature"))
    return grid.points, chosen.evaluate(grid.points) * grid.weights[:, None]


def _jackknifed(estimate: Callable, *batched: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Name -> (estimate from all batches, its standard error from leaving out each of them)."""
    B = len(batched[0])
    whole = estimate(*batched)
    without = [estimate(*(np.delete(part, b, axis=0) for part in batched)) for b in range(B)]
    estimates = {}
    for name, value in whole.items():
        spread = np.stack([one[name] for one in without])
        estimates[name] = value, np.sqrt((B - 1) / B * ((spread - spread.mean(axis=0)) ** 2).sum(axis=0))
    return estimates
