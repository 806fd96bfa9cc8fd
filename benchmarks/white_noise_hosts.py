"""What other simulators make of exported white noise: the variance of x' = -x + w in the long run, by runs.

    python benchmarks/white_noise_hosts.py

Each host integrates by itself and takes its noise from the exported file of NumPy, PATHS hosts side by side. Beside the
run stands the exact error of such a host, from its own step on units.
"""

import runpy
import tempfile
from pathlib import Path

import numpy as np
import scipy.linalg

import stodyn as sd

PATHS, LOOKS, SETTLED, Q = 20_000, 30, 8.0, 1.0
TABLES = {
    "Euler": ([[]], [1]),
    "RK2": ([[], [1]], [1 / 2, 1 / 2]),
    "RK3": ([[], [1 / 2], [-1, 2]], [1 / 6, 2 / 3, 1 / 6]),
    "RK4": ([[], [1 / 2], [0, 1 / 2], [0, 0, 1]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
}


def exported(noise, h):
    """A function that gives the next samples of all paths."""
    (file,) = sd.export(noise, dt=h, to=Path(tempfile.mkdtemp()) / "model.py", seed=5)
    return runpy.run_path(str(file))["model"](paths=range(PATHS)).step


def host_step(solver, x, h, sample):
    """A step of the host's solver, which calls for a sample in every evaluation."""
    table, weights = TABLES[solver]
    slopes = []
    for row in table:
        slopes.append(-(x + h * sum(a * k for a, k in zip(row, slopes, strict=True))) + sample())
    return x + h * sum(b * k for b, k in zip(weights, slopes, strict=True))


def measured(step, h):
    """The variance over Q/2, less 1, and its standard error."""
    x, between, squares = np.zeros((PATHS, 1)), max(int(1.0 / h), 1), []
    for _ in range(int(SETTLED / h)):
        x = step(x)
    for _ in range(LOOKS):
        for _ in range(between):
            x = step(x)
        squares.append((x**2).mean())
    decay = np.exp(-2.0 * between * h)
    independent = LOOKS * PATHS * (1.0 - decay) / (1.0 + decay)
    return np.mean(squares) / (Q / 2.0) - 1.0, np.sqrt(2.0 / independent)


def expected(solver, h, variance, is_held):
    """The same without sampling."""
    stages = 1 if is_held else len(TABLES[solver][1])
    moved = []
    for unit in np.eye(stages):
        samples = iter(unit)
        moved.append(host_step(solver, 0.0, h, (lambda: 1.0) if is_held else (lambda samples=samples: next(samples))))
    decay = host_step(solver, 1.0, h, lambda: 0.0)
    return variance * sum(m * m for m in moved) / (1.0 - decay**2) / (Q / 2.0) - 1.0


def show(words, run, exact):
    error, stderr = run
    z = (error - exact) / stderr
    print(f"{words:44s} run {100 * error:+7.2f} ({100 * stderr:.2f}) %, exact {100 * exact:+7.3f} %, z {z:+.1f}")


def held(solver, h):
    sample = exported(sd.noise.white(Q, host="held"), h)

    def step(x):
        y = sample()
        return host_step(solver, x, h, lambda: y)

    show(f"held, {solver}, h = {h}", measured(step, h), expected(solver, h, Q / h, True))


def fresh(solver, host, h):
    noise = sd.noise.white(Q, host=host)
    sample, variance = exported(noise, h), noise.covariance(h)[0, 0]
    run = measured(lambda x: host_step(solver, x, h, sample), h)
    show(f"asked for in every stage of {solver}, {host!r}", run, expected(solver, h, variance, False))


def joined(h):
    """An exact solver whose input goes from sample to sample by straight lines."""
    sample, exact = exported(sd.noise.white(Q, host="held"), h), np.exp(-h)
    later = 1.0 - (1.0 - exact) / h
    first, last = (1.0 - exact) - later, [sample()]

    def step(x):
        begin, last[0] = last[0], sample()
        return exact * x + first * begin + later * last[0]

    M, N = np.array([[exact, first], [0.0, 0.0]]), np.array([[later], [1.0]])
    P = scipy.linalg.solve_discrete_lyapunov(M, N @ N.T * Q / h)
    show(f"joined by lines, exact solver, h = {h}", measured(step, h), P[0, 0] / (Q / 2.0) - 1.0)


def held_by_an_exact_solver(h):
    """What a variable step comes to where the noise has a sample time of its own."""
    sample, exact = exported(sd.noise.white(Q, host="held"), h), np.exp(-h)
    run = measured(lambda x: exact * x + (1.0 - exact) * sample(), h)
    show(f"held, exact solver, sample time {h}", run, 2.0 / h * (1.0 - exact) / (1.0 + exact) - 1.0)


def filtered(h):
    sample = exported(sd.noise.coloured.gauss_markov(np.sqrt(Q / 2.0), 1.0), h)
    show(f"filtered noise, h = {h}", measured(lambda x: sample(), h), 0.0)


if __name__ == "__main__":
    for name in ("RK4", "Euler"):
        held(name, 0.1)
    for name in TABLES:
        fresh(name, f"fresh {name}", 0.1)
    fresh("RK4", "held", 0.1)
    for length in (0.05, 0.1, 0.2, 0.5, 1.0):
        joined(length)
    for length in (0.1, 0.5):
        held_by_an_exact_solver(length)
    for length in (0.1, 1.0):
        filtered(length)
