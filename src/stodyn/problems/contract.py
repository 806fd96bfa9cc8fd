"""The interface of every problem to methods and to the engine."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import inspect
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from stodyn import listing
from stodyn.noise.from_normals import FromNormals
from stodyn.noise.source import Fixed, PerPath, Source, source_of, sources_in
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.bounds import check_bounds
from stodyn.numerics.printing.fingerprints import are_known_to_differ, calls_host, fingerprint, says_all
from stodyn.numerics.tracing_errors import first_line, in_words, missing_entry, unnamed_entry, way_out
from stodyn.problems import describing
from stodyn.problems.calling import PARAMS_NAMES, check_call, takes_params
from stodyn.telling import tell
from stodyn.warnings import AnotherOrder

__all__ = [
    "Around",
    "NoiseStructure",
    "Problem",
    "Recommended",
    "checked_source",
    "component_names",
    "component_units",
    "fixed_value",
    "returned_shape",
]
__dir__ = listing.names_of(__name__)

STRUCTURES = ("additive", "diagonal", "scalar", "commutative", "general")
WITHOUT_AREAS = "without areas"  # noise that is taken as commutative on purpose: its Lévy areas are left out
STATED = (*STRUCTURES, WITHOUT_AREAS)
CALCULI = ("ito", "stratonovich")
MOST_SHARED = 256  # traces, and what is told from them, that problems share


@dataclasses.dataclass(frozen=True, eq=False)
class TracedFunction:
    """The trace of a user's function for these arguments, as it was when the problem was made; `earlier` is the trace
    of the same function in another problem, of which this one is a copy."""

    function: Callable
    arguments: tuple[Any, ...]
    trace: core.ClosedJaxpr
    earlier: TracedFunction | None = None

    @functools.cached_property
    def digest(self) -> str:
        return shared("digest", self.trace, lambda: fingerprint(self.trace))

    @functools.cached_property
    def has_full_digest(self) -> bool:
        """Whether the digest determines its derivatives too."""
        return shared("full digest", self.trace, lambda: says_all(self.trace))

    def trace_again(self) -> core.ClosedJaxpr:
        """The trace of the function as it is now."""
        with jax.enable_x64(True):
            return anew(self.function)(*self.arguments)[0]


def check_repeats(name: str, first: core.ClosedJaxpr, second: core.ClosedJaxpr) -> None:
    """Refuse a function two of whose traces differ, since a number that it draws would be drawn only once; those with
    calls to the host do not say what the host does."""
    if are_known_to_differ(first, second) and not calls_host(first):
        raise ValueError(
            f"{name}: traced twice, it gives two different functions: does it draw a random number, count, or read "
            "a clock? JAX traces a function once, so all paths and steps would get the same number. "
            "Put randomness into diffusion, start or params."
        )


def traced_twice(name: str, function: Callable, *examples: Any) -> tuple[core.ClosedJaxpr, Any]:
    """The trace of a function and the shape of its result; refuses one two of whose traces differ."""
    with jax.enable_x64(True):
        (first, shape), (second, _) = (anew(function)(*examples) for _ in range(2))
    check_repeats(name, first, second)
    return first, shape


def anew(function: Callable) -> Callable[..., tuple[core.ClosedJaxpr, Any]]:
    """Return a function that traces `function` afresh, and returns the trace and the shape of the result.

    JAX reuses the traces of functions that it has traced before, but the values that they read may have changed since.
    """
    return jax.make_jaxpr(functools.wraps(function)(lambda *arguments: function(*arguments)), return_shape=True)


_shared: contextvars.ContextVar[Bounded[Any, tuple[Any, Any]] | None] = contextvars.ContextVar("_shared", default=None)


@contextlib.contextmanager
def sharing_traces() -> Iterator[None]:
    """Problems made meanwhile of the same functions share their traces: they differ in the numbers of their params, and
    what the functions read from outside does not change."""
    token = _shared.set(Bounded(MOST_SHARED))
    try:
        yield
    finally:
        _shared.reset(token)


def shared(what: str, function: Any, make: Callable[[], Any], examples: Any = ()) -> Any:
    """make(), which tells something about a function for arguments like these examples; made once where problems share
    it."""
    known = _shared.get()
    if known is None:
        return make()
    leaves, tree = jax.tree.flatten(examples)
    shapes = tuple((np.shape(leaf), np.result_type(leaf), isinstance(leaf, (int, float))) for leaf in leaves)
    key = what, id(function), tree, shapes, jax.config.jax_enable_x64  # type: ignore[attr-defined]
    if key not in known:
        known[key] = function, make()  # the function too, so that no other one gets its id
    return known[key][1]


@dataclasses.dataclass(frozen=True)
class NoiseStructure:
    """The structure of a problem's noise, and how it is known.

    additive     g does not depend on x
    diagonal     n = m, g is diagonal and g_ii depends on x_i alone
    scalar       one channel
    commutative  (∂g_k/∂x) g_j = (∂g_j/∂x) g_k for all channels j, k (follows from each of the above)
    general      none of these
    """

    kinds: tuple[str, ...]
    known: str

    def implies(self, kind: str) -> bool:
        return kind == "general" or kind in self.kinds

    @property
    def kind(self) -> str:
        """The most special name that fits."""
        return next((kind for kind in STRUCTURES if kind in self.kinds), "general")

    def __str__(self) -> str:
        return f"{self.kind} ({self.known})"


class Recommended(NamedTuple):
    """The default method of a problem, and why."""

    method: str
    reason: str
    options: Mapping[str, Any] = {}


class Fitness(NamedTuple):
    """Which states the equations of a problem allow.

    allows        (t, x, params) -> bool, for a state whose components come first in x
    unfit         what became of a path in another state, in words
    takes_params  whether params decide on it
    """

    allows: Callable[..., Any]
    unfit: str
    takes_params: bool


conversions: dict[tuple[type, type], Callable[..., tuple[Problem, str] | None]] = {}  # filled by problems.lowering


def kind_named(name: str) -> type:
    """Return a class that the table of conversions leads to: kinds of problems import nothing of each other."""
    return next(kind for _, kind in conversions if kind.__name__ == name)


def snapshot(problem: Any) -> Any:
    """Copy a problem without its cached facts: those about functions that read values from outside may be wrong now."""
    if not dataclasses.is_dataclass(problem):
        return problem
    fields = {field.name: getattr(problem, field.name) for field in dataclasses.fields(problem) if field.init}
    kind: Any = type(problem)
    copy = kind(**{name: snapshot(v) if isinstance(v, Problem) else v for name, v in fields.items()})
    return as_snapshot(copy, problem)


def as_snapshot(copy: Any, problem: Any) -> Any:
    """A copy just made of a problem, told that it is one, with the traces of that problem as the earlier ones; so are
    the problems inside it."""
    for field in dataclasses.fields(copy):
        if isinstance(inner := getattr(copy, field.name), Problem):
            as_snapshot(inner, getattr(problem, field.name))
    vars(copy)["is_snapshot"] = True
    earlier: dict[str, TracedFunction] = vars(problem).get("traced_functions", {})
    for name, look in copy.traced_functions.items():
        copy.traced_functions[name] = dataclasses.replace(look, earlier=earlier.get(name))
    return copy


class AsNow(functools.cached_property):
    """A cached property of a problem that is worked out again where the problem's functions have changed since: they
    may read values from outside. In the copies that runs make for themselves they cannot, and functions that read
    values being differentiated live no longer than the differentiation."""

    def __get__(self, problem: Any, owner: Any = None) -> Any:
        if problem is None or problem.is_snapshot or not problem.traced_functions:
            return super().__get__(problem, owner)
        traces = {name: look.trace_again() for name, look in problem.traced_functions.items()}
        if any(isinstance(value, jax.core.Tracer) for trace in traces.values() for value in trace.consts):
            return super().__get__(problem, owner)
        now = {name: fingerprint(trace) for name, trace in traces.items()}
        then = vars(problem).setdefault(
            "digests", {name: look.digest for name, look in problem.traced_functions.items()}
        )
        if now != then:
            vars(problem).update({"digests": now, self.attrname: getattr(snapshot(problem), str(self.attrname))})
        return super().__get__(problem, owner)

    def __set__(self, problem: Any, value: Any) -> None:
        """Store a value; with it, Python asks __get__ even where one is stored."""
        vars(problem)[self.attrname] = value


class Problem(ABC):
    """A frozen record of functions and numbers; concrete classes are frozen dataclasses compared by identity.

    n, m     components of the state and channels of the noise
    names    names of the components and units, as given; `components` and `component_units` are derived from them
    params   a pytree, passed to those functions that have a place for it after their other arguments (problems.calling)
    """

    n: int
    m: int
    names: Any
    units: Any
    params: Any
    start: Any
    calculus: str
    made_by: ClassVar[str] = ""  # the call that makes such a problem from others, where it is not its class
    further_structures: ClassVar[tuple[str, ...]] = ()  # the kinds that its noise_structure may have beyond STRUCTURES
    records: ClassVar[tuple[str, ...]] = ()  # the names of its records of what is worked out about it
    step_facts: Any = None  # what a step takes from the values of start and params, as plain values; None: all of them
    unsolved: ClassVar[str] = "whose implicit equations Newton did not solve"  # why paths stopped, in words
    failure_suspect: ClassVar[str] = ""  # what in such a problem most likely makes paths fail, in words
    fitness: Fitness | None = None  # which finite states its equations allow; None: all
    further_lines: Any = ()  # what else a person who prints such a problem should see: lines of (what, words)
    failure_advice: ClassVar[str] = ""  # further reasons why paths of such a problem may fail, in words
    joints: Any = None  # the joints of a mechanical system
    periods: Any = None  # the period of each coordinate that is wrapped
    held: Any = ()  # components that change at the ends of steps alone, so that nothing happens to them within a step
    writes_out: bool = False  # whether its steps write out the elimination of few unknowns among many
    mostly_zeros: bool = False  # whether the matrices of its steps are, so that written out they are short
    clocks: tuple[int, ...] | None = None  # the components that are the time, where jumps in time come from these alone
    is_snapshot = False  # whether it is a copy that a run made for itself

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        cls.__repr__ = Problem.__repr__  # type: ignore[method-assign]  # or dataclass writes one with every field

    def __repr__(self) -> str:
        return describing.as_text(*describing.of_problem(self))

    def _repr_html_(self) -> str:
        return describing.as_html(*describing.of_problem(self))

    @property
    @abstractmethod
    def noise_structure(self) -> NoiseStructure:
        """The structure of the noise, and how it is known."""

    @property
    def default_names(self) -> Sequence[str]:
        """The names of the components where none are given."""
        return tuple(f"x{i}" for i in range(self.n))

    @functools.cached_property
    def components(self) -> tuple[str, ...]:
        """The names of the components that a run shows."""
        return component_names(self.names, self.default_names)

    @functools.cached_property
    def component_units(self) -> dict[str, str] | None:
        """Component (or "time") -> unit."""
        return component_units(self.units, self.components, self.param_names)

    @property
    def param_names(self) -> tuple[str, ...]:
        """The names of the parameters as a sweep spells them: "rate", or "spring.rate" for nested ones."""
        places, _ = jax.tree_util.tree_flatten_with_path(self.params)
        spelled = (jax.tree_util.keystr(place, simple=True, separator=".") for place, _ in places)
        return tuple(name for name in spelled if name)

    @functools.cached_property
    def start_source(self) -> Source:
        """Where the starts of the paths come from."""
        return checked_source("start", self.start)

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        """The initial values of these paths, (len(paths), n)."""
        return self.start_source.draw(rng, paths, "start").reshape(len(paths), self.n)

    @property
    def start_parts(self) -> tuple[Source, ...]:
        """The sources of a start, part by part."""
        return self.start_source.parts

    @property
    def has_random_start(self) -> bool:
        """Whether starts differ from path to path."""
        return any(part.is_random for part in self.start_parts)

    @functools.cached_property
    def param_sources(self) -> tuple[Source, ...]:
        """Where the parameters come from, leaf by leaf."""
        return tuple(jax.tree.leaves(sources_in(self.params)))

    @property
    def has_random_params(self) -> bool:
        """Whether some parameter differs from path to path."""
        return any(source.is_random for source in self.param_sources)

    @property
    def start_from_normals(self) -> FromNormals | None:
        """The start as a function of normal numbers, where draw_start gives its values as they are."""
        return None

    @property
    def recommended(self) -> Recommended:
        """The method to take where none is named."""
        raise TypeError(f"problem: no method is recommended for {type(self).__name__}; name one")

    @property
    def stable_methods(self) -> tuple[str, ...]:
        """Implicit methods for when its time scales are far apart, those of higher order first."""
        return ()

    def without_noise(self, calculus: str | None = None) -> Any:
        """The same equations with the noise set to zero; an SDE in a calculus of choice."""
        raise TypeError(f"problem: a {type(self).__name__} has no form without noise; give the problem inside it")

    def changed(self, **changes: Any) -> Problem:
        """A copy with another start or other params, all of them: params={**problem.params, "k": 2.0} changes one."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def lower(self, kind: type) -> tuple[Problem, str] | None:
        """This problem as one of another class with the same law, and the conversion in words; None if impossible."""
        lowered: dict[type, Any] = vars(self).setdefault("lowered", {})
        if kind not in lowered:
            rows = (conversions[own, kind] for own in type(self).__mro__ if (own, kind) in conversions)
            convert = next(rows, None)
            lowered[kind] = None if convert is None else convert(self)
        return lowered[kind]

    def before_run(self, t: float) -> tuple[str, ...]:
        """Remarks for the record of a run from time t; raises ValueError where no run is possible."""
        return ()

    @functools.cached_property
    def traced_functions(self) -> dict[str, TracedFunction]:
        """The traces of its functions, by the names of its fields, taken when the problem was lowered."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """The state that is pickled, without traces."""
        return {name: value for name, value in self.__dict__.items() if name != "traced_functions"}

    def rates_and_noise(self) -> tuple[Any, Any]:
        """The functions of (t, x, params) through which time may enter the equations."""
        return self.f, self.g  # type: ignore[attr-defined]

    def check_step(self, method: Any, h: float) -> None:  # noqa: B027
        """Warn where a method distorts this problem with steps up to h; raise ValueError where it cannot work."""

    def example_start(self) -> np.ndarray:
        """One initial value, (n,)."""
        return self.draw_start(np.random.default_rng(0), range(1))[0]

    def flat_start(self, start: Any) -> jax.Array:
        """A start in the user's form as the vector (n,) that methods start from."""
        return jnp.reshape(jnp.asarray(start, float), (self.n,))

    def example_params(self) -> Any:
        """The parameters of one path."""
        return jax.tree.map(lambda source: source.example("params"), sources_in(self.params))

    # --- how the components that a run shows move: dx_i = mean_rates_i dt + noise_rows_i dW ---------------------------

    def noise_rows(self, t, x: jax.Array, params, components: Sequence[int]) -> tuple[jax.Array | None, ...]:
        """How noise reaches each of these components: the coefficients of the channels, a vector whose zeros may be
        left out, or None where it is not a component of a diffusion (an acceleration, an algebraic component)."""
        return (None,) * len(components)

    def mean_rates(self, t, x: jax.Array, params, components: Sequence[int]) -> tuple[jax.Array | None, ...]:
        """The drift of each of these components, or None where `noise_rows` has none."""
        return (None,) * len(components)

    def noise_along(self, t, x: jax.Array, params, weights: jax.Array, components: Sequence[int]) -> jax.Array:
        """Σ_i weights_i (row i), (m,): what each channel does to a function whose gradient is `weights` (n,), zero for
        all but these components."""
        rows: Any = self.noise_rows(t, x, params, components)
        return sum((weights[i] * row for i, row in zip(components, rows, strict=True)), jnp.zeros(self.m, x.dtype))

    def noise_push(self, t, x: jax.Array, params, W: jax.Array) -> jax.Array:
        """The effect of an increment W (m,) on every component, (n,); zero for those without a row."""
        rows = self.noise_rows(t, x, params, range(self.n))
        return jnp.stack([jnp.zeros((), x.dtype) if row is None else row @ W for row in rows])

    def is_broken(self, x: jax.Array, y: jax.Array) -> jax.Array | None:
        """Whether a path jumped in a step from x to y, with nothing known between them; None where paths never jump."""
        return None

    def reach(self, component: int) -> tuple[float, float]:
        """The values between which a component stays."""
        return -np.inf, np.inf

    def jumps(self, component: int) -> str:
        """Why a component jumps within a step, hiding its crossings, in words; empty where it does not."""
        return ""


