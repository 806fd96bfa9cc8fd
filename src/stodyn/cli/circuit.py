"""stodyn circuit: the analyses of a netlist, above all the transient noise of every node."""

import difflib
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray

from stodyn.analysis.system import transient_noise
from stodyn.analysis.system.netlist_answers import asks_at_rest
from stodyn.circuits import Circuit, NetlistError, examples, read
from stodyn.circuits.expressions import number
from stodyn.cli._netlist import show_at_rest, show_steps
from stodyn.cli._output import (
    AsJson,
    check_folder,
    console,
    errors_as_messages,
    looked_up,
    print_files,
    print_json,
    table,
)
from stodyn.engine.failure import PathsFailed
from stodyn.methods.catalogue import catalogue, find
from stodyn.numerics.amounts import amount, with_error
from stodyn.problems.sdae import SDAE


def command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help=f"A netlist, or the name of an example: {', '.join(examples())}.")
    ],
    *,
    paths: Annotated[int, typer.Option(help="Number of paths.", min=2)] = 1000,
    method: Annotated[str, typer.Option(help="A method for SDAEs, as `stodyn methods` names it.")] = "Trapezoidal",
    probe: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="A node to draw; give it again for more, or NODE,NODE.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for pictures and run.nc (default: circuits/NAME).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives other paths.", min=0)] = 1,
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
    as_json: AsJson = False,
) -> None:
    """Simulate the transient noise of a SPICE netlist: statistics of every node, waveforms with ±2σ, noise spectra.

    .op, .ac and .noise come first, and .step with a line for each of its values; without .tran nothing else is done.
    The run is that of .tran, with shorter steps where a source has a corner or the circuit is fast; the noise is that
    of the elements: thermal, shot, channel and flicker. The small-signal analysis at the operating point is printed
    beside it. Random values of the netlist are drawn for each path; .measure tran is printed with its standard
    deviation over the stored paths.

    With --phase-noise NODE nothing is sampled: the cycle of the oscillator, its phase noise, its jitter, their causes.
    """
    path = located(file)
    with errors_as_messages():
        circuit = read(path, libraries=library or ())
        if phase_noise is None:
            show_transient_noise(circuit, path, method, paths, seed, probe or [], out, as_json)
        else:
            show_phase_noise(circuit, path, phase_noise, offsets, level, out, as_json)


def located(file: str) -> Path:
    """Return the netlist of that path, or the example of that name."""
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


def probes(circuit: Circuit, wanted: list[str], option: str = "--probe") -> list[str]:
    """Return the components to draw."""
    try:
        return transient_noise.probes(circuit, wanted)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from None


def number_of(count: int, what: str) -> str:
    """Format a number of things: 1 node, 2 nodes."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def file_name(node: str) -> str:
    """Return a node's name as part of a file name."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in node)


# --- transient noise --------------------------------------------------------------------------------------------------


