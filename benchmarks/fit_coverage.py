"""How often 95 % intervals of fits hold the true parameters: records made at known parameters, and fitted one by one.

    python benchmarks/fit_coverage.py [--records 500] [--only ou,cir,...]

Six questions: an Ornstein-Uhlenbeck process and an oscillator by their exact law, a square-root process by its exact
transitions, an RC netlist with noise, an oscillator with a cubic spring by "statistical" and a pendulum in minimal
coordinates by "ekf", whose sine is read at small swings and, "pendulum_far", at large ones: there `NotGaussian` warns,
and the share of the records that it warned of is printed. A binomial standard error stands beside each share.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.warnings import NotGaussian

READINGS = 100


def question(problem: Any, method: str, of: Any, every: float, step: float, **options: Any) -> Callable:
    """Records of a problem by a sensor, as (data, problem, sensor, options of the fit) for a number of them."""

    def made(count: int) -> Any:
        sensor = sd.Sensor("y", of=of, every=every, phase=every, noise=sd.per_sample("r"))
        end = READINGS * every
        run = sd.simulate(
            problem, method, t=(0, end), dt=step, paths=count, seed=1, collect=st.Sensed(sensor, count=count)
        )
        times = run["y"][run["y"].dims[1]].values
        for readings in run["y"].values:
            yield (times, readings), problem, sensor, options

    return made


def square_root(count: int) -> Any:
    """By its transitions, which are noncentral chi-squared."""
    params = {"rate": 0.9, "level": 1.2, "s": 0.5}
    problem = sd.SDE(
        lambda t, x, p: p["rate"] * (p["level"] - x), lambda t, x, p: p["s"] * jnp.sqrt(x), 1.2, params=params
    )
    rng, times = np.random.default_rng(1), 0.25 * np.arange(READINGS)
    rate, level, s = params.values()
    scale, decay = s**2 * (1 - np.exp(-rate * 0.25)) / (4 * rate), np.exp(-rate * 0.25)
    for _ in range(count):
        x = [1.2]
        for _ in times[1:]:
            x.append(scale * rng.noncentral_chisquare(4 * rate * level / s**2, x[-1] * decay / scale))
        yield (times, np.array(x)), problem, sd.Sensor("y", of="x"), {"initial": "diffuse"}


def ou() -> Callable:
    problem = sd.SDE(lambda t, x, p: -p["a"] * x, lambda t, x, p: p["s"], 0.0, params={"a": 0.8, "s": 1.1, "r": 0.3})
    return question(problem, "VanLoan", "x", 0.2, 0.2)


def second_order(
    force: Callable, start: list[float], params: dict[str, float], method: str = "Heun", step: float = 0.01,
    of: Any = "x", **options: Any,
) -> Callable:  # fmt: skip
    problem = sd.SDE(
        lambda t, x, p: jnp.array([x[1], force(x, p)]), lambda t, x, p: jnp.array([[0.0], [p["q"]]]), np.array(start),
        params=params, names=("x", "v"),
    )  # fmt: skip
    return question(problem, method, of, 0.2, step, **options)


def oscillator() -> Callable:
    params = {"omega": 2.0, "zeta": 0.1, "q": 0.7, "r": 0.2}
    return second_order(
        lambda x, p: -(p["omega"] ** 2) * x[0] - 2 * p["zeta"] * p["omega"] * x[1], [0.0, 0.0], params, "VanLoan", 0.2
    )


def divider() -> Callable:
    """A capacitor behind a resistor with noise, read behind a divider: an algebraic component."""
    problem = sd.SDAE(
        np.diag([1.0, 0.0]),
        lambda t, x, p: jnp.array([-(x[0] - x[1]) / p["tau"], (x[0] - x[1]) / p["tau"] - x[1] / 0.5]),
        lambda t, x, p: jnp.array([[p["s"]], [0.0]]),
        start=[0.0, 0.0], names=["u", "w"], params={"tau": 2.0, "s": 1.5, "r": 0.05},
    )  # fmt: skip
    return question(problem, "Trapezoidal", "w", 0.2, 0.01)


def duffing() -> Callable:
    params = {"c": 0.2, "k": 1.0, "q": 0.5, "r": 0.1}
    return second_order(
        lambda x, p: -p["c"] * x[1] - x[0] - p["k"] * x[0] ** 3, [1.0, 0.0], params, by="statistical", dt=0.05
    )


def pendulum(start: float) -> Callable:
    return second_order(
        lambda x, p: -p["g"] * jnp.sin(x[0]) - p["c"] * x[1], [start, 0.0], {"g": 4.0, "c": 0.2, "q": 0.3, "r": 0.1},
        of=lambda t, x: jnp.sin(x[0]), by="ekf", dt=0.05,
    )  # fmt: skip


QUESTIONS: dict[str, Callable[[], Callable]] = {
    "ou": ou, "cir": lambda: square_root, "oscillator": oscillator, "divider": divider, "duffing": duffing,
    "pendulum": lambda: pendulum(0.5), "pendulum_far": lambda: pendulum(2.5),
}  # fmt: skip


def measured(name: str, count: int) -> None:
    """Print the shares of intervals that hold the true values."""
    inside: dict[str, int] = {}
    warned = 0
    for data, problem, sensor, options in QUESTIONS[name]()(count):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = sd.fit(problem, data=data, sensors=sensor, free={own: (0, None) for own in problem.params},
                            predictive=0, progress=False, **options)  # fmt: skip
        warned += any(issubclass(own.category, NotGaussian) for own in caught)
        for own in problem.params:
            row = result.sel(parameter=own)
            inside[own] = inside.get(own, 0) + bool(row.low <= problem.params[own] <= row.high)
    for own, number in inside.items():
        share = number / count
        error = np.sqrt(0.95 * 0.05 / count)
        print(f"{name:13s} {own:6s} {share:.3f} ± {error:.3f}  z {(share - 0.95) / error:+.1f}")
    print(f"{name:13s} NotGaussian in {warned} of {count}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=500)
    parser.add_argument("--only", default=",".join(QUESTIONS))
    given = parser.parse_args()
    for name in given.only.split(","):
        measured(name, given.records)


if __name__ == "__main__":
    main()
