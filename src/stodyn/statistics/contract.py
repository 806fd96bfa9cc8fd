"""The contract of statistics: observed in every block, folded, merged in order, labelled."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn import listing
from stodyn.hints import Integer, Reals, is_integer
from stodyn.numerics.tracing_errors import in_words, missing_entry, unnamed_entry, way_out
from stodyn.problems.calling import call, check_call, takes_params

__all__ = ["Block", "Labelled", "Labels", "Move", "Snapshot", "Statistic", "Stops", "Variable"]
__dir__ = listing.names_of(__name__)


class Stops(NamedTuple):
    """When and where the paths of a block were stopped, as arrays over its lanes (the last axis)."""

    time: Any  # (lanes,): 0 while a path goes on
    closest: Any  # (levels, lanes): the smallest distance from each level so far, after the steps
    place: Any  # (n, lanes): the state, which stays as it is once the path is stopped
    by: Any  # (lanes,): the number of the level, counted from 1; 0 while the path goes on


def parted(shown: Any, n: int, levels: int) -> tuple[Any, Stops | None]:
    """Split the rows (rows, lanes) that a method shows into the n components and, where there are levels at which paths
    may stop, their stops; None without levels."""
    if not levels:
        return shown, None
    time, closest, place, by = shown[n], shown[n + 1 : n + 1 + levels], shown[n + 1 + levels : -1], shown[-1]
    return shown[:n], Stops(time, closest, place, by)


class Snapshot(NamedTuple):
    """A block of paths at one time, as arrays over its lanes (the last axis)."""

    t: Any
    x: Any  # (n, lanes): the components
    sound: Any  # (lanes,): the lane is a path of the run, and its state is finite or the statistic counts failed paths
    weight: Any  # (lanes,)
    params: Any  # leaves common to all paths as they are, others with a last axis of lanes
    axes: Any  # for each leaf of params: None where it is common to all paths, -1 where it has an axis of lanes
    iterations: Any  # (lanes,): Newton iterations since the start, if a statistic counts them
    track: Any  # the numbers this statistic's `track` has gathered, if it has one
    stops: Stops | None = None  # where paths are stopped

    def map(self, function: Callable, name: str) -> Array:
        """Apply function(t, x[, params]), written for one path, to every lane; errors begin with `name`."""
        check_call(name, function, ("t", "x"), self.params)
        one = jax.vmap(
            lambda x, params: jnp.asarray(call(function, self.t, x, params=params)),
            in_axes=(-1, self.axes),
            out_axes=-1,
        )
        try:
            values = one(self.x, self.params)
        except Exception as error:
            wanted = "(t, x, params)" if takes_params(function, 2, self.params) else "(t, x)"
            hint = unnamed_entry(error) or missing_entry(error, self.params) or way_out(error)
            raise TypeError(
                f"{name}: function{wanted} could not be traced by JAX ({in_words(error)}). It is called for one path, "
                f"with x the vector of its components.{hint and ' '}{hint}"
            ) from error
        if values.ndim > 2 or values.size == 0 or jnp.iscomplexobj(values):
            raise ValueError(
                f"{name}: the function returns {values.dtype} of shape {values.shape[:-1]}, expected real numbers: "
                "one, or a vector of them"
            )
        return values


class Move(NamedTuple):
    """One step of a block of paths, for statistics that must see every step."""

    t: Array
    h: Array  # in runs that stop paths (lanes,): a path that is stopped within the step moves up to then
    before: Array  # (n, lanes)
    after: Array
    params: Any
    axes: Any


class Block(NamedTuple):
    """Which paths a block holds."""

    first: int
    paths: int


class Labels(NamedTuple):
    """The facts about a run that a statistic may use when it labels its result."""

    times: np.ndarray
    names: tuple[str, ...]
    units: Mapping[str, str]
    steps: np.ndarray  # the step number of each time


class Variable(NamedTuple):
    """A labelled array: dims name its axes; `time` and `component` are filled in by the run."""

    dims: tuple[str, ...]
    values: np.ndarray
    attrs: Mapping[str, Any] = {}


class Labelled(NamedTuple):
    """The variables of a statistic and the coordinates only it knows."""

    variables: Mapping[str, Variable]
    coords: Mapping[str, Variable] = {}
    warnings: tuple[Warning, ...] = ()  # about the variables; the user gets each once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statistic(ABC):
    """A frozen record of a statistic to collect from a run.

    `every` counts steps and `at` gives times; with neither, the statistic uses the run's own grid.

    prepared before the run: names resolved, times checked
    observe  in the compiled block, at each of the statistic's times: a pytree of arrays
    fold     on the host: the observations of one block over all times (a leading axis) -> a partial result
    merge    two partial results of adjacent sets of blocks -> one; called in the order of the blocks
    label    the final partial result -> named arrays
    """

    every: Integer | None = None
    at: float | Reals | None = None

    collected_by_users: ClassVar[bool] = True  # False: runs collect it for themselves
    own_times: ClassVar[int] = 0  # about how many times it uses without every= and at=; 0: those of the run
    counts_iterations = False  # whether the run must count Newton iterations for it
    counts_failed = False  # whether failed paths count, too; the numbers gathered from them must stay finite
    refuses_stops: ClassVar[str] = ""  # why it cannot be collected in a run that stops paths, in words

    def __post_init__(self):
        kind = type(self).__name__
        if self.every is not None and self.at is not None:
            raise ValueError(f"{kind}: give either every= (steps) or at= (times), not both")
        if self.every is not None and not is_integer(self.every):
            raise ValueError(f"{kind}: every counts steps and must be a whole number >= 1, got {self.every!r}")
        if self.at is not None:
            try:
                times = np.atleast_1d(np.asarray(self.at, float))
            except (TypeError, ValueError):
                times = np.array([np.nan])
            if times.ndim != 1 or not np.all(np.isfinite(times)):
                raise ValueError(f"{kind}: at must be a list of finite times, got {self.at!r}")
            object.__setattr__(self, "at", tuple(times.tolist()))

    def wanted_times(self, times: np.ndarray) -> np.ndarray | None:
        """The times at which it looks, of those of the steps; None where `every`, `at` or the run says it."""
        return None if self.at is None else np.asarray(self.at)

    def prepared(self, problem: Any, times: np.ndarray) -> Statistic:
        """The statistic made ready for a problem and for its observation times; errors are in the user's terms."""
        return self

    def stepped_by(self, method: Any, times: np.ndarray) -> Statistic:
        """The prepared statistic made ready for the steps of a method, which go from each of the times to the next."""
        return self

    def track_start(self, t: Array, x: Array, params: Any) -> Any:
        """The initial value of the numbers gathered at every step, or None if only the statistic's times are needed."""
        return None

    def track(self, gathered: Any, move: Move) -> Any:
        """The gathered value after one more step."""
        return gathered

    @abstractmethod
    def observe(self, snapshot: Snapshot) -> Any: ...

    def fold(self, observed: Any, block: Block) -> Any:
        return observed

    @abstractmethod
    def merge(self, a: Any, b: Any) -> Any: ...

    @abstractmethod
    def label(self, result: Any, labels: Labels) -> Labelled: ...

    def memory(self, times: int, paths: int, n: int) -> int:
        """The bytes that the whole result takes, so that too large a request is refused before anything runs."""
        return 0
