"""Print the results of a netlist's analyses other than the transient: .op, .dc, .tf, .sens, .ac, .noise, .four, .sp and
.step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from rich.console import Console

from stodyn.analysis.system.netlist_answers import Answers, answers, stepped
from stodyn.circuits import Circuit
from stodyn.cli._output import table
from stodyn.numerics.amounts import amount

ROWS = 13  # frequencies printed; the files have them all


def show_at_rest(screen: Console, circuit: Circuit, nodes: list[str], out: Path) -> tuple[dict[str, Any], list[Path]]:
    """Print .op, .ac and .noise at the netlist's own values, write ac.nc and noise.nc, and return all for --json."""
    from stodyn import results

    result, files = answers(circuit, nodes), []
    if circuit.network.netlist.wants_point:
        shown = table("operating point", "", right=("",))
        for name, (value, unit) in result.operating_point.items():
            shown.add_row(name, amount(value, unit, 6))
        screen.print(shown)
    if result.response is not None:
        _show_response(screen, result.response)
        files.append(out / "ac.nc")
        results.save(result.response, files[-1])
    if result.noise is not None:
        _show_noise(screen, circuit, result.noise)
        files.append(out / "noise.nc")
        results.save(result.noise, files[-1])
    for name, dataset in (("dc", result.curves), ("sp", result.scattering)):
        if dataset is not None:
            files.append(out / f"{name}.nc")
            results.save(dataset, files[-1])
    _show_numbers(screen, result)
    for name, value in result.measures.items():
        screen.print(f"{name}: {value:.6g}")
    return _plain(result), files


def _show_numbers(screen: Console, result: Answers) -> None:
    """Print .tf, the largest of .sens, and .four."""
    if result.transfer is not None:
        gain, at_input, at_output = result.transfer
        screen.print(f"transfer {gain:.6g}; input {amount(at_input, 'Ω')}, output {amount(at_output, 'Ω')}")
    if result.sensitivities:
        shown = table("sensitivity to", "per unit", right=("per unit",))
        largest = sorted(((name, value) for name, value in result.sensitivities.items() if value),
                         key=lambda pair: -abs(pair[1]))  # fmt: skip
        for name, value in largest[:ROWS]:
            shown.add_row(name, f"{value:.6g}")
        screen.print(shown)
    for name, harmonics in (result.harmonics or {}).items():
        sizes = ", ".join(f"{size:.4g}" for size in harmonics.size)
        screen.print(f"harmonics of {name}: {sizes}; distortion {harmonics.distortion:.3%}")


def show_steps(
    screen: Console, circuit: Circuit, nodes: list[str], run: Callable[[Circuit], xarray.Dataset] | None
) -> list[dict[str, Any]]:
    """Print a row for each value of .step as soon as it is known: the operating point of the nodes, .measure and, with
    .tran, mean and σ at the end of the `run` of each circuit."""
    rows: list[dict[str, Any]] = []
    for values, one, result in stepped(circuit, nodes):
        row: dict[str, Any] = {"values": values, **_plain(result)}
        parts = [f"{name} {result.operating_point[name][0]:.6g}" for name in nodes if name in result.operating_point]
        parts += [f"{name} {value:.6g}" for name, value in result.measures.items()]
        if run is not None:
            end = run(one).isel(time=-1)
            row["end"] = {}
            for name in nodes:
                mean = float(end["mean"].sel(component=name))
                deviation = float(np.sqrt(end["variance"].sel(component=name)))
                row["end"][name] = {"mean": mean, "deviation": deviation}
                parts.append(f"at the end {name} {mean:.6g} σ {deviation:.3g}")
        screen.print(f"{', '.join(f'{name}={value:g}' for name, value in values.items())}: {', '.join(parts)}")
        rows.append(row)
    return rows


def _show_response(screen: Console, response: xarray.Dataset) -> None:
    nodes = [str(name) for name in response["node"].values]
    heads = [f"{what} of {name}" for name in nodes for what in ("size", "phase")]
    shown = table("frequency", *heads, right=("frequency", *heads))
    for k in np.unique(np.linspace(0, response.sizes["frequency"] - 1, ROWS).round().astype(int)):
        row = response.isel(frequency=int(k))
        cells = zip(row["decibels"].values, row["degrees"].values, strict=True)
        shown.add_row(
            amount(float(row["frequency"]), "Hz"), *(text for a, b in cells for text in (f"{a:.2f} dB", f"{b:.1f}°"))
        )
    screen.print(shown)


def _show_noise(screen: Console, circuit: Circuit, noise: xarray.Dataset) -> None:
    directive = circuit.network.netlist.noise
    assert directive is not None
    unit = "V" if directive.source.split(".")[-1].startswith("v") else "A"
    low, high = (amount(float(noise["frequency"][k]), "Hz") for k in (0, -1))
    screen.print(
        f"noise of {directive.node} from {low} to {high}: {amount(float(noise['output']), 'V')}; referred to "
        f"{directive.source} {amount(float(noise['input']), unit)}"
    )


def _plain(answers: Answers) -> dict[str, Any]:
    return {
        "operating_point": {name: value for name, (value, _) in answers.operating_point.items()},
        "ac": None if answers.response is None else answers.response.to_dict(),
        "noise": None if answers.noise is None else answers.noise.to_dict(),
        "measures": answers.measures,
        "dc": None if answers.curves is None else answers.curves.to_dict(),
        "tf": None if answers.transfer is None else answers.transfer._asdict(),
        "sens": answers.sensitivities,
        "four": {
            name: {**one._asdict(), "distortion": one.distortion} for name, one in (answers.harmonics or {}).items()
        },
        "sp": None if answers.scattering is None else answers.scattering.to_dict(),
    }
