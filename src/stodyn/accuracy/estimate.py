"""E f of a path to a stated error: the method, the steps and the points are chosen, and the error is checked.

pilot    differences of levels 1 and 2 of each candidate method, 256 points each, fewer where there are many steps
predict  the cost of every base and top, from the pilot's variances and bias (rules.predicted)
loop     half = q s + D; stop when it is small enough. Add a level where D is too large and significant; otherwise add
         points where they help most
check    kurtosis, order, finite paths; every check that fails is reported as a reason not to trust the result
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from stodyn.accuracy import doubts, rules
from stodyn.accuracy.candidates import Candidate, candidates
from stodyn.accuracy.controls import (
    LIKELY,
    MOST_PROOF,
    PROOF,
    Expectation,
    WithControl,
    doubts_of_control,
    functional_of,
    named_control,
    needed_error,
    refuse_draws,
    with_control,
)
from stodyn.accuracy.gradient_routes import by_paths
from stodyn.accuracy.ladder import Diverged, Ladder, Unattainable, Work, in_words
from stodyn.accuracy.levels import Question
from stodyn.accuracy.moves import carried_out
from stodyn.accuracy.pilot import MOST_STEPS, Pilots, stops_in_words
from stodyn.accuracy.report import Account, dataset, plain_cost
from stodyn.engine.door import front_door
from stodyn.engine.failure import PathsFailed
from stodyn.engine.grid import span_of
from stodyn.engine.places.contract import Place
from stodyn.engine.progress import Progress
from stodyn.engine.spec import as_it_is_now
from stodyn.engine.where import Where, where_of
from stodyn.hints import Integer, Reals, check_seed
from stodyn.methods.switching import refuse_switches
from stodyn.problems.calling import call
from stodyn.problems.contract import returned_shape
from stodyn.problems.tangents import holding, names_of, with_tangents
from stodyn.statistics.functional import Functional, Probability, Watching
from stodyn.telling import tell
from stodyn.warnings import Untrusted

POINTS = ("auto", "sobol", "random")
HOPELESS = 100.0  # times the budget, beyond which an estimate is refused: predictions are up to twelve times too high
PAYS = 2.5  # reduction of the variance that pays for a second path beside each


@front_door
def estimate(
    problem,
    f: Callable | Functional,
    *,
    t: Reals,
    error: float,
    seed: Integer,
    level: float = 0.95,
    relative: bool = False,
    method: Any = None,
    steps: Integer | None = None,
    points: str = "auto",
    control: tuple[Callable | Functional, float] | str | None = None,
    gradient: str | Sequence[str] | None = None,
    most: float = 1e10,
    ledger: Any = None,
    place: Place | None = None,
    device: Any = "cpu",
    progress: bool | None = None,
) -> xr.Dataset:
    """Estimate E f to a total error (bias and sampling) with a confidence interval, by the cheapest route.

    Parameters
    ----------
    problem : Problem
        An SDE, a problem that has an SDE with the same law (Hamiltonian, Mechanical, coloured noise), an SDAE, or a
        loop around one of these (with_loop), without jitter. Starts and parameters may be random.
    f : function or Functional
        A function (t, x[, params]) of the end state that returns a number or a vector, or one of
        stodyn.statistics.functional: End, TimeAverage, Integral, Maximum, Minimum, Probability.
    t : (start, end)
        The interval.
    error : float
        The half-width of the interval, for every entry of f; with relative=True as a share of |E f|.
    seed : int
        A whole number; the same seed gives the same result.
    level : float
        The confidence level of the interval of each entry by itself.
    relative : bool
        Whether `error` is a share of |E f|.
    method, steps : Method or str, and int, optional
        Fix the method, and the number of steps of the coarsest level.
    points : {"auto", "sobol", "random"}
        "auto" takes Sobol points where they pay.
    control : (c, E c), "linear" or "auto", optional
        (c, E c): a function or functional of the same paths that is correlated with f, and its exact expectation. The
        estimate is then that of f - β (c - E c), with β from a pilot of its own. "linear": f on the problem linearised
        along its own Gaussian law, beside each path; for additive noise, up to four components and End, Integral or
        TimeAverage. "auto": the same where it lowers the variance by a factor of at least 2.5, the cost of the second
        path.
    gradient : str or sequence of str, optional
        Names of parameters ("k", "spring.k") and starts ("start.x"), as for `sensitivity`: the gradient of E f with
        respect to them is estimated too, every entry to the same error, by derivatives of the paths; for the
        probability of an event, after the last step is integrated out. What has no such derivatives is refused.
    most : float
        The largest number of path-steps.
    ledger : str or Path, optional
        A folder that stores the blocks of every level, so that a further call continues from them.
    place, device
        As for stodyn.simulate: where blocks run.
    progress : bool, optional
        Whether to show the error as it falls; by default on a terminal or in a notebook.

    Returns
    -------
    xarray.Dataset
        value, error (the half-width reached), low, high, bias, stderr; for every level steps, points, level_mean,
        level_stderr, level_variance, kurtosis, gain (of Sobol points), path_steps, sampled, role; with gradient=
        also gradient (parameter), gradient_error, gradient_bias, gradient_stderr. attrs: route, why, trusted, reasons,
        path_steps, pilot_path_steps, predicted, plain_path_steps.

    Raises
    ------
    Unattainable
        If the expectation cannot be estimated as asked: too few path-steps, a rare event, levels that do not converge.

    Notes
    -----
    The interval relies on a variance that can be estimated and on a bias that shrinks from level to level as observed;
    both are checked, and `trusted` is 1 where no check failed; where one did, there is a warning too. A bias that is
    zero on the measured levels but not on finer ones cannot be detected, and neither can values rarer than one in the
    number of points.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x: -x, lambda t, x: 0.1, start=2.0)
    >>> result = sd.estimate(decay, lambda t, x: x[0], t=(0, 1), error=0.01, seed=1)
    >>> bool(abs(result["value"] - 0.7358) < 0.02), result.attrs["trusted"]
    (True, 1)
    """
    _check_wishes(error, level, most, seed)
    where = where_of(place=place, device=device)
    options = {"method": method, "steps": steps, "points": points, "control": control, "gradient": gradient}
    estimator = Estimator(problem, f, t, **options, where=where)
    result = estimator.answer(error, seed, level=level, relative=relative, most=most, ledger=ledger, progress=progress)
    if not result.attrs["trusted"]:
        tell(f"estimate: do not trust this interval: {result.attrs['reasons']}", Untrusted)
    return result


class _Gradient(NamedTuple):
    """The names of a gradient that is asked for, its route, and the reason for it."""

    of: Any
    route: str
    reason: str


class Estimator:
    """A question, described and traced once, that can be answered many times; the options are those of estimate, with
    `where` from engine.where."""

    def __init__(
        self, problem, f, t, *, method=None, steps=None, points="auto", control=None, gradient=None,
        where: Where | None = None,
    ):  # fmt: skip
        self.span, self.functional = span_of(t), functional_of(f)
        _check_choices(points, steps)
        refuse_switches(problem, "estimate")
        self.problem, self.method, self.steps, self.control = as_it_is_now(problem), method, steps, control
        if gradient is not None:
            self.problem = holding(self.problem, names_of(gradient))
        _check_lists(self.problem)
        check_values(self.functional, self.problem, self.span[0])
        self.functional = self.functional.along(self.problem, self.span)
        self.gradient = self._gradient(gradient)
        where = where or where_of()
        self.where, self.devices = where.place, where.devices
        if self.devices and points == "sobol":
            raise ValueError('points: Sobol points are made on the processor; give points="random", or device="cpu"')
        self.kind = "random" if self.devices or points == "random" else "sobol"
        self.chooses = points == "auto"
        self.questions = self._questions(self.problem, self.functional)

    def _gradient(self, of) -> _Gradient | None:
        """The gradient that is asked for; f is then what its route averages."""
        if of is None:
            return None
        if self.control is not None:
            raise ValueError("control: a control of f is none of its gradient; leave control or gradient out")
        self.functional, *words = by_paths(self.problem, self.functional, of, self.span)
        return _Gradient(of, *words)

    def _questions(self, problem, functional, beside: Functional | None = None) -> list[tuple[Candidate, Question]]:
        """The candidate methods, the coarsest first; `beside`, if any, replaces the functional."""
        fitting = candidates(problem, functional, self.method, self.span, is_differentiated=self.gradient is not None)
        unit = fitting[0].unit
        if self.steps is not None and self.steps % unit:
            raise ValueError(
                f"steps: {self.steps} equal steps do not fall on the samples of the loop; give a multiple of {unit}"
            )
        methods = sorted(fitting, key=lambda method: method.steps)
        return [(method, self._question(method, beside or functional)) for method in methods]

    def _question(self, candidate: Candidate, functional: Functional) -> Question:
        """The question of one method; it watches the paths of those that may run away."""
        watched = Watching(functional) if candidate.watched else functional
        directions = () if self.gradient is None else with_tangents(candidate.problem, self.gradient.of).directions
        return Question(candidate.problem, candidate.method, watched, self.span, self.where, self.devices, directions)

    def _controlled(self, error: float, seed: int) -> tuple[list[tuple[Candidate, Question]], WithControl]:
        """The questions with the user's control, and the facts known about that control."""
        none = WithControl(None, 0, 1.0, None)
        if self.control is None:
            return self.questions, none
        problem, functional, control = self.problem, self.functional, self.control
        if isinstance(control, str):
            linear = named_control(problem, functional, self.span, error, control)
            if linear is None:
                return self.questions, none
            problem, functional, known = linear.problem, linear.functional, (linear.control, linear.known)
        else:
            known = control
        first = candidates(problem, functional, self.method, self.span)[0]
        question, is_own = self._question(first, functional), isinstance(control, str)
        controlled = with_control(functional, known, question, first, seed, is_own)
        if control == "auto" and controlled.factor < PAYS:
            return self.questions, none._replace(spent=controlled.spent)
        return self._questions(problem, functional, controlled.functional), controlled

    def answer(self, error, seed, *, level=0.95, relative=False, most=1e10, ledger=None, progress=None) -> xr.Dataset:
        """Estimate E f to an error."""
        began = time.perf_counter()
        work = Work(level, float(error), relative, float(most), int(seed), self.kind, self.chooses, ledger)
        questions, control = self._controlled(float(error), int(seed))
        with Progress(0, progress, label="estimating", link=self.where.link) as bar:
            pilots = Pilots(questions, work, self.steps, bar)
            pilot = control.spent + pilots.spent
            chosen = _by_the_cheapest(pilots, work, bar)
            spent, reasons = control.spent + pilots.spent, chosen.reasons
            if control.functional is not None:
                alone, more = self._control_alone(chosen.ladder, control.variance, spent, bar)
                expectation, spent = Expectation(chosen.ladder, alone), spent + more
                control = control._replace(expectation=expectation)
                reasons = [*reasons, *doubts_of_control(expectation)]
        seconds = time.perf_counter() - began
        account = Account(reasons, chosen.cost, chosen.other_costs, pilots.failures, pilot, spent, seconds)
        result = dataset(chosen.ladder, work, control, account)
        if self.gradient is not None:
            result.attrs["route"] += f"; gradient by {self.gradient.route}: {self.gradient.reason}"
        return result

    def _control_alone(
        self, ladder: Ladder, variance: np.ndarray | None, spent: int, bar: Progress
    ) -> tuple[list[Ladder], int]:
        """The expectation of a stated control, estimated by itself where the estimate does not show it well enough,
        and the path-steps of that: about as many as the estimate took, or a share of what the control saves."""
        work, error, control = ladder.work, needed_error(ladder), ladder.control
        share = min(PROOF * plain_cost(ladder, variance)[0], MOST_PROOF)
        most = min(max(spent, share), work.most - spent)
        if not (control.is_stated and math.isfinite(error) and most > 0):
            return [], 0
        seed = int(np.random.SeedSequence(work.seed, spawn_key=(0, 1)).generate_state(1, np.uint64)[0] >> np.uint64(1))
        own = Work(LIKELY, error, False, most, seed, self.kind, self.chooses, None)
        try:
            pilots = Pilots(self._questions(self.problem, control.control), own, self.steps, bar)
        except Unattainable:
            return [], 0
        try:
            alone = _by_the_cheapest(pilots, own, bar).ladder
            is_trusted = not doubts.reasons(alone, doubts.heavy(alone))
        except Unattainable:
            return [], pilots.spent
        return [alone] if is_trusted else [], pilots.spent


