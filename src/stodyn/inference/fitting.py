"""Parameters from a record: the maximum of the likelihood, its intervals by profiles, and what cannot be known."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from scipy import special

from stodyn.arguments import checks_arguments, stacklevel_of_user
from stodyn.inference import climbing
from stodyn.inference.filtering import filtered
from stodyn.inference.likelihood import Likelihood, likelihood
from stodyn.inference.scales import Scale
from stodyn.numerics import uncompiled
from stodyn.problems.contract import expect_problem
from stodyn.warnings import Multimodal, NotIdentified

STARTS = 8
FACTOR = 3.0  # by which scattered starts differ from the first
NEAR = 2.0  # of log L: another maximum this close competes
PLACES = np.array([0.3, 0.7, 1.1, 1.5, 1.8, 2.1, 2.5, 3.0])  # of a profile, in standard deviations on either side
MOST_PROFILES = 6
UNKNOWN = 1e-6  # of the largest eigenvalue of the scaled information: below it a combination is not known


class _Line:
    """The log-likelihood on the line of unlimited parameters, in units of their size, for many places at once."""

    def __init__(self, like: Likelihood, start: np.ndarray):
        self.like, self.count = like, len(like.names)
        self.unit = np.array([max(abs(value), 1.0) if scale == Scale() else 1.0
                              for scale, value in zip(like.scales, start, strict=True)])  # fmt: skip
        self._scales = uncompiled.Uncompiled(jax.vmap(self._constrained))
        self.start = uncompiled.value(like.unconstrain, start) / self.unit

    def _constrained(self, u: Any) -> Any:
        def parameters(u: Any) -> Any:
            return self.like.constrain(u * self.unit)

        first = jax.jacfwd(parameters)
        return parameters(u), first(u), jax.jacfwd(first)(u)

    def parameters(self, u: np.ndarray) -> np.ndarray:
        """The parameters at places (lanes, p)."""
        return self._scales(u)[0]

    def one_by_one(self, u: np.ndarray, places: np.ndarray, which: np.ndarray) -> np.ndarray:
        """The parameters of these numbers at these places, the others being at u (p,)."""
        at = np.repeat(u[None], len(which), axis=0)
        at[np.arange(len(which)), which] = places
        return self.parameters(at)[np.arange(len(which)), which]

    def slopes(self, u: np.ndarray) -> np.ndarray:
        """dθ/du at one place, (p,)."""
        return np.diagonal(self._scales(u[None])[1][0])

    def __call__(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values (lanes,), slopes (lanes, p) and curvatures (lanes, p, p) at places (lanes, p)."""
        theta, first, second = self._scales(u)
        value, gradient, hessian = self.like.at_many(theta)
        slope = np.einsum("li,lij->lj", gradient, first)
        curvature = np.einsum("lia,lij,ljb->lab", first, hessian, first) + np.einsum("li,liab->lab", gradient, second)
        return value, slope, curvature


