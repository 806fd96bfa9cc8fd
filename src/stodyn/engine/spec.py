"""The spec of a run: its arguments checked, the problem as the method takes it, the prepared method, their traces."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from stodyn.engine import grid, kept_traces, traces
from stodyn.engine.collector import without_collection
from stodyn.engine.jumps import at_jumps
from stodyn.hints import is_number
from stodyn.methods.catalogue import named
from stodyn.methods.contacts import check_contacts
from stodyn.methods.contract import Catalogued, Method, Solver
from stodyn.methods.crossings import check_crossings
from stodyn.methods.jumping import AtJumps
from stodyn.methods.looping import is_taken
from stodyn.methods.measured import measuring
from stodyn.methods.recommend import best_fitting, recommended, stable_methods
from stodyn.methods.stopping import Stop, Stopping, stopping
from stodyn.methods.written_stops import check_written_stops
from stodyn.models.catalogue import Model
from stodyn.noise.iterated import Approximation, check_resolution
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.facts.degree import is_affine_in
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.unprintable import or_unexamined, remembered
from stodyn.numerics.tracing_errors import one_error_of_derivatives
from stodyn.problems import lowering
from stodyn.problems.contract import (
    WITHOUT_AREAS,
    TracedFunction,
    check_repeats,
    expect_problem,
    innermost,
    machine_memory,
    snapshot,
    written_as,
)
from stodyn.problems.driven import Driven
from stodyn.problems.driven_mechanical import DrivenMechanical
from stodyn.problems.level import Level
from stodyn.problems.looped import Looped
from stodyn.problems.measured import Measured
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.structure import partial_functions
from stodyn.problems.time_scale import time_scale
from stodyn.statistics.contract import Statistic
from stodyn.statistics.moments import Moments
from stodyn.statistics.stopping import Alive, Stopped

MEMORY_SHARE = 0.5  # of the machine's memory that a result may take
GUARDED = {  # how the argument of a function that is not defined everywhere is kept where it is
    "a square root": "jnp.sqrt(jnp.maximum(x, 0.0))",
    "a power": "jnp.maximum(x, 0.0) ** a",
    "a logarithm": "jnp.log(jnp.maximum(x, 1e-9))",
    "an arc sine": "jnp.arcsin(jnp.clip(x, -1.0, 1.0))",
    "an arc cosine": "jnp.arccos(jnp.clip(x, -1.0, 1.0))",
    "an inverse hyperbolic cosine": "jnp.arccosh(jnp.maximum(x, 1.0))",
    "an inverse hyperbolic tangent": "jnp.arctanh(jnp.clip(x, -0.999, 0.999))",
}

_even: Bounded[str, bool] = Bounded(256)


@dataclasses.dataclass(frozen=True, eq=False)
class Spec:
    """Everything about a run except the number of its paths and their seed.

    problem     as the method takes it; method: made ready for it
    times       of the steps, (steps + 1,); lengths: (steps,)
    statistics  made ready, each with the steps after which it looks in `saves`
    traced      of a Method its traces; None for a Solver
    record      the entries of the run's record about problem and method
    levels      how many levels stop a path (methods.stopping); 0 where every path runs to the end
    implicit    the names of implicit methods for the problem as the user wrote it
    suspect     what in the problem as the user wrote it most likely makes paths fail
    undefined   which of its functions are not defined everywhere, in words
    fit         which finite states that problem allows; None where it allows all
    """

    problem: Any
    method: Any
    times: np.ndarray
    lengths: np.ndarray
    statistics: tuple[Statistic, ...]
    saves: tuple[np.ndarray, ...]
    dtype: np.dtype
    traced: traces.Traced | None
    record: dict[str, Any]
    implicit: tuple[str, ...] = ()
    levels: int = 0
    suspect: str = ""
    undefined: str = ""
    fit: traces.Fit | None = None

    @property
    def steps(self) -> int:
        return len(self.lengths)

    @property
    def has_equal_steps(self) -> bool:
        return bool(np.ptp(self.lengths) == 0)

    @functools.cached_property
    def param_leaves(self) -> list[Any]:
        return jax.tree.leaves(self.problem.params)

    @functools.cached_property
    def varies(self) -> tuple[int, ...]:
        """1 for each leaf of the parameters of which every path has its own, 0 for the others."""
        return tuple(int(source.is_random) for source in self.problem.param_sources)

    @functools.cached_property
    def examples(self) -> list[np.ndarray]:
        """The parameters of one path, leaf by leaf, in the run's types."""
        leaves = jax.tree.leaves(self.problem.example_params())
        return [np.asarray(leaf, traces.number_type(leaf, self.dtype)) for leaf in leaves]

    @functools.cached_property
    def common_start(self) -> np.ndarray | None:
        """The start (1, n) of all paths; None where each has its own."""
        problem = self.problem
        return None if problem.has_random_start else problem.draw_start(np.random.default_rng(0), range(1))

    @functools.cached_property
    def members_alike(self) -> dict[tuple[int, int], Any]:
        """Where all paths have the same start and parameters: the members of a block that was met, by its numbers of
        paths and lanes."""
        return {}

    @functools.cached_property
    def params_tree(self) -> Any:
        return jax.tree.structure(self.problem.example_params())

    @property
    def axes(self) -> Any:
        """jax.vmap's axes of parameters over the paths of a block."""
        return jax.tree.unflatten(self.params_tree, [-1 if v else None for v in self.varies])

    def without_traces(self) -> Spec:
        """A copy to send elsewhere: its traces are made again on arrival."""
        return dataclasses.replace(self, traced=None)

    def traced_anew(self) -> Spec:
        traced = _traced(self.problem, self.method, self.dtype, self.fit) if isinstance(self.method, Method) else None
        return dataclasses.replace(self, traced=traced)


