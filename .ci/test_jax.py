"""Runs the tests with other versions of JAX and of Python, each in an environment of its own under build/jax.

    python .ci/test_jax.py 0.12                                 # on every Python that this JAX is tried with
    python .ci/test_jax.py                                      # every JAX and Python of the matrix below
    python .ci/test_jax.py 0.12 --python 3.13 tests/numerics    # one Python, by its version or its path; some tests

uv finds the interpreters, or downloads them; where it cannot, the newest on this machine that the JAX takes is used.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOM = ROOT / "build" / "jax"
MATRIX = {"0.10.2": ("3.11",), "0.11": ("3.12", "3.13"), "0.12": ("3.12", "3.13", "3.14")}
OLDEST = {"0.10.2": "3.11"}  # the Python that a JAX needs; others need LATER
LATER = "3.12"
OWN_PINS = ("jax", "jaxlib")  # of constraints.txt, which pins what is installed without being asked for


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jax", nargs="?", help="a version, such as 0.12 or 0.11.2; all of the matrix without it")
    parser.add_argument("--python", help="a version such as 3.13, or the path of an interpreter")
    asked, pytest = parser.parse_known_args()
    if asked.jax and not re.fullmatch(r"\d+\.\d+(\.\d+)*", asked.jax):
        parser.error(f"jax: {asked.jax!r} is not a version such as 0.12; name a version before the tests")
    outcomes: dict[tuple[str, str], str] = {}
    for jax in [asked.jax] if asked.jax else MATRIX:
        for python in [asked.python] if asked.python else MATRIX.get(jax, MATRIX["0.12"]):
            tried(jax, python, pytest, outcomes)
    print("", *(f"Python {python}, JAX {jax}: {outcome}" for (jax, python), outcome in outcomes.items()), sep="\n")
    return int(any(outcome != "passed" for outcome in outcomes.values()))


def tried(jax: str, python: str, pytest: list[str], outcomes: dict[tuple[str, str], str]) -> None:
    """Enter the outcome of the tests on this pair, or on the nearest to it that has not been tried."""
    environment = ROOM / f"{jax}-{Path(python).name}"
    if not made(environment, python):
        newest = newest_for(jax)
        if newest is None:
            outcomes[jax, python] = "not run: neither uv nor this machine has a Python that this JAX takes"
            return
        print(f"Python {python} cannot be had here; {newest} takes its place", flush=True)
        environment = ROOM / f"{jax}-{Path(newest).name}"
        if not made(environment, newest):
            outcomes[jax, newest] = "not run: no environment could be made"
            return
    interpreter = environment / "bin" / "python"
    pair = jax, version_of(interpreter)
    if pair not in outcomes:
        outcomes[pair] = tests_with(interpreter, jax, pytest)


def made(environment: Path, python: str) -> bool:
    """Whether there is a fresh environment of that Python."""
    return uv("venv", "--quiet", "--clear", "--python", python, str(environment)).returncode == 0


def uv(*words: str) -> subprocess.CompletedProcess:
    beside = Path(sys.executable).with_name("uv")
    program = str(beside) if beside.exists() else shutil.which("uv") or "uv"
    patient = os.environ | {"UV_HTTP_TIMEOUT": "30"}
    return subprocess.run([program, *words], cwd=ROOT, env=patient, capture_output=True, text=True)


def newest_for(jax: str) -> str | None:
    """The newest interpreter of this machine that the JAX takes."""
    found = [path for minor in range(20, 10, -1) if (path := shutil.which(f"python3.{minor}"))]
    oldest = _numbers(OLDEST.get(jax, LATER))
    return next((path for path in [*found, sys.executable] if _numbers(version_of(path)) >= oldest), None)


def version_of(python: str | Path) -> str:
    asked = [str(python), "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip() or "0"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def tests_with(interpreter: Path, jax: str, pytest: list[str]) -> str:
    """In words, how the tests ended."""
    others = ROOM / "constraints.txt"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    others.write_text("\n".join(line for line in lines if re.split("[=; ]", line)[0] not in OWN_PINS))
    wanted = ["--constraint", str(others), "--editable", ".[dev]", f"jax=={jax}.*"]
    installed = uv("pip", "install", "--quiet", "--python", str(interpreter), *wanted)
    if installed.returncode:
        return f"not run: the packages could not be installed\n{installed.stderr}"
    subprocess.run([interpreter, ".ci/machine.py"], cwd=ROOT)
    parallel = [] if pytest else ["-n", "2", "--dist", "worksteal"]
    ended = subprocess.run([interpreter, "-m", "pytest", *parallel, *pytest], cwd=ROOT).returncode
    return "failed" if ended else "passed"


if __name__ == "__main__":
    sys.exit(main())
