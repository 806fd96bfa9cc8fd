"""Which SDAE method has the smallest error at equal cost: python benchmarks/sdae_error_at_cost.py [problems] [--quick]

Strong errors at the end, root mean square over paths on which all methods run with all their step sizes, against the
exact solution or a reference that is 8 to 16 times finer than the finest step. Cost is the processor time of a path and
step in the engine, all by vmap, or with --solves the number of stages solved in a step, which no load on the machine
changes. At the cost of the first method with each of its numbers of steps the errors of the others are interpolated on
their own curves (both axes logarithmic). Factors above 1: smaller errors than the first.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import load, machine

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis.step.common_paths import PathRun, common_paths
from stodyn.methods import stiff
from stodyn.models.circuits import RC_LADDER, RECTIFIER, RING_OSCILLATOR, TWO_DIODES
from stodyn.models.differential_algebraic import (
    CONSTRAINED_PENDULUM,
    LINEAR_DAE,
    NONCOMMUTING_DAE,
    NONLINEAR_DAE,
    STIFF_DAE,
)

SCALAR = ("RK1W2M", "RK1W3", "RK1A3", "RK1A4", "RK1A4L", "RK1A4M", "Trapezoidal", "ImplicitEuler")
COMMUTING = ("RK1W2M", "RK1A3M", "RK1A4M", "Trapezoidal", "ImplicitEuler")
ADDITIVE = ("RK1W2M", "RK1A3M", "RK1A4M", "Trapezoidal", "ImplicitEuler")
GENERAL = ("RK1W2MLevy", "RK1A3MLevy", "RK1A4MLevy", "Trapezoidal", "ImplicitEuler")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, the time to run to, the numbers of steps, the methods (the first is what the others are held to), how
    much finer the reference is, and of how many of the first components the errors count (of all unless given)."""

    model: Any
    end: float
    steps: tuple[int, ...]
    methods: tuple[str, ...]
    refine: int = 16
    seen: int | None = None


CASES = {
    "linear": Case(LINEAR_DAE, 0.125, (4, 8, 16, 32, 64), SCALAR),
    "nonlinear": Case(NONLINEAR_DAE, 0.0625, (4, 8, 16, 32, 64), SCALAR),
    "stiff, λ = -100, σ = 10": Case(STIFF_DAE, 1.0, (16, 32, 64, 128, 256), SCALAR, 8, 1),
    "stiff, λ = -4, σ = 2": Case(STIFF_DAE(rate=-4.0, noise=2.0), 1.0, (16, 32, 64, 128), SCALAR, 16, 1),
    "pendulum on its rod": Case(CONSTRAINED_PENDULUM, 2.0, (16, 32, 64, 128), SCALAR),
    "linear, two channels": Case(LINEAR_DAE(channels=2), 0.125, (4, 8, 16, 32, 64), COMMUTING),
    "two diodes, κ = 1000": Case(TWO_DIODES(kappa=1000.0), 0.125, (8, 16, 32, 64), COMMUTING),
    "two diodes, κ = 1": Case(TWO_DIODES(kappa=1.0), 0.5, (8, 16, 32, 64), COMMUTING),
    "ring, κ = 300": Case(RING_OSCILLATOR(kappa=300.0), 1.0, (16, 32, 64, 128), GENERAL, 8),
    "RC ladder, additive": Case(RC_LADDER(nodes=3), 1.0, (8, 16, 32, 64), ADDITIVE),
    "not commuting": Case(NONCOMMUTING_DAE, 1.0, (4, 8, 16, 32, 64), GENERAL),
    "rectifier, κ = 300": Case(RECTIFIER(kappa=300.0), 0.25, (16, 32, 64, 128), GENERAL),
}