@without_collection
def describe(
    problem: Any, method: Catalogued | str | None, t: Any, dt: Any, collect: Any, dtype: str, stop: Stop | None = None
) -> Spec:
    """The spec of a call of simulate; refuses runs that are impossible, in the user's terms."""
    expect_problem(problem)
    if dtype not in ("float64", "float32"):
        raise ValueError(f'dtype: expected "float64" or "float32", got {dtype!r}')
    functions = checked_functions(problem)
    facts_key = kept_traces.recall_facts(problem, functions)
    _check_stated_structure(problem)
    method = chosen_method(problem, method)
    if isinstance(problem, Looped) and is_number(dt) and dt > 0:
        problem.expect_dt(grid.span_of(t), float(dt))
    times, lengths = grid.step_times(t, dt)
    stepped, conversions = matched(problem, method)
    changes = [*conversions, *problem.before_run(float(times[0]))]
    if isinstance(problem, Looped):
        problem.tell_what_is_late(float(times[0]), float(times[-1]))
    reason = method.step_refusal(float(lengths.max()))
    if reason is not None:
        raise ValueError(f"dt: {reason}")
    h = counted_steps(problem, dt, lengths)
    ready = prepared(method, stepped, float(times[0]), h)
    if dtype == "float32":
        _check_single_times(stepped, times, h)
    with or_unexamined():
        check_crossings(method, stepped, float(lengths.max()), float(times[-1] - times[0]))
    with or_unexamined():
        if not has_even_slopes(problem, functions):
            check_written_stops(method, problem, float(lengths.max()), (float(times[0]), float(times[-1])))
    if conversions:
        check_contacts(method, problem, float(lengths.max()))
        _check_driven(method, problem, stepped, float(lengths.max()))
    measured = measuring(ready, stepped, float(times[0]), h)
    if isinstance(measured, Solver) and stop is None and not np.ndim(h):
        measured = measured.as_steps(stepped, float(lengths[0]), ()) or measured
    with or_unexamined():
        measured = at_jumps(measured, method, problem, times, np.dtype(dtype))
    if isinstance(measured, AtJumps):
        changes.append(measured.in_words)
    if isinstance(measured, Method) and np.ndim(h):
        _check_unequal_steps(ready, measured)
    if isinstance(ready, Method):
        strong = max((float(c.order or 0) for c in ready.claims if c.kind == "strong" and not c.when), default=0.0)
        if isinstance(ready.needs, Approximation):
            _check_resolution(ready.needs, strong, stepped, times, float(lengths.min()))
    statistics, saves = _prepared_statistics(statistics_of(collect), stepped, measured, times)
    further: dict[str, Any] = {}
    if stop is not None:
        measured = stopping(measured, stepped, stop, float(times[0]))
        further = {"stop": measured.levels_in_words}
        statistics = (*statistics, *_of_stops(statistics, measured, stepped))
        saves = (*saves, saves[0], np.array([len(lengths)]))
    record = {
        "problem": type(problem).__name__,
        "method": method.spelling,
        "lowering": changes,
        "noise": str(problem.noise_structure),
        **further,
    }
    traced, fit = None, fit_of(problem, stepped)
    if isinstance(measured, Method):
        make = functools.partial(_traced, stepped, measured, np.dtype(dtype), fit)
        keep = functools.partial(kept_traces.of_step, problem, functions, measured, make, stepped is not problem)
        traced = keep() if dtype == "float64" else make()
    implicit = tuple(other.name for other in stable_methods(problem) if other.name != method.name)
    levels = 0 if stop is None else len(stop.levels)
    suspect = (problem.problem if isinstance(problem, Measured) else problem).failure_suspect
    kept_traces.note_facts(problem, facts_key)
    return Spec(
        stepped, measured, times, lengths, statistics, saves, np.dtype(dtype), traced, record, implicit, levels,
        suspect, _undefined_in_words(problem, functions), fit,
    )  # fmt: skip


