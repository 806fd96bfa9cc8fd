"""Types of arguments that take NumPy's numbers and arrays as well as Python's.

Integer   a number of something: int or any integer of NumPy, such as the np.int64 that np.argmax returns
Count     how many there are: an Integer, or a float with a whole value, such as 1e5
Reals     several numbers: a list, a tuple or an array of NumPy
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Count", "Integer", "Reals"]

Integer: TypeAlias = int | np.integer[Any]
Count: TypeAlias = float | np.integer[Any]
Reals: TypeAlias = Sequence[float] | np.ndarray[Any, Any]


def __dir__() -> list[str]:
    return __all__


def is_integer(value: Any, least: int = 1) -> bool:
    """Whether a value is an integer, of Python or NumPy, that is not less than `least`; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def is_number(value: Any) -> bool:
    """Whether a value is a real number, of Python or NumPy; True and False are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_whole(value: Any, least: int = 1) -> bool:
    """Whether a value is a Count that is not less than `least`: an integer, or a float with a whole value."""
    if isinstance(value, (float, np.floating)):
        return float(value).is_integer() and bool(value >= least)
    return is_integer(value, least)


def check_seed(seed: Any) -> None:
    """Refuse a seed that is not a whole number."""
    if not is_integer(seed, 0):
        raise ValueError(f"seed: expected a whole number >= 0, such as seed=1, got {seed!r}")


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return a Count as an int; other values raise a ValueError that begins with the name of the argument."""
    if not is_whole(value, least):
        raise ValueError(f"{name}: expected a whole number >= {least}, got {value!r}")
    return int(value)
