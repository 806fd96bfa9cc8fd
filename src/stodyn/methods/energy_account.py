"""What steps of a method do to the energy of bodies, beside what the equations do.

For each step from z to z_h the equations are followed from z to z_e by shorter steps, under the same noise. What the
step makes of the energy by itself is then

    δ = ½ π_h·u_h - ½ π_e·u_e - ∫ F·dq  from q_e to q_h,

with velocities u, momenta π, and F the forces on bodies at rest: no potential need be known, and damping and noise,
which both have, do not count. Along a path of the method δ adds up to the energy that its steps give and take.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.methods.surfaces import Equations, equations_of
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.contract import written_as
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.structure import depends_on_time

SUBSTEPS = 8  # of Runge and Kutta's method of order 4, in one of the method
BETWEEN = (np.arange(8) + 0.5) / 8.0  # where F is taken between q_e and q_h
FEW = 20_000  # steps, all of which are looked at
BENT, OTHERS = 0.08, 17  # share of more along which forces change most, and one of so many others
STEEPER = 4.0  # times as steep as in most states
PROBES = 5  # states at which it is seen which components are velocities


class Steps(NamedTuple):
    """Steps of paths: their times and lengths (..., steps), states (..., steps, paths, n) before and after them, the
    noise W and Z (..., steps, paths, m), and the parameters, with their axes over paths: 0, or None of common ones."""

    t: np.ndarray
    h: Any
    before: np.ndarray
    after: np.ndarray
    W: np.ndarray
    Z: np.ndarray
    params: Any
    axes: Any


class Account(NamedTuple):
    """What steps (..., steps, paths) make of the energy: δ of each, and at its beginning the energy of motion and the
    powers of damping and noise, NaN where these are not computed."""

    gained: np.ndarray
    moving: np.ndarray
    damped: np.ndarray
    driven: np.ndarray


class Virial(NamedTuple):
    """Of paths (paths, coordinates): the integral of q' v, and by how much the integral of q' v + q v' is more than
    what q v becomes."""

    moving: np.ndarray
    missing: np.ndarray


class Bodies:
    """The equations of bodies, where positions at the places `q` have the velocities, or momenta, at the places `v`;
    `signs`: -1 where positions fall as velocities grow. `is_loaded`: whether time enters the equations."""

    def __init__(self, equations: Equations, q: np.ndarray, v: np.ndarray, signs: np.ndarray | None = None):
        self.equations, self.q, self.v = equations, q, v
        self.signs = np.ones(len(q)) if signs is None else signs
        problem = equations.problem
        self.is_loaded = depends_on_time(equations.rates, equations.start, problem.example_params())
        self.periods = np.array([p or np.inf for p in getattr(problem, "periods", None) or [None] * len(q)])
        self.is_ito = equations.noise_varies and problem.calculus == "ito"
        self._functions: dict[tuple[str, str], AtPoints] = {}
        self.loads = np.arange(2 * len(q), len(equations.start)) if isinstance(problem, Mechanical) else q[:0]

    @functools.cached_property
    def is_pumped(self) -> bool:
        """Whether time enters the slopes of the equations."""
        equations, params = self.equations, self.equations.problem.example_params()
        return self.is_loaded and depends_on_time(jax.jacfwd(equations.rates, argnums=1), equations.start, params)

    def account(self, steps: Steps, substeps: int = SUBSTEPS) -> Account:
        """What the steps of a method make of the energy; δ is counted for the steps along which forces change most, and
        for one of OTHERS of the rest, that many times."""
        points, axes = steps.before.shape[:-1], steps.axes
        each = np.broadcast_to(steps.h, steps.t.shape)
        rates, energies, force, faster = (
            self._at_points(name, axes, count)
            for name, count in (("_rates", 3), ("_energies", 2), ("_force", 2), ("_faster", 3))
        )
        count, moved = int(np.prod(points)), (steps.after - steps.before)[..., self.loads]
        own = 0 if self.equations.kicks is None else steps.W.shape[-1]  # without noise an SDE has a channel of zeros
        W, Z = (
            np.concatenate([steps.W[..., :own], moved], axis=-1),
            np.concatenate([steps.Z[..., :own], 0.5 * each[..., None, None] * moved], axis=-1),
        )
        t, h, W, Z, before, after = (
            np.broadcast_to(values, (*points, *values.shape[len(points) :])).reshape(
                count, *values.shape[len(points) :]
            )
            for values in (steps.t[..., None], each[..., None], W, Z, steps.before, steps.after)
        )
        path = np.broadcast_to(np.arange(points[-1]), points).ravel()

        everywhere = _of_paths(steps.params, axes, path)
        change = force(t + h, after, everywhere) - force(t, before, everywhere)
        score = np.abs((change * self._displacement(before, after)[:, self.q]).sum(axis=1))
        others = OTHERS if count > FEW else 1
        is_one = np.arange(count) % others == 0
        is_bent = ~(score <= np.quantile(score, 1.0 - BENT)) & ~(before == after).all(axis=1)
        chosen = np.flatnonzero(is_bent | is_one)
        t, h, W, Z, before, after = (values[chosen] for values in (t, h, W, Z, before, after))
        params, end = _of_paths(steps.params, axes, path[chosen]), t + h
        followed = _followed(lambda s, z, ξ: rates(s, z, ξ, params), t, h, before, W, Z, substeps)
        apart, work = self._displacement(followed, after), np.zeros(len(t))
        for share in BETWEEN:
            work += (force(end, followed + share * apart, params) * apart[:, self.q]).sum(axis=1) / len(BETWEEN)
        gained = faster(end, followed, after, params) - work
        gained[self._touches(end, after, params, axes) | self._touches(t, before, params, axes)] = 0.0
        account = np.full((4, len(path)), np.nan)
        account[0] = 0.0
        account[0, chosen] = np.where(is_bent[chosen], gained, others * gained)
        account[1:, is_one] = energies(t, before, params)[is_one[chosen]].T
        return Account(*account.reshape(4, *points))

    def virial(self, steps: Steps) -> Virial | None:
        """The virial theorem along windows of steps (windows, steps, paths), with positions from where these begin;
        None where the drift of v is not in Ito's sense, or lacks what stops do."""
        problem = self.equations.problem
        has_stops = isinstance(problem, Mechanical) and bool(problem.motion.stops)
        if has_stops or (self.equations.noise_varies and problem.calculus != "ito"):
            return None
        z, points = steps.before, steps.before.shape[:-1]
        t, h = (np.broadcast_to(own[..., None], points) for own in (steps.t, np.broadcast_to(steps.h, steps.t.shape)))
        params = _of_paths(steps.params, steps.axes, np.broadcast_to(np.arange(points[-1]), points).ravel())
        rates = self._at_points("_drift", steps.axes)(t.ravel(), z.reshape(-1, z.shape[-1]), params).reshape(z.shape)
        q, v = (places[~np.isfinite(self.periods)] for places in (self.q, self.v))
        begun, end = z[:, :1, :, q], steps.after[:, -1]
        with np.errstate(all="ignore"):
            moving = rates[..., q] * z[..., v] * h[..., None]
            pulled = rates[..., v] * (z[..., q] - begun) * h[..., None]
            became = end[..., v] * (end[..., q] - begun[:, 0])
            return Virial(moving.sum(axis=(0, 1)), (moving + pulled).sum(axis=(0, 1)) - became.sum(axis=0))

    def is_steep(self, t: np.ndarray, z: np.ndarray, starts: int) -> bool:
        """Whether forces are much steeper in some of the states (points, n) that paths come to than in most, or than in
        those that they start from, which come first."""
        slopes = np.asarray(self.equations.slopes(t, z))[:, self.v[:, None], self.q]
        if not np.isfinite(slopes).all():
            return False
        steepness = np.linalg.norm(slopes, 2, axis=(1, 2))
        usual = min(np.median(steepness), np.median(steepness[:starts]))
        return bool(steepness.max() > STEEPER * usual)

    def numbers_of_slopes(self, t: np.ndarray, z: np.ndarray) -> int:
        """How many numbers are computed for the slopes of the forces in one state."""
        return self.equations.slopes.numbers_made(t, z)

    def energies(self, t: np.ndarray, z: np.ndarray, params: Any, axes: Any) -> np.ndarray:
        """The energies of motion (times, paths) of states (times, paths, n)."""
        path = np.tile(np.arange(z.shape[1]), len(t))
        own = _of_paths(params, axes, path)
        at = np.repeat(t, z.shape[1]), z.reshape(len(path), -1)
        values = self._at_points("_energies", axes)(*at, own)
        return values[:, 0].reshape(z.shape[:2])

    def _at_points(self, name: str, axes: Any, count: int = 2) -> AtPoints:
        """A function of t, z and so on, `count` arguments with points first, and of parameters."""
        key = name, str(axes)
        if key not in self._functions:
            self._functions[key] = AtPoints(getattr(self, name), (*(0,) * count, axes))
        return self._functions[key]

    def _displacement(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        apart = end - begin
        turns = np.rint(apart[:, self.q] / self.periods)
        apart[:, self.q] -= np.where(np.isfinite(self.periods), turns * np.nan_to_num(self.periods, posinf=0.0), 0.0)
        return apart

    def _rates(self, t: Array, z: Array, ξ: Array, params: Any) -> Array:
        """dz/dt under a smooth noise ξ, which is that of Stratonovich's calculus, and under loads that move as those of
        the method do."""
        rates, kicks = self.equations.rates(t, z, params), self.equations.kicks
        rates, m = rates.at[self.loads].set(ξ[len(ξ) - len(self.loads) :]), len(ξ) - len(self.loads)
        if not m:
            return rates
        g = kicks(t, z, params)[:, :m].at[self.loads].set(0.0)
        if self.is_ito:
            moved = [jax.jvp(lambda z, k=k: kicks(t, z, params)[:, k], (z,), (g[:, k],))[1] for k in range(m)]
            rates = rates - 0.5 * sum(moved, jnp.zeros_like(rates))
        return rates + g @ ξ[:m]

    def _touches(self, t: np.ndarray, z: np.ndarray, params: Any, axes: Any) -> np.ndarray:
        """Where bodies touch stops that are elements, whose methods judge themselves."""
        problem = self.equations.problem
        if not isinstance(problem, Mechanical) or not problem.motion.stops:
            return np.zeros(len(t), bool)

        return np.asarray(self._at_points("_pressed", axes)(t, z, params))

    def _pressed(self, t: Array, z: Array, params: Any) -> Array:
        y, v, motion = z[self.q], z[self.v], self.equations.problem.motion
        own, bare = (part.acceleration(t, y, v, y[:0], params) for part in (motion, motion.without_stops))
        return jnp.any(own != bare)

    def _drift(self, t: Array, z: Array, params: Any) -> Array:
        return self.equations.rates(t, z, params)

    def _momentum(self, t: Array, z: Array, a: Array, params: Any) -> Array:
        """The momentum of velocities a, or its change by changes a of them; a problem that is no Mechanical has
        momenta, or no masses."""
        problem = self.equations.problem
        if not isinstance(problem, Mechanical):
            return jnp.asarray(self.signs) * a
        N = len(self.q)
        return problem.motion.mass_times(a, t, z[:N], z[N : 2 * N], z[:0], params)

    def _force(self, t: Array, z: Array, params: Any) -> Array:
        at_rest = z.at[self.v].set(0.0)
        return self._momentum(t, at_rest, self.equations.rates(t, at_rest, params)[self.v], params)

    def _faster(self, t: Array, before: Array, after: Array, params: Any) -> Array:
        """How much more energy of motion one state has than another beside it. Of an SDE whose velocities are any
        functions of what moves its positions it is that of the mean velocity between both."""
        first, last = (self.equations.rates(t, z, params)[self.q] for z in (before, after))
        mine, its = (self._momentum(t, z, z[self.v], params) for z in (before, after))
        if isinstance(self.equations.problem, (Mechanical, Hamiltonian)):
            return 0.5 * (last @ its - first @ mine)
        return 0.5 * (first + last) @ (its - mine)

    def _energies(self, t: Array, z: Array, params: Any) -> Array:
        """The energy of motion, and the powers of damping and noise."""
        rates = self.equations.rates(t, z, params)
        u = rates[self.q]
        moving = 0.5 * u @ self._momentum(t, z, z[self.v], params)
        damped = u @ (self._force(t, z, params) - self._momentum(t, z, rates[self.v], params))
        driven = jnp.zeros(())
        if self.equations.kicks is not None:
            for kick in self.equations.kicks(t, z, params).T:
                u_kick = jax.jvp(lambda z: self.equations.rates(t, z, params)[self.q], (z,), (kick,))[1]
                driven = driven + 0.5 * u_kick @ self._momentum(t, z, kick[self.v], params)
        return jnp.stack([moving, damped, driven])


def _of_paths(params: Any, axes: Any, path: np.ndarray) -> Any:
    return jax.tree.map(lambda axis, leaf: leaf if axis is None else np.asarray(leaf)[path], axes, params,
                        is_leaf=lambda axis: axis is None)  # fmt: skip


def _followed(
    rates: Any, t: np.ndarray, h: np.ndarray, z: np.ndarray, W: np.ndarray, Z: np.ndarray, substeps: int
) -> np.ndarray:
    """States after a step of the equations, under the noise linear in time that has those W and Z."""
    own, short = h[:, None], h[:, None] / substeps
    slope = (6.0 * W * own - 12.0 * Z) / own**2
    with np.errstate(all="ignore"):
        for k in range(substeps):
            begin, middle, end = (W / own + slope * ((k + part) / substeps - 0.5) for part in (0.0, 0.5, 1.0))
            s, half, next_ = (t + h * ((k + part) / substeps) for part in (0.0, 0.5, 1.0))
            k1 = rates(s, z, begin)
            k2 = rates(half, z + 0.5 * short * k1, middle)
            k3 = rates(half, z + 0.5 * short * k2, middle)
            k4 = rates(next_, z + short * k3, end)
            z = z + short / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
    return z


def _plain(problem: Any) -> Any:
    """An SDAE without constraints as the SDE that it is."""
    if not isinstance(problem, SDAE):
        return problem
    sde = written_as(problem, SDE)
    return sde if sde is not None and sde.n == problem.n else None


def bodies_of(problem: Any) -> Bodies | None:
    """The bodies of a problem; None of one that has none, is large or cannot be written as equations of first order."""
    plain = _plain(problem)
    equations = None if plain is None else equations_of(plain)
    if equations is None or (isinstance(problem, Mechanical) and problem.motion.slips):
        return None
    if isinstance(problem, (Mechanical, Hamiltonian)):
        N = problem.N if isinstance(problem, Mechanical) else problem.n // 2
        return Bodies(equations, np.arange(N), np.arange(N, 2 * N))
    q, v, signs = _velocities(equations)
    return Bodies(equations, q, v, signs) if len(q) else None


def _velocities(equations: Equations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, whose rates depend on one other component each, these as their velocities, and the signs in this;
    those that are constants times velocities, where there are any."""
    n, rng = len(equations.start), np.random.default_rng(0)
    size = 1.0 + np.abs(equations.start)
    z = equations.start + size * rng.standard_normal((PROBES, 1, n))
    z, t = np.concatenate([z, z + np.diag(size)], axis=1), np.repeat(rng.uniform(0.0, 1.0, PROBES), n + 1)
    with np.errstate(all="ignore"):
        rates = np.asarray(equations.f(t, z.reshape(-1, n))).reshape(PROBES, n + 1, n)
        change = (rates[:, 1:] - rates[:, :1]).swapaxes(1, 2)  # (probes, rates, components)
        ratios = rates[:, 0, :, None] / z[:, 0, None]
        is_constant = (np.ptp(ratios, axis=0) <= 1e-12 * np.abs(ratios[0])) & (ratios[0] > 0.0)
    signs = np.sign(change)
    is_moved = signs.any(axis=0)
    is_alone = (is_moved.sum(axis=1) == 1) & ~is_moved.diagonal() & (signs == signs[0]).all(axis=(0, 2))
    pairs = is_moved & is_alone[:, None]
    q, v = np.nonzero(pairs & is_constant if (pairs & is_constant).any() else pairs)
    is_plain = len(set(v)) == len(v) and not set(q) & set(v)
    return (q, v, signs[0, q, v]) if is_plain else (q[:0], v[:0], np.zeros(0))
