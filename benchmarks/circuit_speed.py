"""How long netlists take: reading a ladder of 10 000 elements, simulating ladders of 5 to 200 nodes and more, and a
chain of 20 transistors with noise beside ngspice's .tran without noise."""

from __future__ import annotations

import argparse
import functools
import re
import resource
import shutil
import subprocess
import time

from timing import machine

import stodyn as sd
from stodyn import statistics as st


def ladder(sections: int) -> str:
    """A voltage source and sections of a resistor and a capacitor."""
    body = "".join(f"R{i} n{i} n{i + 1} 1k\nC{i} n{i + 1} 0 1p\n" for i in range(sections))
    return f"ladder\nV1 n0 0 PULSE(0 1 0 1n 1n 1 2)\n{body}.tran 1n 1u\n"


def diodes(sections: int) -> str:
    """The same with a diode from every node to ground."""
    body = "".join(f"R{i} n{i} n{i + 1} 1k\nC{i} n{i + 1} 0 1p\nD{i} n{i + 1} 0 d\n" for i in range(sections))
    return f"ladder\nV1 n0 0 PULSE(0 1 0 1n 1n 1 2)\n{body}.model d D(IS=1p)\n.tran 1n 1u\n"


def inverters(count: int) -> str:
    """A chain of CMOS inverters, each with a capacitor, driven by a pulse."""
    body = "".join(
        f"MN{i} n{i + 1} n{i} 0 0 nm W=2u L=0.5u\nMP{i} n{i + 1} n{i} vdd vdd pm W=5u L=0.5u\nC{i} n{i + 1} 0 50f\n"
        for i in range(count)
    )
    models = ".model nm NMOS(KP=100u VTO=0.6 LAMBDA=0.05)\n.model pm PMOS(KP=40u VTO=-0.6 LAMBDA=0.05)\n"
    return f"inverters\nVDD vdd 0 2.5\nVIN n0 0 PULSE(0 2.5 1n 0.2n 0.2n 4n 10n)\n{body}{models}.tran 20p 10n\n"


def beside_ngspice(paths: int) -> None:
    """Prints the time of a path with noise, one alone and one of many, and of a run of ngspice without noise."""
    text = inverters(10)
    circuit = sd.circuits.read(text)
    steps, nodes = circuit.time_steps(), len(circuit.nodes)

    began = time.process_time()
    costs = {}
    for count in (1, paths):
        ready = sd.prepare(circuit, "Trapezoidal", t=circuit.span, dt=steps, paths=count, threads=1,
                           collect=st.Moments(at=[circuit.span[1]]))  # fmt: skip
        ready.arrays(seed=1)
        if count == 1:
            print(f"the first path: {time.process_time() - began:.1f} s")
        costs[count] = min(used(functools.partial(ready.arrays, seed=2 + k)) for k in range(3)) / count
        print(f"20 transistors, {nodes} nodes, {len(steps)} steps, {number_of(count)}: {costs[count] * 1e3:.2f} ms "
              f"each, {costs[count] / len(steps) / nodes * 1e9:.0f} ns per step and node", flush=True)  # fmt: skip
    if shutil.which("ngspice") is None:
        print("ngspice is not installed")
        return
    whole, seconds, accepted = of_ngspice(text)
    print(f"ngspice without noise: {whole * 1e3:.1f} ms with its start, as much as {whole / costs[paths]:.0f} of our "
          f"paths with noise; its transient {seconds * 1e3:.1f} ms, as much as {seconds / costs[paths]:.0f}: "
          f"{accepted} points, {seconds / accepted / nodes * 1e9:.0f} ns per point and node")  # fmt: skip


def number_of(paths: int) -> str:
    return "one path" if paths == 1 else f"{paths} paths"


def of_ngspice(text: str) -> tuple[float, float, int]:
    """Processor time of a run of ngspice and of its transient alone, the least of ten runs, and its points."""
    asked = f"{text}.control\ntran 20p 10n\nrusage trantime accept\nquit\n.endc\n.end\n"
    whole, said = [], ""
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = (
            subprocess.run(["ngspice", "-b", "/dev/stdin"], input=asked, capture_output=True, text=True).stdout + said
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    times = re.findall(r"ransient analysis time = (\S+)", said)
    return min(whole), min(map(float, times)), int(re.findall(r"ccepted timepoints = (\d+)", said)[0])


def used(job) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    job()
    return time.process_time() - began


def best(job, rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return min(times)


def simulating(text: str, paths: int, steps: int) -> tuple[float, float]:
    """Seconds of a first run, and nanoseconds per path, step and node of later ones: two lengths are subtracted."""
    began = time.perf_counter()
    circuit = sd.circuits.read(text)

    def run(count: int) -> None:
        sd.simulate(circuit, "Trapezoidal", t=(0, count * 1e-9), dt=1e-9, paths=paths, seed=1, progress=False,
                    collect=st.Moments(at=[count * 1e-9]))  # fmt: skip

    run(steps)
    first = time.perf_counter() - began
    run(4 * steps)
    longer = best(lambda: run(4 * steps), 3) - best(lambda: run(steps), 3)
    return first, longer / (3 * steps * paths * len(circuit.nodes)) * 1e9


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--nodes", nargs="+", type=int, default=[5, 10, 20, 50, 100, 200], help="sizes of the ladders"
    )
    arguments.add_argument("--quick", action="store_true", help="fewer steps")
    arguments.add_argument("--paths", type=int, default=256, help="paths beside ngspice")
    arguments.add_argument("--only-ngspice", action="store_true", help="the chain of 20 transistors alone")
    given = arguments.parse_args()
    print(machine("stodyn", "jax", "scipy"))
    beside_ngspice(given.paths)
    if given.only_ngspice:
        return
    text = ladder(5000)
    sd.circuits.read(text)
    print(f"reading a ladder of 10 000 elements: {best(lambda: sd.circuits.read(text)):.2f} s")
    for name, made, work in (("linear", ladder, 20_000), ("with diodes", diodes, 2_000)):
        for nodes in given.nodes:
            steps = max(work // (5 if given.quick else 1) // nodes, 4)
            first, each = simulating(made(nodes), 1024, steps)
            print(
                f"{nodes:5d} nodes, {name}: {each:8.1f} ns per path, step and node; first run {first:.1f} s", flush=True
            )


if __name__ == "__main__":
    main()