class _Chosen(NamedTuple):
    """The method that gave the estimate, its predicted cost beside those of the others, and reasons for distrust."""

    ladder: Ladder
    cost: float
    other_costs: list[float]
    reasons: list[str]


def _by_the_cheapest(pilots: Pilots, work: Work, bar: Progress) -> _Chosen:
    """Take the cheapest method to the error; where it fails on the way, the next one."""
    left = list(pilots.ladders)
    failure: Exception | None = None
    while left:
        choices = [(prediction, ladder) for ladder in left for prediction in ladder.predicted()]
        best, ladder = min(choices, key=lambda choice: choice[0].cost)
        if best.cost > HOPELESS * work.most:
            raise Unattainable(_too_dear(best, ladder, work))
        ladder.take(best)
        try:
            reasons = carried_out(ladder, work, bar, pilots.spent - ladder.spent)
            return _Chosen(ladder, best.cost, _other_costs(choices, left, ladder), reasons)
        except (PathsFailed, Diverged) as reason:
            left.remove(ladder)
            pilots.failures.append(f"{ladder.candidate.method.name}: {in_words(reason)}")
            left, failure = left or pilots.further(), reason
    if isinstance(failure, Diverged):
        raise failure
    raise Unattainable(_without_method(pilots.failures)) from failure


