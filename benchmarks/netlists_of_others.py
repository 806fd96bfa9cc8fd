"""Netlists as they come, beside ngspice: .op, .ac, .noise and .tran of files.

python benchmarks/netlists_of_others.py FILE [FILE ...]

ngspice must be installed. The analyses are those that the file asks for, be it with a dot or between .control and
.endc; without them .ac and .noise go from 1 Hz to 1 GHz, wherever a source has an AC amplitude, and .noise looks at the
node that this source moves most. Both programs get the same text, without what stands between .control and .endc.
ngspice runs with tighter tolerances and the smallest GMIN with which it still finds an operating point; it is asked at
a temperature at which its k/q is the exact one, unless the file sets a temperature.

A row of the table has the largest difference of any node voltage over the largest voltage (.op), over the largest
amplitude at the same frequency (.ac), of the density's square root (.noise, relative), and the root mean square over
the times of .tran over the largest range (.tran, our `noiseless` and ngspice with steps of at most a tenth of that of
.tran). A dash means that the file has nothing to ask there, or that ngspice did not come to the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from netlists import CELSIUS

from stodyn.circuits import Circuit, NetlistError, read

TIGHT = ".options reltol=1e-9 abstol=1e-16 vntol=1e-12 itl1=500"
GMINS = ("gmin=1e-15 rshunt=1e18", "gmin=1e-12")
LOOSE = ".options reltol=1e-6 abstol=1e-14 vntol=1e-9 itl4=200"  # for transients, where 1e-9 is out of its reach
DEFAULT_SWEEP = "dec 2 1 1e9"
SECONDS = 60  # the longest that either program may take for one answer
STEPS = 2000  # the most times at which transients are compared


def text_of(path: Path) -> list[str]:
    """The lines of a file without its commands, but with the analyses that these ask for."""
    raw = path.read_bytes()
    coding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        lines = raw.decode(coding).splitlines()
    except UnicodeDecodeError:
        lines = raw.decode("latin-1").splitlines()
    kept, commands, is_command = lines[:1], [], False
    for line in lines[1:]:
        low = line.strip().lower()
        is_command = (is_command or low.startswith(".control")) and not low.startswith(".endc")
        if is_command:
            commands.append(low)
        elif low == ".end":
            break
        elif not re.match(r"\.(endc|save|probe|print|plot|meas|four|sens|tf|dc|step|sp|pz|disto)", low):
            kept.append(line)
    there = {match[1] for line in kept if (match := re.match(r"\s*\.(op|ac|noise|tran)\b", line.lower()))}
    for command in commands:
        asked = re.match(r"(ac|noise|tran)\s+\S", command)
        if asked and asked[1] not in there and "$" not in command and "{" not in command:
            kept.append("." + command.split(";")[0])
            there.add(asked[1])
    return kept


def raw_data(path: Path) -> dict[str, np.ndarray]:
    """The vectors of a binary raw file by name."""
    head, _, body = path.read_bytes().partition(b"Binary:\n")
    words = head.decode("latin-1")
    names = re.findall(r"^\t\d+\t(\S+)", words, re.MULTILINE)
    numbers = np.frombuffer(body, complex if "complex" in words.partition("Flags:")[2].split("\n")[0] else float)
    return dict(zip([name.lower() for name in names], numbers.reshape(-1, len(names)).T, strict=True))


def ngspice(path: Path, lines: list[str], options: str, commands: list[str]) -> dict[str, np.ndarray] | None:
    """What ngspice writes after these commands; None where it writes nothing."""
    asks = re.compile(r"\s*\.(op|ac|noise|tran)\b", re.IGNORECASE)
    with tempfile.TemporaryDirectory() as folder:
        netlist, out = Path(folder) / "asked.cir", Path(folder) / "out.raw"
        own = [line for line in lines if not asks.match(line)]
        script = [".control", "set numdgt=15", *commands, f"write {out} all", "quit", ".endc", ".end", ""]
        netlist.write_text("\n".join([*own, options, *script]))
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                ["ngspice", "-b", str(netlist)], cwd=path.parent, capture_output=True, timeout=SECONDS,
                stdin=subprocess.DEVNULL, env={**os.environ, "NGSPICE_INPUT_DIR": str(path.parent)},
            )  # fmt: skip
        if not out.exists():
            return None
        found = raw_data(out)
    return found if found and all(np.isfinite(one).all() and one.size for one in found.values()) else None


def voltages(found: dict[str, np.ndarray], circuit: Circuit) -> tuple[list[str], np.ndarray]:
    """The nodes that both have, and ngspice's values (nodes, ...)."""
    known = {name.removeprefix("v(").removesuffix(")"): value for name, value in found.items() if "#" not in name}
    names = [name for name in circuit.nodes if name in known]
    return names, np.array([known[name] for name in names])


def point(path: Path, lines: list[str], temperature: str, circuit: Circuit) -> tuple[float, str]:
    """The difference of the operating points, and the options with which ngspice found its own."""
    for gmin in GMINS:
        options = f"{TIGHT} {gmin}{temperature}"
        found = ngspice(path, lines, options, ["op"])
        if found is not None:
            names, theirs = voltages(found, circuit)
            own = np.array([circuit.operating_point[name] for name in names])
            return float(np.abs(own - theirs[:, 0]).max() / max(np.abs(theirs).max(), 1e-6)), options
    raise LookupError("ngspice finds no operating point")


