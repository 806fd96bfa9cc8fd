"""Where blocks run: ways to map a function over the blocks of a run, with the results in the order of the blocks.

place.threads(n)        one process, n threads: the default
place.processes(n)      n processes of this machine
place.dask(client)      the workers of a Dask cluster
"""

from __future__ import annotations

import concurrent.futures
import functools
import inspect
import math
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import jax
from jax.extend.core import get_opaque_trace_state

from stodyn import arguments, listing
from stodyn.arguments import checks_arguments
from stodyn.engine.failure import Stopped
from stodyn.engine.forked import note_run
from stodyn.hints import Integer, is_integer

if TYPE_CHECKING:
    from stodyn.engine.cluster import Dask
    from stodyn.engine.job import Job, Tell
    from stodyn.engine.ledger import Ledger
    from stodyn.engine.processes import Processes

__all__ = ["dask", "processes", "threads"]
__dir__ = listing.names_of(__name__)


def available_cores() -> int:
    """Cores this process may use: its affinity, and the cgroup's quota where there is one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        pass  # no cgroup v2 here: the affinity alone counts
    return max(cores, 1)


def on_processor(function: Callable) -> Callable:
    """`function` with the processor as JAX's device, where a GPU would be: tracing on one waits at every number."""

    @functools.wraps(function)
    def placed(*arguments, **options):
        with jax.default_device(jax.devices("cpu")[0]):
            return function(*arguments, **options)

    return placed


F = TypeVar("F", bound=Callable)
TRACED = (
    jax.errors.TracerArrayConversionError,
    jax.errors.ConcretizationTypeError,
    jax.errors.UnexpectedTracerError,
    jax.errors.TracerBoolConversionError,
)


@functools.cache
def _outside_of_traces() -> Any:
    """JAX's state outside all of its transformations: that of a new thread."""
    states: list[Any] = []
    thread = threading.Thread(target=lambda: states.append(get_opaque_trace_state()))
    thread.start()
    thread.join()
    return states[0]


def front_door(function: F) -> F:
    """Return `function`, which users call, on the processor.

    An unknown option is refused with the nearest name, and a missing one with the way to call the function. Calls from
    inside JAX's transformations, which would freeze the numbers of a run, are always refused.
    """
    parameters, name = inspect.signature(function).parameters, function.__name__
    form = call_form(function)
    way_out = (
        f"{name} runs on the host, outside JAX's transformations: call it with plain numbers, outside jit, vmap and "
        "grad. stodyn.path, one path with known noise, works inside all of them."
    )

    @functools.wraps(function)
    def called(*positional, **options):
        arguments.check(name, parameters, positional, options, form)
        if get_opaque_trace_state() != _outside_of_traces():
            raise TypeError(f"{name}: called while JAX traces a function. {way_out}")
        note_run()
        try:
            with jax.default_device(jax.devices("cpu")[0]):
                return function(*positional, **options)
        except TRACED as error:
            raise TypeError(
                f"{name}: this must be a number, but it is a value that JAX is tracing. {way_out}"
            ) from error

    return cast(F, called)


def call_form(function: Callable) -> str:
    """How a function that makes paths is called: with the arguments it needs, and with paths and seed.

    These two have defaults where expansions, which have no paths, are run by the same function.
    """
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty or p.name in ("paths", "seed")]
    words = (p.name if p.kind is not p.KEYWORD_ONLY else f"{p.name}=..." for p in needed)
    return f"{function.__name__}({', '.join(words)})"


def find_devices(device: Any) -> tuple[tuple[Any, ...], str]:
    """The devices that run the blocks, none for the processor, and why these: "cpu", "gpu", "auto" or a list."""
    if isinstance(device, str) and device in ("cpu", "gpu", "auto"):
        if device == "cpu":
            return (), "asked for"
        try:
            return tuple(jax.devices("gpu")), "asked for" if device == "gpu" else "found"
        except RuntimeError as error:
            if device == "auto":
                return (), "no GPU that JAX can use"
            raise ValueError(
                "device: JAX finds no GPU here. Install the support for GPUs (in a clone of stodyn: pip install "
                '".[cuda]"), or use device="auto" to run on the processor where there is no GPU.'
            ) from error
    devices = tuple(device) if isinstance(device, (list, tuple)) else (device,)
    if not devices or not all(isinstance(one, jax.Device) for one in devices):
        raise ValueError(f'device: expected "cpu", "gpu", "auto" or a list from jax.devices(), got {device!r}')
    return devices, "asked for"


class Place(ABC):
    """A place where the blocks of a run are computed."""

    @property
    def link(self) -> str | None:
        """The address at which a browser can watch it, or None."""
        return None

    @property
    @abstractmethod
    def words(self) -> str:
        """Its description in the record of a run."""

    @abstractmethod
    def parts(self, job: Job, ledger: Ledger | None, tell: Tell) -> Iterator[Any]:
        """The parts of all blocks in order: read from the ledger, or computed and written to it."""


@checks_arguments
def threads(count: Integer | None = None) -> Threads:
    """Run blocks in threads of this process, which is the default.

    Parameters
    ----------
    count : int, optional
        How many; by default one per core.

    Returns
    -------
    Threads
        For `place=` of simulate and similar functions.
    """
    return Threads(count)


