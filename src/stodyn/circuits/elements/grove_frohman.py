"""The channel of a MOS transistor of level 2: A. S. Grove and D. Frohman-Bentchkowsky's charge of the bulk in full.

With s = √(PHI - v_bs) and b(v) = √(PHI - v_bs + v), v at most the saturation voltage,
    i = β μ/c ((v_gs - V_B - η v/2) v - (2/3) γ (b(v)³ - s³)),   V_TH = V_B + γ s
    γ = GAMMA (1 - (XJ/2L)(√(1 + 2 x_d s/XJ) + √(1 + 2 x_d b(v_ds)/XJ) - 2)),   x_d = √(2 ε_Si/(q NSUB))
    V_B = VTO - GAMMA √PHI + f (PHI - v_bs),   η = 1 + f,   f = π/4 DELTA ε_Si/(Cox W)
    μ = (UCRIT ε_Si/(Cox (v_gs - V_TH)))^UEXP, at most 1;   c = 1 - ΔL/L
ΔL is LAMBDA v_ds L, or follows from NSUB; it ends in punch-through at the width of the junction (0.25 µm without NSUB;
SPICE's current jumps down there). With VMAX the
saturation voltage is where carriers reach that speed, v_max L Q(v) = μ ∫ Q dv, found by Newton's method from v = 0:
there the difference of the two sides is convex and falls, so that the method comes to the first root from below. With
NFS the current falls exponentially below V_ON = V_TH + n V_T, n = 1 + q NFS/Cox + the share of the bulk. With VMAX and
without NFS, SPICE takes other roots below the threshold, and its transistors conduct there; here they are off.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stodyn.circuits.devices import Numbers, known_log

ROUNDS = 12  # of Newton's method for the saturation voltage
CLEARANCE = 0.25e-6  # m: the channel that is left at punch-through where NSUB is not given
SMALLEST = 1e-30  # V²: in place of 0 under a root
NARROW = 1e-3  # V: the least PHI - v_bs in the saturation voltage


class Point(NamedTuple):
    """The voltages of an N-channel transistor whose v_ds is positive."""

    gs: Any
    ds: Any
    bs: Any


def root_of(v: Any, p: Numbers, xp: Any) -> Any:
    """√(PHI + v), continued below v = 0 as SPICE does."""
    below = p["phi"] ** 0.5 / (1.0 - xp.minimum(v, 0.0) / (2.0 * p["phi"]))
    return xp.where(v < 0.0, below, xp.sqrt(xp.maximum(p["phi"] + v, 0.5 * p["phi"])))


def _slope_of_root(v: Any, root: Any, p: Numbers, xp: Any) -> Any:
    """The derivative of `root_of` in v."""
    return xp.where(v < 0.0, 0.5 * root * root / p["phi"] ** 1.5, 0.5 / root)


class _Charges(NamedTuple):
    """γ, s, V_B, V_TH, V_ON, n and the v_gs that counts, with NFS at least V_ON."""

    gamma: Any
    s: Any
    built_in: Any
    threshold: Any
    on: Any
    many: Any
    gs: Any


def _charges(at: Point, p: Numbers, xp: Any) -> _Charges:
    s, b = root_of(-at.bs, p, xp), root_of(at.ds - at.bs, p, xp)
    near, far = (xp.sqrt(1.0 + p["depletion"] * root) for root in (s, b))
    gamma = p["gamma"] * (1.0 - p["shared"] * (near - 1.0 + far - 1.0))
    built_in = p["vto"] * p["sign"] - p["gamma"] * p["phi"] ** 0.5 + p["narrow"] * (p["phi"] - at.bs)
    threshold = built_in + gamma * s
    ds, db = _slope_of_root(-at.bs, s, p, xp), _slope_of_root(at.ds - at.bs, b, p, xp)
    falls = p["gamma"] * p["shared"] * p["depletion"] * 0.5 * (ds / near + db / far)  # -∂γ/∂(PHI - v_bs)
    many = 1.0 + p["states"] + gamma * ds - falls * s + p["narrow"]
    on = threshold + xp.where(p["states"] > 0.0, p.thermal_voltage * many, 0.0)
    counted = xp.where(p["states"] > 0.0, xp.maximum(at.gs, on), at.gs)
    return _Charges(gamma, s, built_in, threshold, on, many, counted)


def _mobility(at: Point, q: _Charges, p: Numbers, xp: Any) -> Any:
    over = xp.maximum(at.gs - q.on, p["critical"])
    return xp.exp(p["uexp"] * (known_log(p["critical"], xp) - xp.log(over)))


def _saturation(at: Point, q: _Charges, mobility: Any, p: Numbers, xp: Any) -> Any:
    """The voltage at which the channel is pinched off, or its carriers reach VMAX."""
    eta = 1.0 + p["narrow"]
    gamma, over = q.gamma / eta, (q.gs - q.built_in) / eta
    argument = xp.maximum(over + p["phi"] - at.bs, 0.0)
    half = 0.5 * gamma * gamma
    in_full = over + half - gamma * xp.sqrt(0.25 * gamma * gamma + argument + SMALLEST)
    pinched = xp.maximum(xp.where(gamma > 0.0, in_full, over), 0.0)
    if not p.known("vmax").any():
        return pinched
    start = xp.maximum(p["phi"] - at.bs, NARROW)
    speed = p["vmax"] * p["length"] / (p["mobility"] * mobility)
    v = 0.0 * start
    for _ in range(ROUNDS):
        x = xp.sqrt(v + start)
        left = over - v - gamma * x
        drift = over * v - 0.5 * v * v - (2.0 / 3.0) * gamma * (x * x * x - q.s * q.s * q.s)
        slope = -speed * (1.0 + 0.5 * gamma / x) - left
        v = xp.minimum(xp.maximum(v - (speed * left - drift) / xp.minimum(slope, -1e-30), 0.0), pinched)
    return xp.where(p["vmax"] > 0.0, v, pinched)


def _shortened(at: Point, saturated: Any, mobility: Any, p: Numbers, xp: Any) -> Any:
    """1 - ΔL/L, with punch-through."""
    argument = 0.25 * (at.ds - saturated)
    shorter = p["width"] / p["length"] * xp.sqrt(argument + xp.sqrt(1.0 + argument * argument))
    if p.known("vmax").any():
        width = p["width"] / p["neff"] ** 0.5
        reached = p["vmax"] * width / (2.0 * p["mobility"] * mobility)
        beyond = xp.sqrt(reached * reached + xp.maximum(at.ds - saturated, 0.0))
        shorter = xp.where(p["vmax"] > 0.0, width / p["length"] * (beyond - reached), shorter)
    shorter = xp.where(p["lambda"] > 0.0, p["lambda"] * at.ds, shorter)
    left = p["length"] * (1.0 - shorter)
    limit = xp.where(p["width"] > 0.0, p["junction"], CLEARANCE)
    limited = limit / (2.0 - xp.minimum(left / limit, 1.0))
    return xp.where(left < limit, limited, left) / p["length"]


def channel(at: Point, p: Numbers, xp: Any) -> Any:
    """The current of the channel, A."""
    q = _charges(at, p, xp)
    mobility = _mobility(at, q, p, xp)
    saturated = _saturation(at, q, mobility, p, xp)
    v, s = xp.minimum(at.ds, saturated), q.s
    b = root_of(v - at.bs, p, xp)
    drift = (q.gs - q.built_in - 0.5 * (1.0 + p["narrow"]) * v) * v - (2.0 / 3.0) * q.gamma * (b * b * b - s * s * s)
    weak = xp.exp(xp.minimum(at.gs - q.on, 0.0) / (p.thermal_voltage * q.many))
    current = p["beta"] * mobility / _shortened(at, saturated, mobility, p, xp) * xp.maximum(drift, 0.0)
    return current * xp.where(p["states"] > 0.0, weak, 1.0)


def pinch(at: Point, p: Numbers, xp: Any) -> tuple[Any, Any]:
    """v_gs - V_ON and the saturation voltage, for the capacitances of the gate."""
    q = _charges(at, p, xp)
    return at.gs - q.on, _saturation(at, q, _mobility(at, q, p, xp), p, xp)
