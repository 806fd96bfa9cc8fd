"""Mechanical systems with joints: strong orders against minimal coordinates, drift off the constraints, cost.

    python benchmarks/constrained.py [orders | drift | cost | chain ...] [--small]

orders  rms errors of x and v on common Brownian paths, against the minimal form by StochasticAlpha20 at a quarter of
        the finest step; slopes with their 95 % intervals
drift   the largest |g| and |G v| over 10⁶ steps
cost    processor time of a step of the pendulum with its rod against its angle
chain   processor time of a step of n pendulums with their rods, and of their angles, for growing n
"""

import dataclasses
import sys
import time

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis.step.common_paths import PathRun, common_paths
from stodyn.methods.alpha import StochasticAlpha20
from stodyn.methods.catalogue import find
from stodyn.methods.projected_alpha import ProjectedAlpha
from stodyn.methods.rattle_alpha import RattleAlpha, RattleAlpha15
from stodyn.models.jointed import FOUR_BAR, JOINTED_PENDULUM, PENDULUM_CHAIN
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.minimal import in_minimal_coordinates, placed

METHODS = ("RattleAlpha", "RattleAlpha15", "ProjectedAlpha", "Rattle", "ShiftedRattle15")
VELOCITY = (RattleAlpha, RattleAlpha15, ProjectedAlpha(order=1.5), ProjectedAlpha)  # that take noise which depends on v


def on_a_rod(noise):
    """A pendulum with other noise, its minimal form and the embedding."""
    posed = dataclasses.replace(JOINTED_PENDULUM.problem, noise=noise)
    embedding = JOINTED_PENDULUM.exact["embedding"]
    return posed, in_minimal_coordinates(posed, embedding, ([1.0], [0.5])), embedding


def on_a_moving_rod():
    """A damped pendulum of prescribed length, with a mass that depends on x and noise that depends on x and v."""

    def embedding(t, u):
        return (1.0 + 0.2 * jnp.sin(8.0 * t)) * jnp.stack([jnp.sin(u[0]), -jnp.cos(u[0])])

    x = np.array([np.sin(1.0), -np.cos(1.0)])
    posed = sd.Mechanical(
        lambda t, x, v: jnp.array([0.0, -9.81]) - 0.6 * v,
        lambda t, x, v: jnp.stack([6.0 + 3.0 * jnp.sin(v[1]), 3.0 * x[0] + 2.0 * jnp.cos(v[0])])[:, None],
        (x, 0.5 * np.array([-x[1], x[0]]) + 1.6 * x),
        mass=lambda t, x, v: jnp.diag(jnp.stack([1.0 + 0.8 * x[0] ** 2, 1.5 + 0.6 * x[1]])),
        constraints=lambda t, x: 0.5 * (x @ x - (1.0 + 0.2 * jnp.sin(8.0 * t)) ** 2)[None],
    )
    return posed, in_minimal_coordinates(posed, embedding, ([1.0], [0.5])), embedding


def posed(model):
    return model.problem, model.exact["minimal"](), model.exact["embedding"]


