"""White noise through an integrator: the covariance it delivers for x' = A x + B w, and the noise it needs."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.analysis.step.integrator import (
    SINGLE,
    BlackBox,
    Integrator,
    resolved,
    square,
    system_step,
    system_steps,
    unscaled,
)
from stodyn.analysis.step.linear import Diverged, Moments, StepMap, axes, exact_moments, principal, read_map
from stodyn.analysis.step.one_step import OneStep
from stodyn.arguments import check_positive, checks_arguments
from stodyn.engine.precision import warn_of_rounded
from stodyn.methods import classical, multistep
from stodyn.methods.catalogue import stepping
from stodyn.methods.contract import Method
from stodyn.methods.exact import VanLoan
from stodyn.numerics import gauss, lyapunov, van_loan
from stodyn.problems.contract import expect_problem
from stodyn.problems.linear import GaussianStart, intensity
from stodyn.problems.linear_plant import refuse_random_params
from stodyn.problems.sde import SDE

__dir__ = listing.names_of(__name__)

REACH = (1e-3, 1e3)  # steps tried for the stability limit, times the largest |eigenvalue| of A
TINY = 1e-6  # a step at which only components that noise drives directly are affected
DELIVERED = 1e-9  # of a covariance: an error that is none, by choice far above the 1e-11 to which covariances are right
FEW = 5  # nodes per normal for means at small steps: they are right to h⁴


# --- scalar questions: x' = A x + w, z = hA -------------------------------------------------------------------------


@checks_arguments
def gamma(integrator: Integrator, driven: ArrayLike = 1.0) -> float:
    """Compute Γ: samples of covariance ΓQ/h give the covariance of the continuous process as h -> 0.

    It is 1 / Σ (total weight of a sample, over all later steps that reuse it)², from the step on x' = w.

    Parameters
    ----------
    integrator : Method, str, BlackBox or function
        A method or its name, a BlackBox, or a function step(f, x, t, h, noise) of your own.
    driven : array (n, m)
        B, for a step that is made for several components, such as a position and its velocity: the step is then taken
        on x' = B w.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the samples of the step leave no trace in x.
    """
    B = np.asarray(driven, float)
    B = B.reshape(1, 1) if B.ndim == 0 else B
    h = 1.0 if len(B) == 1 else TINY  # the noise of components that it does not drive directly vanishes with h
    weights = float(np.sum(system_step(unscaled(integrator), np.zeros((len(B), len(B))), B, h).total ** 2)) / h
    if not weights:
        raise ValueError(f"{resolved(integrator).name}: its samples leave no trace in x; pass them to f(x, t, w)")
    return float(np.sum(B**2)) / weights


@checks_arguments
def kappa(integrator: Integrator, driven: ArrayLike = 1.0) -> float:
    """Compute κ of the equation dx = (f + κ Σ (∂g_k/∂x) g_k) dt + g dW that an integrator solves.

    It is 0 for Ito's equation and 1/2 for Stratonovich's.
    The mean of x' = x w grows as 1 + κh + O(h²) in a step: κ is the limit of (λ - 1)/h, λ the eigenvalue near 1 of the
    mean of the step's matrix, which for a method with a history is larger than (1, 1).

    Parameters
    ----------
    integrator, driven
        As in `gamma`; in components that `driven` leaves alone there is no noise.

    Returns
    -------
    float
    """
    integrator, rows = resolved(integrator), np.atleast_2d(np.asarray(driven, float)).any(axis=1).astype(float)
    scale = math.sqrt(gamma(integrator, driven)) if isinstance(integrator, BlackBox) else 1.0
    single = isinstance(integrator, BlackBox) and integrator.defect == SINGLE
    steps = (2.0**-4 if single else 2.0**-8) * 0.5 ** np.arange(2 if single else 4)
    with jax.enable_x64(True):
        mean = _mean_of_method(integrator) if isinstance(integrator, Method) else _mean_of_box(integrator, rows, scale)
        growth = [(np.sum(principal(mean(h), len(rows))[0].real - 1.0)) / h for h in steps]
    return float(np.polynomial.polynomial.polyfit(steps, growth, len(steps) - 1)[0]) / float(rows.sum())


def _mean_of_method(method: Method) -> Callable[[float], np.ndarray]:
    """Return h -> the mean over its normals of the matrix that takes the state of a step to the next, dx = x dW."""
    problem: Any = SDE(lambda t, x: 0.0 * x, lambda t, x: x[:, None], [1.0], calculus=method.calculus or "ito")
    if not isinstance(problem, method.accepts):
        lowered = problem.lower(method.accepts)
        if lowered is None:
            kind = method.accepts.__name__
            raise TypeError(f"integrator: {method.name} steps only {kind} problems, but κ is that of dx = x dW")
        problem = lowered[0]
    one, rules = OneStep(problem, method, convert=False), axes(method.needs, 1, FEW)

    def matrix(h: float, xi: np.ndarray) -> np.ndarray:
        s = np.concatenate([np.zeros((1, one.size)), np.eye(one.size)])
        after = one.after(0.0, h, None, s, np.tile(xi, (len(s), 1)))
        return (after[1:] - after[0]).T

    return lambda h: _averaged(functools.partial(matrix, h), rules)


def _mean_of_box(box: BlackBox, rows: np.ndarray, scale: float) -> Callable[[float], np.ndarray]:
    """Return h -> the mean of the matrix of a step of the user's own, with noise in some rows alone, its samples
    `scale` times as large."""

    def derivative(x, t, w):
        return rows * x * w

    derivative.m = 1  # type: ignore[attr-defined]
    size = len(rows) * (box.memory + 1)
    _, draws = box.once(derivative, np.ones(size), 1.0, None)

    def mean(h: float) -> np.ndarray:
        def matrix(xi: np.ndarray) -> np.ndarray:
            samples = scale * xi[:, None] / math.sqrt(h)
            return np.stack([box.once(derivative, s, h, samples)[0] for s in np.eye(size)], axis=1)

        return _averaged(matrix, [gauss.hermite(FEW)] * draws)

    return mean


def _averaged(matrix: Callable[[np.ndarray], np.ndarray], rules: list[gauss.Rule]) -> np.ndarray:
    """Return the mean of a matrix over normals, by the product of their rules."""
    total: Any = 0.0
    for entry in itertools.product(*(zip(values, weights, strict=True) for values, weights in rules)):
        values, weights = np.array([v for v, _ in entry]), math.prod(w for _, w in entry)
        total = total + weights * matrix(values)
    return total


@checks_arguments
def require_consistent(box: BlackBox, A: np.ndarray, B: np.ndarray) -> None:
    """Refuse a step that does not solve x' = A x + B w: one that moves x = 0, or has another rate.

    Parameters
    ----------
    box : BlackBox
        The step.
    A, B : arrays (n, n) and (n, m)
        The system.

    Raises
    ------
    ValueError
        If the step is not consistent.
    """
    h = 1e-3 / max(float(np.abs(np.linalg.eigvals(A)).max()), 1e-300)
    step = system_step(box, A, B, h)
    if np.abs(step.c).max() > 1e-2 * h:
        raise ValueError(
            f"{box.name}: takes x = 0 of x' = A x to {_in_a_line(step.R @ step.c)}; expected 0. It adds a term "
            "that does not belong to the equation"
        )
    rates = (principal(step.M, len(A))[0] - 1.0) / h
    wanted = np.linalg.eigvals(A)
    growth, expected = np.sum(rates).real, np.sum(wanted).real
    if abs(growth - expected) > 0.02 * np.abs(wanted).sum():
        raise ValueError(
            f"{box.name}: is not a consistent step: for small h it multiplies x of x' = A x as if the rates of A "
            f"added up to {growth:.4g} and not to {expected:.4g}. Check the weights of the derivatives"
        )


@checks_arguments
def local_factor(integrator: Integrator, z: float) -> float:
    """Compute f(z): a step of a one-step method adds the variance h Q f(hA); (exp(2z) - 1)/(2z) is exact.

    Parameters
    ----------
    integrator
        As in `gamma`.
    z : float
        The step times the pole, hA.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the method has several steps, which share samples.
    """
    step = system_step(integrator, z, 1.0, 1.0)
    if step.M.shape != (1, 1):
        raise ValueError("f(z): asked of a multistep method, whose steps share samples; ask for steady_ratio")
    return float(np.sum(step.G**2))


@checks_arguments
def error_function(integrator: Integrator, z: float) -> float:
    """Compute V(z) = 2 z f(z) - exp(2z) + 1, Riggs' (88); over exp(2z) - 1 it is the relative error of one step.

    Parameters
    ----------
    integrator, z
        As in `local_factor`.

    Returns
    -------
    float
    """
    return 2.0 * z * local_factor(integrator, z) - math.expm1(2.0 * z)


@checks_arguments
def steady_ratio(integrator: Integrator, z: float) -> float:
    """Compute P_D/P: the variance delivered in the steady state of x' = A x + w, hA = z < 0, over that of the process.

    Parameters
    ----------
    integrator
        As in `gamma`.
    z : float
        The step times the pole, hA, below 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If z is not below 0.
    """
    if not (math.isfinite(z) and z < 0):
        raise ValueError(f"z: expected h times a pole A < 0, got {z!r}")
    return float(2.0 * steady(integrator, -1.0, 1.0, -z)[0, 0])


# --- systems --------------------------------------------------------------------------------------------------------


@checks_arguments
def delivered(
    problem: Any,
    method: Method | str,
    dt: ArrayLike,
    steps: int | None = None,
    mean: ArrayLike | None = None,
    covariance: ArrayLike | None = None,
    t0: float = 0.0,
) -> Moments:
    """Compute the mean and covariance that a method delivers after every step, including starting steps.

    Parameters
    ----------
    problem : Problem
        Linear with additive noise; its coefficients may depend on time.
    method : Method or str
        A method that makes steps, or its name.
    dt, steps : float or array, and int
        The step and the number of steps, or in `dt` alone the lengths of all steps.
    mean, covariance : arrays (n,) and (n, n), optional
        Of the state at the start; by default those of the problem.
    t0 : float
        The time of the start.

    Returns
    -------
    Moments
        Mean (steps + 1, n) and covariance (steps + 1, n, n).

    Raises
    ------
    ValueError
        If `dt` and `steps` do not describe steps, or a multistep method gets steps of different lengths.
    """
    expect_problem(problem)
    refuse_random_params("problem", problem)
    warn_of_rounded(problem, "this analysis in float64")
    n, method, t = problem.n, stepping(method), t0
    if (np.ndim(dt) == 0) == (steps is None):
        raise ValueError(
            f"dt, steps: expected a step and the number of steps, or the lengths of all steps in dt alone, "
            f"got dt={dt!r}, steps={steps!r}"
        )
    lengths = np.full(steps, dt, float) if steps is not None else np.asarray(dt, float)
    if method.starting_steps and len(lengths) and np.ptp(lengths) > 1e-9 * lengths[0]:
        raise ValueError(f"dt: {method.name} takes its history at equal steps, but the steps given differ")
    m0, P0 = _initial(problem, mean, covariance)
    one = OneStep(problem, method, often=False)
    starter = OneStep(problem, method, starting=True, often=False) if method.starting_steps else one
    S, _ = one.start(t, problem.example_params())
    m, P = S[:, :-1] @ m0 + S[:, -1], S[:, :-1] @ P0 @ S[:, :-1].T
    autonomous, steps = one.autonomous, len(lengths)
    means, covariances = np.empty((steps + 1, n)), np.empty((steps + 1, n, n))
    known: dict[float, StepMap] = {}
    read = one.reading[0][:, :-1]
    for k in range(steps + 1):
        means[k], covariances[k] = read @ m, read @ P @ read.T
        if k == steps:
            break
        step = known.get(lengths[k]) if autonomous and k >= method.starting_steps else None
        if step is None:
            is_first = k < method.starting_steps
            step = read_map(starter if is_first else one, lengths[k], t, problem.params, None, k)
            if not is_first:
                known[lengths[k]] = step
        m, P = step.advance(m, P)
        t += lengths[k]
    return Moments(means, covariances)


@checks_arguments
def exact(
    problem: Any, t: ArrayLike, mean: ArrayLike | None = None, covariance: ArrayLike | None = None, t0: float = 0.0
) -> Moments:
    """Compute the mean and covariance of the continuous process at the times t, Riggs' (13)-(16).

    By `linear.exact_moments`: the matrix exponential where the coefficients are constant, otherwise an integration to
    12 digits. By default the moments at `t0` are those of the problem's start.

    Parameters
    ----------
    problem : Problem
        A linear problem.
    t : float or array
        A time or an array of times, none before `t0`.
    mean, covariance : arrays (n,) and (n, n), optional
        Of the state at time `t0`; by default those of the problem's start.
    t0 : float
        The time of the start.

    Returns
    -------
    Moments
        Mean (..., n) and covariance (..., n, n), with the axes of `t` in front.
    """
    expect_problem(problem)
    warn_of_rounded(problem, "this analysis in float64")
    return exact_moments(problem, t, *_initial(problem, mean, covariance), t0)


@checks_arguments
def steady(integrator: Integrator, A: ArrayLike, B: ArrayLike, dt: float, Q: ArrayLike | None = None) -> np.ndarray:
    """Compute the covariance that an integrator delivers in the steady state of x' = A x + B w.

    Parameters
    ----------
    integrator
        As in `gamma`.
    A, B : arrays (n, n) and (n, m)
        The system.
    dt : float
        The step.
    Q : array (m, m), optional
        The intensity of w; by default 1 per channel.

    Returns
    -------
    array (n, n)

    Examples
    --------
    RK4 with the noise held over each step, on x' = -x + w, whose variance is 1/2:

    >>> import stodyn as sd
    >>> round(float(sd.analysis.covariance.steady("RK4", -1.0, 1.0, 0.1)[0, 0]), 5)
    0.49958
    """
    A, B = _system(A, B, Q)
    step = system_step(integrator, A, B, dt)
    _require_stable(integrator, A, B, dt, step)
    return _settled(step)


@checks_arguments
def exact_steady(A: ArrayLike, B: ArrayLike, Q: ArrayLike | None = None) -> np.ndarray:
    """Compute the covariance P of x' = A x + B w in the steady state, by Lyapunov's equation A P + P A' + B Q B' = 0.

    Each variance has a relative error far below 1e-9, whatever the units of the components.

    Parameters
    ----------
    A, B, Q
        As in `steady`.

    Returns
    -------
    array (n, n)

    Raises
    ------
    ValueError
        If the system is not stable, or numbers of 16 digits do not determine its covariance.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.analysis.covariance.exact_steady(-1.0, 1.0)
    array([[0.5]])
    """
    A, B = _system(A, B, Q)
    return lyapunov.continuous(A, B @ B.T)


@checks_arguments
def spectrum(
    integrator: Integrator, A: ArrayLike, B: ArrayLike, dt: float, frequency: ArrayLike, Q: ArrayLike | None = None
) -> np.ndarray:
    """Compute the two-sided spectral density of the discrete state; `exact_spectrum` is that of the process.

    h Σ_k Cov(x_j, x_(j+k)) exp(-2πi f k h) = h T T*, T = R (exp(2πi f h) - M)^-1 G.

    Parameters
    ----------
    integrator, A, B, dt, Q
        As in `steady`.
    frequency : array
        In cycles per unit of time.

    Returns
    -------
    array (..., n, n)
    """
    A, B = _system(A, B, Q)
    step = system_step(integrator, A, B, dt)
    _require_stable(integrator, A, B, dt, step)
    frequencies = np.asarray(frequency, float)
    result = np.empty((*frequencies.shape, len(A), len(A)), complex)
    for index, f in np.ndenumerate(frequencies):
        turn = np.exp(2j * np.pi * f * dt) * np.eye(len(step.M))
        T = step.R @ np.linalg.solve(turn - step.M, step.G)
        result[index] = dt * T @ T.conj().T
    return result


@checks_arguments
def exact_spectrum(A: ArrayLike, B: ArrayLike, frequency: ArrayLike, Q: ArrayLike | None = None) -> np.ndarray:
    """Compute the two-sided spectral density of x' = A x + B w.

    Parameters
    ----------
    A, B, Q
        As in `steady`.
    frequency : array
        In cycles per unit of time.

    Returns
    -------
    array (..., n, n)
    """
    A, B = _system(A, B, Q)
    frequencies = np.asarray(frequency, float)
    result = np.empty((*frequencies.shape, len(A), len(A)), complex)
    for index, f in np.ndenumerate(frequencies):
        T = np.linalg.solve(2j * np.pi * f * np.eye(len(A)) - A, B)
        result[index] = T @ T.conj().T
    return result


@checks_arguments
def stability_limit(integrator: Integrator, A: ArrayLike = -1.0) -> float:
    """Compute the step up to which an integrator is stable on x' = A x.

    Parameters
    ----------
    integrator
        As in `gamma`.
    A : array (n, n)
        The system; with the default -1 the limit is that of |z|.

    Returns
    -------
    float
        inf where it is always stable.

    Raises
    ------
    ValueError
        If the system itself is not stable.
    """
    A = square(A)
    eigenvalues = np.linalg.eigvals(A)
    if eigenvalues.real.max() >= 0:
        raise ValueError(
            f"A: not stable itself, an eigenvalue has the real part {eigenvalues.real.max():.6g}, so that no step is "
            "stable on it. Γ and κ do not depend on it (gamma, kappa); `delivered` gives covariances at finite times."
        )
    size = np.abs(eigenvalues).max()
    B = np.eye(len(A))

    def unstable(h: float) -> bool:
        try:
            return not system_step(integrator, A, B, h).spectral_radius() < 1.0
        except Diverged:
            return True

    return _boundary(unstable, size)


def _boundary(beyond: Callable[[float], bool], size: float) -> float:
    """The smallest h, in units of 1/size within REACH, where `beyond` begins to hold; inf where it never does, 0 where
    it does from the beginning.
    """
    low = 0.0
    for h in np.geomspace(REACH[0] / size, REACH[1] / size, 300):
        if beyond(h):
            break
        low = h
    else:
        return math.inf
    if low == 0.0:
        return 0.0
    high = float(h)
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return float(high)


@checks_arguments
def largest_step(
    integrator: Integrator, A: ArrayLike, B: ArrayLike, within: float, Q: ArrayLike | None = None
) -> float:
    """Compute the step up to which all steady-state variances of x' = A x + B w have relative errors below `within`.

    Parameters
    ----------
    integrator, A, B, Q
        As in `steady`.
    within : float
        The relative error, > 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `within` is not above 0.
    """
    check_positive("a relative error", within=within)
    A, driven = _system(A, B, Q)
    target = np.diagonal(lyapunov.continuous(A, driven @ driven.T))
    size = np.abs(np.linalg.eigvals(A)).max()

    def off(h: float) -> bool:
        try:
            step = system_step(integrator, A, driven, h)
        except Diverged:
            return True
        if not step.spectral_radius() < 1.0 - lyapunov.LEAST_DECAY:
            return True
        P = _settled(step)
        return bool(np.any(np.abs(np.diagonal(P) - target) > within * target))

    return _boundary(off, size)


# --- the noise an integrator needs ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class NoiseNeeded:
    """The samples with which an integrator delivers the covariance of x' = A x + B w.

    samples      (n, n): the covariance that a sample added to the derivative must have; exact where it is one
    eigenvalues  of it: a negative one means that no such samples exist; NaN where the step takes no noise in some
                 components, and so has no such samples whatever their covariance is
    channels     (m, m): the same as a covariance of w, where the noise can stay in the channels of B; else None
    scale        the best factor on ΓQ/h if the noise must stay what it is: rank(P_D) / tr(P^-1 P_D), which brings
                 N(0, P_D) nearest to N(0, P)
    residual     (n, n): the error that is then left, scale · P_D - P
    rounding     how much of an eigenvalue may be rounding
    """

    samples: np.ndarray
    eigenvalues: np.ndarray
    channels: np.ndarray | None
    scale: float
    residual: np.ndarray
    rounding: float = 0.0

    @property
    def exists(self) -> bool:
        """Whether there are such samples at all: their covariance has no negative eigenvalue."""
        return bool(self.eigenvalues[0] >= -self.rounding)

    def __str__(self) -> str:
        if self.exists and self.channels is not None:
            return f"Exact with samples of covariance {_in_a_line(self.channels)}."
        reason = (
            "the noise would have to leave the channels of B"
            if self.exists
            else "the step takes no noise in some of the components"
            if np.isnan(self.eigenvalues[0])
            else f"the covariance asked for is indefinite (lowest eigenvalue {self.eigenvalues[0]:.4g})"
        )
        return (
            f"No exact samples in these channels: {reason}. Best factor on ΓQ/h: {self.scale:.6g}, which leaves "
            f"{_in_a_line(self.residual)} of the covariance. The exact "
            "discretisation (VanLoan) does not need any of this."
        )


def _in_a_line(matrix: np.ndarray) -> str:
    return np.array2string(matrix, precision=6, separator=", ").replace("\n", "")


@checks_arguments
def noise_needed(
    integrator: Integrator, A: ArrayLike, B: ArrayLike, dt: float, Q: ArrayLike | None = None, match: str = "steady"
) -> NoiseNeeded:
    """Compute the samples that give the exact covariance of the process, in the steady state or in every step.

    Parameters
    ----------
    integrator, A, B, dt, Q
        As in `steady`.
    match : "steady" or "local"
        "local", for one-step methods: every step adds ∫ exp(As) BQB' exp(A's) ds.

    Returns
    -------
    NoiseNeeded

    Raises
    ------
    ValueError
        If `match` is unknown, or "local" is asked of a multistep method.
    """
    if match not in ("steady", "local"):
        raise ValueError(f'match: expected "steady" or "local", got {match!r}')
    A, driven = _system(A, B, Q)
    n = len(A)
    own = system_step(integrator, A, driven, dt)
    _require_stable(integrator, A, driven, dt, own)
    step = system_step(unscaled(integrator), A, np.eye(n), dt)
    pieces = np.moveaxis(step.G.reshape(len(step.G), -1, n), 1, 0)  # one piece for each sample: (N, n)
    if match == "steady":
        target = lyapunov.continuous(A, driven @ driven.T)
        mine = _settled(own)
    else:
        if len(step.M) != n:
            raise ValueError("match: a step of a multistep method shares its samples with others; take match='steady'")
        target = van_loan.discretise(A, driven, np.eye(driven.shape[1]), dt)[1]
        mine = own.R @ own.G @ own.G.T @ own.R.T

    def delivered_by(W: np.ndarray) -> np.ndarray:
        added = sum(piece @ W @ piece.T for piece in pieces)
        if match == "steady":
            return lyapunov.discrete(step.M, added, step.R)
        return step.R @ added @ step.R.T

    rows, columns = np.tril_indices(n)
    basis = []
    for i, j in zip(rows, columns, strict=True):
        e = np.zeros(n)
        e[[i, j]] = 1.0
        basis.append(np.outer(e, e))  # covariances, of which all symmetric matrices are sums
    system = np.stack([delivered_by(E)[rows, columns] for E in basis], axis=1)
    wanted, _, rank, values = np.linalg.lstsq(system, target[rows, columns], rcond=None)
    rounding = n * lyapunov.SMALL * values[0] / values[rank - 1] * float(np.abs(wanted).max()) / dt
    reached = np.allclose(system @ wanted, target[rows, columns], rtol=0, atol=DELIVERED * np.abs(target).max())
    W = sum(w * E for w, E in zip(wanted if reached else np.nan * wanted, basis, strict=True)) / dt
    left = np.linalg.pinv(np.atleast_2d(np.asarray(B, float)))
    channels = left @ W @ left.T
    back = np.atleast_2d(np.asarray(B, float)) @ channels @ np.atleast_2d(np.asarray(B, float)).T
    stays = reached and np.allclose(back, W, rtol=0, atol=DELIVERED * np.abs(W).max())
    scale = _nearest_factor(mine, target)
    eigenvalues = np.linalg.eigvalsh(W) if reached else np.full(n, np.nan)
    return NoiseNeeded(W, eigenvalues, channels if stays else None, scale, scale * mine - target, rounding)


def _nearest_factor(mine: np.ndarray, target: np.ndarray) -> float:
    """rank(P_D) / tr(P^-1 P_D), in units in which the variances of P are 1 and entries are right to lyapunov.SMALL."""
    variances = target.diagonal()
    unit = np.sqrt(np.where(variances > 0.0, variances, 1.0))
    mine, target = (P / unit / unit[:, None] for P in (mine, target))
    rounding = len(mine) * lyapunov.SMALL
    rank = np.linalg.matrix_rank(mine, tol=rounding * np.abs(mine).max(), hermitian=True)
    return float(rank / np.trace(np.linalg.pinv(target, rcond=rounding, hermitian=True) @ mine))


@dataclasses.dataclass(frozen=True)
class Probe:
    """The properties of an integrator of the user's own, as `probe` measures them; str() puts them into words.

    gamma            Γ: give its samples the covariance ΓQ/h
    kappa            κ of the equation that it solves where the noise depends on the state; `calculus` in a word
    stability_limit  the step up to which it is stable on the system
    noise            the samples that would make the covariance exact, or why there are none
    error            (n,): of the delivered variances, in percent, with samples of covariance ΓQ/h
    memory           how many pieces of history it carries
    """

    gamma: float
    kappa: float
    stability_limit: float
    noise: NoiseNeeded
    error: np.ndarray
    memory: int = 0

    @property
    def calculus(self) -> str:
        """The stochastic calculus it solves for noise that depends on the state."""
        kappa = self.kappa
        return (
            "ito" if abs(kappa) < 1e-3 else "stratonovich" if abs(kappa - 0.5) < 1e-3 else f"neither (κ = {kappa:.6g})"
        )

    def __str__(self) -> str:
        history = (
            "\nA factor other than Γ that makes the variance right puts low frequencies off by as much: "
            "better keep the noise out of the history, and add one increment of covariance Qh to x beside it."
        )
        return (
            f"Γ = {self.gamma:.6g}: give the samples the covariance {self.gamma:.6g} Q/h.\n"
            f"The steady-state variances are then off by {', '.join(f'{e:+.3g} %' for e in self.error)}.\n"
            f"{self.noise}\n"
            f"Stable up to h = {self.stability_limit:.6g}. Where the noise depends on the state: {self.calculus}."
        ) + (history if self.memory else "")


@checks_arguments
def probe(
    step: Callable,
    A: ArrayLike = -1.0,
    B: ArrayLike = 1.0,
    Q: ArrayLike | None = None,
    dt: float = 0.1,
    memory: int = 0,
) -> Probe:
    """Measure Γ, κ, the noise needed and the stability limit of an integrator of your own, as a black box.

    Parameters
    ----------
    step : function
        step(f, x, t, h, noise) -> x, in Python or NumPy, with f(x, t, w) the derivative and noise() a sample; see
        BlackBox.
    A, B, Q : array, array and array, optional
        The system x' = A x + B w, as in `steady`.
    dt : float
        The step for which the noise is computed.
    memory : int
        How many pieces of history the step carries.

    Returns
    -------
    Probe
    """
    box, (A, driven) = BlackBox(step, memory), _system(A, B, Q)
    require_consistent(box, A, driven)
    alone = 1.0 if len(A) == 1 else driven
    factor = gamma(box, alone)
    own = factor * steady(box, A, driven, dt)
    target = lyapunov.continuous(A, driven @ driven.T)
    needed = noise_needed(box, A, B, dt, Q)
    scale, residual = needed.scale / factor, needed.residual
    needed = dataclasses.replace(needed, scale=scale, residual=residual)
    error = _percent(own, target)
    return Probe(factor, kappa(box, alone), stability_limit(box, A), needed, error, memory)


# --- advice ---------------------------------------------------------------------------------------------------------


class Advice(NamedTuple):
    """One line of `advise`: an integrator, the percent by which each variance is wrong, and a remark."""

    name: str
    method: Any  # for `simulate`; None for solvers of other libraries and for a step of the user's own
    error: np.ndarray | None  # (n,), None where the step is unstable
    remark: str
    halved: np.ndarray | None = None  # (n,), the same with half the step

    @property
    def worst(self) -> float:
        """The largest error with this step and with half of it: one that changes its sign nearby is small by chance."""
        errors = [np.abs(error).max() for error in (self.error, self.halved) if error is not None]
        return math.inf if self.error is None else float(max(errors))


@checks_arguments
def advise(
    A: ArrayLike,
    B: ArrayLike,
    Q: ArrayLike | None = None,
    dt: float = 0.1,
    *,
    step: Callable | None = None,
    memory: int = 0,
) -> list[Advice]:
    """Rank all methods by the errors of their steady-state variances for x' = A x + B w with the step dt.

    The exact discretisation has no error and leads. The others are ranked by their largest error with dt and with dt/2.
    Methods that are unstable with this step come last, with the step up to which they are stable.

    Parameters
    ----------
    A, B, Q, dt
        As in `steady`.
    step : function, optional
        An integrator of your own, as in `probe`, to be ranked among the others with samples of covariance ΓQ/h.
    memory : int
        As in `probe`.

    Returns
    -------
    list of Advice

    Raises
    ------
    ValueError
        If `dt` is not above 0.
    """
    check_positive("a step", dt=dt)
    A, driven = _system(A, B, Q)
    target = lyapunov.continuous(A, driven @ driven.T)

    def off(step: StepMap, factor: float = 1.0) -> np.ndarray:
        P = _settled(step)
        return _percent(factor * P, target)

    def exactly_with_held(h: float) -> np.ndarray:
        Phi = scipy.linalg.expm(h * A)
        held = np.linalg.solve(A, Phi - np.eye(len(A))) @ driven / math.sqrt(h)
        return _percent(lyapunov.discrete(Phi, held @ held.T), target)

    rows = [Advice("exact ODE solver, held noise Q/h", None, exactly_with_held(dt),
                   "any solver of another library, one sample per step", exactly_with_held(0.5 * dt))]  # fmt: skip
    compared: list[tuple[str, Any, str, float]] = [(*candidate, 1.0) for candidate in candidates()]
    if step is not None:
        box = BlackBox(step, memory)
        require_consistent(box, A, driven)
        factor = gamma(box, 1.0 if len(A) == 1 else driven)
        compared.append((f"your step, {_factor(factor)}Q/h", box, "", factor))
    for name, method, remark, factor in compared:
        of_h, of_half = system_steps(method, A, driven, dt, 0.5 * dt)
        known = None if isinstance(method, BlackBox) else method
        if of_h.spectral_radius() < 1.0 - lyapunov.LEAST_DECAY:
            halved = off(of_half, factor) if of_half.spectral_radius() < 1.0 - lyapunov.LEAST_DECAY else None
            rows.append(Advice(name, known, off(of_h, factor), remark, halved))
        else:
            limit = stability_limit(method, A)
            rows.append(Advice(name, known, None, f"unstable: take a step below {limit:.4g}"))
    rows.sort(key=lambda row: row.worst)
    exact_row = Advice("VanLoan", VanLoan, np.zeros(len(A)), "exact at any step, for linear time-invariant systems")
    return [exact_row, *rows]


@checks_arguments
def candidates() -> Iterator[tuple[str, Method, str]]:
    """List the integrators that `advise` compares.

    Yields
    ------
    name, method, remark : str, Method, str
    """
    tables = sorted((value for value in vars(classical).values() if isinstance(value, classical.ExplicitRungeKutta)),
                    key=lambda table: table.name)  # fmt: skip
    for table in tables:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", classical.CovarianceError)
            fresh = table(noise="fresh")
        restriction = "linear systems only" if table.variances else ""
        if len(table.b) > 1:
            yield f"{table.name} fresh, {_factor(fresh.Gamma)}Q/h", fresh, restriction
        if not table.variances:
            yield f"{table.name} held, Q/h", table(noise="held"), ""
    for adams in (multistep.AB2, multistep.AB3, multistep.AB4):
        yield f"{adams.name}, increment outside the history", adams, ""
        yield f"{adams.name}, noise in the history, Q/h", adams(placement="history", starter="adams"), ""
    for pair in (multistep.AM2, multistep.AM3, multistep.AM4, multistep.AM5):
        yield f"{pair.name} PECE fresh, {_factor(pair.Gamma)}Q/h", pair, ""
        yield f"{pair.name} PECE held, Q/h", pair(noise="held"), "additive noise"
        yield f"{pair.name} PEC fresh, Q/h", pair(mode="PEC"), ""
        twice = pair(corrections=2)
        yield f"{pair.name} P(EC)^2E fresh, {_factor(twice.Gamma)}Q/h", twice, ""


def _settled(step: StepMap) -> np.ndarray:
    """Return the covariance of x that a step with additive noise approaches in the long run."""
    return lyapunov.discrete(step.M, step.G @ step.G.T, step.R)


def _percent(P: np.ndarray, target: np.ndarray) -> np.ndarray:
    """How many percent each variance of P is off; 0 for components that no noise reaches, whose variance is 0."""
    mine, true = np.diagonal(P), np.diagonal(target)
    reached = true > 0.0
    return 100.0 * (np.where(reached, mine, 1.0) / np.where(reached, true, 1.0) - 1.0)


def _factor(gamma: Any) -> str:
    text = f"{float(gamma):.4g}"
    return "" if text == "1" else f"{text} "


# --- arguments ------------------------------------------------------------------------------------------------------


def _system(A: ArrayLike, B: ArrayLike, Q: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Return A, and B times a root of Q; refuse matrices of other shapes."""
    A, matrix = square(A), np.asarray(B, float)
    matrix = matrix.reshape(1, 1) if matrix.ndim == 0 else matrix
    if matrix.ndim != 2 or len(matrix) != len(A) or not np.isfinite(matrix).all():
        hint = " For one channel write a column, [[b], ...]." if matrix.ndim == 1 else ""
        raise ValueError(
            f"B: expected a finite matrix ({len(A)}, channels), got shape {matrix.shape}:\n{matrix}.{hint}"
        )
    return A, matrix if Q is None else matrix @ np.linalg.cholesky(intensity(Q, matrix.shape[1]))


