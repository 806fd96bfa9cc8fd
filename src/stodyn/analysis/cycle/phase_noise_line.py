"""The line of an oscillator whose phase wanders with Var(α(t + τ) - α(t)) = D(τ).

With white noise c and sources of 1/f noise, each a sum of poles of variance σ² and time constant τ_p with the mean
sensitivity V,
    D(τ) = c τ + Σ V² Σ_p 2 σ_p² τ_p (τ - τ_p (1 - e^{-τ/τ_p})),
    L(f) = 2 Re ∫_0^∞ exp(-φ(τ) + iΔτ) dτ,   φ = ½ k² ω0² D,   Δ = 2π f,   power 1 over all f.
By parts this is 2 Re (iΔ)⁻¹ ∫ φ' exp(-φ + iΔτ) dτ, in which nothing cancels far from the carrier, and along the ray
τ = s e^{iπ/4} the integrand decays without D growing. White noise alone gives the Lorentzian 2a/(a² + Δ²), a = ½k²ω0²c.
"""

from __future__ import annotations

import dataclasses

import numpy as np

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
RAY = np.exp(0.25j * np.pi)
DECADES = 20  # below the end of the integral
ENOUGH = 45.0  # e^-45 is nothing


@dataclasses.dataclass(frozen=True, eq=False)
class Wander:
    """How the phase wanders: c, and the poles of the 1/f noise as seen by the phase.

    strength   V² σ_p² of each pole
    times      τ_p of each
    """

    c: float
    strength: np.ndarray
    times: np.ndarray

    def variance(self, τ: np.ndarray) -> np.ndarray:
        """Return D(τ), the variance by which the phase wanders in the time τ."""
        ratio = np.asarray(τ)[..., None] / self.times
        return self.c * np.asarray(τ) + (2.0 * self.strength * self.times**2 * (ratio + np.expm1(-ratio))).sum(-1)

    def rate(self, τ: np.ndarray) -> np.ndarray:
        """Return D'(τ), the rate at which that variance grows."""
        ratio = np.asarray(τ)[..., None] / self.times
        return self.c - (2.0 * self.strength * self.times * np.expm1(-ratio)).sum(-1)

    def slow_density(self, f: np.ndarray) -> np.ndarray:
        """V² S_N(f): the two-sided density of the rate of the phase that the poles make."""
        turns = 2.0 * np.pi * np.asarray(f)[..., None] * self.times
        return (2.0 * self.strength * self.times / (1.0 + turns**2)).sum(-1)

    def line(self, f: np.ndarray, angular_frequency: float) -> np.ndarray:
        """L(f) for a harmonic of this angular frequency, k ω0."""
        Δ = 2.0 * np.pi * np.asarray(f, float)
        half = 0.5 * angular_frequency**2
        if not len(self.times):
            a = half * self.c
            return 2.0 * a / (a * a + Δ * Δ)
        return np.array([self._integral(d, half) for d in Δ])

    def _integral(self, Δ: float, half: float) -> float:
        end = self._end(Δ, half)
        edges = np.append(0.0, end * 2.0 ** np.arange(-3.4 * DECADES, 0.5))
        middle, reach = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
        s = middle[:, None] + reach[:, None] * NODES
        τ = RAY * s
        values = half * self.rate(τ) * np.exp(-half * self.variance(τ) + 1j * Δ * τ) * RAY
        if Δ == 0.0:
            whole = np.sum(np.exp(-half * self.variance(τ)) * RAY * WEIGHTS * reach[:, None])
            return float(2.0 * whole.real)
        return float(2.0 * (np.sum(values * WEIGHTS * reach[:, None]) / (1j * Δ)).real)

    def _end(self, Δ: float, half: float) -> float:
        """Where the integrand has died out along the ray."""
        low, high = -80.0, 80.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            τ = RAY * np.exp(middle)
            dies = (half * self.variance(np.array([τ]))[0]).real + Δ * np.exp(middle) * np.sqrt(0.5)
            low, high = (low, middle) if dies > ENOUGH else (middle, high)
        return float(np.exp(high))
