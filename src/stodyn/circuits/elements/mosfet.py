"""M: a field-effect transistor of level 1, drain and source exchanged where v_ds < 0; o = v_gs - V_TH.

    i = β (o - u/2) u (1 + LAMBDA v_ds),  u = min(v_ds, o),  β = KP W/(L - 2 LD);  0 for o < 0
    V_TH = VTO + GAMMA (√(PHI - v_bs) - √PHI), the root as SPICE continues it for v_bs > 0
White noise of the channel: NLEV=2 S = 2kT (2/3)(g_m + GFLOOR), right in saturation; NLEV=3
S = 2kT (2/3)(β o (1 + a + a²)/(1 + a) GDSNOI + GFLOOR), a = 1 - v_ds/o, which in the triode region goes to 2kT g_ds, as
a switch that is on must have. Flicker: KF |i|^AF/(W L Cox² f), with the oxide of 0.1 µm where TOX is not given.
Also: the charges of the gate where TOX is given (meyer.py), overlap capacitances CGSO, CGDO, CGBO, RD and RS or RSH NRD
and RSH NRS, junctions of drain and source to bulk if one of their parameters is given, M= transistors in parallel.

Where TOX is given, what the card leaves out follows from it as in SPICE: KP = UO ε/TOX, and with NSUB also
    PHI = 2 V_T log(NSUB/n_i),  GAMMA = √(2 q ε_Si NSUB) TOX/ε,  VTO = V_FB ± (GAMMA √PHI + PHI)
    V_FB = Φ(TPG) ∓ PHI/2 - q NSS TOX/ε    upper signs: N-channel; Φ: gate against undoped silicon

ALPHA selects W. R. Curtice's law instead, smooth in v_ds: i = (β/2) s(o)² tanh(ALPHA v_ds)(1 + LAMBDA |v_ds|), the
threshold rounded by s(o) = SMOOTH log(1 + exp(o/SMOOTH)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from stodyn.circuits.devices import (
    ANY,
    BOLTZMANN,
    CHARGE,
    FLICKER,
    TEMPERATURE,
    Law,
    Numbers,
    Parameter,
    capacitance_ratio,
    gap,
    potential_at,
)  # fmt: skip
from stodyn.circuits.element import Card, Element, ElementType, Model, ModelType
from stodyn.circuits.elements import meyer, vdmos
from stodyn.circuits.elements.diode import junction
from stodyn.circuits.elements.meyer import threshold
from stodyn.circuits.text import NetlistError, Position

OXIDE = 3.9 * 8.854214871e-12  # F/m
SILICON = 11.7 * 8.854214871e-12
THICK = 1e-7  # m: the thickness of the oxide for flicker noise where none is given
INTRINSIC = 1.45e16  # carriers per m³
LEAST_PHI = 0.1  # V
ALUMINIUM = 3.2 - 3.25  # V: its work function less the electron affinity of silicon, as SPICE has them
LEVELS = {
    2.0: " is the Grove-Frohman model", 3.0: " is the semi-empirical model", 4.0: " is BSIM1", 5.0: " is BSIM2",
    6.0: " is the model of Sakurai and Newton", 8.0: " is BSIM3", 9.0: " is MOS 9", 10.0: " is B4SOI",
    14.0: " is BSIM4", 44.0: " is EKV", 49.0: " is BSIM3", 54.0: " is BSIM4", 68.0: " is HiSIM2", 69.0: " is PSP",
    72.0: " is BSIM-CMG", 73.0: " is HiSIM-HV", 103.0: " is PSP",
}  # fmt: skip
JUNCTIONS = ("is", "js", "cbd", "cbs", "cj", "cjsw")


def _check(numbers) -> None:
    if numbers["level"] != 1.0:
        raise ValueError(
            f"level = {numbers['level']:g}{LEVELS.get(numbers['level'], '')}, but only level 1 and VDMOS are "
            "implemented. Fit a card of level 1 to the currents at which the transistor works"
        )
    if numbers["nlev"] not in (2.0, 3.0):
        raise ValueError(f"nlev = {numbers['nlev']:g}, expected 2 or 3")
    if numbers["tpg"] not in (-1.0, 0.0, 1.0):
        raise ValueError(f"tpg = {numbers['tpg']:g}, expected -1, 0 or 1")
    if 0.0 < numbers["nsub"] * 1e6 <= INTRINSIC:
        raise ValueError(f"nsub = {numbers['nsub']:g}, expected more than the {INTRINSIC * 1e-6:g} of pure silicon")
    if numbers["nlev"] == 3.0 and numbers["alpha"] > 0.0:
        raise ValueError("nlev=3 needs the square law, but alpha selects another")


MODEL = ModelType(
    {
        "level": Parameter(1.0), "kp": Parameter(2e-5, "A/V²", 0.0, False), "vto": Parameter(0.0, "V", ANY),
        "lambda": Parameter(0.0, "1/V"), "gamma": Parameter(0.0, "√V"), "phi": Parameter(0.6, "V", 0.0, False),
        "tox": Parameter(THICK, "m", 0.0, False), "uo": Parameter(600.0, "cm²/Vs", 0.0, False),
        "nsub": Parameter(0.0, "1/cm³"), "nss": Parameter(0.0, "1/cm²", ANY), "tpg": Parameter(1.0, "", ANY),
        "rsh": Parameter(0.0, "Ω/□"), "ld": Parameter(0.0, "m"), "rd": Parameter(0.0, "Ω"),
        "rs": Parameter(0.0, "Ω"), "cgso": Parameter(0.0, "F/m"), "cgdo": Parameter(0.0, "F/m"),
        "cgbo": Parameter(0.0, "F/m"), "is": Parameter(1e-14, "A", 0.0, False), "js": Parameter(0.0, "A/m²"),
        "cbd": Parameter(0.0, "F"), "cbs": Parameter(0.0, "F"), "cj": Parameter(0.0, "F/m²"),
        "mj": Parameter(0.5), "cjsw": Parameter(0.0, "F/m"), "mjsw": Parameter(0.5),
        "pb": Parameter(0.8, "V", 0.0, False), "fc": Parameter(0.5), "alpha": Parameter(0.0, "1/V", 0.0, False),
        "smooth": Parameter(0.02, "V", 0.0, False), "gfloor": Parameter(1e-12, "S", 0.0, False),
        "nlev": Parameter(2.0), "gdsnoi": Parameter(1.0), **FLICKER, **TEMPERATURE,
    },
    same={"vt0": "vto", "u0": "uo"}, check=_check,
)  # fmt: skip


def _turned(read: tuple[Any, ...], p: Numbers, xp: Any):
    """v_gs, v_ds ≥ 0 and v_bs of an N-channel transistor, and the direction of its current."""
    gs, ds, bs = (p["sign"] * v for v in (*read, 0.0 * read[1])[:3])
    back = ds < 0.0
    return xp.where(back, gs - ds, gs), xp.where(back, -ds, ds), xp.where(back, bs - ds, bs), xp.where(back, -1.0, 1.0)


def square(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    gs, ds, bs, direction = _turned(read, p, xp)
    o = xp.maximum(gs - threshold(bs, p, xp), 0.0)
    u = xp.minimum(ds, o)
    return p["sign"] * direction * p["beta"] * (o - 0.5 * u) * u * (1.0 + p["lambda"] * ds)


def square_noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    gs, ds, bs, _ = _turned(read, p, xp)
    o = xp.maximum(gs - threshold(bs, p, xp), 0.0)
    u = xp.minimum(ds, o)
    a = 1.0 - u / xp.where(o > 0.0, o, 1.0)
    whole = p["gdsnoi"] * p["beta"] * o * (1.0 + a + a * a) / (1.0 + a)
    return _channel(xp.where(p["nlev"] == 3.0, whole, p["beta"] * u * (1.0 + p["lambda"] * ds)), p)


def smooth(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    s, _, bend, longer = _rounded(read, p, xp)
    return p["sign"] * 0.5 * p["beta"] * s * s * bend * longer


def smooth_noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    s, rise, bend, longer = _rounded(read, p, xp)
    return _channel(xp.abs(p["beta"] * s * rise * bend * longer), p)


def _rounded(read: tuple[Any, ...], p: Numbers, xp: Any):
    o, ds = p["sign"] * (read[0] - p["vto"]), p["sign"] * read[1]
    s = xp.maximum(o, 0.0) + p["smooth"] * xp.log1p(xp.exp(-xp.abs(o) / p["smooth"]))
    rise = 1.0 / (1.0 + xp.exp(-xp.clip(o / p["smooth"], -500.0, 500.0)))
    return s, rise, xp.tanh(p["alpha"] * ds), 1.0 + p["lambda"] * xp.abs(ds)


def _channel(conductance: Any, p: Numbers) -> Any:
    return 2.0 * BOLTZMANN * p.kelvin * (2.0 / 3.0) * (conductance + p["gfloor"])


SQUARE = Law("transistor", square, square_noise, "channel")
BODY = Law("transistor with body", square, square_noise, "channel")
SMOOTH = Law("smooth_transistor", smooth, smooth_noise, "channel")
CHANNELS = (SQUARE, BODY, SMOOTH)


def _derived(model: Model, nominal: float) -> dict[str, float]:
    """The numbers of a model with those that follow from TOX, NSUB, TPG and NSS where they are left out."""
    p = dict(model.numbers)
    if "tox" not in model.explicit:
        return p
    oxide, sign = OXIDE / p["tox"], 1.0 if model.type == "nmos" else -1.0
    follows = {"kp": p["uo"] * 1e-4 * oxide}
    if p["nsub"] > 0.0:
        phi = max(2.0 * BOLTZMANN * nominal / CHARGE * math.log(p["nsub"] * 1e6 / INTRINSIC), LEAST_PHI)
        phi = p["phi"] if "phi" in model.explicit else phi
        gamma = math.sqrt(2.0 * SILICON * CHARGE * p["nsub"] * 1e6) / oxide
        gamma = p["gamma"] if "gamma" in model.explicit else gamma
        flat_band = _work_function(p["tpg"], sign, nominal) - 0.5 * sign * phi - p["nss"] * 1e4 * CHARGE / oxide
        follows |= {"phi": phi, "gamma": gamma, "vto": flat_band + sign * (gamma * math.sqrt(phi) + phi)}
    return p | {key: value for key, value in follows.items() if key not in model.explicit}


def _work_function(tpg: float, sign: float, nominal: float) -> float:
    """Return the work function of the gate less that of undoped silicon, V: aluminium (TPG=0), or silicon of the
    substrate's type (-1) or of the other (1)."""
    return ALUMINIUM - 0.5 * gap(nominal) if tpg == 0.0 else -0.5 * sign * tpg * gap(nominal)


