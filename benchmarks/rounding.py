"""Whether a result hangs on the last bit: every model and study with its arithmetic rounded in other ways.

    python benchmarks/rounding.py                 all of them
    python benchmarks/rounding.py beam lorenz     these
    python benchmarks/rounding.py --quick         the models of QUICK and every study (or those named), printed only
    python benchmarks/rounding.py --verdicts      what is decided about every model and case (or those named), no runs
    python benchmarks/rounding.py --verdicts stability     one kind of them: models, cases or stability (of methods)
    python benchmarks/rounding.py --verdicts --processes 12     in as many processes at a time

Rounded otherwise are: products fused with sums or not (the printer is told to fuse none, and XLA without optimising
fuses none; both are asked in every process before they are believed), printed or vmap, one path or the same path among
many. Models run STEPS steps with the longest of some step lengths that works; studies run at their tiny size. A table
lists how far anything moved: states relative to the largest of their component, rows relative to their value and in
standard errors. What moved by more than FAR, has failed in one way of rounding only, or says other words, is listed
again at the end, and the exit status is 1.

Verdicts are taken with every operation of the users' functions changed by a few units in the last place
(numerics.rounding.otherwise_rounded), with each of the SEEDS, and with inverses and solutions of NumPy as those of
matrices that are changed so: the structure of noise, index, rank and constraints, the recommended method and those that
fit, whether time enters, corners of cycles, orders, and refusals in their words. Of methods: verdicts on A-stability,
which points of a grid lie in the region of stability, and the largest noise, with every operation of their steps, and
the arguments of their stability functions, changed likewise. Each must stay the same.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import json
import math
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STEPS, MANY, FAR = 50, 64, 1e-6
LENGTHS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
NOTHING = 1e-12  # a row that is smaller than this in both is rounding itself
FUSED = {"fused": "", "not fused": "--xla_backend_optimization_level=0"}
EXECUTORS = ("auto", "vmap")
SEEDS = (1, 2)
STABILITY = "stability of "
QUICK = ("bushing", "constrained_pendulum", "lorenz", "slider_crank", "two_diodes")


def main(names: list[str]) -> int:
    from stodyn.models.catalogue import catalogue as models
    from stodyn.studies.contract import catalogue as studies

    if "--verdicts" in names:
        return compare_verdicts([name for name in names if name != "--verdicts"])
    quick = "--quick" in names
    executors = EXECUTORS[:1] if quick else EXECUTORS
    names = [name for name in names if name != "--quick"] or [*(QUICK if quick else models()), *studies()]
    model_ways = [(fused, executor, MANY) for executor in executors for fused in FUSED] + [("fused", "auto", 1)]
    study_ways = [(fused, executor, None) for executor in executors for fused in FUSED]
    asked = [("model", name, model_ways) for name in models() if name in names]
    asked += [("study", name, study_ways) for name in studies() if name in names]
    suspects = []
    with contextlib.ExitStack() as stack:
        processes = {fused: stack.enter_context(process(fused)) for fused in FUSED}
        for kind, name, (base, *others) in asked:
            found = answer(processes[base[0]], kind, name, base)
            for way in others:
                line, fine = compared(found, answer(processes[way[0]], kind, name, way))
                label = f"{kind} {name}, {', '.join(str(word) for word in way if word)}"
                print(f"{label:60s} {line}", flush=True)
                suspects += [] if fine else [f"{label}: {line}"]
    print(f"\n{len(suspects)} moved by more than {FAR:g}, or failed in one way only", *suspects, sep="\n  ")
    return bool(suspects)


def process(fused: str) -> subprocess.Popen:
    """One of its own, since the compiler's settings are read once."""
    environment = os.environ | {"XLA_FLAGS": FUSED[fused], "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen([sys.executable, __file__, "--ask", fused], env=environment, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip


def answer(process: subprocess.Popen, *question: Any) -> dict:
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(question), file=process.stdin, flush=True)
    found = process.stdout.readline()
    return json.loads(found) if found else {"failed": "the process died"}


def answers(wanted: str) -> None:
    """A line of JSON for each that is read."""
    import jax
    import numpy as np

    from stodyn.numerics.printing import walk
    from stodyn.numerics.printing.points import at_points

    if wanted == "not fused":
        walk.fusions = lambda nodes, results: {}
    warnings.simplefilter("ignore")
    products = np.random.default_rng(1).uniform(1.0, 2.0, 1000)
    with jax.enable_x64(True):
        compiled = jax.jit(lambda a, b: a * a - b)(products, products * products)
    printed = at_points(lambda a, b: a * a - b, products, products * products)
    is_fused = {"vmap": bool(np.any(compiled)), "auto": bool(np.any(printed))}
    for line in sys.stdin:
        kind, name, way = json.loads(line)
        try:
            if is_fused[way[1]] != (way[0] == "fused"):
                raise RuntimeError(f"this processor and JAX do not compile {way[0]}")
            found = (model if kind == "model" else study)(name, way)
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {str(error)[:150]}"}
        print(json.dumps(found), flush=True)


