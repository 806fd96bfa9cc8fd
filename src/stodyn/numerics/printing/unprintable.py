"""Programs that cannot be printed: the reason, and what the caller does instead."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from stodyn.arguments import stacklevel_of_user
from stodyn.warnings import PrinterFault


class Unprintable(Exception):
    """Raised with the reason why a trace cannot be taken apart into scalars."""


@contextlib.contextmanager
def or_unprintable() -> Iterator[None]:
    """Any error while a program is printed means that it cannot be printed, and becomes the reason.

    The traces are made before, so that no error of a user's function passes here: an unforeseen one is a fault of the
    printer. Nobody's run has to end because of it, but it is reported.
    """
    try:
        yield
    except Unprintable:
        raise
    except Exception as error:
        reason = f"the printer failed with {type(error).__name__}" + (f": {error}" if str(error) else "")
        warnings.warn(
            f"{reason}. The run goes on without a printed program, with the same results but more slowly. This is a "
            "fault of stodyn: please report it with the functions of the problem.",
            PrinterFault,
            stacklevel=stacklevel_of_user(),
        )
        raise Unprintable(reason) from error