def counted_steps(problem: Any, dt: Any, lengths: np.ndarray) -> float | np.ndarray:
    """The length of the steps of a run; those of all of them where they differ, and where a list of equal ones meets
    the instants of a loop but divides none of its ticks."""
    h = grid.step_of(lengths)
    is_listed = isinstance(problem, Looped) and isinstance(h, float) and not is_number(dt)
    return lengths if is_listed and not problem.has_ticks_of(h) else h


def _check_single_times(problem: Any, times: np.ndarray, h: float | np.ndarray) -> None:
    """Refuse steps that a loop cannot count in single precision."""
    while isinstance(problem, Measured):
        if isinstance(problem, Looped):
            problem.expect_single(times, h)
        problem = problem.problem


def _check_unequal_steps(method: Catalogued, measured: Method) -> None:
    """Refuse steps that differ where a method, or the loop in which it steps, takes equal ones."""
    own = method.takes_equal_steps if isinstance(method, Method) else ""
    if reason := own or measured.takes_equal_steps:
        way_out = "Give one number, or a one-step method such as RK4." if own else "Give one number."
        raise ValueError(f"dt: {method.name} {reason}, but these steps differ. {way_out}")


def fit_of(problem: Any, stepped: Any) -> traces.Fit | None:
    """Which states a problem allows; None where it allows all, and where it takes params that the parts of a loop
    write, whose values a state does not show."""
    own, in_loop = problem, False
    while isinstance(own, Measured):
        in_loop |= isinstance(own, Looped)
        own = own.problem
    fitness = own.fitness
    return None if fitness is None or (in_loop and fitness.takes_params) else traces.Fit(fitness, stepped.n)


def _check_driven(method: Catalogued, problem: Any, stepped: Any, h: float) -> None:
    """Check the steps of a problem with coloured noise that a method takes in a form that no longer shows the noise."""
    problem, stepped = (part.problem if isinstance(part, Measured) else part for part in (problem, stepped))
    if isinstance(stepped, SDAE) and isinstance(problem, Driven | DrivenMechanical):
        driven = problem if isinstance(problem, Driven) else written_as(problem, Driven)
        driven.check_step(method, h)