def model(name: str, way: tuple) -> dict:
    """The end of path 0, component by component, as {name: [value, scale]}."""
    import numpy as np

    import stodyn as sd
    from stodyn.models.catalogue import find
    from stodyn.problems.random_dae import RandomDAE

    _, executor, paths = way
    problem = find(name).problem
    if isinstance(problem, RandomDAE):
        return {"left out": "no paths: see the studies of random parameters"}
    for h in LENGTHS:
        try:
            run = sd.simulate(problem, t=(0.0, STEPS * h), dt=[h] * STEPS, paths=paths, block=MANY, seed=1,
                              executor=executor, progress=False, collect=sd.statistics.Paths(1, every=1))  # fmt: skip
        except sd.PathsFailed:
            continue
        values = run["path"].values[0]
        scale = np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)
        states = dict(zip(map(str, run["component"].values), zip(values[-1], scale, strict=True), strict=True))
        return {"rows": {key: [float(v), float(s), ""] for key, (v, s) in states.items()}, "h": h,
                "start": values[0].tolist()}  # fmt: skip
    return {"failed": f"paths fail with every step down to {LENGTHS[-1]:g}"}


def study(name: str, way: tuple) -> dict:
    """Its rows as {quantity: [value, standard error or value, words]}."""
    from stodyn.engine.simulate import simulate
    from stodyn.studies.contract import Size, find

    inspect.unwrap(simulate).__kwdefaults__["executor"] = way[1]  # studies leave it open
    with tempfile.TemporaryDirectory() as folder:
        rows = find(name).run(Size.TINY, Path(folder), lambda words: None).rows
    found = {}
    for row in rows:
        number = row.ours if isinstance(row.ours, int | float) else 0.0
        words = row.ours if isinstance(row.ours, str) else ""
        found[row.quantity] = [float(number), float(row.stderr or abs(number)), words]
    return {"rows": found}


