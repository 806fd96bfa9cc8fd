"""Polynomial chaos for DAEs, timed: python benchmarks/chaos_speed.py [--quick]

1. The Miller integrator, M_3, 200 Radau steps: Galerkin against its own sparse factorisations and solves (wanted: at
   most 3 times), beside one solve of the 5-dimensional system.
2. 4³ quadrature as a batch against node by node (wanted: at least 20 times faster).
3. The same accuracy against the closed form by chaospy's nodes with scipy's Radau at each (wanted: at least 30 times).
4. The integrator behind an RC ladder, 10 parameters, M_3 (3432 unknowns) and M_4 (12012): integration against splu's
   factorisation and 200 pairs of solves (wanted: at most 1.5 times), and how it grows with parameters and degree.

Each time is the smallest of several interleaved repeats, in one process.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import scipy.integrate
from timing import load, machine, missing

from stodyn.chaos import basis as bases
from stodyn.chaos import coupled, nodes
from stodyn.engine.simulate import simulate
from stodyn.methods.expansions import Galerkin, Quadrature
from stodyn.methods.radau import states_at
from stodyn.models.miller_integrator import MILLER_INTEGRATOR
from stodyn.numerics import radau
from stodyn.statistics.surrogate import Surrogate

END, STEPS = 4e-6, 200
GRID = np.linspace(0.0, END, STEPS + 1)


def smallest(functions: dict[str, Callable], repeats: int) -> dict[str, float]:
    """The smallest time of each, after one run of each, in turn."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - began)
    return {name: min(found) for name, found in times.items()}


def bare(system: radau.Linear, h: float) -> Callable[[], None]:
    """The factorisations and solves alone that the steps of a coupled system need."""
    eigen = radau.scheme(5).eigen

    def work() -> None:
        right = np.ones(system.A.shape[0])
        factors = [radau.factorised(e.value / h * system.A + system.B) for e in eigen]
        sides = [right if e.real else right.astype(complex) for e in eigen]
        for _ in range(STEPS):
            for lu, side in zip(factors, sides, strict=True):
                lu.solve(side)

    return work


def miller(repeats: int) -> dict[str, float]:
    problem = MILLER_INTEGRATOR.problem
    basis = bases.make("total", problem.distributions, 3)
    whole = coupled.galerkin(problem, basis, GRID)
    end = Surrogate(at=[END])

    def assembled() -> None:
        made = coupled.galerkin(problem, bases.make("total", problem.distributions, 3), GRID)
        radau.prescribed(made.system, GRID, made.start)

    def through(method) -> Callable:
        return lambda: simulate(problem, method, t=(0.0, END), dt=END / STEPS, collect=end)

    found = smallest(
        {
            "factorisations and solves": bare(whole.system, END / STEPS),
            "Galerkin, integrated": lambda: radau.prescribed(whole.system, GRID, whole.start),
            "Galerkin, assembled and integrated": assembled,
            "simulate(Galerkin(diagnose=False))": through(Galerkin(diagnose=False)),
            "simulate(Galerkin())": through(Galerkin),
            "one system": lambda: states_at(problem, problem.center[None], GRID),
        },
        repeats,
    )
    found["Galerkin / its factorisations and solves"] = (
        found["Galerkin, assembled and integrated"] / found["factorisations and solves"]
    )
    return found


def batch(repeats: int) -> dict[str, float]:
    problem = MILLER_INTEGRATOR.problem
    points = nodes.tensor(problem.distributions, 4).points
    found = smallest(
        {
            "batch": lambda: states_at(problem, points, GRID),
            "node by node": lambda: [states_at(problem, points[k : k + 1], GRID) for k in range(len(points))],
        },
        repeats,
    )
    found["node by node / batch"] = found["node by node"] / found["batch"]
    return found