def _of_stops(statistics: tuple[Statistic, ...], method: Stopping, problem: Any) -> tuple[Statistic, ...]:
    """The statistics of the stops, kept besides those of the run; refuses a statistic that cannot be stopped."""
    for statistic in statistics:
        if statistic.refuses_stops:
            raise ValueError(f"stop: {type(statistic).__name__} {statistic.refuses_stops}; leave one of them out")
    words = tuple(str(gauge.level) for gauge in method.gauges)
    return Alive(), Stopped(levels=words, n=problem.n)


def _check_resolution(needs: Approximation, order: float, problem: Any, times: np.ndarray, shortest: float) -> None:
    """Warn where iterated integrals are too coarse, and ask for the problem's unit of time only where it matters.

    Counted in units between the step and the whole run, errors are maxima of powers of the step: if they are small
    enough in both of these, they are in all.
    """
    span = float(times[-1] - times[0])
    if not all(needs.is_enough(order, shortest, problem.m, unit) for unit in (shortest, span)):
        unit = min(span, time_scale(problem, float(times[0])))
        check_resolution(needs, shortest, order, problem.m, unit)


def checked_functions(problem: Any) -> dict[str, TracedFunction]:
    """The traces of a problem's functions. Each is traced at least twice, and refused where the last two traces differ,
    since a number that it draws would be drawn only once."""
    traced = traces.traced_functions_of(problem)
    for name, look in traced.items():
        if look.earlier is not None and look.earlier.digest == look.digest:
            continue
        check_repeats(name, look.trace, look.trace_again())
    return traced


def has_even_slopes(problem: Any, functions: dict[str, TracedFunction]) -> bool:
    """Whether it is proved, for all values of the parameters, that the slopes of a drift, or of a force of bodies of
    constant mass, are the same everywhere, so that no stop is written into it."""
    name, moving = ("force", (1, 2)) if isinstance(problem, Mechanical) else ("drift", (1,))
    is_plain = type(problem) is SDE or (
        isinstance(problem, Mechanical) and problem.coloured is None and not callable(problem.mass)
    )
    look = functions.get(name) if is_plain else None
    if look is None:
        return False
    return remembered(_even, look.digest, lambda: is_affine_in(look.trace, look.arguments, moving))


def _undefined_in_words(problem: Any, functions: dict[str, TracedFunction]) -> str:
    """Name the functions, as the user wrote them, that are NaN for some arguments, which failed paths may have reached.

    A method may step other functions, which solve with a mass; those of circuits are written by stodyn.
    """
    if isinstance(innermost(problem), SDAE):
        return ""
    undefined = {name.split(".")[-1]: partial_functions(look.trace) for name, look in functions.items()}
    takes = [f"{traces.with_article(name)} takes {' and '.join(words)}" for name, words in undefined.items() if words]
    if not takes:
        return ""
    ways = dict.fromkeys(GUARDED[word] for words in undefined.values() for word in words)
    return (
        f"Check the arguments first: {', '.join(takes)}, NaN or infinite outside its domain. A step may leave it even "
        f"where the solution does not. Keep them inside, as in {' and '.join(ways)}."
    )


def _check_stated_structure(problem: Any) -> None:
    """Refuse noise that is stated to be additive, diagonal or commutative and is not; "general" claims nothing."""
    stated = getattr(problem, "structure", None)
    if stated not in ("additive", "diagonal", "commutative") or problem.examined_structure.implies(stated):
        return
    areas = (
        f" To leave its areas out on purpose, where they are too small to matter, state structure={WITHOUT_AREAS!r}."
        if stated == "commutative" else ""
    )  # fmt: skip
    raise ValueError(
        f"structure: {stated!r} is stated, but the noise is not {stated} ({problem.examined_structure}), and methods "
        f"made for {stated} noise would give wrong results. Leave structure out: it is then determined from the "
        f"diffusion.{areas}"
    )


