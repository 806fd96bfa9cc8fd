"""Stability and dissipation of α methods on the test equation dx = v dt, dv = -ω² x dt + Σ_l (χ_l x + η_l v) dW_l.

A step is Ξ' = (A_d + Σ_w A_w I_w) Ξ with Ξ = (x, h v, h² φ) and iterated integrals I_w. All matrices are read off the
shipped step, by unit vectors and unit integrals; the moments of the integrals are exact.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.methods import alpha, signature
from stodyn.methods.alpha import Coefficients, GeneralisedAlpha, StochasticAlpha
from stodyn.methods.catalogue import named
from stodyn.models.oscillators import growth, noisy_oscillator
from stodyn.noise.increment import Increment
from stodyn.noise.iterated import Words
from stodyn.noise.words import Word, up_to_weight, weight
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.points import AtPoints

__all__ = [
    "Amplification",
    "Dissipation",
    "Estimate",
    "LargestStep",
    "Lemma",
    "amplification",
    "closed_amplification",
    "closed_eigenvalues",
    "dissipation",
    "largest_step",
    "lemmas",
    "schur_sum",
    "series_coefficients",
    "stiff_eigenvalues",
    "stiff_limit",
]
__dir__ = listing.names_of(__name__)

RESOLVED = Words(p=12, K=4)  # the integrals where they are sampled: rms errors of 1e-3 h² and 3e-3 h in their law
STAYS = 1e-9  # growth per step that counts as none: it shows after 1e9 steps; close eigenvalues are rounded to 1e-12
EPSILON = float(np.finfo(float).eps)
TOGETHER = 100  # steps between which the size of a state is taken out of it
IN_CACHE = 2500  # paths whose matrices the processor's cache holds
SHOWN_BY = {"steps": 1000, "paths": 80}  # the sign of an exponent without the first order in the noise
WELL_CONDITIONED = 1e-10  # a choice: ratio of the axes² of a norm that still leaves a length six of its digits
STIFF = 1e7  # ω h that stands for ∞, with an error of the order of its inverse square


class Estimate(NamedTuple):
    """A sampled number and its standard error."""

    value: float
    stderr: float


@dataclasses.dataclass(frozen=True, eq=False)
class Amplification:
    """One step of a method on the test equation: A = A_d + A_s, A_s = Σ_w A_w I_w.

    deterministic  A_d (3, 3), which is also E[A]
    terms          word -> A_w (3, 3), those that are not zero
    """

    omega: float
    dt: float
    deterministic: np.ndarray
    terms: dict[Word, np.ndarray]

    @property
    def spectral_radius(self) -> float:
        """The spectral radius of A_d: the mean dies out where it is below 1."""
        return float(np.abs(np.linalg.eigvals(self.deterministic)).max())

    @functools.cached_property
    def mean_square(self) -> np.ndarray:
        """E[A ⊗ A] (9, 9) = A_d ⊗ A_d + Σ_uw E[I_u I_w] A_u ⊗ A_w; for the paper's scheme the sum has rank one."""
        words = tuple(self.terms)
        terms = _scaled(self, words).reshape(9, -1)
        products = np.outer(self.deterministic, self.deterministic) + terms @ _product_means(words) @ terms.T
        return products.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)

    @property
    def mean_square_radius(self) -> float:
        """The largest modulus of an eigenvalue of E[A ⊗ A]: second moments die out where it is below 1."""
        return float(np.abs(np.linalg.eigvals(self.mean_square)).max())

    @property
    def is_mean_square_stable(self) -> bool:
        return self.mean_square_radius < 1.0

    def second_moments(self, x: float, v: float, φ: float, steps: int) -> np.ndarray:
        """E x², E x v, E v² after 0, ..., steps steps, (steps + 1, 3), without sampling."""
        Ξ = np.array([x, self.dt * v, self.dt**2 * φ])
        P, moments = np.outer(Ξ, Ξ).ravel(), []
        for _ in range(steps + 1):
            moments.append([P[0], P[1] / self.dt, P[4] / self.dt**2])
            P = self.mean_square @ P
        return np.array(moments)

    def sample(self, count: int, seed: int) -> np.ndarray:
        """Independent draws of A, (count, 3, 3)."""
        m = max((max(w) for w in self.terms), default=1)
        values = _draws(m, tuple(self.terms), count, seed)
        scale = np.array([self.dt ** (weight(w) / 2) for w in self.terms])
        stack = np.array(list(self.terms.values())).reshape(len(self.terms), 9)
        return self.deterministic + (values * scale @ stack).reshape(count, 3, 3)

    # --- norms and contractivity --------------------------------------------------------------------------------------

    @property
    def noise_rms(self) -> float:
        """The root mean square (E ‖A_s‖_F²)^½ of the noise in a step, exact."""
        square = self.mean_square - np.kron(self.deterministic, self.deterministic)
        return math.sqrt(sum(square[4 * i, 4 * j] for i in range(3) for j in range(3)))

    def noise_norm(self, count: int = 200_000, seed: int = 1) -> Estimate:
        """An estimate of E ‖A_s‖_F from samples."""
        return _estimate(np.linalg.norm(self.sample(count, seed) - self.deterministic, axis=(1, 2)))

    def mean_radius(self, count: int = 200_000, seed: int = 1) -> Estimate:
        """An estimate of E max|λ(A)| from samples."""
        return _estimate(np.abs(np.linalg.eigvals(self.sample(count, seed))).max(axis=1))

    def adapted_norm(self, excess: float = 1e-6) -> np.ndarray:
        """P, positive definite, with ‖A_d Ξ‖_P <= (radius + excess) ‖Ξ‖_P, ‖Ξ‖_P² = Ξ' P Ξ.

        Near the limit Ω → ∞, where A_d is a Jordan block, `excess` is raised tenfold until P is well conditioned.
        """
        units = min(max(self.omega * self.dt, 1e-4), 1.0) ** -np.arange(3.0)  # slow oscillations have v ~ ω x, φ ~ ω² x
        A = units[:, None] * self.deterministic / units
        while True:
            size = self.spectral_radius + excess
            P = np.linalg.solve(np.eye(9) - np.kron(A.T, A.T) / size**2, np.eye(3).ravel()).reshape(3, 3)
            least, _, most = np.linalg.eigvalsh(0.5 * (P + P.T))
            if least > WELL_CONDITIONED * most:
                return units[:, None] * 0.5 * (P + P.T) * units
            excess *= 10.0

    def contracts_in_mean_square(self, P: ArrayLike | None = None) -> float:
        """The largest E‖A Ξ‖²_P / ‖Ξ‖²_P over all Ξ, exact, in the norm P (default: 1); contractive where <= 1."""
        P = np.eye(3) if P is None else np.asarray(P, float)
        square = (P.ravel() @ self.mean_square).reshape(3, 3)
        return float(scipy.linalg.eigh(0.5 * (square + square.T), P, eigvals_only=True)[-1])

    def contracts_in_mean(
        self, P: ArrayLike | None = None, p: float = 1.0, count: int = 20_000, seed: int = 1
    ) -> Estimate:
        """The largest E‖A Ξ‖ᵖ_P / ‖Ξ‖ᵖ_P over 400 directions Ξ, sampled; contractive in the p-th mean where <= 1."""
        R = np.linalg.cholesky(np.eye(3) if P is None else np.asarray(P, float)).T
        directions = np.random.default_rng(0).standard_normal((400, 3))
        directions = np.linalg.solve(R, (directions / np.linalg.norm(directions, axis=1, keepdims=True)).T)
        images = np.linalg.norm(R @ self.sample(count, seed) @ directions, axis=1) ** p  # (count, directions)
        worst = int(np.argmax(images.mean(axis=0)))
        return _estimate(images[:, worst])

    def contracts_with_probability(self, P: ArrayLike | None = None, count: int = 200_000, seed: int = 1) -> Estimate:
        """P(‖A Ξ‖_P <= ‖Ξ‖_P for all Ξ), sampled; contractive in probability means 1."""
        R = np.linalg.cholesky(np.eye(3) if P is None else np.asarray(P, float)).T
        matrices = R @ self.sample(count, seed) @ np.linalg.inv(R)
        rounding = 9.0 * EPSILON * np.linalg.cond(R)
        return _estimate(np.linalg.norm(matrices, ord=2, axis=(1, 2)) <= 1.0 + rounding)

    def lyapunov(self, steps: int = 4000, paths: int = 400, seed: int = 1) -> Estimate:
        """The almost-sure exponent lim log‖Ξ_n‖ / (n h), by simulation: below 0 means almost surely stable."""
        return _estimate(_exponents([self], _Integrals(tuple(self.terms), steps, paths, seed))[0])


