"""The charges of the gate of a MOS transistor of level 1 whose model gives TOX; C = ε W L/TOX.

J. E. Meyer, RCA Review 32 (1971), has three capacitances, which SPICE continues below threshold; x = v_gs - V_TH,
y = v_gd - V_TH, and the source is the end at which this is larger:
    C_gs = 2/3 C a (1 - (y/(x + y))²),  C_gd = 2/3 C a (1 - (x/(x + y))²),  y at least 0,  x at least 25 mV
    C_gb = C times -x/PHI clipped to [0, 1],   a = 1 + 2 x/PHI clipped to [0, 1]
.ac and .noise use them. In time, their currents C_gs v_gs' and C_gd v_gd' do not conserve charge, since C_gs depends on
v_gd, and with white noise v' does not exist. So a run uses charges, whose sum is that of Meyer's gate:
    Q_gs = 2/3 C u² (u + 2 w)/(u + w)²,   Q_gd = 2/3 C w² (w + 2 u)/(u + w)²,   u = e(x), w = e(y)
    Q_gb = C times the integral of (-z/PHI clipped to [0, 1]) + 2/3 C ΔV_TH,   z = v_gb - VTO
    e' = 1 + 2 x/PHI clipped to [0, 1];  ΔV_TH = V_TH - VTO, below threshold that at which v_gb would be the threshold
In saturation, and with bulk at the source also below threshold, they have Meyer's capacitances. Between saturation,
which they leave smoothly over PHI/2, and v_ds = 0 the charge that Meyer's model loses flows from source to drain: there
is one more current, at v_ds = 0 that of a capacitance C/6 between them. Where V_TH follows v_bs, bulk takes from the
source what the channel loses. Where it does not (GAMMA = 0), every charge falls with the voltages of other nodes: with
s = u + w and slopes over 2/3 C, ∂Q_gs/∂w = -2u²w/s³, ∂Q_gs/∂u + ∂Q_gs/∂w = u(u² + uw + 4w²)/s³ and
∂(Q_gs + Q_gd)/∂w = w(w + 2u)/s².
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stodyn.circuits.devices import Law, Numbers
from stodyn.circuits.element import Card, Element

LEAST_SATURATION = 0.025  # V: the least v_dsat in Meyer's capacitances
SMALLEST = 1e-30  # V: in place of 0 in a quotient
LEAST = 1e-3  # of C: the least of Q_gs' and Q_gd', so that no node loses its charge where the channel is pinched off


def threshold(bs: Any, p: Numbers, xp: Any) -> Any:
    """Return the threshold voltage V_TH of an N-channel transistor."""
    if not p.known("gamma").any():
        return p["vto"] * p["sign"]
    root = xp.sqrt(xp.maximum(p["phi"] - xp.minimum(bs, 0.0), 1e-12))
    root = xp.where(bs > 0.0, xp.maximum(p["phi"] ** 0.5 - bs / (2.0 * p["phi"] ** 0.5), 0.0), root)
    return p["vto"] * p["sign"] + p["gamma"] * (root - p["phi"] ** 0.5)


def _overdrives(read: tuple[Any, ...], p: Numbers, xp: Any) -> tuple[Any, Any]:
    """x and y of an N-channel transistor, with the threshold of the end that is the source."""
    gs, ds, bs = (p["sign"] * v for v in read[:3])
    at = threshold(xp.maximum(bs, bs - ds), p, xp)
    return gs - at, gs - ds - at


def _rounded(x: Any, p: Numbers, xp: Any) -> Any:
    """Return e(x), the overdrive x with a smooth end below 0: its slope is 1 + 2 x/PHI, clipped to [0, 1]."""
    rise = 1.0 + 2.0 * xp.clip(x / p["phi"], -0.5, 0.0)
    return 0.25 * p["phi"] * rise * rise + xp.maximum(x, 0.0)


def _at_end(u: Any, w: Any, xp: Any) -> Any:
    whole = xp.maximum(u + w, SMALLEST)
    return (2.0 / 3.0) * u * u * (u + 2.0 * w) / (whole * whole)


def source(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    x, y = _overdrives(read, p, xp)
    return p["sign"] * _at_end(_rounded(x, p, xp), _rounded(y, p, xp), xp) + LEAST * read[0]


def drain(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    x, y = _overdrives(read, p, xp)
    return p["sign"] * _at_end(_rounded(y, p, xp), _rounded(x, p, xp), xp) + LEAST * (read[0] - read[1])


def bulk(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    z = p["sign"] * ((read[0] - read[2]) - p["vto"])
    within = xp.clip(z, -1.0 * p["phi"], 0.0)
    charge = xp.minimum(z + p["phi"], 0.0) - within * within / (2.0 * p["phi"])
    if p.known("gamma").any():
        ds, bs = p["sign"] * read[1], p["sign"] * read[2]
        root = p["phi"] ** 0.5
        pinched = xp.sqrt((root + 0.5 * p["gamma"]) ** 2 + xp.maximum(z, 0.0)) - 0.5 * p["gamma"] - root
        risen = threshold(xp.maximum(bs, bs - ds), p, xp) - p["vto"] * p["sign"]
        charge = charge + (2.0 / 3.0) * xp.minimum(risen, p["gamma"] * pinched)
    return p["sign"] * charge


def source_and_bulk(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return source(read, p, xp) + bulk(read, p, xp)


class Pinch(NamedTuple):
    """Where a channel is pinched off: x of its source, the saturation voltage, |v_ds|, and whether v_ds < 0."""

    over: np.ndarray
    saturation: np.ndarray
    apart: np.ndarray
    back: np.ndarray


def _square_law(read: tuple[Any, ...], p: Numbers) -> Pinch:
    x, y = _overdrives(read, p, np)
    return Pinch(np.maximum(x, y), np.maximum(x, y), np.abs(x - y), y > x)


def capacitances(
    read: tuple[Any, ...], p: Numbers, pinch: Callable[..., Pinch] = _square_law
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Meyer's capacitances C_gs, C_gd and C_gb, divided by C."""
    over, saturation, apart, back = pinch(read, p)
    saturation = np.maximum(saturation, LEAST_SATURATION)
    left = np.maximum(saturation - apart, 0.0)
    whole = (2.0 / 3.0) * np.clip(1.0 + 2.0 * over / p["phi"], 0.0, 1.0)
    near, far = (whole * (1.0 - (part / (saturation + left)) ** 2) for part in (left, saturation))
    return np.where(back, far, near), np.where(back, near, far), np.clip(-over / p["phi"], 0.0, 1.0)


