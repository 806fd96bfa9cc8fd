"""Everything about the GPU in one call: python benchmarks/gpu.py [--only PART ...] [--json FILE]; needs a GPU.

speed      Kubo's oscillator by Heun's method: simulate with moments every 25 steps, beside diffrax and a
           kernel written by hand in CUDA C++; other methods beside jax.vmap of the same step
plasma     Lenard-Bernstein collisions at the size of the paper, 1e7 paths to T = 1000
size       Lorenz's 96 model with more and more components
fields     other large systems of large_systems.py: Allen and Cahn's equation, a heat equation, particles, a chain
catalogue  the moments of every method on both devices, and what its kernel takes to compile
generator  4e9 normals: moments to order 8, tails, correlations; and the same bits twice
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import large_systems
import numpy as np
import rivals
import scipy.stats
from timing import machine

import stodyn as sd
from stodyn.analysis.conservation import energy_of
from stodyn.engine.spec import matched
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Method
from stodyn.models import catalogue as models
from stodyn.models.circuits import two_diodes
from stodyn.models.lenard_bernstein import LENARD_BERNSTEIN, lenard_bernstein
from stodyn.models.lorenz import lorenz
from stodyn.models.noise_structures import general_noise
from stodyn.models.spring_pendulum import spring_pendulum
from stodyn.noise import counter
from stodyn.noise.stream import STREAMS
from stodyn.statistics import Moments, Observable, Paths

H, EVERY = 0.05, 25


def kubo() -> sd.SDE:
    def drift(t, x):
        return jnp.stack([x[1], -(x[0] + rivals.NU * x[1])])

    def diffusion(t, x):
        return rivals.BETA * drift(t, x)[:, None]

    return sd.SDE(drift, diffusion, (2.0, 0.0), calculus="stratonovich")


def best(run, repeats: int = 5) -> tuple[float, float, Any]:
    """(first call, best of the others, what it gave), in seconds."""
    began = time.perf_counter()
    result = run()
    first, times = time.perf_counter() - began, []
    for _ in range(repeats):
        began = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - began)
    return first, min(times), result


class Table:
    """Rows that are printed as they come and kept for the JSON file."""

    def __init__(self):
        self.rows: list[dict[str, Any]] = []

    def add(self, part: str, **row: Any) -> None:
        self.rows.append({"part": part} | row)
        words = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print(f"{part:10s}", "  ".join(words), flush=True)


# --- speed ------------------------------------------------------------------------------------------------------------


def speed(table: Table) -> None:
    problem, steps = kubo(), 1000

    def ready(paths):
        held = sd.prepare(problem, "Heun", t=(0.0, steps * H), dt=H, paths=paths, collect=Moments(every=EVERY),
                          device="gpu")  # fmt: skip
        seeds = itertools.count(1)
        return lambda: held(seed=next(seeds))

    found: dict[int, float] = {}
    for paths in (131_072, 1_048_576, 8_388_608):
        first, seconds, run = best(ready(paths), 10)
        found[paths] = seconds
        energy = 0.5 * float(np.sum(run["variance"][-1] + run["mean"][-1] ** 2))
        table.add("speed", job=f"Kubo Heun {paths} x {steps}", ms=seconds * 1e3, rate=paths * steps / seconds,
                  first_call_s=first, energy=energy, executor=sd.provenance(run)["executor"])  # fmt: skip
        seconds = by_hand(paths, steps)
        if seconds is not None:
            table.add("speed", job=f"CUDA C++ {paths}", ms=seconds * 1e3, ours_over_it=found[paths] / seconds)
    for paths in (131_072, 1_048_576):
        for name, seconds in by_diffrax(paths, steps):
            table.add("speed", job=f"{name} {paths}", ms=seconds * 1e3, it_over_ours=seconds / found[paths])
    others(table)


def by_hand(paths: int, steps: int) -> float | None:
    """Seconds of the kernel in CUDA C++, launch and sums included; None without CuPy."""
    try:
        import cupy
    except ImportError:
        return None
    source = Path(__file__).with_name("kubo.cu").read_text()
    kernel = cupy.RawModule(code=source, options=("--std=c++17",)).get_function("kubo")
    key, sums = counter.key_of(1), cupy.zeros(paths // 32)

    def run():
        kernel((paths // 128,), (128,), (key[0], key[1], np.int32(steps), H, rivals.BETA, rivals.NU, sums))
        return float(sums.sum()) / paths

    _, seconds, energy = best(run, 10)
    print(f"           by hand: E H(T) = {energy:.4f}")
    return seconds


def by_diffrax(paths: int, steps: int):
    try:
        import diffrax
    except ImportError as reason:
        print(f"no diffrax: {reason}")
        return
    terms = rivals.diffrax_terms(
        lambda x: jnp.stack([x[1], -(x[0] + rivals.NU * x[1])]),
        lambda x, W: rivals.BETA * jnp.stack([x[1], -(x[0] + rivals.NU * x[1])]) * W,
        (),
    )
    for way in rivals.DIFFRAX:
        for keys in rivals.KEYS:
            run = rivals.DIFFRAX[way](
                diffrax.Heun(), terms, (2.0, 0.0), lambda x: 0.5 * (x[0] ** 2 + x[1] ** 2), paths, steps, H, 1, keys
            )
            yield f"diffrax {way}, {keys}", best(run, 2)[1]


def others(table: Table) -> None:
    """Other methods, a kernel beside jax.vmap of the same step and normals."""
    million = 1_048_576
    jobs = {
        "alpha, spring pendulum": (spring_pendulum(), sd.method("StochasticAlpha")(rho=0.4), 0.01, 400, million),
        "implicit midpoint, Kubo": (kubo(), sd.method("ImplicitMidpoint")(tol=1e-10), H, 400, million),
        "DIRK, Lenard-Bernstein": (
            dataclasses.replace(lenard_bernstein(), start=(0.3, 1.0)),
            sd.method("DIRK"),
            0.15,
            400,
            million,
        ),
        "SRIW1, Lorenz": (lorenz(noise="multiplicative"), sd.method("SRIW1"), 0.005, 400, million),
        "MilsteinLevy, two channels": (general_noise(), sd.method("MilsteinLevy"), 0.01, 400, million),
        "RK1W2M, two diodes": (two_diodes(), sd.method("RK1W2M"), 1e-4, 400, 131_072),
    }
    for name, (problem, method, h, steps, paths) in jobs.items():

        def ready(executor, n=steps, problem=problem, method=method, h=h, paths=paths):
            return sd.prepare(problem, method, t=(0.0, n * h), dt=h, paths=paths, device="gpu", executor=executor,
                              collect=Moments(every=EVERY))  # fmt: skip

        held = ready("auto")
        first, seconds, found = best(lambda held=held: held(seed=1), 5)
        held = ready("vmap")
        slow = best(lambda held=held: held(seed=1), 1)[1]
        table.add("speed", job=f"{name} {paths} x {steps}", ms=seconds * 1e3, rate=paths * steps / seconds,
                  first_call_s=first, vmap_over_it=slow / seconds, executor=sd.provenance(found)["executor"],
                  why=sd.provenance(found)["executor_reason"])  # fmt: skip


# --- plasma -----------------------------------------------------------------------------------------------------------


def plasma(table: Table) -> None:
    problem, h, steps, paths = lenard_bernstein(), 0.15, 6667, 10_000_000
    energy = Observable(energy_of(problem), name="energy", every=steps)
    began = time.perf_counter()
    run = sd.simulate(problem, "DIRK", t=(0.0, steps * h), dt=h, paths=paths, seed=1, device="gpu", collect=energy,
                      progress=False)  # fmt: skip
    seconds = time.perf_counter() - began
    table.add("plasma", seconds=seconds, rate=paths * steps / seconds, energy=float(run["energy"][-1]),
              stderr=float(run["energy_stderr"][-1]), ergodic=float(LENARD_BERNSTEIN.exact["ergodic_energy"]()),
              executor=sd.provenance(run)["executor"])  # fmt: skip


# --- size -------------------------------------------------------------------------------------------------------------


def size(table: Table) -> None:
    """Lorenz's 96 model with n components, each with noise of its own."""
    for n, paths in ((4, 1_048_576), (20, 209_715), (40, 104_857), (100, 41_943), (200, 20_971), (1000, 40_000),
                     (10_000, 4096), (100_000, 128)):  # fmt: skip

        def drift(t, x):
            return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + 8.0

        problem = sd.SDE(drift, lambda t, x, n=n: sd.diagonal(jnp.full(n, 0.5)), np.linspace(1.0, 3.0, n))
        held = sd.prepare(
            problem, "Heun", t=(0.0, 1.0), dt=0.005, paths=paths, collect=Moments(every=EVERY), device="gpu"
        )
        first, seconds, run = best(lambda held=held: held(seed=1), 3)
        table.add("size", n=n, paths=paths, ms=seconds * 1e3, first_call_s=first,
                  why=sd.provenance(run)["executor_reason"])  # fmt: skip