def _other_costs(
    choices: Sequence[tuple[rules.Prediction, Ladder]], left: Sequence[Ladder], chosen: Ladder
) -> list[float]:
    """The lowest predicted cost of each method that was not chosen, the cheapest first."""
    of = {id(ladder): [math.inf] for ladder in left if ladder is not chosen}
    for prediction, ladder in choices:
        if ladder is not chosen:
            of[id(ladder)].append(prediction.cost)
    return sorted(map(min, of.values()))


def _check_lists(problem: Any) -> None:
    """Refuse lists of different lengths: a path takes one place in all of them."""
    sources = (*problem.start_parts, *problem.param_sources)
    lengths = sorted({int(source.count) for source in sources if source.is_listed})
    if len(lengths) > 1:
        raise ValueError(
            f"problem: its lists of values (PerPath) hold {lengths[0]} and {lengths[-1]} values; an estimate draws one "
            "place for all of them at random. Give lists of one length"
        )


def _check_choices(points, steps) -> None:
    """Refuse points and numbers of steps that do not exist."""
    if points not in POINTS:
        raise ValueError(f"points: expected one of {', '.join(map(repr, POINTS))}, got {points!r}")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1):
        raise ValueError(f"steps: expected a whole number >= 1 of steps of the coarsest level, got {steps!r}")
    if steps is not None and 4 * steps > MOST_STEPS:
        raise ValueError(f"steps: expected at most {MOST_STEPS // 4} of the coarsest level, got {steps}")


