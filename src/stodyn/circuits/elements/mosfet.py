"""M: a field-effect transistor, drain and source exchanged where v_ds < 0. Level 1, with o = v_gs - V_TH:

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

Levels 2 and 3 have other channels (grove_frohman.py, semi_empirical.py), TOX = 0.1 µm where it is not given, and the
noise 2kT (2/3)(g_m + GFLOOR). The charges of their gates in time are those of level 1; .ac and .noise have Meyer's
capacitances at their own threshold and saturation.

ALPHA selects W. R. Curtice's law instead, smooth in v_ds: i = (β/2) s(o)² tanh(ALPHA v_ds)(1 + LAMBDA |v_ds|), the
threshold rounded by s(o) = SMOOTH log(1 + exp(o/SMOOTH)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

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
from stodyn.circuits.elements import grove_frohman, meyer, semi_empirical, vdmos
from stodyn.circuits.elements.diode import junction
from stodyn.circuits.elements.grove_frohman import Point
from stodyn.circuits.elements.meyer import threshold
from stodyn.circuits.text import NetlistError, Position
from stodyn.numerics import dual

OXIDE = 3.9 * 8.854214871e-12  # F/m
SILICON = 11.7 * 8.854214871e-12
THICK = 1e-7  # m: the thickness of the oxide for flicker noise where none is given
INTRINSIC = 1.45e16  # carriers per m³
LEAST_PHI = 0.1  # V
ALUMINIUM = 3.2 - 3.25  # V: its work function less the electron affinity of silicon, as SPICE has them
LEVELS = {
    4.0: " is BSIM1", 5.0: " is BSIM2",
    6.0: " is the model of Sakurai and Newton", 8.0: " is BSIM3", 9.0: " is MOS 9", 10.0: " is B4SOI",
    14.0: " is BSIM4", 44.0: " is EKV", 49.0: " is BSIM3", 54.0: " is BSIM4", 68.0: " is HiSIM2", 69.0: " is PSP",
    72.0: " is BSIM-CMG", 73.0: " is HiSIM-HV", 103.0: " is PSP",
}  # fmt: skip
JUNCTIONS = ("is", "js", "cbd", "cbs", "cj", "cjsw")


_BOTH = {
    "delta": Parameter(0.0, "", ANY), "vmax": Parameter(0.0, "m/s"), "xj": Parameter(0.0, "m"),
    "nfs": Parameter(0.0, "1/cm²"),
}  # fmt: skip
OWN = {  # the parameters of the levels above 1
    2.0: {**_BOTH, "uexp": Parameter(0.0), "ucrit": Parameter(1e4, "V/cm", 0.0, False),
          "neff": Parameter(1.0, "", 0.0, False)},
    3.0: {**_BOTH, "eta": Parameter(0.0), "theta": Parameter(0.0, "1/V"), "kappa": Parameter(0.2),
          "wd": Parameter(0.0, "m"), "xw": Parameter(0.0, "m", ANY), "xl": Parameter(0.0, "m", ANY),
          "delvto": Parameter(0.0, "V", ANY)},
}  # fmt: skip


def _check(numbers) -> None:
    level = numbers["level"]
    if level not in (1.0, *CHANNEL_OF):
        raise ValueError(
            f"level = {level:g}{LEVELS.get(level, '')}, but only levels 1, 2, 3 and VDMOS are implemented. Fit a card "
            "of level 1 or 3 to the currents at which the transistor works"
        )
    if level != 1.0 and (numbers["alpha"] > 0.0 or numbers["nlev"] == 3.0):
        raise ValueError(f"level = {level:g}, but alpha and nlev=3 are for level 1")
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
        "cgbo": Parameter(0.0, "F/m"), "is": Parameter(1e-14, "A"), "js": Parameter(0.0, "A/m²"),
        "cbd": Parameter(0.0, "F"), "cbs": Parameter(0.0, "F"), "cj": Parameter(0.0, "F/m²"),
        "mj": Parameter(0.5), "cjsw": Parameter(0.0, "F/m"), "mjsw": Parameter(0.5),
        "pb": Parameter(0.8, "V", 0.0, False), "fc": Parameter(0.5), "alpha": Parameter(0.0, "1/V", 0.0, False),
        "smooth": Parameter(0.02, "V", 0.0, False), "gfloor": Parameter(1e-12, "S", 0.0, False),
        "nlev": Parameter(2.0), "gdsnoi": Parameter(1.0), **FLICKER, **TEMPERATURE,
        **{key: parameter for own in OWN.values() for key, parameter in own.items()},
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


class Channel(NamedTuple):
    """The channel of a level above 1: its law, and the laws of its gate's charges."""

    law: Law
    gate: meyer.Gate


