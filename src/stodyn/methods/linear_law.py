"""The law of a mechanical system linearised about its start, without its stops, as checks before a run take it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import scipy

from stodyn.noise.coloured.delay import Delayed
from stodyn.numerics import uncompiled, van_loan

MOST_STATES = 200  # of a structure and its filter, whose covariance is computed before a run


class LinearLaw(NamedTuple):
    """dz = A z dt + B dW with E z z' = P at the start, for z = (x, v, s, e): x and v less those at the start, the
    states of the filter, and e = 0, or 1 where the motion from the start counts too.

    N  how many coordinates x has
    """

    A: np.ndarray
    B: np.ndarray
    P: np.ndarray
    N: int

    def second_moments(self, T: float) -> np.ndarray:
        """E z z' at a time T; not finite where it grows beyond all numbers."""
        B = self.B if self.B.shape[1] else np.zeros((len(self.A), 1))
        with np.errstate(all="ignore"):
            return van_loan.discretise(self.A, B, np.eye(B.shape[1]), T).of(self.P)


def law_without_stops(problem: Any) -> LinearLaw | None:
    """Return the law of a Mechanical; None where it is not known, or large."""
    motion, noise, N = problem.motion.without_stops, problem.coloured, problem.N
    noise = noise.undelayed if isinstance(noise, Delayed) else noise
    k = 0 if noise is None else len(noise.A)
    if problem.own.hysteresis or problem.joints is not None or not motion.is_regular or 2 * N + k > MOST_STATES:
        return None
    y, v, z = motion.example_coordinates()
    start, params = np.concatenate([y, v]), motion.params

    def at_start(function: Any) -> np.ndarray:
        with jax.enable_x64(True):
            return uncompiled.value(lambda s: function(0.0, s[:N], s[N:], z, params), start)

    def slopes(t, y, v, z, params):
        return jax.jacfwd(lambda s: motion.acceleration(t, s[:N], s[N:], z, params))(jax.numpy.concatenate([y, v]))

    now = np.concatenate([np.asarray(v), at_start(motion.acceleration)])
    A = np.concatenate([np.eye(N, 2 * N, k=N), at_start(slopes)])
    white = at_start(motion.kicks)
    if not all(np.isfinite(part).all() for part in (now, A, white)):
        return None
    into = np.zeros((2 * N, 0))
    filter_A, filter_B, filter_P = (np.zeros((0, 0)),) * 3
    if noise is not None:
        into = np.concatenate([np.zeros((N, k)), at_start(problem.push) @ noise.C])
        filter_A, filter_B, filter_P = noise.A, noise.B, noise.state_covariance
    whole = scipy.linalg.block_diag(A, filter_A, 0.0)
    whole[: 2 * N, 2 * N : 2 * N + k], whole[: 2 * N, -1] = into, now
    B = scipy.linalg.block_diag(np.concatenate([np.zeros_like(white), white]), filter_B, np.zeros((1, 0)))
    return LinearLaw(whole, B, scipy.linalg.block_diag(np.zeros_like(A), filter_P, 0.0), N)
