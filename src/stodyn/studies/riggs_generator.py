"""Riggs' Figure 7 repeated with his own generator, seed and 1000 runs.

The generator is that of K. Marse & S. D. Roberts, Implementing a portable FORTRAN uniform (0,1) generator, Simulation
41 (1983) 135-139; his normals are sums of twelve of its numbers. For anything else use the library's own generator.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn.analysis.step.covariance import delivered
from stodyn.methods.classical import RK4
from stodyn.noise.increment import Increment
from stodyn.studies.contract import Row, Size, Study, StudyResult
from stodyn.studies.papers import RIGGS
from stodyn.studies.riggs_example import END, EXAMPLE, Curve, variance_picture

MULTIPLIER, MODULUS, SEED = 630360016, 2**31 - 1, 824064364
STRIDE = 1 << 16
RUNS, H = 1000, 0.005


def states(count: int, seed: int = SEED) -> np.ndarray:
    """The next `count` states Z <- 630360016 Z mod (2³¹ - 1) after the seed."""
    powers = np.array([MULTIPLIER], np.uint64)
    while len(powers) < STRIDE:  # powers[k] = multiplier^(k+1), by doubling
        powers = np.concatenate([powers, powers * powers[-1] % np.uint64(MODULUS)])
    numbers, last = [], np.uint64(seed)
    for begin in range(0, count, STRIDE):
        block = powers[: min(STRIDE, count - begin)] * last % np.uint64(MODULUS)
        numbers.append(block)
        last = block[-1]
    return np.concatenate(numbers)


def uniforms(count: int, seed: int = SEED) -> np.ndarray:
    """URAND: the 24 upper bits of each state, in the middle of their cells."""
    return (2.0 * (states(count, seed) // np.uint64(256)).astype(float) + 1.0) / 16777216.0


def normals(count: int, seed: int = SEED) -> np.ndarray:
    """GAUSSN: sums of twelve uniforms less 6."""
    return uniforms(12 * count, seed).reshape(count, 12).sum(axis=1) - 6.0


def run(size: Size, out: Path, progress) -> StudyResult:
    runs, h, drawn_too = size.of((100, 0.05, 1000), (RUNS, H, 2_000_000), (RUNS, H, 2_000_000))
    method, steps = RK4(noise="fresh"), round(END / h)
    progress(f"drawing {runs * steps * 48:,} numbers")
    g = normals(runs * steps * 4).reshape(runs, steps, 4, 1)
    stages = np.sqrt(float(method.Gamma) * h) * g  # h w with w of variance Γ/h; the intensity is in the diffusion
    progress("running")
    with jax.enable_x64(True):
        noise = Increment(
            jnp.full((runs, steps), h), jnp.asarray(np.zeros((runs, steps, 1))), aux={"stages": jnp.asarray(stages)}
        )
        paths = np.asarray(jax.jit(jax.vmap(lambda n: sd.path(EXAMPLE.problem, method, 0.0, n)[0]))(noise))[..., 0]
    at = np.arange(0, steps + 1, steps // 40)
    variance = paths[:, at].var(axis=0, ddof=1)
    fourth = ((paths[:, at] - paths[:, at].mean(axis=0)) ** 4).mean(axis=0)
    stderr = np.sqrt(np.maximum(fourth - (runs - 3) / (runs - 1) * variance**2, 0.0) / runs)
    curve = Curve(at * h, variance, stderr, delivered(EXAMPLE.problem, method, h, steps).covariance[at, 0, 0], h, runs)
    P = curve.process[-1]
    u = uniforms(4)
    tails = normals(drawn_too)
    rows = [
        *(Row(f"u{i + 1} from the seed {SEED}", None, float(u[i])) for i in range(4)),
        Row(
            "state after 100 000 draws",
            None,
            float(states(100_000)[-1]),
            None,
            "the seed of the next stream of the usual table",
        ),
        Row(
            f"P_D/P at t = 2, {runs} runs",
            "1 (agrees)",
            variance[-1] / P,
            stderr[-1] / P,
            f"exact for this step {curve.discrete[-1] / P:.4f}",
            T=END,
            h=h,
            paths=runs,
        ),
        Row(
            "P(|g| > 3) of a sum of twelve",
            None,
            float(np.mean(np.abs(tails) > 3.0)),
            float(np.sqrt(2e-3 / len(tails))),
            f"2.70e-3 for a normal; {len(tails)} numbers",
            paths=len(tails),
        ),
        Row(
            "kurtosis of a sum of twelve",
            None,
            float(np.mean(tails**4) / np.mean(tails**2) ** 2),
            float(np.sqrt(24 / len(tails))),
            f"2.9 exactly, 3 for a normal; {len(tails)} numbers",
            paths=len(tails),
        ),
    ]
    return StudyResult(
        rows,
        {
            "figure-7-his-generator": variance_picture(
                "RK4 with the numbers of Marse and Roberts' generator", {"RK4": curve}
            )
        },
    )


STUDY = Study(
    "riggs-generator",
    RIGGS,
    "Fig. 7 with his generator and seed",
    "This study repeats the 1000 runs of Riggs, number by number: they agree with the process within their standard "
    "error. Sums of twelve uniforms have thinner tails than a normal, which a variance does not show.",
    run,
    lambda: 20.0,
)
