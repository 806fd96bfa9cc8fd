"""The door of the functions that users call: their arguments are checked, and they run on the processor."""

from __future__ import annotations

import functools
import inspect
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import jax
from jax.extend.core import get_opaque_trace_state

from stodyn import arguments, results
from stodyn.engine.failure import StodynFault, fault_in_words
from stodyn.engine.forked import note_run
from stodyn.numerics.printing.unprintable import fault_in
from stodyn.numerics.tracing_errors import TRACED
from stodyn.telling import keeping_what_is_told

F = TypeVar("F", bound=Callable[..., Any])


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


def on_processor(function: F) -> F:
    """`function` with the processor as JAX's device, where a GPU would be: tracing on one waits at every number."""

    @functools.wraps(function)
    def placed(*arguments: Any, **options: Any) -> Any:
        with jax.default_device(jax.devices("cpu")[0]):
            return function(*arguments, **options)

    return cast(F, placed)


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
    inside JAX's transformations, which would freeze the numbers of a run, are always refused. An unforeseen error
    inside stodyn is told as one. A Dataset keeps the warnings of its call in its provenance.
    """
    parameters, name = inspect.signature(function).parameters, function.__name__
    form = call_form(function)
    way_out = (
        f"{name} runs on the host, outside JAX's transformations: call it with plain numbers, outside jit, vmap and "
        "grad. stodyn.path, one path with known noise, works inside all of them."
    )

    @functools.wraps(function)
    def called(*positional: Any, **options: Any) -> Any:
        arguments.check(name, parameters, positional, options, form)
        if get_opaque_trace_state() != _outside_of_traces():
            raise TypeError(f"{name}: called while JAX traces a function. {way_out}")
        note_run()
        try:
            with jax.default_device(jax.devices("cpu")[0]), keeping_what_is_told() as messages:
                return results.with_warnings(function(*positional, **options), messages)
        except TRACED as error:
            raise TypeError(
                f"{name}: this must be a number, but it is a value that JAX is tracing. {way_out}"
            ) from error
        except Exception as error:
            place = None if isinstance(error, ValueError | TypeError) else fault_in(error)
            if place is None:
                raise
            raise StodynFault(fault_in_words(place, error)) from error

    return cast(F, called)


def call_form(function: Callable[..., Any]) -> str:
    """How a function that makes paths is called: with the arguments it needs, and with paths and seed.

    These two have defaults where expansions, which have no paths, are run by the same function.
    """
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty or p.name in ("paths", "seed")]
    words = (p.name if p.kind is not p.KEYWORD_ONLY else f"{p.name}=..." for p in needed)
    return f"{function.__name__}({', '.join(words)})"
