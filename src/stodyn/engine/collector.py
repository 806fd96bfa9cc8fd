"""Python's search for unreachable cycles, paused while many small objects are made that are kept."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def without_collection(function: F) -> F:
    """Return `function`, during which the collector rests: tracing and printing a step would otherwise spend a tenth of
    their time on searches that find nothing."""

    @functools.wraps(function)
    def paused(*arguments: Any, **options: Any) -> Any:
        if not gc.isenabled():
            return function(*arguments, **options)
        gc.disable()
        try:
            return function(*arguments, **options)
        finally:
            gc.enable()

    return cast(F, paused)