def compare_verdicts(words: list[str]) -> int:
    """Print whatever is decided otherwise with another rounding; 1 where there is any."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--processes", type=int, default=1)
    asked, kinds = parser.parse_args(words), kinds_of_verdicts()
    names = [name for kind in kinds.values() for name in kind]
    if unknown := set(asked.names) - {*kinds, *names}:
        parser.error(f"names: expected of {[*kinds]} and of {names}, got {sorted(unknown)}")
    names = [one for named in asked.names or names for one in kinds.get(named, [named])]
    suspects = []
    with contextlib.closing(verdicts_that_differ(names, asked.processes)) as answers:
        for name, number, seconds, differ in answers:
            suspects += differ
            print(
                f"{name:36s} {number} verdicts, {len(SEEDS)} roundings, {seconds:.0f} s",
                *differ,
                sep="\n  ",
                flush=True,
            )
    print(f"\n{len(suspects)} verdicts differ", *suspects, sep="\n  ")
    return bool(suspects)


def verdicts_that_differ(names: list[str], processes: int) -> Iterator[tuple[str, int, float, list[str]]]:
    """Of each name, in the order in which they are answered: how many verdicts there are, and those that differ."""
    if processes == 1:
        yield from map(differing_verdicts, names)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(differing_verdicts, names)


def differing_verdicts(name: str) -> tuple[str, int, float, list[str]]:
    warnings.simplefilter("ignore")
    begin, verdicts = time.perf_counter(), verdicts_on(name)
    plain, differ = in_words(verdicts), []
    for seed in SEEDS:
        with rounded_otherwise(seed):
            other = in_words(verdicts)
        differ += [f"{name}, seed {seed}: {key}: {plain.get(key)} | {other.get(key)}"
                   for key in {**plain, **other} if plain.get(key) != other.get(key)]  # fmt: skip
    return name, len(plain), time.perf_counter() - begin, differ


def verdicts_on(name: str) -> Callable[[], dict[str, Any]]:
    if name in CASES:
        return CASES[name]
    if name.startswith(STABILITY):
        return functools.partial(stability_of, name.removeprefix(STABILITY))
    return functools.partial(verdicts_on_a_model, name)


def kinds_of_verdicts() -> dict[str, list[str]]:
    """The names of everything that has verdicts; of the models the large ones, which take longest, first."""
    from stodyn.models.catalogue import catalogue as models
    from stodyn.problems.random_dae import RandomDAE

    sizes = {name: model.problem.n for name, model in models().items() if not isinstance(model.problem, RandomDAE)}
    methods = [STABILITY + name for name in methods_of_scalar_noise()]
    return {"cases": list(CASES), "models": sorted(sizes, key=lambda name: -sizes[name]), "stability": methods}


def in_words(verdicts: Any) -> dict[str, str]:
    """Every verdict as text without digits that rounding may change; a refusal by what it says."""
    try:
        return {key: str(value) for key, value in verdicts().items()}
    except ValueError as error:
        return {"refused": f"{type(error).__name__}: {re.sub('[0-9][0-9.e+-]*', '#', str(error))}"}


@contextlib.contextmanager
def rounded_otherwise(seed: int) -> Any:
    """Call the functions of users, and NumPy's linear algebra, with another rounding."""
    import numpy as np

    from stodyn.analysis import stability
    from stodyn.analysis.stability_function import StabilityFunction
    from stodyn.numerics.rounding import UNITS, otherwise_rounded
    from stodyn.problems import calling

    call, rng, patched = calling.call, np.random.default_rng(seed), contextlib.ExitStack()

    def other(function: Any, *arguments: Any, params: Any) -> Any:
        return otherwise_rounded(lambda p, *a: call(function, *a, params=p), seed)(params, *arguments)

    def changed(a: Any) -> Any:
        return np.asarray(a) * (1.0 + 2.0**-52 * rng.integers(-UNITS, UNITS + 1, np.shape(a)))

    def replace(owner: Any, name: str, value: Any) -> None:
        patched.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    with patched:
        for module in [m for name, m in sys.modules.items() if name.startswith("stodyn.problems")]:
            if getattr(module, "call", None) is call:
                replace(module, "call", other)
        inverse, solve = np.linalg.inv, np.linalg.solve
        replace(np.linalg, "inv", lambda a: inverse(changed(a)))
        replace(np.linalg, "solve", lambda a, b: solve(changed(a), b))
        of_table, at_points = StabilityFunction.mean_square, stability.AtPoints
        replace(StabilityFunction, "mean_square", lambda R, h, k: of_table(R, changed(h), changed(k)))
        replace(stability, "AtPoints", lambda step: at_points(otherwise_rounded(step, seed)))
        stability._squares.cache_clear()
        patched.callback(stability._squares.cache_clear)
        yield


def verdicts_on_a_model(name: str) -> dict[str, Any]:
    from stodyn.methods.catalogue import fitting
    from stodyn.models.catalogue import find
    from stodyn.problems.sdae import SDAE
    from stodyn.problems.structure import is_autonomous

    problem = find(name)().problem  # made anew: verdicts are kept
    found = {"fitting": sorted(fitting(problem)), "recommended": problem.recommended[0]}
    if hasattr(problem, "noise_structure"):
        found["structure"] = problem.noise_structure
    if isinstance(problem, SDAE):
        diagnosis = problem.facts.diagnosed()
        found |= {key: getattr(diagnosis, key) for key in ("index", "rank", "noisy", "constraints", "algebraic")}
    if hasattr(problem, "rates_and_noise"):
        found["autonomous"] = is_autonomous(problem)
    return found


def corners(drift: Any, phase_noise: bool = False) -> dict[str, Any]:
    import jax.numpy as jnp

    import stodyn as sd
    from stodyn.analysis.cycle.periodic import periodic

    problem = sd.SDE(drift, lambda t, x: jnp.array([[0.0], [0.1]]), [2.0, 0.0])
    cycle = periodic(problem, steps=64)
    if phase_noise:
        sd.analysis.phase_noise(cycle)
    return {"corners": cycle.mesh.at_corner.sum(), "places": cycle.mesh.corners.round(6)}


def van_der_pol(force: Any) -> Any:
    import jax.numpy as jnp

    return lambda t, x: jnp.array([x[1], (1.0 - x[0] ** 2) * x[1] - x[0] + force(jnp, x[0])])


def corners_of_a_netlist(name: str) -> dict[str, Any]:
    from stodyn.analysis.cycle.periodic import periodic
    from stodyn.circuits import examples, read

    cycle = periodic(read(examples()[name]), steps=64)
    return {"corners": cycle.mesh.at_corner.sum(), "places": cycle.mesh.corners.round(6)}