def fields(table: Table) -> None:
    """Nanoseconds per component, path and step of whole calls."""
    cases: dict[str, tuple[Any, Any, float, int, int]] = {
        "Allen-Cahn, 1000 nodes": (large_systems.allen_cahn(1000), "EulerMaruyama", 0.01, 200, 4096),
        "Allen-Cahn, 10 000 nodes": (large_systems.allen_cahn(10_000), "EulerMaruyama", 0.01, 200, 512),
        "heat equation, 1000 nodes": (large_systems.heat(1000), "ThetaEuler", 0.1, 50, 1024),
        "1000 particles, all pairs": (large_systems.particles(1000), "EulerMaruyama", 1e-3, 20, 128),
        "chain of 1024 particles": (large_systems.chain(1024), "BAOAB", 0.1, 100, 1024),
    }
    for name, (problem, method, h, steps, paths) in cases.items():
        held = sd.prepare(problem, method, t=(0.0, h * steps), dt=h, paths=paths, device="gpu",
                          collect=Paths(1, at=[h * steps]))  # fmt: skip
        first, seconds, run = best(lambda held=held: held(seed=1), 3)
        ns, why = seconds / (problem.n * paths * steps) * 1e9, sd.provenance(run)["executor_reason"]
        table.add("fields", name=name, paths=paths, steps=steps, ms=seconds * 1e3, first_call_s=first, ns=ns, why=why)


