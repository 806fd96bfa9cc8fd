"""What runs with steep forces are told beside what is true: E v² at h, divided by that at h/16, up to t = 8.

python benchmarks/energies.py            the table of verdicts beside measured truths
python benchmarks/energies.py --measure  the truths anew, by 16 000 paths (± 2 %; four hours of processor time)
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine import stability
from stodyn.problems.sde import SDE

RIGHT, FAR = 0.06, 2.0  # errors, and factors, between which a run should be told


def forced(spring, c=0.1):
    return sd.Mechanical(lambda t, x, v: spring(x) - c * v, lambda t, x, v: 1.0, (0.0, 0.0))


def between(x, k=1e5, L=0.1):
    return -k * (jnp.maximum(x - L, 0.0) - jnp.maximum(-x - L, 0.0))


def moved(acceleration):
    return SDE(lambda t, z: jnp.stack([z[1], acceleration(z[0], z[1])]), lambda t, z: jnp.array([[0.0], [1.0]]),
               np.zeros(2))  # fmt: skip


def soft(x):
    return jax.nn.softplus(x)


STOPS = forced(lambda x: -x + between(x))
SOFT = moved(lambda x, v: -x - 0.1 * v + between(x, 1e4))
CASES = {  # name: problem, method, {h: what is true}
    "two stops": (STOPS, "StochasticAlpha", {5e-4: 1.0, 1.5e-3: 0.98, 2.2e-3: 1.06, 3e-3: 1.38, 5e-3: 7.43}),
    "two stops by HHT": (STOPS, "HHT", {5e-4: 1.0, 1.5e-3: 0.88}),
    "soft stops far apart": (forced(lambda x: -x + between(x, 1e4, 4.0)), "StochasticAlpha", {0.01: 0.99}),
    "soft stops": (forced(lambda x: -x + between(x, 1e4, 1.0)), "StochasticAlpha", {5e-3: 1.02, 0.01: 1.03}),
    "stops that change": (
        sd.Mechanical(lambda t, x, v: -x - 0.1 * v + (1.0 + 0.2 * jnp.sin(t)) * between(x), lambda t, x, v: 1.0,
                      (0.0, 0.0)), "StochasticAlpha", {1.5e-3: 1.01, 3e-3: 1.17}),
    "floor": (forced(lambda x: -x + 1e4 * jnp.maximum(-x, 0.0)), "StochasticAlpha",
              {0.01: 1.02, 0.02: 0.99, 0.04: 1.88}),
    "bilinear": (forced(lambda x: jnp.where(x > 0.0, -x, -1e4 * x)), "StochasticAlpha", {0.01: 1.02, 0.03: 1.40}),
    "slightly bilinear": (forced(lambda x: jnp.where(x > 0.0, -x, -400.0 * x)), "StochasticAlpha", {0.1: 1.0}),
    "preloaded": (forced(lambda x: -x - jnp.clip(x / 1e-3, -1.0, 1.0)), "StochasticAlpha", {0.05: 1.02, 0.1: 1.05}),
    "preloaded by 10": (forced(lambda x: -x - 10.0 * jnp.clip(x / 0.01, -1.0, 1.0)), "StochasticAlpha", {0.047: 1.18}),
    "preloaded by 30": (forced(lambda x: -x - 30.0 * jnp.clip(x / 0.01, -1.0, 1.0)), "StochasticAlpha", {0.03: 1.94}),
    "softening": (forced(lambda x: -50.0 * jnp.clip(200.0 * x, -1.0, 1.0)), "StochasticAlpha",
                  {5e-3: 1.02, 0.01: 1.36, 0.013: 1.86, 0.02: 3.52}),
    "x/√": (forced(lambda x: -x / jnp.sqrt(x**2 + 1e-6)), "StochasticAlpha", {0.02: 1.0, 0.04: 1.0, 0.1: 1.02}),
    "tanh": (forced(lambda x: -10.0 * jnp.tanh(100.0 * x)), "StochasticAlpha", {0.03: 1.03, 0.1: 1.68}),
    "1e8 x³": (forced(lambda x: -1e8 * x**3), "StochasticAlpha", {0.01: 1.46, 0.05: 0.13}),
    "100 x³": (forced(lambda x: -x - 100.0 * x**3), "StochasticAlpha", {0.05: 0.98, 0.1: 0.95}),
    "1000 x |x|": (forced(lambda x: -1000.0 * x * jnp.abs(x)), "StochasticAlpha", {0.1: 0.81}),
    "Duffing": (forced(lambda x: -x - x**3), "StochasticAlpha", {0.05: 1.01}),
    "pendulum": (forced(lambda x: -jnp.sin(x)), "StochasticAlpha", {0.1: 1.04}),
    "narrow": (forced(lambda x: -x - jnp.where((x > 0.1) & (x < 0.1001), 1e5 * (x - 0.1), 0.0)), "StochasticAlpha",
               {3e-3: 0.99}),
    "two wells between stops": (forced(lambda x: x - x**3 + between(x, L=1.1)), "StochasticAlpha", {3e-3: 1.05}),
    "softplus": (forced(lambda x: -x - 10.0 * (soft(1e4 * (x - 0.1)) - soft(1e4 * (-x - 0.1)))), "StochasticAlpha",
                 {3e-3: 1.35}),
    "soft edge": (forced(lambda x: -x - 1e3 * (soft(1e2 * (x - 0.1)) - soft(1e2 * (-x - 0.1)))), "StochasticAlpha",
                  {3e-3: 0.98}),
    "Hertz": (forced(lambda x: -x - 1e6 * (jnp.maximum(x - 0.1, 0.0) ** 1.5 - jnp.maximum(-x - 0.1, 0.0) ** 1.5)),
              "StochasticAlpha", {3e-3: 0.96}),
    "by ImplicitMidpoint": (moved(lambda x, v: -x - 0.1 * v + between(x)), "ImplicitMidpoint",
                            {5e-4: 0.98, 3e-3: 1.58}),
    "by ImplicitEuler": (SOFT, "ImplicitEuler", {2e-4: 0.49, 1e-3: 0.25}),
    "by Heun": (SOFT, "Heun", {5e-4: 1.01, 1e-3: 1.01}),
    "noise by the speed": (
        sd.Mechanical(lambda t, x, v: -x - 0.1 * v + between(x), lambda t, x, v: jnp.sqrt(0.5 + 0.2 * v**2),
                      (0.0, 0.0)),
        "StochasticAlpha", {3e-3: 1.39}),
    "mass by the place": (
        sd.Mechanical(lambda t, x, v: -x - 0.1 * v + 2.0 * between(x), lambda t, x, v: 1.0, (0.0, 0.0),
                      mass=lambda t, x, v: jnp.reshape(2.0 + 0.01 * jnp.cos(10.0 * x), (1, 1))),
        "StochasticAlpha", {3e-3: 1.25}),
    "Hamiltonian": (
        sd.Hamiltonian(lambda t, q, p: 0.5 * (p**2 + q**2 + 1e5 * jnp.maximum(jnp.abs(q) - 0.1, 0.0) ** 2),
                       lambda t, q, p: -q, lambda t, q, p: -0.1 * p, start=(0.0, 0.0)), "Midpoint", {3e-3: 1.55}),
    "friction by tanh": (moved(lambda x, v: -x - jnp.tanh(v / 1e-3)), "Heun", {0.01: 0.99}),
    "friction by clip": (moved(lambda x, v: -x - jnp.clip(v / 1e-3, -1.0, 1.0)), "Heun", {0.01: 0.99}),
    "drag": (moved(lambda x, v: -x - 5.0 * v * jnp.abs(v)), "Heun", {0.02: 0.99}),
    "yielding": (forced(lambda x: -1e3 * jnp.clip(x, -0.1, 0.1)), "StochasticAlpha", {0.02: 0.95}),
    "backlash": (forced(lambda x: -10.0 * (x - jnp.clip(x, -0.1, 0.1))), "StochasticAlpha", {0.02: 1.01}),
}  # fmt: skip


def said(problem: object, method: str, h: float) -> str:
    """What is said before a run up to t = 8."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            sd.prepare(problem, method, t=(0.0, round(8.0 / h) * h), dt=h, paths=1)
        except ValueError as refused:
            return f"refused: {refused}"
    classes = sd.warnings.StopsNotResolved, sd.warnings.EnergyNotKept
    return next((f"told: {own.message}" for own in told if own.category in classes), "silent")