@checks_arguments
def fit(
    problem: Any,
    method: Any = None,
    *,
    data: Any,
    sensors: Any = None,
    free: Any,
    start: Mapping[str, float] | None = None,
    t0: float | None = None,
    dt: float | None = None,
    by: str | None = None,
    law: Any = None,
    params: Any = None,
    initial: Any = None,
    profile: bool = True,
    seed: int = 0,
) -> xr.Dataset:
    """Fit parameters of a problem and of its sensors to a record, by the largest likelihood.

    Parameters
    ----------
    problem : Problem
        A linear problem with additive noise.
    method : Method or str, optional
        As that of sd.filtered.
    data : Record, mapping, table or (times, values)
        The readings, in any form that sd.Record takes.
    sensors : Sensor or sequence of Sensor
        What made them; may be left out where `data` is a Record.
    free : sequence of str or mapping
        The names of the parameters to fit, or {name: (low, high)} with their ranges, None for no limit.
    start : mapping, optional
        {name: number}: where the search begins; by default at the problem's own values.
    t0 : float
        The time of the start, by default 0.
    dt : float, optional
        The step of the method whose law is asked for.
    by : "kalman", optional
        The filter.
    law : "exact", Method or str, optional
        As that of sd.filtered.
    params : mapping, optional
        Numbers in place of the problem's params, and those that only sensors have.
    initial : "stationary", "diffuse" or {component: "diffuse"}, optional
        The law of the start where it is not the problem's own.
    profile : bool
        Whether intervals are those of the profile likelihood, for up to six parameters; else of a normal law.
    seed : int
        Of the seven further starts, which lie within a factor of three of the first.

    Returns
    -------
    xarray.Dataset
        estimate, stderr, low and high (parameter): the maximum, standard errors by the observed information, and the
        ends of 95 % intervals; correlation (parameter, other); profile and profile_value (parameter, point): the
        largest log-likelihood with the parameter held at a value, minus the maximum; loglik; p_value and statistic
        (check) as in sd.filtered. attrs: converged, law, calculus, reasons.

    Raises
    ------
    TypeError, ValueError
        As sd.likelihood; if the likelihood is zero at the start, or nothing depends on a free parameter.

    Warns
    -----
    NotIdentified, Multimodal
        If the record does not determine a combination of parameters, or another maximum comes close.

    Notes
    -----
    Rates of short records come out too large; their profile intervals cover all the same.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x, p: p["s"], 0.0, params={"s": 1.0})
    >>> steps = np.cumsum([0.3, -1.2, 0.7, 2.0, -0.4, 0.1, 1.1, -0.9])
    >>> read = sd.Sensor("y", of="x")
    >>> result = sd.fit(walk, data=(np.arange(1.0, 9.0), steps), sensors=read, free={"s": (0, None)})
    >>> round(float(result.estimate[0]), 9)  # the root of the mean square of the steps
    1.013039979
    """
    options = {"t0": t0, "dt": dt, "by": by, "law": law, "params": params, "initial": initial}
    like = likelihood(problem, method, data=data, sensors=sensors, free=free, **options)
    line = _Line(like, _starting(like, free, start))
    starts = _scattered(line, seed)
    _refuse_unknown(like, line, starts)
    others = climbing.climb(line, starts, np.ones(starts.shape, bool))
    best = climbing.Climbed(*(part[int(np.argmax(others.value))] for part in others))
    reasons = _doubts(like, line, best, others)
    theta, spread = line.parameters(best.u[None])[0], _inverse(-best.curvature)
    low, high, table = _intervals(line, best, spread, profile and len(theta) <= MOST_PROFILES)
    whole = dict(zip(like.names, theta, strict=True))
    checked = filtered(problem, method, data=data, sensors=sensors, **options | {"params": {**(params or {}), **whole}})
    return _dataset(line, best, spread, (low, high), table, checked, reasons)


def _starting(like: Likelihood, free: Any, start: Mapping[str, float] | None) -> np.ndarray:
    """The parameters at which the search begins."""
    ranges = free if isinstance(free, Mapping) else {}
    numbers = {name: value for name, value in ranges.items() if isinstance(value, int | float)}
    theta = like.vector({**numbers, **(start or {})})
    for name, scale, value in zip(like.names, like.scales, theta, strict=True):
        if not scale.holds(value):
            raise ValueError(f"start ({name}): {value:g} lies outside its range from {scale.low:g} to {scale.high:g}")
    return theta


def _refuse_unknown(like: Likelihood, line: _Line, starts: np.ndarray) -> None:
    value, slope, curvature = (part[0] for part in line(starts))
    if not np.isfinite(value):
        where = _words(like, line, line.start)
        raise ValueError(f"start: the likelihood is zero at the start, where {where}; begin elsewhere")
    unused = [name for k, name in enumerate(like.names) if slope[k] == 0.0 and not curvature[k].any()]
    if unused:
        raise ValueError(f"free: nothing that is read depends on {unused[0]!r}; leave it out")


