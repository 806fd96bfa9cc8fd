"""Processor time of `import stodyn` and of its first names beside `import jax, xarray`, which every session pays.

    python benchmarks/import_time.py

Each line is imported by new interpreters in turn, with bytecode as an installed package has it; the least time of each
counts. A run needs SciPy's parts and LLVM only when it is described, so that they are not part of the first names.
"""

import os
import subprocess
import sys
import tempfile

REPEATS = 7
LINES = {
    "import jax, xarray": "import jax, xarray",
    "import stodyn": "import stodyn",
    "first names": "import stodyn as sd; sd.SDE; sd.simulate; sd.statistics.Moments",
    "every public name": "import stodyn as sd; [getattr(sd, name) for name in sd.__all__]",
}
TIMED = "import time; began = time.process_time(); {line}; print(time.process_time() - began)"


def seconds(line: str, environment: dict[str, str]) -> float:
    """Processor time of a line in a new interpreter."""
    command = [sys.executable, "-c", TIMED.format(line=line)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        for line in LINES.values():
            seconds(line, environment)  # writes the bytecode
        rounds = [{name: seconds(line, environment) for name, line in LINES.items()} for _ in range(REPEATS)]
    least = {name: min(times[name] for times in rounds) for name in LINES}
    for name, time in least.items():
        print(f"{name:20} {time:6.3f} s  {time / least['import jax, xarray']:5.2f} times")


if __name__ == "__main__":
    main()
