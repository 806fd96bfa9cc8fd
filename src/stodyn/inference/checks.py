"""What the innovations of a right filter do not show: size, correlation, shape and outliers, as p-values.

Standardised innovations of a right model are independent standard normals. A model can be wrong and pass all of these.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy import special  # scipy.stats would take a second to import

LEAST = 10  # readings for a check
DOUBTFUL = 1e-3  # a p-value below which a check is put into words
LAGS = 10


class Check(NamedTuple):
    """One check: its name, its statistic, its p-value, and what a low one means."""

    name: str
    statistic: float
    p: float
    words: str


def checked(e: np.ndarray, times: np.ndarray, columns: tuple[str, ...]) -> list[Check]:
    """Return the checks of standardised innovations (times, outputs), NaN where nothing was read."""
    every = e[np.isfinite(e)]
    if len(every) < LEAST:
        return []
    checks = [_size(every), _largest(e, times, columns)]
    for k, name in enumerate(columns):
        own = e[np.isfinite(e[:, k]), k]
        if len(own) >= LEAST:
            checks += [_ljung_box(own, name), _jarque_bera(own, name)]
    for i, j in itertools.combinations(range(len(columns)), 2):
        both = np.isfinite(e[:, i]) & np.isfinite(e[:, j])
        if both.sum() >= LEAST:
            checks.append(_cross(e[both, i], e[both, j], f"{columns[i]}, {columns[j]}"))
    return checks


def _size(e: np.ndarray) -> Check:
    """The mean of e², which times their number is χ²."""
    count, total = len(e), float(e @ e)
    p = 2.0 * min(special.gammainc(count / 2, total / 2), special.gammaincc(count / 2, total / 2))
    low, high = 2.0 * special.gammaincinv(count / 2, [0.025, 0.975]) / count
    return Check("nis", total / count, float(p),
                 f"the mean square of the innovations is {total / count:.3f} of what the model says (95 %: "
                 f"{low:.3f} to {high:.3f})")  # fmt: skip


def _largest(e: np.ndarray, times: np.ndarray, columns: tuple[str, ...]) -> Check:
    sizes = np.where(np.isfinite(e), np.abs(e), 0.0)
    row, column = np.unravel_index(int(np.argmax(sizes)), e.shape)
    count, size = int(np.isfinite(e).sum()), float(sizes[row, column])
    p = -np.expm1(count * np.log1p(-min(2.0 * special.ndtr(-size), 1.0 - 1e-16)))
    words = f"the reading of {columns[column]} at time {times[row]:.6g} is {size:.2f} standard deviations off"
    return Check("largest", size, float(p), words)


def _ljung_box(e: np.ndarray, name: str) -> Check:
    count, lags = len(e), min(LAGS, len(e) // 5)
    centred = e - e.mean()
    rho = np.array([centred[k:] @ centred[:-k] for k in range(1, lags + 1)]) / max(float(centred @ centred), 1e-300)
    statistic = count * (count + 2.0) * float(np.sum(rho**2 / (count - np.arange(1, lags + 1))))
    p = float(special.gammaincc(lags / 2, statistic / 2))
    return Check(f"ljung_box ({name})", statistic, p, f"the innovations of {name} are correlated in time")


def _jarque_bera(e: np.ndarray, name: str) -> Check:
    centred = e - e.mean()
    variance = max(float(np.mean(centred**2)), 1e-100)
    skew, excess = np.mean(centred**3) / variance**1.5, np.mean(centred**4) / variance**2 - 3.0
    statistic = len(e) / 6.0 * float(skew**2 + excess**2 / 4.0)
    p = float(special.gammaincc(1.0, statistic / 2))
    return Check(f"jarque_bera ({name})", statistic, p, f"the innovations of {name} are not normal")


def _cross(a: np.ndarray, b: np.ndarray, names: str) -> Check:
    statistic = float(np.sum(a * b) / np.sqrt(max(np.sum(a * a) * np.sum(b * b), 1e-300)))
    p = float(2.0 * special.ndtr(-abs(statistic) * np.sqrt(len(a))))
    return Check(f"cross ({names})", statistic, p, f"innovations of {names} at the same time are correlated")
