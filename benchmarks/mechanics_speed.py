"""How fast noisy mechanics runs: python benchmarks/mechanics_speed.py [--quick] [--only pendulum|beam]

1. The stiff spring pendulum by the stochastic α method, ρ = .4, Newton to 1e-10, 8192 paths x 400 steps of .01, against
   the same step written by hand: a two-thread Numba loop with the analytic Jacobian that draws from
   np.random.Generator (wanted: 1.3 times faster), jax.vmap with the 2 x 2 solve written out (1.4) and with
   jnp.linalg.solve (10). Normals of the last two are drawn by NumPy, slab by slab.
2. The elastic beam with n = 10, 20 and 40 elements, 1024 paths x 200 steps: wanted a growth exponent of 1.2 at most.
"""

import argparse
import json
import math
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numba
import numpy as np
from timing import Contender, load, machine, race, show

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods.alpha import StochasticAlpha
from stodyn.models.beam import BEAM
from stodyn.models.spring_pendulum import SPRING_PENDULUM

RHO, H, STIFFNESS, TOLERANCE, LIMIT = 0.4, 0.01, 2000.0, 1e-10, 20
AM, AF, BETA, GAMMA = (2 * RHO - 1) / (1 + RHO), RHO / (1 + RHO), 1 / (1 + RHO) ** 2, (3 - RHO) / (2 * (1 + RHO))
SPREAD = math.sqrt(7 / 3600)  # of what W and Z leave open of I_(1,1,0), over h²
THREADS, SLAB = 2, 50


def ours(paths, steps):
    def run():
        found = sd.simulate(SPRING_PENDULUM.problem, StochasticAlpha(rho=RHO, tol=TOLERANCE, limit=LIMIT), paths=paths,
                            t=(0.0, steps * H), dt=H, seed=1, threads=THREADS, progress=False,
                            collect=st.Moments(at=[steps * H]))  # fmt: skip
        return float(found["mean"].sel(component="y").isel(time=-1))

    return run


# --- by hand: one step of every path, Newton with the analytic Jacobian -----------------------------------------------


@numba.njit(nogil=True)
def by_hand(rng, steps, x, y, u, w, p, q):
    for _ in range(steps):
        for i in range(x.size):
            z0, z1, z2 = rng.standard_normal(), rng.standard_normal(), rng.standard_normal()
            W = math.sqrt(H) * z0
            Hb = math.sqrt(H / 12.0) * z1
            Z = H * (0.5 * W + Hb)
            I11 = 0.5 * (W * W - H)
            I110 = H * (W * W / 6.0 + 0.5 * Hb * W + 0.6 * Hb * Hb - 13.0 / 60.0 * H) + SPREAD * H * H * z2
            bx, by = 0.2 * u[i], 0.4 * w[i]
            r = math.sqrt(x[i] * x[i] + y[i] * y[i])
            lam = STIFFNESS * (r - 1.0) / r
            fx, fy = -x[i] * lam, -y[i] * lam + 1.0
            xs = x[i] + H * u[i] + H * H * (0.5 - BETA) * p[i] + bx * Z + 0.2 * bx * I110
            ys = y[i] + H * w[i] + H * H * (0.5 - BETA) * q[i] + by * Z + 0.4 * by * I110
            us = u[i] + H * (1.0 - GAMMA) * p[i] + bx * W + 0.2 * bx * I11
            ws = w[i] + H * (1.0 - GAMMA) * q[i] + by * W + 0.4 * by * I11
            kx, ky = AM * p[i] - AF * fx, AM * q[i] - AF * fy
            P, Q = p[i], q[i]
            for _ in range(LIMIT):
                X, Y = xs + BETA * H * H * P, ys + BETA * H * H * Q
                r = math.sqrt(X * X + Y * Y)
                lam = STIFFNESS * (r - 1.0) / r
                s = STIFFNESS / (r * r * r)
                rx = (1.0 - AM) * P + kx + (1.0 - AF) * X * lam
                ry = (1.0 - AM) * Q + ky + (1.0 - AF) * (Y * lam - 1.0)
                c = (1.0 - AF) * BETA * H * H
                a11, a12, a22 = 1.0 - AM + c * (lam + s * X * X), c * s * X * Y, 1.0 - AM + c * (lam + s * Y * Y)
                det = a11 * a22 - a12 * a12
                dx, dy = (a22 * rx - a12 * ry) / det, (a11 * ry - a12 * rx) / det
                big = 1.0 + max(abs(P), abs(Q))
                P, Q = P - dx, Q - dy
                if max(abs(dx), abs(dy)) <= TOLERANCE * big:
                    break
            x[i], y[i] = xs + BETA * H * H * P, ys + BETA * H * H * Q
            u[i], w[i] = us + GAMMA * H * P, ws + GAMMA * H * Q
            p[i], q[i] = P, Q


def numba_loop(paths, steps):
    def run():
        def block(seed):
            share = paths // THREADS
            state = [np.full(share, value) for value in (0.9, 0.0, 0.0, 0.0, 0.1 * STIFFNESS, 1.0)]
            by_hand(np.random.default_rng(seed), steps, *state)
            return state[1].mean()

        with ThreadPoolExecutor(THREADS) as pool:
            return float(np.mean(list(pool.map(block, range(THREADS)))))

    return run


