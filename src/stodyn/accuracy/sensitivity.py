"""The gradient of E f with respect to parameters and starts, with error bars, from the paths that estimate E f.

choose    for each parameter the route that is right, by what the traces of f and the equations prove (gradient_routes)
run       the parameters of one route together, all routes on the same noise
report    value, gradient, standard errors; the route of each parameter, and the reason for it
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from stodyn.accuracy.controls import functional_of
from stodyn.accuracy.dgsm import mean_squares
from stodyn.accuracy.estimate import check_values
from stodyn.accuracy.gradient_routes import ROUTES, Question, in_stairs, nature, refuse_host, refuse_unused
from stodyn.accuracy.levels import Question as Gathering
from stodyn.accuracy.levels import derivatives, differentiated
from stodyn.engine import grid
from stodyn.engine.door import front_door
from stodyn.engine.failure import PathsFailed
from stodyn.engine.places.contract import Place
from stodyn.engine.progress import Progress
from stodyn.engine.record import identity
from stodyn.engine.simulate import check_options, look_at_steps, merged, run_of
from stodyn.engine.spec import as_it_is_now, chosen_method, counted_steps, describe, matched
from stodyn.engine.where import Where, where_of
from stodyn.hints import Count, Integer, Reals
from stodyn.methods.catalogue import named
from stodyn.methods.contract import Catalogued, Method
from stodyn.methods.coupled import Level, Levelled
from stodyn.methods.halting import Halted, Halting
from stodyn.methods.measured import measuring
from stodyn.methods.neighbours import Neighbouring, Neighbours
from stodyn.methods.platen import PlatenWeak2, PlatenWeak2Pairs
from stodyn.methods.stopping import Stop, Stopping, stopping
from stodyn.methods.switching import refuse_switches
from stodyn.methods.weighted import Weighted, Weighting
from stodyn.problems.contract import written_as
from stodyn.problems.measured import Measured
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.tangents import (
    Direction,
    WithTangents,
    followed,
    holding,
    names_of,
    with_random_tangents,
    with_tangents,
)
from stodyn.statistics.functional import End, Functional, Survival
from stodyn.statistics.moments import Sums, summarise
from stodyn.statistics.observable import Observable
from stodyn.telling import tell
from stodyn.warnings import Chaotic, JumpsInTime

CHAOTIC = 100.0  # times the variance of f: that of a parameter times the derivative by it, beyond which it is warned
SMOOTH_SPACING = 1e-4  # of a parameter: the distance of neighbours where f does not jump


@front_door
def sensitivity(
    problem,
    f: Callable | Functional,
    *,
    of: str | Sequence[str],
    t: Reals,
    dt: ArrayLike,
    paths: Count,
    seed: Integer,
    method: Catalogued | str | None = None,
    by: str | Mapping[str, str] | None = None,
    spacing: float | None = None,
    second: bool = False,
    dgsm: bool = False,
    stop: Stop | None = None,
    place: Place | None = None,
    threads: Integer | None = None,
    device: Any = "cpu",
    progress: bool | None = None,
) -> xr.Dataset:
    """Estimate E f and its gradient with respect to parameters and starts, each with a standard error.

    Parameters
    ----------
    problem : Problem
        The equations, with `params`.
    f : function or Functional
        A function (t, x[, params]) of the end state that returns a number or a vector, or one of
        stodyn.statistics.functional: End, TimeAverage, Integral, Maximum, Minimum, Probability; as for `estimate`.
        With a stop, t and x are the time and the place of the stop where there was one.
    of : str or sequence of str
        Names among the params ("k", "spring.k"), of a number or an array; "start.x" is the start of component x.
    t : (start, end)
        The interval of time.
    dt : float or sequence of float
        The step, which divides the interval, or the lengths of all steps. The gradient is that of what the method
        computes with these steps.
    paths : int
        How many paths are averaged.
    seed : int
        The same seed gives the same paths for any parameters, so that value and gradient are smooth functions of them.
    method : method or str, optional
        By default one of weak order 2 for SDEs, and otherwise the recommended one.
    by : str or mapping, optional
        The route of all parameters, or of some, {"sigma": "difference"}; by default each has the first of these that is
        right for it. "tangent": the derivative of each path. "conditional": the same after the last step is integrated
        out, for the probability of an event. "weight": f times the score of the law (Girsanov), for parameters of the
        drift. "difference": central differences of neighbouring paths on the same noise.
    spacing : float, optional
        The distance of neighbouring paths, as a share of the parameter (of 1 where it is 0); by default 1e-4 where f
        does not jump, otherwise paths^(-1/4).
    second : bool
        Whether second derivatives are estimated too, by derivatives of the derivatives of paths: where f and the
        equations are smooth, and for probabilities by the conditional route.
    dgsm : bool
        Whether the names are those of random parameters, and mean squared derivatives are estimated: which share of
        the variance of f, noise included, each can have at most. A parameter whose bound is small may be fixed; how
        much the others matter is told by `analysis.tolerance.split_variance`, which needs many more paths.
    stop : stodyn.Stop, optional
        Levels at which paths end, as for `simulate`: E min(τ, T) is that of lambda t, x: t. Scores up to the stop are
        right for parameters of the drift; derivatives of paths lack what a shift of the stop does, and are refused.
    place, threads, device, progress
        As for `simulate`.

    Returns
    -------
    xarray.Dataset
        value and value_stderr; gradient and gradient_stderr (parameter), all with a last dimension `entry` where f is a
        vector; route (parameter) and reason (parameter), in words; covariance (parameter, other), of the errors of the
        gradient where all parameters have one route and f is a number; with second=True also second and second_stderr
        (parameter, other). With dgsm=True value, variance and by parameter dgsm = E (∂f/∂p)², poincare, the constant C
        of its law (width²/π² of a uniform, σ² of a normal one, for others Muckenhoupt's bound, at most four times too
        large), and bound = C dgsm/variance, on the total Sobol share.

    Raises
    ------
    ValueError, TypeError
        If a name is unknown, nothing depends on it, or the route asked for, or a second derivative, is wrong.

    Notes
    -----
    The tangent of a probability is 0, and that of a drift that jumps is wrong: such routes are refused. Where paths
    that begin close together part (chaos), derivatives of paths grow without bound although E f is smooth; a warning
    says so.

    Examples
    --------
    >>> import stodyn as sd
    >>> growth = sd.SDE(lambda t, x, p: p["mu"] * x, lambda t, x, p: p["sigma"] * x, 1.0, {"mu": 0.1, "sigma": 0.3})
    >>> result = sd.sensitivity(growth, lambda t, x: x[0] ** 2, of=("mu", "sigma"), t=(0, 1), dt=1 / 16, paths=4000,
    ...                         seed=1)
    >>> bool(abs(result["gradient"].sel(parameter="mu") - 2.673) < 0.2), result["route"].values.tolist()
    (True, ['tangent', 'tangent'])
    """
    began = time.perf_counter()
    check_options(paths, seed, "raise")
    where = where_of(threads=threads, place=place, device=device, progress=progress)
    problem, functional = as_it_is_now(problem), functional_of(f)
    problem = holding(problem, names_of(of))
    follow = functools.partial(with_random_tangents if dgsm else with_tangents, of=of)
    inquiry = Inquiry(problem, functional, follow, t, dt, method, stop)
    look_at_steps(problem, inquiry.method, t, dt, int(paths), int(seed), judges_laws=stop is None)
    if dgsm:
        _refuse_beside_dgsm(by=by, spacing=spacing, second=second or None)
        return mean_squares(inquiry, int(paths), int(seed), where)
    routes, reasons = inquiry.routes(by)
    inquiry.order = inquiry.order_of(routes) if second else 1
    parts = [
        _PART[route](inquiry, where_is(routes, route), spacing, int(paths))
        for route in ROUTES
        if route in routes.values()
    ]
    estimates = [part.estimated(int(seed), where) for part in parts]
    result = _dataset(inquiry, routes, reasons, estimates, paths, seed, where, began)
    _warn_of_chaos(inquiry, estimates)
    return result


def _refuse_beside_dgsm(**options: Any) -> None:
    """Refuse options that mean squared derivatives do not have."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}: {value!r} is not possible with dgsm=True, which takes derivatives of paths")


