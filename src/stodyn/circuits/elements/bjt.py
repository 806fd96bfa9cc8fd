"""Q: a bipolar transistor by H. K. Gummel and H. C. Poon, NPN or PNP, without quasi-saturation.

    i_f = IS (exp(v_be/(NF V_T)) - 1),  i_r = IS (exp(v_bc/(NR V_T)) - 1)
    q_b = (1 + √(1 + 4 (i_f/IKF + i_r/IKR)))/2 / (1 - v_bc/VAF - v_be/VAR)
    collector to emitter (i_f - i_r)/q_b;  base to emitter i_f/BF + ISE (exp(v_be/(NE V_T)) - 1);  base to collector
    i_r/BR + ISC (exp(v_bc/(NC V_T)) - 1)
    charges τ i_f/q_b + CJE depletion(v_be),  TR i_r + CJC depletion(v_bc), of which 1 - XCJC at the outer base
    τ = TF (1 + XTF (i_f/(i_f + ITF))² exp(v_bc/(1.44 VTF)))
    CJS to the substrate, at the collector (SUBS=1, vertical: the default of NPN) or the base (SUBS=-1, lateral: of PNP)
    with MJS over VJS; base resistance RBM + (RB - RBM)/q_b, with IRB RBM + 3 (RB - RBM)(tan z - z)/(z tan² z),
    z = (√(1 + 144 i_b/(π² IRB)) - 1) π²/24 √(IRB/i_b)
Shot noise q|i_c| and q|i_b|, thermal noise of RB, RC and RE, flicker KF |i_b|^AF/f.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stodyn.circuits import transfer
from stodyn.circuits.devices import (
    BOLTZMANN,
    CHARGE,
    FLICKER,
    TEMPERATURE,
    Law,
    Numbers,
    Parameter,
    capacitance_ratio,
    depletion,
    exponential,
    potential_at,
    saturation_ratio,
)  # fmt: skip
from stodyn.circuits.element import GROUND, Card, Delay, Element, ElementType, Model, ModelType

NONE = 1e-30  # A: in place of 0 in a quotient
SPREAD = 144.0 / math.pi**2  # of the current below the emitter
LEAST_RATIO = 1e-9  # of the base current to IRB
OTHERWISE = 1e-6  # of the largest current: a difference from another simulator that is worth saying

MODEL = ModelType(
    {
        "is": Parameter(1e-16, "A", 0.0, False), "bf": Parameter(100.0, "", 0.0, False),
        "br": Parameter(1.0, "", 0.0, False), "nf": Parameter(1.0, "", 0.0, False),
        "nr": Parameter(1.0, "", 0.0, False),
        "vaf": Parameter(0.0, "V"), "var": Parameter(0.0, "V"), "ikf": Parameter(0.0, "A"), "ikr": Parameter(0.0, "A"),
        "ise": Parameter(0.0, "A"), "ne": Parameter(1.5, "", 0.0, False), "isc": Parameter(0.0, "A"),
        "nc": Parameter(2.0, "", 0.0, False), "rb": Parameter(0.0, "Ω"), "rc": Parameter(0.0, "Ω"),
        "re": Parameter(0.0, "Ω"), "cje": Parameter(0.0, "F"), "vje": Parameter(0.75, "V", 0.0, False),
        "mje": Parameter(0.33), "cjc": Parameter(0.0, "F"), "vjc": Parameter(0.75, "V", 0.0, False),
        "mjc": Parameter(0.33), "xcjc": Parameter(1.0), "fc": Parameter(0.5), "tf": Parameter(0.0, "s"),
        "tr": Parameter(0.0, "s"), "cjs": Parameter(0.0, "F"), "vjs": Parameter(0.75, "V", 0.0, False),
        "mjs": Parameter(0.0), "xtf": Parameter(0.0), "itf": Parameter(0.0, "A"), "vtf": Parameter(0.0, "V"),
        "ptf": Parameter(0.0, "°"),
        "rbm": Parameter(0.0, "Ω"), "irb": Parameter(0.0, "A"), "subs": Parameter(math.nan, "", -math.inf),
        "eg": Parameter(1.11, "eV", 0.0, False),
        "xti": Parameter(3.0), "xtb": Parameter(0.0, "", -math.inf), "level": Parameter(1.0), **FLICKER, **TEMPERATURE,
    },
    same={"va": "vaf", "vb": "var", "ik": "ikf", "pe": "vje", "me": "mje", "pc": "vjc", "mc": "mjc", "ccs": "cjs",
          "tref": "tnom", "ps": "vjs", "psub": "vjs", "ms": "mjs", "jbf": "ikf", "jbr": "ikr", "iob": "irb"},
    refused={"rco": 0.0, "vo": 0.0, "gamma": 0.0, "qco": 0.0},
)  # fmt: skip


def _forward(v: Any, p: Numbers, xp: Any) -> Any:
    return exponential(v, p["is"], p["nf"] * p.thermal_voltage, xp)


def _reverse(v: Any, p: Numbers, xp: Any) -> Any:
    return exponential(v, p["is"], p["nr"] * p.thermal_voltage, xp)


def _base_charge(be: Any, bc: Any, p: Numbers, xp: Any) -> Any:
    """q_b, the charge of the base relative to its charge at rest."""
    early = 1.0 / (1.0 - bc * p["one_over_vaf"] - be * p["one_over_var"])
    injected = _forward(be, p, xp) * p["one_over_ikf"] + _reverse(bc, p, xp) * p["one_over_ikr"]
    return 0.5 * early * (1.0 + xp.sqrt(xp.maximum(1.0 + 4.0 * injected, 1e-12)))


def transport(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    be, bc = (p["sign"] * v for v in read)
    return p["sign"] * (_forward(be, p, xp) - _reverse(bc, p, xp)) / _base_charge(be, bc, p, xp)


def forward(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return _forward(p["sign"] * read[0], p, xp)


def delayed_transport(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    """The current with a forward part that is read, over `gain`."""
    be, bc = (p["sign"] * v for v in read[:2])
    return p["sign"] * (p["gain"] * read[2] - _reverse(bc, p, xp)) / _base_charge(be, bc, p, xp)


def delayed_noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return collector_noise(read[:2], p, xp)


def base(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    be = p["sign"] * read[0]
    leak = p["ise"] * xp.expm1(xp.minimum(be / (p["ne"] * p.thermal_voltage), 80.0))
    return p["sign"] * (_forward(be, p, xp) / p["bf"] + leak)


def back(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    bc = p["sign"] * read[0]
    leak = p["isc"] * xp.expm1(xp.minimum(bc / (p["nc"] * p.thermal_voltage), 80.0))
    return p["sign"] * (_reverse(bc, p, xp) / p["br"] + leak)


def collector_noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return CHARGE * xp.abs(transport(read, p, xp) - back(read[1:], p, xp))


def base_noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return CHARGE * xp.abs(base(read[:1], p, xp) + back(read[1:], p, xp))


def emitter_charge(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    be, bc = (p["sign"] * v for v in read)
    forward = _forward(be, p, xp)
    stored = p["tf"] * forward / _base_charge(be, bc, p, xp)
    if p.known("xtf").any():
        rising = xp.maximum(forward, 0.0)
        share = rising / (rising + p["itf"] + NONE)
        stored = stored * (1.0 + p["xtf"] * share * share * xp.exp(xp.clip(bc * p["one_over_vtf"], -80.0, 80.0)))
    return p["sign"] * (stored / p["unit"] + p["share"] * depletion(be, p["vj"], p["m"], p["fc"], xp))


def collector_charge(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    bc = p["sign"] * read[0]
    stored = p["tr"] * _reverse(bc, p, xp)
    return p["sign"] * (stored / p["unit"] + p["share"] * depletion(bc, p["vj"], p["m"], p["fc"], xp))


def _base_conductance(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    be, bc = (p["sign"] * v for v in read[1:])
    share = 1.0 / _base_charge(be, bc, p, xp)
    if p.known("irb").any():
        flowing = p["sign"] * (base(read[1:2], p, xp) + back(read[2:], p, xp))
        ratio = xp.maximum(flowing / xp.where(p["irb"] > 0.0, p["irb"], 1.0), LEAST_RATIO)
        z = (xp.sqrt(1.0 + SPREAD * ratio) - 1.0) * (6.0 / SPREAD) / xp.sqrt(ratio)
        tangent = xp.sin(z) / xp.cos(z)
        share = xp.where(p["irb"] > 0.0, 3.0 * (tangent - z) / (z * tangent * tangent), share)
    return 1.0 / (p["rbm"] + (p["rb"] - p["rbm"]) * share)


def base_resistor(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return read[0] * _base_conductance(read, p, xp)


def base_resistor_noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return 2.0 * BOLTZMANN * p.kelvin * _base_conductance(read, p, xp)


def is_saturated_beside_area(read: tuple[Any, ...], p: Numbers) -> np.ndarray:
    """Which transistors with an area conduct from base to collector."""
    be, bc = (p["sign"] * v for v in read[:2])
    forward, reverse = _forward(be, p, np), _reverse(bc, p, np)
    return reverse * np.abs(p["area"] - 1.0) > OTHERWISE * np.maximum(np.abs(forward), np.abs(reverse)).max()


SATURATED = (
    is_saturated_beside_area,
    "conducts from base to collector at the operating point, where its current goes with its area, as the manual of "
    "SPICE says, and that of ngspice with the square. m= is the same in both",
)
RESISTOR = Law("bipolar base resistance", base_resistor, base_resistor_noise, "thermal")
TRANSPORT = Law("bipolar transport", transport, collector_noise, "shot", (("is", "nf"), ("is", "nr")), remark=SATURATED)
FORWARD = Law("bipolar forward current", forward, None, "", (("is", "nf"),))
DELAYED = Law("bipolar delayed transport", delayed_transport, delayed_noise, "shot", (("is", "nf"), ("is", "nr"), None),
              remark=SATURATED)  # fmt: skip
BASE = Law("bipolar base", base, base_noise, "shot", (("is", "nf"),))
BACK = Law("bipolar collector junction", back, None, "", (("is", "nr"),))
EMITTER_CHARGE = Law("bipolar emitter charge", emitter_charge, stores=True, conducts=False)
COLLECTOR_CHARGE = Law("bipolar collector charge", collector_charge, stores=True, conducts=False, monotone=True)


def at_temperature(model: Model, kelvin: float, nominal: float) -> dict[str, float]:
    p = dict(model.numbers)
    if kelvin == nominal:
        return p
    grown, gain = saturation_ratio(kelvin, nominal, p["eg"], p["xti"]), (kelvin / nominal) ** p["xtb"]
    p["is"] *= grown
    for key, emission in (("ise", "ne"), ("isc", "nc")):
        p[key] *= grown ** (1.0 / p[emission]) / gain
    p["bf"], p["br"] = p["bf"] * gain, p["br"] * gain
    for c, v, m in (("cje", "vje", "mje"), ("cjc", "vjc", "mjc"), ("cjs", "vjs", "mjs")):
        p[c] *= capacitance_ratio(p[v], p[m], kelvin, nominal)
        p[v] = potential_at(p[v], kelvin, nominal)
    return p


def _transport(card: Card, c: str, b: str, e: str, p: dict[str, float]) -> list[Element]:
    """The current from collector to emitter. With PTF its forward part follows the junctions after a delay of PTF TF:
    a Bessel filter of second order in time, as in SPICE, and the delay itself for small signals."""
    reads = (b, e), (b, c)
    delay = math.radians(p["ptf"]) * p["tf"]
    if not delay:
        return [card.nonlinear(TRANSPORT, (c, e), reads, p)]
    early = card.inner("forward")
    filtered = transfer.Rational(np.array([3.0]), np.array([3.0, 3.0 * delay, delay * delay]))
    states, ((late, _), *_), (gain, *_) = transfer.states(card, filtered, (early, GROUND))
    card.netlist.delays.append(Delay(late, early, gain, delay))
    return [
        card.nonlinear(DELAYED, (c, e), (*reads, (late, GROUND)), {**p, "gain": gain}),
        card.nonlinear(FORWARD, (GROUND, early), reads[:1], p, ".forward", noisy=False),
        card.part("r", (early, GROUND), 1.0, ".unit", noisy=False),
        *states,
    ]


def _parse(card: Card) -> list[Element]:
    substrate = "0"
    if card.rest and len(card.rest) > 1 and card.rest[1] in card.netlist.model_names:
        substrate = card.scope.node(card.rest.pop(0))
    model = card.model(2)
    area = card.number(card.rest[1], "area", 0.0, False) if len(card.rest) == 2 else card.named("area", 1.0, 0.0, False)
    p = {**at_temperature(model, card.kelvin, model.nominal(card.nominal)), "area": area}
    area *= card.named("m", 1.0, 0.0, False)
    for key in ("is", "ise", "isc", "ikf", "ikr", "cje", "cjc", "cjs", "itf", "irb"):
        p[key] *= area
    p["rb"], p["rbm"] = p["rb"] / area, p["rbm"] / area
    for key in ("vaf", "var", "ikf", "ikr"):
        p[f"one_over_{key}"] = 1.0 / p[key] if p[key] > 0.0 else 0.0
    p["one_over_vtf"] = 1.0 / (1.44 * p["vtf"]) if p["vtf"] > 0.0 else 0.0
    p["sign"] = sign = 1.0 if model.type == "npn" else -1.0
    if "subs" not in model.explicit:
        p["subs"] = sign
    c, outer, e = card.nodes
    at_collector, c_inner = card.resistor(c, "c", p["rc"] / area, ".rc", p["cjc"] + p["cjs"] + p["tr"] > 0.0)
    at_base, b = card.resistor(outer, "b", p["rb"], ".rb", p["cje"] + p["cjc"] + p["tf"] > 0.0)
    at_emitter, e = card.resistor(e, "e", p["re"] / area, ".re", p["cje"] + p["tf"] > 0.0)
    c = c_inner
    loud, quiet = {**p}, {**p, "kf": 0.0}
    if at_base and "rbm" in model.explicit and p["rbm"] < p["rb"]:
        at_base[0] = card.nonlinear(RESISTOR, (outer, b), ((outer, b), (b, e), (b, c)), quiet, ".rb")
    parts = [
        *_transport(card, c, b, e, quiet),
        card.nonlinear(BASE, (b, e), ((b, e), (b, c)), loud, ".b"),
        card.nonlinear(BACK, (b, c), ((b, c),), quiet, ".c", noisy=False),
        *at_collector, *at_base, *at_emitter,
    ]  # fmt: skip
    typical = 1e-3 * area  # A: the charge stored at this current is the unit of charge where there is no capacitance
    if p["cje"] > 0.0 or p["tf"] > 0.0:
        unit = p["cje"] + p["tf"] * typical
        value = {**quiet, "unit": unit, "share": p["cje"] / unit, "vj": p["vje"], "m": p["mje"]}
        parts.append(card.nonlinear(EMITTER_CHARGE, (b, e), ((b, e), (b, c)), value, ".qe", noisy=False))
    if p["cjc"] * p["xcjc"] > 0.0 or p["tr"] > 0.0:
        unit = p["cjc"] * p["xcjc"] + p["tr"] * typical
        value = {**quiet, "unit": unit, "share": p["cjc"] * p["xcjc"] / unit, "vj": p["vjc"], "m": p["mjc"]}
        parts.append(card.nonlinear(COLLECTOR_CHARGE, (b, c), ((b, c),), value, ".qc", noisy=False))
    if p["cjc"] > 0.0 and p["xcjc"] < 1.0:
        unit = p["cjc"] * (1.0 - p["xcjc"])
        value = {**quiet, "tr": 0.0, "unit": unit, "share": 1.0, "vj": p["vjc"], "m": p["mjc"]}
        parts.append(card.nonlinear(COLLECTOR_CHARGE, (outer, c), ((outer, c),), value, ".qx", noisy=False))
    side = c if p["subs"] > 0.0 else b
    if p["cjs"] > 0.0 and p["mjs"] > 0.0 and side != substrate:
        value = {**quiet, "tr": 0.0, "unit": p["cjs"], "share": 1.0, "vj": p["vjs"], "m": p["mjs"], "fc": 0.0,
                 "sign": sign * math.copysign(1.0, p["subs"])}  # fmt: skip
        parts.append(
            card.nonlinear(COLLECTOR_CHARGE, (substrate, side), ((substrate, side),), value, ".cs", noisy=False)
        )
    elif p["cjs"] > 0.0 and side != substrate:
        parts.append(card.part("c", (side, substrate), p["cjs"], ".cs"))
    return [part for part in parts if part.nodes[0] != part.nodes[1]]


Q = ElementType("q", "Q collector base emitter [substrate] model [area]", 3, _parse,
                {"npn": MODEL, "pnp": MODEL, "lpnp": MODEL}, noisy=True)  # fmt: skip
