"""Central sums of many numbers of each path, from their rows on a card: kernels that serve any number of them.

A save is a set of rows over the paths, the last of which is 1 where a path is sound. For each save, a block of threads
takes the mean of a row, another its higher powers, another the products of TILE rows with TILE others.
"""

from __future__ import annotations

import functools

from stodyn.engine.program.card import Card, Launch
from stodyn.engine.program.kernel import ALONE, JOINING, Kernel, module
from stodyn.numerics.printing.rows import Function

TILE = 8


def tiles(count: int) -> int:
    """The number of tiles of `count` rows."""
    return -(-count // TILE)


@functools.cache
def loaded(card: Card) -> Launch:
    threads = ALONE if card.joining == ALONE else JOINING
    functions: list[Function] = [_means(threads), _powers(threads), _products(threads)]
    return card.loaded(module(functions, TILE**2), ["means", "powers", "products"])


class _OfSaves(Kernel):
    """A kernel of blocks numbered (save, number): `frame.rows` lists the rows, `seen` holds `blocks` of them per save.

    Totals are laid out as kernels of paths leave them: count, means, second (i >= j), third, fourth; of the second
    ones, of which `frame.seconds` tells how many there are, those with i = j alone where products are not wanted.
    """

    def __init__(self, name: str, threads: int):
        super().__init__(name, threads, TILE**2)

    def split(self, number: str, by: str) -> tuple[str, str]:
        return self.whole("sdiv", number, by), self.whole("srem", number, by)

    def row(self, save: str, k: str) -> str:
        """The address of row number k of a save."""
        place = self.whole("add", self.whole("mul", save, self.count("blocks")), k)
        return self.at(self.address("seen"), self.whole("mul", place, self.count("stride")), 8)

    def numbered(self, save: str, i: str) -> str:
        """The address of the row that is number i of the list."""
        return self.row(save, self.load(self.at(self.address("rows"), i, 8), "i64"))

    def sound(self, save: str) -> str:
        return self.row(save, self.whole("sub", self.count("blocks"), 1))

    def total(self, save: str, k: str) -> str:
        """The address of total k of a save."""
        n = self.count("count")
        size = self.whole("add", self.whole("add", self.count("seconds"), self.whole("mul", n, 3)), 1)
        return self.at(self.address("totals"), self.whole("add", self.whole("mul", save, size), k), 8)

    def second(self, i: str, j: str) -> str:
        """The number of the total of rows i >= j."""
        first = self.whole("add", self.count("count"), 1)
        row = self.whole("sdiv", self.whole("mul", i, self.whole("add", i, 1)), 2)
        return self.whole("add", first, self.whole("add", row, j))

    def diagonal(self, i: str) -> str:
        """The number of the total of row i with itself, whichever of the second ones there are."""
        alone = self.value(f"icmp eq i64 {self.count('seconds')}, {self.count('count')}")
        own = self.whole("add", self.whole("add", self.count("count"), 1), i)
        return self.value(f"select i1 {alone}, i64 {own}, i64 {self.second(i, i)}")

    def mean(self, save: str, i: str) -> str:
        return self.load(self.total(save, self.whole("add", i, 1)), "double")

    def distance(self, row: str, is_sound: str, lane: str, mean: str = "0.0") -> str:
        """A path's distance from the mean, 0 where it is not sound."""
        apart = self.value(f"fsub double {self.load(self.at(row, lane, 8), 'double')}, {mean}")
        return self.value(f"select i1 {is_sound}, double {apart}, double 0.0")

    def is_sound(self, sound: str, lane: str) -> str:
        return self.value(f"fcmp ogt double {self.load(self.at(sound, lane, 8), 'double')}, 0.0")


def _means(threads: int) -> Function:
    w = _OfSaves("means", threads)
    save, i = w.split(w.block_number, w.count("count"))
    row, sound = w.numbered(save, i), w.sound(save)

    def terms(lane: str) -> list[str]:
        return [w.load(w.at(sound, lane, 8), "double"), w.distance(row, w.is_sound(sound, lane), lane)]

    count, first = w.block_sums(w.thread_sums("paths", 2, terms))
    w.means(
        count,
        [first],
        lambda k, value: w.store(value, w.total(save, w.whole("mul", k, w.whole("add", i, 1))), "double"),
    )
    return w


def _powers(threads: int) -> Function:
    w = _OfSaves("powers", threads)
    n = w.count("count")
    save, i = w.split(w.block_number, n)
    row, sound, mean = w.numbered(save, i), w.sound(save), w.mean(save, i)

    def terms(lane: str) -> list[str]:
        d = w.distance(row, w.is_sound(sound, lane), lane, mean)
        square = w.value(f"fmul double {d}, {d}")
        return [square, w.value(f"fmul double {square}, {d}"), w.value(f"fmul double {square}, {square}")]

    higher = w.whole("add", w.whole("add", w.whole("add", n, 1), w.count("seconds")), i)

    def leave(k: str, total: str) -> None:
        """The second sum on the diagonal, the third and the fourth n apart behind all seconds."""
        place = w.whole("add", higher, w.whole("mul", n, w.whole("sub", k, 1)))
        is_second = w.value(f"icmp eq i64 {k}, 0")
        chosen = w.value(f"select i1 {is_second}, i64 {w.diagonal(i)}, i64 {place}")
        w.store(total, w.total(save, chosen), "double")

    w.leave_sums(w.thread_sums("paths", 3, terms), leave)
    return w


def _products(threads: int) -> Function:
    w = _OfSaves("products", threads)
    n = w.count("count")
    side = w.whole("sdiv", w.whole("add", n, TILE - 1), TILE)
    save, tile = w.split(w.block_number, w.whole("mul", side, side))
    corners = [w.whole("mul", k, TILE) for k in w.split(tile, side)]
    sound, last = w.sound(save), w.whole("sub", n, 1)

    def numbers(first: str) -> list[str]:
        """TILE rows from `first` on; the last row stands for those behind it."""
        products = []
        for k in range(TILE):
            i = w.whole("add", first, k)
            products.append(w.value(f"select i1 {w.value(f'icmp slt i64 {i}, {n}')}, i64 {i}, i64 {last}"))
        return products

    def whole_tile() -> None:
        sides = [[(w.numbered(save, i), w.mean(save, i)) for i in numbers(first)] for first in corners]

        def terms(lane: str) -> list[str]:
            here = w.is_sound(sound, lane)
            left, right = ([w.distance(row, here, lane, mean) for row, mean in rows] for rows in sides)
            return [w.value(f"fmul double {a}, {b}") for a in left for b in right]

        def leave(k: str, total: str) -> None:
            i, j = (w.whole("add", first, part) for first, part in zip(corners, w.split(k, str(TILE)), strict=True))
            is_there = w.value(f"and i1 {w.value(f'icmp slt i64 {i}, {n}')}, {w.value(f'icmp sle i64 {j}, {i}')}")
            w.when(is_there, lambda: w.store(total, w.total(save, w.second(i, j)), "double"))

        w.leave_sums(w.thread_sums("paths", TILE**2, terms), leave)

    w.when(w.value(f"icmp sle i64 {corners[1]}, {corners[0]}"), whole_tile)
    return w
