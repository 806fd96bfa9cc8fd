"""How many paths of a block lie below each of some edges, in machine code."""

from __future__ import annotations

import numpy as np

from stodyn.engine.program.sums import PARTIAL, over_lanes
from stodyn.numerics.printing import compiling, rows
from stodyn.numerics.printing.rows import Frame, Function, address

EDGES_AT_ONCE = 4  # edges that numbers are compared with while they are in registers
FRAME = ("seen", "sound", "lanes", "stride", "rows", "edges", "groups", "counted", "found")


def below(
    saved: np.ndarray, n: int, sound: np.ndarray, look: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How many of the lanes that are sound (saves, lanes) lie below each edge in the first n rows of `saved` (saves,
    rows, lanes), at the saves numbered `look`: (saves, n, edges), and how many are sound: (saves,)."""
    lanes, count = saved.shape[2], len(edges)
    padded = np.append(np.asarray(edges, float), np.full(-count % EDGES_AT_ONCE, np.inf))
    counts = np.empty((len(look), n, padded.size), np.int64)
    frame, function = Frame(FRAME), _machine()["counts"]
    frame.set(edges=padded, groups=padded.size // EDGES_AT_ONCE, rows=n, lanes=lanes, stride=lanes,
              counted=np.empty(lanes))  # fmt: skip
    here, into = address(saved), address(counts)
    for k, save in enumerate(look.tolist()):
        frame.set(
            seen=here + save * saved.strides[0], sound=sound[save].astype(float), found=into + k * counts.strides[0]
        )
        function(frame.address)
    return np.ascontiguousarray(counts[:, :, :count]), sound[look].sum(axis=1)


@compiling.once
def _machine() -> compiling.Machine:
    return compiling.compiled(rows.module([_function()]), ["counts"], **compiling.effort(0))


def _function() -> Function:
    """Write the program; lanes that are not sound count as infinite, below no edge."""
    w = Function("counts", PARTIAL, FRAME)
    vector, mask, whole = w.type("float64"), w.type("bool"), w.type("int64")
    infinite = w.spread("0x7FF0000000000000", "float64")
    with w.counted(0, w.count("rows")) as i:
        row = w.at(w.address("seen"), w.whole("mul", i, w.whole("mul", w.count("stride"), 8)))
        with w.counted(0, w.count("lanes"), PARTIAL) as lane:
            x, own = (w.load(w.at(base, lane, 8), vector) for base in (row, w.address("sound")))
            counts = w.value(f"fcmp ogt {vector} {own}, zeroinitializer")
            counted = w.value(f"select {mask} {counts}, {vector} {x}, {vector} {infinite}")
            w.store(counted, w.at(w.address("counted"), lane, 8), vector)
        with w.counted(0, w.count("groups")) as group:
            first = w.whole("mul", group, EDGES_AT_ONCE)
            places = [w.whole("add", first, k) for k in range(EDGES_AT_ONCE)]
            edges = [w.load(w.at(w.address("edges"), place, 8), "double") for place in places]
            levels = [w.spread(edge, "float64") for edge in edges]

            def terms(lane: str, levels: list[str] = levels) -> list[str]:
                x = w.load(w.at(w.address("counted"), lane, 8), vector)
                tests = [w.value(f"fcmp olt {vector} {x}, {level}") for level in levels]
                return [w.value(f"zext {mask} {test} to {whole}") for test in tests]

            width = w.whole("mul", w.count("groups"), EDGES_AT_ONCE)
            beginning = w.whole("mul", i, width)
            for place, total in zip(places, over_lanes(w, terms, EDGES_AT_ONCE, "int64"), strict=True):
                w.store(total, w.at(w.address("found"), w.whole("add", beginning, place), 8), "i64")
    return w
