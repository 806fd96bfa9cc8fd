"""A: XSPICE's code models of analogue blocks, of converters and of logic gates without memory.

A line names the ports in the order of the model, [several of them] in brackets, each of the type that precedes it:
%v a node, %vd two nodes, %i and %id the current into a node or from one node to another, %vnam a voltage source, whose
current is read. `corner` rounds a bend into a parabola, as XSPICE does.

A digital node is here a voltage of 0, 1, or 0.5 where its state is unknown; a converter goes from one to the next
within REACH of its threshold. Gates act at once: their delays are left out, with a note, so that they cannot stand in a
loop, as those of a latch or of a ring oscillator do. At the operating point the states of S_XFER are 0, as in ngspice,
and the output of INT is OUT_IC. Flip-flops, TRIANGLE, SQUARE, HYST, SLEW and an INT with limits are known at rest
alone: operating points and small signals have them, transients refuse them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stodyn.circuits import transfer
from stodyn.circuits.devices import ANY, Law, Numbers, Parameter
from stodyn.circuits.element import FLAG, GROUND, Card, Element, ElementType, Model, ModelType
from stodyn.circuits.elements.controlled import SHORTEST, driven, linear
from stodyn.circuits.text import NetlistError
from stodyn.circuits.waveforms import Waveform

TWO = ("vd", "id", "gd", "hd")  # types of ports with two nodes
ANALOGUE = ("v", "vd", "i", "id", "vnam")
THERMAL = 0.026  # V: the thermal voltage of a zener
NO_LIMIT = 1e6  # from this size on, a limit of an integrator is none
UNKNOWN = 0.5  # of a digital node
REACH = 0.01, 0.01  # half the width of the step at a threshold: this share of it, and at least this many volts


class Port(NamedTuple):
    """A port of a line: its type, and its node, its two nodes or its source; whether ~ inverts it."""

    type: str
    names: tuple[str, ...]
    inverted: bool = False


class Code(NamedTuple):
    """A code model.

    ports   (name, usual type) of each port; * after the name marks several, in brackets, ? one that may be null
    build   (card, model, ports) -> parts
    """

    ports: tuple[tuple[str, str], ...]
    build: Callable[[Card, Model, list[list[Port]]], list[Element]]


# --- reading the line -------------------------------------------------------------------------------------------------


def _ports(card: Card, code: Code) -> list[list[Port]]:
    """The ports of a line, in the order of the model."""
    words = [word for word in card.rest[:-1] if word not in "()"]
    ports = []
    for name, usual in code.ports:
        kind = words.pop(0)[1:] if words and words[0].startswith("%") else usual
        if words and words[0].startswith("[") and name.endswith("*"):
            inside = [word for word in re.sub(r"[()]|(~)", r" \1 ", words.pop(0)[1:-1]).split()]
            ports.append(_several(card, inside, kind))
        else:
            ports.append([_port(card, words, kind)])
        if not ports[-1][0].names and not name.endswith("?"):
            raise card.malformed(f"the port {name} is null")
    if words:
        raise card.malformed(f"did not expect {words[0]!r}: {card.rest[-1]} has the ports {_named(code)}")
    return ports


def _several(card: Card, words: list[str], usual: str) -> list[Port]:
    """The ports that are listed in brackets."""
    ports = []
    while words:
        kind = words.pop(0)[1:] if words[0].startswith("%") else usual
        ports.append(_port(card, words, kind))
    if not ports:
        raise card.malformed("there is nothing in the brackets")
    return ports


def _port(card: Card, words: list[str], kind: str) -> Port:
    inverted = words[:1] == ["~"]
    del words[:inverted]
    count = 2 if kind in TWO else 1
    if len(words) < count or any(word.startswith(("[", "%")) for word in words[:count]):
        raise card.malformed(f"a port of type {kind} is missing")
    first, *others = (words.pop(0) for _ in range(count))
    if first == "null":
        return Port(kind, ())
    inverted, first = inverted or first.startswith("~"), first.removeprefix("~")
    names = (card.scope.prefix + first,) if kind == "vnam" else tuple(map(card.scope.node, (first, *others)))
    return Port(kind, names, inverted)


def _named(code: Code) -> str:
    return ", ".join(f"[{name[:-1]} ...]" if name.endswith("*") else name.rstrip("?") for name, _ in code.ports)


def _read(card: Card, ports: list[Port]) -> tuple[list[Element], list[tuple[str, str]]]:
    """The pairs that inputs read, and the voltage sources of 0 V through which currents flow that are read."""
    parts, reads = [], []
    for port in ports:
        if port.type not in ANALOGUE:
            raise card.malformed(f"an input of type {port.type}, expected one of {', '.join(ANALOGUE)}")
        if port.type == "vnam":
            reads.append((f"i({port.names[0]})", GROUND))
        elif port.type in ("i", "id"):
            parts.append(card.part("v", _ends(port), Waveform(0.0), f".in{len(reads)}", noisy=False))
            reads.append((f"i({parts[-1].name})", GROUND))
        else:
            reads.append(_ends(port))
    return parts, reads


def _ends(port: Port) -> tuple[str, str]:
    return (port.names[0], GROUND) if len(port.names) == 1 else (port.names[0], port.names[1])


def _to(card: Card, out: Port) -> tuple[Card, bool]:
    """The card of the source that drives an output, and whether it is one of a voltage."""
    if out.type not in ("v", "vd", "i", "id"):
        raise card.malformed(f"an output of type {out.type}, expected v, vd, i or id")
    return dataclasses.replace(card, nodes=_ends(out), rest=[], parameters={}), out.type in ("v", "vd")


# --- bends ------------------------------------------------------------------------------------------------------------


def corner(x: Any, reach: Any, xp: Any) -> Any:
    """max(x, 0) with a parabola for |x| < reach."""
    inside = xp.clip(x, -reach, reach) + reach
    return xp.where(x < reach, inside * inside / xp.maximum(4.0 * reach, 1e-300), x)


def between(x: Any, low: Any, high: Any, reach: Any, xp: Any) -> Any:
    """x within two limits, with parabolas of half-width `reach` around them."""
    x = xp.clip(x, low - reach, high + reach)
    return low + corner(x - low, reach, xp) - corner(x - high, reach, xp)


# --- blocks without memory --------------------------------------------------------------------------------------------


def _gain(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    p = model.numbers
    return _sum(card, ports, [p["gain"]], p["out_offset"] + p["gain"] * p["in_offset"])


def _summer(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    p, gains, offsets = model.numbers, *(_each(model, key, len(ports[0])) for key in ("in_gain", "in_offset"))
    total = sum(gain * offset for gain, offset in zip(gains, offsets, strict=True))
    return _sum(card, ports, [p["out_gain"] * gain for gain in gains], p["out_offset"] + p["out_gain"] * total)


def _sum(card: Card, ports: list[list[Port]], gains: list[float], offset: float) -> list[Element]:
    parts, reads = _read(card, ports[0])
    source, is_voltage = _to(card, ports[-1][0])
    return [*parts, *linear(source, reads, [offset, *gains], "e" if is_voltage else "g")]


def _each(model: Model, key: str, count: int) -> list[float]:
    """The numbers of a list for each of the inputs; the default where the model does not give it."""
    values = model.lists[key]
    if key not in model.explicit:
        return [values[0]] * count
    if len(values) != count:
        raise NetlistError(f".model {model.name}: {key} has {len(values)} number(s) for {count} input(s)", model.at)
    return list(values)


def _by_law(law: Callable[..., Law], lists: tuple[str, ...] = ()) -> Callable[..., list[Element]]:
    """The build of a model whose output is a function of its inputs."""

    def build(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
        *inputs, (out,) = ports
        parts, reads = _read(card, [port for group in inputs for port in group])
        source, is_voltage = _to(card, out)
        numbers = dict(model.numbers)
        for key in lists:
            values = model.lists[key] if key not in ("in_gain", "in_offset") else _each(model, key, len(inputs[0]))
            numbers |= {f"{key}{k}": value for k, value in enumerate(values)}
        pairs = list(dict.fromkeys(reads))
        order = tuple(pairs.index(pair) for pair in reads)
        count = len(model.lists[lists[0]]) if lists and lists[0] == "x_array" else len(reads)
        return [*parts, *driven(source, is_voltage, law(order, count), tuple(pairs), numbers)]

    return build


def _law(name: str) -> Callable[[Callable], Callable[..., Law]]:
    """A law of a number of inputs or points; `order` says which of the pairs that the part reads each input is; -1 is
    an input that is 0."""

    def laws(value: Callable) -> Callable[..., Law]:
        @functools.cache
        def law(order: tuple[int, ...], count: int) -> Law:
            def of_inputs(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
                return value([read[k] if k >= 0 else 0.0 * read[0] for k in order], p, xp, count)

            return Law(f"{name} of {count} {order}", of_inputs)

        return law

    return laws


@_law("product")
def _product(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    return p["out_offset"] + p["out_gain"] * math.prod(
        p[f"in_gain{k}"] * (x + p[f"in_offset{k}"]) for k, x in enumerate(read)
    )


@_law("quotient")
def _quotient(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    above, below = ((x + p[f"{side}_offset"]) * p[f"{side}_gain"] for side, x in zip(("num", "den"), read, strict=True))
    least = p["den_lower_limit"]
    reach = xp.where(p["fraction"] > 0.0, p["den_domain"] * least, p["den_domain"])
    size = least + corner(xp.abs(below) - least, reach, xp)
    return p["out_offset"] + p["out_gain"] * above / xp.where(below < 0.0, -size, size)


@_law("limiter")
def _limiter(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    low, high = p["out_lower_limit"], p["out_upper_limit"]
    reach = xp.where(p["fraction"] > 0.0, p["limit_range"] * (high - low), p["limit_range"])
    return between(p["gain"] * (read[0] + p["in_offset"]), low, high, reach, xp)


@_law("controlled limiter")
def _controlled_limiter(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    x, upper, lower = read
    low, high = lower + p["lower_delta"], upper - p["upper_delta"]
    reach = xp.where(p["fraction"] > 0.0, p["limit_range"] * (high - low), p["limit_range"])
    held = between(p["gain"] * (x + p["in_offset"]), low, high, reach, xp)
    return xp.where(high - low < 2.0 * reach, 0.0, held)


def _along(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    (x,) = read
    xs, ys = ([p[f"{key}_array{k}"] for k in range(count)] for key in "xy")
    widths = [b - a for a, b in itertools.pairwise(xs)]
    slopes = [(b - a) / width for (a, b), width in zip(itertools.pairwise(ys), widths, strict=True)]
    free = xp.where(p["limit"] > 0.0, 0.0, 1.0)
    slopes, widths = [slopes[0] * free, *slopes, slopes[-1] * free], [widths[0], *widths, widths[-1]]
    total = ys[0] + slopes[0] * (x - xs[0])
    for k, at in enumerate(xs):
        share = p["input_domain"] * xp.minimum(widths[k], widths[k + 1])
        reach = xp.where(p["fraction"] > 0.0, share, p["input_domain"])
        total = total + (slopes[k + 1] - slopes[k]) * corner(x - at, reach, xp)
    return total


_lines = _law("straight lines")(_along)


@_law("frequency")
def _frequency(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    return xp.maximum(_along(read, p, xp, count), 0.0)


def _check_points(model: Model, x: str, y: str) -> None:
    at, values = (np.array(model.lists[key]) for key in (x, y))
    if len(at) != len(values) or len(at) < 2 or not (np.diff(at) > 0.0).all():
        raise NetlistError(f".model {model.name}: expected two or more points, {x} rising and {y} as long", model.at)


def _points(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    _check_points(model, "x_array", "y_array")
    return _by_law(_lines, ("x_array", "y_array"))(card, model, ports)


@_law("hysteresis at rest")
def _rising(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    """The branch of rising inputs, on which XSPICE begins."""
    width, low, high = p["in_high"] - p["in_low"], p["out_lower_limit"], p["out_upper_limit"]
    slope = (high - low) / width
    reach = slope * xp.where(p["fraction"] > 0.0, p["input_domain"] * width, p["input_domain"])
    return between(low + slope * (read[0] - p["in_low"] - p["hyst"]), low, high, reach, xp)


def _hysteresis(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    p = model.numbers
    if not (p["in_low"] < p["in_high"] and p["out_lower_limit"] < p["out_upper_limit"]):
        raise NetlistError(f".model {model.name}: expected in_low < in_high and out_lower_limit < out_upper_limit",
                           model.at)  # fmt: skip
    _rests(card)
    return _by_law(_rising)(card, model, ports)


def _slew(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    """The elements of a block that limits the slope of its output: at rest the output is the input."""
    _rests(card)
    parts, reads = _read(card, ports[0])
    source, is_voltage = _to(card, ports[-1][0])
    return [*parts, *linear(source, reads, [0.0, 1.0], "e" if is_voltage else "g")]


# --- blocks with states -----------------------------------------------------------------------------------------------


def _filtered(
    card: Card, ports: list[list[Port]], offset: float, of: transfer.Rational, rests: float | None = 0.0
) -> list[Element]:
    """The input and an offset through a transfer function; its states rest at 0 or, a single one, so that the output is
    `rests`; at None they do not rest."""
    parts, reads = _read(card, ports[0])
    control = reads[0]
    if offset or not ports[0][0].type.startswith("v") or ports[0][0].type == "vnam":
        control = card.inner("u"), GROUND
        parts += linear(dataclasses.replace(card, full=control[0], nodes=control), reads, [offset, 1.0], "e")
    source, is_voltage = _to(card, ports[1][0])
    states, reads, gains = transfer.states(card, of, control)
    if rests is not None:
        card.netlist.resting |= {node: rests / gains[0] if rests else 0.0 for node, _ in reads[:-1]}
    return [*parts, *states, *linear(source, reads, [0.0, *gains], "e" if is_voltage else "g")]


def _integrator(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    p = model.numbers
    if min(abs(p["out_lower_limit"]), abs(p["out_upper_limit"])) < NO_LIMIT:
        _rests(card)
    of = transfer.Rational(np.array([p["gain"]]), np.array([0.0, 1.0]))
    return _filtered(card, ports, p["in_offset"], of, p["out_ic"])


@_law("sine")
def _of_phase(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    low, high = p["out_low"], p["out_high"]
    return 0.5 * (high + low) + 0.5 * (high - low) * xp.sin(2.0 * math.pi * read[0])


def _sine(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    """An oscillator whose frequency follows a voltage by straight lines; its state is the number of cycles since the
    beginning, the voltage of an inner node."""
    _check_points(model, "cntl_array", "freq_array")
    parts, reads = _read(card, ports[0])
    source, is_voltage = _to(card, ports[1][0])
    phase = card.inner("phase")
    pairs = [*zip(model.lists["cntl_array"], model.lists["freq_array"], strict=True)]
    numbers = {"input_domain": 0.0, "fraction": 0.0, "limit": 0.0}
    numbers |= {f"{key}_array{k}": value for k, pair in enumerate(pairs) for key, value in zip("xy", pair, strict=True)}
    rate = dataclasses.replace(card, full=phase, nodes=(GROUND, phase))
    card.netlist.resting[phase] = 0.0
    return [
        *parts,
        card.part("c", (phase, GROUND), 1.0, ".phase"),
        *driven(rate, False, _frequency((0,), len(pairs)), tuple(reads), numbers),
        *driven(source, is_voltage, _of_phase((0,), 1), ((phase, GROUND),), model.numbers),
    ]


def _transfer(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    p, unit = model.numbers, model.numbers["denormalized_freq"]
    above, below = (np.array(model.lists[key])[::-1] for key in ("num_coeff", "den_coeff"))
    if not (len(below) and below[-1] and 0 < len(above) <= len(below)):
        raise NetlistError(f".model {model.name}: expected den_coeff, its first not 0, and num_coeff, not longer",
                           model.at)  # fmt: skip
    if any(model.lists["int_ic"]):
        raise NetlistError(f".model {model.name}: int_ic other than 0 is not implemented", model.at)
    of = transfer.Rational(p["gain"] * above / unit ** np.arange(len(above)), below / unit ** np.arange(len(below)))
    return _filtered(card, ports, p["in_offset"], of)


def _derivative(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    """A derivative with a pole, as that of ddt() in expressions, within its limits."""
    p, transient = model.numbers, card.netlist.transient
    if p["out_offset"]:
        raise NetlistError(f".model {model.name}: out_offset of d_dt is not implemented; take a summer", model.at)
    τ = SHORTEST if transient is None else 0.5 * transient.step
    card.netlist.notes.append(f"{card.at}: {card.name}: d_dt is s/(1 + {τ:g} s)")
    of = transfer.Rational(np.array([0.0, p["gain"]]), np.array([1.0, τ]))
    limits = p["out_lower_limit"], p["out_upper_limit"]
    if all(math.isinf(limit) for limit in limits):
        return _filtered(card, ports, 0.0, of, None)
    node = card.inner("free")
    free = dataclasses.replace(card, full=node)
    source, is_voltage = _to(card, ports[1][0])
    numbers = {"in_offset": 0.0, "gain": 1.0, "fraction": 0.0, "limit_range": p["limit_range"],
               "out_lower_limit": limits[0], "out_upper_limit": limits[1]}  # fmt: skip
    return [
        *_filtered(free, [ports[0], [Port("v", (node,))]], 0.0, of, None),
        *driven(source, is_voltage, _limiter((0,), 1), ((node, GROUND),), numbers),
    ]


# --- two ends ---------------------------------------------------------------------------------------------------------


def _zener_current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    """A junction at 0.026 V, a line, and a breakdown, as XSPICE has them; where the line has no room, two exponentials
    meet at 0, with a conductance that makes their slopes equal."""
    (v,) = read
    ahead = p["is"] * (xp.exp(xp.minimum(v / p["scale"], 600.0)) - 1.0)
    behind = p["knee"] * xp.exp(xp.minimum(-p["steep"] * (v - p["from"]), 600.0))
    middle = p["slope"] * v + p["at_0"]
    three = xp.where(v >= p["ahead_of"], ahead, xp.where(v >= p["behind_of"], middle, p["meeting"] - behind))
    back = -p["other"] * (xp.exp(xp.minimum(-p["steep"] * v, 600.0)) - 1.0)
    two = xp.where(v >= 0.0, ahead + p["more_ahead"] * v, back + p["more_behind"] * v)
    return xp.where(p["has_line"] > 0.0, three, two) + p["leak"] * v


ZENER = Law("zener", _zener_current, junction=(("is", "n"),), breakdown=("bv", "nbv"))


def _zener(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    p, scale = model.numbers, model.numbers["n_forward"] * THERMAL
    if math.isnan(p["v_breakdown"]):
        raise NetlistError(f".model {model.name}: v_breakdown is missing", model.at)
    bv, steep = p["v_breakdown"], 1.0 / (p["i_breakdown"] * p["r_breakdown"])
    small = 1e-6
    start, slope = -bv + math.log(p["i_breakdown"] / small) / steep, p["i_sat"] / 10.0
    upper = scale * math.log(scale / 10.0)
    lower = -bv + math.log(10.0 / (p["i_sat"] * p["r_breakdown"])) / steep
    at_0 = p["i_sat"] * math.expm1(upper / scale) - slope * upper
    meeting = slope * lower + at_0 + small * math.exp(min(-steep * (lower - start), 600.0))
    other = p["i_breakdown"] * math.exp(-min(steep * bv, 700.0)) / -math.expm1(-steep * bv)
    differ = other * steep - p["i_sat"] / scale
    volts = 8.617333262145179e-05 * card.kelvin
    numbers = {"is": p["i_sat"], "n": scale / volts, "scale": scale, "knee": small, "from": start, "steep": steep,
               "slope": slope, "at_0": at_0, "ahead_of": upper, "behind_of": lower, "meeting": meeting, "other": other,
               "more_ahead": max(differ, 0.0), "more_behind": max(-differ, 0.0), "has_line": float(lower < upper),
               "leak": p["i_rev"] / bv, "bv": bv, "nbv": 1.0 / (steep * volts)}  # fmt: skip
    ends = _ends(ports[0][0])
    return [card.nonlinear(ZENER, ends, (ends,), numbers, noisy=False)]


def _switch_current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    v, control = read
    share = (p["cntl_on"] - control) / (p["cntl_on"] - p["cntl_off"])
    ratio = p["r_off"] / p["r_on"]
    in_logarithm = p["r_on"] * xp.exp(xp.clip(share * xp.log(ratio), -600.0, 600.0))
    ohms = xp.where(p["log"] > 0.0, in_logarithm, p["r_on"] + share * (p["r_off"] - p["r_on"]))
    limited = xp.clip(ohms, p["r_on"], p["r_off"])
    return v / xp.where(p["limit"] > 0.0, limited, xp.maximum(ohms, 1e-9))


ANALOGUE_SWITCH = Law("analogue switch", _switch_current)


def _aswitch(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    p = model.numbers
    if p["cntl_on"] == p["cntl_off"]:
        raise NetlistError(f".model {model.name}: cntl_on and cntl_off are the same; expected two values", model.at)
    parts, (control,) = _read(card, ports[0])
    ends = _ends(ports[1][0])
    numbers = {**p, "r_on": max(p["r_on"], 1e-3)}
    return [*parts, card.nonlinear(ANALOGUE_SWITCH, ends, (ends, control), numbers, noisy=False)]


# --- logic ------------------------------------------------------------------------------------------------------------


@_law("to digital")
def _to_digital(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    low, high = p["in_low"], p["in_high"]
    share, least = REACH
    reach = xp.maximum(share * xp.maximum(xp.abs(low), xp.abs(high)), least)
    inwards = xp.where(high - low > 4.0 * reach, reach, 0.0)
    risen = 0.0
    for middle in (low + inwards, high - inwards):
        z = xp.clip((read[0] - middle) / reach, -1.0, 1.0)
        risen = risen + 0.25 + 0.125 * z * (3.0 - z * z)
    return risen


def _halves(x: Any, xp: Any) -> tuple[Any, Any]:
    """The way from 0 to unknown and that from unknown to 1, each from 0 to 1; without a bend at 0 and 1, where states
    rest and Newton's method begins."""
    return xp.minimum(2.0 * x, 1.0), xp.maximum(2.0 * x - 1.0, 0.0)


