"""What gradients of ensembles cost: runs with the derivatives of their paths beside plain runs, on one thread.

    python benchmarks/gradient_speed.py [--quick] [--only Heun,...] [--coverage] [--diffrax] [--large]

An oscillator with ten parameters, float64. Each method runs without derivatives, then with those by 1, 3 and all 10
parameters; ratios to the plain run are of one race. Goals: ten parameters cost at most 5.5 plain runs with an explicit
method and 7 with an implicit one, the paths themselves included. Paths must have the same bits with and without.
With --diffrax: the gradient of the same mean by diffrax, by reverse and by forward mode, in the same race.
With --large: 200 states and ten parameters, plain and with derivatives, and the memory of the process.
With --coverage: how often value ± 1.96 standard errors of a gradient holds the exact one, for each kind of problem and
each route (--only SDAE: for those that begin so).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import resource
from collections.abc import Callable

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm
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


def mean_square(A, b, start, t: float, place: int = 0) -> float:
    """E x_i² at t of the linear system dx = A x dt + b dW, from its mean and covariance."""
    n = len(start)
    both = expm(np.block([[-A, np.outer(b, b)], [np.zeros((n, n)), A.T]]) * t)
    flow = both[n:, n:].T
    return float((flow @ start)[place] ** 2 + (flow @ both[:n, n:])[place, place])


def slopes(value, at: tuple[float, ...]) -> np.ndarray:
    """The derivatives of value(*at), by central differences."""
    steps = 1e-5 * np.abs(at) * np.eye(len(at))
    return np.array([(value(*(at + h)) - value(*(at - h))) / (2 * h.sum()) for h in steps])


@dataclasses.dataclass
class Asked:
    """A gradient whose exact value is known."""

    problem: object
    f: Callable
    exact: np.ndarray
    of: tuple[str, ...]
    options: dict = dataclasses.field(default_factory=dict)

    def covered(self, seeds: int) -> np.ndarray:
        """The share of seeds whose intervals hold the exact derivatives."""
        hits = np.zeros(len(self.exact))
        options = {"t": (0, 1), "dt": 1 / 32, "paths": 2000} | self.options
        for seed in range(seeds):
            result = sd.sensitivity(self.problem, self.f, of=self.of, seed=seed, **options)
            hits += np.abs(result["gradient"].values - self.exact) <= 1.96 * result["gradient_stderr"].values
        return hits / seeds


RC = """RC
V1 a 0 DC 1
R1 a b 1k
C1 b 0 1n
.tran 10n 1u
"""


def asked() -> dict[str, Asked]:
    """Questions of every kind of problem, and of every route."""
    growth = sd.SDE(lambda t, x, p: p["mu"] * x, lambda t, x, p: p["sigma"] * x, 1.0, {"mu": 0.1, "sigma": 0.3})
    d = (0.1 - 0.045 - np.log(1.1)) / 0.3
    square = np.array([2.0, 0.6]) * np.exp(0.29)
    event = norm.pdf(d) * np.array([1 / 0.3, -(0.1 - np.log(1.1)) / 0.09 - 0.5])
    values = {"k": 1.3, "c": 0.4}

    def oscillator(k, c):
        return mean_square(np.array([[0.0, 1.0], [-k, -c]]), np.array([0.0, 0.7]), np.array([0.8, 0.1]), 1.0)

    def network(k):  # x1 = x0/5, and x0 falls by 2 k/5
        return 0.04 * mean_square(np.array([[-0.4 * k]]), np.array([0.6]), np.array([1.0]), 1.0)

    mechanical = sd.Mechanical(
        lambda t, x, v, p: -p["k"] * x - p["c"] * v, lambda t, x, v: 0.7 * jnp.eye(1), ([0.8], [0.1]), params=values
    )
    hamiltonian = sd.Hamiltonian(
        lambda t, q, p, c: 0.5 * (p**2 + c["k"] * q**2), lambda t, q, p, c: -0.7 * q, lambda t, q, p, c: -c["c"] * p,
        start=(0.8, 0.1), params=values,
    )  # fmt: skip
    sdae = sd.SDAE(
        np.diag([1.0, 0.0]),
        lambda t, x, p: jnp.stack([-p["k"] * (x[0] - x[1]) / 2, (x[0] - x[1]) / 2 - x[1] / 0.5]),
        lambda t, x: jnp.array([[0.6], [0.0]]), [1.0, 0.2], {"k": 1.0},
    )  # fmt: skip
    kT, left = 1.380649e-23 * 300.15, np.exp(-2.0)
    by_c = -1e12 * kT / 1e-18 * (1.0 + left)
    both, position, of = ("mu", "sigma"), lambda t, x: x[0] ** 2, ("k", "c")
    oscillation = slopes(oscillator, tuple(values.values()))
    return {
        "SDE, tangent, x²": Asked(growth, position, square, both),
        "SDE, conditional, x > 1.1": Asked(growth, lambda t, x: x[0] > 1.1, event, both),
        "SDE, weight, x > 1.1": Asked(growth, lambda t, x: x[0] > 1.1, event[:1], ("mu",), {"by": "weight"}),
        "SDE, difference, x > 1.1": Asked(
            growth, lambda t, x: x[0] > 1.1, event[1:], ("sigma",), {"by": "difference"}
        ),
        "Mechanical, x²": Asked(mechanical, position, oscillation, of, {"method": "StochasticAlpha"}),
        "Hamiltonian, x²": Asked(hamiltonian, position, oscillation, of),
        "SDAE, x²": Asked(sdae, lambda t, x: x[1] ** 2, slopes(network, (1.0,)), ("k",)),
        "netlist, (v - 1)²": Asked(
            sd.circuits.read(RC), lambda t, x: (1e6 * (x[1] - 1.0)) ** 2, np.array([by_c]), ("c1.value",),
            {"t": (0, 1e-6), "dt": 1e-8},
        ),
    }  # fmt: skip


def coverage(seeds: int, only: str) -> None:
    """Print how often intervals hold the exact gradient, for each kind of problem and each route."""
    for name, question in asked().items():
        if name.startswith(only):
            print(f"{name:28s}{np.array2string(question.covered(seeds), precision=3)} of {seeds} seeds", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    for option in ("--coverage", "--diffrax", "--large"):
        parser.add_argument(option, action="store_true")
    arguments = parser.parse_args()
    print(machine("jax"), f"load {load():.1f}")
    paths, steps, rounds = (4_000, 100, 3) if arguments.quick else (20_000, 200, 7)
    others = arguments.diffrax or arguments.large or arguments.coverage
    chosen = [] if others else arguments.only.split(",") if arguments.only else GOALS
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
        coverage(40 if arguments.quick else 500, arguments.only)


if __name__ == "__main__":
    main()
