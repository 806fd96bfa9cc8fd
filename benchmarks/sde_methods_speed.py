"""How fast the methods for plain SDEs run and how exact they are for it: stodyn beside diffrax, through `simulate`.

    python benchmarks/sde_methods_speed.py [--quick] [--only EulerMaruyama,Milstein,...] [--json FILE] [--out FILE.png]

The Lorenz system, float64: with diagonal multiplicative noise for Euler-Maruyama, Milstein and SRIW1, with additive
noise for SRA1. stodyn takes moments every 25 steps and keeps its failure flags on; diffrax keeps the last state only
and is run in every way we know (rivals.py) with the cheapest Brownian motion it has, over a twentieth of the steps (its
cost is linear in them). It has no SRIW1: SlowRK, of the same strong order 1.5, stands beside it. The errors of the
figure are root mean squares against a fine path, so that error and time together say what a method is worth; a method
has the same error in either library.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import rivals
from ensemble_speed import PATHS, THREADS, Report, diffrax_goals, stodyn_run
from timing import Contender, load, machine, missing

from stodyn.analysis.order import strong_order
from stodyn.methods.catalogue import find
from stodyn.models.lorenz import lorenz

SPAN, STEP = 0.5, 0.002
JOBS = {"EulerMaruyama": "multiplicative", "Milstein": "multiplicative", "SRIW1": "multiplicative", "SRA1": "additive"}
PEERS = {"EulerMaruyama": "Euler", "Milstein": "ItoMilstein", "SRIW1": "SlowRK", "SRA1": "SRA1"}
FACTOR = 8.0


def lorenz_terms(noise: str, levy_area: Any) -> Callable:
    """terms(key, lanes) for rivals.DIFFRAX: drift and a diagonal operator, diffrax's fastest diffusion."""
    import diffrax
    import lineax

    p = lorenz().params

    def drift(t, state, args):
        x, y, z = state
        return jnp.stack([p["prandtl"] * (y - x), x * (p["rayleigh"] - z) - y, x * y - p["ratio"] * z])

    def diffusion(t, state, args):
        scale = state if noise == "multiplicative" else jnp.ones_like(state)
        return lineax.DiagonalLinearOperator(p["strength"] * scale)

    def terms(key, lanes):
        path = diffrax.UnsafeBrownianPath(shape=(3, *lanes), key=key, levy_area=levy_area)
        return diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(diffusion, path))

    return terms


def peers(name: str, steps: int) -> list[Contender]:
    """The method of diffrax in every way it runs; ItoMilstein makes matrices of all channels, so not in one state."""
    import diffrax

    areas = {"Euler": diffrax.BrownianIncrement, "ItoMilstein": diffrax.BrownianIncrement,
             "SlowRK": diffrax.SpaceTimeTimeLevyArea}  # fmt: skip
    contenders, solver = [], PEERS[name]
    terms = lorenz_terms(JOBS[name], areas.get(solver, diffrax.SpaceTimeLevyArea))
    for way, run in rivals.DIFFRAX.items():
        if solver == "ItoMilstein" and way == "all paths in one state":
            continue
        for keys in rivals.KEYS:
            job = run(getattr(diffrax, solver)(), terms, (1.0, 1.0, 1.0), lambda x: x[-1], PATHS, steps, STEP,
                      THREADS, keys)  # fmt: skip
            contenders.append(Contender(f"diffrax {solver}, {way}, {keys} keys", job, PATHS * steps))
    return contenders


