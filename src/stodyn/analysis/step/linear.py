"""The step of any method on a linear problem as a matrix polynomial in its noise: exact moments without sampling."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn import deprecation, listing
from stodyn.analysis.step.one_step import AFFINE, FEW, OneStep, of_one, of_values, probing_states
from stodyn.arguments import check_positive, checks_arguments
from stodyn.engine.precision import warn_of_rounded
from stodyn.engine.spec import as_it_is_now, matched
from stodyn.methods.catalogue import stepping
from stodyn.methods.contract import Method
from stodyn.methods.filtered import ExactNoise
from stodyn.noise.increment import Recipe
from stodyn.noise.source import differs
from stodyn.numerics import gauss, lyapunov
from stodyn.numerics.facts.degree import is_proved_affine
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems import lowering
from stodyn.problems.contract import Problem, expect_problem, written_as
from stodyn.problems.driven_mechanical import DrivenMechanical
from stodyn.problems.linear_plant import refuse_random_params
from stodyn.problems.sde import SDE
from stodyn.problems.structure import is_autonomous

__all__ = ["Coefficients", "Moments", "StepMap", "coefficients", "exact_moments", "step_map"]
__dir__ = listing.names_of(__name__)

NODES = 12  # per normal: exact for polynomials of degree 23 in it
MOST_NODES = 2_000_000
ROUNDED = 1e-14  # of entries of a matrix in units of one size: 45 ε, what their rounding over the nodes may be
CHUNK = 4096  # nodes evaluated at a time
LEAST_STEPS = 100  # at least this many steps over an interval in which coefficients change, so that no pulse is missed


class Moments(NamedTuple):
    """Mean (..., n) and covariance (..., n, n) of the problem's components."""

    mean: np.ndarray
    covariance: np.ndarray


class Diverged(ValueError):
    """A step did not give finite numbers."""


