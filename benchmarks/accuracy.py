"""Estimates against exact expectations: coverage of the intervals, and cost against plain Monte Carlo.

    python benchmarks/accuracy.py coverage --calls 300          # every problem, its middle error
    python benchmarks/accuracy.py cost                          # path-steps and seconds over two decades of errors
    python benchmarks/accuracy.py until --calls 1000            # coverage of sequential stopping on known laws

All truths are known without sampling (closed forms, moment equations, quadrature). "plain" is plain Monte Carlo of weak
order 2 with its best single step for the same half-width: n V (q/(error - bias_n))² path-steps from the variances and
biases that the estimate measured, and as many seconds as `simulate` takes for them. It is given the bias of its step,
which nobody knows without measuring it. Published multilevel figures are those of R's mlmc 2.1.1 after Giles (2008), at
an RMSE of 0.005; half-widths of 0.0125 have about that RMSE.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.accuracy.estimate import Estimator
from stodyn.engine.until import Watch
from stodyn.statistics import Observable, functional
from stodyn.statistics.contract import Labels
from stodyn.statistics.moments import Sums

R, SIGMA = 0.05, 0.2
D = float(np.exp(-R))
J = np.array([[0.0, 1.0], [-1.0, -0.1]])
GBM = sd.SDE(lambda t, x: R * x, lambda t, x: SIGMA * x, 100.0)
VOLATILE = sd.SDE(lambda t, x: 0.1 * x, lambda t, x: 0.4 * x, 1.0)
AVERAGED = sd.SDE(
    lambda t, x: jnp.stack([R * x[0], x[0]]), lambda t, x: jnp.stack([SIGMA * x[0], 0.0 * x[0]])[:, None], [100.0, 0.0]
)


def diagonal(a, b):
    return jnp.stack([jnp.stack([a, 0.0 * a]), jnp.stack([0.0 * b, b])])


def heston_noise(t, x):
    root = jnp.sqrt(jnp.maximum(x[1], 0.0))
    first = jnp.stack([root * x[0], 0.0 * root])
    return jnp.stack([first, jnp.stack([-0.5 * 0.25 * root, np.sqrt(0.75) * 0.25 * root])])


def call(price):
    return D * jnp.maximum(price - 100.0, 0.0)


def duffing(t, x):
    return jnp.stack([x[1], -0.2 * x[1] - x[0] - x[0] ** 3])


def stiff(t, x):
    return jnp.stack([-x[1], 1000.0 * (x[0] - x[1])])


KUBO = sd.SDE(lambda t, x: J @ x, lambda t, x: 0.5 * (J @ x)[:, None], [2.0, 0.0], calculus="stratonovich")
HESTON = sd.SDE(lambda t, x: jnp.stack([R * x[0], 5.0 * (0.04 - x[1])]), heston_noise, [100.0, 0.04])
STIFF = sd.SDE(stiff, lambda t, x: diagonal(0.4 * x[0], 0.2 * np.sqrt(1000.0) * x[1]), [1.0, 1.0])
CIR = sd.SDE(lambda t, r: 0.5 * (0.04 - r), lambda t, r: 0.5 * jnp.sqrt(jnp.maximum(r, 0.0)), 0.04)  # touches zero
CUBED = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 0.8 * x, 1.0)
BROWNIAN = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
CLARK_CAMERON = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: diagonal(1.0 + 0.0 * x[0], x[0]), [0.0, 0.0])

# problem, f, end, errors from loose to tight (the middle one for coverage), truth
PROBLEMS = {
    "European": (GBM, lambda t, x: call(x[0]), 1.0, (0.05, 0.0125, 0.002), 10.4505835722),
    "Asian": (AVERAGED, lambda t, x: call(x[1]), 1.0, (0.05, 0.0125, 0.002), 5.763088),
    "lookback": (GBM, functional.Minimum(lambda t, x: x[0]), 1.0, (0.1, 0.02, 0.005), (100 - 17.2168022374) / D),
    "maximum": (VOLATILE, functional.Maximum(lambda t, x: x[0]), 1.0, (0.01, 0.003, 0.001), 1.436098954205),
    "digital": (GBM, functional.Probability(lambda t, x: x[0] - 100.0), 1.0, (5e-3, 1e-3, 2e-4), 0.532324815454 / D),
    "OU": (sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 2.0), lambda t, x: x[0] ** 2, 2.0, (0.02, 0.004, 0.0008),
           0.5641047362),
    "Kubo": (KUBO, lambda t, x: 0.5 * (x @ x), 5.0, (0.02, 0.004, 0.0008), 1.2224120573),
    "Duffing": (sd.SDE(duffing, lambda t, x: jnp.array([[0.0], [0.5]]), [0.0, 0.0]), lambda t, x: x[0] ** 2, 4.0,
                (0.02, 0.004, 0.0008), 0.23740249),
    "double well": (sd.SDE(lambda t, x: x - x**3, lambda t, x: 0.7, -1.0), functional.Probability(lambda t, x: x[0]),
                    3.0, (0.02, 0.005, 0.001), 0.187574203704),
    "Heston": (HESTON, lambda t, x: call(x[0]), 1.0, (0.1, 0.05, 0.01), 10.4596716646),
    "stiff": (STIFF, lambda t, x: x[0] ** 2, 1.0, (0.002, 0.0005, 0.0001), 0.158557136005),
    "Clark-Cameron": (CLARK_CAMERON, lambda t, x: jnp.cos(x[1]), 0.5, (0.01, 0.002, 0.0004), 0.9417106158),
    "CIR, floor": (CIR, lambda t, r: jnp.maximum(0.01 - jnp.maximum(r[0], 0.0), 0.0), 2.0, (1e-3, 5e-4, 1e-4),
                   0.00542074),
    "CIR, transform": (CIR, lambda t, r: jnp.exp(-100.0 * jnp.maximum(r[0], 0.0)), 2.0, (0.1, 0.03, 0.005),
                       0.583317),
    "cubed price": (CUBED, lambda t, x: x[0] ** 3, 1.0, (1.0, 0.3, 0.1), float(np.exp(1.92))),
    "index 2.5": (BROWNIAN, lambda t, x: jnp.exp(0.2 * x[0] ** 2), 1.0, (0.1, 0.02, 0.005), float(0.6**-0.5)),
}  # fmt: skip


def coverage(names: list[str], calls: int, results: Path) -> None:
    """One line of `results` for every call; calls that are there are not made again, so that a run goes on.

    Problems are described once: an answer of `Estimator` is that of a call of stodyn.estimate, without its tracing."""
    known = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = {(one["problem"], one["error"], one["seed"]) for one in known}
    estimators = {
        name: Estimator(problem, f, (0.0, end)) for name, (problem, f, end, *_) in PROBLEMS.items() if name in names
    }
    with results.open("a") as file:
        for seed in range(1000, 1000 + calls):
            for name in names:
                *_, errors, truth = PROBLEMS[name]
                if (name, errors[1], seed) in done:
                    continue
                began = time.process_time()
                one = estimators[name].answer(errors[1], seed)
                row = {"problem": name, "error": errors[1], "seed": seed, "off": float(one.value) - truth,
                       "half": float(one.error), "path_steps": one.attrs["path_steps"],
                       "pilot": one.attrs["pilot_path_steps"], "trusted": one.attrs["trusted"],
                       "seconds": time.process_time() - began}  # fmt: skip
                known.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
    print(
        "problem         error   calls covers within  rmse/e  mean/e  max/e  trusted path-steps (largest)  cpu s/call"
    )
    for name in names:
        error = PROBLEMS[name][3][1]
        mine = [one for one in known if one["problem"] == name and one["error"] == error]
        off, half, steps, seconds = (
            np.array([o[key] for o in mine]) for key in ("off", "half", "path_steps", "seconds")
        )
        e = off / error
        print(f"{name:14s} {error:7g} {len(mine):6d}  "
              f"{np.mean(np.abs(off) <= half):.3f}  {np.mean(np.abs(e) <= 1):.3f}  "
              f"{np.sqrt(np.mean(e**2)):6.2f} {e.mean():+7.3f} {np.abs(e).max():6.2f} "
              f"{sum(one['trusted'] for one in mine):6d}  {steps.mean():.2g} ({steps.max():.2g})  {seconds.mean():.2f}",
              flush=True)  # fmt: skip


WEAK2 = {"Heston": "PlatenWeak2Pairs", "Clark-Cameron": "PlatenWeak2Pairs"}
DECADES = np.array([5.0, 1.0, 0.2, 0.05])  # of the middle errors


def step_seconds(name: str, n: int) -> float:
    """Processor time of a path-step of plain Monte Carlo through `simulate`, in a call of 2^21 of them or more."""
    problem, f, end, *_ = PROBLEMS[name]
    if name == "stiff" or isinstance(f, functional.Functional):
        f = lambda t, x: x[0]  # noqa: E731  the same steps
    look = st.Observable(lambda t, x: f(t, x), name="f", at=end)
    paths = max(2**15, 2**21 // n)
    for _ in range(2):  # the first compiles
        began = time.process_time()
        sd.simulate(
            problem, WEAK2.get(name, "PlatenWeak2"), t=(0.0, end), dt=end / n, paths=paths, seed=5, collect=[look]
        )
    return (time.process_time() - began) / (paths * n)


def cost(names: list[str]) -> None:
    print("problem         error     off/e  path-steps  pilot   cpu s  plain: n path-steps   cpu s  saved  (s)  route")
    for name in names:
        problem, f, end, errors, truth = PROBLEMS[name]
        estimator = Estimator(problem, f, (0.0, end))
        estimator.answer(errors[0], 1)
        spent, seconds_of = [], {}
        for error in DECADES * errors[1]:
            began = time.process_time()
            one = estimator.answer(error, 7)
            seconds, a = time.process_time() - began, one.attrs
            spent.append(a["path_steps"])
            steps, n = a["plain_path_steps"], a["plain_steps"]
            seconds_of[n] = seconds_of.get(n) or step_seconds(name, n)
            plain = steps * seconds_of[n]
            print(f"{name:14s} {error:8.2g}  {(float(one.value) - truth) / error:+6.2f}  {a['path_steps']:10.2g} "
                  f"{a['pilot_path_steps']:7.2g} {seconds:7.2f}  {n:8d} {steps:8.2g} {plain:10.3g} "
                  f"{steps / a['path_steps']:6.3g} {plain / seconds:6.3g}  {a['route']}", flush=True)  # fmt: skip
        slope = np.log(spent[-1] / spent[0]) / np.log(DECADES[-1] / DECADES[0])
        print(f"{name:14s} slope of cost against error {slope:.2f}", flush=True)


LAWS = {
    "normal": (lambda rng, n: rng.standard_normal(n), 0.0, 1.0),
    "exponential": (lambda rng, n: rng.standard_exponential(n), 1.0, 1.0),
    "lognormal 1": (lambda rng, n: np.exp(rng.standard_normal(n)), np.exp(0.5), np.sqrt(np.e * (np.e - 1))),
    "lognormal 1.5": (
        lambda rng, n: np.exp(1.5 * rng.standard_normal(n)), np.exp(1.125), np.sqrt((np.exp(2.25) - 1) * np.exp(2.25))
    ),
    "p = 0.5": (lambda rng, n: (rng.random(n) < 0.5) + 0.0, 0.5, 0.5),
    "p = 0.01": (lambda rng, n: (rng.random(n) < 0.01) + 0.0, 0.01, np.sqrt(0.01 * 0.99)),
    "p = 0.001": (lambda rng, n: (rng.random(n) < 0.001) + 0.0, 0.001, np.sqrt(0.001 * 0.999)),
}  # fmt: skip


def until(calls: int, paths: int, block: int = 1024) -> None:
    """Coverage of mean ± tolerance where `paths` paths would do, were the variance known."""
    print(f"law             covers   paths / {paths}")
    number = Observable(lambda t, x: x, name="value")
    for name, (draw, mean, deviation) in LAWS.items():
        rng, tolerance = np.random.default_rng(1), 1.959964 * deviation / np.sqrt(paths)
        covers, taken = 0, 0
        for _ in range(calls):
            rule = sd.until(error={"value": tolerance})
            watch = Watch(rule, [number], [Labels(np.ones(1), ("x",), {}, np.ones(1, int))])
            done, goal, whole = 0, rule.first_look(block), None
            while True:
                while done < goal:
                    x = draw(rng, block)
                    d = x - x.mean()
                    part = Sums(np.full(1, float(block)), np.full((1, 1), x.mean()), np.full((1, 1, 1), (d**2).sum()),
                                np.full((1, 1), (d**3).sum()), np.full((1, 1), (d**4).sum()))  # fmt: skip
                    whole, done = part if whole is None else number.merge(whole, part), done + block
                    watch.take([part])
                if watch.look([whole], done).share <= 1:
                    break
                goal = rule.next_look(done, block, 0.0)
            covers += abs(float(whole.mean[0, 0]) - mean) <= tolerance
            taken += done
        print(f"{name:14s}  {covers / calls:.3f}   {taken / calls / paths:.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("coverage", "cost", "until"))
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--paths", type=int, default=4096)
    parser.add_argument("--results", type=Path, default=Path("coverage.jsonl"), help="of coverage: gone on with")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    given = parser.parse_args()
    if given.what == "coverage":
        coverage(given.problems, given.calls, given.results)
    elif given.what == "cost":
        cost(given.problems)
    else:
        until(given.calls, given.paths)