def at_temperature(model: Model, kelvin: float, nominal: float) -> dict[str, float]:
    """The model's numbers at the temperature of the circuit."""
    p = _derived(model, nominal)
    sign = 1.0 if model.type == "nmos" else -1.0
    if p["alpha"] > 0.0 or kelvin == nominal:
        return p
    ratio = kelvin / nominal
    phi = potential_at(p["phi"], kelvin, nominal)
    built_in = p["vto"] - sign * p["gamma"] * math.sqrt(p["phi"]) + 0.5 * (gap(nominal) - gap(kelvin))
    built_in += sign * 0.5 * (phi - p["phi"])
    p["vto"], p["kp"] = built_in + sign * p["gamma"] * math.sqrt(phi), p["kp"] / ratio**1.5
    thermal_voltage = 8.617333262145179e-05
    grown = math.exp(-gap(kelvin) / (thermal_voltage * kelvin) + gap(nominal) / (thermal_voltage * nominal))
    p["phi"], p["is"], p["js"] = phi, p["is"] * grown, p["js"] * grown
    for key, grading in (("cbd", "mj"), ("cbs", "mj"), ("cj", "mj"), ("cjsw", "mjsw")):
        p[key] *= capacitance_ratio(p["pb"], p[grading], kelvin, nominal)
    p["pb"] = potential_at(p["pb"], kelvin, nominal)
    return p