def show_transient_noise(
    circuit: Circuit, path: Path, method: str, paths: int, seed: int, wanted: list[str], out: Path | None, as_json: bool
) -> None:
    """Run a circuit, and print the statistics of each node with the small-signal analysis beside them."""
    chosen: Any = looked_up(find, method)
    if chosen.accepts is not SDAE:
        fit = ", ".join(name for name, known in catalogue().items() if known.accepts is SDAE)
        raise typer.BadParameter(f"--method: {chosen.name} is not for circuits; these are: {fit}")
    netlist = circuit.network.netlist
    if netlist.transient is None and not asks_at_rest(circuit):
        raise NetlistError(f"{path.name}: there is no .tran; add .tran STEP STOP, such as .tran 1n 1u, or ask for .op, "
                           ".ac, .noise or .step")  # fmt: skip
    probed = probes(circuit, wanted)
    out = check_folder("--out", out or Path("circuits") / path.stem)
    screen = console(stderr=as_json)
    screen.print(circuit.title or path.name, style="bold")
    for note in circuit.notes:
        screen.print(note, style="dim")
    result: dict[str, Any] = {"title": circuit.title}
    files: list[Path] = []
    if asks_at_rest(circuit):
        at_rest, files = show_at_rest(screen, circuit, probed, out)
        result |= at_rest
    if netlist.steps:
        takes = None if netlist.transient is None else lambda one: transient_noise.simulated(
            one, chosen, paths=paths, seed=seed, keep_paths=False)  # fmt: skip
        result["steps"] = show_steps(screen, circuit, probed, takes)
    if netlist.transient is None:
        if as_json:
            print_json({**result, "files": files})
        else:
            print_files(screen, files)
        return
    lengths = transient_noise.step_lengths(circuit, chosen)
    screen.print(
        f"{number_of(len(circuit.network.netlist.elements), 'element')}, {number_of(len(circuit.nodes), 'node')}, "
        f"{number_of(circuit.channels.total, 'channel')} of noise; {paths:,} paths of {steps_in_words(lengths)} by "
        f"{chosen.name}"
    )
    if circuit.random:
        screen.print(f"{number_of(len(circuit.random), 'random value')}, drawn for each path")
    keep_paths = bool(probed) or bool(circuit.network.netlist.measures)
    try:
        run = transient_noise.simulated(circuit, chosen, paths=paths, seed=seed, keep_paths=keep_paths, dt=lengths)
    except PathsFailed as error:
        typer.echo(f"{error}\nTake a shorter step in .tran, or another --method: BDF2Maruyama does not ring.", err=True)
        raise typer.Exit(1) from None
    rest, why = transient_noise.stationary(circuit)
    names = [*circuit.nodes, *(name for name in probed if name not in circuit.nodes)]
    nodes = transient_noise.component_noise(circuit, run, rest, names)
    measures = transient_noise.measured(circuit, run)
    cautions = transient_noise.cautions(circuit, run, chosen.name, lengths)
    densities = {} if why else {name: transient_noise.loudest(circuit, name) for name in probed}
    if as_json:
        files += write_results(circuit, run, probed, rest is not None, out)
        print_json(
            {
                **result,
                "nodes": [node._asdict() for node in nodes],
                "measures": {name: measure._asdict() for name, measure in measures.items()},
                "small_signal": {name: d._asdict() for name, d in densities.items() if d is not None},
                "cautions": [*cautions, *([why] if why else [])],
                "files": files,
            }
        )
        return
    columns = (f"mean at {amount(circuit.span[1], 's')}", "σ there", "largest σ", "small-signal σ")
    shown = table("node", *columns, right=columns)
    for node in nodes:
        shown.add_row(
            node.name,
            with_error(node.mean, node.mean_stderr, node.unit),
            with_error(node.deviation, node.deviation_stderr, node.unit),
            f"{amount(node.largest, node.unit)} at {amount(node.largest_time, 's')}"
            if node.deviation
            else f"0 {node.unit}",
            "" if node.small_signal is None else amount(node.small_signal, node.unit),
        )
    screen.print(shown)
    for name, measure in measures.items():
        screen.print(f"{name}: {measure_in_words(measure)}")
    for caution in cautions:
        screen.print(caution, style="yellow")
    if why:
        screen.print(why)
    for name, density in densities.items():
        if density is not None:
            size = amount(density.root, f"{unit_of(circuit, name)}/√Hz")
            shares = ", ".join(f"{source} {100 * share:.3g} %" for source, share in density.shares.items())
            screen.print(f"small-signal noise of {name} at {amount(density.frequency, 'Hz')}: {size}, from {shares}")
    files += write_results(circuit, run, probed, rest is not None, out)  # pictures take longer than the answers above
    print_files(screen, files)


def steps_in_words(lengths: np.ndarray) -> str:
    """Format the steps of a run: 400 steps of 50 ns, or 612 steps of 80 ps to 50 ns."""
    shortest, longest = float(lengths.min()), float(lengths.max())
    least = f"{amount(shortest, 's')} to " if shortest < longest * (1.0 - 1e-6) else ""
    return f"{len(lengths):,} steps of {least}{amount(longest, 's')}"


def measure_in_words(measure: transient_noise.MeasuredOverPaths) -> str:
    """Format a .measure: its mean, its deviation, and how many paths met it."""
    if not measure.met:
        return "met by no path"
    words = f"{measure.mean:.6g}"
    words += f", σ {measure.deviation:.3g}" if measure.met > 1 else ""
    return words + (f", met by {measure.met} of {measure.paths} paths" if measure.met < measure.paths else "")


def unit_of(circuit: Circuit, name: str) -> str:
    """Return V or A."""
    return circuit.network.units[circuit.network.names.index(name)]