def derive(problem: Problem, *names: str) -> None:
    """Compute these attributes of a problem now, so that wrong arguments are refused when it is made."""
    for name in names:
        getattr(problem, name)


def param_units(problem: Problem) -> dict[str, str]:
    """Return parameter -> unit, for those whose units were given."""
    own = innermost(problem)
    units = own.units if isinstance(own.units, Mapping) else {}
    return {name: units[name] for name in own.param_names if name in units and name not in own.components}


def has_listed_start(problem: Problem) -> bool:
    """Return whether some of a start is listed path by path."""
    return any(part.is_listed for part in problem.start_parts)


def differs_from_path_to_path(problem: Problem) -> bool:
    """Return whether starts or parameters differ from path to path."""
    return problem.has_random_start or problem.has_random_params


def example_arguments(problem: Problem) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return t, x and params of one path, to trace functions with."""
    return np.zeros(()), np.asarray(problem.example_start(), float), problem.example_params()


def sample_params(problem: Problem, count: int) -> tuple[Any, Any]:
    """Return parameters of `count` paths, and the axes of jax.vmap: 0 for leaves that differ between paths."""
    rng, sources = np.random.default_rng(0), sources_in(problem.params)

    def sample(source: Source) -> Any:
        return source.spread(rng, count, "params") if source.is_random else source.argument

    return jax.tree.map(sample, sources), jax.tree.map(lambda source: 0 if source.is_random else None, sources)


def innermost(problem: Any) -> Any:
    """Return the problem that others, such as measurements and walls, are made around."""
    while isinstance(problem, Around):
        problem = problem.problem
    return problem


def written_as(problem: Problem, kind: type) -> Any:
    """Return a problem where it is of a class, else its form of that class with the same law; None if there is none."""
    if isinstance(problem, kind):
        return problem
    lowered = problem.lower(kind)
    return None if lowered is None else lowered[0]


@dataclasses.dataclass(frozen=True, eq=False)
class Around(Problem):
    """A problem made of another one, with the same noise, calculus and parameters."""

    problem: Any

    @property
    def start_source(self) -> Source:
        """Where the starts of the problem inside come from."""
        return self.problem.start_source

    @property
    def start_parts(self) -> tuple[Source, ...]:
        return self.problem.start_parts

    def changed(self, **changes: Any) -> Problem:
        return dataclasses.replace(self, problem=self.problem.changed(**changes))

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.problem.m

    @property
    def params(self) -> Any:
        return self.problem.params

    @property
    def calculus(self) -> str:  # type: ignore[override]
        return self.problem.calculus

    @property
    def noise_structure(self) -> NoiseStructure:
        return self.problem.noise_structure

    @property
    def failure_advice(self) -> str:  # type: ignore[override]
        return self.problem.failure_advice

    def before_run(self, t: float) -> tuple[str, ...]:
        return self.problem.before_run(t)


def check_params(params: Any) -> None:
    """Refuse parameters that are not numbers, and NaN among them (infinity may be meant: a wall, a switch)."""
    for place, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        name, source = f"params{jax.tree_util.keystr(place)}", source_of(leaf)
        if isinstance(leaf, jax.core.Tracer):
            continue
        if hasattr(leaf, "to_dict") and hasattr(leaf, "index"):
            spelled = "series.to_dict()" if leaf.ndim == 1 else "frame.iloc[0].to_dict()"
            raise TypeError(
                f"{name}: a {type(leaf).__name__} of pandas is one array to JAX, whose functions do not see its names. "
                f"Give a dict: params={spelled}"
            )
        if source.is_random and not source.is_listed:
            drawn_example(name, source)
            continue
        values = source.values if isinstance(source, PerPath) else np.asarray(leaf)
        if values.dtype.kind not in "biufc":
            raise TypeError(
                f"{name}: expected numbers, PerPath values or a frozen scipy.stats distribution, got {leaf!r}. "
                "Values that are not numbers are best captured by the functions."
            )
        if values.dtype.kind in "fc" and np.any(np.isnan(values)):
            raise ValueError(f"{name}: is NaN{_which(values) if source.is_listed else ''}. Give numbers.")


def _which(values: np.ndarray) -> str:
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    return f" for {len(bad)} of {len(values)} paths, first for path {bad[0]}"


def checked_source(name: str, start: Any) -> Source:
    """Return the source of a start that is a number or a vector.

    Parameters
    ----------
    name : str
        The name with which errors begin.
    start : number, array, distribution, function or PerPath
        The user's argument.

    Returns
    -------
    Source
    """
    source = source_of(start)
    if not source.is_random:
        return Fixed(fixed_value(name, source.argument))
    drawn_example(name, source)
    return source


def drawn_example(name: str, source: Source) -> np.ndarray:
    """Return the first draw of a start that differs from path to path; listed values are all checked."""
    for part in source.parts:
        if isinstance(part, PerPath) and not np.all(np.isfinite(part.values)):
            raise ValueError(f"{name}: not finite{_which(part.values)}. Give finite values.")
    try:
        return source.example(name)
    except TypeError as error:
        raise TypeError(f"{name}: expected a function {name}(rng, size) -> (size, ...); {error}") from error


def expect_problem(problem: Any) -> None:
    """Refuse an argument of the user that is not a problem."""
    if not isinstance(problem, Problem):
        hint, home = "", getattr(problem, "__module__", getattr(problem, "__name__", "")) or ""
        if isinstance(problem, str) or hasattr(problem, "accepts"):
            hint = ". The problem comes first, then the method"
        elif home.startswith("stodyn.models."):
            name = home.rpartition(".")[2] if inspect.ismodule(problem) else problem.__name__
            hint = f". Call the function that makes it: {home.replace('stodyn', 'sd', 1)}.{name}()"
        elif callable(problem):
            hint = ". Write equations as a problem: stodyn.SDE(drift, diffusion, start)"
        elif isinstance(problem, (list, tuple)):
            hint = ". Give one problem; stodyn.sweep runs one for several values of its params"
        raise TypeError(f"problem: expected a problem such as stodyn.SDE, got {problem!r}{hint}")


def returned_shape(
    problem: Problem, name: str, function: Callable, *arguments: tuple[str, Any]
) -> jax.ShapeDtypeStruct:
    """Return the shape of the value that a user's function returns; errors are in the user's terms.

    The trace of a function that stands in a field of the problem is stored among its `traced_functions`.

    Parameters
    ----------
    problem : Problem
        The problem that the function belongs to.
    name : str
        The name of the function, with which errors begin.
    function : callable
        The user's function.
    *arguments : (str, array)
        The names and examples of its arguments; params are added as problems.calling says.

    Returns
    -------
    jax.ShapeDtypeStruct

    Raises
    ------
    TypeError, MemoryError
        If the function cannot be traced, does not return one real array, or needs too much memory.
    """
    words = [word for word, _ in arguments]
    if not callable(function):
        raise TypeError(
            f"{name}: expected a function {name}({', '.join(words)}[, params]), got {function!r}"
            f"{_as_function(name, function, arguments)}"
        )
    check_call(name, function, words, problem.params)
    examples: list[Any] = [np.asarray(example) for _, example in arguments]
    if takes_params(function, len(words), problem.params):
        examples.append({} if problem.params is None else problem.example_params())
    wanted = f"{name}({', '.join([*words, 'params'][: len(examples)])})"
    _warn_of_another_order(name, function, words, wanted)
    try:
        trace, result = shared("trace", function, lambda: anew(function)(*examples), examples)
    except MemoryError as error:
        raise MemoryError(
            f"{name}: {wanted} needs more memory than the machine has ({first_line(error)}). Return "
            "sd.diagonal(vector) in place of a matrix with one channel per component, or sd.sparse(...)."
        ) from error
    except Exception as error:
        if _is_of_operators(error):
            raise TypeError(f"{name}: {error}") from error
        raise TypeError(
            f"{name}: {wanted} could not be traced by JAX ({in_words(error)}). "
            f"{_advice(error, arguments, examples, getattr(problem, 'names', None) or ())}"
        ) from error
    check_bounds(trace, f"{name}: {wanted}")
    if not isinstance(result, jax.ShapeDtypeStruct):
        if result is None:
            raise TypeError(f"{name}: {wanted} returned None, expected one array. Is its `return` missing?")
        raise TypeError(
            f"{name}: {wanted} returned a {type(result).__name__}, expected one array. Wrap it: jnp.array([...])."
        )
    if not jnp.issubdtype(result.dtype, jnp.floating) and not jnp.issubdtype(result.dtype, jnp.integer):
        raise TypeError(f"{name}: {wanted} returned {result.dtype} values, expected real numbers.")
    if dataclasses.is_dataclass(problem) and name.partition("[")[0] in {f.name for f in dataclasses.fields(problem)}:
        problem.traced_functions[name] = TracedFunction(function, tuple(examples), trace)
    else:  # those of the problem itself are compared by every run
        check_repeats(name, trace, anew(function)(*examples)[0])
    return result


def _as_function(name: str, constant: Any, arguments: Sequence[tuple[str, Any]]) -> str:
    """Return how to write a function that returns a constant, as a hint; "" where it is not a number."""
    if isinstance(constant, (np.ndarray, jax.Array)) and constant.ndim:
        return f". Write it as a function: lambda {', '.join(word for word, _ in arguments)}: array"
    if isinstance(constant, bool) or not isinstance(constant, (int, float, np.number)):
        return ""
    shape, value = np.shape(arguments[-1][1]), f"{constant:g}"
    if shape and name in ("diffusion", "noise"):
        value = f"jnp.array([[{value}]])" if shape == (1,) else f"jnp.full(({shape[0]}, 1), {value})"
    return f". Write it as a function: lambda {', '.join(word for word, _ in arguments)}: {value}"


def noise_hint(shape: tuple[int, ...], n: int, diagonal: str = "sd.diagonal", number: str = "start=1.0") -> str:
    """Return how to write noise of n rows, for a user's function that returned noise of another shape.

    `diagonal` names the function that makes a diagonal matrix, and `number` tells how to write a start for which the
    function may return a number; "" where there is none.
    """
    if n == 1 and shape in ((), (1,)):
        value = "g" if shape == () else "g[0]"
        scalar = f", or give numbers as start, such as {number}" if number else ""
        return f": for the value g write jnp.array([[{value}]]){scalar}"
    if shape == ():
        return (
            f": for the value g write jnp.full(({n}, 1), g) for one channel that acts on all rows, "
            f"{diagonal}(jnp.full({n}, g)) for one channel per row"
        )
    if shape == (n,):
        return f": write [:, None] for one channel, {diagonal}(...) for one channel per row"
    return ": write .T" if len(shape) == 2 and shape[1] == n else ""


MEANT = {
    "t": ("t", "time"),
    "x": ("x", "y", "z", "q", "u", "state", "position"),
    "q": ("q", "x", "position"),
    "v": ("v", "velocity", "xdot", "dx"),
    "p": ("p", "momentum"),
    "params": tuple(name for name in PARAMS_NAMES if name != "p"),
}  # names that users give to arguments, by what stands in their place


_warned_of: weakref.WeakSet = weakref.WeakSet()  # the code of functions whose user has seen an AnotherOrder


def _warn_of_another_order(name: str, function: Callable, words: Sequence[str], wanted: str) -> None:
    """Warn where an argument has a name that is known for another place: drift(x, t) is called as drift(t, x).

    A function is warned of once, however many copies are made of its problem.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    places = [*words, "params"]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][: len(places)]
    right = [word for word, called in zip(places, names, strict=False) if called.lower() in MEANT.get(word, ())]
    for here, called in enumerate(names):
        known = (*places, "v") if places[here] == "params" else places
        meant = [word for word in known if word not in right and called.lower() in MEANT.get(word, ())]
        if meant and places[here] not in meant:
            code = getattr(inspect.unwrap(function), "__code__", None)  # of all bound methods, and of what wraps it
            if code not in _warned_of:
                if code is not None:
                    _warned_of.add(code)
                tell(
                    f"{name}: it is called as {wanted}, but its arguments are named ({', '.join(names)}), so that "
                    f"{called!r} receives {places[here]}. Change their order, or rename them.",
                    AnotherOrder,
                )
            return


