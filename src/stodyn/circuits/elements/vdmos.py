"""The power transistor VDMOS of LTspice and ngspice, a model of M: o = v_gs - VTO, drain and source exchanged where
v_ds < 0.

    i = β (s - u/2) u (1 + LAMBDA v_ds)/(1 + THETA v_gs),  u = min(MTRIODE |v_ds|, s),  β = KP
    s = KSUBTHRES log(1 + exp((o - SUBSHIFT)/KSUBTHRES)), which is o above the threshold
    C_gs = CGS,  C_gd = S f(A v_gd) + CGDMAX - S, f = tanh above 0 and arctan below, S = (CGDMAX - CGDMIN)/(1 + π/2)
RD, RG, RS in series; from source to drain RDS and the body diode (IS, N, BV, IBV, NBV, CJO, VJ, M, FC, TT, EG, XTI,
RB). White noise 2kT (2/3) g_m of the channel, and that of the diode and the resistors. KP, VTO, KSUBTHRES and the
resistances follow the temperature as in ngspice.
"""

from __future__ import annotations

import math
from typing import Any

from stodyn.circuits.devices import ANY, BOLTZMANN, TEMPERATURE, Law, Numbers, Parameter
from stodyn.circuits.element import Card, Element, Model, ModelType
from stodyn.circuits.elements.diode import at_temperature, junction

QUIET = 1e-12  # S: the least transconductance in the noise of a channel
SLOPES = {"ksubthres": "tksubthres", "rd": "trd", "rg": "trg", "rs": "trs", "rb": "trb", "tt": "ttt"}
OF_DIODE = ("is", "n", "bv", "ibv", "nbv", "cjo", "vj", "m", "fc", "tt", "eg", "xti")

MODEL = ModelType(
    {
        "vto": Parameter(0.0, "V", ANY), "kp": Parameter(1.0, "A/V²", 0.0, False),
        "lambda": Parameter(0.0, "1/V"), "theta": Parameter(0.0, "1/V"), "mtriode": Parameter(1.0, "", 0.0, False),
        "ksubthres": Parameter(0.1, "V", 0.0, False), "subshift": Parameter(0.0, "V", ANY),
        "rd": Parameter(0.0, "Ω"), "rg": Parameter(0.0, "Ω"), "rs": Parameter(0.0, "Ω"), "rb": Parameter(0.0, "Ω"),
        "rds": Parameter(1e15, "Ω", 0.0, False), "cgs": Parameter(0.0, "F"), "cgdmin": Parameter(0.0, "F"),
        "cgdmax": Parameter(0.0, "F"), "a": Parameter(1.0, "1/V", 0.0, False), "is": Parameter(1e-14, "A", 0.0, False),
        "n": Parameter(1.0, "", 0.0, False), "bv": Parameter(math.inf, "V", 0.0, False),
        "ibv": Parameter(1e-10, "A", 0.0, False), "nbv": Parameter(1.0, "", 0.0, False),
        "cjo": Parameter(0.0, "F"), "vj": Parameter(0.8, "V", 0.0, False), "m": Parameter(0.5),
        "fc": Parameter(0.5), "tt": Parameter(0.0, "s"), "eg": Parameter(1.11, "eV", 0.0, False),
        "xti": Parameter(3.0), "mu": Parameter(-1.5, "", ANY), "tcvth": Parameter(0.0, "V/K", ANY),
        "texp0": Parameter(1.5, "", ANY),
        **{f"{name}1": Parameter(0.0, "1/K", ANY) for name in SLOPES.values()},
        **{f"{name}2": Parameter(0.0, "1/K²", ANY) for name in SLOPES.values()},
        **TEMPERATURE,
    },
    same={"vth": "vto", "vt0": "vto", "vth0": "vto", "cj0": "cjo", "cj": "cjo", "pb": "vj", "mtr": "mtriode",
          "bex": "mu", "vtotc": "tcvth", "tref": "tnom", "tksubthres": "tksubthres1", "trd": "trd1", "trg": "trg1",
          "trs": "trs1", "trb": "trb1"},
    refused={"rq": 0.0, "kf": 0.0, "subslope": 0.0},
    words={"nchan": "vdmos", "pchan": "vdmosp"},
)  # fmt: skip


def _channel(read: tuple[Any, ...], p: Numbers, xp: Any):
    """o and s of the end that is the source, u, β with its factors, and the direction of the current."""
    gs, ds = (p["sign"] * v for v in read)
    back = ds < 0.0
    o = xp.where(back, gs - ds, gs) - p["vto"] * p["sign"]
    z = (o - p["subshift"]) / p["ksubthres"]
    s = p["ksubthres"] * (xp.maximum(z, 0.0) + xp.log1p(xp.exp(-xp.abs(z))))
    u = xp.minimum(p["mtriode"] * xp.abs(ds), s)
    longer = xp.maximum(1.0 + p["lambda"] * ds, 1e-3)
    beta = p["beta"] * longer / xp.maximum(1.0 + p["theta"] * gs, 1e-3)
    return o, s, u, beta, xp.where(back, -1.0, 1.0)


