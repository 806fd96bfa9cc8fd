"""Programs that cannot be printed and proofs that break: the reason, and what the caller does instead.

Traces are made before they are printed or proved something of, so that no error of a user's function passes here: an
unforeseen one is a fault of ours. Nobody's run has to end because of it, but it is reported.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from stodyn.arguments import stacklevel_of_user
from stodyn.numerics.tracing_errors import TRACED
from stodyn.warnings import PrinterFault

Arguments = ParamSpec("Arguments")
Known = TypeVar("Known")

_noted: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("_noted", default=None)


class Unprintable(Exception):
    """Raised with the reason why a trace cannot be taken apart into scalars."""


class TooManySelections(Unprintable):
    """Raised where numbers that differ between paths select among so many entries that only loops may serve."""


@contextlib.contextmanager
def or_unprintable() -> Iterator[None]:
    """Any error while a program is printed means that it cannot be printed, and becomes the reason."""
    try:
        yield
    except Unprintable:
        raise
    except Exception as error:
        reason = report_fault("the printer", error, "without a printed program, with the same results but more slowly")
        raise Unprintable(reason) from error


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
def noting_faults() -> Iterator[list[str]]:
    """The faults reported meanwhile, each once."""
    noted: list[str] = []
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def report_fault(what: str, error: Exception, how: str) -> str:
    """Warn of a fault, with the way in which the run goes on; returns the reason in words."""
    reason = f"{what} failed with {type(error).__name__}" + (f": {error}" if str(error) else "")
    noted = _noted.get()
    if noted is not None and reason not in noted:
        noted.append(reason)
    warnings.warn(
        f"{reason}. The run goes on {how}. This is a fault of stodyn: please report it with the functions of the "
        "problem.",
        PrinterFault,
        stacklevel=stacklevel_of_user(),
    )
    return reason