# --- the same step in JAX, batched by vmap ----------------------------------------------------------------------------


def force(x):
    r = jnp.sqrt(x @ x)
    return -x * STIFFNESS * (r - 1.0) / r + jnp.array([0.0, 1.0])


def written_out(a, b):
    det = a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    return jnp.stack([a[1, 1] * b[0] - a[0, 1] * b[1], a[0, 0] * b[1] - a[1, 0] * b[0]]) / det


def step_with(solve):
    def step(state, z):
        x, v, φ = state
        W, Hb = math.sqrt(H) * z[0], math.sqrt(H / 12.0) * z[1]
        Z, I11 = H * (0.5 * W + Hb), 0.5 * (W * W - H)
        I110 = H * (W * W / 6.0 + 0.5 * Hb * W + 0.6 * Hb * Hb - 13.0 / 60.0 * H) + SPREAD * H * H * z[2]
        b = jnp.array([0.2, 0.4]) * v
        slope = jnp.array([0.2, 0.4]) * b
        xs = x + H * v + H * H * (0.5 - BETA) * φ + b * Z + slope * I110
        vs = v + H * (1.0 - GAMMA) * φ + b * W + slope * I11
        known = AM * φ - AF * force(x)

        def residual(p):
            return (1.0 - AM) * p + known - (1.0 - AF) * force(xs + BETA * H * H * p)

        def unfinished(carry):
            p, delta, count = carry
            return (count == 0) | ((delta > TOLERANCE * (1.0 + jnp.max(jnp.abs(p)))) & (count < LIMIT))

        def iterate(carry):
            p, _, count = carry
            d = solve(jax.jacfwd(residual)(p), residual(p))
            return p - d, jnp.max(jnp.abs(d)), count + 1

        p, _, _ = jax.lax.while_loop(unfinished, iterate, (φ, jnp.zeros(()), 0))
        return (xs + BETA * H * H * p, vs + GAMMA * H * p, p), None

    return step


def vmapped(paths, steps, solve):
    step = step_with(solve)

    @jax.jit
    def slab(state, z):  # z: (steps, 3, paths)
        return jax.lax.scan(lambda s, zn: (jax.vmap(step, in_axes=(0, 1))(s, zn)[0], None), state, z)[0]

    def run():
        with jax.enable_x64(True):
            rng = np.random.default_rng(0)
            start = (jnp.array([0.9, 0.0]), jnp.zeros(2), jnp.array([0.1 * STIFFNESS, 1.0]))
            state = tuple(jnp.broadcast_to(part, (paths, 2)) for part in start)
            for _ in range(0, steps, SLAB):
                state = slab(state, rng.standard_normal((SLAB, 3, paths)))
            return float(jnp.mean(state[0][:, 1]))

    return run


def pendulum(paths, steps, rounds):
    work = paths * steps
    contenders = [
        Contender("stodyn", ours(paths, steps), work),
        Contender("Numba, 2 threads, by hand", numba_loop(paths, steps), work),
        Contender("jax.vmap, solve written out", vmapped(paths, steps, written_out), work),
        Contender("jax.vmap, jnp.linalg.solve", vmapped(paths, steps, jnp.linalg.solve), work),
    ]
    race(contenders, rounds, patience=20.0)
    return show(f"spring pendulum, {paths} paths x {steps} steps", contenders, "E y(T)")


def beam(paths, steps, rounds):
    sizes, contenders = (10, 20, 40), []
    for n in sizes:

        def run(n=n):
            end = 0.01 * steps
            found = sd.simulate(BEAM(n=n).problem, StochasticAlpha(rho=0.8), t=(0.0, end), dt=0.01, paths=paths, seed=1,
                                threads=THREADS, progress=False, collect=st.Moments(at=[end]))  # fmt: skip
            return float(found["mean"].sel(component=f"th{n}").isel(time=-1))

        contenders.append(Contender(f"beam, n = {n}", run, paths * steps))
    race(contenders, rounds, patience=20.0)
    rows = show(f"beam, {paths} paths x {steps} steps", contenders, "E θ_n(T)")
    exponent = float(np.polyfit(np.log(sizes), np.log([c.ns for c in contenders]), 1)[0])
    seconds = min(contenders[-1].wall)
    print(f"growth exponent {exponent:.2f}; n = {sizes[-1]}: {seconds:.1f} s")
    return {"rows": rows, "exponent": exponent, "seconds": seconds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--only", choices=("pendulum", "beam"), help="one of the two")
    given = parser.parse_args()
    quick, parts = given.quick, (given.only,) if given.only else ("pendulum", "beam")
    result = {"machine": machine("jax", "numpy", "numba"), "load": load()}
    if "pendulum" in parts:
        result["pendulum"] = pendulum(8192, 50 if quick else 400, 2 if quick else 8)
    if "beam" in parts:
        result["beam"] = beam(64 if quick else 1024, 20 if quick else 200, 1 if quick else 2)
    print(json.dumps(result, indent=2))
