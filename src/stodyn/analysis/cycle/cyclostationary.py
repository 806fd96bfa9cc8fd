"""Small noise around a periodic solution: covariances over the period, spectra, samples, conversion gains.

Around the cycle M δx' = J(t) δx + g(t) ξ, with J and g of period T. With the derivatives A_n of the steps and the
covariance Q_n that the noise adds in one,
    K_{n+1} = A_n K_n A_nᵀ + Q_n,   K_N = K_0,
and the time-averaged two-sided density of y = e·x is
    S(ω) = (1/T) ∫ |λᵀ g|² dt,   λ_n = ∫_0^h Φ(t_n + s, t_n)ᵀ e e^{-iωs} ds + e^{-iωh} A_nᵀ λ_{n+1},   λ_N = λ_0:
one periodic adjoint solution for each frequency, all sources at once, no harmonics left out. Spectra handed out are
one-sided. Where f or g jumps in time, steps end there, and the mean takes the values of g on both sides.

Every result states its own error, attrs["error"]: its relative change from half as many steps, which is more than the
error of one whose steps are short enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.analysis.cycle.periodic import ONE, Cycle, _scheme
from stodyn.analysis.cycle.periodic_corners import before_corners, jumps_with_the_state
from stodyn.analysis.cycle.periodic_start import NoOscillation
from stodyn.analysis.cycle.periodic_system import StageEquations
from stodyn.arguments import checks_arguments
from stodyn.numerics import lyapunov
from stodyn.numerics.one_thread import blas_on_one_thread
from stodyn.telling import tell
from stodyn.warnings import Unresolved

__all__ = ["conversion", "covariance", "sampled", "spectrum"]
__dir__ = listing.names_of(__name__)

SAME_ROWS = 1e-12  # of the largest singular value: below it rows of M count as dependent, by choice above n ε
ENOUGH = 1e-3  # a change from half as many steps above which a result is not known well
SAME = 1e-12  # of the period, by choice above its ε: nodes of two meshes that are nearer to each other are one
NONE = 1e-12  # of the largest, a choice: the changes of smaller deviations and gains are not reported as errors
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


@checks_arguments
@blas_on_one_thread
def covariance(cycle: Cycle) -> xr.Dataset:
    """Compute the periodic covariance of a driven system in its steady state.

    The charge that a source has delivered wanders: its variance is infinite.

    Parameters
    ----------
    cycle : Cycle
        The periodic solution, from `analysis.periodic`.

    Returns
    -------
    xarray.Dataset
        covariance (phase, component, component_) and deviation (phase, component). `attrs["error"]` is the largest
        change of a variance from half as many steps, relative to the largest variance of that component.
    """
    _refuse_free_phase(cycle)
    K = _covariances(cycle)

    def change(coarse: Cycle) -> float:
        ours, theirs = _common(cycle, coarse)
        held = np.setdiff1d(np.arange(cycle.system.n), cycle.system.wandering)
        one, two = (np.diagonal(some, axis1=1, axis2=2)[:, held] for some in (K, _covariances(coarse)))
        sizes = one.max(axis=0)
        return _largest(np.abs(two[theirs] - one[ours]).max(axis=0), sizes, NONE**2 * sizes.max(initial=0.0))

    return xr.Dataset(
        {"covariance": (("phase", "component", "component_"), K),
         "deviation": (("phase", "component"), np.sqrt(np.maximum(np.diagonal(K, axis1=1, axis2=2), 0.0))),
         "x": (("phase", "component"), cycle.x[:-1])},
        {"phase": cycle.t[:-1] - cycle.t[0], "component": list(cycle.names), "component_": list(cycle.names)},
        {"period": cycle.period, "error": _stated(cycle, change)},
    )  # fmt: skip


@checks_arguments
@blas_on_one_thread
def spectrum(cycle: Cycle, node: str, frequency: ArrayLike) -> xr.Dataset:
    """Compute the time-averaged one-sided noise density of a component, and its parts by source.

    Parameters
    ----------
    cycle : Cycle
        The periodic solution, from `analysis.periodic`.
    node : str
        The name of the component.
    frequency : array
        In cycles per unit of time.

    Returns
    -------
    xarray.Dataset
        density (frequency) and part (frequency, source). `attrs["error"]` is the largest relative change of the density
        from half as many steps.
    """
    f, i = _frequencies(frequency), component(cycle, node)
    parts = 2.0 * averaged_densities(cycle, i, f)
    density = parts.sum(axis=1)

    def change(coarse: Cycle) -> float:
        return _largest(np.abs(2.0 * _averaged(coarse, i, f).sum(axis=1) - density), density)

    return xr.Dataset(
        {"density": (("frequency",), density), "part": (("frequency", "source"), parts)},
        {"frequency": f, "source": list(cycle.system.sources)},
        {"node": node, "sides": "one", "error": _stated(cycle, change)},
    )  # fmt: skip


@checks_arguments
@blas_on_one_thread
def sampled(cycle: Cycle, node: str, phase: float, frequency: ArrayLike | None = None, lags: int = 64) -> xr.Dataset:
    """Describe a component observed once per period, at one phase: the stationary sequence of its samples.

    Parameters
    ----------
    cycle : Cycle
        The periodic solution, from `analysis.periodic`.
    node : str
        The name of the component.
    phase : float
        The time within the period, from 0 to T; the nearest node of the cycle is taken.
    frequency : array, optional
        Frequencies up to 1/(2T), for the density.
    lags : int
        The number of lags, in periods.

    Returns
    -------
    xarray.Dataset
        autocovariance (lag), which is eᵀ Φ^l K e; with frequencies, density (frequency), one-sided, of the sequence at
        the rate 1/T, whatever the number of lags. `attrs["error"]` is the largest change of either from half as many
        steps, relative to the variance and to the density, at the nearest phase that both have.
    """
    _refuse_free_phase(cycle)
    i, f = component(cycle, node), None if frequency is None else _frequencies(frequency)
    apart = np.abs(np.mod(cycle.mesh.shares[:-1] - phase / cycle.period + 0.5, 1.0) - 0.5)
    k = int(np.argmin(apart))
    r, density = _sequence(cycle, k, i, lags, f)

    def change(coarse: Cycle) -> float:
        ours, theirs = _common(cycle, coarse)
        nearest = np.argmin(apart[ours])
        one, two = (_sequence(*at, i, lags, f) for at in ((cycle, ours[nearest]), (coarse, theirs[nearest])))
        return max(_largest(np.abs(two[0] - one[0]), one[0][:1]), _largest(np.abs(two[1] - one[1]), one[1]))

    data, coords = {"autocovariance": (("lag",), r)}, {"lag": np.arange(lags + 1)}
    if f is not None:
        data["density"], coords["frequency"] = (("frequency",), density), f
    attributes = {"node": node, "phase": float(cycle.t[k] - cycle.t[0]), "error": _stated(cycle, change)}
    return xr.Dataset(data, coords, attributes)


def _sequence(cycle: Cycle, k: int, i: int, lags: int, f: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The autocovariances (lags + 1,) of component i at node k, and the one-sided densities at frequencies f."""
    n = cycle.system.n
    Phi = np.eye(n)
    for A in (*cycle.A[k:], *cycle.A[:k]):
        Phi = A @ Phi
    wandering = cycle.system.wandering
    Phi[wandering] = 0.0
    column = _covariances(cycle)[k][:, i]
    column[wandering[wandering != i]] = 0.0  # nothing reads it
    samples = [column]
    for _ in range(lags):
        samples.append(Phi @ samples[-1])
    r = np.array(samples)[:, i]
    turns = np.exp(-2j * np.pi * cycle.period * (np.zeros(0) if f is None else f))[:, None, None]
    later = np.linalg.solve(np.eye(n) - turns * Phi, turns * (Phi @ column)[:, None])
    return r, 2.0 * cycle.period * (r[0] + 2.0 * later[:, i, 0].real)


