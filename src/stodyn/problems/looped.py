"""A plant in a loop with sensors and discrete parts: controllers, estimators, filters.

An input is a parameter that a part writes: the plant is any problem whose params hold it, and between samples its steps
are made with the value held. At one instant, in this order: the plant's step ends; delayed readings and writes that are
due now arrive; sensors read, as listed; parts act, as listed, each seeing what earlier ones did at this instant; writes
without delay are made; statistics look.

Samples fall on steps by number. Times are read as decimal fractions; the tick is their greatest common divisor, and dt
must divide it. Steps of different lengths must end at all instants of samples and arrivals, `loop.times(t)`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval

from stodyn.arguments import checks_arguments
from stodyn.hints import Reals, is_number
from stodyn.noise import path_normals, sfc64
from stodyn.noise.from_normals import FromNormals
from stodyn.noise.inertial import Inertial
from stodyn.noise.source import ByPath
from stodyn.noise.uniforms import Uniforms
from stodyn.numerics.bounds import check_bounds
from stodyn.numerics.facts.degree import has_jumps_in
from stodyn.numerics.running_sums import running_sums
from stodyn.numerics.tracing_errors import in_words, user_place
from stodyn.problems.calling import call
from stodyn.problems.contract import TracedFunction, anew, component_names, expect_problem, param_units
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.measured import Measured
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Jitter, Sensor, Timed, Times, exact
from stodyn.telling import tell
from stodyn.warnings import NeverArrives

KEYS = "~sensor keys"  # the last of all names in params, so that the draws of others stay as they are
HOLDS = ("zero", "first")
NEAR = 1e-9  # of the shorter of the steps beside it: how near to an instant a step ends there
LEAST_SPACINGS = 64  # of floating-point numbers in a tick that is counted from the times of steps
LEAST_SINGLE_SPACINGS = 8  # of numbers of single precision in a step, and in a tick that is counted so
MOST_TICKS = 10**7  # in the shortest period; more come of times that were rounded, such as 1/3
INPUTS: dict[type, Callable[[Any, list[str]], Any]] = {}  # kind of problem -> the same with inputs among its params
SLOPE, SINCE = "~slope of {}", "~since when {}"  # params of a plant whose input is a straight line between samples
IN_TIME: dict[type, dict[str, int]] = {  # kinds of plants that take such lines: their functions, and the arguments of
    SDE: {"drift": 2, "diffusion": 2},  # these before params, of which time is the first
    SDAE: {"drift": 2, "diffusion": 2},
    Mechanical: {"force": 3, "noise": 3, "mass": 3, "constraints": 2},
    Hamiltonian: {"H": 3, "h": 3, "force": 3, "noise": 3},
}


@dataclasses.dataclass(frozen=True, eq=False)
class True_:
    """A component of the state as a part sees it without any sensor; made by `true`."""

    name: str


@checks_arguments
def true(name: str) -> True_:
    """Let a part read a component of the state itself, as no sensor could.

    Parameters
    ----------
    name : str
        The component.

    Returns
    -------
    True_

    Examples
    --------
    >>> import stodyn as sd
    >>> position = sd.true("x")
    """
    return True_(name)


@dataclasses.dataclass(frozen=True, eq=False)
class Arrived:
    """Whether a reading arrives as a part acts; made by `parts.arrived`."""

    name: str

    @property
    def key(self) -> str:
        """The name under which a part sees it."""
        return f"{self.name} arrived"


@checks_arguments
def arrived(name: str) -> Arrived:
    """Let a part know whether a reading arrives at the instant at which it acts: 1, or 0 where it is lost or not due.

    The part sees it as seen["y arrived"].

    Parameters
    ----------
    name : str
        The sensor, which has no jitter.

    Returns
    -------
    Arrived

    Examples
    --------
    >>> import stodyn as sd
    >>> def update(t, own, seen, params):
    ...     estimate = own["x"] + 0.5 * seen["y arrived"] * (seen["y"] - own["x"])
    ...     return {"x": estimate}, estimate
    >>> part = sd.Part("filter", 0.1, update, reads=("y", sd.parts.arrived("y")), state={"x": 0.0})
    """
    return Arrived(name)


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Part(Timed):
    """A discrete part of a loop: a controller, an estimator, a filter, run at its own rate.

    Parameters
    ----------
    name : str
        The name of the part.
    every : float
        The time between its runs.
    update : callable
        update(t, own, seen, params) -> (own, out), plain JAX: its own state and what it has read, by name, give its
        next state and its output.
    reads : str, true(...), parts.arrived(...) or a sequence of these
        Names of sensors and of other parts; components of the state only by true("x"), and whether a reading arrives at
        this instant by parts.arrived("y").
    writes : str or sequence of str, optional
        The params of the plant that it sets; without, its output can be read by other parts alone.
    state : pytree, optional
        Its own state at the start.
    phase, delay : float
        The time of the first run after the start, and how late its output takes effect.
    hold : "zero" or "first"
        Whether the plant sees the last output, or the straight line through the last two, which is for an SDE, an SDAE
        (also from a netlist), a Mechanical or a Hamiltonian system, with no noise or walls put around it.
    jitter : Jitter, optional
        Runs about their times.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used.

    Examples
    --------
    >>> import stodyn as sd
    >>> def update(t, own, seen, params):
    ...     return own, -2 * seen["y"]
    >>> law = sd.Part("law", every=0.01, reads="y", writes="u", update=update)
    """

    name: str
    every: Any
    update: Callable
    reads: tuple[Any, ...]
    writes: tuple[str, ...]
    state: Any
    phase: Any
    delay: Any
    hold: str
    jitter: Jitter | None

    def __init__(
        self,
        name: str,
        every: float,
        update: Callable,
        reads: Any = (),
        writes: Any = (),
        *,
        state: Any = None,
        phase: float = 0,
        delay: float = 0,
        hold: str = "zero",
        jitter: Jitter | None = None,
    ):
        reads = (reads,) if isinstance(reads, str | True_ | Arrived) else tuple(reads)
        writes = (writes,) if isinstance(writes, str) else tuple(writes or ())
        for field, value in list(locals().items()):
            if field != "self":
                object.__setattr__(self, field, value)
        if not callable(update):
            raise TypeError(f"update ({name}): expected a function update(t, own, seen, params), got {update!r}")
        misfit = _other_arguments(update)
        if misfit is not None:
            raise TypeError(
                f"update ({name}): expected a function of four arguments, update(t, own, seen, params), got one of "
                f"{misfit}; it may leave some of them unused"
            )
        if hold not in HOLDS:
            raise ValueError(f"hold ({name}): expected one of {', '.join(HOLDS)}, got {hold!r}")
        _ = self.times

    @property
    def function_words(self) -> str:
        return f"update ({self.name})"


@dataclasses.dataclass(frozen=True)
class Keys(ByPath):
    """Sixteen bits in each of four numbers, for each path: the key of the random numbers of its sensors."""

    is_random = True

    def of_paths(self, seed: int, first: int, last: int) -> np.ndarray:
        """The keys of the paths from `first` to `last`, which depend on the seed and the path alone."""
        words = sfc64.mixed(path_normals.key(seed, "sensor")[0], np.arange(first, last, dtype=np.uint64))
        return (words[:, None] >> np.arange(0, 64, 16, dtype=np.uint64) & np.uint64(0xFFFF)).astype(float)

    def draw(self, rng, paths, name):
        if isinstance(rng, Uniforms):
            return np.floor(np.asarray(rng.take(len(paths), (4,))) * 65536.0)
        return rng.integers(0, 65536, (len(paths), 4)).astype(float)

    def example(self, name):
        return np.arange(4.0)


class Layout:
    """The shapes of readings, outputs and own states, and their names among the components."""

    def __init__(self, plant: Any, sensors: tuple[Sensor, ...], parts: tuple[Part, ...]):
        self.plant, self.sensors, self.parts = plant, sensors, parts
        self.traces: dict[str, TracedFunction] = {}  # of what sensors read and of updates, by their words
        with jax.enable_x64(True):
            self.params = jax.tree.map(jnp.asarray, plant.example_params())
            x = jnp.asarray(plant.example_start(), float)
            t = jnp.zeros(())
            self.readings = {
                s.name: self._shape(s, functools.partial(s.value, plant), t, x, self.params).shape[0] for s in sensors
            }
            for sensor in sensors:
                self._expect_noise(sensor)
            self.inputs = {name: jnp.shape(self.params[name]) for part in parts for name in part.writes}
            self.own = {part.name: jax.tree.map(lambda v: jnp.asarray(v, float), part.state) for part in parts}
            self.outputs = {part.name: self._written_shape(part) for part in parts if part.writes}
            self._trace_all(t, x)

    def _shape(self, thing: Sensor | Part, function: Callable, *arguments: Any) -> Any:
        """The shape of what a function of a sensor or a part returns; its trace is stored."""
        trace, shape = anew(function)(*arguments)
        check_bounds(trace, thing.function_words)
        self.traces[thing.function_words] = TracedFunction(function, arguments, trace)
        return shape

    def _expect_noise(self, sensor: Sensor) -> None:
        """Refuse noise of another number of readings."""
        if not sensor.recursive:
            return
        count = self.readings[sensor.name]
        white = sensor.recursion(count).white
        size = np.shape(white(self.params))
        if size not in ((), (1,), (count,)):
            raise ValueError(f"noise ({sensor.name}): is of {size[-1]} readings, the sensor has {count}")
        arguments = jnp.zeros(()), self.params
        trace = jax.make_jaxpr(lambda t, params: white(params))(*arguments)
        if any(partial_eval.dce_jaxpr(trace.jaxpr, [True])[1]):
            self.traces[f"noise ({sensor.name})"] = TracedFunction(lambda t, params: white(params), arguments, trace)

    def _trace_all(self, t: Any, x: Any) -> None:
        """The shapes of outputs; a part may read one that comes later, which is looked at first."""
        left = list(self.parts)
        while left:
            known = [part for part in left if self._trace(part, t, x)]
            if not known:
                raise ValueError(_endless([part.name for part in left]))
            left = [part for part in left if part not in known]

    def _written_shape(self, part: Part) -> tuple[int, ...]:
        """The shape of all that a part writes."""
        shapes = [self.inputs[name] for name in part.writes]
        return shapes[0] if len(shapes) == 1 else (sum(math.prod(shape) for shape in shapes),)

    def _trace(self, part: Part, t: Any, x: Any) -> bool:
        """Look at what a part makes of what it reads; returns whether the shapes of that are known."""
        values = {word: jnp.zeros(self.inputs[word]) for word in part.reads if word in self.inputs}
        for name, word in self.reads(part):
            if word == "reading":
                values[name] = jnp.zeros(()) if self.readings[name] == 1 else jnp.zeros(self.readings[name])
            elif word == "true":
                values[name] = x[0]
            elif word == "arrived":
                values[Arrived(name).key] = jnp.ones(())
            elif name in self.outputs:
                values[name] = jnp.zeros(self.outputs[name])
            else:
                return False
        own, out = self._update_shapes(part, t, values)
        own_tree: Any = jax.tree.structure(self.own[part.name])
        if jax.tree.structure(own) != own_tree:
            raise ValueError(
                f"update ({part.name}): expected (own, out) with the same own state as it was given, "
                f"{own_tree}, got {jax.tree.structure(own)}"
            )
        shapes = [np.shape(leaf) for leaf in jax.tree.leaves(self.own[part.name])]
        after = [tuple(leaf.shape) for leaf in jax.tree.leaves(own)]
        if after != shapes:
            raise ValueError(
                f"update ({part.name}): its own state keeps its shapes, {_listed_shapes(shapes)}, got "
                f"{_listed_shapes(after)}"
            )
        self._expect_output(part, out)
        if not part.writes:
            self.outputs[part.name] = tuple(out.shape)
        return True

    def _expect_output(self, part: Part, out: Any) -> None:
        """Refuse an output that is not what a part writes."""
        wanted = {name: self.inputs[name] for name in part.writes}
        each = out if isinstance(out, Mapping) else None
        if len(wanted) > 1 and isinstance(out, tuple | list) and len(out) == len(wanted):
            each = dict(zip(wanted, out, strict=True))
        if each is not None and len(wanted) > 1:
            shapes = {name: tuple(getattr(piece, "shape", ("?",))) for name, piece in each.items()}
            if shapes == wanted:
                return
            actual = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        else:
            shape = getattr(out, "shape", None)
            is_whole = (
                shape is not None and len(wanted) > 1 and math.prod(shape) == sum(map(math.prod, wanted.values()))
            )
            if is_whole or (shape is not None and (not wanted or [tuple(shape)] == list(wanted.values()))):
                return
            actual = f"a {type(out).__name__}" if shape is None else f"one array of the shape {tuple(shape)}"
        words = ", ".join(f"{name!r} of the shape {shape}" for name, shape in wanted.items())
        one = f"writes {words}" if words else "writes nothing, so that its output is one array for other parts"
        raise ValueError(f"update ({part.name}): {one}, but its output has {actual}")

    def _update_shapes(self, part: Part, t: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """The shapes of (own, out); errors are in the user's terms."""
        try:
            both = self._shape(part, part.update, t, self.own[part.name], values, self.params)
        except Exception as error:
            if isinstance(error, IndexError) or user_place(error) is None:  # in words already
                raise
            raise TypeError(
                f"{part.function_words}: could not be traced by JAX ({in_words(error)}); of `seen` it has "
                f"{', '.join(values) or 'nothing'}, of `params` {', '.join(self.params) or 'nothing'}"
            ) from error
        if not (isinstance(both, tuple) and len(both) == 2):
            raise TypeError(
                f"{part.function_words}: expected it to return (own, out), got a {type(both).__name__}; without a "
                "state of its own, return own as it was given"
            )
        return both

    def reads(self, part: Part) -> list[tuple[str, str]]:
        """What a part reads: (name, "reading", "true", "arrived" or "output")."""
        writers = {name: other.name for other in self.parts for name in other.writes}
        words = []
        for word in part.reads:
            if isinstance(word, True_):
                if word.name not in self.plant.components:
                    raise ValueError(f"reads ({part.name}): there is no component {word.name!r}; there are "
                                     f"{', '.join(self.plant.components)}")  # fmt: skip
                words.append((word.name, "true"))
            elif isinstance(word, Arrived):
                self._expect_regular(part, word.name)
                words.append((word.name, "arrived"))
            elif word in self.readings:
                words.append((word, "reading"))
            elif any(other.name == word for other in self.parts) or word in writers:
                words.append((writers.get(word, word), "output"))
            else:
                hint = f'; the component itself is read as sd.true("{word}")' if word in self.plant.components else ""
                known = ", ".join([*self.readings, *(other.name for other in self.parts)])
                raise ValueError(f"reads ({part.name}): there is no sensor or part {word!r}; there are {known}{hint}")
        return words

    def _expect_regular(self, part: Part, name: str) -> None:
        """Refuse to tell of the arrivals of what is no sensor, or whose instants are drawn."""
        sensor = next((sensor for sensor in self.sensors if sensor.name == name), None)
        if sensor is None:
            known = ", ".join(self.readings) or "none"
            raise ValueError(f"reads ({part.name}): arrived({name!r}) needs a sensor; there are {known}")
        if sensor.jitter is not None:
            raise ValueError(
                f"reads ({part.name}): arrived({name!r}) needs readings at instants that are known; leave jitter out "
                "of the sensor"
            )

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The names of readings, outputs and own states, one for each number."""
        names = [name for sensor, count in self.readings.items() for name in _numbered(sensor, count)]
        for part in self.parts:
            names += [word for name in part.writes for word in _numbered(name, math.prod(self.inputs[name]))]
            if not part.writes:
                names += _numbered(part.name, math.prod(self.outputs[part.name]))
        for part in self.parts:
            for place, leaf in jax.tree_util.tree_flatten_with_path(self.own[part.name])[0]:
                word = ".".join(
                    str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in place
                )
                names += _numbered(f"{part.name}.{word}" if word else f"{part.name}.state", np.size(leaf))
        return tuple(names)


def _connections(part: Part, layout: Layout) -> str:
    """What a part reads and writes, in words."""
    reads = ", ".join(name for name, word in layout.reads(part) if word != "arrived")
    return (f", reads {reads}" if reads else "") + (f", writes {', '.join(part.writes)}" if part.writes else "")


def _endless(names: list[str]) -> str:
    """Say in words that parts read each other, and what to do about it."""
    if len(names) == 1:
        return (
            f"reads ({names[0]}): it reads its own output, whose shape is not known before; keep what it needs next "
            "time in its own state, state={...}, or let it write a parameter of the plant"
        )
    return (
        f"reads: the parts {', '.join(names)} read each other and write nothing, so that the shapes of their outputs "
        "are not known; let one of them write a parameter of the plant"
    )


def _other_arguments(update: Callable) -> str | None:
    """The arguments of a function that cannot be called with four; None where it can, or where nothing is known."""
    try:
        signature = inspect.signature(update)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*range(4))
    except TypeError:
        return str(signature)
    return None


def _listed_shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes)) or "none"


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}{k}" for k in range(count)]


@dataclasses.dataclass(frozen=True, eq=False)
class Looped(Measured):
    """A plant with sensors and parts; made by `with_loop`."""

    sensors: tuple[Sensor, ...]
    parts: tuple[Part, ...]

    made_by = "with_loop"

    @property
    def things(self) -> tuple[Sensor | Part, ...]:
        """All sensors and parts, in this order."""
        return (*self.sensors, *self.parts)

    @functools.cached_property
    def layout(self) -> Layout:
        """The shapes of everything in the loop."""
        return Layout(self.problem, self.sensors, self.parts)

    def around(self, problem: Any) -> Measured:
        """Return the same around another form of the plant: with its components, everything has its shape."""
        other = super().around(problem)
        if problem.components == self.problem.components:
            other.__dict__["layout"] = self.layout
        return other

    @functools.cached_property
    def traced_functions(self) -> dict[str, TracedFunction]:
        return self.layout.traces

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "layout"}

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.problem.n + len(self.layout.names)

    @property
    def params(self) -> Any:
        own = self.problem.params
        return {**own, KEYS: Keys()} if self.draws else own

    @property
    def draws(self) -> bool:
        """Whether anything in the loop besides the plant is random."""
        things = self.things
        return any(thing.jitter is not None for thing in things) or any(
            s.noise is not None or s.bias is not None or s.loss for s in self.sensors
        )

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        x = self.problem.draw_start(rng, paths)
        return np.concatenate([x, np.zeros((len(x), len(self.layout.names)))], axis=1)

    @functools.cached_property
    def start_from_normals(self) -> FromNormals | None:
        plant = self.problem.start_from_normals
        return None if plant is None else plant.followed_by(np.zeros((len(self.layout.names), 0)))

    @functools.cached_property
    def tick(self) -> Fraction:
        """The greatest common divisor of all times of the loop."""
        times = [time for thing in self.things for time in thing.times if time]
        common = math.lcm(*(time.denominator for time in times))
        return Fraction(math.gcd(*(int(time * common) for time in times)), common)

    @functools.cached_property
    def period(self) -> Fraction:
        """The least common multiple of all periods, after which the loop repeats itself."""
        ticks = [int(thing.times.every / self.tick) for thing in self.things]
        return math.lcm(*ticks) * self.tick

    @property
    def jumps_at_samples(self) -> bool:
        """Whether a sensor rounds, or what a sensor or a part does jumps with the state, as a relay does."""
        if any(sensor.resolution is not None for sensor in self.sensors):
            return True
        functions = self.layout.traces.values()
        return any(has_jumps_in(one.trace, one.arguments, range(1, len(one.arguments))) for one in functions)

    def fewest_steps(self, t: tuple[float, float]) -> int:
        """Return the fewest equal steps from one time to another that fall on all samples; refuses times that have none
        worth the name."""
        start, end = (Fraction(repr(float(time))) for time in t)
        ticks = (end - start) / self.tick
        if ticks.denominator > MOST_TICKS:
            raise ValueError(
                f"t: no equal steps from {t[0]:g} to {t[1]:g} fall on the samples, which are {float(self.tick):g} "
                "apart; end at one of them"
            )
        return ticks.numerator

    def expect_dt(self, t: tuple[float, float], dt: float) -> None:
        """Refuse a dt that does not divide the tick or the interval of a run, with some that divide both."""
        start, end = (Fraction(repr(time)) for time in t)
        ticks = (end - start) / self.tick
        steps = float(ticks) * self.steps_per_tick(dt, ticks)
        if abs(steps - round(steps)) > NEAR * steps and ticks.denominator <= MOST_TICKS:
            raise ValueError(
                f"dt: {dt:g} divides {float(self.tick):g}, the tick of the loop, but not the interval ({t[0]:g}, "
                f"{t[1]:g}); give {self._dividing(steps / float(ticks), ticks)}"
            )

    def _dividing(self, count: float, ticks: Fraction | None) -> str:
        """The two longest steps that are not longer than a tick over `count` and divide it, and so many ticks."""
        unit = 1 if ticks is None or ticks.denominator > MOST_TICKS else ticks.denominator
        more = max(math.ceil(count / unit), 1)
        return f"{float(self.tick) / (unit * more):.12g} or {float(self.tick) / (unit * (more + 1)):.12g}"

    def steps_per_tick(self, h: float, ticks: Fraction | None = None) -> int:
        """Return the number of steps in a tick; refuses steps that do not divide it, with some that do, and that divide
        so many ticks too."""
        count = float(self.tick) / h
        if not self.has_ticks_of(h):
            if self.tick < min(thing.times.every for thing in self.things) / MOST_TICKS:
                raise self._no_tick()
            raise ValueError(
                f"dt: {h:g} does not divide {float(self.tick):g}, the tick of {self._times_in_words}; "
                f"give {self._dividing(count, ticks)}"
            )
        return round(count)

    def has_ticks_of(self, h: float) -> bool:
        """Whether a tick is a whole number of steps of this length."""
        count = float(self.tick) / h
        return abs(count - max(round(count), 1)) <= NEAR * max(round(count), 1)

    @property
    def _times_in_words(self) -> str:
        return ", ".join(
            f"{word}={float(value):g} ({thing.name})"
            for thing in self.things
            for word, value in zip(Times._fields, thing.times, strict=True)
            if value
        )

    def _no_tick(self) -> ValueError:
        """An error that says that the times have no common divisor that steps can count, and what to do about it."""
        return ValueError(
            f"dt: as decimals, {self._times_in_words} have no tick worth the name, {float(self.tick):g}; give times "
            "that are no decimals as fractions, such as every=fractions.Fraction(1, 3)"
        )

    def times(self, t: Reals) -> np.ndarray:
        """Return the instants of a run over t = (start, end) at which something happens: a sensor reads, a part runs,
        or what either gave arrives after its delay.

        Steps that differ have to end at all of them: sd.plan(plant, method, at=loop.times) gives such steps.

        Parameters
        ----------
        t : (start, end)
            The interval of the run; phases count from its start.

        Returns
        -------
        array
            The instants, increasing, with both ends of the interval where something happens there.

        Raises
        ------
        ValueError
            If there are jittered sensors or parts, whose instants are drawn for each path.

        Examples
        --------
        >>> import stodyn as sd
        >>> plant = sd.SDE(lambda t, x: -x, None, start=[1.0], names=["x"])
        >>> sd.with_loop(plant, sd.Sensor("y", of="x", every=0.1, delay=0.025)).times((0, 0.2))
        array([0.   , 0.025, 0.1  , 0.125, 0.2  ])
        """
        self._refuse_jitter("times: sensors or parts with jitter act at instants that are drawn for each path")
        if np.shape(t) != (2,) or not all(map(is_number, t)) or not -np.inf < t[0] < t[1] < np.inf:
            raise ValueError(f"t: expected (start, end), such as t=(0, 8), got {t!r}")
        start, end = map(float, t)
        ticks = [ticks for thing in self.things for _, ticks in self._happenings(thing, start, end)]
        return self._at(start, np.unique(np.concatenate(ticks)))

    def _at(self, start: float, ticks: np.ndarray) -> np.ndarray:
        """The times of ticks of a run that begins at `start`."""
        return start + ticks * float(self.tick.numerator) / float(self.tick.denominator)

    def _happenings(self, thing: Sensor | Part, start: float, end: float) -> Iterator[tuple[str, np.ndarray]]:
        """What happens with a sensor or a part in a run, in words, and the ticks of its samples and of their arrivals,
        from number 0 on."""
        last = math.floor((Fraction(repr(end)) - Fraction(repr(start))) / self.tick + Fraction(NEAR))
        every, phase, delay = (int(time / self.tick) for time in thing.times)
        ticks = np.arange(phase, last + 1, every)
        yield "sample" if isinstance(thing, Sensor) else "run", ticks
        if delay:
            yield "arrival", ticks[ticks <= last - delay] + delay

    def _refuse_jitter(self, words: str) -> None:
        name = next((thing.name for thing in self.things if thing.jitter is not None), None)
        if name is not None:
            raise ValueError(f"{words}; leave jitter out of {name}, or give one number as dt")

    def _expect_instants(self, t: float, lengths: np.ndarray) -> None:
        """Refuse steps of different lengths from t on that do not end at all instants, naming the first that is
        missed."""
        self._refuse_jitter("dt: jitter is counted in equal steps, but these steps differ")
        grid = t + running_sums(lengths)
        if float(self.tick) < LEAST_SPACINGS * np.spacing(np.abs(grid[[0, -1]]).max()):
            raise self._no_tick()
        missed = [miss for thing in self.things for miss in self._missed(thing, grid)]
        if missed:
            instant, words, nearest = min(missed, key=lambda miss: miss[0])
            raise ValueError(
                f"dt: {words} falls on t = {instant:.12g}, where no step ends; the nearest end of a step is "
                f"{nearest:.12g}. Let steps end at all of loop.times((start, end)), as "
                f"sd.plan(plant, method, at=loop.times) does, or give one number that divides {float(self.tick):g}"
            )

    def _missed(self, thing: Sensor | Part, grid: np.ndarray) -> Iterator[tuple[float, str, float]]:
        """The first instants of a sensor or a part at which no step ends, what happens there, and the nearest end."""
        lengths = np.diff(grid)
        shortest = np.minimum(np.append(lengths, np.inf), np.append(np.inf, lengths))
        for word, ticks in self._happenings(thing, float(grid[0]), float(grid[-1])):
            instants = self._at(float(grid[0]), ticks)
            after = np.searchsorted(grid, instants).clip(1, len(grid) - 1)
            near = after - (instants - grid[after - 1] < grid[after] - instants)
            nearness = np.minimum(NEAR * shortest[near], 0.25 * float(self.tick))
            off = np.abs(grid[near] - instants) > nearness + 2.0 * np.spacing(np.abs(instants))
            for k in np.flatnonzero(off)[:1]:
                yield instants[k], f"{word} {k} of {thing.name}", grid[near[k]]

    def check_steps(self, method: Any, t: float, h: float | np.ndarray) -> None:
        self.expect_steps(t, h)

    def expect_steps(self, t: float, h: float | np.ndarray) -> None:
        """Refuse steps from t on, of length h or of these lengths, that do not fall on all instants."""
        if np.ndim(h):
            self._expect_instants(t, np.asarray(h))
        else:
            self._expect_short_jitter(self.steps_per_tick(float(h)))

    def expect_single(self, times: np.ndarray, h: float | np.ndarray) -> None:
        """Refuse steps at times that single precision cannot tell apart, so that nothing would act."""
        counted = min(float(np.min(h)), float(self.tick) if np.ndim(h) else math.inf)
        apart = np.spacing(np.float32(np.abs(times[[0, -1]]).max()))
        if counted < LEAST_SINGLE_SPACINGS * apart:
            raise ValueError(
                f'dtype: between {times[0]:g} and {times[-1]:g} numbers of "float32" are {apart:.2g} apart, too far to '
                f'count {counted:g} in a loop. Take "float64", or count the time from the start of the run.'
            )

    def _expect_short_jitter(self, steps: int) -> None:
        """Refuse jitter of half a period or more, with so many steps in a tick."""
        for thing in self.things:
            if thing.jitter is not None:
                period = int(thing.times.every / self.tick) * steps
                if not 2 * thing.jitter.steps < period:
                    raise ValueError(
                        f"jitter ({thing.name}): {thing.jitter.steps} steps either way are half the period of {period} "
                        "steps or more; take shorter steps or fewer of them"
                    )

    @property
    def further_lines(self) -> list[tuple[str, str]]:
        """The sensors and parts, as a person who prints the loop sees them."""
        sensors = [(f"sensor {sensor.name}", f"every {float(sensor.times.every):g}") for sensor in self.sensors]
        parts = [
            (f"part {part.name}", f"every {float(part.times.every):g}{_connections(part, self.layout)}")
            for part in self.parts
        ]
        return [*self.problem.further_lines, *sensors, *parts]

    def before_run(self, t: float) -> tuple[str, ...]:
        words = [f"{thing.name} every {float(thing.times.every):g}" for thing in self.things]
        late = [sensor.name for sensor in self.sensors if sensor.times.phase or sensor.times.delay]
        begun = f"; until {', '.join(late)} has read, it shows the start without noise" if late else ""
        loop = f"loop: {', '.join(words)}; tick {float(self.tick):g}{begun}"
        return (*self.problem.before_run(t), loop, *(line for sensor in self.sensors for line in _bands(sensor)))

    def tell_what_is_late(self, start: float, end: float) -> None:
        """Warn of sensors and parts that give nothing in a run, since their phase and delay are longer than it."""
        for thing in self.things:
            _, phase, delay = map(float, thing.times)
            if phase + delay > (end - start) * (1.0 + NEAR):
                what, word = ("reading", "arrives") if isinstance(thing, Sensor) else ("output", "takes effect")
                name = "delay" if delay > end - start or not phase else "phase"
                tell(
                    f"{name} ({thing.name}): its first {what} {word} {phase + delay:g} after the start, but the run "
                    f"ends after {end - start:g}, so that nothing of it is used. phase and delay are times, in the "
                    f"unit of t: write {name}={float(thing.times.every):g} for one period, or let the run last longer",
                    NeverArrives,
                )

    def jumps(self, component: int) -> str:
        own = component - self.problem.n
        if own < 0:
            return self.problem.jumps(component)
        return f"{self.components[component]} changes at samples alone, so that it jumps"

    @property
    def held(self) -> range:
        """The readings, inputs and own states."""
        return range(self.problem.n, self.n)


def _bands(sensor: Sensor) -> list[str]:
    """Where the flicker of a sensor's noise begins and ends, in words."""
    noises = [getattr(sensor.noise, kind, sensor.noise) for kind in ("gyro", "accelerometer")]
    every = float(sensor.times.every)
    bands = dict.fromkeys(one.flicker_band(every) for one in noises if isinstance(one, Inertial) and one.B)
    return [f"flicker of {sensor.name}: from {low:g} to {high:g} Hz" for low, high in bands]