def where_is(routes: Mapping[Direction, str], route: str) -> tuple[Direction, ...]:
    """The parameters of a route."""
    return tuple(direction for direction, own in routes.items() if own == route)


class Inquiry:
    """The question: the problem as the method takes it, f along its paths, and the directions, which `follow` adds to
    the problem."""

    def __init__(
        self, problem, functional: Functional, follow: Callable[[Any], WithTangents], t, dt, method, stop=None
    ):
        self.times, self.lengths = grid.step_times(t, dt)
        self.t, self.dt, self.order = t, dt, 1
        self.span = float(self.times[0]), float(self.times[-1])
        refuse_switches(problem, "sensitivity")
        self.method = named(method) if method is not None else _default(problem, stop)
        if not isinstance(self.method, Method):
            raise ValueError(
                f"method: {self.method.name} makes whole paths at once, and has no step to differentiate; take one "
                "that makes steps, such as Heun"
            )
        check_values(functional, problem, self.span[0])
        refuse_host(problem, functional, self.span[1])
        self.functional = functional.along(problem, self.span)
        self.problem, _ = matched(problem, self.method)
        if functional.diffuses and (isinstance(self.problem, SDAE) or not hasattr(self.problem, "g")):
            raise TypeError(
                f"f: {type(functional).__name__} needs the drift and diffusion of an SDE, but {self.method.name} does "
                "not step an SDE; use End(f)"
            )
        self.followed = follow(self.problem)
        self.stopping = None if stop is None else self.stopping_at(stop)
        self.question = Question(
            self.problem,
            self.followed,
            self.functional,
            self.span,
            nature(problem, functional, self.span[1], stop),
            () if self.stopping is None else self.stopping.gauges,
        )
        refuse_unused(self.question, self.followed.directions)

    @property
    def entries(self) -> int:
        """How many numbers f has."""
        problem, functional = self.problem, self.functional
        x, params = np.asarray(problem.example_start(), float), problem.example_params()
        with jax.enable_x64(True):
            return jax.eval_shape(lambda x: functional.value(problem, self.span[1], x, params), x).size

    def routes(self, by) -> tuple[dict[Direction, str], dict[Direction, str]]:
        """The route of each direction, and the reason for it; wrong ones are refused."""
        wishes = _wishes(by, self.followed.directions)
        routes, reasons = {}, {}
        for direction in self.followed.directions:
            route = wishes.get(direction.name)
            if route is not None and (wrong := self.question.wrong(route, direction)):
                raise ValueError(
                    f'by: "{route}" is wrong for {direction.name}: {wrong}. Take "{self.question.chosen(direction)}", '
                    "or leave by out"
                )
            routes[direction] = route or self.question.chosen(direction)
            reasons[direction] = "asked for" if route else self.question.reason(routes[direction], direction)
        return routes, reasons

    def order_of(self, routes: Mapping[Direction, str]) -> int:
        """2, the order of the derivatives of paths; refuses what has no second derivatives along these routes."""
        for direction, route in routes.items():
            if wrong := self.question.wrong_second(route, direction):
                raise ValueError(
                    f"second: {wrong}. Take central differences of two gradients with one seed, whose noise is common"
                )
        return 2

    @property
    def measuring(self) -> Any:
        """The method with the measurements of the problem, if it has any."""
        if not isinstance(self.problem, Measured):
            return self.method
        steps = counted_steps(self.problem, self.dt, self.lengths)
        return measuring(self.method, self.problem, self.span[0], steps)

    def stopping_at(self, stop: Stop) -> Stopping:
        """The method with a stop; refuses functionals that would have to know of it."""
        if type(self.functional) is not End:
            raise ValueError(
                f"f: {type(self.functional).__name__} with stop= is not possible; give a function (t, x[, params]) of "
                "the time and the place at which a path ends"
            )
        if isinstance(stop, Stop) and stop.stopped != "frozen":
            raise ValueError('stop: stopped="alive" leaves stopped paths out; weigh them by 0 in f: t < T tells them')
        return stopping(self.measuring, self.problem, stop, self.span[0])

    def levelled(self, functional: Functional) -> tuple[Levelled, Level]:
        """The problem with what f gathers along a path, and the method for it."""
        if self.stopping is not None:
            at_stop = _AtStop(functional.function)
            return Levelled(Halted(self.problem), at_stop, "single", 0), Level(
                Halting(self.stopping), "single", at_stop
            )
        gathered = Gathering(self.problem, self.method, functional, self.span, None).gathered  # type: ignore[arg-type]
        return Levelled(self.problem, functional, "single", gathered), Level(self.measuring, "single", functional)

    def sums(self, problem, method, values: Callable, paths: int, seed: int, where: Where) -> Sums:
        """The central sums over all paths of some numbers of the end of each."""

        def observed(t, x, params=None):
            return values(t, x, params)

        collect = Observable(observed, name="f", at=[self.span[1]])
        spec = describe(problem, method, self.t, self.dt, collect, "float64")
        run = run_of(spec, paths, seed, where)
        with jax.enable_x64(True), Progress(paths * spec.steps, where.progress, link=where.place.link) as bar:
            return merged(run, where.place, bar, "raise").merged[0]


