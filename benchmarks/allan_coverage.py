"""How often the 95 % intervals of a fitted Allan variance hold the true N, B and K: records of a gyro, one by one.

    python benchmarks/allan_coverage.py [--records 500] [--samples 32768] [--minutes 15]

A binomial standard error stands beside each share, and the mean and the spread of the estimates beside the truth. No
further record is begun after so many minutes of processor time.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings

import numpy as np

import stodyn as sd
from stodyn.warnings import DoesNotFit

TRUTH = {"N": 0.01, "B": 0.02, "K": 0.01}
EVERY = 0.01


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--records", type=int, default=500)
    arguments.add_argument("--samples", type=int, default=32768)
    arguments.add_argument("--minutes", type=float, default=15.0)
    chosen = arguments.parse_args()
    sensor = sd.noise.gyro(
        arw=TRUTH["N"], bias_instability=TRUTH["B"], rate_random_walk=TRUTH["K"], turn_on=0.1, every=EVERY
    )
    held: dict[str, list[bool]] = {letter: [] for letter in TRUTH}
    values: dict[str, list[float]] = {letter: [] for letter in TRUTH}
    doubted = 0
    while len(held["N"]) < chosen.records and time.process_time() < 60.0 * chosen.minutes:
        record = sensor.sample(chosen.samples, seed=len(held["N"]))[0, :, 0]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", DoesNotFit)
            fit = sd.analysis.allan(record, EVERY).fit("NBK")
        doubted += any(issubclass(one.category, DoesNotFit) for one in told)
        for letter, true in TRUTH.items():
            held[letter].append(fit[letter].low <= true <= fit[letter].high)
            values[letter].append(fit[letter].value)
    count = len(held["N"])
    print(f"{count} records of {chosen.samples} readings; DoesNotFit in {doubted}")
    for letter, true in TRUTH.items():
        share, seen = np.mean(held[letter]), np.array(values[letter])
        apart = (share - 0.95) / math.sqrt(0.95 * 0.05 / count)
        print(
            f"{letter}: held {share:.3f} ({apart:+.1f} standard errors from 0.95), mean {seen.mean() / true:.4f} of "
            f"the truth, spread {seen.std() / true:.4f}"
        )
    print(f"{time.process_time() / count:.2f} s of processor time for a record")


if __name__ == "__main__":
    main()
