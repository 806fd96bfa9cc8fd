"""stodyn circuit: the transient noise of a netlist, statistics at every node."""

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.signal
import typer
from rich.console import Console
from rich.table import Table

from stodyn.circuits import Circuit, NetlistError, examples, read
from stodyn.cli import looked_up
from stodyn.methods.catalogue import find

KEPT, LOOKS = 256, 400  # paths kept for the sampled spectrum; times at which statistics are taken
MOST_KEPT = 30_000_000  # numbers in the paths kept
LARGEST = 600  # unknowns up to which the stationary covariance is computed


def command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help=f"A netlist, or the name of an example: {', '.join(examples())}.")
    ],
    paths: Annotated[int, typer.Option(help="How many paths.", min=2)] = 1000,
    method: Annotated[str, typer.Option(help="A method for SDAEs, as `stodyn methods` names it.")] = "Trapezoidal",
    probe: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="A node to draw; give it again for more, or NODE,NODE.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for pictures and run.nc (default: circuits/NAME).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other paths.", min=0)] = 1,
) -> None:
    """Simulate the transient noise of a SPICE netlist: statistics of every node, waveforms with ±2σ, noise spectra.

    The run is that of .tran (its step is the step of the method); the noise is that of the elements: thermal, shot,
    channel and flicker. Beside it stands the small-signal analysis at the operating point.
    """
    chosen: Any = looked_up(find, method)
    path = Path(file)
    path = examples().get(file, path) if not path.exists() else path
    try:
        circuit = read(path)
        span, step = circuit.span, circuit.step
    except NetlistError as error:
        raise typer.BadParameter(str(error)) from None
    probed = probes(circuit, probe)
    out = out or Path("circuits") / path.stem
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"--out: {out} is not a folder; name another")
    out.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    steps = round(span[1] / step)
    elements = circuit.network.netlist.elements
    console.print(circuit.title or path.name, style="bold", markup=False)
    for note in circuit.notes:
        console.print(note, style="dim", markup=False)
    console.print(
        f"{len(elements)} elements, {len(circuit.nodes)} nodes, {circuit.channels.total} channel(s) of noise; "
        f"{paths:,} paths of {steps:,} steps of {amount(step, 's')} by {chosen.name}", markup=False)  # fmt: skip
    run = simulated(circuit, chosen, paths, seed, steps, bool(probed))
    rest, why = stationary(circuit)
    console.print(table(circuit, run, rest))
    bare = [name for name in circuit.channels.without_white if name in circuit.nodes]
    if bare:
        said = f"no capacitor at {', '.join(bare)}: white noise there has an infinite variance, σ is that of the rest"
        console.print(said, markup=False)
    if why:
        console.print(why, markup=False)
    elif probed:
        tell_spectrum(console, circuit, probed[0], steps)
    for made in written(circuit, run, probed, rest is not None, out):
        console.print(f"wrote {made}", soft_wrap=True, markup=False)


def probes(circuit: Circuit, asked: list[str] | None) -> list[str]:
    """The components to draw: those asked for; else the output of .noise; else up to four that no source holds."""
    if asked:
        names = [name.strip().lower() for word in asked for name in word.split(",")]
        for name in names:
            if name not in circuit.names:  # type: ignore[operator]
                raise typer.BadParameter(f"--probe: there is no {name}; there are {', '.join(circuit.names[:40])}")  # type: ignore[index]
        return names
    if circuit.network.netlist.noise is not None and circuit.network.netlist.noise.node in circuit.nodes:
        return [circuit.network.netlist.noise.node]
    held = {node for e in circuit.network.netlist.elements if e.kind == "v" for node in e.nodes}
    return [node for node in circuit.nodes if node not in held][:4]