def squares(problem, minimal, embedding, methods, steps, paths, T):
    """The squared errors of (x, v) at T by each method, (paths, steps), and of the reference with twice its step.

    Two runs along the same paths: of StochasticAlpha20 in minimal coordinates at a quarter of the finest step, and of
    the methods. Both draw the same numbers because each holds a method that needs all iterated integrals.
    """
    fine = 4 * steps[-1]
    factors = tuple(fine // count for count in steps)
    truth = common_paths(minimal, [PathRun(StochasticAlpha20, (1, 2))], (0.0, T), fine, paths, 1)
    found = common_paths(problem, [PathRun(method, factors) for method in methods], (0.0, T), fine, paths, 1)
    (W, angles), (W_too, *ends) = (
        [np.concatenate(parts) for parts in zip(*((W, *states) for W, states in blocks), strict=True)]
        for blocks in (truth, found)
    )
    assert np.array_equal(W, W_too)
    at_end = AtPoints(lambda u: placed(embedding, T, u))
    right, nearly = (at_end(np.ascontiguousarray(angles[:, k])) for k in (0, 1))
    errors = [np.sum((x[:, :, : 2 * problem.N] - right[:, None]) ** 2, axis=2) for x in ends]
    return errors, np.sum((right - nearly) ** 2, axis=1)


def slope(squared, h, last=None):
    """The slope of log rms against log h over the last steps, and its standard error with the correlation of steps."""
    squared, h = squared[:, -(last or len(h)) :], h[-(last or len(h)) :]
    weight = np.log(h) - np.log(h).mean()
    weight /= weight @ weight
    mean = squared.mean(axis=0)
    return 0.5 * weight @ np.log(mean), np.std(0.5 * (squared / mean) @ weight) / np.sqrt(len(squared))


def orders(small):
    """With 95 % intervals of sampling; errors bend at long steps, so that the last three steps stand beside all."""
    steps = (32, 64, 128) if small else (32, 64, 128, 256, 512)
    every = [find(name) for name in METHODS]
    sheared = on_a_rod(lambda t, x, v: jnp.stack([1.8 * v[1], jnp.zeros(())])[:, None])
    mixed = on_a_rod(lambda t, x, v: jnp.stack([6.0 + 3.0 * jnp.sin(v[1]), 3.0 * x[0] + 2.0 * jnp.cos(v[0])])[:, None])
    cases = {
        "pendulum, force 4": (posed(JOINTED_PENDULUM(noise=(4.0, 0.0))), every, 2000),
        "pendulum, force 12": (posed(JOINTED_PENDULUM(noise=(12.0, 0.0))), every, 2000),
        "two channels, 4 and 3": (on_a_rod(lambda t, x, v: jnp.diag(jnp.array([4.0, 3.0]))), every, 1000),
        "noise 1.8 v_y": (sheared, VELOCITY, 2000),
        "noise of x and v": (mixed, VELOCITY, 2000),
        "moving rod, mass of x": (on_a_moving_rod(), VELOCITY, 400),
    }
    if not small:
        cases["double, force 1.5"] = posed(PENDULUM_CHAIN), every, 500
        cases["four-bar, force 4"] = posed(FOUR_BAR(noise=4.0)), every, 500
    for name, (system, methods, paths) in cases.items():
        strong = any(word in name for word in ("12", "of x"))
        T = 0.25 if strong else 1.0  # of strong noise at short steps, where its errors rule
        h, before = T / np.array(steps), time.process_time()
        found, own = squares(*system, methods, steps, paths // 20 if small else paths, T)
        print(f"{name}, T = {T}, {len(own)} paths; the reference {np.sqrt(own.mean()):.1e} from that of twice its step")
        for method, squared in zip(methods, found, strict=True):
            (all_, its), (late, spread) = slope(squared, h), slope(squared, h, 3)
            rms = " ".join(f"{e:.2e}" for e in np.sqrt(squared.mean(axis=0)))
            label = method.name if method.name != "ProjectedAlpha" else f"ProjectedAlpha({method.order})"
            print(f"    {label:20s} order {all_:.2f} ± {1.96 * its:.2f}, of the last three steps {late:.2f} ± "
                  f"{1.96 * spread:.2f}; rms {rms}", flush=True)  # fmt: skip
        print(f"    {time.process_time() - before:.0f} s of processor time", flush=True)


def drift(small):
    steps = 20_000 if small else 1_000_000
    for model in (JOINTED_PENDULUM, PENDULUM_CHAIN(friction=0.5), FOUR_BAR(friction=0.5)):  # or they heat up
        problem = model.problem

        def off(t, x, problem=problem):
            q, v = x[: problem.N], x[problem.N :]
            along = problem.joints.jacobian(t, q, None) @ v
            return jnp.stack([jnp.max(jnp.abs(problem.joints.value(t, q, None))), jnp.max(jnp.abs(along))])

        watched = st.Observable(off, every=steps // 100)
        run = sd.simulate(problem, "RattleAlpha", t=(0.0, 0.004 * steps), dt=0.004, paths=4, seed=3, collect=watched)
        g, along = run["off"].values.max(axis=0)
        print(f"{model.name:20s} {steps} steps: mean over 4 paths at most |g| {g:.1e}, |G v| {along:.1e}", flush=True)


def seconds(problem, method, steps, paths):
    """Processor time of one step of one path, without what a run costs before its first step: the median of three."""
    held = st.Moments(at=[0.0])
    found = []
    for _ in range(4):  # the first may compile
        spent = []
        for count in (2, steps):
            before = time.process_time()
            sd.simulate(problem, method, t=(0.0, count * 1e-3), dt=1e-3, paths=paths, seed=1, collect=held)
            spent.append(time.process_time() - before)
        found.append((spent[1] - spent[0]) / (paths * (steps - 2)))
    return float(np.median(found[1:]))


def cost(small):
    steps, paths = (1000 if small else 10_000), 4096
    for name, model in {"force": JOINTED_PENDULUM, "friction": JOINTED_PENDULUM(friction=0.5)}.items():
        angle = seconds(model.exact["minimal"](), "StochasticAlpha", steps, paths)
        print(f"pendulum, {name}: angle by StochasticAlpha {angle * 1e9:.0f} ns")
        for method in ("RattleAlpha", "RattleAlpha15", *(() if name == "friction" else ("Rattle",))):
            rod = seconds(model.problem, method, steps, paths)
            print(f"    rod by {method} {rod * 1e9:.0f} ns, {rod / angle:.2f} times")


def chain(small):
    """Rods by RattleAlpha, whose cost grows like n; their angles by StochasticAlpha, with a full mass matrix."""
    for n in (2, 4) if small else (2, 3, 4, 6, 12, 24):
        model = PENDULUM_CHAIN(
            masses=(1.0,) * n, lengths=(1.0 / n,) * n, angles=(0.5,) * n, rates=(0.0,) * n, noise=0.1
        )
        rods = seconds(model.problem, "RattleAlpha", 400, 1024)
        line = f"n = {n}: rods {rods * 1e9:.0f} ns per step, {rods * 1e9 / n:.0f} for each"
        if n <= 4:
            angles = seconds(model.exact["minimal"](), "StochasticAlpha", 400, 1024)
            line += f"; angles {angles * 1e9:.0f} ns, rods {rods / angles:.2f} times"
        print(line, flush=True)


if __name__ == "__main__":
    small = "--small" in sys.argv
    asked = [word for word in sys.argv[1:] if not word.startswith("-")] or ["orders", "drift", "cost", "chain"]
    for word in asked:
        {"orders": orders, "drift": drift, "cost": cost, "chain": chain}[word](small)