class _AtStop(Functional):
    """A function of the time and the place at which a path is stopped, or ends."""

    def finish(self, problem, t, gathered, x, params):
        return self.value(problem, jnp.where(x[-1] > 0, x[-2], t), x[:-2], params)


def _default(problem: Any, stop: Stop | None) -> Any:
    """A method of weak order 2 for what is an SDE, the recommended one for anything else, and for stops: weak methods
    draw increments that are not those of a Brownian path."""
    sde = None if isinstance(problem, SDAE | Measured) or stop is not None else written_as(problem, SDE)
    if sde is None or problem.joints is not None:  # whose SDE drifts off them
        return chosen_method(problem, None)
    return PlatenWeak2 if sde.noise_structure.implies("commutative") else PlatenWeak2Pairs


def _wishes(by: Any, directions: Sequence[Direction]) -> dict[str, str]:
    """The route that the user asks for, by name of the direction."""
    if by is None:
        return {}
    wishes = {one.name: by for one in directions} if isinstance(by, str) else dict(by)
    for name, route in wishes.items():
        if route not in ROUTES:
            raise ValueError(f"by: expected one of {', '.join(map(repr, ROUTES))}, got {route!r}")
        if name not in {one.name for one in directions}:
            raise ValueError(f"by: {name!r} is not in of, which has {', '.join(one.name for one in directions)}")
    return wishes