@dataclasses.dataclass(frozen=True, eq=False)
class StepMap:
    """One step s' = M(ξ) s + c(ξ) of an integrator on a linear problem, with standard normals ξ.

    `linear.step_map` gives the moments of M and c over any noise. Where noise is only added, s' = M s + c + G ξ, and
    `integrator.linear_step` and `integrator.system_step` give G itself, from far fewer evaluations.

    first       (N, N+1)            E[M | c], N the size of the integrator's state s, which holds x and any history
    noise       (N, normals)        G; or else (N, N+1, N, N+1), the covariance of the entries of [M | c]
    start, read (N, n+1), (n, N+1)  s = start (x, 1) and x = read (s, 1), where the state is more than x
    error       the largest change of an entry of first or noise (against their largest) by one more node per normal:
                rounding for steps that are polynomials in ξ, the quadrature error for implicit ones; 0 for G
    autonomous  whether the same map holds at other times
    """

    name: str
    first: np.ndarray
    noise: np.ndarray
    start: np.ndarray
    read: np.ndarray
    error: float
    autonomous: bool

    @property
    def M(self) -> np.ndarray:
        """E[M], the mean matrix."""
        return self.first[:, :-1]

    @property
    def c(self) -> np.ndarray:
        """The mean E[c] of the constant part."""
        return self.first[:, -1]

    @property
    def G(self) -> np.ndarray:
        """The weights (N, normals) of the normals, where noise is only added."""
        if not self._only_adds:
            raise ValueError(
                f"G: the moments of {self.name} were read, which noise may multiply; take integrator.linear_step(...), "
                "which reads G where noise is only added"
            )
        return self.noise

    @property
    def second(self) -> np.ndarray:
        """The covariance (N, N+1, N, N+1) of the entries of [M | c]."""
        if not self._only_adds:
            return self.noise
        N = len(self.first)
        entries = np.zeros((N, N + 1, N, N + 1))
        entries[:, -1, :, -1] = self.G @ self.G.T
        return entries

    @property
    def R(self) -> np.ndarray:
        """The matrix (n, N) that reads x off s."""
        return self.read[:, :-1]

    @property
    def MM(self) -> np.ndarray:
        """E[M ⊗ M] (N², N²), the mean-square matrix: it takes vec E[s s'] to the next where c = 0."""
        N = len(self.first)
        covariance = self.second[:, :-1, :, :-1].transpose(0, 2, 1, 3).reshape(N * N, N * N)
        return np.kron(self.M, self.M) + covariance

    @property
    def Mc(self) -> np.ndarray:
        """The moment E[M ⊗ c], (N², N)."""
        N = len(self.first)
        return np.kron(self.M, self.c[:, None]) + self.second[:, :-1, :, -1].transpose(0, 2, 1).reshape(N * N, N)

    @property
    def cc(self) -> np.ndarray:
        """The moment E[c c'], (N, N)."""
        return np.outer(self.c, self.c) + self.second[:, -1, :, -1]

    def advance(self, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (N,) and covariance (N, N) of the method's state after a step.

        m' = E[M] m + E[c] and P' = E[M] P E[M]' + Cov[M|c] applied to E[(s,1)(s,1)']: nothing is the difference of two
        second moments, so a small covariance keeps its digits beside a large mean.
        """
        return self.M @ m + self.c, self.M @ P @ self.M.T + self._spread(m, P)

    def moments(self, mean: ArrayLike, covariance: ArrayLike, steps: int) -> Moments:
        """Compute the mean and covariance of x after 0, 1, ..., steps steps from those of its start.

        They are exact but for `error`, at O(N⁴) operations per step.

        Parameters
        ----------
        mean : array (n,)
            The mean of the start.
        covariance : array (n, n)
            The covariance of the start.
        steps : int
            The number of steps.

        Returns
        -------
        Moments
            mean (steps + 1, n) and covariance (steps + 1, n, n).
        """
        self._require_autonomous("moments")
        S, R = self.start, self.read
        x, P = _vector("mean", mean, len(R)), _matrix("covariance", covariance, len(R))
        m, P = S[:, :-1] @ x + S[:, -1], S[:, :-1] @ P @ S[:, :-1].T
        means, covariances = np.empty((steps + 1, len(m))), np.empty((steps + 1, *P.shape))
        for k in range(steps + 1):
            means[k], covariances[k] = m, P
            m, P = self.advance(m, P)
        return self._shown_moments(means, covariances)

    def stationary(self) -> Moments:
        """The mean and covariance that a step does not change."""
        self._require_autonomous("stationary")
        N = len(self.first)
        if not self.is_mean_square_stable:
            raise ValueError(
                f"stationary: the mean-square radius of {self.name} is {self.mean_square_radius():.9g}, expected less "
                "than 1. Take a smaller step, add damping, or ask for finite times (moments)."
            )
        m = np.linalg.solve(np.eye(N) - self.M, self.c)
        fresh = self._spread(m, np.zeros((N, N)))
        if not self._multiplies:
            return self._shown_moments(m, lyapunov.discrete(self.M, fresh))
        P = np.linalg.solve(np.eye(N * N) - self.MM, fresh.ravel()).reshape(N, N)
        return self._shown_moments(m, 0.5 * (P + P.T))

    @property
    def _only_adds(self) -> bool:
        return self.noise.ndim == 2

    @property
    def _multiplies(self) -> bool:
        """Whether noise multiplies the state, by more than the rounding of a matrix M that is always the same."""
        if self._only_adds:
            return False
        _, (unit, _) = scipy.linalg.matrix_balance(self.M, permute=False, separate=True)
        in_units = unit / unit[:, None]
        variances = np.einsum("ijij->ij", self.second[:, :-1, :, :-1])
        deviations = np.sqrt(np.abs(variances)) * in_units
        return bool(deviations.max() > ROUNDED * np.abs(self.M * in_units).max())

    @property
    def total(self) -> np.ndarray:
        """The weight of every normal in x after all steps that reuse it, for A = 0: (n, normals)."""
        _, parasitic, projection = principal(self.M, len(self.R))
        if np.any(np.abs(parasitic) > 1.0 - 1e-9):
            raise ValueError(
                f"the step has a parasitic root of modulus {np.abs(parasitic).max():.6g}: what a sample adds to x "
                "never settles, so that no scaling of the noise is right. Damp it (Asselin's filter), or take another "
                "method."
            )
        return self.R @ projection @ self.G

    def spectral_radius(self) -> float:
        """The largest modulus of an eigenvalue of E[M]: the mean dies out where it is below 1."""
        return float(np.abs(np.linalg.eigvals(self.M)).max())

    def mean_square_radius(self) -> float:
        """The largest modulus of an eigenvalue of E[M ⊗ M]: second moments die out where it is below 1."""
        return self.spectral_radius() ** 2 if self._only_adds else float(np.abs(np.linalg.eigvals(self.MM)).max())

    @property
    def is_mean_square_stable(self) -> bool:
        """Whether the mean-square radius is below 1, by more than rounding."""
        return self.mean_square_radius() < 1.0 - 10 * len(self.first) ** 2 * float(np.finfo(float).eps)

    @property
    def radius(self) -> float:
        deprecation.answer("radius", "spectral_radius()", "0.3")
        return self.spectral_radius()

    def __iter__(self) -> Iterator[Any]:
        deprecation.answer("M, c, G, R = step", "step.M, step.c, step.G, step.R", "0.3")
        return iter((self.M, self.c, self.G, self.R))

    def _spread(self, m: np.ndarray, P: np.ndarray) -> np.ndarray:
        """The covariance of M s + c that comes from M and c, where s has the mean m and the covariance P."""
        if self._only_adds:
            return self.G @ self.G.T
        s = np.append(m, 1.0)
        square = s[:, None] * s
        square[:-1, :-1] += P
        return (self._pairs @ square.ravel()).reshape(P.shape)

    @functools.cached_property
    def _pairs(self) -> np.ndarray:
        """`second` as a matrix from the pairs of columns (j, l) to the pairs of rows (i, k) of [M | c]."""
        N = len(self.first)
        return self.second.transpose(0, 2, 1, 3).reshape(N * N, (N + 1) ** 2)

    def _shown_moments(self, m: np.ndarray, P: np.ndarray) -> Moments:
        R = self.R
        return Moments(m @ R.T + self.read[:, -1], R @ P @ R.T)

    def _require_autonomous(self, what: str) -> None:
        if not self.autonomous:
            raise ValueError(
                f"{what}: the equations depend on time, so that {self.name} is another map in every step. "
                "Take step_map(..., t=...) at each time and `advance` from one to the next."
            )


@checks_arguments
def step_map(
    problem: Problem,
    method: Method | str,
    dt: float,
    t: float = 0.0,
    *,
    params: Any = None,
    nodes: int | Mapping[str, int] = NODES,
) -> StepMap:
    """Return the step of a method on a linear problem dx = (A x + a) dt + Σ_k (B_k x + b_k) dW_k, with its moments.

    The step is read off by unit vectors, M(ξ) e_i = step(e_i) - step(0) and c(ξ) = step(0), at the nodes of a
    Gauss-Hermite rule over its normals ξ; a step that is not affine in the state is refused. A problem in the other
    calculus is converted as in `simulate`. Where the recipe of the method has exact nodes (discrete draws) those are
    taken.

    Parameters
    ----------
    problem : Problem
        A linear problem.
    method : Method or str
        A method that makes steps, or its name.
    dt : float
        The step.
    t : float
        The time at which it begins.
    params : pytree, optional
        Numbers in place of the problem's own params.
    nodes : int or mapping
        How many per normal, for all streams or as {stream: how many}. n nodes are exact where the step has degree n - 1
        or less in that normal; the cost is their product over all normals.

    Returns
    -------
    StepMap
        The moments of the step's matrix, which give mean and covariance after any number of steps, their stationary
        values, and mean-square stability.

    Raises
    ------
    ValueError
        If the step is not affine in the state, `dt` is not above 0, or parameters are random.

    Examples
    --------
    Euler's method on dx = -x dt + dW, whose variance in the long run is 1/2:

    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x: -x, lambda t, x: 1.0 + 0.0 * x, 0.0)
    >>> step = sd.analysis.linear.step_map(decay, "EulerMaruyama", 0.1)
    >>> round(float(step.stationary().covariance[0, 0]), 6)
    0.526316
    """
    expect_problem(problem)
    warn_of_rounded(problem, "this analysis in float64")
    check_positive("a step", dt=dt)
    method = stepping(method)
    params = problem.params if params is None else params
    if differs(params):
        raise ValueError(
            "params: expected the numbers of one path, got random ones; give them as step_map(..., params=...)"
        )
    return read_map(OneStep(problem, for_step(problem, method, dt)), dt, t, params, nodes)


def for_step(problem: Problem, method: Method, dt: float) -> Method:
    """Return the method with the law of its noise over steps dt, where that noise is coloured and drawn exactly."""
    if isinstance(problem, DrivenMechanical) and isinstance(problem, method.accepts):
        return method.prepared(problem, dt)
    return method.for_steps(matched(problem, method)[0], dt) if isinstance(method, ExactNoise) else method


def read_map(
    one: OneStep, h: float, t: float, params: Any, nodes: int | Mapping[str, int] | None = NODES, k: int = 0
) -> StepMap:
    """Return the map of a OneStep from time t: with its moments, by `nodes` per normal; where these are None, with G.

    k is the number of a starting step.
    """
    name, states = f"{one.method.name} with dt = {h:g}", probing_states(one.size)

    def after(s: np.ndarray, ξ: np.ndarray) -> np.ndarray:
        return one.after(t, h, params, s, ξ, k)

    def at(xi: np.ndarray) -> np.ndarray:
        s, ξ = np.tile(states, (len(xi), 1)), np.repeat(xi, len(states), axis=0)
        with np.errstate(invalid="ignore"):
            maps, defects = of_values(after(s, ξ).reshape(len(xi), len(states), one.size), one.size)
        _require_affine(name, maps, defects, xi)
        return maps

    if nodes is None:
        (first, noise), error = added_noise(after, one.size, one.normals, name), 0.0
    else:
        first, noise, error = _moments_over(at, one.method.needs, one.problem.m, nodes)
    into = _checked(f"the start of {name}", one.start(t, params))
    out = _checked(f"the reading of {name}", one.reading)
    return StepMap(name, first, noise, into, out, error, one.autonomous)


def added_noise(
    after: Callable, size: int, normals: int, name: str, allowed: float = AFFINE
) -> tuple[np.ndarray, np.ndarray]:
    """Return [M | c] and G of after(s, ξ) = M s + c + G ξ, which takes many points at once, from unit vectors."""
    points = probing_states(size + normals)
    values = after(points[:, :size], points[:, size:])
    if not np.isfinite(values).all():
        raise Diverged(f"{name}: a step from numbers of size 1 did not give finite numbers")
    matrix, defect = of_one(values, size + normals)
    slopes, c = matrix[:, :-1], matrix[:, -1]
    if defect > allowed:
        other = points[-1:, size:]
        alone = np.abs(after(np.zeros((1, size)), other) - (c + slopes[:, size:] @ other[0])).max()
        where = "its noise" if alone > allowed * np.abs(values).max() else "state and noise together"
        raise ValueError(
            f"{name}: the step is not linear in {where} (off by {defect:.3g} of its values). The system must be "
            "x' = A x + a(t) + B(t) w, and the integrator must use its samples linearly, each drawn by noise()."
        )
    return np.column_stack([slopes[:, :size], c]), slopes[:, size:]


def _moments_over(
    at: Callable, recipe: Recipe, m: int, nodes: int | Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the mean and the covariance of the entries of at(ξ) = [M | c], and their relative error."""
    first, second = _integrate(at, axes(recipe, m, nodes))
    if hasattr(recipe, "nodes"):
        return first, second, 0.0
    scale = np.abs(first).max() + np.sqrt(np.abs(second).max())
    finer = _integrate(at, axes(recipe, m, nodes, extra=1))
    error = max(float(np.abs(finer[k] - (first, second)[k]).max()) / scale ** (k + 1) for k in (0, 1))
    return first, second, error