def _alpha(method: GeneralisedAlpha | str) -> GeneralisedAlpha:
    """Return an α method, from itself or its name; those of their own module without the imports of all others."""
    resolved = _own_methods().get(method) or named(method) if isinstance(method, str) else method
    if not isinstance(resolved, GeneralisedAlpha):
        raise TypeError(
            f"method: expected an α method (StochasticAlpha, Newmark, HHT, WBZ, ...) or its name, got {method!r}"
        )
    return resolved


@functools.cache
def _own_methods() -> dict[str, GeneralisedAlpha]:
    return {value.name: value for value in vars(alpha).values() if isinstance(value, GeneralisedAlpha)}


@checks_arguments
def amplification(
    method: GeneralisedAlpha | str, omega: float, dt: float, eta: ArrayLike = 0.0, chi: ArrayLike = 0.0
) -> Amplification:
    """Return the step of an α method on the test equation, as matrices.

    Parameters
    ----------
    method : GeneralisedAlpha or str
        An α method, or its name.
    omega : float
        The frequency ω; 0 gives A_0.
    dt : float
        The step.
    eta, chi : float or array
        The noise of the velocity and of the position: numbers, or one per channel.

    Returns
    -------
    Amplification
    """
    η, χ = np.broadcast_arrays(np.atleast_1d(np.asarray(eta, float)), np.atleast_1d(np.asarray(chi, float)))
    return _amplifications(_alpha(method), float(omega), [float(dt)], η, χ)[0]


