"""The equations of a network at many states at once, in numpy: f, f_x, g and g_x, with nothing traced or compiled.

They are for callers that evaluate a few states once or twice: the search for a cycle, the checks before a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stodyn.circuits.assembly import Network
from stodyn.circuits.channels import Channels
from stodyn.circuits.devices import CHARGE, thermal
from stodyn.numerics import dual
from stodyn.numerics.regions import watched


def sources_at(network: Network, t: np.ndarray) -> np.ndarray:
    """The values (points, sources) of all sources at times (points,)."""
    return network.sources.at_times(np.asarray(t, float))


def rates(network: Network, t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """f (points, n) at times (points,) and states (points, n)."""
    y = _grounded(x)
    currents = [group.value(y, np) for group in network.groups]
    sources = network.source_signs * sources_at(network, t)[:, network.source_columns]
    both = (side * i for i in (*currents, *network.flickering(currents, y, np)) for side in (-1.0, 1.0))
    values = [sources, *both, *(-q.value(y, np) for q in network.charges)]
    linear, spread = network.matrices
    return _times(linear, x) + _times(spread, np.concatenate(values, axis=1))


def slopes(network: Network, x: np.ndarray) -> np.ndarray:
    """Return the slopes f_x (points, n, n) at some states."""
    y, n = _grounded(x), network.n
    places, constant, stamp = network.slope_stamps
    matrices = np.zeros((len(x), n * n))
    matrices[:, places] = constant
    if network.slope_terms.total:
        matrices[:, places] += _times(stamp, network.device_slopes(y))
    return matrices.reshape(len(x), n, n)


def intensities(network: Network, t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """S (points, sources) of all white noise, in the order of Network.intensity."""
    y = _grounded(x)
    quiet = np.tile(thermal(network.resistances, network.kelvins), (len(x), 1))
    devices = [np.broadcast_to(group.noise(y, np), (len(x), len(group.elements))) for group in network.groups]
    return np.concatenate([quiet, CHARGE * np.abs(sources_at(network, t)), *devices], axis=1)


def decisions(network: Network, t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return (points, decisions), on which pieces the laws of all devices and the sources are; equal rows are on the
    same."""
    noted: list[np.ndarray] = []
    y = watched(_grounded(x), noted)
    for group in network.groups:
        group.value(y, np)
        group.noise(y, np)
    for group in network.charges:
        group.value(y, np)
    passed = np.searchsorted(network.sources.corners(0.0, float(t.max())), t, side="right")
    return np.concatenate([passed[:, None], *(np.broadcast_to(d, (len(x), d.shape[-1])) for d in noted)], axis=1)


def noise(network: Network, channels: Channels, t: np.ndarray, x: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """g (points, n, channels), the white noise times the factor (points,)."""
    intensity = intensities(network, t, x)
    return np.stack([channels.matrix(network.n, s, k, np) for s, k in zip(intensity, factor, strict=True)])


def noise_slopes(network: Network, channels: Channels, t: np.ndarray, x: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """g_x (points, n, channels, n): of g = c √P, P = Σ w S(x), it is c P_x/(2 √P)."""
    y, n = _grounded(x), network.n
    intensity = intensities(network, t, x)
    rises = np.zeros((*intensity.shape, n + 1))
    first = len(network.resistances) + network.sources.dc.size
    for group in network.groups:
        places = np.arange(first, first + len(group.elements))
        first += len(group.elements)
        if group.law.noise is None:
            continue
        _, slopes = dual.slopes(lambda v, xp, g=group: g.law.noise(v, g.numbers, xp), group.read(y))
        for slope, (c, d) in zip(slopes, group.control, strict=True):
            _add(rises, np.broadcast_to(slope, (len(x), len(places))), places, c)
            _add(rises, -np.broadcast_to(slope, (len(x), len(places))), places, d)
    power, rise = np.zeros((len(x), channels.total)), np.zeros((len(x), channels.total, n))
    _add(power, channels.weights * intensity[:, channels.sources], channels.members)
    _add(rise, channels.weights[:, None] * rises[:, channels.sources, :n], channels.members)
    steep = factor[:, None, None] * rise / (2.0 * np.sqrt(np.where(power > 0.0, power, np.inf)))[..., None]
    result = np.zeros((len(x), n, max(channels.total, 1), n))
    result[:, channels.rows, channels.columns] = channels.coefficients[:, None] * steep[:, channels.columns]
    return result


def _times(matrix: Any, values: np.ndarray) -> np.ndarray:
    """matrix (rows, columns), dense or sparse, times each of the values (points, columns)."""
    return values @ matrix.T if isinstance(matrix, np.ndarray) else (matrix @ values.T).T


def _grounded(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.zeros((len(x), 1))], axis=1)


def _add(total: np.ndarray, values: np.ndarray, *places: np.ndarray) -> None:
    """Add values (points, entries) at their places in the other axes; values at the same place add up."""
    np.add.at(total, (slice(None), *places), values)  # type: ignore[arg-type]