def _traced(problem: Any, method: Method, dtype: np.dtype, fit: traces.Fit | None) -> traces.Traced:
    try:
        with jax.enable_x64(True), underived(), one_error_of_derivatives():
            return traces.trace(problem, method, dtype, fit)
    except NotImplementedError as error:
        raise ValueError(
            f"method: {method.name} takes derivatives of the equations, but JAX has none of something in them "
            f"({error}). Write it in another way, such as jnp.where in place of x.at[k].apply(f), or take a method "
            "that needs no derivatives, such as Heun."
        ) from error


def as_it_is_now(problem: Any) -> Any:
    """A fresh copy of the problem with no cached facts.

    A problem caches facts about its functions, such as the structure of its noise, but these functions may read values
    that have changed since. A model gives its problem.
    """
    original = problem.problem if isinstance(problem, Model) else problem
    expect_problem(original)
    return snapshot(original)


def chosen_method(problem: Any, method: Catalogued | str | None) -> Catalogued:
    """The method itself, from its name, or the recommended one."""
    return recommended(problem) if method is None else named(method)


def prepared(method: Catalogued, stepped: Any, t: float, h: float | np.ndarray) -> Catalogued:
    """The method prepared for the problem that it steps from t on, by steps of length h, or of these lengths."""
    while isinstance(stepped, Measured):
        stepped.check_steps(method, t, h)
        stepped = stepped.problem
    return method.prepared(stepped, float(np.max(h)))


def matched(
    problem: Any, method: Any, wanted: Callable[[Catalogued], bool] = lambda other: True
) -> tuple[Any, list[str]]:
    """The problem as the method takes it, and the exact conversions made for it.

    Refuses a method that does not fit, and names those that do and are `wanted`.
    """
    expect_problem(problem)
    if not isinstance(method, Catalogued):
        raise TypeError(f"method: expected a method such as stodyn.methods.explicit.Heun, got {method!r}")
    if isinstance(problem, Measured):
        wanted = is_taken if isinstance(problem, Looped) else wanted
        inner, changes = matched(problem.problem, method, wanted)
        _expect_all_components(problem, inner, method, wanted)
        return problem if inner is problem.problem else problem.around(inner), changes
    accepts: Any = method.accepts
    original, changes = problem, []
    if not isinstance(problem, accepts):
        lowered = problem.lower(accepts)
        if lowered is None:
            kind = type(problem).__name__
            call = getattr(accepts, "made_by", "")
            remedy = f"; make one with {call}" if call else ""
            raise TypeError(
                f"method: {method.name} takes {accepts.__name__} problems, but the problem is of type {kind}{remedy}. "
                f"{best_fitting(original, wanted=wanted)}"
            )
        problem, change = lowered
        changes.append(change)
    reason = method.refusal(problem)
    if reason is not None:
        raise ValueError(f"method: {reason}. {best_fitting(original, method.name, wanted)}")
    if method.calculus not in (None, problem.calculus):
        if problem.noise_structure.implies("additive"):
            changes.append(f"{problem.calculus} = {method.calculus} for additive noise")
        else:
            changes.append(f"{problem.calculus} -> {method.calculus} (drift corrected by half of sum (dg_k/dx) g_k)")
        problem = lowering.to_ito(problem) if method.calculus == "ito" else lowering.to_stratonovich(problem)
    return problem, changes


def _expect_all_components(problem: Any, inner: Any, method: Any, wanted: Callable[[Catalogued], bool]) -> None:
    """Refuse a method for which the problem inside another one loses components, where the outer one may read these."""
    left = [name for name in problem.problem.components if name not in inner.components]
    if left and inner.n != problem.problem.n and problem.reads_all_components:
        raise ValueError(
            f"method: {method.name} takes the {type(problem.problem).__name__} inside this {type(problem).__name__} as "
            f"an {type(inner).__name__} of {', '.join(inner.components)}, without {', '.join(left)}; take a method for "
            f"the {type(problem.problem).__name__} itself. {best_fitting(problem.problem, method.name, wanted)}"
        )