def _amplifications(
    method: GeneralisedAlpha, omega: float, steps: Sequence[float], η: np.ndarray, χ: np.ndarray
) -> list[Amplification]:
    """Return the amplifications of several lengths of steps, all computed together."""
    words = _words(len(η))
    params = {"omega": omega, "eta": η, "chi": χ}
    integrals = np.repeat(np.concatenate([np.zeros((1, len(words))), np.eye(len(words))]), 3, axis=0)
    units = np.tile(np.eye(3), (len(words) + 1, 1))
    points = np.repeat(steps, len(units)), np.tile(integrals, (len(steps), 1)), np.tile(units, (len(steps), 1))
    images = _step(method, len(η))(params, *points).reshape(len(steps), len(words) + 1, 3, 3).swapaxes(2, 3)
    return [
        Amplification(omega, h, A, {w: other - A for w, other in zip(words, others, strict=True) if (other != A).any()})
        for h, (A, *others) in zip(steps, images, strict=True)
    ]


@checks_arguments
def stiff_limit(method: GeneralisedAlpha | str, dt: float, eta: ArrayLike = 0.0, chi: ArrayLike = 0.0) -> Amplification:
    """Return A_stiff, the limit of the step for ω → ∞, to a dozen digits.

    Parameters
    ----------
    method, dt, eta, chi
        As in `amplification`.

    Returns
    -------
    Amplification
    """
    return amplification(method, STIFF / dt, dt, eta, chi)


@functools.lru_cache(maxsize=64)
def _step(method: GeneralisedAlpha, m: int) -> AtPoints:
    """(params, h (points,), integrals (points, words), Ξ (points, 3)) -> Ξ after a step."""
    problem = noisy_oscillator(1.0, np.ones(m), np.ones(m))
    words = _words(m)

    def image(params, h, integrals, Ξ):
        held = dict(zip(words, integrals, strict=True))
        W, Z = (jnp.stack([held.pop((j, *rest)) for j in range(1, m + 1)]) for rest in ((), (0,)))
        state = (jnp.stack([Ξ[0], Ξ[1] / h]), Ξ[2:] / h**2)
        with underived():
            (x, φ), report = method.step(problem, 0.0, state, Increment(h, W, Z, words=held), params)
        after = jnp.stack([x[0], h * x[1], h**2 * φ[0]])
        return jnp.where(report.ok, after, jnp.nan)

    return AtPoints(image, (None, 0, 0, 0))


@functools.lru_cache(maxsize=8)
def _words(m: int) -> tuple[Word, ...]:
    """The integrals a step may ask for: those up to weight 4 with a channel in them."""
    return tuple(w for w in up_to_weight(4, m) if any(w))


@functools.lru_cache(maxsize=4096)
def _product_mean(u: Word, w: Word) -> float:
    """Return E[I_u I_w] of two iterated integrals over a step h = 1."""
    return float(signature.mean(signature.integral(*u) * signature.integral(*w)))


@functools.lru_cache(maxsize=64)
def _product_means(words: tuple[Word, ...]) -> np.ndarray:
    """Return E[I_u I_w] for every two of some words, (words, words).

    -W has the law of W: where a channel occurs in u and w together an odd number of times, the mean is 0.
    """
    means = np.zeros((len(words), len(words)))
    parities = [frozenset(j for j in w if j and w.count(j) % 2) for w in words]
    for i, k in itertools.combinations_with_replacement(range(len(words)), 2):
        if parities[i] == parities[k]:
            means[i, k] = means[k, i] = _product_mean(words[i], words[k])
    return means


def _draws(m: int, words: tuple[Word, ...], count: int, seed: int) -> np.ndarray:
    """Samples of the integrals over a step h = 1, (count, words)."""
    rng = np.random.default_rng(seed)
    normals = {name: rng.standard_normal((count, k)) for name, k in RESOLVED.normals(m).items()}
    return _sampler(m, words)(normals)


class _Integrals:
    """The integrals of many steps h = 1 of some paths, drawn once for any number of methods and lengths of steps.

    words   the integrals that are drawn
    begun   steps before those that count
    chunks  arrays (TOGETHER, words, paths), one for so many steps
    """

    def __init__(self, words: tuple[Word, ...], steps: int, paths: int, seed: int):
        self.words, self.paths, self.begun = words, paths, steps // 10
        m = max((max(w) for w in words), default=1)
        seeds = (seed * 1_000_003 + first for first in range(0, steps + self.begun, TOGETHER))
        draws = (_draws(m, words, TOGETHER * paths, seed) for seed in seeds)
        self.chunks: list[np.ndarray] = [
            np.moveaxis(values.reshape(TOGETHER, paths, len(words)), 1, 2) for values in draws
        ]