def index_two() -> dict[str, Any]:
    import jax.numpy as jnp

    import stodyn as sd

    def drift(t, x):
        return jnp.array([-x[0] + x[2], -0.3 * x[1] + x[2], 0.1 * x[0] + 0.7 * x[1] + 0.1 * x[2] - 0.3 * x[2] / 3.0])

    noise, mass = jnp.array([[0.1], [0.2], [0.0]]), [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    problem = sd.SDAE(mass, drift, lambda t, x: noise, [0.0, 0.0, 0.0])
    sd.simulate(problem, t=(0.0, 1.0), dt=0.1, paths=1, seed=1)
    return {}


def order() -> dict[str, Any]:
    from stodyn.analysis.order import strong_order
    from stodyn.models.catalogue import find

    found = strong_order(find("geometric_brownian_motion")().problem, "Milstein", steps=(4, 8, 16), paths=200, seed=3)
    return {"order": f"{found.attrs['order']:.6g}"}


def methods_of_scalar_noise() -> list[str]:
    """Those whose step is a function of y alone on dy = λ y dt + μ y dW."""
    from stodyn.analysis import stability
    from stodyn.engine.spec import matched
    from stodyn.methods.catalogue import catalogue

    found = []
    for name in catalogue():
        with contextlib.suppress(TypeError, ValueError):
            matched(stability.REAL, stability._one_step(name))
            found.append(name)
    return found


def stability_of(name: str) -> dict[str, Any]:
    import numpy as np

    from stodyn.analysis import stability

    h, share = -np.geomspace(0.0137, 97.0, 12), np.array([0.0, 0.31, 0.73, 0.97, 1.13, 1.7])
    k = np.sqrt(-2.0 * h * share[:, None]) * np.array([1.0, -1.0])[:, None, None]
    is_stable = stability.mean_square(name, np.broadcast_to(h, k.shape), k) < 1.0
    verdict = stability.a_stability(name)
    return {
        "region": "/".join("".join(".#"[one] for one in row) for row in is_stable.reshape(-1, len(h)).astype(int)),
        "A-stable": verdict.a_stable,
        "L-stable": verdict.l_stable,
        "conditions": [(condition.name, condition.holds) for condition in verdict.conditions],
        "largest noise": [f"{stability.largest_noise(name, x):.6g}" for x in (-0.37, -2.3)],
    }


CASES = {
    "corner of the slope": lambda: corners(van_der_pol(lambda xp, x: -0.1 * xp.abs(x))),
    "corner of the third derivative": lambda: corners(van_der_pol(lambda xp, x: 1e-3 * xp.maximum(x - 1.0, 0.0) ** 3)),
    "no corner": lambda: corners(van_der_pol(lambda xp, x: 0.1 * xp.maximum(x, 0.0) - 0.1 * xp.maximum(-x, 0.0))),
    "a jump": lambda: corners(van_der_pol(lambda xp, x: xp.where(x > 0.1, 0.2, -0.2)), phase_noise=True),
    "ring oscillator": functools.partial(corners_of_a_netlist, "ring_oscillator"),
    "index 2": index_two,
    "order": order,
}


def compared(base: dict, other: dict) -> tuple[str, bool]:
    """What moved in words, and whether that is nothing to think of."""
    for found in (base, other):
        if "left out" in found:
            return f"left out: {found['left out']}", True
    if "failed" in base or "failed" in other:
        return f"{base.get('failed', 'ran')} | {other.get('failed', 'ran')}", ("failed" in base) == ("failed" in other)
    if base.get("h") != other.get("h"):
        return f"ran with h = {base['h']:g} | {other['h']:g}", False
    if base.get("start") != other.get("start"):
        return "left out: another start is drawn for path 0 of another number of paths", True
    worst, where = 0.0, ""
    for key, (value, scale, words) in base["rows"].items():
        theirs, _, others = other["rows"].get(key, [math.nan, 0.0, "no such row"])
        if max(abs(value), abs(theirs)) < NOTHING and words == others:
            continue
        moved = math.inf if words != others or not math.isfinite(theirs) else abs(theirs - value) / (scale or 1.0)
        worst, where = max((worst, where), (moved, key))
    step = f"h = {base['h']:g}, " if "h" in base else ""
    return f"{step}{worst:.1e} {where}" if worst else f"{step}no bit", worst <= FAR


if __name__ == "__main__":
    sys.exit(answers(sys.argv[2]) if sys.argv[1:2] == ["--ask"] else main(sys.argv[1:]))
