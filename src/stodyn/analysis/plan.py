"""Steps of different lengths, planned before anything is drawn from the equations of the mean and the covariance."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

from stodyn.engine.simulate import matched
from stodyn.methods.catalogue import named
from stodyn.methods.contract import Method
from stodyn.noise.distribution import is_random
from stodyn.problems import lowering
from stodyn.problems.contract import is_drawn
from stodyn.problems.linear import GaussianStart
from stodyn.problems.measured import Measured
from stodyn.problems.sde import SDE

SAFETY, SHORTER, LONGER = 0.9, 0.1, 2.0
FIRST = 1e-3  # of the interval: the first step that is tried
SHORTEST = 1e-9  # of the interval
GROWTH = 2.0  # by which a disturbance of the mean may grow over the interval
LOOKS = 8  # steps at the least with which the moments are followed over a step


@dataclasses.dataclass(frozen=True, eq=False)
class StepPlan:
    """Steps for a problem and a method: called with the interval (start, end), it gives their lengths; see `plan`."""

    problem: Any
    method: Method
    tol: float
    at: tuple[float, ...] = ()

    def __call__(self, t: Sequence[float]) -> np.ndarray:
        start, end = float(t[0]), float(t[1])
        with jax.enable_x64(True):
            return self._planned(start, end)

    def _planned(self, start: float, end: float) -> np.ndarray:
        now, m, P = start, *_initial(self.problem)
        span = end - start
        h, lengths, slopes = FIRST * span, [], np.zeros((len(m), len(m)))
        stops = [time for time in self.at if start + SHORTEST * span < time < end - SHORTEST * span] + [end]
        while end - now > SHORTEST * span:
            stop = next(time for time in stops if time - now > SHORTEST * span)
            wanted, h = h, min(h, stop - now)
            m_exact, P_exact, F = self._moments(now, h, m, P)
            m_step, P_step = (np.asarray(x) for x in self._stepped(now, h, m, P))
            spread = math.sqrt(np.trace(P_exact))
            error = max(
                _relative(P_step - P_exact, max(_norm(P), _norm(P_exact))),
                _relative(m_step - m_exact, _norm(m_exact) + spread),
            )
            change = SAFETY * (self.tol / max(error, 1e-300)) ** (1.0 / 3.0) if math.isfinite(error) else SHORTER
            if error <= self.tol:
                lengths.append(h)
                now, m, P, slopes = (stop if h == stop - now else now + h), m_exact, P_exact, slopes + F
                self._require_stable(slopes, now - start, now)
            elif h <= SHORTEST * span:
                raise ValueError(
                    f"plan: no step at t = {now:.6g} is short enough for tol = {self.tol:g} with {self.method.name}; "
                    "take a larger tol, or a method of a higher order"
                )
            cut = h < wanted and error <= self.tol  # a step cut short at a stop says nothing against the one wanted
            h = max(h * min(max(change, SHORTER), LONGER), wanted if cut else 0.0)
        return np.array(lengths)

    def _moments(self, now: float, h: float, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean and covariance of the process after h, and ∫ F dt of its linearisation along the mean."""
        n, size = len(m), max(np.abs(m).max(), math.sqrt(np.abs(P).max()), 1e-300)

        def slope(t, y):
            f, F, g, Dg = (np.asarray(x) for x in self._coefficients(t, y[:n]))
            P = y[n : n + n * n].reshape(n, n)
            noise = g @ g.T + np.einsum("iaj,jk,lak->il", Dg, P, Dg)
            return np.concatenate([f, (F @ P + P @ F.T + noise).ravel(), F.ravel()])

        y = np.concatenate([m, P.ravel(), np.zeros(n * n)])
        strength = np.abs(slope(now, y)[n : n + n * n]).max() * h
        scale = np.concatenate(
            [np.full(n, size), np.full(n * n, max(np.abs(P).max(), strength, 1e-300)), np.ones(n * n)]
        )
        with np.errstate(all="ignore"):
            found = scipy.integrate.solve_ivp(
                slope, (now, now + h), y, "DOP853", rtol=1e-3 * min(self.tol, 1e-3), atol=1e-4 * self.tol * scale,
                max_step=h / LOOKS,
            )  # fmt: skip
        y = found.y[:, -1]
        if not (found.success and np.isfinite(y).all()):
            raise ValueError(
                f"plan: the mean of the problem leaves the finite numbers near t = {found.t[-1]:.6g}, so that no steps "
                "can be planned along it. End the interval before, or give dt as a number."
            )
        return y[:n], y[n : n + n * n].reshape(n, n), y[n + n * n :].reshape(n, n)

    def _require_stable(self, slopes: np.ndarray, length: float, now: float) -> None:
        """Refuse a mean whose disturbances grow: by the eigenvalues of the average linearisation up to now."""
        rate = np.linalg.eigvals(slopes / length).real.max()
        if rate * length > math.log(GROWTH):
            raise ValueError(
                f"plan: the mean is unstable, a small disturbance of it has grown by the factor "
                f"{math.exp(rate * length):.3g} at t = {now:.6g}, and what is planned along the mean says nothing of "
                "the paths. Give dt as a number, or let every path refine its own steps with the method Dyadic."
            )

    @functools.cached_property
    def _coefficients(self) -> Callable:
        """(t, m) -> f, ∂f/∂x, g and ∂g/∂x of the Ito equation."""
        sde = self.problem if isinstance(self.problem, SDE) else self.problem.lower(SDE)[0]
        ito, params = lowering.to_ito(sde), self.problem.example_params()

        @jax.jit
        def at(t, m):
            slopes = (jax.jacfwd(lambda x, function=function: function(t, x, params))(m) for function in (ito.f, ito.g))
            F, Dg = slopes
            return ito.f(t, m, params), F, ito.g(t, m, params), Dg

        return at

    @functools.cached_property
    def _stepped(self) -> Callable:
        """(t, h, m, P) -> mean and covariance after a step of the method, to first order in h and the spread."""
        stepped, _ = matched(self.problem, self.method)
        method, params, c = self.method, self.problem.example_params(), self.method.needs.normals(stepped.m)
        ends = np.cumsum(list(c.values()))[:-1]

        @jax.jit
        def step(t, h, m, P):
            def after(x, ξ):
                noise = method.needs.increment(h, dict(zip(c, jnp.split(ξ, ends), strict=True)), stepped.m)
                state, report = method.step(stepped, t, method.start(stepped, t, x, params), noise, params)
                return jnp.where(report.ok, method.read(state), jnp.nan)

            quiet, units = jnp.zeros(sum(c.values())), jnp.eye(sum(c.values()))

            def mean(x):
                """E after to second order in the normals: what noise that depends on the state adds is in it."""

                def curvature(e):
                    return jax.jvp(lambda z: jax.jvp(lambda ξ: after(x, ξ), (z,), (e,))[1], (quiet,), (e,))[1]

                return after(x, quiet) + 0.5 * jnp.sum(jax.vmap(curvature)(units), axis=0)

            def by_noise(x):
                return jax.jacfwd(after, argnums=1)(x, quiet)

            M, G, DG = jax.jacfwd(mean)(m), by_noise(m), jax.jacfwd(by_noise)(m)
            return mean(m), M @ P @ M.T + G @ G.T + jnp.einsum("iaj,jk,lak->il", DG, P, DG)

        return step


