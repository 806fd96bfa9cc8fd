"""The laws of mechanical systems, as variances are judged: of linear ones, and of those that are nearly so.

How wrong a mode is does not depend on how strong the noise is. Noise that changes in time is therefore held as it is
when it is strongest, and as it is when its shape differs most from that; of noise that always changes much in a step
nothing is said. Parameters that differ between paths are those of a few paths, from those with low frequencies to those
with high ones, whose variances are averaged. Such runs, and those in float32, are made once more for this, in float64.

Nothing is said of nonlinear systems, unless they are nearly linear wherever the noise takes them. Their steps are then
linearised about the start too. Noise that depends on the state, but is nearly the same wherever it takes the system, is
held as it is at the start. In the modes of a large structure M is a small matrix for each mode, and covariances cost
little.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy
from jax import Array

from stodyn.engine.held import held_in_words, in_double, moments, spread_params, with_params
from stodyn.engine.laws import FEW, INFINITE, Law, Whole, covariance, mean_of, reading, stepper
from stodyn.engine.laws_of_sdes import covariance_of_starts
from stodyn.numerics import uncompiled
from stodyn.problems.calling import call
from stodyn.problems.driven import LINEARISED
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.mechanical_facts import (
    deviations_where_nearly_linear,
    has_constant_slopes,
    has_nearly_constant_noise,
    slopes_at_the_start,
)

MOST_STATES = 200  # up to which its covariance is computed where modes are no help
MOST_COORDINATES = 600  # of structures whose modes are computed
SYMMETRIC = 1e-9  # entries that agree so well are equal: slopes and matrices from files are known no better
COUPLED = 1e-6  # damping between modes, relative to that of each, above which it couples them
STEADY = 0.3  # of its variance, by which noise may change in a step at a time as of which it is held
SMALL_SHIFT = 2.0**-20  # of a state that must not reach a level, or not leave what is linear about it
LEAST_SHIFT = 2.0**-34  # relative to the start, below which differences are rounding


def laws(run: Any, system: Mechanical, method: Any) -> list[tuple[str, Law]]:
    """The laws of a run, each with what it holds fast in words; none where nothing is known."""
    if system.joints is not None or not system.motion.is_regular or not _is_nearly_additive(system, run.spec.times):
        return []
    by_moment = []
    for basis, cases in _held(run, system, method):
        shift = _shift(*cases[0])
        own = [] if shift is None else [law for case in cases if (law := _law(*case, shift)) is not None]
        if not own or len(own) < len(cases):
            return []
        linearised = "" if has_constant_slopes(cases[0][1]) else LINEARISED
        by_moment.append((linearised + basis, mean_of(own)))
    return by_moment


class _Equations(NamedTuple):
    """M x'' + C x' + K x = B ξ."""

    M: np.ndarray
    C: np.ndarray
    K: np.ndarray
    B: np.ndarray

    @property
    def is_known(self) -> bool:
        return all(np.isfinite(part).all() for part in self)

    def of_first_order(self) -> tuple[np.ndarray, np.ndarray]:
        """A and b of d(x, v) = A (x, v) dt + b dW."""
        N = len(self.M)
        K, C, B = np.split(np.linalg.solve(self.M, np.concatenate([self.K, self.C, self.B], axis=1)), [N, 2 * N], 1)
        return np.block([[np.zeros((N, N)), np.eye(N)], [-K, -C]]), np.concatenate([np.zeros_like(B), B])


def _is_nearly_additive(system: Mechanical, times: np.ndarray) -> bool:
    if system.facts.additive:
        return True
    is_small = system.n == 2 * system.N <= FEW
    if not is_small or system.has_random_start:
        return False
    return all(has_nearly_constant_noise(system, t) for t in moments(system, times, STEADY))


def _shift(run: Any, system: Mechanical) -> float | None:
    """How far states may be moved to show a linear step; None where none would be linear."""
    if has_constant_slopes(system):
        return SMALL_SHIFT if run.spec.levels else 1.0
    if system.has_random_start or system.n != 2 * system.N or 2 * system.N > FEW:
        return None
    deviations = deviations_where_nearly_linear(system, run.spec.times)
    if deviations is None:
        return None
    shift = SMALL_SHIFT * min(1.0, deviations.min())
    return shift if shift > LEAST_SHIFT * np.abs(system.example_start()).max() else None