def measured(problem: object, method: str, h: float) -> float:
    """E v² in the second half of a run, by its steps and by a sixteenth of them."""
    steps = round(8.0 / h)
    at = np.unique(np.linspace(steps // 2, steps, 25).astype(int)) * h
    ratio = []
    for seed, finer in enumerate((1, 16)):
        run = sd.simulate(problem, method, t=(0.0, steps * h), dt=h / finer, paths=16_000, seed=seed,
                          collect=st.Moments(at=at), on_failure="record", progress=False)  # fmt: skip
        ratio.append(float((run["mean"] ** 2 + run["variance"])[:, 1].mean()))
    return ratio[0] / ratio[1]


def kind(true: float) -> str:
    if abs(true - 1.0) < RIGHT + 1e-9:
        return "right"
    return "off" if 1.0 / FAR <= true <= FAR else "far off"


def main() -> None:
    if "--measure" in sys.argv:
        stability.check_energy = lambda run, problem, method: None
    counts: Counter[tuple[str, str]] = Counter()
    for name, (problem, method, truths) in CASES.items():
        for h, true in truths.items():
            if "--measure" in sys.argv:
                print(f"{name:26s} {h:8g} {measured(problem, method, h):6.2f}", flush=True)
                continue
            words = said(problem, method, h)
            counts[kind(true), words.partition(":")[0]] += 1
            print(f"{name:26s} {h:8g} {true:6.2f}  {words[:120]}", flush=True)
    for (true, words), count in sorted(counts.items()):
        print(f"{true:8s} {words:8s} {count}")


if __name__ == "__main__":
    main()
