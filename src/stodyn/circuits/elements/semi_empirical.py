"""The channel of a MOS transistor of level 3, the semi-empirical model of SPICE (A. Vladimirescu and S. Liu, 1980).

With s = √(PHI - v_bs), v at most the saturation voltage and o = v_gs - V_TH,
    i = β F_g F_v/(1 - ΔL/L) (o - (1 + F_b) v/2) v,   F_g = 1/(1 + THETA o),   F_v = 1/(1 + v/v_c)
    V_TH = VTO - GAMMA √PHI - σ v_ds + γ s + f (PHI - v_bs),   σ = 8.15e-22 ETA/(Cox L³)
    F_b = γ/(4 s) + f,   f = π/2 DELTA ε_Si/(Cox W),   γ = GAMMA F_s (G. Merckel's factor of short channels, XJ and LD)
    v_c = VMAX L/(UO F_g);   saturation at a = o/(1 + F_b), with VMAX at a + v_c - √(a² + v_c²)
ΔL follows from KAPPA and NSUB, and ends in punch-through at L. With NFS the current falls exponentially below
V_ON = V_TH + n V_T, n = 1 + q NFS/Cox + the share of the bulk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stodyn.circuits.devices import Numbers
from stodyn.circuits.elements.grove_frohman import Point, root_of

DEPTH = 0.0631353, 0.8013292, -0.01110777  # of the layer at the corner of a junction, over XJ, by its width over XJ
LEAST = 1e-12  # S: the least slope at saturation by which ΔL is computed
SMALLEST = 1e-30  # V: in place of 0 in a quotient
THIN = 1e-40  # m²: in place of 0 under a root


class _Charges(NamedTuple):
    """F_b, V_TH, V_ON, n and o, at least V_ON - V_TH."""

    body: Any
    threshold: Any
    on: Any
    many: Any
    over: Any


def _short(s: Any, p: Numbers, xp: Any) -> Any:
    """The share of the bulk's charge that the gate holds in a short channel."""
    width = p["depletion"] * s
    depth = DEPTH[0] + DEPTH[1] * width + DEPTH[2] * width * width
    part = width / (1.0 + width)
    side = p["lateral"]
    return 1.0 - p["shared"] * ((depth + side) * xp.sqrt(1.0 - part * part) - side)


def _charges(at: Point, p: Numbers, xp: Any) -> _Charges:
    s = root_of(-at.bs, p, xp)
    gamma = p["gamma"] * (_short(s, p, xp) if p.known("shared").any() else 1.0)
    bulk = gamma * s + p["narrow"] * s * s
    threshold = p["vto"] * p["sign"] - p["gamma"] * p["phi"] ** 0.5 - p["feedback"] * at.ds + bulk
    many = 1.0 + p["states"] + 0.5 * bulk / (s * s)
    on = threshold + xp.where(p["states"] > 0.0, p.thermal_voltage * many, 0.0)
    return _Charges(0.25 * gamma / s + p["narrow"], threshold, on, many, xp.maximum(at.gs, on) - threshold)


def _saturation(q: _Charges, p: Numbers, xp: Any) -> tuple[Any, Any]:
    """The saturation voltage and 1/v_c."""
    pinched, slower = q.over / (1.0 + q.body), 1.0 + p["theta"] * q.over
    if not p.known("vmax").any():
        return pinched, 0.0 * pinched
    critical = xp.where(p["vmax"] > 0.0, p["vmax"], 1e30) * p["length"] / p["mobility"] * slower
    reached = pinched + critical - xp.sqrt(pinched * pinched + critical * critical)
    return xp.where(p["vmax"] > 0.0, reached, pinched), xp.where(p["vmax"] > 0.0, 1.0 / critical, 0.0)


def _shortened(at: Point, saturated: Any, inverse: Any, current: Any, p: Numbers, xp: Any) -> Any:
    """1 - ΔL/L; `current` is that at saturation or below."""
    some = xp.maximum(saturated, SMALLEST)
    beyond = xp.maximum(at.ds - saturated, 0.0)
    share = xp.minimum(at.ds / some, 1.0)
    shorter = xp.sqrt(p["layer"] * (beyond + 0.125 * some) + THIN) * share * share * share * share
    if p.known("vmax").any():
        slope = xp.maximum(current * some * inverse * inverse / (1.0 + some * inverse), LEAST)
        field = 0.5 * p["kappa"] * current / (p["length"] * slope) * p["square"]
        fast = xp.sqrt(field * field + p["layer"] * beyond + THIN) - field
        shorter = xp.where(p["vmax"] > 0.0, xp.where(at.ds > saturated, fast, 0.0), shorter)
    half = 0.5 * p["length"]
    pushed = p["length"] - half * half / xp.maximum(shorter, half)
    return 1.0 - xp.where(shorter > half, pushed, shorter) / p["length"]


def channel(at: Point, p: Numbers, xp: Any) -> Any:
    """The current of the channel, A."""
    q = _charges(at, p, xp)
    saturated, inverse = _saturation(q, p, xp)
    v = xp.minimum(at.ds, saturated)
    current = p["beta"] * (q.over - 0.5 * (1.0 + q.body) * v) * v
    current = current / ((1.0 + p["theta"] * q.over) * (1.0 + v * inverse))
    if p.known("layer").any():
        current = current / _shortened(at, saturated, inverse, current, p, xp)
    weak = xp.exp(xp.minimum(at.gs - q.on, 0.0) / (p.thermal_voltage * q.many))
    return current * xp.where(p["states"] > 0.0, weak, 1.0)


def pinch(at: Point, p: Numbers, xp: Any) -> tuple[Any, Any]:
    """v_gs - V_ON and the saturation voltage, for the capacitances of the gate."""
    q = _charges(at, p, xp)
    return at.gs - q.on, _saturation(q, p, xp)[0]