def statistics_of(collect: Statistic | Sequence[Statistic] | None) -> tuple[Statistic, ...]:
    statistics: tuple[Any, ...] = (Moments(),)
    if collect is not None:
        statistics = tuple(collect) if isinstance(collect, (list, tuple)) else (collect,)
    for statistic in statistics:
        if not isinstance(statistic, Statistic):
            hint = f"; call it: {statistic.__name__}()" if isinstance(statistic, type) else ""
            if isinstance(statistic, Level):
                hint = "; for the law of the time at which it is reached give statistics.Passage(level)"
            raise TypeError(
                f"collect: expected statistics such as statistics.Moments(every=10), got {statistic!r}{hint}"
            )
    if not statistics:
        raise ValueError("collect: nothing to collect; leave it out for Moments()")
    return statistics


def _prepared_statistics(
    statistics: tuple[Statistic, ...], problem: Any, method: Any, times: np.ndarray
) -> tuple[tuple[Statistic, ...], tuple[np.ndarray, ...]]:
    """Return the prepared statistics, and the steps after which each looks.

    One that names none takes those of the first that does, unless it has its own.
    """
    explicit = [s for s in statistics if s.every is not None or s.at is not None]
    fallback = grid.save_steps(explicit[0], times, None) if explicit else None
    saves = tuple(grid.save_steps(s, times, None if s.own_times else fallback) for s in statistics)
    with jax.enable_x64(True):
        ready = (s.prepared(problem, times[g]) for s, g in zip(statistics, saves, strict=True))
        return tuple(statistic.stepped_by(method, times) for statistic in ready), saves


def check_paths(spec: Spec, paths: int) -> None:
    """Refuse results that do not fit into memory, and lists that are too short."""
    for statistic, saves in zip(spec.statistics, spec.saves, strict=True):
        needed = statistic.memory(len(saves), paths, spec.problem.n)
        most = MEMORY_SHARE * machine_memory()
        if needed > most:
            raise MemoryError(
                f"{type(statistic).__name__}: would keep {needed / 1e9:.1f} GB, but the limit is {most / 1e9:.1f} GB, "
                f"{MEMORY_SHARE:.0%} of this machine's memory. Keep fewer paths or components, leave covariances out, "
                "or take fewer times with every= or at=."
            )
    check_listed(spec.problem, paths)


def check_listed(problem: Any, paths: int) -> None:
    """Refuse values listed path by path that do not reach the last path."""
    last, rng = range(paths - 1, paths), np.random.default_rng(0)
    problem.draw_start(rng, last)
    for source in problem.param_sources:
        if source.is_random:
            source.draw(rng, last, "params")


def values_given(spec: Spec) -> float:
    """How many paths there can be where starts or parameters are listed path by path; infinity where none are."""
    return min((source.count for source in (*spec.problem.start_parts, *spec.problem.param_sources)), default=np.inf)


def check_block(spec: Spec, paths: int) -> None:
    """Refuse blocks whose states, normals and generators alone do not fit into memory."""
    streams = () if spec.traced is None else spec.traced.streams
    needed = 8.0 * paths * (3 * spec.problem.n + sum(count + 4 for _, count in streams))
    most = MEMORY_SHARE * machine_memory()
    if needed > most:
        raise MemoryError(
            f"block: {paths} paths at a time need at least {needed / 1e9:.1f} GB, but the limit is {most / 1e9:.1f} "
            f"GB, {MEMORY_SHARE:.0%} of this machine's memory. Leave it out, or give a few thousand: blocks run one "
            "after another."
        )
