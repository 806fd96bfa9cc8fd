"""Natural modes of structures, and damping matrices from damping ratios.

Rayleigh damping  C = a_M M + a_K K,          ζ(ω) = a_M/2ω + a_K ω/2
modal damping     C = M Φ diag(2 ζ ω) Φ' M,   K Φ = M Φ diag(ω²), Φ' M Φ = 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from stodyn.problems.known_matrices import is_positive, is_symmetric
from stodyn.telling import tell
from stodyn.warnings import Overdamped

SHOWN, LOOKED_AT = 3, 500  # frequencies in a description, and the coordinates up to which they are computed for it
SAME = 1e-8  # relative, a choice: frequencies no farther apart count as one; matrices from files have some ten digits


def damping_matrix(M: scipy.sparse.csr_array, K: scipy.sparse.csr_array, damping: Any) -> scipy.sparse.csr_array:
    """C from damping ratios."""
    kind = damping[0] if isinstance(damping, Sequence) and damping else None
    if kind == "rayleigh" and len(damping) == 3:
        a_M, a_K = _rayleigh(damping[1:])
        if min(a_M, a_K) < 0.0:
            ω = natural_modes(M, K)[0]
            ζ = 0.5 * a_M / np.maximum(ω, 1e-300) + 0.5 * a_K * ω
            if ζ.min() < -1e-12 * ζ.max():  # by choice above ε: a ratio of 0 at a frequency of the structure is none
                raise ValueError(
                    f"damping: the ratio at ω = {ω[np.argmin(ζ)]:.4g}, a frequency of the structure, would be "
                    f"{ζ.min():.4g}. Give the ratios at frequencies that enclose the structure's, or modal damping"
                )
        return scipy.sparse.csr_array(a_M * M + a_K * K)
    if kind == "modal" and len(damping) == 2:
        ω, Φ = natural_modes(M, K)
        ζ = _ratios(damping[1], len(ω))
        unclear = np.flatnonzero(are_equal(ω, M, K) & (np.diff(ζ) != 0.0))
        if len(unclear):
            i = int(unclear[0])
            raise ValueError(
                f"damping: modes {i + 1} and {i + 2} have the same frequency {ω[i]:.6g} but the ratios {ζ[i]:g} and "
                f"{ζ[i + 1]:g}; their shapes are not determined, and so C would not be. Give them the same ratio, or C"
            )
        shapes = M @ Φ
        return scipy.sparse.csr_array(shapes * (2.0 * ζ * ω) @ shapes.T)
    raise ValueError(
        f"damping: expected ('rayleigh', (ω1, ζ1), (ω2, ζ2)) or ('modal', ζ), ζ a number or one per mode, got "
        f"{damping!r}"
    )


def _rayleigh(points: Sequence[Any]) -> tuple[float, float]:
    try:
        (ω1, ζ1), (ω2, ζ2) = ((float(a), float(b)) for a, b in points)
    except (TypeError, ValueError):
        raise ValueError(f"damping: expected two pairs (ω, ζ), got {points!r}") from None
    if not (ω1 > 0 and ω2 > 0 and ω1 != ω2 and ζ1 >= 0 and ζ2 >= 0) or not np.isfinite([ω1, ω2, ζ1, ζ2]).all():
        raise ValueError(f"damping: expected two different frequencies > 0 with ratios >= 0, got {points!r}")
    _warn_of_percents(max(ζ1, ζ2))
    a_M, a_K = np.linalg.solve([[0.5 / ω1, 0.5 * ω1], [0.5 / ω2, 0.5 * ω2]], [ζ1, ζ2])
    return float(a_M), float(a_K)


def _ratios(value: Any, count: int) -> np.ndarray:
    ζ = np.asarray(value, float)
    if ζ.ndim > 1 or (ζ.ndim == 1 and len(ζ) != count) or not np.isfinite(ζ).all() or (ζ < 0).any():
        raise ValueError(f"damping: expected a ratio >= 0, or {count} of them, one per mode, got {value!r}")
    _warn_of_percents(float(ζ.max(initial=0.0)))
    return np.broadcast_to(ζ, (count,))


def _warn_of_percents(ζ: float) -> None:
    """Warn where a damping ratio is above 1, as a percentage would be."""
    if ζ > 1.0:
        tell(
            f"damping: the ratio {ζ:g} is {100.0 * ζ:g} % of critical damping, so that its mode creeps back and does "
            f"not swing. Ratios are not percentages: {ζ:g} % is {ζ / 100.0:g}.",
            Overdamped,
        )


def natural_modes(M: scipy.sparse.csr_array, K: scipy.sparse.csr_array, count: int | None = None):
    """Frequencies ω (r,), ascending, and shapes Φ (N, r) with Φ' M Φ = 1, those of the lowest frequencies."""
    if not is_positive(M):
        raise ValueError("M: is singular, but modes need inertia in every coordinate; leave out the massless ones")
    if not is_symmetric(K):
        raise ValueError(
            "K: is not symmetric, so that the structure has no modes with orthogonal shapes; give C, leave modes= out, "
            "and take structures.poles for its frequencies"
        )
    N = M.shape[0]
    chosen = None if count is None or count == N else (0, count - 1)
    values, shapes = scipy.linalg.eigh(K.toarray(), M.toarray(), subset_by_index=chosen)
    return np.sqrt(np.maximum(values, 0.0)), shapes


def in_words(M: scipy.sparse.csr_array, K: scipy.sparse.csr_array, unit: str) -> str:
    """The first frequencies, in cycles, which show a stiffness in another unit; "" where there are none."""
    if M.shape[0] > LOOKED_AT:
        return ""
    try:
        ω = natural_modes(M, K, min(SHOWN, M.shape[0]))[0]
    except (ValueError, np.linalg.LinAlgError):
        return ""
    listed = ", ".join(f"{f:.4g}" for f in ω / (2.0 * np.pi))
    more = ", ..." if len(ω) < M.shape[0] else ""
    per = "Hz" if unit == "s" else f"per {unit or 'unit of time'}"
    return f"{listed}{more} {per}, undamped"


def are_equal(ω: np.ndarray, M: scipy.sparse.csr_array, K: scipy.sparse.csr_array) -> np.ndarray:
    """Whether each of the frequencies of K and M is the next one, so that their shapes are not determined, (r - 1,).

    Squares of frequencies are rounded to about 4 √N ε of the largest, which is that of a single coordinate or little
    above it.
    """
    largest = float(np.max(K.diagonal() / M.diagonal()))
    rounding = 4.0 * M.shape[0] ** 0.5 * np.finfo(float).eps * largest
    return np.diff(ω**2) <= np.maximum(2.0 * SAME * ω[1:] ** 2, rounding)
