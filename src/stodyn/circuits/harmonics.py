"""The harmonics of a periodic waveform: .four."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FOURIER_POINTS = 512  # of a period
FOURIER_ACCURACY = 1e-10  # of the transient without noise
HARMONICS = 9  # the fundamental included, as in SPICE


class Harmonics(NamedTuple):
    """Sizes and phases (degrees, of sines) of the mean (0), the fundamental (1) and the harmonics of a waveform."""

    frequency: np.ndarray
    size: np.ndarray
    phase: np.ndarray

    @property
    def distortion(self) -> float:
        """The total harmonic distortion: the root of the sum of squares of the harmonics over the fundamental."""
        return float(np.sqrt(np.sum(self.size[2:] ** 2)) / self.size[1])


def last_period(frequency: float, end: float) -> np.ndarray:
    """Times of the last period before the end, both its ends included."""
    return np.maximum(end - (1.0 - np.arange(FOURIER_POINTS + 1) / FOURIER_POINTS) / frequency, 0.0)


def harmonics(values: np.ndarray, frequency: float) -> Harmonics:
    """The harmonics of a period of values, its first point repeated at its end."""
    parts = np.fft.rfft(values[:-1])[: HARMONICS + 1] / (len(values) - 1)
    sizes = np.abs(parts) * np.where(np.arange(len(parts)) > 0, 2.0, 1.0)
    phases = np.degrees(np.angle(parts)) + np.where(np.arange(len(parts)) > 0, 90.0, 0.0)
    return Harmonics(frequency * np.arange(len(parts)), sizes, (phases + 180.0) % 360.0 - 180.0)