def _words(like: Likelihood, line: _Line, u: np.ndarray) -> str:
    values = line.parameters(u[None])[0]
    return ", ".join(f"{name} = {value:.6g}" for name, value in zip(like.names, values, strict=True))


def _scattered(line: _Line, seed: int) -> np.ndarray:
    """The starts of the search, the user's first."""
    rng = np.random.default_rng(seed)
    others = line.start + np.log(FACTOR) * rng.uniform(-1.0, 1.0, (STARTS - 1, line.count))
    return np.concatenate([line.start[None], others])


def _doubts(like: Likelihood, line: _Line, best: climbing.Climbed, others: climbing.Climbed) -> list[str]:
    """What the search leaves open, in words; the user is warned of it."""
    reasons = [] if best.converged else ["the search did not come to an end"]
    information = -best.curvature
    size = np.sqrt(np.maximum(np.abs(np.diagonal(information)), 1e-300))
    values, vectors = np.linalg.eigh(information / size / size[:, None])
    for value, vector in zip(values, vectors.T, strict=True):
        if value < UNKNOWN * values[-1]:
            along = vector / size
            parts = [f"{share:+.2g} {name}" for name, share in zip(like.names, along / np.abs(along).max(), strict=True)
                     if abs(share) > 0.05]  # fmt: skip
            reasons.append(f"the record does not determine {' '.join(parts)}, on the scale of their ranges")
            warnings.warn(f"free: {reasons[-1]}", NotIdentified, stacklevel=stacklevel_of_user())
    if not reasons:
        spread = np.sqrt(np.diagonal(_inverse(information)))
        close = others.converged & (others.value > best.value - NEAR)
        apart = (np.abs(others.u - best.u) > 0.5 * spread).any(axis=1)
        for k in np.flatnonzero(close & apart)[:1]:
            reasons.append(
                f"another maximum is {best.value - others.value[k]:.3g} lower, where {_words(like, line, others.u[k])}"
            )
            warnings.warn(f"free: {reasons[-1]}", Multimodal, stacklevel=stacklevel_of_user())
    return reasons


def _inverse(information: np.ndarray) -> np.ndarray:
    """The covariance of an information, NaN where it has none."""
    if not np.isfinite(information).all() or np.linalg.eigvalsh(information)[0] <= 0.0:
        return np.full_like(information, np.nan)
    return np.linalg.inv(information)