def plan(problem: Any, method: Method | str, tol: float = 1e-3, at: Sequence[float] = ()) -> StepPlan:
    """Steps that keep a method's covariance right to `tol`, the same for all paths: simulate(..., dt=plan(...)).

    The mean and the covariance are followed along m' = f(m), P' = F P + P F' + g g' + Σ_k Dg_k P Dg_k', with the
    drift f and diffusion g of the Ito equation and their slopes F and Dg_k at m. A step h is accepted where the step's
    own linear map from them lands within tol of both (relative to the larger |P| of its ends, and for the mean to
    |m| + √tr P), and the next one is 0.9 h (tol/error)^(1/3). No path is looked at, nothing is drawn, so that the
    statistics are not touched. Exact for linear problems; others are linearised along the mean, and a mean that is
    unstable is refused. Called with an interval, plan(...)((0, 2)), it gives the lengths.

    at  times that steps must meet, so that statistics can look there
    """
    method = named(method)
    if not isinstance(method, Method):
        raise TypeError(f"method: expected a stepping method or its name, got {method!r}")
    if method.starting_steps:
        raise ValueError(f"method: {method.name} takes its history at equal steps; take a one-step method such as RK4")
    if hasattr(method.needs, "nodes"):
        raise ValueError(f"method: {method.name} takes discrete draws, which a plan cannot follow; take one with W")
    if not (math.isfinite(tol) and 0 < tol < 1):
        raise ValueError(f"tol: expected a relative error between 0 and 1, got {tol!r}")
    problem = problem.problem if isinstance(problem, Measured) else problem
    matched(problem, method)
    if any(is_random(leaf) for leaf in jax.tree.leaves(problem.params, is_leaf=is_drawn)):
        raise ValueError(
            "params: differ from path to path, and a plan is one for all; give it a problem with fixed ones"
        )
    return StepPlan(problem, method, float(tol), tuple(sorted(float(time) for time in at)))


def _norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(x))


def _relative(error: np.ndarray, size: float) -> float:
    return _norm(error) / max(size, 1e-300)


def _initial(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """The mean and covariance of the start; of a random one that is not normal, from 4096 draws."""
    start = problem.start
    if isinstance(start, GaussianStart):
        return start.mean, start.covariance
    if any(is_random(leaf) for leaf in jax.tree.leaves(start, is_leaf=is_random)):
        drawn = problem.draw_start(np.random.default_rng(0), range(4096))
        return drawn.mean(axis=0), np.cov(drawn.T).reshape(problem.n, problem.n)
    return np.asarray(problem.example_start(), float), np.zeros((problem.n, problem.n))