@checks_arguments
@blas_on_one_thread
def conversion(cycle: Cycle, node: str, frequency: ArrayLike, sidebands: int = 5) -> xr.Dataset:
    """Compute the complex gains H_m from the frequency f - m/T of a source of noise to f at a component.

    Parameters
    ----------
    cycle : Cycle
        The periodic solution, from `analysis.periodic`.
    node : str
        The name of the component.
    frequency : array
        In cycles per unit of time; at -f the gain is the conjugate of that at f with the sideband -m.
    sidebands : int
        The largest |m|.

    Returns
    -------
    xarray.Dataset
        gain (frequency, sideband, source), per unit of the source as it stands in g. `attrs["error"]` is the largest
        change of a gain from half as many steps, relative to the largest of that source at that frequency.
    """
    f, i, m = _frequencies(frequency, -np.inf), component(cycle, node), np.arange(-sidebands, sidebands + 1)
    gains = _gains(cycle.averaging, i, f, m)

    def change(coarse: Cycle) -> float:
        sizes = np.abs(gains).max(axis=1)
        return _largest(np.abs(_gains(coarse, i, f, m) - gains).max(axis=1), sizes, NONE * sizes.max(initial=0.0))

    return xr.Dataset(
        {"gain": (("frequency", "sideband", "source"), gains)},
        {"frequency": f, "sideband": m, "source": list(cycle.system.sources)},
        {"node": node, "error": _stated(cycle, change)},
    )  # fmt: skip


