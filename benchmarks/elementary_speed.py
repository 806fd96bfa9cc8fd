"""Nanoseconds of processor time a value takes in the printed elementary functions, at several widths.

python benchmarks/elementary_speed.py [names ...]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from stodyn.numerics.printing import elementary
from stodyn.numerics.printing.over_arrays import loop

SIZE, WIDTHS = 4096, (1, 2, 4, 8)


def arguments(name: str) -> list[np.ndarray]:
    x, y = np.random.default_rng(0).normal(size=(2, SIZE))
    if name in ("log", "log1p", "pow", "lgamma", "digamma"):
        x = np.abs(x) + 0.1
    elif name == "acosh":
        x = np.abs(x) + 1.1
    elif name in ("asin", "acos", "atanh", "erf_inv"):
        x = np.tanh(x)
    return [x, y][: elementary.arguments(name)]


def pace(name: str, width: int) -> float:
    run, _ = loop(name, width)
    given, out = arguments(name), np.empty(SIZE)
    addresses = [a.ctypes.data for a in (*given, out)]
    best = np.inf
    for _ in range(9):
        before = time.process_time()
        for _ in range(10):
            run(*addresses, SIZE)
        best = min(best, (time.process_time() - before) / 10)
    return best / SIZE * 1e9


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=sorted(elementary.NAMES))
    print("ns a value ", *(f"W={width:<4}" for width in WIDTHS))
    for name in parser.parse_args().names:
        print(f"{name:10}", *(f"{pace(name, width):6.1f}" for width in WIDTHS), flush=True)
