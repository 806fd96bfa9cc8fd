"""How often the intervals that statistics state cover the truth: over many seeds, with 8 paths and with 1000.

    python benchmarks/stated_errors.py                      all statistics over 300 seeds (a minute or two)
    python benchmarks/stated_errors.py --seeds 2000 --only Spectrum

Printed for every variable: the share of Student's intervals of 95 % that hold the truth and, in brackets, the paths and
the mean of stderr² over the scatter of the estimates. A share outside its binomial bound makes the script fail.
"""

from __future__ import annotations

import argparse
import sys
import time

from stodyn.analysis.check import CheckFailed
from stodyn.analysis.check_statistic import EXAMPLES, check_statistic


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=300)
    options.add_argument("--only", default="", help="part of the name of a statistic")
    given = options.parse_args()
    failed = False
    for name, make in EXAMPLES.items():
        if given.only not in name:
            continue
        began = time.process_time()
        try:
            results = check_statistic(make, given.seeds)
        except CheckFailed as error:
            results, failed = error.results, True
        for result in results:
            if result.question == "coverage" or not result.ok:
                words = result.finding.replace("), ", ")\n    ")
                print(f"{name}{'' if result.ok else ' FAILS ' + result.question}\n    {words}", flush=True)
        print(f"    {time.process_time() - began:.1f} s of processor time", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