def plant_of(problem: Any) -> Any:
    """The plant of a loop; any other problem as it is."""
    return problem.problem if isinstance(problem, Looped) else problem


@checks_arguments
def with_loop(plant: Any, *parts: Sensor | Part) -> Looped:
    """Close a loop around a plant: sensors read it at their own rates, parts set its inputs.

    Parameters
    ----------
    plant : Problem
        Any problem whose params hold the inputs, such as params={"u": 0.0}; before a first write they have these
        values. Of a netlist, a .param that gives values of sources, such as V1 in 0 DC {u}, is an input.
    *parts : Sensor or Part
        Sensors and parts; at one instant sensors read first, then parts act, in the order listed.

    Returns
    -------
    Looped
        A problem like any other. The components of a run are those of the plant, then readings, outputs of parts, and
        their own states, as "law.sum". dt must divide every period, phase and delay; a list of steps of different
        lengths has to end at all instants, `loop.times(t)`, as those of plan(..., at=loop.times) do.

    Raises
    ------
    TypeError, ValueError
        If a part reads or writes what does not exist, or shapes do not fit.

    Examples
    --------
    >>> import stodyn as sd
    >>> plant = sd.SDE(
    ...     lambda t, x, p: p["u"] + 0 * x, lambda t, x: sd.diagonal([1.0]), start=[0.0], params={"u": 0.0}, names=["x"]
    ... )
    >>> loop = sd.with_loop(
    ...     plant,
    ...     sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.1)),
    ...     sd.Part("law", every=0.1, reads="y", writes="u", update=lambda t, own, seen, p: (own, -5 * seen["y"])),
    ... )
    >>> loop.components
    ('x', 'y', 'u')
    """
    expect_problem(plant)
    if isinstance(plant, Looped):
        raise TypeError("plant: it has a loop already; give all sensors and parts in one with_loop(...)")
    for thing in parts:
        if not isinstance(thing, Sensor | Part):
            raise TypeError(f"with_loop: expected sd.Sensor(...) and sd.Part(...), got {thing!r}")
    sensors = tuple(thing for thing in parts if isinstance(thing, Sensor))
    acting = tuple(thing for thing in parts if isinstance(thing, Part))
    if not sensors and not acting:
        raise ValueError("with_loop: expected at least one sensor or part")
    plant = plant if plant.params is not None else plant.changed(params={})
    plant = _with_inputs(plant, [name for part in acting for name in part.writes])
    _check_words(plant, sensors, acting)
    lines = tuple(name for part in acting if part.hold == "first" for name in part.writes)
    plant = _with_lines(plant, lines) if lines else plant
    layout = Layout(plant, sensors, acting)
    every = (*plant.components, *layout.names)
    names = component_names(every, every)
    units = {**(plant.component_units or {}), **param_units(plant), **_units_of_more(plant, sensors, layout)} or None
    looped = Looped(plant, np.zeros((0, plant.n)), np.zeros((0, 0)), names, units, sensors, acting)
    vars(looped).update(layout=layout, traced_functions=layout.traces)
    return looped


