"""What gradients of ensembles cost: runs with the derivatives of their paths beside plain runs, on one thread.

    python benchmarks/gradient_speed.py [--quick] [--only Heun,...] [--coverage] [--diffrax] [--large]

An oscillator with ten parameters, float64. Each method runs without derivatives, then with those by 1, 3 and all 10
parameters; ratios to the plain run are of one race. Goals: ten parameters cost at most 5.5 plain runs with an explicit
method and 7 with an implicit one, the paths themselves included. Paths must have the same bits with and without.
With --diffrax: the gradient of the same mean by diffrax, by reverse and by forward mode, in the same race.
With --large: 200 states and ten parameters, plain and with derivatives, and the memory of the process.
With --coverage: how often value ± 1.96 standard errors of a gradient holds the exact one, for each route.
"""

from __future__ import annotations

import argparse
import os
import resource

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax.numpy as jnp
import numpy as np
from scipy.stats import norm
from timing import Contender, load, machine, race, show

import stodyn as sd
from stodyn import statistics as st

GOALS = {"Heun": 5.5, "RK4": 5.5, "ImplicitMidpoint": 7.0, "ImplicitEuler": 7.0}
VALUES = (1.3, 0.21, 1.1, 0.53, 0.3, 0.2, 0.1, 0.7, 0.4, 0.9)
PARAMS = {f"p{i}": value for i, value in enumerate(VALUES)}
STEP = 0.01


def drift(t, x, p):
    force = p["p0"] * x[0] + p["p1"] * x[1] + p["p2"] * x[0] ** 3 + p["p6"] * x[1] ** 3
    further = p["p7"] * x[0] ** 2 - p["p8"] * x[0] * x[1] + p["p4"] * jnp.cos(p["p5"] * t) + p["p9"]
    return jnp.stack([x[1], further - force])


OSCILLATOR = sd.SDE(drift, lambda t, x, p: jnp.array([[0.0], [1.0]]) * p["p3"], [1.0, 0.0], params=PARAMS)


def contender(method: str, count: int, paths: int, steps: int) -> Contender:
    """A run with the derivatives by the first `count` parameters."""
    problem = sd.problems.with_tangents(OSCILLATOR, tuple(PARAMS)[:count]) if count else OSCILLATOR
    end = steps * STEP
    see = st.Observable(lambda t, x: x[0], name="x", at=[end])
    run = sd.prepare(problem, method, t=(0, end), dt=STEP, paths=paths, collect=see, threads=1)
    return Contender(f"{method}, {count} derivatives", lambda: float(run(seed=1)["x"][-1]), paths * steps)


def of_diffrax(paths: int, steps: int) -> list[Contender]:
    """The mean of x at the end, and its gradient by ten parameters, by diffrax with Heun in double precision."""
    import diffrax
    import jax

    jax.config.update("jax_enable_x64", True)
    end, keys = steps * STEP, jax.random.split(jax.random.key(1), paths)
    values = {name: jnp.asarray(value) for name, value in PARAMS.items()}

    def mean(p, adjoint):
        def one(key):
            if isinstance(adjoint, diffrax.ForwardMode):
                noise = diffrax.UnsafeBrownianPath(shape=(1,), key=key)
            else:  # reverse mode asks for the path twice
                noise = diffrax.VirtualBrownianTree(0.0, end, STEP / 2, (1,), key)
            term = diffrax.ControlTerm(lambda t, x, p: jnp.array([[0.0], [1.0]]) * p["p3"], noise)
            terms = diffrax.MultiTerm(diffrax.ODETerm(drift), term)
            solved = diffrax.diffeqsolve(
                terms, diffrax.Heun(), 0.0, end, STEP, jnp.array([1.0, 0.0]), p, adjoint=adjoint, max_steps=steps + 2
            )
            return solved.ys[0, 0]

        return jnp.mean(jax.vmap(one)(keys))

    plain = jax.jit(lambda p: mean(p, diffrax.ForwardMode()))
    reverse = jax.jit(jax.grad(lambda p: mean(p, diffrax.RecursiveCheckpointAdjoint())))
    forward = jax.jit(jax.jacfwd(lambda p: mean(p, diffrax.ForwardMode())))
    return [
        Contender("diffrax, plain", lambda: float(plain(values)), paths * steps),
        Contender("diffrax, reverse, all ten", lambda: float(reverse(values)["p0"]), paths * steps),
        Contender("diffrax, forward, all ten", lambda: float(forward(values)["p0"]), paths * steps),
    ]


def beside_diffrax(paths: int, steps: int, rounds: int) -> None:
    """Print what a plain run and a gradient by ten parameters cost here and there."""
    runs = [contender("Heun", 0, paths, steps), contender("Heun", 10, paths, steps), *of_diffrax(paths, steps)]
    race(runs, rounds, 60.0)
    show(f"Heun, {paths} paths, {steps} steps, processor time of all threads", runs, "mean of x, or its derivative")
    best = min(one.cpu_ns for one in runs[3:])
    print(f"ten parameters: diffrax takes {best / runs[1].cpu_ns:.1f} times as long")


