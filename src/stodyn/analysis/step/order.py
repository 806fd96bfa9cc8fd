"""The order of a method on a problem, measured: strong, weak and deterministic, each with an interval."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
import xarray as xr
from jax import Array

from stodyn import listing
from stodyn.analysis.step.common_paths import PathRun, common_paths, follows_path
from stodyn.analysis.step.expectation import enumerated, integrated, linear_moments
from stodyn.arguments import checks_arguments
from stodyn.engine.grid import step_times
from stodyn.engine.spec import as_it_is_now, matched
from stodyn.hints import Count, Integer, Reals, check_seed, is_integer, whole
from stodyn.methods.catalogue import catalogue, stepping
from stodyn.methods.contacts import keeps_stops
from stodyn.methods.contract import Method
from stodyn.models.catalogue import Model
from stodyn.noise.increment import Increment
from stodyn.numerics.printing.points import AtPoints, at_one
from stodyn.problems.contract import differs_from_path_to_path, expect_problem, written_as
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

__all__ = ["deterministic_order", "strong_order", "weak_order"]
__dir__ = listing.names_of(__name__)

STEPS = (8, 16, 32, 64, 128)
DOUBLINGS = (4, 8, 16, 32, 64, 128, 256, 512)
LEVEL = 0.99
FEWEST = 3  # points for a slope and its bend
BENDS = 2.0  # how often the bend is in the interval: enough for an error C h^p (1 + D h)
MARGIN = 10.0  # an error is used where it is this many times each of its doubts
SAMPLING_MARGIN = 5.0  # and this many times its standard error

Solution = Callable[[float, np.ndarray], np.ndarray]
Pathwise = Callable[[float, Increment], Array]


@checks_arguments
def strong_order(
    problem: Any,
    method: Method | str,
    *,
    t: Reals = (0.0, 1.0),
    steps: Sequence[int] = STEPS,
    paths: Count = 1000,
    seed: Integer = 0,
    exact: Solution | None = None,
    reference: Method | Pathwise | str | None = None,
    refine: int = 8,
    level: float = LEVEL,
) -> xr.Dataset:
    """Measure the strong order: the slope of log √E|x_h(T) - x(T)|² against log h, on the same Brownian paths.

    The noise is drawn once at the finest step, with everything the method and the reference need, and composed by
    Chen's relation. Points spoilt by rounding, sampling, the reference's own error (taken as its difference from the
    reference at twice the step) or failed paths are left out; with fewer than three left there is an error.

    Parameters
    ----------
    problem : Problem or Model
        A problem, or a Model, whose exact solution is used where it has one.
    method : Method or str
        A method that makes steps, or its name.
    t : (start, end)
        The interval.
    steps : sequence of int
        The numbers of steps over the interval, one for each point; every one divides the largest.
    paths, seed : int
        How many Brownian paths are drawn, and from which seed.
    exact : function, optional
        exact(T, W) -> x: the solution (paths, n) from the W(T) (paths, m) of each path.
    reference : Method, str or function, optional
        Where there is no exact solution: a method, or its name, that runs `refine` times finer than the finest point
        (default: the one of highest strong order in the catalogue, `method` itself only if no other has it); or a
        function reference(t0, noise) -> x (n,) of the stacked fine increments of one path. A function that reads more
        than W names a recipe in its attribute `needs`.
    refine : int
        How many steps of the reference make one of the finest point.
    level : float
        The confidence level of the interval (order_low, order_high).

    Returns
    -------
    xarray.Dataset
        Over `step`: error, error_stderr, used, and reason, which says why a point is left out. Attributes:

        - order, order_stderr: the slope and its sampling error, with the correlation of the points in it;
        - order_bend: the difference between the slopes of the coarser and the finer half of the points, which more
          paths do not reduce;
        - order_doubt: by how much rounding and the reference's own error may change the slope;
        - order_low, order_high, level: order ± (z order_stderr + 2 order_bend + order_doubt), an interval that reaches
          p where the error is C h^p (1 + D h);
        - kind, method, model, reference: the quantity that was measured, and its reference.

    Raises
    ------
    ValueError
        If fewer than three points can be used, or the method draws from discrete laws and so has no strong order.
    """
    method = stepping(method)
    study = Study.of(problem, method, t, steps, exact, reference, refine)
    if not follows_path(method.needs, study.problem.m):
        raise ValueError(
            f"method: the draws of {method.name}, {method.needs}, have moments of W but are not a Brownian path: there "
            "is no strong order to measure. Ask for weak_order, or take a method that needs W itself."
        )
    square, own, size = [], [], 0.0
    with np.errstate(all="ignore"):  # numbers that are not finite are counted below
        for ends, target, other in study.pairs(paths, seed):
            square.append(np.sum((ends - target[:, None]) ** 2, axis=2))
            own.append(np.sum((target - other) ** 2, axis=1))
            size = max(size, np.abs(target).max())
        squares = np.concatenate(square)
        mean = np.mean(squares, axis=0)
        influence = 0.5 * (squares / mean - 1.0)
    doubts = study.doubts(size, np.sqrt(np.mean(np.concatenate(own))))
    failed = np.sum(~np.isfinite(squares), axis=0)
    return study.dataset("strong", Errors(np.sqrt(mean), doubts, failed, influence), level)


@checks_arguments
def weak_order(
    problem: Any,
    method: Method | str,
    *,
    t: Reals = (0.0, 1.0),
    steps: Sequence[int] = STEPS,
    paths: Count = 100_000,
    seed: Integer = 0,
    function: Callable[[Array], Array] | None = None,
    exact: Solution | None = None,
    reference: Method | Pathwise | str | None = None,
    refine: int = 8,
    level: float = LEVEL,
) -> xr.Dataset:
    """Measure the weak order: the slope of log |E φ(x_h(T)) - E φ(x(T))| against log h, |.| the Euclidean norm.

    Nothing is sampled where both expectations can be computed. On a linear problem, for the default φ and without
    `exact` and `reference`, they are moments of the step (analysis.linear). For weak draws and an exact solution all
    outcomes are enumerated where there are not too many of them (one channel: 8 steps). Otherwise the error is the mean
    of φ(x_h) - φ(x) over pairs on the same Brownian path, x as in strong_order; weak draws are cut from the path's own
    increments.

    Parameters
    ----------
    problem, method, t, steps, paths, seed, exact, reference, refine, level
        As in `strong_order`.
    function : function φ(x) -> array, optional
        φ(x) -> array; by default all x_i and x_i x_j.

    Returns
    -------
    xarray.Dataset
        As in `strong_order`; the attribute `how` says how the expectations were computed.

    Raises
    ------
    ValueError
        If fewer than three points can be used.
    """
    method = stepping(method)
    study = Study.of(problem, method, t, steps, exact, reference, refine)
    if function is None and exact is None and reference is None:
        moments = linear_moments(study.problem, method, study.t, study.steps)
        if moments is not None:
            return study.dataset("weak", study.computed(*moments), level, how="moments", reference="exact moments")
    φ = AtPoints(lambda x: jnp.ravel(function(x) if function else first_and_second(x)))
    if study.exact is not None:
        values = enumerated(study.problem, method, study.t, study.steps, φ)
        truth = integrated(study.exact, study.t, study.problem.m, φ)
        if values is not None and truth is not None:
            return study.dataset("weak", study.computed(values, truth, 0.0), level, how="enumerated")
    differences, own, size = [], [], 0.0
    with jax.enable_x64(True), np.errstate(all="ignore"):  # numbers that are not finite are counted below
        for ends, target, other in study.pairs(paths, seed):
            value = np.asarray(φ(target))
            differences.append(np.stack([φ(ends[:, k]) - value for k in range(len(study.h))], axis=1))
            own.append(φ(other) - value)
            size = max(size, np.abs(value).max())
        d = np.concatenate(differences)
        mean = d.mean(axis=0)
        error = np.linalg.norm(mean, axis=1)
        noise = np.sqrt(np.sum(d.var(axis=0), axis=1) / len(d))
        influence = np.einsum("pkf,kf->pk", d - mean, mean) / error**2
    doubts = study.doubts(size, float(np.linalg.norm(np.mean(np.concatenate(own), axis=0))))
    failed = np.sum(~np.isfinite(d).all(axis=2), axis=0)
    return study.dataset("weak", Errors(error, doubts, failed, influence, noise), level, how="sampled")


@checks_arguments
def deterministic_order(
    problem: Any,
    method: Method | str,
    *,
    t: Reals = (0.0, 1.0),
    steps: Sequence[int] = DOUBLINGS,
    finest: int = FEWEST,
) -> xr.Dataset:
    """Measure the order without noise: the slope of log |x_h(T) - x(T)| against log h with the noise set to zero.

    x(T) is that of scipy's DOP853 at a tolerance of 1e-13. Nothing is sampled.

    Parameters
    ----------
    problem, method, t, steps
        As in `strong_order`.
    finest : int
        The number of points in use: those next to the rounding plateau, so that one list of steps fits every order.

    Returns
    -------
    xarray.Dataset
        As in `strong_order`.

    Raises
    ------
    ValueError
        If fewer than three points can be used, or `finest` asks for fewer.
    """
    if finest < FEWEST:
        raise ValueError(f"finest: expected at least {FEWEST} points for a slope and its bend, got {finest}")
    (problem, model, _), method = unpacked(problem), stepping(method)
    expect_problem(problem)
    quiet = problem.without_noise(method.calculus)

    def solution(T, W):
        followed: Any = written_as(quiet, SDE) if isinstance(quiet, SDAE) else quiet
        many = AtPoints(lambda s, x: followed.f(s, x, quiet.params), (None, 0))

        def f(s, x):
            return many(np.asarray(s, float), x[None])[0]

        trajectory = scipy.integrate.solve_ivp(f, (t[0], T), followed.example_start(), "DOP853", rtol=1e-13, atol=1e-15)
        end = trajectory.y[:, -1]
        return (at_one(lambda x: quiet.state_space.state(T, x, quiet.params), end) if isinstance(quiet, SDAE) else end)[
            None
        ]

    study = Study.of(quiet, method, t, steps, solution, None, 1, model)
    ((ends, target, _),) = study.pairs(paths=1, seed=0)
    error = np.linalg.norm(ends - target[:, None], axis=2)[0]
    errors = Errors(error, study.doubts(np.abs(target).max()), ~np.isfinite(error))
    usable = np.flatnonzero([not reason for reason in errors.reasons])
    coarse = usable[-finest] if len(usable) > finest else 0
    return study.dataset("deterministic", dataclasses.replace(errors, coarse=coarse), LEVEL, reference="scipy DOP853")


def first_and_second(x: Array) -> Array:
    """Return all x_i, and all x_i x_j for i <= j."""
    return jnp.concatenate([x, jnp.outer(x, x)[np.triu_indices(len(x))]])


# --- the fit ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Errors:
    """The measurements at each step size, the coarsest first.

    error      (points,)
    doubts     another cause of an error -> its size, (points,)
    failed     (points,): how many paths failed
    influence  (paths, points): how far each path moves log(error) from its mean, times the number of paths; None where
               nothing was sampled
    noise      (points,): the error due to sampling alone, where that is more than its standard error
    coarse     points before this one are not wanted
    """

    error: np.ndarray
    doubts: Mapping[str, np.ndarray]
    failed: np.ndarray
    influence: np.ndarray | None = None
    noise: np.ndarray | None = None
    coarse: int = 0

    @functools.cached_property
    def stderr(self) -> np.ndarray:
        if self.influence is None:
            return np.zeros(len(self.error))
        return self.error * np.sqrt(np.mean(self.influence**2, axis=0) / len(self.influence))

    @functools.cached_property
    def reasons(self) -> list[str]:
        """Why each point is left out, "" for those that are used."""
        return [self._reason(k) for k in range(len(self.error))]

    def _reason(self, k: int) -> str:
        if self.failed[k]:
            return f"{int(self.failed[k])} path(s) failed"
        spoilt = [name for name, doubt in self.doubts.items() if self.error[k] <= MARGIN * doubt[k]]
        if spoilt:
            return spoilt[0]
        noise = self.stderr[k] if self.noise is None else max(self.noise[k], self.stderr[k])
        return "sampling" if self.error[k] <= SAMPLING_MARGIN * noise else "coarse" if k < self.coarse else ""

    def fit(self, h: np.ndarray, level: float) -> dict[str, float]:
        """The slope of the points that are used, and its interval, or an error where they are too few."""
        used = np.flatnonzero([not reason for reason in self.reasons])
        if len(used) < FEWEST:
            rows = zip(h, self.error, self.stderr, self.reasons, strict=True)
            table = "; ".join(f"h = {a:.3g}: {b:.3g} ± {c:.1g}, {why or 'used'}" for a, b, c, why in rows)
            raise ValueError(
                f"steps: {len(used)} of {len(h)} errors can be used, but a slope needs {FEWEST} ({table}). "
                "Take other steps, more paths or a finer reference."
            )
        half = (len(used) + 1) // 2
        (order, stderr, doubt), (coarser, _, _), (finer, _, _) = (
            self.slope(h, points) for points in (used, used[:half], used[-half:])
        )
        bend = abs(finer - coarser)
        reach = NormalDist().inv_cdf(0.5 + 0.5 * level) * stderr + BENDS * bend + doubt
        return {
            "order": order,
            "order_stderr": stderr,
            "order_bend": bend,
            "order_doubt": doubt,
            "order_low": order - reach,
            "order_high": order + reach,
            "level": level,
        }

    def slope(self, h: np.ndarray, points: np.ndarray) -> tuple[float, float, float]:
        """The least-squares slope of log error against log h, its standard error, and the effect of the doubts.

        A point weighs by the inverse square of its relative standard error. Points that share paths are correlated: the
        standard error is that of the sum over the points of each path's influences.
        """
        error, x = self.error[points], np.log(h[points])
        influence = None if self.influence is None else self.influence[:, points]
        weight = np.ones(len(points)) if influence is None else 1.0 / np.mean(influence**2, axis=0)
        x = x - np.average(x, weights=weight)
        combination = weight * x / np.sum(weight * x**2)
        stderr = 0.0 if influence is None else np.sqrt(np.mean((influence @ combination) ** 2) / len(influence))
        doubt = np.abs(combination) @ (sum(doubt[points] for doubt in self.doubts.values()) / error)
        return float(combination @ np.log(error)), float(stderr), float(doubt)


# --- the study --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
    """One method on one problem at several step sizes, against an exact solution or a reference."""

    method: Method
    problem: Any
    model: str
    t: tuple[float, float]
    steps: tuple[int, ...]
    exact: Solution | None
    reference: Method | Pathwise | None
    refine: int

    @classmethod
    def of(cls, problem, method, t, steps, exact, reference, refine, model="") -> Study:
        """Return the study after a check of its arguments."""
        reference = stepping(reference, "reference") if isinstance(reference, str) else reference
        if exact is not None and reference is not None:
            raise ValueError("exact, reference: expected one of the two, got both; errors are measured against it")
        problem, name, solution = unpacked(problem)
        problem = as_it_is_now(problem)
        exact = solution if exact is None and reference is None else exact
        matched(problem, method)
        counts = sorted(set(steps))
        if len(counts) < FEWEST or not all(is_integer(k) for k in counts):
            raise ValueError(f"steps: expected at least {FEWEST} different numbers of steps, got {tuple(steps)}")
        odd = [k for k in counts if counts[-1] % k]
        if odd:
            raise ValueError(f"steps: {odd[0]} does not divide {counts[-1]}; all step sizes share one fine path")
        if not is_integer(refine):
            raise ValueError(f"refine: expected a whole number >= 1, got {refine!r}")
        begin, end = (float(time) for time in step_times(t, float(t[1]) - float(t[0]))[0])
        study = cls(
            method, problem, model or name, (begin, end), tuple(map(int, counts)), exact, reference, int(refine)
        )
        if exact is not None and study.is_random:
            raise ValueError("exact: the start or the parameters differ from path to path; give a reference instead")
        if isinstance(reference, Method) and shown(problem, reference) != shown(problem, method):
            raise ValueError(
                f"reference: {reference.name} shows {shown(problem, reference)} components of this problem and "
                f"{method.name} {shown(problem, method)}; take one that runs it in the same form"
            )
        return study

    @functools.cached_property
    def against(self) -> Method | Pathwise | None:
        """The reference that runs beside the method, where there is no exact solution."""
        if self.exact is not None or self.reference is not None:
            return self.reference
        return best_reference(self.problem, self.method)

    @property
    def h(self) -> np.ndarray:
        return (self.t[1] - self.t[0]) / np.array(self.steps)

    @property
    def is_random(self) -> bool:
        """Whether starts or parameters differ from path to path."""
        return differs_from_path_to_path(self.problem)

    def pairs(self, paths: Count, seed: Integer) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Block by block: x_h (paths, points, n), the solution (paths, n), and the reference at twice its step."""
        paths = whole("paths", paths)
        check_seed(seed)
        fine = self.steps[-1] * (self.refine if self.exact is None else 1)
        runs = [PathRun(self.method, tuple(fine // k for k in self.steps))]
        if isinstance(self.against, Method):
            runs.append(PathRun(self.against, (1, 2) if fine % 2 == 0 else (1, 1)))
        elif self.against is not None:
            runs.append(PathRun(self.against))
        for W, states in common_paths(self.problem, runs, self.t, fine, paths, int(seed)):
            if self.exact is not None:
                target = self._shown(np.asarray(self.exact(self.t[1], W), float).reshape(len(W), self.problem.n))
                yield states[0], target, target
            else:
                reference = states[1] if isinstance(self.against, Method) else self._shown(states[1])
                yield states[0], reference[:, 0], reference[:, -1]

    def _shown(self, x: np.ndarray) -> np.ndarray:
        """The components of whole states (..., n) that the method shows: of an SDAE maybe its state-space form."""
        whole = shown(self.problem, self.method) == self.problem.n
        return x if whole else x @ self.problem.facts.evolving.T

    def doubts(self, size: float, own: float = 0.0) -> dict[str, np.ndarray]:
        """The effects on an error of rounding of numbers of that size, and of the reference's own error."""
        rounding = np.finfo(float).eps * size * np.array(self.steps)
        return {"rounding": rounding, "the reference's own error": np.full(len(self.steps), own)}

    def computed(self, values: np.ndarray, truth: np.ndarray, inexact: Any) -> Errors:
        """The errors of expectations (points, ...) that were computed, to a relative error `inexact`."""
        size = np.abs(truth).max()
        doubts = self.doubts(size) | {"quadrature": inexact * size * np.ones(len(values))}
        error = np.linalg.norm(values - truth, axis=1)
        return Errors(error, doubts, ~np.isfinite(error))

    def dataset(self, kind: str, errors: Errors, level: float, **attributes: str) -> xr.Dataset:
        """The points, and the slope of those that are used."""
        if not 0 < level < 1:
            raise ValueError(f"level: expected a probability between 0 and 1, got {level!r}")
        used = np.array([not reason for reason in errors.reasons])
        variables = {
            "error": errors.error,
            "error_stderr": errors.stderr,
            "used": used,
            "reason": np.array(errors.reasons, str),
        }
        named = {"kind": kind, "method": self.method.name} | attributes
        if "reference" not in named:
            named["reference"] = self._reference_words()
        named |= {"model": self.model} if self.model else {}
        data = {name: ("step", values) for name, values in variables.items()}
        return xr.Dataset(data, {"step": self.h}, errors.fit(self.h, level) | named)

    def _reference_words(self) -> str:
        if self.exact is not None:
            return "exact solution"
        if isinstance(self.against, Method):
            return f"{self.against.name}, h = {self.h[-1] / self.refine:.4g}"
        return getattr(self.against, "__name__", "function of the path")


def unpacked(problem: Any) -> tuple[Any, str, Solution | None]:
    """Return the problem of a Model, its name and its exact solution; a problem itself has neither."""
    if isinstance(problem, Model):
        return problem.problem, problem.name, problem.exact.get("solution")
    return problem, "", None


def shown(problem: Any, method: Method) -> int:
    """Return how many components of a problem a method shows: of an SDAE all, or those of its state-space form."""
    return matched(problem, method)[0].n


def best_reference(problem: Any, method: Method) -> Method:
    """Choose the method of highest claimed strong order for a problem that shows the same components as a given method.

    A method that keeps the energy of stops comes first where there are any, and one made for the problem's kind before
    one that converts it; `method` itself is taken only if no other reaches it. A problem that no method with a strong
    order takes is refused.
    """
    components = shown(problem, method)

    def fits(other: Method) -> bool:
        kind: Any = other.accepts
        lowered = problem if isinstance(problem, kind) else (problem.lower(kind) or (None,))[0]
        if lowered is None or lowered.n != components:
            return False
        return other.refusal(lowered) is None and follows_path(other.needs, problem.m)

    steppers = [other for other in (*catalogue().values(), method) if isinstance(other, Method)]
    fitting = [other for other in steppers if fits(other)]
    if not fitting:
        raise ValueError("reference: no method with a strong order takes this problem; give exact= or reference=")
    noise = problem.noise_structure
    own: Any = type(problem)

    def merits(m: Method) -> tuple:
        return keeps_stops(m, problem), m.promised("strong", noise), m.accepts is own, m.name != method.name

    return max(fitting, key=merits)