class _Estimate(NamedTuple):
    """E f and some entries of its gradient: directions first; covariance: of the errors of the entries of f = 0."""

    directions: tuple[Direction, ...]
    value: np.ndarray  # (entries,)
    value_stderr: np.ndarray
    variance: np.ndarray  # of f on one path
    gradient: np.ndarray  # (directions, entries)
    stderr: np.ndarray
    covariance: np.ndarray | None = None
    second: np.ndarray | None = None  # (directions, directions, entries)
    second_stderr: np.ndarray | None = None


@dataclasses.dataclass
class _ByTangent:
    """Derivatives of each path and of f along it."""

    inquiry: Inquiry
    directions: tuple[Direction, ...]
    spacing: float | None
    paths: int

    @property
    def functional(self) -> Functional:
        return self.inquiry.functional

    def estimated(self, seed: int, where: Where) -> _Estimate:
        levelled, method = self.inquiry.levelled(self.functional)
        problem, values = differentiated(levelled, self.directions)
        if self.inquiry.order == 2:
            once, first = problem, values
            problem = followed(once, self.directions)

            def values(t, x, params):
                return jnp.concatenate(derivatives(problem, first, t, x, params))

        try:
            sums = self.inquiry.sums(problem, method, values, self.paths, seed, where)
        except PathsFailed as error:
            words = (
                f"{error.facts} It may be their derivatives alone that failed: those of roots, powers and logarithms "
                'are not finite at 0. Take a smaller dt, keep the paths away from there, or take by="difference", '
                "which needs no derivatives"
            )
            raise PathsFailed(words, error.paths, error.times, error.facts) from None
        return _of_numbers(sums, self.directions, self.inquiry.order)


class _ByCondition(_ByTangent):
    """Tangents of the probability of an event given all but the last step."""

    @property
    def functional(self) -> Functional:
        event = self.inquiry.question.nature.event
        assert event is not None
        return event


