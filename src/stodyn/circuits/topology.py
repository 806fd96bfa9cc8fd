"""Faults of a circuit as a graph, reported by the names of its elements, before any number is computed.

floating      a node without any connection to ground
no DC path    a cut-set of capacitors and current sources: the charge on one side only grows (unless .tran has uic)
short loops   a loop of voltage sources
index 2       a loop of capacitors and voltage sources is resolved: the current of such a source is kept as the charge
              that it has delivered, `charged`

What simulators solve all the same is held, with a note: nodes that only inductors and current sources join to the
rest by HOLD to ground, those that only capacitors join to it by LEAK, the loose side of a transformer by LEASH,
inductors in loops with voltage sources by a series resistance at DC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import scipy

from stodyn.circuits.element import GROUND, Element
from stodyn.circuits.text import NetlistError
from stodyn.circuits.words import several

VOLTAGES = frozenset("veh")
LEAST = ".cmin"  # after the names of nodes: the capacitors of .options cmin
HELD = ".hold"
HOLD, LEAK, LEASH = 1e9, 1e12, 1.0  # Ω, without noise


def ends(element: Element) -> tuple[str, str]:
    """The two nodes an element carries current between."""
    return element.nodes[0], element.nodes[1]


def is_capacitive(element: Element) -> bool:
    return element.kind == "c" or (element.law is not None and element.law.stores)


def conducts(element: Element) -> bool:
    return element.kind in ("r", "g", "t") or (element.law is not None and element.law.conducts)


def check(netlist: Any, nodes: dict[str, int]) -> frozenset[str]:
    """The names of the sources whose charge stands for their current; NetlistError where the circuit cannot be run.

    `nodes` numbers all nodes, the ground included. Costs a few passes over the elements.
    """
    elements = [e for e in netlist.elements if e.nodes]
    uic = netlist.transient is not None and netlist.transient.uic
    _touched(netlist)
    piece = pieces(nodes, elements)
    loose = np.flatnonzero(piece != piece[nodes[GROUND]])
    if len(loose):
        names, here = list(nodes), [e for e in elements if nodes[e.nodes[0]] in set(loose.tolist())]
        at = here[0] if here else next(e for e in elements if names[loose[0]] in e.nodes)
        raise NetlistError(f"{several(names[i] for i in loose)}: no connection to ground (node 0), as at {at.name}",
                           at.at)  # fmt: skip
    short = _first_loop(nodes, [e for e in elements if e.kind in VOLTAGES])
    if short:
        raise NetlistError(f"a loop of voltage sources: {several(e.name for e in short)}; put a resistor into it",
                           short[0].at)  # fmt: skip
    if not uic:
        conducting = [e for e in elements if conducts(e) or e.kind in VOLTAGES or e.kind == "l"
                      or e.nodes[0] in netlist.resting]  # fmt: skip
        _refuse_cut(nodes, elements, conducting, "capacitors and current sources",
                    "at DC nothing determines {}; put a large resistor there, or start with .tran ... uic")  # fmt: skip
    return frozenset(_in_loops(nodes, elements))


def hold(netlist: Any) -> None:
    """Add resistors to ground where nothing but inductors and current sources joins a piece to the rest, and to the
    loose side of a transformer, from which no current can flow; with a note each."""
    nodes = {node: k for k, node in enumerate(dict.fromkeys(n for e in netlist.elements for n in e.nodes))}
    if GROUND not in nodes:
        return
    coupled = {name for e in netlist.elements if e.kind == "k" for name in e.source.split()}
    _hold_pieces(netlist, nodes, lambda e: True, lambda e, inside: e.name in coupled and inside, LEASH,
                 "to ground by the coupling of inductors")  # fmt: skip
    _hold_pieces(netlist, nodes, lambda e: conducts(e) or e.kind in VOLTAGES or is_capacitive(e),
                 lambda e, inside: e.kind in "li" and inside, HOLD,
                 "to the rest by inductors or current sources")  # fmt: skip
    if netlist.transient is None or not netlist.transient.uic:
        _hold_pieces(netlist, nodes, lambda e: not is_capacitive(e) or conducts(e), lambda e, inside: inside == 1, LEAK,
                     "to the rest by capacitors")  # fmt: skip


def _hold_pieces(
    netlist: Any, nodes: dict[str, int], joins: Callable[[Element], bool],
    is_cause: Callable[[Element, int], Any], ohms: float, why: str,
) -> None:  # fmt: skip
    """Hold a node of each piece that the joining elements leave loose, if there is a cause: an element that is known
    by how many of its ends lie in the piece."""
    elements, names = [e for e in netlist.elements if e.nodes], list(nodes)
    piece = pieces(nodes, [e for e in elements if joins(e)])
    for loose in dict.fromkeys(piece[piece != piece[nodes[GROUND]]].tolist()):
        here = {names[i] for i in np.flatnonzero(piece == loose)}
        cause = next((e for e in elements if is_cause(e, len(here.intersection(ends(e))))), None)
        if cause is not None and not (here & netlist.resting.keys()):
            node = next(end for end in ends(cause) if end in here)
            netlist.elements.append(Element(f"{node}{HELD}", "r", (node, GROUND), ohms, False, cause.at))
            netlist.notes.append(f"{cause.at}: {node} is joined {why} alone, as at {cause.name}; {ohms:g} ohm to "
                                 "ground, without noise, holds it")  # fmt: skip


def add_capacitors(netlist: Any) -> None:
    """Add the capacitance of .options cmin from each node that no capacitor and no voltage source joins to ground:
    white noise in time needs one there."""
    if not netlist.least_capacitance:
        return
    nodes = {node: k for k, node in enumerate(dict.fromkeys(n for e in netlist.elements for n in e.nodes))}
    stiff = [e for e in netlist.elements if e.nodes and e.kind in VOLTAGES]
    stored = [*stiff, *(e for e in netlist.elements if e.nodes and is_capacitive(e))]
    piece, group = pieces(nodes, stored), pieces(nodes, stiff)
    first = {group[k]: name for name, k in reversed(nodes.items()) if piece[k] != piece[nodes[GROUND]]}
    for node in first.values():
        at = next(e.at for e in netlist.elements if node in e.nodes)
        netlist.elements.append(Element(f"{node}{LEAST}", "c", (node, GROUND), netlist.least_capacitance, False, at))


def shorted(netlist: Any, nodes: dict[str, int]) -> list[str]:
    """The names of inductors that close loops with voltage sources and other inductors, which nothing limits at DC."""
    closing: list[str] = []
    while True:
        some = [e for e in netlist.elements if e.kind in VOLTAGES or (e.kind == "l" and e.name not in closing)]
        loop = _first_loop(nodes, sorted(some, key=lambda e: e.kind == "l"))
        if not loop or loop[0].kind != "l":
            return closing
        closing.append(loop[0].name)


def held_at_rest(elements: Sequence[Element]) -> frozenset[str]:
    """The nodes that voltage sources and inductors join to ground, which therefore hold them at rest."""
    nodes = {node: k for k, node in enumerate(dict.fromkeys(n for e in elements for n in e.nodes))}
    piece = pieces(nodes, [e for e in elements if e.kind in VOLTAGES or e.kind == "l"])
    return frozenset(node for node, k in nodes.items() if piece[k] == piece[nodes[GROUND]])


def _touched(netlist: Any) -> None:
    """Note nodes that only one element touches, often because of a misspelt name; refuse references to controlling
    sources that do not exist."""
    count: dict[str, list[Element]] = {}
    for element in netlist.elements:
        for node in set(element.nodes):
            count.setdefault(node, []).append(element)
    if GROUND not in count:
        raise NetlistError("no element is connected to ground: node 0 (or gnd) is missing", netlist.elements[0].at)
    for node, touching in count.items():
        if len(touching) == 1 and node != GROUND and touching[0].kind not in ("v", "i"):
            netlist.notes.append(f"{touching[0].at}: node {node} is touched by {touching[0].name} alone")
    sources = {e.name for e in netlist.elements if e.kind == "v"}
    for element in netlist.elements:
        if element.source and element.source not in sources and element.kind != "k" and element.law is None:
            raise NetlistError(f"{element.name}: there is no voltage source {element.source} to control it", element.at)
    for word, voltages in ((".ic", netlist.initial), (".nodeset", netlist.guesses)):
        for node, (_, at) in voltages.items():
            if node not in count:
                raise NetlistError(f"{word} v({node}): there is no node {node}", at)


def pieces(nodes: dict[str, int], elements: Sequence[Element]) -> np.ndarray:
    """Return, for each node, the number of the connected piece that it belongs to."""
    pairs = np.array([[nodes[a], nodes[b]] for a, b in map(ends, elements)], int).reshape(-1, 2)
    graph = scipy.sparse.coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), (len(nodes), len(nodes)))
    return scipy.sparse.csgraph.connected_components(graph, directed=False)[1]


def _refuse_cut(nodes, elements, connecting, what: str, why: str) -> None:
    """Refuse a piece of the circuit that the connecting elements do not connect to ground."""
    piece = pieces(nodes, connecting)
    ground = piece[nodes[GROUND]]
    names = list(nodes)
    loose = next((p for p in piece.tolist() if p != ground), None)
    if loose is None:
        return
    inside = {names[i] for i in np.flatnonzero(piece == loose)}
    across = [e for e in elements if len(inside.intersection(ends(e))) == 1]
    raise NetlistError(f"a cut-set of {what}: {several(e.name for e in across)}; {why.format(several(inside))}",
                       across[0].at if across else None)  # fmt: skip


def _first_loop(nodes: dict[str, int], elements: Sequence[Element]) -> list[Element]:
    """The elements of the first loop that these elements close; none where they are a forest."""
    parent = list(range(len(nodes)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    edges: dict[int, list[tuple[int, Element]]] = {}
    for element in elements:
        a, b = (nodes[end] for end in ends(element))
        if root(a) == root(b):
            return [element, *_path(edges, a, b)]
        parent[root(a)] = root(b)
        edges.setdefault(a, []).append((b, element))
        edges.setdefault(b, []).append((a, element))
    return []


def _path(edges: dict[int, list[tuple[int, Element]]], a: int, b: int) -> list[Element]:
    came: dict[int, tuple[int, Element]] = {}
    waiting = [a]
    for node in waiting:
        for other, element in edges.get(node, ()):
            if other != a and other not in came:
                came[other] = node, element
                waiting.append(other)
    elements: list[Element] = []
    while b != a:
        b, element = came[b]
        elements.append(element)
    return elements


def _in_loops(nodes: dict[str, int], elements: Sequence[Element]) -> Iterable[str]:
    """The voltage sources that lie in loops of voltage sources and capacitors: the edges that are not bridges.

    R. E. Tarjan's search for bridges (1974), written without recursion.
    """
    edges = [e for e in elements if e.kind in VOLTAGES or is_capacitive(e)]
    around: list[list[tuple[int, int]]] = [[] for _ in nodes]
    for k, (a, b) in enumerate(map(ends, edges)):
        around[nodes[a]].append((nodes[b], k))
        around[nodes[b]].append((nodes[a], k))
    entered, lowest, bridges = [-1] * len(nodes), [0] * len(nodes), set()
    clock = 0
    for start in range(len(nodes)):
        if entered[start] >= 0:
            continue
        entered[start] = lowest[start] = clock = clock + 1
        stack = [(start, -1, iter(around[start]))]
        while stack:
            node, by, rest = stack[-1]
            other, edge = next(rest, (-1, -1))
            if edge < 0:
                stack.pop()
                if stack:
                    before = stack[-1][0]
                    lowest[before] = min(lowest[before], lowest[node])
                    if lowest[node] > entered[before]:
                        bridges.add(by)
            elif edge != by:
                if entered[other] < 0:
                    entered[other] = lowest[other] = clock = clock + 1
                    stack.append((other, edge, iter(around[other])))
                else:
                    lowest[node] = min(lowest[node], entered[other])
    return (e.name for k, e in enumerate(edges) if e.kind in VOLTAGES and k not in bridges)
