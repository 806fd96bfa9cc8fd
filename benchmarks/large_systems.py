"""What large systems cost: nanoseconds of processor time per component, path and step, and the first call.

    python benchmarks/large_systems.py [--quick] [--only lorenz96,particles,...] [--json FILE]

Every case runs on one thread. The best of several runs counts, in processor time, so that a shared machine does not
show; the first call is that of a fresh problem in a process that has run another one before.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax.numpy as jnp
import numpy as np
import scipy.sparse
from timing import machine

import stodyn as sd
from stodyn.methods.implicit import ImplicitMidpoint, ThetaEuler
from stodyn.statistics import Observable, Paths

SIZES = (10, 100, 1000, 10_000, 100_000)
SPREAD, NUMPY_RATIO, FIRST_CALL = 3.0, 3.0, 2.0  # what is wanted


def timed(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def simulated(problem: Any, method: Any, dt: float, steps: int, paths: int) -> Callable[[], Any]:
    t = (0.0, dt * steps)
    return lambda: sd.simulate(problem, method, t=t, dt=dt, paths=paths, seed=1, threads=1, collect=Paths(1, at=[t[1]]))


def measured(make: Callable[[], Any], method: Any, dt: float, work: float, paths: int, rounds: int) -> dict[str, Any]:
    """First call, and nanoseconds per component, path and step, of as many steps as make `work` component-steps: of the
    whole call, and of its steps alone, from a call with a quarter of them."""
    began = time.process_time()
    problem = make()
    simulated(problem, method, dt, 2, paths)()
    first = time.process_time() - began
    steps = max(int(work / (problem.n * paths)), 8)
    fewer = steps // 4
    best, short = (min(timed(simulated(problem, method, dt, k, paths)) for _ in range(rounds)) for k in (steps, fewer))
    unit = problem.n * paths * 1e-9
    return {"n": problem.n, "first_call_s": first, "ns": best / (unit * steps), "steps": steps, "paths": paths,
            "ns_of_steps": (best - short) / (unit * (steps - fewer)), "call_s": best}  # fmt: skip


def lorenz96(n: int) -> Any:
    def drift(t, x):
        return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + 8.0

    return sd.SDE(drift, lambda t, x: sd.diagonal(0.1 * x), 8.0 + 0.1 * (np.arange(n) % 3), calculus="stratonovich")


def by_numpy(n: int, dt: float, steps: int, paths: int) -> None:
    """The same Heun steps with arrays (n, paths)."""
    rng = np.random.default_rng(1)
    x = np.repeat(8.0 + 0.1 * (np.arange(n) % 3)[:, None], paths, axis=1)

    def moved(x, W):
        return dt * ((np.roll(x, -1, 0) - np.roll(x, 2, 0)) * np.roll(x, 1, 0) - x + 8.0) + 0.1 * x * W

    for _ in range(steps):
        W = np.sqrt(dt) * rng.standard_normal((n, paths))
        here = moved(x, W)
        x = x + 0.5 * (here + moved(x + here, W))


def flat_cost(quick: bool) -> dict[str, Any]:
    work, rounds = (4e6, 2) if quick else (4e7, 4)
    simulated(lorenz96(50), "Heun", 0.001, 2, 8)()  # imports and the generator of normals
    rows = [
        measured(lambda n=n: lorenz96(n), "Heun", 0.001, work, paths, rounds)
        for n, paths in zip(SIZES, (256, 256, 256, 32, 8), strict=True)
    ]
    steps = max(int(work / 2 / (1000 * 256)), 2)
    numpy = min(timed(lambda: by_numpy(1000, 0.001, steps, 256)) for _ in range(rounds)) / (1000 * 256 * steps) * 1e9
    costs = [row["ns"] for row in rows]
    at_1000 = next(row["ns"] for row in rows if row["n"] == 1000)
    first = max(row["first_call_s"] for row in rows)
    return {"rows": rows, "spread": max(costs) / min(costs), "spread_wanted": SPREAD, "numpy_ns": numpy,
            "numpy_over_ours": numpy / at_1000, "numpy_wanted": NUMPY_RATIO, "first_call_worst_s": first,
            "first_call_wanted_s": FIRST_CALL}  # fmt: skip


def allen_cahn(n: int) -> Any:
    """A ring of n nodes: du = (ν u'' + u - u³) dt + σ dW."""

    def drift(t, u):
        return 0.2 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)) + u - u**3

    return sd.SDE(drift, lambda t, u: sd.diagonal(jnp.full(n, 0.1)), np.zeros(n))


def particles(count: int) -> Any:
    """Overdamped particles in a plane that repel each other, all pairs."""

    def drift(t, x):
        q = x.reshape(count, 2)
        apart = q[:, None, :] - q[None, :, :]
        return (jnp.sum(apart / (jnp.sum(apart**2, -1) + 0.1)[:, :, None] ** 2, axis=1) - q).ravel()

    grid = np.stack(np.meshgrid(*[np.arange(-(-count // 32))] * 2)).reshape(2, -1).T
    start = np.resize(grid, (count, 2)) + np.random.default_rng(2).uniform(0, 0.5, (count, 2))
    return sd.SDE(drift, lambda t, x: sd.diagonal(jnp.full(2 * count, 0.1)), start.ravel())


def fields(quick: bool) -> dict[str, Any]:
    work, rounds = (4e6, 2) if quick else (4e7, 4)
    return {"rows": [measured(lambda n=n: allen_cahn(n), "EulerMaruyama", 0.01, work, 64 if n == 1000 else 32, rounds)
                     for n in (1000, 10_000)]}  # fmt: skip


def heat(n: int) -> Any:
    """A ring of n nodes with noise on each: du = (ν u'' - u) dt + dW, whose modes decay at 1 + 4ν sin²(πk/n)."""

    def drift(t, u):
        return 5.0 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)) - u

    return sd.SDE(drift, lambda t, u: sd.diagonal(jnp.ones(n)), np.zeros(n))


def implicit(quick: bool) -> dict[str, Any]:
    """The heat equation by implicit schemes: stationary covariances of a node with itself and its neighbour, beside the
    exact ones, which both schemes keep at any step; and Allen and Cahn's equation, whose matrices change."""
    rows: list[dict[str, Any]] = []
    work, end, h = 4e6 if quick else 2e7, 6.0, 0.1
    for method, n, paths in (("ThetaEuler(theta=0.5)", 1000, 64), ("ThetaEuler(theta=0.5)", 10_000, 32),
                             ("ImplicitMidpoint", 1000, 64)):  # fmt: skip
        chosen = METHODS[method]
        row = measured(lambda n=n: heat(n), chosen, h, work, paths, 2)
        seen = Observable(lambda t, u: jnp.array([jnp.mean(u**2), jnp.mean(u * jnp.roll(u, 1))]), name="c", at=[end])
        run = sd.simulate(heat(n), chosen, t=(0, end), dt=h, paths=paths // 2, seed=2, threads=1, collect=seen)
        angle = 2 * np.pi * np.arange(n) / n
        modes = 0.5 / (1.0 + 10.0 * (1.0 - np.cos(angle)))
        exact = np.mean(modes), np.mean(modes * np.cos(angle))
        found, error = run["c"].values[0], run["c_stderr"].values[0]
        rows.append(row | {"method": method, "exact": exact, "found": found.tolist(), "stderr": error.tolist()})
    for n, paths in ((1000, 64), (10_000, 32)):
        row = measured(lambda n=n: allen_cahn(n), "ThetaEuler", 0.1, work, paths, 2)
        rows.append(row | {"method": "ThetaEuler, Allen-Cahn"})
    return {"rows": rows}


METHODS = {"ThetaEuler(theta=0.5)": ThetaEuler(theta=0.5), "ImplicitMidpoint": ImplicitMidpoint}


def pairs(quick: bool) -> dict[str, Any]:
    """Also the nanoseconds of a pair, by a loop in Numba written by hand on one path and by ours on eight."""
    count, paths, steps = (200 if quick else 1000), 8, 40
    ours = measured(lambda: particles(count), "EulerMaruyama", 1e-3, 2 * count * paths * steps, paths, 2)
    return ours | {"ns_per_pair": ours["ns_of_steps"] * 2 / count, "numba_ns_per_pair": _by_numba(count, 4)}


def _by_numba(count: int, steps: int) -> float:
    import numba

    @numba.njit(fastmath=False)
    def run(q, normals, steps, dt):
        force = np.empty_like(q)
        for s in range(steps):
            for i in range(q.shape[0]):
                fx = fy = 0.0
                for j in range(q.shape[0]):
                    dx, dy = q[i, 0] - q[j, 0], q[i, 1] - q[j, 1]
                    r2 = dx * dx + dy * dy + 0.1
                    fx += dx / (r2 * r2)
                    fy += dy / (r2 * r2)
                force[i, 0], force[i, 1] = fx - q[i, 0], fy - q[i, 1]
            for i in range(q.shape[0]):
                for k in range(2):
                    q[i, k] += dt * force[i, k] + 0.1 * np.sqrt(dt) * normals[s, i, k]

    rng = np.random.default_rng(1)
    q, normals = rng.uniform(0, 30, (count, 2)), rng.standard_normal((steps, count, 2))
    run(q.copy(), normals, 1, 1e-3)
    return min(timed(lambda: run(q.copy(), normals, steps, 1e-3)) for _ in range(3)) / (count * count * steps) * 1e9


def chain(N: int) -> Any:
    """Fermi, Pasta and Ulam's chain from a wall, with a bath of temperature 1 on each particle, from equilibrium.

    Its stretches are independent then, with the density exp(-r²/2 - r⁴/4): normals, of which some are rejected.
    """

    def H(t, q, p):
        stretch = jnp.diff(jnp.concatenate([jnp.zeros(1), q]))
        return 0.5 * jnp.sum(p**2) + jnp.sum(0.5 * stretch**2 + 0.25 * stretch**4)

    def places(rng, size):
        stretch = np.full((size, N), np.nan)
        while (open_ := np.isnan(stretch)).any():
            tried = rng.standard_normal(open_.sum())
            stretch[open_] = np.where(rng.uniform(size=tried.size) < np.exp(-(tried**4) / 4), tried, np.nan)
        return np.cumsum(stretch, axis=1)

    start = (places, lambda rng, size: rng.standard_normal((size, N)))
    return sd.Hamiltonian(H, lambda t, q, p: -np.sqrt(2.0) * q, lambda t, q, p: -p, start=start)


def chains(quick: bool) -> dict[str, Any]:
    """Temperatures of chains beside 1; processor time of 512 paths x 200 steps at N = 16, compiling included."""
    rows = []
    simulated(lorenz96(50), "Heun", 0.001, 2, 8)()
    for method in ("BAOAB", "ConformalVerlet"):
        whole = timed(lambda method=method: simulated(chain(16), method, 0.1, 200, 512)())
        rows.append({"method": method, "N": 16, "first_run_s": whole, "first_run_wanted_s": 12.3 / 20})
    for N, paths in ((16, 512), (128, 64), (1024, 16)):
        problem, end, h = chain(N), 5.0, 0.1

        def both(t, x, N=N, problem=problem):
            q, p = x[:N], x[N:]
            return jnp.array([jnp.mean(p**2), -jnp.mean(q * problem.pull(0, t, q, p, None))])

        seen = Observable(both, name="kT", at=[end])
        run = sd.simulate(problem, "BAOAB", t=(0, end), dt=h, paths=paths, seed=1, threads=1, collect=seen)
        row = measured(lambda N=N: chain(N), "BAOAB", h, 4e6 if quick else 2e7, paths, 2)
        kT, error = run["kT"].values[0], run["kT_stderr"].values[0]
        rows.append(row | {"N": N, "kinetic": kT[0], "kinetic_stderr": error[0], "configurational": kT[1],
                           "configurational_stderr": error[1]})  # fmt: skip
    return {"rows": rows}


def building(storeys: int) -> Any:
    """A shear building under white ground acceleration."""
    ones = np.ones(storeys - 1)
    stiffness = 2.5e8 * scipy.sparse.diags_array([-ones, np.append(2.0 * ones, 1.0), -ones], offsets=[-1, 0, 1])
    mass, damping = np.full(storeys, 2e5), ("rayleigh", (0.6, 0.05), (20.0, 0.05))
    return sd.Mechanical.from_matrices(mass, None, stiffness, damping=damping, noise=mass)


def buildings(quick: bool) -> dict[str, Any]:
    """Shear buildings with the stochastic α method, one sparse solve per step."""
    work = 1e6 if quick else 1e7
    return {"rows": [measured(lambda n=n: building(n), "StochasticAlpha", 0.01, work, 64, 2)
                     for n in ((200,) if quick else (200, 1000))]}  # fmt: skip


def rc_ladder(sections: int) -> str:
    """The netlist of a pulse into a chain of resistors, with a capacitor at every node."""
    body = "".join(f"R{i} n{i} n{i + 1} 1k\nC{i} n{i + 1} 0 1p\n" for i in range(sections))
    return f"ladder\nV1 n0 0 PULSE(0 1 0 1n 1n 1 2)\n{body}.tran 1n 1u\n"


def rc_grid(side: int) -> str:
    """The same for a square of nodes, each joined with those beside it and below it."""
    lines = ["grid", "V1 n0_0 0 PULSE(0 1 0 1n 1n 1 2)"]
    for i in range(side):
        for j in range(side):
            lines += [f"RA{i}_{j} n{i}_{j} n{i}_{j + 1} 1k"] * (j + 1 < side)
            lines += [f"RB{i}_{j} n{i}_{j} n{i + 1}_{j} 1k"] * (i + 1 < side)
            lines.append(f"C{i}_{j} n{i}_{j} 0 1p")
    return "\n".join([*lines, ".tran 1n 1u", ""])


def nets(quick: bool) -> dict[str, Any]:
    """RC nets with the thermal noise of every resistor by the trapezoidal rule; the first call reads the netlist."""
    simulated(sd.circuits.read(rc_ladder(20)), "Trapezoidal", 1e-9, 2, 8)()
    sizes = (("ladder", rc_ladder(200)), ("ladder", rc_ladder(1000)), ("ladder", rc_ladder(10_000)),
             ("grid", rc_grid(40)), ("grid", rc_grid(100)))  # fmt: skip
    work = 4e6 if quick else 2e7
    return {"rows": [measured(lambda text=text: sd.circuits.read(text), "Trapezoidal", 1e-9, work, 64, 2)
                     | {"kind": kind} for kind, text in (sizes[:2] if quick else sizes)]}  # fmt: skip


CASES = {
    "lorenz96": flat_cost, "fields": fields, "implicit": implicit, "particles": pairs, "chains": chains,
    "buildings": buildings, "nets": nets,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {"machine": machine()} | {name: CASES[name](options.quick) for name in options.only.split(",")}
    print(json.dumps(found, indent=1, default=str))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":
    main()
