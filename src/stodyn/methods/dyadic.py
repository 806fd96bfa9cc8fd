"""Adaptive steps: every path halves its own steps along its Brownian path, and no draw is ever repeated."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import check_positive
from stodyn.methods.catalogue import named
from stodyn.methods.classical import RK4
from stodyn.methods.contract import Method, Solver
from stodyn.noise import wiener
from stodyn.noise.increment import Increment
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems import lowering
from stodyn.problems.sde import SDE

DEEPEST = 30  # the most halvings of a step


@dataclasses.dataclass(frozen=True)
class _Dyadic(Solver):
    """Steps halved along each path where halves and whole differ: by more than tol.

    Take it where some paths need much shorter steps than others. The halves of an increment W over h are those of the
    same Brownian path, W₁ = W/2 + √h ξ/2 and W₂ = W - W₁ (the bridge), whether the step is accepted or not. No draw is
    repeated, so the law of W does not change. (Repeating the draw of a rejected step would shrink the variance, by a
    third and more.) An accepted step ends where its two halves end.

    It solves the equation that the base solves, on the Brownian paths that the same seed gives to every method. Steps
    chosen by the noise are right only if the base contains every term of second order in W that is not an area,
    ½ Σ (∂g_k/∂x) g_j W_j W_k (Stratonovich). The terms that Euler's step omits have mean zero over all paths, but not
    over those that are halved, so that its limit is another process; such bases are refused unless the noise is
    additive. An accepted step costs three steps of the base, and a block takes as many as its most refined path.

    Parameters
    ----------
    base : Method or str
        A one-step method, or its name, that needs W alone: RK4 with held samples, Heun, Milstein, ...
    tol : float
        A step is accepted where |two halves - whole| <= tol (floor + |x|) in every component.
    floor : float
        The size of x below which the error counts as absolute.
    """

    base: Any = RK4
    tol: float = 1e-3
    floor: float = 1.0

    accepts = SDE
    follows_paths = True
    name = "Dyadic"
    citation = (
        "J. G. Gaines & T. J. Lyons, Variable step size control in the numerical solution of stochastic differential "
        "equations, SIAM J. Appl. Math. 57 (1997) 1455-1484; J. Foster & A. Jelinčič, On the convergence of adaptive "
        "approximations for stochastic differential equations, arXiv 2311.14201 (2023)"
    )
    claims = ()

    def __post_init__(self):
        if isinstance(self.base, str):
            object.__setattr__(self, "base", named(self.base))
        if not takes_halves(self.base):
            raise ValueError(
                f"base: expected a one-step method for SDEs that needs W alone, such as RK4 or Heun, got {self.base!r}"
            )
        check_positive(tol=self.tol, floor=self.floor)

    @property
    def calculus(self):
        return self.base.calculus

    @property
    def structures(self):
        return self.base.structures

    def refusal(self, problem):
        reason = super().refusal(problem) or self.base.refusal(problem)
        if reason is None and not problem.noise_structure.implies("additive") and not follows_the_path(self.base):
            return (
                f"Dyadic chooses steps by their noise, and with such steps {self.base.name} converges to another "
                "process than this problem's: its step omits terms of second order in W, whose mean is then not zero. "
                "Take a base that has them, such as RK4, Heun or Milstein"
            )
        return reason

    def solve(self, problem, grid, start, params, streams):
        steps = _coarse_and_fine(self.base, problem)
        states = np.empty((len(grid), *start.shape))
        states[0] = start
        for k, h in enumerate(np.diff(grid)):
            W = np.sqrt(h) * streams["W"].standard_normal((problem.m, len(start))).T
            states[k + 1] = self._refined(steps, grid[k], h, states[k], W, params, streams["aux"])
        return states

    def _refined(self, steps, t, h, x, W, params, rng):
        """x (paths, n) after h; every path walks its own binary tree of halved steps, piece i of 2^level."""
        x, W = x.copy(), W.copy()
        level, piece = np.zeros((2, len(x)), int)
        waiting = np.empty((DEEPEST + 1, *W.shape))  # the increments of second halves, by their level
        going = np.isfinite(x).all(axis=1)
        while going.any():
            length = h / 2.0**level
            first = 0.5 * (W + np.sqrt(length)[:, None] * rng.standard_normal(W.shape))
            once, twice = steps(t + piece * length, length, x, W, first, params)
            fine = going & (np.abs(twice - once) <= self.tol * (self.floor + np.abs(x))).all(axis=1)
            lost = going & ~fine & (level == DEEPEST)
            halved = np.flatnonzero(going & ~fine & ~lost)
            level[halved] += 1
            piece[halved] *= 2
            waiting[level[halved], halved] = (W - first)[halved]
            W[halved] = first[halved]
            x[fine], x[lost] = twice[fine], np.nan
            piece[fine] += 1
            while (up := fine & (level > 0) & (piece % 2 == 0)).any():
                level[up] -= 1
                piece[up] //= 2
            going &= ~lost & ~(fine & (level == 0))
            turned = np.flatnonzero(fine & going)
            W[turned] = waiting[level[turned], turned]
        return x


def takes_halves(base: Any) -> bool:
    """Whether the steps of a method can be halved along a Brownian path: a one-step method for SDEs with W alone."""
    return (
        isinstance(base, Method)
        and issubclass(SDE, base.accepts)
        and base.needs == wiener.W
        and not base.starting_steps
    )


SPINS = np.array([[[0.3, -0.8], [0.5, 0.2]], [[-0.6, 0.4], [0.7, 0.1]]])  # two channels g_k = G_k x


@functools.lru_cache(maxsize=128)
def follows_the_path(base: Method) -> bool:
    """Whether a step of the base is x + Σ G_k x W_k + ½ (Σ G_k W_k)² x + O(h^(3/2)) for dx = Σ G_k x ∘ dW_k.

    This is tested with the most general noise that the base takes: two channels that do not commute, two that do, or
    one alone.
    """
    x, W = np.array([1.0, -0.7]), np.array([0.9, -1.3])
    for G in (SPINS, np.stack([SPINS[0], SPINS[0] @ SPINS[0]]), SPINS[:1]):
        problem = SDE(
            lambda t, x: jnp.zeros_like(x), lambda t, x, G=G: jnp.einsum("kij,j->ik", G, x), x, calculus="stratonovich"
        )
        if base.refusal(problem) is None:
            break
    else:
        return False
    converted = lowering.to_ito(problem) if base.calculus == "ito" else problem
    spin = np.einsum("kij,k->ij", G, W[: len(G)])
    roots = np.array([1e-2, 5e-3])

    def step(root):
        state = base.start(converted, jnp.zeros(()), jnp.asarray(x), None)
        with underived():
            return base.read(
                base.step(converted, jnp.zeros(()), state, Increment(root**2, root * W[: len(G)]), None)[0]
            )

    exact = [x + root * spin @ x + 0.5 * root**2 * spin @ spin @ x for root in roots]
    misses = np.abs(AtPoints(step, few=1)(roots) - exact).max(axis=1) / roots**2
    return misses[1] < 0.75 * misses[0] or misses[1] < 1e-9  # halves with √h where only O(h^(3/2)) is missing


def _coarse_and_fine(base: Method, problem: Any) -> Callable:
    """(t, h, x, W, first, params), all with an axis of paths -> x after h by one step, and by two half steps.

    One step is compiled, and taken three times: compiling the three together would take three times as long.
    """

    def stepped(t, h, x, W, params):
        with underived():
            after, report = base.step(problem, t, base.start(problem, t, x, params), Increment(h, W), params)
        return jnp.where(report.ok, base.read(after), jnp.nan)

    one = AtPoints(stepped)

    def both(t, h, x, W, first, params):
        middle = one(t, 0.5 * h, x, first, params)
        return one(t, h, x, W, params), one(t + 0.5 * h, 0.5 * h, middle, W - first, params)

    return both


Dyadic = _Dyadic()
