"""Mechanical systems with joints: strong orders against minimal coordinates, drift off the constraints, cost.

    python benchmarks/constrained.py [orders | drift | cost | chain ...] [--small]

orders  rms errors of x and v on common Brownian paths, against the minimal form by StochasticAlpha20 at steps
        8 times as fine; order with its 95 % interval
drift   the largest |g| and |G v| over 10⁶ steps
cost    processor time of a step of the pendulum with its rod against its angle
chain   processor time of a step of n pendulums with their rods, and of their angles, for growing n
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis.order import strong_order
from stodyn.methods.alpha import StochasticAlpha20
from stodyn.methods.catalogue import find
from stodyn.models.jointed import CRANK, FOUR_BAR, JOINTED_PENDULUM, PENDULUM_CHAIN, SPHERICAL_PENDULUM
from stodyn.numerics.newton import underived
from stodyn.problems.minimal import placed

METHODS = ("RattleAlpha", "RattleAlpha15", "ProjectedAlpha", "Rattle", "ShiftedRattle15")


def in_minimal_coordinates(model):
    """The end of a path as a function of its increments, computed in minimal coordinates."""
    minimal, embedding = model.exact["minimal"](), model.exact["embedding"]
    method = StochasticAlpha20.prepared(minimal, 1e-3)

    def truth(t0, noise):
        h, steps = noise.h, noise.W.shape[0]
        start = method.start(minimal, t0, jnp.asarray(minimal.example_start()), None)

        def step(state, given):
            k, increment = given
            return method.step(minimal, t0 + k * jnp.ravel(h)[0], state, increment, None)[0], None

        state, _ = jax.lax.scan(step, start, (jnp.arange(steps), noise))
        return placed(embedding, t0 + jnp.sum(jnp.broadcast_to(h, (steps,))), method.read(state))

    truth.needs = method.needs
    return truth


def orders(small):
    paths, steps = (100, (32, 64, 128)) if small else (400, (32, 64, 128, 256, 512))
    models = {"pendulum, force 4": JOINTED_PENDULUM(noise=(4.0, 0.0)), "pendulum, force 1.5": JOINTED_PENDULUM}
    if not small:
        models |= {"double": PENDULUM_CHAIN, "crank": CRANK, "four-bar, force 4": FOUR_BAR(noise=4.0),
                   "spherical": SPHERICAL_PENDULUM}  # fmt: skip
    for name, model in models.items():
        for method in METHODS:
            study = strong_order(
                model.problem, find(method), reference=in_minimal_coordinates(model), steps=steps, paths=paths,
                refine=8, seed=1, t=(0.0, 1.0), level=0.95,
            )  # fmt: skip
            slopes = np.diff(np.log2(study["error"].values)) / -1.0
            told = f"order {study.attrs['order']:.2f} [{study.attrs['order_low']:.2f}, {study.attrs['order_high']:.2f}]"
            print(f"{name:22s} {method:16s} {told}  slopes {np.round(slopes, 2)}  last {study['error'].values[-1]:.2e}")


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
    """Processor time of one step of one path, without what a run costs before its first step; the least of three."""
    held = st.Moments(at=[0.0])
    found = []
    for _ in range(3):
        spent = []
        for count in (2, steps):
            before = time.process_time()
            sd.simulate(problem, method, t=(0.0, count * 1e-3), dt=1e-3, paths=paths, seed=1, collect=held)
            spent.append(time.process_time() - before)
        found.append((spent[1] - spent[0]) / (paths * (steps - 2)))
    return min(found[1:])


def cost(small):
    steps, paths = (1000 if small else 10_000), 4096
    for name, model in {"force": JOINTED_PENDULUM, "friction": JOINTED_PENDULUM(friction=0.5)}.items():
        angle = seconds(model.exact["minimal"](), "StochasticAlpha", steps, paths)
        print(f"pendulum, {name}: angle by StochasticAlpha {angle * 1e9:.0f} ns")
        for method in ("RattleAlpha", "RattleAlpha15", *(() if name == "friction" else ("Rattle",))):
            rod = seconds(model.problem, method, steps, paths)
            print(f"    rod by {method} {rod * 1e9:.0f} ns, {rod / angle:.2f} times")


def chain(small):
    for n in (2, 4, 8) if small else (2, 4, 8, 12, 24, 48):
        model = PENDULUM_CHAIN(
            masses=(1.0,) * n, lengths=(1.0 / n,) * n, angles=(0.5,) * n, rates=(0.0,) * n, noise=0.1
        )
        rods = seconds(model.problem, "RattleAlpha", 400, 1024)
        told = f"n = {n}: rods {rods * 1e9:.0f} ns a step, {rods * 1e9 / n:.0f} for each"
        if n <= 4:
            angles = seconds(model.exact["minimal"](), "StochasticAlpha", 400, 1024)
            told += f"; angles {angles * 1e9:.0f} ns, rods {rods / angles:.2f} times"
        print(told, flush=True)


if __name__ == "__main__":
    small = "--small" in sys.argv
    asked = [word for word in sys.argv[1:] if not word.startswith("-")] or ["orders", "drift", "cost", "chain"]
    with underived():
        for word in asked:
            {"orders": orders, "drift": drift, "cost": cost, "chain": chain}[word](small)