CHAIN = 100  # masses


def chained(t, x, p):
    k = jnp.repeat(jnp.stack([p[name] for name in PARAMS]), CHAIN // len(PARAMS))
    q, v = x[:CHAIN], x[CHAIN:]
    stretch = q - jnp.concatenate([jnp.zeros(1), q[:-1]])
    pull = k * stretch + 0.1 * k * stretch**3
    return jnp.concatenate([v, jnp.concatenate([pull[1:], jnp.zeros(1)]) - pull - 0.1 * v])


def large(paths: int, steps: int, rounds: int) -> None:
    """Print what 200 states with ten parameters cost, and the memory that the process took at most."""
    push = np.concatenate([np.zeros((CHAIN, 1)), np.full((CHAIN, 1), 0.3)])
    chain = sd.SDE(chained, lambda t, x, p: jnp.asarray(push), np.zeros(2 * CHAIN), params=PARAMS)
    see = st.Observable(lambda t, x: x[CHAIN - 1] ** 2, name="x", at=[steps * 0.02])
    for method, goal in (("Heun", 5.5), ("ImplicitMidpoint", 7.0)):
        runs = []
        for problem in (chain, sd.problems.with_tangents(chain, tuple(PARAMS))):
            run = sd.prepare(problem, method, t=(0, steps * 0.02), dt=0.02, paths=paths, collect=see, threads=1)
            name = f"{method}, {problem.n} states"
            runs.append(Contender(name, lambda run=run: float(run(seed=1)["x"][-1]), paths * steps))
        race(runs, rounds, 60.0)
        show(f"{method}: 100 masses, {paths} paths, {steps} steps, one thread", runs, "mean square")
        ratio = runs[1].cpu_ns / runs[0].cpu_ns
        print(f"ten parameters: {ratio:.2f} plain runs (goal {goal}): {'met' if ratio <= goal else 'MISSED'}")
        print(f"memory of the process at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def covered(f, exact: np.ndarray, seeds: int, **options) -> np.ndarray:
    """The share of seeds whose intervals hold the exact derivatives by mu and sigma."""
    growth = sd.SDE(lambda t, x, p: p["mu"] * x, lambda t, x, p: p["sigma"] * x, 1.0, {"mu": 0.1, "sigma": 0.3})
    hits = np.zeros(len(exact))
    for seed in range(seeds):
        result = sd.sensitivity(growth, f, t=(0, 1), dt=1 / 32, paths=2000, seed=seed, **options)
        hits += np.abs(result["gradient"].values - exact) <= 1.96 * result["gradient_stderr"].values
    return hits / seeds


def coverage(seeds: int) -> None:
    """Print how often intervals hold the exact gradient, for each route."""
    d = (0.1 - 0.045 - np.log(1.1)) / 0.3
    square = np.array([2.0, 0.6]) * np.exp(0.29)
    event = norm.pdf(d) * np.array([1 / 0.3, -(0.1 - np.log(1.1)) / 0.09 - 0.5])
    jobs = {
        "tangent, x²": (lambda t, x: x[0] ** 2, square, {"of": ("mu", "sigma")}),
        "conditional, x > 1.1": (lambda t, x: x[0] > 1.1, event, {"of": ("mu", "sigma")}),
        "weight, x > 1.1": (lambda t, x: x[0] > 1.1, event[:1], {"of": "mu", "by": "weight"}),
        "difference, x > 1.1": (lambda t, x: x[0] > 1.1, event[1:], {"of": "sigma", "by": "difference"}),
    }
    for name, (f, exact, options) in jobs.items():
        print(f"{name:24s}{np.array2string(covered(f, exact, seeds, **options), precision=3)} of {seeds} seeds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    for option in ("--coverage", "--diffrax", "--large"):
        parser.add_argument(option, action="store_true")
    arguments = parser.parse_args()
    print(machine("jax"), f"load {load():.1f}")
    paths, steps, rounds = (4_000, 100, 3) if arguments.quick else (20_000, 200, 7)
    chosen = arguments.only.split(",") if arguments.only else [] if arguments.diffrax or arguments.large else GOALS
    for method in chosen:
        runs = [contender(method, count, paths, steps) for count in (0, 1, 3, 10)]
        race(runs, rounds, 60.0)
        show(f"{method}: {paths} paths, {steps} steps, one thread", runs, "mean of x")
        assert len({one.answer for one in runs}) == 1, "paths have other bits beside their derivatives"
        ratio = runs[-1].cpu_ns / runs[0].cpu_ns
        verdict = "met" if ratio <= GOALS[method] else "MISSED"
        print(f"ten parameters: {ratio:.2f} plain runs (goal {GOALS[method]}): {verdict}")
    if arguments.diffrax:
        beside_diffrax(paths // 4, steps, rounds)
    if arguments.large:
        large(128 if arguments.quick else 512, 50, rounds)
    if arguments.coverage:
        coverage(40 if arguments.quick else 500)


if __name__ == "__main__":
    main()
