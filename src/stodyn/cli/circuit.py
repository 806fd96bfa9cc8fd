"""stodyn circuit: the transient noise of a netlist, statistics at every node."""

import difflib
import math
import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from stodyn.analysis.transient_noise import band, deviation_spectrum, fastest, stationary
from stodyn.circuits import Circuit, NetlistError, examples, read
from stodyn.circuits.expressions import number
from stodyn.cli import looked_up
from stodyn.methods.catalogue import catalogue, find
from stodyn.problems.sdae import SDAE

KEPT, LOOKS = 256, 400  # paths kept for the sampled spectrum; times at which statistics are taken
MOST_KEPT = 30_000_000  # numbers in the paths kept
RESOLVED = 2.0  # steps times the fastest rate: beyond it the trapezoidal rule changes signs from step to step
TOLD = 0.001  # shares of the noise below it are not told one by one


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
    phase_noise: Annotated[
        str | None, typer.Option(metavar="NODE", help="Phase noise and jitter of an oscillator at this node.")
    ] = None,
    offsets: Annotated[
        str | None, typer.Option(metavar="F1,F2", help="Offsets from the carrier for --phase-noise, such as 1k,100meg.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="Threshold at which --phase-noise counts periods, V.")] = None,
    library: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A folder from which .include and .lib may read as well.")
    ] = None,
) -> None:
    """Simulate the transient noise of a SPICE netlist: statistics of every node, waveforms with ±2σ, noise spectra.

    The run is that of .tran (its step is the step of the method); the noise is that of the elements: thermal, shot,
    channel and flicker. Beside it stands the small-signal analysis at the operating point. Random values of the netlist
    are drawn for each path; .measure tran is told with its standard deviation over the paths kept.

    With --phase-noise NODE nothing is sampled: the cycle of the oscillator, its phase noise, its jitter, their causes.
    """
    if phase_noise is not None:
        tell_phase_noise(file, phase_noise, offsets, level, out)
        return
    chosen: Any = looked_up(find, method)
    if chosen.accepts is not SDAE:
        fit = ", ".join(name for name, known in catalogue().items() if known.accepts is SDAE)
        raise typer.BadParameter(f"--method: {chosen.name} is not for circuits; these are: {fit}")
    path = located(file)
    try:
        circuit = read(path, libraries=library or ())
        if circuit.network.netlist.transient is None:
            raise NetlistError(f"{path.name}: there is no .tran; add .tran STEP STOP, such as .tran 1n 1u")
        span, step = circuit.span, circuit.step
    except NetlistError as error:
        raise typer.BadParameter(str(error)) from None
    probed = probes(circuit, probe)
    out = folder(out or Path("circuits") / path.stem)
    console = Console(highlight=False)
    steps = round(span[1] / step)
    elements = circuit.network.netlist.elements
    console.print(circuit.title or path.name, style="bold", markup=False)
    for note in circuit.notes:
        console.print(note, style="dim", markup=False)
    console.print(
        f"{counted(len(elements), 'element')}, {counted(len(circuit.nodes), 'node')}, "
        f"{counted(circuit.channels.total, 'channel')} of noise; "
        f"{paths:,} paths of {steps:,} steps of {amount(step, 's')} by {chosen.name}", markup=False)  # fmt: skip
    if circuit.random:
        console.print(f"{counted(len(circuit.random), 'random value')}, drawn for each path", markup=False)
    run = simulated(circuit, chosen, paths, seed, steps, bool(probed) or bool(circuit.network.netlist.measures))
    rest, why = stationary(circuit)
    console.print(table(circuit, run, rest, [name for name in probed if name not in circuit.nodes]))
    tell_measures(console, circuit, run)
    for said in cautions(circuit, run, chosen.name):
        console.print(said, style="yellow", markup=False)
    bare = [name for name in circuit.channels.without_white if name in circuit.nodes]
    if bare:
        said = f"no capacitor at {', '.join(bare)}: white noise there has an infinite variance, σ is that of the rest"
        said += ", and spectra are those of the small-signal analysis alone"
        console.print(said, markup=False)
    if why:
        console.print(why, markup=False)
    else:
        for name in probed:
            tell_spectrum(console, circuit, name, steps)
    for made in written(circuit, run, probed, rest is not None, out):
        console.print(f"wrote {made}", soft_wrap=True, markup=False)