def _is_of_operators(error: BaseException) -> bool:
    """Whether an error was raised by sd.sparse, sd.diagonal or sd.product, and says itself what is wrong."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") == "stodyn.problems.operators"


def _as_tuple(words: Any) -> tuple:
    return tuple(words) if isinstance(words, Iterable) and not isinstance(words, str) else (words,)


def _advice(
    error: Exception, arguments: tuple[tuple[str, Any], ...], examples: Sequence[Any], names: Sequence[str]
) -> str:
    if by_number := unnamed_entry(error, names):
        return by_number
    is_about_params = isinstance(error, (KeyError, AttributeError)) or "dict" in str(error)
    if len(examples) > len(arguments) and isinstance(examples[-1], dict) and not examples[-1] and is_about_params:
        return "The problem has no params, so the function gets an empty dict: give params=, or leave the argument out."
    if "scipy.sparse" in str(error):
        return "For a sparse matrix return sd.sparse(A.row, A.col, A.data, A.shape), with A in SciPy's COO format."
    if "stodyn.problems.operators" in str(error):
        return (
            "sd.diagonal, sd.sparse and sd.product are for the noise matrix of an SDE or SDAE; return an array here. "
            "A Hamiltonian with a bath on each coordinate takes h=lambda t, q, p: -sigma * q."
        )
    if len(examples) > len(arguments) and (hint := missing_entry(error, examples[-1])):
        return hint
    lists = [name for name, value in _entries(examples[len(arguments) :]) if isinstance(value, list)]
    if lists and isinstance(error, TypeError) and "list" in str(error):
        return (
            f"params[{lists[0]!r}] is a list: give numpy.array([...]) for a vector, or stodyn.PerPath([...]) for one "
            "value per path."
        )
    shapes = ", ".join(f"{word} has shape {np.shape(example)}" for word, example in arguments if word != "t")
    return way_out(error) or f"It was called with the arguments of a run: {shapes}; x is a number where start is one."


def _entries(params: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """The entries of params, where they are a mapping."""
    return params[0].items() if params and isinstance(params[0], Mapping) else ()


def machine_memory() -> float:
    """Return the bytes of memory that this machine has, or that this process may still take under ulimit -v."""
    if not hasattr(os, "sysconf"):
        return np.inf
    page = os.sysconf("SC_PAGE_SIZE")
    there = float(page * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            in_use = page * int(Path("/proc/self/statm").read_text().split()[0])
            there = min(there, float(max(limit - in_use, 0)))
        with open("/sys/fs/cgroup/memory.max") as limit_of_group:
            there = min(there, float(limit_of_group.read()))  # "max" where there is no limit
    return there


def component_names(names: Any, default: Sequence[str]) -> tuple[str, ...]:
    """Return the user's names after a check, or the default ones.

    Parameters
    ----------
    names : sequence of str or None
        The user's argument.
    default : sequence of str
        The names without that argument, one per component.

    Returns
    -------
    tuple of str

    Raises
    ------
    ValueError
        If there is not one name for each component, or two are equal.
    """
    components = tuple(default) if names is None else _as_tuple(names)
    if (
        len(components) != len(default)
        or len(set(components)) != len(components)
        or not set(map(type, components)) <= {str}
    ):
        raise ValueError(f"names: expected {len(default)} different names, one per component, got {components}")
    return components


def component_units(units: Any, names: Sequence[str], params: Sequence[str] = ()) -> dict[str, str] | None:
    """Return component -> unit, from a mapping, which may have units of parameters too, or one entry per component.

    Parameters
    ----------
    units : mapping, sequence or None
        The user's argument.
    names, params : sequences of str
        The names of the components and of the parameters.

    Returns
    -------
    dict or None

    Raises
    ------
    ValueError
        If a component is unknown, entries are missing, or a unit is not a word.
    """
    if units is None:
        return None
    if not isinstance(units, Mapping):
        units = _as_tuple(units)
        if len(units) != len(names):
            raise ValueError(f"units: expected one per component, {len(names)} in all, got {units!r}")
        units = dict(zip(names, units, strict=True))
    shown = {*names, "time"}
    strangers = sorted(set(units) - shown - {*params})
    if strangers:
        others = f", the params {', '.join(params)}" if params else ""
        raise ValueError(
            f"units: unknown component(s) {', '.join(map(repr, strangers))}; "
            f"the components are {', '.join(names)}{others}; 'time' may have a unit too"
        )
    if not all(isinstance(unit, str) for unit in units.values()):
        raise ValueError(f"units: expected words such as 'm/s', got {dict(units)}")
    return {name: unit for name, unit in units.items() if name in shown}


def fixed_value(name: str, value: Any) -> np.ndarray:
    """Return a number or a vector of finite numbers as an array.

    Parameters
    ----------
    name : str
        The name with which errors begin.
    value : number or array
        The user's argument.

    Returns
    -------
    array () or (n,)

    Raises
    ------
    TypeError, ValueError
        If it is neither, or not finite.
    """
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{name}: is a value that JAX is tracing, but has to be a number here: problems are made outside of jit, "
            f"vmap and grad. stodyn.path, one path with known noise, works inside all of them: give it {name}="
        )
    try:
        array = np.asarray(value)
        x = array.astype(float) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        x = None
    if x is None:
        raise TypeError(
            f"{name}: expected a number, a vector, a distribution, {name}(rng, size) or PerPath(values), got {value!r}"
            f"{'. Give a frozen distribution, such as scipy.stats.norm(0, 1)' if hasattr(value, 'icdf') else ''}"
        )
    if x.ndim > 1:
        raise ValueError(
            f"{name}: expected a number or a vector, got shape {x.shape}. For one row per path give "
            f"{name}=stodyn.PerPath(values)."
        )
    if not np.all(np.isfinite(x)):
        raise ValueError(f"{name}: not finite: {x}. Give finite values.")
    return x
