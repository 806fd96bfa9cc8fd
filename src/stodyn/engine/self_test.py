"""Whether a GPU gives the right numbers: a test with known ones, before the first run of a process on it.

One run of dx = -x dt + dW by Heun's method from x = X: the results of every class of operations on X, then the mean and
the variance after STEPS steps, which follow from x' = (1 - h + h²/2) x + (1 - h/2) ΔW. JAX, which looks at rows for
some statistics and runs steps that cannot be printed, computes the same numbers.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.engine.layout import Layout
from stodyn.engine.program import cards
from stodyn.engine.run import Run, Tally
from stodyn.engine.spec import describe
from stodyn.methods.catalogue import find
from stodyn.problems.sde import SDE
from stodyn.statistics.moments import Moments
from stodyn.statistics.observable import Observable

X, STEPS, PATHS, SEED = 0.7, 8, 2**21, 1
ROUNDED = 1e-11  # a choice: far above the rounding of means of equal numbers, far below that of single precision
FAR = 6.0  # standard errors; the seed is fixed, so that a sound card passes always or never
KNOWN = {
    "sqrt": (lambda x: jnp.sqrt(512.0 * x), math.sqrt(512.0 * X)),
    "divide": (lambda x: x / 3.0, X / 3.0),
    "exp": (jnp.exp, math.exp(X)),
    "log": (jnp.log, math.log(X)),
    "sin": (lambda x: jnp.sin(1e6 * x), math.sin(1e6 * X)),
    "tanh": (jnp.tanh, math.tanh(X)),
    "pow": (lambda x: x**2.5, X**2.5),
    "maximum": (lambda x: jnp.maximum(x, 0.1) - jnp.minimum(x, 0.1), X - 0.1),
    "where": (lambda x: jnp.where(x > 0.5, jnp.floor(10.0 * x), -1.0), float(math.floor(10.0 * X))),
    "whole numbers": (lambda x: (100.0 * x).astype(np.int32) % 8 * 1.0, float(int(100.0 * X) % 8)),
}


class WrongDevice(RuntimeError):
    """Raised where a device does not give the right numbers."""


def check(devices: tuple[Any, ...]) -> None:
    """Refuse, by name, a device that gives wrong numbers; each is tested once per process."""
    for device in devices:
        _check(device)


@functools.cache
def _check(device: Any) -> None:
    messages = faults(device)
    if messages:
        raise WrongDevice(
            f"device: {device.device_kind} with JAX {jax.__version__} gives wrong numbers: {'; '.join(messages)}. "
            'Another driver or version of JAX may help; device="cpu" avoids it.'
        )


def faults(device: Any, paths: int = PATHS) -> list[str]:
    """The faults of a device, in words."""
    problem = SDE(lambda t, x: -x, lambda t, x: 1.0, X)
    known = Observable(lambda t, x: jnp.stack([f(x[0]) for f, _ in KNOWN.values()]), name="known", at=[0.0])
    spec = describe(problem, find("Heun"), (0.0, 1.0), 1.0 / STEPS, (known, Moments(at=[1.0])), "float64")
    run = Run(spec, Layout(spec, paths, SEED, paths), cards.get(spec, "printed", (device,), paths))
    tally = Tally(run, "raise")
    tally.take(0, run.compute(0, lambda steps: None))
    (_, observable, _), (_, moments, _) = tally.labelled()
    values = np.asarray(observable.variables["known"].values)[0]
    messages = [
        f"{name} gives {value!r} for {expected!r}"
        for (name, (_, expected)), value in zip(KNOWN.items(), values.tolist(), strict=True)
        if not abs(value - expected) <= ROUNDED * abs(expected)
    ]
    h = 1.0 / STEPS
    decay, spread = 1.0 - h + h * h / 2.0, (1.0 - h / 2.0) ** 2 * h
    exact = {"mean": X * decay**STEPS, "variance": spread * (1.0 - decay ** (2 * STEPS)) / (1.0 - decay**2)}
    for name, expected in exact.items():
        value, error = (float(moments.variables[v].values[0, 0]) for v in (name, f"{name}_stderr"))
        if not abs(value - expected) <= FAR * error:
            messages.append(f"the {name} of {paths} paths is {value!r} ± {error:.1g} for {expected!r}")
    return messages + _faults_of_jax(device)


def _faults_of_jax(device: Any) -> list[str]:
    with jax.enable_x64(True), jax.default_device(device):
        values = np.asarray(jax.jit(lambda x: jnp.stack([f(x) for f, _ in KNOWN.values()]))(np.float64(X)))
    return [
        f"JAX gives {value!r} for {name}, not {expected!r}"
        for (name, (_, expected)), value in zip(KNOWN.items(), values.tolist(), strict=True)
        if not abs(value - expected) <= ROUNDED * abs(expected)
    ]