def write_results(circuit: Circuit, run: xarray.Dataset, probed: list[str], linear: bool, out: Path) -> list[Path]:
    """Write pictures of the probes, and the statistics as run.nc."""
    from stodyn import plot, results

    files = []
    for name in probed:
        files.append(out / f"{file_name(name)}.png")
        plot.save(plot.transient_noise(run, name), files[-1])
        sampled = None
        if name not in circuit.channels.without_white:
            sampled = transient_noise.deviation_spectrum(run, name)
        computed = None
        if linear:
            spectrum = circuit.small_signal.spectrum(name, np.geomspace(*transient_noise.band(circuit), 300))
            computed = spectrum.frequency, spectrum.density
        if sampled is None and computed is None:
            continue
        files.append(out / f"{file_name(name)}_noise.png")
        plot.save(plot.noise_density(sampled, computed, unit=unit_of(circuit, name)), files[-1])
    files.append(out / "run.nc")
    results.save(run.drop_dims([d for d in run.dims if str(d).startswith(("path", "time_path"))]), files[-1])
    return files


# --- phase noise ------------------------------------------------------------------------------------------------------


def show_phase_noise(
    circuit: Circuit, path: Path, node: str, offsets: str | None, level: float | None, out: Path | None, as_json: bool
) -> None:
    """Print the cycle of an oscillator, its phase noise at decades, its jitter and the loudest elements."""
    from stodyn import plot, results
    from stodyn.analysis.cycle.phase_noise import phase_noise

    f = None if offsets is None else asked_offsets(offsets)
    name = probes(circuit, [node], "--phase-noise")[0]
    result = phase_noise(circuit, name, offsets=f, level=level)
    out = check_folder("--out", out or Path("circuits") / path.stem)
    files = []
    pictures: dict[str, Any] = {"cycle": plot.cycle, "phase_noise": plot.phase_noise, "jitter": plot.jitter}
    for what, draw in pictures.items():
        files.append(out / f"{file_name(name)}_{what}.png")
        plot.save(draw(result), files[-1])
    files.append(out / "pnoise.nc")
    results.save(result, files[-1])
    by_element = result["c_by_source"].to_series().groupby(level=0).sum().sort_values(ascending=False)
    shares = {str(element): float(share) / float(result["c"]) for element, share in by_element.iloc[:5].items()}
    T, c = float(result["period"]), float(result["c"])
    if as_json:
        numbers = {what: float(result[what]) for what in ("period", "corner", "c", "period_jitter", "cycle_jitter")}
        curve = {"offset": result["offset"].values, "L_dBc_per_Hz": 10.0 * np.log10(result["L"].values)}
        print_json({"title": circuit.title, "node": name, **numbers, **curve, "shares": shares, "files": files})
        return
    screen = console()
    screen.print(circuit.title or path.name, style="bold")
    screen.print(
        f"period {amount(T, 's', 9)}, {amount(1.0 / T, 'Hz', 9)}; half-width of the line "
        f"{amount(float(result['corner']), 'Hz')}; c = {c:.6g} s, right to {max(result['c'].attrs['error'], 1e-15):.0e}"
    )
    others = ", ".join(f"{m:.3g}" if m > 1e-14 else "< 1e-14" for m in result["multiplier"].values[1:4])
    screen.print(f"multipliers 1, {others}")
    shown = table("offset", "L", right=("offset", "L"))
    for k in range(0, result.sizes["offset"], 10):
        L = 10.0 * math.log10(float(result["L"][k]))
        shown.add_row(amount(float(result["offset"][k]), "Hz"), f"{L:.2f} dBc/Hz")
    screen.print(shown)
    screen.print(
        f"jitter at {amount(float(result.attrs['level']), 'V')}: period {amount(float(result['period_jitter']), 's')}, "
        f"cycle to cycle {amount(float(result['cycle_jitter']), 's')}; c T alone {amount(math.sqrt(c * T), 's')}"
    )
    screen.print(f"from {', '.join(f'{element} {share:.1%}' for element, share in shares.items())}")
    print_files(screen, files)


def asked_offsets(text: str) -> np.ndarray:
    """Return the frequencies from F1 to F2, ten for each decade."""
    try:
        low, high = (float(number(word.strip().lower()) or 0.0) for word in text.split(","))
    except ValueError:
        low = high = 0.0
    if not 0.0 < low < high:
        raise typer.BadParameter(f"--offsets: expected two frequencies F1,F2 such as 1k,100meg, got {text}")
    return np.geomspace(low, high, 10 * max(1, round(math.log10(high / low))) + 1)
