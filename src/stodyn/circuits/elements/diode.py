"""D: a junction diode, i = IS (exp(v/(N V_T)) - 1), RS in series, and the charge Q = CJO depletion(v) + TT i. In its
breakdown at BV the current grows with NBV V_T; NBV is N where it is left out. As in ngspice, recombination adds
ISR (exp(v/(NR V_T)) - 1) ((1 - v/VJ)² + 0.005)^(M/2), constant below -3 N V_T, and high injection makes
i/(1 + √(i/IKF)) of a forward current i.

Shot noise of both currents of the junction, S = q (i + 2 IS): at v = 0 and N = 1 that is the thermal noise 2kT i'(0),
as it must be. Thermal noise of RS, and flicker KF |i|^AF/f. IS, ISR, VJ and CJO follow the temperature as in SPICE;
RS, BV and IKF by their coefficients TRS1, TRS2, TBV1, TBV2, TIKF.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stodyn.circuits.devices import (
    ANY,
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
from stodyn.circuits.element import Card, Element, ElementType, ModelType

NONE = 1e-18  # A: forward currents below it are not those of high injection
WIDE = 0.005  # of VJ²: by which the factor of recombination is rounded
COEFFICIENTS = {"rs": ("trs1", "trs2"), "bv": ("tbv1", "tbv2"), "ikf": ("tikf",)}

MODEL = ModelType(
    {
        "is": Parameter(1e-14, "A", 0.0, False), "n": Parameter(1.0, "", 0.0, False), "rs": Parameter(0.0, "Ω"),
        "cjo": Parameter(0.0, "F"), "vj": Parameter(1.0, "V", 0.0, False), "m": Parameter(0.5), "fc": Parameter(0.5),
        "tt": Parameter(0.0, "s"), "bv": Parameter(math.inf, "V", 0.0, False), "ibv": Parameter(1e-3, "A", 0.0, False),
        "nbv": Parameter(math.nan, "", 0.0, False), "eg": Parameter(1.11, "eV", 0.0, False), "xti": Parameter(3.0),
        "ikf": Parameter(0.0, "A"), "isr": Parameter(0.0, "A"), "nr": Parameter(1.0, "", 0.0, False),
        "trs1": Parameter(0.0, "1/K", ANY), "trs2": Parameter(0.0, "1/K²", ANY), "tbv1": Parameter(0.0, "1/K", ANY),
        "tbv2": Parameter(0.0, "1/K²", ANY), "tikf": Parameter(0.0, "1/K", ANY),
        "level": Parameter(1.0), **FLICKER, **TEMPERATURE,
    },
    same={"cj0": "cjo", "cj": "cjo", "js": "is", "pb": "vj", "mj": "m", "tref": "tnom", "ik": "ikf", "trs": "trs1"},
    refused={"jsw": 0.0, "ikr": 0.0, "cjp": 0.0, "cjsw": 0.0, "jtun": 0.0, "jtunsw": 0.0, "cta": 0.0, "tcv": 0.0,
             **dict.fromkeys(("ron", "roff", "vfwd", "vrev", "rrev", "ilimit", "revilimit"), math.nan)},
)  # fmt: skip


def current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    (v,) = read
    forward = exponential(v, p["is"], p["n"] * p.thermal_voltage, xp)
    if p.known("isr").any():
        above = xp.maximum(v, -3.0 * p["n"] * p.thermal_voltage)
        share = ((1.0 - above / p["vj"]) ** 2 + WIDE) ** (0.5 * p["m"])
        forward = forward + share * exponential(above, p["isr"], p["nr"] * p.thermal_voltage, xp)
    if p.known("one_over_ikf").any():
        forward = forward / (1.0 + xp.sqrt(xp.maximum(forward, NONE) * p["one_over_ikf"]))
    if not (p.known("bv") < 1e30).any():
        return forward
    beyond = xp.clip(-(v + p["bv"]) / (p["nbv"] * p.thermal_voltage), 0.0, 60.0)  # there -IS flows already
    return forward - p["is"] * xp.expm1(beyond)


def noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    saturation = p["is"] + p["isr"]
    return CHARGE * (xp.abs(current(read, p, xp) + saturation) + saturation)


def charge(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    (v,) = read
    layer = p["share"] * depletion(v, p["vj"], p["m"], p["fc"], xp, bool(np.all(p.known("m") == 0.5)))
    if not p.known("tt").any():
        return layer
    return layer + p["tt"] * current(read, p, xp) / p["unit"]


JUNCTION = Law("diode", current, noise, "shot", (("is", "n"),), breakdown=("bv", "nbv"))
STORED = Law("diode charge", charge, stores=True, conducts=False, monotone=True)


def _broken_down(numbers: dict[str, float], thermal_voltage: float) -> float:
    """The voltage at which the exponential of the breakdown begins, chosen so that IBV flows at BV."""
    bv, scale = numbers["bv"], numbers["nbv"] * thermal_voltage
    if not math.isfinite(bv):
        return 1e300
    if numbers["ibv"] < numbers["is"] * bv / thermal_voltage:
        return bv
    begin = bv - scale * math.log(1.0 + numbers["ibv"] / numbers["is"])
    for _ in range(25):
        begin = bv - scale * math.log(max(numbers["ibv"] / numbers["is"] + 1.0 - begin / thermal_voltage, 1e-30))
    return begin


def junction(card: Card, ends: tuple[str, str], numbers: dict[str, float], suffix: str = "",
             name: str = "") -> list[Element]:  # fmt: skip
    """A junction with its charge between two nodes, for numbers at the temperature of the circuit."""
    thermal_voltage = 8.617333262145179e-05 * card.kelvin
    knee = numbers.get("ikf", 0.0)
    further = {"isr": 0.0, "nr": 1.0, "one_over_ikf": 1.0 / knee if knee > 0.0 else 0.0}
    numbers = {**further, **numbers, "bv": _broken_down(numbers, thermal_voltage)}
    parts = [card.nonlinear(JUNCTION, ends, (ends,), numbers, suffix)]
    if numbers["cjo"] > 0.0 and numbers["m"] == 0.0 and not numbers["tt"]:
        parts.append(card.part("c", ends, numbers["cjo"], f"{suffix}.c"))
    elif numbers["cjo"] > 0.0 or numbers["tt"] > 0.0:
        unit = max(numbers["cjo"], numbers["tt"] * 1e-3)  # F: the unknown is the charge over this capacitance
        value = {**numbers, "unit": unit, "share": numbers["cjo"] / unit, "kf": 0.0}
        parts.append(card.nonlinear(STORED, ends, (ends,), value, f"{suffix}.q", noisy=False))
    return parts


def at_temperature(numbers: dict[str, float], kelvin: float, nominal: float) -> dict[str, float]:
    """IS, VJ and CJO at the temperature of the circuit."""
    if kelvin == nominal:
        return dict(numbers)
    vj = potential_at(numbers["vj"], kelvin, nominal)
    cjo = numbers["cjo"] * capacitance_ratio(numbers["vj"], numbers["m"], kelvin, nominal)
    grown = saturation_ratio(kelvin, nominal, numbers["eg"], numbers["xti"], numbers["n"])
    return {**numbers, "is": numbers["is"] * grown, "vj": vj, "cjo": cjo}


def _all_at_temperature(numbers: dict[str, float], kelvin: float, nominal: float) -> dict[str, float]:
    numbers, dt = at_temperature(numbers, kelvin, nominal), kelvin - nominal
    for key, coefficients in COEFFICIENTS.items():
        numbers[key] *= 1.0 + sum(numbers[name] * dt ** (k + 1) for k, name in enumerate(coefficients))
    numbers["isr"] *= saturation_ratio(kelvin, nominal, numbers["eg"], numbers["xti"], numbers["nr"])
    return numbers


def _parse(card: Card) -> list[Element]:
    model = card.model(2)
    area = card.number(card.rest[1], "area", 0.0, False) if len(card.rest) == 2 else card.named("area", 1.0, 0.0, False)
    area *= card.named("m", 1.0, 0.0, False)
    numbers = _all_at_temperature(model.numbers, card.kelvin, model.nominal(card.nominal))
    if "nbv" not in model.explicit:
        numbers["nbv"] = numbers["n"]
    if numbers["isr"] and "nr" not in model.explicit:
        note = f"{model.at}: .model {model.name} has ISR without NR, which is then 1, as in ngspice; in LTspice it is 2"
        card.netlist.notes += [note] if note not in card.netlist.notes else []
    for key in ("is", "cjo", "isr", "ikf"):
        numbers[key] *= area
    series, anode = card.resistor(card.nodes[0], "a", numbers["rs"] / area, ".rs", numbers["cjo"] + numbers["tt"] > 0.0)
    return [*junction(card, (anode, card.nodes[1]), numbers), *series]


D = ElementType("d", "D anode cathode model [area]", 2, _parse, {"d": MODEL}, noisy=True)
