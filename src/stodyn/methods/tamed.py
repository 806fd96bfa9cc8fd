"""The tamed Euler method, whose paths stay bounded where the drift grows faster than linearly."""

import dataclasses

import jax.numpy as jnp

from stodyn.methods.contract import EXPLICIT, Claim, Method
from stodyn.noise import wiener
from stodyn.problems.sde import SDE


@dataclasses.dataclass(frozen=True)
class _TamedEuler(Method):
    """Tamed Euler for Ito problems: x' = x + h f/(1 + h |f|) + g W.

    Take it where the drift grows faster than linearly. There a few paths of the explicit Euler method diverge, and with
    them all moments; taming makes no step of the drift longer than 1. Strong order 1/2 (1 for additive noise). One
    evaluation of f and g per step.
    """

    accepts = SDE
    calculus = "ito"
    name = "TamedEuler"
    needs = wiener.W
    citation = (
        "M. Hutzenthaler, A. Jentzen & P. E. Kloeden, Strong convergence of an explicit numerical method for SDEs with "
        "nonglobally Lipschitz continuous coefficients, Ann. Appl. Prob. 22 (2012)"
    )
    claims = (
        Claim("strong", 0.5, source="Hutzenthaler, Jentzen & Kloeden (2012)"),
        Claim("strong", 1.0, when=("additive",), source="as Euler's step"),
        Claim("deterministic", 1.0),
    )

    def step(self, problem, t, x, noise, params):
        f = problem.f(t, x, params)
        tamed = noise.h * f / (1.0 + noise.h * jnp.sqrt(jnp.sum(f * f)))
        return x + (tamed + problem.push(t, x, params, noise.W)), EXPLICIT


TamedEuler = _TamedEuler()