def folder(out: Path) -> Path:
    """The folder, made where it is not there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"--out: {out} cannot be made ({error.strerror}); name another folder") from None
    if not os.access(out, os.W_OK):
        raise typer.BadParameter(f"--out: nothing may be written into {out}; name another folder")
    return out


def tell_phase_noise(file: str, node: str, offsets: str | None, level: float | None, out: Path | None) -> None:
    """The cycle of an oscillator, its phase noise at decades, its jitter, the loudest elements; pictures, pnoise.nc."""
    from stodyn import plot, results
    from stodyn.analysis.phase_noise import phase_noise

    path = located(file)
    f = None if offsets is None else asked_offsets(offsets)
    try:
        circuit = read(path)
        name = probes(circuit, [node])[0]
        found = phase_noise(circuit, name, offsets=f, level=level)
    except (NetlistError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    out = folder(out or Path("circuits") / path.stem)
    console = Console(highlight=False)
    console.print(circuit.title or path.name, style="bold", markup=False)
    T = float(found["period"])
    console.print(
        f"period {amount(T, 's', 9)}, {amount(1.0 / T, 'Hz', 9)}; half-width of the line "
        f"{amount(float(found['corner']), 'Hz')}; c = {float(found['c']):.6g} s, right to "
        f"{max(found['c'].attrs['error'], 1e-15):.0e}", markup=False)  # fmt: skip
    others = ", ".join(f"{m:.3g}" if m > 1e-14 else "< 1e-14" for m in found["multiplier"].values[1:4])
    console.print(f"multipliers 1, {others}", markup=False)
    shown = Table("offset", "L", box=None, header_style="bold", padding=(0, 1, 0, 0))
    for column in shown.columns:
        column.justify = "right"
    for k in range(0, found.sizes["offset"], 10):
        L = 10.0 * math.log10(float(found["L"][k]))
        shown.add_row(amount(float(found["offset"][k]), "Hz"), f"{L:.2f} dBc/Hz")
    console.print(shown)
    where = amount(float(found.attrs["level"]), "V")
    console.print(
        f"jitter at {where}: period {amount(float(found['period_jitter']), 's')}, cycle to cycle "
        f"{amount(float(found['cycle_jitter']), 's')}; c T alone {amount(math.sqrt(float(found['c']) * T), 's')}",
        markup=False,
    )
    by_element = found["c_by_source"].to_series().groupby(level=0).sum().sort_values(ascending=False)
    told = ", ".join(f"{name} {share / float(found['c']):.1%}" for name, share in by_element.iloc[:5].items())
    console.print(f"from {told}", markup=False)
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    pictures: dict[str, Any] = {"cycle": plot.cycle, "phase_noise": plot.phase_noise, "jitter": plot.jitter}
    for what, draw in pictures.items():
        made = out / f"{safe}_{what}.png"
        plot.save(draw(found), made)
        console.print(f"wrote {made}", soft_wrap=True, markup=False)
    results.save(found, out / "pnoise.nc")
    console.print(f"wrote {out / 'pnoise.nc'}", soft_wrap=True, markup=False)


def asked_offsets(text: str) -> np.ndarray:
    """F1,F2 as frequencies, ten for each decade."""
    try:
        low, high = (float(number(word.strip().lower()) or 0.0) for word in text.split(","))
    except ValueError:
        low = high = 0.0
    if not 0.0 < low < high:
        raise typer.BadParameter(f"--offsets: expected two frequencies F1,F2 such as 1k,100meg, got {text}")
    return np.geomspace(low, high, 10 * max(1, round(math.log10(high / low))) + 1)


def located(file: str) -> Path:
    """The netlist of that path, or the example of that name."""
    path = Path(file)
    if path.is_file():
        return path
    if path.is_dir():
        raise typer.BadParameter(f"{file} is a folder, expected a netlist")
    if file not in examples():
        near = difflib.get_close_matches(path.stem, examples(), 1)
        hint = f"; did you mean the example {near[0]}?" if near else ""
        raise typer.BadParameter(f"there is no file {file}{hint}")
    return examples()[file]


def probes(circuit: Circuit, asked: list[str] | None) -> list[str]:
    """The components to draw: those asked for, out or v(out); else the output of .noise; else up to four nodes that no
    source holds, those inside subcircuits last."""
    if asked:
        names = [name.strip().lower() for word in asked for name in word.split(",")]
        names = [name[2:-1] if name.startswith("v(") and name.endswith(")") else name for name in names]
        for name in names:
            if name not in circuit.names:  # type: ignore[operator]
                raise typer.BadParameter(f"--probe: there is no {name}; there are {', '.join(circuit.names[:40])}")  # type: ignore[index]
        return names
    if circuit.network.netlist.noise is not None and circuit.network.netlist.noise.node in circuit.nodes:
        return [circuit.network.netlist.noise.node]
    held = {node for e in circuit.network.netlist.elements if e.kind == "v" for node in e.nodes}
    return sorted((node for node in circuit.nodes if node not in held), key=lambda node: "." in node)[:4]


def simulated(circuit: Circuit, method: Any, paths: int, seed: int, steps: int, with_paths: bool) -> Any:
    from stodyn import statistics
    from stodyn.engine.failure import PathsFailed
    from stodyn.engine.simulate import simulate

    every = max(1, steps // LOOKS)
    kept = min(KEPT, paths, max(8, MOST_KEPT // (steps * circuit.n)))
    collect: list[Any] = [statistics.Moments(every=every)]
    collect += [statistics.Paths(kept, every=max(1, steps // 4096))] if with_paths else []
    try:
        drawn = circuit.sampled(paths, seed) if circuit.random else circuit
        run = simulate(drawn, method, t=circuit.span, dt=circuit.step, paths=paths, seed=seed, collect=collect)
        return run.sel(component=list(circuit.network.names)) if circuit.random else run
    except PathsFailed as error:
        typer.echo(f"{error}\nTake a shorter step in .tran, or another --method: BDF2Maruyama does not ring.", err=True)
        raise typer.Exit(1) from None
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None


def tell_measures(console: Console, circuit: Circuit, run: Any) -> None:
    """What .measure asks for: of transients its mean and deviation over the paths kept."""
    asked = [measure.analysis for measure in circuit.network.netlist.measures]
    try:
        for analysis in dict.fromkeys(asked):
            for name, values in circuit.measured(analysis, run).items():
                there = values[np.isfinite(values)]
                said = f"{there.mean():.6g}" if len(there) else "is met by no path"
                said += f", σ {there.std(ddof=1):.3g}" if len(there) > 1 else ""
                said += f", met by {len(there)} of {len(values)} paths" if 0 < len(there) < len(values) else ""
                console.print(f"{name}: {said}", markup=False)
    except (NetlistError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None


def cautions(circuit: Circuit, run: Any, method: str) -> list[str]:
    """What a designer must know of this run: a step too long for the circuit, transistors with too little noise."""
    said = []
    rate, time = fastest(circuit, run)
    if circuit.step * rate > RESOLVED and not (circuit.is_affine and method != "Trapezoidal"):
        said.append(
            f"the step, {amount(circuit.step, 's')}, is {circuit.step * rate:.2g} times the shortest time constant, "
            f"{amount(1.0 / rate, 's')} at {amount(time, 's')}: " + (
                "waveforms ring after edges; take a shorter step in .tran, or --method BDF2Maruyama"
                if circuit.is_affine else
                "σ is not to be trusted where devices switch that fast; compare with a shorter step in .tran"
            ))  # fmt: skip
    if circuit.too_quiet:
        said.append(f"in the triode region at the operating point: {', '.join(circuit.too_quiet[:10])}; the noise "
                    "2kT(2/3)g_m is too small there, NLEV=3 in the .model has it right")  # fmt: skip
    return said


def table(circuit: Circuit, run: Any, rest: np.ndarray | None, currents: list[str]) -> Table:
    shown = Table("node", f"mean at {amount(circuit.span[1], 's')}", "σ there", "largest σ", "small-signal σ", box=None,
                  header_style="bold", padding=(0, 1, 0, 0))  # fmt: skip
    for column in shown.columns:
        column.justify, column.no_wrap = "right" if column.header != "node" else "left", True
    times, end = run["time"].values, run.isel(time=-1)
    least = 0.0 if rest is None else 1e-12 * float(np.max(rest[: len(circuit.nodes)], initial=0.0))
    for name in (*circuit.nodes, *currents):
        i, unit = circuit.network.names.index(name), unit_of(circuit, name)
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
                unit,
            ),
            between(σ, error, unit),
            f"{amount(float(deviation[most]), unit)} at {amount(float(times[most]), 's')}" if σ else f"0 {unit}",
            "" if rest is None else amount(float(rest[i]) if rest[i] > least or unit != "V" else 0.0, unit),
        )
    return shown


def between(value: float, stderr: float, unit: str) -> str:
    """A voltage or current with its standard error, to the digits that it has."""
    if not stderr:
        return amount(value, unit, 6)
    digits = 2 + max(0, math.floor(math.log10(abs(value) / stderr))) if value else 2
    return f"{amount(value, unit, min(max(digits, 2), 9))} ± {amount(stderr, unit, 2)}"


def unit_of(circuit: Circuit, name: str) -> str:
    return circuit.network.units[circuit.network.names.index(name)]


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def tell_spectrum(console: Console, circuit: Circuit, node: str, steps: int) -> None:
    """The small-signal density of a node in the middle of its band, and what makes it."""
    low, high = band(circuit, steps)
    found = circuit.small_signal.spectrum(node, [math.sqrt(low * high)])
    whole = float(found.density[0])
    if not whole:
        return
    shares = sorted(((float(density[0]) / whole, name) for name, density in found.parts.items()), reverse=True)
    said = ", ".join(f"{name} {100 * share:.3g} %" for share, name in shares[:5] if share >= TOLD)
    size = amount(math.sqrt(whole), f"{unit_of(circuit, node)}/√Hz")
    where = amount(float(found.frequency[0]), "Hz")
    console.print(f"small-signal noise of {node} at {where}: {size}, from {said}", markup=False)


def written(circuit: Circuit, run: Any, probed: list[str], linear: bool, out: Path) -> list[Path]:
    """Pictures of the probes, and the statistics as run.nc."""
    from stodyn import plot, results

    files = []
    for name in probed:
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
        files.append(out / f"{safe}.png")
        plot.save(plot.transient_noise(run, name), files[-1])
        sampled = None if name in circuit.channels.without_white else deviation_spectrum(run, name)
        computed = None
        if linear:
            low, high = band(circuit, round(circuit.span[1] / circuit.step))
            found = circuit.small_signal.spectrum(name, np.geomspace(low, high, 300))
            computed = found.frequency, found.density
        if sampled is None and computed is None:
            continue
        files.append(out / f"{safe}_noise.png")
        plot.save(plot.noise_density(sampled, computed, unit=unit_of(circuit, name)), files[-1])
    files.append(out / "run.nc")
    results.save(run.drop_dims([d for d in run.dims if str(d).startswith(("path", "time_path"))]), files[-1])
    return files


def amount(value: float, unit: str, digits: int = 3) -> str:
    """An engineering number of so many digits: 6.44 µV, -1.250 mV, 0 V."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    rounded = float(f"{value:.{digits - 1}e}")
    power = min(max(math.floor(math.log10(abs(rounded)) / 3.0 + 1e-9), -6), 4)
    scaled = rounded / 1000.0**power
    places = max(0, digits - 1 - math.floor(math.log10(abs(scaled)) + 1e-9))
    return f"{scaled:.{places}f} {'afpnµm kMGT'[power + 6].strip()}{unit}"