def _channel_of(level: Any, name: str) -> Channel:
    """The laws of a level from its `channel` and its `pinch`, which take the voltages of an N-channel transistor."""

    def current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
        gs, ds, bs, direction = _turned(read, p, xp)
        return p["sign"] * direction * level.channel(Point(gs, ds, bs), p, xp)

    def noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
        return _channel(xp.abs(dual.slope_in_first(current, read, p, xp)), p)

    def pinch(read: tuple[Any, ...], p: Numbers) -> meyer.Pinch:
        gs, ds, bs, direction = _turned(read, p, np)
        over, saturation = level.pinch(Point(gs, ds, bs), p, np)
        return meyer.Pinch(over, saturation, ds, direction < 0.0)

    return Channel(Law(f"transistor {name}", current, noise, "channel"), meyer.laws(pinch, f" {name}"))


CHANNEL_OF = {2.0: _channel_of(grove_frohman, "of level 2"), 3.0: _channel_of(semi_empirical, "of level 3")}
SQUARE = Law("transistor", square, square_noise, "channel")
BODY = Law("transistor with body", square, square_noise, "channel")
SMOOTH = Law("smooth_transistor", smooth, smooth_noise, "channel")
CHANNELS = (SQUARE, BODY, SMOOTH, *(channel.law for channel in CHANNEL_OF.values()))


def _derived(model: Model, nominal: float) -> dict[str, float]:
    """The numbers of a model with those that follow from TOX, NSUB, TPG and NSS where they are left out."""
    p = dict(model.numbers)
    if p["level"] != 1.0 and "mjsw" not in model.explicit:
        p["mjsw"] = 0.33
    if "tox" not in model.explicit and p["level"] == 1.0:
        return p
    oxide, sign = OXIDE / p["tox"], 1.0 if model.type == "nmos" else -1.0
    follows = {"kp": p["uo"] * 1e-4 * oxide}
    if p["nsub"] > 0.0:
        intrinsic = INTRINSIC * (_intrinsic_ratio(nominal) if p["level"] == 3.0 else 1.0)
        phi = max(2.0 * BOLTZMANN * nominal / CHARGE * math.log(p["nsub"] * 1e6 / intrinsic), LEAST_PHI)
        phi = p["phi"] if "phi" in model.explicit else phi
        gamma = math.sqrt(2.0 * SILICON * CHARGE * p["nsub"] * 1e6) / oxide
        gamma = p["gamma"] if "gamma" in model.explicit else gamma
        flat_band = _work_function(p["tpg"], sign, nominal) - 0.5 * sign * phi - p["nss"] * 1e4 * CHARGE / oxide
        follows |= {"phi": phi, "gamma": gamma, "vto": flat_band + sign * (gamma * math.sqrt(phi) + phi)}
    return p | {key: value for key, value in follows.items() if key not in model.explicit}


