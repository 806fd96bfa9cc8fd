"""Sums of the first 0, 1, 2, ... numbers, as if they were exact: s_k is rounded once.

Adding a number rounds by an error that is itself a floating-point number (Knuth, The Art of Computer Programming 2,
4.2.2): of s = a + b it is (a - (s - z)) + (b - z) with z = s - a. The errors are summed beside the numbers.
"""

from __future__ import annotations

import numpy as np


def running_sums(numbers: np.ndarray) -> np.ndarray:
    """Return 0 and the sums of the first 1, 2, ... of n numbers, (n + 1,)."""
    sums = np.concatenate([[0.0], np.cumsum(numbers)])
    before, after = sums[:-1], sums[1:]
    added = after - before
    errors = (before - (after - added)) + (numbers - added)
    return sums + np.concatenate([[0.0], np.cumsum(errors)])
