"""The derivatives of the noise of a linearised circuit with respect to every number of its netlist.

The density at the output is S = Σ_k |λ' b_k|² S_k with H' λ = e, H = iωM - f_x. A change of H and of S_k moves it by
    dS = Σ_k |λ' b_k|² dS_k - 2 Re λ' dH μ,   H μ = Σ_k b_k S_k conj(λ' b_k),
the change of a number F of the network with λ and μ held: two solves per frequency serve all numbers of the netlist,
which also move the operating point, f(x, p) = 0:
    dS/dp = F_p - η' f_p,   f_x' η = F_x.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stodyn.circuits.assembly import Network
from stodyn.circuits.direct_current import derivatives
from stodyn.numerics import direct

APART = 1e-6  # V or A, for F_x by central differences: right to 1e-9 where a junction changes within 26 mV


class _Sources(NamedTuple):
    """The sources of noise: the ends of each, its white density one-sided, and its flicker density times f."""

    a: np.ndarray
    b: np.ndarray
    white: np.ndarray
    flicker: np.ndarray

    def at(self, frequency: float) -> np.ndarray:
        return self.white + self.flicker / frequency


def _sources(small_signal: Any) -> _Sources:
    network, x = small_signal.network, small_signal.x
    white = 2.0 * network.intensity(x, network.sources.at_rest(), np)
    rows = [(loud.a, loud.b, white[loud.place], 0.0) for loud in network.noises]
    rows += [(a, b, 0.0, strength) for _, a, b, strength in small_signal.flicker()]
    a, b, own, flicker = np.array(rows, float).reshape(-1, 4).T
    return _Sources(a.astype(int), b.astype(int), own, flicker)


@dataclasses.dataclass(frozen=True)
class _Held:
    """F at one frequency, as a function of a network and its state: λ, μ and |λ' b_k|² are held."""

    frequency: float
    forward: np.ndarray
    adjoint: np.ndarray
    gains: np.ndarray

    def value(self, small_signal: Any, matrices: tuple[Any, Any], sources: _Sources) -> float:
        H = small_signal.network.at_frequency(*matrices, self.frequency)
        return float(self.gains @ sources.at(self.frequency) - 2.0 * (self.adjoint @ (H @ self.forward)).real)


def _held(small_signal: Any, output: np.ndarray, frequency: float) -> _Held:
    network, sources = small_signal.network, _sources(small_signal)
    H = network.at_frequency(*network.small_signal(small_signal.x), frequency)
    adjoint = direct.solved(H.T, output.astype(complex))
    through = np.append(adjoint, 0.0)
    transfers = through[sources.a] - through[sources.b]
    push, weighted = np.zeros(network.n + 1, complex), sources.at(frequency) * transfers.conj()
    np.add.at(push, sources.a, weighted)
    np.add.at(push, sources.b, -weighted)
    return _Held(frequency, direct.solved(H, push[: network.n]), adjoint, np.abs(transfers) ** 2)


def noise_sensitivities(
    small_signal: Any, output: np.ndarray, frequency: np.ndarray, numbers: Mapping[str, float],
    rebuilt: Callable[[dict[str, float]], Network],
) -> dict[str, np.ndarray]:  # fmt: skip
    """dS/dp (frequencies,) for each of the numbers; `rebuilt` gives the network with one of them changed."""
    network, x = small_signal.network, small_signal.x
    held = [_held(small_signal, output, f) for f in frequency]

    def values(other: Network, state: np.ndarray) -> np.ndarray:
        there = dataclasses.replace(small_signal, network=other, x=state)
        matrices, sources = other.small_signal(state), _sources(there)
        return np.array([one.value(there, matrices, sources) for one in held])

    sides = APART * np.eye(network.n)
    by_state = np.array([values(network, x + side) - values(network, x - side) for side in sides]) / (2.0 * APART)
    moved = direct.solved(network.at_rest.slopes(x).T, by_state)

    def total(other: Network) -> np.ndarray:
        return values(other, x) - other.at_rest.rates(x, other.sources.at_rest(), np) @ moved

    return derivatives(network, numbers, rebuilt, total)
