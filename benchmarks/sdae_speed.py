"""How fast SDAEs run: python benchmarks/sdae_speed.py [ring diodes ladders] [--quick]

1. The ring oscillator and the two-diode circuit by RK1W2M, 4096 paths x 1000 steps, against jax.vmap of the same step
   with the same elimination (wanted: at least 1.3 times faster) and with jnp.linalg.solve (wanted: at least 5 times).
2. What a step of RK1W2M costs on RC ladders of 5 to 200 nodes, and what limits it.
"""

import argparse
import dataclasses
import json

from timing import Contender, load, machine, race, show

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods.stiff import RK1W2M
from stodyn.models.circuits import RC_LADDER, RING_OSCILLATOR, TWO_DIODES
from stodyn.numerics import elimination

PATHS, WRITTEN_OUT = 4096, elimination.WRITTEN_OUT


def run(problem, dt, steps, executor, largest=WRITTEN_OUT, paths=PATHS):
    """One run; systems of up to `largest` unknowns are eliminated by rows, the others go to jnp.linalg.solve."""
    elimination.WRITTEN_OUT = largest
    end = steps * dt
    found = sd.simulate(problem, RK1W2M, t=(0.0, end), dt=dt, paths=paths, seed=1, executor=executor, progress=False,
                        collect=st.Moments(at=[end]))  # fmt: skip
    return float(found["mean"].values[-1, 0])


def contest(name, problem, dt, steps, rounds):
    """The slower ones take fewer steps: their cost is linear in them."""

    def contender(words, share, problem, *how):
        count = max(steps // share, 10)
        return Contender(f"{name}: {words}", lambda: run(problem, dt, count, *how), PATHS * count)

    # Traced once more, with the library's solve: under other names it is another problem, and each keeps its trace.
    other = dataclasses.replace(problem, names=tuple(f"y{k}" for k in range(problem.n)), units=None)
    contenders = [
        contender("stodyn", 1, problem, "auto"),
        contender("vmap, same elimination", 5, problem, "vmap"),
        contender("vmap, jnp.linalg.solve", 20, other, "vmap", 0),
    ]
    race(contenders, rounds, patience=60.0)
    return show(f"{name}, {PATHS} paths x {steps} steps", contenders, "mean of the first component")


def ladders(sizes, steps):
    rows = []
    for nodes in sizes:
        problem = RC_LADDER(nodes=nodes).problem
        paths = PATHS if nodes <= 20 else 1024
        contender = Contender(f"{nodes} nodes", lambda: run(problem, 0.01, steps, "auto", paths=paths), paths * steps)
        race([contender], 2, patience=20.0)
        rows.append({"nodes": nodes, "ns": contender.ns, "ns_a_node": contender.ns / nodes})
        print(
            f"{nodes:4d} nodes {contender.ns:10.0f} ns per path and step, {contender.ns / nodes:8.1f} per node",
            flush=True,
        )
    return rows


PARTS = {
    "ring": lambda steps: contest(
        "ring oscillator", dataclasses.replace(RING_OSCILLATOR.problem, structure="without areas"), 0.02, steps, 2
    ),
    "diodes": lambda steps: contest("two diodes", TWO_DIODES(kappa=1000.0).problem, 0.001, steps, 2),
    "ladders": lambda steps: ladders((5, 10, 20, 50, 100, 200), max(steps // 50, 4)),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help="ring, diodes, ladders [default: all]")
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps")
    given = parser.parse_args()
    result = {"machine": machine("jax", "numpy"), "load": load()}
    result |= {part: PARTS[part](100 if given.quick else 1000) for part in given.parts}
    print(json.dumps(result, indent=2))
