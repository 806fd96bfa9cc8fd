"""Central sums of rows over the paths of a block, in machine code: the same bits on vectors of any width."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stodyn.numerics.printing import compiling, rows
from stodyn.numerics.printing.rows import Frame, Function, address
from stodyn.statistics.moments import Sums

PARTIAL = 8  # sums that are added up side by side
MOVING = ("seen", "weight", "total", "first", "second", "third", "fourth")  # other ones for each save
FRAME = (*MOVING, "rows", "count", "lanes", "stride", "deviations", "pairs", "apart")


def central_sums(
    saved: np.ndarray, wanted: np.ndarray, weight: np.ndarray | None, look: np.ndarray, products: bool = True,
    crosses: bool = False,
) -> Sums:  # fmt: skip
    """Central sums of the rows numbered `wanted` of `saved` (saves, rows, lanes) at the saves numbered `look`, with the
    weights (saves, lanes) of the paths. No weights are weights of one, to the bit, and take half the time.

    Lanes of weight 0 are left out whatever they hold. Two passes: the means, then Σ w (x - mean)^k. Means are taken
    about the first lane, where it counts, so that equal numbers have no variance. Without `products` those of different
    rows are left out; with `crosses` they have the higher sums too.
    """
    lanes, saves, n = saved.shape[2], len(look), len(wanted)
    higher = (n, n) if crosses else (n,)
    shapes = {"total": (), "first": (n,), "second": (n, n) if products else (n,), "third": higher, "fourth": higher}
    sizes = [math.prod(shape) for shape in shapes.values()]
    sums = [np.zeros((saves, *shape)) for shape in shapes.values()]
    frame, function = Frame(FRAME), _machine(weight is not None, crosses)["sums"]
    frame.set(rows=np.ascontiguousarray(wanted, np.int64), count=n, lanes=lanes, stride=lanes,
              deviations=np.empty((n, lanes)), pairs=int(products), apart=n + 1 if products else 1)  # fmt: skip
    here = [address(array) for array in (saved, saved if weight is None else weight, *sums)]
    per_save = (saved.strides[0], 0 if weight is None else weight.strides[0]), [8 * size for size in sizes]
    for k, save in enumerate(look.tolist()):
        places = [save * stride for stride in per_save[0]] + [k * stride for stride in per_save[1]]
        frame.words[: len(MOVING)] = [base + place for base, place in zip(here, places, strict=True)]
        function(frame.address)
    return Sums(*sums)


@compiling.once
def _machine(weighted: bool, crosses: bool) -> compiling.Machine:
    return compiling.compiled(rows.module([_function(weighted, crosses)]), ["sums"], **compiling.effort(0))


def over_lanes(w: Function, terms: Callable[[str], list[str]], count: int, dtype: str = "float64") -> list[str]:
    """Sums over the lanes of the vectors that terms(lane) gives: eight partial sums, then these in their order."""
    vector, (op, begin) = w.type(dtype), {"float64": ("fadd", "double 0.0, "), "int64": ("add", "")}[dtype]
    before, head, body, end = w.block, w.fresh("head"), w.fresh("body"), w.fresh("end")
    lane, following = f"%{w.fresh('lane')}", f"%{w.fresh('lane')}"
    totals = [f"%{w.fresh('sum')}" for _ in range(count)]
    w.jump(head)
    w.open(head)
    place = len(w.lines)
    w.lines += [""] * (count + 1)
    w.branch(w.value(f"icmp slt i64 {lane}, {w.count('lanes')}"), body, end)
    w.open(body)
    after = [w.value(f"{op} {vector} {total}, {term}") for total, term in zip(totals, terms(lane), strict=True)]
    w.emit(f"{following} = add nsw i64 {lane}, {PARTIAL}")
    w.lines[place] = f"  {lane} = phi i64 [ 0, %{before} ], [ {following}, %{w.block} ]"
    for k, (total, new) in enumerate(zip(totals, after, strict=True)):
        w.lines[place + 1 + k] = f"  {total} = phi {vector} [ zeroinitializer, %{before} ], [ {new}, %{w.block} ]"
    w.jump(head)
    w.open(end)
    one, short = ("double", "f64") if dtype == "float64" else ("i64", "i64")
    return [w.value(f"call {one} @llvm.vector.reduce.{op}.v{PARTIAL}{short}({begin}{vector} {t})") for t in totals]


def _function(weighted: bool, crosses: bool) -> Function:
    w = Function("sums", PARTIAL, FRAME)
    vector, mask = w.type("float64"), w.type("bool")
    stride = w.whole("mul", w.count("stride"), 8)

    def summed(terms: Callable[[str], list[str]], count: int) -> list[str]:
        return over_lanes(w, terms, count)

    def weight(lane: str) -> str:
        return w.load(w.at(w.address("weight"), lane, 8), vector)

    def times_weight(lane: str, x: str) -> str:
        return w.value(f"fmul {vector} {weight(lane)}, {x}") if weighted else x

    def counted(lane: str, x: str) -> str:
        """x where the lane counts, 0 where it does not."""
        if not weighted:
            return x
        counts = w.value(f"fcmp ogt {vector} {weight(lane)}, zeroinitializer")
        return w.value(f"select {mask} {counts}, {vector} {x}, {vector} zeroinitializer")

    def row(number: str) -> str:
        return w.at(w.address("seen"), w.whole("mul", w.load(w.at(w.address("rows"), number, 8), "i64"), stride))

    if weighted:
        (total,) = summed(lambda lane: [weight(lane)], 1)
        first_counts = w.value(f"fcmp ogt double {w.load(w.address('weight'), 'double')}, 0.0")
    else:
        total, first_counts = w.value(f"sitofp i64 {w.count('lanes')} to double"), "true"
    w.store(total, w.address("total"), "double")
    least = f"0x{np.finfo(float).tiny.view(np.uint64):016X}"
    share = w.value(f"call double @llvm.maxnum.f64(double {total}, double {least})")
    with w.counted(0, w.count("count")) as i:
        here, deviations = row(i), w.at(w.address("deviations"), w.whole("mul", i, stride))

        origin = w.value(f"select i1 {first_counts}, double {w.load(here, 'double')}, double 0.0")
        origins = w.spread(origin, "float64")

        def from_origin(lane: str) -> list[str]:
            x = w.value(f"fsub {vector} {w.load(w.at(here, lane, 8), vector)}, {origins}")
            return [counted(lane, times_weight(lane, x))]

        (first,) = summed(from_origin, 1)
        mean = w.value(f"fadd double {origin}, {w.value(f'fdiv double {first}, {share}')}")
        w.store(mean, w.at(w.address("first"), i, 8), "double")
        level = w.spread(mean, "float64")

        def powers(lane: str) -> list[str]:
            d = counted(lane, w.value(f"fsub {vector} {w.load(w.at(here, lane, 8), vector)}, {level}"))
            w.store(d, w.at(deviations, lane, 8), vector)
            square = w.value(f"fmul {vector} {d}, {d}")
            second = times_weight(lane, square)
            return [second, w.value(f"fmul {vector} {second}, {d}"), w.value(f"fmul {vector} {second}, {square}")]

        second, third, fourth = summed(powers, 3)
        higher = w.whole("mul", i, w.count("apart")) if crosses else i
        w.store(third, w.at(w.address("third"), higher, 8), "double")
        w.store(fourth, w.at(w.address("fourth"), higher, 8), "double")
        n = w.count("count")
        w.store(second, w.at(w.address("second"), w.whole("mul", i, w.count("apart")), 8), "double")
        with w.counted(0, w.whole("mul", i, w.count("pairs"))) as j:
            other = w.at(w.address("deviations"), w.whole("mul", j, stride))

            def products(lane: str) -> list[str]:
                a, b = (w.load(w.at(base, lane, 8), vector) for base in (deviations, other))
                both = w.value(f"fmul {vector} {a}, {b}")
                second = times_weight(lane, both)
                return [second, *(w.value(f"fmul {vector} {second}, {x}") for x in (a, b, both) if crosses)]

            both, *more = summed(products, 4 if crosses else 1)
            for k, (row_number, column) in enumerate(((i, j), (j, i))):
                place = w.whole("add", w.whole("mul", row_number, n), column)
                own = {"second": both} | ({"third": more[k], "fourth": more[2]} if crosses else {})
                for name, value in own.items():
                    w.store(value, w.at(w.address(name), place, 8), "double")
    return w
