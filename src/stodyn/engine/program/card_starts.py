"""Starts that are functions of normal numbers, drawn on a card: one thread for each path writes its rows."""

from __future__ import annotations

import numpy as np

from stodyn.engine.program.card import Card, Launch
from stodyn.engine.program.kernel import Kernel, module, normal_pair, normal_pair_function
from stodyn.noise.from_normals import STREAM, FromNormals
from stodyn.numerics.printing import scalars
from stodyn.numerics.printing.fingerprints import fingerprint
from stodyn.numerics.printing.llvm import Printer
from stodyn.numerics.printing.nodes import Graph

_loaded: dict[tuple[Card, str], Launch] = {}


def loaded(card: Card, start: FromNormals) -> Launch:
    """launch("starts", blocks, threads, frame); raises Unprintable."""
    key = card, fingerprint(start.trace)
    if key not in _loaded:
        _loaded[key] = card.loaded(text(start, card.group), ["starts"])
    return _loaded[key]


def text(start: FromNormals, group: int) -> str:
    graph = Graph()
    z = [graph.input(("normals", k), np.float64) for k in range(start.normals)]
    (start_values,) = scalars.scalarised(start.trace, scalars.unflatten(z, [(start.normals,)]), graph)
    entries = scalars.flatten([start_values])
    w = Kernel("starts", group, 1)
    lane = w.whole("add", w.whole("mul", w.block_number, group), w.tid)
    path = w.whole("add", w.count("first_path"), lane)
    pairs = [normal_pair(w, STREAM, path, str(k)) for k in range(-(-start.normals // 2))]
    normals = [half for pair in pairs for half in pair]
    printer = Printer(w, entries, lambda node: normals[node.attr[1]])
    w.operations = len(printer.nodes)
    for k, entry in enumerate(entries):
        row = w.at(w.address("start"), w.whole("mul", w.whole("mul", w.count("stride"), 8), k))
        w.store(printer.read(entry), w.at(row, lane, 8), "double")
    return "\n".join([normal_pair_function(), module([w], 1)])
