"""Analyses at direct current beside .op: .dc, .tf and .sens.

With f(x, p) = 0 at the operating point, a number p of the netlist moves an output e'x by
    d(e'x)/dp = -λ' ∂f/∂p,   f_x' λ = e,
so that all sensitivities take one solve, the adjoint, and for each number two evaluations of f at the same x.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stodyn.circuits.assembly import Network, by_name
from stodyn.circuits.operating_point import operating_point
from stodyn.circuits.text import NetlistError
from stodyn.numerics import direct

STEP = 1e-5  # of a number, for ∂f/∂p by a central difference: right to about 1e-10


class Curves(NamedTuple):
    """The result of .dc: the states (values of the second sweep, values of the first, n), without the first axis where
    there is one sweep; curves["out"] for the node out."""

    values: dict[str, np.ndarray]
    states: np.ndarray
    names: tuple[str, ...]

    def __getitem__(self, name: Any) -> Any:
        return by_name(self, self.states, self.names, name)


class Transfer(NamedTuple):
    """The result of .tf: the gain from a source to an output, the resistance that the source sees, Ω, and the one seen
    from the output, Ω, which is NaN where the output is a current."""

    gain: float
    input_resistance: float
    output_resistance: float


def curves(circuit: Any, sweeps: Sequence[Any]) -> Curves:
    """Operating points for all values of one or two sweeps; each search begins at the point before."""
    network, points = circuit.network, []
    sources = [place.removesuffix(".value") for place in (sweep.place for sweep in sweeps)]
    near = None
    for values in itertools.product(*(sweep.values for sweep in reversed(sweeps))):
        if all(name in network.sources_of for name in sources):
            fed = network.sources.at_rest()
            for name, value in zip(sources, reversed(values), strict=True):
                fed[network.sources_of.index(name)] = value
            point = operating_point(network, fed, near=near)
        else:
            setting = dict(zip((sweep.place for sweep in sweeps), reversed(values), strict=True))
            other = circuit.valued(setting).network
            point = operating_point(other, other.sources.at_rest(), near=near)
        near = point.x
        points.append(point.x)
    shape = [len(sweep.values) for sweep in reversed(sweeps)]
    swept = {sweep.place.removesuffix(".value"): np.array(sweep.values) for sweep in sweeps}
    return Curves(swept, np.array(points).reshape(*shape, network.n), network.names)


def transfer(network: Network, x: np.ndarray, output: np.ndarray, is_voltage: bool, source: str) -> Transfer:
    """Gain and resistances at the operating point x, for an output e'x and a source of the netlist."""
    J = network.slopes_at_rest(x)
    column = network.sources_of.index(source)
    mine = network.source_columns == column
    push = np.zeros(network.n + 1)
    np.add.at(push, network.source_rows[mine], network.source_signs[mine])
    driven = -direct.solved(J, push[: network.n])
    if source in network.branches:
        resistance = _over(-1.0, float(driven[network.branches[source]]))
    else:  # the source takes its current out of n+ and puts it into n-
        resistance = float(push[: network.n] @ driven)
    own = float(output @ -direct.solved(J, output)) if is_voltage else float("nan")
    return Transfer(float(output @ driven), resistance, own)


def _over(a: float, b: float) -> float:
    return a / b if b else float("inf")


def sensitivities(
    network: Network, x: np.ndarray, output: np.ndarray, numbers: Mapping[str, float],
    rebuilt: Callable[[dict[str, float]], Network],
) -> dict[str, float]:  # fmt: skip
    """d(e'x)/dp for each of the numbers; `rebuilt` gives the network with one of them changed."""
    adjoint = direct.solved(network.slopes_at_rest(x).T, output)
    adjoint[network.resting] = 0.0  # held, whatever the numbers are

    def pushed(other: Network) -> float:
        return -float(adjoint @ other.at_rest.rates(x, other.sources.at_rest(), np))

    return derivatives(network, numbers, rebuilt, pushed)


def derivatives(
    network: Network, numbers: Mapping[str, float], rebuilt: Callable[[dict[str, float]], Network],
    function: Callable[[Network], Any],
) -> dict[str, Any]:  # fmt: skip
    """The derivatives of a function of the network by each of the numbers. Numbers that cannot be changed without other
    parts appearing are left out."""

    def value_at(place: str, value: float) -> Any:
        try:
            other = rebuilt({place: value})
        except NetlistError:
            return None
        return function(other) if other.names == network.names else None

    result = {}
    for place, value in numbers.items():
        step = STEP * abs(value) if value else STEP
        ends = [(value_at(place, value + side), side) for side in (step, -step)]
        known = [(end, side) for end, side in ends if end is not None]
        if len(known) == 1:
            known.append((value_at(place, value), 0.0))
        if len(known) == 2 and known[1][0] is not None:
            result[place] = (known[0][0] - known[1][0]) / (known[0][1] - known[1][1]) + 0.0  # no -0.0
    return result
