"""The pair of Dormand and Prince: y' = f(t, y) by steps of order 5, chosen by an error of order 4, and between them.

    K_i = f(t + c_i h, y + h Σ_j a_ij K_j),   y(t + h) ≈ y + h Σ b_i K_i,   error h Σ e_i K_i

The last stage is the first one of the next step. J. R. Dormand and P. J. Prince, J. Comput. Appl. Math. 6 (1980); the
polynomial between steps is L. F. Shampine's, Math. Comp. 46 (1986).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

ROWS = np.array([  # a_ij of stages 2 to 7; those of the last are also the weights of the step
    [1 / 5, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
])  # fmt: skip
TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
ERROR = np.array([-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40])
BETWEEN = np.array([  # of each stage the coefficients of θ, θ², θ³, θ⁴
    [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
    [0, 0, 0, 0],
    [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
    [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
    [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
    [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
    [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
])  # fmt: skip
SAFETY, SHORTEST, LONGEST = 0.9, 0.2, 10.0  # of a step beside the one before it

Stages = Callable[[float, np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Solution:
    """The times (steps + 1,), the states (components, steps + 1), and the slopes (7, components) at each step's stages.

    It ends before the interval does where no step keeps the error small: `is_complete` is then False.
    """

    t: np.ndarray
    y: np.ndarray
    slopes: list[np.ndarray]
    is_complete: bool

    def at(self, t: float) -> np.ndarray:
        """The state at a time of the interval."""
        k = min(max(int(np.searchsorted(self.t, t)), 1), len(self.slopes)) - 1
        h = self.t[k + 1] - self.t[k]
        powers = ((t - self.t[k]) / h) ** np.arange(1, 5)
        return self.y[:, k] + h * (BETWEEN @ powers) @ self.slopes[k]


def stages_of(slope: Callable[[float, np.ndarray], np.ndarray]) -> Stages:
    """(t, y, slope there, h) -> the slopes (7, components) at the stages of a step, and the state after it."""

    def stages(t: float, y: np.ndarray, first: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
        K, after = np.zeros((len(ROWS) + 1, len(y))), y
        K[0] = first
        for i, (row, c) in enumerate(zip(ROWS, TIMES, strict=True), start=1):
            after = y + h * (row[:i] @ K[:i])
            K[i] = slope(t + c * h, after)
        return K, after

    return stages


def solve(
    slope: Callable[[float, np.ndarray], np.ndarray], start: float, end: float, y: np.ndarray, rtol: float,
    atol: float | np.ndarray, stages: Stages | None = None, longest: float = math.inf,
) -> Solution:  # fmt: skip
    """The solution from `start` to `end`, each step with an error of at most atol + rtol |y| in the root mean square.

    `stages` computes the stages of a step where that can be done faster than by seven calls of `slope`.
    """
    stages = stages_of(slope) if stages is None else stages
    t, first = start, slope(start, y)
    times, states, slopes = [start], [y], list[np.ndarray]()
    h = min(_first_step(slope, (start, end), y, first, rtol, atol), end - start, longest)
    while t < end:
        least, most = 10.0 * (np.nextafter(t, math.inf) - t), LONGEST
        h = min(max(h, least), longest)
        while True:
            if not h >= least:
                return Solution(np.array(times), np.array(states).T, slopes, False)
            after = min(t + h, end)
            h = after - t
            K, new = stages(t, y, first, h)
            error = _mean_square(h * (ERROR @ K) / (atol + np.maximum(np.abs(y), np.abs(new)) * rtol))
            change = SAFETY * error**-0.2 if error > 0.0 else most
            if error < 1.0:
                break
            h, most = h * (max(change, SHORTEST) if math.isfinite(error) else SHORTEST), 1.0
        t, y, first, h = after, new, K[-1], h * min(change, most)
        times.append(t)
        states.append(y)
        slopes.append(K)
    return Solution(np.array(times), np.array(states).T, slopes, True)


def _mean_square(x: np.ndarray) -> float:
    return math.sqrt(x @ x / len(x))


def _first_step(
    slope: Callable[[float, np.ndarray], np.ndarray], interval: tuple[float, float], y: np.ndarray,
    first: np.ndarray, rtol: float, atol: float | np.ndarray,
) -> float:  # fmt: skip
    """A first step from the sizes of y, y' and y'' (E. Hairer, S. Nørsett and G. Wanner, vol. I, II.4)."""
    scale = atol + np.abs(y) * rtol
    size, moves = _mean_square(y / scale), _mean_square(first / scale)
    start, end = interval
    tried = min(1e-6 if size < 1e-5 or moves < 1e-5 else 0.01 * size / moves, end - start)
    if not tried > 0.0:  # beside a tolerance of nearly nothing
        return 0.0
    bends = _mean_square((slope(start + tried, y + tried * first) - first) / scale) / tried
    steepest = max(moves, bends)
    return min(100.0 * tried, max(1e-6, tried * 1e-3) if steepest <= 1e-15 else (0.01 / steepest) ** 0.2)