@_law("from digital")
def _from_digital(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    below, above = _halves(read[0], xp)
    return p["out_low"] + (p["out_undef"] - p["out_low"]) * below + (p["out_high"] - p["out_undef"]) * above


def _to_analogue(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    p = model.numbers
    undefined = p["out_undef"] if "out_undef" in model.explicit else 0.5 * (p["out_low"] + p["out_high"])
    return _converter(_from_digital)(card, model._replace(numbers={**p, "out_undef": undefined}), ports)


@_law("gate")
def _gate(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    """The state of a gate of three-valued logic: AND (sort 0), OR (1), which is NOT AND of NOT, or XOR (2)."""
    is_or = p["sort"] * (2.0 - p["sort"])
    inputs = [_inverted(x, p[f"inverts{k}"]) for k, x in enumerate(read)]
    odd = 0.0
    for x in inputs:
        odd = odd + x - 2.0 * odd * x
    halves = [_halves(_inverted(x, is_or), xp) for x in inputs]
    every = _inverted(0.5 * (math.prod(one for one, _ in halves) + math.prod(one for _, one in halves)), is_or)
    return _inverted(xp.where(p["sort"] > 1.5, odd, every), p["inverts"])


def _inverted(x: Any, by: Any) -> Any:
    """1 - x where `by` is 1, x where it is 0."""
    return by + (1.0 - 2.0 * by) * x


def _converter(law: Callable[..., Law]) -> Callable[..., list[Element]]:
    """The build of a bridge, whose inputs and outputs are pairs."""

    def build(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
        inputs, outputs = ports
        if len(inputs) != len(outputs):
            raise card.malformed(f"has {len(inputs)} input(s) and {len(outputs)} output(s)")
        parts = []
        for k, (x, y) in enumerate(zip(inputs, outputs, strict=True)):
            own = dataclasses.replace(card, full=f"{card.full}.{k}")
            more, reads = _read(own, [_as_voltage(x)])
            source, is_voltage = _to(own, _as_voltage(y))
            parts += [*more, *driven(source, is_voltage, law((0,), 1), tuple(reads), model.numbers)]
            _link(card, [x], y)
        return parts

    return build


def _logic(sort: int, inverts: bool) -> Callable[..., list[Element]]:
    """The build of a gate: 0 AND, 1 OR, 2 XOR."""

    def build(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
        inputs, (out,) = ports
        pairs = [_ends(_as_voltage(port)) for port in inputs]
        reads = list(dict.fromkeys(pairs))
        numbers = {f"inverts{k}": float(port.inverted) for k, port in enumerate(inputs)}
        numbers |= {"sort": float(sort), "inverts": float(inverts != out.inverted)}
        source, _ = _to(card, _as_voltage(out))
        _link(card, inputs, out)
        law = _gate(tuple(reads.index(pair) for pair in pairs), len(pairs))
        return driven(source, True, law, tuple(reads), numbers)

    return build


@_law("flip-flop at rest")
def _rest(read: list[Any], p: Numbers, xp: Any, count: int) -> Any:
    """IC, or the data where the latch is enabled; set and reset come first, and both of them make it unknown."""
    (_, sets), (_, resets), (_, enabled) = (_halves(x, xp) for x in read[:3])
    (sometimes, _), (or_not, _) = (_halves(x, xp) for x in read[:2])
    free = p["ic"] + enabled * (read[3] - p["ic"])
    only_set, only_reset, both = sets * (1.0 - or_not), resets * (1.0 - sometimes), sets * resets
    state = free + only_set * (1.0 - free) - only_reset * free + both * (0.5 - free)
    return _inverted(state, p["inverts"])


def _flip_flop(is_latch: bool) -> Callable[..., list[Element]]:
    """The build of a flip-flop, with ports for data before set, reset and the two outputs; that of a latch has two."""

    def build(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
        _rests(card)
        *data, set_, reset, out, inverse = (_as_voltage(port) for (port,) in ports)
        inputs = [set_, reset, *(reversed(data) if is_latch else (Port("v", ()), Port("v", ())))]
        pairs = list(dict.fromkeys(_ends(port) for port in inputs if port.names))
        ic = min(model.numbers["ic"], 2.0)
        parts = []
        for port, inverts in ((out, 0.0), (inverse, 1.0)):
            if not port.names:
                continue
            own = dataclasses.replace(card, full=f"{card.full}.{'n' if inverts else ''}out")
            source, _ = _to(own, port)
            numbers = {"ic": UNKNOWN if ic == 2.0 else ic, "inverts": inverts}
            if pairs:
                order = tuple(pairs.index(_ends(port)) if port.names else -1 for port in inputs)
                parts += driven(source, True, _rest(order, len(inputs)), tuple(pairs), numbers)
            else:
                level = _inverted(numbers["ic"], inverts)
                parts.append(source.part("v", source.nodes, Waveform(level), noisy=False))
            _link(card, [port for port in inputs if port.names], port)
        return parts

    return build


def _triangle(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
    _rests(card)
    parts, _ = _read(card, ports[0])
    source, is_voltage = _to(card, ports[1][0])
    return [
        *parts,
        source.part("v" if is_voltage else "i", source.nodes, Waveform(model.numbers["out_low"]), noisy=False),
    ]


def _rests(card: Card) -> None:
    """Note an element that has no law in time."""
    card.netlist.at_rest.append((card.full, card.at))
    card.netlist.notes.append(f"{card.at}: {card.full} is known at rest alone; transients are refused")


def _pull(level: float) -> Callable[..., list[Element]]:
    def build(card: Card, model: Model, ports: list[list[Port]]) -> list[Element]:
        return [card.part("v", _ends(_as_voltage(ports[0][0])), Waveform(level), noisy=False)]

    return build


def _as_voltage(port: Port) -> Port:
    return port._replace(type="v") if port.type == "d" else port


def _link(card: Card, inputs: list[Port], out: Port) -> None:
    """Note which digital nodes a digital node depends on, and refuse a loop of them."""
    after = card.netlist.logic
    if not after:
        card.netlist.notes.append(f"{card.at}: {card.full}: digital code models act at once here; their delays and "
                                  "loads are left out")  # fmt: skip
    after.setdefault(out.names[0], []).extend(port.names[0] for port in inputs)
    waiting, visited = [port.names[0] for port in inputs], set[str]()
    while waiting:
        node = waiting.pop()
        if node == out.names[0]:
            raise NetlistError(f"{card.name}: the gates around {node} make a loop, as a latch or a ring oscillator, "
                               "which needs memory or delays; take transistors or switches", card.at)  # fmt: skip
        if node not in visited:
            visited.add(node)
            waiting += after.get(node, [])


# --- models -----------------------------------------------------------------------------------------------------------

_IN_OUT = (("in", "v"), ("out", "v"))
_SEVERAL = (("in*", "v"), ("out", "v"))
_FLAG, _ANY, _DELAY = Parameter(0.0, FLAG), Parameter(0.0, "", ANY), Parameter(1e-9, "s")
_ONE = Parameter(1.0, "", ANY)
_NONE_LOW, _NONE_HIGH = Parameter(-math.inf, "", ANY), Parameter(math.inf, "", ANY)
_RANGE = Parameter(1e-6)
_SUMS = {"in_offset": (0.0,), "in_gain": (1.0,)}
_ENDS = {"out_gain": _ONE, "out_offset": _ANY}
_LIMITS = {"out_lower_limit": _NONE_LOW, "out_upper_limit": _NONE_HIGH}
_MEMORY = (("set?", "d"), ("reset?", "d"), ("out?", "d"), ("Nout?", "d"))
_DELAYS = {f"{word}_delay": _DELAY for word in ("clk", "set", "reset", "rise", "fall", "data", "enable", "sr")} | {
    f"{word}_load": Parameter(1e-12, "F") for word in ("clk", "set", "reset", "data", "enable", "t", "jk", "sr")
}
_GATE = {"rise_delay": _DELAY, "fall_delay": _DELAY, "input_load": Parameter(1e-12, "F")}


def _model(parameters: Mapping[str, Parameter], **lists: tuple[float, ...]) -> ModelType:
    return ModelType(parameters, lists=lists)


CODES: dict[str, tuple[Code, ModelType]] = {
    "gain": (Code(_IN_OUT, _gain), _model({"in_offset": _ANY, "gain": _ONE, "out_offset": _ANY})),
    "summer": (Code(_SEVERAL, _summer), _model(_ENDS, **_SUMS)),
    "mult": (Code(_SEVERAL, _by_law(_product, ("in_gain", "in_offset"))), _model(_ENDS, **_SUMS)),
    "divide": (Code((("num", "v"), ("den", "v"), ("out", "v")), _by_law(_quotient)),
               _model({"num_offset": _ANY, "num_gain": _ONE, "den_offset": _ANY, "den_gain": _ONE,
                       "den_lower_limit": Parameter(1e-10), "den_domain": Parameter(1e-16), "fraction": _FLAG,
                       **_ENDS})),
    "limit": (Code(_IN_OUT, _by_law(_limiter)),
              _model({"in_offset": _ANY, "gain": _ONE, **_LIMITS, "limit_range": _RANGE, "fraction": _FLAG})),
    "climit": (Code((("in", "v"), ("cntl_upper", "v"), ("cntl_lower", "v"), ("out", "v")),
                    _by_law(_controlled_limiter)),
               _model({"in_offset": _ANY, "gain": _ONE, "upper_delta": _ANY, "lower_delta": _ANY,
                       "limit_range": _RANGE, "fraction": _FLAG})),
    "pwl": (Code(_IN_OUT, _points),
            _model({"input_domain": Parameter(0.01), "fraction": Parameter(1.0, FLAG), "limit": _FLAG},
                   x_array=(), y_array=())),
    "int": (Code(_IN_OUT, _integrator),
            _model({"in_offset": _ANY, "gain": _ONE, **_LIMITS, "limit_range": _RANGE, "out_ic": _ANY})),
    "d_dt": (Code(_IN_OUT, _derivative),
             _model({"gain": _ONE, "out_offset": _ANY, **_LIMITS, "limit_range": _RANGE})),
    "s_xfer": (Code(_IN_OUT, _transfer),
               _model({"in_offset": _ANY, "gain": _ONE, "denormalized_freq": Parameter(1.0, "", 0.0, False)},
                      num_coeff=(), den_coeff=(), int_ic=())),
    "zener": (Code((("z", "gd"),), _zener),
              _model({"v_breakdown": Parameter(math.nan, "V", 0.0, False),
                      "i_breakdown": Parameter(2e-2, "A", 0.0, False), "r_breakdown": Parameter(1.0, "Ω", 0.0, False),
                      "i_rev": Parameter(1e-6, "A"),
                      "i_sat": Parameter(1e-12, "A", 0.0, False), "n_forward": Parameter(1.0, "", 0.0, False),
                      "limit_switch": _FLAG})),
    "aswitch": (Code((("cntl_in", "v"), ("out", "gd")), _aswitch),
                _model({"cntl_off": _ANY, "cntl_on": _ONE, "r_off": Parameter(1e12, "Ω", 0.0, False),
                        "r_on": Parameter(1.0, "Ω", 0.0), "log": Parameter(1.0, FLAG), "limit": _FLAG})),
    "adc_bridge": (Code((("in*", "v"), ("out*", "d")), _converter(_to_digital)),
                   _model({"in_low": Parameter(0.1, "V", ANY), "in_high": Parameter(0.9, "V", ANY),
                           "rise_delay": _DELAY, "fall_delay": _DELAY})),
    "dac_bridge": (Code((("in*", "d"), ("out*", "v")), _to_analogue),
                   _model({"out_low": Parameter(0.0, "V", ANY), "out_high": Parameter(1.0, "V", ANY),
                           "out_undef": Parameter(math.nan, "V", ANY), "input_load": Parameter(1e-12, "F"),
                           "t_rise": _DELAY, "t_fall": _DELAY})),
    "triangle": (Code((("cntl_in", "v"), ("out", "v")), _triangle),
                 _model({"out_low": Parameter(-1.0, "", ANY), "out_high": _ONE, "duty_cycle": Parameter(0.5)},
                        cntl_array=(0.0, 1.0), freq_array=(1e3, 2e3))),
    **{name: (Code((*((port, "d") for port in inputs.split()), *_MEMORY), _flip_flop(name == "d_dlatch")),
              _model({"ic": _ANY, **_DELAYS}))
       for name, inputs in (("d_dff", "data clk"), ("d_tff", "t clk"), ("d_jkff", "j k clk"), ("d_srff", "s r clk"),
                            ("d_dlatch", "data enable"))},
    "sine": (Code((("cntl_in", "v"), ("out", "v")), _sine),
             _model({"out_low": Parameter(-1.0, "", ANY), "out_high": _ONE}, cntl_array=(0.0, 1.0),
                    freq_array=(1e3, 2e3))),
    "square": (Code((("cntl_in", "v"), ("out", "v")), _triangle),
               _model({"out_low": Parameter(-1.0, "", ANY), "out_high": _ONE, "duty_cycle": Parameter(0.5),
                       "rise_time": _DELAY, "fall_time": _DELAY}, cntl_array=(0.0, 1.0), freq_array=(1e3, 2e3))),
    "hyst": (Code(_IN_OUT, _hysteresis),
             _model({"in_low": _ANY, "in_high": _ONE, "hyst": Parameter(0.1), "out_lower_limit": _ANY,
                     "out_upper_limit": _ONE, "input_domain": Parameter(0.01), "fraction": Parameter(1.0, FLAG)})),
    "slew": (Code(_IN_OUT, _slew),
             _model({"rise_slope": Parameter(1e9, "", ANY), "fall_slope": Parameter(1e9, "", ANY),
                     "range": Parameter(0.1)})),
    "d_pullup": (Code((("out", "d"),), _pull(1.0)), _model({"load": Parameter(1e-12, "F")})),
    "d_pulldown": (Code((("out", "d"),), _pull(0.0)), _model({"load": Parameter(1e-12, "F")})),
    "d_buffer": (Code((("in", "d"), ("out", "d")), _logic(0, False)), _model(_GATE)),
    "d_inverter": (Code((("in", "d"), ("out", "d")), _logic(0, True)), _model(_GATE)),
    **{f"d_{'' if not inverts else 'x' if sort == 2 else 'n'}{word if not (inverts and sort == 2) else 'nor'}":
       (Code((("in*", "d"), ("out", "d")), _logic(sort, inverts)), _model(_GATE))
       for sort, word in enumerate(("and", "or", "xor")) for inverts in (False, True)},
}  # fmt: skip


def _parse(card: Card) -> list[Element]:
    if not card.rest:
        raise card.malformed()
    model = card.scope.model(card.rest[-1], tuple(CODES), card.name, card.at)
    code, _ = CODES[model.type]
    return code.build(card, model, _ports(card, code))


A = ElementType("a", "A port ... model, with several ports of one kind in brackets", 0, _parse,
                {name: model for name, (_, model) in CODES.items()})  # fmt: skip
