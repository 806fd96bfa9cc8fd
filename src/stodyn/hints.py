"""Types of arguments that take NumPy's numbers and arrays as well as Python's.

Integer   a number of something: int or any integer of NumPy, such as the np.int64 that np.argmax returns
Count     how many there are: an Integer, or a float with a whole value, such as 1e5
Reals     several numbers: a list, a tuple or an array of NumPy
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Integer: TypeAlias = int | np.integer[Any]
Count: TypeAlias = float | np.integer[Any]
Reals: TypeAlias = Sequence[float] | np.ndarray[Any, Any]


def is_integer(value: Any, least: int = 1) -> bool:
    """Whether a value is an integer, of Python or NumPy, that is not less than `least`; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least
