"""What a step of each classical integrator costs on a damped oscillator, in nanoseconds per path and step.

    python benchmarks/classical_steps.py [repeats]

The minimum over the repeats of whole runs, 65 536 paths of 400 steps, one thread, after one run to compile; beside it
Heun of methods.explicit, whose step RK2 held repeats.
"""

import os
import sys
import time

import stodyn as sd
from stodyn.methods import classical, explicit, multistep

PATHS, STEPS = 65_536, 400
METHODS = {
    "Heun": explicit.Heun,
    "RK2 held": classical.RK2,
    "RK4 held": classical.RK4,
    "RK4 fresh": classical.RK4(noise="fresh"),
    "RK(5,6) fresh": classical.RK56Butcher(noise="fresh"),
    "AB4": multistep.AB4,
    "AB4, noise in the history": multistep.AB4(placement="history", starter="adams"),
    "AM4 PECE fresh": multistep.AM4,
    "AM4 converged": multistep.AM4(noise="held", corrections="converged"),
    "VanLoan": "VanLoan",
}


def seconds(method) -> float:
    problem = sd.linear([[0.0, 1.0], [-1.0, -0.4]], [[0.0], [1.0]])
    began = time.perf_counter()
    sd.simulate(problem, method, t=(0.0, 0.01 * STEPS), dt=0.01, paths=PATHS, seed=1, threads=1, progress=False,
                collect=sd.statistics.Moments(every=STEPS))  # fmt: skip
    return time.perf_counter() - began


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for name, method in METHODS.items():
        seconds(method)
        best = min(seconds(method) for _ in range(repeats))
        print(f"{name:28s} {1e9 * best / (PATHS * STEPS):8.1f} ns", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
