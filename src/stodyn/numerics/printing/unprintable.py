"""Programs that cannot be printed and proofs that break: the reason, and what the caller does instead.

Traces are made before they are printed or proved something of, so that no error of a user's function passes here: an
unforeseen one is a fault of ours. Nobody's run has to end because of it, but it is reported.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import opcode
import sys
from collections.abc import Callable, Iterator, MutableMapping
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import jax

from stodyn.numerics.tracing_errors import TRACED
from stodyn.telling import tell
from stodyn.warnings import PrinterFault

Arguments = ParamSpec("Arguments")
Known = TypeVar("Known")
Key = TypeVar("Key")

LIBRARIES = {"jax", "jaxlib", "numpy", "scipy", "llvmlite", *sys.stdlib_module_names}
ROOMS = ("stodyn.numerics.", "stodyn.problems.", "stodyn.methods.", "stodyn.engine.program.", "stodyn.engine.stability",
         "stodyn.engine.variances", "stodyn.engine.laws", "stodyn.engine.held", "stodyn.engine.energies",
         "stodyn.engine.jumps")  # fmt: skip
FORESEEN = (Warning, MemoryError, OSError, NotImplementedError, jax.errors.JaxRuntimeError, *TRACED)
RAISED = {opcode.opmap["RAISE_VARARGS"], opcode.opmap["RERAISE"]}

_noted: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("_noted", default=None)


class Unprintable(Exception):
    """Raised with the reason why a trace cannot be taken apart into scalars."""


class LongTable(Unprintable):
    """Raised where a place in a table is computed, and the table is longer than what is printed as selections."""


class TooLarge(Unprintable):
    """Raised where a step has more operations than are printed."""


class TooManySelections(Unprintable):
    """Raised where numbers that differ between paths select among so many entries that only loops may serve."""


class _OrUnprintable(contextlib.ContextDecorator):
    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not isinstance(error, Exception) or isinstance(error, Unprintable):
            return
        reason = report_fault("the printer", error, "without a printed program, with the same results but more slowly")
        raise Unprintable(reason) from error


def or_unprintable() -> _OrUnprintable:
    """Any error while a program is printed means that it cannot be printed, and becomes the reason."""
    return _OrUnprintable()


def or_else(unknown: Callable[..., Any]) -> Callable[[Callable[Arguments, Known]], Callable[Arguments, Known]]:
    """A proof that breaks proves nothing: where the decorated function fails, the answer is unknown(*arguments)."""

    def decorated(prove: Callable[Arguments, Known]) -> Callable[Arguments, Known]:
        @functools.wraps(prove)
        def proved(*arguments: Arguments.args, **options: Arguments.kwargs) -> Known:
            try:
                return prove(*arguments, **options)
            except TRACED:  # a value that is being traced cannot be examined, which callers know
                raise
            except Unprintable:
                return unknown(*arguments, **options)
            except Exception as error:
                report_fault(f"a proof ({prove.__name__})", error, "as it does where nothing is proved")
                return unknown(*arguments, **options)

        return proved

    return decorated


@contextlib.contextmanager
def or_unexamined() -> Iterator[None]:
    """A look at a run before it, to warn or refuse, that breaks says nothing, and the run goes on."""
    try:
        yield
    except Exception as error:
        place = fault_in(error)
        if place is None:
            raise
        report_fault(f"a check of the run ({place})", error, "as it does where there is nothing to say")


def fault_in(error: Exception) -> str | None:
    """The function of ours in which an unforeseen error arose; None where it is a refusal, which is raised in words, or
    comes from a function of the user's."""
    places = list(_places(error.__traceback__))
    own = [place for place in places if _room(place).partition(".")[0] not in LIBRARIES]
    if not own or not _room(own[-1]).startswith(ROOMS) or isinstance(error, FORESEEN):
        return None
    code, kind = own[-1].tb_frame.f_code, type(error)
    is_for_callers = kind is AssertionError or (kind.__base__ is Exception and kind.__module__.startswith("stodyn."))
    is_raised = own[-1] is places[-1] and code.co_code[own[-1].tb_lasti] in RAISED
    if is_raised and not is_for_callers:
        return None
    return f"{_room(own[-1])}.{code.co_qualname}"


def _places(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _room(place: TracebackType) -> str:
    return str(place.tb_frame.f_globals.get("__name__"))


@contextlib.contextmanager
def noting_faults(noted: list[str] | None = None) -> Iterator[list[str]]:
    """The faults reported meanwhile, each once, after those already noted."""
    noted = [] if noted is None else noted
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def report_fault(what: str, error: Exception, how: str) -> str:
    """Warn of a fault, with the way in which the run goes on; returns the reason in words."""
    reason = f"{what} failed with {type(error).__name__}" + (f": {error}" if str(error) else "")
    _tell_of(reason, f"The run goes on {how}.")
    return reason


def report_again(reason: str) -> None:
    """Warn of a fault met in an earlier run, by whose answers this one goes."""
    _tell_of(reason, "It did in an earlier run of this problem, from which this run knows what it goes by.")


def _tell_of(reason: str, consequence: str) -> None:
    _note(reason)
    tell(
        f"{reason}. {consequence} This is a fault of stodyn: please report it with the functions of the problem.",
        PrinterFault,
    )


def _note(reason: str) -> None:
    noted = _noted.get()
    if noted is not None and reason not in noted:
        noted.append(reason)


def remembered(known: MutableMapping[Key, Known], key: Key, find: Callable[[], Known]) -> Known:
    """known[key], found where it is new. An answer that a fault led to is not kept, so that the next run meets it and
    tells of it too."""
    if key in known:
        return known[key]
    with noting_faults() as met:
        answer = find()
    for reason in met:
        _note(reason)
    if not met:
        known[key] = answer
    return answer