def _couples(p: Numbers) -> bool:
    return not p.known("gamma").any()


def _charge(name: str, value: Callable, capacitance: Callable) -> Law:
    return Law(name, value, stores=True, conducts=False, couples=_couples, capacitance=capacitance)


class Gate(NamedTuple):
    """The laws of the charges of a gate: to source, drain and bulk, and to a source that is the bulk."""

    source: Law
    drain: Law
    bulk: Law
    source_and_bulk: Law


def laws(pinch: Callable[..., Pinch] = _square_law, suffix: str = "") -> Gate:
    """The laws of a gate whose small signals see Meyer's capacitances at the `pinch` of its channel."""

    def at_ends(*which: int) -> Callable:
        return lambda read, p: sum(capacitances(read, p, pinch)[k] for k in which)

    return Gate(_charge(f"charge from gate to source{suffix}", source, at_ends(0)),
                _charge(f"charge from gate to drain{suffix}", drain, at_ends(1)),
                _charge(f"charge from gate to bulk{suffix}", bulk, at_ends(2)),
                _charge(f"charge from gate to source and bulk{suffix}", source_and_bulk, at_ends(0, 2)))  # fmt: skip


SOURCE, DRAIN, BULK, SOURCE_AND_BULK = SQUARE = laws()


def gate(
    card: Card, nodes: tuple[str, str, str, str], oxide: float, numbers: dict[str, float], of: Gate = SQUARE
) -> list[Element]:
    """The parts that store the charge of a gate; `nodes` are drain, gate, source and bulk, `oxide` is C in F."""
    at_drain, at_gate, at_source, at_bulk = nodes
    value = {**numbers, "unit": oxide}
    reads = ((at_gate, at_source), (at_drain, at_source), (at_bulk, at_source))
    if at_bulk == at_source:
        stored = [(of.source_and_bulk, at_source, ".qgs"), (of.drain, at_drain, ".qgd")]
    else:
        stored = [(of.source, at_source, ".qgs"), (of.drain, at_drain, ".qgd"), (of.bulk, at_bulk, ".qgb")]
    return [card.nonlinear(law, (at_gate, end), reads, value, suffix, noisy=False)
            for law, end, suffix in stored if end != at_gate]  # fmt: skip