# --- catalogue --------------------------------------------------------------------------------------------------------


def every_method(table: Table) -> None:
    problems = sorted((model.problem for model in models.catalogue().values()), key=lambda problem: problem.n)
    worst = 0.0
    for name, method in catalogue().items():
        if not isinstance(method, Method):
            continue
        for problem in problems:
            try:
                matched(problem, method)
            except (TypeError, ValueError):
                continue
            break
        else:
            table.add("catalogue", method=name, failed="no model fits")
            continue
        options = dict(t=(0.0, 0.5), dt=1 / 64, collect=Moments(at=[0.5]), on_failure="record", progress=False)
        try:
            began = time.perf_counter()
            gpu = sd.simulate(problem, method, paths=1_048_576, seed=1, device="gpu", **options)
            first = time.perf_counter() - began
            cpu = sd.simulate(problem, method, paths=32_768, seed=2, **options)
            doubt = np.hypot(gpu["mean_stderr"], cpu["mean_stderr"]).values
            apart = np.abs(gpu["mean"] - cpu["mean"]).values
            spread = np.hypot(gpu["variance_stderr"], cpu["variance_stderr"]).values
            both = [(apart, doubt, np.abs(cpu["mean"].values)),
                    (np.abs(gpu["variance"] - cpu["variance"]).values, spread, cpu["variance"].values)]  # fmt: skip
            z = max(
                float(np.max(np.where(d > 1e-9 * (s + 1e-300), a / np.maximum(d, 1e-300), 0.0))) for a, d, s in both
            )
            worst = max(worst, z)
            record = sd.provenance(gpu)
            table.add("catalogue", method=name, first_call_s=first, z=z, executor=record["executor"],
                      failed=int(gpu.sizes.get("failure", 0)), why=record["executor_reason"])  # fmt: skip
        except Exception as reason:
            table.add("catalogue", method=name, failed=f"{type(reason).__name__}: {str(reason)[:150]}")
    table.add("catalogue", worst_z=worst)


