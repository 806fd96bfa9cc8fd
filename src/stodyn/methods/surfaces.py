"""Where the pieces of a drift meet, and what pushes a path back there.

Where a function made of pieces passes from one to the next, its Jacobian jumps by u wᵀ, with w normal to the surface
between the pieces. A path that meets the steeper piece moves along u by

    λ² - (wᵀu) λ - wᵀS u = 0,

S being the Jacobian of the other piece: it swings, or is pushed back at the rate -wᵀu, as by a stop in an equation of
first order. Surfaces are found along lines, by the decisions that the trace of the function takes, so that a piece need
not be wide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.noise.coloured.delay import Delayed
from stodyn.numerics.facts.degree import corners
from stodyn.numerics.printing.operations import has_loops
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.regions import region
from stodyn.problems.mechanical import Mechanical

MOST_STATES = 60  # of systems whose Jacobians are computed at many points
STEEPER = 2.0  # times that a stop is at least as stiff as what is beside it, and as the start
LINES, SCALES = 64, np.geomspace(1e-4, 1e4, 65)  # in search of surfaces, and places on them in units of a state's size
AT_START = 1e-12  # of the size of a state: how far from the start its piece is looked for
BISECTIONS, BESIDE = 30, 1e-7  # how exactly a surface is found, and how far from it its pieces are judged
PATHS = 64  # from the start
CROSSINGS = 16  # of each surface that are looked at
PARTS = 16  # of a line, in which slopes that jump are told from such as rise


class Equations:
    """dz = f dt + g dW of a problem without its elements, at many points, and the pieces of f.

    rates, kicks  f and g at one point, with parameters
    places        of its states among those of the problem
    noise_varies  whether g may depend on the state
    """

    def __init__(self, problem: Any, f: Callable, g: Any, places: np.ndarray):
        params = problem.example_params()

        def at_points(function: Callable, few: int = 0) -> AtPoints:
            return AtPoints(lambda t, z: function(t, z, params), few=few)

        self.problem, self.places, self.rates, self.kicks = problem, places, f, g
        self.noise_varies = g is not None and not problem.noise_structure.implies("additive")
        self.start = np.asarray(problem.example_start(), float)[places]
        self.f, self.pieces = at_points(f), at_points(region(f))
        self.g: Any = None if g is None else at_points(g)
        self.slopes = at_points(jax.jacfwd(f, argnums=1), few=1)

    def starts(self, rng: np.random.Generator) -> np.ndarray:
        """PATHS starts; those listed path by path in turns where they are fewer."""
        listed = int(min((PATHS, *(part.count for part in self.problem.start_parts))))
        draws = np.asarray(self.problem.draw_start(rng, range(listed)), float)
        return draws[np.arange(PATHS) % listed][:, self.places]


def equations_of(problem: Any) -> Equations | None:
    """The equations of first order of a problem; None of one that is large or that cannot be written so."""
    if problem.n > MOST_STATES:
        return None
    g = problem.g if problem.m else None
    if not isinstance(problem, Mechanical):
        return Equations(problem, problem.f, g, np.arange(problem.n))
    motion, noise, push, N = problem.motion.without_stops, problem.coloured, getattr(problem, "push", None), problem.N
    is_plain = motion.is_regular and problem.joints is None and not problem.own.hysteresis
    if not is_plain or isinstance(noise, Delayed):
        return None

    def own_rates(t, z, params):
        y, v = z[:N], z[N : 2 * N]
        return jnp.concatenate([v, motion.acceleration(t, y, v, y[:0], params)])

    if noise is None or push is None:
        return Equations(problem, own_rates, g, np.arange(2 * N))

    def rates(t, z, params):
        y, v, s = z[:N], z[N : 2 * N], z[2 * N :]
        pushed = jnp.concatenate([jnp.zeros(N), push(t, y, v, y[:0], params) @ (noise.C @ s)])
        return jnp.concatenate([own_rates(t, z, params) + pushed, noise.A @ s])

    def kicks(t, z, params):
        own = motion.kicks(t, z[:N], z[N : 2 * N], z[:0], params)
        return jax.scipy.linalg.block_diag(jnp.concatenate([jnp.zeros_like(own), own]), jnp.asarray(noise.B))

    own = problem.own.n
    return Equations(problem, rates, kicks, np.r_[: 2 * N, own : own + len(noise.A)])


def has_corners(problem: Any) -> bool:
    """Whether a drift has corners in the state, and its slopes at many points cost little."""
    params, start = problem.example_params(), np.asarray(problem.example_start(), float)

    def drift(x):
        return problem.f(0.0, x, params)

    with jax.enable_x64(True):
        trace = jax.make_jaxpr(drift)(start)
        return not has_loops(trace) and bool(corners(drift, (start,), 0))


class Surfaces(NamedTuple):
    """Surfaces between pieces, where lines cross them.

    t          when
    near, far  states (crossings, n) close beside them, before and behind
    decision   which of the decisions changes there
    line       which of the lines it is on
    """

    t: np.ndarray
    near: np.ndarray
    far: np.ndarray
    decision: np.ndarray
    line: np.ndarray


def crossed(
    equations: Equations, t: np.ndarray, a: np.ndarray, b: np.ndarray, of: np.ndarray | None = None, most: int = PATHS
) -> Surfaces:
    """Where lines from a to b (lines, n) at times t cross surfaces, so many of each; `of` picks decisions."""
    before, after = np.asarray(equations.pieces(t, a)), np.asarray(equations.pieces(t, b))
    lines, decisions = [], []
    for k in range(before.shape[1]) if of is None else of:
        changed = np.flatnonzero(before[:, k] != after[:, k])
        changed = changed[:: max(1, -(-len(changed) // most))]
        lines.append(changed)
        decisions.append(np.full(len(changed), k))
    line, decision = (np.concatenate(parts).astype(int) if parts else np.zeros(0, int) for parts in (lines, decisions))
    t, a, step, own = t[line], a[line], b[line] - a[line], before[line, decision]
    low, high = np.zeros(len(line)), np.ones(len(line))
    for _ in range(BISECTIONS if len(line) else 0):
        middle = 0.5 * (low + high)
        here = np.asarray(equations.pieces(t, a + middle[:, None] * step))
        is_before = here[np.arange(len(line)), decision] == own
        low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
    return Surfaces(t, a + (low - BESIDE)[:, None] * step, a + (high + BESIDE)[:, None] * step, decision, line)


def crossed_sharply(equations: Equations, t: np.ndarray, a: np.ndarray, b: np.ndarray, least: float) -> Surfaces:
    """Where slopes of at least a size jump on lines from a to b (lines, n) at times t, within a sixteenth of a line,
    whatever the trace of the function shows."""
    before, after = (np.abs(np.asarray(equations.slopes(t, states))) for states in (a, b))
    line = np.flatnonzero(_rises(before, after, least).any(axis=(1, 2)))[:CROSSINGS]
    shares = np.linspace(0.0, 1.0, PARTS + 1)
    places = a[line, None] + shares[:, None] * (b - a)[line, None]
    slopes = np.asarray(equations.slopes(np.repeat(t[line], len(shares)), places.reshape(-1, a.shape[1])))
    slopes = np.abs(slopes).reshape(len(line), len(shares), *slopes.shape[1:])
    is_sharp = _rises(slopes[:, :-1], slopes[:, 1:], least).any(axis=(2, 3))
    is_sharp &= (np.abs(np.diff(slopes, axis=1)) > 0.5 * slopes.max(axis=1, keepdims=True)).any(axis=(2, 3))
    own = np.flatnonzero(is_sharp.any(axis=1))
    k, line = np.argmax(is_sharp[own], axis=1), line[own]
    return Surfaces(t[line], places[own, k], places[own, k + 1], np.zeros(len(own), int), line)


def is_sharp_somewhere(
    equations: Equations, times: tuple[float, float], rng: np.random.Generator, least: float
) -> bool:
    """Whether slopes of at least a size rise, from one place to the next on lines from the start, as no smooth power
    does."""
    t, a, b = lines_from_start(equations, times, rng)
    states = np.concatenate([a, b[-LINES:]])
    slopes = np.abs(np.asarray(equations.slopes(np.concatenate([t, t[-LINES:]]), states)))
    return bool(_rises(slopes[:-LINES], slopes[LINES:], least).any())


def _rises(before: np.ndarray, after: np.ndarray, least: float) -> np.ndarray:
    """Which slopes are so much steeper on one side, and not flat there."""
    larger, smaller = np.maximum(before, after), np.minimum(before, after)
    return (larger >= STEEPER**2 * smaller) & (larger >= least)


def push_between(near: np.ndarray, far: np.ndarray, at_start: np.ndarray) -> float:
    """The rate at which the stop that a path from `near` to `far`, or back, meets pushes it back, by the Jacobians
    there and at the start; 0 where there is none."""
    jump = far - near
    if not (np.isfinite(jump).all() and jump.any()):
        return 0.0
    i, j = np.unravel_index(int(np.argmax(np.abs(jump))), jump.shape)
    soft, stiff = (near, far) if abs(near[i, j]) <= abs(far[i, j]) else (far, near)
    if abs(stiff[i, j]) < STEEPER**2 * max(abs(soft[i, j]), abs(at_start[i, j])):
        return 0.0
    jump = stiff - soft
    u, w = jump[:, j], jump[i] / jump[i, j]
    pushed, square = float(-w @ u), float(-w @ soft @ u)
    return pushed if pushed > 0.0 and pushed**2 >= 4.0 * square else 0.0


def thinned(surfaces: Surfaces, most: int) -> Surfaces:
    """At most so many of the crossings, evenly chosen, so that all surfaces that are crossed often are among them."""
    return Surfaces(*(values[:: max(1, -(-len(surfaces.t) // most))] for values in surfaces))


def pushes_at(equations: Equations, surfaces: Surfaces, t: np.ndarray, at_start: np.ndarray) -> list[float]:
    """The rates (times, crossings) of stops at surfaces, at their own times and at other ones t."""
    count = len(surfaces.t)
    if not count:
        return []
    times = np.concatenate([surfaces.t, *(np.full(count, moment) for moment in t)])
    near, far = (np.asarray(equations.slopes(times, np.tile(side, (len(t) + 1, 1)))) for side in surfaces[1:3])
    return [push_between(one, other, at_start) for one, other in zip(near, far, strict=True)]


def slopes_at_start(equations: Equations, t: float, rng: np.random.Generator) -> np.ndarray:
    """The Jacobian close beside the start, where it is least: a body may start just at a stop."""
    beside = equations.start + AT_START * _directions(equations, rng)
    slopes = np.asarray(equations.slopes(np.full(len(beside), t), beside))
    return slopes[np.argmin(np.linalg.norm(slopes, axis=(1, 2)))]


def lines_from_start(
    equations: Equations, times: tuple[float, float], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times and ways, the parts of lines from the start in many directions."""
    start, n = equations.start, len(equations.start)
    places = start + np.concatenate([[0.0], SCALES])[:, None, None] * _directions(equations, rng)  # (places, lines, n)
    t = np.tile(rng.uniform(*times, LINES), len(SCALES))
    return t, places[:-1].reshape(-1, n), places[1:].reshape(-1, n)


def _directions(equations: Equations, rng: np.random.Generator) -> np.ndarray:
    """Ways (lines, n) of a state's size."""
    sizes = np.where(np.abs(equations.start) > 0.0, np.abs(equations.start), 1.0)
    return sizes * rng.standard_normal((LINES, len(sizes)))
