"""A method of one's own, and the orders that it really has."""

import dataclasses
from typing import Any

import jax

import stodyn as sd
from stodyn.analysis.order import strong_order
from stodyn.methods.contract import EXPLICIT, Claim, Method, Report
from stodyn.noise import wiener


@dataclasses.dataclass(frozen=True)
class Corrector(Method):
    """Euler-Maruyama with a corrected drift."""

    accepts = sd.SDE
    calculus = "ito"
    name = "Corrector"
    needs = wiener.W
    citation = "an example"
    claims = (Claim("strong", 1.0, when=("additive",)), Claim("strong", 0.5))

    def step(self, problem: Any, t: Any, x: Any, noise: Any, params: Any) -> tuple[Any, Report]:
        slope, kick = problem.f(t, x, params), problem.push(t, x, params, noise.W)
        ahead = problem.f(t + noise.h, x + noise.h * slope + kick, params)
        return x + 0.5 * noise.h * (slope + ahead) + kick, EXPLICIT


def drift(t: jax.Array, x: jax.Array) -> jax.Array:
    return -x


def additive(t: jax.Array, x: jax.Array) -> jax.Array:
    return 0.5 + 0 * x


study = strong_order(sd.SDE(drift, additive, 1.0), Corrector(), steps=(8, 16, 32), paths=100, seed=1)
print(f"strong order between {study.attrs['order_low']:.2f} and {study.attrs['order_high']:.2f}")