def sweep_of(circuit: Circuit, directive: Any) -> tuple[str, np.ndarray]:
    """The words of a sweep and its frequencies."""
    if directive is None:
        return DEFAULT_SWEEP, 10.0 ** np.arange(0.0, 9.01, 0.5)
    words = f"{directive.spacing} {directive.points} {directive.first:.12g} {directive.last:.12g}"
    return words, directive.frequencies


def small_signal(path: Path, lines: list[str], options: str, circuit: Circuit) -> tuple[float | None, float | None]:
    """The differences of .ac and of .noise."""
    netlist = circuit.network.netlist
    text = re.sub(r"\n\+", " ", "\n".join(lines))
    driven = [
        name
        for name in circuit.network.sources_of
        if re.search(rf"^\s*{re.escape(name)}\s.*\bac\b", text, re.IGNORECASE | re.MULTILINE)
    ]
    of_ac = of_noise = None
    output = netlist.noise.node if netlist.noise else ""
    if driven:
        words, frequencies = sweep_of(circuit, netlist.ac)
        found = ngspice(path, lines, options, [f"ac {words}"])
        response = circuit.response(frequencies)
        if found is not None:
            names, theirs = voltages(found, circuit)
            own = np.array([response[name] for name in names])[:, : theirs.shape[1]]
            of_ac = float((np.abs(own - theirs) / np.abs(theirs).max(axis=0)).max())
        output = output or max(circuit.nodes, key=lambda node: float(np.abs(response[node]).min()))
    if output:
        asked = netlist.noise
        source = asked.source if asked else driven[0]
        words, frequencies = sweep_of(circuit, asked.sweep if asked else netlist.ac)
        between = output if not asked or asked.reference == "0" else f"{output},{asked.reference}"
        found = ngspice(path, lines, options, [f"noise v({between}) {source} {words}", "setplot noise1"])
        own = np.sqrt(circuit.noise_spectrum(None if asked else output, frequencies).density)
        if found is not None and np.all(theirs := found["onoise_spectrum"].real):
            of_noise = float(np.abs(own[: len(theirs)] / theirs - 1.0).max())
    return of_ac, of_noise


def transient(path: Path, lines: list[str], temperature: str, circuit: Circuit) -> float | None:
    """The difference of .tran."""
    asked = circuit.network.netlist.transient
    if asked is None:
        return None
    step, uic = min(asked.step, asked.stop / 100.0), " uic" if asked.uic else ""
    command = f"tran {step:.12g} {asked.stop:.12g} 0 {step / 10.0:.12g}{uic}"
    found = ngspice(path, lines, f"{LOOSE}{temperature}", [command])
    if found is None or found["time"].real[-1] < (1.0 - 1e-6) * asked.stop:  # it stops where its steps become too small
        return None
    names, theirs = voltages(found, circuit)
    states, times = circuit.noiseless(rtol=1e-5), circuit.times
    some = np.unique(np.linspace(1, len(times) - 1, STEPS).astype(int))  # at 0 ngspice has 0 with uic
    peer = np.array([np.interp(times[some], found["time"].real, one) for one in theirs])
    own = states[some][:, [circuit.names.index(name) for name in names]].T
    return float(np.sqrt(np.mean((own - peer) ** 2, axis=1)).max() / max(np.ptp(theirs, axis=1).max(), 1e-6))


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Ends with a TimeoutError what takes longer."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def row(path: Path) -> tuple[str, ...]:
    """.op, .ac, .noise and .tran of a file, in words, and what is to be said of it."""
    lines = text_of(path)
    sets_kelvin = re.search(r"^\s*\.(temp\b|opt\w*.*\btemp)", "\n".join(lines), re.IGNORECASE | re.MULTILINE)
    temperature = "" if sets_kelvin else f" temp={CELSIUS:.9f} tnom={CELSIUS:.9f}"
    cells = ["-", "-", "-", "-"]
    try:
        circuit = read("\n".join([*lines, ""]), libraries=[path.parent])
        with at_most(SECONDS * 4):
            off, options = point(path, lines, temperature, circuit)
        cells[0] = f"{off:.0e}"
    except (NetlistError, LookupError, TimeoutError) as error:
        return (*cells, in_one_line(error))
    remark = ""
    answers: tuple[tuple[slice, Callable[[], tuple[float | None, ...]]], ...] = (
        (slice(1, 3), lambda: small_signal(path, lines, options, circuit)),
        (slice(3, 4), lambda: (transient(path, lines, temperature, circuit),)),
    )
    for where, ask in answers:
        try:
            with at_most(SECONDS * 4):
                cells[where] = ["-" if one is None else f"{one:.0e}" for one in ask()]
        except (ValueError, TimeoutError) as error:
            remark += f" {in_one_line(error)}"
    return (*cells, (remark or "; ".join(circuit.notes)[:160]).strip())


def in_one_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error))[:200]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| file | .op | .ac | .noise | .tran | |\n|---|---|---|---|---|---|")
    for path in asked.files:
        print("|", " | ".join([path.name, *(cell.replace("|", "/") for cell in row(path.resolve()))]), "|", flush=True)


if __name__ == "__main__":
    main()
