"""What a loop costs beside its plant, an exact answer of a large loop, and the Allan variance of a long record.

    OPENBLAS_NUM_THREADS=1 python benchmarks/loop_speed.py [--paths 20000]

An oscillator by Heun's steps with one sensor and one part every 20 steps, without and with noise of the sensor, one
thread; ratios of processor time to the plant alone, of one race. Goals: at most 1.15 times the plant; 1 s for
`analysis.sampled` of 100 states; 2 s for 40 points of 10⁷ samples.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax.numpy as jnp
import numpy as np
from timing import Contender, load, machine, race

import stodyn as sd
from stodyn import statistics as st

STEP = 0.005


def contenders(paths: int, steps: int) -> list[Contender]:
    """The plant, the loop, and the loop with noise; two stored times, so that more components cost nothing."""
    plant = sd.SDE(
        lambda t, x, p: jnp.array([x[1], -4 * x[0] - 0.4 * x[1] + p["u"]]),
        lambda t, x: jnp.array([[0.0], [0.7]]), start=[0.0, 0.0], params={"u": 0.0}, names=("x", "v"),
    )  # fmt: skip
    part = sd.Part("law", every=20 * STEP, reads="y", writes="u", update=lambda t, own, seen, p: (own, -3 * seen["y"]))
    problems = {"plant": plant}
    for name, noise in (("loop", None), ("loop with noise", sd.per_sample(0.02))):
        problems[name] = sd.with_loop(plant, sd.Sensor("y", of="x", every=20 * STEP, noise=noise), part)

    def contender(name: str, problem: Any) -> Contender:
        options = {"t": (0, steps * STEP), "dt": STEP, "paths": paths, "threads": 1}
        run = sd.prepare(problem, "Heun", **options, collect=st.Paths(1, every=steps))
        return Contender(name, lambda: float(run(seed=1)["path"].values[0, -1, 0]), paths * steps)

    return [contender(name, problem) for name, problem in problems.items()]


def beside_the_plant(paths: int) -> None:
    slopes: dict[str, list[float]] = {}
    for steps in (400, 2000):
        runs = contenders(paths, steps)
        race(runs, 7, 60.0)
        for run in runs:
            slopes.setdefault(run.name, []).append(min(run.cpu))
            print(f"{steps} steps: {run.name:16s} {run.cpu_ns:6.2f} ns, {min(run.cpu) / min(runs[0].cpu):.3f}")
    plant = slopes["plant"][1] - slopes["plant"][0]
    for name, (short, long) in slopes.items():
        print(f"a further step: {name:16s} {(long - short) / plant:.3f} of the plant's")


def large(half: int = 49) -> sd.problems.Problem:
    """A chain of masses, of which the first is read and pushed."""
    stiff = 2 * np.eye(half) - np.eye(half, k=1) - np.eye(half, k=-1)
    A = np.block([[np.zeros((half, half)), np.eye(half)], [-4 * stiff, -0.2 * np.eye(half)]])
    B, G = np.zeros(2 * half), np.zeros((2 * half, 1))
    B[half], G[-1] = 1.0, 0.3
    plant = sd.SDE(
        lambda t, x, p: A @ x + B * p["u"], lambda t, x: jnp.asarray(G), start=np.zeros(2 * half), params={"u": 0.0}
    )
    return sd.with_loop(
        plant,
        sd.Sensor("y", of=[0, half], every=0.01, noise=sd.per_sample(0.02)),
        sd.Part("law", every=0.01, reads="y", writes="u", update=lambda t, own, seen, p: (own, -0.5 * seen["y"][0])),
    )


def timed(name: str, function: Any) -> None:
    for label in ("first", "second"):
        began = time.process_time()
        function()
        print(f"{name}, {label} call: {time.process_time() - began:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paths", type=int, default=20_000)
    print(machine(), load())
    beside_the_plant(parser.parse_args().paths)
    loop, record = large(), np.random.default_rng(1).standard_normal(10**7)
    taus = 0.01 * np.unique(np.round(np.geomspace(1, 2e6, 46)).astype(int))[:40]
    timed("covariances of a loop of 100 states", lambda: sd.analysis.sampled(loop).average)
    timed("40 points of 10^7 samples", lambda: sd.analysis.allan(record, 0.01, taus=taus))


if __name__ == "__main__":
    main()
