"""How fast ensembles run: stodyn beside the other ways of computing the same thing, all through `simulate`.

    python benchmarks/ensemble_speed.py [--quick] [--only kubo,implicit,...] [--json FILE]

Every run of stodyn takes moments every 25 steps and keeps its failure flags on; the rivals (rivals.py) keep the last
state only. Times are the best of interleaved runs. Install the peers with `pip install stodyn[peers]`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import rivals
from timing import Contender, in_fresh_process, load, machine, missing, peak_memory, race, show

import stodyn as sd
from stodyn.engine.door import available_cores
from stodyn.methods.catalogue import find
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ImplicitMidpoint
from stodyn.models.kubo import kubo
from stodyn.models.lorenz import lorenz
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.numerics.printing.compiling import processor as compiling_for
from stodyn.statistics import Moments

PATHS = 16_384
IN_A_ROW = 20
THREADS = available_cores()
WIDE = compiling_for().register == 8  # AVX-512: goals differ where the processor does
PEERS = ("diffrax", "torchsde", "sdeint")


class Report:
    """The tables and goals of a run."""

    def __init__(self, quick: bool, unavailable: dict[str, str]):
        self.quick, self.unavailable = quick, unavailable
        self.tables: dict[str, Any] = {}
        self.goals: list[dict[str, Any]] = []

    def race(self, title: str, contenders: list[Contender], answer: str) -> dict[str, Contender]:
        race(contenders, rounds=3 if self.quick else 9, patience=1.0 if self.quick else 3.0)
        self.tables[title] = show(title, contenders, answer)
        return {contender.name: contender for contender in contenders}

    def table(self, title: str, columns: tuple[str, ...], rows: list[tuple]) -> None:
        print(f"\n{title}\n" + "".join(f"{column:>22s}" for column in columns))
        for row in rows:
            print("".join(f"{v:22.4g}" if isinstance(v, float) else f"{v!s:>22s}" for v in row))
        self.tables[title] = [dict(zip(columns, row, strict=True)) for row in rows]

    def goal(self, what: str, relation: str, asked: float, found: float, remark: str = "") -> None:
        met = bool(found >= asked if relation == ">=" else found <= asked)
        goal = {"goal": what, "relation": relation, "asked": asked, "found": found, "met": met, "remark": remark}
        self.goals.append(goal)


def stodyn_run(problem, method, h: float, steps: int, observe: Callable, paths: int = PATHS, **options):
    """A run of stodyn, giving a mean made of the first and second moments at the end."""

    def run() -> float:
        result = sd.simulate(problem, method, t=(0.0, steps * h), dt=h, paths=paths, seed=1, progress=False,
                             collect=Moments(every=min(25, steps)), **options)  # fmt: skip
        last = result.isel(time=-1)
        return float(observe(last["mean"].values, last["variance"].values))

    return run


def energy(x):
    return 0.5 * (x[0] ** 2 + x[1] ** 2)


def mean_energy(mean, variance):
    return 0.5 * np.sum(mean**2 + np.nan_to_num(variance))  # a single path has no variance


def last_component(x):
    return x[-1]


# --- a ---------------------------------------------------------------------------------------------------------------


def explicit_oscillator(report: Report) -> None:
    steps, h, problem = (500 if report.quick else 1000), 0.05, kubo(rivals.BETA, rivals.NU)
    work = PATHS * steps
    contenders = [
        Contender("stodyn", stodyn_run(problem, Heun, h, steps, mean_energy), work),
        Contender("its normals alone", rivals.normals_alone(1, PATHS, steps, THREADS), work),
        Contender("Numba over slabs of NumPy normals", rivals.numba_slabs(PATHS, steps, h, THREADS), work),
        Contender(
            "Numba drawing from np.random.Generator",
            rivals.numba_generator(rivals.kubo_by_generator, PATHS, steps, h, THREADS), work,
        ),
        Contender("lax.scan with jax.random", rivals.scan_with_random(PATHS, steps, h, THREADS), work),
    ]  # fmt: skip
    if "diffrax" not in report.unavailable:
        import diffrax

        terms = rivals.diffrax_terms(
            lambda x: jnp.stack([x[1], -(x[0] + rivals.NU * x[1])]),
            lambda x, W: rivals.BETA * jnp.stack([x[1], -(x[0] + rivals.NU * x[1])]) * W,
            (),
        )
        contenders += diffrax_contenders(diffrax.Heun(), terms, (2.0, 0.0), energy, steps, h)
    if "torchsde" not in report.unavailable:
        few = max(steps // 10, 1)
        contenders.append(
            Contender(f"torchsde Heun ({few} steps)", rivals.kubo_by_torchsde(PATHS, few, h, THREADS), PATHS * few)
        )
    if "sdeint" not in report.unavailable:
        contenders.append(Contender("sdeint stratHeun (1 path)", rivals.kubo_by_sdeint(steps, h), steps))
    found = report.race(f"Damped Kubo oscillator, Heun, float64, {PATHS} paths x {steps} steps", contenders, "E H(T)")
    ours = found["stodyn"].ns
    diffrax_goals(report, "Kubo, Heun", found, *((18.0, 8.0) if WIDE else (16.0, 9.0)))
    report.goal(
        "Kubo: Numba drawing from Generator / stodyn", ">=", 1.15,
        found["Numba drawing from np.random.Generator"].ns / ours,
    )  # fmt: skip
    report.goal(
        "Kubo: Numba over slabs of NumPy normals / stodyn", ">=", 1.0,
        found["Numba over slabs of NumPy normals"].ns / ours,
    )  # fmt: skip
    report.goal("Kubo: stodyn / its normals alone", "<=", 1.5 if WIDE else 2.3, ours / found["its normals alone"].ns)


def diffrax_contenders(solver, terms, start, observe, steps: int, h: float) -> list[Contender]:
    """Every way we know to run it, each a quarter of the steps: its cost is linear in them, and it takes seconds."""
    few = steps // 4
    return [
        Contender(
            f"diffrax {type(solver).__name__}, {way}, {keys} keys",
            rivals.DIFFRAX[way](solver, terms, start, observe, PATHS, few, h, THREADS, keys),
            PATHS * few,
        )
        for way in rivals.DIFFRAX
        for keys in rivals.KEYS
    ]


def diffrax_goals(report: Report, job: str, found: dict[str, Contender], by_vmap: float, packed: float) -> None:
    """Against the fastest way that solves path by path, and against the fastest of all (paths packed by hand)."""
    rows = [c for c in found.values() if c.name.startswith("diffrax")]
    if rows:
        for title, group, factor in (
            ("diffrax, the fastest vmap over paths", [c for c in rows if "vmap" in c.name], by_vmap),
            ("diffrax, the fastest of all", rows, packed),
        ):
            best = min(group, key=lambda c: c.ns)
            ratio = best.ns / found["stodyn"].ns
            report.goal(f"{job}: {title} / stodyn", ">=", factor, ratio, best.name)


# --- b ---------------------------------------------------------------------------------------------------------------


def spring_pendulum() -> sd.SDE:
    """A mass on a stiff spring under gravity, damped and driven by noise in its velocity; state (x, y, dx, dy)."""

    def drift(t, x, stiffness):
        r = jnp.sqrt(x[0] ** 2 + x[1] ** 2)
        pull = stiffness * (r - 1.0) / r
        return jnp.stack([x[2], x[3], -pull * x[0], 1.0 - pull * x[1]])

    def diffusion(t, x, stiffness):
        return jnp.stack([0.0 * x[0], 0.0 * x[1], 0.2 * x[2], 0.4 * x[3]])[:, None]

    return sd.SDE(drift, diffusion, (0.9, 0.0, 0.0, 0.0), params=rivals.STIFFNESS, calculus="stratonovich",
                  names=("x", "y", "dx", "dy"))  # fmt: skip


def implicit(report: Report) -> None:
    method = ImplicitMidpoint(tol=rivals.TOL)
    jobs = {
        "Kubo": (
            kubo(rivals.BETA, rivals.NU), 0.05, 1000, rivals.kubo_midpoint_by_generator, energy, mean_energy, "E H(T)",
        ),
        "Spring pendulum": (
            spring_pendulum(), 0.01, 400, rivals.pendulum_midpoint_by_generator, lambda x: x[1],
            lambda mean, variance: mean[1], "E y(T)",
        ),
    }  # fmt: skip
    for job, (problem, h, steps, loop, observe, of_moments, answer) in jobs.items():
        if report.quick:
            steps = steps // 4
        work, few = PATHS * steps, steps // 10
        plain = f"jax.vmap with jnp.linalg.solve ({few} steps)"
        found = report.race(
            f"{job}, implicit midpoint rule, Newton to {rivals.TOL}, {PATHS} paths x {steps} steps",
            [
                Contender("stodyn", stodyn_run(problem, method, h, steps, of_moments), work),
                Contender("stodyn, vmap", stodyn_run(problem, method, h, steps, of_moments, executor="vmap"), work),
                Contender(plain, rivals.midpoint_by_vmap(problem, PATHS, few, h, observe), PATHS * few),
                Contender(
                    "Numba by fixed point, np.random.Generator",
                    rivals.numba_generator(loop, PATHS, steps, h, THREADS), work,
                ),
            ],
            answer,
        )  # fmt: skip
        ours = found["stodyn"].ns
        by_vmap = min(found["stodyn, vmap"].ns, found[plain].ns)
        by_numba = found["Numba by fixed point, np.random.Generator"].ns
        report.goal(f"{job}, midpoint: the faster vmap / stodyn", ">=", 1.4, by_vmap / ours)
        report.goal(
            f"{job}, midpoint: Numba by fixed point / stodyn", ">=", 2.0 if job == "Kubo" else 1.8, by_numba / ours
        )


# --- c ---------------------------------------------------------------------------------------------------------------


def diagonal_noise(report: Report) -> None:
    steps, h, problem = (100 if report.quick else 500), 0.002, lorenz()
    p = problem.params
    contenders = [
        Contender("stodyn", stodyn_run(problem, EulerMaruyama, h, steps, lambda mean, _: mean[2]), PATHS * steps)
    ]
    if "diffrax" not in report.unavailable:
        import diffrax

        def drift(x):
            x, y, z = x
            return jnp.stack([p["prandtl"] * (y - x), x * (p["rayleigh"] - z) - y, x * y - p["ratio"] * z])

        terms = rivals.diffrax_terms(drift, lambda x, W: p["strength"] * x * W, (3,))
        contenders += diffrax_contenders(diffrax.Euler(), terms, (1.0, 1.0, 1.0), last_component, steps, h)
    found = report.race(f"Lorenz, diagonal noise, Euler-Maruyama, {PATHS} paths x {steps} steps", contenders, "E z(T)")
    diffrax_goals(report, "Lorenz, Euler-Maruyama", found, 8.0, 8.0)


# --- d ---------------------------------------------------------------------------------------------------------------


def scaling(report: Report) -> None:
    problem, h = kubo(), 0.05
    top = 100_000 if report.quick else 1_000_000
    sizes = [n for n in (1_000, 10_000, 100_000, 1_000_000) if n <= top]
    lengths = (100, 1_000) if report.quick else (100, 1_000, 10_000)
    steps = lengths[1] // 2
    by_paths = [
        Contender(f"{n} x {steps}", stodyn_run(problem, Heun, h, steps, mean_energy, n), n * steps) for n in sizes
    ]
    by_steps = [Contender(f"{PATHS} x {n}", stodyn_run(problem, Heun, h, n, mean_energy), PATHS * n) for n in lengths]
    one = Contender("1 x 10000", stodyn_run(problem, Heun, h, 10_000, mean_energy, 1), 10_000)
    found = report.race("Cost against paths and steps (Kubo, Heun)", [*by_paths, *by_steps, one], "E H(T)")
    costs = [contender.ns for contender in found.values()]
    report.goal(
        "cost of a path-step, most paths / a decade fewer", "<=", 1.25, costs[len(sizes) - 1] / costs[len(sizes) - 2]
    )
    last = len(sizes) + len(lengths) - 1
    report.goal("cost of a path-step, most steps / a decade fewer", "<=", 1.25, costs[last] / costs[last - 1])
    ready = sd.prepare(problem, Heun, t=(0.0, 25 * h), dt=h, paths=1, collect=Moments(every=25))
    seeds = itertools.count(1)
    ways = {
        "simulate, method named": stodyn_run(problem, Heun, h, 25, mean_energy, 1),
        "simulate, method left out": stodyn_run(problem, None, h, 25, mean_energy, 1),
        "ready(seed=...)": lambda: float(ready(seed=next(seeds))["mean"][-1, 0]),
        "ready.arrays(seed=...)": lambda: float(ready.arrays(seed=next(seeds))["mean"][-1, 0]),
    }
    calls = [Contender(name, in_a_row(call), IN_A_ROW) for name, call in ways.items()]
    race(calls, rounds=9, patience=1.0)
    report.table(
        f"A call, 1 path x 25 steps, {IN_A_ROW} in a row",
        ("call", "milliseconds"),
        [(c.name, c.ns / 1e6) for c in calls],
    )
    for call, asked in zip(calls, (25.0, 25.0, 2.0, 0.5), strict=True):
        report.goal(f"{call.name} (ms)", "<=", asked, call.ns / 1e6)
    raw_calls(report)
    many, long = (100_000, 100) if report.quick else (1_000_000, 1_000)
    before, peak, seconds = in_fresh_process(memory_of, many, long)
    report.table(
        "Peak memory, moments only", ("paths", "steps", "MB after import", "peak MB", "seconds"),
        [(many, long, before, peak, seconds)],
    )  # fmt: skip
    report.goal(f"peak memory of {many} paths x {long} steps (MB)", "<=", 600.0, peak)


def raw_calls(report: Report) -> None:
    """What `ready.raw` takes around its steps, in µs of processor time: a new seed each time, and other parameters and
    starts with it. What is not overhead is what more steps add, for as many as there are."""
    rows = []
    for paths in (8, 1000):
        costs = [raw_cost(paths, steps, 5 if report.quick else 9) for steps in (10, 110)]
        of_steps = (costs[1][0] - costs[0][0]) / 10
        rows.append((f"{paths} x 10", *costs[0], of_steps))
        for name, cost in zip(("a seed", "a seed, params and start"), costs[0], strict=True):
            report.goal(f"ready.raw around the steps of {paths} paths, {name} (µs)", "<=", 100.0, cost - of_steps)
    columns = ("paths x steps", "a seed", "params, start", "10 steps")
    report.table("A call of ready.raw, µs of processor time", columns, rows)


def raw_cost(paths: int, steps: int, rounds: int) -> tuple[float, float]:
    """The least processor time of a call, in µs: with another seed, and with other parameters and starts too."""
    ready, seeds = sd.prepare(ornstein_uhlenbeck(), Heun, t=(0.0, 0.1 * steps), dt=0.1, paths=paths), itertools.count(1)
    out, changes = np.empty((1, paths)), {"params": {"rate": 2.0, "sigma": 0.3}, "start": np.ones((1, paths))}
    spent: list[list[float]] = [[], []]
    for _ in range(rounds):
        for costs, changed in zip(spent, ({}, changes), strict=True):
            began = time.process_time()
            for _ in range(10 * IN_A_ROW):
                ready.raw(seed=next(seeds), out=out, **changed)
            costs.append((time.process_time() - began) / (10 * IN_A_ROW) * 1e6)
    return min(spent[0]), min(spent[1])


def in_a_row(call: Callable[[], float]) -> Callable[[], float]:
    """The call again and again, as an optimiser or a loop over seeds makes it; the last answer."""
    return lambda: [call() for _ in range(IN_A_ROW)][-1]


def memory_of(paths: int, steps: int) -> tuple[float, float, float]:
    before, began = peak_memory(), time.perf_counter()
    stodyn_run(kubo(), Heun, 0.05, steps, mean_energy, paths)()
    return before, peak_memory(), time.perf_counter() - began


# --- e ---------------------------------------------------------------------------------------------------------------


def coupled(n: int, calculus: str) -> sd.SDE:
    """dx = (A x - x³) dt with every component coupled to every other, and noise proportional to each."""
    A = np.random.default_rng(n).normal(scale=0.3, size=(n, n)) - np.eye(n)
    return sd.SDE(lambda t, x: A @ x - x**3, lambda t, x: jnp.diag(0.2 * x), np.ones(n), calculus=calculus)


def first_result(n: int, method: str) -> tuple[float, float, str]:
    """Of a process that has run something else before."""
    stodyn_run(kubo(), Heun, 0.05, 25, mean_energy, 1)()
    began, cpu = time.perf_counter(), time.process_time()
    chosen: Any = find(method)
    run = sd.simulate(coupled(n, chosen.calculus), chosen, t=(0, 1), dt=0.01, paths=4096, seed=1, progress=False,
                      collect=Moments(every=25))  # fmt: skip
    return time.perf_counter() - began, time.process_time() - cpu, sd.provenance(run)["executor"]


def compiling(report: Report) -> None:
    rows = []
    for method in ("EulerMaruyama", "Heun", "ThetaEuler", "ImplicitMidpoint"):
        for n in (2, 10) if report.quick else (2, 5, 10):
            rows.append((method, n, *in_fresh_process(first_result, n, method)))
    report.table(
        "Time to the first result in a warm interpreter", ("method", "dimension", "seconds", "cpu", "executor"), rows
    )
    for kind, methods, asked in (("explicit", ("EulerMaruyama", "Heun"), 0.3), ("implicit", None, 0.8)):
        of_kind = [row for row in rows if methods is None or row[0] in methods]
        slowest = max(row[2] for row in of_kind if methods or row[0] not in ("EulerMaruyama", "Heun"))
        report.goal(f"slowest first result, {kind} (s)", "<=", asked, slowest)


SECTIONS = {
    "kubo": explicit_oscillator,
    "implicit": implicit,
    "lorenz": diagonal_noise,
    "scaling": scaling,
    "compiling": compiling,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repeats, about two minutes")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    options = parser.parse_args()
    sections = options.only.split(",")
    if unknown := [name for name in sections if name not in SECTIONS]:
        parser.error(f"--only: no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    jax.config.update("jax_enable_x64", True)  # for the rivals: stodyn computes in float64 of its own accord
    report = Report(options.quick, missing(*PEERS))
    about = machine("jax", "numpy", "numba", *PEERS) | {"threads": THREADS, "load before": load()}
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    for name, reason in report.unavailable.items():
        print(f"left out: {name}, which could not be imported ({reason})")
    if about["load before"] > 0.5:
        print("the machine is not idle: these figures are only an indication")
    for name in sections:
        SECTIONS[name](report)
    about["load after"] = load()
    print(f"\n{'':94s}{'asked':>12s}{'found':>10s}   load {about['load after']:.1f}")
    for g in report.goals:
        print(
            f"{g['goal']:94s}{g['relation']:>5s}{g['asked']:7.4g}{g['found']:10.2f}   {'met' if g['met'] else 'MISSED'}"
        )
    if options.json:
        record = {"machine": about, "left out": report.unavailable, "tables": report.tables, "goals": report.goals}
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