def simulated(circuit: Circuit, method: Any, paths: int, seed: int, steps: int, with_paths: bool) -> Any:
    from stodyn import statistics
    from stodyn.engine.failure import PathsFailed
    from stodyn.engine.simulate import simulate

    every = max(1, steps // LOOKS)
    kept = min(KEPT, paths, max(8, MOST_KEPT // (steps * circuit.n)))
    collect: list[Any] = [statistics.Moments(every=every)]
    collect += [statistics.Paths(kept, every=max(1, steps // 4096))] if with_paths else []
    try:
        return simulate(circuit, method, t=circuit.span, dt=circuit.step, paths=paths, seed=seed, collect=collect)
    except PathsFailed as error:
        typer.echo(f"{error}\nTake a shorter step in .tran, or another --method: BDF2Maruyama does not ring.", err=True)
        raise typer.Exit(1) from None
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None


def stationary(circuit: Circuit) -> tuple[np.ndarray | None, str]:
    """Standard deviations of the small-signal analysis, or why there are none."""
    if circuit.n > LARGEST:
        return None, f"no small-signal deviations: more than {LARGEST} unknowns"
    try:
        return np.sqrt(np.diagonal(circuit.small_signal.covariance())), ""
    except NetlistError as error:
        return None, f"no small-signal analysis: {error}"
    except ValueError:
        return None, "no small-signal deviations: the circuit is not stable at its operating point"


def table(circuit: Circuit, run: Any, rest: np.ndarray | None) -> Table:
    shown = Table("node", f"mean at {amount(circuit.span[1], 's')}", "σ there", "largest σ", "small-signal σ", box=None,
                  header_style="bold", padding=(0, 1, 0, 0))  # fmt: skip
    for column in shown.columns:
        column.justify, column.no_wrap = "right" if column.header != "node" else "left", True
    times, end = run["time"].values, run.isel(time=-1)
    for i, name in enumerate(circuit.nodes):
        mean, variance = run["mean"].values[:, i], run["variance"].values[:, i]
        rounding = 1e-13 * max(float(np.abs(mean).max()), 1e-300)
        deviation = np.where(np.sqrt(variance) > rounding, np.sqrt(variance), 0.0)
        σ, most = float(deviation[-1]), int(np.argmax(deviation))
        error = float(end["variance_stderr"].values[i]) / (2.0 * σ) if σ > 0.0 else 0.0
        shown.add_row(
            name,
            between(
                float(mean[-1]) if abs(mean[-1]) > 10.0 * rounding else 0.0,
                float(end["mean_stderr"].values[i]) if σ else 0.0,
            ),
            between(σ, error),
            f"{amount(float(deviation[most]), 'V')} at {amount(float(times[most]), 's')}" if σ else "0 V",
            "" if rest is None else amount(float(rest[i]), "V"),
        )
    return shown


def between(value: float, stderr: float) -> str:
    """A voltage with its standard error, to the digits that it has."""
    if not stderr:
        return amount(value, "V", 6)
    digits = 2 + max(0, math.floor(math.log10(abs(value) / stderr))) if value else 2
    return f"{amount(value, 'V', min(max(digits, 2), 9))} ± {amount(stderr, 'V', 2)}"


def tell_spectrum(console: Console, circuit: Circuit, node: str, steps: int) -> None:
    """The small-signal density of the first probe in the middle of its band, and what makes it."""
    if node not in circuit.nodes:
        return
    low, high = band(circuit, steps)
    found = circuit.small_signal.spectrum(node, [math.sqrt(low * high)])
    whole = float(found.density[0])
    parts = sorted(found.parts.items(), key=lambda part: -part[1][0])[:5]
    said = ", ".join(f"{name} {100 * float(density[0]) / whole:.3g} %" for name, density in parts) if whole else "none"
    console.print(f"small-signal noise of {node} at {amount(float(found.frequency[0]), 'Hz')}: "
                  f"{amount(math.sqrt(whole), 'V/√Hz')}, from {said}", markup=False)  # fmt: skip


def band(circuit: Circuit, steps: int) -> tuple[float, float]:
    """Frequencies worth drawing: those of .noise, else what the run resolves."""
    asked = circuit.network.netlist.noise
    if asked is not None:
        return asked.frequencies[2], asked.frequencies[3]
    return 1.0 / circuit.span[1], 0.5 * steps / circuit.span[1]


def written(circuit: Circuit, run: Any, probed: list[str], linear: bool, out: Path) -> list[Path]:
    """Pictures of the probes, and the statistics as run.nc."""
    from stodyn import plot, results

    files = []
    for name in probed:
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
        files.append(out / f"{safe}.png")
        plot.save(plot.transient_noise(run, name), files[-1])
        frequency, sampled = deviation_spectrum(run, name)
        computed = None
        if linear and name in circuit.nodes:
            low, high = band(circuit, round(circuit.span[1] / circuit.step))
            found = circuit.small_signal.spectrum(name, np.geomspace(low, high, 300))
            computed = found.frequency, found.density
        files.append(out / f"{safe}_noise.png")
        plot.save(
            plot.noise_density((frequency, sampled), computed, unit="V" if name in circuit.nodes else "A"), files[-1]
        )
    files.append(out / "run.nc")
    results.save(run.drop_dims([d for d in run.dims if str(d).startswith(("path", "time_path"))]), files[-1])
    return files


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


def amount(value: float, unit: str, digits: int = 3) -> str:
    """An engineering number of so many digits: 6.44 µV, -1.250 mV, 0 V."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    rounded = float(f"{value:.{digits - 1}e}")
    power = min(max(math.floor(math.log10(abs(rounded)) / 3.0 + 1e-9), -6), 4)
    scaled = rounded / 1000.0**power
    places = max(0, digits - 1 - math.floor(math.log10(abs(scaled)) + 1e-9))
    return f"{scaled:.{places}f} {'afpnµm kMGT'[power + 6].strip()}{unit}"
