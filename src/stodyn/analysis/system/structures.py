"""Results that engineers look for in a structure: drifts, base shear, accelerations, stationary laws, peaks, spectra.

Exact where the structure is linear: with z = (x, v, s) of structure and filter, dz = A z dt + B dW, the covariance P
solves A P + P A' + B B' = 0, and for a response q = c z the spectral moments of its one-sided density are

    λ0 = c P c',   λ1 = (2/π) c A log(-A) P c',   λ2 = (c A) P (c A)',   λ4 = (c A²) P (c A²)',

λ2 where c B = 0: otherwise q has no rate, and crosses any level again and again. λ4 where c A B = 0, too.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn import deprecation, listing
from stodyn.arguments import check_positive, checks_arguments, suggestion
from stodyn.noise.coloured import Coloured
from stodyn.noise.coloured.delay import Delayed
from stodyn.numerics import lyapunov, sparse_lyapunov
from stodyn.numerics.printing.points import at_one
from stodyn.problems.accelerogram import Accelerogram, read_record
from stodyn.problems.accounted import Accounted, with_energy
from stodyn.problems.calling import call
from stodyn.problems.driven_mechanical import DrivenMechanical
from stodyn.problems.geometric import buckling_factors, p_delta
from stodyn.problems.ground import GroundLoad, base_excited, effective_masses, frequencies
from stodyn.problems.known_matrices import is_symmetric
from stodyn.problems.mechanical import Mechanical, Structure
from stodyn.statistics.extreme import Extreme
from stodyn.statistics.observable import Observable
from stodyn.telling import tell

__all__ = [
    "Accelerogram",
    "Peaks",
    "Responses",
    "SpectralMoments",
    "base_excited",
    "buckling_factors",
    "effective_masses",
    "floor_spectrum",
    "frequencies",
    "p_delta",
    "peaks",
    "poles",
    "read_record",
    "reduction_error",
    "response_spectrum",
    "responses",
    "spectral_moments",
    "stationary_covariance",
    "with_energy",
]
__dir__ = listing.names_of(__name__)
__getattr__ = deprecation.old_names(__name__, {"Record": ("Accelerogram", "0.3")})

DENSE = 250  # coordinates up to which a covariance is computed from dense matrices,
MOST_DENSE = 800  # and up to which it is where the iteration for sparse ones does not end: in half a minute
ENTRIES, NOISES = 60, 8  # in a row of a matrix of a large structure, and channels: with more, dense ones are cheaper
LOGARITHM = 1e-8  # relative: the largest error of exp(log(-A))
SMOOTH = 1e-9  # relative: white noise in a response below this share of its rate counts as none


RESPONSES = ("drift", "base_shear", "acceleration")


class Responses(NamedTuple):
    """Rows c with q = c (x, v) of a structure: drifts (N, 2N), base shear (k, 2N), accelerations (N, 2N).

    With a static correction, and accelerations under forces such as wind, they multiply (x, v, s), s the states of the
    filter.
    """

    drifts: np.ndarray
    base_shear: np.ndarray
    accelerations: np.ndarray

    def observables(self, **options: Any) -> list[Observable]:
        """Return each response as a statistic for `collect`, named "drift", "base_shear" and "acceleration".

        Parameters
        ----------
        **options : optional
            Options of `statistics.Observable`, such as `every`.

        Returns
        -------
        list of Observable
        """

        def of(rows: np.ndarray, name: str) -> Observable:
            width = rows.shape[1]
            return Observable(lambda t, z: jnp.asarray(rows, z.dtype) @ z[:width], name=name, **options)

        return [of(rows, name) for rows, name in zip(self, RESPONSES, strict=True)]

    def extremes(self, **options: Any) -> list[Extreme]:
        """Return the peaks of each response as a statistic for `collect`: "drift_peak", "base_shear_peak", ...

        Parameters
        ----------
        **options : optional
            Options of `statistics.Extreme`, such as `every` and `quantiles`.

        Returns
        -------
        list of Extreme
        """

        def of(rows: np.ndarray, name: str) -> Extreme:
            width = rows.shape[1]
            return Extreme(lambda t, z: jnp.asarray(rows, z.dtype) @ z[:width], name=f"{name}_peak", **options)

        return [of(rows, name) for rows, name in zip(self, RESPONSES, strict=True)]


@checks_arguments
def responses(
    problem: Any,
    direction: ArrayLike | None = None,
    drifts: ArrayLike | Sequence[str] | None = None,
    static: bool = False,
) -> Responses:
    """Return the responses of a linear structure from matrices, as rows that multiply its state.

    Accelerations are absolute, x'' + ι a_g for the ground of `base_excited`: -M⁻¹(K x + C v), and with other coloured
    forces Γ y also M⁻¹Γ y. They are without white noise, which has no value at a time. The base shear ι'(K x + C v) is
    the force of the structure on its foundation in the direction ι.

    Parameters
    ----------
    problem : Mechanical
        A linear structure of `Mechanical.from_matrices`, driven or not; of a modal reduction the responses of the whole
        structure.
    direction : array (N,) or (N, k), optional
        ι; by default that of `base_excited`, or ones.
    drifts : sequence of names, or array (k, N), optional
        The horizontal coordinates of the floors from the ground up, such as ["u1", "u2", "u3"], of which each is taken
        from the next; or which differences of displacements are drifts, as rows. By default the coordinates that the
        direction moves, in their order, as for floors that are numbered upwards. Names given twice, and rotations
        among displacements, are refused.
    static : bool
        Of a modal reduction: add the static response of the omitted modes to the coloured load,
        x ≈ Φ z + (K⁻¹ - Φ diag(ω⁻²) Φ') load. It need not improve every response: see `reduction_error`.

    Returns
    -------
    Responses

    Raises
    ------
    ValueError
        If `static` is asked of a structure that is not reduced, whose load at the nodes of the whole structure is not
        known or not constant, or that floats; if the structure has constraints.

    Warns
    -----
    UserWarning
        If drifts are taken by default where the direction leaves coordinates at rest, such as rotations: floors may
        have several others. If named floors lie from the top down. If accelerations miss a part that is not a multiple
        of the state: that of `load`, or of a force that changes with time or state (other than the ground of
        `base_excited`, whose envelope changes no row).
    """
    inner = problem.problem if isinstance(problem, Accounted) else problem
    own = _linear(inner)
    reduction = own.reduction
    whole = own if reduction is None else reduction.whole
    N = whole.N
    driven = inner if isinstance(inner, DrivenMechanical) else None
    base = driven.base[:, driven.base.any(axis=0)] if driven is not None and driven.base is not None else None
    base = base if direction is None else direction
    ι = np.ones((N, 1)) if base is None else np.asarray(base, float).reshape(N, -1)
    D = _drift_rows(whole, ι, drifts)
    M, C, K = (matrix.toarray() for matrix in whole.matrices)
    forces = np.concatenate([K, C], axis=1)
    rows_of_response = [np.concatenate([D, np.zeros_like(D)], axis=1), ι.T @ forces, -np.linalg.solve(M, forces)]
    if reduction is not None:
        Φ = scipy.linalg.block_diag(reduction.shapes, reduction.shapes)
        left_out = _left_out(inner, reduction) if static else np.zeros((N, 0))
        rows_of_response = [np.concatenate([rows @ Φ, rows[:, :N] @ left_out], axis=1) for rows in rows_of_response]
    elif static:
        raise ValueError("static: the structure is not reduced, so that nothing is left out; make it with modes=r")
    if own.load is not None and not (isinstance(own.load, GroundLoad) and own.load.is_ground_alone):
        tell("accelerations: without M⁻¹ load(t), which is not a multiple of the state")
    if driven is not None:
        rows_of_response[2] = _with_forces(driven, own, rows_of_response[2], static)
    return Responses(*rows_of_response)


def _drift_rows(whole: Structure, ι: np.ndarray, drifts: Any) -> np.ndarray:
    """The rows (k, N) of drifts, given as such, by the names of the floors' coordinates, or by a direction ι (N, j)."""
    N, names = whole.N, whole.coordinates
    drifts = [drifts] if isinstance(drifts, str) else drifts
    if drifts is None:
        floors = [i for i in range(N) if ι[i].any()] or list(range(N))
        if len(floors) < N:
            first = [repr(names[i]) for i in floors[:3]] + ["..."] * (len(floors) > 3)
            tell(
                f"drifts: taken between {', '.join(first)}, the coordinates in the direction of the ground, in their "
                "order. If these are not one for each floor from the ground up, name those that are: "
                f"drifts=[{first[0]}, ...]; or give rows"
            )
    elif len(drifts) and all(isinstance(name, str) for name in drifts):
        for name in drifts:
            if name not in names:
                raise ValueError(
                    f"drifts: there is no coordinate {name!r}; there are {', '.join(names)}{suggestion(name, names)}"
                )
        floors = [names.index(name) for name in drifts]
        _check_floors(whole, ι, floors)
    else:
        rows = np.atleast_2d(np.asarray(drifts, float))
        if rows.ndim != 2 or rows.shape[1] != N:
            raise ValueError(
                f"drifts: expected the names of the floors' coordinates, or (drifts, {N}), a column for each "
                f"coordinate, got shape {rows.shape}"
            )
        return rows
    return np.diff(np.eye(N)[floors], axis=0, prepend=np.zeros((1, N)))


def _check_floors(whole: Structure, ι: np.ndarray, floors: list[int]) -> None:
    """Refuse names of floors between which a difference is no drift, and tell of floors from the top down."""
    names, units = whole.coordinates, whole.component_units or {}
    twice = [names[i] for i in dict.fromkeys(floors) if floors.count(i) > 1]
    if twice:
        times = floors.count(names.index(twice[0]))
        raise ValueError(f"drifts: {twice[0]!r} is named {times} times; expected the name of each floor once")
    moved = [bool(ι[i].any()) for i in floors]
    if any(moved) and not all(moved):
        still, other = names[floors[moved.index(False)]], names[floors[moved.index(True)]]
        raise ValueError(
            f"drifts: {still!r} does not move with the ground as {other!r} does, as a rotation does not, so that their "
            "difference is no drift. Name horizontal coordinates alone, or give rows"
        )
    if len({str(units.get(names[i])) for i in floors}) > 1:
        words = ", ".join(f"{names[i]} [{units.get(names[i])}]" for i in floors)
        raise ValueError(f"drifts: between coordinates of one unit, but they have several: {words}")
    M, K = whole.matrices.M, whole.matrices.K
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a structure that floats
        sway = np.abs(scipy.sparse.linalg.spsolve(K.tocsc(), np.asarray(M @ ι)).reshape(whole.N, -1)[floors])
    if len(floors) > 1 and np.isfinite(sway).all() and (np.diff(sway, axis=0) < 0.0).all():
        upwards = ", ".join(repr(names[i]) for i in reversed(floors))
        tell(
            f"drifts: {names[floors[0]]!r} is taken from the ground, but under its own weight sideways the structure "
            f"moves less from each named floor to the next, as from the top down; from the ground up it is [{upwards}]"
        )


def _with_forces(problem: DrivenMechanical, own: Structure, rows: np.ndarray, static: bool) -> np.ndarray:
    """The rows of accelerations with those of coloured forces other than the ground's, which multiply s."""
    if callable(problem.into):
        if problem.base is None or not problem.base.any(axis=0).all():
            tell(
                "accelerations: without M⁻¹Γ y of a coloured force Γ that changes with time or state, which is not a "
                "multiple of the state; if it is moving ground, make the problem with base_excited(..., envelope=...)"
            )
        return rows
    reduction, M = own.reduction, own.matrices.M.toarray()
    Φ = np.eye(own.N) if reduction is None else reduction.shapes
    if static:
        free = np.linalg.solve(reduction.whole.matrices.M.toarray(), problem.at_nodes)
    else:
        free = Φ @ np.linalg.solve(M, problem.into)
    if problem.base is not None:
        whole = own if reduction is None else reduction.whole
        moved = np.linalg.solve(M, Φ.T @ (whole.matrices.M @ problem.base))
        free = free + (problem.base if static or reduction is None else Φ @ moved)
    if np.abs(free).max() <= SMOOTH * np.abs(np.linalg.solve(M, problem.into)).max():
        return rows  # the ground alone
    if own.accelerations:
        raise ValueError(
            "problem: its accelerations multiply (x, v, s), between which accelerations=True puts others; leave it out"
        )
    more = free @ problem.coloured.C
    wide = np.concatenate([rows, np.zeros_like(more)], axis=1) if rows.shape[1] == 2 * own.N else rows
    return wide + np.pad(more, ((0, 0), (2 * own.N, 0)))


def _left_out(problem: Any, reduction: Any) -> np.ndarray:
    """The displacements of the omitted modes, at rest under the ground's load, by the filter's states."""
    Φ, ω = reduction.shapes, reduction.frequencies
    known = isinstance(problem, DrivenMechanical) and problem.at_nodes is not None and not callable(problem.into)
    if reduction.held:
        raise ValueError("static: a reduction with an interface holds the static displacements of its coordinates")
    if not known or not np.allclose(Φ.T @ problem.at_nodes, problem.into, rtol=1e-9, atol=0.0):
        raise ValueError(
            "static: it needs the load of the whole structure, constant but for its noise; make the problem with "
            "base_excited without an envelope, or name coordinates of the whole structure in `into` of with_noise"
        )
    if problem.own.accelerations:
        raise ValueError(
            "static: the rows multiply (x, v, s), between which accelerations=True puts others; leave it out"
        )
    K = reduction.whole.matrices.K.toarray()
    if _floats(K):
        raise ValueError("static: K is singular, so that the structure floats and has no static displacement")
    load = problem.at_nodes @ problem.coloured.C
    return np.linalg.solve(K, load) - Φ @ ((Φ.T @ load) / ω[:, None] ** 2)


def _floats(K: np.ndarray) -> bool:
    """Whether an eigenvalue of K is 0 but for rounding, in units in which its diagonal is 1."""
    unit = np.sqrt(np.where(K.diagonal() > 0.0, K.diagonal(), 1.0))
    return not np.linalg.eigvalsh(K / unit / unit[:, None])[0] > 3.0 * len(K) * np.finfo(float).eps


def _linear(problem: Any) -> Structure:
    if not isinstance(problem, Mechanical) or not problem.own.is_linear:
        raise TypeError(
            "problem: expected a linear structure made by Mechanical.from_matrices of matrices that are known; where "
            "they are functions of t and params, give them at one value"
        )
    own: Any = problem.own
    if own.joints is not None:
        raise ValueError("problem: has constraints, along which no exact law is computed; simulate it")
    return own


class _Loads(NamedTuple):
    """White noise (N, channels) in the forces, coloured forces (N, outputs), and the filter of these."""

    white: np.ndarray
    coloured: np.ndarray
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray


def _loads(problem: Any) -> _Loads:
    own = _linear(problem)
    N = own.N
    white = np.zeros((N, 0))
    if own.noise is not None:
        if not own.facts.additive or own.facts.noise_on_t:
            raise ValueError("problem: its white noise is not constant, so that it has no stationary law")
        noise, params = own.noise, own.example_params()
        white = at_one(lambda x: call(noise, 0.0, x, x, params=params), np.zeros(N)).reshape(N, own.m)
    if not isinstance(problem, DrivenMechanical):
        return _Loads(white, np.zeros((N, 0)), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))
    if callable(problem.into):
        raise ValueError("problem: the coloured force changes with time or state, so that there is no stationary law")
    noise = problem.coloured
    if isinstance(noise, Delayed):
        raise ValueError(
            "problem: its noise is delayed; of such structures stationary_covariance gives the covariance of x and v, "
            "and other laws come from simulation"
        )
    return _Loads(white, problem.into, noise.A, noise.B, noise.C)