# --- generator --------------------------------------------------------------------------------------------------------


def generator(table: Table) -> None:
    gpu = jax.devices("gpu")[0]
    with jax.enable_x64(True), jax.default_device(gpu):
        path, width, rounds = jnp.arange(1 << 20, dtype=np.uint64), 1 << 20, 2000
        key = tuple(jnp.asarray(counter.key_of(11)))
        edges = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])

        def one(n, carry):
            powers, tails, products, before = carry
            a, b = counter.pair(key, STREAMS["W"], path, n.astype(np.uint64))
            for z in (a, b):
                powers += jnp.stack([jnp.sum(z**k) for k in range(1, 9)])
                tails += jnp.stack([jnp.stack([jnp.sum(z > e), jnp.sum(z < -e)]) for e in edges])
            across = jnp.stack([jnp.sum(a * b), jnp.sum(a * before), jnp.sum(a[1:] * a[:-1]),
                                jnp.sum((a * a - 1) * (b * b - 1)) / 2])  # fmt: skip
            return powers, tails, products + across, b

        start = (jnp.zeros(8), jnp.zeros((6, 2), np.int64), jnp.zeros(4), jnp.zeros(width))
        run = jax.jit(lambda: jax.lax.fori_loop(0, rounds, one, start))
        began = time.perf_counter()
        powers, tails, products, _ = map(np.asarray, run())
        seconds = time.perf_counter() - began
    count = 2 * width * rounds
    exact = {k: float(scipy.stats.norm.moment(k)) for k in range(1, 17)}
    z = [(powers[k - 1] / count - exact[k]) / np.sqrt((exact[2 * k] - exact[k] ** 2) / count) for k in range(1, 9)]
    table.add("generator", normals=count, seconds=seconds, moments_z=str(np.round(z, 2).tolist()))
    expected = count * scipy.stats.norm.sf(edges)[:, None]
    table.add("generator", tails_z=str(np.round((tails - expected) / np.sqrt(expected), 2).tolist()))
    table.add("generator", correlations_z=str(np.round(products / np.sqrt(count / 2), 2).tolist()))
    runs = [
        sd.simulate(
            kubo(), "Heun", t=(0.0, 10.0), dt=H, paths=3_000_000, seed=5, device="gpu", collect=Moments(every=50)
        )
        for _ in range(3)
    ]
    table.add("generator", same_bits=all(run.drop_attrs().identical(runs[0].drop_attrs()) for run in runs))


PARTS = {
    "speed": speed, "plasma": plasma, "size": size, "fields": fields, "catalogue": every_method, "generator": generator,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    try:
        device = jax.devices("gpu")[0].device_kind
    except RuntimeError as reason:
        raise SystemExit(f"JAX finds no GPU here: {reason}") from None
    jax.config.update("jax_enable_x64", True)  # for the peers; simulate computes in float64 by itself
    found = machine("jax", "numpy", "diffrax", "cupy-cuda13x") | {"device": device, "date": time.strftime("%Y-%m-%d")}
    print(", ".join(f"{k} {v}" for k, v in found.items()))
    table = Table()
    for part in options.only:
        try:
            PARTS[part](table)
        except Exception as reason:
            table.add(part, failed=f"{type(reason).__name__}: {str(reason)[:300]}")
    if options.json:
        options.json.write_text(json.dumps({"machine": found, "rows": table.rows}, indent=1))


if __name__ == "__main__":
    main()
