"""What events cost, and how often the intervals of rare events hold the truth.

    python benchmarks/events.py passage                  a run with Passage over the same run without it
    python benchmarks/events.py coverage FILE [REPEATS]  repetitions of 16 runs at 1e-4 and 1e-6; goes on with FILE

Times are processor times, the least of several runs of a program that is ready.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.accuracy.rare_estimate import Estimate

BROWNIAN = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
PROBLEMS = {
    "Ornstein-Uhlenbeck, level at 2 deviations": (
        sd.SDE(lambda t, x: -x, lambda t, x: np.sqrt(2.0), 0.0), 0, 2.0, "SRA1"),
    "double well, level at the other bottom": (sd.SDE(lambda t, x: x - x**3, lambda t, x: 0.5, -1.0), 0, 1.0, "SRA1"),
    "oscillator, velocity at 2 deviations": (
        sd.linear([[0.0, 1.0], [-1.0, -0.1]], [[0.0], [np.sqrt(0.2)]]), 1, 2.0, "SRA1"),
}  # fmt: skip
PATHS, STEPS, DT = 16_384, 1000, 0.01
LEVELS = {1e-4: 3.8905918864131, 1e-6: 4.8916384756986}  # of W before 1: 2 Φ(-level)
RUNS, TOGETHER = 16, 10  # runs of a repetition, repetitions of a call


def least(problem, method, collect, times: int = 8) -> float:
    """Nanoseconds for a path-step. Tracing and compiling, which do not grow with the run, are not counted."""
    ready = sd.prepare(problem, method, t=(0, STEPS * DT), dt=DT, paths=PATHS, threads=1, collect=collect)
    found = []
    for _ in range(times):
        began = time.process_time()
        ready(seed=1)
        found.append(time.process_time() - began)
    return 1e9 * min(found) / (PATHS * STEPS)


def passage() -> None:
    for words, (problem, of, level, method) in PROBLEMS.items():
        bare = least(problem, method, st.Moments(every=100))
        with_mean, without = (
            least(problem, method, [st.Moments(every=100), st.Passage(level, of, every=100, mean=mean)])
            for mean in (True, False)
        )
        print(f"{words}: {bare:.1f} ns per path-step; with Passage {with_mean:.1f} ({with_mean / bare:.2f} times), "
              f"mean=False {without:.1f} ({without / bare:.2f})", flush=True)  # fmt: skip


def coverage(file: Path, repeats: int) -> None:
    kept = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(one["p"], one["seed"]) for one in kept}
    for seed in range(1000, 1000 + -(-repeats // TOGETHER)):
        for p, level in LEVELS.items():
            if (p, seed) in done:
                continue
            found = sd.rare(BROWNIAN, "EulerMaruyama", event=sd.Level(level), before=1.0, dt=0.05, seed=seed,
                            runs=RUNS * TOGETHER, threads=1, progress=False)  # fmt: skip
            kept.append({"p": p, "seed": seed, "est": found["estimate"].values.tolist()})
            with file.open("a") as out:
                out.write(json.dumps(kept[-1]) + "\n")
    for p in LEVELS:
        estimates = np.concatenate([one["est"] for one in kept if one["p"] == p]).reshape(-1, RUNS)
        intervals = [Estimate.of(one) for one in estimates]
        held = [one.low <= p <= one.high for one in intervals]
        print(f"p = {p:g}: {sum(held)} of {len(held)} intervals hold it ({100 * np.mean(held):.1f} %); mean/p "
              f"{estimates.mean() / p:.3f} +- {estimates.std() / p / np.sqrt(estimates.size):.3f}")  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    match sys.argv[1:]:
        case ["passage"]:
            passage()
        case ["coverage", file, *rest]:
            coverage(Path(file), int(rest[0]) if rest else 300)
        case _:
            sys.exit(__doc__)
