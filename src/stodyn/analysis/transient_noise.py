"""What stands beside a run of a circuit's transient noise: stationary deviations, the fastest rate, sampled spectra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

from stodyn.circuits import Circuit, NetlistError

LARGEST = 600  # unknowns up to which the stationary covariance is computed
EIGENVALUES = 2e7  # n³ of all the linearisations along the mean waveform together


def stationary(circuit: Circuit) -> tuple[np.ndarray | None, str]:
    """Standard deviations of the small-signal analysis, or why there are none."""
    if circuit.n > LARGEST:
        return None, f"no small-signal deviations: more than {LARGEST} unknowns"
    try:
        return np.sqrt(np.diagonal(circuit.small_signal.covariance())), ""
    except NetlistError as error:
        return None, f"no small-signal analysis: {error}"
    except ValueError:
        rates = circuit.small_signal.rates
        grows = rates.real.max() > 1e-9 * abs(rates[0])
        why = "the circuit is not stable" if grows else "nothing holds the charge of some node"
        return None, f"no small-signal deviations: {why} at the operating point"


def fastest(circuit: Circuit, run: Any) -> tuple[float, float]:
    """The fastest rate of the circuit linearised along its mean waveform (1/s), and when."""
    times, means = run["time"].values, run["mean"].values
    looks = np.linspace(0, len(times) - 1, int(np.clip(EIGENVALUES / circuit.n**3, 2, len(times)))).astype(int)
    if circuit.n > LARGEST:
        return 0.0, 0.0
    if circuit.is_affine:
        looks = looks[:1]
    rates = []
    for k in looks:
        try:
            rates.append(abs(circuit.linearised(means[k]).rates[0]))
        except (np.linalg.LinAlgError, IndexError):  # no linearisation there, or nothing that moves
            rates.append(0.0)
    most = int(np.argmax(rates))
    return float(rates[most]), float(times[looks[most]])


def band(circuit: Circuit, steps: int) -> tuple[float, float]:
    """Frequencies worth drawing: those of .noise, else what the run resolves."""
    asked = circuit.network.netlist.noise
    if asked is not None:
        return asked.sweep.first, asked.sweep.last
    return 1.0 / circuit.span[1], 0.5 * steps / circuit.span[1]


def deviation_spectrum(run: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The one-sided density of the kept paths' deviations from their mean, over the second half of the run."""
    kept = run["path"].sel(component=name)
    values, times = kept.values, kept[next(str(d) for d in kept.dims if str(d).startswith("time"))].values
    values = values if values.shape[-1] == len(times) else values.T
    half = values[:, len(times) // 2 :]
    away = (half - half.mean(axis=0)) * math.sqrt(len(half) / (len(half) - 1))
    segment = min(len(away[0]), 1024)
    frequency, power = scipy.signal.welch(away, 1.0 / (times[1] - times[0]), "hann", segment, detrend=False)
    return frequency[1:], power.mean(axis=0)[1:]