def _intrinsic_ratio(kelvin: float) -> float:
    """The factor by which the carriers of pure silicon grow from 300 K, which level 3 alone has."""
    return (kelvin / 300.0) ** 1.5 * math.exp(0.5 * gap(kelvin) * CHARGE / BOLTZMANN * (1.0 / 300.0 - 1.0 / kelvin))


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
    p["uo"] = p["uo"] / ratio**1.5 if p["level"] == 3.0 else p["uo"]  # in the speed of carriers; level 2 leaves it
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
    _leave_out_others(card, model)
    p = at_temperature(model, card.kelvin, model.nominal(card.nominal))
    many = card.named("m", 1.0, 0.0, False)
    w, length = card.named("w", 1e-4, 0.0, False), card.named("l", 1e-4, 0.0, False)
    areas = {key: card.named(key, 0.0, 0.0) for key in ("ad", "as", "pd", "ps")}
    squares = {key: card.named(key, 1.0, 0.0) for key in ("nrd", "nrs")}
    resistances = [p[key] if key in model.explicit else p["rsh"] * squares[f"nr{key[1]}"] for key in ("rd", "rs")]
    level = CHANNEL_OF.get(p["level"])
    effective, w = length - 2.0 * p["ld"] + p["xl"], w - 2.0 * p["wd"] + p["xw"]
    if effective <= 0.0 or w <= 0.0:
        raise NetlistError(f"{card.name}: L = {length:g} is not longer than twice LD, or W not wider than twice WD",
                           card.at)  # fmt: skip
    drain, gate, source, bulk = card.nodes
    has_oxide = ("tox" in model.explicit or level is not None) and not p["alpha"]
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
    elif level is not None:
        value |= _numbers_of(p, effective, w)
        main = card.nonlinear(level.law, (drain, source), (*reads, (bulk, source)), value)
    elif p["gamma"] > 0.0:
        main = card.nonlinear(BODY, (drain, source), (*reads, (bulk, source)), value)
    else:
        main = card.nonlinear(SQUARE, (drain, source), reads, value)
    if bulk not in main.nodes:
        main = main._replace(nodes=(*main.nodes, bulk))
    parts = [main, *series, *more]
    if has_oxide:
        numbers = {"sign": sign, **{key: p[key] for key in ("vto", "gamma", "phi")}}
        numbers = numbers if level is None else {**value, "kf": 0.0}
        parts += meyer.gate(card, (drain, gate, source, bulk), OXIDE / p["tox"] * w * effective * many, numbers,
                            meyer.SQUARE if level is None else level.gate)  # fmt: skip
    overlaps = (("cgso", gate, source, w), ("cgdo", gate, drain, w), ("cgbo", gate, bulk, effective))
    for key, a, b, over in overlaps:
        if p[key] > 0.0 and a != b:
            parts.append(card.part("c", (a, b), p[key] * over * many, f".{key}"))
    if card.netlist.deck.bodies or any(key in model.explicit for key in JUNCTIONS):
        for end, area, rim, bottom in ((drain, "ad", "pd", "cbd"), (source, "as", "ps", "cbs")):
            diode = (bulk, end) if sign > 0.0 else (end, bulk)
            below = p[bottom] if p[bottom] > 0.0 else p["cj"] * areas[area]
            size = {"area": areas[area], "capacitance": below, "side": p["cjsw"] * areas[rim]}
            if bulk != end:
                parts += _bulk_diode(card, p, diode, size, many, f".{bottom[1:]}")
    return parts


def _leave_out_others(card: Card, model: Model) -> None:
    """Leave out the parameters that belong to other levels, with the same warning as unknown ones."""
    own = OWN.get(model.numbers["level"], {})
    others = sorted(key for some in OWN.values() for key in some if key in model.explicit and key not in own)
    if others:
        card.netlist.ignored[model.name] = [f"{key} (of another level)" for key in dict.fromkeys(others)]
    for key in dict.fromkeys(others):
        model.numbers[key] = MODEL.parameters[key].default


def _numbers_of(p: dict[str, float], length: float, width: float) -> dict[str, float]:
    """The numbers of the channels of levels 2 and 3, for the length and the width that are left."""
    oxide = OXIDE / p["tox"]
    square = 2.0 * SILICON / (CHARGE * p["nsub"] * 1e6) if p["nsub"] > 0.0 else 0.0
    layer, depth = math.sqrt(square), p["xj"]
    common = {"length": length, "states": CHARGE * p["nfs"] * 1e4 / oxide, "vmax": p["vmax"],
              "mobility": p["uo"] * 1e-4}  # fmt: skip
    narrow = p["delta"] * math.pi * SILICON / (oxide * width)
    if p["level"] == 2.0:
        return common | {
            "depletion": 2.0 * layer / depth if depth else 0.0, "shared": 0.5 * depth / length, "narrow": 0.25 * narrow,
            "critical": p["ucrit"] * 100.0 * SILICON / oxide, "uexp": p["uexp"], "neff": p["neff"], "width": layer,
            "junction": layer * math.sqrt(p["pb"]),
        }  # fmt: skip
    return common | {
        "depletion": layer / depth if depth else 0.0, "shared": depth / length if layer else 0.0,
        "lateral": p["ld"] / depth if depth else 0.0, "narrow": 0.5 * narrow, "theta": p["theta"], "kappa": p["kappa"],
        "feedback": p["eta"] * 8.15e-22 / (oxide * length**3), "layer": p["kappa"] * square, "square": square,
        "vto": p["vto"] + p["delvto"],
    }  # fmt: skip


def _bulk_diode(card, p, ends, size: dict[str, float], many: float, suffix: str) -> list[Element]:
    """The junction between bulk and drain or source: its area, and the capacitances of its bottom and its side wall."""
    saturation = p["js"] * size["area"] if p["js"] > 0.0 and size["area"] > 0.0 else p["is"]
    common = {"n": 1.0, "vj": p["pb"], "fc": p["fc"], "tt": 0.0, "bv": math.inf, "ibv": 1e-3, "nbv": 1.0, "share": 1.0}
    bottom = size["capacitance"] * many
    numbers = {**common, "is": saturation * many or 1.0, "cjo": bottom, "m": p["mj"]}
    parts = junction(card, ends, numbers, suffix)[0 if saturation else 1 :]  # IS = 0: capacitances alone
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