def _require_stable(integrator: Integrator, A: np.ndarray, B: np.ndarray, dt: float, step: StepMap) -> None:
    if step.spectral_radius() >= 1.0 - lyapunov.LEAST_DECAY:
        limit = stability_limit(integrator, A)
        way_out = (
            f"and stable below dt = {limit:.6g}. Take a smaller step"
            if limit
            else "and with smaller ones too. Take another method"
        )
        raise ValueError(
            f"dt: {resolved(integrator).name} is unstable on this system with dt = {dt:g} (spectral radius "
            f"{step.spectral_radius():.6g}), {way_out}, or the exact discretisation (VanLoan)."
        )


def _initial(problem: Any, mean: ArrayLike | None, covariance: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """The mean and covariance at the start: the user's, or else the problem's own."""
    n, start = problem.n, problem.start
    if isinstance(start, GaussianStart):
        known = start.mean, start.covariance
    elif not problem.has_random_start:
        known = start, np.zeros((n, n))
    elif mean is None or covariance is None:
        raise ValueError("mean, covariance: the start of this problem is random; give both, or start it by linear(...)")
    mean = known[0] if mean is None else mean
    covariance = known[1] if covariance is None else covariance
    return np.asarray(mean, float).reshape(n), np.asarray(covariance, float).reshape(n, n)