def _units_of_more(plant: Any, sensors: Sequence[Sensor], layout: Layout) -> dict[str, str]:
    """The units of inputs, and of readings: as their sensors say, else those of the components that are read."""
    units: dict[str, str] = {}
    for name, unit in param_units(plant).items():
        if name in layout.inputs:
            units |= dict.fromkeys(_numbered(name, math.prod(layout.inputs[name])), unit)
    for sensor in sensors:
        names = _numbered(sensor.name, layout.readings[sensor.name])
        read = [sensor.unit_of(part, plant) for part in sensor.parts]
        read = read if len(read) == len(names) else [sensor.unit] * len(names)
        units |= {name: unit for name, unit in zip(names, read, strict=True) if unit}
    return units


def _with_inputs(plant: Any, names: list[str]) -> Any:
    """The plant with these inputs among its params, where its kind makes them when they are written."""
    make = next((INPUTS[kind] for kind in type(plant).__mro__ if kind in INPUTS), None)
    return plant if make is None else make(plant, names)


def _with_lines(plant: Any, names: tuple[str, ...]) -> Any:
    """The plant with straight lines in time for these inputs: value + slope (t - since)."""
    if type(plant) not in IN_TIME:
        kinds = ", ".join(kind.__name__ for kind in IN_TIME)
        raise ValueError(
            f'hold: "first" needs the times of stages, for which a plant is an {kinds} and nothing around it, got '
            f'{type(plant).__name__}; take hold="zero" and a shorter period, or write the plant as one of these'
        )
    extra = {word.format(name) for name in names for word in (SLOPE, SINCE)}

    def now(t: Any, params: Any) -> Any:
        lines = {name: params[name] + params[SLOPE.format(name)] * (t - params[SINCE.format(name)]) for name in names}
        return {**{word: value for word, value in params.items() if word not in extra}, **lines}

    def in_time(function: Any, count: int) -> Any:
        if isinstance(function, Sequence):
            return [in_time(one, count) for one in function]
        if not callable(function):
            return function
        if count == 2:
            return lambda t, x, params: call(function, t, x, params=now(t, params))
        return lambda t, x, v, params: call(function, t, x, v, params=now(t, params))

    params = dict(plant.params)
    for name in names:
        params |= {SLOPE.format(name): 0.0 * np.asarray(params[name], float), SINCE.format(name): 0.0}
    functions = {name: in_time(getattr(plant, name), count) for name, count in IN_TIME[type(plant)].items()}
    return dataclasses.replace(plant, params=params, **functions)