def _law(run: Any, system: Mechanical, shift: float) -> Law | None:
    """The law of a small state as a whole, of a large one by modes where damping leaves these uncoupled."""
    states = len(run.executor.real_rows)
    if system.N > MOST_COORDINATES:
        return None
    equations = _equations(system)
    if not equations.is_known:
        return None
    modes = None if states <= FEW or states % system.N else _modes(equations)
    if modes is not None:
        return _ByModes(run, equations, modes, shift)
    if states > MOST_STATES:
        return None
    start = covariance_of_starts(system)[: 2 * system.N, : 2 * system.N]
    return Whole(run, *equations.of_first_order(), shift, float(run.spec.times[0]), start)


def _equations(system: Any) -> _Equations:
    """The equations, by their matrices where these are given, else by their slopes."""
    N, start = system.N, np.asarray(system.example_start()[: 2 * system.N], float)
    if system.is_linear:

        def noise(s: Array) -> Array:
            return call(system.noise, 0.0, s[:N], s[N:], params=system.example_params())

        B = np.reshape(uncompiled.value(noise, start), (N, system.m))
        M, C, K = (matrix.toarray() for matrix in system.matrices)
        return _Equations(M, C, K, B)
    A, b = slopes_at_the_start(system)
    M = np.eye(N) if system.mass_matrix is None else np.asarray(system.mass_matrix)
    return _Equations(M, -M @ A[N:, N:], -M @ A[N:, :N], M @ b[N:])


def _held(run: Any, system: Mechanical, method: Any) -> Iterator[tuple[str, list[tuple[Any, Any]]]]:
    """Runs in float64, and their systems, in which neither noise nor parameters vary, with what they hold in words:
    those in one list are together the run."""
    has_constant_noise, params = system.facts.is_constant_noise, spread_params(system)
    if has_constant_noise and not params and run.spec.dtype == np.float64:
        yield "", [(run, system)]
        return
    for t in [None] if has_constant_noise else moments(system, run.spec.times, STEADY):
        held: Any = system if t is None else system.changed(noise=functools.partial(_noise_at, system, t))
        held = held.changed(params=params[0]) if params else held
        is_traced = t is None and run.spec.dtype == np.float64
        first = with_params(run, held) if is_traced else in_double(run.spec, held, method)
        others = [held.changed(params=own) for own in params[1:]]
        cases = [(first, held), *((with_params(first, other), other) for other in others)]
        where = "" if system.facts.additive else " where paths start"
        yield held_in_words(t, bool(params), where), cases


def _noise_at(system: Any, moment: float, t: Array, x: Array, v: Array, params: Any) -> Any:
    start = np.asarray(system.example_start()[: 2 * system.N], float)
    return call(system.noise, moment, *(np.reshape(part, x.shape) for part in np.split(start, 2)), params=params)


# --- modes of large structures ----------------------------------------------------------------------------------------


class _Modes(NamedTuple):
    """q'' = -k q - c q' + ... of each mode (N,), and the shapes (N, N) of x = Φ q with Φ' M Φ = 1."""

    k: np.ndarray
    c: np.ndarray
    shapes: np.ndarray


def _is_symmetric(X: np.ndarray) -> bool:
    """Whether X is, in units in which its diagonal is 1: no entry of a positive matrix is larger."""
    unit = np.sqrt(np.abs(X.diagonal()))
    return bool((np.abs(X - X.T) <= SYMMETRIC * unit * unit[:, None]).all())


def _modes(equations: _Equations) -> _Modes | None:
    """The modes; None where there are no real ones, damping couples them, or one is not damped."""
    M, C, K, _ = equations
    if not (_is_symmetric(K) and _is_symmetric(M)):
        return None
    k, shapes = scipy.linalg.eigh(K, M)
    damping = shapes.T @ C @ shapes
    c = np.diagonal(damping)
    if not (k.min() > 0 and c.min() > 0):
        return None
    between = np.abs(damping - np.diag(c)) / np.sqrt(np.outer(c, c))
    return _Modes(k, c, shapes) if between.max() <= COUPLED else None