def _gains(cycle: Cycle, i: int, f: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Compute the gains (frequencies, sidebands, sources) from each source to component i."""
    nodes, weights, sizes = cycle.kicks
    transfer = np.einsum("Nfn,Nnk->Nfk", _adjoints(cycle, i, f)[nodes], sizes)
    turned = weights[:, None] * np.exp(-2j * np.pi * np.outer(cycle.t[:-1][nodes] / cycle.period, m))
    return np.einsum("Nm,Nfk->fmk", turned, transfer)


# --- the errors of these ----------------------------------------------------------------------------------------------


def _common(one: Cycle, two: Cycle) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the nodes that two meshes of a cycle have in common, among which is the first, in either."""
    ours, theirs = one.mesh.shares[:-1], two.mesh.shares[:-1]
    k = np.minimum(np.searchsorted(theirs, ours - SAME), len(theirs) - 1)
    common = np.flatnonzero(np.abs(theirs[k] - ours) <= SAME)
    return common, k[common]


def _stated(cycle: Cycle, change: Callable[[Cycle], float]) -> float:
    """The relative change of a result from half as many steps; warns where it is large, or there is no such cycle.
    Jumps whose time depends on the state are refused: both would leave out that noise moves them."""
    if jumps_with_the_state(cycle):
        raise ValueError("cycle: its equations jump where the state crosses a threshold, and noise moves the time at "
                         "which it does: a function in them, such as sign(x) or where(x > 0, 1, 0), is not continuous. "
                         "Make it steep instead, as tanh(x/width) is")  # fmt: skip
    try:
        error = change(cycle.halved)
    except (NoOscillation, np.linalg.LinAlgError):
        error = np.inf
    if not error <= ENOUGH:
        other = f"it differs by {error:.2g} of itself from that of half as many" if error < np.inf else (
            "a solution was found, but none with half as many")  # fmt: skip
        tell(
            f"the noise of this cycle is not known well: with {cycle.steps} steps per period {other}. Give "
            f"analysis.periodic steps={4 * cycle.mesh.density} or more.",
            Unresolved,
        )
    return error


def _largest(changes: np.ndarray, sizes: np.ndarray, least: float = 0.0) -> float:
    """The largest of the changes as shares of their sizes, where these are more than `least`."""
    known = (sizes > least) & np.isfinite(sizes)
    return float(np.max(np.where(known, changes / np.where(known, sizes, 1.0), 0.0), initial=0.0))


# --- what phase noise uses too ----------------------------------------------------------------------------------------


def component(cycle: Cycle, node: str) -> int:
    """Return the number of the component called `node`; refuse a name that there is not."""
    if node not in cycle.names:
        raise ValueError(f"node: there is no {node!r}; there are {', '.join(cycle.names[:20])}")
    return cycle.names.index(node)


def added(cycle: Cycle) -> np.ndarray:
    """Compute Q_n (N, n, n), the covariance that the noise adds in each step of a cycle.

    An impulse of the noise at stage i is felt at the end of the step by (L⁻¹)_si / (h b_i), L the matrix of the stage
    equations: the quadrature of the method itself.
    """
    equations, g, weights = _at_stages(cycle)
    felt = equations.kicks_at_the_end() @ g / np.sqrt(weights)[:, :, None, None]
    felt = felt.transpose(0, 2, 1, 3).reshape(cycle.steps, cycle.system.n, -1)
    return felt @ felt.mT


def squared_gains(cycle: Cycle, w: np.ndarray) -> np.ndarray:
    """Compute the mean over the period of the square of the effect of each source on wᵀx at the end of its step.

    w (N, n) is given at the ends of the steps. The quadrature is that of the method itself: nothing is lost where steps
    end at corners.
    """
    equations, g, weights = _at_stages(cycle)
    effects = np.einsum("Nsn,Nsnk->Nsk", equations.gains_at_the_end(w), g)
    return np.einsum("Nsk,Ns->k", effects**2, 1.0 / weights) / cycle.period


def _at_stages(cycle: Cycle) -> tuple[StageEquations, np.ndarray, np.ndarray]:
    """The stage equations of all steps, g (N, s, n, sources) at the stages, and their weights h b (N, s)."""
    method = _scheme(cycle.order)
    N, s, n = cycle.stages.shape
    c = method.c
    places, states = before_corners(cycle.mesh, c[-1] - c[-2], cycle.mesh.places(c), cycle.stages)
    times, states = cycle.t[0] + cycle.period * places.ravel(), states.reshape(-1, n)
    J = cycle.system.jacobian(times, states).reshape(N, s, n, n)
    g = cycle.system.g(times, states).reshape(N, s, n, -1)
    return StageEquations(cycle.system, J, np.linalg.inv(method.A), cycle.h), g, np.outer(cycle.h, method.A[-1])


def after_a_period(cycle: Cycle) -> np.ndarray:
    """Compute the covariance (n, n) that the noise of one period adds."""
    total = np.zeros((cycle.system.n, cycle.system.n))
    for A, Q in zip(cycle.A, added(cycle), strict=True):
        total = A @ total @ A.T + Q
    total[cycle.system.wandering] = 0.0
    total[:, cycle.system.wandering] = 0.0
    return total


def stationary(cycle: Cycle, F: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Compute Σ_k F^k Q (F^k)ᵀ of the components that do not wander; it is 0 for those that do.

    F (n, n) is what a period makes of a deviation, a contraction, and Q (n, n) the covariance that each period adds.
    """
    held = np.ix_(*2 * [np.setdiff1d(np.arange(len(F)), cycle.system.wandering)])
    total = np.zeros_like(F)
    total[held] = lyapunov.discrete(F[held], Q[held])
    return total


def averaged_densities(cycle: Cycle, i: int, f: np.ndarray) -> np.ndarray:
    """Compute the time-averaged two-sided densities (frequencies, sources) of component i at the frequencies f."""
    return _averaged(cycle.averaging, i, f)


def _averaged(cycle: Cycle, i: int, f: np.ndarray) -> np.ndarray:
    """Compute `averaged_densities` on a cycle with enough steps between corners."""
    nodes, weights, sizes = cycle.kicks
    densities = np.empty((len(f), len(cycle.system.sources)))
    for first in range(0, len(f), 64):
        some = slice(first, first + 64)
        λ = _adjoints(cycle, i, f[some])[nodes]
        squares = (λ.real @ sizes) ** 2 + (λ.imag @ sizes) ** 2
        densities[some] = np.tensordot(weights, squares, 1)
    return densities


def _adjoints(cycle: Cycle, i: int, f: np.ndarray) -> np.ndarray:
    """λ (N, frequencies, n) at the nodes.

    A step sees the state before it only through M x: A = F Vᵀ, V an orthonormal basis of the rows of M. F and V are
    real, so that real and imaginary parts, one below the other, are multiplied by them.
    """
    N, n = cycle.steps, cycle.system.n
    ω, e = 2.0 * np.pi * f, np.eye(n)[i]
    places = 0.5 + 0.5 * NODES
    interpolation = _scheme(cycle.order).interpolation(places)
    moved = cycle.flows[:, :, i, :] - e  # (N, s, n): eᵀ of the flow to each stage, less that of none
    source, turn = np.empty((N, len(f), n), complex), np.empty((N, len(f), 1), complex)
    lengths, which = np.unique(np.round(cycle.h / cycle.period, 13), return_inverse=True)
    for k, h in enumerate(cycle.period * lengths):
        turns = 0.5 * WEIGHTS * np.exp(-1j * np.outer(ω * h, places))  # (f, nodes)
        weights, some = turns @ interpolation, which == k  # (f, s)
        parts = weights.real @ moved[some] + 1j * (weights.imag @ moved[some])
        source[some] = h * (turns.sum(axis=1)[:, None] * e + parts)
        turn[some] = np.exp(-1j * ω * h)[:, None]
    V = _row_space(cycle.system.mass)
    F = cycle.A @ V

    def back(λ: np.ndarray) -> np.ndarray:
        all_of_them = np.empty((N, len(f), n), complex)
        for k in range(N - 1, -1, -1):
            parts = (np.concatenate([λ.real, λ.imag]) @ F[k]) @ V.T
            λ = source[k] + turn[k] * (parts[: len(f)] + 1j * parts[len(f) :])
            all_of_them[k] = λ
        return all_of_them

    alone = back(np.zeros((len(f), n), complex))[0]
    whole_turn = np.exp(-1j * ω * cycle.period)[:, None, None]
    closing = np.eye(n) - whole_turn * cycle.Phi.T
    held = np.ones(n)
    held[cycle.system.wandering] = 0.0
    λ = held * np.linalg.solve(closing, alone[..., None])[..., 0]
    return back(λ)


def _row_space(M: np.ndarray) -> np.ndarray:
    """An orthonormal basis (n, r) of the rows of M, whose sizes may differ by many decades."""
    rows = M[M.any(axis=1)]
    _, sizes, basis = np.linalg.svd(rows / np.abs(rows).max(axis=1, keepdims=True), full_matrices=False)
    return basis[sizes > SAME_ROWS * sizes[0]].T


def _covariances(cycle: Cycle) -> np.ndarray:
    """Compute the covariances K (N, n, n) of the deviations at the nodes of the cycle."""
    Q = added(cycle)
    K = stationary(cycle, cycle.Phi, after_a_period(cycle))
    covariances = np.empty_like(cycle.A)
    for k, A in enumerate(cycle.A):
        covariances[k] = K
        K = A @ K @ A.T + Q[k]
    wandering = cycle.system.wandering
    covariances[:, wandering], covariances[:, :, wandering] = np.nan, np.nan
    covariances[:, wandering, wandering] = np.inf
    return covariances


def _refuse_free_phase(cycle: Cycle) -> None:
    largest = float(np.abs(cycle.multipliers[:1]).max(initial=0.0))
    if largest >= 1.0 - ONE:
        raise ValueError(f"cycle: its largest multiplier is {largest:.9g}, so that no covariance is stationary" + (
            ". The phase of an oscillator wanders: ask for phase_noise" if not cycle.driven else ""))  # fmt: skip


def _frequencies(frequency: ArrayLike, least: float = 0.0) -> np.ndarray:
    f = np.atleast_1d(np.asarray(frequency, float))
    if f.ndim != 1 or not (np.isfinite(f).all() and (f >= least).all()):
        raise ValueError(f"frequency: expected frequencies >= {least:g}, got {frequency!r}")
    return f
