"""The analyses of a netlist other than its transient: .op, .dc, .tf, .sens, .ac, .noise and .sp, and .four of the
transient without noise; each of them at every value of .step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray

from stodyn.circuits import Circuit, Harmonics, Transfer


class Answers(NamedTuple):
    """The analyses at rest of a circuit.

    operating_point  value and unit of every voltage and current, by name
    response         `decibels` and `degrees` over (frequency, node) for .ac; None where it is not asked for
    noise            `density` and `input_density` over frequency, and `output` and `input`, the roots of their
                     integrals, for .noise; None where it is not asked for
    measures         .measure ac and .measure noise, by name
    curves           the unknowns over (values of the second sweep, values of the first, component) for .dc
    transfer         .tf
    sensitivities    .sens, by the names of numbers
    harmonics        .four, by output
    scattering       `size` and `degrees` over (frequency, to, from) for .sp, and the noise parameters of two-ports
    """

    operating_point: dict[str, tuple[float, str]]
    response: xarray.Dataset | None
    noise: xarray.Dataset | None
    measures: dict[str, float]
    curves: xarray.Dataset | None = None
    transfer: Transfer | None = None
    sensitivities: dict[str, float] | None = None
    harmonics: dict[str, Harmonics] | None = None
    scattering: xarray.Dataset | None = None


def answers(circuit: Circuit, nodes: Sequence[str]) -> Answers:
    """Compute the analyses of a netlist at its operating point, with the responses of these nodes to .ac."""
    netlist, network = circuit.network.netlist, circuit.network
    values = zip(network.names, circuit.operating_point.x.tolist(), network.units, strict=True)
    point = {name: (value, "A" if unit == "C" else unit) for name, value, unit in values if unit in ("V", "A", "C")}
    measures: dict[str, float] = {}
    for analysis in ("ac", "noise"):
        if any(measure.analysis == analysis for measure in netlist.measures):
            measured = circuit.measured(analysis)
            measures |= {name: float(np.real(np.ravel(value)[0])) for name, value in measured.items()}
    return Answers(
        point,
        None if netlist.ac is None else _response(circuit, nodes),
        None if netlist.noise is None else _noise(circuit),
        measures,
        _curves(circuit) if netlist.dc else None,
        circuit.transfer() if netlist.transfer else None,
        circuit.sensitivities() if netlist.sensitivity else None,
        None if netlist.fourier is None else {
            output.name: circuit.harmonics(output.node, netlist.fourier.frequency, output.reference)
            for output in netlist.fourier.outputs
        },
        None if netlist.scattering is None else _scattering(circuit),
    )  # fmt: skip


def stepped(circuit: Circuit, nodes: Sequence[str]) -> Iterator[tuple[dict[str, float], Circuit, Answers]]:
    """Go through all values of .step and .temp: the values, the circuit with them, and its answers."""
    for values, one in circuit.steps():
        yield values, one, answers(one, nodes)


def asks_at_rest(circuit: Circuit) -> bool:
    """Whether the netlist asks for anything but .tran and .measure tran."""
    netlist = circuit.network.netlist
    return any((netlist.wants_point, netlist.ac, netlist.noise, netlist.steps, netlist.dc, netlist.transfer,
                netlist.sensitivity, netlist.fourier, netlist.scattering))  # fmt: skip


def _curves(circuit: Circuit) -> xarray.Dataset:
    curves = circuit.dc()
    dims = [f"sweep of {name}" for name in reversed(curves.values)]
    coordinates = {f"sweep of {name}": values for name, values in curves.values.items()}
    return xarray.Dataset(
        {"value": ((*dims, "component"), curves.states)}, {**coordinates, "component": list(curves.names)},
        {"title": circuit.title},
    )  # fmt: skip


def _scattering(circuit: Circuit) -> xarray.Dataset:
    result = circuit.scattering()
    places = ("frequency", "to", "from")
    ports = sorted(circuit.network.netlist.ports)
    variables: dict[str, Any] = {"size": (places, np.abs(result.matrices)),
                                 "degrees": (places, np.degrees(np.angle(result.matrices)))}  # fmt: skip
    if result.noise is not None:
        noise = {"Fmin": result.noise.minimum, "Rn": result.noise.resistance, "Γopt_size": np.abs(result.noise.optimum),
                 "Γopt_degrees": np.degrees(np.angle(result.noise.optimum))}  # fmt: skip
        variables |= {name: (("frequency",), values) for name, values in noise.items()}
    return xarray.Dataset(
        variables, {"frequency": result.frequency, "to": ports, "from": ports}, {"title": circuit.title}
    )


def _response(circuit: Circuit, nodes: Sequence[str]) -> xarray.Dataset:
    response = circuit.response()
    gains = np.stack([response[name] for name in nodes], axis=1)
    sizes = np.maximum(np.abs(gains), 1e-300)
    return xarray.Dataset(
        {"decibels": (("frequency", "node"), 20.0 * np.log10(sizes)),
         "degrees": (("frequency", "node"), np.degrees(np.angle(gains)))},
        {"frequency": response.frequency, "node": list(nodes)}, {"title": circuit.title},
    )  # fmt: skip


def _noise(circuit: Circuit) -> xarray.Dataset:
    spectrum = circuit.noise_spectrum()
    whole = {
        name: np.sqrt(np.trapezoid(density, spectrum.frequency))
        for name, density in (("output", spectrum.density), ("input", spectrum.input_density))
    }
    return xarray.Dataset(
        {"density": (("frequency",), spectrum.density), "input_density": (("frequency",), spectrum.input_density),
         **{name: ((), value) for name, value in whole.items()}},
        {"frequency": spectrum.frequency}, {"title": circuit.title},
    )  # fmt: skip