def _intervals(
    line: _Line, best: climbing.Climbed, spread: np.ndarray, by_profile: bool
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """The ends of intervals of 95 %, and the profiles (values, drops)."""
    z = float(special.ndtri(0.975))
    sizes = np.sqrt(np.diagonal(spread))
    if not by_profile or not np.isfinite(sizes).all():
        theta, slopes = line.parameters(best.u[None])[0], np.abs(line.slopes(best.u))
        return theta - z * sizes * slopes, theta + z * sizes * slopes, None
    signed = np.concatenate([-PLACES[::-1], PLACES])
    count, points = line.count, len(signed)
    which = np.repeat(np.arange(count), points)
    shift = np.tile(signed, count)
    u = best.u + shift[:, None] * (spread / sizes)[:, which].T
    profiles = climbing.climb(line, u, ~np.eye(count, dtype=bool)[which])
    drop = np.minimum(profiles.value - best.value, 0.0).reshape(count, points)
    places = profiles.u[np.arange(len(which)), which].reshape(count, points)
    roots = np.sign(signed) * np.sqrt(-2.0 * drop)
    ends = np.array([_crossings(best.u[k], places[k], roots[k], z) for k in range(count)])
    limits = np.sort([line.one_by_one(best.u, side, np.arange(count)) for side in ends.T], axis=0)
    values = line.one_by_one(best.u, places.ravel(), which).reshape(count, points)
    return limits[0], limits[1], (values, drop)


def _crossings(best: float, places: np.ndarray, roots: np.ndarray, z: float) -> tuple[float, float]:
    """Where the signed root of a profile is -z and z; beyond its ends along its last slope."""
    all_places = np.insert(places, len(places) // 2, best)
    all_roots = np.insert(roots, len(roots) // 2, 0.0)
    order = np.argsort(all_roots)
    x, y = all_places[order], all_roots[order]

    def at(wanted: float) -> float:
        if y[0] <= wanted <= y[-1]:
            return _cubic(y, x, wanted)
        inner, outer = (1, 0) if wanted < y[0] else (-2, -1)
        slope = (y[outer] - y[inner]) / (x[outer] - x[inner])
        return float(x[outer] + (wanted - y[outer]) / slope) if slope > 1e-12 else float(np.sign(wanted) * np.inf)

    return at(-z), at(z)


def _cubic(y: np.ndarray, x: np.ndarray, wanted: float) -> float:
    """x at a value of y, by the cubic through the four nearest points."""
    nearest = np.argsort(np.abs(y - wanted))[:4]
    return float(np.polyval(np.polyfit(y[nearest] - wanted, x[nearest], 3), 0.0))


def _dataset(
    line: _Line,
    best: climbing.Climbed,
    spread: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    table: Any,
    checked: xr.Dataset,
    reasons: list[str],
) -> xr.Dataset:
    like, theta = line.like, line.parameters(best.u[None])[0]
    sizes = np.sqrt(np.diagonal(spread))
    variables: dict[str, Any] = {
        "estimate": ("parameter", theta),
        "stderr": ("parameter", sizes * np.abs(line.slopes(best.u))),
        "low": ("parameter", ends[0]),
        "high": ("parameter", ends[1]),
        "correlation": (("parameter", "other"), spread / sizes / sizes[:, None]),
        "loglik": ((), float(best.value)),
        "statistic": checked["statistic"],
        "p_value": checked["p_value"],
    }
    if table is not None:
        variables |= {
            "profile_value": (("parameter", "point"), table[0]),
            "profile": (("parameter", "point"), table[1]),
        }
    names = np.array(like.names)
    words = [*reasons, *filter(None, [checked.attrs["reasons"]])]
    problem = like.question.model.plant.problem
    attrs = {"converged": "yes" if best.converged else "no", "law": checked.attrs["law"], "calculus": problem.calculus,
             "reasons": "; ".join(words)}  # fmt: skip
    return xr.Dataset(variables, {"parameter": names, "other": names}, attrs)


@checks_arguments
def fitted(problem: Any, result: xr.Dataset) -> Any:
    """Return a problem with the parameters of a fit.

    Parameters
    ----------
    problem : Problem
        The problem that was fitted, or another one with these params.
    result : xarray.Dataset
        From sd.fit.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If the result is not one of sd.fit, or the problem has none of its parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x, p: p["s"], 0.0, params={"s": 1.0})
    >>> data = np.arange(1.0, 5.0), np.array([1.0, -1.0, 1.0, -1.0])
    >>> result = sd.fit(walk, data=data, sensors=sd.Sensor("y", of="x"), free={"s": (0, None)})
    >>> round(float(sd.fitted(walk, result).params["s"]), 9)
    1.802775638
    """
    expect_problem(problem)
    if not isinstance(result, xr.Dataset) or "estimate" not in result:
        raise ValueError("result: expected the result of sd.fit")
    values = dict(zip(result.parameter.values, result.estimate.values, strict=True))
    leaves, structure = jax.tree_util.tree_flatten_with_path(problem.params)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") or "params" for path, _ in leaves]
    if not set(names) & set(values):
        raise ValueError(
            f"problem: it has none of the parameters {', '.join(values)}; it has {', '.join(names) or 'none'}"
        )
    changed = [float(values[name]) if name in values else leaf for name, (_, leaf) in zip(names, leaves, strict=True)]
    return problem.changed(params=jax.tree_util.tree_unflatten(structure, changed))
