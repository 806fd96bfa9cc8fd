"""The equations of a network at many states at once, in numpy: f, f_x and the noise, nothing compiled.

For those who look at hundreds of states once or twice, as the search for a cycle does; flicker filters are at rest.
"""

from __future__ import annotations

import numpy as np

from stodyn.circuits.assembly import Network
from stodyn.circuits.devices import CHARGE, thermal


def sources_at(network: Network, t: np.ndarray) -> np.ndarray:
    """The values (points, sources) of all sources at times (points,)."""
    sources = network.sources
    if not sources.moving and sources.points is None:
        return np.tile(sources.values(0.0, np), (len(t), 1))
    return np.stack([sources.values(time, np) for time in t])


def rates(network: Network, t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """f (points, n) at times (points,) and states (points, n)."""
    y, n = _grounded(x), network.n
    found = np.zeros((len(x), n + 1))
    found[:, :n] = (network.linear.matrix(n) @ x.T).T
    given = network.source_signs * sources_at(network, t)[:, network.source_columns]
    _add(found, given, network.source_rows)
    for group in network.groups:
        current = group.value(y, np)
        for node, side in zip(group.out, (-1.0, 1.0), strict=True):
            _add(found, side * current, node)
    for group in network.charges:
        found[:, group.rows] -= group.value(y, np)
    return found[:, :n]


def slopes(network: Network, x: np.ndarray) -> np.ndarray:
    """f_x (points, n, n)."""
    y, n = _grounded(x), network.n
    found = np.zeros((len(x), n + 1, n + 1))
    found[:, :n, :n] = network.linear.matrix(n).toarray()
    for group in (*network.groups, *network.charges):
        ends = ((group.rows, -1.0),) if group.law.stores else tuple(zip(group.out, (-1.0, 1.0), strict=True))
        for slope, (c, d) in zip(group.current(y, np).slopes, group.control, strict=True):
            for row, side in ends:
                _add(found, side * slope, row, c)
                _add(found, -side * slope, row, d)
    return found[:, :n, :n]


def intensities(network: Network, t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """S (points, sources) of all white noise, in the order of Network.intensity."""
    y = _grounded(x)
    quiet = np.tile(thermal(network.resistances, network.netlist.kelvin), (len(x), 1))
    devices = [np.broadcast_to(group.noise(y, np), (len(x), len(group.elements))) for group in network.groups]
    return np.concatenate([quiet, CHARGE * np.abs(sources_at(network, t)), *devices], axis=1)


def _grounded(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.zeros((len(x), 1))], axis=1)


def _add(found: np.ndarray, values: np.ndarray, *places: np.ndarray) -> None:
    """Add values (points, entries) at their places in the other axes; those of one place add up."""
    np.add.at(found, (slice(None), *places), values)  # type: ignore[arg-type]
