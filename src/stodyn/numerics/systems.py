"""Linear systems of other libraries, python-control and scipy.signal, known by what they have, and systems for them.

x' = A x + B u,  y = C x + D u            with dt = 0
x⁺ = A x + B u,  y = C x + D u            with the time dt between samples; True where that is not known
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Matrices(NamedTuple):
    """A linear system as plain matrices, in the order in which other libraries take them: control.ss(*matrices)."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray
    dt: float | bool = 0


def is_system(value: Any) -> bool:
    """Whether this is a linear system of another library, and no matrix."""
    return hasattr(value, "dt") and any(hasattr(value, name) for name in ("A", "num", "zeros", "to_ss"))


def time_step(system: Any) -> float | bool:
    """The time between samples; 0 of a system in continuous time, True where it is discrete and does not say."""
    return 0 if system.dt is None else system.dt


def polynomials(system: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Numerator and denominator of a transfer function from one input to one output; None for anything else."""
    if hasattr(system, "A") or not hasattr(system, "num") or not hasattr(system, "den"):
        return None
    num, den = (value[0][0] if isinstance(value, list) else value for value in (system.num, system.den))
    is_one = not isinstance(system.num, list) or len(system.num) == len(system.num[0]) == 1
    return (np.asarray(num, float), np.asarray(den, float)) if is_one and np.ndim(num) == 1 else None


def matrices(name: str, system: Any) -> Matrices:
    """The matrices of a system; `name` is that of the argument."""
    if not hasattr(system, "A"):
        if not hasattr(system, "to_ss"):
            raise TypeError(
                f"{name}: expected a system in state space, or one that has to_ss(), got {type(system).__name__}; turn "
                "it into one, as control.ss(system)"
            )
        system = system.to_ss()
    A, B, C, D = (np.atleast_2d(np.asarray(value, float)) for value in (system.A, system.B, system.C, system.D))
    return Matrices(A, B, C, D, time_step(system))
