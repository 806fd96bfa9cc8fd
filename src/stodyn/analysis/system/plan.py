"""Steps of different lengths, planned before anything is drawn from the equations of the mean and the covariance."""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.engine.spec import matched
from stodyn.hints import Reals
from stodyn.methods.catalogue import stepping
from stodyn.methods.contract import Method
from stodyn.numerics import dormand_prince, gauss
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems import lowering
from stodyn.problems.contract import written_as
from stodyn.problems.linear import GaussianStart
from stodyn.problems.looped import Looped
from stodyn.problems.measured import Measured
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.time_scale import time_scale

__dir__ = listing.names_of(__name__)

SAFETY, SHORTER, LONGER = 0.9, 0.1, 2.0
FIRST = 1e-3  # of the interval: the first step that is tried
SHORTEST = 1e-9  # of the interval
STRETCH = 1.001  # by which a step may be made longer, so that no splinter is left before a time that is to be met
GROWTH = 2.0  # by which a disturbance of the mean may grow over the interval
LEAST_STEPS = 400  # fewest steps with which the moments are followed over the interval, so that no pulse is missed
SMALL = 8  # components of a problem whose moments are followed by one call per step: of more it takes long to compile
GROWN = 0.1  # of its largest value: from there on a variance is compared with itself
MOST_NODES = 3000  # of that quadrature
SHORT = 0.01  # of the time scale of the equations: a step for which the noise of a method is chosen
ROUNDS = 12  # plans that are tried for the error of the whole run


