"""Which arguments the result of a function depends on, proved from its trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stodyn.numerics.dependence import dependence


def arguments_of(function: Callable, *arguments: Any) -> set[int]:
    """Return the numbers of the arguments that the result of a function depends on.

    It raises printing.unprintable.Unprintable where the trace cannot be taken apart.
    """
    (entries,) = dependence(function, *arguments)
    return {number for entry in np.ravel(entries) if isinstance(entry, frozenset) for number, _ in entry}
