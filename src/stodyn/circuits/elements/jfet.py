"""J: a junction field-effect transistor, i = BETA (1 + LAMBDA v_ds)(2 o - u) u, o = v_gs - VTO, u = min(v_ds, o), drain
and source exchanged where v_ds < 0.

White noise 2kT (2/3) g_m, flicker KF |i|^AF/f; junctions from gate to source and drain with IS, CGS and CGD; RD and RS.
"""

from __future__ import annotations

import math
from typing import Any

from stodyn.circuits.devices import (
    ANY,
    BOLTZMANN,
    FLICKER,
    TEMPERATURE,
    Law,
    Numbers,
    Parameter,
    saturation_ratio,
)  # fmt: skip
from stodyn.circuits.element import Card, Element, ElementType, ModelType
from stodyn.circuits.elements.diode import junction

MODEL = ModelType(
    {
        "vto": Parameter(-2.0, "V", ANY), "beta": Parameter(1e-4, "A/V²", 0.0, False), "lambda": Parameter(0.0, "1/V"),
        "rd": Parameter(0.0, "Ω"), "rs": Parameter(0.0, "Ω"), "cgs": Parameter(0.0, "F"), "cgd": Parameter(0.0, "F"),
        "pb": Parameter(1.0, "V", 0.0, False), "is": Parameter(1e-14, "A", 0.0, False), "fc": Parameter(0.5),
        "level": Parameter(1.0), **FLICKER, **TEMPERATURE,
    },
    same={"vt0": "vto"}, refused={"b": 1.0, "tcv": 0.0, "bex": 0.0, "nlev": 2.0},
)  # fmt: skip


def _turned(read: tuple[Any, ...], p: Numbers, xp: Any):
    gs, ds = (p["sign"] * v for v in read)
    back = ds < 0.0
    gs, ds = xp.where(back, gs - ds, gs), xp.where(back, -ds, ds)
    o = xp.maximum(gs - p["vto"], 0.0)
    return o, xp.minimum(ds, o), 1.0 + p["lambda"] * ds, xp.where(back, -1.0, 1.0)


def current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    o, u, longer, direction = _turned(read, p, xp)
    return p["sign"] * direction * p["beta"] * longer * (2.0 * o - u) * u


def noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    _, u, longer, _ = _turned(read, p, xp)
    return 2.0 * BOLTZMANN * p.kelvin * (2.0 / 3.0) * 2.0 * p["beta"] * longer * u


CHANNEL = Law("junction transistor", current, noise, "channel")


def _parse(card: Card) -> list[Element]:
    model = card.model(2)
    area = card.number(card.rest[1], "area", 0.0, False) if len(card.rest) == 2 else card.named("area", 1.0, 0.0, False)
    area *= card.named("m", 1.0, 0.0, False)
    p, nominal = dict(model.numbers), model.nominal(card.nominal)
    p["is"] *= area * saturation_ratio(card.kelvin, nominal, 1.11, 0.0)
    p["beta"], p["sign"] = p["beta"] * area, 1.0 if model.type == "njf" else -1.0
    drain, gate, source = card.nodes
    series, drain = card.resistor(drain, "d", p["rd"] / area, ".rd", p["cgd"] > 0.0)
    more, source = card.resistor(source, "s", p["rs"] / area, ".rs", p["cgs"] > 0.0)
    parts = [card.nonlinear(CHANNEL, (drain, source), ((gate, source), (drain, source)), p), *series, *more]
    common = {"is": p["is"], "n": 1.0, "vj": p["pb"], "m": 0.5, "fc": p["fc"], "tt": 0.0, "bv": math.inf, "ibv": 1e-3,
              "nbv": 1.0, "share": 1.0}  # fmt: skip
    for end, capacitance, suffix in ((source, "cgs", ".gs"), (drain, "cgd", ".gd")):
        ends = (gate, end) if p["sign"] > 0.0 else (end, gate)
        parts += junction(card, ends, {**common, "cjo": p[capacitance] * area}, suffix)
    return parts


J = ElementType("j", "J drain gate source model [area]", 3, _parse, {"njf": MODEL, "pjf": MODEL}, noisy=True)
