"""What a small dense solve costs: numerics/elimination.py printed over many systems, beside NumPy's batched LAPACK.

    python benchmarks/elimination_cost.py

Systems of n = 2, ..., 12 unknowns in lanes, as a step's implicit equations are solved. `natural` has large diagonals,
so that the order in which the rows stand serves; in `exchanged` the first pivot of every system is zero, so that from
n = 4 on all of them are solved twice, the second time with exchanges of rows (up to n = 3 rows are always exchanged by
selection). `error` is the largest |a x - b| of both, in ε (|a| |x| + |b|). Processor time, the best of ROUNDS, less
that of reading a and b and writing a vector; float64, one thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import timing

from stodyn.numerics import elimination
from stodyn.numerics.printing.points import AtPoints

SYSTEMS, ROUNDS = 512, 100  # few enough for the caches: reading them must not be what is measured


def main() -> None:
    print(json.dumps(timing.machine("jax", "numpy", "llvmlite")), f"load {timing.load():.1f}")
    print("ns per solve   natural   exchanged   numpy   numpy/natural   error")
    generator = np.random.default_rng(17)
    for n in range(2, elimination.WRITTEN_OUT + 1):
        a = generator.standard_normal((SYSTEMS, n, n)) + 2 * n * np.eye(n)
        b = generator.standard_normal((SYSTEMS, n))
        badly_ordered = np.roll(a, 1, axis=1)
        badly_ordered[:, 0, 0] = 0.0
        solve, read = AtPoints(elimination.solve), AtPoints(lambda a, b: jnp.sum(a, axis=1) + b)
        reading = nanoseconds(read, a, b)
        natural = nanoseconds(solve, a, b) - reading
        exchanged = nanoseconds(solve, badly_ordered, b) - reading
        lapack = nanoseconds(lambda a, b: np.linalg.solve(a, b[..., None])[..., 0], a, b)
        worst = max(backward_error(matrix, solve(matrix, b), b) for matrix in (a, badly_ordered))
        print(f"n = {n:2d}       {natural:9.0f}{exchanged:12.0f}{lapack:8.0f}{lapack / natural:16.1f}{worst:8.1f}")


def nanoseconds(solve: Callable[[np.ndarray, np.ndarray], np.ndarray], a: np.ndarray, b: np.ndarray) -> float:
    solve(a, b)
    took = []
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        solve(a, b)
        took.append(time.process_time_ns() - began)
    return min(took) / len(a)


def backward_error(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> float:
    residual = np.abs((a @ x[..., None])[..., 0] - b)
    scale = (np.abs(a) @ np.abs(x)[..., None])[..., 0] + np.abs(b)
    return float((residual / scale).max() / np.finfo(float).eps)


if __name__ == "__main__":
    main()
