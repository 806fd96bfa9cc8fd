"""Adams methods for x' = f(t, x) + g(t, x) w, w white noise: Adams-Bashforth, and Adams-Moulton predictor-correctors.

The method's state holds the history h F_(n-1), h F_(n-2), ... of derivatives. If it contains noise, a sample of
covariance γQ/h acts in several steps; γ = Γ = 1/Σ (total weight of a sample)² gives the covariance of the continuous
process as h -> 0. Γ is 1 for Bashforth, PEC and held samples, and 1/(α² + (1-α)²) for P(EC)^k E with fresh samples,
where α is the corrector's weight of the new derivative: 32/17 for order 4.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction
from fractions import Fraction as Q
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from stodyn.hints import is_integer
from stodyn.methods.classical import RK4, known_calculus, neither, weighted
from stodyn.methods.contract import EXPLICIT, Claim, Method, Report
from stodyn.noise import wiener
from stodyn.noise.increment import Recipe
from stodyn.noise.stages import Stages
from stodyn.problems.calculus import correction
from stodyn.problems.sde import SDE

# The weights of F_n, F_(n-1), ... in the explicit formulas, and of F_(n+1), F_n, ... in the implicit ones.
BASHFORTH = {
    1: (Q(1),),
    2: (Q(3, 2), Q(-1, 2)),
    3: (Q(23, 12), Q(-16, 12), Q(5, 12)),
    4: (Q(55, 24), Q(-59, 24), Q(37, 24), Q(-9, 24)),
    5: (Q(1901, 720), Q(-2774, 720), Q(2616, 720), Q(-1274, 720), Q(251, 720)),
}
MOULTON = {
    2: (Q(1, 2), Q(1, 2)),
    3: (Q(5, 12), Q(8, 12), Q(-1, 12)),
    4: (Q(9, 24), Q(19, 24), Q(-5, 24), Q(1, 24)),
    5: (Q(251, 720), Q(646, 720), Q(-264, 720), Q(106, 720), Q(-19, 720)),
}
PLACEMENTS = ("increment", "history")
STARTERS = ("rk4", "adams", "rk4-resampled")
MODES = ("PEC", "PECE")
PREDICTORS = ("bashforth", "rk4")

_ADAMS = "J. C. Adams in F. Bashforth, An attempt to test the theories of capillary action (1883)"
_RIGGS = "T. L. Riggs, Modeling continuous-time random processes in digital computer simulations (1986)"


class History(NamedTuple):
    """The state x and h F of the last steps, the newest first."""

    x: Array
    hF: tuple[Array, ...]

    def moved(self, x: Array, hF: Array) -> History:
        """The history with a new x and a new derivative; the oldest derivative is dropped."""
        return History(x, (hF, *self.hF)[: len(self.hF)])


@dataclasses.dataclass(frozen=True)
class AdamsBashforth(Method):
    """The explicit Adams formula of order 2 to 4 with noise: x_(n+1) = x_n + h Σ_j b_j F_(n-j) [+ g W].

    Take it where f is expensive and smooth: one evaluation of f and g per step. Strong order 1/2 (1 for additive noise
    with "increment"), weak order 1. All steps must be equal. Stable for real z = hA above -1 (order 2), -6/11 (3),
    -3/10 (4).

    Parameters
    ----------
    order : 2, 3 or 4
        The order of the formula.
    placement : "increment" or "history"
        "increment" (the default): F = f, and one increment g(t_n, x_n) W is added outside the history. In the steady
        state of x' = A x + w the relative error of the variance is z²/12 (AB3, AB4) or z²/2 (AB2); no starting spike.
        "history": F = f + g w with one sample per step, as in a simulator that draws its noise in the derivative. This
        too solves the Ito equation, but the state jitters: the variance is 4.17 hQ too large for order 4.
    starter : "rk4", "adams" or "rk4-resampled"
        How the first order-1 steps are made. "rk4" (the default): by the classical Runge-Kutta step of the drift for
        "increment"; for "history" with fresh noise 3.6 Q/h, whose first derivative stays in the history and leaves a
        spike. "adams": by the formulas of order 1, 2, 3. "rk4-resampled" (for "history" only): as "rk4", but the
        derivatives that stay are evaluated with samples of their own.
    gamma : float, optional
        The samples of "history" have the variance gamma Q/h; 1 by default.
    """

    order: int = dataclasses.field(repr=False)
    placement: str = "increment"
    starter: str = "rk4"
    gamma: float | None = None

    accepts = SDE
    calculus = "ito"
    citation = f"{_ADAMS}; with noise: {_RIGGS}"

    def __post_init__(self):
        _check("order", self.order, (2, 3, 4))
        _check("placement", self.placement, PLACEMENTS)
        _check("starter", self.starter, STARTERS if self.placement == "history" else STARTERS[:2])
        _check_gamma(self.gamma)
        if self.gamma is not None and self.placement == "increment":
            raise ValueError("gamma: an increment outside the history needs no factor; take placement='history'")

    @property
    def name(self):
        return f"AB{self.order}"

    @property
    def summary(self) -> str:
        noise = "one increment outside the history" if self.placement == "increment" else "noise in the history"
        return f"Adams-Bashforth of order {self.order}, {noise}"

    @property
    def claims(self):
        if self.gamma is not None:
            return ()
        claims = [
            Claim("deterministic", float(self.order if self.starter != "adams" else 2), source="order of the formulas"),
            Claim("weak", 1.0, source="Buckwar & Winkler (2006)"),
            Claim("strong", 0.5, source="Buckwar & Winkler (2006)"),
        ]
        if self.placement == "increment":
            claims.append(Claim("strong", 1.0, when=("additive",), source="Buckwar & Winkler (2006)"))
        return tuple(claims)

    @property
    def Gamma(self) -> Fraction:
        """Γ of samples in the history: the total weight of each is Σ b_j = 1."""
        return 1 / Q(sum(BASHFORTH[self.order])) / sum(BASHFORTH[self.order])

    @property
    def kappa(self) -> Fraction:
        """κ = 0 (Ito): no sample multiplies a g of a state that contains this sample."""
        return Q(0)

    @functools.cached_property
    def needs(self) -> Recipe:
        if self.placement == "increment" or self.starter == "adams":
            return wiener.W
        stages = _fresh().needs
        assert isinstance(stages, Stages)
        if self.starter == "rk4":
            return stages
        factor = (*((*row, 0.0) for row in stages.factor), (*(0.0 for _ in stages.factor[0]), 1.0))
        return Stages(factor, (*stages.weights, 0.0))

    @property
    def starting_steps(self):
        return self.order - 1

    def start(self, problem, t, x, params):
        return History(x, (jnp.zeros_like(x),) * (self.order - 1))

    def read(self, state):
        return state.x

    def step(self, problem, t, state, noise, params):
        return self._advanced(BASHFORTH[self.order], problem, t, state, noise, params)

    def starting_step(self, k, problem, t, state, noise, params):
        if self.starter == "adams":
            # Step k takes the formula of order k + 1; the history is zero before the start.
            rows = [(*BASHFORTH[j], *(0,) * (self.order - j)) for j in range(1, self.order)]
            row = [_chosen(k, [float(r[j]) for r in rows]) for j in range(self.order)]
            return self._advanced(row, problem, t, state, noise, params)
        h = noise.h
        if self.placement == "increment":
            hf = _drift_stages(problem, t, state.x, h, params)
            x = weighted(state.x, RK4.b, hf) + problem.push(t, state.x, params, noise.W)
            return state.moved(x, hf[0]), EXPLICIT
        hk = _fresh().stages(problem, t, state.x, noise, params, RK4.b)
        derivative = hk[0]
        if self.starter == "rk4-resampled":
            derivative = self._scaled_derivative(problem, t, state.x, h, noise.aux["stages"][-1], params)
        return state.moved(weighted(state.x, RK4.b, hk), derivative), EXPLICIT

    def _advanced(self, row, problem, t, state, noise, params):
        h, W = noise.h, noise.W
        if self.placement == "history":
            hF = self._scaled_derivative(problem, t, state.x, h, W, params)
            outside = state.x
        else:
            hF = h * problem.f(t, state.x, params)
            outside = state.x + problem.push(t, state.x, params, W)
        x = outside + sum(_times(b, past) for b, past in zip(row, (hF, *state.hF), strict=True))
        return state.moved(x, hF), EXPLICIT

    def _scaled_derivative(self, problem, t, x, h, W, params):
        """Return h f + g h w with the sample w = √γ W/h."""
        hw = W if self.gamma is None else math.sqrt(self.gamma) * W
        return h * problem.f(t, x, params) + problem.push(t, x, params, hw)


@dataclasses.dataclass(frozen=True)
class AdamsMoulton(Method):
    """Predict, then correct by the implicit Adams formula of order 2 to 5: x' = x + h (α F' + Σ_j α_j F_(n-j)).

    Weak order 1; without noise, the order of the formula. corrections + 1 evaluations of f and g per step (4 more with
    "rk4"). All steps must be equal; the first order-1 are Runge-Kutta steps of the drift with one increment each.

    Parameters
    ----------
    order : 2, 3, 4 or 5
        The order of the formula.
    mode : "PECE" or "PEC"
        "PECE" (the default) evaluates the derivative once more after the last correction and keeps it in the history;
        "PEC" keeps the last derivative that was used.
    corrections : int or "converged"
        How many corrections. "converged": until one changes x by less than tol (1 + |x|).
    predictor : "bashforth" or "rk4"
        The Adams-Bashforth formula of the same order, or the classical Runge-Kutta step.
    noise : "fresh" or "held"
        "fresh" (the default): a new sample in every evaluation; Ito, Γ = 1/(α² + (1-α)²) for PECE, 1 for PEC. "held":
        one sample for all evaluations at the new time; Γ = 1, and κ is α(1-α) for one correction, α for more. This is
        neither Ito nor Stratonovich and takes additive noise alone, unless it is compensated.
    gamma : float, optional
        Used in place of Γ, to show the effect of a wrong scaling.
    compensate : bool
        Subtract κ Σ_k (∂g_k/∂x) g_k from the drift, so that the scheme solves the Ito equation.
    tol, limit
        The tolerance and the largest number of corrections for "converged".
    """

    order: int = dataclasses.field(repr=False)
    mode: str = "PECE"
    corrections: int | str = 1
    predictor: str = "bashforth"
    noise: str = "fresh"
    gamma: float | None = None
    compensate: bool = False
    tol: float = 1e-12
    limit: int = 50

    accepts = SDE
    citation = f"F. R. Moulton, New methods in exterior ballistics (1926); with noise: {_RIGGS}, with corrections"

    def __post_init__(self):
        _check("order", self.order, tuple(MOULTON))
        _check("mode", self.mode, MODES)
        _check("predictor", self.predictor, PREDICTORS)
        _check("noise", self.noise, ("fresh", "held"))
        _check_gamma(self.gamma)
        if self.corrections == "converged":
            if self.noise == "fresh":
                raise ValueError(
                    "corrections: with a fresh sample in every correction they do not converge; take noise='held'"
                )
        elif not is_integer(self.corrections):
            raise ValueError(f"corrections: expected a whole number >= 1 or 'converged', got {self.corrections!r}")

    @property
    def name(self):
        return f"AM{self.order}"

    @property
    def summary(self) -> str:
        return f"Adams-Moulton of order {self.order} ({self.mode}, {self.noise} noise)"

    @property
    def claims(self):
        if self.gamma is not None:
            return ()
        when = () if self.calculus else ("additive",)
        return (
            Claim("deterministic", float(self.order), source="order of the formulas"),
            Claim("weak", 1.0, when=when, source="total weights of the samples"),
        )

    @property
    def α(self) -> tuple[Fraction, ...]:
        return MOULTON[self.order]

    @property
    def Gamma(self) -> Fraction:
        """Γ = 1/Σ (total weight of a sample)²."""
        return 1 / sum((w**2 for w in self._weights), start=Q(0))

    @property
    def kappa(self) -> Fraction:
        """κ: 0 for fresh samples and PEC with one correction, else the weight of a sample in the states it acts on."""
        α, once = self.α[0], self.corrections == 1
        if self.noise == "fresh" or (once and self.mode == "PEC" and self.predictor == "bashforth"):
            return Q(0)
        if self.predictor == "rk4" and once:  # the predicted state contains the sample with the weight 1
            return α + (1 - α) * α if self.mode == "PECE" else Q(1)
        return α * (1 - α) if once else α

    @property
    def _weights(self) -> tuple[Fraction, ...]:
        """The total weight of every sample of a step, in the order in which they are drawn."""
        if self.noise == "held":
            return (Q(1),)
        own = (Q(0),) * (4 if self.predictor == "rk4" else 0)
        assert isinstance(self.corrections, int)
        last = (Q(1),) if self.mode == "PEC" else (self.α[0], 1 - self.α[0])
        return (*own, *(Q(0),) * (self.corrections - 1), *last)

    @property
    def calculus(self) -> str | None:
        return "ito" if self.compensate else known_calculus(self.kappa)

    def refusal(self, problem) -> str | None:
        if self.calculus is None and not problem.noise_structure.implies("additive"):
            return neither(self.spelling, self.kappa, problem)
        return None

    @functools.cached_property
    def needs(self) -> Recipe:
        weights = tuple(map(float, self._weights))
        if len(weights) == 1 and self.gamma is None:
            return wiener.W
        scale = math.sqrt(float(self.Gamma) if self.gamma is None else self.gamma)
        s = range(len(weights))
        return Stages(tuple(tuple(scale if i == j else 0.0 for j in s) for i in s), weights)

    @property
    def starting_steps(self):
        return self.order - 1

    def start(self, problem, t, x, params):
        return History(x, (jnp.zeros_like(x),) * self.order)

    def read(self, state):
        return state.x

    def step(self, problem, t, state, noise, params):
        h, x, past = noise.h, state.x, state.hF
        then = t + h
        samples = list(noise.aux["stages"]) if noise.aux is not None else [noise.W] * len(self._weights)
        held = self.noise == "held"

        def derivative(time, x, hw):
            return self._scaled_derivative(problem, time, x, h, hw, params)

        def next_sample():
            return samples[0] if held else samples.pop(0)

        if self.predictor == "bashforth":
            ahead = weighted(x, BASHFORTH[self.order], past)
        else:
            hk: dict[int, Any] = {}
            for i, c in enumerate(RK4.c):
                hk[i] = derivative(t + float(c) * h, weighted(x, RK4.A[i], hk), next_sample())
            ahead = weighted(x, RK4.b, hk)
        known = weighted(x, (0, *self.α[1:]), (None, *past))
        α = float(self.α[0])
        if self.corrections == "converged":
            hw = samples[0]

            def unfinished(carry):
                _, change, size, rounds = carry
                return ~(change <= self.tol * (1.0 + size)) & (change < jnp.inf) & (rounds < self.limit)

            def correct(carry):
                before, *_, rounds = carry
                after = known + α * derivative(then, before, hw)
                return after, jnp.max(jnp.abs(after - before)), jnp.max(jnp.abs(after)), rounds + 1

            huge = jnp.full((), jnp.finfo(x.dtype).max, x.dtype)
            begin = (ahead, huge, jnp.zeros_like(huge), jnp.asarray(0, jnp.int32))
            x, change, size, rounds = lax.while_loop(unfinished, correct, begin)
            report = Report(change <= self.tol * (1.0 + size), rounds)
            hF = derivative(then, x, hw)
            return state.moved(x, hF), report
        x = ahead
        for _ in range(int(self.corrections)):
            hF = derivative(then, x, next_sample())
            x = known + α * hF
        if self.mode == "PECE":
            hF = derivative(then, x, next_sample())
        return state.moved(x, hF), EXPLICIT

    def starting_step(self, k, problem, t, state, noise, params):
        h, x = noise.h, state.x
        hw = noise.W if noise.aux is None else noise.aux["stages"][-1]
        # No sample has been drawn for the derivative at the start: that of the first step is used.
        here = jnp.where(k == 0, self._scaled_derivative(problem, t, x, h, noise.W, params), state.hF[0])
        after = weighted(x, RK4.b, _drift_stages(problem, t, x, h, params)) + problem.push(t, x, params, noise.W)
        there = self._scaled_derivative(problem, t + h, after, h, hw, params)
        return History(x, (here, *state.hF[1:])).moved(after, there), EXPLICIT

    def _scaled_derivative(self, problem, t, x, h, hw, params):
        """Return h f + g h w, where h w are the samples, with the drift compensated on request."""
        drift = problem.f(t, x, params)
        if self.compensate and self.kappa:
            drift = drift - 2.0 * float(self.kappa) * correction(problem, t, x, params)
        return h * drift + problem.push(t, x, params, hw)


@functools.cache
def _fresh():
    """The classical Runge-Kutta step with a sample per stage."""
    return RK4(noise="fresh")


def _drift_stages(problem, t, x, h, params):
    """h f of the four stages of the classical Runge-Kutta step of the drift alone."""
    hf: dict[int, Any] = {}
    for i, c in enumerate(RK4.c):
        hf[i] = h * problem.f(t + float(c) * h if c else t, weighted(x, RK4.A[i], hf), params)
    return hf


def _chosen(k, values):
    """Return values[k], for a traced k."""
    result = values[-1]
    for j in reversed(range(len(values) - 1)):
        result = jnp.where(k == j, values[j], result)
    return result


def _times(b, values):
    return float(b) * values if isinstance(b, Fraction) else b * values


def _check(name: str, value: Any, allowed: tuple) -> None:
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {allowed}, got {value!r}")


def _check_gamma(gamma: float | None) -> None:
    if gamma is not None and not (math.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma: expected a factor > 0, got {gamma!r}; leave it out to use Γ")


AB2, AB3, AB4 = (AdamsBashforth(order) for order in (2, 3, 4))
AM2, AM3, AM4, AM5 = (AdamsMoulton(order) for order in (2, 3, 4, 5))