def rivals(repeats: int) -> dict[str, float | str]:
    """chaospy's 4³ nodes, scipy's Radau for u2 at each, the rest of x by the constraints; tolerance for equal error."""
    if missing("chaospy"):
        return {"chaospy": "not installed"}
    import chaospy

    problem = MILLER_INTEGRATOR.problem
    rule = nodes.tensor(problem.distributions, 8)
    basis = bases.make("total", problem.distributions, 3)
    x = MILLER_INTEGRATOR.exact["states"](GRID, rule.points)
    exact = np.einsum("kl,tkn->tnl", basis.evaluate(rule.points) * rule.weights[:, None], x)
    joint = chaospy.J(*(chaospy.Uniform(law.low, law.high) for law in problem.distributions))
    terms = chaospy.generate_expansion(3, joint, normed=True)
    w, R1 = 2e6 * np.pi, 1e3

    def theirs(rtol: float) -> np.ndarray:
        points, weights = chaospy.generate_quadrature(3, joint, rule="gaussian")
        values = []
        for a, C1, C2 in points.T:
            tau = R1 * (C1 + C2 * (1.0 - a))
            run = scipy.integrate.solve_ivp(
                lambda t, u, tau=tau: (np.sin(w * t) - u) / tau, (0.0, END), [0.0], "Radau", GRID, rtol=rtol, atol=rtol,
                jac=np.array([[-1.0 / tau]]),
            )  # fmt: skip
            values.append(a * run.y[0])
        return chaospy.fit_quadrature(terms, points, weights, np.array(values), retall=1)[1]

    def ours() -> np.ndarray:
        run = simulate(problem, Quadrature(degree=3, nodes=4, diagnose=False), t=(0.0, END), dt=END / STEPS,
                       collect=Surrogate(every=1))  # fmt: skip
        return run["coefficient"].sel(component="u3").values

    def error(coefficients: np.ndarray) -> float:
        return float(np.abs(np.sort(np.abs(coefficients), axis=1) - np.sort(np.abs(exact[:, 2]), axis=1)).max())

    own = error(ours())
    rtol = next(r for r in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8) if error(theirs(r).T) <= 1.2 * own)
    found: dict[str, float | str] = dict(smallest({"stodyn": ours, "chaospy": lambda: theirs(rtol)}, repeats))
    found |= {"error of u3, stodyn": own, "error of u3, chaospy": error(theirs(rtol).T), "scipy's rtol": rtol}
    return found | {"chaospy / stodyn": float(found["chaospy"]) / float(found["stodyn"])}


def ladder(parameters: int, degree: int, repeats: int) -> dict[str, float]:
    problem = MILLER_INTEGRATOR(sections=parameters - 3).problem
    laws = problem.distributions
    whole = coupled.galerkin(problem, bases.make("total", laws, degree), GRID)

    def assembled() -> None:
        made = coupled.galerkin(problem, bases.make("total", laws, degree), GRID)
        radau.prescribed(made.system, GRID, made.start)

    found = smallest(
        {
            "factorisations and solves": bare(whole.system, END / STEPS),
            "integrated": lambda: radau.prescribed(whole.system, GRID, whole.start),
            "assembled and integrated": assembled,
        },
        repeats,
    )
    ratio = found["assembled and integrated"] / found["factorisations and solves"]
    sizes = {"unknowns": whole.start.size, "nnz A": whole.system.A.nnz, "nnz B": whole.system.B.nnz}
    return sizes | found | {"ratio": ratio}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, no system above 4000 unknowns")
    quick = parser.parse_args().quick
    sizes = [(3, 3), (4, 3), (6, 3), (8, 3), (10, 3), (8, 4)] + ([] if quick else [(10, 4)])
    result = {
        "machine": machine("numpy", "scipy", "chaospy"),
        "load": load(),
        "miller": miller(5 if quick else 20),
        "batch": batch(3 if quick else 10),
        "rivals": rivals(1 if quick else 3),
        "ladder": {f"Q = {Q}, M_{R}": ladder(Q, R, 1 if quick else 3) for Q, R in sizes},
    }
    print(json.dumps(result, indent=2))