@functools.lru_cache(maxsize=2)  # of two channels they take 32 MB
def _shown_by(words: tuple[Word, ...], seed: int) -> _Integrals:
    """The integrals that show the sign of an exponent, kept for the next call."""
    return _Integrals(words, **SHOWN_BY, seed=seed)


def _exponents(
    amplifications: Sequence[Amplification], integrals: _Integrals, without_first_order: bool = False
) -> np.ndarray:
    """log‖Ξ_n‖ / (n h) of each amplification and path, (amplifications, paths), all with the same integrals.

    Without the first order in the noise, which is 0 in the mean, paths begin at all phases, and the sign of the mean
    shows at short steps too: what is left of the noise is like h, as the mean is, not like √h.
    """
    if not amplifications:
        return np.empty((0, integrals.paths))
    count = max(IN_CACHE // integrals.paths, 1)
    parts = (amplifications[k : k + count] for k in range(0, len(amplifications), count))
    of_few = _second_order_exponents if without_first_order else _plain_exponents
    with np.errstate(all="ignore"):  # states may grow beyond all numbers
        return np.concatenate([of_few(part, integrals) for part in parts])


def _plain_exponents(amplifications: Sequence[Amplification], integrals: _Integrals) -> np.ndarray:
    steps = _Steps(amplifications, integrals)
    Ξ = np.stack([np.broadcast_to(row, steps.shape) for row in (1.0, 0.3 * steps.dt, -(steps.Ω**2))], axis=1)
    logs, counted = 0.0, 0
    for number, chunk in enumerate(integrals.chunks):
        for values in chunk:
            steps.advance(Ξ, values)
        size = steps.rescaled(Ξ)
        if number * TOGETHER >= integrals.begun:
            logs, counted = logs + np.log(size), counted + TOGETHER
    return logs / (counted * steps.dt)


def _second_order_exponents(amplifications: Sequence[Amplification], integrals: _Integrals) -> np.ndarray:
    steps = _Steps(amplifications, integrals)
    phase = 2.0 * math.pi * np.arange(integrals.paths) / integrals.paths
    Ξ = np.stack([np.cos(phase) * steps.Ω**0, np.sin(phase) * steps.Ω, -np.cos(phase) * steps.Ω**2], axis=1)
    logs, first, counted = np.zeros(steps.shape), np.zeros(steps.shape), 0
    for number, chunk in enumerate(integrals.chunks):
        is_counted = number * TOGETHER >= integrals.begun
        for values in chunk:
            steps.advance(Ξ, values)
            if is_counted:
                first += steps.first_order(Ξ)
        size = steps.rescaled(Ξ)
        if is_counted:
            logs, counted = logs + np.log(size), counted + TOGETHER
    return _uncorrelated(logs, first) / (counted * steps.dt)


def _uncorrelated(values: np.ndarray, control: np.ndarray) -> np.ndarray:
    """The values less the multiple of the control, of mean 0, that leaves them the least variance; rows apart."""
    away = control - control.mean(axis=1, keepdims=True)
    square = np.sum(away**2, axis=1, keepdims=True)
    slope = np.sum(away * values, axis=1, keepdims=True) / square
    return values - np.where(np.isfinite(slope), slope, 0.0) * np.where(np.isfinite(control), control, 0.0)


class _Steps:
    """Steps of some amplifications with the same integrals.

    States are (amplifications, 3, paths), always in the same memory: a step is a few products of long rows.
    """

    def __init__(self, amplifications: Sequence[Amplification], integrals: _Integrals):
        self.shape = count, paths = len(amplifications), integrals.paths
        omega, self.dt = (np.array([getattr(a, name) for a in amplifications])[:, None] for name in ("omega", "dt"))
        self.Ω = omega * self.dt
        self.linear, self.noise = _factors(amplifications, integrals.words)
        # Near the energy for slow oscillations: any other norm would show their phase.
        self.norms = np.stack([a.adapted_norm() for a in amplifications])
        self.images, self.rows = np.empty((count, self.linear.shape[1], paths)), np.empty((len(self.noise), paths))
        self.drifted, self.entries = self.images[:, :3], self.images[:, 3:].swapaxes(0, 1)[:, :, None]
        self.kicks = self.rows.reshape(len(self.entries), count, 3, paths)

    def advance(self, Ξ: np.ndarray, integrals: np.ndarray) -> None:
        np.matmul(self.linear, Ξ, out=self.images)
        np.matmul(self.noise, integrals, out=self.rows)
        np.multiply(self.kicks, self.entries, out=self.kicks)
        Ξ[...] = self.drifted
        for kick in self.kicks:
            Ξ += kick

    def first_order(self, Ξ: np.ndarray) -> np.ndarray:
        """d/ds log‖A_d Ξ + s A_s Ξ‖ at s = 0 in the step to Ξ."""
        weights = self.norms @ self.drifted
        square = np.einsum("aip,aip->ap", weights, self.drifted)
        return np.einsum("aip,aip->ap", weights, Ξ) / square - 1.0

    def rescaled(self, Ξ: np.ndarray) -> np.ndarray:
        """The sizes of the states, which are taken out of them."""
        size = np.sqrt(np.sum(Ξ * (self.norms @ Ξ), axis=1))
        Ξ /= size[:, None]
        return size


def _factors(amplifications: Sequence[Amplification], words: tuple[Word, ...]) -> tuple[np.ndarray, np.ndarray]:
    """A_d above R (amplifications, 3 + rank, 3), and B (rank · amplifications · 3, words) with A_w = Σ_k B_kw R_k.

    Noise enters by few combinations R Ξ of the state, at most one for each channel: B is smaller than all A_w.
    """
    terms = np.stack([_scaled(a, words) for a in amplifications])  # (amplifications, 3, 3, words)
    columns = terms.swapaxes(1, 2).reshape(len(terms), 3, -1)
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    rounding = max(columns.shape[1:]) * EPSILON  # a rank that is one too high costs time and changes nothing
    rank = int(np.max(np.sum(sizes > rounding * sizes[:, :1], axis=1), initial=0))
    R = left[:, :, :rank].swapaxes(1, 2)
    B = (R @ columns).swapaxes(0, 1).reshape(rank * len(terms) * 3, len(words))
    deterministic = np.stack([a.deterministic for a in amplifications])
    return np.concatenate([deterministic, R], axis=1), B


def _scaled(amplification: Amplification, words: tuple[Word, ...]) -> np.ndarray:
    """A_w for integrals over a step h = 1, (3, 3, words)."""
    none, scaled = np.zeros((3, 3)), np.empty((3, 3, len(words)))
    for k, w in enumerate(words):
        scaled[:, :, k] = amplification.dt ** (weight(w) / 2) * amplification.terms.get(w, none)
    return scaled


@functools.lru_cache(maxsize=16)
def _sampler(m: int, words: tuple[Word, ...]) -> AtPoints:
    def one(normals):
        noise = RESOLVED.increment(1.0, normals, m)
        return jnp.stack([noise.word(w) for w in words]) if words else jnp.zeros(0)

    return AtPoints(one)


def _estimate(values: np.ndarray) -> Estimate:
    return Estimate(float(np.mean(values)), float(np.std(values) / math.sqrt(len(values))))


# --- without noise ----------------------------------------------------------------------------------------------------


class Dissipation(NamedTuple):
    """The effect of a method on a free oscillation, for each Ω = ω h.

    radius             the spectral radius of A_d
    period_elongation  (T_numerical - T)/T
    damping            the damping ratio that the method adds, -log|λ| / arg λ of the principal pair
    """

    radius: np.ndarray
    period_elongation: np.ndarray
    damping: np.ndarray


@checks_arguments
def dissipation(method: GeneralisedAlpha | str, Omega: ArrayLike) -> Dissipation:
    """Compute spectral radius, period elongation and algorithmic damping of an α method over Ω = ω dt.

    Parameters
    ----------
    method : GeneralisedAlpha or str
        An α method, or its name.
    Omega : array
        Ω.

    Returns
    -------
    Dissipation
        The last two are NaN where no pair of complex eigenvalues is left.
    """
    Ω, method = np.asarray(Omega, float), _alpha(method)
    A = np.stack([amplification(method, frequency, 1.0).deterministic for frequency in Ω.ravel()])
    λ = np.linalg.eigvals(A)
    pair = np.where(λ.imag > 0.0, λ, np.nan)  # LAPACK returns real eigenvalues as such
    with np.errstate(all="ignore"):
        least = np.nanargmin(np.where(np.isnan(pair), np.inf, np.abs(np.angle(pair) - Ω.ravel()[:, None])), axis=1)
        principal = pair[np.arange(len(pair)), least]
        angle = np.angle(principal)
        measures = np.abs(λ).max(axis=1), Ω.ravel() / angle - 1.0, -np.log(np.abs(principal)) / angle
    return Dissipation(*(part.reshape(Ω.shape) for part in measures))


# --- closed forms, corrected, against which the matrices above are checked --------------------------------------------


@checks_arguments
def closed_amplification(rho: float, Omega: float) -> np.ndarray:
    """Return A_d of Chung & Hulbert's coefficients: (12) of the paper with the sign of its entry (1, 3) corrected.

    Parameters
    ----------
    rho, Omega : float
        The spectral radius at infinity, and Ω = ω dt.

    Returns
    -------
    array (3, 3)
    """
    ρ, Ω2 = rho, Omega**2
    D = -(ρ**3) + 3 * ρ + Ω2 + 2
    A22 = -2 * ρ**3 + 6 * ρ + Ω2 * ((ρ - 2) * ρ - 1) + 4
    A23 = (ρ - 1) * (2 * (ρ + 1) ** 2 - Ω2 * (ρ - 1))
    A33 = (ρ * (ρ + 2) - 1) * Ω2 + 2 * ρ**2 * (2 * ρ + 3) - 2
    return np.array([
        [1 - Ω2 * (ρ + 1) / D, 1 - Ω2 / D, (ρ - ρ**3) / (2 * D)],
        [Ω2 * (ρ - 3) * (ρ + 1) ** 2 / (2 * D), A22 / (2 * D), -A23 / (4 * D)],
        [-Ω2 * (ρ + 1) ** 3 / D, -Ω2 * (ρ + 1) ** 2 / D, -A33 / (2 * D)],
    ])  # fmt: skip


@checks_arguments
def closed_eigenvalues(rho: float, Omega: float) -> np.ndarray:
    """Return the eigenvalues of closed_amplification by Cardano's formula: (13) with its brackets restored.

    Parameters
    ----------
    rho, Omega
        As in `closed_amplification`.

    Returns
    -------
    array (3,)
    """
    ρ, Ω2 = rho, complex(Omega) ** 2
    D, s = -(ρ**3) + 3 * ρ + Ω2 + 2, ρ + 1
    inner = (27 * (ρ - 1) * Ω2**2 + 2 * s**4 + 9 * s**2 * (3 * (ρ - 3) * ρ + 8) * Ω2) * s**5
    P3 = inner / D**3 + 3 * math.sqrt(3) * np.sqrt(Ω2 * s**10 * (27 * Ω2 * (ρ - 1) ** 2 + 4 * s**2) / D**4)
    P, Q = P3 ** (1 / 3), (5 - ρ * (3 * Ω2 + ρ * (4 * ρ + 3) - 6)) / (3 * D)
    L = -(s**4) * (3 * (3 * ρ - 4) * Ω2 + s**2) / D**2
    turns = np.exp(2j * np.pi * np.arange(3) / 3)
    return 2 ** (1 / 3) * L / (3 * P * turns) - P * turns / (3 * 2 ** (1 / 3)) + Q


@checks_arguments
def stiff_eigenvalues(c: Coefficients, h: float, W: float, Z: float, S: float, X: float) -> np.ndarray:
    """Return the two eigenvalues of A_stiff besides -ρ for W_v = W, Z_v = Z, S_v = S, X_v = X: (14).

    Parameters
    ----------
    c : Coefficients
        The coefficients of the method.
    h : float
        The step.
    W, Z, S, X : float
        The noise of the step.

    Returns
    -------
    array (2,)
    """
    β, γ = c.beta, c.gamma
    θ1 = (4 * β * h - 2 * γ * h + 2 * β * (S + W) * h - h - 2 * γ * (X + Z)) / (4 * β * h)
    θ2 = (h * (2 * γ - 2 * β * (S + W + 2) + 1) + 2 * γ * (X + Z)) ** 2
    θ3 = -8 * β * h**2 * (-2 * γ - S - W + 2 * β * (S + W + 1) + 1) + 16 * β * h * (γ - 1) * (X + Z)
    root = np.sqrt(complex(θ2 + θ3)) / (4 * β * h)
    return np.array([θ1 + root, θ1 - root])


@checks_arguments
def series_coefficients(rho: float, y: float) -> tuple[float, float]:
    """Return β and γ of stochastic_coefficients to ρ⁴ and first order in y; the paper's (16b) repeats its (16a).

    Parameters
    ----------
    rho, y : float
        The arguments of the series.

    Returns
    -------
    beta, gamma : float
    """
    powers = rho ** np.arange(5)
    β = np.array([1, -2, 3, -4, 5]) + y * np.array([-1 / 16, 1 / 4, -17 / 24, 5 / 3, -27 / 8])
    γ = np.array([1.5, -2, 2, -2, 2]) + y * np.array([-1 / 8, 3 / 8, -11 / 12, 23 / 12, -41 / 12])
    return float(β @ powers), float(γ @ powers)


# --- the estimates of the paper beside the true values ----------------------------------------------------------------


class Lemma(NamedTuple):
    """A statement of the paper at some numbers: the printed value, the true one, and whether they agree."""

    name: str
    printed: float
    true: float
    stderr: float
    holds: bool


@checks_arguments
def lemmas(
    method: GeneralisedAlpha, omega: float, dt: float, eta: float, chi: float, rho: float, count: int = 200_000
) -> list[Lemma]:
    """Check Lemmas 4.1, 4.3/4.4 and 4.5 and Theorems 4.1 to 4.3 of Rajan & Raha at some numbers.

    4.1 printed: √(7/3) η √h (+ its second term), or χ h^1.5/√3 for η = 0; true: E‖A_s‖_F. 4.4 printed: the radius of
    A_d plus max(θ, θ^(1/3)), θ = E‖A_s‖_F (1 + ‖N‖ + ‖N‖²), N the strict upper part of the Schur form of A_d; true:

    Parameters
    ----------
    method : GeneralisedAlpha
        An α method.
    omega, dt, eta, chi : float
        The frequency, the step, and the noise of the velocity and of the position.
    rho : float
        The spectral radius at infinity.
    count : int
        The number of draws over which expectations are taken.

    Returns
    -------
    list of Lemma
        Each with its verdict.

    Examples
    --------
    max|λ|. Theorem 4.1: the exponent is negative; 4.2, 4.3: the radii of the mean and the mean square are below 1.
    """
    step = amplification(method, omega, dt, eta, chi)
    norm, radius, exponent = step.noise_norm(count), step.mean_radius(count), step.lyapunov()
    first = math.sqrt(7 / 3) * abs(eta) * math.sqrt(dt)
    second = abs(eta) * (13 * eta**2 + 89 * omega / ((rho - 2) * (rho + 1) ** 2)) * dt**1.5 / (8 * math.sqrt(21))
    bound = first + second if eta else abs(chi) * dt**1.5 / math.sqrt(3)
    θ = norm.value * schur_sum(step.deterministic)
    spread = step.spectral_radius + max(θ, θ ** (1 / 3))
    contracts = step.contracts_with_probability(step.adapted_norm(), count)
    mean_square = step.mean_square_radius
    return [
        Lemma("4.1: E‖A_s‖_F at most", bound, *norm, norm.value <= bound + 3 * norm.stderr),
        Lemma("4.3, 4.4: E max|λ| at most", spread, *radius, radius.value <= spread + 3 * radius.stderr),
        Lemma("4.5: contractive with probability", 1.0, *contracts, contracts.value >= 1.0),
        Lemma("Theorem 4.1: exponent below", 0.0, *exponent, exponent.value < 3 * exponent.stderr),
        Lemma("Theorem 4.2: radius of the mean below", 1.0, step.spectral_radius, 0.0, step.spectral_radius < 1.0),
        Lemma("Theorem 4.3: mean-square radius below", 1.0, mean_square, 0.0, mean_square < 1.0),
    ]


@checks_arguments
def schur_sum(A: np.ndarray) -> float:
    """Compute 1 + ‖N‖ + ‖N‖², N the strictly upper part of the Schur form of A.

    Parameters
    ----------
    A : array (n, n)
        The matrix.

    Returns
    -------
    float
    """
    T, _ = scipy.linalg.schur(A, output="complex")
    size = np.linalg.norm(np.triu(T, 1), 2)
    return float(1.0 + size + size**2)


class LargestStep(NamedTuple):
    """The largest step with which an α method is stable on the test equation, in several senses.

    mean          up to which E Ξ does not grow: inf for every rho, 2/ω for Newmark's explicit method; 0 where it
                  grows at every step
    mean_square   (h_low, h_high), the steps at which second moments die out; None where there are none. The equation
                  itself is unstable in mean square, at the rate `exact_growth`: small steps show it, larger hide it
    almost_surely (h_low, h_high), simulated where second moments do not die out; h_low = 0 where small steps are stable
    paper         the largest step that satisfies the inequality of the paper's Theorem 4.3; 0 where none does
    exact_growth  d/dt log E x²; exact_exponent: the almost-sure one for small noise, -η²/8 + χ²/(8 ω²)
    """

    mean: float
    mean_square: tuple[float, float] | None
    almost_surely: tuple[float, float] | None
    paper: float
    exact_growth: float
    exact_exponent: float


@checks_arguments
def largest_stable_step(
    omega: float,
    eta: ArrayLike,
    chi: ArrayLike,
    rho: float,
    *,
    method: GeneralisedAlpha | str | None = None,
    simulate: bool = True,
    seed: int = 1,
) -> LargestStep:
    """Compute the largest stable step of StochasticAlpha(rho), or another α method, and that of the paper's inequality.

    Steps from 1e-3/ω to 1e3/ω are tried, 12 per decade (4 where the exponent is simulated), and then between the ends.

    Parameters
    ----------
    omega : float
        The frequency ω, > 0.
    eta, chi : float or array
        The noise of the velocity and of the position: numbers, or one per channel.
    rho : float
        The spectral radius at infinity.
    method : GeneralisedAlpha or str, optional
        The method; by default StochasticAlpha(rho).
    simulate : bool
        Whether the Lyapunov exponent, which decides almost sure stability, is simulated.
    seed : int
        The seed of that simulation.

    Returns
    -------
    LargestStep

    Raises
    ------
    ValueError
        If `omega` is not above 0.
    """
    if not (math.isfinite(omega) and omega > 0):
        raise ValueError(f"omega: expected a frequency > 0, in units of which steps are long or short, got {omega!r}")
    method = StochasticAlpha(rho=rho) if method is None else _alpha(method)
    eta, chi = _fewest_channels(eta, chi)
    η2, χ2 = (float(np.sum(np.square(np.asarray(value, float)))) for value in (eta, chi))

    known: dict[float, Amplification] = {}

    def at(steps: np.ndarray) -> list[Amplification]:
        new = [h for h in steps.tolist() if h not in known]
        known.update(zip(new, _amplifications(method, float(omega), new, eta, chi) if new else (), strict=True))
        return [known[h] for h in steps.tolist()]

    def of_each(excess: Callable[[Amplification], float]) -> Callable[[np.ndarray], np.ndarray]:
        return lambda steps: np.array([excess(step) for step in at(steps)])

    def excess(step: Amplification) -> float:
        return step.spectral_radius - 1.0 - STAYS

    def inequality(step: Amplification) -> float:
        θ = math.sqrt(7 / 3 * η2 * step.dt) * schur_sum(step.deterministic)
        radius = step.spectral_radius
        return max(θ, θ ** (1 / 3)) - (1 - radius**2) / (2 * radius)

    fine, coarse = (np.geomspace(1e-3 / omega, 1e3 / omega, count) for count in (73, 25))
    at(np.unique(np.concatenate([fine, coarse])))
    ends = next((k for k, step in enumerate(at(fine)) if excess(step) >= 0.0), len(fine))
    mean = _stable(of_each(excess), fine[: ends + 1])
    mean_square = _stable(of_each(lambda step: step.mean_square_radius - 1.0), fine)
    is_stable = _stable(of_each(inequality), fine)
    almost = None
    if simulate:
        words = tuple(dict.fromkeys(w for step in at(coarse) for w in step.terms))
        integrals = _shown_by(words, seed)

        def signs_of_exponents(steps: np.ndarray) -> np.ndarray:
            """Their signs: below 0 where second moments die out, and every path with them, else simulated."""
            tried, signs = at(steps), np.full(len(steps), -1.0)
            growing = [k for k, step in enumerate(tried) if not step.is_mean_square_stable]
            exponents = _exponents([tried[k] for k in growing], integrals, without_first_order=True)
            signs[growing] = exponents.mean(axis=1)
            return signs

        almost = _stable(signs_of_exponents, coarse, rounds=2, parts=6)
        if almost is not None and almost[0] == coarse[0]:
            almost = (0.0, almost[1])
    return LargestStep(
        0.0 if mean is None else mean[1],
        mean_square,
        almost,
        0.0 if is_stable is None else is_stable[1],
        growth(omega=omega, eta=eta, chi=chi),
        -η2 / 8 + χ2 / (8 * omega**2),
    )


largest_step = largest_stable_step  # its public name; covariance.largest_step is the largest step of small errors


def _fewest_channels(eta: ArrayLike, chi: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Noise of the same law in as few channels as there are independent combinations of x and v: W turned is W again,
    in law, and integrals of many channels take long to draw."""
    rows = np.broadcast_arrays(*(np.atleast_1d(np.asarray(value, float)) for value in (eta, chi)))
    turned, sizes, _ = np.linalg.svd(np.stack(rows), full_matrices=False)
    count = max(int(np.sum(sizes > max(len(rows), len(rows[0])) * EPSILON * sizes[0])), 1)
    η, χ = turned[:, :count] * sizes[:count]
    return (η, χ) if len(rows[0]) > count else (rows[0], rows[1])


def _stable(
    excess: Callable[[np.ndarray], np.ndarray], grid: np.ndarray, rounds: int = 60, parts: int = 2
) -> tuple[float, float] | None:
    """The ends of the last stretch of the grid on which excess < 0, divided further (on a logarithmic scale)."""
    is_negative = excess(grid) < 0.0
    if not is_negative.any():
        return None
    last = int(np.flatnonzero(is_negative)[-1])
    first = int(np.flatnonzero(np.append(True, ~is_negative[:last]))[-1])
    inside, outside = grid[[first, last]], np.append(grid, grid[-1])[[max(first - 1, 0), last + 1]]
    for _ in range(rounds):
        is_open = np.abs(np.log(outside / inside)) >= 1e-10
        if not is_open.any():
            break
        between = np.geomspace(inside[is_open], outside[is_open], parts + 1, axis=1)
        is_unstable = excess(between[:, 1:-1].ravel()).reshape(-1, parts - 1) >= 0.0
        next_out = np.argmax(np.append(is_unstable, np.ones((len(between), 1), bool), axis=1), axis=1)
        inside[is_open], outside[is_open] = np.take_along_axis(between, next_out[:, None] + [0, 1], axis=1).T
    low, high = inside.tolist()
    return low, math.inf if last == len(grid) - 1 else high
