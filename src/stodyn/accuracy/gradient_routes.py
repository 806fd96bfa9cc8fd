"""Which ways to a gradient are right for a question, by what the traces of its functions prove.

tangent      the derivative of the path, then of f: f and the equations must not jump
conditional  the last step integrated out, then tangents: for the probability that one smooth function is positive
weight       f times the score of the law: any f, parameters of the drift that noise reaches
difference   neighbouring paths on the same noise: always, with a bias and, where f jumps, more noise
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import partial_eval

from stodyn.engine.traces import traced_functions_of
from stodyn.methods.weighted import Weighted
from stodyn.numerics.facts.degree import corners, has_jumps, has_jumps_in, is_rough, jumps
from stodyn.numerics.printing.entrywise import TABLE, UNKNOWN, Row, Zeros
from stodyn.numerics.printing.fingerprints import calls_host
from stodyn.numerics.printing.operations import traces_inside
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.calling import call
from stodyn.problems.contract import innermost, written_as
from stodyn.problems.impact import Struck
from stodyn.problems.level import Gauge
from stodyn.problems.looped import Looped
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.tangents import Direction, WithTangents, with_tangents
from stodyn.problems.walls import Walled
from stodyn.statistics.functional import End, Functional, Probability

ROUTES = ("tangent", "conditional", "weight", "difference")
SAMPLES = 16  # states at which it is checked that noise reaches what a parameter changes


class Nature(NamedTuple):
    """What is proved about f and the equations.

    f           "smooth", "kinks" or "jumps"
    broken      why paths do not have a derivative everywhere, in words; empty where they do
    event       the function whose sign f tells, as a functional, where f is the indicator of one
    """

    f: str
    broken: str
    event: Probability | None


def nature(problem: Any, functional: Functional, t: float, stop: Any = None) -> Nature:
    """What the traces of f and of the equations prove."""
    own = innermost(problem)
    x, params = np.asarray(own.example_start(), float), own.example_params()

    def f(x, params):
        return jnp.asarray(call(functional.function, t, x, params=params), float)

    with jax.enable_x64(True):
        rough = functional.has_kinks or is_rough(f, (x, params), 0) or bool(corners(f, (x, params), 1))
        kind = "jumps" if has_jumps(f, (x, params), (0, 1), with_cuts=True) else "kinks" if rough else "smooth"
        event = _event(functional, x, params, t) if kind == "jumps" else None
    if isinstance(functional, Probability) and kind != "jumps":
        event = functional
    return Nature(kind, _broken(problem, stop), event)


def _broken(problem: Any, stop: Any) -> str:
    """Why the paths of a problem do not have a derivative everywhere, in words."""
    if stop is not None:
        return "a level stops the paths, and tangents lack what a shift of the time of the stop does"
    if isinstance(problem, Struck | Walled):
        what = "impacts" if isinstance(problem, Struck) else "walls"
        return f"the problem has {what}, and tangents lack what a shift of the time of contact does"
    for sensor in problem.sensors if isinstance(problem, Looped) else ():
        if sensor.resolution is not None:
            return f"the sensor {sensor.name} rounds what it reads, and tangents do not see that"
    for name, look in traced_functions_of(problem).items():
        moving = range(1, len(look.arguments))
        with jax.enable_x64(True):
            if has_jumps(look.function, look.arguments, tuple(moving)):
                return f"{name} jumps (it has a comparison or a sign of the state), and tangents do not see that"
    return ""


def _with_kinks(problem: Any) -> str:
    """The name of a function of a problem that is not smooth in the state, or bends where its parameters say; empty
    where there is none. Roots of parameters are smooth at ordinary values of them."""
    with jax.enable_x64(True):
        for name, look in traced_functions_of(problem).items():
            last = len(look.arguments) - 1
            if any(is_rough(look.function, look.arguments, k) for k in range(1, last)):
                return name
            if last > 0 and corners(look.function, look.arguments, last):
                return name
    return ""


def _event(functional: Functional, x: Any, params: Any, t: float) -> Probability | None:
    """The smooth φ with f = 1 where φ > 0 and f = 0 elsewhere, where the trace of f ends with such a comparison."""
    if type(functional) is not End:
        return None

    def f(x, params):
        return call(functional.function, t, x, params=params)

    trace = jax.make_jaxpr(f)(x, params)
    if len(trace.out_avals) != 1 or trace.out_avals[0].shape != ():
        return None
    last, sign = _comparison(trace.jaxpr)
    if last is None:
        return None
    literals = [one.val if isinstance(one, core.Literal) else None for one in last.invars]
    free = [one for one in last.invars if not isinstance(one, core.Literal)]
    cut = trace.jaxpr.replace(outvars=free, debug_info=trace.jaxpr.debug_info.with_unknown_names())
    jaxpr, used = partial_eval.dce_jaxpr(cut, [True] * len(free), instantiate=True)

    def level(t_end, x, params):
        leaves = itertools.compress(jax.tree.leaves((x, params)), used)
        values = iter(core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, trace.consts))(*leaves))
        above, below = (next(values) if literal is None else literal for literal in literals)
        return sign * jnp.asarray(above - below, float)

    return None if has_jumps(lambda x: level(t, x, params), (x,), (0,)) else Probability(level)


def _comparison(jaxpr: Any) -> tuple[Any, float]:
    """The comparison that alone decides between the values 0 and 1 of a function, with the sign of what is above 0
    where the value is 1; None where there is none."""
    origin = {out: equation for equation in jaxpr.eqns for out in equation.outvars}
    last, sign = origin.get(jaxpr.outvars[0]), 1.0
    while last is not None and not _row(last).above:
        inner = traces_inside(last)
        if _row(last).zeros is Zeros.COPIED:
            last = origin.get(last.invars[0])
        elif len(inner) == 1 and [_row(one).zeros for one in inner[0].jaxpr.eqns] == [Zeros.CHOSEN]:
            outer = dict(zip(inner[0].jaxpr.invars, last.invars, strict=True))
            which, no, yes = (outer.get(one, one) for one in inner[0].jaxpr.eqns[0].invars)
            if {getattr(no, "val", None), getattr(yes, "val", None)} != {0.0, 1.0}:
                return None, sign
            last, sign = origin.get(which), sign if yes.val == 1.0 else -sign
        else:
            return None, sign
    return last, sign * (_row(last).above if last is not None else 1.0)


def _row(equation: Any) -> Row:
    return TABLE.get(equation.primitive.name, UNKNOWN)


# --- what depends on a parameter --------------------------------------------------------------------------------------


def users_of(problem: Any, direction: Direction) -> set[str]:
    """The names of the functions of a problem that depend on a parameter."""
    return {name for name, look in traced_functions_of(problem).items() if _uses(look, problem, direction)}


def _uses(look: Any, problem: Any, direction: Direction) -> bool:
    place = _input_of(look, problem, direction)
    if place is None:
        return False
    _, used = partial_eval.dce_jaxpr(look.trace.jaxpr, [True] * len(look.trace.jaxpr.outvars))
    return bool(used[place])


def jumping_with(problem: Any, direction: Direction) -> str:
    """The name of a function of a problem that jumps at a place or a time which a parameter moves; empty without."""
    for name, look in traced_functions_of(problem).items():
        place = _input_of(look, problem, direction)
        if place is not None and has_jumps_in(look.trace, jax.tree.leaves(look.arguments), (place,)):
            return name
    return ""


def in_stairs(problem: Any, direction: Direction) -> str:
    """The name of a function of a problem that jumps at a time which a parameter moves, whatever the state; steps meet
    that time as a whole number of them. Empty where there is none."""
    for name, look in traced_functions_of(problem).items():
        place = _input_of(look, problem, direction)
        leaves = jax.tree.leaves(look.arguments)
        if place is not None and {0, place} in jumps(look.trace, leaves):
            return name
    return ""


def _input_of(look: Any, problem: Any, direction: Direction) -> int | None:
    """Which input of the trace of a function is the parameter of a direction; None where it takes no params."""
    if direction.leaf is None or len(look.arguments) < 2:
        return None
    places = [[place for place, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
              for params in (problem.params, look.arguments[-1])]  # fmt: skip
    inputs = len(look.trace.jaxpr.invars)
    wanted, own = places[0][direction.leaf], places[1]
    if len(jax.tree.leaves(look.arguments)) != inputs or wanted not in own:
        return None
    return inputs - len(own) + own.index(wanted)


def depends(function: Callable, params: Any, direction: Direction, *arguments: Any) -> bool:
    """Whether a function (..., params) depends on a parameter."""
    if direction.leaf is None:
        return False
    tree: Any
    leaves, tree = jax.tree.flatten(params)
    with jax.enable_x64(True):
        trace = jax.make_jaxpr(lambda *flat: function(*arguments, tree.unflatten(flat)))(*leaves)
    _, used = partial_eval.dce_jaxpr(trace.jaxpr, [True] * len(trace.jaxpr.outvars))
    return bool(used[direction.leaf])


def refuse_host(problem: Any, functional: Functional, t: float) -> None:
    """Refuse functions that call the host, whose derivatives nobody knows."""
    own = innermost(problem)
    x, params = np.asarray(own.example_start(), float), own.example_params()
    with jax.enable_x64(True):
        traces = {name: look.trace for name, look in traced_functions_of(problem).items()}
        traces["f"] = jax.make_jaxpr(lambda x: call(functional.function, t, x, params=params))(x)
    for name, trace in traces.items():
        if calls_host(trace):
            raise TypeError(
                f"{name}: calls the host (a callback), which has no derivative; write it with jax.numpy, or run "
                "stodyn.sweep over values of the parameter and take stodyn.difference"
            )


# --- whether a route is right -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Question:
    """A gradient to be computed: the problem as the method takes it, with its directions, what is proved, and the
    levels that stop paths."""

    problem: Any
    followed: WithTangents
    functional: Functional
    span: tuple[float, float]
    nature: Nature
    gauges: tuple[Gauge, ...] = ()

    def in_levels(self, direction: Direction) -> bool:
        """Whether a level that stops paths, or the function that reaches it, depends on a parameter."""
        x, params = np.asarray(self.problem.example_start(), float), self.problem.example_params()
        return any(
            depends(lambda params, gauge=gauge: gauge.distances(self.span[0], x, params), params, direction)
            for gauge in self.gauges
        )

    @property
    def sde(self) -> Any:
        """The drift and the noise of the problem, where it is stepped as an SDE or has one with the same law."""
        own = self.problem
        return own if isinstance(own, SDE) else None if isinstance(own, SDAE) else written_as(own, SDE)

    def wrong(self, route: str, direction: Direction) -> str:
        """Why a route is wrong for a parameter, in words; empty where it is right."""
        return getattr(self, f"_wrong_{route}")(direction)

    def chosen(self, direction: Direction) -> str:
        """The first route that is right, the most exact ones first."""
        order = ("tangent", "conditional", "weight", "difference")
        return next(route for route in order if not self.wrong(route, direction))

    def reason(self, route: str, direction: Direction) -> str:
        """Why a route is taken, in words."""
        if route == "tangent":
            return f"f is {'smooth' if self.nature.f == 'smooth' else 'continuous, with kinks'}"
        return self.wrong("tangent", direction)

    def wrong_second(self, route: str, direction: Direction) -> str:
        """Why derivatives of derivatives along a route are not second derivatives of E f; empty where they are."""
        if route not in ("tangent", "conditional"):
            return f'{direction.name} has the route "{route}", which has no derivative along a path'
        if self.nature.f != "smooth" if route == "tangent" else self._event_has_kinks:
            return "f has kinks, and derivatives of derivatives of paths lack what happens there"
        if name := _with_kinks(self.problem):
            return f"{name} has kinks or roots, and derivatives of derivatives of paths lack what happens there"
        return ""

    @property
    def _event_has_kinks(self) -> bool:
        event, problem = self.nature.event, self.problem
        x, params = np.asarray(problem.example_start(), float), problem.example_params()
        assert event is not None
        with jax.enable_x64(True):

            def value(x, params):
                return event.value(problem, self.span[1], x, params)

            return is_rough(value, (x, params), 0) or bool(corners(value, (x, params), 1))

    def _wrong_tangent(self, direction: Direction) -> str:
        if self.nature.f == "jumps":
            return (
                "f jumps: its derivative along a path is 0 almost everywhere, and so would the gradient be, which is "
                "wrong"
            )
        if isinstance(self.functional, Probability):
            return 'the tangent of a probability is that of its law outer the last step: that is "conditional"'
        return self.nature.broken

    def _wrong_conditional(self, direction: Direction) -> str:
        if self.nature.event is None:
            return "f is not the indicator of one smooth function at the end, such as x[0] > 1.1"
        if self.sde is None or self.sde is not self.problem:
            return "the last step is integrated out for SDEs alone"
        return self.nature.broken or self._unlit()

    def _unlit(self) -> str:
        """Why the last step leaves nothing to integrate out: no noise acts on the function there."""
        event, sde = self.nature.event, self.sde
        assert event is not None

        def rate(t, x, params):
            return jax.grad(lambda x: event.value(sde, t, x, params)[0])(x) @ sde.g(t, x, params)

        rates = AtPoints(rate, (None, 0, None))(np.asarray(self.span[1]), self._states, sde.example_params())
        return "" if np.all(np.abs(rates).sum(axis=-1) > 0) else "no noise acts directly on the function of the event"

    @property
    def _states(self) -> np.ndarray:
        x = np.asarray(self.problem.example_start(), float)
        return x + (0.1 + 0.1 * np.abs(x)) * np.random.default_rng(0).standard_normal((SAMPLES, len(x)))

    def _wrong_weight(self, direction: Direction) -> str:
        if direction.leaf is None:
            return "the law of a path does not have a score for its start"
        sde = self.sde
        if sde is None or sde is not self.problem:
            return "scores are those of an SDE, and the method steps a problem of another kind"
        x, params = np.asarray(sde.example_start(), float), sde.example_params()
        if depends(lambda params: sde.g(0.0, x, params), params, direction):
            return (
                f"{direction.name} changes the noise, and the score of a noise intensity grows with the square root of "
                "the number of steps"
            )
        if depends(lambda params: self.functional.value(sde, self.span[1], x, params), params, direction):
            return f"f itself depends on {direction.name}, which a score does not see"
        if name := jumping_with(self.problem, direction):
            return f"{name} jumps where {direction.name} says, and scores do not see that"
        if self.in_levels(direction):
            return f"the level of the stop depends on {direction.name}, which a score does not see"
        return self._unreached(direction)

    def _unreached(self, direction: Direction) -> str:
        """Why a change of the drift has no score: it must be a change that the noise could make."""
        weighted = Weighted(self.problem, dataclasses.replace(self.followed, directions=(direction,)), self.sde)
        times = np.linspace(*self.span, SAMPLES)
        _, is_unreached = AtPoints(weighted.rates, (0, 0, None))(times, self._states, self.sde.example_params())
        if not np.any(is_unreached):
            return ""
        return f"no noise acts where {direction.name} changes the drift, so that the law has no score for it"

    def _wrong_difference(self, direction: Direction) -> str:
        return ""


class ByPaths(NamedTuple):
    """A gradient by derivatives of paths: the functional whose derivatives are averaged, the route and the reason."""

    functional: Functional
    route: str
    reason: str


def by_paths(problem: Any, functional: Functional, of: Any, span: tuple[float, float]) -> ByPaths:
    """The gradient of E f as the mean of derivatives of paths; refuses what has another route, and says which."""
    refuse_host(problem, functional, span[1])
    sde = None if isinstance(problem, SDAE) else written_as(problem, SDE)
    stepped = problem if sde is None else sde
    paths = with_tangents(stepped, of)
    question = Question(stepped, paths, functional, span, nature(problem, functional, span[1]))
    refuse_unused(question, paths.directions)
    for direction in paths.directions:
        route = question.chosen(direction)
        if route not in ("tangent", "conditional"):
            raise ValueError(
                f"gradient: derivatives of paths are wrong for {direction.name}: {question.wrong('tangent', direction)}"
                f'. sensitivity(problem, f, of=...) takes the route "{route}" with a step and a number of paths that '
                "you state"
            )
    event = question.nature.event if route == "conditional" else None
    return ByPaths(event or functional, route, question.reason(route, direction))


def refuse_unused(question: Question, directions: Sequence[Direction]) -> None:
    """Refuse parameters that nothing depends on."""
    problem, functional = question.problem, question.functional
    x, params = np.asarray(problem.example_start(), float), problem.example_params()
    for direction in directions:
        if direction.leaf is None or users_of(problem, direction) or question.in_levels(direction):
            continue
        if not depends(lambda params: functional.value(problem, question.span[1], x, params), params, direction):
            raise ValueError(
                f"of: nothing depends on {direction.name}: neither the equations nor f; its derivative is 0. Is it "
                "spelled as in the functions, or is a number in its place there?"
            )