def check_values(functional: Functional, problem: Any, t: float) -> None:
    """Refuse functions whose values cannot be averaged."""
    with jax.enable_x64(True):
        x, params = jnp.asarray(problem.example_start(), float), problem.example_params()
        try:
            value = jax.eval_shape(lambda x: call(functional.function, t, x, params=params), x)
        except Exception:
            value = None
        if not isinstance(value, jax.ShapeDtypeStruct):
            value = returned_shape(problem, "f", functional.function, ("t", t), ("x", x))  # says what is wrong with it
    shape, kind = value.shape, value.dtype.kind
    if kind == "b" and isinstance(functional, Probability):
        raise ValueError(
            "f: the function of Probability is True or False; give a number that is above 0 where the event happens, "
            "such as x[0] - 1.5 for x[0] > 1.5, from which the chance within the last step is known"
        )
    wanted = "a number" if functional.of_numbers else "a number or a vector"
    most = 0 if functional.of_numbers else 1
    if kind not in "fiub" or (len(shape) > most and shape != (1,)):
        name = "complex numbers" if kind == "c" else f"an array of shape {shape}"
        raise ValueError(
            f"f: expected {wanted} for each path, got {name} from the function of {type(functional).__name__}"
        )
    refuse_draws("f", functional, problem, t)


def _check_wishes(error, level, most, seed) -> None:
    """Refuse errors, confidence levels, budgets and seeds that mean nothing."""
    if isinstance(error, bool) or not isinstance(error, (int, float, np.number)) or not 0 < error < math.inf:
        raise ValueError(f"error: expected a number > 0, got {error!r}; no number of paths gives an error of zero")
    if not isinstance(level, (int, float)) or not 0.5 <= level < 1:
        raise ValueError(f"level: expected a number from 0.5 to 1, such as 0.95, got {level!r}")
    if not isinstance(most, (int, float, np.number)) or not most >= 1:
        raise ValueError(f"most: expected a number of path-steps, got {most!r}")
    check_seed(seed)


def _without_method(failures: Sequence[str]) -> str:
    """Say that every method has failed, each with its reason."""
    return (
        f"f: no method gives levels that converge. {' | '.join(failures)} | Give steps= for a finer coarsest level, "
        "another method=, or a shorter t; where solutions explode or leave the domain of the coefficients, E f does "
        "not exist"
    )


def _too_dear(best: rules.Prediction, ladder: Ladder, work: Work) -> str:
    """Say that the error costs more than the budget, and which error the budget reaches."""
    if stops := stops_in_words(ladder):
        return stops
    finest = max(l for role, l in ladder.runs if role == "difference")
    variance = float(np.max(ladder.fine(finest).variance))
    reach = work.error * math.sqrt(best.cost / work.most)
    return (
        f"error: {work.error:g} needs about {best.cost:.0e} path-steps (pilot: variance {variance:.2g} at "
        f"{ladder.n(finest)} steps); most={work.most:g} reaches about {reach:.1g}. Raise most, or ask for that"
    )
