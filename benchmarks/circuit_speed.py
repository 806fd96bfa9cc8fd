"""How long netlists take: reading a ladder of 10 000 elements, simulating one of 200 nodes."""

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


def simulating(text: str, paths: int, steps: int) -> float:
    """Nanoseconds per path, step and node, compiling and diagnosis left out: two lengths of run are subtracted."""
    circuit = sd.circuits.read(text)

    def run(count: int) -> None:
        sd.simulate(circuit, "Trapezoidal", t=(0, count * 1e-9), dt=1e-9, paths=paths, seed=1, progress=False,
                    collect=st.Moments(at=[count * 1e-9]))  # fmt: skip

    run(steps), run(3 * steps)
    return (
        (best(lambda: run(3 * steps), 2) - best(lambda: run(steps), 2)) / (2 * steps * paths * len(circuit.nodes)) * 1e9
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer paths and steps")
    quick = arguments.parse_args().quick
    print(machine("stodyn", "jax", "scipy"))
    text = ladder(5000)
    sd.circuits.read(text)
    print(f"reading a ladder of 10 000 elements: {best(lambda: sd.circuits.read(text)):.2f} s")
    paths, steps = (64, 20) if quick else (256, 40)
    for name, made, few in (("linear", ladder(200), 1), ("with 200 diodes", diodes(200), 8)):
        found = simulating(made, paths // few, steps // few**2 + 2)
        print(f"simulating 200 nodes, {name}: {found:.0f} ns per path, step and node")


if __name__ == "__main__":
    main()