@dataclasses.dataclass(frozen=True, eq=False)
class StepPlan:
    """Steps for a problem and a method: called with the interval (start, end), it gives their lengths; see `plan`."""

    problem: Any
    method: Method
    tol: float
    at: tuple[Any, ...] = ()  # times, and functions of the interval that give them
    of_loop: bool = False  # whether the problem is the plant of a loop, which is followed without the loop

    def __call__(self, t: Reals) -> np.ndarray:
        start, end = float(t[0]), float(t[1])
        with jax.enable_x64(True), np.errstate(all="ignore"):
            return self._planned(_Followed(self, start, end))

    def _planned(self, truth: _Followed) -> np.ndarray:
        """The fewest steps whose delivered moments stay within tol: the error that a single step may make is
        scaled until they do.
        """
        local, best, too_much = 0.1 * self.tol, None, math.inf
        for _ in range(ROUNDS):
            lengths, error = self._once(truth, local)
            if error <= self.tol:
                best = lengths if best is None or len(lengths) < len(best) else best
                if error > 0.3 * self.tol or too_much < math.inf:
                    break
                local *= min(0.8 * self.tol / max(error, 1e-300), 10.0)
            else:
                too_much = local
                if best is not None:
                    break
                local *= max(0.7 * self.tol / error, 0.02) if math.isfinite(error) else 0.1
        if best is None:
            raise ValueError(
                f"plan: no steps were found with which {self.method.name} stays within tol = {self.tol:g} up to t = "
                f"{truth.end:.6g}; the last tried are off by {error:.2g}. Take a larger tol, or a method of a higher "
                "order"
            )
        return best

    def _once(self, truth: _Followed, local: float) -> tuple[np.ndarray, float]:
        """Steps each of which makes an error of at most `local` by itself, and the largest error over the whole run."""
        start, end = truth.start, truth.end
        now, span, delivered = start, end - start, self._first_moments(start, *truth.initial)
        ends = [start]
        true = self._true_state(start, truth, delivered)
        h, worst = FIRST * span, 0.0
        stops = self._stops(start, end)
        while end - now > SHORTEST * span:
            left = (stop := stops[np.searchsorted(stops, now, side="right")]) - now
            wanted, h = h, left if left < STRETCH * h else h
            one, delivered_after = self._stepped(now, h, true, delivered)
            error = truth.error(now + h, *self._shown_moments(*one))
            change = SAFETY * (local / max(error, 1e-300)) ** (1.0 / 3.0) if math.isfinite(error) else SHORTER
            if error <= local:
                now, delivered = (stop if h == left else now + h), delivered_after
                ends.append(now)
                total = truth.error(now, *self._shown_moments(*delivered))
                worst = max(worst, total) if math.isfinite(total) else math.inf
                if worst == math.inf:
                    return np.diff(ends), worst
                truth.require_stable(now)
                true = self._true_state(now, truth, delivered)
            elif h <= SHORTEST * span:
                raise ValueError(
                    f"plan: no step at t = {now:.6g} is short enough for tol = {self.tol:g} with {self.method.name}; "
                    "take a larger tol, or a method of a higher order"
                )
            cut = h < wanted and error <= local  # a step cut short at a stop says nothing against the one wanted
            h = max(h * min(max(change, SHORTER), LONGER), wanted if cut else 0.0)
        return np.diff(ends), worst

    def _stops(self, start: float, end: float) -> np.ndarray:
        """The times that steps must meet, the end of the run last."""
        near = SHORTEST * (end - start)
        times = np.sort(np.concatenate([np.ravel(at((start, end)) if callable(at) else at) for at in (*self.at, end)]))
        times = times[(np.diff(times, prepend=start) > near) & (times > start) & (times < end - near)]
        return np.append(times, end)

    @functools.cached_property
    def _slope(self) -> Callable:
        """(t, y) -> dy/dt of y = (m, P, ∫ F dt) in a row, from f, ∂f/∂x, g and ∂g/∂x of the Ito equation."""
        sde = written_as(self.problem, SDE)
        ito, params = lowering.to_ito(sde), self.problem.example_params()

        n = self.problem.n

        def slope(t, y):
            m, P = y[:n], y[n : n + n * n].reshape(n, n)
            F, Dg = (jax.jacfwd(lambda x, function=function: function(t, x, params))(m) for function in (ito.f, ito.g))
            g, grown = ito.g(t, m, params), F @ P
            noise = g @ g.T + jnp.einsum("iaj,jk,lak->il", Dg, P, Dg)
            return jnp.concatenate([ito.f(t, m, params), (grown + grown.T + noise).ravel(), F.ravel()])

        return slope

    @functools.cached_property
    def _slope_at(self) -> Callable:
        """The slope as a function of (t, y), compiled."""
        at = AtPoints(self._slope, (None, 0))
        return lambda t, y: at(t, y[None])[0]

    @functools.cached_property
    def _stages_at(self) -> Callable:
        """(t, y, dy/dt, h) -> the slopes at all stages of a step of the pair and the y after it, in one call."""
        rows, times = dormand_prince.ROWS, dormand_prince.TIMES

        def stages(t, y, slope, h):
            def stage(K, own):
                row, c, place = own
                after = y + h * (row @ K[:-1])
                return K + jnp.outer(place, self._slope(t + c * h, after)), after

            first = jnp.zeros((len(rows) + 1, y.size)).at[0].set(slope)
            K, after = jax.lax.scan(stage, first, (rows, times, np.eye(len(rows) + 1)[1:]))
            return K, after[-1]

        at = AtPoints(stages, (None, 0, 0, None))
        return lambda t, y, slope, h: tuple(part[0] for part in at(t, y[None], slope[None], h))

    # --- the state of the method, in a row: x, and the numbers that the method carries beside it ----------------------

    @functools.cached_property
    def _stepped_problem(self) -> Any:
        return matched(self.problem, self.method)[0]

    @functools.cached_property
    def _state(self) -> tuple[int, Callable]:
        """How many numbers the state has, and how it is put together from them."""
        begun = self.method.start(
            self._stepped_problem,
            0.0,
            np.asarray(self._stepped_problem.example_start()),
            self._stepped_problem.example_params(),
        )
        row, unravel = ravel_pytree(begun)
        return row.size, unravel

    @functools.cached_property
    def _start(self) -> Callable:
        """(t, x) -> the states with which the method starts at each x, and their slopes by x."""

        def start(t, x):
            return ravel_pytree(self.method.start(self._stepped_problem, t, x, self.problem.example_params()))[0]

        return AtPoints(lambda t, x: (start(t, x), jax.jacfwd(start, argnums=1)(t, x)), (None, 0))

    @functools.cached_property
    def _reading(self) -> np.ndarray:
        """The matrix that takes a state to the x that a run shows."""
        size, unravel = self._state
        return np.asarray(jax.jacfwd(lambda s: self.method.read(unravel(s)))(np.zeros(size)))

    def _first_moments(self, t: float, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        (s,), (J,) = self._start(t, m[None])
        return s, J @ P @ J.T

    def _shown_moments(self, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        R = self._reading
        return R @ m, R @ P @ R.T

    def _true_state(self, t: float, truth: _Followed, delivered: tuple) -> tuple[np.ndarray, np.ndarray]:
        """The state with the true moments of x, and the delivered ones of the numbers carried beside start(x)."""
        m, P = truth.moments(t)
        if self._state[0] == len(m):
            return m, P
        mean, spread = self._shown_moments(*delivered)
        (s, shown), (J, _) = self._start(t, np.array([m, mean]))
        return delivered[0] + s - shown, delivered[1] + J @ (P - spread) @ J.T

    @functools.cached_property
    def _stepped(self) -> Callable:
        """(t, h, (m, P), ...) -> for each its mean and covariance after a step of the method, linear in the state about
        m.

        Where the noise depends on the state, expectations over its normals are those of a quadrature.
        """
        stepped, (_, unravel) = self._stepped_problem, self._state
        method, params, c = self.method, self.problem.example_params(), self.method.needs.normals(stepped.m)
        ends, quiet = np.cumsum(list(c.values()))[:-1], np.zeros(sum(c.values()))
        additive = stepped.noise_structure.implies("additive")
        rule = gauss.hermite(next((k for k in (5, 3) if k ** len(quiet) <= MOST_NODES), 2))

        def step(t, h, m, P):
            def after(s, ξ):
                noise = method.needs.increment(h, dict(zip(c, jnp.split(ξ, ends), strict=True)), stepped.m)
                state, report = method.step(stepped, t, unravel(s), noise, params)
                return jnp.where(report.ok, ravel_pytree(state)[0], jnp.nan)

            slope = jax.jacfwd(after)
            if additive:
                G = jax.jacfwd(after, argnums=1)(m, quiet)
                M = slope(m, quiet)
                return after(m, quiet), M @ P @ M.T + G @ G.T
            nodes, weights = (
                np.stack([v.ravel() for v in np.meshgrid(*[values] * len(quiet), indexing="ij")], axis=-1)
                for values in rule
            )
            weights = weights.prod(axis=-1)
            values, slopes = jax.vmap(lambda ξ: (after(m, ξ), slope(m, ξ)))(nodes)
            mean = weights @ values
            away = values - mean
            own = jnp.einsum("k,ki,kj->ij", weights, away, away)
            return mean, own + jnp.einsum("k,kia,ab,kjb->ij", weights, slopes, P, slopes)

        both = AtPoints(step, (None, None, 0, 0))

        def of_each(t, h, *inputs):
            m, P = both(t, h, *(np.array(parts) for parts in zip(*inputs, strict=True)))
            return tuple(zip(m, P, strict=True))

        return of_each


class _Followed:
    """The mean and the covariance of a problem over an interval, and the sizes to which errors in them are relative.

    m' = f(m), P' = F P + P F' + g g' + Σ_k Dg_k P Dg_k'. A variance is compared with itself from the time on when it
    has reached a tenth of its largest value, and before with that tenth; a mean with the largest size that it later
    reaches and the standard deviation beside it. So units do not matter.
    """

    def __init__(self, plan: StepPlan, start: float, end: float):
        self.start, self.end, self.of_loop = start, end, plan.of_loop
        self.initial: tuple[np.ndarray, np.ndarray] = tuple(np.asarray(x, float) for x in _initial(plan.problem))  # type: ignore[assignment]
        (m, P), n = self.initial, plan.problem.n
        self.n = n
        self.last: tuple[float, Any] = (math.nan, ())

        y = np.concatenate([m, P.ravel(), np.zeros(n * n)])
        if not np.isfinite(plan._slope_at(start, y)).all():
            raise ValueError(
                "plan: the equations of the mean and the covariance are not finite at the start, as where a root has "
                "its infinite slope, so that no steps can be planned from there. Give dt as a number, or ask "
                "stodyn.estimate for an accuracy"
            )
        # Absolute tolerances from the sizes that a first, rough solution shows.
        stages = plan._stages_at if n <= SMALL else None
        solved = functools.partial(dormand_prince.solve, plan._slope_at, start, end, y, stages=stages)
        rough = solved(rtol=1e-3, atol=1e-300)
        largest = np.abs(rough.y).max(axis=1) if np.isfinite(rough.y).all() else np.abs(y)
        root = np.sqrt(np.maximum(largest[n : n + n * n].reshape(n, n).diagonal(), 1e-300))
        sizes = np.concatenate([largest[:n] + root, np.outer(root, root).ravel(), np.ones(n * n)])
        rtol = 1e-3 * min(plan.tol, 1e-3)
        self.solution = solved(rtol=rtol, atol=1e-3 * rtol * sizes, longest=(end - start) / LEAST_STEPS)
        if not (self.solution.is_complete and np.isfinite(self.solution.y).all()):
            self.require_stable(float(self.solution.t[-1]))
            raise ValueError(
                f"plan: the mean of the problem leaves the finite numbers near t = {self.solution.t[-1]:.6g}, so that "
                "no steps can be planned along it. End the interval before, or give dt as a number."
            )
        self.times = self.solution.t
        variances = np.maximum(self.solution.y[n : n + n * n].reshape(n, n, -1).diagonal().T, 0.0)
        self.least = GROWN * variances.max(axis=1)
        self.grown = np.array(
            [self.times[np.argmax(v >= least)] for v, least in zip(variances, self.least, strict=True)]
        )
        self.still = np.maximum.accumulate(np.abs(self.solution.y[:n, ::-1]), axis=1)[:, ::-1]

    def moments(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        return self._at(t)[:2]

    def error(self, t: float, m: Any, P: Any) -> float:
        """The largest relative error of a mean and a covariance at time t."""
        mean, covariance, of_mean, of_covariance = self._at(t)
        worst = (np.abs(m - mean) * of_mean).max(), (np.abs(P - covariance) * of_covariance).max()
        return float(np.maximum(*worst))  # NaN stays NaN

    def _at(self, t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The mean and the covariance at a time, and the factors of errors in them; a time is often asked for twice."""
        if t != self.last[0]:
            after, n = min(int(np.searchsorted(self.times, t)), len(self.times) - 1), self.n
            y = self.solution.at(t)
            mean, covariance = y[:n], y[n : n + n * n].reshape(n, n)
            variance = covariance.diagonal()
            spread = np.sqrt(np.where(t >= self.grown, np.maximum(variance, 0.0), np.maximum(variance, self.least)))
            size = self.still[:, after]
            size = np.where(spread > 0.0, size + spread, np.maximum(size, 0.01 * self.still[:, 0]))
            both = spread[:, None] * spread
            of_covariance = (both > 0.0) / np.maximum(both, 1e-300)
            self.last = t, (mean, covariance, 1.0 / np.maximum(size, 1e-300), of_covariance)
        return self.last[1]

    @functools.cached_property
    def _growth(self) -> tuple[float, float]:
        """The first time at which a disturbance of the mean has grown by more than GROWTH, by the eigenvalues of the
        average linearisation up to it, and the logarithm of its growth; (∞, 0) where there is none."""
        n, slopes = self.n, self.solution.y[self.n + self.n**2 :].T
        rates = np.full(len(slopes), -np.inf)
        known = np.isfinite(slopes).all(axis=1) & (self.solution.t > self.start)
        rates[known] = np.linalg.eigvals(slopes[known].reshape(-1, n, n)).real.max(axis=1)
        if not (rates > math.log(GROWTH)).any():
            return math.inf, 0.0
        first = int(np.argmax(rates > math.log(GROWTH)))
        return float(self.solution.t[first]), float(rates[first])

    def require_stable(self, now: float) -> None:
        """Refuse a mean whose disturbances have grown at a time up to now."""
        since, growth = self._growth
        if now >= since and self.of_loop:
            raise ValueError(
                "plan: the plant by itself is unstable: with its inputs as they are in params, a small disturbance has "
                f"grown by the factor {math.exp(min(growth, 700.0)):.3g} at t = {since:.6g}. This says nothing of the "
                "loop, but a plan follows the plant without it, so that none can be made. Give dt as a number"
            )
        if now >= since:
            raise ValueError(
                f"plan: the mean is unstable, a small disturbance of it has grown by the factor "
                f"{math.exp(min(growth, 700.0)):.3g} at t = {since:.6g}, so that steps planned along the mean "
                "need not suit the paths. Give dt as a number, or let every path refine its own steps with the method "
                "Dyadic."
            )


@checks_arguments
def plan(problem: Any, method: Method | str, tol: float = 1e-3, at: Reals | Callable[..., Any] = ()) -> StepPlan:
    """Plan steps that keep a method's covariance right to `tol`, the same for all paths: simulate(..., dt=plan(...)).

    The mean and the covariance are followed along m' = f(m), P' = F P + P F' + g g' + Σ_k Dg_k P Dg_k', with the drift
    f and diffusion g of the Ito equation and their slopes F and Dg_k at m; beside them those that the steps deliver, by
    the step's own linear map from one to the next. Steps are made as long as these stay within tol of the former over
    the whole run, every variance and mean relative to itself, so that units do not matter. (Until a variance has
    reached a tenth of its largest value it is compared with that tenth; a mean with the size that it later reaches and
    the standard deviation.) A step h is followed by 0.9 h (τ/error)^(1/3), and the error τ allowed to one is scaled
    until the run meets tol. No path is observed and nothing is drawn, so that the statistics are not affected. Exact
    for linear problems; others are linearised along the mean, and a mean that is unstable is refused.

    Of a loop its plant is followed with the inputs as they are in params, to which `tol` then applies, and steps meet
    all instants at which something acts. A plant that is unstable by itself is refused, however stable the loop is.

    Parameters
    ----------
    problem : Problem
        A problem with fixed parameters.
    method : Method or str
        A one-step method with normal increments, or its name. The acceleration φ that an α method carries from one step
        to the next is followed with its covariance too.
    tol : float
        The relative error of every mean and variance.
    at : sequence of float, or callable
        Times that steps must meet, so that statistics can be observed there; or a function of the interval (start, end)
        that gives them, such as loop.times.

    Returns
    -------
    StepPlan
        For `dt`; called with an interval, plan(...)((0, 2)), it gives the lengths of the steps.

    Raises
    ------
    TypeError
        If the problem has constraints, along which no covariance is followed.
    ValueError
        If the method needs equal steps or draws that a plan cannot follow, or parameters are random.
    """
    if isinstance(problem, SDAE):
        raise TypeError(f"problem: a {type(problem).__name__} has constraints, along which no covariance is followed; "
                        "give a circuit dt=circuit.time_steps(), another one dt as numbers")  # fmt: skip
    method = stepping(method)
    if method.starting_steps:
        raise ValueError(f"method: {method.name} takes its history at equal steps; take a one-step method such as RK4")
    converted, _ = matched(problem.problem if isinstance(problem, Measured) else problem, method)
    if converted.joints is not None:
        raise TypeError("problem: has constraints, along which no covariance is followed; plan for the same system in "
                        "minimal coordinates, sd.problems.in_minimal_coordinates(...), and give the run with joints "
                        "these steps: dt=sd.plan(minimal, method)")  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself warns about the planned steps
        method = stepping(method.prepared(converted, SHORT * min(time_scale(converted), 1e300)))
    if method.takes_equal_steps:
        raise ValueError(f"method: {method.name} {method.takes_equal_steps}, so that its steps cannot differ; "
                         "give dt as a number")  # fmt: skip
    normals = sum(method.needs.normals(converted.m).values())
    if not converted.noise_structure.implies("additive") and 2**normals > MOST_NODES:
        raise ValueError(
            f"method: a step of {method.name} takes {normals} normals here, too many to plan with where the noise "
            "depends on the state; take one with W alone, such as RK4 or Heun"
        )
    if hasattr(method.needs, "nodes"):
        raise ValueError(f"method: {method.name} takes discrete draws, which a plan cannot follow; take one with W")
    if not (math.isfinite(tol) and 0 < tol < 1):
        raise ValueError(f"tol: expected a relative error between 0 and 1, got {tol!r}")
    meets: tuple[Any, ...] = (at,) if callable(at) else tuple(sorted(float(time) for time in at))
    of_loop = isinstance(problem, Looped)
    if isinstance(problem, Looped):
        meets = (*meets, problem.times)
    problem = problem.problem if isinstance(problem, Measured) else problem
    if problem.has_random_params:
        raise ValueError(
            "params: differ from path to path, but there is one plan for all; give it a problem with fixed ones"
        )
    return StepPlan(problem, method, float(tol), meets, of_loop)


def _initial(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """The mean and covariance of the start; of a random one that is not normal, from 4096 draws."""
    start = problem.start
    if isinstance(start, GaussianStart):
        return start.mean, start.covariance
    if problem.has_random_start:
        starts = problem.draw_start(np.random.default_rng(0), range(4096))
        return starts.mean(axis=0), np.cov(starts.T).reshape(problem.n, problem.n)
    return np.asarray(problem.example_start(), float), np.zeros((problem.n, problem.n))