def principal(M: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Separate the eigenvalues of a step on n equations that hardly move: the n nearest 1, and the others.

    The third result projects onto the invariant subspace of the first along that of the others.
    """
    eigenvalues = np.linalg.eigvals(M)
    order = np.argsort(np.abs(eigenvalues - 1.0))
    own, others = eigenvalues[order[:n]], eigenvalues[order[n:]]
    if not len(others):
        return own, others, np.eye(n)
    reach = 0.5 * (np.abs(own - 1.0).max() + np.abs(others - 1.0).min())

    def subspace(matrix: np.ndarray) -> np.ndarray:
        return scipy.linalg.schur(matrix, "complex", sort=lambda z: abs(z - 1.0) <= reach)[1][:, :n]

    right, left = subspace(M), subspace(M.conj().T)
    return own, others, (right @ np.linalg.solve(left.conj().T @ right, left.conj().T)).real


class Coefficients(NamedTuple):
    """dx = (A x + a) dt + Σ_k (B_k x + b_k) dW_k: A (n, n), a (n,), B (m, n, n), b (m, n)."""

    A: np.ndarray
    a: np.ndarray
    B: np.ndarray
    b: np.ndarray


@checks_arguments
def coefficients(problem: Problem, t: float = 0.0) -> Coefficients:
    """Return the coefficients of a linear SDE in its own calculus; a problem that is not linear is refused.

    Parameters
    ----------
    problem : Problem
        An SDE, or a problem that can be written as one.
    t : float
        The time.

    Returns
    -------
    Coefficients
    """
    sde = _as_sde(as_it_is_now(problem))
    f, g = Slopes(sde).at(t)
    return Coefficients(f[:, :-1], f[:, -1], g[..., :-1], g[..., -1])


class Slopes:
    """[A | a] (n, n + 1) and all [B_k | b_k] (m, n, n + 1) of a linear SDE at any time."""

    def __init__(self, sde: SDE):
        self.sde, self._states = sde, probing_states(sde.n)
        with jax.enable_x64(True):
            point = np.zeros(()), np.zeros(sde.n), sde.params
            functions = {"drift": sde.f, "diffusion": sde.g}
            self._unproved = [name for name, f in functions.items() if not is_proved_affine(f, point, moving=1)]
        self._both = AtPoints(lambda t, x: (sde.f(t, x, sde.params), sde.g(t, x, sde.params).T.ravel()), (None, 0), FEW)

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Raises ValueError where the equation is not linear."""
        n, (drift, diffusion) = self.sde.n, self._both(np.asarray(t, float), self._states)
        f = _checked("drift", of_one(drift, n))
        g = _checked("diffusion", of_one(diffusion, n))
        for name in self._unproved:
            raise ValueError(
                f"{name}: linear in the states that were tried, but its trace does not show it to be linear in all: "
                "choices, limits and jumps may lie elsewhere"
            )
        return f, g.reshape(self.sde.m, n, n + 1)


@checks_arguments
def exact_moments(problem: Problem, t: ArrayLike, mean: ArrayLike, covariance: ArrayLike, t0: float = 0.0) -> Moments:
    """Compute the exact mean and covariance of a linear SDE at the times t, from those at time t0.

    `covariance.exact` takes them from the problem's start by default.

    For the Ito form, m' = A m + a and P' = A P + P A' + Σ_k [B_k P B_k' + (B_k m + b_k)(B_k m + b_k)']. With the outer
    product U = m m' this is one linear system for (1, m, U, P), solved by its matrix exponential of size 1 + n + 2n².

    Parameters
    ----------
    problem : Problem
        A linear SDE, or a problem that can be written as one.
    t : float or array
        The times, none before `t0`.
    mean, covariance : arrays (n,) and (n, n)
        Of the state at time `t0`.
    t0 : float
        The time of the start.

    Returns
    -------
    Moments
        Mean (..., n) and covariance (..., n, n), with the axes of `t` in front.
    """
    ito = lowering.to_ito(_as_sde(as_it_is_now(problem)))
    n = ito.n
    A, a, B, b = coefficients(ito, t0)
    m0, P0 = _vector("mean", mean, n), _matrix("covariance", covariance, n)
    times = np.asarray(t, float) - t0
    if not is_autonomous(ito):
        return _integrated_moments(ito, times, m0, P0, t0)

    def outer(u: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The matrix of m -> vec(u (V m)' + (V m) u')."""
        return np.kron(u[:, None], V) + np.kron(V, u[:, None])

    one, eye = np.eye(1), np.eye(n)
    drift = np.kron(A, eye) + np.kron(eye, A)
    noise = sum(np.kron(Bk, Bk) for Bk in B)
    mixed = sum(outer(bk, Bk) for bk, Bk in zip(b, B, strict=True))
    system = np.block([
        [0 * one, np.zeros((1, n + 2 * n * n))],
        [a[:, None], A, np.zeros((n, 2 * n * n))],
        [np.zeros((n * n, 1)), outer(a, eye), drift, np.zeros((n * n, n * n))],
        [(b.T @ b).reshape(-1, 1), mixed, noise, drift + noise],
    ])  # fmt: skip
    initial = np.concatenate([[1.0], m0, np.outer(m0, m0).ravel(), P0.ravel()])
    means, covariances = np.empty((*times.shape, n)), np.empty((*times.shape, n, n))
    for index, time in np.ndenumerate(times):
        final = scipy.linalg.expm(time * system) @ initial
        means[index], covariances[index] = final[1 : n + 1], final[-n * n :].reshape(n, n)
    return Moments(means, covariances)


def _integrated_moments(ito: SDE, t: np.ndarray, m0: np.ndarray, P0: np.ndarray, start: float) -> Moments:
    """exact_moments where coefficients depend on time."""
    n, slopes = ito.n, Slopes(ito)

    def slope(time, y):
        f, g = slopes.at(time)
        P, s = y[n:].reshape(n, n), np.append(y[:n], 1.0)
        kicks = g @ s  # (m, n)
        grown = f[:, :-1] @ P
        noise = kicks.T @ kicks + np.einsum("kij,jl,kml->im", g[..., :-1], P, g[..., :-1])
        return np.concatenate([f @ s, (grown + grown.T + noise).ravel()])

    ends = start + t.ravel()
    y, now = np.concatenate([m0, P0.ravel()]), start
    whole = max(np.ptp(np.append(ends, start)), 1e-300)
    size = max(np.abs(y).max(), whole * np.abs(slope(start, y)).max()) or 1.0
    options = {"rtol": 1e-12, "atol": 1e-14 * size, "max_step": whole / LEAST_STEPS}
    moments = np.empty((len(ends), len(y)))
    for index in np.argsort(ends):
        if ends[index] > now:
            y = scipy.integrate.solve_ivp(slope, (now, ends[index]), y, "DOP853", **options).y[:, -1]
            now = ends[index]
        moments[index] = y
    return Moments(moments[:, :n].reshape(*t.shape, n), moments[:, n:].reshape(*t.shape, n, n))


def _as_sde(problem: Problem) -> SDE:
    refuse_random_params("problem", problem)
    lowered = written_as(problem, SDE)
    if not isinstance(lowered, SDE):
        raise TypeError(f"problem: expected one that can be written as an SDE, got a {type(problem).__name__}")
    return lowered


def axes(recipe: Recipe, m: int, nodes: int | Mapping[str, int], extra: int = 0) -> list[gauss.Rule]:
    """Return the quadrature rule of each normal of a step: the recipe's own, or Gauss-Hermite of nodes + extra."""
    if hasattr(recipe, "nodes"):
        return [gauss.Rule(np.array(values, float), np.array(weights, float)) for values, weights in recipe.nodes(m)]
    counts = recipe.normals(m)
    each = dict.fromkeys(counts, nodes) if not isinstance(nodes, Mapping) else {**dict.fromkeys(counts, NODES), **nodes}
    if set(each) != set(counts) or not all(isinstance(k, int | np.integer) and k >= 1 for k in each.values()):
        raise ValueError(f"nodes: expected a number >= 1 for all or some of the streams {list(counts)}, got {nodes!r}")
    total = math.prod((each[stream] + extra) ** count for stream, count in counts.items())
    if total > MOST_NODES:
        normals, most = sum(counts.values()), max(counts, key=lambda stream: counts[stream])
        raise ValueError(
            f"nodes: {total:.3g} nodes for the normals {dict(counts)} of a step, expected at most {MOST_NODES:.3g}. "
            f"Take nodes={int(MOST_NODES ** (1 / normals)) - 1} or less, or less in one stream: nodes={{{most!r}: 2}}."
        )
    return [gauss.hermite(each[stream] + extra) for stream, count in counts.items() for _ in range(count)]


def _integrate(at: Callable, axes: list[gauss.Rule]) -> tuple[np.ndarray, np.ndarray]:
    """The mean of [M | c] over the product of the axes, and the covariance of its entries."""
    shape = tuple(len(values) for values, _ in axes)
    total = math.prod(shape)
    centre = at(np.zeros((1, len(axes))))[0]  # moments about the quiet step: small noise keeps its digits
    mean, square = np.zeros(centre.size), np.zeros((centre.size, centre.size))
    for begin in range(0, total, CHUNK):
        index = np.unravel_index(np.arange(begin, min(begin + CHUNK, total)), shape)
        xi = np.stack([values[i] for (values, _), i in zip(axes, index, strict=True)], axis=1)
        weight = np.prod([weights[i] for (_, weights), i in zip(axes, index, strict=True)], axis=0)
        away = (at(xi) - centre).reshape(len(xi), -1)
        mean += weight @ away
        square += (away * weight[:, None]).T @ away
    return centre + mean.reshape(centre.shape), (square - np.outer(mean, mean)).reshape(*centre.shape, *centre.shape)


def _require_affine(name: str, maps: np.ndarray, defects: np.ndarray, xi: np.ndarray) -> None:
    bad = ~(defects <= AFFINE)
    if not bad.any():
        return
    first = int(np.argmax(bad))
    where = f"at the noise ξ = {np.array2string(xi[first], precision=3)}"
    if not np.isfinite(maps[first]).all():
        raise ValueError(f"step_map: {name} did not give a finite step {where}: its equations were not solved there")
    raise ValueError(
        f"step_map: {name} is not affine in the state {where} (off by {defects[first]:.3g} of its values): the "
        "problem must be linear, dx = (A x + a(t)) dt + Σ (B_k x + b_k) dW_k, and the method keep it so."
    )


def _checked(what: str, read_off: tuple[np.ndarray, float]) -> np.ndarray:
    matrix, defect = read_off
    if not defect <= AFFINE:
        raise ValueError(
            f"{what}: expected to be linear in the state, found it off by {float(defect):.3g} of its values"
        )
    return matrix


def _vector(name: str, value: ArrayLike, n: int) -> np.ndarray:
    vector = np.asarray(value, dtype=float)
    if vector.shape != (n,) and not (n == 1 and vector.shape == ()):
        raise ValueError(f"{name}: expected a vector of {n} components, got shape {vector.shape}")
    return vector.reshape(n)


def _matrix(name: str, value: ArrayLike, n: int) -> np.ndarray:
    matrix = np.asarray(value, dtype=float)
    if matrix.shape != (n, n) and not (n == 1 and matrix.shape == ()):
        raise ValueError(f"{name}: expected a covariance matrix of shape ({n}, {n}), got shape {matrix.shape}")
    return matrix.reshape(n, n)
