"""S-parameters at the ports of a circuit, and the noise parameters of two-ports.

Ports are V sources with portnum= and z0=, which stands in series with them and has no noise. With 1 V at port p and 0 V
at the others, port q has the voltage u_q, and S_qp = 2 u_q √(z0_p/z0_q) - δ_qp. The noise of the circuit leaves its
ports as waves c with the correlation matrix C = <c c*>, from which follow the noise sources at the input of a two-port
(H. Hillbrand and P. Russer, IEEE Trans. Circuits Syst. 23, 235 (1976)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stodyn.circuits.devices import BOLTZMANN
from stodyn.circuits.element import GROUND
from stodyn.circuits.small_signal import STANDARD, SmallSignal
from stodyn.numerics import direct


class TwoPortNoise(NamedTuple):
    """The noise parameters of a two-port at each frequency, for a source at 290 K.

    minimum     Fmin, the least noise factor (a ratio, not dB)
    resistance  Rn, Ω
    optimum     Γopt, the reflection of the source with which the factor is least, relative to z0 of the first port
    admittance  Yopt, the same as an admittance, S
    """

    minimum: np.ndarray
    resistance: np.ndarray
    optimum: np.ndarray
    admittance: np.ndarray

    def factor(self, admittance: complex) -> np.ndarray:
        """Return the noise factor with a source of an admittance, Fmin + Rn/Re Y |Y - Yopt|².

        Parameters
        ----------
        admittance : complex
            The admittance of the source in S, its real part above 0.

        Returns
        -------
        numpy.ndarray
            The noise factor at each frequency.
        """
        return self.minimum + self.resistance / np.real(admittance) * np.abs(admittance - self.admittance) ** 2


class Scattering(NamedTuple):
    """S-parameters: `matrices` (frequencies, ports, ports) at frequencies in Hz, the impedances of the ports, and the
    noise of a two-port, None for other numbers of ports."""

    frequency: np.ndarray
    matrices: np.ndarray
    impedances: np.ndarray
    noise: TwoPortNoise | None

    def __getitem__(self, ports: Any) -> Any:
        """S_qp by the numbers of ports, from 1: scattering[2, 1]."""
        if isinstance(ports, tuple):
            return self.matrices[:, ports[0] - 1, ports[1] - 1]
        return tuple.__getitem__(self, ports)


def scattering(small_signal: SmallSignal, frequency: np.ndarray) -> Scattering:
    """S-parameters and noise parameters of a linearised circuit with ports."""
    network = small_signal.network
    ports = [network.netlist.ports[number] for number in sorted(network.netlist.ports)]
    impedances = np.array([impedance for _, impedance in ports])
    outputs = np.zeros((network.n, len(ports)), complex)
    for k, (name, _) in enumerate(ports):
        for node, sign in zip(network.netlist.terminals[name], (1.0, -1.0), strict=True):
            if node != GROUND:
                outputs[network.nodes[node], k] += sign
    pushes = np.stack([small_signal.pushed(name)[: network.n] for name, _ in ports], axis=1)
    M, J = map(direct.handy, network.small_signal(small_signal.x))
    roots = np.sqrt(impedances)
    matrices, waves = [], []
    for f in frequency:
        transfers = np.zeros((network.n + 1, len(ports)), complex)
        transfers[: network.n] = direct.solved((2j * np.pi * f * M - J).T, outputs)
        voltages = transfers[: network.n].T @ pushes
        matrices.append(2.0 * voltages * roots / roots[:, None] - np.eye(len(ports)))
        waves.append(_correlation(small_signal, transfers, f) / np.outer(roots, roots))
    S = np.array(matrices)
    noise = _two_port(S, np.array(waves), impedances) if len(ports) == 2 else None
    return Scattering(frequency, S, impedances, noise)


def _correlation(small_signal: SmallSignal, transfers: np.ndarray, f: float) -> np.ndarray:
    """The correlation matrix, one-sided, of the noise voltages at the ports."""
    network = small_signal.network
    white = 2.0 * network.intensity(small_signal.x, network.sources.at_rest(), np)
    loud = [(source.a, source.b, white[source.place]) for source in network.noises]
    loud += [(a, b, strength / f) for _, a, b, strength in small_signal.flicker()]
    total = np.zeros((transfers.shape[1],) * 2, complex)
    for a, b, density in loud:
        path = transfers[a] - transfers[b]
        total += density * np.outer(path, path.conj())
    return total


def _two_port(S: np.ndarray, waves: np.ndarray, impedances: np.ndarray) -> TwoPortNoise:
    """Noise currents at both ports, then the voltage e and the current i at the input that stand for them, then their
    parameters; NaN where the two-port passes nothing on."""
    roots = np.sqrt(impedances)
    inverse = np.linalg.inv(np.eye(2) + S)
    Y = inverse @ (np.eye(2) - S) / np.outer(roots, roots)
    currents = 4.0 * inverse @ waves @ np.conj(np.swapaxes(inverse, 1, 2)) / np.outer(roots, roots)
    with np.errstate(divide="ignore", invalid="ignore"):
        forward = Y[:, 1, 0]
        to_input = np.zeros_like(S)
        to_input[:, 0, 1] = -1.0 / forward
        to_input[:, 1, 0] = 1.0
        to_input[:, 1, 1] = -Y[:, 0, 0] / forward
        chain = to_input @ currents @ np.conj(np.swapaxes(to_input, 1, 2))
        ee, ei, ii = (chain[:, 0, 0].real, chain[:, 0, 1], chain[:, 1, 1].real)
        imaginary = ei.imag / ee
        real = np.sqrt(np.maximum(ii / ee - imaginary**2, 0.0))
        admittance = real + 1j * imaginary
        thermal = 4.0 * BOLTZMANN * STANDARD
        optimum = (1.0 / impedances[0] - admittance) / (1.0 / impedances[0] + admittance)
        return TwoPortNoise(1.0 + 2.0 * (ei.real + ee * real) / thermal, ee / thermal, optimum, admittance)