def time_method(report: Report, name: str) -> dict[str, Contender]:
    steps = 400 if report.quick else 1000
    problem = lorenz(noise=JOBS[name])
    ours = Contender("stodyn", stodyn_run(problem, find(name), STEP, steps, lambda mean, _: mean[2]), PATHS * steps)
    others = [] if "diffrax" in report.unavailable else peers(name, steps // 20)
    title = f"Lorenz, {JOBS[name]} noise, {name}, float64, {PATHS} paths x {steps} steps"
    found = report.race(title, [ours, *others], "E z(T)")
    diffrax_goals(report, f"Lorenz, {name}", found, FACTOR)
    return found


def measure_errors(times: dict[str, dict[str, Contender]], quick: bool) -> list[dict[str, Any]]:
    """Strong errors of every method that was timed at several steps, and what a path of that many steps costs."""
    rows = []
    for name, found in times.items():
        method: Any = find(name)
        reference: Any = find("SRA1" if JOBS[name] == "additive" else "SRIW1")
        counts = (32, 64, 128) if quick else (32, 64, 128, 256, 512)
        study = strong_order(lorenz(noise=JOBS[name]), method, t=(0.0, SPAN), steps=counts, refine=16, level=0.95,
                             paths=100 if quick else 200, seed=1, reference=reference)  # fmt: skip
        peer = [c for c in found.values() if c.name.startswith("diffrax")]
        for h, error, stderr in zip(*(study[k].values for k in ("step", "error", "error_stderr")), strict=True):
            steps = round(SPAN / h)
            row = {"method": name, "noise": JOBS[name], "steps": steps, "h": float(h), "error": float(error),
                   "error_stderr": float(stderr), "stodyn µs per path": found["stodyn"].ns * steps / 1e3}  # fmt: skip
            if peer and PEERS[name] != "SlowRK":
                row["diffrax µs per path"] = min(c.ns for c in peer) * steps / 1e3
            rows.append(row)
    return rows


def plot(rows: list[dict[str, Any]], file: Path) -> None:
    """Error against cost, one colour a method: solid stodyn, dashed the fastest diffrax."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axes, noise in zip(panels, ("multiplicative", "additive"), strict=True):
        for name in dict.fromkeys(row["method"] for row in rows if row["noise"] == noise):
            own = [row for row in rows if row["method"] == name]
            error = [row["error"] for row in own]
            (line,) = axes.loglog([row["stodyn µs per path"] for row in own], error, "o-", label=f"{name}, stodyn")
            if "diffrax µs per path" in own[0]:
                cost = [row["diffrax µs per path"] for row in own]
                axes.loglog(cost, error, "s--", color=line.get_color(), label=f"{name}, diffrax")
        axes.set_title(f"Lorenz, {noise} noise")
        axes.set_xlabel(f"µs per path over t = {SPAN:g}, {THREADS} threads")
        axes.legend()
    panels[0].set_ylabel(f"rms error at t = {SPAN:g}")
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps and repeats, about two minutes")
    parser.add_argument("--only", default=",".join(JOBS), help=f"some of {','.join(JOBS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to this file")
    parser.add_argument("--out", type=Path, metavar="FILE.png", help="draw error against cost")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := [name for name in names if name not in JOBS]:
        parser.error(f"--only: no method {', '.join(unknown)}; there are {', '.join(JOBS)}")
    jax.config.update("jax_enable_x64", True)  # for diffrax: stodyn computes in float64 of its own accord
    report = Report(options.quick, missing("diffrax"))
    about = machine("stodyn", "jax", "numpy", "numba", "diffrax") | {"threads": THREADS, "load before": load()}
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    rows = measure_errors({name: time_method(report, name) for name in names}, options.quick)
    about["load after"] = load()
    print(f"\nError at t = {SPAN:g} against cost\n{'method':16s}{'steps':>7s}{'rms error':>12s}{'stodyn µs':>12s}"
          f"{'diffrax µs':>12s}")  # fmt: skip
    for row in rows:
        peer = row.get("diffrax µs per path", np.nan)
        print(f"{row['method']:16s}{row['steps']:7d}{row['error']:12.2e}{row['stodyn µs per path']:12.2f}{peer:12.2f}")
    print(f"\nload {about['load after']:.1f}")
    for g in report.goals:
        verdict = "met" if g["met"] else "MISSED"
        print(f"{g['goal']:76s}{g['relation']:>4s}{g['asked']:6.3g}{g['found']:9.2f}   {verdict}   {g['remark']}")
    if options.json:
        record = {"machine": about, "left out": report.unavailable, "tables": report.tables, "goals": report.goals,
                  "errors": rows}  # fmt: skip
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if options.out:
        plot(rows, options.out)


if __name__ == "__main__":
    main()
