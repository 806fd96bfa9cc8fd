"""How fast Hamiltonian systems run: python benchmarks/hamiltonian_speed.py [--quick]

1. Kubo's oscillator by the midpoint rule, 16 384 paths x 1000 steps, against a two-thread Numba loop written by hand
   with fixed-point iteration to 1e-12, drawing from np.random.Generator. Wanted: at least 2 times faster, with Newton
   (to 1e-12, on an oscillator whose equations are not linear by a term too small to see); the linear solve that Kubo's
   own equations get is timed beside it.
2. Störmer-Verlet on a separable system against Heun on the same SDE. Wanted: at most 1.5 times its time.
3. The Lenard-Bernstein run of Kraus & Tyranowski (1e7 paths, T = 1000, dt = .15, DIRK): all of its steps for a tenth of
   its paths, some minutes on two cores, and the whole of it from that.

Each time is the smallest of several repeats, after a run that compiles; the last is run once. --quick takes a tenth of
the steps in 1 and 2 and a thousandth of the paths in 3.
"""

import argparse
import json
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numba
import numpy as np
import timing

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods import variational
from stodyn.models.damped_kubo import DAMPED_KUBO
from stodyn.models.lenard_bernstein import LENARD_BERNSTEIN
from stodyn.problems.hamiltonian import Hamiltonian

THREADS = 2


def smallest(function, repeats):
    function()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


@numba.njit(nogil=True, fastmath=False)
def kubo_by_hand(normals, q, p, dt, beta, nu, tolerance):
    """The midpoint rule for every path and step: fixed-point iteration on the midpoint, path by path."""
    steps, paths = normals.shape
    for k in range(steps):
        for i in range(paths):
            s = dt + beta * math.sqrt(dt) * normals[k, i]
            Q, P = q[i], p[i]
            for _ in range(200):
                Q_new = q[i] + 0.5 * s * P
                P_new = p[i] - 0.5 * s * (Q + nu * P)
                change = max(abs(Q_new - Q), abs(P_new - P))
                Q, P = Q_new, P_new
                if change <= tolerance * (1.0 + max(abs(Q), abs(P))):
                    break
            q[i] = 2.0 * Q - q[i]
            p[i] = 2.0 * P - p[i]


def kubo(paths, steps, repeats, dt=0.1):
    beta, nu = 0.5, 0.001

    def by_hand():
        def block(seed):
            rng, share = np.random.default_rng(seed), paths // THREADS
            q, p = np.full(share, 2.0), np.zeros(share)
            for first in range(0, steps, 50):
                normals = rng.standard_normal((min(50, steps - first), share))
                kubo_by_hand(normals, q, p, dt, beta, nu, 1e-12)
            return np.mean(q * q + p * p)

        with ThreadPoolExecutor(THREADS) as pool:
            return np.mean(list(pool.map(block, range(THREADS))))

    def ours(problem, method):
        sd.simulate(problem, method, t=(0.0, steps * dt), dt=dt, paths=paths, seed=1, threads=THREADS,
                    collect=st.Moments(at=[steps * dt]), progress=False)  # fmt: skip

    bent = Hamiltonian(
        lambda t, q, p: 0.5 * (q**2 + p**2) + 1e-12 * q**4,
        lambda t, q, p: 0.5 * beta * (q**2 + p**2),
        lambda t, q, p: -nu * p,
        lambda t, q, p: -beta * nu * p,
        start=(2.0, 0.0),
    )
    hand = smallest(by_hand, repeats)
    newton = smallest(lambda: ours(bent, variational.Midpoint(tol=1e-12)), repeats)
    linear = smallest(lambda: ours(DAMPED_KUBO.problem, variational.Midpoint), repeats)
    return {"by hand [s]": hand, "Midpoint with Newton [s]": newton, "Midpoint [s]": linear,
            "Newton, times faster": hand / newton, "times faster": hand / linear}  # fmt: skip


def verlet(paths, steps, repeats, dt=0.01):
    problem = Hamiltonian(
        lambda t, q, p: 0.5 * p**2 - jnp.cos(q),
        lambda t, q, p: 0.3 * jnp.sin(q),
        lambda t, q, p: -0.1 * p,
        start=(1.0, 0.0),
    )
    found = {}
    for method in ("StoermerVerlet", "Heun"):
        found[f"{method} [s]"] = smallest(
            lambda method=method: sd.simulate(problem, method, t=(0.0, steps * dt), dt=dt, paths=paths, seed=1,
                                              threads=THREADS, collect=st.Moments(at=[steps * dt]), progress=False),
            repeats,
        )  # fmt: skip
    return found | {"Verlet / Heun": found["StoermerVerlet [s]"] / found["Heun [s]"]}


def lenard_bernstein(paths, paper=10_000_000, steps=6667):
    def run(steps):
        sd.simulate(LENARD_BERNSTEIN.problem, variational.DIRK, t=(0.0, 0.15 * steps), dt=0.15, paths=paths, seed=1,
                    threads=THREADS, collect=st.Moments(at=[0.15 * steps]), progress=False)  # fmt: skip

    run(100)
    began = time.perf_counter()
    run(steps)
    seconds = time.perf_counter() - began
    return {"paths": paths, "part of the paper's paths": paths / paper, "steps": steps, "seconds": seconds,
            "ns per path and step": seconds / (paths * steps) * 1e9,
            "the paper's run [min]": seconds / 60 * paper / paths}  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small part of the size")
    quick = parser.parse_args().quick
    steps = 100 if quick else 1000
    result = {
        "machine": timing.machine("jax", "numpy", "numba"),
        "cores": os.cpu_count(),
        "load": timing.load(),
        "kubo": kubo(16384, steps, 5),
        "verlet": verlet(16384, steps, 5),
        "lenard_bernstein": lenard_bernstein(10_000 if quick else 1_000_000),
    }
    print(json.dumps(result, indent=2))
