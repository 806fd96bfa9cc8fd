"""Stationary covariances of large structures with few noises: Lyapunov's equation from sparse matrices.

    x' = v,   M v' = -K x - C v + G s + b ξ,   s' = A s + B η        state z = (x, v, s), s of a small filter

The covariance P of z is nearly of low rank: the alternating directions (ADI) give P = Z Z' + R, where each shift α adds
columns to Z by one sparse solve with K - α C + α² M, and R is the covariance that the same system would have with the
noise W, which each shift makes smaller: W W' is the residual of Z Z'. Complex shifts come in pairs, and the two real
blocks that a pair adds take one complex solve (P. Benner, P. Kürschner & J. Saak, Numer. Algorithms 62, 2013). Shifts
are the eigenvalues of the system seen in the latest columns of Z, in coordinates in which |z|² is the energy, so that
they are stable (the same, Electron. Trans. Numer. Anal. 43, 2014). The eigenvalues of the filter come first and take s
out of W.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.numerics import direct
from stodyn.numerics.lyapunov import NotStable

MOST = 1000  # shifts
RESIDUAL = 1e-13  # energy of W beside the largest that it had
CHANGE = 1e-11  # of every variance by the latest shifts together
LEAST = 1e-24  # of the largest variance, a choice: deviations below 1e-12 of it need not settle
COLUMNS, POWERS = 20, 6  # latest columns of Z that give shifts; solves without a shift that give the first ones
SYMMETRIC = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}


@dataclasses.dataclass(frozen=True, eq=False)
class LargeStructure:
    """Sparse M, C, K (N, N), symmetric; how the filter pushes, G (N, k), and its A (k, k); noise (2N + k, channels),
    in the equations of x, M v and s."""

    M: Any
    C: Any
    K: Any
    G: np.ndarray
    A: np.ndarray
    noise: np.ndarray

    def parts(self, z: np.ndarray) -> list[np.ndarray]:
        N = self.M.shape[0]
        return np.split(z, [N, 2 * N])

    def solved(self, shift: complex, W: np.ndarray) -> np.ndarray:
        """z of (equations' slopes + shift · equations' masses) z = W."""
        of_x, of_v, of_s = self.parts(W)
        s = np.linalg.solve(self.A + shift * np.eye(len(self.A)), of_s)
        right = self.G @ s - of_v - self.C @ of_x + shift * (self.M @ of_x)
        x = direct.factorised(self.K - shift * self.C + shift**2 * self.M, **SYMMETRIC).solve(right)
        return np.concatenate([x, of_x - shift * x, s])

    def with_masses(self, z: np.ndarray) -> np.ndarray:
        x, v, s = self.parts(z)
        return np.concatenate([x, self.M @ v, s])

    def eigenvalues(self, Z: np.ndarray) -> np.ndarray:
        """The eigenvalues of the system seen in the columns of Z: those with an imaginary part >= 0, made stable, fast
        ones first."""
        Q = np.linalg.qr(Z / np.linalg.norm(Z, axis=0))[0]
        x, v, s = self.parts(Q)
        slopes = np.concatenate([self.K @ v, self.G @ s - self.K @ x - self.C @ v, self.A @ s])
        masses = np.concatenate([self.K @ x, self.M @ v, s])
        λ = scipy.linalg.eigvals(Q.T @ slopes, Q.T @ masses)
        λ = λ[np.isfinite(λ) & (λ != 0.0) & (λ.imag >= 0.0)]
        return _stable(λ[np.argsort(-np.abs(λ))])

    def energies(self, W: np.ndarray) -> np.ndarray:
        """The energies of the columns of W in the structure, and their squares in the filter."""
        x, v, s = self.parts(W)
        return np.array([np.sum(x * (self.K @ x)) + np.sum(v * self._inertia.solve(v)), np.sum(s**2)])

    @functools.cached_property
    def _inertia(self) -> Any:
        return direct.factorised(self.M, **SYMMETRIC)


class NotKnown(ValueError):
    """The iteration does not end: many modes have little damping, or one has none."""


def _stable(λ: np.ndarray) -> np.ndarray:
    """Shifts from eigenvalues; next to the axes they are taken as real, or as decaying a little."""
    size = np.abs(λ)
    imaginary = np.where(λ.imag > 1e-8 * size, λ.imag, 0.0)
    return -np.maximum(np.abs(λ.real), 1e-8 * size) + 1j * imaginary


def root(structure: LargeStructure, C: ArrayLike | None = None) -> np.ndarray:
    """F with F F' = the stationary covariance of z, or of C z for C (outputs, up to 2N + k).

    The structure must be damped in every mode that the noise excites. Where the iteration does not end there is an
    error in words.
    """
    rows = None if C is None else np.atleast_2d(np.asarray(C, float))
    columns = []
    for Z in _blocks(structure):
        columns.append(Z if rows is None else rows @ Z[: rows.shape[1]])
    return np.concatenate(columns, axis=1)


def _blocks(structure: LargeStructure) -> Iterator[np.ndarray]:
    """The columns of Z, some at a time, until no variance changes."""
    W = np.asarray(structure.noise, float)
    shifts = _first_shifts(structure, W)
    largest, variances, used = np.zeros(2), np.zeros(len(W)), 0
    latest = np.zeros((len(W), 0))
    while used < MOST:
        before = variances
        for shift in shifts:
            Z, W = _shifted(structure, shift, W)
            variances = variances + np.sum(Z**2, axis=1)
            latest = np.concatenate([latest, Z], axis=1)[:, -COLUMNS:]
            yield Z
        used += len(shifts)
        energies = structure.energies(W)
        largest = np.maximum(largest, energies)
        if (energies <= RESIDUAL * largest).all() and _change(structure, before, variances) <= CHANGE:
            return
        shifts = structure.eigenvalues(latest)
    raise NotKnown(
        f"problem: the stationary covariance is not known after {used} shifts: the rest of the noise still has "
        f"{math.sqrt(np.max(energies / np.maximum(largest, 1e-300))):.1g} of its size, and variances change by "
        f"{_change(structure, before, variances):.1g}, expected {math.sqrt(RESIDUAL):.1g} and {CHANGE:g}. A mode "
        "that is not damped has no stationary law; for modes with very little damping reduce the structure (modes=r)."
    )


def _first_shifts(structure: LargeStructure, W: np.ndarray) -> np.ndarray:
    """The filter's eigenvalues, and those seen in solutions without a shift, in which slow modes are large."""
    powers, right = [], W
    try:
        for _ in range(POWERS):
            powers.append(structure.solved(0.0, right))
            right = structure.with_masses(powers[-1]) / np.linalg.norm(powers[-1])
    except np.linalg.LinAlgError:
        raise NotStable(
            "problem: K is singular, so that the structure floats and has no stationary law; hold it somewhere",
            is_growing=False,
        ) from None
    of_filter = np.linalg.eigvals(structure.A)
    return np.concatenate([_stable(of_filter[of_filter.imag >= 0.0]), structure.eigenvalues(np.hstack(powers))])


def _shifted(structure: LargeStructure, shift: complex, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns that a shift and its conjugate add to Z, and the noise that they leave."""
    if shift.imag == 0.0:
        V = structure.solved(shift.real, W)
        return math.sqrt(-2.0 * shift.real) * V, W - 2.0 * shift.real * structure.with_masses(V)
    V, ratio = structure.solved(shift, W), shift.real / shift.imag
    first, size = V.real + ratio * V.imag, 2.0 * math.sqrt(-shift.real)
    Z = size * np.concatenate([first, math.hypot(ratio, 1.0) * V.imag], axis=1)
    return Z, W - 4.0 * shift.real * structure.with_masses(first)


def _change(structure: LargeStructure, before: np.ndarray, variances: np.ndarray) -> float:
    """The largest relative change of a variance; one that is rounding beside others of its kind does not count."""
    return max(
        float(np.max((new - old) / np.maximum(new, LEAST * new.max() or 1.0)))
        for old, new in zip(structure.parts(before), structure.parts(variances), strict=True)
        if len(new)
    )
