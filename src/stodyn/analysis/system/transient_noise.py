"""The transient noise of a circuit: its run, what the run says of each node, and what stands beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray

from stodyn import listing, statistics
from stodyn.arguments import checks_arguments
from stodyn.circuits import Circuit, NetlistError
from stodyn.engine.simulate import simulate
from stodyn.hints import Count, whole
from stodyn.methods.catalogue import named
from stodyn.methods.contract import Catalogued
from stodyn.numerics.amounts import amount
from stodyn.numerics.lyapunov import NotStable

__all__ = [
    "ComponentNoise",
    "Density",
    "MeasuredOverPaths",
    "component_noise",
    "deviation_spectrum",
    "loudest",
    "measured",
    "simulated",
    "stationary",
]
__dir__ = listing.names_of(__name__)

LARGEST = 600  # unknowns up to which the stationary covariance is computed
EIGENVALUES = 2e7  # n³ of all the linearisations along the mean waveform together
SPECTRUM_PATHS, TIMES = 256, 400  # paths kept for the sampled spectrum; times at which statistics are taken
MOST_KEPT = 30_000_000  # numbers in the paths kept
RESOLVED = 2.0  # step times fastest rate: beyond it the trapezoidal rule changes signs from step to step
SHOWN = 1e-13  # of the largest mean of a component: smaller deviations, a few hundred roundings, are shown as 0
LEAST_SHARE = 0.001  # shares of the noise below it are not listed


class ComponentNoise(NamedTuple):
    """A voltage or current at the end of a run: its mean and standard deviation σ with their errors.

    largest, largest_time  the largest σ of the run, and when
    small_signal           σ by the small-signal analysis at the operating point; None where there is none
    """

    name: str
    unit: str
    mean: float
    mean_stderr: float
    deviation: float
    deviation_stderr: float
    largest: float
    largest_time: float
    small_signal: float | None


class MeasuredOverPaths(NamedTuple):
    """A .measure over the paths kept: mean and standard deviation of the paths that met it (NaN where none did)."""

    mean: float
    deviation: float
    met: int
    paths: int


class Density(NamedTuple):
    """The root of a small-signal noise density at a frequency, and the largest shares of its sources."""

    frequency: float
    root: float
    shares: dict[str, float]


def probes(circuit: Circuit, wanted: Sequence[str] = ()) -> list[str]:
    """Choose the components worth drawing: the wanted ones (out, v(out), or several with commas between them).

    By default it is the output of .noise; without that, up to four nodes that no source holds, those inside subcircuits
    last. A node that there is not is refused.
    """
    if wanted:
        names = [name.strip().lower() for word in wanted for name in word.split(",")]
        names = [name[2:-1] if name.startswith("v(") and name.endswith(")") else name for name in names]
        for name in names:
            if name not in circuit.network.names:
                raise ValueError(f"unknown node {name}; there are {', '.join(circuit.network.names[:40])}")
        return names
    netlist = circuit.network.netlist
    if netlist.noise is not None and netlist.noise.node in circuit.nodes:
        return [netlist.noise.node]
    held = {node for e in netlist.elements if e.kind == "v" for node in e.nodes}
    return sorted((node for node in circuit.nodes if node not in held), key=lambda node: "." in node)[:4]


def step_lengths(circuit: Circuit, method: Catalogued) -> np.ndarray:
    """Return the steps of .tran as `Circuit.time_steps` plans them; equal ones for methods that need them."""
    if getattr(method, "starting_steps", 0):
        return np.diff(circuit.times)
    return circuit.time_steps()


@checks_arguments
def simulated(
    circuit: Circuit,
    method: Catalogued | str,
    *,
    paths: Count,
    seed: int,
    keep_paths: bool = True,
    dt: np.ndarray | None = None,
) -> xarray.Dataset:
    """Run a circuit over the time of its .tran, with random values drawn for each path.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    method : Method or str
        The method, or its name.
    paths, seed : int
        As in `simulate`.
    keep_paths : bool
        Whether some paths are stored beside the moments.
    dt : array, optional
        The lengths of the steps; by default they are planned. Statistics are observed at times of .tran in any case.

    Returns
    -------
    xarray.Dataset
        Moments and, with `keep_paths`, some paths.
    """
    times, chosen = circuit.times, named(method)
    paths = whole("paths", paths)
    count = min(SPECTRUM_PATHS, paths, max(8, MOST_KEPT // (len(times) * circuit.n)))
    collect: list[Any] = [statistics.Moments(at=_thinned(times, TIMES))]
    collect += [statistics.Paths(count, at=_thinned(times, 4096))] if keep_paths else []
    problem = circuit.sampled(paths, seed) if circuit.random else circuit
    lengths = step_lengths(circuit, chosen) if dt is None else dt
    run = simulate(problem, chosen, t=circuit.span, dt=lengths, paths=paths, seed=seed, collect=collect)
    return run.sel(component=list(circuit.network.names)) if circuit.random else run


def _thinned(times: np.ndarray, count: int) -> list[float]:
    """Evenly chosen times, about `count` of them, and the last."""
    some = times[:: max(1, (len(times) - 1) // count)]
    return some.tolist() if some[-1] == times[-1] else [*some.tolist(), float(times[-1])]


@checks_arguments
def component_noise(
    circuit: Circuit, run: xarray.Dataset, rest: np.ndarray | None, names: Sequence[str]
) -> list[ComponentNoise]:
    """Read mean and deviation of components off a run; deviations that are only rounding count as 0.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    run : xarray.Dataset
        A result of `simulated`.
    rest : array or None
        The deviations of `stationary`, if there are any.
    names : sequence of str
        The names of the components.

    Returns
    -------
    list of ComponentNoise
    """
    times, end = run["time"].values, run.isel(time=-1)
    least = 0.0 if rest is None else 1e-12 * float(np.max(rest[: len(circuit.nodes)], initial=0.0))
    loudness = []
    for name in names:
        i = circuit.network.names.index(name)
        unit = circuit.network.units[i]
        mean, variance = run["mean"].values[:, i], run["variance"].values[:, i]
        least_shown = SHOWN * max(float(np.abs(mean).max()), 1e-300)
        deviation = np.where(np.sqrt(variance) > least_shown, np.sqrt(variance), 0.0)
        σ, most = float(deviation[-1]), int(np.argmax(deviation))
        small_signal = None
        if rest is not None:
            small_signal = float(rest[i]) if rest[i] > least or unit != "V" else 0.0
        loudness.append(
            ComponentNoise(
                name,
                unit,
                mean=float(mean[-1]) if abs(mean[-1]) > 10.0 * least_shown else 0.0,
                mean_stderr=float(end["mean_stderr"].values[i]) if σ else 0.0,
                deviation=σ,
                deviation_stderr=float(end["variance_stderr"].values[i]) / (2.0 * σ) if σ else 0.0,
                largest=float(deviation[most]),
                largest_time=float(times[most]),
                small_signal=small_signal,
            )
        )
    return loudness


@checks_arguments
def measured(circuit: Circuit, run: xarray.Dataset) -> dict[str, MeasuredOverPaths]:
    """Evaluate every .measure of the netlist, those of transients over the stored paths.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    run : xarray.Dataset
        A result of `simulated`.

    Returns
    -------
    dict
        Name -> MeasuredOverPaths.
    """
    measures = {}
    for analysis in dict.fromkeys(measure.analysis for measure in circuit.network.netlist.measures):
        for name, values in circuit.measured(analysis, run).items():
            met = values[np.isfinite(values)]
            mean = float(met.mean()) if len(met) else math.nan
            deviation = float(met.std(ddof=1)) if len(met) > 1 else math.nan
            measures[name] = MeasuredOverPaths(mean, deviation, len(met), len(values))
    return measures


def cautions(circuit: Circuit, run: xarray.Dataset, method: str, lengths: np.ndarray | None = None) -> list[str]:
    """List what a designer must know about a run: a step too long for the circuit, transistors with too little noise.

    `lengths` are those of the steps of the run; by default they are those of .tran.
    """
    warnings_in_words = []
    rate, time, step = fastest(circuit, run, np.diff(circuit.times) if lengths is None else lengths)
    if step * rate > RESOLVED and not (circuit.facts.is_affine and method != "Trapezoidal"):
        warnings_in_words.append(
            f"the step, {amount(step, 's')}, is {step * rate:.2g} times the shortest time constant, "
            f"{amount(1.0 / rate, 's')} at {amount(time, 's')}: "
            + (
                "waveforms ring after edges; take a shorter step in .tran, or --method BDF2Maruyama"
                if circuit.facts.is_affine
                else "σ is not to be trusted where devices switch that fast; compare with a shorter step in .tran"
            )
        )
    if circuit.too_quiet:
        warnings_in_words.append(
            f"in the triode region at the operating point: {', '.join(circuit.too_quiet[:10])}; the noise 2kT(2/3)g_m "
            "is too small there, NLEV=3 in the .model has it right"
        )
    bare = [name for name in circuit.channels.without_white if name in circuit.nodes]
    if bare:
        warnings_in_words.append(
            f"no capacitor at {', '.join(bare)}: white noise there has an infinite variance, σ is that of the rest, "
            "and spectra are those of the small-signal analysis alone"
        )
    return warnings_in_words


@checks_arguments
def loudest(circuit: Circuit, node: str) -> Density | None:
    """Find the small-signal density of a node in the middle of its band, and its largest sources.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    node : str
        The name of the node.

    Returns
    -------
    Density or None
        None where there is no noise.
    """
    low, high = band(circuit)
    spectrum = circuit.small_signal.spectrum(node, [math.sqrt(low * high)])
    whole = float(spectrum.density[0])
    if not whole:
        return None
    shares = sorted(((float(density[0]) / whole, name) for name, density in spectrum.parts.items()), reverse=True)
    listed = {name: share for share, name in shares[:5] if share >= LEAST_SHARE}
    return Density(float(spectrum.frequency[0]), math.sqrt(whole), listed)


@checks_arguments
def stationary(circuit: Circuit) -> tuple[np.ndarray | None, str]:
    """Return the standard deviations of the small-signal analysis, or why there are none.

    Parameters
    ----------
    circuit : Circuit
        The circuit.

    Returns
    -------
    deviations, reason : array or None, str
    """
    if circuit.n > LARGEST:
        return None, f"no small-signal deviations: more than {LARGEST} unknowns"
    try:
        return np.sqrt(np.diagonal(circuit.small_signal.covariance())), ""
    except NetlistError as error:
        return None, f"no small-signal analysis: {error}"
    except NotStable as error:
        why = "the circuit is not stable" if error.is_growing else "nothing holds the charge of some node"
        return None, f"no small-signal deviations: {why} at the operating point"
    except ValueError as error:
        return None, f"no small-signal deviations: {error}"


def fastest(circuit: Circuit, run: xarray.Dataset, lengths: np.ndarray) -> tuple[float, float, float]:
    """Return the rate (1/s) that is fastest relative to the step there, its time, and that step.

    Rates are those of the circuit linearised along its mean waveform.
    """
    times, means = run["time"].values, run["mean"].values
    places = np.linspace(0, len(times) - 1, int(np.clip(EIGENVALUES / circuit.n**3, 2, len(times)))).astype(int)
    if circuit.n > LARGEST:
        return 0.0, 0.0, 0.0
    if circuit.facts.is_affine:
        places = places[:1]
    rates = []
    for k in places:
        try:
            rates.append(abs(circuit.linearised(means[k]).rates[0]))
        except (np.linalg.LinAlgError, IndexError):  # no linearisation there, or nothing that moves
            rates.append(0.0)
    ends = circuit.span[0] + np.cumsum(lengths)
    step = lengths[np.searchsorted(ends, times[places]).clip(max=len(lengths) - 1)]
    if circuit.facts.is_affine:
        step = lengths.max(keepdims=True)
    most = int(np.argmax(rates * step))
    return float(rates[most]), float(times[places[most]]), float(step[most])


def band(circuit: Circuit) -> tuple[float, float]:
    """Return the lowest and highest frequency worth drawing: those of .noise, else those that the run resolves."""
    directive = circuit.network.netlist.noise
    if directive is not None:
        return directive.sweep.first, directive.sweep.last
    return 1.0 / circuit.span[1], 0.5 / circuit.step


@checks_arguments
def deviation_spectrum(run: xarray.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the one-sided density of the stored paths' deviations from their mean, over the second half of the run.

    Parameters
    ----------
    run : xarray.Dataset
        A result of `simulated`.
    name : str
        The name of the component.

    Returns
    -------
    frequency, density : arrays
    """
    paths = run["path"].sel(component=name)
    values, times = paths.values, paths[next(str(d) for d in paths.dims if str(d).startswith("time"))].values
    values = values if values.shape[-1] == len(times) else values.T
    half = values[:, len(times) // 2 :]
    away = (half - half.mean(axis=0)) * math.sqrt(len(half) / (len(half) - 1))
    length, h = min(len(away[0]), 1024), times[1] - times[0]
    window = np.sin(np.pi * np.arange(length) / length) ** 2  # Hann's; segments overlap by half (P. D. Welch)
    begins = range(0, away.shape[1] - length + 1, max(1, length - length // 2))
    power = np.mean([np.abs(np.fft.rfft(window * away[:, k : k + length])) ** 2 for k in begins], axis=(0, 1))
    power *= h / np.sum(window**2)
    power[1 : (length + 1) // 2] *= 2.0
    return np.fft.rfftfreq(length, h)[1:], power[1:]