def _system(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """A and B of dz = A z dt + B dW, z = (x, v, s)."""
    loads = _loads(problem)
    M, C, K = (matrix.toarray() for matrix in _linear(problem).matrices)
    N = len(M)
    A = np.block([[np.zeros((N, N)), np.eye(N)], [-np.linalg.solve(M, np.concatenate([K, C], axis=1))]])
    B = np.concatenate([np.zeros_like(loads.white), np.linalg.solve(M, loads.white)])
    if not isinstance(problem, DrivenMechanical):
        return A, B
    entering = np.concatenate([np.zeros((N, len(loads.A))), np.linalg.solve(M, loads.coloured) @ loads.C])
    return (
        np.block([[A, entering], [np.zeros((len(loads.A), 2 * N)), loads.A]]),
        scipy.linalg.block_diag(B, loads.B),
    )


@checks_arguments
def stationary_covariance(problem: Any, rows: ArrayLike | None = None) -> np.ndarray:
    """Compute the exact covariance of (x, v) and the states of the filter in the long run, of a linear structure.

    Of large structures with few noises it is computed from the sparse matrices. Give `rows` there: the covariance of
    all states of a chain of 10 000 masses has 4e8 entries.

    Parameters
    ----------
    problem : Mechanical
        A linear structure of `Mechanical.from_matrices` with constant white noise or coloured forces. Where coloured
        noise is delayed, n is 2N: the covariance is that of x and v.
    rows : array (k, up to n), optional
        Responses c (x, v[, s]), as those of `responses`: their covariance is computed, in place of that of the state.

    Returns
    -------
    array (n, n) or (k, k)

    Raises
    ------
    ValueError
        If a load changes with time or state, or the rows are longer than the state.
    """
    late = isinstance(problem, DrivenMechanical) and isinstance(problem.coloured, Delayed)
    if not late and _is_large(problem):
        try:
            F = sparse_lyapunov.root(_large(problem), rows)
            return F @ F.T
        except sparse_lyapunov.NotKnown:
            if _linear(problem).N > MOST_DENSE:
                raise
    P = _covariance_with_delays(problem) if late else _stationary(problem)
    if rows is None:
        return P
    c = np.atleast_2d(np.asarray(rows, float))
    if c.shape[1] > len(P):
        raise ValueError(f"rows: expected rows of up to {len(P)} numbers, for {'(x, v)' if late else '(x, v, s)'}, got "
                         f"shape {c.shape}")  # fmt: skip
    return c @ P[: c.shape[1], : c.shape[1]] @ c.T


def _stationary(problem: Any) -> np.ndarray:
    A, B = _system(problem)
    return lyapunov.continuous(A, B @ B.T)


def _covariance_with_delays(problem: DrivenMechanical) -> np.ndarray:
    """The covariance of (x, v) = Σ_d w_d(t - τ_d) and of the part of white noise, w_d driven by y at once: that of w_d
    with w_e at another time is exp(F τ) P, F and P those of all w and s together."""
    noise = problem.coloured
    if callable(problem.into):
        raise ValueError("problem: the coloured force changes with time or state, so that there is no stationary law")
    A, B = _system(problem.own)
    (n, k), steps = (len(A), len(noise.noise.A)), np.array([late.steps for late in noise.late])
    different = np.unique(steps)
    D = len(different)
    F = np.zeros((D * n + k, D * n + k))
    F[D * n :, D * n :] = noise.noise.A
    M = problem.own.matrices.M.toarray()
    for d, count in enumerate(different):
        into = np.zeros((problem.N, k))
        for column, (output, own) in zip(problem.into.T, noise.late, strict=True):
            if own == count:
                into += np.outer(column, noise.noise.C[output])
        F[d * n : (d + 1) * n, d * n : (d + 1) * n] = A
        F[d * n + problem.N : (d + 1) * n, D * n :] = np.linalg.solve(M, into)
    spread = np.concatenate([np.zeros((D * n, noise.noise.B.shape[1])), noise.noise.B])
    P = lyapunov.continuous(F, spread @ spread.T)
    total = lyapunov.continuous(A, B @ B.T)
    for d, first in enumerate(different):
        own = slice(d * n, (d + 1) * n)
        total = total + P[own, own]
        for e in range(d):  # w_e(t - τ_e) is later than w_d(t - τ_d)
            apart = scipy.linalg.expm(F * noise.dt * (first - different[e])) @ P
            both = apart[e * n : (e + 1) * n, own]
            total = total + both + both.T
    return total


def _is_large(problem: Any) -> bool:
    """Whether sparse matrices and few noises make the iteration cheaper than Schur's form, which takes O(N³)."""
    own = _linear(problem)
    if (
        own.N <= DENSE
        or not all(map(is_symmetric, own.matrices))
        or max(matrix.nnz for matrix in own.matrices) > ENTRIES * own.N
    ):
        return False
    loads = _loads(problem)
    return loads.white.shape[1] + loads.B.shape[1] <= NOISES


def _large(problem: Any) -> sparse_lyapunov.LargeStructure:
    loads, (M, C, K) = _loads(problem), _linear(problem).matrices
    N = M.shape[0]
    noise = np.concatenate([np.zeros((N, loads.white.shape[1] + loads.B.shape[1])),
                            scipy.linalg.block_diag(loads.white, loads.B)])  # fmt: skip
    return sparse_lyapunov.LargeStructure(M, C, K, loads.coloured @ loads.C, loads.A, noise)


def _units(A: np.ndarray) -> np.ndarray:
    """Scales in which the entries of A are of one size."""
    _, (scale, _) = scipy.linalg.matrix_balance(A, permute=False, separate=True)
    return scale


@checks_arguments
def poles(problem: Any) -> np.ndarray:
    """Return the poles of a linear structure: the eigenvalues s of (s² M + s C + K) x = 0, slow ones first.

    A pole with a real part above 0 is an instability; |Im s| is a frequency, in radians per unit of time. Gyroscopic
    and circulatory forces count, unlike in `frequencies`.

    Parameters
    ----------
    problem : Mechanical
        A linear structure of `Mechanical.from_matrices`; its loads do not matter.

    Returns
    -------
    array (2N,), complex
    """
    A, _ = _system(_linear(problem))
    λ = np.linalg.eigvals(A)
    return λ[np.lexsort((λ.imag, np.abs(λ)))]


@checks_arguments
def reduction_error(
    whole: Any,
    reduced: Any,
    rows: str = "drifts",
    static: bool = False,
    drifts: ArrayLike | Sequence[str] | None = None,
) -> np.ndarray:
    """Compute the relative errors of stationary variances of responses by reduction, exactly: reduced/whole - 1.

    Parameters
    ----------
    whole, reduced : DrivenMechanical or Mechanical
        The same structure and loads with all coordinates, and reduced, with modes=r or interface=b.
    rows : str
        "drifts", "base_shear" or "accelerations".
    static : bool
        Whether the responses of the reduced one have the static correction of `responses`.
    drifts : sequence of names, or array (k, N), optional
        Which drifts, as in `responses`.

    Returns
    -------
    array, one for each response

    Raises
    ------
    TypeError
        If `reduced` was made with neither.
    """
    if _linear(reduced).reduction is None:
        raise TypeError("reduced: expected a structure made with modes=r or interface=b")
    errors = []
    for problem in (whole, reduced):
        c = getattr(responses(problem, drifts=drifts, static=static and problem is reduced), rows)
        errors.append(np.diagonal(stationary_covariance(problem, c)))
    return errors[1] / errors[0] - 1.0


# --- peaks ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Peaks:
    """The largest |q| over a time, of a stationary Gaussian response, by Vanmarcke's approximation.

    moments    λ0, λ1, λ2; sigma: √λ0
    crossings  ν, of zero per unit of time; bandwidth: δ, 0 for a single frequency
    duration   T
    """

    moments: tuple[float, float, float]
    duration: float

    @property
    def sigma(self) -> float:
        return math.sqrt(self.moments[0])

    @property
    def crossings(self) -> float:
        return math.sqrt(self.moments[2] / self.moments[0]) / math.pi

    @property
    def bandwidth(self) -> float:
        λ0, λ1, λ2 = self.moments
        return math.sqrt(max(1.0 - λ1**2 / (λ0 * λ2), 0.0))

    def survival(self, factor: ArrayLike) -> np.ndarray:
        """Compute the probability P(|q| < r σ) that a response stays below a level for the whole time.

        Parameters
        ----------
        factor : float or array
            r, the level in standard deviations.

        Returns
        -------
        array
        """
        r = np.asarray(factor, float)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            grouped = -np.expm1(-math.sqrt(0.5 * math.pi) * self.bandwidth**1.2 * r)
            rate = self.crossings * self.duration * grouped / np.expm1(0.5 * r**2)
            return np.where(r > 0.0, -np.expm1(-0.5 * r**2) * np.exp(-rate), 0.0)

    @property
    def factor(self) -> float:
        """The mean of max|q|/σ, the peak factor."""
        return self._moment(lambda r: 1.0)

    @property
    def factor_sd(self) -> float:
        """The standard deviation of max|q|/σ."""
        return math.sqrt(max(self._moment(lambda r: 2.0 * r) - self.factor**2, 0.0))

    @property
    def expected_maximum(self) -> float:
        """E max|q|, the mean of the largest |q|."""
        return self.factor * self.sigma

    def _moment(self, weight: Any) -> float:
        top = math.sqrt(2.0 * math.log(max(self.crossings * self.duration, 1.0)) + 80.0)
        moment, _ = scipy.integrate.quad(lambda r: weight(r) * (1.0 - float(self.survival(r))), 0.0, top, limit=200,
                                        epsabs=1e-12)  # fmt: skip
        return moment


@checks_arguments
def peaks(problem: Any, row: ArrayLike, duration: float) -> Peaks:
    """Return the law of the largest |q| of a response q = row · (x, v[, s]) over a time, from the stationary start on.

    Vanmarcke's formula (J. Appl. Mech. 42, 1975) is an approximation, good to some per cent of the mean for structures:
    use it beside a sampled `Passage`, not instead of one.

    Parameters
    ----------
    problem : Mechanical
        A linear structure of `Mechanical.from_matrices` with stationary loads.
    row : array
        c, as the rows of `responses`.
    duration : float
        T, > 0.

    Returns
    -------
    Peaks

    Raises
    ------
    ValueError
        If `row` does not fit the state, noise does not move the response, or `duration` is not above 0.

    Warns
    -----
    UserWarning
        If the structure has a load without noise, such as recorded ground, which is left out.
    """
    check_positive("a time", duration=duration)
    _tell_of_load(problem)
    A, B = _system(problem)
    moments = _moments(A, B, stationary_covariance(problem), _checked_row(row, len(A)))
    return _peaks(moments, duration)


def _peaks(moments: SpectralMoments, duration: float) -> Peaks:
    """The law of the largest |q|, of a response that moves."""
    if not (moments.λ0 > 0.0 and moments.λ2 > 0.0):
        raise ValueError(
            f"row: noise does not move this response, which has the variance {moments.λ0:g} and the variance of its "
            f"rate {moments.λ2:g}; expected numbers > 0. Put noise into the structure with base_excited or with_noise, "
            "or take a response that it reaches"
        )
    return Peaks(moments[:3], float(duration))


def _checked_row(row: ArrayLike, states: int) -> np.ndarray:
    """A row with an entry for each state."""
    weights = np.asarray(row, float).ravel()
    if not np.isfinite(weights).all():
        raise ValueError(f"row: expected finite numbers, got {weights}")
    if len(weights) > states:
        raise ValueError(f"row: expected up to {states} numbers, one for each state, got {len(weights)}")
    return np.concatenate([weights, np.zeros(states - len(weights))])


def _tell_of_load(problem: Any) -> None:
    """Warn where a load without noise moves a response, too: its law is then one about a mean that moves."""
    load = _linear(problem).load
    if load is not None:
        what = "recorded ground" if isinstance(load, GroundLoad) else "load(t)"
        tell(
            f"problem: this is the law of what noise adds to the response; {what}, which moves its mean, is left out. "
            "Of both together simulate a run with statistics.Extreme or statistics.Rainflow"
        )


class SpectralMoments(NamedTuple):
    """λn = ∫ ω^n G(ω) dω of the one-sided density G of a response; λ4 is infinite where it does not exist."""

    λ0: float
    λ1: float
    λ2: float
    λ4: float


@checks_arguments
def spectral_moments(problem: Any, row: ArrayLike) -> SpectralMoments:
    """Compute the exact spectral moments λ0, λ1, λ2, λ4 of a stationary response q = row · (x, v[, s]).

    λ0, λ2 and λ4 are the variances of q, q' and q'', from Lyapunov's equation; λ1 comes from the logarithm of the
    system's matrix. Nothing is integrated numerically. Where frequencies lie far apart, λ1 is known to the order of
    1e-16 (ω_max/ω_min)² of itself: to 1e-7 if the largest is 3e4 times the smallest.

    Parameters
    ----------
    problem : Mechanical
        A linear structure of `Mechanical.from_matrices` with stationary loads.
    row : array
        c, as the rows of `responses`: a stress is a multiple of displacements.

    Returns
    -------
    SpectralMoments
        λ4 is infinite where white noise enters q'', as in a displacement under white noise.

    Raises
    ------
    ValueError
        If `row` does not fit the state, or white noise enters the response itself, which then has no λ2.

    Warns
    -----
    UserWarning
        If the structure has a load without noise, such as recorded ground, which is left out.

    Examples
    --------
    >>> import stodyn as sd
    >>> mast = sd.Mechanical.from_matrices([1.0], [0.2], [4.0])
    >>> blown = sd.with_noise(mast, sd.noise.coloured.gauss_markov(1.0, 1.0), into="x0")
    >>> moments = sd.structures.spectral_moments(blown, [1.0])
    """
    _tell_of_load(problem)
    A, B = _system(problem)
    return _moments(A, B, stationary_covariance(problem), _checked_row(row, len(A)))


def _has_noise(c: np.ndarray, A: np.ndarray, B: np.ndarray, size: float) -> bool:
    """Whether white noise reaches c z directly, beyond rounding; size: the standard deviation of its rate."""
    decay = float(np.abs(np.linalg.eigvals(A)).max())
    return float(np.linalg.norm(c @ B)) > SMOOTH * size / math.sqrt(decay)


def _moments(A: np.ndarray, B: np.ndarray, P: np.ndarray, c: np.ndarray) -> SpectralMoments:
    rate, second = c @ A, c @ A @ A
    size, size_of_second = (math.sqrt(max(float(r @ P @ r), 0.0)) for r in (rate, second))
    if _has_noise(c, A, B, size):
        raise ValueError(
            "row: white noise reaches this response directly, so that its rate has no finite variance and it crosses "
            "every level it reaches again at once: there is no finite rate of crossings. Accelerations under white "
            "noise are such; give the ground a spectrum that falls off, or take a displacement"
        )
    unit = _units(A)
    scaled = A * unit / unit[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # its error is checked here
        log = np.real(scipy.linalg.logm(-scaled))
    if np.abs(scipy.linalg.expm(log) + scaled).max() > LOGARITHM * np.abs(scaled).max():
        raise ValueError("problem: its frequencies are so far apart that the logarithm of its matrix is not accurate")
    log = log * unit[:, None] / unit
    λ1 = 2.0 / math.pi * float(c @ A @ log @ P @ c)
    λ4 = math.inf if _has_noise(rate, A, B, size_of_second) else size_of_second**2
    return SpectralMoments(float(c @ P @ c), λ1, size**2, λ4)


@checks_arguments
def response_spectrum(
    ground: Coloured, periods: ArrayLike, damping: float = 0.05, duration: float = 10.0, kind: str = "acceleration"
) -> np.ndarray:
    """Compute the expected peak response of single oscillators on ground with a known spectrum, over their periods.

    x'' + 2 ζ ω x' + ω² x = -a_g: σ exact by Lyapunov's equation, the peak factor over `duration` by Vanmarcke.

    Parameters
    ----------
    ground : Coloured
        The acceleration of the ground, with one output.
    periods : array
        2π/ω, > 0.
    damping : float
        ζ.
    duration : float
        Of the strong motion, which is taken as stationary.
    kind : str
        "displacement" x; "velocity" ω x; "acceleration" ω² x (the last two are the pseudo spectra of codes).

    Returns
    -------
    array like periods

    Raises
    ------
    ValueError
        If an argument is not above 0, `kind` is unknown, or the ground has several outputs.
    """
    powers = {"displacement": 0, "velocity": 1, "acceleration": 2}
    if kind not in powers:
        raise ValueError(f"kind: expected one of {', '.join(powers)}, got {kind!r}")
    if len(ground.C) != 1:
        raise ValueError(f"ground: expected one output, got {ground.names}")
    T = np.asarray(periods, float)
    if not (np.isfinite(T).all() and (T > 0).all()):
        raise ValueError(f"periods: expected times > 0, got {periods!r}")
    check_positive("a ratio", damping=damping)
    spectrum = np.empty(T.shape)
    for index, period in np.ndenumerate(T):
        ω = 2.0 * math.pi / period
        single = structure_of_one(ω, damping)
        law = peaks(base_excited(single, ground), [1.0, 0.0], duration)
        spectrum[index] = ω ** powers[kind] * law.expected_maximum
    return spectrum


@checks_arguments
def floor_spectrum(
    problem: Any, row: ArrayLike, periods: ArrayLike, damping: float = 0.05, duration: float = 10.0
) -> np.ndarray:
    """Compute a floor response spectrum: the expected peak acceleration of light equipment on a floor, over periods.

    u'' + 2 ζ ω u' + ω² u = -a with the absolute acceleration a of the floor, ω² max|u| expected. The equipment is too
    light to act back. σ is exact, by Lyapunov's equation of structure and equipment; the peak factor over `duration` is
    Vanmarcke's.

    Parameters
    ----------
    problem : Mechanical
        A linear structure of `Mechanical.from_matrices` with stationary loads, as of `base_excited`.
    row : array
        The absolute acceleration of the floor, a row of `responses(problem).accelerations`.
    periods : array
        2π/ω, > 0.
    damping : float
        ζ of the equipment.
    duration : float
        Of the strong motion, which is taken as stationary.

    Returns
    -------
    array like periods

    Raises
    ------
    ValueError
        If an argument is not above 0, `row` does not fit the state, or noise does not move the floor.

    Warns
    -----
    UserWarning
        If the structure has a load without noise, such as recorded ground, which is left out.
    """
    T = np.asarray(periods, float)
    if not (np.isfinite(T).all() and (T > 0).all()):
        raise ValueError(f"periods: expected times > 0, got {periods!r}")
    check_positive("a ratio", damping=damping)
    check_positive("a time", duration=duration)
    _tell_of_load(problem)
    A, B = _system(problem)
    c, n = _checked_row(row, len(A)), len(A)
    spectrum = np.empty(T.shape)
    for index, period in np.ndenumerate(T):
        ω = 2.0 * math.pi / period
        both = np.zeros((n + 2, n + 2))
        both[:n, :n], both[n, n + 1] = A, 1.0
        both[n + 1] = np.concatenate([-c, [-(ω**2), -2.0 * damping * ω]])
        noise = np.concatenate([B, np.zeros((2, B.shape[1]))])
        moments = _moments(both, noise, lyapunov.continuous(both, noise @ noise.T), np.eye(n + 2)[n])
        spectrum[index] = ω**2 * _peaks(moments, duration).expected_maximum
    return spectrum


def structure_of_one(omega: float, zeta: float) -> Any:
    """Make the oscillator x'' + 2 ζ ω x' + ω² x = 0."""
    return Structure.from_matrices([[1.0]], [[2.0 * zeta * omega]], [[omega**2]])
