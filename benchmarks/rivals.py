"""The jobs of ensemble_speed.py done by other tools: each function gives `run()`, which returns an ensemble mean.

They are given every advantage: parameters are constants, only the last state is kept, nothing is checked, and the paths
are shared out over as many threads as stodyn uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax import lax
from timing import in_threads

from stodyn.noise import path_normals, path_normals_code
from stodyn.noise.increment import Increment
from stodyn.noise.supply import DrawnNormals
from stodyn.numerics.newton import newton

BETA, NU = 0.5, 0.001  # the oscillator's
STIFFNESS, TOL = 2000.0, 1e-10  # the pendulum's; of implicit steps
LANES, SLAB = 1024, 128  # a megabyte of normals: the fastest found for NumPy feeding Numba


def shared(function: Callable[[int], float], threads: int) -> Callable[[], float]:
    """The mean of function(0), ..., each in a thread."""
    return lambda: float(np.mean(in_threads(function, threads)))


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))


# --- Numba ---------------------------------------------------------------------------------------------------------


@numba.njit(nogil=True, fastmath=True, inline="always")
def heun(q, p, g):
    """A Heun step of the oscillator over g = h + beta W, drift and noise being parallel."""
    q1, p1 = q + p * g, p - (q + NU * p) * g
    return q + 0.5 * (p + p1) * g, p - 0.5 * (q + NU * p + q1 + NU * p1) * g


@numba.njit(nogil=True, fastmath=True)
def kubo_by_generator(rng, paths, steps, h):
    total, strength = 0.0, BETA * math.sqrt(h)
    for _ in range(paths):
        q, p = 2.0, 0.0
        for _ in range(steps):
            q, p = heun(q, p, h + strength * rng.standard_normal())
        total += 0.5 * (q * q + p * p)
    return total / paths


@numba.njit(nogil=True, fastmath=True)
def kubo_slab(q, p, z, h):
    strength = BETA * math.sqrt(h)
    for n in range(z.shape[0]):
        for i in range(z.shape[1]):
            q[i], p[i] = heun(q[i], p[i], h + strength * z[n, i])


@numba.njit(nogil=True, fastmath=True)
def kubo_midpoint_by_generator(rng, paths, steps, h):
    total, root = 0.0, math.sqrt(h)
    for _ in range(paths):
        q, p = 2.0, 0.0
        for _ in range(steps):
            g = 0.5 * (h + BETA * root * rng.standard_normal())
            a, b, change = q, p, 1.0
            while change > TOL * (1.0 + max(abs(a), abs(b))):
                a, b, change = q + g * b, p - g * (a + NU * b), max(abs(q + g * b - a), abs(p - g * (a + NU * b) - b))
            q, p = 2.0 * a - q, 2.0 * b - p
        total += 0.5 * (q * q + p * p)
    return total / paths


@numba.njit(nogil=True, fastmath=True)
def pendulum_midpoint_by_generator(rng, paths, steps, h):
    total, root = 0.0, math.sqrt(h)
    for _ in range(paths):
        x, y, u, v = 0.9, 0.0, 0.0, 0.0
        for _ in range(steps):
            W = root * rng.standard_normal()
            a, b, c, d, change, size = x, y, u, v, 1.0, 0.0
            while change > TOL * (1.0 + size):
                r = math.sqrt(a * a + b * b)
                pull = STIFFNESS * (r - 1.0) / r
                a1, b1 = x + 0.5 * h * c, y + 0.5 * h * d
                c1, d1 = u + 0.5 * (0.2 * W * c - h * pull * a), v + 0.5 * (h * (1.0 - pull * b) + 0.4 * W * d)
                change = max(max(abs(a1 - a), abs(b1 - b)), max(abs(c1 - c), abs(d1 - d)))
                a, b, c, d = a1, b1, c1, d1
                size = max(max(abs(a), abs(b)), max(abs(c), abs(d)))
            x, y, u, v = 2.0 * a - x, 2.0 * b - y, 2.0 * c - u, 2.0 * d - v
        total += y
    return total / paths


def numba_generator(loop: Callable, paths: int, steps: int, h: float, threads: int) -> Callable[[], float]:
    """A loop that draws from np.random.Generator, path after path, everything in registers."""
    return shared(lambda part: loop(generator(part), paths // threads, steps, h), threads)


def numba_slabs(paths: int, steps: int, h: float, threads: int) -> Callable[[], float]:
    """The oscillator's loop over slabs that NumPy's Generator fills."""

    def part(number: int) -> float:
        rng, z, energies = generator(number), np.empty((SLAB, LANES)), []
        for _ in range(paths // threads // LANES):
            q, p = np.full(LANES, 2.0), np.zeros(LANES)
            for first in range(0, steps, SLAB):
                slab = z[: min(SLAB, steps - first)]
                rng.standard_normal(out=slab)
                kubo_slab(q, p, slab, h)
            energies.append(np.mean(0.5 * (q * q + p * p)))
        return float(np.mean(energies))

    return shared(part, threads)


def normals_alone(count: int, paths: int, steps: int, threads: int) -> Callable[[], float]:
    """Only the drawing: the normals that a run of stodyn takes, all of eight paths in one call."""

    def part(number: int) -> float:
        fill, z = path_normals_code.compiled().fill, np.empty((steps * count, path_normals.LANES))
        mine = np.arange(number * paths // threads, (number + 1) * paths // threads)
        states = path_normals.states(path_normals.key(1, "W"), mine)
        into = z.ctypes.data
        for state in range(states.ctypes.data, states.ctypes.data + states.nbytes, states[0].nbytes):
            fill(state, into, len(z), path_normals.LANES)
        return float(np.mean(z * z))

    return shared(part, threads)


# --- plain JAX -----------------------------------------------------------------------------------------------------


def scan_with_random(paths: int, steps: int, h: float, threads: int) -> Callable[[], float]:
    """The oscillator by lax.scan, jax.random drawing in every step."""
    strength, lanes = BETA * math.sqrt(h), paths // threads

    def step(state, key):
        q, p = state
        g = h + strength * jax.random.normal(key, (lanes,))
        q1, p1 = q + p * g, p - (q + NU * p) * g
        return (q + 0.5 * (p + p1) * g, p - 0.5 * (q + NU * p + q1 + NU * p1) * g), None

    @jax.jit
    def run(key):
        q, p = lax.scan(step, (jnp.full(lanes, 2.0), jnp.zeros(lanes)), jax.random.split(key, steps))[0]
        return jnp.mean(0.5 * (q * q + p * p))

    return shared(lambda part: float(run(jax.random.key(part))), threads)


def midpoint_by_vmap(problem: Any, paths: int, steps: int, h: float, observe: Callable) -> Callable[[], float]:
    """jax.vmap of the implicit midpoint rule, Newton with jnp.linalg.solve, fed with the normals stodyn is fed with.

    XLA shares the work out over its own threads: several such computations at once may wait for each other for ever.
    """
    lanes, slab = 4096, 50

    def solve(residual, x, r):
        return jnp.linalg.solve(jax.jacfwd(residual)(x), r)

    def step(x, z):
        noise = Increment(h, math.sqrt(h) * z)

        def residual(y):
            f, g = problem.f(0.0, y, problem.params), problem.g(0.0, y, problem.params)
            return y - x - 0.5 * (h * f + g @ noise.W)

        return 2.0 * newton(residual, x, tol=TOL, solve=solve).x - x

    @jax.jit
    def advance(x, z):
        return lax.scan(lambda x, z: (jax.vmap(step, in_axes=(0, 1))(x, z), None), x, z)[0]

    def run() -> float:
        means = []
        for block in range(paths // lanes):
            feed = DrawnNormals(1).feed((("W", problem.m),), block * lanes, lanes)
            x = jnp.tile(jnp.asarray(problem.start, float), (lanes, 1))
            for first in range(0, steps, slab):
                taken = min(slab, steps - first)
                x = jax.block_until_ready(advance(x, feed(taken)[0]))
            means.append(float(jnp.mean(observe(x.T))))
        return float(np.mean(means))

    return run


# --- diffrax -------------------------------------------------------------------------------------------------------

KEYS = {"threefry": "threefry2x32", "unsafe_rbg": "unsafe_rbg"}


def diffrax_by_vmap(solver, terms, start, observe, paths, steps, h, threads, keys) -> Callable[[], float]:
    """jax.vmap of diffeqsolve, as its documentation has ensembles: a key a path, the cheapest Brownian motion it has
    (UnsafeBrownianPath), constant steps, forward mode only, the last state alone, no checks."""
    import diffrax

    def one(key):
        solution = diffrax.diffeqsolve(
            terms(key, ()), solver, 0.0, steps * h, h, jnp.asarray(start), saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.ConstantStepSize(), adjoint=diffrax.ForwardMode(), max_steps=None, throw=False,
        )  # fmt: skip
        return solution.ys[0]

    return _spread(_by_vmap(one, paths // threads), observe, threads, keys)


def diffrax_by_steps(solver, terms, start, observe, paths, steps, h, threads, keys) -> Callable[[], float]:
    """The same without diffeqsolve: solver.step in a lax.scan."""

    def one(key):
        problem, y = terms(key, ()), jnp.asarray(start)

        def step(carry, n):
            y, state = carry
            y, _, _, state, _ = solver.step(problem, n * h, (n + 1) * h, y, None, state, False)
            return (y, state), None

        return lax.scan(step, (y, solver.init(problem, 0.0, h, y, None)), jnp.arange(steps))[0][0]

    return _spread(_by_vmap(one, paths // threads), observe, threads, keys)


def diffrax_in_one_state(solver, terms, start, observe, paths, steps, h, threads, keys) -> Callable[[], float]:
    """One diffeqsolve whose state holds all the paths of a thread: one key and one draw a step serve them all."""
    import diffrax

    lanes = paths // threads

    def all_at_once(key):
        solution = diffrax.diffeqsolve(
            terms(key, (lanes,)), solver, 0.0, steps * h, h, jnp.tile(jnp.asarray(start)[:, None], lanes),
            saveat=diffrax.SaveAt(t1=True), stepsize_controller=diffrax.ConstantStepSize(),
            adjoint=diffrax.ForwardMode(), max_steps=None, throw=False,
        )  # fmt: skip
        return solution.ys[0]

    return _spread(all_at_once, observe, threads, keys)


def _by_vmap(one, paths: int) -> Callable:
    return lambda key: jax.vmap(one, out_axes=-1)(jax.random.split(key, paths))


def _spread(solve, observe, threads, keys) -> Callable[[], float]:
    run = jax.jit(lambda key: jnp.mean(observe(solve(key))))
    return shared(lambda part: float(run(jax.random.key(part, impl=KEYS[keys]))), threads)


DIFFRAX = {
    "vmap of diffeqsolve": diffrax_by_vmap,
    "vmap of solver.step in lax.scan": diffrax_by_steps,
    "all paths in one state": diffrax_in_one_state,
}


def diffrax_terms(drift: Callable, product: Callable, noises: tuple[int, ...]) -> Callable:
    """terms(key, lanes) of dx = drift(x) dt + product(x, dW); arrays have the paths last, if there are any."""
    import diffrax
    import lineax

    def terms(key, lanes):
        path = diffrax.UnsafeBrownianPath(shape=(*noises, *lanes), key=key)
        shape = jax.ShapeDtypeStruct((*noises, *lanes), jnp.float64)

        def diffusion(t, x, args):
            return lineax.FunctionLinearOperator(lambda W: product(x, W), shape)

        return diffrax.MultiTerm(diffrax.ODETerm(lambda t, x, args: drift(x)), diffrax.ControlTerm(diffusion, path))

    return terms


# --- PyTorch and NumPy ---------------------------------------------------------------------------------------------


def kubo_by_torchsde(paths: int, steps: int, h: float, threads: int) -> Callable[[], float]:
    import torch
    import torchsde

    torch.set_num_threads(threads)

    class Oscillator:
        noise_type, sde_type = "scalar", "stratonovich"

        def f(self, t, x):
            return torch.stack([x[:, 1], -(x[:, 0] + NU * x[:, 1])], dim=1)

        def g(self, t, x):
            return BETA * self.f(t, x)[:, :, None]

    def run() -> float:
        with torch.no_grad():
            start = torch.tensor([2.0, 0.0], dtype=torch.float64).repeat(paths, 1)
            times = torch.tensor([0.0, steps * h], dtype=torch.float64)
            # Told the step, its Brownian motion builds its tree at once; left to guess, it may not come back.
            motion = torchsde.BrownianInterval(0.0, steps * h, size=(paths, 1), dtype=torch.float64, dt=h)
            x = torchsde.sdeint(Oscillator(), start, times, bm=motion, dt=h, method="heun")[-1]
            return float((0.5 * (x * x).sum(dim=1)).mean())

    return run


def kubo_by_sdeint(steps: int, h: float) -> Callable[[], float]:
    """One path: the package has no ensembles."""
    import sdeint

    def f(x, t):
        return np.array([x[1], -(x[0] + NU * x[1])])

    def g(x, t):
        return BETA * f(x, t)[:, None]

    def run() -> float:
        x = sdeint.stratHeun(f, g, np.array([2.0, 0.0]), h * np.arange(steps + 1))[-1]
        return float(0.5 * (x @ x))

    return run
