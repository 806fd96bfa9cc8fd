"""One circuit for many values of its parameters: the numbers that vary are data of the run, `params["devices"]`.

The netlist is laid out at several values; a part whose numbers differ gets a law that reads them:
    R  i = u/R          C  q = C u/C₀ on its nominal C₀      G, F  i = gain · control
    L, E, H, V          nominal, the equation of their branch changed by (1 - L₀/L) u, (gain - gain₀) ..., V - V₀
Devices have their numbers in laws already. The equations, and so the program of a run, are the same for all values.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stodyn.circuits import points
from stodyn.circuits.assembly import OVER_UNIT, Group, Network, assemble
from stodyn.circuits.devices import BOLTZMANN, Law, Numbers
from stodyn.circuits.element import GROUND, Element, is_node
from stodyn.circuits.netlist import Netlist, laid_out
from stodyn.circuits.operating_point import operating_point
from stodyn.circuits.text import NetlistError
from stodyn.circuits.waveforms import Waveform
from stodyn.noise.distribution import Distribution
from stodyn.noise.stream import generator

PROBES = ((0.31, 0.618), (0.79, 0.414), (0.56, 0.732))  # the places between quantiles at which the netlist is laid out
PART = 1024  # the number of paths whose values are drawn in one batch
ROUNDS, SETTLED = 60, 1e-10  # iterations and tolerance of Newton's method for the starts of all paths

RESISTOR = Law(
    "resistor that varies", lambda read, p, xp: p["size"] * read[0],
    lambda read, p, xp: 2.0 * BOLTZMANN * p.kelvin * p["size"] + 0.0 * read[0], "thermal",
)  # fmt: skip
CAPACITOR = Law("capacitor that varies", lambda read, p, xp: 1.0 * read[0], stores=True, conducts=False, monotone=True)
GAIN = Law("gain that varies", lambda read, p, xp: p["size"] * read[0])
CHANGE = Law("change of a branch", lambda read, p, xp: p["size"] * read[0])
OFFSET = Law("change of a source", lambda read, p, xp: p["size"] + 0.0 * read[0])


def _scalars(e: Element) -> tuple[float, ...]:
    """Return all numbers of a part."""
    if isinstance(e.value, Mapping):
        return tuple(e.value.values())
    if isinstance(e.value, Waveform):
        return (np.nan if e.value.dc is None else e.value.dc, *e.value.numbers, *e.value.small_signal)
    return (float(e.value),)


def _same_structure(a: Element, b: Element) -> bool:
    laws = (a.law and a.law.name) == (b.law and b.law.name)
    return a._replace(value=0, law=None) == b._replace(value=0, law=None) and laws


class Family:
    """The circuits of a deck whose random values vary."""

    def __init__(self, netlist: Netlist, random: Mapping[str, Distribution]):
        self.deck, self.fixed, self.random = netlist.deck, dict(netlist.overrides.values), dict(random)
        self.usual = netlist
        self.varying: set[str] = set()
        probed = []
        for shift, stride in PROBES:
            levels = [0.25 + 0.5 * ((shift + stride * k) % 1.0) for k in range(len(self.random))]
            values = {name: float(law.ppf(u)) for u, (name, law) in zip(levels, self.random.items(), strict=True)}
            probed.append(self.elements(values))
            self.varying |= self._differing(probed[-1])
        self.probed = [self._parts(elements) for elements in probed]

    @property
    def token(self) -> int:
        """The number of the networks of this family."""
        return self.network.token

    def _parts(self, elements: Sequence[Element]) -> dict[str, Element]:
        """The parts that replace those that vary, by name."""
        pairs = zip(elements, self.usual.elements, strict=True)
        return {p.name: p for e, usual in pairs if e.name in self.varying for p in self._lifted(e, usual) if p.law}

    def elements(self, values: Mapping[str, float]) -> list[Element]:
        """The parts of the netlist at these values, after a check that its structure is the same."""
        elements = laid_out(self.deck, {**self.fixed, **values}).elements
        pairs = zip(elements, self.usual.elements, strict=False)
        odd = next((e for e, usual in pairs if not _same_structure(e, usual)), None)
        if odd is not None or len(elements) != len(self.usual.elements):
            where = odd or elements[-1]
            raise NetlistError(
                f"{where.name}: at {_shown(values)} the circuit has other parts than at its nominal values; keep "
                "random values away from where a part appears or vanishes", where.at)  # fmt: skip
        return elements

    def _differing(self, elements: Sequence[Element]) -> set[str]:
        return {
            e.name for e, usual in zip(elements, self.usual.elements, strict=True)
            if not np.array_equal(_scalars(e), _scalars(usual), equal_nan=True)
        }  # fmt: skip

    @functools.cached_property
    def network(self) -> Network:
        """The arrays at the nominal values, with a law for each part that varies."""
        parts = [part for e in self.usual.elements for part in self._lifted(e, e)]
        coupled = {name for e in self.usual.elements if e.kind == "k" for name in e.source.split()}
        wrong = next((e for e in self.usual.elements if e.kind == "l" and e.name in self.varying & coupled), None)
        if wrong is not None:
            raise NetlistError(f"{wrong.name}: is coupled by K and may not be random; scale its load instead", wrong.at)
        network = assemble(dataclasses.replace(self.usual, elements=parts))
        charges = tuple(
            dataclasses.replace(g, numbers=Numbers({**g.numbers.of, OVER_UNIT: np.ones(len(g.elements))},
                                                   g.numbers.kelvin)) for g in network.charges
        )  # fmt: skip
        return dataclasses.replace(network, charges=charges)

    def _lifted(self, e: Element, usual: Element) -> list[Element]:
        """The laws of a part that varies; `usual` is the same part at its nominal value."""
        if e.name not in self.varying or e.law is not None:
            return [e]
        plain = {"kf": 0.0, "af": 1.0}
        ends = e.nodes[:2]
        if e.kind == "r":
            return [_law_part(e, RESISTOR, ends, (ends,), {**plain, "size": 1.0 / e.value})]
        if e.kind == "c":
            return [_law_part(e, CAPACITOR, ends, (ends,), {**plain, "unit": e.value}, noisy=False)]
        if e.kind == "g":
            return [_law_part(e, GAIN, ends, (e.nodes[2:4],), {**plain, "size": e.value}, noisy=False)]
        if e.kind == "f":
            return [
                _law_part(
                    e, GAIN, ends, ((f"i({e.source})", GROUND),), {**plain, "size": e.value}, noisy=False, source=""
                )
            ]
        if e.kind in ("l", "e", "h"):
            read = ((f"i({e.source})", GROUND),) if e.kind == "h" else (e.nodes[2:4] if e.kind == "e" else ends,)
            size = 1.0 - usual.value / e.value if e.kind == "l" else e.value - usual.value
            return [usual, _branch_part(e, CHANGE, read, {**plain, "size": size})]
        if e.kind in ("v", "i") and e.value._replace(dc=None) == usual.value._replace(dc=None) and not e.value.kind:
            if e.kind == "v":
                return [usual, _branch_part(e, OFFSET, (ends,), {**plain, "size": e.value.dc - usual.value.dc})]
            size = {**plain, "size": e.value.dc - usual.value.dc}
            return [usual, _law_part(e, OFFSET, ends, (ends,), size, ".change", noisy=False)]
        what = "a waveform" if e.kind in ("v", "i") else "its coefficient"
        raise NetlistError(f"{e.name}: {what} may not be random; a random E, G or R behind it may", e.at)

    @functools.cached_property
    def places(self) -> list[tuple[str, int, str, np.ndarray]]:
        """(groups or charges, index, name of a number, parts) of each number that varies, in the order of the data."""
        places = []
        for kind in ("groups", "charges"):
            for k, group in enumerate(getattr(self.network, kind)):
                parts = np.array([i for i, e in enumerate(group.elements) if e.name in self.probed[0]], int)
                keys = [key for key in group.numbers.of if key not in ("unit", OVER_UNIT) and any(
                    some[group.elements[i].name].value[key] != group.elements[i].value[key]
                    and not np.isnan(group.elements[i].value[key]) for i in parts for some in self.probed)]  # fmt: skip
                keys += ["unit", OVER_UNIT] if kind == "charges" else []
                places += [(kind, k, key, parts) for key in keys if len(parts)]
        return places

    def numbers(self, values: Mapping[str, float]) -> np.ndarray:
        """Return the numbers that a run reads, at these values of the random parameters."""
        own = self.elements(values)
        parts = self._parts(own)
        odd = self._differing(own) - self.varying
        data, listed = [], set[tuple[str, str]]()
        for kind, k, key, which in self.places:
            elements = getattr(self.network, kind)[k].elements
            for i in which:
                usual, now = elements[i].value, parts[elements[i].name].value
                data.append(now["unit"] / usual["unit"] if key == OVER_UNIT else now[key])
                listed.add((elements[i].name, key))
        for kind in ("groups", "charges"):
            for e in (e for group in getattr(self.network, kind) for e in group.elements if e.name in parts):
                now = parts[e.name].value
                changed = (key for key, value in e.value.items() if now[key] != value and not np.isnan(value))
                odd |= {e.name for key in changed if (e.name, key) not in listed and key in now}
        if odd:
            raise NetlistError(f"{min(odd)}: changes at {_shown(values)} but not near the nominal values; spread the "
                               "random values less, or write the expression without a corner")  # fmt: skip
        return np.array(data)

    def at(self, data: Any, xp: Any) -> Network:
        """The network with the numbers (..., len(data)) of a run."""
        changed: dict[tuple[str, int], dict[str, Any]] = {}
        first = 0
        for kind, k, key, which in self.places:
            group: Group = getattr(self.network, kind)[k]
            some = data[..., first : first + len(which)]
            first += len(which)
            usual = group.numbers.of[key]
            if xp is np:
                whole = np.broadcast_to(usual, (*some.shape[:-1], len(usual))).copy()
                whole[..., which] = some
            else:
                whole = xp.asarray(usual).at[which].set(some)
            changed.setdefault((kind, k), {})[key] = whole
        parts = {}
        for kind in ("groups", "charges"):
            groups = list(getattr(self.network, kind))
            for k, group in enumerate(groups):
                if (kind, k) in changed:
                    of = {**group.numbers.of, **changed[kind, k]}
                    numbers = Numbers(of, group.numbers.kelvin, group.numbers.of)
                    groups[k] = dataclasses.replace(group, numbers=numbers)
            parts[kind] = tuple(groups)
        return dataclasses.replace(self.network, **parts)  # type: ignore[arg-type]

    def draws(self, paths: int, seed: int) -> dict[str, np.ndarray]:
        """Random values (paths,) by name: functions of the seed and the path's number."""
        draws = {}
        for k, (name, law) in enumerate(self.random.items()):
            parts = [law.ppf(generator(seed, part, "params", 1 + k).random(PART)) for part in range(-(-paths // PART))]
            draws[name] = np.concatenate(parts)[:paths]
        return draws

    def data(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the numbers that each path reads, (paths, ...), from its values of the random parameters."""
        paths = len(next(iter(draws.values())))
        rows = [self.numbers({name: float(values[i]) for name, values in draws.items()}) for i in range(paths)]
        return np.array(rows).reshape(paths, -1)

    def starts(self, data: np.ndarray, start: np.ndarray, held: Mapping[int, float] | None) -> np.ndarray:
        """Operating points (paths, n) at t = 0 with the numbers of each path and the nodes of `held` at their voltages.

        Where `held` is None each path has the state `start`, with the charges that belong to it.
        """
        network = self.at(data, np)
        x = np.tile(start, (len(data), 1))
        if held is not None:
            x = _settled(network, x, held)
            bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
            for i in bad:
                one = self.at(data[i], np)
                x[i] = operating_point(one, one.sources.values(0.0, np), dict(held)).x
            x[:, [network.branches[name] for name in network.charged]] = 0.0
        grounded = np.concatenate([x, np.zeros((len(x), 1))], axis=1)
        for group in network.charges:
            x[:, group.rows] = group.value(grounded, np)
        return x


def _settled(network: Network, x: np.ndarray, held: Mapping[int, float]) -> np.ndarray:
    """Newton's method on f = 0 at DC from x, all paths together; NaN where it does not settle."""
    at_rest = network.at_rest
    times, rows = np.zeros(len(x)), list(held)
    states = np.full_like(x, np.nan)
    going = x.copy()
    for _ in range(ROUNDS):
        f, J = points.rates(at_rest, times, going), points.slopes(at_rest, going)
        if rows:
            J[:, rows] = np.eye(network.n)[rows]
            f[:, rows] = going[:, rows] - np.array([held[row] for row in rows])
        scale = np.abs(J).max(axis=2, keepdims=True)
        try:
            move = np.linalg.solve(J / scale, (f[..., None] / scale))[..., 0]
        except np.linalg.LinAlgError:
            return states
        volts = len(network.nodes)
        size = np.abs(move[:, :volts]).max(axis=1)
        done = size <= SETTLED * (1.0 + np.abs(going[:, :volts]).max(axis=1))
        going = going - move * np.minimum(1.0, 0.5 / np.maximum(size, 1e-300))[:, None]
        if done.all():
            break
    states[done] = going[done]
    return states


def _law_part(e: Element, law: Law, ends: Any, reads: Any, value: dict[str, float], suffix: str = "",
              **more: Any) -> Element:  # fmt: skip
    nodes = tuple(dict.fromkeys((*ends, *(end for pair in reads for end in pair if is_node(end)))))
    return e._replace(
        name=e.name + suffix, kind=law.name, nodes=nodes, value=value, law=law, reads=tuple(reads), **more
    )


def _branch_part(e: Element, law: Law, reads: Any, value: dict[str, float]) -> Element:
    part = _law_part(e, law, (GROUND, GROUND), reads, value, ".change", noisy=False, source=e.name)
    return part._replace(nodes=(GROUND, GROUND, *part.nodes[1:]))


def _shown(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in list(values.items())[:6])