@checks_arguments
def processes(count: Integer | None = None) -> Processes:
    """Run blocks in processes of this machine: for functions that hold Python's lock.

    They start when they are first needed, which takes some seconds, and are used by later runs too;
    `with place.processes(2) as there:` ends them. Functions, lambdas and closures travel by cloudpickle; a script needs
    no `if __name__ == "__main__"`.

    Parameters
    ----------
    count : int, optional
        How many; by default one per core.

    Returns
    -------
    Processes
        For `place=` of simulate and similar functions.
    """
    from stodyn.engine.processes import Processes

    return Processes(count)


@checks_arguments
def dask(client: Any) -> Dask:
    """Run blocks on the workers of a Dask cluster; needs the extra `cluster`.

    Workers must have the same versions and the same kind of processor, since the result has the same bits as anywhere
    else; others are refused by name. Workers may die, leave and join.

    Parameters
    ----------
    client : distributed.Client, cluster or str
        A client, a cluster such as LocalCluster(), or the address of a scheduler.

    Returns
    -------
    Dask
        For `place=` of simulate and similar functions.
    """
    from stodyn.engine.cluster import Dask

    return Dask(client)


def count_of(count: Integer | None, name: str) -> int:
    """The requested number of workers, or one per core."""
    if count is not None and not is_integer(count):
        raise ValueError(f"{name}: expected a whole number >= 1, got {count!r}")
    return available_cores() if count is None else int(count)


class Bundles:
    """The blocks of a run in bundles of neighbours that take about SECONDS to compute: one way there and back for each.

    A bundle is a list of (block, its part from the ledger or None); `took` receives the seconds that the others took.
    """

    def __init__(self, job: Job, ledger: Ledger | None, workers: int):
        self.job, self.ledger, self.workers = job, ledger, workers
        self.following, self.size = job.first_block, 1

    def __iter__(self) -> Iterator[list[tuple[int, Any]]]:
        while self.following < self.job.blocks:
            left = self.job.blocks - self.following
            last = self.following + min(self.size, max(left // (2 * self.workers), 1))
            numbers, self.following = range(self.following, last), last
            yield [(block, None if self.ledger is None else self.ledger.read(block)) for block in numbers]

    def took(self, seconds: float, blocks: int) -> None:
        self.size = max(1, min(int(SECONDS * blocks / max(seconds, 1e-9)), 2 * self.size, LARGEST))


SECONDS, LARGEST = 0.5, 256  # of a bundle, and blocks in it


def parts_of(bundle: Sequence[tuple[int, Any]], records: Sequence[bytes], job: Job, ledger: Ledger | None, tell: Tell):
    """The part of each block of a bundle: read earlier, or unpacked from its record, which goes to the ledger."""
    upcoming, parts = iter(records), []
    for block, part in bundle:
        if part is None:
            data = next(upcoming)
            part = job.unpack(data)
            if ledger is not None:
                ledger.write(block, data)
        tell(job.path_steps(block))
        parts.append(part)
    return parts


class Threads(Place):
    """One worker thread per core; each enters float64 for itself, since JAX's setting belongs to a thread."""

    def __init__(self, count: Integer | None = None):
        self.count = count_of(count, "threads")

    @property
    def words(self) -> str:
        return f"{self.count} threads"

    def parts(self, job: Job, ledger: Ledger | None, tell: Tell) -> Iterator[Any]:
        ending = threading.Event()

        def heard(path_steps: int) -> None:
            tell(path_steps)
            if ending.is_set():
                raise Stopped

        def one(block: int) -> Any:
            with jax.enable_x64(True):
                stored = None if ledger is None else ledger.read(block)
                if stored is not None:
                    tell(job.path_steps(block))
                    return stored
                part = job.compute(block, heard)
                if ledger is not None:
                    ledger.write(block, job.pack(block, part))
                return part

        return self.map(one, range(job.first_block, job.blocks), ending.set)

    def map(self, function: Callable, blocks: Iterable[Any], stop: Callable[[], None]) -> Iterator[Any]:
        """function(block) for each block, in order; `stop` is called if the caller leaves."""
        if isinstance(blocks, range) and len(blocks) == 1:  # a thread would take longer to start than many a run
            yield function(blocks[0])
            return
        pool = concurrent.futures.ThreadPoolExecutor(self.count, thread_name_prefix="stodyn")
        try:
            pending: deque = deque()
            upcoming = iter(blocks)
            for block in upcoming:
                pending.append(pool.submit(function, block))
                if len(pending) >= 2 * self.count:
                    break
            while pending:
                yield _wait(pending.popleft())
                for block in upcoming:
                    pending.append(pool.submit(function, block))
                    break
        except BaseException:
            stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _wait(future: concurrent.futures.Future) -> Any:
    """A future's result, waking often enough for Ctrl-C to be heard on every platform."""
    while True:
        try:
            return future.result(timeout=0.2)
        except concurrent.futures.TimeoutError:
            if future.done():
                return future.result()