@dataclasses.dataclass
class _ByDifference(_ByTangent):
    """Central differences of neighbouring paths."""

    def estimated(self, seed: int, where: Where) -> _Estimate:
        levelled, method = self.inquiry.levelled(self.functional)
        aside = followed(levelled, self.directions)
        spacings = self._spacings(aside)
        self._warn_of_stairs(spacings)
        problem = Neighbouring(levelled, aside, spacings)

        def values(t, x, params):
            paths = zip(problem.parted(x), problem.params_of(params), strict=True)
            own, *sides = [levelled.values(t, state, its) for state, its in paths]
            pairs = zip(sides[::2], sides[1::2], spacings, strict=True)
            return jnp.concatenate([own, *((above - below) / (2.0 * spacing) for above, below, spacing in pairs)])

        sums = self.inquiry.sums(problem, Neighbours(method), values, self.paths, seed, where)
        return _of_numbers(sums, self.directions)

    def _warn_of_stairs(self, spacings: tuple[float, ...]) -> None:
        """Warn of parameters in which E f goes up by stairs, which differences see as they happen to lie."""
        longest = float(self.inquiry.lengths.max())
        for direction, spacing in zip(self.directions, spacings, strict=True):
            if name := in_stairs(self.inquiry.problem, direction):
                tell(
                    f"sensitivity: {name} jumps at a time that {direction.name} says. With steps of {longest:.3g} it "
                    "jumps at the next step, so that values are stairs in this parameter: the difference of "
                    f"neighbours {2 * spacing:.3g} apart may be off by up to {min(longest / (2 * spacing), 1.0):.0%}. "
                    "Let it rise over several steps, such as jax.nn.sigmoid((t - t0)/width): then derivatives of paths "
                    "are right",
                    JumpsInTime,
                )

    def _spacings(self, aside: WithTangents) -> tuple[float, ...]:
        share = self.spacing
        if share is None:
            jumps = self.inquiry.question.nature.f == "jumps" or bool(self.inquiry.question.nature.broken)
            share = self.paths**-0.25 if jumps else SMOOTH_SPACING
        if not (math.isfinite(share) and share > 0):
            raise ValueError(f"spacing: expected a number > 0, got {self.spacing!r}")
        sizes = np.abs(sizes_of(aside))
        return tuple(float(share * (size or 1.0)) for size in sizes)


@dataclasses.dataclass
class _ByWeight(_ByTangent):
    """f times the scores of the law, less its regression on them: their mean is known to be 0."""

    def estimated(self, seed: int, where: Where) -> _Estimate:
        levelled, method = self.inquiry.levelled(self.functional)
        stopped = None if self.inquiry.stopping is None else levelled.n - 1
        problem = Weighted(levelled, followed(levelled, self.directions), self.inquiry.question.sde, stopped)

        def values(t, x, params):
            f, scores, without = levelled.values(t, x[: levelled.n], params), *jnp.split(x[levelled.n :], 2)
            return jnp.concatenate([without > 0, f, scores, *(score * f for score in scores)])

        sums = self.inquiry.sums(problem, Weighting(method), values, self.paths, seed, where)
        summary, p = summarise(sums), len(self.directions)
        self._refuse_paths_without_scores(summary.mean[0, :p])
        mean, covariance = summary.mean[0, p:], summary.covariance[0, p:, p:]  # type: ignore[index]
        k = (len(mean) - p) // (1 + p)
        gradient, stderr = np.empty((p, k)), np.empty((p, k))
        for j in range(p):
            score, products = k + j, range(k + p + j * k, k + p + (j + 1) * k)
            slope = covariance[list(products), score] / max(covariance[score, score], 1e-300)
            gradient[j] = mean[list(products)] - slope * mean[score]
            left = np.array([covariance[i, i] for i in products]) - slope**2 * covariance[score, score]
            stderr[j] = np.sqrt(np.maximum(left, 0.0) / self.paths)
        return _Estimate(
            self.directions, mean[:k], summary.mean_stderr[0, p : p + k], np.diagonal(covariance)[:k], gradient, stderr
        )

    def _refuse_paths_without_scores(self, shares: np.ndarray) -> None:
        """Refuse parameters by what the paths met; shares: of the paths that met a place which noise does not reach."""
        for direction, share in zip(self.directions, shares, strict=True):
            if share > 0:
                raise ValueError(
                    f'by: "weight" is wrong for {direction.name}: {share:.2g} of the paths came to where '
                    f"{direction.name} changes the drift and no noise acts, so that their law has no score for it. "
                    f'Take by={{"{direction.name}": "difference"}}'
                )


_PART = {"tangent": _ByTangent, "conditional": _ByCondition, "difference": _ByDifference, "weight": _ByWeight}


def sizes_of(problem: WithTangents) -> np.ndarray:
    """The values of the parameters and starts among the directions."""
    leaves, x = jax.tree.leaves(problem.params), np.asarray(problem.problem.example_start(), float)
    return np.array(
        [
            one.along.value
            if one.along is not None
            else x[one.entry]
            if one.leaf is None
            else np.ravel(leaves[one.leaf])[one.entry]
            for one in problem.directions
        ]
    )


