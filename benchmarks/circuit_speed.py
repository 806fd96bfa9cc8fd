"""How long netlists take: reading a ladder of 10 000 elements, simulating ladders of 5 to 200 nodes and more."""

from __future__ import annotations

import argparse
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
    given = arguments.parse_args()
    print(machine("stodyn", "jax", "scipy"))
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
