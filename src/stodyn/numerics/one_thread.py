"""Small matrices on one thread: those of BLAS wait for each other by spinning, which can take longer than the work.

A ring of 15 inverters (77 unknowns) has its phase noise in 9 s of processor time with one thread, in 21 s with two.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import TypeVar, cast

import threadpoolctl

F = TypeVar("F", bound=Callable)
_limiting = threading.RLock()  # held by the thread whose call has set the limit


@functools.cache
def _libraries() -> threadpoolctl.ThreadpoolController:
    importlib.import_module("scipy.linalg")  # so that the BLAS of SciPy is loaded, and found with that of NumPy
    return threadpoolctl.ThreadpoolController()


def blas_on_one_thread(function: F) -> F:
    """Return `function` with BLAS on one thread while it runs: for many products and solutions of small matrices.

    The setting is that of the whole process. Of calls that overlap in several threads the first one sets it and sets it
    back at its end; the others compute with whatever it is.
    """

    @functools.wraps(function)
    def called(*arguments, **options):
        if not _limiting.acquire(blocking=False):
            return function(*arguments, **options)
        try:
            with _libraries().limit(limits=1, user_api="blas"):
                return function(*arguments, **options)
        finally:
            _limiting.release()

    return cast(F, called)