class Bare(NamedTuple):
    """An end of a transistor that has no junction to the body: the voltage from `plus` to `minus` would drive one
    forward."""

    name: str
    end: str
    plus: str
    minus: str
    at: Position


def bare_ends(elements: Iterable[Element], terminals: Mapping[str, tuple[str, ...]]) -> list[Bare]:
    """The ends of the transistors whose models have no junctions."""
    elements = list(elements)
    names, bare = {e.name for e in elements}, []
    for e in elements:
        if e.law not in CHANNELS or not names.isdisjoint((f"{e.name}.bd", f"{e.name}.bs")):
            continue
        drain, _, source, bulk = terminals[e.name]
        for end, node in (("drain", drain), ("source", source)):
            plus, minus = (bulk, node) if e.value["sign"] > 0.0 else (node, bulk)
            bare.append(Bare(e.name, end, plus, minus, e.at))
    return bare


def _of_three_nodes(card: Card) -> None:
    """Let the model follow three nodes, as that of a power transistor may, whose bulk is its source."""
    last = card.nodes[3].removeprefix(card.scope.prefix)
    if not card.rest and last in card.netlist.model_names:
        card.rest, card.nodes = [last], (*card.nodes[:3], card.nodes[2])


def _parse(card: Card) -> list[Element]:
    _of_three_nodes(card)
    model = card.model()
    if model.type in vdmos.MODEL.words.values():
        drain, gate, source, _ = card.nodes
        return vdmos.parts(card, model, (drain, gate, source))
    p = at_temperature(model, card.kelvin, model.nominal(card.nominal))
    many = card.named("m", 1.0, 0.0, False)
    w, length = card.named("w", 1e-4, 0.0, False), card.named("l", 1e-4, 0.0, False)
    areas = {key: card.named(key, 0.0, 0.0) for key in ("ad", "as", "pd", "ps")}
    squares = {key: card.named(key, 1.0, 0.0) for key in ("nrd", "nrs")}
    resistances = [p[key] if key in model.explicit else p["rsh"] * squares[f"nr{key[1]}"] for key in ("rd", "rs")]
    effective = length - 2.0 * p["ld"]
    if effective <= 0.0:
        raise NetlistError(f"{card.name}: L = {length:g} is not longer than twice LD", card.at)
    drain, gate, source, bulk = card.nodes
    has_oxide = "tox" in model.explicit and not p["alpha"]
    ends = (("ad", "cbd"), ("as", "cbs"))
    stored = [has_oxide or max(p["cj"] * areas[area], p[bottom]) > 0.0 for area, bottom in ends]
    series, drain = card.resistor(drain, "d", resistances[0] / many, ".rd", p["cgdo"] > 0.0 or stored[0])
    more, source = card.resistor(source, "s", resistances[1] / many, ".rs", p["cgso"] > 0.0 or stored[1])
    sign = 1.0 if model.type == "nmos" else -1.0
    flicker = p["kf"] / (w * many * effective * (OXIDE / p["tox"]) ** 2)
    value = {
        "beta": p["kp"] * w * many / effective, "sign": sign, "kf": flicker,
        **{key: p[key] for key in ("vto", "lambda", "gamma", "phi", "alpha", "smooth", "nlev", "gdsnoi", "af")},
        "gfloor": p["gfloor"],
    }  # fmt: skip
    reads = ((gate, source), (drain, source))
    if p["alpha"] > 0.0:
        if p["gamma"] > 0.0:
            raise NetlistError(f"{card.name}: gamma needs the square law, but alpha selects another", card.at)
        main = card.nonlinear(SMOOTH, (drain, source), reads, value)
    elif p["gamma"] > 0.0:
        main = card.nonlinear(BODY, (drain, source), (*reads, (bulk, source)), value)
    else:
        main = card.nonlinear(SQUARE, (drain, source), reads, value)
    if bulk not in main.nodes:
        main = main._replace(nodes=(*main.nodes, bulk))
    parts = [main, *series, *more]
    if has_oxide:
        numbers = {"sign": sign, **{key: p[key] for key in ("vto", "gamma", "phi")}}
        parts += meyer.gate(card, (drain, gate, source, bulk), OXIDE / p["tox"] * w * effective * many, numbers)
    overlaps = (("cgso", gate, source, w), ("cgdo", gate, drain, w), ("cgbo", gate, bulk, effective))
    for key, a, b, over in overlaps:
        if p[key] > 0.0 and a != b:
            parts.append(card.part("c", (a, b), p[key] * over * many, f".{key}"))
    if any(key in model.explicit for key in JUNCTIONS):
        for end, area, rim, bottom in ((drain, "ad", "pd", "cbd"), (source, "as", "ps", "cbs")):
            diode = (bulk, end) if sign > 0.0 else (end, bulk)
            below = p[bottom] if p[bottom] > 0.0 else p["cj"] * areas[area]
            size = {"area": areas[area], "capacitance": below, "side": p["cjsw"] * areas[rim]}
            if bulk != end:
                parts += _bulk_diode(card, p, diode, size, many, f".{bottom[1:]}")
    return parts


def _bulk_diode(card, p, ends, size: dict[str, float], many: float, suffix: str) -> list[Element]:
    """The junction between bulk and drain or source: its area, and the capacitances of its bottom and its side wall."""
    saturation = p["js"] * size["area"] if p["js"] > 0.0 and size["area"] > 0.0 else p["is"]
    common = {"n": 1.0, "vj": p["pb"], "fc": p["fc"], "tt": 0.0, "bv": math.inf, "ibv": 1e-3, "nbv": 1.0, "share": 1.0}
    bottom = size["capacitance"] * many
    parts = junction(card, ends, {**common, "is": saturation * many, "cjo": bottom, "m": p["mj"]}, suffix)
    if size["side"] > 0.0:
        numbers = {**common, "is": 1.0, "cjo": size["side"] * many, "m": p["mjsw"]}
        parts += junction(card, ends, numbers, f"{suffix}sw")[1:]
    return parts


M = ElementType(
    "m",
    "M drain gate source bulk model [W= L= ...]",
    4,
    _parse,
    {"nmos": MODEL, "pmos": MODEL, "vdmos": vdmos.MODEL, "vdmosp": vdmos.MODEL},
    noisy=True,
)