def current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    _, s, u, beta, direction = _channel(read, p, xp)
    return p["sign"] * direction * beta * (s - 0.5 * u) * u


def noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    o, s, u, beta, _ = _channel(read, p, xp)
    z = xp.clip((o - p["subshift"]) / p["ksubthres"], -500.0, 500.0)
    fewer = p["theta"] / xp.maximum(1.0 + p["theta"] * p["sign"] * read[0], 1e-3)
    slope = beta * u * (1.0 / (1.0 + xp.exp(-z)) - fewer * (s - 0.5 * u))
    return 2.0 * BOLTZMANN * p.kelvin * (2.0 / 3.0) * (xp.abs(slope) + QUIET)


def gate_charge(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    """The charge of the gate-drain capacitance, which is the integral of C_gd over its voltage."""
    v = p["sign"] * read[0]
    up, down = xp.maximum(v, 0.0) * p["a"], xp.minimum(v, 0.0) * p["a"]
    above = up + xp.log1p(xp.exp(-2.0 * up)) - math.log(2.0)
    below = down * xp.arctan(down) - 0.5 * xp.log1p(down * down)
    return p["sign"] * (p["share"] * (above + below) / p["a"] + p["rest"] * v)


CHANNEL = Law("power transistor", current, noise, "channel")
GATE = Law("charge from gate to drain of a power transistor", gate_charge, stores=True, conducts=False, monotone=True)


def _at_temperature(model: Model, kelvin: float, nominal: float, sign: float) -> dict[str, float]:
    p, dt, ratio = dict(model.numbers), kelvin - nominal, kelvin / nominal
    p["sign"] = sign
    p["vto"] -= sign * p["tcvth"] * dt
    p["kp"] *= ratio ** p["mu"]
    for key, slope in SLOPES.items():
        p[key] *= 1.0 + p[f"{slope}1"] * dt + p[f"{slope}2"] * dt * dt
    if "texp0" in model.explicit:
        p["rd"] = model.numbers["rd"] * ratio ** p["texp0"]
    return p | at_temperature({key: p[key] for key in OF_DIODE}, kelvin, nominal)


def parts(card: Card, model: Model, nodes: tuple[str, str, str]) -> list[Element]:
    """The parts of a transistor between drain, gate and source."""
    sign, many = (-1.0 if model.type == "vdmosp" else 1.0), card.named("m", 1.0, 0.0, False)
    p = _at_temperature(model, card.kelvin, model.nominal(card.nominal), sign)
    drain, gate, source = nodes
    diode = (source, drain) if sign > 0.0 else (drain, source)
    at_drain, inner_drain = card.resistor(drain, "d", p["rd"] / many, ".rd", p["cgdmax"] + p["cgdmin"] > 0.0)
    at_gate, inner_gate = card.resistor(gate, "g", p["rg"] / many, ".rg", p["cgdmin"] + p["cgs"] > 0.0)
    at_source, inner_source = card.resistor(source, "s", p["rs"] / many, ".rs", p["cgs"] > 0.0)
    body, inner_body = card.resistor(diode[0], "b", p["rb"] / many, ".rb", p["cjo"] + p["tt"] > 0.0)
    value = {"sign": sign, "beta": p["kp"] * many,
             **{key: p[key] for key in ("vto", "lambda", "theta", "mtriode", "ksubthres", "subshift")}}  # fmt: skip
    reads = (inner_gate, inner_source), (inner_drain, inner_source)
    channel = card.nonlinear(CHANNEL, (inner_drain, inner_source), reads, value)
    numbers = {key: p[key] for key in OF_DIODE} | {"is": p["is"] * many, "cjo": p["cjo"] * many}
    leak = card.part("r", (drain, source), p["rds"] / many, ".rds", noisy=False)
    return [channel, *at_drain, *at_gate, *at_source, *_gate(card, p, many, (inner_gate, inner_drain, inner_source)),
            *body, *junction(card, (inner_body, diode[1]), numbers, ".body"), leak]  # fmt: skip


def _gate(card: Card, p: dict[str, float], many: float, ends: tuple[str, str, str]) -> list[Element]:
    """The charges of the gate; `ends` are gate, drain and source."""
    gate, drain, source = ends
    stored = [card.part("c", (gate, source), p["cgs"] * many, ".cgs")] if p["cgs"] > 0.0 and gate != source else []
    unit = max(p["cgdmax"], p["cgdmin"])
    if unit > 0.0 and gate != drain:
        share = (p["cgdmax"] - p["cgdmin"]) / (1.0 + 0.5 * math.pi) / unit
        rest = p["cgdmax"] / unit - share
        value = {"unit": unit * many, "share": share, "rest": rest, "a": p["a"], "sign": p["sign"]}
        stored.append(card.nonlinear(GATE, (gate, drain), ((gate, drain),), value, ".qgd", noisy=False))
    return stored