def expect_inputs(words: str, params: Any, inputs: Sequence[str]) -> None:
    """Refuse inputs that are no parameters of the plant; `words` name the argument."""
    known = params if isinstance(params, Mapping) else {}
    for name in inputs:
        if name not in known:
            there = ", ".join(map(str, known)) or "none"
            raise ValueError(
                f"{words}: the plant has no parameter {name!r}; it has {there}. Write params={{{name!r}: 0.0}}"
            )


def _check_words(plant: Any, sensors: Sequence[Sensor], parts: Sequence[Part]) -> None:
    things: list[Sensor | Part] = [*sensors, *parts]
    names = [thing.name for thing in things]
    for name in names:
        if name in plant.components:
            raise ValueError(f"name: {name!r} is a component of the plant; give the sensor or part another name")
        if names.count(name) > 1:
            raise ValueError(f"name: {name!r} is given to {names.count(name)} sensors or parts; give each its own")
    inputs = [name for part in parts for name in part.writes]
    for thing in things:
        if thing.name in inputs and not (isinstance(thing, Part) and thing.writes):
            raise ValueError(f"name: {thing.name!r} is an input that a part writes; take another name")
    for sensor in sensors:
        _ = sensor.times
        if sensor.average and sensor.average is not True and exact("average", sensor.average) != sensor.times.every:
            raise ValueError(f"average ({sensor.name}): in a loop a reading averages over the time since the last one; "
                             "give True")  # fmt: skip
        if sensor.increment or sensor.log_density is not None:
            word = "increment" if sensor.increment else "log_density"
            raise ValueError(f"{word} ({sensor.name}): is for data; a loop reads values or averages with noise")
    params = plant.params
    if not isinstance(params, Mapping):
        raise TypeError(
            f'plant: in a loop its params are a dict of names, such as {{"u": 0.0}}, got {type(params).__name__}'
        )
    expect_inputs("writes", params, inputs)
    for name in inputs:
        if inputs.count(name) > 1:
            raise ValueError(f"writes: {name!r} is written by {inputs.count(name)} parts; let one of them write it")
