"""Honest timing: warm-up, interleaved repeats, minimum and median, the processor's time beside the clock's."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import importlib
import importlib.metadata
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


@dataclasses.dataclass
class Contender:
    """One way of doing a job. `run()` does it once and returns a number by which the answers can be compared.

    work  how many path-steps one run is
    """

    name: str
    run: Callable[[], float]
    work: int
    answer: float = float("nan")
    wall: list[float] = dataclasses.field(default_factory=list)
    cpu: list[float] = dataclasses.field(default_factory=list)

    @property
    def ns(self) -> float:
        """Nanoseconds per path and step, the best run: what the machine can do when nothing disturbs it."""
        return min(self.wall) / self.work * 1e9

    @property
    def median_ns(self) -> float:
        return statistics.median(self.wall) / self.work * 1e9

    @property
    def cpu_ns(self) -> float:
        """The processor time of all threads, per path and step: what it would take on one core."""
        return min(self.cpu) / self.work * 1e9

    def record(self) -> dict[str, Any]:
        return {"name": self.name, "ns": self.ns, "median_ns": self.median_ns, "cpu_ns": self.cpu_ns,
                "runs": len(self.wall), "path_steps": self.work, "answer": self.answer}  # fmt: skip


def race(contenders: Sequence[Contender], rounds: int, patience: float) -> None:
    """Warm every contender up, then time them in turn, so that all see the same moods of the machine.

    A contender that has run three times and used up `patience` seconds sits out the rest of the rounds.
    """
    for contender in contenders:
        contender.answer = contender.run()
    for _ in range(rounds):
        for contender in contenders:
            if len(contender.wall) >= 3 and sum(contender.wall) > patience:
                continue
            wall, cpu = time.perf_counter(), time.process_time()
            contender.run()
            contender.wall.append(time.perf_counter() - wall)
            contender.cpu.append(time.process_time() - cpu)


def show(title: str, contenders: Sequence[Contender], answer: str) -> list[dict[str, Any]]:
    """Print the table of a race, ratios to the first contender; returns its rows."""
    first = contenders[0]
    print(f"\n{title}\nns per path and step; `best` and `median` of the clock, `cpu` of all threads together")
    print(f"{'':64s}{'best':>9s}{'median':>9s}{'cpu':>9s}{'ratio':>8s}  {answer}")
    for c in contenders:
        print(f"{c.name:64s}{c.ns:9.2f}{c.median_ns:9.2f}{c.cpu_ns:9.2f}{c.ns / first.ns:8.2f}  {c.answer:.4f}")
    return [contender.record() | {"ratio": contender.ns / first.ns} for contender in contenders]


def in_threads(function: Callable[[int], Any], count: int) -> list[Any]:
    """function(0), ..., function(count - 1), each in a thread of its own."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, range(count)))


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments) in a new Python, which has imported the module of `function` and nothing else."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def peak_memory() -> float:
    """The most memory this process has held, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a started process may be that of the one that started it
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    import resource

    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def missing(*modules: str) -> dict[str, str]:
    """Module -> why it cannot be imported, for those that cannot."""
    reasons = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as reason:  # a peer may fail in any way it likes
            reasons[name] = f"{type(reason).__name__}: {reason}"
    return reasons


def machine(*packages: str) -> dict[str, Any]:
    """What the figures were measured on."""
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{package: _version(package) for package in packages},
    }


def load() -> float:
    """How many processes have wanted to run over the last minute: the cores should be ours alone."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"
