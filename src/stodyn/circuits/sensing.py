"""Currents that controlled sources and expressions read, of elements whose current is no unknown.

A source of 0 V in series with such an element, at its first node, carries its current: i(r1) becomes i(r1.current).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stodyn.circuits.element import Element
from stodyn.circuits.text import NetlistError
from stodyn.circuits.waveforms import Waveform

BRANCHES = frozenset("vehl")  # kinds whose current is an unknown
SUFFIX = ".current"


def with_sensors(elements: Sequence[Element], terminals: Mapping[str, tuple[str, ...]]) -> list[Element]:
    """The elements, with a sensor in each whose current is read; `terminals` are the nodes of every element by name."""
    known = {e.name for e in elements if e.kind in BRANCHES}
    wanted = {name: e for e in elements for name in _read(e) if name not in known and name in terminals}
    for name, reader in wanted.items():
        if len(terminals[name]) != 2:
            raise NetlistError(
                f"{reader.name}: {name} has {len(terminals[name])} nodes, so that i({name}) says too little; put a V "
                "source of 0 V where the current flows, and read that",
                reader.at,
            )
    return [*(_moved(e, wanted, terminals) for e in elements),
            *(_sensor(name, terminals[name], reader) for name, reader in wanted.items())]  # fmt: skip


def _read(e: Element) -> list[str]:
    """The elements whose currents an element reads."""
    names = [end[2:-1] for pair in e.reads for end in pair if end.startswith("i(")]
    return [*names, e.source] if e.kind in "fh" and e.source else names


def _sensor(name: str, nodes: tuple[str, ...], reader: Element) -> Element:
    return Element(name + SUFFIX, "v", (nodes[0], name + SUFFIX), Waveform(0.0), False, reader.at)


def _moved(e: Element, wanted: Mapping[str, Element], terminals: Mapping[str, tuple[str, ...]]) -> Element:
    """An element that reads sensors, and hangs at them with its first node where it is read itself."""
    pairs = [[f"i({end[2:-1]}{SUFFIX})" if end[2:-1] in wanted and end.startswith("i(") else end for end in pair]
             for pair in e.reads]  # fmt: skip
    e = e._replace(reads=tuple((a, b) for a, b in pairs))
    if e.kind in "fh" and e.source in wanted:
        e = e._replace(source=e.source + SUFFIX)
    owner = next((name for name in (e.name, e.name.rpartition(".")[0]) if name in wanted), None)
    if owner is None or not e.nodes:
        return e
    first = terminals[owner][0]
    ends = tuple(owner + SUFFIX if node == first else node for node in e.nodes[:2])
    return e._replace(nodes=(*ends, *e.nodes[2:]))