def errors(case: Case, paths: int) -> tuple[dict[str, np.ndarray], float]:
    """Method -> root mean square errors over the steps, and the reference's own error."""
    problem, exact = case.model.problem, case.model.exact.get("solution")
    levy = any(name.endswith("Levy") for name in case.methods)
    reference = stiff.StiffMilsteinLevy if levy else stiff.StiffMilstein
    fine = case.steps[-1] * (case.refine if exact is None else 1)
    runs = [PathRun(getattr(stiff, name), tuple(fine // n for n in case.steps)) for name in case.methods]
    if exact is None:
        runs.append(PathRun(reference, (1, 2)))
    total, own, count = np.zeros((len(case.methods), len(case.steps))), 0.0, 0
    for W, states in common_paths(problem, runs, (0.0, case.end), fine, paths, 1):
        truth = np.asarray(exact(case.end, W)) if exact else states[-1][:, 0]
        own += 0.0 if exact else np.sum((states[-1][:, 1] - truth)[:, : case.seen] ** 2)
        for total_of, x in zip(total, states, strict=False):
            total_of += np.sum((x - truth[:, None])[..., : case.seen] ** 2, axis=(0, 2))
        count += len(W)
    return dict(zip(case.methods, np.sqrt(total / count), strict=True)), float(np.sqrt(own / count))


def seconds(case: Case, name: str, paths: int = 1024) -> float:
    """Seconds of processor time per path and step, the best of three runs in the middle of the range of steps."""
    steps = case.steps[len(case.steps) // 2]

    def run() -> float:
        began = time.process_time()
        sd.simulate(case.model.problem, name, t=(0.0, case.end), dt=case.end / steps, paths=paths, seed=1,
                    progress=False, executor="vmap", on_failure="record",
                    collect=st.Moments(at=[case.end]))  # fmt: skip
        return (time.process_time() - began) / (paths * steps)

    run()
    return min(run() for _ in range(3))


def solves(case: Case, name: str) -> float:
    """Stages that a step solves."""
    method, m = getattr(stiff, name), case.model.problem.m
    if isinstance(method, stiff.StiffRungeKutta):
        return sum(a[i] != 0 or b[i] != 0 for i, (a, b) in enumerate(zip(method.table.A, method.table.B3, strict=True)))
    return m + 2


def measured(case: Case, paths: int, by: Callable[[Case, str], float]) -> dict[str, Any]:
    found, own = errors(case, paths)
    costs = {name: by(case, name) for name in case.methods}
    steps, first = np.array(case.steps), case.methods[0]
    spent = steps * costs[first]
    factors = {}
    for name, curve in found.items():
        curve = np.where(np.isfinite(curve), curve, 1e30)
        at = np.interp(np.log(spent), np.log(steps * costs[name]), np.log(curve), left=np.nan, right=np.nan)
        slope = np.diff(np.log(curve)) / np.diff(np.log(steps))
        low, high = (np.log(curve[i]) + slope[i] * (np.log(spent) - np.log(steps[i] * costs[name])) for i in (0, -1))
        at = np.where(np.log(spent) < np.log(steps[0] * costs[name]), low, np.where(np.isnan(at), high, at))
        factors[name] = list(found[first] / np.exp(at))
    return {"steps": case.steps, "errors": {k: list(v) for k, v in found.items()}, "reference_error": own,
            "costs": costs, "factors": factors}  # fmt: skip


def show(name: str, result: dict[str, Any]) -> None:
    print(f"\n{name}: steps {result['steps']}, the reference's own error {result['reference_error']:.1e}")
    for method, values in result["errors"].items():
        at_cost = result["factors"][method]
        middle = float(np.exp(np.mean(np.log(at_cost))))
        print(f"  {method:14s} errors {' '.join(f'{v:9.3e}' for v in values)}  {result['costs'][method]:8.2g} a step  "
              f"at equal cost x {' '.join(f'{v:6.2f}' for v in at_cost)}  mean {middle:6.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", help=f"{', '.join(CASES)} [default: all]")
    parser.add_argument("--quick", action="store_true", help="a quarter of the paths")
    parser.add_argument("--solves", action="store_true", help="cost is the stages solved, not processor time")
    parser.add_argument("--methods", nargs="+", help="only these of the methods of a problem [default: all]")
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": machine("jax", "numpy"), "load": load()}
    for name in given.problems or CASES:
        case = CASES[name]
        if given.methods:
            case = dataclasses.replace(case, methods=tuple(m for m in case.methods if m in given.methods))
        result[name] = measured(case, 250 if given.quick else 1000, solves if given.solves else seconds)
        show(name, result[name])
    print(json.dumps(result, indent=2))
