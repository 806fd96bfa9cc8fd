"""Euler-Maruyama and stochastic Heun, the two explicit methods with which all others are compared."""

import dataclasses

from stodyn.methods.contract import EXPLICIT, Claim, Method
from stodyn.noise import wiener
from stodyn.problems.sde import SDE


@dataclasses.dataclass(frozen=True)
class _EulerMaruyama(Method):
    """Euler-Maruyama for Ito problems: x' = x + h f(t, x) + g(t, x) W.

    The simplest method, and the cheapest per step. Strong order 1/2 (1 for additive noise), weak order 1. One
    evaluation of f and g per step.
    """

    accepts = SDE
    calculus = "ito"
    name = "EulerMaruyama"
    needs = wiener.W
    citation = "G. Maruyama, Continuous Markov processes and stochastic equations, Rend. Circ. Mat. Palermo 4 (1955)"
    claims = (
        Claim("strong", 0.5, source="Kloeden & Platen (1992), Theorem 10.2.2"),
        Claim("strong", 1.0, when=("additive",), source="Kloeden & Platen (1992), section 10.2"),
        Claim("weak", 1.0, source="Kloeden & Platen (1992), Theorem 14.1.5"),
        Claim("deterministic", 1.0),
    )

    def step(self, problem, t, x, noise, params):
        # Drift and noise are summed first, so that a small drift beside a large x is not lost in float32.
        return x + (noise.h * problem.f(t, x, params) + problem.push(t, x, params, noise.W)), EXPLICIT


@dataclasses.dataclass(frozen=True)
class _Heun(Method):
    """Stochastic Heun for Stratonovich problems: the trapezoidal rule on an Euler prediction, in drift and noise.

    The usual first choice for commutative noise. Strong order 1 for commutative noise (1/2 otherwise), weak order 1.
    Two evaluations of f and g per step.
    """

    accepts = SDE
    calculus = "stratonovich"
    name = "Heun"
    needs = wiener.W
    citation = "W. Rümelin, Numerical treatment of stochastic differential equations, SIAM J. Numer. Anal. 19 (1982)"
    claims = (
        Claim("strong", 0.5, source="Rümelin (1982)"),
        Claim("strong", 1.0, when=("commutative",), source="Rümelin (1982)"),
        Claim("weak", 1.0, source="Kloeden & Platen (1992), section 14.1"),
        Claim("deterministic", 2.0),
    )

    def step(self, problem, t, x, noise, params):
        h, W = noise.h, noise.W
        here = h * problem.f(t, x, params) + problem.push(t, x, params, W)
        ahead = x + here
        there = h * problem.f(t + h, ahead, params) + problem.push(t + h, ahead, params, W)
        return x + 0.5 * (here + there), EXPLICIT


EulerMaruyama = _EulerMaruyama()
Heun = _Heun()