def _of_numbers(sums: Sums, directions: tuple[Direction, ...], order: int = 1) -> _Estimate:
    """An estimate from numbers that are f and its derivatives on each path, then those of all these."""
    summary, rows = summarise(sums), 1 + len(directions)
    means, stderrs, variances = (
        part[0].reshape(rows ** (order - 1), rows, -1) for part in (summary.mean, summary.mean_stderr, summary.variance)
    )
    mean, stderr, variance, covariance = means[0], stderrs[0], variances[0], None
    if summary.covariance is not None and mean.shape[1] == 1:
        covariance = summary.covariance[0, 1:rows, 1:rows] / np.asarray(sums.weight)[0]
    further = (means[1:, 1:], stderrs[1:, 1:]) if order == 2 else ()
    return _Estimate(directions, mean[0], stderr[0], variance[0], mean[1:], stderr[1:], covariance, *further)


_CAUSES = {  # of derivatives that scatter, with what else helps; by whether f is a Survival
    False: ("paths that begin close together part", "Shorten the interval"),
    True: ("whether a path survives is decided within single steps, the more sharply the shorter they are",
           "Take longer steps or more paths"),
}  # fmt: skip


def _warn_of_chaos(inquiry: Inquiry, estimates: Sequence[_Estimate]) -> None:
    """Warn where derivatives of paths scatter far more than what they are derivatives of."""
    sizes = dict(zip(inquiry.followed.directions, np.abs(sizes_of(inquiry.followed)), strict=True))
    for one in estimates:
        count = (one.variance / np.maximum(one.value_stderr**2, 1e-300))[None, :]
        for direction, scatter in zip(one.directions, one.stderr**2 * count, strict=True):
            ratio = float(np.max((sizes[direction] or 1.0) ** 2 * scatter / np.maximum(one.variance, 1e-300)))
            if ratio > CHAOTIC and np.all(one.variance > 0):
                cause, way_out = _CAUSES[type(inquiry.functional) is Survival]
                tell(
                    f"sensitivity: the derivatives of the paths by {direction.name} scatter {ratio**0.5:.2g} times as "
                    f"much as f itself (in units of the parameter): {cause}, and the mean of so few derivatives says "
                    f'little. {way_out}, or take by="weight" for parameters of the drift, or differences with a large '
                    "spacing.",
                    Chaotic,
                )
                return


def _dataset(inquiry, routes, reasons, estimates, paths, seed, where, began) -> xr.Dataset:
    """The result, in the order of the parameters as they were named."""
    directions = inquiry.followed.directions
    rows = {one: (part, k) for part in estimates for k, one in enumerate(part.directions)}
    first = estimates[0]
    one = len(first.value) == 1
    entry: tuple[str, ...] = () if one else ("entry",)

    def own(values: np.ndarray) -> Any:
        return float(values[0]) if one else values

    def stacked(name: str) -> np.ndarray:
        values = np.stack([getattr(rows[direction][0], name)[rows[direction][1]] for direction in directions])
        return values[:, 0] if one else values

    variables: dict[str, Any] = {
        "value": (entry, own(first.value)),
        "value_stderr": (entry, own(first.value_stderr)),
        "gradient": (("parameter", *entry), stacked("gradient")),
        "gradient_stderr": (("parameter", *entry), stacked("stderr")),
        "route": ("parameter", [routes[direction] for direction in directions]),
        "reason": ("parameter", [reasons[direction] for direction in directions]),
    }
    names = [direction.name for direction in directions]
    coords = {"parameter": names}
    if len(estimates) == 1 and first.covariance is not None:
        variables["covariance"] = (("parameter", "other"), first.covariance)
        coords["other"] = names
    if inquiry.order == 2:
        dims = ("parameter", "other", *entry)
        for name in ("second", "second_stderr"):
            values = getattr(first, name)
            variables[name] = (dims, values[..., 0] if one else values)
        coords["other"] = names
    record = {
        "problem": type(inquiry.problem).__name__,
        "method": inquiry.method.spelling,
        "f": type(inquiry.functional).__name__,
        "t": list(inquiry.span),
        "steps": len(inquiry.lengths),
        "paths": int(paths),
        "seed": int(seed),
        **({} if inquiry.stopping is None else {"stop": inquiry.stopping.levels_in_words}),
        **where.record,
        "versions": identity.versions(),
        "seconds": round(time.perf_counter() - began, 3),
    }
    return xr.Dataset(variables, coords, {"provenance": json.dumps(record)})