class _ByModes:
    """The law of a structure by that of its modes and the correlations between them.

    A state is some vectors (N,), such as x, v and φ. A step moves all modes side by side, so that steps from all shapes
    at once, one for each of these vectors, show the matrix of every mode.
    """

    is_of_end = False

    def __init__(self, run: Any, equations: _Equations, modes: _Modes, shift: float):
        self.modes, vectors = modes, len(run.executor.real_rows) // len(modes.k)
        shapes = np.kron(np.eye(vectors), modes.shapes.sum(axis=1)[:, None])
        self.step = stepper(run, shapes, shift, float(run.spec.times[0]))
        self.to_modes, force = modes.shapes.T @ equations.M, modes.shapes.T @ equations.B
        self.common = force @ force.T
        first = np.kron(np.eye(vectors), np.eye(len(modes.k), 1))  # x and v of a coordinate are read like all others
        self.read = reading(run, first, 2 * len(modes.k))[[0, len(modes.k)]]

    def exact(self, T: float) -> np.ndarray:
        """The variances at a time T, from the stationary covariances of pairs of modes, less what is left of them after
        T."""
        k, c, W = self.modes.k, self.modes.c, self.common
        sums, apart = c[:, None] + c, k - k[:, None]
        xx = W * sums / (sums * (np.outer(c, k) + np.outer(k, c)) + apart**2)
        xv, vv = -apart * xx / sums, xx * (np.outer(c, k) + np.outer(k, c)) / sums
        if np.isfinite(T):
            P = np.block([[xx, xv], [xv.T, vv]])
            left = _left_of(P, _flow(k, c, T))
            xx, vv = (P - left)[: len(k), : len(k)], (P - left)[len(k) :, len(k) :]
        return self._in_coordinates(xx, vv)

    def delivered(self, h: float, T: float) -> np.ndarray | None:
        N = len(self.modes.k)
        matrices = self.step(h)
        if matrices is None:
            return None
        M, G = matrices
        s = M.shape[1]
        blocks, kicks = (np.einsum("ik,pkn->ipn", self.to_modes, X.reshape(s, N, -1), optimize=True) for X in (M, G))
        kicks = kicks.reshape(N * s, -1)
        P = covariance(blocks, kicks @ kicks.T, round(T / h) if np.isfinite(T) else INFINITE)
        if P is None:
            return None
        xx, vv = (np.einsum("p,ipjq,q->ij", row, P.reshape(N, s, N, s), row, optimize=True) for row in self.read)
        return self._in_coordinates(xx, vv)

    def _in_coordinates(self, xx: np.ndarray, vv: np.ndarray) -> np.ndarray:
        Φ = self.modes.shapes
        return np.concatenate([np.sum((Φ @ P) * Φ, axis=1) for P in (xx, vv)])


def _flow(k: np.ndarray, c: np.ndarray, T: float) -> tuple[np.ndarray, ...]:
    """The entries xx, xv, vx, vv of exp(A T) of each mode."""
    δ = np.sqrt(0.25 * c**2 - k + 0j)
    δ = np.where(np.abs(δ) < 1e-8 * c, 1e-8 * c, δ)  # beside critical damping, where the quotient has a limit
    grown, decayed = np.exp((δ - 0.5 * c) * T), np.exp((-δ - 0.5 * c) * T)
    even, odd = 0.5 * (grown + decayed).real, (0.5 * (grown - decayed) / δ).real
    return even + 0.5 * c * odd, odd, -k * odd, even - 0.5 * c * odd


def _left_of(P: np.ndarray, flow: tuple[np.ndarray, ...]) -> np.ndarray:
    """exp(A T) P exp(A T)' of all modes."""
    xx, xv, vx, vv = (entries[:, None] for entries in flow)

    def from_left(P: np.ndarray) -> np.ndarray:
        x, v = np.split(P, 2)
        return np.concatenate([xx * x + xv * v, vx * x + vv * v])

    return from_left(from_left(P).T)
